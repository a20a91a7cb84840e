#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Captures go by age and by room: the oldest closed ones, never one that goes on, each of them in the audit log."""
import json
import os
import subprocess
import time
import unittest

import unittest_run

from rig_native import PROGRAM, Rig


def size_of(folder):
    return sum(os.lstat(os.path.join(path, name)).st_blocks * 512
               for path, folders, files in os.walk(folder) for name in [*files, *folders]) + os.lstat(folder).st_blocks * 512


class Retention(unittest.TestCase):
    def wait_for(self, is_it, what, seconds=300):
        until = time.monotonic() + seconds
        while not is_it():
            self.assertLess(time.monotonic(), until, "never: " + what)
            time.sleep(0.1)

    def restart(self, rig, *words):
        rig.aggregator.terminate()
        self.assertEqual(rig.aggregator.wait(60), 0)
        rig.aggregator.stdout.close()
        rig.aggregator_words = list(words)
        rig.start_aggregator()

    def record(self, rig, *words):
        done = subprocess.run([PROGRAM, "capture", "--steps", "5", "--no-report", "--wait", "raw", "--connect", rig.address, *words],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return rig.captures()[-1]["id"]

    def test_by_room_and_by_age(self):
        with Rig(world=4, nodes=1, step_ms=200) as rig:
            rig.wait_ranks(4)
            ids = [self.record(rig) for _ in range(4)]
            data = os.path.join(rig.folder, "data")
            sizes = {name: size_of(os.path.join(data, "captures", name)) for name in ids}
            self.restart(rig, "--keep-bytes", str(sizes[ids[3]] + sizes[ids[2]] + sizes[ids[1]] // 2))
            self.wait_for(lambda: [c["id"] for c in rig.captures()] == ids[2:], "the two oldest are gone")
            # A capture is gone with its name; its files follow.
            self.wait_for(lambda: sorted(os.listdir(os.path.join(data, "captures"))) == sorted(ids[2:]), "their files go")
            self.assertEqual(subprocess.run([PROGRAM, "report", ids[3], "--connect", rig.address, "-q"], check=False).returncode, 0)
            self.assertEqual(subprocess.run([PROGRAM, "report", ids[0], "--connect", rig.address, "-q"], check=False,
                                            capture_output=True).returncode, 2)
            rig.wait_ranks(4)
            newest = self.record(rig)  # makes room at once, not a minute later
            self.wait_for(lambda: [c["id"] for c in rig.captures()] == [ids[3], newest], "the next oldest is gone", 55)

            self.restart(rig, "--keep-for", "2s")
            self.wait_for(lambda: not rig.captures(), "all are too old")
            rig.wait_ranks(4)
            running = subprocess.Popen([PROGRAM, "capture", "--steps", "5000", "--force", "--no-report", "--connect", rig.address],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.wait_for(lambda: any(c["state"] == "recording" for c in rig.captures()), "it records")
            going = rig.captures()[-1]["id"]
            time.sleep(4)  # twice its limit: one that goes on stays, whatever its age
            self.assertEqual([c["id"] for c in rig.captures()], [going])
            subprocess.run([PROGRAM, "capture", "stop", going, "--connect", rig.address], check=True, capture_output=True)
            running.wait(60)
            self.wait_for(lambda: not rig.captures(), "it is too old, once it is closed")
            def gone():
                with open(os.path.join(data, "audit.jsonl"), encoding="utf-8") as file:
                    lines = [json.loads(line) for line in file if line.endswith("\n")]
                return sorted(line["subject"] for line in lines
                              if line["what"] == "capture.remove" and line["who"] == "aggregator/retention")
            # A capture is gone with its name; the audit log tells of it when its files are gone as well.
            self.wait_for(lambda: len(gone()) == 6, "each of them is in the audit log")
            self.assertEqual(gone(), sorted([*ids, newest, going]))
            self.assertIn("older than --keep-for", rig.log_text("aggregator"))
            self.assertIn("more than --keep-bytes", rig.log_text("aggregator"))


if __name__ == "__main__":
    unittest_run.main()
