#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs with planted trouble: the report says what their `accept` asks for.

The recorded one that is bundled (docs/examples/record.py), and where ../shared/data/planted is, the generated ones there.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("RANKSCOPE_BUILD", ROOT / "build/release"))
DATA = ROOT / "../shared/data/planted"
BUNDLED = {"set": "slow-loader", "ranks": 4, "pp": 1, "accept": {"kinds": ["data_stall"], "ranks": [2]}}


def ranks_of(finding, per_stage):
    where = finding["where"]
    if "rank" in where:
        return {where["rank"]}
    if "stage" in where:
        return set(range(where["stage"] * per_stage, (where["stage"] + 1) * per_stage))
    if "link" in where:
        return {where["link"]["src"], where["link"]["dst"]}
    return set(where.get("ranks") or where.get("pair") or [str(where)])


def judge(job, findings):
    """None when the findings above weak are what the job's `accept` asks for, else what is wrong."""
    accept = job["accept"]
    per_stage = job["ranks"] // job["pp"]
    if "first" in accept:
        findings = findings[:1]
    if accept.get("named") == [] and findings:
        return "somebody was named"
    if accept.get("named") == []:
        return None
    if not findings:
        return "nobody was named"
    if any(f["kind"] not in accept["kinds"] for f in findings):
        return "wrong kind"
    if "pair" in accept:
        groups = accept.get("or_groups", [])
        right = all(ranks_of(f, per_stage) == set(accept["pair"]) or f["where"].get("group") in groups for f in findings)
        return None if right else "another link"
    named = set().union(*(ranks_of(f, per_stage) for f in findings))
    wanted = set(accept["first"]["ranks"] if "first" in accept else accept["ranks"])
    return None if named == wanted else f"named {sorted(named)}"


def way_wrong(job, findings):
    """None when a link that is slow one way is named with its direction."""
    links = [f["where"] for f in findings if f["kind"] == "slow_link"]
    for planted in job.get("planted", []):
        if planted.get("directed") and links and planted["where"] not in links:
            return f"another direction: {links}"
    return None


def is_cost_right(job, findings):
    """Whether what the findings cost together is what the job gains, as far as the design asks in 95 of 100 jobs."""
    told, gain = sum(f["cost_ns_per_step"] for f in findings), job["gain_all_ns"]
    return abs(told - gain) <= max(0.1 * gain, 0.003 * job["step_ns"])


def main():
    failed, costs = 0, []
    jobs = [BUNDLED]
    if (DATA / "planted.json").exists():
        jobs += json.loads((DATA / "planted.json").read_text())
    else:
        print(f"{DATA} is absent: only the bundled job is tried")
    for job in jobs:
        folder = ROOT / "docs/examples" / job["set"] if job is BUNDLED else DATA / job["set"]
        rank_map = [] if job is BUNDLED else ["--rank-map", folder / "ranks.json"]
        with tempfile.TemporaryDirectory() as out:
            done = subprocess.run([BUILD / "rankscope", "analyse", folder, *rank_map, "-o", os.path.join(out, "o")],
                                  capture_output=True, text=True, timeout=120, check=False)
            if done.returncode not in (0, 1):
                print(f"FAIL {job['set']}: exit {done.returncode}: {done.stderr}")
                failed += 1
                continue
            report = json.loads(pathlib.Path(out, "o", "report.json").read_text())
        above = [f for f in report["findings"] if f["confidence"] != "weak" and f["kind"] not in ("imbalance", "jitter")]
        wrong = judge(job, above) or way_wrong(job, above)
        said = ", ".join(f"{f['kind']} {f['where']} {100 * f['share']:.1f} % ({f['confidence']})" for f in above)
        print(f"{'FAIL' if wrong else 'ok  '} {job['set']}: {said or 'nobody'}{'; ' + wrong if wrong else ''};"
              + (f" gain {100 * job['gain_all_share']:.1f} %" if "gain_all_share" in job else ""))
        failed += bool(wrong)
        costs += [is_cost_right(job, above)] if above and "gain_all_ns" in job else []
    print(f"{len(jobs) - failed} of {len(jobs)} accepted, {sum(costs)} of {len(costs)} costs right")
    # slow-rank-small-gain (5 % more work among noise of as much) is told 0.6 % of a step too low.
    return 1 if failed or sum(costs) + 1 < len(costs) else 0


sys.exit(main())
