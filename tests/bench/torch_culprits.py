#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does the diagnosis name the right culprit of real PyTorch jobs? Recorded once, judged as often as wanted: a table.

    torch_culprits.py JOBS [--worlds 2,4,8] [--times 3] [--kinds stall,clean,...] [--live] [--busy 0] [--record-only | --judge-only] [--list]

JOBS is a folder: what was recorded there before is used again, what is missing is recorded (nice 10). Each world is one training
job (torch_job.py, DDP over gloo on this machine) in which the troubles come one after the other. Without --live each is
recorded by torch.profiler's schedule (8 or 30 steps) and read by `rankscope analyse`; with --live it is captured while the job
runs, by `rankscope capture` with --steps 5, --steps 30 and --duration 2s. --busy N: N loops that do nothing but compute beside it.

right   all that was planted is named above `weak` and nothing else; of `every-3` with its period; of `moves` nobody, and jitter is told
hidden  nobody is named, and what was planted is listed as not worth fixing: other waiting hides it
silent  nobody is named; `more`: of these, how many say how many more steps would tell
wrong   somebody else is named, too
Exit 1 when anybody innocent was named.
"""
import argparse
import collections
import importlib.util
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
VENV = os.environ.get("RANKSCOPE_TORCH_VENV") or os.path.expanduser("~/.cache/rankscope/torch-2.15.0")
JOB = ROOT / "tests/bench/torch_job.py"
SHARE = 0.3  # of a healthy step
LIVE = {"live-5": ["--steps", "5"], "live-30": ["--steps", "30"], "live-2s": ["--duration", "2s"]}
KINDS = {  # name: (steps, ranks that are meant, trouble of them)
    "clean-8": (8, 0, lambda ranks: {}),
    "clean-30": (30, 0, lambda ranks: {}),
    "stall-8": (8, 1, lambda ranks: {"stall": {"ranks": ranks, "share": SHARE}}),
    "stall-30": (30, 1, lambda ranks: {"stall": {"ranks": ranks, "share": SHARE}}),
    "every-3": (30, 1, lambda ranks: {"stall": {"ranks": ranks, "share": SHARE, "every": 3}}),
    "moves": (30, -1, lambda ranks: {"stall": {"moves": True, "share": SHARE, "seed": ranks[0]}}),
    "double-8": (8, 1, lambda ranks: {"double": {"ranks": ranks}}),
    "double-30": (30, 1, lambda ranks: {"double": {"ranks": ranks}}),
    "two-stalls": (30, 2, lambda ranks: {"stall": {"ranks": ranks, "share": SHARE}}),
}
COMMON = ("imbalance", "jitter")


def plan_of(kinds, world, times):
    """Recordings in an order that does not put all of one kind beside the same moment of the machine."""
    plan = []
    for number in range(times):
        for kind in kinds:
            steps, count, trouble = KINDS[kind]
            if count == 2 and world < 4:  # of two ranks, two are all
                continue
            rng = random.Random(f"{kind} {world} {number}")
            ranks = sorted(rng.sample(range(world), max(1, count)))
            plan.append({"name": f"{kind}-{number}", "kind": kind, "steps": steps, "phase": rng.randrange(3),
                         "trouble": trouble(ranks), "ranks": ranks if count > 0 else []})
    return plan


def busy_loops(count):
    return [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]


def end_all(processes):
    for process in processes:
        process.kill()
        process.wait()


def torchrun(world, words):
    port = str(30100 + os.getpid() % 900)
    return ["nice", "-n", "10", os.path.join(VENV, "bin", "torchrun"), "--nproc-per-node", str(world), "--master-port", port, str(JOB), *words]


def record(folder, kinds, world, arguments):
    plan = [job for job in plan_of(kinds, world, arguments.times) if not (folder / job["name"] / "trouble.json").exists()]
    if not plan:
        return
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plan.json").write_text(json.dumps(plan))
    loops = busy_loops(arguments.busy)
    try:
        with open(folder / "log", "w", encoding="utf-8") as log:
            done = subprocess.run(torchrun(world, [str(folder / "plan.json"), "--record", str(folder)]), stdout=log, stderr=log,
                                  check=False, env=dict(os.environ, OMP_NUM_THREADS="1"))
    finally:
        end_all(loops)
    if done.returncode != 0:
        sys.exit(f"torch_culprits: the job failed, see {folder / 'log'}")


def analyse(program, folder):
    with tempfile.TemporaryDirectory() as out:
        done = subprocess.run([program, "analyse", folder, "-o", os.path.join(out, "o"), "--quiet"], capture_output=True, text=True, check=False)
        if done.returncode not in (0, 1):
            sys.exit(f"torch_culprits: {folder}: {done.stderr}")
        return json.loads(pathlib.Path(out, "o", "report.json").read_text())


# ---- live ------------------------------------------------------------------------------------

def load_rig(program, world):
    """The rig of the end-to-end test: an aggregator, a collector, one job."""
    os.environ["RANKSCOPE"] = str(program)
    spec = importlib.util.spec_from_file_location("test_torch", ROOT / "tests/e2e/torch/test_torch.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.WORLD = world
    return module


def set_trouble(control, trouble):
    part = control.with_suffix(".part")
    part.write_text(json.dumps(trouble))
    os.rename(part, control)


def capture(rig, job, mode, folder):
    out = os.path.join(rig.folder, "out")
    shutil.rmtree(out, ignore_errors=True)
    words = [rig.program, "capture", "--connect", rig.address, "--run", rig.run, "--timeout", "90s", *LIVE[mode], "-o", out]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False, env=rig.environment)
    if done.returncode not in (0, 1) or not os.path.exists(os.path.join(out, "report.json")):
        print(f"torch_culprits: {job['name']} {mode}: not captured, exit {done.returncode}: {done.stderr[-500:]}", file=sys.stderr, flush=True)
        return
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(os.path.join(out, "report.json"), folder / f"{mode}.json")
    (folder / "trouble.json").write_text(json.dumps(job))


def record_live(folder, kinds, world, arguments):
    kinds = [kind for kind in kinds if not kind.endswith("-8")]  # how many steps is the capture's own question
    plan = plan_of(kinds, world, arguments.times)
    wanted = [(job, mode) for job in plan for mode in LIVE if not (folder / job["name"] / f"{mode}.json").exists()]
    if not wanted:
        return
    module = load_rig(arguments.rankscope, world)
    loops = busy_loops(arguments.busy)
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="rs-tc-") as scratch:
        rig = module.Rig(scratch, os.path.join(VENV, "bin", "torchrun"))
        rig.program = arguments.rankscope
        control = pathlib.Path(scratch, "control.json")
        set_trouble(control, {})
        try:
            rig.start_job(str(JOB), str(control))
            for job, mode in wanted:
                set_trouble(control, job["trouble"])
                capture(rig, job, mode, folder / job["name"])
        finally:
            end_all(loops)
            rig.stop()


# ---- judging ---------------------------------------------------------------------------------

def ranks_of(where):
    ranks = set()
    for key, value in where.items():
        ranks |= {value} if key == "rank" else set(value) if key in ("ranks", "pair") else set()
        ranks |= set(value.values()) if key == "link" else set()
        ranks |= set().union(*map(ranks_of, value)) if key == "all" else set()
    return ranks


def judge(job, report, is_short):
    named = [f for f in report["findings"] if f["confidence"] != "weak" and f["kind"] not in COMMON]
    planted = set(job["ranks"])
    said = set().union(*[ranks_of(f["where"]) for f in named], set())
    if any(not ranks_of(f["where"]) or not ranks_of(f["where"]) <= planted for f in named):
        return "wrong"
    if job["kind"] == "moves":
        return "right" if is_short or any(f["kind"] == "jitter" for f in report["findings"]) else "silent"
    if not planted:
        return "right"
    if not named:
        return "hidden" if any(ranks_of(f["where"]) == planted for f in report["not_worth_fixing"]) else "silent"
    if said != planted:
        return "part"
    if job["kind"] == "every-3" and not is_short and named[0]["steps"]["period"] != 3:
        return "no period"
    return "right"


def describe(job, report):
    def one(finding):
        test, steps = finding["test"], finding["steps"]
        return (f"{finding['kind']} {sorted(ranks_of(finding['where']))} {100 * finding['share']:.1f} % {finding['confidence']} x{test['factor']} "
                f"p {test['p']:.2g} hit {steps['hit']}/{steps['seen']} period {steps['period']}")
    said = "; ".join(one(f) for f in report["findings"]) or "nobody"
    close = "; ".join(f"{f['kind']} {sorted(ranks_of(f['where']))} {f['more_steps']} more" for f in report.get("undecided", []))
    return (f"{job['name']} planted {job['ranks']} of a step of {report['loss']['step_ns'] / 1e6 if report['loss']['step_ns'] else 0:.1f} ms: {said}"
            f"{' | undecided: ' + close if close else ''}")


def reports(folder, kinds, world, arguments):
    """(row of the table, job, report)"""
    for job in plan_of(kinds, world, arguments.times):
        own = folder / job["name"]
        if not own.exists():
            continue
        if arguments.live:
            for mode in LIVE:
                if (own / f"{mode}.json").exists():
                    yield f"{job['kind'].rsplit('-30', 1)[0]} {mode}", job, json.loads((own / f"{mode}.json").read_text()), mode != "live-30"
        elif (own / "trouble.json").exists():
            yield job["kind"], job, analyse(arguments.rankscope, own), False


def main():
    words = argparse.ArgumentParser()
    words.add_argument("jobs", type=pathlib.Path)
    words.add_argument("--rankscope", type=pathlib.Path, default=ROOT / "build/dev/rankscope")
    words.add_argument("--worlds", default="2,4,8")
    words.add_argument("--times", type=int, default=3)
    words.add_argument("--kinds", default=",".join(KINDS))
    words.add_argument("--live", action="store_true")
    words.add_argument("--busy", type=int, default=0)
    words.add_argument("--record-only", action="store_true")
    words.add_argument("--judge-only", action="store_true")
    words.add_argument("--list", action="store_true", help="every job that is not right")
    arguments = words.parse_args()
    kinds = arguments.kinds.split(",")
    name = ("live" if arguments.live else "schedule") + (f"-busy{arguments.busy}" if arguments.busy else "")
    wrong = 0
    print(f"{'ranks':>5} {'trouble':22} {'n':>3} {'right':>5} {'hidden':>6} {'silent':>6} {'(more)':>6} {'part':>4} {'no period':>9} {'wrong':>5}")
    for world in map(int, arguments.worlds.split(",")):
        folder = arguments.jobs.resolve() / name / f"ranks{world}"
        if not arguments.judge_only:
            (record_live if arguments.live else record)(folder, kinds, world, arguments)
        rows, more, lines = collections.defaultdict(collections.Counter), collections.Counter(), []
        for row, job, report, is_short in [] if arguments.record_only else reports(folder, kinds, world, arguments):
            verdict = judge(job, report, is_short)
            rows[row][verdict] += 1
            more[row] += verdict == "silent" and bool(report.get("undecided"))
            wrong += verdict == "wrong"
            if verdict != "right":
                lines.append(f"  {verdict}: {row}: {describe(job, report)}")
        for row, count in rows.items():
            print(f"{world:5} {row:22} {sum(count.values()):3} {count['right']:5} {count['hidden']:6} {count['silent']:6} {more[row]:6} {count['part']:4} "
                  f"{count['no period']:9} {count['wrong']:5}", flush=True)
        if arguments.list:
            print("\n".join(lines), flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
