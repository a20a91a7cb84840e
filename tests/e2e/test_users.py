#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two users of one node: one collector of root serves the jobs of both, and each sees and captures his own.

Real processes of real users (root plays them): who somebody is, is what the kernel says of the socket, and nothing else. An operator
by the settings sees all, over HTTP a token of the same user sees the same.
"""
import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

import unittest_run

PROGRAM = os.path.abspath(os.environ.get("RANKSCOPE", "build/dev/rankscope"))
RANKS = os.path.join(os.path.abspath(os.environ.get("RANKSCOPE_BUILD", "build/dev")), "native_ranks")
PROBE = os.path.join(os.path.dirname(RANKS), "ask_probe")
USERS = {"hers": "daemon", "his": "games"}  # of Debian, without a login
OPERATOR = "backup"


class Node(unittest.TestCase):
    """A node with the jobs of two users, each of two ranks."""

    AGGREGATOR_WORDS = ()

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="rs-users-")
        os.chmod(self.folder, 0o755)
        self.program = shutil.copy(PROGRAM, self.folder)
        self.ranks = shutil.copy(RANKS, self.folder)
        self.probe = shutil.copy(PROBE, self.folder)
        self.runtime = os.path.join(self.folder, "run")
        self.data = os.path.join(self.folder, "data")
        self.processes, self.jobs = [], {}
        aggregator = self.start("aggregator", "--data", self.data, "--users", "--operators", OPERATOR, "-v",
                                "--http", "127.0.0.1:0", "--insecure-loopback", *self.AGGREGATOR_WORDS, stdout=subprocess.PIPE)
        aggregator.stdout.readline()
        self.http = aggregator.stdout.readline().split()[-1]
        # a collector of root makes a socket that everybody's jobs can reach
        self.start("collector", "--node", "n1", "--spool", os.path.join(self.folder, "spool"), "--no-kineto", "--no-ascend",
                   "--no-mindspore", "-v")
        self.wait_for(lambda: os.path.exists(os.path.join(self.runtime, "collector.sock")), "the collector listens")
        os.symlink("collector.sock", os.path.join(self.runtime, "collector.sock0"))
        for run, user in USERS.items():
            self.jobs[run] = self.start_job(run, user)
        self.wait_for(lambda: len(self.ranks_of("root")) == 4, "four ranks are seen")

    def tearDown(self):
        for job in self.jobs.values():
            job.stdin.close()
            job.wait(120)
            job.stdout.close()
        for process in reversed(self.processes):
            process.terminate()
            process.wait(120)
            if process.stdout:
                process.stdout.close()
        if self._outcome.success:
            shutil.rmtree(self.folder)
        else:
            print("what was said is in", self.folder, file=sys.stderr)

    # ---- tools

    def environment(self):
        return {"LC_ALL": "C", "PATH": os.environ["PATH"], "HOME": "/nonexistent", "RANKSCOPE_CONFIG": "",
                "RANKSCOPE_RUNTIME_DIR": self.runtime, "RANKSCOPE_WAIT": "raw"}

    def start(self, *words, **pipes):
        with open(os.path.join(self.folder, words[0] + ".log"), "ab") as log:
            process = subprocess.Popen([self.program, *words], env=self.environment(), stderr=log, text=True, **pipes)
        self.processes.append(process)
        return process

    def start_job(self, run, user):
        entry = pwd.getpwnam(user)
        job = subprocess.Popen([self.ranks, "--run", run, "--world", "2", "--socket",
                                os.path.join(self.runtime, "collector.sock"), "--step-ms", "50"], user=entry.pw_uid,
                               group=entry.pw_gid, extra_groups=[], env=self.environment(), stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE)
        self.assertIn(b"pids", job.stdout.readline())
        return job

    def ask(self, user, *words, code=0, program=None):
        entry = pwd.getpwnam(user)
        done = subprocess.run([program or self.program, *words], user=entry.pw_uid, group=entry.pw_gid, extra_groups=[],
                              env=self.environment(), capture_output=True, text=True, timeout=120, check=False)
        if code is not None:
            self.assertEqual(done.returncode, code, (user, words, done.stdout, done.stderr))
        return done

    def wait_for(self, is_it, what, seconds=300):
        until = time.monotonic() + seconds
        while not is_it():
            self.assertLess(time.monotonic(), until, "never: " + what)
            time.sleep(0.1)

    def ranks_of(self, user):
        said = self.ask(user, "ranks", "--json", code=None).stdout
        return json.loads(said)["ranks"] if said.strip() else []

    def captures_of(self, user):
        return [capture["id"] for capture in json.loads(self.ask(user, "capture", "list", "--json").stdout)["captures"]]

    def audit(self):
        with open(os.path.join(self.data, "audit.jsonl"), encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def was_refused(self, **wanted):
        return lambda: any(line["outcome"] == "refused" and all(line.get(key) == value for key, value in wanted.items())
                           for line in self.audit())

    def get(self, path, token, method="GET", body=None):
        headers = {"Authorization": "Bearer " + token, **({"Content-Type": "application/json"} if body else {})}
        request = urllib.request.Request(path if path.startswith("http") else f"{self.http}/api/v1/{path}", headers=headers,
                                         method=method, data=json.dumps(body).encode() if body else None)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)


@unittest.skipUnless(os.geteuid() == 0, "root plays three users")
class Users(Node):
    def test_each_has_his_own(self):
        mode = os.stat(self.runtime).st_mode & 0o777
        self.assertEqual(mode, 0o755)
        for run, user in USERS.items():
            ranks = self.ranks_of(user)
            self.assertEqual({(rank["run"], rank["user"]) for rank in ranks}, {(run, user)})
        self.assertEqual({rank["run"] for rank in self.ranks_of(OPERATOR)}, set(USERS))
        hers, his = USERS["hers"], USERS["his"]
        # his capture of her run, named and not named
        self.assertIn("has no run hers", self.ask(his, "capture", "--run", "hers", "--steps", "2", code=3).stderr)
        self.wait_for(self.was_refused(who="user/" + his, what="capture.start", subject="hers"), "in the audit log")
        self.ask(hers, "capture", "--steps", "2")
        mine = self.captures_of(hers)
        self.assertEqual((len(mine), self.captures_of(his), self.captures_of(OPERATOR)), (1, [], mine))
        shown = json.loads(self.ask(hers, "capture", "show", mine[0], "--json").stdout)
        self.assertEqual((shown["run"], shown["owner"], shown["state"]), ("hers", hers, "complete"))
        self.ask(hers, "report", mine[0])
        for words, what in ((("capture", "show", mine[0]), "capture.show"), (("report", mine[0]), "capture.read"),
                            (("table", mine[0], "collectives"), "capture.table"), (("rm", mine[0]), "capture.remove"),
                            (("capture", "stop", mine[0]), "capture.stop"), (("fetch", mine[0]), "capture.fetch"),
                            (("counters",), "counters"), (("hang", "--run", "hers"), "hang")):
            done = self.ask(his, *words, code=None)
            self.assertNotEqual(done.returncode, 0, (words, done.stdout))
            self.wait_for(self.was_refused(who="user/" + his, what=what), f"{words} in the audit log: {done.stderr}")
        self.ask(OPERATOR, "capture", "show", mine[0])
        line = next(line for line in self.audit() if line["who"] == "user/" + his)
        self.assertIn(f"uid={pwd.getpwnam(his).pw_uid},pid=", line["from"])
        # the same over HTTP
        tokens = {user: self.ask("root", "token", "new", user, "--user", "--data", self.data).stdout.strip()
                  for user in (hers, his)}
        self.wait_for(lambda: self.get("captures", tokens[hers])[0] == 200, "the token counts")
        self.assertEqual([item["id"] for item in self.get("captures", tokens[hers])[1]["captures"]], mine)
        self.assertEqual(self.get("captures", tokens[his])[1]["captures"], [])
        self.assertEqual(self.get("captures/" + mine[0], tokens[his])[0], 403)
        self.assertEqual(self.get("captures/" + mine[0], tokens[his], "DELETE")[0], 403)
        self.assertEqual(self.get("captures/" + mine[0], tokens[hers])[0], 200)
        self.one_run_alone(mine[0])
        # a job of his under the name of her run is not taken into it
        self.jobs["squat"] = self.start_job("hers", his)
        self.wait_for(self.was_refused(who="local/root", what="rank", why="its run is another user's"), "the squatter is left out")
        self.assertEqual(len(self.ranks_of(OPERATOR)), 4)
        # she removes what is hers
        self.ask(hers, "rm", mine[0])
        self.assertEqual(self.captures_of(OPERATOR), [])

    def one_run_alone(self, hers):
        """Tokens of one run: an operator's, and a viewer's, of the run `his`. `hers` is a capture of the other."""
        made = self.ask("root", "token", "new", "olga", "--operator", "--run", "his", "--data", self.data)
        self.assertIn("operator/olga, of run his, until", made.stderr)
        operator = made.stdout.strip()
        viewer = self.ask("root", "token", "new", "vera", "--run", "his", "--data", self.data).stdout.strip()
        listed = json.loads(self.ask("root", "token", "list", "--json", "--data", self.data).stdout)["tokens"]
        self.assertEqual({item["name"]: item["run"] for item in listed}, {USERS["hers"]: None, USERS["his"]: None, "olga": "his", "vera": "his"})
        self.wait_for(lambda: self.get("runs", operator)[0] == 200, "the token counts")
        # lists have the one run, whether it is named or not; another is refused
        self.assertEqual([run["run"] for run in self.get("runs", operator)[1]["runs"]], ["his"])
        self.assertEqual({rank["run"] for rank in self.get("ranks?run=his", viewer)[1]["ranks"]}, {"his"})
        self.assertEqual(self.get("captures", operator)[1]["captures"], [])
        for path in ("ranks?run=hers", "runs?run=hers", "captures?run=hers", "ranks/stream?run=hers", "captures/" + hers, f"captures/{hers}/steps",
                     f"captures/{hers}/query?sql=SELECT%201", f"captures/{hers}/report?format=json", f"captures/{hers}/files",
                     f"captures/{hers}/progress", "captures/20260101-000000-abcdef", "counters", self.http + "/metrics", "history/captures?run=hers"):
            status, problem = self.get(path, operator)
            self.assertEqual((status, problem["status"]), (403, 403), (path, problem))
            self.assertIn("of run his alone" if "stream" not in path else "another run", problem["detail"], path)
        self.wait_for(self.was_refused(who="operator/olga", what="capture.show", subject=hers), "in the audit log")
        self.wait_for(self.was_refused(who="operator/olga", what="ranks", subject="hers"), "in the audit log")
        # what it does, it does with that run: without a name there is no other
        body = {"schedule": {"active": 2}}
        self.assertEqual(self.get("captures", operator, "POST", {**body, "job_id": "hers"})[0], 403)
        self.assertEqual(self.get("captures/" + hers, operator, "DELETE")[0], 403)
        self.assertEqual(self.get("captures", viewer, "POST", body)[0], 403)
        status, started = self.get("captures", operator, "POST", body)
        self.assertEqual(status, 201, started)
        made = started["capture"]
        self.wait_for(lambda: self.get("captures/" + made, viewer)[1]["closed_ns"], "it is closed")
        self.assertEqual(self.get("captures/" + made, viewer)[1]["run"], "his")
        self.assertTrue(self.get(f"captures/{made}/steps", viewer)[1]["rows"])
        self.assertEqual([item["id"] for item in self.get("captures", viewer)[1]["captures"]], [made])
        for path in ("history/captures", "history/captures?run=his", "history/ranks", "history/findings"):
            status, history = self.get(path, viewer)
            self.assertEqual(status, 200, (path, history))
            self.assertLessEqual({(row["capture"], row["run"]) for row in history["rows"]}, {(made, "his")}, path)
            self.assertTrue(history["rows"] or "findings" in path, path)
        # a run that has the name of a view is no key to it
        for view in ("captures", "ranks", "hosts", "findings"):
            token = self.ask("root", "token", "new", "of-" + view, "--run", view, "--data", self.data).stdout.strip()
            self.wait_for(lambda token=token: self.get("runs", token)[0] == 200, "the token counts")
            status, history = self.get("history/" + view, token)
            self.assertEqual((status, history["rows"]), (200, []), view)
        self.assertEqual(self.get("captures/" + made, viewer, "DELETE")[0], 403)
        self.assertEqual(self.get("captures/" + made, operator, "DELETE")[0], 200)
        # a run that is not there: nothing is said of those that are
        nobody = self.ask("root", "token", "new", "nora", "--operator", "--run", "gone", "--data", self.data).stdout.strip()
        self.wait_for(lambda: self.get("runs", nobody)[0] == 200, "the token counts")
        self.assertEqual(self.get("runs", nobody)[1]["runs"], [])
        status, problem = self.get("captures", nobody, "POST", body)
        self.assertEqual((status, problem["detail"]), (409, "run gone has no live rank"))

    def test_probes_are_left_out_of_lists_when_an_operator_makes_them(self):
        """A user cannot hide what he records; his own watch makes probes all the same, and they stand in the list until it has removed them."""
        his = USERS["his"]
        made = self.ask(his, "his", program=self.probe).stdout.strip()
        self.assertEqual((self.captures_of(his), self.captures_of(OPERATOR)), ([made], [made]))
        hidden = self.ask(OPERATOR, "his", program=self.probe).stdout.strip()
        self.assertEqual(self.captures_of(OPERATOR), [made])
        self.assertEqual(json.loads(self.ask(OPERATOR, "capture", "show", hidden, "--json").stdout)["state"], "complete")

    def test_a_collector_of_ones_own(self):
        """A user's own collector on the shared socket brings his processes, whatever it says of them."""
        user = USERS["his"]
        entry = pwd.getpwnam(user)
        home = os.path.join(self.folder, "home")
        os.mkdir(home)
        os.chown(home, entry.pw_uid, entry.pw_gid)
        with open(os.path.join(self.folder, "own.log"), "ab") as log:
            own = subprocess.Popen([self.program, "collector", "--connect", "unix:" + self.runtime + "/aggregator.sock", "--node",
                                    "n1", "--spool", home + "/spool", "--socket", home + "/c0", "--no-kineto", "--no-ascend",
                                    "--no-mindspore", "-v"], user=entry.pw_uid, group=entry.pw_gid, extra_groups=[],
                                   env=self.environment(), stderr=log)
        self.processes.append(own)
        self.wait_for(lambda: os.path.exists(home + "/c0"), "it listens")
        os.chmod(home, 0o777)
        other = pwd.getpwnam(USERS["hers"])
        with subprocess.Popen([self.ranks, "--run", "lent", "--world", "1", "--socket", home + "/c", "--step-ms", "50"],
                              user=other.pw_uid, group=other.pw_gid, extra_groups=[], env=self.environment(),
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) as job:
            self.assertIn(b"pids", job.stdout.readline())
            self.wait_for(lambda: len(self.ranks_of(OPERATOR)) == 5, "its rank is seen")
            lent = [rank for rank in self.ranks_of(OPERATOR) if rank["run"] == "lent"]
            self.assertEqual([rank["user"] for rank in lent], [user])
            self.assertEqual({rank["run"] for rank in self.ranks_of(USERS["hers"])}, {"hers"})
            job.stdin.close()


