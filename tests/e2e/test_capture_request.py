#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`rankscope capture` as its user knows it: one request from flags, files and --set; what every rank is answered; ranks chosen
by expressions; a second request that waits, over a restart of the aggregator too; Ctrl-C."""
import glob
import json
import os
import re
import signal
import stat
import subprocess
import tempfile
import time
import unittest

import unittest_run

RANKSCOPE = os.path.abspath(os.environ.get("RANKSCOPE", "build/dev/rankscope"))
MINITRAIN = os.path.join(os.path.dirname(RANKSCOPE), "minitrain")


def alone(*words):
    """Without an aggregator anywhere near."""
    return subprocess.run([RANKSCOPE, "capture", "--connect", "unix:/nowhere/aggregator.sock", *words], capture_output=True,
                          text=True, check=False, timeout=60)


class BeforeAnybodyIsAsked(unittest.TestCase):
    def test_what_is_wrong_is_said_with_every_rule(self):
        done = alone("--ranks", "0,a", "--steps", "1", "--set", "prof_dir=/a/../b")
        self.assertEqual(done.returncode, 2)
        for word in ("ranks-expression", "column 3", "prof-dir-path"):
            self.assertIn(word, done.stderr)
        self.assertEqual(alone("--ranks", "0,a").returncode, 2)
        done = alone("--steps", "1", "--set", "schedule.activ=2", "--set", "force=maybe")
        self.assertEqual(done.returncode, 2)
        self.assertIn('schedule.active', done.stderr)  # the nearest is named
        self.assertIn("force: the value", done.stderr)
        self.assertEqual(alone("--steps", "1", "--set", "x").returncode, 2)
        self.assertEqual(alone("--steps", "1", "--start-step", "0").returncode, 2)
        self.assertEqual(alone("--steps", "1", "--on-busy", "wait").returncode, 2)

    def test_a_limit_that_force_overrides_is_refused(self):
        done = alone("--duration", "6m")
        self.assertEqual(done.returncode, 3)
        self.assertIn("duration-force", done.stderr)
        self.assertEqual(alone("--duration", "6m", "--force").returncode, 4)  # so far; nobody answers

    def test_a_file_is_reported_with_line_and_column(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "profiler_config.json")
            with open(path, "w", encoding="utf-8") as file:
                file.write('{\n  "activ": 2\n}\n')
            done = alone("--config", path)
            self.assertEqual(done.returncode, 2)
            self.assertRegex(done.stderr, re.escape(path) + r":2:3: error: activ: there is no such key")
            self.assertEqual(alone("--config", path, "--request", path).returncode, 2)
            self.assertEqual(alone("--config", os.path.join(folder, "no")).returncode, 2)


class WithARun(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(dir="/tmp", prefix="rs-request-")
        self.environment = dict(os.environ, RANKSCOPE_RUNTIME_DIR=self.folder.name)
        self.roles = os.path.join(self.folder.name, "roles.json")
        with open(self.roles, "w", encoding="utf-8") as file:
            json.dump({"tp": 2, "pp": 2}, file)
        self.asking = []
        self.start_aggregator()
        self.collector = subprocess.Popen([RANKSCOPE, "collector", "--spool", os.path.join(self.folder.name, "spool"),
                                           "--no-kineto"], env=self.environment, umask=0)  # as careless as can be
        self.until(lambda: os.path.exists(os.path.join(self.folder.name, "collector.sock")), "the collector's socket")
        self.job = subprocess.Popen([MINITRAIN, "--dp", "2", "--pp", "2", "--steps", "0", "--hidden", "512"],
                                    env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.assertEqual(self.rankscope("ranks", "--wait", "4", "--min-step", "3", "-q").returncode, 0)

    def tearDown(self):
        for process in (self.job, self.collector, self.aggregator):
            process.send_signal(signal.SIGTERM)
        for process in (self.job, self.collector, self.aggregator):
            process.wait(120)
        self.aggregator.stdout.close()
        for process in self.asking:
            process.wait(120)
        self.folder.cleanup()

    def start_aggregator(self, roles=True):
        words = ["--roles", self.roles] if roles else []
        self.aggregator = subprocess.Popen([RANKSCOPE, "aggregator", "--data", os.path.join(self.folder.name, "data"), *words],
                                           env=self.environment, stdout=subprocess.PIPE, text=True, umask=0)
        self.assertIn("listening", self.aggregator.stdout.readline())

    def until(self, holds, what, seconds=300):
        end = time.monotonic() + seconds
        while not holds():
            self.assertLess(time.monotonic(), end, what)
            time.sleep(0.05)

    def rankscope(self, *words, code=None):
        # Other jobs of this machine may be seen by our collector, too.
        if words[0] == "ranks" or (words[0] == "capture" and words[1] not in ("show", "stop", "wait")):
            words = (*words, "--run", "minitrain")
        done = subprocess.run([RANKSCOPE, *words], capture_output=True, text=True, check=False, timeout=120, env=self.environment, umask=0)
        if code is not None:
            self.assertEqual(done.returncode, code, f"{words}\n{done.stdout}{done.stderr}")
        return done

    def captures(self):
        listed = json.loads(self.rankscope("capture", "list", "--json", code=0).stdout)["captures"]
        return {capture["id"]: capture for capture in listed}

    def start(self, *words):
        """In the background; its id as soon as it is told."""
        process = subprocess.Popen([RANKSCOPE, "capture", "--run", "minitrain", "--no-report", "--json", *words], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, env=self.environment)
        self.asking.append(process)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        for line in process.stderr:
            told = re.match(r"(\d{8}-\d{6}-[0-9a-f]{6,10}) ", line)
            if told:
                return process, told.group(1)
        self.fail(f"{words}: nothing was told")

    def test_a_dry_run_answers_for_every_rank_and_starts_nothing(self):
        done = self.rankscope("capture", "--steps", "2", "--with-stack", "--dry-run", code=0)
        self.assertIn("ranks 0-3: ineffective", done.stdout)
        self.assertIn("librankscope", done.stdout)
        answer = json.loads(self.rankscope("capture", "--steps", "2", "--ranks", "1,7-8", "--dry-run", "--json", code=1).stdout)
        self.assertEqual([(rank["rank"], rank["verdict"]) for rank in answer["ranks"]], [(1, "accepted")])
        self.assertEqual(answer["unknown_ranks"], [[7, 8]])
        done = self.rankscope("capture", "--steps", "2", "--start-step", "1", "--set", "activities=NPU", "--dry-run", code=3)
        for rule in ("start-passed", "not-honoured"):
            self.assertIn(rule, done.stdout)
        done = self.rankscope("capture", "--steps", "2", "--set", "is_rank=true", "--dry-run", code=3)
        self.assertIn("nothing will be captured", done.stderr)
        self.assertEqual(self.captures(), {})

    def test_what_ranks_take_of_their_host_is_sampled(self):
        """Without perf, iotop, ltrace or rights beyond those of the ranks' own user."""
        words = ["--duration", "1500ms", "--set", "experimental.host_sys=cpu,mem,disk,network,osrt", "--set", "sample_hz=20", "--wait", "raw"]
        answer = json.loads(self.rankscope("capture", *words, "--dry-run", "--json", code=0).stdout)
        for rank in answer["ranks"]:
            self.assertEqual(rank["verdict"], "ineffective")
            self.assertEqual(["osrt" in note["detail"] for note in rank["notes"]], [True])  # and all else is done
        done = self.rankscope("capture", *words, "--no-report", "--json", code=0)
        capture = json.loads(done.stdout)["id"]
        rows = json.loads(self.rankscope("table", capture, "counter", "--ranks", "0-3", "--json", code=0).stdout)["rows"]
        spans = json.loads(self.rankscope("table", capture, "span", "--ranks", "0-3", "--json", code=0).stdout)["rows"]
        first, last = min(row["start_ns"] for row in spans), max(row["end_ns"] for row in spans)
        for rank in range(4):
            values = {}
            for row in (row for row in rows if row["rank"] == rank):
                values.setdefault(row["name"], []).append(row["value"])
                self.assertEqual(json.loads(row["args"]), {"value": row["value"]})
                self.assertTrue(first - 10**9 < row["at_ns"] < last + 10**9)
            self.assertEqual(sorted(values), ["host network receive B/s", "host network transmit B/s", "process CPU %",
                                              "process disk read B/s", "process disk write B/s", "process memory bytes", "process swap bytes"])
            self.assertGreater(max(values["process CPU %"]), 0)
            self.assertGreater(min(values["process memory bytes"]), 100_000)
            self.assertGreater(len(values["process CPU %"]), 2)
        # They are curves of an exported trace.
        out = os.path.join(self.folder.name, "ascend")
        self.rankscope("export", "ascend", capture, "--rank", "0", "-o", out, "-q", code=0)
        (view,) = glob.glob(os.path.join(out, "*_ascend_pt/ASCEND_PROFILER_OUTPUT/trace_view.json"))
        with open(view, encoding="utf-8") as file:
            curves = [(event["name"], event["args"]["value"]) for event in json.load(file) if event["ph"] == "C"]
        self.assertEqual(sorted(curves), sorted((row["name"], row["value"]) for row in rows if row["rank"] == 0))
        # Nobody who did not ask has any.
        plain = json.loads(self.rankscope("capture", "--steps", "2", "--no-report", "--json", "--wait", "raw", code=0).stdout)["id"]
        self.assertEqual(json.loads(self.rankscope("table", plain, "counter", "--ranks", "0-3", "--json", code=0).stdout)["rows"], [])

    def test_nobody_else_may_write_whatever_the_umask_is(self):
        def inside(name):
            return os.path.join(self.folder.name, name)

        done = self.rankscope("capture", "--steps", "2", "--wait", "raw", "--json", "--no-report", code=0)
        capture = json.loads(done.stdout)["id"]
        self.rankscope("report", capture, "-o", inside("out"), code=0)
        self.rankscope("export", "ascend", capture, "-o", inside("ascend"), code=0)
        self.rankscope("config", "init", "-o", inside("config.json"), code=0)
        self.rankscope("config", "set", inside("config.json"), "active=2", code=0)
        found = {}
        for folder, folders, files in os.walk(self.folder.name):
            for name in folders + files:
                path = os.path.join(folder, name)
                if not os.path.islink(path) and not stat.S_ISSOCK(os.stat(path).st_mode):
                    found[os.path.relpath(path, self.folder.name)] = os.stat(path).st_mode
        for name in ("out/report.json", "out/analysis.db", "config.json", f"data/captures/{capture}", "spool", "data/audit.jsonl"):
            self.assertIn(name, found)
        self.assertEqual({name: oct(mode) for name, mode in found.items() if mode & stat.S_IWOTH}, {})

    def test_what_programs_read_is_what_the_schemas_say(self):
        try:
            import jsonschema  # pylint: disable=import-outside-toplevel
        except ImportError:
            self.skipTest("jsonschema is not installed")

        def check(name, *words, code=0):
            printed = json.loads(self.rankscope(*words, "--json", code=code).stdout)
            with open(f"docs/schema/{name}.schema.json", encoding="utf-8") as file:
                schema = json.load(file)
            jsonschema.Draft202012Validator.check_schema(schema)
            jsonschema.validate(printed, schema)
            return printed

        self.assertEqual(len(check("ranks", "ranks")["ranks"]), 4)
        answer = check("capture_answer", "capture", "--steps", "2", "--ranks", "1,7-8", "--with-stack", "--dry-run", code=1)
        self.assertTrue(answer["notes"] and answer["ranks"][0]["notes"])
        one = check("capture", "capture", "--steps", "2", "--ranks", "1,7", "--no-report", code=1)
        shown = check("capture", "capture", "show", one["id"], code=1)
        self.assertEqual((shown["schema_version"], shown["id"]), (1, one["id"]))
        self.assertEqual(len(check("capture_list", "capture", "list")["captures"]), 1)

    def test_a_name_is_used_once_and_a_long_request_is_kept_or_refused(self):
        path = os.path.join(self.folder.name, "request.json")

        def write(name, count):
            with open(path, "w", encoding="utf-8") as file:
                json.dump({"capture_id": name, "start_step": -1, "is_rank": True, "rank_list": list(range(count))}, file,
                          separators=(",", ":"))

        write("long-1", 130000)  # 0.8 MB as it stands, nearly two when every rank has a line of its own
        self.rankscope("capture", "--request", path, "--no-report", "-q", code=1)
        shown = json.loads(self.rankscope("capture", "show", "long-1", "--json", code=1).stdout)
        self.assertEqual(len(shown["request"]["rank_list"]), 130000)
        done = self.rankscope("capture", "--steps", "1", "--set", "capture_id=long-1", code=2)
        self.assertIn("there is a capture long-1 already", done.stderr)
        write("..", 4)
        self.assertIn("capture-id", self.rankscope("capture", "--request", path, code=2).stderr)
        self.assertEqual(list(self.captures()), ["long-1"])

    def test_expressions_choose_and_what_is_not_there_is_listed(self):
        for expression, ranks in (("tp=1 & pp=0", [1]), ("pp=last", [2, 3]), ("one-per-node", [0]), ("!0-2", [3])):
            table = json.loads(self.rankscope("ranks", "--ranks", expression, "--json", code=0).stdout)["ranks"]
            self.assertEqual([rank["rank"] for rank in table], ranks, expression)
        self.assertEqual(table[0]["roles"], {"dp": 0, "tp": 1, "pp": 1, "ep": 0, "cp": 0})
        self.assertIn("tp=1 pp=1", self.rankscope("ranks", "--ranks", "3", code=0).stdout)
        done = self.rankscope("ranks", "--ranks", "0,77", code=1)
        self.assertIn("has no rank 77", done.stderr)
        self.assertEqual(self.rankscope("ranks", "--ranks", "(0").returncode, 2)
        facts = json.loads(self.rankscope("capture", "--steps", "2", "--ranks", "tp=1 & !pp=0", "--no-report", "--json",
                                          code=0).stdout)
        self.assertEqual([rank["rank"] for rank in facts["ranks"]], [3])
        facts = json.loads(self.rankscope("capture", "--steps", "2", "--ranks", "0,9", "--no-report", "--json", code=1).stdout)
        self.assertEqual([(rank["rank"], rank["state"]) for rank in facts["ranks"]], [(0, "done"), (9, "refused")])
        self.assertIn("no such live rank", facts["ranks"][1]["reason"])

    def test_ranks_tell_their_roles(self):
        self.aggregator.send_signal(signal.SIGTERM)
        self.aggregator.wait(120)
        self.aggregator.stdout.close()
        self.start_aggregator(roles=False)
        self.assertEqual(self.rankscope("ranks", "--wait", "4", "-q").returncode, 0)
        self.until(lambda: self.rankscope("ranks", "--ranks", "pp=1 & dp=0").returncode == 0, "roles of the ranks")
        table = json.loads(self.rankscope("ranks", "--ranks", "pp=1 & dp=0", "--json", code=0).stdout)["ranks"]
        self.assertEqual([(rank["rank"], rank["roles"]) for rank in table], [(2, {"dp": 0, "pp": 1})])
        self.assertIn("the tp of no rank is known", self.rankscope("ranks", "--ranks", "tp=1", code=1).stderr)

    def test_the_request_is_kept_and_can_be_asked_again(self):
        config = os.path.join(self.folder.name, "profiler_config.json")
        self.rankscope("config", "init", "-o", config, code=0)
        done = self.rankscope("capture", "--config", config, "--no-report", code=3)
        self.assertIn("start_step is 0", done.stderr)
        facts = json.loads(self.rankscope("capture", "--config", config, "--steps", "2", "--start-step", "next", "--set",
                                          "schedule.warmup=3", "--set", "metadata={\"lr\": 0.5}", "--no-report", "--json",
                                          code=0).stdout)
        shown = json.loads(self.rankscope("capture", "show", facts["id"], "--json", code=0).stdout)
        self.assertEqual(shown["request"], facts["request"])
        self.assertEqual(shown["request"]["origin"], "config_file")
        self.assertEqual(shown["request"]["schedule"], {"wait": 0, "warmup": 3, "active": 2, "repeat": 1, "skip_first": 0})
        self.assertEqual(shown["request"]["metadata"], {"lr": 0.5})
        out = os.path.join(self.folder.name, "out")
        self.rankscope("report", facts["directory"], "-o", out, "-q", code=0)
        with open(os.path.join(out, "manifest.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file)["request"], facts["request"])
        document = os.path.join(self.folder.name, "request.json")
        with open(document, "w", encoding="utf-8") as file:
            json.dump(shown["request"], file)
        again = json.loads(self.rankscope("capture", "--request", document, "--ranks", "2", "--set", "capture_id=again",
                                          "--no-report", "--json", code=0).stdout)
        self.assertEqual((again["id"], again["steps"], len(again["ranks"])), ("again", 2, 1))
        self.assertEqual(again["request"]["metadata"], {"lr": 0.5})
        # a name is taken once
        self.assertEqual(self.rankscope("capture", "--request", document, "--set", "capture_id=again").returncode, 2)

    def test_a_second_request_waits_and_a_third_is_refused(self):
        first, first_id = self.start("--steps", "600")
        second, second_id = self.start("--steps", "2", "--ranks", "1")
        listed = self.captures()
        self.assertEqual(listed[second_id]["state"], "queued")
        self.assertIn(first_id, listed[second_id]["reason"])
        done = self.rankscope("capture", "--steps", "2", "--ranks", "1", code=3)
        self.assertIn(f"{second_id} waits for its turn", done.stderr)
        self.assertEqual(self.rankscope("capture", "--steps", "2", "--on-busy", "refuse").returncode, 3)
        self.until(lambda: all(rank["steps_done"] for rank in self.captures()[first_id]["ranks"]), "all record")
        self.rankscope("capture", "stop", first_id, code=0)
        self.assertEqual(second.wait(60), 0)  # by itself
        self.assertEqual(json.loads(second.stdout.read())["state"], "complete")
        self.assertEqual(first.wait(60), 1)
        self.assertEqual(self.captures()[first_id]["state"], "stopped")

    def test_what_waits_can_be_dropped_and_outlives_the_aggregator(self):
        _, first_id = self.start("--steps", "600")
        second, second_id = self.start("--steps", "2", "--ranks", "1")
        self.rankscope("capture", "stop", second_id, code=0)
        self.assertEqual(second.wait(60), 1)
        self.assertIn("stopped by request before it began", json.loads(second.stdout.read())["reason"])
        _, third_id = self.start("--steps", "3", "--ranks", "2-3")
        self.aggregator.kill()
        self.aggregator.wait()
        self.aggregator.stdout.close()
        self.start_aggregator()
        self.assertEqual(self.captures()[third_id]["state"], "queued")
        self.rankscope("capture", "stop", first_id, code=0)
        facts = json.loads(self.rankscope("capture", "wait", third_id, "--no-report", "--json", code=0).stdout)
        self.assertEqual((facts["state"], facts["steps"], len(facts["ranks"])), ("complete", 3, 2))

    def test_an_interrupt_leaves_it_or_ends_it_as_asked(self):
        process, capture = self.start("--steps", "400")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(120), 130)
        self.assertIn(f"capture {capture} goes on; come back with: rankscope capture wait {capture}", process.stderr.read())
        self.assertIn(self.captures()[capture]["state"], ("preparing", "recording"))
        self.rankscope("capture", "stop", capture, code=0)
        self.rankscope("capture", "wait", capture, "-q", "--no-report", code=1)
        process, capture = self.start("--steps", "100000", "--cancel-on-interrupt")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(120), 130)
        self.assertIn("is being ended", process.stderr.read())
        self.rankscope("capture", "wait", capture, "-q", "--no-report", code=1)
        self.assertIn(self.captures()[capture]["state"], ("partial", "failed"))

    def test_who_ended_it_is_told_with_every_rank(self):
        facts = json.loads(self.rankscope("capture", "--steps", "100000", "--set", "max_duration_s=1", "--wait", "raw", "--no-report", "--json",
                                          code=1).stdout)
        self.assertEqual({(rank["state"], rank["reason"].split(" (")[0]) for rank in facts["ranks"]}, {("partial", "stopped after 1 s")})


if __name__ == "__main__":
    unittest_run.main(verbosity=2)
