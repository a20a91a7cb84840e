/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who a process is: its start time, its parents, and which rank its launcher made it.
 *
 * The rank comes from the environment at exec (/proc/PID/environ), in the precedence that works with
 * every launcher: RANK (with WORLD_SIZE), Open MPI, PMI, Horovod, RANK_ID, MS_NODE_ID, and SLURM_PROCID last, because with
 * `srun torchrun` every worker inherits the agent's. Values set later from inside are invisible here.
 *
 * A data-loader child inherits its parent's RANK and must not count: see rs_process_rank_holder().
 * A launcher (torchrun's own process) carries none and is no rank. Any thread.
 */
#ifndef RS_TRIGGER_PROCESS_H
#define RS_TRIGGER_PROCESS_H

#include "common/base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { RS_PROCESS_TEXT_BYTES = 128 };

struct rs_process {
    pid_t pid;
    pid_t parent;
    uid_t uid; /* who started it: its real user */
    uint64_t
        start_ticks;  /* /proc/PID/stat field 22: with the pid, an identity that is never reused */
    bool has_environ; /* false: not ours to read; the rank is unknown then */
    int32_t rank;     /* -1: none of the variables is there */
    int32_t local_rank;        /* -1 unknown */
    int32_t world_size;        /* -1 unknown */
    const char *rank_variable; /* which one said it; a static string, NULL none */
    char run
        [RS_PROCESS_TEXT_BYTES]; /* "" unknown: RANKSCOPE_RUN, TORCHELASTIC_RUN_ID, SLURM_JOB_ID, MASTER_ADDR:PORT */
    char command[RS_PROCESS_TEXT_BYTES];    /* first words of the command line */
    bool uses_daemon;                       /* KINETO_USE_DAEMON is set and not empty */
    char socket_dir[RS_PROCESS_TEXT_BYTES]; /* KINETO_IPC_SOCKET_DIR, "" unset */
    char trace_dir[RS_PROCESS_TEXT_BYTES];  /* KINETO_ONDEMAND_TRACE_DIR, "" unset */
    bool dumps_data; /* MINDSPORE_DUMP_CONFIG names a file: results of operators are written out */
};

/* RS_NOTFOUND: no such process. What may not be read stays unknown. */
RS_MUST_CHECK enum rs_status rs_process_read(pid_t pid, struct rs_process *process_p,
                                             struct rs_err *err);

/* The same from an environment block (NUL-separated) that the caller has. Fills only what comes from it. */
void rs_process_from_environ(const char *environ_bytes, size_t length, struct rs_process *process);

/* The nearest ancestor that carries the same rank and satisfies `is_candidate` (it is known to profile itself);
 * 0 when there is none, and then the rank is the process's own. A wrapper shell carries the
 * variables too, but never registers: so only registered processes are asked for. */
typedef bool rs_process_candidate_fn(void *self, pid_t pid, uint64_t start_ticks);
pid_t rs_process_rank_holder(const struct rs_process *process,
                             rs_process_candidate_fn *is_candidate, void *self);

/* Gives a folder to its user, alone (0700): the folder itself, whatever a link in its place would lead to. RS_REFUSED: it is
 * none; RS_IO. */
RS_MUST_CHECK enum rs_status
rs_process_give_folder(const char *path, const struct rs_process *process, struct rs_err *err);

/* RS_OK: the same process (it started when it did), and it lives. RS_NOTFOUND: it has ended (a zombie has, too), on
 * the kernel's word. Else it cannot be seen for the moment, which says nothing of it. */
RS_MUST_CHECK enum rs_status rs_process_look(pid_t pid, uint64_t start_ticks);
/* Bytes that programs of this host can have, as the kernel thinks; 0 unknown. */
int64_t rs_process_free_memory(void);
/* Bytes of its memory that are resident; -1 not known. */
int64_t rs_process_memory(pid_t pid);
/* Not known to have ended. For whoever asks often: process_life.h. */
bool rs_process_is_alive(pid_t pid, uint64_t start_ticks);
/* Its wait(2) status while nobody has waited for it; -1 not known (it lives, it is gone, or we may not see it). */
int rs_process_zombie_status(pid_t pid, uint64_t start_ticks);

#endif
