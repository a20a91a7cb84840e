#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The aggregator joins while ranks record: findings before a capture ends, every read answers meanwhile, and an aggregator that is
killed in the middle of joins ends with the rows of one that was not.

    test_live_join.py [--kills N]      3 kills when ctest runs it; acceptance wants --kills 20

With RANKSCOPE_E2E_STORE=clickhouse rows are in a database (rig_clickhouse.py), and what it has is copied back at the end.

A native job with one slow rank. Nothing is measured: what is waited for is an event, however long the machine takes.
"""
import argparse
import glob
import json
import os
import random
import sqlite3
import subprocess
import sys
import time

from machine import is_crowded
from rig_native import BUILD, PROGRAM, Rig, go_on, kill, stop

WORLD, SLOW, STEPS = 6, 4, 2000  # more steps than three kills take: it is stopped
STOOD_S = 3


def check(condition, text):
    if not condition:
        raise SystemExit(text)


def wait_until(what, is_it, seconds=300):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found = is_it()
        if found:
            return found
        time.sleep(0.05)
    raise SystemExit(f"it never came: {what}")


def run(*words, codes=(0,)):
    done = subprocess.run(words, capture_output=True, text=True)
    check(done.returncode in codes, f"{words}: {done.returncode} {done.stderr}")
    return done


def begin(rig):
    rig.wait_ranks(WORLD)
    # However slow the machine is: nobody but us ends it.
    capture = rig.capture("--steps", str(STEPS), "--raw", "none", "--no-report", "--set", "max_duration_s=3000", "--force")
    return capture, wait_until("the capture", rig.captures)[-1]["id"]


def end(rig, capture, name):
    run(PROGRAM, "capture", "stop", name, "--connect", rig.address)
    capture.end()
    closed = rig.wait_captures(1)[-1]
    check(closed["findings"] is None, "a closed capture is no longer told as joined so far")
    return closed


def reads_answer(rig, name):
    """Every named read, over the link, while it records."""
    reads = [line.split()[0] for line in run(PROGRAM, "table").stdout.splitlines() if line.strip()]
    check(len(reads) > 5, f"reads: {reads}")
    rows = {}
    for read in reads:
        answer = json.loads(run(PROGRAM, "table", name, read, *(["--ranks", f"0-{WORLD - 1}"] if read in ("span", "host_span", "counter") else []),
                                "--connect", rig.address, "--json").stdout)
        rows[read] = len(answer["rows"])
        check(answer["is_provisional"], f"{read} of a capture that goes on is told as final")
    return rows


def provisional(rig, capture, name):
    def told():
        facts = rig.show(name)
        found = facts["findings"]
        return facts if found and found["recording"] and f"Rank {SLOW} is slow" in (found["first"] or "") else None

    facts = wait_until("a provisional finding that names the slow rank", told)
    found = facts["findings"]
    check(facts["state"] == "recording" and found["is_provisional"], f"{facts}")
    check(max(r["steps_done"] for r in facts["ranks"]) < STEPS, "it was at its end already")
    text = run(PROGRAM, "capture", "show", name, "--connect", rig.address).stdout
    check("provisional: " in text and "still recording" in text, text)
    done = subprocess.run([PROGRAM, "report", name, "--connect", rig.address, "--json"], capture_output=True, text=True)
    coverage = json.loads(done.stdout)["coverage"]
    check("provisional" in done.stderr and coverage["ranks_seen"] == WORLD, f"{done.stderr} {coverage}")
    rows = reads_answer(rig, name)
    print(f"provisional after {found['last_step']}: {found['first']}; {len(rows)} reads answered")
    segments = glob.glob(os.path.join(rig.folder, "data", "captures", name, "segments", "*"))
    check(sum(os.path.getsize(p) for p in segments) == 0, "raw data came that nobody asked for")


def tables_of(folder):
    """What rows.db says but for generations and the state of the capture (joined before it was closed), and the members' segments
    by step."""
    with sqlite3.connect(f"file:{folder}/rows.db?mode=ro", uri=True) as db:
        db.row_factory = sqlite3.Row
        names = [r[0] for r in db.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
                 if r[0] != "capture" and "USING" not in db.execute("SELECT sql FROM sqlite_master WHERE name = ?", (r[0],)).fetchone()[0]]
        rows = {}
        for name in names:
            rows[name] = sorted(repr(sorted((k, r[k]) for k in r.keys() if k != "generation"))
                                for r in db.execute(f'SELECT * FROM "{name}"'))
        named = {(r["a"], r["generation"]) for r in db.execute(
            "SELECT a, generation FROM write_unit WHERE unit_kind = 1 AND members > 0")}
    members = {step: os.path.join(folder, "members", f"{step}.{generation}.seg") for step, generation in named}
    return rows, members


def segment(path):
    """But for the generation in its head (aggregator/store/MEMBERS.md)."""
    with open(path, "rb") as file:
        data = file.read()
    return data[:20] + data[28:]


def is_in_database(rig):
    return bool(rig.store_words)


def is_writing(rig, name):
    """A join writes rows now: its journal is beside them, or what says where they are says so."""
    folder = os.path.join(rig.folder, "data", "captures", name)
    if not is_in_database(rig):
        return os.path.exists(os.path.join(folder, "rows.db-wal"))
    try:
        with open(os.path.join(folder, "rows.at"), encoding="utf-8") as file:
            return file.read().splitlines()[2] == "writing"
    except FileNotFoundError:
        return False


def assert_same_rows(rig, name):
    folder = os.path.join(rig.folder, "data", "captures", name)
    fresh = os.path.join(rig.folder, "fresh")
    os.mkdir(fresh)
    run(os.path.join(BUILD, "join_rows"), folder, fresh)
    if is_in_database(rig):
        wait_until("all of its rows", lambda: "in clickhouse" in rig.show(name)["rows"])
        words = rig.store_words[1:]
        folder = os.path.join(rig.folder, "back")
        os.mkdir(folder)
        run(PROGRAM, "store", "copy", words[0], folder, "--as", name, *words[1:])
    rows, members = tables_of(folder)
    want, want_members = tables_of(fresh)
    check(rows.keys() == want.keys() and sum(map(len, rows.values())) > 50, f"tables {sorted(rows)} {sorted(want)}")
    for table in want:
        odd = set(rows[table]) ^ set(want[table])
        check(rows[table] == want[table], f"{table} differs: {list(odd)[:4]}")
    check(members.keys() == want_members.keys() and members, f"steps {members.keys() ^ want_members.keys()}")
    for step, path in members.items():
        check(segment(path) == segment(want_members[step]), f"members of step {step} differ")
    return sum(map(len, rows.values())), len(members)


def kill_in_joins(rig, name, kills):
    """That a join begins to write is the event, and somewhere behind it the kill."""
    chance = random.Random(9)
    in_middle = 0
    wait_until("the first rows", lambda: run(PROGRAM, "table", name, "op", "--connect", rig.address))
    for _ in range(kills):
        until = time.monotonic() + 120
        while is_writing(rig, name) and time.monotonic() < until:
            time.sleep(0.0005)
        while not is_writing(rig, name) and time.monotonic() < until:
            time.sleep(0.0005)
        time.sleep(chance.random() * 0.02)
        kill(rig.aggregator.pid)
        rig.aggregator.wait()
        check(time.monotonic() < until, "no join came")
        in_middle += is_writing(rig, name)
        rig.aggregator.stdout.close()
        rig.start_aggregator()
        wait_until("the capture after a kill", lambda: (rig.show(name) or {}).get("findings"))
    return in_middle


def stand_still_in_join(rig, name):
    """What a join waits for others, on a busy machine, is no reason to leave ranks unjoined for five times as long.

    On a busy machine any join may be as late, so the shortest of three counts: where standing still is counted, each is."""
    def joined():
        return rig.show(name)["findings"]["joined_ns"]

    pauses = []
    while not pauses or (pauses[-1] >= 5 * STOOD_S and len(pauses) < 3 and is_crowded()):
        while not is_writing(rig, name):
            time.sleep(0.0005)
        stop(rig.aggregator.pid)
        time.sleep(STOOD_S)
        go_on(rig.aggregator.pid)
        first = joined()
        first = wait_until("the join that stood still", lambda first=first: joined() if joined() != first else None)
        pauses.append((wait_until("the one behind it", lambda first=first: joined() if joined() != first else None) - first) / 1e9)
    check(pauses[-1] < 5 * STOOD_S, f"{pauses} s from a join that stood still for {STOOD_S} s to the next")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=3)
    kills = parser.parse_args().kills
    # Longer steps for more kills: a capture that has recorded all its steps is closed, and nothing is joined any more.
    with Rig(WORLD, 2, 100 * max(1, kills // 4), rank_words=("--seconds", "3000", "--slow-rank", str(SLOW), "--ops", "8")) as rig:
        capture, name = begin(rig)
        provisional(rig, capture, name)
        stand_still_in_join(rig, name)
        in_middle = kill_in_joins(rig, name, kills)
        check(in_middle, "no kill met a join")
        facts = end(rig, capture, name)
        check(facts["state"] == "stopped", f"{facts}")
        rows, steps = assert_same_rows(rig, name)
        print(f"{kills} kills, {in_middle} in the middle of a join: {rows} rows and members of {steps} steps as of one join")


if __name__ == "__main__":
    sys.exit(main())
