/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/server/server.h"

#include "aggregator/server/documents.h"
#include "aggregator/server/live_join.h"
#include "aggregator/server/server_priv.h"
#include "aggregator/server/step_probe.h"
#include "aggregator/store/row_place.h"
#include "common/base/check.h"
#include "common/base/lend.h"
#include "common/base/mem.h"
#include "common/base/thread.h"
#include "common/wire/request_message.h"

#define RS_LOG_TAG "server"
#include "common/base/log.h"

#include <string.h>
#include <unistd.h>

enum { JOIN_QUEUE_MAX = 256, READ_QUEUE_MAX = BOUND_SESSIONS, JOIN_NICE = 5 };

static const rs_dur tick_ns = RS_NS_PER_S; /* at least that often */
static const rs_dur sweep_every_ns = 50 * (rs_dur)RS_NS_PER_MS;
static const rs_dur check_every_ns = 2 * (rs_dur)RS_NS_PER_S;

/* ---- jobs ---------------------------------------------------------------------------------------------- */

struct chunk_job *server_job_new(struct session *session, enum rs_ingest_kind kind)
{
    struct chunk_job *job = rs_mem_calloc(1, sizeof *job);
    if (!job)
        return NULL;
    job->base.kind = kind;
    job->base.self = job;
    job->session = session;
    return job;
}

void server_job_put(struct rs_server *server, struct chunk_job *job)
{
    if (job->stream)
        job->stream->job_count++;
    if (job->session)
        job->session->job_count++;
    else
        server->server_job_count++;
    rs_ingest_put(server->ingest, &job->base);
}

/* On ingest's thread. What waits for the disk holds no memory, and that of the next chunk is still in a cache. */
static void on_spent(void *self, struct rs_ingest_job *base)
{
    struct chunk_job *job = base->self;
    (void)self;
    base->part_count = 0;
    rs_frame_free(&job->frame);
}

/* On ingest's thread. */
static void on_done(void *self, struct rs_ingest_job *jobs)
{
    struct rs_server *server = self;
    (void)pthread_mutex_lock(&server->mailbox_lock);
    *server->mailbox_last_p = jobs;
    while (*server->mailbox_last_p)
        server->mailbox_last_p = &(*server->mailbox_last_p)->next;
    (void)pthread_mutex_unlock(&server->mailbox_lock);
    rs_loop_wake(server->loop);
}

enum rs_status server_pool_put(struct session *session, struct rs_pool *pool, struct pool_job *job)
{
    job->server = session->server;
    job->session = session;
    const enum rs_status status = rs_pool_put(pool, &job->base);
    if (status == RS_OK)
        session->job_count++;
    return status;
}

/* On a pool's thread. */
void server_pool_done(void *self, struct rs_pool_job *job)
{
    struct rs_server *server = self;
    (void)pthread_mutex_lock(&server->mailbox_lock);
    *server->pool_mailbox_last_p = job;
    server->pool_mailbox_last_p = &job->next;
    (void)pthread_mutex_unlock(&server->mailbox_lock);
    rs_loop_wake(server->loop);
}

static void read_pool_mailbox(struct rs_server *server)
{
    (void)pthread_mutex_lock(&server->mailbox_lock);
    struct rs_pool_job *job = server->pool_mailbox;
    server->pool_mailbox = NULL;
    server->pool_mailbox_last_p = &server->pool_mailbox;
    (void)pthread_mutex_unlock(&server->mailbox_lock);
    while (job) {
        struct rs_pool_job *next = job->next;
        struct pool_job *own = (struct pool_job *)job; /* its first member */
        struct session *session = own->session;
        if (session)
            session->job_count--;
        own->finish(own);
        if (session)
            (void)session_reap(session);
        job = next;
    }
}

static void tell_closed(const struct rs_server *server, const struct rs_capture_facts *facts)
{
    const struct live_join_facts *found = live_join_facts(server, facts->id);
    if (server->options.on_closed && !step_probe_is_row(facts))
        server->options.on_closed(server->options.closed_self, facts,
                                  found && found->finding_count ? found->headline : NULL);
}

