/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recordings of single ranks, looked into as `rankscope trace` is asked to: read one by one, written as files, or summed up.
 *
 *     words --rs_inspect_check()--> options that hold --rs_inspect()--> files, a line for each; stacks and operators without a file: `text`
 *
 * Files appear whole or not at all. One thread.
 */
#ifndef RS_TRACE_INSPECT_H
#define RS_TRACE_INSPECT_H

#include "aggregator/offline/recordings.h"
#include "common/base/buf.h"

/* What the user said; NULL, 0 and false: nothing. Lent. */
struct rs_inspect_options {
    const char *what;  /* operators, stacks, memory, chrome */
    const char *out;   /* a file's name, {rank} in it; or a folder */
    const char *ranks; /* 0-3,8 */
    const char *sort_by, *metric, *device;
    const char *const *names; /* operators: these alone */
    size_t name_count;
    int64_t row_limit;    /* of each rank; -1: all; 0: 30, of JSON and CSV all */
    int64_t stack_frames; /* 0..64 */
    int64_t limit_bytes;  /* of a Chrome trace */
    bool by_shapes, as_json, as_csv;
    void (*note)(void *self, const char *line); /* what is missing */
    void *note_self;
};

/* Whether they belong together, before anything is read. RS_INVALID. */
RS_MUST_CHECK enum rs_status rs_inspect_check(const struct rs_inspect_options *options,
                                              struct rs_err *err);
/* Of `recordings` those that are meant, by rank. Options were checked. `text` is what goes to stdout: the rows, or which files were
 * written. RS_PARTIAL: something is missing, which was noted. RS_NOTFOUND, RS_INVALID, RS_IO, RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_inspect(struct rs_recordings *recordings,
                                        const struct rs_inspect_options *options,
                                        struct rs_buf *text, struct rs_err *err);

#endif
