#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""rankscope recipe against the peer's own results, and against planted cases where the peer is wrong.

1. `--compat msprof-analyze` on the golden input: every table and file of the golden results, cell by cell. Every
   differing cell is printed with the reason; one without a reason fails.
2. Default mode: one planted case for each defect that is put right, the right answer expected.
3. Broken, missing, doubled and unfinished ranks: the others are complete, the problem is named.
4. Databases of two ranks: every recipe runs, and no input file changes.
5. Files that strangers made: tables with the names of ours, sums of more than 64 bits, times that are not there.

1 needs ../shared/data; the jobs of 2 and the ranks of 4 come from there too where it is, else tests/support/ascend_job.py makes them.
"""
import collections
import csv
import hashlib
import json
import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))
import ascend_inputs  # noqa: E402

GOLDEN = pathlib.Path(ascend_inputs.GOLDEN)
GENERATOR = ascend_inputs.generator()
PROGRAM = os.environ.get("RANKSCOPE", str(ROOT / "build" / "dev" / "rankscope"))
ORDER = "3,6,4,5,0,7,1,2"  # the order in which the peer met the ranks on that run
COMPAT = ["--compat", "msprof-analyze"]

failures = []
ran = []


def check(good, what):
    """Cells of the golden part are counted, all else is told."""
    if not good:
        failures.append(what)
        print("  FAILED: " + what)
    elif "golden" in ran[-1:]:
        return
    else:
        print("  ok: " + what.replace("\n", " ")[:200])


def recipe(name, paths, out, *more):
    paths = paths if isinstance(paths, list) else [paths]
    done = subprocess.run([PROGRAM, "recipe", name, *map(str, paths), "-o", str(out), *more],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode not in (0, 1, 2, 3):
        check(False, "recipe %s ended with %d: %s" % (name, done.returncode, done.stderr[-400:]))
    return done


def database(out):
    return pathlib.Path(out) / "cluster_analysis_output" / "cluster_analysis.db"


def table(path, name, columns="*", tail=""):
    con = sqlite3.connect("file:%s?mode=ro" % path, uri=True)
    con.row_factory = sqlite3.Row
    try:
        return con.execute('SELECT %s FROM "%s" %s' % (columns, name, tail)).fetchall()
    except sqlite3.OperationalError:
        return None
    finally:
        con.close()


def digests(folder):
    """Names, bytes and times of everything below a folder."""
    found = {}
    for path in sorted(pathlib.Path(folder).rglob("*")):
        if path.is_file() and "cluster_analysis_output" not in path.parts:
            found[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def generate(out, *more):
    subprocess.run([sys.executable, str(GENERATOR), "--out", str(out), "--format", "db", *map(str, more)], check=True,
                   stdout=subprocess.DEVNULL)
    return out


# ---- 1. the peer's results ----------------------------------------------------------------------

# recipe, its tables with the columns that name a row
TABLES = {
    "communication_group_map": {"CommunicationGroupMapping": ["type", "group_name"]},
    "communication_time_sum": {
        "ClusterCommunicationTime": ["step", "rank_id", "hccl_op_name", "group_name"],
        "ClusterCommunicationBandwidth": ["step", "rank_id", "hccl_op_name", "group_name", "band_type",
                                          "package_size"]},
    "communication_matrix_sum": {
        "ClusterCommunicationMatrix": ["step", "hccl_op_name", "group_name", "src_rank", "dst_rank"]},
    "hccl_sum": {"HcclAllRankStats": ["OpType"], "HcclPerRankStats": ["OpType", "Rank"],
                 "HcclTopOpStats": ["OpName"], "HcclGroupNameMap": ["GroupName"]},
    "slow_rank": {"SlowRank": ["rankId"], "SlowOpStats": ["OpName", "GroupName"]},
    "cluster_time_summary": {"ClusterTimeSummary": ["rank", "step"]},
    "freq_analysis": {"AbnormalFrequencyRanks": ["rankId"]},
    "ep_load_balance": {"EPTokensSummary": ["rank", "epRanks"], "TopEPTokensInfo": ["epRanks"]},
    "communication_bottleneck": {"CommunicationBottleneck": ["startTime(us)", "communicationOp"]},
    "compute_op_sum": {"ComputeOpAllRankStats": ["OpType", "TaskType"],
                       "ComputeOpPerRankStatsByOpType": ["OpType", "TaskType", "Rank"],
                       "ComputeOpPerRankStatsByOpName": ["OpName", "OpType", "TaskType", "InputShapes", "Rank"]},
    "cann_api_sum": {"CannApiSumRank": ["name", "rank"], "CannApiSum": ["name"]},
    "mstx_sum": {"MSTXMarkStats": ["Name", "Rank", "StepId"], "MSTXAllFrameworkStats": ["Name", "StepId"],
                 "MSTXAllCannStats": ["Name", "StepId"], "MSTXAllDeviceStats": ["Name", "StepId"]},
}
TIE = "gaps of equal length: the peer keeps any of them, we the earliest"


def equal(a, b):
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return a == b or abs(a - b) <= 1e-12 * max(abs(a), abs(b))
    return a == b


def compare(golden, ours, name, keys):
    """Cells compared and cells that differ."""
    theirs, mine = table(golden, name), table(ours, name)
    if mine is None:
        check(False, "table %s is not there" % name)
        return 0, 0
    def columns(path):
        con = sqlite3.connect("file:%s?mode=ro" % path, uri=True)
        rows = con.execute("SELECT name, type FROM pragma_table_info(?)", (name,)).fetchall()
        con.close()
        return rows
    check(columns(golden) == columns(ours), "%s: columns %s, expected %s" % (name, columns(ours), columns(golden)))
    order = lambda row: tuple(str(row[k]) for k in keys)
    theirs, mine = sorted(theirs, key=order), sorted(mine, key=order)
    check(len(theirs) == len(mine), "%s: %d rows, expected %d" % (name, len(mine), len(theirs)))
    cells = differing = 0
    for x, y in zip(theirs, mine):
        for column in x.keys():
            cells += 1
            if not equal(x[column], y[column]):
                differing += 1
                print("    %s %s %s: %r, expected %r" % (name, order(x), column, y[column], x[column]))
                check(False, "%s: a cell differs without a reason" % name)
    return cells, differing


def compare_free(golden, ours, wide):
    """FreeAnalysis: lengths per rank must agree; rows that differ must be ties; with all gaps listed every row is there."""
    lengths = lambda rows: sorted((r["rankId"], r["duration(us)"]) for r in rows)
    theirs, mine = table(golden, "FreeAnalysis"), table(ours, "FreeAnalysis")
    check(lengths(theirs) == lengths(mine), "FreeAnalysis: the longest gaps of each rank")
    every = {(r["rankId"], r["startTime(us)"]): tuple(r) for r in table(wide, "FreeAnalysis")}
    kept = {(r["rankId"], r["startTime(us)"]) for r in mine}
    others = 0
    for row in theirs:
        key = (row["rankId"], row["startTime(us)"])
        check(every.get(key) == tuple(row), "FreeAnalysis: the gap %s of the peer" % (key,))
        others += key not in kept
    shortest = min(r["duration(us)"] for r in mine)
    check(all(r["duration(us)"] <= shortest for r in theirs
              if (r["rankId"], r["startTime(us)"]) not in kept), "FreeAnalysis: only ties may differ")
    if others:
        print("    FreeAnalysis: %d of %d rows are other gaps (%s)" % (others, len(theirs), TIE))
    return len(theirs) * 7


def lines(path):
    with open(path, newline="") as file:
        return sorted(file.read().splitlines())


def compare_text(data, out):
    files = 0
    for name in ("hccl_sum", "slow_rank", "cluster_time_summary", "communication_bottleneck", "free_analysis"):
        recipe(name, data, out, *COMPAT, "--rank-list", ORDER, "--export-type", "text", "--top-num",
               "2000" if name == "free_analysis" else {"hccl_sum": "15"}.get(name, "10"))
    for path in sorted((GOLDEN / "r8-recipes-text").rglob("*.csv")):
        stem = "cluster_time_summary.csv" if path.name.startswith("cluster_time_summary_") else path.name
        ours = pathlib.Path(out) / "cluster_analysis_output" / path.parent.name / stem
        check(ours.exists(), "file %s is there" % stem)
        if not ours.exists():
            continue
        files += 1
        if path.name == "free_analysis.csv":
            check(set(lines(path)) <= set(lines(ours)), "every line of %s among all gaps" % stem)
        else:
            check(lines(path) == lines(ours), "%s/%s: the same lines" % (path.parent.name, stem))
    return files


def golden_part(work):
    if not ascend_inputs.has_shared():
        print("golden: the peer's results (%s) are not here: our own of made jobs only" % GOLDEN)
        return
    ran.append("golden")
    with tarfile.open(GOLDEN / "r8-input.tar.xz") as tar:
        tar.extractall(work / "r8")
    data, out, golden = work / "r8" / "db", work / "out", work / "golden.db"
    shutil.copy(GOLDEN / "r8-recipes-db" / "cluster_analysis.db", golden)
    before = digests(data)
    total = collections.Counter()
    for name, tables in TABLES.items():
        done = recipe(name, data, out, *COMPAT, "--rank-list", ORDER)
        check(done.returncode == 0, "%s: exit %d: %s" % (name, done.returncode, done.stderr))
        for each, keys in tables.items():
            cells, differing = compare(golden, database(out), each, keys)
            total.update(cells=cells, differing=differing, tables=1)
    recipe("free_analysis", data, out, *COMPAT, "--rank-list", ORDER)
    recipe("free_analysis", data, work / "wide", *COMPAT, "--rank-list", ORDER, "--top-num", "100000")
    total.update(cells=compare_free(golden, database(out), database(work / "wide")), tables=1)
    for name, mine, file in (("p2p_pairing", "P2PPairing", "r8-p2p_pairing.csv"),
                             ("pp_chart", "StepTaskInfo", "r8-pp_chart.csv")):
        recipe(name, data, out, *COMPAT, "--rank-list", ORDER)
        with open(GOLDEN / file, newline="") as source:
            theirs = sorted(tuple(row) for row in list(csv.reader(source))[1:])
        rows = sorted(tuple(str(c) for c in row) for row in table(database(out), mine))
        check(rows == theirs, "%s: the rows the peer wrote into its inputs" % mine)
        total.update(cells=sum(len(r) for r in rows), tables=1)
    files = compare_text(data, work / "text")
    check(digests(data) == before, "no recipe alters its input")
    print("golden: %(tables)d tables, %(cells)d cells compared, %(differing)d differ" % total
          + ", %d text files the same" % files)


# ---- 2. where the peer is wrong -----------------------------------------------------------------

MINI = """
CREATE TABLE STRING_IDS (id INTEGER PRIMARY KEY, value TEXT);
CREATE TABLE COMMUNICATION_OP (opName INTEGER, startNs INTEGER, endNs INTEGER, groupName INTEGER, opId INTEGER PRIMARY KEY);
CREATE TABLE STEP_TIME (id INTEGER, startNs INTEGER, endNs INTEGER);
"""


def mini_cluster(folder, late, ops, jitter=3000, members=None):
    """Ranks that compute 1 ms (and `late[rank]` ns more) and meet in one group, `ops` times. All end together."""
    n = len(late)
    members = members or {r: ops for r in range(n)}
    clock = [1_750_000_000_000_000_000] * n
    rows = [[] for _ in range(n)]
    for k in range(ops):
        starts = [clock[r] + 1_000_000 + late[r] + (r * 7919 + k * 104729) % jitter for r in range(n)]
        end = max(starts) + 50_000
        for r in range(n):
            if k < members[r]:
                rows[r].append((2 + k, starts[r], end, 1, k))
        clock = [end] * n
    for r in range(n):
        out = folder / ("h_%d_20250615110640%03d_ascend_pt" % (r + 1, r)) / "ASCEND_PROFILER_OUTPUT"
        out.mkdir(parents=True)
        con = sqlite3.connect(out / ("ascend_pytorch_profiler_%d.db" % r))
        con.executescript(MINI)
        con.executemany("INSERT INTO STRING_IDS VALUES (?, ?)",
                        [(1, "world")] + [(2 + k, "hcom_allReduce__123_%d_1" % k) for k in range(ops)])
        con.executemany("INSERT INTO COMMUNICATION_OP VALUES (?, ?, ?, ?, ?)", rows[r])
        con.execute("INSERT INTO STEP_TIME VALUES (1, 0, 9000000000000000000)")
        con.commit()
        con.close()
    return folder


def slow_of(out):
    return {r["rankId"] for r in table(database(out), "RankscopeSlowRank") if r["verdict"] == "slow"}


def slow_rank_cases(work):
    for n, slow in ((2, [1]), (3, [0]), (3, [2]), (4, [1, 2]), (5, [0, 4]), (8, [3, 6]), (16, [2, 9]),
                    (128, []), (32, []), (256, []), (256, [100])):
        late = [500_000 if r in slow else 0 for r in range(n)]
        where = work / ("mini%d-%s" % (n, "".join(map(str, slow))))
        mini_cluster(where / "in", late, 40)
        recipe("slow_rank", where / "in", where)
        check(slow_of(where) == set(slow), "slow_rank, %d ranks: slow %s, expected %s" % (n, slow_of(where), slow))
        rows = table(database(where), "RankscopeSlowRank")
        lost = sum(r["lostNs"] for r in rows if r["rankId"] in slow)
        # what the late ones cost: 0.5 ms an operation, whoever is late (the first has no work before it)
        if slow:
            check(0.9 * 39 * 500_000 < lost < 1.1 * 40 * 500_000,
                  "slow_rank, %d ranks: lost %.1f ms of 20" % (n, lost / 1e6))
    # one lost record must not silence the group
    where = work / "mini-lost"
    mini_cluster(where / "in", [0] * 7 + [500_000], 40, members={r: 39 if r == 2 else 40 for r in range(8)})
    recipe("slow_rank", where / "in", where)
    votes = {r["rankId"]: r["slowAffectCount"] for r in table(database(where), "SlowRank")}
    check(votes.get(7, 0) >= 39, "slow_rank: votes in spite of a lost record: %s" % votes)
    mean = table(database(where), "SlowOpStats")[0]["MeanNs"]
    check(mean > 100_000, "slow_rank: MeanNs %s is in ns" % mean)
    check(slow_of(where) == {7}, "slow_rank: lost time in spite of a lost record: %s" % slow_of(where))


def generated_cases(work):
    # TP2 x DP2, one rank at a third of the speed: groups of two only
    data = generate(work / "tp2dp2", "--ranks", 4, "--tp", 2, "--pp", 1, "--slow-rank", 3, "--slow-factor", 3,
                    "--slow-link", "none", "--steps", 2, "--comm-ops-per-step", 60)
    recipe("slow_rank", data, work / "o-tp2dp2")
    check(slow_of(work / "o-tp2dp2") == {3}, "slow_rank, TP2 x DP2: %s" % slow_of(work / "o-tp2dp2"))
    # innocent ranks that wait in a pipeline are not named
    data = generate(work / "tp8", "--ranks", 32, "--tp", 8, "--pp", 2, "--slow-rank", 17, "--slow-link", "none", "--steps", 2,
                    "--comm-ops-per-step", 40, "--microbatches", 2)
    recipe("slow_rank", data, work / "o-tp8")
    check(slow_of(work / "o-tp8") == {17}, "slow_rank, 32 ranks: %s" % slow_of(work / "o-tp8"))
    # clocks of hosts apart
    data = generate(work / "skew", "--ranks", 16, "--tp", 2, "--pp", 2, "--slow-rank", 11, "--slow-link", "none", "--steps", 2,
                    "--comm-ops-per-step", 40, "--microbatches", 2, "--clock-skew-us", 50000)
    recipe("slow_rank", data, work / "o-skew")
    check(slow_of(work / "o-skew") == {11}, "slow_rank with skewed clocks: %s" % slow_of(work / "o-skew"))


def links_of(out):
    return {(r["srcRank"], r["dstRank"]) for r in table(database(out), "RankscopeSlowLink") if r["verdict"] == "slow"}


def link_cases(work):
    # between hosts collectives go round a ring, so only one direction is used there
    for name, link, both, more in (("dp8", (0, 3), True, ("--ranks", 8, "--tp", 1, "--pp", 1)),
                                   ("p2p", (0, 4), True, ("--ranks", 8, "--tp", 2, "--pp", 2)),
                                   ("dp64", (0, 8), False, ("--ranks", 64, "--tp", 8, "--pp", 1))):
        data = generate(work / name, *more, "--slow-rank", "none", "--slow-link", "%d-%d" % link, "--slow-link-factor",
                        0.05, "--steps", 1, "--comm-ops-per-step", 40, "--microbatches", 2)
        recipe("slow_link", data, work / ("o-" + name))
        expected = {link, link[::-1]} if both else {link}
        check(links_of(work / ("o-" + name)) == expected,
              "slow_link %s: %s, expected %s" % (name, links_of(work / ("o-" + name)), expected))
    # without analysis.db the copies of the task records speak
    for path in (work / "dp8").rglob("analysis.db"):
        path.unlink()
    recipe("slow_link", work / "dp8", work / "o-dp8-tasks")
    check(table(database(work / "o-dp8-tasks"), "RankscopeSlowLink"), "slow_link from task records has links")


def wait_case(work):
    data = generate(work / "pp2", "--ranks", 8, "--tp", 2, "--pp", 2, "--steps", 2, "--comm-ops-per-step", 60,
                    "--microbatches", 2)
    planted = json.loads((data / "planted.json").read_text())
    recipe("cluster_time_summary", data, work / "o-pp2")
    for row in table(database(work / "o-pp2"), "ClusterTimeSummary"):
        groups = planted["comm_time"][str(row["step"])]
        truth = sum(g[str(row["rank"])]["wait_ns"] for g in groups.values() if str(row["rank"]) in g) / 1000
        wait = row["communicationWaitStageTime"]
        # members leave an operation up to 6 us apart
        check(abs(wait - truth) < 60 * 6 + 0.01 * truth,
              "cluster_time_summary rank %d step %d: waits %.0f us, planted %.0f" % (row["rank"], row["step"], wait, truth))
    recipe("communication_bottleneck", data, work / "o-pp2", "--rank-id", "0")
    for row in table(database(work / "o-pp2"), "CommunicationBottleneck"):
        if "receive" in row["communicationOp"] or "send" in row["communicationOp"]:
            ends = {row["slowRankId"], row["fastRankId"]}
            check(ends == {0, 4} or ends == {None}, "communication_bottleneck: %s is between 0 and 4: %s"
                  % (row["communicationOp"], ends))
    recipe("communication_bottleneck", data, work / "o-pp2-compat", "--rank-id", "0", *COMPAT)
    both = [r for r in table(database(work / "o-pp2-compat"), "CommunicationBottleneck") if "receive" in r["communicationOp"]]
    check(both and all(r["slowRankId"] is None for r in both), "compat: receives pair with nothing")
    # the comparison with itself is zero
    recipe("cluster_time_compare_summary", work / "o-pp2", work / "o-pp2", "--bp", str(work / "o-pp2"))
    rows = table(database(work / "o-pp2"), "ClusterTimeCompareSummary")
    check(rows and all(r["stepTimeDiff"] == 0 and r["stepTime"] == r["stepTimeBase"] for r in rows), "compared with itself")


def matrix_case(work):
    data = generate(work / "noself", "--ranks", 8, "--tp", 2, "--pp", 2, "--steps", 1, "--comm-ops-per-step", 40,
                    "--microbatches", 2, "--no-p2p-self-link")
    planted = json.loads((data / "planted.json").read_text())["matrix"]["1"]
    hidden = {g: links for g, links in planted.items() if any("0-4" == k or "4-0" == k for k in links)}
    recipe("communication_matrix_sum", data, work / "o-noself")
    recipe("communication_matrix_sum", data, work / "o-noself-compat", *COMPAT)
    for out, expected in ((work / "o-noself", True), (work / "o-noself-compat", False)):
        rows = {(r["group_name"], "%d-%d" % (r["src_rank"], r["dst_rank"])): r["transit_size"]
                for r in table(database(out), "ClusterCommunicationMatrix", tail="WHERE hccl_op_name = 'Total Op Info'")}
        for group, links in hidden.items():
            for link, truth in links.items():
                if truth["transport"] == "LOCAL":
                    continue
                found = rows.get((group, link))
                if expected:
                    check(found is not None and equal(round(found * 1e6), truth["bytes"]),
                          "matrix %s@%s: %s MB, planted %s bytes" % (link, group[-3:], found, truth["bytes"]))
                elif group.endswith(tuple("0123456789")) and link in ("0-4", "4-0") and len(links) <= 2:
                    check(found is None, "compat drops links that only metadata explain")
    # a group with both kinds and different ranks: summed once, doubled in compat
    data = generate(work / "mixed", "--ranks", 8, "--tp", 2, "--pp", 2, "--steps", 1, "--comm-ops-per-step", 40,
                    "--microbatches", 2, "--no-metadata")
    path = next(data.glob("*_20250615110640000_ascend_pt")) / "ASCEND_PROFILER_OUTPUT" / "analysis.db"
    con = sqlite3.connect(path)
    group, step = con.execute("SELECT group_name, step FROM CommAnalyzerTime WHERE type = 'p2p' LIMIT 1").fetchone()
    con.execute("INSERT INTO CommAnalyzerTime VALUES ('hcom_allReduce__111_9_1', ?, 1.5, 1.25, 1, 0, 0, 0.25, ?, 'collective')",
                (group, step))
    con.commit()
    truth = con.execute("SELECT sum(elapse_time) FROM CommAnalyzerTime WHERE group_name = ?", (group,)).fetchone()[0]
    con.close()
    for more, factor in (([], 1), (COMPAT, 2)):
        out = work / ("o-mixed%d" % factor)
        recipe("communication_time_sum", data, out, *more)
        total = [r["elapsed_time"] for r in table(database(out), "ClusterCommunicationTime")
                 if r["hccl_op_name"] == "Total Op Info" and r["group_name"] == group and r["rank_id"] == 0][0]
        check(abs(total - factor * truth) < 1e-9 * truth, "mixed group: total %s, expected %d x %s" % (total, factor, truth))


def mindspore_case(work):
    """The same cluster as MindSpore writes it: other names, no steps, kinds and selections in the links."""
    data = generate(work / "ms", "--ranks", 4, "--tp", 2, "--pp", 2, "--steps", 1, "--comm-ops-per-step", 30,
                    "--microbatches", 2)
    planted = json.loads((data / "planted.json").read_text())["matrix"]["1"]
    for folder in list(data.glob("*_ascend_pt")):
        moved = folder.rename(folder.with_name(folder.name[:-2] + "ms"))
        out = moved / "ASCEND_PROFILER_OUTPUT"
        for path in out.glob("ascend_pytorch_profiler_*.db"):
            path.rename(out / path.name.replace("pytorch", "mindspore"))
        (out / "analysis.db").rename(out / "communication_analyzer.db")
        con = sqlite3.connect(out / "communication_analyzer.db")
        con.executescript("""
            DROP TABLE StepTraceTime;
            CREATE TABLE m AS SELECT CASE hccl_op_name WHEN 'send-total' THEN 'hcom_send__1_0_1'
              WHEN 'receive-total' THEN 'hcom_receive__1_0_1'
              ELSE 'hcom_' || replace(hccl_op_name, '-total', '') || '__1_0_1' END AS hccl_op_name,
              group_name, src_rank, dst_rank, transport_type, transit_size, transit_time, bandwidth
              FROM CommAnalyzerMatrix WHERE hccl_op_name LIKE '%-total';
            DROP TABLE CommAnalyzerMatrix; ALTER TABLE m RENAME TO CommAnalyzerMatrix;
            ALTER TABLE CommAnalyzerTime DROP COLUMN step; ALTER TABLE CommAnalyzerTime DROP COLUMN type;
            ALTER TABLE CommAnalyzerBandwidth DROP COLUMN step; ALTER TABLE CommAnalyzerBandwidth DROP COLUMN type;""")
        con.commit()
        con.close()
    for name in ("communication_matrix_sum", "communication_time_sum", "slow_link", "slow_rank", "hccl_sum"):
        done = recipe(name, data, work / "o-ms")
        check(done.returncode == 0, "MindSpore, %s: exit %d: %s" % (name, done.returncode, done.stderr))
    rows = {(r["group_name"], "%d-%d" % (r["src_rank"], r["dst_rank"])): r["transit_size"]
            for r in table(database(work / "o-ms"), "ClusterCommunicationMatrix", tail="WHERE hccl_op_name = 'Total Op Info'")}
    truth = {(g, k): v["bytes"] for g, links in planted.items() for k, v in links.items()}
    check({k: round(v * 1e6) for k, v in rows.items()} == truth, "MindSpore: links as planted")
    tags = {r[0].split("-")[1] for r in table(database(work / "o-ms"), "ClusterCommunicationMatrix", "hccl_op_name") if "-" in r[0]}
    check({"top1", "middle", "bottom1", "total"} <= tags, "MindSpore: selections %s" % tags)


def chip_case(work):
    data = generate(work / "chip", "--ranks", 8, "--steps", 1, "--comm-ops-per-step", 40, "--microbatches", 2)
    for path in data.rglob("ascend_pytorch_profiler_*.db"):
        con = sqlite3.connect(path)
        con.execute("UPDATE AICORE_FREQ SET freq = 1650 WHERE freq = 1800")
        con.commit()
        con.close()
    recipe("freq_analysis", data, work / "o-chip")
    recipe("freq_analysis", data, work / "o-chip-compat", *COMPAT)
    abnormal = lambda out: [r["rankId"] for r in table(database(out), "AbnormalFrequencyRanks")]
    check(abnormal(work / "o-chip") == [5], "freq_analysis on another chip: %s" % abnormal(work / "o-chip"))
    check(len(abnormal(work / "o-chip-compat")) == 8, "compat: every rank of another chip is abnormal")


def masking_case(work):
    """Every cell against unions made here; shares of the step as floats divide, the second of five digits."""
    data = generate(work / "mask", "--ranks", 8, "--tp", 2, "--pp", 2, "--steps", 2, "--comm-ops-per-step", 40,
                    "--microbatches", 2)

    def union(spans):
        merged = []
        for start, end in sorted(spans):
            if merged and start <= merged[-1][1]:
                merged[-1][1] = max(merged[-1][1], end)
            else:
                merged.append([start, end])
        return merged

    def long(spans):
        return sum(end - start for start, end in spans)

    kinds = [("dp", "edp"), ("edp",), ("dp",), ("ep",), ("pp",), ("mp",), ("tp",)]
    for out, more, asked in (("o-mask", [], kinds), ("o-mask-compat", COMPAT, kinds),
                             ("o-mask-own", ["--parallel-types", "tp,pp;dp"], [("tp", "pp"), ("dp",)])):
        wanted = []
        for path in data.rglob("ascend_pytorch_profiler_*.db"):
            rank = int(path.stem.rsplit("_", 1)[1])
            groups = json.loads((path.parent.parent / "profiler_metadata.json").read_text())["parallel_group_info"]
            con = sqlite3.connect("file:%s?mode=ro" % path, uri=True)
            ops = con.execute("SELECT s.value, startNs, endNs FROM COMMUNICATION_OP JOIN STRING_IDS s ON s.id = groupName").fetchall()
            work_rows = con.execute("SELECT startNs, endNs FROM COMPUTE_TASK_INFO JOIN TASK USING (globalTaskId)").fetchall()
            steps = con.execute("SELECT id, startNs, endNs FROM STEP_TIME").fetchall()
            con.close()
            for kind in asked:
                own = [row[1:] for row in ops if groups[row[0]]["group_name"] in kind]
                for step, start, end in steps if own else []:
                    inside = union(r for r in own if r[0] >= start and r[1] <= end)
                    busy = union(r for r in work_rows if r[0] >= start and r[1] <= end)
                    bare = long(union(inside + busy)) - long(busy)
                    row = (step, "+".join(kind), start, end, long(inside), long(inside) / (end - start), bare,
                           round(bare / (end - start), 5))
                    wanted.append(row if more == COMPAT else row + (rank,))
        done = recipe("computational_op_masking", data, work / out, *more)
        found = [tuple(row) for row in table(database(work / out), "ComputationalOperatorMaskingLinearity") or []]
        check(done.returncode == 0 and wanted and sorted(found) == sorted(wanted),
              "computational_op_masking %s: %d cells of %d rows" % (" ".join(more), sum(map(len, found)), len(found)))


def planted_part(work):
    ran.append("planted")
    masking_case(work)
    slow_rank_cases(work)
    generated_cases(work)
    link_cases(work)
    wait_case(work)
    matrix_case(work)
    mindspore_case(work)
    chip_case(work)
    print("planted cases: done")


# ---- 3. broken ranks ----------------------------------------------------------------------------

def broken_part(work):
    ran.append("broken")
    data = mini_cluster(work / "in", [0, 500_000, 0, 0, 0, 0, 0, 0], 20)
    rank_dir = lambda r: data / ("h_%d_20250615110640%03d_ascend_pt" % (r + 1, r))
    db_of = lambda r: rank_dir(r) / "ASCEND_PROFILER_OUTPUT" / ("ascend_pytorch_profiler_%d.db" % r)
    os.truncate(db_of(2), db_of(2).stat().st_size // 2)           # cut off
    shutil.rmtree(rank_dir(3))                                    # missing
    older = data / "h_9_20240101000000000_ascend_pt"              # a doubled rank, older
    shutil.copytree(rank_dir(4), older)
    (rank_dir(5) / "profiler_info_5.json").write_text('{"rank_id": 5}')  # no end_info
    raw = data / "h_9_20250615110640777_ascend_pt" / "PROF_000001_2025_A"
    raw.mkdir(parents=True)
    (raw.parent / "profiler_info_9.json").write_text('{"rank_id": 9, "end_info": {}}')
    odd = data / ("it's \"odd\" ; -- %s_6_20250615110640006_ascend_pt")
    rank_dir(6).rename(odd)
    os.symlink(rank_dir(7), data / "link_8_20250615110640008_ascend_pt")
    before = digests(data)
    done = recipe("hccl_sum", data, work / "o")
    check(done.returncode == 2, "hccl_sum without opType: exit %d" % done.returncode)
    check("opType" in done.stderr, "hccl_sum says which column is missing")
    done = recipe("slow_rank", data, work / "o", "--json")
    check(done.returncode == 1, "a result with gaps: exit %d" % done.returncode)
    facts = json.loads(done.stdout)
    check(facts["state"] == "partial" and facts["ranks"] == 6, "partial with 6 ranks: %s" % {k: facts[k] for k in ("state", "ranks")})
    told = {t["rank"]: t["text"] for t in facts["problems"]}
    check("cut off" in told.get(2, ""), "rank 2 is named as cut off: %s" % told.get(2))
    check("not finished" in told.get(5, ""), "rank 5 is named as unfinished: %s" % told.get(5))
    check("not parsed" in told.get(9, ""), "rank 9 is named as unparsed: %s" % told.get(9))
    check(any("newer one is kept" in t["text"] for t in facts["problems"]), "the doubled rank is told")
    ranks = {r["rankId"] for r in table(database(work / "o"), "RankscopeSlowRank")}
    check(ranks == {0, 1, 4, 5, 6, 7}, "ranks in the result: %s" % ranks)
    check(slow_of(work / "o") == {1}, "the slow one is found all the same: %s" % slow_of(work / "o"))
    check(digests(data) == before, "no input changed")
    for args, code in ((["nonsense", str(data)], 2), (["slow_rank", str(work / "nowhere")], 2),
                       (["slow_rank", str(data), "--export-type", "xls"], 2), (["slow_rank"], 2), (["--list"], 0),
                       (["slow_rank", str(data), "-o", "/proc/none"], 3),
                       (["slow_rank", str(data), "--rank-list", "0,x", "-o", str(work / "o2")], 2),
                       (["slow_rank", str(data), "--rank-list", "0,1,55", "-o", str(work / "o2"), "--quiet"], 1)):
        done = subprocess.run([PROGRAM, "recipe", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        check(done.returncode == code, "recipe %s: exit %d, expected %d: %s" % (args, done.returncode, code, done.stderr[-200:]))
    for args in (["slow_rnk", str(data)], ["slow_rnk", "nowhere"], ["slow_rnk"]):
        done = subprocess.run([PROGRAM, "recipe", *args], capture_output=True, text=True)
        check(done.returncode == 2 and 'there is no recipe "slow_rnk"; did you mean "slow_rank"?' in done.stderr,
              "a mistyped recipe, %s: %s" % (args, done.stderr))
    many = recipe("slow_rank", data, work / "o-threads", "--threads", "7")
    check(many.returncode == 1 and [tuple(r) for r in table(database(work / "o-threads"), "RankscopeSlowRank")] ==
          [tuple(r) for r in table(database(work / "o"), "RankscopeSlowRank")], "any number of threads gives the same")
    print("broken ranks: done")


# ---- 4. databases of two ranks --------------------------------------------------------------------------

def pair_part(work):
    pair = pathlib.Path(ascend_inputs.either_pair(str(work / "pair"))["db"])
    ran.append("pair")
    before = digests(pair)
    names = [r["name"] for r in json.loads(subprocess.run([PROGRAM, "recipe", "--list", "--json"], check=True,
                                                          stdout=subprocess.PIPE, text=True).stdout)]
    check(len(names) == 23, "23 recipes: %s" % names)
    codes = {}
    for name in names:
        for more in ([], COMPAT):
            codes[name] = recipe(name, pair, work / "o", *more).returncode
    done = {n for n, c in codes.items() if c in (0, 1)}
    check({"hccl_sum", "compute_op_sum", "cann_api_sum", "slow_rank", "communication_time_sum", "slow_link",
           "communication_matrix_sum", "cluster_time_summary", "free_analysis"} <= done, "recipes on two ranks: %s" % codes)
    rows = 0
    for path in pair.rglob("ascend_pytorch_profiler_*.db"):
        copy = work / path.name
        shutil.copy(path, copy)
        rows += table(copy, "COMMUNICATION_OP", "count(*)")[0][0]
    counted = sum(r["Count"] for r in table(database(work / "o"), "HcclAllRankStats"))
    check(counted == rows, "two ranks: %d operations counted, %d in the tables" % (counted, rows))
    check(digests(pair) == before, "inputs are as they were (a real one is in WAL mode)")
    print("databases of two ranks (%s): exit codes %s" % (pair, codes))


# ---- 5. files that strangers made ------------------------------------------------------------------------

SHADOWS = "".join("CREATE TABLE %s (a); " % n for n in ("ops", "links", "times", "seen"))


def strangers_part(work):
    """Tables with the names of our own, and more time than 64 bits hold."""
    ran.append("strangers")
    made = ascend_inputs.made_pair(str(work / "pair"))["db"]
    for name, result in (("hccl_sum", "HcclAllRankStats"), ("communication_matrix_sum", "ClusterCommunicationMatrix"),
                         ("communication_time_sum", "ClusterCommunicationTime")):
        out = work / ("o-" + name)
        code = recipe(name, made, out).returncode
        plain = [tuple(r) for r in table(database(out), result)]
        with sqlite3.connect(database(out)) as con:
            con.executescript(SHADOWS)
        con.close()
        shaded = work / ("in-" + name)
        shutil.copytree(made, shaded)
        for path in [*shaded.rglob("ascend_pytorch_profiler_*.db"), *shaded.rglob("analysis.db")]:
            with sqlite3.connect(path) as con:
                con.executescript(SHADOWS)
            con.close()
        done = recipe(name, shaded, out)
        check(plain and done.returncode == code and [tuple(r) for r in table(database(out), result)] == plain,
              "%s beside tables with the names of its frames: %d rows as before: %s" % (name, len(plain), done.stderr[-200:]))
    endless = work / "endless"
    shutil.copytree(made, endless)
    for path in endless.rglob("ascend_pytorch_profiler_*.db"):
        with sqlite3.connect(path) as con:
            con.execute("UPDATE CANN_API SET endNs = startNs + (5 << 60) WHERE rowid = (SELECT min(rowid) FROM CANN_API)")
        con.close()
    done = recipe("cann_api_sum", endless, work / "o")
    rows = table(database(work / "o"), "CannApiSum") if done.returncode in (0, 1) else None
    check(rows and max(r["totalTimeNs"] for r in rows) >= 10 << 60,
          "a sum of more than 64 bits: %s" % (rows and max(r["totalTimeNs"] for r in rows) or done.stderr[-200:]))
    check(rows and abs(sum(r["timeRatio"] for r in rows) - 100) < 1, "and its share")
    timeless = work / "timeless"
    shutil.copytree(made, timeless)
    for path in timeless.rglob("ascend_pytorch_profiler_1.db"):
        with sqlite3.connect(path) as con:
            con.execute("INSERT INTO STRING_IDS SELECT max(id) + 1, 'MEMCPY_ASYNC' FROM STRING_IDS WHERE NOT EXISTS "
                        "(SELECT 1 FROM STRING_IDS WHERE value = 'MEMCPY_ASYNC')")
            con.execute("UPDATE TASK SET taskType = (SELECT id FROM STRING_IDS WHERE value = 'MEMCPY_ASYNC'), endNs = NULL "
                        "WHERE rowid = (SELECT min(rowid) FROM TASK)")
        con.close()
    done = recipe("cluster_time_summary", timeless, work / "o")
    rows = table(database(work / "o"), "ClusterTimeSummary") if done.returncode in (0, 1) else None
    found = [c for r in rows or [] for c in tuple(r) if isinstance(c, float)]
    check(found and max(map(abs, found)) < 1e9, "memory that was never done copying is no time: %s" % max(map(abs, found), default=done.stderr[-200:]))


def main():
    if not os.access(PROGRAM, os.X_OK):
        print("skipped: %s is not built" % PROGRAM)
        return 77
    with tempfile.TemporaryDirectory(prefix="rankscope-recipes-") as folder:
        for part in (golden_part, planted_part, broken_part, pair_part, strangers_part):
            work = pathlib.Path(folder) / part.__name__
            work.mkdir()
            part(work)
            shutil.rmtree(work)
    for failure in failures:
        print("FAILED: " + failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
