#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kill -9 of either side at random moments of a stream: nothing missing, nothing double.

A real aggregator and a collector of made-up ranks (bench_stream feed: the real spool and uplink). Every kill hits
one of the two at a random moment; it is started again at once. At the end `rankscope verify` must find every
chunk once, every summary equal, and as many rows as were fed.

    KILL9_BYTES  size of the stream (default 64 MiB; the acceptance run uses 1100000000)
    KILL9_KILLS  how many kills (default 3; the acceptance run uses 20)
    KILL9_SEED   of the random moments
"""
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

PROGRAM = os.environ["RANKSCOPE"]
FEEDER = os.path.join(os.environ["RANKSCOPE_BUILD"], "bench_stream")
BYTES = int(os.environ.get("KILL9_BYTES", 64 << 20))
KILLS = int(os.environ.get("KILL9_KILLS", 3))
RANKS = 4
SEED = int(os.environ.get("KILL9_SEED", random.randrange(1 << 30)))


def start_aggregator(folder, address):
    log = open(os.path.join(folder, "aggregator.log"), "ab")
    process = subprocess.Popen(
        [PROGRAM, "aggregator", "--listen", address, "--data", os.path.join(folder, "data"), "-v"],
        stdout=subprocess.PIPE, stderr=log)
    line = process.stdout.readline()
    if b"listening" not in line:
        raise SystemExit("the aggregator did not start: see " + folder)
    return process


def start_feeder(folder, address):
    log = open(os.path.join(folder, "feeder.log"), "ab")
    return subprocess.Popen(
        [FEEDER, "feed", "--connect", address, "--spool", os.path.join(folder, "spool"),
         "--ranks", str(RANKS), "--bytes", str(BYTES)],
        stdout=subprocess.PIPE, stderr=log)


def capture_bytes(folder):
    total = 0
    for root, _, files in os.walk(os.path.join(folder, "data", "captures")):
        total += sum(os.path.getsize(os.path.join(root, f)) for f in files if f.endswith(".seg"))
    return total


def ask(address, *words):
    done = subprocess.run([PROGRAM, *words, "--connect", address, "--json"], capture_output=True)
    return json.loads(done.stdout) if done.stdout else None


def wait_closed(address, seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        listing = ask(address, "capture", "list")
        if listing and listing["captures"] and all(c["closed_ns"] for c in listing["captures"]):
            return listing["captures"]
        time.sleep(0.2)
    raise SystemExit("the capture was not closed in time")


def kill_at_random(folder, address, aggregator, feeder, kills, picker):
    """Kills are spread over the bytes that become durable, so that each hits a stream under way."""
    done = 0
    hits = {"aggregator": 0, "collector": 0}
    while done < kills:
        target = (done + picker.random()) / (kills + 1) * BYTES
        while capture_bytes(folder) < target and feeder.poll() is None:
            time.sleep(0.002)
        if feeder.poll() is not None:
            break
        time.sleep(picker.random() * 0.02)
        if picker.random() < 0.5:
            aggregator.send_signal(signal.SIGKILL)
            aggregator.wait()
            aggregator = start_aggregator(folder, address)
            hits["aggregator"] += 1
        else:
            feeder.send_signal(signal.SIGKILL)
            feeder.wait()
            feeder = start_feeder(folder, address)
            hits["collector"] += 1
        done += 1
    return aggregator, feeder, hits


def main():
    picker = random.Random(SEED)
    folder = tempfile.mkdtemp(prefix="rankscope-kill9-")
    address = "unix:" + os.path.join(folder, "a.sock")
    aggregator = start_aggregator(folder, address)
    feeder = start_feeder(folder, address)
    try:
        started = time.monotonic()
        aggregator, feeder, hits = kill_at_random(folder, address, aggregator, feeder, KILLS, picker)
        output, _ = feeder.communicate(timeout=800)
        if feeder.returncode != 0:
            raise SystemExit("the feeder failed: see " + folder)
        fed = json.loads(output)
        captures = wait_closed(address, 60)
        rows = streams = chunks = size = 0
        for capture in captures:
            done = subprocess.run([PROGRAM, "verify", capture["directory"], "--json"],
                                  capture_output=True)
            found = json.loads(done.stdout)
            if done.returncode != 0 or not found["is_good"]:
                raise SystemExit("verify: " + done.stdout.decode())
            if any(s["summary"] != "equal" for s in found["streams"]):
                raise SystemExit("a summary is another: " + done.stdout.decode())
            rows += sum(s["rows"] for s in found["streams"])
            chunks += sum(s["chunks"] for s in found["streams"])
            size += sum(s["bytes"] for s in found["streams"])
            streams += len(found["streams"])
        if (rows, streams, len(captures)) != (fed["rows"], RANKS, 1):
            raise SystemExit(f"fed {fed}, found {rows} rows in {streams} streams of {captures}")
        if sum(hits.values()) != KILLS:
            raise SystemExit(f"only {hits} of {KILLS} kills hit: the stream was too short")
        print(f"kill -9: {hits['aggregator']} x aggregator, {hits['collector']} x collector in a stream "
              f"of {size} bytes, {chunks} chunks, {rows} rows, {time.monotonic() - started:.1f} s: "
              f"nothing missing, nothing double (seed {SEED})")
    except BaseException:
        print(f"seed {SEED}, kept: {folder}", file=sys.stderr)
        raise
    finally:
        for process in (aggregator, feeder):
            if process.poll() is None:
                process.terminate()
                process.wait()
    subprocess.run(["rm", "-rf", folder], check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
