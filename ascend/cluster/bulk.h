/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many rows into tables of a new SQLite database.
 *
 * Rows are made by any thread, as values one after another; who holds the file puts them into a table, many at a time, by
 * INSERT INTO t SELECT * FROM a virtual table over them: a row costs its values and no statement.
 *
 *     bulk_rows   values, made by any thread   -- bulk_add -->   bulk_table   INSERT .. SELECT   -->   bulk   the file
 *
 * How the columns are declared is told in the end, since it depends on every row (bulk_end): a column without a
 * fraction in it is INTEGER. Until then they have no type, so that a value is stored as it comes.
 *
 * The file is in nobody else's hands while this goes on. One thread at a time.
 */
#ifndef RS_CLUSTER_BULK_H
#define RS_CLUSTER_BULK_H

#include "aggregator/store/vtab.h"
#include "common/base/buf.h"
#include "common/base/err.h"

#include <stdint.h>

enum { BULK_COLUMNS_MAX = 16 };

/* ---- rows ---- */

enum bulk_kind { BULK_NULL, BULK_INT, BULK_REAL, BULK_TEXT };
struct bulk_cell {
    union {
        int64_t whole;
        double real;
        size_t at; /* of a text: in the bytes beside */
    } value;
    uint32_t length; /* of a text */
    uint8_t kind;
};

/* Rows on their way to a table, all with as many columns. Zeroed: none. */
struct bulk_rows {
    struct bulk_cell *cells; /* row by row */
    size_t cell_count, cell_capacity;
    struct rs_buf bytes;   /* texts */
    size_t count;          /* whole rows */
    unsigned columns;      /* of each; 0: no row is whole yet */
    enum rs_status status; /* sticky: RS_NOMEM, RS_LIMIT */
};

void bulk_null(struct bulk_rows *rows);
void bulk_int(struct bulk_rows *rows, int64_t value);
void bulk_real(struct bulk_rows *rows, double value);
void bulk_text(struct bulk_rows *rows, const char *text, size_t length);
/* Values that many rows start with: put into `rows` at first, then taken out; then put into other rows. */
struct bulk_start {
    struct bulk_cell cells[BULK_COLUMNS_MAX]; /* texts: in `bytes` */
    unsigned count;
    struct rs_buf bytes;
};
void bulk_take_start(struct bulk_rows *rows, struct bulk_start *start);
void bulk_put_start(struct bulk_rows *rows, const struct bulk_start *start);
void bulk_end_row(struct bulk_rows *rows);
void bulk_rows_reset(struct bulk_rows *rows); /* none; keeps the memory */
void bulk_rows_fini(struct bulk_rows *rows);
void bulk_start_fini(struct bulk_start *start);

/* ---- the file ---- */

struct sqlite3;
struct sqlite3_stmt;

struct bulk {
    struct rs_vtab_source shown; /* first: `rows` as a table */
    struct sqlite3 *db;
    const char *path;             /* keeps a pointer to it */
    const struct bulk_rows *rows; /* those that are being put in */
    enum rs_status status;        /* sticky */
    struct rs_err err;
};

/* Makes the file, which is not there. RS_IO, RS_NOMEM. Undo with bulk_close(), also on failure; `bulk` stays where it is. */
RS_MUST_CHECK enum rs_status bulk_open(struct bulk *bulk, const char *path);
/* Commits. The first failure of all, or RS_OK; always closes. */
RS_MUST_CHECK enum rs_status bulk_close(struct bulk *bulk);

/* A rank's database as schema "rank" of `bulk->db`, for INSERT .. SELECT and for reading. As rs_ascend_db_attach().
 *
 *     bulk_attach -> INSERT .. SELECT -> bulk_keep -> reading -> rs_ascend_db_close, bulk_detach
 *
 * What is copied is a transaction of its own, kept or undone: a damaged page that is met within one ends it. Nothing is read but
 * by the copying until bulk_keep(), and nothing put in from then on until bulk_detach(). */
struct rs_ascend_db;
RS_MUST_CHECK enum rs_status bulk_attach(struct bulk *bulk, const char *path,
                                         struct rs_ascend_db **db_p, struct rs_err *err);
void bulk_keep(struct bulk *bulk, bool keep);
void bulk_detach(struct bulk *bulk);
/* Statements; what fails shows in bulk->status. */
void bulk_run(struct bulk *bulk, const char *sql);

/* ---- a table ---- */

struct bulk_table {
    struct bulk *bulk; /* keeps a pointer to it; NULL: not begun */
    const char *name;  /* keeps a pointer to it */
    unsigned columns;
    struct sqlite3_stmt *insert;
};

/* Begins at row 1. What fails shows in bulk->status; then everything else does nothing. */
void bulk_begin(struct bulk_table *table, struct bulk *bulk, const char *name, unsigned columns);
void bulk_add(struct bulk_table *table, const struct bulk_rows *rows);
/* The columns as they are declared ("step TEXT, rank_id INTEGER, ..."; NULL: they stay without types). Call it in any case: it frees. */
void bulk_end(struct bulk_table *table, const char *columns);

#endif
