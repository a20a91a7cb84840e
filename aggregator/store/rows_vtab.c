/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Row structs as a table of SQLite's: the virtual table rows_NAME, read from the first row to the last.
 *
 *     INSERT OR FAIL INTO op SELECT * FROM rows_op        one statement, any number of rows
 *
 * It is eponymous: it needs no CREATE and leaves no trace in the file. OR FAIL, since the files that are made
 * in one go have no journal that could take a statement back.
 */
#include "aggregator/store/sqlite_priv.h"
#include "common/base/check.h"
#include "common/base/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Digits in a NUMERIC column are a number; what is none stays a text. */
static struct rs_cell cell_of_digits(const char *digits, bool is_numeric)
{
    char *end = NULL;
    const double value = is_numeric ? strtod(digits, &end) : 0;
    if (is_numeric && end != digits && !*end && isfinite(value))
        return (struct rs_cell){.kind = RS_CELL_REAL, .value.real = value};
    return (struct rs_cell){.kind = RS_CELL_TEXT, .value.text = digits, .length = -1};
}

static struct rs_cell cell_of_i64(const struct rs_column *column, int64_t value)
{
    if (value == RS_NULL && (column->flags & RS_NULLABLE))
        return (struct rs_cell){.kind = RS_CELL_NULL};
    if ((column->flags & RS_NUMERIC) && column->unit == RS_US3)
        return (struct rs_cell){.kind = RS_CELL_REAL, .value.real = rs_unit_double(value, 3)};
    if ((column->flags & RS_NUMERIC) && (column->unit == RS_MS || column->unit == RS_MB))
        return (struct rs_cell){.kind = RS_CELL_REAL, .value.real = rs_unit_double(value, 6)};
    if ((column->flags & RS_AS_TEXT) && column->unit == RS_ENUM)
        return (struct rs_cell){
            .kind = RS_CELL_TEXT, .value.text = column->text(value), .length = -1};
    return (struct rs_cell){.kind = RS_CELL_INT, .value.whole = value};
}

struct rs_cell cell_of(const struct rs_column *column, const void *row)
{
    const char *text;
    switch ((enum rs_column_kind)column->kind) {
    case RS_I64:
        return cell_of_i64(column, rs_column_i64(column, row));
    case RS_F64:
        return (struct rs_cell){.kind = RS_CELL_REAL, .value.real = rs_column_f64(column, row)};
    case RS_TEXT:
        text = rs_column_text(column, row);
        return (struct rs_cell){
            .kind = text ? RS_CELL_TEXT : RS_CELL_NULL, .value.text = text, .length = -1};
    case RS_DECIMAL:
        text = rs_column_text(column, row);
        if (text)
            return cell_of_digits(text, column->flags & RS_NUMERIC);
    }
    return (struct rs_cell){.kind = RS_CELL_NULL};
}

static struct rs_cell cell_of_row(const struct rs_vtab_source *source_, size_t row, unsigned column)
{
    const struct rows_source *source = (const struct rows_source *)source_; /* its first member */
    return cell_of(&source->table->columns[column],
                   (const char *)source->rows + row * source->table->row_bytes);
}

/* --- ours --------------------------------------------------------------------------------------------- */

int rows_source_attach(sqlite3 *db, struct rows_source *source, const struct rs_table *table)
{
    char name[128], sql[320];
    *source = (struct rows_source){
        .shown = {.columns = (unsigned)table->column_count, .cell = cell_of_row}, .table = table};
    const int length = snprintf(name, sizeof name, "rows_%s", table->name);
    RS_CHECK(length > 0 && (size_t)length < sizeof name);
    (void)snprintf(sql, sizeof sql, "INSERT OR FAIL INTO %s SELECT * FROM %s", table->name, name);
    int code = rs_vtab_attach(db, name, &source->shown);
    if (code == SQLITE_OK)
        code = sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, &source->insert, NULL);
    return code;
}

int rows_source_insert(struct rows_source *source, const void *rows, size_t count)
{
    source->rows = rows;
    source->shown.count = count;
    (void)sqlite3_step(source->insert);
    const int code = sqlite3_reset(source->insert);
    source->rows = NULL;
    source->shown.count = 0;
    return code;
}
