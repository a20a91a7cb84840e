# SPDX-License-Identifier: Apache-2.0
"""What the tests of the MindSpore trigger share: a job in a /dev/shm of its own, and the trigger's driver.

The block's name says the hour and not the job, so each case has its own /dev/shm: a process that holds a mount namespace, which jobs
enter. That takes root (or a user namespace in which we are root); without, the test is skipped.
"""
import atexit
import decimal
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

VERSION = "2.10.0"
INSTALL_LIMIT_S = 1500
# A rank's line comes in one write, but maybe behind what another rank's profiler has drawn of its progress bar, which ends in no line's
# end. So the words count wherever in the line they begin.
STEP_LINE = re.compile(r"@ (\d+) (\d+) (\d+) (\d+)$")


def skip(why):
    print(f"mindspore: skipped, {why}")
    sys.exit(77)


def check(truth, what):
    if not truth:
        raise SystemExit(f"FAILED: {what}")


def find_mindspore():
    """Its Python. Pinned, and outside the tree: $RANKSCOPE_MINDSPORE_VENV, else ~/.cache/rankscope/mindspore-VERSION."""
    folder = os.environ.get("RANKSCOPE_MINDSPORE_VENV") or os.path.expanduser(f"~/.cache/rankscope/mindspore-{VERSION}")
    python = os.path.join(folder, "bin", "python")
    if os.path.isdir(os.path.join(folder, "bin")) and subprocess.run(
            [python, "-c", "import importlib.util as u, sys; sys.exit(not u.find_spec('mindspore'))"], check=False).returncode == 0:
        return python
    if os.environ.get("RANKSCOPE_MINDSPORE_INSTALL") != "1":
        skip(f"no MindSpore in {folder}; RANKSCOPE_MINDSPORE_INSTALL=1 puts it there (2 GB)")
    try:
        os.makedirs(os.path.dirname(folder), exist_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True, timeout=120, stdout=subprocess.DEVNULL)
        subprocess.run([os.path.join(folder, "bin", "pip"), "install", "-q", f"mindspore=={VERSION}"], check=True,
                       timeout=INSTALL_LIMIT_S, stdout=subprocess.DEVNULL)
    except (OSError, subprocess.SubprocessError) as error:
        shutil.rmtree(folder, ignore_errors=True)
        skip(f"mindspore {VERSION} cannot be installed here: {error}")
    return python


def stay_in_hour(needed_s):
    """The block's name says the hour, and ranks of one hour share it: so what needs one block waits where the hour is almost over."""
    left_s = 3600 - time.time() % 3600
    if left_s < needed_s:
        time.sleep(left_s + 0.1)


