/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Raw events of a capture as spans, for who wants to see them: the work of chosen ranks in a stretch of time (RS_READ_SPANS), or what
 * their host threads did (RS_READ_HOST_SPANS: operators, ranges such as a data loader's, launches, waits for the device); and values of
 * counters (RS_READ_COUNTERS).
 *
 *     open(capture's folder, ranks, from, to) -> next(block of rs_row_span, or rs_row_counter) ... -> close
 *
 * Rows come stream by stream, in the order in which they were recorded. Chunks that lie outside the stretch are not decoded. A
 * stream is read up to its first chunk that cannot be; one whose time base is not known yet has no rows.
 * A handle belongs to one thread at a time.
 */
#ifndef RS_ANALYSIS_SPANS_H
#define RS_ANALYSIS_SPANS_H

#include "aggregator/model/reads.h"
#include "aggregator/store/row_store.h"

struct rs_spans;

/* `read` is one of the three, `filter` a checked one of it; its ranks are copied. `token`: of rs_spans_token_before(), with the same filter;
 * NULL: from the start. RS_NOTFOUND: there is no such capture. RS_AGAIN: more came since the token was made. RS_INVALID: it is
 * none. RS_IO, RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_spans_open(const char *capture_dir, enum rs_read read,
                                           const struct rs_read_filter *filter, const char *token,
                                           struct rs_spans **spans_p, struct rs_err *err);
/* As rs_cursor_next(). */
RS_MUST_CHECK enum rs_status rs_spans_next(struct rs_spans *spans, struct rs_block *block,
                                           struct rs_err *err);
/* As rs_cursor_token_before(). */
void rs_spans_token_before(const struct rs_spans *spans, uint64_t rows, char token[RS_TOKEN_BYTES]);
/* Of NULL is allowed. */
void rs_spans_close(struct rs_spans **spans_p);

#endif
