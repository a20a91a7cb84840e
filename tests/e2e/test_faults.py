#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The fault table: what breaks, how often, and what is left of the captures.

    tests/e2e/test_faults.py                                   a short cut of each line, as CI runs it
    tests/e2e/test_faults.py corrupt=200 wipe=20 kill=50 errno=50 partition=600 slow=200 --seed 7
    tests/e2e/test_faults.py partition=600 --phase recording    one of preparing, recording, sending, closed: four at a time

A real aggregator, two collectors, eight native ranks (`slow`: files that are watched instead). Lines of the table:

    corrupt    bytes of a spool's segment, of a stored segment or of the catalogue are changed, cut, repeated or removed, while
               the daemon that owns them is killed; then it is started again
    wipe       the aggregator is killed in the middle of a stream and comes back without its data
    kill       kill -9 of the aggregator, a collector, a rank or the command line, in the middle of a capture
    errno      1 % of the calls that write, sync, open, rename or lengthen files fail (shim_faults.c), in the aggregator and in a collector; who
               ends because of it is started again, as a supervisor does
    partition  the aggregator, a collector or the link between them stands still for so many seconds, at each phase of a capture
    slow       traces that are written slowly, into old and new folders, with --discard-raw, while the collector is killed and started again

After each: no node is held up for more than 10 s (a new capture of all living ranks is complete by then), what was not damaged is stored whole,
what is missing has a name (verify, or the rank's reason), `complete` means that all steps are there, and what `rebuild` makes is what was
there: `capture list`, `capture show` and `report` byte for byte. One line of figures for each; the exit code tells whether all held.
"""
import argparse
import difflib
import glob
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

from machine import is_crowded
from rig_native import BUILD, NATIVE_ONLY, PROGRAM, Rig, go_on, kill, stop
from test_analyse import trace_of

WORLD, NODES, STEP_MS = 8, 2, 40
LONGEST_S = 24 * 3600  # that the job of a line runs
SHIM = os.path.join(os.path.abspath(BUILD), "shim_faults.so")
BLOCKED_S = 10.0
# Of corrupt not the catalogue: a log of it that lost its last writes has captures closed once more, a second later.
SHORT = {"corrupt": 2, "wipe": 1, "kill": 3, "errno": 2, "partition": 6, "slow": 8}
FEW = (("recording", "collector"),)  # of partitions that are shorter than 10 s: just when ranks are told their start


def check(condition, *texts):
    if not condition:
        raise SystemExit(" ".join(str(text) for text in texts))


def run(*words, seconds=120):
    return subprocess.run([PROGRAM, *words], capture_output=True, text=True, timeout=seconds, check=False)


class Figures:
    def __init__(self, name, seed):
        self.name, self.seed = name, seed
        self.runs = self.complete = self.partial = self.failed = self.lost = 0
        self.recovery = []

    def line(self):
        slowest = max(self.recovery, default=0.0)
        return (f"{self.name:<10} runs {self.runs:4}  complete {self.complete:4}  partial {self.partial:4}  failed {self.failed:4}  "
                f"chunks lost {self.lost:4}  recovery <= {slowest:.1f} s  (seed {self.seed})")


class Job(Rig):
    """The rig, with what is asked of it after a fault."""

    def __init__(self, figures, step_ms=STEP_MS, **more):
        super().__init__(WORLD, NODES, step_ms, run="faults", rank_words=("--seconds", str(LONGEST_S)), **more)
        self.figures = figures

    # ---- asking

    def verify(self, capture):
        done = run("verify", os.path.join(self.folder, "data", "captures", capture), "--json")
        check(done.returncode in (0, 1, 2), "verify:", done.returncode, done.stderr)
        return done.returncode, json.loads(done.stdout) if done.stdout else None

    def texts(self, capture):
        """What a user sees of it: must not change."""
        shown = run("capture", "show", capture, "--json", "--connect", self.address)
        told = run("report", capture, "--json", "--connect", self.address)
        check(shown.returncode in (0, 1), "show:", shown.returncode, shown.stderr)  # 1: it is partial
        check(told.returncode in (0, 1), "report:", told.returncode, told.stderr)
        return shown.stdout, told.stdout

    def list_text(self):
        done = run("capture", "list", "--json", "--connect", self.address)
        check(done.returncode == 0, "list:", done.returncode, done.stderr)
        return done.stdout

    def until(self, what, is_it, seconds=300):
        end = time.monotonic() + seconds
        while True:
            found = is_it()
            if found:
                return found
            check(time.monotonic() < end, "never:", what, "; see", self.folder)
            time.sleep(0.05)

    def ids(self):
        return {c["id"] for c in (self.ask("capture", "list") or {"captures": []})["captures"]}

    def begin(self, *words, steps=4):
        """A capture under way, and its id."""
        before = self.ids()
        capture = self.capture("--steps", str(steps), "--no-report", *words)
        new = self.until("the capture is known", lambda: self.ids() - before)
        return capture, next(iter(new))

    def closed(self, capture, seconds=90):
        def is_closed():
            shown = self.show(capture)
            # One that is open again keeps the time of its close.
            return shown if shown and shown.get("closed_ns") and shown["state"] != "summarised" else None
        return self.until("capture " + capture + " is closed", is_closed, seconds)

    def steps_of(self, capture):
        table = self.ask("table", capture, "step_device")
        steps = {}
        for row in (table or {"rows": []})["rows"]:
            steps.setdefault(row["rank"], set()).add(row["step"])
        return steps

    def wait_spooled(self, steps):
        """Nobody takes what the ranks of node 0 record: until their spool does not grow any more."""
        time.sleep(steps * STEP_MS / 1e3)
        sizes = None
        while True:
            files = glob.glob(os.path.join(self.folder, "spool0", "*", "**", "*.seg"), recursive=True)
            now = sorted((path, os.path.getsize(path)) for path in files)
            if now == sizes:
                return
            sizes = now
            time.sleep(1.0)

    # ---- judging

    def judge(self, capture, steps, hurt=()):
        """What must hold of any closed capture; `hurt`: the ranks that may lack something."""
        shown = self.closed(capture)
        state = shown["state"]
        check(state in ("complete", "partial", "failed", "stopped"), capture, "ended as", state)
        setattr(self.figures, state, getattr(self.figures, state, 0) + 1)
        code, found = self.verify(capture)
        streams = found["streams"] if found else []
        self.figures.lost += sum(s["lost_chunks"] + s["missing"] for s in streams)
        if state == "complete":
            check(code == 0, "complete, and verify says", json.dumps(found))
            # A summary that was damaged on its way is made of the rank's events again.
            check(all((s["summary"] == "equal" or s["rank"] in hurt) and not s["missing"] for s in streams), "complete, but", streams)
            recorded = self.steps_of(capture)
            check(len(recorded) == len(shown["ranks"]), "complete, but of ranks", sorted(recorded), "only")
            check(all(len(found) >= steps for found in recorded.values()), "complete, but", recorded)
        else:
            named = [r for r in shown["ranks"] if r["state"] != "done"]
            check(named or shown["reason"], state, "and nobody says why:", shown)
            check(all(r["reason"] for r in named), state, "without a reason:", named)
            recorded = self.steps_of(capture)
            for rank in shown["ranks"]:
                check(rank["rank"] in hurt or rank["state"] == "done", "rank", rank, "was not damaged; see", self.folder)
                if rank["rank"] not in hurt:
                    check(len(recorded.get(rank["rank"], ())) >= steps, "rank", rank, "has", recorded.get(rank["rank"]))
        return shown

    def recovered(self, since, ranks=WORLD):
        """A capture of all that live is complete; how long after `since` its ranks had been told."""
        self.wait_ranks(ranks, 30)
        for _ in range(40):  # a rank that was just started again may be asked too early
            capture, name = self.begin(steps=2)
            capture.end()
            shown = self.closed(name)
            if shown["state"] == "complete" and len(shown["ranks"]) >= ranks:
                break
            time.sleep(0.2)
        seconds = time.monotonic() - since
        check(shown["state"] == "complete", "not recovered:", shown)
        self.figures.recovery.append(seconds)
        if seconds >= BLOCKED_S + 5:  # beside other load everything takes longer: as long as that takes when nothing was broken does not count
            usual = max(self.undisturbed() for _ in range(3 if is_crowded() else 1))
            check(seconds < BLOCKED_S + 2 * usual, f"held up for {seconds:.1f} s, where an undisturbed capture takes {usual:.1f} s; see", self.folder)
        return name

    def undisturbed(self):
        """How long a capture takes now, from asking to reading it."""
        begun = time.monotonic()
        capture, name = self.begin(steps=2)
        capture.end()
        self.closed(name)
        return time.monotonic() - begun

    # ---- daemons

    def kill_aggregator(self):
        kill(self.aggregator.pid)
        self.aggregator.wait()
        self.aggregator.stdout.close()

    def kill_collector(self, node):
        kill(self.collectors[node].pid)
        self.collectors[node].wait()

    def ranks_of_node(self, node):
        return [rank for rank in range(WORLD) if rank * NODES // WORLD == node]


# ---- corrupt -------------------------------------------------------------------------------------------------------------------------

def mutate(path, picker, may_remove):
    """One file, changed as broken disks and torn writes do; what was done."""
    with open(path, "rb") as file:
        data = bytearray(file.read())
    way = picker.choice(["bit", "bit", "zeros", "cut", "garbage", "append", "repeat"] + ["remove"] * may_remove)
    at = picker.randrange(max(1, len(data)))
    if way == "remove" or not data:
        os.unlink(path)
        return f"removed {path}"
    if way == "bit":
        data[at] ^= 1 << picker.randrange(8)
    elif way == "zeros":
        data[at:at + 512] = bytes(len(data[at:at + 512]))
    elif way == "cut":
        del data[at:]
    elif way == "garbage":
        end = min(len(data), at + 64)
        data[at:end] = picker.randbytes(end - at)
    elif way == "append":
        data += picker.randbytes(picker.randrange(1, 200))
    else:
        data[at:at] = data[max(0, at - 300):at]
    with open(path, "wb") as file:
        file.write(data)
    return f"{way} at {at} of {path}"


def corrupt_spool(job, picker):
    """Everything waits in the spool while nobody takes it; a file of one node's is damaged; then all of it is sent."""
    steps = picker.choice([4, 25])
    capture, name = job.begin(steps=steps)
    job.until("it records", lambda: job.show(name)["state"] == "recording", 20)
    job.kill_aggregator()
    job.wait_spooled(steps)
    job.kill_collector(0)
    files = sorted(glob.glob(os.path.join(job.folder, "spool0", "raw", "*", "*.seg")) +
                   glob.glob(os.path.join(job.folder, "spool0", "summary", "*.seg")))
    done = mutate(picker.choice(files), picker, True)
    since = time.monotonic()
    job.start_aggregator()
    job.start_collector(0)
    capture.end()
    job.recovered(since)
    shared = "/summary/" in done
    hurt = job.ranks_of_node(0)
    shown = job.judge(name, steps, hurt)
    # One that still recorded when its collector was killed says so.
    lacking = [r["rank"] for r in shown["ranks"] if r["state"] != "done" and "started again" not in (r["reason"] or "")]
    check(shared or len(lacking) <= 1, done, "cost ranks", lacking)
    return done


def corrupt_segment(job, picker):
    """A stored file of a closed capture: named by verify, and every other capture is as it was."""
    others = [job.recovered(time.monotonic()) for _ in range(2)]
    name = others.pop()
    before = {other: job.texts(other) for other in others}
    _, whole = job.verify(name)
    folder = os.path.join(job.folder, "data", "captures", name)
    job.kill_aggregator()
    file = picker.choice(sorted(glob.glob(folder + "/segments/*.seg") + glob.glob(folder + "/summaries/*.seg") + [folder + "/facts.seg"]))
    done = mutate(file, picker, False)
    since = time.monotonic()
    job.start_aggregator()
    code, found = job.verify(name)
    if code == 0 and "/segments/" in file:
        check([(s["rank"], s["chunks"], s["rows"]) for s in found["streams"]] ==
              [(s["rank"], s["chunks"], s["rows"]) for s in whole["streams"]], done, "and verify finds nothing:", found)
    for other, texts in before.items():
        check(job.texts(other) == texts, done, "changed capture", other)
    job.recovered(since)
    done_rm = run("rm", name, "--connect", job.address)  # the next rounds look at what is whole
    check(done_rm.returncode == 0, "rm:", done_rm.stderr)
    return done


def check_same(job, before, ids, what):
    """List, show and report say what they said; else the lines that differ are told."""
    now = (job.list_text(), {name: job.texts(name) for name in ids})
    for is_before, is_now in [(before[0], now[0])] + [(a, b) for name in ids for a, b in zip(before[1][name], now[1][name])]:
        lines = list(difflib.unified_diff(is_before.splitlines(), is_now.splitlines(), "before", "now", n=1, lineterm=""))
        check(is_before == is_now, what + "; see", job.folder + "\n" + "\n".join(lines[:40]))


def corrupt_catalogue(job, picker):
    """The catalogue is made again from the folders: list, show and report say the same."""
    job.recovered(time.monotonic())
    ids = sorted(job.ids())[-3:]
    before = (job.list_text(), {name: job.texts(name) for name in ids})
    job.kill_aggregator()
    files = sorted(glob.glob(os.path.join(job.folder, "data", "catalogue.db*")))
    done = mutate(picker.choice([f for f in files if not f.endswith("-shm")]), picker, True)
    since = time.monotonic()
    job.start_aggregator()
    check_same(job, before, ids, done + " changed what is shown")
    job.recovered(since)
    return done


def rebuilt(job):
    """`rebuild --all`, with the aggregator stopped, changes nothing that is seen."""
    ids = sorted(job.ids())[-5:]
    before = (job.list_text(), {name: job.texts(name) for name in ids})
    job.aggregator.terminate()
    job.aggregator.wait()
    job.aggregator.stdout.close()
    done = run("rebuild", "--all", "--quiet", "--data", os.path.join(job.folder, "data"))
    check(done.returncode in (0, 1), "rebuild:", done.returncode, done.stderr)
    job.start_aggregator()
    check_same(job, before, ids, "rebuild changed what is shown")


def corrupt(figures, count, picker):
    with Job(figures) as job:
        job.wait_ranks(WORLD)
        for i in range(count):
            way = (corrupt_spool, corrupt_segment, corrupt_catalogue)[i % 3]
            said = way(job, picker)
            print("  corrupt", i, said, flush=True)
            figures.runs += 1
            if i % 10 == 8:
                rebuilt(job)


# ---- wipe ----------------------------------------------------------------------------------------------------------------------------

def wipe(figures, count, picker):
    with Job(figures) as job:
        job.wait_ranks(WORLD)
        for i in range(count):
            capture, name = job.begin(steps=25)
            job.until("it records", lambda: job.show(name)["state"] == "recording", 20)
            time.sleep(picker.random() * 25 * STEP_MS / 1e3)
            job.kill_aggregator()
            shutil.rmtree(os.path.join(job.folder, "data"))
            since = time.monotonic()
            job.start_aggregator()
            job.recovered(since)
            code, _ = capture.end()
            check(code != 0, "a capture whose data was wiped ended with 0")
            for left in job.captures():  # what came of it afterwards is called what it is
                if left["id"] == name:
                    job.judge(name, 25, range(WORLD))
            figures.runs += 1


# ---- kill ----------------------------------------------------------------------------------------------------------------------------

def kill_any(figures, count, picker):
    with Job(figures) as job:
        job.wait_ranks(WORLD)
        for i in range(count):
            steps = 25
            capture, name = job.begin(steps=steps)
            time.sleep(picker.random() * (steps * STEP_MS / 1e3 + 1.0))
            victim = picker.choice(["aggregator", "collector", "rank", "command"])
            since = time.monotonic()
            hurt = []
            if victim == "aggregator":
                # Before its ranks were told to begin, nothing is recorded: asked again by the user.
                hurt = range(WORLD) if job.show(name)["state"] in ("preparing", "queued") else []
                job.kill_aggregator()
                job.start_aggregator()
            elif victim == "collector":
                node = picker.randrange(NODES)
                job.kill_collector(node)
                job.start_collector(node)
                hurt = job.ranks_of_node(node)
            elif victim == "rank":
                rank = picker.randrange(WORLD)
                kill(job.pids[rank])
                hurt = [rank]
            else:
                kill(capture.process.pid)
            print("  kill", i, victim, name, flush=True)
            capture.end()
            if victim == "rank":
                job.judge(name, steps, hurt)
                job.job.stdin.close()
                job.job.wait()
                job.job.stdout.close()
                job.start_ranks()
                job.recovered(time.monotonic())
            else:  # judged afterwards: what this test asks in order to judge holds nobody up
                job.recovered(since)
                job.judge(name, steps, hurt)
            figures.runs += 1


# ---- errno ---------------------------------------------------------------------------------------------------------------------------

class Supervisor(threading.Thread):
    """Starts again who ends, until told otherwise."""

    def __init__(self, job):
        super().__init__()
        self.job, self.is_over, self.restarts = job, threading.Event(), 0

    def run(self):
        while not self.is_over.wait(0.1):
            if self.job.aggregator.poll() is not None:
                try:
                    self.job.start_aggregator()
                except SystemExit:
                    pass  # it could not write when it started: again
                self.restarts += 1
            for node in range(NODES):
                if self.job.collectors[node].poll() is not None:
                    self.job.start_collector(node)
                    self.restarts += 1


class Failing(Job):
    """Its aggregator and the collector of node 0 have a disk that fails now and then."""

    def __init__(self, figures, seed):
        super().__init__(figures)
        self.seed, self.does_fail = seed, False

    def _spawn(self, name, words, **pipes):
        if self.does_fail and name in ("aggregator", "collector0"):
            pipes["env"] = dict(os.environ, LD_PRELOAD=SHIM, SHIM_PATH=self.folder + "/", SHIM_PERMILLE="10", SHIM_SEED=str(self.seed),
                                SHIM_LOG=os.path.join(self.folder, "shim.log"))
        return super()._spawn(name, words, **pipes)


def errno(figures, count, picker):
    with Failing(figures, picker.randrange(1 << 30)) as job:
        job.wait_ranks(WORLD)
        job.does_fail = True
        names = []
        for process in (job.aggregator, job.collectors[0]):
            process.terminate()
            process.wait()
        supervisor = Supervisor(job)
        supervisor.start()
        try:
            for _ in range(count):
                job.until("a rank is live", lambda: (job.ask("ranks") or {}).get("ranks"), 60)
                done = run("capture", "--steps", "4", "--no-report", "--connect", job.address, "--timeout", "20s", seconds=180)
                print("  errno", done.returncode, done.stderr.strip().splitlines()[-1:], flush=True)
                figures.runs += 1
        finally:
            supervisor.is_over.set()
            supervisor.join()
        job.does_fail = False
        for process in (job.aggregator, job.collectors[0]):
            if process.poll() is None:
                process.terminate()
                process.wait()
        since = time.monotonic()
        job.start_aggregator()
        job.start_collector(0)
        job.recovered(since)
        for capture in job.captures():
            names.append(capture["id"])
            job.judge(capture["id"], capture["steps"], range(WORLD))
        with open(os.path.join(job.folder, "shim.log"), encoding="utf-8") as file:
            failures = sum(1 for _ in file)
        print(f"  errno: {failures} calls failed, {supervisor.restarts} restarts", flush=True)
        check(failures > 0, "nothing failed")


# ---- partition -----------------------------------------------------------------------------------------------------------------------

class Pipe:
    """A stretch of network between a collector and the aggregator that can stand still, without an end of the connection."""

    def __init__(self, path, to):
        self.path, self.to = path, to
        self.flows = threading.Event()
        self.flows.set()
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen(64)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                one, _ = self.listener.accept()
            except OSError:
                return
            other = socket.socket(socket.AF_UNIX)
            try:
                self.flows.wait()
                other.connect(self.to)
            except OSError:
                one.close()
                continue
            for left, right in ((one, other), (other, one)):
                threading.Thread(target=self.carry, args=(left, right), daemon=True).start()

    def carry(self, source, sink):
        try:
            while data := source.recv(65536):
                self.flows.wait()
                sink.sendall(data)
        except OSError:
            pass
        self.flows.wait()
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class Piped(Job):
    def start_collector(self, node, *words):
        path = os.path.join(self.folder, f"p{node}.sock")
        if not os.path.exists(path):
            self.pipes = getattr(self, "pipes", []) + [Pipe(path, os.path.join(self.folder, "a.sock"))]
        true, self.address = self.address, "unix:" + path
        super().start_collector(node, *words)
        self.address = true


PHASES = ("preparing", "recording", "sending", "closed")


def await_phase(job, name, phase):
    if phase == "preparing":
        return
    if phase == "recording":
        job.until("it records", lambda: job.show(name)["state"] == "recording", 20)
        return
    job.until(phase, lambda: any(r["state"] in ("sending", "done") for r in job.show(name)["ranks"]), 30)
    if phase == "closed":
        job.closed(name)


def partition(figures, seconds, picker, phases=PHASES):
    """Each phase, each of the three that can stand still, for so many seconds each; in the short cut one of the twelve."""
    steps = 50
    with Piped(figures) as job:
        job.wait_ranks(WORLD)
        for phase in phases:
            for victim in ("link", "collector", "aggregator"):
                if seconds < 10 and (phase, victim) not in FEW:
                    continue
                since = time.monotonic()
                if phase == "preparing" and victim != "aggregator":
                    # It stands still before anybody knows: when ranks are asked, the links are still believed.
                    halt(job, victim)
                    capture, name = job.begin(steps=steps)
                else:
                    capture, name = job.begin(steps=steps)
                    await_phase(job, name, phase)
                    halt(job, victim)
                time.sleep(seconds)
                resume(job, victim)
                resumed = time.monotonic()
                capture.end(seconds + 240)
                shown = job.judge(name, steps)
                print(f"  partition {phase} {victim} {seconds:g} s: {shown['state']} after {time.monotonic() - since:.1f} s", flush=True)
                check(shown["state"] == "complete" and len(shown["ranks"]) == WORLD, phase, victim, shown, "see", job.folder)
                job.recovered(resumed if time.monotonic() - resumed < 5 else time.monotonic())
                figures.runs += 1


def halt(job, victim):
    if victim == "link":
        job.pipes[0].flows.clear()
    else:
        stop(job.collectors[0].pid if victim == "collector" else job.aggregator.pid)


def resume(job, victim):
    if victim == "link":
        job.pipes[0].flows.set()
    else:
        go_on(job.collectors[0].pid if victim == "collector" else job.aggregator.pid)


# ---- slow ----------------------------------------------------------------------------------------------------------------------------

def write_slowly(path, data, picker, seconds):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    pieces = picker.randrange(2, 9)
    with open(path, "wb", buffering=0) as file:
        for i in range(pieces):
            file.write(data[len(data) * i // pieces:len(data) * (i + 1) // pieces])
            time.sleep(seconds / pieces)


def slow(figures, count, picker):
    """Every file is taken whole, and an original goes only when it was."""
    with tempfile.TemporaryDirectory(prefix="rs-slow-") as folder:
        address = f"unix:{folder}/a.sock"
        watched = folder + "/traces"
        os.makedirs(watched)
        with subprocess.Popen([PROGRAM, "aggregator", "--listen", address, "--data", folder + "/data"], stdout=subprocess.PIPE) as aggregator:
            check(b"listening" in aggregator.stdout.readline(), "the aggregator did not start")
            collector = None

            def start():
                return subprocess.Popen([PROGRAM, "collector", "--connect", address, "--spool", folder + "/spool", "--watch", watched, *NATIVE_ONLY,
                                         "--no-native", "--settle", "500ms", "--discard-raw", "-v"], stderr=open(folder + "/collector.log", "ab"))
            try:
                collector = start()
                wanted = slow_writers(watched, count, picker)
                restarts = 0
                while any(writer.is_alive() for writer in wanted["writers"]):
                    time.sleep(picker.random() * 1.5)
                    collector.kill()
                    collector.wait()
                    collector = start()
                    restarts += 1
                for writer in wanted["writers"]:
                    writer.join()
                slow_judge(figures, address, watched, wanted, folder)
                print(f"  slow: {restarts} restarts of the collector", flush=True)
            finally:
                if collector:
                    collector.terminate()
                    collector.wait()
                aggregator.terminate()


def slow_writers(watched, count, picker):
    """A folder is a job of four ranks; a third of the folders is there at the start."""
    world = 4
    writers, rows, texts = [], {}, {}
    for job in range((count + world - 1) // world):
        where = os.path.join(watched, f"job{job:03}")
        if job % 3 == 0:
            os.makedirs(where)
        for rank in range(world):
            document = trace_of(rank, world, 3000 if rank == 2 else 0)
            document["trace_id"] = f"SLOW{job:03}"
            data = json.dumps(document, indent=1).encode()
            rows[(job, rank)] = sum(1 for e in document["traceEvents"] if e.get("ph") == "X")
            own = random.Random(picker.random())
            path = os.path.join(where, f"trace_{900 + rank}.json")
            texts[path] = data
            writers.append(threading.Thread(target=lambda p=path, d=data, r=own, w=job: (
                time.sleep(w * 0.15), write_slowly(p, d, r, 0.3 + 2.5 * r.random()))))
    for writer in writers:
        writer.start()
    return {"writers": writers, "rows": rows, "world": world, "texts": texts}


def slow_judge(figures, address, watched, wanted, folder):
    jobs = len(wanted["rows"]) // wanted["world"]

    def ask():
        done = run("capture", "list", "--json", "--connect", address)
        found = json.loads(done.stdout)["captures"] if done.returncode == 0 else []
        streams = [(c, s) for c in found if c["closed_ns"] for s in json.loads(run("verify", c["directory"], "--json").stdout)["streams"]]
        whole = {}
        for _, stream in streams:
            if stream["is_ended"] and not stream["missing"]:
                whole.setdefault(stream["rank"], []).append(stream["rows"])
        return found, whole, all(len(whole.get(rank, ())) >= jobs for rank in range(wanted["world"]))

    until = time.monotonic() + 90
    while True:
        found, whole, is_there = ask()
        if is_there:
            break
        if time.monotonic() > until:
            with open(folder + "/collector.log", encoding="utf-8") as log:
                print(log.read()[-3000:])
            raise SystemExit(f"{ {r: len(w) for r, w in whole.items()} } of {jobs} each; left: {sorted(glob.glob(watched + '/*/*'))[:9]}")
        time.sleep(0.5)
    for (_, rank), rows in wanted["rows"].items():
        check(len(whole[rank]) == jobs, "rank", rank, "was taken", len(whole[rank]), "times of", jobs)
        check(all(taken >= rows for taken in whole[rank]), "rank", rank, "has", sorted(set(whole[rank])), "rows, not", rows)
    # What was taken by a collector that was killed before the aggregator had it stays, whole; the rest was to go.
    left = glob.glob(watched + "/*/*")
    for path in left:
        with open(path, "rb") as file:
            check(file.read() == wanted["texts"][path], path, "is not what was written")
    check(len(left) < len(wanted["texts"]), "no original was removed")
    print(f"  slow: {len(wanted['texts']) - len(left)} originals removed, {len(left)} stayed, whole", flush=True)
    figures.runs = len(wanted["rows"])
    figures.complete = sum(c["state"] == "complete" for c in found)
    figures.partial = sum(c["state"] != "complete" for c in found)


CASES = {"corrupt": corrupt, "wipe": wipe, "kill": kill_any, "errno": errno, "partition": partition, "slow": slow}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cases", nargs="*", help="CASE=N; N of partition are seconds")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--phase", choices=PHASES, help="of partition, that one only")
    options = parser.parse_args()
    asked = {word.split("=")[0]: float(word.split("=")[1]) for word in options.cases} or SHORT
    table = []
    for name, count in asked.items():
        if name == "errno" and not os.path.exists(SHIM):
            print("errno: no shim in a build with sanitizers")
            continue
        figures = Figures(name, options.seed)
        began = time.monotonic()
        try:
            more = {"phases": (options.phase,)} if options.phase and name == "partition" else {}
            CASES[name](figures, count if name == "partition" else int(count), random.Random(options.seed), **more)
        except BaseException:
            print("failed:", figures.line(), file=sys.stderr)
            raise
        table.append(figures.line() + f", {time.monotonic() - began:.0f} s")
        print(table[-1], flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
