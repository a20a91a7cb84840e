#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Several aggregators on one ClickHouse (Debian's 18.16): which of them live, as any of them tells it. Skipped (77) without the server."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

import unittest_run

from rig_clickhouse import Cutter, Server, found
from rig_native import PROGRAM, kill

LEASE_S = 10


def wait_until(what, is_it, seconds=120):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        value = is_it()
        if value:
            return value
        time.sleep(0.1)
    raise AssertionError("it never came: " + what)


class Aggregator:
    """One of several; each has a data folder and a socket of its own."""

    def __init__(self, folder, name, words):
        self.folder, self.words = os.path.join(folder, name), list(words)
        os.makedirs(self.folder, exist_ok=True)
        self.data, self.address = os.path.join(self.folder, "data"), "unix:" + os.path.join(self.folder, "a.sock")
        self.start()

    def start(self, *words):
        with open(os.path.join(self.folder, "log"), "ab") as log:
            self.process = subprocess.Popen([PROGRAM, "aggregator", "--data", self.data, "--listen", self.address, "-v", *self.words, *words],
                                            stdout=subprocess.PIPE, stderr=log, text=True)
        self.said = [self.process.stdout.readline()]
        if "listening" not in self.said[0]:
            raise AssertionError("it did not start: " + self.log())

    def log(self):
        with open(os.path.join(self.folder, "log"), encoding="utf-8") as file:
            return file.read()

    def call(self, *words, code=0):
        done = subprocess.run([PROGRAM, *words, "--connect", self.address], capture_output=True, text=True, check=False, timeout=120)
        if code is not None and done.returncode != code:
            raise AssertionError(f"{words}: {done.returncode}: {done.stdout}{done.stderr}\n{self.log()[-2000:]}")
        return done

    def told(self, code=0):
        """By id."""
        return {one["id"]: one for one in json.loads(self.call("aggregators", "--json", code=code).stdout)["aggregators"]}

    def id(self):
        with open(os.path.join(self.data, "aggregator.id"), encoding="utf-8") as file:
            return file.read().split("\n")[1]

    def end(self):
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait(60)
        self.process.stdout.close()

    def kill(self):
        kill(self.process.pid)
        self.process.wait()
        self.process.stdout.close()


