#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Summaries first, raw data by policy: findings without raw data, fetched later over restarts, damage that stays one stream's.

One aggregator, two collectors, eight native ranks. A capture with `--raw none` is complete when the summaries are stored; its
report is that of a capture whose raw data came. Then every daemon is killed, a segment of one held stream is damaged, and the
raw data is fetched: one chunk is named as lost, and everything else is there.
"""
import glob
import json
import os
import signal
import subprocess
import time

from rig_native import PROGRAM, Rig, kill

WORLD, NODES = 8, 2


def check(condition, text):
    if not condition:
        raise SystemExit(text)


def raw_bytes(rig, name):
    return sum(os.path.getsize(path) for path in glob.glob(os.path.join(rig.folder, "data", "captures", name, "segments", "*")))


def verify(rig, name):
    done = subprocess.run([PROGRAM, "verify", os.path.join(rig.folder, "data", "captures", name), "--json"],
                          capture_output=True, text=True)
    return done.returncode, json.loads(done.stdout)


def report(rig, name):
    done = subprocess.run([PROGRAM, "report", os.path.join(rig.folder, "data", "captures", name), "--json"],
                          capture_output=True, text=True)
    check(done.returncode == 0, f"report: {done.returncode} {done.stderr}")
    return json.loads(done.stdout)


def run_capture(rig, *words):
    before = {c["id"] for c in rig.captures()}
    capture = rig.capture("--steps", "4", "--no-report", *words)
    code, _ = capture.end()
    check(code == 0, f"capture {words}: {code}, {capture.text()}")
    return next(c["id"] for c in rig.captures() if c["id"] not in before)


def wait_held(rig, count, seconds=300):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if len(glob.glob(os.path.join(rig.folder, "spool*", "raw", "*"))) >= count:
            return
        time.sleep(0.1)
    raise SystemExit("the raw data is not in the spools")


def without_raw(rig):
    name = run_capture(rig, "--raw", "none")
    facts = rig.show(name)
    check(facts["state"] == "complete" and facts["raw"] == "none", f"{facts}")
    check(raw_bytes(rig, name) == 0, "raw data came that nobody asked for")
    found = report(rig, name)
    check(found["coverage"]["ranks_seen"] == WORLD and not found["coverage"]["partial_ranks"], f"{found['coverage']}")
    code, checked = verify(rig, name)
    check(code == 0 and checked["is_good"], f"verify: {checked}")
    check(all(s["summary"] == "only" for s in checked["streams"]) and len(checked["streams"]) == WORLD, f"{checked}")
    print("without raw data: complete, report of", found["coverage"]["ranks_seen"], "ranks, verify says summary only")
    return name, found


def some_ranks(rig):
    name = run_capture(rig, "--raw", "ranks 1,5-6")
    check(rig.show(name)["raw"] == "1,5,6", f"the policy is {rig.show(name)['raw']!r}")
    _, checked = verify(rig, name)
    raw = sorted(s["rank"] for s in checked["streams"] if s["summary"] == "equal")
    check(raw == [1, 5, 6], f"raw data of ranks {raw}")
    print("raw data of ranks 1, 5 and 6 only:", raw)
    return name


def returns_at_summaries(rig):
    """The default: findings are final when the verb returns, whatever of the raw data has still to come."""
    environment = {key: value for key, value in os.environ.items() if key != "RANKSCOPE_WAIT"}
    before = {c["id"] for c in rig.captures()}
    done = subprocess.run([PROGRAM, "capture", "--connect", rig.address, "--steps", "4", "--json"], capture_output=True,
                          text=True, env=environment)
    check(done.returncode == 0, f"capture: {done.returncode} {done.stderr}")
    check("provisional" not in done.stderr, f"told as provisional: {done.stderr}")
    name = next(c["id"] for c in rig.captures() if c["id"] not in before)
    told = "goes on in the background" in done.stderr
    # or all raw data is there and the capture about to be closed
    check(told or "complete" in done.stderr or f"{WORLD} done" in done.stderr, f"neither complete nor going on: {done.stderr}")
    waited = subprocess.run([PROGRAM, "capture", "wait", name, "--connect", rig.address, "--json"], capture_output=True,
                            text=True, env=environment)
    check(waited.returncode == 0 and rig.show(name)["state"] == "complete", f"wait: {waited.returncode} {waited.stderr}")
    check(json.loads(done.stdout) == json.loads(waited.stdout), "the report was another one when all raw data had come")
    code, checked = verify(rig, name)
    check(code == 0 and all(s["summary"] == "equal" for s in checked["streams"]), f"verify: {checked}")
    print("returned at its summaries", "before" if told else "with", "its raw data; the report stayed the same")


def restart_all(rig):
    kill(rig.aggregator.pid)
    rig.aggregator.wait()
    for node in range(NODES):
        kill(rig.collectors[node].pid)
        rig.collectors[node].wait()


def damage_one(rig):
    """A byte in the middle of one held stream of node 0, in a chunk of events: the largest records are those."""
    streams = sorted(glob.glob(os.path.join(rig.folder, "spool0", "raw", "*")))[-(WORLD // NODES):]  # the newest: of this capture
    path = max((segment for stream in streams for segment in glob.glob(os.path.join(stream, "*.seg"))), key=os.path.getsize)
    with open(path, "r+b") as file:
        data = file.read()
        file.seek(len(data) * 2 // 3)
        byte = file.read(1)[0]
        file.seek(len(data) * 2 // 3)
        file.write(bytes([byte ^ 1]))
    return path


def fetched_over_restarts(rig, name, before):
    restart_all(rig)
    hurt = damage_one(rig)
    rig.start_aggregator()
    for node in range(NODES):
        rig.start_collector(node)
    time.sleep(1)  # they are linked again; a fetch before that waits, too
    closed = rig.show(name)["closed_ns"]
    check(closed, "a capture whose raw data is held was opened again by a restart")
    done = subprocess.run([PROGRAM, "fetch", name, "--connect", rig.address], capture_output=True, text=True, timeout=90)
    check(done.returncode in (0, 1), f"fetch: {done.returncode} {done.stderr}")
    check(raw_bytes(rig, name) > 0, "no raw data came")
    code, checked = verify(rig, name)
    lost = [s for s in checked["streams"] if s["losses"]]
    whole = [s for s in checked["streams"] if s["summary"] == "equal"]
    check(len(whole) >= WORLD - 1, f"{checked}")
    check(all(s["missing"] == 0 and s["is_ended"] for s in checked["streams"]), f"{checked}")
    check(glob.glob(os.path.join(rig.folder, "spool0", "damaged", "*")), f"{hurt} was not kept aside")
    check(len(lost) <= 1, f"{lost}")
    check(report(rig, name)["coverage"]["ranks_seen"] == WORLD, "ranks went")
    print(f"fetched after kill -9 of all daemons and a flipped byte: {len(whole)} streams equal, lost: "
          f"{[s['losses'] for s in lost]}")


def wiped(rig):
    """The aggregator's data is gone while collectors hold theirs: what comes next is stored, nothing is stuck."""
    kill(rig.aggregator.pid)
    rig.aggregator.wait()
    os.rename(os.path.join(rig.folder, "data"), os.path.join(rig.folder, "gone"))
    rig.start_aggregator()
    rig.wait_ranks(WORLD)
    name = run_capture(rig)
    code, checked = verify(rig, name)
    check(code == 0 and len(checked["streams"]) == WORLD, f"after the wipe: {checked}")
    print("after its data was wiped:", len(checked["streams"]), "streams stored and equal")


def main():
    with Rig(WORLD, NODES, 60) as rig:
        rig.wait_ranks(WORLD)
        returns_at_summaries(rig)
        name, found = without_raw(rig)
        wait_held(rig, WORLD)
        some_ranks(rig)
        fetched_over_restarts(rig, name, found)
        rig.wait_ranks(WORLD)
        wiped(rig)


if __name__ == "__main__":
    main()
