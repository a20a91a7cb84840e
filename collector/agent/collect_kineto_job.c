/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rank's recording by Kineto, from its answer to what is in the spool (collect_kineto.c draws the phases).
 *
 * Each is written down in the ledger before the profiler is handed anything, so that a collector that is started again knows which
 * traces to expect and takes them up (kineto_adopt_jobs()). Traces are read by threads of their own, KINETO_READER_COUNT at a time;
 * all else is on the adapter's thread, which watches for what became of each job: a probe that is over, a trace that is there, a
 * process that ended, a time that is over.
 */
#include "collector/agent/collect_kineto_priv.h"
#include "collector/agent/tracedir.h"
#include "common/base/mem.h"
#include "common/base/user_file.h"

#define RS_LOG_TAG "kineto"
#include "common/base/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* After its answer; and some steps more: other nodes may have yet to measure theirs. */
static const rs_dur prepared_timeout_ns = 60 * (rs_dur)RS_NS_PER_S;
enum { PREPARED_STEPS = 4 };
static const int64_t growth_said_bytes = (int64_t)1 << 30;
/* One iteration of this length is as good as two; and of this one, with a backward pass in it. */
static const rs_dur one_tells_ns = 4 * (rs_dur)RS_NS_PER_S;
static const rs_dur one_whole_tells_ns = 50 * (rs_dur)RS_NS_PER_MS;
static const rs_dur say_every_ns = 2 * (rs_dur)RS_NS_PER_S;

enum job_phase kineto_phase_of(struct rs_collect_kineto *kineto, const struct job *job)
{
    (void)pthread_mutex_lock(&kineto->base.lock);
    const enum job_phase phase = job->phase;
    (void)pthread_mutex_unlock(&kineto->base.lock);
    return phase;
}

struct job *kineto_job_of_process(const struct rs_collect_kineto *kineto, pid_t pid)
{
    for (struct job *job = kineto->jobs; job; job = job->next)
        if (job->facts.pid == pid)
            return job;
    return NULL;
}

void kineto_remove_job(struct rs_collect_kineto *kineto, struct job *job)
{
    bool is_last = true;
    struct job **at = &kineto->jobs;
    (void)pthread_mutex_lock(&kineto->base.lock); /* readers go through the list, too */
    while (*at != job)
        at = &(*at)->next;
    *at = job->next;
    (void)pthread_mutex_unlock(&kineto->base.lock);
    for (const struct job *other = kineto->jobs; other; other = other->next)
        is_last = is_last && strcmp(other->facts.capture, job->facts.capture) != 0;
    /* A process that is still to write needs its folder. */
    if (is_last && !job->is_left) /* one that was taken over may have another root */
        rs_tracedir_clean(*job->facts.trace_root ? job->facts.trace_root : kineto->trace_dir,
                          job->facts.capture);
    if (job->is_written_down && !job->is_left)
        rs_kineto_ledger_remove(kineto->ledger_dir, &job->facts);
    rs_host_samples_free(&job->samples);
    rs_mem_free(job);
}

/* It was told, and is not any more: a probe that is over. */
static void take_back(struct job *job)
{
    if (job->is_written_down)
        rs_kineto_ledger_remove(job->kineto->ledger_dir, &job->facts);
    job->is_written_down = job->facts.is_probe = false;
}

void kineto_write_down(struct job *job, enum rs_kineto_phase phase)
{
    struct rs_err err = {0};
    job->facts.phase = phase;
    job->is_written_down = true;
    if (rs_kineto_ledger_write(job->kineto->ledger_dir, &job->facts, &err) < 0)
        rs_log_warn("capture %s of rank %u is not written down, a collector that is started again "
                    "will not know of it: %s",
                    job->facts.capture, job->facts.rank, err.text);
}

void kineto_before_delivery(void *self, const struct rs_kineto_client *client)
{
    struct rs_collect_kineto *kineto = self;
    struct job *job = kineto_job_of_process(kineto, client->process.pid);
    if (!job || strcmp(job->facts.capture, client->capture_id) != 0)
        return;
    job->facts.is_probe = job->is_probe;
    job->facts.last_poll = rs_time_realtime();
    job->facts.poll_period = client->poll_period;
    kineto_write_down(job, RS_KINETO_JOB_DELIVERED);
}

/* ---- reading ---------------------------------------------------------------------------------------------------- */

