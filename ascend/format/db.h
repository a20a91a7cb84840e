/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One database of a rank (profiler database, analysis.db, communication_analyzer.db), read only.
 *
 * Opening never alters the input: no journal is rolled back, no -shm is made. A database in
 * WAL mode (a viewer has opened it) is read in place when nothing waits in its -wal, else from
 * a private copy that disappears with rs_ascend_db_close(). In a folder that we may not write,
 * SQLite is told that the file does not change.
 *
 * Tables and columns are optional in every generation of the format: ask by name, never by
 * position. Only real tables count; a view of the same name does not.
 *
 * A handle belongs to one thread at a time. Statements are the caller's to finalize before close.
 */
#ifndef RS_ASCEND_FORMAT_DB_H
#define RS_ASCEND_FORMAT_DB_H

#include "ascend/format/format.h"
#include "common/base/err.h"
#include "common/base/time.h"

#include <stdbool.h>
#include <stdint.h>

struct rs_ascend_db;
struct sqlite3;
struct sqlite3_stmt;

/* RS_NOTFOUND; RS_FORMAT: not SQLite, cut off, damaged, or left in the middle of a write; RS_IO:
 * cannot be read, or busy for longer than 2 s. The sentence names the file. */
RS_MUST_CHECK enum rs_status rs_ascend_db_open(const char *path, struct rs_ascend_db **db_p,
                                               struct rs_err *err);
void rs_ascend_db_close(struct rs_ascend_db **db);

/* The connection, for functions of one's own; read only all the same. Lends until close. */
struct sqlite3 *rs_ascend_db_sqlite(struct rs_ascend_db *db);
const char *rs_ascend_db_path(const struct rs_ascend_db *db);   /* lends */
const char *rs_ascend_db_schema(const struct rs_ascend_db *db); /* "main" of what was opened */
bool rs_ascend_db_is_utf8(const struct rs_ascend_db *db);       /* as it is stored; else UTF-16 */

/* Makes the file the schema `schema` of somebody else's connection (opened with SQLITE_OPEN_URI), read only, after the same
 * looks as rs_ascend_db_open; for rs_ascend_rows_open() and what goes by it. RS_INVALID: it has to be opened (a -wal waits, or
 * it is UTF-16); else as open. The host trusts no schema any more. Keeps pointers to `host` and `schema`; rs_ascend_db_close()
 * leaves it attached. */
RS_MUST_CHECK enum rs_status rs_ascend_db_attach(const char *path, struct sqlite3 *host,
                                                 const char *schema, struct rs_ascend_db **db_p,
                                                 struct rs_err *err);

/* SQLite keeps no account of its memory in this process, which costs all threads one lock at each allocation. For a command
 * that reads many databases, before its first one; later it does nothing. */
void rs_ascend_db_spare_locks(void);

bool rs_ascend_db_has_table(struct rs_ascend_db *db, const char *table);
/* False when the table is not there either. */
bool rs_ascend_db_has_column(struct rs_ascend_db *db, const char *table, const char *column);

/* A statement; finalize it with rs_ascend_db_finish(). RS_FORMAT with SQLite's words and the file. */
RS_MUST_CHECK enum rs_status rs_ascend_db_prepare(struct rs_ascend_db *db, const char *sql,
                                                  struct sqlite3_stmt **stmt_p, struct rs_err *err);
/* RS_OK: a row is there. RS_END: no more. Else as open. */
RS_MUST_CHECK enum rs_status rs_ascend_db_step(struct rs_ascend_db *db, struct sqlite3_stmt *stmt,
                                               struct rs_err *err);
void rs_ascend_db_finish(struct sqlite3_stmt **stmt); /* NULL inside is fine */

/* A column as an exact integer: INTEGER as it is, TEXT of digits parsed, REAL only when it is
 * whole. False for NULL and all else. */
bool rs_ascend_column_int(struct sqlite3_stmt *stmt, int column, int64_t *value_p);
/* Never NULL: "" for NULL. Lends until the next step. */
const char *rs_ascend_column_text(struct sqlite3_stmt *stmt, int column);

/* META_DATA's value of this name as a copy (rs_mem_free). RS_NOTFOUND: not there. */
RS_MUST_CHECK enum rs_status rs_ascend_db_meta(struct rs_ascend_db *db, const char *name,
                                               char **value_p, struct rs_err *err);
/* What META_DATA says about groups and sizes. RS_NOTFOUND: none of it. */
RS_MUST_CHECK enum rs_status rs_ascend_db_metadata(struct rs_ascend_db *db,
                                                   struct rs_ascend_metadata *meta_p,
                                                   struct rs_err *err);

/* First row of RANK_DEVICE_MAP. RS_NOTFOUND: none. */
RS_MUST_CHECK enum rs_status rs_ascend_db_rank(struct rs_ascend_db *db, int64_t *rank_p,
                                               int64_t *device_p, struct rs_err *err);
/* First row of HOST_INFO, both as copies. RS_NOTFOUND: none. */
RS_MUST_CHECK enum rs_status rs_ascend_db_host(struct rs_ascend_db *db, char **uid_p, char **name_p,
                                               struct rs_err *err);

/* Does an integer in this column stand for a text of STRING_IDS? */
bool rs_ascend_is_text_id(const char *table, const char *column);

/* A table of (integer id, text): STRING_IDS and every ENUM_*. */
struct rs_ascend_names {
    int64_t *ids;  /* [slot_count] open addressing */
    size_t *texts; /* [slot_count] offset into bytes + 1; 0: the slot is free */
    size_t slot_count;
    size_t count;
    char *bytes;
    size_t length, capacity;
};

/* A table that is not there gives an empty set. RS_LIMIT beyond 1 GiB of text. */
RS_MUST_CHECK enum rs_status rs_ascend_names_load(struct rs_ascend_db *db, const char *table,
                                                  struct rs_ascend_names *names_p,
                                                  struct rs_err *err);
void rs_ascend_names_fini(struct rs_ascend_names *names);
/* NULL: no such id. Lends until _fini. */
const char *rs_ascend_names_find(const struct rs_ascend_names *names, int64_t id);

#endif
