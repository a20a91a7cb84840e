#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a collector that nobody asks for anything costs the training beside it: wall time with and without it, in turns.

    RANKSCOPE=build/release/rankscope tests/bench/disturbance.py [--rounds 20] [--seconds 8] [--world 2] [--json]

The job is tests/e2e/torch/train_ddp.py (PyTorch DDP over gloo, a process per core by default), and it is one job throughout: between two that are
started one after the other there is more difference than what is looked for. Its steps are counted in windows, four to a round, in an order that turns:

    without   no collector, no aggregator (the profiler asks for one every 5 s all the same)
    idle      a collector beside it, mutual TLS to an aggregator; every rank has registered
    alone     no collector; an aggregator on these same cores is killed, comes back, and stands still for 2 s, again and again
    faults    so, too, with a collector that every rank has registered with

Printed: the mean of the differences of `idle` to `without` and of `faults` to `alone` in the same round, in percent, with its 95 % interval (Student's t
over rounds), and the collector's CPU as a share of the job's. An aggregator stands on another machine in earnest, and here each of its starts takes a
core from the job: what the collector itself makes of such faults is the difference to `alone`; that of `alone` to `without` is printed, too.
Exit 1 when a share is above 0.2 % while idle, or a lower bound above 2 %.
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e", "torch"))
import test_torch  # noqa: E402

PROGRAM = os.path.abspath(os.environ["RANKSCOPE"])
MODES = ("without", "idle", "alone", "faults")
BASES = {"idle": "without", "alone": "without", "faults": "alone"}
CPU_LIMIT_PERCENT, WALL_LIMIT_PERCENT = 0.2, 2.0
# Student's t at 97.5 %, by degrees of freedom; beyond the table the normal distribution's is near enough.
T975 = (0, 12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093,
        2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042)


def interval(values):
    """(mean, half of the 95 % interval)"""
    if len(values) < 2:
        return (values[0] if values else math.nan), math.nan
    t = T975[len(values) - 1] if len(values) <= len(T975) else 1.96
    return statistics.fmean(values), t * statistics.stdev(values) / math.sqrt(len(values))


class Service:
    """An aggregator and a collector with certificates, in a folder."""

    def __init__(self, folder):
        self.folder, self.data = folder, os.path.join(folder, "data")
        self.sockets = os.path.join(folder, "sockets")
        os.makedirs(self.sockets, exist_ok=True)
        self.environment = dict(os.environ, RANKSCOPE_RUNTIME_DIR=folder, RANKSCOPE_CONFIG="")
        for words in (("init", "--host", "127.0.0.1"), ("issue", "node", "bench", "--out", folder + "/node"),
                      ("issue", "operator", "bench", "--out", folder + "/operator")):
            subprocess.run([PROGRAM, "certs", *words, "--data", self.data], check=True, env=self.environment, stdout=subprocess.DEVNULL)
        self.address, self.aggregator, self.collector = "127.0.0.1:0", None, None
        self.log = open(os.path.join(folder, "log"), "ab")  # pylint: disable=consider-using-with

    def start_aggregator(self):
        self.aggregator = subprocess.Popen([PROGRAM, "aggregator", "--listen", self.address, "--data", self.data], stdout=subprocess.PIPE,
                                           stderr=self.log, env=self.environment, text=True)
        line = self.aggregator.stdout.readline()
        if "listening" not in line:
            raise SystemExit("disturbance: the aggregator did not start: " + line)
        self.address = line.split()[-1]

    def start_collector(self):
        self.collector = subprocess.Popen(
            [PROGRAM, "collector", "--connect", self.address, "--certs", self.folder + "/node", "--spool", self.folder + "/spool", "--kineto",
             "--kineto-socket-dir", self.sockets, "--trace-dir", self.folder + "/traces"],
            env=self.environment, stderr=self.log, stdout=self.log)

    def wait_ranks(self, run, world):
        subprocess.run([PROGRAM, "ranks", "--run", run, "--wait", str(world), "-q", "--connect", self.address, "--certs", self.folder + "/operator"],
                       check=True, timeout=120, env=self.environment, stdout=subprocess.DEVNULL)

    def stop(self):
        for process in (self.collector, self.aggregator):
            if process and process.poll() is None:
                process.terminate()
                process.wait()
        self.collector = None


class Faults(threading.Thread):
    """Kill -9 and a start a second later; three seconds of peace; two of standing still; and again."""

    def __init__(self, service):
        super().__init__(daemon=True)
        self.service, self.is_over, self.count = service, threading.Event(), 0

    def run(self):
        while not self.is_over.wait(1):
            self.service.aggregator.kill()
            self.service.aggregator.wait()
            self.is_over.wait(1)
            self.service.start_aggregator()
            self.is_over.wait(3)
            self.service.aggregator.send_signal(19)
            self.is_over.wait(2)
            self.service.aggregator.send_signal(18)
            self.count += 1

    def stop(self):
        self.is_over.set()
        self.join()


