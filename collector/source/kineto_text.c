/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers and strings of JSON, as Kineto writes them: the innermost loop of reading a trace.
 *
 * Eight bytes are looked at together: how many are digits, and which number these are, takes a handful of multiplications instead of a branch
 * for each digit. Times keep their decimals (text_decimal()), since a double cannot hold ns since 1970. Everything here may read up to 16 bytes
 * behind what it is given, which the buffers that it is used on have; nothing is believed to be valid JSON.
 */
#include "collector/source/kineto_priv.h"

bool span_is(struct kineto_span span, const char *text)
{
    return span.length == strlen(text) && memcmp(span.text, text, span.length) == 0;
}

static bool is_digit(char byte)
{
    return (unsigned)(byte - '0') < 10;
}

static inline uint64_t load8(const char *text)
{
    uint64_t bytes;
    memcpy(&bytes, text, sizeof bytes);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    bytes = __builtin_bswap64(bytes);
#endif
    return bytes ^ 0x3030303030303030U; /* digits are 0 to 9 now */
}

/* How many of the eight bytes, from the first on, are digits. */
static inline unsigned digit_count(uint64_t bytes)
{
    const uint64_t others =
        (((bytes & 0x7f7f7f7f7f7f7f7fU) + 0x7676767676767676U) | bytes) & 0x8080808080808080U;
    return others ? (unsigned)__builtin_ctzll(others) / 8 : 8;
}

/* The number that the first `count` (1 to 8) bytes are. */
static inline uint64_t digits_value(uint64_t bytes, unsigned count)
{
    bytes <<= 64 - 8 * count; /* zeros come in front */
    bytes = bytes * 10 + (bytes >> 8);
    return ((bytes & 0x000000ff000000ffU) * 0x000f424000000064U +
            ((bytes >> 16) & 0x000000ff000000ffU) * 0x0000271000000001U) >>
           32;
}

/* How many of the sixteen bytes from `text` on, from the first on, are digits. */
static inline unsigned digits_ahead(const char *text)
{
#if defined(__SSE2__)
    const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)text);
    const __m128i values = _mm_sub_epi8(bytes, _mm_set1_epi8('0'));
    const __m128i are_digits = _mm_cmpeq_epi8(_mm_min_epu8(values, _mm_set1_epi8(9)), values);
    return (unsigned)__builtin_ctz(~(unsigned)_mm_movemask_epi8(are_digits));
#else
    const unsigned head = digit_count(load8(text));
    return head < 8 ? head : 8 + digit_count(load8(text + 8));
#endif
}

/* The number that the 1 to 8 digits at `text` are. */
static inline uint64_t value_at(const char *text, unsigned count)
{
    return digits_value(load8(text), count) & UINT32_MAX;
}

/* Behind the digits at `text`; their number, or INT64_MAX when it is larger. Reads up to 16 bytes further. */
static inline const char *digits(const char *text, int64_t *value_p)
{
    const unsigned count = digits_ahead(text);
    if (count <= 8) {
        *value_p = count ? (int64_t)value_at(text, count) : 0;
        return text + count;
    }
    uint64_t value = value_at(text, count - 8) * 100000000U + value_at(text + count - 8, 8);
    text += count;
    for (; count == 16 && is_digit(*text); text++) {
        const unsigned digit = (unsigned)(*text - '0');
        value = value > ((uint64_t)INT64_MAX - digit) / 10 ? INT64_MAX : value * 10 + digit;
    }
    *value_p = (int64_t)value;
    return text;
}

/* Up to 18 digits of a number without its point, and how many of them stand behind the point. */
static uint64_t mantissa(const char *text, const char *end, int64_t *decimals_p)
{
    uint64_t value = 0;
    int64_t decimals = 0;
    bool is_behind_point = false;
    unsigned count = 0;
    for (; text < end; text++) {
        if (*text == '.') {
            is_behind_point = true;
        } else if (count < 18) {
            value = value * 10 + (unsigned)(*text - '0');
            count += value != 0;
            decimals += is_behind_point;
        } else {
            decimals -= !is_behind_point;
        }
    }
    *decimals_p = decimals;
    return value;
}

