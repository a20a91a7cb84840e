#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Captures of processes that keep to the profiler's rules (kineto_client.py), where no PyTorch is.

Good ranks record together, by steps and by the clock, all and two of them; a launcher and a helper that inherited a rank
are no ranks; a rank that dies, is unresponsive, busy, or comes to another multiple of the round-up is named with the reason, the
others finish, and the exit code is 1; captures can follow one another at once; another daemon on the socket is named.
A collector killed in the middle: test_kineto_restart.py; doctor: test_doctor.py.
"""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

PROGRAM = os.path.abspath(os.environ["RANKSCOPE"])
CLIENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "kineto_client.py")


def check(is_right, what):
    if not is_right:
        raise SystemExit("FAILED: " + what)


class Rig:
    def __init__(self, folder):
        self.folder = folder
        self.sockets = os.path.join(folder, "sockets")
        self.traces = os.path.join(folder, "traces")
        os.mkdir(self.sockets)
        self.address = "unix:" + os.path.join(folder, "a.sock")
        self.environment = dict(os.environ, RANKSCOPE_RUNTIME_DIR=folder)
        for name in ("RANK", "WORLD_SIZE", "KINETO_USE_DAEMON", "RANKSCOPE_RUN"):
            self.environment.pop(name, None)
        self.aggregator = subprocess.Popen(
            [PROGRAM, "aggregator", "--listen", self.address, "--data", os.path.join(folder, "data")],
            stdout=subprocess.PIPE, env=self.environment)
        check(b"listening" in self.aggregator.stdout.readline(), "the aggregator did not start")
        self.clients = []
        self.start_collector()

    def collector_words(self, spool="spool"):
        return [PROGRAM, "collector", "--connect", self.address, "--spool", os.path.join(self.folder, spool), "--kineto",
                "--kineto-socket-dir", self.sockets, "--trace-dir", self.traces, "--no-native"]

    def start_collector(self):
        self.collector = subprocess.Popen(self.collector_words(), env=self.environment)
        until = time.monotonic() + 10
        while not os.path.exists(os.path.join(self.sockets, "dynolog")) and time.monotonic() < until:
            time.sleep(0.02)

    def start_client(self, run, rank, world, *options):
        environment = dict(self.environment, KINETO_USE_DAEMON="1", KINETO_IPC_SOCKET_DIR=self.sockets, RANKSCOPE_RUN=run)
        if rank is not None:
            environment.update(RANK=str(rank), WORLD_SIZE=str(world), LOCAL_RANK=str(rank))
        self.clients.append(subprocess.Popen([sys.executable, CLIENT, *options], env=environment))
        return self.clients[-1]

    def ask(self, *words, codes=(0,)):
        done = subprocess.run([PROGRAM, words[0], "--connect", self.address, *words[1:]], capture_output=True, text=True,
                              timeout=120, check=False, env=self.environment)
        check(done.returncode in codes, f"rankscope {' '.join(words)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def capture(self, run, *words, code=0):
        """The facts of a capture, by rank."""
        done = self.ask("capture", "--run", run, *words, "--no-report", "--json", codes=(code,))
        if not done.stdout:
            return {}, done.stderr
        facts = json.loads(done.stdout)
        return {rank["rank"]: rank for rank in facts["ranks"]}, facts

    def end_clients(self):
        for client in self.clients:
            if client.poll() is None:
                client.kill()
            client.wait()
        self.clients = []

    def stop(self):
        self.end_clients()
        for process in (self.collector, self.aggregator):
            process.send_signal(signal.SIGTERM)
            process.wait(120)


def good_ranks(rig):
    for rank in range(4):
        rig.start_client("good", rank, 4, *(("--helper",) if rank == 0 else ()))
    rig.start_client("good", None, 0)  # a launcher
    rig.ask("ranks", "--run", "good", "--wait", "4", "-q")
    time.sleep(1)
    table = json.loads(rig.ask("ranks", "--run", "good", "--json").stdout)["ranks"]
    check([(r["rank"], r["world"], r["kind"], r["state"], r["step"]) for r in table]
          == [(k, 4, "kineto", "idle", None) for k in range(4)], f"not the table: {table}")
    for words, wanted in ((("--steps", "3"), 4), (("--steps", "2", "--ranks", "1,3"), 2), (("--duration", "200ms"), 4)):
        out = os.path.join(rig.folder, f"out{wanted}{words[0]}")
        rig.ask("capture", "--run", "good", *words, "-o", out)
        with open(os.path.join(out, "report.json"), encoding="utf-8") as file:
            coverage = json.load(file)["coverage"]
        check(coverage["ranks_seen"] == wanted, f"{words}: {coverage}")
        with open(os.path.join(out, "manifest.json"), encoding="utf-8") as file:
            hosts = {row["host"] for row in json.load(file)["inputs"]}
        check(hosts == {table[0]["host"]}, f"{words}: recorded on {hosts}")  # hosts are clock domains
        if words[0] == "--steps":
            check(coverage["steps"] == int(words[1]), f"{words}: {coverage}")
        # The profiler is switched on in the first step and off in the last: they are marked, and out of the means of a
        # rank that has others.
        edges = coverage["inflated_steps"]
        check(len(edges) == wanted and all(rank["in_means"] == (words[1] == "2") for rank in edges), f"{words}: {edges}")
    check(os.listdir(rig.traces) == [], f"traces are left: {os.listdir(rig.traces)}")
    rig.end_clients()


def bad_ranks(rig):
    rig.start_client("bad", 0, 6)
    rig.start_client("bad", 1, 6)
    dies = rig.start_client("bad", 2, 6, "--die", "recording")
    rig.start_client("bad", 3, 6, "--unresponsive")
    rig.start_client("bad", 4, 6, "--busy")
    rig.start_client("bad", 5, 6, "--stray")
    rig.ask("ranks", "--run", "bad", "--wait", "6", "-q")
    time.sleep(1)
    ranks, facts = rig.capture("bad", "--ranks", "0-5,9", "--steps", "2", "--roundup", "400", "--timeout", "12s", code=1)
    states = {rank: facts_of["state"] for rank, facts_of in ranks.items()}
    check(states == {0: "done", 1: "done", 2: "lost", 3: "lost", 4: "refused", 5: "done", 9: "refused"}, f"{states}")
    for rank, words in ((2, "ended before its trace was complete"), (3, "did not poll in time"), (4, "busy"), (9, "no such")):
        check(words in ranks[rank]["reason"], f"rank {rank}: {ranks[rank]['reason']}")
    # Half a round-up of 400 steps of 10 ms, by one clock: the collector's host is that of all ranks.
    check("rank 5 recorded 2.0 s" in facts["reason"], f"the stray is not named: {facts['reason']}")
    check(facts["state"] == "partial", facts["state"])
    dies.wait()
    print("bad ranks:", facts["reason"])
    rig.end_clients()


def one_step_more(rig):
    """Whose recording holds the step in which it was switched on has all that was asked for; who recorded half a second has not."""
    rig.start_client("edge", 0, 2)
    rig.start_client("edge", 1, 2, "--edge")
    rig.ask("ranks", "--run", "edge", "--wait", "2", "-q")
    time.sleep(1)
    # With the findings, which the command waits for, raw data may still be on its way.
    ranks, _ = rig.capture("edge", "--steps", "3", "--roundup", "400", "--wait", "raw")
    check(all(rank["state"] == "done" for rank in ranks.values()), f"a step more: {ranks}")
    rig.end_clients()
    rig.start_client("half", 0, 1, "--by-time", "--step", "0.1")
    rig.ask("ranks", "--run", "half", "--wait", "1", "-q")
    time.sleep(1)
    for steps in ("2", "4"):  # five steps: many more, and one
        ranks, _ = rig.capture("half", "--steps", steps, "--roundup", "40", code=1)
        check("recorded half a second instead of " + steps in ranks[0]["reason"], f"by time: {ranks}")
    rig.end_clients()


def other_daemon(rig):
    done = subprocess.run(rig.collector_words("spool2"), capture_output=True, text=True, timeout=120, check=False,
                          env=rig.environment)
    check(done.returncode == 3, f"a second collector ends with {done.returncode}: {done.stderr}")
    check(f"process {rig.collector.pid} (rankscope)" in done.stderr, done.stderr)


def refusals(rig):
    rig.start_client("no", 0, 1)
    rig.ask("ranks", "--run", "no", "--wait", "1", "-q")
    rig.ask("capture", "--run", "no", "--duration", "6m", codes=(3,))
    rig.ask("capture", "--run", "no", "--steps", "2", "--duration", "1s", codes=(2,))
    rig.ask("capture", "--run", "no", "--steps", "2", "--start-step", "5", codes=(2,))
    ranks, _ = rig.capture("no", "--steps", "1000000", code=1)  # some 60 TB
    check("MiB free" in ranks[0]["reason"], f"{ranks[0]['reason']}")
    rig.end_clients()


def main():
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="rs-kineto-") as folder:
        rig = Rig(folder)
        try:
            for part in (good_ranks, bad_ranks, other_daemon, refusals, one_step_more):
                begin = time.monotonic()
                part(rig)
                print(f"{part.__name__}: {time.monotonic() - begin:.1f} s")
        finally:
            rig.stop()


if __name__ == "__main__":
    main()
