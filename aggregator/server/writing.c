/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the coordinator has written down, on a thread of its own (rs-store): the thread of the links never waits for the disk.
 *
 *     create --name (here)--> id --job--> rs-store: folder, rows --> unsynced --job--> rs-store: all of these durable
 *                                                                        |               +-> created: the capture's messages go out,
 *                                                                        |                            streams that wait for it are opened
 *                                                                        +---------------+-> failed: it is forgotten, who waits is refused
 *     save   --copy----job--> rs-store: rows                    (an error is logged, as it cannot be answered)
 *     close  ----------job--> rs-store: all before it is done --> CLOSE at ingest
 *
 * One sync is under way at most, behind all that was put before it: thousands of captures that come at once wait for a slow disk together, not one
 * after the other.
 *
 * Jobs are done in the order in which they were put, so a row never goes back to what it was. While a capture is being
 * created it is in the server's list `creating`; what is to be sent for it waits there, in order. A capture has one
 * save under way at most, so the queue holds no more than a few jobs for each that is open. Were it full all the same, whoever puts
 * the next job would wait.
 */
#include "aggregator/server/server_priv.h"
#include "common/base/mem.h"

#define RS_LOG_TAG "server"
#include "common/base/log.h"

#include <stdio.h>
#include <string.h>

enum { STORE_QUEUE_MAX = 65536, NAME_DRAWS_MAX = 16 };

/* A message that waits for its capture. */
struct held {
    struct held *next;
    const void *link; /* of the session it is for, which may be gone by then */
    struct rs_buf buf;
};

struct creating {
    struct creating *next;
    char id[RS_COORD_ID_BYTES];
    struct held *held, **held_last_p;
};

enum writing_kind { WRITING_CREATE, WRITING_SAVE, WRITING_CLOSE, WRITING_SYNC };

struct writing {
    struct pool_job base;
    struct writing *next_unsynced; /* the server's list */
    enum writing_kind kind;
    struct rs_coord_capture
        capture; /* a copy of what the journal reads: ranks that changed, the request */
    enum rs_status status;
    struct rs_err err;
};

/* ---- jobs ---------------------------------------------------------------------------------------------------- */

static void free_writing(struct writing *job)
{
    rs_coord_capture_fini(&job->capture);
    rs_mem_free(job);
}

/* On rs-store. */
static void write_down(struct rs_pool_job *pool_job)
{
    struct writing *job = (struct writing *)pool_job; /* its first member's first */
    struct rs_server_journal *journal = &job->base.server->journal;
    job->status = RS_OK;
    if (job->kind == WRITING_CREATE)
        job->status = journal->create(journal->self, &job->capture, &job->err);
    else if (job->kind == WRITING_SAVE)
        job->status = journal->save(journal->self, &job->capture, &job->err);
    else if (job->kind == WRITING_SYNC)
        job->status = journal->sync(journal->self, &job->err);
    if (job->status == RS_OK && (job->kind == WRITING_CREATE || job->kind == WRITING_SAVE))
        feed_changed(job->base.server->feed, job->capture.id);
}

static enum rs_status copy_changed_ranks(const struct rs_coord_capture *capture,
                                         struct rs_coord_capture *copy)
{
    size_t count = 0;
    for (size_t i = 0; i < capture->rank_count; i++)
        count += capture->ranks[i].is_changed;
    copy->ranks = rs_mem_calloc(count + 1, sizeof *copy->ranks);
    if (!copy->ranks)
        return RS_NOMEM;
    for (size_t i = 0; i < capture->rank_count; i++)
        if (capture->ranks[i].is_changed)
            copy->ranks[copy->rank_count++] = capture->ranks[i];
    copy->rank_capacity = count + 1;
    return RS_OK;
}

/* NULL: no memory. */
static struct writing *new_writing(enum writing_kind kind, const struct rs_coord_capture *capture)
{
    struct writing *job = rs_mem_calloc(1, sizeof *job);
    if (!job)
        return NULL;
    job->kind = kind;
    job->capture = *capture;
    job->capture.ranks = NULL;
    job->capture.rank_count = job->capture.rank_capacity = 0;
    job->capture.order = NULL;
    job->capture.order_capacity = 0;
    job->capture.request = NULL;
    enum rs_status status = RS_OK;
    if (kind == WRITING_SAVE || kind == WRITING_CREATE)
        status = copy_changed_ranks(capture, &job->capture);
    if (status == RS_OK && kind == WRITING_CREATE && capture->request) {
        job->capture.request = rs_mem_calloc(1, sizeof *job->capture.request);
        status = job->capture.request ? rs_request_copy(capture->request, job->capture.request)
                                      : RS_NOMEM;
    }
    if (status == RS_OK)
        return job;
    free_writing(job);
    return NULL;
}

