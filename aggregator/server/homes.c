/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a collector belongs: it knows several aggregators, in an order, and all collectors of one list are to be at the first of it that
 * lives, so that a capture has all ranks of its run.
 *
 *     Hello --one that comes before us lives--> Welcome (go to it), and nothing is opened
 *       |
 *       +---none does--> stays --one is back, and nothing of a capture is under way--> Goodbye (go to it)
 *
 * Who lives is what the database said last (lease.h): a collector that does not reach one is sent back to it until its lease is over, and
 * says when it has not reached it for long all the same: then it stays. One that is sent on comes to an earlier place of its list each
 * time, so that ends.
 */
#include "aggregator/server/lease.h"
#include "aggregator/server/server_priv.h"
#include "common/base/mem.h"

#define RS_LOG_TAG "server"
#include "common/base/log.h"

#include <stdio.h>
#include <string.h>

enum { HOMES_MAX = 64 }; /* of a list that a collector may tell */

static const rs_dur look_every_ns = 2 * (rs_dur)RS_NS_PER_S;

struct home {
    char address[RS_FLEET_ADDRESS_BYTES]; /* as the collector writes it */
    char id[RS_FLEET_ID_BYTES];
};

void homes_free(struct session *session)
{
    rs_mem_free(session->homes);
    session->homes = NULL;
    session->home_count = 0;
}

enum rs_status homes_take(struct session *session, const Rankscope__Hello *hello,
                          struct rs_err *err)
{
    const size_t most = hello->n_aggregators < HOMES_MAX ? hello->n_aggregators : HOMES_MAX;
    if (!session->server->options.lease || hello->is_delivery || most < 2)
        return RS_OK;
    session->homes = rs_mem_calloc(most, sizeof *session->homes);
    if (!session->homes)
        return rs_err_set(err, RS_NOMEM, "out of memory");
    for (size_t i = 0; i < most && !hello->aggregators[i]->is_this; i++) {
        const Rankscope__KnownAggregator *told = hello->aggregators[i];
        struct home *home = &session->homes[session->home_count];
        if (told->is_unreached ||
            rs_wire_check_text(told->address, sizeof home->address - 1, "address", NULL) < 0 ||
            rs_wire_check_text(told->id, sizeof home->id - 1, "id", NULL) < 0)
            continue;
        (void)snprintf(home->address, sizeof home->address, "%s", told->address);
        (void)snprintf(home->id, sizeof home->id, "%s", told->id);
        session->home_count++;
    }
    return RS_OK;
}

static bool is_it(const struct home *home, const struct rs_fleet_member *member)
{
    return *home->id ? strcmp(home->id, member->id) == 0
                     : strcmp(home->address, member->address) == 0;
}

static const char *find_home(const struct session *session, const struct rs_fleet_list *list,
                             bool is_away_for_now)
{
    const rs_dur lease_ns = RS_FLEET_LEASE_S * (rs_dur)RS_NS_PER_S;
    for (size_t i = 0; i < session->home_count; i++)
        for (size_t k = 0; k < list->count; k++) {
            const struct rs_fleet_member *member = &list->items[k];
            const bool is_back_soon =
                member->state == RS_FLEET_STOPPED && list->now_ns - member->seen_ns < lease_ns;
            if (is_it(&session->homes[i], member) &&
                (member->state == RS_FLEET_LIVING || (is_away_for_now && is_back_soon)))
                return session->homes[i].address;
        }
    return NULL;
}

/* RS_UNREACHABLE: as it was told last, and not since. Less than RS_OK otherwise: nothing was told yet. */
static enum rs_status who_lives(const struct rs_server *server, struct rs_fleet_list *list_p)
{
    char why[256];
    const enum rs_status status =
        rs_lease_list(server->options.lease, list_p, why, sizeof why, NULL);
    return status == RS_OK && *why ? RS_UNREACHABLE : status;
}

/* While the database is away it is as it was: else a link that breaks then would end up here, and the others not. */
const char *homes_before(const struct session *session)
{
    struct rs_fleet_list list = {.count = 0};
    if (!session->home_count)
        return NULL;
    const enum rs_status status = who_lives(session->server, &list);
    const char *home =
        status == RS_OK || status == RS_UNREACHABLE ? find_home(session, &list, true) : NULL;
    rs_fleet_list_fini(&list);
    return home;
}

/* ---- back home --------------------------------------------------------------------------------------------------------------- */

/* What is held is nobody's business now; all else is to be here before it goes. */
static bool is_under_way(const struct session *session)
{
    for (size_t i = 0; i < session->stream_count; i++)
        if (!session->streams[i]->is_held && !session->streams[i]->is_ended)
            return true;
    return session->welcome || !rs_coord_is_idle(session->server->coord, session->link);
}

static void send_home(struct session *session, const char *home)
{
    char reason[] = "an aggregator that comes before this one is back";
    char address[RS_FLEET_ADDRESS_BYTES];
    Rankscope__Goodbye goodbye = RANKSCOPE__GOODBYE__INIT;
    (void)snprintf(address, sizeof address, "%s", home);
    rs_log_info("collector on %s is sent to %s", session->node, address);
    goodbye.reason = reason;
    goodbye.go_to = address;
    Rankscope__Down down = RANKSCOPE__DOWN__INIT;
    down.message_case = RANKSCOPE__DOWN__MESSAGE_GOODBYE;
    down.goodbye = &goodbye;
    session_post(session, &down.base);
    homes_free(session); /* once */
}

rs_ns homes_tick(struct rs_server *server, rs_ns now)
{
    struct rs_fleet_list list = {.count = 0};
    bool is_any_away = false;
    for (const struct session *session = server->sessions; session; session = session->next)
        is_any_away = is_any_away || (session->link && session->home_count);
    if (!is_any_away || server->is_draining)
        return RS_NS_MAX;
    if (now < server->homes_at)
        return server->homes_at;
    server->homes_at = now + look_every_ns;
    if (who_lives(server, &list) != RS_OK) {
        rs_fleet_list_fini(&list);
        return server->homes_at;
    }
    for (struct session *session = server->sessions; session; session = session->next) {
        const char *home = session->link && !session->is_failed && session->has_hello
                               ? find_home(session, &list, false)
                               : NULL;
        if (home && !is_under_way(session))
            send_home(session, home);
    }
    rs_fleet_list_fini(&list);
    return server->homes_at;
}
