#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# clang-tidy over what changed, and over a part of the rest that is another every day, as long as the time lasts.
#
#   tests/lint/tidy.sh [SECONDS [BASE]]   600 s; BASE: a commit (default: the one 30 commits ago)
#
# Reads build/clang (made when it is not there). Exit 1 when it complained; 77 without clang-tidy-14. Files that time did not suffice
# for are counted: those that changed come first.
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
first = [path for path in ours if path in changed]
rest = [path for path in ours if path not in changed]
start = datetime.date.today().toordinal() * 37 % max(1, len(rest))
rest = rest[start:] + rest[:start]


def tidy(path):
    if time.monotonic() > end:
        return path, None, ""
    done = subprocess.run(["clang-tidy-14", "--quiet", "-p", "build/clang", path], capture_output=True, text=True, check=False)
    return path, done.returncode, done.stdout


seen, wrong, late = 0, [], {True: 0, False: 0}
with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
    for path, code, text in pool.map(tidy, first + rest):
        if code is None:
            late[path in changed] += 1
            continue
        seen += 1
        if code != 0:
            wrong.append(path)
            print(text.strip())
print(f"tidy: {seen} files in {limit - max(0, end - time.monotonic()):.0f} s, {len(wrong)} with complaints; "
      f"not reached: {late[True]} of {len(first)} changed, {late[False]} of {len(rest)} others")
sys.exit(1 if wrong else 0)
PY
