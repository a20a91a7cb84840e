/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All rows of one table, quickly: columns by name, values as they are stored.
 *
 * A statement costs a microsecond a row; the tables of communication have a thousand rows per step
 * and rank. Plain tables are therefore read from the file's b-tree pages, bounds-checked, while a
 * read transaction of the handle keeps writers away; where a table is not plain (other encoding,
 * a WAL with something in it, generated columns, defaults, an integer key) SQLite reads it. Either way the rows
 * come by rowid.
 *
 * A cursor belongs to one thread at a time, and must be closed before the database.
 */
#ifndef RS_VENDOR_VENDOR_ROWS_H
#define RS_VENDOR_VENDOR_ROWS_H

#include "common/base/buf.h"
#include "common/vendor/vendor_db.h"
#include "common/vendor/vendor_num.h"
#include "common/vendor/vendor_pages.h"

enum {
    RS_VENDOR_ROWS_COLUMNS_MAX = 16,
    RS_VENDOR_ROWS_STORED_MAX = 64,
    RS_VENDOR_ROWS_LEVELS = 20,
    RS_VENDOR_ROWS_WORD_BYTES = 128 /* of a table's, column's or type's name */
};

struct rs_vendor_cell {
    enum { RS_VENDOR_CELL_NULL, RS_VENDOR_CELL_INT, RS_VENDOR_CELL_REAL, RS_VENDOR_CELL_TEXT } kind;
    int64_t whole;
    double real;
    const char *text; /* lends until the next row; of NULL it is "", of numbers anything */
    size_t length;
};

struct rs_vendor_rows {
    struct rs_vendor_db *db;
    struct sqlite3_stmt *stmt; /* NULL: pages */
    size_t column_count;
    struct rs_vendor_cell
        cells[RS_VENDOR_ROWS_COLUMNS_MAX]; /* of the row, by the names asked for */
    /* pages */
    struct rs_vendor_rows_file *file; /* keeps a pointer to the caller's */
    size_t page_bytes;
    size_t visits; /* pages still to be had: each belongs to one place only */
    unsigned level;
    const uint8_t *page; /* of path[level] */
    bool is_leaf;
    size_t head; /* where its header starts: 100 in the first page, else 0 */
    struct {
        uint32_t page;
        unsigned next, count;
    } path[RS_VENDOR_ROWS_LEVELS];
    int8_t wanted[RS_VENDOR_ROWS_STORED_MAX]; /* by stored column: which cell, -1 none */
    size_t stored_end;                        /* stored columns from here on are not wanted */
    bool is_real[RS_VENDOR_ROWS_COLUMNS_MAX]; /* declared so: whole numbers come out as floats */
    struct rs_buf payload;                    /* of a row that spans pages */
};

/* What is not there is NULL in every row. RS_NOTFOUND: no such table; RS_FORMAT; RS_NOMEM. `file` is of
 * this database and outlives the cursor; of a database opened with rs_vendor_db_open_still() it is the one
 * given there, and one cursor is open at a time. */
RS_MUST_CHECK enum rs_status rs_vendor_rows_open(struct rs_vendor_rows *rows,
                                                 struct rs_vendor_db *db,
                                                 struct rs_vendor_rows_file *file,
                                                 const char *table, const char *const *columns,
                                                 size_t count, struct rs_err *err);
/* RS_OK: rows->cells hold the next row. RS_END. RS_FORMAT: the pages are damaged. */
RS_MUST_CHECK enum rs_status rs_vendor_rows_next(struct rs_vendor_rows *rows, struct rs_err *err);
void rs_vendor_rows_close(struct rs_vendor_rows *rows);

/* A cell as a number; text of digits counts. NONE otherwise. */
struct rs_vendor_num rs_vendor_cell_num(const struct rs_vendor_cell *cell);
/* As a whole number: RS_VENDOR_CELL_INT, or text of digits, or a float without fraction. */
bool rs_vendor_cell_int(const struct rs_vendor_cell *cell, int64_t *value_p);

#endif
