/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unmodified PyTorch processes: the live table, and captures on request.
 *
 *   uplink thread --prepare, commit, cancel--> inbox --> rs-kineto --armed, progress--> outbox --> uplink thread
 *                                                          | ^
 *                                            trace written | | taken, or why not
 *                                                          v |
 *                                                     rs-kineto-read (two)
 *
 * rs-kineto answers polls, which wait for 40 ms and not longer; so it never reads a trace, never waits for the spool.
 *
 *   collect_kineto.c       threads, the live table, letters in and out
 *   collect_kineto_ask.c   PREPARE, COMMIT, CANCEL
 *   collect_kineto_job.c   a job's way from there to the spool, and what an earlier collector left in hand
 *
 * One job per (capture, rank), written down beside the spool from TOLD on (collector/trigger/kineto_ledger.h):
 *
 *   PREPARED --COMMIT: trigger armed--> TOLD --written--> QUEUED --> READING --in the spool--> OVER, removed
 *      | cancel, or nothing for a minute   | refused, died, too late: LOST is told
 *      `--> removed                        `--> removed
 *
 *   A collector that was killed leaves TOLD, QUEUED and READING to the next one, which begins with them where they are.
 *
 * Step times and sizes are remembered per process from one capture to the next: the round-up, and the
 * question whether there is room, rest on them.
 */
#include "cli/collect_kineto_priv.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#define RS_LOG_TAG "kineto"
#include "common/base/log.h"

#include <inttypes.h>
#include <malloc.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    IDLE_WAIT_MS = 2000,
    BUSY_WAIT_MS = 50,
};

/* ---- who -------------------------------------------------------------------------------------------------- */

const char *kineto_run_of(const struct rs_collect_kineto *kineto,
                          const struct rs_kineto_client *client)
{
    if (client->process.run[0])
        return client->process.run;
    return *kineto->run ? kineto->run : kineto->host;
}

/* host:pid:start, and a mark of the spool: its numbers begin at 1 again when the spool is another. */
void kineto_incarnation_of(const struct rs_collect_kineto *kineto,
                           const struct rs_kineto_client *client, char text[KINETO_TEXT_BYTES])
{
    (void)snprintf(text, KINETO_TEXT_BYTES, "%.100s:%d:%" PRIu64 "/%.8s", kineto->host,
                   (int)client->process.pid, client->process.start_ticks,
                   rs_spool_id(kineto->options.spool));
}

const struct rs_kineto_client *kineto_find_client(const struct rs_collect_kineto *kineto, pid_t pid,
                                                  uint64_t start_ticks)
{
    size_t count = 0;
    const struct rs_kineto_client *clients = rs_kineto_trigger_clients(kineto->trigger, &count);
    for (size_t i = 0; i < count; i++)
        if (clients[i].process.pid == pid && clients[i].process.start_ticks == start_ticks)
            return &clients[i];
    return NULL;
}

/* The newest living process of a rank. */
const struct rs_kineto_client *kineto_find_rank(const struct rs_collect_kineto *kineto,
                                                const char *run, uint32_t rank)
{
    size_t count = 0;
    const struct rs_kineto_client *found = NULL;
    const struct rs_kineto_client *clients = rs_kineto_trigger_clients(kineto->trigger, &count);
    for (size_t i = 0; i < count; i++) {
        const struct rs_kineto_client *client = &clients[i];
        if (client->is_rank && !client->is_gone && client->process.rank >= 0 &&
            (uint32_t)client->process.rank == rank &&
            strcmp(kineto_run_of(kineto, client), run) == 0 &&
            (!found || client->first_poll > found->first_poll))
            found = client;
    }
    return found;
}

struct memory *kineto_memory_of(struct rs_collect_kineto *kineto, pid_t pid, uint64_t start_ticks)
{
    for (size_t i = 0; i < kineto->memory_count; i++)
        if (kineto->memories[i].pid == pid && kineto->memories[i].start_ticks == start_ticks)
            return &kineto->memories[i];
    return NULL;
}

/* ---- the table ---------------------------------------------------------------------------------------------- */

static enum rs_rank_state state_of(const struct rs_kineto_client *client, const struct job *job)
{
    if (client->is_gone)
        return RS_RANK_GONE;
    if (job && (client->state == RS_KINETO_RECORDING || client->state == RS_KINETO_WRITING))
        return RS_RANK_RECORDING;
    if (job)
        return RS_RANK_ARMED;
    return client->is_busy ? RS_RANK_BUSY : RS_RANK_IDLE;
}

