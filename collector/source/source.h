/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sources turn recorded profiles into batches of events.
 *
 * A source emits into a sink it did not choose. It owns the two tables that its batches refer to, so that
 * whoever takes the batches can keep pointers to them until rs_source_stream_fini().
 */
#ifndef RS_SOURCE_SOURCE_H
#define RS_SOURCE_SOURCE_H

#include "common/event/event.h"

/* One rank's stream of events: its dictionary, its lanes, what is known of the whole. */
struct rs_source_stream {
    struct rs_strtab strings;
    struct rs_lanes lanes;
    struct rs_trace_info info; /* complete when the reading function returned */
};

RS_MUST_CHECK enum rs_status rs_source_stream_init(struct rs_source_stream *stream);
void rs_source_stream_fini(struct rs_source_stream *stream);

enum rs_source_flag {
    RS_SOURCE_LOSSLESS =
        1, /* fill `extra`, flows, metadata rows and info.metadata too (for chunks);
                             * without it only what rs_reduce needs is kept, which is faster */
};

#endif
