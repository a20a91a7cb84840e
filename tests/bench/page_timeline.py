#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long the page's timeline takes for a frame with very many spans, in Chromium.

    RANKSCOPE_PAGE_INSTALL=1 tests/bench/page_timeline.py [--spans 100000] [--ranks 16]

A real capture of a small job; the members of its operations are replaced on their way to the page by so many. 60 times: zoom in, move, zoom
out, each followed by reading a pixel back, so that the drawing is counted.
"""
import argparse
import json
import os
import shutil
import statistics
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
os.environ.setdefault("RANKSCOPE", os.path.join(ROOT, "build/release/rankscope"))
os.environ.setdefault("RANKSCOPE_BUILD", os.path.join(ROOT, "build/release"))
sys.path.insert(0, os.path.join(ROOT, "tests/e2e"))
import test_page  # noqa: E402
from test_http import HttpRig, cli  # noqa: E402

FRAMES = """async () => {
    const canvas = document.querySelector(".lanes canvas"), took = [];
    const frame = () => new Promise((done) => requestAnimationFrame(done));
    for (let i = 0; i < 60; i++) {
        const begun = performance.now();
        canvas.dispatchEvent(new KeyboardEvent("keydown", {key: i < 20 ? "+" : i < 40 ? "ArrowRight" : "-"}));
        await frame();
        canvas.getContext("2d").getImageData(0, 0, 1, 1);
        took.push(performance.now() - begun);
        await frame();
    }
    return took;
}"""


def members(spans, ranks):
    return [{"step": 1, "group_id": 1, "op_no": i // ranks, "rank": i % ranks, "op": "all_reduce", "device": 0, "stream": 7,
             "start_ns": 1795466240470610516 + i // ranks * 10000 + i % ranks * 13,
             "end_ns": 1795466240470616516 + i // ranks * 10000, "bytes": 1024, "wait_ns": 2000, "transfer_ns": 3000,
             "is_partial": "exact", "transport": "NVLINK"} for i in range(spans)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--spans", type=int, default=100_000)
    parser.add_argument("--ranks", type=int, default=16)
    options = parser.parse_args()
    test_page.find_playwright()
    from playwright.sync_api import sync_playwright
    body = json.dumps({"rows": members(options.spans, options.ranks), "cursor": None, "notes": [], "is_partial": False,
                       "is_provisional": False})
    with HttpRig(world=4, nodes=1, step_ms=100, run="demo", aggregator_words=["--http", "127.0.0.1:0"]) as rig, sync_playwright() as play:
        rig.wait_ranks(4)
        token = rig.token("bench")
        cli(rig, "capture", "--run", "demo", "--steps", "5")
        capture = json.loads(cli(rig, "capture", "list", "--json"))["captures"][-1]["id"]
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        context = browser.new_context(ignore_https_errors=True, viewport={"width": 1600, "height": 900})
        context.add_init_script(f"sessionStorage.setItem('rankscope.token', '{token}')")
        page = context.new_page()
        page.set_default_timeout(120_000)
        page.route("**/op_member*", lambda route: route.fulfill(status=200, content_type="application/json", body=body))
        page.goto(f"{rig.url}/#/capture/{capture}/timeline?step=1&ranks=0-{options.ranks - 1}")
        page.locator(".lanes canvas").wait_for()
        took = page.evaluate(FRAMES)
        browser.close()
    print(f"{options.spans} spans of {options.ranks} ranks, {len(took)} frames: median {statistics.median(took):.1f} ms, "
          f"longest {max(took):.1f} ms")


if __name__ == "__main__":
    main()
