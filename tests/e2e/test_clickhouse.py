#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rows of captures in a real ClickHouse server (Debian's 18.16), over TLS with a password: every read is what SQLite says, requests whose
answer is cut off count once or not at all. Skipped (77) without the server.

RANKSCOPE_CLICKHOUSE_RANKS: made-up rows of so many ranks (1,64; by hand 1024, too). RANKSCOPE_CLICKHOUSE_CUTS: how often (5).
"""
import csv
import io
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

import unittest_run

from rig_native import BUILD, PROGRAM, Rig
from test_live_join import segment, tables_of

SEED = 20261125
RANKS = os.environ.get("RANKSCOPE_CLICKHOUSE_RANKS", "1,64").split(",")
CUTS = int(os.environ.get("RANKSCOPE_CLICKHOUSE_CUTS", "5"))
SERVER = shutil.which("clickhouse-server", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/bin")
PASSWORD = "a password of this test"

CONFIG = """<?xml version="1.0"?>
<yandex>
 <logger><level>warning</level><log>{folder}/log</log><errorlog>{folder}/errors</errorlog></logger>
 <http_port>{plain}</http_port><https_port>{secure}</https_port><tcp_port>{tcp}</tcp_port><listen_host>127.0.0.1</listen_host>
 <openSSL><server><certificateFile>{folder}/tls.crt</certificateFile><privateKeyFile>{folder}/tls.key</privateKeyFile>
  <verificationMode>none</verificationMode><loadDefaultCAFile>false</loadDefaultCAFile></server></openSSL>
 <path>{folder}/data/</path><tmp_path>{folder}/tmp/</tmp_path><users_config>{folder}/users.xml</users_config>
 <default_profile>default</default_profile><default_database>default</default_database><mark_cache_size>67108864</mark_cache_size>
</yandex>
"""
USERS = """<?xml version="1.0"?>
<yandex>
 <profiles><default><max_memory_usage>1000000000</max_memory_usage></default>
  <writes><allow_ddl>0</allow_ddl></writes></profiles><quotas><default></default></quotas>
 <users><profiler><password>{password}</password><networks><ip>127.0.0.1</ip></networks><profile>default</profile>
  <quota>default</quota></profiler>
  <writer><password>{password}</password><networks><ip>127.0.0.1</ip></networks><profile>writes</profile><quota>default</quota>
   <allow_databases><database>given</database></allow_databases></writer></users>
</yandex>
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    def __init__(self, folder):
        self.folder = folder
        self.plain, self.secure, tcp = free_port(), free_port(), free_port()
        self.ca = os.path.join(folder, "tls.crt")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", os.path.join(folder, "tls.key"), "-out",
                        self.ca, "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-days", "2"],
                       check=True, capture_output=True)
        for name, text in (("config.xml", CONFIG.format(folder=folder, plain=self.plain, secure=self.secure, tcp=tcp)),
                           ("users.xml", USERS.format(password=PASSWORD))):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        self.log = open(os.path.join(folder, "out"), "wb")
        self.process = subprocess.Popen([SERVER, "--config-file=" + os.path.join(folder, "config.xml")], stdout=self.log, stderr=self.log)
        until = time.monotonic() + 60
        while True:
            try:
                if self.sql("SELECT 1") == "1\n":
                    break
            except (urllib.error.URLError, OSError):
                if time.monotonic() > until or self.process.poll() is not None:
                    raise
                time.sleep(0.1)

    def sql(self, text, database="default"):
        """As somebody who asks the server by himself."""
        query = urllib.parse.urlencode({"user": "profiler", "password": PASSWORD, "database": database})
        with urllib.request.urlopen(f"http://127.0.0.1:{self.plain}/?{query}", data=text.encode()) as answer:
            return answer.read().decode()

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()


