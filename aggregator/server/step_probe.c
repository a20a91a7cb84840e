/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a probe; its states stand in step_probe.h.
 */
#include "aggregator/server/step_probe.h"

#include "aggregator/server/server_priv.h"
#include "common/base/mem.h"

#define RS_LOG_TAG "step-watch"
#include "common/base/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const rs_dur patience_ns = 600 * (rs_dur)RS_NS_PER_S; /* then it is called back */
static const rs_dur brief_ns = RS_NS_PER_S / 2; /* of one whose recording no look has met */

struct read_job {
    struct pool_job base;
    char capture[RS_STORE_ID_BYTES];
    char *dir;
    uint32_t ranks[RS_PROBE_WATCH_RANKS];
    size_t rank_count;
    struct rs_probe_figure figures[RS_PROBE_WATCH_RANKS];
    size_t count;
    enum rs_status removed;
    struct rs_err err, remove_err;
};

static struct rs_probe_rules rules_of(const struct rs_server *server)
{
    const struct rs_server_step_rules *rules = step_watch_rules(server);
    return (struct rs_probe_rules){.every_ns = rules->probe_every_ns, .share = rules->probe_share};
}

/* ---- what is one -------------------------------------------------------------------------------------------------- */

bool step_probe_is(const struct rs_coord_capture *capture)
{
    return !capture->is_files && strcmp(capture->key, rs_probe_watch_origin) == 0;
}

bool step_probe_is_row(const struct rs_capture_facts *facts)
{
    return strcmp(facts->source, "files") != 0 && strcmp(facts->key, rs_probe_watch_origin) == 0;
}

/* ---- the look ----------------------------------------------------------------------------------------------------- */

enum rs_status step_probe_add(struct step_probe *probe, const struct rs_coord_seen *seen,
                              const int32_t role[RS_ROLE_COUNT])
{
    const struct rs_probe_member member = {
        .rank = seen->rank,
        .delay_ns = seen->delay_ns,
        .host = seen->host,
        .pp = role[RS_ROLE_PP],
        .tp = role[RS_ROLE_TP],
        .is_of_whole_jobs = (seen->adapter.capabilities & RS_CAP_WHOLE_JOB) != 0};
    return rs_probe_watch_add(&probe->rule, &member);
}

bool step_probe_seen(const struct rs_server *server, struct step_probe *probe, rs_ns now)
{
    const struct rs_probe_rules rules = rules_of(server);
    return rs_probe_watch_seen(&probe->rule, &rules, now) > 0;
}

/* ---- READING ------------------------------------------------------------------------------------------------------ */

/* On rs-join. */
static void run_read(struct rs_pool_job *pool_job)
{
    struct read_job *job = (struct read_job *)pool_job; /* its first member's first */
    struct rs_server_journal *journal = &job->base.server->journal;
    /* One that recorded nothing tells nothing: that is no failure of reading. */
    const enum rs_status status = step_probe_figures(job->dir, job->ranks, job->rank_count,
                                                     job->figures, &job->count, &job->err);
    if (status == RS_NOTFOUND)
        job->err.text[0] = '\0';
    /* What is not removed now goes with those that were left behind (retention.c). */
    job->removed = rows_remove(job->base.server, job->capture, &job->remove_err);
    if (job->removed == RS_OK)
        job->removed = journal->remove(journal->self, job->capture, &job->remove_err);
}

/* "rank 0 takes 131.818 ms a step, 110.703 ms of them for its own work; ..." */
static void report(const struct read_job *job, rs_dur disturbed)
{
    char text[100 * RS_PROBE_WATCH_RANKS];
    size_t used = 0;
    for (size_t i = 0; i < job->count; i++)
        used += (size_t)snprintf(
            text + used, sizeof text - used,
            "%srank %" PRIu32 " takes %.3f ms a step, %.3f ms of them for its own work",
            i ? "; " : "", job->figures[i].rank, (double)job->figures[i].step_ns / RS_NS_PER_MS,
            (double)job->figures[i].own_ns / RS_NS_PER_MS);
    rs_log_info("probe %s: %s; the job was disturbed for %" PRId64 " ms", job->capture, text,
                disturbed / RS_NS_PER_MS);
}

