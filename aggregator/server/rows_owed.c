/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of closed captures, made in the place of rows that is not the captures' folders (aggregator/store/row_place.h).
 *
 *     closed, or found owed at start --> OWED --place answers, join pool is free--> JOINING --> whole: forgotten here
 *                                        ^  ^                                        |  |
 *                                        |  +---- the place is away -----------------+  |   asked again when the place says
 *                                        +------- it did not take these, or half -------+   behind the others, after a pause that grows
 *
 * One at a time, in the order in which they were closed: who asks for a table of one that waits has it made at once (rows_make()). What
 * cannot be joined is not tried again before the next start; its folder says that it is owed.
 */
#include "aggregator/deliver/deliver.h"
#include "aggregator/server/server_priv.h"
#include "aggregator/store/row_place.h"
#include "common/base/mem.h"

#define RS_LOG_TAG "rows"
#include "common/base/log.h"

#include <stdio.h>
#include <string.h>

static const rs_dur queue_pause_ns = RS_NS_PER_S;
/* For one that the database does not take, though it answers: a whole join each time. */
static const rs_dur first_pause_ns = 10 * (rs_dur)RS_NS_PER_S;
static const rs_dur longest_pause_ns = 600 * (rs_dur)RS_NS_PER_S;

struct owed {
    struct owed *next;
    char id[RS_STORE_ID_BYTES];
    bool is_joining, is_wanted_again; /* closed anew meanwhile */
    rs_ns due_at;                     /* monotonic */
    rs_dur pause_ns;
};

struct owed_job {
    struct pool_job base;
    char id[RS_STORE_ID_BYTES];
    char *dir;
    enum rs_status status;
    struct rs_err err;
};

/* ---- making ----------------------------------------------------------------------------------------------------------------- */

struct noting {
    struct rs_row_notes notes;
    bool has_failed;
};

static void note(void *self, const char *line)
{
    struct noting *noting = self;
    noting->has_failed = noting->has_failed || !rs_row_notes_add(&noting->notes, line);
}

enum rs_status rows_make(struct rs_server *server, const char *id, const char *dir,
                         struct rs_err *err)
{
    struct rs_row_writing writing;
    struct rs_deliver_options how = {0};
    struct rs_deliver_result result = {0};
    struct noting noting = {.has_failed = false};
    struct elsewhere_member member;
    if (rs_row_place_is_whole(server->options.rows, dir))
        return RS_OK;
    if (whose_check(server, id, dir, &member) == RS_EXISTS)
        return rs_err_set(err, RS_EXISTS, "capture %.63s was taken over by %.400s", id,
                          member.text);
    enum rs_status status = rs_row_place_begin(server->options.rows, id, dir, &writing, err);
    how.rows = writing.rows;
    if (status == RS_OK)
        status = rs_deliver_capture(dir, &how, note, &noting, &result, err);
    if (status == RS_OK && noting.has_failed)
        status = rs_err_set(err, RS_NOMEM, "out of memory");
    noting.notes.is_partial = result.is_partial;
    const bool is_over = !result.is_provisional;
    status = rs_row_place_end(&writing, status, is_over ? &noting.notes : NULL, err);
    if (status == RS_OK)
        feed_changed(server->feed, id);
    if (status == RS_OK && is_over)
        rs_count(RS_COUNT_ROWS_WRITTEN, 1);
    rs_row_notes_fini(&noting.notes);
    rs_deliver_result_fini(&result);
    return status;
}

enum rs_status rows_remove(struct rs_server *server, const char *id, struct rs_err *err)
{
    char *dir = rs_store_capture_dir(server->options.store, id);
    const enum rs_status status = dir ? rs_row_place_remove(server->options.rows, id, dir, err)
                                      : rs_err_set(err, RS_NOMEM, "out of memory");
    rs_mem_free(dir);
    return status;
}

void rows_say(const struct rs_server *server, const char *dir, char *text, size_t size)
{
    *text = '\0';
    if (server->options.rows)
        rs_row_place_say(server->options.rows, dir, text, size);
}

/* ---- what is owed ------------------------------------------------------------------------------------------------------------- */

static struct owed **find_owed(struct rs_server *server, const char *id)
{
    struct owed **at = &server->owed;
    while (*at && strcmp((*at)->id, id) != 0)
        at = &(*at)->next;
    return at;
}

void rows_owed_add(struct rs_server *server, const char *id)
{
    struct owed **at = find_owed(server, id);
    if (*at) {
        (*at)->is_wanted_again = true;
        return;
    }
    *at = rs_mem_calloc(1, sizeof **at); /* behind the others */
    if (!*at) {
        rs_log_error("no memory to keep in mind that rows of capture %s are owed: the next start "
                     "finds it",
                     id);
        return;
    }
    (void)snprintf((*at)->id, sizeof(*at)->id, "%s", id);
    server_tick_soon(server);
}

