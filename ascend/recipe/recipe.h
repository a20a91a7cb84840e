/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recipes: the tables that users of Ascend clusters run for, made from the ranks' databases.
 *
 *     paths --> ranks (ascend/format) --> map, one rank a time, on threads
 *                                            |  parts, taken in the order of ranks
 *                                            v
 *                                         reduce --> finish --> tables in OUT
 *
 * Names, columns and units of the tables are those of msprof-analyze. With `compat` its values
 * are reproduced, quirks included; without, what is known to be wrong there is put right
 * (docs/notes lists each difference) and tables of our own stand beside: RankscopeSlowRank,
 * RankscopeSlowLink.
 *
 * Inputs are read only. Results go to OUT/cluster_analysis_output: cluster_analysis.db, or
 * with `as_text` a folder of csv files per recipe. A rank that cannot be read is listed in the
 * result and does not stop the others. One run at a time per OUT; any thread.
 */
#ifndef RS_RECIPE_RECIPE_H
#define RS_RECIPE_RECIPE_H

#include "common/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rs_recipe_options {
    const char *out;       /* NULL: the first path */
    const char *rank_list; /* "0,3,5"; NULL or "all": every rank. The order is the reading order */
    const char *base;      /* cluster_time_compare_summary: what to compare with */
    const char *parallel_types; /* computational_op_masking: "dp;tp,ep"; NULL: its own */
    const char *baseline;       /* calibrate_npu_gpu: an SQLite export of Nsight Systems */
    double fuzzy_threshold;     /* calibrate_npu_gpu: names less alike do not match, 0..1 */
    int64_t step_id;            /* -1: all steps */
    int64_t top_num;            /* 0: the recipe's own default */
    int64_t rank_id;            /* communication_bottleneck: whose operations */
    unsigned threads;           /* 0: as many as there are processors */
    bool as_text;
    bool exclude_op_name; /* compute_op_sum */
    bool compat;
};

struct rs_recipe_info {
    const char *name;
    const char *summary;
    const char *tables; /* "A, B" */
};

struct rs_recipe_written {
    char *name; /* table, or file */
    uint64_t rows;
};

/* What is missing or was put aside; `rank` is -1 when it is about no rank. */
struct rs_recipe_problem {
    int64_t rank;
    bool is_missing; /* the result lacks something; else it is only told */
    char *text;
};

struct rs_recipe_result {
    char *out; /* the database or the folder written to */
    struct rs_recipe_written *written;
    size_t written_count, written_capacity;
    struct rs_recipe_problem *problems;
    size_t problem_count, problem_capacity;
    size_t rank_count; /* ranks whose data are in the result */
};

size_t rs_recipe_count(void);
const struct rs_recipe_info *rs_recipe_at(size_t index);
const struct rs_recipe_info *rs_recipe_find(const char *name); /* NULL: there is none */

/* RS_OK: complete. RS_PARTIAL: written, and result_p->problems says what is missing. RS_INVALID,
 * RS_NOTFOUND (no recipe of that name, no path, no usable rank), RS_FORMAT, RS_IO, RS_NOMEM: nothing
 * was written; result_p holds the problems all the same. Finish the result in every case. */
RS_MUST_CHECK enum rs_status rs_recipe_run(const char *name, const char *const *paths, size_t count,
                                           const struct rs_recipe_options *options,
                                           struct rs_recipe_result *result_p, struct rs_err *err);
void rs_recipe_result_fini(struct rs_recipe_result *result);

#endif
