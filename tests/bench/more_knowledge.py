#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""More knowledge never loses a name: simulated jobs as Kineto files, read with more and with less in them.

    more_knowledge.py [--build build/release] [--n 100] [--seed 6000000] [--kinds rank-1.3,stall-3ms,...]

Each job (bench_culprits, one of the kinds in turn) is written with all it knows, then read again without its hosts' names, without the sizes
of messages, without either, and with its clocks assumed to be one; also with the roles of its groups, which are told as Megatron tells them (as
the description of a group). Compared is who is named first, above `weak`.

same     the same first name as with all that is known (or nobody, both times)
silent   nobody, though with more somebody was named: allowed, less was known
lost     with less somebody was named, with more nobody
other    another first name
Exit 1 where one is lost or another.
"""
import argparse
import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
KINDS = "rank-1.2,rank-1.5,stall-3ms,stall-every-3,stage-1.5,p2p-x10,dp-ring-x6,two-in-stage,host,clean"
COMMON = ("imbalance", "jitter")
HOST = re.compile(r' "host_name": "[^"]*",')
SIZES = re.compile(r'"(In|Out) msg nelems": \d+, |"dtype": "[^"]*", ')
GROUP = re.compile(r'"Process Group Description": "undefined", "Process Group Ranks": "\[([^"]*)\]"')


def told(match):
    ranks = [int(word) for word in match[1].split(",") if word.strip()]
    is_row = ranks == list(range(ranks[0], ranks[0] + len(ranks))) if ranks else False
    role = "TENSOR_MODEL_PARALLEL_GROUP" if is_row else "DATA_PARALLEL_GROUP"
    return f'"Process Group Description": "{role}", "Process Group Ranks": "[{match[1]}]"'


# What of the text becomes what, the options, and whether the job is known better then.
VARIANTS = {
    "without host names": ([(HOST, "")], [], False),
    "without message sizes": ([(SIZES, "")], [], False),
    "without either": ([(HOST, ""), (SIZES, "")], [], False),
    "one clock assumed": ([], ["--assume-common-clock"], True),
    "roles of groups told": ([(GROUP, told)], [], True),
}


def first_name(build, folder, options):
    with tempfile.TemporaryDirectory() as out:
        done = subprocess.run([build / "rankscope", "analyse", folder, "-o", os.path.join(out, "o"), "--quiet", *options],
                              capture_output=True, text=True, check=False)
        if done.returncode not in (0, 1):
            sys.exit(f"more_knowledge: {folder}: {done.stderr}")
        report = json.loads(pathlib.Path(out, "o", "report.json").read_text())
    for finding in report["findings"]:
        if finding["confidence"] != "weak" and finding["kind"] not in COMMON:
            return ranks_of(finding)
    return None


def ranks_of(finding):
    """The place as ranks: a whole host and the stage on it are the same ranks under two names."""
    ranks = set()
    for where in [finding["where"], *finding["also"]]:
        for key, value in where.items():
            ranks |= {value} if key == "rank" else set(value) if key in ("ranks", "pair") else set()
            ranks |= set(value.values()) if key == "link" else set()
    is_link = finding["kind"] in ("slow_link", "slow_group")
    return (is_link, tuple(sorted(ranks)) or json.dumps(finding["where"], sort_keys=True))


def change(folder, into, changes):
    for path in pathlib.Path(folder).iterdir():
        text = path.read_text()
        for pattern, by in changes:
            text, count = pattern.subn(by, text)
            if count == 0 and by is told and "Process Group Ranks" in text:
                sys.exit(f"more_knowledge: no group of {path} has a role to tell")
        (pathlib.Path(into) / path.name).write_text(text)


def main():
    words = argparse.ArgumentParser()
    words.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    words.add_argument("--n", type=int, default=100)
    words.add_argument("--seed", type=int, default=6000000)
    words.add_argument("--kinds", default=KINDS)
    arguments = words.parse_args()
    kinds = arguments.kinds.split(",")
    table, bad = collections.defaultdict(collections.Counter), 0
    named = 0
    for number in range(arguments.n):
        kind = kinds[number % len(kinds)]
        with tempfile.TemporaryDirectory() as scratch:
            done = subprocess.run([arguments.build / "bench_culprits", kind, str(arguments.seed + 97 * number), "1", "--traces", scratch],
                                  capture_output=True, text=True, check=True)
            job = json.loads(done.stdout)
            full = first_name(arguments.build, job["folder"], [])
            named += full is not None
            for name, (changes, options, is_more) in VARIANTS.items():
                folder = job["folder"]
                if changes:
                    folder = os.path.join(scratch, "changed")
                    shutil.rmtree(folder, ignore_errors=True)
                    os.mkdir(folder)
                    change(job["folder"], folder, changes)
                other = first_name(arguments.build, folder, options)
                more, less = (other, full) if is_more else (full, other)
                verdict = "same" if more == less else "silent" if less is None else "lost" if more is None else "other"
                table[name][verdict] += 1
                if verdict in ("lost", "other"):
                    bad += 1
                    print(f"  {verdict}: {kind} seed {job['seed']} hosts {job['hosts']} {name}: {more} with more, {less} with less", flush=True)
    print(f"{arguments.n} jobs, {named} with a name")
    for name, verdicts in table.items():
        print(f"{name:24} same {verdicts['same']:4} silent {verdicts['silent']:4} lost {verdicts['lost']:3} other {verdicts['other']:3}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
