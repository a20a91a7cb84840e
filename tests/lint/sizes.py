#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Nothing comes into the repository that does not belong there: no file of more than 400 kB, and nothing new at its top.

What a test or a bench leaves behind is taken along by `git add -A`, and stays in every clone for ever. Looks at what git knows; in a
tree without git at all files but those of builds.
"""
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
LARGEST_BYTES = 400_000
TOP = set(""".ci .clang-format .clang-tidy .gitignore CHANGELOG.md CMakeLists.txt CMakePresets.json CONTRIBUTING.md LICENSE README.md SECURITY.md VERSION
             aggregator ascend cli cmake collector common dashboards deploy docs proto tests""".split())
NOT_OURS = {"build", ".git", "node_modules", "__pycache__"}


def files():
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, check=False)
    if listed.returncode == 0:
        return [pathlib.PurePath(os.fsdecode(name)) for name in listed.stdout.split(b"\0") if name]
    found = []
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in NOT_OURS]
        found += [pathlib.PurePath(folder, name).relative_to(ROOT) for name in names]
    return found


def problems_in(path, size):
    if path.parts[0] not in TOP:
        yield f"{path}: {path.parts[0]} is nothing of ours (tests/lint/sizes.py lists what is)"
    if size > LARGEST_BYTES:
        yield f"{path}: {size} bytes; more than {LARGEST_BYTES} are not kept here"


def main():
    problems = [] if list(problems_in(pathlib.PurePath("greedy-data/a.seg"), 1 << 28))[1:] else ["the rules themselves refuse nothing"]
    for path in files():
        place = ROOT / path
        if place.is_file():
            problems += problems_in(path, place.stat().st_size)
    print("\n".join(problems) or "sizes: nothing too large, and nothing strange")
    return 1 if problems else 0


sys.exit(main())
