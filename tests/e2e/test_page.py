#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page as somebody uses it: a real Chromium, driven by Playwright, on an aggregator with TLS, tokens and a job whose rank 2 is slow.

Whatever the page writes to the browser's console as an error fails the case, and so does a request to anywhere but its aggregator.

Playwright is in ~/.cache/rankscope/playwright-VERSION, where RANKSCOPE_PAGE_INSTALL=1 puts it (45 MB); Chromium is Debian's. With
RANKSCOPE_PAGE_SHOTS=DIR pictures of every view are left there.
"""
import glob
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

import unittest_run

from test_http import HttpRig, cli, cli_capture

VERSION = "1.55.0"
SHOTS = os.environ.get("RANKSCOPE_PAGE_SHOTS")
VIEWS = {"findings": "Rank 2 is slow", "steps": "The same in figures", "map": "Against the median", "waits": "Who came last",
         "links": "Fastest tenth", "kernels": "Time, all ranks", "timeline": "waiting for others", "clock": "May be off by",
         "coverage": "What came", "files": "SHA-256"}


def skip(why):
    print(f"page: skipped, {why}")
    sys.exit(77)


def find_playwright():
    folder = os.path.expanduser(f"~/.cache/rankscope/playwright-{VERSION}")
    if not os.path.isdir(folder):
        if os.environ.get("RANKSCOPE_PAGE_INSTALL") != "1":
            skip(f"no Playwright in {folder}; RANKSCOPE_PAGE_INSTALL=1 puts it there (45 MB)")
        part = folder + ".part"
        shutil.rmtree(part, ignore_errors=True)
        try:
            subprocess.run([sys.executable, "-m", "venv", part], check=True, timeout=120)
            subprocess.run([os.path.join(part, "bin", "pip"), "-q", "install", f"playwright=={VERSION}"], check=True, timeout=300)
            os.rename(part, folder)
        except (OSError, subprocess.SubprocessError) as error:
            shutil.rmtree(part, ignore_errors=True)
            skip(f"Playwright {VERSION} cannot be had here: {error}")
    sys.path.extend(glob.glob(os.path.join(folder, "lib", "python3*", "site-packages")))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # A port of its own: the aggregator comes back where it was.
        cls.rig = HttpRig(world=4, nodes=2, step_ms=100, run="demo", rank_words=["--slow-rank", "2"],
                          aggregator_words=["--http", f"127.0.0.1:{free_port()}"])
        cls.rig.__enter__()
        try:
            cls.rig.wait_ranks(4)
            cls.operator = cls.rig.token("carol", "--operator")
            cls.viewer = cls.rig.token("dave")
            cls.capture = cls.record_named()
            cls.play = sync_playwright().start()
            cls.browser = cls.play.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        except BaseException:
            cls.rig.__exit__(*sys.exc_info())
            raise

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.play.stop()
        cls.rig.__exit__(None, None, None)

    @classmethod
    def record_named(cls):
        """A capture whose report names the slow rank: on a crowded machine one may say instead that it takes more steps to tell, or be partial."""
        for _ in range(5):
            subprocess.run([os.environ["RANKSCOPE"], "capture", "--run", "demo", "--steps", "20", "--connect", cls.rig.address], check=False, capture_output=True)
            capture = json.loads(cli(cls.rig, "capture", "list", "--json"))["captures"][-1]
            capture, state = capture["id"], capture["state"]
            findings = json.loads(cli(cls.rig, "report", capture, "--json"))["findings"] if state == "complete" else None
            if findings and findings[0]["confidence"] != "weak":
                return capture
            cli(cls.rig, "rm", capture)
        raise AssertionError(f"nobody is named in five captures: {findings}")

    def setUp(self):
        self.said, self.expected = [], []

    def tearDown(self):
        strange = [line for line in self.said if not any(re.search(known, line) for known in self.expected)]
        self.assertEqual(strange, [])

    def open(self, where="#/", token=None, size=(1280, 900), scheme="light"):
        context = self.browser.new_context(ignore_https_errors=True, viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
        self.addCleanup(context.close)
        if token:
            context.add_init_script(f"sessionStorage.getItem('rankscope.token') || sessionStorage.setItem('rankscope.token', '{token}')")
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.on("console", lambda line: line.type in ("error", "warning") and self.said.append(line.text))
        page.on("pageerror", lambda error: self.said.append("error: " + str(error)))
        page.on("request", lambda asked: asked.url.startswith((self.rig.url, "blob:")) or self.said.append("asked elsewhere: " + asked.url))
        page.goto(self.rig.url + "/" + where)
        return page

    def shoot(self, page, name):
        if SHOTS:
            os.makedirs(SHOTS, exist_ok=True)
            page.screenshot(path=os.path.join(SHOTS, name + ".png"), full_page=True)

    # ---- who asks

    def test_nobody_is_asked_for_a_token(self):
        self.expected = ["401"]
        page = self.open()
        dialog = page.get_by_role("dialog", name="Say who you are.")
        dialog.wait_for()
        self.shoot(page, "token")
        dialog.get_by_label("Token").fill("rst1.nobody")
        dialog.get_by_role("button", name="Go on").click()
        again = page.get_by_role("dialog", name="The token is not taken any more.")
        again.wait_for()
        again.get_by_label("Token").fill(self.viewer)
        again.get_by_role("button", name="Go on").click()
        page.get_by_role("link", name="demo", exact=True).first.wait_for()
        self.shoot(page, "home")

    def test_a_token_that_ends_is_asked_for_again(self):
        self.expected = ["401", "ERR_INCOMPLETE_CHUNKED_ENCODING"]
        page = self.open("#/run/demo", self.rig.token("erin"))
        page.get_by_text("4 of 4").wait_for()
        subprocess.run([os.environ["RANKSCOPE"], "token", "revoke", "viewer/erin", "--data", self.rig.data], check=True, capture_output=True)
        dialog = page.get_by_role("dialog", name="The token is not taken any more.")
        dialog.wait_for()
        dialog.get_by_label("Token").fill(self.viewer)
        dialog.get_by_role("button", name="Go on").click()
        dialog.wait_for(state="detached")
        step = page.locator(".figures dd").nth(2)
        before = step.inner_text()
        page.wait_for_function("before => document.querySelectorAll('.figures dd')[2].textContent !== before", arg=before)

    def test_a_viewer_records_nothing(self):
        self.expected = ["403"]
        page = self.open("#/run/demo/record", self.viewer)
        page.locator(".problem").wait_for()
        self.assertIn("operator", page.locator(".problem").inner_text())
        self.assertTrue(page.get_by_role("button", name="Start").is_disabled())

    # ---- ranks

    def test_ranks_as_they_are(self):
        page = self.open("#/run/demo", self.viewer)
        page.get_by_text("4 of 4").wait_for()
        page.locator("canvas.grid").focus()
        page.keyboard.press("Home")
        page.get_by_role("heading", name="Rank 0").wait_for()
        page.keyboard.press("ArrowRight")
        page.get_by_role("heading", name="Rank 1").wait_for()
        self.assertIn("native", page.locator("aside").inner_text())
        self.shoot(page, "run")
        page.get_by_role("link", name="Record this rank").click()
        page.get_by_label("Ranks").wait_for()
        self.assertEqual(page.get_by_label("Ranks").input_value(), "1")
        self.expected = ["403"]

    def test_four_thousand_ranks(self):
        ranks = [{"run": "demo", "rank": i, "world": 4097, "host": f"n{i // 8}", "node": f"n{i // 8}", "pid": 100 + i, "incarnation": "x",
                  "kind": "kineto", "state": "gone" if i == 77 else "idle", "step": 500, "step_duration_ns": 100_000_000 + (i == 2025) * 70_000_000,
                  "capture": None, "can_capture": True, "free_disk_bytes": 1, "roles": {"dp": i // 64, "tp": i % 8}, "events_dropped": 0,
                  "seen_ns": 1} for i in range(4096)]
        body = "id: 1\nevent: ranks\ndata: " + json.dumps({"schema_version": 1, "ranks": ranks}) + "\n\n"
        for size in ((1280, 900), (2560, 1440)):
            page = self.open("#/", self.viewer, size)
            page.get_by_role("link", name="demo", exact=True).first.wait_for()
            page.route("**/api/v1/ranks/stream*", lambda route: route.fulfill(status=200, content_type="text/event-stream", body=body))
            page.goto(self.rig.url + "/#/run/demo")
            # One that the job never had, and one that went.
            page.get_by_text("Missing: 1 ranks, 4096").wait_for()
            self.assertIn("4\u202f095 of 4\u202f097", page.locator(".figures").inner_text())
            page.locator("canvas.grid").focus()
            page.keyboard.press("End")
            page.get_by_role("heading", name=re.compile("Rank (4095|2025)")).wait_for()
            page.get_by_label("Grouped by").select_option("dp")
            self.shoot(page, f"ranks-4096-{size[0]}")

    def test_names_are_texts(self):
        page = self.open("#/", self.viewer)
        page.get_by_role("link", name="demo", exact=True).first.wait_for()
        evil = "<img src=x onerror=alert(1)>"
        page.route("**/api/v1/runs", lambda route: route.fulfill(status=200, content_type="application/json", body=json.dumps({
            "schema_version": 1, "runs": [{"run": evil, "ranks": 1, "world": 1, "gone": 0, "recording": 0, "can_capture": 1, "nodes": 1,
                                           "first_step": None, "last_step": None, "step_duration_median_ns": None,
                                           "step_duration_max_ns": None}]})))
        page.reload()
        page.get_by_role("link", name=evil).wait_for()
        self.assertEqual(page.locator("img").count(), 0)

    # ---- captures

    def test_a_capture_from_the_page(self):
        self.expected = ["400"]  # of the expression that is half typed
        page = self.open("#/run/demo/record", self.operator)
        page.get_by_text("4 ranks are meant").wait_for()
        page.get_by_label("Ranks").fill("0-1,9")
        page.get_by_text("Nobody knows ranks 9.").wait_for()
        page.get_by_label("Ranks").fill("0,2-")
        page.locator(".problem").filter(has_text="column").wait_for()
        page.get_by_label("Ranks").fill("all")
        page.get_by_text("4 ranks are meant").wait_for()
        page.locator("input[type=number]").first.fill("30")
        self.shoot(page, "record")
        page.get_by_role("button", name="Start").click()
        page.get_by_role("heading", name=re.compile("^Capture 2")).wait_for()
        page.get_by_label("Progress").wait_for()
        self.shoot(page, "progress")
        page.get_by_role("heading", name=re.compile("Rank 2 is slow")).wait_for()
        page.locator(".figures").get_by_text("complete", exact=True).wait_for()
        page.get_by_role("link", name="the timeline").first.wait_for()

    def test_a_capture_is_stopped_and_removed(self):
        page = self.open("#/run/demo/record?steps=100000", self.operator)
        page.get_by_text("4 ranks are meant").wait_for()
        page.get_by_role("button", name="Start").click()
        page.get_by_role("heading", name=re.compile("^Capture 2")).wait_for()
        name = page.get_by_role("heading", name=re.compile("^Capture 2")).inner_text().split()[1]
        page.locator(".figures").get_by_text("recording", exact=True).wait_for()
        page.wait_for_function("() => document.querySelector('progress').value > 8")
        # What was found so far stands there while it records, with what mending it would bring.
        row = page.get_by_role("row", name=re.compile(", rank 2"))
        row.wait_for()
        self.assertRegex(row.inner_text(), r"\d [mµ]s.*\d %")
        self.assertIn("So far: 4 ranks", page.locator("main").inner_text())
        self.shoot(page, "live")
        page.get_by_role("button", name="Stop").click()
        page.get_by_role("button", name="Remove").wait_for()
        stopped = json.loads(cli(self.rig, "capture", "show", name, "--json", code=1))
        self.assertEqual(stopped["state"], "stopped")
        page.locator(".figures").get_by_text("stopped", exact=True).wait_for()
        page.locator("main section").get_by_text("A step takes", exact=True).wait_for()
        page.once("dialog", lambda dialog: dialog.dismiss())
        page.get_by_role("button", name="Remove").click()
        self.assertIn(name, page.url)
        page.once("dialog", lambda dialog: dialog.accept())
        page.get_by_role("button", name="Remove").click()
        page.get_by_role("heading", name="Run demo").wait_for()
        self.assertNotIn(name, [one["id"] for one in json.loads(cli(self.rig, "capture", "list", "--json"))["captures"]])

    def test_every_view_of_a_capture(self):
        for scheme, size in (("light", (1280, 900)), ("dark", (2560, 1440))):
            page = self.open(f"#/capture/{self.capture}", self.viewer, size, scheme)
            for view, what in VIEWS.items():
                page.goto(f"{self.rig.url}/#/capture/{self.capture}/{view}")
                page.locator("main section").get_by_text(what).first.wait_for()
                self.assertEqual(page.locator(".problem").count(), 0, view)
                if view in ("steps", "map", "waits"):
                    page.locator("main section canvas").first.wait_for()
                if view == "links":  # of this job no transfer's time is known: that is said, and no empty matrix drawn
                    page.get_by_text("No time of a transfer is known, so no link has a rate.").wait_for()
                self.shoot(page, f"{view}-{scheme}-{size[0]}")

    def test_shares_of_the_waiting_add_up(self):
        page = self.open(f"#/capture/{self.capture}/waits", self.viewer)
        page.get_by_role("cell", name="All of it").wait_for()
        texts = page.locator("table").first.locator("tbody tr").all_inner_texts()
        shares = [float(re.search(r"([\d.-]+) %", text).group(1)) for text in texts]
        self.assertEqual(shares[-1], 100)
        self.assertAlmostEqual(sum(shares[:-1]), 100, delta=0.2)
        self.assertTrue(all(share >= 0 for share in shares), shares)
        self.assertIn("With all causes fixed, ranks would still wait", page.locator("main").inner_text())
        self.shoot(page, "waits-whole")

    def test_links_of_a_thousand_ranks(self):
        """Ranks that a matrix cannot show one by one are taken together by host, the worst link on top; what is unknown is no 0."""
        links = [{"src": i, "dst": (i + 1) % 1024, "transport": "RDMA", "messages": 5, "bytes": 5000, "busy_ns": None if i == 3 else 100,
                  "median_bytes_per_s": 1e9 if i == 517 else None if i == 3 else 1e10, "fast_bytes_per_s": None, "is_estimated": 0} for i in range(1024)]
        shown = json.loads(cli(self.rig, "capture", "show", self.capture, "--json"))
        shown["ranks"] = [{**shown["ranks"][0], "rank": i, "host": f"n{i // 8}"} for i in range(1024)]
        page = self.open("#/", self.viewer)
        page.get_by_role("link", name="demo", exact=True).first.wait_for()
        page.route(f"**/api/v1/captures/{self.capture}", lambda route: route.fulfill(status=200, content_type="application/json", body=json.dumps(shown)))
        page.route("**/links?*", lambda route: route.fulfill(status=200, content_type="application/json", body=json.dumps(
            {"schema_version": 1, "rows": links, "cursor": None, "is_partial": False, "is_provisional": False, "notes": []})))
        page.goto(f"{self.rig.url}/#/capture/{self.capture}/links")
        page.get_by_text("1\u202f024 ranks, taken together by their 128 hosts").wait_for()
        page.get_by_role("img", name="from 128 to 128 hosts").wait_for()
        self.shoot(page, "links-1024")
        page.get_by_label("Ranks").fill("0-15")
        page.get_by_label("Ranks").press("Enter")
        page.get_by_role("img", name="from 16 to 16 ranks").wait_for()
        # A cell of the matrix of hosts opens: its two hosts' ranks, one by one.
        page.get_by_role("textbox", name="Ranks").fill("")
        page.get_by_role("textbox", name="Ranks").press("Enter")
        matrix = page.get_by_role("img", name="from 128 to 128 hosts")
        matrix.locator("canvas").first.wait_for()
        matrix.scroll_into_view_if_needed()
        box = matrix.bounding_box()
        width, height = (box["width"] - 110 - 16) / 128, (box["height"] - 8 - 48) / 128
        matrix.click(position={"x": 110 + 64.5 * width, "y": 8 + 64.5 * height})  # inside host n64
        page.get_by_role("img", name="from 8 to 8 ranks").wait_for()
        self.assertEqual(page.get_by_role("textbox", name="Ranks").input_value(), "512-519")
        self.assertRegex(page.url, "ranks=512-519")
        page.get_by_role("textbox", name="Ranks").fill("0-15")
        page.get_by_role("textbox", name="Ranks").press("Enter")
        page.get_by_role("img", name="from 16 to 16 ranks").wait_for()
        unknown = page.locator("tbody tr").filter(has=page.get_by_role("cell", name="3", exact=True)).filter(has=page.get_by_role("cell", name="4", exact=True))
        self.assertEqual(unknown.first.locator("td").last.inner_text(), "–")
        self.assertNotIn("\t0 ns", page.locator("table").inner_text())

    def test_evidence_leads_to_where_it_is_seen(self):
        page = self.open(f"#/capture/{self.capture}", self.viewer)
        page.get_by_role("link", name="the timeline").first.click()
        page.locator(".lanes canvas").wait_for()
        self.assertRegex(page.url, r"/timeline\?step=\d+&ranks=2&raw=1&at=\d+$")
        page.get_by_text(re.compile(r"^[1-9]\d* spans of other work$")).wait_for()
        page.get_by_label("Search").fill("forward")
        page.get_by_text(re.compile(r"^[1-9]\d* spans$")).wait_for()
        self.shoot(page, "timeline-raw")
        page.goto(f"{self.rig.url}/#/capture/{self.capture}/timeline?ranks=0-3")
        page.locator(".lanes canvas").wait_for()
        page.get_by_label("Search").fill("all_reduce")
        page.get_by_text(re.compile(r"^[1-9]\d* spans$")).wait_for()
        page.get_by_label("Search").press("Enter")
        page.locator("aside").get_by_text(re.compile("all_reduce: .* waiting ")).wait_for()
        page.locator(".lanes canvas").focus()
        for key in ("+", "+", "ArrowRight", "ArrowDown", "-", "Home"):
            page.keyboard.press(key)
        self.shoot(page, "timeline-chosen")

    def test_what_hosts_did(self):
        """On demand, out of the raw events; calls inside calls on lanes below; by keyboard, and told to who cannot see it."""
        page = self.open(f"#/capture/{self.capture}/timeline?ranks=1-2", self.viewer)
        page.locator(".lanes canvas").wait_for()
        page.get_by_role("button", name="Add host operations").click()
        page.get_by_text(re.compile(r"^[1-9]\d* host operations$")).wait_for()
        self.assertRegex(page.url, "host=1")
        real = self.get_rows("host_span?ranks=2&columns=kind,name")
        self.assertEqual({row["kind"] for row in real}, {"step"})  # of native ranks, their steps; ranges where they have some
        # A rank of PyTorch: a data loader with an operator inside, a launch, on the clock and in the step of the real ones.
        members = self.get_rows("op_member?ranks=2&columns=start_ns,step")
        first = min(row["start_ns"] for row in members if row["step"] == min(row["step"] for row in members))
        calls = [("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", -40_000, -10_000), ("cpu_op", "aten::stack", -30_000, -20_000),
                 ("cuda_runtime", "cudaLaunchKernel", -9_000, -5_000)]
        body = {"rows": [{"rank": 2, "stream": 77, "start_ns": first + a, "end_ns": first + b, "kind": kind, "name": name} for kind, name, a, b in calls],
                "cursor": None, "notes": [], "is_partial": False, "is_provisional": False}
        page.route("**/host_span?*", lambda route: route.fulfill(status=200, content_type="application/json", body=json.dumps(body)))
        page.goto(f"{self.rig.url}/#/capture/{self.capture}/timeline?ranks=2&host=1")
        page.get_by_text("3 host operations", exact=True).wait_for()
        canvas = page.get_by_role("application", name=re.compile(r"^Timeline of \d+ lanes, \d+ spans\. .*Page Down from lane to lane"))
        page.get_by_label("Search").fill("dataloader")
        page.get_by_text("1 spans", exact=True).wait_for()
        page.get_by_label("Search").press("Enter")
        told = page.get_by_role("complementary", name="One span")
        told.get_by_text("__next__ (user annotation): 30.0 µs").wait_for()
        self.assertIn("rank 2, host 77", told.inner_text())
        canvas.focus()
        page.keyboard.press("PageDown")
        told.get_by_text("aten::stack (cpu op): 10.0 µs").wait_for()
        self.assertIn("rank 2, host 77 +1", told.inner_text())
        page.keyboard.press("PageUp")
        page.keyboard.press("ArrowDown")
        told.get_by_text("cudaLaunchKernel (cuda runtime): 4.0 µs").wait_for()
        self.shoot(page, "timeline-host")

    def test_raw_events_that_are_on_the_nodes_still(self):
        """Fetched where they are looked for; a viewer is told who may."""
        self.expected = ["403"]
        cli_capture(self.rig, "--run", "demo", "--steps", "3", "--raw", "none", "--set", 'metadata.watch={"reason": "rank 2 takes longer"}')
        capture = json.loads(cli(self.rig, "capture", "list", "--json"))["captures"][-1]["id"]
        for token, is_operator in ((self.viewer, False), (self.operator, True)):
            page = self.open(f"#/capture/{capture}/timeline?ranks=0-1", token)
            page.get_by_text("A watch made it: rank 2 takes longer.").wait_for()
            page.locator(".lanes canvas").wait_for()
            page.get_by_role("button", name="Add other work").click()
            page.get_by_text("The aggregator has no raw events of these ranks.").wait_for()
            page.get_by_role("button", name="Fetch them from the nodes").click()
            page.get_by_text(re.compile(r"^[1-9]\d* spans of other work$" if is_operator else "may not ask for this .capture.fetch.")).wait_for()
            self.shoot(page, f"fetched-{is_operator}")

    def get_rows(self, what):
        return self.rig.ask_http(f"/api/v1/captures/{self.capture}/{what}", token=self.viewer).json()["rows"]

    def test_files_are_saved(self):
        page = self.open(f"#/capture/{self.capture}/files", self.viewer)
        with page.expect_download() as download:
            page.get_by_role("button", name="report.json").click()
        with open(download.value.path(), encoding="utf-8") as file:
            self.assertEqual(json.load(file)["findings"][0]["where"], {"rank": 2})

    def test_the_report_in_one_file(self):
        """report.html from a disk without a network: the same views, of what stands in it; without scripts the text; served, too."""
        with tempfile.TemporaryDirectory(prefix="rs-page-") as folder:
            done = subprocess.run([os.environ["RANKSCOPE"], "report", self.capture, "--connect", self.rig.address, "-o", folder], capture_output=True,
                                  check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            where = "file://" + os.path.join(folder, "report.html")
            for scheme, width in (("light", 1280), ("dark", 2560)):
                context = self.browser.new_context(offline=True, viewport={"width": width, "height": 900}, color_scheme=scheme)
                self.addCleanup(context.close)
                page = context.new_page()
                page.on("console", lambda line: self.said.append(line.text))
                page.on("pageerror", lambda error: self.said.append("error: " + str(error)))
                page.on("request", lambda asked: asked.url.startswith(where) or self.said.append("asked: " + asked.url))
                page.goto(where)
                page.get_by_role("heading", name=re.compile("^Rank 2 is slow")).first.wait_for()
                page.get_by_role("img", name="Step time of 4 ranks, stacked by what it went to").locator("canvas").first.wait_for()
                page.get_by_role("img", name="4 ranks by 20 steps").locator("canvas").first.wait_for()
                page.get_by_role("img", name="Flow of waiting").locator("canvas").first.wait_for()
                shares = page.get_by_role("table", name="Causes of the waiting").locator("tbody tr").last.inner_text()
                self.assertIn("100.0 %", shares)
                self.assertEqual(page.get_by_text("the timeline").count(), 0)  # raw events are not in it
                self.assertFalse(page.locator("#text").is_visible())
                self.shoot(page, f"report-html-{scheme}-{width}")
                page.get_by_role("link", name="the steps").first.click()
                page.get_by_role("img", name="Step time of 1 ranks, stacked by what it went to").wait_for()
                self.assertRegex(page.url, r"#steps\?ranks=2$")
                page.get_by_text("The same as text").click()
                page.locator("#text h2").filter(has_text="What was seen, and what is not known").wait_for()
            context = self.browser.new_context(offline=True, java_script_enabled=False)
            self.addCleanup(context.close)
            page = context.new_page()
            page.goto(where)
            page.locator("#text h2").filter(has_text="1. Rank 2 is slow").first.wait_for()
            self.assertTrue(page.locator("svg.heat").is_visible())
            self.shoot(page, "report-html-text")
            # Somebody's script in it does not run: the file allows its own alone.
            with open(os.path.join(folder, "report.html"), encoding="utf-8") as file:
                text = file.read().replace("</body>", "<script>document.title = 'taken'</script></body>")
            with open(os.path.join(folder, "report.html"), "w", encoding="utf-8") as file:
                file.write(text)
            context = self.browser.new_context(offline=True)
            self.addCleanup(context.close)
            page = context.new_page()
            page.goto(where)
            page.get_by_role("img", name="4 ranks by 20 steps").locator("canvas").first.wait_for()
            self.assertTrue(page.title().startswith("Rankscope"))
        context = self.browser.new_context(ignore_https_errors=True, extra_http_headers={"Authorization": "Bearer " + self.viewer})
        self.addCleanup(context.close)
        page = context.new_page()
        page.on("pageerror", lambda error: self.said.append("error: " + str(error)))
        page.goto(f"{self.rig.url}/api/v1/captures/{self.capture}/report")
        page.get_by_role("img", name="4 ranks by 20 steps").locator("canvas").first.wait_for()
        self.assertEqual(page.evaluate("() => origin"), "null")  # nothing of the page's own, its token least of all

    def test_a_stalled_loader_in_one_file(self):
        with tempfile.TemporaryDirectory(prefix="rs-page-") as folder:
            done = subprocess.run([os.environ["RANKSCOPE"], "analyse", "docs/examples/slow-loader", "-q", "-o", folder], capture_output=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            context = self.browser.new_context(offline=True)
            self.addCleanup(context.close)
            page = context.new_page()
            page.goto("file://" + os.path.join(folder, "report.html"))
            page.get_by_role("heading", name=re.compile("^Rank 2 waits for data")).first.wait_for()
            evidence = page.locator("article.finding li").all_inner_texts()
            self.assertRegex(evidence[0], r"^Before the first kernel of a step on rank 2: \S+ ms, all of it in the data loader, healthy")
            self.assertRegex(evidence[1], r"^Look first on rank 2 in step \d+, \S+ ms long$")

    def test_what_is_not_there(self):
        self.expected = ["404"]
        page = self.open("#/capture/20260101-000000-abcdef", self.viewer)
        page.locator(".problem").wait_for()
        page.goto(self.rig.url + "/#/nowhere/at/all")
        page.get_by_text("There is no such place here.").wait_for()

    # ---- an aggregator that dies

    def test_z_an_aggregator_that_dies_and_comes_back(self):
        self.expected = ["ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE",
                         "ERR_CONNECTION_CLOSED", "ERR_SOCKET_NOT_CONNECTED"]
        page = self.open("#/run/demo", self.viewer)
        page.get_by_text("4 of 4").wait_for()
        self.rig.aggregator.send_signal(signal.SIGKILL)
        self.rig.aggregator.wait()
        self.rig.aggregator.stdout.close()
        page.get_by_text("Not connected").wait_for()
        self.shoot(page, "gone")
        self.rig.start_aggregator()
        self.rig.wait_ranks(4)
        page.wait_for_function("() => document.getElementById('notice').textContent === ''")
        page.get_by_text("4 of 4").wait_for()


if __name__ == "__main__":
    if not shutil.which("chromium"):
        skip("there is no chromium")
    if not shutil.which("npm"):
        skip("the page is built with npm, which is not there")
    find_playwright()
    from playwright.sync_api import sync_playwright
    unittest_run.main(verbosity=1)
