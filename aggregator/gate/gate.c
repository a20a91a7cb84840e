/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/gate/gate.h"

#include "aggregator/gate/gate_priv.h"
#include "common/base/check.h"
#include "common/base/mem.h"
#include "common/wire/request_letter.h"

#define RS_LOG_TAG "gate"
#include "common/base/log.h"

#include <string.h>

enum { SESSIONS_MAX = 16384 };

/* ---- jobs ---------------------------------------------------------------------------------------------- */

struct chunk_job *gate_job_new(struct session *session, enum rs_ingest_kind kind)
{
    struct chunk_job *job = rs_mem_calloc(1, sizeof *job);
    if (!job)
        return NULL;
    job->base.kind = kind;
    job->base.self = job;
    job->session = session;
    return job;
}

void gate_job_put(struct rs_gate *gate, struct chunk_job *job)
{
    if (job->session)
        job->session->job_count++;
    else
        gate->gate_job_count++;
    rs_ingest_put(gate->ingest, &job->base);
}

/* On ingest's thread. */
static void on_done(void *self, struct rs_ingest_job *jobs)
{
    struct rs_gate *gate = self;
    (void)pthread_mutex_lock(&gate->mail_lock);
    *gate->mail_last_p = jobs;
    while (*gate->mail_last_p)
        gate->mail_last_p = &(*gate->mail_last_p)->next;
    (void)pthread_mutex_unlock(&gate->mail_lock);
    rs_loop_wake(gate->loop);
}

static void close_done(struct rs_gate *gate, struct chunk_job *job)
{
    gate->gate_job_count--;
    if (job->base.status < 0)
        rs_log_error("capture %s cannot be closed: %s", job->facts->id, job->base.err.text);
    else if (gate->book.closed)
        gate->book.closed(gate->book.self, job->facts);
    rs_coord_closed(gate->coord, job->facts->id);
    ask_capture_changed(gate, job->facts->id, true);
    rs_mem_free(job->facts);
}

static void finish_job(struct rs_gate *gate, struct chunk_job *job)
{
    struct session *session = job->session;
    if (!session) {
        close_done(gate, job);
        rs_mem_free(job);
        return;
    }
    session->job_count--;
    /* What is durable is counted even when the link is gone. */
    collector_job_done(session, job);
    if (job->frame)
        rs_frame_free(&job->frame);
    rs_mem_free(job);
    if (session->is_paused && session->link && !rs_ingest_is_full(gate->ingest)) {
        session->is_paused = false;
        rs_link_resume(session->link);
    }
}

static void read_mail(struct rs_gate *gate)
{
    (void)pthread_mutex_lock(&gate->mail_lock);
    struct rs_ingest_job *job = gate->mail;
    gate->mail = NULL;
    gate->mail_last_p = &gate->mail;
    (void)pthread_mutex_unlock(&gate->mail_lock);
    if (!job)
        return;
    while (job) {
        struct rs_ingest_job *next = job->next;
        finish_job(gate, job->self);
        job = next;
    }
    for (struct session *session = gate->sessions; session;) {
        struct session *next = session->next;
        collector_post_acks(session);
        (void)session_reap(session);
        session = next;
    }
    gate_tick_soon(gate);
}

/* ---- what the coordinator asks for ---------------------------------------------------------------------- */

static struct session *find_session(const struct rs_gate *gate, const void *link)
{
    for (struct session *session = gate->sessions; session; session = session->next)
        if (session->link == link)
            return session;
    return NULL;
}