static void before_end(void *self, const char *text)
{
    kineto_report(self, RS_PROGRESS_SENDING, text);
}

/* From now on a collector that is started again removes the file and is done. */
static void on_packed(void *self)
{
    kineto_write_down(self, RS_KINETO_JOB_PACKED);
}

/* Since its process was started; 0 unknown. */
static rs_dur age_of(uint64_t start_ticks)
{
    struct timespec now;
    const long ticks_per_s = sysconf(_SC_CLK_TCK);
    if (!start_ticks || ticks_per_s <= 0 || clock_gettime(CLOCK_BOOTTIME, &now) != 0)
        return 0;
    const rs_ns since_boot = now.tv_sec * (rs_ns)RS_NS_PER_S + now.tv_nsec;
    const rs_ns started = (rs_ns)(start_ticks / (uint64_t)ticks_per_s) * RS_NS_PER_S;
    return since_boot > started ? since_boot - started : 0;
}

static void fill_task(struct job *job)
{
    struct rs_collect_kineto *kineto = job->kineto;
    job->task = (struct rs_trace_task){
        .spool = kineto->base.spool,
        .source = {.run = job->facts.run,
                   .rank = job->facts.rank,
                   .incarnation = job->facts.incarnation,
                   .capture = job->facts.capture,
                   .capture_key = "",
                   .world = job->facts.world > 0 ? (uint32_t)job->facts.world : 0,
                   .host = job->facts.host,
                   .origin = job->facts.path,
                   .user = (int64_t)job->facts.uid + 1,
                   .keeps_sequence = true},
        .path = job->facts.path,
        .rank = job->facts.rank,
        .world = job->facts.world,
        .wanted_steps = job->facts.steps,
        .age_ns = age_of(job->facts.start_ticks),
        .samples = job->samples,
        .must_stop = &kineto->base.must_stop,
        .first_seq = job->facts.first_seq,
        .before_end = before_end,
        .on_packed = on_packed,
        .self = job};
}

static void read_job(struct job *job)
{
    fill_task(job);
    if (job->is_probe) {
        job->has_failed = rs_trace_measure(&job->task, &job->err) < 0;
        return;
    }
    kineto_report(job, RS_PROGRESS_READING, "");
    /* Numbers of chunks are fixed before the first is put: whoever reads the file again puts the same ones. */
    if (!job->task.first_seq &&
        rs_trace_first_seq(&job->task, &job->task.first_seq, &job->err) == RS_OK) {
        job->facts.first_seq = job->task.first_seq;
        kineto_write_down(job, RS_KINETO_JOB_READING);
    }
    job->has_failed = rs_trace_take(&job->task, &job->err) < 0;
}

static struct job *next_queued(struct rs_collect_kineto *kineto)
{
    for (struct job *job = kineto->jobs; job; job = job->next)
        if (job->phase == QUEUED)
            return job;
    return NULL;
}

void *kineto_read_traces(void *self)
{
    struct rs_collect_kineto *kineto = self;
    (void)pthread_mutex_lock(&kineto->base.lock);
    while (!atomic_load(&kineto->base.must_stop)) {
        struct job *job = next_queued(kineto);
        if (!job) {
            (void)pthread_cond_wait(&kineto->queue_filled, &kineto->base.lock);
            continue;
        }
        job->phase = READING;
        (void)pthread_mutex_unlock(&kineto->base.lock);
        read_job(job);
        (void)pthread_mutex_lock(&kineto->base.lock);
        job->phase = OVER;
        const uint64_t one = 1;
        (void)!write(kineto->base.wake_fd, &one, sizeof one);
    }
    (void)pthread_mutex_unlock(&kineto->base.lock);
    return NULL;
}

/* ---- watching jobs -------------------------------------------------------------------------------------------- */

static void remember(struct rs_collect_kineto *kineto, const struct job *job)
{
    const struct rs_trace_task *task = &job->task;
    const rs_dur window = task->window_end_ns - task->window_start_ns;
    const int64_t steps =
        job->facts.steps && task->optimizer_steps ? job->facts.steps : task->optimizer_steps;
    struct memory *memory = kineto_memory_of(kineto, job->facts.pid, job->facts.start_ticks);
    if (window <= 0)
        return;
    kineto->last_bytes_per_s = (int64_t)((double)task->bytes / ((double)window / 1e9));
    if (!memory) {
        if (rs_mem_grow((void **)&kineto->memories, &kineto->memory_capacity,
                        kineto->memory_count + 1, sizeof *kineto->memories) < 0)
            return;
        memory = &kineto->memories[kineto->memory_count++];
        *memory = (struct memory){.pid = job->facts.pid, .start_ticks = job->facts.start_ticks};
    }
    memory->bytes_per_s = kineto->last_bytes_per_s;
    /* Two optimizers in a step count two: what counts for the round-up is what the profiler counts. */
    if (steps > 0)
        memory->step_ns = window / steps;
}

