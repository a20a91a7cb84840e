#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The whole way of a torch_npu capture, without torch: light ranks (tests/e2e/light_npu.c), collector, aggregator, report.

All ranks, some of them, a start that was asked for and is over, a capture that is called back before it begins, results that nobody
parses, results that are given up after packing, and what an idle collector costs with eight ranks.

Where root runs it, the jobs are another user's: the collector touches their files with that user's rights.
"""
import json
import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
import time

PROGRAM = os.path.abspath(os.environ["RANKSCOPE"])
LIGHT = os.path.join(os.environ["RANKSCOPE_BUILD"], "light_npu")
USER = pwd.getpwnam("games") if os.geteuid() == 0 else None
IDLE_S = 10
# Of one core. A quiet machine shows 0.001; whatever starts processes beside this test makes the collector look at them.
IDLE_LIMIT = 0.02


def check(condition, *what):
    if not condition:
        raise AssertionError(" ".join(str(part) for part in what))


class Job:
    def __init__(self, rig, name, ranks, *options):
        self.config = os.path.join(rig.folder, name)
        self.name, self.block = name, f"DynamicProfileNpuShm-{name}-{os.getpid()}"
        os.mkdir(self.config)
        as_user = {}
        if USER:
            os.chown(self.config, USER.pw_uid, USER.pw_gid)
            as_user = {"user": USER.pw_uid, "group": USER.pw_gid, "extra_groups": []}
        self.process = subprocess.Popen(
            [rig.light, "--cfg", self.config, "--ranks", str(ranks), "--step-us", "20000", "--poll-ms", "200", "--block", self.block,
             *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=dict(os.environ, RANKSCOPE_RUN=name), **as_user)
        deadline = time.time() + 60
        while rig.ranks(name) < ranks:
            check(time.time() < deadline, "the ranks of", name, "are not seen")
            time.sleep(0.3)

    def end(self):
        """What each rank did: {rank: {"profiles": n, ...}}."""
        out, _ = self.process.communicate(timeout=120)
        self.process = None
        facts = {}
        for line in out.splitlines():
            pairs = dict(pair.split("=") for pair in line.split())
            if "steps" in pairs:
                facts[int(pairs["rank"])] = {key: int(value) for key, value in pairs.items()}
        return facts


class Rig:
    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="rs-light-")
        os.chmod(self.folder, 0o755)
        self.light = shutil.copy(LIGHT, self.folder)
        self.traces = os.path.join(self.folder, "traces")
        self.address = "unix:" + os.path.join(self.folder, "a.sock")
        self.environment = dict(os.environ, RANKSCOPE_RUNTIME_DIR=self.folder)
        self.collector = None
        self.aggregator = subprocess.Popen(
            [PROGRAM, "aggregator", "--listen", self.address, "--data", os.path.join(self.folder, "data")],
            stdout=subprocess.PIPE, env=self.environment)
        check(b"listening" in self.aggregator.stdout.readline(), "the aggregator did not start")

    def start_collector(self, *options):
        if self.collector:
            self.collector.terminate()
            check(self.collector.wait(120) == 0, "the collector did not end well")
        self.collector = subprocess.Popen(
            [PROGRAM, "collector", "--connect", self.address, "--spool", os.path.join(self.folder, "spool"), "--no-kineto",
             "--no-native", "--no-mindspore", "--trace-dir", self.traces, "--parse-wait", "2s", *options], env=self.environment)

    def ask(self, *words, limit=90):
        return subprocess.run([PROGRAM, words[0], "--connect", self.address, *words[1:]], capture_output=True, text=True,
                              check=False, timeout=limit, env=self.environment)

    def ranks(self, run):
        done = self.ask("ranks", "--json")
        if done.returncode != 0:
            return 0
        return sum(1 for rank in json.loads(done.stdout)["ranks"] if rank["run"] == run)

    def states(self, run):
        done = self.ask("ranks", "--run", run, "--json")
        return {rank["state"] for rank in json.loads(done.stdout)["ranks"]}

    def folders(self):
        return [name for top in os.walk(self.traces) for name in top[1] if name.endswith("_ascend_pt")]

    def capture(self, job, ranks, *words):
        return self.ask("capture", "--run", job.name, "--ranks", ranks, *words)

    def busy_ns(self):
        """On a core, all threads of the collector, so far."""
        total = 0
        for task in os.listdir(f"/proc/{self.collector.pid}/task"):
            with open(f"/proc/{self.collector.pid}/task/{task}/schedstat", encoding="ascii") as file:
                total += int(file.read().split()[0])
        return total

    def close(self):
        for daemon in (self.collector, self.aggregator):
            if daemon and daemon.poll() is None:
                daemon.terminate()
                try:
                    daemon.wait(120)
                except subprocess.TimeoutExpired:
                    daemon.kill()


def captures_are_reported(rig):
    rig.start_collector("--discard-raw")
    job = Job(rig, "good", 4, "--env")
    done = rig.capture(job, "all", "--steps", "3")
    check(done.returncode == 0, done.stdout, done.stderr)
    check("4 of 4 ranks, 3 steps" in done.stdout, done.stdout)
    done = rig.capture(job, "1,3", "--steps", "2")
    check(done.returncode == 0 and "2 of 4 ranks, 2 steps" in done.stdout, done.stdout, done.stderr)
    check(not rig.folders(), "results stay although raw data is given up:", rig.folders())
    # asked for a step that is long over
    done = rig.capture(job, "all", "--steps", "1", "--start-step", "3")
    check(done.returncode != 0 and "passed" in done.stderr + done.stdout, done.stdout, done.stderr)
    facts = job.end()
    check(sum(f["torn"] + f["invalid"] for f in facts.values()) == 0, facts)
    # 4 + 2, and one or two short ones on one rank that found the step out
    check(sum(f["profiles"] for f in facts.values()) in (7, 8), facts)
    # no longer asked to record, and not shown as if they were there
    deadline = time.time() + 20
    while rig.states(job.name) != {"gone"}:
        check(time.time() < deadline, "processes that ended are", rig.states(job.name))
        time.sleep(0.3)
    done = rig.capture(job, "all", "--steps", "1")
    # the second when nothing else on this machine can be captured
    says = ("there is no run", "no live rank is known that can record")
    check(done.returncode == 2 and any(words in done.stderr for words in says), done.returncode, done.stderr)
    print("light: all and some are recorded and reported, a step that is over is refused")


def a_capture_is_called_back(rig):
    job = Job(rig, "back", 4)  # found by its open logs alone
    far = subprocess.Popen([PROGRAM, "capture", "--connect", rig.address, "--run", job.name, "--steps", "1", "--start-step", "1500"],
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=rig.environment)
    ident = None
    deadline = time.time() + 40
    while time.time() < deadline:
        listed = rig.ask("capture", "list", "--json")
        own = [c for c in json.loads(listed.stdout)["captures"] if c["run"] == job.name]
        if own and own[0]["state"] == "recording":
            ident = own[0]["id"]
            break
        time.sleep(0.2)
    check(ident, "the capture did not come so far")
    time.sleep(1.5)
    done = rig.ask("capture", "stop", ident)
    check(done.returncode == 0, done.stderr)
    far.communicate(timeout=60)
    time.sleep(max(0.0, 34 - (time.time() - deadline + 40)))  # beyond step 1500 of 20 ms
    facts = job.end()
    check(all(f["profiles"] == 0 for f in facts.values()), "called back and recorded:", facts)
    print("light: a capture that was called back recorded nothing")


def raw_results_are_reported(rig):
    job = Job(rig, "raw", 2, "--env", "--no-parser")
    done = rig.capture(job, "all", "--steps", "2")
    check(done.returncode == 1, done.returncode, done.stdout, done.stderr)
    for rank in range(2):
        told = re.search(rf"rank {rank} is stored raw: recorded, but not parsed by the vendor's tool yet.* stays at (\S+_ascend_pt)",
                         done.stderr)
        check(told and os.path.isdir(told.group(1)), done.stderr)
    job.end()
    print("light: results that nobody parsed are kept and named")


def idle_costs_little(rig):
    rig.start_collector()
    job = Job(rig, "idle", 8, "--env")
    time.sleep(32)  # young processes are looked at more often
    before, began = rig.busy_ns(), time.time()
    time.sleep(IDLE_S)
    used = (rig.busy_ns() - before) / 1e9 / (time.time() - began)
    with open(f"/proc/{rig.collector.pid}/status", encoding="ascii") as file:
        rss = int(re.search(r"VmRSS:\s+(\d+)", file.read()).group(1)) / 1024
    print(f"light: idle with 8 ranks: {100 * used:.2f} % of a core, {rss:.1f} MiB")
    job.end()
    check(used < IDLE_LIMIT, "an idle collector costs too much")


def main():
    check(os.path.exists(LIGHT), LIGHT, "is not built")
    rig = Rig()
    try:
        captures_are_reported(rig)
        a_capture_is_called_back(rig)
        raw_results_are_reported(rig)
        idle_costs_little(rig)
    finally:
        rig.close()
        shutil.rmtree(rig.folder, ignore_errors=True)
    print("light: passed")


main()
