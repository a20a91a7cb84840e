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
 *                  |  cancel, or nothing for a minute                |  cancel: ends at the next boundary
 *                  +--> removed                                      +  missed: refused, nothing stored
 */
#include "cli/collect.h"
#include "cli/collect_mail.h"
#include "collector/pack/pack.h"
#include "collector/source/native.h"
#include "common/base/mem.h"

#define RS_LOG_TAG "native"
#include "common/base/log.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* Nobody there: connections wake the poll, and letters can mean nobody. */
enum { LONELY_POLL_MS = 1000, IDLE_POLL_MS = 50, BUSY_POLL_MS = 2 };

static const rs_dur prepared_timeout_ns = 60 * (rs_dur)RS_NS_PER_S;
static const rs_dur flush_every_ns = 250 * (rs_dur)RS_NS_PER_MS;
static const rs_dur tell_every_ns = 100 * (rs_dur)RS_NS_PER_MS;

struct job {
    struct job *next;
    char capture[65];
    uint64_t id; /* of the native table */
    uint32_t rank;
    bool is_running, is_finished, was_stopped;
    rs_ns prepared_at, flushed_at, told_at;
    int64_t steps, told_steps;
    enum rs_progress_state told;
    struct rs_source_stream stream;
    struct rs_pack *pack;
    struct rs_spool_source source; /* texts below */
    char run[RS_NATIVE_RUN_BYTES], host[RS_NATIVE_TEXT_BYTES], incarnation[256];
};

struct row {
    char run[RS_NATIVE_RUN_BYTES], host[RS_NATIVE_TEXT_BYTES], incarnation[256], capture[65];
    Rankscope__RankState state;
};

struct rs_collect_native {
    struct rs_collect_native_options options;
    char *run, *host;
    struct rs_native *native;
    pthread_t thread;
    atomic_bool must_stop;
    struct job *jobs;

    struct rs_mailbox inbox, outbox;
    pthread_mutex_t lock; /* guards the table */
    struct row *table;
    size_t table_count, table_capacity;

    struct row *copy; /* the uplink thread's */
    Rankscope__RankState **copy_states;
    size_t copy_capacity, copy_state_capacity;
};

/* ---- mail ----------------------------------------------------------------------------------------------- */

static void tell_armed(struct rs_collect_native *native, const char *capture, const struct job *job,
                       const struct rs_native_rank *rank, uint32_t number, const char *refused)
{
    Rankscope__ArmedRank armed_rank = RANKSCOPE__ARMED_RANK__INIT;
    armed_rank.rank = number;
    armed_rank.incarnation = rs_letter_lend(job ? job->incarnation : "");
    armed_rank.step = rank && rank->has_step ? (int64_t)rank->step : -1;
    armed_rank.step_duration_ns = rank ? rank->mean_step_ns : 0;
    armed_rank.refused = rs_letter_lend(refused);
    rs_mailbox_put_armed(&native->outbox, capture, &armed_rank);
    native->options.wake(native->options.wake_self);
}

static void tell_progress(struct rs_collect_native *native, struct job *job,
                          enum rs_progress_state state, int64_t steps, const char *text)
{
    const rs_ns now = rs_time_monotonic();
    if (state == job->told && (steps == job->told_steps || now < job->told_at + tell_every_ns))
        return;
    job->told = state;
    job->told_steps = steps;
    job->told_at = now;
    Rankscope__RankProgress rank = RANKSCOPE__RANK_PROGRESS__INIT;
    rank.rank = job->rank;
    rank.state = state;
    rank.steps_done = steps;
    rank.text = rs_letter_lend(text);
    rs_mailbox_put_progress(&native->outbox, job->capture, &rank);
    native->options.wake(native->options.wake_self);
}

/* ---- who ------------------------------------------------------------------------------------------------- */

static const char *run_of(const struct rs_collect_native *native, const struct rs_native_rank *rank)
{
    if (rank->run[0])
        return rank->run;
    return *native->run ? native->run : native->host;
}

