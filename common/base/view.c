/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/view.h"

struct rs_view rs_view_of(const void *data, size_t length)
{
    return (struct rs_view){.data = data, .length = length};
}

static uint64_t take_little_endian(struct rs_view *view, size_t bytes)
{
    if (view->failed || view->length < bytes) {
        view->failed = true;
        return 0;
    }
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++)
        value |= (uint64_t)view->data[i] << (8 * i);
    view->data += bytes;
    view->length -= bytes;
    return value;
}

uint8_t rs_view_u8(struct rs_view *view)
{
    return (uint8_t)take_little_endian(view, 1);
}

uint16_t rs_view_u16(struct rs_view *view)
{
    return (uint16_t)take_little_endian(view, 2);
}

uint32_t rs_view_u32(struct rs_view *view)
{
    return (uint32_t)take_little_endian(view, 4);
}

uint64_t rs_view_u64(struct rs_view *view)
{
    return take_little_endian(view, 8);
}

uint64_t rs_view_varint(struct rs_view *view)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && !view->failed; shift += 7) {
        const uint8_t byte = rs_view_u8(view);
        if (shift == 63 && byte > 1)
            break;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return view->failed ? 0 : value;
    }
    view->failed = true;
    return 0;
}

int64_t rs_view_zigzag(struct rs_view *view)
{
    const uint64_t coded = rs_view_varint(view);
    return (int64_t)((coded >> 1) ^ (~(coded & 1) + 1));
}

struct rs_view rs_view_take(struct rs_view *view, size_t length)
{
    if (view->failed || view->length < length) {
        view->failed = true;
        return (struct rs_view){.failed = true};
    }
    const struct rs_view taken = rs_view_of(view->data, length);
    view->data += length;
    view->length -= length;
    return taken;
}
