/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures are joined while they go on: what their ranks have sent so far becomes rows, findings too.
 *
 *     a part of a summary is durable --> DIRTY --time, a free thread--> JOINING --done--> CLEAN
 *                                          ^                              |   what came meanwhile
 *                                          +------------------------------+
 *     the capture is to be closed: joined once more unless it is CLEAN and every rank's summary was there; then closed
 *
 *     DIRTY     rows are older than what is stored; joined after a pause of a second or five times what the last join worked (CPU
 *               time: on a busy machine a join that waited a minute for a core would be followed by five without any), so that a
 *               job of any length costs a sixth of one thread at most. While ranks begin to send, or are at their end, one and all, it
 *               waits for the others, ten seconds at most: of thousands of ranks the first that are there would be joined for
 *               nothing, and who waits for the findings would wait for that, too
 *     JOINING   a job of rs-join reads summaries/ and writes captures/ID/rows.db, a unit at a time, or into a ClickHouse
 *               (row_place.h); jobs of one capture (documents, tables, this) run one at a time. One that is away holds nothing up: what
 *               was found is kept here, rows stay DIRTY until it answers, and those of a capture that is closed meanwhile are owed
 *               (rows_owed.c)
 *     CLEAN     rows say what summaries/ says
 *
 * Rows are derived: what a crash left half written is joined again when the process is back (every open capture begins
 * DIRTY), and a unit is replaced whole. A join reads every step of the capture that is there.
 */
#include "aggregator/server/live_join.h"

#include "aggregator/server/live.h"
#include "aggregator/server/server_priv.h"
#include "aggregator/store/row_place.h"
#include "common/base/mem.h"

#define RS_LOG_TAG "join"
#include "common/base/log.h"

#include <malloc.h>
#include <stdio.h>
#include <string.h>

static const rs_dur pause_least_ns = RS_NS_PER_S;
static const rs_dur refused_pause_ns =
    30 * (rs_dur)RS_NS_PER_S; /* rows that the database did not take */
static const rs_dur others_wait_ns = 10 * (rs_dur)RS_NS_PER_S;
static const rs_dur look_again_ns = RS_NS_PER_S / 4;
static const rs_dur ask_first_ns = 300 * (rs_dur)RS_NS_PER_MS;
enum { PAUSE_SHARE = 5, RETRY_NS = 100 * 1000 * 1000, MANY_RANKS = 256 };

struct join {
    struct join *next;
    char id[RS_COORD_ID_BYTES];
    bool is_dirty, is_joining;
    bool is_last;     /* to be closed: with what has no summary, made of its events */
    bool is_complete; /* the last join had every rank's whole summary, or was the last */
    rs_ns due_at;     /* when DIRTY; monotonic */
    rs_ns dirty_at;   /* since when it is; monotonic */
    rs_ns final_at;   /* when all summaries were seen to be there; monotonic, 0 not yet */
    struct live_join_facts facts;
};

struct join_job {
    struct pool_job base;
    char id[RS_COORD_ID_BYTES];
    char *dir;
    bool is_last;
    struct live *live;
    struct rs_deliver_result result;
    enum rs_status status;
    struct rs_err err;
    bool has_result; /* whether or not its rows were taken */
    bool is_away;    /* who is to take them */
    bool
        is_given_up; /* another aggregator has taken the capture over: nothing is joined here any more */
    struct elsewhere_member member; /* of is_given_up */
    rs_dur worked_ns;               /* CPU time */
};

/* ---- which ---------------------------------------------------------------------------------------------------- */

static struct join *find_join(const struct rs_server *server, const char *id)
{
    struct join *join = server->joins;
    while (join && strcmp(join->id, id) != 0)
        join = join->next;
    return join;
}

void live_join_due(struct rs_server *server, const char *id)
{
    struct join *join = find_join(server, id);
    if (!server->join_pool)
        return; /* nothing is joined by this one */
    if (!join) {
        join = rs_mem_calloc(1, sizeof *join);
        if (!join) {
            rs_log_error("no memory to join capture %s", id);
            return;
        }
        (void)snprintf(join->id, sizeof join->id, "%s", id);
        join->facts.last_step = RS_STEP_NONE;
        join->next = server->joins;
        server->joins = join;
    }
    if (!join->is_dirty) {
        join->dirty_at = rs_time_monotonic();
        server_tick_soon(server);
    }
    join->is_dirty = true;
}

