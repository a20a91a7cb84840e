#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`--compat msprof-analyze` against msprof-analyze itself, cell by cell: every form of `cluster` and every recipe, on the real pair of
../shared/data/ascend, on the golden job of ../shared/data/msprof-golden and on what that job becomes with marks (ascend_marks.py).

    tests/bench/compat.py                         all of it: some six minutes
    tests/bench/compat.py hccl_sum cluster        these only

A cell is equal, or equal but for its last digits (1e-12 of it), or differs. What differs must be one of REASONS, which are the lines of
docs/notes/2026-11-21-msprof-analyze-differences.md: else the exit code is 1. RANKSCOPE: the program; PEER_HOME: the peer's virtual
environment, made when it is not there (msprof-analyze from the package index).
"""
import collections
import csv
import json
import os
import pathlib
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))
import ascend_inputs  # noqa: E402
import ascend_marks  # noqa: E402

PROGRAM = os.environ.get("RANKSCOPE", str(ROOT / "build" / "release" / "rankscope"))
PEER_HOME = pathlib.Path(os.environ.get("PEER_HOME", os.path.expanduser("~/.cache/rankscope/msprof")))
OUTPUT = "cluster_analysis_output"

# (recipe, input, table or file, column), all as patterns, and why a cell there may differ. Where rows are laid side by side by KEYS, what is
# a key may not.
REASONS = [
    ("free_analysis", ".*", "FreeAnalysis|free_analysis.csv", "(start|end|Start |End )[Tt]ime.*|.*[Ii]dle ?[Tt]ime.*|[Rr]eason",
     "gaps of equal length, times through doubles"),
    ("freq_analysis", ".*", ".*FrequencyRanks", "aicoreFrequency", "the peer prints np.int64()"),
    ("export_summary", ".*", "kernel_details.*", "task_wait_time", "kernels that start together"),
    ("operator_mfu", ".*", "ModuleMFU", "kernel_list|(total|avg)_kernel_duration.ns.|avg_mfu", "kernels of nested ranges stand once"),
]
KEYS = {
    "FreeAnalysis": ["rankId", "duration(us)", "startTime(us)"],
    "kernel_details.*": ["task_start_time", "op_name", "task_duration"],
    "ModuleMFU": ["rank_id", "parent_module", "module", "op_name", "op_count"],
}


def install_peer():
    if not (PEER_HOME / "bin" / "msprof-analyze").exists():
        print("installing msprof-analyze into %s" % PEER_HOME)
        subprocess.run([sys.executable, "-m", "venv", str(PEER_HOME)], check=True)
        subprocess.run([str(PEER_HOME / "bin" / "pip"), "install", "-q", "msprof-analyze"], check=True)


# ---- reading what came out -----------------------------------------------------------------------

def number(cell):
    """A cell as a number where it is one."""
    if isinstance(cell, bool) or cell is None:
        return cell
    if isinstance(cell, (int, float)):
        return cell
    text = sorted_ranks(str(cell))
    try:
        return int(text) if re.fullmatch(r"-?\d{1,18}", text) else float(text) if re.fullmatch(r"-?[\d.]+(e[-+]?\d+)?", text) else text
    except ValueError:
        return text


def of_database(path):
    """{table: (columns, rows)}"""
    con = sqlite3.connect("file:%s?mode=ro" % path, uri=True)
    found = {}
    for (name,) in con.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        cursor = con.execute('SELECT * FROM "%s"' % name)
        found[name] = ([c[0] for c in cursor.description], [[number(c) for c in row] for row in cursor])
    con.close()
    return found


def sorted_ranks(text):
    """"(0, 8, 12, 4)", where ranks stand in the order of a Python set, as "(0, 4, 8, 12)". The only difference that is not counted."""
    comma = ", " if ", " in text else ","
    return "(" + comma.join(sorted(text.strip("()").split(comma), key=int)) + ")" if re.fullmatch(r"\(\d+(, ?\d+)+\)", text) else text


def leaves(value, path=()):
    if isinstance(value, dict) and value:
        for key in value:
            yield from leaves(value[key], path + (sorted_ranks(str(key)),))
    elif isinstance(value, list) and value:
        for item in value: # lists are sets here: groups come in the order of a directory
            yield from leaves(item, path + ("[]",))
    else:
        yield path, value


def of_json(path):
    return {path.name: (["path", "value"], [["/".join(p), number(v)] for p, v in leaves(json.loads(path.read_text()))])}


def of_csv(path):
    name = re.sub(r"_20\d{12}", "", path.name)
    with open(path, newline="") as file:
        rows = list(csv.reader(file))
    return {name: (rows[0], [[number(c) for c in row] for row in rows[1:]])} if rows else {}


def results(folder):
    """{table or file: (columns, rows)} of an output folder."""
    found = {}
    for path in sorted(pathlib.Path(folder).rglob("*")):
        if not path.is_file() or path.name == "rankscope_manifest.json":
            continue
        if path.name == "cluster_analysis.db":
            found.update(of_database(path))
        elif path.suffix == ".json":
            found.update(of_json(path))
        elif path.suffix == ".csv":
            found.update(of_csv(path))
    return found


# ---- comparing -----------------------------------------------------------------------------------

def is_close(a, b):
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return a == b or abs(a - b) <= 1e-12 * max(abs(a), abs(b))
    return a == b


def key_of(row):
    """Rows are laid side by side by the texts in them, then by the numbers."""
    return ([str(c) for c in row if not isinstance(c, (int, float))], [c for c in row if isinstance(c, (int, float))])


def in_order(name, columns, rows):
    keys = next((keys for pattern, keys in KEYS.items() if re.fullmatch(pattern, name)), [])
    places = [columns.index(k) for k in keys if k in columns]
    return sorted(rows, key=lambda row: (key_of([row[p] for p in places]), key_of(row)))


class Count:
    def __init__(self):
        self.cells = self.digits = 0
        self.differing = collections.Counter() # by reason
        self.unexplained, self.close = [], []

    def differ(self, where, what, amount=1):
        for recipe, source, name, column, reason in REASONS:
            if all(re.fullmatch(p, str(w)) for p, w in zip((recipe, source, name, column), where)):
                self.differing[reason] += amount
                return
        self.unexplained.append((where, what))


def compare_table(count, where, theirs, ours):
    recipe, source, name = where
    if theirs[0] != ours[0]:
        gone, new = [c for c in theirs[0] if c not in ours[0]], [c for c in ours[0] if c not in theirs[0]]
        count.differ((recipe, source, name, "(columns)"), "columns: not here %s, more here %s" % (gone, new))
    both = [c for c in theirs[0] if c in ours[0]]
    left = in_order(name, both, [[row[theirs[0].index(c)] for c in both] for row in theirs[1]])
    right = in_order(name, both, [[row[ours[0].index(c)] for c in both] for row in ours[1]])
    if len(left) != len(right):
        count.differ((recipe, source, name, "(rows)"), "%d rows, the peer has %d" % (len(right), len(left)),
                     abs(len(left) - len(right)))
        shared = collections.Counter(map(repr, left)) & collections.Counter(map(repr, right))
        count.cells += len(both) * sum(shared.values())
        return
    for x, y in zip(left, right):
        for column, a, b in zip(both, x, y):
            count.cells += 1
            if type(a) is type(b) and a == b or a == b:
                continue
            if is_close(a, b):
                count.digits += 1
                count.close.append("%s %s: %r, the peer has %r" % (name, column, b, a))
            else:
                count.differ((recipe, source, name, column), "%r, the peer has %r" % (b, a))


def order_of_peer(tree):
    """Ranks as os.walk meets their folders."""
    found = []
    for folder, _, files in os.walk(tree):
        for name in files:
            match = re.fullmatch(r"profiler_info_(\d+)\.json", name)
            if match:
                found.append(match.group(1))
    return ",".join(found)


def run_peer(mode, tree, out, more):
    environment = dict(os.environ, PYTHONHASHSEED="0", OPENBLAS_NUM_THREADS="1")
    done = subprocess.run([str(PEER_HOME / "bin" / "msprof-analyze"), "cluster", "-m", mode, "-d", str(tree), "-o", str(out), *more],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    return done.stdout


def run_ours(words):
    done = subprocess.run([PROGRAM, *map(str, words), "--compat", "msprof-analyze"], capture_output=True, text=True)
    return done.returncode, done.stderr


def show(where, count):
    total = sum(count.differing.values()) + len(count.unexplained)
    print("%-32s %-12s %8d cells, %5d by digits, %5d differ%s" % (
        *where, count.cells, count.digits, total,
        "".join("; %d: %s" % (n, why) for why, n in sorted(count.differing.items()))), flush=True)
    for what in count.close[:2]:
        print("    digits: %s" % what)
    for place, what in count.unexplained[:6]:
        print("    NOT LISTED %s: %s" % (" ".join(map(str, place[2:])), what))


def compare(where, theirs, ours):
    count = Count()
    for name in sorted(set(theirs) | set(ours)):
        if name not in ours:
            count.differ((*where, name, "(table)"), "is not here", len(theirs[name][1]))
        elif name not in theirs:
            count.differ((*where, name, "(table)"), "is here only", len(ours[name][1]))
        else:
            compare_table(count, (*where, name), theirs[name], ours[name])
    show(where, count)
    return count


# ---- what is run ---------------------------------------------------------------------------------

def copies(rank_db, folder):
    """mstx2commop's copies: operations by name."""
    found = {}
    for path in sorted(pathlib.Path(folder).rglob("ascend_*_profiler*.db")):
        con = sqlite3.connect("file:%s?mode=ro" % path, uri=True)
        rows = con.execute("SELECT n.value, o.startNs, o.endNs, o.connectionId, g.value, o.relay, o.retry, o.dataType, o.algType, o.count, "
                           "t.value FROM COMMUNICATION_OP o JOIN STRING_IDS n ON n.id = o.opName JOIN STRING_IDS g ON g.id = "
                           "o.groupName JOIN STRING_IDS t ON t.id = o.opType").fetchall()
        con.close()
        found[path.name] = (["opName", "startNs", "endNs", "connectionId", "groupName", "relay", "retry", "dataType", "algType", "count",
                             "opType"], [[number(c) for c in row] for row in rows])
    return found


