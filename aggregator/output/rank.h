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

#include "aggregator/analysis/analysis.h"

/* What one operation of the rank is called. Lent to the visitor. */
struct rs_output_rank_op {
    size_t op;         /* index in the analysis */
    uint32_t own;      /* index into the summary's ops */
    const char *name;  /* hcom_allReduce__586_0_1 */
    const char *group; /* as in every table; "" unknown */
    const char *hash;  /* of the group, decimal */
};
typedef enum rs_status rs_output_rank_op_fn(void *self, const struct rs_output_rank_op *op,
                                            struct rs_err *err);
/* All operations of summary `summary` that the analysis has. RS_NOMEM, or what visit answers. */
RS_MUST_CHECK enum rs_status rs_output_rank_ops(const struct rs_analysis *analysis, size_t summary,
                                                rs_output_rank_op_fn *visit, void *self,
                                                struct rs_err *err);

/* Into `dir`, which exists. The two JSON files only when there are operations. RS_IO, RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_output_rank_write(const struct rs_analysis *analysis,
                                                  size_t summary, const char *dir,
                                                  struct rs_err *err);

#endif
