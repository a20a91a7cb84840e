/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of one unit on their way into a store: shared by rows.c, op_rows.c, vendor_rows.c and diagnosis_rows.c.
 *
 *     rows_of(table) -> rows_add() ... -> rows_flush()      texts by rs_block_text(&filler->block, ...)
 */
#ifndef RS_ANALYSIS_ROWS_PRIV_H
#define RS_ANALYSIS_ROWS_PRIV_H

#include "aggregator/analysis/rows.h"

struct rows_filler {
    const struct rs_analysis *analysis;
    int64_t capture;
    struct rs_row_store *store;
    struct rs_writer *writer;
    struct rs_block block; /* rows that wait; of one table */
    int64_t *group_ids;    /* by index of group */
    const struct rs_rows_more *more;
    struct rs_err *err;
};

/* From here on rows of this table. */
void rows_of(struct rows_filler *filler, const struct rs_table *table);
/* A row, all absent; NULL: what waited could not be put, or no memory: rows_failed() has the status. */
void *rows_add(struct rows_filler *filler);
enum rs_status rows_failed(const struct rows_filler *filler);
RS_MUST_CHECK enum rs_status rows_flush(struct rows_filler *filler);

static inline int64_t rows_not_negative(int64_t value)
{
    return value >= 0 ? value : RS_NULL;
}

/* What the rank's own profiler wrote of its communication. */
RS_MUST_CHECK enum rs_status rows_put_vendor_comms(struct rows_filler *filler,
                                                   const struct rs_summary *summary);

/* An operation of a step, with the key it gets. */
struct numbered {
    int64_t group_id, op_no;
    size_t op;
};
/* op_rows.c: op_packet, op_link of the operations of a step, in the order of their keys. */
RS_MUST_CHECK enum rs_status rows_put_packets(struct rows_filler *filler,
                                              const struct numbered *ops, size_t count);
RS_MUST_CHECK enum rs_status rows_put_op_links(struct rows_filler *filler,
                                               const struct numbered *ops, size_t count);

/* step_table.c */
RS_MUST_CHECK enum rs_status rows_put_job_steps(struct rows_filler *filler);

/* finding, finding_place, evidence. */
RS_MUST_CHECK enum rs_status rows_put_findings(struct rows_filler *filler);
/* Nothing without a diagnosis. */
RS_MUST_CHECK enum rs_status rows_put_diagnosis(struct rows_filler *filler);

#endif