@unittest.skipUnless(os.geteuid() == 0, "root plays users")
class Shares(Node):
    """What one user keeps on the aggregator's disk is bounded, and others do not notice."""

    AGGREGATOR_WORDS = ("--keep-bytes-each", "1MiB")

    def test_who_keeps_as_much_as_he_may_is_refused_until_he_removes_some(self):
        hers, his = USERS["hers"], USERS["his"]
        refused = None
        for _ in range(40):
            done = self.ask(hers, "capture", "--steps", "5", "--no-report", code=None)
            if done.returncode == 3:
                refused = done
                break
            self.assertIn(done.returncode, (0, 1), done.stderr)  # the one that comes to the bound ends early
            time.sleep(1)
        self.assertIsNotNone(refused, "nothing was refused")
        self.assertIn(f"user/{hers} keeps", refused.stderr)
        self.wait_for(self.was_refused(who="user/" + hers, what="capture.start"), "in the audit log")
        why = next(line["why"] for line in self.audit() if line["outcome"] == "refused" and line["what"] == "capture.start")
        self.assertIn("--keep-bytes-each", why)
        # an operator's capture of her run is hers, too; his own is not
        self.assertEqual(self.ask(OPERATOR, "capture", "--run", "hers", "--steps", "2", code=None).returncode, 3)
        self.ask(his, "capture", "--steps", "2", "--no-report")
        counters = json.loads(self.ask(OPERATOR, "counters", "--json").stdout)
        self.assertIn("server.forbidden", json.dumps(counters))
        for capture in self.captures_of(hers):
            self.ask(hers, "rm", capture)
        self.wait_for(lambda: self.ask(hers, "capture", "--steps", "2", "--no-report", code=None).returncode == 0, "there is room again")


