#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No kind of rank in aggregator/: it plans by what an adapter can do (common/request/adapter.h), so that a new one needs no line there.

Refused in code (not in comments): the numbers of adapters (RS_PROFILER_NATIVE, ...), and comparing with their names. The rules are
tried on lines that break them first; exit 1 on any finding.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
NUMBER = re.compile(r"\bRS_PROFILER_(?:NATIVE|KINETO|ASCEND|MINDSPORE|IN_PROCESS)\b|\benum rs_profiler\b|\bRS_RANK_(?:NATIVE|KINETO|ASCEND|MINDSPORE)\b|\brank_kind\b")
NAME = re.compile(r'(?:strcmp|strncmp|strstr)\s*\([^;]*"(?:native|kineto|ascend|mindspore)"')
COMMENT = re.compile(r"/\*.*?\*/", re.S)


def problems_in(text):
    code = COMMENT.sub(lambda match: "\n" * match.group(0).count("\n"), text)
    for number, line in enumerate(code.splitlines(), 1):
        if NUMBER.search(line):
            yield number, "a kind of rank"
        elif NAME.search(line):
            yield number, "an adapter is told by its name"


def rules_hold():
    bad = ["if (rank->kind == RS_RANK_KINETO)", "case RS_PROFILER_ASCEND:", 'return strcmp(facts->source, "native") != 0;',
           "enum rs_profiler profiler;"]
    good = ["/* RS_RANK_KINETO */", "adapter_can(adapter, RS_CAP_PUSH)", "RS_STEPS_PROFILER_STEP", 'strcmp(source, "files")']
    return [f"{line}: not refused" for line in bad if not list(problems_in(line))] + [
        f"{line}: refused" for line in good if list(problems_in(line))]


def main():
    problems = rules_hold()
    files = [path for path in sorted((ROOT / "aggregator").rglob("*")) if path.suffix in (".c", ".h", ".def")]
    for path in files:
        for number, what in problems_in(path.read_text()):
            problems.append(f"{path.relative_to(ROOT)}:{number}: {what}")
    for problem in problems:
        print(problem)
    print(f"kinds: {len(files)} files, {len(problems)} problems")
    return 1 if problems or len(files) < 50 else 0


if __name__ == "__main__":
    sys.exit(main())
