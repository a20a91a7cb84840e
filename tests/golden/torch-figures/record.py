# SPDX-License-Identifier: Apache-2.0
"""Records two steps of a small training with torch.profiler, and what torch itself makes of them (README.md).

    python record.py DIR      with PyTorch 2.15
"""
import gzip
import json
import os
import sys

import torch
from torch.profiler import ProfilerActivity, profile, record_function

torch.manual_seed(0)
torch.set_num_threads(1)
first, second = torch.nn.Linear(64, 64), torch.nn.Linear(64, 8)
optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1)


def step():
    with record_function("layer"):
        hidden = torch.relu(first(torch.randn(32, 64)))
    second(hidden).sum().backward()
    optimizer.step()
    optimizer.zero_grad()


def averages(profiler, **how):
    return [{"name": row.key, "shapes": str(row.input_shapes).replace("'", '"'), "count": row.count, "self_cpu_us": row.self_cpu_time_total,
             "cpu_us": row.cpu_time_total, "self_memory": row.self_cpu_memory_usage, "memory": row.cpu_memory_usage}
            for row in profiler.key_averages(**how)]


os.chdir(sys.argv[1])
step()
with profile(activities=[ProfilerActivity.CPU], record_shapes=True, profile_memory=True, with_stack=True, with_flops=True) as profiler:
    for _ in range(2):
        step()
        profiler.step()
profiler.export_chrome_trace("rank0.pt.trace.json")
profiler.export_memory_timeline("timeline.raw.json.gz", device="cpu")
flops = {row.key: row.flops for row in profiler.key_averages() if row.flops}
with gzip.open("timeline.raw.json.gz", "rt") as file:
    timeline = [event[:3] for event in json.load(file)]
os.remove("timeline.raw.json.gz")
with open("figures.json", "w", encoding="ascii") as file:
    json.dump({"torch": torch.__version__, "averages": averages(profiler), "by_shape": averages(profiler, group_by_input_shape=True),
               "flops": flops, "memory": timeline}, file, indent=0)