size_t rows_owed_count(const struct rs_server *server)
{
    size_t count = 0;
    for (const struct owed *owed = server->owed; owed; owed = owed->next)
        count++;
    return count;
}

void rows_owed_fini(struct rs_server *server)
{
    while (server->owed) {
        struct owed *owed = server->owed;
        server->owed = owed->next;
        rs_mem_free(owed);
    }
}

/* On rs-join. */
static void run_owed(struct rs_pool_job *pool_job)
{
    struct owed_job *job = (struct owed_job *)pool_job; /* its first member's first */
    if (archiving_is_away(job->dir))
        job->status = rs_err_set(&job->err, RS_INVALID,
                                 "it was archived before; who asks for its tables has it fetched");
    else
        job->status = rows_make(job->base.server, job->id, job->dir, &job->err);
}

static void free_job(struct owed_job *job)
{
    rs_mem_free(job->dir);
    rs_mem_free(job);
}

/* What may pass: the database's doing, or this machine's. Anything else is the capture's own, and stays. */
static bool may_pass(enum rs_status status)
{
    return status == RS_UNREACHABLE || status == RS_REFUSED || status == RS_IO ||
           status == RS_NOMEM || status == RS_LIMIT || status == RS_AGAIN;
}

/* Behind the others, which it is not to hold up. */
static void put_off(struct owed **at, rs_ns due_at)
{
    struct owed *owed = *at;
    owed->due_at = due_at;
    *at = owed->next;
    owed->next = NULL;
    while (*at)
        at = &(*at)->next;
    *at = owed;
}

/* On the server's thread. */
static void made(struct pool_job *base)
{
    struct owed_job *job = (struct owed_job *)base; /* its first member */
    struct rs_server *server = base->server;
    struct owed **at = find_owed(server, job->id);
    struct owed *owed = *at;
    const rs_ns now = rs_time_monotonic();
    const bool is_of_all = job->status == RS_UNREACHABLE || job->status == RS_REFUSED;
    if (!base->base.was_dropped && job->status < 0 && !is_of_all && job->status != RS_NOTFOUND &&
        job->status != RS_EXISTS)
        rs_log_warn("rows of capture %s cannot be made in %s: %s", job->id,
                    rs_row_place_url(server->options.rows), job->err.text);
    if (owed && !base->base.was_dropped && !owed->is_wanted_again && !may_pass(job->status)) {
        *at = owed->next;
        rs_mem_free(owed);
    } else if (owed) {
        const bool has_failed = job->status < 0 && !base->base.was_dropped;
        owed->is_joining = owed->is_wanted_again = false;
        if (has_failed && !is_of_all) {
            owed->pause_ns = owed->pause_ns ? 2 * owed->pause_ns : first_pause_ns;
            owed->pause_ns = owed->pause_ns < longest_pause_ns ? owed->pause_ns : longest_pause_ns;
            put_off(at, now + owed->pause_ns);
        } else {
            owed->due_at = now + queue_pause_ns;
        }
    }
    if (job->status == RS_OK && rs_row_place_is_whole(server->options.rows, job->dir))
        collector_settled(server, job->id);
    server_tick_soon(server);
    free_job(job);
}

static bool begin(struct rs_server *server, struct owed *owed)
{
    struct owed_job *job = rs_mem_calloc(1, sizeof *job);
    if (!job)
        return false;
    (void)snprintf(job->id, sizeof job->id, "%s", owed->id);
    (void)snprintf(job->base.base.key, sizeof job->base.base.key, "%s", owed->id);
    job->dir = rs_store_capture_dir(server->options.store, owed->id);
    job->base.server = server;
    job->base.finish = made;
    job->base.base.run = run_owed;
    owed->is_joining = job->dir && rs_pool_put(server->join_pool, &job->base.base) == RS_OK;
    if (!owed->is_joining)
        free_job(job);
    return owed->is_joining;
}

rs_ns rows_owed_tick(struct rs_server *server, rs_ns now)
{
    struct owed *due = NULL;
    rs_ns next_at = RS_NS_MAX;
    if (!server->owed || !server->join_pool || server->is_draining)
        return RS_NS_MAX;
    for (struct owed *owed = server->owed; owed; owed = owed->next) {
        if (owed->is_joining)
            return RS_NS_MAX;
        if (!due && now >= owed->due_at)
            due = owed;
        if (owed->due_at < next_at)
            next_at = owed->due_at;
    }
    /* Away: one asks when it is time; none is joined until then. */
    const rs_ns retry_at = rs_row_place_retry_at(server->options.rows, NULL, 0);
    if (retry_at > now)
        return retry_at;
    if (!due)
        return next_at;
    if (!begin(server, due))
        due->due_at = now + queue_pause_ns;
    return due->is_joining ? RS_NS_MAX : due->due_at;
}
