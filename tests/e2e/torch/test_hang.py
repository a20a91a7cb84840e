#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real PyTorch jobs of four gloo ranks hang in every way that they can, and one does not: who is named, live and from dumps.

PyTorch is the one of test_torch.py; without it the test is skipped (77).
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

PROGRAM = os.path.abspath(os.environ["RANKSCOPE"])
HERE = os.path.dirname(os.path.abspath(__file__))
VENV = os.environ.get("RANKSCOPE_TORCH_VENV") or os.path.expanduser("~/.cache/rankscope/torch-2.15.0")
WORLD = 4
MIN_WAIT_S = 3

# mode: (kind and ranks live, the same from dumps); None: nobody is named
CASES = {
    "healthy": (None, None),
    "absent": (("hang", [3]), ("hang", [3])),
    "size": (("mismatch", [0]), ("mismatch", [0])),
    "order": (("deadlock", [2]), ("deadlock", [2])),
    "loop": (("hang", [2]), ("silent_rank", [2])),  # its loop never lets a thread of its own write the dump
}


def until(condition, what, limit=300):
    end = time.monotonic() + limit
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(f"FAILED: {what}")
        time.sleep(0.1)


class Job:
    def __init__(self, mode, port, more=None):
        self.folder = tempfile.mkdtemp(prefix="rs-hang-")
        os.mkdir(os.path.join(self.folder, "dumps"))
        self.run = f"hang-{mode}-{port}"
        environment = dict(os.environ, OMP_NUM_THREADS="1", RANKSCOPE_RUN=self.run,
                           TORCH_FR_DUMP_TEMP_FILE=os.path.join(self.folder, "dumps", "trace_rank_"), **(more or {}))
        self.log = open(os.path.join(self.folder, "log"), "w", encoding="utf-8")
        self.ranks = [subprocess.Popen(
            [os.path.join(VENV, "bin", "python"), os.path.join(HERE, "hang_job.py"), mode, self.folder],
            env=dict(environment, RANK=str(r), WORLD_SIZE=str(WORLD), LOCAL_RANK=str(r), MASTER_ADDR="127.0.0.1",
                     MASTER_PORT=str(port)), stdout=self.log, stderr=self.log) for r in range(WORLD)]
        until(lambda: all(os.path.exists(os.path.join(self.folder, f"ready{r}")) for r in range(WORLD)), f"{mode} did not start")
        self.since = time.monotonic()

    def wait_long_enough(self):
        until(lambda: time.monotonic() > self.since + MIN_WAIT_S + 1, "")

    def write_dumps(self, count):
        with open(os.path.join(self.folder, "dump"), "w", encoding="utf-8"):
            pass
        dumps = os.path.join(self.folder, "dumps")
        until(lambda: len([n for n in os.listdir(dumps) if not n.endswith(".part")]) >= count, "dumps were not written")
        return dumps

    def kill(self):
        for rank in self.ranks:
            rank.kill()
        for rank in self.ranks:
            rank.wait()

    def stop(self):
        self.kill()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class Cluster:
    """An aggregator and the collector of this node, on sockets of their own."""

    def __init__(self, *options):
        self.folder = tempfile.mkdtemp(prefix="rs-hc-")
        self.socket = f"unix:{self.folder}/a.sock"
        self.log = open(os.path.join(self.folder, "log"), "w+", encoding="utf-8")
        environment = dict(os.environ, RANKSCOPE_RUNTIME_DIR=self.folder)
        self.parts = []
        for words in (["aggregator", "--listen", self.socket, "--data", f"{self.folder}/data", *options],
                      ["collector", "--connect", self.socket, "--spool", f"{self.folder}/spool", "--no-kineto", "-v"]):
            self.parts.append(subprocess.Popen([PROGRAM, *words], env=environment, stdout=self.log, stderr=self.log))
        until(self.is_up, "the collector did not reach the aggregator")

    def is_up(self):
        """The question is refused as long as no collector is there."""
        done = self.run("hang", "--run", "nobody")
        return done.returncode == 2 and "nodes that were asked" in done.stderr

    def run(self, *words):
        return subprocess.run([PROGRAM, *words, "--connect", self.socket], capture_output=True, text=True, timeout=120, check=False)

    def stop(self):
        for part in reversed(self.parts):
            part.terminate()
        for part in reversed(self.parts):
            part.wait()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def judge(*words):
    done = subprocess.run([PROGRAM, "hang", "--json", "--min-wait", f"{MIN_WAIT_S}s", *words], capture_output=True, text=True,
                          timeout=60, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(f"FAILED: rankscope hang {' '.join(words)}: exit {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout)


def judge_cluster(cluster, run):
    """Asked over the aggregator; kept there, and told again by `report` with the same bytes and the exit code for a threshold."""
    done = cluster.run("hang", "--json", "--run", run)
    if done.returncode not in (0, 1) or "kept as capture " not in done.stderr:
        raise SystemExit(f"FAILED: hang --run: exit {done.returncode}\n{done.stdout}{done.stderr}")
    report = json.loads(done.stdout)
    name = done.stderr.split("kept as capture ")[1].split()[0]
    again = cluster.run("report", name, "--json", "--fail-above", "5%")
    hung = report["state"] == "hung"
    if again.stdout != done.stdout or (again.returncode == 5) != hung:
        raise SystemExit(f"FAILED: report {name}: exit {again.returncode}\n{again.stdout}{again.stderr}")
    listed = cluster.run("capture", "show", name, "--json")
    shown = json.loads(listed.stdout)
    if shown["source"] != "flight" or shown["run"] != run or shown["state"] not in ("complete", "partial"):
        raise SystemExit(f"FAILED: capture show {name}: {listed.stdout}{listed.stderr}")
    return report


def named(report):
    if not report["findings"]:
        return None
    finding = report["findings"][0]
    where = finding["where"]
    return finding["kind"], where.get("ranks") or [where.get("rank")]


def check(mode, how, report, want):
    got = named(report)
    print(f"{mode:8} {how:5} {report['state']:10} {got or 'nobody'}")
    if got != want:
        raise SystemExit(f"FAILED: {mode} {how}: {got}, wanted {want}\n{json.dumps(report, indent=1)[:4000]}")


def stacks_of(report):
    return " ".join(e.get("name", "") for f in report["findings"] for e in f["evidence"] if e["type"] == "stack")


def killed(port, cluster):
    """gloo tells the neighbours of a rank that dies, and their calls end with an error: who is left waits, and nobody who lives
    is accused."""
    job = Job("killed", port)
    try:
        job.wait_long_enough()
        os.kill(job.ranks[1].pid, signal.SIGKILL)
        job.ranks[1].wait()
        until(lambda: time.monotonic() > job.since + 2 * MIN_WAIT_S + 2, "")
        report = judge_cluster(cluster, job.run)
        got = named(report)
        print(f"killed   asked {report['state']:10} {got or 'nobody'}")
        # All calls ended, if only with an error: nobody waits. Who is missing is said.
        if got not in (None, ("silent_rank", [1])) or report["coverage"]["silent_ranks"] != [1]:
            raise SystemExit(f"FAILED: killed: {got}\n{json.dumps(report, indent=1)[:3000]}")
        text = " ".join(cluster.run("hang", "--run", job.run).stdout.split())
        if got is None and "Of rank 1 there is nothing" not in text:
            raise SystemExit(f"FAILED: killed: the report does not say who is missing\n{text}")
    finally:
        job.stop()


def watched(port, cluster):
    """A dump appears: the job is asked before anybody kills it, once, and the verdict is kept."""
    job = Job("absent", port)
    try:
        watch = subprocess.Popen([PROGRAM, "hang", "--watch", "--incidents", "1", "--run", job.run, "--json", "--fail-if-hung",
                                  "--connect", cluster.socket], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        job.wait_long_enough()
        if watch.poll() is not None:
            raise SystemExit(f"FAILED: the watch ended before anything happened\n{watch.communicate()[1]}")
        job.write_dumps(1)
        out, said = watch.communicate(timeout=120)
        report = json.loads(out)
        print(f"watched  asked {report['state']:10} {named(report)}: {said.splitlines()[0]}")
        if named(report) != ("hang", [3]) or watch.returncode != 5 or "wrote a flight recorder dump" not in said:
            raise SystemExit(f"FAILED: watched: exit {watch.returncode}\n{out}{said}")
        listed = json.loads(cluster.run("capture", "list", "--json", "--run", job.run).stdout)
        if len(listed["captures"] if isinstance(listed, dict) else listed) != 1:
            raise SystemExit(f"FAILED: one incident is one capture: {listed}")
    finally:
        job.stop()


def main():
    if not os.path.exists(os.path.join(VENV, "bin", "python")):
        print(f"hang: skipped, no PyTorch in {VENV} (see test_torch.py)")
        sys.exit(77)
    port = 28000 + os.getpid() % 1000
    cluster = Cluster()
    try:
        all_cases(port, cluster)
    finally:
        cluster.stop()


def all_cases(port, cluster):
    for number, (mode, (live, offline)) in enumerate(CASES.items()):
        job = Job(mode, port + number)
        try:
            job.wait_long_enough()
            begin = time.monotonic()
            report = judge("--local", "--run", job.run)
            took = time.monotonic() - begin
            check(mode, "live", report, live)
            check(mode, "asked", judge_cluster(cluster, job.run), live)
            if took > 5:
                print(f"{mode}: asking four ranks took {took:.1f} s")
            if mode == "loop" and "endless" not in stacks_of(report):
                raise SystemExit(f"FAILED: the loop is not in the stacks: {stacks_of(report)}")
            job.write_dumps(sum(r.poll() is None for r in job.ranks) - (mode == "loop"))
            check(mode, "dumps", judge(os.path.join(job.folder, "dumps")), offline)
        finally:
            job.stop()
    killed(port + len(CASES), cluster)
    watched(port + len(CASES) + 1, cluster)


if __name__ == "__main__":
    main()
