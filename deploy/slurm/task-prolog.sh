#!/bin/sh
# Slurm's TaskProlog, before every task, as its user: what it prints as "export NAME=value" is set in the task's environment, so
# that PyTorch ranks can be captured without a word in the job's script. What the user has set stays as it is.
settings=${RANKSCOPE_SLURM_ENV:-/etc/rankscope/slurm.env}
[ -r "$settings" ] && . "$settings"
[ -n "$RANKSCOPE_RUNTIME_DIR" ] && echo "export RANKSCOPE_RUNTIME_DIR=$RANKSCOPE_RUNTIME_DIR"
# "export NAME='value'", as a shell wants it; Slurm takes the value as it stands.
"${RANKSCOPE:-rankscope}" run --print-env 2>/dev/null | sed -n "s/^export \([A-Z_]*\)='\([^']*\)'.*/export \1=\2/p"
exit 0
