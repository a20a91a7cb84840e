#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pipelines of single ranks, simulated (tests/bench/culprits) and read as Kineto files: a rank without peers is held against its own other steps.

A pause in every third step is named with its period, told as what it is; nothing is said of a job in which nothing is planted.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import unittest_run  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("RANKSCOPE_BUILD", ROOT / "build/dev"))
PROGRAM = os.environ.get("RANKSCOPE", str(BUILD / "rankscope"))


class Alone(unittest.TestCase):
    def report_of(self, kind, seed):
        """The job, its findings above weak, and the report's text."""
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([BUILD / "bench_culprits", kind, str(seed), "1", "--traces", folder], capture_output=True, text=True,
                                  check=True)
            job = json.loads(done.stdout)
            out = pathlib.Path(folder) / "out"
            done = subprocess.run([PROGRAM, "analyse", job["folder"], "-o", out, "--quiet"], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            findings = json.loads((out / "report.json").read_text())["findings"]
            return job, [f for f in findings if f["confidence"] != "weak"], (out / "report.md").read_text()

    def test_a_pause_in_every_third_step(self):
        for seed in range(7300000, 7300006):
            with self.subTest(seed=seed):
                job, findings, text = self.report_of("stall-every-3-alone", seed)
                self.assertEqual([f["where"] for f in findings], [{"rank": job["planted"][0]["ranks"][0]}])
                self.assertIn(findings[0]["kind"], ("data_stall", "host_gap"))
                self.assertEqual(findings[0]["steps"]["period"], 3)
                self.assertEqual(findings[0]["test"]["peers"], 0)
                self.assertIn("in its other steps", text)
                self.assertNotIn("on its peers", text)
                self.assertNotIn("lets the others wait", text)

    def test_one_rank(self):
        """It has nobody beside it, and its steps all the same."""
        rows, at = [], 1750000000000000
        for step in range(30):
            head = 8000 if step % 3 == 1 else 100
            rows += [{"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 7, "tid": 7, "ts": at, "dur": head + 1900},
                     {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 7, "tid": 7, "ts": at + head, "dur": 5,
                      "args": {"correlation": step + 1}},
                     {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": at + head + 10, "dur": 1500,
                      "args": {"device": 0, "stream": 7, "correlation": step + 1}}]
            at += head + 2000
        with tempfile.TemporaryDirectory() as folder:
            path, out = pathlib.Path(folder) / "rank0.json", pathlib.Path(folder) / "out"
            path.write_text(json.dumps({"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 1},
                                        "traceEvents": rows}))
            done = subprocess.run([PROGRAM, "analyse", path, "-o", out, "--quiet"], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            finding, = json.loads((out / "report.json").read_text())["findings"]
            self.assertEqual((finding["where"], finding["steps"]["period"]), ({"rank": 0}, 3))
            self.assertIn("Rank 0 pauses: time passes on its host", (out / "report.md").read_text())

    def test_nothing_planted(self):
        for kind in ("clean-alone", "pauses-alone"):
            for seed in range(7300000, 7300003):
                with self.subTest(kind=kind, seed=seed):
                    _, findings, _ = self.report_of(kind, seed)
                    self.assertEqual(findings, [])


if __name__ == "__main__":
    unittest_run.main()
