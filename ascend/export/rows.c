/* SPDX-License-Identifier: Apache-2.0 */
#include "ascend/export/rows.h"

#include "common/base/check.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#include <sqlite3.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static enum rs_status failed(const struct db_rows *rows, struct rs_err *err)
{
    const int code = sqlite3_errcode(rows->handle);
    return rs_err_set(err, code == SQLITE_NOMEM ? RS_NOMEM : RS_IO, "cannot write %s: %s",
                      rows->path, sqlite3_errmsg(rows->handle));
}

enum rs_status db_run(struct db_rows *rows, const char *sql, struct rs_err *err)
{
    return sqlite3_exec(rows->handle, sql, NULL, NULL, NULL) == SQLITE_OK ? RS_OK
                                                                          : failed(rows, err);
}

enum rs_status db_create(struct db_rows *rows, const char *dir, const char *name,
                         struct rs_err *err)
{
    *rows = (struct db_rows){0};
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    char hidden[96];
    (void)snprintf(hidden, sizeof hidden, ".%s.tmp-%ld", name, (long)getpid());
    rows->path = rs_file_join(dir, name);
    rows->temporary = rs_file_join(dir, hidden);
    if (!rows->path || !rows->temporary)
        return rs_err_set(err, RS_NOMEM, "no memory to write %s", name);
    (void)unlink(rows->temporary);
    if (sqlite3_open_v2(rows->temporary, &rows->handle, flags, NULL) != SQLITE_OK)
        return rows->handle ? failed(rows, err)
                            : rs_err_set(err, RS_NOMEM, "no memory for %s", rows->path);
    const enum rs_status status = rs_file_set_mode(rows->temporary, err);
    if (status != RS_OK)
        return status;
    return db_run(rows,
                  "PRAGMA page_size=4096; PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; "
                  "PRAGMA locking_mode=EXCLUSIVE; PRAGMA cache_size=-8192; BEGIN",
                  err);
}

enum rs_status db_tables(struct db_rows *rows, const struct db_table *tables, size_t count,
                         struct rs_err *err)
{
    static const char marks[] = "?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?";
    RS_CHECK(count <= DB_TABLES_MAX);
    for (; rows->count < count; rows->count++) {
        const struct db_table *table = &tables[rows->count];
        char text[160];
        RS_CHECK(table->columns <= DB_COLUMNS_MAX);
        (void)snprintf(text, sizeof text, "INSERT INTO %s VALUES (%.*s)", table->name,
                       2 * table->columns - 1, marks);
        if (sqlite3_prepare_v2(rows->handle, text, -1, &rows->inserts[rows->count], NULL) !=
            SQLITE_OK)
            return failed(rows, err);
    }
    return RS_OK;
}

enum rs_status db_is_empty(struct db_rows *rows, const char *table, bool *is_empty_p,
                           struct rs_err *err)
{
    sqlite3_stmt *statement = NULL;
    char sql[160];
    (void)snprintf(sql, sizeof sql, "SELECT 1 FROM %s LIMIT 1", table);
    if (sqlite3_prepare_v2(rows->handle, sql, -1, &statement, NULL) != SQLITE_OK)
        return failed(rows, err);
    const int code = sqlite3_step(statement);
    (void)sqlite3_finalize(statement);
    *is_empty_p = code == SQLITE_DONE;
    return code == SQLITE_DONE || code == SQLITE_ROW ? RS_OK : failed(rows, err);
}

enum rs_status db_close(struct db_rows *rows, enum rs_status status, struct rs_err *err)
{
    if (status == RS_OK)
        status = db_run(rows, "COMMIT", err);
    for (size_t i = 0; i < rows->count; i++)
        (void)sqlite3_finalize(rows->inserts[i]);
    if (sqlite3_close(rows->handle) != SQLITE_OK && status == RS_OK)
        status = rs_err_set(err, RS_IO, "cannot close %s", rows->path);
    if (status == RS_OK && rename(rows->temporary, rows->path) != 0)
        status = rs_err_errno(err, "cannot rename to %s", rows->path);
    if (status != RS_OK && rows->temporary)
        (void)unlink(rows->temporary);
    rs_mem_free(rows->path);
    rs_mem_free(rows->temporary);
    *rows = (struct db_rows){0};
    return status;
}

void db_discard(struct db_rows *rows)
{
    struct rs_err ignored;
    const enum rs_status status = db_close(rows, RS_CANCELLED, &ignored);
    RS_CHECK(status == RS_CANCELLED);
}

struct db_row db_row_begin(const struct db_rows *rows, size_t table)
{
    RS_CHECK(table < rows->count);
    return (struct db_row){.insert = rows->inserts[table]};
}

void db_row_int(struct db_row *row, int64_t value, bool is_known)
{
    row->column++;
    if (is_known && sqlite3_bind_int64(row->insert, row->column, value) != SQLITE_OK)
        row->has_failed = true;
}

void db_row_bytes(struct db_row *row, const char *text, size_t length)
{
    row->column++;
    if (text && sqlite3_bind_text64(row->insert, row->column, text, length, SQLITE_STATIC,
                                    SQLITE_UTF8) != SQLITE_OK)
        row->has_failed = true;
}

void db_row_text(struct db_row *row, const char *text)
{
    db_row_bytes(row, text, text ? strlen(text) : 0);
}

void db_row_decimal(struct db_row *row, const char *digits, bool is_known)
{
    row->column++;
    if (is_known &&
        sqlite3_bind_double(row->insert, row->column, strtod(digits, NULL)) != SQLITE_OK)
        row->has_failed = true;
}

enum rs_status db_row_end(const struct db_rows *rows, struct db_row *row, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    const int code = row->has_failed ? SQLITE_ERROR : sqlite3_step(row->insert);
    if (code == SQLITE_CONSTRAINT)
        status = rs_err_set(err, RS_EXISTS, "%s: a row of this key is there", rows->path);
    else if (code != SQLITE_DONE)
        status = failed(rows, err);
    (void)sqlite3_reset(row->insert);
    (void)sqlite3_clear_bindings(row->insert);
    return status;
}
