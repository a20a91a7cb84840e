#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The demo's troubles, many times each, also of two ranks of one stage and of a whole stage: acceptance of the diagnosis on native jobs.

    demo_troubles.py [--build build/release] [--times 20] [--kinds stall,two,...] [--seed 1] [--keep DIR]

Each run is deploy/demo.sh (8 processes, 4 data parallel copies of 2 stages) with trouble at a place that is drawn. right: all that was
planted is named above `weak`, and nobody else; not worth: it is listed as not worth fixing (other waiting hides it), and nobody else is named;
silent: nobody is named; wrong: somebody innocent is. Prints what was said of each run that is not right. --keep: every report.json.
Exit 1 where somebody innocent was named.
"""
import argparse
import collections
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMON = ("imbalance", "jitter")
STAGES = ([0, 1, 2, 3], [4, 5, 6, 7])


def links(build):
    listed = subprocess.run([build / "minitrain", "--dp", "4", "--pp", "2", "--links"], check=True, stdout=subprocess.PIPE, text=True).stdout
    return [word for word in listed.split() if word.count("-") == 1 and word.replace("-", "").isdigit()]


def draw(kind, rng, build):
    """(flags, ranks that are meant, link that is meant)"""
    if kind == "nothing":
        return [], set(), None
    if kind == "link":
        link = rng.choice(links(build))
        return ["--slow-link", f"{link}:25"], set(map(int, link.split("-"))), link
    if kind == "stall":
        rank = rng.randrange(8)
        return ["--data-stall", f"{rank}:60"], {rank}, None
    stage = rng.choice(STAGES)
    ranks = rng.sample(stage, {"rank": 1, "two": 2, "stage": 4}[kind])
    return [word for rank in ranks for word in ("--slow-rank", f"{rank}:2.0")], set(ranks), None


def demo(build, flags):
    with tempfile.TemporaryDirectory() as out:
        env = dict(os.environ, RANKSCOPE_DEMO_BUILD=str(build), RANKSCOPE_DEMO_OUT=out)
        done = subprocess.run([ROOT / "deploy/demo.sh", *flags], env=env, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=300, check=False)
        path = pathlib.Path(out) / "report.json"
        return json.loads(path.read_text()) if done.returncode == 0 else done.stdout[-400:]


def ranks_of(where):
    ranks = set()
    for key, value in where.items():
        ranks |= {value} if key == "rank" else set(value) if key in ("ranks", "pair") else set()
        ranks |= set(value.values()) if key == "link" else set(STAGES[value]) if key == "stage" else set()
        ranks |= set().union(*map(ranks_of, value)) if key == "all" else set()
    return ranks


def judge(report, ranks, link):
    named = [f for f in report["findings"] if f["confidence"] != "weak" and f["kind"] not in COMMON]
    said = set().union(*[ranks_of(f["where"]) for f in named], set())
    is_link = ("slow_link", "slow_group")
    if any(not ranks_of(f["where"]) <= ranks or (f["kind"] in is_link) != (link is not None) for f in named):
        return "wrong"
    if said == ranks:
        return "right"
    if not named and any(ranks_of(f["where"]) == ranks for f in report["not_worth_fixing"]):
        return "not worth"
    return "part" if named else "silent"


def describe(report):
    def one(finding):
        return (f"{finding['kind']} {sorted(ranks_of(finding['where']))} {finding['cost_ns_per_step'] / 1e6:.2f} ms {100 * finding['share']:.1f} % "
                f"{finding['confidence']} x{finding['test']['factor']} p {finding['test']['p']:.2g}")
    return (f"step {report['loss']['step_ns'] / 1e6:.0f} ms, unexplained {report['replay']['unexplained_share']:.3f}: "
            + ("; ".join(map(one, report["findings"])) or "nobody")
            + " | not worth: " + "; ".join(map(one, report["not_worth_fixing"])))


def main():
    words = argparse.ArgumentParser()
    words.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    words.add_argument("--times", type=int, default=20)
    words.add_argument("--kinds", default="nothing,rank,stall,link,two,stage")
    words.add_argument("--seed", type=int, default=1)
    words.add_argument("--keep", type=pathlib.Path)
    arguments = words.parse_args()
    build = arguments.build.resolve()
    wrong = 0
    for kind in arguments.kinds.split(","):
        verdicts, lines = collections.Counter(), []
        for number in range(arguments.times):
            flags, ranks, link = draw(kind, random.Random(f"{kind} {arguments.seed} {number}"), build)
            report = demo(build, flags)
            if isinstance(report, str):
                verdicts["failed"] += 1
                lines.append(f"  failed: {' '.join(flags)}: {report}")
                continue
            if arguments.keep:
                arguments.keep.mkdir(parents=True, exist_ok=True)
                (arguments.keep / f"{kind}-{arguments.seed}-{number}.json").write_text(json.dumps(report))
            verdict = judge(report, ranks, link)
            verdicts[verdict] += 1
            if verdict != "right":
                lines.append(f"  {verdict}: {' '.join(flags)}: {describe(report)}")
        wrong += verdicts["wrong"]
        print(f"{kind:8} {dict(verdicts)}", *lines, sep="\n", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
