/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handing to others what they declare without const and do not write: protobuf-c's fields, gRPC's keys, free(). One place, so that
 * a cast that takes const away is never in anybody's way elsewhere (-Wcast-qual).
 */
#ifndef RS_BASE_CONST_H
#define RS_BASE_CONST_H

/* The same pointer; nobody writes through it. */
static inline void *rs_const_away(const void *pointer)
{
    union {
        const void *in;
        void *out;
    } both = {.in = pointer};
    return both.out;
}

static inline char *rs_const_cast(const char *text)
{
    return rs_const_away(text);
}

#endif
