#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rows of captures in a real ClickHouse server (Debian's 18.16), over TLS with a password: every read is what SQLite says, requests whose
answer is cut off count once or not at all. Skipped (77) without the server.

RANKSCOPE_CLICKHOUSE_RANKS: made-up rows of so many ranks (1,64; by hand 1024, too). RANKSCOPE_CLICKHOUSE_CUTS: how often (5).
"""
import csv
import io
import json
import os
import shutil
import socket
import subprocess
import sys
import time

import unittest_run

from rig_clickhouse import LACKS, Cutter, Server, WithServer, found, free_port
from rig_native import BUILD, PROGRAM, Rig, kill
from test_live_join import segment, tables_of

RANKS = os.environ.get("RANKSCOPE_CLICKHOUSE_RANKS", "1,64").split(",")
SHIM = os.path.join(os.path.abspath(BUILD), "shim_clock.so")  # not in a build with sanitizers
UNIT = "capture, unit_kind, a, b, generation, rows, members"
CUTS = int(os.environ.get("RANKSCOPE_CLICKHOUSE_CUTS", "5"))


def wait_until(what, is_it, seconds=300):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        value = is_it()
        if value:
            return value
        time.sleep(0.1)
    raise AssertionError("it never came: " + what)


class Rows(WithServer):
    def call(self, *words, code=0, environment=None):
        done = subprocess.run([PROGRAM, *words], capture_output=True, text=True, check=False, timeout=300,
                              env={**os.environ, **(environment or {})})
        if code is not None:
            self.assertEqual(done.returncode, code, f"{words}: {done.stdout}{done.stderr}")
        return done

    def rows_of(self, folder):
        """What is in rows.db and in the members' segments, but for generations."""
        rows, members = tables_of(folder)
        return rows, {step: segment(path) for step, path in members.items()}


class Copies(Rows):
    """With a capture whose rows are copied into the database and back."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.url, cls.password, cls.store = cls.server.url, cls.server.password, cls.server.store
        with Rig(world=4, nodes=2, step_ms=50, run="demo", rank_words=["--slow-rank", "2"]) as rig:
            rig.wait_ranks(4)
            rig.capture("--steps", "10", "--no-report").end()
            cls.name = rig.wait_captures(1)[0]["id"]
            cls.capture = shutil.copytree(os.path.join(rig.folder, "data", "captures", cls.name), os.path.join(cls.folder, cls.name))

        cls.joined = os.path.join(cls.folder, "joined")
        os.mkdir(cls.joined)
        subprocess.run([os.path.join(BUILD, "join_rows"), cls.capture, cls.joined], check=True, capture_output=True)

    def table(self, *words):
        """Without generations, which are each engine's own."""
        rows = list(csv.DictReader(io.StringIO(self.call("table", *words).stdout)))
        return [{key: value for key, value in row.items() if key != "generation"} for row in rows]

    def assert_same(self, url):
        """All that is there, copied back, is what is joined from the capture's folder."""
        back = os.path.join(self.folder, "back", self.name)
        shutil.rmtree(back, ignore_errors=True)
        os.makedirs(back)
        self.call("store", "copy", url, back, *self.store)
        self.assertEqual(sorted(os.listdir(back)), ["members", "rows.db"])
        rows, members = self.rows_of(back)
        want, want_members = self.rows_of(self.joined)
        self.assertEqual(rows, want)
        self.assertEqual(members, want_members)
        self.assertGreater(len(members), 5)
        self.assertGreater(sum(map(len, rows.values())), 150)