def summaries(tree, rank_of):
    """export_summary's files, which the peer writes into its input."""
    found = {}
    for path in sorted(pathlib.Path(tree).rglob("*.csv")):
        match = re.fullmatch(r"(api_statistic|kernel_details)(?:_(\d+))?\.csv", path.name)
        if match:
            rank = match.group(2) or rank_of(path)
            columns, rows = next(iter(of_csv(path).values()))
            found["%s %s" % (match.group(1), rank)] = (columns, rows)
    return found


def into_inputs(tree, sql, columns):
    """What the peer wrote into its inputs, one table of all ranks."""
    rows = []
    for rank, path in ascend_marks.databases(tree):
        con = sqlite3.connect("file:%s?mode=ro" % path, uri=True)
        try:
            rows += [[rank, *map(number, row)] for row in con.execute(sql).fetchall()]
        except sqlite3.OperationalError:
            pass # it wrote nothing
        con.close()
    return (columns, rows)


def rank_of(path):
    info = next(path.parent.parent.glob("profiler_info_*.json"))
    return info.stem.rsplit("_", 1)[1]


def recipe_case(name, source, tree, work, options=(), ours_options=None):
    """One recipe on one tree; a copy of it for the peer, which may write there."""
    input_copy, theirs, ours = work / "input", work / "theirs", work / "ours"
    for folder in (input_copy, theirs, ours):
        shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(tree, input_copy)
    subprocess.run(["chmod", "-R", "u+w", str(input_copy)], check=True)
    said = run_peer(name, input_copy, theirs, options)
    run_ours(["recipe", name, tree, "-o", ours, "--rank-list", order_of_peer(input_copy), *(ours_options or options)])
    if name == "mstx2commop":
        left, right = copies(name, theirs), copies(name, ours)
    elif name == "export_summary":
        left, right = summaries(input_copy, rank_of), summaries(ours, rank_of)
    else:
        left, right = results(theirs / OUTPUT), results(ours / OUTPUT)
    if name == "p2p_pairing":
        left["P2PPairing"] = into_inputs(input_copy, "SELECT s.value, opConnectionId FROM COMMUNICATION_OP JOIN STRING_IDS s ON s.id = "
                                         "opName WHERE opConnectionId IS NOT NULL", ["rank", "opName", "opConnectionId"])
    if name == "pp_chart":
        left["StepTaskInfo"] = into_inputs(input_copy, "SELECT name, startNs, endNs, type FROM StepTaskInfo",
                                           ["rank", "name", "startNs", "endNs", "type"])
    left = {k: v for k, v in left.items() if v[1]}
    if not left and "Traceback" in said:
        print("    (the peer ends with: %s)" % said.strip().splitlines()[-1][:150])
    return compare((name, source), left, {k: v for k, v in right.items() if v[1]})


