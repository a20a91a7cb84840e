#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`rankscope analyse` as a user runs it: files in, files and exit codes out.

The first half makes its own traces, so it always runs; the second half holds the program against real
recordings in ../shared/data, where they are. Only the standard library is needed; documents are also
validated against docs/schema when the module jsonschema is there.

    RANKSCOPE=build/dev/rankscope tests/e2e/test_analyse.py
"""
import base64
import collections
import csv
import gzip
import hashlib
import html.parser
import json
import os
import random
import re
import shutil
import sqlite3
import subprocess
import tempfile
import unittest

import unittest_run

try:
    import jsonschema
except ImportError:
    jsonschema = None

PROGRAM = os.environ.get("RANKSCOPE", "build/dev/rankscope")
SHARED = "../shared/data"
DELIVERABLES = ["rank_breakdown.csv", "step_trace_time.csv", "step_breakdown.csv", "collectives.csv",
                "communication.json", "communication_matrix.json", "report.json", "report.md", "report.html",
                "analysis.db", "clock.json"]


def rankscope(*words, **more):
    environment = {**os.environ, "LC_ALL": "C", **more}
    return subprocess.run([PROGRAM, *words], capture_output=True, text=True, env=environment,
                          timeout=300, check=False)


def rows(folder, name):
    with open(os.path.join(folder, name), encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def load(folder, name):
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return json.load(file)


def read(folder, name):
    with open(os.path.join(folder, name), "rb") as file:
        return file.read()


# ---- traces of our own -----------------------------------------------------------------------------

STEP_US = 10000
BASE_NS = 1700000000 * 10**9


def trace_of(rank, world, late_us=0, steps=4):
    """One rank: per step a compute kernel, a copy, and an all-reduce that ends when the slowest has come."""
    events = [{"ph": "X", "cat": "Trace", "ts": 0, "dur": steps * STEP_US, "pid": "Spans",
               "tid": "PyTorch Profiler", "name": "PyTorch Profiler (0)", "args": {"Op count": 0}}]
    for step in range(steps):
        start = step * STEP_US
        end = start + STEP_US - 100
        events.append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{7 + step}",
                       "pid": 100, "tid": 100, "ts": start, "dur": STEP_US - 1})
        work = [("sgemm_kernel", "kernel", start + 100, 2000 + late_us, 1),
                ("Memcpy DtoD (Device -> Device)", "gpu_memcpy", start + 2200 + late_us, 50, 2),
                ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "kernel",
                 start + 2500 + late_us, end - start - 2500 - late_us, 3)]
        for name, category, at, length, number in work:
            correlation = step * 10 + number
            events.append({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 100,
                           "tid": 100, "ts": start + 10 * number, "dur": 5,
                           "args": {"correlation": correlation}})
            arguments = {"device": rank, "stream": 7 + (number == 3), "correlation": correlation}
            if number == 3:
                arguments.update({"Collective name": "allreduce", "In msg nelems": 1000,
                                  "Out msg nelems": 1000, "dtype": "Float", "Group size": world,
                                  "Process Group Name": "0",
                                  "Process Group Description": "default_pg",
                                  "Process Group Ranks": str(list(range(world)))})
            events.append({"ph": "X", "cat": category, "name": name, "pid": rank,
                           "tid": arguments["stream"], "ts": at, "dur": length, "args": arguments})
    return {"schemaVersion": 1, "distributedInfo": {
        "backend": "nccl", "rank": rank, "world_size": world, "pg_count": 1,
        "pg_config": [{"pg_name": "0", "pg_desc": "default_pg", "backend_config": "cuda:nccl",
                       "pg_size": world, "ranks": list(range(world))}]},
        "displayTimeUnit": "ms", "baseTimeNanoseconds": BASE_NS, "traceEvents": events}


def write_traces(folder, world=4, slow=2, packed=True):
    os.makedirs(folder, exist_ok=True)
    for rank in range(world):
        text = json.dumps(trace_of(rank, world, 3000 if rank == slow else 0), indent=1)
        if packed and rank % 2:
            with gzip.open(os.path.join(folder, f"trace_{900 + rank}.json.gz"), "wt") as file:
                file.write(text)
        else:
            with open(os.path.join(folder, f"trace_{900 + rank}.json"), "w", encoding="ascii") as file:
                file.write(text)


class WithFolder(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="rs-e2e-")
        self.traces = os.path.join(self.folder, "traces")
        self.out = os.path.join(self.folder, "out")

    def tearDown(self):
        shutil.rmtree(self.folder)

    def analyse(self, *words, code=0):
        done = rankscope("analyse", *words)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def check_documents(self, folder):
        manifest = load(folder, "manifest.json")
        named = {d["name"]: d for d in manifest["deliverables"]}
        self.assertEqual(sorted(named), sorted(DELIVERABLES))
        for name, said in named.items():
            data = read(folder, name)
            self.assertEqual(said["bytes"], len(data))
            self.assertEqual(said["sha256"], hashlib.sha256(data).hexdigest())
        if jsonschema:
            for name in ("report", "manifest", "clock"):
                with open(f"docs/schema/{name}.schema.json", encoding="utf-8") as file:
                    jsonschema.validate(load(folder, f"{name}.json"), json.load(file))
        load(folder, "communication.json")
        load(folder, "communication_matrix.json")
        return manifest


class OwnTraces(WithFolder):
    def test_figures_are_exact(self):
        write_traces(self.traces)
        self.analyse(self.traces, "-o", self.out)
        self.check_documents(self.out)
        first = rows(self.out, "rank_breakdown.csv")[0]
        window = 3 * STEP_US + STEP_US - 100 - 100  # first kernel at 100, last end at 39900
        allreduce = STEP_US - 100 - 2500
        self.assertEqual(first, {
            "Rank": "0", "Device": "0", "Window(ns)": str(window * 1000),
            "Busy(ns)": str(4 * (2000 + 50 + allreduce) * 1000),
            "Idle(ns)": str((window - 4 * (2050 + allreduce)) * 1000),
            "Computing(ns)": str(4 * 2000 * 1000), "Communication(ns)": str(4 * allreduce * 1000),
            "Memory(ns)": str(4 * 50 * 1000), "Overlapped(ns)": "0",
            "ExposedCommunication(ns)": str(4 * allreduce * 1000)})
        trace_time = [r for r in rows(self.out, "step_trace_time.csv") if r["Rank"] == "0"]
        self.assertEqual([r["Step"] for r in trace_time], ["7", "8", "9", "10"])
        self.assertEqual(trace_time[0]["Computing"], "2000.000")
        self.assertEqual(trace_time[0]["Communication"], f"{allreduce}.000")
        self.assertEqual(trace_time[0]["Preparing"], "100.000")

    def test_kernels_of_a_users_own_library(self):
        write_traces(self.traces, packed=False)
        for name in os.listdir(self.traces):
            path = os.path.join(self.traces, name)
            with open(path, encoding="ascii") as file:
                text = file.read()
            with open(path, "w", encoding="ascii") as file:
                file.write(text.replace("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
                                        "void our::push<(4 > 2)>(int)"))
        communication = (STEP_US - 100 - 2500) * 4 * 1000
        self.analyse(self.traces, "-o", self.out)
        self.assertEqual(rows(self.out, "rank_breakdown.csv")[0]["Communication(ns)"], "0")
        classes = os.path.join(self.folder, "classes.conf")
        with open(classes, "w", encoding="ascii") as file:
            file.write("communication contains our::push all_reduce\n")
        told = os.path.join(self.folder, "told")
        self.analyse(self.traces, "-o", told, "--classes", classes)
        self.assertEqual(rows(told, "rank_breakdown.csv")[0]["Communication(ns)"], str(communication))
        self.assertEqual({(r["Op"], r["LastRank"]) for r in rows(told, "collectives.csv")}, {("all_reduce", "2")})
        with open(classes, "a", encoding="ascii") as file:
            file.write("communication contains\n")
        done = self.analyse(self.traces, "--classes", classes, code=2)
        self.assertIn("classes.conf:2: expected", done.stderr)

    def test_the_late_rank_is_last_and_named(self):
        write_traces(self.traces)
        done = self.analyse(self.traces, "-o", self.out)
        collectives = rows(self.out, "collectives.csv")
        self.assertEqual(len(collectives), 16)
        self.assertEqual({r["LastRank"] for r in collectives}, {"2"})
        self.assertEqual({r["Bytes"] for r in collectives}, {"4000"})
        self.assertEqual({r["Wait(ns)"] for r in collectives if r["Rank"] != "2"}, {"3000000"})
        self.assertEqual({r["Wait(ns)"] for r in collectives if r["Rank"] == "2"}, {"0"})
        report = load(self.out, "report.json")
        self.assertEqual(report["findings"][0]["where"], {"rank": 2})
        self.assertIn("Rank 2", "\n".join(done.stdout.splitlines()[:4]))
        self.assertTrue(all(len(line) <= 100 for line in done.stdout.splitlines()))
        self.assertNotIn("\033", done.stdout)

    def test_the_page_needs_nothing_else(self):
        write_traces(self.traces)
        self.analyse(self.traces, "-o", self.out)
        page = read(self.out, "report.html").decode()
        self.assertIn("<h2>1. Rank 2 ", page)
        self.assertIn("default-src 'none'", page)
        # What people read without scripts. Behind it: data, and (where the build had npm) the one script that the policy names.
        text, data, script = re.fullmatch('(.*)<script type="application/json" id="data">([^<]*)</script>\n(?:<script>(.*)</script>\n)?</body></html>\n',
                                          page, re.DOTALL).groups()
        self.assertEqual(json.loads(data)["report"]["findings"][0]["where"], {"rank": 2})
        self.assertEqual(len(json.loads(data)["tables"]["steps"]["columns"]["rank"]), 16)
        digest = base64.b64encode(hashlib.sha256((script or "").encode()).digest()).decode()
        self.assertEqual(re.findall("script-src[^\"]*", page[:1000]), [f"script-src 'sha256-{digest}'"] if script else [])
        page = text + "</body></html>"
        for word in ("<script", "http://", "https://", "src=", "url(", "@import", "onload", "onclick"):
            self.assertNotIn(word, page)
        picture = page[page.index("<svg"):page.index("</svg>")]
        self.assertIn(">rank 2</text>", picture)
        self.assertIn('class="axis named"', picture)
        self.assertRegex(picture, r'class="h[2-5]" d="M[\d. hvzM-]+z"')
        self.assertLess(page.index("1. Rank 2 "), page.index("<svg"))  # who, before any picture

        class Balance(html.parser.HTMLParser):
            stack = []

            def handle_starttag(self, tag, attrs):
                if tag not in ("meta", "path"):
                    self.stack.append(tag)

            def handle_endtag(self, tag):
                if tag != "path":
                    assert self.stack.pop() == tag, (tag, self.getpos())
        balance = Balance()
        balance.feed(page)
        self.assertEqual(balance.stack, [])

    def test_breakdown_adds_up_in_every_row(self):
        write_traces(self.traces)
        self.analyse(self.traces, "-o", self.out)
        breakdown = rows(self.out, "step_breakdown.csv")
        self.assertEqual(len(breakdown), 16)
        for row in breakdown:
            parts = [int(v) for k, v in row.items() if k.endswith("(ns)") and k != "Window(ns)"]
            self.assertEqual(sum(parts), int(row["Window(ns)"]))

    def test_two_runs_give_the_same_bytes_whatever_the_jobs(self):
        write_traces(self.traces)
        self.analyse(self.traces, "-o", self.out, "--jobs", "1")
        other = self.out + "2"
        self.analyse(self.traces, "-o", other, "--jobs", "4")
        for name in DELIVERABLES + ["manifest.json"]:
            self.assertEqual(read(self.out, name), read(other, name), name)

    def test_without_o_nothing_is_written(self):
        write_traces(self.traces)
        before = sorted(os.listdir(self.traces))
        self.analyse(self.traces)
        self.assertEqual(sorted(os.listdir(self.traces)), before)
        self.assertEqual(os.listdir(self.folder), ["traces"])

    def test_json_on_stdout_is_the_file(self):
        write_traces(self.traces)
        done = self.analyse(self.traces, "-o", self.out, "--json")
        self.assertEqual(done.stdout.encode(), read(self.out, "report.json"))
        self.assertEqual(self.analyse(self.traces, "--quiet").stdout, "")

    def test_a_threshold_changes_the_exit_code_only(self):
        write_traces(self.traces)
        self.analyse(self.traces, "--fail-above", "5%", code=5)
        self.analyse(self.traces, "--fail-above", "95%")
        self.analyse(self.traces, "--fail-above", "much", code=2)

    def test_one_broken_file_does_not_stop_the_others(self):
        write_traces(self.traces, packed=False)
        whole = read(self.traces, "trace_901.json")
        with open(os.path.join(self.traces, "trace_901.json"), "wb") as file:
            file.write(whole[:len(whole) * 3 // 5])
        with open(os.path.join(self.traces, "trace_999.json.gz"), "wb") as file:
            file.write(gzip.compress(b'{"traceEvents": [')[:-12])
        with open(os.path.join(self.traces, "notes.txt"), "w", encoding="ascii") as file:
            file.write("no profile")
        done = self.analyse(self.traces, "-o", self.out, code=1)
        self.assertIn("trace_901.json", done.stderr)
        manifest = self.check_documents(self.out)
        states = {os.path.basename(i["path"]): i["state"] for i in manifest["inputs"]}
        self.assertEqual(states["trace_900.json"], "whole")
        self.assertEqual(states["trace_901.json"], "partial")
        self.assertIn(states["trace_999.json.gz"], ("failed", "skipped"))
        self.assertEqual(load(self.out, "report.json")["coverage"]["partial_ranks"], [1])

    def test_a_missing_rank_is_reported(self):
        write_traces(self.traces)
        os.unlink(os.path.join(self.traces, "trace_902.json"))
        done = self.analyse(self.traces, "-o", self.out, code=1)
        self.assertIn("2", done.stderr)
        coverage = load(self.out, "report.json")["coverage"]
        self.assertEqual((coverage["ranks_seen"], coverage["ranks_expected"],
                          coverage["missing_ranks"]), (3, 4, [2]))
        collectives = rows(self.out, "collectives.csv")
        self.assertEqual({r["Coverage"] for r in collectives}, {"partial"})
        self.assertEqual({r["LastRank"] for r in collectives}, {""})

    def test_requests_that_cannot_be_met_exit_with_2(self):
        os.makedirs(self.traces)
        self.analyse(self.traces, code=2)
        self.analyse(os.path.join(self.folder, "nowhere"), code=2)
        self.analyse(code=2)
        self.analyse(self.traces, "--nonsense", code=2)
        done = rankscope("analyze")
        self.assertEqual(done.returncode, 2)
        self.assertIn('"analyse"', done.stderr)
        self.assertEqual(rankscope("--version").returncode, 0)
        self.assertIn("--rank-map", rankscope("analyse", "--help").stdout)

    def test_successive_recordings_of_one_rank_are_joined(self):
        os.makedirs(self.traces)
        for cycle in range(2):
            for rank in range(2):
                trace = trace_of(rank, 2, 500 * rank, steps=2)
                trace["baseTimeNanoseconds"] += cycle * 10**9
                for event in trace["traceEvents"]:
                    if event["name"].startswith("ProfilerStep#"):
                        number = int(event["name"].split("#")[1]) + 100 * cycle
                        event["name"] = f"ProfilerStep#{number}"
                with open(os.path.join(self.traces, f"r{rank}_{cycle}.json"), "w",
                          encoding="ascii") as file:
                    json.dump(trace, file)
        self.analyse(self.traces, "-o", self.out)
        steps = [r["Step"] for r in rows(self.out, "step_breakdown.csv") if r["Rank"] == "1"]
        self.assertEqual(steps, ["7", "8", "107", "108"])
        collectives = rows(self.out, "collectives.csv")
        self.assertEqual(len(collectives), 8)
        self.assertEqual({r["RanksSeen"] for r in collectives}, {"2"})
        self.assertEqual({r["LastRank"] for r in collectives}, {"1"})


# ---- real recordings ---------------------------------------------------------------------------------

def has_shared(name):
    return os.path.exists(os.path.join(SHARED, name))


class BundledTraces(WithFolder):
    """docs/examples/slow-loader, recorded by docs/examples/record.py: eight steps of two all-reduces, rank 2 late to each first one."""

    JOB = "docs/examples/slow-loader"

    def test_who_is_late_is_seen(self):
        self.analyse(self.JOB, "-o", self.out)
        self.check_documents(self.out)
        self.assertEqual({r["Step"] for r in rows(self.out, "step_trace_time.csv")}, {str(s) for s in range(6, 14)})
        collectives = rows(self.out, "collectives.csv")
        self.assertEqual(collections.Counter(r["OpId"] for r in collectives), {str(i): 4 for i in range(16)})
        first = {}
        for row in sorted(collectives, key=lambda row: int(row["OpId"])):
            first.setdefault(row["Step"], row["OpId"])
            self.assertGreaterEqual(int(row["Wait(ns)"]), 0)
        self.assertEqual([r["LastRank"] for r in collectives if r["Rank"] == "0" and first[r["Step"]] == r["OpId"]], ["2"] * 8)

    def test_files_that_name_no_rank_need_the_map(self):
        folder = os.path.join(self.folder, "nameless")
        os.mkdir(folder)
        for rank in range(4):
            with gzip.open(f"{self.JOB}/rank{rank}.pt.trace.json.gz") as file:
                document = json.load(file)
            document.pop("distributedInfo")
            document.pop("traceName", None)
            with open(os.path.join(folder, f"trace_{700 + rank}.json"), "w", encoding="utf-8") as file:
                json.dump(document, file)
        done = self.analyse(folder, code=2)
        for word in ("trace_7", "--rank-map", "--rank-from"):
            self.assertIn(word, done.stderr)
        with open(os.path.join(self.folder, "ranks.json"), "w", encoding="utf-8") as file:
            json.dump({"trace_700.json": 0, "trace_701.json": 1, "trace_702.json": 2, "trace_703.json": None}, file)
        done = self.analyse(folder, "--rank-map", os.path.join(self.folder, "ranks.json"), "-o", self.out)
        manifest = self.check_documents(self.out)
        states = {os.path.basename(i["path"]): (i["state"], i["rank"]) for i in manifest["inputs"]}
        self.assertEqual(states["trace_703.json"], ("skipped", None))
        self.assertIn("trace_703.json", done.stderr)
        self.assertEqual(collections.Counter(r["Rank"] for r in rows(self.out, "step_breakdown.csv")), {"0": 8, "1": 8, "2": 8})

    def test_truncated_files_are_marked_partial(self):
        chance = random.Random(3)
        data = read(self.JOB, "rank0.pt.trace.json.gz")
        for _ in range(4):
            path = os.path.join(self.folder, "rank0.pt.trace.json.gz")
            with open(path, "wb") as file:
                file.write(data[:chance.randrange(len(data) // 20, len(data) - 8)])
            done = rankscope("analyse", path, "-q", "-o", self.out)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertEqual(load(self.out, "manifest.json")["inputs"][0]["state"], "partial")


class RealTraces(WithFolder):
    """More jobs, where ../shared/data is (below: without it, only the bundled one is tried)."""

    def test_dlrm_8_ranks(self):
        self.analyse(f"{SHARED}/kineto/dlrm-8rank", "-o", self.out)
        self.check_documents(self.out)
        ranks = {r["Rank"]: r for r in rows(self.out, "rank_breakdown.csv")}

        def figures(rank, *names):
            return [int(ranks[rank][f"{n}(ns)"]) for n in names]

        self.assertEqual(figures("0", "Window", "Busy", "Computing", "Communication", "Overlapped"),
                         [13009000, 6590000, 1034000, 5798000, 261000])
        self.assertEqual(figures("7", "Window"), [10967000])
        self.assertEqual(figures("3", "Window", "Busy", "Computing", "Communication", "Memory",
                                 "Overlapped"),
                         [18853000, 10708000, 1240000, 9774000, 28000, 324000])
        collectives = rows(self.out, "collectives.csv")
        self.assertEqual(collections.Counter(r["OpId"] for r in collectives),
                         {str(i): 8 for i in range(8)})
        last = [r["LastRank"] for r in collectives if r["Rank"] == "0"]
        self.assertEqual(last.count("7"), 5)
        self.assertEqual(sum(int(r["Wait(ns)"]) for r in collectives if r["Rank"] == "1"), 11125000)
        self.assertEqual({r["Bubble"] for r in rows(self.out, "step_trace_time.csv")}, {"0.000"})
        # Figures that cannot contradict each other: they did, with a step of 36 years and a rank that was 38 times as slow with
        # less work than its peers.
        with open(f"{self.out}/report.json") as file:
            report = json.load(file)
        told = report["findings"] + report["not_worth_fixing"]
        self.assertLess(report["loss"]["step_ns"], 30_000_000)
        self.assertGreaterEqual(report["loss"]["recoverable_ns"], max(f["cost_ns_per_step"] for f in told))
        works = [(f["test"]["factor"], e["ns"] / e["healthy_ns"]) for f in told if f["kind"] == "slow_rank"
                 for e in f["evidence"] if e["type"] == "own_work"]
        self.assertTrue(works)
        for factor, of_work in works:
            self.assertAlmostEqual(factor, of_work, delta=0.02 * factor)

    def test_ondemand_needs_the_map(self):
        folder = f"{SHARED}/kineto/gloo-ddp-4rank-ondemand"
        done = self.analyse(folder, code=2)
        for word in ("trace_6", "--rank-map", "--rank-from"):
            self.assertIn(word, done.stderr)
        done = self.analyse(folder, "--rank-map", f"{folder}/ranks.json", "-o", self.out)
        manifest = self.check_documents(self.out)
        states = {os.path.basename(i["path"]): (i["state"], i["rank"]) for i in manifest["inputs"]}
        self.assertEqual(states["trace_6575.json.gz"], ("skipped", None))
        self.assertIn("trace_6575.json.gz", done.stderr)
        steps = collections.Counter(r["Rank"] for r in rows(self.out, "step_breakdown.csv"))
        self.assertEqual(steps, {"0": 3, "1": 3, "2": 3, "3": 3})
        collectives = rows(self.out, "collectives.csv")
        self.assertEqual(collections.Counter(r["OpId"] for r in collectives),
                         {"0": 4, "1": 4, "2": 4})
        self.assertEqual({r["LastRank"] for r in collectives}, {"2"})

    def test_api_has_the_profilers_own_steps(self):
        self.analyse(f"{SHARED}/kineto/gloo-ddp-4rank-api", "-o", self.out)
        self.check_documents(self.out)
        self.assertEqual({r["Step"] for r in rows(self.out, "step_trace_time.csv")},
                         {"3", "4", "5"})
        matched = [r for r in rows(self.out, "collectives.csv") if r["Seq"]]
        self.assertEqual({r["LastRank"] for r in matched}, {"2"})

    def test_gloo_groups_are_told_apart(self):
        folder = f"{SHARED}/kineto/gloo-groups-4rank-ondemand"
        self.analyse(folder, "--rank-map", f"{folder}/ranks.json", "-o", self.out)
        self.check_documents(self.out)
        collectives = rows(self.out, "collectives.csv")
        matched = [r for r in collectives if r["Seq"]]
        self.assertEqual(len(matched), 112)
        self.assertEqual(len(collectives) - len(matched), 1)
        sizes = collections.Counter(collections.Counter(r["OpId"] for r in matched).values())
        self.assertEqual(sizes, {4: 22, 2: 12})
        members = collections.defaultdict(set)
        for row in matched:
            if row["Op"] not in ("send", "recv", "send_recv"):
                members[row["Group"]].add(row["Rank"])
        self.assertEqual(sorted("".join(sorted(m)) for m in members.values()),
                         ["01", "0123", "02", "13", "23"])
        for row in matched:
            self.assertGreaterEqual(int(row["Wait(ns)"]), 0)
            self.assertGreaterEqual(int(row["Transfer(ns)"] or 0), 0)

    def test_truncated_files_are_marked_partial(self):
        chance = random.Random(3)
        for name in ("a100-nccl-rank0of2.json.gz", "mi250-minitoy.json.gz",
                     "dlrm-8rank/worker0_step_12.1694128201545.pt.trace.json"):
            data = read(f"{SHARED}/kineto", name)
            for _ in range(4):
                path = os.path.join(self.folder, os.path.basename(name))
                with open(path, "wb") as file:
                    file.write(data[:chance.randrange(len(data) // 20, len(data) - 8)])
                done = rankscope("analyse", path, "-q", "-o", self.out)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertEqual(load(self.out, "manifest.json")["inputs"][0]["state"], "partial")

    def test_database_extends_the_real_one(self):
        self.analyse(f"{SHARED}/kineto/dlrm-8rank", "-q", "-o", self.out)
        real = f"{SHARED}/ascend/level1-db/rank0_ascend_pt/ASCEND_PROFILER_OUTPUT/analysis.db"
        theirs = sqlite3.connect(f"file:{real}?mode=ro&immutable=1", uri=True)
        ours = sqlite3.connect(os.path.join(self.out, "analysis.db"))
        tables = [t for (t,) in theirs.execute("SELECT name FROM sqlite_master WHERE type='table'")]
        self.assertEqual(len(tables), 4)
        for table in tables:
            def columns(database):
                return [(c[1], c[2]) for c in database.execute(f"PRAGMA table_info({table})")]
            mine = columns(ours)
            self.assertEqual(mine[-1], ("rank_id", "INTEGER"))
            # deviceId came later than this recording
            self.assertEqual([c for c in mine[:-1] if c[0] != "deviceId"], columns(theirs))
        for kind in ours.execute("SELECT DISTINCT typeof(elapse_time), type FROM CommAnalyzerTime"):
            self.assertEqual(kind[1], "collective")
        theirs.close()
        ours.close()


if not (has_shared("kineto/dlrm-8rank") and has_shared("ascend/level1-db")):
    del RealTraces

if __name__ == "__main__":
    unittest_run.main(verbosity=1)
