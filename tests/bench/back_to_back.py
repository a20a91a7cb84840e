#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Captures back to back on a real PyTorch job: none is refused, none is empty, none is "complete" with too few steps.

    RANKSCOPE=build/dev/rankscope tests/bench/back_to_back.py [--captures 200] [--steps 2] [--minutes M]

The job, PyTorch and where it comes from: tests/e2e/torch/test_torch.py. Every capture is asked for as soon as the one before it is over, with no
options. Ends after M minutes with what was made by then. Prints a line for each capture that is not as it should be, the reason of each that is
partial, and one of figures; the exit code tells whether all were.
"""
import argparse
import json
import os
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e", "torch"))
import test_torch  # noqa: E402


def steps_by_rank(rig, capture):
    rows = json.loads(rig.ask("table", capture, "step_device", "--json", codes=(0, 1)).stdout)["rows"]
    steps = {}
    for row in rows:
        steps.setdefault(row["rank"], set()).add(row["step"])
    return steps


def one(rig, asked):
    """How it ended, what is wrong with it ("": nothing), and why it is partial."""
    done = rig.ask("capture", "--run", rig.run, "--steps", str(asked), "--wait", "raw", "--no-report", "--json", codes=(0, 1, 2, 3, 4))
    if not done.stdout:
        return "refused", done.stderr.strip()[-300:], ""
    facts = json.loads(done.stdout)
    steps = steps_by_rank(rig, facts["id"])
    short = {rank: len(steps.get(rank, ())) for rank in range(test_torch.WORLD) if len(steps.get(rank, ())) < asked}
    if facts["state"] == "complete":
        return "complete", f"complete, and short: {short}" if short else "", ""
    if not steps:
        return "empty", f"{facts['state']}: {facts['reason']}", ""
    texts = {rank["reason"] for rank in facts["ranks"] if rank["reason"]}
    return facts["state"], "", f"{facts['reason']}: {'; '.join(sorted(texts))}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--captures", type=int, default=200)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=1e9)
    options = parser.parse_args()
    until = time.monotonic() + 60 * options.minutes
    ends, wrong = {}, 0
    with tempfile.TemporaryDirectory(prefix="rs-back-") as folder:
        rig = test_torch.Rig(folder, test_torch.find_torch())
        try:
            rig.start_job("train_ddp.py")
            begin = time.monotonic()
            made = 0
            while made < options.captures and time.monotonic() < until:
                state, what, why = one(rig, options.steps)
                made += 1
                ends[state] = ends.get(state, 0) + 1
                if what:
                    wrong += 1
                    print(f"capture {made}: {what}", flush=True)
                if why:
                    print(f"capture {made} is {state}: {why}", flush=True)
            took = time.monotonic() - begin
        finally:
            rig.stop()
    print(f"{made} captures of {options.steps} steps back to back, {took / max(1, made):.1f} s each: {ends}; {wrong} not as they should be")
    return 1 if wrong or not made else 0


if __name__ == "__main__":
    sys.exit(main())
