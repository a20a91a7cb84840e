#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A collector that is killed in the middle of a capture and started again: the capture finishes, or each rank says why not.

Killed (-9) before anybody was told, while ranks record, while their traces are written, while these are read into the
spool; and ended in an orderly way while ranks record. What is read again after the kill must not be there twice. A rank
whose process dies while the collector is away is named; one that should have been told in that time is refused.
"""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from test_kineto_clients import PROGRAM, Rig, check  # noqa: E402


class Capture:
    """rankscope capture, and what it says while it runs."""

    def __init__(self, rig, run, *words, codes=(0,)):
        self.rig, self.codes, self.id = rig, codes, None
        self.lines = []
        self.changed = threading.Condition()
        self.process = subprocess.Popen([PROGRAM, "capture", "--connect", rig.address, "--run", run, *words, "--no-report",
                                         "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        env=rig.environment)
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stderr:
            with self.changed:
                self.lines.append(line)
                self.changed.notify_all()
        with self.changed:
            self.lines.append("(end)")
            self.changed.notify_all()

    def wait_for(self, count, *states, limit_s=300):
        """Until so many ranks are in one of these states: the aggregator is asked, progress lines are not all printed."""
        until = time.monotonic() + limit_s
        with self.changed:
            while not self.lines:
                self.changed.wait(0.5)
        name = self.lines[0].split()[0]
        while True:
            ranks = json.loads(self.rig.ask("capture", "show", name, "--json", codes=(0, 1)).stdout)["ranks"]
            if sum(rank["state"] in states for rank in ranks) >= count:
                return
            check(time.monotonic() < until and "(end)" not in self.lines, f"no {count} {states} in {ranks}\n{self.lines}")
            time.sleep(0.02)

    def is_seen(self, count, *states):
        """As wait_for(); False: it ended, and nobody saw so many of them so."""
        try:
            self.wait_for(count, *states)
        except SystemExit:
            return False
        return True

    def begins_in_s(self):
        """What its progress says of the common start, once it does."""
        until = time.monotonic() + 40
        while True:
            for line in self.lines:
                found = re.search(r"begins in ([0-9.]+) s", line)
                if found:
                    return float(found.group(1))
            check(time.monotonic() < until and "(end)" not in self.lines, f"no start in {self.lines}")
            time.sleep(0.02)

    def end(self, codes=None):
        text = self.process.stdout.read()
        self.process.wait(90)
        self.reader.join()
        check(self.process.returncode in (codes or self.codes), f"capture ends with {self.process.returncode}: {self.lines}\n{text}")
        facts = json.loads(text)
        self.id = facts["id"]
        return {rank["rank"]: rank for rank in facts["ranks"]}, facts

    def events(self):
        return json.loads(self.rig.ask("report", self.id, "--json").stdout)["coverage"]


def start_ranks(rig, run, count, *options):
    clients = [rig.start_client(run, rank, count, *options) for rank in range(count)]
    rig.ask("ranks", "--run", run, "--wait", str(count), "-q")
    time.sleep(1)  # two polls tell the period
    return clients


def kill(rig, away_s=0.0, sig=signal.SIGKILL):
    rig.collector.send_signal(sig)
    rig.collector.wait()
    time.sleep(away_s)
    socket = os.path.join(rig.sockets, "dynolog")
    if os.path.exists(socket):
        os.unlink(socket)  # so that start_collector() waits for the new one
    rig.start_collector()


def ledger_of(rig):
    return os.path.join(rig.folder, "spool", "kineto")


def check_clean(rig):
    check(os.listdir(rig.traces) == [], f"traces are left: {os.listdir(rig.traces)}")
    check(os.listdir(ledger_of(rig)) == [], f"jobs are left: {os.listdir(ledger_of(rig))}")


def kill_while_armed(rig, run, count, *words, codes=(0,)):
    """A capture whose collector was killed after all ranks were ready and before one was notified, which may be at any moment: then another."""
    for _ in range(5):
        capture = Capture(rig, run, *words, codes=codes)
        if capture.is_seen(count, "armed"):
            time.sleep(0.2)  # COMMIT is on its way
            rig.collector.kill()
            rig.collector.wait()
            os.unlink(os.path.join(rig.sockets, "dynolog"))
            phases = [open(os.path.join(ledger_of(rig), name), encoding="ascii").read() for name in os.listdir(ledger_of(rig))]
            if phases and all("phase armed" in text for text in phases):
                return capture
            rig.start_collector()
        capture.end(codes=(0, 1))
    check(False, "five times a rank was notified before its collector could be killed")


def whole(rig, name, capture, count, may_part=False):
    """`may_part`: a capture at a multiple of iterations that comes between two polls parts the ranks; it says so, and it is not
    what is asked here."""
    ranks, told = capture.end(codes=(0, 1) if may_part else (0,))
    check(capture.process.returncode == 0 or (told["reason"] or "").startswith("not the same time"), told)
    check({rank: facts["state"] for rank, facts in ranks.items()} == {rank: "done" for rank in range(count)}, f"{ranks}")
    print(f"{name}: {[ranks[rank]['state'] for rank in range(count)]}, {capture.events()}")
    check_clean(rig)
    rig.end_clients()


def before_delivery(rig):
    start_ranks(rig, "before", 4, "--period", "2")
    capture = kill_while_armed(rig, "before", 4, "--steps", "2", "--roundup", "1000")
    rig.start_collector()
    whole(rig, "killed before anybody was told", capture, 4, may_part=True)


def told_together(rig, run, count, codes=(0,)):
    """A capture all of whose ranks have their request. On a busy machine some may begin before others are told: then a larger round-up, as
    it advises."""
    for roundup in (800, 1600, 3200, 6400):
        capture = Capture(rig, run, "--steps", "2", "--roundup", str(roundup), codes=codes)
        if capture.is_seen(count, "delivered", "recording"):
            return capture
        _, facts = capture.end(codes=(0, 1))
        check((facts["reason"] or "not the same time").startswith("not the same time"), facts)
    check(False, "some ranks always began before the others were told")


def while_recording(rig, sig=signal.SIGKILL, run="record"):
    start_ranks(rig, run, 4)
    capture = told_together(rig, run, 4)
    kill(rig, sig=sig)
    whole(rig, f"ended by signal {int(sig)} while ranks record", capture, 4, may_part=True)


def stopped_while_recording(rig):
    while_recording(rig, signal.SIGTERM, "stopped")


def by_the_clock(rig):
    start_ranks(rig, "clock", 4)
    capture = Capture(rig, "clock", "--duration", "3s")
    capture.wait_for(4, "delivered", "recording")
    kill(rig)
    whole(rig, "killed in a capture by the clock", capture, 4)


def while_written(rig):
    """The trace is complete only 4 s after the end of the recording: there is a .tmp that grew."""
    start_ranks(rig, "write", 4, "--late", "4")
    capture = Capture(rig, "write", "--duration", "200ms")
    capture.wait_for(4, "recording")
    time.sleep(1)
    kill(rig, away_s=1)
    whole(rig, "killed while traces are written", capture, 4)


def while_read(rig):
    start_ranks(rig, "read", 2, "--pad", "40000000", "--late", "9")
    words = ["--duration", "200ms", "--set", "experimental.host_sys=cpu,mem", "--set", "sample_hz=20"]
    first = Capture(rig, "read", *words)
    first.end()
    rows = first.events()["events"]
    second = Capture(rig, "read", *words)
    second.wait_for(1, "reading")
    time.sleep(0.15)
    rig.collector.kill()
    rig.collector.wait()
    phases = [open(os.path.join(ledger_of(rig), name), encoding="ascii").read() for name in os.listdir(ledger_of(rig))
              if name.endswith(".job")]
    check(any("phase reading" in text for text in phases), f"killed too late or too early for this test: {phases}")
    kill(rig)
    ranks, _ = second.end()
    check([ranks[rank]["state"] for rank in range(2)] == ["done", "done"], f"{ranks}")
    check(second.events()["events"] == rows, f"{second.events()['events']} events after a kill, {rows} without")
    # Samples of their hosts stand behind the traces, once; who was not written yet has lost what the killed collector held.
    was_read = {int(re.search(r"^rank (\d+)$", text, re.MULTILINE).group(1)) for text in phases if "phase reading" in text}
    for capture, least in ((first, {0, 1}), (second, was_read)):
        found = json.loads(rig.ask("table", capture.id, "counter", "--ranks", "0-1", "--json").stdout)["rows"]
        memory = [(row["rank"], row["at_ns"]) for row in found if row["name"] == "process memory bytes"]
        check(least <= {rank for rank, _ in memory} and len(set(memory)) == len(memory), f"{least}: {found}")
    print(f"killed while traces are read: {second.events()}, the same number of events as without")
    check_clean(rig)
    rig.end_clients()


def rank_dies_meanwhile(rig):
    clients = start_ranks(rig, "dies", 3)
    capture = told_together(rig, "dies", 3, codes=(1,))
    rig.collector.kill()
    rig.collector.wait()
    clients[1].kill()
    clients[1].wait()
    os.unlink(os.path.join(rig.sockets, "dynolog"))
    rig.start_collector()
    ranks, facts = capture.end()
    check([ranks[rank]["state"] for rank in range(3)] == ["done", "lost", "done"], f"{ranks}")
    check("ended before its trace was complete" in ranks[1]["reason"], ranks[1]["reason"])
    print("a rank died meanwhile:", facts["reason"])
    check_clean(rig)
    rig.end_clients()


def away_too_long(rig):
    """Ranks are told at their next poll, 3 s away; the collector comes back when the common start has passed."""
    start_ranks(rig, "away", 2, "--period", "3")
    capture = kill_while_armed(rig, "away", 2, "--duration", "200ms", codes=(1,))
    time.sleep(capture.begins_in_s() + 1)
    rig.start_collector()
    ranks, facts = capture.end()
    check(all(rank["state"] == "refused" and "its collector was away" in rank["reason"] for rank in ranks.values()), f"{ranks}")
    print("away too long:", facts["reason"])
    check_clean(rig)
    rig.end_clients()


def stopped_meanwhile(rig):
    """`capture stop` while the collector is away: it comes back with ranks armed, and nobody is told to record."""
    start_ranks(rig, "meanwhile", 2, "--period", "6")
    capture = kill_while_armed(rig, "meanwhile", 2, "--steps", "2", "--roundup", "1000", codes=(1,))
    rig.ask("capture", "stop", capture.lines[0].split()[0])
    rig.start_collector()
    ranks, facts = capture.end()
    check(all(rank["state"] == "lost" and "stopped" in rank["reason"] for rank in ranks.values()), f"{ranks}")
    print("stopped while its collector was away:", facts["reason"])
    check_clean(rig)
    rig.end_clients()


def main():
    parts = (before_delivery, while_recording, stopped_while_recording, by_the_clock, while_written, while_read,
             rank_dies_meanwhile, away_too_long, stopped_meanwhile)
    chosen = sys.argv[1:]
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="rs-kineto-") as folder:
        rig = Rig(folder)
        try:
            for part in parts:
                if chosen and part.__name__ not in chosen:
                    continue
                begin = time.monotonic()
                part(rig)
                print(f"{part.__name__}: {time.monotonic() - begin:.1f} s", flush=True)
        finally:
            rig.stop()


if __name__ == "__main__":
    main()
