#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How soon a finding is there: acceptance 2 of the live join.

    first_finding.py [--ranks 64] [--steps 10] [--long 30] [--step-ms 250] [--times 3]

Native ranks, one of them slow, on two collectors of one machine, `--raw none`. Measured from events, not from clocks of
processes that were asked:

    last summary durable    the time of the newest write into the capture's summaries/ (its fdatasync follows at once)
    first row of finding    the time of the newest write into rows.db, which the join made and holds the table finding
    unsent raw bytes        what lies in the spools' raw lanes, over that and what the aggregator has

Then a capture of --long steps: a provisional finding, seen by `capture show`, while no rank has recorded the last step.
Prints a line a capture and the median; exit 1 when a bound (2 s, 90 %, provisional) is missed.
"""
import argparse
import glob
import os
import sqlite3
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from rig_native import Rig  # noqa: E402

BOUND_S, BOUND_UNSENT = 2.0, 0.9


def size_of(pattern):
    return sum(os.path.getsize(path) for path in glob.glob(pattern, recursive=True) if os.path.isfile(path))


def newest(pattern):
    return max(os.stat(path).st_mtime for path in glob.glob(pattern))


def new_capture(rig, known, words):
    capture = rig.capture(*words, "--raw", "none", "--no-report")
    while True:
        fresh = [c["id"] for c in rig.captures() if c["id"] not in known]
        if fresh:
            known.add(fresh[0])
            return capture, fresh[0]
        time.sleep(0.02)


def spool_raw(rig):
    return size_of(os.path.join(rig.folder, "spool*", "raw", "**"))


def short(rig, known, options):
    before = spool_raw(rig)
    capture, name = new_capture(rig, known, ["--steps", str(options.steps)])
    code, _ = capture.end(600)
    folder = os.path.join(rig.folder, "data", "captures", name)
    held = spool_raw(rig) - before
    sent = size_of(os.path.join(folder, "segments", "*"))
    with sqlite3.connect(f"file:{folder}/rows.db?mode=ro", uri=True) as db:
        findings = db.execute("SELECT count(*) FROM finding").fetchone()[0]
    late = newest(os.path.join(folder, "rows.db*")) - newest(os.path.join(folder, "summaries", "*"))
    unsent = held / (held + sent) if held + sent else 0.0
    print(f"{name}: exit {code}, {findings} findings, rows {late:.3f} s after the last summary, "
          f"{100 * unsent:.1f} % of {held + sent} raw bytes unsent", flush=True)
    return late, unsent, findings


def long(rig, known, options):
    capture, name = new_capture(rig, known, ["--steps", str(options.long)])
    first = None
    while capture.process.poll() is None and not first:
        facts = rig.show(name)
        found = facts["findings"]
        done = max([r["steps_done"] for r in facts["ranks"]], default=0)
        if found and found["count"] and facts["state"] == "recording" and done < options.long:
            first = (found, done)
        time.sleep(0.02)
    capture.end(600)
    if first:
        print(f"{name}: provisional with {first[0]['ranks']} ranks when the foremost was in step {first[1]} of {options.long}: "
              f"{first[0]['first']}", flush=True)
    else:
        print(f"{name}: no provisional finding before the end", flush=True)
    return first is not None


def main():
    parser = argparse.ArgumentParser()
    for name, default in (("ranks", 64), ("steps", 10), ("long", 30), ("step-ms", 250), ("times", 3)):
        parser.add_argument("--" + name, type=int, default=default)
    options = parser.parse_args()
    known = set()
    with Rig(options.ranks, 2, options.step_ms, rank_words=("--slow-rank", "5", "--ops", "20")) as rig:
        rig.wait_ranks(options.ranks, 120)
        runs = [short(rig, known, options) for _ in range(options.times)]
        has_provisional = long(rig, known, options)
    late = statistics.median(r[0] for r in runs)
    unsent = min(r[1] for r in runs)
    print(f"median {late:.3f} s after the last summary (bound {BOUND_S} s), at least {100 * unsent:.1f} % unsent (bound "
          f"{100 * BOUND_UNSENT:.0f} %), provisional: {'yes' if has_provisional else 'no'}")
    return 0 if late <= BOUND_S and unsent >= BOUND_UNSENT and has_provisional and all(r[2] for r in runs) else 1


if __name__ == "__main__":
    sys.exit(main())
