#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rows of real jobs in SQLite and in ClickHouse: every read of both, and how fast they go in and come out, in one run.

    stores.py [--ranks 1,64,1024] [--mb 0.1]      needs clickhouse-server and a build (RANKSCOPE_BUILD)

Each job is made by mkkineto.py, put into a capture by make_capture and joined once; its rows are then copied unit by unit into a
SQLite store in memory and into the database, and all reads of both are compared byte for byte (compare_stores). The table of the last
lines is what went in and out; seconds are of this machine as it was then.
"""
import argparse
import glob
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "e2e"))

import rig_clickhouse  # noqa: E402

BUILD = os.environ.get("RANKSCOPE_BUILD", "build/dev")


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{words[0]}: {done.returncode} {done.stdout}{done.stderr}")
    return done.stdout


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", default="1,64,1024")
    parser.add_argument("--mb", default="0.1")
    words = parser.parse_args()
    if not rig_clickhouse.found():
        print("skipped: no clickhouse-server here")
        return 77
    folder = tempfile.mkdtemp(prefix="rs-stores-")
    server = rig_clickhouse.Server(folder)
    try:
        for ranks in words.ranks.split(","):
            traces, data, joined = (os.path.join(folder, name + ranks) for name in ("traces", "data", "joined"))
            os.mkdir(joined)
            run(sys.executable, os.path.join(HERE, "mkkineto.py"), "--mb", words.mb, "--ranks", ranks, traces)
            capture = run(os.path.join(BUILD, "make_capture"), data, *sorted(glob.glob(traces + "/*"))).strip()
            shutil.rmtree(traces)
            run(os.path.join(BUILD, "join_rows"), capture, joined)
            print(run(os.path.join(BUILD, "compare_stores"), joined, server.url + "/jobs", "job-" + ranks, server.password,
                      server.ca).strip(), flush=True)
            shutil.rmtree(data)
    finally:
        server.close()
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
