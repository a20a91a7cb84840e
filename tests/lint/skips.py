#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds what a run of ctest skipped against tests/skips.txt.

    ctest --output-junit build/dev/junit.xml ...; tests/lint/skips.py build/dev/junit.xml

Exit 1 when a test did not run that is not listed, or that is listed for a reason that does not hold here: then it is a
test that was believed to run. Exit 0 otherwise; the allowed ones are printed with their reason.
"""
import glob
import os
import pathlib
import shutil
import subprocess
import sys
import xml.etree.ElementTree as tree

ROOT = pathlib.Path(__file__).resolve().parents[2]


def listed():
    allowed = {}
    for number, line in enumerate((ROOT / "tests/skips.txt").read_text().splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            words = line.split(maxsplit=2)
            if len(words) != 3:
                sys.exit(f"tests/skips.txt:{number}: test, when, why")
            allowed.setdefault(words[0], []).append(words[1:])
    return allowed


def holds(when):
    kind, _, what = when.partition(":")
    if kind == "always":
        return True
    if kind == "user":
        return os.geteuid() != 0
    if kind == "absent":
        return not glob.glob(str(ROOT / os.path.expanduser(what)))
    if kind == "tool":
        return shutil.which(what) is None
    if kind == "mount":
        return subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/dev/shm"], check=False,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode != 0
    if kind == "netns":
        return subprocess.run(["unshare", "-n", "ip", "link", "add", "b0", "type", "bridge"], check=False,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode != 0
    sys.exit(f"tests/skips.txt: \"{when}\" is none of always, user, mount, netns, absent:PATH, tool:NAME")


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    allowed, wrong, right, count = listed(), [], [], 0
    for path in sys.argv[1:]:
        for case in tree.parse(path).getroot().iter("testcase"):
            count += 1
            if case.get("status") not in ("notrun", "disabled"):
                continue
            name = case.get("name")
            reasons = allowed.get(name, [])
            good = next(((when, why) for when, why in reasons if holds(when)), None)
            if good:
                right.append(f"{name}: {good[1]} ({good[0]})")
            elif reasons:
                wrong.append(f"{name} did not run, and no reason that tests/skips.txt gives for it holds here ("
                             + ", ".join(when for when, _ in reasons) + ")")
            else:
                wrong.append(f"{name} did not run, and tests/skips.txt does not list it")
    for line in right:
        print("allowed: " + line)
    for line in wrong:
        print("skips: " + line)
    if not count:
        wrong.append("no tests")
        print("skips: no test is in " + ", ".join(sys.argv[1:]))
    print(f"skips: {count} tests, {len(right)} allowed skips, {len(wrong)} others")
    return 1 if wrong else 0


sys.exit(main())