class ClickHouse(Copies):
    def test_made_up_rows(self):
        for ranks in RANKS:
            done = subprocess.run([os.path.join(BUILD, "compare_stores"), ranks, self.url + "/made_up", f"made-up-{ranks}", self.password,
                                   self.server.ca], capture_output=True, text=True, check=False, timeout=600)
            self.assertEqual(done.returncode, 0, done.stderr)
            print(done.stdout.strip())
        # Who reads a capture sees no row of another.
        self.call("table", "made-up-0", "op", "--store", self.url + "/made_up", *self.store, code=2)

    def test_a_capture_there_and_back(self):
        self.call("store", "copy", self.capture, self.url + "/there", *self.store)
        self.assert_same(self.url + "/there")
        for read in ("capture", "collectives", "finding", "rank_steps"):
            self.assertEqual(self.table(self.name, read, "--store", self.url + "/there", *self.store), self.table(self.capture, read))
        ops = self.table(self.capture, "op")
        self.assertEqual(self.table(self.name, "op", "--step", ops[0]["step"], "--store", self.url + "/there", *self.store), ops[:1])
        self.call("store", "copy", self.url + "/there", self.url + "/second", "--as", self.name, *self.store)
        self.assert_same(self.url + "/second")
        self.call("store", "rm", self.url + "/there", self.name, *self.store)
        self.call("table", self.name, "finding", "--store", self.url + "/there", *self.store, code=2)
        self.assertEqual(self.server.sql("SELECT count() FROM op", "there"), "0\n")
        self.call("store", "rm", self.url + "/there", self.name, *self.store)  # there is nothing any more

    def test_cut_off_behind_the_request(self):
        """What is not answered may have happened: it is done again as a newer generation, and no row is double."""
        cutter = Cutter(self.server.plain, 0.2)  # with TLS most cuts would be of the handshake
        url = f"clickhouse+http://profiler@127.0.0.1:{cutter.own_port}/cut"
        failed = units = current = 0
        for _ in range(10):  # which requests are cut is drawn: of some nothing is written
            seen = cutter.cuts
            for _ in range(20):
                cutter.left = CUTS
                done = subprocess.run([PROGRAM, "store", "copy", self.capture, url, *self.store], capture_output=True, text=True, check=False)
                self.assertIn(done.returncode, (0, 4), done.stderr)
                failed += done.returncode == 4
                if done.returncode == 0 and cutter.cuts >= seen + CUTS:
                    break
            cutter.left = 0
            self.assertGreaterEqual(cutter.cuts, seen + CUTS)
            self.call("store", "copy", self.capture, url, *self.store)
            self.assert_same(url)
            units = int(self.server.sql("SELECT count() FROM write_unit", "cut"))
            current = int(self.server.sql("SELECT count() FROM (SELECT unit_kind, a, b FROM write_unit GROUP BY unit_kind, a, b)", "cut"))
            if units > current:
                break
        self.assertGreater(units, current)  # older generations are there, and nobody sees them
        print(f"{cutter.cuts} answers cut off, {failed} copies failed; {units} units written, {current} count")
        cutter.close()

    def test_who_is_not_let_in(self):
        wrong = os.path.join(self.folder, "wrong")
        with open(wrong, "w", encoding="utf-8") as file:
            file.write("guessed\n")
        copy = ["store", "copy", self.capture]
        done = self.call(*copy, self.url + "/x", "--store-ca", self.server.ca, "--store-password", wrong, code=3)
        self.assertIn("others may read it", done.stderr)
        os.chmod(wrong, 0o600)
        done = self.call(*copy, self.url + "/x", "--store-ca", self.server.ca, "--store-password", wrong, code=3)
        self.assertNotIn("guessed", done.stderr)
        done = self.call(*copy, self.url + "/x", "--store-password", self.password, code=3)  # whose certificate is that?
        self.assertIn("is not who it says", done.stderr)
        done = self.call(*copy, "clickhouse+http://profiler@192.0.2.1/x", *self.store, code=3)
        self.assertIn("only clickhouse:// is spoken", done.stderr)
        self.call(*copy, "clickhouse://u:secret@localhost/x", *self.store, code=2)
        self.call(*copy, self.url + "/x;DROP", *self.store, code=2)
        self.call(*copy, f"clickhouse://profiler@localhost:{free_port()}/x", *self.store, code=4)

    def test_no_proxy_sees_a_password_that_is_not_hidden(self):
        with socket.create_server(("127.0.0.1", 0)) as proxy:
            proxy.settimeout(0)
            address = f"http://127.0.0.1:{proxy.getsockname()[1]}"
            plain = f"clickhouse+http://profiler@127.0.0.1:{self.server.plain}/nowhere"
            done = self.call("table", self.name, "op", "--store", plain, *self.store, code=2,
                             environment={"http_proxy": address, "all_proxy": address, "no_proxy": "", "NO_PROXY": ""})
            self.assertIn("nowhere", done.stderr)
            with self.assertRaises(BlockingIOError):
                proxy.accept()

    def test_what_is_not_for_a_database_is_refused(self):
        url = self.url + "/nowhere"
        for words in (["--data", "/x"], ["--data=/x"], ["--connect", "unix:/x"], ["-cunix:/x"], ["--assume-common-clock"]):
            done = self.call("table", self.name, "op", "--store", url, *words, *self.store, code=2)
            self.assertIn("is not for it", done.stderr)
        # What stands in the environment is for other calls.
        done = self.call("table", self.name, "op", "--store", url, *self.store, code=2,
                         environment={"RANKSCOPE_DATA": "/x", "RANKSCOPE_CONNECT": "unix:/x"})
        self.assertNotIn("is not for it", done.stderr)
        # Names are not guessed, and not cut.
        done = self.call("store", "copy", url, self.url + "/second", *self.store, code=2)
        self.assertIn("give its name with --as", done.stderr)
        done = self.call("store", "copy", self.capture, url, "--as", "a" * 64, *self.store, code=2)
        self.assertIn("63 at most", done.stderr)
        self.assertNotIn("nowhere", self.server.sql("SHOW DATABASES"))

    def test_a_copy_that_fails_leaves_nothing(self):
        self.call("store", "copy", self.capture, self.url + "/lacking", *self.store)
        self.server.sql("ALTER TABLE capture DROP PARTITION " + self.server.sql("SELECT capture FROM capture", "lacking"), "lacking")
        back = os.path.join(self.folder, "lacking", self.name)
        os.makedirs(os.path.join(back, ".rows"))  # an aggregator's, which makes rows there, too
        done = self.call("store", "copy", self.url + "/lacking", back, *self.store, code=2)
        self.assertIn("unit capture 0 0 has", done.stderr)
        self.assertEqual(os.listdir(back), [".rows"])

    def test_what_killed_copies_left_goes(self):
        self.call("store", "copy", self.capture, self.url + "/killed", *self.store)
        back = os.path.join(self.folder, "killed", self.name)
        gone = subprocess.Popen(["true"])
        gone.wait()
        for pid in (gone.pid, os.getpid()):  # of a copy that was killed, and of one that goes on
            os.makedirs(os.path.join(back, f".copy.{pid}", "members"))
        self.call("store", "copy", self.url + "/killed", back, *self.store)
        self.assertEqual(sorted(os.listdir(back)), [f".copy.{os.getpid()}", "members", "rows.db"])

    def test_a_second_copy_is_what_its_source_has(self):
        """And not what both ever had."""
        url = self.url + "/twice"
        self.call("store", "copy", self.capture, url, *self.store)
        self.call("store", "copy", url, self.url + "/onward", "--as", self.name, *self.store)
        # A unit more, which no source has: of a step that was never recorded.
        number = self.server.sql("SELECT capture FROM capture", "onward").strip()
        self.server.sql(f"INSERT INTO write_unit ({UNIT}) VALUES ({number}, 1, 77777, 0, 1, 0, 0)", "onward")
        onward = ["table", self.name, "write_unit", "--store", self.url + "/onward", *self.store]
        self.assertIn(",77777,", self.call(*onward).stdout)
        self.call("store", "copy", url, self.url + "/onward", "--as", self.name, *self.store)
        self.assertNotIn(",77777,", self.call(*onward).stdout)
        self.assert_same(self.url + "/onward")

    def test_old_generations_go_by_the_clock_of_the_server(self):
        """Ours may be hours behind or ahead: what was replaced ten minutes ago there goes, what was replaced just now stays."""
        url = self.url + "/swept"
        self.call("store", "copy", self.capture, url, *self.store)
        number = self.server.sql("SELECT capture FROM capture", "swept").strip()
        now = int(self.server.sql("SELECT toUnixTimestamp(now())"))
        newest = int(self.server.sql("SELECT max(generation) FROM write_unit", "swept"))
        self.assertLess(abs((newest >> 32) - now), 60)
        # As on a host whose clock is an hour ahead, and on one that is an hour behind.
        for step, ahead in ((88888, 3600), (99999, -3600)):
            values = ", ".join(f"({number}, 1, {step}, 0, {(now - age) << 32}, 0, 0)" for age in (7200, 1200, 30))
            self.server.sql(f"INSERT INTO write_unit ({UNIT}) VALUES {values}", "swept")
            shim = {"LD_PRELOAD": SHIM, "SHIM_CLOCK_NS": str(ahead * 10**9)} if os.path.exists(SHIM) else {}
            self.call("store", "copy", self.capture, url, *self.store, environment=shim)
            left = f"SELECT generation FROM write_unit WHERE a = {step} AND rows = 0 ORDER BY generation"
            wait_until("that the oldest goes", lambda: self.server.sql(left, "swept") == f"{(now - 1200) << 32}\n{(now - 30) << 32}\n")
            newest = int(self.server.sql("SELECT max(generation) FROM write_unit", "swept"))
            self.assertLess(abs((newest >> 32) - now), 120)
        self.assert_same(url)

    def test_addresses_that_are_none(self):
        done = self.call("store", "rm", "x", "some-id", code=2)
        self.assertIn('not "x"', done.stderr)
        done = self.call("table", self.name, "op", "--store", "x", code=2)
        self.assertIn('not "x"', done.stderr)

    def test_a_first_copy_that_was_cut_off_is_removed(self):
        self.call("store", "copy", self.capture, self.url + "/half", *self.store)
        self.server.sql("ALTER TABLE write_unit DROP PARTITION " + self.server.sql("SELECT DISTINCT capture FROM write_unit", "half"), "half")
        self.assertNotEqual(self.server.sql("SELECT count() FROM op", "half"), "0\n")
        self.call("store", "rm", self.url + "/half", self.name, *self.store)
        self.assertEqual(self.server.sql("SELECT count() FROM op", "half"), "0\n")

    def test_columns_are_known_in_any_order(self):
        self.call("store", "copy", self.capture, self.url + "/order", *self.store)
        create = " ".join(self.server.sql("SHOW CREATE TABLE evidence FORMAT TabSeparatedRaw", "order").split())  # newer ones write lines
        create = create.replace("( ", "(").replace(" )", ")")
        begin, end = create.index("(") + 1, create.index(") ENGINE")
        columns = create[begin:end].split(", ")
        self.assertGreater(len(columns), 5)
        self.server.sql("DROP TABLE evidence", "order")
        self.server.sql(create[:begin] + ", ".join(reversed(columns)) + create[end:], "order")
        self.call("store", "copy", self.capture, self.url + "/order", *self.store)
        self.assert_same(self.url + "/order")
        self.server.sql("DROP TABLE evidence", "order")
        self.server.sql(create[:begin] + ", ".join(columns[::-1] + ["other Int64"]) + create[end:], "order")
        self.call("store", "copy", self.capture, self.url + "/order", *self.store, code=2)

    def test_tables_of_another_version(self):
        self.server.sql("CREATE DATABASE other")
        self.server.sql("CREATE TABLE op (capture Int64, other Int64) ENGINE = Log", "other")
        done = self.call("store", "copy", self.capture, self.url + "/other", *self.store, code=2)
        self.assertIn("table op of the database other has other columns", done.stderr)


