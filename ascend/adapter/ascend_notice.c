/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One file on its way.
 *
 *    written --every rank said "Start step will be set to N"--> taken --"Start ... at N"--> began --"Stop"--> result
 *       |  a rank is silent: unresponsive, or the second was lost         |  the counter was past N
 *       '--------- written again, with a later second and N ------'    ... as long as no rank began and the deadline allows
 *
 * A file that was taken and is not wanted any more would still start its profile: so whoever gives up or cancels writes
 * one that never starts (start_step 0) for the same ranks, and nothing else until they took it.
 */
#include "ascend/adapter/ascend_priv.h"
#include "common/base/mem.h"

#define RS_LOG_TAG "ascend"
#include "common/base/log.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    REWRITES_MAX = 6,
    MARGIN_STEPS = 3,
    POLL_STEP = 11,
    POLL_MIN_S = 1,
    POLL_MAX_S = 50,
    RATE_STEPS = 1000
};

static const rs_dur lag_ns =
    1500 * (rs_dur)RS_NS_PER_MS; /* file system, whole seconds, our own pace */
static const rs_dur slack_ns = 3 * (rs_dur)RS_NS_PER_S;
static const rs_dur unknown_step_ns =
    20 * (rs_dur)RS_NS_PER_S; /* to wait with when it is not known */
static const rs_dur check_every_ns = RS_NS_PER_S;
static const rs_dur cancel_timeout_ns = 120 * (rs_dur)RS_NS_PER_S;
static const rs_dur result_timeout_ns = 60 * (rs_dur)RS_NS_PER_S;
/* Logs say what their user lets them say: no step takes so long, and no stretch of them counts for longer. */
static const rs_dur step_max_ns = (rs_dur)24 * 3600 * RS_NS_PER_S;
static const rs_dur stretch_max_ns = (rs_dur)30 * 24 * 3600 * RS_NS_PER_S;
static const rs_dur probe_timeout_ns = 180 * (rs_dur)RS_NS_PER_S;

/* ---- tells and their ranks ------------------------------------------------------------------------------------ */

struct notice *npu_notice_new(struct trigger *trigger, enum notice_kind kind, const char *id,
                              struct config_dir *config_dir)
{
    struct notice *notice = rs_mem_calloc(1, sizeof *notice);
    if (!notice)
        return NULL;
    notice->kind = kind;
    notice->config_dir = config_dir;
    notice->missed_at = -1;
    (void)snprintf(notice->id, sizeof notice->id, "%s", id);
    notice->next = trigger->notices;
    trigger->notices = notice;
    return notice;
}

void npu_notice_free(struct trigger *trigger, struct notice *notice)
{
    struct notice **at = &trigger->notices;
    while (*at != notice)
        at = &(*at)->next;
    *at = notice->next;
    for (size_t i = 0; i < trigger->member_count; i++)
        if (trigger->members[i]->notice == notice)
            npu_notice_leave(trigger->members[i]);
    rs_buf_fini(&notice->text);
    rs_mem_free(notice);
}

void npu_notice_add(struct notice *notice, struct member *member)
{
    member->notice = notice;
    member->phase = MEMBER_NOTIFIED;
    member->was_unlisted = member->was_torn = member->has_taken_twice = false;
    member->taken_other = -1;
    member->taken_at = member->stopped_at = 0;
    if (notice->kind != NOTICE_CAPTURE)
        return;
    struct rs_config_rank *shown = &member->shown;
    shown->state = RS_CONFIG_STATE_NOTIFIED;
    (void)snprintf(shown->capture_id, sizeof shown->capture_id, "%s", notice->id);
    shown->start_step = notice->start_step;
    shown->started_step = shown->stopped_step = -1;
    shown->rewrite_count = 0;
    shown->note[0] = shown->result_dir[0] = shown->why[0] = '\0';
}

void npu_notice_leave(struct member *member)
{
    member->notice = NULL;
    member->phase = MEMBER_FREE;
}

