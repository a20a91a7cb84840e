#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Leaves what e2e_upgrade starts from: version-VERSION.tar.gz, the data folder and the spool of this version's daemons. Run once, when a
# minor version is closed, with a build of it.
#
#   tests/data/leave_version.sh build/dev
#
# Four ranks of the demo job, of which rank 3 computes twice as much. One capture of 5 steps is complete. Of one of 6 steps the aggregator
# knows the request only: it is killed (-9) when all ranks are told their start; the collector, when all is in its spool.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=$(realpath "${1:?the build folder is expected, as build/dev}")
version=$(cat VERSION)
folder=$(mktemp -d /tmp/rankscope-leave.XXXXXX)
trap 'kill "${pids[@]}" 2>/dev/null || true; rm -rf "$folder"' EXIT
pids=()
export RANKSCOPE_RUNTIME_DIR=$folder/run RANKSCOPE_CONNECT=unix:$folder/run/aggregator.sock
mkdir -m 700 "$folder/run"
cd "$folder"
rankscope() { "$build/rankscope" "$@"; }
wait_for() { # SECONDS COMMAND...
    local left=$(($1 * 10))
    shift
    until "$@"; do
        [ $((left -= 1)) -gt 0 ] || { echo "leave_version.sh: it never came: $*" >&2; exit 1; }
        sleep 0.1
    done
}

"$build/rankscope" aggregator --listen "$RANKSCOPE_CONNECT" --data data >log 2>&1 & aggregator=$!
"$build/rankscope" collector --connect "$RANKSCOPE_CONNECT" --spool spool --no-kineto --no-mindspore >>log 2>&1 & collector=$!
"$build/minitrain" --dp 4 --pp 1 --steps 0 --run demo --slow-rank 3:2.0 \
    --data-stall 0:500 --data-stall 1:500 --data-stall 2:500 --data-stall 3:500 >>log 2>&1 & job=$!
pids=("$aggregator" "$collector" "$job")
rankscope ranks --wait 4 --timeout 60s >/dev/null
rankscope capture --steps 5 --no-report -q

rankscope capture --steps 6 -q >>log 2>&1 & pids+=("$!")
id=
started() {
    id=$(rankscope capture list | awk '$3 == "recording" { print $1 }')
    [ -n "$id" ] && rankscope capture show "$id" --json | grep -qE '"start_step": [0-9]'
}
wait_for 60 started
kill -9 "$aggregator"
spool_bytes() { find spool -name '*.seg' -exec cat {} + | wc -c; }
last=0
is_still() { # nothing new for two seconds
    local now
    now=$(spool_bytes)
    [ "$now" -gt 10000 ] && [ "$now" = "$last" ] || { last=$now; sleep 2; false; }
}
wait_for 60 is_still
kill -9 "$collector"
kill "$job"
rm -rf data/captures/"$id"/*.db-shm run
tar -czf "$OLDPWD/tests/data/version-$version.tar.gz" --owner=root --group=root data spool
echo "tests/data/version-$version.tar.gz: $(wc -c <"$OLDPWD/tests/data/version-$version.tar.gz") bytes, $id from the spool"
