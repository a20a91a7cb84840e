/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One trace that a told rank has written: read, packed into the spool, and removed.
 *
 * It is removed only if nothing of it is lost by that: it was read to its end and packed losslessly. A damaged one
 * stays where it is, and its path is reported.
 */
#ifndef RS_AGENT_COLLECT_TRACE_H
#define RS_AGENT_COLLECT_TRACE_H

#include "collector/agent/host_samples.h"
#include "collector/spool/spool.h"
#include "common/base/time.h"

#include <stdatomic.h>

/* Filled by its owner, who keeps it alive until rs_trace_take() returned. */
struct rs_trace_task {
    struct rs_spool *spool;
    struct rs_spool_source source; /* texts lent */
    const char *path;
    uint32_t rank;
    int32_t world;
    uint32_t wanted_steps; /* iterations that were asked for; 0: a duration */
    rs_dur age_ns;         /* of its process; 0 unknown */
    /* Of its first chunk, from rs_trace_first_seq(): who reads the file again with the same number puts the same chunks,
     * and those that the spool has fall through. 0: the spool numbers them. */
    rs_seq first_seq;
    /* Those of the time that was recorded become rows behind the trace's; NULL: none. Who reads again has the same ones. */
    struct rs_host_samples *samples;
    const atomic_bool
        *must_stop; /* ends with RS_CANCELLED; the stream stays open, to be gone on with */
    /* Everything but the last chunk is in the spool; what is found stands below. `text` says why it is not whole, ""
     * when it is. On rs_trace_take()'s thread. */
    void (*before_end)(void *self, const char *text);
    /* All of it is in the spool, and the file is about to be removed; not called when it stays. */
    void (*on_packed)(void *self);
    void *self;

    /* found */
    rs_ns window_start_ns, window_end_ns; /* on the rank's clock, Unix ns */
    int64_t optimizer_steps;              /* of its most frequent optimizer */
    int64_t counted_steps;                /* of all: what the profiler counts as iterations */
    int64_t events;                       /* that last */
    bool has_backward;                    /* operators of a backward pass are among them */
    int64_t bytes;                        /* of the file */
};

/* The number that the first chunk of this trace gets. RS_LIMIT, RS_IO, RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_trace_first_seq(const struct rs_trace_task *task, rs_seq *seq_p,
                                                struct rs_err *err);

/* Reads it for what is found in it, and removes it: nothing is put into the spool; of `task` path counts, and the found ones
 * are filled. RS_IO, RS_NOMEM, RS_FORMAT, RS_REFUSED (no regular file); it stays then. Any thread. */
RS_MUST_CHECK enum rs_status rs_trace_measure(struct rs_trace_task *task, struct rs_err *err);

/* The time of a result's last file, as when its profiler had written all; 0: it cannot be that (files belong to users, who set any
 * time). Any thread. */
rs_ns rs_trace_written_ns(rs_ns changed_ns);

/* RS_OK: it is in the spool. Else it is not, and the file is still there. Any thread. */
RS_MUST_CHECK enum rs_status rs_trace_take(struct rs_trace_task *task, struct rs_err *err);

#endif
