#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`rankscope export ascend`: ranks of any kind as Ascend directories.

What is written is held against what it was made from: `analyse` of the directories gives the figures of `analyse` of
the recordings, the database algorithm written down here a second time gives analysis.db's StepTraceTime, and
`recipe` and `cluster` read the directories as they read the vendor's. Schemas are held against real databases
where ../shared/data is.
"""
import csv
import glob
import json
import os
import shutil
import sqlite3
import subprocess
import tempfile
import unittest

import unittest_run

from test_analyse import SHARED, has_shared, rankscope, rows, write_traces

MAKE_CAPTURE = os.path.join(os.environ.get("RANKSCOPE_BUILD", "build/dev"), "make_capture")
FIGURES = ["computing", "communication_not_overlapped", "overlapped", "communication", "free", "stage", "bubble",
           "communication_not_overlapped_and_exclude_receive", "preparing"]

# What schema 1.2.0 has and the real databases of 1.0.0 have not, or under another name.
NEWER = {"COMPUTE_TASK_INFO": {"blockNum", "mixBlockNum", "opState", "hf32Eligible", "gridDim", "blockDim"},
         "COMMUNICATION_OP": {"deviceId", "rankSize"},
         "COMMUNICATION_TASK_INFO": {"isMaster", "bandwidth"}}
RENAMED = {"blockDim", "mixBlockDim"}
VIEWERS = {"depth", "waitNs"}  # added by a viewer that has opened the file


def query(path, sql, *values):
    database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return database.execute(sql, values).fetchall()
    finally:
        database.close()


def dump(path):
    database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return list(database.iterdump())
    finally:
        database.close()


def tables(path):
    return {name for name, in query(path, "SELECT name FROM sqlite_master WHERE type = 'table'")}


def profiler_db(folder):
    return glob.glob(os.path.join(folder, "ASCEND_PROFILER_OUTPUT", "ascend_pytorch_profiler_*.db"))[0]


def analysis_db(folder):
    return os.path.join(folder, "ASCEND_PROFILER_OUTPUT", "analysis.db")


# ---- the vendor's database algorithm, a second time ----------------------------------------------------

def union(spans):
    merged = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    return merged


def length(spans):
    return sum(end - start for start, end in spans)


def step_figures(path):
    """step -> the nine figures in ns, from the tables."""
    has_steps = "STEP_TIME" in tables(path)
    steps = query(path, "SELECT id, startNs, endNs FROM STEP_TIME ORDER BY startNs") if has_steps else []
    has_api = "CANN_API" in tables(path)
    compute = query(path, "SELECT t.startNs, t.endNs FROM TASK t JOIN COMPUTE_TASK_INFO c USING (globalTaskId)") \
        if "COMPUTE_TASK_INFO" in tables(path) else []
    comm = query(path, "SELECT c.startNs, c.endNs, s.value FROM COMMUNICATION_OP c JOIN STRING_IDS s ON "
                       "s.id = c.opName") if "COMMUNICATION_OP" in tables(path) else []
    found, taken = {}, set()
    for step, start, end in steps or [(None, None, None)]:
        first, last = start, end
        if has_api and step is not None:
            work = query(path, "SELECT min(t.startNs), max(t.endNs) FROM CANN_API a JOIN TASK t ON t.connectionId = "
                               "a.connectionId WHERE a.type = 10000 AND a.startNs >= ? AND a.endNs <= ?", start, end)
            if work[0][0] is not None:
                first, last = work[0][0], max(end, work[0][1])
        # windows may overlap: an operation counts in the first one that holds its start
        inside = [row for row in compute if step is None or first <= row[0] < last and row not in taken]
        told = [row for row in comm if step is None or first <= row[0] < last and row not in taken]
        taken.update(inside + told)
        if not inside and not told:
            continue
        c, m = union(inside), union(row[:2] for row in told)
        both = union(inside + [row[:2] for row in told])
        bubble = sum(row[1] - row[0] for row in told if row[2].startswith("hcom_receive"))
        extent = both[-1][1] - both[0][0]
        exposed = length(both) - length(c)
        found[step] = [length(c), exposed, length(m) - exposed, length(m), extent - length(both), extent - bubble,
                       bubble, max(exposed - bubble, 0), both[0][0] - start if step is not None else None]
    return found


class Export(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="rs-e2e-")
        self.traces = os.path.join(self.folder, "traces")
        self.out = os.path.join(self.folder, "out")

    def tearDown(self):
        shutil.rmtree(self.folder)

    def run_ok(self, *words, codes=(0,)):
        done = rankscope(*words)
        self.assertIn(done.returncode, codes, done.stderr)
        return done

    def export(self, *words, out=None, codes=(0,)):
        """The directories by rank."""
        out = out or self.out
        done = self.run_ok("export", "ascend", *words, "-o", out, "--json", codes=codes)
        return {row["rank"]: row["directory"] for row in json.loads(done.stdout)}

    def check_tables(self, folder):
        """What holds for every directory."""
        for path in (profiler_db(folder), analysis_db(folder)):
            self.assertEqual(query(path, "PRAGMA integrity_check"), [("ok",)])
        path = profiler_db(folder)
        for name in tables(path):
            self.assertGreater(query(path, f"SELECT count(*) FROM {name}")[0][0], 0, name)
        own = query(analysis_db(folder), f"SELECT step, {', '.join(FIGURES)} FROM StepTraceTime")
        again = step_figures(path)
        self.assertEqual(len(own), len(again))
        for row in own:
            step = None if row[0] is None else int(row[0])
            figures = [round(value * 1000) for value in row[1:]]
            expected = again[step]
            if step is None:
                expected[-1] = figures[-1]  # no step: from the recording's start
            self.assertEqual(figures, expected, f"{path} step {step}")
        for name in ("trace_view.json", "communication.json", "communication_matrix.json"):
            file = os.path.join(folder, "ASCEND_PROFILER_OUTPUT", name)
            if os.path.exists(file):
                with open(file, encoding="utf-8") as text:
                    json.load(text)
        self.assertTrue(os.path.exists(os.path.join(folder, "ASCEND_PROFILER_OUTPUT", "analyse.done")))

    def assert_same_figures(self, words, ignored=("Device_id",), same_operations=True):
        """`analyse` of what was exported says what `analyse` of the recordings says."""
        first, second = os.path.join(self.folder, "first"), os.path.join(self.folder, "second")
        self.run_ok("analyse", *words, "-o", first, "--quiet", codes=(0, 1))
        self.run_ok("analyse", self.out, "-o", second, "--quiet", codes=(0, 1))

        def steps(folder):
            # an exported rank has documents of its own, whose digits official tables show: 0.000 and 0 are one figure
            return {(row["Rank"], row["Step"]): {key: float(value) if value and key != "Device_id" else value
                                                 for key, value in row.items() if key not in ignored}
                    for row in rows(folder, "step_trace_time.csv")}
        self.assertEqual(steps(first), steps(second))

        def operations(folder):
            kept = ["Rank", "Op", "Start(ns)", "End(ns)"]
            if same_operations:
                kept += ["Step", "Seq", "Bytes", "Wait(ns)", "Transfer(ns)", "LastRank", "Coverage", "RanksExpected"]
            return sorted(tuple(row[key] for key in kept) for row in rows(folder, "collectives.csv"))
        self.assertEqual(operations(first), operations(second))


class OwnTraces(Export):
    def test_figures_come_back(self):
        write_traces(self.traces)
        made = self.export(self.traces)
        self.assertEqual(sorted(made), [0, 1, 2, 3])
        for folder in made.values():
            self.check_tables(folder)
        self.assert_same_figures([self.traces])

    def test_one_rank_knows_whom_it_waited_for(self):
        write_traces(self.traces, slow=2)
        made = self.export(self.traces, "--rank", "0")
        self.assertEqual(list(made), [0])
        waits = query(analysis_db(made[0]), "SELECT wait_time, transit_time FROM CommAnalyzerTime")
        self.assertEqual(len(waits), 4)
        for wait, transit in waits:
            self.assertEqual(wait, 3.0)  # ms that rank 2 is late
            self.assertAlmostEqual(transit, 10 - 0.1 - 2.5 - 3)

    def test_same_input_same_bytes(self):
        write_traces(self.traces)
        other = os.path.join(self.folder, "other")
        first, second = self.export(self.traces), self.export(self.traces, out=other)
        for rank, folder in first.items():
            self.assertEqual(os.path.basename(folder), os.path.basename(second[rank]))
            for path in glob.glob(os.path.join(folder, "**"), recursive=True):
                twin = os.path.join(second[rank], os.path.relpath(path, folder))
                if os.path.isfile(path):
                    with open(path, "rb") as a, open(twin, "rb") as b:
                        self.assertEqual(a.read(), b.read(), path)

    def test_a_capture_gives_the_same_directories(self):
        write_traces(self.traces)
        done = subprocess.run([MAKE_CAPTURE, os.path.join(self.folder, "data"),
                               *sorted(glob.glob(os.path.join(self.traces, "*")))],
                              capture_output=True, text=True, check=True)
        offline = self.export(self.traces)
        stored = self.export(done.stdout.strip(), out=os.path.join(self.folder, "stored"))
        self.assertEqual(sorted(offline), sorted(stored))
        for rank, folder in offline.items():
            self.assertEqual(dump(profiler_db(folder)), dump(profiler_db(stored[rank])))
            self.assertEqual(dump(analysis_db(folder)), dump(analysis_db(stored[rank])))
        by_name = self.export(os.path.basename(done.stdout.strip()), "--data", os.path.join(self.folder, "data"),
                              out=os.path.join(self.folder, "named"))
        self.assertEqual(sorted(by_name), sorted(stored))
        # no profiler of Ascend's left documents in it; who asks for theirs is told the way
        for words in (["cluster"], ["recipe", "slow_rank"]):
            told = self.run_ok(*words, done.stdout.strip(), "-o", self.out + "-none", codes=(2,))
            self.assertIn("export", told.stderr)
        told = self.run_ok("cluster", done.stdout.strip(), codes=(2,))
        self.assertIn("-o", told.stderr)

    def test_recipes_and_cluster_read_it(self):
        write_traces(self.traces)
        self.export(self.traces)
        result = os.path.join(self.folder, "result")
        for name in ("communication_group_map", "communication_time_sum", "cluster_time_summary", "slow_rank",
                     "hccl_sum", "compute_op_sum", "cann_api_sum"):
            self.run_ok("recipe", name, self.out, "-o", result)
        path = os.path.join(result, "cluster_analysis_output", "cluster_analysis.db")
        self.assertEqual(query(path, "SELECT rank_set FROM CommunicationGroupMapping"), [("(0,1,2,3)",)])
        self.assertEqual(query(path, "SELECT rankId FROM RankscopeSlowRank WHERE verdict = 'slow'"), [(2,)])
        self.run_ok("cluster", self.out, "-o", result)
        steps = query(path, "SELECT DISTINCT step FROM ClusterStepTraceTime WHERE type = 'rank' ORDER BY 1")
        self.assertEqual([str(step) for step, in steps], ["10", "7", "8", "9"])

    def test_bandwidth_of_collectives(self):
        """4,000 bytes in 4.4 ms among 4 ranks: 3/2 of 0.0009 GB/s goes over the bus."""
        write_traces(self.traces)
        self.run_ok("analyse", self.traces, "-o", self.out, "--quiet")
        found = query(os.path.join(self.out, "analysis.db"),
                      "SELECT DISTINCT op, ranks, bytes, time_ns, algorithm_bandwidth, bus_factor, bus_bandwidth, "
                      "transport_type, coverage FROM CollectiveBandwidth")
        self.assertEqual(found, [("all_reduce", 4, 4000, 4400000, 0.000909090909, 1.5, 0.00136363636, "UNKNOWN", "exact")])
        with open(os.path.join(self.out, "report.json"), encoding="utf-8") as file:
            said = json.load(file)["collective_bandwidth"]
        self.assertEqual(len(said), 1)
        self.assertEqual((said[0]["operations"], said[0]["bytes"], said[0]["time_ns"]), (4, 16000, 17600000))
        self.assertAlmostEqual(said[0]["bus_bytes_per_s"], 1.5 * 16000 / 17600000 * 1e9)

    def test_allocations_are_paired_and_named(self):
        def memory(at, address, size, total):
            return {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 7, "tid": 7, "ts": at,
                    "args": {"Total Reserved": 4096, "Total Allocated": total, "Bytes": size, "Addr": address,
                             "Device Id": 0, "Device Type": 1}}

        def operator(name, at, length):
            return {"ph": "X", "cat": "cpu_op", "name": name, "pid": 7, "tid": 7, "ts": at, "dur": length}

        os.makedirs(self.traces)
        with open(os.path.join(self.traces, "rank0.json"), "w", encoding="utf-8") as file:
            json.dump({"baseTimeNanoseconds": 1700000000000000000, "traceEvents": [
                operator("ProfilerStep#1", 0, 100), operator("aten::mm", 10, 20), operator("aten::empty", 12, 4),
                memory(13, 111, 512, 512), memory(20, 222, 256, 768), memory(25, 111, -512, 256),
                memory(40, 111, 64, 320), memory(5, 333, -8, 0)]}, file)
        made = self.export(self.traces)
        names = dict(query(profiler_db(made[0]), "SELECT * FROM STRING_IDS"))
        base = 1700000000000000000
        found = [(names.get(row[0]), row[1], row[2] - base, row[3] and row[3] - base, *row[4:]) for row in
                 query(profiler_db(made[0]), "SELECT name, size, allocationTime, releaseTime, duration,"
                       " allocationTotalAllocated, allocationTotalReserved, releaseTotalAllocated, streamPtr, deviceId"
                       " FROM OP_MEMORY ORDER BY allocationTime")]
        self.assertEqual(found, [
            ("aten::empty", 512, 13000, 25000, 12000, 512, 4096, 256, None, 0),
            ("aten::mm", 256, 20000, None, None, 768, 4096, None, None, 0),
            ("ProfilerStep#1", 64, 40000, None, None, 320, 4096, None, None, 0)])
        self.assertEqual(len(query(profiler_db(made[0]), "SELECT * FROM MEMORY_RECORD")), 5)

    def test_operators_have_the_frames_around_them(self):
        def row(category, name, at, length, tid=7):
            return {"ph": "X", "cat": category, "name": name, "pid": 7, "tid": tid, "ts": at, "dur": length}

        os.makedirs(self.traces)
        with open(os.path.join(self.traces, "rank0.json"), "w", encoding="utf-8") as file:
            json.dump({"baseTimeNanoseconds": 1700000000000000000, "traceEvents": [
                row("cpu_op", "aten::mm", 12, 5), row("cpu_op", "aten::add", 20, 5), row("cpu_op", "aten::sub", 60, 5),
                row("cpu_op", "aten::other", 12, 5, tid=8), row("cpu_op", "aten::late", 95, 5),
                row("python_function", "main.py(1): main", 0, 90), row("python_function", "main.py(9): step", 10, 30),
                row("python_function", "main.py(9): step", 50, 20)]}, file)
        path = profiler_db(self.export(self.traces)[0])
        found = {}
        for name, depth, frame in query(path, "SELECT n.value, c.stackDepth, s.value FROM PYTORCH_API p"
                                        " JOIN STRING_IDS n ON n.id = p.name JOIN PYTORCH_CALLCHAINS c ON c.id = p.callchainId"
                                        " JOIN STRING_IDS s ON s.id = c.stack ORDER BY 1, 2"):
            found.setdefault(name, []).append(frame)
            self.assertEqual(depth, len(found[name]) - 1)
        inner = ["main.py(9): step", "main.py(1): main"]
        self.assertEqual(found, {"aten::mm": inner, "aten::add": inner, "aten::sub": inner})
        self.assertEqual(query(path, "SELECT count(DISTINCT id), count(*) FROM PYTORCH_CALLCHAINS"), [(1, 2)])

    def test_what_cannot_be_done_is_reported(self):
        write_traces(self.traces, world=2)
        self.run_ok("export", "ascend", self.traces, codes=(2,))
        self.run_ok("export", self.traces, "-o", self.out, codes=(2,))
        done = self.run_ok("export", "ascend", self.traces, "-o", self.out, "--rank", "9", codes=(2,))
        self.assertIn("there is no rank 9", done.stderr)
        os.remove(sorted(glob.glob(os.path.join(self.traces, "*")))[1])
        done = self.run_ok("export", "ascend", self.traces, "-o", self.out, codes=(1,))
        self.assertIn("1 of 2 ranks", done.stderr)


PEER = os.path.join(os.environ.get("PEER_HOME", os.path.expanduser("~/.cache/rankscope/msprof")), "bin", "msprof-analyze")


@unittest.skipUnless(has_shared("kineto/dlrm-8rank"), "../shared/data is not here")
@unittest.skipUnless(os.path.exists(PEER), "msprof-analyze is not installed (tests/bench/peers.sh installs it)")
class TheVendorsTool(Export):
    """msprof-analyze's own cluster analysis of exported ranks: it reads them, and says what ours says."""

    # 7 of the list in docs/notes: without metadata the vendor writes 0, we write that it is not known
    UNKNOWN = {"dp_index", "pp_index", "tp_index"}

    def rows_of(self, folder, table):
        path = os.path.join(folder, "cluster_analysis_output", "cluster_analysis.db")
        if table not in tables(path):
            return []
        names = [column[1] for column in query(path, f"PRAGMA table_info({table})")]
        kept = [i for i, name in enumerate(names) if name not in self.UNKNOWN]
        return sorted([tuple(round(row[i], 9) if isinstance(row[i], float) else row[i] for i in kept)
                       for row in query(path, f"SELECT * FROM {table}")], key=str)

    def check_peer(self, *traces, codes=(0,)):
        self.export(*traces, codes=codes)
        theirs, ours = os.path.join(self.folder, "theirs"), os.path.join(self.folder, "ours")
        done = subprocess.run([PEER, "cluster", "-m", "all", "-d", self.out, "-o", theirs, "--force"], timeout=300,
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        # sums of what is not known: the peer leaves it out of them, and so does the mode that reproduces it
        self.run_ok("cluster", self.out, "-o", ours, "--quiet", "--compat", "msprof-analyze", codes=(0, 1))
        found = {}
        for table in ("CommunicationGroupMapping", "ClusterCommunicationTime", "ClusterCommunicationBandwidth",
                      "ClusterCommunicationMatrix", "ClusterStepTraceTime", "HostInfo"):
            found[table] = len(self.rows_of(theirs, table))
            self.assertEqual(self.rows_of(theirs, table), self.rows_of(ours, table), table)
        print(f"msprof-analyze read {os.path.basename(traces[0])}, equal: {found}")
        return found

    def test_gpu_ranks(self):
        found = self.check_peer(f"{SHARED}/kineto/dlrm-8rank")
        self.assertEqual(found["ClusterStepTraceTime"], 8)
        self.assertGreaterEqual(found["ClusterCommunicationTime"], 64)

    def test_cpu_ranks(self):
        found = self.check_peer(f"{SHARED}/kineto/gloo-ddp-4rank-api")
        self.assertGreater(found["ClusterCommunicationTime"], 0)


@unittest.skipUnless(has_shared("ascend/level1-text"), "../shared/data is not here")
class TextRanks(Export):
    def test_collections_of_garbage_have_their_table(self):
        copy = os.path.join(self.folder, "rank0_ascend_pt")
        shutil.copytree(f"{SHARED}/ascend/level1-text/rank0_ascend_pt", copy, copy_function=shutil.copyfile)
        subprocess.run(["chmod", "-R", "u+w", copy], check=True)
        path = os.path.join(copy, "ASCEND_PROFILER_OUTPUT", "trace_view.json")
        with open(path, encoding="utf-8") as file:
            trace = json.load(file)
        at = next(row["ts"] for row in trace if row.get("ph") == "X")
        trace += [{"ph": "M", "name": "process_name", "pid": 99, "tid": 0, "args": {"name": "Python GC"}},
                  {"ph": "X", "name": "GC", "cat": "GC", "pid": 99, "tid": 4711, "ts": at, "dur": 1500.25}]
        with open(path, "w", encoding="utf-8") as file:
            json.dump(trace, file)
        made = self.export(copy)
        (start, end, tid), = query(profiler_db(made[0]), "SELECT * FROM GC_RECORD")
        self.assertEqual((start, end - start, tid), (int(at.replace(".", "")), 1500250, 99 << 32 | 4711))
        with open(os.path.join(made[0], "ASCEND_PROFILER_OUTPUT", "trace_view.json"), encoding="utf-8") as file:
            trace = json.load(file)
        (lane,) = [row["pid"] for row in trace if row["name"] == "process_name" and row["args"]["name"] == "Python GC"]
        (row,) = [row for row in trace if row["pid"] == lane and row["ph"] == "X"]
        self.assertEqual((row["name"], row["cat"], row["ts"], row["dur"]), ("GC", "GC", at, 1500.25))

    def test_recipes_say_how_text_becomes_databases_and_it_does(self):
        text = f"{SHARED}/ascend/level1-text"
        done = self.run_ok("recipe", "slow_rank", text, "-o", self.folder, codes=(2,))
        self.assertIn("rankscope export ascend", done.stderr)
        done = self.run_ok("recipe", "communication_time_sum", text, "-o", self.folder, codes=(2,))
        self.assertIn("rankscope cluster", done.stderr)
        self.export(text)
        for name, table in (("slow_rank", "RankscopeSlowRank"), ("hccl_sum", "HcclAllRankStats"),
                            ("compute_op_sum", "ComputeOpAllRankStats"), ("cann_api_sum", "CannApiSum"),
                            ("cluster_time_summary", "ClusterTimeSummary"), ("free_analysis", "FreeAnalysis")):
            self.run_ok("recipe", name, self.out, "-o", self.folder)
            path = os.path.join(self.folder, "cluster_analysis_output", "cluster_analysis.db")
            self.assertGreater(len(query(path, f"SELECT * FROM {table}")), 0, name)


# Columns that hold ids of STRING_IDS: numbers differ from file to file, texts do not.
TEXTS = {"name", "component", "stack", "inputDtypes", "inputShapes", "operatorName", "type", "mode"}


@unittest.skipUnless(has_shared("ascend/level1-db"), "../shared/data is not here")
class WhatItsProfilerRecorded(Export):
    """An Ascend rank's tables of memory, connections, call chains and counters come back cell by cell."""

    KEPT = ["CONNECTION_IDS", "PYTORCH_CALLCHAINS", "MEMORY_RECORD", "OP_MEMORY", "NPU_MEM", "NPU_MODULE_MEM", "NPU_OP_MEM",
            "HBM", "LLC", "ACC_PMU", "SOC_BANDWIDTH_LEVEL", "AICORE_FREQ", "ENUM_MODULE", "STEP_TIME", "PYTORCH_API"]

    @staticmethod
    def cells(path, table, columns):
        texts = dict(query(path, "SELECT * FROM STRING_IDS"))
        found = []
        for row in query(path, f"SELECT {', '.join(columns)} FROM {table}"):
            found.append(tuple(texts.get(cell, cell) if name in TEXTS and isinstance(cell, int) and not
                               (table == "PYTORCH_API" and name == "type") else cell
                               for name, cell in zip(columns, row)))
        return sorted(found, key=str)

    def compare(self, original, copy):
        for table in self.KEPT:
            columns = [row[1] for row in query(original, f"PRAGMA table_info({table})") if row[1] not in VIEWERS]
            theirs, ours = self.cells(original, table, columns), self.cells(copy, table, columns)
            if table == "PYTORCH_API":  # the step is made of STEP_TIME
                theirs, ours = ([row for row in rows_ if not str(row[4]).startswith("ProfilerStep#")]
                                for rows_ in (theirs, ours))
            self.assertGreater(len(theirs), 0, table)
            self.assertEqual(len(theirs), len(ours), table)
            self.assertEqual(theirs, ours, table)

    def test_what_is_said_of_operators(self):
        """Core, counts of cores, formats and outputs of each operator of a device."""
        made = self.export(f"{SHARED}/ascend/level1-db")
        texts = ["name", "taskType", "opType", "inputFormats", "inputDataTypes", "inputShapes", "outputFormats",
                 "outputDataTypes", "outputShapes", "attrInfo"]

        def operators(path, *counts):
            names = dict(query(path, "SELECT * FROM STRING_IDS"))
            # the task's type and the operator's are columns of one name
            columns = ", ".join(f"c.{name}" for name in [*counts, *texts])
            return sorted((row[:4] + tuple(names.get(cell, cell) for cell in row[4:]) for row in
                           query(path, f"SELECT t.startNs, t.endNs, {columns} FROM COMPUTE_TASK_INFO c JOIN TASK t USING "
                                       "(globalTaskId)")), key=str)

        for rank, output in self.originals("level1-db").items():
            theirs = operators(os.path.join(output, f"ascend_pytorch_profiler_{rank}.db"), "blockDim", "mixBlockDim")
            self.assertEqual(len(theirs), 187)
            self.assertEqual(theirs, operators(profiler_db(made[rank]), "blockNum", "mixBlockNum"))
            table = rows(os.path.join(made[rank], "ASCEND_PROFILER_OUTPUT"), "kernel_details.csv")
            self.assertEqual({row["Accelerator Core"] for row in table},
                             {row[5] for row in theirs} | {"COMMUNICATION"})

    def originals(self, form):
        return {rank: os.path.join(f"{SHARED}/ascend/{form}", f"rank{rank}_ascend_pt", "ASCEND_PROFILER_OUTPUT")
                for rank in (0, 1)}

    def test_of_a_database(self):
        made = self.export(f"{SHARED}/ascend/level1-db")
        for rank, output in self.originals("level1-db").items():
            self.compare(os.path.join(output, f"ascend_pytorch_profiler_{rank}.db"), profiler_db(made[rank]))

    def test_of_text(self):
        made = self.export(f"{SHARED}/ascend/level1-text")

        def cells(path):
            with open(path, encoding="utf-8", newline="") as file:
                return [[cell.strip() for cell in row] for row in csv.reader(file)]

        for rank, output in self.originals("level1-text").items():
            copied = 0
            for path in glob.glob(os.path.join(output, "*.csv")):
                name = os.path.basename(path)
                if name == "step_trace_time.csv":
                    continue  # an official table, with columns of the newest generation
                theirs, ours = cells(path), cells(os.path.join(made[rank], "ASCEND_PROFILER_OUTPUT", name))
                self.assertEqual(theirs[0], ours[0], name)
                self.assertEqual(sorted(theirs), sorted(ours), name)
                copied += 1
            self.assertEqual(copied, 7)
            self.assertNotIn("RANKSCOPE_COUNTER", tables(profiler_db(made[rank])))  # of a program: this one counts nothing

            def operators(folder):
                with open(os.path.join(folder, "trace_view.json"), encoding="utf-8") as file:
                    return {(row["name"], row["tid"], row["ts"]): row["args"] for row in json.load(file)
                            if row.get("cat") in ("cpu_op", "python_function") and row["ph"] == "X"
                            and not row["name"].startswith("ProfilerStep#")}
            ours = operators(os.path.join(made[rank], "ASCEND_PROFILER_OUTPUT"))
            stacks = 0
            for key, said in operators(output).items():
                for what in ("Sequence number", "Input Dims", "Input type", "Call stack"):
                    if what in said:
                        self.assertEqual(said[what], ours[key].get(what), key)
                        stacks += what == "Call stack"
            self.assertGreater(stacks, 100)


@unittest.skipUnless(has_shared("kineto/dlrm-8rank"), "../shared/data is not here")
class RealRanks(Export):
    def check(self, *words, **how):
        made = self.export(*words, codes=(0, 1))
        for folder in made.values():
            self.check_tables(folder)
        self.assert_same_figures(words, **how)
        return made

    def test_dlrm_8_ranks(self):
        made = self.check(f"{SHARED}/kineto/dlrm-8rank")
        self.assertEqual(len(made), 8)
        # nobody recorded a link: the matrix stays empty, and no transport is named
        for folder in made.values():
            self.assertEqual(query(analysis_db(folder), "SELECT count(*) FROM CommAnalyzerMatrix"), [(0,)])
            self.assertEqual(query(analysis_db(folder), "SELECT DISTINCT transport_type FROM CommAnalyzerBandwidth"),
                             [("UNKNOWN",)])

    def test_bandwidth_of_dlrm(self):
        """The first all_reduce by hand: 1,576,964 bytes among 8 ranks, 87 us from the last start to the last end."""
        self.run_ok("analyse", f"{SHARED}/kineto/dlrm-8rank", "-o", self.out, "--quiet")
        path = os.path.join(self.out, "analysis.db")
        found = query(path, "SELECT op_id, bytes, time_ns, algorithm_bandwidth, bus_bandwidth, transport_type, coverage "
                            "FROM CollectiveBandwidth WHERE op = 'all_reduce' ORDER BY op_id LIMIT 1")[0]
        members = [row for row in rows(self.out, "collectives.csv") if int(row["OpId"]) == found[0]]
        self.assertEqual(len(members), 8)
        time = max(int(row["End(ns)"]) for row in members) - max(int(row["Start(ns)"]) for row in members)
        self.assertEqual((found[1], found[2]), (1576964, time))
        self.assertEqual(time, 87000)
        self.assertAlmostEqual(found[3], 1576964 / 87000, 6)
        self.assertAlmostEqual(found[4], 1576964 / 87000 * 2 * 7 / 8, 6)
        self.assertEqual(found[5:], ("UNKNOWN", "exact"))
        ring = query(path, "SELECT src_rank, dst_rank FROM LinkEstimate WHERE op = 'all_reduce' AND estimated_by = 'ring'")
        self.assertEqual(ring, [(rank, (rank + 1) % 8) for rank in range(8)])
        self.assertEqual(query(path, "SELECT count(*) FROM CommAnalyzerMatrix"), [(0,)])

    def test_bandwidth_of_one_rank_is_a_lower_bound(self):
        self.run_ok("analyse", f"{SHARED}/kineto/a100-nccl-rank0of2.json.gz", "-o", self.out, "--quiet", codes=(1,))
        found = query(os.path.join(self.out, "analysis.db"),
                      "SELECT DISTINCT ranks, coverage, transport_type FROM CollectiveBandwidth")
        self.assertEqual(found, [(2, "partial", "UNKNOWN")])
        wrong = query(os.path.join(self.out, "analysis.db"),
                      "SELECT count(*) FROM CollectiveBandwidth WHERE op = 'all_reduce' AND "
                      "abs(bus_bandwidth - 1.0 * bytes / time_ns) > 1e-6 * bus_bandwidth")
        self.assertEqual(wrong, [(0,)])  # two ranks: the factor is 1

    def test_a100_with_metadata(self):
        made = self.check(f"{SHARED}/kineto/a100-nccl-rank0of2.json.gz")
        types = query(profiler_db(made[0]), "SELECT DISTINCT d.name FROM COMMUNICATION_OP c JOIN "
                                            "ENUM_HCCL_DATA_TYPE d ON d.id = c.dataType")
        self.assertNotIn(("BYTE",), types)
        self.assertTrue(query(profiler_db(made[0]), "SELECT name FROM NPU_INFO")[0][0].startswith("NVIDIA A100"))

    def test_mi300(self):
        self.check(f"{SHARED}/kineto/mi300-resnet-rank0of8.json.gz")

    def test_gloo_4_ranks(self):
        self.check(f"{SHARED}/kineto/gloo-ddp-4rank-api", same_operations=False)

    def test_every_operation_of_gloo(self):
        source = f"{SHARED}/kineto/gloo-groups-4rank-ondemand"
        # on a device a send waits for its recv, on a CPU it does not: only that differs
        self.check(source, "--rank-map", f"{source}/ranks.json", same_operations=False,
                   ignored=("Device_id", "P2PWait"))
        done = self.run_ok("recipe", "p2p_pairing", self.out, "-o", os.path.join(self.folder, "result"))
        self.assertIn("8 rows", done.stdout)

    def test_ascend_itself(self):
        source = f"{SHARED}/ascend/level1-db"
        made = self.check(source)
        for rank, folder in made.items():
            real = glob.glob(f"{source}/rank{rank}_*/ASCEND_PROFILER_OUTPUT/analysis.db")[0]
            self.assertEqual(query(real, f"SELECT step, {', '.join(FIGURES)} FROM StepTraceTime"),
                             query(analysis_db(folder), f"SELECT step, {', '.join(FIGURES)} FROM StepTraceTime"))

    def test_schema_is_the_vendors(self):
        made = {**self.export(f"{SHARED}/kineto/a100-nccl-rank0of2.json.gz", codes=(1,)),
                -1: self.export(f"{SHARED}/ascend/level1-db", out=os.path.join(self.folder, "asc"))[1]}
        source = f"{SHARED}/kineto/gloo-groups-4rank-ondemand"
        made[-2] = self.export(source, "--rank-map", f"{source}/ranks.json",
                               out=os.path.join(self.folder, "gloo"))[0]
        compared = set()
        for number, name in enumerate(("ascend_pytorch_profiler_1.db", "analysis.db")):
            real = os.path.join(self.folder, f"real{number}.db")
            shutil.copy(f"{SHARED}/ascend/level1-db/rank1_ascend_pt/ASCEND_PROFILER_OUTPUT/{name}", real)
            for folder in made.values():
                own = analysis_db(folder) if number else profiler_db(folder)
                for table in tables(own) & tables(real):
                    compared.add(table)
                    theirs = [row[1:3] + row[5:] for row in query(real, f"PRAGMA table_info({table})")
                              if row[1] not in VIEWERS]
                    ours = [row[1:3] + row[5:] for row in query(own, f"PRAGMA table_info({table})")]
                    if table in NEWER:
                        ours = [row for row in ours if row[0] not in NEWER[table]]
                        theirs = [row for row in theirs if row[0] not in RENAMED]
                    if table == "StepTraceTime":
                        ours = [row for row in ours if row[0] != "deviceId"]  # since 2025-06
                    self.assertEqual(ours, theirs, table)
        for table in ("TASK", "COMPUTE_TASK_INFO", "COMMUNICATION_OP", "COMMUNICATION_TASK_INFO", "CANN_API",
                      "PYTORCH_API", "CONNECTION_IDS", "STEP_TIME", "STRING_IDS", "CommAnalyzerTime"):
            self.assertIn(table, compared)

    def test_enums_mean_what_the_vendors_mean(self):
        made = self.export(f"{SHARED}/ascend/level1-db")
        real = os.path.join(self.folder, "real.db")
        shutil.copy(f"{SHARED}/ascend/level1-db/rank1_ascend_pt/ASCEND_PROFILER_OUTPUT/"
                    "ascend_pytorch_profiler_1.db", real)
        for table in (name for name in tables(real) if name.startswith("ENUM_HCCL") or name == "ENUM_API_TYPE"):
            ours = dict(query(profiler_db(made[1]), f"SELECT * FROM {table}"))
            for number, name in query(real, f"SELECT * FROM {table}"):
                if name not in ("hccl", "RESERVED"):  # "communication" and "UB" since
                    self.assertEqual(ours.get(number), name, table)


if __name__ == "__main__":
    unittest_run.main(verbosity=1)
