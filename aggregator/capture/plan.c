/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/capture/plan.h"

#include "common/base/mem.h"
#include "common/base/stretch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    ROUNDUP_UNKNOWN = 500, /* the step time is not known yet */
    ROUNDUP_MAX = 1000000,
    CYCLE_SPREADS =
        20, /* R steps last so many times the spread of the polls: one in 20 captures strays at most */
};

/* Also when polls lie close together: on a busy node a profiler takes some hundred ms to wake up and read its answer. A
 * capture waits for a poll, and then for this at most. */
static const rs_dur cycle_min_ns = 8 * (rs_dur)RS_NS_PER_S;
/* A poll that comes sooner may be missed: COMMIT is under way, and clocks differ. */
static const rs_dur guard_ns = 300 * (rs_dur)RS_NS_PER_MS;
/* Until a profiler that has its answer is ready for the instant: on a node all of whose cores train, its thread waits for one. */
static const rs_dur start_margin_ns = 2 * (rs_dur)RS_NS_PER_S;
static const rs_dur early_max_ns =
    RS_NS_PER_S; /* polls are on time to a few ms: told from so long before */
/* From COMMIT to a complete trace: what is left besides waiting for the start. */
static const rs_dur writing_ns = 180 * (rs_dur)RS_NS_PER_S;
static const rs_dur unknown_timeout_ns = 600 * (rs_dur)RS_NS_PER_S;

static bool takes_part(const struct rs_coord_rank *rank)
{
    return (rank->adapter.capabilities & RS_CAP_STEP_ROUNDUP) && rank->state == RS_PROGRESS_ARMED;
}

/* Its first poll that will surely get the answer. */
static rs_ns sure_poll(const struct rs_coord_rank *rank, rs_ns realtime)
{
    const rs_ns from = realtime + guard_ns;
    if (rank->next_poll_ns >= from || rank->poll_period_ns <= 0)
        return rank->next_poll_ns > from ? rank->next_poll_ns : from;
    const rs_dur late = from - rank->next_poll_ns;
    return rank->next_poll_ns +
           (late + rank->poll_period_ns - 1) / rank->poll_period_ns * rank->poll_period_ns;
}

static int by_time(const void *left, const void *right)
{
    const rs_ns a = *(const rs_ns *)left;
    const rs_ns b = *(const rs_ns *)right;
    return (a > b) - (a < b);
}

/* The beginning of the shortest arc that holds all polls; its length in *spread_p. */
static rs_ns shortest_arc(const rs_ns *polls, size_t count, rs_dur period, rs_dur *spread_p)
{
    size_t best = 0;
    rs_dur spread = polls[count - 1] - polls[0];
    for (size_t k = 1; k < count; k++) {
        const rs_dur other = polls[k - 1] + period - polls[k];
        if (other < spread) {
            spread = other;
            best = k;
        }
    }
    const rs_ns before = best ? polls[best - 1] : polls[count - 1] - period;
    rs_dur early = (polls[best] - before) / 2;
    if (early > early_max_ns)
        early = early_max_ns;
    *spread_p = spread;
    return early > 0 ? polls[best] - early : polls[best];
}

/* At least `least`, two digits and noughts: a number that people read, and little more than is needed, since every
 * iteration of it is waited for. */
static uint32_t round_number(int64_t least)
{
    int64_t unit = 1;
    while (least / unit >= 100)
        unit *= 10;
    const int64_t number = (least + unit - 1) / unit * unit;
    if (number >= ROUNDUP_MAX)
        return ROUNDUP_MAX;
    return number > 0 ? (uint32_t)number : 1;
}

static void plan_iterations(struct rs_coord_capture *capture, const rs_ns *polls, size_t count,
                            rs_dur period)
{
    rs_dur spread = 0;
    rs_dur shortest = 0;
    rs_dur longest = 0;
    capture->deliver_from_ns = shortest_arc(polls, count, period, &spread);
    for (size_t i = 0; i < capture->rank_count; i++) {
        const struct rs_coord_rank *rank = &capture->ranks[i];
        if (!takes_part(rank))
            continue;
        if (rank->step_duration_ns > 0 && (!shortest || rank->step_duration_ns < shortest))
            shortest = rank->step_duration_ns;
        if (rank->step_duration_ns > longest)
            longest = rank->step_duration_ns;
    }
    const rs_dur cycle =
        spread * CYCLE_SPREADS > cycle_min_ns ? spread * CYCLE_SPREADS : cycle_min_ns;
    struct rs_coord_profile *profile = &capture->profile;
    /* Ranks go in lock step: those that have not told are taken to be as fast as those that have. */
    if (!profile->roundup)
        profile->roundup =
            shortest ? round_number((cycle + shortest - 1) / shortest) : ROUNDUP_UNKNOWN;
    const int64_t warmup = capture->request ? capture->request->schedule.warmup.value : 0;
    int64_t steps = (int64_t)profile->roundup + capture->steps + warmup;
    if (steps > ROUNDUP_MAX)
        steps = ROUNDUP_MAX; /* a step is an hour at most: the product fits */
    if (!profile->timeout_ns)
        profile->timeout_ns =
            longest ? 2 * longest * steps + 2 * period + writing_ns : unknown_timeout_ns;
    capture->step_ns = longest;
    if (longest)
        capture->begin_by_ns =
            capture->deliver_from_ns + early_max_ns + spread +
            longest * (warmup < ROUNDUP_MAX ? profile->roundup + warmup : ROUNDUP_MAX);
}