struct notice *npu_outstanding(const struct trigger *trigger)
{
    for (size_t i = 0; i < trigger->member_count; i++)
        if (trigger->members[i]->phase == MEMBER_NOTIFIED)
            return trigger->members[i]->notice;
    return NULL;
}

static void member_fail(struct member *member, const char *format, ...) RS_PRINTF(2, 3);

static void member_fail(struct member *member, const char *format, ...)
{
    struct rs_config_rank *shown = &member->shown;
    const enum notice_kind kind = member->notice->kind;
    va_list args;
    npu_notice_leave(member);
    if (kind == NOTICE_CANCEL)
        return;
    va_start(args, format);
    (void)vsnprintf(shown->why, sizeof shown->why, format, args);
    va_end(args);
    if (kind == NOTICE_PROBE)
        shown->is_probing = false;
    else
        shown->state = RS_CONFIG_STATE_FAILED;
}

/* ---- what is known of the counter ------------------------------------------------------------------------------ */

int64_t npu_step_now(const struct trigger *trigger, const struct config_dir *config_dir)
{
    const rs_ns now = trigger->realtime();
    if (config_dir->step < 0 || config_dir->step_ns <= 0 || now <= config_dir->step_at)
        return config_dir->step;
    return config_dir->step + (now - config_dir->step_at) / config_dir->step_ns;
}

static rs_dur shorter(rs_dur a, rs_dur b)
{
    return a < b ? a : b;
}

/* Ranks tell one after another: an older word does not take back a newer one. */
static void learn_step(struct config_dir *config_dir, int64_t step, rs_ns at)
{
    if (config_dir->step >= 0 && at < config_dir->step_at)
        return;
    config_dir->step = step;
    config_dir->step_at = at;
}

/* A pause (a checkpoint, a busy host) in a short stretch must not become the pace: older stretches count on, those of long
 * ago less. */
static void learn_rate(struct config_dir *config_dir, int64_t steps, rs_dur length)
{
    const int64_t parts = length / stretch_max_ns + 1;
    length /= parts;
    steps /= parts;
    if (steps <= 0 || length / steps > step_max_ns)
        return; /* no pace: its clock was set, or nobody made a step */
    if (config_dir->rate_steps > RATE_STEPS || config_dir->rate_ns > stretch_max_ns) {
        config_dir->rate_steps /= 2;
        config_dir->rate_ns /= 2;
    }
    config_dir->rate_steps += steps;
    config_dir->rate_ns += length;
    config_dir->step_ns = config_dir->rate_ns / config_dir->rate_steps;
    config_dir->is_rate_clean = true;
}

static void learn_start(struct member *member, int64_t step, rs_ns at)
{
    struct config_dir *config_dir = member->config_dir;
    int64_t from = member->anchor_step;
    rs_ns since = member->anchor_at;
    if (from < 0) {
        from = config_dir->anchor_step;
        since = config_dir->anchor_at;
    }
    if (from >= 0 && step > from + 1 && at > since) {
        learn_rate(config_dir, step - from, at - since);
    }
    member->is_profiling = true;
    member->began_step = step;
    member->began_at = at;
    member->anchor_step = -1;
    learn_step(config_dir, step, at);
}

static void learn_stop(struct member *member, int64_t step, rs_ns at)
{
    struct config_dir *config_dir = member->config_dir;
    if (member->is_profiling && step > member->began_step && at > member->began_at &&
        !config_dir->is_rate_clean) /* an upper bound: these steps carry the profiler */
        config_dir->step_ns =
            shorter((at - member->began_at) / (step - member->began_step), step_max_ns);
    member->is_profiling = false;
    member->anchor_step = step;
    member->anchor_at = at;
    learn_step(config_dir, step, at);
}