static void close_done(struct rs_server *server, struct chunk_job *job)
{
    server->server_job_count--;
    if (job->base.status < 0)
        rs_log_error("capture %s cannot be closed: %s", job->facts->id, job->base.err.text);
    else if (server->journal.closed)
        server->journal.closed(server->journal.self, job->facts);
    if (job->base.status >= 0)
        tell_closed(server, job->facts);
    rs_coord_closed(server->coord, job->facts->id);
    feed_changed(server->feed, job->facts->id);
    retention_soon(server);
    live_join_forget(server, job->facts->id);
    if (job->base.status >= 0 && !step_probe_is_row(job->facts))
        closed_join(server, job->facts->id);
    ask_capture_changed(server, job->facts->id, true);
    rs_mem_free(job->facts);
}

static void finish_job(struct rs_server *server, struct chunk_job *job)
{
    struct session *session = job->session;
    if (!session) {
        close_done(server, job);
        rs_mem_free(job);
        return;
    }
    session->job_count--;
    if (job->base.kind == RS_INGEST_CHUNK)
        quota_done(&server->quotas, session->quota, job->base.bytes, rs_time_monotonic());
    if (job->stream)
        job->stream->job_count--;
    /* What is durable is counted even when the link is gone. */
    collector_job_done(session, job);
    if (job->frame)
        rs_frame_free(&job->frame);
    rs_mem_free(job);
    session_resume(session);
}

static void read_mailbox(struct rs_server *server)
{
    (void)pthread_mutex_lock(&server->mailbox_lock);
    struct rs_ingest_job *job = server->mailbox;
    server->mailbox = NULL;
    server->mailbox_last_p = &server->mailbox;
    (void)pthread_mutex_unlock(&server->mailbox_lock);
    if (!job)
        return;
    while (job) {
        struct rs_ingest_job *next = job->next;
        finish_job(server, job->self);
        job = next;
    }
    for (struct session *session = server->sessions; session;) {
        struct session *next = session->next;
        collector_post_acks(session);
        (void)session_reap(session);
        session = next;
    }
    server_tick_soon(server);
}

/* ---- what the coordinator asks for ---------------------------------------------------------------------- */

struct session *server_find_session(const struct rs_server *server, const void *link)
{
    for (struct session *session = server->sessions; link && session; session = session->next)
        if (session->link == link)
            return session;
    return NULL;
}

static uint32_t *lend_ranks(const uint32_t *ranks)
{
    union {
        const uint32_t *in;
        uint32_t *out;
    } both = {.in = ranks};
    return both.out;
}

static void fill_options(const struct rs_coord_capture *capture,
                         Rankscope__ProfilerOptions *options)
{
    const struct rs_capture_request *request = capture->request;
    rankscope__profiler_options__init(options);
    options->record_shapes = request && request->record_shapes;
    options->with_stack = request && request->with_stack;
    options->profile_memory = request && request->profile_memory;
    options->force = request && request->force;
    options->roundup = capture->profile.roundup;
    options->timeout_ns = capture->profile.timeout_ns;
}

/* NULL: there is none, or no memory; the message then goes without, as those of the previous version did. */
static Rankscope__CaptureRequest *request_message(const struct rs_coord_capture *capture)
{
    Rankscope__CaptureRequest *message = NULL;
    if (capture->request && rs_request_to_message(capture->request, &message, NULL) < 0)
        rs_log_warn("no memory for the request of capture %s", capture->id);
    return message;
}

static void send_prepare(void *self, const void *link, const struct rs_coord_capture *capture,
                         const struct rs_adapter *adapter, const uint32_t *ranks, size_t rank_count)
{
    struct session *session = server_find_session(self, link);
    if (!session)
        return;
    Rankscope__ProfilerOptions options;
    Rankscope__CaptureRequest *request = request_message(capture);
    fill_options(capture, &options);
    Rankscope__Prepare prepare = RANKSCOPE__PREPARE__INIT;
    prepare.capture = rs_lend(capture->id);
    prepare.run = rs_lend(capture->run);
    prepare.kind = adapter->number;
    prepare.ranks = lend_ranks(ranks);
    prepare.n_ranks = rank_count;
    prepare.steps = capture->steps;
    prepare.duration_ns = capture->duration_ns;
    prepare.options = &options;
    prepare.request = request;
    Rankscope__Down down = RANKSCOPE__DOWN__INIT;
    down.message_case = RANKSCOPE__DOWN__MESSAGE_PREPARE;
    down.prepare = &prepare;
    writing_post(session->server, capture->id, session, &down.base);
    rs_request_message_free(&request);
}