static const char *host_of(const struct rs_collect_native *native,
                           const struct rs_native_rank *rank)
{
    return rank->host[0] ? rank->host : native->host;
}

/* host:pid:start, and a mark of the spool: its numbers begin at 1 again when the spool is another. */
static void incarnation_of(const struct rs_collect_native *native,
                           const struct rs_native_rank *rank, char text[256])
{
    const uint64_t start = rank->start_time ? rank->start_time : (uint64_t)rank->started_ns;
    (void)snprintf(text, 256, "%.100s:%" PRId64 ":%" PRIu64 "/%.8s", host_of(native, rank),
                   rank->pid, start, rs_spool_id(native->options.spool));
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

static void refresh_table(struct rs_collect_native *native)
{
    const size_t count = rs_native_count(native->native);
    const rs_ns now = rs_time_realtime();
    (void)pthread_mutex_lock(&native->lock);
    native->table_count = 0;
    if (rs_mem_grow((void **)&native->table, &native->table_capacity, count,
                    sizeof *native->table) == RS_OK) {
        for (size_t i = 0; i < count; i++) {
            const struct rs_native_rank *rank = rs_native_at(native->native, i);
            if (rank->rank < 0)
                continue;
            struct row *row = &native->table[native->table_count++];
            const struct job *job = job_of(native, rank->id);
            (void)snprintf(row->run, sizeof row->run, "%.190s", run_of(native, rank));
            (void)snprintf(row->host, sizeof row->host, "%.63s", host_of(native, rank));
            incarnation_of(native, rank, row->incarnation);
            (void)snprintf(row->capture, sizeof row->capture, "%s", job ? job->capture : "");
            rankscope__rank_state__init(&row->state);
            row->state.rank = (uint32_t)rank->rank;
            row->state.world = rank->world_size > 0 ? (uint32_t)rank->world_size : 0;
            row->state.pid = (uint32_t)rank->pid;
            row->state.step = rank->has_step ? (int64_t)rank->step : -1;
            row->state.step_duration_ns = rank->mean_step_ns;
            row->state.state = state_of(rank);
            row->state.events_dropped = rank->lost > 0 ? (uint64_t)rank->lost : 0;
            row->state.seen_ns = now;
            row->state.can_capture = rank->life == RS_NATIVE_ALIVE;
        }
    }
    (void)pthread_mutex_unlock(&native->lock);
}

size_t rs_collect_native_ranks(struct rs_collect_native *native, Rankscope__RankState ***states_p)
{
    size_t count = 0;
    (void)pthread_mutex_lock(&native->lock);
    if (rs_mem_grow((void **)&native->copy, &native->copy_capacity, native->table_count + 1,
                    sizeof *native->copy) == RS_OK &&
        rs_mem_grow((void **)&native->copy_states, &native->copy_state_capacity,
                    native->table_count + 1, sizeof(Rankscope__RankState *)) == RS_OK) {
        count = native->table_count;
        if (count)
            memcpy(native->copy, native->table, count * sizeof *native->copy);
    }
    (void)pthread_mutex_unlock(&native->lock);
    for (size_t i = 0; i < count; i++) {
        struct row *row = &native->copy[i];
        row->state.run = row->run;
        row->state.host = row->host;
        row->state.incarnation = row->incarnation;
        row->state.capture = row->capture;
        native->copy_states[i] = &row->state;
    }
    *states_p = native->copy_states;
    return count;
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

static void prepare_rank(struct rs_collect_native *native, const Rankscope__Prepare *prepare,
                         uint32_t number)
{
    const struct rs_native_rank *rank = find_rank(native, prepare->run, number);
    if (find_job(native, prepare->capture, number))
        return; /* asked twice: the answer is under way */
    struct job *job = rank ? rs_mem_calloc(1, sizeof *job) : NULL;
    if (!job || rs_source_stream_init(&job->stream) < 0) {
        rs_mem_free(job);
        tell_armed(native, prepare->capture, NULL, NULL, number,
                   rank ? "the collector is out of memory" : "its process is not there any more");
        return;
    }
    (void)snprintf(job->capture, sizeof job->capture, "%.64s", prepare->capture);
    (void)snprintf(job->run, sizeof job->run, "%.190s", run_of(native, rank));
    (void)snprintf(job->host, sizeof job->host, "%.63s", host_of(native, rank));
    incarnation_of(native, rank, job->incarnation);
    const struct job *other = job_of(native, rank->id);
    if (other) {
        char text[128];
        (void)snprintf(text, sizeof text, "it records for capture %.64s already", other->capture);
        tell_armed(native, prepare->capture, job, rank, number, text);
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
                                 .keeps_sequence = true};
    job->next = native->jobs;
    native->jobs = job;
    tell_armed(native, job->capture, job, rank, number, "");
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
    const struct rs_pack_options options = {.spool = native->options.spool,
                                            .source = job->source,
                                            .strings = &job->stream.strings,
                                            .lanes = &job->stream.lanes};
    enum rs_status status = rs_native_arm(native->native, job->id, &request, &job->stream, &err);
    if (status == RS_OK) {
        job->is_running = true;
        status = rs_pack_new(&options, &job->pack, &err);
    }
    if (status < 0) {
        tell_progress(native, job, RS_PROGRESS_REFUSED, 0, err.text);
        remove_job(native, job);
        return;
    }
    job->steps = commit->steps;
    job->flushed_at = rs_time_monotonic();
}

static void on_commit(struct rs_collect_native *native, const Rankscope__Commit *commit)
{
    for (size_t i = 0; i < commit->n_ranks; i++) {
        struct job *job = find_job(native, commit->capture, commit->ranks[i]);
        if (job && !job->is_running)
            commit_job(native, job, commit);
    }
}

static void on_cancel(struct rs_collect_native *native, const Rankscope__Cancel *cancel)
{
    for (struct job *job = native->jobs; job;) {
        struct job *next = job->next;
        if (strcmp(job->capture, cancel->capture) == 0) {
            if (job->is_running) {
                job->was_stopped = true;
                rs_native_stop(native->native, job->id);
            } else {
                tell_progress(native, job, RS_PROGRESS_LOST, 0, cancel->reason);
                remove_job(native, job);
            }
        }
        job = next;
    }
}

static void read_inbox(struct rs_collect_native *native)
{
    for (ProtobufCMessage *letter = rs_mailbox_take(&native->inbox); letter;
         letter = rs_mailbox_take(&native->inbox)) {
        const ProtobufCMessageDescriptor *kind = letter->descriptor;
        if (kind == &rankscope__prepare__descriptor)
            on_prepare(native, (const Rankscope__Prepare *)letter);
        else if (kind == &rankscope__commit__descriptor)
            on_commit(native, (const Rankscope__Commit *)letter);
        else
            on_cancel(native, (const Rankscope__Cancel *)letter);
        protobuf_c_message_free_unpacked(letter, NULL);
    }
}

/* ---- recording ---------------------------------------------------------------------------------------------- */

static void drop_entry(struct rs_collect_native *native, const struct job *job)
{
    uint32_t entry = 0;
    if (rs_spool_declare(native->options.spool, &job->source, &entry, NULL) == RS_OK)
        rs_spool_drop(native->options.spool, entry);
}

static void finish_job(struct rs_collect_native *native, struct job *job, bool is_partial)
{
    struct rs_err err = {0};
    const struct rs_native_rank *rank = rs_native_find(native->native, job->id);
    const int64_t steps = rank && rank->next_step > rank->first_step
                              ? (int64_t)(rank->next_step - rank->first_step)
                              : job->told_steps;
    const bool was_short = steps < job->steps;
    if (rank && rank->state == RS_NATIVE_MISSED) {
        tell_progress(native, job, RS_PROGRESS_REFUSED, 0, "it was past the last step already");
        drop_entry(native, job);
        remove_job(native, job);
        return;
    }
    /* Told before the last chunk is put: the aggregator must have the reason when it closes the capture. */
    const char *text = "";
    if (job->was_stopped)
        text = "stopped by request";
    else if (rank && rank->life != RS_NATIVE_ALIVE && was_short)
        text = "its process ended in the middle";
    else if (was_short)
        text = "the collector was stopped";
    else if (is_partial)
        text = "events were lost";
    tell_progress(native, job, RS_PROGRESS_SENDING, steps, text);
    job->stream.info.rank = (int32_t)job->rank;
    if (rs_pack_finish(job->pack, &job->stream.info, is_partial || was_short, &err) < 0) {
        rs_log_error("rank %u: %s", job->rank, err.text);
        tell_progress(native, job, RS_PROGRESS_LOST, steps, err.text);
    }
    if (rank && rank->life != RS_NATIVE_ALIVE)
        rs_spool_forget(native->options.spool, job->run, job->rank, job->incarnation);
    remove_job(native, job);
}

static void drain_job(struct rs_collect_native *native, struct job *job)
{
    struct rs_err err = {0};
    const rs_ns now = rs_time_monotonic();
    const enum rs_status status =
        rs_native_drain(native->native, job->id, rs_pack_sink(job->pack), &err);
    const struct rs_native_rank *rank = rs_native_find(native->native, job->id);
    if (status == RS_END || status == RS_PARTIAL) {
        finish_job(native, job, status == RS_PARTIAL);
        return;
    }
    if (status < 0) {
        rs_log_error("rank %u: %s", job->rank, err.text);
        tell_progress(native, job, RS_PROGRESS_LOST, job->told_steps, err.text);
        remove_job(native, job);
        return;
    }
    if (now >= job->flushed_at + flush_every_ns) {
        job->flushed_at = now;
        if (rs_pack_flush(job->pack, &err) < 0)
            rs_log_error("rank %u: %s", job->rank, err.text);
    }
    if (!rank)
        return;
    int64_t steps = 0;
    const bool is_over = rank->state == RS_NATIVE_CAPTURED;
    const bool is_recording = rank->state == RS_NATIVE_RECORDING;
    const uint64_t reached = is_over ? rank->next_step : rank->step;
    if ((is_over || (is_recording && rank->has_step)) && reached > rank->first_step)
        steps = (int64_t)(reached - rank->first_step);
    tell_progress(native, job, is_over || is_recording ? RS_PROGRESS_RECORDING : RS_PROGRESS_ARMED,
                  steps < job->steps ? steps : job->steps, "");
}

static bool run_jobs(struct rs_collect_native *native)
{
    bool is_busy = false;
    for (struct job *job = native->jobs; job;) {
        struct job *next = job->next;
        if (job->is_running) {
            is_busy = true;
            drain_job(native, job);
        } else if (rs_time_monotonic() > job->prepared_at + prepared_timeout_ns) {
            remove_job(native, job);
        }
        job = next;
    }
    return is_busy;
}

static void *work(void *self)
{
    struct rs_collect_native *native = self;
    bool is_busy = false;
    rs_ns refreshed_at = 0;
    while (!atomic_load(&native->must_stop)) {
        struct rs_err err = {0};
        const int wait = rs_native_count(native->native) ? IDLE_POLL_MS : LONELY_POLL_MS;
        if (rs_native_poll(native->native, is_busy ? BUSY_POLL_MS : wait, &err) < 0)
            rs_log_error("%s", err.text);
        read_inbox(native);
        is_busy = run_jobs(native);
        const rs_ns now = rs_time_monotonic();
        if (now >= refreshed_at + IDLE_POLL_MS * (rs_dur)RS_NS_PER_MS) {
            refreshed_at = now;
            refresh_table(native);
        }
    }
    while (native->jobs) {
        struct job *job = native->jobs;
        struct rs_err err = {0};
        if (!job->is_running) {
            remove_job(native, job);
            continue;
        }
        (void)!rs_native_drain(native->native, job->id, rs_pack_sink(job->pack), &err);
        finish_job(native, job, true);
    }
    return NULL;
}

/* ---- life -------------------------------------------------------------------------------------------------- */

/* A collector before this one went in the middle of a capture: what it had is the end. */
static void end_open_streams(struct rs_spool *spool)
{
    struct rs_spool_entry entry;
    uint32_t after = 0;
    while (rs_spool_next_entry(spool, after, &entry) == RS_OK) {
        struct rs_err err = {0};
        after = entry.id;
        if (!entry.source.keeps_sequence || entry.is_ended)
            continue;
        if (entry.put_count == 0)
            rs_spool_drop(spool, entry.id);
        else if (rs_pack_cut_off(spool, entry.id, "the collector was started again", &err) < 0)
            rs_log_error("%s", err.text);
    }
}

static void free_native(struct rs_collect_native *native)
{
    rs_mailbox_fini(&native->inbox);
    rs_mailbox_fini(&native->outbox);
    rs_native_close(&native->native);
    (void)pthread_mutex_destroy(&native->lock);
    rs_mem_free(native->run);
    rs_mem_free(native->host);
    rs_mem_free(native->table);
    rs_mem_free(native->copy);
    rs_mem_free(native->copy_states);
    rs_mem_free(native);
}

enum rs_status rs_collect_native_start(const struct rs_collect_native_options *options,
                                       struct rs_collect_native **native_p, struct rs_err *err)
{
    struct rs_collect_native *native = rs_mem_calloc(1, sizeof *native);
    if (!native)
        return rs_err_set(err, RS_NOMEM, "no memory for the native source");
    native->options = *options;
    rs_mailbox_init(&native->inbox);
    rs_mailbox_init(&native->outbox);
    (void)pthread_mutex_init(&native->lock, NULL);
    native->run = rs_mem_strdup(options->run);
    native->host = rs_mem_strdup(options->host);
    enum rs_status status = native->run && native->host
                                ? rs_native_open(options->socket, &native->native, err)
                                : rs_err_set(err, RS_NOMEM, "no memory for the native source");
    if (status == RS_OK)
        end_open_streams(options->spool);
    if (status == RS_OK && pthread_create(&native->thread, NULL, work, native) != 0)
        status = rs_err_set(err, RS_IO, "cannot start a thread");
    if (status < 0) {
        free_native(native);
        return status;
    }
    (void)pthread_setname_np(native->thread, "rs-src-native");
    *native_p = native;
    return RS_OK;
}

void rs_collect_native_stop(struct rs_collect_native **native_p)
{
    struct rs_collect_native *native = *native_p;
    if (!native)
        return;
    *native_p = NULL;
    atomic_store(&native->must_stop, true);
    (void)pthread_join(native->thread, NULL);
    free_native(native);
}

void rs_collect_native_prepare(struct rs_collect_native *native, const Rankscope__Prepare *prepare)
{
    rs_mailbox_put(&native->inbox, &prepare->base);
}

void rs_collect_native_commit(struct rs_collect_native *native, const Rankscope__Commit *commit)
{
    rs_mailbox_put(&native->inbox, &commit->base);
}

void rs_collect_native_cancel(struct rs_collect_native *native, const Rankscope__Cancel *cancel)
{
    rs_mailbox_put(&native->inbox, &cancel->base);
}

void rs_collect_native_letters(struct rs_collect_native *native, struct rs_uplink *uplink)
{
    for (ProtobufCMessage *letter = rs_mailbox_take(&native->outbox); letter;
         letter = rs_mailbox_take(&native->outbox)) {
        rs_uplink_send(uplink, (const Rankscope__Up *)letter);
        protobuf_c_message_free_unpacked(letter, NULL);
    }
}
