#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""rankscope doctor, looked at from all sides: what it says of processes that look like PyTorch's, torch_npu's and MindSpore's.

A good rank; one without the variable; one with an old PyTorch (a faked version); one in another network namespace; one that
may not write where the collector wants it; a launcher; a data loader; ranks whose socket nobody, or another daemon, serves;
a torch_npu rank without PROF_CONFIG_PATH and one with it; a MindSpore process without a monitor. Each is named with the one reason
that holds, in JSON and in words, and the exit code is 0 only when every rank can be captured. Whom it calls attachable is whom `ranks` says can be
captured. Changes nothing.
"""
import json
import os
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from test_kineto_clients import CLIENT, PROGRAM, Rig, check  # noqa: E402

LIBRARIES = {"torch": "libtorch_cpu.so", "torch_npu": "libtorch_npu.so", "mindspore": "libmindspore_core.so"}


def fake(rig, version, *frameworks):
    """A folder that looks like site-packages with these frameworks."""
    folder = os.path.join(rig.folder, f"site-{version}-{'-'.join(frameworks)}")
    if not os.path.isdir(folder):
        os.makedirs(os.path.join(folder, "torch/lib"))
        os.mkdir(os.path.join(folder, f"torch-{version}.dist-info"))
        for name in frameworks:
            with open(os.path.join(folder, "torch/lib", LIBRARIES[name]), "wb") as file:
                file.write(b"x" * 4096)
    return folder


class Patients:
    def __init__(self, rig):
        self.rig = rig
        self.common = dict(rig.environment, RANKSCOPE_RUN="doctor", WORLD_SIZE="12")
        self.attachable = dict(self.common, KINETO_USE_DAEMON="1", KINETO_IPC_SOCKET_DIR=rig.sockets)
        self.count = 0

    def add(self, environment, folder, prefix=(), options=(), asks=False):
        """asks: its profiler asks for work, as in every process that can be captured."""
        libraries = ["--libraries", os.path.join(folder, "torch/lib")] if asks else ["--torch", folder]
        self.rig.clients.append(subprocess.Popen([*prefix, sys.executable, CLIENT, *libraries, *options], env=environment))
        self.count += 1


def look(rig, count, *words):
    """(JSON of the run, exit code), when so many processes are there."""
    words = [PROGRAM, "doctor", "--trace-dir", rig.traces, *words]
    until = time.monotonic() + 10
    while True:
        done = subprocess.run([*words, "--json"], capture_output=True, text=True, check=False, env=rig.environment)
        report = json.loads(done.stdout)
        mine = [process for process in report["processes"] if process["run"] == "doctor"]
        if len(mine) == count or time.monotonic() > until:
            break
        time.sleep(0.2)
    check(len(mine) == count, f"{len(mine)} of {count} processes are seen: {json.dumps(mine, indent=1)}")
    while True:  # it looks at every process of the machine: what came or went between two looks is no difference of the forms
        text = subprocess.run(words, capture_output=True, text=True, check=False, env=rig.environment)
        again = subprocess.run([*words, "--json"], capture_output=True, text=True, check=False, env=rig.environment)
        is_same, done = again.returncode == done.returncode, again
        if is_same or time.monotonic() > until + 60:
            break
    report = json.loads(done.stdout)
    mine = [process for process in report["processes"] if process["run"] == "doctor"]
    check(text.returncode == done.returncode, "the exit code depends on the form")
    print(text.stdout)
    return report, mine, done.returncode


def agrees(rig, mine):
    """Whom doctor calls attachable can be captured, by the aggregator's word, and of the others none. Those whose profiler only sleeps are left out."""
    sleeping = {client.pid for client in rig.clients if "--torch" in client.args}
    wanted = {process["pid"] for process in mine if process["is_rank"] and process["attachable"]} - sleeping
    until = time.monotonic() + 60
    while True:
        ranks = json.loads(rig.ask("ranks", "--run", "doctor", "--json", codes=(0, 1, 2, 3)).stdout or '{"ranks": []}')["ranks"]
        live = {rank["pid"] for rank in ranks if rank["can_capture"] and rank["state"] != "gone"}
        if live >= wanted or time.monotonic() > until:
            break
        time.sleep(0.2)
    here = {process["pid"] for process in mine}
    check(wanted and live & here == wanted, f"doctor: {sorted(wanted)}; ranks that can be captured: {sorted(live & here)}")


