/* SPDX-License-Identifier: Apache-2.0 */
/* Which aggregators write into the same database: what the lease's thread read last, so that nobody waits for the database. */
#include "aggregator/server/lease.h"
#include "aggregator/server/server_priv.h"
#include "common/base/lend.h"
#include "common/base/mem.h"

#include <string.h>

static void fill(const struct rs_lease *lease, const struct rs_fleet_member *member,
                 Rankscope__AggregatorState *state)
{
    rankscope__aggregator_state__init(state);
    state->id = rs_lend(member->id);
    state->host = rs_lend(member->host);
    state->address = rs_lend(member->address);
    state->http = rs_lend(member->http);
    state->version = rs_lend(member->version);
    state->epoch = (uint64_t)member->epoch;
    state->state = rs_lend(rs_fleet_state_text(member->state));
    state->began_ns = member->began_ns;
    state->seen_ns = member->seen_ns;
    state->captures = member->captures;
    state->open = member->open;
    state->is_self = rs_lease_is_self(lease, member);
    state->is_double = member->is_double;
}

static enum rs_status answer(struct session *session, const struct rs_fleet_list *list, char *why,
                             struct rs_err *err)
{
    Rankscope__AggregatorTable table = RANKSCOPE__AGGREGATOR_TABLE__INIT;
    Rankscope__Reply reply = RANKSCOPE__REPLY__INIT;
    Rankscope__AggregatorState *states = rs_mem_calloc(list->count + 1, sizeof *states);
    Rankscope__AggregatorState **pointers =
        rs_mem_calloc(list->count + 1, sizeof(Rankscope__AggregatorState *));
    const enum rs_status status =
        states && pointers ? RS_OK : rs_err_set(err, RS_NOMEM, "out of memory");
    for (size_t i = 0; status == RS_OK && i < list->count; i++) {
        fill(session->server->options.lease, &list->items[i], &states[i]);
        pointers[i] = &states[i];
    }
    if (status == RS_OK) {
        table.aggregators = pointers;
        table.n_aggregators = list->count;
        table.now_ns = list->now_ns;
        table.away = why;
        reply.last = true;
        reply.message_case = RANKSCOPE__REPLY__MESSAGE_AGGREGATORS;
        reply.aggregators = &table;
        session->is_ended = true;
        session_post(session, &reply.base);
    }
    rs_mem_free(states);
    rs_mem_free(pointers);
    return status;
}

void ask_aggregators(struct session *session)
{
    struct rs_lease *lease = session->server->options.lease;
    struct rs_fleet_list list = {.count = 0};
    struct rs_err err = {0};
    char why[512];
    enum rs_status status =
        lease ? rs_lease_list(lease, &list, why, sizeof why, &err)
              : rs_err_set(&err, RS_REFUSED,
                           "this aggregator keeps its rows in its own folder (it has no --store): "
                           "it knows of no others");
    if (status == RS_OK)
        status = answer(session, &list, why, &err);
    if (status < 0)
        ask_refuse(session, &err);
    rs_fleet_list_fini(&list);
}
