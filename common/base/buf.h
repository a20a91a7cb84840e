/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A growing byte buffer that we own, for building things that go to a file or a wire.
 *
 * Errors are sticky: after one failed allocation every append does nothing and
 * `failed` stays true until rs_buf_reset(); check once, at the end. `data` is always
 * valid for `length` bytes; rs_buf_text() adds a NUL that is not counted.
 * Integers are written little-endian whatever the machine is.
 */
#ifndef RS_BASE_BUF_H
#define RS_BASE_BUF_H

#include "common/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rs_buf {
    uint8_t *data;
    size_t length;
    size_t capacity;
    bool failed;
};

void rs_buf_fini(struct rs_buf *buf);  /* a zeroed struct is a valid empty buffer */
void rs_buf_reset(struct rs_buf *buf); /* empty and not failed; memory is kept */

/* Room for `more` bytes behind the end; where they start, or NULL. Follow with
 * rs_buf_commit(). */
uint8_t *rs_buf_reserve(struct rs_buf *buf, size_t more);
void rs_buf_commit(struct rs_buf *buf, size_t used);

void rs_buf_bytes(struct rs_buf *buf, const void *bytes, size_t length);
void rs_buf_string(struct rs_buf *buf, const char *text); /* without its NUL */
void rs_buf_printf(struct rs_buf *buf, const char *format, ...) RS_PRINTF(2, 3);
void rs_buf_decimal(struct rs_buf *buf,
                    uint64_t value); /* its digits, far cheaper than by a format */
void rs_buf_u8(struct rs_buf *buf, uint8_t value);
void rs_buf_u16(struct rs_buf *buf, uint16_t value);
void rs_buf_u32(struct rs_buf *buf, uint32_t value);
void rs_buf_u64(struct rs_buf *buf, uint64_t value);
void rs_buf_varint(struct rs_buf *buf, uint64_t value); /* LEB128, 1 to 10 bytes */
void rs_buf_zigzag(struct rs_buf *buf, int64_t value);  /* zigzag, then LEB128 */

/* The bytes as a NUL-terminated string; "" when the buffer failed. Valid until the next append. */
const char *rs_buf_text(struct rs_buf *buf);

#endif