/* An instant on our clock, on that of the collector's host. 0, none, stays. */
static rs_ns on_their_clock(const struct session *session, rs_ns ours)
{
    rs_dur offset = 0, bound = 0;
    rs_ns theirs = 0;
    (void)host_clock_offset(&session->clock, rs_time_monotonic(), &offset, &bound);
    return ours <= 0 || __builtin_add_overflow(ours, offset, &theirs) ? ours : theirs;
}

static void send_commit(void *self, const void *link, const struct rs_coord_capture *capture,
                        const struct rs_adapter *adapter, const uint32_t *ranks, size_t rank_count)
{
    struct session *session = server_find_session(self, link);
    if (!session)
        return;
    Rankscope__ProfilerOptions options;
    Rankscope__CaptureRequest *request = request_message(capture);
    fill_options(capture, &options);
    Rankscope__Commit commit = RANKSCOPE__COMMIT__INIT;
    commit.capture = rs_lend(capture->id);
    commit.run = rs_lend(capture->run);
    commit.kind = adapter->number;
    commit.start_step = rs_coord_start_step(capture, adapter);
    commit.steps =
        adapter->capabilities & RS_CAP_KNOWS_STEP ? capture->counted_steps : capture->steps;
    commit.duration_ns = capture->duration_ns;
    commit.start_time_ns = on_their_clock(session, capture->start_time_ns);
    commit.deliver_from_ns = on_their_clock(session, capture->deliver_from_ns);
    commit.options = &options;
    commit.request = request;
    commit.ranks = lend_ranks(ranks);
    commit.n_ranks = rank_count;
    server_tick_soon(self); /* who is not told is looked for before the start */
    commit.armed = (uint32_t)capture->counts[RS_PROGRESS_ARMED];
    Rankscope__Down down = RANKSCOPE__DOWN__INIT;
    down.message_case = RANKSCOPE__DOWN__MESSAGE_COMMIT;
    down.commit = &commit;
    writing_post(session->server, capture->id, session, &down.base);
    rs_request_message_free(&request);
}

void session_cancel(struct session *session, const struct rs_coord_capture *capture,
                    const char *reason)
{
    Rankscope__Cancel cancel = RANKSCOPE__CANCEL__INIT;
    cancel.capture = rs_lend(capture->id);
    cancel.run = rs_lend(capture->run);
    cancel.reason = rs_lend(reason);
    Rankscope__Down down = RANKSCOPE__DOWN__INIT;
    down.message_case = RANKSCOPE__DOWN__MESSAGE_CANCEL;
    down.cancel = &cancel;
    writing_post(session->server, capture->id, session, &down.base);
}

static void send_cancel(void *self, const void *link, const struct rs_coord_capture *capture,
                        const char *reason)
{
    struct session *session = server_find_session(self, link);
    if (session)
        session_cancel(session, capture, reason);
}

static void send_cancel_elsewhere(void *self, const struct rs_coord_capture *capture,
                                  const char *reason)
{
    collector_cancel_elsewhere(self, capture, reason);
}

static enum rs_status create_capture(void *self, struct rs_coord_capture *capture,
                                     struct rs_err *err)
{
    return writing_create(self, capture, err);
}

/* One at a time for each capture: however slow the disk is, what waits for it is no more than the captures that are open. */
static bool save_capture(void *self, struct rs_coord_capture *capture, bool must)
{
    struct rs_server *server = self;
    if (capture->is_written && !must)
        return false;
    const bool is_put =
        writing_save(server, capture); /* all that changed, and all that was refused */
    capture->is_written = capture->is_written || is_put;
    capture->is_unsaved = !is_put;
    ask_capture_changed(server, capture->id, false);
    return is_put; /* else it stays changed, and the next tick tries again */
}

static void close_capture(void *self, struct rs_coord_capture *capture)
{
    if (writing_close(self, capture))
        return;
    rs_log_error("no memory to close capture %s", capture->id);
    capture->is_closing = false; /* the next tick tries again */
}

