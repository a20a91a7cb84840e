#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes synthetic Kineto traces of the size and mix of real ones, for benches.

    mkkineto.py [--mb 54] [--ranks N] [--seed 1] [--gzip] OUTDIR

Per training step: cpu_op rows, launches (cuda_runtime), ac2g and fwdbwd flows, kernels with the names
of template-heavy C++ (100 to 600 bytes), memcpy, memset, NCCL all-reduces with their arguments. Rows per
category and bytes per row follow what was measured on real V100 and A100 traces: about 35 % cpu_op (205 B), 31 %
flows (130 B), 22 % launches (237 B), 6 % kernels (700 B), 2.5 % copies (330 B). Ranks share group, steps
and sequence numbers; each arrives at a collective at a time of its own, and all leave together. The
same arguments give the same bytes.
"""
import argparse
import gzip
import os
import random

BASE_NS = 1790857026000000000
OPS = ["aten::add_", "aten::mul", "aten::mm", "aten::addmm", "aten::convolution", "aten::_convolution",
       "aten::cudnn_convolution", "aten::batch_norm", "aten::relu_", "aten::empty", "aten::view",
       "autograd::engine::evaluate_function: ConvolutionBackward0", "ConvolutionBackward0",
       "aten::threshold_backward", "aten::copy_", "aten::to", "aten::detach", "aten::zero_"]
RUNTIME = ["cudaLaunchKernel", "cudaLaunchKernel", "cudaLaunchKernel", "cudaEventRecord",
           "cudaStreamWaitEvent", "cudaStreamIsCapturing", "cudaMemcpyAsync", "cudaMemsetAsync",
           "cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags"]


def kernel_names(rng):
    names = []
    for i in range(60):
        functor = "at::native::%s<%s>" % (rng.choice(["CUDAFunctor_add", "FillFunctor", "MulFunctor"]),
                                          rng.choice(["float", "c10::BFloat16", "long"]))
        name = "void at::native::vectorized_elementwise_kernel<%d, %s" % (i % 8 + 1, functor)
        while len(name) < rng.choice([90, 180, 350, 500]):
            name += ", at::detail::Array<char*, %d>, TrivialOffsetCalculator<%d, unsigned int>" % (i % 5, i % 3)
        names.append(name + " >(int, %s)" % functor)
    return names


class Writer:
    """Rows of one rank, as Kineto of early 2025 writes them."""

    def __init__(self, rank, world, rng):
        self.rank, self.world, self.rng = rank, world, rng
        self.pid = 1000 + rank
        self.rows = []
        self.bytes = 0
        self.correlation = 1000
        self.external = 1
        self.kernels = kernel_names(random.Random(7))

    def row(self, text):
        self.rows.append(text)
        self.bytes += len(text) + 2

    def complete(self, cat, name, pid, tid, start, dur, args):
        self.row('  {\n    "ph": "X", "cat": "%s", "name": "%s", "pid": %s, "tid": %s,\n    "ts": %d.%03d, '
                 '"dur": %d.%03d,\n    "args": {\n      %s\n    }\n  }'
                 % (cat, name, pid, tid, start // 1000, start % 1000, dur // 1000, dur % 1000, args))

    def flow(self, phase, name, ident, pid, tid, at):
        self.row('  {\n    "ph": "%s", "id": %d, "pid": %s, "tid": %s, "ts": %d.%03d,\n    "cat": "%s", "name": '
                 '"%s"%s\n  }' % (phase, ident, pid, tid, at // 1000, at % 1000, name, name,
                                  ', "bp": "e"' if phase == "f" else ""))

    def op(self, name, tid, start, dur):
        self.external += 1
        self.complete("cpu_op", name, self.pid, tid, start, dur,
                      '"External id": %d,"Record function id": %d, "Ev Idx": %d'
                      % (self.external, self.external - 3, self.external - 5))

    def runtime(self, name, tid, start, dur):
        self.correlation += 1
        self.complete("cuda_runtime", name, self.pid, tid, start, dur,
                      '"External id": %d,      "cbid": %d, "correlation": %d'
                      % (self.external, 211, self.correlation))

    def kernel(self, name, stream, start, dur, more=""):
        self.complete("kernel", name, 0, stream, start, dur,
                      '"External id": %d,      "queued": 0, "device": 0, "context": 1,      "stream": %d, "correlation": '
                      '%d,      "registers per thread": 32,      "shared memory": 0,      "blocks per SM": 25.600000,'
                      '      "warps per SM": 102.400002,      "grid": [2048, 1, 1],      "block": [128, 1, 1],      '
                      '"est. achieved occupancy %%": 100%s'
                      % (self.external, stream, self.correlation, more))

    def copy(self, kind, name, start, dur):
        self.complete(kind, name, 0, 7, start, dur,
                      '"External id": %d,      "device": 0, "context": 1,      "stream": 7, "correlation": %d,      '
                      '"bytes": %d, "memory bandwidth (GB/s)": 405.7052297939778'
                      % (self.external, self.correlation, 4096 * self.rng.randrange(1, 999)))


def layer(w, host, gpu, tid):
    """One framework operation: a few nested cpu_op, launches, and what runs on the device."""
    rng = w.rng
    length = rng.randrange(30000, 90000)
    for depth in range(3):
        w.op(rng.choice(OPS), tid, host + depth * 1500, length - depth * 4000)
    w.flow(rng.choice("sf"), "fwdbwd", w.external, w.pid, tid, host)
    for _ in range(2):
        name = rng.choice(RUNTIME)
        w.runtime(name, tid, host + 8000, rng.randrange(700, 9000))
        w.flow("s", "ac2g", w.correlation, w.pid, tid, host + 8000)
        if name == "cudaLaunchKernel" and rng.random() < 0.85:
            dur = rng.randrange(2000, 90000)
            w.kernel(rng.choice(w.kernels), 7, gpu, dur)
            w.flow("f", "ac2g", w.correlation, 0, 7, gpu)
            gpu += dur + rng.randrange(500, 4000)
        elif rng.random() < 0.35:
            kind = rng.choice([("gpu_memcpy", "Memcpy DtoD (Device -> Device)"), ("gpu_memset", "Memset (Device)")])
            w.copy(kind[0], kind[1], gpu, 2500)
            w.flow("f", "ac2g", w.correlation, 0, 7, gpu)
            gpu += 4000
    return host + length + rng.randrange(1000, 6000), gpu


def all_reduce(w, host, gpu, seq, end):
    w.op("c10d::allreduce_", w.pid, host, 40000)
    w.external += 1
    nelems = 6637568 >> (seq % 4)
    ranks = ", ".join(str(r) for r in range(min(w.world, 30))) + (", ..." if w.world > 30 else "")
    comm = ('"Collective name": "allreduce", "In msg nelems": %d, "Out msg nelems": %d, "Group size": %d, "dtype": '
            '"Float", "In split size": "[]", "Out split size": "[]", "Process Group Name": "0", "Process Group '
            'Description": "default_pg", "Process Group Ranks": "[%s]", "Seq": %d' % (nelems, nelems, w.world, ranks, seq))
    w.complete("cpu_op", "record_param_comms", w.pid, w.pid, host + 3000, 30000,
               '"External id": %d,%s, "Rank": %d' % (w.external, comm, w.rank))
    w.runtime("cudaLaunchKernelExC", w.pid, host + 9000, 12000)
    w.flow("s", "ac2g", w.correlation, w.pid, w.pid, host + 9000)
    start = max(gpu, host + 20000)
    w.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 20, start,
             end - start, ", " + comm)
    w.flow("f", "ac2g", w.correlation, 0, 20, start)


def rank_text(rank, world, want_bytes, seed):
    w = Writer(rank, world, random.Random(seed * 1000003 + rank))
    shared = random.Random(seed)
    host = gpu = 4000000000000000
    step, seq = 10, 0
    while w.bytes < want_bytes:
        begin = host
        for _ in range(4):
            for _ in range(40):
                host, gpu = layer(w, host, max(gpu, host + 12000), w.pid + shared.randrange(2))
            # everybody leaves together, after the slowest could have come
            end = 4000000000000000 + (seq + 1) * 40 * 110000 + 2000000
            all_reduce(w, host, gpu, seq, max(end, host + 60000))
            gpu = max(end, host + 60000) + 3000
            seq += 1
        w.external += 1
        w.complete("user_annotation", "Optimizer.step#SGD.step", w.pid, w.pid, host, 400000, '"External id": %d' % w.external)
        host += 500000
        w.complete("user_annotation", "ProfilerStep#%d" % step, w.pid, w.pid, begin, host - begin, '"External id": %d' % step)
        step += 1
    w.row('  {\n    "ph": "X", "cat": "Trace", "ts": 4000000000000.000, "dur": %d.000,\n    "pid": "Spans", "tid": "PyTorch '
          'Profiler",\n    "name": "PyTorch Profiler (0)",\n    "args": {\n      "Op count": 0\n    }\n  }'
          % ((max(host, gpu) - 4000000000000000) // 1000 + 1000))
    ranks = ", ".join(str(r) for r in range(world))
    head = ('{\n  "schemaVersion": 1,\n  "deviceProperties": [\n    {\n      "id": 0, "name": "Synthetic", "totalGlobalMem": '
            '34079637504\n    }\n  ],\n  "distributedInfo": {"backend": "nccl", "rank": %d, "world_size": %d, "pg_count": 1, '
            '"pg_config": [{"pg_name": "0", "pg_desc": "default_pg", "backend_config": "cuda:nccl", "pg_size": %d, "ranks": '
            '[%s]}]},\n  "displayTimeUnit": "ms",\n  "baseTimeNanoseconds": %d,\n  "traceEvents": [\n'
            % (rank, world, world, ranks, BASE_NS))
    return head + ",\n".join(w.rows) + '\n  ],\n  "traceName": "rank%d.json"\n}\n' % rank


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mb", type=float, default=54, help="raw size of each rank's trace, 10^6 bytes")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--gzip", action="store_true")
    parser.add_argument("outdir")
    args = parser.parse_args()
    os.makedirs(args.outdir, exist_ok=True)
    for rank in range(args.ranks):
        text = rank_text(rank, args.ranks, args.mb * 1e6, args.seed).encode()
        name = os.path.join(args.outdir, "rank%d.pt.trace.json" % rank)
        if args.gzip:
            with open(name + ".gz", "wb") as raw, gzip.GzipFile("", "wb", 6, raw, 0) as out:
                out.write(text)
        else:
            with open(name, "wb") as out:
                out.write(text)


if __name__ == "__main__":
    main()
