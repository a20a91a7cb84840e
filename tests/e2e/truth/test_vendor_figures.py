#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a rank's own profiler wrote stands in the official tables, cell by cell; ours stand beside, under other names.

The inputs are made recordings (tests/support/ascend_inputs.py) and, where ../shared/data is, real ones and those of another
generator.

    RANKSCOPE=build/dev/rankscope tests/e2e/truth/test_vendor_figures.py
"""
import csv
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
OUTPUT = "ASCEND_PROFILER_OUTPUT"
FIGURES = ["Computing", "Communication(Not Overlapped)", "Overlapped", "Communication", "Free", "Stage", "Bubble",
           "Communication(Not Overlapped and Exclude Receive)", "Preparing"]
TABLES = {"StepTraceTime": "step, computing, communication_not_overlapped, overlapped, communication, free, stage, bubble, "
                           "communication_not_overlapped_and_exclude_receive, preparing",
          "CommAnalyzerTime": "hccl_op_name, group_name, start_timestamp, elapse_time, transit_time, wait_time, "
                              "synchronization_time, idle_time, step, type",
          "CommAnalyzerBandwidth": "hccl_op_name, group_name, transport_type, transit_size, transit_time, bandwidth, "
                                   "large_packet_ratio, package_size, count, total_duration, step, type",
          "CommAnalyzerMatrix": "hccl_op_name, group_name, transport_type, transit_size, transit_time, bandwidth, step, "
                                "type, op_name"}


def query(path, sql):
    with sqlite3.connect("file:%s?immutable=1" % path, uri=True) as db:
        return db.execute(sql).fetchall()


def document(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return json.load(file)


def rank_folders(tree):
    """By rank: the folder with the vendor's documents."""
    found = {}
    for name in sorted(os.listdir(tree)):
        for file in os.listdir(os.path.join(tree, name)) if os.path.isdir(os.path.join(tree, name)) else []:
            if file.startswith("profiler_info_") and file.endswith(".json"):
                found[int(file[14:-5])] = os.path.join(tree, name, OUTPUT)
    return found


