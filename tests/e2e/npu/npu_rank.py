#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ranks of a training job under torch_npu's own dynamic_profile code, on a machine without an NPU.

    PYTHON npu_rank.py --wheel DIR --cfg DIR --way env|dp --ranks 4 --step-ms 150 --meet DIR [--run NAME]

DIR of --wheel is an unzipped torch_npu wheel; PYTHON has torch. What needs the native library is stood in for: torch_npu._C, the
device module and the two package __init__ files, which would load it. The trigger (dynamic_profile, its monitor process, the shared
block, the configuration, the schedule, the writer of metadata and of result folders) is the vendor's, unchanged.

Without --rank this is the launcher: it starts the ranks, prints their pids and waits. A step is a sleep until a common clock says that
it is over, as collectives would make it: ranks meet in --meet before the first one. Way "env": PROF_CONFIG_PATH and an optimizer, way
"dp": dp.init() and dp.step().
"""
import argparse
import os
import subprocess
import sys
import time
import types

parser = argparse.ArgumentParser()
parser.add_argument("--wheel", required=True)
parser.add_argument("--cfg", required=True)
parser.add_argument("--way", choices=("env", "dp"), required=True)
parser.add_argument("--ranks", type=int, default=4)
parser.add_argument("--step-ms", type=float, default=150)
parser.add_argument("--meet", required=True)
parser.add_argument("--rank", type=int, default=-1)
options = parser.parse_args()


def launch():
    ranks = []
    for rank in range(options.ranks):
        environment = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(options.ranks),
                           OMP_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1")
        if options.way == "env":
            environment["PROF_CONFIG_PATH"] = options.cfg
        ranks.append(subprocess.Popen([sys.executable, os.path.abspath(__file__), *sys.argv[1:], "--rank", str(rank)],
                                      env=environment))
        print("rank=%d pid=%d" % (rank, ranks[-1].pid), flush=True)
    for rank in ranks:
        rank.wait()


# ---- instead of the device ------------------------------------------------------------------------------------

class Anything:
    """Takes what it is given, and gives nothing back."""

    def __init__(self, *arguments, **named):
        pass


class Event(Anything):
    def record(self, *arguments, **named):
        return None

    wait = query = elapsed_time = synchronize = record


def module(name, path=None, **members):
    made = types.ModuleType(name)
    made.__path__ = [path] if path else []
    made.__dict__.update(members)
    sys.modules[name] = made
    above, _, last = name.rpartition(".")
    if above:
        setattr(sys.modules[above], last, made)
    return made


def stand_in():
    import torch
    root = os.path.join(os.path.abspath(options.wheel), "torch_npu")

    class Activity:
        def __init__(self, name):
            self.name = name

        def __repr__(self):
            return "ProfilerActivity." + self.name

    class ProfilerActivity:
        CPU = Activity("CPU")
        NPU = Activity("NPU")

    def nothing(*arguments, **named):
        return None

    module("torch_npu", root)
    module("torch_npu.utils", os.path.join(root, "utils"))
    module("torch_npu.utils.collect_env", get_cann_version=lambda *a: "none", get_torch_npu_version=lambda *a: "none")
    module("torch_npu._C")
    native = {name: nothing for name in (
        "_init_profiler", "_warmup_profiler", "_start_profiler", "_stop_profiler", "_finalize_profiler",
        "_enable_profiler_in_child_thread", "_disable_profiler_in_child_thread")}
    module("torch_npu._C._profiler", ProfilerActivity=ProfilerActivity, _ExperimentalConfig=Anything,
           NpuProfilerConfig=Anything,
           _supported_npu_activities=lambda: {ProfilerActivity.CPU, ProfilerActivity.NPU},
           _get_syscnt_enable=lambda: False, _get_freq=lambda: 100, _get_syscnt=lambda: 0,
           _get_monotonic=time.monotonic_ns, _get_host_uid=lambda: 0, **native)

    class Marks:
        @staticmethod
        def range_start(*arguments, **named):
            return 1

        @staticmethod
        def range_end(*arguments, **named):
            return None

    device = module("torch_npu.npu", mstx=Marks, current_stream=nothing, _lazy_init=nothing, Event=Event,
                    is_available=lambda: False, synchronize=nothing)
    module("torch_npu.npu.mstx", mstx=Marks)
    device.mstx = Marks
    torch.npu = device
    return torch


# ---- a rank ---------------------------------------------------------------------------------------------------

def meet():
    """The instant of step 0: a second after the last rank came."""
    mine = os.path.join(options.meet, "rank-%d" % options.rank)
    with open(mine, "w"):
        pass
    paths = [os.path.join(options.meet, "rank-%d" % rank) for rank in range(options.ranks)]
    while not all(os.path.exists(path) for path in paths):
        time.sleep(0.01)
    return max(os.stat(path).st_mtime for path in paths) + 1


def train():
    torch = stand_in()
    import torch_npu.profiler.dynamic_profile as dp
    from torch_npu.profiler._non_intrusive_profile import _NonIntrusiveProfile
    if options.way == "env":
        _NonIntrusiveProfile.init()
        weight = torch.zeros(2, requires_grad=True)
        optimizer = torch.optim.SGD([weight], lr=0.1)
    else:
        dp.init(options.cfg)
    begin = meet()
    step = 0
    while True:
        step += 1
        time.sleep(max(0.0, begin + step * options.step_ms / 1000 - time.time()))
        if options.way == "env":
            weight.grad = torch.ones(2)
            optimizer.step()
        else:
            dp.step()


if options.rank < 0:
    launch()
else:
    train()
