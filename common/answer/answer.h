/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an aggregator answers, as JSON: the same for `--json` of the command line and for the HTTP API.
 *
 * Every document is one object with "schema_version". Unknown is null, never 0; times are nanoseconds since the Unix epoch,
 * durations nanoseconds, and their names end in _ns. With `indent` 0 everything stands on one line. Nothing ends the line.
 * Messages are lent for the call. What memory fails is in buf->failed. Any thread.
 */
#ifndef RS_ANSWER_H
#define RS_ANSWER_H

#include "common/base/buf.h"
#include "common/base/counters.h"
#include "proto/rankscope.pb-c.h"

/* {"schema_version": 1, "id": ..., "ranks": [...], "findings": ..., "request": ...} */
void rs_answer_capture(const Rankscope__CaptureInfo *info, unsigned indent, struct rs_buf *buf);
/* {"schema_version": 1, "away": "...", "captures": [...]}; `away` is why those of other aggregators are not among them, and left out where it
 * is "". */
void rs_answer_captures(const Rankscope__CaptureInfo *const *captures, size_t count,
                        const char *away, unsigned indent, struct rs_buf *buf);
/* {"schema_version": 1, "ranks": [...]} */
void rs_answer_ranks(const Rankscope__RankState *const *ranks, size_t count, unsigned indent,
                     struct rs_buf *buf);
/* {"schema_version": 1, "daemons": [...]} */
void rs_answer_counters(const struct rs_counter_set *sets, size_t count, unsigned indent,
                        struct rs_buf *buf);

/* {"schema_version": 1, "away": null, "now_ns": ..., "aggregators": [...]} */
void rs_answer_aggregators(const Rankscope__AggregatorTable *table, unsigned indent,
                           struct rs_buf *buf);

/* By run, rank and incarnation. */
void rs_answer_sort_ranks(Rankscope__RankState **ranks, size_t count);
/* The name of the rank's adapter; an aggregator of minor version 2 told its number alone. */
const char *rs_answer_adapter(const Rankscope__RankState *rank);

#endif
