#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files that are written, and text that is shown: modes, links, what a killed run left, names that would steer a terminal.

All traces are made here (test_kineto_forms.py).

    RANKSCOPE=build/dev/rankscope tests/e2e/truth/test_files.py
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from test_kineto_forms import document, rows_of

PROGRAM = os.path.abspath(os.environ.get("RANKSCOPE", "build/dev/rankscope"))
# C0 but line ends and tabs, DEL, C1, marks and controls of direction
STEERING = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
HOSTILE = ["\x1b[2Jgemm", "\x9b31mgemm", "gemm\u202egnp.exe", "\u2066gemm", "gemm\x07,\"quoted\""]


class Files(unittest.TestCase):
    def setUp(self):
        self.work = tempfile.mkdtemp(prefix="rs-files-")
        self.addCleanup(shutil.rmtree, self.work)
        self.data, self.out = os.path.join(self.work, "in"), os.path.join(self.work, "out")
        os.mkdir(self.data)
        for rank in range(2):
            self.trace(rank, rows_of(rank))

    def trace(self, rank, rows):
        with open(os.path.join(self.data, "rank%d.json" % rank), "w", encoding="utf-8") as file:
            json.dump(document(rank, rows), file)

    def run_program(self, *words, code=0, umask=0o22):
        done = subprocess.run([PROGRAM, *words], capture_output=True, check=False, stdin=subprocess.DEVNULL,
                              preexec_fn=lambda: os.umask(umask))
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout.decode("utf-8"), done.stderr.decode("utf-8")

    def analyse(self, out=None, **more):
        return self.run_program("analyse", self.data, "-o", out or self.out, **more)

    def test_modes_whatever_the_umask(self):
        for umask in (0, 0o22, 0o77):
            self.analyse(os.path.join(self.out, "deep"), umask=umask)
            count = 0
            for place, _, files in os.walk(self.out):
                self.assertEqual(os.stat(place).st_mode & 0o7777, 0o750, place)
                for name in files:
                    self.assertEqual(os.stat(os.path.join(place, name)).st_mode & 0o7777, 0o640, name)
                    count += 1
            self.assertGreater(count, 10)
            shutil.rmtree(self.out)

    def test_a_link_is_followed_and_said(self):
        real = os.path.join(self.work, "real")
        os.mkdir(real)
        os.symlink(real, self.out)
        for slash in ("", "/"):
            _, told = self.analyse(self.out + slash)
            self.assertIn("symbolic link: the files are in " + real, told)
            self.assertIn("report.json", os.listdir(real))
        _, told = self.analyse(real)
        self.assertNotIn("symbolic link", told)

    def test_a_file_behind_a_link_is_not_written(self):
        victim = os.path.join(self.work, "victim")
        with open(victim, "w", encoding="utf-8") as file:
            file.write("mine")
        os.mkdir(self.out)
        os.symlink(victim, os.path.join(self.out, "report.json"))
        self.analyse()
        with open(victim, encoding="utf-8") as file:
            self.assertEqual(file.read(), "mine")
        self.assertFalse(os.path.islink(os.path.join(self.out, "report.json")))

    def test_what_a_killed_run_left_goes(self):
        os.mkdir(self.out)
        gone = subprocess.Popen(["true"])
        gone.wait()
        left = {".collectives.csv.tmp-%d" % gone.pid: False, "x.tmp-%d-aB3xYz" % gone.pid: False,
                ".collectives.csv.tmp-%d" % os.getpid(): True, "my.tmp-notes": True}
        for name in left:
            with open(os.path.join(self.out, name), "w", encoding="utf-8") as file:
                file.write("half")
            os.utime(os.path.join(self.out, name), (1000000000, 1000000000))
        self.analyse()
        for name, stays in left.items():
            self.assertEqual(os.path.exists(os.path.join(self.out, name)), stays, name)

    def test_no_report_writes_none(self):
        _, told = self.run_program("capture", "--steps", "1", "--no-report", "-o", self.out, code=2)
        self.assertIn("--no-report", told)
        self.assertFalse(os.path.exists(self.out))

    def test_names_do_not_steer(self):
        for rank in range(2):
            rows = rows_of(rank)
            for at, row in enumerate(row for row in rows if row["name"] == "gemm"):
                row["name"] = HOSTILE[at % len(HOSTILE)]
            self.trace(rank, rows)
        with open(os.path.join(self.data, "\x1b[1m\x9b\u202e.json"), "w", encoding="utf-8") as file:
            file.write("{")
        for words in ([], ["--json"]):
            shown, told = self.run_program("analyse", self.data, "-o", self.out, *words, code=1)
            self.assertIsNone(STEERING.search(shown), shown)
            self.assertIsNone(STEERING.search(told), told)
        hostile = set()
        for name in sorted(os.listdir(self.out)):
            if name.endswith(".db"):
                continue
            with open(os.path.join(self.out, name), encoding="utf-8", newline="") as file:
                text = file.read()
            self.assertIsNone(STEERING.search(text), name)
            hostile.update(found for found in ("u001b", "u009b", "u202e", "u2066", "u0007") if "\\" + found in text)
        self.assertTrue(hostile, "no deliverable has the names: nothing was tried")


if __name__ == "__main__":
    sys.exit(unittest.main())
