#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Eight light ranks that follow MindSpore's rules are told 200 times: none torn, none missed, the monitor never dead.

light.py is as unforgiving as the vendor's code. Beside its monitor, which polls 20 times a second, a reader of ours reads the file all the
time: it must never be empty or half of one. 
"""
import json
import os
import re
import shutil
import signal
import struct
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from machine import is_crowded  # noqa: E402
from rig import Driver, Job, Shm, check, pair_of, scratch

DRIVE = os.path.abspath(os.path.join(os.environ.get("RANKSCOPE_BUILD", "build/dev"), "drive_mindspore"))
HERE = os.path.dirname(os.path.abspath(__file__))
RANKS = 8
STEP_MS = 15
LEAD_STEPS, LEAD_STEPS_MAX = 25, 160
TOO_LATE = "was not reached, or it was over when the rank saw it"


class Reader(threading.Thread):
    """Reads the file again and again, as a monitor might."""

    def __init__(self, path):
        super().__init__(daemon=True)
        self.path, self.count, self.bad, self.must_stop = path, 0, [], False
        self.pairs = set()

    def run(self):
        while not self.must_stop:
            try:
                with open(self.path, encoding="utf-8") as file:
                    config = json.load(file)
                self.pairs.add((config["start_step"], config["stop_step"]))
                if len(config) != 21:
                    self.bad.append(f"{len(config)} keys")
            except (OSError, ValueError, KeyError, TypeError) as error:
                self.bad.append(repr(error))
            self.count += 1
            time.sleep(0.0005)


def wait_file(path, limit_s=300):
    end = time.monotonic() + limit_s
    while not os.path.exists(path) or os.path.getsize(path) < 8:
        check(time.monotonic() < end, f"no {path}")
        time.sleep(0.05)


def counter_of(path):
    with open(path, "rb") as file:
        return struct.unpack("<q", file.read(8))[0]


def is_of(line, starts):
    """A rank says that it came too late for a pair, and it is one of those."""
    told = re.search(r" (?:refuses|began late:) (\d+)\.\.", line)
    return bool(told) and int(told.group(1)) in starts


def run(way, triggers):
    folder = scratch()
    config = os.path.join(folder, "config")
    counter = os.path.join(folder, "counter")
    os.makedirs(config)
    os.makedirs(os.path.join(folder, "root"))
    shm = Shm()
    job = Job(folder, "light-" + way, [sys.executable, os.path.join(HERE, "light.py"), "--config", config, "--way", way, "--ranks",
                                       str(RANKS), "--step-ms", str(STEP_MS), "--counter", counter], shm)
    driver = Driver(DRIVE, folder, "light-" + way, way)
    reader = None
    asked, late = {}, {}
    begin = time.monotonic()
    try:
        wait_file(counter)
        driver.until("the ranks are found", lambda d: len(d.ranks) == RANKS and not any(r["unresponsive"] for r in d.ranks.values()), 30)
        lead = LEAD_STEPS
        while len(asked) < triggers:
            name = f"c{len(asked) + len(late)}"
            count = 1 + len(asked) % 5
            start = counter_of(counter) + lead
            answer = driver.order(f"arm {name} {start} {count} all {5 + lead * STEP_MS // 125}")
            # One that was late is not over; or the machine was so busy that the step passed while we asked.
            until = time.monotonic() + 60
            while answer["status"] == "RS_EXISTS" or " is over: " in answer.get("text", ""):
                check(time.monotonic() < until, f"{way} {name}: nothing else for 60 s; the job is in step {counter_of(counter)}: {answer}")
                time.sleep(0.05)
                start = counter_of(counter) + lead
                answer = driver.order(f"arm {name} {start} {count} all {5 + lead * STEP_MS // 125}")
            check(answer["status"] == "RS_OK", answer)
            if not reader:
                reader = Reader(os.path.join(config, "profiler_config.json"))
                reader.start()
            driver.until(f"{name} is over", lambda d: d.all("written", "failed", capture=name) and
                         sum(r["capture"] == name for r in d.ranks.values()) == RANKS, 30)
            # A busy machine may run past the step before a rank has looked, as the ranks say then: it takes a longer way to the start.
            is_late = any(row["state"] == "failed" and TOO_LATE in row["why"] for row in driver.ranks.values()) and \
                lead < LEAD_STEPS_MAX and is_crowded()
            for row in driver.ranks.values():
                check(row["state"] == "written" or (is_late and TOO_LATE in row["why"]),
                      f"{way} {name}: rank {row['rank']} {row['state']}: {row['why']}")
                check(row["state"] != "written" or (row["started"], row["stopped"]) == (start, start + count),
                      f"{name}: told {row}, asked {start}+{count}")
            (late if is_late else asked)[name] = (start, count)
            lead = min(2 * lead, LEAD_STEPS_MAX) if is_late else max(LEAD_STEPS, lead - lead // 20)
            driver.order("release")
            shutil.rmtree(os.path.join(folder, "root", name), ignore_errors=is_late)
        took = time.monotonic() - begin
        reader.must_stop = True
        reader.join()
        time.sleep(0.3)
        job.read()
        too_late = {start for start, _ in late.values()}
        trouble = [line for line in job.lines if line.startswith("!") and not is_of(line, too_late)]
        check(not trouble, f"{way}: {trouble[:5]}")
        found = {}
        for line in job.lines:
            if line.startswith("#"):
                _, rank, name, _, _, first, last = line.split()
                found.setdefault(name, {})[int(rank)] = (int(first), int(last))
        for name, (start, count) in asked.items():
            check(found.get(name) == {rank: (start, start + count - 1) for rank in range(RANKS)},
                  f"{way} {name}: asked from {start} for {count}, recorded {found.get(name)}")
        for name, (start, count) in late.items():
            check(set(found.pop(name, {}).values()) <= {(start, start + count - 1)}, f"{way} {name}: late, and on other steps")
        check(len(found) == triggers, f"{len(found)} captures ran, {triggers} were asked for")
        check(not reader.bad, f"{way}: the file was torn {len(reader.bad)} times: {reader.bad[:3]}")
        monitors = [pid for pid in driver.ranks if children_of(pid)]
        check(len(monitors) == 1 and all(state != "Z" for state in children_of(monitors[0])), "the monitor is dead")
        check(pair_of(config) == (-1, -1), pair_of(config))
        glimpses = sum(line.startswith("~") for line in job.lines)
        print(f"{way}: {triggers} captures of {RANKS} ranks in {took:.0f} s: all on the steps asked for; the file was read "
              f"{reader.count} times with {len(reader.pairs)} pairs, never torn; the monitor lives; "
              f"{glimpses} looks of ranks into the block fell into the monitor's own copying; {len(late)} captures too late for a busy machine")
    finally:
        driver.close()
        job.kill()
        shm.close()
        shutil.rmtree(folder, ignore_errors=True)


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        states = []
        for child in file.read().split():
            with open(f"/proc/{child}/stat", encoding="ascii") as stat:
                states.append(stat.read().rpartition(")")[2].split()[0])
        return states


def refusals():
    """A file that is a link, a folder that may not be written to, a step that is over: told, and nothing is harmed."""
    folder = scratch()
    config, elsewhere = os.path.join(folder, "config"), os.path.join(folder, "elsewhere")
    counter = os.path.join(folder, "counter")
    os.makedirs(config)
    os.makedirs(elsewhere)
    os.makedirs(os.path.join(folder, "root"))
    with open(os.path.join(elsewhere, "real.json"), "w", encoding="utf-8") as file:
        json.dump({"start_step": -1, "stop_step": -1, "aic_metrics": "AiCoreNone"}, file)
    os.symlink("../elsewhere/real.json", os.path.join(config, "profiler_config.json"))
    shm = Shm()
    job = Job(folder, "link", [sys.executable, os.path.join(HERE, "light.py"), "--config", config, "--way", "callback", "--ranks", "2",
                               "--step-ms", str(STEP_MS), "--counter", counter], shm)
    driver = Driver(DRIVE, folder, "link", "callback")
    try:
        wait_file(counter)
        driver.until("found", lambda d: len(d.ranks) == 2 and not any(r["unresponsive"] for r in d.ranks.values()), 30)
        start = counter_of(counter) + 40
        check(driver.order(f"arm link {start} 2 all 20")["status"] == "RS_OK", "a link")
        driver.until("over", lambda d: d.all("written", "failed", capture="link"), 30)
        check(driver.all("written") and os.path.islink(os.path.join(config, "profiler_config.json")), driver.ranks)
        with open(os.path.join(elsewhere, "real.json"), encoding="utf-8") as file:
            check(json.load(file) == {"start_step": -1, "stop_step": -1, "aic_metrics": "AiCoreNone"}, "what it said is kept")
        driver.order("release")
        print("a link: told through it; it is still one, and what it names says what it said before")
        time.sleep(2)  # one capture alone tells no pace
        start = counter_of(counter) + 40
        check(driver.order(f"arm pace {start} 2 all 20")["status"] == "RS_OK", "another one")
        driver.until("over", lambda d: d.all("written", "failed", capture="pace"), 30)
        driver.order("release")
        time.sleep(2)
        answer = driver.order(f"arm over {start + 5} 2 all 20")
        check(answer["status"] == "RS_REFUSED" and "is over" in answer["text"], answer)
        print(f"a step that is over: {answer['text']}")
        job.kill()
        driver.until("their end is seen", lambda d: True, 1)
    finally:
        driver.close()
        job.kill()
        shm.close()

    read_only = os.path.join(folder, "read-only")
    os.makedirs(read_only)
    with open(os.path.join(read_only, "profiler_config.json"), "w", encoding="utf-8") as file:
        json.dump({"start_step": -1, "stop_step": -1}, file)
    shm = Shm()
    job = Job(folder, "locked", [sys.executable, os.path.join(HERE, "light.py"), "--config", read_only, "--way", "callback",
                                 "--ranks", "2", "--step-ms", str(STEP_MS), "--counter", counter], shm)
    driver = Driver(DRIVE, folder, "locked", "callback")
    try:
        driver.until("found", lambda d: len(d.ranks) == 2 and not any(r["unresponsive"] for r in d.ranks.values()), 30)
        if os.system(f"chattr +i {read_only} 2>/dev/null") == 0:  # root writes everywhere else
            answer = driver.order(f"arm locked {counter_of(counter) + 40} 2 all 20")
            os.system(f"chattr -i {read_only}")
            check(answer["status"] == "RS_IO" and "cannot create a file beside" in answer["text"], answer)
            check(os.listdir(read_only) == ["profiler_config.json"] and pair_of(read_only) == (-1, -1), "something was left")
            check(driver.all("idle"), driver.ranks)
            print(f"a folder that cannot be written to: {answer['text']}")
        os.kill(list(driver.ranks)[0], signal.SIGKILL)
    finally:
        driver.close()
        job.kill()
        shm.close()
        shutil.rmtree(folder, ignore_errors=True)


def main():
    if sys.argv[1:] != ["refusals"]:
        run("step", 200)
        run("callback", 50)
    refusals()


main()
