#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Links over TCP: who is believed, who is not, and what the refused are told.

Real daemons on loopback TCP with real certificates; OpenSSL's own command line holds them against the authority. The attacks
are those of docs/security.md: another authority, no certificate, plain text, an expired and a revoked certificate, a viewer
that captures, a node that speaks for another, an invite that is used twice.
"""
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import unittest

import unittest_run

PROGRAM = os.path.abspath(os.environ.get("RANKSCOPE", "build/dev/rankscope"))
RANKS = os.path.join(os.path.abspath(os.environ.get("RANKSCOPE_BUILD", "build/dev")), "native_ranks")
FILES_ONLY = ("--no-native", "--no-kineto", "--no-ascend", "--no-mindspore")


class Tls(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="rs-tls-")
        self.data = os.path.join(self.folder, "data")
        self.processes = []
        self.certs("init")
        self.certs("issue", "operator", "alice", "--out", self.path("alice"))
        self.certs("issue", "viewer", "bob", "--out", self.path("bob"))
        self.aggregator = self.start("aggregator", "--data", self.data, "--listen", "127.0.0.1:0", "--listen",
                                     "unix:" + self.path("a.sock"), "--join", "127.0.0.1:0", "-v")
        said = [self.aggregator.stdout.readline().split()[-1] for _ in range(3)]
        self.address, self.join = said[0], said[2]

    def tearDown(self):
        for process in reversed(self.processes):
            if process.poll() is None:
                process.terminate()
            code = process.wait(120)
            process.stdout.close()
            if code not in (0, -15):
                print(f"{process.args[1]} ended with {code}:\n{self.log_of(process)[-3000:]}", file=sys.stderr)
        if self._outcome.success:
            shutil.rmtree(self.folder)
        else:
            print("what was said is in", self.folder, file=sys.stderr)

    # ---- tools

    def path(self, name):
        return os.path.join(self.folder, name)

    def environment(self):
        return {"LC_ALL": "C", "PATH": os.environ["PATH"], "HOME": self.folder, "RANKSCOPE_CONFIG": "",
                "RANKSCOPE_RUNTIME_DIR": self.folder, "RANKSCOPE_WAIT": "raw"}

    def start(self, *words):
        with open(self.path(f"{words[0]}-{len(self.processes)}.log"), "w", encoding="utf-8") as log:
            process = subprocess.Popen([PROGRAM, *words], env=self.environment(), stdout=subprocess.PIPE, stderr=log,
                                       text=True)
        self.processes.append(process)
        return process

    def log_of(self, process):
        index = self.processes.index(process)
        name = next(name for name in os.listdir(self.folder) if name.endswith(f"-{index}.log"))
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def run_it(self, *words, code=0):
        done = subprocess.run([PROGRAM, *words], env=self.environment(), capture_output=True, text=True, timeout=120,
                              check=False)
        self.assertEqual(done.returncode, code, (words, done.stdout, done.stderr))
        return done

    def certs(self, *words, data=None, code=0):
        return self.run_it("certs", *words, "--data", data or self.data, code=code)

    def ask(self, who, *words, code=0):
        return self.run_it(*words, "--connect", self.address, "--certs", self.path(who), code=code)

    def wait_for(self, is_it, what, seconds=300):
        until = time.monotonic() + seconds
        while not is_it():
            self.assertLess(time.monotonic(), until, "never: " + what)
            time.sleep(0.1)

    def counters(self):
        done = self.run_it("counters", "--connect", "unix:" + self.path("a.sock"), "--json")
        return json.loads(done.stdout)

    def count(self, name):
        own = next(daemon for daemon in self.counters()["daemons"] if daemon["daemon"] == "aggregator")
        return own["counters"][name]

    def audit(self):
        with open(os.path.join(self.data, "audit.jsonl"), encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def wait_audit(self, **wanted):
        def is_there():
            return any(all(line.get(key) == value for key, value in wanted.items()) for line in self.audit())
        self.wait_for(is_there, f"in the audit log: {wanted}")

    def collector(self, node, *words):
        return self.start("collector", "--spool", self.path(node + ".spool"), "--certs", self.path(node), "-v", *words)

    # ---- certificates

    def test_openssl_agrees(self):
        authority = os.path.join(self.data, "ca", "ca.crt")
        for name, purpose in ((self.path("alice"), "sslclient"), (self.path("bob"), "sslclient"),
                              (os.path.join(self.data, "certs"), "sslserver")):
            done = subprocess.run(["openssl", "verify", "-x509_strict", "-purpose", purpose, "-CAfile", authority,
                                   os.path.join(name, "tls.crt")], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            mode = os.stat(os.path.join(name, "tls.key")).st_mode & 0o777
            self.assertEqual(mode, 0o600)
        done = subprocess.run(["openssl", "verify", "-purpose", "sslserver", "-CAfile", authority,
                               os.path.join(self.path("alice"), "tls.crt")], capture_output=True, check=False)
        self.assertNotEqual(done.returncode, 0, "a client's certificate makes a server")
        self.certs("issue", "node", "n1", "--out", self.path("n1"))
        self.certs("issue", "node", "n2", "--host", "gpu-2", "--out", self.path("n2"))
        for name, is_server in (("n1", False), ("n2", True)):  # the other is for its own name only
            for words, is_fine in ((("-verify_hostname", "gpu-2"), is_server), (("-verify_hostname", "localhost"), False)):
                done = subprocess.run(["openssl", "verify", "-purpose", "sslserver", *words, "-CAfile", authority,
                                       os.path.join(self.path(name), "tls.crt")], capture_output=True, check=False)
                self.assertEqual(done.returncode == 0, is_fine, (name, words))
        self.certs("issue", "viewer", "v", "--host", "x", "--out", self.path("v"), code=2)
        shown = json.loads(self.certs("show", "--json").stdout)
        self.assertEqual(sorted((item["party"], item["name"], item["state"]) for item in shown),
                         [("aggregator", "main", "counts"), ("node", "n1", "counts"), ("node", "n2", "counts"),
                          ("operator", "alice", "counts"), ("viewer", "bob", "counts")])
        self.assertIn("there is an authority", self.certs("init", code=3).stderr)
        self.certs("issue", "king", "x", "--out", self.path("x"), code=2)
        self.certs("issue", "node", "a/b", "--out", self.path("x"), code=2)
        self.certs("issue", "node", "n", "--out", self.path("alice"), code=3)

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("setpriv"), "root gives files to another user")
    def test_what_root_makes_the_aggregators_user_can_read(self):
        data = self.path("theirs")
        os.mkdir(data, 0o750)
        shutil.chown(data, "nobody", "nogroup")
        os.chmod(self.folder, 0o755)
        self.certs("init", data=data)
        self.certs("issue", "node", "n1", "--out", self.path("n1"), data=data)
        invite = self.certs("invite", "n2", data=data)
        self.certs("revoke", "node/n1", data=data)
        self.assertTrue(invite.stdout.startswith("rsi1."))
        for folder, _, files in os.walk(data):
            for name in (".", *files):
                self.assertEqual(os.stat(os.path.join(folder, name)).st_uid, 65534, os.path.join(folder, name))
        self.assertEqual(os.stat(self.path("n1") + "/tls.key").st_uid, 0)

    # ---- who may what

    def test_rights(self):
        self.ask("alice", "ranks", code=1)
        self.ask("bob", "capture", "list")
        self.ask("bob", "counters")
        for words, what in ((("capture", "--steps", "2"), "capture.start"),
                            (("capture", "stop", "20260102-030405-a1b2c3"), "capture.stop"),
                            (("fetch", "20260102-030405-a1b2c3"), "capture.fetch"), (("hang",), "hang")):
            said = self.ask("bob", *words, code=3).stderr
            self.assertIn("viewer/bob may not ask for this", said)
            self.wait_audit(who="viewer/bob", what=what, outcome="refused")
        self.ask("alice", "capture", "stop", "20260102-030405-a1b2c3", code=2)
        self.wait_audit(who="operator/alice", what="capture.stop", outcome="asked", subject="20260102-030405-a1b2c3")
        self.certs("issue", "node", "n1", "--out", self.path("n1"))
        self.assertIn("node/n1 may not", self.ask("n1", "ranks", code=3).stderr)
        self.assertGreaterEqual(self.count("server.forbidden"), 5)
        mode = os.stat(os.path.join(self.data, "audit.jsonl")).st_mode & 0o777
        self.assertEqual(mode & 0o037, 0)

    def test_a_node_speaks_for_itself_only(self):
        for node in ("n1", "n2"):
            self.certs("issue", "node", node, "--out", self.path(node))
        wrong = self.collector("n2", *FILES_ONLY, "--connect", self.address, "--node", "n1")
        self.wait_audit(who="node/n2", what="collector", subject="n1", outcome="refused")
        self.wait_for(lambda: "the certificate is of node n2" in self.log_of(wrong), "the collector is told")
        done = self.run_it("collector", "--spool", self.path("s"), *FILES_ONLY, "--connect", self.address, "--certs",
                           self.path("alice"), code=3)
        self.assertIn("needs one of a node", done.stderr)
        self.collector("n1", *FILES_ONLY, "--connect", self.address)
        self.wait_audit(who="node/n1", what="collector", subject="n1", outcome="asked")

    # ---- who is not believed

    def test_strangers(self):
        other = self.path("other")
        self.certs("init", data=other)
        self.certs("issue", "operator", "eve", "--out", self.path("eve"), data=other)
        said = self.ask("eve", "ranks", code=3).stderr
        self.assertIn("not of the authority in our ca.crt", said)
        self.assertIn("it may want certificates",
                      self.run_it("ranks", "--connect", self.address, "--insecure-loopback", code=4).stderr)
        self.assertIn("needs certificates", self.run_it("ranks", "--connect", self.address, code=3).stderr)
        self.assertIn("is not on this machine",
                      self.run_it("ranks", "--connect", "10.0.0.1:7070", "--insecure-loopback", code=3).stderr)
        self.assertIn("needs certificates",
                      self.run_it("ranks", "--connect", "agg.invalid:7070", code=3).stderr)
        before = self.count("tls.failed_handshakes")
        host, port = self.address.rsplit(":", 1)
        # with no certificate, with another authority's, and in plain text, past our own client
        for certificate in (None, self.path("eve")):
            context = ssl.create_default_context(cafile=os.path.join(self.data, "ca", "ca.crt"))
            if certificate:
                context.load_cert_chain(certificate + "/tls.crt", certificate + "/tls.key")
            context.set_alpn_protocols(["h2"])
            with socket.create_connection((host, int(port))) as plain, self.assertRaises((ssl.SSLError, ConnectionError)):
                with context.wrap_socket(plain, server_hostname=host) as link:
                    link.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
                    while link.recv(4096): # TLS 1.3: the refusal comes after the handshake
                        pass
                    raise ConnectionResetError("closed")
        with socket.create_connection((host, int(port))) as plain:
            plain.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0" * 64)
            plain.settimeout(30)
            try:
                while plain.recv(4096):
                    pass
            except ConnectionError:
                pass
        self.wait_for(lambda: self.count("tls.failed_handshakes") >= before + 3, "three failed handshakes counted")
        # a client's certificate is no aggregator's: nobody can stand in for one with it
        done = self.run_it("aggregator", "--data", self.path("d2"), "--certs", self.path("alice"), "--listen",
                           "127.0.0.1:0", code=3)
        self.assertIn("not of an aggregator", done.stderr)
        os.chmod(self.path("alice") + "/tls.key", 0o644)
        self.assertIn("may be read by others", self.ask("alice", "ranks", code=3).stderr)

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("setpriv"), "plays two users")
    def test_a_socket_that_somebody_else_put_there(self):
        """A user of no name asks by default in /tmp/rankscope-UID, which another one made first."""
        uid = 61000 + os.getpid() % 4000
        trap = f"/tmp/rankscope-{uid}"
        program = shutil.copy(PROGRAM, self.folder)
        os.chmod(self.folder, 0o755)
        os.mkdir(trap, 0o755)
        try:
            server = socket.socket(socket.AF_UNIX)
            server.bind(trap + "/aggregator.sock")
            os.chmod(trap + "/aggregator.sock", 0o777)
            server.listen()
            command = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", program, "ranks"]
            environment = {"PATH": os.environ["PATH"], "RANKSCOPE_CONFIG": "", "HOME": "/nonexistent"}
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
            if os.path.exists("/run/rankscope/aggregator.sock"):
                self.skipTest("an aggregator of the system runs here, and is preferred")
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn("is not believed", done.stderr)
            server.settimeout(0.2)
            with self.assertRaises(TimeoutError):  # it was not even spoken to
                server.accept()
            server.close()
        finally:
            shutil.rmtree(trap)

    def test_wrong_name(self):
        other = self.start("aggregator", "--data", self.path("d2"), "--certs", os.path.join(self.data, "certs"),
                           "--listen", "127.0.0.2:0")
        address = other.stdout.readline().split()[-1]
        self.assertIn("does not name that host",
                      self.run_it("ranks", "--connect", address, "--certs", self.path("alice"), code=3).stderr)

    def test_expired_and_revoked(self):
        self.certs("issue", "operator", "short", "--out", self.path("short"), "--valid", "3s")
        self.ask("short", "ranks", code=1)
        self.wait_for(lambda: "has expired" in subprocess.run(
            [PROGRAM, "ranks", "--connect", self.address, "--certs", self.path("short")], env=self.environment(),
            capture_output=True, text=True, check=False).stderr, "it expires")
        self.certs("issue", "node", "n1", "--out", self.path("n1"))
        collector = self.collector("n1", *FILES_ONLY, "--connect", self.address)
        self.wait_for(lambda: self.count("server.collectors") == 1, "the collector is there")
        self.certs("revoke", "node/n1")
        self.wait_for(lambda: "the certificate of node/n1 is revoked" in self.log_of(collector), "it is told")
        self.wait_for(lambda: self.count("server.collectors") == 0, "its link is closed")
        self.wait_audit(who="node/n1", what="stay", outcome="refused")
        self.wait_audit(what="connect", outcome="refused", why="the certificate of node/n1 is revoked")
        self.assertGreaterEqual(self.count("server.untrusted_links"), 1)
        self.certs("revoke", "operator/alice")
        self.assertIn("is revoked", self.ask("alice", "ranks", code=3).stderr)
        self.certs("revoke", "operator/alice", code=2)
        self.assertEqual({item["name"] for item in json.loads(self.certs("show", "--json").stdout)
                          if item["state"] == "revoked"}, {"n1", "alice"})

    # ---- joining and renewing

    def invite(self, node, *words):
        with open(self.path("invite-" + node), "w", encoding="ascii") as file:
            file.write(self.certs("invite", node, *words).stdout)
        return self.path("invite-" + node)

    def test_join(self):
        invite = self.invite("n1")
        words = ("--join", self.join, "--invite", invite, *FILES_ONLY)
        first = self.collector("n1", *words, "--node", "n1")
        self.wait_for(lambda: self.count("server.collectors") == 1, "it joined, and sends")
        with open(self.path("n1") + "/aggregator", encoding="ascii") as file:
            self.assertEqual(file.read(), self.address)
        self.wait_audit(who="guest", what="join", subject="n1", outcome="asked")
        first.terminate()
        self.assertEqual(first.wait(120), 0)
        self.collector("n1", *words)  # as a service is started again: it has joined already
        self.wait_for(lambda: self.count("server.collectors") == 1, "it is back")
        for node, text in (("n1", "there is no such invite"), ("n2", "there is no such invite")):
            done = self.run_it("collector", "--spool", self.path("s"), "--certs", self.path("again"), *words, "--node",
                               node, code=3)
            self.assertIn(text, done.stderr)
        self.assertFalse(os.path.exists(self.path("again") + "/tls.crt"))
        done = self.run_it("collector", "--spool", self.path("s"), "--certs", self.path("again"), "--join", self.join,
                           "--invite", self.invite("n3"), *FILES_ONLY, "--node", "n4", code=3)
        self.assertIn("for another node", done.stderr)
        invite = self.invite("n5", "--valid", "1s")
        time.sleep(1.1)
        done = self.run_it("collector", "--spool", self.path("s"), "--certs", self.path("again"), "--join", self.join,
                           "--invite", invite, *FILES_ONLY, "--node", "n5", code=3)
        self.assertIn("the invite is over", done.stderr)
        # who joins believes the authority of the invite and no other
        other = self.path("other")
        self.certs("init", data=other)
        foreign = self.certs("invite", "n6", data=other).stdout.strip()
        done = self.run_it("collector", "--spool", self.path("s"), "--certs", self.path("again"), "--join", self.join,
                           "--invite", foreign, *FILES_ONLY, "--node", "n6", code=3)
        self.assertIn("is not believed", done.stderr)
        # a guest may do nothing else there
        self.assertIn("guest may not", self.run_as_guest())

    def run_as_guest(self):
        """`ranks` at the address to join: our client shows a certificate where none is wanted."""
        return self.run_it("ranks", "--connect", self.join, "--certs", self.path("alice"), code=3).stderr

    def test_renew(self):
        def serial(who):
            return self.certificate(who)["serial"]
        before = serial("bob")
        self.certs_renew("bob", "--connect", self.address)
        self.assertNotEqual(serial("bob"), before)
        self.ask("bob", "capture", "list")
        before = serial("alice")
        self.certs("renew", self.path("alice"))
        self.assertNotEqual(serial("alice"), before)
        self.ask("alice", "ranks", code=1)
        # a collector does it by itself, and its link lives on over the end of the certificate that it began with
        self.certs("issue", "node", "n1", "--out", self.path("n1"), "--valid", "30s")
        before, first = serial("n1"), self.certificate("n1")
        collector = self.collector("n1", *FILES_ONLY, "--connect", self.address)
        self.wait_for(lambda: self.count("server.collectors") == 1, "the collector is there")
        self.wait_for(lambda: serial("n1") != before, "it renews its certificate")
        self.wait_for(lambda: "was renewed" in self.log_of(collector), "and says so")
        self.wait_audit(who="node/n1", what="renew", outcome="asked")
        second = self.certificate("n1")
        self.assertEqual(second["expires_ns"] - second["begins_ns"], first["expires_ns"] - first["begins_ns"])
        self.assertGreaterEqual(second["begins_ns"] - first["begins_ns"], 20 * 10**9)  # not before a third is left
        self.certs("renew", os.path.join(self.data, "certs"), "--host", "127.0.0.2")
        self.run_it("ranks", "--connect", self.address, "--certs", self.path("alice"), code=1)
        self.wait_for(lambda: "the certificates changed: new" in self.log_of(self.aggregator), "the aggregator reads it")
        # what cannot be used is said, without anybody asking for it, and the old ones count
        with open(os.path.join(self.data, "certs", "tls.crt"), "w", encoding="ascii") as file:
            file.write("nothing\n")
        self.wait_for(lambda: "cannot be used, the old ones are" in self.log_of(self.aggregator), "it says so")
        self.ask("bob", "capture", "list")

    def certificate(self, who):
        return json.loads(self.run_it("certs", "show", self.path(who), "--json").stdout)[0]

    def certs_renew(self, who, *words):
        self.run_it("certs", "renew", self.path(who), *words)


if __name__ == "__main__":
    unittest_run.main()
