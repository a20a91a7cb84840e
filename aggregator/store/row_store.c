/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Units in, named reads out, over SQLite.
 *
 *     rs_store_begin      BEGIN IMMEDIATE; the rows that the unit held go
 *     rs_writer_put       INSERT .. SELECT from the row structs; members into a segment of a new generation
 *     rs_writer_commit    the segment becomes durable under its name; write_unit; COMMIT
 *     rs_read_open        BEGIN (the first of several), the list of segments as write_unit names them, prepare
 *     rs_cursor_next      step, at most 4,096 rows into a block
 *
 * A segment is durable before the row that names it, so a reader never misses one; a segment that nobody names
 * (a crash between the two, an older generation) is removed when the store is opened for writing and when it is
 * closed, but not before: a reader that began earlier may still map it.
 *
 * Whether a store's tables are ours as they are now is asked of their CREATE statements: other columns mean another
 * version, and rows can be made again.
 */
#include "aggregator/store/row_store.h"

#include "aggregator/store/clickhouse_priv.h"
#include "aggregator/store/members_priv.h"
#include "aggregator/store/row_unit_set.h"
#include "aggregator/store/sqlite_priv.h"
#include "common/base/check.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum { TABLES_MAX = 64, KEYS_MAX = 8 };

struct rs_row_store {
    enum rs_row_mode mode;
    sqlite3 *db;
    char *path, *members_dir;
    int lock_fd; /* of a writing store: the folder of members, locked */
    struct members members;
    struct rows_source sources[TABLES_MAX]; /* by place in rs_tables */
    sqlite3_stmt *put_unit, *get_unit, *list_segments;
    int64_t generation; /* the newest that was given */
    unsigned cursor_count;
    bool is_writing, is_held;
    struct unit_set written;             /* since rs_row_store_hold() */
    struct clickhouse_store *clickhouse; /* instead of all but the mode; NULL: rows are here */
};

struct rs_writer {
    struct rs_row_store *store;
    struct clickhouse_writer *clickhouse; /* as in the store */
    struct rs_unit unit;
    int64_t generation, rows;
    struct segment_writer segment;
    bool has_segment;
};

struct rs_cursor {
    struct rs_row_store *store;
    struct clickhouse_cursor *clickhouse; /* as in the store */
    const struct rs_table *result;
    sqlite3_stmt *statement;
    uint64_t rows; /* handed out, or skipped */
    int64_t keys[KEYS_MAX];
    int64_t counted; /* -1: no row yet */
    int64_t generation;
    bool is_done; /* stepping again would start anew */
};

/* --- SQLite ------------------------------------------------------------------------------------------- */

static enum rs_status failed(struct rs_row_store *store, struct rs_err *err)
{
    const int code = sqlite3_extended_errcode(store->db);
    if (store->members.err.status != RS_OK) { /* op_member's own words */
        const enum rs_status status = store->members.err.status;
        (void)rs_err_set(err, status, "%s", store->members.err.text);
        store->members.err = (struct rs_err){0};
        return status;
    }
    return rs_err_set(
        err,
        (code & 0xff) == SQLITE_NOMEM                                       ? RS_NOMEM
        : (code & 0xff) == SQLITE_CORRUPT || (code & 0xff) == SQLITE_NOTADB ? RS_FORMAT
                                                                            : RS_IO,
        "rows in %s: %s", store->path ? store->path : "memory", sqlite3_errmsg(store->db));
}

static enum rs_status run(struct rs_row_store *store, const char *sql, struct rs_err *err)
{
    return sqlite3_exec(store->db, sql, NULL, NULL, NULL) == SQLITE_OK ? RS_OK : failed(store, err);
}

static enum rs_status prepare(struct rs_row_store *store, const char *sql,
                              sqlite3_stmt **statement_p, struct rs_err *err)
{
    return sqlite3_prepare_v3(store->db, sql, -1, SQLITE_PREPARE_PERSISTENT, statement_p, NULL) ==
                   SQLITE_OK
               ? RS_OK
               : failed(store, err);
}

/* --- life: tables ---------------------------------------------------------------------------------------- */

static bool is_segmented(const struct rs_table *table)
{
    return table == &rs_table_op_member;
}

enum rs_unit_kind row_unit_kind(const struct rs_table *table, const struct rs_column *units[2])
{
    size_t count = 0;
    for (size_t i = 0; i < table->column_count; i++)
        if (table->columns[i].flags & RS_UNIT) {
            RS_CHECK(count < 2);
            units[count++] = &table->columns[i];
        }
    return count == 2 ? RS_UNIT_RANK : count == 1 ? RS_UNIT_STEP : RS_UNIT_CAPTURE;
}

