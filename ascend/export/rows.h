/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A SQLite file that appears whole or not at all: rows go into a temporary file in one transaction, which is
 * renamed when it is committed, so it needs no journal.
 *
 *     db_create() -> db_row_begin(), db_row_int() ... left to right, db_row_end() -> db_close()
 *
 * Rows are bound one by one, since whoever writes a row of CANN_API asks at once whether its key was free; what has no such
 * question is written many rows at a time elsewhere (aggregator/store/table_file.h). Inside the room.
 *
 * Unknown is NULL. One thread at a time. This header names no type of SQLite's but by pointer.
 */
#ifndef RS_ASCEND_EXPORT_ROWS_H
#define RS_ASCEND_EXPORT_ROWS_H

#include "common/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sqlite3;
struct sqlite3_stmt;

struct db_table {
    const char *name;
    int columns; /* at most DB_COLUMNS_MAX */
};
enum { DB_COLUMNS_MAX = 24, DB_TABLES_MAX = 64 };

struct db_rows {
    struct sqlite3 *handle;
    struct sqlite3_stmt *inserts[DB_TABLES_MAX];
    size_t count;
    char *path, *temporary;
};

/* Begins `dir`/`name`. Undo with db_close() or _discard(), also on failure. RS_IO, RS_NOMEM. */
RS_MUST_CHECK enum rs_status db_create(struct db_rows *rows, const char *dir, const char *name,
                                       struct rs_err *err);
/* Runs SQL, for schemas and for what is settled at the end. */
RS_MUST_CHECK enum rs_status db_run(struct db_rows *rows, const char *sql, struct rs_err *err);
/* RS_OK and whether the table has no row. */
RS_MUST_CHECK enum rs_status db_is_empty(struct db_rows *rows, const char *table, bool *is_empty_p,
                                         struct rs_err *err);
/* Prepares the insertions: tables[i] is table i of db_row_begin(). The tables are there. */
RS_MUST_CHECK enum rs_status db_tables(struct db_rows *rows, const struct db_table *tables,
                                       size_t count, struct rs_err *err);
/* With status RS_OK the file appears; otherwise nothing remains of it. Returns the status, or its own failure. */
RS_MUST_CHECK enum rs_status db_close(struct db_rows *rows, enum rs_status status,
                                      struct rs_err *err);
/* Closes without a file; of a zeroed or closed struct is allowed. */
void db_discard(struct db_rows *rows);

struct db_row {
    struct sqlite3_stmt *insert;
    int column;
    bool has_failed;
};
struct db_row db_row_begin(const struct db_rows *rows, size_t table);
void db_row_int(struct db_row *row, int64_t value, bool is_known);
/* Text must live until db_row_end(). NULL is NULL. Bytes that are not UTF-8 are kept. */
void db_row_text(struct db_row *row, const char *text);
void db_row_bytes(struct db_row *row, const char *text, size_t length);
/* Digits as the nearest double. */
void db_row_decimal(struct db_row *row, const char *digits, bool is_known);
/* RS_EXISTS: a row of this key is there; nothing changed. */
RS_MUST_CHECK enum rs_status db_row_end(const struct db_rows *rows, struct db_row *row,
                                        struct rs_err *err);

#endif
