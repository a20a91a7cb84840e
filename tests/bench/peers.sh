#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# CPU seconds of `rankscope cluster` against msprof-analyze `cluster -m all`, on the same generated jobs in one
# run: 3 steps x 200 operations. Where the peer cannot be had, Rankscope's figures stand beside a reference table.
#
#   tests/bench/peers.sh                   64 and 256 ranks, text and db, each side five times in turn, medians
#   RANKS="64" FORMS="db" tests/bench/peers.sh
#   RANKS="1024" FORMS="text" PEER=no tests/bench/peers.sh
#
# RANKSCOPE: the program (a release build); PEER_HOME: where the peer's virtual environment is kept;
# REPEATS: how often each side runs; SCRATCH: a folder for the generated jobs (1 MB per rank and form).
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
shared=${SHARED:-$root/../shared}
program=${RANKSCOPE:-$root/build/release/rankscope}
peer_home=${PEER_HOME:-$HOME/.cache/rankscope/msprof}
ranks=${RANKS:-64 256}
forms=${FORMS:-text db}
repeats=${REPEATS:-5}
generate=$shared/tools/gen_ascend_cluster.py
check=$shared/tools/check_ascend_cluster.py

[ -f "$generate" ] || { echo "skipped: $generate is not there"; exit 77; }
[ -x "$program" ] || { echo "skipped: no program at $program; set RANKSCOPE"; exit 77; }
scratch=$(mktemp -d "${SCRATCH:-${TMPDIR:-/tmp}}/rankscope-peers-XXXXXX")
trap 'rm -rf "$scratch"' EXIT INT TERM

have_peer() {
    [ "${PEER:-yes}" = yes ] || return 1
    [ -x "$peer_home/bin/msprof-analyze" ] && return 0
    echo "installing msprof-analyze into $peer_home" >&2
    python3 -m venv "$peer_home" >&2 && "$peer_home/bin/pip" install -q msprof-analyze >&2
}

# Runs a command; "wall cpu peak_MB" on stdout, of it and its children.
measure() {
    python3 - "$@" <<'PYTHON'
import os, resource, subprocess, sys, time
start = time.time()
done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
wall, used = time.time() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
if done.returncode:
    sys.stderr.write(done.stderr.decode(errors="replace")[-2000:])
    sys.exit(1)
print("%.2f %.2f %d" % (wall, used.ru_utime + used.ru_stime, used.ru_maxrss // 1024))
PYTHON
}

# Of lines "wall cpu peak_MB" the one with the median CPU time.
median() {
    awk NF | sort -n -k 2 | awk '{line[NR] = $0} END {print line[int((NR + 1) / 2)]}'
}

# CPU seconds of the peer, median, as measured elsewhere (2 virtual CPUs, Python 3.11, pandas 1.5.3).
reference() {
    case $1-$2 in
    64-text) echo 16 ;; 64-db) echo 8.7 ;; 256-text) echo 58 ;; 256-db) echo 18.3 ;;
    1024-text) echo 412 ;; 1024-db) echo 80 ;; *) echo - ;;
    esac
}

if have_peer; then peer=yes; else peer=no; fi
printf '%-6s %-5s | %8s %8s %8s | %8s %8s | %s\n' ranks form 'wall s' 'CPU s' 'peak MB' 'peer CPU' 'ratio' 'peer measured'
for count in $ranks; do
    case $count in 1024) shape="--tp 8 --pp 8" ;; 256) shape="--tp 8 --pp 4" ;; *) shape="--tp 8 --pp 2" ;; esac
    for form in $forms; do
        tree=$scratch/$count-$form
        # shellcheck disable=SC2086
        python3 "$generate" --out "$tree" --ranks "$count" $shape --steps 3 --comm-ops-per-step 200 \
            --format "$form" --truth full >/dev/null
        ours= theirs=
        for _ in $(seq "$repeats"); do # in turn, so that what else runs on the machine disturbs both alike
            ours=$(printf '%s\n%s' "$ours" "$(measure "$program" cluster "$tree" -o "$tree-ours" --quiet)")
            [ $peer = no ] || theirs=$(printf '%s\n%s' "$theirs" \
                "$(measure "$peer_home/bin/msprof-analyze" cluster -m all -d "$tree" -o "$tree-peer")")
        done
        best=$(echo "$ours" | median)
        python3 "$check" "$tree" "$tree-ours" | tail -1 | grep -q 'all checks passed' || {
            echo "$count $form: the output is wrong"; exit 1; }
        cpu=$(echo "$best" | cut -d' ' -f2)
        if [ $peer = yes ]; then
            theirs=$(echo "$theirs" | median | cut -d' ' -f2)
            where="here, in this run"
        else
            theirs=$(reference "$count" "$form")
            where="elsewhere: compare orders of magnitude only"
        fi
        ratio=$(awk -v a="$theirs" -v b="$cpu" 'BEGIN {if (a == "-") print "-"; else printf "%.0f", a / b}')
        # shellcheck disable=SC2086
        printf '%-6s %-5s | %8s %8s %8s | %8s %8s | %s\n' "$count" "$form" $best "$theirs" "$ratio" "$where"
        rm -rf "$tree" "$tree-ours" "$tree-peer"
    done
done
