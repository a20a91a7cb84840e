/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where everybody begins, and the messages that say so.
 *
 *     foremost step of the ranks that count theirs, as of now
 *       + the steps that pass until the slowest of them can know (a heartbeat and two round trips; for those that
 *         look at a file: their interval of looking, and what they need from there to the first step)
 *       + 2
 *
 * All ranks that know their step begin at one and the same. A warm-up is part of the count: those whose profiler makes
 * none begin to record when the others' is over.
 */
#include "aggregator/capture/coord_priv.h"
#include "aggregator/capture/plan.h"
#include "common/base/mem.h"

#define RS_LOG_TAG "capture"
#include "common/base/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MARGIN_MIN_STEPS = 2, MARGIN_MAX_STEPS = 100000, COUNTED_STEPS_MAX = 1000000 };

/* Of ranks that look at a file and whose step time nobody knows. */
static const rs_dur unknown_step_ns = 50 * (rs_dur)RS_NS_PER_MS;

/* ---- messages ----------------------------------------------------------------------------------------- */

struct addressed {
    const void *link;
    const struct rs_adapter *adapter;
    uint32_t number; /* of the adapter */
    uint32_t rank;
    uint32_t group;   /* the lowest rank of its link and adapter: messages go out in that order */
    size_t index;     /* in the capture */
    const char *node; /* of its collector; lent by the table of ranks */
};

static int by_link(const void *left, const void *right)
{
    const struct addressed *a = left;
    const struct addressed *b = right;
    if (a->number != b->number)
        return a->number < b->number ? -1 : 1;
    if (a->link != b->link)
        return (uintptr_t)a->link < (uintptr_t)b->link ? -1 : 1;
    return (a->rank > b->rank) - (a->rank < b->rank);
}

static int by_group(const void *left, const void *right)
{
    const struct addressed *a = left;
    const struct addressed *b = right;
    if (a->number != b->number)
        return a->number < b->number ? -1 : 1;
    if (a->group != b->group)
        return a->group > b->group ? 1 : -1;
    return (a->rank > b->rank) - (a->rank < b->rank);
}

/* The ranks in one of `states` that have a link, those of one message side by side; NULL: no memory. */
static struct addressed *address_ranks(const struct rs_coord *coord,
                                       const struct rs_coord_capture *capture, uint32_t states,
                                       size_t *count_p)
{
    struct addressed *items = rs_mem_calloc(capture->rank_count + 1, sizeof *items);
    size_t count = 0;
    for (size_t i = 0; items && i < capture->rank_count; i++) {
        struct rs_coord_rank *rank = &capture->ranks[i];
        if (!(states >> rank->state & 1))
            continue;
        const struct rs_coord_seen *seen = seen_of(coord, capture, rank);
        if (seen && seen->link)
            items[count++] = (struct addressed){.link = seen->link,
                                                .adapter = &rank->adapter,
                                                .number = rank->adapter.number,
                                                .rank = rank->rank,
                                                .group = rank->rank,
                                                .index = i,
                                                .node = seen->node};
    }
    *count_p = count;
    if (count > 1)
        qsort(items, count, sizeof *items, by_link);
    for (size_t i = 1; i < count; i++)
        if (items[i].link == items[i - 1].link && items[i].number == items[i - 1].number)
            items[i].group = items[i - 1].group;
    if (count > 1)
        qsort(items, count, sizeof *items, by_group);
    return items;
}

void messages_send(struct rs_coord *coord, struct rs_coord_capture *capture,
                   enum rs_progress_state state, rs_coord_message_fn *send)
{
    size_t count = 0;
    struct addressed *items = address_ranks(coord, capture, 1u << state, &count);
    uint32_t *numbers = rs_mem_calloc(capture->rank_count + 1, sizeof *numbers);
    for (size_t i = 0; items && i < count; i++) {
        struct rs_coord_rank *rank = &capture->ranks[items[i].index];
        (void)snprintf(rank->node, sizeof rank->node, "%s", items[i].node);
    }
    for (size_t i = 0; items && numbers && i < count;) {
        size_t end = i;
        for (; end < count && items[end].link == items[i].link &&
               items[end].number == items[i].number;
             end++)
            numbers[end - i] = items[end].rank;
        send(coord->options.self, items[i].link, capture, items[i].adapter, numbers, end - i);
        i = end;
    }
    if (!items || !numbers)
        rs_log_error("no memory for the messages of capture %s", capture->id);
    rs_mem_free(numbers);
    rs_mem_free(items);
}

