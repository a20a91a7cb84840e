#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two aggregators on one ClickHouse, collectors that know both, and one of the two killed at a random moment of each capture.

    tests/e2e/aggregators_kills.py [--kills 20] [--world 64] [--steps 40] [--seed N] [--hosts]

Each capture is held against one that nothing happened to (as many collectives, operations, ranks and steps), and what it finds against what
the data folder of the one aggregator that has it says without any database (rankscope report DIR).
Requests to the database go through a proxy that cuts some connections when the whole request was sent and nothing of the answer came.
A line for each kill, then a sum; exit 1 when a capture is not as it should be. A quarter of an hour for 20: not part of the tests' suite,
whose test_aggregators_move.py has the same in small.

--hosts (as root): each collector and its ranks are in a network namespace with a host name of its own, and mutual TLS is spoken over the links between
them and the aggregators: node certificates for collectors, one of an aggregator's kind for each aggregator, an operator's for the command line.
Without it, all are processes of one host with sockets of the file system.
"""
import argparse
import csv
import functools
import io
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

from rig_clickhouse import LACKS, Cutter, Server, found
from rig_native import NATIVE_ONLY, PROGRAM, RANKS, Rig
from test_aggregators import Aggregator, wait_until

NODES = 2
SERVERS, NET = "10.77.0.1", "10.77.{}.{}"  # the aggregators' address; the two ends of a node's link
operator = []  # words that every question has besides


def call(address, *words):
    return subprocess.run([PROGRAM, *words, *operator, "--connect", address], capture_output=True, text=True, check=False, timeout=120)


def ask(address, *words):
    done = call(address, *words, "--json")
    try:
        return json.loads(done.stdout)
    except json.JSONDecodeError:
        return {}


def ip(*words):
    subprocess.run(["ip", *words], check=True)


def alone_in_a_network():
    """This program again in a network namespace of its own, where it is host 0; nothing of this machine's network is touched."""
    os.environ["RANKSCOPE_KILLS_NETWORK"] = "1"
    os.execvp("unshare", ["unshare", "--net", sys.executable, *sys.argv])


class Network:
    """A namespace for each node, joined to ours by a link."""

    def __init__(self):
        self.names = [f"rs-kills-{os.getpid()}-{node}" for node in range(1, NODES + 1)]
        ip("link", "set", "lo", "up")
        ip("addr", "add", SERVERS + "/32", "dev", "lo")
        for node, name in enumerate(self.names, 1):
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
            ip("link", "add", f"to{node}", "type", "veth", "peer", "name", "eth0", "netns", name)
            ip("addr", "add", NET.format(node, 1) + "/24", "dev", f"to{node}")
            ip("link", "set", f"to{node}", "up")
            ip("-n", name, "addr", "add", NET.format(node, 2) + "/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
            ip("-n", name, "route", "add", "default", "via", NET.format(node, 1))

    def on(self, node, *words):
        name = self.names[node]
        return ["ip", "netns", "exec", name, "unshare", "--uts", "sh", "-c", 'hostname "$0"; exec "$@"', f"gpu-{node}", *words]

    def close(self):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], check=False)


class HostsRig(Rig):
    """Whose collectors and ranks are on hosts of their own. The job is a program a node, and all begin at once."""

    def __init__(self, network, certs, **words):
        super().__init__(**words)
        self.network, self.certs, self.jobs = network, certs, []

    def start_collector(self, node, *words):
        self.collectors[node] = self._spawn(
            f"collector{node}",
            self.network.on(node, PROGRAM, "collector", "--certs", f"{self.certs}/gpu-{node}", "-v", "--spool", os.path.join(self.folder, f"spool{node}"),
                            "--socket", os.path.join(self.folder, f"c{node}"), *self.collector_words, *words))

    def start_ranks(self):
        share, t0 = self.world // self.nodes, time.monotonic_ns() + 4 * 10**9
        for node in range(self.nodes):
            self.jobs.append(self._spawn(
                f"ranks{node}",
                self.network.on(node, RANKS, "--socket", os.path.join(self.folder, "c"), "--sockets", str(self.nodes), "--world", str(self.world), "--first",
                                str(node * share), "--count", str(share), "--step-ms", str(self.step_ms), "--run", self.run, "--t0-ns", str(t0),
                                *self.rank_words), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL))

    def __exit__(self, kind, value, trace):
        for job in self.jobs:
            job.stdin.close()
            job.wait()
        super().__exit__(kind, value, trace)


def certificates(folder):
    """An authority in the first aggregator's data folder, and what it signs for the others. Prints nothing."""
    data = os.path.join(folder, "a", "data")
    for words in (("init", "--host", SERVERS), ("issue", "aggregator", "b", "--host", SERVERS, "--out", f"{folder}/certs/b"),
                  ("issue", "operator", "kills", "--out", f"{folder}/certs/operator"),
                  *(("issue", "node", f"gpu-{node}", "--out", f"{folder}/certs/gpu-{node}") for node in range(NODES))):
        subprocess.run([PROGRAM, "certs", *words, "--data", data], check=True, stdout=subprocess.DEVNULL)
    operator.extend(("--certs", f"{folder}/certs/operator"))


class Rounds:
    def __init__(self, options):
        self.options, self.rng = options, random.Random(options.seed)
        self.folder = tempfile.mkdtemp(prefix="rs-kills-")
        self.network = Network() if options.hosts else None
        self.server = Server(self.folder)
        self.cutter = Cutter(self.server.plain, 0.03)
        words = self.server.words("kills", f"clickhouse+http://profiler@127.0.0.1:{self.cutter.own_port}")
        rig_kind = Rig
        if options.hosts:
            certificates(self.folder)
            rig_kind = functools.partial(HostsRig, self.network, self.folder + "/certs")
            self.both = [Aggregator(self.folder, "a", words, SERVERS + ":7070"),
                         Aggregator(self.folder, "b", [*words, "--certs", self.folder + "/certs/b"], SERVERS + ":7071")]
        else:
            self.both = [Aggregator(self.folder, name, words) for name in ("a", "b")]
        # The rig's own aggregator is not started: its collectors know ours.
        self.rig = rig_kind(world=options.world, nodes=NODES, step_ms=options.step_ms, run="kills",
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
        command = subprocess.Popen([PROGRAM, "capture", "--steps", str(self.options.steps), "--no-report", *operator, "--connect", one.address],
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
            if self.network:
                self.network.close()
            if is_good:
                shutil.rmtree(self.folder)
            else:
                print("kept:", self.folder, file=sys.stderr)
        return is_good


def main():
    parser = argparse.ArgumentParser()
    for name, value in (("kills", 20), ("world", 64), ("steps", 40), ("step-ms", 200), ("seed", 20261128)):
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--hosts", action="store_true", help="network namespaces as hosts, with mutual TLS")
    options = parser.parse_args()
    if options.hosts and "RANKSCOPE_KILLS_NETWORK" not in os.environ:
        alone_in_a_network()
    if not found():
        print("aggregators_kills: " + LACKS)
        return 77
    os.environ.setdefault("RANKSCOPE", PROGRAM)
    return 0 if Rounds(options).run() else 1


if __name__ == "__main__":
    sys.exit(main())
