#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Captures in object storage: a real S3 server that checks signatures, digests and sizes (s3proxy), real daemons.

A proxy of ours stands between when an upload or a download is to be cut off. Skipped (77) without a Java or s3proxy's jar;
RANKSCOPE_S3_INSTALL=1 fetches that.
"""
import hashlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request

import unittest_run

from rig_native import PROGRAM, Rig

HERE = os.path.dirname(os.path.abspath(__file__))
KEY_ID, SECRET = "AKIAEXAMPLE", "a-secret-of-this-test"
BUCKET = "captures"
SEED = 20261124
CUTS = int(os.environ.get("RANKSCOPE_ARCHIVE_CUTS", "3"))  # 20 by hand


def find_jar():
    found = subprocess.run([os.path.join(HERE, "..", "s3proxy.sh")], capture_output=True, text=True, check=False).stdout.strip()
    if not found:
        print("archive: skipped, no Java or no s3proxy; RANKSCOPE_S3_INSTALL=1 fetches it (55 MB)")
        sys.exit(77)
    return found


class S3:
    """s3proxy over a folder, on a free port."""

    def __init__(self, folder):
        self.folder = folder
        self.buckets = os.path.join(folder, "buckets")
        os.makedirs(os.path.join(self.buckets, BUCKET))
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        settings = os.path.join(folder, "s3proxy.conf")
        with open(settings, "w", encoding="utf-8") as file:
            file.write(f"s3proxy.authorization=aws-v4\ns3proxy.endpoint=http://127.0.0.1:{self.port}\n"
                       f"s3proxy.identity={KEY_ID}\ns3proxy.credential={SECRET}\n"
                       f"jclouds.provider=filesystem-nio2\njclouds.filesystem.basedir={self.buckets}\n")
        self.log = open(os.path.join(folder, "s3proxy.log"), "wb")
        self.process = subprocess.Popen(["java", "-Xmx256m", "-jar", find_jar(), "--properties", settings], stdout=self.log,
                                        stderr=self.log)
        until = time.monotonic() + 120
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/", timeout=120).close()
            except urllib.error.HTTPError:
                break  # it answers: who are you?
            except OSError:
                if time.monotonic() > until or self.process.poll() is not None:
                    raise
                time.sleep(0.2)
            else:
                break

    def objects(self, prefix=""):
        root = os.path.join(self.buckets, BUCKET)
        names = [os.path.relpath(os.path.join(path, name), root) for path, _, files in os.walk(root) for name in files]
        return sorted(name for name in names if name.startswith(prefix) and not name.startswith(".mpus"))

    def path(self, name):
        return os.path.join(self.buckets, BUCKET, name)

    def stop(self):
        self.process.terminate()
        self.process.wait(60)
        self.log.close()


class Cutter:
    """Passes bytes on to a port, and after `limit` of them closes the connection: once, then it passes all."""

    def __init__(self, port):
        self.port = port
        self.limit = None
        self.cuts = 0
        self.lock = threading.Lock()
        self.server = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self.server.getsockname()[1]}"
        self.is_closed = False
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while not self.is_closed:
            try:
                near, _ = self.server.accept()
                far = socket.create_connection(("127.0.0.1", self.port))
            except OSError:
                return
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._pass, args=(source, sink), daemon=True).start()

    def _pass(self, source, sink):
        try:
            while data := source.recv(65536):
                with self.lock:
                    if self.limit is not None:
                        self.limit -= len(data)
                        if self.limit <= 0:
                            self.limit = None
                            self.cuts += 1
                            break
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        source.close()

    def close(self):
        self.is_closed = True
        self.server.close()


def digests(folder):
    """Of what a capture consists of: not what can be joined again, nor what says where it is."""
    found = {}
    for path, _, files in os.walk(folder):
        for name in files:
            full = os.path.join(path, name)
            short = os.path.relpath(full, folder)
            if short.startswith(("rows.db", "members/")) or short in ("archive", "archived.json", "restored", "rows.at"):
                continue
            with open(full, "rb") as file:
                found[short] = hashlib.sha256(file.read()).hexdigest()
    return found


class Archive(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="rs-archive-")
        cls.s3 = S3(cls.folder)
        cls.credentials = os.path.join(cls.folder, "credentials")
        with open(cls.credentials, "w", encoding="utf-8") as file:
            file.write(f"{KEY_ID}\n{SECRET}\n")
        os.chmod(cls.credentials, 0o600)

    @classmethod
    def tearDownClass(cls):
        cls.s3.stop()
        shutil.rmtree(cls.folder)

    def words(self, endpoint=None, prefix="", credentials=None):
        return ["--archive", f"s3://{BUCKET}{prefix}", "--archive-endpoint", endpoint or f"http://127.0.0.1:{self.s3.port}",
                "--archive-credentials", credentials or self.credentials]

    def call(self, *words, code=0):
        done = subprocess.run([PROGRAM, *words], capture_output=True, text=True, check=False, timeout=300)
        self.assertEqual(done.returncode, code, f"{words}: {done.stdout}{done.stderr}")
        return done

    def record(self, rig, steps=20):
        """A whole capture. On a loaded machine a rank can be told too late; that is said, and it is asked again."""
        for _ in range(5):
            words = ("capture", "--steps", str(steps), "--no-report", "--wait", "raw", "--connect", rig.address)
            done = subprocess.run([PROGRAM, *words], capture_output=True, text=True, check=False, timeout=300)
            if done.returncode != 1 or "told too late" not in done.stderr:
                break
            rig.ask("rm", rig.captures()[-1]["id"])
        self.assertEqual(done.returncode, 0, f"{words}: {done.stdout}{done.stderr}")
        return rig.captures()[-1]["id"]

    def restart(self, rig, words):
        rig.aggregator.terminate()
        self.assertEqual(rig.aggregator.wait(60), 0)
        rig.aggregator.stdout.close()
        rig.aggregator_words = list(words)
        rig.start_aggregator()

    def wait_for(self, is_it, what, seconds=300):
        until = time.monotonic() + seconds
        while not is_it():
            self.assertLess(time.monotonic(), until, "never: " + what)
            time.sleep(0.05)

    def test_there_and_back(self):
        """Archived, listed, read (by itself fetched), restored byte for byte, removed there, too."""
        with Rig(world=4, nodes=2, step_ms=50, aggregator_words=self.words(prefix="/there")) as rig:
            rig.wait_ranks(4)
            name = self.record(rig)
            folder = os.path.join(rig.folder, "data", "captures", name)
            before = digests(folder)
            out = os.path.join(rig.folder, "before")
            self.call("report", name, "-o", out, "--connect", rig.address, "-q")
            done = self.call("archive", name, "--connect", rig.address)
            self.assertEqual(done.stdout, f"{name} archived at s3://{BUCKET}/there/{name}\n")
            self.assertEqual(os.listdir(os.path.join(folder, "segments")), [])
            self.assertEqual(os.listdir(os.path.join(folder, "summaries")), [])
            self.assertEqual(self.s3.objects("there/"), sorted([f"there/{name}/{file}" for file in before] + [f"there/{name}/archive.json"]))
            with open(self.s3.path(f"there/{name}/archive.json"), encoding="utf-8") as file:
                listed = json.load(file)
            self.assertEqual({item["name"]: item["sha256"] for item in listed["files"]}, before)
            shown = json.loads(self.call("capture", "show", name, "--json", "--connect", rig.address).stdout)
            self.assertEqual(shown["archive"], f"s3://{BUCKET}/there/{name}")
            self.assertIn(f"archived   at s3://{BUCKET}/there/{name}", self.call("capture", "show", name, "--connect", rig.address).stdout)
            # Its rows are at hand, so history has it without fetching anything; without them it says that it does not.
            rows = os.path.join(folder, "rows.db")
            done = self.call("history", "captures", "--json", "--connect", rig.address)
            self.assertEqual([(row["rows"], row["ranks"]) for row in json.loads(done.stdout)["rows"]], [("here", 4)])
            os.rename(rows, rows + ".aside")
            done = self.call("history", "captures", "--json", "--connect", rig.address, code=1)
            self.assertEqual([(row["rows"], row["ranks"], row["step_ns"]) for row in json.loads(done.stdout)["rows"]],
                             [("archived", None, None)])
            self.assertIn(f"capture {name} is not in it: it is archived", done.stderr)
            os.rename(rows + ".aside", rows)
            self.assertEqual(os.listdir(os.path.join(folder, "summaries")), [])
            # Another aggregator of the same data, without an archive, says where it is.
            self.restart(rig, [])
            done = self.call("table", name, "collectives", "--connect", rig.address, code=3)
            self.assertIn("archived", done.stderr)
            done = self.call("fetch", name, "--connect", rig.address, code=3)
            self.assertIn(f"archived at s3://{BUCKET}/there/{name}: restore it first", done.stderr)
            self.call("rm", name, "--connect", rig.address, code=3)
            self.call("archive", name, "--connect", rig.address, code=3)
            # What is asked for is fetched, and is the same.
            self.restart(rig, self.words(prefix="/there"))
            again = os.path.join(rig.folder, "again")
            self.call("report", name, "-o", again, "--connect", rig.address, "-q")
            for file in sorted(os.listdir(out)):
                if file != "manifest.json":  # paths and times of day
                    self.assertEqual(digests(out)[file], digests(again)[file], file)
            self.call("verify", name, "--connect", rig.address)
            self.assertTrue(os.path.exists(os.path.join(folder, "archive")), "it is archived still")
            self.call("archive", name, "--connect", rig.address)  # what was fetched goes again
            self.assertEqual(os.listdir(os.path.join(folder, "segments")), [])
            self.assertEqual(self.call("restore", name, "--connect", rig.address).stdout, f"{name} restored\n")
            self.assertEqual(digests(folder), before)
            self.call("verify", name, "--connect", rig.address)
            self.assertNotIn("archive", json.loads(self.call("capture", "show", name, "--json", "--connect", rig.address).stdout))
            self.call("rm", name, "--connect", rig.address)
            self.assertEqual(self.s3.objects("there/"), [])
            done = self.call("restore", name, "--connect", rig.address, code=2)
            self.assertIn("neither here nor in", done.stderr)
            with open(os.path.join(rig.folder, "data", "audit.jsonl"), encoding="utf-8") as file:
                what = [json.loads(line)["what"] for line in file]
            self.assertIn("capture.archive", what)
            self.assertIn("capture.restore", what)

    def test_by_age_and_lost(self):
        """Old ones go by themselves; an aggregator whose data is gone gets one back from the archive alone."""
        with Rig(world=4, nodes=1, step_ms=50) as rig:
            rig.wait_ranks(4)
            name = self.record(rig)
            folder = os.path.join(rig.folder, "data", "captures", name)
            before = digests(folder)
            self.restart(rig, [*self.words(prefix="/age"), "--archive-after", "1s"])
            self.wait_for(lambda: os.path.exists(os.path.join(folder, "archive")) and not os.listdir(os.path.join(folder, "segments")),
                          "it is old enough")
            self.wait_for(lambda: "older than --archive-after" in rig.log_text("aggregator"), "the log says why")
            ranks = self.call("capture", "show", name, "--json", "--connect", rig.address).stdout
            rig.aggregator.terminate()
            self.assertEqual(rig.aggregator.wait(60), 0)
            rig.aggregator.stdout.close()
            os.rename(os.path.join(rig.folder, "data"), os.path.join(rig.folder, "lost"))
            rig.aggregator_words = self.words(prefix="/age")
            rig.start_aggregator()
            self.call("capture", "show", name, "--connect", rig.address, code=2)
            self.call("restore", name, "--connect", rig.address)
            self.assertEqual(digests(folder), before)
            now = json.loads(self.call("capture", "show", name, "--json", "--connect", rig.address).stdout)
            was = json.loads(ranks)
            self.assertEqual({**now, "archive": was["archive"]}, was)
            self.call("verify", name, "--connect", rig.address)

    def test_cut_off(self):
        """The aggregator is killed, and the network cut, again and again at random moments; nothing is lost, nothing sent in vain."""
        rng = random.Random(SEED)
        cutter = Cutter(self.s3.port)
        with Rig(world=2, nodes=1, step_ms=20, aggregator_words=self.words(cutter.address, "/cut")) as rig:
            rig.wait_ranks(2)
            name = self.record(rig, 10)
            folder = os.path.join(rig.folder, "data", "captures", name)
            # A file of several parts: what is no segment goes and comes with the others.
            with open(os.path.join(folder, "large"), "wb") as file:
                file.write(rng.randbytes(27 << 20))
            before = digests(folder)
            size = 28 << 20
            for turn in range(CUTS):
                for verb in ("archive", "restore"):
                    if verb == "restore":
                        os.unlink(os.path.join(folder, "large"))
                    ask = subprocess.Popen([PROGRAM, verb, name, "--connect", rig.address, "-q"], stderr=subprocess.DEVNULL)
                    at = rng.uniform(0.05, 1.0) if verb == "archive" else rng.uniform(0.02, 0.4)
                    cutter.limit = rng.randrange(size)
                    try:
                        ask.wait(at)
                    except subprocess.TimeoutExpired:
                        pass
                    rig.aggregator.send_signal(signal.SIGKILL)
                    rig.aggregator.wait()
                    rig.aggregator.stdout.close()
                    ask.wait(60)
                    rig.start_aggregator()
                    is_archived = os.path.exists(os.path.join(folder, "archive"))
                    if not is_archived:  # all of it is here, whatever happened
                        here = digests(folder)
                        self.assertEqual({key: value for key, value in here.items() if key in before and ".tmp-" not in key},
                                         {key: value for key, value in before.items() if key in here})
                        if verb == "archive":
                            self.assertEqual(here, before)
                    cutter.limit = rng.randrange(size)
                    self.call(verb, name, "--connect", rig.address, "-q")
            cutter.limit = None
            self.call("archive", name, "--connect", rig.address, "-q")
            os.unlink(os.path.join(folder, "large"))
            self.call("restore", name, "--connect", rig.address, "-q")
            self.assertEqual(digests(folder), before)
            self.call("verify", name, "--connect", rig.address)
            self.assertGreater(cutter.cuts, 0)
        cutter.close()

    def test_what_is_damaged_there(self):
        """An object that somebody changed has not the digest of its list: it gets no name here, and the next try asks again."""
        with Rig(world=2, nodes=1, step_ms=20, aggregator_words=self.words(prefix="/bad")) as rig:
            rig.wait_ranks(2)
            name = self.record(rig, 5)
            folder = os.path.join(rig.folder, "data", "captures", name)
            before = digests(folder)
            self.call("archive", name, "--connect", rig.address)
            segment = next(key for key in before if key.startswith("segments/"))
            there = self.s3.path(f"bad/{name}/{segment}")
            with open(there, "r+b") as file:
                file.seek(100)
                kept = file.read(1)
                file.seek(100)
                file.write(bytes([kept[0] ^ 1]))
            done = self.call("restore", name, "--connect", rig.address, code=2)
            self.assertIn("came back from the archive with the SHA-256", done.stderr)
            self.assertFalse(os.path.exists(os.path.join(folder, segment)))
            with open(there, "r+b") as file:
                file.seek(100)
                file.write(kept)
            self.call("restore", name, "--connect", rig.address)
            self.assertEqual(digests(folder), before)

    def test_who_is_not_let_in(self):
        """A wrong secret, a bucket that is not there, a server that is not there; settings that cannot be."""
        wrong = os.path.join(self.folder, "wrong")
        with open(wrong, "w", encoding="utf-8") as file:
            file.write(f"{KEY_ID}\nanother-secret-than-that\n")
        os.chmod(wrong, 0o600)
        with Rig(world=2, nodes=1, step_ms=20, aggregator_words=self.words(credentials=wrong)) as rig:
            rig.wait_ranks(2)
            name = self.record(rig, 5)
            folder = os.path.join(rig.folder, "data", "captures", name)
            before = digests(folder)
            done = self.call("archive", name, "--connect", rig.address, code=3)
            self.assertIn("403", done.stderr)
            self.restart(rig, ["--archive", "s3://nobodys-bucket", *self.words()[2:]])
            self.call("archive", name, "--connect", rig.address, code=2)
            with socket.socket() as silent:
                silent.bind(("127.0.0.1", 0))  # nobody listens
                self.restart(rig, self.words(f"http://127.0.0.1:{silent.getsockname()[1]}"))
                done = self.call("archive", name, "--connect", rig.address, code=4)
                self.assertIn("cannot be reached", done.stderr)
            self.assertEqual(digests(folder), before)
            rig.aggregator.terminate()
            rig.aggregator.wait(60)
            os.chmod(wrong, 0o644)
            data = os.path.join(rig.folder, "other")
            for words, code, text in (
                    (self.words(credentials=wrong), 3, "make it 0600"),
                    (["--archive", "captures"], 2, "s3://BUCKET"),
                    (["--archive", f"s3://{BUCKET}/a b"], 2, "consist of a-z"),
                    (self.words("http://192.0.2.1:9000"), 3, "only https:// is spoken"),
                    (self.words("ftp://127.0.0.1"), 3, "only https:// is spoken"),
                    (["--archive", f"s3://{BUCKET}"], 2, "needs credentials"),
                    (["--archive-after", "1d"], 2, "--archive-after needs --archive")):
                environment = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
                done = subprocess.run([PROGRAM, "aggregator", "--listen", rig.address, "--data", data, *words], capture_output=True,
                                      text=True, check=False, timeout=60, env=environment)
                self.assertEqual(done.returncode, code, f"{words}: {done.stderr}")
                self.assertIn(text, done.stderr)


if __name__ == "__main__":
    find_jar()
    unittest_run.main()
