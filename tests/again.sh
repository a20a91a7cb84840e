#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# After a run of tests/run.sh that failed: runs the end-to-end tests that failed once more, each alone.
#
#   tests/again.sh build/dev
#
# An end-to-end test starts real jobs of PyTorch, MindSpore and others, whose behaviour beside four other jobs on two cores
# is not all ours. One that fails beside others and passes alone is worth a look, and is named on the last lines; it does not stop
# the others' work. Exit 0 only when all that failed are end-to-end tests, three at most, and each passes alone. Any other test
# is deterministic: its failure stays one. The output of the first failure stands above, in the log of the run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build=${1:?the build folder, as build/dev}
failed=$build/Testing/Temporary/LastTestsFailed.log
# What did not run and may not be skipped is no matter of luck.
tests/lint/skips.py "$build/junit.xml" >/dev/null || exit 1
[ -s "$failed" ] || exit 1
names=$(cut -d: -f2 "$failed")
if [ "$(wc -l <<<"$names")" -gt 3 ] || grep -qv '^e2e_' <<<"$names"; then
    exit 1
fi
for name in $names; do
    printf '\n== %s failed beside other tests: once more, alone\n' "$name"
    ctest --test-dir "$build" --output-on-failure -R "^$name\$" || exit 1
done
for name in $names; do
    printf 'FAILED ONCE, PASSED ALONE: %s\n' "$name"
done
