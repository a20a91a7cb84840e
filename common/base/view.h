/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes that we may read and do not own, with reads that cannot run past the end.
 *
 * The error is sticky: a read past the end returns 0, moves nothing and sets `failed`,
 * so a decoder reads all its fields and asks once. All integers are little-endian.
 */
#ifndef RS_BASE_VIEW_H
#define RS_BASE_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rs_view {
    const uint8_t *data;
    size_t length; /* bytes left from `data` on */
    bool failed;
};

struct rs_view rs_view_of(const void *data, size_t length);

uint8_t rs_view_u8(struct rs_view *view);
uint16_t rs_view_u16(struct rs_view *view);
uint32_t rs_view_u32(struct rs_view *view);
uint64_t rs_view_u64(struct rs_view *view);
uint64_t rs_view_varint(struct rs_view *view); /* over 10 bytes or past 64 bits: failed */
int64_t rs_view_zigzag(struct rs_view *view);

/* The next `length` bytes as a view of their own; an empty failed one when there are not so many. */
struct rs_view rs_view_take(struct rs_view *view, size_t length);

#endif
