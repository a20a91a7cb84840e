#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A profiler_config.json edited by hand while ranks run starts captures. Two collectors and the aggregator watch the same
folder, and every edit is one capture; edited during a capture, the last edit runs next."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import unittest_run

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from rig_native import NATIVE_ONLY, PROGRAM, Rig  # pylint: disable=wrong-import-position

CLIENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "kineto_client.py")
WORLD = 8


def say(text):
    print("config:", text, flush=True)


class Folder:
    """The file, as people and programs change it."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="rs-config-")
        self.path = os.path.join(self.folder, "profiler_config.json")
        self.run("init", "-o", self.folder)

    def run(self, *words):
        done = subprocess.run([PROGRAM, "config", *words], capture_output=True, text=True, check=False)
        if done.returncode:
            raise AssertionError(done.stderr + done.stdout)

    def set(self, *settings):
        self.run("set", self.path, "-q", *settings)

    def text(self, **keys):
        """The file as it is, with those keys."""
        with open(self.path, encoding="utf-8") as file:
            document = json.load(file)
        document.update(keys)
        return json.dumps(document, indent=2)


class Watch(unittest.TestCase):
    rig = folder = None

    @classmethod
    def setUpClass(cls):
        cls.folder = Folder()
        watch = ("--profiler-config", cls.folder.folder)
        cls.rig = Rig(world=WORLD, nodes=2, step_ms=100, run="config", collector_words=(*NATIVE_ONLY, *watch),
                      aggregator_words=watch).__enter__()
        cls.rig.wait_ranks(WORLD)

    @classmethod
    def tearDownClass(cls):
        cls.rig.__exit__(None, None, None)
        shutil.rmtree(cls.folder.folder)

    def setUp(self):
        self.before = len(self.rig.captures())

    def next(self, count=1, seconds=15):
        """The captures since the start of the test: so many, all closed, and not one more."""
        found = self.rig.wait_captures(self.before + count, seconds)
        time.sleep(1.5)  # a watcher that looks once a second would have come by now
        self.assertEqual(len(self.rig.captures()), self.before + count)
        return [self.rig.show(one["id"]) for one in found[self.before:]]

    def nothing(self, seconds=2.5):
        time.sleep(seconds)
        self.assertEqual(len(self.rig.captures()), self.before)

    def logs(self):
        return "".join(self.rig.log_text(name) for name in ("aggregator", "collector0", "collector1"))

    def is_whole(self, capture, steps, ranks=range(WORLD)):
        self.assertEqual((capture["state"], capture["steps"]), ("complete", steps), capture)
        self.assertEqual({r["rank"]: (r["state"], r["steps_done"]) for r in capture["ranks"]},
                         {rank: ("done", steps) for rank in ranks})
        self.assertTrue(capture["id"].startswith("config-"), capture["id"])

    def test_01_what_is_there_at_start_is_not_applied(self):
        self.nothing()
        self.assertIn("the version that is there is not one", self.logs())

    def test_02_an_edit_is_one_capture(self):
        started = time.monotonic()
        self.folder.set("start_step=-1", "active=3", "warmup=1")
        self.rig.wait_captures(self.before + 1)
        say(f"edited, 3 steps of 0.1 s captured and stored {time.monotonic() - started:.1f} s after")
        self.is_whole(self.next()[0], 3)

    def test_03_rank_list_chooses(self):
        self.folder.set("is_rank=true", "rank_list=1,3-4", "active=2")
        self.is_whole(self.next()[0], 2, (1, 3, 4))
        self.folder.set("rank_list=")  # is_rank with an empty list: nothing
        self.nothing_more(1)
        self.assertIn("rank_list", self.logs())
        self.folder.set("is_rank=false", "active=1")
        self.is_whole(self.next(2)[1], 1)

    def test_04_an_absolute_step(self):
        step = self.rig.foremost_step() + 40
        self.folder.set(f"start_step={step}", "active=2", "is_rank=false")
        capture = self.next()[0]
        self.is_whole(capture, 2)
        self.assertEqual(capture["start_step"], step)
        self.folder.set("start_step=2")  # long past
        time.sleep(2.5)
        self.assertNotIn("complete", {c["state"] for c in self.rig.captures() if c["start_step"] == 2})
        self.assertIn("all 8 ranks are refused", self.logs())
        self.assertRegex(self.logs(), r"ranks [0-9,-]+: refused")  # grouped by the step they are in

    def test_05_however_it_is_written(self):
        # In place and slowly, as a copy over a bad network; the first half is no JSON.
        text = self.folder.text(start_step=-1, active=2, is_rank=False)
        with open(self.folder.path, "w", encoding="utf-8") as file:
            file.write(text[:100])
            file.flush()
            time.sleep(0.6)
            file.write(text[100:])
        self.is_whole(self.next()[0], 2)
        # As vim does: the old one is moved away, the new one written under its name.
        os.rename(self.folder.path, self.folder.path + "~")
        with open(self.folder.path, "w", encoding="utf-8") as file:
            file.write(text.replace('"active": 2', '"active": 3'))
        self.is_whole(self.next(2)[1], 3)
        # As most others: a new file over it. And a touch, which the vendor's monitor takes, too.
        with open(self.folder.path + ".new", "w", encoding="utf-8") as file:
            file.write(text)
        os.rename(self.folder.path + ".new", self.folder.path)
        self.is_whole(self.next(3)[2], 2)
        os.utime(self.folder.path)
        self.is_whole(self.next(4)[3], 2)
        # What changes neither bytes nor time is no edit.
        os.chmod(self.folder.path, 0o640)
        self.nothing_more(4)

    def nothing_more(self, count):
        time.sleep(2)
        self.assertEqual(len(self.rig.captures()), self.before + count)

    def test_06_what_is_not_valid_starts_nothing_and_says_where(self):
        good = self.folder.text(start_step=-1, active=1, is_rank=False)
        with open(self.folder.path, "w", encoding="utf-8") as file:
            file.write('{\n  "start_step": -1,\n  "active": "many"\n}\n')
        self.nothing(4)
        self.assertIn(self.folder.path + ":3:13: error: active", self.logs())
        self.assertIn("is not valid, nothing is started", self.logs())
        os.truncate(self.folder.path, 0)
        self.nothing(4)
        with open(self.folder.path, "w", encoding="utf-8") as file:
            file.write(good)
        self.is_whole(self.next()[0], 1)

    def test_07_the_last_edit_runs_next(self):
        self.folder.set("start_step=-1", "active=40", "is_rank=false")  # 4 s
        until = time.monotonic() + 10
        while time.monotonic() < until:
            running = [c for c in self.rig.captures() if c["state"] == "recording"]
            if running:
                break
            time.sleep(0.05)
        self.assertEqual(len(running), 1)
        self.folder.set("active=2")
        until = time.monotonic() + 5
        while time.monotonic() < until and not [c for c in self.rig.captures() if c["state"] == "queued"]:
            time.sleep(0.05)
        waiting = [c for c in self.rig.captures() if c["state"] == "queued"]
        self.assertEqual(len(waiting), 1)
        self.assertIn(running[0]["id"], waiting[0]["reason"])
        self.folder.set("active=5")
        first, replaced, last = self.next(3)
        self.is_whole(first, 40)
        self.assertEqual((replaced["id"], replaced["state"]), (waiting[0]["id"], "failed"))
        self.assertIn("replaced before it began: a later edit of " + self.folder.path, replaced["reason"])
        self.assertIn(last["id"], replaced["reason"])
        self.is_whole(last, 5)
        self.assertGreaterEqual(last["start_step"], first["start_step"] + 40)
        say(f"edited twice during a capture: the first edit is {replaced['state']} ({replaced['reason']}); "
            f"the last, of 5 steps, is {last['state']} from step {last['start_step']}")

    def test_08_an_edit_to_none_takes_back_what_waits(self):
        self.folder.set("start_step=-1", "active=30", "is_rank=false")
        self.wait_state("recording")
        self.folder.set("active=2")
        self.wait_state("queued")
        self.folder.set("start_step=0")
        first, replaced = self.next(2)
        self.is_whole(first, 30)
        self.assertEqual(replaced["state"], "failed")
        self.assertIn("asks for nothing", replaced["reason"])

    def wait_state(self, state, seconds=300):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if [c for c in self.rig.captures() if c["state"] == state]:
                return
            time.sleep(0.05)
        raise AssertionError("no capture is " + state)

    def test_09_what_rankscope_wrote_for_a_rank_is_no_edit(self):
        self.folder.set("start_step=-1", "active=2", "metadata.rankscope_capture=20260102-030405-a1b2c3")
        self.nothing()
        self.assertIn("was written for capture", self.logs())

    def test_09_when_a_collector_leaves_mindspores_file_it_is_no_edit(self):
        with open(self.folder.path, "w", encoding="utf-8") as file:
            file.write('{"start_step": 1000000000, "stop_step": 1000000000, "analyse_mode": -1}\n')
        self.nothing()
        self.assertIn("was written by a collector", self.logs())

    def test_10_no_aggregator_for_a_while(self):
        self.rig.aggregator.terminate()
        self.rig.aggregator.wait()
        self.rig.aggregator.stdout.close()
        with open(self.folder.path, "w", encoding="utf-8") as file:
            file.write('{"start_step": -1, "active": 2, "warmup": 1}\n')
        time.sleep(3)
        self.rig.start_aggregator()
        self.is_whole(self.next(seconds=40)[0], 2)
        self.assertIn("trying again until it is edited once more", self.logs())


class Kineto(unittest.TestCase):
    """The same with processes that keep to the rules of PyTorch's profiler."""

    def edit_thrice(self):
        folder = Folder()
        sockets = tempfile.mkdtemp(prefix="rs-k-")
        rig = Rig(world=0, nodes=1, step_ms=0, run="kineto", collector_words=(
            "--no-native", "--no-ascend", "--no-mindspore", "--kineto", "--kineto-socket-dir", sockets,
            "--trace-dir", os.path.join(sockets, "traces"), "--profiler-config", folder.folder))
        clients = []
        with rig:
            try:
                for rank in range(4):
                    environment = dict(os.environ, KINETO_USE_DAEMON="1", KINETO_IPC_SOCKET_DIR=sockets, RANK=str(rank),
                                       WORLD_SIZE="4", LOCAL_RANK=str(rank), RANKSCOPE_RUN="kineto")
                    clients.append(subprocess.Popen([sys.executable, CLIENT, "--late", "3"], env=environment))
                until = time.monotonic() + 20
                while len(rig.ranks()) < 4 and time.monotonic() < until:
                    time.sleep(0.2)
                folder.set("start_step=-1", "active=3")
                until = time.monotonic() + 20
                while not [c for c in rig.captures() if c["state"] == "recording"] and time.monotonic() < until:
                    time.sleep(0.1)
                folder.set("active=5", "is_rank=true", "rank_list=2")
                time.sleep(1)
                folder.set("active=2", "rank_list=1,3")
                captures = rig.wait_captures(3, 90)
            finally:
                for client in clients:
                    client.kill()
                    client.wait()
            shown = [rig.show(capture["id"]) for capture in captures]
        shutil.rmtree(sockets)
        shutil.rmtree(folder.folder)
        return shown

    def test_edits_reach_pytorch_ranks(self):
        # Ranks round their own counts up: one that polls before such a step while the others poll behind it records a round
        # earlier. It cannot be excluded (about one capture in twenty), it must be said, and the user tries again.
        for _ in range(4):
            shown = self.edit_thrice()
            if not any("not the same time" in (capture["reason"] or "") for capture in shown):
                break
            self.assertNotIn("complete", [c["state"] for c in shown if "not the same time" in (c["reason"] or "")])
            say("a rank recorded a round earlier, and the capture said so: once more")
        for capture, steps, ranks in ((shown[0], 3, [0, 1, 2, 3]), (shown[2], 2, [1, 3])):
            self.assertEqual((capture["state"], capture["steps"]), ("complete", steps), capture)
            self.assertEqual([r["rank"] for r in capture["ranks"]], ranks)
        self.assertEqual(shown[1]["state"], "failed")
        self.assertIn("replaced before it began", shown[1]["reason"])
        say("the same on 4 PyTorch-like ranks: 3 steps on all, then the last edit: 2 steps on 1,3")


if __name__ == "__main__":
    unittest_run.main(verbosity=1)