class Cutter:
    """Passes requests on, and cuts some off when all of the request was sent and nothing of the answer came."""

    def __init__(self, port, chance):
        self.port, self.chance, self.rng = port, chance, random.Random(SEED)
        self.cuts = 0
        self.left = 0  # cuts
        self.server = socket.create_server(("127.0.0.1", 0))
        self.own_port = self.server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near, _ = self.server.accept()
            except OSError:
                return
            threading.Thread(target=self._talk, args=(near,), daemon=True).start()

    def _talk(self, near):
        far = socket.create_connection(("127.0.0.1", self.port))
        other = threading.Thread(target=self._requests, args=(near, far), daemon=True)
        other.start()
        try:
            while data := far.recv(65536):  # something is answered: the request was done
                if self.left > 0 and self.rng.random() < self.chance:
                    self.left -= 1
                    self.cuts += 1
                    break
                near.sendall(data)
        except OSError:
            pass
        for end in (near, far):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        other.join()
        near.close()
        far.close()

    def _requests(self, near, far):
        try:
            while data := near.recv(65536):
                far.sendall(data)
        except OSError:
            pass

    def close(self):
        self.server.close()


class ClickHouse(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="rs-clickhouse-")
        cls.server = Server(cls.folder)
        cls.url = f"clickhouse://profiler@localhost:{cls.server.secure}"
        cls.password = os.path.join(cls.folder, "password")
        with open(cls.password, "w", encoding="utf-8") as file:
            file.write(PASSWORD + "\n")
        os.chmod(cls.password, 0o600)
        cls.store = ["--store-password", cls.password, "--store-ca", cls.server.ca]
        with Rig(world=4, nodes=2, step_ms=50, run="demo", rank_words=["--slow-rank", "2"]) as rig:
            rig.wait_ranks(4)
            rig.capture("--steps", "10", "--no-report").end()
            cls.name = rig.wait_captures(1)[0]["id"]
            cls.capture = shutil.copytree(os.path.join(rig.folder, "data", "captures", cls.name), os.path.join(cls.folder, cls.name))

        cls.joined = os.path.join(cls.folder, "joined")
        os.mkdir(cls.joined)
        subprocess.run([os.path.join(BUILD, "join_rows"), cls.capture, cls.joined], check=True, capture_output=True)

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()
        shutil.rmtree(cls.folder)

    def call(self, *words, code=0, environment=None):
        done = subprocess.run([PROGRAM, *words], capture_output=True, text=True, check=False, timeout=300,
                              env={**os.environ, **(environment or {})})
        self.assertEqual(done.returncode, code, f"{words}: {done.stdout}{done.stderr}")
        return done

    def table(self, *words):
        """Without generations, which are each engine's own."""
        rows = list(csv.DictReader(io.StringIO(self.call("table", *words).stdout)))
        return [{key: value for key, value in row.items() if key != "generation"} for row in rows]

    def rows_of(self, folder):
        """What is in rows.db and in the members' segments, but for generations."""
        rows, members = tables_of(folder)
        return rows, {step: segment(path) for step, path in members.items()}

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
        failed = 0
        for _ in range(20):
            cutter.left = CUTS
            done = subprocess.run([PROGRAM, "store", "copy", self.capture, url, *self.store], capture_output=True, text=True, check=False)
            self.assertIn(done.returncode, (0, 4), done.stderr)
            failed += done.returncode == 4
            if done.returncode == 0 and cutter.cuts >= CUTS:
                break
        cutter.left = 0
        self.assertGreaterEqual(cutter.cuts, CUTS)
        self.call("store", "copy", self.capture, url, *self.store)
        self.assert_same(url)
        units = int(self.server.sql("SELECT count() FROM write_unit", "cut"))
        current = int(self.server.sql("SELECT count() FROM (SELECT unit_kind, a, b FROM write_unit GROUP BY unit_kind, a, b)", "cut"))
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

    def test_who_may_not_make_databases_writes_into_one(self):
        self.call("store", "copy", self.capture, self.url + "/given", *self.store)
        url = f"clickhouse://writer@localhost:{self.server.secure}"
        self.call("store", "copy", self.capture, url + "/given", *self.store)
        self.assert_same(url + "/given")
        self.call("store", "copy", self.capture, url + "/not_given", *self.store, code=3)
        self.call("table", self.name, "op", "--store", url + "/not_given", *self.store, code=3)

    def test_columns_are_known_in_any_order(self):
        self.call("store", "copy", self.capture, self.url + "/order", *self.store)
        create = self.server.sql("SHOW CREATE TABLE evidence FORMAT TabSeparatedRaw", "order").rstrip("\n")
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


if __name__ == "__main__":
    if not SERVER:
        print("clickhouse: skipped, no clickhouse-server here (apt-get install clickhouse-server)")
        sys.exit(77)
    unittest_run.main(verbosity=1)