class Made(unittest.TestCase):
    """By form: two ranks (`pair`), a job of eight (`eight`), and from how many cells on something was compared."""
    LEAST_PAIR = {"db": 500, "text": 300}
    IS_COVERED = True  # an operation's tasks leave no gap: its figures say that it is what they cover, whatever its row spans

    @classmethod
    def setUpClass(cls):
        cls.work = tempfile.mkdtemp(prefix="rs-truth-")
        cls.take_inputs()

    @classmethod
    def take_inputs(cls):
        cls.pair = ascend_inputs.made_pair(os.path.join(cls.work, "pair"))
        cls.eight = ascend_inputs.made_eight(os.path.join(cls.work, "eight"))

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.work)

    def analyse(self, tree):
        out = os.path.join(self.work, "out-" + tree.strip("/").replace("/", "-"))
        shutil.rmtree(out, ignore_errors=True)
        done = subprocess.run([PROGRAM, "analyse", tree, "-o", out, "--quiet"], capture_output=True, text=True,
                              check=False)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        return out

    def check_database(self, tree):
        out = self.analyse(tree)
        cells = 0
        for rank, folder in rank_folders(tree).items():
            for table, columns in TABLES.items():
                own = query(os.path.join(folder, "analysis.db"), f"SELECT {columns} FROM {table} ORDER BY rowid")
                ours = query(os.path.join(out, "analysis.db"),
                             f"SELECT {columns} FROM {table} WHERE rank_id = {rank} ORDER BY rowid")
                self.assertTrue(own)
                self.assertEqual(sorted(ours, key=str), sorted(own, key=str), f"rank {rank} {table}")
                cells += sum(map(len, own))
        return cells

    def check_text(self, tree):
        out = self.analyse(tree)
        times, links = document(out, "communication.json"), document(out, "communication_matrix.json")
        with open(os.path.join(out, "step_trace_time.csv"), encoding="utf-8", newline="") as file:
            steps = {(row["Rank"], row["Step"]): row for row in csv.DictReader(file)}
        cells = 0
        for rank, folder in rank_folders(tree).items():
            own = document(folder, "communication.json")
            for step, classes in own.items():
                for kind, ops in classes.items():
                    for key, op in ops.items():
                        self.assertEqual(times[step][kind][key][str(rank)], op, (rank, step, key))
                        cells += sum(1 for _ in str(op).split(","))
            told = 0
            for step, classes in document(folder, "communication_matrix.json").items():
                for kind, keys in classes.items():
                    for key, pairs in keys.items():
                        told += len(pairs)
                        self.assertTrue(all(link in links[step][kind][key].values() for link in pairs.values()
                                            if "send" not in key and "receive" not in key), (rank, step, key))
            self.assertTrue(told)
            with open(os.path.join(folder, "step_trace_time.csv"), encoding="utf-8", newline="") as file:
                for row in csv.DictReader(file):
                    ours = steps[str(rank), row["Step"].strip()]
                    for name in FIGURES:
                        self.assertEqual(float(ours[name]), float(row[name]), (rank, row["Step"], name))
                        cells += 1
        return cells

    def test_pair_database(self):
        self.assertGreater(self.check_database(self.pair["db"]), self.LEAST_PAIR["db"])

    def test_pair_text(self):
        self.assertGreater(self.check_text(self.pair["text"]), self.LEAST_PAIR["text"])

    def test_eight_database(self):
        self.assertGreater(self.check_database(self.eight["db"]), 10000)

    def test_eight_text(self):
        self.assertGreater(self.check_text(self.eight["text"]), 10000)

    def test_a_group_is_as_large_as_the_files_say(self):
        """The pair names places 0..7 of its group and holds two ranks of it."""
        for tree in self.pair.values():
            out = self.analyse(tree)
            with open(os.path.join(out, "collectives.csv"), encoding="utf-8", newline="") as file:
                rows = list(csv.DictReader(file))
            self.assertEqual(len(rows), 8)
            for row in rows:
                self.assertEqual((row["RanksSeen"], row["RanksExpected"], row["Coverage"], row["LastRank"]),
                                 ("2", "8", "partial", ""))

    def test_an_analysis_database_is_enough(self):
        """A rank without a profiler database or a trace: its operations are matched, its waits known, its steps official."""
        tree = os.path.join(self.work, "less")
        shutil.copytree(self.eight["db"], tree)
        for folder in rank_folders(tree).values():
            for name in os.listdir(folder):
                if name.startswith("ascend_pytorch_profiler"):
                    os.unlink(os.path.join(folder, name))
        whole, less = self.analyse(self.eight["db"]), self.analyse(tree)

        def operations(out):
            with open(os.path.join(out, "collectives.csv"), encoding="utf-8", newline="") as file:
                return {(row["Step"], row["Group"], row["Op"], row["Seq"], row["Rank"]): row for row in csv.DictReader(file)}
        first, second = operations(whole), operations(less)
        self.assertEqual(first.keys(), second.keys())
        self.assertGreater(len(first), 900)
        for key, row in first.items():
            self.assertEqual(second[key]["Coverage"], row["Coverage"])
            self.assertLess(abs(int(second[key]["Wait(ns)"] or 0) - int(row["Wait(ns)"] or 0)), 2000, key)
        sql = "SELECT * FROM StepTraceTime ORDER BY rank_id, step"
        drop_device = [[row[1:] for row in query(os.path.join(out, "analysis.db"), sql)] for out in (whole, less)]
        self.assertEqual(drop_device[0], drop_device[1])

    def test_ours_stand_under_other_names(self):
        out = self.analyse(self.pair["db"])
        path = os.path.join(out, "analysis.db")
        self.assertEqual(query(path, "SELECT count(*) FROM DerivedStepTraceTime"), [(2,)])
        self.assertEqual(query(path, "SELECT count(*) FROM DerivedCommTime"), [(8,)])

    def test_a_contradiction_is_reported_with_both_values(self):
        tree = os.path.join(self.work, "bent")
        shutil.copytree(self.pair["db"], tree)
        path = os.path.join(tree, "rank1_ascend_pt", OUTPUT, "analysis.db")
        os.chmod(path, 0o600)
        (was,), = query(path, "SELECT computing FROM StepTraceTime")
        with sqlite3.connect(path) as db:
            db.execute("UPDATE StepTraceTime SET computing = computing + 5000")
        out = self.analyse(tree)
        notes = json.dumps(document(out, "manifest.json")) + json.dumps(document(out, "report.json"))
        self.assertIn("its profiler says Computing of step 50 was %.3f us, its recording gives %.3f us" % (was + 5000, was), notes)
        with open(os.path.join(out, "step_trace_time.csv"), encoding="utf-8") as file:
            self.assertIn("1,1,50,%.3f," % (was + 5000), file.read())

    def test_operations_that_span_more_than_their_tasks(self):
        """As databases of 2024 have them: the profiler's Communication is the tasks', and `analyse` says what `cluster` says."""
        tree = os.path.join(self.work, "wide")
        shutil.copytree(self.pair["db"], tree)
        own = {}
        for rank, folder in rank_folders(tree).items():
            path, analysis = os.path.join(folder, "ascend_pytorch_profiler_%d.db" % rank), os.path.join(folder, "analysis.db")
            os.chmod(path, 0o600)
            with sqlite3.connect(path) as db:
                db.execute("UPDATE COMMUNICATION_OP SET endNs = endNs + 4000000")
            own[rank] = query(analysis, "SELECT %s FROM StepTraceTime" % TABLES["StepTraceTime"])
        out, cluster = self.analyse(tree), os.path.join(self.work, "wide-cluster")
        done = subprocess.run([PROGRAM, "cluster", tree, "-o", cluster, "--form", "db", "--quiet"], check=False, capture_output=True)
        self.assertIn(done.returncode, (0, 1), done.stderr)  # links to ranks that are not there
        official = os.path.join(cluster, "cluster_analysis_output", "cluster_analysis.db")
        for rank, rows in own.items():
            self.assertEqual(query(os.path.join(out, "analysis.db"), "SELECT %s FROM StepTraceTime WHERE rank_id = %d"
                                   % (TABLES["StepTraceTime"], rank)), rows)
            self.assertEqual(query(official, "SELECT %s FROM ClusterStepTraceTime WHERE type = 'rank' AND \"index\" = '%d'"
                                   % (TABLES["StepTraceTime"], rank)), rows)
        notes = json.dumps(document(out, "manifest.json")) + json.dumps(document(out, "report.json"))
        for rank, rows in own.items():
            ours = query(os.path.join(out, "analysis.db"), "SELECT communication FROM DerivedStepTraceTime WHERE rank_id = %d" % rank)
            if self.IS_COVERED:
                self.assertEqual("%.3f" % ours[0][0], "%.3f" % rows[0][4])
                self.assertNotIn("Rank %d: its profiler says Communication" % rank, notes)
                continue
            self.assertGreater(ours[0][0], rows[0][4] * 1.02)
            self.assertIn("Rank %d: its profiler says Communication of step 50 was %.3f us, its recording gives %.3f us"
                          % (rank, rows[0][4], ours[0][0]), notes)

    def test_what_is_not_known_is_empty(self):
        tree = os.path.join(self.work, "empty")
        shutil.copytree(self.pair["db"], tree)
        path = os.path.join(tree, "rank0_ascend_pt", OUTPUT, "analysis.db")
        os.chmod(path, 0o600)
        with sqlite3.connect(path) as db:
            db.execute("UPDATE StepTraceTime SET free = NULL, stage = 'soon', bubble = 9e999")
            db.execute("UPDATE CommAnalyzerTime SET wait_time = NULL, idle_time = 'none'")
        out = self.analyse(tree)
        mine = os.path.join(out, "analysis.db")
        self.assertEqual(query(mine, "SELECT free, stage, bubble FROM StepTraceTime WHERE rank_id = 0"),
                         [(None, None, None)])
        self.assertEqual(query(mine, "SELECT DISTINCT wait_time, idle_time FROM CommAnalyzerTime WHERE rank_id = 0"),
                         [(None, None)])
        with open(os.path.join(out, "step_trace_time.csv"), encoding="utf-8", newline="") as file:
            row = [row for row in csv.DictReader(file) if row["Rank"] == "0"][0]
        self.assertEqual((row["Free"], row["Stage"], row["Bubble"]), ("", "", ""))
        self.assertNotEqual(row["Computing"], "")


if ascend_inputs.has_shared():
    class Recorded(Made):
        """The same of real ranks of Level1, and of a job that another generator made."""
        LEAST_PAIR = {"db": 1000, "text": 300}
        IS_COVERED = False

        @classmethod
        def take_inputs(cls):
            cls.pair = ascend_inputs.real_pair()
            cls.eight = ascend_inputs.golden_eight(os.path.join(cls.work, "eight"))


if __name__ == "__main__":
    unittest.main()
