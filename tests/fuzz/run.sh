#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds the fuzzers with clang and runs each for some seconds from its corpus, two at a time.
#
#   tests/fuzz/run.sh [SECONDS [NAME...]]   15 s each; NAME without "fuzz_", all when none is given
#
# New inputs that reach new code stay in build/fuzz/corpus/NAME. What breaks one is printed, lies in build/fuzz/found, and belongs into
# tests/fuzz/corpus/NAME once it is mended: ordinary builds replay it. Exit 1 when one broke.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

seconds=${1:-15}
[ $# -eq 0 ] || shift
cmake --preset fuzz >/dev/null
cmake --build --preset fuzz --target fuzzers -j "$(nproc)"

names=("$@")
if [ "${#names[@]}" -eq 0 ]; then
    for source in tests/fuzz/fuzz_*.c; do
        name=${source##*/fuzz_}
        names+=("${name%.c}")
    done
fi
mkdir -p build/fuzz/found build/fuzz/log

run_one() { # NAME
    mkdir -p "build/fuzz/corpus/$1"
    local begin=$SECONDS code=0
    # The corpus of the tree is read, never written: the first folder is where new inputs go.
    "build/fuzz/fuzz_$1" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=4096 -print_final_stats=1 \
        -artifact_prefix="build/fuzz/found/$1-" "build/fuzz/corpus/$1" "tests/fuzz/corpus/$1" \
        >"build/fuzz/log/$1" 2>&1 || code=$?
    local runs
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "build/fuzz/log/$1")
    if [ "$code" = 0 ]; then
        echo "fuzz: $1: ${runs:-?} runs in $((SECONDS - begin)) s"
    else
        echo "fuzz: $1 BROKE (exit $code, build/fuzz/log/$1):"
        grep -E "ERROR|SUMMARY|Test unit written|runtime error" "build/fuzz/log/$1" || tail -5 "build/fuzz/log/$1"
        return 1
    fi
}

broken=0
for ((i = 0; i < ${#names[@]}; i += 2)); do
    run_one "${names[i]}" &
    first=$!
    if [ $((i + 1)) -lt "${#names[@]}" ]; then
        run_one "${names[i + 1]}" || broken=1
    fi
    wait "$first" || broken=1
done
echo "fuzz: ${#names[@]} fuzzers, $seconds s each"
exit "$broken"
