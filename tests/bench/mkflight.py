#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Flight recorder dumps of jobs that never ran: NCCL-shaped, in libtorch's own layout, with one planted trouble.

A job is dp x tp x pp ranks that run a program of groups: per step some tp collectives, sends and receives between
stages, a dp all_reduce, and a world all_reduce. The simulation is of calls, not of devices: a call is made when the
rank's program reaches it, ends when all members made it, and the host goes on after at most `ahead` open calls. What is
planted makes one rank (or an order of calls) stop; then the simulation runs until nothing moves any more, exactly as a
job does, and what each ring holds then is the dump.

    mkflight.py OUT --ranks 64 --tp 2 --pp 4 --steps 40 --ring 300 --plant absent --seed 1     one set, truth.json beside it

As a module: make(spec) -> Job, write(job, folder). Deterministic from the seed.
"""
import argparse
import json
import os
import random
import struct
from collections import deque

BASE_NS = 1_790_000_000_000_000_000
PLANTS = ("none", "absent", "silent", "size", "kind", "type", "order", "late", "skip")


# --- the pickle of libtorch -----------------------------------------------------------------------------------------

class Writer:
    """Protocol 2 in libtorch's layout: texts in the memo at first sight, containers as MARK .. SETITEMS / APPENDS."""

    def __init__(self):
        self.parts = [b"\x80\x02"]
        self.texts = {}
        self.shared = {}
        self.count = 0

    def put(self, data):
        self.parts.append(data)

    def text(self, value):
        known = self.texts.get(value)
        if known is None:
            index = self.count
            self.count += 1
            raw = value.encode()
            self.parts.append(b"X" + struct.pack("<I", len(raw)) + raw +
                              (b"q" + bytes([index]) if index < 256 else b"r" + struct.pack("<I", index)))
            self.texts[value] = b"h" + bytes([index]) if index < 256 else b"j" + struct.pack("<I", index)
        else:
            self.parts.append(known)

    def frame(self, frame):
        """Frames are shared between calls: written once, then taken from the memo."""
        key = tuple(frame.items())
        known = self.shared.get(key)
        if known is None:
            self.value(dict(frame))
            index, self.count = self.count, self.count + 1
            self.parts.append(b"q" + bytes([index]) if index < 256 else b"r" + struct.pack("<I", index))
            self.shared[key] = b"h" + bytes([index]) if index < 256 else b"j" + struct.pack("<I", index)
        else:
            self.parts.append(known)

    def number(self, value):
        if 0 <= value < 256:
            self.parts.append(b"K" + bytes([value]))
        elif 0 <= value < 65536:
            self.parts.append(b"M" + struct.pack("<H", value))
        elif -2**31 <= value < 2**31:
            self.parts.append(b"J" + struct.pack("<i", value))
        else:
            self.parts.append(b"\x8a\x08" + struct.pack("<q", value))

    def value(self, value):
        if value is None:
            self.parts.append(b"N")
        elif value is True:
            self.parts.append(b"\x88")
        elif value is False:
            self.parts.append(b"\x89")
        elif isinstance(value, str):
            self.text(value)
        elif isinstance(value, int):
            self.number(value)
        elif isinstance(value, float):
            self.parts.append(b"G" + struct.pack(">d", value))
        elif isinstance(value, tuple):
            for item in value:
                self.value(item)
            self.parts.append({2: b"\x86"}[len(value)])
        elif isinstance(value, list):
            self.parts.append(b"](" if value else b"]")
            for item in value:
                self.value(item)
            if value:
                self.parts.append(b"e")
        else:
            self.parts.append(b"}(" if value else b"}")
            for key, item in value.items():
                self.text(key)
                if key == "frames":
                    self.parts.append(b"](")
                    for frame in item:
                        self.frame(frame)
                    self.parts.append(b"e")
                else:
                    self.value(item)
            if value:
                self.parts.append(b"u")

    def done(self):
        self.parts.append(b".")
        return b"".join(self.parts)


