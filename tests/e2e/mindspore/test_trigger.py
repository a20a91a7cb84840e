#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""MindSpore's own monitor and our trigger: what is asked for is recorded, on all ranks alike, and what cannot be is explained.

A real DynamicProfilerMonitor with its real CPU profiler; which steps were recorded is not taken from anybody's word but
from the times of the operators in the result against the times that the ranks print of their steps.
See rig.py for where MindSpore is.
"""
import glob
import json
import os
import shutil
import signal
import sys
import time

from rig import Driver, Job, Shm, check, find_mindspore, pair_of, scratch, stamps_of, stay_in_hour

DRIVE = os.path.abspath(os.path.join(os.environ.get("RANKSCOPE_BUILD", "build/dev"), "drive_mindspore"))
HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = find_mindspore()
RANKS = 4
STEP_MS = 250


class Case:
    def __init__(self, name, way, ranks=RANKS, steps=400, shm=None, is_piped=False, dirs=()):
        self.folder = scratch()
        self.name = name
        self.config = os.path.join(self.folder, "config")
        os.makedirs(self.config, exist_ok=True)
        os.makedirs(os.path.join(self.folder, "root"))
        # Rank 0 writes the template in place, and a monitor that reads it half-written ends for good: it is there before.
        with open(os.path.join(self.config, "profiler_config.json"), "w", encoding="utf-8") as file:
            json.dump({"start_step": -1, "stop_step": -1}, file)
        self.shm = shm or Shm()
        self.job = Job(self.folder, name, [PYTHON, os.path.join(HERE, "train.py"), "--config", self.config, "--out",
                                           os.path.join(self.folder, "out"), "--way", way, "--ranks", str(ranks), "--steps",
                                           str(steps), "--step-ms", str(STEP_MS)], self.shm, is_piped)
        self.job.wait_step(5, ranks)
        self.driver = Driver(DRIVE, self.folder, name, dirs=dirs)
        self.driver.until("the ranks are found", lambda d: len(d.ranks) == ranks)
        time.sleep(0.2)

    def close(self, keep_shm=False):
        self.driver.close()
        self.job.kill()
        if not keep_shm:
            self.shm.close()
        if not os.environ.get("KEEP"):
            shutil.rmtree(self.folder, ignore_errors=True)

    def arm(self, capture, ahead, count=3, which="all", extra=""):
        start = self.job.step() + ahead
        return start, self.driver.order(f"arm {capture} {start} {count} {which} 40 {extra}".strip())

    def stamps(self, row):
        return stamps_of(os.path.join(row["result"], "ASCEND_PROFILER_OUTPUT", "trace_view.json"))

    def look(self, capture, count=3):
        """Every rank recorded the same steps, and those that are told. Which?"""
        found = set()
        for row in self.driver.ranks.values():
            if row["capture"] != capture:
                continue
            check(row["state"] == "written", f"{self.name}: rank {row['rank']} is {row['state']}: {row['why']}")
            steps = self.job.recorded(row["rank"], self.stamps(row))
            check(steps == list(range(row["started"], row["stopped"])),
                  f"{self.name}: rank {row['rank']} recorded {steps}, told are {row['started']} up to {row['stopped']}")
            check(len(steps) == count, f"{self.name}: {steps}")
            found.add(tuple(steps))
        check(len(found) == 1, f"{self.name}: the ranks recorded {found}")
        return list(found.pop())

    def capture(self, capture, ahead, count=3, extra=""):
        start, answer = self.arm(capture, ahead, count, extra=extra)
        check(answer["status"] == "RS_OK", f"{self.name}: {answer}")
        self.driver.until(f"{capture} is over", lambda d: d.all("written", "failed", capture=capture), 60)
        time.sleep(0.3)
        steps = self.look(capture, count)
        self.driver.order("release")
        return start, steps

    def is_monitor_there(self):
        return any("DynamicProfileShm" in name for name in self.shm.names())


def all_ranks(way):
    """A capture on all, one on two of them, one while another runs, one called back, a second one."""
    case = Case("all-" + way, way)
    try:
        start, answer = case.arm("first", 30)
        check(answer["status"] == "RS_OK", answer)
        case.driver.until("taken", lambda d: d.all("accepted", "recording", "written"), 20)
        busy = case.arm("busy", 60)[1]
        check(busy["status"] == "RS_EXISTS" and "cut it short" in busy["text"], busy)
        case.driver.until("the first is over", lambda d: d.all("written", "failed"), 60)
        time.sleep(0.3)
        steps = case.look("first")
        # nothing tells the way beforehand: a callback records what was asked for, dp.step() the steps behind
        shift = 1 if way == "step" else 0
        check(steps == [start + shift + i for i in range(3)], f"{steps}, asked for from {start} on")
        notes = {row["note"] for row in case.driver.ranks.values()}
        check(all(("not those asked for" in note) == bool(shift) for note in notes), notes)
        print(f"{way}: steps {steps} on {RANKS} ranks, asked for {start}; while it ran: {busy['text']}")
        case.driver.order("release")

        check(pair_of(case.config) == (-1, -1), f"the file is left with {pair_of(case.config)}")
        some = case.arm("some", 30, which="1,3")[1]
        check(some["status"] == "RS_REFUSED" and "rank 0" in some["text"] and "2 (process" in some["text"], some)
        print(f"{way}: 1,3 only: {some['text']}")
        old = case.driver.order(f"arm old {start} 3 all 40")
        check(old["status"] == "RS_REFUSED" and "already" in old["text"], old)
        print(f"{way}: the same steps again: {old['text']}")

        gone = case.arm("called-back", 60)[1]
        check(gone["status"] == "RS_OK", gone)
        case.driver.until("taken", lambda d: d.all("accepted"), 20)
        back = case.driver.order("cancel called-back")
        check(back["status"] == "RS_OK", back)
        case.driver.until("idle again", lambda d: d.all("idle"), 5)
        time.sleep(5)
        first = start
        start, steps = case.capture("second", 25)  # the first of these steps is before those called back
        check(steps == [start + i for i in range(3)], f"{steps}, asked for from {start} on")
        case.job.wait_step(start + 45, RANKS)
        check(not glob.glob(os.path.join(case.folder, "root", "called-back", "*", "*")), "what was called back was recorded")
        # what captures told of the counter: a step at an instant, and the pace between the two captures. How far it is off later is not
        # the program's doing alone: beside other work the job itself becomes slower or faster.
        row = case.driver.rank(0)
        times = case.job.read()[0]
        actual = max(times)
        told = row["step"] + (time.time_ns() - row["step_at"]) // row["step_ns"]
        passed = actual - row["step"]
        then = max(step for step, (begin, _) in times.items() if begin <= row["step_at"])
        check(abs(then - row["step"]) <= 2, f"the counter is told as {row['step']} when it was {then}")
        before = first + shift + 4  # behind the first capture
        pace = (times[steps[0]][0] - times[before][0]) / (steps[0] - before)
        check(abs(row["step_ns"] - pace) <= pace / 4, f"a step is told to take {row['step_ns']} ns, it took {pace:.0f}")
        print(f"{way}: steps {steps}, as asked; {passed} steps later the counter is told as {told}, it is {actual}")
        start, steps = case.capture("third", 20, 1)
        check(steps == [start], f"{steps}, asked for {start}")
        print(f"{way}: one step {steps}")
        check(row["step"] > 0, row)
        check(pair_of(case.config) == (-1, -1), f"the file is left with {pair_of(case.config)}")
        check(case.is_monitor_there(), "the block is gone")
    finally:
        case.close()


def creator_is_killed():
    """The rank that made the monitor is killed, first between captures, then another one in the middle of one."""
    case = Case("killed", "step")
    try:
        monitors = {}
        for pid in list(case.driver.ranks):
            with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
                monitors[pid] = file.read().split()
        creator = [pid for pid, children in monitors.items() if children][0]
        os.kill(creator, signal.SIGKILL)
        case.driver.until("its end is seen", lambda d: True, 5)
        time.sleep(3)
        case.driver.ranks.pop(creator)
        start, steps = case.capture("orphan", 25)
        print(f"killed creator: the other {RANKS - 1} recorded {steps}, told by its orphan monitor")

        start, answer = case.arm("one-dies", 25, 6)
        check(answer["status"] == "RS_OK", answer)
        victim = sorted(case.driver.ranks)[0]
        case.driver.until("recording", lambda d: d.all("recording"), 40)
        os.kill(victim, signal.SIGKILL)
        case.driver.until("over", lambda d: d.all("written", "failed"), 60)
        dead = case.driver.ranks.pop(victim)
        check(dead["state"] == "failed" and "process ended" in dead["why"], dead)
        time.sleep(0.3)
        steps = case.look("one-dies", 6)
        print(f"killed while recording: rank {dead['rank']}: {dead['why'].split('; what')[0]}; the others recorded {steps}")
    finally:
        case.close()


def block_is_left():
    """A killed job leaves its block; the next job is unresponsive, and is told why. First nobody serves it, then an orphan of other folder."""
    stay_in_hour(180)
    shm = Shm()
    first = Case("left", "step", ranks=1, shm=shm)
    first.close(keep_shm=True)  # SIGKILL to all of it: the block stays
    check(any("DynamicProfileShm" in name for name in shm.names()), "the killed job left no block")
    time.sleep(5.5)
    second = Case("unresponsive", "step", ranks=2, shm=shm)
    try:
        row = second.driver.rank(0)
        check("left by a killed job" in row["unresponsive"] and "/dev/shm/DynamicProfileShm" in row["unresponsive"], row)
        answer = second.arm("never", 20)[1]
        check(answer["status"] == "RS_REFUSED" and "left by a killed job" in answer["text"], answer)
        print(f"left block: {answer['text']}")
    finally:
        second.close()

    stay_in_hour(180)
    shm = Shm()
    first = Case("owner", "step", ranks=1, shm=shm)
    creator = list(first.driver.ranks)[0]
    os.kill(creator, signal.SIGKILL)
    first.driver.close()
    time.sleep(2)
    second = Case("foreign-orphan", "step", ranks=2, shm=shm)
    try:
        row = second.driver.rank(0)
        check("belongs to an earlier job" in row["unresponsive"] and first.config in row["unresponsive"] and second.config in row["unresponsive"], row)
        print(f"orphan of another folder: {row['unresponsive']}")
    finally:
        second.close()
        first.job.kill()
        shutil.rmtree(first.folder, ignore_errors=True)


def file_is_bad():
    """An empty file ends the monitor for good: that is said, and what mends it. Nobody but us wrote it."""
    case = Case("bad-file", "step", ranks=2)
    try:
        with open(os.path.join(case.config, "profiler_config.json"), "w", encoding="utf-8"):
            pass
        case.driver.until("seen", lambda d: all(row["unresponsive"] for row in d.ranks.values()), 20)
        text = case.driver.rank(1)["unresponsive"]
        check("ends it for good" in text and "restart" in text, text)
        print(f"bad file: {text}")
    finally:
        case.close()


def file_is_anothers():
    """Somebody else's pair: not written over while it may be to come; and one that replaces ours is told, and left."""
    case = Case("anothers", "callback", ranks=2)
    path = os.path.join(case.config, "profiler_config.json")

    def edit(start, stop):
        with open(path, encoding="utf-8") as file:
            config = json.load(file)
        config.update(start_step=start, stop_step=stop, prof_path=os.path.join(case.folder, "theirs"))
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump(config, file)
        os.rename(path + ".new", path)

    try:
        edit(5000, 5001)
        answer = case.arm("asked", 20)[1]
        check(answer["status"] == "RS_REFUSED" and "5000 to 5001" in answer["text"] and "--force" in answer["text"], answer)
        check(pair_of(case.config) == (5000, 5001), "it was written over")
        print(f"another's pair: {answer['text']}")
        start, steps = case.capture("forced", 20, extra="force")
        print(f"another's pair, by force: {steps}")

        answer = case.arm("replaced", 40)[1]
        check(answer["status"] == "RS_OK", answer)
        case.driver.until("taken", lambda d: d.all("accepted"), 20)
        theirs = case.job.step() + 12
        edit(theirs, theirs + 1)
        case.driver.until("seen", lambda d: d.all("failed"), 10)
        why = case.driver.rank(0)["why"]
        check("replaced by somebody else" in why and str(theirs) in why, why)
        case.job.wait_step(theirs + 6, 2)
        check(pair_of(case.config) == (theirs, theirs + 1), f"their file was touched: {pair_of(case.config)}")
        check(len(glob.glob(os.path.join(case.folder, "theirs", "rank*"))) == 2, "their capture did not run")
        print(f"replaced: {why}")
    finally:
        case.close()


