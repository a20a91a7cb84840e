/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that carry librankscope: the live table, and captures on request.
 *
 *   uplink thread --prepare, commit, cancel--> inbox --> this thread --armed, progress--> outbox --> uplink thread
 *                 <------------------------- table ---
 *
 * One job per (capture, rank):
 *
 *   PREPARE --> PREPARED --COMMIT: arm, declare in the spool--> RUNNING --drain says end--> finished, removed
 *                  |  cancel, or nothing for 5 minutes               |  cancel: ends at the next boundary, at once when it
 *                  |                                                 |          has not begun or was cancelled before
 *                  +--> removed                                      |  missed: refused, nothing stored
 *                                                                    +  died before it began: lost, nothing stored
 *
 * A rank that does not come to its next step boundary is looked at (stuck_why): a process that is stopped does not say so
 * itself, and the aggregator, which gives it up in the end, has nothing but our word to name the reason.
 */
#include "collector/agent/adapter.h"
#include "collector/agent/collect.h"
#include "collector/agent/host_samples.h"
#include "collector/pack/pack.h"
#include "collector/source/native.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/base/thread.h"

#define RS_LOG_TAG "native"
#include "common/base/log.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* Nobody there: connections wake the poll, and messages can mean nobody. */
enum { LONELY_POLL_MS = 1000, IDLE_POLL_MS = 50, ARMED_POLL_MS = 10, BUSY_POLL_MS = 2 };

/* Others of the capture may have to find out their step first. */
static const rs_dur prepared_timeout_ns = 300 * (rs_dur)RS_NS_PER_S;
static const rs_dur flush_every_ns = 250 * (rs_dur)RS_NS_PER_MS;
static const rs_dur report_every_ns = 100 * (rs_dur)RS_NS_PER_MS;
/* Without a step boundary for so long, and for so many of its mean steps, a rank is stuck. */
static const rs_dur stuck_after_ns = 5 * (rs_dur)RS_NS_PER_S;
enum { STUCK_AFTER_STEPS = 8 };

enum stuck { STUCK_NOT, STUCK_SLOW, STUCK_STOPPED };

struct job {
    struct job *next;
    char capture[65];
    uint64_t id; /* of the native table */
    uint32_t rank;
    bool is_running, is_finished, was_stopped;
    char stop_why[160]; /* what CANCEL said */
    rs_ns prepared_at, flushed_at, notified_at, looked_at;
    int64_t steps, reported_steps;
    enum rs_progress_state reported;
    enum stuck stuck, reported_stuck;
    struct rs_source_stream stream;
    struct rs_pack *pack;
    struct rs_host_samples *samples; /* NULL: none were asked for */
    struct rs_spool_source source;   /* texts below */
    char run[RS_NATIVE_RUN_BYTES], host[RS_NATIVE_TEXT_BYTES], incarnation[RS_AGENT_TEXT_BYTES];
};

struct rs_collect_native {
    struct rs_agent_adapter base; /* first; the id of a row is that of the native table */
    struct rs_native *native;
    pthread_t thread;
    struct job *jobs;
};

/* ---- mailbox ----------------------------------------------------------------------------------------------- */

static void report_armed(struct rs_collect_native *native, const char *capture,
                         const struct job *job, const struct rs_native_rank *rank, uint32_t number,
                         const char *refused)
{
    Rankscope__ArmedRank armed_rank = RANKSCOPE__ARMED_RANK__INIT;
    armed_rank.rank = number;
    armed_rank.incarnation = rs_const_cast(job ? job->incarnation : "");
    armed_rank.step = rank && rank->has_step ? (int64_t)rank->step : -1;
    armed_rank.step_duration_ns = rank ? rank->mean_step_ns : 0;
    armed_rank.refused = rs_const_cast(refused);
    rs_agent_adapter_armed(&native->base, capture, &armed_rank);
}

static void report_progress(struct rs_collect_native *native, struct job *job,
                            enum rs_progress_state state, int64_t steps, const char *text)
{
    const rs_ns now = rs_time_monotonic();
    const bool is_news = state != job->reported || job->stuck != job->reported_stuck;
    if (!is_news && (steps == job->reported_steps || now < job->notified_at + report_every_ns))
        return;
    job->reported = state;
    job->reported_stuck = job->stuck;
    job->reported_steps = steps;
    job->notified_at = now;
    Rankscope__RankProgress rank = RANKSCOPE__RANK_PROGRESS__INIT;
    rank.rank = job->rank;
    rank.state = state;
    rank.steps_done = steps;
    rank.text = rs_const_cast(text);
    rs_agent_adapter_progress(&native->base, job->capture, &rank);
}

