#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What reading and judging costs: 64 ranks against torchfrtrace in the same run, 1,024 ranks x 2,000 calls against the limits.

    RANKSCOPE=build/release/rankscope tests/bench/hang_speed.py [--ranks 1024] [--torchfrtrace PATH] [--runs 5]

Prints CPU seconds (user + system, median) and the largest resident memory. Exit 1: beyond 3 CPU s or 512 MiB at 1,024
ranks, or less than 60 times cheaper than torchfrtrace at 64 (where it is there; it comes with PyTorch).
"""
import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import mkflight  # noqa: E402

PROGRAM = os.path.abspath(os.environ.get("RANKSCOPE", "build/release/rankscope"))
LARGE_STACK = 39  # frames of a call: 1,024 ranks then are some 460 MB


COST = """
import os, sys
null = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_WRONLY, 0) for fd in (1, 2)]
pid = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ, file_actions=null)
usage = os.wait4(pid, 0)[2]
print(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)
"""


def cost(command):
    """(CPU seconds, MiB) of a command. From a small process: what a child is before its exec() counts as its own, and this one is
    large."""
    done = subprocess.run([sys.executable, "-S", "-c", COST, *command], capture_output=True, text=True, check=True)
    cpu, memory = done.stdout.split()
    return float(cpu), float(memory)


def write(ranks, folder, stack=22):
    # Six calls a step: the rings do not wrap, so that torchfrtrace looks at every call instead of giving up.
    # Stacks of 22 frames make a call as long as those of real dumps, some 230 bytes.
    spec = {"ranks": ranks, "tp": 2, "steps": 333, "layers": 3, "ring": 2000, "frames": True, "stack": stack, "plant": "absent",
            "seed": 3}
    mkflight.write(mkflight.make(spec), folder)
    os.unlink(os.path.join(folder, "truth.json"))
    names = os.listdir(folder)
    return sum(os.path.getsize(os.path.join(folder, n)) for n in names) / 1e6


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=1024)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--torchfrtrace", default=os.path.expanduser("~/.cache/rankscope/torch-2.15.0/bin/torchfrtrace"))
    arguments = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="rs-hang-speed-")
    bad = False
    try:
        path = os.path.join(folder, "small")
        size = write(64, path)
        ours = statistics.median(cost([PROGRAM, "hang", path, "-q"])[0] for _ in range(arguments.runs))
        print(f"64 ranks x 2,000 calls, {size:.0f} MB: {ours:.3f} CPU s")
        if os.path.exists(arguments.torchfrtrace):
            theirs = statistics.median(cost([arguments.torchfrtrace, path, "-p", "comm_lib_trace_rank_"])[0]
                                       for _ in range(arguments.runs))
            print(f"torchfrtrace on the same: {theirs:.2f} CPU s, {theirs / ours:.0f} times as much")
            bad = theirs < 60 * ours
        else:
            print("torchfrtrace is not here: not compared")
        shutil.rmtree(path)
        path = os.path.join(folder, "large")
        size = write(arguments.ranks, path, LARGE_STACK)
        runs = [cost([PROGRAM, "hang", path, "-q"]) for _ in range(arguments.runs)]
        cpu, memory = statistics.median(r[0] for r in runs), max(r[1] for r in runs)
        print(f"{arguments.ranks} ranks x 2,000 calls, {size:.0f} MB: {cpu:.2f} CPU s, {memory:.0f} MiB")
        bad = bad or (arguments.ranks <= 1024 and (cpu > 3 or memory > 512))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    sys.exit(bad)


if __name__ == "__main__":
    main()
