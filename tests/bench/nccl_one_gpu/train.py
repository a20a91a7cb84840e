#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One rank of a training on CUDA device 0, with NCCL; run.sh starts four. Where there is no device: on the processor, with gloo.

--job ddp                data parallel, as PyTorch does it
      fsdp               parameters in shards: gathered before, gradients scattered after each layer
      tensor             each layer is cut in four; an all-reduce after each, forward and backward
      experts            tokens go to experts on other ranks and back: all_to_all, forward and backward
      pipeline           four stages, one after another; eight micro-batches, all forward, then all backward
      grid               two stages of two data parallel ranks each; ranks 0 and 1 are the first stage
      barrier            ddp whose steps end with dist.barrier() and nothing else that waits; its optimizer is cleared at their end
      micro              ddp of four micro-batches a step, each asked of the data loader
      popular            experts to which tokens are sent by a router: rank 2's gets twice as many as any other
      ends               four stages in 1F1B order, sent and received in batches; the first embeds, the last has a loss
Trouble is planted by --trouble and --hang:
--trouble data:R:MS      rank R's data loader sleeps MS ms in every step
--trouble compute:R:F    rank R computes F times as much
--trouble pause:R:MS     rank R's interpreter stands still for MS ms in the middle of every third step
--trouble third:R:MS     rank R's data loader sleeps MS ms in every third step
R may be several ranks (0+2), or `moving`: in every step another one.
--hang absent|size|order in step 40: rank 3 sleeps; rank 2 reduces twice as many numbers; rank 2 calls two groups in the other order
--tour FOLDER            every job with every trouble, one after another, each recorded by torch.profiler: FOLDER/JOB-TROUBLE/rankN.json
--tour-of TROUBLE,...    with these troubles instead of the usual ones
--tour-jobs JOB,...      of these jobs
--tour-steps N           so many steps of each (default: 12)
"""
import argparse
import os
import random
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

HANG_AT = 40
TOUR = ("none", "data:1:60", "compute:2:3", "pause:3:150")
TOUR_WARM = 5
WIDTH = 1024
LAYERS = 8
MICRO_BATCHES = 8
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--job", default="ddp", choices=sorted(JOBS))
    parser.add_argument("--trouble", default="none")
    parser.add_argument("--trouble-when", default="", help="trouble begins when this file is there (default: at once)")
    parser.add_argument("--hang", default="")
    parser.add_argument("--tour", default="")
    parser.add_argument("--tour-of", default=",".join(TOUR))
    parser.add_argument("--tour-jobs", default=",".join(TOUR_JOBS))
    parser.add_argument("--tour-steps", type=int, default=12)
    parser.add_argument("--end", default="", help="all ranks end when this file is there")
    return parser.parse_args()


class Load:
    """What a rank computes beside its layers, and what was planted in it."""

    def __init__(self, trouble, rank, when=""):
        self.when = when
        self.rank = rank
        self.kind, _, rest = trouble.partition(":")
        self.who, _, how_much = rest.partition(":")
        self.how_much = float(how_much or 0)
        self.work = torch.randn(4096, 4096, device=DEVICE) if DEVICE == "cuda" else torch.randn(256, 256)
        self.step = 0

    def is_mine(self):
        if self.who == "moving":  # the same draw on every rank
            return self.rank == random.Random(self.step).randrange(dist.get_world_size())
        return str(self.rank) in self.who.split("+")

    def is_hit_by(self, kind):
        return self.kind == kind and self.is_mine() and (not self.when or os.path.exists(self.when))

    def next_batch(self, rows=64):
        self.step += 1
        is_late = self.is_hit_by("data") or (self.is_hit_by("third") and self.step % 3 == 0)
        time.sleep(self.how_much / 1000 if is_late else 0.002)
        batch = torch.randn(rows, WIDTH)
        return batch.pin_memory().cuda(non_blocking=True) if DEVICE == "cuda" else batch

    def compute(self, products=6):
        for _ in range(int(products * (self.how_much if self.is_hit_by("compute") else 1))):
            self.work @ self.work  # pylint: disable=pointless-statement

    def pause(self):
        if self.is_hit_by("pause") and self.step % 3 == 0:
            time.sleep(self.how_much / 1000)


class Net(nn.Module):
    def __init__(self, layers=LAYERS):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(layers))

    def forward(self, value):
        for layer in self.layers:
            value = torch.relu(layer(value))
        return value


def descend(net):
    return torch.optim.SGD(net.parameters(), lr=1e-3)


def ddp(load):
    net = DistributedDataParallel(Net().to(DEVICE))
    return whole(net, load)


def fsdp(load):
    from torch.distributed.fsdp import fully_shard  # pylint: disable=import-outside-toplevel
    net = Net().to(DEVICE)
    for layer in net.layers:
        fully_shard(layer)
    fully_shard(net)
    return whole(net, load)


def whole(net, load):
    optimizer = descend(net)

    def step():
        optimizer.zero_grad()
        value = net(load.next_batch())
        load.compute()
        load.pause()
        value.sum().backward()
        optimizer.step()
    return step


class Reduced(torch.autograd.Function):
    """An all-reduce forward and another backward, as between the halves of a layer that is cut."""

    @staticmethod
    def forward(ctx, value):
        value = value.clone()
        dist.all_reduce(value)
        return value

    @staticmethod
    def backward(ctx, grad):
        grad = grad.contiguous().clone()
        dist.all_reduce(grad)
        return grad


def tensor(load):
    net = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)).to(DEVICE)
    optimizer = descend(net)

    def step():
        optimizer.zero_grad()
        value = load.next_batch()
        for layer in net:
            load.compute(1)
            value = Reduced.apply(torch.relu(layer(value)))
        load.pause()
        value.sum().backward()
        optimizer.step()
    return step


class Exchanged(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value):
        out = torch.empty_like(value)
        dist.all_to_all_single(out, value.contiguous())
        return out

    @staticmethod
    def backward(ctx, grad):
        out = torch.empty_like(grad)
        dist.all_to_all_single(out, grad.contiguous())
        return out


def experts(load):
    net = Net(4).to(DEVICE)
    optimizer = descend(net)

    def step():
        optimizer.zero_grad()
        value = load.next_batch()
        for layer in net.layers:
            value = Exchanged.apply(value)
            load.compute(2)
            value = Exchanged.apply(torch.relu(layer(value)))
        load.pause()
        value.sum().backward()
        for parameter in net.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
    return step


def barrier(load):
    net = DistributedDataParallel(Net().to(DEVICE))
    optimizer = descend(net)

    def step():
        value = net(load.next_batch())
        load.compute()
        load.pause()
        value.sum().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        dist.barrier()
    return step


def micro(load):
    net = DistributedDataParallel(Net().to(DEVICE))
    optimizer = descend(net)

    def step():
        optimizer.zero_grad()
        for part in range(4):
            net.require_backward_grad_sync = part == 3
            with torch.profiler.record_function("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"):
                batch = load.next_batch()
            value = net(batch)
            load.compute(2)
            value.sum().backward()
        optimizer.step()
    return step


class Routed(torch.autograd.Function):
    """Rows go where `sent` says, and their gradients back."""

    @staticmethod
    def forward(ctx, value, sent, got):
        ctx.splits = sent, got
        out = value.new_empty(sum(got), value.shape[1])
        dist.all_to_all_single(out, value.contiguous(), got, sent)
        return out

    @staticmethod
    def backward(ctx, grad):
        sent, got = ctx.splits
        out = grad.new_empty(sum(sent), grad.shape[1])
        dist.all_to_all_single(out, grad.contiguous(), sent, got)
        return out, None, None


def popular(load):
    net = Net(4).to(DEVICE)
    optimizer = descend(net)
    rank, world = dist.get_rank(), dist.get_world_size()
    rows = 2048

    def shares(seed):
        """[from][to] rows, the same on every rank: rank 2 is twice as popular, by and large."""
        draw = random.Random(seed)
        weights = [(2.0 if to == 2 else 1.0) * draw.uniform(0.7, 1.3) for to in range(world)]
        counts = [int(rows * weight / sum(weights)) for weight in weights]
        counts[0] += rows - sum(counts)
        return [counts] * world

    def step():
        optimizer.zero_grad()
        value = load.next_batch(rows)
        for number, layer in enumerate(net.layers):
            table = shares(load.step * 16 + number)
            sent, got = table[rank], [table[other][rank] for other in range(world)]
            value = Routed.apply(value, sent, got)
            for _ in range(6):
                value = torch.relu(layer(value))
            load.compute(1)
            value = Routed.apply(value, got, sent)
        load.pause()
        value.sum().backward()
        for parameter in net.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
    return step


def pass_on(sends, receives):
    """One batch: (value, peer) each."""
    batch = [dist.P2POp(dist.isend, value, peer) for value, peer in sends] + [dist.P2POp(dist.irecv, value, peer) for value, peer in receives]
    for work in dist.batch_isend_irecv(batch) if batch else []:
        work.wait()


def ends(load):
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    net = Net(LAYERS // 4).to(DEVICE)
    table = nn.Embedding(5000, WIDTH).to(DEVICE) if rank == 0 else None
    head = nn.Linear(WIDTH, 5000).to(DEVICE) if rank == last else None
    optimizer = descend(nn.ModuleList(part for part in (net, table, head) if part is not None))
    rows = 256

    def forward(given):
        value = table(torch.randint(0, 5000, (rows,), device=DEVICE)) if rank == 0 else given
        load.compute(1)
        out = net(value)
        if rank == last:
            out = nn.functional.cross_entropy(head(out), torch.randint(0, 5000, (rows,), device=DEVICE))
        return out

    def backward(given, out, grad):
        load.compute(1)
        out.backward(grad)
        return given.grad if given is not None else None

    def empty():
        return torch.empty(rows, WIDTH, device=DEVICE)

    def step():
        optimizer.zero_grad()
        if rank == 0:
            load.next_batch(rows)
        else:
            load.step += 1
        kept, done = [], 0
        warm = min(last - rank, MICRO_BATCHES)

        def take():
            return empty().requires_grad_() if rank else None

        for _ in range(warm):
            given = take()
            pass_on([], [(given.data, rank - 1)] if rank else [])
            kept.append((given, forward(given)))
            pass_on([(kept[-1][1].detach(), rank + 1)] if rank < last else [], [])
        given = take()
        if warm < MICRO_BATCHES:
            pass_on([], [(given.data, rank - 1)] if rank else [])
        for number in range(warm, MICRO_BATCHES):
            kept.append((given, forward(given)))
            grad = empty() if rank < last else None
            pass_on([(kept[-1][1].detach(), rank + 1)] if rank < last else [], [(grad, rank + 1)] if rank < last else [])
            back = backward(*kept[done], grad)
            done += 1
            given = take() if number + 1 < MICRO_BATCHES else None
            pass_on([(back, rank - 1)] if rank else [], [(given.data, rank - 1)] if given is not None else [])
        for _ in range(warm):
            grad = empty()
            pass_on([], [(grad, rank + 1)])
            back = backward(*kept[done], grad)
            done += 1
            pass_on([(back, rank - 1)] if rank else [], [])
        optimizer.step()
    return step


def exchange(is_send, value, peer):
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend if is_send else dist.irecv, value, peer)]):
        work.wait()


def stages(load, before, after, group):
    """A stage between two others (None: at the end), data parallel within `group`."""
    net = Net(LAYERS // 4).to(DEVICE)
    optimizer = descend(net)

    def step():
        optimizer.zero_grad()
        kept = []
        load.pause()
        for _ in range(MICRO_BATCHES):
            value = load.next_batch(16) if before is None else torch.empty(16, WIDTH, device=DEVICE)
            if before is not None:
                exchange(False, value, before)
                value.requires_grad_()
            load.compute(1)
            out = net(value)
            kept.append((value, out))
            if after is not None:
                exchange(True, out.detach(), after)
        for value, out in reversed(kept):
            grad = torch.ones_like(out)
            if after is not None:
                exchange(False, grad, after)
            load.compute(1)
            out.backward(grad)
            if before is not None:
                exchange(True, value.grad, before)
        if group is not None:
            for parameter in net.parameters():
                dist.all_reduce(parameter.grad, group=group)
        optimizer.step()
    return step


def pipeline(load):
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    return stages(load, rank - 1 if rank else None, rank + 1 if rank < last else None, None)


def grid(load):
    rank = dist.get_rank()
    groups = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    return stages(load, rank - 2 if rank >= 2 else None, rank + 2 if rank < 2 else None, groups[rank // 2])


JOBS = {"ddp": ddp, "fsdp": fsdp, "tensor": tensor, "experts": experts, "pipeline": pipeline, "grid": grid, "barrier": barrier, "micro": micro,
        "popular": popular, "ends": ends}
TOUR_JOBS = ("ddp", "fsdp", "tensor", "experts", "pipeline", "grid")


def hang(how, rank, side):
    value = torch.ones(1024, device=DEVICE)
    if how == "absent" and rank == 3:
        time.sleep(100000)
    elif how == "size":
        dist.all_reduce(torch.ones(2048 if rank == 2 else 1024, device=DEVICE), group=side)
    elif how == "order":
        for group in (None, side) if rank != 2 else (side, None):
            dist.all_reduce(value, group=group)
            torch.cuda.synchronize()


def settle():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def tour(options, rank):
    for job in options.tour_jobs.split(","):
        for trouble in options.tour_of.split(","):
            step = JOBS[job](Load(trouble, rank))
            for _ in range(TOUR_WARM):
                step()
                settle()
            dist.barrier()
            with torch.profiler.profile() as profile:
                for _ in range(options.tour_steps):
                    step()
                    if job != "barrier":
                        settle()
                    profile.step()
            into = os.path.join(options.tour, f"{job}-{trouble.replace(':', '-')}")
            os.makedirs(into, exist_ok=True)
            profile.export_chrome_trace(os.path.join(into, f"rank{rank}.json"))
            dist.barrier()
            if rank == 0:
                print("recorded", into, flush=True)


def main():
    options = arguments()
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if DEVICE == "cuda":
        torch.cuda.set_device(0)
    dist.init_process_group("nccl" if DEVICE == "cuda" else "gloo")
    side = dist.new_group(list(range(world)))
    if options.tour:
        tour(options, rank)
        os._exit(0)
    load = Load(options.trouble, rank, options.trouble_when)
    step = JOBS[options.job](load)
    # PyTorch tells its profiler of a step when an optimizer has made one.
    for number in range(1 << 30):
        if number % 10 == 0:
            is_over = torch.tensor([1.0 if options.end and os.path.exists(options.end) else 0.0], device=DEVICE)
            dist.all_reduce(is_over)
            if is_over.item() > 0:
                break
            print("step", number, flush=True)
        if options.hang and number == HANG_AT:
            hang(options.hang, rank, side)
        step()
        settle()
    os._exit(0)  # NCCL's communicators are not waited for


main()
