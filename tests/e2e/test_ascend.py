#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ascend result directories through `analyse` and through two collectors.

Two ranks and a job of eight with a planted slow rank and slow link are made (tests/support/ascend_job.py); where ../shared is,
the ranks are real ones of ../shared/data/ascend and the job is made by ../shared/tools/gen_ascend_cluster.py.
"""
import csv
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

import ascend_generations

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
import ascend_inputs  # noqa: E402

PROGRAM = os.environ["RANKSCOPE"]
GENERATOR = ascend_inputs.generator()
OUTPUT = "ASCEND_PROFILER_OUTPUT"
PAIR = {}  # "text", "db" -> a tree of two ranks


def check(condition, *what):
    if not condition:
        raise AssertionError(" ".join(str(w) for w in what))


def analyse(out, *paths):
    done = subprocess.run([PROGRAM, "analyse", *paths, "-q", "-o", out], capture_output=True, text=True)
    return done.returncode, done.stderr


def table(folder, name):
    with open(os.path.join(folder, name), newline="") as file:
        return list(csv.DictReader(file))


def document(folder, name):
    with open(os.path.join(folder, name)) as file:
        return json.load(file)


def generate(folder, *options):
    subprocess.run([sys.executable, GENERATOR, "--out", folder, *options], check=True, stdout=subprocess.DEVNULL)


def rank_folder(tree, rank):
    for name in sorted(os.listdir(tree)):
        if os.path.exists(os.path.join(tree, name, "profiler_info_%d.json" % rank)):
            return os.path.join(tree, name)
    raise AssertionError("no rank %d in %s" % (rank, tree))


# ---- what is right ------------------------------------------------------------------------------------------

def own_figures(database):
    """us with three decimals of each (step): the vendor's own rows."""
    with sqlite3.connect("file:%s?immutable=1" % os.path.abspath(database), uri=True) as db:
        rows = db.execute(
            "SELECT step, computing, communication_not_overlapped, overlapped, communication, free, stage, bubble,"
            " communication_not_overlapped_and_exclude_receive, preparing FROM StepTraceTime").fetchall()
    return {str(row[0]): ["%.3f" % value for value in row[1:]] for row in rows}


FIGURES = ["Computing", "Communication(Not Overlapped)", "Overlapped", "Communication", "Free", "Stage", "Bubble",
           "Communication(Not Overlapped and Exclude Receive)", "Preparing"]


def three(row):
    """The figures with three decimals, however many digits the rank's own document has."""
    return ["%.3f" % float(row[name]) for name in FIGURES]


def rows_of(database, sql, *values):
    with sqlite3.connect("file:%s?immutable=1" % os.path.abspath(database), uri=True) as db:
        return db.execute(sql, values).fetchall()


def near(ours, theirs):
    return all(a == b if isinstance(b, str) else abs(a - b) <= 1e-6 for a, b in zip(ours, theirs))


def vendor_rows_are_kept(out, rank, database):
    mine = os.path.join(out, "analysis.db")
    for sql, table_name in (
            ("SELECT step, computing, communication_not_overlapped, overlapped, communication, free, stage, bubble,"
             " communication_not_overlapped_and_exclude_receive, preparing FROM %s", "StepTraceTime"),
            ("SELECT hccl_op_name, group_name, step, type, elapse_time, transit_time, wait_time,"
             " synchronization_time, idle_time FROM %s", "CommAnalyzerTime")):
        theirs = [row for row in rows_of(database, sql % table_name) if row[0] != "Total Op Info"]
        ours = rows_of(mine, sql % table_name + " WHERE rank_id = ?", rank)
        check(theirs and len(ours) == len(theirs) and all(map(near, ours, theirs)), table_name, ours[:3], theirs[:3])
    own = [i for i in document(out, "manifest.json")["inputs"] if i["rank"] == rank][0]["vendor"]
    with open(os.path.join(os.path.dirname(database), "..", "profiler_info_%d.json" % rank)) as file:
        info = json.load(file)
    check(own == {"framework": "torch_npu", "framework_version": info.get("torch_npu_version"),
                  "cann_version": info.get("cann_version")}, own)


