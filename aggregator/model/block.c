/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows column by column, and back: BLOCK.md says byte for byte what stands in a block.
 *
 * Pages travel over the wire and segments lie on disks, so the reader trusts nothing: every length is held
 * against what is there, every row count against the limit, before memory is asked for.
 */
#include "aggregator/model/columns.h"
#include "common/base/check.h"
#include "common/base/mem.h"

#include <math.h>
#include <string.h>

enum { FORM_VALUES, FORM_SOME_ABSENT, FORM_ALL_ABSENT };
static const char magic[4] = {'R', 'S', 'B', '1'};

/* --- writing ----------------------------------------------------------------------------------------- */

static const void *row_at(const struct rs_table *table, const void *rows, size_t index)
{
    return (const char *)rows + index * table->row_bytes;
}

static void put_little_u32(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

static void put_i64s(const struct rs_table *table, const struct rs_column *column, const void *rows,
                     size_t count, struct rs_buf *buf)
{
    uint64_t before = 0;
    for (size_t i = 0; i < count; i++) {
        const int64_t value = rs_column_i64(column, row_at(table, rows, i));
        if (value == RS_NULL)
            continue;
        rs_buf_zigzag(buf, (int64_t)((uint64_t)value - before));
        before = (uint64_t)value;
    }
}

static void put_f64s(const struct rs_table *table, const struct rs_column *column, const void *rows,
                     size_t count, struct rs_buf *buf)
{
    for (size_t i = 0; i < count; i++) {
        const double value = rs_column_f64(column, row_at(table, rows, i));
        uint64_t bits;
        if (isnan(value))
            continue;
        memcpy(&bits, &value, sizeof bits);
        rs_buf_u64(buf, bits);
    }
}

static void put_texts(const struct rs_table *table, const struct rs_column *column,
                      const void *rows, size_t count, struct rs_buf *buf)
{
    const char *before = NULL;
    for (size_t i = 0; i < count; i++) {
        const char *text = rs_column_text(column, row_at(table, rows, i));
        if (!text)
            continue;
        if (before && (before == text || strcmp(before, text) == 0)) {
            rs_buf_u8(buf, 0);
            continue;
        }
        const size_t length = strlen(text);
        rs_buf_varint(buf, (uint64_t)length + 1);
        rs_buf_bytes(buf, text, length);
        before = text;
    }
}

static void put_column(const struct rs_table *table, const struct rs_column *column,
                       const void *rows, size_t count, struct rs_buf *buf)
{
    size_t absent = 0;
    const size_t name = strlen(column->name);
    for (size_t i = 0; i < count; i++)
        absent += rs_column_is_null(column, row_at(table, rows, i));
    RS_CHECK(name < 256);
    rs_buf_u8(buf, (uint8_t)name);
    rs_buf_bytes(buf, column->name, name);
    rs_buf_u8(buf, column->kind);
    rs_buf_u8(buf, (uint8_t)(!absent           ? FORM_VALUES
                             : absent == count ? FORM_ALL_ABSENT
                                               : FORM_SOME_ABSENT));
    const size_t length_at = buf->length;
    rs_buf_u32(buf, 0);
    for (size_t i = 0; absent && absent < count && i < count; i += 8) {
        uint8_t bits = 0;
        for (size_t k = i; k < i + 8 && k < count; k++)
            if (rs_column_is_null(column, row_at(table, rows, k)))
                bits |= (uint8_t)(1u << (k - i));
        rs_buf_u8(buf, bits);
    }
    switch ((enum rs_column_kind)column->kind) {
    case RS_I64:
        put_i64s(table, column, rows, count, buf);
        break;
    case RS_F64:
        put_f64s(table, column, rows, count, buf);
        break;
    case RS_TEXT:
    case RS_DECIMAL:
        put_texts(table, column, rows, count, buf);
    }
    if (buf->failed)
        return;
    const size_t length = buf->length - length_at - 4;
    RS_CHECK(length <= UINT32_MAX);
    put_little_u32(buf->data + length_at, (uint32_t)length);
}

void rs_block_put(const struct rs_table *table, const void *rows, size_t count, struct rs_buf *buf)
{
    RS_CHECK(count <= RS_BLOCK_ROWS_MAX && table->column_count <= UINT16_MAX);
    rs_buf_bytes(buf, magic, sizeof magic);
    rs_buf_u32(buf, (uint32_t)count);
    rs_buf_u16(buf, (uint16_t)table->column_count);
    for (size_t i = 0; i < table->column_count; i++)
        put_column(table, &table->columns[i], rows, count, buf);
}

/* --- a block being filled --------------------------------------------------------------------------- */

/* The texts' buffer may move while it grows, so until the end rows hold offsets + 1 in place of pointers. */
static const char *offset_as_text(size_t offset)
{
    return (const char *)(uintptr_t)offset; // NOLINT(performance-no-int-to-ptr)
}

static void *block_row(const struct rs_block *block, size_t index)
{
    return (char *)block->rows + index * block->table->row_bytes;
}

void rs_block_begin(struct rs_block *block, const struct rs_table *table)
{
    if (block->table && block->table->row_bytes != table->row_bytes) {
        rs_mem_free(block->rows); /* its capacity counts rows of another size */
        block->rows = NULL;
        block->capacity = 0;
    }
    block->table = table;
    block->count = 0;
    block->has_failed = false;
    rs_buf_reset(&block->texts);
}

void *rs_block_add(struct rs_block *block)
{
    if (rs_mem_grow(&block->rows, &block->capacity, block->count + 1, block->table->row_bytes) !=
        RS_OK) {
        block->has_failed = true;
        return NULL;
    }
    void *row = block_row(block, block->count++);
    memset(row, 0, block->table->row_bytes);
    rs_row_clear(block->table, row);
    return row;
}

void rs_block_set_text(struct rs_block *block, const struct rs_column *column, void *row,
                       const char *text, size_t length)
{
    rs_column_set_text(column, row, offset_as_text(block->texts.length + 1));
    if (length)
        rs_buf_bytes(&block->texts, text, length);
    rs_buf_u8(&block->texts, 0);
}

void rs_block_text(struct rs_block *block, const char **field, const char *text)
{
    if (!text)
        return;
    *field = offset_as_text(block->texts.length + 1);
    rs_buf_bytes(&block->texts, text, strlen(text) + 1);
}

enum rs_status rs_block_end(struct rs_block *block)
{
    if (block->has_failed || block->texts.failed) {
        block->count = 0;
        return RS_NOMEM;
    }
    for (size_t c = 0; c < block->table->column_count; c++) {
        const struct rs_column *column = &block->table->columns[c];
        if (column->kind != RS_TEXT && column->kind != RS_DECIMAL)
            continue;
        for (size_t i = 0; i < block->count; i++) {
            void *row = block_row(block, i);
            const size_t offset = (size_t)(uintptr_t)rs_column_text(column, row);
            if (offset)
                rs_column_set_text(column, row, (const char *)block->texts.data + offset - 1);
        }
    }
    return RS_OK;
}

/* --- reading ----------------------------------------------------------------------------------------- */

struct taker {
    struct rs_block *block;
    const struct rs_column *column;
    struct rs_view absent, values;
    struct rs_err *err;
};

static enum rs_status refuse(const struct taker *taker, const char *what)
{
    return rs_err_set(taker->err, RS_FORMAT, "block of table %s, column %s: %s",
                      taker->block->table->name, taker->column ? taker->column->name : "-", what);
}

static bool is_absent(const struct taker *taker, size_t index)
{
    return taker->absent.data && (taker->absent.data[index / 8] >> (index % 8) & 1);
}

static void take_i64s(struct taker *taker)
{
    uint64_t before = 0;
    for (size_t i = 0; i < taker->block->count; i++) {
        if (is_absent(taker, i))
            continue;
        before += (uint64_t)rs_view_zigzag(&taker->values);
        rs_column_set_i64(taker->column, block_row(taker->block, i), (int64_t)before);
    }
}

static void take_f64s(struct taker *taker)
{
    for (size_t i = 0; i < taker->block->count; i++) {
        if (is_absent(taker, i))
            continue;
        const uint64_t bits = rs_view_u64(&taker->values);
        double value;
        memcpy(&value, &bits, sizeof value);
        rs_column_set_f64(taker->column, block_row(taker->block, i), value);
    }
}

static enum rs_status take_texts(struct taker *taker)
{
    struct rs_buf *texts = &taker->block->texts;
    size_t before = 0; /* offset + 1 */
    for (size_t i = 0; i < taker->block->count; i++) {
        if (is_absent(taker, i))
            continue;
        const uint64_t length = rs_view_varint(&taker->values);
        if (taker->values.failed || length > (uint64_t)taker->values.length + 1)
            return refuse(taker, "a text runs past the end");
        if (!length && !before)
            return refuse(taker, "the first text refers to one before");
        void *row = block_row(taker->block, i);
        if (!length) {
            rs_column_set_text(taker->column, row, offset_as_text(before));
            continue;
        }
        const struct rs_view text = rs_view_take(&taker->values, (size_t)length - 1);
        if (text.length && memchr(text.data, 0, text.length))
            return refuse(taker, "a text holds a NUL");
        if (texts->length + length > RS_BLOCK_BYTES_MAX)
            return rs_err_set(taker->err, RS_LIMIT, "block of table %s: too much text",
                              taker->block->table->name);
        before = texts->length + 1;
        rs_block_set_text(taker->block, taker->column, row, (const char *)text.data, text.length);
    }
    return RS_OK;
}

static enum rs_status take_absent(struct taker *taker, uint8_t form)
{
    const size_t count = taker->block->count;
    taker->absent = (struct rs_view){0};
    if (form > FORM_ALL_ABSENT)
        return refuse(taker, "unknown form");
    if (form != FORM_SOME_ABSENT)
        return RS_OK;
    taker->absent = rs_view_take(&taker->values, (count + 7) / 8);
    if (taker->values.failed)
        return refuse(taker, "the list of absent rows is cut");
    if (count % 8 && taker->absent.data[count / 8] >> (count % 8))
        return refuse(taker, "absent rows behind the last");
    return RS_OK;
}

static enum rs_status take_column(struct taker *taker, struct rs_view *bytes)
{
    const struct rs_column *column = taker->column;
    const size_t name = strlen(column->name);
    const struct rs_view has = rs_view_take(bytes, rs_view_u8(bytes));
    const uint8_t kind = rs_view_u8(bytes), form = rs_view_u8(bytes);
    taker->values = rs_view_take(bytes, rs_view_u32(bytes));
    if (bytes->failed)
        return refuse(taker, "it is cut");
    if (has.length != name || memcmp(has.data, column->name, name) != 0 || kind != column->kind)
        return refuse(taker, "another column stands there");
    enum rs_status status = take_absent(taker, form);
    if (status != RS_OK)
        return status;
    if (form != FORM_ALL_ABSENT) {
        if (column->kind == RS_I64)
            take_i64s(taker);
        else if (column->kind == RS_F64)
            take_f64s(taker);
        else
            status = take_texts(taker);
    }
    if (status == RS_OK && (taker->values.failed || taker->values.length))
        status = refuse(taker, "its values are not as long as it says");
    return status;
}

enum rs_status rs_block_take(const struct rs_table *table, struct rs_view bytes,
                             struct rs_block *block, struct rs_err *err)
{
    struct taker taker = {.block = block, .err = err};
    rs_block_begin(block, table);
    const struct rs_view head = rs_view_take(&bytes, sizeof magic);
    const uint32_t count = rs_view_u32(&bytes);
    const uint16_t columns = rs_view_u16(&bytes);
    if (bytes.failed || memcmp(head.data, magic, sizeof magic) != 0)
        return refuse(&taker, "no block begins there");
    if (count > RS_BLOCK_ROWS_MAX)
        return rs_err_set(err, RS_LIMIT, "block of table %s: %u rows, at most %d are allowed",
                          table->name, count, RS_BLOCK_ROWS_MAX);
    if (columns != table->column_count)
        return refuse(&taker, "another number of columns");
    for (uint32_t i = 0; i < count; i++)
        if (!rs_block_add(block))
            return rs_err_set(err, RS_NOMEM, "no memory for a block of %u rows", count);
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < table->column_count && status == RS_OK; i++) {
        taker.column = &table->columns[i];
        status = take_column(&taker, &bytes);
    }
    if (status == RS_OK && bytes.length) {
        taker.column = NULL;
        status = refuse(&taker, "bytes behind the last column");
    }
    if (status == RS_OK && rs_block_end(block) != RS_OK)
        status = rs_err_set(err, RS_NOMEM, "no memory for a block of %u rows", count);
    if (status != RS_OK)
        block->count = 0;
    return status;
}

const void *rs_block_row(const struct rs_block *block, size_t index)
{
    RS_CHECK(index < block->count);
    return block_row(block, index);
}

void rs_block_fini(struct rs_block *block)
{
    rs_mem_free(block->rows);
    rs_buf_fini(&block->texts);
    *block = (struct rs_block){0};
}
