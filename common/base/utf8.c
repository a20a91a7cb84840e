/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/utf8.h"

#include <stdint.h>
#include <string.h>

size_t rs_utf8_length(const unsigned char *p, size_t left)
{
    static const struct {
        unsigned char first_low, first_high, second_low, second_high, length;
    } forms[] = {
        {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3},
        {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4},
        {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
    };
    if (p[0] < 0x80)
        return 1;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if (p[0] < forms[i].first_low || p[0] > forms[i].first_high)
            continue;
        if (left < forms[i].length || p[1] < forms[i].second_low || p[1] > forms[i].second_high)
            return 0;
        for (size_t k = 2; k < forms[i].length; k++)
            if (p[k] < 0x80 || p[k] > 0xbf)
                return 0;
        return forms[i].length;
    }
    return 0;
}

size_t rs_utf8_valid(const char *text, size_t length)
{
    size_t at = 0;
    while (at < length) {
        uint64_t eight;
        while (length - at >= sizeof eight) { /* most text is ASCII */
            memcpy(&eight, text + at, sizeof eight);
            if (eight & UINT64_C(0x8080808080808080))
                break;
            at += sizeof eight;
        }
        if (at == length)
            break;
        const size_t wide = rs_utf8_length((const unsigned char *)text + at, length - at);
        if (!wide)
            break;
        at += wide;
    }
    return at;
}

const char *rs_utf8_clean(const char *text, size_t length, struct rs_buf *scratch, size_t *length_p)
{
    size_t at = rs_utf8_valid(text, length), from = 0;
    *length_p = length;
    if (at == length)
        return text;
    rs_buf_reset(scratch);
    while (at < length) {
        rs_buf_bytes(scratch, text + from, at - from);
        rs_buf_printf(scratch, "\\x%02X", (unsigned char)text[at]);
        from = at + 1;
        at = from + rs_utf8_valid(text + from, length - from);
    }
    rs_buf_bytes(scratch, text + from, at - from);
    if (scratch->failed) {
        *length_p = rs_utf8_valid(text, length);
        return text;
    }
    *length_p = scratch->length;
    return rs_buf_text(scratch);
}

uint32_t rs_utf8_char(const unsigned char *p, size_t length)
{
    static const unsigned char masks[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t character = p[0] & masks[length];
    for (size_t i = 1; i < length; i++)
        character = character << 6 | (p[i] & 0x3fU);
    return character;
}

bool rs_utf8_is_control(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x061c || c == 0x200e || c == 0x200f ||
           c == 0x2028 || c == 0x2029 || (c >= 0x202a && c <= 0x202e) ||
           (c >= 0x2066 && c <= 0x2069);
}

void rs_utf8_plain(char *text)
{
    unsigned char *p = (unsigned char *)text;
    size_t left = strlen(text);
    while (left > 0) {
        const size_t length = rs_utf8_length(p, left);
        const size_t taken = length ? length : 1;
        if (!length || rs_utf8_is_control(rs_utf8_char(p, length)))
            memset(p, '?', taken);
        p += taken;
        left -= taken;
    }
}

void rs_utf8_escape(struct rs_buf *buf, const char *text, size_t length, const char *keep)
{
    const unsigned char *p = (const unsigned char *)text;
    while (length > 0) {
        const size_t wide = rs_utf8_length(p, length);
        const uint32_t c = wide ? rs_utf8_char(p, wide) : 0;
        if (!wide)
            rs_buf_printf(buf, "\\x%02X", *p);
        else if (rs_utf8_is_control(c) && !(c && c < 0x80 && strchr(keep, (int)c)))
            rs_buf_printf(buf, "\\u%04x", c);
        else
            rs_buf_bytes(buf, p, wide);
        p += wide ? wide : 1;
        length -= wide ? wide : 1;
    }
}
