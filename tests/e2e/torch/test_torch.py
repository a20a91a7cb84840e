#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A real, unmodified PyTorch job is captured while it runs: by steps on all ranks, by steps on two of them, by the clock.

Nobody is named when nothing is planted; a rank that sleeps for as long as a step before each is. DDP and FSDP2, four
ranks over gloo on the CPU. PyTorch is pinned; it lives outside the tree in $RANKSCOPE_TORCH_VENV, else
~/.cache/rankscope/torch-VERSION. With RANKSCOPE_TORCH_INSTALL=1 it is made when it is not there (5 GB, which nobody
should find in his home by surprise); otherwise, or when that cannot be done, the test is skipped (77).
The profiler's socket is a file in a folder of the test's own: other collectors on this machine are not met.
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import jsonschema

PROGRAM = os.path.abspath(os.environ["RANKSCOPE"])
HERE = os.path.dirname(os.path.abspath(__file__))
VERSION = "2.15.0"
WORLD = 4
STEPS = 2
SLOW_STEPS = 7  # the first and the last are inflated, and of one step alone nothing is more than a hint
ROUNDUP_S = 12  # the round-up in time: profilers ask every 5 s, and all must have asked before it comes
INSTALL_LIMIT_S = 1500
SKEW_LIMIT_MS = 200


def skip(why):
    print(f"torch: skipped, {why}")
    sys.exit(77)


def find_torch():
    folder = os.environ.get("RANKSCOPE_TORCH_VENV") or os.path.expanduser(f"~/.cache/rankscope/torch-{VERSION}")
    torchrun = os.path.join(folder, "bin", "torchrun")
    if os.path.exists(torchrun):
        return torchrun
    if os.environ.get("RANKSCOPE_TORCH_INSTALL") != "1":
        skip(f"no PyTorch in {folder}; RANKSCOPE_TORCH_INSTALL=1 puts it there (5 GB)")
    part = folder + ".part"
    shutil.rmtree(part, ignore_errors=True)
    try:
        os.makedirs(os.path.dirname(folder), exist_ok=True)
        subprocess.run([sys.executable, "-m", "venv", part], check=True, timeout=120, stdout=subprocess.DEVNULL)
        subprocess.run([os.path.join(part, "bin", "pip"), "install", "-q", f"torch=={VERSION}", "numpy"], check=True,
                       timeout=INSTALL_LIMIT_S, stdout=subprocess.DEVNULL)
    except (OSError, subprocess.SubprocessError) as error:
        shutil.rmtree(part, ignore_errors=True)
        skip(f"torch {VERSION} cannot be installed here: {error}")
    # Scripts of a virtual environment carry its path: made again under its name, the packages stay where they are.
    os.rename(part, folder)
    for name in os.listdir(os.path.join(folder, "bin")):
        path = os.path.join(folder, "bin", name)
        if os.path.isfile(path) and not os.path.islink(path):
            with open(path, "rb") as file:
                text = file.read()
            with open(path, "wb") as file:
                file.write(text.replace(part.encode(), folder.encode()))
    return torchrun


