#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The clock of the aggregator's host, or of a node, is set by an hour, forward or back, in the middle of a capture of native ranks.

The capture ends complete, with all steps on all ranks; the next one is complete, too; nobody is taken for gone or late.
"""
import mmap
import os
import struct
import subprocess
import sys
import time
import unittest

import unittest_run

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from rig_native import BUILD, Rig  # pylint: disable=wrong-import-position

SHIM = os.path.join(os.path.abspath(BUILD), "shim_clock.so")
HOUR = 3600 * 10**9
WORLD, NODES, STEPS = 4, 2, 20


class Clock:
    """Of one process: its wall clock, as far as it is wrong."""

    def __init__(self, path):
        self.path = path
        with open(path, "wb") as file:
            file.write(bytes(8))
        with open(path, "r+b") as file:
            self.map = mmap.mmap(file.fileno(), 8)

    def set(self, wrong_ns):
        self.map[:8] = struct.pack("<q", wrong_ns)


class JumpRig(Rig):
    """The rig, each daemon with a clock of its own."""

    def __init__(self, *arguments, **more):
        self.clocks = {}
        super().__init__(*arguments, **more)

    def _spawn(self, name, words, **pipes):
        if name == "ranks":
            return super()._spawn(name, words, **pipes)
        self.clocks[name] = Clock(os.path.join(self.folder, name + ".clock"))
        environment = dict(os.environ, LD_PRELOAD=SHIM, SHIM_CLOCK_FILE=self.clocks[name].path)
        with open(os.path.join(self.folder, name + ".log"), "ab") as log:
            return subprocess.Popen(words, stderr=log, env=environment, **pipes)


@unittest.skipUnless(os.path.exists(SHIM), "no shim in a build with sanitizers")
class Jumps(unittest.TestCase):
    def capture(self, rig, when_recording):
        before = {c["id"] for c in rig.captures()}
        capture = rig.capture("--run", "jumps", "--steps", str(STEPS), "--no-report")
        capture.wait_for(lambda line: "recording" in line)
        when_recording()
        code, seconds = capture.end(90)
        shown = rig.show(next(c["id"] for c in rig.captures() if c["id"] not in before))
        return code, seconds, {(rank["state"], rank["steps_done"], rank["reason"]) for rank in shown["ranks"]}

    def wait_idle(self, rig):
        until = time.monotonic() + 10
        states = None
        while states != {("idle", True)}:
            self.assertLess(time.monotonic(), until, states)
            time.sleep(0.1)
            states = {(rank["state"], rank["can_capture"]) for rank in rig.ranks()}

    def test_captures_are_complete(self):
        with JumpRig(WORLD, NODES, 100, run="jumps") as rig:
            rig.wait_ranks(WORLD)
            for who in ("aggregator", "collector0"):
                for wrong in (HOUR, -HOUR, 0):
                    with self.subTest(who=who, wrong_s=wrong // 10**9):
                        code, seconds, ranks = self.capture(rig, lambda who=who, wrong=wrong: rig.clocks[who].set(wrong))
                        self.assertEqual((code, ranks), (0, {("done", STEPS, None)}))
                        self.assertLess(seconds, 45)
                        self.wait_idle(rig)
                        print(f"{who}'s clock {wrong // 10**9:+d} s: complete after {seconds:.1f} s", flush=True)


if __name__ == "__main__":
    unittest_run.main()
