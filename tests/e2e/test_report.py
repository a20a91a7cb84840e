#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`rankscope report`: a capture in the store gives the same files as its recordings do offline.

The captures are made by make_capture (make_capture.c), without daemons; test_stream.py has the whole way.
"""
import glob
import json
import os
import shutil
import sqlite3
import subprocess
import tempfile
import unittest

import unittest_run

from test_analyse import DELIVERABLES, SHARED, has_shared, load, rankscope, read, rows, trace_of, write_traces

MAKE_CAPTURE = os.path.join(os.environ.get("RANKSCOPE_BUILD", "build/dev"), "make_capture")


class Report(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="rs-e2e-")
        self.traces = os.path.join(self.folder, "traces")
        self.data = os.path.join(self.folder, "data")
        self.offline = os.path.join(self.folder, "offline")
        self.stored = os.path.join(self.folder, "stored")

    def tearDown(self):
        shutil.rmtree(self.folder)

    def capture(self, *words):
        done = subprocess.run([MAKE_CAPTURE, self.data, *words], capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def report(self, *words, code=0):
        done = rankscope("report", *words)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def own_traces(self):
        write_traces(self.traces)
        return sorted(glob.glob(os.path.join(self.traces, "*")))

    def assert_same(self):
        for name in DELIVERABLES:
            if name != "analysis.db":
                self.assertEqual(read(self.offline, name), read(self.stored, name), name)
        dumps = []
        for folder in (self.offline, self.stored):
            database = sqlite3.connect(os.path.join(folder, "analysis.db"))
            dumps.append([line for line in database.iterdump() if "RankManifest" not in line])
            database.close()
        self.assertEqual(*dumps)

    def test_same_files_as_offline(self):
        files = self.own_traces()
        folder = self.capture(*files)
        offline = rankscope("analyse", self.traces, "-o", self.offline)
        stored = self.report(folder, "-o", self.stored)
        self.assertEqual(offline.stdout.splitlines()[:-1], stored.stdout.splitlines()[:-1])
        self.assert_same()
        manifest = load(self.stored, "manifest.json")
        self.assertEqual(manifest["run"], "made")
        self.assertEqual(manifest["capture"], os.path.basename(folder))

    def same_as_offline(self, source, pattern):
        folder = self.capture(*sorted(glob.glob(f"{source}/{pattern}")))
        rankscope("analyse", source, "-o", self.offline)
        self.report(folder, "-o", self.stored)
        self.assert_same()

    def test_same_files_as_offline_on_the_bundled_job(self):
        self.same_as_offline("docs/examples/slow-loader", "rank*")

    if has_shared("kineto/dlrm-8rank"):
        def test_same_files_as_offline_on_real_ranks(self):
            self.same_as_offline(f"{SHARED}/kineto/dlrm-8rank", "worker*")

    def test_what_hosts_did_is_read_from_raw_events(self):
        folder = self.capture(*sorted(glob.glob("docs/examples/slow-loader/rank*")))
        spans, hosts = (json.loads(rankscope("table", folder, name, "--ranks", "0-1", "--json").stdout)["rows"] for name in ("span", "host_span"))
        self.assertEqual(spans, [])  # ranks without a device: nothing of theirs is a device's work
        self.assertEqual({row["kind"] for row in hosts}, {"cpu_op", "user_annotation"})
        self.assertTrue(all(row["device"] is None and row["end_ns"] >= row["start_ns"] for row in hosts))
        self.assertTrue(any("DataLoader" in row["name"] for row in hosts))
        some = hosts[len(hosts) // 2]
        found = json.loads(rankscope("table", folder, "host_span", "--ranks", str(some["rank"]), "--from-ns", str(some["start_ns"]), "--to-ns", str(some["end_ns"]),
                                     "--json").stdout)["rows"]
        self.assertIn(some, found)
        self.assertLess(len(found), len(hosts))
        self.assertEqual(rankscope("table", folder, "host_span").returncode, 2)  # of named ranks

    def test_values_of_counters_are_read_from_raw_events(self):
        os.makedirs(self.traces)
        path = os.path.join(self.traces, "rank0.json")
        trace = trace_of(0, 1, 0)
        lane = {"ph": "C", "pid": 0, "tid": 0}
        trace["traceEvents"] += [{**lane, "name": "[memory]", "ts": 1500.0, "args": {"Total Allocated": 512, "Device Id": 0}},
                                 {**lane, "name": "bare", "ts": 2500.0}]
        with open(path, "w", encoding="ascii") as file:
            json.dump(trace, file)
        folder = self.capture(path)

        def values(*words):
            return json.loads(rankscope("table", folder, "counter", "--ranks", "0", *words, "--json").stdout)["rows"]

        found = values()
        self.assertEqual([row["name"] for row in found], ["[memory]", "bare"])
        self.assertEqual(json.loads(found[0]["args"]), {"Total Allocated": 512, "Device Id": 0})
        self.assertEqual([row["value"] for row in found], [None, None])  # neither is of one number
        self.assertEqual(found[1]["at_ns"] - found[0]["at_ns"], 1_000_000)
        self.assertEqual(values("--from-ns", str(found[0]["at_ns"] + 1)), found[1:])
        self.assertEqual(rankscope("table", folder, "counter").returncode, 2)  # of named ranks
        columns = rankscope("table", folder, "counter", "--ranks", "0").stdout.splitlines()[0]
        self.assertEqual(columns, "rank,device,at_ns,name,value,args")

    def test_an_id_is_found_in_the_data(self):
        folder = self.capture(*self.own_traces())
        self.report(os.path.basename(folder), "--data", self.data, "-o", self.stored)
        self.report("no-such-id", "--data", self.data, code=2)
        self.report("../captures", "--data", self.data, code=2)

    def test_summaries_that_never_came_are_made_from_events(self):
        files = self.own_traces()
        folder = self.capture("--no-summary", *files)
        rankscope("analyse", self.traces, "-o", self.offline)
        self.report(folder, "-o", self.stored)
        self.assert_same()

    def test_a_stream_that_broke_off_is_a_partial_rank(self):
        folder = self.capture("--cut", "2", *self.own_traces())
        done = self.report(folder, "-o", self.stored, code=1)
        self.assertIn("rank 0", done.stderr)
        coverage = load(self.stored, "report.json")["coverage"]
        self.assertEqual(coverage["partial_ranks"], [0])
        self.assertEqual({r["Rank"] for r in rows(self.stored, "rank_breakdown.csv")} - {"0"},
                         {"1", "2", "3"})


if __name__ == "__main__":
    unittest_run.main(verbosity=1)
