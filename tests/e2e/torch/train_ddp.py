# SPDX-License-Identifier: Apache-2.0
"""An ordinary data-parallel training script: it knows nothing of Rankscope or of any profiler.

torchrun --nproc-per-node 4 train_ddp.py [--steps N] [--sleep-rank R --sleep-ms MS [--sleep-when FILE]] [--pause-ms MS]

The sleep stands for a slow data loader of one rank: trouble that really happens; with a file, from when that is there. The pause, of all ranks in each step, leaves
cores free.
"""
import argparse
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def batches(generator, rank, args):
    while True:
        if rank == args.sleep_rank and (not args.sleep_when or os.path.exists(args.sleep_when)):
            time.sleep(args.sleep_ms / 1000)
        yield torch.randn(64, 256, generator=generator)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--sleep-rank", type=int, default=-1)
    parser.add_argument("--sleep-ms", type=float, default=0)
    parser.add_argument("--sleep-when", default="")
    parser.add_argument("--pause-ms", type=float, default=0)
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 512), nn.GELU(), nn.Linear(512, 256))
    model = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = batches(torch.Generator().manual_seed(rank), rank, args)
    for step in range(args.steps):
        batch = next(data)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(batch), batch)
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
        if args.pause_ms:
            time.sleep(args.pause_ms / 1000)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