static enum rs_status make_tables(struct rs_row_store *store, struct rs_err *err)
{
    struct rs_buf sql = {0};
    rs_buf_string(&sql, "BEGIN IMMEDIATE;");
    for (size_t i = 0; rs_tables[i]; i++)
        if (!is_segmented(rs_tables[i])) {
            rs_sql_create(rs_tables[i], RS_SQLITE, &sql);
            rs_buf_u8(&sql, ';');
        }
    rs_buf_string(&sql, "COMMIT");
    const enum rs_status status = sql.failed
                                      ? rs_err_set(err, RS_NOMEM, "no memory for tables of rows")
                                      : run(store, rs_buf_text(&sql), err);
    rs_buf_fini(&sql);
    return status;
}

/* RS_OK; RS_NOTFOUND: no table at all; RS_VERSION: others. */
static enum rs_status check_tables(struct rs_row_store *store, struct rs_err *err)
{
    sqlite3_stmt *statement = NULL;
    size_t found = 0, wanted = 0;
    enum rs_status status = prepare(
        store, "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?1", &statement, err);
    for (size_t i = 0; rs_tables[i] && status == RS_OK; i++) {
        struct rs_buf sql = {0};
        if (is_segmented(rs_tables[i]))
            continue;
        rs_sql_create(rs_tables[i], RS_SQLITE, &sql);
        wanted++;
        (void)sqlite3_bind_text(statement, 1, rs_tables[i]->name, -1, SQLITE_STATIC);
        const int code = sqlite3_step(statement);
        if (code == SQLITE_ROW) {
            const char *text = (const char *)sqlite3_column_text(statement, 0);
            if (text && strcmp(text, rs_buf_text(&sql)) == 0)
                found++;
            else
                status = rs_err_set(err, RS_VERSION,
                                    "rows in %s: table %s has other columns; make the rows again",
                                    store->path, rs_tables[i]->name);
        } else if (code != SQLITE_DONE) {
            status = failed(store, err);
        }
        (void)sqlite3_reset(statement);
        rs_buf_fini(&sql);
    }
    (void)sqlite3_finalize(statement);
    if (status != RS_OK || found == wanted)
        return status;
    return found ? rs_err_set(err, RS_VERSION,
                              "rows in %s: tables are missing; make the rows again", store->path)
                 : RS_NOTFOUND;
}

