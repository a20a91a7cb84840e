#!/bin/sh
# Slurm's Epilog, on every node of a job, as root: when the last job of the node has gone, its collector sends what it has and ends.
# What the aggregator has not acknowledged by then stays in the spool, for the next start. See prolog.sh.
settings=${RANKSCOPE_SLURM_ENV:-/etc/rankscope/slurm.env}
[ -r "$settings" ] && . "$settings"
node=${SLURMD_NODENAME:-$(hostname -s)}
state=${RANKSCOPE_SLURM_STATE:-/run/rankscope-slurm}/$node
log=${RANKSCOPE_SLURM_LOG:-/var/log/rankscope-collector.log}

[ -d "$state/jobs" ] || exit 0
(
    flock -w 10 9 || exit 0
    rm -f "$state/jobs/$SLURM_JOB_ID"
    if [ -z "$(ls -A "$state/jobs")" ] && [ -r "$state/pid" ]; then
        kill "$(cat "$state/pid")" 2>/dev/null
        rm -f "$state/pid"
    fi
) 9>"$state/lock" 2>>"$log"
exit 0