def folder_is_not_known():
    """stdout is a pipe: the folder has to be named, and so has the way."""
    case = Case("piped", "step", ranks=2, is_piped=True)
    try:
        row = case.driver.rank(0)
        check("--mindspore-config" in row["unresponsive"], row)
        print(f"stdout is a pipe: {row['unresponsive']}")
        case.driver.close()
        case.driver = Driver(DRIVE, case.folder, case.name, dirs=[case.config])
        case.driver.until("found", lambda d: len(d.ranks) == 2 and not d.rank(0)["unresponsive"], 20)
        start, answer = case.arm("named", 25)
        check(answer["status"] == "RS_OK", answer)
        case.driver.until("over", lambda d: d.all("written", "failed"), 60)
        row = case.driver.rank(0)
        check("--mindspore-way does" in row["note"] and row["started"] == start, row)
        steps = case.job.recorded(0, case.stamps(row))
        check(steps == [start + 1 + i for i in range(3)], steps)
        print(f"stdout is a pipe, folder named: {row['note']} (they were {steps})")
        probe = case.driver.order("probe 0")
        check(probe["status"] == "RS_REFUSED" and "before a first capture" in probe["text"], probe)
    finally:
        case.close()


def main():
    begin = time.monotonic()
    cases = [lambda: all_ranks("step"), lambda: all_ranks("callback"), creator_is_killed, block_is_left, file_is_bad,
             file_is_anothers, folder_is_not_known]
    wanted = sys.argv[1:]
    for number, case in enumerate(cases):
        if not wanted or str(number) in wanted:
            case()
    print(f"mindspore: done in {time.monotonic() - begin:.0f} s")


main()
