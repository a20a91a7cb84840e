/* SPDX-License-Identifier: Apache-2.0 */
/* What `rankscope verify` tells of a capture: a line a stream as it was read, or one JSON document. */
#ifndef RS_OUTPUT_VERIFY_REPORT_H
#define RS_OUTPUT_VERIFY_REPORT_H

#include "aggregator/analysis/verify.h"
#include "common/base/buf.h"

struct rs_verify_totals {
    uint64_t summary_only; /* streams without raw data */
    uint64_t streams, chunks, bytes, rows, missing, repeated, damaged, lost_chunks, unfinished;
    size_t damaged_segments;
    const char *damage; /* of the first of them; lent by the capture */
    bool is_good;       /* nothing missing, nothing double, nothing damaged */
};

struct rs_verify_report {
    bool as_json;
    /* Lines as they are known, or the document when all is; lent for the call. NULL: nothing is printed. */
    void (*print)(void *self, const char *text);
    void *self;
};

/* Reads every stream of the capture (aggregator/analysis/verify.h). One thread. RS_IO, RS_NOMEM: it could not be read. */
RS_MUST_CHECK enum rs_status rs_output_verify(const struct rs_capture_data *data,
                                              const struct rs_verify_report *report,
                                              struct rs_verify_totals *totals_p,
                                              struct rs_err *err);

#endif
