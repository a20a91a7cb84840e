/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The environment that makes the ranks of a job attachable: what `rankscope run` sets where the user has not. Launchers (torchrun, mpirun,
 * srun, plain python) hand it on to the ranks they start on this node.
 */
#ifndef RS_TRIGGER_JOB_ENV_H
#define RS_TRIGGER_JOB_ENV_H

#include <limits.h>
#include <stddef.h>

enum { RS_JOB_VARIABLES = 9, RS_JOB_PREFIX_BYTES = 128 };

struct rs_job_variable {
    const char *name;
    const char *value; /* NULL: not asked for */
    const char *why;
};

/* Lends from itself: it stays where it is. */
struct rs_job_env {
    struct rs_job_variable variables[RS_JOB_VARIABLES];
    char dump_prefix
        [RS_JOB_PREFIX_BYTES]; /* of files that exist on every node: the rank goes behind it */
    char pipe_prefix[RS_JOB_PREFIX_BYTES];
    char kineto_config[PATH_MAX];
};

/* Of a run's name, a folder for the profiler's socket, one for traces; NULL: not asked for. Lends all three. */
void rs_job_env_make(struct rs_job_env *env, const char *run, const char *socket_dir,
                     const char *trace_dir);

#endif