static void learn_poll(struct member *member, int64_t seconds, rs_ns at)
{
    struct config_dir *config_dir = member->config_dir;
    const int64_t within = seconds < POLL_MIN_S   ? POLL_MIN_S
                           : seconds > POLL_MAX_S ? POLL_MAX_S
                                                  : seconds;
    config_dir->poll = within * (rs_dur)RS_NS_PER_S;
    config_dir->anchor_step = POLL_STEP;
    config_dir->anchor_at = at;
}

/* ---- what the log says ------------------------------------------------------------------------------------------ */

static void on_accepted(struct trigger *trigger, struct member *member, int64_t step)
{
    const struct notice *notice = member->notice;
    if (!notice || !notice->is_written || member->phase > MEMBER_TAKEN)
        return;
    if (step != notice->start_step) {
        member->taken_other = step;
        return;
    }
    member->has_taken_twice = member->phase == MEMBER_TAKEN;
    member->phase = MEMBER_TAKEN;
    member->was_unlisted = false;
    member->taken_other = -1;
    member->taken_at = trigger->monotonic();
    if (notice->kind == NOTICE_CAPTURE)
        member->shown.state = RS_CONFIG_STATE_ACCEPTED;
}

/* A file that was not for it: what it had taken before stays. */
static void on_not_listed(struct member *member)
{
    if (!member->notice)
        return;
    if (member->taken_other >= 0) {
        member->taken_other = -1;
    } else if (member->has_taken_twice) {
        member->has_taken_twice = false;
    } else if (member->phase == MEMBER_TAKEN) {
        member->phase = MEMBER_NOTIFIED;
        member->was_unlisted = true;
        if (member->notice->kind == NOTICE_CAPTURE)
            member->shown.state = RS_CONFIG_STATE_NOTIFIED;
    }
}

static void on_started(struct trigger *trigger, struct member *member, int64_t step)
{
    struct notice *notice = member->notice;
    if (!notice || (member->phase != MEMBER_TAKEN && member->phase != MEMBER_NOTIFIED) ||
        notice->kind == NOTICE_CANCEL ||
        (notice->kind == NOTICE_CAPTURE && step != notice->start_step))
        return;
    member->phase = MEMBER_BEGAN;
    if (!notice->first_start)
        notice->first_start = trigger->monotonic();
    if (notice->kind == NOTICE_CAPTURE) {
        member->shown.state = RS_CONFIG_STATE_RECORDING;
        member->shown.started_step = step;
    }
}

void npu_on_line(struct trigger *trigger, struct member *member, const struct ascend_line *line)
{
    switch (line->kind) {
    case ASCEND_LINE_CREATED:
        member->is_creator = true;
        break;
    case ASCEND_LINE_NOT_SHARED:
        member->is_not_shared = true;
        member->is_denied |= line->is_denied;
        break;
    case ASCEND_LINE_MONITORS:
    case ASCEND_LINE_READY:
        member->is_up = true;
        member->shown.init_ns = line->at;
        break;
    case ASCEND_LINE_POLL:
        learn_poll(member, line->number, line->at);
        break;
    case ASCEND_LINE_ACCEPTED:
        member->says_taken = true;
        on_accepted(trigger, member, line->number);
        break;
    case ASCEND_LINE_NOT_LISTED:
        on_not_listed(member);
        break;
    case ASCEND_LINE_TORN:
        member->was_torn |= member->phase == MEMBER_NOTIFIED;
        break;
    case ASCEND_LINE_STARTED:
        learn_start(member, line->number, line->at);
        on_started(trigger, member, line->number);
        break;
    case ASCEND_LINE_STOPPED:
        learn_stop(member, line->number, line->at);
        if (member->phase == MEMBER_BEGAN) {
            member->phase = MEMBER_STOPPED;
            member->shown.stopped_step = line->number;
            member->stopped_at = trigger->monotonic();
        }
        break;
    case ASCEND_LINE_OTHER:
    case ASCEND_LINE_CONNECTED:
    case ASCEND_LINE_UNLINKED:
        break;
    }
}

/* ---- giving up, calling back ------------------------------------------------------------------------------------ */

