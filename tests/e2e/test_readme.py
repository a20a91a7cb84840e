#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What README.md and docs/*.md show is what happens.

Blocks marked `sh` are typed line by line in a shell, in order, in a folder of the test's own beside a link to docs/;
every line has to end with 0. `sh live` needs PyTorch (as tests/e2e/torch has it), with its script as train.py; `sh install`
changes the system and is typed by tests/bare.sh. The block `report` is the beginning of what the example prints.
Blocks marked `ini` are read as settings files. Other marks than these (`text`: for people, no mark: drawings, commands of a
developer that CI runs by name) are not executed, and each of them is listed here, so that none comes in unseen.

    tests/e2e/test_readme.py --update     writes the report into README.md as the program prints it now
"""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ["RANKSCOPE_BUILD"])
TORCHRUN = pathlib.Path(os.path.expanduser(os.environ.get("RANKSCOPE_TORCH_VENV", "~/.cache/rankscope/torch-2.15.0"))) / "bin/torchrun"
MARKS = {"sh", "sh live", "sh install", "report", "ini", "text", ""}
REPORT_EXAMPLE = "docs/examples/slow-loader"
failures = []


def check(is_right, sentence):
    if not is_right:
        failures.append(sentence)
        print("FAILED:", sentence)


def blocks(path):
    for match in re.finditer(r"^```([^\n]*)\n(.*?)^```$", path.read_text(), re.M | re.S):
        yield match.group(1).strip(), match.group(2)


def type_lines(lines, folder, env, title):
    """One shell for all lines, as a reader has; the first line that fails is named. Jobs in the background are ended with it."""
    # The job's output is a file, so that "once it trains" can be waited for as a reader would.
    typed = [line.replace("train.py &", "train.py >job.log 2>&1 &") for line in lines]
    typed = [("until grep -q 'step 50 ' job.log; do sleep 0.2; done; " if "once it trains" in line else "") + line for line in typed]
    script = "set -u\n" + "".join(
        f"{line}\n" + ("" if "&" in line.split("#")[0].rstrip()[-1:] else f"code=$?; [ $code = 0 ] || {{ echo \"LINE {number} exit $code\" >&2; exit 1; }}\n")
        for number, line in enumerate(typed, 1))
    shell = subprocess.Popen(["bash", "-c", script], cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             text=True, start_new_session=True)
    try:
        # The daemons keep the pipe open: the shell's own end is what counts.
        with tempfile.TemporaryFile("w+") as log:
            import threading
            reader = threading.Thread(target=lambda: log.write(shell.stdout.read()), daemon=True)
            reader.start()
            code = shell.wait(600)
            os.killpg(shell.pid, signal.SIGTERM)
            reader.join(30)
            log.seek(0)
            text = log.read()
    except ProcessLookupError:
        text = ""
    place = re.search(r"LINE (\d+) exit \d+", text)
    what = f"{place.group(0)}: {lines[int(place.group(1)) - 1]}\n{text[:place.start()][-2500:]}" if place else text[-2500:]
    check(code == 0, f"{title}: exit {code}: {what}")
    return text


def printed_report(folder, env):
    done = subprocess.run(["rankscope", "analyse", REPORT_EXAMPLE], env=env, cwd=folder, capture_output=True, text=True, timeout=60)
    check(done.returncode == 0, f"the example of the report: exit {done.returncode}: {done.stderr}")
    return done.stdout


def update():
    env = {**os.environ, "PATH": f"{BUILD}:{os.environ['PATH']}", "RANKSCOPE_CONFIG": ""}
    text = printed_report(ROOT, env).split("\nSLOWEST LINKS")[0]
    path = ROOT / "README.md"
    path.write_text(re.sub(r"(?<=```report\n).*?(?=^```$)", lambda _: text, path.read_text(), count=1, flags=re.M | re.S))


def main():
    env = {key: value for key, value in os.environ.items() if not key.startswith("RANKSCOPE")}
    with tempfile.TemporaryDirectory(prefix="rs-readme-", dir="/tmp") as scratch:
        folder = pathlib.Path(scratch)
        (folder / "docs").symlink_to(ROOT / "docs")
        (folder / "train.py").symlink_to(ROOT / "tests/e2e/torch/train_ddp.py")
        (folder / "home").mkdir()
        os.mkdir(folder / "run", 0o700)
        env.update(HOME=str(folder / "home"), XDG_STATE_HOME=str(folder / "state"), RANKSCOPE_RUNTIME_DIR=str(folder / "run"),
                   RANKSCOPE_DATA=str(folder / "data"), RANKSCOPE_SPOOL=str(folder / "spool"), RANKSCOPE_CONFIG="", OMP_NUM_THREADS="1",
                   PATH=f"{BUILD}:{TORCHRUN.parent}:{os.environ['PATH']}")
        env.pop("XDG_CONFIG_HOME", None)
        has_torch = TORCHRUN.exists()
        executed = skipped = 0
        for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
            for mark, text in blocks(path):
                title = f"{path.relative_to(ROOT)}, block `{mark}`"
                check(mark in MARKS, f"{title}: this mark is not known")
                lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
                if mark == "sh" or (mark == "sh live" and has_torch):
                    type_lines(lines, folder, env, title)
                    executed += 1
                elif mark == "sh live":
                    skipped += 1
                elif mark == "ini":
                    (folder / "a.conf").write_text(text)
                    done = subprocess.run(["rankscope", "config", "show"], env={**env, "RANKSCOPE_CONFIG": str(folder / "a.conf")},
                                          capture_output=True, text=True, timeout=60)
                    check(done.returncode == 0 and "a.conf" in done.stdout, f"{title}: {done.stdout}{done.stderr}")
                    executed += 1
                elif mark == "report":
                    now = printed_report(folder, env)
                    check(now.startswith(text), f"{title}: it prints something else (--update):\n{now[:len(text)]}")
                    executed += 1
        length = len((ROOT / "README.md").read_text().splitlines())
        check(length <= 120, f"README.md has {length} lines; more than 120 nobody reads")
    print(f"{executed} blocks executed, {skipped} skipped, {len(failures)} failed")
    if failures:
        return 1
    if skipped:
        print(f"skipped: no PyTorch in {TORCHRUN.parent.parent}: the live job was not tried")
        return 77
    return 0


def in_a_namespace():
    """`doctor` and collectors look at all processes of a machine: the reader's machine has no other jobs. Needs root, without it they are seen."""
    unshare = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    is_possible = shutil.which("unshare") and subprocess.run([*unshare, "true"], capture_output=True, timeout=60).returncode == 0
    if is_possible and "RANKSCOPE_README_ALONE" not in os.environ:
        os.execvpe(unshare[0], [*unshare, sys.executable, *sys.argv], {**os.environ, "RANKSCOPE_README_ALONE": "1"})


if sys.argv[1:] == ["--update"]:
    sys.exit(update())
in_a_namespace()
sys.exit(main())
