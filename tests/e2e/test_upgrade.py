#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Data folder and spool of earlier versions are taken by this one, and what is newer than this one is refused with a sentence.

tests/data/version-VERSION.tar.gz was left by that version's daemons when both were killed (-9; tests/data/leave_version.sh): a complete
capture of 5 steps of the demo job (4 ranks, rank 3 computes twice as much), and one of 6 steps of which the aggregator knows the request,
and the spool the chunks.
"""
import os
import pathlib
import sqlite3
import subprocess
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.path.abspath(os.environ["RANKSCOPE"])


def check(truth, *what):
    if not truth:
        raise AssertionError(" ".join(str(part) for part in what))


class Site:
    def __init__(self, folder, version):
        self.folder = pathlib.Path(folder)
        with tarfile.open(ROOT / f"tests/data/version-{version}.tar.gz") as archive:
            archive.extractall(self.folder)
        (self.folder / "run").mkdir(mode=0o700)
        self.address = f"unix:{self.folder}/run/aggregator.sock"
        self.env = {**os.environ, "RANKSCOPE_RUNTIME_DIR": str(self.folder / "run")}
        self.started = []

    def start(self, verb, *words):
        process = subprocess.Popen([PROGRAM, verb, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.env)
        self.started.append(process)
        return process

    def aggregator(self):
        daemon = self.start("aggregator", "--listen", self.address, "--data", str(self.folder / "data"))
        line = daemon.stdout.readline()
        check("listening" in line, "the aggregator did not start:", line, daemon.stderr.read() if not line else "")
        return daemon

    def collector(self):
        return self.start("collector", "--connect", self.address, "--spool", str(self.folder / "spool"), "--no-kineto", "--no-native",
                          "--no-mindspore", "-v")

    def ask(self, *words, code=0):
        done = subprocess.run([PROGRAM, *words, "--connect", self.address], capture_output=True, text=True, timeout=120, env=self.env,
                              check=False)
        check(done.returncode == code, words, "exit", done.returncode, done.stdout, done.stderr)
        return done.stdout + done.stderr

    def stop(self):
        for process in self.started:
            process.terminate()
        for process in self.started:
            process.communicate(timeout=60)


def bring_up(version):
    with tempfile.TemporaryDirectory() as folder:
        site = Site(folder, version)
        try:
            whole, half = sorted(path.name for path in (site.folder / "data/captures").iterdir())
            aggregator = site.aggregator()
            check(f"{whole} demo complete" in " ".join(site.ask("capture", "list").split()), "the old capture is not complete")
            check("Rank 3 is slow" in site.ask("report", whole), "the old capture's culprit is not named")
            said = site.ask("verify", whole)
            check(version != "0.1.0" or "older version, not compared" in said, "verify does not say that the summary is older")
            collector = site.collector()
            site.ask("capture", "wait", half, "--timeout", "60s")
            check("Rank 3 is slow" in site.ask("report", half), "the capture from the old spool names nobody")
            site.ask("verify", half)
            print(f"{version}: {whole} from the data folder, {half} from the spool")
            for daemon in (collector, aggregator):
                daemon.terminate()
                check(daemon.wait(60) == 0, "a daemon did not end by itself")
            # brought up, and opened again
            aggregator = site.aggregator()
            check("Rank 3 is slow" in site.ask("report", half), "after a restart")
            aggregator.terminate()
            aggregator.wait(60)

            with sqlite3.connect(site.folder / "data/catalogue.db") as db:
                db.execute("PRAGMA user_version=77")
            refused = site.start("aggregator", "--listen", site.address, "--data", str(site.folder / "data"))
            _, errors = refused.communicate(timeout=60)
            check(refused.returncode == 3 and "newer Rankscope" in errors, refused.returncode, errors)
            print(errors.strip().replace(folder, "..."))

            segment = next((site.folder / "spool").glob("**/*.seg"), None)
            with open(segment, "r+b") as file:  # its head: magic, version, checksum of both
                head = b"RSRECLOG" + (99).to_bytes(4, "little")
                file.write(head + crc32c(head).to_bytes(4, "little"))
            before = segment.read_bytes()
            refused = site.collector()
            _, errors = refused.communicate(timeout=60)
            check(refused.returncode == 3 and "version 99" in errors, refused.returncode, errors)
            check(segment.read_bytes() == before, "a newer spool was touched")
            print(errors.strip().splitlines()[-1].replace(folder, "..."))
        finally:
            site.stop()


def main():
    versions = sorted(path.name[8:-7] for path in (ROOT / "tests/data").glob("version-*.tar.gz"))
    now = (ROOT / "VERSION").read_text(encoding="utf-8").strip()
    check(len(versions) >= 2 and now not in versions, "what was left by", versions, "is there; this is", now)
    for version in versions:
        bring_up(version)
    print("upgrade: passed")


def crc32c(data):
    """Castagnoli's, bit by bit."""
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
    return value ^ 0xFFFFFFFF


main()