void npu_call_back(struct trigger *trigger, struct notice *notice)
{
    struct notice *cancel = NULL;
    struct rs_err err = {0};
    for (size_t i = 0; i < trigger->member_count; i++) {
        struct member *member = trigger->members[i];
        if (member->notice != notice ||
            (member->phase != MEMBER_NOTIFIED && member->phase != MEMBER_TAKEN))
            continue;
        npu_notice_leave(member);
        if (!notice->is_written || member->shown.is_gone)
            continue;
        if (!cancel)
            cancel = npu_notice_new(trigger, NOTICE_CANCEL, notice->id, notice->config_dir);
        if (!cancel)
            return;
        npu_notice_add(cancel, member);
    }
    if (!cancel)
        return;
    cancel->owner = notice->owner;
    cancel->is_everybody = notice->is_everybody;
    cancel->deadline = trigger->monotonic() + cancel_timeout_ns;
    rs_buf_bytes(&cancel->text, notice->text.data, notice->text.length);
    if (npu_write(trigger, cancel, &err) < 0) {
        rs_log_warn("capture %s cannot be called back: %s", notice->id, err.text);
        npu_notice_free(trigger, cancel);
    }
}

/* Everybody that waits fails with the same sentence, and what was taken is called back. */
static void give_up(struct trigger *trigger, struct notice *notice, const char *why)
{
    for (size_t i = 0; i < trigger->member_count; i++) {
        struct member *member = trigger->members[i];
        if (member->notice != notice ||
            (member->phase != MEMBER_NOTIFIED && member->phase != MEMBER_TAKEN) ||
            notice->kind == NOTICE_CANCEL)
            continue;
        (void)snprintf(member->shown.why, sizeof member->shown.why, "%s", why);
        if (notice->kind == NOTICE_CAPTURE)
            member->shown.state = RS_CONFIG_STATE_FAILED;
        else
            member->shown.is_probing = false;
    }
    npu_call_back(trigger, notice);
}

/* ---- once more --------------------------------------------------------------------------------------------------- */

/* The first step that everybody can surely make when the file is written now; -1: the counter is not known. */
static int64_t next_start(const struct trigger *trigger, const struct notice *notice)
{
    rs_dur step_ns = notice->config_dir->step_ns;
    int64_t now = npu_step_now(trigger, notice->config_dir);
    if (now < 0)
        return -1;
    if (notice->missed_at >= now)
        now = notice->missed_at + 1;
    if (step_ns <= 0)
        step_ns = RS_NS_PER_S;
    const int64_t lead = (notice->config_dir->poll + lag_ns + step_ns - 1) / step_ns + MARGIN_STEPS;
    return now + (lead << (notice->rewrites < 6 ? notice->rewrites : 6));
}

/* Writes it again; false: it may not be. */
static bool write_again(struct trigger *trigger, struct notice *notice, const char *why)
{
    struct rs_err err = {0};
    if (notice->rewrites >= REWRITES_MAX || notice->first_start || notice->kind == NOTICE_CANCEL)
        return false;
    int64_t start = notice->start_step;
    if (notice->kind == NOTICE_CAPTURE) {
        const int64_t next = next_start(trigger, notice);
        if (next > start && !notice->may_move)
            return false;
        if (next > start || notice->missed_at >= start)
            start = next > start ? next : start + ((int64_t)16 << notice->rewrites);
    }
    notice->rewrites++;
    notice->missed_at = -1;
    notice->start_step = start;
    for (size_t i = 0; i < trigger->member_count; i++) {
        struct member *member = trigger->members[i];
        if (member->notice != notice)
            continue;
        const uint32_t count = member->shown.rewrite_count + 1;
        char note[RS_CONFIG_WHY_BYTES];
        (void)snprintf(note, sizeof note, "%s", member->shown.note);
        npu_notice_add(notice, member);
        if (notice->kind == NOTICE_CAPTURE) {
            member->shown.rewrite_count = count;
            (void)snprintf(member->shown.note, sizeof member->shown.note, "%s", note);
        }
    }
    rs_log_info("capture %s: profiler_config.json is written again for step %" PRId64 ": %s",
                notice->id, start, why);
    if (npu_write(trigger, notice, &err) == RS_OK)
        return true;
    give_up(trigger, notice, err.text);
    return true;
}