void messages_cancel(struct rs_coord *coord, struct rs_coord_capture *capture, uint32_t states,
                     const char *reason)
{
    size_t count = 0;
    struct addressed *items = address_ranks(coord, capture, states, &count);
    /* One message per collector, whatever adapters it has: links side by side once more. */
    for (size_t i = 0; items && i < count; i++)
        items[i].number = 0;
    if (items && count > 1)
        qsort(items, count, sizeof *items, by_link);
    for (size_t i = 0; items && i < count; i++)
        if (i == 0 || items[i].link != items[i - 1].link)
            coord->options.ops->cancel(coord->options.self, items[i].link, capture, reason);
    rs_mem_free(items);
}

void messages_cancel_all(struct rs_coord *coord, struct rs_coord_capture *capture,
                         const char *reason)
{
    messages_cancel(coord, capture, UINT32_MAX, reason);
    if (coord->options.ops->cancel_elsewhere)
        coord->options.ops->cancel_elsewhere(coord->options.self, capture, reason);
}

/* ---- steps ------------------------------------------------------------------------------------------------ */

/* It counts steps, and is armed. */
static bool is_stepped(const struct rs_coord_rank *rank)
{
    return rank->state == RS_PROGRESS_ARMED && adapter_can(&rank->adapter, RS_CAP_KNOWS_STEP);
}

static bool looks_at_a_file(const struct rs_coord_rank *rank)
{
    return adapter_can(&rank->adapter, RS_CAP_POLLS);
}

static int64_t moved_on(int64_t step, rs_dur step_ns, rs_dur since)
{
    return step >= 0 && step_ns > 0 && since > 0 ? step + since / step_ns : step;
}

/* Where a rank is by now, as far as is known; -1 unknown. */
static int64_t step_of(const struct rs_coord *coord, const struct rs_coord_capture *capture,
                       struct rs_coord_rank *rank, rs_ns now)
{
    const struct rs_coord_seen *seen = seen_of(coord, capture, rank);
    const int64_t armed = moved_on(rank->step, rank->step_duration_ns, now - rank->moved_at);
    /* Heartbeats since ARMED may know better; older ones only that it is beyond. */
    const rs_dur since =
        seen && seen->last_seen_ns >= rank->moved_at ? now - seen->last_seen_ns : 0;
    const int64_t reported = seen ? moved_on(seen->step, seen->step_duration_ns, since) : -1;
    return reported > armed ? reported : armed;
}

/* The lead is that many times the slowest answer, and the latest heartbeat's delay, up to so long. */
enum { ANSWERS_AHEAD = 8, LATENESS_AHEAD = 4 };
static const rs_dur answers_lead_max_ns = 8 * (rs_dur)RS_NS_PER_S;

struct pace {
    int64_t foremost;         /* -1 nobody's step is known */
    rs_dur shortest, longest; /* steps; 0 unknown */
    rs_dur lead_ns;           /* what the slowest to learn needs */
};

static struct pace pace_of(const struct rs_coord *coord, const struct rs_coord_capture *capture,
                           rs_ns now)
{
    struct pace pace = {.foremost = -1, .lead_ns = coord->options.lead_ns};
    rs_dur latest = 0;
    for (size_t i = 0; i < capture->rank_count; i++) {
        struct rs_coord_rank *rank = &capture->ranks[i];
        if (!is_stepped(rank))
            continue;
        const int64_t step = step_of(coord, capture, rank, now);
        const rs_dur length = rank->step_duration_ns;
        const rs_dur lead = coord->options.lead_ns + rank->poll_period_ns + rank->lead_ns;
        if (step > pace.foremost)
            pace.foremost = step;
        if (length > 0 && (!pace.shortest || length < pace.shortest))
            pace.shortest = length;
        if (length > pace.longest)
            pace.longest = length;
        if (lead > pace.lead_ns)
            pace.lead_ns = lead;
        const struct rs_coord_seen *seen = seen_of(coord, capture, rank);
        const rs_dur late = seen ? seen_lateness(coord, seen, now) : 0;
        latest = late > latest ? late : latest;
    }
    /* Who takes long to answer takes as long to hear of the start: on busy nodes there is to be time to see who did not. One answer may
     * have been lucky; heartbeats of the last while tell how long a message may take. */
    rs_dur slowest = coord->options.heartbeat_ns ? ANSWERS_AHEAD * capture->answer_ns : 0;
    slowest = slowest > LATENESS_AHEAD * latest ? slowest : LATENESS_AHEAD * latest;
    slowest = slowest < answers_lead_max_ns ? slowest : answers_lead_max_ns;
    if (slowest > pace.lead_ns)
        pace.lead_ns = slowest;
    return pace;
}

