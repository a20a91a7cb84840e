/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A capture of a job of MindSpore from the written file to the last result: what each rank is seen to do, what that tells of its
 * counter, and how the file is left behind. The states are in mindspore.c.
 */
#include "ascend/adapter/mindspore_priv.h"
#include "common/base/file.h"

#define RS_LOG_TAG "mindspore"
#include "common/base/log.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    BLOCK_TEXT_BYTES = 8 * 1024,
    STDOUT_STEP_BYTES = 1024 * 1024,
    REWRITES_MAX = 5,
    PACE_STEPS = 10,          /* between two captures, so that their pace is believed */
    ERROR_LEAST_PERCENT = 10, /* of a step time that two captures reported */
    ERROR_SHORT_PERCENT = 25, /* or one, whose steps the profiler made longer */
};

/* What is written of a capture tells when it was written, which a busy machine does so much later. */
static const rs_dur written_late_ns = RS_NS_PER_S;
static const rs_dur anchored_ns =
    10 * (rs_dur)RS_NS_PER_S; /* so long one anchor is kept at least */

static const rs_dur poll_ns =
    2 * (rs_dur)RS_NS_PER_S; /* the monitor's, unless its job says otherwise */
static const rs_dur take_limit_ns = 30 * (rs_dur)RS_NS_PER_S;
static const rs_dur way_wait_ns = 1500 * (rs_dur)RS_NS_PER_MS;
static const rs_dur quiet_ns = 60 * (rs_dur)RS_NS_PER_S;
static const rs_dur leave_ns = 2 * (rs_dur)RS_NS_PER_S;
static const rs_dur error_limit_ns = 120 * (rs_dur)RS_NS_PER_S;
static const rs_dur late_ns = RS_NS_PER_S;

/* ---- the counter ------------------------------------------------------------------------------------------------ */

/* The first step that was recorded began with the result; the one behind the last begins when the rank goes on: after
 * parsing, unless that is done beside the training. From one capture to a later one: that is the pace, the less wrong the
 * longer it is. */
void mindspore_remember_step(struct mindspore_member *member, int64_t first, int64_t count,
                             bool is_beside)
{
    const struct mindspore_result *result = &member->result;
    if (result->collected_ns <= result->begun_ns)
        return;
    const rs_dur over = result->begun_ns - member->anchor_at;
    const bool has_anchor = member->anchor_at > 0 && first > member->anchor_step;
    if (!has_anchor)
        member->pace_ns = 0; /* the first capture, or the counter began anew */
    if (has_anchor && over >= 2 * written_late_ns && first >= member->anchor_step + PACE_STEPS) {
        member->pace_ns = over / (first - member->anchor_step);
        member->pace_over = over;
    }
    member->measured_ns = (result->collected_ns - result->begun_ns) / count;
    member->step = first + count;
    member->step_at = result->parsed_ns && !is_beside ? result->parsed_ns : result->collected_ns;
    if (!has_anchor || over >= anchored_ns) {
        member->anchor_step = member->step;
        member->anchor_at = member->step_at;
    }
}

struct pace {
    rs_dur step_ns; /* 0 unknown */
    int64_t error_percent;
};

static struct pace pace_of(const struct mindspore_member *member)
{
    if (member->step < 0)
        return (struct pace){0};
    if (member->pace_ns <= 0)
        return (struct pace){.step_ns = member->measured_ns, .error_percent = ERROR_SHORT_PERCENT};
    const int64_t error = written_late_ns * 100 / member->pace_over + 1; /* of twice as long: 51 */
    return (struct pace){.step_ns = member->pace_ns,
                         .error_percent =
                             error > ERROR_LEAST_PERCENT ? error : ERROR_LEAST_PERCENT};
}

/* The counter as the pace has it. How wrong that may be grows with time: it is told as a longer interval of looking, so that a
 * start is put behind it; and when that were too long, the counter is not known any more. */
