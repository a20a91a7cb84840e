#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/lint/skips.py refuses a skip that is not listed, allows one that is, and an empty run is no success."""
import pathlib
import subprocess
import sys
import tempfile

SCRIPT = pathlib.Path(__file__).with_name("skips.py")


def code(cases):
    with tempfile.NamedTemporaryFile("w", suffix=".xml") as file:
        file.write("<testsuite>" + "".join(f'<testcase name="{n}" status="{s}"/>' for n, s in cases) + "</testsuite>")
        file.flush()
        return subprocess.run([sys.executable, SCRIPT, file.name], stdout=subprocess.DEVNULL).returncode


def main():
    expected = [([("unit_a", "run")], 0), ([("unit_a", "run"), ("e2e_export", "notrun")], 0),
                ([("unit_a", "notrun")], 1), ([], 1), ([("e2e_export", "fail")], 0)]
    wrong = [cases for cases, want in expected if code(cases) != want]
    print("skips_test: " + (f"wrong for {wrong}" if wrong else "as it should be"))
    return 1 if wrong else 0


sys.exit(main())
