/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that are told by a profiler_config.json: the live table, and captures on request.
 *
 *   uplink thread --prepare, commit, cancel--> inbox --> rs-ascend, rs-mindspore --armed, progress--> outbox --> uplink thread
 *                                                          | ^
 *                                          result complete | | taken, or why not
 *                                                          v |
 *                                                     rs-config-read
 *
 * One job per (capture, rank):
 *
 *   PREPARE --> ASKING --step known--> PREPARED --COMMIT--> TURN --file written--> TOLD --result--> PARSING --> QUEUED
 *                  |                      | cancel, or nothing for long               | refused, died, too late: LOST    |
 *                  '--> refused           '--> removed                                '--> called back, removed           v
 *                                                                                        in the spool: OVER <-- READING
 *
 * ASKING: an absolute start needs the step the rank is in, and its profiler does not tell it. What an earlier profile told
 * serves for a while; else one rank of the folder makes a profile of one step, and its result is removed.
 */
#include "cli/collect_config_priv.h"
#include "cli/tracedir.h"
#include "common/base/mem.h"

#define RS_LOG_TAG "config"
#include "common/base/log.h"

#include <inttypes.h>
#include <malloc.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { EMPTY_WAIT_MS = 5000, IDLE_WAIT_MS = 2000, BUSY_WAIT_MS = 50, GONE_TOLD_S = 15 };

/* ---- who ----------------------------------------------------------------------------------------------------- */

const char *config_run_of(const struct rs_collect_config *config, const struct rs_config_rank *rank)
{
    if (rank->run[0])
        return rank->run;
    return *config->run ? config->run : config->host;
}

/* host:pid:start, and a mark of the spool: its numbers begin at 1 again when the spool is another. */
void config_incarnation_of(const struct rs_collect_config *config,
                           const struct rs_config_rank *rank, char text[CONFIG_TEXT_BYTES])
{
    (void)snprintf(text, CONFIG_TEXT_BYTES, "%.100s:%d:%" PRIu64 "/%.8s", config->host,
                   (int)rank->process.pid, rank->process.start_ticks,
                   rs_spool_id(config->options.spool));
}

const struct rs_config_rank *config_find_rank(const struct rs_collect_config *config,
                                              const char *run, uint32_t rank)
{
    size_t count = 0;
    const struct rs_config_rank *found = NULL;
    const struct rs_config_rank *ranks = rs_config_trigger_ranks(config->trigger, &count);
    for (size_t i = 0; i < count; i++)
        if (!ranks[i].is_gone && ranks[i].rank >= 0 && (uint32_t)ranks[i].rank == rank &&
            strcmp(config_run_of(config, &ranks[i]), run) == 0 &&
            (!found || ranks[i].process.start_ticks > found->process.start_ticks))
            found = &ranks[i];
    return found;
}

/* ---- the table ------------------------------------------------------------------------------------------------- */

static enum rs_rank_state state_of(const struct rs_config_rank *rank, const struct config_job *job)
{
    if (rank->is_gone)
        return RS_RANK_GONE;
    if (job && rank->state == RS_CONFIG_STATE_RECORDING)
        return RS_RANK_RECORDING;
    if (job)
        return RS_RANK_ARMED;
    return rank->is_busy ? RS_RANK_BUSY : RS_RANK_IDLE;
}

static void fill_row(struct rs_collect_config *config, const struct rs_config_rank *rank,
                     struct config_row *row)
{
    const struct config_job *job = config_job_of(config, rank->process.pid);
    const rs_ns now = rs_time_realtime();
    (void)snprintf(row->run, sizeof row->run, "%s", config_run_of(config, rank));
    (void)snprintf(row->host, sizeof row->host, "%.256s", config->host);
    config_incarnation_of(config, rank, row->incarnation);
    (void)snprintf(row->capture, sizeof row->capture, "%s", job ? job->capture : "");
    rankscope__rank_state__init(&row->state);
    row->state.kind = config->options.kind;
    row->state.rank = (uint32_t)rank->rank;
    row->state.world = rank->world > 0 ? (uint32_t)rank->world : 0;
    row->state.pid = (uint32_t)rank->process.pid;
    row->state.step = rs_config_rank_step_at(rank, now);
    row->state.step_duration_ns = rank->step_ns;
    row->state.state = state_of(rank, job);
    row->state.seen_ns = now;
    row->state.can_capture = !rank->is_gone; /* a deaf one says why when it is asked */
}

/* The trigger forgets a process that ended at once, and an aggregator that hears no more of a rank takes it for idle: its
 * row says "gone" for some heartbeats. */
static void keep_ended(struct rs_collect_config *config, const struct rs_config_rank *ranks,
                       size_t count)
{
    const rs_ns now = rs_time_realtime();
    size_t kept = 0;
    for (size_t i = 0; i < config->table_count; i++) {
        struct config_row *row = &config->table[i];
        bool is_listed = false;
        for (size_t k = 0; k < count && !is_listed; k++)
            is_listed = (uint32_t)ranks[k].process.pid == row->state.pid;
        if (is_listed || now - row->state.seen_ns > GONE_TOLD_S * (rs_dur)RS_NS_PER_S)
            continue;
        row->state.state = RS_RANK_GONE;
        row->state.can_capture = false;
        row->capture[0] = '\0';
        config->table[kept++] = *row;
    }
    config->table_count = kept;
}

