#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A process that asks as msMonitor's clients do (torch_npu, MindSpore), beside Kineto's own client in the same process.

It registers with job 0 and does not read an answer then, polls with both bits always, tells its profiler's state, and sends
metrics; on HOME/dynolog.sock, and on Kineto's socket as older ones do. Every poll gets one empty answer, and nothing else
comes: no acknowledgement that would make all answers lag by one, no Kineto request. A capture goes to the Kineto client.
Where another process serves HOME/dynolog.sock, the collector that was asked to serve it says who does, and ends.
"""
import os
import re
import select
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import time
import uuid

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from test_kineto_clients import Rig, check  # noqa: E402


def message(kind, payload):
    return struct.pack("<Q32s", len(payload), kind) + payload


class Client:
    def __init__(self, daemon):
        self.daemon = daemon
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("\0dynoconfigclient" + str(uuid.uuid4()) + "\0")

    def send(self, kind, payload, to=None):
        self.socket.sendto(message(kind, payload), to or self.daemon)

    def register(self):
        self.send(b"ctxt", struct.pack("<iiq", 3, os.getpid(), 0))

    def status(self, step):
        self.send(b"npuTraceStatus", struct.pack("<iiiiiiq", 1, step, 100, 110, os.getpid(), 0, 0))

    def poll(self):
        """What comes back within its patience."""
        self.send(b"req", struct.pack("<iiq2i", 3, 2, 0, os.getpid(), os.getppid()))
        answers = []
        until = time.monotonic() + 0.2
        while select.select([self.socket], [], [], max(0, until - time.monotonic()))[0]:
            answers.append(self.socket.recv(65536))
        return answers


EMPTY = message(b"req", b"")


class MonitorRig(Rig):
    def __init__(self, folder):
        self.home = os.path.join(folder, "home")
        os.mkdir(self.home)
        super().__init__(folder)

    def collector_words(self, spool="spool"):
        return super().collector_words(spool) + ["--msmonitor-home", self.home, "-v"]

    def start_collector(self):
        self.log = open(os.path.join(self.folder, "collector.log"), "ab")
        self.collector = subprocess.Popen(self.collector_words(), env=self.environment, stderr=self.log)
        until = time.monotonic() + 10
        while not os.path.exists(os.path.join(self.home, "dynolog_data.sock")) and time.monotonic() < until:
            time.sleep(0.02)


def answers(rig):
    info = os.stat(os.path.join(rig.home, "dynolog.sock"))
    check(stat.S_IMODE(info.st_mode) == 0o600, f"mode {info.st_mode:o}")
    for daemon in (os.path.join(rig.home, "dynolog.sock"), os.path.join(rig.sockets, "dynolog")):
        client = Client(daemon)
        client.register()
        for step in range(3):
            client.status(step)
            got = client.poll()
            check(got == [EMPTY], f"{daemon}: {got}")
        client.send(b"data", b'{"kind":"Kernel"}' * 100, os.path.join(rig.home, "dynolog_data.sock"))
        client.send(b"data", b"x")
        check(not select.select([client.socket], [], [], 0.2)[0], "something was sent that nobody asked for")
    hurt = Client(os.path.join(rig.home, "dynolog.sock"))
    for bytes_ in (b"", b"x" * 39, message(b"npuTraceStatus", b"short"), struct.pack("<Q32s", 1 << 62, b"req"),
                   message(b"req", struct.pack("<iiq", 3, 1000, 0)), message(b"x" * 32, b"")):
        hurt.socket.sendto(bytes_, hurt.daemon)
    check(not select.select([hurt.socket], [], [], 0.2)[0], "a hostile datagram was answered")
    check(Client(os.path.join(rig.home, "dynolog.sock")).poll() == [EMPTY], "it is unresponsive after hostile datagrams")
    print("answered: one empty answer per poll on both sockets, nothing else")


def beside_kineto(rig):
    """A Kineto client and an msMonitor client of one process: the request goes to the first."""
    rig.start_client("both", 0, 1, "--msmonitor")
    rig.ask("ranks", "--run", "both", "--wait", "1", "-q")
    time.sleep(1)
    ranks, _ = rig.capture("both", "--duration", "200ms")
    check(ranks[0]["state"] == "done", f"{ranks}")
    check(rig.clients[-1].poll() is None, "the client met an answer that is not for it")
    print("beside Kineto's client: captured, and only the Kineto client was told")


def other_monitor(rig):
    done = subprocess.run([*rig.collector_words("spool2"), "--kineto-socket-dir", rig.home], capture_output=True, text=True,
                          timeout=30, check=False, env=rig.environment)
    check(done.returncode == 3, f"exit {done.returncode}: {done.stderr}")
    check(f"process {rig.collector.pid} (rankscope)" in done.stderr and "dynolog.sock" in done.stderr, done.stderr)
    print("another daemon:", done.stderr.strip().splitlines()[-1])


def main():
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="rs-msmonitor-") as folder:
        rig = MonitorRig(folder)
        try:
            for part in (answers, beside_kineto, other_monitor):
                part(rig)
        finally:
            rig.stop()
        with open(os.path.join(folder, "collector.log"), encoding="utf-8") as file:
            log = file.read()
        found = re.search(r"(\d+) states and (\d+) messages of metrics \((\d+) bytes\)", log)
        check(found and [int(x) for x in found.groups()] == [6, 4, 3402], f"counted: {found and found.group(0)}\n{log}")
        print("counted:", found.group(0))
        check(not os.path.exists(os.path.join(folder, "home", "dynolog.sock")), "the socket file is left behind")


if __name__ == "__main__":
    main()
