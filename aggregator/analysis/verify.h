/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is everything of a stream there, once, and does it say what was said of it?
 *
 * Every record's checksum, every chunk's own header and body checksum, numbers without gap or
 * repeat, every chunk decoded, rows and chunks as the end mark counts them, and the summary computed again from
 * the events equal, byte by byte, to the stored one. Of a rank whose raw data is held back, or on its way, the summary lane
 * alone is checked: "summary only".
 */
#ifndef RS_VERIFY_H
#define RS_VERIFY_H

#include "aggregator/analysis/capture_data.h"

/* What was found of one stream. */
struct rs_verify_finding {
    const struct rs_stored_stream
        *stream; /* the raw lane, or, when that is not here, the summary lane */
    bool is_summary_only;
    uint64_t rows, bytes;
    uint64_t loss_records;
    bool has_end, has_summary;
    bool is_summary_equal;
    bool is_summary_checked;
    bool is_summary_older; /* made by an earlier version: decoded whole, and not to be compared */
    char wrong[RS_ERR_TEXT_BYTES]; /* "": nothing */
};

/* Reads one stream again. RS_NOMEM ends it; what is wrong with the bytes stands in the finding, which lends from `data`. */
RS_MUST_CHECK enum rs_status rs_verify_stream(const struct rs_capture_data *data, size_t index,
                                              struct rs_verify_finding *finding,
                                              struct rs_err *err);

#endif
