# SPDX-License-Identifier: Apache-2.0
"""Which Ascend recordings a test reads: made ones always (ascend_job.py), real ones beside the tree where they are.

    pair   two ranks of a job of eight, one step, number 50: ../shared/data/ascend/level1-*, or made
    eight  a whole job of eight, three steps, with planted.json: ../shared/data/msprof-golden/r8-input.tar.xz, or made

RANKSCOPE_SHARED names another folder than ../shared; empty: there is none.

    tests/support/ascend_inputs.py FOLDER     makes the pair in FOLDER/text and FOLDER/db
"""
import os
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MAKE = os.path.join(ROOT, "tests", "support", "ascend_job.py")
SHARED = os.path.abspath(os.environ.get("RANKSCOPE_SHARED", os.path.join(ROOT, "..", "shared")) or "/nonexistent")
DATA = os.path.join(SHARED, "data")
REAL = os.path.join(DATA, "ascend")
GOLDEN = os.path.join(DATA, "msprof-golden")


def has_shared():
    return os.path.isdir(REAL) and os.path.isdir(GOLDEN)


def make(out, *options):
    subprocess.run([sys.executable, MAKE, "--out", out, *options], check=True)
    return out


def made_pair(folder):
    """{"text": tree, "db": tree}; eight ranks met, two were recorded, and no file says who the others are."""
    make(folder, "--ranks", "8", "--tp", "1", "--pp", "1", "--steps", "1", "--first-step", "50", "--comm-ops-per-step", "4",
         "--only", "0,1", "--plain-names", "--no-metadata", "--trace", "--slow-rank", "none", "--slow-link", "none")
    return {form: os.path.join(folder, form) for form in ("text", "db")}


def made_eight(folder):
    make(folder, "--comm-ops-per-step", "40", "--microbatches", "2")
    return {form: os.path.join(folder, form) for form in ("text", "db")}


def real_pair():
    return {form: os.path.join(REAL, "level1-" + form) for form in ("text", "db")}


def golden_eight(folder):
    # not tarfile's filter, which Debian 12's Python has not got yet
    shutil.unpack_archive(os.path.join(GOLDEN, "r8-input.tar.xz"), folder)
    return {form: os.path.join(folder, form) for form in ("text", "db")}


def either_pair(folder):
    return real_pair() if has_shared() else made_pair(folder)


def generator():
    """The program that makes jobs: the one beside the tree where it is, so that not only our own is read; else ours."""
    other = os.path.join(SHARED, "tools", "gen_ascend_cluster.py")
    return other if has_shared() and os.path.exists(other) else MAKE


def checker():
    """The words before TREE OUT that hold `cluster`'s output against planted.json; fits generator()."""
    return [MAKE, "--check"] if generator() == MAKE else [os.path.join(SHARED, "tools", "check_ascend_cluster.py")]


if __name__ == "__main__":
    made_pair(sys.argv[1])
