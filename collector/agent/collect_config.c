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
#include "collector/agent/collect_config_priv.h"
#include "collector/agent/tracedir.h"
#include "common/base/mem.h"
#include "common/base/run_delay.h"
#include "common/base/thread.h"

#define RS_LOG_TAG "config"
#include "common/base/log.h"

#include <inttypes.h>
#include <malloc.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { EMPTY_WAIT_MS = 5000, IDLE_WAIT_MS = 2000, BUSY_WAIT_MS = 50, GONE_REPORTED_S = 15 };

/* ---- who ----------------------------------------------------------------------------------------------------- */

const char *config_run_of(const struct rs_collect_config *config, const struct rs_config_rank *rank)
{
    return rs_agent_adapter_run(&config->base, rank->run);
}

void config_incarnation_of(const struct rs_collect_config *config,
                           const struct rs_config_rank *rank, char text[CONFIG_TEXT_BYTES])
{
    rs_agent_adapter_incarnation(&config->base, config->base.host, rank->process.pid,
                                 rank->process.start_ticks, text);
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
                     struct rs_agent_row *row)
{
    char incarnation[CONFIG_TEXT_BYTES];
    const struct config_job *job = config_job_of(config, rank->process.pid);
    const rs_ns now = rs_time_realtime();
    config_incarnation_of(config, rank, incarnation);
    rs_agent_adapter_fill(&config->base, row, config_run_of(config, rank), config->base.host,
                          incarnation, job ? job->capture : "");
    rs_agent_adapter_set_user(row, (int64_t)rank->process.uid);
    row->state.rank = (uint32_t)rank->rank;
    row->state.world = rank->world > 0 ? (uint32_t)rank->world : 0;
    row->state.pid = (uint32_t)rank->process.pid;
    row->state.step = rs_config_rank_step_at(rank, now);
    row->state.step_duration_ns = rank->step_ns;
    row->state.state = state_of(rank, job);
    row->state.seen_ns = now;
    row->state.delay_ns = rank->is_gone ? 0 : rs_run_delay(rank->process.pid);
    row->state.can_capture = !rank->is_gone; /* an unresponsive one says why when it is asked */
}

/* The trigger forgets a process that ended at once, and an aggregator that sees no more of a rank takes it for idle: its
 * row says "gone" for some heartbeats. */
static void keep_ended(struct rs_collect_config *config, const struct rs_config_rank *ranks,
                       size_t count)
{
    const rs_ns now = rs_time_realtime();
    size_t kept = 0;
    for (size_t i = 0; i < config->base.table_count; i++) {
        struct rs_agent_row *row = &config->base.table[i];
        bool is_listed = false;
        for (size_t k = 0; k < count && !is_listed; k++)
            is_listed = (uint32_t)ranks[k].process.pid == row->state.pid;
        if (is_listed || now - row->state.seen_ns > GONE_REPORTED_S * (rs_dur)RS_NS_PER_S)
            continue;
        row->state.state = RS_RANK_GONE;
        row->state.can_capture = false;
        row->capture[0] = '\0';
        config->base.table[kept++] = *row;
    }
    config->base.table_count = kept;
}

static void refresh_table(struct rs_collect_config *config)
{
    size_t count = 0;
    const struct rs_config_rank *ranks = rs_config_trigger_ranks(config->trigger, &count);
    (void)pthread_mutex_lock(&config->base.lock);
    keep_ended(config, ranks, count);
    if (rs_agent_adapter_grow(&config->base, config->base.table_count + count))
        for (size_t i = 0; i < count; i++)
            if (ranks[i].rank >= 0)
                fill_row(config, &ranks[i], &config->base.table[config->base.table_count++]);
    (void)pthread_mutex_unlock(&config->base.lock);
}

/* ---- telling ---------------------------------------------------------------------------------------------------- */

void config_refuse(struct rs_collect_config *config, const char *capture, uint32_t rank,
                   const char *incarnation, const char *why)
{
    Rankscope__ArmedRank armed = RANKSCOPE__ARMED_RANK__INIT;
    armed.rank = rank;
    armed.incarnation = rs_const_cast(incarnation);
    armed.step = -1;
    armed.refused = rs_const_cast(why);
    rs_agent_adapter_armed(&config->base, capture, &armed);
}

