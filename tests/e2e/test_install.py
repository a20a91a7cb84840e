#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Installing for one user: what is there works from where it is, and uninstalling leaves the prefix as it was.

The build folder under test is installed (RANKSCOPE_INSTALL_BUILD), so nothing is built here but two small programs that
link the installed library, by pkg-config and by CMake's package.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCE = '#include <rankscope.h>\nint main(void) { rankscope_step(1); return 0; }\n'


def run(*words, **options):
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, **options)
    if done.returncode:
        sys.exit(f"FAILED: {' '.join(map(str, words))}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def main():
    install = str(ROOT / "deploy/install.sh")
    with tempfile.TemporaryDirectory() as scratch:
        prefix = pathlib.Path(scratch) / "prefix"
        (prefix / "bin").mkdir(parents=True)
        (prefix / "bin/other").write_text("somebody else's\n")
        before = files(prefix)
        env = {**os.environ, "RANKSCOPE_INSTALL_BUILD": os.environ["RANKSCOPE_BUILD"]}
        run(install, "--prefix", str(prefix), env=env)
        version = (ROOT / "VERSION").read_text().strip()
        assert run(str(prefix / "bin/rankscope"), "--version").strip() == f"rankscope {version}"
        there = files(prefix)
        for wanted in ("include/rankscope.h", "share/man/man1/rankscope.1", "share/bash-completion/completions/rankscope"):
            assert wanted in there, f"{wanted} is not installed"
        assert not any("systemd" in name for name in there), "units belong to root's installation"
        (pathlib.Path(scratch) / "step.c").write_text(SOURCE)
        pkgconfig = next(prefix.rglob("rankscope.pc")).parent
        flags = run("pkg-config", "--cflags", "--libs", "rankscope", env={**env, "PKG_CONFIG_PATH": str(pkgconfig)}).split()
        library = next(prefix.rglob("librankscope.so")).parent
        run("cc", "step.c", "-o", "step", *flags, cwd=scratch)
        run("./step", cwd=scratch, env={**env, "LD_LIBRARY_PATH": str(library), "RANKSCOPE_RUNTIME_DIR": scratch})
        (pathlib.Path(scratch) / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.16)\nproject(step C)\nfind_package(rankscope REQUIRED)\n"
            "add_executable(step step.c)\ntarget_link_libraries(step rankscope::static)\n")
        run("cmake", "-S", scratch, "-B", f"{scratch}/b", f"-DCMAKE_PREFIX_PATH={prefix}")
        run("cmake", "--build", f"{scratch}/b")
        run(f"{scratch}/b/step", env={**env, "RANKSCOPE_RUNTIME_DIR": scratch})
        # A second time replaces the first; then nothing of ours is left and nothing else is gone.
        run(install, "--prefix", str(prefix), env=env)
        assert files(prefix) == there, "installing twice gives the same files"
        run(install, "--prefix", str(prefix), "--uninstall")
        left = files(prefix)
        assert left == before, f"left behind or taken: {sorted(set(left) ^ set(before))}"
    print("ok: installed, linked by pkg-config and CMake, uninstalled")


if not shutil.which("pkg-config"):
    print("skipped: pkg-config is not installed")
    sys.exit(77)
main()
