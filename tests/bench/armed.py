#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""From `rankscope capture` to all ranks armed: 1,000 native ranks, a process each, on 8 nodes of one machine.

    tests/bench/armed.py             5 captures of 200 ranks, 5 of all; exit 1 when one of them took a second or more
    ARMED_WORLD=4000 ARMED_ROUNDS=3 tests/bench/armed.py

RANKSCOPE: the program (a release build); RANKSCOPE_BUILD: where native_ranks is. Time runs from the start of the command
line's process to its line that says so. One line of JSON at the end.
"""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from rig_native import Rig  # pylint: disable=wrong-import-position

WORLD = int(os.environ.get("ARMED_WORLD", "1000"))
ROUNDS = int(os.environ.get("ARMED_ROUNDS", "5"))
LIMIT_S = 1.0


def main():
    facts = {"bench": "armed", "world": WORLD, "nodes": 8, "limit_s": LIMIT_S, "seconds": {}}
    with Rig(world=WORLD, nodes=8, step_ms=400) as rig:
        rig.wait_ranks(WORLD)
        for expression, count in (("0-99,500-599", 200), ("all", WORLD)):
            took = []
            for _ in range(ROUNDS):
                capture = rig.capture("--ranks", expression, "--steps", "1", "--no-report")
                took.append(round(capture.wait_for(lambda line, count=count: f" {count} armed" in line), 3))
                code, _ = capture.end()
                if code != 0:
                    raise SystemExit("the capture is not complete:\n" + capture.text())
            facts["seconds"][expression] = sorted(took)
            print(f"{count} of {WORLD} ranks armed after {min(took):.3f} to {max(took):.3f} s", file=sys.stderr)
    facts["is_below_limit"] = max(map(max, facts["seconds"].values())) < LIMIT_S
    print(json.dumps(facts))
    return 0 if facts["is_below_limit"] else 1


if __name__ == "__main__":
    sys.exit(main())