static void put_writing(struct rs_server *server, struct writing *job,
                        void (*finish)(struct pool_job *job))
{
    job->base.server = server;
    job->base.finish = finish;
    job->base.base.run = write_down;
    rs_pool_put_wait(server->store_pool, &job->base.base);
}

/* ---- captures that are being created ----------------------------------------------------------------------------- */

static struct creating **find_creating(struct rs_server *server, const char *id)
{
    struct creating **at = &server->creating;
    while (*at && strcmp((*at)->id, id) != 0)
        at = &(*at)->next;
    return at;
}

bool writing_is_creating(struct rs_server *server, const char *id)
{
    return *find_creating(server, id) != NULL;
}

void writing_post(struct rs_server *server, const char *id, struct session *session,
                  const ProtobufCMessage *message)
{
    struct creating *creating = *find_creating(server, id);
    if (!creating) {
        session_post(session, message);
        return;
    }
    struct held *held = rs_mem_calloc(1, sizeof *held);
    if (held)
        rs_wire_pack(message, &held->buf);
    if (!held || held->buf.failed) {
        if (held)
            rs_buf_fini(&held->buf);
        rs_mem_free(held);
        session_fail(session, RS_NOMEM, "out of memory");
        return;
    }
    held->link = session->link;
    *creating->held_last_p = held;
    creating->held_last_p = &held->next;
}

/* What has changed meanwhile may be written now. */
static void is_free(struct rs_server *server, const char *id)
{
    struct rs_coord_capture *capture = rs_coord_find(server->coord, id);
    if (!capture)
        return;
    capture->is_written = false;
    if (capture->is_changed)
        server_tick_soon(server);
}

/* All of it is to be written again, at a tick of its own time: a disk that fails is not asked at once. Told once, and when it is over. */
static void has_failed(struct rs_server *server, const struct writing *job)
{
    struct rs_coord_capture *capture = rs_coord_find(server->coord, job->capture.id);
    if (!capture || !capture->is_refused)
        rs_log_error("capture %s cannot be written down: %s; trying again every second",
                     job->capture.id, job->err.text);
    if (!capture)
        return;
    capture->is_written = false;
    capture->is_changed = capture->is_unsaved = capture->is_refused = true;
    for (size_t i = 0; i < capture->rank_count; i++)
        capture->ranks[i].is_changed = true;
}

static void has_saved(struct rs_server *server, const struct writing *job)
{
    struct rs_coord_capture *capture = rs_coord_find(server->coord, job->capture.id);
    if (capture && capture->is_refused)
        rs_log_info("capture %s is written down again", job->capture.id);
    if (capture)
        capture->is_refused = false;
    is_free(server, job->capture.id);
}

/* Sends what waits, unless the capture came to nothing. */
static void release_held(struct rs_server *server, struct creating *creating, bool must_send)
{
    while (creating->held) {
        struct held *held = creating->held;
        struct session *session = must_send ? server_find_session(server, held->link) : NULL;
        creating->held = held->next;
        if (session)
            session_post_packed(session, &held->buf);
        rs_buf_fini(&held->buf);
        rs_mem_free(held);
    }
    rs_mem_free(creating);
}

static void end_creating(struct rs_server *server, struct writing *job)
{
    struct creating **at = find_creating(server, job->capture.id);
    struct creating *creating = *at;
    if (creating) { /* a job that ends was begun */
        *at = creating->next;
        release_held(server, creating, job->status == RS_OK);
    }
    is_free(server, job->capture.id);
    if (job->status == RS_OK) {
        rs_log_info("capture %s of run %.60s begins", job->capture.id, job->capture.run);
    } else {
        rs_log_error("capture %s cannot be created: %s", job->capture.id, job->err.text);
        rs_coord_closed(server->coord, job->capture.id); /* forgotten: nobody was asked yet */
    }
    collector_capture_created(server, job->capture.id, job->status, job->err.text);
    ask_capture_created(server, job->capture.id, &job->err);
    server_tick_soon(server);
    free_writing(job);
}

/* All that were unsynced when it was put behind them, and those that came to be until it began. */
static void synced(struct pool_job *base)
{
    struct writing *sync = (struct writing *)base; /* its first member */
    struct rs_server *server = base->server;
    struct writing *job = NULL; /* the first of them: in the order in which they came */
    while (server->unsynced) {
        struct writing *next = server->unsynced;
        server->unsynced = next->next_unsynced;
        next->next_unsynced = job;
        job = next;
    }
    server->is_syncing = false;
    while (job) {
        struct writing *next = job->next_unsynced;
        if (sync->status < 0) {
            job->status = sync->status;
            job->err = sync->err;
        }
        end_creating(server, job);
        job = next;
    }
    free_writing(sync);
}