static void refresh_table(struct rs_collect_config *config)
{
    size_t count = 0;
    const struct rs_config_rank *ranks = rs_config_trigger_ranks(config->trigger, &count);
    (void)pthread_mutex_lock(&config->lock);
    keep_ended(config, ranks, count);
    if (rs_mem_grow((void **)&config->table, &config->table_capacity,
                    config->table_count + count + 1, sizeof *config->table) == RS_OK)
        for (size_t i = 0; i < count; i++)
            if (ranks[i].rank >= 0)
                fill_row(config, &ranks[i], &config->table[config->table_count++]);
    (void)pthread_mutex_unlock(&config->lock);
}

size_t rs_collect_config_ranks(struct rs_collect_config *config, Rankscope__RankState ***states_p)
{
    size_t count = 0;
    (void)pthread_mutex_lock(&config->lock);
    if (rs_mem_grow((void **)&config->copy, &config->copy_capacity, config->table_count + 1,
                    sizeof *config->copy) == RS_OK &&
        rs_mem_grow((void **)&config->copy_states, &config->copy_state_capacity,
                    config->table_count + 1, sizeof(Rankscope__RankState *)) == RS_OK) {
        count = config->table_count;
        if (count)
            memcpy(config->copy, config->table, count * sizeof *config->copy);
    }
    (void)pthread_mutex_unlock(&config->lock);
    for (size_t i = 0; i < count; i++) {
        struct config_row *row = &config->copy[i];
        row->state.run = row->run;
        row->state.host = row->host;
        row->state.incarnation = row->incarnation;
        row->state.capture = row->capture;
        config->copy_states[i] = &row->state;
    }
    *states_p = config->copy_states;
    return count;
}

/* ---- telling ---------------------------------------------------------------------------------------------------- */

void config_wake_uplink(struct rs_collect_config *config)
{
    config->options.wake(config->options.wake_self);
}

void config_refuse(struct rs_collect_config *config, const char *capture, uint32_t rank,
                   const char *incarnation, const char *why)
{
    Rankscope__ArmedRank armed = RANKSCOPE__ARMED_RANK__INIT;
    armed.rank = rank;
    armed.incarnation = rs_letter_lend(incarnation);
    armed.step = -1;
    armed.refused = rs_letter_lend(why);
    rs_mailbox_put_armed(&config->outbox, capture, &armed);
    config_wake_uplink(config);
}

void config_tell(struct config_job *job, enum rs_progress_state state, const char *text)
{
    Rankscope__RankProgress progress = RANKSCOPE__RANK_PROGRESS__INIT;
    progress.rank = job->rank;
    progress.state = state;
    progress.text = rs_letter_lend(text);
    progress.steps_done = job->steps_done;
    if (state >= RS_PROGRESS_SENDING) {
        progress.window_start_ns = job->window_start_ns;
        progress.window_end_ns = job->window_end_ns;
    }
    rs_mailbox_put_progress(&job->config->outbox, job->capture, &progress);
    config_wake_uplink(job->config);
}

/* ---- the thread --------------------------------------------------------------------------------------------------- */

static void *work(void *self)
{
    struct rs_collect_config *config = self;
    struct pollfd fd = {.fd = config->wake, .events = POLLIN};
    bool is_busy = false;
    while (!atomic_load(&config->must_stop)) {
        uint64_t count = 0;
        const int idle_ms = config->table_count ? IDLE_WAIT_MS : EMPTY_WAIT_MS;
        (void)poll(&fd, 1, is_busy ? BUSY_WAIT_MS : idle_ms);
        (void)!read(config->wake, &count, sizeof count);
        rs_config_trigger_tick(config->trigger);
        (void)config_watch_jobs(
            config); /* what is over must not stand in the way of a new request */
        config_read_inbox(config);
        config_ask_steps(config);
        config_take_turns(config);
        const bool was_busy = is_busy;
        is_busy = config_watch_jobs(config);
        if (was_busy && !is_busy)
            (void)malloc_trim(0); /* results took it; idle, it stands for nothing */
        refresh_table(config);
    }
    return NULL;
}

/* ---- life --------------------------------------------------------------------------------------------------------- */

static void free_config(struct rs_collect_config *config)
{
    rs_mailbox_fini(&config->inbox);
    rs_mailbox_fini(&config->outbox);
    rs_config_trigger_close(&config->trigger);
    if (config->wake >= 0)
        (void)close(config->wake);
    while (config->turns) {
        struct config_turn *turn = config->turns;
        config->turns = turn->next;
        rs_request_fini(&turn->request);
        rs_mem_free(turn);
    }
    (void)pthread_cond_destroy(&config->queue_filled);
    (void)pthread_mutex_destroy(&config->lock);
    rs_mem_free(config->run);
    rs_mem_free(config->host);
    rs_mem_free(config->trace_dir);
    rs_mem_free(config->table);
    rs_mem_free(config->copy);
    rs_mem_free(config->copy_states);
    rs_mem_free(config);
}