/* Of those of a capture that wait for the step time, the first; NULL none. */
static struct job *first_waiting(struct rs_collect_kineto *kineto, const char *capture)
{
    for (struct job *job = kineto->jobs; job; job = job->next)
        if (job->is_waiting && strcmp(job->facts.capture, capture) == 0)
            return job;
    return NULL;
}

/* An iteration is a call of an optimizer. One alone is a step, or near it, when it holds a backward pass; of several optimizers
 * that step one after the other, one iteration is almost all of the step and the next almost nothing. The profiler slows the
 * first by some ten ms: a shorter one would make the multiple far too small, and a second probe takes a poll of 5 s. One of many seconds is not waited for twice: whatever the other takes, the next one is
 * late enough to be the common start. */
static bool one_tells(const struct job *job)
{
    const struct rs_trace_task *task = &job->task;
    const rs_dur window = task->window_end_ns - task->window_start_ns;
    return window >= one_tells_ns || (task->has_backward && window >= one_whole_tells_ns);
}

/* This rank could not tell: another one is asked. `is_over`: else it may yet write its trace, which is removed then. */
static void fail_probe(struct rs_collect_kineto *kineto, struct job *job, const char *why,
                       bool is_over)
{
    char capture[sizeof job->facts.capture];
    char text[512];
    const uint32_t steps = job->facts.steps;
    (void)snprintf(capture, sizeof capture, "%s", job->facts.capture);
    (void)snprintf(text, sizeof text,
                   "how long its steps are could not be measured: %.300s; --roundup N or "
                   "--duration needs no measure",
                   why);
    if (!job->is_called_back)
        kineto_refuse(kineto, capture, job->facts.rank, job->facts.incarnation, text);
    job->is_called_back = true;
    if (is_over)
        kineto_remove_job(kineto, job);
    kineto_probe_step(kineto, capture, steps);
}

/* How long a step is, is known now, or that the process makes none yet (it recorded half a second then). */
static void finish_probe(struct rs_collect_kineto *kineto, struct job *job)
{
    const struct rs_trace_task *task = &job->task;
    if (job->has_failed) {
        fail_probe(kineto, job, job->err.text, true);
        return;
    }
    const uint32_t steps = job->facts.steps;
    const bool has_told = task->counted_steps > 0 && task->counted_steps <= (int64_t)steps + 1;
    const bool is_final = !has_told || steps >= KINETO_PROBE_STEPS || one_tells(job);
    if (has_told && is_final)
        remember(kineto, job);
    rs_log_info("rank %u: %u iterations took %" PRId64 " us", job->facts.rank, steps,
                (task->window_end_ns - task->window_start_ns) / RS_NS_PER_US);
    if (job->is_called_back) {
        kineto_remove_job(kineto, job);
        return;
    }
    take_back(job);
    job->is_probe = false;
    job->task = (struct rs_trace_task){0};
    job->facts.path[0] = '\0';
    (void)pthread_mutex_lock(&kineto->base.lock);
    job->phase = PREPARED;
    (void)pthread_mutex_unlock(&kineto->base.lock);
    if (!is_final) {
        job->is_waiting = true;
        kineto_probe_step(kineto, job->facts.capture, KINETO_PROBE_STEPS);
        return;
    }
    kineto_answer_armed(kineto, job);
    for (struct job *other = NULL; (other = first_waiting(kineto, job->facts.capture));)
        kineto_answer_armed(kineto, other);
}

/* Its time begins anew with each word. */
static void say_waiting(struct job *job)
{
    const rs_ns now = rs_time_monotonic();
    if (now < job->said_at + say_every_ns)
        return;
    job->said_at = now;
    kineto_report(job, RS_PROGRESS_WAITING, "how long a step is, is measured first on one rank");
}

