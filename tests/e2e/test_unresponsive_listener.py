#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An aggregator whose listener accepts nobody any more ends with a sentence, so that its supervisor can start it again.

Running out of file descriptors once makes a gRPC listener (TCP) unresponsive for good, even when they are free again. Our own, of
unix sockets, looks again. A healthy one must not be ended: the last part comes after several knocks.
"""
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time

PROGRAM = os.environ["RANKSCOPE"]


def start(folder, listen, limit=None):
    def lower():
        if limit:
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))

    process = subprocess.Popen(
        [PROGRAM, "aggregator", "--listen", listen, "--insecure-loopback", "--data", os.path.join(folder, "data")],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=lower)
    said = process.stdout.readline().decode()
    if "listening" not in said:
        sys.exit("the aggregator did not start")
    return process, said.split()[-1]


def ask(address):
    return subprocess.run([PROGRAM, "ranks", "--connect", address, "--insecure-loopback"], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, timeout=60).returncode


def exhaust(address):
    crowd = []
    for _ in range(200):
        if address.startswith("unix:"):
            visitor = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            where = address[5:]
        else:
            visitor = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            where = (address.split(":")[0], int(address.split(":")[1]))
        visitor.setblocking(False)
        try:
            visitor.connect(where)
        except BlockingIOError:
            pass  # the queue is full, or it is on its way: enough of them wait
        crowd.append(visitor)
    time.sleep(2)
    for visitor in crowd:
        visitor.close()


def main():
    folders = [tempfile.TemporaryDirectory(prefix="rankscope-unresponsive-") for _ in range(3)]
    healthy, healthy_address = start(folders[0].name, f"unix:{folders[0].name}/a.sock")
    unresponsive, address = start(folders[1].name, "127.0.0.1:0", limit=64)
    crowded, crowded_address = start(folders[2].name, f"unix:{folders[2].name}/a.sock", limit=64)
    try:
        exhaust(address)
        exhaust(crowded_address)
        # who waited in the queue of the unix socket is answered as soon as there is room again
        if ask(crowded_address) != 1:
            sys.exit("the crowded aggregator does not answer over its unix socket")
        try:
            code = unresponsive.wait(60)
        except subprocess.TimeoutExpired:
            sys.exit("the unresponsive aggregator was still there after 60 s")
        text = unresponsive.stderr.read().decode()
        if code == 0 or "own address" not in text:
            sys.exit(f"it ended with {code}: {text}")
        for name, process, at in (("healthy", healthy, healthy_address), ("crowded", crowded, crowded_address)):
            if process.poll() is not None or ask(at) != 1:
                sys.exit(f"the {name} aggregator does not answer")
        print("TCP: ended with a sentence; unix socket: answers again; healthy: answers after several knocks")
    finally:
        for process in (healthy, unresponsive, crowded):
            if process.poll() is None:
                process.terminate()
                process.wait()
        for folder in folders:
            folder.cleanup()
    return 0


sys.exit(main())
