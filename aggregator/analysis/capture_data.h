/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a capture folder holds of each rank, both lanes side by side, and the rank's summary from whichever has it:
 *
 *   1. the summary lane: whole, or parts, joined; while it goes on, the parts that are here
 *   2. SUMMARY chunks at the end of the raw lane (a collector of the wire's minor version 1)
 *   3. the events themselves, reduced here: neither came
 *
 * So findings need no raw data, and a capture of any earlier program is read as one of ours. One thread at a time; any
 * process that may read the folder.
 */
#ifndef RS_ANALYSIS_CAPTURE_DATA_H
#define RS_ANALYSIS_CAPTURE_DATA_H

#include "aggregator/store/store.h"
#include "common/reduce/summary.h"

struct rs_capture_data;

/* One incarnation of a rank. A lane of which nothing came is NULL; never both. Lent until close. */
struct rs_capture_stream {
    uint32_t rank;
    const char *incarnation, *host, *origin;
    uint32_t world;
    const struct rs_stored_stream *raw, *summary;
    size_t raw_index, summary_index; /* in rs_capture_data_raw(), rs_capture_data_summaries() */
};

/* RS_NOTFOUND, RS_IO, RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_capture_data_open(const char *dir, struct rs_capture_data **data_p,
                                                  struct rs_err *err);
void rs_capture_data_close(struct rs_capture_data **data_p);

/* Facts, ranks of the coordinator, chunks. */
const struct rs_stored *rs_capture_data_raw(const struct rs_capture_data *data);
const struct rs_stored *rs_capture_data_summaries(const struct rs_capture_data *data);
/* In order of rank, then incarnation. */
size_t rs_capture_data_count(const struct rs_capture_data *data);
const struct rs_capture_stream *rs_capture_data_stream(const struct rs_capture_data *data,
                                                       size_t index);

enum rs_summary_origin {
    RS_SUMMARY_FROM_LANE,   /* as its collector made it */
    RS_SUMMARY_FROM_RAW,    /* the same, from the end of the raw lane */
    RS_SUMMARY_FROM_EVENTS, /* reduced here */
    RS_SUMMARY_SO_FAR,      /* the parts that are here of a rank that still records */
};

/* The summary of a stream. `may_reduce` false: RS_NOTFOUND when it would have to be made from events. RS_FORMAT, RS_NOMEM.
 * origin_p may be NULL. */
RS_MUST_CHECK enum rs_status rs_capture_data_summary(const struct rs_capture_data *data,
                                                     size_t index, bool may_reduce,
                                                     struct rs_summary *summary_p,
                                                     enum rs_summary_origin *origin_p,
                                                     struct rs_err *err);

#endif
