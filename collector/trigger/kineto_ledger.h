/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a collector has in hand with unmodified PyTorch ranks, written down beside the spool, so that the next collector
 * goes on with it when this one is killed.
 *
 *     SPOOL/kineto/CAPTURE.RANK.PID.job      one small file per rank of a capture; "key value" lines
 *
 *     ARMED      may be asked for again, or be refused: nobody has it yet
 *     DELIVERED  the process has the request: it records, whoever is there to see it
 *     READING    its trace goes into the spool, from first_seq on: read again, the chunks that are there fall through
 *     PACKED     all of it is in the spool: only the file is left to remove
 *
 * A file appears whole (rename) before the step it stands for: DELIVERED before the request is sent. It is not
 * fsynced: what kills a collector leaves the kernel's pages alone, and what loses these (a crash of the
 * node) ends the ranks too; the boot's id in each file tells that case. So nothing here takes time while a process waits
 * 40 ms for its answer.
 *
 * Pure functions on a folder; one thread per file.
 */
#ifndef RS_TRIGGER_KINETO_LEDGER_H
#define RS_TRIGGER_KINETO_LEDGER_H

#include "common/base/err.h"
#include "common/base/time.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { RS_KINETO_LEDGER_TEXT_BYTES = 257, RS_KINETO_LEDGER_PATH_BYTES = 1100 };

enum rs_kineto_phase {
    RS_KINETO_JOB_ARMED,
    RS_KINETO_JOB_DELIVERED,
    RS_KINETO_JOB_READING,
    RS_KINETO_JOB_PACKED
};

struct rs_kineto_job {
    enum rs_kineto_phase phase;
    bool is_other_boot; /* read back: the node was started again since */
    char capture[65];
    char run[RS_KINETO_LEDGER_TEXT_BYTES], host[RS_KINETO_LEDGER_TEXT_BYTES],
        incarnation[RS_KINETO_LEDGER_TEXT_BYTES];
    uint32_t rank;
    int32_t world;
    pid_t pid;
    uid_t uid;
    uint64_t start_ticks;
    uint32_t steps;
    rs_ns deadline, deliver_from, deliver_until, last_poll; /* Unix */
    rs_dur poll_period;
    /* of the request; what is not delivered is armed with it again */
    int64_t start_time_ms;
    int32_t duration_ms, roundup, warmup;
    uint32_t activities;
    uint32_t host_sys, sample_hz; /* what of the host is sampled; 0 nothing */
    bool sys_io;                  /* its network cards, too */
    bool record_shapes, profile_memory, with_stack, with_flops, with_modules;
    bool is_probe; /* two steps to learn how long one is: its trace is not kept */
    char trace_root[RS_KINETO_LEDGER_TEXT_BYTES * 2];
    char path[RS_KINETO_LEDGER_PATH_BYTES]; /* READING, PACKED: of the trace */
    uint64_t first_seq;                     /* READING: of its first chunk */
};

/* Writes the job's file, new or again. `dir` is made when it is not there. */
RS_MUST_CHECK enum rs_status
rs_kineto_ledger_write(const char *dir, const struct rs_kineto_job *job, struct rs_err *err);
/* And what lies beside it. */
void rs_kineto_ledger_remove(const char *dir, const struct rs_kineto_job *job);
/* The name of a file beside the job's, which goes with it; NULL: no memory (rs_mem_free). */
char *rs_kineto_ledger_beside(const char *dir, const struct rs_kineto_job *job);

/* Calls `each` for every job in the folder; files that are none are named in the log and removed. RS_OK when the folder is
 * not there. */
typedef void rs_kineto_ledger_fn(void *self, const struct rs_kineto_job *job);
RS_MUST_CHECK enum rs_status rs_kineto_ledger_read(const char *dir, rs_kineto_ledger_fn *each,
                                                   void *self, struct rs_err *err);

#endif
