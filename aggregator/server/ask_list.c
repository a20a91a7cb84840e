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
 *
 * Captures of other aggregators of the same database (elsewhere.c) are among them, without their ranks: what was read of them is kept until it
 * is sent.
 */
#include "aggregator/server/server_priv.h"
#include "aggregator/server/step_probe.h"
#include "common/base/lend.h"
#include "common/base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What one message of a list holds at most, unless one capture alone is more: both ends' limits are well above. Ranks that are
 * only counted count, too. */
enum { LIST_MAX_BYTES = 2 << 20, LIST_MAX_RANKS = BOUND_REPLY_RANKS };

struct listed {
    char id[RS_COORD_ID_BYTES];
    rs_ns created_ns;
    /* of another aggregator: */
    char aggregator[RS_FLEET_ID_BYTES]; /* "": it is here */
    uint8_t *packed;                    /* what that one says of it */
    size_t length;
    bool is_living; /* that one is there */
};

struct lister {
    struct listed *items; /* oldest first */
    char *away;           /* why those of others are not among them; NULL: they are */
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
        for (size_t i = 0; i < session->lister->count; i++)
            rs_mem_free(session->lister->items[i].packed);
        rs_mem_free(session->lister->items);
        rs_mem_free(session->lister->away);
        if (session->lister->info)
            rankscope__capture_info__free_unpacked(session->lister->info, NULL);
    }
    rs_mem_free(session->lister);
    session->lister = NULL;
}

/* ---- which are meant ------------------------------------------------------------------------------------------------- */

static bool is_meant(const struct lister *lister, const char *id, const char *run,
                     const char *owner, const char *state)
{
    const Rankscope__AskList *ask = lister->ask;
    const char *user = ask_user_of(lister->session);
    return (!*lister->run || strcmp(lister->run, run) == 0) &&
           (!user || strcmp(owner, user) == 0) &&
           (!*ask->state || strcmp(ask->state, state) == 0) &&
           (!*ask->before || strcmp(id, ask->before) < 0);
}

/* NULL: no memory. */
static struct listed *add_item(struct lister *lister, const char *id, rs_ns created_ns)
{
    if (rs_mem_grow((void **)&lister->items, &lister->capacity, lister->count + 1,
                    sizeof *lister->items) < 0) {
        lister->has_failed = true;
        return NULL;
    }
    struct listed *item = &lister->items[lister->count++];
    *item = (struct listed){.created_ns = created_ns};
    (void)snprintf(item->id, sizeof item->id, "%s", id);
    return item;
}

static bool add_id(void *self, const struct rs_coord_capture *capture)
{
    struct lister *lister = self;
    const struct rs_coord_capture *open =
        rs_coord_find(lister->session->server->coord, capture->id);
    const struct rs_coord_capture *known = open ? open : capture;
    if (step_probe_is(known) ||
        !is_meant(lister, known->id, known->run, known->owner, rs_capture_state_text(known->state)))
        return true;
    return add_item(lister, known->id, known->created_ns) != NULL;
}

static int compare_listed(const void *left, const void *right)
{
    const struct listed *a = left, *b = right;
    if (a->created_ns != b->created_ns)
        return a->created_ns < b->created_ns ? -1 : 1;
    const int by_id = strcmp(a->id, b->id);
    if (by_id)
        return by_id;
    if (!*a->aggregator != !*b->aggregator)
        return *a->aggregator ? 1 : -1;
    return b->is_living - a->is_living;
}

/* A capture that was restored from the archive by another aggregator stands in both catalogues: ours counts first, then that of a living one.
 * One that another has taken over from us is that one's. */
static void leave_doubles_out(struct lister *lister)
{
    struct rs_server *server = lister->session->server;
    size_t kept = 0;
    for (size_t i = 0; i < lister->count; i++) {
        struct listed *last = kept ? &lister->items[kept - 1] : NULL;
        if (!last || strcmp(last->id, lister->items[i].id) != 0) {
            lister->items[kept++] = lister->items[i];
        } else if (!*last->aggregator && whose_is_given_up(server, last->id)) {
            rs_mem_free(last->packed);
            *last = lister->items[i];
        } else {
            rs_mem_free(lister->items[i].packed);
        }
    }
    lister->count = kept;
}

/* Those of others, each where it belongs by its time. */
static void add_others(struct lister *lister, const struct rs_fleet_captures *others)
{
    const size_t own = lister->count;
    for (size_t i = 0; i < others->count && !lister->has_failed; i++) {
        const struct rs_fleet_capture *capture = &others->items[i];
        if (!rs_wire_is_capture_id(capture->id) || !capture->head.length ||
            !*capture->aggregator || /* it would be taken for one of ours */
            strlen(capture->aggregator) >= RS_FLEET_ID_BYTES ||
            !is_meant(lister, capture->id, capture->run, capture->owner, capture->state))
            continue;
        struct listed *item = add_item(lister, capture->id, capture->created_ns);
        if (!item)
            return;
        struct elsewhere_member member;
        elsewhere_who(lister->session->server, capture->aggregator, &member);
        (void)snprintf(item->aggregator, sizeof item->aggregator, "%s", capture->aggregator);
        item->is_living = member.is_living;
        item->length = capture->head.length;
        item->packed = rs_mem_calloc(item->length, 1);
        if (item->packed)
            memcpy(item->packed, capture->head.data, item->length);
        else
            lister->has_failed = true;
    }
    if (lister->count > own) {
        qsort(lister->items, lister->count, sizeof *lister->items, compare_listed);
        leave_doubles_out(lister);
    }
}

void ask_list(struct session *session, const Rankscope__AskList *ask,
              const struct rs_fleet_captures *others, const char *away)
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
        if (status == RS_OK && others)
            add_others(lister, others);
        if (*away)
            lister->away = rs_mem_strdup(away);
        lister->has_failed = lister->has_failed || (*away && !lister->away);
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

/* RS_NOTFOUND: it cannot be read, which a newer program's may be. */
static enum rs_status read_other(const struct lister *lister, const struct listed *item,
                                 Rankscope__CaptureInfo **info_p, size_t *bytes_p)
{
    const struct rs_fleet_capture capture = {.id = item->id, .aggregator = item->aggregator};
    *info_p =
        elsewhere_info(lister->session->server, &capture, rs_view_of(item->packed, item->length));
    *bytes_p = *info_p ? rankscope__capture_info__get_packed_size(*info_p) : 0;
    return *info_p ? RS_OK : RS_NOTFOUND;
}

/* What an answer says of it, NULL without memory; RS_NOTFOUND: it was removed. */
static enum rs_status read_one(const struct lister *lister, const struct listed *item,
                               Rankscope__CaptureInfo **info_p, size_t *bytes_p, struct rs_err *err)
{
    struct rs_server *server = lister->session->server;
    const char *id = item->id;
    if (*item->aggregator)
        return read_other(lister, item, info_p, bytes_p);
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
    list.away = rs_lend(session->lister->away ? session->lister->away : "");
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
            status = read_one(lister, &lister->items[lister->next++], &lister->info,
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
