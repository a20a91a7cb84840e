/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What both kinds of sessions share: the outbox (one letter under way at a time), and the end.
 */
#include "aggregator/gate/gate_priv.h"
#include "common/base/mem.h"

#define RS_LOG_TAG "gate"
#include "common/base/log.h"

#include <string.h>

void session_post(struct session *session, const ProtobufCMessage *message)
{
    if (!session->link || session->is_failed)
        return;
    struct outbox_item *item = rs_mem_calloc(1, sizeof *item);
    if (item)
        rs_wire_pack(message, &item->buf);
    if (!item || item->buf.failed) {
        rs_mem_free(item);
        session_fail(session, RS_NOMEM, "out of memory");
        return;
    }
    *session->outbox_last_p = item;
    session->outbox_last_p = &item->next;
    session_pump(session);
}

static void drop_first(struct session *session)
{
    struct outbox_item *item = session->outbox;
    session->outbox = item->next;
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
    rs_log_warn("link of %.100s closed: %s", *session->node ? session->node : session->link->peer,
                reason);
    rs_link_close(session->link, status, reason);
}

static void unlink_session(struct session *session)
{
    struct session **at = &session->gate->sessions;
    while (*at != session)
        at = &(*at)->next;
    *at = session->next;
    session->gate->session_count--;
}

bool session_reap(struct session *session)
{
    if (session->link || session->job_count)
        return false;
    unlink_session(session);
    while (session->outbox)
        drop_first(session);
    collector_free_streams(session);
    rs_mem_free(session);
    return true;
}