static enum rs_status prepare_writing(struct rs_row_store *store, struct rs_err *err)
{
    enum rs_status status =
        prepare(store,
                "INSERT OR REPLACE INTO write_unit (capture, unit_kind, a, b, generation, rows, "
                "members) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                &store->put_unit, err);
    if (status == RS_OK)
        status = prepare(store,
                         "SELECT members FROM write_unit WHERE capture = ?1 AND unit_kind = ?2 "
                         "AND a = ?3 AND b = ?4",
                         &store->get_unit, err);
    return status;
}

/* The statement that writes rows of a table, made when its first rows come: most units are of a few tables. */
static enum rs_status source_of(struct rs_row_store *store, const struct rs_table *table,
                                struct rows_source **source_p, struct rs_err *err)
{
    size_t at = 0;
    while (rs_tables[at] && rs_tables[at] != table)
        at++;
    RS_CHECK(rs_tables[at] && at < TABLES_MAX && table != &rs_table_write_unit);
    *source_p = &store->sources[at];
    return (*source_p)->insert || rows_source_attach(store->db, *source_p, table) == SQLITE_OK
               ? RS_OK
               : failed(store, err);
}

static enum rs_status read_newest(struct rs_row_store *store, int64_t *generation_p,
                                  struct rs_err *err)
{
    sqlite3_stmt *statement = NULL;
    enum rs_status status =
        prepare(store, "SELECT coalesce(max(generation), 0) FROM write_unit", &statement, err);
    if (status == RS_OK && sqlite3_step(statement) != SQLITE_ROW)
        status = failed(store, err);
    if (status == RS_OK)
        *generation_p = sqlite3_column_int64(statement, 0);
    (void)sqlite3_finalize(statement);
    return status;
}

/* --- life: folders ----------------------------------------------------------------------------------------- */

static bool is_named(struct rs_row_store *store, const char *name)
{
    char wanted[SEGMENT_NAME_MAX];
    (void)sqlite3_reset(store->list_segments);
    while (sqlite3_step(store->list_segments) == SQLITE_ROW) {
        segment_file_name(wanted, sqlite3_column_int64(store->list_segments, 1),
                          sqlite3_column_int64(store->list_segments, 2));
        if (strcmp(wanted, name) == 0)
            return true;
    }
    return false;
}

/* Segments that nobody names go; what is not a segment's name is not ours. */
static void sweep(struct rs_row_store *store)
{
    DIR *dir = opendir(store->members_dir);
    for (const struct dirent *item = dir ? rs_dir_next(dir) : NULL; item; item = rs_dir_next(dir)) {
        int64_t step, generation;
        char name[SEGMENT_NAME_MAX];
        /* NOLINTNEXTLINE(cert-err34-c): compared with what the numbers make */
        if (sscanf(item->d_name, "%" SCNd64 ".%" SCNd64 ".seg", &step, &generation) != 2)
            continue;
        segment_file_name(name, step, generation);
        if (strncmp(item->d_name, name, strlen(name)) == 0 && !is_named(store, item->d_name))
            (void)unlinkat(dirfd(dir), item->d_name, 0);
    }
    if (dir)
        (void)closedir(dir);
    (void)sqlite3_reset(store->list_segments);
}

static enum rs_status lock_folder(struct rs_row_store *store, struct rs_err *err)
{
    enum rs_status status = rs_file_make_dirs(store->members_dir, 0750, err);
    if (status != RS_OK)
        return status;
    store->lock_fd = open(store->members_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (store->lock_fd < 0)
        return rs_err_errno(err, "cannot open %s", store->members_dir);
    if (flock(store->lock_fd, LOCK_EX | LOCK_NB) != 0)
        return rs_err_set(err, RS_EXISTS, "somebody else writes rows into %s", store->members_dir);
    return RS_OK;
}

static enum rs_status name_files(struct rs_row_store *store, const char *dir, struct rs_err *err)
{
    if (store->mode == RS_ROWS_PRIVATE)
        return RS_OK;
    store->path = rs_file_join(dir, "rows.db");
    store->members_dir = rs_file_join(dir, "members");
    store->members.dir = store->members_dir ? rs_mem_strdup(store->members_dir) : NULL;
    if (!store->path || !store->members.dir)
        return rs_err_set(err, RS_NOMEM, "no memory for rows");
    if (store->mode == RS_ROWS_READ && access(store->path, F_OK) != 0)
        return rs_err_set(err, RS_NOTFOUND, "no rows were written in %s", dir);
    return store->mode == RS_ROWS_WRITE ? lock_folder(store, err) : RS_OK;
}

static enum rs_status open_db(struct rs_row_store *store, struct rs_err *err)
{
    const int flags = SQLITE_OPEN_NOMUTEX |
                      (store->mode == RS_ROWS_READ ? SQLITE_OPEN_READONLY
                                                   : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
    if (sqlite3_open_v2(store->path ? store->path : ":memory:", &store->db, flags, NULL) !=
        SQLITE_OK)
        return store->db ? failed(store, err) : rs_err_set(err, RS_NOMEM, "no memory for rows");
    if (store->mode == RS_ROWS_WRITE && store->path) {
        const enum rs_status status = rs_file_set_mode(store->path, err);
        if (status != RS_OK)
            return status;
    }
    (void)sqlite3_busy_timeout(store->db, 10000);
    if (members_attach(store->db, &store->members) != SQLITE_OK)
        return failed(store, err);
    if (store->mode == RS_ROWS_PRIVATE)
        return run(store, "PRAGMA journal_mode=MEMORY; PRAGMA synchronous=OFF", err);
    return store->mode == RS_ROWS_WRITE
               ? run(store, "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL", err)
               : RS_OK;
}

static enum rs_status open_store(struct rs_row_store *store, const char *dir, struct rs_err *err)
{
    enum rs_status status = name_files(store, dir, err);
    if (status == RS_OK)
        status = open_db(store, err);
    if (status == RS_OK) /* in memory it begins empty */
        status = store->path ? check_tables(store, err) : RS_NOTFOUND;
    if (status == RS_NOTFOUND && store->db && store->mode != RS_ROWS_READ)
        status = make_tables(store, err);
    else if (status == RS_NOTFOUND && store->db)
        status = rs_err_set(err, RS_NOTFOUND, "no rows were written in %s", dir);
    if (status == RS_OK)
        status = prepare(store,
                         "SELECT capture, a, generation, members FROM write_unit "
                         "WHERE unit_kind = 1 AND members > 0",
                         &store->list_segments, err);
    if (status == RS_OK && store->mode != RS_ROWS_READ)
        status = prepare_writing(store, err);
    if (status == RS_OK && store->mode != RS_ROWS_READ)
        status = read_newest(store, &store->generation, err);
    if (status == RS_OK && store->mode == RS_ROWS_WRITE)
        sweep(store);
    return status;
}

static bool has_file(const char *dir, const char *name)
{
    char *path = rs_file_join(dir, name);
    const bool is_there = path && access(path, F_OK) == 0;
    rs_mem_free(path);
    return is_there;
}

bool rs_row_store_is_joining(const char *dir)
{
    return has_file(dir, "rows.db") && !has_file(dir, "capture.db");
}

enum rs_status rs_row_store_open(const char *dir, enum rs_row_mode mode,
                                 struct rs_row_store **store_p, struct rs_err *err)
{
    struct rs_row_store *store = rs_mem_calloc(1, sizeof *store);
    if (!store)
        return rs_err_set(err, RS_NOMEM, "no memory for rows");
    store->mode = mode;
    store->lock_fd = -1;
    members_init(&store->members);
    const enum rs_status status = open_store(store, dir, err);
    if (status == RS_OK)
        *store_p = store;
    else
        rs_row_store_close(&store);
    return status;
}

enum rs_status rs_clickhouse_open(const struct rs_clickhouse_options *options, const char *capture,
                                  enum rs_row_mode mode, struct rs_row_store **store_p,
                                  struct rs_err *err)
{
    struct rs_row_store *store = rs_mem_calloc(1, sizeof *store);
    if (!store)
        return rs_err_set(err, RS_NOMEM, "no memory for rows");
    store->mode = mode;
    store->lock_fd = -1;
    members_init(&store->members);
    const enum rs_status status = clickhouse_open(options, capture, mode, &store->clickhouse, err);
    if (status == RS_OK)
        *store_p = store;
    else
        rs_row_store_close(&store);
    return status;
}

void rs_row_store_close(struct rs_row_store **store_p)
{
    struct rs_row_store *store = *store_p;
    if (!store)
        return;
    RS_CHECK(!store->cursor_count && !store->is_writing);
    clickhouse_close(&store->clickhouse);
    unit_set_fini(&store->written);
    if (store->mode == RS_ROWS_WRITE && store->list_segments)
        sweep(store);
    for (size_t i = 0; i < TABLES_MAX; i++)
        (void)sqlite3_finalize(store->sources[i].insert);
    (void)sqlite3_finalize(store->put_unit);
    (void)sqlite3_finalize(store->get_unit);
    (void)sqlite3_finalize(store->list_segments);
    /* One plain file, unless somebody reads it now: then it stays with its log, which is as good. */
    if (store->mode == RS_ROWS_WRITE && store->db)
        (void)sqlite3_exec(store->db, "PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode=DELETE",
                           NULL, NULL, NULL);
    (void)sqlite3_close(store->db);
    members_fini(&store->members);
    if (store->lock_fd >= 0)
        (void)close(store->lock_fd);
    rs_mem_free(store->path);
    rs_mem_free(store->members_dir);
    rs_mem_free(store);
    *store_p = NULL;
}

/* --- writing ------------------------------------------------------------------------------------------------ */

/* Was the unit written before? */
static enum rs_status ask_unit(struct rs_row_store *store, const struct rs_unit *unit,
                               bool *is_there_p, struct rs_err *err)
{
    (void)sqlite3_bind_int64(store->get_unit, 1, unit->capture);
    (void)sqlite3_bind_int64(store->get_unit, 2, unit->kind);
    (void)sqlite3_bind_int64(store->get_unit, 3, unit->a);
    (void)sqlite3_bind_int64(store->get_unit, 4, unit->b);
    const int code = sqlite3_step(store->get_unit);
    *is_there_p = code == SQLITE_ROW;
    (void)sqlite3_reset(store->get_unit);
    return code == SQLITE_ROW || code == SQLITE_DONE ? RS_OK : failed(store, err);
}

static enum rs_status delete_rows(struct rs_row_store *store, const struct rs_table *table,
                                  const struct rs_unit *unit, struct rs_err *err)
{
    const struct rs_column *units[2] = {NULL, NULL};
    struct rs_buf sql = {0};
    if (table == &rs_table_write_unit || is_segmented(table) ||
        row_unit_kind(table, units) != unit->kind)
        return RS_OK;
    rs_buf_printf(&sql, "DELETE FROM %s WHERE capture = %" PRId64, table->name, unit->capture);
    if (units[0])
        rs_buf_printf(&sql, " AND %s = %" PRId64, units[0]->name, unit->a);
    if (units[1])
        rs_buf_printf(&sql, " AND %s = %" PRId64, units[1]->name, unit->b);
    const enum rs_status status = sql.failed ? rs_err_set(err, RS_NOMEM, "no memory for rows")
                                             : run(store, rs_buf_text(&sql), err);
    rs_buf_fini(&sql);
    return status;
}

static void free_writer(struct rs_writer **writer_p)
{
    struct rs_writer *writer = *writer_p;
    writer->store->is_writing = false;
    clickhouse_writer_free(&writer->clickhouse);
    segment_writer_fini(&writer->segment);
    rs_mem_free(writer);
    *writer_p = NULL;
}

enum rs_status rs_store_begin(struct rs_row_store *store, const struct rs_unit *unit,
                              struct rs_writer **writer_p, struct rs_err *err)
{
    RS_CHECK(store->mode != RS_ROWS_READ && !store->is_writing && !store->cursor_count);
    struct rs_writer *writer = rs_mem_calloc(1, sizeof *writer);
    bool is_there = false;
    if (!writer)
        return rs_err_set(err, RS_NOMEM, "no memory for rows");
    writer->store = store;
    writer->unit = *unit;
    writer->generation = ++store->generation;
    store->is_writing = true;
    if (store->clickhouse) {
        const enum rs_status begun =
            clickhouse_begin(store->clickhouse, unit, &writer->clickhouse, err);
        if (begun == RS_OK)
            *writer_p = writer;
        else
            rs_writer_abandon(&writer);
        return begun;
    }
    enum rs_status status = run(store, "BEGIN IMMEDIATE", err);
    if (status == RS_OK)
        status = ask_unit(store, unit, &is_there, err);
    for (size_t i = 0; rs_tables[i] && is_there && status == RS_OK; i++)
        status = delete_rows(store, rs_tables[i], unit, err);
    if (status == RS_OK)
        *writer_p = writer;
    else
        rs_writer_abandon(&writer);
    return status;
}

#ifndef NDEBUG
static void check_unit(const struct rs_writer *writer, const struct rs_table *table,
                       const void *rows, size_t count)
{
    const struct rs_column *units[2] = {NULL, NULL};
    RS_CHECK(row_unit_kind(table, units) == writer->unit.kind);
    for (size_t i = 0; i < count; i++) {
        const void *row = (const char *)rows + i * table->row_bytes;
        RS_CHECK(rs_column_i64(&table->columns[0], row) == writer->unit.capture);
        RS_CHECK(!units[0] || rs_column_i64(units[0], row) == writer->unit.a);
        RS_CHECK(!units[1] || rs_column_i64(units[1], row) == writer->unit.b);
    }
}
#endif

enum rs_status rs_writer_put(struct rs_writer *writer, const struct rs_table *table,
                             const void *rows, size_t count, struct rs_err *err)
{
    struct rs_row_store *store = writer->store;
    struct rows_source *source = NULL;
#ifndef NDEBUG
    check_unit(writer, table, rows, count);
#endif
    if (!count)
        return RS_OK;
    if (writer->clickhouse)
        return clickhouse_put(writer->clickhouse, table, rows, count, err);
    writer->rows += (int64_t)count;
    if (is_segmented(table)) {
        if (!writer->has_segment)
            segment_begin(&writer->segment, writer->unit.capture, writer->unit.a,
                          writer->generation, store->mode == RS_ROWS_WRITE);
        writer->has_segment = true;
        return segment_put(&writer->segment, rows, count, err);
    }
    const enum rs_status status = source_of(store, table, &source, err);
    if (status != RS_OK)
        return status;
    return rows_source_insert(source, rows, count) == SQLITE_OK ? RS_OK : failed(store, err);
}

static enum rs_status write_segment(const struct rs_writer *writer, struct rs_err *err)
{
    char name[SEGMENT_NAME_MAX];
    segment_file_name(name, writer->unit.a, writer->generation);
    char *path = rs_file_join(writer->store->members_dir, name);
    if (!path)
        return rs_err_set(err, RS_NOMEM, "no memory for rows");
    const enum rs_status status =
        rs_file_replace(path, writer->segment.bytes.data, writer->segment.bytes.length, true, err);
    rs_mem_free(path);
    return status;
}

static enum rs_status put_unit(const struct rs_writer *writer, struct rs_err *err)
{
    struct rs_row_store *store = writer->store;
    const int64_t values[] = {writer->unit.capture,
                              writer->unit.kind,
                              writer->unit.a,
                              writer->unit.b,
                              writer->generation,
                              writer->rows,
                              writer->has_segment ? writer->segment.rows : 0};
    for (int i = 0; i < 7; i++)
        (void)sqlite3_bind_int64(store->put_unit, i + 1, values[i]);
    const int code = sqlite3_step(store->put_unit);
    (void)sqlite3_reset(store->put_unit);
    return code == SQLITE_DONE ? RS_OK : failed(store, err);
}

enum rs_status rs_writer_commit(struct rs_writer **writer_p, struct rs_err *err)
{
    struct rs_writer *writer = *writer_p;
    struct rs_row_store *store = writer->store;
    enum rs_status status = RS_OK;
    if (store->is_held &&
        unit_set_put(&store->written, &writer->unit, (struct unit_digest){0}) != RS_OK) {
        rs_writer_abandon(writer_p);
        return rs_err_set(err, RS_NOMEM, "no memory for rows");
    }
    if (writer->clickhouse) {
        status = clickhouse_commit(writer->clickhouse, err);
        rs_writer_abandon(writer_p);
        return status;
    }
    if (writer->has_segment)
        status = segment_end(&writer->segment, err);
    if (status == RS_OK && writer->has_segment && store->mode == RS_ROWS_WRITE)
        status = write_segment(writer, err);
    if (status == RS_OK)
        status = put_unit(writer, err);
    if (status == RS_OK)
        status = run(store, "COMMIT", err);
    if (status != RS_OK) {
        rs_writer_abandon(writer_p);
        return status;
    }
    if (store->mode == RS_ROWS_PRIVATE && writer->unit.kind == RS_UNIT_STEP) {
        if (writer->has_segment)
            status = members_add(&store->members, &writer->segment, writer->unit.capture,
                                 writer->unit.a, writer->generation, err);
        else
            members_remove(&store->members, writer->unit.a);
    }
    free_writer(writer_p);
    return status;
}

void rs_row_store_hold(struct rs_row_store *store)
{
    store->is_held = true;
    unit_set_fini(&store->written);
    if (store->clickhouse)
        clickhouse_hold(store->clickhouse);
}

enum rs_status rs_row_store_release(struct rs_row_store *store, struct rs_err *err)
{
    store->is_held = false;
    return store->clickhouse ? clickhouse_release(store->clickhouse, err) : RS_OK;
}

static enum rs_status remove_unit(struct rs_row_store *store, const struct rs_unit *unit,
                                  struct rs_err *err)
{
    struct rs_writer *writer = NULL;
    struct rs_buf sql = {0};
    if (store->clickhouse)
        return clickhouse_remove(store->clickhouse, unit, err);
    enum rs_status status = rs_store_begin(store, unit, &writer, err);
    if (status != RS_OK)
        return status;
    rs_buf_printf(&sql,
                  "DELETE FROM write_unit WHERE capture = %" PRId64 " AND unit_kind = %d AND a = "
                  "%" PRId64 " AND b = %" PRId64 "; COMMIT",
                  unit->capture, (int)unit->kind, unit->a, unit->b);
    status = sql.failed ? rs_err_set(err, RS_NOMEM, "no memory for rows")
                        : run(store, rs_buf_text(&sql), err);
    rs_buf_fini(&sql);
    if (status != RS_OK) {
        rs_writer_abandon(&writer);
        return status;
    }
    if (store->mode == RS_ROWS_PRIVATE && unit->kind == RS_UNIT_STEP)
        members_remove(&store->members, unit->a);
    free_writer(&writer);
    return RS_OK;
}

/* Those that are there and were not written. */
static enum rs_status find_others(struct rs_row_store *store, int64_t capture,
                                  struct unit_set *others, struct rs_err *err)
{
    const struct rs_read_args args = {.capture = capture};
    struct rs_cursor *cursor = NULL;
    struct rs_block block = {0};
    enum rs_status status = rs_read_open(store, RS_READ_WRITE_UNITS, &args, &cursor, err);
    while (status == RS_OK && (status = rs_cursor_next(cursor, &block, err)) == RS_OK)
        for (size_t i = 0; i < block.count && status == RS_OK; i++) {
            const struct rs_row_write_unit *row = rs_block_row(&block, i);
            const struct rs_unit unit = {.capture = capture,
                                         .kind = (enum rs_unit_kind)row->unit_kind,
                                         .a = row->a,
                                         .b = row->b};
            if (!unit_set_find(&store->written, row->unit_kind, row->a, row->b) &&
                unit_set_put(others, &unit, (struct unit_digest){0}) != RS_OK)
                status = rs_err_set(err, RS_NOMEM, "no memory for rows");
        }
    rs_cursor_close(&cursor);
    rs_block_fini(&block);
    return status == RS_END ? RS_OK : status;
}

enum rs_status rs_row_store_is_all(struct rs_row_store *store, int64_t capture, struct rs_err *err)
{
    struct unit_set others = {0};
    RS_CHECK(store->is_held);
    enum rs_status status = find_others(store, capture, &others, err);
    for (size_t i = 0; i < others.count && status == RS_OK; i++) {
        const struct rs_unit unit = {.capture = capture,
                                     .kind = (enum rs_unit_kind)others.items[i].kind,
                                     .a = others.items[i].a,
                                     .b = others.items[i].b};
        status = remove_unit(store, &unit, err);
    }
    unit_set_fini(&others);
    return status;
}

void rs_writer_abandon(struct rs_writer **writer_p)
{
    if (!*writer_p)
        return;
    if ((*writer_p)->store->db && !sqlite3_get_autocommit((*writer_p)->store->db))
        (void)sqlite3_exec((*writer_p)->store->db, "ROLLBACK", NULL, NULL, NULL);
    free_writer(writer_p);
}

/* --- reading ------------------------------------------------------------------------------------------------ */

/* The segments that count in this snapshot. A private store has its own, put in when they were written. */
static enum rs_status name_segments(struct rs_row_store *store, struct rs_err *err)
{
    if (store->mode == RS_ROWS_PRIVATE)
        return RS_OK;
    enum rs_status status = RS_OK;
    int code = SQLITE_DONE;
    members_round_begin(&store->members);
    while (status == RS_OK && (code = sqlite3_step(store->list_segments)) == SQLITE_ROW) {
        sqlite3_stmt *row = store->list_segments;
        status =
            members_map(&store->members, sqlite3_column_int64(row, 0), sqlite3_column_int64(row, 1),
                        sqlite3_column_int64(row, 2), sqlite3_column_int64(row, 3), err);
    }
    (void)sqlite3_reset(store->list_segments);
    members_round_end(&store->members);
    if (status == RS_OK && code != SQLITE_DONE)
        status = failed(store, err);
    return status;
}

/* The first of several reads makes the snapshot, the last one gives it up. */
static enum rs_status begin_reading(struct rs_row_store *store, struct rs_err *err)
{
    if (store->cursor_count++ || store->clickhouse)
        return RS_OK;
    enum rs_status status = run(store, "BEGIN", err);
    if (status == RS_OK)
        status = name_segments(store, err);
    return status;
}

static void end_reading(struct rs_row_store *store)
{
    if (!--store->cursor_count && store->db && !sqlite3_get_autocommit(store->db))
        (void)sqlite3_exec(store->db, "COMMIT", NULL, NULL, NULL);
}

enum rs_status row_store_lend(struct rs_row_store *store, sqlite3 **db_p, struct rs_err *err)
{
    if (store->clickhouse)
        return rs_err_set(err, RS_REFUSED, "rows in ClickHouse are asked there");
    *db_p = store->db;
    store->cursor_count++;
    /* what it sorts and keeps is counted, and no disk is filled; not to be changed in a transaction */
    enum rs_status status = run(store, "PRAGMA temp_store=MEMORY; BEGIN", err);
    return status == RS_OK ? name_segments(store, err) : status;
}

enum rs_status row_store_take_back(struct rs_row_store *store, struct rs_err *err)
{
    const struct rs_err members = store->members.err;
    store->members.err = (struct rs_err){0};
    end_reading(store);
    return members.status < 0 ? rs_err_set(err, members.status, "%s", members.text) : RS_OK;
}

/* Do the columns stand as the result has them? A read that does not fit is a bug of ours. */
static void check_columns(const struct rs_cursor *cursor)
{
    int at = 0;
    for (size_t i = 0; i < cursor->result->column_count; i++) {
        const struct rs_column *column = &cursor->result->columns[i];
        if (column->flags & RS_COUNTED)
            continue;
        const char *name = sqlite3_column_name(cursor->statement, at++);
        RS_CHECK(name && strcmp(name, column->name) == 0);
    }
    RS_CHECK(at == sqlite3_column_count(cursor->statement));
}

/* Counts operations, or whatever the key columns number. */
static void count_row(struct rs_cursor *cursor)
{
    size_t keys = 0;
    int at = 0;
    bool is_new = cursor->counted < 0;
    for (size_t i = 0; i < cursor->result->column_count; i++) {
        const struct rs_column *column = &cursor->result->columns[i];
        if (column->flags & RS_COUNTED)
            continue;
        if ((column->flags & RS_KEY) && column->kind == RS_I64 && keys < KEYS_MAX) {
            const int64_t key = sqlite3_column_int64(cursor->statement, at);
            is_new = is_new || cursor->keys[keys] != key;
            cursor->keys[keys++] = key;
        }
        at++;
    }
    cursor->counted += is_new;
    cursor->rows++;
}

bool rs_read_place(const char *token, int64_t *first_p, uint64_t *rows_p)
{
    char *end;
    if (*token != '-' && (*token < '0' || *token > '9'))
        return false;
    errno = 0;
    const long long first = strtoll(token, &end, 10);
    if (errno || *end != '.' || end[1] < '0' || end[1] > '9')
        return false;
    const unsigned long long rows = strtoull(end + 1, &end, 10);
    if (errno || *end)
        return false;
    *first_p = first;
    *rows_p = rows;
    return true;
}

static enum rs_status skip_to(struct rs_cursor *cursor, const char *token, struct rs_err *err)
{
    int64_t generation;
    uint64_t rows;
    if (!rs_read_place(token, &generation, &rows))
        return rs_err_set(err, RS_INVALID, "\"%.60s\" is no place in a read", token);
    if (generation != cursor->generation)
        return rs_err_set(err, RS_AGAIN, "rows were written since: read again from the start");
    while (cursor->rows < rows) {
        const int code = sqlite3_step(cursor->statement);
        if (code == SQLITE_DONE) {
            cursor->is_done = true;
            return RS_OK;
        }
        if (code != SQLITE_ROW)
            return failed(cursor->store, err);
        count_row(cursor);
    }
    return RS_OK;
}

static enum rs_status start_read(struct rs_cursor *cursor, enum rs_read read,
                                 const struct rs_read_args *args, struct rs_err *err)
{
    struct rs_row_store *store = cursor->store;
    struct rs_buf sql = {0};
    if (rs_read_is_raw(read))
        return rs_err_set(err, RS_INVALID, "%s: raw events are no rows of a store",
                          rs_read_def(read)->name);
    enum rs_status status = rs_read_check_filter(read, &args->filter, err);
    if (status != RS_OK)
        return status;
    rs_read_sql(read, &args->filter, &sql);
    status = sql.failed ? rs_err_set(err, RS_NOMEM, "no memory for a read")
                        : prepare(store, rs_buf_text(&sql), &cursor->statement, err);
    rs_buf_fini(&sql);
    if (status != RS_OK)
        return status;
    check_columns(cursor);
    (void)sqlite3_bind_int64(cursor->statement,
                             sqlite3_bind_parameter_index(cursor->statement, ":capture"),
                             args->capture);
    status = read_newest(store, &cursor->generation, err);
    return status == RS_OK && args->token ? skip_to(cursor, args->token, err) : status;
}

static enum rs_status start_remote(struct rs_cursor *cursor, enum rs_read read,
                                   const struct rs_read_args *args, struct rs_err *err)
{
    int64_t generation = 0;
    uint64_t rows = 0;
    if (args->token && !rs_read_place(args->token, &generation, &rows))
        return rs_err_set(err, RS_INVALID, "\"%.60s\" is no place in a read", args->token);
    const enum rs_status status = clickhouse_read(cursor->store->clickhouse, read, args,
                                                  &cursor->clickhouse, &cursor->generation, err);
    if (status == RS_OK && args->token && generation != cursor->generation)
        return rs_err_set(err, RS_AGAIN, "rows were written since: read again from the start");
    if (status == RS_OK)
        clickhouse_skip(cursor->clickhouse, rows);
    cursor->rows = rows;
    return status;
}

enum rs_status rs_read_open(struct rs_row_store *store, enum rs_read read,
                            const struct rs_read_args *args, struct rs_cursor **cursor_p,
                            struct rs_err *err)
{
    RS_CHECK(!store->is_writing);
    struct rs_cursor *cursor = rs_mem_calloc(1, sizeof *cursor);
    if (!cursor)
        return rs_err_set(err, RS_NOMEM, "no memory for a read");
    *cursor =
        (struct rs_cursor){.store = store, .result = rs_read_def(read)->result, .counted = -1};
    enum rs_status status = begin_reading(store, err);
    if (status == RS_OK)
        status = store->clickhouse ? start_remote(cursor, read, args, err)
                                   : start_read(cursor, read, args, err);
    if (status == RS_OK)
        *cursor_p = cursor;
    else
        rs_cursor_close(&cursor);
    return status;
}

static void put_cell(const struct rs_cursor *cursor, int at, const struct rs_column *column,
                     void *row, struct rs_block *block)
{
    sqlite3_stmt *statement = cursor->statement;
    if (sqlite3_column_type(statement, at) == SQLITE_NULL)
        return;
    switch ((enum rs_column_kind)column->kind) {
    case RS_I64:
        rs_column_set_i64(column, row, sqlite3_column_int64(statement, at));
        return;
    case RS_F64:
        rs_column_set_f64(column, row, sqlite3_column_double(statement, at));
        return;
    case RS_TEXT:
    case RS_DECIMAL: {
        const char *text = (const char *)sqlite3_column_text(statement, at);
        if (text)
            rs_block_set_text(block, column, row, text,
                              (size_t)sqlite3_column_bytes(statement, at));
    }
    }
}

enum rs_status rs_cursor_next(struct rs_cursor *cursor, struct rs_block *block, struct rs_err *err)
{
    int code = SQLITE_ROW;
    if (cursor->clickhouse) {
        const enum rs_status status = clickhouse_next(cursor->clickhouse, block, err);
        cursor->rows += block->count;
        return status;
    }
    rs_block_begin(block, cursor->result);
    while (!cursor->is_done && block->count < RS_CURSOR_ROWS &&
           (code = sqlite3_step(cursor->statement)) == SQLITE_ROW) {
        int at = 0;
        count_row(cursor);
        void *row = rs_block_add(block);
        for (size_t i = 0; row && i < cursor->result->column_count; i++) {
            const struct rs_column *column = &cursor->result->columns[i];
            if (column->flags & RS_COUNTED)
                rs_column_set_i64(column, row, cursor->counted);
            else
                put_cell(cursor, at++, column, row, block);
        }
        if (!row)
            break;
    }
    if (rs_block_end(block) != RS_OK)
        return rs_err_set(err, RS_NOMEM, "no memory for rows");
    if (code != SQLITE_ROW && code != SQLITE_DONE) {
        block->count = 0;
        return failed(cursor->store, err);
    }
    cursor->is_done = cursor->is_done || code == SQLITE_DONE;
    return block->count ? RS_OK : RS_END;
}

void rs_cursor_token_before(const struct rs_cursor *cursor, uint64_t rows,
                            char token[RS_TOKEN_BYTES])
{
    RS_CHECK(rows <= cursor->rows);
    (void)snprintf(token, RS_TOKEN_BYTES, "%" PRId64 ".%" PRIu64, cursor->generation,
                   cursor->rows - rows);
}

void rs_cursor_token(const struct rs_cursor *cursor, char token[RS_TOKEN_BYTES])
{
    rs_cursor_token_before(cursor, 0, token);
}

void rs_cursor_close(struct rs_cursor **cursor_p)
{
    struct rs_cursor *cursor = *cursor_p;
    if (!cursor)
        return;
    (void)sqlite3_finalize(cursor->statement);
    clickhouse_read_close(&cursor->clickhouse);
    end_reading(cursor->store);
    rs_mem_free(cursor);
    *cursor_p = NULL;
}
