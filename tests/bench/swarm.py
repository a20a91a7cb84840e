#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What thousands of ranks cost an aggregator: idle, in a capture, and until its report. A table.

    swarm.py [--build build/release] [--ranks 1000,10000] [--links 250] [--steps 5] [--step-ms 1000] [--plain]

Nodes are made up (bench_swarm: the collector's own spool, uplink and mailboxes, one process for all of them), the aggregator and the
command line are real, and every link has a certificate of its own (--plain: none). One rank is a tenth of a step slower than all others
and has to be named first. The sides share this machine, so CPU is told of the aggregator alone, and wall times are of a machine that simulates the
cluster beside it.

    idle        resident KiB per rank, and CPU of one core, with all ranks known and nothing asked
    report      from the last rank that was packed to the report's return, wall
    closed      and until the capture is closed: raw data of all ranks stored
    CPU         of the aggregator for one capture, in ms per rank and stream
    peak        largest resident KiB per rank
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]


def usage_of(pid):
    """(CPU seconds, resident KiB, its peak)"""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        status = dict(line.split(":", 1) for line in file)
    return ((int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), int(status["VmRSS"].split()[0]), int(status["VmHWM"].split()[0]))


class Swarm:
    def __init__(self, options, ranks, folder):
        self.options, self.ranks, self.folder = options, ranks, folder
        self.program = str(options.build / "rankscope")
        self.data = os.path.join(folder, "data")
        self.environment = dict(os.environ, RANKSCOPE_CONFIG="", LC_ALL="C")
        self.links = min(options.links, ranks)
        self.aggregator = self.nodes = None

    def run(self, *words, seconds=600):
        done = subprocess.run([self.program, *words], capture_output=True, text=True, check=False, timeout=seconds, env=self.environment)
        if done.returncode not in (0, 1):
            raise SystemExit(f"swarm: {words}: exit {done.returncode}: {done.stderr[-2000:]}")
        return done

    def asked(self, *words, seconds=600):
        return self.run(*words, *self.way, seconds=seconds)

    def start(self):
        plain = self.options.plain
        words = [self.program, "aggregator", "--listen", "127.0.0.1:0", "--data", self.data]
        if not plain:
            self.run("certs", "init", "--data", self.data, "--host", "127.0.0.1")
            self.run("certs", "issue", "operator", "bench", "--out", os.path.join(self.folder, "operator"), "--data", self.data)
            for link in range(self.links):
                self.run("certs", "issue", "node", f"node{link:04}", "--out", os.path.join(self.folder, "certs", f"node{link:04}"),
                         "--data", self.data)
        self.log = open(os.path.join(self.folder, "log"), "w", encoding="utf-8")  # pylint: disable=consider-using-with
        self.aggregator = subprocess.Popen(words + (["--insecure-loopback"] if plain else []), stdout=subprocess.PIPE, stderr=self.log, text=True,
                                           env=self.environment)
        address = self.aggregator.stdout.readline().split()[-1]
        self.way = ["--connect", address] + (["--insecure-loopback"] if plain else ["--certs", os.path.join(self.folder, "operator")])
        begun = time.monotonic()
        self.nodes = subprocess.Popen([self.options.build / "bench_swarm", "--connect", address, "--dir", os.path.join(self.folder, "nodes"),
                                       "--ranks", str(self.ranks), "--links", str(self.links), "--step-ms", str(self.options.step_ms),
                                       "--slow-rank", str(self.slow_rank), *([] if plain else ["--certs", os.path.join(self.folder, "certs")])],
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True)
        up = json.loads(self.nodes.stdout.readline())
        while self.known() < self.ranks:
            time.sleep(1)
        return up["links_up"], time.monotonic() - begun

    @property
    def slow_rank(self):
        return self.ranks // 3

    def known(self):
        return len(json.loads(self.asked("ranks", "--json").stdout)["ranks"])

    def capture(self):
        before = usage_of(self.aggregator.pid)
        begun = time.time()
        done = self.asked("capture", "--run", "swarm", "--steps", str(self.options.steps), "--json", "--timeout", "1800s", seconds=3600)
        returned = time.time()
        report = json.loads(done.stdout)
        if self.options.keep:
            pathlib.Path(self.options.keep).write_text(done.stdout, encoding="utf-8")
        line = self.nodes.stdout.readline()
        if not line or done.returncode:
            with open(self.log.name, encoding="utf-8") as file:
                raise SystemExit(f"swarm: capture: exit {done.returncode}, nodes: exit {self.nodes.poll()}: {done.stderr[-1000:]}\n{file.read()[-2000:]}")
        written = json.loads(line)["at_ns"] / 1e9
        while True:
            newest = max(json.loads(self.asked("capture", "list", "--json").stdout)["captures"], key=lambda c: c["created_ns"])
            if newest["closed_ns"]:
                break
            time.sleep(1)
        after = usage_of(self.aggregator.pid)
        named = [f["where"] for f in report["findings"] if f["confidence"] != "weak"]
        return {"state": newest["state"], "reason": newest["reason"], "exit": done.returncode, "asked_to_written_s": written - begun,
                "report_s": returned - written, "closed_s": newest["closed_ns"] / 1e9 - written,
                "cpu_s": after[0] - before[0], "peak_kib": after[2], "named": named, "seen": report["coverage"]["ranks_seen"]}

    def stop(self):
        for process, end in ((self.nodes, lambda p: p.stdin.close()), (self.aggregator, lambda p: p.terminate())):
            if process:
                end(process)
                try:
                    process.wait(300)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


def one(options, ranks):
    with tempfile.TemporaryDirectory(prefix="rs-swarm-", dir=options.dir) as folder:
        swarm = Swarm(options, ranks, folder)
        try:
            links, known_s = swarm.start()
            before = usage_of(swarm.aggregator.pid)
            time.sleep(10)
            after = usage_of(swarm.aggregator.pid)
            facts = {"ranks": ranks, "links": links, "known_s": known_s, "idle_kib_per_rank": after[1] / ranks, "idle_core": (after[0] - before[0]) / 10}
            facts.update(swarm.capture())
        finally:
            swarm.stop()
        facts["is_right"] = facts["named"][:1] == [{"rank": swarm.slow_rank}] and facts["state"] == "complete" and facts["seen"] == ranks
        return facts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=lambda text: pathlib.Path(text).resolve(), default=ROOT / "build/release")
    parser.add_argument("--ranks", default="1000,10000")
    parser.add_argument("--links", type=int, default=250)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--step-ms", type=int, default=1000)
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--keep", metavar="FILE", help="the last report.json")
    parser.add_argument("--dir", help="where folders are made (default: TMPDIR)")
    options = parser.parse_args()
    is_right = True
    print(f"{'ranks':>7} {'links':>5} {'all known s':>11} {'idle KiB/rank':>13} {'idle core':>9} {'report s':>8} {'closed s':>8} {'CPU ms/rank':>11} "
          f"{'peak KiB/rank':>13}  named")
    for ranks in map(int, options.ranks.split(",")):
        facts = one(options, ranks)
        print(f"{ranks:7} {facts['links']:5} {facts['known_s']:11.1f} {facts['idle_kib_per_rank']:13.1f} {facts['idle_core']:9.1%} {facts['report_s']:8.1f} "
              f"{facts['closed_s']:8.1f} {1000 * facts['cpu_s'] / ranks:11.2f} {facts['peak_kib'] / ranks:13.1f}  "
              f"{'right' if facts['is_right'] else 'NOT RIGHT'}: {facts['state']} {facts['reason']} {facts['named'][:3]}", flush=True)
        is_right = is_right and facts["is_right"]
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
