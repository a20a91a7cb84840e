#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Operations are joined right or not at all: rows lost, clocks off, groups side by side that no file names.

Jobs of ../shared (skipped with 77 where they are not there). Rows are dropped and clocks moved as tests/bench/row_loss.py does.
"""
import os
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../bench"))
import row_loss  # noqa: E402

PROGRAM = os.environ.get("RANKSCOPE", "rankscope")
SHARED = os.path.abspath(os.path.join(HERE, "../../../../shared/data"))


def lossy(folder, loss, offset_ms=0.0, drift_ppm=0.0, seed=0):
    """found, possible, wrong, false exact."""
    with tempfile.TemporaryDirectory(prefix="rs-truth-") as scratch:
        job = os.path.join(scratch, "job")
        os.mkdir(job)
        whole = row_loss.analyse(PROGRAM, folder, os.path.join(scratch, "whole"))
        shifts = row_loss.lose(folder, job, loss, seed, offset_ms, drift_ppm)
        out = os.path.join(scratch, "out")
        found, possible, wrong, exact, known, rows = row_loss.count(
            whole, row_loss.analyse(PROGRAM, job, out), shifts, out)
        assert known == rows and possible > 0, (known, rows, possible)
        return found, possible, wrong, exact


class RowLoss(unittest.TestCase):
    def check(self, job, loss, least, **clocks):
        found, possible, wrong, exact = lossy(os.path.join(SHARED, job), loss, **clocks)
        self.assertEqual((wrong, exact), (0, 0))
        self.assertGreaterEqual(found, least * possible)

    def test_dlrm(self):
        self.check("kineto/dlrm-8rank", 0, 1)
        self.check("kineto/dlrm-8rank", 0.1, 0.99)

    def test_dlrm_with_clocks_off(self):
        self.check("kineto/dlrm-8rank", 0.1, 0.99, offset_ms=50.0, drift_ppm=35.0)

    def test_pipeline(self):
        self.check("planted/clean", 0.1, 0.99)
        self.check("planted/clean", 0.3, 0.95)

    def test_gloo(self):
        self.check("kineto/gloo-ddp-4rank-api", 0.1, 0.99)

    def test_groups_side_by_side_with_rows_lost(self):
        """Rows lost make ranks of two groups look like one: what nobody can tell stays apart."""
        for loss in (0.1, 0.3):
            found, possible, wrong, exact = lossy(os.path.join(SHARED, "planted/clean-no-arguments"), loss)
            self.assertEqual((wrong, exact), (0, 0), loss)
            self.assertGreaterEqual(found, 0.5 * possible)

    def test_lost_rows_and_no_clock(self):
        """By order alone a row lost shifts all that follow: with seed 2 rank 6 finds no clock."""
        found, possible, wrong, exact = lossy(os.path.join(SHARED, "kineto/dlrm-8rank"), 0.3, seed=2)
        self.assertEqual((wrong, exact), (0, 0))

    def test_groups_side_by_side_that_no_file_names(self):
        """2 x 2 x 2 ranks: tensor pairs 0-1, 2-3, ..., data pairs 0-2, 1-3, ..., and all."""
        with tempfile.TemporaryDirectory(prefix="rs-truth-") as out:
            rows = row_loss.analyse(PROGRAM, os.path.join(SHARED, "planted/clean-no-arguments"), out)
        sets = [tuple(sorted(int(r["Rank"]) for r in op)) for op in row_loss.pairs(rows).values()]
        joined = [ranks for ranks in sets if len(ranks) > 1]
        right = {(0, 1), (2, 3), (4, 5), (6, 7), (0, 2), (1, 3), (4, 6), (5, 7), (0, 4), (1, 5), (2, 6), (3, 7), tuple(range(8))}
        self.assertEqual([ranks for ranks in joined if ranks not in right], [])
        self.assertGreaterEqual(sum(ranks in ((0, 1), (2, 3), (4, 5), (6, 7)) for ranks in joined), 380)


if __name__ == "__main__":
    if not os.path.isdir(SHARED):
        print(f"skipped: no shared data at {SHARED}")
        sys.exit(77)
    unittest.main()
