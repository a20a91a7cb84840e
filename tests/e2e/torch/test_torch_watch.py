#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A real PyTorch job whose rank 2 turns slow is noticed by probes, captured beside a healthy rank, and rank 2 is named.

By the aggregator's standing watch, which tells a webhook; meanwhile, of processes that keep to the profiler's rules (kineto_client.py), by
`rankscope watch`. Probes are made as often as can be here; lists have none of them, and none is left, not even by one that was killed
in the middle. The PyTorch is that of test_torch.py.
"""
import concurrent.futures
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from test_kineto_clients import Rig as ClientRig  # noqa: E402
from test_torch import PROGRAM, check, find_torch  # noqa: E402
from test_torch_steps import StepsRig  # noqa: E402
from test_webhook import Receiver  # noqa: E402

PROBES = 6  # that are learnt first
OFTEN = ("2s", "50%")
ENDED = ("complete", "partial", "failed", "stopped")


class WatchRig(StepsRig):
    """With an aggregator that watches."""

    def watch_steps(self, *words):
        self.aggregator.terminate()
        self.aggregator.wait(120)
        self.aggregator.stdout.close()
        self.aggregator_log = open(os.path.join(self.folder, "aggregator.log"), "wb")
        self.aggregator = subprocess.Popen([PROGRAM, "aggregator", "--listen", self.address, "--data", os.path.join(self.folder, "data"), "-v", *words],
                                           stdout=subprocess.PIPE, stderr=self.aggregator_log, env=self.environment)
        check(b"listening" in self.aggregator.stdout.readline(), "the aggregator did not start")

    def said(self):
        with open(os.path.join(self.folder, "aggregator.log"), encoding="utf-8") as file:
            return file.read()

    def asked(self, *words, codes=(0,)):
        done = subprocess.run([PROGRAM, *words, "--connect", self.address], capture_output=True, text=True, timeout=60, check=False,
                              env=self.environment)
        check(done.returncode in codes, f"{words}: exit {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def listed(self):
        return [capture["id"] for capture in json.loads(self.asked("capture", "list", "--json"))["captures"]]

    def until(self, is_so, why, limit_s=300):
        end = time.monotonic() + limit_s
        while not is_so():
            check(time.monotonic() < end, f"{why}\n{self.said()[-4000:]}")
            time.sleep(0.2)


def check_kept(rig, capture, has_strayed):
    """It is of the suspect and one healthy rank, and says why it was made. Where no probe since the change was of the slow rank, the others have
    told that steps take longer, and nobody is suspected: it is of all then."""
    kept = json.loads(rig.asked("capture", "show", capture, "--json", codes=(1,) if has_strayed else (0,)))
    request = kept["request"]
    why = request["metadata"]["watch"]
    why = json.loads(why) if isinstance(why, str) else why
    is_of_all = why["reason"].startswith("steps take ")
    check(request["ranks"] in (("all", "0-3") if is_of_all else ("1,2", "2,3")), f"ranks {request['ranks']} were captured")
    check([suspect["rank"] for suspect in why["suspects"]] == ([] if is_of_all else [2]), f"suspected: {why}")
    check((is_of_all or why["reason"].startswith("rank 2 takes ")) and why["since_ns"] > 0, f"why: {why}")
    check(has_strayed or "Rank 2 " in rig.asked("report", capture), f"capture {capture} does not name rank 2")


def kept_in(folder):
    return sorted(name for name in os.listdir(os.path.join(folder, "data", "captures")) if not name.startswith("."))


def standing_watch(folder, torchrun):
    receiver = Receiver()
    rig = WatchRig(folder, torchrun)
    slow = os.path.join(folder, "slow")
    try:
        rig.watch_steps("--webhook", receiver.url + "/told", "--step-watch", "--step-probes", "--step-probe-every", OFTEN[0], "--step-probe-share", OFTEN[1])
        rig.start_job("train_ddp.py", "--pause-ms", "100", "--sleep-rank", "2", "--sleep-ms", "150", "--sleep-when", slow)
        rig.until(lambda: rig.said().count("step-watch: probe ") >= PROBES, "too few probes were read")
        check(rig.listed() == [], "a probe is listed")
        check(not receiver.taken, f"something was told of a job that is well: {receiver.taken}")
        open(slow, "w", encoding="utf-8").close()
        begun = time.monotonic()
        rig.until(lambda: len(receiver.taken) >= 2, "nothing was noticed")
        events = [json.loads(body) for _, _, body in receiver.taken[:2]]
        print(f"==== noticed and named {time.monotonic() - begun:.1f} s after the change: {events[0]['text']}; {events[1]['text']}", flush=True)
        # Of 20 captures by steps one may stray, by design: it says so, and need not name anybody.
        has_strayed = events[1]["event"] == "capture_failed" and "not the same time" in events[1]["text"]
        check([events[0]["event"], events[1]["event"]] == ["regression", "capture_failed" if has_strayed else "culprit_found"], f"told: {events}")
        check(events[0]["capture"] == events[1]["capture"] and (has_strayed or "Rank 2 " in events[1]["text"]), f"told: {events}")
        check((events[1]["time_ns"] - events[0]["time_ns"]) / 1e9 < 60, f"named late: {events}")
        check_kept(rig, events[0]["capture"], has_strayed)
        # Killed while a probe is under way: it is nobody's then.
        rig.until(lambda: len(kept_in(folder)) == 2, "no other probe began")
        rig.aggregator.kill()
        rig.watch_steps()
        left = [name for name in kept_in(folder) if name != events[0]["capture"]]
        check(len(left) == 1, f"kept: {left}")
        rig.until(lambda: json.loads(rig.asked("capture", "show", left[0], "--json", codes=(0, 1)))["state"] in ENDED, "it does not end")
        check(rig.listed() == [events[0]["capture"]], "a probe is listed")
        rig.watch_steps()
        rig.until(lambda: kept_in(folder) == [events[0]["capture"]], f"the probe {left} stays")
        check(rig.listed() == [events[0]["capture"]], "a capture that is no probe went")
    finally:
        if rig.job:
            rig.job.send_signal(signal.SIGTERM)
        rig.stop()
        receiver.shutdown()
        receiver.server_close()


def asked_watch(folder):
    """`rankscope watch`, of ranks that poll twice a second."""
    rig = ClientRig(folder)
    longer = os.path.join(folder, "longer")
    watching = None
    try:
        for rank in range(4):
            rig.start_client("fake", rank, 4, "--step", "0.1", "--longer-when", longer, *(["--is-cause"] if rank == 3 else []))
        rig.ask("ranks", "--run", "fake", "--wait", "4", "--timeout", "60s", "-q")
        said = open(os.path.join(folder, "watch.log"), "w+", encoding="utf-8")
        watching = subprocess.Popen([PROGRAM, "watch", "fake", "--connect", rig.address, "--alarms", "1", "--json", "--probe-every", OFTEN[0],
                                     "--probe-share", OFTEN[1]], stdout=subprocess.PIPE, stderr=said, text=True, env=rig.environment)
        end = time.monotonic() + 180
        while "watching; steps take" not in text_of(said):
            check(time.monotonic() < end and watching.poll() is None, f"it has not learnt: {text_of(said)}")
            time.sleep(0.2)
        open(longer, "w", encoding="utf-8").close()
        out, _ = watching.communicate(timeout=180)
        alarm = json.loads(out)
        print(f"==== rankscope watch: {alarm['why']['reason']}; captured as {alarm['capture']}", flush=True)
        check("its ranks tell no steps: 4 of 4 are recorded" in text_of(said), text_of(said))
        check(watching.returncode == 0 and alarm["ranks"] == "2,3" and alarm["first_step"] is None, f"exit {watching.returncode}, {alarm}")
        check([suspect["rank"] for suspect in alarm["why"]["suspects"]] == [3], f"suspected: {alarm}")
        check(kept_in(folder) == [alarm["capture"]], f"probes stayed: {kept_in(folder)}")
    finally:
        if watching and watching.poll() is None:
            watching.kill()
        rig.stop()


def text_of(file):
    file.flush()
    with open(file.name, encoding="utf-8") as again:
        return again.read()


def main():
    torchrun = find_torch()
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="rs-watch-") as folder, tempfile.TemporaryDirectory(dir="/tmp", prefix="rs-watch-") as other:
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            both = [pool.submit(standing_watch, folder, torchrun), pool.submit(asked_watch, other)]
            for one in both:
                one.result()
    print("watch: right")


if __name__ == "__main__":
    main()
