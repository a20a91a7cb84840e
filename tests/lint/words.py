#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Refuses words of the project's first dialect (tests/lint/words.txt) in identifiers, file names and messages of C files.

Comments are prose and may say what English says. In a string a word counts where it stands alone; in an identifier where it is one
of the parts between underscores. Exit 1 when there is one.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"", re.S)
NAME = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")


def words():
    for number, line in enumerate((ROOT / "tests/lint/words.txt").read_text().splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            parts = line.split("\t")
            if len(parts) not in (2, 3):
                sys.exit(f"tests/lint/words.txt:{number}: word, instead, paths; between tabs")
            yield re.compile(f"(?:{parts[0]})"), parts[1], re.compile(parts[2]) if len(parts) == 3 else None


def plain(text):
    """The text without comments; lines stay where they are, strings stay as they are."""
    return COMMENT.sub(lambda m: m.group(0) if m.group(0)[0] == '"' else re.sub(r"[^\n]", " ", m.group(0)), text)


def main():
    table = list(words())
    wrong = []
    files = subprocess.run(["git", "ls-files", "*.c", "*.h", "*.def"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    for path in files:
        # protobuf-c and other libraries have names of their own; ours are all lower case or all upper case with underscores.
        for number, line in enumerate([path] + plain((ROOT / path).read_text(errors="replace")).split("\n")):
            for name in NAME.findall(line):
                for part in name.lower().split("_"):
                    for word, instead, may in table:
                        if word.fullmatch(part) and not (may and may.search(path)):
                            wrong.append(f"{path}:{number or 1}: \"{name}\": say {instead}")
    for line in sorted(set(wrong)):
        print(line)
    print(f"words: {len(files)} files, {len(set(wrong))} words of the old dialect")
    return 1 if wrong else 0


sys.exit(main())
