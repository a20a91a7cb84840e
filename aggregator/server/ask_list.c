/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of captures, message by message.
 *
 *     ask_list()  --->  IDS: one look at the catalogue says which captures are meant, oldest first, without their ranks
 *                                       |
 *                                       v
 *     ask_list_pump()   MESSAGE: the next captures with their ranks, up to LIST_MAX_BYTES and LIST_MAX_RANKS  ---> posted
 *                                       ^                                                                            |
 *                                       +----------------------- the message before was taken -----------------------+
 *
 * All ranks are answered on the thread that this runs on. A list of 400 captures of a thousand ranks each takes a quarter of a
 * second to read: between two messages everybody else has his turn. A capture that is removed meanwhile is left out, one that
 * begins meanwhile is not in it.
 */
#include "aggregator/server/server_priv.h"
#include "aggregator/server/step_probe.h"
#include "common/base/mem.h"

#include <stdio.h>
#include <string.h>

/* What one message of a list holds at most, unless one capture alone is more: both ends' limits are well above. Ranks that are
 * only counted count, too. */
enum { LIST_MAX_BYTES = 2 << 20, LIST_MAX_RANKS = BOUND_REPLY_RANKS };

struct lister {
    char (*ids)[RS_COORD_ID_BYTES]; /* oldest first */
    size_t count, capacity, next;
    bool without_ranks, has_failed;
    Rankscope__CaptureInfo *info; /* that was too much for the message before; NULL: none */
    size_t info_bytes;
    /* while ids are looked for */
    struct session *session;
    const Rankscope__AskList *ask;
    const char *run;
};

void ask_list_free(struct session *session)
{
    if (session->lister) {
        rs_mem_free(session->lister->ids);
        if (session->lister->info)
            rankscope__capture_info__free_unpacked(session->lister->info, NULL);
    }
    rs_mem_free(session->lister);
    session->lister = NULL;
}

/* ---- which are meant ------------------------------------------------------------------------------------------------- */

static bool is_meant(const struct lister *lister, const struct rs_coord_capture *capture)
{
    const Rankscope__AskList *ask = lister->ask;
    const char *user = ask_user_of(lister->session);
    return (!*lister->run || strcmp(lister->run, capture->run) == 0) &&
           (!user || strcmp(capture->owner, user) == 0) && !step_probe_is(capture) &&
           (!*ask->state || strcmp(ask->state, rs_capture_state_text(capture->state)) == 0) &&
           (!*ask->before || strcmp(capture->id, ask->before) < 0);
}

static bool add_id(void *self, const struct rs_coord_capture *capture)
{
    struct lister *lister = self;
    const struct rs_coord_capture *open =
        rs_coord_find(lister->session->server->coord, capture->id);
    if (!is_meant(lister, open ? open : capture))
        return true;
    if (rs_mem_grow((void **)&lister->ids, &lister->capacity, lister->count + 1,
                    sizeof *lister->ids) < 0) {
        lister->has_failed = true;
        return false;
    }
    (void)snprintf(lister->ids[lister->count++], sizeof *lister->ids, "%s", capture->id);
    return true;
}

void ask_list(struct session *session, const Rankscope__AskList *ask)
{
    struct rs_server *server = session->server;
    struct lister *lister = rs_mem_calloc(1, sizeof *lister);
    struct rs_err err = {0};
    enum rs_status status = RS_NOMEM;
    if (lister) {
        *lister = (struct lister){.session = session,
                                  .ask = ask,
                                  .run = rights_run(session, ask->run),
                                  .without_ranks = ask->without_ranks};
        session->lister = lister;
        status = (server->journal.heads ? server->journal.heads : server->journal.list)(
            server->journal.self, add_id, lister, &err);
        lister->ask = NULL;
        lister->run = NULL;
    }
    if (!lister || lister->has_failed)
        status = rs_err_set(&err, RS_NOMEM, "out of memory");
    if (status < 0) {
        ask_list_free(session);
        ask_refuse(session, &err);
        return;
    }
    if (ask->limit && lister->count > ask->limit)
        lister->next = lister->count - ask->limit;
    ask_list_pump(session);
}

