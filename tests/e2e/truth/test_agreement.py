#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`analyse`, `report` of what two collectors streamed, and `cluster` show the figures of the profiler's own files, cell by cell.

Two ranks of Level1 and a job of eight, each as database and as text: made ones (tests/support/ascend_inputs.py), and where
../shared/data is, real ones and those of another generator. The number of cells held against the inputs is printed.

    RANKSCOPE=build/dev/rankscope tests/e2e/truth/test_agreement.py
"""
import csv
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest

from test_vendor_figures import FIGURES, PROGRAM, TABLES, ascend_inputs, document, query, rank_folders

OUTPUT = "ASCEND_PROFILER_OUTPUT"
LONG_S = 300  # only against waiting for ever


def copy_tree(source, target):
    shutil.copytree(source, target, copy_function=shutil.copyfile)
    for folder, _, _ in os.walk(target):
        os.chmod(folder, 0o755)


def set_trace_id(rank_folder, text):
    """What a capture request leaves: ranks of one capture bear one id."""
    path = os.path.join(rank_folder, "profiler_metadata.json")
    found = document(path) if os.path.exists(path) else {}
    found["trace_id"] = text
    with open(path, "w", encoding="utf-8") as file:
        json.dump(found, file)


def dump(path):
    """A database as text; RankManifest holds paths."""
    with sqlite3.connect("file:%s?immutable=1" % path, uri=True) as db:
        return [line for line in db.iterdump() if "RankManifest" not in line]


class Streams:
    """An aggregator and two collectors, each with half of the ranks' folders to watch."""

    def __init__(self, work, halves):
        self.address = "unix:" + os.path.join(work, "a.sock")
        self.processes = [subprocess.Popen([PROGRAM, "aggregator", "--listen", self.address, "--data",
                                            os.path.join(work, "data")], stdout=subprocess.PIPE,
                                           stderr=subprocess.DEVNULL)]
        while b"listening" not in self.processes[0].stdout.readline():
            if self.processes[0].poll() is not None:
                raise AssertionError("the aggregator did not start")
        for at, half in enumerate(halves):
            with open(os.path.join(work, "collector%d.log" % at), "wb") as log:
                self.processes.append(subprocess.Popen(
                    [PROGRAM, "collector", "--connect", self.address, "--spool", os.path.join(work, "spool%d" % at),
                     "--watch", half, "--no-native", "--settle", "2s", "--run", "job"], stdout=subprocess.DEVNULL,
                    stderr=log))

    def captures(self):
        done = subprocess.run([PROGRAM, "capture", "list", "--connect", self.address, "--json"], capture_output=True,
                              check=False, timeout=LONG_S)
        return json.loads(done.stdout)["captures"]

    def wait(self, ranks):
        """The one capture that holds these ranks, closed."""
        until = time.monotonic() + LONG_S
        while time.monotonic() < until:
            found = self.captures()
            if len(found) == 1 and found[0]["closed_ns"] and len(found[0]["ranks"]) == ranks:
                return found[0]
            time.sleep(0.3)
        raise AssertionError("no closed capture of %d ranks: %s" % (ranks, self.captures()))

    def stop(self):
        for process in reversed(self.processes):
            process.terminate()
            process.wait()
        self.processes[0].stdout.close()