class Aggregators(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="rs-aggregators-")
        cls.server = Server(cls.folder)

    @classmethod
    def tearDownClass(cls):
        cls.server.close()
        shutil.rmtree(cls.folder)

    def setUp(self):
        self.here = os.path.join(self.folder, self._testMethodName)
        self.parts = []

    def tearDown(self):
        for part in self.parts:
            part.end()

    def start(self, name, *words):
        part = Aggregator(self.here, name, words)
        self.parts.append(part)
        return part

    def test_all_are_told_by_each(self):
        """Also with a database that is made by the first of them, where a port is free, and which address others get."""
        words = self.server.words("fleet")
        one = self.start("one", *words, "--http", "127.0.0.1:0", "--insecure-loopback")
        two = self.start("two", *words, "--advertise", "agg2.cluster:7070")
        for asked, other in ((one, two), (two, one)):
            wait_until("an answer", lambda: asked.call("aggregators", code=None).returncode == 0)
            told = wait_until("both", lambda: (lambda t: len(t) == 2 and t)(asked.told()))
            self.assertEqual(set(told), {one.id(), two.id()})
            self.assertTrue(told[asked.id()]["is_self"])
            self.assertFalse(told[other.id()]["is_self"])
            for row in told.values():
                self.assertEqual((row["state"], row["epoch"], row["captures"], row["open"], row["is_double"]), ("living", 1, 0, 0, False))
            self.assertEqual(told[two.id()]["address"], "agg2.cluster:7070")
            self.assertEqual(told[one.id()]["address"], one.address)
            self.assertIsNone(told[two.id()]["http"])
        http = wait_until("the port of HTTP", lambda: one.process.stdout.readline()).split()[-1]
        self.assertEqual(told[one.id()]["http"], http)
        with urllib.request.urlopen(http + "/api/v1/aggregators") as answer:
            self.assertEqual({row["id"] for row in json.load(answer)["aggregators"]}, {one.id(), two.id()})
        text = one.call("aggregators").stdout.splitlines()
        self.assertEqual([line[0] for line in text], [" "] + ["*" if i == one.id() else " " for i in sorted(told)])

        # One stops and says so; one is killed, and its lease ends; one comes back as who it was.
        two.end()
        wait_until("that it stopped", lambda: one.told()[two.id()]["state"] == "stopped")
        two.start()
        wait_until("that it is back", lambda: one.told()[two.id()]["state"] == "living")
        self.assertEqual(one.told()[two.id()]["epoch"], 2)
        two.kill()
        killed = time.monotonic()
        wait_until("that it is gone", lambda: one.told()[two.id()]["state"] == "gone")
        self.assertLess(time.monotonic() - killed, LEASE_S + 15)
        two.start()
        wait_until("that it is back again", lambda: one.told()[two.id()]["epoch"] == 3)
        self.assertEqual(len(one.told()), 2)
        rows = int(self.server.sql(f"SELECT count(DISTINCT instance) FROM aggregator WHERE id = '{two.id()}'", "fleet"))
        self.assertEqual(rows, 3)

    def test_a_database_that_is_away_holds_nobody_up(self):
        cutter = Cutter(self.server.plain, 0)
        cutter.is_ill = True
        url = f"clickhouse+http://profiler@127.0.0.1:{cutter.own_port}"
        try:
            one = self.start("one", *self.server.words("away", url))
            done = wait_until("why", lambda: (lambda d: "Too many parts" in d.stderr and d)(one.call("aggregators", code=4)))
            one.call("ranks", code=1)
            cutter.is_ill = False
            wait_until("that it is told", lambda: one.call("aggregators", code=None).returncode == 0)
            cutter.is_ill = True
            done = wait_until("that it is away", lambda: (lambda d: d.returncode == 1 and d)(one.call("aggregators", code=None)))
            self.assertIn("as it was when the database was reached last", done.stderr)
            self.assertEqual(set(one.told(code=1)), {one.id()})
            one.call("ranks", code=1)
            cutter.is_ill = False
            wait_until("that it is back", lambda: one.call("aggregators", code=None).returncode == 0)
        finally:
            cutter.close()

    def test_a_folder_that_was_copied(self):
        words = self.server.words("copied")
        one = self.start("one", *words)
        wait_until("one", lambda: one.call("aggregators", code=None).returncode == 0)
        os.makedirs(os.path.join(self.here, "two", "data"))
        shutil.copy(os.path.join(one.data, "aggregator.id"), os.path.join(self.here, "two", "data"))
        two = self.start("two", *words)
        done = wait_until("that it is told", lambda: (lambda d: "live with one id" in d.stderr and d)(two.call("aggregators", code=None)))
        self.assertEqual(done.returncode, 1)
        wait_until("that it is logged", lambda: "with the same id" in one.log() and "with the same id" in two.log())
        two.end()
        os.remove(os.path.join(two.data, "aggregator.id"))
        two.start()
        wait_until("that both are themselves", lambda: len(one.told(code=None)) == 2 and one.call("aggregators", code=None).returncode == 0)
        self.assertNotEqual(one.id(), two.id())

    def test_who_may_make_no_table(self):
        """It serves as ever, and says that others do not hear of it."""
        self.server.sql("CREATE DATABASE IF NOT EXISTS given")
        maker = self.start("maker", *self.server.words("given"))
        wait_until("the tables", lambda: maker.call("aggregators", code=None).returncode == 0)
        maker.end()
        url = f"clickhouse://writer@localhost:{self.server.secure}"
        one = self.start("one", *self.server.words("given", url))
        wait_until("that it is told", lambda: one.call("aggregators", code=None).returncode == 0)
        one.end()
        self.server.sql("DROP TABLE aggregator", "given")
        one.start()
        wait_until("why", lambda: "prohibited" in one.call("aggregators", code=4).stderr)
        one.call("ranks", code=1)

    def test_without_a_database(self):
        alone = self.start("alone")
        done = alone.call("aggregators", code=3)
        self.assertIn("it has no --store", done.stderr)
        self.assertFalse(os.path.exists(os.path.join(alone.data, "aggregator.id")))
        done = subprocess.run([PROGRAM, "aggregator", "--data", alone.data, "--advertise", "a:1"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--advertise needs --store", done.stderr)


if __name__ == "__main__":
    if not found():
        print("aggregators: skipped, no clickhouse-server here (apt-get install clickhouse-server)")
        sys.exit(77)
    unittest_run.main(verbosity=1)
