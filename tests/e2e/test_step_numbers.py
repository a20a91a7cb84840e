#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which steps of a native program a capture has, when its numbers do not go on by one, and when its schedule skips and waits first."""
import json
import os
import re
import subprocess
import unittest

import unittest_run
from rig_native import PROGRAM, Rig


class StepNumbers(unittest.TestCase):
    def test_steps_that_were_not_made_are_not_complete(self):
        with Rig(world=2, nodes=1, step_ms=50, run="tens", rank_words=("--by", "10")) as rig:
            rig.wait_ranks(2)
            why = "it made 2 steps with the numbers of these 20: call rankscope_step() with numbers that go on by one"
            # Who goes with the findings hears of it, and who waits for the raw data.
            for wait in ("summary", "raw"):
                start = (rig.foremost_step() // 10 + 40) * 10
                capture = rig.capture("--steps", "20", "--start-step", str(start), "--no-report", "--wait", wait)
                code, _ = capture.end()
                self.assertEqual(code, 1, capture.text())
                if wait == "raw":
                    self.assertIn("rank 0 is partial: " + why, capture.text())
                # With the findings both are told: a rank whose raw data is there by then as partial itself.
                short = re.search(r"less than was asked: rank ([0-9, -]+) \(" + re.escape(why), capture.text())
                told = set(re.findall(r"rank ([01]) is partial: " + re.escape(why), capture.text()))
                told |= set(re.findall("[0-9]", short.group(1))) if short else set()
                self.assertTrue(wait == "raw" or told == {"0", "1"}, capture.text())
            found = rig.wait_captures(2)[-1]
            self.assertEqual((found["state"], found["start_step"]), ("partial", start))
            self.assertEqual([(r["state"], r["steps_done"], r["reason"]) for r in rig.show(found["id"])["ranks"]], [("partial", 2, why)] * 2)
            rows = rig.ask("table", found["id"], "step_device")["rows"]
            self.assertEqual(sorted({row["step"] for row in rows}), [start, start + 10])

    def test_a_program_that_counts_by_one_is_complete(self):
        with Rig(world=2, nodes=1, step_ms=50, run="ones") as rig:
            rig.wait_ranks(2)
            capture = rig.capture("--steps", "20", "--no-report", "--wait", "raw")
            code, _ = capture.end()
            found = rig.show(rig.captures()[-1]["id"])
            self.assertEqual((code, found["state"], [r["steps_done"] for r in found["ranks"]]), (0, "complete", [20, 20]), capture.text())

    def test_a_schedule_skips_waits_warms_up_and_then_records(self):
        # torch.profiler's own example: wait 1, warm up 1, record 2: the third and the fourth step. Native ranks have no
        # warm-up: nothing is recorded in it.
        with Rig(world=2, nodes=1, step_ms=50, run="scheduled", rank_words=("--memory", "4096")) as rig:
            rig.wait_ranks(2)
            start = rig.foremost_step() + 60
            capture = rig.capture("--steps", "2", "--start-step", str(start), "--set", "schedule.wait=1", "--set", "schedule.warmup=1",
                                  "--set", "schedule.skip_first=3", "--no-report", "--wait", "raw")
            code, _ = capture.end()
            found = rig.captures()[-1]
            self.assertEqual((code, found["state"]), (0, "complete"), capture.text())
            rows = rig.ask("table", found["id"], "step_device")["rows"]
            self.assertEqual(sorted((row["rank"], row["step"]) for row in rows), [(rank, start + 3 + 2 + n) for rank in (0, 1) for n in (0, 1)])
            self.check_trace(rig, found["id"], [start + 5, start + 6])

    def check_trace(self, rig, capture, steps):
        """The rank's rows as a Chrome trace: steps by their numbers, and what the program says of itself."""
        out = os.path.join(rig.folder, "rank{rank}.json")
        done = subprocess.run([PROGRAM, "trace", "chrome", capture, "--connect", rig.address, "-o", out], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        for rank in (0, 1):
            with open(out.replace("{rank}", str(rank)), encoding="utf-8") as file:
                trace = json.load(file)
            self.assertEqual(trace["distributedInfo"], {"rank": rank, "world_size": 2})
            self.assertEqual(trace["metadata"], {"job": {"kind": "native_ranks"}})
            self.assertEqual([row["name"] for row in trace["traceEvents"] if row["cat"] == "step"], [f"step {step}" for step in steps])
            self.assertTrue(all(row["dur"] >= 0 for row in trace["traceEvents"] if row["ph"] == "X"))
            self.assertEqual([row["args"]["Bytes"] for row in trace["traceEvents"] if row["name"] == "[memory]"], [4096, -4096] * 2)
        done = subprocess.run([PROGRAM, "trace", "memory", capture, "--connect", rig.address, "-o", out.replace(".json", ".raw.json")],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(out.replace("{rank}.json", "1.raw.json"), encoding="ascii") as file:
            self.assertEqual([event[1:3] for event in json.load(file)], [[2, 4096], [4, -4096]] * 2)


if __name__ == "__main__":
    unittest_run.main(verbosity=1)