# --- the job ---------------------------------------------------------------------------------------------------------

class Group:
    __slots__ = ("name", "desc", "ranks")

    def __init__(self, name, desc, ranks):
        self.name, self.desc, self.ranks = name, desc, ranks


class Call:
    """One call of one rank. A collective's key is (group, seq); of p2p (group, src, dst, n)."""
    __slots__ = ("group", "op", "seq", "numel", "dtype", "key", "created", "started", "completed", "peer", "record", "p2p_seq")

    def __init__(self, group, op, numel, dtype="Float", peer=None):
        self.group, self.op, self.numel, self.dtype, self.peer = group, op, numel, dtype, peer
        self.created = self.started = self.completed = None
        self.seq = self.p2p_seq = 0
        self.key = None


class Job:
    def __init__(self, spec):
        self.spec = spec
        self.random = random.Random(spec["seed"])
        n = spec["ranks"]
        tp, pp = spec.get("tp", 1), spec.get("pp", 1)
        dp = n // (tp * pp)
        self.world = Group("0", "default_pg", list(range(n)))
        # rank = (stage * dp + copy) * tp + column
        at = lambda s, d, t: (s * dp + d) * tp + t
        self.tp_of, self.dp_of, self.pp_of, count = {}, {}, {}, 1
        for s in range(pp):
            for d in range(dp):
                g = Group(str(count), "tp", [at(s, d, t) for t in range(tp)])
                count += 1
                self.tp_of.update({r: g for r in g.ranks})
        for s in range(pp):
            for t in range(tp):
                g = Group(str(count), "dp", [at(s, d, t) for d in range(dp)])
                count += 1
                self.dp_of.update({r: g for r in g.ranks})
        for d in range(dp):
            for t in range(tp):
                g = Group(str(count), "pp", [at(s, d, t) for s in range(pp)])
                count += 1
                self.pp_of.update({r: g for r in g.ranks})
        self.n, self.tp, self.pp, self.dp = n, tp, pp, dp
        self.ring = {r: deque(maxlen=spec.get("ring", 2000)) for r in range(n)}
        self.records = {r: 0 for r in range(n)}
        self.seqs, self.p2p_seqs = {}, {}
        self.last_status = {}
        self.truth = {"plant": spec["plant"], "culprits": [], "silent": []}
        self.skew = {r: (self.random.randint(-spec.get("skew_ns", 0), spec.get("skew_ns", 0)) if spec.get("skew_ns") else 0)
                     for r in range(n)}
        self.by_host = spec.get("gpus", 8)
        for r in range(n):
            self.skew[r] = self.skew[r - r % self.by_host]  # a clock is a host's

    def program(self, rank, step):
        """The calls of one step, in order."""
        stage = self.pp_of[rank].ranks.index(rank)
        calls = []
        width = 4096 * (1 + step % 3)
        for micro in range(self.spec.get("micro", 2) if self.pp > 1 else 1):
            if stage:
                calls.append(Call(self.pp_of[rank], "recv", width, peer=self.pp_of[rank].ranks[stage - 1]))
            for _ in range(self.spec.get("layers", 2)):
                if self.tp > 1:
                    calls.append(Call(self.tp_of[rank], "all_reduce", width))
            if stage < self.pp - 1:
                calls.append(Call(self.pp_of[rank], "send", width, peer=self.pp_of[rank].ranks[stage + 1]))
        # uneven rates, as stages have: odd ones reduce one thing more
        if self.tp > 1 and stage % 2:
            calls.append(Call(self.tp_of[rank], "all_gather", 128))
        if self.dp > 1:
            calls.append(Call(self.dp_of[rank], "reduce_scatter", 8192))
            calls.append(Call(self.dp_of[rank], "all_reduce", 65536))
        calls.append(Call(self.world, "all_reduce", 1))
        return calls

    # -- running

    def plan(self):
        spec, rnd = self.spec, self.random
        plant = spec["plant"]
        self.stop_step = spec["steps"] - 1 if plant != "none" else spec["steps"] + 1
        self.bad = rnd.randrange(self.n)
        length = len(self.program(self.bad, self.stop_step))
        self.stop_at = rnd.randrange(length)
        if plant in ("absent", "silent", "skip"):
            self.truth["culprits"] = [self.bad]
        if plant in ("size", "kind", "type"):
            wide = [i for i, c in enumerate(self.program(self.bad, self.stop_step))
                    if c.op in ("all_reduce", "reduce_scatter") and len(c.group.ranks) > 2]
            if not wide:
                wide = [length - 1]
            self.stop_at = rnd.choice(wide)
            self.truth["culprits"] = [self.bad]
        if plant == "late":
            self.truth["culprits"] = [self.bad]
        if plant == "order":
            # two ranks that share two groups: dp and world (or tp and world) in crossed order on one of them
            self.truth["culprits"] = None  # the circle decides
        if plant == "silent":
            self.truth["silent"] = [self.bad]

    def step_calls(self, rank, step):
        calls = self.program(rank, step)
        plant = self.spec["plant"]
        if step != self.stop_step or plant in ("none", "late"):
            return calls
        if plant == "order":
            group = self.world
            if rank == self.bad and len(calls) > 1:
                at = [i for i, c in enumerate(calls) if c.peer is None and c.group is not group]
                if at:
                    i = at[-1]
                    calls[i], calls[-1] = calls[-1], calls[i]
            return calls
        if rank != self.bad:
            return calls
        call = calls[self.stop_at]
        if plant == "size":
            call.numel += 7
        elif plant == "type":
            call.dtype = "Half"
        elif plant == "kind":
            call.op = "all_gather" if call.op == "all_reduce" else "all_reduce"
        elif plant in ("absent", "silent"):
            calls = calls[:self.stop_at] + [None]
        elif plant == "skip":
            del calls[self.stop_at]
            calls.append(None)
        return calls

    def make_call(self, rank, call, now):
        key = (id(call.group), rank)
        if call.peer is None:
            call.seq = self.seqs[key] = self.seqs.get(key, 0) + 1
            call.key = (call.group.name, call.seq)
        else:
            p2p = self.p2p_seqs[key] = self.p2p_seqs.get(key, 0) + 1
            call.p2p_seq = p2p
            call.seq = self.seqs.get(key, 0)
            ends = (rank, call.peer) if call.op == "send" else (call.peer, rank)
            count = self.p2p_seqs[(call.group.name,) + ends + (call.op,)] = self.p2p_seqs.get(
                (call.group.name,) + ends + (call.op,), 0) + 1
            call.key = (call.group.name,) + ends + (count,)
        call.created = now
        call.record = self.records[rank]
        self.records[rank] += 1
        self.ring[rank].append(call)
        return call

    def run(self):
        """Discrete and in order: a call starts when it is first of its group's queue on this rank, and ends when all are in."""
        spec, rnd = self.spec, self.random
        self.plan()
        n = self.n
        ahead = spec.get("ahead", 1)
        clock = [BASE_NS + spec.get("offset_ns", 0)] * n
        work_ns = spec.get("work_ns", 400_000)
        todo = [deque() for _ in range(n)]
        step = [0] * n
        opened = [deque() for _ in range(n)]
        stuck = [False] * n
        waiting = {}  # key -> list of (rank, call)
        dead = set()  # groups with a call that never ends: what is behind it on the stream does not begin
        poll = spec.get("poll_ns", 100_000)
        late = spec.get("late_ns", 0) if spec["plant"] == "late" else 0
        ready = deque(range(n))
        queued = [True] * n
        while ready:
            rank = ready.popleft()
            queued[rank] = False
            while True:
                while opened[rank] and opened[rank][0].completed is not None:
                    clock[rank] = max(clock[rank], opened[rank].popleft().completed)
                if stuck[rank] or len(opened[rank]) >= ahead:
                    break
                if not todo[rank]:
                    if step[rank] >= spec["steps"]:
                        break
                    todo[rank].extend(self.step_calls(rank, step[rank]))
                    step[rank] += 1
                call = todo[rank].popleft()
                if call is None:
                    stuck[rank] = True
                    break
                clock[rank] += int(work_ns * rnd.uniform(0.9, 1.1)) + (late if rank == self.bad else 0)
                self.make_call(rank, call, clock[rank])
                opened[rank].append(call)
                members = waiting.setdefault(call.key, [])
                members.append((rank, call))
                need = 2 if call.peer is not None else len(call.group.ranks)
                if len(members) < need:
                    continue
                del waiting[call.key]
                if call.group.name in dead or not self.agree(members):
                    dead.add(call.group.name)  # different things in one call: nobody ever gets through
                    continue
                end = max(c.created for _, c in members) + 20_000
                for other, theirs in members:
                    theirs.started = max(theirs.created, end - 15_000)
                    theirs.completed = end
                    if other != rank and not queued[other]:
                        queued[other] = True
                        ready.append(other)
        self.poll = poll
        self.end = max(clock) + spec.get("timeout_ns", 600_000_000_000)
        return self

    @staticmethod
    def agree(members):
        first = members[0][1]
        if first.peer is not None:
            return True
        return all(c.op == first.op and c.numel == first.numel and c.dtype == first.dtype for _, c in members)


