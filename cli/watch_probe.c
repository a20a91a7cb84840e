/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The probes of `rankscope watch`, as the aggregator's standing watch makes them (aggregator/server/step_probe.h):
 *
 *     AskStart, marked as a probe --progress: for how long ranks record--> closed --AskTable--> step and own work a rank
 *                                                                                 --AskRemove--> gone
 *
 * Only the capture that was started here is removed. One that is left behind (Ctrl-C, an aggregator that goes away) is no probe that
 * anybody waits for, and the aggregator removes it.
 */
#include "cli/watch_probe.h"

#include "aggregator/model/reads.h"
#include "aggregator/model/tables.h"
#include "cli/capture.h"
#include "cli/print_rows.h"
#include "common/base/lend.h"
#include "common/client/client.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { STEPS_MAX = 16 };

struct made {
    char id[64];
    char why[300]; /* "": nothing is known to be wrong */
    bool is_closed, is_futile, was_recording;
    rs_ns looked_at; /* monotonic */
    rs_dur disturbed_ns;
};

/* ---- while it records --------------------------------------------------------------------------------------------- */

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

static bool on_progress(void *self, const Rankscope__Reply *reply)
{
    struct made *made = self;
    if (reply->message_case == RANKSCOPE__REPLY__MESSAGE_ANSWER) {
        (void)snprintf(made->id, sizeof made->id, "%.63s", reply->answer->capture);
        if ((enum rs_status)reply->answer->status < 0)
            (void)snprintf(made->why, sizeof made->why, "%.290s", reply->answer->text);
        return *made->id != '\0';
    }
    if (reply->message_case != RANKSCOPE__REPLY__MESSAGE_CAPTURE)
        return false;
    (void)snprintf(made->id, sizeof made->id, "%.63s", reply->capture->id);
    look_at(made, reply->capture);
    /* Its state says that it is closed before it can be removed: that is with the last answer. */
    return !made->is_futile;
}

static enum rs_status call_back(const struct rs_address *address, struct made *made,
                                struct rs_err *err)
{
    Rankscope__AskStop question = RANKSCOPE__ASK_STOP__INIT;
    Rankscope__Ask ask = RANKSCOPE__ASK__INIT;
    question.id = made->id;
    ask.message_case = RANKSCOPE__ASK__MESSAGE_STOP;
    ask.stop = &question;
    (void)snprintf(made->why, sizeof made->why, "its ranks have made no step so far");
    made->is_futile = false;
    return rs_client_ask(address, &ask, on_progress, made, err);
}

static enum rs_status start(const struct watch_probe *how, const char *ranks, struct made *made,
                            struct rs_err *err)
{
    const struct capture_words words = {.connect = how->connect,
                                        .run = how->run,
                                        .ranks = ranks,
                                        .steps = RS_PROBE_WATCH_STEPS,
                                        .has_no_shapes = true,
                                        .on_busy = "refuse",
                                        .is_quiet = true};
    struct capture_question question = {.origin_file = NULL};
    enum rs_status status = capture_question_make(&words, &question, err);
    if (status == RS_OK) {
        Rankscope__Ask ask = RANKSCOPE__ASK__INIT;
        question.start.origin_file = rs_lend(rs_probe_watch_origin);
        ask.message_case = RANKSCOPE__ASK__MESSAGE_START;
        ask.start = &question.start;
        made->looked_at = rs_time_monotonic();
        status = rs_client_ask(how->address, &ask, on_progress, made, err);
    }
    capture_question_fini(&question);
    if (status >= 0 && made->is_futile)
        status = call_back(how->address, made, err);
    return status;
}

/* ---- what it told ------------------------------------------------------------------------------------------------- */

struct reading {
    const struct rs_probe_watch *watch;
    struct {
        rs_dur lengths[STEPS_MAX], own[STEPS_MAX];
        size_t count;
        int64_t device; /* its first */
    } ranks[RS_PROBE_WATCH_RANKS];
};

