#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`rankscope trace`: what single ranks recorded.

Operators, FLOPs and memory are held against what torch.profiler itself made of the same recording (tests/golden/torch-figures); the trace that is
written back against the one that was read; stacks against the sum of what threads did.
"""
import csv
import glob
import gzip
import io
import json
import os
import shutil
import signal
import stat
import subprocess
import tempfile
import unittest

import unittest_run

from test_analyse import rankscope, write_traces

MAKE_CAPTURE = os.path.join(os.environ.get("RANKSCOPE_BUILD", "build/dev"), "make_capture")
GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../golden/torch-figures")
TRACE = os.path.join(GOLDEN, "rank0.pt.trace.json.gz")
# Torch takes the time of Python frames from a range's own where they were recorded; here a range's own time is the same with and without.
WITH_FRAMES = {"layer", "Optimizer.step#SGD.step", "Optimizer.zero_grad#SGD.zero_grad"}


def figures():
    with open(os.path.join(GOLDEN, "figures.json"), encoding="ascii") as file:
        return json.load(file)


def recorded():
    with gzip.open(TRACE, "rt") as file:
        return json.load(file)


class Trace(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="rs-e2e-")

    def tearDown(self):
        shutil.rmtree(self.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def trace(self, *words, code=0):
        done = rankscope("trace", *words)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def operators(self, *words):
        return json.loads(self.trace("operators", *words, "--json").stdout)

    def check_row(self, own, torch):
        self.assertEqual(own["count"], torch["count"], torch)
        self.assertAlmostEqual(own["cpu_ns"] / 1e3, torch["cpu_us"], delta=0.01, msg=torch)
        self.assertEqual(own["self_cpu_memory_bytes"], torch["self_memory"], torch)
        self.assertEqual(own["cpu_memory_bytes"], torch["memory"], torch)
        if torch["name"] not in WITH_FRAMES:
            self.assertAlmostEqual(own["self_cpu_ns"] / 1e3, torch["self_cpu_us"], delta=0.01, msg=torch)
        self.assertIsNone(own["self_device_ns"])  # nothing was recorded of a device: that is not 0

    def test_operators_are_torchs_key_averages(self):
        torch = {row["name"]: row for row in figures()["averages"]}
        own = {row["name"]: row for row in self.operators(TRACE)}
        self.assertEqual(set(own), set(torch))
        for name, row in torch.items():
            self.check_row(own[name], row)
        self.assertEqual({name: row["flops"] for name, row in own.items() if row["flops"] is not None}, figures()["flops"])

    def test_operators_by_shape_are_torchs(self):
        def key(name, shapes):
            return name, json.dumps(json.loads(shapes)) if shapes else "[]"
        torch = {key(row["name"], row["shapes"]): row for row in figures()["by_shape"]}
        own = {key(row["name"], row["shapes"]): row for row in self.operators(TRACE, "--by-shape")}
        self.assertEqual(set(own), set(torch))
        for name, row in torch.items():
            self.check_row(own[name], row)

    def test_operators_by_stack_say_who_called(self):
        rows = [row for row in self.operators(TRACE, "--by-stack", "40") if row["name"] == "aten::linear"]
        self.assertEqual(sum(row["count"] for row in rows), 4)
        self.assertEqual(len(rows), 2, rows)  # two layers, called from two lines
        for row in rows:
            self.assertIn("torch/nn/modules/linear.py", row["stack"])
            self.assertIn("record.py", row["stack"])

    def test_tables_for_people_and_for_programs_have_the_same_rows(self):
        rows = self.operators(TRACE)
        table = list(csv.DictReader(io.StringIO(self.trace("operators", TRACE, "--csv").stdout)))
        self.assertEqual([row["name"] for row in table], [row["name"] for row in rows])
        self.assertEqual([row["self_cpu_ns"] for row in table], [str(row["self_cpu_ns"]) for row in rows])
        text = self.trace("operators", TRACE, "--row-limit", "5", "--sort-by", "cpu_time_total").stdout.splitlines()
        self.assertEqual(text[0], "RANK 0")
        self.assertEqual(len(text), 2 + 5)
        longest = sorted(rows, key=lambda row: -row["cpu_ns"])[:5]
        self.assertEqual([line[:48].strip() for line in text[2:]], [row["name"][:48] for row in longest])

    def test_stacks_add_up_to_what_threads_did(self):
        lines = self.trace("stacks", TRACE).stdout.splitlines()
        seen = recorded()["traceEvents"]
        spans = sorted((row["tid"], row["ts"], -row["dur"]) for row in seen
                       if row.get("ph") == "X" and row.get("cat") in ("cpu_op", "user_annotation", "python_function"))
        busy, end, thread = 0, 0, None
        for tid, start, length in spans:
            end = end if tid == thread else 0
            busy += max(0, start - length - max(start, end))
            thread, end = tid, max(end, start - length)
        total = sum(int(line.rsplit(" ", 1)[1]) for line in lines)
        self.assertLess(abs(total - busy), len(seen))  # a line is whole microseconds
        self.assertTrue(any(";aten::linear;aten::addmm " in line and line.startswith("record.py(") for line in lines))

    def test_memory_is_torchs_without_what_it_is_for(self):
        raw = self.path("memory.raw.json.gz")
        self.trace("memory", TRACE, "--device", "cpu", "-o", raw)
        with gzip.open(raw, "rt") as file:
            events = json.load(file)
        # Torch knows more: parameters that nobody freed (1), and from which category to which one bytes went (3).
        self.assertEqual([event[:3] for event in events], [event for event in figures()["memory"] if event[1] in (2, 4)])
        self.assertEqual({event[3] for event in events}, {7})
        out = self.path("memory.json")
        self.trace("memory", TRACE, "-o", out)
        with open(out, encoding="ascii") as file:
            times, sizes = json.load(file)
        self.assertEqual(times, sorted({event[0] // 1000 for event in events}))
        self.assertTrue(all(len(row) == 9 and not any(row[:8]) for row in sizes))
        self.assertEqual(sizes[-1][8], sum(event[2] for event in events))
        self.trace("memory", TRACE, "-o", self.path("memory.html"))
        with open(self.path("memory.html"), encoding="utf-8") as file:
            page = file.read()
        self.assertIn("<svg", page)
        self.assertNotIn("http", page)  # it loads nothing

    def test_the_trace_itself_comes_back(self):
        out = self.path("back.json.gz")
        self.trace("chrome", TRACE, "-o", out)
        with gzip.open(out, "rt") as file:
            self.assertEqual(json.load(file), recorded())
        self.assertEqual(stat.S_IMODE(os.stat(out).st_mode), 0o640)
        plain = self.path("back.json")
        self.trace("chrome", TRACE, "-o", plain)
        with open(plain, encoding="utf-8") as file:
            self.assertEqual(json.load(file), recorded())

    def test_the_raw_data_of_a_capture_gives_the_trace_of_each_rank(self):
        traces = self.path("traces")
        write_traces(traces)
        files = sorted(glob.glob(os.path.join(traces, "*")))
        done = subprocess.run([MAKE_CAPTURE, self.path("data"), *files], capture_output=True, text=True, check=True)
        capture = done.stdout.strip()
        self.trace("chrome", capture, "-o", self.path("rank{rank}.json"))
        for rank, path in enumerate(files):
            with (gzip.open(path, "rt") if path.endswith(".gz") else open(path, encoding="utf-8")) as file:
                original = json.load(file)
            with open(self.path(f"rank{rank}.json"), encoding="utf-8") as file:
                back = json.load(file)
            self.assertEqual(back["traceEvents"], original["traceEvents"])
        self.assertEqual(self.operators(capture, "--ranks", "2"), [row for row in self.operators(traces) if row["rank"] == 2])
        self.assertEqual(rankscope("analyse", *glob.glob(self.path("rank*.json"))).stdout, rankscope("analyse", traces).stdout)

    def test_a_limit_keeps_the_document_whole_and_says_what_lacks(self):
        big = recorded()
        rows = big["traceEvents"]
        big["traceEvents"] = [{**row, "ts": row.get("ts", 0) + 1e6 * turn} for turn in range(16) for row in rows]
        with open(self.path("rank0.json"), "w", encoding="ascii") as file:
            json.dump(big, file)
        self.assertGreater(os.path.getsize(self.path("rank0.json")), 2 << 20)
        out = self.path("cut.json")
        done = self.trace("chrome", self.path("rank0.json"), "--limit", "1MiB", "-o", out, code=1)
        self.assertLessEqual(os.path.getsize(out), 1 << 20)
        with open(out, encoding="utf-8") as file:
            cut = json.load(file)
        self.assertEqual(len(cut["traceEvents"]) + cut["droppedRows"], len(big["traceEvents"]))
        self.assertGreater(len(cut["traceEvents"]), 0)
        self.assertIn(f"{cut['droppedRows']} of {len(big['traceEvents'])} rows did not fit", done.stderr)
        self.trace("chrome", self.path("rank0.json"), "--limit", "64MiB", "-o", out)
        with open(out, encoding="utf-8") as file:
            self.assertNotIn("droppedRows", json.load(file))

    def test_operators_of_a_name(self):
        rows = self.operators(TRACE, "--name", "aten::mm", "--name", "aten::addmm")
        self.assertEqual({row["name"] for row in rows}, {"aten::mm", "aten::addmm"})
        self.assertIn("aten::nm", self.trace("operators", TRACE, "--name", "aten::nm", code=2).stderr)

    def test_several_ranks_need_several_names(self):
        traces = self.path("traces")
        write_traces(traces)
        done = self.trace("chrome", traces, "-o", self.path("one.json"), code=2)
        self.assertIn("{rank}", done.stderr)
        self.assertFalse(os.path.exists(self.path("one.json")))
        self.trace("chrome", traces, "--ranks", "1", "-o", self.path("one.json"))
        self.assertIn("there is no rank 9", self.trace("operators", traces, "--ranks", "9", code=2).stderr)

    def test_in_a_folder_files_have_the_usual_names(self):
        traces, out = self.path("traces"), self.path("logdir")
        write_traces(traces)
        os.mkdir(out)
        self.trace("chrome", traces, "-o", out)
        self.assertEqual(sorted(os.listdir(out)), [f"rank{rank}.pt.trace.json.gz" for rank in range(4)])
        self.trace("stacks", traces, "--ranks", "2", "-o", out)
        self.trace("memory", TRACE, "-o", out)
        self.assertLess({"rank2.stacks", "rank0.memory.html"}, set(os.listdir(out)))

    def test_no_recording_is_lost_to_what_is_made_of_it(self):
        own = self.path("rank0.json.gz")
        shutil.copyfile(TRACE, own)
        os.symlink(own, self.path("link.json.gz"))
        with open(own, "rb") as file:
            before = file.read()
        for target in (own, self.path("link.json.gz")):
            done = self.trace("chrome", own, "--limit", "1MiB", "-o", target, code=2)
            self.assertIn("is one of the recordings that are read", done.stderr)
        with open(own, "rb") as file:
            self.assertEqual(file.read(), before)
        self.assertEqual(sorted(os.listdir(self.folder)), ["link.json.gz", "rank0.json.gz"])

    def test_who_is_interrupted_leaves_nothing(self):
        long = self.path("long.json")
        with open(long, "w", encoding="ascii") as file:
            file.write('{"distributedInfo": {"rank": 0, "world_size": 1}, "traceEvents": [')
            for i in range(400000):
                file.write('{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": %d, "dur": 1},\n' % i)
            file.write('{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 9, "dur": 1}]}')
        out = self.path("out")
        os.mkdir(out)
        process = subprocess.Popen([os.environ["RANKSCOPE"], "trace", "chrome", long, "-o", os.path.join(out, "x.json.gz")])
        # It is read twice: when it is open for the second time, it is being written.
        while process.poll() is None and not self.has_open(process.pid, out):
            pass
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(), -signal.SIGINT)
        self.assertEqual(os.listdir(out), [])

    @staticmethod
    def has_open(pid, folder):
        """A file in the folder, whether it has a name or not."""
        for fd in os.listdir(f"/proc/{pid}/fd"):
            try:
                if os.readlink(f"/proc/{pid}/fd/{fd}").startswith(folder + "/"):
                    return True
            except OSError:  # closed meanwhile
                pass
        return False

    def test_what_cannot_be_done_is_said(self):
        traces = self.path("traces")
        write_traces(traces)
        done = self.trace("memory", traces, "--ranks", "0", "-o", self.path("m.html"), code=1)
        self.assertIn("profile_memory", done.stderr)
        self.assertEqual(os.listdir(self.folder), ["traces"])  # no half file
        self.assertIn("with_stack", self.trace("stacks", traces, "--ranks", "0").stderr)
        done = self.trace("operators", traces, "--ranks", "0", "--by-shape", "--by-stack", "2")
        self.assertIn("record_shapes", done.stderr)
        self.assertIn("with_stack", done.stderr)
        self.assertEqual(self.trace("operators", TRACE, "--by-shape", "--by-stack", "2").stderr, "")
        self.assertIn("cuda:1", self.trace("memory", TRACE, "--device", "cuda:1", "-o", self.path("m.json"), code=1).stderr)
        with open(self.path("empty.json"), "wb"):
            pass
        done = self.trace("operators", self.path("empty.json"), code=2)
        self.assertEqual(done.stderr.count(self.path("empty.json")), 1, done.stderr)
        for words in (["operator", TRACE], ["operators"], ["memory", TRACE], ["memory", TRACE, "-o", self.path("m.png")],
                      ["chrome", TRACE, "-o", self.path("m.html")], ["operators", TRACE, "--sort-by", "colour"],
                      ["stacks", TRACE, "--metric", "cpu"], ["stacks", TRACE, "--by-shape"], ["memory", TRACE, "--device", "gpu", "-o", "m.html"],
                      ["chrome", TRACE, "--limit", "1KiB", "-o", self.path("m.json")], ["chrome", TRACE, "--name", "aten::mm", "-o", self.path("m.json")]):
            self.trace(*words, code=2)


if __name__ == "__main__":
    unittest_run.main(verbosity=1)