def text_keeps_the_vendors_figures(work):
    out = os.path.join(work, "real-text")
    code, errors = analyse(out, PAIR["text"])
    check(code == 0, code, errors)
    mine = os.path.join(out, "analysis.db")
    for rank in (0, 1):
        folder = os.path.join(PAIR["text"], "rank%d_ascend_pt" % rank, OUTPUT)
        steps = table(folder, "step_trace_time.csv")
        ours = rows_of(mine, "SELECT * FROM StepTraceTime WHERE rank_id = ?", rank)
        check(len(ours) == len(steps) > 0, ours, steps)
        for row, own in zip(ours, steps):
            check(near(row[2:-1], [float(own[name]) for name in FIGURES]), row, own)
        wanted = {}
        for step, kinds in document(folder, "communication.json").items():
            for kind, ops in kinds.items():
                for key, op in ops.items():
                    if key != "Total Op Info":
                        wanted[step, kind, key] = op["Communication Time Info"]
        rows = rows_of(mine, "SELECT step, type, hccl_op_name, group_name, elapse_time, transit_time, wait_time,"
                             " synchronization_time, idle_time FROM CommAnalyzerTime WHERE rank_id = ?", rank)
        check(len(rows) == len(wanted) > 0, len(rows), len(wanted))
        for row in rows:
            own = wanted[row[0], row[1], "%s@%s" % (row[2], row[3])]
            check(near(row[4:], [own[name + "(ms)"] for name in ("Elapse Time", "Transit Time", "Wait Time",
                                                                  "Synchronization Time", "Idle Time")]), row, own)


def databases_keep_their_step_rows(work):
    out = os.path.join(work, "real-db")
    code, errors = analyse(out, PAIR["db"])
    check(code == 0, code, errors)
    rows = table(out, "step_trace_time.csv")
    check(len(rows) == 2, rows)
    for row in rows:
        own = own_figures(os.path.join(PAIR["db"], "rank%s_ascend_pt" % row["Rank"], OUTPUT, "analysis.db"))
        check(three(row) == own[row["Step"]], row, own)
    for rank in (0, 1):  # the vendor's own rows stand beside ours
        database = os.path.join(PAIR["db"], "rank%d_ascend_pt" % rank, OUTPUT, "analysis.db")
        vendor_rows_are_kept(out, rank, database)
    keys = document(out, "communication.json")["step50"]["collective"]
    (name, group), = rows_of(os.path.join(PAIR["db"], "rank0_ascend_pt", OUTPUT, "analysis.db"),
                             "SELECT hccl_op_name, group_name FROM CommAnalyzerTime ORDER BY start_timestamp LIMIT 1")
    check(name == "hcom_allReduce__%s_0_1" % group[-3:], name, group)
    check(set(keys["%s@%s" % (name, group)]) == {"0", "1"}, keys)


def mean_step(tree):
    """ns, of the slowest rank of each step."""
    steps = {}
    for name in sorted(os.listdir(tree)):
        if os.path.isdir(os.path.join(tree, name)):
            for row in table(os.path.join(tree, name, OUTPUT), "step_trace_time.csv"):
                steps.setdefault(row["Step"], []).append(sum(float(row[f]) for f in ("Stage", "Bubble", "Preparing")) * 1e3)
    return sum(map(max, steps.values())) / len(steps)