static void fill_row(struct rs_collect_kineto *kineto, const struct rs_kineto_client *client,
                     struct row *row)
{
    const struct job *job = kineto_job_of_process(kineto, client->process.pid);
    const struct memory *memory =
        kineto_memory_of(kineto, client->process.pid, client->process.start_ticks);
    (void)snprintf(row->run, sizeof row->run, "%s", kineto_run_of(kineto, client));
    (void)snprintf(row->host, sizeof row->host, "%.256s", kineto->host);
    kineto_incarnation_of(kineto, client, row->incarnation);
    (void)snprintf(row->capture, sizeof row->capture, "%s", job ? job->facts.capture : "");
    rankscope__rank_state__init(&row->state);
    row->state.kind = RS_RANK_KINETO;
    row->state.rank = (uint32_t)client->process.rank;
    row->state.world = client->process.world_size > 0 ? (uint32_t)client->process.world_size : 0;
    row->state.pid = (uint32_t)client->process.pid;
    row->state.step = -1;
    row->state.step_duration_ns = memory ? memory->step_ns : 0;
    row->state.state = state_of(client, job);
    row->state.seen_ns = rs_time_realtime() - (rs_time_monotonic() - client->last_poll);
    row->state.can_capture = !client->is_gone;
}

static void refresh_table(struct rs_collect_kineto *kineto)
{
    size_t count = 0;
    const struct rs_kineto_client *clients = rs_kineto_trigger_clients(kineto->trigger, &count);
    (void)pthread_mutex_lock(&kineto->lock);
    kineto->table_count = 0;
    if (rs_mem_grow((void **)&kineto->table, &kineto->table_capacity, count + 1,
                    sizeof *kineto->table) == RS_OK)
        for (size_t i = 0; i < count; i++)
            if (clients[i].is_rank)
                fill_row(kineto, &clients[i], &kineto->table[kineto->table_count++]);
    (void)pthread_mutex_unlock(&kineto->lock);
}

size_t rs_collect_kineto_ranks(struct rs_collect_kineto *kineto, Rankscope__RankState ***states_p)
{
    size_t count = 0;
    (void)pthread_mutex_lock(&kineto->lock);
    if (rs_mem_grow((void **)&kineto->copy, &kineto->copy_capacity, kineto->table_count + 1,
                    sizeof *kineto->copy) == RS_OK &&
        rs_mem_grow((void **)&kineto->copy_states, &kineto->copy_state_capacity,
                    kineto->table_count + 1, sizeof(Rankscope__RankState *)) == RS_OK) {
        count = kineto->table_count;
        if (count)
            memcpy(kineto->copy, kineto->table, count * sizeof *kineto->copy);
    }
    (void)pthread_mutex_unlock(&kineto->lock);
    for (size_t i = 0; i < count; i++) {
        struct row *row = &kineto->copy[i];
        row->state.run = row->run;
        row->state.host = row->host;
        row->state.incarnation = row->incarnation;
        row->state.capture = row->capture;
        kineto->copy_states[i] = &row->state;
    }
    *states_p = kineto->copy_states;
    return count;
}

/* ---- telling ------------------------------------------------------------------------------------------------- */

void kineto_wake_uplink(struct rs_collect_kineto *kineto)
{
    kineto->options.wake(kineto->options.wake_self);
}

static void put_progress(struct rs_collect_kineto *kineto, const char *capture,
                         const Rankscope__RankProgress *progress)
{
    rs_mailbox_put_progress(&kineto->outbox, capture, progress);
    kineto_wake_uplink(kineto);
}

void kineto_tell_of(struct rs_collect_kineto *kineto, const char *capture, uint32_t rank,
                    enum rs_progress_state state, const char *text)
{
    Rankscope__RankProgress progress = RANKSCOPE__RANK_PROGRESS__INIT;
    progress.rank = rank;
    progress.state = state;
    progress.text = rs_letter_lend(text);
    put_progress(kineto, capture, &progress);
}

void kineto_tell(struct job *job, enum rs_progress_state state, const char *text)
{
    Rankscope__RankProgress progress = RANKSCOPE__RANK_PROGRESS__INIT;
    progress.rank = job->facts.rank;
    progress.state = state;
    progress.text = rs_letter_lend(text);
    if (state >= RS_PROGRESS_SENDING) {
        const int64_t found = job->task.optimizer_steps;
        const int64_t wanted = job->facts.steps;
        progress.steps_done = wanted && found > wanted ? wanted : found;
        progress.window_start_ns = job->task.window_start_ns;
        progress.window_end_ns = job->task.window_end_ns;
    }
    put_progress(job->kineto, job->facts.capture, &progress);
}

