/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as parts of a summary, and what is joined of them. Checksums would stop nearly every input at the door, so heads
 * and summaries are sealed right around the bytes. What can be joined must write and read as the same bytes again.
 *
 *     input: parts, each  number u8 | generation u8 | flags u8 | from u8 | until u8 | length u16 | body of a summary
 */
#include "common/base/check.h"
#include "common/base/digest.h"
#include "common/reduce/parts.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PARTS_MAX = 8, HEAD_BYTES = 72, SUMMARY_VERSION = 3 };

static void put_crc(struct rs_buf *bytes, size_t at, size_t from, size_t to)
{
    const uint32_t crc = rs_crc32c(0, bytes->data + from, to - from);
    for (size_t i = 0; i < 4; i++)
        bytes->data[at + i] = (uint8_t)(crc >> (8 * i));
}

static int64_t instant_of(uint8_t value)
{
    return value == 0 ? INT64_MIN : value == UINT8_MAX ? INT64_MAX : (int64_t)value << 20;
}

/* One part, sealed, off the input. */
static void take_part(struct rs_view *input, struct rs_buf *bytes)
{
    const uint8_t number = rs_view_u8(input), generation = rs_view_u8(input),
                  flags = rs_view_u8(input), from = rs_view_u8(input), until = rs_view_u8(input);
    const size_t length = rs_view_u16(input);
    const struct rs_view body =
        rs_view_take(input, length < input->length ? length : input->length);
    rs_buf_reset(bytes);
    rs_buf_bytes(bytes, "RSSUPART", 8);
    rs_buf_u32(bytes, 1);
    rs_buf_u32(bytes, 0);
    rs_buf_u32(bytes, number);
    rs_buf_u32(bytes, generation);
    rs_buf_u32(bytes, flags & 3);
    rs_buf_u32(bytes, (flags & 128) != 0);
    rs_buf_u64(bytes, flags & 4 ? (uint64_t)INT64_MIN : number);
    rs_buf_u64(bytes, flags & 8 ? (uint64_t)INT64_MIN : number);
    rs_buf_u64(bytes, (uint64_t)instant_of(from));
    rs_buf_u64(bytes, (uint64_t)instant_of(until));
    rs_buf_u64(bytes, length);
    put_crc(bytes, 12, 16, HEAD_BYTES);
    rs_buf_bytes(bytes, "RSSUMMRY", 8);
    rs_buf_u32(bytes, SUMMARY_VERSION);
    rs_buf_u32(bytes, 0);
    rs_buf_u64(bytes, body.length);
    rs_buf_bytes(bytes, body.data, body.length);
    put_crc(bytes, HEAD_BYTES + 12, HEAD_BYTES + 16, bytes->length);
}

static void check_joined(struct rs_summary *joined)
{
    struct rs_buf first = {0}, second = {0};
    struct rs_summary again;
    struct rs_err err;
    RS_CHECK(rs_summary_encode(joined, &first, &err) == RS_OK);
    RS_CHECK(rs_summary_decode(rs_view_of(first.data, first.length), &again, &err) == RS_OK);
    RS_CHECK(rs_summary_encode(&again, &second, &err) == RS_OK);
    RS_CHECK(first.length == second.length && memcmp(first.data, second.data, first.length) == 0);
    rs_summary_fini(&again);
    rs_buf_fini(&first);
    rs_buf_fini(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rs_parts parts = {0};
    struct rs_part_head head;
    struct rs_summary summary;
    struct rs_buf bytes = {0};
    struct rs_err err;
    struct rs_view input = rs_view_of(data, size);
    if (rs_part_decode(input, &head, &summary, &err) == RS_OK)
        rs_summary_fini(&summary);
    for (int i = 0; i < PARTS_MAX && input.length; i++) {
        take_part(&input, &bytes);
        (void)!rs_parts_add(&parts, rs_view_of(bytes.data, bytes.length), &err);
    }
    if (rs_parts_join(&parts, &summary, &err) == RS_OK) {
        check_joined(&summary);
        rs_summary_fini(&summary);
    }
    rs_parts_fini(&parts);
    rs_buf_fini(&bytes);
    return 0;
}