/* Steps between the foremost rank's and the start. */
static int64_t margin_of(const struct rs_coord_capture *capture, const struct pace *pace)
{
    rs_dur shortest = pace->shortest;
    for (size_t i = 0; i < capture->rank_count && !shortest; i++)
        if (is_stepped(&capture->ranks[i]) && looks_at_a_file(&capture->ranks[i]))
            shortest = unknown_step_ns;
    if (!shortest)
        return MARGIN_MIN_STEPS;
    const int64_t margin = MARGIN_MIN_STEPS + pace->lead_ns / shortest;
    return margin < MARGIN_MAX_STEPS ? margin : MARGIN_MAX_STEPS;
}

/* Steps at the head of the schedule that are not recorded. */
static int64_t shift_of(const struct rs_coord_capture *capture, const struct rs_adapter *adapter)
{
    const struct rs_request_schedule *schedule =
        capture->request ? &capture->request->schedule : NULL;
    if (!schedule || capture->duration_ns)
        return 0;
    const int64_t skipped =
        adapter_can(adapter, RS_CAP_SKIPS) ? (int64_t)schedule->skip_first + schedule->wait : 0;
    return skipped + (adapter_can(adapter, RS_CAP_RECORDS_WARMUP) ? 0 : schedule->warmup.value);
}

int64_t rs_coord_start_step(const struct rs_coord_capture *capture,
                            const struct rs_adapter *adapter)
{
    if (!adapter_can(adapter, RS_CAP_KNOWS_STEP) || capture->start_step < 0)
        return -1;
    return capture->start_step + shift_of(capture, adapter);
}

/* The start was asked for: who is there already, or beyond, will not make it. */
static void refuse_late(struct rs_coord *coord, struct rs_coord_capture *capture, rs_ns now)
{
    char why[160];
    for (size_t i = 0; i < capture->rank_count; i++) {
        struct rs_coord_rank *rank = &capture->ranks[i];
        const int64_t step = is_stepped(rank) ? step_of(coord, capture, rank, now) : -1;
        if (step < capture->start_step)
            continue;
        (void)snprintf(why, sizeof why,
                       "start_step %" PRId64 " passed: it was in step %" PRId64
                       " when all had answered",
                       capture->start_step, step);
        member_move(capture, rank, RS_PROGRESS_REFUSED, why, now);
    }
}

/* Nobody knows where such a rank is: it cannot be told an absolute step. Ranks that can be notified at any time, and tell none, have not begun. */
static void refuse_unknown(struct rs_coord_capture *capture, rs_ns now)
{
    for (size_t i = 0; i < capture->rank_count; i++)
        if (is_stepped(&capture->ranks[i]) && looks_at_a_file(&capture->ranks[i]))
            member_move(capture, &capture->ranks[i], RS_PROGRESS_REFUSED,
                        "its step is not known, and so is no other rank's: give --start-step N",
                        now);
}

static void plan_steps(struct rs_coord *coord, struct rs_coord_capture *capture, rs_ns now)
{
    const bool is_asked = capture->request && capture->request->start_step > 0;
    if (is_asked) {
        refuse_late(coord, capture, now);
        return;
    }
    const struct pace pace = pace_of(coord, capture, now);
    if (pace.foremost < 0)
        refuse_unknown(capture, now);
    const int64_t margin = margin_of(capture, &pace);
    capture->lead_ns = pace.foremost >= 0 && pace.shortest ? pace.lead_ns : 0;
    const rs_dur until =
        capture->start_time_ns ? capture->start_time_ns - coord->options.realtime() : 0;
    const int64_t ahead = until > 0 && pace.longest ? until / pace.longest : 0;
    capture->start_step = pace.foremost + (ahead > margin ? ahead : margin);
}

/* Ranks that know their step record whole steps: those that fill the duration, from the step at its start on. A rank that
 * does not know how long its steps are cannot. */
static void plan_duration(struct rs_coord *coord, struct rs_coord_capture *capture, rs_ns now)
{
    for (size_t i = 0; i < capture->rank_count; i++)
        if (is_stepped(&capture->ranks[i]) && capture->ranks[i].step_duration_ns <= 0)
            member_move(
                capture, &capture->ranks[i], RS_PROGRESS_REFUSED,
                "it records whole steps, and how long one is, is not known yet: use --steps", now);
    const struct pace pace = pace_of(coord, capture, now);
    if (!pace.longest)
        return;
    const int64_t steps = (capture->duration_ns + pace.longest - 1) / pace.longest;
    capture->counted_steps = steps > COUNTED_STEPS_MAX ? COUNTED_STEPS_MAX : (uint32_t)steps;
    plan_steps(coord, capture, now);
}

