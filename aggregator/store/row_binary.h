/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows in ClickHouse's RowBinary: cells one behind the other, no names, no types, no end of a row.
 *
 *     Int64, Float64   8 bytes, little-endian           Nullable(T)   01: absent, and nothing follows; 00, then T
 *     String           LEB128 length, then its bytes
 *
 * Inside the room. Pure functions; any thread.
 */
#ifndef RS_STORE_ROW_BINARY_H
#define RS_STORE_ROW_BINARY_H

#include "aggregator/model/columns.h"

/* Of one text, of one row. */
enum {
    ROW_BINARY_TEXT_MAX = 64 << 20,
    ROW_BINARY_ROW_MAX = 128 << 20,
    ROW_BINARY_COLUMNS_MAX = 64
};

struct row_binary_type {
    enum { ROW_BINARY_INT, ROW_BINARY_UINT, ROW_BINARY_FLOAT, ROW_BINARY_TEXT } kind;
    uint8_t bytes; /* of numbers */
    bool is_nullable;
};

/* "Nullable(Int64)". RS_FORMAT: a type that no column of ours has. */
RS_MUST_CHECK enum rs_status row_binary_type_of(struct rs_view text,
                                                struct row_binary_type *type_p);
/* Whether the column's values are read from cells of this type. */
bool row_binary_fits(const struct rs_column *column, const struct row_binary_type *type);

/* Appends a row as rs_sql_insert() names its columns, with its generation. RS_INVALID: something is absent that must not be;
 * RS_LIMIT: it is longer than what is read back. */
RS_MUST_CHECK enum rs_status row_binary_put(const struct rs_table *table, const void *row,
                                            int64_t generation, struct rs_buf *buf);
/* A row of `count` cells, cell i for columns[i], into a row of the block that is all absent. RS_AGAIN: there is no whole row in the view,
 * which stays where it was, as the block's texts do; what was filled into the row counts for nothing. RS_FORMAT. */
RS_MUST_CHECK enum rs_status row_binary_take(const struct rs_column *const *columns,
                                             const struct row_binary_type *types, size_t count,
                                             struct rs_view *view, void *row,
                                             struct rs_block *block);

#endif
