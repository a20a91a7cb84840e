/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a run is probed, whom, and what the rules are told of it: the story stands in probe_watch.h.
 *
 * The rules count steps. A probe is told to them as RS_PROBE_WATCH_STEPS steps more, so the steps that they name are probes, and are
 * taken back to the instants at which these began.
 */
#include "common/client/probe_watch.h"

#include "common/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert((int)RS_PROBE_WATCH_STEPS >= (int)RS_STEP_WATCH_STEPS &&
                   (int)RS_PROBE_WATCH_STEPS >= (int)RS_RANK_WATCH_STEPS,
               "a probe is a sample");

const char rs_probe_watch_origin[] = "probe of a watch";

enum { SOONER = 4, FAILURES_MAX = 6 };
static const rs_dur pause_max_ns = 3600 * (rs_dur)RS_NS_PER_S;

/* ---- the look ---------------------------------------------------------------------------------------------------- */

enum rs_status rs_probe_watch_add(struct rs_probe_watch *watch,
                                  const struct rs_probe_member *member)
{
    struct rs_run_watch *rule = &watch->rule;
    /* Members of the look before are those of this one until its first comes. */
    if (!rule->gather.look.stepping) {
        watch->member_count = 0;
        watch->is_of_whole_jobs = false;
    }
    if (rs_mem_grow((void **)&watch->members, &watch->member_capacity, watch->member_count + 1,
                    sizeof *watch->members) < 0 ||
        rs_step_gather_add(&rule->gather, 0, 0, 1, member->delay_ns, member->host) < 0)
        return RS_NOMEM;
    watch->members[watch->member_count++] =
        (struct rs_rank_peer){.rank = member->rank, .pp = member->pp, .tp = member->tp};
    watch->is_of_whole_jobs = watch->is_of_whole_jobs || member->is_of_whole_jobs;
    return RS_OK;
}

static int by_rank(const void *a_, const void *b_)
{
    const struct rs_rank_peer *a = a_, *b = b_;
    return (a->rank > b->rank) - (a->rank < b->rank);
}

static void forget(struct rs_probe_watch *watch)
{
    const struct rs_step_gather gather = watch->rule.gather;
    watch->rule.gather = (struct rs_step_gather){.lengths = NULL};
    rs_run_watch_fini(&watch->rule);
    watch->rule.gather = gather;
    watch->rank_count = 0;
    watch->read_count = watch->told_count = 0;
    watch->failures = 0;
}

/* Evenly over the run: they are the same ones as long as its ranks are. */
static bool choose(struct rs_probe_watch *watch)
{
    const size_t all = watch->member_count;
    const size_t count = all < RS_PROBE_WATCH_RANKS ? all : RS_PROBE_WATCH_RANKS;
    bool are_same = count == watch->rank_count;
    for (size_t i = 0; i < count && are_same; i++)
        are_same = watch->ranks[i].peer.rank == watch->members[i * all / count].rank;
    if (!are_same)
        forget(watch);
    for (size_t i = 0; i < count; i++) {
        struct rs_probe_rank *rank = &watch->ranks[i];
        if (!are_same)
            *rank = (struct rs_probe_rank){.own_ns = 0};
        rank->peer = watch->members[i * all / count];
    }
    watch->rank_count = count;
    return are_same;
}

size_t rs_probe_watch_seen(struct rs_probe_watch *watch, const struct rs_probe_rules *rules,
                           rs_ns now)
{
    if (!watch->rule.gather.look.stepping)
        watch->member_count = 0;
    qsort(watch->members, watch->member_count, sizeof *watch->members, by_rank);
    const struct rs_step_look look = rs_step_gather_take(&watch->rule.gather);
    watch->delay_ns = look.delay_ns > 0 ? look.delay_ns : 0;
    /* One that is under way is read by those who are in it; a rank that ended in between is another job afterwards. */
    if (!watch->is_under_way && !choose(watch) && watch->next_at < now + rules->every_ns)
        watch->next_at = now + rules->every_ns;
    return watch->member_count;
}

void rs_probe_watch_skip(struct rs_probe_watch *watch)
{
    (void)rs_step_gather_take(&watch->rule.gather);
    watch->member_count = 0;
}

/* ---- when -------------------------------------------------------------------------------------------------------- */

bool rs_probe_watch_is_due(const struct rs_probe_watch *watch, rs_ns now)
{
    return !watch->is_under_way && watch->rank_count > 0 && now >= watch->next_at;
}

