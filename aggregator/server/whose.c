/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose a capture is that a collector names and this aggregator does not know: where several write into one database, another one may have
 * it, and two that take half of it each would write rows of one name.
 *
 *     whose_of() --> ASKED --rs-read: the catalogue, and who lives--> ANSWERED --collector_look_again()--> whose_of(): the answer
 *                      ^                                                  |
 *                      +--- asked again, by who still has to know --------+ 3 s later: an aggregator may have gone, or come back
 *
 * An aggregator is lost when its lease ended, never because it is not reached from here; one that stopped may be being started again, and has
 * as long. When the database does not answer nobody is taken for lost.
 */
#include "aggregator/server/lease.h"
#include "aggregator/server/server_priv.h"
#include "common/base/mem.h"

#define RS_LOG_TAG "server"
#include "common/base/log.h"

#include <stdio.h>
#include <string.h>

static const rs_dur believed_ns = 3 * (rs_dur)RS_NS_PER_S;

enum { ENTRIES_MAX = 4096, NAME_DIGITS = 4 };

struct whose_entry {
    struct whose_entry *next;
    char id[RS_STORE_ID_BYTES];
    bool is_asked;
    rs_ns answered_at; /* monotonic */
    struct whose whose;
};

struct whose_job {
    struct pool_job base;
    char id[RS_STORE_ID_BYTES];
    struct whose whose;
};

bool whose_is_shared(const struct rs_server *server)
{
    return server->options.rows && server->options.lease && server->read_pool;
}

/* ---- on rs-read ----------------------------------------------------------------------------------------------------------- */

/* As the database told it last: it lives, or its lease has not ended yet. */
static bool may_be_back(const struct rs_fleet_list *list, const char *id)
{
    const rs_dur lease_ns = RS_FLEET_LEASE_S * (rs_dur)RS_NS_PER_S;
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i].id, id) == 0 &&
            (list->items[i].state == RS_FLEET_LIVING ||
             (list->items[i].state == RS_FLEET_STOPPED &&
              list->now_ns - list->items[i].seen_ns < lease_ns)))
            return true;
    return false;
}

/* A capture whose owner has not told of it yet: its name ends in digits of who gave it. */
static const char *named_after(const struct rs_fleet_list *list, const char *capture,
                               const char *own)
{
    const size_t length = strlen(capture);
    for (size_t i = 0; i < list->count && length > NAME_DIGITS; i++)
        if (strcmp(list->items[i].id, own) != 0 && may_be_back(list, list->items[i].id) &&
            strncmp(capture + length - NAME_DIGITS, list->items[i].id, NAME_DIGITS) == 0)
            return list->items[i].id;
    return NULL;
}

static void decide(struct whose_job *job, const struct rs_fleet_captures *found,
                   const struct rs_fleet_list *list)
{
    struct rs_server *server = job->base.server;
    struct whose *whose = &job->whose;
    const struct rs_fleet_capture *owned = NULL;
    bool is_removed = false;
    for (size_t i = 0; i < found->count; i++) {
        const struct rs_fleet_capture *row = &found->items[i];
        is_removed = is_removed || row->is_removed;
        if (!row->is_removed && (!owned || may_be_back(list, row->aggregator)))
            owned = row;
    }
    const char *namer =
        found->count ? NULL : named_after(list, job->id, rs_lease_id(server->options.lease));
    if (owned) {
        whose->kind = may_be_back(list, owned->aggregator) ? WHOSE_ANOTHERS : WHOSE_LOST;
        whose->is_closed = owned->closed_ns != 0;
        (void)snprintf(whose->owner, sizeof whose->owner, "%.63s", owned->owner);
        elsewhere_who(server, owned->aggregator, &whose->member);
    } else if (namer) {
        whose->kind = WHOSE_ANOTHERS;
        elsewhere_who(server, namer, &whose->member);
    } else {
        whose->kind = is_removed ? WHOSE_REMOVED : WHOSE_NOBODYS;
    }
}

