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


def tells(lines, *words):
    """What deploy/progress.sh says of these lines when nobody's terminal listens."""
    done = subprocess.run([ROOT / "deploy/progress.sh", *words], input="".join(line + "\n" for line in lines), capture_output=True, text=True,
                          check=True, timeout=60)
    return done.stderr.splitlines()


def progress_is_shown(scratch):
    """Of a build and of packages: the first is ninja's own text, the second apt's, of a fetch and an installation."""
    assert tells(["[1/200] CC a.o", "[9/200] CC b.o", "[150/200] CC c.o", "FAILED: d.o", "d.c:1: error: no", "[200/200] LD"], "building") == [
        "building: compiled 0 %", "building: compiled 75 %", "FAILED: d.o", "d.c:1: error: no", "building: compiled 100 %"]
    assert tells(["dlstatus:1:4.8:Retrieving file 1 of 21", "Reading package lists...", "dlstatus:2:93.4:Retrieving file 20 of 21",
                  "pmstatus:libgrpc29:arm64:10.3:Preparing libgrpc29: (arm64)", "pmstatus:x:100.0:Installed x"], "--only", "packages") == [
        "packages: fetched 4 %", "packages: fetched 93 %", "packages: unpacked and set up 10 %", "packages: unpacked and set up 100 %"]
    # install-packages.sh asks apt for it, and fails when apt does
    fake = pathlib.Path(scratch) / "fake"
    fake.mkdir()
    for name, text in (("dpkg-query", "exit 1"), ("id", "echo 0"),
                       ("apt-get", 'case $* in *Status-Fd=1*) echo pmstatus:x:50.0:Unpacking; [ "$FAIL" != yes ] || exit 100;; esac')):
        (fake / name).write_text("#!/bin/sh\n%s\n" % text)
        (fake / name).chmod(0o755)
    (fake / "list").write_text("one\ntwo\n")
    for fail, code in (("no", 0), ("yes", 100)):
        done = subprocess.run([ROOT / "deploy/install-packages.sh", fake / "list"], capture_output=True, text=True, timeout=60, check=False,
                              env={"PATH": "%s:%s" % (fake, os.environ["PATH"]), "FAIL": fail})
        assert done.returncode == code, done
        assert done.stderr.splitlines() == ["installing 2 packages: one two", "packages: unpacked and set up 50 %"], done.stderr


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def main():
    install = str(ROOT / "deploy/install.sh")
    with tempfile.TemporaryDirectory() as scratch:
        progress_is_shown(scratch)
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
        # What it starts asks more often, by the settings beside it, where the machine and the user have none.
        for own, expected in ((None, str(prefix.resolve() / "share/rankscope/libkineto.conf")), ("/their/own.conf", "/their/own.conf")):
            words = {name: value for name, value in env.items() if name != "KINETO_CONFIG"} | ({"KINETO_CONFIG": own} if own else {})
            said = run(str(prefix / "bin/rankscope"), "run", "--", "env", env=words)
            told = [line.partition("=")[2] for line in said.splitlines() if line.startswith("KINETO_CONFIG=")]
            assert told == [expected] or (not own and os.path.exists("/etc/libkineto.conf") and not told), f"KINETO_CONFIG: {told}, not {expected}"
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
