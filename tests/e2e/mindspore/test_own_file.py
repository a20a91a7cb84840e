#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A collector watches the folder of a MindSpore job for edits by hand, and tells that job through the same file: what it writes
itself is no edit, and what a hand writes is one.

Light ranks (light.py) make no results, so the captures themselves fail; how many there are is what counts.
"""
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import time

from rig import Job, Shm, check, scratch

PROGRAM = os.path.abspath(os.environ["RANKSCOPE"])
HERE = os.path.dirname(os.path.abspath(__file__))
RANKS = 2


def counter_of(path, limit_s=20):
    end = time.monotonic() + limit_s
    while not os.path.exists(path) or os.path.getsize(path) < 8:
        check(time.monotonic() < end, f"no {path}")
        time.sleep(0.05)
    with open(path, "rb") as file:
        return struct.unpack("<q", file.read(8))[0]


def main():
    folder = scratch()
    config, counter = os.path.join(folder, "config"), os.path.join(folder, "counter")
    path, log = os.path.join(config, "profiler_config.json"), os.path.join(folder, "collector.log")
    address = "unix:" + os.path.join(folder, "a.sock")
    environment = dict(os.environ, RANKSCOPE_RUNTIME_DIR=folder)
    os.makedirs(config)
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"start_step": -1, "stop_step": -1, "analyse_mode": -1}, file)
    job = Job(folder, "own", [sys.executable, os.path.join(HERE, "light.py"), "--config", config, "--way", "step", "--ranks",
                              str(RANKS), "--step-ms", "20", "--counter", counter], Shm())
    counter_of(counter)

    def ask(*words):
        return subprocess.run([PROGRAM, *words, "--connect", address], capture_output=True, text=True, check=False, timeout=90,
                              env=environment)

    def captures():
        return json.loads(ask("capture", "list", "--json").stdout)["captures"]

    aggregator = subprocess.Popen([PROGRAM, "aggregator", "--listen", address, "--data", os.path.join(folder, "data")],
                                  stdout=subprocess.PIPE, env=environment)
    check(b"listening" in aggregator.stdout.readline(), "the aggregator did not start")
    with open(log, "wb") as errors:
        collector = subprocess.Popen(
            [PROGRAM, "collector", "--connect", address, "--spool", os.path.join(folder, "spool"), "--trace-dir",
             os.path.join(folder, "traces"), "--no-kineto", "--no-native", "--no-ascend", "--mindspore-config", config,
             "--mindspore-way", "step", "--profiler-config", config, "--run", "own", "--verbose"], stderr=errors, env=environment)
    try:
        check(ask("ranks", "--run", "own", "--wait", str(RANKS), "--timeout", "30s", "-q").returncode == 0, "no ranks")
        before = os.stat(path).st_ino
        told = ask("capture", "--run", "own", "--steps", "2", "--start-step", str(counter_of(counter) + 200), "--timeout", "8s",
                   "--no-report")
        check(os.stat(path).st_ino != before, "the file was not written:\n" + told.stdout + told.stderr)
        time.sleep(4)  # a watcher that looks once a second, and the file as it is left behind
        found = captures()
        check(len(found) == 1, found)
        with open(log, encoding="utf-8") as file:
            text = file.read()
        check(text.count("was written by a trigger") >= 1 and "edited" not in text, text)
        # a hand's edit is one, as before
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump({"start_step": 1000000, "stop_step": 1000001, "analyse_mode": -1}, file)
        os.rename(path + ".new", path)
        end = time.monotonic() + 15
        while len(captures()) == 1:
            check(time.monotonic() < end, "an edit by hand was not seen")
            time.sleep(0.2)
        print(f"own file: written {text.count('was written by a trigger')} times by the collector: no edit; by hand: one")
    except BaseException:
        with open(log, encoding="utf-8") as file:
            print(file.read())
        raise
    finally:
        for process in (collector, aggregator):
            process.send_signal(signal.SIGTERM)
        for process in (collector, aggregator):
            process.wait(120)
        job.kill()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
