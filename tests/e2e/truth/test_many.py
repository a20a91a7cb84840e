#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rows in 20,000 streams, threads, steps or process groups cost about what they cost in one: nothing grows with the square.

CPU time, the least of two runs, both sides by the same program one after the other. Streams, threads and groups cost 1.1 to 1.5 times
what one costs, steps, of which each is a row in every table, 3 times; what once grew with the square cost 5 to 30 times
at this count.
"""
import os
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench"))
os.environ["RANKSCOPE"] = os.environ.get("RANKSCOPE", "rankscope")
import many  # noqa: E402  (the bench of the same, with more of each)

COUNT = 20000
MOST = {"streams": 3, "threads": 3, "steps": 7, "groups": 3}


class Many(unittest.TestCase):
    def cost(self, kind, ranks):
        folder = tempfile.mkdtemp(prefix="rs-many-")
        self.addCleanup(shutil.rmtree, folder)
        os.mkdir(os.path.join(folder, "in"))
        for rank in range(ranks):
            many.write_trace(os.path.join(folder, "in", "rank%d.json" % rank), COUNT, kind, rank, ranks)
        return min(many.measure(os.path.join(folder, "in"), os.path.join(folder, "out"))[0] for _ in range(2))

    def check(self, kinds, one, ranks):
        base = self.cost(one, ranks)
        for kind in kinds:
            with self.subTest(kind=kind, ranks=ranks):
                self.assertLess(self.cost(kind, ranks), MOST[kind] * base)

    def test_streams_threads_steps(self):
        self.check(("streams", "threads", "steps"), "one", 1)

    def test_process_groups(self):
        self.check(("groups",), "group", 2)


if __name__ == "__main__":
    unittest.main()
