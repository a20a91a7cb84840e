#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What one aggregator promises whatever is asked of it, measured: a line for each figure with its bound. Exit 1 when one is missed.

    bounds.py [rows] [acks] [opens] [captures] [ranks]      all of them without a word; RANKSCOPE_BUILD: where the programs are

    rows      a capture of 1,024 ranks with 600 operations in each of 2 steps: from the last summary that is durable to all rows, and
              to the report with the findings at the command line; largest resident size. How many rows there are is asked for
    acks      a chunk's acknowledgement while such a capture is joined, nothing else coming in, against one while nobody joins. In turns; the
              threads that join must have worked meanwhile, or nothing is shown
    opens     a peer says Hello and opens 64 streams at once, on a disk where each sync takes 500 ms (shim_sync.c)
    captures  a peer opens 3,000 streams, of a capture each; on this disk, and on the slow one
    ranks     210,000 ranks on 30 links: what it takes to read the table, which is sent in pages; and what is left when they are gone

Ranks and peers are made up (bench_swarm, bench_peer), on the machine of the aggregator: wall times are of a machine that does both. What
stops no other stream (a damaged segment of a spool, a lost catalogue) is shown by tests: spool_test.c, talk_test.c, store_test.c, test_faults.py.
"""
import argparse
import glob
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = os.environ.setdefault("RANKSCOPE_BUILD", str(ROOT / "build/release"))
os.environ.setdefault("RANKSCOPE", os.path.join(BUILD, "rankscope"))
sys.path.insert(0, str(ROOT / "tests/e2e"))
import swarm  # noqa: E402  pylint: disable=wrong-import-position
from rig_native import PROGRAM, Rig  # noqa: E402  pylint: disable=wrong-import-position

RANKS, OPERATIONS, STEPS = 1024, 600, 2
MANY_RANKS, MANY_CAPTURES = 210_000, 3000
MIB = 1024.0  # KiB


class Lines:
    """What was measured, as it comes."""

    def __init__(self):
        self.is_right = True

    def add(self, what, measured, unit, bound=None):
        is_fine = bound is None or (measured is not None and measured <= bound)
        self.is_right = self.is_right and is_fine
        shown = "none" if measured is None else f"{measured:.4g} {unit}"
        limit = "" if bound is None else f"   at most {bound:g} {unit}: {'yes' if is_fine else 'NO'}"
        print(f"{what}: {shown}{limit}", flush=True)

    def need(self, what, is_fine):
        self.is_right = self.is_right and is_fine
        print(f"{what}: {'yes' if is_fine else 'NO'}", flush=True)


# ---- a swarm of 1,024 ranks


def new_swarm(folder):
    options = argparse.Namespace(build=pathlib.Path(BUILD), links=32, steps=STEPS, ops=OPERATIONS, step_ms=2000, plain=True, keep=None)
    return swarm.Swarm(options, RANKS, 0, folder, [])


class Capture:
    """One of all ranks of a swarm, under way."""

    def __init__(self, job, *words):
        self.job = job
        self.process = subprocess.Popen([job.program, "capture", "--run", job.run_name, "--steps", str(STEPS), "--json", "--timeout", "600s",
                                         *words, *job.way], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=job.environment)
        if not job.nodes.stdout.readline():
            raise SystemExit("bounds: the nodes have ended")

    def folder(self):
        return max(glob.glob(os.path.join(self.job.data, "captures", "*")), key=os.path.getctime)

    def rows_written(self):
        """When the newest members of operations were, which a join writes last."""
        return max(os.stat(path).st_mtime for path in glob.glob(os.path.join(self.folder(), "members", "*")))

    def await_summarised(self):
        """Until all summaries are durable. When they were not, last: not later than it was so."""
        before = time.time()
        while True:
            now = time.time()
            facts = json.loads(self.job.asked("capture", "show", os.path.basename(self.folder()), "--json").stdout)
            if facts["state"] not in ("preparing", "recording") or all(rank["state"] == "done" for rank in facts["ranks"]):
                return before
            before = now
            time.sleep(0.05)

    def end(self):
        """The report, and when it was there."""
        text = self.process.stdout.read()
        returned = time.time()
        if self.process.wait():
            raise SystemExit("bounds: the capture is not complete: " + text[-500:])
        return json.loads(text), returned


def rows(lines):
    with tempfile.TemporaryDirectory(prefix="rs-bounds-") as folder:
        job = new_swarm(folder)
        try:
            job.start()
            capture = Capture(job)
            summary = capture.await_summarised()
            before = job.usage()[0]
            report, returned = capture.end()
            reported = job.usage()[0]
            job.asked("capture", "wait", os.path.basename(capture.folder()), "--no-report", "-q")  # it is closed behind its last join
            job.come_to_rest()
            lines.add(f"rows: {RANKS} ranks x {OPERATIONS} operations x {STEPS} steps, all rows after the last summary",
                      capture.rows_written() - summary, "s", 10)
            lines.add("rows: the findings, at the command line, after it", returned - summary, "s", 10)
            lines.add("rows: CPU of the aggregator until then", reported - before, "s")
            lines.add("rows: and until nothing is left to do (closed, and documents made)", job.usage()[0] - before, "s")
            lines.need("rows: the slow rank is named first", [f["where"] for f in report["findings"]][:1] == [{"rank": job.slow_rank}])
            lines.add("rows: largest resident size", job.usage()[2] / MIB, "MiB", 1024)
            counted = job.asked("query", os.path.basename(capture.folder()), "SELECT count(*) AS n FROM op_member", "--json").stdout
            lines.need(f"rows: {RANKS * OPERATIONS * STEPS} members of operations: {counted.strip()}",
                       str(RANKS * OPERATIONS * STEPS) in counted)
        finally:
            job.stop()


def thread_seconds(pid, name):
    """CPU time of a process's threads of that name."""
    total = 0
    for task in glob.glob(f"/proc/{pid}/task/*"):
        try:
            with open(task + "/stat", encoding="utf-8") as file:
                head, tail = file.read().rsplit(")", 1)
        except FileNotFoundError:
            continue
        fields = tail.split()
        total += (int(fields[11]) + int(fields[12])) if head.split("(", 1)[1].startswith(name) else 0
    return total / os.sysconf("SC_CLK_TCK")


