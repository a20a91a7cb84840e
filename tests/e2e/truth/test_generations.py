#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Communication by generation of the database: what an operation covers is its span, or, until 2024, what its tasks cover.

No database of 2024 is at hand, so generated ones are made into some: COMMUNICATION_OP loses the columns that came later and
spans more than its tasks; between tasks there are gaps; the profiler's own step row is computed here, from the definition
(unions of the rows of TASK).

    RANKSCOPE=build/dev/rankscope tests/e2e/truth/test_generations.py
"""
import glob
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import unittest

from test_less import GENERATOR, OUTPUT, document, query, run, table

COLUMNS = ("opName", "startNs", "endNs", "connectionId", "groupName", "opId")  # of 2024
FIGURES = ("computing", "communication_not_overlapped", "overlapped", "communication", "free", "stage", "bubble",
           "communication_not_overlapped_and_exclude_receive", "preparing")


def union(rows):
    """Disjoint intervals, ascending."""
    merged = []
    for start, end in sorted(rows):
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    return merged


def length(rows):
    return sum(end - start for start, end in rows)


def common(a, b):
    return length(a) + length(b) - length(union(a + b))


def own_row(database, by_tasks):
    """us of each step, by the profiler's definition: (computing, ..., preparing)."""
    computing = query(database, "SELECT startNs, endNs FROM COMPUTE_TASK_INFO JOIN TASK USING (globalTaskId)")
    if by_tasks:
        sql = "SELECT t.startNs, t.endNs, opName FROM COMMUNICATION_TASK_INFO c JOIN TASK t USING (globalTaskId)" \
              " JOIN COMMUNICATION_OP o USING (opId)"
    else:
        sql = "SELECT startNs, endNs, opName FROM COMMUNICATION_OP"
    names = dict(query(database, "SELECT id, value FROM STRING_IDS"))
    receives = query(database, "SELECT startNs, endNs, opId, opName FROM COMMUNICATION_OP")
    figures = {}
    for step, start, end in query(database, "SELECT id, startNs, endNs FROM STEP_TIME ORDER BY startNs"):
        first, last = query(database, "SELECT min(t.startNs), max(t.endNs) FROM CANN_API a JOIN TASK t USING (connectionId)"
                                      " WHERE a.type IN (10000, 5500) AND a.startNs >= %d AND a.endNs <= %d" % (start, end))[0]
        inside = [row for row in computing if first <= row[0] < max(last, end)]
        moving = [row for row in query(database, sql) if first <= row[0] < max(last, end)]
        c, m = union(inside), union([row[:2] for row in moving])
        both = union(c + m)
        bubble = 0
        for begin, until, op, name in receives:
            if not names[name].startswith("hcom_receive"):
                continue
            spans = query(database, "SELECT min(t.startNs), max(t.endNs) FROM COMMUNICATION_TASK_INFO c JOIN TASK t "
                                    "USING (globalTaskId) WHERE opId = %d" % op)[0] if by_tasks else (begin, until)
            bubble += spans[1] - spans[0] if first <= spans[0] < max(last, end) else 0
        overlapped = common(c, m)
        exposed, extent = length(m) - overlapped, both[-1][1] - both[0][0]
        figures[str(step)] = tuple(value / 1e3 for value in (
            length(c), exposed, overlapped, length(m), extent - length(both), extent - bubble, bubble,
            max(exposed - bubble, 0), both[0][0] - start))
    return figures


def write_own(folder, figures):
    with sqlite3.connect(os.path.join(folder, "analysis.db")) as db:
        for step, row in figures.items():
            db.execute("UPDATE StepTraceTime SET %s WHERE step = ?" % ", ".join("%s = ?" % f for f in FIGURES),
                       (*row, step))


def gaps_between_tasks(db):
    """A task in the middle of an operation ends early, and the last one too."""
    db.execute("UPDATE TASK SET endNs = startNs + (endNs - startNs) / 2 WHERE globalTaskId IN "
               "(SELECT globalTaskId FROM COMMUNICATION_TASK_INFO) AND globalTaskId % 2 = 0 AND endNs - startNs > 2000")


def spans_are_wider(db):
    db.execute("UPDATE COMMUNICATION_OP SET startNs = startNs - 900, endNs = endNs + 700")


def first_columns(db):
    db.execute("ALTER TABLE COMMUNICATION_OP RENAME TO newer")
    db.execute("CREATE TABLE COMMUNICATION_OP (opName INTEGER, startNs INTEGER, endNs INTEGER, connectionId INTEGER, "
               "groupName INTEGER, opId INTEGER PRIMARY KEY)")
    db.execute("INSERT INTO COMMUNICATION_OP SELECT %s FROM newer" % ", ".join(COLUMNS))
    db.execute("DROP TABLE newer")


