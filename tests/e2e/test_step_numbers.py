#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A native program whose step numbers do not go on by one: a capture has fewer steps than were asked for, and says so."""
import unittest

import unittest_run
from rig_native import Rig


class StepNumbers(unittest.TestCase):
    def test_steps_that_were_not_made_are_not_complete(self):
        with Rig(world=2, nodes=1, step_ms=50, run="tens", rank_words=("--by", "10")) as rig:
            rig.wait_ranks(2)
            why = "it made 2 steps with the numbers of these 20: call rankscope_step() with numbers that go on by one"
            # Who goes with the findings hears of it, and who waits for the raw data.
            for wait, said in (("summary", "less than was asked: rank 0, 1 (" + why), ("raw", "rank 0 is partial: " + why)):
                start = (rig.foremost_step() // 10 + 40) * 10
                capture = rig.capture("--steps", "20", "--start-step", str(start), "--no-report", "--wait", wait)
                code, _ = capture.end()
                self.assertEqual(code, 1, capture.text())
                self.assertIn(said, capture.text())
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


if __name__ == "__main__":
    unittest_run.main(verbosity=1)
