#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Real NCCL on one GPU: four ranks of a training share CUDA device 0; Rankscope captures them live and asks them when they hang.
#
#   tests/bench/nccl_one_gpu/run.sh RANKSCOPE [FOLDER [JOB...]]
#
# JOB: ddp, fsdp, tensor, experts, pipeline, grid (train.py says what each is), watch, hang; all without. And tour: no captures, but all of
# train.py's --tour, recorded by the program itself (FOLDER/tour).
# KEEP=1 keeps what the ranks recorded in FOLDER/traces (TMPDIR must be on its disk; names that end with .tmp are whole traces, too).
# TROUBLES="none data:3:60" leaves all other troubles out.
# RANKSCOPE is the program (bin/rankscope of the portable build on a machine that is no Debian 12), FOLDER gets the reports. Python with
# CUDA's PyTorch is $PYTHON (default python3). NCCL refuses two ranks of one device on one host; NCCL_HOSTID makes each rank a host of
# its own, so that they talk over loopback sockets. The GPU's time is sliced between the processes: kernels of one rank wait while
# another's run, ends of a collective lie tens of ms apart, and a rank's computing is slowed by the waiting of others.
# Ends with 0 when every planted rank is named first, nobody is named in the healthy job, and every hang is explained.
set -euo pipefail
rankscope=$(realpath "${1:?the program is expected: run.sh RANKSCOPE [FOLDER]}")
out=$(realpath -m "${2:-out/nccl-one-gpu}")
wanted=" ${*:3} "
[ "$wanted" != "  " ] || wanted=" ddp fsdp tensor experts pipeline grid watch hang "
here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
python=${PYTHON:-python3}
"$python" -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' || {
    echo "run.sh: $python sees no CUDA device" >&2
    [ "${ON_CPU:-}" = 1 ] || exit 77 # ON_CPU=1: with gloo, to try the script itself
}
"$python" -c 'import torch
print("torch", torch.__version__)
if torch.cuda.is_available(): print("nccl", ".".join(map(str, torch.cuda.nccl.version())), torch.cuda.get_device_name(0))'
mkdir -p "$out"
scratch=$(mktemp -d)
export RANKSCOPE_RUNTIME_DIR=$scratch/run RANKSCOPE_CONNECT=unix:$scratch/aggregator.sock RANKSCOPE_WAIT=raw
mkdir -m 700 "$RANKSCOPE_RUNTIME_DIR"
launcher=("$rankscope" run --) ranks=() daemons=() failures=0 port=29600

end_ranks() {
    [ "${#ranks[@]}" != 0 ] || return 0 # a wait for nobody is one for everybody
    kill -9 "${ranks[@]}" 2>/dev/null || true
    wait "${ranks[@]}" 2>/dev/null || true
    ranks=()
}
end_all() {
    end_ranks
    kill "${daemons[@]}" 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf "$scratch"
}
trap end_all EXIT

start_ranks() { # RUN WORD...
    local run=$1 rank
    shift
    for rank in 0 1 2 3; do
        RANKSCOPE_RUN=$run RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=4 LOCAL_WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
            NCCL_HOSTID=host$rank NCCL_SOCKET_IFNAME=lo NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1 NCCL_IB_DISABLE=1 \
            "${launcher[@]}" "$python" "$here/train.py" "$@" >"$out/$run.$rank.log" 2>&1 &
        ranks+=($!)
    done
    port=$((port + 1))
}
wait_for_step() { # RUN STEP
    local i
    for ((i = 0; i < 600; i++)); do
        grep -qs "^step $2\$" "$out/$1.0.log" && return
        sleep 0.2
    done
    echo "run.sh: $1 did not come to step $2:" >&2
    tail -n 5 "$out/$1.0.log" >&2
    exit 1
}
judge() { # WHAT FILE WORDS: the words must stand in the file
    if grep -qF -- "$3" "$2"; then
        echo "ok: $1: $3"
    else
        failures=$((failures + 1))
        echo "NOT as planted: $1: \"$3\" expected, found:"
        sed -n '1,12p' "$2"
    fi
}

if [[ $wanted == *" tour "* ]]; then
    launcher=()
    start_ranks tour --tour "$out/tour"
    wait "${ranks[@]}" || echo "tour: a rank ended with $?"
    ranks=() launcher=("$rankscope" run --)
    cat "$out/tour.0.log"
