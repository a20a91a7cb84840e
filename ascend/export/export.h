/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rank's events -> a directory as torch_npu's profiler leaves it, so that what reads those opens any rank.
 *
 *     HOST_PID_STAMP_ascend_pt/
 *         profiler_info_R.json  profiler_metadata.json
 *         ASCEND_PROFILER_OUTPUT/
 *             ascend_pytorch_profiler_R.db                              tables.c and the files behind it
 *             analysis.db step_trace_time.csv communication*.json       aggregator/output
 *             trace_view.json                                           trace.c
 *             analyse.done                                              last
 *
 *     open -> add (each batch, in the source's order) -> finish -> free. One thread at a time.
 *
 * The directory appears whole or not at all. What a kind of rank does not record has no table. Every figure
 * comes from common/reduce and the analysis; the tables are such that StepTraceTime recomputed from them is
 * that of analysis.db. STAMP is the recording's start in UTC, so that the same input gives the same bytes and names.
 */
#ifndef RS_ASCEND_EXPORT_H
#define RS_ASCEND_EXPORT_H

#include "aggregator/analysis/rows.h"
#include "common/event/event.h"

struct rs_export_ascend;

struct rs_export_options {
    const struct rs_analysis *analysis; /* keeps a pointer; of all ranks that were read */
    size_t summary;                     /* whose events these are: index into its summaries */
    struct rs_row_store *
        rows; /* keeps a pointer; of the analysis (rs_analysis_rows()); nobody writes to it meanwhile */
    const char *out_dir; /* keeps a pointer; is created */
    rs_ns base_ns;       /* the recording's time base: absolute = base_ns + start */
};

/* Keeps pointers to the stream's tables until _free(). RS_IO, RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_export_ascend_open(const struct rs_export_options *options,
                                                   const struct rs_strtab *strings,
                                                   const struct rs_lanes *lanes,
                                                   struct rs_export_ascend **export_p,
                                                   struct rs_err *err);
/* Without a finish before, nothing remains on disk. Of NULL is allowed. */
void rs_export_ascend_free(struct rs_export_ascend **export_p);

/* Emitted with RS_SOURCE_LOSSLESS, or from chunks: else what the host did is missing. RS_IO, RS_NOMEM, RS_LIMIT. */
RS_MUST_CHECK enum rs_status rs_export_ascend_add(struct rs_export_ascend *export,
                                                  const struct rs_batch *batch, struct rs_err *err);

/* What was written. */
struct rs_export_result {
    char *dir; /* rs_mem_free() */
    uint64_t tasks, ops, host_rows, api_rows;
    uint64_t kept_rows; /* of tables that an Ascend profiler had recorded */
    uint64_t
        windows_bounded; /* steps whose window on the device needed rows of ours (docs/notes) */
    uint64_t
        windows_differ; /* steps that several devices see differently: the tables hold one window */
};
/* `info` is complete now, its strings are ids of the stream's table. RS_INVALID: the recording has no time base,
 * or another one than the options say. Afterwards only _free() is allowed. */
RS_MUST_CHECK enum rs_status rs_export_ascend_finish(struct rs_export_ascend *export,
                                                     const struct rs_trace_info *info,
                                                     struct rs_export_result *result_p,
                                                     struct rs_err *err);

#endif