def cluster_case(source, form, tree, work):
    theirs, ours = work / "theirs", work / "ours"
    for folder in (theirs, ours):
        shutil.rmtree(folder, ignore_errors=True)
    run_peer("all", tree, theirs, ["--export_type", "text" if form == "text" else "db"])
    run_ours(["cluster", tree, "-o", ours, "--form", form, "--quiet"])
    return compare(("cluster", source), results(theirs / OUTPUT), results(ours / OUTPUT))


def compare_steps(source, tree, work):
    """cluster_time_compare_summary: two results with each other, one of them of the first step only."""
    for name, program in (("theirs", run_peer), ("ours", None)):
        for step, out in (([], work / name / "all"), (["--step_id", "2"], work / name / "one")):
            shutil.rmtree(out, ignore_errors=True)
            if program:
                program("cluster_time_summary", tree, out, step)
            else:
                run_ours(["recipe", "cluster_time_summary", tree, "-o", out, *(w.replace("_", "-") for w in step)])
        all_of, one = work / name / "all", work / name / "one"
        if program:
            program("cluster_time_compare_summary", all_of / OUTPUT, all_of, ["--bp", str(one / OUTPUT)])
        else:
            run_ours(["recipe", "cluster_time_compare_summary", all_of, "-o", all_of, "--bp", one])
    return compare(("cluster_time_compare_summary", source), results(work / "theirs" / "all"), results(work / "ours" / "all"))


