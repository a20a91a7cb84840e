/* SPDX-License-Identifier: Apache-2.0 */
/* A message of its own from one that is lent for a call. */
#ifndef RS_WIRE_COPY_H
#define RS_WIRE_COPY_H

#include <protobuf-c/protobuf-c.h>

/* Made by way of its bytes; protobuf_c_message_free_unpacked() frees it. NULL: no memory. */
ProtobufCMessage *rs_wire_copy(const ProtobufCMessage *message);

#endif