class Rights(Copies):
    """Users, rights and certificates, which are the server's: today's engine alone (rig_clickhouse.py) has none."""

    def test_a_certificate_instead_of_a_password(self):
        """The server asks for one of its authority: who has none, or one of another, is refused; with it no password is needed."""
        folder = os.path.join(self.folder, "certified")
        os.mkdir(folder)

        def openssl(*words):
            subprocess.run(["openssl", *words], check=True, capture_output=True, cwd=folder)

        for name in ("ca", "other"):
            openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", name + ".key", "-out", name + ".crt", "-subj", "/CN=" + name,
                    "-days", "2")
            openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", name + ".own.key", "-out", name + ".csr", "-subj", "/CN=aggregator")
            openssl("x509", "-req", "-in", name + ".csr", "-CA", name + ".crt", "-CAkey", name + ".key", "-CAcreateserial", "-out",
                    name + ".own.crt", "-days", "2")
        server = Server(folder, client_ca=os.path.join(folder, "ca.crt"))
        try:
            url = f"clickhouse://certified@localhost:{server.secure}/by_certificate"
            copy = ["store", "copy", self.capture, url, "--store-ca", server.ca]
            mine = ["--store-cert", os.path.join(folder, "ca.own.crt"), "--store-key", os.path.join(folder, "ca.own.key")]
            others = ["--store-cert", os.path.join(folder, "other.own.crt"), "--store-key", os.path.join(folder, "other.own.key")]
            for words in ([], others):
                done = self.call(*copy, *words, code=None)
                self.assertIn(done.returncode, (3, 4), done.stderr)
            self.call(*copy, *mine[:3], os.path.join(folder, "other.own.key"), code=3)  # a key of another
            self.call(*copy, *mine)
            got = list(csv.DictReader(io.StringIO(self.call("table", self.name, "op", "--store", url, "--store-ca", server.ca, *mine).stdout)))
            self.assertEqual([{k: v for k, v in row.items() if k != "generation"} for row in got], self.table(self.capture, "op"))
        finally:
            server.close()

    def test_who_may_not_make_databases_writes_into_one(self):
        self.call("store", "copy", self.capture, self.url + "/given", *self.store)
        url = f"clickhouse://writer@localhost:{self.server.secure}"
        self.call("store", "copy", self.capture, url + "/given", *self.store)
        self.assert_same(url + "/given")
        self.call("store", "copy", self.capture, url + "/not_given", *self.store, code=3)
        self.call("table", self.name, "op", "--store", url + "/not_given", *self.store, code=3)


