/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a datagram of Kineto's IPC: what is accepted obeys the limits of kineto_ipc.h.
 */
#include "collector/trigger/kineto_ipc.h"
#include "common/base/check.h"

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rs_kineto_message message;
    struct rs_err err;
    if (rs_kineto_message_parse(rs_view_of(data, size), &message, &err) != RS_OK)
        return 0;
    RS_CHECK(message.kind == RS_KINETO_DATA || message.pid_count >= 1);
    RS_CHECK(message.pid_count <= RS_KINETO_PIDS_MAX);
    RS_CHECK(message.kind != RS_KINETO_STATUS || size == RS_KINETO_HEADER_BYTES + 32);
    return 0;
}
