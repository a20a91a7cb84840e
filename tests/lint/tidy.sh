#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# clang-tidy over what changed, and over a part of the rest that is another every day, as long as the time lasts.
#
#   tests/lint/tidy.sh [SECONDS [BASE]]   600 s; BASE: a commit (default: the one 30 commits ago)
#
# Reads build/clang (made when it is not there). Exit 1 when it complained; 77 without clang-tidy-14. Files that time did not suffice
# for are counted: those that changed come first.
#
# Functions that were too long or too nested when this began to block stand in tests/lint/tidy_known.txt. The list only gets shorter:
# one that is good now, or is not there any more, is a complaint, too.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

limit=${1:-600}
base=${2:-$(git rev-parse -q --verify HEAD~30 2>/dev/null || git rev-list --max-parents=0 HEAD | tail -1)}
command -v clang-tidy-14 >/dev/null || { echo "tidy: skipped, no clang-tidy-14 here"; exit 77; }
cmake --preset clang >/dev/null
cmake --build --preset clang --target rs_proto -j "$(nproc)" >/dev/null # what is generated

python3 - "$limit" "$base" <<'PY'
import concurrent.futures
import datetime
import json
import os
import re
import subprocess
import sys
import time

limit, base = int(sys.argv[1]), sys.argv[2]
end = time.monotonic() + limit
root = os.getcwd()
known = sorted({os.path.relpath(os.path.join(entry["directory"], entry["file"]), root)
                for entry in json.load(open("build/clang/compile_commands.json"))})
ours = [path for path in known if path.split("/")[0] in ("common", "collector", "aggregator", "ascend", "cli")]
changed = set(subprocess.run(["git", "diff", "--name-only", base], check=True, capture_output=True, text=True).stdout.split())
SIZE = re.compile(r"^\S+?: error: function '(\w+)' .*\[(readability-function-(?:size|cognitive-complexity)),", re.M)
allowed = {}  # path -> {(function, check)}
for line in open("tests/lint/tidy_known.txt"):
    if line.strip() and not line.startswith("#"):
        path, function, check = line.split()
        allowed.setdefault(path, set()).add((function, check))
wrong = [f"tests/lint/tidy_known.txt: there is no {path}" for path in allowed if path not in ours]


def from_today(paths):
    """Another one is first every day."""
    start = datetime.date.today().toordinal() * 37 % max(1, len(paths))
    return paths[start:] + paths[:start]


first = from_today([path for path in ours if path in changed])
rest = from_today([path for path in ours if path not in changed])


def tidy(path):
    if time.monotonic() > end:
        return path, None, ""
    done = subprocess.run(["clang-tidy-14", "--quiet", "-p", "build/clang", path], capture_output=True, text=True, check=False)
    return path, done.returncode, done.stdout


def complaints(path, code, text):
    """What clang-tidy says of one file but for what is known; and what is known and was not said."""
    told = set(SIZE.findall(text))
    errors = text.count(" error: ")
    for function, check in sorted(allowed.get(path, set()) - told):
        yield f"{path}: {function} is good now ({check}): take it out of tests/lint/tidy_known.txt"
    if errors > len(told & allowed.get(path, set())) or (code != 0 and not errors):
        yield text.strip() or f"{path}: clang-tidy ended with {code} and said nothing"


seen, late = 0, {True: 0, False: 0}
with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
    for path, code, text in pool.map(tidy, first + rest):
        if code is None:
            late[path in changed] += 1
            continue
        seen += 1
        wrong.extend(complaints(path, code, text))
print("\n".join(wrong))
print(f"tidy: {seen} files in {limit - max(0, end - time.monotonic()):.0f} s, {len(wrong)} complaints; "
      f"not reached: {late[True]} of {len(first)} changed, {late[False]} of {len(rest)} others")
sys.exit(1 if wrong else 0)
PY
