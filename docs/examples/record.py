# SPDX-License-Identifier: Apache-2.0
"""How slow-loader/ was recorded: a data-parallel job of four ranks whose rank 2 has a slow data loader.

torchrun --nproc-per-node 4 docs/examples/record.py OUT [--slow-rank 2 --slow-ms 60]

An ordinary training loop with torch.profiler's own schedule; the traces are written as any job of PyTorch writes them.
"""
import argparse
import gzip
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile, schedule
from torch.utils.data import DataLoader, IterableDataset

WAIT, WARM_UP, ACTIVE = 4, 2, 8


class Batches(IterableDataset):
    """Random numbers, after the time that reading and decoding a batch takes."""

    def __init__(self, rank, seconds):
        self.generator, self.seconds = torch.Generator().manual_seed(rank), seconds

    def __iter__(self):
        while True:
            time.sleep(self.seconds)
            yield torch.randn(64, 256, generator=self.generator)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("--slow-rank", type=int, default=2)
    parser.add_argument("--slow-ms", type=float, default=60)
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 512), nn.GELU(), nn.Linear(512, 256))
    model = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    slow_s = args.slow_ms / 1000 if rank == args.slow_rank else 0
    data = iter(DataLoader(Batches(rank, 0.02 + slow_s), batch_size=None))

    def write(profiler):
        path = os.path.join(args.out, f"rank{rank}.pt.trace.json")
        profiler.export_chrome_trace(path)
        with open(path, "rb") as plain, open(path + ".gz", "wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed:
            packed.write(plain.read())
        os.unlink(path)

    plan = schedule(wait=WAIT, warmup=WARM_UP, active=ACTIVE, repeat=1)
    with profile(activities=[ProfilerActivity.CPU], schedule=plan, on_trace_ready=write, record_shapes=True) as profiler:
        for _ in range(WAIT + WARM_UP + ACTIVE):
            batch = next(data)
            optimizer.zero_grad()
            nn.functional.mse_loss(model(batch), batch).backward()
            optimizer.step()
            profiler.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
