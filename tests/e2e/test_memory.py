#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Out of memory ends with a message, or costs what it was for; never with a signal.

One allocation of the program fails, the k-th, for k over all of them (`--every`: each one; by default some sixty of each command); and all from
the k-th on. Commands: analyse, report and verify of a capture. Daemons: an aggregator, and a collector with a folder of traces, each with a
healthy other side. What ends because of it says so; what goes on is stopped in the end, and its other side is there still.
"""
import argparse
import glob
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

PROGRAM = os.environ["RANKSCOPE"]
SHIM = os.path.join(os.path.abspath(os.environ["RANKSCOPE_BUILD"]), "shim_memory.so")
JOB = "docs/examples/slow-loader"


def check(condition, *texts):
    if not condition:
        raise SystemExit(" ".join(str(text) for text in texts))


def environment(k=0, count=1, log=None):
    made = dict(os.environ, LD_PRELOAD=SHIM, SHIM_FAIL_AT=str(k), SHIM_FAIL_COUNT=str(count), RANKSCOPE_CONFIG="")
    if log:
        made["SHIM_LOG"] = log
    return made


def run(words, k=0, count=1, log=None):
    return subprocess.run([PROGRAM, *words], env=environment(k, count, log), capture_output=True, text=True, timeout=120, check=False)


def chosen(total, many, every):
    """Of 1 to `total`: all, or more of the first ones, where a process is set up."""
    if every or total <= many:
        return range(1, total + 1)
    rng = random.Random(total)
    return sorted(set(range(1, many // 3)) | {int(total ** rng.random()) for _ in range(many // 3)} |
                  {rng.randint(1, total) for _ in range(many // 3)})


def commands(folder, every):
    both(os.path.join(folder, "stored"), "collector", 0)
    capture = glob.glob(os.path.join(folder, "stored", "data", "captures", "*"))[0]
    for name, words in (("analyse", ["analyse", JOB, "-o", os.path.join(folder, "again"), "-q"]), ("report", ["report", capture]),
                        ("verify", ["verify", capture])):
        log = os.path.join(folder, "count")
        whole = run(words, log=log)
        check(whole.returncode in (0, 1), name, "without a fault:", whole.returncode, whole.stderr)
        with open(log, encoding="ascii") as file:
            total = int(file.read())
        codes = {}
        for k in chosen(total, 60 if name == "analyse" else 30, every):
            for count in (1, 0):
                shutil.rmtree(os.path.join(folder, "again"), ignore_errors=True)
                done = run(words, k, count)
                codes[done.returncode] = codes.get(done.returncode, 0) + 1
                check(done.returncode >= 0, f"{name}: allocation {k} of {total} (and {count or 'all'}): signal {-done.returncode}\n{done.stderr}")
                check(done.returncode == whole.returncode or done.stderr.strip(), f"{name}: allocation {k}: {done.returncode} without a word")
        print(f"{name}: {total} allocations, exit codes {codes}", flush=True)


def daemon(folder, words, k=None, log=None):
    with open(os.path.join(folder, words[0] + ".log"), "ab") as file:
        return subprocess.Popen([PROGRAM, *words], env=environment(k, 1, log) if k is not None else {**os.environ, "RANKSCOPE_CONFIG": ""},
                                stdout=file, stderr=file)


def captures(address):
    done = subprocess.run([PROGRAM, "capture", "list", "--connect", address, "--json"], capture_output=True, text=True, timeout=60, check=False)
    return done.stdout.count('"closed_ns"') - done.stdout.count('"closed_ns": null') if done.returncode == 0 else -1


def wait(is_it, seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if is_it():
            return True
        time.sleep(0.05)
    return False


def both(folder, faulty, k, log=None):
    """An aggregator and a collector, one of which lacks memory once. How the faulty one ended."""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(os.path.join(folder, "traces"))
    address = "unix:" + os.path.join(folder, "a.sock")
    for path in glob.glob(JOB + "/*.gz"):
        shutil.copy(path, os.path.join(folder, "traces"))
    words = {"aggregator": ["aggregator", "--listen", address, "--data", os.path.join(folder, "data")],
             "collector": ["collector", "--connect", address, "--spool", os.path.join(folder, "spool"), "--watch", os.path.join(folder, "traces"),
                           "--settle", "100ms", "--no-native", "--no-kineto", "--no-ascend", "--no-mindspore"]}
    processes = {}
    try:
        for name, line in words.items():
            processes[name] = daemon(folder, line, k if name == faulty else None, log)
            if name == "aggregator":
                wait(lambda: captures(address) >= 0 or processes["aggregator"].poll() is not None, 20)
        # all of the job is stored, or whoever lacks memory has ended, or has lost it and goes on
        is_stored = wait(lambda: captures(address) > 0 or processes[faulty].poll() is not None, 4 if k else 120)
        check(k or is_stored, f"nothing was stored, without a fault: {folder}")
        other = "collector" if faulty == "aggregator" else "aggregator"
        check(processes[other].poll() is None, f"the {other} ended, too: {folder}")
    finally:
        for process in reversed(processes.values()):
            if process.poll() is None:
                process.terminate()
            process.wait(60)
    code = processes[faulty].returncode
    with open(os.path.join(folder, faulty + ".log"), encoding="utf-8", errors="replace") as file:
        said = file.read()
    check(code >= 0, f"{faulty}: allocation {k}: signal {-code}\n{said[-2000:]}")
    check(code == 0 or "memory" in said, f"{faulty}: allocation {k}: ended with {code} and did not say why\n{said[-2000:]}")
    return code


def daemons(folder, every, many):
    for faulty in ("aggregator", "collector"):
        log = os.path.join(folder, "count-" + faulty)
        both(os.path.join(folder, "d"), faulty, 0, log)
        with open(log, encoding="ascii") as file:
            total = int(file.read())
        codes = {}
        for k in chosen(total, many, every):
            code = both(os.path.join(folder, "d"), faulty, k)
            codes[code] = codes.get(code, 0) + 1
        print(f"{faulty}: {total} allocations, exit codes {codes}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--every", action="store_true")
    parser.add_argument("--daemons", type=int, default=18, help="allocations of each daemon that fail")
    options = parser.parse_args()
    if not os.path.exists(SHIM):
        print("skipped: no shim in a build with sanitizers")
        return 77
    with tempfile.TemporaryDirectory(prefix="rs-memory-") as folder:
        commands(folder, options.every)
        daemons(folder, options.every, options.daemons)
    return 0


if __name__ == "__main__":
    sys.exit(main())
