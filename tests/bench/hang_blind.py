#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The promise of hang.py held on jobs of another make: nothing here comes from mkflight.

Programs are those of today's training (FSDP over layers, experts that exchange, pipelines of one forward and one backward, hybrid
sharding), calls go out on a stream per group with several of them open, every rank has its own pace, hosts have their own clocks, the
dumps are written by Python's pickle at their own instants, of rings of their own length. Trouble strikes at a call chosen at random.

    RANKSCOPE=build/release/rankscope tests/bench/hang_blind.py [--hung 200] [--healthy 200] [--max-ranks 128] [--seed 77]
"""
import argparse
import json
import os
import pickle
import random
import shutil
import subprocess
import sys
import tempfile

PROGRAM = os.path.abspath(os.environ.get("RANKSCOPE", "build/dev/rankscope"))
EPOCH = 1_795_000_000_000_000_000
MS = 1_000_000


class Team:
    def __init__(self, name, desc, ranks):
        self.name, self.desc, self.ranks = name, desc, list(ranks)


# --- what ranks call, step by step ---------------------------------------------------------------------------------------


def fsdp(rnd, n):
    world, layers = Team("0", "default_pg", range(n)), rnd.randint(2, 6)
    numel = [rnd.choice([4096, 65536, 1 << 20]) * n for _ in range(layers)]
    step = [("c", world, "_all_gather_base", m) for m in numel] + [("c", world, "_reduce_scatter_base", m) for m in reversed(numel)]
    step.append(("c", world, "all_reduce", 1))
    return [world], {r: step for r in range(n)}


def hybrid(rnd, n):
    node = rnd.choice([m for m in (2, 4, 8) if n % m == 0 and n // m >= 3])
    world = Team("0", "default_pg", range(n))
    shard = [Team(str(1 + i), "shard", range(i * node, (i + 1) * node)) for i in range(n // node)]
    copies = [Team(str(1 + n // node + j), "replicate", range(j, n, node)) for j in range(node)]
    layers, programs = rnd.randint(2, 5), {}
    for r in range(n):
        inner, outer = shard[r // node], copies[r % node]
        step = []
        for k in range(layers):
            step.append(("c", inner, "_all_gather_base", 8192 << k))
        for k in reversed(range(layers)):
            step += [("c", inner, "_reduce_scatter_base", 8192 << k), ("c", outer, "all_reduce", (8192 << k) // node)]
        programs[r] = step + [("c", world, "all_reduce", 2)]
    return [world, *shard, *copies], programs


def experts(rnd, n):
    half = n // 2
    world = Team("0", "default_pg", range(n))
    ep = [Team("1", "ep", range(half)), Team("2", "ep", range(half, n))]
    layers, programs = rnd.randint(1, 4), {}
    for r in range(n):
        mine = ep[r // half]
        step = [("c", mine, "all_to_all", 4096)] * (2 * layers) + [("c", world, "allreduce_coalesced", 1 << 18)]
        programs[r] = step + [("c", world, "barrier", 1)] * rnd.choice([0, 0])
    return [world, *ep], programs


def pipeline(rnd, n):
    stages = rnd.choice([m for m in (2, 4) if n % m == 0 and n // m >= 2])
    copies, micro = n // stages, rnd.randint(1, 4)
    world = Team("0", "default_pg", range(n))
    pipes = [Team(str(1 + i), "pp", range(i, n, copies)) for i in range(copies)]
    data = [Team(str(1 + copies + s), "dp", range(s * copies, (s + 1) * copies)) for s in range(stages)]
    programs = {}
    for r in range(n):
        stage, pipe = r // copies, pipes[r % copies]
        step = []
        for _ in range(micro):
            if stage:
                step.append(("recv", pipe, stage - 1, 2048))
            if stage + 1 < stages:
                step.append(("send", pipe, stage + 1, 2048))
        for _ in range(micro):
            if stage + 1 < stages:
                step.append(("recv", pipe, stage + 1, 2048))
            if stage:
                step.append(("send", pipe, stage - 1, 2048))
        programs[r] = step + [("c", data[stage], "all_reduce", 1 << 16), ("c", world, "all_reduce", 1)]
    return [world, *pipes, *data], programs


SHAPES = [fsdp, hybrid, experts, pipeline]


# --- running it -----------------------------------------------------------------------------------------------------------


class Op:
    """One call of one rank."""
    __slots__ = ("team", "kind", "op", "numel", "peer", "seq", "issued", "done", "dtype", "seqs", "before", "behind")

    def __init__(self, team, kind, op, numel, peer, dtype):
        self.team, self.kind, self.op, self.numel, self.peer, self.dtype = team, kind, op, numel, peer, dtype
        self.issued = self.done = None


class Job:
    def __init__(self, rnd, n, trouble):
        self.rnd, self.n, self.trouble = rnd, n, trouble
        self.shape = rnd.choice([s for s in SHAPES if s is not hybrid or any(n % m == 0 and n // m >= 3 for m in (2, 4, 8))])
        self.teams, programs = self.shape(rnd, n)
        self.steps, self.ahead = rnd.randint(6, 30), rnd.choice([1, 2, 4, 8])
        if self.shape is pipeline:
            self.ahead = rnd.choice([1, 2])
        self.calls = {r: [self.make(c) for _ in range(self.steps) for c in programs[r]] for r in range(n)}
        self.number()
        self.stop, self.culprits, self.kind = {}, [], None
        self.plant()
        self.run()

    @staticmethod
    def make(call):
        kind, team, what, numel = call
        return Op(team, kind, what if kind == "c" else kind, numel, None if kind == "c" else what, "BFloat16")

    def number(self):
        for r in range(self.n):
            counts, pairs, stream = {}, {}, {}
            for op in self.calls[r]:
                key = id(op.team)
                op.before, op.behind = stream.get(key), None
                if op.before:
                    op.before.behind = op
                stream[key] = op
                seqs = counts.setdefault(key, [0, 0])
                if op.kind == "c":
                    seqs[0] += 1
                    op.seq = ("c", key, seqs[0])
                else:
                    seqs[1] += 1
                    me = op.team.ranks.index(r)
                    pair = (key, min(me, op.peer), max(me, op.peer), (op.kind == "send") == (me < op.peer))
                    pairs[pair] = pairs.get(pair, 0) + 1
                    op.seq = (*pair, pairs[pair])
                op.seqs = tuple(seqs)

    def plant(self):
        rnd, last = self.rnd, len(self.calls[0]) - 1
        bad = rnd.randrange(self.n)
        at = rnd.randint(len(self.calls[bad]) // 2, len(self.calls[bad]) - 1)
        if self.trouble in ("stuck", "gone"):
            self.stop[bad] = at
            self.culprits, self.kind = [bad], "hang" if self.trouble == "stuck" else "silent_rank"
        elif self.trouble in ("size", "dtype", "kind"):
            good = [i for i in range(at, len(self.calls[bad])) if self.calls[bad][i].kind == "c" and
                    (self.trouble != "size" or self.calls[bad][i].op != "all_to_all") and len(self.calls[bad][i].team.ranks) >= 3]
            op = self.calls[bad][good[0] if good else last]
            if self.trouble == "size":
                op.numel *= 2
            elif self.trouble == "dtype":
                op.dtype = "Float"
            else:
                op.op = "broadcast" if op.op != "broadcast" else "all_reduce"
            op.dtype += ""
            self.wrong = op
            self.culprits, self.kind = [bad], "mismatch"

    def run(self):
        """Whoever can go on does, until nobody can."""
        n, rnd = self.n, self.rnd
        pace = [rnd.uniform(0.2, 3.0) * MS for _ in range(n)]
        self.next, waiting, stream = [0] * n, {}, {}
        now, open_calls = [rnd.uniform(0, 30) * MS for _ in range(n)], [[] for _ in range(n)]
        self.waited = [0] * n  # for calls of its own to end
        todo, queued = list(range(n)), [True] * n
        while todo:
            r = todo.pop()
            queued[r] = False
            while self.next[r] < len(self.calls[r]) and self.next[r] != self.stop.get(r, -1):
                unfinished = [o for o in open_calls[r] if o.done is None]
                if len(unfinished) >= self.ahead:
                    break
                if len(open_calls[r]) >= self.ahead:
                    free = max(now[r], open_calls[r][-self.ahead].done or 0)
                    self.waited[r] += free - now[r]
                    now[r] = free
                op = self.calls[r][self.next[r]]
                self.next[r] += 1
                now[r] += pace[r] * rnd.uniform(0.5, 1.5)
                op.issued = now[r]
                open_calls[r].append(op)
                group = waiting.setdefault(op.seq, [])
                group.append((r, op))
                ready = [(op, group)]
                while ready:
                    for _, after in self.settle(*ready.pop(), stream, todo, queued):
                        ready.append((after, waiting[after.seq]))
        self.end = max(now)

    @staticmethod
    def settle(op, group, stream, todo, queued):
        """Done when all are in, in the order of each rank's stream; who may be done next."""
        if len(group) < (len(op.team.ranks) if op.kind == "c" else 2) or op.done is not None:
            return []
        if any(o.before and o.before.done is None for _, o in group):
            return []
        if any((o.op, o.numel, o.dtype) != (op.op, op.numel, op.dtype) for _, o in group) and op.kind == "c":
            return []  # NCCL waits for ever
        begin = max(o.issued for _, o in group)
        begin = max([begin] + [stream.get((r, id(op.team)), 0) for r, _ in group])
        for r, o in group:
            o.done = begin + 0.3 * MS
            stream[(r, id(op.team))] = o.done
            if not queued[r]:
                queued[r] = True
                todo.append(r)
        return [(r, o.behind) for r, o in group if o.behind and o.behind.issued is not None]