/* ---- who ------------------------------------------------------------------------------------------------- */

static const char *run_of(const struct rs_collect_native *native, const struct rs_native_rank *rank)
{
    return rs_agent_adapter_run(&native->base, rank->run);
}

static const char *host_of(const struct rs_collect_native *native,
                           const struct rs_native_rank *rank)
{
    return rank->host[0] ? rank->host : native->base.host;
}

static void incarnation_of(const struct rs_collect_native *native,
                           const struct rs_native_rank *rank, char text[RS_AGENT_TEXT_BYTES])
{
    const uint64_t start = rank->start_time ? rank->start_time : (uint64_t)rank->started_ns;
    rs_agent_adapter_incarnation(&native->base, host_of(native, rank), rank->pid, start, text);
}

static enum rs_rank_state state_of(const struct rs_native_rank *rank)
{
    if (rank->life != RS_NATIVE_ALIVE)
        return RS_RANK_GONE;
    switch (rank->state) {
    case RS_NATIVE_NONE:
    case RS_NATIVE_MISSED:
    case RS_NATIVE_LOST:
        return RS_RANK_IDLE;
    case RS_NATIVE_WAITING:
    case RS_NATIVE_ARMED:
        return RS_RANK_ARMED;
    case RS_NATIVE_RECORDING:
    case RS_NATIVE_CAPTURED:
        return RS_RANK_RECORDING;
    }
    return RS_RANK_IDLE;
}

static const struct job *job_of(const struct rs_collect_native *native, uint64_t id)
{
    for (const struct job *job = native->jobs; job; job = job->next)
        if (job->id == id && !job->is_finished)
            return job;
    return NULL;
}

static void fill_row(const struct rs_collect_native *native, const struct rs_native_rank *rank,
                     rs_ns now, struct rs_agent_row *row)
{
    char incarnation[RS_AGENT_TEXT_BYTES];
    incarnation_of(native, rank, incarnation);
    rs_agent_adapter_fill(&native->base, row, run_of(native, rank), host_of(native, rank),
                          incarnation, "");
    row->id = rank->id;
    rs_agent_adapter_set_user(row, rank->uid);
    row->state.rank = (uint32_t)rank->rank;
    row->state.world = rank->world_size > 0 ? (uint32_t)rank->world_size : 0;
    row->state.pid = (uint32_t)rank->pid;
    row->state.step = rank->has_step ? (int64_t)rank->step : -1;
    row->state.step_duration_ns = rank->mean_step_ns;
    row->state.own_ns = rank->own_ns;
    row->state.delay_ns = rank->delay_ns;
    row->state.state = state_of(rank);
    row->state.events_dropped = rank->lost > 0 ? (uint64_t)rank->lost : 0;
    row->state.seen_ns = now;
    row->state.can_capture = rank->life == RS_NATIVE_ALIVE;
    for (size_t i = 0; i < RS_ROLE_COUNT; i++)
        row->role[i] = -1;
    row->role[RS_ROLE_DP] = rank->dp;
    row->role[RS_ROLE_PP] = rank->pp;
    row->role[RS_ROLE_TP] = rank->tp;
    row->has_roles = rank->dp >= 0 || rank->pp >= 0 || rank->tp >= 0;
}