class Aggregator(Rows):
    """`rankscope aggregator --store`: rows of what it joins are in the database, and only there."""

    def call(self, rig, *words, code=0):
        return super().call(*words, "--connect", rig.address, code=code)

    def database(self, rig):
        return rig.aggregator_words[rig.aggregator_words.index("--store") + 1]

    def folder_of(self, rig, name):
        return os.path.join(rig.folder, "data", "captures", name)

    def whole(self, rig, name):
        wait_until("all rows of it", lambda: "in clickhouse" in (rig.show(name).get("rows") or ""))

    def assert_as_joined(self, rig, name):
        """What the database has is what one join of the folder gives, by the aggregator's reads and copied back."""
        joined, back = os.path.join(self.folder, "joined-" + name), os.path.join(self.folder, "back-" + name)
        for folder in (joined, back):
            shutil.rmtree(folder, ignore_errors=True)
            os.mkdir(folder)
        subprocess.run([os.path.join(BUILD, "join_rows"), self.folder_of(rig, name), joined], check=True, capture_output=True)
        super().call("store", "copy", self.database(rig), back, "--as", name, *self.server.store)
        rows, members = self.rows_of(back)
        self.assertEqual((rows, members), self.rows_of(joined))
        self.assertGreater(sum(map(len, rows.values())), 150)
        self.assertEqual([n for n in os.listdir(self.folder_of(rig, name)) if n.startswith("rows.db") or n == "members"], [])
        for read in ("capture", "op", "collectives", "finding", "rank_steps"):
            want = super().call("table", self.folder_of(rig, name), read).stdout
            self.assertEqual(self.call(rig, "table", name, read).stdout, want, read)
        return sum(map(len, rows.values()))

    def test_cut_off_while_it_joins(self):
        """Answers of the database go missing while a capture is joined and closed, then its rows are asked for anew: nothing is double."""
        cutter = Cutter(self.server.plain, 0.25)
        url = f"clickhouse+http://profiler@127.0.0.1:{cutter.own_port}"
        try:
            with Rig(world=4, nodes=1, step_ms=50, run="demo", rank_words=("--seconds", "600"),
                     aggregator_words=self.server.words("cut_live", url)) as rig:
                rig.wait_ranks(4)
                cutter.left = CUTS
                rig.capture("--steps", "40", "--no-report").end()
                name = rig.wait_captures(1)[0]["id"]
                self.whole(rig, name)
                cutter.left = 0
                rows = self.assert_as_joined(rig, name)
                self.assertGreater(cutter.cuts, 0)
                self.assertGreater(cutter.inserts, 10)
                self.assertEqual(cutter.inserts_reused, 0)
                units = int(self.server.sql("SELECT count() FROM write_unit", "cut_live"))

                # Made again from the folder: only then is it written again, and is the same.
                rig.aggregator.terminate()
                rig.aggregator.wait()
                rig.aggregator.stdout.close()
                super().call("rebuild", name, "--data", os.path.join(rig.folder, "data"))
                rig.start_aggregator()
                self.whole(rig, name)
                self.assert_as_joined(rig, name)
                more = int(self.server.sql("SELECT count() FROM write_unit", "cut_live"))
                self.assertGreater(more, units)
                self.call(rig, "table", name, "op")
                self.assertEqual(int(self.server.sql("SELECT count() FROM write_unit", "cut_live")), more)
                # A folder that came back without what says where its rows are (its disk was lost, say): they go with it nevertheless.
                os.unlink(os.path.join(self.folder_of(rig, name), "rows.at"))
                self.call(rig, "rm", name)
                self.assertEqual(self.server.sql("SELECT count() FROM write_unit", "cut_live"), "0\n")
                print(f"{cutter.cuts} answers cut off while it was joined, {rows} rows as of one join, {units} units written; rebuilt")
        finally:
            cutter.close()

    def test_one_that_is_not_taken_holds_up_nobody(self):
        """The database answers, and refuses the rows of one capture: those of the others come, its findings, too, and at last its rows."""
        cutter = Cutter(self.server.plain, 0)
        url = f"clickhouse+http://profiler@127.0.0.1:{cutter.own_port}"
        try:
            with Rig(world=4, nodes=1, step_ms=50, run="demo", rank_words=("--seconds", "600"),
                     aggregator_words=self.server.words("refused", url)) as rig:
                rig.wait_ranks(4)
                first = rig.capture("--steps", "60", "--no-report")
                name = wait_until("the capture", rig.captures)[-1]["id"]
                cutter.refused = name.encode()
                first.end()
                self.assertEqual(rig.wait_captures(1)[0]["state"], "complete")
                wait_until("a refusal", lambda: cutter.refusals > 0)
                rig.capture("--steps", "5", "--no-report").end()
                other = next(row["id"] for row in rig.wait_captures(2) if row["id"] != name)
                self.whole(rig, other)
                self.assertNotIn("in clickhouse", rig.show(name)["rows"])
                self.assertEqual(self.call(rig, "report", name).returncode, 0)
                self.call(rig, "table", other, "op")  # who reads is not told that it is away
                cutter.refused = None
                self.whole(rig, name)
                self.assert_as_joined(rig, name)
        finally:
            cutter.close()

    def test_one_that_is_ill_at_the_start(self):
        """It answers everything with an error of its own: the aggregator begins, captures close, and their rows come when it is well."""
        cutter = Cutter(self.server.plain, 0)
        cutter.is_ill = True
        url = f"clickhouse+http://profiler@127.0.0.1:{cutter.own_port}"
        try:
            with Rig(world=4, nodes=1, step_ms=50, run="demo", rank_words=("--seconds", "600"),
                     aggregator_words=self.server.words("ill", url)) as rig:
                rig.wait_ranks(4)
                rig.capture("--steps", "30", "--no-report").end()
                name = rig.wait_captures(1)[0]["id"]
                self.assertEqual(rig.show(name)["state"], "complete")
                self.assertNotIn("in clickhouse", rig.show(name)["rows"])
                cutter.is_ill = False
                self.whole(rig, name)
                self.assert_as_joined(rig, name)
        finally:
            cutter.close()

    def test_who_is_not_let_in_does_not_start(self):
        wrong = os.path.join(self.folder, "wrong")
        with open(wrong, "w", encoding="utf-8") as file:
            file.write("guessed\n")
        os.chmod(wrong, 0o600)
        begin = ["aggregator", "--data", os.path.join(self.folder, "data"), "--listen", f"unix:{self.folder}/a.sock", "--store"]
        done = super().call(*begin, self.server.url + "/x", "--store-password", wrong, "--store-ca", self.server.ca, code=3)
        self.assertNotIn("guessed", done.stderr)
        super().call(*begin, "clickhouse://u:secret@localhost/x", code=2)
        self.server.sql("CREATE DATABASE older")
        self.server.sql("CREATE TABLE op (capture Int64, other Int64) ENGINE = Log", "older")
        done = super().call(*begin, self.server.url + "/older", *self.server.store, code=2)
        self.assertIn("other columns", done.stderr)

    def test_live(self):
        words = ("--slow-rank", "2", "--seconds", "600", "--ops", "4")
        with Rig(world=4, nodes=2, step_ms=50, run="demo", rank_words=words, aggregator_words=self.server.words("live")) as rig:
            rig.wait_ranks(4)
            capture = rig.capture("--steps", "5000", "--no-report", "--raw", "none", "--set", "max_duration_s=3000", "--force")
            name = wait_until("the capture", rig.captures)[-1]["id"]

            def found():
                return (rig.show(name)["findings"] or {}).get("first") or ""

            def counter(what):
                return next(d["counters"][what] for d in rig.ask("counters")["daemons"] if what in d["counters"])

            wait_until("a finding", lambda: "Rank 2 is slow" in found())
            wait_until("rows so far", lambda: "so far in" in rig.show(name)["rows"])

            def rows_so_far():
                text = self.call(rig, "query", name, "SELECT count(*) AS n FROM op", "--json", code=1).stdout
                return int(json.loads(text)["rows"][0][0])

            wait_until("more than ten operations", lambda: rows_so_far() > 10)
            count = rows_so_far()
            self.assertTrue(json.loads(self.call(rig, "table", name, "op", "--json").stdout)["is_provisional"])

            # Away: nothing of the capture waits for it, and what is found is told.
            self.server.stop()
            wait_until("that it is away", lambda: "wait for clickhouse" in rig.show(name)["rows"])
            before = rig.show(name)
            wait_until("a join without it", lambda: rig.show(name)["findings"]["last_step"] > before["findings"]["last_step"] + 20)
            self.assertEqual(counter("rows.away"), 1)
            done = self.call(rig, "table", name, "op", code=4)
            self.assertIn("cannot be reached", done.stderr)
            self.call(rig, "capture", "stop", name)
            capture.end()
            closed = rig.wait_captures(1)[0]
            self.assertIn("wait for clickhouse", rig.show(name)["rows"])
            wait_until("that it is owed", lambda: counter("rows.owed_captures") == 1)
            self.call(rig, "rm", name, code=4)  # else its rows would stay
            self.assertEqual(self.call(rig, "report", name).returncode, 0)

            # The process ends meanwhile: what is owed is in the folder.
            kill(rig.aggregator.pid)
            rig.aggregator.wait()
            rig.aggregator.stdout.close()
            rig.start_aggregator()
            self.assertEqual(rig.show(name)["closed_ns"], closed["closed_ns"])
            self.server.start()
            self.whole(rig, name)
            rows = self.assert_as_joined(rig, name)
            self.assertEqual((counter("rows.away"), counter("rows.owed_captures")), (0, 0))
            history = self.call(rig, "history", "findings").stdout
            self.assertIn(name, history)
            print(f"{rows} rows as of one join, with the database away and the aggregator killed")
            self.call(rig, "rm", name)
            self.assertEqual(self.server.sql("SELECT count() FROM op", "live"), "0\n")


if __name__ == "__main__":
    if not found():
        print("clickhouse: skipped, " + LACKS)
        sys.exit(77)
    unittest_run.main(verbosity=1)