def entry(job, rank, call, with_frames):
    """One call as the recorder writes it."""
    skew = job.skew[rank]
    rnd = job.random
    done = call.completed is not None
    hung = not done
    local = call.group.ranks
    if call.peer is None:
        name = "nccl:" + call.op
        sizes = [[call.numel]]
    else:
        mine, theirs = local.index(rank), local.index(call.peer)
        name = f"nccl:send {mine}->{theirs}" if call.op == "send" else f"nccl:recv {mine}<-{theirs}"
        sizes = [[call.numel]]
    fields = {}
    if with_frames:
        fields["frames"] = [{"name": call.op, "filename": "/opt/torch/distributed/distributed_c10d.py", "line": 4174},
                            {"name": "train_step", "filename": "train.py", "line": 80 + len(call.op)}]
        # What stands between the call and the program in real stacks; each place of the program has its own.
        fields["frames"] += [{"name": f"forward_{k}", "filename": f"/opt/model/part_{k % 7}.py",
                              "line": 100 * k + 10 * (call.record % 6) + len(call.op)}
                             for k in range(2, job.spec.get("stack", 2))]
    notice = rnd.randint(0, job.poll)
    fields.update({
        "record_id": call.record, "pg_id": int(call.group.name), "process_group": (call.group.name, call.group.desc),
        "collective_seq_id": call.seq, "p2p_seq_id": call.p2p_seq, "op_id": call.record + 1, "profiling_name": name,
        "time_created_ns": call.created + skew,
        "input_sizes": sizes if call.op != "recv" else [], "input_dtypes": [call.dtype] if call.op != "recv" else [],
        "output_sizes": sizes if call.op != "send" else [], "output_dtypes": [call.dtype] if call.op != "send" else [],
        "state": "completed" if done else "scheduled" if not job.spec.get("starts") else "started",
        "time_discovered_started_ns": call.started + notice + skew if done and job.spec.get("starts") else None,
        "time_discovered_completed_ns": call.completed + notice + skew if done else None,
        "retired": done, "timeout_ms": 600000, "is_p2p": call.peer is not None})
    if hung and job.spec.get("timed_out"):
        fields["retired"] = True
    if job.spec["version"] == "2.10":
        fields["thread_id"], fields["thread_name"] = "140258693651328", "python3"
    return fields


