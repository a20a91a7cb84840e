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
 * One job per (capture, rank):
 *
 *   PREPARED --COMMIT: trigger armed--> TOLD --written--> QUEUED --> READING --in the spool--> OVER, removed
 *      | cancel, or nothing for a minute   | refused, died, too late: LOST is told
 *      `--> removed                        `--> removed
 *
 * Step times and sizes are remembered per process from one capture to the next: the round-up, and the
 * question whether there is room, rest on them.
 */
#include "cli/collect.h"
#include "cli/collect_mail.h"
#include "cli/collect_trace.h"
#include "cli/tracedir.h"
#include "collector/trigger/kineto.h"
#include "common/base/mem.h"

#define RS_LOG_TAG "kineto"
#include "common/base/log.h"

#include <inttypes.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    READER_COUNT = 2,
    IDLE_WAIT_MS = 2000,
    BUSY_WAIT_MS = 50,
    TEXT_BYTES = 257,
    WARMUP_S = 0,
    /* Sizes when nothing was captured yet: a busy rank writes 25 to 70 MB a second. */
    DEFAULT_BYTES_PER_S = 60 * 1000 * 1000,
};

static const rs_dur prepared_timeout_ns = 60 * (rs_dur)RS_NS_PER_S;
static const rs_dur default_timeout_ns = 600 * (rs_dur)RS_NS_PER_S;
static const rs_dur unknown_step_ns = RS_NS_PER_S; /* for the estimate only */

enum job_phase { PREPARED, TOLD, QUEUED, READING, OVER };

struct job {
    struct job *next;
    struct rs_collect_kineto *kineto;
    char capture[65];
    char run[TEXT_BYTES], host[TEXT_BYTES], incarnation[TEXT_BYTES];
    uint32_t rank;
    int32_t world;
    pid_t pid;
    uint64_t start_ticks;
    uint32_t steps;
    enum job_phase phase; /* from QUEUED on under the lock */
    rs_ns prepared_at;
    enum rs_kineto_state shown;
    char path[1100];
    struct rs_trace_task task;
    bool has_failed;
    struct rs_err err;
};

/* What an earlier capture told of a process. */
struct memory {
    pid_t pid;
    uint64_t start_ticks;
    rs_dur step_ns;
    int64_t bytes_per_s;
};

struct row {
    char run[TEXT_BYTES], host[TEXT_BYTES], incarnation[TEXT_BYTES], capture[65];
    Rankscope__RankState state;
};

struct rs_collect_kineto {
    struct rs_collect_kineto_options options;
    char *run, *host, *trace_dir;
    struct rs_kineto_trigger *trigger;
    int wake;
    atomic_bool must_stop;
    pthread_t thread, readers[READER_COUNT];
    size_t reader_count;
    bool has_thread;
    struct job *jobs; /* of rs-kineto; readers see the one they took */
    struct memory *memories;
    size_t memory_count, memory_capacity;
    int64_t last_bytes_per_s; /* of any rank; 0 none yet */
    struct rs_mailbox inbox, outbox;

    pthread_mutex_t lock; /* guards phases of jobs, the queue, the table */
    pthread_cond_t queue_filled;
    struct row *table;
    size_t table_count, table_capacity;

    struct row *copy; /* the uplink thread's */
    Rankscope__RankState **copy_states;
    size_t copy_capacity, copy_state_capacity;
};

/* ---- who -------------------------------------------------------------------------------------------------- */

static const char *run_of(const struct rs_collect_kineto *kineto,
                          const struct rs_kineto_client *client)
{
    if (client->process.run[0])
        return client->process.run;
    return *kineto->run ? kineto->run : kineto->host;
}

/* host:pid:start, and a mark of the spool: its numbers begin at 1 again when the spool is another. */
static void incarnation_of(const struct rs_collect_kineto *kineto,
                           const struct rs_kineto_client *client, char text[TEXT_BYTES])
{
    (void)snprintf(text, TEXT_BYTES, "%.100s:%d:%" PRIu64 "/%.8s", kineto->host,
                   (int)client->process.pid, client->process.start_ticks,
                   rs_spool_id(kineto->options.spool));
}

