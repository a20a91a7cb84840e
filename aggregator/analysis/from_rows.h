/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of the model as an analysis again: what a report says can be said wherever the rows are, without the summaries that they
 * were made of and without the folder of the capture.
 *
 *     rs_analysis_rows():  summaries --join--> analysis --> rows       (rows.h)
 *     rs_analysis_read():                      analysis <-- rows
 *
 * What is there again is what reports read: ranks, steps, operations with their members, links, groups, notes, the diagnosis. Not
 * there: spans, kernels, tasks, clocks, rows of vendors; documents of those are made from the rows themselves.
 */
#ifndef RS_ANALYSIS_FROM_ROWS_H
#define RS_ANALYSIS_FROM_ROWS_H

#include "aggregator/analysis/analysis.h"
#include "aggregator/store/row_store.h"

/* The analysis is the caller's (rs_analysis_free()). RS_NOTFOUND: no row of the capture itself, or none of a rank: of a job that
 * hangs there are no steps to report. RS_FORMAT: rows contradict each other. RS_IO, RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_analysis_read(struct rs_row_store *store, int64_t capture,
                                              struct rs_analysis **analysis_p, struct rs_err *err);

#endif
