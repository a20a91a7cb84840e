/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose a capture is that a collector names and this aggregator does not know: where several write into one database, another one may have
 * it, and two that take half of it each would write rows of one name.
 *
 *     whose_of() --> ASKED --rs-read: the catalogue, and who lives--> ANSWERED --collector_look_again()--> whose_of(): the answer
 *                      ^                                                  |
 *                      +--- asked again, by who still has to know --------+ 3 s later: an aggregator may have gone, or come back
 *
 * Of several that say that they have it, it is the one that took it over last (the claim in its row; of two that took it over at once, the
 * one with the smaller id; of two that never did, as after a restore from an archive, the one that lives).
 *
 * The other way round, an aggregator that was away may find a capture of its own taken over: whoever writes rows asks before
 * (whose_check()), and gives it up then (whose_give_up()): its half stays in its folder, as a capture that says so, and other aggregators do
 * not hear of it any more. Collectors send what they have kept of it to the one that has it now.
 *
 * When that one is lost as well, what was given up is taken back with a larger claim, as a capture that is closed and gets late data.
 *
 * An aggregator is lost when its lease ended, never because it is not reached from here; one that stopped may be being started again, and has
 * as long. When the database does not answer nobody is taken for lost.
 */
#include "aggregator/server/capture_journal.h"
#include "aggregator/server/lease.h"
#include "aggregator/server/server_priv.h"
#include "common/base/file.h"
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
    bool is_coming_back; /* it is being taken back */
    rs_ns answered_at;   /* monotonic */
    struct whose whose;  /* lends from `info` */
    struct rs_buf info;
};

