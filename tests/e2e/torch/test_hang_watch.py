#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The aggregator's standing watch (--hang-watch) with real PyTorch jobs of four gloo ranks: nobody asks, and the incident is kept.

No rank makes a step any more; dumps appear; what belongs to the same incident is no second one; the budget holds. PyTorch is the
one of test_torch.py; without it the test is skipped (77).
"""
import json
import os
import subprocess
import sys

from test_hang import Cluster, Job, PROGRAM, VENV, named, until

LIBRARY = os.path.join(os.path.dirname(PROGRAM), "librankscope.so")


def captures(cluster, run):
    """Those that are closed."""
    listed = json.loads(cluster.run("capture", "list", "--json", "--run", run).stdout)
    listed = listed["captures"] if isinstance(listed, dict) else listed
    return [c for c in listed if c["state"] in ("complete", "partial", "failed")]


def log(cluster):
    with open(os.path.join(cluster.folder, "log"), encoding="utf-8") as file:
        return file.read()


def check(cluster, job, want, reason):
    until(lambda: captures(cluster, job.run), f"no capture of {job.run} was kept\n{log(cluster)[-3000:]}")
    found = captures(cluster, job.run)
    report = json.loads(cluster.run("report", found[0]["id"], "--json").stdout)
    print(f"{job.run}: {found[0]['id']} {report['state']} {named(report)}: {found[0]['reason']}")
    text = " ".join(cluster.run("report", found[0]["id"]).stdout.split())
    if job.ranks[3].poll() is None and f"py-spy dump --pid {job.ranks[3].pid} says" not in text:
        raise SystemExit(f"FAILED: the report does not say which process to look at\n{text}")
    if len(found) != 1 or named(report) != want or reason not in found[0]["reason"] or found[0]["source"] != "flight":
        raise SystemExit(f"FAILED: {found}\n{json.dumps(report, indent=1)[:3000]}\n{log(cluster)[-3000:]}")


def steps_of(cluster, run):
    ranks = json.loads(cluster.run("ranks", "--json").stdout)
    ranks = ranks["ranks"] if isinstance(ranks, dict) else ranks
    return [r["step"] for r in ranks if r["run"] == run and r["step"] is not None]


def until_it_trains(job, cluster):
    until(lambda: len(steps_of(cluster, job.run)) == 4 and min(steps_of(cluster, job.run)) > 50, "no steps were told")


def stall_rank_3(job):
    mark = os.path.join(job.folder, "stall")
    with open(mark, "w", encoding="utf-8"):
        pass
    return mark


def watched_by_steps(port):
    """`hang --watch`, nothing standing: no rank makes a step any more, none writes a dump by itself."""
    cluster = Cluster("-v")
    job = None
    try:
        job = Job("stall", port, {"HANG_STEPS": LIBRARY, "RANKSCOPE_RUNTIME_DIR": cluster.folder})
        watch = subprocess.Popen([PROGRAM, "hang", "--watch", "--incidents", "1", "--run", job.run, "--json", "--fail-if-hung",
                                  "--connect", cluster.socket], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        until_it_trains(job, cluster)
        stall_rank_3(job)
        out, said = watch.communicate(timeout=120)
        if named(json.loads(out)) != ("hang", [3]) or watch.returncode != 5 or "no rank has made a step for" not in said:
            raise SystemExit(f"FAILED: hang --watch by steps: exit {watch.returncode}\n{out[:2000]}{said}")
        print(f"hang --watch: {said.splitlines()[0]}")
        if len(captures(cluster, job.run)) != 1:
            raise SystemExit(f"FAILED: one incident is one capture: {captures(cluster, job.run)}")
    finally:
        if job:
            job.stop()
        cluster.stop()


def main():
    if not os.path.exists(os.path.join(VENV, "bin", "python")):
        print(f"hang-watch: skipped, no PyTorch in {VENV} (see test_torch.py)")
        sys.exit(77)
    port = 29000 + os.getpid() % 1000
    watched_by_steps(port + 3)
    cluster = Cluster("-v", "--hang-watch", "--hang-cool-down", "1s", "--hang-per-day", "3")
    jobs = []
    try:
        stall = Job("stall", port, {"HANG_STEPS": LIBRARY, "RANKSCOPE_RUNTIME_DIR": cluster.folder})
        jobs.append(stall)
        until_it_trains(stall, cluster)
        if captures(cluster, stall.run):
            raise SystemExit(f"FAILED: a job that trains was taken for one that hangs\n{log(cluster)[-3000:]}")
        mark = stall_rank_3(stall)
        check(cluster, stall, ("hang", [3]), "no rank has made a step for")
        # Dumps of that incident are no other one. The second job's incident is the proof that they were seen.
        stall.write_dumps(4)
        absent = Job("absent", port + 1)
        jobs.append(absent)
        absent.wait_long_enough()
        absent.write_dumps(4)
        check(cluster, absent, ("hang", [3]), "ranks wrote a flight recorder dump")
        # A watchdog ends the job as soon as the dumps are there: they are all that is left of it.
        ended = Job("absent", port + 2)
        jobs.append(ended)
        ended.wait_long_enough()
        ended.write_dumps(4)
        until(lambda: f"run {ended.run}: ranks write flight recorder dumps" in log(cluster), "the dumps were not seen")
        ended.kill()
        check(cluster, ended, ("hang", [3]), "wrote a flight recorder dump")
        # It goes on, and stands again: another incident, but the budget is spent.
        last = max(steps_of(cluster, stall.run))
        os.unlink(mark)
        until(lambda: min(steps_of(cluster, stall.run)) > last + 50, "the job did not go on")
        stall_rank_3(stall)
        until(lambda: "nothing is kept of it" in log(cluster), "the budget was not told")
        check(cluster, stall, ("hang", [3]), "no rank has made a step for")
        check(cluster, absent, ("hang", [3]), "ranks wrote a flight recorder dump")
    finally:
        for job in jobs:
            job.stop()
        cluster.stop()


if __name__ == "__main__":
    main()
