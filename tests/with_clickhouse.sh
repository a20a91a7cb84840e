#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The end-to-end tests whose aggregator keeps rows, once more with those in a ClickHouse (aggregator --store): what they ask of an
# aggregator is the same. One server for each test, databases of their own (tests/e2e/rig_clickhouse.py).
#
#   tests/with_clickhouse.sh [TEST...]     TEST: live_join, lanes, ... (default: all of them); RANKSCOPE_BUILD: build/dev
#
# Exit 1 when one failed, 77 without clickhouse-server. CI runs e2e_clickhouse alone, which has a live capture of its own.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export RANKSCOPE_BUILD=${RANKSCOPE_BUILD:-build/dev} RANKSCOPE_E2E_STORE=clickhouse
export RANKSCOPE=${RANKSCOPE:-$RANKSCOPE_BUILD/rankscope} PYTHONWARNINGS=ignore
PATH="$PATH:$(tests/from_package.sh clickhouse-server clickhouse-server)"
command -v clickhouse-server >/dev/null || [ -x /usr/sbin/clickhouse-server ] || {
    echo "with_clickhouse: skipped, no clickhouse-server here"
    exit 77
}
[ $# -gt 0 ] || set -- live_join lanes retention native_restart
failed=()
for name; do
    echo "== $name"
    python3 "tests/e2e/test_$name.py" || failed+=("$name")
done
[ ${#failed[@]} -eq 0 ] || { echo "failed: ${failed[*]}"; exit 1; }
echo "with_clickhouse: $# tests passed"