static bool may_close(void *self, const struct rs_coord_capture *capture)
{
    return live_join_may_close(self, capture->id);
}

void server_close_at_ingest(struct rs_server *server, const char *id)
{
    struct rs_coord_capture *capture = rs_coord_find(server->coord, id);
    if (!capture)
        return; /* it was never created */
    struct chunk_job *job = server_job_new(NULL, RS_INGEST_CLOSE);
    struct rs_capture_facts *facts = rs_mem_calloc(1, sizeof *facts);
    if (!job || !facts) {
        rs_log_error("no memory to close capture %s", capture->id);
        rs_mem_free(job);
        rs_mem_free(facts);
        capture->is_closing = false; /* the next tick tries again */
        return;
    }
    server->journal.facts(server->journal.self, capture, facts);
    job->facts = facts;
    job->base.facts = facts;
    server_job_put(server, job);
}

static bool earlier_roles(void *self, const char *run, struct rs_roles *roles_p)
{
    const struct rs_server *server = self;
    return server->journal.earlier_roles &&
           server->journal.earlier_roles(server->journal.self, run, roles_p);
}

static const struct rs_coord_ops coord_ops = {.earlier_roles = earlier_roles,
                                              .prepare = send_prepare,
                                              .commit = send_commit,
                                              .cancel = send_cancel,
                                              .cancel_elsewhere = send_cancel_elsewhere,
                                              .create = create_capture,
                                              .save = save_capture,
                                              .may_close = may_close,
                                              .close = close_capture};

/* ---- life -------------------------------------------------------------------------------------------------- */

struct loading {
    struct rs_server *server;
    struct rs_buf ids; /* of the open captures, RS_COORD_ID_BYTES each */
    struct rs_err *err;
    enum rs_status status;
};

static bool load_open(void *self, const struct rs_coord_capture *capture)
{
    struct loading *loading = self;
    if (!rs_capture_state_is_closed(capture->state) || capture->closed_ns == 0) {
        loading->status =
            rs_coord_load(loading->server->coord, capture, rs_time_monotonic(), loading->err);
        rs_buf_bytes(&loading->ids, capture->id, sizeof capture->id);
    } else if (rs_row_place_is_owed(loading->server->options.rows, capture->directory)) {
        rows_owed_add(loading->server, capture->id);
    }
    return loading->status == RS_OK;
}

/* A rank's last chunk may be durable, and acknowledged, while the row of its capture still says that it is sending: the
 * process ended between the two. Nobody would ever say it again, so the store is asked once, before the first stream. */
static enum rs_status see_ended(struct rs_server *server, const char *id, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    const struct rs_coord_capture *capture = NULL;
    for (size_t i = 0; (capture = rs_coord_find(server->coord, id)) && !capture->is_closing &&
                       i < capture->rank_count && status == RS_OK;
         i++) {
        const struct rs_coord_rank rank = capture->ranks[i];
        struct rs_store_key key = {.run = capture->run,
                                   .incarnation = rank.incarnation,
                                   .rank = rank.rank,
                                   .lane = RS_STREAM_RAW,
                                   .capture = id};
        struct rs_store_stream *raw = NULL, *summary = NULL;
        if (rs_progress_is_final(rank.state))
            continue;
        status = rs_store_stream(server->options.store, &key, &raw, err);
        key.lane = RS_STREAM_SUMMARY;
        if (status == RS_OK)
            status = rs_store_stream(server->options.store, &key, &summary, err);
        if (status != RS_OK)
            break;
        const rs_ns now = rs_time_monotonic();
        if (summary->is_ended)
            rs_coord_summarised(server->coord, id, rank.rank, rank.incarnation, summary->is_partial,
                                now);
        if (raw->is_ended)
            rs_coord_ended(server->coord, id, rank.rank, rank.incarnation, raw->is_partial, now);
    }
    return status;
}

static enum rs_status see_all_ended(struct loading *loading, struct rs_err *err)
{
    enum rs_status status =
        loading->ids.failed ? rs_err_set(err, RS_NOMEM, "no memory for the open captures") : RS_OK;
    for (size_t at = 0; at < loading->ids.length && status == RS_OK; at += RS_COORD_ID_BYTES) {
        status = see_ended(loading->server, (const char *)loading->ids.data + at, err);
        live_join_due(loading->server, (const char *)loading->ids.data + at);
    }
    return status;
}