def dump_of(job, rank, version):
    groups = {g.name: g for g in (job.world, job.tp_of[rank], job.dp_of[rank], job.pp_of[rank])}
    status = {}
    for g in groups.values():
        calls = [c for c in job.ring[rank] if c.group is g and c.peer is None]
        enqueued = job.seqs.get((id(g), rank), 0)
        done = [c.seq for c in calls if c.completed is not None]
        status[g.name] = {"last_enqueued_collective": enqueued or -1, "last_started_collective": -1,
                          "last_completed_collective": max(done) if done else -1}
    result = {"version": version}
    result["pg_config"] = {g.name: {"name": g.name, "desc": g.desc, "ranks": "[" + ", ".join(map(str, g.ranks)) + "]"}
                           for g in groups.values()}
    if version == "2.10":
        result["comm_lib_version"] = "2.27.3"
    if job.spec.get("status", True):
        result["pg_status"] = status
    result["entries"] = [entry(job, rank, c, job.spec.get("frames", False)) for c in job.ring[rank]]
    return result


def write(job, folder):
    """Writes every rank's dump, less what the spec takes away; truth.json says what is right."""
    os.makedirs(folder, exist_ok=True)
    spec, rnd = job.spec, random.Random(job.spec["seed"] * 7 + 1)
    versions = ["2.4", "2.5", "2.7", "2.9", "2.10"] if spec.get("mixed") else [spec["version"]]
    innocent = [r for r in range(job.n) if r != job.bad]
    missing = set(rnd.sample(innocent, min(spec.get("missing", 0), len(innocent))))
    missing.update(job.truth["silent"])
    cut = set(rnd.sample(innocent, min(spec.get("truncated", 0), len(innocent)))) - missing
    job.truth["missing"] = sorted(missing)
    job.truth["truncated"] = sorted(cut)
    for rank in range(job.n):
        if rank in missing:
            continue
        version = rnd.choice(versions)
        host = f"node-{rank // job.by_host:03d}"
        name = {"default": f"comm_lib_trace_rank_{rank}", "host": f"trace_{host}_{rank}",
                "old": f"nccl_trace_rank_{rank}"}[spec.get("names", "default")]
        content = dump_of(job, rank, version)
        if spec.get("form") == "json":
            content = json.loads(json.dumps(content))
            for e in content["entries"]:
                e.pop("frames", None)
                for k in ("time_discovered_started_ns", "time_discovered_completed_ns"):
                    e[k] = e[k] or 0
            data = json.dumps(content).encode()
            name += ".json"
        else:
            writer = Writer()
            writer.value(content)
            data = writer.done()
        if rank in cut:
            data = data[:rnd.randint(60, len(data) - 1)]
        path = os.path.join(folder, name)
        with open(path, "wb") as file:
            file.write(data)
        os.utime(path, ns=(job.end, job.end))
    with open(os.path.join(folder, "truth.json"), "w", encoding="utf-8") as file:
        json.dump(job.truth, file)


def make(spec):
    spec = dict({"version": "2.10", "steps": 20, "ring": 2000, "plant": "none", "seed": 1}, **spec)
    return Job(spec).run()


def main():
    parser = argparse.ArgumentParser(description="dumps of a job that never ran")
    parser.add_argument("out")
    parser.add_argument("--plant", choices=PLANTS, default="none")
    for name, value in (("ranks", 8), ("tp", 1), ("pp", 1), ("steps", 20), ("ring", 2000), ("seed", 1), ("ahead", 1),
                        ("missing", 0), ("truncated", 0), ("skew-ns", 0), ("late-ns", 400000), ("layers", 2), ("stack", 2)):
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--names", choices=("default", "host", "old"), default="default")
    parser.add_argument("--form", choices=("pickle", "json"), default="pickle")
    for name in ("frames", "mixed", "starts", "timed-out"):
        parser.add_argument("--" + name, action="store_true")
    spec = {k: v for k, v in vars(parser.parse_args()).items()}
    folder = spec.pop("out")
    write(make(spec), folder)


if __name__ == "__main__":
    main()
