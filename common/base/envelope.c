/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/envelope.h"

#include "common/base/view.h"

const char *rs_loss_cause_text(enum rs_loss_cause cause)
{
    static const char *const texts[RS_LOSS_CAUSE_COUNT] = {"full", "evicted", "damaged",
                                                           "forgotten"};
    return (unsigned)cause < RS_LOSS_CAUSE_COUNT ? texts[cause] : "unknown";
}

void rs_loss_encode(const struct rs_loss *loss, uint8_t bytes_p[RS_LOSS_BYTES])
{
    const uint64_t values[] = {loss->chunks, loss->bytes, loss->events, loss->first_seq,
                               (uint64_t)loss->cause};
    for (size_t i = 0; i < RS_LOSS_BYTES; i++)
        bytes_p[i] = (uint8_t)(values[i / 8] >> (8 * (i % 8)));
}

enum rs_status rs_loss_decode(const void *bytes, size_t length, struct rs_loss *loss_p,
                              struct rs_err *err)
{
    struct rs_view view = rs_view_of(bytes, length);
    struct rs_loss loss = {
        .chunks = rs_view_u64(&view), .bytes = rs_view_u64(&view), .events = rs_view_u64(&view)};
    uint64_t cause = RS_LOSS_FULL;
    if (length != RS_LOSS_SHORT_BYTES) {
        loss.first_seq = rs_view_u64(&view);
        cause = rs_view_u64(&view);
    }
    if (view.failed || view.length)
        return rs_err_set(err, RS_FORMAT, "a loss record has %zu bytes, expected %d or %d", length,
                          RS_LOSS_SHORT_BYTES, RS_LOSS_BYTES);
    if (cause >= RS_LOSS_CAUSE_COUNT)
        return rs_err_set(err, RS_FORMAT, "a loss record names cause %llu, which is none",
                          (unsigned long long)cause);
    loss.cause = (enum rs_loss_cause)cause;
    *loss_p = loss;
    return RS_OK;
}
