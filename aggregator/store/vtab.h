/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows in memory as a virtual table of SQLite: INSERT INTO t SELECT * FROM rows costs half of binding each value.
 *
 *     whoever has rows --cell(row, column)--> the virtual table NAME, columns c0, c1, ... --> any statement
 *
 * The store shows row structs by it (rows_vtab.c), the ascend wing cells that it made itself (ascend/cluster/bulk.c). This header
 * names SQLite's types by pointer only. The connection's thread.
 */
#ifndef RS_STORE_VTAB_H
#define RS_STORE_VTAB_H

#include <stddef.h>
#include <stdint.h>

struct sqlite3;

enum rs_cell_kind { RS_CELL_NULL, RS_CELL_INT, RS_CELL_REAL, RS_CELL_TEXT };

struct rs_cell {
    enum rs_cell_kind kind;
    union {
        int64_t whole;
        double real;
        const char *text; /* lives while the statement runs */
    } value;
    int length; /* of a text; -1: up to its NUL */
};

/* What the table shows at the moment. First member of what has the rows. */
struct rs_vtab_source {
    unsigned columns; /* how many the table has; does not change */
    size_t count;     /* rows */
    struct rs_cell (*cell)(const struct rs_vtab_source *source, size_t row, unsigned column);
};

/* Makes the table `name` on this connection. Keeps a pointer to the source, which outlives the connection. SQLite's code. */
int rs_vtab_attach(struct sqlite3 *db, const char *name, struct rs_vtab_source *source);

#endif
