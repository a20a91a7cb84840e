#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How fast the HTTP API answers beside a working aggregator: 50 requests a second of its lists, over HTTPS with a token.

    tests/bench/http_load.py [--ranks 1000] [--seconds 30] [--rate 50]

A job of native ranks reports; meanwhile each list is asked for, one connection each time, as curl would. Prints the median and the
99th percentile of each, and the same of the command line's own question, which shares the aggregator's one thread.
"""
import argparse
import http.client
import json
import os
import ssl
import statistics
import sys
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/e2e"))
from test_http import HttpRig  # noqa: E402
import rig_native  # noqa: E402

PATHS = ["/api/v1/runs", "/api/v1/ranks", "/api/v1/captures", "/metrics", "/healthz"]


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=1000)
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--rate", type=int, default=50)
    parser.add_argument("--step-ms", type=int, default=500)
    options = parser.parse_args()
    rig = HttpRig(world=options.ranks, nodes=8, step_ms=options.step_ms, run="load", aggregator_words=["--http", "127.0.0.1:0"])
    with rig:
        rig.wait_ranks(options.ranks, 180)
        token = rig.token("bench")
        context = ssl.create_default_context(cafile=rig.ca)
        took = {path: [] for path in PATHS}
        size = {}
        lock = threading.Lock()

        def ask(path):
            begun = time.monotonic()
            link = http.client.HTTPSConnection("localhost", rig.port, timeout=30, context=context)
            link.request("GET", path, headers={"Authorization": "Bearer " + token, "Accept-Encoding": "gzip"})
            answer = link.getresponse()
            body = answer.read()
            link.close()
            assert answer.status == 200, (path, answer.status, body[:200])
            with lock:
                took[path].append(time.monotonic() - begun)
                size[path] = len(body)
        threads = []
        begun = time.monotonic()
        for index in range(options.seconds * options.rate):
            time.sleep(max(0.0, begun + index / options.rate - time.monotonic()))
            thread = threading.Thread(target=ask, args=(PATHS[index % len(PATHS)],))
            thread.start()
            threads.append(thread)
        for thread in threads:
            thread.join()
        own = []
        for _ in range(20):
            at = time.monotonic()
            rig_native.subprocess.run([rig_native.PROGRAM, "ranks", "--connect", rig.address, "-q"], check=True)
            own.append(time.monotonic() - at)
        print(json.dumps({"ranks": options.ranks, "rate_per_s": options.rate, "seconds": options.seconds, "ms": {
            path: {"median": round(statistics.median(values) * 1e3, 1), "p99": round(percentile(values, .99) * 1e3, 1),
                   "requests": len(values), "bytes": size[path]} for path, values in took.items()},
            "cli_ranks_median_ms": round(statistics.median(own) * 1e3, 1)}, indent=1))


if __name__ == "__main__":
    main()
