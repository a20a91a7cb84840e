/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A SQLite file that appears whole or not at all: rows go into a temporary file in one transaction, which is
 * renamed when it is committed, so it needs no journal.
 *
 *     rs_rows_create() -> rs_row_begin(), rs_row_int() ... left to right, rs_row_end() -> rs_rows_close()
 *
 * Unknown is NULL. One thread at a time. This header names no type of SQLite's but by pointer.
 */
#ifndef RS_OUTPUT_ROWS_H
#define RS_OUTPUT_ROWS_H

#include "common/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sqlite3;
struct sqlite3_stmt;

struct rs_rows_table {
    const char *name;
    int columns; /* at most RS_ROWS_COLUMNS_MAX */
};
enum { RS_ROWS_COLUMNS_MAX = 24, RS_ROWS_TABLES_MAX = 64 };

struct rs_rows {
    struct sqlite3 *handle;
    struct sqlite3_stmt *inserts[RS_ROWS_TABLES_MAX];
    size_t count;
    char *path, *temporary;
};

/* Begins `dir`/`name`. Undo with rs_rows_close() or _discard(), also on failure. RS_IO, RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_rows_create(struct rs_rows *rows, const char *dir, const char *name,
                                            struct rs_err *err);
/* Runs SQL, for schemas and for what is settled at the end. */
RS_MUST_CHECK enum rs_status rs_rows_run(struct rs_rows *rows, const char *sql, struct rs_err *err);
/* RS_OK and whether the table has no row. */
RS_MUST_CHECK enum rs_status rs_rows_is_empty(struct rs_rows *rows, const char *table,
                                              bool *is_empty_p, struct rs_err *err);
/* Prepares the insertions: tables[i] is table i of rs_row_begin(). The tables are there. */
RS_MUST_CHECK enum rs_status rs_rows_tables(struct rs_rows *rows,
                                            const struct rs_rows_table *tables, size_t count,
                                            struct rs_err *err);
/* With status RS_OK the file appears; otherwise nothing remains of it. Returns the status, or its own failure. */
RS_MUST_CHECK enum rs_status rs_rows_close(struct rs_rows *rows, enum rs_status status,
                                           struct rs_err *err);
/* Closes without a file; of a zeroed or closed struct is allowed. */
void rs_rows_discard(struct rs_rows *rows);

struct rs_row {
    struct sqlite3_stmt *insert;
    int column;
    bool has_failed;
};
struct rs_row rs_row_begin(const struct rs_rows *rows, size_t table);
void rs_row_int(struct rs_row *row, int64_t value, bool is_known);
/* Text must live until rs_row_end(). NULL is NULL. Bytes that are not UTF-8 are kept. */
void rs_row_text(struct rs_row *row, const char *text);
void rs_row_bytes(struct rs_row *row, const char *text, size_t length);
/* Digits as the nearest double. */
void rs_row_decimal(struct rs_row *row, const char *digits, bool is_known);
/* RS_EXISTS: a row of this key is there; nothing changed. */
RS_MUST_CHECK enum rs_status rs_row_end(const struct rs_rows *rows, struct rs_row *row,
                                        struct rs_err *err);

#endif
