/* SPDX-License-Identifier: Apache-2.0 */
/* The job as a graph of meetings that every step runs through once. */
#ifndef RS_ANALYSIS_WHATIF_PRIV_H
#define RS_ANALYSIS_WHATIF_PRIV_H

#include "aggregator/analysis/whatif/whatif.h"

enum { WHATIF_PREDS = 3 };
#define WHATIF_NONE UINT32_MAX

struct whatif_node {
    uint32_t worker;
    enum rs_whatif_type type;
    uint32_t pred[WHATIF_PREDS]; /* WHATIF_NONE: no more */
    uint32_t meeting;            /* all its members begin when the last is ready */
};

struct whatif_graph {
    int32_t *dps, *stages;                      /* sorted numbers */
    size_t dp_count, stage_count, worker_count; /* worker = dp index * stage_count + stage index */
    int32_t *ranks;                             /* of the workers; -1 unknown */
    size_t *first;  /* [worker * TYPES + type]: node of its first operation */
    size_t *counts; /* the same: how many */
    struct whatif_node *nodes;
    size_t node_count;
    uint32_t *order; /* nodes, those of a meeting side by side, meetings after what they wait for */
    int64_t *steps;
    size_t step_count;
    double *start,
        *work;   /* [step * node_count + node]: recorded start; own work: duration or transfer */
    double *end; /* recorded */
    size_t skipped_steps;
    int64_t first_skipped;
};

RS_MUST_CHECK enum rs_status whatif_graph_build(struct rs_whatif_ops *ops,
                                                struct whatif_graph *graph, struct rs_err *err);
void whatif_graph_fini(struct whatif_graph *graph);

#endif