/* ---- a rank that was told ------------------------------------------------------------------------------------------ */

static rs_dur take_timeout(const struct notice *notice)
{
    rs_dur step_ns = notice->config_dir->step_ns;
    if (step_ns <= 0)
        step_ns = unknown_step_ns;
    return notice->config_dir->poll + 2 * step_ns + slack_ns;
}

/* Older versions of torch_npu say nothing when they take a file: the start is their first word. */
static bool may_have_taken(const struct trigger *trigger, const struct notice *notice,
                           const struct member *member)
{
    const int64_t step = npu_step_now(trigger, notice->config_dir);
    return notice->kind == NOTICE_CAPTURE && !member->says_taken && !member->was_torn &&
           (step < 0 || step <= notice->start_step);
}

static void not_taken(struct trigger *trigger, struct notice *notice, struct member *member)
{
    npu_check_health(trigger, true);
    const enum file_is is = npu_file_is(trigger, notice);
    if (!member->shown.is_unresponsive && is != FILE_IS_FOREIGN &&
        may_have_taken(trigger, notice, member)) {
        member->phase = MEMBER_TAKEN;
        member->taken_at = trigger->monotonic();
        member->shown.state = RS_CONFIG_STATE_ACCEPTED;
        return;
    }
    if (member->shown.is_unresponsive)
        member_fail(member, "%s", member->shown.unresponsive_because);
    else if (is == FILE_IS_FOREIGN)
        member_fail(member, "another program replaced profiler_config.json before it was taken");
    else if (notice->rewrites >= 2 && member->was_unlisted)
        member_fail(member,
                    "its profiler says that its rank is not in the list of the file, although %d "
                    "is: the RANK it was started with is another",
                    member->shown.rank);
    else if (notice->rewrites >= 2 || !write_again(trigger, notice, "a rank did not take it"))
        member_fail(member,
                    "it did not take profiler_config.json in %" PRId64
                    " s: it makes no steps, or no dp.step() is called",
                    (trigger->monotonic() - notice->written_at) / RS_NS_PER_S);
}

static void watch_reported(struct trigger *trigger, struct notice *notice, struct member *member)
{
    const rs_ns now = trigger->monotonic();
    const bool is_overdue = now > notice->written_at + take_timeout(notice);
    if (notice->kind == NOTICE_CANCEL) {
        if (now > notice->deadline)
            npu_notice_leave(member);
        return;
    }
    if (is_overdue || member->was_torn || member->was_unlisted) {
        not_taken(trigger, notice, member);
        return;
    }
    if (now < notice->checked_at + check_every_ns)
        return;
    notice->checked_at = now;
    if (npu_file_is(trigger, notice) == FILE_LACKS_RANKS)
        (void)write_again(trigger, notice, "another collector wrote it without our ranks");
}

/* ---- a rank that took it ---------------------------------------------------------------------------------------------- */

/* The counter should have reached the start long ago. */
static bool is_late(const struct trigger *trigger, const struct notice *notice,
                    const struct member *member)
{
    const rs_dur step_ns = notice->config_dir->step_ns;
    const int64_t now = npu_step_now(trigger, notice->config_dir);
    const rs_dur waited = trigger->monotonic() - member->taken_at;
    if (notice->first_start)
        return trigger->monotonic() >
               notice->first_start + slack_ns + 3 * (step_ns > 0 ? step_ns : unknown_step_ns);
    if (now < 0 || step_ns <= 0)
        return false;
    const int64_t beyond = now - notice->start_step;
    return beyond > 3 && beyond > (waited / step_ns) / 5 && waited > slack_ns &&
           beyond > slack_ns / step_ns;
}

