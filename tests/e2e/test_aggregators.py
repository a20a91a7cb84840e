#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Several aggregators on one ClickHouse (Debian's 18.16): which of them live, as any of them tells it; captures of each, as all of them answer.
Skipped (77) without the server."""
import csv
import io
import json
import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request

import unittest_run

from rig_clickhouse import LACKS, Cutter, WithServer, found
from rig_native import PROGRAM, Rig, kill

LEASE_S = 10
COLUMNS = "version, is_removed, created_ns, closed_ns, world, ranks, rows, mark, run, owner, state, reason, source, notes, head, info"


def wait_until(what, is_it, seconds=120):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        value = is_it()
        if value:
            return value
        time.sleep(0.1)
    raise AssertionError("it never came: " + what)


class Aggregator:
    """One of several; each has a data folder and a socket of its own, or an address that others reach."""

    def __init__(self, folder, name, words, address=None):
        self.folder, self.words = os.path.join(folder, name), list(words)
        os.makedirs(self.folder, exist_ok=True)
        self.data, self.address = os.path.join(self.folder, "data"), address or "unix:" + os.path.join(self.folder, "a.sock")
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


class Aggregators(WithServer):
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


class Catalogue(WithServer):
    """A rig's aggregator, with ranks, and another one on the same database."""

    def setUp(self):
        self.database = self._testMethodName

    def rig(self, url=None):
        return Rig(world=4, nodes=2, step_ms=50, run="demo", rank_words=["--slow-rank", "2", "--seconds", "600"],
                   aggregator_words=self.server.words(self.database, url))

    def other(self, *words, url=None):
        return Aggregator(os.path.join(self.folder, self.database), "other", [*self.server.words(self.database, url), *words])

    @staticmethod
    def call(address, *words, code=0):
        done = subprocess.run([PROGRAM, *words, "--connect", address], capture_output=True, text=True, check=False, timeout=120)
        if code is not None and done.returncode != code:
            raise AssertionError(f"{words}: {done.returncode}: {done.stdout}{done.stderr}")
        return done

    def captures(self, address, code=0):
        return {c["id"]: c for c in json.loads(self.call(address, "capture", "list", "--json", code=code).stdout)["captures"]}

    def captured(self, rig):
        """A capture of the rig, closed, whose rows are in the database."""
        rig.wait_ranks(4)
        rig.capture("--steps", "10", "--no-report").end()
        name = rig.wait_captures(1)[-1]["id"]
        wait_until("its rows", lambda: rig.show(name).get("rows", "").startswith("in clickhouse"))
        return name

    def heard_of(self, other, name, is_it=lambda capture: capture["closed_ns"]):
        """As the other one lists it, when it is so."""
        return wait_until("that it is heard of", lambda: (lambda c: c and is_it(c) and c)(self.captures(other.address, code=None).get(name)))

    def table(self, address, *words):
        return list(csv.DictReader(io.StringIO(self.call(address, "table", *words).stdout)))

    def test_any_of_them_answers(self):
        with self.rig() as rig:
            other = self.other("--http", "127.0.0.1:0", "--insecure-loopback")
            try:
                name = self.captured(rig)
                own = json.loads(self.call(rig.address, "aggregators", "--json").stdout)["aggregators"]
                own = next(row["id"] for row in own if row["is_self"])
                self.assertTrue(name.endswith(own[:4]), name)
                listed = self.heard_of(other, name)
                self.assertEqual((listed["aggregator"], listed["aggregator_address"], listed["state"], listed["rank_count"], listed["ranks"]),
                                 (own, rig.address, "complete", 4, None))
                self.assertNotIn("aggregator", self.captures(rig.address)[name])
                # All of it, as its owner says it.
                self.heard_of(other, name, lambda capture: capture.get("rows", "").startswith("in clickhouse"))
                shown = json.loads(self.call(other.address, "capture", "show", name, "--json").stdout)
                want = rig.show(name)
                self.assertEqual((shown.pop("aggregator"), shown.pop("aggregator_address")), (own, rig.address))
                self.assertEqual(shown, want)
                self.assertEqual(len(shown["ranks"]), 4)
                self.assertIn(own, self.call(other.address, "capture", "show", name).stdout)
                # Rows, from the database.
                for read in ("op", "finding", "rank_steps", "collectives"):
                    rows = self.table(other.address, name, read)
                    self.assertEqual(rows, self.table(rig.address, name, read))
                    self.assertGreater(len(rows), 0)
                select = ["query", name, "SELECT count(*) AS n FROM op", "--json"]
                self.assertEqual(json.loads(self.call(other.address, *select).stdout)["rows"],
                                 json.loads(self.call(rig.address, *select).stdout)["rows"])
                for view in ("captures", "findings", "ranks", "hosts"):
                    self.assertEqual(self.call(other.address, "history", view).stdout, self.call(rig.address, "history", view).stdout)
                self.assertIn(name, self.call(other.address, "history", "captures").stdout)
                # What its owner alone has: clients go there.
                self.assertEqual(self.call(other.address, "report", name).stdout, self.call(rig.address, "report", name).stdout)
                self.assertEqual(self.table(other.address, name, "span", "--ranks", "0", "--limit", "5"),
                                 self.table(rig.address, name, "span", "--ranks", "0", "--limit", "5"))
                self.call(other.address, "verify", name)
                self.call(other.address, "capture", "show", "20200101-000000-abcdef", code=2)
                self.http(other, name, own)
                # As one that came back from the archive elsewhere: its lost owner's row is there, too.
                self.server.sql(f"INSERT INTO catalogue (id, aggregator, {COLUMNS}) SELECT id, 'ffffffffffffffff', {COLUMNS} FROM catalogue "
                                f"WHERE id = '{name}' ORDER BY version DESC LIMIT 1", self.database)
                self.assertEqual(self.captures(rig.address)[name].get("aggregator"), None)
                self.assertEqual(self.captures(other.address)[name]["aggregator"], own)
                for address in (rig.address, other.address):
                    self.assertEqual(self.call(address, "capture", "list").stdout.count(name), 1)
                    self.assertEqual(self.call(address, "history", "captures").stdout.count(name), 1)
                self.assertEqual(json.loads(self.call(other.address, "capture", "show", name, "--json").stdout)["aggregator"], own)
                # Whoever may write there may write anything.
                self.server.sql("INSERT INTO catalogue (id, aggregator, version, state, head, info) VALUES "
                                "('stray-1', 'ffffffffffffffff', 1, 'complete', 'no message', ''), "
                                "('stray-2', 'ffffffffffffffff', 1, 'complete', unhex('0A0773747261792D3212041B5B324A'), unhex('0A')), "
                                "('../stray', 'ffffffffffffffff', 1, 'complete', unhex('0A00'), '')", self.database)
                strays = self.call(other.address, "capture", "list").stdout
                self.assertNotIn("stray-1", strays)
                self.assertNotIn("../", strays)
                self.assertIn("stray-2", strays)
                self.assertIn("?[2J", strays)
                self.assertEqual(self.call(other.address, "capture", "show", "stray-2", code=None).returncode, 2)
                self.server.sql("ALTER TABLE catalogue DELETE WHERE aggregator = 'ffffffffffffffff'", self.database)
                wait_until("that it is gone", lambda: self.server.sql(
                    "SELECT count() FROM catalogue WHERE aggregator = 'ffffffffffffffff'", self.database) == "0\n")
                self.call(other.address, "rm", name)
                self.assertNotIn(name, self.captures(rig.address))
                wait_until("that it is gone", lambda: name not in self.captures(other.address))
                self.call(other.address, "capture", "show", name, code=2)
            finally:
                other.end()

    def http(self, other, name, own):
        """The same over HTTP, where nobody is sent on: the answer says who has it."""
        base = other.process.stdout.readline().split()[-1] + "/api/v1/captures"
        with urllib.request.urlopen(base) as answer:
            self.assertEqual([c["aggregator"] for c in json.load(answer)["captures"] if c["id"] == name], [own])
        with urllib.request.urlopen(f"{base}/{name}/finding?format=csv") as answer:
            rows = list(csv.DictReader(io.StringIO(answer.read().decode())))
        self.assertEqual(rows, self.table(other.address, name, "finding"))
        with self.assertRaises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{base}/{name}/report")
        self.assertEqual(refused.exception.code, 403)
        self.assertIn(own, json.load(refused.exception)["detail"])
        refused.exception.close()

    def test_one_that_goes_on(self):
        with self.rig() as rig:
            other = self.other()
            try:
                rig.wait_ranks(4)
                capture = rig.capture("--steps", "5000", "--no-report", "--raw", "none", "--set", "max_duration_s=3000", "--force")
                name = wait_until("the capture", rig.captures)[-1]["id"]
                listed = self.heard_of(other, name, lambda capture: capture["state"] == "recording")
                self.assertIsNone(listed["closed_ns"])
                self.heard_of(other, name, lambda capture: "so far in" in capture.get("rows", ""))
                # That is where they go; the first of them are there when a first join is over.
                wait_until("rows", lambda: self.call(other.address, "table", name, "op", "--json", code=None).returncode == 0)
                self.assertTrue(json.loads(self.call(other.address, "table", name, "op", "--json").stdout)["is_provisional"])
                waiting = subprocess.Popen([PROGRAM, "capture", "wait", name, "--connect", other.address, "--json"], stdout=subprocess.PIPE,
                                           stderr=subprocess.PIPE, text=True)
                self.call(other.address, "capture", "stop", name)
                capture.end()
                out, err = waiting.communicate(timeout=60)
                self.assertIn(waiting.returncode, (0, 1), err)
                self.assertEqual(json.loads(out)["findings"][0]["where"]["rank"], 2)  # its report, as its owner makes it
                closed = rig.wait_captures(1)[0]
                self.assertEqual(self.heard_of(other, name)["state"], closed["state"])
            finally:
                other.end()

    def test_an_owner_that_goes_while_its_capture_goes_on(self):
        """Nobody knows how it went on: what was said last is not told as how it is."""
        with self.rig() as rig:
            other = self.other()
            try:
                rig.wait_ranks(4)
                capture = rig.capture("--steps", "5000", "--no-report", "--raw", "none", "--set", "max_duration_s=3000", "--force")
                name = wait_until("the capture", rig.captures)[-1]["id"]
                self.assertIsNone(self.heard_of(other, name, lambda one: one["state"] == "recording")["reason"])
                kill(rig.aggregator.pid)
                rig.aggregator.wait()
                rig.aggregator.stdout.close()
                capture.end()
                told = self.heard_of(other, name, lambda one: one["aggregator_address"] is None)
                self.assertIn("which is gone since", told["reason"])
                rig.start_aggregator()
                self.heard_of(other, name, lambda one: "is gone" not in (one["reason"] or ""))
            finally:
                other.end()

    def test_an_owner_that_is_gone(self):
        """What is in the database is answered; what was its alone is refused, with its name, until it is back."""
        with self.rig() as rig:
            other = self.other()
            try:
                name = self.captured(rig)
                self.heard_of(other, name, lambda capture: capture.get("rows", "").startswith("in clickhouse"))
                findings = self.table(rig.address, name, "finding")
                reports = [self.call(rig.address, "report", name, *words).stdout for words in ((), ("--json",))]
                history = self.call(rig.address, "history", "captures").stdout
                kill(rig.aggregator.pid)
                rig.aggregator.wait()
                rig.aggregator.stdout.close()
                wait_until("that it is gone", lambda: any(one["state"] == "gone" for one in other.told().values()))
                self.assertEqual(self.captures(other.address)[name]["aggregator_address"], None)
                self.assertEqual(self.table(other.address, name, "finding"), findings)
                self.assertEqual(self.call(other.address, "history", "captures").stdout, history)
                # The report is what its rows say, twice; what takes its folder is refused.
                for words, report in zip(((), ("--json",), ("--json",)), [*reports, reports[1]]):
                    self.assertEqual(self.call(other.address, "report", name, *words).stdout, report)
                database = ["--store", f"{self.server.url}/{self.database}", *self.server.store]
                done = subprocess.run([PROGRAM, "report", name, "--json", *database], capture_output=True, text=True, check=True)
                self.assertEqual(done.stdout, reports[1])
                done = self.call(other.address, "report", name, "-o", os.path.join(self.folder, "gone"), code=4)
                self.assertIn("which is gone since", done.stderr)
                self.call(other.address, "rm", name, code=4)
                # What is in an archive may be brought back by any: here there is none.
                done = self.call(other.address, "restore", name, code=None)
                self.assertNotIn("which is gone", done.stderr)
                self.assertIn("archive", done.stderr)
                # While it is away, its rows in the catalogue are lost, and somebody writes of a capture that it never had.
                kept = self.server.sql(f"SELECT aggregator FROM catalogue WHERE id = '{name}' LIMIT 1", self.database).strip()
                self.server.sql("DROP TABLE catalogue", self.database)
                self.assertEqual(self.captures(other.address), {})
                rig.start_aggregator()
                self.heard_of(other, name)
                self.server.sql("INSERT INTO catalogue (id, aggregator, version, state, mark) "
                                f"VALUES ('20200101-000000-abcdef', '{kept}', 1, 'complete', 'x')", self.database)
                rig.aggregator.terminate()
                rig.aggregator.wait(60)
                rig.aggregator.stdout.close()
                rig.start_aggregator()
                wait_until("that it is taken back", lambda: self.server.sql(
                    "SELECT count() FROM catalogue WHERE id = '20200101-000000-abcdef' AND is_removed = 1", self.database) != "0\n")
                self.assertEqual(set(self.captures(other.address)), {name})
                wait_until("a report", lambda: self.call(other.address, "report", name, code=None).returncode == 0)
            finally:
                other.end()

    def test_a_database_that_is_away(self):
        cutter = Cutter(self.server.plain, 0)
        try:
            with self.rig() as rig:
                other = self.other(url=f"clickhouse+http://profiler@127.0.0.1:{cutter.own_port}")
                try:
                    name = self.captured(rig)
                    self.heard_of(other, name)
                    cutter.is_ill = True
                    done = self.call(other.address, "capture", "list", code=1)
                    self.assertIn("captures of other aggregators are not in it", done.stderr)
                    done = self.call(other.address, "capture", "show", name, code=None)
                    self.assertIn("whether another aggregator has it is not known", done.stderr)
                    self.assertNotEqual(done.returncode, 0)
                    done = self.call(other.address, "history", "captures", code=1)
                    self.assertIn("captures of other aggregators are not in it", done.stderr)
                    self.call(rig.address, "capture", "show", name)
                    cutter.is_ill = False
                    self.heard_of(other, name)
                finally:
                    other.end()
        finally:
            cutter.close()

    def test_whose_captures_are_told(self):
        """A token of one run sees the captures of that run, of whichever aggregator, and no others."""
        with self.rig() as rig:
            other = self.other("--http", "127.0.0.1:0", "--insecure-loopback")
            try:
                name = self.captured(rig)
                self.heard_of(other, name, lambda capture: capture.get("rows", "").startswith("in clickhouse"))
                # A row of nobody's, which anybody may have written, does not stand before its owner's.
                self.server.sql("INSERT INTO catalogue (id, aggregator, version, state, created_ns, closed_ns, run, head) SELECT id, '', version, "
                                f"state, created_ns, closed_ns, run, head FROM catalogue FINAL WHERE id = '{name}'", self.database)
                base = other.process.stdout.readline().split()[-1] + "/api/v1/captures"
                for run, count, code in (("demo", 1, 200), ("another", 0, 403)):
                    made = subprocess.run([PROGRAM, "token", "new", "t-" + run, "--run", run, "--data", other.data],
                                          capture_output=True, text=True, check=True)
                    token = {"Authorization": "Bearer " + made.stdout.split()[-1]}
                    with urllib.request.urlopen(urllib.request.Request(base, headers=token)) as answer:
                        self.assertEqual(len(json.load(answer)["captures"]), count)
                    for what in ("", "/finding", "/report"):
                        try:
                            with urllib.request.urlopen(urllib.request.Request(f"{base}/{name}{what}", headers=token)) as answer:
                                got = (answer.status, "")
                        except urllib.error.HTTPError as refused:
                            got = (refused.code, json.load(refused)["detail"])
                            refused.close()
                        self.assertEqual(got[0], 403 if what == "/report" else code, got)
                        if code == 403:
                            self.assertIn("is of run another alone", got[1])
            finally:
                other.end()


if __name__ == "__main__":
    if not found():
        print("aggregators: skipped, " + LACKS)
        sys.exit(77)
    unittest_run.main(verbosity=1)