void mindspore_report_step(const struct mindspore_trigger *trigger, struct mindspore_member *member)
{
    const struct pace pace = pace_of(member);
    const struct mindspore_config_dir *config_dir = mindspore_config_dir_of(trigger, member);
    const rs_dur elapsed = trigger->realtime() - member->step_at;
    const rs_dur wrong = elapsed / (100 - pace.error_percent) * pace.error_percent;
    member->shown.step = -1;
    member->shown.step_ns = 0;
    member->shown.poll_period =
        config_dir && config_dir->slowest_take_ns > poll_ns ? config_dir->slowest_take_ns : poll_ns;
    if (pace.step_ns <= 0 || elapsed < 0 || wrong > error_limit_ns)
        return;
    member->shown.step = member->step;
    member->shown.step_at = member->step_at;
    member->shown.step_ns = pace.step_ns;
    member->shown.poll_period += wrong;
}

/* As it is at least; -1 unknown. One capture alone tells no pace that could be relied on: the counter stands where it was then. */
int64_t mindspore_step_at_least(const struct mindspore_trigger *trigger,
                                const struct mindspore_member *member)
{
    const struct pace pace = pace_of(member);
    const rs_dur elapsed = trigger->realtime() - member->step_at;
    if (member->pace_ns <= 0 || elapsed < 0)
        return member->step;
    return member->step + elapsed / (pace.step_ns / 100 * (100 + pace.error_percent) + 1);
}

bool mindspore_is_under_way(const struct mindspore_member *member)
{
    return member->is_target && (member->shown.state == RS_CONFIG_STATE_NOTIFIED ||
                                 member->shown.state == RS_CONFIG_STATE_ACCEPTED ||
                                 member->shown.state == RS_CONFIG_STATE_RECORDING);
}

/* ---- one rank of a capture -------------------------------------------------------------------------------------------- */

static void fail(struct mindspore_member *member, const char *format, ...) RS_PRINTF(2, 3);
static void fail(struct mindspore_member *member, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(member->shown.why, sizeof member->shown.why, format, arguments);
    va_end(arguments);
    member->shown.state = RS_CONFIG_STATE_FAILED;
}

static void add_note(struct mindspore_member *member, const char *format, ...) RS_PRINTF(2, 3);
static void add_note(struct mindspore_member *member, const char *format, ...)
{
    char *note = member->shown.note;
    const size_t used = strlen(note);
    va_list arguments;
    if (used + 3 >= sizeof member->shown.note)
        return;
    (void)snprintf(note + used, sizeof member->shown.note - used, "%s", used ? "; " : "");
    va_start(arguments, format);
    (void)vsnprintf(note + strlen(note), sizeof member->shown.note - strlen(note), format,
                    arguments);
    va_end(arguments);
}

struct listening {
    struct mindspore_member *member;
    const struct mindspore_config_dir *config_dir;
};

static void take_line(void *self, const struct mindspore_line *line)
{
    const struct listening *listening = self;
    struct mindspore_member *member = listening->member;
    const struct mindspore_pair *pair = &listening->config_dir->pair;
    if (line->rank != member->shown.rank)
        return; /* several ranks may write to one file */
    if (line->kind == MINDSPORE_LINE_START && line->start == pair->start &&
        line->stop == pair->stop)
        member->said_start = true;
    if (line->kind == MINDSPORE_LINE_STOP && line->stop == pair->stop)
        member->said_stop = true;
}

static void begin_recording(const struct mindspore_trigger *trigger,
                            const struct mindspore_config_dir *config_dir,
                            struct mindspore_member *member)
{
    member->shown.state = RS_CONFIG_STATE_RECORDING;
    member->last = config_dir->pair;
    member->shown.started_step = mindspore_pair_first(&config_dir->pair, config_dir->way);
    const rs_dur since_accepted = trigger->monotonic() - member->accepted_at;
    const rs_ns accepted_ns = trigger->realtime() - since_accepted;
    if (config_dir->way != RS_MINDSPORE_WAY_CALLBACK && member->accepted_at &&
        member->result.dir[0] && member->result.begun_ns < accepted_ns + late_ns)
        add_note(member, "it began within a second of the notice: if its start step was over by "
                         "then, it recorded later steps than the others (dp.step() starts late)");
}

/* What the result tells of the way; the one given by the user is mended by it. */
static void learn_way(struct mindspore_config_dir *config_dir, struct mindspore_member *member,
                      enum rs_mindspore_way way)
{
    if (way == RS_MINDSPORE_WAY_UNKNOWN || way == config_dir->way)
        return;
    if (config_dir->way != RS_MINDSPORE_WAY_UNKNOWN)
        add_note(member, "its result says that the job's way is \"%s\", not \"%s\"",
                 rs_mindspore_way_text(way), rs_mindspore_way_text(config_dir->way));
    rs_log_info("%s: the job's way is \"%s\"", config_dir->path, rs_mindspore_way_text(way));
    config_dir->way = way;
}

