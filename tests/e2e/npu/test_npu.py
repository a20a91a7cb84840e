#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch_npu's own trigger code is told by aggregator, collector and `rankscope capture`: four ranks, both ways of using it.

On all ranks, on two of them, twice in a row, one while another runs, with a killed creator of the shared block, and a job that is unresponsive on a
block left by a killed one, which is mended as the refusal says. Chosen ranks begin and stop at the same step, the others do not. Without a
device the vendor's parser finds nothing, so every result must be told as raw, kept and named.

torch_npu is pinned and lives outside the tree: an unzipped wheel in $RANKSCOPE_TORCH_NPU, else ~/.cache/rankscope/torch_npu-VERSION, which
RANKSCOPE_TORCH_INSTALL=1 puts there (44 MB); it needs the PyTorch of tests/e2e/torch. Where these cannot be had, or without the
right to mount, the test is skipped (77). Each job has a /dev/shm of its own: the vendor's block has one name per hour.
"""
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile

PROGRAM = os.path.abspath(os.environ["RANKSCOPE"])
HERE = os.path.dirname(os.path.abspath(__file__))
VERSION = "2.14.0"
TORCH_VERSION = "2.15.0"
RANKS = 4
STEP_MS = 150
CACHE = os.path.expanduser("~/.cache/rankscope")


def skip(why):
    print(f"npu: skipped, {why}")
    sys.exit(77)


def check(condition, *what):
    if not condition:
        raise AssertionError(" ".join(str(part) for part in what))


def find_python():
    venv = os.environ.get("RANKSCOPE_TORCH_VENV") or os.path.join(CACHE, f"torch-{TORCH_VERSION}")
    python = os.path.join(venv, "bin", "python")
    if not os.path.exists(python):
        skip(f"no PyTorch in {venv}: tests/e2e/torch puts it there with RANKSCOPE_TORCH_INSTALL=1")
    return python


def find_wheel(python):
    folder = os.environ.get("RANKSCOPE_TORCH_NPU") or os.path.join(CACHE, f"torch_npu-{VERSION}")
    if os.path.exists(os.path.join(folder, "torch_npu", "profiler", "dynamic_profile.py")):
        return folder
    if os.environ.get("RANKSCOPE_TORCH_INSTALL") != "1":
        skip(f"no torch_npu in {folder}; RANKSCOPE_TORCH_INSTALL=1 puts it there (44 MB)")
    part = folder + ".part"
    shutil.rmtree(part, ignore_errors=True)
    try:
        os.makedirs(part)
        subprocess.run([python, "-m", "pip", "download", "-q", "--no-deps", "-d", part, f"torch_npu=={VERSION}"], check=True,
                       timeout=300, stdout=subprocess.DEVNULL)
        wheel = glob.glob(os.path.join(part, "*.whl"))[0]
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(part)
        os.remove(wheel)
        os.rename(part, folder)
    except (OSError, IndexError, subprocess.SubprocessError) as error:
        shutil.rmtree(part, ignore_errors=True)
        skip(f"torch_npu {VERSION} cannot be had here: {error}")
    return folder


class Shm:
    """A mount namespace with a /dev/shm of its own, held by a process."""

    def __init__(self):
        self.holder = subprocess.Popen(
            ["unshare", "-m", "sh", "-c", "mount -t tmpfs tmpfs /dev/shm && echo ready && exec cat"], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if self.holder.stdout.readline() != b"ready\n":
            skip("a /dev/shm of its own cannot be mounted here: " + self.holder.stderr.read().decode().strip())

    def inside(self, *words):
        return ["nsenter", "-m", "-t", str(self.holder.pid), *words]

    def blocks(self):
        return glob.glob(f"/proc/{self.holder.pid}/root/dev/shm/DynamicProfileNpuShm*")

    def close(self):
        self.holder.stdin.close()
        self.holder.wait(120)


class Job:
    all = []

    def __init__(self, rig, name, way, shm):
        Job.all.append(self)
        self.name = name
        self.folder = os.path.join(rig.folder, name)
        self.config = os.path.join(self.folder, "config")
        meet = os.path.join(self.folder, "meet")
        os.makedirs(self.config)
        os.makedirs(meet)
        self.log = open(os.path.join(self.folder, "job.log"), "w+", encoding="utf-8")
        self.launcher = subprocess.Popen(
            shm.inside(rig.python, os.path.join(HERE, "npu_rank.py"), "--wheel", rig.wheel, "--cfg", self.config, "--way", way,
                       "--ranks", str(RANKS), "--step-ms", str(STEP_MS), "--meet", meet),
            stdout=self.log, stderr=self.log, env=dict(os.environ, RANKSCOPE_RUN=name), start_new_session=True)
        deadline = time.time() + 120
        while len(os.listdir(meet)) < RANKS:
            check(self.launcher.poll() is None and time.time() < deadline, "the job did not start:", self.text()[-3000:])
            time.sleep(0.1)
        self.pids = {int(rank): int(pid) for rank, pid in re.findall(r"rank=(\d+) pid=(\d+)", self.text())}
        time.sleep(2)

    def text(self):
        with open(self.log.name, encoding="utf-8") as file:
            return file.read()

    def said(self, rank, sentence):
        """Numbers of the lines of a rank's log that have `sentence`, a pattern with one group."""
        found = []
        for path in glob.glob(os.path.join(self.config, "log", f"dp_*_{self.pids[rank]}_rank_{rank}.log")):
            with open(path, encoding="utf-8") as file:
                found += [int(number) for number in re.findall(sentence, file.read())]
        return found

    def profiles(self, rank):
        """(first, last) step of each profile."""
        return list(zip(self.said(rank, r"Start Dynamic Profiler at (\d+) step"),
                        self.said(rank, r"Stop Dynamic Profiler at (\d+) step")))

    def creator(self):
        for rank in self.pids:
            for path in glob.glob(os.path.join(self.config, "log", f"dp_*_rank_{rank}.log")):
                with open(path, encoding="utf-8") as file:
                    if "shared memory is created" in file.read():
                        return rank
        raise AssertionError("no rank created the block")

    def kill(self):
        """All of it at once, helpers and monitor too, as a scheduler does: nobody cleans up."""
        try:
            os.killpg(self.launcher.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.launcher.wait(120)


class Rig:
    def __init__(self, python, wheel):
        self.python, self.wheel = python, wheel
        self.folder = tempfile.mkdtemp(prefix="rs-npu-")
        os.chmod(self.folder, 0o755)
        self.traces = os.path.join(self.folder, "traces")
        self.address = "unix:" + os.path.join(self.folder, "a.sock")
        self.environment = dict(os.environ, RANKSCOPE_RUNTIME_DIR=self.folder)
        self.aggregator = subprocess.Popen(
            [PROGRAM, "aggregator", "--listen", self.address, "--data", os.path.join(self.folder, "data")],
            stdout=subprocess.PIPE, env=self.environment)
        check(b"listening" in self.aggregator.stdout.readline(), "the aggregator did not start")
        self.log = open(os.path.join(self.folder, "collector.log"), "wb")
        self.collector = subprocess.Popen(
            [PROGRAM, "collector", "--connect", self.address, "--spool", os.path.join(self.folder, "spool"), "--no-kineto",
             "--no-native", "--no-mindspore", "--trace-dir", self.traces, "--parse-wait", "3s", "--verbose"],
            stderr=self.log, env=self.environment)

    def ask(self, *words, limit=120):
        return subprocess.run([PROGRAM, words[0], "--connect", self.address, *words[1:]], capture_output=True, text=True,
                              check=False, timeout=limit, env=self.environment)

    def begin(self, *words):
        return subprocess.Popen([PROGRAM, words[0], "--connect", self.address, *words[1:]], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, env=self.environment)

    def wait_ranks(self, job):
        done = self.ask("ranks", "--run", job.name, "--wait", str(RANKS), "--timeout", "180s", "-q")
        check(done.returncode == 0, "the ranks are not seen:", done.stderr)

    def close(self):
        for daemon in (self.collector, self.aggregator):
            daemon.terminate()
            try:
                daemon.wait(120)
            except subprocess.TimeoutExpired:
                daemon.kill()
        self.log.close()


def is_raw_reported(errors, rank):
    return re.search(rf"rank {rank} is stored raw: recorded, but not parsed by the vendor's tool yet.* stays at (\S+_ascend_pt)", errors)


def recorded(job, chosen, before, steps, errors):
    """The chosen ranks made one more profile each, at one step and as long as asked for; the others none; told as raw."""
    news = {rank: job.profiles(rank)[before[rank]:] for rank in job.pids}
    for rank in job.pids:
        if rank not in chosen:
            check(not news[rank], f"rank {rank} was not chosen and recorded", news)
    first = {news[rank][-1] if news[rank] else None for rank in chosen}
    check(len(first) == 1 and None not in first, "not one common profile:", news, errors)
    begin, end = first.pop()
    check(end - begin == steps, "recorded", begin, "to", end, "instead of", steps)
    for rank in chosen:
        told = is_raw_reported(errors, rank)
        check(told and os.path.isdir(told.group(1)), f"rank {rank} is not told as raw:", errors)
    return begin


def count(job):
    return {rank: len(job.profiles(rank)) for rank in job.pids}


def capture(rig, job, ranks, steps, chosen):
    before = count(job)
    done = rig.ask("capture", "--run", job.name, "--ranks", ranks, "--steps", str(steps))
    check(done.returncode == 1, "exit code", done.returncode, done.stdout, done.stderr)
    # A profile that found out the step stands before the capture's, on its rank alone.
    after = {rank: len(job.profiles(rank)) - 1 if rank in chosen else before[rank] for rank in job.pids}
    check(all(after[rank] >= before[rank] for rank in chosen), "nothing was recorded:", done.stdout, done.stderr)
    return recorded(job, chosen, after, steps, done.stderr), done


def on_all_and_on_some(rig, job):
    everybody = set(range(RANKS))
    first, _ = capture(rig, job, "all", 2, everybody)
    second, _ = capture(rig, job, "1,3", 3, {1, 3})
    check(second > first, "the second began before the first")
    # twice in a row
    third, _ = capture(rig, job, "all", 1, everybody)
    check(third > second, "the third began before the second")
    print(f"  {job.name}: all at step {first}, 1 and 3 at {second}, all again at {third}")


def while_one_runs(rig, job):
    """One refused as asked, one that waits for its turn; the one that runs is not touched."""
    before = count(job)
    long = rig.begin("capture", "--run", job.name, "--ranks", "all", "--steps", "40")
    deadline = time.time() + 60
    while not all(len(job.said(rank, r"Start Dynamic Profiler at (\d+) step")) > before[rank] for rank in job.pids):
        check(long.poll() is None, "the long one ended:", *(long.communicate() if long.poll() is not None else ()))
        check(time.time() < deadline, "the long one did not begin")
        time.sleep(0.2)
    refused = rig.ask("capture", "--run", job.name, "--ranks", "1,3", "--steps", "1", "--on-busy", "refuse")
    check(refused.returncode != 0 and "refused" in refused.stderr + refused.stdout, "it was not refused:", refused.stdout,
          refused.stderr)
    waiting = rig.begin("capture", "--run", job.name, "--ranks", "1,3", "--steps", "1")
    _, errors = long.communicate(timeout=120)
    _, later = waiting.communicate(timeout=120)
    for rank in job.pids:
        check((job.profiles(rank)[before[rank]][1] - job.profiles(rank)[before[rank]][0]) == 40, "the long one was disturbed",
              job.profiles(rank))
        check(is_raw_reported(errors, rank), f"rank {rank} of the long one is not told:", errors)
    ends = {rank: job.profiles(rank)[before[rank] + 1:] for rank in job.pids}
    check(len(ends[1]) == 1 and ends[1] == ends[3] and not ends[0] and not ends[2], "the one that waited:", ends, later)
    print(f"  {job.name}: while one ran: refused ({(refused.stdout + refused.stderr).strip()[:150]!r}), and another began at {ends[1][0][0]}")


def with_a_killed_creator(rig, job):
    creator = job.creator()
    os.kill(job.pids[creator], signal.SIGKILL)
    time.sleep(3)
    others = set(job.pids) - {creator}
    step, done = capture(rig, job, ",".join(map(str, sorted(others))), 2, others)
    check("the rank that started the monitor was killed" in done.stderr, "the orphan is not told:", done.stderr)
    print(f"  {job.name}: creator (rank {creator}) killed, the others at step {step}")


def unresponsive_and_mended(rig, shm, way, first):
    """The first job is killed with everything but its block; the next one of the hour is unresponsive until what is told is done."""
    if time.time() % 3600 > 3400:
        time.sleep(3610 - time.time() % 3600)
    if not any(block.endswith(time.strftime("%Y%m%d%H")) for block in shm.blocks()):  # another hour has another block
        first.kill()
        for path in shm.blocks():
            os.unlink(path)
        first = Job(rig, f"first-{way}", way, shm)
        rig.wait_ranks(first)
        print(f"  {first.name}: an hour ended: a job of this one")
    first.kill()
    check(shm.blocks(), "no block was left")
    second = Job(rig, f"unresponsive-{way}", way, shm)
    rig.wait_ranks(second)
    time.sleep(4)
    done = rig.ask("capture", "--run", second.name, "--ranks", "all", "--steps", "1")
    check(done.returncode != 0, "an unresponsive job was captured?", done.stdout)
    block = os.path.basename(shm.blocks()[0])
    for rank in range(RANKS):
        told = re.search(rf"rank {rank} is refused: .*", done.stderr)
        check(told and "left by a job that was killed" in told.group(0) and "/dev/shm/" + block in told.group(0),
              f"rank {rank} is not told why:", done.stderr)
    check(not any(second.profiles(rank) for rank in range(RANKS)), "an unresponsive rank recorded")
    second.kill()
    for path in shm.blocks():
        os.unlink(path)
    third = Job(rig, f"mended-{way}", way, shm)
    rig.wait_ranks(third)
    step, _ = capture(rig, third, "all", 1, set(range(RANKS)))
    print(f"  {second.name}: refused, and after what was told: all at step {step}")
    third.kill()


def main():
    python = find_python()
    wheel = find_wheel(python)
    if not shutil.which("unshare") or not shutil.which("nsenter"):
        skip("no unshare and nsenter")
    rig = Rig(python, wheel)
    job = shm = None
    try:
        for way in ("env", "dp"):
            print(f"{way}:", flush=True)
            shm = Shm()
            job = Job(rig, f"job-{way}", way, shm)
            rig.wait_ranks(job)
            on_all_and_on_some(rig, job)
            while_one_runs(rig, job)
            with_a_killed_creator(rig, job)
            unresponsive_and_mended(rig, shm, way, job)
            job.kill()
            shm.close()
    except BaseException:
        with open(rig.log.name, encoding="utf-8", errors="replace") as file:
            print(file.read()[-6000:], file=sys.stderr)
        raise
    finally:
        for started in Job.all:
            started.kill()
        rig.close()
        shutil.rmtree(rig.folder, ignore_errors=True)
    print("npu: passed")


if __name__ == "__main__":
    main()
