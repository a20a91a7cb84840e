#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A job of light processes that take orders by the rules of MindSpore's DynamicProfilerMonitor, without MindSpore.

  light.py --config DIR --way step|callback --ranks 8 --step-ms 10 --poll-ms 50 --counter FILE

Ours, written from the rules that were seen (ascend/adapter/mindspore.h tells them), and without mercy: the first rank makes the
block and forks the monitor; the monitor takes any change of the file's time and ends for good at anything that is no
JSON object; ranks read the block in every step. What a rank recorded it says when it stops:
  # RANK CAPTURE_FOLDER START STOP FIRST LAST     (the pair, and the steps that really were recorded)
  ! RANK TEXT                                     (cut short, refused, run on, late: must not happen)
  ~ TEXT                                          (it looked while the monitor was copying; the next step looks again)
All ranks keep the clock of the first, so that a step is the same instant everywhere. FILE holds the step of rank 0.
"""
import argparse
import json
import mmap
import os
import struct
import subprocess
import sys
import threading
import time

BLOCK_BYTES = 1024 * 1024
parser = argparse.ArgumentParser()
parser.add_argument("--config", required=True)
parser.add_argument("--counter", required=True)
parser.add_argument("--way", choices=("step", "callback"), required=True)
parser.add_argument("--ranks", type=int, default=8)
parser.add_argument("--step-ms", type=float, default=10)
parser.add_argument("--poll-ms", type=float, default=50)
parser.add_argument("--rank", type=int, default=-1)
parser.add_argument("--epoch", type=float, default=0)
ARGS = parser.parse_args()
FILE = os.path.join(os.path.realpath(ARGS.config), "profiler_config.json")


def say(text):
    os.write(1, (text + "\n").encode())


def monitor(block):
    last, loads = None, 0
    while os.getppid() != 1:
        if os.path.exists(FILE):
            now = os.path.getmtime(FILE)
            if last != now:
                last = now
                with open(FILE, encoding="utf-8") as file:
                    config = json.load(file)
                config["is_valid"] = True
                text = json.dumps(config).encode()
                block[:] = bytes(BLOCK_BYTES)
                block[:len(text)] = text
                loads += 1
        time.sleep(ARGS.poll_ms / 1000)
    os._exit(0)


def attach():
    path = time.strftime("/dev/shm/DynamicProfileShm%Y%m%d%H")
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        os.ftruncate(fd, BLOCK_BYTES)
        is_creator = True
    except FileExistsError:
        fd = os.open(path, os.O_RDWR)
        while os.fstat(fd).st_size < BLOCK_BYTES:
            time.sleep(0.001)
        is_creator = False
    block = mmap.mmap(fd, BLOCK_BYTES)
    if is_creator and os.fork() == 0:
        try:
            monitor(block)
        except Exception as error:  # as the vendor's: one line, and never again
            say(f"! monitor {error!r}")
            os._exit(1)
    return block


class Profile:
    def __init__(self, rank, config, start, stop, first):
        stamp = time.strftime("%Y%m%d%H%M%S", time.gmtime()) + f"{int(time.time() * 1000) % 1000:03d}"
        self.rank, self.start, self.stop, self.first = rank, start, stop, first
        self.last = None
        self.folder = config["prof_path"]
        self.path = os.path.join(self.folder, f"rank{rank}_start{start}_stop{stop}", f"light_{os.getpid()}_{stamp}_ascend_ms")
        os.makedirs(os.path.join(self.path, "logs"))
        os.makedirs(os.path.join(self.path, "FRAMEWORK"))
        self.parses = config["analyse"]
        say(f"[Dynamic Profiler] Rank {rank} Dynamic profiler start at step {start}, will stop at step {stop}")

    def end(self, last):
        with open(os.path.join(self.path, "FRAMEWORK", f"cpu_op_type_info_{self.rank}.csv"), "w", encoding="utf-8") as file:
            file.write("op\n")
        lines = ["CpuProfiler stop.", "CpuProfiler finalize."]
        if self.parses:
            os.makedirs(os.path.join(self.path, "ASCEND_PROFILER_OUTPUT"))
            with open(os.path.join(self.path, "ASCEND_PROFILER_OUTPUT", "trace_view.json"), "w", encoding="utf-8") as file:
                json.dump([], file)
            lines += ["CpuProfiler analyse.", "TaskManager run flow [cpu_flow] start", "TaskManager flow [cpu_flow] [pid: 1] join"]
        with open(os.path.join(self.path, "logs", "profiler_1.log"), "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
        say(f"# {self.rank} {os.path.basename(os.path.dirname(self.folder))} {self.start} {self.stop} {self.first} {last}")


def read(block):
    end = block.find(b"\0")
    if end <= 0:
        return None
    try:
        return json.loads(block[:end])
    except ValueError as error:
        say(f"~ {error!r}")
        return None


def by_step(rank, block, step, state):
    """dp.step(): at the end of a step; a pair begins with the step behind its start, late too, and cuts what runs."""
    config = read(block)
    if not config:
        return
    start, stop = config["start_step"], config["stop_step"]
    if start >= 0 and stop >= 0 and step >= start and not step > stop != state["stop"]:
        if (start, stop) != (state["start"], state["stop"]):
            if state["profile"]:
                say(f"! {rank} cut short: {state['profile'].start}..{state['profile'].stop} by {start}..{stop}")
            if step != start:
                say(f"! {rank} began late: {start}..{stop} in step {step}")
            state.update(start=start, stop=stop, left=stop - start + 1, profile=Profile(rank, config, start, stop, step + 1))
    elif start >= 0 and step > stop:
        state["stale"] = state.get("stale", 0) + 1
    if state["profile"]:
        state["left"] -= 1
        if state["left"] == -1:
            state["profile"].end(step)
            state["profile"] = None


def callback_begin(rank, block, step, state):
    config = read(block)
    if not config or config["start_step"] in (-1, state["start"]):
        return
    start, stop = config["start_step"], config["stop_step"]
    if start < step:
        say(f"! {rank} refuses {start}..{stop} in step {step}")
    elif step == start:
        if state["profile"]:
            say(f"! {rank} is asked twice")
            return
        state.update(start=start, stop=stop, profile=Profile(rank, config, start, stop, step))


def callback_end(rank, block, step, state):
    config = read(block) or {}
    if state["profile"] and config.get("stop_step", -1) == -1:
        say(f"! {rank} runs on behind step {step}")
    elif state["profile"] and step == state["stop"]:
        state["profile"].end(step)
        state["profile"] = None


def work(rank):
    threading.Thread(target=time.sleep, args=(1e6,), daemon=True).start()  # a rank has threads, its monitor has one
    say(f"[Dynamic Profiler] Init config json file: {FILE}")
    block = attach()
    state = {"start": None, "stop": None, "profile": None, "left": 0}
    with open(ARGS.counter, "r+b") as file:
        counter = mmap.mmap(file.fileno(), 8)
    step = 0
    while os.getppid() != 1:
        step += 1
        if ARGS.way == "callback":
            callback_begin(rank, block, step, state)
        time.sleep(max(0, ARGS.epoch + step * ARGS.step_ms / 1000 - time.time()))
        if ARGS.way == "callback":
            callback_end(rank, block, step, state)
        else:
            by_step(rank, block, step, state)
        if rank == 0:
            counter[:] = struct.pack("<q", step)


def main():
    if ARGS.rank >= 0:
        work(ARGS.rank)
        return
    with open(ARGS.counter, "wb") as file:
        file.write(bytes(8))
    epoch = time.time() + 1.5
    kids = [subprocess.Popen([sys.executable, os.path.abspath(__file__), *sys.argv[1:], "--rank", str(rank), "--epoch", str(epoch)],
                             env=dict(os.environ, RANK_ID=str(rank))) for rank in range(ARGS.ranks)]
    sys.exit(max(abs(kid.wait()) for kid in kids))


main()
