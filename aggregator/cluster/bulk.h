/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many rows into tables of a closed SQLite database, page by page.
 *
 * The schema is made with SQLite; a table of a million rows is then filled by writing its b-tree bottom up:
 * leaves one after another at the end of the file, the pages above them, and at last the root, which SQLite
 * had put there empty. A row costs its bytes and no statement.
 *
 *     bulk_rows   records, made by any thread        -- bulk_add -->   bulk_table   leaves, of one table
 *                                                                          | whole runs of pages
 *                                                                          v
 *                                                                      bulk         the file
 *
 *     leaf       08 | cell pointers ->      <- cells: length, rowid, record [overflow page]
 *     interior   12 | cell pointers ->      <- cells: child, last rowid of it
 *
 * The file is in nobody else's hands while this goes on. One thread at a time.
 */
#ifndef RS_CLUSTER_BULK_H
#define RS_CLUSTER_BULK_H

#include "common/base/buf.h"
#include "common/base/err.h"

#include <stdint.h>

enum { BULK_PAGE_BYTES = 4096, BULK_COLUMNS_MAX = 16 };

/* ---- rows ---- */

struct bulk_record {
    size_t at; /* in bytes */
    size_t length;
};

/* Rows on their way to a table. Zeroed: none. */
struct bulk_rows {
    struct rs_buf bytes;
    struct bulk_record *records;
    size_t count, capacity;
    /* the row being made: its values stand behind room for the head */
    uint8_t types[BULK_COLUMNS_MAX * 9];
    size_t types_length, body;
    unsigned columns;
    enum rs_status status; /* sticky: RS_NOMEM, RS_LIMIT */
};

void bulk_null(struct bulk_rows *rows);
void bulk_int(struct bulk_rows *rows, int64_t value);
void bulk_real(struct bulk_rows *rows, double value);
void bulk_text(struct bulk_rows *rows, const char *text, size_t length);
/* Values that many rows start with: put into `rows` at first, then taken out; then put into other rows. */
struct bulk_start {
    uint8_t types[BULK_COLUMNS_MAX * 9];
    size_t types_length;
    unsigned columns;
    struct rs_buf body;
};
void bulk_take_start(struct bulk_rows *rows, struct bulk_start *start);
void bulk_put_start(struct bulk_rows *rows, const struct bulk_start *start);
void bulk_end_row(struct bulk_rows *rows);
void bulk_rows_reset(struct bulk_rows *rows); /* none; keeps the memory */
void bulk_rows_fini(struct bulk_rows *rows);

/* ---- the file ---- */

struct bulk {
    int fd;
    const char *path;      /* keeps a pointer to it */
    uint32_t page_count;   /* of the file */
    enum rs_status status; /* sticky */
    struct rs_err err;
};

/* Opens the file. RS_IO, RS_FORMAT (its pages are not of BULK_PAGE_BYTES). */
RS_MUST_CHECK enum rs_status bulk_open(struct bulk *bulk, const char *path);
/* Writes the new page count. The first failure of all, or RS_OK; always closes. */
RS_MUST_CHECK enum rs_status bulk_close(struct bulk *bulk);

/* ---- a table ---- */

struct bulk_child {
    uint32_t page;
    int64_t last; /* rowid */
};

enum { BULK_LEAVES = 64 }; /* written at once */

struct bulk_table {
    struct bulk *bulk; /* keeps a pointer to it */
    uint32_t root;
    struct bulk_child *children;
    size_t child_count, child_capacity;
    int64_t rowid;
    uint8_t *leaves;            /* BULK_LEAVES pages; the last one is being filled */
    int64_t lasts[BULK_LEAVES]; /* last rowid of each */
    size_t leaf_count;          /* full ones */
    unsigned cells, content;    /* of the one being filled: count, where its content starts */
};

/* Begins at row 1. What fails shows in bulk->status; then everything else does nothing. */
void bulk_begin(struct bulk_table *table, struct bulk *bulk, uint32_t root);
void bulk_add(struct bulk_table *table, const struct bulk_rows *rows);
/* Writes what is left, the pages above and the root. Call it in any case: it frees. */
void bulk_end(struct bulk_table *table);

#endif
