/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader's state is what may stand next:
 *
 *     VALUE --value--> AFTER --","--> KEY or VALUE          FIRST_*: also the closing bracket
 *     FIRST_KEY / KEY --"...":--> VALUE                      AFTER at depth 0: only the end
 */
#include "ascend/format/json.h"

#include "ascend/format/num.h"

#include <string.h>

enum { VALUE, FIRST_VALUE, KEY, FIRST_KEY, AFTER };

void rs_vjson_init(struct rs_vjson *json, const void *data, size_t length, const char *name)
{
    *json = (struct rs_vjson){.start = data,
                              .at = data,
                              .end = (const char *)data + length,
                              .name = name,
                              .expects = VALUE};
}

void rs_vjson_fini(struct rs_vjson *json)
{
    rs_buf_fini(&json->scratch);
}

enum rs_status rs_vjson_fail(const struct rs_vjson *json, const char *what, struct rs_err *err)
{
    return rs_err_set(err, RS_FORMAT, "%s: %s at byte %zu", json->name, what,
                      (size_t)(json->at - json->start));
}

bool rs_vjson_is(const struct rs_vjson *json, const char *text)
{
    const size_t length = strlen(text);
    return json->length == length && memcmp(json->text, text, length) == 0;
}

static void skip_space(struct rs_vjson *json)
{
    const char *p = json->at, *end = json->end;
    while (p < end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t'))
        p++;
    json->at = p;
}

/* The first byte that is not plain text of a string: a quote, a backslash, a control or beyond
 * ASCII. Eight at a time: the high bit of a lane tells. */
static const char *skip_plain(const char *p, const char *end)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), highs = ones << 7;
    while (end - p >= 8) {
        uint64_t word;
        memcpy(&word, p, sizeof word);
        const uint64_t quote = word ^ (ones * '"'), slash = word ^ (ones * '\\');
        const uint64_t hit =
            ((quote - ones) & ~quote) | ((slash - ones) & ~slash) | (word - ones * 0x20) | word;
        if (hit & highs)
            break;
        p += 8;
    }
    while (p < end && (unsigned char)*p >= 0x20 && (unsigned char)*p < 0x80 && *p != '"' &&
           *p != '\\')
        p++;
    return p;
}

/* Bytes of the UTF-8 sequence at p; 0: none (overlong, surrogate, beyond U+10FFFF, cut off). */
static size_t utf8_length(const char *text, const char *end)
{
    const unsigned char *p = (const unsigned char *)text;
    const size_t left = (size_t)(end - text);
    const size_t length = p[0] < 0xC2 ? 0 : p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3 : p[0] < 0xF5 ? 4 : 0;
    if (length == 0 || left < length)
        return 0;
    for (size_t i = 1; i < length; i++)
        if ((p[i] & 0xC0) != 0x80)
            return 0;
    const bool is_bad = (p[0] == 0xE0 && p[1] < 0xA0) || (p[0] == 0xED && p[1] > 0x9F) ||
                        (p[0] == 0xF0 && p[1] < 0x90) || (p[0] == 0xF4 && p[1] > 0x8F);
    return is_bad ? 0 : length;
}

