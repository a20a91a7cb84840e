/* SPDX-License-Identifier: Apache-2.0 */
#include "common/client/probe_make.h"

#include "common/client/captures.h"
#include "common/wire/wire.h"

#include <stdio.h>
#include <string.h>

struct made {
    char id[64];
    char why[300]; /* "": nothing is known to be wrong */
    bool is_closed, is_futile, was_recording;
    rs_ns looked_at; /* monotonic */
    rs_dur disturbed_ns;
};

static void look_at(struct made *made, const Rankscope__CaptureInfo *info)
{
    const rs_ns now = rs_time_monotonic();
    bool records = false;
    for (size_t i = 0; i < info->n_ranks; i++) {
        const Rankscope__CaptureRank *rank = info->ranks[i];
        records = records || rank->state == RS_PROGRESS_RECORDING;
        if (!*made->why && rank->state > RS_PROGRESS_DONE)
            (void)snprintf(made->why, sizeof made->why, "%.290s", rank->text);
    }
    if (records || made->was_recording)
        made->disturbed_ns += now - made->looked_at;
    made->was_recording = records;
    made->looked_at = now;
    made->is_closed = rs_capture_state_is_closed((enum rs_capture_state)info->state);
    if (*info->reason && !*made->why)
        (void)snprintf(made->why, sizeof made->why, "%.290s", info->reason);
    /* Ranks that count iterations would begin far apart as long as nobody knows how long one is. */
    made->is_futile =
        info->state == RS_CAPTURE_RECORDING && info->roundup && !info->step_ns && !records;
}

static bool on_progress(void *self, const Rankscope__CaptureInfo *info)
{
    struct made *made = self;
    (void)snprintf(made->id, sizeof made->id, "%.63s", info->id);
    look_at(made, info);
    /* Its state says that it is closed before it can be removed: that is with the last answer. */
    return !made->is_futile;
}

static enum rs_status call_back(const struct rs_address *address, struct made *made,
                                struct rs_err *err)
{
    struct rs_capture_follow follow = {.on_progress = on_progress, .self = made};
    char id[sizeof made->id];
    (void)snprintf(id, sizeof id, "%s", made->id);
    (void)snprintf(made->why, sizeof made->why, "its ranks have made no step so far");
    made->is_futile = false;
    const enum rs_status status =
        rs_client_capture_follow(address, RS_CLIENT_STOP, id, &follow, err);
    rs_capture_follow_fini(&follow);
    return status;
}

static enum rs_status start(const struct rs_probe_make *how, const char *ranks, struct made *made,
                            struct rs_err *err)
{
    const struct rs_capture_wanted wanted = {.run = how->run,
                                             .ranks = ranks,
                                             .steps = RS_PROBE_WATCH_STEPS,
                                             .has_no_shapes = true,
                                             .on_busy = "refuse",
                                             .origin = rs_probe_watch_origin};
    struct rs_capture_follow follow = {.on_progress = on_progress, .self = made};
    struct rs_capture_question *question = NULL;
    struct rs_buf notes = {0};
    enum rs_status status = rs_capture_question_new(&wanted, &notes, &question, err);
    if (status == RS_OK) {
        made->looked_at = rs_time_monotonic();
        status = rs_client_capture_start(how->address, question, &follow, err);
    }
    (void)snprintf(made->id, sizeof made->id, "%s", follow.id);
    if (follow.status < 0)
        (void)snprintf(made->why, sizeof made->why, "%.290s", follow.err.text);
    rs_capture_question_free(&question);
    rs_capture_follow_fini(&follow);
    rs_buf_fini(&notes);
    if (status >= 0 && made->is_futile)
        status = call_back(how->address, made, err);
    return status;
}

/* What cannot be removed now goes by the aggregator. */
static void remove_it(const struct rs_probe_make *how, const char *id)
{
    struct rs_err ignored = {0};
    Rankscope__CaptureInfo *info = NULL;
    if (rs_client_capture(how->address, RS_CLIENT_REMOVE, id, &info, &ignored) == RS_OK && info)
        rankscope__capture_info__free_unpacked(info, NULL);
}

/* For how long ranks had no core, as it stands at the end. */
static void look_again(const struct rs_probe_make *how, struct rs_probe_watch *watch)
{
    struct rs_run_watch none = {.peers = NULL};
    struct rs_run_look look;
    struct rs_err ignored = {0};
    if (rs_client_run_look(how->address, how->run, &none, watch, &look, &ignored) == RS_OK)
        (void)rs_probe_watch_seen(watch, &how->rules, rs_time_monotonic());
    rs_run_watch_fini(&none);
}

enum rs_status rs_client_probe_make(const struct rs_probe_make *how, struct rs_probe_watch *watch,
                                    struct rs_run_alarm *alarm_p, struct rs_err *err)
{
    char ranks[RS_PROBE_WATCH_EXPR_BYTES];
    struct rs_probe_figure figures[RS_PROBE_WATCH_RANKS];
    struct made made = {.id = ""};
    size_t count = 0;
    bool is_alarm = false;
    rs_probe_watch_begin(watch, rs_time_monotonic(), rs_time_realtime(), ranks);
    enum rs_status status = start(how, ranks, &made, err);
    look_again(how, watch);
    if (status >= 0 && made.is_closed)
        count = how->read(how->self, made.id, watch, figures, err);
    if (status >= 0 && made.is_closed)
        remove_it(how, made.id);
    const struct rs_probe_told told = {
        .figures = figures, .count = count, .disturbed_ns = made.disturbed_ns};
    if (count)
        is_alarm = rs_probe_watch_take(watch, &how->rules, &told, rs_time_monotonic(), how->above,
                                       alarm_p);
    else
        rs_probe_watch_failed(watch, &how->rules, made.disturbed_ns, rs_time_monotonic());
    if (status == RS_CANCELLED || err->status == RS_CANCELLED)
        return RS_CANCELLED;
    if (count)
        return is_alarm ? RS_END : RS_OK;
    if (status >= 0)
        (void)rs_err_set(err, RS_REFUSED, "%s",
                         *made.why ? made.why : "no step was recorded whole");
    return RS_PARTIAL;
}
