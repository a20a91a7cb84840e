/* SPDX-License-Identifier: Apache-2.0 */
/* A job of a few ranks, its analysis, and short ways to look at it. */
#ifndef RS_TESTS_JOIN_RIG_H
#define RS_TESTS_JOIN_RIG_H

#include "aggregator/analysis/analysis.h"
#include "tests/support/make_summary.h"
#include "tests/support/rs_test.h"

#include <stdlib.h>

enum { RIG_MAX = 16 };

struct rig {
    struct rs_summary ranks[RIG_MAX];
    const struct rs_summary *lent[RIG_MAX];
    size_t count;
    struct rs_analysis *analysis;
    bool keeps_spans; /* a diagnosis is made of them once more */
};

static inline struct rs_summary *rig_rank(struct rig *rig, int32_t rank, const char *host)
{
    struct rs_summary *summary = &rig->ranks[rig->count];
    make_summary_init(summary, rank, host);
    rig->lent[rig->count++] = summary;
    return summary;
}

/* Whoever reads them again, though they were said to be read, finds other ones. */
static inline void rig_spoil_spans(void *self, const struct rs_summary *summary)
{
    struct rig *rig = self;
    struct rs_summary *own = &rig->ranks[summary - rig->ranks];
    for (size_t i = 0; i < own->span_count; i++) {
        own->spans[i] = (struct rs_span_row){.step = -7, .signature = 7, .top_name = RS_STR_NONE};
    }
}

static inline struct rs_analysis *rig_run(struct rig *rig, bool assume_common_clock)
{
    const struct rs_analysis_options options = {.assume_common_clock = assume_common_clock,
                                                .spans_read =
                                                    rig->keeps_spans ? NULL : rig_spoil_spans,
                                                .self = rig};
    struct rs_err err = {0};
    assert_ok(rs_analysis_new(rig->lent, rig->count, &options, &rig->analysis, &err));
    return rig->analysis;
}

static inline void rig_fini(struct rig *rig)
{
    rs_analysis_free(&rig->analysis);
    for (size_t i = 0; i < rig->count; i++) {
        make_summary_fini(&rig->ranks[i]);
    }
}

static inline const struct rs_comm_op *rig_own(const struct rig *rig, const struct rs_job_row *row)
{
    return &rig->analysis->summaries[row->summary]->ops[row->op_index];
}

/* The row of a rank in an operation; fails the test when it has none. */
static inline const struct rs_job_row *rig_row(const struct rig *rig, size_t op, int32_t rank)
{
    const struct rs_job_op *own = &rig->analysis->ops[op];
    for (size_t r = own->row_first; r < own->row_first + own->row_count; r++) {
        if (rig->analysis->rows[r].rank == rank) {
            return &rig->analysis->rows[r];
        }
    }
    fail_msg("operation %zu has no row of rank %d", op, (int)rank);
    abort();
}

static inline size_t rig_matched(const struct rs_analysis *analysis)
{
    size_t count = 0;
    for (size_t i = 0; i < analysis->op_count; i++) {
        count += analysis->ops[i].is_matched;
    }
    return count;
}

static inline const char *rig_group(const struct rs_analysis *analysis, size_t op)
{
    const uint32_t group = analysis->ops[op].group;
    return group == RS_NO_GROUP ? "" : analysis->groups[group].text;
}

#endif
