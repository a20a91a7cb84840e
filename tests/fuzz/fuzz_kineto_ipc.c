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
    struct rs_kineto_letter letter;
    struct rs_err err;
    if (rs_kineto_letter_parse(rs_view_of(data, size), &letter, &err) != RS_OK)
        return 0;
    RS_CHECK(letter.kind == RS_KINETO_DATA || letter.pid_count >= 1);
    RS_CHECK(letter.pid_count <= RS_KINETO_PIDS_MAX);
    RS_CHECK(letter.kind != RS_KINETO_STATUS || size == RS_KINETO_HEADER_BYTES + 32);
    return 0;
}
