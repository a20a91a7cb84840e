#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every promise of docs/promises.md names tests, and each of them is run.

    tests/lint/promises.py BUILD     a build folder that ctest knows
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run_here(build):
    said = subprocess.run(["ctest", "--test-dir", build, "-N"], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"^ *Test +#\d+: (\S+)$", said, re.M))


def rows(text):
    for number, line in enumerate(text.splitlines(), 1):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and not set(line) <= set("|-") and cells != ["promise", "held by"]:
            yield number, cells


def main():
    known, wrong, count = run_here(sys.argv[1]), [], 0
    for number, cells in rows((ROOT / "docs/promises.md").read_text()):
        count += 1
        tests = re.findall(r"`([a-z0-9_]+)`", cells[-1])
        if len(cells) != 2 or not tests:
            wrong.append(f"docs/promises.md:{number}: a promise and what holds it are expected")
        wrong += [f"docs/promises.md:{number}: there is no test {test}" for test in tests if test not in known]
    if not count:
        wrong.append("docs/promises.md holds no promise")
    print("\n".join([*wrong, f"promises: {count}, {len(wrong)} of them wrong"]))
    return 1 if wrong else 0


sys.exit(main())