static void watch_taken(struct trigger *trigger, struct notice *notice, struct member *member)
{
    if (member->taken_other > 0) {
        member_fail(member,
                    "another program's profiler_config.json (start_step %" PRId64
                    ") replaced this one before step %" PRId64,
                    member->taken_other, notice->start_step);
        return;
    }
    if (!is_late(trigger, notice, member))
        return;
    if (!notice->first_start) {
        if (notice->start_step > notice->missed_at)
            notice->missed_at = notice->start_step;
        if (write_again(trigger, notice, "its step was over when it was taken"))
            return;
    }
    char why[RS_CONFIG_WHY_BYTES];
    (void)snprintf(
        why, sizeof why, "it did not begin at step %" PRId64 ": %s%s", notice->start_step,
        member->says_taken ? "its counter was past it when it took profiler_config.json"
                           : "it did not take profiler_config.json, or its counter was past it",
        notice->first_start ? ", other ranks began there" : "");
    give_up(trigger, notice, why);
}

/* ---- a rank that began ------------------------------------------------------------------------------------------------- */

static void finish_probe(struct trigger *trigger, struct member *member)
{
    struct rs_err err = {0};
    struct notice *notice = member->notice;
    rs_config_result_remove(notice->result); /* ROOT/step-.../uUID */
    char *slash = strrchr(notice->result, '/');
    if (slash) {
        *slash = '\0';
        (void)rmdir(notice->result);
    }
    npu_notice_leave(member);
    if (!member->config_dir->is_rate_clean && member->probes_left > 0 && !member->shown.is_gone) {
        member->probes_left--;
        if (npu_ask_step(trigger, member, &err) == RS_OK)
            return;
    }
    member->shown.is_probing = false;
}

static void take_result(struct member *member, const char *note)
{
    struct rs_config_rank *shown = &member->shown;
    if (npu_result_owner(shown->result_dir, member->notice->id) == 0) {
        member_fail(member, "the result %.200s is of another capture", shown->result_dir);
        return;
    }
    if (*note)
        (void)snprintf(shown->note, sizeof shown->note, "%s", note);
    shown->state = RS_CONFIG_STATE_WRITTEN;
    npu_notice_leave(member);
}

static void watch_began(struct trigger *trigger, struct notice *notice, struct member *member)
{
    struct rs_config_rank *shown = &member->shown;
    const bool is_stopped = member->phase == MEMBER_STOPPED;
    const bool is_over = is_stopped || shown->is_gone;
    if (notice->kind == NOTICE_PROBE) {
        if (is_over)
            finish_probe(trigger, member);
        return;
    }
    if (!*shown->result_dir)
        (void)npu_result_find(member, notice->result, shown->result_dir);
    if (!is_over)
        return;
    if (*shown->result_dir && npu_result_is_complete(shown->result_dir)) {
        take_result(member, is_stopped ? "" : "its process ended before the last step");
        return;
    }
    if (!is_stopped) {
        char how[128];
        rs_process_end_text(&member->hold, how, sizeof how);
        member_fail(member, "its process ended while it recorded%s%.100s%s%s%.200s",
                    *how ? " (" : "", how, *how ? ")" : "",
                    *shown->result_dir ? "; what it wrote stays at " : "", shown->result_dir);
    } else if (trigger->monotonic() > member->stopped_at + result_timeout_ns) {
        member_fail(member, "it said that it stopped at step %" PRId64 ", and its result %s%.250s",
                    shown->stopped_step,
                    *shown->result_dir ? "has no profiler_info with an end: " : "is not below ",
                    *shown->result_dir ? shown->result_dir : notice->result);
    }
}

/* ---- all of it ---------------------------------------------------------------------------------------------------------- */

static void watch_gone(struct member *member)
{
    char how[128];
    rs_process_end_text(&member->hold, how, sizeof how);
    member_fail(member, "its process ended before step %" PRId64 "%s%.100s%s",
                member->notice->start_step, *how ? " (" : "", how, *how ? ")" : "");
}

