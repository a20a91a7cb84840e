#!/bin/sh
# Slurm's Prolog, on every node of a job, as root: a collector runs while jobs are there. Where the service rankscope-collector is
# enabled, leave this and the epilog out: it serves all jobs already.
#
#     slurm.conf: Prolog=/usr/share/rankscope/slurm/prolog.sh  Epilog=/usr/share/rankscope/slurm/epilog.sh
#                 TaskProlog=/usr/share/rankscope/slurm/task-prolog.sh
#
# A job is never held up or failed for its profiler: whatever goes wrong here is written to the log, and the script ends with 0.
settings=${RANKSCOPE_SLURM_ENV:-/etc/rankscope/slurm.env}
[ -r "$settings" ] && . "$settings"
node=${SLURMD_NODENAME:-$(hostname -s)}
state=${RANKSCOPE_SLURM_STATE:-/run/rankscope-slurm}/$node
log=${RANKSCOPE_SLURM_LOG:-/var/log/rankscope-collector.log}
RANKSCOPE_RUNTIME_DIR=${RANKSCOPE_RUNTIME_DIR:-/run/rankscope}
export RANKSCOPE_RUNTIME_DIR SLURMD_NODENAME

mkdir -p "$state/jobs" 2>>"$log" || exit 0
chmod 0755 "$state"
(
    flock -w 10 9 || exit 0
    : >"$state/jobs/$SLURM_JOB_ID"
    if [ -r "$state/pid" ] && kill -0 "$(cat "$state/pid")" 2>/dev/null; then
        exit 0
    fi
    rm -f "$state/pid"
    # A session of its own: slurmd ends what is left of the prolog's, so this waits until it has one.
    # shellcheck disable=SC2086,SC2016
    setsid sh -c 'echo $$ >"$0"; exec "$@"' "$state/pid" "${RANKSCOPE:-rankscope}" collector $RANKSCOPE_SLURM_COLLECTOR \
        </dev/null >>"$log" 2>&1 9>&- &
    tries=0
    while [ ! -s "$state/pid" ] && [ "$tries" -lt 50 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
) 9>"$state/lock" 2>>"$log"
exit 0