bool live_join_may_close(struct rs_server *server, const char *id)
{
    struct join *join = find_join(server, id);
    if (!join || (!join->is_dirty && !join->is_joining && join->is_complete))
        return true;
    join->is_dirty = join->is_dirty || !join->is_joining;
    join->is_last = true;
    join->due_at = 0;
    server_tick_soon(server);
    return false;
}

void live_join_forget(struct rs_server *server, const char *id)
{
    struct join **at = &server->joins;
    while (*at && strcmp((*at)->id, id) != 0)
        at = &(*at)->next;
    struct join *join = *at;
    if (!join || join->is_joining)
        return; /* its job's end forgets nothing, and is harmless: a capture of that name is closed once */
    *at = join->next;
    rs_mem_free(join);
}

void live_join_fini(struct rs_server *server)
{
    while (server->joins) {
        struct join *join = server->joins;
        server->joins = join->next;
        rs_mem_free(join);
    }
}

const struct live_join_facts *live_join_facts(const struct rs_server *server, const char *id)
{
    const struct join *join = find_join(server, id);
    return join && join->facts.joined_ns ? &join->facts : NULL;
}

/* ---- a join ------------------------------------------------------------------------------------------------------ */

/* What is found does not wait for a database that went in the middle: once more, without it. The first one's status. */
static enum rs_status join_rows(struct join_job *job, struct rs_deliver_options *how,
                                bool has_place, struct rs_err *err)
{
    const enum rs_status status = rs_deliver_capture(job->dir, how, NULL, NULL, &job->result, err);
    job->has_result = status == RS_OK;
    if (has_place && how->rows &&
        (status == RS_UNREACHABLE || status == RS_REFUSED || status == RS_IO)) {
        struct rs_err why = {0};
        how->rows = NULL;
        rs_deliver_result_fini(&job->result);
        job->result = (struct rs_deliver_result){0};
        job->has_result =
            rs_deliver_capture(job->dir, how, NULL, NULL, &job->result, &why) == RS_OK;
    }
    return status;
}

/* On rs-join. */
static void run_join(struct rs_pool_job *pool_job)
{
    struct join_job *job = (struct join_job *)pool_job; /* its first member's first */
    struct rs_deliver_options how = {.summaries_only = !job->is_last,
                                     .live = live_facts_of(job->live)};
    struct rs_row_place *place = job->base.server->options.rows;
    struct rs_row_writing writing;
    const rs_dur begin = rs_time_thread_cpu();
    job->is_given_up = whose_check(job->base.server, job->id, job->dir, &job->member) == RS_EXISTS;
    if (job->is_given_up)
        return;
    enum rs_status begun = rs_row_place_begin(place, job->id, job->dir, &writing, &job->err);
    how.rows = writing.rows;
    job->status = begun;
    if (begun == RS_OK || writing.is_away) {
        struct rs_err why = {0};
        job->status = join_rows(job, &how, place != NULL, &why);
        if (job->status < 0)
            job->err = why;
        else
            job->status = begun;
    }
    job->status = rs_row_place_end(&writing, job->status, NULL, &job->err);
    if (job->status == RS_OK)
        feed_changed(job->base.server->feed, job->id);
    job->is_away = writing.is_away || (place && job->has_result && job->status < 0);
    if (job->status < 0 && job->is_last && !place)
        rs_row_store_remove(job->dir); /* nobody takes half of them for all */
    if (job->result.rank_count >= MANY_RANKS)
        (void)malloc_trim(0); /* it took what it has not until the next */
    job->worked_ns = rs_time_thread_cpu() - begin;
}

static void free_job(struct join_job *job)
{
    rs_deliver_result_fini(&job->result);
    live_free(&job->live);
    rs_mem_free(job->dir);
    rs_mem_free(job);
}

static void keep_facts(struct join *join, const struct join_job *job)
{
    const struct rs_deliver_result *result = &job->result;
    struct live_join_facts *facts = &join->facts;
    const struct rs_deliver_live *live = live_facts_of(job->live);
    facts->is_provisional = !job->is_last && (!live || !live->is_summarised ||
                                              result->recording_count || result->waiting_count);
    facts->rank_count = result->rank_count;
    facts->recording_count = result->recording_count;
    facts->last_step = result->last_step;
    facts->finding_count = result->share_count;
    facts->joined_ns = rs_time_realtime();
    (void)snprintf(facts->headline, sizeof facts->headline, "%s",
                   result->headline.length ? (const char *)result->headline.data : "");
}