/* 1.7e15 and the like, whose digits start at `text` and whose `e` is at `letter`. */
static const char *exponent(const char *text, const char *letter, struct kineto_decimal *decimal)
{
    const char *at = letter + 1;
    const bool is_negative = *at == '-';
    if (*at == '-' || *at == '+')
        at++;
    if (!is_digit(*at))
        return NULL;
    int64_t power;
    at = digits(at, &power);
    if (power > 60)
        power = 60;
    int64_t decimals;
    uint64_t value = mantissa(text, letter, &decimals);
    int64_t shift = (is_negative ? -power : power) - decimals + 3; /* counted in thousandths */
    for (; shift < 0 && value; shift++)
        value /= 10;
    bool is_over = false;
    for (; shift > 0 && value && !is_over; shift--)
        is_over = __builtin_mul_overflow(value, 10, &value);
    decimal->whole = is_over ? INT64_MAX : (int64_t)(value / 1000);
    decimal->thousandths = is_over ? 0 : (int32_t)(value % 1000);
    decimal->has_fraction = decimal->thousandths != 0;
    decimal->is_exact = false;
    return at;
}

static const char *fraction(const char *text, struct kineto_decimal *decimal)
{
    static const int32_t weights[3] = {100, 10, 1};
    const char *at = text + 1;
    const char *first = at;
    decimal->has_fraction = true;
    const uint64_t bytes = load8(at);
    if (digit_count(bytes) == 3) {
        decimal->thousandths =
            (int32_t)((bytes & 0xff) * 100 + (bytes >> 8 & 0xff) * 10 + (bytes >> 16 & 0xff));
        return at + 3;
    }
    for (; is_digit(*at); at++) {
        if (at - first < 3)
            decimal->thousandths += weights[at - first] * (*at - '0');
        else
            decimal->is_exact &= *at == '0';
    }
    return at;
}

const char *text_decimal(const char *text, struct kineto_decimal *decimal)
{
    const bool is_quoted = *text == '"';
    const char *at = text + is_quoted;
    decimal->thousandths = 0;
    decimal->is_negative = *at == '-';
    decimal->has_fraction = false;
    decimal->is_exact = !is_quoted;
    at += decimal->is_negative;
    if (!is_digit(*at))
        return NULL;
    const char *first = at;
    at = digits(at, &decimal->whole);
    if (*at == '.')
        at = fraction(at, decimal);
    if (*at == 'e' || *at == 'E')
        at = exponent(first, at, decimal);
    if (!at || (is_quoted && *at != '"'))
        return NULL;
    if (decimal->whole == INT64_MAX)
        decimal->is_exact = false;
    return at + is_quoted;
}

bool text_integer(struct kineto_span span, int64_t *value_p)
{
    if (!span.length || span.length > 24)
        return false;
    char copy[48] = {0};
    memcpy(copy, span.text, span.length);
    struct kineto_decimal decimal;
    const char *end = text_decimal(copy, &decimal);
    if (end != copy + span.length || decimal.thousandths || decimal.whole == INT64_MAX)
        return false;
    *value_p = decimal.is_negative ? -decimal.whole : decimal.whole;
    return true;
}