static void take(struct rs_server *server, struct step_probe *probe, const struct read_job *job)
{
    const struct rs_probe_rules rules = rules_of(server);
    const rs_ns now = rs_time_monotonic();
    const rs_dur disturbed = probe->disturbed_ns > brief_ns ? probe->disturbed_ns : brief_ns;
    if (job->count && !job->base.base.was_dropped) {
        probe->is_told = false;
        const struct rs_probe_told told = {
            .figures = job->figures, .count = job->count, .disturbed_ns = disturbed};
        probe->has_alarm =
            rs_probe_watch_take(&probe->rule, &rules, &told, now,
                                1 + step_watch_rules(server)->longer_by, &probe->alarm);
        report(job, disturbed);
    } else {
        if (!probe->is_told)
            rs_log_warn("a probe told nothing of how long steps take: %.300s",
                        *job->err.text ? job->err.text
                        : *probe->why  ? probe->why
                                       : "no step was recorded whole");
        probe->is_told = true;
        rs_probe_watch_failed(&probe->rule, &rules, disturbed, now);
    }
    rs_count(RS_COUNT_STEP_PROBES, 1);
    probe->capture[0] = '\0';
    probe->is_reading = false;
}

static void read_done(struct pool_job *base)
{
    struct read_job *job = (struct read_job *)base; /* its first member */
    struct step_probe *probe = step_watch_probe(base->server, job->capture);
    if (!base->base.was_dropped && job->removed < 0 && job->removed != RS_NOTFOUND)
        rs_log_warn("probe %s cannot be removed: %s", job->capture, job->remove_err.text);
    if (probe)
        take(base->server, probe, job);
    server_tick_soon(base->server);
    rs_mem_free(job->dir);
    rs_mem_free(job);
}

/* With the next tick again when there is no memory, or others wait. */
static void begin_reading(struct rs_server *server, struct step_probe *probe)
{
    struct read_job *job = rs_mem_calloc(1, sizeof *job);
    if (!job)
        return;
    (void)snprintf(job->capture, sizeof job->capture, "%s", probe->capture);
    (void)snprintf(job->base.base.key, sizeof job->base.base.key, "%s", probe->capture);
    job->dir = rs_store_capture_dir(server->options.store, probe->capture);
    job->rank_count = probe->rule.rank_count;
    for (size_t i = 0; i < job->rank_count; i++)
        job->ranks[i] = probe->rule.ranks[i].peer.rank;
    job->base.server = server;
    job->base.finish = read_done;
    job->base.base.run = run_read;
    if (job->dir && rs_pool_put(server->join_pool, &job->base.base) == RS_OK) {
        probe->is_reading = true;
        return;
    }
    rs_mem_free(job->dir);
    rs_mem_free(job);
}

/* ---- ASKED -------------------------------------------------------------------------------------------------------- */

/* For how long the job was disturbed, and why nothing may come of it. */
static void look_at(struct step_probe *probe, const struct rs_coord_capture *capture, rs_ns now)
{
    const bool records = capture->counts[RS_PROGRESS_RECORDING] > 0;
    if (records || probe->was_recording)
        probe->disturbed_ns += now - probe->looked_at;
    probe->was_recording = records;
    probe->looked_at = now;
    if (probe->is_stopped)
        return;
    (void)snprintf(probe->why, sizeof probe->why, "%s", capture->reason);
    for (size_t i = 0; i < capture->rank_count && !*probe->why; i++)
        if (capture->ranks[i].state == RS_PROGRESS_REFUSED ||
            capture->ranks[i].state == RS_PROGRESS_LOST)
            (void)snprintf(probe->why, sizeof probe->why, "%s", capture->ranks[i].text);
}

/* Ranks that count iterations begin together only where it is known how long one is; where none was made yet, they would begin far
 * apart, and much later. */
