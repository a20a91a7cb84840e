/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What both kinds of sessions share: the outbox (one message under way at a time), and the end.
 *
 * The outbox is bounded: a peer that does not take its answers is not read any more, so that it causes no further ones, and
 * is closed when it goes on like that. Answers of many messages are made page by page, the next when the one before was taken.
 */
#include "aggregator/server/server_priv.h"
#include "common/base/mem.h"

#define RS_LOG_TAG "server"
#include "common/base/log.h"

#include <stdio.h>
#include <string.h>

void session_post_packed(struct session *session, struct rs_buf *buf)
{
    if (!session->link || session->is_failed)
        return;
    struct outbox_item *item = rs_mem_calloc(1, sizeof *item);
    if (!item || buf->failed) {
        rs_mem_free(item);
        session_fail(session, RS_NOMEM, "out of memory");
        return;
    }
    item->buf = *buf;
    *buf = (struct rs_buf){0};
    session->outbox_bytes += item->buf.length;
    *session->outbox_last_p = item;
    session->outbox_last_p = &item->next;
    session_pump(session);
    if (!session->choked_at && session->outbox_bytes > session->server->options.outbox_bytes)
        session->choked_at = rs_time_monotonic();
}

void session_post(struct session *session, const ProtobufCMessage *message)
{
    struct rs_buf buf = {0};
    if (!session->link || session->is_failed)
        return;
    rs_wire_pack(message, &buf);
    session_post_packed(session, &buf);
    rs_buf_fini(&buf);
}

static void drop_first(struct session *session)
{
    struct outbox_item *item = session->outbox;
    session->outbox = item->next;
    session->outbox_bytes -= item->buf.length;
    if (session->outbox_bytes <= session->server->options.outbox_bytes)
        session->choked_at = 0;
    if (!session->outbox)
        session->outbox_last_p = &session->outbox;
    rs_buf_fini(&item->buf);
    rs_mem_free(item);
}

void session_pump(struct session *session)
{
    while (session->link && session->outbox && !session->is_failed) {
        const struct rs_view head =
            rs_view_of(session->outbox->buf.data, session->outbox->buf.length);
        const enum rs_status status = rs_link_send(session->link, head, rs_view_of(NULL, 0));
        if (status == RS_AGAIN)
            return;
        drop_first(session);
        if (status < 0)
            return;
    }
    if (session->is_choked && !session->choked_at && session->link && !session->is_failed) {
        session->is_choked = false;
        if (!session->is_paused)
            rs_link_resume(session->link);
    }
    if (session->is_ended && !session->outbox && session->link && !session->is_failed) {
        session->is_failed = true; /* nothing more is sent */
        rs_link_close(session->link, RS_OK, "");
    }
}

void session_fail(struct session *session, enum rs_status status, const char *reason)
{
    if (session->is_failed || !session->link)
        return;
    session->is_failed = true;
    rs_count(RS_COUNT_SERVER_FAILED, 1);
    rs_log_warn("link of %.100s closed: %s", *session->node ? session->node : session->link->peer,
                reason);
    rs_link_close(session->link, status, reason);
}

void sessions_sweep(struct rs_server *server, rs_ns now)
{
    const struct rs_server_options *options = &server->options;
    char text[96];
    for (struct session *session = server->sessions; session; session = session->next) {
        if (session->is_failed || !session->link)
            continue;
        session_resume(session);
        if (!session->has_hello && now - session->opened_at > options->first_message_ns) {
            (void)snprintf(text, sizeof text, "no first message came within %lld s",
                           (long long)(options->first_message_ns / RS_NS_PER_S));
            session_fail(session, RS_TIMEOUT, text);
        } else if (session->choked_at && now - session->choked_at > options->outbox_ns) {
            (void)snprintf(text, sizeof text, "it did not take %zu bytes of answers for %lld s",
                           session->outbox_bytes, (long long)(options->outbox_ns / RS_NS_PER_S));
            session_fail(session, RS_LIMIT, text);
            rs_link_abort(session->link); /* what it does not take stands before any farewell */
        }
    }
}

void sessions_check(struct rs_server *server)
{
    const struct rs_server_options *options = &server->options;
    struct rs_err err = {0};
    if (!options->check_identity)
        return;
    (void)!options->check_identity(options->check_self, NULL, NULL);
    for (struct session *session = server->sessions; session; session = session->next) {
        if (session->is_failed || !session->link || !*session->identity.serial ||
            options->check_identity(options->check_self, &session->identity, &err) == RS_OK)
            continue;
        rights_refused(session, "stay", session->node, err.text);
        session_fail(session, RS_REFUSED, err.text);
    }
}

bool session_may_read(const struct session *session)
{
    struct rs_server *server = session->server;
    return !rs_ingest_is_full(server->ingest) &&
           quota_may_read(&server->quotas, session->quota, rs_time_monotonic());
}

void session_resume(struct session *session)
{
    struct rs_server *server = session->server;
    if (!session->is_paused || !session->link)
        return;
    if (!session_may_read(session)) {
        const rs_ns at = quota_rests_until(&server->quotas, session->quota, rs_time_monotonic());
        if (at && at < server->resume_at)
            server->resume_at = at;
        return;
    }
    session->is_paused = false;
    if (!session->is_choked)
        rs_link_resume(session->link);
}

static void unlink_session(struct session *session)
{
    struct session **at = &session->server->sessions;
    while (*at != session)
        at = &(*at)->next;
    *at = session->next;
    session->server->session_count--;
    quota_close(session->quota, rs_time_monotonic());
}

bool session_reap(struct session *session)
{
    if (session->link || session->job_count)
        return false;
    while (session->outbox)
        drop_first(session);
    collector_free_streams(session);
    unlink_session(session);
    rs_mem_free(session->counters);
    ask_transfer_free(session);
    ask_table_free(session);
    ask_cursor_free(session);
    ask_list_free(session);
    rs_mem_free(session);
    return true;
}