# --- what the recorders say ------------------------------------------------------------------------------------------------


def dump_of(job, rank, at, clock, ring, version, frames):
    entries, record = [], 0
    for op in job.calls[rank]:
        if op.issued is None or op.issued > at:
            break
        done = op.done is not None and op.done <= at
        started = op.done is not None and op.done - 0.2 * MS <= at
        peer = op.peer
        me = op.team.ranks.index(rank)
        name = "nccl:" + (op.op if op.kind == "c" else f"send {me}->{peer}" if op.kind == "send" else f"recv {me}<-{peer}")
        entries.append({
            "frames": [{"name": "step", "filename": "job.py", "line": 10 + record % 7}] if frames else [],
            "record_id": record, "pg_id": job.teams.index(op.team), "process_group": (op.team.name, op.team.desc),
            "collective_seq_id": op.seqs[0], "p2p_seq_id": op.seqs[1], "op_id": record + 1, "profiling_name": name,
            "time_created_ns": int(EPOCH + op.issued + clock), "input_sizes": [[op.numel]], "input_dtypes": [op.dtype],
            "output_sizes": [[op.numel]], "output_dtypes": [op.dtype],
            "state": "completed" if done else "started" if started else "scheduled",
            "time_discovered_started_ns": int(EPOCH + op.done - 0.2 * MS + clock) if started else None,
            "time_discovered_completed_ns": int(EPOCH + op.done + clock) if done else None,
            "retired": done, "timeout_ms": 600000, "is_p2p": op.kind != "c"})
        record += 1
    config = {t.name: {"name": t.name, "desc": t.desc, "ranks": str(t.ranks)} for t in job.teams if rank in t.ranks}
    return {"version": version, "pg_config": config, "pg_status": {}, "entries": entries[-ring:]}


