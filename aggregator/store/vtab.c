/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/store/vtab.h"

#include "aggregator/store/sqlite_priv.h"
#include "common/base/buf.h"
#include "common/base/mem.h"

struct vtab {
    sqlite3_vtab base; /* first: SQLite's */
    const struct rs_vtab_source *source;
};

struct vtab_cursor {
    sqlite3_vtab_cursor base; /* first: SQLite's */
    size_t at;
};

void sqlite_answer(sqlite3_context *context, struct rs_cell cell)
{
    switch (cell.kind) {
    case RS_CELL_NULL:
        break;
    case RS_CELL_INT:
        sqlite3_result_int64(context, cell.value.whole);
        break;
    case RS_CELL_REAL:
        sqlite3_result_double(context, cell.value.real); /* NaN is NULL there, too */
        break;
    case RS_CELL_TEXT:
        sqlite3_result_text(context, cell.value.text, cell.length, SQLITE_STATIC);
        break;
    }
}

static int connect(sqlite3 *db, void *source_, int argc, const char *const *argv,
                   sqlite3_vtab **vtab_p, char **error_p)
{
    const struct rs_vtab_source *source = source_;
    struct rs_buf sql = {0};
    (void)argc;
    (void)argv;
    (void)error_p;
    rs_buf_string(&sql, "CREATE TABLE x (");
    for (unsigned i = 0; i < source->columns; i++)
        rs_buf_printf(&sql, "%sc%u", i ? ", " : "", i);
    rs_buf_u8(&sql, ')');
    struct vtab *vtab = rs_mem_calloc(1, sizeof *vtab);
    int code = vtab && !sql.failed ? sqlite3_declare_vtab(db, rs_buf_text(&sql)) : SQLITE_NOMEM;
    rs_buf_fini(&sql);
    if (code != SQLITE_OK) {
        rs_mem_free(vtab);
        return code;
    }
    vtab->source = source;
    *vtab_p = &vtab->base;
    return SQLITE_OK;
}

static int disconnect(sqlite3_vtab *vtab)
{
    rs_mem_free(vtab);
    return SQLITE_OK;
}

static int best_index(sqlite3_vtab *vtab, sqlite3_index_info *info)
{
    info->estimatedRows = (sqlite3_int64)((struct vtab *)vtab)->source->count;
    info->estimatedCost = (double)info->estimatedRows;
    return SQLITE_OK;
}

static int open_cursor(sqlite3_vtab *vtab, sqlite3_vtab_cursor **cursor_p)
{
    (void)vtab;
    struct vtab_cursor *cursor = rs_mem_calloc(1, sizeof *cursor);
    if (!cursor)
        return SQLITE_NOMEM;
    *cursor_p = &cursor->base;
    return SQLITE_OK;
}

static int close_cursor(sqlite3_vtab_cursor *cursor)
{
    rs_mem_free(cursor);
    return SQLITE_OK;
}

static int filter(sqlite3_vtab_cursor *cursor, int number, const char *text, int argc,
                  sqlite3_value **argv)
{
    (void)number;
    (void)text;
    (void)argc;
    (void)argv;
    ((struct vtab_cursor *)cursor)->at = 0;
    return SQLITE_OK;
}

static int next(sqlite3_vtab_cursor *cursor)
{
    ((struct vtab_cursor *)cursor)->at++;
    return SQLITE_OK;
}

static const struct rs_vtab_source *source_of(const sqlite3_vtab_cursor *cursor)
{
    return ((const struct vtab *)cursor->pVtab)->source;
}

static int eof(sqlite3_vtab_cursor *cursor)
{
    return ((struct vtab_cursor *)cursor)->at >= source_of(cursor)->count;
}

static int column(sqlite3_vtab_cursor *cursor, sqlite3_context *context, int index)
{
    const struct rs_vtab_source *source = source_of(cursor);
    sqlite_answer(context,
                  source->cell(source, ((struct vtab_cursor *)cursor)->at, (unsigned)index));
    return SQLITE_OK;
}

static int rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *rowid_p)
{
    *rowid_p = (sqlite3_int64)((struct vtab_cursor *)cursor)->at;
    return SQLITE_OK;
}

static const sqlite3_module module = {
    .iVersion = 1,
    .xConnect = connect,
    .xBestIndex = best_index,
    .xDisconnect = disconnect,
    .xOpen = open_cursor,
    .xClose = close_cursor,
    .xFilter = filter,
    .xNext = next,
    .xEof = eof,
    .xColumn = column,
    .xRowid = rowid,
};

int rs_vtab_attach(sqlite3 *db, const char *name, struct rs_vtab_source *source)
{
    return sqlite3_create_module(db, name, &module, source);
}