/* Four hex digits; -1 when they are not there. */
static int32_t hex4(const char *p, const char *end)
{
    int32_t value = 0;
    if (end - p < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        const char c = p[i];
        const int digit = c >= '0' && c <= '9'   ? c - '0'
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                 : -1;
        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    return value;
}

static void put_utf8(struct rs_buf *buf, uint32_t code)
{
    if (code < 0x80) {
        rs_buf_u8(buf, (uint8_t)code);
        return;
    }
    if (code < 0x800) {
        rs_buf_u8(buf, (uint8_t)(0xC0 | code >> 6));
    } else {
        if (code < 0x10000) {
            rs_buf_u8(buf, (uint8_t)(0xE0 | code >> 12));
        } else {
            rs_buf_u8(buf, (uint8_t)(0xF0 | code >> 18));
            rs_buf_u8(buf, (uint8_t)(0x80 | (code >> 12 & 0x3F)));
        }
        rs_buf_u8(buf, (uint8_t)(0x80 | (code >> 6 & 0x3F)));
    }
    rs_buf_u8(buf, (uint8_t)(0x80 | (code & 0x3F)));
}

/* At the u of a backslash-u escape. */
static enum rs_status read_unicode(struct rs_vjson *json, struct rs_err *err)
{
    const int32_t first = hex4(json->at + 1, json->end);
    if (first <= 0)
        return rs_vjson_fail(json, first == 0 ? "an escaped NUL" : "a bad escape", err);
    json->at += 5;
    if (first < 0xD800 || first > 0xDFFF) {
        put_utf8(&json->scratch, (uint32_t)first);
        return RS_OK;
    }
    const bool is_pair = json->end - json->at >= 6 && json->at[0] == '\\' && json->at[1] == 'u';
    const int32_t second = is_pair ? hex4(json->at + 2, json->end) : -1;
    if (first > 0xDBFF || second < 0xDC00 || second > 0xDFFF)
        return rs_vjson_fail(json, "half a surrogate pair", err);
    json->at += 6;
    put_utf8(&json->scratch,
             0x10000 + ((uint32_t)first - 0xD800) * 0x400 + ((uint32_t)second - 0xDC00));
    return RS_OK;
}

/* Behind a backslash. */
static enum rs_status read_escape(struct rs_vjson *json, struct rs_err *err)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (json->at == json->end)
        return rs_vjson_fail(json, "the end in the middle of a string", err);
    if (*json->at == 'u')
        return read_unicode(json, err);
    const char *found = memchr(from, *json->at, sizeof from - 1);
    if (!found)
        return rs_vjson_fail(json, "a bad escape", err);
    rs_buf_u8(&json->scratch, (uint8_t)to[found - from]);
    json->at++;
    return RS_OK;
}

/* The rest of a string that holds escapes, through the scratch buffer. `from`: its first byte. */
static enum rs_status read_escaped(struct rs_vjson *json, const char *from, struct rs_err *err)
{
    rs_buf_reset(&json->scratch);
    rs_buf_bytes(&json->scratch, from, (size_t)(json->at - from));
    for (;;) {
        const char *p = skip_plain(json->at, json->end);
        rs_buf_bytes(&json->scratch, json->at, (size_t)(p - json->at));
        json->at = p;
        if (p == json->end)
            return rs_vjson_fail(json, "the end in the middle of a string", err);
        if (*p == '"')
            break;
        if (*p == '\\') {
            json->at++;
            const enum rs_status status = read_escape(json, err);
            if (status != RS_OK)
                return status;
            continue;
        }
        const size_t length = utf8_length(p, json->end);
        if (length == 0)
            return rs_vjson_fail(json, "a byte that cannot stand in a string", err);
        rs_buf_bytes(&json->scratch, p, length);
        json->at += length;
    }
    json->at++;
    if (json->scratch.failed)
        return rs_err_set(err, RS_NOMEM, "no memory to read %s", json->name);
    json->text = json->scratch.length ? (const char *)json->scratch.data : "";
    json->length = json->scratch.length;
    return RS_OK;
}

/* At the opening quote. */
static enum rs_status read_string(struct rs_vjson *json, struct rs_err *err)
{
    const char *from = ++json->at;
    for (;;) {
        const char *p = skip_plain(json->at, json->end);
        json->at = p;
        if (p == json->end)
            return rs_vjson_fail(json, "the end in the middle of a string", err);
        if (*p == '"') {
            json->text = from;
            json->length = (size_t)(p - from);
            json->at = p + 1;
            return RS_OK;
        }
        if (*p == '\\')
            return read_escaped(json, from, err);
        const size_t length = utf8_length(p, json->end);
        if (length == 0)
            return rs_vjson_fail(json, "a byte that cannot stand in a string", err);
        json->at += length;
    }
}

static enum rs_status read_word(struct rs_vjson *json, const char *word, enum rs_vjson_token token,
                                struct rs_err *err)
{
    const size_t length = strlen(word);
    if ((size_t)(json->end - json->at) < length || memcmp(json->at, word, length) != 0)
        return rs_vjson_fail(json, "an unknown word", err);
    json->at += length;
    json->token = token;
    return RS_OK;
}