/* ---- the thread --------------------------------------------------------------------------------------------- */

/* Processes that are gone will not be asked again. */
static void forget(struct rs_collect_kineto *kineto)
{
    size_t kept = 0;
    for (size_t i = 0; i < kineto->memory_count; i++) {
        const struct memory *memory = &kineto->memories[i];
        if (kineto_find_client(kineto, memory->pid, memory->start_ticks))
            kineto->memories[kept++] = *memory;
    }
    kineto->memory_count = kept;
}

static void *work(void *self)
{
    struct rs_collect_kineto *kineto = self;
    int sockets[RS_KINETO_FDS_MAX];
    struct pollfd fds[RS_KINETO_FDS_MAX + 1] = {{.fd = kineto->wake, .events = POLLIN}};
    const size_t socket_count = rs_kineto_trigger_fds(kineto->trigger, sockets);
    for (size_t i = 0; i < socket_count; i++)
        fds[i + 1] = (struct pollfd){.fd = sockets[i], .events = POLLIN};
    bool is_busy = false;
    rs_ns ticked_at = 0;
    while (!atomic_load(&kineto->must_stop)) {
        uint64_t count = 0;
        (void)poll(fds, (nfds_t)(socket_count + 1), is_busy ? BUSY_WAIT_MS : IDLE_WAIT_MS);
        rs_kineto_trigger_serve(kineto->trigger);
        (void)!read(kineto->wake, &count, sizeof count);
        (void)kineto_watch_jobs(
            kineto); /* what is over must not stand in the way of a new request */
        kineto_read_inbox(kineto);
        const rs_ns now = rs_time_monotonic();
        const rs_dur every = (is_busy ? BUSY_WAIT_MS : IDLE_WAIT_MS) * (rs_dur)RS_NS_PER_MS;
        if (now >= ticked_at + every) {
            ticked_at = now;
            rs_kineto_trigger_tick(kineto->trigger);
            forget(kineto);
        }
        const bool was_busy = is_busy;
        is_busy = kineto_watch_jobs(kineto);
        if (was_busy && !is_busy)
            (void)malloc_trim(0); /* traces took it; idle, it stands for nothing */
        refresh_table(kineto);
    }
    return NULL;
}

/* ---- life ---------------------------------------------------------------------------------------------------------- */

static void free_kineto(struct rs_collect_kineto *kineto)
{
    rs_mailbox_fini(&kineto->inbox);
    rs_mailbox_fini(&kineto->outbox);
    rs_kineto_trigger_close(&kineto->trigger);
    if (kineto->wake >= 0)
        (void)close(kineto->wake);
    (void)pthread_cond_destroy(&kineto->queue_filled);
    (void)pthread_mutex_destroy(&kineto->lock);
    rs_mem_free(kineto->run);
    rs_mem_free(kineto->host);
    rs_mem_free(kineto->trace_dir);
    rs_mem_free(kineto->ledger_dir);
    rs_mem_free(kineto->memories);
    rs_mem_free(kineto->table);
    rs_mem_free(kineto->copy);
    rs_mem_free(kineto->copy_states);
    rs_mem_free(kineto);
}

static void join_threads(struct rs_collect_kineto *kineto)
{
    const uint64_t one = 1;
    (void)pthread_mutex_lock(&kineto->lock);
    atomic_store(&kineto->must_stop, true);
    (void)pthread_cond_broadcast(&kineto->queue_filled);
    (void)pthread_mutex_unlock(&kineto->lock);
    (void)!write(kineto->wake, &one, sizeof one);
    if (kineto->has_thread)
        (void)pthread_join(kineto->thread, NULL);
    for (size_t i = 0; i < kineto->reader_count; i++)
        (void)pthread_join(kineto->readers[i], NULL);
}

static enum rs_status start_threads(struct rs_collect_kineto *kineto, struct rs_err *err)
{
    for (size_t i = 0; i < KINETO_READER_COUNT; i++) {
        if (pthread_create(&kineto->readers[i], NULL, kineto_read_traces, kineto) != 0)
            return rs_err_set(err, RS_IO, "cannot start a thread");
        (void)pthread_setname_np(kineto->readers[i], "rs-kineto-read");
        kineto->reader_count++;
    }
    if (pthread_create(&kineto->thread, NULL, work, kineto) != 0)
        return rs_err_set(err, RS_IO, "cannot start a thread");
    (void)pthread_setname_np(kineto->thread, "rs-kineto");
    kineto->has_thread = true;
    return RS_OK;
}

