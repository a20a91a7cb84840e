#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random damage to real Kineto traces, against an oracle in Python that reads the damaged files itself.

    tests/bench/mutations_kineto.py [--count 200] [--seed 1] [--only NAME]

One rank of each of ten recordings suffers `count` mutations: rows dropped, the file cut, rows reordered, a member renamed, a value
retyped, a number made huge, rows doubled. `analyse` reads it (with the other ranks of its job, where there are some), and what it
says of the rank is held against the oracle's:

    rank_breakdown    unions of device rows by class; of a rank without a device, of gloo rows and operators
    step_breakdown    windows that tile the capture (contracts section 4)
    step_trace_time   Computing, Communication, Overlapped, Free and Stage by the database algorithm
    collectives       communication rows of the rank begin and end as the file says; members that were joined are of one operation,
                      as the undamaged files' own numbers and times tell; never exact without all; Wait follows from the starts

A result is *right* (all of it), *said* (it differs, the exit code is 1 or 2, and an input is not whole, rows are counted as dropped, or there is a
note that the undamaged recording has not) or *silent*. Silent ones are printed with what differs; the exit code is 1 if there are any. Not in CI: its
last table stands in docs/notes.

RANKSCOPE: the program; SHARED: where the recordings are (../shared).
"""
import argparse
import collections
import csv
import decimal
import gzip
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile

PROGRAM = os.path.abspath(os.environ.get("RANKSCOPE", "build/release/rankscope"))
SHARED = os.path.abspath(os.environ.get("SHARED", "../shared"))
KINDS = ["drop", "cut", "reorder", "rename", "retype", "outlier", "duplicate"]
DEVICE = {"kernel": None, "gpu_memcpy": "memory", "gpu_memset": "memory"}
LAUNCHES = ("cuda_runtime", "cuda_driver")
FAR = 60 * 86400 * 10**9


# ---- a file, and damage to its text ----

class Trace:
    """Text of a trace with the places of its rows; what the damage touches is one row's text, everything else stays as it was."""

    def __init__(self, text):
        self.text = text
        at = text.index('"traceEvents"')
        at = text.index("[", at) + 1
        self.begin, self.rows = at, []
        decoder = json.JSONDecoder(parse_float=lambda _: 0.0)
        blank = re.compile(r"[\s,]*")
        while True:
            at = blank.match(text, at).end()
            if text[at] == "]":
                break
            _, end = decoder.raw_decode(text, at)
            self.rows.append(text[at:end])
            at = end
        self.end = at

    def with_rows(self, rows):
        return self.text[:self.begin] + "\n" + ",\n".join(rows) + "\n" + self.text[self.end:]


def spell(value):
    """JSON with numbers as the file had them."""
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, dict):
        return "{%s}" % ", ".join("%s: %s" % (json.dumps(k), spell(v)) for k, v in value.items())
    if isinstance(value, list):
        return "[%s]" % ", ".join(spell(v) for v in value)
    return json.dumps(value)


def read(text):
    return json.loads(text, parse_float=decimal.Decimal)


def choose_row(rows, dice):
    """Half of the time a row of those that figures are made of."""
    if dice.random() < 0.5:
        for _ in range(200):
            at = dice.randrange(len(rows))
            if re.search(r'"cat": ?"(kernel|gpu_mem|user_annotation|cuda_runtime)', rows[at]):
                return at
    return dice.randrange(len(rows))


def change(row, kind, dice):
    """One member of a row; what was done."""
    spot = row
    if isinstance(row.get("args"), dict) and row["args"] and dice.random() < 0.5:
        spot = row["args"]
    keys = list(spot)
    if kind == "outlier":
        keys = [key for key in keys if isinstance(spot[key], (int, decimal.Decimal)) and not isinstance(spot[key], bool)]
    if not keys:
        return "nothing"
    key = dice.choice(keys)
    if kind == "rename":
        spot["tomorrow " + key] = spot.pop(key)
    elif kind == "retype":
        spot[key] = dice.choice([None, "soon", [], {}, True])
    else:
        spot[key] = dice.choice([spot[key] * 1000003, spot[key] * -1, 0, 10**30])
    return key


