#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A collector of native ranks is killed, or stopped, in the middle of a capture, and started again: librankscope comes back
to it, and every rank of the capture is complete or says why not."""
import os
import signal
import subprocess
import sys
import time
import unittest

import unittest_run

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from rig_native import PROGRAM, Rig  # pylint: disable=wrong-import-position

WORLD, NODES = 32, 2
HERE, THERE = range(16), range(16, 32)  # of the node that is hit, of the other


def say(text):
    print("restart:", text, flush=True)


class Restart(unittest.TestCase):
    rig = None

    @classmethod
    def setUpClass(cls):
        cls.rig = Rig(world=WORLD, nodes=NODES, step_ms=200, run="restart").__enter__()
        cls.rig.wait_ranks(WORLD)

    @classmethod
    def tearDownClass(cls):
        cls.rig.__exit__(None, None, None)

    def setUp(self):
        self.wait_back()

    def wait_back(self):
        """All ranks are with their collectors, idle."""
        if self.rig.collectors[0].poll() is not None:
            self.rig.start_collector(0)  # a test before failed in between
        until = time.monotonic() + 20
        while time.monotonic() < until:
            states = [r["state"] for r in self.rig.ranks() if r["can_capture"]]
            if states == ["idle"] * WORLD:
                return
            time.sleep(0.1)
        raise AssertionError(str(states))

    def hit(self, how):
        """Ends the collector of node 0 and starts it again."""
        self.rig.collectors[0].send_signal(how)
        self.rig.collectors[0].wait(120)
        self.rig.start_collector(0)
        return time.monotonic()

    def look(self, capture, code, hit_at, seconds):
        took = time.monotonic() - hit_at
        self.assertEqual(code, 1, capture.text())
        self.assertLess(took, seconds)
        # A collector that is back brings what it still has of it: it is open once more for that long.
        until = time.monotonic() + 60
        found = self.rig.show(self.rig.captures()[-1]["id"])
        while found["state"] == "summarised" and time.monotonic() < until:
            time.sleep(0.1)
            found = self.rig.show(found["id"])
        self.assertEqual((found["state"], len(found["ranks"])), ("partial", WORLD))
        states = {r["rank"]: (r["state"], r["reason"]) for r in found["ranks"]}
        for rank in THERE:
            self.assertEqual(states[rank], ("done", None))
        return took, {states[rank] for rank in HERE}

    def next_is_complete(self):
        """And what was stored of the one before is whole, as far as it goes."""
        self.wait_back()
        folder = self.rig.show(self.rig.captures()[-1]["id"])["directory"]
        done = subprocess.run([PROGRAM, "verify", folder], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        capture = self.rig.capture("--ranks", "all", "--steps", "3", "--no-report")
        code, _ = capture.end()
        self.assertEqual(code, 0, capture.text())

    def test_killed_while_it_records(self):
        capture = self.rig.capture("--ranks", "all", "--steps", "20", "--no-report")
        capture.wait_for(lambda line: " 32 recording" in line and "slowest" in line)
        time.sleep(1)
        hit_at = self.hit(signal.SIGKILL)
        code, _ = capture.end(90)
        took, here = self.look(capture, code, hit_at, 30)
        say(f"killed while recording: over {took:.1f} s after; its ranks are {sorted(here, key=str)}")
        self.assertEqual(here, {("partial", "the collector was started again")})
        self.next_is_complete()

    def test_killed_while_armed(self):
        start = self.rig.foremost_step() + 15
        capture = self.rig.capture("--ranks", "all", "--steps", "5", "--start-step", str(start), "--no-report")
        capture.wait_for(lambda line: " 32 armed" in line)
        time.sleep(0.5)
        hit_at = self.hit(signal.SIGKILL)
        code, _ = capture.end(90)
        took, here = self.look(capture, code, hit_at, 40)
        say(f"killed while armed: over {took:.1f} s after; its ranks are {sorted(here, key=str)}")
        self.assertEqual({state for state, _ in here}, {"lost"})
        self.assertEqual({"collector" in why for _, why in here}, {True}, here)
        self.next_is_complete()

    def test_stopped_while_it_records(self):
        capture = self.rig.capture("--ranks", "all", "--steps", "20", "--no-report")
        capture.wait_for(lambda line: " 32 recording" in line and "slowest" in line)
        hit_at = self.hit(signal.SIGTERM)
        code, _ = capture.end(90)
        took, here = self.look(capture, code, hit_at, 30)
        say(f"stopped while recording: over {took:.1f} s after; its ranks are {sorted(here, key=str)}")
        self.assertEqual(here, {("partial", "the collector was stopped")})
        self.next_is_complete()

    def test_stopped_while_armed(self):
        start = self.rig.foremost_step() + 15
        capture = self.rig.capture("--ranks", "all", "--steps", "5", "--start-step", str(start), "--no-report")
        capture.wait_for(lambda line: " 32 armed" in line)
        time.sleep(0.5)
        hit_at = self.hit(signal.SIGTERM)
        code, _ = capture.end(90)
        took, here = self.look(capture, code, hit_at, 40)
        say(f"stopped while armed: over {took:.1f} s after; its ranks are {sorted(here, key=str)}")
        self.assertEqual(here, {("lost", "the collector was stopped before it began")})
        self.next_is_complete()

    def freeze(self, process, capture, is_told, code):
        """A process that stands still until its links broke, as in a partition; then it goes on."""
        process.send_signal(signal.SIGSTOP)
        try:
            is_told()
        finally:
            process.send_signal(signal.SIGCONT)
        ended, took = capture.end(120)
        self.assertEqual(ended, code, capture.text())
        found = self.rig.wait_captures(len(self.rig.captures()), 120)[-1]
        found = self.rig.show(found["id"])
        self.assertEqual((found["state"], found["reason"]), ("complete", None))
        self.assertEqual({(r["state"], r["reason"], r["steps_done"]) for r in found["ranks"]}, {("done", None, 20)})
        return took

    def test_a_collector_that_stood_still(self):
        capture = self.rig.capture("--ranks", "all", "--steps", "20", "--no-report")
        capture.wait_for(lambda line: " 32 recording" in line and "slowest" in line)
        took = self.freeze(self.rig.collectors[0], capture,
                           lambda: capture.wait_for(lambda line: "has not answered since" in line), 0)
        say(f"a collector stood still until its link broke: complete after {took:.1f} s")
        self.next_is_complete()

    def test_an_aggregator_that_stood_still(self):
        capture = self.rig.capture("--ranks", "all", "--steps", "20", "--no-report")
        capture.wait_for(lambda line: " 32 recording" in line and "slowest" in line)
        took = self.freeze(self.rig.aggregator, capture,
                           lambda: capture.wait_for(lambda line: "stopped answering" in line), 4)
        say(f"the aggregator stood still until the links broke: the client gave up after {took:.1f} s, complete since")
        self.next_is_complete()

    def test_killed_and_not_started_again(self):
        capture = self.rig.capture("--ranks", "all", "--steps", "10", "--no-report")
        capture.wait_for(lambda line: " 32 recording" in line)
        self.rig.collectors[0].kill()
        self.rig.collectors[0].wait()
        hit_at = time.monotonic()
        code, _ = capture.end(90)
        self.rig.start_collector(0)
        took, here = self.look(capture, code, hit_at, 40)
        say(f"killed for good: over {took:.1f} s after; its ranks are {sorted(here, key=str)}")
        # What it had written down before it was killed comes when it is there again: on a slow machine it was killed late.
        for state, reason in here:
            self.assertRegex(f"{state}: {reason}", r"^(lost: its collector is gone|partial: it recorded [1-9] of 10 steps)$")
        self.next_is_complete()


if __name__ == "__main__":
    unittest_run.main(verbosity=1)
