#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Batches that exchange with several peers at once, as an interleaved pipeline has them: four ranks of which each sends activations to
the one behind and gradients to the one before, in one kernel. As a ring (with virtual stages the last sends to the first) and as a line.

Which rows are one operation is known here. Whole recordings: every operation, its waits, who came last. Rows lost: no pair that is
not one, `exact` nowhere without a member, and what is left is found.
"""
import collections
import csv
import json
import os
import random
import subprocess
import tempfile
import unittest

RANKSCOPE = os.environ.get("RANKSCOPE", "build/dev/rankscope")
RANKS, STEPS, MICROBATCHES = 4, 5, 16
FORWARD, BACKWARD = 4096, 1024  # elements of two bytes
TRANSFER_NS = 40_000
BASE_NS = 1790857026000000000


def peers_of(rank, is_ring):
    """(before, behind): None where there is nobody."""
    before = (rank - 1) % RANKS if is_ring or rank > 0 else None
    behind = (rank + 1) % RANKS if is_ring or rank < RANKS - 1 else None
    return before, behind


def when(is_ring, seed):
    """Start and end of each rank's kernel of each operation."""
    dice = random.Random(f"{is_ring} {seed}")
    spans, free = {}, [1_000_000] * RANKS
    for step in range(STEPS):
        for k in range(MICROBATCHES):
            starts = [free[rank] + dice.randrange(60_000, 300_000) for rank in range(RANKS)]
            for rank in range(RANKS):
                needed = [starts[peer] for peer in peers_of(rank, is_ring) if peer is not None]
                spans[rank, step, k] = (starts[rank], max([starts[rank], *needed]) + TRANSFER_NS)
                free[rank] = spans[rank, step, k][1] + (120_000 if k == MICROBATCHES - 1 else 0)
    return spans


class Writer:
    def __init__(self, rank):
        self.rank, self.rows, self.correlation = rank, [], 1000

    def row(self, cat, name, pid, tid, start, dur, **args):
        self.rows.append({"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": start / 1000, "dur": dur / 1000, "args": args})

    def call(self, name, peer, elements, at):
        """One send or receive of a batch, as PyTorch records it."""
        arguments = {"Collective name": name, "In msg nelems": elements, "Out msg nelems": elements, "Group size": RANKS, "dtype": "BFloat16",
                     "Process Group Name": "7", "Process Group Description": "PIPELINE_MODEL_PARALLEL_GROUP",
                     "Process Group Ranks": str(list(range(RANKS)))}
        call = "c10d::send" if name == "send" else "c10d::recv_"
        self.row("cpu_op", call, 100, 11, at, 900, **{"Input Dims": [[[elements]], [], [], []], "Concrete Inputs": ["", "", str(peer), "0"],
                                                      "Input type": ["TensorList", "", "Scalar", "Scalar"]})
        self.row("cpu_op", "record_param_comms", 100, 11, at + 100, 700, **arguments)
        way = "->" if name == "send" else "<-"
        self.row("user_annotation", f"nccl:{name} {self.rank}{way}{peer}", 100, 11, at + 200, 500, **{"Input Dims": [[elements]],
                                                                                                     "Input type": ["c10::BFloat16"]})

    def batch(self, before, behind, start, end):
        self.correlation += 1
        at = start - 60_000
        for name, peer, elements in (("send", behind, FORWARD), ("recv", before, FORWARD), ("send", before, BACKWARD), ("recv", behind, BACKWARD)):
            if peer is not None:
                self.call(name, peer, elements, at)
            at += 1000
        self.row("user_annotation", "nccl:coalesced", 100, 11, at, 4000)
        self.row("cuda_runtime", "cudaLaunchKernelExC", 100, 11, at + 500, 3000, correlation=self.correlation)
        self.row("kernel", "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", 0, 84, start, end - start, correlation=self.correlation,
                 device=0, stream=84)

    def compute(self, start, end):
        self.correlation += 1
        self.row("cuda_runtime", "cudaLaunchKernel", 100, 11, start - 50_000, 3000, correlation=self.correlation)
        self.row("kernel", "gemm", 0, 7, start, end - start, correlation=self.correlation, device=0, stream=7)


