/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rank's events -> its summary. Exact in ns; memory grows with device work, launches and
 * communication, not with rows; knows nothing of files or wires.
 *
 * new -> add (each batch, in the source's order) -> finish -> free. One thread at a time.
 *                  ^ take_part, as often as one likes: what can be told already
 */
#ifndef RS_REDUCE_REDUCE_H
#define RS_REDUCE_REDUCE_H

#include "common/reduce/parts.h"

struct rs_reduce;

/* Keeps pointers to the stream's tables until rs_reduce_finish(). */
RS_MUST_CHECK enum rs_status rs_reduce_new(const struct rs_strtab *strings,
                                           const struct rs_lanes *lanes,
                                           struct rs_reduce **reduce_p);
void rs_reduce_free(struct rs_reduce **reduce_p);

/* RS_NOMEM, RS_LIMIT. The batch is only read. */
RS_MUST_CHECK enum rs_status rs_reduce_add(struct rs_reduce *reduce, const struct rs_batch *batch,
                                           struct rs_err *err);

/*
 * The steps that have ended since the part before, with what began in them: of a native rank, whose steps come one after
 * another, all that are followed by another one. `info` as for rs_reduce_finish(), as far as it is known; rank and host
 * must be right. Work on the order of the rows of these steps and their neighbours.
 *
 * What is added later may still change a part (parts.h); rs_reduce_finish() knows all rows, and cutting its summary at the same
 * instants tells which. So rows are kept until then.
 *
 * RS_END: nothing new can be told. RS_NOMEM, RS_LIMIT.
 */
RS_MUST_CHECK enum rs_status rs_reduce_take_part(struct rs_reduce *reduce,
                                                 const struct rs_trace_info *info,
                                                 struct rs_part_head *head_p,
                                                 struct rs_summary *part_p, struct rs_err *err);

/* The summary of all that was added. `info` is copied into it, its strings are ids of the stream's table.
 * Afterwards only rs_reduce_free() is allowed. */
RS_MUST_CHECK enum rs_status rs_reduce_finish(struct rs_reduce *reduce,
                                              const struct rs_trace_info *info,
                                              struct rs_summary *summary_p, struct rs_err *err);

#endif
