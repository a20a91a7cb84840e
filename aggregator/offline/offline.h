/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recordings that lie on this machine, read by several threads, as summaries for `deliver`: what `analyse` does before the join.
 */
#ifndef RS_OFFLINE_H
#define RS_OFFLINE_H

#include "aggregator/deliver/deliver.h"
#include "collector/source/discover.h"

#include <stdatomic.h>

enum { RS_OFFLINE_JOBS_MAX = 256 };

struct rs_offline_progress {
    size_t files, files_done;
    uint64_t bytes, events;
    rs_dur elapsed;
    bool is_over; /* the last call */
};

struct rs_offline_options {
    const char *const *paths; /* files, or folders that are searched */
    size_t path_count;
    struct rs_discover_options discover;
    size_t
        jobs; /* threads, 1 .. RS_OFFLINE_JOBS_MAX; no more than there are recordings are started */
    const atomic_int *must_stop; /* not 0: RS_CANCELLED soon; may be NULL, may be set by a signal */
    void (*progress)(void *self,
                     const struct rs_offline_progress *progress); /* on this thread, every
                                                                                200 ms; NULL none */
    void *self;
};

/* Finds, reads, settles whose rank each is, and adds them to `deliver` by rank: summaries, and what could not be read with the
 * reason. RS_NOTFOUND, RS_FORMAT: there is no rank at all; RS_INVALID: whose rank a file is cannot be said; RS_CANCELLED, RS_NOMEM.
 * Returns when every thread has ended. */
RS_MUST_CHECK enum rs_status rs_offline_read(const struct rs_offline_options *options,
                                             struct rs_deliver *deliver, struct rs_err *err);

#endif
