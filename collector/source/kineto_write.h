/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way back: batches emitted with RS_SOURCE_LOSSLESS, as the JSON they came from.
 *
 * The same document, member for member and value for value; order of keys and blanks are not kept. What `extra` says
 * of a member wins over its column.
 */
#ifndef RS_SOURCE_KINETO_WRITE_H
#define RS_SOURCE_KINETO_WRITE_H

#include "common/base/buf.h"
#include "common/event/event.h"

/* begin -> rows (each batch) -> end; each appends to `buf`, whose `failed` says whether there was memory. */
struct rs_kineto_writer {
    struct rs_buf *buf; /* keeps a pointer to it; may be drained between calls */
    bool has_rows;
    /* Rows that never stood in a Chrome trace (native, a vendor's database) become some: what such a row lacks, phase, category and a
     * step's name, is that of its kind; behind such rows the base of their times, the rank and the world are written. */
    bool fills_in;
    bool has_filled;
    uint64_t
        limit_bytes; /* of all rows; 0: none. The first one that does not fit is left out with all behind it */
    uint64_t row_bytes;    /* of those written */
    uint64_t dropped_rows; /* by the limit; the document says so ("droppedRows") */
};

void rs_kineto_write_begin(struct rs_kineto_writer *writer, struct rs_buf *buf);
void rs_kineto_write_rows(struct rs_kineto_writer *writer, const struct rs_batch *batch);
/* Ends the rows and writes the document's other members (info->metadata). */
void rs_kineto_write_end(struct rs_kineto_writer *writer, const struct rs_trace_info *info,
                         const struct rs_strtab *strings);

#endif
