/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rank of a job in the shape that its own Ascend profiler would have written: the deliverables that need the
 * other ranks (who waited for whom), with the official names. ascend/export writes the rest.
 *
 *     step_trace_time.csv  analysis.db  communication.json  communication_matrix.json
 *
 * Steps, names and devices are as the vendor has them: no step where there are none, hcom_* names,
 * the CPU of a rank without a device is its device 0, links in ranks of the group. Unknown stays null.
 */
#ifndef RS_OUTPUT_RANK_H
#define RS_OUTPUT_RANK_H

#include "aggregator/store/row_store.h"

/* What one operation of the rank is called. Lent to the visitor. */
struct rs_output_rank_op {
    int64_t op_id;     /* the operation's number in the job */
    int64_t member_no; /* place within it */
    const char *name;  /* hcom_allReduce__586_0_1 */
    const char *group; /* as in every table; "" unknown */
    const char *hash;  /* of the group, decimal */
};
typedef enum rs_status rs_output_rank_op_fn(void *self, const struct rs_output_rank_op *op,
                                            struct rs_err *err);
/* All operations of the rank that the rows have. RS_IO, RS_NOMEM, or what visit answers. */
RS_MUST_CHECK enum rs_status rs_output_rank_ops(struct rs_row_store *rows, int32_t rank,
                                                rs_output_rank_op_fn *visit, void *self,
                                                struct rs_err *err);

/* Into `dir`, which exists. The two JSON files only with `has_ops`. RS_IO, RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_output_rank_write(struct rs_row_store *rows, int32_t rank,
                                                  bool has_ops, const char *dir,
                                                  struct rs_err *err);

#endif
