#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Settings files, `config show`, completion and man pages, as a user meets them.

Order of sources (contracts section 2): the command line, RANKSCOPE_*, the files, the default. Slips are said with the
nearest word there is. Completion is run by the real shells where they are installed (bash always is).
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

PROGRAM = os.environ["RANKSCOPE"]
failures = 0


def run(*words, env=None, expect=0):
    full = {key: value for key, value in os.environ.items() if not key.startswith("RANKSCOPE_")}
    full.update(env or {})
    done = subprocess.run([PROGRAM, *words], env=full, capture_output=True, text=True, timeout=60)
    check(done.returncode == expect, f"rankscope {' '.join(words)}: exit {done.returncode}, expected {expect}: {done.stderr.strip()}")
    return done


def check(is_right, sentence):
    global failures
    if not is_right:
        failures += 1
        print("FAILED:", sentence)


def shown(env, verb):
    rows = json.loads(run("config", "show", "--all", "--json", verb, env=env).stdout)
    return {row["option"]: (row["value"], row["source"]) for row in rows}


def sources(folder):
    settings = folder / "one.conf"
    settings.write_text("[common]\nconnect = unix:/a\n[collector]\nspool-bytes = 2MiB\nverbose = yes\nrank-from = a, b*\nnode=n1\n")
    env = {"RANKSCOPE_CONFIG": str(settings)}
    values = shown(env, "collector")
    check(values["connect"] == ("unix:/a", str(settings)), f"connect from [common]: {values['connect']}")
    check(values["spool-bytes"] == ("2097152", str(settings)), f"spool-bytes: {values['spool-bytes']}")
    check(values["verbose"] == ("yes", str(settings)), f"verbose: {values['verbose']}")
    check(values["rank-from"] == ("a, b*", str(settings)), f"rank-from: {values['rank-from']}")
    check(values["quiet"] == ("no", "default"), f"quiet: {values['quiet']}")
    values = shown({**env, "RANKSCOPE_CONNECT": "unix:/b"}, "collector")
    check(values["connect"] == ("unix:/b", "RANKSCOPE_CONNECT"), f"the environment counts over a file: {values['connect']}")
    # The command line counts over all: an address that nobody serves is the one that is complained of.
    said = run("ranks", "--connect", f"unix:{folder}/c.sock", env=env, expect=4).stderr
    check(f"{folder}/c.sock" in said, f"the option counts over a file: {said}")
    settings.write_text("[common]\nconnect = unix:/a\n[ranks]\nconnect = unix:/own\n")
    check(shown(env, "ranks")["connect"][0] == "unix:/own", "a verb's own section counts over [common]")


def folders(folder):
    home = folder / "home"
    (home / ".config/rankscope").mkdir(parents=True)
    (home / ".config/rankscope/10.conf").write_text("[ranks]\nconnect = unix:/first\n")
    (home / ".config/rankscope/20.conf").write_text("[ranks]\nconnect = unix:/second\n")
    env = {"HOME": str(home), "XDG_CONFIG_HOME": ""}
    check(shown(env, "ranks")["connect"][0] == "unix:/second", "files count by name, the later one more")
    check(shown({**env, "RANKSCOPE_CONFIG": ""}, "ranks")["connect"][1] == "default", "RANKSCOPE_CONFIG= reads none")


def slips(folder):
    settings = folder / "slip.conf"
    env = {"RANKSCOPE_CONFIG": str(settings)}
    cases = [
        ("[collector]\nspol = /x\n", ["collector"], 'did you mean "spool"'),
        ("[collector]\nspool-bytes = many\n", ["collector"], "wants a size"),
        ("[collector]\nverbose = perhaps\n", ["collector"], "wants yes or no"),
        ("[collector\nspool = /x\n", ["collector"], "line 1"),
        ("spool = /x\n", ["collector"], "before the first [section]"),
        ("[colector]\nspool = /x\n", ["config", "show"], 'did you mean "collector"'),
    ]
    for text, words, expected in cases:
        settings.write_text(text)
        said = run(*words, env=env, expect=2).stderr
        check(expected in said and str(settings) in said, f"{text!r}: {said!r} lacks {expected!r} or the file")
    run("ranks", env={"RANKSCOPE_CONFIG": str(folder / "absent.conf")}, expect=2)
    os.mkfifo(folder / "fifo.conf")
    run("ranks", env={"RANKSCOPE_CONFIG": str(folder / "fifo.conf")}, expect=2)
    for words, expected in [(["captur"], '"capture"'), (["capture", "--stepz", "3"], "--steps"), (["config", "sho"], "show")]:
        said = run(*words, env={"RANKSCOPE_CONFIG": ""}, expect=2).stderr
        check(expected in said, f"{words}: {said!r} lacks {expected}")


def texts(folder):
    out = folder / "texts"
    run("completion", "--all", str(out), env={"RANKSCOPE_CONFIG": ""})
    # The settings file with every line uncommented is understood, but for the words that stand for values.
    lines = (out / "rankscope.conf").read_text().splitlines()
    check(any(line.startswith("#spool = ") for line in lines), "the settings file names --spool")
    check((out / "man1/rankscope-capture.1").read_text().startswith('.TH "RANKSCOPE-CAPTURE" 1'), "a man page for capture")
    for verb in run("--help", env={"RANKSCOPE_CONFIG": ""}).stdout.split("verbs:\n")[1].split("\n\n")[0].splitlines():
        name = verb.split()[0]
        pages = list((out / "man1").glob(f"rankscope-{name}*.1"))
        check(pages, f"no man page for {name}")
    complete = f"""
        source {out}/rankscope.bash
        ask() {{ COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _rankscope; echo "${{COMPREPLY[*]}}"; }}
        ask rankscope capt
        ask rankscope capture --ste
        ask rankscope config show --al
        ask rankscope capture li"""
    done = subprocess.run(["bash", "-c", complete], capture_output=True, text=True, timeout=60, cwd=folder)
    check(done.stdout.splitlines() == ["capture", "--steps", "--all", "list"], f"bash completes: {done.stdout!r} {done.stderr!r}")
    if shutil.which("man"):
        page = subprocess.run(["man", "--warnings", "-l", str(out / "man1/rankscope-collector.1")], capture_output=True, text=True, timeout=60)
        check(page.returncode == 0 and not page.stderr.strip() and "--spool-bytes" in page.stdout.replace("\b", ""), f"man: {page.stderr}")
    for shell in ("zsh", "fish"):
        if shutil.which(shell):
            done = subprocess.run([shell, "-n", str(out / f"rankscope.{shell}")], capture_output=True, text=True, timeout=60)
            check(done.returncode == 0, f"{shell} -n: {done.stderr}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        for part in (sources, folders, slips, texts):
            part(pathlib.Path(folder))
    print("failed:" if failures else "ok:", failures or "settings, config show, completion, man pages")
    return 1 if failures else 0


sys.exit(main())