def trace(rank, name):
    """A trace as Kineto writes it, of one rank and with one name that tells it from others."""
    events = [{"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": 1000.0 + i, "dur": 0.5} for i in range(20)]
    return json.dumps({"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": 8}, "traceEvents": events})


def swap(folder, secret, text, rounds):
    """A user writes his own trace, and swaps it, or the folder it lies in, for a link to somebody else's, over and over."""
    job, moved = folder + "/job", folder + "/.moved"
    for i in range(rounds):
        pause = 0.0005 * (i % 7)
        try:
            with open(job + "/.part", "w", encoding="utf-8") as file:
                file.write(text + " " * (i % 97))
            os.rename(job + "/.part", job + "/trace.json")
            if i % 2:
                os.rename(job, moved)
                os.symlink(secret, job)
                time.sleep(pause)
                os.unlink(job)
                os.rename(moved, job)
            else:
                os.symlink(secret + "/trace.json", job + "/.link")
                os.rename(job + "/.link", job + "/trace.json")
                time.sleep(pause)
                os.unlink(job + "/trace.json")
        except FileNotFoundError:
            pass  # it was taken and removed


def as_user(user, what, *arguments):
    """Runs it in a child that is the user. Its exit code."""
    child = os.fork()
    if not child:
        code = 1
        try:
            os.setgroups([])
            os.setgid(user.pw_gid)
            os.setuid(user.pw_uid)
            what(*arguments)
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@unittest.skipUnless(os.geteuid() == 0, "root plays users")
class WatchedFolders(unittest.TestCase):
    """A collector of root watches a user's folder. What he may not read or remove himself is not read or removed for him."""

    ROUNDS = 1000

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="rs-watched-")
        os.chmod(self.folder, 0o755)
        self.processes = []
        self.user = pwd.getpwnam(USERS["his"])
        for name, owner in (("traces", self.user.pw_uid), ("secret", 0), ("hers", pwd.getpwnam(USERS["hers"]).pw_uid)):
            os.mkdir(self.path(name))
            os.chown(self.path(name), owner, -1)
        os.chmod(self.path("secret"), 0o700)
        os.mkdir(self.path("traces/job"))
        os.chown(self.path("traces/job"), self.user.pw_uid, -1)
        for rank, name in ((7, "secret"), (6, "hers")):
            with open(self.path(name, "trace.json"), "w", encoding="utf-8") as file:
                file.write(trace(rank, "of_" + name))
            os.chmod(self.path(name, "trace.json"), 0o600)
            os.chown(self.path(name, "trace.json"), os.stat(self.path(name)).st_uid, -1)
        self.address = "unix:" + self.path("a.sock")

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def tearDown(self):
        for process in reversed(self.processes):
            process.terminate()
            process.wait(120)
        if self._outcome.success:
            shutil.rmtree(self.folder)
        else:
            print("what was said is in", self.folder, file=sys.stderr)

    def start(self, *words):
        with open(self.path(words[0] + ".log"), "ab") as log:
            environment = {**os.environ, "RANKSCOPE_CONFIG": "", "RANKSCOPE_RUNTIME_DIR": self.path("run")}
            self.processes.append(subprocess.Popen([PROGRAM, *words], env=environment, stdout=log, stderr=log))

    def wait_for(self, is_it, what, seconds=300):
        until = time.monotonic() + seconds
        while not is_it():
            self.assertLess(time.monotonic(), until, "never: " + what)
            time.sleep(0.1)

    def ranks_stored(self):
        listed = subprocess.run([PROGRAM, "capture", "list", "--connect", self.address, "--json"], capture_output=True, text=True, check=False)
        if listed.returncode or not listed.stdout.strip():
            return None
        stored = set()
        for capture in json.loads(listed.stdout)["captures"]:
            shown = subprocess.run([PROGRAM, "capture", "show", capture["id"], "--connect", self.address, "--json"], capture_output=True,
                                   text=True, check=False)
            stored |= {member["rank"] for member in json.loads(shown.stdout)["ranks"]}
        return stored

    def test_links_that_are_swapped_in_lead_nowhere(self):
        self.start("aggregator", "--listen", self.address, "--data", self.path("data"))
        self.wait_for(lambda: self.ranks_stored() is not None, "the aggregator answers")
        self.start("collector", "--connect", self.address, "--spool", self.path("spool"), "--watch", self.path("traces"), "--no-native",
                   "--no-kineto", "--no-ascend", "--no-mindspore", "--settle", "1s", "--discard-raw", "-v")
        for victim in ("secret", "hers"):
            before = os.stat(self.path(victim, "trace.json"))
            self.assertEqual(as_user(self.user, swap, self.path("traces"), self.path(victim), trace(1, "of_his"), self.ROUNDS), 0)
            after = os.stat(self.path(victim, "trace.json"))
            self.assertEqual((before.st_ino, before.st_size), (after.st_ino, after.st_size), victim)
        # what is his own, and stays, is taken and goes
        last = self.path("traces", "job", "last.json")
        with open(self.path("traces", "job", ".part"), "w", encoding="utf-8") as file:
            file.write(trace(2, "of_his"))
        os.chown(self.path("traces", "job", ".part"), self.user.pw_uid, -1)
        os.rename(self.path("traces", "job", ".part"), last)
        self.wait_for(lambda: not os.path.exists(last), "his own is read and removed")
        self.wait_for(lambda: 2 in self.ranks_stored(), "it is stored")
        self.assertEqual(self.ranks_stored() - {1, 2}, set(), "what somebody else may not read was read for him")
        self.assertTrue(os.path.exists(self.path("secret", "trace.json")) and os.path.exists(self.path("hers", "trace.json")))


if __name__ == "__main__":
    unittest_run.main()