static void take_rows(void *self, const struct rs_block *block)
{
    struct reading *reading = self;
    for (size_t i = 0; i < block->count; i++) {
        const struct rs_row_step_device *row = rs_block_row(block, i);
        size_t at = 0;
        while (at < reading->watch->rank_count && reading->watch->ranks[at].peer.rank != row->rank)
            at++;
        if (at == reading->watch->rank_count || row->is_partial || row->window_ns <= 0 ||
            row->window_exposed_ns < 0 || row->window_exposed_ns > row->window_ns)
            continue;
        if (!reading->ranks[at].count)
            reading->ranks[at].device = row->device;
        if (reading->ranks[at].count == STEPS_MAX || reading->ranks[at].device != row->device)
            continue;
        reading->ranks[at].lengths[reading->ranks[at].count] = row->window_ns;
        reading->ranks[at].own[reading->ranks[at].count++] =
            row->window_ns - row->window_exposed_ns;
    }
}

static size_t read_figures(const struct watch_probe *how, const struct rs_probe_watch *watch,
                           struct made *made, struct rs_probe_figure *figures, struct rs_err *err)
{
    struct reading reading = {.watch = watch};
    struct rs_rows_printer rows = {.verb = "watch",
                                   .table = rs_read_def(RS_READ_STEP_DEVICES)->result,
                                   .take = take_rows,
                                   .take_self = &reading,
                                   .is_told = true};
    Rankscope__AskTable question = RANKSCOPE__ASK_TABLE__INIT;
    Rankscope__Ask ask = RANKSCOPE__ASK__INIT;
    size_t count = 0;
    question.capture = made->id;
    question.read = rs_lend(rs_read_def(RS_READ_STEP_DEVICES)->name);
    ask.message_case = RANKSCOPE__ASK__MESSAGE_TABLE;
    ask.table = &question;
    enum rs_status status = rs_rows_ask(how->address, &ask, &rows, err);
    if (status >= 0 && rows.status < 0)
        status = rs_err_set(err, rows.status, "%.300s", rows.err.text);
    rs_buf_fini(&rows.buf);
    for (size_t i = 0; i < watch->rank_count && status >= 0; i++)
        count += rs_probe_figure_of(watch->ranks[i].peer.rank, reading.ranks[i].lengths,
                                    reading.ranks[i].own, reading.ranks[i].count, &figures[count]);
    return count;
}

static bool on_removed(void *self, const Rankscope__Reply *reply)
{
    (void)self;
    (void)reply;
    return false;
}

/* What cannot be removed now goes by the aggregator. */
static void remove_it(const struct watch_probe *how, struct made *made)
{
    struct rs_err ignored = {0};
    Rankscope__AskRemove question = RANKSCOPE__ASK_REMOVE__INIT;
    Rankscope__Ask ask = RANKSCOPE__ASK__INIT;
    question.id = made->id;
    ask.message_case = RANKSCOPE__ASK__MESSAGE_REMOVE;
    ask.remove = &question;
    if (rs_client_ask(how->address, &ask, on_removed, NULL, &ignored) < 0)
        return;
}

/* For how long ranks had no core, as it stands at the end. */
static void look_again(const struct watch_probe *how, struct rs_probe_watch *watch)
{
    struct rs_run_watch none = {.peers = NULL};
    struct rs_run_look look;
    struct rs_err ignored = {0};
    if (rs_client_run_look(how->address, how->run, &none, watch, &look, &ignored) == RS_OK)
        (void)rs_probe_watch_seen(watch, &how->rules, rs_time_monotonic());
    rs_run_watch_fini(&none);
}

enum rs_status watch_probe_make(const struct watch_probe *how, struct rs_probe_watch *watch,
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
        count = read_figures(how, watch, &made, figures, err);
    if (status >= 0 && made.is_closed)
        remove_it(how, &made);
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
