/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows as text that people and programs read: CSV, JSON, JSON Schema, SQL.
 *
 * One function prints the value of a cell; CSV, JSON differ in what surrounds it and in how absent and
 * texts look. SQL names columns only: values are bound by the engine (aggregator/store).
 */
#include "aggregator/model/columns.h"
#include "common/base/csv_out.h"
#include "common/base/json_out.h"

#include <math.h>
#include <string.h>

/* --- numbers ---------------------------------------------------------------------------------------- */

static void put_i64(struct rs_buf *buf, int64_t value)
{
    char text[24];
    char *at = text + sizeof text;
    uint64_t size = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do {
        *--at = (char)('0' + size % 10);
        size /= 10;
    } while (size);
    if (value < 0)
        *--at = '-';
    rs_buf_bytes(buf, at, (size_t)(text + sizeof text - at));
}

/* A present number of kind I64 that is no enum, in its printed unit. */
static void put_unit(const struct rs_column *column, int64_t value, struct rs_buf *buf)
{
    char text[RS_UNIT_TEXT_BYTES];
    switch ((enum rs_column_unit)column->unit) {
    case RS_US3:
        rs_unit_us(text, value);
        break;
    case RS_MS:
        rs_unit_ms(text, value);
        break;
    case RS_MB:
        rs_unit_mb(text, value);
        break;
    case RS_NONE:
    case RS_NS:
    case RS_BYTES:
    case RS_STEP:
    case RS_RANK:
    case RS_ENUM:
        put_i64(buf, value);
        return;
    }
    rs_buf_string(buf, text);
}

static const char *enum_text(const struct rs_column *column, const void *row)
{
    const char *text = column->text ? column->text(rs_column_i64(column, row)) : NULL;
    return text ? text : "unknown";
}

static void put_f64(struct rs_buf *buf, double value)
{
    struct rs_json_out json;
    rs_json_out_init(&json, buf, 0); /* the shortest digits that read back as the same double */
    rs_json_out_double(&json, value);
}

/* --- CSV --------------------------------------------------------------------------------------------- */

static void put_csv_cell(const struct rs_column *column, const void *row, struct rs_buf *buf)
{
    if (rs_column_is_null(column, row))
        return;
    switch ((enum rs_column_kind)column->kind) {
    case RS_I64:
        if (column->unit == RS_ENUM)
            rs_csv_text(buf, enum_text(column, row));
        else
            put_unit(column, rs_column_i64(column, row), buf);
        return;
    case RS_F64:
        if (isfinite(rs_column_f64(column, row)))
            put_f64(buf, rs_column_f64(column, row));
        return;
    case RS_TEXT:
    case RS_DECIMAL:
        rs_csv_text(buf, rs_column_text(column, row));
    }
}

void rs_csv_head(const struct rs_table *table, struct rs_buf *buf)
{
    bool has_one = false;
    for (size_t i = 0; i < table->column_count; i++) {
        const struct rs_column *column = &table->columns[i];
        if (column->flags & RS_HIDDEN)
            continue;
        if (has_one)
            rs_buf_u8(buf, ',');
        has_one = true;
        rs_csv_text(buf, column->title ? column->title : column->name);
    }
    rs_buf_u8(buf, '\n');
}

void rs_csv_row(const struct rs_table *table, const void *row, struct rs_buf *buf)
{
    bool has_one = false;
    for (size_t i = 0; i < table->column_count; i++) {
        if (table->columns[i].flags & RS_HIDDEN)
            continue;
        if (has_one)
            rs_buf_u8(buf, ',');
        has_one = true;
        put_csv_cell(&table->columns[i], row, buf);
    }
    rs_buf_u8(buf, '\n');
}

/* --- JSON -------------------------------------------------------------------------------------------- */

/* Digits as JSON has them: a vendor's "+1", "01", ".5" or "nan" is no JSON number and stays a text. */
static bool is_json_number(const char *text)
{
    const char *at = text + (*text == '-');
    const size_t whole = strspn(at, "0123456789");
    if (!whole || (whole > 1 && *at == '0'))
        return false;
    at += whole;
    if (*at == '.') {
        const size_t part = strspn(at + 1, "0123456789");
        if (!part)
            return false;
        at += 1 + part;
    }
    if (*at == 'e' || *at == 'E') {
        at += 1 + (at[1] == '+' || at[1] == '-');
        const size_t power = strspn(at, "0123456789");
        if (!power)
            return false;
        at += power;
    }
    return !*at;
}

