/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same answers (answer.h) as lines for people, as the command line prints them. Messages are lent for the call. What memory fails is in
 * buf->failed. Any thread.
 */
#ifndef RS_ANSWER_TEXT_H
#define RS_ANSWER_TEXT_H

#include "common/base/buf.h"
#include "common/base/counters.h"
#include "proto/rankscope.pb-c.h"

/* Facts and ranks of one, a line each. */
void rs_answer_capture_text(const Rankscope__CaptureInfo *info, struct rs_buf *buf);
/* A table of many. */
void rs_answer_captures_text(const Rankscope__CaptureList *list, struct rs_buf *buf);
/* "ID recording from step 12, 3 armed, ..." */
void rs_answer_capture_line(const Rankscope__CaptureInfo *info, char *line, size_t bytes);
/* Hands on a line for each rank that did not make it, or for as many as ended alike, and what is to be known of those that did. */
void rs_answer_capture_ends(const Rankscope__CaptureInfo *info,
                            void (*print)(void *self, const char *line), void *self);

/* A table of ranks, of at most `row_max` rows (0: all); `is_chosen`: an expression said which. */
void rs_answer_ranks_text(const Rankscope__RankState *const *ranks, size_t count, bool is_chosen,
                          size_t row_max, struct rs_buf *buf);
/* A table of aggregators; "*" marks the one that answers. */
void rs_answer_aggregators_text(const Rankscope__AggregatorTable *table, struct rs_buf *buf);
/* What one daemon counts. */
void rs_answer_counters_text(const struct rs_counter_set *set, struct rs_buf *buf);

#endif