static void watch_member(struct trigger *trigger, struct notice *notice, struct member *member)
{
    switch (member->phase) {
    case MEMBER_FREE:
        return;
    case MEMBER_NOTIFIED:
    case MEMBER_TAKEN:
        if (member->shown.is_gone)
            watch_gone(member);
        else if (member->phase == MEMBER_NOTIFIED)
            watch_reported(trigger, notice, member);
        else if (notice->kind == NOTICE_CANCEL)
            npu_notice_leave(member);
        else if (notice->kind == NOTICE_CAPTURE)
            watch_taken(trigger, notice, member);
        return;
    case MEMBER_BEGAN:
    case MEMBER_STOPPED:
        watch_began(trigger, notice, member);
        return;
    }
}

static void watch_deadline(struct trigger *trigger, struct notice *notice)
{
    char why[RS_CONFIG_WHY_BYTES];
    if (trigger->monotonic() < notice->deadline || notice->kind == NOTICE_CANCEL)
        return;
    (void)snprintf(why, sizeof why, "it had not come to step %" PRId64 " in time",
                   notice->start_step);
    give_up(trigger, notice, why);
    for (size_t i = 0; i < trigger->member_count; i++)
        if (trigger->members[i]->notice == notice)
            member_fail(trigger->members[i], "it had not stopped recording in time");
}

void npu_move(struct trigger *trigger)
{
    for (struct notice *notice = trigger->notices; notice;) {
        bool is_in_use = false;
        watch_deadline(trigger, notice);
        for (size_t i = 0; i < trigger->member_count; i++)
            if (trigger->members[i]->notice == notice)
                watch_member(trigger, notice, trigger->members[i]);
        for (size_t i = 0; i < trigger->member_count; i++)
            is_in_use |= trigger->members[i]->notice == notice;
        struct notice *next = notice->next;
        if (!is_in_use)
            npu_notice_free(trigger, notice);
        notice = next;
    }
}

/* ---- asking for the step --------------------------------------------------------------------------------------------------- */

enum rs_status npu_ask_step(struct trigger *trigger, struct member *member, struct rs_err *err)
{
    struct rs_capture_request request;
    char id[RS_CONFIG_CAPTURE_BYTES];
    (void)snprintf(id, sizeof id, "step-%d-%" PRId64, (int)member->shown.process.pid,
                   trigger->realtime() / RS_NS_PER_MS);
    enum rs_status status = rs_request_init(&request, RS_DIALECT_ASCEND, RS_ORIGIN_CONFIG_FILE);
    if (status < 0)
        return rs_err_set(err, status, "no memory to ask for the step");
    request.activities = RS_ACTIVITY_CPU;
    request.experimental.profiler_level = RS_LEVEL_NONE;
    request.schedule.active = 1;
    request.schedule.warmup = (struct rs_optional_u32){.is_set = true};
    struct notice *notice = npu_notice_new(trigger, NOTICE_PROBE, id, member->config_dir);
    if (!notice)
        status = rs_err_set(err, RS_NOMEM, "no memory to ask for the step");
    if (status == RS_OK)
        status = rs_config_result_folder(trigger->result_root, id, &member->shown.process,
                                         notice->result, err);
    if (status == RS_OK)
        status = npu_text(&request, id, notice->result, &notice->text, err);
    rs_request_fini(&request);
    if (status == RS_OK) {
        notice->start_step = -1;
        rs_user_of_process(member->shown.process.pid, member->shown.process.uid, &notice->owner);
        notice->is_everybody = member->has_no_rank;
        notice->deadline = trigger->monotonic() + probe_timeout_ns;
        npu_notice_add(notice, member);
        status = npu_write(trigger, notice, err);
    }
    if (status < 0 && notice)
        npu_notice_free(trigger, notice);
    if (status == RS_OK)
        member->shown.is_probing = true;
    return status;
}
