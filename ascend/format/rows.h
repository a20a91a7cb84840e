/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All rows of one table: columns by name, values as they are stored, by rowid.
 *
 * What is not there in this generation of the format is NULL in every row. Only real tables count.
 * A cursor belongs to one thread at a time, and must be closed before the database.
 */
#ifndef RS_ASCEND_FORMAT_ROWS_H
#define RS_ASCEND_FORMAT_ROWS_H

#include "ascend/format/db.h"
#include "ascend/format/num.h"
#include "common/base/buf.h"

enum { RS_ASCEND_ROWS_COLUMNS_MAX = 16 };

struct rs_ascend_cell {
    enum { RS_ASCEND_CELL_NULL, RS_ASCEND_CELL_INT, RS_ASCEND_CELL_REAL, RS_ASCEND_CELL_TEXT } kind;
    int64_t whole;
    double real;
    const char *
        text; /* `length` bytes, no NUL behind them; lends until the next row; of NULL it is "", of numbers anything */
    size_t length;
};

/* What the columns asked for must hold, a bit per column. */
struct rs_ascend_expect {
    uint32_t numbers, texts; /* of each kind; neither: anything */
    uint32_t may_lack;       /* some generations have no such column */
    uint32_t may_be_null;
};

struct rs_ascend_rows {
    struct rs_ascend_db *db;
    struct sqlite3_stmt *stmt;
    size_t column_count;
    struct rs_ascend_expect expect;                    /* zero at first: nothing */
    uint32_t lacks;                                    /* columns that the table has not */
    size_t row_count, bad[RS_ASCEND_ROWS_COLUMNS_MAX]; /* cells against `expect` */
    struct rs_ascend_cell
        cells[RS_ASCEND_ROWS_COLUMNS_MAX]; /* of the row, by the names asked for */
};

/* RS_NOTFOUND: no such table; RS_LIMIT: too many columns; RS_FORMAT, RS_IO; RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_ascend_rows_open(struct rs_ascend_rows *rows,
                                                 struct rs_ascend_db *db, const char *table,
                                                 const char *const *columns, size_t count,
                                                 struct rs_err *err);
/* RS_OK: rows->cells hold the next row. RS_END. RS_FORMAT: the database is damaged. */
RS_MUST_CHECK enum rs_status rs_ascend_rows_next(struct rs_ascend_rows *rows, struct rs_err *err);
void rs_ascend_rows_close(struct rs_ascend_rows *rows);
/* After the last row: a sentence for each column that is not there or holds something else than expected, appended to
 * `flaws` ("; " between them). Nothing unexpected: nothing. */
void rs_ascend_rows_flaws(const struct rs_ascend_rows *rows, const char *table,
                          const char *const *columns, struct rs_buf *flaws);

/* A cell as a number; text of digits counts. NONE otherwise. */
struct rs_ascend_num rs_ascend_cell_num(const struct rs_ascend_cell *cell);
/* As a whole number: RS_ASCEND_CELL_INT, or text of digits, or a float without fraction. */
bool rs_ascend_cell_int(const struct rs_ascend_cell *cell, int64_t *value_p);

#endif
