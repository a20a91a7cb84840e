/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The standing watch for steps: runs that become slower while nobody looks are captured, and it is told.
 *
 * Twice a second the ranks' steps are looked at, as the collectors tell them; the rules of common/client/run_watch.h decide per
 * run. Per run:
 *
 *   LEARNING --> WATCHING --a rank or all steps take longer--> ALARM --cool-down over, budget left--> a capture is started
 *      ^                                                           |                                        |
 *      +-----------------------------------------------------------+----------------------------------------+
 *
 * Runs whose ranks tell no steps are probed, where that is asked for (step_probe.h); what is noticed so is an alarm like others.
 *
 * Of the ranks that are suspected and a healthy one each, or of all when nobody is; why stands in the capture's request. The alarm is told in any case, with the capture or with why there is none. Steps that are recorded are not compared. The budget
 * counts from the daemon's start: a restart forgets it, and learns anew.
 */
#include "aggregator/server/server_priv.h"
#include "aggregator/server/step_probe.h"
#include "common/base/check.h"
#include "common/base/mem.h"
#include "common/client/run_watch.h"

#define RS_LOG_TAG "step-watch"
#include "common/base/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { RUNS_MAX = 64, BUDGET_MAX = 1000 };

static const rs_dur look_every_ns = RS_NS_PER_S / 2;
static const rs_dur day_ns = (rs_dur)24 * 3600 * RS_NS_PER_S;

struct watched {
    char run[RS_COORD_TEXT_BYTES];
    struct rs_run_watch rule;
    struct step_probe probe;
    bool is_recording;
    bool tells_steps; /* a rank of it does: it is not probed */
    rs_ns seen_at;    /* monotonic: the last look at which somebody told a step */
    rs_ns cool_until; /* monotonic */
};

struct step_watch {
    struct rs_server_step_rules rules; /* filled in */
    rs_ns next_look;
    bool is_full_told; /* that there are more runs than places */
    struct watched *runs[RUNS_MAX];
    size_t run_count;
    rs_ns kept_at[BUDGET_MAX]; /* the last per_day captures, a ring */
    size_t kept_count;
};

enum rs_status step_watch_start(struct rs_server *server, struct rs_err *err)
{
    const struct rs_server_step_rules *rules = &server->options.step_watch;
    if (!rules->is_on)
        return RS_OK;
    struct step_watch *watch = rs_mem_calloc(1, sizeof *watch);
    if (!watch)
        return rs_err_set(err, RS_NOMEM, "no memory to watch steps");
    if (rules->probe_share >= 1) {
        rs_mem_free(watch);
        return rs_err_set(err, RS_INVALID, "--step-probe-share is less than 100%%");
    }
    watch->rules = *rules;
    if (rules->longer_by <= 0)
        watch->rules.longer_by = 0.15;
    if (!rules->steps)
        watch->rules.steps = 5;
    if (!rules->cool_down_ns)
        watch->rules.cool_down_ns = 600 * (rs_dur)RS_NS_PER_S;
    if (!rules->per_day)
        watch->rules.per_day = 10;
    if (rules->probe_share <= 0)
        watch->rules.probe_share = 0.01;
    if (!rules->probe_every_ns)
        watch->rules.probe_every_ns = 60 * (rs_dur)RS_NS_PER_S;
    RS_CHECK(watch->rules.per_day > 0 && watch->rules.per_day <= BUDGET_MAX);
    server->step_watch = watch;
    return RS_OK;
}

void step_watch_fini(struct rs_server *server)
{
    struct step_watch *watch = server->step_watch;
    server->step_watch = NULL;
    for (size_t i = 0; watch && i < watch->run_count; i++) {
        rs_run_watch_fini(&watch->runs[i]->rule);
        step_probe_fini(&watch->runs[i]->probe);
        rs_mem_free(watch->runs[i]);
    }
    rs_mem_free(watch);
}

const struct rs_server_step_rules *step_watch_rules(const struct rs_server *server)
{
    return &server->step_watch->rules;
}

struct step_probe *step_watch_probe(struct rs_server *server, const char *capture)
{
    struct step_watch *watch = server->step_watch;
    for (size_t i = 0; watch && i < watch->run_count; i++)
        if (strcmp(watch->runs[i]->probe.capture, capture) == 0)
            return &watch->runs[i]->probe;
    return NULL;
}

/* ---- looking ----------------------------------------------------------------------------------------------------- */

