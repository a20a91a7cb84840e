#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ascend result folders of a job that never ran, with what is true of it: a checkout alone has input for its tests.

    tests/support/ascend_job.py --out DIR --ranks 8 --tp 2 --pp 2 --steps 3 --format both
    tests/support/ascend_job.py --check TREE OUT       what `rankscope cluster TREE -o OUT` wrote, value by value

How it works. A job of tensor x pipeline x data parallel ranks is played on one clock a rank: `Job` lets ranks compute, meet
in collectives (nobody leaves before the last has come and the slowest wire is through), and hand activations to the next
stage. One rank may compute slower and one wire may carry less. The writers then say what the profiler of each rank would
have seen of it: the text form (CSV, JSON, with --trace a timeline too) or the database form. Nothing of it is copied from a
recording; names and columns are those of torch_npu's and CANN's files.

What is true stands in planted.json: every rank's nine figures of each step, the time in each group, the bytes over each
wire. The figures are sums and unions over the played intervals, made without any of Rankscope's code.

Times are integer ns. The same options give the same bytes (of a database: with the same SQLite). Standard library only.
"""
import argparse
import bisect
import csv
import json
import os
import random
import shutil
import sqlite3
import sys

BEGIN_NS = 1_750_000_000_000_000_000
MB = 1e6  # decimal; MB per ms is GB/s
OUTPUT = "ASCEND_PROFILER_OUTPUT"
WIRES = ("RDMA", "HCCS", "PCIE", "SDMA", "SIO")
WIRE_GB_S = {"LOCAL": 700.0, "HCCS": 27.0, "RDMA": 21.0}
LARGE_MB = {"RDMA": 0.5, "HCCS": 32.0, "PCIE": 32.0, "SIO": 32.0}
NOBODY = 0xFFFFFFFF
FIGURES = ["computing", "communication_not_overlapped", "overlapped", "communication", "free", "stage", "bubble",
           "communication_not_overlapped_and_exclude_receive", "preparing"]
TITLES = ["Computing", "Communication(Not Overlapped)", "Overlapped", "Communication", "Free", "Stage", "Bubble",
          "Communication(Not Overlapped and Exclude Receive)", "Preparing"]
# In the matrix: the leftmost of these in the operation's name, so that a reduceScatter is a reduce.
SORTS = ("send", "reduce", "invalid", "broadcast", "allreduce", "receive", "allgather", "scatter", "alltoall")


def communicator_hash(name):
    """The decimal name of a group in documents: two running sums over the bytes of the communicator's name."""
    high = low = 0
    for byte in name.encode():
        high, low = (high * 29 + byte) & NOBODY, (low * 131 + byte) & NOBODY
    return str(high << 32 | low)


def quotient(part, whole):
    return round(part / whole, 4) if whole else 0


def sort_of(name):
    low = name.lower()
    return min((low.find(word), -len(word), word) for word in SORTS if word in low)[2]


def union(spans):
    merged = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    return merged


def length(spans):
    return sum(end - start for start, end in spans)


def without(spans, others):
    """Parts of `spans` that no span of `others` covers; both merged."""
    left = []
    starts = [start for start, _ in others]
    for start, end in spans:
        at = max(0, bisect.bisect_right(starts, start) - 1)
        while at < len(others) and others[at][0] < end:
            if others[at][1] > start:
                if others[at][0] > start:
                    left.append([start, others[at][0]])
                start = max(start, others[at][1])
            at += 1
        if start < end:
            left.append([start, end])
    return left


