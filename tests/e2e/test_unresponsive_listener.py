#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An aggregator whose listener accepts nobody any more ends with a sentence, so that its supervisor can start it again.

Running out of file descriptors once makes a gRPC listener (TCP) unresponsive for good, even when they are free again. Our own, of
unix sockets, looks again. Neither is busy meanwhile. A healthy one must not be ended: the last part comes after several knocks.
"""
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time

PROGRAM = os.environ["RANKSCOPE"]
CROWDED_S = 3
BUSY = 0.25  # of a core: a loop that does not wait takes one, or what is left of the machine


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


def cpu_of(process):
    with open(f"/proc/{process.pid}/stat", encoding="utf-8") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def exhaust(address, process):
    """Takes every descriptor it has for a while. The share of a core that it needs meanwhile."""
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
    time.sleep(0.5)
    before, since = cpu_of(process), time.monotonic()
    time.sleep(CROWDED_S)  # what is measured is a rate
    share = (cpu_of(process) - before) / (time.monotonic() - since)
    free = 64 - len(os.listdir(f"/proc/{process.pid}/fd"))
    for visitor in crowd:
        visitor.close()
    if free > 4:
        sys.exit(f"{free} descriptors of {address} were still free")
    return share


def main():
    folders = [tempfile.TemporaryDirectory(prefix="rankscope-unresponsive-") for _ in range(3)]
    healthy, healthy_address = start(folders[0].name, f"unix:{folders[0].name}/a.sock")
    unresponsive, address = start(folders[1].name, "127.0.0.1:0", limit=64)
    crowded, crowded_address = start(folders[2].name, f"unix:{folders[2].name}/a.sock", limit=64)
    try:
        shares = [exhaust(address, unresponsive), exhaust(crowded_address, crowded)]
        if max(shares) > BUSY:
            sys.exit(f"without a free descriptor it was busy: {shares[0]:.2f} of a core over TCP, {shares[1]:.2f} over a unix socket")
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
        print(f"without a free descriptor: {shares[0]:.3f} of a core over TCP, {shares[1]:.3f} over a unix socket")
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
