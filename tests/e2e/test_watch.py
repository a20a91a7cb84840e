#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files that are watched and streamed give the same deliverables, byte by byte, as `analyse` of the same files.

Also: a collector killed in the middle and started again takes every file once; files that appear later make
another capture; a file that names no rank is told. On the bundled job, and where ../shared/data is, on its jobs too (the kill only there: the bundled ranks' trace ids
differ, and what a killed collector had begun to deliver may stay a capture of its own).
"""
import filecmp
import glob
import gzip
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

PROGRAM = os.environ["RANKSCOPE"]
SHARED = "../shared/data/kineto"
BUNDLED = "docs/examples/slow-loader"


class Rig:
    def __init__(self, folder):
        self.folder = folder
        self.address = "unix:" + os.path.join(folder, "a.sock")
        self.watched = os.path.join(folder, "traces")
        os.mkdir(self.watched)
        self.aggregator = subprocess.Popen(
            [PROGRAM, "aggregator", "--listen", self.address, "--data", os.path.join(folder, "data")],
            stdout=subprocess.PIPE)
        if b"listening" not in self.aggregator.stdout.readline():
            raise SystemExit("the aggregator did not start")
        self.collector = None

    def start_collector(self, *more):
        self.collector = subprocess.Popen(
            [PROGRAM, "collector", "--connect", self.address, "--spool",
             os.path.join(self.folder, "spool"), "--watch", self.watched, "--no-native", "--settle", "1s",
             *more], stderr=open(os.path.join(self.folder, "collector.log"), "ab"))

    def stop(self):
        for process in (self.collector, self.aggregator):
            if process and process.poll() is None:
                process.terminate()
                process.wait()

    def captures(self):
        done = subprocess.run([PROGRAM, "capture", "list", "--connect", self.address, "--json"],
                              capture_output=True)
        return json.loads(done.stdout)["captures"]

    def wait_closed(self, count):
        until = time.monotonic() + 60
        while time.monotonic() < until:
            found = self.captures()
            if len(found) == count and all(c["closed_ns"] for c in found):
                return found
            time.sleep(0.1)
        raise SystemExit(f"not {count} closed captures: {self.captures()}")

    def wait_log(self, text):
        until = time.monotonic() + 60
        while text not in self.log():
            if time.monotonic() > until:
                raise SystemExit(f"the log does not say {text!r}:\n{self.log()}")
            time.sleep(0.1)

    def log(self):
        return open(os.path.join(self.folder, "collector.log"), encoding="utf-8").read()


def dump(path):
    """A database as text; RankManifest holds paths and what was skipped, and may differ."""
    with sqlite3.connect(path) as database:
        return [line for line in database.iterdump() if "RankManifest" not in line]


def is_same(left, right):
    if left.endswith(".db"):
        return dump(left) == dump(right)
    return filecmp.cmp(left, right, shallow=False)


def compare(rig, capture, inputs, more=()):
    online = os.path.join(rig.folder, "online-" + capture["id"])
    offline = os.path.join(rig.folder, "offline-" + capture["id"])
    subprocess.run([PROGRAM, "capture", "wait", capture["id"], "--connect", rig.address, "-o", online,
                    "--quiet"], check=True)
    subprocess.run([PROGRAM, "analyse", *inputs, "-o", offline, "--quiet", *more], check=True)
    names = sorted(os.listdir(offline))
    if names != sorted(os.listdir(online)):
        raise SystemExit(f"other deliverables: {names} and {os.listdir(online)}")
    for name in names:
        if name != "manifest.json" and not is_same(os.path.join(online, name),
                                                   os.path.join(offline, name)):
            raise SystemExit(f"{name} differs")
    subprocess.run([PROGRAM, "verify", capture["directory"], "--quiet"], check=True)
    return len(names) - 1


def move_in(rig, *paths):
    """As profilers end: temporary names, then the final ones; of all ranks at once, since a second apart is another capture."""
    for path in paths:
        shutil.copy(path, os.path.join(rig.watched, ".part-" + os.path.basename(path)))
    for path in paths:
        name = os.path.basename(path)
        os.rename(os.path.join(rig.watched, ".part-" + name), os.path.join(rig.watched, name))


def nameless(folder):
    """The bundled job as a capture on demand leaves it: no file and no document says which rank it is; ranks.json does."""
    made = os.path.join(folder, "nameless")
    os.mkdir(made)
    ranks = {}
    for rank, path in enumerate(sorted(glob.glob(BUNDLED + "/*.gz"))):
        with gzip.open(path) as file:
            document = json.load(file)
        document.pop("distributedInfo")
        document.pop("traceName", None)
        name = f"trace_{700 + rank}.json"
        ranks[name] = rank
        with open(os.path.join(made, name), "w", encoding="utf-8") as file:
            json.dump(document, file)
    with open(os.path.join(made, "ranks.json"), "w", encoding="utf-8") as file:
        json.dump(ranks, file)
    return made


def whole_job_with_a_kill(folder, pattern):
    files = sorted(glob.glob(pattern))
    half = len(files) // 2
    rig = Rig(folder)
    try:
        for path in files[:half]:
            shutil.copy(path, rig.watched)
        rig.start_collector("--run", "job")
        time.sleep(0.05)
        rig.collector.send_signal(signal.SIGKILL)
        rig.collector.wait()
        rig.start_collector("--run", "job")
        move_in(rig, *files[half:])
        capture = rig.wait_closed(1)[0]
        if (capture["state"], capture["run"], len(capture["ranks"])) != ("complete", "job", len(files)):
            raise SystemExit(f"not a whole capture: {capture}")
        same = compare(rig, capture, [rig.watched])
        # the same files again, as a later cycle of the job
        for path in files:
            os.utime(os.path.join(rig.watched, os.path.basename(path)))
        move_in(rig, files[0])
        rig.wait_closed(2)
        if len(os.listdir(rig.watched)) != len(files):
            raise SystemExit("an original was removed without being asked to")
        print(f"{len(files)} ranks, a kill in between: {same} deliverables are the same bytes")
    finally:
        rig.stop()


def ranks_from_a_map(folder, data):
    data = data or nameless(folder)
    rig = Rig(folder)
    try:
        rank_map = os.path.join(folder, "ranks.json")
        shutil.copy(data + "/ranks.json", rank_map)
        rig.start_collector("--rank-map", rank_map)
        move_in(rig, *sorted(glob.glob(data + "/*trace*")))
        capture = rig.wait_closed(1)[0]
        if sorted(r["rank"] for r in capture["ranks"]) != [0, 1, 2, 3]:
            raise SystemExit(f"other ranks: {capture}")
        same = compare(rig, capture, [rig.watched], ["--rank-map", rank_map])
        print(f"4 ranks from a map: {same} deliverables are the same bytes")
    finally:
        rig.stop()


def ids_of_one_process_each(folder, data):
    """torch.profiler gives every rank a trace id of its own: still one capture."""
    rig = Rig(folder)
    try:
        rig.start_collector()
        move_in(rig, *sorted(glob.glob(data + "/*.gz")))
        capture = rig.wait_closed(1)[0]
        if sorted(r["rank"] for r in capture["ranks"]) != [0, 1, 2, 3]:
            raise SystemExit(f"not one capture of four ranks: {capture}")
        same = compare(rig, capture, [rig.watched])
        print(f"4 ranks, 4 trace ids, one capture: {same} deliverables are the same bytes")
    finally:
        rig.stop()


def a_file_without_a_rank_is_reported(folder, data):
    data = data or nameless(folder)
    rig = Rig(folder)
    try:
        move_in(rig, *sorted(glob.glob(data + "/*trace*")))
        rig.start_collector()
        until = time.monotonic() + 30
        while "--rank-map" not in rig.log() and time.monotonic() < until:
            time.sleep(0.1)
        if "--rank-map" not in rig.log():
            raise SystemExit("nobody was told to give a rank map")
        print("files without a rank: told what to give")
    finally:
        rig.stop()


def a_file_is_taken_once_whatever_its_names(folder, data):
    """Names for the time being are not taken, and a file that was taken is the same one when it is renamed; who keeps such a
    name hears that it is not taken."""
    rig = Rig(folder)
    try:
        files = sorted(glob.glob(data + "/*.gz"))
        rig.start_collector("-v")
        for path in files:
            shutil.copy(path, os.path.join(rig.watched, os.path.basename(path) + ".part"))
        for name in ("kept.json.gz.tmp", "kept.json.gz.partial"):
            shutil.copy(files[0], os.path.join(rig.watched, name))
        shutil.copy(files[0], os.path.join(rig.watched, "another.json.gz"))  # looked at behind those
        rig.wait_closed(1)
        os.rename(os.path.join(rig.watched, "another.json.gz"), os.path.join(rig.watched, "renamed.json.gz"))
        for path in files:
            name = os.path.join(rig.watched, os.path.basename(path))
            os.rename(name + ".part", name)
        captures = sorted(rig.wait_closed(2), key=lambda capture: capture["created_ns"])
        ranks = [sorted(rank["rank"] for rank in capture["ranks"]) for capture in captures]
        if ranks != [[0], [0, 1, 2, 3]]:
            raise SystemExit(f"not each file once: {ranks}\n{rig.log()}")
        rig.wait_log("renamed.json.gz was taken already, under another name")
        for name in ("kept.json.gz.tmp", "kept.json.gz.partial"):
            rig.wait_log(name + " is not taken: names that end in .tmp, .part or .partial are of files that are being written")
        levels = [line.split(" is not taken")[0] for line in rig.log().splitlines() if "names that end in" in line]
        if len(levels) != 2 or sum("warn" in level.lower() for level in levels) != 1:
            raise SystemExit(f"the first of them is a warning, and no other: {levels}")
        print("names for the time being: each file was taken once")
    finally:
        rig.stop()


def main():
    cases = [(a_file_is_taken_once_whatever_its_names, BUNDLED), (ranks_from_a_map, None), (ids_of_one_process_each, BUNDLED), (a_file_without_a_rank_is_reported, None)]
    if os.path.isdir(SHARED):
        cases += [(whole_job_with_a_kill, SHARED + "/dlrm-8rank/*.json"),
                  (ranks_from_a_map, SHARED + "/gloo-ddp-4rank-ondemand"),
                  (ids_of_one_process_each, SHARED + "/gloo-ddp-4rank-api"),
                  (a_file_without_a_rank_is_reported, SHARED + "/gloo-ddp-4rank-ondemand")]
    else:
        print(SHARED + " is not there: only the bundled job is tried")
    for test, data in cases:
        with tempfile.TemporaryDirectory(prefix="rankscope-watch-") as folder:
            test(folder, data)
    return 0


if __name__ == "__main__":
    sys.exit(main())
