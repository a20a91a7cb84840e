#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""fdatasync before every ack, as the system saw it.

A preload shim (shim_sync.c) writes down appends, syncs and acks in order. For every acknowledged number, every
chunk up to it must have been appended, and synced after that, above the ack's line.
"""
import os
import subprocess
import sys
import tempfile

PROGRAM = os.environ["RANKSCOPE"]
BUILD = os.environ["RANKSCOPE_BUILD"]
FEEDER = os.path.join(BUILD, "bench_stream")
SHIM = os.path.join(BUILD, "shim_sync.so")


def check_order(path):
    pending = {}  # fd -> (lane, number) appended and not synced
    durable = set()
    acks = syncs = appends = 0
    reach = [0, 0]  # by lane: everything up to here is durable
    for line in open(path, encoding="ascii"):
        words = line.split()
        if words[0] == "append":
            pending.setdefault(words[1], []).append((int(words[3]), int(words[2])))
            appends += 1
        elif words[0] == "sync":
            durable.update(pending.pop(words[1], []))
            syncs += 1
            for lane in (0, 1):
                while (lane, reach[lane] + 1) in durable:
                    reach[lane] += 1
        elif words[0] == "ack":
            acks += 1
            lane = int(words[1]) - 1  # the spool numbers a rank's two streams 1 (raw) and 2 (summary)
            if int(words[2]) > reach[lane]:
                raise SystemExit(f"ack {words[2]} of lane {lane} was sent when only {reach[lane]} was synced")
    return appends, syncs, acks, sum(reach)


def main():
    if not os.path.exists(SHIM):
        print("skipped: no shim in a build with sanitizers")
        return 77
    with tempfile.TemporaryDirectory(prefix="rankscope-sync-") as folder:
        address = "unix:" + os.path.join(folder, "a.sock")
        log = os.path.join(folder, "order")
        environment = dict(os.environ, LD_PRELOAD=SHIM, SHIM_LOG=log)
        aggregator = subprocess.Popen(
            [PROGRAM, "aggregator", "--listen", address, "--data", os.path.join(folder, "data")],
            env=environment, stdout=subprocess.PIPE)
        try:
            if b"listening" not in aggregator.stdout.readline():
                raise SystemExit("the aggregator did not start")
            subprocess.run([FEEDER, "feed", "--connect", address, "--spool",
                            os.path.join(folder, "spool"), "--ranks", "1", "--bytes", str(64 << 20)],
                           check=True, timeout=300)
        finally:
            aggregator.terminate()
            aggregator.wait()
        appends, syncs, acks, reach = check_order(log)
        if reach != appends or acks < 10:
            raise SystemExit(f"{appends} appends, {reach} durable, {acks} acks: too few to judge")
        print(f"{appends} appends, {syncs} syncs, {acks} acks: a sync stands before every ack")
    return 0


if __name__ == "__main__":
    sys.exit(main())