/* ---- the next message ------------------------------------------------------------------------------------------------ */

/* What an answer says of it, NULL without memory; RS_NOTFOUND: it was removed. */
static enum rs_status read_one(const struct lister *lister, const char *id,
                               Rankscope__CaptureInfo **info_p, size_t *bytes_p, struct rs_err *err)
{
    struct rs_server *server = lister->session->server;
    const struct rs_coord_capture *open = rs_coord_find(server->coord, id);
    const bool is_counted = !open && lister->without_ranks && server->journal.count_ranks;
    struct rs_coord_capture *kept = open ? NULL : rs_mem_calloc(1, sizeof *kept);
    if (!open && !kept)
        return rs_err_set(err, RS_NOMEM, "out of memory");
    const enum rs_status status =
        open ? RS_OK
             : server->journal.find(server->journal.self, id, is_counted ? 0 : RS_JOURNAL_RANKS,
                                    kept, err);
    if (status == RS_OK) {
        *info_p = ask_copy_info(server, open ? open : kept, !lister->without_ranks, bytes_p);
        if (*info_p && is_counted)
            (*info_p)->rank_count = (uint32_t)server->journal.count_ranks(server->journal.self, id);
        if (kept)
            rs_coord_capture_fini(kept);
    }
    rs_mem_free(kept);
    return status;
}

struct page {
    Rankscope__CaptureInfo **items;
    size_t count, capacity, bytes, rank_count;
};

static void page_fini(struct page *page)
{
    for (size_t i = 0; i < page->count; i++)
        rankscope__capture_info__free_unpacked(page->items[i], NULL);
    rs_mem_free(page->items);
}

static bool page_has_room(const struct page *page, const Rankscope__CaptureInfo *info, size_t bytes)
{
    return !page->count || (page->bytes + bytes <= LIST_MAX_BYTES &&
                            page->rank_count + info->rank_count <= LIST_MAX_RANKS);
}

/* Takes the lister's capture at hand. */
static enum rs_status page_add(struct page *page, struct lister *lister, struct rs_err *err)
{
    if (rs_mem_grow((void **)&page->items, &page->capacity, page->count + 1,
                    sizeof(Rankscope__CaptureInfo *)) < 0)
        return rs_err_set(err, RS_NOMEM, "out of memory");
    page->items[page->count++] = lister->info;
    page->bytes += lister->info_bytes;
    page->rank_count += lister->info->rank_count;
    lister->info = NULL;
    return RS_OK;
}

static void send_page(struct session *session, struct page *page, bool is_last)
{
    Rankscope__CaptureList list = RANKSCOPE__CAPTURE_LIST__INIT;
    Rankscope__Reply reply = RANKSCOPE__REPLY__INIT;
    list.n_captures = page->count;
    list.captures = page->items;
    reply.last = is_last;
    reply.message_case = RANKSCOPE__REPLY__MESSAGE_LIST;
    reply.list = &list;
    session->is_ended = is_last;
    session_post(session, &reply.base);
}

void ask_list_pump(struct session *session)
{
    struct lister *lister = session->lister;
    struct page page = {0};
    struct rs_err err = {0};
    enum rs_status status = RS_OK;
    if (!lister || session->outbox || !session->link || session->is_ended || session->is_failed)
        return;
    while (status == RS_OK && (lister->info || lister->next < lister->count)) {
        if (!lister->info)
            status = read_one(lister, lister->ids[lister->next++], &lister->info,
                              &lister->info_bytes, &err);
        if (status == RS_OK && !lister->info)
            status = rs_err_set(&err, RS_NOMEM, "out of memory");
        if (status == RS_OK && !page_has_room(&page, lister->info, lister->info_bytes))
            break;
        if (status == RS_OK)
            status = page_add(&page, lister, &err);
        else if (status == RS_NOTFOUND)
            status = RS_OK;
    }
    if (status < 0)
        ask_refuse(session, &err);
    else
        send_page(session, &page, !lister->info && lister->next == lister->count);
    page_fini(&page);
    if (session->is_ended)
        ask_list_free(session);
}