def write(folder, is_ring, seed, loss=0.0):
    """The job's files; {(rank, start)}: operation, and the rows that were lost."""
    spans = when(is_ring, seed)
    dice = random.Random(f"loss {seed} {loss}")
    truth, lost = {}, set()
    for rank in range(RANKS):
        writer = Writer(rank)
        for step in range(STEPS):
            first = spans[rank, step, 0][0] - 100_000
            writer.row("user_annotation", f"ProfilerStep#{step}", 100, 11, first, spans[rank, step, MICROBATCHES - 1][1] - first)
            for k in range(MICROBATCHES):
                start, end = spans[rank, step, k]
                writer.compute(start - 20_000, start - 5_000)
                writer.batch(*peers_of(rank, is_ring), start, end)
                truth[rank, start + BASE_NS] = (step, k)
                if dice.random() < loss:
                    lost.add((step, k))
                    writer.rows.pop()  # the kernel; what the host called stays
        document = {"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": RANKS},
                    "baseTimeNanoseconds": BASE_NS, "host_name": "n0", "traceEvents": writer.rows}
        with open(os.path.join(folder, f"rank{rank}.pt.trace.json"), "w", encoding="utf-8") as file:
            json.dump(document, file)
    return truth, lost, spans


def analyse(folder, out, *words):
    done = subprocess.run([RANKSCOPE, "analyse", folder, "-o", out, "--quiet", *words], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise AssertionError(done.stderr)
    with open(os.path.join(out, "collectives.csv"), encoding="utf-8", newline="") as file:
        operations = collections.defaultdict(list)
        for row in csv.DictReader(file):
            operations[row["OpId"]].append(row)
    return list(operations.values())


class Batches(unittest.TestCase):
    def whole(self, is_ring):
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as out:
            truth, _, spans = write(folder, is_ring, 1)
            operations = analyse(folder, out)
        self.assertEqual(len(operations), STEPS * MICROBATCHES)
        for rows in operations:
            ids = {truth[int(row["Rank"]), int(row["Start(ns)"])] for row in rows}
            self.assertEqual(len(ids), 1)
            step, k = ids.pop()
            starts = {rank: spans[rank, step, k][0] for rank in range(RANKS)}
            self.assertEqual([int(row["Rank"]) for row in rows], list(range(RANKS)))
            for row in rows:
                rank = int(row["Rank"])
                start, end = spans[rank, step, k]
                needed = [starts[peer] for peer in peers_of(rank, is_ring) if peer is not None]
                wait = max(0, min(max(needed) - start, end - start))  # its own partners, and nobody else
                self.assertEqual((row["Op"], row["Coverage"], row["RanksExpected"]), ("send_recv", "exact", str(RANKS)))
                self.assertEqual((int(row["Wait(ns)"]), int(row["Transfer(ns)"])), (wait, end - start - wait))
                self.assertEqual(int(row["LastRank"]), max(starts, key=lambda rank: (starts[rank], -rank)))

    def test_a_ring_is_one_operation_of_all(self):
        self.whole(True)

    def test_a_line_is_one_operation_of_all(self):
        self.whole(False)

    def test_lost_rows_make_no_wrong_pair(self):
        for loss in (0.1, 0.3):
            found = possible = wrong = exact = 0
            for seed in range(1, 7):
                for is_ring in (True, False):
                    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as out:
                        truth, lost, _ = write(folder, is_ring, seed, loss)
                        operations = analyse(folder, out)
                    there = collections.defaultdict(set)
                    for rows in operations:
                        ids = {row["Rank"]: truth[int(row["Rank"]), int(row["Start(ns)"])] for row in rows}
                        for rank, one in ids.items():
                            there[one].add(int(rank))
                        if len(set(ids.values())) > 1:
                            wrong += 1
                            continue
                        exact += rows[0]["Coverage"] == "exact" and bool(set(ids.values()) & lost)
                        found += self.pairs({int(rank) for rank in ids}, is_ring)
                    possible += sum(self.pairs(ranks, is_ring) for ranks in there.values())
            print(f"batches: {loss:.0%} of the rows lost: {found} of {possible} pairs found, {wrong} operations wrong, {exact} exact without a member")
            self.assertEqual((wrong, exact), (0, 0))
            self.assertGreaterEqual(found, 0.95 * possible)

    @staticmethod
    def pairs(ranks, is_ring):
        """Neighbours among these ranks."""
        return sum(1 for rank in ranks if peers_of(rank, is_ring)[1] in ranks)


if __name__ == "__main__":
    unittest.main(verbosity=1)