def one_reason(process, words):
    check(not process["attachable"] and len(process["reasons"]) == 1 and words in process["reasons"][0],
          f"not the one reason \"{words}\": {json.dumps(process, indent=1)}")


def all_kinds(rig):
    patients = Patients(rig)
    good = fake(rig, "2.15.0", "torch")
    can_unshare = subprocess.run(["unshare", "-n", "true"], capture_output=True, check=False).returncode == 0
    patients.add(dict(patients.attachable, RANK="0"), good, asks=True)
    patients.add(dict(patients.common, RANK="1", KINETO_IPC_SOCKET_DIR=rig.sockets), good)
    patients.add(dict(patients.attachable, RANK="2"), fake(rig, "1.13.1", "torch"))
    if can_unshare:
        patients.add(dict(patients.common, KINETO_USE_DAEMON="1", RANK="3"), good, ("unshare", "-n"))
    else:
        print("no second network namespace here: that case is left out")
    nobody = os.path.join(rig.folder, "nobody")
    other = os.path.join(rig.folder, "other")
    os.mkdir(nobody)
    os.mkdir(other)
    daemon = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    daemon.bind(os.path.join(other, "dynolog"))
    patients.add(dict(patients.attachable, RANK="4", KINETO_IPC_SOCKET_DIR=nobody), good)
    patients.add(dict(patients.attachable, RANK="5", KINETO_IPC_SOCKET_DIR=other), good)
    patients.add(patients.attachable, good)  # a launcher
    patients.add(dict(patients.attachable, RANK="6"), good, options=("--loader",))
    patients.count += 1  # its child
    patients.add(dict(patients.attachable, RANK="7"), fake(rig, "2.8.0", "torch"), asks=True)
    patients.add(dict(patients.common, RANK="8"), fake(rig, "2.8.0", "torch", "torch_npu"))
    patients.add(dict(patients.common, RANK="9", MINDSPORE_DUMP_CONFIG="/data/dump.json"), fake(rig, "0", "mindspore"))
    report, mine, code = look(rig, patients.count, "--kineto-socket-dir", rig.sockets)
    check(code == 1, f"exit {code}")
    ranks = {process["rank"]: process for process in mine if process["is_rank"]}
    check(sorted(ranks) == [r for r in range(10) if r != 3 or can_unshare], f"{sorted(ranks)}")
    check(ranks[0]["attachable"] and ranks[0]["reasons"] == [] and ranks[0]["notes"] == [], f"{ranks[0]}")
    one_reason(ranks[1], "KINETO_USE_DAEMON is not set")
    one_reason(ranks[2], "too old")
    if can_unshare:
        one_reason(ranks[3], "another network namespace")
    one_reason(ranks[4], "nobody answers on the profiler's socket it asks")
    one_reason(ranks[5], f"is served by process {os.getpid()} (python3")
    check(ranks[6]["attachable"], f"{ranks[6]}")
    check(ranks[7]["attachable"] and "may crash at start" in ranks[7]["notes"][0], f"{ranks[7]}")
    check(ranks[8]["framework"] == "torch_npu", f"{ranks[8]}")
    one_reason(ranks[8], "without PROF_CONFIG_PATH")
    check(ranks[9]["framework"] == "mindspore", f"{ranks[9]}")
    one_reason(ranks[9], "no DynamicProfilerMonitor")
    check("it dumps data (MINDSPORE_DUMP_CONFIG is set)" in ranks[9]["notes"][0], f"{ranks[9]}")
    others = {process["why_no_rank"].split(":")[0] for process in mine if not process["is_rank"]}
    check(others == {"a launcher, or a single process", "a data loader or helper"}, f"{others}")
    check(report["trace_folder"]["free_bytes"] > 0 and report["trace_folder"]["network_file_system"] is None, f"{report}")
    check(report["socket"]["is_collector"] and f"process {rig.collector.pid} " in report["socket"]["served_by"], f"{report}")
    check(isinstance(report["clock"]["synchronised"], bool), f"{report['clock']}")
    agrees(rig, mine)
    daemon.close()
    rig.end_clients()


