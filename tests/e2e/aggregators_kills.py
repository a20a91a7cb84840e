#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two aggregators on one ClickHouse, collectors that know both, and one of the two killed at a random moment of each capture.

    tests/e2e/aggregators_kills.py [--kills 20] [--world 64] [--steps 40] [--seed N]

Each capture is held against one that nothing happened to (as many collectives, operations, ranks and steps), and what it finds against what
the data folder of the one aggregator that has it says without any database (rankscope report DIR).
Requests to the database go through a proxy that cuts some connections when the whole request was sent and nothing of the answer came.
A line for each kill, then a sum; exit 1 when a capture is not as it should be. A quarter of an hour for 20: not part of the tests' suite,
whose test_aggregators_move.py has the same in small.
"""
import argparse
import csv
import io
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

from rig_clickhouse import Cutter, Server, found
from rig_native import NATIVE_ONLY, PROGRAM, Rig
from test_aggregators import Aggregator, wait_until

NODES = 2


def call(address, *words):
    return subprocess.run([PROGRAM, *words, "--connect", address], capture_output=True, text=True, check=False, timeout=120)


def ask(address, *words):
    done = call(address, *words, "--json")
    try:
        return json.loads(done.stdout)
    except json.JSONDecodeError:
        return {}


class Rounds:
    def __init__(self, options):
        self.options, self.rng = options, random.Random(options.seed)
        self.folder = tempfile.mkdtemp(prefix="rs-kills-")
        self.server = Server(self.folder)
        self.cutter = Cutter(self.server.plain, 0.03)
        words = self.server.words("kills", f"clickhouse+http://profiler@127.0.0.1:{self.cutter.own_port}")
        self.both = [Aggregator(self.folder, name, words) for name in ("a", "b")]
        # The rig's own aggregator is not started: its collectors know ours.
        self.rig = Rig(world=options.world, nodes=NODES, step_ms=options.step_ms, run="kills",
                       rank_words=["--slow-rank", "2", "--seconds", "100000"],
                       collector_words=[*NATIVE_ONLY, "--connect", ",".join(one.address for one in self.both)])
        self.rig.start_aggregator = lambda: None

    def living(self):
        return [one for one in self.both if one.process.poll() is None]

    def home(self):
        """The aggregator that has all ranks, when they step."""
        def who():
            for one in self.living():
                ranks = ask(one.address, "ranks").get("ranks", [])
                if sum(r["state"] != "gone" and (r["step"] or 0) >= 2 for r in ranks) == self.options.world:
                    return one
            return None
        return wait_until("all ranks at one aggregator", who, 180)

    def counts(self, address, name):
        """What a capture comes to, as reads of the database tell it."""
        return {read: len(list(csv.DictReader(io.StringIO(call(address, "table", name, read).stdout))))
                for read in ("collectives", "op", "rank_steps", "step_breakdown")}

    def found(self, address, name):
        """Findings and their costs, as the database has them."""
        select = "SELECT finding_no, kind, cost_ns_per_step FROM finding ORDER BY finding_no"
        return [row[1:] for row in ask(address, "query", name, select).get("rows", [])]

    def found_alone(self, one, name):
        """The same without a database, from the folder of who has the capture."""
        done = subprocess.run([PROGRAM, "report", os.path.join(one.data, "captures", name), "--json"], capture_output=True, text=True, check=False)
        report = json.loads(done.stdout)
        return [[finding["kind"], finding["cost_ns_per_step"]] for finding in report["findings"] + report["not_worth_fixing"]]

    def begin(self):
        one = self.home()
        before = {c["id"] for c in ask(one.address, "capture", "list").get("captures", [])}
        command = subprocess.Popen([PROGRAM, "capture", "--steps", str(self.options.steps), "--no-report", "--connect", one.address],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        def begun():
            fresh = [c for c in ask(one.address, "capture", "list").get("captures", []) if c["id"] not in before]
            return fresh and fresh[0]["state"] not in ("preparing", "arming") and fresh[0]["id"]
        return one, command, wait_until("a capture", begun, 60)

    def end(self, name):
        """Closed, with its rows, as any that lives tells it; and how that is told."""
        def over():
            for one in self.living():
                shown = ask(one.address, "capture", "show", name)
                if shown.get("closed_ns") and shown.get("rows", "").startswith("in clickhouse") and not shown.get("given_up_to"):
                    return one, shown
            return None
        return wait_until("the end of " + name, over, 240)

    def round(self, number, reference):
        owner, command, name = self.begin()
        victim = self.rng.choice(self.both)
        after, away = self.rng.uniform(0, self.options.steps * self.options.step_ms / 1000 + 3), self.rng.choice((1, 4, 22, 22))
        self.cutter.left += 3
        time.sleep(after)
        victim.kill()
        time.sleep(away)
        victim.start()
        command.wait()
        one, shown = self.end(name)
        got = [self.counts(each.address, name) for each in self.both]
        has = next((each for each in self.both if each.id() == shown.get("aggregator")), one)
        alone, findings = self.found_alone(has, name), [self.found(each.address, name) for each in self.both]
        is_same = shown["state"] == "complete" and all(each == reference for each in got) and all(each == alone for each in findings)
        whose = "owner" if victim is owner else "other"
        print(f"{number:2} {name} killed {'ab'[self.both.index(victim)]} ({whose}) after {after:4.1f} s for {away:2} s: {shown['state']}"
              f"{', taken over' if shown.get('taken_from') else ''}{'' if is_same else ' NOT THE SAME: ' + str((shown['reason'], got, findings, alone))}", flush=True)
        return is_same, shown["state"], bool(shown.get("taken_from"))

    def run(self):
        is_good = False
        try:
            with self.rig:
                _, command, name = self.begin()
                command.wait()
                _, shown = self.end(name)
                reference = self.counts(self.both[0].address, name)
                print("without a kill:", shown["state"], reference, flush=True)
                rounds = [self.round(i + 1, reference) for i in range(self.options.kills)]
                same, states = sum(r[0] for r in rounds), [r[1] for r in rounds]
                print(f"{len(rounds)} kills: {same} the same, {states.count('complete')} complete, {sum(r[2] for r in rounds)} taken over; "
                      f"{self.cutter.cuts} connections to the database cut")
                is_good = same == len(rounds)
        finally:
            for one in self.living():
                one.end()
            self.server.close()
            if is_good:
                shutil.rmtree(self.folder)
            else:
                print("kept:", self.folder, file=sys.stderr)
        return is_good


def main():
    parser = argparse.ArgumentParser()
    for name, value in (("kills", 20), ("world", 64), ("steps", 40), ("step-ms", 200), ("seed", 20261128)):
        parser.add_argument("--" + name, type=int, default=value)
    options = parser.parse_args()
    if not found():
        print("aggregators_kills: no clickhouse-server here (apt-get install clickhouse-server)")
        return 77
    os.environ.setdefault("RANKSCOPE", PROGRAM)
    return 0 if Rounds(options).run() else 1


if __name__ == "__main__":
    sys.exit(main())
