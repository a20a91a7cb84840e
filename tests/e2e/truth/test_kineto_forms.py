#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every input read for what it is: rows alone, begin and end rows, packed files, unknown devices, other tools' files, odd times.

All traces are made here: two ranks, three steps, an all-reduce and two kernels each.
"""
import bz2
import csv
import gzip
import json
import lzma
import os
import shutil
import subprocess
import tempfile
import unittest

PROGRAM = os.environ.get("RANKSCOPE", "rankscope")
BASE_US = 1750000000000000
ARGUMENTS = {"Collective name": "allreduce", "In msg nelems": 1000, "Out msg nelems": 1000, "Group size": 2, "dtype": "Float",
             "Process Group Name": "0", "Process Group Ranks": "[0, 1]"}


def rows_of(rank, base=BASE_US, kernel="kernel"):
    rows = []
    for step in range(3):
        at = base + step * 10000
        rows.append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 7, "tid": 7, "ts": at, "dur": 9000})
        for k in range(3):
            number = step * 10 + k + 1
            start = at + 1000 + k * 2000 + (rank * 300 if k == 2 else 0)
            rows.append({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 7, "tid": 7, "ts": start - 100,
                         "dur": 10, "args": {"correlation": number}})
            args = {"device": 0, "stream": 20 if k == 2 else 7, "correlation": number}
            name = "gemm"
            if k == 2:
                name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
                args.update(ARGUMENTS)
            rows.append({"ph": "X", "cat": kernel, "name": name, "pid": 0, "tid": args["stream"], "ts": start,
                         "dur": at + 7000 - start if k == 2 else 1500, "args": args})
    return rows


def document(rank, rows, **more):
    return {"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": 2}, **more, "traceEvents": rows}


class Rig(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="rs-forms-")
        self.addCleanup(shutil.rmtree, self.folder)

    def write(self, name, what, pack=None):
        data = what if isinstance(what, bytes) else json.dumps(what).encode()
        with open(os.path.join(self.folder, "in", name), "wb") as file:
            file.write(pack(data) if pack else data)

    def analyse(self, ranks, expected=0):
        """ranks: name -> (content, pack); returns the rows of step_trace_time.csv and of collectives.csv, and the manifest."""
        shutil.rmtree(os.path.join(self.folder, "in"), ignore_errors=True)
        os.mkdir(os.path.join(self.folder, "in"))
        for name, (what, pack) in ranks.items():
            self.write(name, what, pack)
        out = os.path.join(self.folder, "out")
        done = subprocess.run([PROGRAM, "analyse", os.path.join(self.folder, "in"), "-o", out, "--quiet"], capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, expected, done.stderr)
        self.said = done.stderr
        tables = []
        for name in ("step_trace_time.csv", "collectives.csv"):
            path = os.path.join(out, name)
            if not os.path.exists(path):
                return [], [], {}
            with open(path, newline="", encoding="utf-8") as file:
                tables.append(list(csv.DictReader(file)))
        with open(os.path.join(out, "manifest.json"), encoding="utf-8") as file:
            return tables[0], tables[1], json.load(file)

    def usual(self):
        return self.analyse({f"rank{r}.json": (document(r, rows_of(r)), None) for r in range(2)})[:2]


class Forms(Rig):
    def check_same(self, ranks, expected=0):
        want = self.usual()
        steps, collectives, manifest = self.analyse(ranks, expected)
        self.assertEqual((steps, collectives), want)
        return manifest

    def test_rows_alone(self):
        self.check_same({f"rank{r}.json": (rows_of(r), None) for r in range(2)})

    def test_rows_alone_cut(self):
        text = json.dumps(rows_of(1)).encode()
        _, _, manifest = self.analyse({"rank0.json": (rows_of(0), None), "rank1.json": (text[:len(text) // 2], None)}, 1)
        self.assertEqual([i["state"] for i in manifest["inputs"]], ["whole", "partial"])

    def test_begin_and_end(self):
        def halves(rows):
            made = []
            for row in rows:
                begin = {k: v for k, v in row.items() if k != "dur"}
                begin["ph"] = "B"
                end = {"ph": "E", "pid": row["pid"], "tid": row["tid"], "ts": row["ts"] + row["dur"]}
                made += [(row["ts"], 1, -row["dur"], begin), (row["ts"] + row["dur"], 0, row["dur"], end)]
            return [row for _, _, _, row in sorted(made, key=lambda m: m[:3])]
        self.check_same({f"rank{r}.json": (document(r, halves(rows_of(r))), None) for r in range(2)})

    def test_begin_without_end(self):
        rows = rows_of(1) + [{"ph": "B", "cat": "cpu_op", "name": "x", "pid": 7, "tid": 7, "ts": BASE_US + 50}]
        manifest = self.check_same({"rank0.json": (document(0, rows_of(0)), None), "rank1.json": (document(1, rows), None)}, 1)
        self.assertIn("begin or end of a span without the other", json.dumps(manifest))

    def test_packed(self):
        def members(data):
            return gzip.compress(data[:500]) + gzip.compress(data[500:]) + b"\0" * 100

        def streams(data):
            return bz2.compress(data[:500]) + bz2.compress(data[500:])

        def xz_streams(data):
            return lzma.compress(data[:500]) + lzma.compress(data[500:])

        packs = {".gz": [members], ".xz": [lzma.compress, xz_streams], ".bz2": [bz2.compress, streams]}
        if shutil.which("zstd"):
            def zstd(data):
                return b"".join(subprocess.run(["zstd", "-c"], input=part, capture_output=True, check=True).stdout
                                for part in (data[:500], data[500:]))
            packs[".zst"] = [zstd]
        for tail, ways in packs.items():
            for pack in ways:
                with self.subTest(tail=tail, pack=pack.__name__):
                    self.check_same({f"rank{r}.json{tail}": (document(r, rows_of(r)), pack) for r in range(2)})

    def test_packed_and_cut(self):
        for tail, pack in ((".xz", lzma.compress), (".bz2", bz2.compress)):
            whole = pack(json.dumps(document(1, rows_of(1) * 200)).encode())
            ranks = {f"rank0.json{tail}": (document(0, rows_of(0)), pack), f"rank1.json{tail}": (whole[:len(whole) - 10], None)}
            _, _, manifest = self.analyse(ranks, 1)
            self.assertNotEqual([i["state"] for i in manifest["inputs"]], ["whole", "whole"], tail)

    def test_device_of_a_kind_that_is_not_known(self):
        ranks = {f"rank{r}.json": (document(r, rows_of(r, kernel="mlu_kernel")), None) for r in range(2)}
        manifest = self.check_same(ranks)
        self.assertIn("mlu_kernel", json.dumps(manifest))

    def test_category_that_is_not_known(self):
        """Nothing is made of such a span, and the manifest says which it was; flows and metadata are no spans."""
        rows = rows_of(0)
        odd = dict(next(row for row in rows if row.get("ph") == "X"), cat="tomorrows_op", name="something else")
        ranks = {"rank0.json": (document(0, [odd, *rows]), None), "rank1.json": (document(1, rows_of(1)), None)}
        manifest = self.check_same(ranks)
        told = [entry["format"] for entry in manifest["inputs"]]
        self.assertIn("unknown category tomorrows_op", told[0])
        self.assertNotIn("unknown", told[1])

    def test_category_that_is_not_known_and_may_matter(self):
        """A launch, an operator, a collective or a step of tomorrow's profiler: figures lack it, so the rank is partial."""
        odd = [{"args": {"correlation": 3}, "name": "cudaLaunchTomorrow"}, {"args": {"External id": 9}, "name": "aten::mm"},
               {"args": {"Collective name": "allreduce"}, "name": "something"}, {"name": "ProfilerStep#9"}, {"name": "gloo:broadcast"}]
        for row in odd:
            with self.subTest(row=row):
                rows = [{"ph": "X", "cat": "tomorrows", "pid": 7, "tid": 7, "ts": BASE_US + 1500, "dur": 4, **row}, *rows_of(0)]
                ranks = {"rank0.json": (document(0, rows), None), "rank1.json": (document(1, rows_of(1)), None)}
                manifest = self.check_same(ranks, 1)
                self.assertEqual([i["state"] for i in manifest["inputs"]], ["partial", "whole"])
                self.assertIn("of an unknown category", json.dumps(manifest["inputs"][0]["dropped"]))

    def test_times_of_the_files_own(self):
        """No base, and the text is whole: they count from somewhere, and nothing was lost."""
        ranks = {f"rank{r}.json": (document(r, rows_of(r, base=5000 + r * 777)), None) for r in range(2)}
        steps, collectives, _ = self.analyse(ranks)
        want_steps, want = self.usual()
        self.assertEqual(steps, want_steps)
        self.assertEqual(len(collectives), len(want))
        self.assertNotIn("time base", self.said)

    def test_a_row_of_another_time(self):
        for odd in (0, 4102444800000000):
            rows = [{"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": odd, "dur": 5,
                     "args": {"device": 0, "stream": 7}}] + rows_of(1)
            manifest = self.check_same({"rank0.json": (document(0, rows_of(0)), None), "rank1.json": (document(1, rows), None)}, 1)
            self.assertEqual([i["state"] for i in manifest["inputs"]], ["whole", "partial"])
            self.assertIn("row months away from all others", json.dumps(manifest))


    def test_rows_that_lack_something(self):
        """A member that every span has is missing, or is no value of its kind: said, and the other rows stay what they are."""
        lacks = [({"dur": None}, "without duration"), ({"dur": "soon"}, "without duration"), ({"dur": -5}, "impossible duration"),
                 ({"name": True}, "without duration, name or"), ({"cat": []}, "without duration, name or category"),
                 ({"ts": {}}, "without phase or time"), ({"ph": None}, "without phase or time"), ({"pid": None}, "without device and stream"),
                 ({"tid": None}, "without device and stream"), ({"pid": -3}, "without device and stream"),
                 ({"pid": "here"}, "without device and stream"), ({"dur": 10**30}, "impossible duration")]
        for change, said in lacks:
            for kind in ("kernel", "cuda_runtime")[:1 if "stream" in said else 2]:
                rows = rows_of(1)
                odd = {"ph": "X", "cat": kind, "name": "gemm", "pid": 0, "tid": 7, "ts": BASE_US + 50, "dur": 0, "args": {}}
                odd.update(change)
                if None in change.values():
                    odd = {key: value for key, value in odd.items() if value is not None}
                with self.subTest(change=change, kind=kind):
                    manifest = self.check_same({"rank0.json": (document(0, rows_of(0)), None),
                                                "rank1.json": (document(1, rows + [odd]), None)}, 1)
                    self.assertEqual([i["state"] for i in manifest["inputs"]], ["whole", "partial"])
                    self.assertIn(said, json.dumps(manifest["inputs"][1]["dropped"]))
        for change in ({"pid": "here"}, {"tid": []}):
            odd = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 7, "tid": 7, "ts": BASE_US + 50, "dur": 3, **change}
            manifest = self.check_same({"rank0.json": (document(0, rows_of(0)), None),
                                        "rank1.json": (document(1, rows_of(1) + [odd]), None)}, 1)
            self.assertIn("host row without process and thread", json.dumps(manifest["inputs"][1]["dropped"]))


