/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/store/row_binary.h"

#include <string.h>

enum { VARINT_MAX_BYTES = 10 };

static bool takes(struct rs_view *text, const char *word)
{
    const size_t length = strlen(word);
    if (text->length < length || memcmp(text->data, word, length) != 0)
        return false;
    (void)rs_view_take(text, length);
    return true;
}

enum rs_status row_binary_type_of(struct rs_view text, struct row_binary_type *type_p)
{
    static const struct {
        const char *name;
        struct row_binary_type type;
    } known[] = {
        {"Int64", {ROW_BINARY_INT, 8, false}},     {"UInt64", {ROW_BINARY_UINT, 8, false}},
        {"Int32", {ROW_BINARY_INT, 4, false}},     {"UInt32", {ROW_BINARY_UINT, 4, false}},
        {"Int16", {ROW_BINARY_INT, 2, false}},     {"UInt16", {ROW_BINARY_UINT, 2, false}},
        {"Int8", {ROW_BINARY_INT, 1, false}},      {"UInt8", {ROW_BINARY_UINT, 1, false}},
        {"Float64", {ROW_BINARY_FLOAT, 8, false}}, {"String", {ROW_BINARY_TEXT, 0, false}},
    };
    const bool is_nullable = takes(&text, "Nullable(");
    if (is_nullable && (!text.length || text.data[text.length - 1] != ')'))
        return RS_FORMAT;
    const size_t length = text.length - is_nullable;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strlen(known[i].name) == length && memcmp(text.data, known[i].name, length) == 0) {
            *type_p = known[i].type;
            type_p->is_nullable = is_nullable;
            return RS_OK;
        }
    return RS_FORMAT;
}

bool row_binary_fits(const struct rs_column *column, const struct row_binary_type *type)
{
    switch ((enum rs_column_kind)column->kind) {
    case RS_I64:
        return type->kind == ROW_BINARY_INT || type->kind == ROW_BINARY_UINT;
    case RS_F64:
        return type->kind != ROW_BINARY_TEXT;
    case RS_TEXT:
    case RS_DECIMAL:
        break;
    }
    return type->kind == ROW_BINARY_TEXT;
}

/* ---- out ------------------------------------------------------------------------------------------------------------ */

static void put_f64(double value, struct rs_buf *buf)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    rs_buf_u64(buf, bits);
}

static enum rs_status put_cell(const struct rs_column *column, const void *row, struct rs_buf *buf)
{
    /* A key that may not be absent holds RS_NULL as a number (tables.h). */
    const bool is_null =
        (column->flags & RS_NULLABLE || column->kind != RS_I64) && rs_column_is_null(column, row);
    if (is_null && !(column->flags & RS_NULLABLE))
        return RS_INVALID;
    if (column->flags & RS_NULLABLE)
        rs_buf_u8(buf, is_null);
    if (is_null)
        return RS_OK;
    switch ((enum rs_column_kind)column->kind) {
    case RS_I64:
        rs_buf_u64(buf, (uint64_t)rs_column_i64(column, row));
        return RS_OK;
    case RS_F64:
        put_f64(rs_column_f64(column, row), buf);
        return RS_OK;
    case RS_TEXT:
    case RS_DECIMAL:
        break;
    }
    const char *text = rs_column_text(column, row);
    const size_t length = strlen(text);
    if (length > ROW_BINARY_TEXT_MAX)
        return RS_INVALID;
    rs_buf_varint(buf, length);
    rs_buf_bytes(buf, text, length);
    return RS_OK;
}

enum rs_status row_binary_put(const struct rs_table *table, const void *row, int64_t generation,
                              struct rs_buf *buf)
{
    const size_t begin = buf->length;
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < table->column_count && status == RS_OK; i++)
        status = put_cell(&table->columns[i], row, buf);
    if (status == RS_OK && buf->length - begin > ROW_BINARY_ROW_MAX)
        status = RS_LIMIT;
    if (!rs_table_column(table, "generation"))
        rs_buf_u64(buf, (uint64_t)generation);
    return status;
}

/* ---- in ------------------------------------------------------------------------------------------------------------- */

/* A number of `bytes` bytes; is_signed: as such. */
static int64_t take_int(struct rs_view *view, unsigned bytes, bool is_signed)
{
    switch (bytes) {
    case 1: {
        const uint8_t value = rs_view_u8(view);
        return is_signed ? (int8_t)value : (int64_t)value;
    }
    case 2: {
        const uint16_t value = rs_view_u16(view);
        return is_signed ? (int16_t)value : (int64_t)value;
    }
    case 4: {
        const uint32_t value = rs_view_u32(view);
        return is_signed ? (int32_t)value : (int64_t)value;
    }
    default:
        return (int64_t)rs_view_u64(view);
    }
}

/* Texts are C strings here: one with a NUL in it is none of ours. */
static enum rs_status take_text(const struct rs_column *column, struct rs_view *view, void *row,
                                struct rs_block *block)
{
    const size_t at_hand = view->length;
    const uint64_t length = rs_view_varint(view);
    if (view->failed) /* more bytes do not make a length of what is none */
        return at_hand >= VARINT_MAX_BYTES ? RS_FORMAT : RS_AGAIN;
    if (length > ROW_BINARY_TEXT_MAX)
        return RS_FORMAT;
    const struct rs_view text = rs_view_take(view, (size_t)length);
    if (view->failed)
        return RS_AGAIN;
    if (length && memchr(text.data, 0, (size_t)length))
        return RS_FORMAT;
    rs_block_set_text(block, column, row, length ? (const char *)text.data : "", (size_t)length);
    return RS_OK;
}

static enum rs_status take_cell(const struct rs_column *column, const struct row_binary_type *type,
                                struct rs_view *view, void *row, struct rs_block *block)
{
    if (type->is_nullable) {
        const uint8_t is_null = rs_view_u8(view);
        if (is_null > 1)
            return RS_FORMAT;
        if (is_null || view->failed)
            return view->failed ? RS_AGAIN : RS_OK;
    }
    if (type->kind == ROW_BINARY_TEXT)
        return take_text(column, view, row, block);
    const bool is_signed = type->kind != ROW_BINARY_UINT;
    const int64_t value = take_int(view, type->bytes, is_signed);
    if (view->failed)
        return RS_AGAIN;
    if (!is_signed && value < 0)
        return RS_FORMAT; /* 2^63 or more: no count of anything */
    if (column->kind == RS_I64) {
        rs_column_set_i64(column, row, value);
    } else if (type->kind == ROW_BINARY_FLOAT) {
        double number;
        memcpy(&number, &value, sizeof number);
        rs_column_set_f64(column, row, number);
    } else {
        rs_column_set_f64(column, row, (double)value);
    }
    return RS_OK;
}

enum rs_status row_binary_take(const struct rs_column *const *columns,
                               const struct row_binary_type *types, size_t count,
                               struct rs_view *view, void *row, struct rs_block *block)
{
    const struct rs_view begin = *view;
    const size_t texts = block->texts.length;
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < count && status == RS_OK; i++)
        status = take_cell(columns[i], &types[i], view, row, block);
    if (status != RS_OK) {
        *view = begin;
        block->texts.length = texts;
    }
    return status;
}