static void watch_prepared(struct rs_collect_kineto *kineto, struct job *job)
{
    const struct rs_kineto_client *client =
        kineto_find_client(kineto, job->facts.pid, job->facts.start_ticks);
    const rs_dur more = client ? PREPARED_STEPS * kineto_step_of(kineto, client) : 0;
    const bool is_late = rs_time_monotonic() > job->prepared_at + prepared_timeout_ns + more;
    if (job->is_called_back || (!job->is_waiting && is_late))
        kineto_remove_job(kineto, job);
    else if (job->is_waiting)
        say_waiting(job);
}

static void finish_job(struct rs_collect_kineto *kineto, struct job *job)
{
    if (job->is_probe) {
        finish_probe(kineto, job);
        return;
    }
    if (job->has_failed) {
        char text[600];
        rs_log_error("rank %u: %s", job->facts.rank, job->err.text);
        (void)snprintf(text, sizeof text, "%.400s; its trace stays at %.150s", job->err.text,
                       job->facts.path);
        kineto_report(job, RS_PROGRESS_LOST, text);
    } else {
        remember(kineto, job);
        rs_log_info("rank %u: %" PRId64 " bytes of trace taken, from %" PRId64 " to %" PRId64
                    ", asked for %" PRId64 " ms",
                    job->facts.rank, job->task.bytes, job->task.window_start_ns,
                    job->task.window_end_ns, job->facts.start_time_ms);
    }
    kineto_remove_job(kineto, job);
}

/* ---- samples of its host --------------------------------------------------------------------------------------- */

/* Since it was told: those of the time that was recorded are taken when it is known. */
static void sample_host(struct job *job)
{
    const struct rs_host_plan plan = {
        .set = job->facts.host_sys, .hz = job->facts.sample_hz, .has_ports = job->facts.sys_io};
    if (rs_host_plan_is_empty(&plan) || job->is_probe ||
        job->facts.first_seq) /* what was put of it stays what it was */
        return;
    if (!job->samples && rs_host_samples_new(job->facts.pid, plan, &job->samples) < 0)
        return;
    rs_host_samples_look(job->samples);
}

/* Before a chunk is put: whoever reads the trace again, after a kill, must put the same ones behind it. */
static void keep_samples(struct job *job)
{
    struct rs_err err = {0};
    char *path = rs_kineto_ledger_beside(job->kineto->ledger_dir, &job->facts);
    if (path && rs_host_samples_save(job->samples, path, &err) == RS_OK) {
        rs_mem_free(path);
        return;
    }
    rs_log_warn("rank %u: samples of its host are left out: %s", job->facts.rank,
                path ? err.text : "no memory");
    rs_host_samples_free(&job->samples);
    rs_mem_free(path);
}

/* Of one that was being read when the collector before this one ended: those that it kept, or none. */
static void take_kept_samples(struct job *job)
{
    struct rs_err err = {0};
    char *path = job->facts.host_sys || job->facts.sys_io
                     ? rs_kineto_ledger_beside(job->kineto->ledger_dir, &job->facts)
                     : NULL;
    if (path && rs_host_samples_load(path, &job->samples, &err) < 0 && err.status != RS_NOTFOUND)
        rs_log_warn("rank %u: samples of its host are left out: %s", job->facts.rank, err.text);
    rs_mem_free(path);
}

static void queue_job(struct rs_collect_kineto *kineto, struct job *job, const char *path)
{
    (void)snprintf(job->facts.path, sizeof job->facts.path, "%s", path);
    if (job->samples && !job->facts.first_seq)
        keep_samples(job);
    if (!job->is_probe)
        kineto_report(job, RS_PROGRESS_WRITTEN, "");
    (void)pthread_mutex_lock(&kineto->base.lock);
    job->phase = QUEUED;
    (void)pthread_cond_signal(&kineto->queue_filled);
    (void)pthread_mutex_unlock(&kineto->base.lock);
}

int64_t kineto_growth(const struct rs_kineto_client *client)
{
    const int64_t now =
        client->memory_at_begin_bytes > 0 ? rs_process_memory(client->process.pid) : -1;
    return now > client->memory_at_begin_bytes ? now - client->memory_at_begin_bytes : 0;
}

