#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Functions of libc that are not called here, and what is called instead.

A line may be excused by a NOLINT comment with the reason. It reads every .c and .h, also those that this machine does not compile.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PRODUCT = ("common", "collector", "aggregator", "ascend", "cli", "deploy")
INSTEAD = {
    "write beyond the end, or leave no NUL: snprintf, rs_buf": "strcpy strcat sprintf vsprintf strncpy strncat stpcpy gets",
    "say nothing of what is no number: strtol, or the room's own reader": "atoi atol atoll atof",
    "keep one result for all threads: gmtime_r, localtime_r, strftime, strtok_r": "gmtime localtime ctime asctime strtok",
    "name a file that somebody else may make first: mkstemp, mkdtemp": "tmpnam tempnam mktemp",
    "take the stack that nobody measured: rs_mem_calloc": "alloca",
}
PRODUCT_ONLY = {"let a shell read a path: posix_spawn": "system popen",
                "have one sequence for all threads: a generator of one's own, with its seed": "rand srand random srandom drand48"}


def patterns(table):
    return [(re.compile(r"(?<![\w.>\"])(" + "|".join(names.split()) + r")\s*\("), why) for why, names in table.items()]


def code_of(line):
    """Without texts and what is commented out on it."""
    return re.sub(r'"(?:\\.|[^"\\])*"', '""', re.sub(r"/\*.*?\*/", "", line)).split("//")[0]


def main():
    found, count = [], 0
    for pattern, _ in patterns(INSTEAD) + patterns(PRODUCT_ONLY): # a lint that finds nothing finds nothing
        for name in pattern.pattern.split("(")[2].split(")")[0].split("|"):
            assert pattern.search(code_of(f'    (void){name}(text, "{name}()");')) and not pattern.search(code_of(f'"{name}("'))
    for folder in PRODUCT + ("tests",):
        rules = patterns(INSTEAD) + (patterns(PRODUCT_ONLY) if folder in PRODUCT else [])
        for path in sorted((ROOT / folder).rglob("*.[ch]")):
            count += 1
            in_comment = False
            for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
                code = "" if in_comment else code_of(line)
                if "/*" in code:
                    in_comment, code = True, code.split("/*")[0]
                if in_comment and "*/" in line:
                    in_comment = False
                if "NOLINT" in line:
                    continue
                for pattern, why in rules:
                    for match in pattern.finditer(code):
                        found.append(f"{path.relative_to(ROOT)}:{number}: {match.group(1)}() is not called here; such functions {why}")
    for line in found:
        print(line)
    print(f"banned: {count} files, {len(found)} calls")
    return 1 if found else 0


sys.exit(main())
