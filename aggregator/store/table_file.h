/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A SQLite file of tables that appears whole or not at all: rows go into a temporary file in one transaction,
 * which is renamed when it is committed, so it needs no journal.
 *
 *     create -> add_table ... -> put(row structs) ... -> close      the only writer of SQLite files for others
 *
 * Rows are the model's structs, many at a time: INSERT INTO t SELECT * FROM a virtual table over them, which
 * costs half of binding each value. One thread at a time. No type of SQLite's is named here.
 */
#ifndef RS_STORE_TABLE_FILE_H
#define RS_STORE_TABLE_FILE_H

#include "aggregator/model/columns.h"

struct rs_table_file;

/* Begins `dir`/`name`. RS_IO, RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_table_file_create(const char *dir, const char *name,
                                                  struct rs_table_file **file_p,
                                                  struct rs_err *err);
/* CREATE TABLE as the descriptor says. Keeps a pointer to it. */
RS_MUST_CHECK enum rs_status rs_table_file_add_table(struct rs_table_file *file,
                                                     const struct rs_table *table,
                                                     struct rs_err *err);
/* Appends rows to a table that was added, or that run() made with these columns first (add_rows_of()). RS_EXISTS: a
 * row of a key that is there; those before it stay. Rows and texts are lent for the call. */
RS_MUST_CHECK enum rs_status rs_table_file_put(struct rs_table_file *file,
                                               const struct rs_table *table, const void *rows,
                                               size_t count, struct rs_err *err);
/* For tables made by SQL of the caller's own: rows of this descriptor can be put into the table of its name. */
RS_MUST_CHECK enum rs_status rs_table_file_add_rows_of(struct rs_table_file *file,
                                                       const struct rs_table *table,
                                                       struct rs_err *err);
/* Runs SQL: indices, and what is settled at the end. */
RS_MUST_CHECK enum rs_status rs_table_file_run(struct rs_table_file *file, const char *sql,
                                               struct rs_err *err);
RS_MUST_CHECK enum rs_status rs_table_file_is_empty(struct rs_table_file *file, const char *table,
                                                    bool *is_empty_p, struct rs_err *err);
/* With status RS_OK the file appears; otherwise nothing remains of it. Returns the status, or its own failure. */
RS_MUST_CHECK enum rs_status rs_table_file_close(struct rs_table_file **file_p,
                                                 enum rs_status status, struct rs_err *err);
/* Closes without a file; NULL is allowed. */
void rs_table_file_discard(struct rs_table_file **file_p);

/* Rows on their way into one table: collected, and put when there are enough. Zeroed with `table` set: none. */
struct rs_table_rows {
    const struct rs_table *table;
    struct rs_block block;
};
/* A new row, all absent, until the next call; NULL: no memory, or what put() said in `err`. Texts are set by
 * rs_block_text(&rows->block, ...). */
void *rs_table_rows_add(struct rs_table_rows *rows, struct rs_table_file *file, struct rs_err *err);
/* Puts what is left. Status of the last failure. */
RS_MUST_CHECK enum rs_status rs_table_rows_flush(struct rs_table_rows *rows,
                                                 struct rs_table_file *file, struct rs_err *err);
void rs_table_rows_fini(struct rs_table_rows *rows);

#endif
