#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Webhooks: who is told what, signed, tried again when it fails and not when it is refused; the aggregator waits for none of it."""
import hashlib
import hmac
import http.server
import json
import os
import subprocess
import threading
import time
import unittest

import unittest_run

from rig_native import PROGRAM, Rig, kill
from test_analyse import write_traces

SECRET = b"a secret of enough bytes"


class Receiver(http.server.ThreadingHTTPServer):
    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.taken, self.tries, self.lock = [], {}, threading.Lock()
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with self.server.lock:
            tries = self.server.tries[self.path] = self.server.tries.get(self.path, 0) + 1
            code = {"/flaky": 500 if tries < 3 else 204, "/refused": 404}.get(self.path, 200)
            if code < 300:
                self.server.taken.append((self.path, dict(self.headers), body))
        self.send_response(code)
        self.send_header("Location", self.server.url + "/elsewhere")
        self.end_headers()

    def log_message(self, *_):
        pass


class Webhook(unittest.TestCase):
    def wait_for(self, is_it, what, seconds=300):
        until = time.monotonic() + seconds
        while not is_it():
            self.assertLess(time.monotonic(), until, "never: " + what)
            time.sleep(0.1)

    def check(self, headers, body):
        signed = hmac.new(SECRET, headers["X-Rankscope-Timestamp"].encode() + b"." + body, hashlib.sha256).hexdigest()
        self.assertEqual(headers["X-Rankscope-Signature"], "sha256=" + signed)
        self.assertLess(abs(time.time() - int(headers["X-Rankscope-Timestamp"])), 120)
        event = json.loads(body)
        self.assertEqual(headers["X-Rankscope-Event"], event["event"])
        return event

    def rig(self, receiver, **how):
        rig = Rig(nodes=0 if how.get("world") == 0 else 1, step_ms=50, aggregator_words=[
            "--webhook", receiver.url + "/flaky", "--webhook", receiver.url + "/refused", "--webhook-slack", receiver.url + "/slack",
            "--webhook", "http://127.0.0.1:9/nobody-is-there", "--webhook-secret", ""], **how)
        with open(os.path.join(rig.folder, "secret"), "wb") as file:
            file.write(SECRET + b"\n")
        rig.aggregator_words[-1] = os.path.join(rig.folder, "secret")
        return rig

    def test_a_culprit(self):
        receiver = Receiver()
        with self.rig(receiver, world=0) as rig:
            write_traces(os.path.join(rig.folder, "traces"))  # of a job whose rank 2 is late
            rig.collectors = [None]
            rig.start_collector(0, "--watch", os.path.join(rig.folder, "traces"), "--no-native", "--settle", "300ms")
            self.wait_for(lambda: len(receiver.taken) == 2, "both were told")
            by_path = {path: (headers, body) for path, headers, body in receiver.taken}
            event = self.check(*by_path["/flaky"])
            capture = rig.captures()[-1]
            self.assertEqual((event["event"], event["run"], event["capture"], event["state"]),
                             ("culprit_found", capture["run"], capture["id"], "complete"))
            self.assertIn("Rank 2 ", event["text"])
            self.assertEqual(json.loads(by_path["/slack"][1]), {"text": event["text"]})
            self.assertNotIn("X-Rankscope-Signature", by_path["/slack"][0])
            self.assertEqual(receiver.tries, {"/flaky": 3, "/refused": 1, "/slack": 1})  # and no redirect was followed
            rig.aggregator.terminate()
            self.assertEqual(rig.aggregator.wait(120), 0)  # what waits for nobody does not hold the end up
            said = rig.log_text("aggregator")
            self.assertIn("was not told to 127.0.0.1", said)
            self.assertNotIn("/refused", said)  # whoever knows a webhook's URL may post there
        receiver.shutdown()

    def test_a_capture_that_fails(self):
        receiver = Receiver()
        with self.rig(receiver, world=2) as rig:
            rig.wait_ranks(2)
            capture = rig.capture("--steps", "5000", "--force", "--no-report")
            self.wait_for(lambda: any(c["state"] == "recording" for c in rig.captures()), "it records")
            for pid in rig.pids:
                kill(pid)
            self.assertNotEqual(capture.end()[0], 0)
            self.wait_for(lambda: any(path == "/flaky" for path, _, _ in receiver.taken), "it was told")
            event = next(self.check(headers, body) for path, headers, body in receiver.taken if path == "/flaky")
            self.assertEqual((event["event"], event["capture"]), ("capture_failed", rig.captures()[-1]["id"]))
            self.assertIn(event["state"], ("partial", "failed"))
        receiver.shutdown()

    def test_what_cannot_be(self):
        with Rig(world=0, nodes=0, step_ms=50) as rig:
            secret = os.path.join(rig.folder, "secret")
            with open(secret, "w", encoding="utf-8") as file:
                file.write("short\n")
            for words in (["--webhook", "http://"], ["--webhook", "https://a b/"], ["--webhook", "ftp://x/"], ["--webhook", "/etc/passwd"],
                          ["--webhook", "https://x/", "--webhook-secret", secret],
                          ["--webhook", "https://x/", "--webhook-secret", secret + "-not-there"]):
                done = subprocess.run([PROGRAM, "aggregator", "--data", rig.folder + "/2", "--listen", f"unix:{rig.folder}/2.sock", *words],
                                      capture_output=True, text=True, timeout=120, check=False)
                self.assertEqual(done.returncode, 2, (words, done.stderr))
                self.assertTrue(done.stderr.strip())


class Missing(unittest.TestCase):
    def test_ranks_that_are_missing_are_told_once(self):
        """Two of six ranks are killed; the others go on. A run that ends as a whole is no news."""
        receiver = Receiver()
        with Rig(world=6, nodes=2, step_ms=50, aggregator_words=["--webhook", receiver.url + "/told", "--missing-after", "2s"]) as rig:
            rig.wait_ranks(6)
            time.sleep(2)  # a look or two at them all
            kill(rig.pids[1])
            kill(rig.pids[4])
            until = time.monotonic() + 60
            while not receiver.taken and time.monotonic() < until:
                time.sleep(0.1)
            for pid in (rig.pids[i] for i in (0, 2, 3, 5)):
                kill(pid)
            while any(rank["state"] != "gone" for rank in rig.ranks()):
                time.sleep(0.1)
            time.sleep(4)  # nothing is to come: longer than --missing-after
            events = [json.loads(body) for _, _, body in receiver.taken]
            self.assertEqual([(e["event"], e["run"], e["capture"], e["state"]) for e in events], [("rank_missing", "thousand", None, None)])
            self.assertEqual(events[0]["text"], "Run thousand: 2 of 6 ranks are missing: 1, 4; the others are there")
        receiver.shutdown()
        receiver.server_close()


if __name__ == "__main__":
    unittest_run.main()
