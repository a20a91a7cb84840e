#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`rankscope config`: the file jobs watch, as a user handles it, and as a watcher sees it while it changes."""
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time
import unittest

import unittest_run

RANKSCOPE = os.environ.get("RANKSCOPE", "build/dev/rankscope")
TOP = ["activities", "prof_dir", "analyse", "record_shapes", "profile_memory", "with_stack", "with_flops",
       "with_modules", "active", "warmup", "start_step", "is_rank", "rank_list", "experimental_config"]
INNER = ["profiler_level", "aic_metrics", "l2_cache", "op_attr", "gc_detect_threshold",
         "data_simplification", "record_op_args", "export_type", "mstx", "mstx_domain_include",
         "mstx_domain_exclude", "host_sys", "sys_io", "sys_interconnection"]


def config(*words):
    return subprocess.run([RANKSCOPE, "config", *words], capture_output=True, text=True, check=False)


class Config(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="rs-e2e-")
        self.path = os.path.join(self.folder, "profiler_config.json")

    def tearDown(self):
        shutil.rmtree(self.folder)

    def ok(self, *words):
        done = config(*words)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        return done.stdout

    def load(self):
        with open(self.path, encoding="utf-8") as file:
            return json.load(file)

    def write(self, text):
        with open(self.path, "w", encoding="utf-8") as file:
            file.write(text)

    def test_template_has_the_documented_keys_in_their_order(self):
        self.ok("init", "-o", self.folder)  # a folder: the file of the usual name in it
        self.assertEqual(list(self.load()), TOP)
        self.assertEqual(list(self.load()["experimental_config"]), INNER)
        self.assertEqual(json.loads(self.ok("init")), self.load())
        self.assertIn("\n    \"prof_dir\": \"./\",\n", self.ok("init"))
        self.assertEqual(os.stat(self.path).st_mode & 0o002, 0)

    def test_template_of_mindspore(self):
        self.ok("init", "--framework", "mindspore", "-o", self.path)
        document = self.load()
        self.assertEqual((document["start_step"], document["stop_step"]), (-1, -1))
        self.assertNotIn("rank_list", document)
        self.assertIn("valid mindspore", self.ok("validate", self.path))

    def test_init_never_overwrites(self):
        self.write("mine")
        done = config("init", "-o", self.path)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--force", done.stderr)
        with open(self.path, encoding="utf-8") as file:
            self.assertEqual(file.read(), "mine")
        self.ok("init", "-o", self.path, "--force")
        self.assertEqual(list(self.load()), TOP)

    def test_every_error_has_its_place(self):
        self.write('{\n  "activ": 1,\n  "active": "2",\n  "experimental_config": {\n'
                   '    "profiler_level": "Level7"\n  },\n  "rank_list": [0, -3]\n}\n')
        done = config("validate", self.path)
        self.assertEqual(done.returncode, 2)
        for place in (":2:3: error: activ", ":3:13: error: active", ":5:23: error: experimental_config",
                      ":7:20: error: rank_list"):
            self.assertIn(self.path + place, done.stdout)
        self.assertIn("4 errors", done.stdout)
        document = json.loads(config("validate", "--json", self.path).stdout)
        self.assertFalse(document["valid"])
        errors = [note for note in document["notes"] if note["severity"] == "error"]
        self.assertEqual([(note["line"], note["column"]) for note in errors],
                         [(2, 3), (3, 13), (5, 23), (7, 20)])

    def test_what_is_not_a_file_of_this_kind(self):
        for text, word in (("", "empty"), ("{", "1:1: error"), ("[1]", "a list"),
                           ("{\n \"active\": 1,\n}", ":3:1: error")):
            self.write(text)
            done = config("validate", self.path)
            self.assertEqual(done.returncode, 2, text)
            self.assertIn(word, done.stdout)
            self.assertEqual(config("set", self.path, "active=2").returncode, 2)
            with open(self.path, encoding="utf-8") as file:
                self.assertEqual(file.read(), text)
        self.assertEqual(config("validate", self.path + ".none").returncode, 2)

    def test_nothing_captured_is_said(self):
        self.ok("init", "-o", self.path)
        self.assertIn("start-never", self.ok("validate", self.path))
        self.ok("set", self.path, "start_step=9", "is_rank=true", "rank_list=")
        self.assertIn("rank-list-empty", self.ok("validate", self.path))

    def test_set_changes_what_it_names(self):
        text = '{ "active":1,\n\t"warmup" : 1, "start_step": 5,\n  "metadata": {"x": 0.10} }\n'
        self.write(text)
        self.ok("set", self.path, "active=3", "rank_list=1,4-6", "is_rank=true", "profiler_level=Level1")
        with open(self.path, encoding="utf-8") as file:
            after = file.read()
        self.assertTrue(after.startswith('{ "active":3,\n\t"warmup" : 1, "start_step": 5,\n'
                                         '  "metadata": {"x": 0.10},'), after)
        self.assertEqual(self.load()["rank_list"], [1, 4, 5, 6])
        self.assertEqual(self.load()["experimental_config"], {"profiler_level": "Level1"})

    def test_set_refuses_what_is_wrong_and_leaves_the_file(self):
        self.ok("init", "-o", self.path)
        before = (open(self.path, "rb").read(), os.stat(self.path).st_mtime_ns)
        for words in (("active=0",), ("actve=1",), ("prof_dir=../x", "active=2"), ("active",),
                      ("experimental_config.gc_detect_threshold=-1",)):
            done = config("set", self.path, *words)
            self.assertEqual(done.returncode, 2, words)
        self.assertEqual(before, (open(self.path, "rb").read(), os.stat(self.path).st_mtime_ns))
        self.assertEqual(os.listdir(self.folder), ["profiler_config.json"])
        self.assertIn("did you mean \"active\"", config("set", self.path, "actve=1").stderr)

    def test_set_refuses_a_link(self):
        target = os.path.join(self.folder, "target")
        self.ok("init", "-o", target)
        os.symlink(target, self.path)
        self.assertEqual(config("set", self.path, "active=2").returncode, 3)
        self.assertTrue(os.path.islink(self.path))

    def test_each_version_is_newer_in_whole_seconds(self):
        self.ok("init", "-o", self.path)
        last = int(os.stat(self.path).st_mtime)
        for step in range(1, 6):
            self.ok("set", self.path, f"start_step={step}", "warmup=1")
            now = int(os.stat(self.path).st_mtime)
            self.assertGreater(now, last)
            last = now

    def test_a_watcher_never_sees_half_a_file(self):
        self.ok("init", "-o", self.path)
        torn, seen, stop = [], set(), threading.Event()

        def watch():
            while not stop.is_set():
                with open(self.path, "rb") as file:
                    data = file.read()
                try:
                    seen.add(json.loads(data)["start_step"])
                except ValueError:
                    torn.append(data)

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            for step in range(1, 21):
                self.ok("set", self.path, f"start_step={step}", "warmup=1")
                deadline = time.monotonic() + 5
                while step not in seen and time.monotonic() < deadline:
                    time.sleep(0.001)
        finally:
            stop.set()
            thread.join()
        self.assertEqual(torn, [])
        self.assertEqual(seen, set(range(21)))

    def test_the_request_fits_its_schema(self):
        try:
            import jsonschema  # pylint: disable=import-outside-toplevel
        except ImportError:
            self.skipTest("jsonschema is not installed")
        with open("docs/schema/capture_request.schema.json", encoding="utf-8") as file:
            schema = json.load(file)
        jsonschema.Draft202012Validator.check_schema(schema)
        self.ok("init", "-o", self.path)
        self.ok("set", self.path, "start_step=7", "warmup=1", "activities=CPU", "host_sys=cpu,mem",
                "gc_detect_threshold=0.5", "metadata.a={\"b\": [1]}", "mstx=true", "mstx_domain_include=x,y")
        request = json.loads(self.ok("validate", "--json", self.path))["request"]
        jsonschema.validate(request, schema)
        self.assertEqual(request["metadata"], {"a": {"b": [1]}})
        request["schedule"]["actve"] = 1
        with self.assertRaises(jsonschema.ValidationError):
            jsonschema.validate(request, schema)

    def test_help_and_slips(self):
        self.assertIn("validate", self.ok("--help"))
        for word in ("init", "validate", "set"):
            self.assertIn("usage: rankscope config " + word, self.ok(word, "--help"))
        self.assertEqual(config().returncode, 2)
        self.assertEqual(config("frobnicate").returncode, 2)
        self.assertEqual(config("init", "--framework", "jax").returncode, 2)


if __name__ == "__main__":
    unittest_run.main(verbosity=2)
