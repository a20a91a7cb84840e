/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages from strangers: unpacking never crashes or eats memory, and whatever the hand parser takes for
 * a chunk, protobuf-c reads with the same numbers.
 */
#include "common/base/check.h"
#include "common/wire/wire.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void compare_chunk(const struct rs_frame *frame)
{
    struct rs_chunk_message chunk;
    struct rs_message message;
    if (!rs_wire_is_chunk(frame) || rs_wire_chunk_parse(frame, &chunk, NULL) < 0)
        return;
    struct iovec parts[4];
    size_t count = 0;
    RS_CHECK(rs_frame_slice(frame, chunk.payload_offset, chunk.payload_length, parts, 4, &count) ==
             RS_OK);
    if (rs_message_unpack(&message, &rankscope__up__descriptor, frame, NULL) < 0)
        return;
    const Rankscope__Up *up = (const Rankscope__Up *)message.body;
    RS_CHECK(up->message_case == RANKSCOPE__UP__MESSAGE_CHUNK);
    RS_CHECK(up->chunk->handle == chunk.handle);
    RS_CHECK(up->chunk->seq == chunk.seq);
    RS_CHECK(up->chunk->flags == chunk.flags);
    RS_CHECK(up->chunk->payload.len == chunk.payload_length);
    rs_message_fini(&message);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const ProtobufCMessageDescriptor *const kinds[] = {
        &rankscope__up__descriptor, &rankscope__down__descriptor, &rankscope__ask__descriptor,
        &rankscope__reply__descriptor};
    struct rs_frame *frame = rs_frame_of(data, size);
    if (!frame)
        return 0;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct rs_message message;
        struct rs_err err = {0};
        if (rs_message_unpack(&message, kinds[i], frame, &err) == RS_OK) {
            struct rs_buf buf = {0};
            rs_wire_pack(message.body, &buf);
            rs_buf_fini(&buf);
        }
        rs_message_fini(&message);
    }
    compare_chunk(frame);
    rs_frame_free(&frame);
    return 0;
}
