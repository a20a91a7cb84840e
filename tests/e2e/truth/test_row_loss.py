#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Operations are joined right or not at all: rows lost, clocks off, groups side by side that no file names.

Simulated jobs (tests/bench/culprits) and the recorded one of docs/examples; where ../shared/data is, those there as well. Rows are
dropped and clocks moved as tests/bench/row_loss.py does.
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../bench"))
import row_loss  # noqa: E402

PROGRAM = os.environ.get("RANKSCOPE", "rankscope")
sys.path.insert(0, os.path.join(HERE, "../../support"))
import ascend_inputs  # noqa: E402

SIMULATE = os.path.join(os.environ.get("RANKSCOPE_BUILD", "build/dev"), "bench_culprits")
EXAMPLE = os.path.join(HERE, "../../../docs/examples/slow-loader")
SHARED = ascend_inputs.DATA


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


class Case(unittest.TestCase):
    def check(self, job, loss, least, **clocks):
        found, possible, wrong, exact = lossy(job, loss, **clocks)
        self.assertEqual((wrong, exact), (0, 0))
        self.assertGreaterEqual(found, least * possible)

    def check_side_by_side(self, job, least_pairs):
        """2 x 2 x 2 ranks: tensor pairs 0-1, 2-3, ..., data pairs 0-2, 1-3, ..., and all."""
        with tempfile.TemporaryDirectory(prefix="rs-truth-") as out:
            rows = row_loss.analyse(PROGRAM, job, out)
        sets = [tuple(sorted(int(r["Rank"]) for r in op)) for op in row_loss.pairs(rows).values()]
        joined = [ranks for ranks in sets if len(ranks) > 1]
        right = {(0, 1), (2, 3), (4, 5), (6, 7), (0, 2), (1, 3), (4, 6), (5, 7), (0, 4), (1, 5), (2, 6), (3, 7), tuple(range(8))}
        self.assertEqual([ranks for ranks in joined if ranks not in right], [])
        self.assertGreaterEqual(sum(ranks in ((0, 1), (2, 3), (4, 5), (6, 7)) for ranks in joined), least_pairs)

    def check_groups(self, job, least):
        """All that is joined is a tensor group, a data group, or everybody. rank = (stage * dp + copy) * tp + column."""
        tensor, data, ranks = job["tp"], job["dp"], range(job["ranks"])
        right = {tuple(ranks)} | {tuple(r for r in ranks if r // tensor == k // tensor) for k in ranks}
        right |= {tuple(r for r in ranks if (r // (data * tensor), r % tensor) == (k // (data * tensor), k % tensor)) for k in ranks}
        with tempfile.TemporaryDirectory(prefix="rs-truth-") as out:
            rows = row_loss.analyse(PROGRAM, job["folder"], out)
        ops = [op for op in row_loss.pairs(rows).values() if len(op) > 1]
        wrong = [(op[0]["Group"], op[0]["Op"]) for op in ops if tuple(sorted(int(r["Rank"]) for r in op)) not in right]
        self.assertEqual(wrong, [])
        self.assertGreaterEqual(len(ops), least)


class Simulated(Case):
    """A pipeline of 2 x 2 x 2 ranks, with and without the arguments of messages."""

    @classmethod
    def setUpClass(cls):
        cls.work = tempfile.TemporaryDirectory(prefix="rs-truth-")
        cls.pipeline, cls.bare = cls.simulate("clean", 23), cls.simulate("clean-no-arguments", 63)

    @classmethod
    def job(cls, kind, seed):
        done = subprocess.run([SIMULATE, kind, str(seed), "1", "--traces", cls.work.name], check=True, capture_output=True, text=True)
        return json.loads(done.stdout)

    @classmethod
    def simulate(cls, kind, seed):
        job = cls.job(kind, seed)
        assert (job["ranks"], job["tp"], job["pp"], job["dp"]) == (8, 2, 2, 2), job
        return job["folder"]

    @classmethod
    def tearDownClass(cls):
        cls.work.cleanup()

    def test_pipeline(self):
        self.check(self.pipeline, 0, 1)
        self.check(self.pipeline, 0.1, 0.99)
        self.check(self.pipeline, 0.3, 0.95)

    def test_pipeline_with_clocks_off(self):
        self.check(self.pipeline, 0.1, 0.99, offset_ms=50.0, drift_ppm=35.0)

    def test_gloo(self):
        self.check(EXAMPLE, 0.1, 0.75)

    def test_groups_side_by_side_with_rows_lost(self):
        """Rows lost make ranks of two groups look like one: what nobody can tell stays apart."""
        for loss in (0.1, 0.3):
            self.check(self.bare, loss, 0.5)

    def test_groups_side_by_side_that_no_file_names(self):
        self.check_side_by_side(self.bare, 200)

    def test_stages_that_do_equal_work(self):
        """Shifted by the time between two stages of a pipeline, their operations agree: no clock is off by that, and what meets on
        such a clock, or by order alone, is no group."""
        for seed, least in ((8, 500), (50, 500)):
            with self.subTest(seed=seed):
                self.check_groups(self.job("clean-no-arguments", seed), least)


if os.path.isdir(SHARED):
    class Recorded(Case):
        def check_shared(self, job, *more, **clocks):
            self.check(os.path.join(SHARED, job), *more, **clocks)

        def test_dlrm(self):
            self.check_shared("kineto/dlrm-8rank", 0, 1)
            self.check_shared("kineto/dlrm-8rank", 0.1, 0.99)

        def test_dlrm_with_clocks_off(self):
            self.check_shared("kineto/dlrm-8rank", 0.1, 0.99, offset_ms=50.0, drift_ppm=35.0)

        def test_pipeline(self):
            self.check_shared("planted/clean", 0.1, 0.99)
            self.check_shared("planted/clean", 0.3, 0.95)

        def test_exchanges_of_a_group_of_four(self):
            """Batches with one peer each, numbered by what a rank exchanges with anyone of its group."""
            for loss, least in ((0, 1), (0.1, 0.99), (0.3, 0.95)):
                with self.subTest(loss=loss):
                    self.check_shared("planted/clean-two-fabrics-hosts", loss, least)

        def test_gloo_groups_side_by_side(self):
            """Groups of two that reduce equally many bytes at once, two operations each, and sends of one size."""
            for seed in range(6):
                with self.subTest(seed=seed):
                    self.check_shared("kineto/gloo-groups-4rank-ondemand", 0.1, 0.97, seed=seed)

        def test_gloo(self):
            self.check_shared("kineto/gloo-ddp-4rank-api", 0.1, 0.99)

        def test_groups_side_by_side_with_rows_lost(self):
            for loss in (0.1, 0.3):
                self.check_shared("planted/clean-no-arguments", loss, 0.5)

        def test_lost_rows_and_no_clock(self):
            """By order alone a row lost shifts all that follow: with seed 2 rank 6 finds no clock."""
            self.check_shared("kineto/dlrm-8rank", 0.3, 0, seed=2)

        def test_groups_side_by_side_that_no_file_names(self):
            self.check_side_by_side(os.path.join(SHARED, "planted/clean-no-arguments"), 380)


if __name__ == "__main__":
    unittest.main()
