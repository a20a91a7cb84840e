#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real NCCL, four ranks on one GPU: ends that lie milliseconds apart, one sequence of collectives (tests/golden/nccl-one-gpu)."""
import collections
import csv
import json
import lzma
import os
import subprocess
import tarfile
import tempfile
import unittest

PROGRAM = os.environ.get("RANKSCOPE", "rankscope")
DATA = os.path.abspath(os.path.join(os.path.dirname(__file__), "../../golden/nccl-one-gpu"))


class Nccl(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory(prefix="rs-nccl-") as out:
            done = subprocess.run([PROGRAM, "analyse", DATA, "-o", out, "--quiet"], capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            with open(os.path.join(out, "collectives.csv"), newline="", encoding="utf-8") as file:
                cls.rows = list(csv.DictReader(file))
            for name in ("clock", "report"):
                with open(os.path.join(out, name + ".json"), encoding="utf-8") as file:
                    setattr(cls, name, json.load(file))

    def test_every_operation_is_matched(self):
        ops = collections.defaultdict(list)
        for row in self.rows:
            ops[row["OpId"]].append(row)
        self.assertEqual(len(ops), 17)
        for rows in ops.values():
            self.assertEqual([row["Rank"] for row in rows], ["0", "1", "2", "3"])
            self.assertEqual({row["Coverage"] for row in rows}, {"exact"})
            self.assertEqual(len({row["Bytes"] for row in rows}), 1)
            self.assertLessEqual(max(int(row["Start(ns)"]) for row in rows), min(int(row["End(ns)"]) for row in rows))

    def test_clocks_within_their_bounds(self):
        """It was one host's clock."""
        for rank in self.clock["ranks"]:
            self.assertLessEqual(abs(rank["offset_ns"]), rank["bound_ns"], rank)

    def test_the_slow_loader_is_named(self):
        first = self.report["findings"][0]
        self.assertEqual(first["where"], {"rank": 1})
        self.assertIn(first["kind"], ("data_stall", "host_gap"))


def report_of(folder, *options):
    with tempfile.TemporaryDirectory(prefix="rs-nccl-") as out:
        options = options or ("--assume-common-clock",)
        done = subprocess.run([PROGRAM, "analyse", folder, "-o", out, *options], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        with open(os.path.join(out, "report.json"), encoding="utf-8") as file:
            return json.load(file)


class Waiting(unittest.TestCase):
    """Streams that wait for others by events, and a device that waits for its host: their cost is known, since nothing else explains the time."""

    def expect(self, folder, rank, kind, gain_ms):
        """gain_ms: how much less a step of the same job took without the trouble."""
        report = report_of(os.path.join(os.path.dirname(DATA), folder))
        self.assertLess(report["replay"]["unexplained_share"], 0.05)
        first = report["findings"][0]
        self.assertEqual((first["where"], first["kind"]), ({"rank": rank}, kind))
        self.assertNotEqual(first["confidence"], "weak")
        self.assertAlmostEqual(first["cost_ns_per_step"] / 1e6, gain_ms, delta=gain_ms / 10)
        return first

    def test_a_slow_rank_of_shards(self):
        """Computing on one stream, copies on another, gathers on a third, scatters on a fourth (FSDP2)."""
        self.expect("nccl-fsdp", 2, "slow_rank", 136)

    def test_a_slow_rank_of_shards_of_an_older_writer(self):
        """Calls that make a stream wait were not recorded always."""
        with tempfile.TemporaryDirectory(prefix="rs-nccl-") as folder:
            for rank in range(4):
                with lzma.open(os.path.join(os.path.dirname(DATA), "nccl-fsdp", f"rank{rank}.json.xz")) as file:
                    trace = json.load(file)
                rows = [row for row in trace["traceEvents"] if row["name"] != "cudaStreamWaitEvent"]
                self.assertLess(len(rows), len(trace["traceEvents"]))
                with open(os.path.join(folder, f"rank{rank}.json"), "w", encoding="utf-8") as file:
                    json.dump(trace | {"traceEvents": rows}, file)
            self.expect(folder, 2, "slow_rank", 136)

    def test_a_slow_rank_of_shards_captured_live(self):
        """Each rank was recorded a little longer or shorter than the others: rows of what its host had launched already."""
        with tempfile.TemporaryDirectory(prefix="rs-nccl-") as folder:
            for rank, missing in enumerate((0, 3, 1, 2)):
                with lzma.open(os.path.join(os.path.dirname(DATA), "nccl-fsdp", f"rank{rank}.json.xz")) as file:
                    trace = json.load(file)
                rows = trace["traceEvents"]
                last = sorted(row["ts"] for row in rows if row.get("cat") == "kernel" and "nccl" in row["name"])[-1 - missing]
                rows = [row for row in rows if row.get("cat") != "kernel" or row["ts"] <= last]
                with open(os.path.join(folder, f"rank{rank}.json"), "w", encoding="utf-8") as file:
                    json.dump(trace | {"traceEvents": rows}, file)
            report = report_of(folder)
        first = report["findings"][0]
        self.assertEqual((first["where"], first["kind"]), ({"rank": 2}, "slow_rank"))
        self.assertNotEqual(first["confidence"], "weak")
        self.assertEqual(report["coverage"]["operations"]["matched"], 143)  # of 144 three ranks lack the last one

    def test_clocks_that_say_little_make_the_cost_unsure(self):
        """Ends lie 10 ms apart, so that clocks made of them may hide as much at each of 24 operations of a step."""
        report = report_of(os.path.join(os.path.dirname(DATA), "nccl-fsdp"), "--quiet")
        first = report["findings"][0]
        self.assertGreater(report["replay"]["clock_bound_ns"], 1e6)
        self.assertEqual(report["replay"]["clock_operations_per_step"], 24)
        self.assertEqual((first["where"], first["confidence"]), ({"rank": 2}, "bounded"))
        low, high = first["cost_interval_ns"]
        self.assertLess(low, 68e6)
        self.assertGreater(high, 136e6)

    def test_an_interpreter_that_pauses(self):
        first = self.expect("nccl-pause", 3, "host_gap", 31)
        self.assertEqual(first["steps"]["period"], 3)


class ComesAndGoes(unittest.TestCase):
    """The hosts of healthy ranks differ by up to 20 ms before their first launch, and a late loader takes 58 ms more."""

    def test_a_loader_late_in_every_third_step(self):
        report = report_of(os.path.join(os.path.dirname(DATA), "nccl-third"))
        first = report["findings"][0]
        self.assertEqual((first["where"], first["kind"], first["confidence"]), ({"rank": 1}, "host_gap", "exact"))
        self.assertEqual(first["steps"]["period"], 3)
        self.assertAlmostEqual(first["cost_ns_per_step"] / 1e6, 58 / 3, delta=1.5)

    def test_a_loader_late_behind_the_first_launch_of_every_third_step(self):
        """And the step before the recording's first barrier is another program, of which nothing is known."""
        report = report_of(os.path.join(os.path.dirname(DATA), "nccl-barrier"))
        first = report["findings"][0]
        self.assertEqual((first["where"], first["kind"]), ({"rank": 1}, "host_gap"))
        self.assertNotEqual(first["confidence"], "weak")
        self.assertEqual((first["steps"]["period"], first["steps"]["hit"]), (3, 3))
        self.assertAlmostEqual(first["cost_ns_per_step"] / 1e6, 3 * 58 / 12, delta=1.5)

    def test_a_loader_late_on_another_rank_in_every_step(self):
        report = report_of(os.path.join(os.path.dirname(DATA), "nccl-moving"))
        self.assertEqual([f["kind"] for f in report["findings"] if f["confidence"] != "weak"], ["jitter"])
        self.assertAlmostEqual(report["findings"][0]["cost_ns_per_step"] / 1e6, 58, delta=6)


class Pipeline(unittest.TestCase):
    """Batches of one call each (tests/golden/nccl-pipeline): sends and receives, of which the one may end before the other begins."""

    def test_the_stage_that_the_others_wait_for(self):
        """Stages 1 and 3 have more kernels than stage 0, too: four of 161."""
        first = report_of(os.path.join(os.path.dirname(DATA), "nccl-stage"))["findings"][0]
        self.assertEqual((first["where"], first["kind"]), ({"stage": 2}, "imbalance"))

    def test_a_last_stage_with_a_loss_is_not_slow(self):
        report = report_of(os.path.join(os.path.dirname(DATA), "nccl-ends"))
        self.assertEqual([(f["kind"], f["where"]) for f in report["findings"] if f["confidence"] != "weak"], [("imbalance", {"stage": 3})])

    def test_a_few_kernels_more_are_not_worth_a_finding(self):
        """Shared evenly among the stages nothing is won."""
        report = report_of(os.path.join(os.path.dirname(DATA), "nccl-pipeline"))
        self.assertEqual([f for f in report["findings"] if f["confidence"] != "weak"], [])

    def test_kernels_that_are_never_alone_are_no_slow_stage(self):
        """Even the fastest run of stage 3's large kernel had another rank's beside it; in the mean it takes what it takes elsewhere."""
        report = report_of(os.path.join(os.path.dirname(DATA), "nccl-alike"))
        self.assertEqual(report["findings"], [])

    def test_every_send_has_its_receive(self):
        data = os.path.join(os.path.dirname(DATA), "nccl-pipeline")
        with tempfile.TemporaryDirectory(prefix="rs-nccl-") as out:
            done = subprocess.run([PROGRAM, "analyse", data, "-o", out, "--quiet", "--assume-common-clock"], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(os.path.join(out, "collectives.csv"), newline="", encoding="utf-8") as file:
                rows = sorted(csv.DictReader(file), key=lambda row: int(row["Start(ns)"]))
        members = collections.defaultdict(list)
        for row in rows:
            members[row["OpId"]].append(row["Rank"])
        self.assertEqual(len(members), 4 * 3 * 2 * 8)
        self.assertEqual({(row["Op"], row["Coverage"]) for row in rows}, {("send", "exact"), ("recv", "exact")})
        # Two neighbours hand on in one order: what one of them did as its k-th, so did the other.
        for low in range(3):
            pair = [str(low), str(low + 1)]
            orders = [[row["OpId"] for row in rows if row["Rank"] == rank and sorted(members[row["OpId"]]) == pair] for rank in pair]
            self.assertEqual(len(orders[0]), 4 * 2 * 8)
            self.assertEqual(orders[0], orders[1])


class Flight(unittest.TestCase):
    """Flight recorders of the same job, hung in three ways; asked through their pipes some 15 s later (the files' times say when)."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="rs-flight-")
        cls.addClassCleanup(cls.folder.cleanup)
        with tarfile.open(os.path.join(DATA, "flight.tar.gz")) as archive:
            archive.extractall(cls.folder.name)

    def hang(self, name):
        done = subprocess.run([PROGRAM, "hang", os.path.join(self.folder.name, name), "--json"], capture_output=True, text=True,
                              check=False)
        return done.returncode, json.loads(done.stdout)

    def test_a_rank_that_does_not_come(self):
        code, said = self.hang("absent")
        self.assertEqual((code, said["state"]), (0, "hung"))
        self.assertEqual((said["findings"][0]["kind"], said["findings"][0]["where"]), ("hang", {"rank": 3}))

    def test_another_size(self):
        code, said = self.hang("size")
        self.assertEqual((code, said["state"]), (0, "hung"))
        self.assertEqual((said["findings"][0]["kind"], said["findings"][0]["where"]), ("mismatch", {"rank": 2}))

    def test_a_rank_that_makes_a_communicator_alone(self):
        """It calls another group's first operation before the others do: NCCL makes that communicator, and answers no dump meanwhile."""
        code, said = self.hang("order")
        self.assertEqual((code, said["state"]), (1, "hung"))
        self.assertEqual((said["findings"][0]["kind"], said["findings"][0]["where"]), ("silent_rank", {"rank": 2}))


if __name__ == "__main__":
    unittest.main()