/* False: the line that tells the way may still come. */
static bool is_way_settled(const struct mindspore_trigger *trigger,
                           struct mindspore_config_dir *config_dir, struct mindspore_member *member)
{
    learn_way(config_dir, member, member->result.way);
    if (member->said_stop)
        learn_way(config_dir, member, RS_MINDSPORE_WAY_CALLBACK);
    if (config_dir->way != RS_MINDSPORE_WAY_UNKNOWN || member->log_offset < 0 ||
        !member->said_start)
        return true;
    const rs_ns now = trigger->monotonic();
    if (!member->recorded_wait)
        member->recorded_wait = now;
    if (now < member->recorded_wait + way_wait_ns)
        return false;
    learn_way(config_dir, member,
              RS_MINDSPORE_WAY_STEP); /* a callback would have said that it stopped */
    return true;
}

static void finish_member(struct mindspore_trigger *trigger,
                          struct mindspore_config_dir *config_dir, struct mindspore_member *member)
{
    struct rs_config_rank *shown = &member->shown;
    const int64_t first = mindspore_pair_first(&config_dir->pair, config_dir->way);
    if (!is_way_settled(trigger, config_dir, member))
        return;
    shown->started_step = mindspore_pair_first(&config_dir->pair, config_dir->way);
    shown->stopped_step = shown->started_step + config_dir->step_count;
    if (config_dir->way == RS_MINDSPORE_WAY_UNKNOWN)
        add_note(member,
                 "steps %" PRId64 " to %" PRId64 " if the job uses the callback, each one later if "
                 "it calls dp.step(): the result does not notice, --mindspore-way does",
                 first, shown->stopped_step - 1);
    else if (shown->started_step != shown->start_step)
        add_note(member,
                 "recorded are steps %" PRId64 " to %" PRId64 ", not those asked for: only this "
                 "result says that the job's way is \"%s\"",
                 shown->started_step, shown->stopped_step - 1,
                 rs_mindspore_way_text(config_dir->way));
    if (!member->result.has_output)
        add_note(member, config_dir->parses ? "it was not parsed: raw data only"
                                            : "parsing was not asked for: raw data only");
    if (config_dir->is_foreign)
        add_note(member, "profiler_config.json was replaced by somebody else while it recorded");
    if (shown->is_gone || !mindspore_block_of(trigger, member)->monitor)
        add_note(member, "its training ended in the meantime: there may be fewer steps");
    else
        mindspore_remember_step(member, shown->started_step, config_dir->step_count,
                                config_dir->parses_beside);
    shown->state = RS_CONFIG_STATE_WRITTEN;
}

/* The result is there: how far is it? */
static bool is_complete(const struct mindspore_trigger *trigger,
                        const struct mindspore_config_dir *config_dir,
                        struct mindspore_member *member)
{
    struct mindspore_result *result = &member->result;
    if (result->collected_ns && (!config_dir->parses || result->is_parsed))
        return true;
    if (member->shown.is_gone)
        return result->collected_ns != 0;
    mindspore_result_age(result);
    if (trigger->realtime() < result->newest_ns + quiet_ns || !result->has_output)
        return false;
    add_note(member, "nothing says that it is complete; nothing was written for %d s",
             (int)(quiet_ns / RS_NS_PER_S));
    return true;
}

static void end_of_process(const struct mindspore_config_dir *config_dir,
                           struct mindspore_member *member)
{
    char how[96];
    rs_process_end_text(&member->hold, how, sizeof how);
    const char *of_it = *how ? ": " : "";
    if (!member->result.dir[0])
        fail(member, "its process ended%s%s before step %" PRId64, of_it, how,
             mindspore_pair_first(&config_dir->pair, config_dir->way));
    else
        fail(member, "its process ended%s%s while it recorded; what there is stays in %.300s",
             of_it, how, member->result.dir);
}

