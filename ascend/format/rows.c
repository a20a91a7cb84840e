/* SPDX-License-Identifier: Apache-2.0 */
#include "ascend/format/rows.h"

#include "common/base/buf.h"

#include <sqlite3.h>

#include <math.h>
#include <strings.h>

enum { PLAIN_DIGITS = 9 }; /* of a number that is read at sight */

/* A statement for the columns but those that `lacks` says. */
static enum rs_status prepare(struct rs_ascend_rows *rows, const char *table,
                              const char *const *columns, struct rs_err *err)
{
    struct rs_buf sql = {0};
    rs_buf_string(&sql, "SELECT ");
    for (size_t i = 0; i < rows->column_count; i++)
        rs_buf_printf(&sql, "%s%s", i ? ", " : "", rows->lacks & 1U << i ? "NULL" : columns[i]);
    rs_buf_printf(&sql, " FROM %s.%s ORDER BY rowid", rs_ascend_db_schema(rows->db), table);
    const enum rs_status status =
        sql.failed ? rs_err_set(err, RS_NOMEM, "no memory to read %s", rs_ascend_db_path(rows->db))
                   : rs_ascend_db_prepare(rows->db, rs_buf_text(&sql), &rows->stmt, err);
    rs_buf_fini(&sql);
    return status;
}

enum rs_status rs_ascend_rows_open(struct rs_ascend_rows *rows, struct rs_ascend_db *db,
                                   const char *table, const char *const *columns, size_t count,
                                   struct rs_err *err)
{
    *rows = (struct rs_ascend_rows){.db = db, .column_count = count};
    if (count > RS_ASCEND_ROWS_COLUMNS_MAX)
        return rs_err_set(err, RS_LIMIT, "more than %d columns", RS_ASCEND_ROWS_COLUMNS_MAX);
    for (size_t i = 0; i < RS_ASCEND_ROWS_COLUMNS_MAX; i++)
        rows->cells[i].text = "";
    if (!rs_ascend_db_has_table(db, table))
        return rs_err_set(err, RS_NOTFOUND, "%s has no table %s", rs_ascend_db_path(db), table);
    if (prepare(rows, table, columns, NULL) == RS_OK)
        return RS_OK; /* all are there, as mostly */
    for (size_t i = 0; i < count; i++)
        rows->lacks |= rs_ascend_db_has_column(db, table, columns[i]) ? 0 : 1U << i;
    return prepare(rows, table, columns, err);
}

/* Of a cell that is neither a whole number nor finite. */
static bool is_as_expected(const struct rs_ascend_expect *expect, unsigned column,
                           const struct rs_ascend_cell *cell)
{
    const uint32_t bit = 1U << column;
    if (cell->kind == RS_ASCEND_CELL_NULL)
        return !((expect->numbers | expect->texts) & bit) || expect->may_be_null & bit;
    if (cell->kind == RS_ASCEND_CELL_TEXT)
        return !(expect->numbers & bit) || rs_ascend_cell_num(cell).kind != RS_ASCEND_NUM_NONE;
    return !((expect->numbers | expect->texts) & bit) || isfinite(cell->real);
}

enum rs_status rs_ascend_rows_next(struct rs_ascend_rows *rows, struct rs_err *err)
{
    const enum rs_status status = rs_ascend_db_step(rows->db, rows->stmt, err);
    const bool is_utf8 = rs_ascend_db_is_utf8(rows->db);
    for (size_t i = 0; i < rows->column_count && status == RS_OK; i++) {
        struct rs_ascend_cell *cell = &rows->cells[i];
        /* the statement is this thread's alone, so its values may be asked directly */
        sqlite3_value *value = sqlite3_column_value(rows->stmt, (int)i);
        const int type = sqlite3_value_type(value);
        cell->kind = RS_ASCEND_CELL_NULL;
        cell->text = "";
        cell->length = 0;
        if (type == SQLITE_INTEGER) {
            cell->kind = RS_ASCEND_CELL_INT;
            cell->whole = sqlite3_value_int64(value);
        } else if (type == SQLITE_FLOAT) {
            cell->kind = RS_ASCEND_CELL_REAL;
            cell->real = sqlite3_value_double(value);
        } else if (type == SQLITE_TEXT) {
            cell->kind = RS_ASCEND_CELL_TEXT;
            /* as it lies in the page; _text would copy it to put a NUL behind it */
            const void *text =
                is_utf8 ? sqlite3_value_blob(value) : (const void *)sqlite3_value_text(value);
            cell->text = text ? text : "";
            cell->length = text ? (size_t)sqlite3_value_bytes(value) : 0;
        }
        if (type != SQLITE_INTEGER && !is_as_expected(&rows->expect, (unsigned)i, cell))
            rows->bad[i]++;
    }
    rows->row_count += status == RS_OK;
    return status;
}

void rs_ascend_rows_close(struct rs_ascend_rows *rows)
{
    rs_ascend_db_finish(&rows->stmt);
}

void rs_ascend_rows_flaws(const struct rs_ascend_rows *rows, const char *table,
                          const char *const *columns, struct rs_buf *flaws)
{
    const struct rs_ascend_expect *expect = &rows->expect;
    for (size_t i = 0; i < rows->column_count; i++) {
        const uint32_t bit = 1U << i;
        if (!((expect->numbers | expect->texts) & bit) || (rows->lacks & expect->may_lack & bit))
            continue;
        const char *comma = flaws->length ? "; " : "";
        if (rows->lacks & bit)
            rs_buf_printf(flaws, "%s%s has no column %s", comma, table, columns[i]);
        else if (rows->bad[i])
            rs_buf_printf(flaws, "%s%s.%s: %zu of %zu cells hold no %s", comma, table, columns[i],
                          rows->bad[i], rows->row_count, expect->numbers & bit ? "number" : "name");
    }
}

/* ---- cells -------------------------------------------------------------------------------------- */

struct rs_ascend_num rs_ascend_cell_num(const struct rs_ascend_cell *cell)
{
    struct rs_ascend_num num = {0};
    switch (cell->kind) {
    case RS_ASCEND_CELL_INT:
        return rs_ascend_num_of_int(cell->whole);
    case RS_ASCEND_CELL_REAL:
        return rs_ascend_num_of_double(cell->real);
    case RS_ASCEND_CELL_TEXT:
        if (cell->length && rs_ascend_num_scan(cell->text, cell->length) == cell->length &&
            rs_ascend_num_parse(cell->text, cell->length, &num) != RS_OK)
            num = (struct rs_ascend_num){0};
        break;
    case RS_ASCEND_CELL_NULL:
        break;
    }
    return num;
}

bool rs_ascend_cell_int(const struct rs_ascend_cell *cell, int64_t *value_p)
{
    if (cell->kind == RS_ASCEND_CELL_TEXT && cell->length && cell->length <= PLAIN_DIGITS) {
        int64_t whole = 0; /* ranks are mostly kept as "17" */
        size_t at = 0;
        while (at < cell->length && cell->text[at] >= '0' && cell->text[at] <= '9')
            whole = whole * 10 + (cell->text[at++] - '0');
        if (at == cell->length && (at == 1 || cell->text[0] != '0')) {
            *value_p = whole;
            return true;
        }
    }
    const struct rs_ascend_num num = rs_ascend_cell_num(cell);
    const double value = rs_ascend_num_double(&num);
    if (num.kind == RS_ASCEND_NUM_NONE || value != floor(value) || fabs(value) > 1e15)
        return false;
    *value_p = (int64_t)value;
    return true;
}
