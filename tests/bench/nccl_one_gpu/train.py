#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One rank of a DDP training on CUDA device 0, with NCCL; run.sh starts four. Trouble is planted by --trouble and --hang.

--trouble data:R:MS      rank R's data loader sleeps MS ms in every step
--trouble compute:R:F    rank R computes F times as much
--hang absent|size|order in step 40: rank 3 sleeps; rank 2 reduces twice as many numbers; rank 2 calls two groups in the other order
"""
import argparse
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

HANG_AT = 40
WIDTH = 1024


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--trouble", default="none")
    parser.add_argument("--hang", default="")
    parser.add_argument("--end", default="", help="all ranks end when this file is there")
    return parser.parse_args()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(8))

    def forward(self, value):
        for layer in self.layers:
            value = torch.relu(layer(value))
        return value


def hang(how, rank, side):
    value = torch.ones(1024, device="cuda")
    if how == "absent" and rank == 3:
        time.sleep(100000)
    elif how == "size":
        dist.all_reduce(torch.ones(2048 if rank == 2 else 1024, device="cuda"), group=side)
    elif how == "order":
        for group in (None, side) if rank != 2 else (side, None):
            dist.all_reduce(value, group=group)
            torch.cuda.synchronize()


def main():
    options = arguments()
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    kind, _, rest = options.trouble.partition(":")
    who, _, how_much = rest.partition(":")
    is_mine = kind != "none" and rank == int(who)
    torch.cuda.set_device(0)
    dist.init_process_group("nccl")
    side = dist.new_group(list(range(world)))
    net = DistributedDataParallel(Net().cuda())
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    work = torch.randn(4096, 4096, device="cuda")
    data = torch.randn(64, WIDTH).pin_memory()
    products = int(6 * (float(how_much) if is_mine and kind == "compute" else 1))
    step = 0
    while True:
        time.sleep(float(how_much) / 1000 if is_mine and kind == "data" else 0.002)  # the data loader
        if step % 10 == 0:
            is_over = torch.tensor([1.0 if options.end and os.path.exists(options.end) else 0.0], device="cuda")
            dist.all_reduce(is_over)
            if is_over.item() > 0:
                break
            print("step", step, flush=True)
        if options.hang and step == HANG_AT:
            hang(options.hang, rank, side)
        optimizer.zero_grad()
        value = net(data.cuda(non_blocking=True))
        for _ in range(products):
            work @ work  # pylint: disable=pointless-statement
        value.sum().backward()
        optimizer.step()
        torch.cuda.synchronize()
        step += 1
    os._exit(0)  # NCCL's communicators are not waited for


main()