class Foreign(Rig):
    def check(self, content, what, name="x.json"):
        ranks = {f"rank{r}.json": (document(r, rows_of(r)), None) for r in range(2)}
        ranks[name] = (content, None)
        _, _, manifest = self.analyse(ranks, 1)
        self.assertIn(what, json.dumps(manifest))
        self.assertIn(what, self.said)

    def test_named(self):
        device = {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "/device:TPU:0"}}
        row = {"ph": "X", "pid": 1, "tid": 1, "ts": 1, "dur": 2, "name": "fusion.1"}
        self.check({"displayTimeUnit": "ns", "metadata": {"highres-ticks": True}, "traceEvents": [device, row]}, "JAX")
        timeline = {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "/job:localhost/replica:0/task:0/cpu:0 Compute"}}
        self.check({"traceEvents": [timeline, row]}, "TensorFlow")
        self.check({"schema": "1.1.1-chakra.0.0.4", "pid": 5, "nodes": [{"id": 1, "name": "[pytorch]"}]}, "execution trace")
        self.check([[1, 2, 3], [[0, 1], [2, 3]]], "memory timeline")
        self.check([[[1700000000, 1, 5, 6], [2, 2, 2, 2]]], "memory timeline")
        self.check({"traceEvents": [row], "metadata": {"trace-config": "x"}}, "Perfetto")
        self.check({"CudaEvent": {"startNs": "1"}}, "Nsight")