static void check_taken(const struct mindspore_trigger *trigger,
                        const struct mindspore_config_dir *config_dir,
                        struct mindspore_member *member)
{
    const struct mindspore_block *block = mindspore_block_of(trigger, member);
    const rs_dur limit = config_dir->slowest_take_ns * 4 > take_limit_ns
                             ? config_dir->slowest_take_ns * 4
                             : take_limit_ns;
    if (trigger->monotonic() < config_dir->notified_at + limit)
        return;
    if (!block->is_pair_known)
        return; /* it may not be read: only the result can tell */
    if (member->shown.is_unresponsive)
        fail(member, "%.500s", member->shown.unresponsive_because);
    else if (block->is_orphan)
        fail(member,
             "its monitor (process %d) did not take %.120s within %d s: it belongs to an earlier "
             "job, whose rank was killed, and reads another folder. End that process, remove "
             "/dev/shm/%s and restart this job",
             (int)block->monitor, config_dir->path, (int)(limit / RS_NS_PER_S), block->name);
    else
        fail(member,
             "its monitor (process %d) did not take %.200s within %d s: it reads another folder "
             "(name the right one with --mindspore-config) or polls more seldom",
             (int)block->monitor, config_dir->path, (int)(limit / RS_NS_PER_S));
}

/* The slowest of late: one bad moment of the node is forgotten by and by. */
static void note_take(struct mindspore_config_dir *config_dir, rs_dur took)
{
    if (config_dir->is_taken)
        return; /* the other ranks of it see the same block */
    config_dir->is_taken = true;
    config_dir->slowest_take_ns =
        took > config_dir->slowest_take_ns / 2 ? took : config_dir->slowest_take_ns / 2;
}

static void tick_member(struct mindspore_trigger *trigger, struct mindspore_config_dir *config_dir,
                        struct mindspore_member *member)
{
    const struct mindspore_block *block = mindspore_block_of(trigger, member);
    struct rs_config_rank *shown = &member->shown;
    struct listening listening = {.member = member, .config_dir = config_dir};
    if (member->log_offset >= 0) {
        const int64_t at = mindspore_stdout_lines(member->hold.pid, member->log_offset,
                                                  STDOUT_STEP_BYTES, take_line, &listening);
        member->log_offset = at < 0 ? member->log_offset : at;
    }
    if (shown->state == RS_CONFIG_STATE_NOTIFIED && block->is_pair_known &&
        mindspore_is_same_pair(&block->pair, &config_dir->pair)) {
        shown->state = RS_CONFIG_STATE_ACCEPTED;
        member->accepted_at = trigger->monotonic();
        note_take(config_dir, member->accepted_at - config_dir->notified_at);
    }
    const bool has_result = mindspore_result_look(config_dir->folder, &config_dir->pair,
                                                  member->inner_pid, &member->result);
    if (has_result)
        (void)snprintf(shown->result_dir, sizeof shown->result_dir, "%s", member->result.dir);
    if ((has_result || member->said_start) && shown->state != RS_CONFIG_STATE_RECORDING)
        begin_recording(trigger, config_dir, member);
    if (has_result && is_complete(trigger, config_dir, member))
        finish_member(trigger, config_dir, member);
    else if (shown->is_gone)
        end_of_process(config_dir, member);
    else if (shown->state == RS_CONFIG_STATE_NOTIFIED)
        check_taken(trigger, config_dir, member);
}

/* ---- one capture ---------------------------------------------------------------------------------------------------------- */

static void read_blocks(struct mindspore_trigger *trigger,
                        const struct mindspore_config_dir *config_dir)
{
    char text[BLOCK_TEXT_BYTES];
    for (size_t i = 0; i < trigger->block_count; i++) {
        struct mindspore_block *block = &trigger->blocks[i];
        if (block->config_dir == MINDSPORE_NONE ||
            &trigger->config_dirs[block->config_dir] != config_dir)
            continue;
        if (!mindspore_block_read(trigger, block, text, sizeof text))
            continue;
        block->is_pair_known = true;
        if (!mindspore_pair_read(text, &block->pair))
            block->pair = (struct mindspore_pair){.start = -1, .stop = -1};
    }
}

