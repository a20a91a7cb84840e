#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A node gets its start, and the word that it has it is lost with the link.

The aggregator cannot tell that from a start that never came, so it moves the start for all while nobody has begun. A node that is back
before the first start forgets it: every rank records the same steps, and the capture is complete. Where it is back too late its ranks have
begun alone: the capture is partial, and says who and why. (It once was complete with ranks that had recorded other steps.)

A relay stands between one of two collectors and the aggregator. It looks for the capture's id in what passes: down is PREPARE, then up its
answer, then down COMMIT. That one still passes, and then nothing either way until the link is cut.
"""
import os
import select
import socket
import sys
import threading
import time
import unittest

import unittest_run

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from rig_native import Rig  # pylint: disable=wrong-import-position

WORLD, NODES, STEPS = 4, 2, 4
ORDER = ("down", "up", "down")


class Relay(threading.Thread):
    def __init__(self, path, target):
        super().__init__(daemon=True)
        self.path, self.target = path, target
        self.word = None  # looked for; None: everything passes
        self.seen = 0
        self.has_lost = threading.Event()
        self.pairs = []
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(path)
        self.listener.listen(8)

    def lose(self, word):
        self.word, self.seen = word.encode(), 0

    def run(self):
        while True:
            near, _ = self.listener.accept()
            far = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                far.connect(self.target)
            except OSError:
                near.close()
                continue
            threading.Thread(target=self.carry, args=(near, far), daemon=True).start()

    def is_lost(self, way, data):
        """Counted before it is passed on: what COMMIT is answered with is lost for certain."""
        if not self.word:
            return False
        if self.seen == len(ORDER):
            return True
        self.seen += way == ORDER[self.seen] and self.word in data
        return False

    def carry(self, near, far):
        ways = {near: ("up", far), far: ("down", near)}
        while True:
            for end in select.select(list(ways), [], [], 0.1)[0]:
                way, other = ways[end]
                try:
                    data = end.recv(1 << 16)
                    if not data:
                        raise OSError
                    if self.is_lost(way, data):
                        continue
                    other.sendall(data)
                except OSError:
                    near.close()
                    far.close()
                    return
            if self.word and self.seen == len(ORDER):
                self.has_lost.set()
            if self.word is False:  # cut
                near.close()
                far.close()
                return

    def cut(self):
        self.word = False
        time.sleep(0.5)
        self.word = None


class RelayRig(Rig):
    relay = None

    def start_collector(self, node, *words):
        if node == 1:
            if not self.relay:
                self.relay = Relay(os.path.join(self.folder, "relay.sock"), os.path.join(self.folder, "a.sock"))
                self.relay.start()
            words = (*words, "--connect", "unix:" + self.relay.path)
        super().start_collector(node, *words)


class LostWord(unittest.TestCase):
    def until(self, is_it, what, seconds=300):
        end = time.monotonic() + seconds
        while not is_it():
            self.assertLess(time.monotonic(), end, "never: " + what)
            time.sleep(0.05)

    def lose(self, rig, wait_until):
        """A capture whose COMMIT comes to node 1 and whose answer to that does not come back. Exit code, and what it came to."""
        rig.wait_ranks(WORLD)
        before = {c["id"] for c in rig.captures()}
        rig.relay.lose(time.strftime("%Y%m%d-", time.gmtime()))  # as an id begins
        capture = rig.capture("--run", "lost", "--steps", str(STEPS), "--no-report")
        self.assertTrue(rig.relay.has_lost.wait(120), "COMMIT did not pass")
        self.until(lambda: "all ranks are asked again" in rig.log_text("aggregator"), "the start is moved")
        self.until(lambda: wait_until(rig), "it is time to cut")
        rig.relay.cut()
        code, _ = capture.end()
        return code, rig.show(next(c["id"] for c in rig.captures() if c["id"] not in before))

    def test_the_link_is_back_before_the_start_and_the_first_is_forgotten(self):
        with RelayRig(WORLD, NODES, 1000, run="lost") as rig:
            code, shown = self.lose(rig, lambda _: True)
            self.assertIn("the one before is forgotten", rig.log_text("collector1"))
            self.assertEqual((code, shown["state"]), (0, "complete"), shown["ranks"])
            ranks = {(rank["state"], rank["steps_done"], rank["reason"]) for rank in shown["ranks"]}
            self.assertEqual(ranks, {("done", STEPS, None)}, shown["ranks"])

    def test_the_link_is_back_when_the_start_has_passed_and_who_began_alone_is_named(self):
        with RelayRig(WORLD, NODES, 100, run="lost") as rig:
            first = rig.foremost_step
            begun = []
            code, shown = self.lose(rig, lambda rig: begun.append(first()) or begun[-1] > begun[0] + 40)
            self.assertEqual((code, shown["state"]), (1, "partial"), shown["ranks"])
            for rank in shown["ranks"]:
                is_here = rank["rank"] < WORLD // 2
                self.assertEqual(rank["state"], "done" if is_here else "partial", shown["ranks"])
                self.assertTrue(is_here or "it began alone" in rank["reason"], shown["ranks"])


if __name__ == "__main__":
    unittest_run.main()
