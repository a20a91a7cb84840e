#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every column that is read, emptied, filled with text, with infinity, with bytes that are not UTF-8, renamed, dropped.

One rank of a job gets the changed table, the other stays. Whatever the change: no number becomes 0 and no row goes
away unless the rank is called partial (exit 1) with a reason that names the table; no byte that is not UTF-8 gets into a
deliverable.

The job is ../shared/data/ascend/level1-db where that is, else a made one (tests/support/ascend_inputs.py).

    RANKSCOPE=build/dev/rankscope tests/e2e/truth/test_columns.py
"""
import concurrent.futures
import csv
import glob
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../support"))
import ascend_inputs  # noqa: E402

PROGRAM = os.path.abspath(os.environ.get("RANKSCOPE", "build/dev/rankscope"))
ANALYSIS = ["StepTraceTime", "CommAnalyzerTime", "CommAnalyzerBandwidth", "CommAnalyzerMatrix"]
PROFILER = {
    "STRING_IDS": ["id", "value"],
    "STEP_TIME": ["id", "startNs", "endNs"],
    "SESSION_TIME_INFO": ["startTimeNs", "endTimeNs"],
    "TASK": ["startNs", "endNs", "deviceId", "connectionId", "globalTaskId", "streamId", "taskType"],
    "COMPUTE_TASK_INFO": ["globalTaskId", "name"],
    "COMMUNICATION_OP": ["opName", "startNs", "endNs", "connectionId", "groupName", "opId", "dataType", "count"],
    "COMMUNICATION_TASK_INFO": ["globalTaskId", "opId", "groupName", "taskType", "planeId", "srcRank", "dstRank",
                                "size", "linkType", "rdmaType"],
    "CANN_API": ["startNs", "endNs", "type", "connectionId", "globalTid", "name"],
    "PYTORCH_API": ["startNs", "endNs", "name", "type", "globalTid"],
    "RANK_DEVICE_MAP": ["rankId", "deviceId"],
    "HOST_INFO": ["hostUid", "hostName"],
    "META_DATA": ["name", "value"],
}
VALUES = {"null": "NULL", "text": "'soon'", "infinity": "9e999", "bytes": "CAST(x'6aff9b31' AS TEXT)"}
ODD = ("text", "infinity", "bytes")
# these name what is there, whatever it is: other text is another name, not a loss
NAMES = {"hccl_op_name", "group_name", "transport_type", "step", "type", "op_name", "value", "name", "hostUid", "hostName"}
# here a text may stand where an id of STRING_IDS usually does: then it is another name, and its operation is unmatched
TEXTS = {("COMMUNICATION_OP", "opName"), ("COMMUNICATION_OP", "groupName"), ("TASK", "taskType"), ("COMPUTE_TASK_INFO", "name"),
         ("CANN_API", "name"), ("COMMUNICATION_TASK_INFO", "groupName"), ("COMMUNICATION_TASK_INFO", "taskType")}
# read for the timeline only, or known to be missing in older generations
OPTIONAL = {"deviceId", "streamId", "opId", "dataType", "count", "rdmaType", "globalTid", "type", "op_name", "groupName"}


def copy_job(job, target):
    shutil.copytree(job, target, copy_function=shutil.copyfile)
    for folder, _, _ in os.walk(target):
        os.chmod(folder, 0o755)


def change_column(path, table, column, change):
    """Columns of keys and indexes cannot be altered in place: the table is made anew without them."""
    with sqlite3.connect(path) as db:
        shown = []
        for _, name, *_ in db.execute('PRAGMA table_info("%s")' % table).fetchall():
            if name != column:
                shown.append('"%s"' % name)
            elif change == "renamed":
                shown.append('"%s" AS "tomorrow_%s"' % (name, name))
            elif change != "dropped":
                shown.append('%s AS "%s"' % (VALUES[change], name))
        db.execute('CREATE TABLE made AS SELECT %s FROM "%s"' % (", ".join(shown), table))
        db.execute('DROP TABLE "%s"' % table)
        db.execute('ALTER TABLE made RENAME TO "%s"' % table)
    db.close()


def is_zero(cell):
    try:
        return cell not in (None, "") and float(cell) == 0
    except (TypeError, ValueError):
        return False


def database_tables(path):
    db = sqlite3.connect("file:%s?immutable=1" % path, uri=True)
    db.text_factory = lambda raw: raw.decode("utf-8")  # raises: that is the test
    for (table,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        rows = db.execute('SELECT * FROM "%s"' % table)
        yield table, [column[0] for column in rows.description], rows.fetchall()
    db.close()


def figures(out):
    """By table: how many rows, and zeros by column. Everything in `out` is decoded on the way."""
    rows, zeros = {}, {}
    for path in glob.glob(os.path.join(glob.escape(out), "**", "*"), recursive=True):
        tables = []
        if path.endswith(".db"):
            tables = database_tables(path)
        elif path.endswith(".csv"):
            with open(path, encoding="utf-8", newline="") as file:
                read = list(csv.reader(file))
            tables = [(os.path.basename(path), read[0], read[1:])]
        elif path.endswith(".json"):
            with open(path, encoding="utf-8") as file:
                json.load(file)
        for table, columns, cells in tables:
            rows[table] = len(cells)
            for at, column in enumerate(columns):
                zeros[table, column] = sum(is_zero(row[at]) for row in cells)
    return rows, zeros


class Columns(unittest.TestCase):
    def setUp(self):
        self.work = tempfile.mkdtemp(prefix="rs-columns-")
        self.job = ascend_inputs.either_pair(os.path.join(self.work, "made"))["db"]
        self.sound = {verb: self.run_verb(verb, self.job, "sound")[2] for verb in ("analyse", "cluster")}

    def tearDown(self):
        shutil.rmtree(self.work)

    def run_verb(self, verb, tree, name):
        out = os.path.join(self.work, name + "-" + verb)
        form = ["--form", "db"] if verb == "cluster" else []
        done = subprocess.run([PROGRAM, verb, tree, "-o", out, "--quiet", *form], capture_output=True, check=False)
        told = done.stderr.decode("utf-8")
        if os.path.exists(os.path.join(out, "manifest.json")):
            with open(os.path.join(out, "manifest.json"), encoding="utf-8") as file:
                told += " ".join(str(one.get("reason")) for one in json.load(file)["inputs"])
        found = figures(out) if done.returncode in (0, 1) else ({}, {})
        shutil.rmtree(out, ignore_errors=True)
        return done.returncode, told, found

    def check_change(self, number, verb, base, table, column, change):
        """What is wrong with the answer; None."""
        tree = os.path.join(self.work, "tree%d" % number)
        copy_job(self.job, tree)
        change_column(glob.glob(os.path.join(tree, "rank1_ascend_pt", "*", base))[0], table, column, change)
        code, told, (rows, zeros) = self.run_verb(verb, tree, "tree%d" % number)
        shutil.rmtree(tree)
        sound_rows, sound_zeros = self.sound[verb]
        more = {key: (sound_zeros.get(key, 0), count) for key, count in zeros.items() if count > sound_zeros.get(key, 0)}
        less = {key: count for key, count in sound_rows.items() if rows.get(key, 0) < count}
        if code not in (0, 1, 2):
            return "exit %d" % code
        if (table, column) in TEXTS and change in ("text", "bytes"):
            return None
        if code == 0 and (more or less):
            return "said nothing; zeros %s, rows lost %s" % (more, less)
        if verb == "cluster" and more:
            return "zeros %s" % more  # sums: what is not known makes them NULL, and says so besides
        is_harmless = column in OPTIONAL or (column in NAMES and change in ODD) or \
            (table, column, change) == ("StepTraceTime", "step", "null")
        read = verb == "analyse" or base == "analysis.db"
        if read and not is_harmless and table != "PYTORCH_API" and (code != 1 or table not in told):
            return "exit %d, and no reason names %s: %s" % (code, table, told[-200:])
        return None

    def test_no_silent_zero(self):
        cases = []
        with sqlite3.connect("file:%s?immutable=1" % glob.glob(self.job + "/rank1_ascend_pt/*/analysis.db")[0], uri=True) as db:
            for table in ANALYSIS:
                columns = [row[1] for row in db.execute('PRAGMA table_info("%s")' % table)]
                for at, column in enumerate(columns):
                    for change in ("null", "renamed", "dropped", ODD[at % 3]):
                        cases.append(("analyse", "analysis.db", table, column, change))
                    for change in ("null", ODD[(at + 1) % 3]):
                        cases.append(("cluster", "analysis.db", table, column, change))
        for at, (table, column) in enumerate((t, c) for t, names in PROFILER.items() for c in names):
            for change in ("null", "renamed", ODD[at % 3]):
                cases.append(("analyse", "ascend_pytorch_profiler_1.db", table, column, change))
        cases += [("cluster", "ascend_pytorch_profiler_1.db", "HOST_INFO", column, "bytes") for column in PROFILER["HOST_INFO"]]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            wrong = [(case, fault) for case, fault in zip(cases, pool.map(lambda one: self.check_change(one[0], *one[1]),
                                                                          enumerate(cases))) if fault]
        self.assertEqual(wrong, [])
        print("%d changes of %d columns: none silent" % (len(cases), len({case[2:4] for case in cases})))


if __name__ == "__main__":
    unittest.main()