def planted_truth_is_found(work):
    tree = os.path.join(work, "c8")
    generate(tree, "--ranks", "8", "--tp", "2", "--pp", "2", "--steps", "3", "--comm-ops-per-step", "40",
             "--microbatches", "2", "--format", "both")
    truth = document(os.path.join(tree, "db"), "planted.json")
    out = os.path.join(work, "c8-db")
    code, errors = analyse(out, os.path.join(tree, "db"))
    check(code == 0, code, errors)
    for row in table(out, "step_trace_time.csv"):
        own = truth["step_trace_us"][row["Step"]][row["Rank"]]
        check(three(row) == ["%.3f" % value for value in own], row, own)
    findings = document(out, "report.json")["findings"]
    found = {f["kind"]: f for f in findings}
    check(sorted(found) == ["slow_link", "slow_rank"], findings)
    check(found["slow_rank"]["where"] == {"rank": truth["slow_rank"]}, findings)
    link = found["slow_link"]["where"]
    check(set(link.get("pair") or [link["link"]["src"], link["link"]["dst"]]) == set(truth["slow_link"]), findings)
    # what fixing both brings is the difference to the same job without them
    clean = os.path.join(work, "c8-clean")
    generate(clean, "--ranks", "8", "--tp", "2", "--pp", "2", "--steps", "3", "--comm-ops-per-step", "40",
             "--microbatches", "2", "--format", "text", "--slow-rank", "none", "--slow-link", "none")
    brings = mean_step(os.path.join(tree, "text")) - mean_step(clean)
    cost = sum(f["cost_ns_per_step"] for f in findings)
    check(abs(cost - brings) < 0.1 * brings, cost, brings)
    return tree


def text_and_databases_match_each_other(work, tree):
    """Half of the ranks in each form: the same operations are found as in one form."""
    mixed = os.path.join(work, "mixed")
    for rank in range(8):
        source = rank_folder(os.path.join(tree, "db" if rank % 2 else "text"), rank)
        shutil.copytree(source, os.path.join(mixed, os.path.basename(source)))
    out = os.path.join(work, "mixed-out")
    code, errors = analyse(out, mixed)
    # the generator's text form has no trace: each of those ranks says what that leaves unknown
    check(code == 1, code, errors)
    for one in document(out, "manifest.json")["inputs"]:
        if one["rank"] is not None:
            check((one["state"] == "whole") == (one["rank"] % 2 == 1), one)
            check(one["rank"] % 2 or ("no trace_view.json" in one["reason"] and "the profiler's own" in one["reason"]), one)
    reference = table(os.path.join(work, "c8-db"), "collectives.csv")
    rows = table(out, "collectives.csv")
    check(len(rows) == len(reference), len(rows), len(reference))
    groups = {}
    for row in rows:
        groups.setdefault((row["Step"], row["Group"], row["Op"], row["Seq"]), set()).add(row["Rank"])
    wanted = {}
    for row in reference:
        wanted.setdefault((row["Step"], row["Group"], row["Op"], row["Seq"]), set()).add(row["Rank"])
    check(groups == wanted, "other operations than in one form")
    # a machine's id is known to databases only; both forms of one host share its clock all the same
    check(all(bool(row["Wait(ns)"]) for row in rows), "waits across the two forms are missing")


# ---- what is broken -----------------------------------------------------------------------------------------

