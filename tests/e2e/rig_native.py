# SPDX-License-Identifier: Apache-2.0
"""A rig of real parts for native ranks: one aggregator, some collectors ("nodes"), one process for each rank.

    with Rig(world=1000, nodes=8, step_ms=400) as rig:
        rig.wait_ranks(1000)
        capture = rig.capture("--ranks", "0-99", "--steps", "3")
        capture.wait_for(lambda line: "100 armed" in line)
        os.kill(rig.pids[7], signal.SIGKILL)
        code, seconds = capture.end()

Nothing outlives it. What the daemons said stays in rig.folder when a test fails.
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import rig_clickhouse

PROGRAM = os.environ.get("RANKSCOPE", "build/dev/rankscope")
BUILD = os.environ.get("RANKSCOPE_BUILD", "build/dev")
RANKS = os.path.join(BUILD, "native_ranks")


class Capture:
    """`rankscope capture` under way: its lines, each with when it came."""

    def __init__(self, rig, words):
        self.started = time.monotonic()
        self.lines = []
        self.came = threading.Condition()
        self.process = subprocess.Popen([PROGRAM, "capture", "--connect", rig.address, *words],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.out = ""
        self.readers = [threading.Thread(target=self._read_err), threading.Thread(target=self._read_out)]
        for reader in self.readers:
            reader.start()

    def _read_err(self):
        for line in self.process.stderr:
            with self.came:
                self.lines.append((time.monotonic() - self.started, line.rstrip()))
                self.came.notify_all()

    def _read_out(self):
        self.out = self.process.stdout.read()

    def wait_for(self, is_it, seconds=300):
        """When the first line came that `is_it`, in seconds since the start."""
        until = time.monotonic() + seconds
        seen = 0
        with self.came:
            while True:
                for at, line in self.lines[seen:]:
                    if is_it(line):
                        return at
                seen = len(self.lines)
                left = until - time.monotonic()
                if left <= 0 or (self.process.poll() is not None and not self.came.wait(0.5)):
                    raise AssertionError("it never said so; the last was: " + str(self.lines[-3:]))
                self.came.wait(min(left, 0.5))

    def end(self, seconds=120):
        """Exit code, and how long it took."""
        code = self.process.wait(seconds)
        took = time.monotonic() - self.started
        for reader in self.readers:
            reader.join()
        self.process.stdout.close()
        self.process.stderr.close()
        return code, took

    def text(self):
        return "\n".join(line for _, line in self.lines)


NATIVE_ONLY = ("--no-kineto", "--no-ascend", "--no-mindspore")


class Rig:
    def __init__(self, world, nodes, step_ms, run="thousand", collector_words=NATIVE_ONLY, aggregator_words=(),
                 rank_words=()):
        self.world, self.nodes, self.step_ms, self.run = world, nodes, step_ms, run
        self.collector_words, self.aggregator_words = list(collector_words), list(aggregator_words)
        self.store_words = [] if "--store" in self.aggregator_words else rig_clickhouse.shared_words()  # over restarts with other words
        self.rank_words = list(rank_words)
        self.folder = tempfile.mkdtemp(prefix="rs-native-")
        self.address = "unix:" + os.path.join(self.folder, "a.sock")
        self.aggregator, self.collectors, self.job = None, [], None
        self.pids = []

    # ---- life

    def __enter__(self):
        try:
            self.start_aggregator()
            self.collectors = [None] * self.nodes
            for node in range(self.nodes):
                self.start_collector(node)
            if self.world:
                self.start_ranks()
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise
        return self

    def __exit__(self, kind, value, trace):
        if self.job:
            self.job.stdin.close()
            self.job.wait()
            self.job.stdout.close()
        for process in [*self.collectors, self.aggregator]:
            if process and process.poll() is None:
                process.terminate()
        for process in [*self.collectors, self.aggregator]:
            if process:
                try:
                    process.wait(120)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        if self.aggregator:
            self.aggregator.stdout.close()
        if kind is None and not os.environ.get("RIG_KEEP"):
            shutil.rmtree(self.folder)
        else:
            print("kept:", self.folder, file=sys.stderr)

    def _spawn(self, name, words, **pipes):
        with open(os.path.join(self.folder, name + ".log"), "ab") as log:
            return subprocess.Popen(words, stderr=log, **pipes)

    def log_text(self, name):
        with open(os.path.join(self.folder, name + ".log"), encoding="utf-8", errors="replace") as file:
            return file.read()

    def start_aggregator(self):
        self.aggregator = self._spawn(
            "aggregator", [PROGRAM, "aggregator", "--listen", self.address, "--data",
                           os.path.join(self.folder, "data"), "-v", *self.store_words, *self.aggregator_words], stdout=subprocess.PIPE)
        if b"listening" not in self.aggregator.stdout.readline():
            raise SystemExit("the aggregator did not start: " + self.folder)

    def start_collector(self, node, *words):
        self.collectors[node] = self._spawn(
            f"collector{node}",
            [PROGRAM, "collector", "--connect", self.address, "--node", f"n{node}", "-v",
             "--spool", os.path.join(self.folder, f"spool{node}"),
             "--socket", os.path.join(self.folder, f"c{node}"), *self.collector_words, *words])

    def start_ranks(self):
        self.job = self._spawn(
            "ranks", [RANKS, "--socket", os.path.join(self.folder, "c"), "--sockets", str(self.nodes), "--world",
                      str(self.world), "--step-ms", str(self.step_ms), "--run", self.run, *self.rank_words],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.pids = json.loads(self.job.stdout.readline())["pids"]

    # ---- asking

    def ask(self, *words):
        done = subprocess.run([PROGRAM, *words, "--connect", self.address, "--json"], capture_output=True,
                              text=True, check=False)
        return json.loads(done.stdout) if done.stdout else None

    def ranks(self):
        return self.ask("ranks")["ranks"]

    def wait_ranks(self, count, seconds=300):
        """Until so many ranks are known, step and step time too."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            known = [r for r in self.ranks() if r["state"] != "gone" and (r["step"] or 0) >= 2]
            if len(known) >= count:
                return known
            time.sleep(0.2)
        raise AssertionError(f"{len(known)} of {count} ranks came; see {self.folder}")

    def foremost_step(self):
        return max(r["step"] for r in self.ranks() if r["step"] is not None)

    def capture(self, *words):
        return Capture(self, words)

    def show(self, capture_id):
        return self.ask("capture", "show", capture_id)

    def captures(self):
        return self.ask("capture", "list")["captures"]

    def wait_captures(self, count, seconds=300):
        """Until so many captures are closed; the newest last."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            closed = [c for c in self.captures() if c["closed_ns"]]
            if len(closed) >= count:
                return sorted(closed, key=lambda c: c["created_ns"])
            time.sleep(0.1)
        known = [(c["id"], c["state"], c["reason"]) for c in self.captures()]
        raise AssertionError(f"captures: {known}; see {self.folder}")

    def usage(self):
        """CPU seconds so far, and resident MiB, of the aggregator and of all collectors."""
        answer = {}
        for name, processes in (("aggregator", [self.aggregator]), ("collectors", self.collectors)):
            cpu = memory = 0.0
            for process in processes:
                with open(f"/proc/{process.pid}/stat", encoding="utf-8") as file:
                    fields = file.read().rsplit(")", 1)[1].split()
                cpu += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
                memory += int(fields[21]) * os.sysconf("SC_PAGE_SIZE") / 2**20
            answer[name] = (cpu, memory)
        return answer


def kill(pid):
    os.kill(pid, signal.SIGKILL)


def stop(pid):
    os.kill(pid, signal.SIGSTOP)


def go_on(pid):
    os.kill(pid, signal.SIGCONT)
