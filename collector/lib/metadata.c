/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program says of its run: a key and a JSON value, as an entry of the names area (layout.h). Whether a value is JSON is looked at
 * here, so that the program hears of it; the collector looks again. What it cannot keep is none: a number that 64 bits do not hold, the
 * character 0, half a pair of surrogates, bytes that are no UTF-8.
 */
#include "collector/lib/client_priv.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

enum { KEY_MAX_BYTES = 255, VALUE_MAX_BYTES = 3800, DEPTH_MAX = 32 };
enum { REAL_DIGITS_MAX = 308 }; /* before the point; what a double can hold */
_Static_assert(KEY_MAX_BYTES + 1 + VALUE_MAX_BYTES <= RS_LIB_NAME_MAX_BYTES, "an entry's text");

/* ---- is it JSON? Each takes where a thing begins and gives what is behind it; NULL: it is none. --------------------- */

static const char *blanks(const char *at)
{
    while (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r')
        at++;
    return at;
}

static const char *word(const char *at, const char *wanted)
{
    const size_t length = strlen(wanted);
    return strncmp(at, wanted, length) == 0 ? at + length : NULL;
}

static bool is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

static bool is_hex(char byte)
{
    return is_digit(byte) || (byte >= 'a' && byte <= 'f') || (byte >= 'A' && byte <= 'F');
}

static const char *digits(const char *at)
{
    if (!is_digit(*at))
        return NULL;
    while (is_digit(*at))
        at++;
    return at;
}

/* Of more than 64 bits with its sign. */
static bool is_too_large(const char *first, const char *end, bool is_negative)
{
    uint64_t value = 0;
    for (; first < end; first++) {
        const uint64_t digit = (uint64_t)(*first - '0');
        if (value > (UINT64_MAX - digit) / 10)
            return true;
        value = value * 10 + digit;
    }
    return value > (uint64_t)INT64_MAX + is_negative;
}

/* An exponent, as far as it matters. */
static ptrdiff_t places(const char *first, const char *end)
{
    ptrdiff_t value = 0;
    for (; first < end && value <= REAL_DIGITS_MAX; first++)
        value = value * 10 + (*first - '0');
    return value;
}

static const char *number(const char *at)
{
    const bool is_negative = *at == '-';
    at += is_negative;
    const char *first = at;
    at = *at == '0' ? at + 1 : digits(at);
    if (at != NULL && *at != '.' && *at != 'e' && *at != 'E')
        return is_too_large(first, at, is_negative) ? NULL : at;
    const ptrdiff_t whole = at == NULL ? 0 : at - first;
    if (at != NULL && *at == '.')
        at = digits(at + 1);
    if (at == NULL || (*at != 'e' && *at != 'E'))
        return whole > REAL_DIGITS_MAX ? NULL : at;
    const bool is_small = *++at == '-';
    at += *at == '+' || *at == '-';
    first = at;
    at = digits(at);
    return at != NULL && !is_small && whole + places(first, at) > REAL_DIGITS_MAX ? NULL : at;
}

/* Behind one character of UTF-8; NULL: it is none, an overlong form, a surrogate, or beyond U+10FFFF. */
static const char *character(const char *at)
{
    const unsigned char *p = (const unsigned char *)at;
    const unsigned more = p[0] < 0x80 ? 0 : p[0] >= 0xf0 ? 3 : p[0] >= 0xe0 ? 2 : 1;
    if (p[0] >= 0x80 && (p[0] < 0xc2 || p[0] > 0xf4))
        return NULL;
    for (unsigned i = 1; i <= more; i++)
        if (p[i] < 0x80 || p[i] > 0xbf)
            return NULL;
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
        (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
        return NULL;
    return at + 1 + more;
}

/* The number behind "\\u"; -1: none. */
static int unit(const char *at)
{
    int value = 0;
    for (unsigned i = 0; i < 4; i++) {
        if (!is_hex(at[i]))
            return -1;
        value = value * 16 + (is_digit(at[i]) ? at[i] - '0' : (at[i] | 0x20) - 'a' + 10);
    }
    return value;
}

/* Behind "\\uXXXX", or a pair of them: half a pair is no character, and 0 ends a text elsewhere. */
static const char *escaped(const char *at)
{
    const int first = unit(at + 2);
    if (first <= 0 || (first >= 0xdc00 && first <= 0xdfff))
        return NULL;
    at += 6;
    if (first < 0xd800 || first > 0xdbff)
        return at;
    if (at[0] != '\\' || at[1] != 'u')
        return NULL;
    const int second = unit(at + 2);
    return second >= 0xdc00 && second <= 0xdfff ? at + 6 : NULL;
}

static const char *string(const char *at)
{
    if (*at++ != '"')
        return NULL;
    while (at != NULL && *at != '"') {
        if ((unsigned char)*at < ' ')
            return NULL;
        if (*at != '\\')
            at = character(at);
        else if (at[1] == 'u')
            at = escaped(at);
        else
            at = at[1] != '\0' && strchr("\"\\/bfnrt", at[1]) != NULL ? at + 2 : NULL;
    }
    return at == NULL ? NULL : at + 1;
}

static const char *scalar(const char *at)
{
    switch (*at) {
    case '"':
        return string(at);
    case 't':
        return word(at, "true");
    case 'f':
        return word(at, "false");
    case 'n':
        return word(at, "null");
    default:
        return number(at);
    }
}

static const char *member_key(const char *at)
{
    at = string(blanks(at));
    if (at == NULL)
        return NULL;
    at = blanks(at);
    return *at == ':' ? at + 1 : NULL;
}

/* Behind the beginning of an object or array: where its first value stands, or, when it has none, what is behind it. */
static const char *opened(const char *at, char closer, bool *is_empty_p)
{
    const char *inside = blanks(at + 1);
    *is_empty_p = *inside == closer;
    if (*is_empty_p)
        return inside + 1;
    return closer == '}' ? member_key(inside) : inside;
}

/* Behind a value: what it stands in ends, or goes on with the next one. */
static const char *behind(const char *at, const char *closers, unsigned *depth_p)
{
    for (at = blanks(at); *depth_p > 0 && *at == closers[*depth_p - 1]; at = blanks(at + 1))
        --*depth_p;
    if (*depth_p == 0)
        return at;
    if (*at++ != ',')
        return NULL;
    return closers[*depth_p - 1] == '}' ? member_key(at) : at;
}

/* One value, whose objects and arrays stand in `closers`: what each of them ends with. */
static const char *value(const char *at)
{
    char closers[DEPTH_MAX];
    unsigned depth = 0;
    for (;;) {
        bool is_whole = true;
        at = blanks(at);
        if (*at != '{' && *at != '[') {
            at = scalar(at);
        } else if (depth == DEPTH_MAX) {
            return NULL;
        } else {
            closers[depth++] = *at == '{' ? '}' : ']';
            at = opened(at, closers[depth - 1], &is_whole);
            depth -= is_whole;
        }
        if (at != NULL && is_whole)
            at = behind(at, closers, &depth);
        if (at == NULL || (is_whole && depth == 0))
            return at;
    }
}

/* ---- entries ------------------------------------------------------------------------------------------------------- */

static bool is_text(const char *text)
{
    while (text != NULL && *text != '\0')
        text = character(text);
    return text != NULL;
}

static int check_key(const char *key)
{
    if (key == NULL || key[0] == '\0')
        return -EINVAL;
    if (strnlen(key, KEY_MAX_BYTES + 1) > KEY_MAX_BYTES)
        return -E2BIG;
    return is_text(key) ? 0 : -EINVAL;
}

static int put(const char *key, const char *json, size_t length)
{
    char text[KEY_MAX_BYTES + 1 + VALUE_MAX_BYTES];
    const size_t key_length = strlen(key);
    if (length > VALUE_MAX_BYTES)
        return -E2BIG;
    memcpy(text, key, key_length + 1);
    memcpy(text + key_length + 1, json, length);
    return rankscope_priv_names_add(RS_LIB_ENTRY_METADATA, text, key_length + 1 + length) ? 0
                                                                                          : -ENOMEM;
}

int rankscope_metadata_json(const char *key, const char *json)
{
    const int status = check_key(key);
    if (status != 0)
        return status;
    if (json == NULL)
        return -EINVAL;
    const size_t length = strnlen(json, VALUE_MAX_BYTES + 1);
    if (length > VALUE_MAX_BYTES)
        return -E2BIG;
    const char *end = value(json);
    if (end == NULL || *end != '\0')
        return -EINVAL;
    return put(key, json, length);
}

int rankscope_metadata(const char *key, const char *text)
{
    static const char hex[] = "0123456789abcdef";
    static const char escape[4] = {'\\', 'u', '0', '0'};
    char json[VALUE_MAX_BYTES];
    size_t length = 0;
    const int status = check_key(key);
    if (status != 0)
        return status;
    if (text == NULL)
        return -EINVAL;
    json[length++] = '"';
    for (const char *at = text; *at != '\0'; at++) {
        const unsigned char byte = (unsigned char)*at;
        if (length + 7 > sizeof json) /* the longest escape, and the closing quote */
            return -E2BIG;
        if (byte < ' ') {
            memcpy(json + length, escape, sizeof escape);
            json[length + 4] = hex[byte >> 4];
            json[length + 5] = hex[byte & 15];
            length += 6;
            continue;
        }
        if (byte == '"' || byte == '\\')
            json[length++] = '\\';
        json[length++] = (char)byte;
    }
    json[length++] = '"';
    return is_text(text) ? put(key, json, length) : -EINVAL;
}
