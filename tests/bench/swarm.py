#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What thousands of ranks cost their aggregators: idle, in a capture, and until the report. A table.

    swarm.py [--build build/release] [--ranks 1000,10000] [--aggregators 1] [--links 250] [--steps 5] [--ops 10] [--step-ms 1000] [--plain] [--clickhouse]

Nodes are made up (bench_swarm: the collector's own spool, uplink and mailboxes, one process for all that one aggregator has), aggregators
and command lines are real, and every link has a certificate of its own (--plain: none). One rank of a run is a tenth of a step slower than all
others and has to be named first. All sides share this machine, so CPU is told of aggregators alone, and wall times are of a machine that simulates
the cluster beside them.

Of several aggregators each has its share of the ranks, as a run of its own, and all runs are captured at the same time. With --clickhouse their
rows and the catalogue of captures are in one ClickHouse (a server of this script's own), without in each one's own files.

    idle        resident KiB per rank, CPU, and bytes over the links, with all ranks known and nothing asked, but that they tell their steps
    summary     bytes of a rank and step in the summary lane, as stored
    report      from the last rank that was packed to the report's return, wall; of the slowest of several
    closed      and until the capture is closed: raw data of all ranks stored
    at rest     and until no aggregator has anything left to do
    CPU         of the aggregators until then, in ms per rank, and in us per rank and step
    peak        largest resident KiB per rank, of all; largest MiB of one aggregator
"""
import argparse
import concurrent.futures
import glob
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
IDLE_S = 20


def usage_of(pid):
    """(CPU seconds, resident KiB, its peak)"""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        status = dict(line.split(":", 1) for line in file)
    return ((int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), int(status["VmRSS"].split()[0]), int(status["VmHWM"].split()[0]))


def received(port):
    """Bytes that came over the links that are there, TLS included; None: `ss` cannot tell."""
    try:
        told = subprocess.run(["ss", "-Htin", "state", "established", f"sport = :{port}"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    return sum(map(int, re.findall(r"bytes_received:(\d+)", told)))


class Swarm:
    """One aggregator, and the nodes of its run."""

    def __init__(self, options, ranks, number, folder, store):
        self.options, self.ranks, self.run_name = options, ranks, f"swarm{number}"
        self.folder = os.path.join(folder, self.run_name)
        os.mkdir(self.folder)
        self.program = str(options.build / "rankscope")
        self.data = os.path.join(self.folder, "data")
        self.environment = dict(os.environ, RANKSCOPE_CONFIG="", LC_ALL="C")
        self.links = min(options.links, ranks)
        self.store = store
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
        words = [self.program, "aggregator", "--listen", "127.0.0.1:0", "--data", self.data, *self.store]
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
        self.port = address.rsplit(":", 1)[-1]
        self.way = ["--connect", address] + (["--insecure-loopback"] if plain else ["--certs", os.path.join(self.folder, "operator")])
        begun = time.monotonic()
        self.nodes = subprocess.Popen([self.options.build / "bench_swarm", "--connect", address, "--dir", os.path.join(self.folder, "nodes"),
                                       "--run", self.run_name, "--ranks", str(self.ranks), "--links", str(self.links),
                                       "--ops", str(self.options.ops), "--step-ms", str(self.options.step_ms), "--slow-rank", str(self.slow_rank),
                                       *([] if plain else ["--certs", os.path.join(self.folder, "certs")])],
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True)
        up = json.loads(self.nodes.stdout.readline())
        while self.known() < self.ranks:
            time.sleep(1)
        self.links_up, self.known_s = up["links_up"], time.monotonic() - begun

    @property
    def slow_rank(self):
        return self.ranks // 3

    def known(self):
        return len(json.loads(self.asked("ranks", "--json").stdout)["ranks"])

    def usage(self):
        return usage_of(self.aggregator.pid)

    def capture(self):
        before = self.usage()
        done = self.asked("capture", "--run", self.run_name, "--steps", str(self.options.steps), "--json", "--timeout", "1800s", seconds=3600)
        returned = time.time()
        report = json.loads(done.stdout) if done.stdout else None
        if self.options.keep:
            pathlib.Path(f"{self.options.keep}.{self.run_name}").write_text(done.stdout, encoding="utf-8")
        line = self.nodes.stdout.readline()
        if not line or not report or done.returncode:
            with open(self.log.name, encoding="utf-8") as file:
                raise SystemExit(f"swarm: capture: exit {done.returncode}, nodes: exit {self.nodes.poll()}: {done.stderr[-1000:]}\n{file.read()[-2000:]}")
        written = json.loads(line)["at_ns"] / 1e9
        while True:
            newest = max((c for c in json.loads(self.asked("capture", "list", "--run", self.run_name, "--json").stdout)["captures"]),
                         key=lambda c: c["created_ns"])
            if newest["closed_ns"]:
                break
            time.sleep(1)
        rest_s = self.come_to_rest() - written
        after = self.usage()
        rank_steps = self.ranks * self.options.steps
        lanes = {lane: sum(map(os.path.getsize, glob.glob(f"{self.data}/captures/{newest['id']}/{lane}/*.seg"))) / rank_steps
                 for lane in ("summaries", "segments")}
        named = [f["where"] for f in report["findings"] if f["confidence"] != "weak"]
        is_right = named[:1] == [{"rank": self.slow_rank}] and newest["state"] == "complete" and report["coverage"]["ranks_seen"] == self.ranks
        return {"report_s": returned - written, "closed_s": newest["closed_ns"] / 1e9 - written, "rest_s": rest_s, "cpu_s": after[0] - before[0],
                "peak_kib": after[2], "summary_bytes": lanes["summaries"], "raw_bytes": lanes["segments"], "is_right": is_right,
                "words": "right" if is_right else f"NOT RIGHT: {newest['state']} {newest['reason']} {named[:3]}"}

    def come_to_rest(self):
        """Two seconds of less than a fifth of a core; when they began."""
        quiet = 0
        while quiet < 2:
            before = self.usage()[0]
            time.sleep(1)
            quiet = quiet + 1 if self.usage()[0] - before < 0.2 + 2e-6 * self.ranks else 0
        return time.time() - quiet

    def stop(self):
        for process, end in ((self.nodes, lambda p: p.stdin.close()), (self.aggregator, lambda p: p.terminate())):
            if process:
                end(process)
                try:
                    process.wait(300)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


def idle_of(swarms, options, ranks):
    ports = [swarm.port for swarm in swarms]
    before = [swarm.usage() for swarm in swarms]
    bytes_before = [received(port) for port in ports]
    time.sleep(IDLE_S)
    after = [swarm.usage() for swarm in swarms]
    bytes_after = [received(port) for port in ports]
    cores = sum(b[0] - a[0] for a, b in zip(before, after)) / IDLE_S
    per_rank_step = options.step_ms / 1000 / ranks
    is_known = None not in bytes_before + bytes_after
    return {"idle_kib": sum(one[1] for one in after) / ranks, "idle_core": cores, "idle_us": 1e6 * cores * per_rank_step,
            "idle_bytes": (sum(bytes_after) - sum(bytes_before)) / IDLE_S * per_rank_step if is_known else None}


def one(options, ranks, server):
    with tempfile.TemporaryDirectory(prefix="rs-swarm-", dir=options.dir) as folder:
        count = options.aggregators
        store = server.words(f"swarm{ranks}") if server else []
        swarms = [Swarm(options, ranks * (i + 1) // count - ranks * i // count, i, folder, store) for i in range(count)]
        try:
            with concurrent.futures.ThreadPoolExecutor(count) as pool:
                for future in [pool.submit(swarm.start) for swarm in swarms]:
                    future.result()
                facts = {"links": sum(swarm.links_up for swarm in swarms), "known_s": max(swarm.known_s for swarm in swarms)}
                facts.update(idle_of(swarms, options, ranks))
                captured = [future.result() for future in [pool.submit(swarm.capture) for swarm in swarms]]
        finally:
            for swarm in swarms:
                swarm.stop()
        for slowest in ("report_s", "closed_s", "rest_s"):
            facts[slowest] = max(one[slowest] for one in captured)
        for name in ("summary_bytes", "raw_bytes"):
            facts[name] = sum(one[name] * swarm.ranks for one, swarm in zip(captured, swarms)) / ranks
        facts["cpu_s"] = sum(one["cpu_s"] for one in captured)
        facts["peak_kib"] = sum(one["peak_kib"] for one in captured)
        facts["largest_mib"] = max(one["peak_kib"] for one in captured) / 1024
        facts["is_right"] = all(one["is_right"] for one in captured)
        facts["words"] = "; ".join(sorted({one["words"] for one in captured}))
        return facts


COLUMNS = (("ranks", 7), ("aggr", 4), ("links", 5), ("known s", 7), ("idle KiB/rank", 13), ("idle core", 9), ("us/rank-step", 12), ("B/rank-step", 11),
           ("summary B/rank-step", 19), ("report s", 8), ("closed s", 8), ("at rest s", 9), ("CPU ms/rank", 11), ("us/rank-step", 12),
           ("peak KiB/rank", 13), ("peak MiB", 8))


def line_of(options, ranks, facts):
    cells = (ranks, options.aggregators, facts["links"], f"{facts['known_s']:.1f}", f"{facts['idle_kib']:.1f}", f"{facts['idle_core']:.1%}",
             f"{facts['idle_us']:.1f}", "" if facts["idle_bytes"] is None else f"{facts['idle_bytes']:.0f}", f"{facts['summary_bytes']:.0f}",
             f"{facts['report_s']:.1f}", f"{facts['closed_s']:.1f}", f"{facts['rest_s']:.1f}", f"{1000 * facts['cpu_s'] / ranks:.2f}",
             f"{1e6 * facts['cpu_s'] / ranks / options.steps:.0f}", f"{facts['peak_kib'] / ranks:.1f}", f"{facts['largest_mib']:.0f}")
    return " ".join(f"{cell:>{width}}" for cell, (_, width) in zip(cells, COLUMNS)) + "  " + facts["words"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=lambda text: pathlib.Path(text).resolve(), default=ROOT / "build/release")
    parser.add_argument("--ranks", default="1000,10000", help="of all aggregators together")
    parser.add_argument("--aggregators", type=int, default=1)
    parser.add_argument("--links", type=int, default=250, help="of each aggregator")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--ops", type=int, default=10, help="collective operations of a step")
    parser.add_argument("--step-ms", type=int, default=1000)
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--clickhouse", action="store_true")
    parser.add_argument("--keep", metavar="FILE", help="reports of the last line, FILE.swarm0 and so on")
    parser.add_argument("--dir", help="where folders are made (default: TMPDIR)")
    options = parser.parse_args()
    is_right = True
    with tempfile.TemporaryDirectory(prefix="rs-swarm-store-", dir=options.dir) as folder:
        server = None
        if options.clickhouse:
            sys.path.insert(0, str(ROOT / "tests/e2e"))
            import rig_clickhouse  # pylint: disable=import-outside-toplevel
            if not rig_clickhouse.found():
                raise SystemExit("swarm: no clickhouse-server here")
            server = rig_clickhouse.Server(folder)
        try:
            print(" ".join(f"{name:>{width}}" for name, width in COLUMNS) + "  said", flush=True)
            for ranks in map(int, options.ranks.split(",")):
                facts = one(options, ranks, server)
                print(line_of(options, ranks, facts), flush=True)
                is_right = is_right and facts["is_right"]
        finally:
            if server:
                server.close()
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
