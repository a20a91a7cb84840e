#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every rule of requests can fire: one line each, asked of real daemons and real processes, and the same with that mended, where the rule
is silent.

    native     librankscope, two ranks; a capture was made of them, so that what a step comes to is known
    kineto     two processes that keep to Kineto's rules: one has a PyTorch without CUDA, the other an old C library
    npu        two that keep to torch_npu's
    ms         two that keep to MindSpore's; they need a /dev/shm of their own (root), else their lines are skipped

Nothing is recorded for the table itself (--dry-run). `rules.def` is read: a rule without a line here fails.
"""
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import unittest

import unittest_run

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "mindspore"))
from rig_native import BUILD, PROGRAM, Rig  # pylint: disable=wrong-import-position

HERE = os.path.dirname(os.path.abspath(__file__))
RULES = os.path.join(HERE, "..", "..", "common", "request", "rules.def")
# Only a program of another version speaks of a rule that this one does not know: answer_message_test.
ELSEWHERE = {"other-rule"}
FAR = 10**9  # a step that nobody comes to


def sets(*pairs):
    return [word for pair in pairs for word in ("--set", pair)]


def npu(**keys):
    """A profiler_config.json of torch_npu, as --config takes it."""
    return {"start_step": -1, **keys}


def mindspore(**keys):
    return {"start_step": FAR, "stop_step": FAR + 1, **keys}


def exp(**keys):
    return npu(experimental_config=keys)


LONG = "1" * 5000
# rule: (run, what breaks it, what does not). A dict is the document of --config, a string the text of --request.
TABLE = {
    # documents
    "syntax": ("native", '{"schema_version": 1,}', '{"schema_version": 1}'),
    "empty": ("native", "", '{"schema_version": 1}'),
    "too-long": ("native", '{"schema_version": 1}' + " " * (1 << 20), '{"schema_version": 1}' + " " * 1000),
    "unknown-key": ("native", '{"schema_version": 1, "rank": "0"}', '{"schema_version": 1, "ranks": "0"}'),
    "wrong-type": ("native", '{"schema_version": 1, "force": 1}', '{"schema_version": 1, "force": true}'),
    "out-of-range": ("native", sets("schedule.active=0"), sets("schedule.active=1")),
    "unknown-name": ("native", sets("activities=CPU,GPU"), sets("activities=CPU")),
    "bad-text": ("native", '{"schema_version": 1, "job_id": "a\\nb"}', '{"schema_version": 1, "job_id": "native"}'),
    "too-many": ("native", json.dumps({"schema_version": 1, "env_allow": [f"A{i}" for i in range(1025)]}), '{"schema_version": 1}'),
    "other-version": ("native", '{"schema_version": 2}', '{"schema_version": 1}'),
    "activity-unknown": ("npu", npu(activities=["CPU", "CUDA"]), npu(activities=["CPU"])),
    "activities-none": ("npu", npu(activities=["CUDA"]), npu(activities=["NPU"])),
    "export-unknown": ("npu", exp(export_type=["db", "xml"]), exp(export_type=["db"])),
    "msprof-tx": ("npu", exp(msprof_tx=True), exp(mstx=True)),
    "numbered-name": ("ms", mindspore(profiler_level=1), mindspore(profiler_level="Level1")),
    "step-pair": ("ms", {"start_step": 5, "stop_step": 4}, mindspore()),
    # what, where, how much
    "capture-id": ("native", sets("capture_id=a/b"), sets("capture_id=a.b")),
    "start-never": ("native", npu(start_step=0), npu()),
    "start-below": ("native", sets("start_step=-2"), sets("start_step=-1")),
    "start-and-time": ("native", sets(f"start_step={FAR}", "start_time_ns=5"), sets(f"start_step={FAR}")),
    "start-after-max": ("native", sets(f"start_step={FAR}", f"max_step={FAR - 1}"), sets(f"start_step={FAR}", f"max_step={FAR}")),
    "warmup-zero": ("kineto", sets(), sets("schedule.warmup=1")),
    "warmup-not-said": ("native", sets("dialect=torch", "origin=api"), sets("dialect=torch")),
    "repeat-advice": ("native", sets("schedule.repeat=2"), sets()),
    "schedule-short": ("native", sets("schedule.active=10", f"start_step={FAR}", f"max_step={FAR + 9}"),
                       sets("schedule.active=10", f"start_step={FAR}", f"max_step={FAR + 10}")),
    "shapes-need-cpu": ("npu", sets("activities=NPU", "record_shapes=true"), sets("activities=CPU", "record_shapes=true")),
    "stack-needs-cpu": ("npu", sets("activities=NPU", "with_stack=true"), sets("with_stack=true")),
    "modules-need-cpu": ("npu", sets("activities=NPU", "with_modules=true"), sets("with_modules=true")),
    "flops-need-cpu": ("npu", sets("activities=NPU", "with_flops=true"), sets("with_flops=true")),
    "flops-not-parsed": ("npu", sets("with_flops=true"), sets()),
    "stack-inflates": ("kineto", sets("with_stack=true"), sets()),
    "modules-inflate": ("kineto", sets("with_modules=true"), sets()),
    "memory-no-layer": ("kineto", sets("activities=XPU", "profile_memory=true"), sets("activities=CPU", "profile_memory=true")),
    "level-none-no-mstx": ("npu", exp(profiler_level="Level_none"), exp(profiler_level="Level_none", mstx=True)),
    "aic-reset": ("npu", exp(aic_metrics="Memory"), exp(aic_metrics="Memory", profiler_level="Level1")),
    "op-attr-needs-db": ("npu", exp(op_attr=True), exp(op_attr=True, export_type=["db"])),
    "op-attr-needs-level": ("npu", exp(op_attr=True, profiler_level="Level_none"), exp(op_attr=True)),
    "op-args-alone": ("npu", exp(record_op_args=True, l2_cache=True), exp(record_op_args=True)),
    "gc-negative": ("npu", exp(gc_detect_threshold=-0.5), exp(gc_detect_threshold=0.5)),
    "gc-zero": ("npu", exp(gc_detect_threshold=0), exp(gc_detect_threshold=1)),
    "include-needs-mstx": ("npu", exp(mstx_domain_include=["a"]), exp(mstx_domain_include=["a"], mstx=True)),
    "exclude-needs-mstx": ("npu", exp(mstx_domain_exclude=["a"]), exp(mstx_domain_exclude=["a"], mstx=True)),
    "domains-both": ("npu", exp(mstx=True, mstx_domain_include=["a"], mstx_domain_exclude=["b"]), exp(mstx=True, mstx_domain_include=["a"])),
    "osrt-heavy": ("npu", exp(host_sys=["osrt"]), exp(host_sys=["cpu"])),
    "extra-dialect": ("npu", sets("experimental.extra.a=b"), sets("dialect=torch", "experimental.extra.a=b")),
    # MindSpore's own profiler
    "memory-op-time": ("native", sets("dialect=mindspore", "mindspore.op_time=false", "profile_memory=true"), sets("profile_memory=true")),
    "communication-op-time": ("native", sets("dialect=mindspore", "mindspore.op_time=false", "mindspore.profile_communication=true"),
                              sets("dialect=mindspore", "mindspore.profile_communication=true")),
    "aicore-op-time": ("native", sets("dialect=mindspore", "mindspore.op_time=false", "mindspore.aicore_metrics=1"),
                       sets("dialect=mindspore", "mindspore.aicore_metrics=1")),
    "timeline-op-time": ("native", sets("dialect=mindspore", "mindspore.op_time=false", "timeline_limit_mb=7"),
                         sets("dialect=mindspore", "timeline_limit_mb=7")),
    # paths, names, limits
    "prof-dir-path": ("native", sets("prof_dir=/a/../b"), sets("prof_dir=/a/b")),
    "spool-dir-path": ("native", sets("spool_dir=/a b"), sets("spool_dir=/a")),
    "worker-name-chars": ("native", sets("worker_name={rank}/x"), sets("worker_name={rank}")),
    "worker-name-shared": ("native", sets("worker_name=x"), ["--ranks", "0", *sets("worker_name=x")]),
    "duration-force": ("native", sets("max_duration_s=301"), ["--force", *sets("max_duration_s=301")]),
    "duration-above": ("native", sets("max_duration_s=2", "duration_ms=2001"), sets("max_duration_s=2", "duration_ms=2000")),
    "metadata-long": ("native", json.dumps({"schema_version": 1, "metadata": {"k": LONG}}), '{"schema_version": 1, "metadata": {"k": 1}}'),
    "roles-shape": ("native", sets('metadata={"distributed_args": {"tp": 2}}'), sets('metadata={"distributed_args": {"tp": 2, "dp": 1}}')),
    "env-name": ("native", sets("env_allow=HCCL_*"), sets("env_allow=HCCL_ALGO")),
    # ranks
    "ranks-expression": ("native", ["--ranks", "0,"], ["--ranks", "0"]),
    "rank-list-ignored": ("native", sets("rank_list=1"), sets("rank_list=1", "is_rank=true")),
    "rank-list-empty": ("native", sets("is_rank=true"), sets("is_rank=true", "rank_list=1")),
    "no-ranks": ("native", ["--ranks", "!all"], ["--ranks", "all"]),
    "unknown-ranks": ("native", ["--ranks", "0,7"], ["--ranks", "0,1"]),
    "unknown-names": ("native", ["--ranks", "node=nope"], ["--ranks", "one-per-node"]),
    "analyse-is-rank": ("npu", npu(analyse=True, is_rank=True, rank_list=[0]), npu(analyse=True, is_rank=True, rank_list=[0], async_mode=True)),
    "parses-beside": ("npu", npu(analyse=True), npu(analyse=True, async_mode=True)),
    "not-honoured": ("kineto", sets("experimental.l2_cache=true"), sets()),
    "start-passed": ("native", sets("start_step=1"), sets(f"start_step={FAR}")),
    "ends-early": ("native", sets("schedule.active=2", "max_step=2"), sets("schedule.active=2", f"max_step={FAR}")),
    "step-unknown": ("kineto", sets(f"start_step={FAR}"), sets()),
    "no-duration": ("npu", sets("duration_ms=500"), sets()),
    "no-start-time": ("npu", sets("start_step=0", "start_time_ns=5"), sets()),
    "activity-missing": ("kineto", ["--ranks", "0", *sets("activities=CPU,CUDA")], ["--ranks", "1", *sets("activities=CPU,CUDA")]),
    "no-activity": ("kineto", ["--ranks", "0", *sets("activities=CUDA")], ["--ranks", "1", *sets("activities=CUDA")]),
    "glibc": ("kineto", ["--ranks", "1", "--profile-memory"], ["--ranks", "0", "--profile-memory"]),
    "headroom-disk": ("native", sets("schedule.active=2147483647"), sets()),
    "headroom-memory": ("native", sets("schedule.active=2147483647"), sets()),
    "headroom-none": ("native", sets("schedule.active=2147483647"), sets()),
    "mindspore-subset": ("ms", ["--ranks", "0", *sets(f"start_step={FAR}")], sets(f"start_step={FAR}")),
    "mindspore-no-step": ("ms", sets("start_step=-1"), sets(f"start_step={FAR}")),
}
# What needs a capture under way, or one before.
IN_TIME = {"busy", "queued", "queue-full", "replaces", "mindspore-same-pair"}


def old_libc(folder):
    """A C library that says it is 2.31: this host's, with another banner."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        path = re.search(r"/\S+/libc\.so\.6$", maps.read(), re.MULTILINE).group(0)
    with open(path, "rb") as file:
        text = file.read()
    found = re.findall(rb"release version 2\.(\d\d)", text)
    if len(found) != 1:
        raise AssertionError(f"{path} has {len(found)} banners")
    os.mkdir(folder)
    with open(os.path.join(folder, "libc.so.6"), "wb") as file:
        file.write(text.replace(b"release version 2." + found[0], b"release version 2.31"))
    return folder