/* NULL: more runs than are watched, or no memory. */
static struct watched *find_run(struct step_watch *watch, const char *name, rs_ns now)
{
    struct watched *run = NULL;
    for (size_t i = 0; i < watch->run_count; i++)
        if (strcmp(watch->runs[i]->run, name) == 0)
            return watch->runs[i];
    if (watch->run_count < RUNS_MAX) {
        run = rs_mem_calloc(1, sizeof *run);
        if (run)
            watch->runs[watch->run_count++] = run;
    }
    /* One that tells nothing any more, and of which nothing is remembered: its place is another's. */
    for (size_t i = 0; i < watch->run_count && watch->run_count == RUNS_MAX && !run; i++)
        if (now > watch->runs[i]->seen_at + look_every_ns * 4 &&
            now >= watch->runs[i]->cool_until) {
            run = watch->runs[i];
            rs_run_watch_fini(&run->rule);
            step_probe_fini(&run->probe);
            *run = (struct watched){.is_recording = false};
        }
    if (run) {
        (void)snprintf(run->run, sizeof run->run, "%s", name);
        watch->is_full_told = false;
    } else if (!watch->is_full_told) {
        rs_log_warn("steps of run %.100s, and of others after it, are not watched: %d are", name,
                    RUNS_MAX);
        watch->is_full_told = true;
    }
    return run;
}

static void add_rank(struct rs_server *server, struct watched *run,
                     const struct rs_coord_seen *seen)
{
    int32_t role[RS_ROLE_COUNT];
    enum rs_status status = RS_OK;
    memcpy(role, seen->role, sizeof role);
    rs_coord_add_roles(server->coord, seen, role);
    /* A step that is reckoned from an earlier recording says nothing of how long steps take now. */
    if (seen->adapter.capabilities & RS_CAP_TELLS_STEP) {
        const struct rs_run_member member = {.rank = seen->rank,
                                             .step = seen->step,
                                             .at = seen->last_seen_ns,
                                             .step_ns = seen->step_duration_ns,
                                             .own_ns = seen->own_ns,
                                             .delay_ns = seen->delay_ns,
                                             .host = seen->host,
                                             .pp = role[RS_ROLE_PP],
                                             .tp = role[RS_ROLE_TP]};
        run->tells_steps = true;
        status = seen->step >= 0 ? rs_run_watch_add(&run->rule, &member) : RS_OK;
    } else if (seen->can_capture) {
        status = step_probe_add(&run->probe, seen, role);
    }
    if (status < 0)
        rs_log_error("no memory to watch rank %" PRIu32 " of %.100s", seen->rank, seen->run);
}

static void gather(struct rs_server *server, rs_ns now)
{
    struct step_watch *watch = server->step_watch;
    struct watched *run = NULL;
    for (size_t i = 0; i < watch->run_count; i++)
        watch->runs[i]->is_recording = watch->runs[i]->tells_steps = false;
    for (size_t i = 0; i < rs_coord_seen_count(server->coord); i++) {
        const struct rs_coord_seen *seen = rs_coord_seen(server->coord, i);
        const bool tells = (seen->adapter.capabilities & RS_CAP_TELLS_STEP) != 0;
        if (!seen->link || seen->state == RS_RANK_GONE ||
            (tells ? seen->step < 0 : !watch->rules.has_probes))
            continue;
        if (!run || strcmp(run->run, seen->run) != 0)
            run = find_run(watch, seen->run, now);
        if (!run)
            continue;
        run->is_recording = run->is_recording || *seen->capture;
        run->seen_at = now;
        add_rank(server, run, seen);
    }
}

/* ---- an alarm ---------------------------------------------------------------------------------------------------- */

static bool has_budget(const struct step_watch *watch, rs_ns now)
{
    const size_t per_day = (size_t)watch->rules.per_day;
    return watch->kept_count < per_day ||
           now - watch->kept_at[watch->kept_count % per_day] >= day_ns;
}

/* Why it was begun stands with the capture: metadata of its request. */
static enum rs_status keep_reason(struct rs_capture_request *request,
                                  const struct rs_run_alarm *alarm, struct rs_err *err)
{
    struct rs_buf json = {0};
    struct rs_request_notes notes = {0};
    rs_run_alarm_json(alarm, &json);
    const enum rs_status status =
        json.failed ? RS_NOMEM
                    : rs_request_set(request, "metadata.watch", rs_buf_text(&json), &notes);
    rs_request_notes_fini(&notes);
    rs_buf_fini(&json);
    return status < 0 ? rs_err_set(err, status, "the reason cannot be kept with the capture")
                      : RS_OK;
}

