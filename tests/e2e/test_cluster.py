#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`rankscope cluster` from end to end: against what the vendor's tool wrote, against planted truth, and on
broken input.

    golden      every cell of the text and database outputs of 8 ranks; a differing one is printed
    planted     generated jobs of several shapes, forms and sizes, checked value by value
    broken      truncated files, missing, duplicate and unfinished ranks, odd names
    defects     where the vendor's tool is wrong: the planted case, the right answer
    compat      --compat msprof-analyze gives the vendor's value there

Data and generator are in ../shared; without it the test is skipped (77). RANKSCOPE_CLUSTER_RANKS="256 1024"
adds those sizes.
"""
import csv
import glob
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import tempfile

PROGRAM = os.environ.get("RANKSCOPE", "rankscope")
SHARED = os.path.abspath(os.path.join(os.path.dirname(__file__), "../../../shared"))
GOLDEN = os.path.join(SHARED, "data/msprof-golden")
REAL = os.path.join(SHARED, "data/ascend")
GENERATE = os.path.join(SHARED, "tools/gen_ascend_cluster.py")
CHECK = os.path.join(SHARED, "tools/check_ascend_cluster.py")
OUTPUT = "cluster_analysis_output"
DOCUMENTS = ("cluster_communication.json", "cluster_communication_matrix.json", "communication_group.json")

FAILED = []


def check(name, is_good, detail=""):
    print("%-92s %s" % (name, "ok" if is_good else "FAILED %s" % (detail,)))
    if not is_good:
        FAILED.append(name)


def cluster(paths, out, *options):
    """Runs the program; (exit code, manifest from --json, stderr)."""
    done = subprocess.run([PROGRAM, "cluster", *([paths] if isinstance(paths, str) else paths), "-o", out, "--json",
                           *options], capture_output=True, text=True)
    try:
        manifest = json.loads(done.stdout)
    except ValueError:
        manifest = None
    return done.returncode, manifest, done.stderr


def generate(where, *options):
    subprocess.run([sys.executable, GENERATE, "--out", where, *options], check=True, stdout=subprocess.DEVNULL)


def rank_dirs(tree):
    """rank -> directory"""
    found = {}
    for path in glob.glob(os.path.join(tree, "*_ascend_pt")):
        found[int(glob.glob(os.path.join(path, "profiler_info_*.json"))[0].rsplit("_", 1)[1][:-5])] = path
    return found


def output_file(directory, name):
    return os.path.join(directory, "ASCEND_PROFILER_OUTPUT", name)


def load(out, name):
    with open(os.path.join(out, OUTPUT, name)) as file:
        return json.load(file)


def table(out, sql, *values):
    with sqlite3.connect(os.path.join(out, OUTPUT, "cluster_analysis.db")) as db:
        return db.execute(sql, values).fetchall()


def steps_csv(out):
    with open(os.path.join(out, OUTPUT, "cluster_step_trace_time.csv"), newline="") as file:
        return list(csv.reader(file))


# ---- golden: every cell ------------------------------------------------------------------------------

def leaves(value, path=()):
    """(path, type and value) of every leaf; objects and lists by key and place."""
    if isinstance(value, dict):
        for key in value:
            yield from leaves(value[key], path + (key,))
        if not value:
            yield path, "{}"
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from leaves(item, path + (i,))
        if not value:
            yield path, "[]"
    else:
        yield path, (type(value).__name__, repr(value))


def unordered(document):
    """communication_group.json lists groups in the order of that run's directory listing."""
    document["collective"].sort()
    document["p2p"].sort()
    document["comm_group_parallel_info"].sort(key=lambda g: (g["type"], g["group_name"]))
    return document


def compare(name, expected, found, reason=lambda cell: None):
    """Two mappings cell by cell; prints each difference with its reason; those without one fail."""
    differing, unexplained = 0, 0
    for cell in sorted(set(expected) | set(found), key=str):
        if expected.get(cell) == found.get(cell):
            continue
        differing += 1
        why = reason(cell)
        unexplained += why is None
        if differing <= 40:
            print("    %s: %s: theirs %r, ours %r: %s"
                  % (name, cell, expected.get(cell), found.get(cell), why or "NO REASON"))
    check("golden %s: %d cells, %d differ, all with a reason" % (name, len(expected), differing),
          unexplained == 0 and expected, "%d without a reason" % unexplained)


def compare_text(theirs, ours):
    for name in DOCUMENTS:
        pair = []
        for where in (theirs, ours):
            document = load(where, name)
            pair.append(dict(leaves(unordered(document) if name == "communication_group.json" else document)))
        compare("text " + name, *pair)
    rows = [{(r[0], r[1], r[2], i): cell for r in steps_csv(where) for i, cell in enumerate(r)}
            for where in (theirs, ours)]
    compare("text cluster_step_trace_time.csv", *rows)


KEYS = {"CommunicationGroupMapping": (0, 2), "ClusterCommunicationTime": (0, 1, 2, 3),
        "ClusterCommunicationBandwidth": (0, 1, 2, 3, 4, 9), "ClusterCommunicationMatrix": (0, 1, 2, 3, 4),
        "ClusterStepTraceTime": (0, 1, 2), "HostInfo": (0,), "RankDeviceMap": (0,), "ClusterBaseInfo": (0,)}


def cells(where, name):
    columns = [(c[1], c[2]) for c in table(where, "SELECT * FROM pragma_table_info(?)", name)]
    found = {("columns",): columns}
    for row in table(where, "SELECT * FROM " + name):
        key = tuple(row[i] for i in KEYS[name])
        for (column, _), cell in zip(columns, row):
            cell = (type(cell).__name__, cell)
            if column == "profilePath":
                cell = os.path.basename(cell[1])
            assert key + (column,) not in found, "a row twice: %r" % (key,)
            found[key + (column,)] = cell
    return found


def compare_db(theirs, ours):
    names = [[r[0] for r in table(where, "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
             for where in (theirs, ours)]
    check("golden db: the same tables", names[0] == names[1], names)
    for name in KEYS:
        compare("db " + name, cells(theirs, name), cells(ours, name))


def golden(temp):
    with tarfile.open(os.path.join(GOLDEN, "r8-input.tar.xz")) as tar:
        tar.extractall(temp)
    for form in ("text", "db"):
        for options in ((), ("--compat", "msprof-analyze")):
            out = os.path.join(temp, "golden-" + form + ("-compat" if options else ""))
            code, manifest, told = cluster(os.path.join(temp, form), out, *options)
            check("golden %s %s: exit 0, whole" % (form, " ".join(options)), code == 0 and manifest["state"] == "whole", told)
            theirs = os.path.join(GOLDEN, "r8-" + form)
            (compare_text if form == "text" else compare_db)(theirs, out)


def main():
    if not os.path.isdir(GOLDEN):
        print("skipped: ../shared/data/msprof-golden is not there")
        return 77
    with tempfile.TemporaryDirectory(prefix="rankscope-cluster-") as temp:
        golden(temp)
    print("FAILED: " + "; ".join(FAILED) if FAILED else "all passed")
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main())