class Cut(Rig):
    def test_before_its_device(self):
        """Host rows first, device rows behind: a rank that was cut between is no CPU rank, and the group is not whole without it."""
        def sorted_rows(rank):
            rows = [{**r, "args": {k: v for k, v in r.get("args", {}).items() if k not in ARGUMENTS}} for r in rows_of(rank)]
            return sorted(rows, key=lambda r: r["cat"] == "kernel")
        text = json.dumps(document(1, sorted_rows(1))).encode()
        for share in range(40, 100, 4):
            ranks = {"rank0.json": (document(0, sorted_rows(0)), None), "rank1.json": (text[:len(text) * share // 100], None)}
            _, collectives, _ = self.analyse(ranks, 1)
            for row in collectives:
                if row["RanksSeen"] == "1":
                    self.assertNotEqual(row["Coverage"], "exact", share)


class Experts(Rig):
    """DeepEP: kernels that no call launched; four ranks, of which another comes last every time."""
    LAYERS = (("get_dispatch_layout<256, 32, 8>(long*)", "notify_dispatch<4>(int*)", "dispatch<4, 768, 8192>(int4*)"),
              (None, "cached_notify_combine<4>(void**)", "combine<__nv_bfloat16, 4, 768>(int4*)"))

    def rows(self, rank, skip=()):
        """Operation n: ranks come 10 us after each other, the last is rank n % 4; all end together."""
        rows, number = [], 0
        for step in range(3):
            at = BASE_US + step * 10000
            rows.append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 7, "tid": 7, "ts": at, "dur": 9000})
            for n in range(6):
                late, end = (rank - n - 1) % 4 * 10, at + 1000 + n * 1000 + 500
                layout, notify, move = self.LAYERS[n % 2]
                start = end - 400 + late
                for name, begin, length in ((layout, start - 60, 20), (notify, start, 50 - late + 30), (move, end - 200, 200),
                                            ("gemm", end, 100)):
                    number += 1
                    if name is None or (step * 6 + n in skip and name == move):
                        continue
                    stream = 7 if name == "gemm" else 30
                    room = "" if name == "gemm" else "void deep_ep::intranode::"
                    rows.append({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 7, "tid": 7, "ts": begin - 10,
                                 "dur": 5, "args": {"correlation": number}})
                    rows.append({"ph": "X", "cat": "kernel", "name": room + name, "pid": 0, "tid": stream, "ts": begin,
                                 "dur": length, "args": {"device": 0, "stream": stream, "correlation": number}})
        return rows

    def files(self, **skips):
        return {f"rank{r}.json": ({**document(r, self.rows(r, skips.get(f"rank{r}", ()))),
                                   "distributedInfo": {"backend": "nccl", "rank": r, "world_size": 4}}, None) for r in range(4)}

    def test_dispatch_and_combine_have_arrivals(self):
        _, operations, _ = self.analyse(self.files())
        self.assertEqual(len(operations), 4 * 18)
        self.assertEqual({row["Op"] for row in operations}, {"all_to_all"})
        self.assertEqual({(row["Group"], row["RanksSeen"], row["Coverage"]) for row in operations}, {("g:0-3", "4", "exact")})
        for row in operations:
            n = (int(row["Start(ns)"]) // 1000 - BASE_US) % 10000 // 1000 - 1
            self.assertEqual(int(row["LastRank"]), n % 4, row)
            # from the notify kernel on: who comes first waits 30 us
            self.assertEqual(int(row["Wait(ns)"]), 30000 - (int(row["Rank"]) - n - 1) % 4 * 10000, row)

    def test_a_notify_that_begins_nothing_is_listed_alone(self):
        _, operations, _ = self.analyse(self.files(rank1=(4,)))
        alone = [row for row in operations if row["RanksSeen"] == "1"]
        self.assertEqual([(row["Rank"], row["Seq"], row["Wait(ns)"]) for row in alone], [("1", "", "0")])
        self.assertEqual(sum(row["RanksSeen"] == "3" for row in operations), 3)
        self.assertEqual(len(operations), 4 * 18)


if __name__ == "__main__":
    unittest.main()