def notified_by_a_file(rig):
    """Ranks that follow torch_npu's rules (light_npu): found by PROF_CONFIG_PATH, with their folder and their steps."""
    program = os.path.join(os.path.dirname(PROGRAM), "light_npu")
    if not os.path.exists(program):
        print("light_npu is not built here: that case is left out")
        return
    folder = os.path.join(rig.folder, "npu-config")
    os.mkdir(folder)
    os.chmod(folder, 0o777)
    job = subprocess.Popen([program, "--cfg", folder, "--ranks", "2", "--env"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                           env=dict(rig.environment, RANKSCOPE_RUN="doctor"), umask=0o020)
    try:
        _, mine, _ = look(rig, 2, "--kineto-socket-dir", rig.sockets)
        check([(p["rank"], p["framework"], p["config_dir"], p["attachable"]) for p in mine]
              == [(rank, "torch_npu", folder, True) for rank in range(2)], f"{mine}")
        check(all(any(f"everybody may write to {folder}" in note for note in p["notes"]) for p in mine), f"{mine}")
        check(all(any("its umask is 0020, so everybody may write" in note for note in p["notes"]) for p in mine), f"{mine}")
    finally:
        job.stdin.close()  # that ends it
        job.wait(60)


def path_rule(rig):
    """The collector wants traces outside /tmp: PyTorch since 2.15 needs KINETO_ONDEMAND_TRACE_DIR for that, older ones do not."""
    patients = Patients(rig)
    patients.add(dict(patients.attachable, RANK="0"), fake(rig, "2.15.0", "torch"))
    patients.add(dict(patients.attachable, RANK="1", KINETO_ONDEMAND_TRACE_DIR="/var/lib/traces"), fake(rig, "2.15.0", "torch"))
    patients.add(dict(patients.attachable, RANK="2"), fake(rig, "2.13.0", "torch"))
    _, mine, code = look(rig, 3, "--kineto-socket-dir", rig.sockets, "--trace-dir", "/var/lib/traces")
    check(code == 1, f"exit {code}")
    one_reason(mine[0], "KINETO_ONDEMAND_TRACE_DIR (not set)")
    check(mine[1]["attachable"] and mine[2]["attachable"], f"{mine[1:]}")
    rig.end_clients()


def open_folders(rig):
    """Folders that everybody may write to are named; a folder as the collector makes it is not."""
    loose = os.path.join(rig.folder, "loose")
    os.mkdir(loose)
    for mode, expected in ((0o711, []), (0o777, [loose])):
        os.chmod(loose, mode)
        words = [PROGRAM, "doctor", "--trace-dir", loose, "--kineto-socket-dir", rig.sockets]
        report = json.loads(subprocess.run([*words, "--json"], capture_output=True, text=True, check=False, env=rig.environment).stdout)
        check([folder for folder in report["open_folders"] if folder == loose] == expected, f"{report['open_folders']}")
    text = subprocess.run(words, capture_output=True, text=True, check=False, env=rig.environment).stdout
    check(f"everybody may write to {loose}: no collector starts with it" in text, text)


def other_daemon(rig):
    """Seen from the collector's address: another daemon, and nobody."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        words = [PROGRAM, "doctor", "--trace-dir", rig.traces, "--kineto-socket-dir", folder]
        text = subprocess.run(words, capture_output=True, text=True, check=False, env=rig.environment).stdout
        check("nobody answers; start `rankscope collector --kineto-socket-dir" in text, text)
        daemon = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        daemon.bind(os.path.join(folder, "dynolog"))
        text = subprocess.run(words, capture_output=True, text=True, check=False, env=rig.environment).stdout
        check(f"another daemon answers, process {os.getpid()} (python3" in text, text)
        print(text.splitlines()[0])
        daemon.close()


def all_good(rig):
    patients = Patients(rig)
    for rank in range(2):
        patients.add(dict(patients.attachable, RANK=str(rank), WORLD_SIZE="2"), fake(rig, "2.15.0", "torch"), asks=True)
    report, mine, code = look(rig, 2, "--kineto-socket-dir", rig.sockets)
    check(all(process["attachable"] for process in mine), f"{mine}")
    agrees(rig, mine)
    if len(report["processes"]) == 2:
        check(code == 0, f"exit {code}")
    else:
        print("other PyTorch processes run here: the exit code is theirs, too")
    rig.end_clients()


def main():
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="rs-doctor-") as folder:
        rig = Rig(folder)
        try:
            for part in (all_good, all_kinds, notified_by_a_file, path_rule, open_folders, other_daemon):
                print(f"==== {part.__name__}")
                part(rig)
        finally:
            rig.stop()


if __name__ == "__main__":
    main()