static bool is_futile(const struct rs_coord_capture *capture)
{
    return capture->state == RS_CAPTURE_RECORDING && capture->steps && !capture->step_ns &&
           rs_coord_can(capture, RS_CAP_STEP_ROUNDUP) && !capture->counts[RS_PROGRESS_RECORDING];
}

static void call_back(struct rs_server *server, struct step_probe *probe, const char *why,
                      rs_ns now)
{
    struct rs_err err = {0};
    probe->is_stopped = rs_coord_stop(server->coord, probe->capture, now, &err) == RS_OK;
    (void)snprintf(probe->why, sizeof probe->why, "%s", why);
    server_tick_soon(server);
}

static void follow(struct rs_server *server, struct step_probe *probe, rs_ns now)
{
    const struct rs_coord_capture *capture = rs_coord_find(server->coord, probe->capture);
    if (!capture) {
        if (!writing_is_creating(server, probe->capture))
            begin_reading(server, probe);
        return;
    }
    look_at(probe, capture, now);
    if (probe->is_stopped)
        return;
    if (is_futile(capture))
        call_back(server, probe, "its ranks have made no step so far", now);
    else if (now > probe->asked_at + patience_ns)
        call_back(server, probe, "it took longer than ten minutes", now);
}

static enum rs_status ask(struct rs_server *server, const char *run, const char *ranks, rs_ns now,
                          char id[RS_COORD_ID_BYTES], struct rs_err *err)
{
    struct rs_capture_request request;
    struct rs_request_answer answer = {0};
    struct rs_coord_capture *capture = NULL;
    if (rs_request_init(&request, RS_DIALECT_ASCEND, RS_ORIGIN_CLI) < 0)
        return rs_err_set(err, RS_NOMEM, "no memory for a request");
    request.origin = RS_ORIGIN_API;
    (void)snprintf(request.job_id, sizeof request.job_id, "%s", run);
    (void)snprintf(request.ranks, sizeof request.ranks, "%s", ranks);
    request.schedule.active = RS_PROBE_WATCH_STEPS;
    request.on_busy = RS_ON_BUSY_REFUSE;
    /* Raw data goes with the capture: what a collector keeps is in the way of what others asked it to keep. */
    const struct rs_coord_ask question = {.request = &request,
                                          .origin_file = rs_probe_watch_origin};
    enum rs_status status = rs_coord_start(server->coord, &question, now, &answer, &capture, err);
    if (status >= 0 && !capture)
        status = rs_err_set(err, RS_REFUSED, "nobody is recorded");
    if (status >= 0)
        (void)snprintf(id, RS_COORD_ID_BYTES, "%s", capture->id);
    rs_request_answer_fini(&answer);
    rs_request_fini(&request);
    return status;
}

void step_probe_tick(struct rs_server *server, struct step_probe *probe, const char *run,
                     bool is_recording, rs_ns now)
{
    const struct rs_probe_rules rules = rules_of(server);
    char ranks[RS_PROBE_WATCH_EXPR_BYTES];
    struct rs_err err = {0};
    if (*probe->capture && !probe->is_reading)
        follow(server, probe, now);
    if (*probe->capture || is_recording || !server->join_pool || !server->journal.remove ||
        !rs_probe_watch_is_due(&probe->rule, now))
        return;
    rs_probe_watch_begin(&probe->rule, now, rs_time_realtime(), ranks);
    probe->asked_at = probe->looked_at = now;
    probe->disturbed_ns = 0;
    probe->is_stopped = probe->was_recording = false;
    probe->why[0] = '\0';
    if (ask(server, run, ranks, now, probe->capture, &err) >= 0) {
        server_tick_soon(server);
        return;
    }
    if (!probe->is_told)
        rs_log_warn("run %.100s tells no steps, and cannot be probed: %.300s", run, err.text);
    probe->is_told = true;
    rs_probe_watch_failed(&probe->rule, &rules, 0, now);
}

void step_probe_fini(struct step_probe *probe)
{
    rs_probe_watch_fini(&probe->rule);
    *probe = (struct step_probe){.capture = ""};
}