static void plan_start(struct rs_coord_capture *capture, rs_ns realtime)
{
    rs_ns start = 0;
    for (size_t i = 0; i < capture->rank_count; i++) {
        const struct rs_coord_rank *rank = &capture->ranks[i];
        const rs_ns earliest =
            takes_part(rank) ? sure_poll(rank, realtime) + rank->lead_ns + start_margin_ns : 0;
        if (earliest > start)
            start = earliest;
    }
    /* A start that was asked for holds when everybody can make it. The profiler takes milliseconds. */
    if (capture->start_time_ns < start)
        capture->start_time_ns = (start / RS_NS_PER_MS + 1) * RS_NS_PER_MS;
    if (!capture->profile.timeout_ns)
        capture->profile.timeout_ns =
            capture->start_time_ns - realtime + capture->duration_ns + writing_ns;
}

void rs_coord_plan(struct rs_coord_capture *capture, rs_ns realtime)
{
    rs_ns *polls = rs_mem_calloc(capture->rank_count + 1, sizeof *polls);
    rs_dur period = 0;
    size_t count = 0;
    for (size_t i = 0; polls && i < capture->rank_count; i++) {
        const struct rs_coord_rank *rank = &capture->ranks[i];
        if (!takes_part(rank))
            continue;
        polls[count++] = sure_poll(rank, realtime);
        if (rank->poll_period_ns > period)
            period = rank->poll_period_ns;
    }
    if (count && capture->duration_ns)
        plan_start(capture, realtime);
    else if (count) {
        qsort(polls, count, sizeof *polls, by_time);
        plan_iterations(capture, polls, count, period);
    }
    rs_mem_free(polls);
}

/* ---- afterwards ------------------------------------------------------------------------------------------- */

/* Windows are compared on one clock, ours: hosts' clocks may be seconds apart. */
static rs_ns on_our_clock(const struct rs_coord_rank *rank, rs_ns instant)
{
    rs_ns ours; /* both numbers came from a peer */
    return __builtin_sub_overflow(instant, rank->clock_offset_ns, &ours) || ours < 0 ? 0 : ours;
}

/* What it recorded, once its summary is durable; nothing for a rank that is named for something else. */
static struct rs_stretch window_of(const struct rs_coord_rank *rank)
{
    const bool is_known = (rank->adapter.capabilities & RS_CAP_STEP_ROUNDUP) &&
                          rank->window_end_ns > rank->window_start_ns &&
                          (rank->state == RS_PROGRESS_DONE || rank->state == RS_PROGRESS_PARTIAL ||
                           (rank->is_summarised && !rs_progress_is_final(rank->state)));
    return is_known ? (struct rs_stretch){on_our_clock(rank, rank->window_start_ns),
                                          on_our_clock(rank, rank->window_end_ns)}
                    : (struct rs_stretch){0, 0};
}

size_t rs_coord_strays(const struct rs_coord_capture *capture, char *text, size_t bytes)
{
    enum { NAMED_MAX = 8 };
    struct rs_stretch *windows = rs_mem_calloc(capture->rank_count + 1, sizeof *windows);
    size_t used = 0;
    size_t count = 0;
    text[0] = '\0';
    for (size_t i = 0; windows && i < capture->rank_count; i++)
        windows[i] = window_of(&capture->ranks[i]);
    size_t common = SIZE_MAX;
    const bool is_known =
        windows && rs_stretch_most_shared(windows, capture->rank_count, &common) == RS_OK;
    for (size_t i = 0; is_known && i < capture->rank_count; i++) {
        if (!rs_stretch_is_known(&windows[i]) ||
            rs_stretch_overlaps(&windows[i], &windows[common]) || count++ >= NAMED_MAX)
            continue;
        const rs_dur apart = rs_stretch_between(windows[common].start, windows[i].start);
        const int64_t tenths = rs_stretch_tenths(apart);
        if (used < bytes)
            used += (size_t)snprintf(text + used, bytes - used,
                                     "%srank %u recorded %" PRId64 ".%" PRId64 " s %s",
                                     used ? ", " : "", capture->ranks[i].rank, tenths / 10,
                                     tenths % 10, apart < 0 ? "earlier" : "later");
    }
    rs_mem_free(windows);
    return count;
}
