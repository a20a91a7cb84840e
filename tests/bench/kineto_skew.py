#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How far apart real PyTorch ranks of one host begin to record when they are told to begin at one instant.

    RANKSCOPE=build/rankscope tests/bench/kineto_skew.py [--captures 12] [--job busy|light|waiting] [--json]

busy: four ranks train as fast as they can (tests/e2e/torch/train_ddp.py); light: the same with a pause in each step, so that
cores are free; waiting: processes that multiply four numbers every 10 ms. Compared is the start of the profiler's own row in each rank's
trace ("PyTorch Profiler (0)"), which is when its thread woke up and began, with the other ranks' and with the
instant they were asked for. Wants: below 5 ms. The figures are printed as they are; the exit code is 1 when the median is not.
"""
import argparse
import json
import os
import re
import statistics
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "e2e", "torch"))
import test_torch  # noqa: E402

LIMIT_MS = 5.0
WAITING = """import time
import torch
x = torch.ones(4)
print("step 10 of none", flush=True)
while True:
    x = x * 1
    time.sleep(0.01)
"""


class SkewRig(test_torch.Rig):
    def capture_once(self):
        """(spread in ms, how long after the instant asked for each began, in ms)"""
        self.ask("capture", "--run", self.run, "--duration", "200ms", "--no-report")
        log = self.log_reader.read()
        found = re.findall(r"bytes of trace taken, from (\d+) to \d+, asked for (\d+) ms", log)
        starts = sorted(int(start) for start, _ in found)
        if len(starts) != test_torch.WORLD:
            raise SystemExit(f"{len(starts)} windows of {test_torch.WORLD} ranks")
        if starts[0] == 0:
            print(f"(left out: nothing was recorded in the window)\n{log}")
            return None
        return (starts[-1] - starts[0]) / 1e6, [round(start / 1e6 - int(found[0][1]), 3) for start in starts]


def start_job(rig, job, folder):
    script = "train_ddp.py"
    if job == "waiting":
        script = os.path.join(folder, "waiting.py")
        with open(script, "w", encoding="ascii") as file:
            file.write(WAITING)
    arguments = ("--pause-ms", "100") if job == "light" else ()
    rig.start_job(script, *arguments)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--captures", type=int, default=12)
    parser.add_argument("--job", choices=["busy", "light", "waiting"], default="busy")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    torchrun = test_torch.find_torch()
    skews = []
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="rs-skew-") as folder:
        rig = SkewRig(folder, torchrun)
        try:
            start_job(rig, args.job, folder)
            for k in range(args.captures):
                once = rig.capture_once()
                if once is None:
                    continue
                skew, late = once
                skews.append(skew)
                if not args.json:
                    print(f"capture {k + 1}: {skew:.3f} ms apart; after the instant asked for: {late} ms", flush=True)
        finally:
            rig.stop()
    skews.sort()
    facts = {"job": args.job, "captures": len(skews), "ranks": test_torch.WORLD, "cores": os.cpu_count(),
             "load": round(os.getloadavg()[0], 1), "min_ms": round(skews[0], 3), "median_ms": round(statistics.median(skews), 3),
             "max_ms": round(skews[-1], 3), "below_5_ms": sum(skew < LIMIT_MS for skew in skews)}
    print(json.dumps(facts))
    sys.exit(0 if facts["median_ms"] < LIMIT_MS else 1)


if __name__ == "__main__":
    main()