/* Half the cores join, politely: recording and acknowledging come first. */
static unsigned join_threads(void)
{
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online < 4 ? 1 : (unsigned)(online / 2 > 64 ? 64 : online / 2);
}

static enum rs_status start_documents(struct rs_server *server, struct rs_err *err)
{
    const struct rs_pool_options join = {.name = "rs-join",
                                         .thread = RS_THREAD_JOIN,
                                         .threads = join_threads(),
                                         .nice = JOIN_NICE,
                                         .queue_max = JOIN_QUEUE_MAX,
                                         .done = server_pool_done,
                                         .self = server};
    struct rs_pool_options read = join;
    read.name = "rs-read";
    read.thread = RS_THREAD_READ;
    read.threads = 1;
    read.nice = 0;
    read.queue_max = READ_QUEUE_MAX;
    enum rs_status status = rs_documents_open(
        server->options.documents_dir, server->options.documents_bytes, &server->documents, err);
    server->options.documents_dir = NULL; /* it was lent */
    if (status == RS_OK && server->options.rows)
        rs_documents_have_rows_elsewhere(server->documents);
    if (status == RS_OK)
        status = rs_pool_start(&join, &server->join_pool, err);
    if (status == RS_OK)
        status = rs_pool_start(&read, &server->read_pool, err);
    return status;
}

enum rs_status rs_server_new(const struct rs_server_options *options, struct rs_server **server_p,
                             struct rs_err *err)
{
    struct rs_server *server = rs_mem_calloc(1, sizeof *server);
    if (!server)
        return rs_err_set(err, RS_NOMEM, "no memory for the server");
    server->options = *options;
    server->loop = options->loop;
    server->journal = *options->journal;
    server->quotas.limits = options->limits;
    server->resume_at = RS_NS_MAX;
    server->shares.limit_bytes = options->keep_bytes_each;
    server->mailbox_last_p = &server->mailbox;
    server->pool_mailbox_last_p = &server->pool_mailbox;
    (void)pthread_mutex_init(&server->mailbox_lock, NULL);
    if (!server->options.credit_bytes)
        server->options.credit_bytes = RS_WIRE_CREDIT_DEFAULT_BYTES;
    if (!server->options.credit_total_bytes)
        server->options.credit_total_bytes = (uint64_t)256 << 20;
    if (!server->options.heartbeat_ns)
        server->options.heartbeat_ns = 500 * (rs_dur)RS_NS_PER_MS;
    if (!server->options.first_message_ns)
        server->options.first_message_ns = BOUND_FIRST_MESSAGE_S * (rs_dur)RS_NS_PER_S;
    if (!server->options.outbox_ns)
        server->options.outbox_ns = BOUND_OUTBOX_S * (rs_dur)RS_NS_PER_S;
    if (!server->options.outbox_bytes)
        server->options.outbox_bytes = BOUND_OUTBOX_BYTES;
    if (!server->options.reply_bytes)
        server->options.reply_bytes = BOUND_REPLY_BYTES;
    struct rs_coord_options coord_options = {0};
    if (options->coord)
        coord_options = *options->coord;
    coord_options.ops = &coord_ops;
    coord_options.self = server;
    coord_options.tick_ns = tick_ns;
    coord_options.heartbeat_ns = server->options.heartbeat_ns;
    const struct rs_ingest_options ingest_options = {.store = options->store,
                                                     .queue_bytes = options->queue_bytes,
                                                     .spent = on_spent,
                                                     .done = on_done,
                                                     .self = server};
    enum rs_status status = rs_coord_new(&coord_options, &server->coord, err);
    if (status == RS_OK)
        status = rs_ingest_start(&ingest_options, &server->ingest, err);
    if (status == RS_OK)
        status = writing_start(server, err);
    if (status == RS_OK && options->audit_path)
        status = rs_audit_open(options->audit_path, &server->audit, err);
    server->options.audit_path = NULL; /* it was lent */
    if (status == RS_OK && options->documents_dir)
        status = start_documents(server, err);
    if (status == RS_OK)
        status = archiving_start(server, err);
    if (status == RS_OK)
        status = hang_watch_start(server, err);
    if (status == RS_OK)
        status = step_watch_start(server, err);
    if (status == RS_OK)
        status = missing_watch_start(server, err);
    struct loading loading = {.server = server, .err = err};
    if (status == RS_OK)
        status = server->journal.list(server->journal.self, load_open, &loading, err);
    if (status == RS_OK)
        status = loading.status;
    if (status == RS_OK)
        status = see_all_ended(&loading, err);
    rs_buf_fini(&loading.ids);
    if (status == RS_OK)
        status = feed_start(server, &server->feed, err);
    if (status < 0) {
        rs_server_free(&server);
        return status;
    }
    *server_p = server;
    return RS_OK;
}

