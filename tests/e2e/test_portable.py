#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The portable build needs nothing of the system it runs on: it works in a folder that holds it, /proc and a trace, and nothing else.

The build folder under test is taken (RANKSCOPE_PORTABLE_BUILD). Other distributions' real systems: deploy/portable.sh --try ROOT.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(*words, **options):
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, **options)
    if done.returncode:
        sys.exit(f"FAILED: {' '.join(map(str, words))}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def main():
    if os.geteuid() != 0:
        print("portable: skipped, chroot needs root")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        print(run(str(ROOT / "deploy/portable.sh"), env={**os.environ, "RANKSCOPE_PORTABLE_BUILD": os.environ["RANKSCOPE_BUILD"],
                                                         "RANKSCOPE_PORTABLE_OUT": str(scratch)}).strip())
        archive = next(scratch.glob("*.tar.gz"))
        root = scratch / "root"
        (root / "proc").mkdir(parents=True)
        run("tar", "-C", str(root), "--strip-components=1", "-xzf", str(archive))
        (root / "tmp").mkdir()
        shutil.copytree(ROOT / "docs/examples/slow-loader", root / "traces")
        third_party = root / "share/doc/rankscope/third-party"
        for library in ("libc6", "libgrpc29", "libcurl4", "libmicrohttpd12", "libgnutls30", "libsqlite3-0", "libssl3"):
            assert (third_party / f"{library}.copyright").stat().st_size > 100, f"no licence of {library}"
            assert library in (third_party / "README").read_text(), f"{library} is not named"

        def inside(*words):
            return run("unshare", "-m", "-p", "-f", "--kill-child", "sh", "-c",
                       'mount -t proc proc "$0/proc" && exec chroot "$0" /bin/rankscope "$@"', str(root), *words,
                       env={"PATH": os.environ["PATH"]})

        version = (ROOT / "VERSION").read_text().strip()
        assert inside("--version").strip() == f"rankscope {version}"
        assert "Rank 2 waits for data" in inside("analyse", "/traces", "-o", "/out")
        assert (root / "out/step_trace_time.csv").is_file()
        # gRPC is opened when a verb needs it.
        asked = subprocess.run([str(root / "bin/rankscope"), "capture", "list", "--connect", f"unix:{scratch}/nobody.sock"],
                               capture_output=True, text=True, timeout=60, check=False)
        assert asked.returncode and "nobody.sock" in asked.stderr and "cannot open" not in asked.stderr, asked
        # What it starts is somebody else's program: it gets the environment as it was.
        environment = run(str(root / "bin/rankscope"), "run", "--", "env")
        assert "LD_LIBRARY_PATH" not in environment
        assert os.path.exists("/etc/libkineto.conf") or "/share/rankscope/libkineto.conf\n" in environment, environment
        (root / "lib/rankscope/loader").unlink()
        broken = subprocess.run([str(root / "bin/rankscope"), "--version"], capture_output=True, text=True, timeout=60, check=False)
        assert broken.returncode == 3 and "belong together" in broken.stderr, broken
    print("portable: passed")


main()