def write(job, folder, rnd, hung):
    os.makedirs(folder)
    hosts = [rnd.uniform(-3, 3) * MS for _ in range(job.n // 8 + 1)]
    ring = rnd.choice([24, 60, 2000])
    frames, names = rnd.random() < 0.3, rnd.choice(["comm_lib_trace_rank_{r}", "fr_host{h}_{r}", "nccl_trace_rank_{r}"])
    absent = set(job.culprits) if job.kind == "silent_rank" else set()
    if not hung:
        absent = set(rnd.sample(range(job.n), rnd.choice([0, 0, 1, 2])))
    for rank in range(job.n):
        if rank in absent:
            continue
        at = job.end + rnd.uniform(300, 600) * 1000 * MS if hung else rnd.uniform(0.3, 0.9) * job.end * 1.0
        if not hung:
            at = job.when + rnd.uniform(0, job.apart)
        clock = hosts[rank // 8]
        data = pickle.dumps(dump_of(job, rank, at, clock, ring, rnd.choice(["2.4", "2.9", "2.10"]), frames), protocol=2)
        path = os.path.join(folder, names.format(r=rank, h=rank // 8))
        with open(path, "wb") as file:
            file.write(data)
        stamp = int(EPOCH + at + clock + rnd.uniform(1, 20) * MS)
        os.utime(path, ns=(stamp, stamp))


def judge(folder):
    done = subprocess.run([PROGRAM, "hang", folder, "--json"], capture_output=True, text=True, timeout=120, check=False)
    if done.returncode not in (0, 1):
        return {"state": f"exit {done.returncode} {done.stderr[-300:]}", "findings": [{"kind": "error", "where": {}}]}
    return json.loads(done.stdout)


def innocents(job, found):
    """Paces differ up to 15 times here: somebody may well be late all the time. Whoever is, never waits himself."""
    return [f for f in found if f[0] != "slow_rank" or any(job.waited[r] > 0.2 * job.end for r in f[1])]


def main():
    parser = argparse.ArgumentParser()
    for name, value in (("hung", 200), ("healthy", 200), ("max-ranks", 128), ("seed", 77)):
        parser.add_argument("--" + name, type=int, default=value)
    arguments = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="rs-blind-")
    rows, bad, named = {}, [], 0
    for number in range(arguments.hung + arguments.healthy):
        hung = number < arguments.hung
        rnd = random.Random(arguments.seed * 1_000_003 + number)
        sizes = [m for m in (8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024) if m <= arguments.max_ranks]
        trouble = rnd.choice(["stuck", "stuck", "gone", "size", "dtype", "kind"]) if hung else "none"
        job = Job(rnd, rnd.choice(sizes), trouble)
        job.when, job.apart = job.end * rnd.uniform(0.3, 0.9), rnd.choice([0.001, 0.05, 0.3]) * job.end
        path = os.path.join(folder, str(number))
        write(job, path, rnd, hung)
        report = judge(path)
        found = [(f["kind"], f["where"].get("ranks") or [f["where"].get("rank")]) for f in report["findings"]]
        found = [f for f in found if f[0] != "slow_rank"] if hung else found
        good = found[:1] == [(job.kind, job.culprits)] if hung else not innocents(job, found)
        named += not hung and good and bool(found)
        row = rows.setdefault(trouble, [0, 0])
        row[0] += good
        row[1] += 1
        if not good:
            bad.append(f"{number} {trouble} {job.shape.__name__} of {job.n}: {report['state']} {found[:2]}, right is {job.kind} {job.culprits}")
        shutil.rmtree(path)
    shutil.rmtree(folder, ignore_errors=True)
    for trouble, (good, count) in sorted(rows.items()):
        print(f"  {trouble:6} {good:4} of {count}")
    print("\n".join(bad[:20]))
    right = sum(g for t, (g, _) in rows.items() if t != "none")
    accused = rows.get("none", [0, 0])[1] - rows.get("none", [0, 0])[0]
    print(f"hung: {right} of {arguments.hung}; healthy: {accused} of {arguments.healthy} accuse an innocent, {named} name who is always late")
    sys.exit(accused > 0 or right < 0.98 * arguments.hung)


if __name__ == "__main__":
    main()