static void created(struct pool_job *base)
{
    struct writing *job = (struct writing *)base; /* its first member */
    struct rs_server *server = base->server;
    /* Without the pool the server ends, and the store makes all durable when it is closed. */
    if (job->status < 0 || !server->journal.sync || !server->store_pool) {
        end_creating(server, job);
        return;
    }
    struct writing *sync = server->is_syncing ? NULL : rs_mem_calloc(1, sizeof *sync);
    if (!sync && !server->is_syncing) {
        job->status = rs_err_set(&job->err, RS_NOMEM, "no memory for a capture");
        end_creating(server, job);
        return;
    }
    job->next_unsynced = server->unsynced;
    server->unsynced = job;
    if (!sync)
        return;
    sync->kind = WRITING_SYNC;
    server->is_syncing = true;
    put_writing(server, sync, synced);
}

/*
 * A name nobody has. What is drawn is random, and the store knows only of folders: a capture that is open, its folder not
 * made yet, is known to the coordinator alone. So a drawn name that is taken is drawn again; one that was given is refused.
 */
static enum rs_status name_it(struct rs_server *server, struct rs_coord_capture *capture,
                              struct rs_err *err)
{
    const bool is_given = capture->id[0] != '\0';
    for (int draw = 0; draw < NAME_DRAWS_MAX; draw++) {
        if (!is_given)
            capture->id[0] = '\0';
        enum rs_status status = server->journal.name(server->journal.self, capture, err);
        if (status < 0)
            return status;
        if (!rs_coord_find(server->coord, capture->id))
            return RS_OK;
        if (is_given)
            break;
    }
    return rs_err_set(err, RS_EXISTS, "there is a capture %.63s already", capture->id);
}

enum rs_status writing_create(struct rs_server *server, struct rs_coord_capture *capture,
                              struct rs_err *err)
{
    enum rs_status status = name_it(server, capture, err);
    if (status < 0)
        return status;
    struct creating *creating = rs_mem_calloc(1, sizeof *creating);
    struct writing *job = creating ? new_writing(WRITING_CREATE, capture) : NULL;
    if (!job) {
        rs_mem_free(creating);
        return rs_err_set(err, RS_NOMEM, "no memory for a capture");
    }
    (void)snprintf(creating->id, sizeof creating->id, "%s", capture->id);
    creating->held_last_p = &creating->held;
    creating->next = server->creating;
    server->creating = creating;
    put_writing(server, job, created);
    capture->is_written = true;
    return RS_OK;
}

/* ---- rows ----------------------------------------------------------------------------------------------------------- */

static void saved(struct pool_job *base)
{
    struct writing *job = (struct writing *)base;
    if (job->status < 0)
        has_failed(base->server, job);
    else
        has_saved(base->server, job);
    free_writing(job);
}

bool writing_save(struct rs_server *server, const struct rs_coord_capture *capture)
{
    struct writing *job = new_writing(WRITING_SAVE, capture);
    if (job)
        put_writing(server, job, saved);
    else
        rs_log_error("no memory to write capture %s down", capture->id);
    return job != NULL;
}

/* Its rows are written: now its data may be closed. */
static void rows_done(struct pool_job *base)
{
    struct writing *job = (struct writing *)base;
    struct rs_coord_capture *capture = rs_coord_find(base->server->coord, job->capture.id);
    if (capture && capture->is_unsaved) /* how it ended is not written down: it is closed anew */
        capture->is_closing = false;
    else
        server_close_at_ingest(base->server, job->capture.id);
    free_writing(job);
}

bool writing_close(struct rs_server *server, const struct rs_coord_capture *capture)
{
    struct writing *job = new_writing(WRITING_CLOSE, capture);
    if (job)
        put_writing(server, job, rows_done);
    return job != NULL;
}

/* ---- life ----------------------------------------------------------------------------------------------------------- */

enum rs_status writing_start(struct rs_server *server, struct rs_err *err)
{
    const struct rs_pool_options options = {.name = "rs-store",
                                            .thread = RS_THREAD_STORE,
                                            .threads = 1,
                                            .queue_max = STORE_QUEUE_MAX,
                                            .must_drain = true,
                                            .done = server_pool_done,
                                            .self = server};
    return rs_pool_start(&options, &server->store_pool, err);
}

void writing_stop(struct rs_server *server)
{
    rs_pool_stop(&server->store_pool); /* writes all that was put */
}

void writing_fini(struct rs_server *server)
{
    while (server->creating) {
        struct creating *creating = server->creating;
        server->creating = creating->next;
        release_held(server, creating, false);
    }
}