class Jobs:
    """One of each kind."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="rs-rules-")
        os.chmod(self.folder, 0o755)
        self.processes, self.shm, self.ms = [], None, None
        self.sockets = os.path.join(self.folder, "sockets")
        self.torch = os.path.join(self.folder, "torch", "lib")
        os.mkdir(self.sockets)
        os.makedirs(self.torch)
        with open(os.path.join(self.torch, "libtorch_cpu.so"), "wb") as file:
            file.write(bytes(4096))

    def collector_words(self):
        words = ["--kineto", "--kineto-socket-dir", self.sockets, "--trace-dir", os.path.join(self.folder, "traces")]
        return [*words, "--mindspore-config", os.path.join(self.folder, "ms"), "--mindspore-way", "step"]

    def start(self, words, **environment):
        self.processes.append(subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=dict(os.environ, **environment)))

    def start_kineto(self):
        client = [sys.executable, os.path.join(HERE, "kineto_client.py")]
        common = {"KINETO_USE_DAEMON": "1", "KINETO_IPC_SOCKET_DIR": self.sockets, "WORLD_SIZE": "2", "RANKSCOPE_RUN": "kineto"}
        self.start([*client, "--libraries", self.torch], RANK="0", LOCAL_RANK="0", **common)
        self.start(client, RANK="1", LOCAL_RANK="1", LD_LIBRARY_PATH=old_libc(os.path.join(self.folder, "old")), **common)

    def start_npu(self):
        config = os.path.join(self.folder, "npu")
        os.mkdir(config)
        self.start([os.path.join(BUILD, "light_npu"), "--cfg", config, "--ranks", "2", "--step-us", "20000", "--poll-ms", "200", "--block",
                    f"DynamicProfileNpuShm-rules-{os.getpid()}", "--env"], RANKSCOPE_RUN="npu")

    def start_ms(self):
        """False: it cannot be had here."""
        import rig  # pylint: disable=import-outside-toplevel
        os.mkdir(os.path.join(self.folder, "ms"))
        with open(os.path.join(self.folder, "ms", "profiler_config.json"), "w", encoding="utf-8") as file:
            json.dump({"start_step": -1, "stop_step": -1, "analyse_mode": -1}, file)
        try:
            self.shm = rig.Shm()
        except SystemExit:
            return False
        self.ms = rig.Job(self.folder, "ms", [sys.executable, os.path.join(HERE, "mindspore", "light.py"), "--config",
                                              os.path.join(self.folder, "ms"), "--way", "step", "--ranks", "2", "--step-ms", "20", "--counter",
                                              os.path.join(self.folder, "counter")], self.shm)
        return True

    def ms_step(self):
        with open(os.path.join(self.folder, "counter"), "rb") as file:
            return struct.unpack("<q", file.read(8))[0]

    def end(self):
        for process in self.processes:
            process.stdin.close()
            process.kill()
            process.wait()
        if self.ms:
            self.ms.kill()
        if self.shm:
            self.shm.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class Rules(unittest.TestCase):
    rig = jobs = None
    has_ms = False

    @classmethod
    def setUpClass(cls):
        if not os.path.exists(os.path.join(BUILD, "light_npu")):
            raise unittest.SkipTest("built without the Ascend wing")
        cls.jobs = Jobs()
        cls.addClassCleanup(cls.jobs.end)
        cls.has_ms = cls.jobs.start_ms()
        cls.rig = Rig(world=2, nodes=1, step_ms=50, run="native", collector_words=cls.jobs.collector_words()).__enter__()
        cls.addClassCleanup(cls.rig.__exit__, None, None, None)
        cls.jobs.start_kineto()
        cls.jobs.start_npu()
        wanted = {"native": 2, "kineto": 2, "npu": 2, **({"ms": 2} if cls.has_ms else {})}
        cls.until(lambda: cls.counts(wanted) == wanted, f"{wanted} are seen")
        cls.rig.wait_ranks(2)

    @classmethod
    def counts(cls, wanted):
        runs = [rank["run"] for rank in cls.rig.ranks() if rank["can_capture"]]
        return {run: runs.count(run) for run in wanted}

    @classmethod
    def until(cls, holds, what, seconds=300):
        end = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > end:
                raise AssertionError(what)
            time.sleep(0.2)

    def ask(self, run, asked):
        """What `capture` is told: {rule}."""
        words = ["--run", run, "--dry-run", "--json", "--steps", "3"]
        if isinstance(asked, list):
            words += asked
        else:
            path = os.path.join(self.jobs.folder, "asked.json")
            with open(path, "w", encoding="utf-8") as file:
                file.write(asked if isinstance(asked, str) else json.dumps(asked))
            words = [*words[:4], "--request" if isinstance(asked, str) else "--config", path]
        if any("schedule.active" in word or "duration_ms" in word for word in words):
            words = [word for word in words if word not in ("--steps", "3")]
        done = subprocess.run([PROGRAM, "capture", "--connect", self.rig.address, *words], capture_output=True, text=True, check=False,
                              timeout=60)
        self.assertIn(done.returncode, (0, 1, 2, 3), done.stderr)
        rules = set(re.findall(r"\[([a-z0-9-]+)\]$", done.stderr, re.MULTILINE))
        if done.stdout:
            answer = json.loads(done.stdout)
            for notes in (answer["notes"], *(rank["notes"] for rank in answer["ranks"])):
                rules |= {note["rule"] for note in notes}
        return rules

    def start(self, run, *words):
        process = subprocess.Popen([PROGRAM, "capture", "--connect", self.rig.address, "--run", run, "--no-report", *words],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait, 60)
        return process

    def state(self, run, state):
        return [c["id"] for c in self.rig.captures() if c["run"] == run and c["state"] == state]

    def test_no_rule_is_left_out(self):
        with open(RULES, encoding="utf-8") as file:
            rules = set(re.findall(r'^X\(\w+, *"([a-z-]+)"', file.read(), re.MULTILINE))
        self.assertEqual(rules, set(TABLE) | IN_TIME | ELSEWHERE)
        self.assertEqual(len(TABLE) + len(IN_TIME) + len(ELSEWHERE), len(rules))

    def test_each_rule_fires_and_is_silent_without_reason(self):
        self.assertEqual(self.start("native", "--steps", "3").wait(60), 0)  # what a step comes to is known then
        skipped = set()
        for rule, (run, broken, calm) in TABLE.items():
            if run == "ms" and not self.has_ms:
                skipped.add(rule)
                continue
            with self.subTest(rule=rule):
                self.assertIn(rule, self.ask(run, broken))
                self.assertNotIn(rule, self.ask(run, calm))
        print(f"rules: {len(TABLE) - len(skipped)} fire in a run", flush=True)
        if skipped:
            self.skipTest("no MindSpore ranks here: " + ", ".join(sorted(skipped)))

    def test_what_ranks_can_record_is_listed(self):
        """Who asks for something else is refused (no-activity) or told that it is ineffective (activity-missing)."""
        def listed():
            return {(rank["run"], rank["rank"]): rank["activities"] for rank in self.rig.ranks()}

        # Its PyTorch was built without CUDA and XPU; libraries are looked at a second time some seconds after the first.
        self.until(lambda: listed()["kineto", 0] == ["CPU", "MTIA"], "what a PyTorch without CUDA can record", 60)
        ranks = listed()
        self.assertIsNone(ranks["native", 0])  # there is nothing to choose
        self.assertEqual(ranks["kineto", 1], ["CPU", "CUDA", "XPU", "MTIA"])  # no PyTorch is seen: nothing is ruled out
        self.assertEqual(ranks["npu", 1], ["CPU", "NPU"])

    def test_who_is_busy(self):
        self.assertFalse(self.ask("native", []) & {"busy", "queued", "queue-full", "replaces"})
        config = os.path.join(self.jobs.folder, "profiler_config.json")
        with open(config, "w", encoding="utf-8") as file:
            json.dump(npu(active=2), file)
        self.start("native", "--steps", "1000")
        self.until(lambda: self.state("native", "recording"), "one records")
        self.assertIn("busy", self.ask("native", ["--on-busy", "refuse"]))
        self.assertIn("queued", self.ask("native", []))
        self.start("native", "--config", config)
        self.until(lambda: self.state("native", "queued"), "one waits")
        self.assertIn("queue-full", self.ask("native", []))
        self.assertIn("replaces", self.ask("native", ["--config", config]))
        for capture in (*self.state("native", "queued"), *self.state("native", "recording")):
            self.rig.ask("capture", "stop", capture)

    def test_an_activity_that_recorded_nothing_is_told_of(self):
        """Whether rank 1 has a GPU is not known when it is asked."""
        for activities, is_told in (("CPU,CUDA", True), ("CPU", False)):
            out = os.path.join(self.jobs.folder, "out-" + activities)
            done = subprocess.run([PROGRAM, "capture", "--connect", self.rig.address, "--run", "kineto", "--ranks", "1", "--steps", "2", "-o", out,
                                   *sets("activities=" + activities)], capture_output=True, text=True, check=False, timeout=120)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(os.path.join(out, "manifest.json"), encoding="utf-8") as file:
                notes = json.load(file)["notes"]
            told = "activities: CUDA asked for, and nothing of a device was recorded on rank 1"
            self.assertEqual(told in notes, is_told, notes)

    def test_mindspore_does_not_take_the_same_steps_twice(self):
        if not self.has_ms:
            self.skipTest("no MindSpore ranks here")
        step = self.jobs.ms_step() + 300
        asked = sets(f"start_step={step}", "schedule.active=2")
        self.assertNotIn("mindspore-same-pair", self.ask("ms", asked))
        first = self.start("ms", "--steps", "2", "--start-step", str(step), "--timeout", "30s")
        self.until(lambda: self.state("ms", "recording"), "it is under way")
        self.until(lambda: "mindspore-same-pair" in self.ask("ms", asked), "the same steps are asked for again")
        for capture in self.state("ms", "recording"):
            self.rig.ask("capture", "stop", capture)
        first.wait(60)


if __name__ == "__main__":
    unittest_run.main(verbosity=1)