/* What is to be written is, and captures whose rows are then done are closed: their jobs go through ingest once more. */
static void end_writing(struct rs_server *server)
{
    if (server->store_pool) {
        writing_stop(server);
        read_pool_mailbox(server);
    }
    rs_ingest_stop(&server->ingest);
    read_mailbox(server);
    writing_fini(server);
}

void rs_server_free(struct rs_server **server_p)
{
    struct rs_server *server = *server_p;
    if (!server)
        return;
    *server_p = NULL;
    archiving_drain(server);
    rs_pool_stop(&server->archive_pool);
    rs_pool_stop(&server->join_pool);
    rs_pool_stop(&server->read_pool);
    end_writing(server);
    feed_stop(&server->feed);
    live_join_fini(server);
    rows_owed_fini(server);
    whose_fini(server);
    RS_CHECK(server->session_count == 0);
    hang_fini(server);
    hang_watch_fini(server);
    step_watch_fini(server);
    quotas_fini(&server->quotas);
    store_shares_fini(&server->shares);
    missing_watch_fini(server);
    rs_documents_close(&server->documents);
    rs_audit_close(&server->audit);
    rs_coord_free(&server->coord);
    (void)pthread_mutex_destroy(&server->mailbox_lock);
    rs_mem_free(server);
}

bool rs_server_accept(void *self, struct rs_link *link, const char *method)
{
    struct rs_server *server = self;
    if (link->distrust) {
        const struct rs_audit_line line = {.who = &link->identity,
                                           .from = link->peer,
                                           .what = "connect",
                                           .subject = "",
                                           .why = link->distrust};
        rs_count(RS_COUNT_SERVER_UNTRUSTED, 1);
        rs_log_warn("link from %.100s refused: %s", link->peer, link->distrust);
        rs_audit_put(server->audit, &line);
        return false;
    }
    if (server->is_draining || server->session_count >= BOUND_SESSIONS) {
        rs_count(RS_COUNT_SERVER_LINKS_REFUSED, 1);
        return false;
    }
    rs_count(RS_COUNT_SERVER_LINKS, 1);
    struct session *session = rs_mem_calloc(1, sizeof *session);
    struct rs_err why = {0};
    if (!session || quota_open(&server->quotas, &link->identity, rs_time_monotonic(),
                               &session->quota, &why) < 0) {
        const struct rs_audit_line line = {.who = &link->identity,
                                           .from = link->peer,
                                           .what = "connect",
                                           .subject = "",
                                           .why = why.text};
        if (session)
            rs_audit_put(server->audit, &line);
        rs_count(RS_COUNT_SERVER_LINKS_REFUSED, 1);
        rs_mem_free(session);
        return false;
    }
    session->server = server;
    session->link = link;
    session->identity = link->identity;
    session->outbox_last_p = &session->outbox;
    session->opened_at = rs_time_monotonic();
    session->kind = strcmp(method, RS_WIRE_METHOD_ASK) == 0 ? SESSION_ASK : SESSION_COLLECTOR;
    link->user = session->kind == SESSION_ASK ? &ask_user : &collector_user;
    link->self = session;
    session->next = server->sessions;
    server->sessions = session;
    server->session_count++;
    return true;
}

/* A tick looks at every rank of every open capture, and each of thousands of ranks has something to tell: so ticks rest so many times what
 * the last one cost. One of a few ranks costs microseconds, and the next comes at once. */
