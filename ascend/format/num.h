/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers of the vendor's files, kept so that they come out again as Python would write them.
 *
 * The official tools read JSON with Python and write it with Python: 0 stays 0, 0.0 stays 0.0,
 * 1.50 becomes 1.5. A number is therefore an integer, or a float in its shortest decimal digits
 *
 *     value = (is_negative ? -1 : 1) * mantissa * 10^exponent      no zero at the mantissa's end
 *
 * or, from a database, a double whose digits nobody has asked for yet. Conversions to double are
 * correctly rounded, so sums are those that Python gets.
 *
 * Packed form, little-endian, 1 to 10 bytes, self-delimiting:
 *
 *     tag = kind | length << 4        length of the mantissa in bytes, 0..8
 *     DECIMAL only: exponent as one signed byte
 *     mantissa (DOUBLE: its 8 bytes)
 *
 * Any thread.
 */
#ifndef RS_ASCEND_FORMAT_NUM_H
#define RS_ASCEND_FORMAT_NUM_H

#include "common/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum rs_ascend_num_kind {
    RS_ASCEND_NUM_NONE, /* no number there */
    RS_ASCEND_NUM_INT,
    RS_ASCEND_NUM_INT_NEGATIVE,
    RS_ASCEND_NUM_DECIMAL,
    RS_ASCEND_NUM_DECIMAL_NEGATIVE,
    RS_ASCEND_NUM_DOUBLE,
    RS_ASCEND_NUM_KINDS
};

enum {
    RS_ASCEND_NUM_TEXT_BYTES = 32, /* the longest print, without NUL, is 24 */
    RS_ASCEND_NUM_PACKED_BYTES = 10,
};

struct rs_ascend_num {
    enum rs_ascend_num_kind kind;
    int exponent;      /* DECIMAL: of ten */
    uint64_t mantissa; /* INT, DECIMAL; DOUBLE: the bits of the double */
};

/* A JSON number (the caller has checked its grammar). RS_FORMAT: an integer beyond 64 bits, a float
 * beyond a double. */
RS_MUST_CHECK enum rs_status rs_ascend_num_parse(const char *text, size_t length,
                                                 struct rs_ascend_num *num_p);
/* The grammar of JSON numbers at the start of `text`: how many bytes belong to it; 0: none. */
size_t rs_ascend_num_scan(const char *text, size_t length);

struct rs_ascend_num rs_ascend_num_of_int(int64_t value);
struct rs_ascend_num rs_ascend_num_of_double(double value); /* not a number: NONE */

/* Correctly rounded; 0 for NONE. */
double rs_ascend_num_double(const struct rs_ascend_num *num);
/* The same; not a number for NONE, so that a sum with something unknown in it comes out as unknown. */
double rs_ascend_num_known(const struct rs_ascend_num *num);
bool rs_ascend_num_is_int(const struct rs_ascend_num *num);

/* As Python's repr: writes at most RS_ASCEND_NUM_TEXT_BYTES, no NUL; returns how many. "null" for NONE. */
size_t rs_ascend_num_print(const struct rs_ascend_num *num, char *text_p);
size_t rs_ascend_num_print_double(double value, char *text_p);
size_t rs_ascend_num_print_uint(uint64_t value, char *text_p);

/* Writes at most RS_ASCEND_NUM_PACKED_BYTES; returns how many. */
size_t rs_ascend_num_pack(const struct rs_ascend_num *num, uint8_t *bytes_p);
/* Reads one from bytes that may be anyone's; returns how many it took, 0: not a packed number. */
size_t rs_ascend_num_unpack(const uint8_t *bytes, size_t length, struct rs_ascend_num *num_p);

/* part / whole as the vendor's tools round ratios and bandwidths: Python's round(part / whole, 4), and
 * the integer 0 when there is no whole (its size is below 1e-15). */
struct rs_ascend_num rs_ascend_num_ratio(double part, double whole);

#endif
