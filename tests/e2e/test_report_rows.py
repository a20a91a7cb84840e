#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What rows say is what the report says: of a capture's folder `rankscope report` joins the summaries, of its rows (join_rows, report_rows) nobody has
anything but the tables that a database has. Text, JSON and exit code are the same bytes, for made-up jobs and for every recording that is
there (../shared/data, where it is)."""
import glob
import os
import subprocess
import sys
import tempfile
import unittest

import unittest_run

PROGRAM = os.environ.get("RANKSCOPE", "build/dev/rankscope")
BUILD = os.environ.get("RANKSCOPE_BUILD", "build/dev")
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
SHARED = os.environ.get("RANKSCOPE_SHARED") or os.path.join(ROOT, "..", "shared")


def run(*words, codes=(0,)):
    done = subprocess.run(words, capture_output=True, check=False, timeout=300)
    if done.returncode not in codes:
        raise AssertionError(f"{words}: {done.returncode}: {done.stderr.decode()}")
    return done


class ReportRows(unittest.TestCase):
    def compare(self, *traces, more=()):
        with tempfile.TemporaryDirectory(prefix="rs-report-rows-") as folder:
            joined = os.path.join(folder, "joined")
            os.mkdir(joined)
            capture = run(os.path.join(BUILD, "make_capture"), os.path.join(folder, "data"), *more, *traces).stdout.decode().strip()
            run(os.path.join(BUILD, "join_rows"), capture, joined)
            for words in ((), ("--json",)):
                want, got = run(PROGRAM, "report", capture, *words, codes=(0, 1)), run(os.path.join(BUILD, "report_rows"), joined, *words, codes=(0, 1))
                self.assertEqual(got.stdout, want.stdout, f"{traces[0]} {words}")
                self.assertEqual(got.returncode, want.returncode, f"{traces[0]} {words}")

    def test_made_up_jobs(self):
        for ranks, more in ((1, ()), (4, ()), (4, ("--cut", "2"))):
            with tempfile.TemporaryDirectory(prefix="rs-report-rows-") as folder:
                run(sys.executable, os.path.join(ROOT, "tests", "bench", "mkkineto.py"), "--mb", "0.2", "--ranks", str(ranks), folder)
                self.compare(*sorted(glob.glob(folder + "/*")), more=more)

    def test_recordings(self):
        recordings = [[os.path.join(ROOT, "tests", "golden", "torch-figures", "rank0.pt.trace.json.gz")]]
        recordings += [[path] for path in sorted(glob.glob(os.path.join(SHARED, "data", "kineto", "*.json.gz")))]
        for folder in sorted(glob.glob(os.path.join(ROOT, "tests", "golden", "nccl-*/"))):
            recordings.append(sorted(glob.glob(folder + "*.json.xz")))
        for folder in sorted(glob.glob(os.path.join(SHARED, "data", "kineto", "*-*rank*/")) + glob.glob(os.path.join(SHARED, "data", "planted", "*/"))):
            recordings.append(sorted(path for path in glob.glob(folder + "*.json*") if not path.endswith("/ranks.json")))
        for traces in recordings:
            with self.subTest(traces[0]):
                self.compare(*traces)

    def test_rows_that_are_none(self):
        with tempfile.TemporaryDirectory(prefix="rs-report-rows-") as folder:
            done = run(os.path.join(BUILD, "report_rows"), folder, codes=(4,))
            self.assertEqual(done.stdout, b"")


if __name__ == "__main__":
    unittest_run.main()