static enum rs_status open_one(struct rs_vjson *json, bool is_object, struct rs_err *err)
{
    if (json->depth == RS_VJSON_DEPTH_MAX)
        return rs_vjson_fail(json, "nesting too deep", err);
    json->in_object[json->depth++] = is_object;
    json->at++;
    json->token = is_object ? RS_VJSON_OBJECT : RS_VJSON_ARRAY;
    json->expects = is_object ? FIRST_KEY : FIRST_VALUE;
    return RS_OK;
}

static enum rs_status read_value(struct rs_vjson *json, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    const char c = *json->at;
    json->expects = AFTER;
    if (c == '"') {
        json->token = RS_VJSON_STRING;
        return read_string(json, err);
    }
    if (c == '{' || c == '[')
        return open_one(json, c == '{', err);
    if (c == 't')
        return read_word(json, "true", RS_VJSON_TRUE, err);
    if (c == 'f')
        return read_word(json, "false", RS_VJSON_FALSE, err);
    if (c == 'n')
        return read_word(json, "null", RS_VJSON_NULL, err);
    const size_t length = rs_ascend_num_scan(json->at, (size_t)(json->end - json->at));
    if (length == 0)
        return rs_vjson_fail(json, "no value", err);
    json->token = RS_VJSON_NUMBER;
    json->text = json->at;
    json->length = length;
    json->at += length;
    return status;
}

static enum rs_status read_key(struct rs_vjson *json, struct rs_err *err)
{
    if (*json->at != '"')
        return rs_vjson_fail(json, "no key", err);
    const enum rs_status status = read_string(json, err);
    if (status != RS_OK)
        return status;
    skip_space(json);
    if (json->at == json->end || *json->at != ':')
        return rs_vjson_fail(json, "no colon behind a key", err);
    json->at++;
    json->token = RS_VJSON_KEY;
    json->expects = VALUE;
    return RS_OK;
}

static enum rs_status close_one(struct rs_vjson *json, struct rs_err *err)
{
    const bool is_object = json->in_object[json->depth - 1];
    if (*json->at != (is_object ? '}' : ']'))
        return rs_vjson_fail(json, "the wrong closing bracket", err);
    json->at++;
    json->depth--;
    json->token = is_object ? RS_VJSON_OBJECT_END : RS_VJSON_ARRAY_END;
    json->expects = AFTER;
    return RS_OK;
}

enum rs_status rs_vjson_next(struct rs_vjson *json, struct rs_err *err)
{
    skip_space(json);
    if (json->at == json->end) {
        if (json->depth || json->expects != AFTER)
            return rs_vjson_fail(json, "cut off: the end", err);
        json->token = RS_VJSON_END;
        return RS_OK;
    }
    const char c = *json->at;
    if (json->expects == AFTER) {
        if (json->depth == 0)
            return rs_vjson_fail(json, "something behind the document", err);
        if (c != ',')
            return c == '}' || c == ']' ? close_one(json, err)
                                        : rs_vjson_fail(json, "no comma", err);
        json->at++;
        json->expects = json->in_object[json->depth - 1] ? KEY : VALUE;
        skip_space(json);
        if (json->at == json->end)
            return rs_vjson_fail(json, "cut off: the end", err);
    } else if ((json->expects == FIRST_KEY && c == '}') ||
               (json->expects == FIRST_VALUE && c == ']')) {
        return close_one(json, err);
    }
    return json->expects == KEY || json->expects == FIRST_KEY ? read_key(json, err)
                                                              : read_value(json, err);
}

enum rs_status rs_vjson_skip(struct rs_vjson *json, struct rs_err *err)
{
    const bool is_open = json->token == RS_VJSON_OBJECT || json->token == RS_VJSON_ARRAY;
    const unsigned depth = is_open ? json->depth - 1 : json->depth;
    enum rs_status status = RS_OK;
    if (!is_open)
        status = rs_vjson_next(json, err);
    while (status == RS_OK && json->depth > depth)
        status = rs_vjson_next(json, err);
    return status;
}

enum rs_status rs_vjson_want(struct rs_vjson *json, enum rs_vjson_token token, struct rs_err *err)
{
    static const char *const words[] = {
        "no object", "no end of an object", "no array", "no end of an array", "no key",
        "no text",   "no number",           "no true",  "no false",           "no null",
        "no end"};
    const enum rs_status status = rs_vjson_next(json, err);
    if (status != RS_OK)
        return status;
    return json->token == token ? RS_OK : rs_vjson_fail(json, words[token], err);
}
