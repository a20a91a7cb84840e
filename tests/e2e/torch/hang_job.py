# SPDX-License-Identifier: Apache-2.0
"""Four gloo ranks that train for some steps and then do what the first argument says; each opens torch's worker server on a unix
socket in the folder of the second argument, and writes its own dump there when a file "dump" appears."""
import ctypes
import os
import sys
import threading
import time

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

MODE, FOLDER = sys.argv[1], sys.argv[2]
STEPS = os.environ.get("HANG_STEPS")  # librankscope.so: tell it every step


def dump_when_asked(rank):
    while not os.path.exists(os.path.join(FOLDER, "dump")):
        time.sleep(0.05)
    path = os.path.join(FOLDER, "dumps", f"trace_rank_{rank}")
    data = c10d._dump_fr_trace(includeStackTraces=False)  # naming frames takes seconds: such a dump is older than its file
    with open(path + ".part", "wb") as file:
        file.write(data)
    os.rename(path + ".part", path)


def endless():
    while True:
        pass


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    first, second = dist.new_group([0, 1, 2, 3]), dist.new_group([0, 1, 2, 3])
    server = c10d._WorkerServer(os.path.join(FOLDER, f"s{rank}.sock"))
    if MODE != "loop" or rank != 2:
        threading.Thread(target=dump_when_asked, args=(rank,), daemon=True).start()
    value = torch.ones(64)
    for _ in range(20):
        dist.all_reduce(value)
        dist.all_reduce(value, group=first)
        dist.all_reduce(value, group=second)
    with open(os.path.join(FOLDER, f"ready{rank}"), "w", encoding="utf-8") as file:
        file.write(str(os.getpid()))
    if MODE == "healthy":
        while not os.path.exists(os.path.join(FOLDER, "end")):
            dist.all_reduce(value)
            time.sleep(0.01 + 0.005 * rank)
    elif MODE == "stall":
        library = ctypes.CDLL(STEPS)
        if library.rankscope_init(None):
            sys.exit("rankscope_init failed")
        for step in range(1 << 30):
            library.rankscope_step(ctypes.c_uint64(step))
            while rank == 3 and os.path.exists(os.path.join(FOLDER, "stall")):
                time.sleep(0.05)
            dist.all_reduce(value)
            time.sleep(0.02)
    elif MODE == "absent" and rank == 3:
        time.sleep(600)
    elif MODE == "loop" and rank == 2:
        endless()
    elif MODE == "killed" and rank == 1:
        time.sleep(600)  # the test kills it
    elif MODE == "killed":
        try:
            dist.all_reduce(value)
        except RuntimeError as error:  # gloo tells the neighbours; a job that catches this stays
            print(rank, error)
    elif MODE == "size":
        try:
            dist.all_reduce(torch.ones(128 if rank == 0 else 64))
        except RuntimeError as error:  # gloo ends the process that gets too much; the others are asked
            print(rank, error)
    elif MODE == "order":
        dist.all_reduce(value)
        for group in (first, second) if rank != 2 else (second, first):
            dist.all_reduce(value, group=group)
    else:
        dist.all_reduce(value)
    time.sleep(600)
    del server


if __name__ == "__main__":
    main()