static void notice_replaced(struct mindspore_trigger *trigger,
                            struct mindspore_config_dir *config_dir)
{
    struct rs_buf text = {0};
    struct mindspore_pair pair = {.start = -1, .stop = -1};
    if (config_dir->is_foreign || !mindspore_was_replaced(config_dir))
        return;
    config_dir->is_foreign = true;
    if (rs_config_read(config_dir->path, &config_dir->owner, MINDSPORE_FILE_LIMIT_BYTES, &text,
                       NULL) == RS_OK)
        (void)mindspore_pair_read(rs_buf_text(&text), &pair);
    rs_buf_fini(&text);
    rs_log_warn("%s was replaced by somebody else: it asks for steps %" PRId64 " to %" PRId64
                " now; it is left as it is",
                config_dir->path, pair.start, pair.stop);
    for (size_t i = 0; i < trigger->member_count; i++) {
        struct mindspore_member *member = &trigger->members[i];
        if (mindspore_is_of(trigger, member, config_dir) && mindspore_is_under_way(member) &&
            member->shown.state != RS_CONFIG_STATE_RECORDING)
            fail(member,
                 "profiler_config.json was replaced by somebody else before it began: steps "
                 "%" PRId64 " to %" PRId64 " are asked for there now, and that is what runs",
                 pair.start, pair.stop);
    }
}

static void fail_late(struct mindspore_trigger *trigger,
                      const struct mindspore_config_dir *config_dir)
{
    for (size_t i = 0; i < trigger->member_count; i++) {
        struct mindspore_member *member = &trigger->members[i];
        if (!mindspore_is_of(trigger, member, config_dir) || !mindspore_is_under_way(member))
            continue;
        if (member->shown.state == RS_CONFIG_STATE_NOTIFIED)
            fail(member, "its monitor did not take the file by the deadline");
        else if (member->shown.state == RS_CONFIG_STATE_ACCEPTED)
            fail(member,
                 "it did not begin by the deadline: step %" PRId64
                 " was not reached, or it was over "
                 "when the rank saw it (a callback refuses it then)",
                 mindspore_pair_first(&config_dir->pair, config_dir->way));
        else if (!member->result.dir[0])
            fail(member, "it said that it began, and made no result folder in %.300s",
                 config_dir->folder);
        else
            fail(member, "it still %s at the deadline; what there is stays in %.300s",
                 member->result.collected_ns ? "parses" : "records", member->result.dir);
    }
}

/* Its start was over before it was seen: later, while nobody has begun. */
static void move_start(struct mindspore_trigger *trigger, struct mindspore_config_dir *config_dir)
{
    int64_t first = mindspore_pair_first(&config_dir->pair, config_dir->way);
    int64_t at_most = -1;
    bool is_missed = false;
    rs_dur lead = 0;
    for (size_t i = 0; i < trigger->member_count; i++) {
        const struct mindspore_member *member = &trigger->members[i];
        if (!member->is_target || !mindspore_is_of(trigger, member, config_dir))
            continue;
        if (member->shown.state != RS_CONFIG_STATE_ACCEPTED || member->shown.step_ns <= 0 ||
            member->shown.rewrite_count >= REWRITES_MAX)
            return;
        const int64_t step = rs_config_rank_step_at(&member->shown, trigger->realtime());
        at_most = step > at_most ? step : at_most;
        is_missed |= mindspore_step_at_least(trigger, member) > first + 1;
        lead = (member->shown.poll_period + RS_NS_PER_S) / member->shown.step_ns + 2;
    }
    if (!is_missed || !config_dir->written.length)
        return;
    const int64_t moved = (at_most > first ? at_most : first) + lead;
    const struct mindspore_pair pair =
        mindspore_pair_for(moved, config_dir->step_count, config_dir->way);
    struct rs_buf before = config_dir->original;
    struct rs_buf text = {0};
    config_dir->original = config_dir->written; /* the same file with another pair */
    const enum rs_status made = mindspore_resting_text(config_dir, &pair, &text);
    config_dir->original = before;
    struct rs_err err;
    if (made == RS_OK && mindspore_write(trigger, config_dir, &text, &err) == RS_OK) {
        config_dir->pair = pair;
        config_dir->notified_at = trigger->monotonic();
        for (size_t i = 0; i < trigger->member_count; i++) {
            struct mindspore_member *member = &trigger->members[i];
            if (!mindspore_is_of(trigger, member, config_dir) || !mindspore_is_under_way(member))
                continue;
            member->shown.state = RS_CONFIG_STATE_NOTIFIED;
            member->shown.start_step = moved;
            member->shown.rewrite_count++;
        }
        rs_log_info("%s: step %" PRId64 " was missed, now %" PRId64, config_dir->path, first,
                    moved);
    }
    rs_buf_fini(&text);
}

