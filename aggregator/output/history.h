/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures of many runs, one after the other, as rows of a history view (aggregator/model/history.h).
 *
 *     rows of capture 1 --+                 captures, ranks, findings: rows of each as it comes
 *     rows of capture 2 --+--> rs_history --+
 *     ...                 --+               hosts: all of them at the end
 *
 * A finding *names* a rank when it is worth fixing, is not weak, is neither an imbalance nor jitter, and all that it is about are
 * ranks, links and hosts: a slow stage or group says nothing about one of its members. Any other finding that would name it but is
 * weak or not worth fixing *hints* at it. A host is named with any rank on it, and with either end of a link: which of the two is to
 * blame shows over many runs.
 *
 * One thread. Memory is that of one capture's ranks and findings, and of one entry per pair of host and run.
 */
#ifndef RS_OUTPUT_HISTORY_H
#define RS_OUTPUT_HISTORY_H

#include "aggregator/model/history.h"
#include "aggregator/store/row_store.h"

struct rs_history;

/* Nobody: all. Of hosts the ranks must be nobody. */
struct rs_history_filter {
    const char *const *hosts;
    size_t host_count;
    const uint32_t *ranks;
    size_t rank_count;
};

/* What the catalogue says of a capture; texts are lent for the call. */
struct rs_history_capture {
    const char *id, *run, *source, *state; /* run "": unknown */
    const char *without; /* why it has no rows: "archived", ...; lent; NULL: it has */
    int64_t created_ns;
};

/* Copies the filter. RS_INVALID: the view has no such filter. RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_history_new(enum rs_history_view view,
                                            const struct rs_history_filter *filter,
                                            struct rs_history **history_p, struct rs_err *err);
/* Replaces what `block` held by the rows of this capture, any number; of hosts: none. `rows` NULL: not known. Captures come in the
 * order of time. RS_FORMAT, RS_IO, RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_history_add(struct rs_history *history,
                                            const struct rs_history_capture *capture,
                                            struct rs_row_store *rows, struct rs_block *block,
                                            struct rs_err *err);
/* The same of what is known when all have come. */
RS_MUST_CHECK enum rs_status rs_history_end(struct rs_history *history, struct rs_block *block,
                                            struct rs_err *err);
void rs_history_free(struct rs_history **history_p); /* of NULL is allowed */

/* ---- for people: a block of rows at a time ---- */
struct rs_history_told {
    size_t quiet, loud; /* hosts that nobody named; others */
    bool has_begun;     /* the table of captures has its head */
};
/* "host n3 was named in 7 of 9 runs ..."; those that nobody named, or hinted at, are only counted. */
void rs_history_hosts_text(const struct rs_block *block, struct rs_history_told *told,
                           struct rs_buf *buf);
/* A line a capture. */
void rs_history_captures_text(const struct rs_block *block, struct rs_history_told *told,
                              struct rs_buf *buf);

#endif
