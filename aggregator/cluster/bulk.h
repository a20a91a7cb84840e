/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many rows into a table of a closed SQLite database, page by page.
 *
 * The schema and the small tables are made with SQLite; a table of a million rows is then filled by
 * writing its b-tree bottom up: leaves one after another at the end of the file, the pages above them, and
 * at last the root, which SQLite had put there empty. A row costs its bytes and no statement.
 *
 *     leaf       08 | cell pointers ->      <- cells: length, rowid, record [overflow page]
 *     interior   12 | cell pointers ->      <- cells: child, last rowid of it
 *
 * The file is in nobody else's hands while this goes on. One thread.
 */
#ifndef RS_CLUSTER_BULK_H
#define RS_CLUSTER_BULK_H

#include "common/base/buf.h"
#include "common/base/err.h"

#include <stdint.h>

enum { BULK_PAGE_BYTES = 4096, BULK_COLUMNS_MAX = 16 };

struct bulk_child {
    uint32_t page;
    int64_t last; /* rowid */
};

struct bulk {
    int fd;
    const char *path;    /* keeps a pointer to it */
    uint32_t page_count; /* of the file, those not yet written out included */
    struct rs_buf pages; /* whole pages waiting to be written at the end */
    struct bulk_child *children;
    size_t child_count, child_capacity;
    uint8_t page[BULK_PAGE_BYTES]; /* the leaf being filled */
    unsigned cells, content;       /* of it: count, where its content starts */
    int64_t rowid;
    uint32_t root;
    /* the row being made */
    struct rs_buf body;
    uint64_t types[BULK_COLUMNS_MAX];
    unsigned columns;
    enum rs_status status; /* sticky */
    struct rs_err err;
};

/* Opens the file. RS_IO, RS_FORMAT (its pages are not of BULK_PAGE_BYTES). Then per table: begin, rows, end. */
RS_MUST_CHECK enum rs_status bulk_open(struct bulk *bulk, const char *path);
void bulk_begin(struct bulk *bulk, uint32_t root);
void bulk_null(struct bulk *bulk);
void bulk_int(struct bulk *bulk, int64_t value);
void bulk_real(struct bulk *bulk, double value);
void bulk_text(struct bulk *bulk, const char *text, size_t length);
void bulk_end_row(struct bulk *bulk);
void bulk_end(struct bulk *bulk);
/* Writes what waits and the new page count. The first failure of all, or RS_OK; always closes. */
RS_MUST_CHECK enum rs_status bulk_close(struct bulk *bulk);

#endif
