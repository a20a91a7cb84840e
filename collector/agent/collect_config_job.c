/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/agent/collect_config_priv.h"
#include "collector/agent/tracedir.h"
#include "common/base/mem.h"

#define RS_LOG_TAG "config"
#include "common/base/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A capture whose COMMIT does not come: its ranks may wait for one that finds out its step. */
static const rs_dur prepared_timeout_ns = 300 * (rs_dur)RS_NS_PER_S;

enum config_phase config_phase_of(struct rs_collect_config *config, const struct config_job *job)
{
    (void)pthread_mutex_lock(&config->base.lock);
    const enum config_phase phase = job->phase;
    (void)pthread_mutex_unlock(&config->base.lock);
    return phase;
}

void config_set_phase(struct config_job *job, enum config_phase phase)
{
    (void)pthread_mutex_lock(&job->config->base.lock);
    job->phase = phase;
    if (phase == CONFIG_QUEUED)
        (void)pthread_cond_signal(&job->config->queue_filled);
    (void)pthread_mutex_unlock(&job->config->base.lock);
}

struct config_job *config_job_of(const struct rs_collect_config *config, pid_t pid)
{
    for (struct config_job *job = config->jobs; job; job = job->next)
        if (job->target.pid == pid)
            return job;
    return NULL;
}

void config_remove_job(struct rs_collect_config *config, struct config_job *job)
{
    bool is_last = true;
    struct config_job **at = &config->jobs;
    (void)pthread_mutex_lock(&config->base.lock); /* the reader goes through the list, too */
    while (*at != job)
        at = &(*at)->next;
    *at = job->next;
    (void)pthread_mutex_unlock(&config->base.lock);
    for (const struct config_job *other = config->jobs; other; other = other->next)
        is_last = is_last && strcmp(other->capture, job->capture) != 0;
    rs_config_trigger_release(config->trigger, &job->target);
    if (is_last)
        rs_tracedir_clean(config->trace_dir, job->capture);
    rs_mem_free(job);
}

/* ---- told ------------------------------------------------------------------------------------------------------- */

static void on_recording(struct config_job *job, const struct rs_config_rank *rank)
{
    char text[96] = "";
    if (rank->started_step >= 0 && rank->started_step != job->start_step)
        (void)snprintf(text, sizeof text,
                       "it began at step %" PRId64 ": step %" PRId64
                       " was over when it was notified",
                       rank->started_step, job->start_step);
    config_report(job, RS_PROGRESS_RECORDING, text);
}

static void on_written(struct config_job *job, const struct rs_config_rank *rank)
{
    (void)snprintf(job->path, sizeof job->path, "%s", rank->result_dir);
    (void)snprintf(job->note, sizeof job->note, "%s", rank->note);
    if (rank->started_step >= 0 && rank->stopped_step > rank->started_step)
        job->steps_done = rank->stopped_step - rank->started_step;
    job->parses = rank->parses;
    job->changed_at = rs_time_monotonic();
    config_report(job, RS_PROGRESS_WRITTEN,
                  job->parses ? "the vendor's tool parses its result" : "");
    config_set_phase(job, CONFIG_PARSING);
}

static void watch_reported(struct rs_collect_config *config, struct config_job *job)
{
    const struct rs_config_rank *rank = rs_config_trigger_find(config->trigger, &job->target);
    if (!rank) {
        config_report(job, RS_PROGRESS_LOST, "its process ended");
        config_remove_job(config, job);
        return;
    }
    if (rank->state == job->shown)
        return;
    job->shown = rank->state;
    switch (rank->state) {
    case RS_CONFIG_STATE_IDLE:
    case RS_CONFIG_STATE_NOTIFIED:
        return;
    case RS_CONFIG_STATE_ACCEPTED:
        config_report(job, RS_PROGRESS_DELIVERED, rank->note);
        return;
    case RS_CONFIG_STATE_RECORDING:
        on_recording(job, rank);
        return;
    case RS_CONFIG_STATE_WRITTEN:
        on_written(job, rank);
        return;
    case RS_CONFIG_STATE_FAILED:
        config_report(job, RS_PROGRESS_LOST, rank->why);
        config_remove_job(config, job);
        return;
    }
}

/* ---- written ------------------------------------------------------------------------------------------------------- */

static void watch_parsing(struct rs_collect_config *config, struct config_job *job)
{
    char text[RS_CONFIG_PATH_BYTES + RS_CONFIG_WHY_BYTES + 300];
    const enum rs_status status = config_look_at_result(job, rs_time_monotonic());
    if (status == RS_AGAIN)
        return;
    if (status == RS_OK) {
        config_set_phase(job, CONFIG_QUEUED);
        return;
    }
    (void)snprintf(text, sizeof text,
                   "recorded, but not parsed by the vendor's tool yet%s: its raw result stays at "
                   "%.*s; parse it there (torch_npu.profiler.profiler.analyse), then give it to "
                   "`rankscope analyse`%s%s",
                   job->parses ? "" : " (the request did not ask for it)",
                   (int)sizeof job->path - 1, job->path, *job->note ? "; " : "", job->note);
    rs_log_warn("rank %u: %s", job->rank, text);
    config_report(job, RS_PROGRESS_LOST, text);
    config_remove_job(config, job);
}

static void finish_job(struct rs_collect_config *config, struct config_job *job)
{
    if (job->has_failed) {
        char text[RS_CONFIG_PATH_BYTES + 500];
        rs_log_error("rank %u: %s", job->rank, job->err.text);
        (void)snprintf(text, sizeof text, "%.400s; its result stays at %s", job->err.text,
                       job->path);
        config_report(job, RS_PROGRESS_LOST, text);
    } else {
        if (job->steps_done > 0)
            config->last_bytes_per_step = job->bytes / job->steps_done;
        rs_log_info("rank %u: %" PRId64 " bytes of results taken%s%s", job->rank, job->bytes,
                    job->is_kept ? "; with its raw data they stay at " : "",
                    job->is_kept ? job->path : "");
    }
    config_remove_job(config, job);
}

bool config_watch_jobs(struct rs_collect_config *config)
{
    for (struct config_job *job = config->jobs; job;) {
        struct config_job *next = job->next;
        const enum config_phase phase = config_phase_of(config, job);
        if (phase == CONFIG_NOTIFIED)
            watch_reported(config, job);
        else if (phase == CONFIG_PARSING)
            watch_parsing(config, job);
        else if (phase == CONFIG_OVER)
            finish_job(config, job);
        else if (phase == CONFIG_PREPARED &&
                 rs_time_monotonic() > job->prepared_at + prepared_timeout_ns)
            config_remove_job(config, job);
        job = next;
    }
    return config->jobs != NULL;
}
