#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A job under Slurm: two nodes (two slurmd on this machine), the scripts of deploy/slurm as Prolog, Epilog and TaskProlog.

The job belongs to a user without rights and says nothing of itself: run, ranks and hosts come from what Slurm sets. A collector of
root starts with the first job of a node and ends with the last one. Links are TLS with a certificate for each node.
"""
import json
import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import unittest_run

PROGRAM = os.path.abspath(os.environ.get("RANKSCOPE", "build/dev/rankscope"))
TASK = os.path.join(os.path.abspath(os.environ.get("RANKSCOPE_BUILD", "build/dev")), "slurm_rank")
SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../deploy/slurm")
NEEDED = ("slurmctld", "slurmd", "srun", "munged", "setsid", "flock")
USER = "daemon"

PATH = os.environ["PATH"] + ":/usr/sbin"
if os.geteuid() != 0:
    print("skipped: root plays two nodes")
    sys.exit(77)
if not all(shutil.which(name, path=PATH) for name in NEEDED):
    print("skipped: there is no Slurm (slurmd slurmctld slurm-client munge)")
    sys.exit(77)

CONFIG = """
ClusterName=rankscope-test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/sock
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/slurmd-%n
SlurmctldPidFile={folder}/ctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/ctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/linear
ReturnToService=2
Prolog={folder}/prolog.sh
Epilog={folder}/epilog.sh
TaskProlog={folder}/task-prolog.sh
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=2
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=2
PartitionName=all Nodes=n[1-2] Default=YES MaxTime=10 State=UP OverSubscribe=NO
"""

# On a real node these are the defaults; two nodes on one machine share nothing but the program.
SETTINGS = """
RANKSCOPE={folder}/rankscope
RANKSCOPE_RUNTIME_DIR={folder}/run-$SLURMD_NODENAME
RANKSCOPE_SLURM_STATE={folder}/jobs
RANKSCOPE_SLURM_LOG={folder}/collector-$SLURMD_NODENAME.log
RANKSCOPE_SLURM_COLLECTOR="--connect {address} --certs {folder}/$SLURMD_NODENAME --spool {folder}/spool-$SLURMD_NODENAME --no-kineto
    --no-ascend --no-mindspore -v"
