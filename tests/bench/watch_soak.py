#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Watch mode on the demo job: how soon a rank that turns slow is noticed, captured and named; and that nothing is, for long, without trouble.

    tests/bench/watch_soak.py [--minutes 30] [--trials 5] [--load 2] [--step 200] [--factor 8]

Trials: rank 3 of 8 computes --factor times as much from step --step on; told are the step at which the alarm was sure, the seconds from it to
the webhooks, and whom they name. Then the same job without trouble for --minutes, beside --load processes that keep a core busy for some seconds and
rest for some; an alarm is printed, and ends it with 1. Both with the aggregator's standing watch (--step-watch).
"""
import argparse
import json
import os
import random
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
os.environ.setdefault("RANKSCOPE", os.path.join(ROOT, "build/dev/rankscope"))
os.environ.setdefault("RANKSCOPE_BUILD", os.path.join(ROOT, "build/dev"))
sys.path.insert(0, os.path.join(ROOT, "tests/e2e"))
from rig_native import Rig  # noqa: E402
from test_step_watch import end, job  # noqa: E402
from test_webhook import Receiver  # noqa: E402

BUSY = """
import random, time
while True:
    until = time.monotonic() + random.uniform(2, 20)
    while time.monotonic() < until:
        sum(range(10000))
    time.sleep(random.uniform(1, 15))
"""


def rig_of(receiver):
    return Rig(world=0, nodes=1, step_ms=50, aggregator_words=["--webhook", receiver.url + "/told", "--step-watch"])


def events_of(receiver):
    return [json.loads(body) for _, _, body in receiver.taken]


def trial(step, factor):
    receiver = Receiver()
    with rig_of(receiver) as rig:
        minitrain = job(rig, "--slow-rank", f"3:{factor}@{step}")
        until = time.monotonic() + 300
        try:
            while len(receiver.taken) < 2 and time.monotonic() < until:
                time.sleep(0.05)
            at = time.time_ns()
            events = events_of(receiver)
            capture = rig.show(events[0]["capture"])
            why = capture["request"]["metadata"]["watch"]
        finally:
            end(minitrain)
    receiver.shutdown()
    receiver.server_close()
    suspects = why["suspects"]
    last = suspects[0]["last_step"] if suspects else why["last_step"]
    print(json.dumps({"alarm": events[0]["text"], "sure_at_step": last, "steps_after_change": last - step,
                      "suspects": [s["rank"] for s in suspects], "captured": capture["request"]["ranks"],
                      "named": events[1]["text"], "named_after_s": round((events[1]["time_ns"] - events[0]["time_ns"]) / 1e9, 2),
                      "both_here_after_s": round((at - events[0]["time_ns"]) / 1e9, 2)}), flush=True)


def quiet(minutes, load):
    receiver = Receiver()
    busy = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(load)]
    begin = time.monotonic()
    try:
        with rig_of(receiver) as rig:
            minitrain = job(rig)
            try:
                while time.monotonic() < begin + minutes * 60 and not receiver.taken:
                    time.sleep(5)
                print(json.dumps({"minutes": round((time.monotonic() - begin) / 60, 1), "steps": rig.foremost_step(), "alarms": events_of(receiver),
                                  "load_average": os.getloadavg()}), flush=True)
            finally:
                end(minitrain)
    finally:
        for process in busy:
            process.kill()
            process.wait()
    receiver.shutdown()
    receiver.server_close()
    return not receiver.taken


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--load", type=int, default=2)
    parser.add_argument("--step", type=int, default=200)
    parser.add_argument("--factor", type=float, default=8)
    options = parser.parse_args()
    random.seed(1)
    for _ in range(options.trials):
        trial(options.step, options.factor)
    if options.minutes > 0 and not quiet(options.minutes, options.load):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