static void join_threads(struct rs_collect_config *config)
{
    const uint64_t one = 1;
    (void)pthread_mutex_lock(&config->lock);
    atomic_store(&config->must_stop, true);
    (void)pthread_cond_broadcast(&config->queue_filled);
    (void)pthread_mutex_unlock(&config->lock);
    (void)!write(config->wake, &one, sizeof one);
    if (config->has_thread)
        (void)pthread_join(config->thread, NULL);
    if (config->has_reader)
        (void)pthread_join(config->reader, NULL);
}

static enum rs_status start_threads(struct rs_collect_config *config, struct rs_err *err)
{
    char name[16];
    config->has_reader = pthread_create(&config->reader, NULL, config_read_results, config) == 0;
    config->has_thread =
        config->has_reader && pthread_create(&config->thread, NULL, work, config) == 0;
    if (!config->has_thread)
        return rs_err_set(err, RS_IO, "cannot start a thread");
    (void)pthread_setname_np(config->reader, "rs-config-read");
    (void)snprintf(name, sizeof name, "rs-%.12s", rs_rank_kind_text(config->options.kind));
    (void)pthread_setname_np(config->thread, name);
    return RS_OK;
}

enum rs_status rs_collect_config_start(const struct rs_collect_config_options *options,
                                       struct rs_config_trigger *trigger,
                                       struct rs_collect_config **config_p, struct rs_err *err)
{
    struct rs_collect_config *config = rs_mem_calloc(1, sizeof *config);
    if (!config) {
        rs_config_trigger_close(&trigger);
        return rs_err_set(err, RS_NOMEM, "no memory for a trigger");
    }
    config->options = *options;
    config->trigger = trigger;
    config->name = trigger->ops->name;
    (void)pthread_mutex_init(&config->lock, NULL);
    (void)pthread_cond_init(&config->queue_filled, NULL);
    rs_mailbox_init(&config->inbox);
    rs_mailbox_init(&config->outbox);
    config->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    config->run = rs_mem_strdup(options->run);
    config->host = rs_mem_strdup(options->host);
    config->trace_dir = rs_mem_strdup(options->trace_dir);
    enum rs_status status = RS_OK;
    if (config->wake < 0)
        status = rs_err_errno(err, "cannot make an eventfd");
    else if (!config->run || !config->host || !config->trace_dir)
        status = rs_err_set(err, RS_NOMEM, "no memory for a trigger");
    if (status == RS_OK)
        status = start_threads(config, err);
    if (status < 0) {
        join_threads(config);
        free_config(config);
        return status;
    }
    *config_p = config;
    return RS_OK;
}

static void send_letters(struct rs_collect_config *config, struct rs_uplink *uplink)
{
    for (ProtobufCMessage *letter = rs_mailbox_take(&config->outbox); letter;
         letter = rs_mailbox_take(&config->outbox)) {
        rs_uplink_send(uplink, (const Rankscope__Up *)letter);
        protobuf_c_message_free_unpacked(letter, NULL);
    }
}

void rs_collect_config_stop(struct rs_collect_config **config_p, struct rs_uplink *uplink)
{
    struct rs_collect_config *config = *config_p;
    if (!config)
        return;
    *config_p = NULL;
    join_threads(config);
    while (config->jobs) {
        struct config_job *job = config->jobs;
        char text[RS_CONFIG_PATH_BYTES + 128];
        const bool is_whole = job->phase == CONFIG_OVER && !job->has_failed;
        (void)snprintf(text, sizeof text, "the collector was stopped%s%s",
                       *job->path ? "; its result stays at " : "", job->path);
        if (job->phase == CONFIG_TOLD &&
            rs_config_trigger_cancel(config->trigger, job->capture, NULL) < 0)
            rs_log_warn("capture %s cannot be called back", job->capture);
        if (!is_whole && job->phase != CONFIG_PREPARED)
            config_tell(job, RS_PROGRESS_LOST, text);
        config_remove_job(config, job);
    }
    send_letters(config, uplink);
    free_config(config);
}

static void put(struct rs_collect_config *config, const ProtobufCMessage *letter)
{
    const uint64_t one = 1;
    rs_mailbox_put(&config->inbox, letter);
    (void)!write(config->wake, &one, sizeof one);
}

void rs_collect_config_prepare(struct rs_collect_config *config, const Rankscope__Prepare *prepare)
{
    put(config, &prepare->base);
}

void rs_collect_config_commit(struct rs_collect_config *config, const Rankscope__Commit *commit)
{
    put(config, &commit->base);
}

void rs_collect_config_cancel(struct rs_collect_config *config, const Rankscope__Cancel *cancel)
{
    put(config, &cancel->base);
}

/* While the link is down they wait: what became of a capture in the meantime must not be lost. */
void rs_collect_config_letters(struct rs_collect_config *config, struct rs_uplink *uplink)
{
    if (rs_uplink_stats(uplink).is_up)
        send_letters(config, uplink);
}