static void put_json_cell(const struct rs_column *column, const void *row, struct rs_json_out *json)
{
    if (rs_column_is_null(column, row)) {
        rs_json_out_null(json);
        return;
    }
    switch ((enum rs_column_kind)column->kind) {
    case RS_I64:
        if (column->unit == RS_ENUM) {
            rs_json_out_string(json, enum_text(column, row));
        } else if (column->unit == RS_US3 || column->unit == RS_MS || column->unit == RS_MB) {
            char text[RS_UNIT_TEXT_BYTES];
            const int64_t value = rs_column_i64(column, row);
            if (column->unit == RS_US3)
                rs_unit_us(text, value);
            else if (column->unit == RS_MS)
                rs_unit_ms(text, value);
            else
                rs_unit_mb(text, value);
            rs_json_out_number(json, text);
        } else {
            rs_json_out_int(json, rs_column_i64(column, row));
        }
        return;
    case RS_F64:
        rs_json_out_double(json, rs_column_f64(column, row));
        return;
    case RS_DECIMAL:
        if (is_json_number(rs_column_text(column, row))) {
            rs_json_out_number(json, rs_column_text(column, row));
            return;
        }
        rs_json_out_string(json, rs_column_text(column, row));
        return;
    case RS_TEXT:
        rs_json_out_string(json, rs_column_text(column, row));
    }
}

void rs_json_row(const struct rs_table *table, const void *row, struct rs_buf *buf)
{
    struct rs_json_out json;
    rs_json_out_init(&json, buf, 0);
    rs_json_out_object(&json);
    for (size_t i = 0; i < table->column_count; i++) {
        rs_json_out_key(&json, table->columns[i].name);
        put_json_cell(&table->columns[i], row, &json);
    }
    rs_json_out_end(&json);
}

static const char *unit_text(const struct rs_column *column)
{
    switch ((enum rs_column_unit)column->unit) {
    case RS_NS:
        return "ns";
    case RS_US3:
        return "us";
    case RS_MS:
        return "ms";
    case RS_BYTES:
        return "bytes";
    case RS_MB:
        return "10^6 bytes";
    case RS_STEP:
        return "step";
    case RS_RANK:
        return "rank";
    case RS_NONE:
    case RS_ENUM:
        break;
    }
    return NULL;
}

static const char *schema_type(const struct rs_column *column)
{
    if (column->unit == RS_ENUM || column->kind == RS_TEXT)
        return "string";
    if (column->kind == RS_I64 && column->unit != RS_US3 && column->unit != RS_MS &&
        column->unit != RS_MB)
        return "integer";
    return "number";
}

static void put_schema_type(const struct rs_column *column, struct rs_json_out *json)
{
    rs_json_out_key(json, "type");
    if (!(column->flags & RS_NULLABLE)) {
        rs_json_out_string(json, schema_type(column));
        return;
    }
    rs_json_out_array(json);
    rs_json_out_string(json, schema_type(column));
    rs_json_out_string(json, "null");
    rs_json_out_end(json);
}

void rs_json_schema(const struct rs_table *table, struct rs_buf *buf)
{
    struct rs_json_out json;
    rs_json_out_init(&json, buf, 2);
    rs_json_out_object(&json);
    rs_json_out_key(&json, "$schema");
    rs_json_out_string(&json, "https://json-schema.org/draft/2020-12/schema");
    rs_json_out_key(&json, "title");
    rs_json_out_string(&json, table->name);
    rs_json_out_key(&json, "type");
    rs_json_out_string(&json, "object");
    rs_json_out_key(&json, "properties");
    rs_json_out_object(&json);
    for (size_t i = 0; i < table->column_count; i++) {
        const struct rs_column *column = &table->columns[i];
        rs_json_out_key(&json, column->name);
        rs_json_out_object(&json);
        put_schema_type(column, &json);
        if (unit_text(column)) {
            rs_json_out_key(&json, "unit");
            rs_json_out_string(&json, unit_text(column));
        }
        rs_json_out_key(&json, "description");
        rs_json_out_string(&json, column->help);
        rs_json_out_end(&json);
    }
    rs_json_out_end(&json);
    rs_json_out_key(&json, "required");
    rs_json_out_array(&json);
    for (size_t i = 0; i < table->column_count; i++)
        rs_json_out_string(&json, table->columns[i].name);
    rs_json_out_end(&json);
    rs_json_out_key(&json, "additionalProperties");
    rs_json_out_bool(&json, false);
    rs_json_out_end(&json);
    rs_buf_u8(buf, '\n');
}