/* Somebody of the capture records on, past his deadline or after it was called back. */
static bool does_anybody_record(struct mindspore_trigger *trigger,
                                const struct mindspore_config_dir *config_dir)
{
    bool does = false;
    for (size_t i = 0; i < trigger->member_count; i++) {
        struct mindspore_member *member = &trigger->members[i];
        if (!member->is_target || member->shown.is_gone ||
            !mindspore_is_of(trigger, member, config_dir) ||
            member->shown.state == RS_CONFIG_STATE_WRITTEN)
            continue;
        does |= mindspore_result_look(config_dir->folder, &config_dir->pair, member->inner_pid,
                                      &member->result) &&
                !member->result.collected_ns;
    }
    return does;
}

void mindspore_leave(struct mindspore_trigger *trigger, struct mindspore_config_dir *config_dir)
{
    if (!config_dir->is_foreign)
        mindspore_rest(trigger, config_dir, &mindspore_parking);
    config_dir->left_at = trigger->monotonic();
    config_dir->phase = MINDSPORE_LEAVING;
}

static void make_free(struct mindspore_trigger *trigger, struct mindspore_config_dir *config_dir)
{
    static const struct mindspore_pair never = {.start = -1, .stop = -1};
    if (!config_dir->is_foreign)
        mindspore_rest(trigger, config_dir,
                       mindspore_is_shared(config_dir) ? &mindspore_parking : &never);
    config_dir->phase = MINDSPORE_FREE;
    for (size_t i = 0; i < trigger->member_count; i++)
        if (mindspore_is_of(trigger, &trigger->members[i], config_dir))
            trigger->members[i].is_target = false;
    rs_buf_reset(&config_dir->written);
}

void mindspore_tick_notified(struct mindspore_trigger *trigger,
                             struct mindspore_config_dir *config_dir)
{
    bool is_open = false;
    bool has_failed = false;
    notice_replaced(trigger, config_dir);
    read_blocks(trigger, config_dir);
    for (size_t i = 0; i < trigger->member_count; i++)
        if (mindspore_is_of(trigger, &trigger->members[i], config_dir) &&
            mindspore_is_under_way(&trigger->members[i]))
            tick_member(trigger, config_dir, &trigger->members[i]);
    if (trigger->monotonic() >= config_dir->deadline_at)
        fail_late(trigger, config_dir);
    if (config_dir->may_move && !config_dir->is_foreign)
        move_start(trigger, config_dir);
    for (size_t i = 0; i < trigger->member_count; i++) {
        const struct mindspore_member *member = &trigger->members[i];
        if (!member->is_target || !mindspore_is_of(trigger, member, config_dir))
            continue;
        is_open |= mindspore_is_under_way(member);
        has_failed |= member->shown.state == RS_CONFIG_STATE_FAILED && !member->shown.is_gone;
    }
    if (is_open)
        return;
    if (has_failed)
        mindspore_leave(trigger, config_dir); /* one that was late may begin just now */
    else
        make_free(trigger, config_dir);
}

void mindspore_tick_leaving(struct mindspore_trigger *trigger,
                            struct mindspore_config_dir *config_dir)
{
    bool is_parked = true;
    if (!config_dir->is_foreign && mindspore_was_replaced(config_dir)) {
        config_dir->is_foreign = true;
        rs_log_warn("%s was replaced by somebody else; it is left as it is", config_dir->path);
    }
    read_blocks(trigger, config_dir);
    for (size_t i = 0; i < trigger->block_count; i++) {
        const struct mindspore_block *block = &trigger->blocks[i];
        if (block->config_dir != MINDSPORE_NONE &&
            &trigger->config_dirs[block->config_dir] == config_dir && block->is_pair_known &&
            block->monitor && mindspore_is_same_pair(&block->pair, &config_dir->pair))
            is_parked = false;
    }
    const rs_dur left = trigger->monotonic() - config_dir->left_at;
    if (left < leave_ns || (!is_parked && left < take_limit_ns) ||
        does_anybody_record(trigger, config_dir))
        return;
    make_free(trigger, config_dir);
}
