# SPDX-License-Identifier: Apache-2.0
"""The job that tests/bench/torch_culprits.py plants its troubles in: data-parallel training as anybody writes it.

torchrun --nproc-per-node N torch_job.py CONTROL [--record OUT] [--load-ms 20]

A data loader that takes its time, DDP over gloo, an optimizer. With --record it works off the recordings of the plan in CONTROL
(a JSON list) under torch.profiler's own schedule, each into OUT/NAME; what trouble a recording has stands in OUT/NAME/trouble.json
with the time that healthy steps took. Without, it trains until it is ended and reads the trouble of the moment from CONTROL, which
a new file replaces; profilers come from outside.

Troubles: {"stall": {"ranks": [..], "share": 0.3, "every": 1}}  the loader of these ranks takes so much of a healthy step longer
          {"stall": {"moves": true, "share": 0.3}}              of another rank in each step, by a fixed seed
          {"double": {"ranks": [..]}}                           forward and backward are computed twice there
"""
import argparse
import json
import os
import random
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile, schedule
from torch.utils.data import DataLoader, IterableDataset

WAIT, WARM_UP = 2, 2
MEASURED = 12  # healthy steps that tell how long a step is


class Trouble:
    """What is planted now; asked by the loader and by the loop."""

    def __init__(self):
        self.plan, self.step, self.healthy_s = {}, 0, 0.0

    def stall_s(self, rank, world):
        stall = self.plan.get("stall")
        if not stall:
            return 0.0
        if stall.get("moves"):
            ranks = [random.Random(f"{stall.get('seed', 0)} {self.step}").randrange(world)]
        else:
            ranks = stall["ranks"] if self.step % stall.get("every", 1) == 0 else []
        return stall["share"] * self.healthy_s if rank in ranks else 0.0

    def is_double(self, rank):
        return rank in self.plan.get("double", {}).get("ranks", [])


class Batches(IterableDataset):
    """Random numbers, after the time that reading and decoding a batch takes."""

    def __init__(self, rank, world, load_s, trouble):
        self.rank, self.world, self.load_s, self.trouble = rank, world, load_s, trouble
        self.generator = torch.Generator().manual_seed(rank)

    def __iter__(self):
        while True:
            time.sleep(self.load_s + self.trouble.stall_s(self.rank, self.world))
            yield torch.randn(64, 256, generator=self.generator)


class Training:
    def __init__(self, load_ms):
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        torch.manual_seed(0)
        layers = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 512), nn.GELU(), nn.Linear(512, 256))
        self.model = DistributedDataParallel(layers)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.trouble = Trouble()
        self.data = iter(DataLoader(Batches(self.rank, self.world, load_ms / 1000, self.trouble), batch_size=None))

    def backward(self, batch):
        loss = nn.functional.mse_loss(self.model(batch), batch)
        loss.backward()
        return loss

    def step(self):
        batch = next(self.data)
        self.optimizer.zero_grad()
        if self.trouble.is_double(self.rank):
            with self.model.no_sync():
                self.backward(batch)
            self.optimizer.zero_grad(set_to_none=False)
        loss = self.backward(batch)
        self.optimizer.step()
        self.trouble.step += 1
        return loss

    def measure(self):
        """Time of a healthy step, the same on all ranks."""
        self.trouble.plan = {}
        begin = time.monotonic()
        for _ in range(MEASURED):
            self.step()
        seconds = torch.tensor([(time.monotonic() - begin) / MEASURED], dtype=torch.float64)
        dist.all_reduce(seconds, op=dist.ReduceOp.MAX)
        self.trouble.healthy_s = seconds.item()


def record(training, plan, out):
    for job in plan:
        folder = os.path.join(out, job["name"])
        training.measure()
        training.trouble.plan, training.trouble.step = job["trouble"], job.get("phase", 0)
        if training.rank == 0:
            os.makedirs(folder, exist_ok=True)
        dist.barrier()
        path = os.path.join(folder, f"rank{training.rank}.pt.trace.json")
        steps = schedule(wait=WAIT, warmup=WARM_UP, active=job["steps"], repeat=1)
        with profile(activities=[ProfilerActivity.CPU], schedule=steps, record_shapes=True,
                     on_trace_ready=lambda profiler, path=path: profiler.export_chrome_trace(path)) as profiler:
            for _ in range(WAIT + WARM_UP + job["steps"]):
                training.step()
                profiler.step()
        dist.barrier()
        if training.rank == 0:
            with open(os.path.join(folder, "trouble.json"), "w", encoding="utf-8") as file:
                json.dump({**job, "world": training.world, "healthy_ms": training.trouble.healthy_s * 1000}, file)


def train(training, control):
    training.measure()
    seen, count = None, 0
    while True:
        stamp = os.stat(control).st_mtime_ns
        if stamp != seen:
            with open(control, encoding="utf-8") as file:
                training.trouble.plan = json.load(file)
            seen = stamp
        loss = training.step()
        if training.rank == 0 and count % 10 == 0:
            print(f"step {count} loss {loss.item():.4f}", flush=True)
        count += 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("control")
    parser.add_argument("--record")
    parser.add_argument("--load-ms", type=float, default=20)
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    training = Training(args.load_ms)
    if args.record:
        with open(args.control, encoding="utf-8") as file:
            record(training, json.load(file), args.record)
    else:
        train(training, args.control)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
