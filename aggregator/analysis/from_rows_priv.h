/* SPDX-License-Identifier: Apache-2.0 */
/* An analysis while it is read from rows: shared by from_rows.c and diagnosis_read.c. */
#ifndef RS_ANALYSIS_FROM_ROWS_PRIV_H
#define RS_ANALYSIS_FROM_ROWS_PRIV_H

#include "aggregator/analysis/from_rows.h"

struct rank_facts {
    bool takes_part;
    int64_t ops_last;
    rs_dur caused, own;
};
struct group_id {
    int64_t id;
    uint32_t group; /* RS_NO_GROUP: stands for operations whose group is unknown */
};
struct op_key {
    int64_t step, group_id, op_no;
};

struct rows_reader {
    struct rs_row_store *store;
    int64_t capture;
    struct rs_err *err;
    bool has_capture, is_triggered;
    char clock[16]; /* as in the table capture */
    struct rs_summary *summaries;
    struct rank_facts *facts; /* of the same index */
    size_t summary_count, summary_capacity, fact_capacity;
    struct rs_analysis *out;
    struct group_id *group_ids; /* ascending */
    size_t group_id_count, group_id_capacity;
    struct op_key *op_keys; /* by operation */
    size_t op_key_capacity, at_op;
    size_t group_capacity, link_capacity, note_capacity, op_capacity, figure_capacity, row_capacity;
    struct findings_read *list; /* of diagnosis_read.c */
    size_t cause_capacity, unjudged_capacity;
};

typedef enum rs_status rows_take_fn(struct rows_reader *reader, const void *row);
/* Every row of a whole table, in the order of its key; stops at the first failure. */
RS_MUST_CHECK enum rs_status rows_read(struct rows_reader *reader, enum rs_read read,
                                       rows_take_fn *take);
/* False: no group has that id. */
bool rows_group_index(const struct rows_reader *reader, int64_t group_id, uint32_t *group_p);

/* Whether sums and differences of a report can be made of it: a column that is never absent may hold anything. */
static inline bool rows_is_length(int64_t value)
{
    return value > -(INT64_C(1) << 60) && value < INT64_C(1) << 60;
}

/* Findings and what else is said of the job, into reader->out; groups are there. */
RS_MUST_CHECK enum rs_status rows_read_diagnosis(struct rows_reader *reader);

#endif