/* --- SQL --------------------------------------------------------------------------------------------- */

static size_t key_count(const struct rs_table *table)
{
    size_t count = 0;
    for (size_t i = 0; i < table->column_count; i++)
        count += (table->columns[i].flags & RS_KEY) != 0;
    return count;
}

/* The columns with this flag, by commas; how many. */
static size_t put_names(const struct rs_table *table, unsigned flag, struct rs_buf *buf)
{
    size_t count = 0;
    for (size_t i = 0; i < table->column_count; i++) {
        if (flag && !(table->columns[i].flags & flag))
            continue;
        rs_buf_string(buf, count++ ? ", " : "");
        rs_buf_string(buf, table->columns[i].name);
    }
    return count;
}

static const char *sqlite_type(const struct rs_column *column)
{
    if (column->flags & RS_NUMERIC)
        return "NUMERIC";
    if (column->flags & RS_AS_TEXT)
        return "TEXT";
    switch ((enum rs_column_kind)column->kind) {
    case RS_I64:
        return "INTEGER";
    case RS_F64:
        return "REAL";
    case RS_TEXT:
    case RS_DECIMAL:
        break;
    }
    return "TEXT";
}

static const char *clickhouse_type(const struct rs_column *column)
{
    switch ((enum rs_column_kind)column->kind) {
    case RS_I64:
        return "Int64";
    case RS_F64:
        return "Float64";
    case RS_TEXT:
    case RS_DECIMAL:
        break;
    }
    return "String";
}

static void create_sqlite(const struct rs_table *table, struct rs_buf *buf)
{
    const size_t keys = key_count(table);
    bool is_rowid = false;
    rs_buf_printf(buf, "CREATE TABLE %s (", table->name);
    for (size_t i = 0; i < table->column_count; i++) {
        const struct rs_column *column = &table->columns[i];
        rs_buf_printf(buf, "%s%s %s", i ? ", " : "", column->name, sqlite_type(column));
        if (keys == 1 && (column->flags & RS_KEY) && column->kind == RS_I64) {
            rs_buf_string(buf, " PRIMARY KEY");
            is_rowid = true;
        } else if (!(column->flags & RS_NULLABLE)) {
            rs_buf_string(buf, " NOT NULL");
        }
    }
    if (keys && !is_rowid) {
        rs_buf_string(buf, ", PRIMARY KEY (");
        (void)put_names(table, RS_KEY, buf);
        rs_buf_string(buf, ")) WITHOUT ROWID");
    } else {
        rs_buf_u8(buf, ')');
    }
}

static void create_clickhouse(const struct rs_table *table, struct rs_buf *buf)
{
    rs_buf_printf(buf, "CREATE TABLE %s (", table->name);
    for (size_t i = 0; i < table->column_count; i++) {
        const struct rs_column *column = &table->columns[i];
        const bool is_nullable = column->flags & RS_NULLABLE;
        rs_buf_printf(buf, "%s %s%s%s, ", column->name, is_nullable ? "Nullable(" : "",
                      clickhouse_type(column), is_nullable ? ")" : "");
    }
    if (rs_table_column(table, "generation"))
        buf->length -= 2; /* it has one of its own: no comma behind the last */
    else
        rs_buf_string(buf, "generation Int64");
    rs_buf_string(buf, ") ENGINE = MergeTree PARTITION BY ");
    if (!put_names(table, RS_PARTITION, buf))
        rs_buf_string(buf, "tuple()");
    rs_buf_string(buf, " ORDER BY (");
    (void)put_names(table, RS_KEY, buf);
    rs_buf_u8(buf, ')');
}

void rs_sql_create(const struct rs_table *table, enum rs_engine engine, struct rs_buf *buf)
{
    if (engine == RS_SQLITE)
        create_sqlite(table, buf);
    else
        create_clickhouse(table, buf);
}

void rs_sql_insert(const struct rs_table *table, enum rs_engine engine, struct rs_buf *buf)
{
    rs_buf_printf(buf, "INSERT INTO %s (", table->name);
    (void)put_names(table, 0, buf);
    if (engine == RS_CLICKHOUSE) {
        rs_buf_printf(buf, "%s) FORMAT RowBinary",
                      rs_table_column(table, "generation") ? "" : ", generation");
        return;
    }
    rs_buf_string(buf, ") VALUES (");
    for (size_t i = 0; i < table->column_count; i++)
        rs_buf_string(buf, i ? ", ?" : "?");
    rs_buf_u8(buf, ')');
}
