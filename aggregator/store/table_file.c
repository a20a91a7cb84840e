/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/store/table_file.h"

#include "aggregator/store/sqlite_priv.h"
#include "common/base/check.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { TABLES_MAX = 128, ROWS_AT_ONCE = 1024 };

struct rs_table_file {
    sqlite3 *db;
    char *path, *temporary;
    struct rows_source *sources[TABLES_MAX];
    size_t count;
};

static enum rs_status failed(const struct rs_table_file *file, struct rs_err *err)
{
    const int code = sqlite3_errcode(file->db);
    if (code == SQLITE_CONSTRAINT)
        return rs_err_set(err, RS_EXISTS, "%s: %s", file->path, sqlite3_errmsg(file->db));
    return rs_err_set(err, code == SQLITE_NOMEM ? RS_NOMEM : RS_IO, "cannot write %s: %s",
                      file->path, sqlite3_errmsg(file->db));
}

enum rs_status rs_table_file_run(struct rs_table_file *file, const char *sql, struct rs_err *err)
{
    return sqlite3_exec(file->db, sql, NULL, NULL, NULL) == SQLITE_OK ? RS_OK : failed(file, err);
}

static enum rs_status open_file(struct rs_table_file *file, const char *dir, const char *name,
                                struct rs_err *err)
{
    char hidden[96];
    (void)snprintf(hidden, sizeof hidden, ".%s.tmp-%ld", name, (long)getpid());
    file->path = rs_file_join(dir, name);
    file->temporary = rs_file_join(dir, hidden);
    if (!file->path || !file->temporary)
        return rs_err_set(err, RS_NOMEM, "no memory to write %s", name);
    /* What lies there under our own process id was left by a dead process that had it before. */
    (void)unlink(file->temporary);
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    if (sqlite3_open_v2(file->temporary, &file->db, flags, NULL) != SQLITE_OK)
        return file->db ? failed(file, err)
                        : rs_err_set(err, RS_NOMEM, "no memory for %s", file->path);
    const enum rs_status status = rs_file_set_mode(file->temporary, err);
    if (status != RS_OK)
        return status;
    return rs_table_file_run(
        file,
        "PRAGMA page_size=4096; PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; "
        "PRAGMA locking_mode=EXCLUSIVE; PRAGMA cache_size=-8192; BEGIN",
        err);
}

enum rs_status rs_table_file_create(const char *dir, const char *name,
                                    struct rs_table_file **file_p, struct rs_err *err)
{
    struct rs_table_file *file = rs_mem_calloc(1, sizeof *file);
    if (!file)
        return rs_err_set(err, RS_NOMEM, "no memory to write %s", name);
    const enum rs_status status = open_file(file, dir, name, err);
    if (status == RS_OK)
        *file_p = file;
    else
        rs_table_file_discard(&file);
    return status;
}

enum rs_status rs_table_file_add_rows_of(struct rs_table_file *file, const struct rs_table *table,
                                         struct rs_err *err)
{
    if (file->count == TABLES_MAX)
        return rs_err_set(err, RS_LIMIT, "%s: more than %d tables", file->path, TABLES_MAX);
    struct rows_source *source = rs_mem_calloc(1, sizeof *source);
    if (!source)
        return rs_err_set(err, RS_NOMEM, "no memory to write %s", file->path);
    file->sources[file->count++] = source;
    return rows_source_attach(file->db, source, table) == SQLITE_OK ? RS_OK : failed(file, err);
}

enum rs_status rs_table_file_add_table(struct rs_table_file *file, const struct rs_table *table,
                                       struct rs_err *err)
{
    struct rs_buf sql = {0};
    rs_sql_create(table, RS_SQLITE, &sql);
    enum rs_status status = sql.failed
                                ? rs_err_set(err, RS_NOMEM, "no memory to write %s", file->path)
                                : rs_table_file_run(file, rs_buf_text(&sql), err);
    rs_buf_fini(&sql);
    return status == RS_OK ? rs_table_file_add_rows_of(file, table, err) : status;
}