/* On the server's thread. */
static void joined(struct pool_job *base)
{
    struct join_job *job = (struct join_job *)base; /* its first member */
    struct rs_server *server = base->server;
    struct join *join = find_join(server, job->id);
    const rs_dur pause = PAUSE_SHARE * job->worked_ns;
    if (join) {
        join->is_joining = false;
        join->due_at = rs_time_monotonic() + (pause > pause_least_ns ? pause : pause_least_ns);
        join->is_complete =
            job->is_last || (job->status == RS_OK && !job->is_given_up &&
                             !job->result.recording_count && !job->result.waiting_count);
    }
    if (join && job->is_away &&
        !job->is_last) { /* the last one is caught up with when it is closed */
        const rs_ns retry_at = rs_row_place_retry_at(server->options.rows, NULL, 0);
        join->is_dirty = true;
        join->due_at = retry_at > join->due_at ? retry_at : join->due_at;
        if (!retry_at) { /* it is there, and did not take these */
            rs_log_warn("rows of capture %s wait: %s", job->id, job->err.text);
            join->due_at += refused_pause_ns;
        }
    }
    if (join && job->has_result) {
        keep_facts(join, job);
        ask_capture_changed(server, job->id, false);
    }
    if (job->is_given_up)
        whose_give_up(server, job->id, &job->member);
    /* No rank is there yet: that is said by whoever asks for the report. */
    if (job->status < 0 && job->status != RS_NOTFOUND && !job->is_away && !base->base.was_dropped)
        rs_log_error("capture %s cannot be joined: %s", job->id, job->err.text);
    server_tick_soon(server);
    free_job(job);
}

static struct join_job *new_job(struct rs_server *server, const struct join *join)
{
    struct join_job *job = rs_mem_calloc(1, sizeof *job);
    if (!job)
        return NULL;
    (void)snprintf(job->id, sizeof job->id, "%s", join->id);
    (void)snprintf(job->base.base.key, sizeof job->base.base.key, "%s", join->id);
    job->dir = rs_store_capture_dir(server->options.store, join->id);
    job->is_last = join->is_last;
    job->base.server = server;
    job->base.finish = joined;
    job->base.base.run = run_join;
    if (job->dir && live_of(server, join->id, &job->live) == RS_OK)
        return job;
    free_job(job);
    return NULL;
}

/* Some ranks have sent something, or all that they will, and others have not. */
static bool are_others_coming(const struct rs_coord_capture *capture)
{
    size_t open = 0, begun = 0, ended = 0;
    for (size_t i = 0; i < capture->rank_count; i++) {
        const struct rs_coord_rank *rank = &capture->ranks[i];
        if (rs_progress_is_final(rank->state))
            continue;
        open++;
        begun += rank->chunks > 0;
        ended += rank->is_summarised;
    }
    return begun < open || (ended > 0 && ended < open);
}

/* When it may be joined. Who waits for the findings asks for them as soon as all summaries are there: that comes first. */
static rs_ns may_join_at(const struct rs_server *server, struct join *join, rs_ns now)
{
    const struct rs_coord_capture *capture = rs_coord_find(server->coord, join->id);
    if (join->is_last || now < join->due_at || !capture)
        return join->due_at;
    if (capture->state == RS_CAPTURE_SUMMARISED) {
        if (!join->final_at)
            join->final_at = now;
        return join->final_at + ask_first_ns;
    }
    return capture->state == RS_CAPTURE_RECORDING && now < join->dirty_at + others_wait_ns &&
                   are_others_coming(capture)
               ? now + look_again_ns
               : join->due_at;
}

rs_ns live_join_tick(struct rs_server *server, rs_ns now)
{
    rs_ns next = RS_NS_MAX;
    for (struct join *join = server->joins; join; join = join->next) {
        if (!join->is_dirty || join->is_joining)
            continue;
        const rs_ns at = may_join_at(server, join, now);
        if (now < at) {
            next = at < next ? at : next;
            continue;
        }
        struct join_job *job = new_job(server, join);
        if (job && rs_pool_put(server->join_pool, &job->base.base) == RS_OK) {
            join->is_dirty = false;
            join->is_joining = true;
            continue;
        }
        if (job)
            free_job(job);
        join->due_at = now + RETRY_NS; /* no memory, or others wait: it stays due */
        next = join->due_at < next ? join->due_at : next;
    }
    return next;
}