def inputs(work):
    """(name, form, tree)"""
    real, eight = ascend_inputs.real_pair(), ascend_inputs.golden_eight(str(work / "r8"))
    for form in ("text", "db"):
        copied = work / ("real-" + form)
        shutil.copytree(real[form], copied) # a database in WAL mode gets files beside it
        subprocess.run(["chmod", "-R", "u+w", str(copied)], check=True)
        yield "level1", form, copied
        yield "golden", form, pathlib.Path(eight[form])
        made = work / ("made-" + form)
        subprocess.run([sys.executable, ascend_inputs.generator(), "--out", str(made), "--ranks", "16", "--tp", "2", "--pp", "4", "--steps", "2",
                        "--comm-ops-per-step", "60", "--slow-link-factor", "0.1", "--format", form], check=True, stdout=subprocess.DEVNULL)
        yield "made", form, made


def main():
    if not ascend_inputs.has_shared():
        print("skipped: ../shared/data is not here")
        return 77
    install_peer()
    wanted = set(sys.argv[1:])
    names = [r["name"] for r in json.loads(subprocess.run([PROGRAM, "recipe", "--list", "--json"], check=True, capture_output=True,
                                                          text=True).stdout)]
    total = collections.Counter()
    bad = 0

    def note(count):
        nonlocal bad
        total.update(cells=count.cells, digits=count.digits, listed=sum(count.differing.values()), unlisted=len(count.unexplained))
        bad += bool(count.unexplained)

    with tempfile.TemporaryDirectory(prefix="rankscope-compat-") as folder:
        work = pathlib.Path(folder)
        trees = list(inputs(work))
        for source, form, tree in trees:
            if not wanted or "cluster" in wanted:
                note(cluster_case(source + " " + form, form, tree, work))
        databases = [(source, tree) for source, form, tree in trees if form == "db"]
        for name in names:
            if wanted and name not in wanted or name in ("calibrate_npu_gpu", "operator_mfu", "mstx2commop", "cluster_time_compare_summary"):
                continue
            for source, tree in databases:
                note(recipe_case(name, source, tree, work))
        if not wanted or "cluster_time_compare_summary" in wanted:
            for source, tree in databases:
                note(compare_steps(source, tree, work))
        for name, plant in (("operator_mfu", ascend_marks.plant_mfu), ("mstx2commop", ascend_marks.plant_marks)):
            if not wanted or name in wanted:
                planted = work / ("planted-" + name)
                shutil.copytree(dict(databases)["golden"], planted)
                plant(planted)
                note(recipe_case(name, "planted", planted, work))
        if not wanted or "calibrate_npu_gpu" in wanted:
            planted, gpu = work / "planted-calibrate", work / "gpu.sqlite"
            shutil.copytree(dict(databases)["golden"], planted)
            ascend_marks.plant_mfu(planted)
            ascend_marks.plant_gpu(gpu, with_troubles=False)
            note(recipe_case("calibrate_npu_gpu", "planted", planted, work, ["--baseline_profiling_path", str(gpu)],
                             ["--baseline-profiling-path", str(gpu)]))
    print("all: %(cells)d cells, %(digits)d differ by digits, %(listed)d as listed, %(unlisted)d not listed" % total)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