void rs_probe_watch_begin(struct rs_probe_watch *watch, rs_ns now, rs_ns realtime,
                          char ranks[RS_PROBE_WATCH_EXPR_BYTES])
{
    size_t used = 0;
    watch->is_under_way = true;
    watch->begun_at = now;
    watch->begun_ns = realtime;
    watch->begun_delay_ns = watch->delay_ns;
    (void)snprintf(ranks, RS_PROBE_WATCH_EXPR_BYTES, "all");
    if (watch->is_of_whole_jobs)
        return;
    for (size_t i = 0; i < watch->rank_count; i++)
        used += (size_t)snprintf(ranks + used, RS_PROBE_WATCH_EXPR_BYTES - used, "%s%" PRIu32,
                                 i ? "," : "", watch->ranks[i].peer.rank);
}

static void plan_next(struct rs_probe_watch *watch, const struct rs_probe_rules *rules,
                      rs_dur every_ns, rs_dur disturbed_ns, rs_ns now)
{
    const double rest = (double)disturbed_ns * (1 - rules->share) / rules->share;
    const rs_ns by_share = now + (rest < 1e18 ? (rs_dur)rest : (rs_dur)1e18);
    watch->next_at = watch->begun_at + every_ns;
    if (by_share > watch->next_at)
        watch->next_at = by_share;
    watch->is_under_way = false;
}

void rs_probe_watch_failed(struct rs_probe_watch *watch, const struct rs_probe_rules *rules,
                           rs_dur disturbed_ns, rs_ns now)
{
    rs_dur pause = rules->every_ns;
    watch->failures += watch->failures < FAILURES_MAX;
    for (unsigned i = 1; i < watch->failures && pause < pause_max_ns; i++)
        pause *= 2;
    plan_next(watch, rules, pause, disturbed_ns, now);
}

/* ---- what it told ------------------------------------------------------------------------------------------------ */

bool rs_probe_figure_of(uint32_t rank, rs_dur *lengths, rs_dur *own, size_t count,
                        struct rs_probe_figure *figure_p)
{
    if (!count)
        return false;
    *figure_p = (struct rs_probe_figure){.rank = rank,
                                         .step_ns = rs_step_median(lengths, count),
                                         .own_ns = rs_step_median(own, count)};
    return figure_p->step_ns > 0;
}

static const struct rs_probe_figure *find(const struct rs_probe_figure *figures, size_t count,
                                          uint32_t rank)
{
    for (size_t i = 0; i < count; i++)
        if (figures[i].rank == rank)
            return &figures[i];
    return NULL;
}

/* Of those that are compared; 0: nobody told. */
static rs_dur step_of(const struct rs_probe_watch *watch, const struct rs_probe_figure *figures,
                      size_t count)
{
    rs_dur lengths[RS_PROBE_WATCH_RANKS];
    size_t known = 0;
    for (size_t i = 0; i < watch->rank_count; i++) {
        const struct rs_probe_figure *figure = find(figures, count, watch->ranks[i].peer.rank);
        if (figure && figure->step_ns > 0)
            lengths[known++] = figure->step_ns;
    }
    return known ? rs_step_median(lengths, known) : 0;
}

/* All of them or none: ranks that are compared with others than before would look like another job. */
static void tell_ranks(struct rs_probe_watch *watch, const struct rs_probe_figure *figures,
                       size_t count, int64_t step)
{
    for (size_t i = 0; i < watch->rank_count; i++) {
        const struct rs_probe_figure *figure = find(figures, count, watch->ranks[i].peer.rank);
        if (!figure || figure->own_ns <= 0)
            return;
    }
    for (size_t i = 0; i < watch->rank_count; i++) {
        struct rs_probe_rank *rank = &watch->ranks[i];
        const struct rs_probe_figure *figure = find(figures, count, rank->peer.rank);
        if (figure)
            rank->own_ns += (rs_dur)(watch->read_count - watch->told_count) * RS_PROBE_WATCH_STEPS *
                            figure->own_ns;
        const struct rs_rank_look look = {
            .rank = rank->peer.rank, .step = step, .own_ns = rank->own_ns};
        if (rs_rank_watch_add(&watch->rule.ranks, &look) < 0)
            break; /* the rule sees other ranks than before, and begins anew */
    }
    watch->told_count = watch->read_count;
}

