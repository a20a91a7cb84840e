#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`rankscope watch`: a job whose rank 3 turns slow is noticed, captured, its rank named and told to a webhook; nothing else is an alarm.

The job is deploy/demo/minitrain: every rank waits 150 ms for its data, so that the series is learnt before step 160 on any machine.
"""
import json
import os
import signal
import subprocess
import tempfile
import time
import unittest

import unittest_run

from rig_native import BUILD, PROGRAM, Rig
from test_webhook import Receiver

CHANGE, FACTOR, WORLD = 160, 40, 4


def job(rig, *words):
    os.symlink("c0", os.path.join(rig.folder, "collector.sock"))
    stalls = [word for rank in range(WORLD) for word in ("--data-stall", f"{rank}:150")]
    with open(os.path.join(rig.folder, "minitrain.log"), "wb") as log:
        return subprocess.Popen([os.path.join(BUILD, "minitrain"), "--dp", "4", "--pp", "1", "--hidden", "2048", "--steps", "0", "--run", "demo", *stalls, *words],
                                stdout=log, stderr=log, env=dict(os.environ, RANKSCOPE_RUNTIME_DIR=rig.folder))


def watch(rig, *words):
    return subprocess.Popen([PROGRAM, "watch", "--connect", rig.address, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def end(process):
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        process.wait(120)


class StepWatch(unittest.TestCase):
    def test_a_rank_that_turns_slow(self):
        receiver = Receiver()
        with Rig(world=0, nodes=1, step_ms=50, aggregator_words=["--webhook", receiver.url + "/told"]) as rig:
            out = os.path.join(rig.folder, "out")
            watching = watch(rig, "demo", "--alarms", "1", "--json", "-o", out)  # before the job is there
            only_tells = watch(rig, "demo", "--alarms", "1", "--json", "--no-capture")
            minitrain = job(rig, "--slow-rank", f"3:{FACTOR}@{CHANGE}")
            try:
                said, told = watching.communicate(timeout=240)
                self.assertEqual(watching.returncode, 0, told)
                alarm = json.loads(said)
                print(alarm, flush=True)
                self.assertEqual((alarm["event"], alarm["run"], alarm["exit"], alarm["not_captured_because"]), ("regression", "demo", 0, None))
                self.assertGreater(alarm["now_ns"], 1.15 * alarm["before_ns"])
                self.assertGreater(alarm["before_ns"], 150_000_000)
                # The first longer sample may have begun before the change.
                self.assertLessEqual(CHANGE - 20, alarm["first_step"])
                self.assertLessEqual(alarm["last_step"], CHANGE + 20)
                self.assertLess(CHANGE, alarm["last_step"])
                # Who is suspected, with a healthy rank of the same stage, and why: kept with the capture.
                self.assertEqual(alarm["ranks"], "2,3")
                kept = rig.show(alarm["capture"])["request"]
                self.assertEqual((kept["ranks"], kept["metadata"]["watch"]), ("2,3", alarm["why"]))
                self.assertEqual([suspect["rank"] for suspect in alarm["why"]["suspects"]], [3])
                self.assertRegex(alarm["why"]["reason"], "^rank 3 takes .* ms a step for its own work, .* times as long as before")
                self.assertIn("watching; steps take", told)
                with open(os.path.join(out, "report.json"), encoding="utf-8") as file:
                    finding = json.load(file)["findings"][0]
                self.assertEqual((finding["kind"], finding["where"]), ("slow_rank", {"rank": 3}))
                said, told = only_tells.communicate(timeout=60)
                alone = json.loads(said)
                self.assertEqual((only_tells.returncode, alone["capture"], alone["exit"], alone["not_captured_because"]),
                                 (0, None, None, "--no-capture"), told)
                self.assertEqual([c["id"] for c in rig.captures()], [alarm["capture"]])
                rig.aggregator.terminate()  # what it has to tell is told before it ends
                rig.aggregator.wait(120)
                events = [json.loads(body) for _, _, body in receiver.taken]
                self.assertEqual([(e["event"], e["capture"]) for e in events], [("culprit_found", alarm["capture"])])
                self.assertIn("Rank 3 ", events[0]["text"])
            finally:
                end(watching)
                end(only_tells)
                end(minitrain)
        receiver.shutdown()
        receiver.server_close()

    def test_while_nobody_looks(self):
        """The aggregator watches itself: what it tells webhooks, in order, and what it keeps."""
        receiver = Receiver()
        with Rig(world=0, nodes=1, step_ms=50, aggregator_words=["--webhook", receiver.url + "/told", "--step-watch"]) as rig:
            minitrain = job(rig, "--slow-rank", f"3:{FACTOR}@{CHANGE}")
            try:
                until = time.monotonic() + 240
                while len(receiver.taken) < 2 and time.monotonic() < until:
                    time.sleep(0.2)
                events = [json.loads(body) for _, _, body in receiver.taken]
                print(events, flush=True)
                captures = rig.captures()
                self.assertEqual([(e["event"], e["run"], e["state"]) for e in events],
                                 [("regression", "demo", None), ("culprit_found", "demo", "complete")])
                self.assertEqual([c["id"] for c in captures], [events[0]["capture"]])
                self.assertEqual(events[1]["capture"], events[0]["capture"])
                self.assertRegex(events[0]["text"], "^Run demo: rank 3 takes .* times as long as before .* from step [0-9]+ on; captured as ")
                self.assertIn("Rank 3 ", events[1]["text"])
                self.assertLess((events[1]["time_ns"] - events[0]["time_ns"]) / 1e9, 60)
                self.assertEqual(rig.show(captures[0]["id"])["request"]["ranks"], "2,3")
                told = subprocess.run([PROGRAM, "capture", "show", captures[0]["id"], "--connect", rig.address], capture_output=True, text=True, check=True)
                self.assertRegex(told.stdout, "(?m)^watch      rank 3 takes .* times as long as before")
                self.assertIn("captured as " + events[0]["capture"], rig.log_text("aggregator"))
            finally:
                end(minitrain)
        receiver.shutdown()
        receiver.server_close()

    def test_an_aggregator_that_is_away(self):
        with Rig(world=0, nodes=0, step_ms=50) as rig:
            rig.aggregator.terminate()
            rig.aggregator.wait(120)
            rig.aggregator.stdout.close()
            watching = watch(rig)
            try:
                self.assertIn("asking on", watching.stderr.readline())
                rig.start_aggregator()
                self.assertIn("answers again", watching.stderr.readline())
                self.assertIn("there is no run so far; waiting for one", watching.stderr.readline())
                named = watch(rig, "train9")
                self.assertIn("no run is called train9 so far", named.stderr.readline())
                end(named)
                named.communicate()
                watching.send_signal(signal.SIGINT)
                said, _ = watching.communicate(timeout=120)
                self.assertEqual((watching.returncode, said), (130, ""))
            finally:
                end(watching)

    def test_what_cannot_be(self):
        for words in (["--longer-by", "0%"], ["--longer-by", "x"], ["one", "two"], ["--steps", "0"], ["--per-day", "0"], ["--connect", "nonsense:"]):
            done = subprocess.run([PROGRAM, "watch", *words], capture_output=True, text=True, timeout=120, check=False)
            self.assertEqual(done.returncode, 2, (words, done.stderr))
            self.assertTrue(done.stderr.startswith("rankscope watch: "), done.stderr)
        # The daemon's: looked at also where nothing is watched.
        with tempfile.TemporaryDirectory(prefix="rs-step-watch-") as folder:
            for words in (["--step-probes"], ["--step-probe-share", "100%"], ["--step-probe-share", "250%", "--step-watch", "--step-probes"]):
                with subprocess.Popen([PROGRAM, "aggregator", "--data", folder, "--listen", f"unix:{folder}/a", *words], stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, text=True) as daemon:
                    said = daemon.stdout.readline()  # where it listens, or nothing
                    daemon.terminate()
                    _, told = daemon.communicate(timeout=120)
                self.assertEqual((said, daemon.returncode), ("", 2), (words, told))
                self.assertIn("--step-probe", told)


if __name__ == "__main__":
    unittest_run.main()
