/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures go when they are old, or when all of them take too much room: the oldest closed ones first, never one that goes on. With an
 * archive, those that are old enough go there, and what was fetched of one goes again when nobody needed it for a day. Probes of a
 * watch (step_probe.h) go by whoever made them; one that is still there ten minutes later, or when this process starts, was left behind, and
 * goes, too.
 *
 *     tick --when due--> job on rs-join: who is too old, or too much? --list--> server's thread: is it open? --job each--> removed
 *
 * Looked at once a minute (where there is no such bound, every ten), soon after a capture was closed, and when the next one will be too old. Room is what the folders take on disk.
 */
#include "aggregator/server/server_priv.h"
#include "aggregator/server/step_probe.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#define RS_LOG_TAG "server"
#include "common/base/log.h"

#include <stdio.h>
#include <string.h>

static const rs_dur look_every_ns = 60 * (rs_dur)RS_NS_PER_S;
static const rs_dur look_for_probes_ns = 600 * (rs_dur)RS_NS_PER_S;
static const rs_dur pause_ns = 3 * (rs_dur)RS_NS_PER_S; /* however many captures are closed */

/* A capture, as the catalogue has it. */
struct kept {
    char id[RS_STORE_ID_BYTES];
    rs_ns closed_ns;
    rs_ns here_since; /* with an archive: closed, or restored */
    uint64_t bytes;
    char account[RS_COORD_ACCOUNT_BYTES];
    bool is_open; /* it takes room, and stays */
    bool is_probe;
    const char *why;        /* it goes; NULL: it stays */
    bool is_away, is_stale; /* archived; with something here that was fetched */
    bool is_to_archive;
};

struct look_job {
    struct pool_job base;
    struct kept *items; /* oldest first */
    size_t count, capacity;
    rs_dur next_ns; /* until the next one is too old */
    bool is_first;  /* look of this process */
    enum rs_status status;
    struct rs_err err;
};

struct remove_job {
    struct pool_job base;
    struct kept capture;
    enum rs_status status;
    struct rs_err err;
};

static bool has_bounds(const struct rs_server *server)
{
    const struct rs_server_options *options = &server->options;
    return options->keep_ns || options->keep_bytes || options->keep_bytes_each || options->archive;
}

/* Only takes down: whoever asks for a capture waits while the catalogue is read. */
static bool add_one(void *self, const struct rs_capture_facts *facts)
{
    struct look_job *job = self;
    job->status =
        rs_mem_grow((void **)&job->items, &job->capacity, job->count + 1, sizeof *job->items);
    if (job->status < 0)
        return false;
    struct kept *item = &job->items[job->count++];
    *item = (struct kept){.closed_ns = facts->closed_ns,
                          .is_open = !facts->is_closed,
                          .is_probe = step_probe_is_row(facts)};
    (void)snprintf(item->id, sizeof item->id, "%s", facts->id);
    return true;
}

static void measure(const struct rs_server *server, struct kept *item, rs_ns now)
{
    const struct rs_server_options *options = &server->options;
    char *dir = rs_store_capture_dir(options->store, item->id);
    if (dir && (options->keep_bytes || options->keep_bytes_each))
        item->bytes = rs_file_tree_bytes(dir);
    if (options->keep_bytes_each && server->journal.account)
        server->journal.account(server->journal.self, item->id, item->account);
    if (dir && options->archive && !item->is_open) {
        item->is_away = archiving_is_away(dir);
        item->is_stale = archiving_is_stale(dir, now);
        item->here_since = archiving_here_since(dir, item->closed_ns);
    }
    rs_mem_free(dir);
}

static bool is_due(const struct rs_server_options *options, const struct kept *item, rs_ns now)
{
    return options->archive && options->archive_ns && !item->is_away && item->closed_ns &&
           now - item->here_since > options->archive_ns;
}

static void judge(struct look_job *job)
{
    const struct rs_server_options *options = &job->base.server->options;
    const rs_ns now = rs_time_realtime();
    uint64_t all = 0;
    /* Of an earlier life of the process nobody waits for any. */
    const rs_dur probe_keep_ns = job->is_first ? 0 : look_for_probes_ns;
    job->next_ns = has_bounds(job->base.server) ? look_every_ns : look_for_probes_ns;
    for (size_t i = 0; i < job->count; i++) {
        struct kept *item = &job->items[i];
        const rs_dur left = options->keep_ns - (now - item->closed_ns);
        if (item->is_open) {
            all += item->bytes;
            continue;
        }
        if (options->keep_ns && item->closed_ns && left < 0) {
            item->why = "it is older than --keep-for";
            continue;
        }
        if (item->is_probe && now - item->closed_ns > probe_keep_ns) {
            item->why = "it is a probe that nobody waits for any more";
            continue;
        }
        all += item->bytes;
        item->is_to_archive = is_due(options, item, now);
        if (options->keep_ns && left < job->next_ns)
            job->next_ns = left > pause_ns ? left : pause_ns;
    }
    for (size_t i = 0; options->keep_bytes && all > options->keep_bytes && i < job->count; i++) {
        struct kept *item = &job->items[i];
        if (item->why || item->is_open || item->is_away) /* next to nothing of it is here */
            continue;
        item->why = "all captures take more than --keep-bytes";
        all -= item->bytes;
    }
}

