/* SPDX-License-Identifier: Apache-2.0 */
#include "ascend/cluster/bulk.h"

#include "ascend/format/db.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#include <sqlite3.h>

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* ---- rows ----------------------------------------------------------------------------------- */

/* The next cell of the row at hand; NULL: no memory, or one column too many. */
static struct bulk_cell *next_cell(struct bulk_rows *rows)
{
    if (rows->cell_count - rows->count * rows->columns >= BULK_COLUMNS_MAX &&
        (!rows->count || rows->columns == BULK_COLUMNS_MAX)) {
        rows->status = RS_LIMIT;
        return NULL;
    }
    if (rows->cell_count == rows->cell_capacity &&
        rs_mem_grow((void **)&rows->cells, &rows->cell_capacity, rows->cell_count + 1,
                    sizeof *rows->cells) != RS_OK) {
        rows->status = RS_NOMEM;
        return NULL;
    }
    return &rows->cells[rows->cell_count++];
}

void bulk_null(struct bulk_rows *rows)
{
    struct bulk_cell *cell = next_cell(rows);
    if (cell)
        *cell = (struct bulk_cell){.kind = BULK_NULL};
}

void bulk_int(struct bulk_rows *rows, int64_t value)
{
    struct bulk_cell *cell = next_cell(rows);
    if (cell)
        *cell = (struct bulk_cell){.value.whole = value, .kind = BULK_INT};
}

void bulk_real(struct bulk_rows *rows, double value)
{
    struct bulk_cell *cell = next_cell(rows);
    if (cell)
        *cell = (struct bulk_cell){.value.real = value, .kind = BULK_REAL};
}

void bulk_text(struct bulk_rows *rows, const char *text, size_t length)
{
    struct bulk_cell *cell = next_cell(rows);
    if (!cell)
        return;
    if (length > INT32_MAX) {
        rows->status = RS_LIMIT;
        length = 0;
    }
    *cell = (struct bulk_cell){
        .value.at = rows->bytes.length, .length = (uint32_t)length, .kind = BULK_TEXT};
    rs_buf_bytes(&rows->bytes, text, length);
    if (rows->bytes.failed)
        rows->status = RS_NOMEM;
}

/* How many cells the row at hand has. */
static size_t open_cells(const struct bulk_rows *rows)
{
    return rows->cell_count - rows->count * rows->columns;
}

void bulk_take_start(struct bulk_rows *rows, struct bulk_start *start)
{
    const size_t count = open_cells(rows), first = rows->cell_count - count;
    rs_buf_reset(&start->bytes);
    start->count = 0;
    for (size_t i = 0; i < count && i < BULK_COLUMNS_MAX; i++) {
        struct bulk_cell cell = rows->cells[first + i];
        if (cell.kind == BULK_TEXT) {
            const size_t at = start->bytes.length;
            rs_buf_bytes(&start->bytes, rows->bytes.data + cell.value.at, cell.length);
            cell.value.at = at;
        }
        start->cells[start->count++] = cell;
    }
    if (start->bytes.failed)
        rows->status = RS_NOMEM;
    rows->cell_count = first; /* the texts stay until the next reset */
}

void bulk_put_start(struct bulk_rows *rows, const struct bulk_start *start)
{
    const size_t base = rows->bytes.length;
    rs_buf_bytes(&rows->bytes, start->bytes.data ? (const void *)start->bytes.data : "",
                 start->bytes.length);
    if (rows->bytes.failed)
        rows->status = RS_NOMEM;
    for (unsigned i = 0; i < start->count; i++) {
        struct bulk_cell *cell = next_cell(rows);
        if (!cell)
            return;
        *cell = start->cells[i];
        if (cell->kind == BULK_TEXT)
            cell->value.at += base;
    }
}

void bulk_end_row(struct bulk_rows *rows)
{
    const size_t cells = rows->count ? open_cells(rows) : rows->cell_count;
    if (!rows->count)
        rows->columns = (unsigned)cells;
    if (cells != rows->columns && rows->status == RS_OK)
        rows->status = RS_LIMIT;
    if (rows->status == RS_OK)
        rows->count++;
}

