/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kineto's Chrome-trace JSON, plain or gzip, of every generation, as a source.
 */
#ifndef RS_SOURCE_KINETO_H
#define RS_SOURCE_KINETO_H

#include "collector/source/source.h"

/* Reads the whole file in bounded memory and pours its events, in file order.
 *
 * RS_OK: read to its end. RS_PARTIAL: truncated or damaged; what is whole was poured, and stream->info says
 * why. RS_NOTFOUND: not a Kineto trace (no traceEvents); nothing was poured. RS_IO, RS_NOMEM, RS_LIMIT. A failing sink's
 * status. `flags`: enum rs_source_flag. stream->info.rank is the file's own metadata, or -1: names
 * and maps are the business of discover.h. */
RS_MUST_CHECK enum rs_status rs_kineto_read(const char *path, unsigned flags,
                                            struct rs_source_stream *stream, struct rs_sink sink,
                                            struct rs_err *err);

#endif
