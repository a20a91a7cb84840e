/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the aggregator asks of ranks with Kineto's profiler, and what is answered: PREPARE, COMMIT, CANCEL.
 *
 *     PREPARE --step time known--> armed(step time)
 *        `------not known--> one rank records an iteration, or two (the probe), the others wait for what it measured
 *     COMMIT --> facts and configuration are written down, then handed over when the profiler asks for one
 *     CANCEL --> what was not handed over is taken back; what was is owned until it fired or its process ended
 */
#include "collector/agent/collect_kineto_priv.h"
#include "collector/agent/tracedir.h"
#include "common/base/mem.h"

#define RS_LOG_TAG "kineto"
#include "common/base/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    /* Sizes when nothing was captured yet: a busy rank writes 25 to 70 MB a second. */
    DEFAULT_BYTES_PER_S = 60 * 1000 * 1000,
};

static const rs_dur default_timeout_ns = 600 * (rs_dur)RS_NS_PER_S;
static const rs_dur timeout_max_ns = (rs_dur)366 * 86400 * RS_NS_PER_S;
/* Of a probe: the aggregator waits for an answer for 240 s. */
static const rs_dur probe_timeout_ns = 200 * (rs_dur)RS_NS_PER_S;
static const rs_dur unknown_step_ns = RS_NS_PER_S; /* for the estimate only */

void kineto_refuse(struct rs_collect_kineto *kineto, const char *capture, uint32_t rank,
                   const char *incarnation, const char *why)
{
    Rankscope__ArmedRank armed = RANKSCOPE__ARMED_RANK__INIT;
    armed.rank = rank;
    armed.incarnation = rs_const_cast(incarnation);
    armed.step = -1;
    armed.refused = rs_const_cast(why);
    rs_agent_adapter_armed(&kineto->base, capture, &armed);
}

/* ---- prepare ---------------------------------------------------------------------------------------------------- */

/* What this rank is going to write, in bytes. */
static int64_t estimate(struct rs_collect_kineto *kineto, const struct rs_kineto_client *client,
                        const Rankscope__Prepare *prepare)
{
    const struct memory *memory =
        kineto_memory_of(kineto, client->process.pid, client->process.start_ticks);
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
        const struct rs_kineto_client *client =
            kineto_find_rank(kineto, prepare->run, prepare->ranks[i]);
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
    (void)snprintf(job->facts.capture, sizeof job->facts.capture, "%.64s", prepare->capture);
    (void)snprintf(job->facts.run, sizeof job->facts.run, "%s", kineto_run_of(kineto, client));
    (void)snprintf(job->facts.host, sizeof job->facts.host, "%.256s", kineto->base.host);
    kineto_incarnation_of(kineto, client, job->facts.incarnation);
    job->facts.rank = rank;
    job->facts.world = client->process.world_size;
    job->facts.pid = client->process.pid;
    job->facts.start_ticks = client->process.start_ticks;
    job->phase = PREPARED;
    job->prepared_at = rs_time_monotonic();
    (void)pthread_mutex_lock(&kineto->base.lock); /* readers go through the list, too */
    job->next = kineto->jobs;
    kineto->jobs = job;
    (void)pthread_mutex_unlock(&kineto->base.lock);
    return job;
}

void kineto_answer_armed(struct rs_collect_kineto *kineto, struct job *job)
{
    const struct rs_kineto_client *client =
        kineto_find_client(kineto, job->facts.pid, job->facts.start_ticks);
    job->is_waiting = false;
    job->prepared_at = rs_time_monotonic();
    if (!client) {
        kineto_refuse(kineto, job->facts.capture, job->facts.rank, job->facts.incarnation,
                      "its process ended");
        job->is_called_back = true;
        return;
    }
    Rankscope__ArmedRank armed = RANKSCOPE__ARMED_RANK__INIT;
    armed.rank = job->facts.rank;
    armed.incarnation = job->facts.incarnation;
    armed.step = -1;
    armed.step_duration_ns = kineto_step_of(kineto, client);
    armed.next_poll_ns = rs_kineto_trigger_next_poll(kineto->trigger, client);
    armed.poll_period_ns = client->poll_period;
    armed.lead_ns = rs_kineto_trigger_lead(KINETO_WARMUP_S);
    armed.warning = job->warning;
    rs_agent_adapter_armed(&kineto->base, job->facts.capture, &armed);
}

/* `must_wait`: its answer waits for a probe. */
static void prepare_rank(struct rs_collect_kineto *kineto, const Rankscope__Prepare *prepare,
                         uint32_t rank, const char *warning, bool must_wait)
{
    const struct rs_kineto_client *client = kineto_find_rank(kineto, prepare->run, rank);
    char incarnation[KINETO_TEXT_BYTES] = "";
    char why[256] = "";
    struct job *job = NULL;
    struct job *other = client ? kineto_job_of_process(kineto, client->process.pid) : NULL;
    if (other && strcmp(other->facts.capture, prepare->capture) == 0) {
        /* Asked again: its first answer may be lost, unless it has yet to give one. */
        if (kineto_phase_of(kineto, other) == PREPARED && !other->is_waiting &&
            !other->is_called_back)
            kineto_answer_armed(kineto, other);
        return;
    }
    if (client)
        kineto_incarnation_of(kineto, client, incarnation);
    if (!client)
        (void)snprintf(why, sizeof why, "its process is not there any more");
    else if (other && other->is_overdue && client->state == RS_KINETO_RECORDING)
        (void)snprintf(why, sizeof why,
                       "it records for capture %.64s and does not end: its memory has grown by "
                       "%" PRId64
                       " MiB since. Its profiler has missed the end, if that goes on, and "
                       "only the end of its process ends it",
                       other->facts.capture, kineto_growth(client) >> 20);
    else if (other && other->is_overdue)
        (void)snprintf(why, sizeof why, "it has yet to begin what capture %.64s asked of it",
                       other->facts.capture);
    else if (other)
        (void)snprintf(why, sizeof why, "it records for capture %.64s already",
                       other->facts.capture);
    else if (client->is_busy)
        (void)snprintf(why, sizeof why, "it is busy with a profile of its own");
    else if (!(job = new_job(kineto, client, prepare, rank)))
        (void)snprintf(why, sizeof why, "the collector is out of memory");
    if (*why || !job) {
        kineto_refuse(kineto, prepare->capture, rank, incarnation, why);
        return;
    }
    (void)snprintf(job->warning, sizeof job->warning, "%s", warning);
    job->is_waiting = must_wait;
    if (!must_wait)
        kineto_answer_armed(kineto, job);
}

/* Steps were asked for, the round-up is ours to choose, and nobody of the run has told how long a step is. */
static bool needs_probe(struct rs_collect_kineto *kineto, const Rankscope__Prepare *prepare)
{
    const bool is_chosen = prepare->options && prepare->options->roundup;
    const struct rs_kineto_client *client = NULL;
    for (size_t i = 0; i < prepare->n_ranks && !client; i++)
        client = kineto_find_rank(kineto, prepare->run, prepare->ranks[i]);
    return prepare->steps && !is_chosen && client && kineto_step_of(kineto, client) <= 0;
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
    const bool must_wait = status == RS_OK && needs_probe(kineto, prepare);
    for (size_t i = 0; i < prepare->n_ranks; i++) {
        char incarnation[KINETO_TEXT_BYTES] = "";
        const struct rs_kineto_client *client =
            kineto_find_rank(kineto, prepare->run, prepare->ranks[i]);
        if (client)
            kineto_incarnation_of(kineto, client, incarnation);
        if (status < 0)
            kineto_refuse(kineto, prepare->capture, prepare->ranks[i], incarnation, err.text);
        else
            prepare_rank(kineto, prepare, prepare->ranks[i], i == 0 ? warning : "", must_wait);
    }
    if (must_wait)
        kineto_probe_step(kineto, prepare->capture, KINETO_PROBE_FIRST);
}

/* ---- the probe -------------------------------------------------------------------------------------------------- */

/* Of those that wait, the one that asks next: the sooner it is told, the sooner all begin. */
static struct job *next_asker(struct rs_collect_kineto *kineto, const char *capture)
{
    struct job *best = NULL;
    rs_ns soonest = RS_NS_MAX;
    for (struct job *job = kineto->jobs; job; job = job->next) {
        const struct rs_kineto_client *client =
            job->is_waiting && job->phase == PREPARED && strcmp(job->facts.capture, capture) == 0
                ? kineto_find_client(kineto, job->facts.pid, job->facts.start_ticks)
                : NULL;
        if (!client || client->is_gone)
            continue;
        const rs_dur silent = rs_time_monotonic() - client->last_poll;
        rs_ns at = rs_kineto_trigger_next_poll(kineto->trigger, client);
        /* Who has missed its time may not ask at all: the last to be chosen. */
        if (silent > client->poll_period + client->poll_period / 2)
            at = RS_NS_MAX / 2 + silent;
        if (at < soonest) {
            soonest = at;
            best = job;
        }
    }
    return best;
}

static enum rs_status arm_probe(struct rs_collect_kineto *kineto, struct job *job, uint32_t steps,
                                struct rs_err *err)
{
    const struct rs_kineto_client *client =
        kineto_find_client(kineto, job->facts.pid, job->facts.start_ticks);
    const rs_dur period = client ? client->poll_period : 0;
    job->facts.uid = client ? client->process.uid : 0;
    job->facts.steps = steps;
    job->facts.roundup = 1;
    (void)snprintf(job->facts.trace_root, sizeof job->facts.trace_root, "%s", kineto->trace_dir);
    struct rs_kineto_arm arm = {.pid = job->facts.pid,
                                .capture_id = job->facts.capture,
                                .trace_root = job->facts.trace_root,
                                .deadline = probe_timeout_ns,
                                .deliver_until = rs_time_realtime() + 2 * period + RS_NS_PER_S};
    kineto_fill_config(&job->facts, &arm.config);
    return rs_kineto_trigger_arm(kineto->trigger, &arm, err);
}

void kineto_probe_step(struct rs_collect_kineto *kineto, const char *capture, uint32_t steps)
{
    struct job *job = NULL;
    while ((job = next_asker(kineto, capture))) {
        struct rs_err err = {0};
        job->is_waiting = false;
        if (arm_probe(kineto, job, steps, &err) == RS_OK) {
            job->phase = TOLD;
            job->shown = RS_KINETO_ARMED;
            job->is_probe = true;
            rs_log_info("rank %u: how long a step is, is found out by a profile of %u iterations",
                        job->facts.rank, steps);
            return;
        }
        kineto_refuse(kineto, capture, job->facts.rank, job->facts.incarnation, err.text);
        job->is_called_back = true;
    }
}

/* ---- commit -------------------------------------------------------------------------------------------------------- */

static int32_t clamp32(int64_t value)
{
    return value < INT32_MAX ? (int32_t)value : INT32_MAX;
}

static int32_t warmup_of(const Rankscope__CaptureRequest *request)
{
    const bool is_said = request && request->schedule && request->schedule->warmup;
    return is_said ? clamp32((int64_t)request->schedule->warmup->value) : 0;
}

void kineto_take_request(struct rs_kineto_job *facts, const Rankscope__Commit *commit)
{
    const Rankscope__ProfilerOptions none = RANKSCOPE__PROFILER_OPTIONS__INIT;
    const Rankscope__ProfilerOptions *options = commit->options ? commit->options : &none;
    facts->steps = commit->steps;
    facts->start_time_ms = commit->start_time_ns / RS_NS_PER_MS;
    facts->duration_ms = commit->steps ? 0 : clamp32(commit->duration_ns / RS_NS_PER_MS);
    facts->roundup = options->roundup ? clamp32(options->roundup) : 500;
    facts->record_shapes = options->record_shapes;
    facts->with_stack = options->with_stack;
    facts->profile_memory = options->profile_memory;
    facts->with_flops = commit->request && commit->request->with_flops;
    facts->with_modules = commit->request && commit->request->with_modules;
    facts->activities = commit->request ? commit->request->activities : 0;
    const struct rs_host_plan plan = rs_host_plan_of(commit->request);
    facts->host_sys = plan.set;
    facts->sample_hz = plan.hz;
    facts->sys_io = plan.has_ports;
    facts->warmup = commit->steps ? warmup_of(commit->request) : 0;
}

/* What is asked, as it is written down. */
static void fill_facts(struct job *job, const struct rs_kineto_client *client,
                       const Rankscope__Commit *commit)
{
    const Rankscope__ProfilerOptions none = RANKSCOPE__PROFILER_OPTIONS__INIT;
    const Rankscope__ProfilerOptions *options = commit->options ? commit->options : &none;
    const rs_dur asked = options->timeout_ns > 0 ? options->timeout_ns : default_timeout_ns;
    const rs_dur timeout = asked < timeout_max_ns ? asked : timeout_max_ns;
    const rs_ns now = rs_time_realtime();
    struct rs_kineto_job *facts = &job->facts;
    facts->uid = client->process.uid;
    facts->deadline = now + timeout;
    facts->deliver_from = commit->deliver_from_ns > 0 ? commit->deliver_from_ns : 0;
    facts->last_poll = now - (rs_time_monotonic() - client->last_poll);
    facts->poll_period = client->poll_period;
    kineto_take_request(facts, commit);
    (void)snprintf(facts->trace_root, sizeof facts->trace_root, "%s", job->kineto->trace_dir);
}

void kineto_fill_config(const struct rs_kineto_job *facts, struct rs_kineto_config *config)
{
    *config = (struct rs_kineto_config){.iterations = clamp32(facts->steps),
                                        .start_iteration = -1,
                                        .iteration_roundup = facts->roundup,
                                        .start_time_ms = facts->start_time_ms,
                                        .duration_ms = facts->duration_ms,
                                        .warmup_s = KINETO_WARMUP_S,
                                        .warmup_iterations = facts->warmup,
                                        .activities = facts->activities,
                                        .record_shapes = facts->record_shapes,
                                        .with_stack = facts->with_stack,
                                        .profile_memory = facts->profile_memory,
                                        .with_flops = facts->with_flops,
                                        .with_modules = facts->with_modules};
}

static enum rs_status arm_job(struct job *job, const struct rs_kineto_client *client,
                              struct rs_err *err)
{
    const struct rs_kineto_job *facts = &job->facts;
    struct rs_kineto_trigger *trigger = job->kineto->trigger;
    struct rs_kineto_arm arm = {.pid = facts->pid,
                                .capture_id = facts->capture,
                                .trace_root = facts->trace_root,
                                .deadline = facts->deadline - rs_time_realtime(),
                                .deliver_from = facts->deliver_from};
    kineto_fill_config(facts, &arm.config);
    if (!facts->steps) {
        arm.deliver_until =
            facts->start_time_ms * RS_NS_PER_MS - rs_kineto_trigger_lead(KINETO_WARMUP_S);
        if (rs_kineto_trigger_earliest_ms(trigger, client, KINETO_WARMUP_S) > facts->start_time_ms)
            return rs_err_set(err, RS_REFUSED,
                              "it asks for work too late for the common start: the request came "
                              "late, or the clocks of the hosts differ");
    }
    return rs_kineto_trigger_arm(trigger, &arm, err);
}

static void commit_job(struct rs_collect_kineto *kineto, struct job *job,
                       const Rankscope__Commit *commit)
{
    struct rs_err err = {0};
    const struct rs_kineto_client *client =
        kineto_find_client(kineto, job->facts.pid, job->facts.start_ticks);
    enum rs_status status = RS_OK;
    if (client) {
        fill_facts(job, client, commit);
        status = arm_job(job, client, &err);
    } else {
        status = rs_err_set(&err, RS_NOTFOUND, "its process ended");
    }
    if (status < 0) {
        kineto_report(job, RS_PROGRESS_REFUSED, err.text);
        kineto_remove_job(kineto, job);
        return;
    }
    job->phase = TOLD;
    job->shown = RS_KINETO_ARMED;
    kineto_write_down(job, RS_KINETO_JOB_ARMED);
}

static struct job *find_job(const struct rs_collect_kineto *kineto, const char *capture,
                            uint32_t rank)
{
    for (struct job *job = kineto->jobs; job; job = job->next)
        if (job->facts.rank == rank && strcmp(job->facts.capture, capture) == 0)
            return job;
    return NULL;
}

static void on_commit(struct rs_collect_kineto *kineto, const Rankscope__Commit *commit)
{
    for (size_t i = 0; i < commit->n_ranks; i++) {
        struct job *job = find_job(kineto, commit->capture, commit->ranks[i]);
        if (job && job->phase == PREPARED)
            commit_job(kineto, job, commit);
        if (!job)
            kineto_report_of(kineto, commit->capture, commit->ranks[i], RS_PROGRESS_REFUSED,
                             "its collector was started again before the request was complete");
    }
}

static void on_cancel(struct rs_collect_kineto *kineto, const Rankscope__Cancel *cancel)
{
    for (struct job *job = kineto->jobs; job;) {
        struct job *next = job->next;
        const enum job_phase phase = kineto_phase_of(kineto, job);
        if (strcmp(job->facts.capture, cancel->capture) == 0 &&
            (phase == PREPARED ||
             (phase == TOLD &&
              rs_kineto_trigger_cancel(kineto->trigger, job->facts.pid) == RS_OK))) {
            kineto_report(job, RS_PROGRESS_LOST, cancel->reason);
            kineto_remove_job(kineto, job);
        } else if (strcmp(job->facts.capture, cancel->capture) == 0 && job->is_probe) {
            job->is_called_back = true; /* it was told: its trace is waited for, and removed */
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

const struct rs_agent_handlers kineto_handlers = {prepare, commit, cancel};