fi
"$rankscope" aggregator --data "$scratch/data" --listen "$RANKSCOPE_CONNECT" -q 2>"$out/aggregator.log" &
daemons+=($!)
"$rankscope" collector --spool "$scratch/spool" --trace-dir "$scratch/traces" --verbose 2>"$out/collector.log" &
daemons+=($!)

if [ "${KEEP:-}" = 1 ]; then # the collector takes them away; a second name of the file stays
    mkdir -p "$out/traces"
    while sleep 0.5; do
        [ ! -d "$scratch/traces" ] || cp -rln "$scratch/traces/." "$out/traces/" 2>/dev/null || true
    done &
    daemons+=($!)
fi

capture() { # JOB TROUBLE WORDS: the words must stand in the report
    local run
    run=$1-${2//:/-}
    start_ranks "$run" --job "$1" --trouble "$2" --end "$scratch/end"
    "$rankscope" ranks --run "$run" --wait 4 --timeout 120s -q
    wait_for_step "$run" 30
    if [ "$1 $2" = "ddp none" ]; then
        "$rankscope" hang --run "$run" -q -o "$out/hang-none" || true # 1: some recorders are older than the others'
        judge "hang of a healthy job" "$out/hang-none/hang.txt" "calls are under way"
    fi
    "$rankscope" capture --run "$run" --ranks all --steps "${STEPS:-10}" --roundup 100 -q -o "$out/$run" || echo "capture of $run: exit $?"
    judge "$run" "$out/$run/report.md" "$3"
    touch "$scratch/end" && sleep 3 && rm "$scratch/end"
    end_ranks
}
while read -r -u 3 job trouble words; do
    [ -z "${TROUBLES:-}" ] || [[ " $TROUBLES " == *" $trouble "* ]] || continue
    [[ $wanted != *" $job "* ]] || capture "$job" "$trouble" "$words"
done 3<<'END'
ddp none Nobody is named
ddp data:2:60 ## 1. Rank 2
ddp compute:1:2 ## 1. Rank 1
fsdp none Nobody is named
fsdp data:3:60 ## 1. Rank 3
fsdp compute:0:2 ## 1. Rank 0
tensor none Nobody is named
tensor data:1:60 ## 1. Rank 1
tensor compute:2:2 ## 1. Rank 2
experts none Nobody is named
experts data:0:60 ## 1. Rank 0
experts compute:3:2 ## 1. Rank 3
pipeline none Nobody is named
pipeline compute:2:3 ## 1. Rank 2
grid none Nobody is named
grid compute:1:3 ## 1. Rank 1
END
if [[ $wanted == *" watch "* ]]; then
    start_ranks watch --job ddp --trouble data:2:60 --trouble-when "$scratch/slow" --end "$scratch/end"
    "$rankscope" ranks --run watch --wait 4 --timeout 120s -q
    wait_for_step watch 30
    "$rankscope" watch watch --alarms 1 --probe-every 2s --probe-share 50% -o "$out/watch" >"$out/watch.out" 2>"$out/watch.log" &
    watching=$!
    daemons+=("$watching")
    for ((i = 0; i < 300; i++)); do
        ! grep -q "watching; steps take" "$out/watch.log" || break
        sleep 0.5
    done
    touch "$scratch/slow"
    wait "$watching" || echo "watch: exit $?"
    cat "$out/watch.log"
    judge watch "$out/watch/report.md" "## 1. Rank 2"
    touch "$scratch/end" && sleep 3 && rm "$scratch/end"
    end_ranks
fi
for job in "absent|1. Rank 3" "size|1. Rank 2" "order|1. Rank 2"; do
    [[ $wanted == *" hang "* ]] || continue
    run=hang-${job%%|*}
    start_ranks "$run" --hang "${job%%|*}"
    wait_for_step "$run" 40
    sleep 15 # longer than the pauses of a job that starts
    code=0
    begin=$(date +%s%N)
    "$rankscope" hang --run "$run" -q -o "$out/$run" || code=$?
    echo "asked and judged in $((($(date +%s%N) - begin) / 1000000)) ms, exit $code"
    judge "$run" "$out/$run/hang.txt" "${job#*|}"
    end_ranks
done
[ "$failures" = 0 ] || exit 1
echo "nccl_one_gpu: all as planted"
