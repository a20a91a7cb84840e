#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What matching makes of traces that lost rows, or whose clocks are off.

    row_loss.py [--rankscope build/dev/rankscope] [--loss 0.1,0.3] [--seeds 3] [--offset-ms 0] [--drift-ppm 0] FOLDER...

Each folder is a job in Kineto form (a rank map `ranks.json` in it is used). The truth is what the whole job's collectives.csv
joins. Then each communication row (device kernels, gloo annotations) is dropped with the given probability, per rank and
seed, clocks are moved, and pairs of rows that are left are compared: *wrong* pairs are joined though they are two
operations, *found* pairs are joined and one. `exact` where a member was lost is counted, too. Prints a table.

--without-steps leaves out PyTorch's own step marks, as captures of a running job do; --alone N: each recording ends up to N
communication rows earlier than the job's does.
"""
import argparse
import bisect
import collections
import csv
import glob
import gzip
import json
import os
import random
import subprocess
import sys
import tempfile


def load(path):
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rt", encoding="utf-8") as file:
        return json.load(file)


def is_communication(event):
    name = str(event.get("name", ""))
    if str(event.get("cat", "")).lower() == "kernel":
        return any(word in name for word in ("nccl", "rccl", "ncclKernel"))
    return name.startswith("gloo:")


def analyse(program, folder, out):
    words = [program, "analyse", folder, "-o", out, "--quiet"]
    ranks = os.path.join(folder, "ranks.json")
    if os.path.exists(ranks):
        words += ["--rank-map", ranks]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        sys.exit(f"row_loss: {folder}: {done.stderr}")
    with open(os.path.join(out, "collectives.csv"), encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def is_step_mark(event):
    return str(event.get("name", "")).startswith("ProfilerStep#")


def lose(folder, into, probability, seed, offset_ms=0, drift_ppm=0, *, without_steps=False, alone=0):
    """Writes the job with rows missing and clocks moved; (rank file -> shift) as it was done."""
    shifts = {}
    for number, path in enumerate(sorted(glob.glob(os.path.join(folder, "*")))):
        name = os.path.basename(path)
        if not name.endswith((".json", ".json.gz")) or "traceEvents" not in (trace := load(path)):
            with open(path, "rb") as source, open(os.path.join(into, name), "wb") as target:
                target.write(source.read())
            continue
        rng = random.Random(f"{seed} {name}")
        offset = 0 if number == 0 else rng.uniform(-offset_ms, offset_ms) * 1000
        drift = 0 if number == 0 else rng.uniform(-drift_ppm, drift_ppm) * 1e-6
        events = []
        first = min((e["ts"] for e in trace["traceEvents"] if e.get("ph") == "X" and is_communication(e)), default=0)
        rows = sorted(e["ts"] for e in trace["traceEvents"] if e.get("ph") == "X" and is_communication(e))
        missing = rng.randint(0, alone) if alone else 0
        over = rows[-missing] if 0 < missing <= len(rows) else None
        for event in trace["traceEvents"]:
            if event.get("ph") == "X" and is_communication(event) and (rng.random() < probability or (over is not None and event["ts"] >= over)):
                continue
            if without_steps and is_step_mark(event):
                continue
            if "ts" in event and (offset or drift):
                event["ts"] = round(event["ts"] + offset + (event["ts"] - first) * drift, 3)
            events.append(event)
        trace["traceEvents"] = events
        shifts[name] = (offset, drift)
        opener = gzip.open if name.endswith(".gz") else open
        with opener(os.path.join(into, name), "wt", encoding="utf-8") as file:
            json.dump(trace, file)
    return shifts


def truth_of(whole, lossy, shifts, out):
    """Row of the lossy run -> true operation: the row of the whole run that began there before its clock was moved."""
    with open(os.path.join(out, "manifest.json"), encoding="utf-8") as file:
        names = {str(i["rank"]): os.path.basename(i["path"]) for i in json.load(file)["inputs"] if i.get("rank") is not None}
    starts = collections.defaultdict(list)
    for row in whole:
        starts[(row["Rank"], row["Op"])].append((int(row["Start(ns)"]), int(row["End(ns)"]), row["OpId"]))
    for rows in starts.values():
        rows.sort()
    first_of = {}
    for row in whole:
        first_of[row["Rank"]] = min(first_of.get(row["Rank"], 1 << 63), int(row["Start(ns)"]))
    truth = {}
    for row in lossy:
        offset_us, drift = shifts.get(names.get(row["Rank"]), (0, 0))
        start, end = int(row["Start(ns)"]), int(row["End(ns)"])
        best = None
        rows = starts[(row["Rank"], row["Op"])]
        near = bisect.bisect_left(rows, (start - round(offset_us * 1000) - 5000000,))
        for other in rows[near:]:
            if other[0] > start - round(offset_us * 1000) + 5000000:
                break
            moved = other[0] + (offset_us + ((other[0] - first_of[row["Rank"]]) / 1000) * drift) * 1000
            distance = abs(moved - start) + abs((other[1] - other[0]) - (end - start))
            if distance <= 3000 and (best is None or distance < best[0]):
                best = (distance, other[2])
        if best:
            truth[key_of(row)] = best[1]
    return truth


def key_of(row):
    return row["Rank"], row["Op"], row["Start(ns)"], row["End(ns)"], row["Bytes"]


def pairs(rows):
    by_op = collections.defaultdict(list)
    for row in rows:
        by_op[row["OpId"]].append(row)
    return by_op


def count(whole, lossy, shifts, out):
    truth = truth_of(whole, lossy, shifts, out)
    size = collections.Counter(row["OpId"] for row in whole)
    wrong = joined = exact = 0
    for rows in pairs(lossy).values():
        true = [truth.get(key_of(row)) for row in rows]
        for a in range(len(true)):
            for b in range(a + 1, len(true)):
                if true[a] is not None and true[b] is not None:
                    joined += true[a] == true[b]
                    wrong += true[a] != true[b]
        if rows[0]["Coverage"] == "exact" and true[0] is not None and len(rows) < size[true[0]]:
            exact += 1
    left = collections.Counter(v for v in truth.values())
    possible = sum(n * (n - 1) // 2 for n in left.values())
    return joined, possible, wrong, exact, len(truth), len(lossy)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rankscope", default="build/dev/rankscope")
    parser.add_argument("--loss", default="0,0.1,0.3")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--offset-ms", type=float, default=0)
    parser.add_argument("--drift-ppm", type=float, default=0)
    parser.add_argument("--without-steps", action="store_true")
    parser.add_argument("--alone", type=int, default=0)
    parser.add_argument("folder", nargs="+")
    options = parser.parse_args()
    print(f"{'job':32} {'loss':>5} {'possible':>9} {'found':>9} {'share':>8} {'wrong':>6} {'false exact':>11} {'rows known':>11}")
    for folder in options.folder:
        with tempfile.TemporaryDirectory(prefix="rs-loss-") as scratch:
            whole = analyse(options.rankscope, folder, os.path.join(scratch, "whole"))
            for loss in (float(word) for word in options.loss.split(",")):
                total = [0] * 6
                for seed in range(options.seeds):
                    with tempfile.TemporaryDirectory(prefix="rs-loss-") as job:
                        shifts = lose(folder, job, loss, seed, options.offset_ms, options.drift_ppm, without_steps=options.without_steps,
                                      alone=options.alone)
                        out = os.path.join(scratch, f"{loss}-{seed}")
                        lossy = analyse(options.rankscope, job, out)
                    total = [a + b for a, b in zip(total, count(whole, lossy, shifts, out))]
                found, possible, wrong, exact, known, rows = total
                if loss >= 0.05 and rows == options.seeds * len(whole):
                    sys.exit(f"row_loss: {folder}: of {len(whole)} rows none was lost: are these traces of communication?")
                share = 100 * found / possible if possible else 0
                print(f"{os.path.basename(folder.rstrip('/')):32} {loss:5.2f} {possible:9} {found:9} {share:7.2f}% {wrong:6} {exact:11} {known:5}/{rows}")


if __name__ == "__main__":
    main()