def broken_ranks_stop_nobody(work, tree):
    broken = os.path.join(work, "broken")
    shutil.copytree(os.path.join(tree, "db"), broken)
    database = os.path.join(rank_folder(broken, 1), OUTPUT, "ascend_pytorch_profiler_1.db")
    with open(database, "r+b") as file:  # cut off
        file.truncate(os.path.getsize(database) // 3)
    shutil.rmtree(rank_folder(broken, 2))  # missing
    info = os.path.join(rank_folder(broken, 3), "profiler_info_3.json")  # unfinished
    with open(info) as file:
        text = json.load(file)
    del text["end_info"]
    with open(info, "w") as file:
        json.dump(text, file)
    raw = rank_folder(broken, 4)  # raw only
    shutil.rmtree(os.path.join(raw, OUTPUT))
    os.makedirs(os.path.join(raw, "FRAMEWORK"))
    older = rank_folder(broken, 6)  # twice, the newer one with quotes in its name
    newer = os.path.join(broken, "it's \"new\"_40006_20260615110640006_ascend_pt")
    shutil.copytree(older, newer)
    out = os.path.join(work, "broken-out")
    code, errors = analyse(out, broken)
    check(code == 1, code, errors)
    manifest = document(out, "manifest.json")
    by_rank = {i["rank"]: i for i in manifest["inputs"] if i["state"] == "whole"}
    check(sorted(by_rank) == [0, 5, 6, 7], manifest["inputs"])
    check(by_rank[6]["path"] == newer, by_rank[6])
    reasons = {i["path"]: (i["state"], i.get("reason", "")) for i in manifest["inputs"] if i["state"] != "whole"}
    check(any(s == "failed" and "cut off" in r for s, r in reasons.values()), reasons)
    check(any(s == "failed" and "not parsed by the vendor's tool yet" in r for s, r in reasons.values()), reasons)
    check(any(s == "failed" and "not finished" in r for s, r in reasons.values()), reasons)
    check(any(s == "skipped" and "newer one is kept" in r for s, r in reasons.values()), reasons)
    check("missing" in errors, errors)
    whole = {(r["Rank"], r["Step"]): r for r in table(os.path.join(work, "c8-db"), "step_trace_time.csv")}
    rows = table(out, "step_trace_time.csv")
    check(len(rows) == 4 * 3, len(rows))
    for row in rows:  # the others' results are those of the whole job
        check(three(row) == three(whole[row["Rank"], row["Step"]]), row)


RAW = "node1_71_20260102030405006_ascend_pt"


def raw_folder(place, has_end):
    """As torch_npu leaves it before anybody has parsed it."""
    folder = os.path.join(place, RAW)
    os.makedirs(os.path.join(folder, "FRAMEWORK"))
    os.makedirs(os.path.join(folder, "PROF_000001_20260102030405006_ABC", "device_3", "data"))
    with open(os.path.join(folder, "FRAMEWORK", "torch.op_range"), "wb") as file:
        file.write(bytes(range(256)))
    if has_end:
        with open(os.path.join(folder, "profiler_info_7.json"), "w") as file:
            json.dump({"rank_id": "7", "end_info": {"collectionTimeEnd": 1}}, file)


def raw_data_is_named_by_every_verb(work):
    alone = os.path.join(work, "alone")
    os.makedirs(os.path.join(alone, "PROF_000001_20260102030405006_ABC", "host"))
    raw, going = os.path.join(work, "raw"), os.path.join(work, "going")
    raw_folder(raw, True)
    raw_folder(going, False)
    for place, name, sentence in ((raw, RAW, "not parsed by the vendor's tool yet"),
                                  (going, RAW, "not finished"),
                                  (alone, "PROF_000001_20260102030405006_ABC", "not parsed by the vendor's tool yet")):
        for words in (["analyse", place, "-q"], ["cluster", place], ["recipe", "slow_rank", place],
                      ["export", "ascend", place]):
            done = subprocess.run([PROGRAM, *words, "-o", os.path.join(work, "raw-out")], capture_output=True, text=True)
            check(done.returncode == 2 and sentence in done.stderr, words, done.returncode, done.stderr)
            check(name in done.stderr or "rank 7" in done.stderr, words, done.stderr)
        kept = [name for _, _, names in os.walk(place) for name in names]
        check(place != raw or sorted(kept) == ["profiler_info_7.json", "torch.op_range"], kept)


def truncated_trace_is_partial(work):
    broken = os.path.join(work, "cut-text")
    shutil.copytree(PAIR["text"], broken)
    for root, folders, files in os.walk(broken):
        for name in folders + files:
            os.chmod(os.path.join(root, name), 0o755)
    os.chmod(broken, 0o755)
    trace = os.path.join(broken, "rank1_ascend_pt", OUTPUT, "trace_view.json")
    with open(trace, "r+b") as file:
        file.truncate(os.path.getsize(trace) * 2 // 3)
    out = os.path.join(work, "cut-text-out")
    code, errors = analyse(out, broken)
    check(code == 1, code, errors)
    states = {i["rank"]: i for i in document(out, "manifest.json")["inputs"] if i["rank"] is not None}
    check(states[0]["state"] == "whole", states)
    check(states[1]["state"] == "partial" and "cut off" in states[1]["reason"], states)


def inputs_stay_as_they_are(work, tree):
    """A database that a viewer left in WAL mode is read, and nothing appears beside it."""
    copy = os.path.join(work, "wal")
    shutil.copytree(os.path.join(tree, "db"), copy)
    database = os.path.join(rank_folder(copy, 5), OUTPUT, "ascend_pytorch_profiler_5.db")
    viewer = sqlite3.connect(database)
    viewer.execute("PRAGMA journal_mode=WAL")
    viewer.execute("PRAGMA wal_autocheckpoint=0")
    viewer.execute("ALTER TABLE TASK ADD COLUMN depth INTEGER")
    viewer.execute("CREATE TABLE status_info (id INTEGER PRIMARY KEY, key TEXT, value TEXT)")
    viewer.commit()
    kept = os.path.join(work, "kept")
    shutil.copytree(os.path.dirname(database), kept)  # with its -wal, as after a crash
    viewer.close()
    shutil.rmtree(os.path.dirname(database))
    shutil.copytree(kept, os.path.dirname(database))
    for name in os.listdir(os.path.dirname(database)):
        if name.endswith("-shm"):
            os.unlink(os.path.join(os.path.dirname(database), name))
    before = {n: os.path.getsize(os.path.join(os.path.dirname(database), n))
              for n in os.listdir(os.path.dirname(database))}
    check(any(n.endswith("-wal") for n in before), before)
    out = os.path.join(work, "wal-out")
    code, errors = analyse(out, copy)
    check(code == 0, code, errors)
    after = {n: os.path.getsize(os.path.join(os.path.dirname(database), n))
             for n in os.listdir(os.path.dirname(database))}
    check(before == after, before, after)
    check(table(out, "step_trace_time.csv") == table(os.path.join(work, "c8-db"), "step_trace_time.csv"),
          "other figures")


# ---- through collectors --------------------------------------------------------------------------------------

class Daemons:
    def __init__(self, work):
        self.work = work
        self.address = "unix:" + os.path.join(work, "aggregator.sock")
        self.running = []

    def start(self, name, *words):
        log = open(os.path.join(self.work, name + ".log"), "wb")
        process = subprocess.Popen([PROGRAM, *words, "-v"], stdout=subprocess.PIPE, stderr=log)
        self.running.append(process)
        return process

    def aggregator(self):
        process = self.start("aggregator", "aggregator", "--listen", self.address, "--data",
                             os.path.join(self.work, "data"))
        check(b"listening" in process.stdout.readline(), "the aggregator did not start")

    def collector(self, name, folder):
        self.start(name, "collector", "--connect", self.address, "--spool", os.path.join(self.work, name),
                   "--watch", folder, "--run", "job", "--settle", "5s", "--node", name, "--no-native")

    def ask(self, *words):
        done = subprocess.run([PROGRAM, *words, "--connect", self.address, "--json"], capture_output=True)
        return json.loads(done.stdout) if done.stdout else None

    def closed_captures(self, seconds):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            listing = self.ask("capture", "list")
            if listing and listing["captures"] and all(c["closed_ns"] for c in listing["captures"]):
                return listing["captures"]
            time.sleep(0.2)
        raise AssertionError("the capture was not closed in time")

    def stop(self):
        for process in reversed(self.running):
            process.send_signal(signal.SIGTERM)
            process.wait(120)
            process.stdout.close()


DELIVERABLES = ["step_trace_time.csv", "step_breakdown.csv", "rank_breakdown.csv", "collectives.csv",
                "communication.json", "communication_matrix.json", "report.json"]


CLUSTER = ["cluster_communication.json", "cluster_communication_matrix.json", "communication_group.json",
           "cluster_step_trace_time.csv"]


def cluster_of(out, *words):
    done = subprocess.run([PROGRAM, "cluster", *words, "-o", out, "--form", "both", "-q"], capture_output=True,
                          text=True)
    check(done.returncode in (0, 1), words, done.stderr)
    return done.returncode, [line for line in done.stderr.splitlines() if "left out" in line]


def cluster_output_is_as_offline(place, capture, watched):
    """The official deliverables: of the capture as of the folders that were streamed."""
    ours, theirs = os.path.join(place, "cluster"), os.path.join(place, "cluster-offline")
    streamed = cluster_of(ours, capture["id"], "--data", os.path.join(place, "data"))
    offline = cluster_of(theirs, *watched)
    check(streamed == offline, streamed, offline)
    for name in CLUSTER:
        with open(os.path.join(ours, "cluster_analysis_output", name), "rb") as a, \
                open(os.path.join(theirs, "cluster_analysis_output", name), "rb") as b:
            check(a.read() == b.read(), name, "of the capture differs from offline")
    dumps = []
    for folder in (ours, theirs):
        with sqlite3.connect(os.path.join(folder, "cluster_analysis_output", "cluster_analysis.db")) as db:
            if db.execute("SELECT 1 FROM sqlite_master WHERE name = 'RankDeviceMap'").fetchone():
                db.execute("UPDATE RankDeviceMap SET profilePath = ''")  # the ranks' folders are other ones
            dumps.append(list(db.iterdump()))
    check(dumps[0] == dumps[1], "cluster_analysis.db of the capture differs from offline")
    return len(dumps[0])


def export_is_as_offline(place, capture, watched):
    """What the profilers recorded is in the capture, so its ranks' folders are written as of the files."""
    found = []
    for name, words in (("export", [capture["id"], "--data", os.path.join(place, "data")]), ("export-offline", watched)):
        done = subprocess.run([PROGRAM, "export", "ascend", *words, "-o", os.path.join(place, name), "-q"], capture_output=True,
                              text=True)
        check(done.returncode in (0, 1), words, done.stderr)
        files = {}
        for folder, _, names in os.walk(os.path.join(place, name)):
            for file in names:
                path = os.path.join(folder, file)
                if path.endswith(".db"):
                    with sqlite3.connect(path) as db:
                        said = list(db.iterdump())
                else:
                    with open(path, "rb") as data:
                        said = data.read()
                files[os.path.relpath(path, os.path.join(place, name))] = said
        found.append(files)
    check(sorted(found[0]) == sorted(found[1]), sorted(set(found[0]) ^ set(found[1])))
    for name, said in found[0].items():
        check(said == found[1][name], "export:", name, "of the capture differs from offline")
    return len(found[0])


def streamed_is_as_offline(work, form):
    """Two collectors, a rank each; one of the folders appears while they watch, before it is finished."""
    place = os.path.join(work, "stream-" + form)
    watched = [os.path.join(place, "node%d" % rank) for rank in range(2)]
    daemons = Daemons(place)
    os.makedirs(watched[0])
    os.makedirs(watched[1])
    sources = [os.path.join(PAIR[form], "rank%d_ascend_pt" % rank) for rank in range(2)]
    subprocess.run(["cp", "-r", "--no-preserve=mode", sources[0], watched[0]], check=True)
    raw_folder(watched[0], True)
    os.makedirs(os.path.join(watched[1], "PROF_000001_20260102030405006_ABC", "host"))
    try:
        daemons.aggregator()
        for rank in range(2):
            daemons.collector("collector%d" % rank, watched[rank])
        late = os.path.join(watched[1], "rank1_ascend_pt")
        os.makedirs(late)
        time.sleep(1.2)
        subprocess.run("cp -r --no-preserve=mode '%s'/. '%s'" % (sources[1], late), shell=True, check=True)
        captures = daemons.closed_captures(60)
        check(len(captures) == 1, captures)
        stored = os.path.join(place, "report")
        done = subprocess.run([PROGRAM, "report", captures[0]["id"], "--data", os.path.join(place, "data"), "-q", "-o",
                               stored], capture_output=True, text=True)
        check(done.returncode == 0, done.returncode, done.stderr)
        done = subprocess.run([PROGRAM, "verify", captures[0]["directory"], "-q"], capture_output=True, text=True)
        check(done.returncode == 0, done.returncode, done.stdout, done.stderr)
        with open(os.path.join(place, "collector0.log")) as log:  # one was there that nobody has parsed
            check("%s is waited for: it holds raw data only, not parsed by the vendor's tool yet" % RAW in
                  "".join(line.replace(watched[0] + "/", "") for line in log), "the raw folder was not told")
        check(os.path.exists(os.path.join(watched[0], RAW, "FRAMEWORK", "torch.op_range")), "raw data is gone")
        with open(os.path.join(place, "collector1.log")) as log:
            check("it is raw data of CANN's own profiler" in log.read(), "the PROF_ folder was not told")
        shutil.rmtree(os.path.join(watched[0], RAW))
        shutil.rmtree(os.path.join(watched[1], "PROF_000001_20260102030405006_ABC"))
        rows = cluster_output_is_as_offline(place, captures[0], watched)
        files = export_is_as_offline(place, captures[0], watched)
        print("    export, %s: %d files the same" % (form, files))
        print("    cluster output, %s: %d files and %d rows of tables the same" % (form, len(CLUSTER), rows))
    finally:
        daemons.stop()
    offline = os.path.join(place, "offline")
    code, errors = analyse(offline, *watched)
    check(code == 0, code, errors)
    for name in DELIVERABLES:
        with open(os.path.join(stored, name), "rb") as a, open(os.path.join(offline, name), "rb") as b:
            check(a.read() == b.read(), form, name, "differs from offline")
    dumps = [sorted(line for line in sqlite3.connect(os.path.join(folder, "analysis.db")).iterdump()
                    if "RankManifest" not in line) for folder in (stored, offline)]
    check(dumps[0] == dumps[1], form, "analysis.db differs from offline")


def main():
    with tempfile.TemporaryDirectory(prefix="rs-ascend-") as work:
        PAIR.update(ascend_inputs.either_pair(os.path.join(work, "pair")))
        print("two ranks of %s, jobs of %s" % (PAIR["db"], GENERATOR))
        databases_keep_their_step_rows(work)
        print("ok: databases keep their step rows")
        text_keeps_the_vendors_figures(work)
        print("ok: the vendor's own figures beside ours")
        tree = planted_truth_is_found(work)
        print("ok: step rows, slow rank and slow link as planted")
        text_and_databases_match_each_other(work, tree)
        print("ok: text and databases in one job")
        broken_ranks_stop_nobody(work, tree)
        print("ok: broken, missing, unfinished, raw and double ranks")
        raw_data_is_named_by_every_verb(work)
        print("ok: raw and unfinished folders are named")
        ascend_generations.run(work, analyse, cluster_of, check, os.path.join(tree, "db"),
                               PAIR["text"])
        print("ok: generations of the formats")
        truncated_trace_is_partial(work)
        print("ok: a truncated trace is partial")
        inputs_stay_as_they_are(work, tree)
        print("ok: a database with a WAL left behind")
        for form in ("db", "text"):
            streamed_is_as_offline(work, form)
            print("ok: two collectors,", form, "as offline")


if __name__ == "__main__":
    main()
