#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""rankscope whatif: made jobs whose answer is known, and the published study's two jobs against its authors' answers.

The study's tables are unpacked as they are: their columns start_ts and duration are a form of ops.csv (docs/ops-csv.md).
The study is tried where ../shared/data/stragglers is, the made jobs always.
"""
import csv
import io
import json
import lzma
import math
import os
import pathlib
import random
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SETS = ROOT.parent / "shared" / "data" / "stragglers"
PROGRAM = os.environ.get("RANKSCOPE", str(ROOT / "build" / "dev" / "rankscope"))
STEPS, MICROBATCHES = 12, 4

failures = []


def check(good, what):
    print(("ok   " if good else "FAIL ") + what)
    if not good:
        failures.append(what)


def whatif(text, *options):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "ops.csv"
        path.write_bytes(text)
        done = subprocess.run([PROGRAM, "whatif", str(path), *options], capture_output=True, text=True, check=False)
    return done


def answer(text):
    done = whatif(text, "--json")
    check(done.returncode == 0, f"exit code 0 {done.stderr.strip()}")
    found = json.loads(done.stdout)
    try:
        import jsonschema
        jsonschema.validate(found, json.loads((ROOT / "docs/schema/whatif.schema.json").read_text()))
    except ImportError:
        pass
    return found


def made(copies, length):
    """Data parallel copies of one stage: forwards, then backwards of twice the length, then the reduce-scatter."""
    out = io.StringIO()
    rows = csv.writer(out)
    rows.writerow("dp_rank stage step optype start_ns duration_ns seq_id".split())
    for step in range(STEPS):
        ends = []
        for dp in range(copies):
            lengths = [length(dp) for _ in range(MICROBATCHES)]
            at = step * 10**9
            for name, factor in (("forward-compute", 1), ("backward-compute", 2)):
                for i, one in enumerate(lengths):
                    rows.writerow([dp, 0, step, name, at, one * factor, i])
                    at += one * factor
            ends.append(at)
        for dp, end in enumerate(ends):
            rows.writerow([dp, 0, step, "grads-reduce-scatter", end, max(ends) + 1000 - end, 0])
    return out.getvalue().encode()


def made_jobs():
    chance = random.Random(1)
    found = answer(made(8, lambda dp: 1000000))
    check(found["verdict"] == "no_loss" and not found["culprits"], "alike copies: nobody")
    check(math.isclose(found["slowdown"], 1), "alike copies: S is 1")
    found = answer(made(8, lambda dp: 1500000 if dp == 5 else chance.randint(990000, 1010000)))
    check(found["verdict"] == "worker" and found["culprits"][0]["dp_rank"] == 5, "a slow copy is named")
    check(abs(found["culprits"][0]["factor"] - 1.5) < 0.01, "and how slow it is")
    found = answer(made(16, lambda dp: 1500000 if dp in (3, 9) else chance.randint(995000, 1005000)))
    named = sorted(part["dp_rank"] for part in found["culprits"])
    check(found["verdict"] == "workers" and named == [3, 9], "two slow copies are named together")
    text = made(16, lambda dp: chance.randint(500000, 2000000))
    found = answer(text)
    check(found["verdict"] == "varying" and not found["culprits"], "unequal microbatches: nobody")
    check(found["microbatch_correlation"] > 0.99, "forward and backward vary together")
    said = whatif(text).stdout
    check("No single culprit" in said and "microbatches hold unequal work" in said, "and the report says what it is")
    done = whatif(b"dp_rank,stage\n")
    check(done.returncode == 2 and "ops.csv:1: the header has no column" in done.stderr, "a bad table is refused")


def near(got, expected, what):
    check(abs(got - expected) <= 1e-5 * max(1, abs(expected)), f"{what}: {got:.6f}, the authors' {expected:.6f}")


def study(name):
    text = lzma.decompress((SETS / f"ops-{name}.csv.xz").read_bytes())
    found = answer(text)
    expected = json.loads((SETS / f"result-{name}.json").read_text())
    near(found["slowdown"], expected["blocking_slowdown"], f"{name} S")
    near(found["m_w"], json.loads((SETS / f"mw-{name}.json").read_text())["Mw"], f"{name} M_W")
    near(found["m_s"], json.loads((SETS / f"ms-{name}.json").read_text())["Ms"], f"{name} M_S")
    for key, member, rows in (("dp_rank", "dp_rank", "dp_ranks"), ("stage", "stage", "stages"),
                              ("optype", "optype", "operations")):
        for row in found[rows]:
            near(row["slowdown"], expected[f"blocking_decompose_by_{key}"][str(row[member])], f"{name} {key} {row[member]}")
    return found


def studies():
    found = study("AR")
    named = found["culprits"]
    check(found["verdict"] == "worker" and (named[0]["dp_rank"], named[0]["stage"]) == (0, 0) and
          named[0]["share"] > 0.95, "AR: worker dp 0 stage 0, over 95 % of the loss")
    found = study("ST")
    named = found["culprits"]
    check(found["verdict"] == "stage" and named[0]["stage"] == 3 and "dp_rank" not in named[0] and
          named[0]["share"] > 0.95, "ST: the last stage, over 95 % of the loss")


made_jobs()
if SETS.is_dir():
    studies()
print(f"{len(failures)} failures")
if failures:
    sys.exit(1)
if not SETS.is_dir():
    print("the study's tables are not there (../shared/data/stragglers): only the made jobs were tried")