enum { TICK_REST = 9 };

static rs_ns soonest_tick(const struct rs_server *server)
{
    return server->ticked_at + TICK_REST * server->tick_cost_ns;
}

void server_tick_soon(struct rs_server *server)
{
    const rs_ns soonest = soonest_tick(server);
    server->next_tick = soonest < server->next_tick ? soonest : server->next_tick;
}

static rs_ns sooner(rs_ns a, rs_ns b)
{
    return a < b ? a : b;
}

/* All that has its time: what it does now, and when the next one is due. */
static void tick(struct rs_server *server, rs_ns now)
{
    const rs_dur begun = rs_time_thread_cpu();
    /* First the mark, then the tick: what happens in it may want another at once. */
    server->next_tick = RS_NS_MAX;
    const rs_ns hang_next = hang_tick(server, now);
    rs_ns next = rs_coord_tick(server->coord, now);
    next = sooner(hang_next, next);
    next = sooner(hang_watch_tick(server, now), next);
    next = sooner(step_watch_tick(server, now), next);
    next = sooner(missing_watch_tick(server, now), next);
    next = sooner(live_join_tick(server, now), next);
    next = sooner(rows_owed_tick(server, now), next);
    next = sooner(retention_tick(server, now), next);
    next = sooner(archiving_tick(server, now), next);
    next = sooner(homes_tick(server, now), next);
    next = sooner(next, now + tick_ns);
    next = sooner(server->next_tick, next);
    server->ticked_at = rs_time_monotonic();
    server->tick_cost_ns = rs_time_thread_cpu() - begun;
    const rs_ns soonest = soonest_tick(server);
    server->next_tick = next > soonest ? next : soonest;
}

enum rs_status rs_server_step(struct rs_server *server, rs_ns until, struct rs_err *err)
{
    RS_ON_THREAD(LINKS);
    if (until > server->next_tick)
        until = server->next_tick;
    if (until > server->resume_at)
        until = server->resume_at;
    if (rs_loop_run(server->loop, until) < 0)
        return rs_err_set(err, RS_IO, "the loop cannot run");
    read_mailbox(server);
    read_pool_mailbox(server);
    if (rs_ingest_is_broken(server->ingest))
        return rs_err_set(err, RS_IO,
                          "the disk refused to make data durable: nothing more is acknowledged");
    const rs_ns now = rs_time_monotonic();
    if (now >= server->resume_at) {
        server->resume_at = RS_NS_MAX;
        for (struct session *session = server->sessions; session; session = session->next)
            session_resume(session);
    }
    if (now - server->swept_at > sweep_every_ns) {
        server->swept_at = now;
        sessions_sweep(server, now);
    }
    if (now - server->checked_at > check_every_ns) {
        server->checked_at = now;
        sessions_check(server);
        quotas_sweep(&server->quotas, now);
    }
    if (now >= server->next_tick)
        tick(server, now);
    return RS_OK;
}

void rs_server_drain(struct rs_server *server)
{
    server->is_draining = true;
    archiving_drain(server);
    char reason[] = "the aggregator stops";
    Rankscope__Goodbye goodbye = RANKSCOPE__GOODBYE__INIT;
    goodbye.reason = reason;
    Rankscope__Down down = RANKSCOPE__DOWN__INIT;
    down.message_case = RANKSCOPE__DOWN__MESSAGE_GOODBYE;
    down.goodbye = &goodbye;
    for (struct session *session = server->sessions; session;) {
        struct session *next = session->next;
        if (session->kind == SESSION_COLLECTOR)
            session_post(session, &down.base);
        else
            session_fail(session, RS_UNREACHABLE, reason);
        session = next;
    }
}

struct rs_server_held rs_server_held(const struct rs_server *server)
{
    struct rs_server_held held = {0};
    for (const struct session *session = server->sessions; session; session = session->next) {
        held.outbox_bytes += session->outbox_bytes;
        held.streams += session->stream_count;
    }
    return held;
}

size_t rs_server_session_count(const struct rs_server *server)
{
    return server->session_count;
}

struct rs_ingest_stats rs_server_ingest_stats(const struct rs_server *server)
{
    return rs_ingest_stats(server->ingest);
}
