#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The same culprits, last ranks and waits when the clocks of a job's files are off: acceptance of the clocks' alignment.

    clock_drift.py [--rankscope build/dev/rankscope] [--seeds 4] [--offset-ms 50] [--drift-ppm 35] FOLDER...

Each folder is a job in Kineto form without host names. Every file but the first gets an offset and a drift at random; what is said of it then is
held against what is said of it as it is: the findings, LastRank (the same, or empty where the two latest starts differ by less than the bound), Wait,
and the offsets of clock.json against those that were given. Exit 1 when a last rank or a first finding is another one, or an offset is off by more than its bound.
"""
import argparse
import json
import os
import sys
import tempfile

import row_loss


def read(program, folder, out):
    rows = row_loss.analyse(program, folder, out)
    with open(os.path.join(out, "report.json"), encoding="utf-8") as file:
        report = json.load(file)
    return rows, [(f["kind"], f["where"], f["confidence"]) for f in report["findings"]]


def by_operation(rows):
    return {(row["Rank"], row["Op"], row["Group"], row["Seq"]): row for row in rows}


def offsets_off(out, shifts):
    """(how many clocks, how many are off by more than their bound, the largest bound in us); a clock says own - reference at an instant."""
    with open(os.path.join(out, "manifest.json"), encoding="utf-8") as file:
        names = {i["rank"]: os.path.basename(i["path"]) for i in json.load(file)["inputs"] if i.get("rank") is not None}
    with open(os.path.join(out, "clock.json"), encoding="utf-8") as file:
        clocks = json.load(file)["ranks"]
    off = 0
    for clock in clocks:
        offset_us, drift = shifts[names[clock["rank"]]]
        # the drift was given from the file's first operation on: a recording of seconds moves by less than this
        slack = abs(drift) * 5e9
        off += abs(clock["offset_ns"] - offset_us * 1000) > clock["bound_ns"] + slack
    return len(clocks), off, max((c["bound_ns"] for c in clocks), default=0) / 1000


def compare(whole, rows):
    true, verdicts, worst = by_operation(whole), {"same": 0, "empty": 0, "other": 0}, 0
    for row in rows:
        was = true.get((row["Rank"], row["Op"], row["Group"], row["Seq"]))
        if was is None or (row["LastRank"] != was["LastRank"] and row["LastRank"]):
            verdicts["other"] += 1
            continue
        verdicts["same" if row["LastRank"] == was["LastRank"] else "empty"] += 1
        if row["Wait(ns)"] and was["Wait(ns)"]:
            worst = max(worst, abs(int(row["Wait(ns)"]) - int(was["Wait(ns)"])))
    return verdicts, worst / 1000


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rankscope", default="build/dev/rankscope")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--offset-ms", type=float, default=50)
    parser.add_argument("--drift-ppm", type=float, default=35)
    parser.add_argument("folder", nargs="+")
    options = parser.parse_args()
    bad = 0
    for folder in options.folder:
        with tempfile.TemporaryDirectory(prefix="rs-drift-") as scratch:
            whole, findings = read(options.rankscope, folder, os.path.join(scratch, "whole"))
            for seed in range(options.seeds):
                job = os.path.join(scratch, f"job{seed}")
                os.mkdir(job)
                shifts = row_loss.lose(folder, job, 0, seed, options.offset_ms, options.drift_ppm)
                out = os.path.join(scratch, f"out{seed}")
                rows, now = read(options.rankscope, job, out)
                verdicts, worst = compare(whole, rows)
                clocks, off, bound = offsets_off(out, shifts)
                is_same = now == findings
                bad += verdicts["other"] > 0 or off > 0 or now[:1] != findings[:1]
                print(f"{os.path.basename(folder.rstrip('/')):24} seed {seed}: findings {'the same' if is_same else now}, last rank {verdicts}, "
                      f"waits off by at most {worst:.1f} us, {clocks} clocks, {off} beyond their bound (at most {bound:.1f} us)", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