struct whose_job {
    struct pool_job base;
    char id[RS_STORE_ID_BYTES];
    struct whose whose;
    struct rs_buf info;
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

/* How often it was taken over, by who wrote the row the last time. */
static uint32_t claim_of(const struct rs_fleet_capture *row)
{
    Rankscope__CaptureInfo *info = (Rankscope__CaptureInfo *)rs_wire_unpack(
        &rankscope__capture_info__descriptor, row->head.data, row->head.length);
    const uint32_t claim = info ? info->claim : 0;
    if (info)
        rankscope__capture_info__free_unpacked(info, NULL);
    return claim;
}

/* Whether the first has it rather than the second. */
static bool comes_before(const struct rs_fleet_list *list, const struct rs_fleet_capture *row,
                         uint32_t claim, const struct rs_fleet_capture *best, uint32_t best_claim)
{
    if (!best || claim != best_claim)
        return !best || claim > best_claim;
    return claim ? strcmp(row->aggregator, best->aggregator) < 0
                 : may_be_back(list, row->aggregator) && !may_be_back(list, best->aggregator);
}

static const struct rs_fleet_capture *owner_of(const struct rs_fleet_captures *found,
                                               const struct rs_fleet_list *list, uint32_t *claim_p)
{
    const struct rs_fleet_capture *best = NULL;
    for (size_t i = 0; i < found->count; i++) {
        const struct rs_fleet_capture *row = &found->items[i];
        const uint32_t claim = row->is_removed ? 0 : claim_of(row);
        if (row->is_removed || !comes_before(list, row, claim, best, *claim_p))
            continue;
        best = row;
        *claim_p = claim;
    }
    return best;
}

static void decide(struct whose_job *job, const struct rs_fleet_captures *found,
                   const struct rs_fleet_list *list)
{
    struct rs_server *server = job->base.server;
    struct whose *whose = &job->whose;
    const struct rs_fleet_capture *owned = owner_of(found, list, &whose->claim);
    const char *namer =
        found->count ? NULL : named_after(list, job->id, rs_lease_id(server->options.lease));
    if (owned) {
        /* One that is whole is in the database: nobody has to take it over. */
        const bool is_whole = owned->closed_ns && owned->rows == RS_FLEET_ROWS_WHOLE;
        whose->kind =
            may_be_back(list, owned->aggregator) || is_whole ? WHOSE_ANOTHERS : WHOSE_LOST;
        whose->is_closed = owned->closed_ns != 0;
        (void)snprintf(whose->owner, sizeof whose->owner, "%.63s", owned->owner);
        rs_buf_bytes(&job->info, owned->info.data, owned->info.length);
        elsewhere_who(server, owned->aggregator, &whose->member);
    } else if (namer) {
        whose->kind = WHOSE_ANOTHERS;
        elsewhere_who(server, namer, &whose->member);
    } else {
        whose->kind = found->count ? WHOSE_REMOVED : WHOSE_NOBODYS;
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
        entry->info = job->info;
        entry->whose.info = rs_view_of(entry->info.data, entry->info.length);
        job->info = (struct rs_buf){0};
        collector_look_again(server, job->id);
    }
    rs_buf_fini(&job->info);
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

static void free_entry(struct whose_entry *entry)
{
    rs_buf_fini(&entry->info);
    rs_mem_free(entry);
}

/* Answers that nobody believes any more, so that the list stays short. True: there is room. */
static bool forget_old(struct rs_server *server, rs_ns now)
{
    size_t count = 0;
    for (struct whose_entry **at = &server->whose; *at;) {
        struct whose_entry *entry = *at;
        if (entry->is_asked || entry->is_coming_back || now - entry->answered_at < believed_ns) {
            count++;
            at = &entry->next;
            continue;
        }
        *at = entry->next;
        free_entry(entry);
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
        free_entry(server->whose);
        server->whose = next;
    }
}

/* ---- taken over from us ----------------------------------------------------------------------------------------------------- */

/* Whether a row of another one comes before what is here. */
static bool is_ours(const struct rs_fleet_captures *found, uint32_t claim, const char *own,
                    const struct rs_fleet_capture **other_p)
{
    const struct rs_fleet_list nobody = {.count =
                                             0}; /* who lives is of no matter: it was taken over */
    uint32_t other_claim = 0;
    *other_p = owner_of(found, &nobody, &other_claim);
    return !*other_p || other_claim < claim || !other_claim ||
           (other_claim == claim && strcmp(own, (*other_p)->aggregator) < 0);
}

/* So that it is known after a restart, and the others hear that this one does not have it. */
static void write_down(struct rs_server *server, const char *id, const char *dir, const char *to)
{
    struct rs_err err = {.text = "no memory"};
    char *path = rs_file_join(dir, RS_CAPTURE_GIVEN_UP_NAME);
    if (!path || rs_file_replace(path, to, strlen(to), true, &err) < 0)
        rs_log_error("that capture %s was taken over cannot be written down: %s", id, err.text);
    rs_mem_free(path);
    feed_changed(server->feed, id);
}

enum rs_status whose_check(struct rs_server *server, const char *id, const char *dir,
                           struct elsewhere_member *member_p)
{
    const struct rs_server_options *options = &server->options;
    const struct rs_fleet_capture *other = NULL;
    struct rs_fleet_captures found = {.count = 0};
    struct rs_err err = {0};
    bool is_taken = false;
    if (!whose_is_shared(server))
        return RS_OK;
    struct rs_coord_capture *capture = rs_mem_calloc(1, sizeof *capture);
    if (!capture || server->journal.find(server->journal.self, id, 0, capture, &err) < 0) {
        rs_mem_free(capture);
        return RS_OK; /* removed, or without a disk: whoever writes rows says that */
    }
    if (*capture->given_up_to) {
        is_taken = true;
        elsewhere_who(server, capture->given_up_to, member_p);
    } else if (rs_fleet_find_all(options->rows, id, rs_lease_id(options->lease), &found, &err) ==
                   RS_OK &&
               !is_ours(&found, capture->claim, rs_lease_id(options->lease), &other)) {
        is_taken = true;
        elsewhere_who(server, other->aggregator, member_p);
        write_down(server, id, dir, member_p->id);
    }
    rs_coord_capture_fini(capture);
    rs_mem_free(capture);
    rs_fleet_captures_fini(&found);
    return is_taken ? RS_EXISTS : RS_OK;
}

bool whose_is_given_up(const struct rs_server *server, const char *id)
{
    const struct rs_coord_capture *open = NULL;
    if (!whose_is_shared(server) || !*id)
        return false;
    open = rs_coord_find(server->coord, id);
    return open ? *open->given_up_to != '\0'
                : server->journal.is_given_up &&
                      server->journal.is_given_up(server->journal.self, id);
}

void whose_give_up(struct rs_server *server, const char *id, const struct elsewhere_member *member)
{
    rs_log_warn("capture %s was taken over by %s while this one was away", id, member->text);
    rs_coord_give_up(server->coord, id, member->id, member->text, rs_time_monotonic());
    collector_give_up(server, id);
    server_tick_soon(server);
}

/* ---- taken back -------------------------------------------------------------------------------------------------------------- */

struct back_job {
    struct pool_job base;
    char id[RS_STORE_ID_BYTES];
    char from[RS_COORD_TAKEN_BYTES];
    uint32_t claim;
    enum rs_status status;
    struct rs_err err;
};

/* On rs-store. */
static void run_back(struct rs_pool_job *pool_job)
{
    struct back_job *job = (struct back_job *)pool_job; /* its first member's first */
    struct rs_server_journal *journal = &job->base.server->journal;
    job->status = journal->take_back(journal->self, job->id, job->claim, job->from, &job->err);
    if (job->status == RS_OK)
        feed_changed(job->base.server->feed, job->id);
}

static void came_back(struct pool_job *base)
{
    struct back_job *job = (struct back_job *)base; /* its first member */
    struct whose_entry *entry = *find(base->server, job->id);
    if (entry)
        entry->is_coming_back = false;
    if (job->status < 0)
        rs_log_error("capture %s cannot be taken back: %s", job->id, job->err.text);
    else
        rs_log_warn("capture %s is taken back from %s", job->id, job->from);
    collector_look_again(base->server, job->id);
    rs_mem_free(job);
}

bool whose_take_back(struct rs_server *server, const char *id, const struct whose *whose)
{
    if (whose->kind != WHOSE_LOST || !server->journal.take_back ||
        rs_coord_find(server->coord, id) || !whose_is_given_up(server, id))
        return false;
    struct whose_entry *entry = *find(server, id);
    if (entry && entry->is_coming_back)
        return true; /* for another stream of it */
    struct back_job *job = rs_mem_calloc(1, sizeof *job);
    if (!job)
        return false;
    if (entry)
        entry->is_coming_back = true;
    (void)snprintf(job->id, sizeof job->id, "%s", id);
    (void)snprintf(job->from, sizeof job->from, "%.300s", whose->member.text);
    job->claim = whose->claim + 1;
    job->base.server = server;
    job->base.finish = came_back;
    job->base.base.run = run_back;
    rs_pool_put_wait(server->store_pool, &job->base.base);
    return true;
}