/* RS_OK, RS_PARTIAL: `id` has the capture. */
static enum rs_status start(struct rs_server *server, const struct watched *run,
                            const struct rs_run_alarm *alarm, rs_ns now, char id[RS_COORD_ID_BYTES],
                            struct rs_err *err)
{
    struct rs_capture_request request;
    struct rs_request_answer answer = {0};
    struct rs_coord_capture *capture = NULL;
    if (rs_request_init(&request, RS_DIALECT_ASCEND, RS_ORIGIN_CLI) < 0)
        return rs_err_set(err, RS_NOMEM, "no memory for a request");
    request.origin =
        RS_ORIGIN_API; /* with the defaults of the command line: once, not until it is stopped */
    (void)snprintf(request.job_id, sizeof request.job_id, "%s", run->run);
    request.schedule.active = (uint32_t)server->step_watch->rules.steps;
    request.on_busy = RS_ON_BUSY_REFUSE;
    if (*alarm->chosen)
        (void)snprintf(request.ranks, sizeof request.ranks, "%s", alarm->chosen);
    const struct rs_coord_ask ask = {.request = &request};
    enum rs_status status = keep_reason(&request, alarm, err);
    if (status >= 0)
        status = rs_coord_start(server->coord, &ask, now, &answer, &capture, err);
    if (status >= 0 && !capture)
        status = rs_err_set(err, RS_REFUSED, "nobody is recorded");
    if (status >= 0)
        (void)snprintf(id, RS_COORD_ID_BYTES, "%s", capture->id);
    rs_request_answer_fini(&answer);
    rs_request_fini(&request);
    return status;
}

static void take(struct rs_server *server, struct watched *run, const struct rs_run_alarm *alarm,
                 rs_ns now)
{
    struct step_watch *watch = server->step_watch;
    char id[RS_COORD_ID_BYTES] = "", what[300], text[800];
    struct rs_err err = {0};
    rs_run_alarm_text(alarm, what, sizeof what);
    if (now < run->cool_until) {
        (void)rs_err_set(&err, RS_REFUSED, "the last capture of the run was a short while ago");
    } else if (!has_budget(watch, now)) {
        (void)rs_err_set(&err, RS_REFUSED,
                         "%" PRId64 " captures were, in the last 24 h (--step-per-day)",
                         watch->rules.per_day);
    } else if (start(server, run, alarm, now, id, &err) >= 0) {
        watch->kept_at[watch->kept_count++ % (size_t)watch->rules.per_day] = now;
        run->cool_until = now + watch->rules.cool_down_ns;
        server_tick_soon(server);
    }
    if (*id)
        (void)snprintf(text, sizeof text, "Run %.200s: %s; captured as %s", run->run, what, id);
    else
        (void)snprintf(text, sizeof text, "Run %.200s: %s; not captured: %.200s", run->run, what,
                       err.text);
    rs_log_warn("%s", text);
    if (server->options.on_alarm)
        server->options.on_alarm(server->options.alarm_self, "regression", run->run, id, text);
}

/* One that is under way when a rank begins to tell its steps is followed to its end, and no other begins. */
static void look_at_probe(struct rs_server *server, struct watched *run, rs_ns now)
{
    struct step_probe *probe = &run->probe;
    const bool has_ranks = step_probe_seen(server, probe, now);
    if (has_ranks || *probe->capture)
        step_probe_tick(server, probe, run->run, run->is_recording || run->tells_steps, now);
    if (!probe->has_alarm)
        return;
    probe->has_alarm = false;
    take(server, run, &probe->alarm, now);
}

rs_ns step_watch_tick(struct rs_server *server, rs_ns now)
{
    struct step_watch *watch = server->step_watch;
    if (!watch || server->is_draining)
        return RS_NS_MAX;
    if (now < watch->next_look)
        return watch->next_look;
    watch->next_look = now + look_every_ns;
    gather(server, now);
    for (size_t i = 0; i < watch->run_count; i++) {
        struct watched *run = watch->runs[i];
        struct rs_run_alarm alarm;
        if (rs_run_watch_see(&run->rule, run->is_recording, 1 + watch->rules.longer_by, &alarm))
            take(server, run, &alarm, now);
        if (watch->rules.has_probes)
            look_at_probe(server, run, now);
    }
    return watch->next_look;
}
