#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Collectors that know several aggregators: whose a capture is, where a collector goes, and what becomes of a capture whose aggregator is
lost. Skipped (77) without clickhouse-server."""
import csv
import io
import json
import os
import subprocess
import sys
import time

import unittest_run

from rig_clickhouse import LACKS, WithServer, found
from rig_native import NATIVE_ONLY, PROGRAM, Rig, kill
from test_aggregators import Aggregator, wait_until

WORLD, NODES, STEP_MS = 4, 2, 50


class Pair(WithServer):
    """A rig, whose aggregator comes first in all lists, and another one on the same database."""

    def setUp(self):
        self.database = self._testMethodName
        words = self.server.words(self.database)
        self.rig = Rig(world=WORLD, nodes=NODES, step_ms=STEP_MS, run="demo", rank_words=["--slow-rank", "2", "--seconds", "600"],
                       aggregator_words=words)
        self.other = Aggregator(os.path.join(self.folder, self.database), "other", words)
        wait_until("the tables", lambda: self.other.call("aggregators", code=None).returncode == 0)

    def tearDown(self):
        self.other.end()

    def knows_both(self):
        self.rig.collector_words = [*NATIVE_ONLY, "--connect", self.rig.address + "," + self.other.address]

    def call(self, address, *words, code=0):
        done = subprocess.run([PROGRAM, *words, "--connect", address], capture_output=True, text=True, check=False, timeout=120)
        if code is not None and done.returncode != code:
            raise AssertionError(f"{words}: {done.returncode}: {done.stdout}{done.stderr}")
        return done

    def captures(self, address):
        return {c["id"]: c for c in json.loads(self.call(address, "capture", "list", "--json", code=None).stdout)["captures"]}

    def ranks(self, address):
        return sum(r["state"] != "gone" for r in json.loads(self.call(address, "ranks", "--json", code=None).stdout or '{"ranks": []}')["ranks"])

    def table(self, address, *words, code=0):
        return list(csv.DictReader(io.StringIO(self.call(address, "table", *words, code=code).stdout)))

    def kill_first(self):
        kill(self.rig.aggregator.pid)
        self.rig.aggregator.wait()
        self.rig.aggregator.stdout.close()

    def restart_collector(self, node, *words):
        kill(self.rig.collectors[node].pid)
        self.rig.collectors[node].wait()
        self.rig.start_collector(node, *words)

    def begin(self, steps):
        """A capture under way: its command and its name."""
        before = set(self.captures(self.rig.address))
        capture = self.rig.capture("--steps", str(steps), "--no-report")
        name = wait_until("the capture", lambda: set(self.captures(self.rig.address)) - before).pop()
        wait_until("that it records", lambda: self.captures(self.rig.address)[name]["state"] not in ("preparing", "arming"))
        return capture, name

    def wait_for_rows(self, address, name):
        """Until what was sent is joined, while it goes on."""
        wait_until("rows of it", lambda: "so far in" in json.loads(
            self.call(address, "capture", "show", name, "--json").stdout).get("rows", ""))

    def wait_for_all_rows(self, address, name, code=0):
        wait_until("its rows", lambda: json.loads(
            self.call(address, "capture", "show", name, "--json", code=code).stdout).get("rows", "").startswith("in clickhouse"))

    def closed(self, address, name):
        return wait_until("its end", lambda: (lambda c: c and c["closed_ns"] and c)(self.captures(address).get(name)))

    def nothing_kept(self):
        """No spool has a chunk of a capture any more: what is left says which numbers come next."""
        def largest():
            return max((os.path.getsize(os.path.join(path, name)) for node in range(NODES)
                        for path, _, names in os.walk(os.path.join(self.rig.folder, f"spool{node}", "raw")) for name in names), default=0)
        wait_until("that nothing is kept", lambda: largest() < 2048)

    def same_as(self, address, name, reference):
        """Collectives and operations are as many, and the same rank is named, as in a capture that nothing happened to."""
        for read in ("collectives", "op", "rank_steps"):
            self.assertEqual(len(self.table(address, name, read)), len(self.table(address, reference, read)), read)
        named = [json.loads(self.call(address, "query", capture, "SELECT rank FROM finding_place WHERE finding_no = 1 ORDER BY rank",
                                      "--json").stdout)["rows"] for capture in (name, reference)]
        self.assertEqual(named[0], named[1])
        self.assertGreater(len(named[0]), 0)

    def test_a_capture_of_another_is_not_begun_anew(self):
        """A collector that is moved by hand in mid-capture keeps what it has until it is back."""
        with self.rig as rig:
            rig.wait_ranks(WORLD)
            capture, name = self.begin(200)
            # What a collector has in memory alone dies with it: its ranks' first rows are to be at the aggregator.
            wait_until("rows of its ranks", lambda: {"2", "3"} <= {row["rank"] for row in self.table(rig.address, name, "rank_steps", code=None)})
            self.restart_collector(1, "--connect", self.other.address)
            wait_until("that it is not taken", lambda: "stays with its collector" in self.other.log())
            wait_until("that it is kept", lambda: "stays in the spool" in rig.log_text("collector1"))
            self.assertNotIn("is not known here", self.other.log())
            self.assertEqual(wait_until("that it is told", lambda: self.captures(self.other.address).get(name))["aggregator_address"],
                             rig.address)
            time.sleep(4)  # it is asked for again, and the answer is the same
            self.assertNotIn("is not known here", self.other.log())
            self.restart_collector(1)
            capture.end()
            closed = self.closed(rig.address, name)
            # What its ranks recorded ended with the collector, and all of that came.
            self.assertEqual((closed["state"], closed["reason"]), ("partial", "partial: rank 2, 3"))
            shown = rig.show(name)
            for rank in shown["ranks"][2:4]:
                self.assertRegex(rank["reason"], "^it recorded [0-9]+ of 200 steps$")  # no chunk is lost
            self.wait_for_all_rows(rig.address, name, code=1)
            steps = {row["rank"]: row["steps"] for row in self.table(rig.address, name, "rank_steps", code=1)}
            self.assertEqual({"2", "3"} & set(steps), {"2", "3"}, steps)
            self.call(rig.address, "verify", name)

    def test_all_collectors_are_at_the_first_that_lives(self):
        self.knows_both()
        with self.rig as rig:
            rig.wait_ranks(WORLD)
            self.assertEqual(self.ranks(self.other.address), 0)
            # Away for less than a lease: they come back to it, and nowhere else.
            self.kill_first()
            time.sleep(2)
            rig.start_aggregator()
            rig.wait_ranks(WORLD)
            self.assertEqual(self.ranks(self.other.address), 0)
            # For longer: they go to the other one, all of them, and home again when it is back.
            self.kill_first()
            wait_until("that they move", lambda: self.ranks(self.other.address) == WORLD)
            done = self.call(self.other.address, "capture", "--steps", "5", "--no-report", "--json")
            name = json.loads(done.stdout)["id"]
            self.assertEqual(self.closed(self.other.address, name)["state"], "complete")
            rig.start_aggregator()
            rig.wait_ranks(WORLD)
            capture, name = self.begin(20)
            capture.end()
            self.assertEqual((self.closed(rig.address, name)["state"], rig.show(name)["rank_count"]), ("complete", WORLD))
            self.assertEqual(self.ranks(self.other.address), 0)
            self.nothing_kept()

    def test_a_capture_goes_on_at_another(self):
        """What the lost one had acknowledged is sent again; it comes back, and has nothing to say of it."""
        self.knows_both()
        with self.rig as rig:
            rig.wait_ranks(WORLD)
            capture, reference = self.begin(120)
            capture.end()
            self.assertEqual(self.closed(rig.address, reference)["state"], "complete")
            self.nothing_kept()
            capture, name = self.begin(120)
            self.wait_for_rows(rig.address, name)
            self.kill_first()
            capture.end()
            self.assertEqual((self.closed(self.other.address, name)["state"], self.captures(self.other.address)[name]["reason"]),
                             ("complete", None), self.other.log()[-3000:])
            self.wait_for_all_rows(self.other.address, name)
            self.same_as(self.other.address, name, reference)
            self.nothing_kept()
            # It is back, with its half.
            rig.start_aggregator()
            rig.wait_ranks(WORLD)
            wait_until("that it gives it up", lambda: "was taken over by" in rig.log_text("aggregator"))
            own = json.loads(self.call(rig.address, "aggregators", "--json").stdout)["aggregators"]
            own = next(row["id"] for row in own if row["is_self"])
            wait_until("that its row goes", lambda: self.server.sql(
                f"SELECT is_removed FROM catalogue WHERE id = '{name}' AND aggregator = '{own}' ORDER BY version DESC LIMIT 1",
                self.database) == "1\n")
            self.same_as(self.other.address, name, reference)
            self.same_as(rig.address, name, reference)
            shown = json.loads(self.call(rig.address, "capture", "show", name, "--json").stdout)
            self.assertEqual((shown["state"], shown["aggregator"]), ("complete", self.other.id()))
            self.call(rig.address, "verify", name)

    def test_what_was_given_up_is_taken_back(self):
        """The one that took a capture over is lost as well."""
        self.knows_both()
        with self.rig as rig:
            rig.wait_ranks(WORLD)
            capture, name = self.begin(700)
            self.wait_for_rows(rig.address, name)
            self.kill_first()
            wait_until("that it goes on", lambda: name in self.captures(self.other.address) and self.ranks(self.other.address) == WORLD)
            rig.start_aggregator()
            wait_until("that it gives it up", lambda: "was taken over by" in rig.log_text("aggregator"))
            self.other.kill()
            wait_until("that it takes it back", lambda: "is taken back from" in rig.log_text("aggregator"))
            capture.end()
            wait_until("all of it", lambda: rig.show(name)["state"] == "complete")
            self.assertEqual([rank["steps_done"] for rank in rig.show(name)["ranks"]], [700] * WORLD)
            self.wait_for_all_rows(rig.address, name)
            self.assertEqual(len(self.table(rig.address, name, "op")), 700)
            # The other one is back: it has a smaller claim.
            self.other.start()
            wait_until("that it gives it up", lambda: "was taken over by" in self.other.log())
            self.assertEqual(len(self.table(self.other.address, name, "op")), 700)
            self.nothing_kept()

    def test_data_of_a_capture_of_another_is_taken_there(self):
        """A collector that begins anew is at the first aggregator; what it has of a capture that goes on at the other one goes there."""
        self.knows_both()
        with self.rig as rig:
            rig.wait_ranks(WORLD)
            capture, name = self.begin(700)
            self.wait_for_rows(rig.address, name)
            self.kill_first()
            wait_until("that it goes on", lambda: name in self.captures(self.other.address) and self.ranks(self.other.address) == WORLD)
            rig.start_aggregator()
            wait_until("that it gives it up", lambda: "was taken over by" in rig.log_text("aggregator"))
            self.restart_collector(1)
            wait_until("that it is sent there", lambda: "data of captures of " + self.other.address in rig.log_text("collector1"))
            # Its ranks are at the first one again; those of the other collector are where they are in a capture.
            wait_until("its ranks", lambda: (self.ranks(rig.address), self.ranks(self.other.address)) == (WORLD // 2, WORLD // 2))
            capture.end()
            closed = self.closed(self.other.address, name)
            self.assertEqual((closed["state"], closed["reason"].split(";")[0]), ("partial", "partial: rank 2, 3"))
            self.assertIn("taken over from", closed["reason"])
            shown = json.loads(self.call(self.other.address, "capture", "show", name, "--json", code=None).stdout)
            for rank in shown["ranks"][2:4]:
                self.assertRegex(rank["reason"], "^it recorded [0-9]+ of 700 steps$")  # no chunk is lost
            self.assertEqual([rank["reason"] for rank in shown["ranks"][:2]], [None, None])
            wait_until("that all are home", lambda: self.ranks(rig.address) == WORLD)

    def test_a_stop_reaches_collectors_at_another(self):
        """A capture is stopped at the aggregator that has it; the ranks that record are at the first of the list by now."""
        self.knows_both()
        with self.rig as rig:
            rig.wait_ranks(WORLD)
            self.kill_first()
            wait_until("that they move", lambda: self.ranks(self.other.address) == WORLD)
            with open(os.path.join(self.folder, self.database + ".out"), "w", encoding="utf-8") as out:
                command = subprocess.Popen([PROGRAM, "capture", "--connect", self.other.address, "--steps", "4000", "--no-report"],
                                           stdout=out, stderr=out)
                name = wait_until("the capture", lambda: list(self.captures(self.other.address))).pop()
                self.wait_for_rows(self.other.address, name)
                rig.start_aggregator()
                wait_until("that it lives", lambda: self.call(rig.address, "aggregators", "--json", code=None).stdout.count('"living"') == 2)
                # Away for less than its lease: nobody takes the capture over, and who lost his link is at the first one.
                self.other.kill()
                self.other.start()
                wait_until("that they move", lambda: self.ranks(rig.address) == WORLD)
                wait_until("that data is taken there",
                           lambda: all("data of captures of " + self.other.address in rig.log_text(f"collector{node}") for node in range(NODES)))
                self.assertEqual({r["state"] for r in rig.ranks()}, {"recording"})
                self.call(self.other.address, "capture", "stop", name, code=None)
                wait_until("that they end", lambda: {r["state"] for r in rig.ranks()} == {"idle"})
                command.wait()
            closed = self.closed(self.other.address, name)
            shown = json.loads(self.call(self.other.address, "capture", "show", name, "--json", code=None).stdout)
            self.assertEqual(closed["state"], "stopped", closed)
            self.assertTrue(all(0 < rank["steps_done"] < 4000 for rank in shown["ranks"]), shown["ranks"])


if __name__ == "__main__":
    if not found():
        print("aggregators_move: skipped, " + LACKS)
        sys.exit(77)
    unittest_run.main(verbosity=1)
