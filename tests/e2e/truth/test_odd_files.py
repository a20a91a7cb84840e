#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pipes, devices and links under names that a profiler uses: reported, never waited for, never followed unasked.

Tried on two made ranks (tests/support/ascend_inputs.py), and where ../shared/data is, on two real ones.

    RANKSCOPE=build/dev/rankscope tests/e2e/truth/test_odd_files.py
"""
import glob
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../support"))
import ascend_inputs  # noqa: E402

PROGRAM = os.path.abspath(os.environ.get("RANKSCOPE", "build/dev/rankscope"))
READ = {"db": ["analysis.db", "ascend_pytorch_profiler_1.db", "profiler_info_1.json"],
        "text": ["communication.json", "communication_matrix.json", "step_trace_time.csv", "trace_view.json",
                 "kernel_details.csv", "profiler_info_1.json", "profiler_metadata.json"]}
LONG_S = 300  # only against waiting for ever


class Made(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.kept = tempfile.mkdtemp(prefix="rs-odd-")
        cls.take_inputs()

    @classmethod
    def take_inputs(cls):
        cls.pair = ascend_inputs.made_pair(cls.kept)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.kept)

    def setUp(self):
        self.work = tempfile.mkdtemp(prefix="rs-odd-")

    def tearDown(self):
        shutil.rmtree(self.work)

    def copy(self, form):
        tree = os.path.join(self.work, form)
        shutil.rmtree(tree, ignore_errors=True)
        shutil.copytree(self.pair[form], tree, copy_function=shutil.copyfile)
        for folder, _, _ in os.walk(tree):
            os.chmod(folder, 0o755)
        return tree

    def run_verb(self, verb, *arguments):
        out = os.path.join(self.work, "out")
        shutil.rmtree(out, ignore_errors=True)
        done = subprocess.run([PROGRAM, verb, *arguments, "-o", out, "--quiet"], capture_output=True, check=False,
                              timeout=LONG_S, stdin=subprocess.DEVNULL)
        told = done.stderr.decode("utf-8")
        if os.path.exists(os.path.join(out, "manifest.json")):
            with open(os.path.join(out, "manifest.json"), encoding="utf-8") as file:
                told += file.read()
        return done.returncode, told, out

    def test_modes_whatever_the_umask(self):
        """Of the official files, of recipes and of exports, too."""
        for form, verb, more in (("db", ["cluster"], ["--form", "both"]), ("text", ["cluster"], []),
                                 ("db", ["recipe", "hccl_sum"], []),
                                 ("db", ["recipe", "hccl_sum"], ["--export-type", "text"]),
                                 ("db", ["export", "ascend"], [])):
            for umask in (0, 0o77):
                out = os.path.join(self.work, "out", "deep")
                shutil.rmtree(os.path.dirname(out), ignore_errors=True)
                done = subprocess.run([PROGRAM, *verb, self.pair[form], "-o", out, *more], capture_output=True,
                                      check=False, stdin=subprocess.DEVNULL, preexec_fn=lambda mask=umask: os.umask(mask))
                self.assertIn(done.returncode, (0, 1), done.stderr)
                count = 0
                for place, _, files in os.walk(os.path.dirname(out)):
                    self.assertEqual(os.stat(place).st_mode & 0o7777, 0o750, (verb, place))
                    for name in files:
                        self.assertEqual(os.stat(os.path.join(place, name)).st_mode & 0o7777, 0o640, (verb, name))
                        count += 1
                self.assertGreater(count, 0, verb)

    def replace(self, make):
        for form, names in READ.items():
            for name in names:
                tree = self.copy(form)
                found = glob.glob(os.path.join(tree, "rank1_ascend_pt", "**", name), recursive=True)
                if not found:
                    continue
                os.unlink(found[0])
                make(found[0])
                code, told, _ = self.run_verb("analyse", tree)
                self.assertEqual(code, 1, (form, name, told))
                self.assertIn(name, told)
                if name not in ("trace_view.json", "kernel_details.csv", "ascend_pytorch_profiler_1.db"):
                    code, told, _ = self.run_verb("cluster", tree)
                    self.assertIn(code, (1, 2), (form, name, told))
                    self.assertIn(name, told)

    def test_pipes(self):
        self.replace(os.mkfifo)

    def test_devices(self):
        self.replace(lambda path: os.symlink("/dev/zero", path))

    def test_a_linked_rank_is_reported_and_read_when_it_is_named(self):
        tree = self.copy("db")
        elsewhere = os.path.join(self.work, "elsewhere_ascend_pt")
        os.rename(os.path.join(tree, "rank1_ascend_pt"), elsewhere)
        link = os.path.join(tree, "rank1_ascend_pt")
        os.symlink(elsewhere, link)
        for verb in ("analyse", "cluster"):
            code, told, _ = self.run_verb(verb, tree)
            self.assertEqual(code, 1, told)
            self.assertIn(link, told)
            self.assertIn("behind a link", told)
        code, told, out = self.run_verb("analyse", os.path.join(tree, "rank0_ascend_pt"), link)
        self.assertEqual(code, 0, told)
        with open(os.path.join(out, "manifest.json"), encoding="utf-8") as file:
            self.assertEqual(sorted(one["rank"] for one in json.load(file)["inputs"]), [0, 1])

    def test_a_level0_database_gives_a_database(self):
        """Level0 has steps and no analysis of communication."""
        tree = self.copy("db")
        for path in glob.glob(os.path.join(tree, "*", "*", "analysis.db")):
            with sqlite3.connect(path) as db:
                for table in ("CommAnalyzerTime", "CommAnalyzerBandwidth", "CommAnalyzerMatrix"):
                    db.execute("DROP TABLE " + table)
            db.close()
        code, told, out = self.run_verb("cluster", tree)
        self.assertEqual(code, 0, told)
        path = os.path.join(out, "cluster_analysis_output", "cluster_analysis.db")
        self.assertTrue(os.path.exists(path), os.listdir(out))
        with sqlite3.connect("file:%s?immutable=1" % path, uri=True) as db:
            self.assertEqual(db.execute("SELECT count(*) FROM ClusterStepTraceTime").fetchall(), [(2,)])


if ascend_inputs.has_shared():
    class Recorded(Made):
        @classmethod
        def take_inputs(cls):
            cls.pair = ascend_inputs.real_pair()


if __name__ == "__main__":
    unittest.main()
