/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of a capture: written by units, asked by named reads. SQLite inside, or ClickHouse (clickhouse.h); no type of either is named here.
 *
 *     begin(unit) -> put(row structs) ... -> commit            one writer at a time
 *     read_open(read, capture) -> next(block of rows) ...      any number of readers, each its own store handle
 *
 * A *unit* (a part of a rank, a step, or what is said of the capture once) is replaced as a whole: a reader sees
 * all of it or nothing, and after a crash what was committed is there. write_unit says which generation counts.
 * op_member is not a SQL table but columnar segments (MEMBERS.md), a step each, read through a virtual table, so
 * the same SQL runs everywhere.
 *
 *     private   in memory, of one thread: documents of `analyse` and `report`
 *     write     DIR/rows.db (WAL while open, one plain file afterwards), DIR/members/STEP.GENERATION.seg
 *     read      the same, read-only, from any thread or process, also while a writer writes
 *
 * A handle belongs to one thread. The rows of a write store are derived: they can be made again from the summaries.
 */
#ifndef RS_STORE_ROW_STORE_H
#define RS_STORE_ROW_STORE_H

#include "aggregator/model/reads.h"

struct rs_row_store;

enum rs_row_mode { RS_ROWS_PRIVATE, RS_ROWS_WRITE, RS_ROWS_READ };

/* `dir` (which exists; NULL when private). RS_NOTFOUND (to read: nothing was written), RS_EXISTS (somebody else writes it),
 * RS_VERSION (made by another version: make the rows again), RS_FORMAT, RS_IO, RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_row_store_open(const char *dir, enum rs_row_mode mode,
                                               struct rs_row_store **store_p, struct rs_err *err);
/* Whether the folder is of a capture that goes on: rows of what was joined so far are in it, and it is not closed. */
bool rs_row_store_is_joining(const char *dir);
/* The rows in the folder go; they can be made again. Nobody writes them; who reads them goes on. */
void rs_row_store_remove(const char *dir);
/* Rows that were written into `from`, a folder beside `dir`, become those of `dir`, all of them or none. Those that were there go.
 * Nobody writes or reads either. RS_IO, RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_row_store_move(const char *from, const char *dir,
                                               struct rs_err *err);
/* No writer or cursor of it is open (checked: a bug). NULL is allowed. */
void rs_row_store_close(struct rs_row_store **store_p);

/* --- writing ------------------------------------------------------------------------------------------ */

struct rs_unit {
    int64_t capture;
    enum rs_unit_kind kind;
    int64_t a, b; /* rank and part; step and 0; 0 and 0 */
};
struct rs_writer;

/* No other writer and, of a private store, no cursor is open (checked: a bug). RS_IO, RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_store_begin(struct rs_row_store *store, const struct rs_unit *unit,
                                            struct rs_writer **writer_p, struct rs_err *err);
/* Rows of this unit (checked in debug builds), their texts lent for the call. A table may be put several times;
 * members come in the order of their key (RS_INVALID). After a failure only rs_writer_abandon(). */
RS_MUST_CHECK enum rs_status rs_writer_put(struct rs_writer *writer, const struct rs_table *table,
                                           const void *rows, size_t count, struct rs_err *err);
/* Replaces what the unit held; the writer is gone in any case. */
RS_MUST_CHECK enum rs_status rs_writer_commit(struct rs_writer **writer_p, struct rs_err *err);
/* From now on units that are committed may count later, and many at once: an engine far away is asked less often. Who reads through
 * this handle sees them. */
void rs_row_store_hold(struct rs_row_store *store);
/* All of them count. When it fails some do and some do not, each whole: write all of them again. */
RS_MUST_CHECK enum rs_status rs_row_store_release(struct rs_row_store *store, struct rs_err *err);
/* What was committed since rs_row_store_hold() is all of the capture: other units of it go, as when each were replaced by nothing. */
RS_MUST_CHECK enum rs_status rs_row_store_is_all(struct rs_row_store *store, int64_t capture,
                                                 struct rs_err *err);
/* Nothing changed; NULL is allowed. */
void rs_writer_abandon(struct rs_writer **writer_p);

/* Every unit of a capture from one store into another, whichever engines they are; a unit that is there is replaced, those that `from`
 * does not have go at the end. RS_OK: all of it. *rows_p: how many were copied, also on failure. */
RS_MUST_CHECK enum rs_status rs_row_store_copy(struct rs_row_store *from, struct rs_row_store *to,
                                               int64_t capture, uint64_t *rows_p,
                                               struct rs_err *err);

/* The same into the folder of a capture, aside first, so that its rows are those of before or all of these. An aggregator that has the
 * folder makes rows in it, too, under a name of its own. */
struct rs_row_copy_into {
    struct rs_row_store *from;
    int64_t capture;
    const char *dir;
    void (*print)(void *self, const char *line); /* of each copy that was killed, and is removed */
    void *self;
};
RS_MUST_CHECK enum rs_status rs_row_store_copy_into(const struct rs_row_copy_into *copy,
                                                    uint64_t *rows_p, struct rs_err *err);

/* --- reading ------------------------------------------------------------------------------------------ */

enum { RS_CURSOR_ROWS = 4096, RS_TOKEN_BYTES = 64 };

struct rs_read_args {
    int64_t capture;
    const char *token; /* of rs_cursor_token(), of the same filter; NULL: from the start */
    struct rs_read_filter filter;
};
struct rs_cursor;

/* All reads that are open at once on one handle see the same rows. RS_AGAIN: the token is of other rows than are
 * there now: start again. RS_INVALID: it is no token, or the read has no such filter. RS_FORMAT, RS_IO, RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_read_open(struct rs_row_store *store, enum rs_read read,
                                          const struct rs_read_args *args,
                                          struct rs_cursor **cursor_p, struct rs_err *err);
/* The next rows, at most RS_CURSOR_ROWS; replaces what `block` held. RS_END: there are no more (then it is empty). */
RS_MUST_CHECK enum rs_status rs_cursor_next(struct rs_cursor *cursor, struct rs_block *block,
                                            struct rs_err *err);
/* Where this read stands: opens it again at the next row, with another handle, too, as long as nothing is written. */
void rs_cursor_token(const struct rs_cursor *cursor, char token[RS_TOKEN_BYTES]);
/* The same `rows` rows before that; it has handed out as many (checked: a bug). */
void rs_cursor_token_before(const struct rs_cursor *cursor, uint64_t rows,
                            char token[RS_TOKEN_BYTES]);
/* "N.ROWS", what tokens of reads look like; false: it is something else. */
bool rs_read_place(const char *token, int64_t *first_p, uint64_t *rows_p);
void rs_cursor_close(struct rs_cursor **cursor_p);

#endif
