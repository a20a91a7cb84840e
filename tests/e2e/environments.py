#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What tests need beside Debian's packages, put into ~/.cache/rankscope before any of them begins: once, by one process, two at a time.

    RANKSCOPE_TORCH_INSTALL=1 RANKSCOPE_PAGE_INSTALL=1 ... tests/e2e/environments.py

Nothing is fetched that no variable asks for. What cannot be had is said here, and the tests that need it are skipped. Ends with 0 whatever
comes of it: a test that is skipped says so itself, and tests/lint/skips.py has the last word.
"""
import concurrent.futures
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
# The variable that asks for them; the scripts' own ways to find, or make, them, one after the other.
ENVIRONMENTS = [
    ("RANKSCOPE_TORCH_INSTALL", [("torch", "import test_torch; test_torch.find_torch()"),
                                 ("npu", "import test_npu; test_npu.find_wheel(test_npu.find_python())")]),
    ("RANKSCOPE_MINDSPORE_INSTALL", [("mindspore", "import rig; rig.find_mindspore()")]),
    ("RANKSCOPE_PAGE_INSTALL", [("", "import test_page; test_page.find_playwright()"),
                                ("", "import test_grafana; test_grafana.find_schema()")]),
    ("RANKSCOPE_CHDB_INSTALL", [("", "import rig_clickhouse; assert rig_clickhouse.find_chdb()")]),
    ("RANKSCOPE_S3_INSTALL", [("", "import subprocess; subprocess.run(['../s3proxy.sh'], check=True)")]),
]


def make(variable, steps):
    for folder, words in steps:
        begun = time.monotonic()
        done = subprocess.run([sys.executable, "-c", words], cwd=os.path.join(HERE, folder), text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env={**os.environ, "PYTHONPATH": HERE, "RANKSCOPE": os.environ.get("RANKSCOPE", "rankscope")})
        print(f"{variable}, {words.split(';')[0].split()[-1]}: {'there' if done.returncode == 0 else 'not there'} after "
              f"{time.monotonic() - begun:.0f} s {done.stdout.strip()[-500:]}", flush=True)


def main():
    wanted = [(variable, steps) for variable, steps in ENVIRONMENTS if os.environ.get(variable) == "1"]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda one: make(*one), wanted))


main()