enum rs_status rs_collect_kineto_start(const struct rs_collect_kineto_options *options,
                                       struct rs_collect_kineto **kineto_p, struct rs_err *err)
{
    struct rs_collect_kineto *kineto = rs_mem_calloc(1, sizeof *kineto);
    if (!kineto)
        return rs_err_set(err, RS_NOMEM, "no memory for the kineto trigger");
    kineto->options = *options;
    (void)pthread_mutex_init(&kineto->lock, NULL);
    (void)pthread_cond_init(&kineto->queue_filled, NULL);
    rs_mailbox_init(&kineto->inbox);
    rs_mailbox_init(&kineto->outbox);
    kineto->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    kineto->run = rs_mem_strdup(options->run);
    kineto->host = rs_mem_strdup(options->host);
    kineto->trace_dir = rs_mem_strdup(options->trace_dir);
    kineto->ledger_dir = rs_file_join(options->spool_dir, "kineto");
    const struct rs_kineto_trigger_options trigger = {.socket_dir = options->socket_dir,
                                                      .socket_name = options->socket_name,
                                                      .msmonitor_home = options->msmonitor_home,
                                                      .before_delivery = kineto_before_delivery,
                                                      .self = kineto};
    enum rs_status status = RS_OK;
    if (kineto->wake < 0)
        status = rs_err_errno(err, "cannot make an eventfd");
    else if (!kineto->run || !kineto->host || !kineto->trace_dir || !kineto->ledger_dir)
        status = rs_err_set(err, RS_NOMEM, "no memory for the kineto trigger");
    if (status == RS_OK)
        status = rs_kineto_trigger_open(&trigger, &kineto->trigger, err);
    if (status == RS_OK) {
        kineto_adopt_jobs(kineto);
        refresh_table(kineto); /* the first letter to the aggregator says who is in hand */
    }
    if (status == RS_OK)
        status = start_threads(kineto, err);
    if (status < 0) {
        join_threads(kineto);
        free_kineto(kineto);
        return status;
    }
    *kineto_p = kineto;
    return RS_OK;
}

/* In hand at the end: delivered ones stay written down, and the next collector goes on with them. */
static void leave_job(struct rs_collect_kineto *kineto, struct job *job)
{
    const bool is_over = job->phase == OVER && !job->has_failed;
    job->is_left = !is_over && job->phase != PREPARED && job->facts.phase != RS_KINETO_JOB_ARMED &&
                   job->is_written_down;
    if (!job->is_left && !is_over && job->phase != PREPARED)
        kineto_tell(job, RS_PROGRESS_LOST, "the collector was stopped before it was told");
    kineto_remove_job(kineto, job);
}

static void send_letters(struct rs_collect_kineto *kineto, struct rs_uplink *uplink)
{
    for (ProtobufCMessage *letter = rs_mailbox_take(&kineto->outbox); letter;
         letter = rs_mailbox_take(&kineto->outbox)) {
        rs_uplink_send(uplink, (const Rankscope__Up *)letter);
        protobuf_c_message_free_unpacked(letter, NULL);
    }
}

void rs_collect_kineto_stop(struct rs_collect_kineto **kineto_p, struct rs_uplink *uplink)
{
    struct rs_collect_kineto *kineto = *kineto_p;
    if (!kineto)
        return;
    *kineto_p = NULL;
    join_threads(kineto);
    while (kineto->jobs)
        leave_job(kineto, kineto->jobs);
    send_letters(kineto, uplink);
    free_kineto(kineto);
}

static void put(struct rs_collect_kineto *kineto, const ProtobufCMessage *letter)
{
    const uint64_t one = 1;
    rs_mailbox_put(&kineto->inbox, letter);
    (void)!write(kineto->wake, &one, sizeof one);
}

void rs_collect_kineto_prepare(struct rs_collect_kineto *kineto, const Rankscope__Prepare *prepare)
{
    put(kineto, &prepare->base);
}

void rs_collect_kineto_commit(struct rs_collect_kineto *kineto, const Rankscope__Commit *commit)
{
    put(kineto, &commit->base);
}

void rs_collect_kineto_cancel(struct rs_collect_kineto *kineto, const Rankscope__Cancel *cancel)
{
    put(kineto, &cancel->base);
}

/* While the link is down they wait: what became of a capture in the meantime must not be lost. */
void rs_collect_kineto_letters(struct rs_collect_kineto *kineto, struct rs_uplink *uplink)
{
    if (rs_uplink_stats(uplink).is_up)
        send_letters(kineto, uplink);
}
