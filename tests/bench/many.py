#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rows spread over many streams, threads, steps or process groups, against the same rows in one of them.

    tests/bench/many.py [--count 400000] [--ranks 1] [--repeat 3]

Each trace holds `count` launches, kernels and annotations. CPU seconds (user and system, median) of `analyse`, peak memory,
and the ratio to the trace of one stream, thread and step; process groups, whose kernels are all-reduces with arguments, against
the same all-reduces in one group. What grows with the square of a count shows as a ratio that grows with --count. Of steps
each is a row in the tables, too.

RANKSCOPE: the program.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import tempfile

PROGRAM = os.path.abspath(os.environ.get("RANKSCOPE", "build/release/rankscope"))
KINDS = {"one": "one", "streams": "one", "threads": "one", "steps": "one", "group": "group", "groups": "group"}
BASE_US = 1750000000000000


def write_trace(path, count, kind, rank=0, ranks=1):
    """Ten microseconds a row; `rank` comes a little later than the one before."""
    step = '{"ph":"X","cat":"user_annotation","name":"ProfilerStep#%d","pid":7,"tid":7,"ts":%d,"dur":%d}'
    launch = '{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":7,"tid":%d,"ts":%d,"dur":3,"args":{"correlation":%d}}'
    kernel = '{"ph":"X","cat":"kernel","name":"%s","pid":0,"tid":%d,"ts":%d,"dur":%d,"args":{"device":0,"stream":%d,"correlation":%d%s}}'
    group = (',"Collective name":"allreduce","In msg nelems":1000,"Out msg nelems":1000,"Group size":%d,"dtype":"Float",'
             '"Process Group Name":"%d","Process Group Ranks":"%s"')
    members = list(range(ranks))
    with open(path, "w", encoding="ascii") as file:
        file.write('{"schemaVersion":1,"distributedInfo":{"backend":"nccl","rank":%d,"world_size":%d},"traceEvents":[\n'
                   % (rank, ranks))
        rows = [] if kind == "steps" else [step % (1, BASE_US - 10, count * 10 + 1000)]
        for i in range(count):
            at = BASE_US + i * 10
            thread = 7 + i if kind == "threads" else 7
            stream = 7 + i if kind == "streams" else 7
            is_group = kind.startswith("group")
            name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL" if is_group else "gemm"
            more = group % (ranks, i if kind == "groups" else 0, members) if is_group else ""
            rows.append(step % (i, at, 10) if kind == "steps" else
                        (step % (0, at, 10)).replace("ProfilerStep", "a.name.of.no.step"))
            rows.append(launch % (thread, at, i + 1))
            rows.append(kernel % (name, stream, at + 4 + rank, 4 - rank, stream, i + 1, more))
            if len(rows) > 10000:
                file.write(",\n".join(rows) + ",\n")
                rows = []
        file.write(",\n".join(rows or [step % (count, BASE_US + count * 10, 1)]) + "]}\n")


def measure(folder, out):
    """CPU seconds and peak memory in MiB of one `analyse`."""
    child = subprocess.Popen([PROGRAM, "analyse", "--quiet", folder, "-o", out], stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise RuntimeError("analyse ended with %d" % child.returncode)
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--count", type=int, default=400000)
    arguments.add_argument("--ranks", type=int, default=1, choices=(1, 2, 3))
    arguments.add_argument("--repeat", type=int, default=3)
    options = arguments.parse_args()
    found = {}
    for kind, other in KINDS.items():
        work = tempfile.mkdtemp(prefix="rs-many-")
        folder = os.path.join(work, "in")
        os.mkdir(folder)
        for rank in range(options.ranks):
            write_trace(os.path.join(folder, "rank%d.json" % rank), options.count, kind, rank, options.ranks)
        runs = [measure(folder, os.path.join(work, "out")) for _ in range(options.repeat)]
        shutil.rmtree(work)
        found[kind] = statistics.median(run[0] for run in runs)
        print(json.dumps({"bench": "many " + kind, "count": options.count, "ranks": options.ranks,
                          "cpu_s": round(found[kind], 3), "rss_mib": round(max(run[1] for run in runs), 1),
                          "ratio": round(found[kind] / found[other], 2)}), flush=True)


if __name__ == "__main__":
    main()
