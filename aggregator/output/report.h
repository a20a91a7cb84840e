/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the report says, before it has a form: one model for text, Markdown and JSON. Inside the room.
 */
#ifndef RS_OUTPUT_REPORT_H
#define RS_OUTPUT_REPORT_H

#include "aggregator/output/output.h"

/* The breakdown that adds up, as a mean over complete steps. `window` is the sum of the six parts. */
enum report_part {
    PART_COMPUTING,
    PART_EXPOSED,
    PART_MEMORY,
    PART_IDLE_HEAD,
    PART_IDLE_INSIDE,
    PART_IDLE_TAIL,
    PART_COUNT,
};
const char *report_part_text(enum report_part part); /* for people */
const char *report_part_key(enum report_part part);  /* for JSON: "computing_ns" */

struct report_mean {
    int32_t rank, device;
    int64_t steps; /* complete ones */
    rs_dur window, parts[PART_COUNT];
};

struct report_drop {
    const char *reason; /* lives in a summary */
    int64_t count;
};

struct report {
    const struct rs_analysis *analysis;
    struct report_mean *means; /* by (rank, device); only where there are complete steps */
    size_t mean_count;
    struct report_mean overall; /* mean of the means; rank and device -1 */
    size_t *arrivals;           /* indices into analysis->ranks by caused wait, descending */
    size_t arrival_count;
    size_t *links; /* indices into analysis->links with a known rate, slowest first */
    size_t link_count;
    struct report_drop *drops; /* by reason */
    size_t drop_count, drop_capacity;

    int64_t events, dropped;
    int64_t steps;                                   /* distinct numbers seen */
    size_t partial_rank_count;                       /* of the ranks */
    size_t partial_step_count;                       /* (rank, step) pairs */
    int64_t ops_matched, ops_partial, ops_unmatched; /* partial: matched with members missing */
    int64_t ops_without_wait;                        /* matched across clock domains */
    int64_t rows, rows_without_bytes;
    rs_dur caused_wait; /* of all ranks */
    int64_t timed_ops;  /* operations whose last arriver is known */
};

/* Keeps a pointer to the analysis. RS_NOMEM. `report_p` is initialised on RS_OK. */
RS_MUST_CHECK enum rs_status report_init(struct report *report_p,
                                         const struct rs_analysis *analysis);
void report_fini(struct report *report);

/* Is this step row's (rank, step) the first of its number among the rank's devices, and partial? */
bool report_is_partial_step(const struct rs_summary *summary, size_t index);

/* On how many clocks the ranks stand: "one", "aligned", "assumed", "several". */
const char *report_clock_text(const struct rs_analysis *analysis);

/* Sorted ranks as "0-3,8". */
void report_put_ranks(struct rs_buf *buf, const int32_t *ranks, size_t count);

#endif
