#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hosts whose clocks are wrong: ranks that begin at an instant begin together all the same.

Two collectors with two ranks each (kineto_client.py); the clock of one is 2 s ahead and gains 100 ppm, that of the other 2 s behind and
loses 100 ppm (shim_clock.c). A capture by duration: all ranks begin at one true instant, within 5 ms and what the capture says
that two hosts may be apart by.
"""
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest

import unittest_run

PROGRAM = os.path.abspath(os.environ.get("RANKSCOPE", "build/dev/rankscope"))
SHIM = os.path.join(os.path.abspath(os.environ.get("RANKSCOPE_BUILD", "build/dev")), "shim_clock.so")
CLIENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "kineto_client.py")
HOSTS = ((2_000_000_000, 100), (-2_000_000_000, -100))


class Clocks(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="rs-clocks-")
        self.addCleanup(subprocess.run, ["rm", "-rf", self.folder], check=True)
        self.address = f"unix:{self.folder}/a.sock"
        self.since = time.monotonic_ns()
        self.processes = []
        self.addCleanup(self.stop)
        aggregator = self.start([PROGRAM, "aggregator", "--listen", self.address, "--data", self.folder + "/data"], os.environ,
                                stdout=subprocess.PIPE)
        self.assertIn(b"listening", aggregator.stdout.readline())
        self.addCleanup(aggregator.stdout.close)
        for host in range(len(HOSTS)):
            self.start_host(host)

    def start(self, words, environment, **more):
        self.processes.append(subprocess.Popen(words, env=environment, **more))
        return self.processes[-1]

    def stop(self):
        for process in reversed(self.processes):
            process.terminate()
        for process in reversed(self.processes):
            process.wait(120)

    def start_host(self, host):
        folder = os.path.join(self.folder, f"host{host}")
        sockets = os.path.join(folder, "sockets")
        os.makedirs(sockets)
        offset, ppm = HOSTS[host]
        wrong = dict(os.environ, LD_PRELOAD=SHIM, SHIM_CLOCK_NS=str(offset), SHIM_CLOCK_PPM=str(ppm), SHIM_CLOCK_SINCE_NS=str(self.since),
                     RANKSCOPE_RUNTIME_DIR=folder)
        self.start([PROGRAM, "collector", "--connect", self.address, "--node", f"n{host}", "--spool", folder + "/spool", "--kineto",
                    "--kineto-socket-dir", sockets, "--trace-dir", folder + "/traces", "--no-native", "--no-ascend", "--no-mindspore"], wrong)
        until = time.monotonic() + 20
        while not os.path.exists(os.path.join(sockets, "dynolog")) and time.monotonic() < until:
            time.sleep(0.02)
        for rank in (2 * host, 2 * host + 1):
            self.start([sys.executable, CLIENT], dict(wrong, KINETO_USE_DAEMON="1", KINETO_IPC_SOCKET_DIR=sockets, RANKSCOPE_RUN="clocks",
                                                      RANK=str(rank), WORLD_SIZE="4", LOCAL_RANK=str(rank % 2)))

    def ask(self, *words, codes=(0,)):
        done = subprocess.run([PROGRAM, *words, "--connect", self.address], capture_output=True, text=True, timeout=120, check=False)
        self.assertIn(done.returncode, codes, f"{words}: {done.stdout}{done.stderr}")
        return done

    def true_start(self, rank, own):
        """When a rank's clock said `own`, by the machine's."""
        offset, ppm = HOSTS[rank // 2]
        # own = true + offset + ppm of what passed since: what passed is known well enough for that
        passed = time.monotonic_ns() - self.since - (time.time_ns() - (own - offset))
        return own - offset - passed // 1_000_000 * ppm

    def test_ranks_begin_together_by_the_clock(self):
        self.ask("ranks", "--run", "clocks", "--wait", "4", "-q")
        with subprocess.Popen([PROGRAM, "capture", "--run", "clocks", "--duration", "200ms", "--no-report", "--json", "--connect", self.address],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as capture:
            bound = None
            while bound is None and capture.poll() is None:
                known = json.loads(self.ask("capture", "list", "--json", codes=(0, 1)).stdout)["captures"]
                bound = next((c["start_bound_ns"] for c in known if c["start_bound_ns"]), None)
                time.sleep(0.05)
            out, err = capture.communicate(timeout=60)
        self.assertEqual(capture.returncode, 0, out + err)
        self.assertIn("as their clocks were measured", err)
        facts = json.loads(out)
        rows = json.loads(self.ask("table", facts["id"], "rank", "--json").stdout)["rows"]
        begins = {row["rank"]: row["window_start_ns"] for row in rows}
        self.assertEqual(sorted(begins), [0, 1, 2, 3])
        own = max(begins.values()) - min(begins.values())
        true = [self.true_start(rank, begin) for rank, begin in begins.items()]
        skew = max(true) - min(true)
        print(f"by their own clocks {own / 1e6:.1f} ms apart, truly {skew / 1e6:.3f} ms; bound {bound / 1e6:.3f} ms", file=sys.stderr)
        self.assertGreater(own, 3_900_000_000)
        self.assertLess(skew, 5_000_000 + bound)


if __name__ == "__main__":
    unittest_run.main(verbosity=2)