def cpu_ns(pid):
    """The scheduler's own count, of all threads that live."""
    total = 0
    for tid in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{tid}/schedstat", encoding="ascii") as file:
                total += int(file.read().split()[0])
        except FileNotFoundError:
            pass
    return total


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        found = [int(word) for word in file.read().split()]
    return found + [below for child in found for below in children(child)]


class Job:
    """The training; says where it is."""

    def __init__(self, args, torchrun, sockets):
        environment = dict(os.environ, OMP_NUM_THREADS="1", KINETO_USE_DAEMON="1", KINETO_IPC_SOCKET_DIR=sockets, RANKSCOPE_RUN="bench")
        self.log = tempfile.TemporaryFile("w+")  # pylint: disable=consider-using-with
        self.process = subprocess.Popen(
            [torchrun, "--nproc-per-node", str(args.world), "--master-port", str(29000 + os.getpid() % 500),
             os.path.join(os.path.dirname(test_torch.__file__), "train_ddp.py")], stdout=subprocess.PIPE, stderr=self.log, text=True, env=environment)
        self.first = self.step()
        self.pids = children(self.process.pid)

    def step(self):
        """(step, when it was said): the newest of now. Each tenth is said."""
        for line in self.process.stdout:
            if line.startswith("step "):
                return int(line.split()[1]), time.monotonic()
        self.log.seek(0)
        raise SystemExit("disturbance: the job ended: " + self.log.read()[-2000:])

    def cpu(self):
        return sum(cpu_ns(pid) for pid in self.pids)

    def window(self, seconds, collector_pid):
        """What a step took in the next so many seconds, and the CPU of job and collector in them."""
        begin = time.monotonic()
        while True:  # what was said before lies in the pipe
            from_step, from_time = self.step()
            if from_time - begin > 0.5:
                break
        before = self.cpu(), cpu_ns(collector_pid) if collector_pid else 0
        step, now = from_step, from_time
        while now - from_time < seconds:
            step, now = self.step()
        after = self.cpu(), cpu_ns(collector_pid) if collector_pid else 0
        return {"step_ms": 1e3 * (now - from_time) / (step - from_step), "job_cpu_s": (after[0] - before[0]) / 1e9,
                "collector_cpu_s": (after[1] - before[1]) / 1e9}

    def stop(self):
        self.process.terminate()
        for _ in self.process.stdout:
            pass
        self.process.wait()
        self.log.close()


def measure(mode, service, job, args):
    """A window in that mode, and the service is as it was before."""
    if mode == "without":
        return job.window(args.seconds, None)
    service.start_aggregator()
    faults = None
    try:
        if mode != "alone":
            service.start_collector()
            reading = threading.Thread(target=service.wait_ranks, args=("bench", args.world))
            reading.start()
            while reading.is_alive():
                job.step()
            reading.join()
        if mode != "idle":
            faults = Faults(service)
            faults.start()
        window = job.window(args.seconds, service.collector.pid if service.collector else None)
    finally:
        if faults:
            faults.stop()
        service.stop()
    window["faults"] = faults.count if faults else 0
    return window


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=8, help="of one window")
    parser.add_argument("--world", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    torchrun = test_torch.find_torch()
    rounds = []
    with tempfile.TemporaryDirectory(prefix="rs-disturb-") as folder:
        service = Service(folder)
        job = Job(args, torchrun, service.sockets)
        try:
            for number in range(args.rounds):
                got = {}
                for at in range(len(MODES)):
                    mode = MODES[(at + number) % len(MODES)]
                    got[mode] = measure(mode, service, job, args)
                rounds.append(got)
                print(f"round {number + 1}: " + ", ".join(f"{mode} {got[mode]['step_ms']:.3f} ms a step" for mode in MODES), file=sys.stderr)
        finally:
            job.stop()
    facts = {"bench": "disturbance", "world": args.world, "seconds": args.seconds, "rounds": rounds}
    is_fine = True
    print(f"{args.rounds} rounds of windows of {args.seconds:g} s, {args.world} ranks, "
          f"{statistics.median(got['without']['step_ms'] for got in rounds):.2f} ms a step without a collector (median)")
    for mode in MODES[1:]:
        mean, half = interval([100 * (got[mode]["step_ms"] / got[BASES[mode]]["step_ms"] - 1) for got in rounds])
        share = 100 * sum(got[mode]["collector_cpu_s"] for got in rounds) / sum(got[mode]["job_cpu_s"] for got in rounds)
        facts[mode] = {"wall_percent": mean, "half_interval_percent": half, "cpu_share_percent": share}
        told = "" if mode == "alone" else f", collector's CPU {share:.3f} % of the job's"
        told += "" if mode == "idle" else f", {sum(got[mode]['faults'] for got in rounds)} times killed and stopped"
        print(f"{mode:8} against {BASES[mode]:8} wall time {mean:+.2f} % +- {half:.2f} (95 %){told}")
        if mode != "alone":
            is_fine = is_fine and mean - half <= WALL_LIMIT_PERCENT and (mode != "idle" or share <= CPU_LIMIT_PERCENT)
    if args.json:
        print(json.dumps(facts))
    sys.exit(0 if is_fine else 1)


if __name__ == "__main__":
    main()
