/* SPDX-License-Identifier: Apache-2.0 */
#include "common/wire/copy.h"

#include "common/base/mem.h"

ProtobufCMessage *rs_wire_copy(const ProtobufCMessage *message)
{
    const size_t bytes = protobuf_c_message_get_packed_size(message);
    uint8_t *packed = rs_mem_calloc(bytes + 1, 1);
    ProtobufCMessage *copy = NULL;
    if (packed) {
        (void)protobuf_c_message_pack(message, packed);
        copy = protobuf_c_message_unpack(message->descriptor, NULL, bytes, packed);
    }
    rs_mem_free(packed);
    return copy;
}
