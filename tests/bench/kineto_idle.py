#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a collector costs while nobody asks for anything: CPU and memory, with registered PyTorch-like processes.

    RANKSCOPE=build/rankscope tests/bench/kineto_idle.py [--ranks 8] [--seconds 60] [--tls] [--json]

The processes keep to the profiler's rules (tests/e2e/kineto_client.py) and ask for work every 5 s, as PyTorch's do. CPU is the
scheduler's own count in ns, of each thread. The link is a unix socket, or with --tls loopback TCP with certificates. Wants: below 0.15 % of
one core, below 30 MiB. Exit 1 when it is more.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from test_kineto_clients import PROGRAM, Rig, check  # noqa: E402

CPU_LIMIT_PERCENT = 0.15
MEMORY_LIMIT_MIB = 30


class IdleRig(Rig):
    """With all its adapters, as it is started without options."""

    certs = ""

    def go_over_tls(self):
        """Both again, with certificates."""
        self.collector.terminate()
        self.collector.wait()
        self.aggregator.terminate()
        self.aggregator.wait()
        data = os.path.join(self.folder, "data")
        self.certs = os.path.join(self.folder, "node")
        operator = os.path.join(self.folder, "operator")
        for words in (("init", "--host", "127.0.0.1"), ("issue", "node", "idle", "--out", self.certs),
                      ("issue", "operator", "idle", "--out", operator)):
            subprocess.run([PROGRAM, "certs", *words, "--data", data], check=True, env=self.environment, stdout=subprocess.DEVNULL)
        self.aggregator = subprocess.Popen([PROGRAM, "aggregator", "--listen", "127.0.0.1:0", "--data", data], stdout=subprocess.PIPE,
                                           env=self.environment, text=True)
        line = self.aggregator.stdout.readline()
        check("listening" in line, "the aggregator did not start: " + line)
        self.address = line.split()[-1]
        self.environment["RANKSCOPE_CERTS"] = operator
        self.start_collector()

    def collector_words(self, spool="spool"):
        return [word for word in super().collector_words(spool) if word != "--no-native"] + (["--certs", self.certs] if self.certs else [])


def threads(pid):
    """Of each thread: name, ns on a CPU, times it went to sleep of itself."""
    found = {}
    for tid in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{tid}/schedstat", encoding="ascii") as file:
            ns = int(file.read().split()[0])
        with open(f"/proc/{pid}/task/{tid}/status", encoding="ascii") as file:
            text = file.read()
        found[tid] = (re.search(r"Name:\s+(\S+)", text).group(1), ns,
                      int(re.search(r"\nvoluntary_ctxt_switches:\s+(\d+)", text).group(1)))
    return found


def memory_mib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return int(re.search(r"VmRSS:\s+(\d+)", file.read()).group(1)) / 1024


def measure(rig, args):
    for rank in range(args.ranks):
        rig.start_client("idle", rank, args.ranks, "--period", "5")
    rig.ask("ranks", "--run", "idle", "--wait", str(args.ranks), "-q")
    time.sleep(10)  # starting is over
    before = threads(rig.collector.pid)
    begin = time.monotonic()
    time.sleep(args.seconds)
    took = time.monotonic() - begin
    rows = []
    for tid, (name, ns, sleeps) in threads(rig.collector.pid).items():
        _, ns_before, sleeps_before = before.get(tid, (name, 0, 0))
        rows.append({"thread": name, "cpu_percent": round((ns - ns_before) / took / 1e7, 4),
                     "wakeups_per_s": round((sleeps - sleeps_before) / took, 2)})
    return {"ranks": args.ranks, "seconds": round(took, 1), "cpu_percent": round(sum(r["cpu_percent"] for r in rows), 4),
            "memory_mib": round(memory_mib(rig.collector.pid), 1), "threads": rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--tls", action="store_true")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="rs-idle-") as folder:
        rig = IdleRig(folder)
        try:
            if args.tls:
                rig.go_over_tls()
            facts = measure(rig, args)
        finally:
            rig.stop()
    if args.json:
        print(json.dumps(facts))
    else:
        for row in facts["threads"]:
            print(f"  {row['thread']:<16} {row['cpu_percent']:7.4f} %  {row['wakeups_per_s']:6.2f} wake-ups/s")
        print(f"collector with {facts['ranks']} registered processes, idle for {facts['seconds']:.0f} s: "
              f"{facts['cpu_percent']:.4f} % of a core, {facts['memory_mib']:.1f} MiB")
    sys.exit(0 if facts["cpu_percent"] < CPU_LIMIT_PERCENT and facts["memory_mib"] < MEMORY_LIMIT_MIB else 1)


if __name__ == "__main__":
    main()
