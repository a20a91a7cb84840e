/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An analysis as rows of the model: what documents, tables over the wire and engines are made from.
 *
 *     unit capture   step, comm_group, link, note, coverage, clock; finding, finding_place, evidence, diagnosis, wait_cause, unjudged
 *     unit rank      rank, rank_device, step_device, vendor_step, kernel      part 0: the whole summary
 *                    vendor_comm_time, vendor_bandwidth, vendor_matrix        of ranks whose recordings have them
 *     unit step      op, op_member, op_packet, op_link
 *
 * The same analysis makes the same rows. OpId is not stored: it is the running number of the ordered read.
 */
#ifndef RS_ANALYSIS_ROWS_H
#define RS_ANALYSIS_ROWS_H

#include "aggregator/analysis/analysis.h"
#include "aggregator/store/row_store.h"

/* The capture's number in a store that holds one capture only. */
enum { RS_ROWS_CAPTURE = 1 };

/* Writes all units; those that were there are replaced. RS_IO, RS_NOMEM; units that were committed before a failure stay. */
RS_MUST_CHECK enum rs_status rs_analysis_rows(const struct rs_analysis *analysis, int64_t capture,
                                              struct rs_row_store *store, struct rs_err *err);

/* What else goes into the rows. */
struct rs_rows_more {
    /* Rows of the capture's unit that the analysis does not know: what was read, what was asked for. coverage_no,
     * note_no: the first numbers that are free. NULL: none. */
    enum rs_status (*put)(void *self, struct rs_writer *writer, int64_t coverage_no,
                          int64_t note_no, struct rs_err *err);
    void *self;
};
RS_MUST_CHECK enum rs_status rs_analysis_rows_with(const struct rs_analysis *analysis,
                                                   int64_t capture, struct rs_row_store *store,
                                                   const struct rs_rows_more *more,
                                                   struct rs_err *err);

struct rs_hang;
/* The same of a job that hangs: unit capture alone, with comm_group, finding, finding_place, evidence. What fixing it brings per
 * step is absent: there are no steps. */
RS_MUST_CHECK enum rs_status rs_hang_rows(const struct rs_hang *hang, int64_t capture,
                                          struct rs_row_store *store, struct rs_err *err);

/* Per step row of all summaries, in their order: may P2PWait be told? rs_mem_free(). RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_analysis_p2p_known(const struct rs_analysis *analysis,
                                                   bool **known_p);

/* The hash that stands for a group in rows: of its text; 0 for the empty one. Never RS_NULL. */
int64_t rs_group_id(const char *text);

#endif