def peer(*words):
    done = subprocess.run([os.path.join(BUILD, "bench_peer"), *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit("bounds: " + done.stderr)
    return json.loads(done.stdout)


def median(values):
    return sorted(values)[len(values) // 2]


def acks(lines, rounds=3, seconds=8):
    figures = {"idle": [], "joining": []}
    worked = []
    with tempfile.TemporaryDirectory(prefix="rs-bounds-") as folder:
        job = new_swarm(folder)
        try:
            job.start()
            words = ("acks", "--connect", job.way[1], "--seconds", str(seconds), "--every-ms", "10")
            for _ in range(rounds):
                job.come_to_rest()
                figures["idle"].append(peer(*words))
                capture = Capture(job, "--raw", "none")
                capture.await_summarised()
                before = thread_seconds(job.aggregator.pid, "rs-join")
                figures["joining"].append(peer(*words))
                worked.append((thread_seconds(job.aggregator.pid, "rs-join") - before) / seconds)
                capture.end()
        finally:
            job.stop()
    for name, found in figures.items():
        for one in found:
            print(f"acks, {name}: {one}", flush=True)
    p99 = {name: median([one["p99_ms"] for one in found]) for name, found in figures.items()}
    lines.add("acks: p99 of an idle pool, median of the rounds", p99["idle"], "ms")
    lines.add("acks: p99 while captures are joined", p99["joining"], "ms")
    lines.add("acks: that many times", p99["joining"] / p99["idle"], "x", 2)
    lines.need(f"acks: the joins worked meanwhile, {median(worked):.2f} of a core (a tenth at least)", median(worked) >= 0.1)


# ---- one aggregator, and its disk


class Disk(Rig):
    """An aggregator alone, each sync of which takes so long."""

    def __init__(self, sync_ms):
        super().__init__(world=0, nodes=0, step_ms=1)
        self.sync_ms = sync_ms

    def _spawn(self, name, words, **pipes):
        if not self.sync_ms:
            return super()._spawn(name, words, **pipes)
        environment = dict(os.environ, LD_PRELOAD=os.path.join(BUILD, "shim_sync.so"), SHIM_LOG=os.path.join(self.folder, "shim.log"),
                           SHIM_DELAY_MS=str(self.sync_ms))
        return super()._spawn(name, words, env=environment, **pipes)

    def has_synced(self):
        with open(os.path.join(self.folder, "shim.log"), encoding="utf-8", errors="replace") as file:
            return "sync" in file.read()


def opens(lines):
    with Disk(500) as rig:
        done = peer("opens", "--connect", rig.address, "--streams", "64")
        lines.add("opens: Welcome, 500 ms a sync, 64 streams opened behind Hello", done["welcome_ms"] / 1000, "s", 1)
        lines.add("opens: the last of the 64 is opened", None if done["opened_ms"] is None else done["opened_ms"] / 1000, "s", 1)
        lines.need("opens: the disk was slow", rig.has_synced())


def captures(lines):
    for sync_ms in (0, 500):
        with Disk(sync_ms) as rig:
            done = peer("opens", "--connect", rig.address, "--streams", str(MANY_CAPTURES), "--captures", "1", "--seconds", "60")
            where = f"{sync_ms} ms a sync" if sync_ms else "this disk"
            lines.add(f"captures: Welcome beside {MANY_CAPTURES} captures, {where}", done["welcome_ms"] / 1000, "s", 1)
            lines.add(f"captures: {done['opened']} of {MANY_CAPTURES} are opened, {where}",
                      None if done["opened_ms"] is None else done["opened_ms"] / 1000, "s", 60)


def ranks(lines):
    with Rig(world=0, nodes=0, step_ms=1) as rig:
        def resident():
            return swarm.usage_of(rig.aggregator.pid)[1] / MIB

        def table():
            begun = time.monotonic()
            found = subprocess.run([PROGRAM, "ranks", "--json", "--connect", rig.address], capture_output=True, text=True, check=False).stdout
            return len(json.loads(found)["ranks"]), time.monotonic() - begun

        table()
        before = resident()
        with subprocess.Popen([os.path.join(BUILD, "bench_swarm"), "--connect", rig.address, "--dir", os.path.join(rig.folder, "nodes"),
                               "--ranks", str(MANY_RANKS), "--links", "30", "--step-ms", "60000"], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True) as nodes:
            begun = time.monotonic()
            while table()[0] < MANY_RANKS:
                time.sleep(1)
            lines.add(f"ranks: {MANY_RANKS} are known after", time.monotonic() - begun, "s")
            held = resident()
            lines.add("ranks: held for them", held - before, "MiB")
            with open(f"/proc/{rig.aggregator.pid}/clear_refs", "w", encoding="utf-8") as file:
                file.write("5")  # the peak begins anew
            count, seconds = table()
            lines.add(f"ranks: {count} of them are read in", seconds, "s")
            lines.add("ranks: while the table was read it held, at most, more", swarm.usage_of(rig.aggregator.pid)[2] / MIB - held, "MiB", 20)
            nodes.stdin.close()
            nodes.wait()
        begun = time.monotonic()
        while table()[0] and time.monotonic() - begun < 600:
            time.sleep(2)
        lines.add("ranks: none is in the table after", time.monotonic() - begun, "s", 600)
        time.sleep(2)  # the sweep that took them gives back what they had
        lines.add("ranks: what is held then, more than before", resident() - before, "MiB", 20)


def main():
    parts = {"rows": rows, "acks": acks, "opens": opens, "captures": captures, "ranks": ranks}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(parts))
    wanted = parser.parse_args().parts or list(parts)
    if set(wanted) - set(parts):
        parser.error("there is no " + ", ".join(sorted(set(wanted) - set(parts))))
    lines = Lines()
    for part in wanted:
        parts[part](lines)
    return 0 if lines.is_right else 1


if __name__ == "__main__":
    sys.exit(main())
