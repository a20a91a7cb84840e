/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/envelope.h"

#include "common/base/view.h"

void rs_loss_encode(const struct rs_loss *loss, uint8_t bytes_p[RS_LOSS_BYTES])
{
    const uint64_t values[] = {loss->chunks, loss->bytes, loss->events};
    for (size_t i = 0; i < RS_LOSS_BYTES; i++)
        bytes_p[i] = (uint8_t)(values[i / 8] >> (8 * (i % 8)));
}

enum rs_status rs_loss_decode(const void *bytes, size_t length, struct rs_loss *loss_p,
                              struct rs_err *err)
{
    struct rs_view view = rs_view_of(bytes, length);
    const struct rs_loss loss = {
        .chunks = rs_view_u64(&view), .bytes = rs_view_u64(&view), .events = rs_view_u64(&view)};
    if (view.failed || view.length)
        return rs_err_set(err, RS_FORMAT, "a loss record has %zu bytes, expected %d", length,
                          RS_LOSS_BYTES);
    *loss_p = loss;
    return RS_OK;
}