void config_report(struct config_job *job, enum rs_progress_state state, const char *text)
{
    Rankscope__RankProgress progress = RANKSCOPE__RANK_PROGRESS__INIT;
    progress.rank = job->rank;
    progress.state = state;
    progress.text = rs_const_cast(text);
    progress.steps_done = job->steps_done;
    if (state >= RS_PROGRESS_SENDING) {
        progress.window_start_ns = job->window_start_ns;
        progress.window_end_ns = job->window_end_ns;
    }
    rs_agent_adapter_progress(&job->config->base, job->capture, &progress);
}

/* ---- the thread --------------------------------------------------------------------------------------------------- */

static void *work(void *self)
{
    rs_thread_is(RS_THREAD_CONFIG);
    struct rs_collect_config *config = self;
    struct pollfd fd = {.fd = config->base.wake_fd, .events = POLLIN};
    bool is_busy = false;
    while (!atomic_load(&config->base.must_stop)) {
        uint64_t count = 0;
        const int idle_ms = config->base.table_count ? IDLE_WAIT_MS : EMPTY_WAIT_MS;
        (void)poll(&fd, 1, is_busy ? BUSY_WAIT_MS : idle_ms);
        (void)!read(config->base.wake_fd, &count, sizeof count);
        rs_config_trigger_tick(config->trigger);
        (void)config_watch_jobs(
            config); /* what is over must not stand in the way of a new request */
        rs_agent_adapter_read(&config->base, &config_handlers);
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
    rs_config_trigger_close(&config->trigger);
    while (config->turns) {
        struct config_turn *turn = config->turns;
        config->turns = turn->next;
        rs_request_fini(&turn->request);
        rs_mem_free(turn);
    }
    (void)pthread_cond_destroy(&config->queue_filled);
    rs_agent_adapter_fini(&config->base);
    rs_mem_free(config->trace_dir);
    rs_mem_free(config);
}

static void join_threads(struct rs_collect_config *config)
{
    (void)pthread_mutex_lock(&config->base.lock);
    atomic_store(&config->base.must_stop, true);
    (void)pthread_cond_broadcast(&config->queue_filled);
    (void)pthread_mutex_unlock(&config->base.lock);
    rs_agent_adapter_rouse(&config->base);
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
    (void)snprintf(name, sizeof name, "rs-%.12s", config->base.what.name);
    (void)pthread_setname_np(config->thread, name);
    return RS_OK;
}

static void stop(struct rs_agent_adapter *adapter, struct rs_uplink *uplink)
{
    struct rs_collect_config *config = (struct rs_collect_config *)adapter; /* its first member */
    join_threads(config);
    while (config->jobs) {
        struct config_job *job = config->jobs;
        char text[RS_CONFIG_PATH_BYTES + 128];
        const bool is_whole = job->phase == CONFIG_OVER && !job->has_failed;
        (void)snprintf(text, sizeof text, "the collector was stopped%s%s",
                       *job->path ? "; its result stays at " : "", job->path);
        if (job->phase == CONFIG_NOTIFIED &&
            rs_config_trigger_cancel(config->trigger, job->capture, NULL) < 0)
            rs_log_warn("capture %s cannot be called back", job->capture);
        if (!is_whole && job->phase != CONFIG_PREPARED)
            config_report(job, RS_PROGRESS_LOST, text);
        config_remove_job(config, job);
    }
    rs_agent_adapter_send_last(&config->base, uplink);
    free_config(config);
}

enum rs_status rs_collect_config_start(const struct rs_agent_adapter_options *base,
                                       const struct rs_collect_config_options *options,
                                       struct rs_config_trigger *trigger,
                                       struct rs_agent_adapter **adapter_p, struct rs_err *err)
{
    struct rs_collect_config *config = rs_mem_calloc(1, sizeof *config);
    if (!config) {
        rs_config_trigger_close(&trigger);
        return rs_err_set(err, RS_NOMEM, "no memory for a trigger");
    }
    config->options = *options;
    config->trigger = trigger;
    config->name = trigger->ops->name;
    config->base.stop = stop;
    (void)pthread_cond_init(&config->queue_filled, NULL);
    config->trace_dir = rs_mem_strdup(options->trace_dir);
    enum rs_status status = rs_agent_adapter_init(&config->base, base, err);
    if (status == RS_OK && !config->trace_dir)
        status = rs_err_set(err, RS_NOMEM, "no memory for a trigger");
    if (status == RS_OK)
        status = start_threads(config, err);
    if (status < 0) {
        join_threads(config);
        free_config(config);
        return status;
    }
    *adapter_p = &config->base;
    return RS_OK;
}