class Generations(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.work = tempfile.mkdtemp(prefix="rs-generations-")
        subprocess.run([sys.executable, GENERATOR, "--out", os.path.join(cls.work, "now"), "--ranks", "4", "--tp", "2", "--pp",
                        "2", "--steps", "3", "--comm-ops-per-step", "24", "--microbatches", "2", "--format", "db"],
                       check=True, stdout=subprocess.DEVNULL)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.work)

    def job(self, name, *changes):
        """The job with its databases changed; the output folders by rank."""
        tree = os.path.join(self.work, name)
        shutil.copytree(os.path.join(self.work, "now"), tree)
        folders = {}
        for path in glob.glob(os.path.join(tree, "*", OUTPUT, "ascend_pytorch_profiler_*.db")):
            with sqlite3.connect(path) as db:
                for change in changes:
                    change(db)
            folders[int(path.rsplit("_", 1)[1][:-3])] = os.path.dirname(path)
        return tree, folders

    def analyse(self, tree):
        out = tree + "-out"
        done = run("analyse", tree, "-o", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(os.path.join(out, "report.md"), encoding="utf-8") as file:
            return out, file.read()

    def check_figures(self, tree, folders, by_tasks):
        """Ours are the profiler's own, which the official tables of `analyse` and of `cluster` show."""
        cells = 0
        for folder in folders.values():
            write_own(folder, own_row(glob.glob(os.path.join(folder, "ascend_pytorch_profiler_*.db"))[0], by_tasks))
        out, report = self.analyse(tree)
        self.assertNotIn("its profiler says", report)
        self.assertEqual(run("cluster", tree, "-o", out, "--form", "text").returncode, 0)
        cluster = {(row["Index"], row["Step"]): row
                   for row in table(out, "cluster_analysis_output", "cluster_step_trace_time.csv") if row["Type"] == "rank"}
        official = {(row["Rank"], row["Step"]): row for row in table(out, "step_trace_time.csv")}
        columns = [name for name in cluster["0", "1"] if name in official["0", "1"] and name != "Step"]
        for rank, folder in folders.items():
            own = query(os.path.join(folder, "analysis.db"), "SELECT step, %s FROM StepTraceTime" % ", ".join(FIGURES))
            for table_name in ("StepTraceTime", "DerivedStepTraceTime"):
                ours = query(os.path.join(out, "analysis.db"), "SELECT step, %s FROM %s WHERE rank_id = %d"
                             % (", ".join(FIGURES), table_name, rank))
                for mine, theirs in zip(sorted(ours), sorted(own)):
                    self.assertEqual(mine[0], theirs[0])
                    for a, b in zip(mine[1:], theirs[1:]):
                        self.assertAlmostEqual(a, b, 3, (table_name, rank, mine, theirs))
                        cells += 1
            for step, *_ in own:
                for name in columns:
                    self.assertEqual(float(cluster[str(rank), step][name]), float(official[str(rank), step][name]), name)
        return out, cells

    def test_now_operations_are_their_spans(self):
        tree, folders = self.job("spans", gaps_between_tasks)
        _, cells = self.check_figures(tree, folders, by_tasks=False)
        print("    spans: %d cells" % cells)

    def test_until_2024_they_are_what_their_tasks_cover(self):
        wanted = table(self.analyse(self.job("plain")[0])[0], "collectives.csv")
        tree, folders = self.job("wider", spans_are_wider, first_columns)
        out, cells = self.check_figures(tree, folders, by_tasks=True)
        rows = table(out, "collectives.csv")
        self.assertEqual([[row[name] for name in ("OpId", "Rank", "Start(ns)", "End(ns)", "Wait(ns)", "LastRank")]
                          for row in rows],
                         [[row[name] for name in ("OpId", "Rank", "Start(ns)", "End(ns)", "Wait(ns)", "LastRank")]
                          for row in wanted])
        print("    wider spans: %d cells, %d rows of operations as without" % (cells, len(rows)))

    def test_tasks_with_gaps_are_one_operation(self):
        tree, folders = self.job("gaps", gaps_between_tasks, spans_are_wider, first_columns)
        out, cells = self.check_figures(tree, folders, by_tasks=True)
        count = sum(query(os.path.join(folder, "ascend_pytorch_profiler_%d.db" % rank),
                          "SELECT count(*) FROM COMMUNICATION_OP")[0][0] for rank, folder in folders.items())
        self.assertEqual(len(table(out, "collectives.csv")), count)
        print("    gaps: %d cells" % cells)

    def test_own_figures_decide_where_the_schema_does_not(self):
        """A file with the newer columns whose own figures are those of its tasks."""
        tree, folders = self.job("between", gaps_between_tasks, spans_are_wider)
        _, cells = self.check_figures(tree, folders, by_tasks=True)
        print("    newer columns, older meaning: %d cells" % cells)

    def test_a_difference_is_told(self):
        """Own figures that neither reading gives: both values are told, the official ones stand."""
        tree, folders = self.job("other", spans_are_wider, first_columns)
        for folder in folders.values():
            with sqlite3.connect(os.path.join(folder, "analysis.db")) as db:
                db.execute("UPDATE StepTraceTime SET communication = communication * 1.2")
        out, report = self.analyse(tree)
        self.assertIn("its profiler says", " ".join(report.split()))
        own = query(os.path.join(folders[0], "analysis.db"), "SELECT step, communication FROM StepTraceTime")
        ours = query(os.path.join(out, "analysis.db"), "SELECT step, communication FROM StepTraceTime WHERE rank_id = 0")
        self.assertEqual(sorted(ours), sorted(own))
        self.assertTrue(document(out, "report.json")["coverage"]["complete_steps"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
