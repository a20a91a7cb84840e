/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rank summaries by hand, for tests of what joins them. Uses common/base only; allocation failure aborts
 * the test program.
 */
#ifndef RS_TESTS_SUPPORT_MAKE_SUMMARY_H
#define RS_TESTS_SUPPORT_MAKE_SUMMARY_H

#include "common/reduce/summary.h"

/* An empty summary of a rank that has a time base. `host` NULL: unknown. */
void make_summary_init(struct rs_summary *summary, int32_t rank, const char *host);
void make_summary_fini(struct rs_summary *summary);

rs_str make_text(struct rs_summary *summary, const char *text);

/* A local group; name NULL: nameless; ranks NULL: unknown. Returns its index. */
uint32_t make_group(struct rs_summary *summary, const char *name, const int32_t *ranks,
                    size_t count);

/* A new operation with every member at its "unknown", call order as added. Valid until the next one. */
struct rs_comm_op *make_op(struct rs_summary *summary, enum rs_op_type type, rs_ns start,
                           rs_ns end);

/* A hop of the newest operation. */
void make_task(struct rs_summary *summary, const struct rs_comm_task *task);

/* A complete step on the CPU, its window [start, end), all of it idle inside. Valid until the next one. */
struct rs_step_row *make_step(struct rs_summary *summary, int64_t step, rs_ns start, rs_ns end);

/* A small generator of our own, so that tests are the same everywhere. */
uint64_t make_random(uint64_t *state);                                 /* never with state 0 */
int64_t make_random_range(uint64_t *state, int64_t low, int64_t high); /* both included */

#endif