void kineto_overdue_text(const struct rs_kineto_client *client, char *text, size_t bytes)
{
    if (client->state == RS_KINETO_RECORDING)
        (void)snprintf(
            text, bytes,
            "it records and does not end: its steps take longer than was thought, or its "
            "profiler missed the end, as libkineto may on an overloaded host. Then it "
            "records into memory (%" PRId64 " MiB so far) until its process ends",
            kineto_growth(client) >> 20);
    else
        (void)snprintf(text, bytes,
                       "it took the request and has not carried it out in time: it hangs, or its "
                       "steps take longer than was thought; what it records later is taken when it "
                       "comes");
}

/* A profiler that never ends fills its host's memory: said again whenever it is twice as much. */
static void watch_growth(struct job *job, const struct rs_kineto_client *client)
{
    const int64_t grown = client->state == RS_KINETO_RECORDING ? kineto_growth(client) : 0;
    if (grown < 2 * job->said_growth_bytes || grown < growth_said_bytes)
        return;
    job->said_growth_bytes = grown;
    rs_log_warn("rank %u (process %d) still records for capture %s, and its memory has grown by "
                "%" PRId64 " MiB since it began: if that goes on, its profiler has missed the end, "
                "and only the end of its process ends it",
                job->facts.rank, (int)job->facts.pid, job->facts.capture, grown >> 20);
}

static void watch_reported(struct rs_collect_kineto *kineto, struct job *job)
{
    const struct rs_kineto_client *client =
        kineto_find_client(kineto, job->facts.pid, job->facts.start_ticks);
    if (job->is_probe && !job->is_called_back)
        say_waiting(job);
    if (job->is_probe && (!client || client->state == RS_KINETO_FAILED)) {
        fail_probe(kineto, job, client ? client->failure : "its process ended", true);
        return;
    }
    if (client && client->is_overdue)
        watch_growth(job, client);
    if (client && client->is_overdue && !job->is_overdue) {
        char why[256];
        kineto_overdue_text(client, why, sizeof why);
        job->is_overdue = true;
        if (!job->is_probe)
            kineto_report(job, RS_PROGRESS_LOST, why);
        else if (!job->is_called_back)
            fail_probe(kineto, job, "it took the request and does not go on", false);
        return;
    }
    if (!client || strcmp(client->capture_id, job->facts.capture) != 0) {
        kineto_report(job, RS_PROGRESS_LOST, "its process ended");
        kineto_remove_job(kineto, job);
        return;
    }
    sample_host(job);
    if (client->state == job->shown)
        return;
    job->shown = client->state;
    switch (client->state) {
    case RS_KINETO_IDLE:
    case RS_KINETO_ARMED:
        return;
    case RS_KINETO_DELIVERED:
        if (!job->is_probe)
            kineto_report(job, RS_PROGRESS_DELIVERED, "");
        return;
    case RS_KINETO_RECORDING:
    case RS_KINETO_WRITING:
        if (!job->is_probe)
            kineto_report(job, RS_PROGRESS_RECORDING,
                          job->samples ? rs_host_samples_why(job->samples) : "");
        return;
    case RS_KINETO_WRITTEN:
        queue_job(kineto, job, client->trace_path);
        return;
    case RS_KINETO_FAILED:
        kineto_report(job, RS_PROGRESS_LOST, client->failure);
        kineto_remove_job(kineto, job);
        return;
    }
}

/* true: something is in hand. */
bool kineto_watch_jobs(struct rs_collect_kineto *kineto)
{
    for (struct job *job = kineto->jobs; job;) {
        struct job *next = job->next;
        const enum job_phase phase = kineto_phase_of(kineto, job);
        if (phase == TOLD)
            watch_reported(kineto, job);
        else if (phase == OVER)
            finish_job(kineto, job);
        else if (phase == PREPARED)
            watch_prepared(kineto, job);
        job = next;
    }
    return kineto->jobs != NULL;
}

/* ---- what an earlier collector left in hand ------------------------------------------------------------------------ */

static void refuse_left(struct rs_collect_kineto *kineto, const struct rs_kineto_job *facts,
                        enum rs_progress_state state, const char *why)
{
    rs_log_warn("capture %s of rank %u: %s", facts->capture, facts->rank, why);
    kineto_report_of(kineto, facts->capture, facts->rank, state, why);
    rs_kineto_ledger_remove(kineto->ledger_dir, facts);
    rs_tracedir_clean(facts->trace_root, facts->capture);
}

/* Until when it may be told: a common instant can be made for so long; a common count of steps is kept when it is told
 * little later than the others. */
