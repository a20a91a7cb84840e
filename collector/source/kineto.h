/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kineto's Chrome-trace JSON, plain or gzip, of every generation, as a source.
 *
 * How a row becomes columns, as far as event.h does not say it:
 *  - kinds come from phase and category, of all years and backends (the table in kineto_emit.c); what is not in it is OTHER with
 *    its category's text.
 *  - lanes: device kinds with integer ids have a device lane (pid the device, tid the stream), host kinds a host lane;
 *    all else ("Spans", flows, metadata) RS_LANE_OTHER. An id that is absent is INT64_MIN; one written as text has its text,
 *    and a number if it holds one ("stream 7").
 *  - times: ns as written, cut (not rounded) to three decimals of a us. Whether they count from a base is told by their size.
 *  - without RS_SOURCE_LOSSLESS: python_function and cuda_event rows, flows, metadata, counters and instants are
 *    counted and not emitted; arguments (and with them external_id) are read of device work, launches, annotations,
 *    other categories, communication calls (c10d::*, record_param_comms) and unfinished rows.
 *  - with it, everything a well-formed trace had is there, and kineto_write.h gives it back. `extra` is: members of args
 *    without a column, comma separated; then, if there are any, '\n' and members of the row itself without a column,
 *    or whose column does not say them exactly (a time with six decimals, an id in quotes): those win over the column.
 *  - the tables of the stream grow with the different names of a rank, not with its rows.
 */
#ifndef RS_SOURCE_KINETO_H
#define RS_SOURCE_KINETO_H

#include "collector/source/source.h"

/* Reads the whole file in bounded memory and emits its events, in file order.
 *
 * RS_OK: read to its end. RS_PARTIAL: truncated or damaged; what is whole was emitted, and stream->info says
 * why. RS_NOTFOUND: not a Kineto trace (no traceEvents); nothing was emitted. RS_IO, RS_NOMEM, RS_LIMIT. A failing sink's
 * status. `flags`: enum rs_source_flag. stream->info.rank is the file's own metadata, or -1: names
 * and maps are the business of discover.h. */
RS_MUST_CHECK enum rs_status rs_kineto_read(const char *path, unsigned flags,
                                            struct rs_source_stream *stream, struct rs_sink sink,
                                            struct rs_err *err);

#endif
