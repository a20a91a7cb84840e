#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A process that keeps to the rules of PyTorch's profiler towards a daemon, without PyTorch.

It polls on a socket file in $KINETO_IPC_SOCKET_DIR every --period seconds, says that it is busy while it records, and
writes a small trace under the names and in the order of the real one: PATH_PID.json.tmp, empty; then full; then
PATH_PID.json. Its clock of iterations is the wall clock, so that all ranks of a host agree: iteration k is at k * --step.

Options make it misbehave: --unresponsive (registers, then polls no more), --busy, --die recording, --stray (its count of
iterations is ahead by half a round-up), --pad BYTES (a large trace), --late SECONDS (the final name comes so long after the
end of the recording, on all ranks at one instant).
--longer-when FILE: as soon as that is there, steps take twice as long; this rank computes for all of it with --is-cause, else it
waits for whoever does.
"""
import argparse
import ctypes
import json
import mmap
import os
import select
import signal
import socket
import struct
import sys
import time

BASE_S = 1_700_000_000


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--period", type=float, default=0.5)
    parser.add_argument("--step", type=float, default=0.01)
    parser.add_argument("--torch", help="a folder with torch/lib/*.so: maps them, and sleeps")
    parser.add_argument("--libraries", help="a folder with *.so: maps them, and goes on")
    parser.add_argument("--helper", action="store_true", help="has a child that inherited its rank and asks, too")
    parser.add_argument("--loader", action="store_true", help="with --torch: has a child, as a data loader is")
    parser.add_argument("--pad", type=int, default=0)
    parser.add_argument("--late", type=float, default=0)
    parser.add_argument("--msmonitor", action="store_true", help="holds a client of msMonitor's, too")
    parser.add_argument("--longer-when", default="")
    parser.add_argument("--is-cause", action="store_true")
    parser.add_argument("--unresponsive", action="store_true")
    parser.add_argument("--busy", action="store_true")
    parser.add_argument("--stray", action="store_true")
    parser.add_argument("--edge", action="store_true", help="the step in which recording begins is seen, too")
    parser.add_argument("--by-time", action="store_true", help="records half a second when iterations are asked for, as who has made none")
    parser.add_argument("--die", choices=["recording"])
    return parser.parse_args()


def message(mask):
    payload = struct.pack("<iiq2i", mask, 2, 0, os.getpid(), os.getppid())
    return struct.pack("<Q32s", len(payload), b"req") + payload


def row(cat, name, tid, start, end, **args):
    return {"ph": "X", "cat": cat, "name": name, "pid": os.getpid(), "tid": tid,
            "ts": round((start - BASE_S) * 1e6, 3), "dur": round((end - start) * 1e6, 3), "args": args}


def trace(config, start, count, step, computing=0.7):
    """count steps of 70 % computing and one all-reduce, as gloo writes them."""
    rows = []
    pid = os.getpid()
    for k in range(count):
        begin = start + k * step
        rows.append(row("cpu_op", "aten::mm", pid, begin, begin + computing * step))
        shapes = {"Input Dims": [[1000]], "Input type": ["float"]}
        rows.append(row("cpu_op", "c10d::allreduce_", pid, begin + computing * step, begin + (computing + 0.01) * step, **shapes))
        rows.append(row("user_annotation", "gloo:all_reduce", pid + 1, begin + (computing + 0.01) * step, begin + 0.9 * step, **shapes))
        rows.append(row("user_annotation", "Optimizer.step#SGD.step", pid, begin + 0.92 * step, begin + step))
    rows.append({"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "tid": "PyTorch Profiler",
                 "ts": round((start - BASE_S) * 1e6, 3), "dur": round(count * step * 1e6, 3), "args": {"Op count": 0}})
    return {"schemaVersion": 1, "trace_id": config["REQUEST_TRACE_ID"], "displayTimeUnit": "ms",
            "baseTimeNanoseconds": BASE_S * 1_000_000_000, "traceEvents": rows}


class Client:
    def __init__(self, args):
        self.args = args
        self.daemon = os.path.join(os.environ["KINETO_IPC_SOCKET_DIR"], "dynolog")
        self.path = os.path.join(os.environ["KINETO_IPC_SOCKET_DIR"], f"client{os.getpid()}")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.begins = self.ends = None
        self.config = None
        self.monitor = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) if args.msmonitor else None
        if self.monitor:
            self.monitor.bind(f"\0dynoconfigclient-{os.getpid()}")
            self.monitor.sendto(struct.pack("<Q32siiq", 16, b"ctxt", 0, os.getpid(), 0), self.daemon)

    def poll_monitor(self):
        """msMonitor's client takes any text for a request of its own: an answer that is not empty ends this process."""
        self.monitor.sendto(message(3), self.daemon)
        if select.select([self.monitor], [], [], 0.05)[0] and len(self.monitor.recv(65536)) != 40:
            sys.exit("msMonitor's client got an answer that is not empty")

    def poll(self):
        if self.monitor:
            self.poll_monitor()
        busy = self.args.busy or self.begins is not None
        try:
            self.socket.sendto(message(0 if busy else 2), self.daemon)
        except OSError:
            return
        if select.select([self.socket], [], [], 0.09)[0]:
            text = self.socket.recv(65536)[40:].decode()
            if text:
                self.take(dict(line.split("=", 1) for line in text.splitlines()))

    def take(self, config):
        self.config = config
        now = time.time()
        step = self.args.step
        if "ACTIVITIES_ITERATIONS" in config:
            roundup = int(config["PROFILE_START_ITERATION_ROUNDUP"])
            cycle = roundup * step
            ahead = cycle / 2 if self.args.stray else 0
            self.begins = (int((now + ahead) / cycle) + 1) * cycle - ahead
            self.count = int(config["ACTIVITIES_ITERATIONS"])
            if self.args.edge:
                self.begins, self.count = self.begins - step, self.count + 1
            if self.args.by_time:
                self.count = round(0.5 / step)
        else:
            self.begins = int(config["PROFILE_START_TIME"]) / 1000
            self.count = max(1, int(int(config["ACTIVITIES_DURATION_MSECS"]) / 1000 / step))
            if self.begins < now + 1:  # as the real one: dropped without a word
                self.begins = None
                return
        self.is_longer = bool(self.args.longer_when) and os.path.exists(self.args.longer_when)
        self.length = 2 * step if self.is_longer else step
        self.ends = self.begins + self.count * self.length
        self.final = config["ACTIVITIES_LOG_FILE"].replace(".json", f"_{os.getpid()}.json", 1)

    def work(self):
        now = time.time()
        if self.begins is None or now < self.begins:
            return
        if not os.path.exists(self.final + ".tmp"):
            open(self.final + ".tmp", "wb").close()
            if self.args.die:
                os.kill(os.getpid(), signal.SIGKILL)
        if now < self.ends:
            return
        computing = (0.85 if self.args.is_cause else 0.35) if self.is_longer else 0.7
        document = trace(self.config, self.begins, self.count, self.length, computing)
        if self.args.pad:
            while len(document["traceEvents"]) * 180 < self.args.pad:
                k = len(document["traceEvents"])
                at = self.begins + (k % 1000) / 1000 * self.count * self.length
                document["traceEvents"].append(row("cpu_op", f"aten::op{k % 50}", os.getpid(), at, at + 1e-6,
                                                   **{"External id": k, "Ev Idx": k, "Input Dims": [[k % 64, 8]]}))
        with open(self.final + ".tmp", "w", encoding="ascii") as file:
            json.dump(document, file, indent=0)
        if self.args.late:
            time.sleep(max(0.0, self.ends + self.args.late - time.time()))
        os.rename(self.final + ".tmp", self.final)
        self.begins = None

    def run(self):
        next_poll = 0
        while True:
            now = time.monotonic()
            if now >= next_poll:
                next_poll = now + self.args.period
                self.poll()
                if self.args.unresponsive:
                    next_poll = now + 1e9
            self.work()
            until = next_poll - time.monotonic()
            if self.begins is not None:
                until = min(until, max(0.002, self.begins - time.time()), 0.02 if time.time() >= self.begins else 1e9)
            time.sleep(max(0.0, min(until, 3600)))


def fork_child():
    if os.fork() == 0:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: it does not outlive its parent


def map_all(libraries):
    kept = []
    for name in os.listdir(libraries):
        with open(os.path.join(libraries, name), "rb") as file:
            kept.append(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    return kept


def only_look_like(folder, has_child):
    kept = map_all(os.path.join(folder, "torch/lib"))  # pylint: disable=unused-variable
    if has_child:
        fork_child()
    time.sleep(3600)


if __name__ == "__main__":
    try:
        if parse().torch:
            only_look_like(parse().torch, parse().loader)
        mapped = map_all(parse().libraries) if parse().libraries else []
        if parse().helper:
            fork_child()
        Client(parse()).run()
    except KeyboardInterrupt:
        sys.exit(0)
