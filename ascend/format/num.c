/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decimal digits <-> double, exactly, with 128-bit integers where they suffice and libc where not.
 *
 *     parse:  digits --> mantissa, exponent --> is it the shortest spelling? 15 digits always are;
 *             16 and 17 are looked at; everything else goes through the double and back
 *     double: mantissa * 10^e, or mantissa / 10^-e, with the remainder deciding the last bit
 *     print:  the digits with a point put in, as Python's repr places it
 */
#include "ascend/format/num.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__extension__ typedef unsigned __int128 u128;

enum { SAFE_DIGITS = 15, MOST_DIGITS = 17, POWERS = 20 };

static const uint64_t power10[POWERS] = {1U,
                                         10U,
                                         100U,
                                         1000U,
                                         10000U,
                                         100000U,
                                         1000000U,
                                         10000000U,
                                         100000000U,
                                         1000000000U,
                                         10000000000U,
                                         100000000000U,
                                         1000000000000U,
                                         10000000000000U,
                                         100000000000000U,
                                         1000000000000000U,
                                         10000000000000000U,
                                         100000000000000000U,
                                         1000000000000000000U,
                                         10000000000000000000U};

/* 10^0..10^22 are doubles without rounding. */
static const double exact10[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                 1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

size_t rs_ascend_num_scan(const char *text, size_t length)
{
    const char *p = text, *end = text + length;
    if (p < end && *p == '-')
        p++;
    if (p == end || !is_digit(*p))
        return 0;
    if (*p == '0')
        p++;
    else
        while (p < end && is_digit(*p))
            p++;
    if (p < end && *p == '.') {
        if (++p == end || !is_digit(*p))
            return 0;
        while (p < end && is_digit(*p))
            p++;
    }
    if (p < end && (*p == 'e' || *p == 'E')) {
        p++;
        if (p < end && (*p == '+' || *p == '-'))
            p++;
        if (p == end || !is_digit(*p))
            return 0;
        while (p < end && is_digit(*p))
            p++;
    }
    return (size_t)(p - text);
}

/* quotient with at least 55 significant bits, `is_inexact` when something is left below it. */
static double round_quotient(u128 quotient, bool is_inexact, int scale)
{
    const uint64_t high = (uint64_t)(quotient >> 64);
    int bits = high ? 128 - __builtin_clzll(high) : 64 - __builtin_clzll((uint64_t)quotient);
    const int drop = bits - 53;
    uint64_t kept = (uint64_t)(quotient >> drop);
    const u128 rest = quotient - ((u128)kept << drop);
    const u128 half = (u128)1 << (drop - 1);
    if (rest > half || (rest == half && (is_inexact || (kept & 1))))
        kept++;
    return ldexp((double)kept, scale + drop);
}

/* mantissa / 10^places with 1 <= places < POWERS, mantissa > 0. */
static double divide(uint64_t mantissa, int places)
{
    const int shift = 64 + __builtin_clzll(mantissa);
    const u128 top = (u128)mantissa << shift;
    const u128 quotient = top / power10[places];
    return round_quotient(quotient, quotient * power10[places] != top, -shift);
}

static double slow_double(uint64_t mantissa, int exponent)
{
    char text[48];
    (void)snprintf(text, sizeof text, "%llue%d", (unsigned long long)mantissa, exponent);
    return strtod(text, NULL);
}

static double to_double(uint64_t mantissa, int exponent)
{
    if (mantissa == 0)
        return 0.0;
    if (mantissa <= (UINT64_C(1) << 53)) {
        if (exponent >= 0 && exponent <= 22)
            return (double)mantissa * exact10[exponent];
        if (exponent < 0 && exponent >= -22)
            return (double)mantissa / exact10[-exponent];
    }
    if (exponent < 0 && exponent > -POWERS)
        return divide(mantissa, -exponent);
    if (exponent == 0)
        return (double)mantissa; /* rounded to nearest by the machine */
    return slow_double(mantissa, exponent);
}

static unsigned count_digits(uint64_t value)
{
    unsigned count = 1;
    while (count < POWERS && value >= power10[count])
        count++;
    return count;
}

static void strip_zeros(struct rs_ascend_num *num)
{
    if (num->mantissa == 0) {
        num->exponent = 0;
        return;
    }
    while (num->mantissa % 10 == 0) {
        num->mantissa /= 10;
        num->exponent++;
    }
}

/* The shortest digits of a finite double >= 0. */
static void shortest(double value, struct rs_ascend_num *num)
{
    char text[40];
    num->mantissa = 0;
    num->exponent = 0;
    if (value == 0.0)
        return;
    const int first = value < DBL_MIN ? 1 : SAFE_DIGITS; /* subnormals have fewer digits */
    for (int digits = first; digits <= MOST_DIGITS; digits++) {
        (void)snprintf(text, sizeof text, "%.*e", digits - 1, value);
        uint64_t mantissa = (uint64_t)(text[0] - '0');
        const char *p = text + 2;
        for (; digits > 1 && is_digit(*p); p++)
            mantissa = mantissa * 10 + (uint64_t)(*p - '0');
        num->mantissa = mantissa;
        num->exponent = (int)strtol(strchr(text, 'e') + 1, NULL, 10) - (digits - 1);
        if (to_double(num->mantissa, num->exponent) == value)
            break;
    }
    strip_zeros(num);
}

/* Is `mantissa` the nearest number of its digits to `value`? Answers only where 128 bits suffice. */
static bool is_nearest(uint64_t mantissa, int places, double value)
{
    int scale = 0;
    const uint64_t bits = (uint64_t)ldexp(frexp(value, &scale), 53);
    const int down = 53 - scale; /* value = bits / 2^down */
    if (down < 1 || down > 66 || places < 1 || places >= POWERS)
        return false;
    const u128 exact = (u128)bits * power10[places];
    const u128 spelt = (u128)mantissa << down;
    const u128 gap = exact > spelt ? exact - spelt : spelt - exact;
    return gap <= (u128)1 << (down - 1);
}

static bool is_shortest(const struct rs_ascend_num *num, unsigned digits)
{
    if (digits <= SAFE_DIGITS)
        return num->exponent <= 0 && num->exponent >= -60;
    if (digits > MOST_DIGITS || num->exponent >= 0 || num->exponent <= -POWERS)
        return false;
    const double value = to_double(num->mantissa, num->exponent);
    const uint64_t below = num->mantissa / 10;
    return to_double(below, num->exponent + 1) != value &&
           to_double(below + 1, num->exponent + 1) != value &&
           is_nearest(num->mantissa, -num->exponent, value);
}

static enum rs_status parse_slowly(const char *text, size_t length, struct rs_ascend_num *num)
{
    char copy[512];
    if (length >= sizeof copy)
        return RS_FORMAT;
    memcpy(copy, text, length);
    copy[length] = '\0';
    const double value = strtod(copy, NULL);
    if (!isfinite(value))
        return RS_FORMAT;
    shortest(fabs(value), num);
    return RS_OK;
}

enum rs_status rs_ascend_num_parse(const char *text, size_t length, struct rs_ascend_num *num_p)
{
    struct rs_ascend_num num = {0};
    const bool is_negative = length > 0 && text[0] == '-';
    const char *p = text + (is_negative ? 1 : 0), *end = text + length;
    const char *point = NULL;
    unsigned digits = 0;
    bool is_long = false;
    for (; p < end && (is_digit(*p) || *p == '.'); p++) {
        if (*p == '.') {
            point = p + 1;
            continue;
        }
        if (digits == 0 && *p == '0')
            continue;
        if (++digits > 19)
            is_long = true;
        else
            num.mantissa = num.mantissa * 10 + (uint64_t)(*p - '0');
    }
    if (!point && p == end) {
        if (is_long || num.mantissa > (uint64_t)INT64_MAX)
            return RS_FORMAT;
        num.kind = is_negative && num.mantissa ? RS_ASCEND_NUM_INT_NEGATIVE : RS_ASCEND_NUM_INT;
        *num_p = num;
        return RS_OK;
    }
    num.kind = is_negative ? RS_ASCEND_NUM_DECIMAL_NEGATIVE : RS_ASCEND_NUM_DECIMAL;
    num.exponent = point ? -(int)(p - point) : 0;
    bool is_plain = p == end && !is_long && end - text < 100;
    if (is_plain) {
        strip_zeros(&num);
        is_plain = num.mantissa == 0 || (num.exponent > 0 && num.exponent < 16 && digits <= 15) ||
                   is_shortest(&num, count_digits(num.mantissa));
    }
    if (!is_plain && parse_slowly(text, length, &num) != RS_OK)
        return RS_FORMAT;
    *num_p = num;
    return RS_OK;
}

struct rs_ascend_num rs_ascend_num_of_int(int64_t value)
{
    const bool is_negative = value < 0;
    return (struct rs_ascend_num){.kind =
                                      is_negative ? RS_ASCEND_NUM_INT_NEGATIVE : RS_ASCEND_NUM_INT,
                                  .mantissa = is_negative ? 0 - (uint64_t)value : (uint64_t)value};
}

struct rs_ascend_num rs_ascend_num_of_double(double value)
{
    struct rs_ascend_num num = {.kind = RS_ASCEND_NUM_DOUBLE};
    if (!isfinite(value))
        return (struct rs_ascend_num){0};
    memcpy(&num.mantissa, &value, sizeof value);
    return num;
}

double rs_ascend_num_double(const struct rs_ascend_num *num)
{
    double value = 0;
    switch (num->kind) {
    case RS_ASCEND_NUM_INT:
        return (double)num->mantissa;
    case RS_ASCEND_NUM_INT_NEGATIVE:
        return -(double)num->mantissa;
    case RS_ASCEND_NUM_DECIMAL:
        return to_double(num->mantissa, num->exponent);
    case RS_ASCEND_NUM_DECIMAL_NEGATIVE:
        return -to_double(num->mantissa, num->exponent);
    case RS_ASCEND_NUM_DOUBLE:
        memcpy(&value, &num->mantissa, sizeof value);
        return value;
    case RS_ASCEND_NUM_NONE:
    case RS_ASCEND_NUM_KINDS:
        break;
    }
    return 0;
}

double rs_ascend_num_known(const struct rs_ascend_num *num)
{
    return num->kind == RS_ASCEND_NUM_NONE ? (double)NAN : rs_ascend_num_double(num);
}

bool rs_ascend_num_is_int(const struct rs_ascend_num *num)
{
    return num->kind == RS_ASCEND_NUM_INT || num->kind == RS_ASCEND_NUM_INT_NEGATIVE;
}

size_t rs_ascend_num_print_uint(uint64_t value, char *text_p)
{
    static const char pairs[] =
        "00010203040506070809101112131415161718192021222324252627282930313233"
        "34353637383940414243444546474849505152535455565758596061626364656667"
        "6869707172737475767778798081828384858687888990919293949596979899";
    char digits[24];
    size_t at = sizeof digits;
    while (value >= 100) {
        at -= 2;
        memcpy(digits + at, pairs + value % 100 * 2, 2);
        value /= 100;
    }
    if (value >= 10) {
        at -= 2;
        memcpy(digits + at, pairs + value * 2, 2);
    } else {
        digits[--at] = (char)('0' + value);
    }
    memcpy(text_p, digits + at, sizeof digits - at);
    return sizeof digits - at;
}

/* d.ddde-05 */
static size_t print_exponent(const char *digits, size_t count, int point, char *text)
{
    size_t used = 0;
    text[used++] = digits[0];
    if (count > 1) {
        text[used++] = '.';
        memcpy(text + used, digits + 1, count - 1);
        used += count - 1;
    }
    const int exponent = point - 1;
    const unsigned size = (unsigned)(exponent < 0 ? -exponent : exponent);
    text[used++] = 'e';
    text[used++] = exponent < 0 ? '-' : '+';
    if (size < 10)
        text[used++] = '0';
    return used + rs_ascend_num_print_uint(size, text + used);
}

static size_t print_decimal(uint64_t mantissa, int exponent, char *text)
{
    char digits[24];
    if (mantissa == 0) {
        /* NOLINTNEXTLINE(bugprone-not-null-terminated-result): a length goes with it */
        memcpy(text, "0.0", 3);
        return 3;
    }
    const size_t count = rs_ascend_num_print_uint(mantissa, digits);
    const int point = (int)count + exponent; /* digits before the point */
    if (point <= -4 || point > 16)
        return print_exponent(digits, count, point, text);
    if (point <= 0) {
        const size_t zeros = (size_t)-point;
        memcpy(text, "0.0000", 2 + zeros);
        memcpy(text + 2 + zeros, digits, count);
        return 2 + zeros + count;
    }
    const size_t before = (size_t)point;
    if (before >= count) {
        memcpy(text, digits, count);
        memset(text + count, '0', before - count);
        text[before] = '.';
        text[before + 1] = '0';
        return before + 2;
    }
    memcpy(text, digits, before);
    text[before] = '.';
    memcpy(text + before + 1, digits + before, count - before);
    return count + 1;
}

size_t rs_ascend_num_print_double(double value, char *text_p)
{
    struct rs_ascend_num num;
    size_t used = 0;
    if (!isfinite(value)) {
        /* NOLINTNEXTLINE(bugprone-not-null-terminated-result): a length goes with it */
        memcpy(text_p, "null", 4);
        return 4;
    }
    if (signbit(value))
        text_p[used++] = '-';
    shortest(fabs(value), &num);
    return used + print_decimal(num.mantissa, num.exponent, text_p + used);
}

size_t rs_ascend_num_print(const struct rs_ascend_num *num, char *text_p)
{
    switch (num->kind) {
    case RS_ASCEND_NUM_INT:
        return rs_ascend_num_print_uint(num->mantissa, text_p);
    case RS_ASCEND_NUM_INT_NEGATIVE:
        text_p[0] = '-';
        return 1 + rs_ascend_num_print_uint(num->mantissa, text_p + 1);
    case RS_ASCEND_NUM_DECIMAL:
        return print_decimal(num->mantissa, num->exponent, text_p);
    case RS_ASCEND_NUM_DECIMAL_NEGATIVE:
        text_p[0] = '-';
        return 1 + print_decimal(num->mantissa, num->exponent, text_p + 1);
    case RS_ASCEND_NUM_DOUBLE:
        return rs_ascend_num_print_double(rs_ascend_num_double(num), text_p);
    case RS_ASCEND_NUM_NONE:
    case RS_ASCEND_NUM_KINDS:
        break;
    }
    /* NOLINTNEXTLINE(bugprone-not-null-terminated-result): a length goes with it */
    memcpy(text_p, "null", 4);
    return 4;
}

size_t rs_ascend_num_pack(const struct rs_ascend_num *num, uint8_t *bytes_p)
{
    const bool is_double = num->kind == RS_ASCEND_NUM_DOUBLE;
    const bool is_decimal =
        num->kind == RS_ASCEND_NUM_DECIMAL || num->kind == RS_ASCEND_NUM_DECIMAL_NEGATIVE;
    const uint64_t rest = num->mantissa;
    size_t used = 1;
    if (is_decimal && (num->exponent < INT8_MIN || num->exponent > INT8_MAX)) {
        const struct rs_ascend_num wide = rs_ascend_num_of_double(rs_ascend_num_double(num));
        return rs_ascend_num_pack(&wide, bytes_p);
    }
    if (is_decimal)
        bytes_p[used++] = (uint8_t)(int8_t)num->exponent;
    const size_t length = is_double ? 8 : rest ? 8 - (size_t)__builtin_clzll(rest) / 8 : 0;
    for (int i = 0; i < 8; i++) /* one store; what is beyond `length` is nobody's yet */
        bytes_p[used + (size_t)i] = (uint8_t)(rest >> 8 * i);
    bytes_p[0] = (uint8_t)((unsigned)num->kind | (unsigned)length << 4);
    return used + length;
}

/* `size` bytes, little end first; eight may be read at once where there are so many. */
static uint64_t get_mantissa(const uint8_t *at, size_t size, size_t left)
{
    uint64_t value = 0;
    if (left >= 8 && size) {
        for (int i = 7; i >= 0; i--) /* compilers make one load of it */
            value = value << 8 | at[i];
        return value & ~UINT64_C(0) >> (64 - 8 * size);
    }
    for (size_t i = size; i-- > 0;)
        value = value << 8 | at[i];
    return value;
}

/* A decimal's exponent is a byte, so that its value is always within a double. */
size_t rs_ascend_num_unpack(const uint8_t *bytes, size_t length, struct rs_ascend_num *num_p)
{
    if (length == 0)
        return 0;
    const unsigned kind = bytes[0] & 15U, size = bytes[0] >> 4;
    const bool is_decimal = kind == RS_ASCEND_NUM_DECIMAL || kind == RS_ASCEND_NUM_DECIMAL_NEGATIVE;
    const size_t lead = is_decimal ? 2 : 1;
    if (kind >= RS_ASCEND_NUM_KINDS || size > 8 || lead + size > length)
        return 0;
    const uint64_t mantissa = get_mantissa(bytes + lead, size, length - lead);
    if ((kind == RS_ASCEND_NUM_INT || kind == RS_ASCEND_NUM_INT_NEGATIVE) &&
        mantissa > (uint64_t)INT64_MAX)
        return 0;
    if (kind == RS_ASCEND_NUM_DOUBLE && (size != 8 || (mantissa >> 52 & 0x7FF) == 0x7FF))
        return 0; /* infinite or no number */
    num_p->kind = (enum rs_ascend_num_kind)kind;
    num_p->exponent = is_decimal ? (int8_t)bytes[1] : 0;
    num_p->mantissa = mantissa;
    return lead + size;
}

/* Python rounds the exact value of the double, ties to even. Arithmetic finds the same where the
 * value is not near a tie; printf, which is exact, decides the rest. */
struct rs_ascend_num rs_ascend_num_ratio(double part, double whole)
{
    struct rs_ascend_num num = {.kind = RS_ASCEND_NUM_INT};
    char text[400];
    if (isnan(part) || isnan(whole))
        return (struct rs_ascend_num){0};
    if (fabs(whole) < 1e-15)
        return num;
    const double value = part / whole, size = fabs(value);
    const double scaled = size * 1e4, low = floor(scaled), rest = scaled - low;
    if (scaled < 1e11 && fabs(rest - 0.5) > 1e-4) {
        num.kind = signbit(value) ? RS_ASCEND_NUM_DECIMAL_NEGATIVE : RS_ASCEND_NUM_DECIMAL;
        num.mantissa = (uint64_t)(rest > 0.5 ? low + 1 : low);
        num.exponent = -4;
        strip_zeros(&num);
        return num;
    }
    (void)snprintf(text, sizeof text, "%.4f", value);
    return rs_ascend_num_of_double(strtod(text, NULL));
}