/* Some do not take the same pair twice: what it was told stays with the rank. */
static void remember_pairs(struct rs_coord *coord, struct rs_coord_capture *capture)
{
    for (size_t i = 0; i < capture->rank_count; i++) {
        struct rs_coord_rank *rank = &capture->ranks[i];
        struct rs_coord_seen *seen =
            adapter_can(&rank->adapter, RS_CAP_NO_REPEAT) && rank->state == RS_PROGRESS_ARMED
                ? seen_of(coord, capture, rank)
                : NULL;
        if (!seen)
            continue;
        seen->last_start = rs_coord_start_step(capture, &rank->adapter);
        seen->last_stop = seen->last_start + capture->steps - 1;
    }
}

/* Instants go out on the clock of each host, as it was measured (server): how far apart two hosts may begin because of that, one too
 * early and the other too late. One that was not measured makes it unknown. */
static rs_dur start_bound(const struct rs_coord *coord, const struct rs_coord_capture *capture)
{
    const struct rs_coord_seen *worst = NULL;
    rs_dur second = 0; /* of another node than the worst */
    for (size_t i = 0; i < capture->rank_count; i++) {
        struct rs_coord_rank *rank = &capture->ranks[i];
        if (rank->state != RS_PROGRESS_ARMED || adapter_can(&rank->adapter, RS_CAP_KNOWS_STEP))
            continue;
        const struct rs_coord_seen *seen = seen_of(coord, capture, rank);
        if (!seen || !seen->clock_bound_ns)
            return 0;
        const bool is_other = worst && strcmp(worst->node, seen->node) != 0;
        if (!worst || seen->clock_bound_ns > worst->clock_bound_ns) {
            second = is_other ? worst->clock_bound_ns : second;
            worst = seen;
        } else if (is_other && seen->clock_bound_ns > second) {
            second = seen->clock_bound_ns;
        }
    }
    return worst ? worst->clock_bound_ns + second : 0;
}

/* Ranks that ask for work at their own times, on nodes where everything comes late: their profilers ask late, too. */
static void allow_for_lateness(const struct rs_coord *coord, struct rs_coord_capture *capture,
                               rs_ns now)
{
    for (size_t i = 0; i < capture->rank_count; i++) {
        struct rs_coord_rank *rank = &capture->ranks[i];
        const struct rs_coord_seen *seen =
            rank->state == RS_PROGRESS_ARMED && !adapter_can(&rank->adapter, RS_CAP_KNOWS_STEP)
                ? seen_of(coord, capture, rank)
                : NULL;
        if (seen)
            rank->lead_ns += LATENESS_AHEAD * seen_lateness(coord, seen, now);
    }
}

void capture_commit(struct rs_coord *coord, struct rs_coord_capture *capture, rs_ns now)
{
    if (capture->request && capture->request->start_time_ns)
        capture->start_time_ns = capture->request->start_time_ns;
    allow_for_lateness(coord, capture, now);
    if (rs_coord_can(capture, RS_CAP_STEP_ROUNDUP))
        rs_coord_plan(capture, coord->options.realtime());
    capture->counted_steps = capture->steps;
    if (rs_coord_can(capture, RS_CAP_KNOWS_STEP)) {
        if (capture->duration_ns)
            plan_duration(coord, capture, now);
        else
            plan_steps(coord, capture, now);
    }
    if (!capture->counts[RS_PROGRESS_ARMED]) {
        capture_close(coord, capture);
        return;
    }
    /* Of one that was given up, what comes is still of the first try. */
    for (size_t i = 0; i < capture->rank_count; i++)
        if (capture->ranks[i].state == RS_PROGRESS_ARMED)
            capture->ranks[i].is_told = capture->ranks[i].is_recalled = false;
    capture->start_bound_ns = capture->start_time_ns ? start_bound(coord, capture) : 0;
    capture->state = RS_CAPTURE_RECORDING;
    capture->committed_at = now;
    capture->is_changed = true;
    remember_pairs(coord, capture);
    messages_send(coord, capture, RS_PROGRESS_ARMED, coord->options.ops->commit);
    capture_save(coord, capture);
}
