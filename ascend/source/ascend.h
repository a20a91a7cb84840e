/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Result directories of torch_npu and MindSpore as sources: one rank per call.
 *
 *     rs_ascend_discover() --> struct rs_ascend_rank --+-- profiler database --> ascend_db.c
 *                                                      +-- trace_view.json and tables --> ascend_text.c
 *
 * The database is preferred: its times are exact ns and its names are told apart by type. What
 * both forms emit is the same:
 *
 *   USER_ANNOTATION ProfilerStep#N     the step on the host
 *   STEP_WINDOW                        [START, END) of the step on the device (reference 3.3)
 *   RUNTIME   correlation              the row of CANN that launched device work
 *   KERNEL    computing                an operator on the device
 *   KERNEL    communication, comm      an HCCL operation, named as the vendor names it; its group's name is the
 *                                      hash that the vendor's documents use, the description its "tp", "dp", ...
 *   COMM_TASK external_id              a transfer inside it, between global ranks
 *   MEMCPY                             a copy that no operation launched
 *
 * Times are Unix ns of the host (base 0). A rank is not a device: lanes have the device's number.
 * Any thread; one call per stream at a time. Nothing is ever written beside the input.
 */
#ifndef RS_SOURCE_ASCEND_H
#define RS_SOURCE_ASCEND_H

#include "ascend/format/format.h"
#include "collector/source/discover.h"
#include "collector/source/source.h"

/* Discovery's view of all this (inputs.c). */
extern const struct rs_source_format rs_ascend_source_format;

/* Reads the rank's best form. RS_OK; RS_PARTIAL: damaged, what is whole was emitted and stream->info says why;
 * RS_NOTFOUND: the directory holds no form that can be read yet (the sentence says what it is); RS_FORMAT, RS_IO,
 * RS_LIMIT, RS_NOMEM; a failing sink's status. `flags`: enum rs_source_flag. */
RS_MUST_CHECK enum rs_status rs_ascend_read(const struct rs_ascend_rank *rank, unsigned flags,
                                            struct rs_source_stream *stream, struct rs_sink sink,
                                            struct rs_err *err);

/* The same from one form, whatever else is there. */
RS_MUST_CHECK enum rs_status rs_ascend_db_read(const struct rs_ascend_rank *rank, unsigned flags,
                                               struct rs_source_stream *stream, struct rs_sink sink,
                                               struct rs_err *err);
RS_MUST_CHECK enum rs_status rs_ascend_text_read(const struct rs_ascend_rank *rank, unsigned flags,
                                                 struct rs_source_stream *stream,
                                                 struct rs_sink sink, struct rs_err *err);

/* The figures of one step as the vendor's text algorithm computes them (reference 3.2): from its Overlap Analysis, in us
 * and double arithmetic, so that they equal step_trace_time.csv. Free and Stage differ by design from
 * those of the database algorithm, which is the one our tables have. */
struct rs_ascend_figures {
    int64_t device;
    int64_t step; /* RS_ASCEND_NO_STEP: the profile has no steps */
    double computing, communication_not_overlapped, overlapped, communication, free, stage, bubble,
        communication_not_overlapped_exclude_receive, preparing;
};
#define RS_ASCEND_NO_STEP INT64_MIN

/* Of a trace_view.json. *figures_p: [*count_p], by (device, step); rs_mem_free(). */
RS_MUST_CHECK enum rs_status rs_ascend_text_figures(const char *path,
                                                    struct rs_ascend_figures **figures_p,
                                                    size_t *count_p, struct rs_err *err);

#endif
