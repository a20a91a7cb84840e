/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the aggregator asks of ranks that watch a configuration file, and what is answered: PREPARE, COMMIT, CANCEL (collect_config.c draws
 * the phases of a job).
 *
 *     PREPARE --step known, and fresh--> armed(step)
 *        `------not known--> one rank of the folder records a profile of one step, whose log says where it stands; the others wait for it
 *     COMMIT --> a turn: what the ranks of one folder are told, once; a file has room for one, so turns of a folder go one after the other
 *     CANCEL --> who has not begun is called back; who has, ends by itself and is not waited for
 */
#include "collector/agent/collect_config_priv.h"
#include "collector/agent/tracedir.h"
#include "common/base/check.h"
#include "common/base/mem.h"
#include "common/client/config_watch.h"
#include "common/wire/request_message.h"

#define RS_LOG_TAG "config"
#include "common/base/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A step's results when nothing was captured yet: Level0 of a busy rank. */
#define DEFAULT_BYTES_PER_STEP ((int64_t)40 * 1000 * 1000)

static const rs_dur fresh_ns = 900 * (rs_dur)RS_NS_PER_S; /* what an earlier profile told */
static const rs_dur say_every_ns = RS_NS_PER_S;
static const rs_dur default_timeout_ns = 600 * (rs_dur)RS_NS_PER_S;
static const rs_dur timeout_max_ns = (rs_dur)366 * 86400 * RS_NS_PER_S;
/* From the file to a rank's first chance, beside its side's interval of looking: whole seconds, a slow file system. */
static const rs_dur lead_ns = 1500 * (rs_dur)RS_NS_PER_MS;

/* ---- prepare ---------------------------------------------------------------------------------------------------- */

static struct config_job *new_job(struct rs_collect_config *config,
                                  const struct rs_config_rank *rank, const char *capture)
{
    struct config_job *job = rs_mem_calloc(1, sizeof *job);
    RS_DCHECK(rank);
    if (!job)
        return NULL;
    job->config = config;
    (void)snprintf(job->capture, sizeof job->capture, "%.64s", capture);
    (void)snprintf(job->run, sizeof job->run, "%s", config_run_of(config, rank));
    (void)snprintf(job->host, sizeof job->host, "%.256s", config->base.host);
    (void)snprintf(job->config_dir, sizeof job->config_dir, "%s", rank->config_dir);
    config_incarnation_of(config, rank, job->incarnation);
    job->rank = (uint32_t)rank->rank;
    job->world = rank->world;
    job->target = (struct rs_config_target){rank->process.pid, rank->process.start_ticks};
    job->user = (int64_t)rank->process.uid + 1;
    job->prepared_at = rs_time_monotonic();
    (void)pthread_mutex_lock(&config->base.lock);
    job->next = config->jobs;
    config->jobs = job;
    (void)pthread_mutex_unlock(&config->base.lock);
    return job;
}

static void answer_armed(struct config_job *job, const struct rs_config_rank *rank)
{
    Rankscope__ArmedRank armed = RANKSCOPE__ARMED_RANK__INIT;
    armed.rank = job->rank;
    armed.incarnation = job->incarnation;
    armed.step = rs_config_rank_step_at(rank, rs_time_realtime());
    armed.step_duration_ns = rank->step_ns;
    armed.poll_period_ns = rank->poll_period;
    armed.lead_ns = lead_ns;
    armed.warning = job->warning;
    config_set_phase(job, CONFIG_PREPARED);
    job->prepared_at = rs_time_monotonic();
    rs_agent_adapter_armed(&job->config->base, job->capture, &armed);
}

/* Why this rank cannot take part; "" it can. */
static void object(const struct rs_collect_config *config, const Rankscope__Prepare *prepare,
                   const struct rs_config_rank *rank, char *why, size_t bytes)
{
    const struct config_job *other = rank ? config_job_of(config, rank->process.pid) : NULL;
    char local[RS_CONFIG_PATH_BYTES];
    why[0] = '\0';
    if (!rank)
        (void)snprintf(why, bytes, "its process is not there any more");
    else if (other)
        (void)snprintf(why, bytes, "it records for capture %.64s already", other->capture);
    else if (rank->is_unresponsive)
        (void)snprintf(why, bytes, "%s", rank->unresponsive_because);
    else if (rank->is_busy)
        (void)snprintf(why, bytes, "it is busy with a profile of its own");
    else if (rs_config_path_of(rank->process.pid, rank->config_dir, local, NULL) == RS_OK &&
             rs_config_watch_is_file_of(prepare->request, local))
        (void)snprintf(why, bytes,
                       "its own profiler has read this very file and acts on it: its result goes "
                       "to the file's prof_dir, not to the collector");
}

static void prepare_rank(struct rs_collect_config *config, const Rankscope__Prepare *prepare,
                         uint32_t number, const char *warning)
{
    char incarnation[CONFIG_TEXT_BYTES] = "";
    char why[RS_CONFIG_WHY_BYTES];
    const struct rs_config_rank *rank = config_find_rank(config, prepare->run, number);
    struct config_job *other = rank ? config_job_of(config, rank->process.pid) : NULL;
    const bool is_fixed = prepare->request && prepare->request->start_step > 0;
    if (other && strcmp(other->capture, prepare->capture) == 0) {
        /* Asked again: its first answer may be lost, unless it has yet to give one. */
        if (config_phase_of(config, other) == CONFIG_PREPARED)
            answer_armed(other, rank);
        return;
    }
    if (rank)
        config_incarnation_of(config, rank, incarnation);
    object(config, prepare, rank, why, sizeof why);
    struct config_job *job = *why ? NULL : new_job(config, rank, prepare->capture);
    if (!*why && !job)
        (void)snprintf(why, sizeof why, "the collector is out of memory");
    if (!job) {
        config_refuse(config, prepare->capture, number, incarnation, why);
        return;
    }
    (void)snprintf(job->warning, sizeof job->warning, "%s", warning);
    if (is_fixed)
        answer_armed(job, rank);
}

static int64_t estimate(const struct rs_collect_config *config, const Rankscope__Prepare *prepare)
{
    const int64_t each =
        config->last_bytes_per_step > 0 ? config->last_bytes_per_step : DEFAULT_BYTES_PER_STEP;
    const double steps = prepare->steps ? (double)prepare->steps : 10.0;
    const double bytes = steps * (double)each * (double)prepare->n_ranks;
    return bytes < 1e18 ? (int64_t)bytes : INT64_MAX / 4;
}

static void on_prepare(struct rs_collect_config *config, const Rankscope__Prepare *prepare)
{
    struct rs_err err = {0};
    char warning[512] = "";
    const bool is_forced = (prepare->options && prepare->options->force) ||
                           (prepare->request && prepare->request->force);
    enum rs_status status = rs_tracedir_prepare(config->trace_dir, &err);
    if (status == RS_OK)
        status = rs_tracedir_check(config->trace_dir, estimate(config, prepare), is_forced, warning,
                                   sizeof warning, &err);
    if (status == RS_OK && *warning)
        rs_log_warn("capture %.64s: %s", prepare->capture, warning);
    for (size_t i = 0; i < prepare->n_ranks; i++) {
        char incarnation[CONFIG_TEXT_BYTES] = "";
        const struct rs_config_rank *rank =
            config_find_rank(config, prepare->run, prepare->ranks[i]);
        if (rank)
            config_incarnation_of(config, rank, incarnation);
        if (status < 0)
            config_refuse(config, prepare->capture, prepare->ranks[i], incarnation, err.text);
        else
            prepare_rank(config, prepare, prepare->ranks[i], i == 0 ? warning : "");
    }
}

/* ---- the step --------------------------------------------------------------------------------------------------- */

static bool is_fresh(const struct rs_config_rank *rank)
{
    return rank->step >= 0 && rank->step_ns > 0 && rs_time_realtime() < rank->step_at + fresh_ns;
}

/* The one of this job's folder that makes a profile to find the step out. */
static struct config_job *prober_of(struct rs_collect_config *config, const struct config_job *job)
{
    for (struct config_job *mate = config->jobs; mate; mate = mate->next)
        if (mate->is_prober && config_phase_of(config, mate) == CONFIG_ASKING &&
            strcmp(mate->config_dir, job->config_dir) == 0)
            return mate;
    return NULL;
}

static void refuse_job(struct config_job *job, const char *why)
{
    config_refuse(job->config, job->capture, job->rank, job->incarnation, why);
    config_remove_job(job->config, job);
}

/* Begins to ask; others of the folder wait for it. */
static void begin_to_ask(struct config_job *job, const struct rs_config_rank *rank)
{
    struct rs_collect_config *config = job->config;
    struct rs_err err = {0};
    char why[RS_CONFIG_WHY_BYTES + 128];
    if (config->options.has_no_probe) {
        answer_armed(job, rank); /* another node may know; else the aggregator says what to give */
        return;
    }
    const enum rs_status status = rs_config_trigger_probe(config->trigger, &job->target, &err);
    if (status == RS_EXISTS)
        return; /* a file waits to be taken: next time */
    if (status == RS_OK) {
        job->is_prober = true;
        rs_log_info("rank %u: its step is found out by a profile of one step", job->rank);
        return;
    }
    (void)snprintf(why, sizeof why, "its step is not known (%.500s): give --start-step N",
                   err.text);
    refuse_job(job, why);
}

static void say_asking(struct config_job *job, const struct config_job *prober)
{
    char text[160];
    const rs_ns now = rs_time_monotonic();
    if (now < job->said_at + say_every_ns)
        return;
    job->said_at = now;
    (void)snprintf(text, sizeof text, "its step is found out by a profile of one step on rank %u",
                   prober ? prober->rank : job->rank);
    config_report(job, RS_PROGRESS_WAITING, text);
}

static void ask_step(struct rs_collect_config *config, struct config_job *job)
{
    const struct rs_config_rank *rank = rs_config_trigger_find(config->trigger, &job->target);
    const struct config_job *prober = prober_of(config, job);
    if (!rank || rank->is_gone) {
        refuse_job(job, "its process ended");
    } else if (prober && prober != job) {
        say_asking(job, prober);
    } else if (rank->is_probing) {
        say_asking(job, job);
    } else if (is_fresh(rank)) {
        answer_armed(job, rank);
    } else if (job->is_prober) {
        char why[RS_CONFIG_WHY_BYTES + 128];
        (void)snprintf(why, sizeof why, "its step is not known (%.500s): give --start-step N",
                       *rank->why ? rank->why : "a profile of one step did not show it");
        refuse_job(job, why);
    } else {
        say_asking(job, NULL);
        begin_to_ask(job, rank);
    }
}

void config_ask_steps(struct rs_collect_config *config)
{
    for (struct config_job *job = config->jobs; job;) {
        struct config_job *next = job->next;
        if (config_phase_of(config, job) == CONFIG_ASKING)
            ask_step(config, job);
        job = next;
    }
}

/* ---- commit ----------------------------------------------------------------------------------------------------- */

static struct config_turn *turn_for(struct rs_collect_config *config, const char *capture,
                                    const char *config_dir)
{
    struct config_turn *turn = config->turns;
    while (turn &&
           (strcmp(turn->capture, capture) != 0 || strcmp(turn->config_dir, config_dir) != 0))
        turn = turn->next;
    return turn;
}

/* What the message asks for; `request` is the caller's on RS_OK. */
static enum rs_status take_request(const Rankscope__Commit *commit,
                                   struct rs_capture_request *request, struct rs_err *err)
{
    enum rs_status status = commit->request
                                ? rs_request_from_message(commit->request, request, err)
                                : rs_request_init(request, RS_DIALECT_ASCEND, RS_ORIGIN_CLI);
    if (status < 0)
        return status;
    if (!commit->request && commit->options) {
        request->record_shapes = commit->options->record_shapes;
        request->with_stack = commit->options->with_stack;
        request->profile_memory = commit->options->profile_memory;
    }
    if (commit->steps)
        request->schedule.active = commit->steps;
    else if (commit->duration_ns)
        status = rs_err_set(err, RS_INVALID, "it records steps, not a duration: use --steps");
    if (status == RS_OK && commit->start_step <= 0)
        status = rs_err_set(err, RS_INVALID, "there is no step to begin at: give --start-step N");
    if (status < 0)
        rs_request_fini(request);
    return status;
}

static rs_dur timeout_of(const Rankscope__Commit *commit, const struct rs_config_rank *rank)
{
    rs_dur timeout = commit->options && commit->options->timeout_ns > 0
                         ? commit->options->timeout_ns
                         : default_timeout_ns;
    if (timeout > timeout_max_ns)
        timeout = timeout_max_ns;
    const int64_t step = rank ? rs_config_rank_step_at(rank, rs_time_realtime()) : -1;
    if (step >= 0 && rank->step_ns > 0 && commit->start_step > step &&
        commit->start_step - step < INT64_MAX / 4 / rank->step_ns)
        timeout += 2 * rank->step_ns * (commit->start_step - step); /* it may have far to go */
    return timeout;
}

static struct config_turn *new_turn(struct rs_collect_config *config, const struct config_job *job,
                                    const Rankscope__Commit *commit, struct rs_err *err)
{
    struct config_turn *turn = rs_mem_calloc(1, sizeof *turn);
    if (!turn || take_request(commit, &turn->request, err) < 0) {
        if (!turn)
            (void)rs_err_set(err, RS_NOMEM, "the collector is out of memory");
        rs_mem_free(turn);
        return NULL;
    }
    (void)snprintf(turn->capture, sizeof turn->capture, "%s", job->capture);
    (void)snprintf(turn->config_dir, sizeof turn->config_dir, "%s", job->config_dir);
    turn->start_step = commit->start_step;
    /* Ranks elsewhere begin at the step that was agreed on. */
    turn->may_move = turn->request.start_step <= 0 && commit->armed == commit->n_ranks;
    turn->deadline = rs_time_monotonic() +
                     timeout_of(commit, rs_config_trigger_find(config->trigger, &job->target));
    turn->next = config->turns;
    config->turns = turn;
    return turn;
}

static struct config_job *find_job(const struct rs_collect_config *config, const char *capture,
                                   uint32_t rank)
{
    for (struct config_job *job = config->jobs; job; job = job->next)
        if (job->rank == rank && strcmp(job->capture, capture) == 0)
            return job;
    return NULL;
}

static void on_commit(struct rs_collect_config *config, const Rankscope__Commit *commit)
{
    for (size_t i = 0; i < commit->n_ranks; i++) {
        struct rs_err err = {0};
        struct config_job *job = find_job(config, commit->capture, commit->ranks[i]);
        if (!job)
            rs_agent_adapter_unknown(&config->base, commit->capture, commit->ranks[i]);
        if (!job || config_phase_of(config, job) != CONFIG_PREPARED)
            continue;
        struct config_turn *turn = turn_for(config, job->capture, job->config_dir);
        if (!turn)
            turn = new_turn(config, job, commit, &err);
        if (!turn) {
            config_report(job, RS_PROGRESS_REFUSED, err.text);
            config_remove_job(config, job);
            continue;
        }
        job->turn = turn;
        job->start_step = turn->start_step;
        config_set_phase(job, CONFIG_TURN);
    }
}

/* ---- turns ------------------------------------------------------------------------------------------------------- */

static void drop_turn(struct rs_collect_config *config, struct config_turn *turn)
{
    struct config_turn **at = &config->turns;
    while (*at != turn)
        at = &(*at)->next;
    *at = turn->next;
    for (struct config_job *job = config->jobs; job; job = job->next)
        if (job->turn == turn)
            job->turn = NULL;
    rs_request_fini(&turn->request);
    rs_mem_free(turn);
}

/* The ranks of a turn that can be reported; those that cannot are told so and gone. */
static size_t gather(struct rs_collect_config *config, const struct config_turn *turn,
                     struct rs_config_target *targets, size_t capacity)
{
    size_t count = 0;
    for (struct config_job *job = config->jobs; job;) {
        struct config_job *next = job->next;
        if (job->turn == turn && count < capacity) {
            const struct rs_config_rank *rank =
                rs_config_trigger_find(config->trigger, &job->target);
            const char *why = !rank || rank->is_gone  ? "its process ended"
                              : rank->is_unresponsive ? rank->unresponsive_because
                                                      : NULL;
            if (why) {
                config_report(job, RS_PROGRESS_LOST, why);
                config_remove_job(config, job);
            } else {
                targets[count++] = job->target;
            }
        }
        job = next;
    }
    return count;
}

static void end_turn(struct rs_collect_config *config, struct config_turn *turn,
                     const struct rs_config_arm *arm, const char *why)
{
    for (struct config_job *job = config->jobs; job;) {
        struct config_job *next = job->next;
        if (job->turn == turn && !why) {
            config_set_phase(job, CONFIG_NOTIFIED);
            job->shown = RS_CONFIG_STATE_NOTIFIED;
            job->start_step = arm->start_step;
        } else if (job->turn == turn) {
            config_report(job, RS_PROGRESS_REFUSED, why);
            config_remove_job(config, job);
        }
        job = next;
    }
    drop_turn(config, turn);
}

static void take_turn(struct rs_collect_config *config, struct config_turn *turn)
{
    enum { TARGETS_MAX = 4096 };
    struct rs_err err = {0};
    struct rs_config_target *targets = rs_mem_calloc(TARGETS_MAX, sizeof *targets);
    const rs_dur left = turn->deadline - rs_time_monotonic();
    struct rs_config_arm arm = {.capture_id = turn->capture,
                                .request = &turn->request,
                                .start_step = turn->start_step,
                                .may_move = turn->may_move,
                                .targets = targets,
                                .deadline = left};
    if (targets)
        arm.target_count = gather(config, turn, targets, TARGETS_MAX);
    if (!targets || arm.target_count == 0) {
        end_turn(config, turn, &arm, "the collector is out of memory");
    } else if (left <= 0) {
        end_turn(config, turn, &arm, "another profiler_config.json was not taken in time");
    } else {
        enum rs_status status = rs_config_trigger_arm(config->trigger, &arm, &err);
        /* One that died since the last look must not take the others with it: now it is known to be gone. */
        const size_t count_before = arm.target_count;
        if (status == RS_NOTFOUND)
            arm.target_count = gather(config, turn, targets, TARGETS_MAX);
        if (status == RS_NOTFOUND && arm.target_count && arm.target_count < count_before) {
            err = (struct rs_err){0};
            status = rs_config_trigger_arm(config->trigger, &arm, &err);
        }
        if (status != RS_EXISTS)
            end_turn(config, turn, &arm, status < 0 ? err.text : NULL);
    }
    rs_mem_free(targets);
}

void config_take_turns(struct rs_collect_config *config)
{
    for (struct config_turn *turn = config->turns; turn;) {
        struct config_turn *next = turn->next;
        take_turn(config, turn);
        turn = next;
    }
}

/* ---- cancel ------------------------------------------------------------------------------------------------------- */

static void on_cancel(struct rs_collect_config *config, const Rankscope__Cancel *cancel)
{
    struct rs_err err = {0};
    const enum rs_status status = rs_config_trigger_cancel(config->trigger, cancel->capture, &err);
    if (status < 0)
        rs_log_warn("capture %.64s cannot be called back: %s", cancel->capture, err.text);
    for (struct config_job *job = config->jobs; job;) {
        struct config_job *next = job->next;
        const struct rs_config_rank *rank = rs_config_trigger_find(config->trigger, &job->target);
        const enum config_phase phase = config_phase_of(config, job);
        const bool is_back =
            phase < CONFIG_NOTIFIED ||
            (phase == CONFIG_NOTIFIED && (!rank || rank->state == RS_CONFIG_STATE_IDLE));
        if (strcmp(job->capture, cancel->capture) == 0 && is_back) {
            config_report(job, RS_PROGRESS_LOST, cancel->reason);
            config_remove_job(config, job);
        }
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

const struct rs_agent_handlers config_handlers = {prepare, commit, cancel};