def cpu_s(pid):
    """CPU seconds of a process so far."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss_mib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return int(re.search(r"VmRSS:\s+(\d+)", file.read()).group(1)) / 1024


class TraceFiles(threading.Thread):
    """When the last trace became complete: its final name appears, and goes when it is packed."""

    def __init__(self, folder):
        super().__init__(daemon=True)  # a failed check ends the program, not one that waits for this thread
        self.folder, self.last, self.is_over = folder, 0.0, False

    def run(self):
        while not self.is_over:
            for path, _, names in os.walk(self.folder):
                for name in names:
                    try:
                        if name.endswith(".json"):
                            self.last = max(self.last, os.stat(os.path.join(path, name)).st_ctime)
                    except FileNotFoundError:
                        pass
            time.sleep(0.005)

    def stop(self):
        self.is_over = True
        self.join()
        return self.last


class Rig:
    """An aggregator, a collector, and one job at a time."""

    def __init__(self, folder, torchrun):
        self.folder, self.torchrun = folder, torchrun
        self.sockets = os.path.join(folder, "sockets")
        self.traces = os.path.join(folder, "traces")
        os.mkdir(self.sockets)
        self.address = "unix:" + os.path.join(folder, "a.sock")
        self.job = None
        self.port = 29700 + os.getpid() % 1000
        self.environment = dict(os.environ, RANKSCOPE_RUNTIME_DIR=folder, OMP_NUM_THREADS="1")
        self.aggregator = subprocess.Popen(
            [PROGRAM, "aggregator", "--listen", self.address, "--data", os.path.join(folder, "data")],
            stdout=subprocess.PIPE, env=self.environment)
        if b"listening" not in self.aggregator.stdout.readline():
            raise SystemExit("the aggregator did not start")
        self.log = open(os.path.join(folder, "collector.log"), "ab")
        self.log_reader = open(os.path.join(folder, "collector.log"), encoding="utf-8")
        self.start_collector()

    def start_collector(self):
        folder = self.folder
        self.collector = subprocess.Popen(
            [PROGRAM, "collector", "--connect", self.address, "--spool", os.path.join(folder, "spool"),
             "--kineto", "--kineto-socket-dir", self.sockets, "--trace-dir", self.traces, "--no-native", "--no-ascend", "--no-mindspore",
             "--verbose"],
            stderr=self.log, env=self.environment)

    def start_job(self, script, *arguments):
        self.port += 1
        self.job_log = open(os.path.join(self.folder, f"job{self.port}.log"), "w", encoding="utf-8")
        self.job = subprocess.Popen(
            [PROGRAM, "run", "--socket-dir", self.sockets, "--", self.torchrun, "--nproc-per-node", str(WORLD),
             "--master-port", str(self.port), os.path.join(HERE, script), *arguments],
            stdout=self.job_log, stderr=self.job_log, env=self.environment)
        self.run = f"127.0.0.1:{self.port}"
        self.ask("ranks", "--run", self.run, "--wait", str(WORLD), "--timeout", "120s", "-q")
        # A process that has not made a step yet cannot be asked for steps; starting takes long on a busy machine.
        until = time.monotonic() + 120
        while not self.has_stepped() and time.monotonic() < until:
            time.sleep(0.2)
        check(self.has_stepped(), "the job makes no steps")
        self.roundup = self.measure_roundup()

    def last_step(self):
        with open(self.job_log.name, encoding="utf-8") as file:
            return int(re.findall(r"step (\d+) ", file.read())[-1])

    def measure_roundup(self):
        """Iterations that take ROUNDUP_S, by the time that 40 of them take."""
        first, begin = self.last_step(), time.monotonic()
        while self.last_step() < first + 40 and time.monotonic() < begin + 120:
            time.sleep(0.01)
        return max(20, round(ROUNDUP_S * (self.last_step() - first) / (time.monotonic() - begin)))

    def has_stepped(self):
        with open(self.job_log.name, encoding="utf-8") as file:
            return "step 10 " in file.read()

    def end_job(self):
        if self.job is None:
            return
        self.job.send_signal(signal.SIGTERM)
        try:
            self.job.wait(120)
        except subprocess.TimeoutExpired:
            self.job.kill()
            self.job.wait()
        self.job = None
        self.job_log.close()

    def ask(self, verb, *words, codes=(0,)):
        done = subprocess.run([PROGRAM, verb, "--connect", self.address, *words], capture_output=True, text=True,
                              timeout=300, check=False, env=self.environment)
        if done.returncode not in codes:
            raise SystemExit(f"rankscope {verb} {' '.join(words)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def capture(self, name, *words, strays=0):
        out = os.path.join(self.folder, "out-" + name)
        begin = time.monotonic()
        process = subprocess.Popen([PROGRAM, "capture", "--connect", self.address, "--run", self.run, *words, "-o", out],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.environment)
        files = TraceFiles(self.traces)
        files.start()
        lines = list(process.stderr)
        text = process.stdout.read()
        if process.wait(300) == 1 and strays and "not the same time" in "".join(lines):
            files.stop()
            if "--roundup" in words:  # as it advises
                words = list(words)
                words[words.index("--roundup") + 1] = str(2 * int(words[words.index("--roundup") + 1]))
            return self.capture(f"{name}-{strays}", *words, strays=strays - 1)
        check(process.wait(300) == 0, f"rankscope capture {' '.join(words)}: exit {process.returncode}\n{''.join(lines)}{text}")
        took = time.monotonic() - begin
        after = time.time() - files.stop()
        chosen = re.search(r"multiple of \d+ iterations", "".join(lines))
        with open(os.path.join(out, "report.json"), encoding="utf-8") as file:
            report = json.load(file)
        print(f"\n==== {name}: rankscope capture {' '.join(words)}  ({took:.1f} s, {after:.2f} s after the last file; "
              f"{chosen.group(0) if chosen else 'one instant'})\n{text}")
        return report

    def taken(self):
        """(rank, start, end) of the traces that were read since the last call."""
        return [(int(rank), int(start), int(end)) for rank, start, end in re.findall(
            r"rank (\d+): \d+ bytes of trace taken, from (\d+) to (\d+)", self.log_reader.read())]

    def stop(self):
        self.end_job()
        for process in (self.collector, self.aggregator):
            process.send_signal(signal.SIGTERM)
        for process in (self.collector, self.aggregator):
            process.wait(120)


def check(is_right, what, report=None):
    if not is_right:
        raise SystemExit(f"FAILED: {what}\n{json.dumps(report, indent=1)[:3000] if report else ''}")


def named(report):
    """Who is named: a weak finding is a hint, imbalance and jitter name nobody."""
    return [(f["kind"], f["where"].get("rank")) for f in report["findings"]
            if f["confidence"] != "weak" and f["kind"] not in ("imbalance", "jitter")]


def check_steps(report, ranks, steps=STEPS, more=0):
    """`more`: a profiler that is switched off late, on a busy machine, has seen so many steps more than were asked for."""
    seen = report["coverage"]["ranks_seen"]
    check(seen == len(ranks), f"ranks seen: {seen}, wanted {ranks}", report)
    found = report["coverage"]["steps"]
    check(steps <= found <= steps + more, f"{found} steps instead of {steps}", report)
    with open("docs/schema/report.schema.json", encoding="utf-8") as file:
        jsonschema.validate(report, json.load(file))
    recording = report.get("recording", {})
    check(recording.get("ranks") == len(ranks) and recording["recorded_ns"] > 0 and recording["writing_ns"] > 0,
          f"what the recording cost is not known of all: {recording}", report)


def check_doctor(rig):
    done = subprocess.run([PROGRAM, "doctor", "--kineto-socket-dir", rig.sockets, "--trace-dir", rig.traces, "--json"],
                          capture_output=True, text=True, check=False, env=rig.environment)
    mine = [p for p in json.loads(done.stdout)["processes"] if p["run"] == rig.run]
    check(sorted(p["rank"] for p in mine) == list(range(WORLD)), "doctor does not see the ranks", mine)
    # Traces go to a folder of the test's own below /tmp, or there is a note about it.
    check(all(p["attachable"] and p["version"] == VERSION for p in mine), "doctor refuses a good job", mine)


def check_skew(rig):
    starts = sorted(start for _, start, _ in rig.taken())
    check(len(starts) == WORLD, f"{len(starts)} windows of {WORLD} ranks")
    skew = (starts[-1] - starts[0]) / 1e6
    print(f"start skew of a duration capture over {WORLD} ranks: {skew:.3f} ms")
    return skew


def clean_job(rig, script):
    rig.start_job(script)
    check_doctor(rig)
    steps = ("--steps", str(STEPS), "--roundup", str(rig.roundup))
    report = rig.capture(script + "-all", "--ranks", "0-3", *steps, strays=2)
    check_steps(report, [0, 1, 2, 3])
    check(named(report) == [], f"nothing is planted and somebody is named: {named(report)}", report)
    check(len(os.listdir(rig.traces)) == 0, "a trace was left behind")
    # what is recorded, and a warm-up: said in the text that the profiler gets, which ends its reading at what it does not know
    report = rig.capture(script + "-two", "--ranks", "1,3", *steps, "--set", "activities=CPU", "--set", "schedule.warmup=2", strays=2)
    check_steps(report, [1, 3])
    check(named(report) == [], f"nothing is planted and somebody is named: {named(report)}", report)
    # without a word about the round-up: the step time is known now. One of 20 may stray by design, and says so.
    report = rig.capture(script + "-chosen", "--ranks", "1,3", "--steps", str(STEPS), strays=3)
    check_steps(report, [1, 3])
    rig.taken()
    report = rig.capture(script + "-duration", "--duration", "300ms")
    check(report["coverage"]["ranks_seen"] == WORLD, "ranks are missing", report)
    skew = check_skew(rig)
    rig.end_job()
    return skew


def killed_collector(rig, script):
    """Killed (-9) when all ranks have their request, and started again: the capture is whole, nothing is left."""
    rig.start_job(script)
    out = os.path.join(rig.folder, "out-killed")
    words = [PROGRAM, "capture", "--connect", rig.address, "--run", rig.run, "--steps", str(STEPS), "--roundup", str(2 * rig.roundup),
             "-o", out]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=rig.environment)
    lines = [process.stderr.readline()]
    name = lines[0].split()[0]
    until = time.monotonic() + 60
    told = []
    while len(told) < WORLD and time.monotonic() < until:
        time.sleep(0.05)
        ranks = json.loads(rig.ask("capture", "show", name, "--json").stdout)["ranks"]
        told = [rank for rank in ranks if rank["state"] in ("delivered", "recording")]
    check(len(told) == WORLD, f"not all have their request at once: {ranks}")
    rig.collector.kill()
    rig.collector.wait()
    os.unlink(os.path.join(rig.sockets, "dynolog"))
    time.sleep(1)
    rig.start_collector()
    text, rest = process.communicate(timeout=300)
    lines.append(rest)
    check(process.returncode == 0, f"exit {process.returncode}: {''.join(lines)}")
    with open(os.path.join(out, "report.json"), encoding="utf-8") as file:
        check_steps(json.load(file), [0, 1, 2, 3])
    check(len(os.listdir(rig.traces)) == 0, "a trace was left behind")
    print(f"\n==== {script}: the collector was killed when all had their request\n{lines[0]}{''.join(lines[-2:])}{text}")
    rig.end_job()


def slow_job(rig, script, sleep_ms):
    rig.start_job(script, "--sleep-rank", "2", "--sleep-ms", str(sleep_ms))
    report = rig.capture(script + "-slow", "--steps", str(SLOW_STEPS), "--roundup", str(rig.roundup), strays=2)
    check_steps(report, [0, 1, 2, 3], SLOW_STEPS)
    check([rank for _, rank in named(report)] == [2], f"rank 2 sleeps, and named are: {named(report)}", report)
    rig.end_job()


def main():
    torchrun = find_torch()
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="rs-torch-") as folder:
        rig = Rig(folder, torchrun)
        try:
            skews = [clean_job(rig, "train_ddp.py")]
            slow_job(rig, "train_ddp.py", 60)
            killed_collector(rig, "train_ddp.py")
            skews.append(clean_job(rig, "train_fsdp2.py"))
            slow_job(rig, "train_fsdp2.py", 120)
            # Four busy ranks on few cores wake up late by some milliseconds; seconds would be another start.
            check(max(skews) < SKEW_LIMIT_MS, f"ranks of one host began {max(skews):.3f} ms apart")
            print(f"collector: {rss_mib(rig.collector.pid):.1f} MiB, {cpu_s(rig.collector.pid):.2f} s of CPU in all")
        finally:
            rig.stop()
    print("torch: every capture is there")


if __name__ == "__main__":
    main()