void bulk_rows_reset(struct bulk_rows *rows)
{
    rs_buf_reset(&rows->bytes);
    rows->cell_count = 0;
    rows->count = 0;
    rows->columns = 0;
    rows->status = RS_OK;
}

void bulk_rows_fini(struct bulk_rows *rows)
{
    rs_buf_fini(&rows->bytes);
    rs_mem_free(rows->cells);
    *rows = (struct bulk_rows){0};
}

void bulk_start_fini(struct bulk_start *start)
{
    rs_buf_fini(&start->bytes);
    *start = (struct bulk_start){0};
}

/* ---- the rows as a virtual table ----------------------------------------------------------------- */

static struct rs_cell cell_of(const struct rs_vtab_source *source, size_t row, unsigned column)
{
    const struct bulk_rows *rows = ((const struct bulk *)source)->rows; /* its first member */
    if (column >= rows->columns)
        return (struct rs_cell){.kind = RS_CELL_NULL};
    const struct bulk_cell *cell = &rows->cells[row * rows->columns + column];
    switch ((enum bulk_kind)cell->kind) {
    case BULK_NULL:
        break;
    case BULK_INT:
        return (struct rs_cell){.kind = RS_CELL_INT, .value.whole = cell->value.whole};
    case BULK_REAL:
        return (struct rs_cell){.kind = RS_CELL_REAL, .value.real = cell->value.real};
    case BULK_TEXT: /* lives until the INSERT is done */
        return (struct rs_cell){.kind = RS_CELL_TEXT,
                                .value.text = (const char *)rows->bytes.data + cell->value.at,
                                .length = (int)cell->length};
    }
    return (struct rs_cell){.kind = RS_CELL_NULL};
}

/* ---- the file --------------------------------------------------------------------------------- */

static void fail(struct bulk *bulk)
{
    const int code = bulk->db ? sqlite3_errcode(bulk->db) & 0xff : SQLITE_NOMEM;
    if (bulk->status == RS_OK)
        bulk->status =
            rs_err_set(&bulk->err, code == SQLITE_NOMEM ? RS_NOMEM : RS_IO, "cannot write %s: %s",
                       bulk->path, bulk->db ? sqlite3_errmsg(bulk->db) : "out of memory");
}

void bulk_run(struct bulk *bulk, const char *sql)
{
    if (bulk->status == RS_OK && sqlite3_exec(bulk->db, sql, NULL, NULL, NULL) != SQLITE_OK)
        fail(bulk);
}

enum rs_status bulk_open(struct bulk *bulk, const char *path)
{
    *bulk = (struct bulk){.shown = {.columns = BULK_COLUMNS_MAX, .cell = cell_of}, .path = path};
    char plain[PATH_MAX + 3]; /* not a URI, whatever it is called */
    if (snprintf(plain, sizeof plain, "%s%s", strncmp(path, "file:", 5) == 0 ? "./" : "", path) >=
            (int)sizeof plain ||
        sqlite3_open_v2(plain, &bulk->db,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX |
                            SQLITE_OPEN_URI,
                        NULL) != SQLITE_OK)
        fail(bulk);
    else
        bulk->status = rs_file_set_mode(path, &bulk->err);
    /* large pages: an eighth of the writes */
    bulk_run(bulk, "PRAGMA page_size=32768; PRAGMA journal_mode=MEMORY; PRAGMA synchronous=OFF; "
                   "PRAGMA locking_mode=EXCLUSIVE; BEGIN");
    if (bulk->status == RS_OK && rs_vtab_attach(bulk->db, "bulk_rows", &bulk->shown) != SQLITE_OK)
        fail(bulk);
    return bulk->status;
}

enum rs_status bulk_close(struct bulk *bulk)
{
    bulk_run(bulk, "COMMIT");
    if (bulk->db && sqlite3_close(bulk->db) != SQLITE_OK)
        fail(bulk);
    bulk->db = NULL;
    return bulk->status;
}

enum rs_status bulk_attach(struct bulk *bulk, const char *path, struct rs_ascend_db **db_p,
                           struct rs_err *err)
{
    bulk_run(bulk, "COMMIT");
    const enum rs_status status = bulk->status == RS_OK
                                      ? rs_ascend_db_attach(path, bulk->db, "rank", db_p, err)
                                      : bulk->status;
    bulk_run(bulk, "BEGIN");
    return status;
}

