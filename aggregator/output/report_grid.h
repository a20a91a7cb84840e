/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Own work by rank and step: what the pictures of report.html show. Inside the room.
 *
 * Own work is what a step took without exposed communication: ranks in lock step all take equally long, and wait in it for the
 * slowest. Of a rank with several devices the one that worked longest counts. Only steps that are in means.
 */
#ifndef RS_OUTPUT_REPORT_GRID_H
#define RS_OUTPUT_REPORT_GRID_H

#include "aggregator/output/report.h"

struct grid {
    int64_t *steps; /* numbers, ascending */
    size_t step_count;
    int32_t *ranks; /* ascending, those that have such a step */
    size_t rank_count;
    const struct rs_step_row **rows; /* [rank][step]; live in a summary; NULL: not known */
};

/* RS_NOMEM; grid_fini() is called whatever comes. */
RS_MUST_CHECK enum rs_status grid_init(struct grid *grid_p, const struct rs_analysis *analysis);
void grid_fini(struct grid *grid);

/* Own work of a cell, ns; -1: not known. */
rs_dur grid_own(const struct grid *grid, size_t rank, size_t step);

/* The median of each step over all ranks, the lower or the upper of two in the middle: medians_p[step]; 0 where nobody has it. RS_NOMEM. */
RS_MUST_CHECK enum rs_status grid_medians(const struct grid *grid, bool is_upper,
                                          rs_dur *medians_p);

#endif
