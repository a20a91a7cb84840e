#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Less is enough: a job as database, as text without a trace, and as analysis.db alone names the same culprit at the same cost.

Jobs are made, each once with and once without what is planted: the difference of their steps is what fixing it brings.

    RANKSCOPE=build/dev/rankscope tests/e2e/truth/test_less.py
"""
import csv
import glob
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../support"))
import ascend_inputs  # noqa: E402

PROGRAM = os.path.abspath(os.environ.get("RANKSCOPE", "build/dev/rankscope"))
GENERATOR = ascend_inputs.generator()
OUTPUT = "ASCEND_PROFILER_OUTPUT"
FORMS = ("db", "text", "least")
SAME = 0.02  # of the cost


def run(*arguments):
    return subprocess.run([PROGRAM, *arguments, "--quiet"], capture_output=True, text=True, check=False, timeout=300)


def document(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return json.load(file)


def table(*path):
    with open(os.path.join(*path), encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def query(path, sql):
    with sqlite3.connect("file:%s?immutable=1" % path, uri=True) as db:
        return db.execute(sql).fetchall()


def only_analysis(tree, target):
    """What is kept of very large clusters: analysis.db and profiler_info (and the groups)."""
    for info in glob.glob(os.path.join(tree, "*", "profiler_info_*.json")):
        folder = os.path.dirname(info)
        kept = os.path.join(target, os.path.basename(folder))
        os.makedirs(os.path.join(kept, OUTPUT))
        for name in (os.path.basename(info), "profiler_metadata.json", os.path.join(OUTPUT, "analysis.db")):
            shutil.copyfile(os.path.join(folder, name), os.path.join(kept, name))


def steps_ns(tree):
    """Mean over steps of the slowest rank's, as the generator says."""
    steps = {}
    for path in glob.glob(os.path.join(tree, "*", OUTPUT, "step_trace_time.csv")):
        for row in table(path):
            length = float(row["Stage"]) + float(row["Bubble"]) + float(row["Preparing"])
            steps.setdefault(row["Step"], []).append(length * 1e3)
    return sum(map(max, steps.values())) / len(steps)