bool text_plain_unsigned(struct kineto_span span, uint64_t *value_p)
{
    if (!span.length || span.length > 20 || (span.text[0] == '0' && span.length > 1))
        return false;
    const uint64_t head = load8(span.text);
    const unsigned head_length = span.length < 8 ? (unsigned)span.length : 8;
    if (digit_count(head) < head_length)
        return false;
    uint64_t value = digits_value(head, head_length) & UINT32_MAX;
    for (size_t i = 8; i < span.length; i++) {
        const unsigned digit = (unsigned)(span.text[i] - '0');
        if (digit > 9)
            return false;
        if (i < 18) {
            value = value * 10 + digit;
            continue;
        }
        if (value > (UINT64_MAX - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *value_p = value;
    return true;
}

bool text_plain_integer(struct kineto_span span, int64_t *value_p)
{
    const bool is_negative = span.length && span.text[0] == '-';
    if (is_negative) {
        span.text++;
        span.length--;
    }
    uint64_t value;
    if (!text_plain_unsigned(span, &value) || value > INT64_MAX || (is_negative && !value))
        return false;
    *value_p = is_negative ? -(int64_t)value : (int64_t)value;
    return true;
}

static const char *string_value_end(const char *text, const char *end)
{
    bool has_escape = false;
    const char *quote = scan_string_end(text + 1, end, &has_escape);
    return quote ? quote + 1 : NULL;
}

static const char *nested_value_end(const char *text, const char *end)
{
    size_t depth = 0;
    while ((text = scan_structure(text, end)) < end) {
        const char byte = *text;
        if (byte == '"') {
            text = string_value_end(text, end);
            if (!text)
                return NULL;
            continue;
        }
        if (byte == '{' || byte == '[')
            depth++;
        else if (--depth == 0)
            return text + 1;
        text++;
    }
    return NULL;
}

const char *text_value_end(const char *text, const char *end)
{
    if (text >= end)
        return NULL;
    if (*text == '"')
        return string_value_end(text, end);
    if (*text == '{' || *text == '[')
        return nested_value_end(text, end);
    const char *begin = text;
    while (text < end && *text != ',' && *text != '}' && *text != ']' && *text != '\n')
        text++;
    if (text >= end)
        return NULL;
    while (text > begin && (text[-1] == ' ' || text[-1] == '\r' || text[-1] == '\t'))
        text--;
    return text;
}

bool text_is_value(struct kineto_span span)
{
    if (!span.length)
        return false;
    if (*span.text == '"' || *span.text == '{' || *span.text == '[')
        return true;
    if (span_is(span, "true") || span_is(span, "false") || span_is(span, "null"))
        return true;
    size_t at = *span.text == '-';
    if (at >= span.length || !is_digit(span.text[at]))
        return false;
    while (at < span.length && (is_digit(span.text[at]) || strchr(".eE+-", span.text[at])))
        at++;
    return at == span.length;
}

static int hex_digit(char byte)
{
    if (is_digit(byte))
        return byte - '0';
    byte = (char)(byte | 0x20);
    return byte >= 'a' && byte <= 'f' ? byte - 'a' + 10 : -1;
}

/* Four hex digits, or -1. */
static int32_t hex_unit(const char *text, const char *end)
{
    if (end - text < 4)
        return -1;
    int32_t unit = 0;
    for (int i = 0; i < 4; i++) {
        const int digit = hex_digit(text[i]);
        if (digit < 0)
            return -1;
        unit = unit * 16 + digit;
    }
    return unit;
}

static void append_utf8(struct rs_buf *buf, int32_t code)
{
    uint8_t bytes[4];
    size_t count = 0;
    if (code < 0x80) {
        bytes[count++] = (uint8_t)code;
    } else if (code < 0x800) {
        bytes[count++] = (uint8_t)(0xc0 | code >> 6);
        bytes[count++] = (uint8_t)(0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
        bytes[count++] = (uint8_t)(0xe0 | code >> 12);
        bytes[count++] = (uint8_t)(0x80 | (code >> 6 & 0x3f));
        bytes[count++] = (uint8_t)(0x80 | (code & 0x3f));
    } else {
        bytes[count++] = (uint8_t)(0xf0 | code >> 18);
        bytes[count++] = (uint8_t)(0x80 | (code >> 12 & 0x3f));
        bytes[count++] = (uint8_t)(0x80 | (code >> 6 & 0x3f));
        bytes[count++] = (uint8_t)(0x80 | (code & 0x3f));
    }
    rs_buf_bytes(buf, bytes, count);
}

/* \uXXXX, perhaps the first half of a pair; a half alone becomes U+FFFD. Behind it, or NULL when it is none. */
static const char *decode_unit(const char *text, const char *end, struct rs_buf *buf)
{
    const int32_t unit = hex_unit(text, end);
    if (unit < 0)
        return NULL;
    text += 4;
    if (unit < 0xd800 || unit > 0xdfff) {
        append_utf8(buf, unit);
        return text;
    }
    if (unit < 0xdc00 && end - text >= 6 && text[0] == '\\' && text[1] == 'u') {
        const int32_t low = hex_unit(text + 2, end);
        if (low >= 0xdc00 && low <= 0xdfff) {
            append_utf8(buf, 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00));
            return text + 6;
        }
    }
    append_utf8(buf, 0xfffd);
    return text;
}

void text_decode(struct kineto_span span, struct rs_buf *buf)
{
    static const char letters[] = "\"\\/bfnrt";
    static const char meanings[] = "\"\\/\b\f\n\r\t";
    const char *text = span.text;
    const char *end = text + span.length;
    while (text < end) {
        const char *escape = memchr(text, '\\', (size_t)(end - text));
        if (!escape || escape + 1 >= end)
            escape = end;
        rs_buf_bytes(buf, text, (size_t)(escape - text));
        if (escape == end)
            return;
        const char *letter = escape[1] ? strchr(letters, escape[1]) : NULL;
        text = escape + 2;
        if (letter) {
            rs_buf_u8(buf, (uint8_t)meanings[letter - letters]);
        } else if (escape[1] != 'u' || !(text = decode_unit(text, end, buf))) {
            rs_buf_bytes(buf, escape, 2);
            text = escape + 2;
        }
    }
}
