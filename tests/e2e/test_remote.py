#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A report by a user without any right on the aggregator's disk is, byte for byte, the local one.

The data folder is 0700 and root's; who asks is nobody. Over a unix socket (0660, with --group) and over TCP, where both
sides show certificates: nobody's is a viewer's. Besides, strace
says that no path below the data folder is opened by the one who asks, not even by root.
"""
import collections
import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
import unittest

import unittest_run

from test_analyse import DELIVERABLES, PROGRAM, read, write_traces

NOBODY = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


class Remote(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        """One capture by real daemons; what they made is copied for each test."""
        cls.base = tempfile.mkdtemp(prefix="rs-e2e-")
        os.chmod(cls.base, 0o755)
        cls.program = shutil.copy(PROGRAM, cls.base)  # where everybody may run it
        write_traces(os.path.join(cls.base, "traces"))
        with open(os.path.join(cls.base, "traces", "trace_900.json"), encoding="ascii") as file:
            trace = json.load(file)
        # names enough for pages: more rows than a block of the store has, more bytes than a message
        trace["traceEvents"] += [{"ph": "X", "cat": "kernel", "name": f"small_{i}_" + "x" * 400, "pid": 0, "tid": 7,
                                  "ts": 100 + i % 7, "dur": 1, "args": {"device": 0, "stream": 7, "correlation": 1}}
                                 for i in range(5000)]
        with open(os.path.join(cls.base, "traces", "trace_900.json"), "w", encoding="ascii") as file:
            json.dump(trace, file)
        address = "unix:" + os.path.join(cls.base, "a.sock")
        with subprocess.Popen([PROGRAM, "aggregator", "--listen", address, "--data", os.path.join(cls.base, "data")],
                              stdout=subprocess.PIPE) as aggregator:
            aggregator.stdout.readline()
            with subprocess.Popen([PROGRAM, "collector", "--connect", address, "--spool", os.path.join(cls.base, "spool"),
                                   "--watch", os.path.join(cls.base, "traces"), "--no-native", "--no-kineto",
                                   "--no-ascend", "--no-mindspore", "--settle", "300ms", "-q"]) as collector:
                until = time.monotonic() + 60
                captures = []
                while time.monotonic() < until and not (captures and captures[0]["closed_ns"]):
                    time.sleep(0.05)
                    done = subprocess.run([PROGRAM, "capture", "list", "--connect", address, "--json"],
                                          capture_output=True, check=True)
                    captures = json.loads(done.stdout)["captures"]
                collector.terminate()
            aggregator.terminate()
        assert captures[0]["state"] == "complete", captures
        cls.capture = captures[0]["id"]
        data, cls.certs = os.path.join(cls.base, "data"), os.path.join(cls.base, "viewer")
        for words in (("init",), ("issue", "viewer", "nobody", "--out", cls.certs)):
            subprocess.run([PROGRAM, "certs", *words, "--data", data, "-q"], check=True)
        for name in (".", *os.listdir(cls.certs)):
            shutil.chown(os.path.join(cls.certs, name), "nobody", "nogroup")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.base)

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="rs-e2e-")
        os.chmod(self.folder, 0o755)
        self.data = shutil.copytree(os.path.join(self.base, "data"), os.path.join(self.folder, "data"))
        os.chmod(self.data, 0o700)
        self.mine = os.path.join(self.folder, "nobody")  # all that nobody may write to
        os.mkdir(self.mine, 0o700)
        shutil.chown(self.mine, "nobody", "nogroup")
        self.local = os.path.join(self.folder, "local")
        self.local_run = self.run_as([], "report", self.capture, "--data", self.data, "-o", self.local)
        self.assertEqual(self.local_run.returncode, 0, self.local_run.stderr)
        self.aggregator = None

    def tearDown(self):
        if self.aggregator:
            self.aggregator.terminate()
            self.aggregator.wait()
            self.aggregator.stdout.close()
        shutil.rmtree(self.folder)

    def run_as(self, user, *words):
        environment = {"LC_ALL": "C", "PATH": os.environ["PATH"], "HOME": "/", "TMPDIR": self.folder + "/nobody",
                       "RANKSCOPE_CERTS": self.certs}
        return subprocess.run([*user, self.program, *words], capture_output=True, text=True, env=environment,
                              timeout=300, check=False, cwd=self.folder)

    def serve(self, listen, *more):
        self.aggregator = subprocess.Popen([self.program, "aggregator", "--data", self.data, "--listen", listen,
                                            *more], stdout=subprocess.PIPE, text=True)
        line = self.aggregator.stdout.readline()
        self.assertIn("listening on ", line)
        return line.split()[-1]

    def assert_same_as_local(self, address):
        out = os.path.join(self.mine, "out")
        done = self.run_as(NOBODY, "report", self.capture, "--connect", address, "-o", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.replace(out, self.local), self.local_run.stdout)
        self.assertEqual(done.stderr, self.local_run.stderr)
        for name in DELIVERABLES:
            self.assertEqual(digest(os.path.join(out, name)), digest(os.path.join(self.local, name)), name)
        # manifest.json names sums and paths: the sums are those of what was fetched
        manifest = json.loads(read(out, "manifest.json"))
        self.assertEqual(manifest["deliverables"], json.loads(read(self.local, "manifest.json"))["deliverables"])
        self.assertEqual(sorted(os.listdir(out)), sorted(os.listdir(self.local)))
        plain = self.run_as(NOBODY, "report", self.capture, "--connect", address, "--json")
        self.assertEqual(plain.stdout, read(self.local, "report.json").decode())
        # That one was read from the rows that were written when the capture was closed.
        counters = self.run_as(NOBODY, "counters", "--connect", address, "--prometheus").stdout
        self.assertRegex(counters, r"(?m)^rankscope_documents_of_rows(_total)?(\{.*\})? 1$")

    def test_nobody_reads_nothing_of_the_disk(self):
        done = self.run_as(NOBODY, "report", self.capture, "--data", self.data)
        self.assertNotEqual(done.returncode, 0)

    def test_unix_socket(self):
        path = os.path.join(self.folder, "a.sock")
        address = self.serve("unix:" + path, "--group", "nogroup")
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o660)
        self.assert_same_as_local(address)

    def test_unix_socket_of_another_group(self):
        path = os.path.join(self.folder, "a.sock")
        address = self.serve("unix:" + path)
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o660)
        done = self.run_as(NOBODY, "report", self.capture, "--connect", address)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("may not be opened by this user", done.stderr)

    def test_unknown_group_is_refused(self):
        done = self.run_as([], "aggregator", "--data", self.data, "--listen", f"unix:{self.folder}/a.sock",
                           "--group", "no-such-group")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("no group no-such-group", done.stderr)

    def test_tcp(self):
        self.assert_same_as_local(self.serve("127.0.0.1:0"))

    def test_tables(self):
        """Every named read by an asker without any right on the disk: the rows that the capture's folder gives here."""
        address = self.serve("127.0.0.1:0")
        names = [line.split()[0] for line in self.run_as([], "table").stdout.splitlines()]
        self.assertGreater(len(names), 15)
        seen = 0
        for name in names:
            chosen = ["--ranks", "0-63"] if name in ("span", "host_span", "counter") else []  # raw events are those of named ranks
            for more in (chosen, chosen + ["--json"]):
                here = self.run_as([], "table", self.capture, name, "--data", self.data, *more)
                there = self.run_as(NOBODY, "table", self.capture, name, "--connect", address, *more)
                self.assertEqual((here.returncode, there.returncode), (0, 0), there.stderr + here.stderr)
                if name != "write_unit":  # generations are of each store's own
                    self.assertEqual(there.stdout, here.stdout, name)
            answer = json.loads(there.stdout)
            seen += len(answer["rows"])
            schema = json.loads(self.run_as(NOBODY, "table", "--schema", name).stdout)
            for row in answer["rows"]:
                self.assertEqual(list(row), schema["required"])
        self.assertGreater(seen, 5000)
        # the documents are these reads
        for name in ("collectives", "rank_breakdown", "step_breakdown"):
            there = self.run_as(NOBODY, "table", self.capture, name, "--connect", address)
            self.assertEqual(there.stdout, read(self.local, name + ".csv").decode())
        of = {name: json.loads(self.run_as(NOBODY, "table", self.capture, name, "--connect", address, "--json").stdout)["rows"]
              for name in ("capture", "stream", "input", "clock", "coverage")}
        self.assertEqual([(row["id"], row["state"], row["clock"]) for row in of["capture"]], [(self.capture, "complete", "aligned")])
        self.assertEqual([row["rank"] for row in of["input"]], [0, 1, 2, 3])
        self.assertEqual({(row["rank"], row["is_ended"], row["missing_chunks"]) for row in of["stream"]},
                         {(rank, 1, 0) for rank in range(4)})
        self.assertEqual([row["rank"] for row in of["clock"]], [0, 1, 2, 3])
        self.assertEqual(of["coverage"], [])
        few = self.run_as(NOBODY, "table", self.capture, "op_member", "--connect", address, "--limit", "3")
        self.assertEqual(len(few.stdout.splitlines()), 1 + 3)
        for words, text in ((["table", self.capture, "no_such"], "there is no table"),
                            (["table", "20200101-000000-abcdef", "op"], "there is no capture")):
            done = self.run_as(NOBODY, *words, "--connect", address)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(text, done.stderr)

    def test_queries(self):
        """A SELECT of one's own, of the aggregator and of the folder: the same rows, and nothing that does more than read."""
        address = self.serve("127.0.0.1:0")
        sql = "SELECT rank, count(*) AS members, max(op.op), NULL AS none, 0.5 AS half FROM op_member JOIN op USING (capture, step, group_id, op_no) GROUP BY rank"
        for more in ([], ["--json"], ["--limit", "2"]):
            here = self.run_as([], "query", self.capture, sql, "--data", self.data, *more)
            there = self.run_as(NOBODY, "query", self.capture, sql, "--connect", address, *more)
            code = 1 if "--limit" in more else 0  # cut off
            self.assertEqual((here.returncode, there.returncode), (code, code), here.stderr + there.stderr)
            self.assertEqual(there.stdout, here.stdout)
            if code:
                self.assertIn("there are more rows than these 2", there.stderr)
        rows = self.run_as(NOBODY, "query", self.capture, sql, "--connect", address).stdout.splitlines()
        members = self.run_as(NOBODY, "table", self.capture, "op_member", "--connect", address, "--json")
        counted = collections.Counter(row["rank"] for row in json.loads(members.stdout)["rows"])
        self.assertEqual(rows[0], "rank,members,max(op.op),none,half")
        self.assertEqual({int(row.split(",")[0]): int(row.split(",")[1]) for row in rows[1:]}, dict(counted))
        self.assertTrue(all(row.endswith(",,0.5") for row in rows[1:]))
        for where in (["--data", self.data], ["--connect", address]):
            for words, code in ((["DELETE FROM op"], 2), (["SELECT 1; SELECT 2"], 2), (["ATTACH '/tmp/x' AS x"], 2), (["PRAGMA user_version"], 2),
                                ([], 2), (["SELECT 1", "x"], 2), (["SELECT * FROM nowhere"], 2), (["SELECT 1", "--limit", "0"], 2)):
                done = self.run_as([] if "--data" in where else NOBODY, "query", self.capture, *words, *where)
                self.assertEqual((done.returncode, done.stdout), (code, ""), (words, where, done.stderr))
                self.assertTrue(done.stderr.startswith("rankscope query: "), done.stderr)
        done = self.run_as(NOBODY, "query", "20200101-000000-abcdef", "SELECT 1", "--connect", address)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("there is no capture", done.stderr)

    def answers(self):
        """What the aggregator says of its captures, and the report: bytes."""
        address = self.serve("127.0.0.1:0")
        out = os.path.join(self.folder, "again")
        said = [self.run_as([], *words, "--connect", address).stdout for words in (
            ["capture", "list", "--json"], ["capture", "list"], ["capture", "show", self.capture, "--json"],
            ["capture", "show", self.capture], ["table", self.capture, "op_member"])]
        done = self.run_as([], "report", self.capture, "--connect", address, "-o", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        said += [done.stdout] + [digest(os.path.join(out, name)) for name in sorted(os.listdir(out))]
        shutil.rmtree(out)
        self.tear_aggregator()
        return said

    def tear_aggregator(self):
        self.aggregator.terminate()
        self.aggregator.wait()
        self.aggregator.stdout.close()
        self.aggregator = None

    def test_rebuild(self):
        """Databases lost or damaged, in three combinations: rebuilt from the segments, every answer is as before."""
        before = self.answers()
        folder = os.path.join(self.data, "captures", self.capture)
        for catalogue, own, words in ((None, "gone", [self.capture]), ("gone", "gone", ["--all"]),
                                      ("garbage", "garbage", ["--all"])):
            for path, how in ((os.path.join(self.data, "catalogue.db"), catalogue),
                              (os.path.join(folder, "capture.db"), own)):
                if how == "gone":
                    os.unlink(path)
                elif how == "garbage":
                    with open(path, "wb") as file:
                        file.write(b"this is no database" * 100)
            done = self.run_as([], "rebuild", *words, "--data", self.data)
            self.assertEqual((done.returncode, done.stdout), (0, self.capture + "\n"), done.stderr)
            self.assertEqual(self.answers(), before, (catalogue, own))
        address = self.serve("127.0.0.1:0")
        done = self.run_as([], "rebuild", "--all", "--data", self.data)
        self.assertNotEqual(done.returncode, 0, "an aggregator has this data")
        self.assertIn("another aggregator", done.stderr)
        self.assertEqual(self.run_as([], "capture", "list", "--connect", address, "--json").stdout, before[0])
        self.tear_aggregator()
        for words, text in ((["no-such"], "there is no capture"), (["../x"], "is no capture id"), ([], "give the IDs")):
            done = self.run_as([], "rebuild", *words, "--data", self.data)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(text, done.stderr)
        done = self.run_as([], "rebuild", "--all", "--data", self.folder + "/nowhere")
        self.assertIn("is no aggregator's data", done.stderr)
        self.assertFalse(os.path.exists(self.folder + "/nowhere"))

    def test_raw_verbs(self):
        """Verbs that read raw data carry the capture's files to the asker, and leave none of them."""
        address = self.serve("127.0.0.1:0")
        local = self.run_as([], "verify", self.capture, "--data", self.data)
        done = self.run_as(NOBODY, "verify", self.capture, "--connect", address)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, local.stdout)
        if " export " in subprocess.run([PROGRAM, "--help"], capture_output=True, text=True, check=True).stdout:
            self.verbs_of_the_wing(address)
        done = self.run_as(NOBODY, "verify", "20260102-030405-a1b2c3", "--connect", address)
        self.assertEqual(done.returncode, 2, done.stderr)

    def verbs_of_the_wing(self, address):
        self.run_as([], "export", "ascend", self.capture, "--data", self.data, "-o", self.folder + "/ranks")
        done = self.run_as(NOBODY, "export", "ascend", self.capture, "--connect", address, "-o", self.mine + "/ranks")
        self.assertEqual(done.returncode, 0, done.stderr)
        compared = subprocess.run(["diff", "-r", self.folder + "/ranks", self.mine + "/ranks"], capture_output=True,
                                  text=True, check=False)
        self.assertEqual(compared.stdout, "")
        done = self.run_as(NOBODY, "cluster", self.capture, "--connect", address, "-o", self.mine + "/cluster")
        self.assertIn(f"no stream of {self.capture} brought documents of an Ascend profiler", done.stderr)
        left = set(os.listdir(self.mine)) - {"ranks", "cluster"}
        self.assertEqual(left, set())

    def test_a_capture_that_is_not_there(self):
        address = self.serve("127.0.0.1:0")
        for name in ("20260102-030405-a1b2c3", "..", "a/b"):
            done = self.run_as(NOBODY, "report", name, "--connect", address)
            self.assertEqual(done.returncode, 2, done.stderr)

    def test_strace_shows_no_path_of_the_data(self):
        address = self.serve("127.0.0.1:0")
        log = os.path.join(self.folder, "strace.log")
        out = os.path.join(self.folder, "out")
        done = subprocess.run(["strace", "-f", "-e", "trace=file", "-o", log, self.program, "report", self.capture,
                               "--connect", address, "--certs", self.certs, "-o", out], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(log, encoding="utf-8", errors="replace") as file:
            lines = file.readlines()
        self.assertTrue(any(out in line for line in lines))  # it does show paths
        self.assertEqual([line for line in lines if self.data + "/" in line or f'"{self.data}"' in line], [])


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("skipped: only root can ask as another user")
        sys.exit(77)
    for tool in ("setpriv", "strace"):
        if not shutil.which(tool):
            print(f"skipped: there is no {tool} (tests/packages.txt)")
            sys.exit(77)
    unittest_run.main(verbosity=1)
