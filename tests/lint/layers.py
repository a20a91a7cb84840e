#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the table of rooms in CMakeLists.txt against every #include.

A file of room R may include "X/..." only when X is R, or stands behind R in the table. A header that ends in
_priv.h stays inside its room. cli/rankscope.c is the program's, which puts the rooms together. Only common/wire may include grpc, only common/curl libcurl's own header, only rooms that list SQLite may
include sqlite3.h. Prints each broken edge; exit 1 when there is one.

What is no verb's business goes into the room that owns it: LINES says how many lines of C, headers and tables a folder has at the most, and
is lowered with what was moved out. The verbs start no thread, and hand no message of the wire to each other: NOT_IN says what may not be in
which of their files.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<([^>]+)>)')
NOT_IN = {"cli": [("[ch]", re.compile(r"\bpthread_create\b"), "the verbs start no thread"),
                  ("h", re.compile(r"\bRankscope__"), "a header of the verbs holds no message of the wire")]}
LINES = {"cli": 6991}
OWNERS = {"grpc": "common/wire", "curl": "common/curl"}


def room_table():
    text = (ROOT / "CMakeLists.txt").read_text()
    rooms, libs = {}, {}
    for match in re.finditer(r"rs_room\(\s*(\S+)([^)]*)\)", text):
        words = match.group(2).split()
        mode, lists = None, {"ROOMS": set(), "LIBS": set()}
        for word in words:
            if word in lists:
                mode = word
            elif mode:
                lists[mode].add(word)
        rooms[match.group(1)] = lists["ROOMS"]
        libs[match.group(1)] = lists["LIBS"]
    return rooms, libs


def room_of(path, rooms):
    best = None
    for room in rooms:
        if path.startswith(room + "/") and (best is None or len(room) > len(best)):
            best = room
    return best


def check(path, rooms, libs):
    relative = path.relative_to(ROOT).as_posix()
    room = room_of(relative, rooms)
    if room is None or relative == "cli/rankscope.c":  # main(): the one place that knows the wing's door
        return
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        ours, system = match.groups()
        where = f"{relative}:{number}"
        if system:
            owner = OWNERS.get(system.split("/")[0])
            if owner and room != owner:
                yield f"{where}: only {owner} may include <{system}>"
            if system == "sqlite3.h" and not any("SQLITE" in lib for lib in libs[room]):
                yield f"{where}: room {room} does not list SQLite"
            continue
        target = room_of(ours, rooms)
        if target is None:
            if not ours.startswith(("proto/", "tests/")) or ours.startswith("tests/"):
                yield f'{where}: "{ours}" is in no room'
            continue
        if target == room:
            continue
        if target not in rooms[room]:
            yield f"{where}: {room} may not look at {target}"
        if ours.endswith("_priv.h"):
            yield f"{where}: {ours} is private to {target}"


def forbidden(folder, rules):
    for ending, pattern, why in rules:
        for path in sorted((ROOT / folder).rglob(f"*.{ending}")):
            for number, line in enumerate(path.read_text().splitlines(), 1):
                if pattern.search(line):
                    yield f"{path.relative_to(ROOT).as_posix()}:{number}: {why}"


def too_long(folder, most):
    count = sum(len(path.read_text().splitlines()) for kind in ("c", "h", "def") for path in (ROOT / folder).rglob(f"*.{kind}"))
    if count > most:
        yield f"{folder}: {count} lines, more than {most} (LINES in tests/lint/layers.py)"


def main():
    rooms, libs = room_table()
    broken = [line for folder, most in LINES.items() for line in too_long(folder, most)]
    for folder, rules in NOT_IN.items():
        broken += forbidden(folder, rules)
    for folder in ("common", "collector", "aggregator", "ascend", "cli"):
        for path in sorted((ROOT / folder).rglob("*.[ch]")):
            broken += check(path, rooms, libs)
    for line in broken:
        print(line)
    print(f"layers: {len(rooms)} rooms, {len(broken)} broken edges")
    return 1 if broken else 0


sys.exit(main())