static rs_ns offer_until(const struct rs_kineto_job *facts)
{
    const rs_dur period = facts->poll_period > 0 ? facts->poll_period : 5 * (rs_dur)RS_NS_PER_S;
    if (!facts->steps)
        return facts->start_time_ms * RS_NS_PER_MS - rs_kineto_trigger_lead(KINETO_WARMUP_S);
    const rs_ns planned =
        facts->deliver_from > facts->last_poll ? facts->deliver_from : facts->last_poll;
    return planned + 2 * period;
}

static void fill_adopt(const struct rs_kineto_job *facts, struct rs_kineto_adopt *adopt)
{
    const rs_ns now = rs_time_realtime();
    *adopt = (struct rs_kineto_adopt){
        .process = {.pid = facts->pid,
                    .uid = facts->uid,
                    .start_ticks = facts->start_ticks,
                    .rank = (int32_t)facts->rank,
                    .local_rank = -1,
                    .world_size = facts->world},
        .arm = {.pid = facts->pid,
                .capture_id = facts->capture,
                .trace_root = facts->trace_root,
                .deadline = facts->deadline > now ? facts->deadline - now : 1,
                .deliver_from = facts->deliver_from,
                .deliver_until = offer_until(facts)},
        .is_delivered = facts->phase != RS_KINETO_JOB_ARMED,
        .last_poll = facts->last_poll,
        .poll_period = facts->poll_period};
    (void)snprintf(adopt->process.run, sizeof adopt->process.run, "%.*s",
                   (int)sizeof adopt->process.run - 1, facts->run);
    kineto_fill_config(facts, &adopt->arm.config);
}

/* Its trace is in the spool, and the collector ended before it could remove it. */
static void remove_packed(const char *path)
{
    struct rs_held held;
    struct rs_err err = {0};
    enum rs_status status = rs_file_hold(path, RS_HOLD_ROOT_LINKS, &held, &err);
    if (status == RS_OK) {
        status = rs_held_remove(path, &held, RS_HOLD_ROOT_LINKS, &err);
        rs_held_release(&held);
    }
    if (status < 0 && status != RS_NOTFOUND)
        rs_log_warn("a trace that is packed stays: %s", err.text);
}

static void adopt_job(void *self, const struct rs_kineto_job *facts)
{
    struct rs_collect_kineto *kineto = self;
    struct rs_kineto_adopt adopt;
    struct rs_err err = {0};
    fill_adopt(facts, &adopt);
    if (facts->is_other_boot) {
        refuse_left(kineto, facts, RS_PROGRESS_LOST, "its node was started again");
        return;
    }
    if (facts->phase == RS_KINETO_JOB_PACKED) {
        remove_packed(facts->path);
        rs_kineto_ledger_remove(kineto->ledger_dir, facts);
        rs_tracedir_clean(facts->trace_root, facts->capture);
        return;
    }
    if (!adopt.is_delivered && rs_time_realtime() > adopt.arm.deliver_until) {
        refuse_left(
            kineto, facts, RS_PROGRESS_REFUSED,
            "its collector was away when it should have been reported, and the others began");
        return;
    }
    struct job *job = rs_mem_calloc(1, sizeof *job);
    enum rs_status status = job ? rs_kineto_trigger_adopt(kineto->trigger, &adopt, &err)
                                : rs_err_set(&err, RS_NOMEM, "the collector is out of memory");
    if (status < 0) {
        refuse_left(kineto, facts, RS_PROGRESS_LOST, err.text);
        rs_mem_free(job);
        return;
    }
    job->kineto = kineto;
    job->facts = *facts;
    job->phase = TOLD;
    job->is_written_down = true;
    job->is_probe = job->is_called_back =
        facts->is_probe; /* who asked does not wait for it any more */
    job->shown = adopt.is_delivered ? RS_KINETO_IDLE : RS_KINETO_ARMED;
    take_kept_samples(job);
    job->next = kineto->jobs;
    kineto->jobs = job;
    rs_log_info("capture %s of rank %u: gone on with", facts->capture, facts->rank);
}

void kineto_adopt_jobs(struct rs_collect_kineto *kineto)
{
    struct rs_err err = {0};
    if (rs_kineto_ledger_read(kineto->ledger_dir, adopt_job, kineto, &err) < 0)
        rs_log_error("captures that were in hand are not gone on with: %s", err.text);
}
