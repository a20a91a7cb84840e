#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A disk that takes half a second for every sync holds nobody up but those who wait for it.

A collector comes with the streams of 64 ranks, whose capture is not there yet: the last of 64 is opened at most a second later than
on a quick disk. In the end the capture is complete.

Beside a peer that opens 3,000 streams, each of a new capture, another's heartbeats are answered within a second (slow_opens.c).
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

from test_analyse import write_traces

PROGRAM = os.environ["RANKSCOPE"]
SHIM = os.path.join(os.environ["RANKSCOPE_BUILD"], "shim_sync.so")
OPENS = os.path.join(os.environ["RANKSCOPE_BUILD"], "slow_opens")
RANKS = 64


def wait_for(what, found, seconds=300):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        value = found()
        if value:
            return value
        time.sleep(0.01)
    raise SystemExit(f"timed out: {what}")


def lines_of(path, word):
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8", errors="replace") as file:
        return [line for line in file if word in line]


def collect(folder, address):
    return subprocess.Popen([PROGRAM, "collector", "--connect", address, "--spool", folder + "/spool", "--watch",
                             folder + "/traces", "--no-native", "--no-kineto", "--no-ascend", "--no-mindspore",
                             "--settle", "300ms", "--drain", "0s", "-v"], stderr=open(folder + "/collector.log", "ab"))


def run(delay_ms, folder):
    """Seconds from the collector's start until as many streams are opened as there are ranks."""
    address = f"unix:{folder}/a.sock"
    log = folder + "/shim.log"
    write_traces(folder + "/traces", world=RANKS)
    with collect(folder, address) as collector:  # nobody is there: everything is in its spool
        wait_for("the spool is full", lambda: len(lines_of(folder + "/collector.log", " rows in ")) >= RANKS)
        collector.terminate()
    environment = dict(os.environ, LD_PRELOAD=SHIM, SHIM_LOG=log, SHIM_DELAY_MS=str(delay_ms))
    with subprocess.Popen([PROGRAM, "aggregator", "--listen", address, "--data", folder + "/data"], env=environment,
                          stdout=subprocess.PIPE) as aggregator:
        try:
            if b"listening" not in aggregator.stdout.readline():
                raise SystemExit("the aggregator did not start")
            begin = time.monotonic()
            with collect(folder, address) as collector:
                try:
                    wait_for("streams are opened", lambda: len(set(lines_of(log, "opened "))) >= RANKS)
                    seconds = time.monotonic() - begin

                    def complete():
                        done = subprocess.run([PROGRAM, "capture", "list", "--json", "--connect", address],
                                              capture_output=True, check=True)
                        found = json.loads(done.stdout)["captures"]
                        return found and found[0]["closed_ns"] and found[0]

                    capture = wait_for("the capture is closed", complete)
                    if capture["state"] != "complete":
                        raise SystemExit(f"the capture is {capture['state']}: {capture}")
                finally:
                    collector.terminate()
        finally:
            aggregator.terminate()
    return seconds


def heartbeats():
    folder = tempfile.mkdtemp(prefix="rs-e2e-")
    environment = dict(os.environ, LD_PRELOAD=SHIM, SHIM_LOG=folder + "/shim.log", SHIM_DELAY_MS="500")
    done = subprocess.run([OPENS, folder + "/data", "10"], env=environment, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    figures = json.loads(done.stdout)
    if not lines_of(folder + "/shim.log", "sync"):
        raise SystemExit("nothing was synced: the disk was not slow")
    shutil.rmtree(folder)
    print("3,000 opens, 500 ms a sync:", figures)
    if figures["opens"] < 3000 or figures["heartbeats"] < 10:
        raise SystemExit(f"too little was asked: {figures}")
    if figures["slowest_ms"] > 1000:
        raise SystemExit(f"a heartbeat waited for {figures['slowest_ms']} ms")


def main():
    if not os.path.exists(SHIM):
        print("skipped: no shim in a build with sanitizers")
        return 77
    seconds = []
    for delay in (0, 500):
        folder = tempfile.mkdtemp(prefix="rs-e2e-")
        seconds.append(run(delay, folder))
        shutil.rmtree(folder)
    heartbeats()
    print(f"{RANKS} streams opened after {seconds[0]:.3f} s, with 500 ms a sync after {seconds[1]:.3f} s")
    if seconds[1] - seconds[0] > 1.0:
        raise SystemExit("the slow disk holds the streams up for more than a second")
    return 0


if __name__ == "__main__":
    sys.exit(main())
