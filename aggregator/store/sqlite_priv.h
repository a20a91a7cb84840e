/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of this room that speak SQLite share: row structs as a table, and back. Inside the room.
 *
 *   vtab.c        a virtual table over rows in memory, also for the ascend wing (vtab.h)
 *   rows_vtab.c   rows_NAME: the same over an array of row structs
 *   members.c     the virtual table op_member over segments
 *   table_file.c  files of tables for others
 *   row_store.c   units, generations, cursors
 *   query.c       a stranger's SELECT
 */
#ifndef RS_STORE_SQLITE_PRIV_H
#define RS_STORE_SQLITE_PRIV_H

#include "aggregator/model/columns.h"
#include "aggregator/store/vtab.h"

#include <sqlite3.h>

/* What rows_NAME shows at the moment. Owned by the connection's user, outlives the connection. */
struct rows_source {
    struct rs_vtab_source shown; /* first */
    const struct rs_table *table;
    const void *rows; /* lent while an INSERT .. SELECT runs */
    sqlite3_stmt *insert;
};

/* Makes rows_NAME on this connection and prepares INSERT OR FAIL INTO NAME SELECT * FROM rows_NAME; the table is
 * there. Undo with sqlite3_finalize(source->insert). SQLite's code. */
int rows_source_attach(sqlite3 *db, struct rows_source *source, const struct rs_table *table);
/* SQLITE_OK, or the code of what failed. */
int rows_source_insert(struct rows_source *source, const void *rows, size_t count);

/* A cell as SQLite's value: what rows_NAME shows for a column. Texts are the row's. */
struct rs_cell cell_of(const struct rs_column *column, const void *row);
/* The connection of a store for a statement of somebody's: one snapshot of all its tables, op_member among them. RS_OK or not,
 * it is taken back: what op_member has to say of its own failure. */
struct rs_row_store;
RS_MUST_CHECK enum rs_status row_store_lend(struct rs_row_store *store, sqlite3 **db_p,
                                            struct rs_err *err);
RS_MUST_CHECK enum rs_status row_store_take_back(struct rs_row_store *store, struct rs_err *err);
/* The result of a virtual table's column. */
void sqlite_answer(sqlite3_context *context, struct rs_cell cell);

#endif
