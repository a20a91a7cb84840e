#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`rankscope counters`: an aggregator and its collector tell what they count, and promtool takes the Prometheus form."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

from test_analyse import write_traces
import unittest_run

PROGRAM = os.environ["RANKSCOPE"]
RANKS = 3


def ask(address, *options):
    return subprocess.run([PROGRAM, "counters", "--connect", address, *options], capture_output=True, text=True, check=False)


class Counters(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="rs-e2e-")
        cls.address = f"unix:{cls.folder}/a.sock"
        write_traces(cls.folder + "/traces", world=RANKS)
        cls.aggregator = subprocess.Popen([PROGRAM, "aggregator", "--listen", cls.address, "--data", cls.folder + "/data"],
                                          stdout=subprocess.PIPE)
        if b"listening" not in cls.aggregator.stdout.readline():
            raise SystemExit("the aggregator did not start")
        cls.collector = subprocess.Popen([PROGRAM, "collector", "--connect", cls.address, "--spool", cls.folder + "/spool",
                                          "--watch", cls.folder + "/traces", "--node", 'n"1', "--no-native", "--no-kineto",
                                          "--no-ascend", "--no-mindspore", "--settle", "300ms", "--drain", "0s"])

    @classmethod
    def tearDownClass(cls):
        for process in (cls.collector, cls.aggregator):
            process.terminate()
            process.wait()
        cls.aggregator.stdout.close()
        shutil.rmtree(cls.folder)

    def told(self, enough, seconds=120):
        until = time.monotonic() + seconds
        while True:
            done = ask(self.address, "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            daemons = {daemon["daemon"]: daemon for daemon in json.loads(done.stdout)["daemons"]}
            if enough(daemons):
                return daemons
            self.assertLess(time.monotonic(), until, daemons)
            time.sleep(0.2)

    def test_what_was_sent_is_what_was_stored(self):
        daemons = self.told(lambda all: "collector" in all and all["collector"]["counters"]["spool.acked_chunks"] > 0 and
                            all["collector"]["counters"]["spool.waiting_chunks"] == 0)
        sent, stored = daemons["collector"]["counters"], daemons["aggregator"]["counters"]
        self.assertEqual(daemons["collector"]["node"], 'n"1')
        self.assertEqual(sent["uplink.sent_chunks"] - sent["uplink.resent_chunks"], stored["ingest.chunks"])
        self.assertEqual(sent["spool.acked_chunks"], stored["ingest.chunks"])
        self.assertEqual(stored["server.collectors"], 1)
        self.assertGreaterEqual(stored["server.questions"], 1)
        self.assertEqual((sent["spool.lost_chunks"], stored["ingest.refused_chunks"], sent["mem.failed_allocations"]), (0, 0, 0))
        self.assertGreater(stored["process.resident"], 1 << 20)
        self.assertNotIn("spool.disk", stored)  # not what an aggregator keeps

    def test_every_counter_of_the_table_is_told(self):
        with open("common/base/counters.def", encoding="utf-8") as table:
            text = table.read()
        lines = [line.split('"') for line in text.splitlines() if line.startswith("X(") and "enum suffix" not in line]
        daemons = self.told(lambda all: "collector" in all)
        told = set(daemons["aggregator"]["counters"]) | set(daemons["collector"]["counters"])
        self.assertEqual(told, {line[1] for line in lines})
        shown = ask(self.address).stdout
        for line in lines:
            self.assertIn(line[1], shown)
            self.assertIn(line[5], shown)

    def test_promtool_takes_it(self):
        self.told(lambda all: "collector" in all)
        text = ask(self.address, "--prometheus").stdout
        self.assertIn('rankscope_server_collectors{daemon="aggregator"} 1\n', text)
        self.assertIn('{daemon="collector",node="n\\"1",collector="', text)
        promtool = shutil.which("promtool")
        if not promtool:
            self.skipTest("no promtool here (Debian package prometheus)")
        done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))

    def test_bad_requests_and_no_daemon(self):
        self.assertEqual(ask(self.address, "--json", "--prometheus").returncode, 2)
        self.assertEqual(ask(self.address, "spool").returncode, 2)
        nobody = ask(f"unix:{self.folder}/nobody.sock")
        self.assertEqual(nobody.returncode, 4)
        self.assertEqual(nobody.stdout, "")


if __name__ == "__main__":
    sys.exit(unittest_run.main())
