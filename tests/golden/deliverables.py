#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every deliverable of every test input is what it was: its SHA-256 stands in deliverables.txt.

    tests/golden/deliverables.py                      looks; exit 1 and the names when something differs
    tests/golden/deliverables.py --update "REASON"    writes the digests of now, and the reason above them

A change that is meant mends a defect, which the reason names (docs/notes for what a user would ask about). A change that is not
meant is found here. Inputs are what the repository carries, and ../shared/data where that is; cluster output and recipes are held against
msprof-analyze's own by e2e_cluster and e2e_recipes.

Digested is what the program decides: of a database its rows, of a document everything but the program's version and where
the input lay, of report.html all but its script (a program that was built without npm has none) and the script's digest. `--keep DIR` leaves the deliverables there, to compare.
"""
import argparse
import concurrent.futures
import datetime
import hashlib
import lzma
import os
import pathlib
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = ROOT / "tests/golden/deliverables.txt"
DATA = ROOT / "../shared/data"
PROGRAM = os.environ.get("RANKSCOPE", str(ROOT / "build/dev/rankscope"))
HEAD = """# SHA-256 of every deliverable of every test input: INPUT FILE DIGEST. Written by tests/golden/deliverables.py --update, with the reason:
"""


def inputs():
    """(name, folder it is seen from, operands of the command)"""
    yield "examples/slow-loader", ROOT / "docs/examples", ["analyse", "slow-loader"]
    if not DATA.is_dir():
        return
    for path in sorted(DATA.glob("kineto/*")):
        ranks = path / "ranks.json"
        yield f"kineto/{path.name}", path.parent, ["analyse", path.name] + (["--rank-map", str(ranks)] if ranks.exists() else [])
    for path in sorted(DATA.glob("planted/*/")):
        yield f"planted/{path.name}", path.parent, ["analyse", path.name]
    for path in sorted(DATA.glob("ascend/*/")):
        yield f"ascend/{path.name}", path.parent, ["analyse", "--cluster", path.name]
    for path in sorted(DATA.glob("stragglers/ops-*.csv.xz")):
        yield f"stragglers/{path.name[:-3]}", path, ["whatif", "--json"]


SCRIPT = re.compile(rb"<script>.*</script>\n(?=</body></html>\n\Z)", re.DOTALL)
POLICY = re.compile(rb"; script-src 'sha256-[\w+/=]{44}'(?=\">)")


def without_script(path):
    data = path.read_bytes()
    return POLICY.sub(b"", SCRIPT.sub(b"", data), count=1)


def digest(path, folder):
    if path.suffix == ".db":
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as database:
            rows = sorted(database.iterdump())
        database.close()
        data = "\n".join(rows).encode()
    else:
        data = without_script(path) if path.name == "report.html" else path.read_bytes()
    report = path.parent / "report.html"
    if path.name == "manifest.json" and report.exists():  # it has the size and the digest of the report as it is
        told, now = report.read_bytes(), without_script(report)
        data = data.replace(hashlib.sha256(told).hexdigest().encode(), hashlib.sha256(now).hexdigest().encode())
        data = data.replace(b'"bytes": %d' % len(told), b'"bytes": %d' % len(now))
    data = data.replace(str(folder).encode(), b"FOLDER").replace(str(DATA.resolve()).encode(), b"DATA")
    data = re.sub(rb"rankscope \d+\.\d+\.\d+", b"rankscope VERSION", data)
    return hashlib.sha256(data).hexdigest()


def make(item, keep):
    """Digests by name of file; "exit" is the exit code."""
    name, seen_from, command = item
    with tempfile.TemporaryDirectory(prefix="rs-golden-") as folder:
        out = pathlib.Path(folder) / "out"
        environment = dict(os.environ, LC_ALL="C.UTF-8", RANKSCOPE_CONFIG="", TZ="UTC")
        if command[0] == "whatif":
            table = pathlib.Path(folder) / "ops.csv"
            table.write_bytes(lzma.decompress(seen_from.read_bytes()))
            done = subprocess.run([PROGRAM, *command, str(table)], capture_output=True, env=environment, check=False)
            out.mkdir()
            (out / "whatif.json").write_bytes(done.stdout)
        else:
            done = subprocess.run([PROGRAM, *command, "-q", "-o", str(out)], cwd=seen_from, capture_output=True, env=environment,
                                  check=False)
        if done.returncode not in (0, 1):
            print(f"{name}: exit {done.returncode}: {done.stderr.decode(errors='replace').strip()[-300:]}")
        found = {"exit": str(done.returncode)}
        for path in sorted(out.rglob("*")) if out.is_dir() else []:
            if path.is_file():
                found[path.relative_to(out).as_posix()] = digest(path, folder)
        if keep and out.is_dir():
            shutil.copytree(out, pathlib.Path(keep) / name, dirs_exist_ok=True)
    return name, found


def read_table():
    table, reasons = {}, []
    for line in TABLE.read_text().splitlines() if TABLE.exists() else []:
        if line.startswith("# 2"):
            reasons.append(line)
        elif line and not line.startswith("#"):
            name, file, value = line.split(" ")
            table.setdefault(name, {})[file] = value
    return table, reasons


def compare(old, new):
    lines = []
    for name in sorted(new):
        before, now = old.get(name), new[name]
        if before is None:
            lines.append(f"{name}: not in the table")
            continue
        for file in sorted(set(before) | set(now)):
            if before.get(file) != now.get(file):
                how = "is new" if file not in before else "is missing" if file not in now else "differs"
                if file == "exit":
                    how = f"code was {before.get(file)}, is {now.get(file)}"
                lines.append(f"{name}: {file} {how}")
    return lines


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--update", metavar="REASON")
    parser.add_argument("--keep", metavar="DIR")
    options = parser.parse_args()
    old, reasons = read_table()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        new = dict(pool.map(lambda item: make(item, options.keep), list(inputs())))
    lines = compare(old, new)
    if not DATA.is_dir():
        print("../shared/data is not here: the examples were looked at" if not options.update else
              "the table is written only where ../shared/data is")
        for line in lines:
            print(line)
        sys.exit(1 if lines or options.update else 0)
    lines += [f"{name}: no such input any more" for name in sorted(set(old) - set(new))]
    if options.update:
        if lines:
            reasons.append(f"# {datetime.date.today()} {' '.join(options.update.split())}")
        text = "".join(f"{name} {file} {new[name][file]}\n" for name in sorted(new) for file in sorted(new[name]))
        TABLE.write_text(HEAD + "".join(reason + "\n" for reason in reasons) + text)
        print(f"{len(lines)} changes written")
        return
    for line in lines:
        print(line)
    count = sum(len(found) for found in new.values())
    print(f"deliverables: {len(new)} inputs, {count} digests, {len(lines)} differ")
    if lines:
        print('meant? then tests/golden/deliverables.py --update "which defect that mends", in the same commit')
        sys.exit(1)


main()
