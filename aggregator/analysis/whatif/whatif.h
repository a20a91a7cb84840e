/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a training job would gain if its stragglers were as fast as the others: from a table of operations.
 *
 *   ops.csv --rs_whatif_read()--> rs_whatif_ops --rs_whatif_new()--> slowdown, shares, the culprit or why there is none
 *
 * Method: Lin et al., Understanding Stragglers in Large Model Training Using What-if Analysis (OSDI 2025). The steps are played
 * again from the operations' own times and their dependences; then again with the operations of somebody put to the ideal
 * (the mean, or for transfers the median, of their type over all workers and steps). A worker is one place of the pipeline in
 * one data parallel copy: (dp_rank, stage). The file is described in docs/ops-csv.md.
 *
 * Times are ns; the starts of all workers in one step are taken to be of one clock. One thread; no state outside the structs.
 */
#ifndef RS_ANALYSIS_WHATIF_H
#define RS_ANALYSIS_WHATIF_H

#include "common/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum rs_whatif_type {
#define X(constant, name, is_mean) RS_WHATIF_##constant,
#include "aggregator/analysis/whatif/op_types.def"
#undef X
    RS_WHATIF_TYPES
};
const char *rs_whatif_type_text(enum rs_whatif_type type);

struct rs_whatif_op {
    int64_t step, start_ns, duration_ns;
    int64_t seq;                  /* order within worker, step and type */
    int32_t dp_rank, stage, rank; /* rank -1: not said */
    enum rs_whatif_type type;
};

struct rs_whatif_ops {
    struct rs_whatif_op *items;
    size_t count, capacity;
};

/* Appends the rows of the file. RS_NOTFOUND, RS_IO, RS_LIMIT, RS_NOMEM, RS_FORMAT with "FILE:LINE: what, expected". */
RS_MUST_CHECK enum rs_status rs_whatif_read(const char *path, struct rs_whatif_ops *ops,
                                            struct rs_err *err);
void rs_whatif_ops_fini(struct rs_whatif_ops *ops);

/* A part of the job. Values are NAN where they were not calculated. */
struct rs_whatif_part {
    int32_t dp_rank, stage, rank; /* -1: all */
    double
        slowdown; /* of a job where only this part keeps its times and all else is ideal; 1: harmless */
    double share;  /* of the loss that would be gone were this part ideal; may exceed 1 */
    double factor; /* its computing time over the mean of its peers' */
};

/* Row of the table of operation types; sends and receives of one direction are one row. */
struct rs_whatif_kind {
    const char *name;
    double slowdown, share;
};

enum rs_whatif_verdict {
    RS_WHATIF_NO_LOSS, /* less than 1 % of a step could be gained */
    RS_WHATIF_WORKER,
    RS_WHATIF_STAGE,
    RS_WHATIF_DP_RANK,
    RS_WHATIF_WORKERS, /* a few together */
    RS_WHATIF_VARYING, /* nobody: operations differ from one to the next */
    RS_WHATIF_SPREAD,  /* nobody: lasting differences between many */
};
const char *rs_whatif_verdict_text(enum rs_whatif_verdict verdict);

struct rs_whatif {
    size_t step_count, skipped_steps; /* skipped: their operations are not those of the others */
    int64_t first_skipped;            /* number of the first of them */
    double step_ns, ideal_ns;         /* mean step as played again, and with everything ideal */
    double recorded_ns;               /* mean of last end minus first start as recorded */
    double slowdown;                  /* S */
    double m_w, m_s;                  /* NAN without a loss */
    size_t worst_count;               /* of workers in M_W: the first so many of `workers` */
    struct rs_whatif_part *workers;   /* the worst first */
    struct rs_whatif_part *stages, *dp_ranks; /* by number */
    size_t worker_count, stage_count, dp_count;
    struct rs_whatif_kind kinds[RS_WHATIF_TYPES];
    size_t kind_count; /* the largest share first */
    enum rs_whatif_verdict verdict;
    struct rs_whatif_part culprit; /* WORKER, STAGE, DP_RANK */
    size_t set_count;              /* WORKERS: the first so many of `workers` */
    double set_share;
    double
        varying_share; /* of the loss that goes when each worker's operations of a type all last their mean */
    double
        microbatch_correlation; /* forward with backward of the same microbatch, worker means taken off; NAN unknown */
};

/* RS_OK, RS_PARTIAL (steps left out), RS_INVALID (not a job this method can play again; says why), RS_LIMIT, RS_NOMEM.
 * Sorts `ops`. The result keeps no pointer to it. */
RS_MUST_CHECK enum rs_status rs_whatif_new(struct rs_whatif_ops *ops, struct rs_whatif **whatif_p,
                                           struct rs_err *err);
void rs_whatif_free(struct rs_whatif **whatif_p); /* sets to NULL; NULL is fine */

#endif
