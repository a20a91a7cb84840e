/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/buf.h"

#include "common/base/check.h"
#include "common/base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void rs_buf_fini(struct rs_buf *buf)
{
    rs_mem_free(buf->data);
    *buf = (struct rs_buf){0};
}

void rs_buf_reset(struct rs_buf *buf)
{
    buf->length = 0;
    buf->failed = false;
}

uint8_t *rs_buf_reserve(struct rs_buf *buf, size_t more)
{
    size_t need;
    if (buf->data && !buf->failed && more <= buf->capacity - buf->length)
        return buf->data + buf->length;
    if (buf->failed || __builtin_add_overflow(buf->length, more, &need) ||
        rs_mem_grow((void **)&buf->data, &buf->capacity, need ? need : 1, 1) != RS_OK) {
        buf->failed = true;
        return NULL;
    }
    return buf->data + buf->length;
}

void rs_buf_commit(struct rs_buf *buf, size_t used)
{
    RS_CHECK(used <= buf->capacity - buf->length);
    buf->length += used;
}

void rs_buf_bytes(struct rs_buf *buf, const void *bytes, size_t length)
{
    uint8_t *to = rs_buf_reserve(buf, length);
    if (!to || !length)
        return;
    memcpy(to, bytes, length);
    buf->length += length;
}

void rs_buf_string(struct rs_buf *buf, const char *text)
{
    rs_buf_bytes(buf, text, strlen(text));
}

void rs_buf_decimal(struct rs_buf *buf, uint64_t value)
{
    char digits[20];
    size_t first = sizeof digits;
    do {
        digits[--first] = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    rs_buf_bytes(buf, digits + first, sizeof digits - first);
}

void rs_buf_printf(struct rs_buf *buf, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (length < 0) {
        buf->failed = true;
        return;
    }
    char *to = (char *)rs_buf_reserve(buf, (size_t)length + 1);
    if (!to)
        return;
    va_start(args, format);
    (void)vsnprintf(to, (size_t)length + 1, format, args);
    va_end(args);
    buf->length += (size_t)length;
}

static void put_little_endian(struct rs_buf *buf, uint64_t value, size_t bytes)
{
    uint8_t *to = rs_buf_reserve(buf, bytes);
    if (!to)
        return;
    for (size_t i = 0; i < bytes; i++)
        to[i] = (uint8_t)(value >> (8 * i));
    buf->length += bytes;
}

void rs_buf_u8(struct rs_buf *buf, uint8_t value)
{
    put_little_endian(buf, value, 1);
}

void rs_buf_u16(struct rs_buf *buf, uint16_t value)
{
    put_little_endian(buf, value, 2);
}

void rs_buf_u32(struct rs_buf *buf, uint32_t value)
{
    put_little_endian(buf, value, 4);
}

void rs_buf_u64(struct rs_buf *buf, uint64_t value)
{
    put_little_endian(buf, value, 8);
}

void rs_buf_varint(struct rs_buf *buf, uint64_t value)
{
    uint8_t *to = rs_buf_reserve(buf, 10);
    if (!to)
        return;
    size_t used = 0;
    while (value >= 0x80) {
        to[used++] = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    to[used++] = (uint8_t)value;
    buf->length += used;
}

void rs_buf_zigzag(struct rs_buf *buf, int64_t value)
{
    rs_buf_varint(buf, ((uint64_t)value << 1) ^ (value < 0 ? UINT64_MAX : 0));
}

const char *rs_buf_text(struct rs_buf *buf)
{
    uint8_t *end = rs_buf_reserve(buf, 1);
    if (!end)
        return "";
    *end = '\0';
    return (const char *)buf->data;
}
