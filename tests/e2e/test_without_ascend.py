#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The program without the Ascend wing (-DRS_ASCEND=OFF): the same reports, and it says what it was built without."""
import filecmp
import os
import subprocess
import sys
import tempfile
import unittest

import unittest_run

WHOLE = os.environ["RANKSCOPE"]
BARE = os.path.join(os.environ["RANKSCOPE_BUILD"], "rankscope_without_ascend")
if not os.path.exists(BARE):
    BARE = WHOLE  # this build has no wing at all


def run(program, *words):
    return subprocess.run([program, *words], capture_output=True, text=True, check=False)


class WithoutAscend(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="rs-e2e-")
        self.addCleanup(self.temporary.cleanup)
        self.folder = self.temporary.name

    def test_its_verbs_are_not_there(self):
        verbs = {line.split()[0] for line in run(BARE, "--help").stdout.splitlines() if line.startswith("  ") and line.split()}
        self.assertIn("analyse", verbs)
        self.assertFalse(verbs & {"cluster", "recipe", "export"})
        done = run(BARE, "cluster", "x")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn('there is no verb "cluster"', done.stderr)

    def test_reports_are_the_same(self):
        for program, out in ((BARE, "bare"), (WHOLE, "whole")):
            done = run(program, "analyse", "docs/examples/slow-loader", "-q", "-o", f"{self.folder}/{out}")
            self.assertEqual(done.returncode, 0, done.stderr)
        names = os.listdir(f"{self.folder}/whole")
        self.assertIn("report.json", names)
        same, different, missing = filecmp.cmpfiles(f"{self.folder}/bare", f"{self.folder}/whole", names, shallow=False)
        self.assertEqual((sorted(same), different, missing), (sorted(names), [], []))

    def test_whoever_asks_for_it_is_told(self):
        done = run(BARE, "analyse", "docs/examples/slow-loader", "--cluster", "-o", f"{self.folder}/out")
        self.assertEqual(done.returncode, 2)
        self.assertIn("built without Ascend", done.stderr)
        self.assertFalse(os.path.exists(f"{self.folder}/out"))
        for option, name in (("--ascend-config", "torch_npu"), ("--mindspore-config", "mindspore")):
            done = run(BARE, "collector", "--connect", f"unix:{self.folder}/none.sock", "--spool", f"{self.folder}/spool",
                       "--no-native", "--no-kineto", option, self.folder)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(f"this program was built without {name}", done.stderr)


if __name__ == "__main__":
    sys.exit(unittest_run.main())
