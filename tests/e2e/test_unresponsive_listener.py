#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An aggregator whose listener accepts nobody any more ends with a sentence, so that its supervisor can start it again.

Running out of file descriptors once makes a gRPC listener unresponsive for good, even when they are free again.
A healthy one must not be ended: the second half waits through several knocks.
"""
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time

PROGRAM = os.environ["RANKSCOPE"]


def start(folder, limit=None):
    def lower():
        if limit:
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))

    path = os.path.join(folder, "a.sock")
    process = subprocess.Popen(
        [PROGRAM, "aggregator", "--listen", "unix:" + path, "--data", os.path.join(folder, "data")],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=lower)
    if b"listening" not in process.stdout.readline():
        sys.exit("the aggregator did not start")
    return process, path


def ask(path):
    return subprocess.run([PROGRAM, "ranks", "--connect", "unix:" + path], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, timeout=20).returncode


def exhaust(path):
    crowd = []
    for _ in range(200):
        visitor = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        visitor.setblocking(False)
        try:
            visitor.connect(path)
        except BlockingIOError:
            pass  # the queue is full: enough of them wait
        crowd.append(visitor)
    time.sleep(2)
    for visitor in crowd:
        visitor.close()


def main():
    with tempfile.TemporaryDirectory(prefix="rankscope-unresponsive-") as one, \
            tempfile.TemporaryDirectory(prefix="rankscope-unresponsive-") as two:
        healthy, healthy_path = start(two)
        unresponsive, path = start(one, limit=64)
        try:
            exhaust(path)
            try:
                code = unresponsive.wait(60)
            except subprocess.TimeoutExpired:
                sys.exit("the unresponsive aggregator was still there after 60 s")
            text = unresponsive.stderr.read().decode()
            if code == 0 or "own address" not in text:
                sys.exit(f"it ended with {code}: {text}")
            if healthy.poll() is not None or ask(healthy_path) != 1:
                sys.exit("the healthy aggregator does not answer")
            print("unresponsive: ended with a sentence; healthy: answers after several knocks")
        finally:
            for process in (healthy, unresponsive):
                if process.poll() is None:
                    process.terminate()
                    process.wait()
    return 0


sys.exit(main())
