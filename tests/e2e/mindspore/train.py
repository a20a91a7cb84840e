#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A small training job of MindSpore on the CPU, with its own DynamicProfilerMonitor: what a user would write, times printed.

  PYTHON train.py --config DIR --out DIR --way step|callback [--ranks 4] [--steps 200] [--step-ms 200] [--poll 1]

One process per rank (RANK_ID; no communication is set up). Each step of each rank prints a line when it is over:
  @ RANK STEP BEGIN_NS END_NS
"""
import argparse
import os
import subprocess
import sys
import time

parser = argparse.ArgumentParser()
parser.add_argument("--config", required=True)
parser.add_argument("--out", required=True)
parser.add_argument("--way", choices=("step", "callback"), required=True)
parser.add_argument("--ranks", type=int, default=4)
parser.add_argument("--steps", type=int, default=200)
parser.add_argument("--step-ms", type=int, default=200)
parser.add_argument("--poll", type=int, default=1)
parser.add_argument("--skew-ms", type=int, default=0, help="each rank begins so much later than the one before")
parser.add_argument("--idle-s", type=float, default=0, help="between making the monitor and training: one thread so long, as the monitor")
parser.add_argument("--rank", type=int, default=-1)
ARGS = parser.parse_args()


def launch():
    ranks = []
    for rank in range(ARGS.ranks):
        environment = dict(os.environ, RANK_ID=str(rank), RANK_SIZE=str(ARGS.ranks))
        ranks.append(subprocess.Popen([sys.executable, os.path.abspath(__file__), *sys.argv[1:], "--rank", str(rank)],
                                      env=environment))
        time.sleep(ARGS.skew_ms / 1000)
    sys.exit(max(abs(process.wait()) for process in ranks))


def train(rank):
    import mindspore
    import numpy
    from mindspore import nn
    from mindspore.profiler import DynamicProfilerMonitor

    def say(step, begin):
        os.write(1, f"@ {rank} {step} {begin} {time.time_ns()}\n".encode())

    mindspore.set_device("CPU")
    net = nn.Dense(8, 2)
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    optimizer = nn.Momentum(net.trainable_params(), 0.01, 0.9)
    random = numpy.random.default_rng(0)
    monitor = DynamicProfilerMonitor(cfg_path=ARGS.config, output_path=ARGS.out, poll_interval=ARGS.poll)
    time.sleep(ARGS.idle_s)

    def sample():
        return random.random((16, 8), dtype=numpy.float32), random.integers(0, 2, 16).astype(numpy.int32)

    if ARGS.way == "step":
        forward = mindspore.value_and_grad(lambda x, y: loss(net(x), y), None, optimizer.parameters)
        for step in range(1, ARGS.steps + 1):
            begin = time.time_ns()
            x, y = sample()
            _, gradients = forward(mindspore.Tensor(x), mindspore.Tensor(y))
            optimizer(gradients)
            time.sleep(ARGS.step_ms / 1000)
            say(step, begin)
            monitor.step()
        return

    class Pace(mindspore.Callback):
        began = 0

        def on_train_step_begin(self, run_context):
            self.began = time.time_ns()

        def on_train_step_end(self, run_context):
            time.sleep(ARGS.step_ms / 1000)
            say(run_context.original_args().cur_step_num, self.began)

    def rows():
        for _ in range(ARGS.steps):
            yield sample()

    data = mindspore.dataset.GeneratorDataset(rows, ["x", "y"])
    model = mindspore.train.Model(net, loss, optimizer)
    model.train(1, data, callbacks=[Pace(), monitor], dataset_sink_mode=False)


if ARGS.rank < 0:
    launch()
else:
    train(ARGS.rank)
