/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/model/columns.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- one value ---------------------------------------------------------------------------------- */

int64_t rs_column_i64(const struct rs_column *column, const void *row)
{
    int64_t value;
    memcpy(&value, (const char *)row + column->offset, sizeof value);
    return value;
}

double rs_column_f64(const struct rs_column *column, const void *row)
{
    double value;
    memcpy(&value, (const char *)row + column->offset, sizeof value);
    return value;
}

const char *rs_column_text(const struct rs_column *column, const void *row)
{
    const char *text;
    memcpy(&text, (const char *)row + column->offset, sizeof text);
    return text;
}

bool rs_column_is_null(const struct rs_column *column, const void *row)
{
    switch ((enum rs_column_kind)column->kind) {
    case RS_I64:
        return rs_column_i64(column, row) == RS_NULL;
    case RS_F64:
        return isnan(rs_column_f64(column, row));
    case RS_TEXT:
    case RS_DECIMAL:
        break;
    }
    return rs_column_text(column, row) == NULL;
}

void rs_column_set_i64(const struct rs_column *column, void *row, int64_t value)
{
    memcpy((char *)row + column->offset, &value, sizeof value);
}

void rs_column_set_f64(const struct rs_column *column, void *row, double value)
{
    memcpy((char *)row + column->offset, &value, sizeof value);
}

void rs_column_set_text(const struct rs_column *column, void *row, const char *text)
{
    memcpy((char *)row + column->offset, &text, sizeof text);
}

void rs_column_set_null(const struct rs_column *column, void *row)
{
    switch ((enum rs_column_kind)column->kind) {
    case RS_I64:
        rs_column_set_i64(column, row, RS_NULL);
        return;
    case RS_F64:
        rs_column_set_f64(column, row, (double)NAN);
        return;
    case RS_TEXT:
    case RS_DECIMAL:
        rs_column_set_text(column, row, NULL);
    }
}

void rs_row_clear(const struct rs_table *table, void *row)
{
    for (size_t i = 0; i < table->column_count; i++)
        rs_column_set_null(&table->columns[i], row);
}

const struct rs_column *rs_table_column(const struct rs_table *table, const char *name)
{
    for (size_t i = 0; i < table->column_count; i++)
        if (strcmp(table->columns[i].name, name) == 0)
            return &table->columns[i];
    return NULL;
}

/* --- numbers as text ------------------------------------------------------------------------------ */

/* value / 10^decimals with exactly that many decimals. By hand: it is in every cell of a table. */
static void put_point(char text[RS_UNIT_TEXT_BYTES], int64_t value, int decimals)
{
    char digits[24];
    size_t count = 0, at = 0;
    uint64_t size = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do {
        digits[count++] = (char)('0' + size % 10);
        size /= 10;
    } while (size || count <= (size_t)decimals);
    if (value < 0)
        text[at++] = '-';
    while (count) {
        if (count == (size_t)decimals)
            text[at++] = '.';
        text[at++] = digits[--count];
    }
    text[at] = '\0';
}

static void cut_zeros(char *text)
{
    size_t length = strlen(text);
    while (length && text[length - 1] == '0')
        text[--length] = '\0';
    if (length && text[length - 1] == '.')
        text[--length] = '\0';
    if (strcmp(text, "-0") == 0)
        memcpy(text, "0", 2);
}

void rs_unit_us(char text[RS_UNIT_TEXT_BYTES], int64_t ns)
{
    put_point(text, ns, 3);
}

void rs_unit_ms(char text[RS_UNIT_TEXT_BYTES], int64_t ns)
{
    put_point(text, ns, 6);
    cut_zeros(text);
}

void rs_unit_mb(char text[RS_UNIT_TEXT_BYTES], int64_t bytes)
{
    put_point(text, bytes, 6);
    cut_zeros(text);
}

double rs_unit_double(int64_t value, int decimals)
{
    /* Both exact as doubles, so the quotient is rounded once: that is what reading the text gives. */
    const int64_t exact = INT64_C(1) << 53;
    if (value > -exact && value < exact)
        return (double)value / (decimals == 3 ? 1e3 : 1e6);
    char text[RS_UNIT_TEXT_BYTES];
    put_point(text, value, decimals);
    return strtod(text, NULL);
}
