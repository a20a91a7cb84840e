#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The other baseline: HTA's load, temporal breakdown and overlap of some traces, CPU seconds without its import.

    bench_hta.py TRACE.json.gz...      (run with a Python that has HolisticTraceAnalysis)
"""
import json
import resource
import sys
import time


def cpu_seconds():
    return sum(u.ru_utime + u.ru_stime for u in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def main():
    from hta.trace_analysis import TraceAnalysis
    files = {rank: path for rank, path in enumerate(sys.argv[1:])}
    cpu, wall = cpu_seconds(), time.monotonic()
    analysis = TraceAnalysis(trace_files=files, trace_dir="/")
    analysis.get_temporal_breakdown(visualize=False)
    analysis.get_comm_comp_overlap(visualize=False)
    peak = sum(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    print(json.dumps({"bench": "hta", "files": len(files), "cpu_s": round(cpu_seconds() - cpu, 3),
                      "wall_s": round(time.monotonic() - wall, 3), "rss_mib": round(peak / 1024, 1)}))


if __name__ == "__main__":
    main()
