/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/json_out.h"

#include "common/base/check.h"
#include "common/base/utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void rs_json_out_init(struct rs_json_out *json, struct rs_buf *buf, unsigned indent_count)
{
    *json = (struct rs_json_out){.buf = buf, .indent_count = indent_count};
}

static void new_line(struct rs_json_out *json)
{
    if (!json->indent_count)
        return;
    rs_buf_u8(json->buf, '\n');
    for (unsigned i = 0; i < json->depth * json->indent_count; i++)
        rs_buf_u8(json->buf, ' ');
}

static void next_member(struct rs_json_out *json)
{
    if (!json->depth)
        return;
    if (json->has_members[json->depth - 1])
        rs_buf_u8(json->buf, ',');
    json->has_members[json->depth - 1] = true;
    new_line(json);
}

static void before_value(struct rs_json_out *json)
{
    if (json->depth && json->in_object[json->depth - 1]) {
        RS_CHECK(json->has_key);
        json->has_key = false;
        return;
    }
    next_member(json);
}

static void open_level(struct rs_json_out *json, bool is_object)
{
    before_value(json);
    RS_CHECK(json->depth < RS_JSON_OUT_DEPTH);
    rs_buf_u8(json->buf, is_object ? '{' : '[');
    json->in_object[json->depth] = is_object;
    json->has_members[json->depth] = false;
    json->depth++;
}

void rs_json_out_object(struct rs_json_out *json)
{
    open_level(json, true);
}

void rs_json_out_array(struct rs_json_out *json)
{
    open_level(json, false);
}

void rs_json_out_end(struct rs_json_out *json)
{
    RS_CHECK(json->depth > 0 && !json->has_key);
    json->depth--;
    if (json->has_members[json->depth])
        new_line(json);
    rs_buf_u8(json->buf, json->in_object[json->depth] ? '}' : ']');
}

static void put_escaped(struct rs_buf *buf, unsigned char byte)
{
    switch (byte) {
    case '"':
        rs_buf_string(buf, "\\\"");
        break;
    case '\\':
        rs_buf_string(buf, "\\\\");
        break;
    case '\n':
        rs_buf_string(buf, "\\n");
        break;
    case '\r':
        rs_buf_string(buf, "\\r");
        break;
    case '\t':
        rs_buf_string(buf, "\\t");
        break;
    default:
        rs_buf_printf(buf, "\\u%04x", byte);
    }
}

static void put_string(struct rs_buf *buf, const char *text, size_t length)
{
    const unsigned char *p = (const unsigned char *)text;
    const unsigned char *end = p + length;
    rs_buf_u8(buf, '"');
    while (p < end) {
        const unsigned char *plain = p;
        while (p < end && *p >= 0x20 && *p < 0x7f && *p != '"' && *p != '\\')
            p++;
        rs_buf_bytes(buf, plain, (size_t)(p - plain));
        if (p == end)
            break;
        const size_t wide = rs_utf8_length(p, (size_t)(end - p));
        if (wide == 1)
            put_escaped(buf, *p);
        else if (wide && rs_utf8_is_control(rs_utf8_char(p, wide)))
            rs_buf_printf(buf, "\\u%04x", rs_utf8_char(p, wide)); /* all are of the first plane */
        else if (wide)
            rs_buf_bytes(buf, p, wide);
        else
            rs_buf_string(buf, "\xef\xbf\xbd");
        p += wide ? wide : 1;
    }
    rs_buf_u8(buf, '"');
}

void rs_json_out_key_bytes(struct rs_json_out *json, const char *key, size_t length)
{
    RS_CHECK(json->depth && json->in_object[json->depth - 1] && !json->has_key);
    next_member(json);
    put_string(json->buf, key, length);
    rs_buf_string(json->buf, json->indent_count ? ": " : ":");
    json->has_key = true;
}

void rs_json_out_key(struct rs_json_out *json, const char *key)
{
    rs_json_out_key_bytes(json, key, strlen(key));
}

void rs_json_out_bytes(struct rs_json_out *json, const char *text, size_t length)
{
    before_value(json);
    put_string(json->buf, text, length);
}

void rs_json_out_string(struct rs_json_out *json, const char *text)
{
    rs_json_out_bytes(json, text, strlen(text));
}

void rs_json_out_number(struct rs_json_out *json, const char *digits)
{
    before_value(json);
    rs_buf_string(json->buf, digits);
}

void rs_json_out_int(struct rs_json_out *json, int64_t value)
{
    before_value(json);
    if (value < 0)
        rs_buf_u8(json->buf, '-');
    rs_buf_decimal(json->buf, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

void rs_json_out_uint(struct rs_json_out *json, uint64_t value)
{
    before_value(json);
    rs_buf_decimal(json->buf, value);
}

void rs_json_out_bool(struct rs_json_out *json, bool value)
{
    rs_json_out_number(json, value ? "true" : "false");
}

void rs_json_out_null(struct rs_json_out *json)
{
    rs_json_out_number(json, "null");
}

void rs_json_out_double(struct rs_json_out *json, double value)
{
    char digits[40];
    if (!isfinite(value)) {
        rs_json_out_null(json);
        return;
    }
    for (int precision = 15; precision <= 17; precision++) {
        (void)snprintf(digits, sizeof digits, "%.*g", precision, value);
        if (strtod(digits, NULL) == value) /* NOLINT: exact on purpose */
            break;
    }
    rs_json_out_number(json, digits);
}

void rs_json_put_string(struct rs_json_out *json, const char *key, const char *text)
{
    rs_json_out_key(json, key);
    rs_json_out_string(json, text);
}

void rs_json_put_int(struct rs_json_out *json, const char *key, int64_t value)
{
    rs_json_out_key(json, key);
    rs_json_out_int(json, value);
}

void rs_json_put_uint(struct rs_json_out *json, const char *key, uint64_t value)
{
    rs_json_out_key(json, key);
    rs_json_out_uint(json, value);
}

void rs_json_put_bool(struct rs_json_out *json, const char *key, bool value)
{
    rs_json_out_key(json, key);
    rs_json_out_bool(json, value);
}

void rs_json_put_null(struct rs_json_out *json, const char *key)
{
    rs_json_out_key(json, key);
    rs_json_out_null(json);
}

void rs_json_put_text(struct rs_json_out *json, const char *key, const char *text)
{
    if (text && *text)
        rs_json_put_string(json, key, text);
    else
        rs_json_put_null(json, key);
}

void rs_json_put_known(struct rs_json_out *json, const char *key, int64_t value, bool is_known)
{
    if (is_known)
        rs_json_put_int(json, key, value);
    else
        rs_json_put_null(json, key);
}

void rs_json_put_object(struct rs_json_out *json, const char *key)
{
    rs_json_out_key(json, key);
    rs_json_out_object(json);
}

void rs_json_put_array(struct rs_json_out *json, const char *key)
{
    rs_json_out_key(json, key);
    rs_json_out_array(json);
}