static void run(struct rs_pool_job *pool_job)
{
    struct whose_job *job = (struct whose_job *)pool_job; /* its first member's first */
    const struct rs_server_options *options = &job->base.server->options;
    struct rs_fleet_captures found = {.count = 0};
    struct rs_fleet_list list = {.count = 0};
    struct rs_err err = {0};
    job->whose.kind = WHOSE_UNKNOWN;
    enum rs_status status =
        rs_lease_list(options->lease, &list, job->whose.why, sizeof job->whose.why, &err);
    if (status == RS_OK && *job->whose.why)
        status = rs_err_set(&err, RS_UNREACHABLE, "%s", job->whose.why);
    if (status == RS_OK)
        status =
            rs_fleet_find_all(options->rows, job->id, rs_lease_id(options->lease), &found, &err);
    if (status == RS_OK)
        decide(job, &found, &list);
    else
        (void)snprintf(job->whose.why, sizeof job->whose.why, "%.500s", err.text);
    rs_fleet_captures_fini(&found);
    rs_fleet_list_fini(&list);
}

/* ---- on the server's thread ------------------------------------------------------------------------------------------------ */

static struct whose_entry **find(struct rs_server *server, const char *id)
{
    struct whose_entry **at = &server->whose;
    while (*at && strcmp((*at)->id, id) != 0)
        at = &(*at)->next;
    return at;
}

static void answered(struct pool_job *base)
{
    struct whose_job *job = (struct whose_job *)base; /* its first member */
    struct rs_server *server = base->server;
    struct whose_entry *entry = *find(server, job->id);
    if (base->base.was_dropped)
        job->whose = (struct whose){.kind = WHOSE_UNKNOWN, .why = "the aggregator stops"};
    if (entry) {
        entry->is_asked = false;
        entry->answered_at = rs_time_monotonic();
        entry->whose = job->whose;
        collector_look_again(server, job->id);
    }
    rs_mem_free(job);
}

static bool ask(struct rs_server *server, const char *id)
{
    struct whose_job *job = rs_mem_calloc(1, sizeof *job);
    if (!job)
        return false;
    (void)snprintf(job->id, sizeof job->id, "%s", id);
    job->base.server = server;
    job->base.finish = answered;
    job->base.base.run = run;
    if (rs_pool_put(server->read_pool, &job->base.base) == RS_OK)
        return true;
    rs_mem_free(job);
    return false;
}

/* Answers that nobody believes any more, so that the list stays short. True: there is room. */
static bool forget_old(struct rs_server *server, rs_ns now)
{
    size_t count = 0;
    for (struct whose_entry **at = &server->whose; *at;) {
        struct whose_entry *entry = *at;
        if (entry->is_asked || now - entry->answered_at < believed_ns) {
            count++;
            at = &entry->next;
            continue;
        }
        *at = entry->next;
        rs_mem_free(entry);
    }
    return count < ENTRIES_MAX;
}

const struct whose *whose_of(struct rs_server *server, const char *id)
{
    static const struct whose later = {.kind = WHOSE_UNKNOWN,
                                       .why = "too much is asked of this aggregator"};
    const rs_ns now = rs_time_monotonic();
    struct whose_entry *entry = *find(server, id);
    if (entry && entry->is_asked)
        return NULL;
    if (entry && now - entry->answered_at < believed_ns)
        return &entry->whose;
    if (!forget_old(server, now))
        return &later;
    entry = rs_mem_calloc(1, sizeof *entry);
    if (!entry || !ask(server, id)) {
        rs_mem_free(entry);
        return &later;
    }
    (void)snprintf(entry->id, sizeof entry->id, "%s", id);
    entry->is_asked = true;
    entry->next = server->whose;
    server->whose = entry;
    return NULL;
}

void whose_fini(struct rs_server *server)
{
    while (server->whose) {
        struct whose_entry *next = server->whose->next;
        rs_mem_free(server->whose);
        server->whose = next;
    }
}