class Shm:
    """A mount namespace with a /dev/shm of its own, as long as this lives."""

    def __init__(self):
        self.holder = subprocess.Popen(
            ["unshare", "-m", "sh", "-c", "mount -t tmpfs tmpfs /dev/shm && echo ready && exec sleep 3600"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        if self.holder.stdout.readline().strip() != "ready":
            skip("no /dev/shm of its own can be made here (it takes root)")
        atexit.register(self.close)

    def enter(self, *words):
        return ["nsenter", "-t", str(self.holder.pid), "-m", f"--wd={os.getcwd()}", *words]

    def names(self):
        return os.listdir(f"/proc/{self.holder.pid}/root/dev/shm")

    def close(self):
        self.holder.kill()
        self.holder.wait()


class Job:
    """Ranks that train, each a process; what they print goes to a file or, with `is_piped`, to a pipe that we drain."""

    def __init__(self, folder, name, command, shm, is_piped=False, environment=None):
        self.folder, self.name = folder, name
        self.path = os.path.join(folder, name + ".log")
        self.is_piped = is_piped
        self.lines, self.times = [], {}
        self.read_to = 0
        environment = dict(os.environ, RANKSCOPE_RUN=name, OMP_NUM_THREADS="1", **(environment or {}))
        out = subprocess.PIPE if is_piped else open(self.path, "wb")
        self.errors = open(os.path.join(folder, name + ".err"), "wb")
        stay_in_hour(60)
        self.process = subprocess.Popen(shm.enter(*command), stdout=out, stderr=self.errors, env=environment,
                                        start_new_session=True)
        atexit.register(self.kill)
        if is_piped:
            self.sink = open(self.path, "wb")
            threading.Thread(target=self.drain, daemon=True).start()

    def drain(self):
        for line in self.process.stdout:
            self.sink.write(line)
            self.sink.flush()

    def read(self):
        """Steps so far: {rank: {step: (begin, end)}}."""
        with open(self.path, "rb") as file:
            file.seek(self.read_to)
            data = file.read()
        whole = data.rfind(b"\n") + 1
        self.read_to += whole
        for line in data[:whole].decode(errors="replace").splitlines():
            told = STEP_LINE.search(line)
            if told:
                rank, step, begin, end = map(int, told.groups())
                self.times.setdefault(rank, {})[step] = (begin, end)
            self.lines.append(line)
        return self.times

    def step(self):
        """The furthest step that any rank has done."""
        return max((max(steps) for steps in self.read().values() if steps), default=0)

    def wait_step(self, step, ranks, limit_s=300):
        end = time.monotonic() + limit_s
        while time.monotonic() < end:
            times = self.read()
            if len(times) >= ranks and all(max(steps) >= step for steps in times.values()):
                return
            check(self.process.poll() is None, f"{self.name} ended early:\n{open(self.errors.name, encoding='utf-8').read()[-2000:]}")
            time.sleep(0.05)
        check(False, f"{self.name} did not come to step {step}: {[max(s) for s in self.times.values()]}")

    def kill(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()

    def recorded(self, rank, stamps_ns):
        """The steps in which these instants fall."""
        steps = self.read()[rank]
        lost = sorted(set(range(min(steps), max(steps))) - set(steps))
        check(not lost, f"rank {rank}: the log's lines of steps {lost} were not read")
        found = set()
        for stamp in stamps_ns:
            inside = [step for step, (begin, end) in steps.items() if begin <= stamp <= end]
            near = min(steps, key=lambda step: min(abs(stamp - edge) for edge in steps[step]))
            check(len(inside) == 1, f"{self.name}: rank {rank}: an operator at {stamp} is in steps {inside}; the nearest is {near}, "
                  f"{steps[near]}, of {min(steps)} to {max(steps)}")
            found.add(inside[0])
        return sorted(found)


class Driver:
    """The trigger: orders in, lines of JSON out."""

    def __init__(self, program, folder, run, way="unknown", dirs=()):
        self.log = open(os.path.join(folder, run + ".drive.err"), "wb")
        self.process = subprocess.Popen([program, os.path.join(folder, "root"), run, way, *dirs], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.log, text=True)
        self.queue = queue.Queue()
        self.ranks = {}  # pid -> last line
        self.seen = []
        threading.Thread(target=self.drain, daemon=True).start()

    def drain(self):
        for line in self.process.stdout:
            self.queue.put(json.loads(line))
        self.queue.put(None)

    def take(self, limit_s):
        try:
            line = self.queue.get(timeout=max(limit_s, 0.001))
        except queue.Empty:
            return None
        check(line is not None, "the driver ended")
        if "rank" in line:
            self.ranks[line["pid"]] = line
        self.seen.append(line)
        return line

    def order(self, text, limit_s=20):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()
        name = text.split()[1] if text.startswith("arm") else text.split()[0]
        end = time.monotonic() + limit_s
        while time.monotonic() < end:
            line = self.take(end - time.monotonic())
            if line and line.get("answer") == name:
                return line
        check(False, f"no answer to {text}")

    def until(self, what, predicate, limit_s=300):
        end = time.monotonic() + limit_s
        while not predicate(self):
            check(time.monotonic() < end, f"not within {limit_s} s: {what}\n" + "\n".join(map(json.dumps, self.ranks.values())))
            self.take(0.2)

    def all(self, *states, capture=None):
        rows = [row for row in self.ranks.values() if capture is None or row["capture"] == capture]
        return bool(rows) and all(row["state"] in states for row in rows)

    def rank(self, rank):
        return [row for row in self.ranks.values() if row["rank"] == rank][-1]

    def close(self):
        try:
            self.process.stdin.close()
            self.process.wait(120)
        except (OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        self.log.close()


def pair_of(folder):
    with open(os.path.join(folder, "profiler_config.json"), encoding="utf-8") as file:
        config = json.load(file)
    return config["start_step"], config["stop_step"]


def stamps_of(view):
    """When the operators of a trace_view.json began, ns. Their microseconds are texts with three decimals: exact, as no float is."""
    with open(view, encoding="utf-8") as file:
        return [int(decimal.Decimal(str(event["ts"])) * 1000) for event in json.load(file) if event["ph"] == "X"]


def scratch():
    return tempfile.mkdtemp(prefix="rankscope-mindspore-")