static const struct rs_kineto_client *find_client(const struct rs_collect_kineto *kineto, pid_t pid,
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
static const struct rs_kineto_client *find_rank(const struct rs_collect_kineto *kineto,
                                                const char *run, uint32_t rank)
{
    size_t count = 0;
    const struct rs_kineto_client *found = NULL;
    const struct rs_kineto_client *clients = rs_kineto_trigger_clients(kineto->trigger, &count);
    for (size_t i = 0; i < count; i++) {
        const struct rs_kineto_client *client = &clients[i];
        if (client->is_rank && !client->is_gone && client->process.rank >= 0 &&
            (uint32_t)client->process.rank == rank && strcmp(run_of(kineto, client), run) == 0 &&
            (!found || client->first_poll > found->first_poll))
            found = client;
    }
    return found;
}

static enum job_phase phase_of(struct rs_collect_kineto *kineto, const struct job *job)
{
    (void)pthread_mutex_lock(&kineto->lock);
    const enum job_phase phase = job->phase;
    (void)pthread_mutex_unlock(&kineto->lock);
    return phase;
}

static struct job *job_of_process(const struct rs_collect_kineto *kineto, pid_t pid)
{
    for (struct job *job = kineto->jobs; job; job = job->next)
        if (job->pid == pid)
            return job;
    return NULL;
}

static struct memory *memory_of(struct rs_collect_kineto *kineto, pid_t pid, uint64_t start_ticks)
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
    const struct job *job = job_of_process(kineto, client->process.pid);
    const struct memory *memory =
        memory_of(kineto, client->process.pid, client->process.start_ticks);
    (void)snprintf(row->run, sizeof row->run, "%s", run_of(kineto, client));
    (void)snprintf(row->host, sizeof row->host, "%.256s", kineto->host);
    incarnation_of(kineto, client, row->incarnation);
    (void)snprintf(row->capture, sizeof row->capture, "%s", job ? job->capture : "");
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

static void wake_uplink(struct rs_collect_kineto *kineto)
{
    kineto->options.wake(kineto->options.wake_self);
}

static void refuse(struct rs_collect_kineto *kineto, const char *capture, uint32_t rank,
                   const char *incarnation, const char *why)
{
    Rankscope__ArmedRank armed = RANKSCOPE__ARMED_RANK__INIT;
    armed.rank = rank;
    armed.incarnation = rs_letter_lend(incarnation);
    armed.step = -1;
    armed.refused = rs_letter_lend(why);
    rs_mailbox_put_armed(&kineto->outbox, capture, &armed);
    wake_uplink(kineto);
}

static void tell(struct job *job, enum rs_progress_state state, const char *text)
{
    Rankscope__RankProgress progress = RANKSCOPE__RANK_PROGRESS__INIT;
    progress.rank = job->rank;
    progress.state = state;
    progress.text = rs_letter_lend(text);
    if (state >= RS_PROGRESS_SENDING) {
        const int64_t found = job->task.optimizer_steps;
        progress.steps_done = job->steps && found > job->steps ? job->steps : found;
        progress.window_start_ns = job->task.window_start_ns;
        progress.window_end_ns = job->task.window_end_ns;
    }
    rs_mailbox_put_progress(&job->kineto->outbox, job->capture, &progress);
    wake_uplink(job->kineto);
}

/* ---- prepare ---------------------------------------------------------------------------------------------------- */

/* What this rank is going to write, in bytes. */
static int64_t estimate(struct rs_collect_kineto *kineto, const struct rs_kineto_client *client,
                        const Rankscope__Prepare *prepare)
{
    const struct memory *memory =
        memory_of(kineto, client->process.pid, client->process.start_ticks);
    const rs_dur step = memory && memory->step_ns > 0 ? memory->step_ns : unknown_step_ns;
    int64_t rate = DEFAULT_BYTES_PER_S;
    if (memory && memory->bytes_per_s > 0)
        rate = memory->bytes_per_s;
    else if (kineto->last_bytes_per_s > 0)
        rate = kineto->last_bytes_per_s;
    const double seconds = prepare->steps ? (double)prepare->steps * (double)step / 1e9
                                          : (double)prepare->duration_ns / 1e9 + 1.0;
    const double bytes = seconds * (double)rate;
    return bytes < 1e18 ? (int64_t)bytes : INT64_MAX / 4;
}

static int64_t estimate_all(struct rs_collect_kineto *kineto, const Rankscope__Prepare *prepare)
{
    int64_t bytes = 0;
    for (size_t i = 0; i < prepare->n_ranks; i++) {
        const struct rs_kineto_client *client = find_rank(kineto, prepare->run, prepare->ranks[i]);
        const int64_t own = client ? estimate(kineto, client, prepare) : 0;
        bytes = own < INT64_MAX / 2 - bytes ? bytes + own : INT64_MAX / 2;
    }
    return bytes;
}

static struct job *new_job(struct rs_collect_kineto *kineto, const struct rs_kineto_client *client,
                           const Rankscope__Prepare *prepare, uint32_t rank)
{
    struct job *job = rs_mem_calloc(1, sizeof *job);
    if (!job)
        return NULL;
    job->kineto = kineto;
    (void)snprintf(job->capture, sizeof job->capture, "%.64s", prepare->capture);
    (void)snprintf(job->run, sizeof job->run, "%s", run_of(kineto, client));
    (void)snprintf(job->host, sizeof job->host, "%.256s", kineto->host);
    incarnation_of(kineto, client, job->incarnation);
    job->rank = rank;
    job->world = client->process.world_size;
    job->pid = client->process.pid;
    job->start_ticks = client->process.start_ticks;
    job->steps = prepare->steps;
    job->phase = PREPARED;
    job->prepared_at = rs_time_monotonic();
    job->next = kineto->jobs;
    kineto->jobs = job;
    return job;
}

static void prepare_rank(struct rs_collect_kineto *kineto, const Rankscope__Prepare *prepare,
                         uint32_t rank, const char *warning)
{
    const struct rs_kineto_client *client = find_rank(kineto, prepare->run, rank);
    char incarnation[TEXT_BYTES] = "";
    char why[128] = "";
    const struct job *other = client ? job_of_process(kineto, client->process.pid) : NULL;
    if (other && strcmp(other->capture, prepare->capture) == 0)
        return; /* asked twice: the answer is under way */
    if (client)
        incarnation_of(kineto, client, incarnation);
    if (!client)
        (void)snprintf(why, sizeof why, "its process is not there any more");
    else if (other)
        (void)snprintf(why, sizeof why, "it records for capture %.64s already", other->capture);
    else if (client->is_busy)
        (void)snprintf(why, sizeof why, "it is busy with a profile of its own");
    else if (!new_job(kineto, client, prepare, rank))
        (void)snprintf(why, sizeof why, "the collector is out of memory");
    if (*why) {
        refuse(kineto, prepare->capture, rank, incarnation, why);
        return;
    }
    const struct memory *memory =
        memory_of(kineto, client->process.pid, client->process.start_ticks);
    Rankscope__ArmedRank armed = RANKSCOPE__ARMED_RANK__INIT;
    armed.rank = rank;
    armed.incarnation = incarnation;
    armed.step = -1;
    armed.step_duration_ns = memory ? memory->step_ns : 0;
    armed.next_poll_ns = rs_kineto_trigger_next_poll(kineto->trigger, client);
    armed.poll_period_ns = client->poll_period;
    armed.lead_ns = rs_kineto_trigger_lead(WARMUP_S);
    armed.warning = rs_letter_lend(warning);
    rs_mailbox_put_armed(&kineto->outbox, prepare->capture, &armed);
    wake_uplink(kineto);
}

static void on_prepare(struct rs_collect_kineto *kineto, const Rankscope__Prepare *prepare)
{
    struct rs_err err = {0};
    char warning[512] = "";
    const bool is_forced = prepare->options && prepare->options->force;
    enum rs_status status = rs_tracedir_prepare(kineto->trace_dir, &err);
    if (status == RS_OK)
        status = rs_tracedir_check(kineto->trace_dir, estimate_all(kineto, prepare), is_forced,
                                   warning, sizeof warning, &err);
    if (status == RS_OK && *warning)
        rs_log_warn("capture %.64s: %s", prepare->capture, warning);
    for (size_t i = 0; i < prepare->n_ranks; i++) {
        char incarnation[TEXT_BYTES] = "";
        const struct rs_kineto_client *client = find_rank(kineto, prepare->run, prepare->ranks[i]);
        if (client)
            incarnation_of(kineto, client, incarnation);
        if (status < 0)
            refuse(kineto, prepare->capture, prepare->ranks[i], incarnation, err.text);
        else
            prepare_rank(kineto, prepare, prepare->ranks[i], i == 0 ? warning : "");
    }
}

/* ---- commit -------------------------------------------------------------------------------------------------------- */

static void remove_job(struct rs_collect_kineto *kineto, struct job *job)
{
    struct job **at = &kineto->jobs;
    while (*at != job)
        at = &(*at)->next;
    *at = job->next;
    bool is_last = true;
    for (const struct job *other = kineto->jobs; other; other = other->next)
        is_last = is_last && strcmp(other->capture, job->capture) != 0;
    if (is_last)
        rs_tracedir_clean(kineto->trace_dir, job->capture);
    rs_mem_free(job);
}

static void fill_config(const Rankscope__Commit *commit, struct rs_kineto_config *config)
{
    const Rankscope__ProfilerOptions none = RANKSCOPE__PROFILER_OPTIONS__INIT;
    const Rankscope__ProfilerOptions *options = commit->options ? commit->options : &none;
    const int64_t ms = commit->duration_ns / RS_NS_PER_MS;
    *config = (struct rs_kineto_config){
        .iterations = commit->steps < INT32_MAX ? (int32_t)commit->steps : INT32_MAX,
        .start_iteration = -1,
        .iteration_roundup =
            options->roundup && options->roundup < INT32_MAX ? (int32_t)options->roundup : 500,
        .start_time_ms = commit->start_time_ns / RS_NS_PER_MS,
        .duration_ms = commit->steps == 0 && ms < INT32_MAX ? (int32_t)ms : 0,
        .warmup_s = WARMUP_S,
        .record_shapes = options->record_shapes,
        .with_stack = options->with_stack,
        .profile_memory = options->profile_memory};
}

static void commit_job(struct rs_collect_kineto *kineto, struct job *job,
                       const Rankscope__Commit *commit)
{
    struct rs_err err = {0};
    const rs_dur timeout = commit->options && commit->options->timeout_ns > 0
                               ? commit->options->timeout_ns
                               : default_timeout_ns;
    struct rs_kineto_arm arm = {.pid = job->pid,
                                .capture_id = job->capture,
                                .trace_root = kineto->trace_dir,
                                .deadline = timeout,
                                .deliver_from = commit->deliver_from_ns};
    fill_config(commit, &arm.config);
    const struct rs_kineto_client *client = find_client(kineto, job->pid, job->start_ticks);
    enum rs_status status = RS_OK;
    if (!client)
        status = rs_err_set(&err, RS_NOTFOUND, "its process ended");
    else if (!commit->steps && rs_kineto_trigger_earliest_ms(kineto->trigger, client, WARMUP_S) >
                                   arm.config.start_time_ms)
        status =
            rs_err_set(&err, RS_REFUSED,
                       "it asks for work too late for the common start: the request came late, "
                       "or the clocks of the hosts differ");
    if (status == RS_OK)
        status = rs_kineto_trigger_arm(kineto->trigger, &arm, &err);
    if (status < 0) {
        tell(job, RS_PROGRESS_REFUSED, err.text);
        remove_job(kineto, job);
        return;
    }
    job->steps = commit->steps;
    job->phase = TOLD;
    job->shown = RS_KINETO_ARMED;
}

static struct job *find_job(const struct rs_collect_kineto *kineto, const char *capture,
                            uint32_t rank)
{
    for (struct job *job = kineto->jobs; job; job = job->next)
        if (job->rank == rank && strcmp(job->capture, capture) == 0)
            return job;
    return NULL;
}

static void on_commit(struct rs_collect_kineto *kineto, const Rankscope__Commit *commit)
{
    for (size_t i = 0; i < commit->n_ranks; i++) {
        struct job *job = find_job(kineto, commit->capture, commit->ranks[i]);
        if (job && job->phase == PREPARED)
            commit_job(kineto, job, commit);
    }
}

static void on_cancel(struct rs_collect_kineto *kineto, const Rankscope__Cancel *cancel)
{
    for (struct job *job = kineto->jobs; job;) {
        struct job *next = job->next;
        const enum job_phase phase = phase_of(kineto, job);
        if (strcmp(job->capture, cancel->capture) == 0 &&
            (phase == PREPARED ||
             (phase == TOLD && rs_kineto_trigger_cancel(kineto->trigger, job->pid) == RS_OK))) {
            tell(job, RS_PROGRESS_LOST, cancel->reason);
            remove_job(kineto, job);
        }
        job = next;
    }
}

static void read_inbox(struct rs_collect_kineto *kineto)
{
    for (ProtobufCMessage *letter = rs_mailbox_take(&kineto->inbox); letter;
         letter = rs_mailbox_take(&kineto->inbox)) {
        const ProtobufCMessageDescriptor *kind = letter->descriptor;
        if (kind == &rankscope__prepare__descriptor)
            on_prepare(kineto, (const Rankscope__Prepare *)letter);
        else if (kind == &rankscope__commit__descriptor)
            on_commit(kineto, (const Rankscope__Commit *)letter);
        else
            on_cancel(kineto, (const Rankscope__Cancel *)letter);
        protobuf_c_message_free_unpacked(letter, NULL);
    }
}

/* ---- reading ---------------------------------------------------------------------------------------------------- */

static void before_end(void *self, const char *text)
{
    tell(self, RS_PROGRESS_SENDING, text);
}

static void read_job(struct job *job)
{
    struct rs_collect_kineto *kineto = job->kineto;
    tell(job, RS_PROGRESS_READING, "");
    job->task =
        (struct rs_trace_task){.spool = kineto->options.spool,
                               .source = {.run = job->run,
                                          .rank = job->rank,
                                          .incarnation = job->incarnation,
                                          .capture = job->capture,
                                          .capture_key = "",
                                          .world = job->world > 0 ? (uint32_t)job->world : 0,
                                          .host = job->host,
                                          .origin = job->path,
                                          .keeps_sequence = true},
                               .path = job->path,
                               .rank = job->rank,
                               .world = job->world,
                               .wanted_steps = job->steps,
                               .must_stop = &kineto->must_stop,
                               .before_end = before_end,
                               .self = job};
    job->has_failed = rs_trace_take(&job->task, &job->err) < 0;
}

static struct job *next_queued(struct rs_collect_kineto *kineto)
{
    for (struct job *job = kineto->jobs; job; job = job->next)
        if (job->phase == QUEUED)
            return job;
    return NULL;
}

static void *read_traces(void *self)
{
    struct rs_collect_kineto *kineto = self;
    (void)pthread_mutex_lock(&kineto->lock);
    while (!atomic_load(&kineto->must_stop)) {
        struct job *job = next_queued(kineto);
        if (!job) {
            (void)pthread_cond_wait(&kineto->queue_filled, &kineto->lock);
            continue;
        }
        job->phase = READING;
        (void)pthread_mutex_unlock(&kineto->lock);
        read_job(job);
        (void)pthread_mutex_lock(&kineto->lock);
        job->phase = OVER;
        const uint64_t one = 1;
        (void)!write(kineto->wake, &one, sizeof one);
    }
    (void)pthread_mutex_unlock(&kineto->lock);
    return NULL;
}

/* ---- watching jobs -------------------------------------------------------------------------------------------- */

static void remember(struct rs_collect_kineto *kineto, const struct job *job)
{
    const struct rs_trace_task *task = &job->task;
    const rs_dur window = task->window_end_ns - task->window_start_ns;
    const int64_t steps = job->steps && task->optimizer_steps ? job->steps : task->optimizer_steps;
    struct memory *memory = memory_of(kineto, job->pid, job->start_ticks);
    if (window <= 0)
        return;
    kineto->last_bytes_per_s = (int64_t)((double)task->bytes / ((double)window / 1e9));
    if (!memory) {
        if (rs_mem_grow((void **)&kineto->memories, &kineto->memory_capacity,
                        kineto->memory_count + 1, sizeof *kineto->memories) < 0)
            return;
        memory = &kineto->memories[kineto->memory_count++];
        *memory = (struct memory){.pid = job->pid, .start_ticks = job->start_ticks};
    }
    memory->bytes_per_s = kineto->last_bytes_per_s;
    /* Two optimizers in a step count two: what counts for the round-up is what the profiler counts. */
    if (steps > 0)
        memory->step_ns = window / steps;
}

static void finish_job(struct rs_collect_kineto *kineto, struct job *job)
{
    if (job->has_failed) {
        char text[600];
        rs_log_error("rank %u: %s", job->rank, job->err.text);
        (void)snprintf(text, sizeof text, "%.400s; its trace stays at %.150s", job->err.text,
                       job->path);
        tell(job, RS_PROGRESS_LOST, text);
    } else {
        remember(kineto, job);
        rs_log_info("rank %u: %" PRId64 " bytes of trace taken, from %" PRId64 " to %" PRId64,
                    job->rank, job->task.bytes, job->task.window_start_ns, job->task.window_end_ns);
    }
    remove_job(kineto, job);
}

static void queue_job(struct rs_collect_kineto *kineto, struct job *job, const char *path)
{
    (void)snprintf(job->path, sizeof job->path, "%s", path);
    tell(job, RS_PROGRESS_WRITTEN, "");
    (void)pthread_mutex_lock(&kineto->lock);
    job->phase = QUEUED;
    (void)pthread_cond_signal(&kineto->queue_filled);
    (void)pthread_mutex_unlock(&kineto->lock);
}

static void watch_told(struct rs_collect_kineto *kineto, struct job *job)
{
    const struct rs_kineto_client *client = find_client(kineto, job->pid, job->start_ticks);
    if (!client || strcmp(client->capture_id, job->capture) != 0) {
        tell(job, RS_PROGRESS_LOST, "its process ended");
        remove_job(kineto, job);
        return;
    }
    if (client->state == job->shown)
        return;
    job->shown = client->state;
    switch (client->state) {
    case RS_KINETO_IDLE:
    case RS_KINETO_ARMED:
        return;
    case RS_KINETO_DELIVERED:
        tell(job, RS_PROGRESS_DELIVERED, "");
        return;
    case RS_KINETO_RECORDING:
    case RS_KINETO_WRITING:
        tell(job, RS_PROGRESS_RECORDING, "");
        return;
    case RS_KINETO_WRITTEN:
        queue_job(kineto, job, client->trace_path);
        return;
    case RS_KINETO_FAILED:
        tell(job, RS_PROGRESS_LOST, client->failure);
        remove_job(kineto, job);
        return;
    }
}

/* true: something is in hand. */
static bool watch_jobs(struct rs_collect_kineto *kineto)
{
    for (struct job *job = kineto->jobs; job;) {
        struct job *next = job->next;
        const enum job_phase phase = phase_of(kineto, job);
        if (phase == TOLD)
            watch_told(kineto, job);
        else if (phase == OVER)
            finish_job(kineto, job);
        else if (phase == PREPARED && rs_time_monotonic() > job->prepared_at + prepared_timeout_ns)
            remove_job(kineto, job);
        job = next;
    }
    return kineto->jobs != NULL;
}

/* Processes that are gone will not be asked again. */
static void forget(struct rs_collect_kineto *kineto)
{
    size_t kept = 0;
    for (size_t i = 0; i < kineto->memory_count; i++) {
        const struct memory *memory = &kineto->memories[i];
        if (find_client(kineto, memory->pid, memory->start_ticks))
            kineto->memories[kept++] = *memory;
    }
    kineto->memory_count = kept;
}

static void *work(void *self)
{
    struct rs_collect_kineto *kineto = self;
    struct pollfd fds[] = {{.fd = rs_kineto_trigger_fd(kineto->trigger), .events = POLLIN},
                           {.fd = kineto->wake, .events = POLLIN}};
    bool is_busy = false;
    rs_ns ticked_at = 0;
    while (!atomic_load(&kineto->must_stop)) {
        uint64_t count = 0;
        (void)poll(fds, 2, is_busy ? BUSY_WAIT_MS : IDLE_WAIT_MS);
        rs_kineto_trigger_serve(kineto->trigger);
        (void)!read(kineto->wake, &count, sizeof count);
        (void)watch_jobs(kineto); /* what is over must not stand in the way of a new request */
        read_inbox(kineto);
        const rs_ns now = rs_time_monotonic();
        const rs_dur every = (is_busy ? BUSY_WAIT_MS : IDLE_WAIT_MS) * (rs_dur)RS_NS_PER_MS;
        if (now >= ticked_at + every) {
            ticked_at = now;
            rs_kineto_trigger_tick(kineto->trigger);
            forget(kineto);
        }
        const bool was_busy = is_busy;
        is_busy = watch_jobs(kineto);
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
    for (size_t i = 0; i < READER_COUNT; i++) {
        if (pthread_create(&kineto->readers[i], NULL, read_traces, kineto) != 0)
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
    const struct rs_kineto_trigger_options trigger = {.socket_dir = options->socket_dir,
                                                      .socket_name = options->socket_name};
    enum rs_status status = RS_OK;
    if (kineto->wake < 0)
        status = rs_err_errno(err, "cannot make an eventfd");
    else if (!kineto->run || !kineto->host || !kineto->trace_dir)
        status = rs_err_set(err, RS_NOMEM, "no memory for the kineto trigger");
    if (status == RS_OK)
        status = rs_kineto_trigger_open(&trigger, &kineto->trigger, err);
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

void rs_collect_kineto_stop(struct rs_collect_kineto **kineto_p, struct rs_uplink *uplink)
{
    struct rs_collect_kineto *kineto = *kineto_p;
    if (!kineto)
        return;
    *kineto_p = NULL;
    join_threads(kineto);
    while (kineto->jobs) {
        struct job *job = kineto->jobs;
        const bool is_whole = job->phase == OVER && !job->has_failed;
        if (!is_whole && job->phase != PREPARED)
            tell(
                job, RS_PROGRESS_LOST,
                "the collector was stopped; the trace, if one is written, stays in its trace folder");
        remove_job(kineto, job);
    }
    rs_collect_kineto_letters(kineto, uplink);
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

void rs_collect_kineto_letters(struct rs_collect_kineto *kineto, struct rs_uplink *uplink)
{
    for (ProtobufCMessage *letter = rs_mailbox_take(&kineto->outbox); letter;
         letter = rs_mailbox_take(&kineto->outbox)) {
        rs_uplink_send(uplink, (const Rankscope__Up *)letter);
        protobuf_c_message_free_unpacked(letter, NULL);
    }
}
