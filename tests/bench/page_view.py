#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long the page takes in Chromium, beside the aggregator and a job of real native ranks on the same machine.

    RANKSCOPE_PAGE_INSTALL=1 tests/bench/page_view.py [--ranks 4096] [--times 5] [--shots DIR]

From the navigation to what is drawn: the runs, the ranks, and every view of a capture of all ranks. Medians of --times, each in a browser
context of its own, so that nothing is kept from one to the next.
"""
import argparse
import json
import os
import shutil
import statistics
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
os.environ.setdefault("RANKSCOPE", os.path.join(ROOT, "build/release/rankscope"))
os.environ.setdefault("RANKSCOPE_BUILD", os.path.join(ROOT, "build/release"))
sys.path.insert(0, os.path.join(ROOT, "tests/e2e"))
import test_page  # noqa: E402
from test_http import HttpRig, cli  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=4096)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--step-ms", type=int, default=2000)
    parser.add_argument("--shots")
    options = parser.parse_args()
    test_page.find_playwright()
    from playwright.sync_api import sync_playwright
    rig = HttpRig(world=options.ranks, nodes=16, step_ms=options.step_ms, run="demo", rank_words=["--slow-rank", "2"],
                  aggregator_words=["--http", "127.0.0.1:0"])
    with rig, sync_playwright() as play:
        rig.wait_ranks(options.ranks, 240)
        token = rig.token("bench")
        cli(rig, "capture", "--run", "demo", "--steps", str(options.steps))
        capture = json.loads(cli(rig, "capture", "list", "--json"))["captures"][-1]["id"]
        places = {"runs": ("#/", ["table a"]), "ranks": ("#/run/demo", [".figures dd"])}
        for view, what in {**test_page.VIEWS, "findings": "A step takes"}.items():
            places[view] = (f"#/capture/{capture}/{view}", [f"text={what}"])
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        took = {name: [] for name in places}
        for turn in range(options.times):
            for name, (where, wanted) in places.items():
                context = browser.new_context(ignore_https_errors=True, viewport={"width": 1280, "height": 900})
                context.add_init_script(f"sessionStorage.setItem('rankscope.token', '{token}')")
                page = context.new_page()
                page.set_default_timeout(120_000)
                begun = time.monotonic()
                page.goto(rig.url + "/" + where)
                for selector in wanted:
                    page.locator("main").locator(selector).first.wait_for()
                page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
                took[name].append(time.monotonic() - begun)
                if options.shots and turn == 0:
                    os.makedirs(options.shots, exist_ok=True)
                    page.wait_for_timeout(500)
                    page.screenshot(path=os.path.join(options.shots, f"{name}-{options.ranks}.png"), full_page=True)
                context.close()
        browser.close()
    print(f"{options.ranks} ranks, {options.steps} steps, medians of {options.times}")
    for name, times in took.items():
        print(f"  {name:10} {statistics.median(times) * 1000:7.0f} ms   (from {min(times) * 1000:.0f} to {max(times) * 1000:.0f})")


if __name__ == "__main__":
    main()