class Less(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.work = tempfile.mkdtemp(prefix="rs-less-")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.work)

    def job(self, name, rank, link, *options):
        """The job's folder with its three forms; what fixing all that is planted brings."""
        lengths = []
        for kind, slow in (("clean", ("none", "none")), (name, (rank, link))):
            place = os.path.join(self.work, name, kind)
            subprocess.run([sys.executable, GENERATOR, "--out", place, "--format", "both", "--slow-rank", slow[0],
                            "--slow-link", slow[1], *options], check=True, stdout=subprocess.DEVNULL)
            lengths.append(steps_ns(os.path.join(place, "text")))
        only_analysis(os.path.join(place, "db"), os.path.join(place, "least"))
        return place, lengths[1] - lengths[0]

    def analyse(self, tree, code=None):
        out = tree.rstrip("/") + "-out"
        done = run("analyse", tree, "-o", out)
        self.assertIn(done.returncode, (0, 1) if code is None else (code,), done.stderr)
        return out, done.stderr

    def culprit(self, tree):
        findings = document(self.analyse(tree)[0], "report.json")["findings"]
        self.assertTrue(findings, tree)
        return findings[0]

    def same_culprit(self, trees, kind, where):
        costs = {}
        for form, tree in trees.items():
            first = self.culprit(tree)
            self.assertEqual((first["kind"], first["where"]), (kind, where), form)
            costs[form] = first["cost_ns_per_step"]
        for form, cost in costs.items():
            self.assertLessEqual(abs(cost - costs["db"]), SAME * costs["db"], costs)
        return costs

    def check_job(self, place, brings, kind, where):
        costs = self.same_culprit({form: os.path.join(place, form) for form in FORMS}, kind, where)
        for form, cost in costs.items():
            self.assertLess(abs(cost - brings), 0.1 * brings, (form, costs, brings))
        print("    %s %s: %s of %.3f ms" % (kind, where, ", ".join(
            "%s %.3f" % (form, cost / 1e6) for form, cost in costs.items()), brings / 1e6))

    def check_figures(self, place):
        """What the files say is there in every form: where the time went, who waited for whom, what went over links."""
        whole = {form: place + "/" + form + "-out" for form in FORMS}
        for file, columns in (("step_breakdown.csv", ("Computing(ns)", "ExposedCommunication(ns)")),):
            wanted = {(row["Rank"], row["Step"]): row for row in table(whole["db"], file)}
            for form in FORMS[1:]:
                rows = table(whole[form], file)
                self.assertEqual(len(rows), len(wanted), form)
                for row in rows:
                    for column in columns:  # a start of text is good to a quarter of a us
                        self.assertLess(abs(int(row[column]) - int(wanted[row["Rank"], row["Step"]][column])), 30000,
                                        (form, row))
        waits = {form: sum(int(row["Wait(ns)"]) for row in table(whole[form], "collectives.csv")) for form in FORMS}
        for form in FORMS[1:]:
            self.assertLess(abs(waits[form] - waits["db"]), 0.001 * waits["db"], waits)
            for row in document(whole[form], "report.json")["coverage"]["partial_steps"]:
                self.fail(row)
        for form in FORMS:  # the slowest links are known
            with open(os.path.join(whole[form], "report.md"), encoding="utf-8") as file:
                self.assertNotIn("nowhere in the recording do bytes and both ends", " ".join(file.read().split()), form)

    def test_slow_rank_beside_overlapped_buckets(self):
        place, brings = self.job("rank", "auto", "none", "--ranks", "8", "--tp", "2", "--pp", "2", "--steps", "4",
                                 "--comm-ops-per-step", "40", "--microbatches", "2")
        self.check_job(place, brings, "slow_rank", {"rank": 5})
        self.check_figures(place)
        self.mixed_forms(place)
        self.figures_that_nothing_fits(place)
        self.exported(place)

    def test_slow_link_of_a_pipeline(self):
        place, brings = self.job("link", "none", "2-4", "--ranks", "8", "--tp", "2", "--pp", "4", "--steps", "4",
                                 "--comm-ops-per-step", "60", "--slow-link-factor", "0.05")
        self.check_job(place, brings, "slow_link", {"pair": [2, 4]})
        for form in FORMS:  # receives that name no peer find their sends
            done = document(place + "/" + form + "-out", "report.json")["coverage"]["operations"]
            self.assertEqual((done["matched_in_part"], done["unmatched"]), (0, 0), form)

    def test_slow_rank_of_data_parallel_ranks(self):
        place, brings = self.job("dp", "auto", "none", "--ranks", "8", "--tp", "1", "--pp", "1", "--steps", "4",
                                 "--comm-ops-per-step", "20")
        self.check_job(place, brings, "slow_rank", {"rank": 5})

    def mixed_forms(self, place):
        """Half of the ranks in each form."""
        mixed = os.path.join(place, "mixed")
        for rank in range(8):
            source = os.path.dirname(glob.glob(os.path.join(place, "least" if rank % 2 else "db", "*",
                                                            "profiler_info_%d.json" % rank))[0])
            shutil.copytree(source, os.path.join(mixed, os.path.basename(source)))
        self.same_culprit({"db": os.path.join(place, "db"), "mixed": mixed}, "slow_rank", {"rank": 5})

    def figures_that_nothing_fits(self, place):
        """More computing than there is time for: the step is not judged, and the reason says which figure."""
        broken = os.path.join(place, "broken")
        shutil.copytree(os.path.join(place, "least"), broken)
        for path in glob.glob(os.path.join(broken, "*", OUTPUT, "analysis.db")):
            with sqlite3.connect(path) as db:
                db.execute("UPDATE StepTraceTime SET computing = computing * 3 WHERE step = '2'")
        out, errors = self.analyse(broken, code=1)
        self.assertIn("Computing of step 2 is not what its files list", errors)
        partial = document(out, "report.json")["coverage"]["partial_steps"]
        self.assertEqual({(one["rank"], one["step"]) for one in partial}, {(rank, 2) for rank in range(8)})

    def exported(self, place):
        """The same of folders that our own export wrote."""
        whole, least = os.path.join(place, "exported"), os.path.join(place, "exported-least")
        done = run("export", "ascend", os.path.join(place, "db"), "-o", whole)
        self.assertEqual(done.returncode, 0, done.stderr)
        only_analysis(whole, least)
        self.same_culprit({"db": whole, "least": least}, "slow_rank", {"rank": 5})


if __name__ == "__main__":
    unittest.main(verbosity=2)
