#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Is the culprit of a hung job found, and is nobody accused in a healthy one? Jobs by mkflight, judged by `rankscope hang`.

    RANKSCOPE=build/release/rankscope tests/bench/hang.py [--hung 500] [--healthy 500] [--max-ranks 64] [--seed 1] [--table]

Prints a row per plant: right of all; then every job that was wrong with the command that makes it again. Exit 1 when
top-1 is below 98 %, or anybody was accused in a healthy job, or a row of the table is wrong.
"""
import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import mkflight  # noqa: E402

PROGRAM = os.path.abspath(os.environ.get("RANKSCOPE", "build/dev/rankscope"))


def judge(folder, *options):
    done = subprocess.run([PROGRAM, "hang", folder, "--json", *options], capture_output=True, text=True, timeout=120, check=False)
    if done.returncode not in (0, 1):
        return {"state": f"exit {done.returncode}: {done.stderr.strip()[-300:]}", "findings": []}
    return json.loads(done.stdout)


def ranks_of(finding):
    where = finding["where"]
    return where.get("ranks") or ([where["rank"]] if "rank" in where else [])


def shape(rnd, max_ranks):
    """dp x tp x pp of 8 to max_ranks ranks."""
    while True:
        tp, pp = rnd.choice([1, 1, 2, 4, 8]), rnd.choice([1, 1, 2, 4, 8])
        dp = rnd.choice([1, 2, 3, 4, 8, 16, 64, 128])
        if 8 <= dp * tp * pp <= max_ranks:
            return dp * tp * pp, tp, pp


def common(rnd, seed, max_ranks):
    ranks, tp, pp = shape(rnd, max_ranks)
    spec = {"seed": seed, "ranks": ranks, "tp": tp, "pp": pp, "layers": rnd.choice([1, 2, 3]), "micro": rnd.choice([1, 2]),
            "skew_ns": rnd.choice([0, 0, 200_000, 5_000_000]), "names": rnd.choice(["default", "host", "old"]),
            "mixed": rnd.random() < 0.3, "frames": rnd.random() < 0.3, "starts": rnd.random() < 0.3,
            "status": rnd.random() < 0.7, "ahead": rnd.choice([1, 1, 3]), "steps": rnd.randint(5, 30)}
    if rnd.random() < 0.6:  # wrapped
        spec["ring"] = rnd.randint(20, 60)
    if ranks <= 32 and rnd.random() < 0.1:
        spec["form"] = "json"
    return spec


def hung_spec(rnd, seed, max_ranks):
    spec = common(rnd, seed, max_ranks)
    spec["plant"] = rnd.choice(["absent", "absent", "absent", "silent", "silent", "size", "kind", "type", "order", "skip"])
    if spec["plant"] in ("absent", "silent", "skip") and rnd.random() < 0.3:
        spec["missing"] = 1 if spec["plant"] == "absent" else 0
    if spec["plant"] == "absent" and rnd.random() < 0.2:
        spec["truncated"] = 1
    spec["timed_out"] = rnd.random() < 0.5
    if spec["plant"] == "order":
        spec["ahead"] = 1
    return spec


def healthy_spec(rnd, seed, max_ranks):
    spec = common(rnd, seed, max_ranks)
    spec["plant"] = "none"
    spec["missing"] = rnd.choice([0, 0, 1, 2])
    spec["truncated"] = rnd.choice([0, 0, 1])
    return spec


def is_right(spec, truth, report):
    findings = [f for f in report["findings"]]
    if spec["plant"] == "none":
        return not findings
    if not findings:
        return False
    named, kind = ranks_of(findings[0]), findings[0]["kind"]
    if spec["plant"] == "order":
        return kind in ("deadlock", "mismatch") and truth["bad"] in named
    return named == truth["culprits"]


def run_set(name, count, make_spec, arguments, folder):
    rnd = random.Random(arguments.seed)
    rows, wrong = {}, []
    for i in range(count):
        spec = make_spec(rnd, arguments.seed * 100_000 + i, arguments.max_ranks)
        job = mkflight.make(spec)
        path = os.path.join(folder, f"{name}{i}")
        mkflight.write(job, path)
        truth = dict(job.truth, bad=job.bad)
        report = judge(path)
        good = is_right(spec, truth, report)
        row = rows.setdefault(spec["plant"], [0, 0])
        row[0] += good
        row[1] += 1
        if not good:
            wrong.append((spec, truth, report["state"], [(f["kind"], f["where"]) for f in report["findings"]][:3]))
        shutil.rmtree(path)
    return rows, wrong


def print_set(name, rows, wrong):
    right, total = sum(r[0] for r in rows.values()), sum(r[1] for r in rows.values())
    print(f"{name}: {right} of {total} right ({100 * right / max(total, 1):.1f} %)")
    for plant, (good, all_) in sorted(rows.items()):
        print(f"  {plant:8} {good:4} of {all_}")
    for spec, truth, state, found in wrong[:12]:
        print(f"  wrong: {json.dumps(spec)}\n    truth {truth}\n    state {state} found {found}")
    return right, total


# --- the table of the reference: the cases on which torchfrtrace accuses the innocent, or nobody ------------------------

def uneven(seed, plant, **more):
    """3,000 steps, a ring of 2,000, odd ranks issue three calls a step, even ones two."""
    class Job(mkflight.Job):
        def __init__(self, spec):
            super().__init__(spec)
            self.odd = mkflight.Group("1", "odd", [r for r in range(self.n) if r % 2])

        def program(self, rank, step):
            calls = [mkflight.Call(self.world, "all_reduce", 64)]
            if rank % 2:
                calls.append(mkflight.Call(self.odd, "all_reduce", 32))
            calls.append(mkflight.Call(self.world, "all_reduce", 16))
            return calls

        def plan(self):
            super().plan()
            self.bad = 3
            if plant == "absent":
                self.truth["culprits"] = [3]
                self.stop_at = len(self.program(3, 0)) - 1
    return Job(dict({"seed": seed, "ranks": 4, "steps": 3000, "ring": 2000, "plant": plant, "version": "2.10"}, **more)).run()


def simple(plant, bad, **more):
    class Job(mkflight.Job):
        def program(self, rank, step):
            return [mkflight.Call(self.world, "all_reduce", 64)]

        def plan(self):
            super().plan()
            self.bad, self.stop_at = bad, 0
            if plant not in ("none",):
                self.truth["culprits"] = [bad]
            self.truth["silent"] = [bad] if plant == "silent" else []
    return Job(dict({"seed": 5, "ranks": 4, "steps": 200, "ring": 2000, "plant": plant, "version": "2.10"}, **more)).run()


def table(folder):
    cases = [
        ("rank 3 does not join the last all_reduce, ring not wrapped", simple("absent", 3), [3], "hang"),
        ("the same after 3,000 steps, ring of 2,000, uneven rates", uneven(7, "absent"), [3], "hang"),
        ("the same job, healthy", uneven(8, "none"), [], None),
        ("rank 0 issues another size than 1-3", simple("size", 0), [0], "mismatch"),
        ("rank 3 late by 0.4 ms in every op", simple("late", 3, late_ns=400_000), [3], "slow_rank"),
        ("dump of rank 3 missing", simple("silent", 3), [3], "silent_rank"),
        ("host name in the file names", simple("absent", 3, names="host"), [3], "hang"),
        ("send to group rank 0 that nobody receives", p2p_to_zero(), [0], "hang"),
    ]
    failures = 0
    for name, job, want, kind in cases:
        path = os.path.join(folder, "table")
        mkflight.write(job, path)
        report = judge(path)
        found = [(f["kind"], ranks_of(f)) for f in report["findings"]]
        good = found == ([(kind, want)] if want else [])
        failures += not good
        print(f"  {'right' if good else 'WRONG'}  {name}: {found or 'nobody'}")
        shutil.rmtree(path)
    return failures


def p2p_to_zero():
    class Job(mkflight.Job):
        def program(self, rank, step):
            stage = self.pp_of[rank].ranks.index(rank)
            mine = self.pp_of[rank]
            return [mkflight.Call(mine, "recv" if stage == 0 else "send", 64, peer=mine.ranks[1 - stage])]

        def plan(self):
            super().plan()
            self.bad, self.stop_at = 0, 0
            self.truth["culprits"] = [0]
    return Job({"seed": 3, "ranks": 4, "tp": 1, "pp": 2, "steps": 50, "ring": 2000, "plant": "absent", "version": "2.10"}).run()


def main():
    parser = argparse.ArgumentParser()
    for name, value in (("hung", 500), ("healthy", 500), ("max-ranks", 64), ("seed", 1)):
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--table", action="store_true", help="only the table")
    arguments = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="rs-hang-")
    bad = False
    try:
        print("table of cases:")
        bad = table(folder) > 0
        if not arguments.table:
            right, total = print_set("hung jobs, culprit first", *run_set("hung", arguments.hung, hung_spec, arguments, folder))
            bad = bad or right < 0.98 * total
            right, total = print_set("healthy jobs, nobody named",
                                     *run_set("healthy", arguments.healthy, healthy_spec, arguments, folder))
            bad = bad or right < total
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    sys.exit(bad)


if __name__ == "__main__":
    main()