class Group:
    """A communicator: its ranks in the order of their places."""

    def __init__(self, number, kind, ranks, ranks_per_host):
        self.number, self.kind, self.ranks = number, kind, ranks
        self.title = "default_group" if kind == "world" else kind
        self.comm = "198.51.100.%d%%eth0_%d_%d_%d" % (1 + ranks[0] // ranks_per_host % 250, 61000, number, 1750000000000000 + number)
        self.name = communicator_hash(self.comm)
        self.place = {rank: at for at, rank in enumerate(ranks)}
        self.is_one_host = len({rank // ranks_per_host for rank in ranks}) == 1
        self.made = dict.fromkeys(ranks, 0)  # operations so far

    def receivers(self, place):
        """Places to which this one sends in a collective: everybody on one host, the next one round a ring between hosts."""
        if len(self.ranks) < 2:
            return []
        if self.is_one_host:
            return [other for other in range(len(self.ranks)) if other != place]
        return [(place + 1) % len(self.ranks)]


class Operation:
    """One rank's part in one operation. `links`: (place, place, rank, rank, bytes, ms)."""

    def __init__(self, kind, group, number, start, end, transit, wait, idle, size, carried, links, peer=None):
        self.kind, self.group, self.number, self.start, self.end = kind, group, number, start, end
        self.transit, self.wait, self.sync, self.idle = transit, wait, wait * 4 // 5, idle
        self.size, self.carried, self.links, self.peer = size, carried, links, peer
        self.name = "hcom_%s__%s_%d_1" % (kind, group.name[-3:], number)
        self.side = "collective" if peer is None else "p2p"


class Job:
    """The played job: operations, work, copies, phases and windows by rank and step."""

    def __init__(self, options):
        self.options = o = options
        self.chance = random.Random(o.seed)
        if o.ranks % (o.tp * o.pp):
            sys.exit("ascend_job.py: --ranks must be a multiple of tp x pp")
        self.dp = o.ranks // (o.tp * o.pp)
        self.stages = [list(range(at, at + o.tp * self.dp)) for at in range(0, o.ranks, o.tp * self.dp)]
        self.groups = {"tp": [], "dp": [], "pp": [], "world": []}
        count = 0
        for kind, sets in (("tp", [stage[d * o.tp:(d + 1) * o.tp] for stage in self.stages for d in range(self.dp)]),
                           ("dp", [stage[t::o.tp] for stage in self.stages for t in range(o.tp)]),
                           ("pp", [[stage[at] for stage in self.stages] for at in range(o.tp * self.dp)]),
                           ("world", [list(range(o.ranks))])):
            for ranks in sets:
                if len(ranks) > 1:
                    self.groups[kind].append(Group(count, kind, ranks, o.ranks_per_host))
                    count += 1
        self.slow_rank = {"auto": o.ranks // 2 + 1 if o.ranks > 2 else 0, "none": None}.get(o.slow_rank, o.slow_rank)
        self.slow_rank = None if self.slow_rank is None else int(self.slow_rank)
        self.slow_link = self.choose_link()
        empty = lambda: [[[] for _ in range(o.steps)] for _ in range(o.ranks)]
        self.operations, self.work, self.phases, self.copies, self.windows = empty(), empty(), empty(), empty(), empty()
        # Hosts stand apart by a part of --clock-skew-us that only their number and the seed decide.
        skew = [int(random.Random(o.seed * 1000 + host).uniform(-1, 1) * o.clock_skew_us * 1000) if o.clock_skew_us else 0
                for host in range(o.ranks // o.ranks_per_host + 1)]
        self.skew = [skew[rank // o.ranks_per_host] for rank in range(o.ranks)]
        self.now = [BEGIN_NS] * o.ranks
        self.bandwidths = {}
        for step in range(o.steps):
            self.play(step)

    def choose_link(self):
        o = self.options
        if o.slow_link == "none":
            return None
        if o.slow_link != "auto":
            return tuple(int(rank) for rank in o.slow_link.split("-"))
        candidates = self.groups["dp"] or self.groups["tp"] or self.groups["pp"] or self.groups["world"]
        candidates = [group for group in candidates if self.slow_rank not in group.ranks] or candidates
        return tuple(candidates[0].ranks[:2]) if candidates else None

    def all_groups(self):
        return [group for kind in ("tp", "dp", "pp", "world") for group in self.groups[kind]]

    def step_number(self, step):
        return self.options.first_step + step

    # ---- wires ----

    def wire(self, a, b):
        if a == b:
            return "LOCAL"
        return "HCCS" if a // self.options.ranks_per_host == b // self.options.ranks_per_host else "RDMA"

    def bandwidth(self, a, b):
        """GB/s from a to b: each wire has its own few percent, the slow one a part of that."""
        if (a, b) not in self.bandwidths:
            own = random.Random((self.options.seed * 4096 + a) * 4096 + b).uniform(0.97, 1.03)
            is_slow = self.slow_link is not None and {a, b} == set(self.slow_link) and a != b
            self.bandwidths[a, b] = WIRE_GB_S[self.wire(a, b)] * own * (self.options.slow_link_factor if is_slow else 1)
        return self.bandwidths[a, b]

    def link(self, group, a, b, size, stretch=1.0):
        """Places a, b."""
        source, target = group.ranks[a], group.ranks[b]
        return a, b, source, target, size, size / MB / self.bandwidth(source, target) * stretch

    # ---- what ranks do ----

    def compute(self, rank, step, ns, name, start=None):
        ns *= 1 + self.options.noise * max(-3, min(3, self.chance.gauss(0, 1)))
        if rank == self.slow_rank:
            ns *= self.options.slow_factor
        start = self.now[rank] + self.options.gap_ns if start is None else start
        end = start + max(1000, int(ns))
        self.work[rank][step].append((start, end, name))
        self.now[rank] = max(self.now[rank], end)

    def meet(self, group, step, kind, size, beside=None):
        """A collective; `beside` ns of work run under it."""
        o, count = self.options, len(group.ranks)
        carried = size // count if group.is_one_host else size * (count - 1) // count
        stretch = self.chance.uniform(1.0, 1.01)
        slowest = min(self.bandwidth(rank, group.ranks[to]) for rank in group.ranks for to in group.receivers(group.place[rank]))
        transit = int(carried / MB / slowest * 1e6 * stretch)
        starts = {rank: self.now[rank] + o.gap_ns for rank in group.ranks}
        last = max(starts.values())
        for rank in group.ranks:
            place, number = group.place[rank], group.made[rank]
            group.made[rank] += 1
            idle = self.chance.randrange(4000, 6000)
            links = [self.link(group, place, place, max(1, size // count), stretch)]
            links += [self.link(group, place, to, carried, stretch) for to in group.receivers(place)]
            end = last + transit + idle
            self.operations[rank][step].append(Operation(kind, group, number, starts[rank], end, transit, last - starts[rank],
                                                         idle, size, carried, links))
            self.now[rank] = end
            if beside:
                self.compute(rank, step, beside, "MatMulV2", starts[rank])

    def pass_on(self, group, step, a, b, size):
        """Rank a sends to rank b; each waits for the other."""
        place = {"send": group.place[a], "receive": group.place[b]}
        starts = {"send": self.now[a] + self.options.gap_ns, "receive": self.now[b] + self.options.gap_ns}
        transit, last = int(size / MB / self.bandwidth(a, b) * 1e6), max(starts.values())
        for kind, rank, peer in (("send", a, place["receive"]), ("receive", b, place["send"])):
            number = group.made[rank]
            group.made[rank] += 1
            idle = self.chance.randrange(3000, 4000)
            links = [self.link(group, place[kind], place[kind], size)] if self.options.p2p_self_link else []
            if kind == "send":
                links.append(self.link(group, place[kind], peer, size))
            self.operations[rank][step].append(Operation(kind, group, number, starts[kind], last + transit + idle, transit,
                                                         last - starts[kind], idle, size, size, links, peer))
            self.now[rank] = last + transit + idle

    def play(self, step):
        """One step: forward and backward of all micro-batches, gradients under work, a copy, then the whole job meets."""
        o = self.options
        inner = self.groups["tp"] or self.groups["dp"]
        begin = max(self.now) + 1_000_000
        self.now = [begin + 200_000 + self.chance.randrange(20_000) for _ in range(o.ranks)]
        at_end = min(o.world_ops, o.comm_ops_per_step) if self.groups["world"] else 0
        gradients = o.dp_ops if self.groups["tp"] and self.groups["dp"] else 0
        chunks = 2 * o.microbatches
        left = []
        for at in range(o.pp):
            passes = 0 if o.pp == 1 else (chunks if at in (0, o.pp - 1) else 2 * chunks)
            left.append(o.comm_ops_per_step - at_end - gradients - passes)
            if left[-1] < 0:
                sys.exit("ascend_job.py: --comm-ops-per-step is less than a stage needs")
        begun = [0] * o.pp

        def chunk(stage, word):
            share = (left[stage] * (begun[stage] + 1) // chunks - left[stage] * begun[stage] // chunks) if inner else 0
            begun[stage] += 1
            since = {rank: self.now[rank] + o.gap_ns for rank in self.stages[stage]}
            for at in range(max(share, 1)):
                for rank in self.stages[stage]:
                    self.compute(rank, step, o.compute_ns, ("FlashAttentionScore", "MatMulV2", "RmsNorm", "GroupedMatmul")[at % 4])
                for group in inner if at < share else []:
                    if group.ranks[0] in self.stages[stage]:
                        self.meet(group, step, ("allReduce", "reduceScatter", "allGather")[at % 3], (32, 8, 16)[at % 3] << 20)
            for rank in self.stages[stage]:
                self.phases[rank][step].append((word, since[rank], self.now[rank]))

        for _ in range(o.microbatches):
            for stage in range(o.pp):
                chunk(stage, "forward_step")
                for group in self.groups["pp"] if stage + 1 < o.pp else []:
                    self.pass_on(group, step, group.ranks[stage], group.ranks[stage + 1], 12 << 20)
        for rank in range(o.ranks):
            self.copies[rank][step].append((self.now[rank] + 10_000, self.now[rank] + 60_000))
            self.now[rank] += o.hole_ns
        for _ in range(o.microbatches):
            for stage in reversed(range(o.pp)):
                chunk(stage, "backward_step")
                for group in self.groups["pp"] if stage else []:
                    self.pass_on(group, step, group.ranks[stage], group.ranks[stage - 1], 12 << 20)
        for at in range(gradients):
            for group in self.groups["dp"]:
                self.meet(group, step, ("reduceScatter", "allGather")[at % 2], 64 << 20, beside=2 * o.compute_ns)
        for _ in range(at_end):
            for rank in range(o.ranks):
                self.compute(rank, step, o.compute_ns, "ApplyAdamW")
            self.meet(self.groups["world"][0], step, "allReduce", 1 << 20)
        for rank in range(o.ranks):
            self.windows[rank][step] = (begin, self.now[rank] + 50_000)

    # ---- what is true of it ----

    def layers(self, rank, step):
        work = union((start, end) for start, end, _ in self.work[rank][step])
        comm = union((one.start, one.end) for one in self.operations[rank][step])
        return work, comm, without(comm, work)

    def figures(self, rank, step):
        """The nine of the profiler's own table, us."""
        work, comm, bare = self.layers(rank, step)
        both = union(work + comm)
        first, last = both[0][0], both[-1][1]
        bubble = sum(one.end - one.start for one in self.operations[rank][step] if one.kind == "receive")
        return [ns / 1000 for ns in (length(work), length(bare), length(comm) - length(bare), length(comm),
                                     last - first - length(both), last - first - bubble, bubble,
                                     max(length(bare) - bubble, 0), first - self.windows[rank][step][0])]

    def truth(self):
        o = self.options
        found = {"generator": "ascend_job.py", "ranks": o.ranks, "tp": o.tp, "pp": o.pp, "dp": self.dp,
                 "steps": [self.step_number(step) for step in range(o.steps)], "comm_ops_per_step": o.comm_ops_per_step,
                 "ranks_per_host": o.ranks_per_host, "slow_rank": self.slow_rank,
                 "slow_link": list(self.slow_link) if self.slow_link else None,
                 "stages": self.stages if o.pp > 1 else [],
                 "groups": [{"group_id": group.comm, "group_name": group.name, "pg_name": group.title,
                             "type": "p2p" if group.kind == "pp" else "collective", "global_ranks": group.ranks}
                            for group in self.all_groups()]}
        if o.truth == "summary" or (o.truth is None and o.ranks > 64):
            return found
        steps, comm, bands, matrix = {}, {}, {}, {}
        for step in range(o.steps):
            number = str(self.step_number(step))
            steps[number] = {str(rank): self.figures(rank, step) for rank in range(o.ranks)}
            for rank in range(o.ranks):
                for one in self.operations[rank][step]:
                    name = one.group.name
                    into = comm.setdefault(number, {}).setdefault(name, {}).setdefault(
                        str(rank), dict.fromkeys(("ops", "elapse_ns", "transit_ns", "wait_ns", "sync_ns", "idle_ns"), 0))
                    for key, more in (("ops", 1), ("elapse_ns", one.end - one.start), ("transit_ns", one.transit),
                                      ("wait_ns", one.wait), ("sync_ns", one.sync), ("idle_ns", one.idle)):
                        into[key] += more
                    for _, _, source, target, size, ms in one.links:
                        wire = self.wire(source, target)
                        cell = matrix.setdefault(number, {}).setdefault(name, {}).setdefault(
                            "%d-%d" % (source, target), {"transport": wire, "bytes": 0, "ms": 0.0, "ops": 0})
                        cell["bytes"] += size
                        cell["ms"] += ms
                        cell["ops"] += 1
                        for each in {"LOCAL": (), "RDMA": ("RDMA",)}.get(wire, (wire, "SDMA")):
                            cell = bands.setdefault(number, {}).setdefault(name, {}).setdefault(str(rank), {}).setdefault(
                                each, {"bytes": 0, "ms": 0.0})
                            cell["bytes"] += size
                            cell["ms"] += ms
        found.update(step_trace_us=steps, comm_time=comm, bandwidth=bands, matrix=matrix, step_trace_columns=FIGURES)
        return found


# ---- the profiler's documents ---------------------------------------------------------------------------------

def times_of(job, rank, one):
    return {"Start Timestamp(us)": (one.start + job.skew[rank]) / 1000, "Elapse Time(ms)": (one.end - one.start) / 1e6,
            "Transit Time(ms)": one.transit / 1e6, "Wait Time(ms)": one.wait / 1e6, "Synchronization Time(ms)": one.sync / 1e6,
            "Idle Time(ms)": one.idle / 1e6, "Wait Time Ratio": quotient(one.wait, one.wait + one.transit),
            "Synchronization Time Ratio": quotient(one.sync, one.sync + one.transit)}


def bands_of(job, one):
    """By transport: MB, ms and packets. SDMA is the sum of those that it drives, without packets of its own."""
    found = {wire: {"Transit Size(MB)": 0.0, "Transit Time(ms)": 0.0, "Bandwidth(GB/s)": 0, "Large Packet Ratio": 0,
                    "Size Distribution": {}} for wire in WIRES}
    for _, _, source, target, size, ms in one.links:
        wire = job.wire(source, target)
        if wire == "LOCAL":
            continue
        for each in ((wire,) if wire == "RDMA" else (wire, "SDMA")):
            found[each]["Transit Size(MB)"] += size / MB
            found[each]["Transit Time(ms)"] += ms
        packets = found[wire]["Size Distribution"].setdefault(str(size / MB), [0, 0.0])
        packets[0] += 1
        packets[1] += ms
    for wire, band in found.items():
        band["Bandwidth(GB/s)"] = quotient(band["Transit Size(MB)"], band["Transit Time(ms)"])
        packets = band["Size Distribution"]
        large = sum(count for size, (count, _) in packets.items() if float(size) > LARGE_MB.get(wire, 0))
        band["Large Packet Ratio"] = quotient(large, sum(count for count, _ in packets.values()))
    return found


def communication_of(job, rank, step):
    """communication.json's member of one step."""
    sides = {"p2p": {}, "collective": {}}
    for one in job.operations[rank][step]:
        sides[one.side]["%s@%s" % (one.name, one.group.name)] = {
            "Communication Time Info": times_of(job, rank, one), "Communication Bandwidth Info": bands_of(job, one)}
    for side in sides.values():
        if not side:
            continue
        total = {key: sum(op["Communication Time Info"][key] for op in side.values())
                 for key in ("Elapse Time(ms)", "Transit Time(ms)", "Wait Time(ms)", "Synchronization Time(ms)", "Idle Time(ms)")}
        for word in ("Wait", "Synchronization"):
            part = total[word + " Time(ms)"]
            total[word + " Time Ratio"] = quotient(part, part + total["Transit Time(ms)"])
        bands = {}
        for wire in WIRES:
            all_of_it = [op["Communication Bandwidth Info"][wire] for op in side.values()]
            bands[wire] = {key: sum(band[key] for band in all_of_it) for key in ("Transit Time(ms)", "Transit Size(MB)")}
            bands[wire]["Size Distribution"] = packets = {}
            for band in all_of_it:
                for size, (count, ms) in band["Size Distribution"].items():
                    packets[size] = [packets.get(size, [0, 0])[0] + count, packets.get(size, [0, 0])[1] + ms]
        side["Total Op Info"] = {"Communication Time Info": total, "Communication Bandwidth Info": bands}
    return sides


def matrix_of(job, rank, step):
    """communication_matrix.json's member of one step: of each sort and link the fastest, the middle, the slowest, the sum."""
    seen = {"p2p": {}, "collective": {}}
    for one in job.operations[rank][step]:
        for a, b, source, target, size, ms in one.links:
            seen[one.side].setdefault((sort_of(one.name), one.group.name, "%d-%d" % (a, b)), []).append(
                {"Transport Type": job.wire(source, target), "Transit Size(MB)": size / MB, "Transit Time(ms)": ms,
                 "Bandwidth(GB/s)": quotient(size / MB, ms), "Op Name": one.name})
    found = {"p2p": {}, "collective": {}}
    for side, links in seen.items():
        for (sort, group, link), rows in links.items():
            rows.sort(key=lambda row: -row["Bandwidth(GB/s)"])
            size, ms = (sum(row[key] for row in rows) for key in ("Transit Size(MB)", "Transit Time(ms)"))
            chosen = {"top1": rows[0], "middle": rows[len(rows) // 2], "bottom1": rows[-1],
                      "total": {"Transport Type": rows[0]["Transport Type"], "Transit Size(MB)": size, "Transit Time(ms)": ms,
                                "Bandwidth(GB/s)": quotient(size, ms)}}
            chosen.update({"bottom%d" % at: rows[-at] for at in (2, 3) if len(rows) >= at})
            for word, row in chosen.items():
                found[side].setdefault("%s-%s@%s" % (sort, word, group), {})[link] = row
    return found


def metadata_of(job, rank):
    o, groups = job.options, {}
    for group in job.all_groups():
        if rank in group.place:
            groups[group.comm] = {"group_name": group.title, "group_rank": group.place[rank], "global_ranks": group.ranks}
    return {"distributed_args": {"tensor_model_parallel_size": o.tp, "pipeline_model_parallel_size": o.pp,
                                 "data_parallel_size": job.dp, "context_parallel_size": 1, "expert_model_parallel_size": 1,
                                 "sequence_parallel": True, "rank": rank, "world_size": o.ranks},
            "parallel_group_info": groups, "pp_info": {"pp_type": "1f1b", "microbatch_num": o.microbatches}}


def write_json(path, value):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file)


def write_csv(path, rows):
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def folder_of(job, tree, rank):
    name = "rank%d_ascend_pt" % rank if job.options.plain_names else \
        "node%03d_%d_20250615110640%03d_ascend_pt" % (rank // job.options.ranks_per_host, 50000 + rank, rank % 1000)
    return os.path.join(tree, name)


def write_about(job, rank, folder, form):
    os.makedirs(os.path.join(folder, OUTPUT), exist_ok=True)
    write_json(os.path.join(folder, "profiler_info_%d.json" % rank), {
        "config": {"common_config": {"activities": ["ProfilerActivity.CPU", "ProfilerActivity.NPU"],
                                     "schedule": {"wait": 0, "active": job.options.steps, "warmup": 0, "repeat": 1}},
                   "experimental_config": {"_profiler_level": "Level1", "_export_type": [form]}},
        "start_info": {"syscnt_enable": False}, "end_info": {"collectionTimeEnd": job.windows[rank][-1][1] + job.skew[rank]},
        "rank_id": rank})
    if job.options.metadata or form == "text":
        write_json(os.path.join(folder, "profiler_metadata.json"),
                   metadata_of(job, rank) if job.options.metadata else {"ENV_VARIABLES": {"HCCL_ALGO": ""}})
    return os.path.join(folder, OUTPUT)


# ---- the text form ------------------------------------------------------------------------------------------------

def write_text(job, rank, folder):
    out = write_about(job, rank, folder, "text")
    device = rank % job.options.ranks_per_host
    keys = ["step%d" % job.step_number(step) for step in range(job.options.steps)]
    write_csv(os.path.join(out, "step_trace_time.csv"), [["Device_id", "Step"] + TITLES] + [
        [device, job.step_number(step)] + job.figures(rank, step) for step in range(job.options.steps)])
    write_json(os.path.join(out, "communication.json"),
               {key: communication_of(job, rank, step) for step, key in enumerate(keys)})
    write_json(os.path.join(out, "communication_matrix.json"),
               {key: matrix_of(job, rank, step) for step, key in enumerate(keys)})
    if job.options.trace:
        write_trace(job, rank, out)
        write_tables(job, rank, out)


def us(ns):
    """As the profiler spells a time: us with three decimals."""
    return "%d.%03d" % divmod(ns, 1000)


class Timeline:
    """Rows of trace_view.json. A process for each layer; launches point at what they started by flows."""
    HOST, CANN, DEVICE, COMM, OVERLAP = 4321, 900, 901, 902, 903

    def __init__(self, skew):
        self.skew, self.rows, self.connections = skew, [], 0
        for pid, name, label, threads in ((self.HOST, "Python", "CPU", {}), (self.CANN, "CANN", "CPU", {}),
                                          (self.DEVICE, "Ascend Hardware", "NPU", {2: "Stream 2", 3: "Stream 3"}),
                                          (self.COMM, "Communication", "NPU", {}),
                                          (self.OVERLAP, "Overlap Analysis", "NPU",
                                           dict(enumerate(("Computing", "Communication", "Communication(Not Overlapped)", "Free"))))):
            self.about(pid, 0, "process_name", name=name)
            self.about(pid, 0, "process_labels", labels=label)
            for tid, thread in threads.items():
                self.about(pid, tid, "thread_name", name=thread)

    def about(self, pid, tid, what, **args):
        self.rows.append({"ph": "M", "name": what, "pid": pid, "tid": tid, "args": args})

    def span(self, pid, tid, name, start, end, **more):
        self.rows.append({"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": us(start + self.skew), "dur": (end - start) / 1000,
                          **more})

    def flow(self, name, category, number, source, target):
        for ph, (pid, tid, at) in (("s", source), ("f", target)):
            self.rows.append({"ph": ph, "bp": "e", "name": name, "id": number, "pid": pid, "tid": tid, "ts": us(at + self.skew),
                              "cat": category})

    def launch(self, op, call, start, target):
        """A call of the framework and CANN's own beneath it, each with its flow to the device. The connection's number."""
        self.connections += 1
        host = start - 30_000
        self.span(self.HOST, self.HOST, op, host, host + 12_000, cat="cpu_op",
                  args={"Sequence number": -1, "Fwd thread id": 0, "Input Dims": "4096,4096"})
        self.span(self.CANN, self.HOST, call, host + 4_000, host + 9_000,
                  args={"Thread Id": self.HOST, "Mode": "launch", "level": call.split("@")[0].lower(), "id": "0", "item_id": op,
                        "connection_id": self.connections})
        self.flow("torch_to_npu", "async_npu", start + self.skew, (self.HOST, self.HOST, host + 1_000), (*target, start))
        self.flow("HostToDevice%d" % self.connections, "HostToDevice", str(self.connections), (self.CANN, self.HOST, host + 4_000),
                  (*target, start))
        return self.connections


def write_trace(job, rank, out):
    line = Timeline(job.skew[rank])
    groups = [group for group in job.all_groups() if rank in group.place]
    threads = {group.number: at * 10 for at, group in enumerate(groups)}
    for group in groups:
        line.about(line.COMM, threads[group.number], "thread_name", name="Group %s Communication" % group.comm)
        line.about(line.COMM, threads[group.number] + 1, "thread_name", name="Plane 0")
    task = 0
    for step in range(job.options.steps):
        begin, end = job.windows[rank][step]
        line.span(line.HOST, line.HOST, "ProfilerStep#%d" % job.step_number(step), begin, end, cat="cpu_op",
                  args={"Sequence number": -1, "Fwd thread id": 0})
        device = [(start, stop, "aclnn%s_%s" % (name, name), "AI_CORE", 2, "Node@launch") for start, stop, name in job.work[rank][step]]
        device += [(start, stop, "MEMCPY_ASYNC", "SDMA_SQE", 3, "AscendCL@aclrtMemcpyAsync") for start, stop in job.copies[rank][step]]
        for start, stop, name, sort, stream, call in sorted(device):
            task += 1
            number = line.launch("aten::" + name.split("_")[-1].lower(), call, start, (line.DEVICE, stream))
            line.span(line.DEVICE, stream, name, start, stop, args={"Model Id": NOBODY, "Task Type": sort, "Physic Stream Id": stream,
                                                                   "Task Id": task, "Batch Id": 0, "Subtask Id": NOBODY,
                                                                   "connection_id": number})
        for one in job.operations[rank][step]:
            thread = threads[one.group.number]
            number = line.launch("c10d::" + one.kind.lower(), "Communication@hcom_%s_" % one.kind, one.start, (line.COMM, thread))
            line.span(line.COMM, thread, one.name, one.start, one.end,
                      args={"connection_id": number, "model id": NOBODY, "data_type": "BFP16", "alg_type": "MESH-RING",
                            "count": one.size // 2})
            for name, start, stop, peer, carried in parts_of(one, rank):
                line.span(line.COMM, thread + 1, name, start, stop, args={
                    "notify_id": "0", "stream id": 5, "task id": task, "context id": 0, "task type": name,
                    "src rank": one.group.place[rank], "dst rank": peer,
                    "transport type": "RDMA" if job.wire(rank, one.group.ranks[peer]) == "RDMA" else "SDMA", "size(Byte)": carried,
                    "data type": "BFP16", "link type": {"LOCAL": "ON_CHIP"}.get(job.wire(rank, one.group.ranks[peer]), "HCCS")})
        work, comm, bare = job.layers(rank, step)
        both = union(work + comm)
        free = [[a[1], b[0]] for a, b in zip(both, both[1:])]
        for tid, (name, spans) in enumerate((("Computing", work), ("Communication", comm), ("Communication(Not Overlapped)", bare),
                                             ("Free", free))):
            for start, stop in spans:
                line.span(line.OVERLAP, tid, name, start, stop)
    write_json(os.path.join(out, "trace_view.json"), line.rows)


def write_tables(job, rank, out):
    """The tables beside a timeline: kernels, their statistics, memory."""
    device, skew = "NPU:%d" % (rank % job.options.ranks_per_host), job.skew[rank]
    kernels = [["Step Id", "Device_id", "Model ID", "Task ID", "Stream ID", "Name", "Type", "OP State", "Accelerator Core",
                "Start Time(us)", "Duration(us)", "Wait Time(us)", "Block Dim", "Mix Block Dim", "HF32 Eligible", "Input Shapes",
                "Input Data Types", "Input Formats", "Output Shapes", "Output Data Types", "Output Formats", "Context ID"]]
    allocations = [["Name", "Size(KB)", "Allocation Time(us)", "Release Time(us)", "Active Release Time(us)", "Duration(us)",
                    "Active Duration(us)", "Allocation Total Allocated(MB)", "Allocation Total Reserved(MB)",
                    "Allocation Total Active(MB)", "Release Total Allocated(MB)", "Release Total Reserved(MB)",
                    "Release Total Active(MB)", "Stream Ptr", "Device Type"]]
    records = [["Component", "Timestamp(us)", "Total Allocated(MB)", "Total Reserved(MB)", "Total Active(MB)", "Stream Ptr",
                "Device Type"]]
    modules = [["Component", "Timestamp(us)", "Total Reserved(MB)", "Device"]]
    lengths, task = {}, 0
    for step in range(job.options.steps):
        for start, end, name in sorted(job.work[rank][step]):
            task += 1
            lengths.setdefault(name, []).append((end - start) / 1000)
            kernels.append([job.step_number(step), rank % job.options.ranks_per_host, NOBODY, task, 2, "aclnn%s_%s" % (name, name), name,
                            "dynamic", "AI_CORE", us(start + skew) + "\t", (end - start) / 1000, 0, 24, 0, "NO",
                            '"4096,4096;4096,4096"', "DT_BF16;DT_BF16", "ND;ND", '"4096,4096"', "DT_BF16", "ND", "N/A"])
            # one in three outlives the recording
            released = us(end + skew) + "\t" if task % 3 else ""
            allocations.append(["aten::empty", 512.0, us(start + skew) + "\t", released, released, (end - start) / 1000 if released else "",
                                (end - start) / 1000 if released else "", 100.0 + task / 2, 2048.0, 100.0 + task / 2,
                                100.0 if released else "", 2048.0 if released else "", 100.0 if released else "", 7, device])
            records.append(["PTA", us(start + skew) + "\t", 100.0 + task / 2, 2048.0, 100.0 + task / 2, 7, device])
        begin = job.windows[rank][step][0] + skew
        records += [["APP", us(begin + at * 20_000) + "\t", "", 2109.6, "", "", device] for at in range(4)]
        modules += [[name, us(begin + at * 20_000) + "\t", 1.5, device] for at, name in enumerate(("SLOG", "HCCL", "RUNTIME"))]
    total = sum(map(sum, lengths.values()))
    write_csv(os.path.join(out, "kernel_details.csv"), kernels)
    write_csv(os.path.join(out, "operator_memory.csv"), allocations)
    write_csv(os.path.join(out, "memory_record.csv"), records)
    write_csv(os.path.join(out, "npu_module_mem.csv"), modules)
    write_csv(os.path.join(out, "op_statistic.csv"), [
        ["OP Type", "Core Type", "Count", "Total Time(us)", "Min Time(us)", "Avg Time(us)", "Max Time(us)", "Ratio(%)"]] + [
        [name, "AI_CORE", len(all_of_it), sum(all_of_it), min(all_of_it), sum(all_of_it) / len(all_of_it), max(all_of_it),
         round(sum(all_of_it) / total * 100, 3)] for name, all_of_it in lengths.items()])


def parts_of(one, rank):
    """An operation's tasks on the device: wait for the peer, carry, tell it. (name, start, end, peer's place, bytes)"""
    own = one.group.place[rank]
    peer = one.peer if one.peer is not None else (one.group.receivers(own) or [own])[0]
    carry, tell = one.start + one.wait, one.end - one.idle
    return (("Notify_Wait", one.start, carry, peer, 0), ("Memcpy", carry, tell, peer, one.carried),
            ("Notify_Record", tell, one.end, peer, 0))


# ---- the database form ------------------------------------------------------------------------------------------

ANALYSIS = {
    "CommAnalyzerBandwidth": "hccl_op_name TEXT, group_name TEXT, transport_type TEXT, transit_size NUMERIC, transit_time NUMERIC,"
                             " bandwidth NUMERIC, large_packet_ratio NUMERIC, package_size NUMERIC, count NUMERIC,"
                             " total_duration NUMERIC, step TEXT, type TEXT",
    "CommAnalyzerMatrix": "hccl_op_name TEXT, group_name TEXT, src_rank TEXT, dst_rank TEXT, transport_type TEXT,"
                          " transit_size NUMERIC, transit_time NUMERIC, bandwidth NUMERIC, step TEXT, type TEXT, op_name TEXT",
    "CommAnalyzerTime": "hccl_op_name TEXT, group_name TEXT, start_timestamp NUMERIC, elapse_time NUMERIC, transit_time NUMERIC,"
                        " wait_time NUMERIC, synchronization_time NUMERIC, idle_time NUMERIC, step TEXT, type TEXT",
    "StepTraceTime": "deviceId INTEGER, step TEXT, " + ", ".join(name + " NUMERIC" for name in FIGURES)}
PROFILER = {
    "STRING_IDS": "id INTEGER PRIMARY KEY, value TEXT", "SESSION_TIME_INFO": "startTimeNs INTEGER, endTimeNs INTEGER",
    "NPU_INFO": "id INTEGER, name TEXT", "RANK_DEVICE_MAP": "rankId INTEGER, deviceId INTEGER",
    "HOST_INFO": "hostUid TEXT, hostName TEXT", "META_DATA": "name TEXT, value TEXT",
    "STEP_TIME": "id INTEGER, startNs INTEGER, endNs INTEGER",
    "TASK": "startNs INTEGER, endNs INTEGER, deviceId INTEGER, connectionId INTEGER, globalTaskId INTEGER, globalPid INTEGER,"
            " taskType INTEGER, contextId INTEGER, streamId INTEGER, taskId INTEGER, modelId INTEGER",
    "COMPUTE_TASK_INFO": "name INTEGER, globalTaskId INTEGER PRIMARY KEY, blockNum INTEGER, mixBlockNum INTEGER, taskType INTEGER,"
                         " opType INTEGER, inputFormats INTEGER, inputDataTypes INTEGER, inputShapes INTEGER,"
                         " outputFormats INTEGER, outputDataTypes INTEGER, outputShapes INTEGER, attrInfo INTEGER,"
                         " opState INTEGER, hf32Eligible INTEGER",
    "COMMUNICATION_TASK_INFO": "name INTEGER, globalTaskId INTEGER, taskType INTEGER, planeId INTEGER, groupName INTEGER,"
                               " notifyId INTEGER, rdmaType INTEGER, srcRank INTEGER, dstRank INTEGER, transportType INTEGER,"
                               " size INTEGER, dataType INTEGER, linkType INTEGER, opId INTEGER, isMaster INTEGER,"
                               " bandwidth NUMERIC",
    "COMMUNICATION_OP": "opName INTEGER, startNs INTEGER, endNs INTEGER, connectionId INTEGER, groupName INTEGER,"
                        " opId INTEGER PRIMARY KEY, relay INTEGER, retry INTEGER, dataType INTEGER, algType INTEGER,"
                        " count NUMERIC, opType INTEGER, deviceId INTEGER, rankSize INTEGER",
    "CANN_API": "startNs INTEGER, endNs INTEGER, type INTEGER, globalTid INTEGER, connectionId INTEGER PRIMARY KEY, name INTEGER",
    "PYTORCH_API": "startNs TEXT, endNs TEXT, globalTid INTEGER, connectionId INTEGER, name INTEGER, sequenceNumber INTEGER,"
                   " fwdThreadId INTEGER, inputDtypes INTEGER, inputShapes INTEGER, callchainId INTEGER, type INTEGER",
    "CONNECTION_IDS": "id INTEGER, connectionId INTEGER",
    "AICORE_FREQ": "deviceId INTEGER, timestampNs NUMERIC, freq INTEGER",
    "MSTX_EVENTS": "startNs INTEGER, endNs INTEGER, eventType INTEGER, rangeId INTEGER, category INTEGER, message INTEGER,"
                   " globalTid INTEGER, endGlobalTid INTEGER, domainId INTEGER, connectionId INTEGER",
    "ENUM_API_TYPE": "id INTEGER PRIMARY KEY, name TEXT", "ENUM_HCCL_DATA_TYPE": "id INTEGER PRIMARY KEY, name TEXT",
    "ENUM_HCCL_TRANSPORT_TYPE": "id INTEGER PRIMARY KEY, name TEXT", "ENUM_HCCL_LINK_TYPE": "id INTEGER PRIMARY KEY, name TEXT"}
DATA_TYPES = ("INT8", "INT16", "INT32", "FP16", "FP32", "INT64", "UINT64", "UINT8", "UINT16", "UINT32", "FP64", "BFP16", "INT128")
BFP16 = DATA_TYPES.index("BFP16")
TRANSPORT, LINK = {"LOCAL": 2, "HCCS": 0, "RDMA": 1}, {"LOCAL": 0, "HCCS": 1, "RDMA": 3}


def write_database(path, schema, rows):
    db = sqlite3.connect(path)
    db.execute("PRAGMA synchronous = OFF")
    with db:
        for table, columns in schema.items():
            db.execute("CREATE TABLE %s (%s)" % (table, columns))
            if rows.get(table):
                db.executemany("INSERT INTO %s VALUES (%s)" % (table, ",".join("?" * len(rows[table][0]))), rows[table])
    db.close()


def analysis_rows(job, rank):
    rows = {table: [] for table in ANALYSIS}
    for step in range(job.options.steps):
        key = "step%d" % job.step_number(step)
        rows["StepTraceTime"].append([rank % job.options.ranks_per_host, str(job.step_number(step))] + job.figures(rank, step))
        for one in job.operations[rank][step]:
            times = times_of(job, rank, one)
            rows["CommAnalyzerTime"].append([one.name, one.group.name] + [value for name, value in times.items() if "Ratio" not in name]
                                            + [key, one.side])
            for wire, band in bands_of(job, one).items():
                if band["Transit Size(MB)"]:
                    head = [one.name, one.group.name, wire, band["Transit Size(MB)"], band["Transit Time(ms)"], band["Bandwidth(GB/s)"],
                            band["Large Packet Ratio"]]
                    for size, (count, ms) in (band["Size Distribution"] or {0: (0, 0)}).items():
                        rows["CommAnalyzerBandwidth"].append(head + [size, count, ms, key, one.side])
        for side, names in matrix_of(job, rank, step).items():
            for name, links in names.items():
                for link, row in links.items():
                    rows["CommAnalyzerMatrix"].append(name.split("@") + link.split("-") + [
                        row["Transport Type"], row["Transit Size(MB)"], row["Transit Time(ms)"], row["Bandwidth(GB/s)"], key, side,
                        row.get("Op Name", "")])
    return rows


class Recorder:
    """Rows of one rank's database: strings have numbers, launches have connections, tasks have ids."""

    def __init__(self, job, rank):
        self.job, self.rank, self.skew = job, rank, job.skew[rank]
        self.device, self.pid = rank % job.options.ranks_per_host, (50000 + rank) << 32
        self.strings, self.rows = {}, {table: [] for table in PROFILER}
        self.connections = self.tasks = 0

    def text(self, value):
        return self.strings.setdefault(value, len(self.strings))

    def launch(self, start, name, level, op):
        """CANN's call and the framework's above it; the connection."""
        self.connections += 1
        at = start + self.skew - 25_000
        self.rows["CANN_API"].append((at, at + 6_000, level, self.pid, self.connections, self.text(name)))
        self.rows["PYTORCH_API"].append((str(at - 4_000), str(at + 7_000), self.pid, (7 << 28) + self.connections, self.text(op), None,
                                         None, None, None, None, 50001))
        self.rows["CONNECTION_IDS"].append(((7 << 28) + self.connections, self.connections))
        return self.connections

    def task(self, start, end, connection, sort, stream):
        self.tasks += 1
        self.rows["TASK"].append((start + self.skew, end + self.skew, self.device, connection, self.tasks, self.pid, self.text(sort),
                                  NOBODY, stream, self.tasks & 0xFFFF, NOBODY))
        return self.tasks

    def work(self, start, end, name):
        task = self.task(start, end, self.launch(start, "launch", 10000, "aten::" + name.lower()), "AI_CORE", 2)
        shapes = "%d,4096;4096,4096" % (2048 if self.rank == self.job.slow_rank else 1024)
        row = [self.text("aclnn%s_%s" % (name, name)), task, 24, 0] + [self.text(value) for value in (
            "AI_CORE", name, "ND;ND", "DT_BF16;DT_BF16", shapes, "ND", "DT_BF16", "1024,4096", "", "dynamic")] + [None]
        self.rows["COMPUTE_TASK_INFO"].append(row)

    def communication(self, number, one):
        connection = self.launch(one.start, "hcom_%s_launch" % one.kind, 5500, "c10d::" + one.kind.lower())
        group, name = self.text(one.group.comm), self.text(one.name)
        self.rows["COMMUNICATION_OP"].append((name, one.start + self.skew, one.end + self.skew, connection, group, number, 0, 0, BFP16,
                                              self.text("MESH-RING"), one.size // 2, self.text("hcom_%s_" % one.kind), self.device,
                                              len(one.group.ranks)))
        for sort, start, end, peer, carried in parts_of(one, self.rank):
            task = self.task(start, end, connection, sort, 5)
            wire = self.job.wire(self.rank, one.group.ranks[peer])
            speed = carried / MB / ((end - start) / 1e6) if carried and end > start else 0
            self.rows["COMMUNICATION_TASK_INFO"].append((name, task, self.text(sort), 0, group, 0, NOBODY, one.group.place[self.rank],
                                                         peer, TRANSPORT[wire], carried, BFP16, LINK[wire], number, 1, speed))

    def phase(self, number, word, start, end):
        self.connections += 1
        self.task(start, end, self.connections, "MSTX", 2)
        for message, domain, connection in (("{'name': '%s'}" % word, "default", self.connections), ("TransformerBlock", "Module", NOBODY)):
            self.rows["MSTX_EVENTS"].append((start + self.skew - 25_000, end + self.skew, 2, number, NOBODY, self.text(message), self.pid,
                                             self.pid, self.text(domain), connection))


def profiler_rows(job, rank):
    o, rec = job.options, Recorder(job, rank)
    rows, number = rec.rows, 0
    for step in range(o.steps):
        begin, end = (at + rec.skew for at in job.windows[rank][step])
        rows["STEP_TIME"].append((job.step_number(step), begin, end))
        for work in job.work[rank][step]:
            rec.work(*work)
        for start, stop in job.copies[rank][step]:
            rec.task(start, stop, rec.launch(start, "aclrtMemcpyAsync", 20000, "aten::copy_"), "MEMCPY_ASYNC", 3)
        for one in job.operations[rank][step]:
            rec.communication(number, one)
            number += 1
        for at, phase in enumerate(job.phases[rank][step]):
            rec.phase(at, *phase)
        for at in range(4):
            low = o.slow_freq if rank == job.slow_rank and o.slow_freq and at % 2 else 1800
            rows["AICORE_FREQ"].append((rec.device, begin + at * 1_000_000, low))
    host = rank // o.ranks_per_host
    rows["SESSION_TIME_INFO"] = [(job.windows[rank][0][0] + rec.skew, job.windows[rank][-1][1] + rec.skew)]
    rows["RANK_DEVICE_MAP"], rows["NPU_INFO"] = [(rank, rec.device)], [(rec.device, "Ascend910B")]
    rows["HOST_INFO"] = [("%016x" % (0x1000 + host), "node%03d" % host)]
    rows["META_DATA"] = [("SCHEMA_VERSION", "1.2.0"), ("ENV_VARIABLES", json.dumps({"HCCL_ALGO": ""}))]
    if o.metadata:
        rows["META_DATA"] += [(name, json.dumps(value)) for name, value in metadata_of(job, rank).items()]
    rows["ENUM_API_TYPE"] = [(20000, "acl"), (15000, "model"), (10000, "node"), (5500, "hccl"), (5000, "runtime")]
    rows["ENUM_HCCL_DATA_TYPE"] = list(enumerate(DATA_TYPES))
    rows["ENUM_HCCL_TRANSPORT_TYPE"] = [(0, "SDMA"), (1, "RDMA"), (2, "LOCAL")]
    rows["ENUM_HCCL_LINK_TYPE"] = [(0, "ON_CHIP"), (1, "HCCS"), (2, "PCIE"), (3, "ROCE"), (4, "SIO")]
    rows["STRING_IDS"] = [(at, value) for value, at in rec.strings.items()]
    return rows


def write_db(job, rank, folder):
    out = write_about(job, rank, folder, "db")
    write_database(os.path.join(out, "ascend_pytorch_profiler_%d.db" % rank), PROFILER, profiler_rows(job, rank))
    write_database(os.path.join(out, "analysis.db"), ANALYSIS, analysis_rows(job, rank))


# ---- what `cluster` made of it -------------------------------------------------------------------------------------

class Check:
    """Collects what differs, by subject; prints a line each: SUBJECT COUNT values ok|FAILED."""

    def __init__(self, truth):
        self.truth, self.failed = truth, False

    def compare(self, subject, wanted, found, tolerance=1e-9):
        """Two mappings from keys to lists of numbers or texts."""
        wrong, values = sorted(set(wanted) ^ set(found), key=str)[:3], 0
        for key in set(wanted) & set(found):
            for ours, theirs in zip(found[key], wanted[key], strict=True):
                values += 1
                is_same = ours == theirs if isinstance(theirs, (str, type(None))) else \
                    abs(float(ours) - theirs) <= tolerance * max(1, abs(theirs))
                if not is_same:
                    wrong.append((key, theirs, ours))
        is_good = not wrong and values > 0
        self.failed |= not is_good
        print("%-60s %7d values %s" % (subject, values, "ok" if is_good else "FAILED: %s" % (wrong[:3],)))

    def steps(self, rows):
        """rows: step, type, index, nine figures, three places or None each"""
        t, wanted = self.truth, {}
        per_stage = t["tp"] * t["dp"]
        for step, ranks in t["step_trace_us"].items():
            for rank, values in ranks.items():
                at = int(rank)
                wanted[step, "rank", (at,)] = values + [at % per_stage // t["tp"], at // per_stage, at % t["tp"]]
            for stage in t["stages"]:
                wanted[step, "stage", tuple(stage)] = [max(ranks[str(rank)][at] for rank in stage) for at in range(9)]
        found = {}
        for step, kind, index, *values in rows:
            key = str(step), kind, tuple(int(word) for word in str(index).strip("()").replace(" ", "").split(",") if word)
            found[key] = values if kind == "rank" and len(values) == 12 and values[-1] is not None else values[:9]
            if kind == "rank" and len(found[key]) == 9:  # without metadata there is no place to tell
                wanted[key] = wanted[key][:9]
        self.compare("steps of ranks and stages", wanted, found)

    def groups(self, rows):
        self.compare("groups", {g["group_name"]: [g["type"], str(g["global_ranks"]), g["group_id"], g["pg_name"]]
                                for g in self.truth["groups"]},
                     {name: [kind, str(sorted(ranks)), comm, title] for kind, ranks, name, comm, title in rows})

    def times(self, rows):
        wanted = {}
        for step, groups in self.truth["comm_time"].items():
            for group, ranks in groups.items():
                for rank, t in ranks.items():
                    wanted[step, group, int(rank)] = [t[key + "_ns"] / 1e6 for key in ("elapse", "transit", "wait", "sync", "idle")]
        self.compare("totals of each group's time", wanted,
                     {(str(row[0]).replace("step", ""), row[1], int(row[2])): list(row[3:8]) for row in rows})

    def bands(self, rows):
        wanted = {}
        for step, groups in self.truth["bandwidth"].items():
            for group, ranks in groups.items():
                for rank, wires in ranks.items():
                    for wire, cell in wires.items():
                        wanted[step, group, int(rank), wire] = [cell["bytes"] / 1e6, cell["ms"]]
        self.compare("totals of each group's transports", wanted, {
            (str(step).replace("step", ""), group, int(rank), wire): [size, ms] for step, group, rank, wire, size, ms in rows if size or ms})

    def matrix(self, rows):
        wanted, slowest = {}, {}
        for step, groups in self.truth["matrix"].items():
            for group, links in groups.items():
                for link, cell in links.items():
                    wanted[step, group, link] = [cell["transport"], cell["bytes"] / 1e6, cell["ms"]]
        found = {}
        for step, group, source, target, wire, size, ms, speed in rows:
            found[str(step).replace("step", ""), group, "%d-%d" % (int(float(source)), int(float(target)))] = [wire, size, ms]
            slowest[wire] = min(slowest.get(wire, (float("inf"), None)), (float(speed), (int(float(source)), int(float(target)))))
        self.compare("totals of each link", wanted, found)
        if self.truth["slow_link"]:
            pairs = [set(pair) for wire, (_, pair) in slowest.items() if wire != "LOCAL"]
            self.compare("the slow link is the slowest of its kind", {"link": ["yes"]},
                         {"link": ["yes" if set(self.truth["slow_link"]) in pairs else "no: %s" % pairs]})

    def operations(self, count):
        wanted = self.truth["ranks"] * len(self.truth["steps"]) * self.truth["comm_ops_per_step"]
        self.compare("operations, one by one", {"operations": [wanted]}, {"operations": [count]})

    def text(self, folder):
        with open(os.path.join(folder, "cluster_step_trace_time.csv"), newline="", encoding="utf-8") as file:
            self.steps(list(csv.reader(file))[1:])
        load = lambda name: json.load(open(os.path.join(folder, name), encoding="utf-8"))
        self.groups([(g["type"], g["rank_set"], g["group_name"], g["group_id"], g["pg_name"])
                     for g in load("communication_group.json")["comm_group_parallel_info"]])
        cells = [(step, *name.split("@"), ranks) for steps in load("cluster_communication.json").values()
                 for step, names in steps.items() for name, ranks in names.items()]
        self.operations(sum(len(ranks) for _, op, _, ranks in cells if op != "Total Op Info"))
        totals = [(step, group, rank, op) for step, name, group, ranks in cells if name == "Total Op Info" for rank, op in ranks.items()]
        self.times([(step, group, rank) + tuple(op["Communication Time Info"][word + " Time(ms)"] for word in (
            "Elapse", "Transit", "Wait", "Synchronization", "Idle")) for step, group, rank, op in totals])
        self.bands([(step, group, rank, wire, band["Transit Size(MB)"], band["Transit Time(ms)"]) for step, group, rank, op in totals
                    for wire, band in op["Communication Bandwidth Info"].items()])
        self.matrix([(step, name.split("@")[1], *link.split("-"), row["Transport Type"], row["Transit Size(MB)"],
                      row["Transit Time(ms)"], row["Bandwidth(GB/s)"])
                     for steps in load("cluster_communication_matrix.json").values() for step, names in steps.items()
                     for name, links in names.items() if name.startswith("Total Op Info@") for link, row in links.items()])

    def database(self, path):
        db = sqlite3.connect(path)
        rows = lambda sql: db.execute(sql).fetchall()
        total = "WHERE hccl_op_name = 'Total Op Info'"
        self.steps(rows("SELECT * FROM ClusterStepTraceTime"))
        self.groups([(kind, [int(word) for word in ranks.strip("()").split(",") if word], *more) for kind, ranks, *more in rows(
            "SELECT type, rank_set, group_name, group_id, pg_name FROM CommunicationGroupMapping")])
        self.operations(rows("SELECT count(*) FROM ClusterCommunicationTime WHERE hccl_op_name <> 'Total Op Info'")[0][0])
        self.times(rows("SELECT step, group_name, rank_id, elapsed_time, transit_time, wait_time, synchronization_time, idle_time "
                        "FROM ClusterCommunicationTime " + total))
        self.bands(rows("SELECT DISTINCT step, group_name, rank_id, band_type, transit_size, transit_time "
                        "FROM ClusterCommunicationBandwidth " + total))
        self.matrix(rows("SELECT step, group_name, src_rank, dst_rank, transport_type, transit_size, transit_time, bandwidth "
                         "FROM ClusterCommunicationMatrix " + total))
        if rows("SELECT 1 FROM sqlite_master WHERE name = 'RankDeviceMap'"):
            per = self.truth["ranks_per_host"]
            self.compare("ranks, devices and hosts", {rank: [rank % per, "%016x" % (0x1000 + rank // per)]
                                                      for rank in range(self.truth["ranks"])},
                         {rank: [device, host] for rank, device, host in rows("SELECT rankId, deviceId, hostUid FROM RankDeviceMap")})


def check(tree, out):
    with open(os.path.join(tree, "planted.json"), encoding="utf-8") as file:
        checks = Check(json.load(file))
    if "step_trace_us" not in checks.truth:
        sys.exit("ascend_job.py: %s/planted.json says only what was planted: --truth full is needed" % tree)
    folder = os.path.join(out, "cluster_analysis_output")
    path = os.path.join(folder, "cluster_analysis.db")
    if os.path.exists(path):
        checks.database(path)
    else:
        checks.text(folder)
    return 1 if checks.failed else 0


# ---- the command --------------------------------------------------------------------------------------------------

def make(options):
    job = Job(options)
    shutil.rmtree(options.out, ignore_errors=True)
    forms = ("text", "db") if options.format == "both" else (options.format,)
    tree_of = {form: os.path.join(options.out, form) if options.format == "both" and options.layout == "split" else options.out
               for form in forms}
    ranks = range(options.ranks) if options.only is None else [int(rank) for rank in options.only.split(",")]
    for form in forms:
        for rank in ranks:
            (write_text if form == "text" else write_db)(job, rank, folder_of(job, tree_of[form], rank))
    truth = job.truth()
    for tree in sorted(set(tree_of.values())):
        write_json(os.path.join(tree, "planted.json"), truth)


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--check", nargs=2, metavar=("TREE", "OUT"), help="instead of making a job")
    words.add_argument("--out", help="made anew")
    words.add_argument("--only", help="write these ranks only, as 0,1")
    words.add_argument("--plain-names", action="store_true", help="rankN_ascend_pt instead of the profiler's own names")
    words.add_argument("--trace", action="store_true", help="text form: a timeline and its tables, too")
    words.add_argument("--format", choices=("text", "db", "both"), default="both")
    words.add_argument("--layout", choices=("split", "merged"), default="split", help="both forms: OUT/text, OUT/db or one folder a rank")
    words.add_argument("--truth", choices=("full", "summary"), help="default: full up to 64 ranks")
    words.add_argument("--slow-rank", default="auto", help="number, auto or none")
    words.add_argument("--slow-link", default="auto", help="A-B, auto or none")
    words.add_argument("--no-metadata", dest="metadata", action="store_false", help="groups and layout stand in no file")
    words.add_argument("--no-p2p-self-link", dest="p2p_self_link", action="store_false", help="send and receive copy nothing locally")
    for name, default, kind in (("ranks", 8, int), ("steps", 3, int), ("first-step", 1, int), ("comm-ops-per-step", 200, int),
                                ("tp", 2, int), ("pp", 2, int), ("microbatches", 4, int), ("dp-ops", 8, int), ("world-ops", 4, int),
                                ("slow-factor", 1.5, float), ("slow-freq", 1450, int), ("slow-link-factor", 0.25, float),
                                ("noise", 0.01, float), ("compute-ns", 1_000_000, int), ("gap-ns", 3_000, int),
                                ("hole-ns", 500_000, int), ("ranks-per-host", 8, int), ("clock-skew-us", 0.0, float),
                                ("seed", 20260615, int)):
        words.add_argument("--" + name, type=kind, default=default)
    options = words.parse_args()
    if options.check:
        return check(*options.check)
    if not options.out:
        words.error("--out says where the job goes")
    make(options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