static char *lend(const char *text)
{
    union {
        const char *in;
        char *out;
    } both = {.in = text};
    return both.out;
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

/* NULL: there is none, or no memory; the letter then goes without, as those of the previous version did. */
static Rankscope__CaptureRequest *request_letter(const struct rs_coord_capture *capture)
{
    Rankscope__CaptureRequest *letter = NULL;
    if (capture->request && rs_request_to_letter(capture->request, &letter, NULL) < 0)
        rs_log_warn("no memory for the request of capture %s", capture->id);
    return letter;
}

static void send_prepare(void *self, const void *link, const struct rs_coord_capture *capture,
                         enum rs_rank_kind kind, const uint32_t *ranks, size_t rank_count)
{
    struct session *session = find_session(self, link);
    if (!session)
        return;
    Rankscope__ProfilerOptions options;
    Rankscope__CaptureRequest *request = request_letter(capture);
    fill_options(capture, &options);
    Rankscope__Prepare prepare = RANKSCOPE__PREPARE__INIT;
    prepare.capture = lend(capture->id);
    prepare.run = lend(capture->run);
    prepare.kind = kind;
    prepare.ranks = lend_ranks(ranks);
    prepare.n_ranks = rank_count;
    prepare.steps = capture->steps;
    prepare.duration_ns = capture->duration_ns;
    prepare.options = &options;
    prepare.request = request;
    Rankscope__Down down = RANKSCOPE__DOWN__INIT;
    down.letter_case = RANKSCOPE__DOWN__LETTER_PREPARE;
    down.prepare = &prepare;
    session_post(session, &down.base);
    rs_request_letter_free(&request);
}

static void send_commit(void *self, const void *link, const struct rs_coord_capture *capture,
                        enum rs_rank_kind kind, const uint32_t *ranks, size_t rank_count)
{
    struct session *session = find_session(self, link);
    if (!session)
        return;
    Rankscope__ProfilerOptions options;
    Rankscope__CaptureRequest *request = request_letter(capture);
    fill_options(capture, &options);
    Rankscope__Commit commit = RANKSCOPE__COMMIT__INIT;
    commit.capture = lend(capture->id);
    commit.run = lend(capture->run);
    commit.kind = kind;
    commit.start_step = rs_coord_start_step(capture, kind);
    commit.steps = kind == RS_RANK_KINETO ? capture->steps : capture->native_steps;
    commit.duration_ns = capture->duration_ns;
    commit.start_time_ns = capture->start_time_ns;
    commit.deliver_from_ns = capture->deliver_from_ns;
    commit.options = &options;
    commit.request = request;
    commit.ranks = lend_ranks(ranks);
    commit.n_ranks = rank_count;
    commit.armed = (uint32_t)capture->counts[RS_PROGRESS_ARMED];
    Rankscope__Down down = RANKSCOPE__DOWN__INIT;
    down.letter_case = RANKSCOPE__DOWN__LETTER_COMMIT;
    down.commit = &commit;
    session_post(session, &down.base);
    rs_request_letter_free(&request);
}

void session_cancel(struct session *session, const struct rs_coord_capture *capture,
                    const char *reason)
{
    Rankscope__Cancel cancel = RANKSCOPE__CANCEL__INIT;
    cancel.capture = lend(capture->id);
    cancel.run = lend(capture->run);
    cancel.reason = lend(reason);
    Rankscope__Down down = RANKSCOPE__DOWN__INIT;
    down.letter_case = RANKSCOPE__DOWN__LETTER_CANCEL;
    down.cancel = &cancel;
    session_post(session, &down.base);
}

static void send_cancel(void *self, const void *link, const struct rs_coord_capture *capture,
                        const char *reason)
{
    struct session *session = find_session(self, link);
    if (session)
        session_cancel(session, capture, reason);
}

static enum rs_status create_capture(void *self, struct rs_coord_capture *capture,
                                     struct rs_err *err)
{
    struct rs_gate *gate = self;
    const enum rs_status status = gate->book.create(gate->book.self, capture, err);
    if (status == RS_OK)
        rs_log_info("capture %s of run %.60s begins", capture->id, capture->run);
    return status;
}

static void save_capture(void *self, struct rs_coord_capture *capture)
{
    struct rs_gate *gate = self;
    struct rs_err err = {0};
    if (gate->book.save(gate->book.self, capture, &err) < 0)
        rs_log_error("capture %s cannot be written down: %s", capture->id, err.text);
    ask_capture_changed(gate, capture->id, false);
}

static void close_capture(void *self, struct rs_coord_capture *capture)
{
    struct rs_gate *gate = self;
    struct chunk_job *job = gate_job_new(NULL, RS_INGEST_CLOSE);
    struct rs_capture_facts *facts = rs_mem_calloc(1, sizeof *facts);
    if (!job || !facts) {
        rs_log_error("no memory to close capture %s", capture->id);
        rs_mem_free(job);
        rs_mem_free(facts);
        capture->is_closing = false; /* the next tick tries again */
        return;
    }
    gate->book.facts(gate->book.self, capture, facts);
    job->facts = facts;
    job->base.facts = facts;
    gate_job_put(gate, job);
}

static bool earlier_roles(void *self, const char *run, struct rs_roles *roles_p)
{
    const struct rs_gate *gate = self;
    return gate->book.earlier_roles && gate->book.earlier_roles(gate->book.self, run, roles_p);
}

static const struct rs_coord_ops coord_ops = {.earlier_roles = earlier_roles,
                                              .prepare = send_prepare,
                                              .commit = send_commit,
                                              .cancel = send_cancel,
                                              .create = create_capture,
                                              .save = save_capture,
                                              .close = close_capture};

/* ---- life -------------------------------------------------------------------------------------------------- */

struct loading {
    struct rs_gate *gate;
    struct rs_err *err;
    enum rs_status status;
};

static bool load_open(void *self, const struct rs_coord_capture *capture)
{
    struct loading *loading = self;
    if (!rs_capture_state_is_closed(capture->state) || capture->closed_ns == 0)
        loading->status =
            rs_coord_load(loading->gate->coord, capture, rs_time_monotonic(), loading->err);
    return loading->status == RS_OK;
}

enum rs_status rs_gate_new(const struct rs_gate_options *options, struct rs_gate **gate_p,
                           struct rs_err *err)
{
    struct rs_gate *gate = rs_mem_calloc(1, sizeof *gate);
    if (!gate)
        return rs_err_set(err, RS_NOMEM, "no memory for the gate");
    gate->options = *options;
    gate->loop = options->loop;
    gate->book = *options->book;
    gate->mail_last_p = &gate->mail;
    (void)pthread_mutex_init(&gate->mail_lock, NULL);
    if (!gate->options.credit_bytes)
        gate->options.credit_bytes = RS_WIRE_CREDIT_DEFAULT_BYTES;
    if (!gate->options.credit_total_bytes)
        gate->options.credit_total_bytes = (uint64_t)256 << 20;
    if (!gate->options.heartbeat_ns)
        gate->options.heartbeat_ns = 500 * (rs_dur)RS_NS_PER_MS;
    struct rs_coord_options coord_options = {0};
    if (options->coord)
        coord_options = *options->coord;
    coord_options.ops = &coord_ops;
    coord_options.self = gate;
    const struct rs_ingest_options ingest_options = {.store = options->store,
                                                     .queue_bytes = options->queue_bytes,
                                                     .done = on_done,
                                                     .self = gate};
    enum rs_status status = rs_coord_new(&coord_options, &gate->coord, err);
    if (status == RS_OK)
        status = rs_ingest_start(&ingest_options, &gate->ingest, err);
    struct loading loading = {.gate = gate, .err = err};
    if (status == RS_OK)
        status = gate->book.list(gate->book.self, load_open, &loading, err);
    if (status == RS_OK)
        status = loading.status;
    if (status < 0) {
        rs_gate_free(&gate);
        return status;
    }
    *gate_p = gate;
    return RS_OK;
}

void rs_gate_free(struct rs_gate **gate_p)
{
    struct rs_gate *gate = *gate_p;
    if (!gate)
        return;
    *gate_p = NULL;
    rs_ingest_stop(&gate->ingest);
    read_mail(gate);
    RS_CHECK(gate->session_count == 0);
    rs_coord_free(&gate->coord);
    (void)pthread_mutex_destroy(&gate->mail_lock);
    rs_mem_free(gate);
}

bool rs_gate_accept(void *self, struct rs_link *link, const char *method)
{
    struct rs_gate *gate = self;
    if (gate->is_draining || gate->session_count >= SESSIONS_MAX)
        return false;
    struct session *session = rs_mem_calloc(1, sizeof *session);
    if (!session)
        return false;
    session->gate = gate;
    session->link = link;
    session->outbox_last_p = &session->outbox;
    session->kind = strcmp(method, RS_WIRE_METHOD_ASK) == 0 ? SESSION_ASK : SESSION_COLLECTOR;
    link->user = session->kind == SESSION_ASK ? &ask_user : &collector_user;
    link->self = session;
    session->next = gate->sessions;
    gate->sessions = session;
    gate->session_count++;
    return true;
}

void gate_tick_soon(struct rs_gate *gate)
{
    gate->next_tick = 0;
}

enum rs_status rs_gate_step(struct rs_gate *gate, rs_ns until, struct rs_err *err)
{
    if (until > gate->next_tick)
        until = gate->next_tick;
    if (rs_loop_run(gate->loop, until) < 0)
        return rs_err_set(err, RS_IO, "the loop cannot run");
    read_mail(gate);
    if (rs_ingest_is_broken(gate->ingest))
        return rs_err_set(err, RS_IO,
                          "the disk refused to make data durable: nothing more is acknowledged");
    const rs_ns now = rs_time_monotonic();
    if (now >= gate->next_tick) {
        /* First the mark, then the tick: what happens in it may want another at once. */
        gate->next_tick = RS_NS_MAX;
        const rs_ns next = rs_coord_tick(gate->coord, now);
        const rs_ns latest = now + RS_NS_PER_S;
        if (gate->next_tick != 0)
            gate->next_tick = next < latest ? next : latest;
    }
    return RS_OK;
}

void rs_gate_drain(struct rs_gate *gate)
{
    gate->is_draining = true;
    char reason[] = "the aggregator stops";
    Rankscope__Goodbye goodbye = RANKSCOPE__GOODBYE__INIT;
    goodbye.reason = reason;
    Rankscope__Down down = RANKSCOPE__DOWN__INIT;
    down.letter_case = RANKSCOPE__DOWN__LETTER_GOODBYE;
    down.goodbye = &goodbye;
    for (struct session *session = gate->sessions; session;) {
        struct session *next = session->next;
        if (session->kind == SESSION_COLLECTOR)
            session_post(session, &down.base);
        else
            session_fail(session, RS_UNREACHABLE, reason);
        session = next;
    }
}

size_t rs_gate_session_count(const struct rs_gate *gate)
{
    return gate->session_count;
}

struct rs_ingest_stats rs_gate_ingest_stats(const struct rs_gate *gate)
{
    return rs_ingest_stats(gate->ingest);
}