def damage(trace, kind, dice):
    """The damaged text, and a word for it."""
    rows = list(trace.rows)
    if kind == "cut":
        at = dice.randrange(len(trace.text) // 10, len(trace.text) - 1)
        return trace.text[:at], "at %d" % at
    if kind == "reorder":
        dice.shuffle(rows)
        return trace.with_rows(rows), "all rows"
    some = [choose_row(rows, dice) for _ in range(dice.choice([1, 2, 5]))]
    if kind == "drop":
        return trace.with_rows([row for at, row in enumerate(rows) if at not in some]), str(some)
    if kind == "duplicate":
        return trace.with_rows(rows + [rows[at] for at in some]), str(some)
    row = read(rows[some[0]])
    what = "%s of %s" % (change(row, kind, dice), rows[some[0]][:120].replace("\n", " "))
    rows[some[0]] = spell(row)
    return trace.with_rows(rows), what


# ---- the oracle ----

class Unclear(Exception):
    """Nobody can say what the file means: it has to be said."""


def number(value):
    if isinstance(value, bool) or not isinstance(value, (int, decimal.Decimal)):
        raise Unclear("no number: %r" % (value,))
    return value


def lane_of(row):
    """Process and thread of a row of the host."""
    return number(row.get("pid")), number(row.get("tid"))


def identity(value):
    """What links a launch and its kernel; -1: nothing does."""
    whole = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63
    return value if whole else -1


def union(spans):
    """Sorted, disjoint."""
    made = []
    for start, end in sorted(spans):
        if end <= start:
            continue
        if made and start <= made[-1][1]:
            made[-1][1] = max(made[-1][1], end)
        else:
            made.append([start, end])
    return made


def length(spans, start=None, end=None):
    if start is None:
        return sum(b - a for a, b in spans)
    return sum(max(0, min(b, end) - max(a, start)) for a, b in spans)


def minus(spans, others):
    made, at = [], 0
    for start, end in spans:
        while at < len(others) and others[at][1] <= start:
            at += 1
        k = at
        while k < len(others) and others[k][0] < end:
            if others[k][0] > start:
                made.append([start, others[k][0]])
            start = max(start, others[k][1])
            k += 1
        if start < end:
            made.append([start, end])
    return made


def both(a, b):
    return length(a) + length(b) - length(union(a + b))


class Oracle:
    """What a file says, row by row. Raises Unclear where a row that matters cannot be read."""

    def __init__(self, text):
        document = read(text)
        if not isinstance(document, dict) or not isinstance(document.get("traceEvents"), list):
            raise Unclear("no list of rows")
        self.work, self.launch, self.gloo, self.ops = [], {}, [], collections.defaultdict(list)
        self.calls, self.steps = collections.defaultdict(list), {}
        base = document.get("baseTimeNanoseconds", 0)
        self.base = number(base)
        for row in document["traceEvents"]:
            self.take(row)
        self.place()

    def take(self, row):
        if not isinstance(row, dict) or not isinstance(row.get("ph"), str):
            raise Unclear("no row")
        if row["ph"] in "BE":
            raise Unclear("half a span")
        if row["ph"] != "X":
            return
        category, name = row.get("cat"), row.get("name")
        if category in ("python_function", "cuda_event"):
            return  # no figure is made of these, whatever they hold
        if not isinstance(category, str) or not isinstance(name, str):
            raise Unclear("no category or name")
        if category == "Trace":
            return
        start = int(number(row.get("ts")) * 1000) + self.base
        span = (start, start + int(number(row.get("dur")) * 1000))
        if span[1] < span[0] or not -2**62 < start < 2**62 or span[1] - start > FAR:
            raise Unclear("no time")
        args = row.get("args") if isinstance(row.get("args"), dict) else {}
        if category in DEVICE:
            correlation = identity(args.get("correlation"))
            kind = DEVICE[category] or ("communication" if re.match(r"nccl|rccl", name) else "computing")
            if re.match(r"Memcpy|Memset", name) and category == "kernel":
                kind = "memory"
            self.work.append((span, kind, int(number(row.get("pid"))), correlation, name))
        elif category in LAUNCHES:
            key = identity(args.get("correlation"))
            if key >= 0:
                if key not in self.launch or span[0] < self.launch[key]:
                    self.launch[key] = span[0]
        elif category == "user_annotation" and name.startswith("gloo:"):
            self.gloo.append((span, lane_of(row), name))
        elif category == "cpu_op":
            lane = lane_of(row)
            where = self.calls if re.match(r"c10d::|_c10d_functional::|c10d_functional::", name) else self.ops
            where[lane].append(span)
        if category in ("user_annotation", "cpu_op"):
            found = re.fullmatch(r"ProfilerStep#(\d+)", name)
            if found:
                known = self.steps.get(int(found[1]), span)
                self.steps[int(found[1])] = (min(known[0], span[0]), max(known[1], span[1]))
        elif category not in DEVICE and category not in LAUNCHES and category not in (
                "python_function", "gpu_user_annotation", "overhead", "cuda_sync", "cuda_event", "ac2g", "fwdbwd"):
            raise Unclear("an unknown category")

    def place(self):
        """Work by device; the step of each by its launch."""
        starts = sorted([s[0] for s in self.steps.values()] + [row[0][0] for row in self.work] + [s[0] for s, _, _ in self.gloo])
        middle = starts[len(starts) // 2] if starts else 0
        if any(abs(start - middle) > FAR for start in starts):
            raise Unclear("a row of another time")
        self.has_device = bool(self.work)
        self.devices = collections.defaultdict(list)
        if self.has_device:
            for span, kind, device, correlation, name in self.work:
                at = self.launch.get(correlation, span[0]) if correlation >= 0 else span[0]
                self.devices[device].append((span, kind, self.step_at(at), correlation, name))
            return
        for (start, end), _, name in self.gloo:
            self.devices[-1].append(((start, end), "communication", self.step_at(start), -1, name))
        lanes = {lane: union(spans) for lane, spans in self.ops.items()}
        for lane, spans in lanes.items():
            away = union(self.calls[lane] + [s for s, own, _ in self.gloo if own == lane])
            for start, end in minus(spans, away):
                self.devices[-1].append(((start, end), "computing", self.step_at(start), -1, ""))

    def step_at(self, at):
        for step, (start, end) in sorted(self.steps.items(), key=lambda item: item[1]):
            if start <= at < end:
                return step
        return None

    def spans(self, device, kind, step=None):
        return [span for span, own, at, _, _ in self.devices[device] if own == kind and (step is None or at == step)]

    def rank_rows(self):
        made = {}
        for device, rows in self.devices.items():
            kinds = {kind: union(self.spans(device, kind)) for kind in ("computing", "communication", "memory")}
            busy = union([row[0] for row in rows])
            window = max(row[0][1] for row in rows) - min(row[0][0] for row in rows)
            overlap = both(kinds["computing"], kinds["communication"])
            made[device] = [window, length(busy), window - length(busy), length(kinds["computing"]),
                            length(kinds["communication"]), length(kinds["memory"]), overlap,
                            length(kinds["communication"]) - overlap]
        return made

    def step_rows(self):
        """(device, step) -> (Window, Computing, ExposedCommunication, Memory) of the breakdown, and the official five in ns."""
        made = {}
        order = sorted(self.steps.items(), key=lambda item: item[1][0])
        for device, rows in self.devices.items():
            computing, communication = union(self.spans(device, "computing")), union(self.spans(device, "communication"))
            exposed = minus(communication, computing)
            bare = minus(union(self.spans(device, "memory")), union(computing + communication))
            ends, firsts = {}, {}
            for (start, end), _, step, correlation, _ in rows:
                if step is not None and correlation >= 0:
                    ends[step] = max(end, ends.get(step, end))
                    firsts[step] = min(start, firsts.get(step, start))
            windows = [(firsts.get(step, host[0]), max(ends.get(step, host[1]), host[1])) for step, host in order]
            chosen = collections.defaultdict(list)
            for span, kind, _, _, _ in rows:
                if kind == "memory":
                    continue
                for (step, _), (start, end) in zip(order, windows):
                    if start <= span[0] < end:
                        chosen[step].append((span, kind))
                        break
            at = order[0][1][0] if order else 0
            for step, host in order:
                end = ends.get(step, host[1]) if self.has_device else host[1]
                end = max(end, at)
                official = None
                if chosen[step]:
                    a = union([s for s, kind in chosen[step] if kind == "computing"])
                    b = union([s for s, kind in chosen[step] if kind == "communication"])
                    extent = max(s[1] for s, _ in chosen[step]) - min(s[0] for s, _ in chosen[step])
                    overlap = both(a, b)
                    official = (length(a), length(b) - overlap, overlap, length(b), extent - length(a) - length(b) + overlap, extent)
                made[device, step] = ((end - at, length(computing, at, end), length(exposed, at, end), length(bare, at, end)), official)
                at = end
        return made

    def communication(self):
        return [(span[0], span[1]) for rows in self.devices.values() for span, kind, _, _, _ in rows if kind == "communication"]


# ---- comparing ----

def table(out, name):
    with open(os.path.join(out, name), encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def compare_rank(oracle, out, rank):
    wrong = []
    mine = {int(row["Device"]): [int(row[name]) for name in list(row)[2:]] for row in table(out, "rank_breakdown.csv")
            if int(row["Rank"]) == rank}
    if mine != oracle.rank_rows():
        wrong.append("rank_breakdown: %s, not %s" % (mine, oracle.rank_rows()))
    if not oracle.steps:
        return wrong
    theirs = oracle.step_rows()
    steps = {(int(row["Device"]), int(row["Step"])): tuple(
        int(row[name]) for name in ("Window(ns)", "Computing(ns)", "ExposedCommunication(ns)", "Memory(ns)"))
        for row in table(out, "step_breakdown.csv") if int(row["Rank"]) == rank}
    if steps != {key: value[0] for key, value in theirs.items()}:
        wrong.append("step_breakdown: %s, not %s" % (steps, {k: v[0] for k, v in theirs.items()}))
    names = ("Computing", "Communication(Not Overlapped)", "Overlapped", "Communication", "Free", "Stage")
    for row in table(out, "step_trace_time.csv"):
        if int(row["Rank"]) != rank:
            continue
        want = theirs.get((int(row["Device_id"]), int(row["Step"])), (0, None))[1]
        shown = tuple(int(decimal.Decimal(row[name]) * 1000) if row[name] else None for name in names)
        if want is not None and shown != want:
            wrong.append("step_trace_time of %s: %s, not %s" % (row["Step"], shown, want))
    return wrong


def compare_operations(oracle, out, rank, truth, lost):
    """`truth`: (rank, start) -> operation of the undamaged job; `lost`: operations of which the damage took a member."""
    wrong, rows = [], table(out, "collectives.csv")
    starts = {start for start, _ in oracle.communication()}
    ends = {end for _, end in oracle.communication()}
    for row in rows:
        if int(row["Rank"]) == rank and (int(row["Start(ns)"]) not in starts or int(row["End(ns)"]) not in ends):
            wrong.append("an operation that is not in the file: %s" % row)
    groups = collections.defaultdict(list)
    for row in rows:
        groups[row["OpId"]].append(row)
    for members in groups.values():
        known = {truth[key] for key in ((int(m["Rank"]), int(m["Start(ns)"])) for m in members) if key in truth}
        if len(known) > 1:
            wrong.append("joined: %s" % [(m["Rank"], m["Start(ns)"], m["Op"]) for m in members])
        if known & lost and members[0]["Coverage"] == "exact":
            wrong.append("exact without a member: %s" % members[0])
        if members[0]["Coverage"] != "exact" or not all(m["Wait(ns)"] for m in members) or \
                members[0]["Op"] not in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier"):
            continue
        last = max(int(m["Start(ns)"]) for m in members)
        for m in members:
            start, end = int(m["Start(ns)"]), int(m["End(ns)"])
            if abs(int(m["Wait(ns)"]) - max(0, min(last - start, end - start))) > 10000:
                wrong.append("Wait of %s" % m)
    return wrong


# ---- the bench ----

def run(folder, out, extra):
    shutil.rmtree(out, ignore_errors=True)
    done = subprocess.run([PROGRAM, "analyse", "--quiet", folder, "-o", out, *extra], stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, check=False, timeout=300)
    manifest = {}
    if os.path.exists(os.path.join(out, "manifest.json")):
        with open(os.path.join(out, "manifest.json"), encoding="utf-8") as file:
            manifest = json.load(file)
    return done.returncode, manifest, done.stderr.decode("utf-8", "replace")


def told(manifest):
    """What a manifest says that is not figures: notes without their numbers, states and dropped rows."""
    said = {re.sub(r"[\d.,]+", "N", note) for note in manifest.get("notes", [])}
    for entry in manifest.get("inputs", []):
        said.add(entry["state"])
        said.update(entry.get("dropped") or {})
        said.add(re.sub(r"[\d.,]+", "N", str(entry.get("reason"))))
    return said


class Case:
    def __init__(self, name, paths, victim, rank, extra=()):
        self.name, self.victim, self.rank, self.extra = name, victim, rank, list(extra)
        self.work = tempfile.mkdtemp(prefix="rs-mutations-")
        self.folder = os.path.join(self.work, "in")
        os.mkdir(self.folder)
        for path in paths:
            name = os.path.basename(path)
            opened = gzip.open if path.endswith(".gz") else open
            with opened(path, "rb") as file, open(os.path.join(self.folder, name.replace(".gz", "")), "wb") as copy:
                shutil.copyfileobj(file, copy)
        self.place = os.path.join(self.folder, victim)
        with open(self.place, encoding="utf-8") as file:
            self.trace = Trace(file.read())
        self.out = os.path.join(self.work, "out")
        code, manifest, said = run(self.folder, self.out, self.extra)
        if code not in (0, 1):
            raise RuntimeError("%s: %s" % (self.name, said))
        self.usual = told(manifest)
        self.truth = {}
        for row in table(self.out, "collectives.csv"):
            if row["Coverage"] == "exact":
                self.truth[int(row["Rank"]), int(row["Start(ns)"])] = int(row["OpId"])
        self.own = {start: op for (rank, start), op in self.truth.items() if rank == self.rank}
        oracle = Oracle(self.trace.text)
        wrong = compare_rank(oracle, self.out, self.rank) + compare_operations(oracle, self.out, self.rank, self.truth, set())
        if wrong:
            raise RuntimeError("%s undamaged: %s" % (self.name, wrong))

    def judge(self, text):
        with open(self.place, "w", encoding="utf-8") as file:
            file.write(text)
        code, manifest, said = run(self.folder, self.out, self.extra)
        try:
            oracle = Oracle(text)
            there = {start for start, _ in oracle.communication()}
            lost = {op for start, op in self.own.items() if start not in there}
            wrong = compare_rank(oracle, self.out, self.rank) + compare_operations(oracle, self.out, self.rank, self.truth, lost)
        except (Unclear, ValueError, KeyError, OSError, TypeError, decimal.DecimalException) as error:
            wrong = ["cannot be read: %r" % error]
        if not wrong:
            return "right", ""
        if code == 2 and said or code == 1 and told(manifest) - self.usual:
            return "said", ""
        return "silent", "exit %d; %s" % (code, "; ".join(wrong)[:600])


def cases():
    data = os.path.join(SHARED, "data", "kineto")
    rank0 = ["--rank-map"]

    def single(name, rank):
        return Case(name, [os.path.join(data, name + ".json.gz")], name + ".json", rank)

    def job(name, victim, rank, extra=(), skip=()):
        folder = os.path.join(data, name)
        return Case(name, [os.path.join(folder, one) for one in sorted(os.listdir(folder))
                           if "json" in one and one != "ranks.json" and one not in skip], victim, rank, extra)

    def mapped(name):
        """Files of on-demand captures are named by pid: the map says which rank each was."""
        with open(os.path.join(data, name, "ranks.json"), encoding="utf-8") as file:
            ranks = json.load(file)
        by_name = {key.replace(".gz", "") if key.endswith(".gz") else key: value for key, value in ranks.items()}
        handle, path = tempfile.mkstemp(suffix=".json")
        with os.fdopen(handle, "w") as file:
            json.dump(by_name, file)
        return rank0 + [path], by_name

    yield "mi250-minitoy", lambda: single("mi250-minitoy", 0)
    yield "triton-example", lambda: single("triton-example", 0)
    yield "cpu-gloo-rank34of300", lambda: single("cpu-gloo-rank34of300", 34)
    yield "a100-nccl-rank0of2", lambda: single("a100-nccl-rank0of2", 0)
    yield "mi300-resnet-rank0of8", lambda: single("mi300-resnet-rank0of8", 0)
    yield "v100-ns-resolution", lambda: single("v100-ns-resolution", 0)
    yield "dlrm-8rank", lambda: job("dlrm-8rank", "worker3_step_12.1694128201557.pt.trace.json", 3)
    yield "gloo-ddp-4rank-api", lambda: job("gloo-ddp-4rank-api", "rank1.pt.trace.json", 1)
    for name in ("gloo-ddp-4rank-ondemand", "gloo-groups-4rank-ondemand"):
        def ondemand(name=name):
            extra, ranks = mapped(name)
            victim = [key for key, rank in ranks.items() if rank == 1][0]
            return job(name, victim, 1, extra)
        yield name, ondemand


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--count", type=int, default=200)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--only", default="")
    options = arguments.parse_args()
    if not os.path.isdir(os.path.join(SHARED, "data", "kineto")):
        print("skipped: %s/data/kineto is not there" % SHARED)
        return 77
    counts, silent = collections.Counter(), 0
    names = [(name, make) for name, make in cases() if options.only in name]
    for name, make in names:
        case, dice = make(), random.Random("%d %s" % (options.seed, name))
        for turn in range(options.count):
            kind = KINDS[turn % len(KINDS)]
            text, what = damage(case.trace, kind, dice)
            verdict, why = case.judge(text)
            counts[name, kind, verdict] += 1
            if verdict == "silent":
                silent += 1
                print("silent:", name, turn, kind, what, why, flush=True)
        shutil.rmtree(case.work)
    print("%-28s %-10s %6s %6s %6s" % ("recording", "mutation", "right", "said", "silent"))
    for name, _ in names:
        for kind in KINDS:
            print("%-28s %-10s %6d %6d %6d" % (name, kind, *(counts[name, kind, one] for one in ("right", "said", "silent"))))
    print("%-39s %6d %6d %6d" % ("all", *(sum(n for key, n in counts.items() if key[2] == one)
                                          for one in ("right", "said", "silent"))))
    return 1 if silent else 0


if __name__ == "__main__":
    sys.exit(main())
