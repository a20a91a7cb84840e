#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Recipes that read marks, write files or have a GPU beside them, against what is worked out here from the same databases.

    operator_mfu       every row of OperatorMFU; times and shares of modules
    mstx2commop        the operations that were planted as marks; the copies are read by other recipes
    export_summary     every cell of both files
    calibrate_npu_gpu  modules of both sides, what matches and what does not
    alike              the measure of likeness against difflib, through what matches

The inputs are made by tests/support/ascend_job.py and ascend_marks.py. That `--compat msprof-analyze` gives the peer's own cells:
tests/bench/compat.py.
"""
import collections
import csv
import difflib
import hashlib
import os
import pathlib
import sqlite3
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))
import ascend_inputs  # noqa: E402
import ascend_marks  # noqa: E402

PROGRAM = os.environ.get("RANKSCOPE", str(ROOT / "build" / "dev" / "rankscope"))
COMPAT = ["--compat", "msprof-analyze"]
PEAK = ascend_marks.CORES * ascend_marks.MHZ * 1e6 * 8192
failures = []


def check(good, what):
    print("  %s: %s" % ("ok" if good else "FAILED", what[:400]))
    if not good:
        failures.append(what)


def recipe(name, tree, out, *more, code=0):
    done = subprocess.run([PROGRAM, "recipe", name, str(tree), "-o", str(out), *map(str, more)], capture_output=True, text=True)
    check(done.returncode == code, "%s %s: exit %d: %s" % (name, " ".join(map(str, more)), done.returncode, done.stderr.strip()[:300]))
    return done


def rows_of(path, sql):
    con = sqlite3.connect("file:%s?mode=ro" % path, uri=True)
    con.row_factory = sqlite3.Row
    try:
        return con.execute(sql).fetchall()
    finally:
        con.close()


def result(out, table):
    return rows_of(pathlib.Path(out) / "cluster_analysis_output" / "cluster_analysis.db", 'SELECT * FROM "%s"' % table)


def make(folder, *more):
    ascend_inputs.make(str(folder), "--ranks", "2", "--tp", "2", "--pp", "1", "--steps", "2", "--comm-ops-per-step", "24",
                       "--microbatches", "2", "--format", "db", *more)
    return folder


def digest(folder):
    return {str(p): hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(pathlib.Path(folder).rglob("*")) if p.is_file()}


# ---- operator_mfu ----------------------------------------------------------------------------------

KERNELS = """SELECT o.value op, n.value kernel, t.startNs s, t.endNs e, CAST(p.startNs AS INTEGER) op_s, y.value types, i.value ins, u.value outs
  FROM COMPUTE_TASK_INFO c JOIN TASK t USING (globalTaskId) JOIN CONNECTION_IDS k ON k.connectionId = t.connectionId
  JOIN PYTORCH_API p ON p.connectionId = k.id JOIN STRING_IDS o ON o.id = p.name JOIN STRING_IDS n ON n.id = c.name
  JOIN STRING_IDS y ON y.id = c.inputDataTypes JOIN STRING_IDS i ON i.id = c.inputShapes JOIN STRING_IDS u ON u.id = c.outputShapes
  ORDER BY op_s, s"""
RANGES = """SELECT m.value text, startNs s, endNs e FROM MSTX_EVENTS JOIN STRING_IDS m ON m.id = message JOIN STRING_IDS d ON d.id = domainId
  WHERE d.value = 'mfu_flops' ORDER BY startNs"""


def expected_mfu(tree, compat):
    found = []
    for rank, path in ascend_marks.databases(tree):
        kernels = rows_of(path, KERNELS)
        for text, start, end in rows_of(path, RANGES):
            flops, _, name = text.partition("-")
            inside = [k for k in kernels if start <= k["op_s"] <= end]
            if not flops.isdigit() or int(flops) <= 0 or not inside or not inside[0]["types"].startswith("DT_BF16"):
                continue
            every = sum(k["e"] - k["s"] for k in inside)
            for k in inside:
                seconds = (k["e"] - k["s"] if compat else every) * 1e-9
                found.append((rank, k["op"], k["kernel"], k["s"], k["e"], k["e"] - k["s"], round(int(flops) / seconds / PEAK, 4),
                              round(int(flops) / seconds / 1e12, 2), round(PEAK / 1e12, 2), float(flops), name, k["ins"], k["outs"]))
    return sorted(found)


def mfu_part(work):
    tree = make(work / "mfu")
    ascend_marks.plant_mfu(tree, with_unknown=True)
    before = digest(tree)
    for name, more in (("o", []), ("o-compat", COMPAT)):
        recipe("operator_mfu", tree, work / name, *more)
        rows = sorted(tuple(r) for r in result(work / name, "OperatorMFU"))
        wanted = expected_mfu(tree, bool(more))
        check(rows == wanted and len(rows) > 20, "OperatorMFU %s: %d rows, expected %d" % (name, len(rows), len(wanted)))
        if rows != wanted:
            print(set(rows) ^ set(wanted))
        modules = result(work / name, "ModuleMFU")
        check(modules and {"rank_id", "parent_module", "avg_mfu"} <= set(modules[0].keys()), "ModuleMFU: %d rows" % len(modules))
        inner = [r for r in modules if r["parent_module"].endswith("AscendAttention") and r["module"].startswith("Linear")]
        check(bool(inner), "ModuleMFU has modules within modules: %s" % {r["parent_module"] for r in modules})
    rows = result(work / "o", "OperatorMFU")
    blocks = [r for r in rows if r["flops_op_name"] == "block"]
    check(blocks and all(0 < r["mfu"] < 1 for r in blocks), "an operator of three kernels is below the peak: %s" % {r["mfu"] for r in blocks})
    # the innermost range is the kernel's own in its module: planted around one call, 2 * 4096^3 operations
    own = {(r["rank_id"], r["kernel_start(ns)"]): r["mfu"] for r in rows if r["flops_op_name"] == "inner"}
    check(bool(own), "%d kernels have a range within a range" % len(own))
    shares = [r["avg_mfu"] for r in result(work / "o", "ModuleMFU")]
    check(any(s and s.endswith("%") for s in shares) and None in shares, "shares of modules, empty where unknown: %s" % shares[:4])
    check(all(not s or float(s.rstrip("%")) < 100 for s in shares if "," not in (s or "")), "no module is beyond the peak")
    # no chip: the modules have their times all the same, and the rank is named
    for path in tree.rglob("info.json.0"):
        path.unlink()
    done = recipe("operator_mfu", tree, work / "o-nochip", code=1)
    check("chip's peak" in done.stderr, "no info.json: %s" % done.stderr[:200])
    check(len(result(work / "o-nochip", "ModuleMFU")) == len(shares), "no info.json: modules have their times")
    # a rank whose kernels have no framework calls is left out, and the log says why
    alone = make(work / "nocalls")
    for rank, path in ascend_marks.databases(alone):
        con = sqlite3.connect(path)
        con.execute("DROP TABLE PYTORCH_API")
        con.commit()
        con.close()
    done = recipe("operator_mfu", alone, work / "o-nocalls", code=2)
    check("has no table PYTORCH_API" in done.stderr, "no framework calls: %s" % done.stderr[:200])
    recipe("operator_mfu", tree, work / "o-text", "--export-type", "text", code=1)
    check((work / "o-text/cluster_analysis_output/OperatorMfu/operator_mfu_module_1.csv").exists(), "a file for each rank")
    check({k: v for k, v in before.items() if "info.json" not in k} == digest(tree), "inputs are as they were")


# ---- mstx2commop -------------------------------------------------------------------------------------

def marks_part(work):
    tree = make(work / "marks")
    truth = ascend_marks.plant_marks(tree, with_unknown=True)
    before = digest(tree)
    recipe("mstx2commop", tree, work / "o")
    out = work / "o" / "cluster_analysis_output" / "Mstx2Commop"
    for rank, planted in truth.items():
        path = out / ("rank%d_ascend_pt" % rank) / "ASCEND_PROFILER_OUTPUT" / ("ascend_pytorch_profiler_%d.db" % rank)
        rows = rows_of(path, "SELECT n.value name, g.value grp, t.value type, startNs, endNs, count, d.name data, relay, algType FROM COMMUNICATION_OP "
                       "o JOIN STRING_IDS n ON n.id = opName JOIN STRING_IDS g ON g.id = groupName JOIN STRING_IDS t ON t.id = opType "
                       "LEFT JOIN ENUM_HCCL_DATA_TYPE d ON d.id = dataType ORDER BY opId")
        numbers, wanted = collections.Counter(), []
        for kind, group, data, count, start, end in planted:
            a = b = 0
            for c in group:
                a, b = (a * 29 + ord(c)) & 0xFFFFFFFF, (b * 131 + ord(c)) & 0xFFFFFFFF
            tag = str(a << 32 | b)[-3:]
            wanted.append(("%s__%s_%d_1" % (kind, tag, numbers[kind, group]), group, kind + "_", start, end, count,
                           {"fp16": "FP16", "int8": "INT8"}.get(data), None, None))
            numbers[kind, group] += 1
        check([tuple(r) for r in rows] == wanted, "rank %d: %d operations, planted %d" % (rank, len(rows), len(wanted)))
        ids = rows_of(path, "SELECT count(*) n, count(DISTINCT id) i, count(DISTINCT value) v FROM STRING_IDS")[0]
        check(ids["n"] == ids["i"] == ids["v"], "rank %d: names stand once: %s" % (rank, tuple(ids)))
        check(rows_of(path, "PRAGMA quick_check")[0][0] == "ok", "rank %d: the copy is sound" % rank)
    check(sum(r["Count"] for r in (recipe("hccl_sum", out, work / "sum"), result(work / "sum", "HcclAllRankStats"))[1]) ==
          sum(map(len, truth.values())), "hccl_sum reads the copies")
    check(not list(out.rglob("*.tmp*")), "nothing half-made stays behind")
    # marks of one stream only: the peer makes n * n of them
    recipe("mstx2commop", tree, work / "o-step", "--step-id", "1")
    said = subprocess.run([PROGRAM, "analyse", str(tree), "-o", str(work / "a")], capture_output=True, text=True, check=False)
    words = " ".join(said.stdout.split())
    check("a mark of a communication operation" in words and "recipe mstx2commop" in words, "analyse tells how marks become operations")
    subprocess.run([PROGRAM, "analyse", str(out), "-o", str(work / "a-o"), "--quiet"], capture_output=True, check=False)
    made = len(table_of(work / "a-o" / "collectives.csv"))
    check(made == sum(len(planted) for planted in truth.values()), "analyse reads %d operations made of marks" % made)
    some = rows_of(work / "o-step/cluster_analysis_output/Mstx2Commop/rank0_ascend_pt/ASCEND_PROFILER_OUTPUT/ascend_pytorch_profiler_0.db",
                   "SELECT count(*) FROM COMMUNICATION_OP")[0][0]
    check(0 < some < len(truth[0]), "--step-id 1: %d of %d" % (some, len(truth[0])))
    check(digest(tree) == before, "inputs are as they were")
    done = recipe("mstx2commop", make(work / "plain"), work / "o-plain", code=2)
    check("has COMMUNICATION_OP already" in done.stderr, "a rank with operations is left alone: %s" % done.stderr[:200])


# ---- export_summary ----------------------------------------------------------------------------------

def table_of(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def us(ns):
    whole, part = divmod(ns, 1000)
    return ("%d.%03d" % (whole, part)).rstrip("0").rstrip(".") if part else "%d" % whole


def summary_part(work):
    tree = make(work / "summary")
    for _, path in ascend_marks.databases(tree):
        con = sqlite3.connect(path)
        names = ascend_marks.Names(con)
        con.execute("CREATE TABLE TASK_PMU_INFO (globalTaskId INTEGER, name INTEGER, value NUMERIC)")
        tasks = [r[0] for r in con.execute("SELECT globalTaskId FROM COMPUTE_TASK_INFO ORDER BY 1")]
        for task in tasks[1:]: # the first has none
            con.executemany("INSERT INTO TASK_PMU_INFO VALUES (?, ?, ?)",
                            [(task, names["aic_total_time"], 1500), (task, names["mac\"ratio"], 0.25), (task, names["aiv_total_time"], 250.5)])
        con.commit()
        con.close()
    before = digest(tree)
    recipe("export_summary", tree, work / "o")
    out = work / "o" / "cluster_analysis_output" / "ExportSummary"
    for rank, path in ascend_marks.databases(tree):
        calls = {r["API Name"]: r for r in table_of(out / ("api_statistic_%d.csv" % rank))}
        wanted = rows_of(path, "SELECT s.value, sum(endNs - startNs), count(*), min(endNs - startNs), max(endNs - startNs) FROM CANN_API "
                         "JOIN STRING_IDS s ON s.id = name GROUP BY 1")
        good = all((calls[n]["Total Time(ns)"], calls[n]["Count"], calls[n]["Min Time(ns)"], calls[n]["Max Time(ns)"]) ==
                   (str(total), str(count), str(low), str(high)) for n, total, count, low, high in wanted)
        check(good and len(calls) == len(wanted) > 3, "rank %d: %d calls with their own times" % (rank, len(calls)))
        rows = table_of(out / ("kernel_details_%d.csv" % rank))
        wanted = rows_of(path, "SELECT n.value name, y.value type, t.startNs s, t.endNs e, deviceId d, streamId st, taskId id, c.globalTaskId g "
                         "FROM COMPUTE_TASK_INFO c JOIN TASK t USING (globalTaskId) JOIN STRING_IDS n ON n.id = c.name JOIN STRING_IDS y "
                         "ON y.id = c.taskType UNION ALL SELECT n.value, 'COMMUNICATION', startNs, endNs, deviceId, NULL, NULL, NULL "
                         "FROM COMMUNICATION_OP JOIN STRING_IDS n ON n.id = opName ORDER BY s")
        check(len(rows) == len(wanted) > 30, "rank %d: %d kernels, expected %d" % (rank, len(rows), len(wanted)))
        first = rows_of(path, "SELECT min(globalTaskId) FROM COMPUTE_TASK_INFO")[0][0]
        cells, last = 0, None
        for row, want in zip(rows, wanted):
            counters = ("1.5", "0.25", "0.2505") if want["g"] is not None and want["g"] != first else ("", "", "")
            expected = {"op_name": want["name"], "task_type": want["type"], "task_start_time": us(want["s"]),
                        "task_duration": us(want["e"] - want["s"]), "device_id": str(want["d"]),
                        "stream_id": "" if want["st"] is None else str(want["st"]), "task_id": "" if want["id"] is None else str(want["id"]),
                        "aicore_time": counters[0], 'mac"ratio': counters[1], "aiv_time": counters[2],
                        "task_wait_time": "" if last is None else us(max(0, want["s"] - last))}
            found = {k: row.get(k) for k in expected}
            cells += len(expected)
            if found != expected:
                check(False, "rank %d: %s, expected %s" % (rank, found, expected))
                break
            last = want["e"]
        check(True, "rank %d: %d cells" % (rank, cells))
    check(digest(tree) == before, "inputs are as they were")


# ---- calibrate_npu_gpu -------------------------------------------------------------------------------

def calibrate_part(work):
    tree, gpu = make(work / "cal"), work / "gpu.sqlite"
    ascend_marks.plant_mfu(tree)
    ascend_marks.plant_gpu(gpu)
    before = digest(work / "cal"), digest(work)[str(gpu)]
    recipe("calibrate_npu_gpu", tree, work / "o", "--baseline-profiling-path", gpu)
    recipe("module_statistic", tree, work / "o")
    npu = collections.defaultdict(float)
    for r in result(work / "o", "ModuleStatistic"):
        npu[r["rankID"], r["parentModule"], r["module"]] += r["totalKernelDuration(ns)"] / 1000
    for rank in (0, 1):
        rows = result(work / "o", "CompareProfileReportRank%d" % rank)
        side = {(r["(GPU) Parent Module"], r["(GPU) Module"], r["(GPU) Op Name"]): r for r in rows if r["(GPU) Op Name"]}
        wanted = {}
        for modules, operation, kernels in ascend_marks.GPU_WORK:
            if modules:
                total = sum(2 * (time + 1000 * rank) + 1 for _, time in kernels) / 1000
                wanted["/".join(modules[:-1]), modules[-1], (operation or "None").split(",")[0]] = (
                    2 * len(kernels), ", ".join(n for n, _ in kernels), total, total / (2 * len(kernels)))
        found = {k: (r["(GPU) Op Count"], r["(GPU) Kernel List"], r["(GPU) Total Kernel Duration(us)"], r["(GPU) Avg Kernel Duration(us)"])
                 for k, r in side.items()}
        check(set(found) == set(wanted), "rank %d: modules of the GPU: %s" % (rank, sorted(found)))
        check(all(a == b or abs(a - b) < 1e-6 for k in wanted for a, b in zip(found.get(k, (None,) * 4), wanted[k])
                  if not isinstance(a, str)) and all(found[k][1] == wanted[k][1] for k in wanted), "rank %d: the GPU's times" % rank)
        matched = {(r["(NPU) Parent Module"], r["(NPU) Module"]): r for r in rows if r["Match Type"]}
        linear = matched.get(("TransformerBlock/AscendAttention", "Linear"))
        check(linear is not None and linear["Match Type"] == "rule" and linear["(GPU) Module"] == "Linear",
              "rank %d: a module within modules matches by rule: %s" % (rank, {k: r["Match Type"] for k, r in matched.items()}))
        both = [r for r in rows if r["(NPU-GPU,us) Module Time Diff"] is not None]
        groups = collections.defaultdict(set) # all modules of the NPU that match one of the GPU
        for r in matched.values():
            groups[r["(GPU) Parent Module"], r["(GPU) Module"]].add((r["(NPU) Parent Module"], r["(NPU) Module"]))
        good = bad = 0
        for r in both:
            key = r["(GPU) Parent Module"], r["(GPU) Module"]
            if key not in groups or not r["(GPU) Op Name"]:
                continue
            theirs = sum(v[2] for k, v in wanted.items() if k[:2] == key)
            ours = sum(npu[(rank, *module)] for module in groups[key])
            is_right = abs(r["(NPU-GPU,us) Module Time Diff"] - (ours - theirs)) < 1e-6 and \
                r["(NPU/GPU) Module Time Ratio"] == "%.2f" % (ours / theirs)
            good, bad = good + is_right, bad + (not is_right)
        check(good and not bad, "rank %d: ratio and difference of modules, %d right, %d wrong" % (rank, good, bad))
        check(bool(both), "rank %d: %d rows have both sides" % (rank, len(both)))
        for row in (r for r in rows if r["Match Type"] == "fuzzy"):
            a = "%s/%s" % (row["(GPU) Parent Module"], row["(GPU) Module"])
            b = ("%s/%s" % (row["(NPU) Parent Module"], row["(NPU) Module"])).replace("Ascend", "")
            check(difflib.SequenceMatcher(None, a, b).ratio() >= 0.8 or not row["(GPU) Op Name"], "fuzzy: %s and %s" % (a, b))
        shares = [float(r["(GPU) Total Kernel Duration(%)"][:-1]) for r in rows if r["(GPU) Total Kernel Duration(%)"]]
        check(abs(sum(shares) - 100) < 0.05, "rank %d: shares sum up to %.2f %%" % (rank, sum(shares)))
    recipe("calibrate_npu_gpu", tree, work / "o-one", "--baseline-profiling-path", gpu, "--rank-list", "1")
    ascend_marks.plant_gpu(work / "gpu0.sqlite", devices=(0,))
    done = recipe("calibrate_npu_gpu", tree, work / "o-missing", "--baseline-profiling-path", work / "gpu0.sqlite", code=1)
    check("no device 1 to compare with" in done.stderr, "a rank without a device: %s" % done.stderr[:200])
    done = recipe("calibrate_npu_gpu", tree, work / "o-none", code=2)
    check("--baseline-profiling-path" in done.stderr, "no baseline: %s" % done.stderr[:200])
    done = recipe("calibrate_npu_gpu", tree, work / "o-bad", "--baseline-profiling-path", gpu, "--fuzzy-threshold", "2", code=2)
    done = recipe("calibrate_npu_gpu", tree, work / "o-text", "--baseline-profiling-path", gpu, "--export-type", "text")
    check((work / "o-text/cluster_analysis_output/CalibrateNpuGpu/compare_profile_report_1.csv").exists(), "a file for each rank")
    check(before == (digest(work / "cal"), digest(work)[str(gpu)]), "inputs are as they were")


def main():
    if not os.access(PROGRAM, os.X_OK):
        print("skipped: %s is not built" % PROGRAM)
        return 77
    with tempfile.TemporaryDirectory(prefix="rankscope-recipes-") as folder:
        for part in (mfu_part, marks_part, summary_part, calibrate_part):
            if len(sys.argv) > 1 and part.__name__ not in sys.argv[1:]:
                continue
            print(part.__name__)
            work = pathlib.Path(folder) / part.__name__
            work.mkdir()
            part(work)
    for failure in failures:
        print("FAILED: " + failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