class Made(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.work = tempfile.mkdtemp(prefix="rs-agree-")
        cls.take_inputs()

    @classmethod
    def take_inputs(cls):
        cls.pair = ascend_inputs.made_pair(os.path.join(cls.work, "pair"))
        cls.eight = ascend_inputs.made_eight(os.path.join(cls.work, "eight"))

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.work)

    def halves(self, tree, name):
        """The ranks' folders in two trees, as on two nodes."""
        made = [os.path.join(self.work, name, half) for half in ("a", "b")]
        for at, folder in enumerate(sorted(rank_folders(tree).values())):
            own = os.path.dirname(folder)
            target = os.path.join(made[at % 2], os.path.basename(own))
            copy_tree(own, target)
            set_trace_id(target, "job-" + name)
        return made

    def run_ok(self, *arguments):
        done = subprocess.run([PROGRAM, *arguments, "--quiet"], capture_output=True, text=True, check=False,
                              timeout=LONG_S)
        self.assertIn(done.returncode, (0, 1), done.stderr)

    def produce(self, tree, name):
        """What `analyse` and `report` print of the same ranks: the two folders."""
        halves = self.halves(tree, name)
        offline, online = (os.path.join(self.work, name, out) for out in ("offline", "online"))
        self.run_ok("analyse", *halves, "-o", offline)
        streams = Streams(os.path.join(self.work, name), halves)
        try:
            capture = streams.wait(len(rank_folders(tree)))
            self.run_ok("report", capture["id"], "--connect", streams.address, "-o", online)
        finally:
            streams.stop()
        self.assertEqual(sorted(os.listdir(online)), sorted(os.listdir(offline)))
        return offline, online, halves

    def same_documents(self, offline, online):
        for file in ("step_trace_time.csv", "communication.json", "communication_matrix.json"):
            with open(os.path.join(offline, file), "rb") as a, open(os.path.join(online, file), "rb") as b:
                self.assertEqual(a.read(), b.read(), file)
        self.assertEqual(dump(os.path.join(offline, "analysis.db")), dump(os.path.join(online, "analysis.db")))

    def check_tables(self, out, tree):
        cells = 0
        for rank, folder in rank_folders(tree).items():
            for table, columns in TABLES.items():
                own = query(os.path.join(folder, "analysis.db"), f"SELECT {columns} FROM {table}")
                ours = query(os.path.join(out, "analysis.db"), f"SELECT {columns} FROM {table} WHERE rank_id = {rank}")
                self.assertEqual(sorted(ours, key=str), sorted(own, key=str), (rank, table))
                cells += sum(map(len, own))
        return cells

    def check_documents(self, out, tree):
        cells = 0
        times = document(out, "communication.json")
        with open(os.path.join(out, "step_trace_time.csv"), encoding="utf-8", newline="") as file:
            steps = {(row["Rank"], row["Step"]): row for row in csv.DictReader(file)}
        for rank, folder in rank_folders(tree).items():
            for step, classes in document(folder, "communication.json").items():
                for kind, ops in classes.items():
                    for key, op in ops.items():
                        self.assertEqual(times[step][kind][key][str(rank)], op, (rank, step, key))
                        cells += len(str(op).split(","))
            with open(os.path.join(folder, "step_trace_time.csv"), encoding="utf-8", newline="") as file:
                for row in csv.DictReader(file):
                    for name in FIGURES:
                        self.assertEqual(float(steps[str(rank), row["Step"].strip()][name]), float(row[name]))
                        cells += 1
        return cells

    def check_cluster_tables(self, halves, tree):
        out = os.path.join(os.path.dirname(halves[0]), "cluster")
        self.run_ok("cluster", *halves, "-o", out, "--form", "db")
        path = os.path.join(out, "cluster_analysis_output", "cluster_analysis.db")
        cells = 0
        times = "hccl_op_name, group_name, start_timestamp, %s, transit_time, wait_time, synchronization_time, idle_time, step"
        bands = ("hccl_op_name, group_name, %s, transit_size, transit_time, bandwidth, large_packet_ratio, package_size, count, "
                 "total_duration, step")
        figures = TABLES["StepTraceTime"].split(", ", 1)[1]
        for rank, folder in rank_folders(tree).items():
            own = os.path.join(folder, "analysis.db")
            for theirs, ours in (
                    (f"SELECT {times % 'elapse_time'} FROM CommAnalyzerTime",
                     f"SELECT {times % 'elapsed_time'} FROM ClusterCommunicationTime WHERE rank_id = {rank} AND "
                     "hccl_op_name <> 'Total Op Info'"),
                    (f"SELECT {bands % 'transport_type'} FROM CommAnalyzerBandwidth",
                     f"SELECT {bands % 'band_type'} FROM ClusterCommunicationBandwidth WHERE rank_id = {rank} AND "
                     "hccl_op_name <> 'Total Op Info'"),
                    (f"SELECT {figures} FROM StepTraceTime",
                     f"SELECT {figures} FROM ClusterStepTraceTime WHERE type = 'rank' AND \"index\" = '{rank}'")):
                first, second = query(own, theirs), query(path, ours)
                self.assertEqual(sorted(second, key=str), sorted(first, key=str), (rank, ours))
                cells += sum(map(len, first))
        return cells

    def check_cluster_documents(self, halves, tree):
        out = os.path.join(os.path.dirname(halves[0]), "cluster")
        self.run_ok("cluster", *halves, "-o", out, "--form", "text")
        found = {}
        for steps in document(out, "cluster_analysis_output", "cluster_communication.json").values():
            for step, ops in steps.items():
                for key, ranks in ops.items():
                    for rank, op in ranks.items():
                        found[step, key, rank] = op
        cells = 0
        for rank, folder in rank_folders(tree).items():
            for step, classes in document(folder, "communication.json").items():
                for ops in classes.values():
                    for key, op in ops.items():
                        if key != "Total Op Info":
                            self.assertEqual(found[step, key, str(rank)], op, (rank, step, key))
                            cells += len(str(op).split(","))
        return cells

    def agree(self, tree, name, is_text):
        offline, online, halves = self.produce(tree, name)
        self.same_documents(offline, online)
        check = self.check_documents if is_text else self.check_tables
        count = check(offline, tree) + check(online, tree)
        cluster = (self.check_cluster_documents if is_text else self.check_cluster_tables)(halves, tree)
        self.assertGreater(cluster, 200)
        print("%s: %d cells of analyse and report, %d of cluster equal the inputs'" % (name, count, cluster))

    def test_pair_database(self):
        self.agree(self.pair["db"], "pair-db", False)

    def test_pair_text(self):
        self.agree(self.pair["text"], "pair-text", True)

    def test_eight_database(self):
        self.agree(self.eight["db"], "eight-db", False)

    def test_eight_text(self):
        self.agree(self.eight["text"], "eight-text", True)


if ascend_inputs.has_shared():
    class Recorded(Made):
        """The same of real ranks of Level1, and of a job that another generator made."""

        @classmethod
        def take_inputs(cls):
            cls.pair = ascend_inputs.real_pair()
            cls.eight = ascend_inputs.golden_eight(os.path.join(cls.work, "eight"))


if __name__ == "__main__":
    unittest.main()