/* On a thread of the pool. */
static void run_look(struct rs_pool_job *pool_job)
{
    struct look_job *job = (struct look_job *)pool_job; /* its first member's first */
    const enum rs_status status =
        rs_store_list_captures(job->base.server->options.store, add_one, job, &job->err);
    if (job->status == RS_OK)
        job->status = status;
    for (size_t i = 0; i < job->count; i++)
        measure(job->base.server, &job->items[i], rs_time_realtime());
    if (job->status == RS_OK)
        judge(job);
}

static void run_remove(struct rs_pool_job *pool_job)
{
    struct remove_job *job = (struct remove_job *)pool_job;
    struct rs_server_journal *journal = &job->base.server->journal;
    /* Rows first: they can be made again where it cannot go on from there, what is archived cannot. */
    job->status = rows_remove(job->base.server, job->capture.id, &job->err);
    if (job->status == RS_OK)
        job->status = archiving_remove(job->base.server, job->capture.id, &job->err);
    if (job->status == RS_OK)
        job->status = journal->remove(journal->self, job->capture.id, &job->err);
    if (job->status == RS_OK)
        feed_changed(job->base.server->feed, job->capture.id);
}

static void removed(struct pool_job *base)
{
    struct remove_job *job = (struct remove_job *)base;
    const struct rs_identity self = {.party = RS_PARTY_AGGREGATOR, .name = "retention"};
    const struct rs_audit_line line = {
        .who = &self, .from = "", .what = "capture.remove", .subject = job->capture.id};
    if (job->status == RS_OK && !base->base.was_dropped) {
        rs_log_info("capture %s is removed: %s", job->capture.id, job->capture.why);
        rs_count(RS_COUNT_RETENTION_REMOVED, 1);
        rs_audit_put(base->server->audit, &line);
    } else if (job->status < 0 && job->status != RS_NOTFOUND) {
        rs_log_warn("capture %s cannot be removed: %s", job->capture.id, job->err.text);
    }
    rs_mem_free(job);
}

static bool put(struct rs_server *server, struct pool_job *job)
{
    job->server = server;
    return server->join_pool && rs_pool_put(server->join_pool, &job->base) == RS_OK;
}

/* What goes now is not counted any more. */
static void count_shares(struct rs_server *server, const struct look_job *job)
{
    for (size_t i = 0; i < job->count; i++)
        if (!job->items[i].why)
            store_share_count(store_share_of(&server->shares, job->items[i].account),
                              job->items[i].bytes);
    store_shares_end_look(&server->shares);
}

static void looked(struct pool_job *base)
{
    struct look_job *job = (struct look_job *)base;
    struct rs_server *server = base->server;
    if (job->status < 0)
        rs_log_warn("captures cannot be looked at for what may go: %s",
                    *job->err.text ? job->err.text : rs_status_text(job->status));
    for (size_t i = 0; job->status == RS_OK && !base->base.was_dropped && i < job->count; i++) {
        const struct kept *item = &job->items[i];
        if (rs_coord_find(server->coord, item->id))
            continue; /* one that is fetched goes on */
        if (!item->why && item->is_stale)
            archiving_forget_cache(server, item->id);
        if (!item->why && item->is_to_archive)
            archiving_begin(server, item->id, "it is older than --archive-after");
        if (!item->why)
            continue;
        struct remove_job *remove = rs_mem_calloc(1, sizeof *remove);
        if (!remove)
            break;
        remove->base.base.run = run_remove;
        remove->base.finish = removed;
        remove->capture = job->items[i];
        if (server->options.rows) /* no rows come into the place behind its removal */
            (void)snprintf(remove->base.base.key, sizeof remove->base.base.key, "%s", item->id);
        if (!put(server, &remove->base)) {
            rs_mem_free(remove); /* the next look finds it again */
            break;
        }
    }
    if (job->status == RS_OK && !base->base.was_dropped)
        count_shares(server, job);
    server->is_looking_back = false;
    if (job->status == RS_OK && server->retention_at > server->retention_looked_at + job->next_ns)
        server->retention_at = server->retention_looked_at + job->next_ns;
    rs_mem_free(job->items);
    rs_mem_free(job);
}

void retention_soon(struct rs_server *server)
{
    if (has_bounds(server) && server->retention_at > server->retention_looked_at + pause_ns)
        server->retention_at = server->retention_looked_at + pause_ns;
}

rs_ns retention_tick(struct rs_server *server, rs_ns now)
{
    if (!server->join_pool || !server->journal.remove || server->is_draining)
        return RS_NS_MAX;
    if (now >= server->retention_at && !server->is_looking_back) {
        struct look_job *job = rs_mem_calloc(1, sizeof *job);
        const bool is_first = !server->retention_looked_at;
        server->retention_at = now + (has_bounds(server) ? look_every_ns : look_for_probes_ns);
        server->retention_looked_at = now;
        if (job) {
            job->is_first = is_first;
            job->base.base.run = run_look;
            job->base.finish = looked;
            store_shares_begin_look(&server->shares);
            server->is_looking_back = put(server, &job->base);
            if (!server->is_looking_back)
                rs_mem_free(job);
        }
    }
    return server->retention_at;
}
