#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long "why does it hang?" takes over a simulated cluster (tests/integration/hang_live_test.c): from the question to the closed
capture, and from there to the verdict. hang_live.py BUILD_DIR [RANKS [CALLS [TIMES]]]; prints the medians."""
import os
import re
import statistics
import subprocess
import sys

BUILD = sys.argv[1]
RANKS, CALLS, TIMES = ([int(w) for w in sys.argv[2:]] + [1024, 2000, 5][len(sys.argv) - 2:])


def main():
    gathered, judged = [], []
    for _ in range(TIMES):
        done = subprocess.run([os.path.join(BUILD, "integration_hang_live_test")], capture_output=True, text=True, check=False,
                              env=dict(os.environ, HANG_RANKS=str(RANKS), HANG_CALLS=str(CALLS)))
        found = re.search(r"gathered in ([\d.]+) s, judged in ([\d.]+) s", done.stdout)
        if not found or "[  FAILED  ] a_thousand" in done.stdout:
            sys.exit(done.stdout + done.stderr)
        gathered.append(float(found[1]))
        judged.append(float(found[2]))
    total = statistics.median(a + b for a, b in zip(gathered, judged))
    print(f"{RANKS} ranks x {CALLS} calls, {TIMES} times: gathered {statistics.median(gathered):.2f} s, "
          f"judged {statistics.median(judged):.2f} s, together {total:.2f} s")


if __name__ == "__main__":
    main()
