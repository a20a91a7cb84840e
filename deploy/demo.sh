#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The main job on a real job that this script starts itself: a training loop of 8 processes,
# an aggregator, a collector, a capture of 5 steps on all ranks, the report.
#
#   deploy/demo.sh                      nothing planted: the report names nobody
#   deploy/demo.sh --slow-rank 3:2.0    rank 3 computes twice as much
#   deploy/demo.sh --slow-link 1-2:200  the link from rank 1 to rank 2 carries 200 MB/s
#   deploy/demo.sh --data-stall 5:40    rank 5 waits 40 ms for its data in every step
#
# Further flags go to the training loop (deploy/demo/minitrain --help).
# RANKSCOPE_DEMO_OUT       where the deliverables go (default out/demo)
# RANKSCOPE_DEMO_BUILD     a build folder to use as it is: nothing is installed or built
# Everything that was started is stopped again, also after Ctrl-C.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

out=${RANKSCOPE_DEMO_OUT:-out/demo}
build=${RANKSCOPE_DEMO_BUILD:-}
steps=5
world=8

if [ -z "$build" ]; then
    build=build/release
    deploy/install-packages.sh deploy/packages.txt
    echo "building (build/release), some minutes ..." >&2
    cmake --preset release -DRS_TESTS=OFF >/dev/null
    cmake --build --preset release -j "$(nproc)" | deploy/progress.sh building
fi
case $build in /*) ;; *) build=$PWD/$build ;; esac
rankscope=$build/rankscope
minitrain=$build/minitrain

scratch=$(mktemp -d "${TMPDIR:-/tmp}/rankscope-demo.XXXXXX")
export RANKSCOPE_RUNTIME_DIR=$scratch/run
mkdir -m 700 "$RANKSCOPE_RUNTIME_DIR"
pids=()

stop_all() {
    trap - EXIT INT TERM
    # The job first, then those who watch it: each is asked, waited for, and only then killed.
    local i
    for pid in "${pids[@]}"; do
        kill -TERM "$pid" 2>/dev/null || continue
        for ((i = 0; i < 100; i++)); do
            kill -0 "$pid" 2>/dev/null || break
            sleep 0.1
        done
        kill -KILL "$pid" 2>/dev/null || true
    done
    wait 2>/dev/null || true
    rm -rf "$scratch"
}
trap stop_all EXIT
trap 'exit 130' INT TERM

fail() {
    echo "demo: $1" >&2
    for log in "$scratch"/*.log; do
        echo "--- $(basename "$log")" >&2
        tail -n 20 "$log" >&2
    done
    exit 1
}

"$rankscope" aggregator --listen "unix:$RANKSCOPE_RUNTIME_DIR/aggregator.sock" \
    --data "$scratch/data" >"$scratch/aggregator.log" 2>&1 &
aggregator=$!
"$rankscope" collector --connect "unix:$RANKSCOPE_RUNTIME_DIR/aggregator.sock" \
    --spool "$scratch/spool" >"$scratch/collector.log" 2>&1 &
collector=$!
"$minitrain" --dp 4 --pp 2 --steps 0 --run demo "$@" >"$scratch/minitrain.log" 2>&1 &
job=$!
pids=("$job" "$collector" "$aggregator")

# Ranks count when they step: a capture of a job that still starts would record its warm-up.
echo "waiting for $world ranks ..." >&2
"$rankscope" ranks --run demo --wait "$world" --min-step 5 --timeout 60s ||
    fail "the ranks did not come"

mkdir -p "$out"
status=0
"$rankscope" capture --run demo --ranks all --steps "$steps" -o "$out" || status=$?
[ "$status" -eq 0 ] || fail "the capture ended with exit code $status"

echo
echo "Deliverables:"
for file in "$out"/*; do
    echo "  $file"
done
