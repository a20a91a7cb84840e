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
};

void rs_kineto_write_begin(struct rs_kineto_writer *writer, struct rs_buf *buf);
void rs_kineto_write_rows(struct rs_kineto_writer *writer, const struct rs_batch *batch);
/* Ends the rows and writes the document's other members (info->metadata). */
void rs_kineto_write_end(struct rs_kineto_writer *writer, const struct rs_trace_info *info,
                         const struct rs_strtab *strings);

#endif