void bulk_keep(struct bulk *bulk, bool keep)
{
    if (keep)
        bulk_run(bulk, "COMMIT");
    else if (!sqlite3_get_autocommit(bulk->db)) /* else SQLite has done it itself */
        bulk_run(bulk, "ROLLBACK");
}

void bulk_detach(struct bulk *bulk)
{
    bulk_run(bulk, "DETACH rank; BEGIN");
}

/* ---- a table ------------------------------------------------------------------------------------ */

void bulk_begin(struct bulk_table *table, struct bulk *bulk, const char *name, unsigned columns)
{
    struct rs_buf sql = {0};
    *table = (struct bulk_table){.bulk = bulk, .name = name, .columns = columns};
    rs_buf_printf(&sql, "CREATE TABLE %s (", name);
    for (unsigned i = 0; i < columns; i++)
        rs_buf_printf(&sql, "%sc%u", i ? ", " : "", i);
    rs_buf_string(&sql, ")");
    bulk_run(bulk, rs_buf_text(&sql));
    rs_buf_reset(&sql);
    rs_buf_printf(&sql, "INSERT INTO %s SELECT ", name);
    for (unsigned i = 0; i < columns; i++)
        rs_buf_printf(&sql, "%sc%u", i ? ", " : "", i);
    rs_buf_string(&sql, " FROM bulk_rows");
    if (bulk->status == RS_OK &&
        sqlite3_prepare_v3(bulk->db, rs_buf_text(&sql), -1, SQLITE_PREPARE_PERSISTENT,
                           &table->insert, NULL) != SQLITE_OK)
        fail(bulk);
    if (sql.failed && bulk->status == RS_OK)
        bulk->status = rs_err_set(&bulk->err, RS_NOMEM, "no memory to write %s", bulk->path);
    rs_buf_fini(&sql);
}

void bulk_add(struct bulk_table *table, const struct bulk_rows *rows)
{
    struct bulk *bulk = table->bulk;
    enum rs_status status = rows->status;
    if (status == RS_OK && rows->count && rows->columns != table->columns)
        status = RS_LIMIT;
    if (status != RS_OK && bulk->status == RS_OK)
        bulk->status = rs_err_set(&bulk->err, status, "cannot write %s: %s", bulk->path,
                                  rs_status_text(status));
    if (bulk->status != RS_OK || !rows->count)
        return;
    bulk->rows = rows;
    bulk->shown.count = rows->count;
    (void)sqlite3_step(table->insert);
    if (sqlite3_reset(table->insert) != SQLITE_OK)
        fail(bulk);
    bulk->shown.count = 0;
    bulk->rows = NULL;
}

/* SQLite keeps a table's declaration as text; values are stored by what they are, so it may be told at last. */
static void declare(struct bulk *bulk, const char *name, const char *columns)
{
    struct rs_buf sql = {0};
    sqlite3_stmt *stmt = NULL;
    rs_buf_printf(&sql, "CREATE TABLE %s (%s)", name, columns);
    bulk_run(bulk, "PRAGMA writable_schema=ON");
    if (bulk->status == RS_OK &&
        (sqlite3_prepare_v2(bulk->db, "UPDATE sqlite_master SET sql = ?1 WHERE name = ?2", -1,
                            &stmt, NULL) != SQLITE_OK ||
         sqlite3_bind_text(stmt, 1, rs_buf_text(&sql), -1, SQLITE_STATIC) != SQLITE_OK ||
         sqlite3_bind_text(stmt, 2, name, -1, SQLITE_STATIC) != SQLITE_OK ||
         sqlite3_step(stmt) != SQLITE_DONE))
        fail(bulk);
    (void)sqlite3_finalize(stmt);
    bulk_run(bulk, "PRAGMA writable_schema=OFF");
    if (sql.failed && bulk->status == RS_OK)
        bulk->status = rs_err_set(&bulk->err, RS_NOMEM, "no memory to write %s", bulk->path);
    rs_buf_fini(&sql);
}

void bulk_end(struct bulk_table *table, const char *columns)
{
    (void)sqlite3_finalize(table->insert);
    if (table->bulk && columns)
        declare(table->bulk, table->name, columns);
    *table = (struct bulk_table){0};
}