enum rs_status rs_table_file_put(struct rs_table_file *file, const struct rs_table *table,
                                 const void *rows, size_t count, struct rs_err *err)
{
    size_t at = 0;
    while (at < file->count && file->sources[at]->table != table)
        at++;
    RS_CHECK(at < file->count);
    return !count || rows_source_insert(file->sources[at], rows, count) == SQLITE_OK
               ? RS_OK
               : failed(file, err);
}

enum rs_status rs_table_file_is_empty(struct rs_table_file *file, const char *table,
                                      bool *is_empty_p, struct rs_err *err)
{
    sqlite3_stmt *statement = NULL;
    char sql[160];
    (void)snprintf(sql, sizeof sql, "SELECT 1 FROM %s LIMIT 1", table);
    if (sqlite3_prepare_v2(file->db, sql, -1, &statement, NULL) != SQLITE_OK)
        return failed(file, err);
    const int code = sqlite3_step(statement);
    (void)sqlite3_finalize(statement);
    *is_empty_p = code == SQLITE_DONE;
    return code == SQLITE_DONE || code == SQLITE_ROW ? RS_OK : failed(file, err);
}

enum rs_status rs_table_file_close(struct rs_table_file **file_p, enum rs_status status,
                                   struct rs_err *err)
{
    struct rs_table_file *file = *file_p;
    if (!file)
        return status;
    if (status == RS_OK)
        status = rs_table_file_run(file, "COMMIT", err);
    for (size_t i = 0; i < file->count; i++)
        (void)sqlite3_finalize(file->sources[i]->insert);
    if (sqlite3_close(file->db) != SQLITE_OK && status == RS_OK)
        status = rs_err_set(err, RS_IO, "cannot close %s", file->path);
    if (status == RS_OK && rename(file->temporary, file->path) != 0)
        status = rs_err_errno(err, "cannot rename to %s", file->path);
    if (status != RS_OK && file->temporary)
        (void)unlink(file->temporary);
    for (size_t i = 0; i < file->count; i++)
        rs_mem_free(file->sources[i]);
    rs_mem_free(file->path);
    rs_mem_free(file->temporary);
    rs_mem_free(file);
    *file_p = NULL;
    return status;
}

void rs_table_file_discard(struct rs_table_file **file_p)
{
    const enum rs_status status = rs_table_file_close(file_p, RS_CANCELLED, NULL);
    RS_CHECK(status == RS_CANCELLED);
}

/* --- rows on their way ---------------------------------------------------------------------------------- */

void *rs_table_rows_add(struct rs_table_rows *rows, struct rs_table_file *file, struct rs_err *err)
{
    if (!rows->block.table)
        rs_block_begin(&rows->block, rows->table);
    if (rows->block.count >= ROWS_AT_ONCE && rs_table_rows_flush(rows, file, err) != RS_OK)
        return NULL;
    void *row = rs_block_add(&rows->block);
    if (!row)
        (void)rs_err_set(err, RS_NOMEM, "no memory for rows of %s", rows->table->name);
    return row;
}

enum rs_status rs_table_rows_flush(struct rs_table_rows *rows, struct rs_table_file *file,
                                   struct rs_err *err)
{
    if (!rows->block.table)
        return RS_OK;
    enum rs_status status = RS_OK;
    if (rs_block_end(&rows->block) != RS_OK)
        status = rs_err_set(err, RS_NOMEM, "no memory for rows of %s", rows->table->name);
    if (status == RS_OK)
        status = rs_table_file_put(file, rows->table, rows->block.rows, rows->block.count, err);
    rs_block_begin(&rows->block, rows->table);
    return status;
}

void rs_table_rows_fini(struct rs_table_rows *rows)
{
    rs_block_fini(&rows->block);
}
