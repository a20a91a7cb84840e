#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A thousand native ranks, a process each, on eight nodes: captures of some of them while others die or stand still."""
import os
import subprocess
import sys
import time
import unittest

import unittest_run

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from machine import is_crowded  # pylint: disable=wrong-import-position
from rig_native import PROGRAM, Rig, go_on, kill, stop  # pylint: disable=wrong-import-position

WORLD = int(os.environ.get("THOUSAND_WORLD", "1000"))
STEP_MS = 400
CHOSEN = list(range(100)) + list(range(500, 600))
EXPRESSION = "0-99,500-599"
DYING, STOPPED = (7, 555), 42


def say(text):
    print("thousand:", text, flush=True)


class Thousand(unittest.TestCase):
    rig = None

    @classmethod
    def setUpClass(cls):
        started = time.monotonic()
        cls.rig = Rig(world=WORLD, nodes=8, step_ms=STEP_MS).__enter__()
        cls.rig.wait_ranks(WORLD)
        before = cls.rig.usage()
        time.sleep(2)
        after = cls.rig.usage()
        say(f"{WORLD} ranks on 8 nodes known after {time.monotonic() - started - 2:.1f} s; idle, of one core: aggregator "
            f"{(after['aggregator'][0] - before['aggregator'][0]) / 2:.1%}, 8 collectors "
            f"{(after['collectors'][0] - before['collectors'][0]) / 2:.1%}; resident: aggregator "
            f"{after['aggregator'][1]:.0f} MiB, 8 collectors {after['collectors'][1]:.0f} MiB")

    @classmethod
    def tearDownClass(cls):
        cls.rig.__exit__(None, None, None)

    def states(self, capture_id):
        answer = {}
        for rank in self.rig.show(capture_id)["ranks"]:
            self.assertNotIn(rank["rank"], answer)
            answer[rank["rank"]] = (rank["state"], rank["reason"])
        return answer

    def verify(self, capture_id):
        folder = self.rig.show(capture_id)["directory"]
        done = subprocess.run([PROGRAM, "verify", folder], capture_output=True, text=True, check=False)
        wrong = [line for line in done.stdout.splitlines() if not line.endswith("summary equal")]
        self.assertEqual(done.returncode, 0, "\n".join(wrong))

    def test_1_all_ranks_at_the_same_steps(self):
        capture = self.rig.capture("--ranks", "all", "--steps", "2", "--no-report")
        armed = capture.wait_for(lambda line: f" {WORLD} armed" in line)
        code, took = capture.end()
        self.assertEqual(code, 0, capture.text())
        say(f"all {WORLD} ranks: armed after {armed:.3f} s, 2 steps of 0.4 s complete after {took:.1f} s")
        done = self.states(self.rig.captures()[-1]["id"])
        self.assertEqual(set(done.values()), {("done", None)})
        self.assertEqual(len(done), WORLD)

    def test_2_two_die_and_one_stands_still(self):
        start = self.rig.foremost_step() + 12
        capture = self.rig.capture("--ranks", EXPRESSION, "--steps", "3", "--start-step", str(start),
                                   "--timeout", "12s")
        armed = capture.wait_for(lambda line: " 200 armed" in line)
        until = time.monotonic() + 10
        while time.monotonic() < until:
            states = {r["rank"]: r["state"] for r in self.rig.ranks()}
            if all(states[rank] == "armed" for rank in (*DYING, STOPPED)):
                break
            time.sleep(0.1)
        self.assertEqual([states[rank] for rank in (*DYING, STOPPED)], ["armed"] * 3)
        for rank in DYING:
            kill(self.rig.pids[rank])
        stop(self.rig.pids[STOPPED])
        killed_at = time.monotonic() - capture.started
        code, took = capture.end()
        go_on(self.rig.pids[STOPPED])
        say(f"{EXPRESSION}: armed after {armed:.3f} s, 2 killed and 1 stopped after {killed_at:.1f} s; over after "
            f"{took:.1f} s, exit code {code}")
        self.assertEqual(code, 1, capture.text())
        found = self.rig.captures()[-1]
        self.assertEqual((found["state"], found["start_step"], found["steps"]), ("partial", start, 3))
        states = self.states(found["id"])
        self.assertEqual(sorted(states), CHOSEN)
        self.assertEqual(sorted(rank for rank in states if states[rank][0] == "done"),
                         [rank for rank in CHOSEN if rank not in (*DYING, STOPPED)])
        for rank in DYING:
            self.assertEqual(states[rank], ("lost", "its process died before it began"))
            self.assertIn(f"rank {rank} is lost: its process died before it began", capture.text())
        self.assertEqual(states[STOPPED][0], "lost")
        for words in ("did not finish in time", f"{self.rig.pids[STOPPED]} is stopped", "SIGSTOP"):
            self.assertIn(words, states[STOPPED][1])
        self.assertIn(f"rank {STOPPED} is lost: it did not finish in time", capture.text())
        for line in capture.text().splitlines():
            if "is lost" in line:
                say(line)
        # The report stands, of the ranks that came.
        self.assertIn("197", capture.out)
        self.verify(found["id"])

    def test_3_the_rank_that_stood_still_serves_the_next_capture(self):
        capture = self.rig.capture("--ranks", f"{STOPPED},43", "--steps", "2", "--no-report")
        code, _ = capture.end()
        self.assertEqual(code, 0, capture.text())
        found = self.rig.captures()[-1]
        self.assertEqual(self.states(found["id"]), {STOPPED: ("done", None), 43: ("done", None)})

    def test_4_a_capture_by_the_clock(self):
        expression = "100-199,600-699"
        capture = self.rig.capture("--ranks", expression, "--duration", "1500ms", "--no-report", "--json")
        code, took = capture.end()
        self.assertEqual(code, 0, capture.text())
        found = self.rig.captures()[-1]
        states = self.states(found["id"])
        self.assertEqual((len(states), set(states.values())), (200, {("done", None)}))
        steps = {rank["steps_done"] for rank in self.rig.show(found["id"])["ranks"]}
        # Whole steps of 0.4 s that fill 1.5 s.
        self.assertEqual(min(steps), 4)
        say(f"--duration 1500ms on 200 ranks: {sorted(steps)} steps, over after {took:.1f} s")

    def test_5_stop_ends_it_in_the_middle(self):
        capture = self.rig.capture("--ranks", "100-199,600-699", "--steps", "1000", "--no-report")
        capture.wait_for(lambda line: " 200 recording" in line and "slowest" in line)
        found = self.rig.captures()[-1]
        self.assertEqual(found["closed_ns"], None)
        asked = time.monotonic()
        self.rig.ask("capture", "stop", found["id"])
        code, _ = capture.end()
        took = time.monotonic() - asked
        self.assertEqual(code, 1, capture.text())
        states = self.states(found["id"])
        self.assertEqual((len(states), set(states.values())), (200, {("partial", "stopped by request")}))
        steps = [rank["steps_done"] for rank in self.rig.show(found["id"])["ranks"]]
        # Ranks are told one after the other, which takes a busy machine longer than a step.
        apart = 1 + (int(1000 * took / STEP_MS) if is_crowded() else 0)
        self.assertTrue(1 <= min(steps) <= max(steps) <= min(steps) + apart, sorted(steps))
        self.verify(found["id"])
        say(f"capture stop on 200 ranks in step {max(steps)} of 1000: over after {took:.1f} s")

    def test_6_stop_before_it_began_records_nothing(self):
        start = self.rig.foremost_step() + 1000
        capture = self.rig.capture("--ranks", "100-199", "--steps", "5", "--start-step", str(start))
        capture.wait_for(lambda line: " 100 armed" in line)
        found = self.rig.captures()[-1]
        self.rig.ask("capture", "stop", found["id"])
        code, took = capture.end()
        self.assertEqual(code, 1, capture.text())
        self.assertLess(took, 10)
        states = self.states(found["id"])
        self.assertEqual(set(states.values()), {("lost", "stopped by request")})
        # Nobody is held by it.
        start = self.rig.foremost_step() + 8
        again = self.rig.capture("--ranks", "100-199", "--steps", "1", "--start-step", str(start), "--no-report")
        self.assertEqual(again.end()[0], 0, again.text())


if __name__ == "__main__":
    unittest_run.main(verbosity=1)
