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
 *   collect_kineto.c       threads, the live table, messages in and out
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
 *   PREPARED, the step time of the run is not known and no round-up was given:
 *      one rank of the node --TOLD: a probe of one iteration--> QUEUED --> READING --measured, not kept--> PREPARED, armed
 *                                             `--one says too little: a probe of two--'
 *      the others say that they wait, every few seconds, and are armed with it
 *
 * Step times and sizes are remembered per process from one capture to the next: the round-up, and the
 * question whether there is room, rest on them.
 */
#include "collector/agent/collect_kineto_priv.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/base/run_delay.h"
#include "common/base/thread.h"

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
    return rs_agent_adapter_run(&kineto->base, client->process.run);
}

void kineto_incarnation_of(const struct rs_collect_kineto *kineto,
                           const struct rs_kineto_client *client, char text[KINETO_TEXT_BYTES])
{
    rs_agent_adapter_incarnation(&kineto->base, kineto->base.host, client->process.pid,
                                 client->process.start_ticks, text);
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

rs_dur kineto_step_of(struct rs_collect_kineto *kineto, const struct rs_kineto_client *client)
{
    const struct memory *own =
        kineto_memory_of(kineto, client->process.pid, client->process.start_ticks);
    if (own && own->step_ns > 0)
        return own->step_ns;
    for (size_t i = 0; i < kineto->memory_count; i++) {
        const struct memory *memory = &kineto->memories[i];
        const struct rs_kineto_client *other =
            memory->step_ns > 0 ? kineto_find_client(kineto, memory->pid, memory->start_ticks)
                                : NULL;
        if (other && strcmp(other->process.run, client->process.run) == 0)
            return memory->step_ns;
    }
    return 0;
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
                     struct rs_agent_row *row)
{
    char incarnation[KINETO_TEXT_BYTES];
    const struct job *job = kineto_job_of_process(kineto, client->process.pid);
    const struct memory *memory =
        kineto_memory_of(kineto, client->process.pid, client->process.start_ticks);
    kineto_incarnation_of(kineto, client, incarnation);
    rs_agent_adapter_fill(&kineto->base, row, kineto_run_of(kineto, client), kineto->base.host,
                          incarnation, job ? job->facts.capture : "");
    rs_agent_adapter_set_user(row, (int64_t)client->process.uid);
    row->state.rank = (uint32_t)client->process.rank;
    row->state.world = client->process.world_size > 0 ? (uint32_t)client->process.world_size : 0;
    row->state.pid = (uint32_t)client->process.pid;
    row->state.step = -1;
    row->state.step_duration_ns = memory ? memory->step_ns : 0;
    row->state.state = state_of(client, job);
    row->state.seen_ns = rs_time_realtime() - (rs_time_monotonic() - client->last_poll);
    row->state.can_capture = !client->is_gone;
    row->state.delay_ns = client->is_gone ? 0 : rs_run_delay(client->process.pid);
}

static void refresh_table(struct rs_collect_kineto *kineto)
{
    size_t count = 0;
    const struct rs_kineto_client *clients = rs_kineto_trigger_clients(kineto->trigger, &count);
    (void)pthread_mutex_lock(&kineto->base.lock);
    kineto->base.table_count = 0;
    if (rs_agent_adapter_grow(&kineto->base, count))
        for (size_t i = 0; i < count; i++)
            if (clients[i].is_rank)
                fill_row(kineto, &clients[i], &kineto->base.table[kineto->base.table_count++]);
    (void)pthread_mutex_unlock(&kineto->base.lock);
}

/* ---- telling ------------------------------------------------------------------------------------------------- */

static void put_progress(struct rs_collect_kineto *kineto, const char *capture,
                         const Rankscope__RankProgress *progress)
{
    rs_agent_adapter_progress(&kineto->base, capture, progress);
}

void kineto_report_of(struct rs_collect_kineto *kineto, const char *capture, uint32_t rank,
                      enum rs_progress_state state, const char *text)
{
    Rankscope__RankProgress progress = RANKSCOPE__RANK_PROGRESS__INIT;
    progress.rank = rank;
    progress.state = state;
    progress.text = rs_const_cast(text);
    put_progress(kineto, capture, &progress);
}

void kineto_report(struct job *job, enum rs_progress_state state, const char *text)
{
    Rankscope__RankProgress progress = RANKSCOPE__RANK_PROGRESS__INIT;
    progress.rank = job->facts.rank;
    progress.state = state;
    progress.text = rs_const_cast(text);
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
    rs_thread_is(RS_THREAD_KINETO);
    struct rs_collect_kineto *kineto = self;
    int sockets[RS_KINETO_FDS_MAX];
    struct pollfd fds[RS_KINETO_FDS_MAX + 1] = {{.fd = kineto->base.wake_fd, .events = POLLIN}};
    const size_t socket_count = rs_kineto_trigger_fds(kineto->trigger, sockets);
    for (size_t i = 0; i < socket_count; i++)
        fds[i + 1] = (struct pollfd){.fd = sockets[i], .events = POLLIN};
    bool is_busy = false;
    rs_ns ticked_at = 0;
    while (!atomic_load(&kineto->base.must_stop)) {
        uint64_t count = 0;
        (void)poll(fds, (nfds_t)(socket_count + 1), is_busy ? BUSY_WAIT_MS : IDLE_WAIT_MS);
        rs_kineto_trigger_serve(kineto->trigger);
        (void)!read(kineto->base.wake_fd, &count, sizeof count);
        (void)kineto_watch_jobs(
            kineto); /* what is over must not stand in the way of a new request */
        rs_agent_adapter_read(&kineto->base, &kineto_handlers);
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
    rs_kineto_trigger_close(&kineto->trigger);
    (void)pthread_cond_destroy(&kineto->queue_filled);
    rs_agent_adapter_fini(&kineto->base);
    rs_mem_free(kineto->trace_dir);
    rs_mem_free(kineto->ledger_dir);
    rs_mem_free(kineto->memories);
    rs_mem_free(kineto);
}

static void join_threads(struct rs_collect_kineto *kineto)
{
    (void)pthread_mutex_lock(&kineto->base.lock);
    atomic_store(&kineto->base.must_stop, true);
    (void)pthread_cond_broadcast(&kineto->queue_filled);
    (void)pthread_mutex_unlock(&kineto->base.lock);
    rs_agent_adapter_rouse(&kineto->base);
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

/* In hand at the end: delivered ones stay written down, and the next collector goes on with them. */
static void leave_job(struct rs_collect_kineto *kineto, struct job *job)
{
    const bool is_over = job->phase == OVER && !job->has_failed;
    job->is_left = !is_over && job->phase != PREPARED && job->facts.phase != RS_KINETO_JOB_ARMED &&
                   job->is_written_down;
    if (!job->is_left && !is_over && job->phase != PREPARED)
        kineto_report(job, RS_PROGRESS_LOST, "the collector was stopped before it was notified");
    kineto_remove_job(kineto, job);
}

static void stop(struct rs_agent_adapter *adapter, struct rs_uplink *uplink)
{
    struct rs_collect_kineto *kineto = (struct rs_collect_kineto *)adapter; /* its first member */
    join_threads(kineto);
    while (kineto->jobs)
        leave_job(kineto, kineto->jobs);
    rs_agent_adapter_send_last(&kineto->base, uplink);
    free_kineto(kineto);
}

enum rs_status rs_collect_kineto_start(const struct rs_agent_adapter_options *base,
                                       const struct rs_collect_kineto_options *options,
                                       struct rs_agent_adapter **adapter_p, struct rs_err *err)
{
    struct rs_collect_kineto *kineto = rs_mem_calloc(1, sizeof *kineto);
    if (!kineto)
        return rs_err_set(err, RS_NOMEM, "no memory for the kineto trigger");
    (void)pthread_cond_init(&kineto->queue_filled, NULL);
    kineto->base.stop = stop;
    kineto->trace_dir = rs_mem_strdup(options->trace_dir);
    kineto->ledger_dir = rs_file_join(options->spool_dir, "kineto");
    const struct rs_kineto_trigger_options trigger = {.socket_dir = options->socket_dir,
                                                      .socket_name = options->socket_name,
                                                      .msmonitor_home = options->msmonitor_home,
                                                      .before_delivery = kineto_before_delivery,
                                                      .self = kineto};
    enum rs_status status = rs_agent_adapter_init(&kineto->base, base, err);
    if (status == RS_OK && (!kineto->trace_dir || !kineto->ledger_dir))
        status = rs_err_set(err, RS_NOMEM, "no memory for the kineto trigger");
    if (status == RS_OK)
        status = rs_kineto_trigger_open(&trigger, &kineto->trigger, err);
    if (status == RS_OK) {
        kineto_adopt_jobs(kineto);
        refresh_table(kineto); /* the first message to the aggregator says who is in hand */
    }
    if (status == RS_OK)
        status = start_threads(kineto, err);
    if (status < 0) {
        join_threads(kineto);
        free_kineto(kineto);
        return status;
    }
    *adapter_p = &kineto->base;
    return RS_OK;
}
