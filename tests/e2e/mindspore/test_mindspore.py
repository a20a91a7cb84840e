#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A real MindSpore job of four ranks is captured while it runs, by aggregator, collector and `rankscope capture`.

Its own DynamicProfilerMonitor and its real CPU profiler, in both ways of using them. On all ranks, on two of them (explained), twice
in a row, one while another runs, with a killed creator of the block, and an unresponsive job on a block that a killed one left.
Which steps were recorded is found by the times of the operators. See rig.py for where MindSpore is.
"""
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

from rig import Job, Shm, check, find_mindspore, pair_of, scratch, stamps_of, stay_in_hour

PROGRAM = os.path.abspath(os.environ["RANKSCOPE"])
HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = find_mindspore()
RANKS = 4
STEP_MS = 250


class Rig:
    def __init__(self):
        self.folder = scratch()
        self.traces = os.path.join(self.folder, "traces")
        self.address = "unix:" + os.path.join(self.folder, "a.sock")
        self.environment = dict(os.environ, RANKSCOPE_RUNTIME_DIR=self.folder)
        self.aggregator = subprocess.Popen(
            [PROGRAM, "aggregator", "--listen", self.address, "--data", os.path.join(self.folder, "data")],
            stdout=subprocess.PIPE, env=self.environment)
        check(b"listening" in self.aggregator.stdout.readline(), "the aggregator did not start")
        self.log = open(os.path.join(self.folder, "collector.log"), "wb")
        self.collector = subprocess.Popen(
            [PROGRAM, "collector", "--connect", self.address, "--spool", os.path.join(self.folder, "spool"), "--no-kineto",
             "--no-native", "--no-ascend", "--trace-dir", self.traces, "--verbose"], stderr=self.log, env=self.environment)
        self.count = 0

    def start_job(self, name, way, shm, ranks=RANKS, idle_s=0):
        config = os.path.join(self.folder, name + "-config")
        os.makedirs(config)
        made = subprocess.run([PROGRAM, "config", "init", "--framework", "mindspore", "-o",
                               os.path.join(config, "profiler_config.json")],
                              capture_output=True, text=True, check=False)
        check(made.returncode == 0, made.stderr)
        job = Job(self.folder, name, [PYTHON, os.path.join(HERE, "train.py"), "--config", config, "--out",
                                      os.path.join(self.folder, name + "-out"), "--way", way, "--ranks", str(ranks), "--steps",
                                      "2000", "--step-ms", str(STEP_MS), "--idle-s", str(idle_s)], shm)
        job.config = config
        job.wait_step(3, ranks)
        self.ask("ranks", "--run", name, "--wait", str(ranks), "--timeout", "180s", "-q")
        return job

    def begin(self, verb, *words):
        return subprocess.Popen([PROGRAM, verb, "--connect", self.address, *words], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, env=self.environment)

    def ask(self, verb, *words, codes=(0,)):
        process = self.begin(verb, *words)
        out, err = process.communicate(timeout=400)
        check(process.returncode in codes, f"rankscope {verb} {' '.join(words)}: exit {process.returncode}\n{out}{err}")
        process.text = out + err
        return process

    def capture(self, job, *words, codes=(0,)):
        self.count += 1
        out = os.path.join(self.folder, f"out{self.count}")
        into = () if "--no-report" in words else ("-o", out)
        return self.ask("capture", "--run", job.name, "--timeout", "180s", *into, *words, codes=codes)

    def recorded(self, job, process):
        """{rank: steps} of the results of the capture that `process` asked for, by its id, which names their folder."""
        found = {}
        for path in glob.glob(os.path.join(self.traces, id_of(process), "*", "rank*_start*", "*_ascend_ms")):
            view = os.path.join(path, "ASCEND_PROFILER_OUTPUT", "trace_view.json")
            if not os.path.exists(view):
                continue
            rank = int(re.search(r"/rank(\d+)_start", path).group(1))
            found[rank] = job.recorded(rank, stamps_of(view))
        return found

    def stop(self):
        for process in (self.collector, self.aggregator):
            process.send_signal(signal.SIGTERM)
        for process in (self.collector, self.aggregator):
            process.wait(120)
        shutil.rmtree(self.folder, ignore_errors=True)


def id_of(process):
    found = re.search(r"\b\d{8}-\d{6}-[0-9a-f]{6,10}\b", process.text)
    check(found, f"no capture's id in: {process.text}")
    return found.group(0)


def told(process):
    """The lines of a capture that say why, without the report."""
    lines = [line for line in process.text.splitlines() if not re.match(r"\d{8}-", line) and re.search(r"refused|give |error: |is lost|not those", line)]
    return "\n".join("    " + line for line in lines)[:1500]


def look(rig, job, process, expected, ranks=range(RANKS)):
    steps = rig.recorded(job, process)
    check(steps == {rank: expected for rank in ranks}, f"{job.name}: recorded {steps}, expected {expected} on {list(ranks)}")


def all_of(rig, way):
    shm = Shm()
    # A rank that has made its monitor and does not train yet has one thread, as the monitor has.
    job = rig.start_job("ms-" + way, way, shm, idle_s=5 if way == "callback" else 0)
    try:
        if way == "step":
            process = rig.capture(job, "--steps", "3", codes=(1, 3))
            check("--start-step" in process.text, process.text)
            print(f"== {way}: nobody knows the step\n{told(process)}")
        else:
            start = job.step() + 40
            process = rig.capture(job, "--steps", "3", "--ranks", "1,3", "--start-step", str(start), codes=(1, 2, 3))
            check("no selection of ranks" in process.text or "mindspore-subset" in process.text, process.text)
            print(f"== {way}: 1,3 only\n{told(process)}")

        start = job.step() + 40
        process = rig.capture(job, "--steps", "3", "--start-step", str(start))
        shift = 1 if way == "step" else 0
        check(("not those asked for" in process.text) == bool(shift), process.text)
        look(rig, job, process, [start + shift + i for i in range(3)])
        print(f"== {way}: --start-step {start}: steps {start + shift} to {start + shift + 2} on {RANKS} ranks\n{told(process)}")
        check(pair_of(job.config) == (-1, -1), pair_of(job.config))

        # twice in a row, and now the step is known: no --start-step; and one that waits for its turn
        since = time.time()
        first = rig.begin("capture", "--run", job.name, "--steps", "4", "--timeout", "180s", "--no-report")
        time.sleep(1.5)
        refused = rig.capture(job, "--steps", "1", "--on-busy", "refuse", codes=(1, 2, 3))
        queued = rig.capture(job, "--steps", "2", "--no-report")
        out, err = first.communicate(timeout=400)
        check(first.returncode == 0, f"exit {first.returncode}\n{out}{err}")
        found = {}
        for path in glob.glob(os.path.join(rig.traces, "*", "*", "rank*_start*")):
            rank, a, b = map(int, re.search(r"/rank(\d+)_start(\d+)_stop(\d+)", path).groups())
            if os.path.getmtime(path) >= since:
                capture = os.path.relpath(path, rig.traces).split(os.sep)[0]
                found.setdefault(capture, {}).setdefault((a, b), set()).add(rank)
        # A start that some ranks missed on a loaded machine is moved for all; what the others wrote of the first one stays beside it.
        pairs = [max(pairs.items()) for pairs in found.values()]
        missed = [ranks for pairs in found.values() for ranks in pairs.values() if len(ranks) < RANKS]
        check(sum(map(len, found.values())) == 2 + len(missed), f"a capture was recorded twice: pairs {found}")
        check(len(pairs) == 2 and all(ranks == set(range(RANKS)) for _, ranks in pairs), f"pairs {found}")
        check(sorted(b - a + 1 for (a, b), _ in pairs) == [2, 4], f"pairs {found}")
        print(f"== {way}: twice in a row, one asked for while the other ran: pairs {sorted(pair for pair, _ in pairs)} on {RANKS} ranks each"
              f"\n    refused meanwhile: {told(refused).strip()}\n    queued: exit {queued.returncode}")
        check(pair_of(job.config) == (-1, -1), pair_of(job.config))
        return job, shm
    except BaseException:
        job.kill()
        shm.close()
        raise


def killed_creator(rig, job):
    creator = None
    for line in open(f"/proc/{job.process.pid}/task/{job.process.pid}/children", encoding="ascii").read().split():
        children = open(f"/proc/{line}/task/{line}/children", encoding="ascii").read().split()
        if children:
            creator = int(line)
    rank = int(re.search(rb"RANK_ID=(\d+)", open(f"/proc/{creator}/environ", "rb").read()).group(1))
    os.kill(creator, signal.SIGKILL)
    time.sleep(4)
    rest = [r for r in range(RANKS) if r != rank]
    start = job.step() + 40
    process = rig.capture(job, "--steps", "3", "--start-step", str(start), codes=(0, 1))
    steps = rig.recorded(job, process)
    check(sorted(steps) == rest and len({tuple(s) for s in steps.values()}) == 1, f"recorded {steps}\n{process.text}")
    print(f"== killed creator (rank {rank}): {steps[rest[0]]} on ranks {rest}\n{told(process)}")


def left_block(rig):
    stay_in_hour(180)
    shm = Shm()
    job = rig.start_job("ms-left", "step", shm, 1)
    job.kill()
    time.sleep(6)
    job = rig.start_job("ms-unresponsive", "step", shm, 2)
    try:
        process = rig.capture(job, "--steps", "2", "--start-step", str(job.step() + 40), codes=(1, 3))
        check("left by a killed job" in process.text, process.text)
        print(f"== block left by a killed job\n{told(process)}")
    finally:
        job.kill()
        shm.close()


def main():
    begin = time.monotonic()
    rig = Rig()
    try:
        left_block(rig)
        job, shm = all_of(rig, "step")
        try:
            killed_creator(rig, job)
        finally:
            job.kill()
            shm.close()
        job, shm = all_of(rig, "callback")
        job.kill()
        shm.close()
        sys.stdout.flush()
    finally:
        with open(os.path.join(rig.folder, "collector.log"), encoding="utf-8") as file:
            log = file.read()
        if os.environ.get("SHOW_LOG"):
            print(log)
        rig.stop()
    print(f"mindspore: every capture is there, or told why not ({time.monotonic() - begin:.0f} s)")


main()
