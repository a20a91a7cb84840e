/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/trigger/kineto_ipc.h"

#include <string.h>

static enum rs_status parse_poll(struct rs_view body, struct rs_kineto_message *message,
                                 struct rs_err *err)
{
    message->kind = RS_KINETO_POLL;
    message->mask = (int32_t)rs_view_u32(&body);
    const int32_t count = (int32_t)rs_view_u32(&body);
    message->job_id = (int64_t)rs_view_u64(&body);
    if (body.failed)
        return rs_err_set(err, RS_FORMAT, "a poll is shorter than its fixed part of 16 bytes");
    if (count < 1 || count > RS_KINETO_PIDS_MAX)
        return rs_err_set(err, RS_FORMAT, "a poll names %d processes, expected 1 to %d", count,
                          RS_KINETO_PIDS_MAX);
    if (body.length != (size_t)count * 4)
        return rs_err_set(err, RS_FORMAT, "a poll names %d processes in %zu bytes, expected %d",
                          count, body.length, count * 4);
    message->pid_count = (size_t)count;
    for (size_t i = 0; i < message->pid_count; i++)
        message->pids[i] = (int32_t)rs_view_u32(&body);
    return RS_OK;
}

static enum rs_status parse_register(struct rs_view body, struct rs_kineto_message *message,
                                     struct rs_err *err)
{
    if (body.length != 16)
        return rs_err_set(err, RS_FORMAT, "a registration of %zu bytes, expected 16", body.length);
    message->kind = RS_KINETO_REGISTER;
    message->gpu = (int32_t)rs_view_u32(&body);
    message->pids[0] = (int32_t)rs_view_u32(&body);
    message->pid_count = 1;
    message->job_id = (int64_t)rs_view_u64(&body);
    return RS_OK;
}

static enum rs_status parse_status(struct rs_view body, struct rs_kineto_message *message,
                                   struct rs_err *err)
{
    if (body.length != 32)
        return rs_err_set(err, RS_FORMAT, "a status of %zu bytes, expected 32", body.length);
    message->kind = RS_KINETO_STATUS;
    message->status = (int32_t)rs_view_u32(&body);
    message->current_step = (int32_t)rs_view_u32(&body);
    message->start_step = (int32_t)rs_view_u32(&body);
    message->stop_step = (int32_t)rs_view_u32(&body);
    message->pids[0] = (int32_t)rs_view_u32(&body);
    message->pid_count = 1;
    (void)rs_view_u32(&body);
    message->job_id = (int64_t)rs_view_u64(&body);
    return RS_OK;
}

static bool is_status(const void *type)
{
    return memcmp(type, "npuTraceStatus", 15) == 0 || memcmp(type, "npuMonitorStatus", 17) == 0;
}

enum rs_status rs_kineto_message_parse(struct rs_view datagram, struct rs_kineto_message *message_p,
                                       struct rs_err *err)
{
    const size_t total = datagram.length;
    const uint64_t size = rs_view_u64(&datagram);
    const struct rs_view type = rs_view_take(&datagram, RS_KINETO_TYPE_BYTES);
    if (type.failed)
        return rs_err_set(err, RS_FORMAT, "a datagram of %zu bytes, expected a header of %d", total,
                          RS_KINETO_HEADER_BYTES);
    if (size != datagram.length)
        return rs_err_set(err, RS_FORMAT, "a datagram says %llu payload bytes and has %zu",
                          (unsigned long long)size, datagram.length);
    if (!memchr(type.data, '\0', type.length))
        return rs_err_set(err, RS_FORMAT, "the type of a datagram has no terminating NUL");
    struct rs_kineto_message message = {0};
    enum rs_status status;
    if (memcmp(type.data, "req", 4) == 0) {
        status = parse_poll(datagram, &message, err);
    } else if (memcmp(type.data, "ctxt", 5) == 0) {
        status = parse_register(datagram, &message, err);
    } else if (is_status(type.data)) {
        status = parse_status(datagram, &message, err);
    } else if (memcmp(type.data, "data", 5) == 0) {
        message.kind = RS_KINETO_DATA;
        status = RS_OK;
    } else {
        status = rs_err_set(err, RS_FORMAT, "a datagram of unknown type \"%.31s\"",
                            (const char *)type.data);
    }
    if (status == RS_OK)
        *message_p = message;
    return status;
}

static void put_header(struct rs_buf *buf, const char *type, size_t payload_bytes)
{
    char padded[RS_KINETO_TYPE_BYTES] = {0};
    /* NOLINTNEXTLINE(bugprone-not-null-terminated-result): a field of its own */
    memcpy(padded, type, strlen(type));
    rs_buf_u64(buf, payload_bytes);
    rs_buf_bytes(buf, padded, sizeof padded);
}

void rs_kineto_reply_config(struct rs_buf *buf, const char *text, size_t text_length)
{
    put_header(buf, "req", text_length);
    rs_buf_bytes(buf, text, text_length);
}

void rs_kineto_reply_register(struct rs_buf *buf, int32_t instance_count)
{
    put_header(buf, "ctxt", 4);
    rs_buf_u32(buf, (uint32_t)instance_count);
}
