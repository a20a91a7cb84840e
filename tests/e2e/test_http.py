#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The HTTP API as a user of curl meets it: real daemons, real certificates and tokens, a job of native ranks with a slow one.

What comes over HTTP must be what the command line prints; who may not ask is told so, counted, and in the audit log.
"""
import collections
import fcntl
import hashlib
import http.client
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import sqlite3
import ssl
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
import unittest
import urllib.parse
import zlib

import unittest_run

from rig_native import PROGRAM, Rig

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CURL = ["curl", "--silent", "--show-error", "--max-time", "120"]


class Answer:
    """One request by curl: status, headers, body."""

    def __init__(self, *words):
        done = subprocess.run([*CURL, "--include", *words], capture_output=True, check=False)
        self.code, self.error = done.returncode, done.stderr.decode()
        head, _, self.body = done.stdout.partition(b"\r\n\r\n")
        while head.startswith(b"HTTP/1.1 100"):
            head, _, self.body = self.body.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        self.status = int(lines[0].split()[1]) if self.code == 0 else 0
        self.headers = {key.lower(): value for key, _, value in (line.partition(": ") for line in lines[1:])}

    def json(self):
        return json.loads(self.body)


def cli(rig, *words, code=0):
    done = subprocess.run([PROGRAM, *words, "--connect", rig.address], capture_output=True, check=False)
    assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    return done.stdout


def cli_capture(rig, *words):
    """`rankscope capture` of all ranks. On a loaded machine a rank can be told too late; that is said, and it is asked again."""
    for _ in range(4):
        done = subprocess.run([PROGRAM, "capture", *words, "--connect", rig.address], capture_output=True, check=False)
        if done.returncode != 1 or b"told too late" not in done.stderr:
            break
    assert done.returncode == 0, (words, done.returncode, done.stdout, done.stderr)
    return done.stdout


def wait_for(is_it, what, seconds=300):
    until = time.monotonic() + seconds
    while not is_it():
        assert time.monotonic() < until, "never: " + what
        time.sleep(0.1)


class HttpRig(Rig):
    """A rig whose aggregator serves HTTPS, too."""

    def __enter__(self):
        self.data = os.path.join(self.folder, "data")
        self.certs("init")
        for party, name in (("viewer", "bob"), ("operator", "alice")):
            self.certs("issue", party, name, "--out", os.path.join(self.folder, name))
        self.ca = os.path.join(self.data, "ca", "ca.crt")
        return super().__enter__()

    def certs(self, *words):
        subprocess.run([PROGRAM, "certs", *words, "--data", self.data], check=True, capture_output=True)

    def token(self, *words):
        done = subprocess.run([PROGRAM, "token", "new", *words, "--data", self.data], check=True, capture_output=True,
                              text=True)
        return done.stdout.strip()

    def start_aggregator(self):
        super().start_aggregator()
        self.url = self.aggregator.stdout.readline().decode().split()[-1].replace("127.0.0.1", "localhost")
        self.port = int(self.url.rsplit(":", 1)[1])

    def start_collector(self, node, *words):
        """Each serves what it counts itself: the first over HTTPS, the others as plain text."""
        served = ["--metrics-insecure-loopback"]
        if node == 0:
            folder = os.path.join(self.folder, "serves")
            self.certs("issue", "node", "n0", "--host", "localhost", "--out", folder)
            served = ["--metrics-certs", folder]
        super().start_collector(node, "--metrics", "localhost:0", *served, *words)

    def metrics_of(self, node):
        """Where a collector serves what it counts."""
        found = []
        wait_for(lambda: found.extend(re.findall(r"https?://\S+/metrics", self.log_text(f"collector{node}"))) or found, "it serves")
        return found[0]

    def ask_http(self, path, *words, token=None, cert=None):
        who = []
        if token:
            who += ["--header", "Authorization: Bearer " + token]
        if cert:
            folder = os.path.join(self.folder, cert)
            who += ["--cert", folder + "/tls.crt", "--key", folder + "/tls.key"]
        return Answer("--cacert", self.ca, *who, *words, path if path.startswith("http") else self.url + path)

    def audit(self):
        with open(os.path.join(self.data, "audit.jsonl"), encoding="utf-8") as file:
            return [json.loads(line) for line in file]


class Http(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.rig = HttpRig(world=4, nodes=2, step_ms=100, run="demo", rank_words=["--slow-rank", "2"],
                          aggregator_words=["--http", "127.0.0.1:0"])
        cls.rig.__enter__()
        try:
            cls.rig.wait_ranks(4)
            cls.operator = cls.rig.token("carol", "--operator")
            cls.viewer = cls.rig.token("dave")
            cls.capture = cls.record_named()
        except BaseException:
            cls.rig.__exit__(*sys.exc_info())
            raise

    @classmethod
    def tearDownClass(cls):
        cls.rig.__exit__(None, None, None)

    @classmethod
    def record(cls, **members):
        """A whole capture. On a loaded machine a rank can be told too late; that is said, and it is asked again."""
        for _ in range(5):
            last = cls.record_once(**members)
            if last["state"] != "partial" or "told too late" not in json.dumps(last["ranks"]):
                break
            cli(cls.rig, "rm", last["id"])
        assert last["state"] == "complete", last
        return last["id"]

    @classmethod
    def record_once(cls, **members):
        """A capture over HTTP, followed to its end by server-sent events; what was said last."""
        body = {"schedule": {"active": 20}, **members}
        started = cls.rig.ask_http("/api/v1/captures", "--json", json.dumps(body), token=cls.operator)
        assert started.status == 201, (started.status, started.body)
        where = started.headers["location"]
        told = cls.rig.ask_http(where + "/progress", "--no-buffer", token=cls.operator)
        assert told.headers["content-type"] == "text/event-stream", told.headers
        events = [dict(line.partition(": ")[::2] for line in event.split("\n"))
                  for event in told.body.decode().strip().split("\n\n") if not event.startswith(":")]
        assert events[-1]["event"] == "closed", events[-1]
        assert all(event["event"] == "capture" for event in events[:-1]), events
        last = json.loads(events[-1]["data"])
        assert where == "/api/v1/captures/" + last["id"]
        return last

    @classmethod
    def record_named(cls):
        """A capture whose report names the slow rank: on a crowded machine one may say instead that it takes more steps to tell."""
        for _ in range(5):
            capture = cls.record()
            findings = json.loads(cli(cls.rig, "report", capture, "--json"))["findings"]
            if findings and findings[0]["confidence"] != "weak":
                return capture
            cli(cls.rig, "rm", capture)
        raise AssertionError(f"nobody is named in five captures: {findings}")

    def get(self, path, *words, status=200, token=None):
        answer = self.rig.ask_http(path, *words, token=token or self.viewer)
        self.assertEqual(answer.status, status, (path, answer.error, answer.body[:500]))
        return answer

    def of_capture(self, path, *words, **how):
        return self.get(f"/api/v1/captures/{self.capture}{path}", *words, **how)

    # ---- what is answered

    def test_it_says_what_the_command_line_says(self):
        self.assertEqual(self.of_capture("").json(), json.loads(cli(self.rig, "capture", "show", self.capture, "--json")))
        self.assertEqual(self.get("/api/v1/captures").json(), json.loads(cli(self.rig, "capture", "list", "--json")))
        whole = self.get("/api/v1/captures").json()["captures"]
        self.assertEqual([(one["rank_count"], len(one["ranks"])) for one in whole], [(4, 4)] * len(whole))
        heads = self.get("/api/v1/captures?ranks=false").json()["captures"]
        self.assertEqual([{**one, "ranks": None} for one in whole], heads)
        self.assertEqual(self.get("/api/v1/captures?limit=1").json()["captures"], whole[-1:])
        self.assertEqual(self.get("/api/v1/captures?limit=0").json()["captures"], [])
        self.assertEqual(self.get(f"/api/v1/captures?before={whole[-1]['id']}&ranks=0").json()["captures"], heads[:-1])
        self.assertEqual(self.get("/api/v1/captures?state=failed").json()["captures"], [one for one in whole if one["state"] == "failed"])
        self.get("/api/v1/captures?ranks=some", status=400)
        over_http, printed = (
            [(rank["run"], rank["rank"], rank["kind"], rank["node"], rank["pid"]) for rank in table["ranks"]]
            for table in (self.get("/api/v1/ranks?run=demo").json(), json.loads(cli(self.rig, "ranks", "--json"))))
        self.assertEqual(over_http, printed)
        self.assertEqual(len(printed), 4)
        for read in ("finding", "op", "op_member", "step_device", "kernel", "link", "clock", "coverage", "collectives"):
            printed = json.loads(cli(self.rig, "table", self.capture, read, "--json"))
            table = self.of_capture("/" + read).json()
            self.assertEqual(table["rows"], printed["rows"], read)
            self.assertIsNone(table["cursor"])
            self.assertEqual(self.of_capture(f"/{read}?format=csv").body, cli(self.rig, "table", self.capture, read))
        self.assertEqual(self.of_capture("/steps").json(), self.of_capture("/step_device").json())
        report = self.of_capture("/report?format=json").json()
        self.assertEqual(report, json.loads(cli(self.rig, "report", self.capture, "--json")))
        self.assertEqual(report, self.of_capture("/report", "--header", "Accept: application/json").json())
        self.assertEqual((report["coverage"]["ranks_seen"], report["coverage"]["steps"]), (4, 20))
        # --assume-common-clock
        asks, option = "assume_common_clock=true", "--assume-common-clock"
        common = self.of_capture("/report?format=json&" + asks).json()
        self.assertEqual(common, json.loads(cli(self.rig, "report", self.capture, "--json", option)))
        self.assertNotEqual(common["coverage"]["clock"], report["coverage"]["clock"])
        clocks = self.of_capture("/clock?" + asks).json()["rows"]
        self.assertEqual(clocks, json.loads(cli(self.rig, "table", self.capture, "clock", "--json", option))["rows"])
        self.assertNotEqual(clocks, self.of_capture("/clock").json()["rows"])
        sql = "SELECT * FROM clock"
        asked = self.of_capture(f"/query?sql={urllib.parse.quote(sql)}&{asks}").json()
        self.assertEqual(asked, self.of_capture("/query", "--json", json.dumps({"sql": sql, "assume_common_clock": True})).json())
        self.assertNotEqual(asked["rows"], self.of_capture("/query?sql=" + urllib.parse.quote(sql)).json()["rows"])
        self.assertTrue(self.of_capture("/files?" + asks).json()["files"])
        self.of_capture("/report?assume_common_clock=maybe", status=400)

    def test_runs(self):
        run, = self.get("/api/v1/runs").json()["runs"]
        self.assertEqual((run["run"], run["ranks"], run["world"], run["nodes"], run["gone"]), ("demo", 4, 4, 2, 0))
        self.assertGreater(run["last_step"], 2)
        self.assertGreaterEqual(run["last_step"], run["first_step"])
        self.assertGreater(run["step_duration_median_ns"], 0)
        self.assertGreaterEqual(run["step_duration_max_ns"], run["step_duration_median_ns"])

    def test_ranks_as_they_change(self):
        token = self.rig.token("gina")
        command = [*CURL, "--no-buffer", "--cacert", self.rig.ca, "--header", "Authorization: Bearer " + token,
                   self.rig.url + "/api/v1/ranks/stream?run=demo"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            events = []
            for line in process.stdout:
                key, _, value = line.strip().partition(": ")
                if key == "event":
                    events.append(value)
                if key == "data":
                    ranks = json.loads(value)["ranks"]
                    if len(events) == 1:
                        self.assertEqual([rank["rank"] for rank in ranks], [0, 1, 2, 3])
                        first = max(rank["step"] for rank in ranks)
                    self.assertTrue(all(rank["run"] == "demo" for rank in ranks))
                if len(events) == 3:
                    break
            self.assertEqual(events, ["ranks", "changed", "changed"])
            self.assertGreater(max(rank["step"] for rank in ranks), first)
            subprocess.run([PROGRAM, "token", "revoke", "viewer/gina", "--data", self.rig.data], check=True, capture_output=True)
            process.stdout.read()  # it is ended, not left open
            self.assertIn(process.wait(120), (18, 56), "the stream of a revoked token goes on")

    @staticmethod
    def foremost(line):
        return max(rank["step"] for rank in json.loads(line)["ranks"])

    def test_ranks_watch(self):
        """The command line's own: a line of JSON a look, or a table that fits the terminal and is drawn over."""
        command = [PROGRAM, "ranks", "--watch", "--interval", "100ms", "--run", "demo", "--connect", self.rig.address]
        with subprocess.Popen([*command, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            self.addCleanup(process.kill)
            lines, until = [], time.monotonic() + 60
            while len(set(self.foremost(line) for line in lines)) < 3 and time.monotonic() < until:
                lines.append(process.stdout.readline())
            process.send_signal(signal.SIGINT)
            rest, said = process.communicate(timeout=120)
        self.assertEqual((process.returncode, said), (130, ""))
        steps = [self.foremost(line) for line in [*lines, *rest.splitlines()]]
        self.assertEqual(steps, sorted(steps))
        self.assertGreater(steps[-1], steps[0])
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 7, 120, 0, 0))
        process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True)
        self.addCleanup(process.kill)
        os.close(theirs)
        shown = b""
        until = time.monotonic() + 60
        while shown.count(b"\x1b[H\x1b[J") < 4 and time.monotonic() < until:
            if select.select([ours], [], [], 1)[0]:
                shown += os.read(ours, 65536)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(120), 130, shown[-500:])
        os.close(ours)
        screen = shown.split(b"\x1b[H\x1b[J")[2].decode()
        self.assertIn("RUN", screen)
        self.assertEqual(screen.count("demo"), 3, screen)  # 7 lines: a head, three rows, what is left out
        self.assertIn("... and 1 more; --ranks slowest=3", screen)
        for words in (["--watch", "--quiet"], ["--watch", "--interval", "1ms"]):
            self.assertEqual(subprocess.run([PROGRAM, "ranks", *words], capture_output=True, check=False).returncode, 2)

    def test_files(self):
        listed = self.of_capture("/files").json()
        self.assertIn("manifest.json", [file["name"] for file in listed["files"]])
        for file in listed["files"]:
            sent = self.of_capture("/files/" + file["name"])
            self.assertEqual(len(sent.body), file["bytes"], file)
            self.assertEqual(hashlib.sha256(sent.body).hexdigest(), file["sha256"], file)
            again = self.of_capture("/files/" + file["name"], "--header", f"If-None-Match: {sent.headers['etag']}", status=304)
            self.assertEqual(again.body, b"")
        html = self.of_capture("/report")
        self.assertTrue(html.headers["content-type"].startswith("text/html"))
        self.assertEqual(html.body, self.of_capture("/files/report.html").body)
        self.assertIn(b"Rankscope: 4 of 4 ranks, 20 steps", html.body)
        # It may run the one script that it brings along, apart from everything else here; a table runs none.
        inside = re.search(rb"script-src 'sha256-[^']+'", html.body[:1000])
        policy = html.headers["content-security-policy"]
        self.assertIn("sandbox allow-scripts" if inside else "; sandbox", policy)
        self.assertEqual(re.findall("script-src '[^']+'", policy), [inside[0].decode()] if inside else [])
        self.assertTrue(self.of_capture("/files/report.md").headers["content-security-policy"].endswith("; sandbox"))
        self.assertEqual(self.of_capture("/report?format=md").body, self.of_capture("/files/report.md").body)
        self.assertIn(b"Rankscope: 4 of 4 ranks, 20 steps", self.of_capture("/report?format=text").body)
        raw = self.of_capture("/files?raw=true").json()["files"]
        segment = next(file for file in raw if file["name"].startswith("segments/"))
        self.assertEqual(len(self.of_capture(f"/files/{segment['name']}?raw=true").body), segment["bytes"])
        for name in ("nothing", "../../catalogue.db", "..%2f..%2fcatalogue.db", "%00", "/etc/passwd", "a" * 3000):
            answer = self.rig.ask_http(f"/api/v1/captures/{self.capture}/files/{name}", "--path-as-is", token=self.viewer)
            self.assertIn(answer.status, (400, 404), name)

    def test_rows_and_columns_that_are_chosen(self):
        members = self.of_capture("/op_member").json()["rows"]
        step = members[len(members) // 2]["step"]
        wanted = [{"rank": row["rank"], "op": row["op"], "wait_ns": row["wait_ns"]}
                  for row in members if row["step"] == step and row["rank"] in (0, 2)]
        self.assertGreater(len(wanted), 1)
        choice = f"/op_member?step={step}&ranks=0,2,900&columns=rank,op,wait_ns"
        self.assertEqual(self.of_capture(choice).json()["rows"], wanted)
        head, *lines = self.of_capture(choice + "&format=csv").body.decode().split("\n")
        self.assertEqual((head, len(lines)), ("rank,op,wait_ns", len(wanted) + 1))
        # A cursor is of its choice.
        first = self.of_capture(choice + "&limit=1").json()
        rest = self.of_capture(choice + "&cursor=" + first["cursor"]).json()
        self.assertEqual(first["rows"] + rest["rows"], wanted)
        self.of_capture(f"/op_member?step={step}&cursor={first['cursor']}", status=404)
        for wrong in ("/finding?step=1", "/links?ranks=0", "/collectives?step=1", "/steps?columns=", "/steps?columns=rank,nothing",
                      "/steps?columns=" + ",".join(["rank"] * 40), "/steps?step=x", "/steps?step=1,", "/steps?step=1;2",
                      "/steps?step=99999999999999999999", "/steps?ranks=all", "/steps?ranks=dp%3D0", "/steps?ranks=0-5000",
                      "/steps?ranks=4294967295", "/steps?ranks="):
            self.of_capture(wrong, status=400)

    def test_history(self):
        """Rows over all captures: as the command line has them; made again where they are lost; page by page."""
        def history(view, query="", status=200):
            answer = self.rig.ask_http(f"/api/v1/history/{view}{query}", token=self.viewer)
            self.assertEqual(answer.status, status, answer.body)
            return answer

        def history_of_cli(*words):  # other cases may have left captures without a rank that can be read: exit 1
            done = subprocess.run([PROGRAM, "history", *words, "--connect", self.rig.address], capture_output=True, check=False)
            self.assertIn(done.returncode, (0, 1), done.stderr)
            return done.stdout

        row = next(row for row in history("captures").json()["rows"] if row["capture"] == self.capture)
        self.assertEqual((row["run"], row["rows"], row["ranks"], row["kind"], row["named"]), ("demo", "here", 4, "slow_rank", "rank 2"))
        report = json.loads(cli(self.rig, "report", self.capture, "--json"))
        self.assertEqual((row["step_ns"], row["cost_ns_per_step"]),
                         (report["mean_step_ns"], report["findings"][0]["cost_ns_per_step"]))
        ranks = [row for row in history("ranks", "?ranks=1-2").json()["rows"] if row["capture"] == self.capture]
        self.assertEqual([(row["rank"], row["findings"]) for row in ranks], [(1, 0), (2, 1)])
        self.assertGreater(ranks[1]["computing_ns"], ranks[0]["computing_ns"])
        host = ranks[0]["host"]
        of_host = history("hosts", f"?hosts={host},nowhere&run=demo").json()["rows"]
        self.assertEqual([(row["host"], row["runs"], row["runs_named"]) for row in of_host], [(host, 1, 1)])
        self.assertIn(f"host {host} was named in 1 of 1 run (", history_of_cli("--run", "demo").decode())
        # Rows that are not there any more are made again, and are the same.
        before = history("findings", "?format=csv").body
        self.assertIn(self.capture.encode(), before)
        folder = os.path.join(self.rig.data, "captures", self.capture)
        os.unlink(os.path.join(folder, "rows.db"))
        self.assertEqual(history_of_cli("findings"), before)
        self.assertTrue(os.path.exists(os.path.join(folder, "rows.db")))
        self.assertFalse(os.path.exists(os.path.join(folder, ".rows")))
        # Pages.
        pages, cursor = [], ""
        while cursor is not None:
            page = history("ranks", f"?run=demo&limit=3&cursor={urllib.parse.quote(cursor)}").json()
            pages += page["rows"]
            cursor = page["cursor"]
        self.assertEqual(pages, history("ranks", "?run=demo").json()["rows"])
        history("ranks", "?limit=3&cursor=0000000000000001.0.3", 404)
        self.damaged_behind_others(history)
        # Rows that cannot be read are like rows that lack: the others do not fail with them, and it is said.
        rows = os.path.join(folder, "rows.db")
        os.rename(rows, rows + ".aside")
        whole = sqlite3.connect(rows + ".aside")
        page_bytes = whole.execute("PRAGMA page_size").fetchone()[0]
        page = whole.execute("SELECT rootpage FROM sqlite_master WHERE type = 'table' AND name = 'finding'").fetchone()[0]
        whole.close()
        shutil.copy(rows + ".aside", rows)
        with open(rows, "r+b") as file:
            file.seek((page - 1) * page_bytes)
            file.write(b"\xff" * page_bytes)
        done = subprocess.run([PROGRAM, "history", "captures", "--json", "--connect", self.rig.address], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(next(row["rows"] for row in json.loads(done.stdout)["rows"] if row["capture"] == self.capture), "failed")
        self.assertIn(f"capture {self.capture} is not in it: ", done.stderr)
        told = subprocess.run([PROGRAM, "history", "--run", "demo", "--connect", self.rig.address], capture_output=True, text=True, check=False)
        self.assertEqual((told.returncode, told.stderr.count(f"capture {self.capture} is not in it: ")), (1, 1), told.stderr)
        with open("/dev/full", "w", encoding="utf-8") as full:
            told = subprocess.run([PROGRAM, "history", "--connect", self.rig.address], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        self.assertIn("cannot print the history", told.stderr)
        # A cursor is of the rows that were there: it counts no more when some went that cannot be made again.
        first = f"?limit=1&cursor={urllib.parse.quote(history('captures', '?limit=1').json()['cursor'])}"
        history("captures", first)
        os.unlink(rows)
        os.mkdir(rows)
        self.assertIn("read again", history("captures", first, 404).json()["detail"])
        os.rmdir(rows)
        os.rename(rows + ".aside", rows)
        self.assertEqual(history_of_cli("findings"), before)
        history("nothing", "", 404)
        history("hosts", "?ranks=1", 400)
        self.assertTrue(history_of_cli("--host", "nowhere").startswith(b"there is no closed capture of these"))
        done = subprocess.run([PROGRAM, "history", "--host", "", "--connect", self.rig.address], capture_output=True, text=True, check=False)
        self.assertIn("empty name", done.stderr)
        self.assertEqual(history("captures", "?since_ns=9000000000000000000").json()["rows"], [])

    def damaged_behind_others(self, history):
        """Rows of the newest capture are damaged, which is seen when those before it were sent: the answer says so, and so does the command line's."""
        newest = self.record()
        self.assertFalse(history("captures", "?run=demo").json()["is_partial"])
        rows = os.path.join(self.rig.data, "captures", newest, "rows.db")
        whole = sqlite3.connect(rows)
        page_bytes = whole.execute("PRAGMA page_size").fetchone()[0]
        page = whole.execute("SELECT rootpage FROM sqlite_master WHERE type = 'table' AND name = 'finding'").fetchone()[0]
        whole.close()
        with open(rows, "r+b") as file:
            file.seek((page - 1) * page_bytes)
            file.write(b"\xff" * page_bytes)
        answer = history("captures", "?run=demo").json()
        self.assertEqual([row["rows"] for row in answer["rows"]], ["here"] * (len(answer["rows"]) - 1) + ["failed"])
        self.assertTrue(answer["is_partial"])
        self.assertRegex(answer["notes"][-1], f"^capture {newest} is not in it: ")
        done = subprocess.run([PROGRAM, "history", "captures", "--run", "demo", "--json", "--connect", self.rig.address], capture_output=True, check=False)
        self.assertEqual((done.returncode, json.loads(done.stdout)["is_partial"]), (1, True))
        cli(self.rig, "rm", newest)

    def test_wrong_tokens(self):
        """Many wrong tokens of one address are told to wait, and do not fill the audit log; a right one from there is taken."""
        # A name that no other case asks for: what is written down of others may come late.
        where = "/api/v1/captures/20010101-000000-abcdef"
        statuses = [self.rig.ask_http(where, token="rst1." + 64 * "0").status for _ in range(40)]
        self.assertEqual(statuses[0], 401)
        self.assertIn(429, statuses)
        self.assertGreaterEqual(statuses.index(429), 10)  # some were used up by other cases
        late = self.rig.ask_http(where, token="rst1." + 64 * "1")
        self.assertIn(late.status, (401, 429))
        self.assertEqual(self.rig.ask_http("/api/v1/runs", token=self.viewer).status, 200)
        text = self.rig.ask_http("/metrics", token=self.viewer).body.decode()
        self.assertRegex(text, r'rankscope_http_wrong_tokens_total\{daemon="aggregator"[^}]*\} [1-9]')
        lines = [line for line in self.rig.audit() if line["what"] == "http" and line["subject"] == where]
        self.assertLessEqual(len(lines), statuses.count(401) + (late.status == 401), (statuses, lines))

    def test_queries(self):
        """A SELECT of one's own gives what the tables give; it changes nothing, and ends."""
        def query(sql, status=200, more=""):
            return self.of_capture("/query?sql=" + urllib.parse.quote(sql) + more, status=status)

        members = self.of_capture("/op_member").json()["rows"]
        waited = collections.Counter()
        for row in members:
            waited[row["rank"]] += row["wait_ns"] or 0
        answer = query("SELECT rank, sum(wait_ns) AS waited FROM op_member GROUP BY rank ORDER BY 1").json()
        self.assertEqual((answer["columns"], answer["is_cut"], answer["is_partial"]), (["rank", "waited"], False, False))
        self.assertEqual(dict(answer["rows"]), dict(waited))
        some = query("SELECT rank, start_ns FROM op_member ORDER BY start_ns", more="&limit=3").json()
        self.assertEqual((len(some["rows"]), some["is_cut"]), (3, True))
        endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT "
        self.assertEqual(len(query(endless + "i FROM n").json()["rows"]), 10000)
        self.assertIn("longer than 5 s", query(endless + "sum(i) FROM n", status=504).json()["detail"])
        for wrong in ("DELETE FROM op", "PRAGMA journal_mode=DELETE", "ATTACH '/etc/passwd' AS x", "SELECT 1; SELECT 2", "SELEC", "",
                      "SELECT * FROM nowhere", "SELECT load_extension('x')"):
            query(wrong, status=400)
        query("SELECT zeroblob(1e9)", status=429)
        self.of_capture("/query?sql=SELECT%201&limit=x", status=400)
        self.of_capture("/query", status=400)
        self.get("/api/v1/captures/20260101-000000-abcdef/query?sql=SELECT%201", status=404)
        self.assertEqual(self.rig.ask_http(f"/api/v1/captures/{self.capture}/query?sql=SELECT%201").status, 401)
        self.assertEqual(self.of_capture("/op_member").json()["rows"], members)
        # The same with a body.
        path = f"/api/v1/captures/{self.capture}/query"
        posted = self.rig.ask_http(path, "--json", json.dumps({"sql": "SELECT rank, start_ns FROM op_member ORDER BY start_ns", "limit": 3}), token=self.viewer)
        self.assertEqual((posted.status, posted.json()), (200, some))
        for wrong in ("", "{}", '{"sql": 1}', '{"sql": "SELECT 1", "limit": -1}', '{"sql": "SELECT 1", "more": 1}', '{"sql": "DELETE FROM op"}'):
            self.assertEqual(self.rig.ask_http(path, "--json", wrong, token=self.viewer).status, 400, wrong)

    def test_queries_of_a_capture_that_goes_on(self):
        """What was joined so far can be asked, and grows; it is said that it is provisional."""
        self.rig.wait_ranks(4)
        made = self.rig.ask_http("/api/v1/captures", "--json", json.dumps({"schedule": {"active": 400}, "max_duration_s": 120}), token=self.operator)
        self.assertEqual(made.status, 201, made.body)
        path = f"/api/v1/captures/{made.json()['capture']}"
        seen, until = [], time.monotonic() + 60
        try:
            while len(seen) < 2 and time.monotonic() < until:
                answer = self.rig.ask_http(path + "/query?sql=SELECT%20count(*)%20FROM%20step_device", token=self.viewer)
                if answer.status == 200 and answer.json()["rows"][0][0] > (seen[-1] if seen else 0):
                    self.assertTrue(answer.json()["is_provisional"])
                    seen.append(answer.json()["rows"][0][0])
                time.sleep(0.3)
        finally:
            self.rig.ask_http(path + "/stop", "--json", "{}", token=self.operator)
        self.assertEqual(len(seen), 2, seen)

    def test_raw_events(self):
        """Spans of chosen ranks in a stretch: what the members of a step lie between, page by page, and what may not be asked."""
        members = self.of_capture("/op_member?ranks=2").json()["rows"]
        first, last = members[0]["start_ns"], members[-1]["end_ns"]
        whole = self.of_capture("/span?ranks=2").json()
        self.assertFalse(whole["is_provisional"])
        self.assertEqual({row["rank"] for row in whole["rows"]}, {2})
        ops = [row for row in whole["rows"] if row["kind"] == "op"]
        # 20 steps were asked for; each has one forward.
        self.assertEqual([row["name"] for row in ops].count("forward"), 20)
        self.assertEqual([(row["start_ns"], row["end_ns"]) for row in whole["rows"] if row["kind"] == "comm"],
                         [(row["start_ns"], row["end_ns"]) for row in members])
        some = [row for row in whole["rows"] if row["end_ns"] >= first + 300_000_000 and row["start_ns"] <= first + 600_000_000]
        choice = f"/span?ranks=2&from_ns={first + 300_000_000}&to_ns={first + 600_000_000}"
        self.assertGreater(len(whole["rows"]), len(some))
        self.assertEqual(self.of_capture(choice).json()["rows"], some)
        found, cursor = [], ""
        while cursor is not None:
            page = self.of_capture(choice + "&limit=3" + (f"&cursor={cursor}" if cursor else "")).json()
            found, cursor = found + page["rows"], page["cursor"]
        self.assertEqual(found, some)
        both = self.of_capture("/span?ranks=1-2&format=csv&columns=rank,name").body.decode().split("\n")
        self.assertEqual({line.split(",")[0] for line in both[1:-1]}, {"1", "2"})
        self.assertEqual(self.of_capture("/span?ranks=77").json()["rows"], [])
        self.assertEqual(self.of_capture(f"/span?ranks=2&from_ns={last + 10**12}&to_ns={last + 2 * 10**12}").json()["rows"], [])
        self.of_capture(choice.replace("ranks=2", "ranks=1") + "&cursor=" + self.of_capture(choice + "&limit=1").json()["cursor"], status=404)
        for wrong in ("/span", "/span?ranks=0-64", "/span?ranks=2&step=1", "/span?ranks=2&from_ns=5&to_ns=4", "/span?ranks=2&from_ns=-1",
                      "/span?ranks=2&to_ns=x"):
            self.of_capture(wrong, status=400)
        self.get("/api/v1/captures/20260101-000000-abcdef/span?ranks=0", status=404)

    def test_the_page_is_for_anybody(self):
        page = self.rig.ask_http("/")
        if page.status == 404:
            self.assertIn("built without the page", page.json()["detail"])
            return
        self.assertIn("script-src 'self'", page.headers["content-security-policy"])
        self.assertNotIn("unsafe", page.headers["content-security-policy"])
        names = re.findall(rb'(?:src|href)="(/assets/[^"]+)"', page.body)
        self.assertGreaterEqual(len(names), 3)
        for name in names:
            self.assertEqual(self.rig.ask_http(name.decode()).status, 200, name)
        sizes = [len(zlib.compress(self.rig.ask_http(name.decode()).body, 9)) for name in names]
        self.assertLess(sum(sizes), 600_000)
        self.assertEqual(self.rig.ask_http("/assets/../../etc/passwd", "--path-as-is").status, 404)
        self.assertEqual(self.rig.ask_http("/assets/none.js").status, 404)

    def test_pages(self):
        whole = self.of_capture("/op_member").json()["rows"]
        self.assertGreater(len(whole), 20)
        rows, cursor, pages = [], "", 0
        while cursor is not None:
            page = self.of_capture(f"/op_member?limit=7&cursor={cursor}").json()
            rows += page["rows"]
            cursor, pages = page["cursor"], pages + 1
        self.assertEqual(rows, whole)
        self.assertGreater(pages, len(whole) // 7)
        self.of_capture("/op_member?limit=seven", status=400)
        self.of_capture("/op_member?cursor=nonsense", status=404)
        self.of_capture("/op_member?format=xml", status=400)
        second = self.record(ranks="0-1")
        newest, = self.get("/api/v1/captures?limit=1&run=demo").json()["captures"]
        self.assertEqual(newest["id"], second)
        before, = self.get(f"/api/v1/captures?limit=1&before={second}").json()["captures"]
        self.assertEqual(before["id"], self.capture)
        self.assertEqual(self.get("/api/v1/captures?state=failed").json()["captures"], [])

    def test_compressed_and_known_answers(self):
        plain = self.of_capture("")
        gzip = self.of_capture("", "--header", "Accept-Encoding: gzip")
        self.assertEqual(gzip.headers["content-encoding"], "gzip")
        self.assertEqual(zlib.decompress(gzip.body, 31), plain.body)
        zstd = self.of_capture("", "--header", "Accept-Encoding: gzip, zstd")
        self.assertEqual(zstd.headers["content-encoding"], "zstd")
        self.assertEqual(len({plain.headers["etag"], gzip.headers["etag"], zstd.headers["etag"]}), 3)
        none = self.of_capture("", "--header", "Accept-Encoding: gzip;q=0, identity")
        self.assertNotIn("content-encoding", none.headers)
        known = self.of_capture("", "--header", f"If-None-Match: {plain.headers['etag']}", status=304)
        self.assertEqual(known.body, b"")
        for header, value in (("x-content-type-options", "nosniff"), ("referrer-policy", "no-referrer"),
                              ("cache-control", "private, no-cache")):
            self.assertEqual(plain.headers[header], value)
        self.assertIn("default-src 'none'", plain.headers["content-security-policy"])
        head = self.of_capture("", "--head")
        self.assertEqual(int(head.headers["content-length"]), len(plain.body))

    def test_metrics(self):
        answer = self.get("/metrics")
        text = answer.body.decode()
        self.assertTrue(answer.headers["content-type"].startswith("text/plain; version=0.0.4"))
        self.assertIn('rankscope_run_ranks{run="demo"} 4\n', text)
        self.assertIn('rankscope_run_gone_ranks{run="demo"} 0\n', text)
        self.assertRegex(text, r'rankscope_run_step_seconds\{run="demo"\} [\d.]+\n')
        self.assertEqual(len(re.findall(r'^rankscope_rank_step_seconds\{run="demo",rank="\d+",node="n\d"\}', text, re.M)), 4)
        self.assertRegex(text, r'rankscope_http_requests_total\{daemon="aggregator"\} [1-9]')
        promtool = shutil.which("promtool")
        if not promtool:
            self.skipTest("no promtool here (Debian package prometheus)")
        done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        rules = os.path.join(ROOT, "dashboards/prometheus/rankscope.rules")
        for words in (("check", "rules", rules + ".yml"), ("test", "rules", rules + ".test.yml")):
            done = subprocess.run([promtool, *words], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        with open(rules + ".yml", encoding="utf-8") as file:  # of what is really told
            for name in set(re.findall(r"rankscope_\w+", re.sub(r"alert: \w+|summary.*|description.*", "", file.read()))):
                self.assertIn(f"# TYPE {name} ", text, "an alert on a series that nobody tells")

    def test_a_collector_tells_of_itself(self):
        """/metrics of the collectors: what the aggregator tells of them, to whom may read, and nothing else."""
        url, plain = self.rig.metrics_of(0), self.rig.metrics_of(1)
        answer = self.rig.ask_http(url, cert="bob")
        self.assertEqual(answer.status, 200, (answer.error, answer.body))
        self.assertTrue(answer.headers["content-type"].startswith("text/plain; version=0.0.4"))
        text = answer.body.decode()
        self.assertIn('rankscope_uplink_up{daemon="collector",node="n0"} 1\n', text)
        self.assertRegex(text, r'rankscope_spool_acked_chunks_total\{daemon="collector",node="n0"\} [1-9]')
        self.assertNotIn("rankscope_ingest", text)  # not what a collector keeps
        promtool = shutil.which("promtool")
        if promtool:
            done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        told = self.get("/metrics").body.decode()
        self.assertEqual(set(re.findall(r"^# TYPE (rankscope_\w+)", text, re.M)) - set(re.findall(r"^# TYPE (rankscope_\w+)", told, re.M)), set())
        self.assertEqual(self.rig.ask_http(url).status, 401)
        self.assertEqual(self.rig.ask_http(url, token=self.viewer).status, 401)  # tokens are the aggregator's
        self.assertEqual(self.rig.ask_http(url, cert="serves").status, 403)  # a node reads nothing
        self.assertEqual(self.rig.ask_http(url.replace("/metrics", "/healthz")).body, b"ok\n")
        self.assertEqual(self.rig.ask_http(url.replace("/metrics", "/nothing"), cert="bob").status, 404)
        self.assertEqual(self.rig.ask_http(url, "--request", "DELETE", cert="bob").status, 405)
        self.assertTrue(plain.startswith("http://"), plain)
        self.assertIn(b'rankscope_uplink_up{daemon="collector",node="n1"} 1\n', Answer(plain).body)
        self.assertEqual(Answer("--header", "Host: evil.example", plain).status, 421)
        common = [PROGRAM, "collector", "--connect", self.rig.address, "--no-native", "--no-kineto", "--no-ascend", "--no-mindspore",
                  "--spool", os.path.join(self.rig.folder, "none")]
        for words, code, said in ((["--metrics", "127.0.0.1:0"], 3, "--metrics-certs"), (["--metrics-insecure-loopback"], 2, "--metrics HOST:PORT"),
                                  (["--metrics", "0.0.0.0:0", "--metrics-insecure-loopback"], 3, "not on this machine"),
                                  (["--metrics", "localhost:0", "--metrics-certs", os.path.join(self.rig.folder, "bob")], 3, "is a client's"),
                                  (["--metrics", url.split("/")[2], "--metrics-insecure-loopback"], 2, "already")):
            done = subprocess.run([*common, *words], capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(said, done.stderr)

    def test_prometheus_and_every_panel(self):
        """A real Prometheus scrapes over HTTPS with a token; each query of each dashboard brings data from it."""
        prometheus = shutil.which("prometheus")
        if not prometheus:
            self.skipTest("no prometheus here (Debian package prometheus)")
        folder = os.path.join(self.rig.folder, "prometheus")
        os.mkdir(folder)
        with open(folder + "/token", "w", encoding="utf-8") as file:
            file.write(self.viewer)
        with open(folder + "/prometheus.yml", "w", encoding="utf-8") as file:
            file.write(f"""global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: ["{ROOT}/dashboards/prometheus/rankscope.rules.yml"]
scrape_configs:
  - job_name: rankscope
    scheme: https
    authorization: {{credentials_file: {folder}/token}}
    tls_config: {{ca_file: {self.rig.ca}}}
    static_configs: [{{targets: ["localhost:{self.rig.port}"]}}]
  - job_name: rankscope-collector
    scheme: https
    tls_config: {{ca_file: {self.rig.ca}, cert_file: {self.rig.folder}/bob/tls.crt, key_file: {self.rig.folder}/bob/tls.key}}
    static_configs: [{{targets: ["{self.rig.metrics_of(0).split("/")[2]}"]}}]
""")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        with open(folder + "/log", "wb") as log:
            process = subprocess.Popen([prometheus, f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
                                        f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log)

        def ask(query):
            try:
                link = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
                link.request("GET", "/api/v1/query?" + urllib.parse.urlencode({"query": query}))
                answer = json.loads(link.getresponse().read())
                link.close()
            except (OSError, ValueError):
                return []
            self.assertEqual(answer["status"], "success", (query, answer))
            return answer["data"]["result"]
        try:
            wait_for(lambda: any(item["value"][1] == "1" for item in ask('up{job="rankscope"}')), "scraped")
            wait_for(lambda: ask('count_over_time(rankscope_run_step{run="demo"}[30s]) > 4'), "a few times")
            wait_for(lambda: ask('count_over_time(rankscope_uplink_up{job="rankscope-collector",node="n0"}[30s]) > 4'), "the collector, too")
            panels = 0
            for name in sorted(os.listdir(ROOT + "/dashboards/grafana")):
                with open(f"{ROOT}/dashboards/grafana/{name}", encoding="utf-8") as file:
                    board = json.load(file)
                self.assertEqual(board["uid"] + ".json", name)
                self.assertEqual([panel["id"] for panel in board["panels"]], list(range(1, len(board["panels"]) + 1)))
                for panel in board["panels"]:
                    for target in panel["targets"]:
                        query = target["expr"].replace("$run", "demo").replace("$__rate_interval", "20s")
                        self.assertTrue(ask(query), (name, panel["title"], query))
                    panels += 1
            self.assertGreater(panels, 20)
            step, = ask('rankscope_run_step{run="demo"}')
            wait_for(lambda: float(ask('rankscope_run_step{run="demo"}')[0]["value"][1]) > float(step["value"][1]), "it moves")
        finally:
            process.terminate()
            process.wait(120)

    def test_the_description_is_of_the_routes(self):
        document = self.rig.ask_http("/api/v1/openapi.json").json()
        self.assertEqual(document["openapi"], "3.1.0")
        tables = {table["name"]: table["row"] for table in self.get("/api/v1/tables").json()["tables"]}
        self.assertEqual(document["components"]["schemas"], tables)
        for path, operations in document["paths"].items():
            wanted = re.findall(r"\{(\w+)\}", path)
            if path in ("/", "/assets/{name}") and self.rig.ask_http("/").status == 404:
                continue  # built without the page
            url = path.format(id=self.capture, table="finding", view="hosts", name="index.js" if "assets" in path else "report.md")
            for method, operation in operations.items():
                given = [item["name"] for item in operation["parameters"] if item["in"] == "path"]
                self.assertEqual(given, wanted, path)
                if url.endswith("/aggregators"):  # answered where there is a database; test_aggregators.py has one
                    self.assertIn(b"no --store", self.get(url, status=403).body)
                elif method == "get" and not url.endswith("/stream"):
                    answer = self.get(url + "?sql=SELECT%201" if url.endswith("/query") else url)
                    kind = answer.headers["content-type"].split(";")[0]
                    if "application/octet-stream" not in operation["responses"]["200"]["content"]:
                        self.assertIn(kind, operation["responses"]["200"]["content"], path)
                if operation["x-may-ask"] == "an operator" and method == "delete":
                    self.assertEqual(self.rig.ask_http(url, "--request", "DELETE", token=self.viewer).status, 403)
                elif operation["x-may-ask"] == "an operator":
                    answer = self.rig.ask_http(url, "--json", '{"schedule": {"active": 1}}' if url.endswith("captures")
                                               else "{}", token=self.viewer)
                    self.assertEqual(answer.status, 403, (path, answer.body))
            if "delete" not in operations:
                other = self.rig.ask_http(url, "--request", "DELETE", token=self.operator)
                self.assertEqual(other.status, 405, path)
                self.assertIn("GET" if "get" in operations else "POST", other.headers["allow"])

    # ---- what is asked for

    def test_a_request_is_checked_first(self):
        for body, words in (("{", "JSON"), ("[]", "object"), ('{"schedule": {"active": -1}}', "active"),
                            ('{"stepps": 3}', "stepps"), ('{"ranks": "0-"}', "rank")):
            answer = self.rig.ask_http("/api/v1/captures", "--json", body, token=self.operator)
            self.assertEqual((answer.status, answer.headers["content-type"]), (400, "application/problem+json"), answer.body)
            self.assertIn(words, answer.json()["detail"])
        dry = self.rig.ask_http("/api/v1/captures?dry_run=true", "--json", '{"schedule": {"active": 2}, "ranks": "1,3"}',
                                token=self.operator)
        self.assertEqual(dry.status, 200, dry.body)
        self.assertIsNone(dry.json()["capture"])
        self.assertEqual([(rank["rank"], rank["verdict"]) for rank in dry.json()["answer"]["ranks"]], [(1, "accepted"), (3, "accepted")])
        nobody = self.rig.ask_http("/api/v1/captures", "--json", '{"schedule": {"active": 2}, "ranks": "77"}',
                                   token=self.operator)
        self.assertEqual(nobody.status, 409, nobody.body)
        elsewhere = self.rig.ask_http("/api/v1/captures", "--json", '{"schedule": {"active": 2}, "job_id": "elsewhere"}',
                                      token=self.operator)
        self.assertEqual(elsewhere.status, 409, elsewhere.body)
        self.assertIn("elsewhere", elsewhere.json()["detail"])
        self.assertIn("77", json.dumps(nobody.json()))
        self.assertIsNone(nobody.json()["capture"])

    def test_stop(self):
        started = self.rig.ask_http("/api/v1/captures", "--json", '{"schedule": {"active": 5000}, "force": true}',
                                    token=self.operator)
        self.assertEqual(started.status, 201, started.body)
        where = started.headers["location"]
        wait_for(lambda: self.get(where).json()["state"] == "recording", "recording")
        stopped = self.rig.ask_http(where + "/stop", "--json", "", token=self.operator)
        self.assertEqual(stopped.status, 200, stopped.body)
        wait_for(lambda: self.get(where).json()["closed_ns"], "closed")
        again = self.rig.ask_http(where + "/stop", "--json", "", token=self.operator)
        self.assertIn(again.status, (400, 403, 404, 409), again.body)

    def test_when_it_is_closed_it_is_joined_before_anybody_asks(self):
        def sets():
            found = []
            for folder in os.listdir(os.path.join(self.rig.data, "documents")):
                try:
                    with open(os.path.join(self.rig.data, "documents", folder, "manifest.json"), encoding="utf-8") as file:
                        found.append(file.read())
                except OSError:
                    pass  # it is being made
            return found
        # Its ranks are no others' here: the manifest is known by its steps.
        capture = self.record(ranks="1-3", schedule={"active": 7})
        wait_for(lambda: any(capture in text for text in sets()), "joined, and nobody asked")
        # Its manifest stands a moment before the set of documents is taken; until then what was joined while it recorded is answered, and says so.
        wait_for(lambda: not self.get(f"/api/v1/captures/{capture}/steps").json()["is_provisional"], "taken")
        answer = self.get(f"/api/v1/captures/{capture}/steps").json()
        self.assertEqual(len(answer["rows"]), 21, json.dumps(answer) + self.get(f"/api/v1/captures/{capture}").body.decode())

    def test_remove(self):
        gone, other = self.record(), self.record()
        where = "/api/v1/captures/" + gone
        self.get(where + "/report?format=text")  # its documents are made, and must not outlive it
        self.assertTrue(self.get(where + "/steps").json()["rows"])
        folder = os.path.join(self.rig.data, "captures", gone)
        self.assertEqual(self.rig.ask_http(where, "--request", "DELETE", token=self.viewer).status, 403)
        self.assertTrue(os.path.isdir(folder))
        removed = self.rig.ask_http(where, "--request", "DELETE", token=self.operator)
        self.assertEqual((removed.status, removed.json()["id"]), (200, gone), removed.body)
        self.assertFalse(os.path.exists(folder))
        for path in ("", "/report?format=text", "/steps", "/files", "/files/report.md", "/progress"):
            self.get(where + path, status=404)
        self.assertNotIn(gone, [capture["id"] for capture in self.get("/api/v1/captures").json()["captures"]])
        self.assertEqual(self.rig.ask_http(where, "--request", "DELETE", token=self.operator).status, 404)
        self.assertIn(b"no capture", subprocess.run([PROGRAM, "rm", gone, "--connect", self.rig.address], check=False,
                                                    capture_output=True).stderr)
        done = subprocess.run([PROGRAM, "rm", gone, other, "nonsense", "--connect", self.rig.address], check=False,
                              capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (2, other + " removed\n"), done.stderr)  # the others still go
        self.assertEqual([name for name in os.listdir(os.path.dirname(folder)) if name.startswith(".")], [])
        started = self.rig.ask_http("/api/v1/captures", "--json", '{"schedule": {"active": 5000}, "force": true}',
                                    token=self.operator)
        running = started.headers["location"]
        refused = self.rig.ask_http(running, "--request", "DELETE", token=self.operator)
        self.assertEqual(refused.status, 403, refused.body)
        self.assertIn("stop it first", refused.json()["detail"])
        self.rig.ask_http(running + "/stop", "--json", "", token=self.operator)
        wait_for(lambda: self.get(running).json()["closed_ns"], "closed")
        self.assertEqual(self.rig.ask_http(running, "--request", "DELETE", token=self.operator).status, 200)
        wait_for(lambda: any(line["what"] == "capture.remove" and line["who"] == "operator/carol" and line["subject"] == gone
                             for line in self.rig.audit()), "audit")

    # ---- who may ask

    def test_who_is_nobody(self):
        self.assertEqual(self.rig.ask_http("/healthz").body, b"ok\n")
        self.assertEqual(self.rig.ask_http("/readyz").body, b"ok\n")
        for path in ("/metrics", "/api/v1/runs", "/api/v1/captures/" + self.capture, "/nothing"):
            answer = self.rig.ask_http(path)
            self.assertEqual(answer.status, 401, path)
            self.assertIn("Bearer", answer.headers["www-authenticate"])
        for word in ("Bearer rst1." + "0" * 64, "Bearer", "Basic YTpi", "Bearer " + "x" * 4000):
            answer = self.rig.ask_http("/api/v1/runs", "--header", "Authorization: " + word)
            self.assertEqual(answer.status, 401, word)
        for subject, why in (("/nothing", "say who asks"), ("/api/v1/runs", "this is no token of this service")):
            wait_for(lambda: any(line["what"] == "http" and line["outcome"] == "refused" and line["subject"] == subject and
                                 line["why"].startswith(why) for line in self.rig.audit()), f"audit of {subject}")

    def test_tokens_end(self):
        token = self.rig.token("erin")
        self.get("/api/v1/runs", token=token)
        listed = json.loads(subprocess.run([PROGRAM, "token", "list", "--json", "--data", self.rig.data], check=True,
                                           capture_output=True).stdout)["tokens"]
        own, = [item for item in listed if item["name"] == "erin"]
        self.assertEqual(own["party"], "viewer")
        started = self.rig.ask_http("/api/v1/captures", "--json", '{"schedule": {"active": 5000}, "force": true}',
                                    token=self.operator)
        told = []
        reader = threading.Thread(target=lambda: told.append(
            self.rig.ask_http(started.headers["location"] + "/progress", token=token)))
        reader.start()
        wait_for(lambda: self.get(started.headers["location"]).json()["state"] == "recording", "recording")
        subprocess.run([PROGRAM, "token", "revoke", "viewer/erin", "--data", self.rig.data], check=True, capture_output=True)
        reader.join(30)  # what is under way ends, too
        self.assertFalse(reader.is_alive())
        self.assertNotIn(b"event: closed", told[0].body)
        wait_for(lambda: self.rig.ask_http("/api/v1/runs", token=token).status == 401, "the token is refused")
        self.rig.ask_http(started.headers["location"] + "/stop", "--json", "", token=self.operator)
        short = self.rig.token("frank", "--valid", "1s")
        wait_for(lambda: self.rig.ask_http("/api/v1/runs", token=short).status == 401, "the token is over")
        for name in os.listdir(self.rig.data + "/tokens"):
            path = os.path.join(self.rig.data, "tokens", name)
            self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
            with open(path, encoding="utf-8") as file:
                self.assertNotIn(self.viewer[5:], file.read())  # no secret is kept

    def test_certificates(self):
        self.assertEqual(self.rig.ask_http("/api/v1/runs", cert="bob").status, 200)
        body = ["--json", '{"schedule": {"active": 2}}']
        self.assertEqual(self.rig.ask_http("/api/v1/captures?dry_run=1", *body, cert="bob").status, 403)
        self.assertEqual(self.rig.ask_http("/api/v1/captures?dry_run=1", *body, cert="alice").status, 200)
        wait_for(lambda: {("viewer/bob", "refused"), ("operator/alice", "asked")} <=
                 {(line["who"], line["outcome"]) for line in self.rig.audit() if line["what"] == "capture.check"}, "audit")
        self.rig.certs("issue", "viewer", "gone", "--out", self.rig.folder + "/gone")
        self.assertEqual(self.rig.ask_http("/api/v1/runs", cert="gone").status, 200)
        self.rig.certs("revoke", "viewer/gone")
        wait_for(lambda: self.rig.ask_http("/api/v1/runs", cert="gone").status == 401, "the certificate is refused")
        foreign = tempfile.mkdtemp(dir=self.rig.folder)
        for words in (("init",), ("issue", "operator", "alice", "--out", foreign + "/alice")):
            subprocess.run([PROGRAM, "certs", *words, "--data", foreign], check=True, capture_output=True)
        answer = self.rig.ask_http("/api/v1/runs", "--cert", foreign + "/alice/tls.crt", "--key", foreign + "/alice/tls.key")
        self.assertTrue(answer.status == 401 or answer.code != 0, answer.body)
        self.rig.certs("issue", "node", "n9", "--out", self.rig.folder + "/n9")
        self.assertEqual(self.rig.ask_http("/api/v1/runs", cert="n9").status, 403)  # a node reads nothing

    def test_a_renewed_certificate_counts_without_a_restart(self):
        context = ssl.create_default_context(cafile=self.rig.ca)

        def serial():
            with socket.create_connection(("localhost", self.rig.port)) as plain:
                with context.wrap_socket(plain, server_hostname="localhost") as link:
                    return link.getpeercert()["serialNumber"]
        before = serial()
        self.rig.certs("renew", self.rig.data + "/certs")
        wait_for(lambda: serial() != before, "another certificate")

    # ---- what must do no harm

    def test_other_sites(self):
        body = ["--json", '{"schedule": {"active": 2}}']
        for header in ("Origin: https://evil.example", "Sec-Fetch-Site: cross-site", "Origin: null"):
            answer = self.rig.ask_http("/api/v1/captures?dry_run=1", *body, "--header", header, token=self.operator)
            self.assertEqual(answer.status, 403, header)
        own = self.rig.ask_http("/api/v1/captures?dry_run=1", *body, "--header", "Origin: " + self.rig.url, token=self.operator)
        self.assertEqual(own.status, 200)
        form = self.rig.ask_http("/api/v1/captures?dry_run=1", "--data", "a=b", token=self.operator)
        self.assertEqual(form.status, 415)

    def test_too_much(self):
        big = os.path.join(self.rig.folder, "big")
        with open(big, "wb") as file:
            file.write(b'{"ranks": "' + b"0," * (3 << 20) + b'0"}')
        answer = self.rig.ask_http("/api/v1/captures", "--json", "@" + big, token=self.operator)
        self.assertEqual(answer.status, 413)
        answer = self.rig.ask_http("/api/v1/captures", "--json", "@" + big, "--header", "Transfer-Encoding: chunked",
                                   token=self.operator)
        self.assertEqual(answer.status, 413)
        held = [socket.create_connection(("localhost", self.rig.port)) for _ in range(100)]
        self.get("/api/v1/runs")  # plain text into TLS, and connections that say nothing
        for index, link in enumerate(held):
            try:
                link.sendall(os.urandom(1000) if index % 2 else b"GET / HTTP/1.1\r\n\r\n")
            except OSError:
                pass
        self.get("/api/v1/runs")
        for link in held:
            link.close()
        wait_for(lambda: b'tls_failed_handshakes_total{daemon="aggregator"} 0\n' not in self.get("/metrics").body, "counted")


class Odd(unittest.TestCase):
    """Runs whose names are no text, and ranks that were started again."""

    def test_odd_runs(self):
        with Rig(world=2, nodes=1, step_ms=100, run=b'b\xe4d"\\', aggregator_words=["--http", "127.0.0.1:0", "--insecure-loopback"]) as rig:
            url = rig.aggregator.stdout.readline().decode().split()[-1]

            def run():
                runs = Answer(url + "/api/v1/runs").json()["runs"]
                return (runs[0]["ranks"], runs[0]["gone"], runs[0]["last_step"]) if runs else (0, 0, 0)
            wait_for(lambda: run()[:2] == (2, 0) and (run()[2] or 0) > 1, "two ranks")
            rig.job.stdin.close()
            rig.job.wait()
            rig.job.stdout.close()
            wait_for(lambda: run()[:2] == (2, 2), "both are gone")
            rig.start_ranks()
            wait_for(lambda: run()[:2] == (2, 0), "two ranks again, and not four")
            text = Answer(url + "/metrics").body.decode()  # a scrape with anything else is thrown away whole
            self.assertIn('rankscope_run_ranks{run="b?d\\"\\\\"} 2\n', text)
            self.assertIn('rankscope_run_gone_ranks{run="b?d\\"\\\\"} 0\n', text)
            promtool = shutil.which("promtool")
            if promtool:
                done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True, check=False)
                self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))


class Plain(unittest.TestCase):
    """Loopback without TLS: only where it was asked for, only under loopback's names."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="rs-http-")

    def tearDown(self):
        shutil.rmtree(self.folder)

    def start(self, *words):
        environment = {**os.environ, "RANKSCOPE_RUNTIME_DIR": self.folder, "RANKSCOPE_CONFIG": ""}
        return subprocess.Popen([PROGRAM, "aggregator", "--data", self.folder + "/data", *words], env=environment,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def test_refused_without_certificates(self):
        for address in ("127.0.0.1:0", "0.0.0.0:0", "nonsense", "unix:/tmp/x"):
            process = self.start("--http", address)
            _, said = process.communicate(timeout=120)
            self.assertIn(process.returncode, (2, 3), said)
            self.assertTrue(said.strip())
        process = self.start("--http", "0.0.0.0:0", "--insecure-loopback")
        _, said = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 3, said)

    def test_a_collector_that_is_cut_off_says_so(self):
        """Without an aggregator there is nobody else who tells of it."""
        with open(self.folder + "/log", "wb") as log:
            process = subprocess.Popen([PROGRAM, "collector", "--connect", "unix:" + self.folder + "/nobody", "--spool",
                                        self.folder + "/spool", "--node", "alone", "--no-native", "--no-kineto", "--no-ascend",
                                        "--no-mindspore", "--metrics", "127.0.0.1:0", "--metrics-insecure-loopback", "-v"], stderr=log)
        try:
            found = []

            def read_log():
                with open(self.folder + "/log", encoding="utf-8") as file:
                    found[:] = re.findall(r"http://\S+/metrics", file.read())
                return found
            wait_for(read_log, "it serves")
            wait_for(lambda: re.search(rb'rankscope_process_resident_bytes\{daemon="collector",node="alone"\} [1-9]',
                                       Answer(found[0]).body), "it counts")
            self.assertIn(b'rankscope_uplink_up{daemon="collector",node="alone"} 0\n', Answer(found[0]).body)
            self.assertEqual(Answer(found[0].replace("/metrics", "/healthz")).body, b"ok\n")
        finally:
            process.terminate()
            self.assertEqual(process.wait(120), 0)

    def test_plain(self):
        process = self.start("--http", "127.0.0.1:0", "--http", "localhost:0", "--insecure-loopback")
        process.stdout.readline()
        urls = [process.stdout.readline().split()[-1] for _ in range(2)]
        for url in urls:
            self.assertEqual(Answer(url + "/api/v1/runs").json()["runs"], [])
        url = urls[0]
        self.assertEqual(Answer("--header", "Host: evil.example", url + "/api/v1/runs").status, 421)
        self.assertEqual(Answer("--header", "Host: 127.0.0.1.evil.example", url + "/api/v1/runs").status, 421)
        port = int(url.rsplit(":", 1)[1])
        for text in (b"\0" * 100, b"GET\r\n\r\n", b"GET /%zz%00%2f HTTP/1.1\r\nHost: localhost\r\n\r\n",
                     b"POST /api/v1/captures HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                     b"Content-Length: 99999999999999999999\r\n\r\n{", b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 9000 + b"\r\n",
                     b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", port), timeout=120) as link:
                link.sendall(text)
                try:
                    link.shutdown(socket.SHUT_WR)
                    while link.recv(65536):
                        pass
                except OSError:
                    pass
            self.assertEqual(Answer(url + "/healthz").status, 200)
        taken = self.start("--http", url.partition("//")[2], "--insecure-loopback", "--listen", "unix:" + self.folder + "/2",
                           "--data", self.folder + "/data2")
        _, said = taken.communicate(timeout=120)
        self.assertEqual(taken.returncode, 2, said)
        self.assertIn("already", said)
        # A client that keeps its connection does not hold the end up.
        held = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        held.request("GET", "/healthz")
        self.assertEqual(held.getresponse().read(), b"ok\n")
        process.terminate()
        _, said = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, said)
        held.close()


if __name__ == "__main__":
    unittest_run.main()
