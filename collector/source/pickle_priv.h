/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the machine of pickle.c and the look ahead of pickle_ahead.c share: codes, and how their numbers are written.
 */
#ifndef RS_SOURCE_PICKLE_PRIV_H
#define RS_SOURCE_PICKLE_PRIV_H

#include "collector/source/pickle.h"

enum code {
    MARK = '(',
    STOP = '.',
    BINFLOAT = 'G',
    BININT = 'J',
    BININT1 = 'K',
    BININT2 = 'M',
    NONE = 'N',
    BINUNICODE = 'X',
    EMPTY_LIST = ']',
    APPEND = 'a',
    APPENDS = 'e',
    BINGET = 'h',
    LONG_BINGET = 'j',
    BINPUT = 'q',
    LONG_BINPUT = 'r',
    SETITEM = 's',
    TUPLE = 't',
    EMPTY_TUPLE = ')',
    SETITEMS = 'u',
    EMPTY_DICT = '}',
    PROTO = 0x80,
    TUPLE1 = 0x85,
    TUPLE2 = 0x86,
    TUPLE3 = 0x87,
    NEWTRUE = 0x88,
    NEWFALSE = 0x89,
    LONG1 = 0x8a,
};

enum { PICKLE_AHEAD_ITEMS = 128 };

/* The dictionary that begins at p->at, told from its bytes: its keys and values in turn, and where it ends. Of p only
 * `lists` and `spans` change. False: it is not of the plain form that pickle_ahead.c describes. */
bool pickle_ahead(struct rs_pickle *p, struct rs_pickle_value items[PICKLE_AHEAD_ITEMS],
                  size_t *count_p, size_t *end_p);

/* Little-endian; the caller looked that they are there. */
static inline uint32_t pickle_u32_at(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
           (uint32_t)bytes[3] << 24;
}

/* At most 8 bytes of two's complement, the caller looked that they are there. */
static inline int64_t pickle_long_at(const uint8_t *bytes, size_t count)
{
    uint64_t bits = 0;
    if (count == 8)
        return (int64_t)((uint64_t)pickle_u32_at(bytes) | (uint64_t)pickle_u32_at(bytes + 4) << 32);
    for (size_t i = 0; i < count; i++)
        bits |= (uint64_t)bytes[i] << (8 * i);
    if (count && (bits >> (8 * count - 1) & 1))
        bits |= UINT64_MAX << (8 * count);
    return (int64_t)bits;
}

/* 8 bytes, the only big-endian ones. */
static inline double pickle_float_at(const uint8_t *bytes)
{
    union {
        uint64_t bits;
        double real;
    } value = {0};
    for (size_t i = 0; i < 8; i++)
        value.bits = value.bits << 8 | bytes[i];
    return value.real;
}

#endif