/* Rows stand in order of their ids, as the ranks do. */
static struct rs_agent_row *find_row(struct rs_collect_native *native, uint64_t id)
{
    size_t low = 0;
    size_t high = native->base.table_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (native->base.table[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < native->base.table_count && native->base.table[low].id == id
               ? &native->base.table[low]
               : NULL;
}

static void refresh_table(struct rs_collect_native *native)
{
    const size_t count = rs_native_count(native->native);
    const rs_ns now = rs_time_realtime();
    (void)pthread_mutex_lock(&native->base.lock);
    native->base.table_count = 0;
    if (rs_agent_adapter_grow(&native->base, count)) {
        for (size_t i = 0; i < count; i++) {
            const struct rs_native_rank *rank = rs_native_at(native->native, i);
            if (rank->rank >= 0)
                fill_row(native, rank, now, &native->base.table[native->base.table_count++]);
        }
    }
    for (const struct job *job = native->jobs; job; job = job->next) {
        struct rs_agent_row *row = job->is_finished ? NULL : find_row(native, job->id);
        if (row)
            (void)snprintf(row->capture, sizeof row->capture, "%s", job->capture);
    }
    (void)pthread_mutex_unlock(&native->base.lock);
}

/* ---- jobs ------------------------------------------------------------------------------------------------- */

static void remove_job(struct rs_collect_native *native, struct job *job)
{
    struct job **at = &native->jobs;
    while (*at != job)
        at = &(*at)->next;
    *at = job->next;
    rs_pack_free(&job->pack);
    if (job->is_running)
        rs_native_release(native->native, job->id);
    rs_host_samples_free(&job->samples);
    rs_source_stream_fini(&job->stream);
    rs_mem_free(job);
}

static struct job *find_job(const struct rs_collect_native *native, const char *capture,
                            uint32_t rank)
{
    for (struct job *job = native->jobs; job; job = job->next)
        if (job->rank == rank && strcmp(job->capture, capture) == 0)
            return job;
    return NULL;
}

static const struct rs_native_rank *find_rank(const struct rs_collect_native *native,
                                              const char *run, uint32_t number)
{
    const struct rs_native_rank *found = NULL;
    for (size_t i = 0; i < rs_native_count(native->native); i++) {
        const struct rs_native_rank *rank = rs_native_at(native->native, i);
        if (rank->life == RS_NATIVE_ALIVE && rank->rank >= 0 && (uint32_t)rank->rank == number &&
            strcmp(run_of(native, rank), run) == 0)
            found = rank;
    }
    return found;
}

/* It was notified of its start and is asked once more: its answer was lost with its link, so the start was moved for all. The earlier one
 * is forgotten. True: it began alone already and its chunks are in the spool, so that it cannot begin again. */
static bool forget_start(struct rs_collect_native *native, struct job **known_p, uint32_t number)
{
    struct job *known = *known_p;
    const struct rs_native_rank *rank = rs_native_find(native->native, known->id);
    if (rank && rank->has_begun && known->pack) {
        char text[160];
        (void)snprintf(text, sizeof text,
                       "it began alone at step %" PRIu64
                       ": its node was out of reach, and the start was moved for the others",
                       rank->first_step);
        report_armed(native, known->capture, known, rank, number, text);
        return true;
    }
    rs_log_info("rank %u: capture %s moved its start: the one before is forgotten", number,
                known->capture);
    remove_job(native, known);
    *known_p = NULL;
    return false;
}

/* Whether the spool has chunks of this rank for this capture: it was notified, recorded to the end, and is asked once more. */
static bool has_recorded(struct rs_collect_native *native, const struct job *job, uint32_t number)
{
    struct rs_spool_entry entry;
    for (uint32_t after = 0; rs_spool_next_entry(native->base.spool, after, &entry) == RS_OK;
         after = entry.id)
        if (entry.put_count && entry.source.rank == number &&
            strcmp(entry.source.capture, job->capture) == 0 &&
            strcmp(entry.source.incarnation, job->incarnation) == 0 &&
            strcmp(entry.source.run, job->run) == 0)
            return true;
    return false;
}

static void prepare_rank(struct rs_collect_native *native, const Rankscope__Prepare *prepare,
                         uint32_t number)
{
    const struct rs_native_rank *rank = find_rank(native, prepare->run, number);
    struct job *known = find_job(native, prepare->capture, number);
    if (known && known->is_running && rank && forget_start(native, &known, number))
        return;
    if (known && !known->is_running && rank) { /* asked again: its first answer may be lost */
        known->prepared_at = rs_time_monotonic();
        report_armed(native, known->capture, known, rank, number, "");
    }
    if (known)
        return;
    struct job *job = rank ? rs_mem_calloc(1, sizeof *job) : NULL;
    if (!job || rs_source_stream_init(&job->stream) < 0) {
        rs_mem_free(job);
        report_armed(native, prepare->capture, NULL, NULL, number,
                     rank ? "the collector is out of memory" : "its process is not there any more");
        return;
    }
    (void)snprintf(job->capture, sizeof job->capture, "%.64s", prepare->capture);
    (void)snprintf(job->run, sizeof job->run, "%.190s", run_of(native, rank));
    (void)snprintf(job->host, sizeof job->host, "%.63s", host_of(native, rank));
    incarnation_of(native, rank, job->incarnation);
    const struct job *other = job_of(native, rank->id);
    const bool was_alone = !other && has_recorded(native, job, number);
    if (other || was_alone) {
        char text[160];
        if (was_alone)
            (void)snprintf(text, sizeof text,
                           "it began alone, and recorded: its node was out of reach, and the start "
                           "was moved for the others");
        else
            (void)snprintf(text, sizeof text, "it records for capture %.64s already",
                           other->capture);
        report_armed(native, prepare->capture, job, rank, number, text);
        rs_source_stream_fini(&job->stream);
        rs_mem_free(job);
        return;
    }
    job->id = rank->id;
    job->rank = number;
    job->steps = prepare->steps;
    job->prepared_at = rs_time_monotonic();
    job->source =
        (struct rs_spool_source){.run = job->run,
                                 .rank = number,
                                 .incarnation = job->incarnation,
                                 .capture = job->capture,
                                 .capture_key = "",
                                 .world = rank->world_size > 0 ? (uint32_t)rank->world_size : 0,
                                 .host = job->host,
                                 .origin = "native",
                                 .user = (int64_t)rank->uid + 1,
                                 .keeps_sequence = true};
    job->next = native->jobs;
    native->jobs = job;
    report_armed(native, job->capture, job, rank, number, "");
}

static void on_prepare(struct rs_collect_native *native, const Rankscope__Prepare *prepare)
{
    for (size_t i = 0; i < prepare->n_ranks; i++)
        prepare_rank(native, prepare, prepare->ranks[i]);
}

static void commit_job(struct rs_collect_native *native, struct job *job,
                       const Rankscope__Commit *commit)
{
    struct rs_err err = {0};
    const uint64_t start = commit->start_step > 0 ? (uint64_t)commit->start_step : 0;
    const struct rs_native_request request = {
        .capture = job->capture, .start_step = start, .stop_step = start + commit->steps};
    enum rs_status status = rs_native_arm(native->native, job->id, &request, &job->stream, &err);
    if (status == RS_CANCELLED || status == RS_NOTFOUND) {
        report_progress(native, job, RS_PROGRESS_LOST, 0, "its process ended before it began");
        remove_job(native, job);
        return;
    }
    if (status < 0) {
        report_progress(native, job, RS_PROGRESS_REFUSED, 0, err.text);
        remove_job(native, job);
        return;
    }
    job->is_running = true;
    job->steps = commit->steps;
    job->flushed_at = rs_time_monotonic();
    const struct rs_host_plan plan = rs_host_plan_of(commit->request);
    const struct rs_native_rank *rank = rs_native_find(native->native, job->id);
    if (!rs_host_plan_is_empty(&plan) && rank &&
        rs_host_samples_new(rank->pid, plan, &job->samples) < 0)
        rs_log_warn("rank %u: no memory for samples of its host", job->rank);
}

static void on_commit(struct rs_collect_native *native, const Rankscope__Commit *commit)
{
    for (size_t i = 0; i < commit->n_ranks; i++) {
        struct job *job = find_job(native, commit->capture, commit->ranks[i]);
        if (!job)
            rs_agent_adapter_unknown(&native->base, commit->capture, commit->ranks[i]);
        else if (!job->is_running)
            commit_job(native, job, commit);
    }
}

static void cancel_job(struct rs_collect_native *native, struct job *job, const char *reason);

static void on_cancel(struct rs_collect_native *native, const Rankscope__Cancel *cancel)
{
    for (struct job *job = native->jobs; job;) {
        struct job *next = job->next;
        if (strcmp(job->capture, cancel->capture) == 0)
            cancel_job(native, job, cancel->reason);
        job = next;
    }
}

static void prepare(void *self, const Rankscope__Prepare *message)
{
    on_prepare(self, message);
}

static void commit(void *self, const Rankscope__Commit *message)
{
    on_commit(self, message);
}

static void cancel(void *self, const Rankscope__Cancel *message)
{
    on_cancel(self, message);
}

static const struct rs_agent_handlers handlers = {prepare, commit, cancel};

/* ---- recording ---------------------------------------------------------------------------------------------- */

/* Nothing was recorded, and nothing will be. */
static void end_empty(struct rs_collect_native *native, struct job *job,
                      enum rs_progress_state state, const char *text)
{
    report_progress(native, job, state, 0, text);
    remove_job(native, job);
}

/* Only what has begun has a stream: a rank that is armed leaves nothing behind. */
static enum rs_status begin_stream(struct rs_collect_native *native, struct job *job,
                                   struct rs_err *err)
{
    const struct rs_pack_options options = {.spool = native->base.spool,
                                            .source = job->source,
                                            .strings = &job->stream.strings,
                                            .lanes = &job->stream.lanes};
    return job->pack ? RS_OK : rs_pack_new(&options, &job->pack, err);
}

/* By how many its step's number has gone on since the first that was recorded. */
static int64_t numbers_passed(const struct rs_native_rank *rank)
{
    const bool is_over = rank->state == RS_NATIVE_CAPTURED;
    const uint64_t reached = is_over ? rank->next_step : rank->step;
    if ((!is_over && !rank->has_step) || reached <= rank->first_step)
        return 0;
    const uint64_t passed = reached - rank->first_step; /* the process's own words: any number */
    return passed < INT64_MAX ? (int64_t)passed : INT64_MAX;
}

/* How many steps it recorded so far. A program may count by tens, or pass over a number: what it did not make is not there. Where
 * events were lost, a step's own row may be among them: then the numbers count, and it is partial because of the loss. */
static int64_t steps_recorded(const struct rs_native_rank *rank, bool has_lost)
{
    const int64_t passed = numbers_passed(rank);
    return !has_lost && rank->lost == 0 && rank->steps < passed ? rank->steps : passed;
}

static void short_why(const struct job *job, const struct rs_native_rank *rank, char *text,
                      size_t size)
{
    const char *why = "the collector was stopped";
    if (rank->life == RS_NATIVE_FINISHED)
        why = "its program ended in the middle";
    else if (rank->life == RS_NATIVE_DIED)
        why = "its process died in the middle";
    else if (job->was_stopped)
        why = job->stop_why;
    else if (rank->state == RS_NATIVE_CAPTURED && numbers_passed(rank) >= job->steps) {
        (void)snprintf(text, size,
                       "it made %" PRId64 " steps with the numbers of these %" PRId64
                       ": call rankscope_step() with numbers that go on by one",
                       rank->steps, job->steps);
        return;
    } else if (rank->state == RS_NATIVE_CAPTURED)
        why = "it was told too late, and began after the first of these steps";
    (void)snprintf(text, size, "%s", why);
}

static void finish_job(struct rs_collect_native *native, struct job *job, bool is_partial)
{
    struct rs_err err = {0};
    const struct rs_native_rank *rank = rs_native_find(native->native, job->id);
    if (rank && rank->state == RS_NATIVE_MISSED) {
        end_empty(native, job, RS_PROGRESS_REFUSED, "it was past the last step already");
        return;
    }
    if (!rank || !rank->has_begun || !job->pack) {
        const bool has_ended = rank && rank->life != RS_NATIVE_ALIVE;
        const char *alive_why =
            job->was_stopped ? job->stop_why : "the collector was stopped before it began";
        end_empty(native, job, RS_PROGRESS_LOST,
                  !has_ended                         ? alive_why
                  : rank->life == RS_NATIVE_FINISHED ? "its program ended before it began"
                                                     : "its process died before it began");
        return;
    }
    /* Only a recording that came to its end says where that is. */
    const int64_t steps =
        rank->state == RS_NATIVE_CAPTURED ? steps_recorded(rank, is_partial) : job->reported_steps;
    const bool was_short = steps < job->steps;
    /* Told before the last chunk is put: the aggregator must have the reason when it closes the capture. */
    char text[200] = "";
    if (was_short)
        short_why(job, rank, text, sizeof text);
    else if (is_partial)
        (void)snprintf(text, sizeof text, "events were lost");
    job->stuck = STUCK_NOT;
    report_progress(native, job, RS_PROGRESS_SENDING, steps, text);
    job->stream.info.rank = (int32_t)job->rank;
    if (rs_pack_finish(job->pack, &job->stream.info, is_partial || was_short, &err) < 0) {
        rs_log_error("rank %u: %s", job->rank, err.text);
        report_progress(native, job, RS_PROGRESS_LOST, steps, err.text);
    }
    if (rank->life != RS_NATIVE_ALIVE)
        rs_spool_forget(native->base.spool, job->run, job->rank, job->incarnation);
    remove_job(native, job);
}

/* Ends it with what is there. */
static void cut_job(struct rs_collect_native *native, struct job *job)
{
    struct rs_err err = {0};
    const struct rs_native_rank *rank = rs_native_find(native->native, job->id);
    if (rank && rank->has_begun) {
        enum rs_status status = begin_stream(native, job, &err);
        if (status == RS_OK)
            status = rs_native_drain(native->native, job->id, rs_pack_sink(job->pack), &err);
        if (status < 0)
            rs_log_error("rank %u: %s", job->rank, err.text);
    }
    finish_job(native, job, true);
}

/* What has begun ends at its next step boundary; a second time, it ends with what is there. What began just now, and was not read
 * yet, leaves nothing: the aggregator may have taken its start back, and asks again. */
static void cancel_job(struct rs_collect_native *native, struct job *job, const char *reason)
{
    const struct rs_native_rank *rank = rs_native_find(native->native, job->id);
    const bool was_asked = job->was_stopped;
    job->was_stopped = true;
    if (!was_asked) /* a user, or max_duration_s, or another rule: whoever asks for the end says why */
        (void)snprintf(job->stop_why, sizeof job->stop_why, "%.159s",
                       *reason ? reason : "stopped by request");
    if (!job->is_running) {
        report_progress(native, job, RS_PROGRESS_LOST, 0, reason);
        remove_job(native, job);
        return;
    }
    if (!rank || !rank->has_begun || (!job->pack && rank->life == RS_NATIVE_ALIVE)) {
        end_empty(native, job, RS_PROGRESS_LOST, reason);
        return;
    }
    if (!was_asked) {
        rs_native_stop(native->native, job->id);
        return;
    }
    cut_job(native, job);
}

/* ---- ranks that do not move ------------------------------------------------------------------------------ */

/* The kernel's word on a process: stopped by a signal, or held by a debugger. */
static bool is_stopped(int64_t pid)
{
    char path[64];
    struct rs_buf text = {0};
    bool is_it = false;
    (void)snprintf(path, sizeof path, "/proc/%" PRId64 "/stat", pid);
    if (pid > 0 && rs_file_read(path, 4096, &text, NULL) == RS_OK) {
        const char *end = strrchr(rs_buf_text(&text), ')'); /* the name may hold anything */
        is_it = end && end[1] == ' ' && (end[2] == 'T' || end[2] == 't');
    }
    rs_buf_fini(&text);
    return is_it;
}

static void look_at(struct job *job, const struct rs_native_rank *rank, rs_ns now)
{
    if (now < job->looked_at + RS_NS_PER_S)
        return;
    job->looked_at = now;
    /* Both are the process's own words: any number. */
    const rs_dur since = rank->heartbeat_ns > 0 ? rs_time_realtime() - rank->heartbeat_ns : 0;
    if (since < stuck_after_ns || since / STUCK_AFTER_STEPS < rank->mean_step_ns)
        job->stuck = STUCK_NOT;
    else
        job->stuck = is_stopped(rank->pid) ? STUCK_STOPPED : STUCK_SLOW;
}

static void stuck_why(const struct job *job, const struct rs_native_rank *rank, char *text,
                      size_t bytes)
{
    text[0] = '\0';
    if (job->stuck == STUCK_STOPPED)
        (void)snprintf(text, bytes,
                       "its process %" PRId64
                       " is stopped (SIGSTOP, or a debugger) in step %" PRIu64,
                       rank->pid, rank->step);
    else if (job->stuck == STUCK_SLOW)
        (void)snprintf(text, bytes, "its process %" PRId64 " does not come out of step %" PRIu64,
                       rank->pid, rank->step);
}

/* Armed, and not begun. */
static void watch_armed(struct rs_collect_native *native, struct job *job,
                        const struct rs_native_rank *rank)
{
    char why[160];
    if (!rank || rank->state == RS_NATIVE_LOST || rank->state == RS_NATIVE_MISSED) {
        finish_job(native, job, true);
        return;
    }
    look_at(job, rank, rs_time_monotonic());
    stuck_why(job, rank, why, sizeof why);
    report_progress(native, job, RS_PROGRESS_ARMED, 0, why);
}

static void report_recording(struct rs_collect_native *native, struct job *job,
                             const struct rs_native_rank *rank)
{
    const int64_t steps = steps_recorded(rank, false);
    char why[160];
    look_at(job, rank, rs_time_monotonic());
    stuck_why(job, rank, why, sizeof why);
    if (job->samples && !*why)
        (void)snprintf(why, sizeof why, "%s", rs_host_samples_why(job->samples));
    report_progress(native, job, RS_PROGRESS_RECORDING, steps < job->steps ? steps : job->steps,
                    why);
}

/* A part of the summary, if it is time for one. What the source says at the end is not known yet. */
static enum rs_status put_part(struct job *job, const struct rs_native_rank *rank,
                               struct rs_err *err)
{
    struct rs_trace_info info;
    rs_trace_info_init(&info);
    info.rank = (int32_t)job->rank;
    info.rank_source = RS_RANK_METADATA;
    info.world_size = rank->world_size;
    info.has_time_base = true;
    enum rs_status status =
        rs_strtab_add(&job->stream.strings, rank->host, strlen(rank->host), &info.host);
    status = status == RS_OK ? rs_pack_part(job->pack, &info, err)
                             : rs_err_set(err, status, "no memory for a part of a summary");
    rs_trace_info_fini(&info);
    return status;
}

/* What its process takes of the host now, if it is time to look. Times of native streams are absolute. */
static enum rs_status sample_host(struct job *job, struct rs_err *err)
{
    rs_host_samples_look(job->samples);
    const struct rs_host_window all = {.from_ns = RS_NS_MIN, .to_ns = RS_NS_MAX};
    return rs_host_samples_emit(job->samples, &job->stream, &all, rs_pack_sink(job->pack), err);
}

static void drain_job(struct rs_collect_native *native, struct job *job)
{
    struct rs_err err = {0};
    const struct rs_native_rank *rank = rs_native_find(native->native, job->id);
    if (!rank || !rank->has_begun) {
        watch_armed(native, job, rank);
        return;
    }
    enum rs_status status = begin_stream(native, job, &err);
    if (status == RS_OK && job->samples && sample_host(job, &err) < 0) {
        rs_log_error("rank %u: its host is not sampled any more: %s", job->rank, err.text);
        rs_host_samples_free(&job->samples); /* the recording goes on without */
    }
    if (status == RS_OK)
        status = rs_native_drain(native->native, job->id, rs_pack_sink(job->pack), &err);
    if (status == RS_END || status == RS_PARTIAL) {
        finish_job(native, job, status == RS_PARTIAL);
        return;
    }
    if (status < 0) {
        rs_log_error("rank %u: %s", job->rank, err.text);
        report_progress(native, job, RS_PROGRESS_LOST, job->reported_steps, err.text);
        remove_job(native, job);
        return;
    }
    const rs_ns now = rs_time_monotonic();
    if (now >= job->flushed_at + flush_every_ns) {
        job->flushed_at = now;
        if (rs_pack_flush(job->pack, &err) < 0)
            rs_log_error("rank %u: %s", job->rank, err.text);
    }
    if (put_part(job, rank, &err) < 0)
        rs_log_error("rank %u: %s", job->rank, err.text);
    report_recording(native, job, rank);
}

/* How long the next poll may wait, for this job. */
static int patience_of(const struct rs_collect_native *native, const struct job *job)
{
    const struct rs_native_rank *rank = rs_native_find(native->native, job->id);
    if (job->stuck != STUCK_NOT)
        return IDLE_POLL_MS;
    return rank && rank->has_begun ? BUSY_POLL_MS : ARMED_POLL_MS;
}

/* Returns how long the next poll may wait. */
static int run_jobs(struct rs_collect_native *native)
{
    int patience_ms = rs_native_count(native->native) ? IDLE_POLL_MS : LONELY_POLL_MS;
    for (struct job *job = native->jobs; job;) {
        struct job *next = job->next;
        if (job->is_running) {
            const int own_ms = patience_of(native, job);
            if (own_ms < patience_ms)
                patience_ms = own_ms;
            drain_job(native, job);
        } else if (rs_time_monotonic() > job->prepared_at + prepared_timeout_ns) {
            remove_job(native, job);
        }
        job = next;
    }
    return patience_ms;
}

static void *work(void *self)
{
    rs_thread_is(RS_THREAD_NATIVE);
    struct rs_collect_native *native = self;
    int patience_ms = LONELY_POLL_MS;
    rs_ns refreshed_at = 0;
    while (!atomic_load(&native->base.must_stop)) {
        struct rs_err err = {0};
        if (rs_native_poll(native->native, patience_ms, &err) < 0)
            rs_log_error("%s", err.text);
        rs_agent_adapter_read(&native->base, &handlers);
        patience_ms = run_jobs(native);
        const rs_ns now = rs_time_monotonic();
        if (now >= refreshed_at + IDLE_POLL_MS * (rs_dur)RS_NS_PER_MS) {
            refreshed_at = now;
            refresh_table(native);
        }
    }
    while (native->jobs) {
        struct job *job = native->jobs;
        if (job->is_running)
            cut_job(native, job);
        else
            remove_job(native, job);
    }
    return NULL;
}

/* ---- life -------------------------------------------------------------------------------------------------- */

/* A collector before this one went in the middle of a capture: what it had is the end. The aggregator is to have the reason
 * before the last chunk. */
static void end_open_streams(struct rs_collect_native *native)
{
    static const char why[] = "the collector was started again";
    struct rs_spool *spool = native->base.spool;
    struct rs_spool_entry entry;
    uint32_t after = 0;
    while (rs_spool_next_entry(spool, after, &entry) == RS_OK) {
        struct rs_err err = {0};
        after = entry.id;
        if (!entry.source.keeps_sequence || entry.is_ended)
            continue;
        Rankscope__RankProgress rank = RANKSCOPE__RANK_PROGRESS__INIT;
        rank.rank = entry.source.rank;
        rank.state = entry.put_count ? RS_PROGRESS_SENDING : RS_PROGRESS_LOST;
        rank.text = rs_const_cast(why);
        if (entry.source.lane == RS_STREAM_RAW) /* the other lane says the same */
            rs_mailbox_put_progress(&native->base.news, entry.source.capture, &rank);
        if (entry.put_count == 0)
            rs_spool_drop(spool, entry.id);
        else if (rs_pack_cut_off(spool, entry.id, why, &err) < 0)
            rs_log_error("%s", err.text);
    }
}

static void free_native(struct rs_collect_native *native)
{
    rs_native_close(&native->native);
    rs_agent_adapter_fini(&native->base);
    rs_mem_free(native);
}

static void stop(struct rs_agent_adapter *adapter, struct rs_uplink *uplink)
{
    struct rs_collect_native *native = (struct rs_collect_native *)adapter; /* its first member */
    atomic_store(&native->base.must_stop, true);
    (void)pthread_join(native->thread, NULL);
    rs_agent_adapter_send_last(&native->base, uplink);
    free_native(native);
}

enum rs_status rs_collect_native_start(const struct rs_agent_adapter_options *options,
                                       const char *socket, struct rs_agent_adapter **adapter_p,
                                       struct rs_err *err)
{
    struct rs_collect_native *native = rs_mem_calloc(1, sizeof *native);
    if (!native)
        return rs_err_set(err, RS_NOMEM, "no memory for the native source");
    native->base.stop = stop;
    native->base.drops_when_down = true;
    enum rs_status status = rs_agent_adapter_init(&native->base, options, err);
    if (status == RS_OK)
        status = rs_native_open(socket, &native->native, err);
    if (status == RS_OK)
        end_open_streams(native);
    if (status == RS_OK && pthread_create(&native->thread, NULL, work, native) != 0)
        status = rs_err_set(err, RS_IO, "cannot start a thread");
    if (status < 0) {
        free_native(native);
        return status;
    }
    (void)pthread_setname_np(native->thread, "rs-src-native");
    *adapter_p = &native->base;
    return RS_OK;
}