"""


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Slurm(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="rs-slurm-")
        os.chmod(self.folder, 0o755)
        for name in ("state", "munge"):
            os.mkdir(self.path(name), 0o755)
        for source in (PROGRAM, TASK):
            shutil.copy(source, self.folder)
        for name in ("prolog.sh", "epilog.sh", "task-prolog.sh"):  # slurmd gives them no environment of ours
            shutil.copy(os.path.join(SCRIPTS, name), self.path("the-" + name))
            self.write(name, f"#!/bin/sh\nexport RANKSCOPE_SLURM_ENV={self.path('slurm.env')} RANKSCOPE_CONFIG=\n"
                       f"exec {self.path('the-' + name)}\n", 0o755)
        self.processes = []
        self.environment = {"PATH": PATH, "LC_ALL": "C", "HOME": self.folder, "RANKSCOPE_CONFIG": "",
                            "SLURM_CONF": self.path("slurm.conf"), "RANKSCOPE_RUNTIME_DIR": self.folder,
                            "RANKSCOPE_SLURM_ENV": self.path("slurm.env"), "RANKSCOPE_WAIT": "raw"}
        self.start_aggregator()
        self.start_slurm()

    def tearDown(self):
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            try:
                process.wait(120)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout:
                process.stdout.close()
        if self._outcome.success:
            shutil.rmtree(self.folder)
        else:
            print("what was said is in", self.folder, file=sys.stderr)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text, mode=0o644):
        with open(os.open(self.path(name), os.O_WRONLY | os.O_CREAT, mode), "w", encoding="utf-8") as file:
            file.write(text)

    def start(self, name, *words, **pipes):
        with open(self.path(name + ".out"), "ab") as log:
            process = subprocess.Popen(words, env=self.environment, stderr=log, stdin=subprocess.DEVNULL,
                                       **{"stdout": log, **pipes})
        self.processes.append(process)
        return process

    def run_it(self, *words, code=0):
        done = subprocess.run([PROGRAM, *words], env=self.environment, capture_output=True, text=True, timeout=120, check=False)
        if code is not None:
            self.assertEqual(done.returncode, code, (words, done.stdout, done.stderr))
        return done.stdout

    def wait_for(self, is_it, what, seconds=300):
        until = time.monotonic() + seconds
        while not is_it():
            self.assertLess(time.monotonic(), until, "never: " + what)
            time.sleep(0.2)

    def start_aggregator(self):
        data = self.path("data")
        self.run_it("certs", "init", "--data", data)
        for node in ("n1", "n2"):
            self.run_it("certs", "issue", "node", node, "--out", self.path(node), "--data", data)
        aggregator = self.start("aggregator", PROGRAM, "aggregator", "--data", data, "--listen", "127.0.0.1:0", "--listen",
                                "unix:" + self.path("aggregator.sock"), "--users", "-v", stdout=subprocess.PIPE, text=True)
        self.address = aggregator.stdout.readline().split()[-1]
        aggregator.stdout.readline()

    def start_slurm(self):
        with open(os.open(self.path("munge/key"), os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
            file.write(os.urandom(1024))
        self.write("slurm.conf", CONFIG.format(folder=self.folder, host=socket.gethostname().split(".")[0], ports=free_ports(3)))
        self.write("slurm.env", SETTINGS.format(folder=self.folder, address=self.address))
        self.start("munged", "munged", "--foreground", "--force", "--key-file=" + self.path("munge/key"), "--socket=" +
                   self.path("munge/sock"), "--pid-file=" + self.path("munge/pid"), "--log-file=" + self.path("munge/log"),
                   "--seed-file=" + self.path("munge/seed"))
        self.wait_for(lambda: os.path.exists(self.path("munge/sock")), "munge is there")
        self.start("slurmctld", "slurmctld", "-D", "-f", self.path("slurm.conf"))
        for node in ("n1", "n2"):
            self.start("slurmd-" + node, "slurmd", "-D", "-N", node, "-f", self.path("slurm.conf"))

        def idle():
            done = subprocess.run(["sinfo", "-h", "-o", "%D %t"], env=self.environment, capture_output=True, text=True, check=False)
            return done.stdout.split() == ["2", "idle"]
        self.wait_for(idle, "both nodes are idle")

    def counters(self):
        daemons = json.loads(self.run_it("counters", "--json"))["daemons"]
        return next(daemon["counters"] for daemon in daemons if daemon["daemon"] == "aggregator")

    def test_a_job_of_two_nodes(self):
        user = pwd.getpwnam(USER)
        self.assertEqual(self.counters()["server.collectors"], 0)
        job = subprocess.Popen(["srun", "-N2", "-n4", "--export=ALL", "--chdir=/", self.path("slurm_rank"), "--seconds", "60"],
                               env={**self.environment, "USER": USER}, user=user.pw_uid, group=user.pw_gid, extra_groups=[],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.processes.append(job)
        def ranks():
            said = self.run_it("ranks", "--json", code=None)
            return json.loads(said)["ranks"] if said.strip() else []
        self.wait_for(lambda: len(ranks()) == 4, "four ranks are seen")
        seen = ranks()
        self.assertEqual(sorted(rank["rank"] for rank in seen), [0, 1, 2, 3])
        self.assertEqual({(rank["world"], rank["user"]) for rank in seen}, {(4, USER)})
        self.assertEqual({(rank["rank"] // 2, rank["host"], rank["node"]) for rank in seen}, {(0, "n1", "n1"), (1, "n2", "n2")})
        run = {rank["run"] for rank in seen}
        self.assertEqual(len(run), 1)
        self.assertTrue(run.pop().isdecimal())  # SLURM_JOB_ID
        # the job's own user captures it, over the socket that is for users
        done = subprocess.run([self.path("rankscope"), "capture", "--steps", "3", "--json"], env=self.environment,
                              user=user.pw_uid, group=user.pw_gid, extra_groups=[], capture_output=True, text=True, timeout=120,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        shown = json.loads(self.run_it("capture", "list", "--json"))["captures"][0]
        self.assertEqual((shown["state"], shown["owner"], [rank["steps_done"] for rank in shown["ranks"]]),
                         ("complete", USER, [3] * 4))
        # what the task prolog sets
        done = subprocess.run(["srun", "--overlap", "-N1", "--jobid", shown["run"], "--chdir=/", "env"],
                              env={**self.environment, "USER": USER}, user=user.pw_uid, group=user.pw_gid, extra_groups=[],
                              capture_output=True, text=True, timeout=60, check=False)
        self.assertIn("KINETO_USE_DAEMON=1\n", done.stdout, done.stderr)
        subprocess.run(["scancel", shown["run"]], env=self.environment, check=True)
        job.wait(60)
        self.wait_for(lambda: self.counters()["server.collectors"] == 0, "the collectors have ended with the job")


# Slurm looks its addresses up as the C library has it, and that gives none of IPv4, 127.0.0.1 included, where no interface but lo has
# one: there the nodes are played behind a link of their own.
NETWORK = """ip link set lo up && ip link add rs-slurm0 type veth peer name rs-slurm1 && ip address add 192.0.2.1/24 dev rs-slurm0 &&
ip link set rs-slurm1 up && ip link set rs-slurm0 up && exec "$@\""""


def has_address():
    done = subprocess.run(["ip", "-4", "-o", "address", "show", "scope", "global"], capture_output=True, text=True, check=False)
    return done.returncode != 0 or bool(done.stdout.strip())


if __name__ == "__main__":
    if not has_address():
        os.execvp("unshare", ["unshare", "--net", "sh", "-c", NETWORK, "sh", sys.executable, *sys.argv])
    unittest_run.main()