/* The rules compare what they see with what they saw before: the first probe is compared with nothing. */
static void begin_rules(struct rs_probe_watch *watch)
{
    struct rs_run_watch *rule = &watch->rule;
    rule->steps.learn = rule->ranks.learn = RS_PROBE_WATCH_LEARN;
    rule->steps.last = (struct rs_step_look){.stepping = watch->rank_count};
    rule->steps.has_last = true;
    for (size_t i = 0; i < watch->rank_count; i++) {
        watch->ranks[i].own_ns = 1;
        const struct rs_rank_look look = {
            .rank = watch->ranks[i].peer.rank, .step = 0, .own_ns = 1};
        if (rs_rank_watch_add(&rule->ranks, &look) < 0)
            break;
    }
    struct rs_rank_alarm none;
    (void)rs_rank_watch_see(&rule->ranks, 0, 2, &none); /* takes the ranks */
    for (size_t i = 0; i < watch->rank_count; i++) {
        const struct rs_rank_look look = {
            .rank = watch->ranks[i].peer.rank, .step = 0, .own_ns = 1};
        if (rs_rank_watch_add(&rule->ranks, &look) < 0)
            break;
    }
    (void)rs_rank_watch_see(&rule->ranks, 0, 2, &none); /* and where they begin */
}

/* The probe behind the one at which a rule's doubt began. */
static rs_ns instant_of(const struct rs_probe_watch *watch, int64_t first_step)
{
    const uint64_t number = (uint64_t)first_step / RS_PROBE_WATCH_STEPS;
    return watch->instants[number % RS_PROBE_WATCH_INSTANTS];
}

static void take_steps_back(const struct rs_probe_watch *watch, struct rs_run_alarm *alarm)
{
    alarm->since_ns = instant_of(watch, alarm->ranks.count ? alarm->ranks.suspects[0].first_step
                                                           : alarm->steps.first_step);
    alarm->steps.first_step = alarm->steps.last_step = -1;
    for (size_t i = 0; i < alarm->ranks.count; i++)
        alarm->ranks.suspects[i].first_step = alarm->ranks.suspects[i].last_step = -1;
}

static enum rs_status add_peers(struct rs_run_watch *rule, const struct rs_rank_peer *members,
                                size_t count)
{
    if (rs_mem_grow((void **)&rule->peers, &rule->peer_capacity, count + 1, sizeof *rule->peers) <
        0)
        return RS_NOMEM;
    if (count)
        memcpy(rule->peers, members, count * sizeof *members);
    rule->peer_count = count;
    return RS_OK;
}

/* For how long, while as much was made as the rules are told, ranks had no core; as it was from before the probe on. */
static rs_dur delay_of(const struct rs_probe_watch *watch, rs_dur length, rs_ns now)
{
    const rs_dur delay = watch->delay_ns - watch->begun_delay_ns;
    const rs_dur whole = now - watch->begun_at;
    return delay > 0 && whole > 0 ? (rs_dur)((double)length * (double)delay / (double)whole) : 0;
}

bool rs_probe_watch_take(struct rs_probe_watch *watch, const struct rs_probe_rules *rules,
                         const struct rs_probe_told *told, rs_ns now, double above,
                         struct rs_run_alarm *alarm_p)
{
    struct rs_run_watch *rule = &watch->rule;
    const rs_dur step_ns = step_of(watch, told->figures, told->count);
    if (!step_ns || add_peers(rule, watch->members, watch->member_count) < 0) {
        rs_probe_watch_failed(watch, rules, told->disturbed_ns, now);
        return false;
    }
    if (!watch->read_count)
        begin_rules(watch);
    watch->failures = 0;
    watch->instants[watch->read_count % RS_PROBE_WATCH_INSTANTS] = watch->begun_ns;
    watch->read_count++;
    const struct rs_step_look last = rule->steps.last;
    const rs_dur length = RS_PROBE_WATCH_STEPS * step_ns;
    const struct rs_step_look look = {.step = (int64_t)watch->read_count * RS_PROBE_WATCH_STEPS,
                                      .at = last.at + length,
                                      .step_ns = step_ns,
                                      .delay_ns = last.delay_ns + delay_of(watch, length, now),
                                      .stepping = watch->rank_count};
    tell_ranks(watch, told->figures, told->count, look.step);
    const bool is_alarm = rs_run_watch_judge(rule, &look, above, alarm_p);
    if (is_alarm)
        take_steps_back(watch, alarm_p);
    const bool is_in_doubt = rule->steps.doubt_count > 0 || rs_rank_watch_is_in_doubt(&rule->ranks);
    plan_next(watch, rules, is_in_doubt ? rules->every_ns / SOONER : rules->every_ns,
              told->disturbed_ns, now);
    return is_alarm;
}

void rs_probe_watch_fini(struct rs_probe_watch *watch)
{
    rs_run_watch_fini(&watch->rule);
    rs_mem_free(watch->members);
    *watch = (struct rs_probe_watch){.members = NULL};
}
