/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/source/source.h"

enum rs_status rs_source_stream_init(struct rs_source_stream *stream)
{
    *stream = (struct rs_source_stream){0};
    rs_trace_info_init(&stream->info);
    return rs_strtab_init(&stream->strings, 0);
}

void rs_source_stream_fini(struct rs_source_stream *stream)
{
    rs_trace_info_fini(&stream->info);
    rs_lanes_fini(&stream->lanes);
    rs_strtab_fini(&stream->strings);
    *stream = (struct rs_source_stream){0};
}
