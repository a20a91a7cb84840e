/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From elements to findings, by replay.
 *
 *   worth?      left = T(all but e) - T(all), alone = T - T(e): below 1 % of a step in both is not worth fixing
 *   sets        ranks of one class hold the same groups up, and links of one panel carry the same work: one set, however
 *               many they are, dearest first, cut where it explains 80 %; all ranks of a host over several classes are one set
 *   order       the set that brings most after those already taken; if none brings 1 % alone, the pair of sets
 *               that does (one behind the other). cost = T(taken) - T(taken + set): the costs add up
 *   interval    factor -+ 2 standard errors; INTERVAL_STEPS of the gain over steps; error of the model
 *
 * A lasting trouble is charged from the end of the first step (what the step before the recording would have
 * gained is not seen), an intermittent one over all steps.
 */
#include "aggregator/analysis/diagnose/diagnose_priv.h"
#include "common/base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of a class the dearest are asked whether they bring a good part of it alone: where its ranks hold the same groups up that can only
 * be one that is dearer than the others. */
enum { SINGLES_TRIED = 64 };

struct decider {
    const struct diag_model *model;
    const struct diag_effects *effects;
    struct diag_verdict *verdict;
    rs_dur *taken; /* work with everything fixed that was taken so far */
    rs_dur *work;  /* of one trial */
    rs_dur *more_work;
    rs_ns *times;
    rs_ns *base_ends;  /* of the run as it was */
    rs_ns *taken_ends; /* of `taken` */
    rs_ns *ends;       /* of the last trial */
    rs_ns *more_ends;
    rs_dur *alone, *left; /* [element] per step */
    uint8_t *is_taken;    /* [element] */
    uint8_t *is_worth;    /* [element] */
    size_t *
        members; /* of the candidates of one round, two times all elements: of its class, and of its host */
    size_t *both; /* scratch for two sets */
    double step_ns;
};

static void replay(const struct decider *decider, const rs_dur *work, rs_ns *ends)
{
    graph_replay(&decider->model->graph, work, decider->times);
    diag_step_ends(decider->model, decider->times, ends);
}

static bool is_lasting(const struct diag_element *element)
{
    return element->by_step == NULL && element->what != DIAG_JITTER;
}

/* What is gained per step between two replays. */
static rs_dur gain(const struct decider *decider, const rs_ns *before, const rs_ns *after,
                   bool lasting)
{
    const size_t steps = decider->model->step_count;
    const rs_dur all = before[steps - 1] - after[steps - 1];
    if (!lasting || steps < 2 || decider->model->steps_are_separate) {
        return all / (rs_dur)steps;
    }
    return (all - (before[0] - after[0])) / (rs_dur)(steps - 1);
}

static void start_from(const struct decider *decider, const rs_dur *work)
{
    memcpy(decider->work, work, decider->model->graph.count * sizeof *work);
}

static bool set_is_lasting(const struct decider *decider, const size_t *members, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (is_lasting(&decider->effects->elements[members[i]])) {
            return true;
        }
    }
    return false;
}

/* Gain of fixing these after what was taken; leaves the trial's ends in `ends`. */
static rs_dur gain_of(const struct decider *decider, const size_t *members, size_t count,
                      double shift)
{
    start_from(decider, decider->taken);
    for (size_t i = 0; i < count; i++) {
        diag_apply(decider->model, &decider->effects->elements[members[i]], shift, decider->work);
    }
    replay(decider, decider->work, decider->ends);
    return gain(decider, decider->taken_ends, decider->ends,
                set_is_lasting(decider, members, count));
}

/* ---- what is worth fixing ---------------------------------------------------------------- */

static void judge_worth(struct decider *decider)
{
    const struct diag_effects *effects = decider->effects;
    const double limit = DIAG_WORTH_SHARE * decider->step_ns / 2;
    start_from(decider, decider->model->graph.work);
    for (size_t i = 0; i < effects->count; i++) {
        diag_apply(decider->model, &effects->elements[i], 0, decider->work);
    }
    replay(decider, decider->work, decider->more_ends);
    for (size_t e = 0; e < effects->count; e++) {
        start_from(decider, decider->model->graph.work);
        for (size_t i = 0; i < effects->count; i++) {
            if (i != e) {
                diag_apply(decider->model, &effects->elements[i], 0, decider->work);
            }
        }
        replay(decider, decider->work, decider->ends);
        const bool lasting = is_lasting(&effects->elements[e]);
        decider->left[e] = gain(decider, decider->ends, decider->more_ends, lasting);
        decider->alone[e] = gain_of(decider, &e, 1, 0);
        decider->is_worth[e] =
            (double)decider->left[e] >= limit || (double)decider->alone[e] >= limit;
    }
}

static void judge_close(struct decider *decider)
{
    if (!decider->effects->has_close) {
        return;
    }
    start_from(decider, decider->model->graph.work);
    diag_apply(decider->model, &decider->effects->close, 0, decider->work);
    replay(decider, decider->work, decider->ends);
    decider->verdict->close_gain = gain(decider, decider->base_ends, decider->ends, true);
}

/* ---- sets ---------------------------------------------------------------------------------- */

/* Links of one panel stand side by side, as ranks of a class do: they are numbered behind the classes. */
static uint32_t class_of(const struct decider *decider, size_t e)
{
    const struct diag_element *element = &decider->effects->elements[e];
    if (element->what == DIAG_UNIT) {
        return (uint32_t)decider->model->class_count + decider->model->units[element->id].panel;
    }
    return element->what == DIAG_RANK || element->what == DIAG_HEAD || element->what == DIAG_IDLE
               ? decider->model->workers[element->id].class_id
               : GRAPH_NONE;
}

static rs_dur dearness(const struct decider *decider, size_t e)
{
    return decider->left[e] > decider->alone[e] ? decider->left[e] : decider->alone[e];
}

/* Open elements of the class, dearest first. */
static size_t open_of_class(const struct decider *decider, uint32_t class_id, size_t *members)
{
    size_t count = 0;
    for (size_t e = 0; e < decider->effects->count; e++) {
        if (decider->is_taken[e] || !decider->is_worth[e] || class_of(decider, e) != class_id) {
            continue;
        }
        size_t at = count++;
        while (at > 0 && dearness(decider, members[at - 1]) < dearness(decider, e)) {
            members[at] = members[at - 1];
            at--;
        }
        members[at] = e;
    }
    return count;
}

static struct diag_set set_of_one(const struct decider *decider, size_t *member)
{
    return (struct diag_set){.members = member, .count = 1, .cost = gain_of(decider, member, 1, 0)};
}

/* The class's set; a member that alone brings a good part of it is fixed first, alone. The more are fixed, the more is won, so how many
 * suffice is found by halving. */
static struct diag_set set_of_class(const struct decider *decider, uint32_t class_id,
                                    size_t *members)
{
    const size_t all = open_of_class(decider, class_id, members);
    if (all == 0) {
        return (struct diag_set){0};
    }
    const rs_dur most = gain_of(decider, members, all, 0);
    size_t best = 0;
    rs_dur brings = 0;
    for (size_t i = 0; i < all && i < SINGLES_TRIED; i++) {
        const rs_dur own = gain_of(decider, members + i, 1, 0);
        best = i == 0 || own > brings ? i : best;
        brings = i == 0 || own > brings ? own : brings;
    }
    const double worth = DIAG_WORTH_SHARE * decider->step_ns;
    if ((double)brings >= worth && (double)brings >= DIAG_SINGLE_PART * (double)most) {
        members[0] = members[best];
        return (struct diag_set){.members = members, .count = 1, .cost = brings};
    }
    struct diag_set set = {.members = members, .count = all, .cost = most};
    /* so many may suffice, set.count do; the links of a host stay together */
    size_t low = decider->effects->elements[members[0]].is_of_host ? all : 1;
    while (low < set.count) {
        const size_t middle = low + (set.count - low) / 2;
        brings = gain_of(decider, members, middle, 0);
        if ((double)brings >= DIAG_SET_SHARE * (double)most) {
            set.count = middle;
            set.cost = brings;
        } else {
            low = middle + 1;
        }
    }
    return set;
}

/* All ranks of a host that spans two classes or more, if each of them is slow. */
static struct diag_set set_of_host(const struct decider *decider, int32_t host, size_t *members)
{
    const struct diag_model *model = decider->model;
    struct diag_set set = {.members = members};
    uint32_t class_id = GRAPH_NONE;
    bool has_several = false;
    size_t others = 0;
    for (size_t w = 0; w < model->worker_count; w++) {
        size_t found = SIZE_MAX;
        if (model->workers[w].host != host) {
            others++;
            continue;
        }
        for (size_t e = 0; e < decider->effects->count; e++) {
            const struct diag_element *element = &decider->effects->elements[e];
            if (element->what == DIAG_RANK && element->id == w && !decider->is_taken[e]) {
                found = e;
            }
        }
        if (found == SIZE_MAX) {
            return (struct diag_set){0};
        }
        has_several =
            has_several || (class_id != GRAPH_NONE && class_id != model->workers[w].class_id);
        class_id = model->workers[w].class_id;
        members[set.count++] = found;
    }
    if (!has_several || set.count < 2 || others == 0) {
        return (struct diag_set){0};
    }
    set.kind = RS_FINDING_SLOW_HOST;
    set.cost = gain_of(decider, members, set.count, 0);
    return set;
}

/* ---- order of fixing ------------------------------------------------------------------------- */

struct candidates {
    struct diag_set *items;
    size_t count, capacity;
};

static enum rs_status candidate_add(struct candidates *list, const struct diag_set *set)
{
    if (set->count == 0) {
        return RS_OK;
    }
    if (rs_mem_grow((void **)&list->items, &list->capacity, list->count + 1, sizeof *list->items) !=
        RS_OK) {
        return RS_NOMEM;
    }
    list->items[list->count++] = *set;
    return RS_OK;
}

static enum rs_status add_hosts(const struct decider *decider, size_t *members,
                                struct candidates *list)
{
    int32_t hosts = -1;
    for (size_t w = 0; w < decider->model->worker_count; w++) {
        const int32_t host = decider->model->workers[w].host;
        hosts = host > hosts ? host : hosts;
    }
    for (int32_t h = 0; h <= hosts; h++) {
        const struct diag_set set = set_of_host(decider, h, members);
        members += set.count;
        if (candidate_add(list, &set) != RS_OK) {
            return RS_NOMEM;
        }
    }
    return RS_OK;
}

static enum rs_status find_candidates(const struct decider *decider, struct candidates *list)
{
    const struct diag_effects *effects = decider->effects;
    size_t *members = decider->members;
    list->count = 0;
    for (size_t e = 0; e < effects->count; e++) {
        if (decider->is_taken[e] || !decider->is_worth[e]) {
            continue;
        }
        const uint32_t class_id = class_of(decider, e);
        bool is_first = true;
        for (size_t b = 0; b < e && class_id != GRAPH_NONE; b++) {
            is_first = is_first && (decider->is_taken[b] || !decider->is_worth[b] ||
                                    class_of(decider, b) != class_id);
        }
        if (!is_first) {
            continue;
        }
        members[0] = e;
        const struct diag_set set = class_id == GRAPH_NONE
                                        ? set_of_one(decider, members)
                                        : set_of_class(decider, class_id, members);
        members += set.count;
        if (candidate_add(list, &set) != RS_OK) {
            return RS_NOMEM;
        }
    }
    return add_hosts(decider, members, list);
}

static int by_cost(const void *left, const void *right)
{
    const struct diag_set *a = left, *b = right;
    if ((a->kind == RS_FINDING_SLOW_HOST) != (b->kind == RS_FINDING_SLOW_HOST)) {
        return a->kind == RS_FINDING_SLOW_HOST ? -1 : 1;
    }
    if (a->cost != b->cost) {
        return a->cost < b->cost ? 1 : -1;
    }
    return (a->members[0] > b->members[0]) - (a->members[0] < b->members[0]);
}

static enum rs_finding_kind kind_of(const struct decider *decider, const struct diag_set *set)
{
    const struct diag_element *element = &decider->effects->elements[set->members[0]];
    if (set->kind == RS_FINDING_SLOW_HOST) {
        return set->kind;
    }
    switch (element->what) {
    case DIAG_RANK:
        return RS_FINDING_SLOW_RANK;
    case DIAG_HEAD:
    case DIAG_IDLE:
        return element->input - element->healthy_input >= (element->own - element->healthy) / 2
                   ? RS_FINDING_DATA_STALL
                   : RS_FINDING_HOST_GAP;
    case DIAG_STAGE:
        return diag_is_stage(decider->model, element->id) ? RS_FINDING_SLOW_STAGE
                                                          : RS_FINDING_SLOW_RANK;
    case DIAG_UNIT:
        return decider->model->units[element->id].a >= 0 ? RS_FINDING_SLOW_LINK
                                                         : RS_FINDING_SLOW_GROUP;
    case DIAG_HEAVIER:
    case DIAG_LOADED:
    case DIAG_SPREAD:
        return RS_FINDING_IMBALANCE;
    case DIAG_JITTER:
        return RS_FINDING_JITTER;
    }
    return RS_FINDING_SLOW_RANK;
}

/* What the gain of a step differs by from step to step, for the mean over the steps that are charged. Most of it is not in doubt: the steps
 * did differ, and the replay has their own work. */
static double step_error(const struct decider *decider, bool lasting)
{
    const size_t steps = decider->model->step_count;
    const size_t first = lasting && steps > 1 && !decider->model->steps_are_separate ? 1 : 0;
    double sum = 0, squares = 0;
    const double n = (double)(steps - first);
    for (size_t k = first; k < steps; k++) {
        const rs_ns before = decider->taken_ends[k] - (k > 0 ? decider->taken_ends[k - 1] : 0);
        const rs_ns after = decider->ends[k] - (k > 0 ? decider->ends[k - 1] : 0);
        const double own = (double)(before - after);
        sum += own;
        squares += own * own;
    }
    if (n < 2) {
        return 0;
    }
    const double variance = (squares - sum * sum / n) / (n - 1);
    return DIAG_INTERVAL_STEPS * sqrt((variance > 0 ? variance : 0) / n);
}

/* What the replay does not know: ranks that share cores pace each other, and delays would not stay as they were. */
static double model_error(const struct decider *decider, rs_dur cost)
{
    double part = DIAG_MODEL_ERROR_COST;
    if (diag_may_share_cores(decider->model)) {
        part = fmax(DIAG_HOST_ERROR_COST, decider->verdict->unexplained_share);
    }
    return part * (double)cost + DIAG_MODEL_ERROR_STEP * decider->step_ns;
}

/* What the set's ranks have in excess of their peers, per step: no more can be gained. HUGE_VAL: not known. */
static double excess_of(const struct decider *decider, const struct diag_set *set)
{
    double sum = 0;
    for (size_t i = 0; i < set->count; i++) {
        const struct diag_element *element = &decider->effects->elements[set->members[i]];
        if (element->what != DIAG_RANK && element->what != DIAG_HEAD &&
            element->what != DIAG_IDLE) {
            return HUGE_VAL;
        }
        const double steps = (double)decider->model->step_count;
        const double part = element->by_step != NULL ? (double)element->hits / steps : 1;
        sum += fmax(0, element->own - element->healthy) * part;
    }
    return set->count > 0 ? sum : HUGE_VAL;
}

/* At each of its operations a rank may have come by so much later, or earlier, than its clock says. */
static void widen_by_clocks(const struct decider *decider, struct diag_set *set)
{
    const double doubt = (double)decider->model->clock_bound * decider->model->meetings;
    set->clock_doubt = (rs_dur)llround(doubt);
    if (doubt <= DIAG_CLOCK_DOUBT * (double)set->cost) {
        return; /* bounds are of the worst case: where they are small costs were right without */
    }
    const double most = fmin((double)set->high + doubt, excess_of(decider, set));
    set->high = most > (double)set->high ? (rs_dur)llround(most) : set->high;
    set->low = set->low > set->clock_doubt ? set->low - set->clock_doubt : 0;
}

/* What the transfers of the set's links take in excess of their equals, per step. HUGE_VAL: it has other members, too. */
static double excess_of_links(const struct decider *decider, const struct diag_set *set)
{
    const struct diag_model *model = decider->model;
    double sum = 0;
    for (size_t i = 0; i < set->count; i++) {
        const struct diag_element *element = &decider->effects->elements[set->members[i]];
        if (element->what != DIAG_UNIT) {
            return HUGE_VAL;
        }
        for (size_t k = model->move_first[element->id]; k < model->move_first[element->id + 1];
             k++) {
            const bool is_meant =
                element->way == 0 || model->moves[k].is_back == (element->way < 0);
            sum += is_meant ? fmax(0, element->own - element->healthy) : 0;
        }
    }
    return sum / (double)model->step_count;
}

/* What the set's stages have in excess of the others, per step. HUGE_VAL: it has other members, too. */
static double excess_of_stages(const struct decider *decider, const struct diag_set *set)
{
    double sum = 0;
    for (size_t i = 0; i < set->count; i++) {
        const struct diag_element *element = &decider->effects->elements[set->members[i]];
        if (element->what != DIAG_STAGE) {
            return HUGE_VAL;
        }
        sum += fmax(0, element->own - element->healthy);
    }
    return set->count > 0 ? sum : HUGE_VAL;
}

/* Where rows were lost, a gain may end at a wait that nobody can tell any more: it may be as much as ranks, stages or links have in
 * excess. */
static void widen_by_lost_rows(const struct decider *decider, struct diag_set *set)
{
    const double excess = fmin(excess_of(decider, set),
                               fmin(excess_of_stages(decider, set), excess_of_links(decider, set)));
    if (decider->model->has_lost_rows && excess < HUGE_VAL && excess > (double)set->high) {
        set->high = (rs_dur)llround(excess);
    }
}

static void set_interval(const struct decider *decider, struct diag_set *set)
{
    const bool lasting = set_is_lasting(decider, set->members, set->count);
    const rs_dur low = gain_of(decider, set->members, set->count, -2);
    const rs_dur high = gain_of(decider, set->members, set->count, 2);
    (void)gain_of(decider, set->members, set->count, 0);
    const double by_steps = lasting ? step_error(decider, lasting) : 0;
    const double by_model = model_error(decider, set->cost);
    const double below = (double)(set->cost - low), above = (double)(high - set->cost);
    const double down = sqrt(below * below + by_steps * by_steps) + by_model;
    const double up = sqrt(above * above + by_steps * by_steps) + by_model;
    set->low = (rs_dur)llround((double)set->cost - down);
    set->high = (rs_dur)llround((double)set->cost + up);
    set->low = set->low > 0 ? set->low : 0;
    widen_by_clocks(decider, set);
    widen_by_lost_rows(decider, set);
}

/* alone and left of the whole set, against the run as it was. */
static void set_sides(struct decider *decider, struct diag_set *set)
{
    const bool lasting = set_is_lasting(decider, set->members, set->count);
    start_from(decider, decider->model->graph.work);
    for (size_t i = 0; i < set->count; i++) {
        diag_apply(decider->model, &decider->effects->elements[set->members[i]], 0, decider->work);
    }
    replay(decider, decider->work, decider->ends);
    set->alone = gain(decider, decider->base_ends, decider->ends, lasting);
    start_from(decider, decider->model->graph.work);
    for (size_t e = 0; e < decider->effects->count; e++) {
        bool is_member = false;
        for (size_t i = 0; i < set->count; i++) {
            is_member = is_member || set->members[i] == e;
        }
        if (!is_member) {
            diag_apply(decider->model, &decider->effects->elements[e], 0, decider->work);
        }
    }
    replay(decider, decider->work, decider->ends);
    set->left = gain(decider, decider->ends, decider->more_ends, lasting);
}

static enum rs_status verdict_add(struct decider *decider, const struct diag_set *set)
{
    struct diag_verdict *verdict = decider->verdict;
    if (rs_mem_grow((void **)&verdict->sets, &verdict->capacity, verdict->count + 1,
                    sizeof *verdict->sets) != RS_OK) {
        return RS_NOMEM;
    }
    struct diag_set *own = &verdict->sets[verdict->count++];
    *own = *set;
    own->members = verdict->members + verdict->member_count;
    for (size_t i = 0; i < set->count; i++) {
        verdict->members[verdict->member_count++] = set->members[i];
    }
    return RS_OK;
}

static enum rs_status take(struct decider *decider, struct diag_set *set)
{
    set->cost = gain_of(decider, set->members, set->count, 0);
    set->kind = kind_of(decider, set);
    set->is_worth = true;
    set_interval(decider, set);
    set_sides(decider, set);
    for (size_t i = 0; i < set->count; i++) {
        diag_apply(decider->model, &decider->effects->elements[set->members[i]], 0, decider->taken);
        decider->is_taken[set->members[i]] = 1;
    }
    replay(decider, decider->taken, decider->taken_ends);
    decider->verdict->worth_count++;
    return verdict_add(decider, set);
}

/* One behind the other: neither brings anything alone. */
static bool find_pair(const struct decider *decider, const struct candidates *list, size_t *a_p,
                      size_t *b_p)
{
    const size_t most =
        list->count < (size_t)DIAG_SETS_PAIRED ? list->count : (size_t)DIAG_SETS_PAIRED;
    rs_dur best = (rs_dur)(DIAG_WORTH_SHARE * decider->step_ns) - 1;
    bool found = false;
    size_t *members = decider->both;
    for (size_t a = 0; a < most; a++) {
        for (size_t b = a + 1; b < most; b++) {
            const struct diag_set *one = &list->items[a], *two = &list->items[b];
            memcpy(members, one->members, one->count * sizeof *members);
            memcpy(members + one->count, two->members, two->count * sizeof *members);
            const rs_dur brings = gain_of(decider, members, one->count + two->count, 0);
            if (brings > best) {
                best = brings;
                *a_p = a;
                *b_p = b;
                found = true;
            }
        }
    }
    return found;
}

static enum rs_status order_sets(struct decider *decider)
{
    const double worth = DIAG_WORTH_SHARE * decider->step_ns;
    struct candidates list = {0};
    enum rs_status status = RS_OK;
    for (bool goes_on = true; goes_on && status == RS_OK;) {
        goes_on = false;
        status = find_candidates(decider, &list);
        if (status != RS_OK || list.count == 0) {
            break;
        }
        qsort(list.items, list.count, sizeof *list.items, by_cost);
        size_t a = 0, b = 0;
        if ((double)list.items[0].cost >= worth && list.items[0].cost > 0) {
            status = take(decider, &list.items[0]);
            goes_on = true;
        } else if (find_pair(decider, &list, &a, &b)) {
            status = take(decider, &list.items[a]);
            if (status == RS_OK) {
                status = take(decider, &list.items[b]);
            }
            goes_on = true;
        }
    }
    rs_mem_free(list.items);
    return status;
}

/* ---- what is common to many: loads, spread, heavier stages and jitter, after the named ones ------------ */

static rs_dur gain_of_common(struct decider *decider, const struct diag_element *element)
{
    start_from(decider, decider->taken);
    diag_apply(decider->model, element, 0, decider->work);
    replay(decider, decider->work, decider->ends);
    return gain(decider, decider->taken_ends, decider->ends, is_lasting(element));
}

/* A rank of a stage with more to do. */
struct heavy {
    double effect;
    uint32_t class_id, worker;
};

/* Largest first; those of a stage stay together. */
static int by_effect(const void *left, const void *right)
{
    const struct heavy *a = left, *b = right;
    if (a->effect < b->effect || a->effect > b->effect) {
        return a->effect < b->effect ? 1 : -1;
    }
    if (a->class_id != b->class_id) {
        return a->class_id > b->class_id ? 1 : -1;
    }
    return (a->worker > b->worker) - (a->worker < b->worker);
}

/* Most stages have a kernel more than another; those are meant that the others wait for. The more stages, the more is won, so how many
 * suffice is found by halving. */
static enum rs_status narrow_heavier(struct decider *decider, struct diag_element *heavier)
{
    const size_t all = heavier->among_count;
    struct heavy *ranks = rs_mem_calloc(all + 1, sizeof *ranks);
    size_t *ends = rs_mem_calloc(all + 1, sizeof *ends); /* ranks of the first n + 1 stages */
    size_t stages = 0;
    if (ranks == NULL || ends == NULL) {
        rs_mem_free(ranks);
        rs_mem_free(ends);
        return RS_NOMEM;
    }
    const double enough = all > 0 ? DIAG_SET_SHARE * (double)gain_of_common(decider, heavier) : 0;
    for (size_t i = 0; i < all; i++) {
        const uint32_t worker = heavier->among[i];
        ranks[i] = (struct heavy){heavier->among_effects[i],
                                  decider->model->workers[worker].class_id, worker};
    }
    if (all > 1) {
        qsort(ranks, all, sizeof *ranks, by_effect);
    }
    for (size_t i = 0; i < all; i++) {
        heavier->among[i] = ranks[i].worker;
        heavier->among_effects[i] = ranks[i].effect;
        if (i + 1 == all || ranks[i].class_id != ranks[i + 1].class_id) {
            ends[stages++] = i + 1;
        }
    }
    size_t low = 0, high = stages > 0 ? stages - 1 : 0; /* all of them suffice */
    while (low < high) {
        const size_t middle = (low + high) / 2;
        heavier->among_count = ends[middle];
        if ((double)gain_of_common(decider, heavier) >= enough) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    heavier->among_count = stages > 0 ? ends[low] : 0;
    rs_mem_free(ranks);
    rs_mem_free(ends);
    return RS_OK;
}

static rs_dur gain_of_sharing(const struct decider *decider)
{
    memcpy(decider->more_work, decider->taken,
           decider->model->graph.count * sizeof *decider->taken);
    diag_stages_share(decider->model, decider->more_work);
    replay(decider, decider->more_work, decider->more_ends);
    return gain(decider, decider->taken_ends, decider->more_ends, true);
}

static enum rs_status take_common(struct decider *decider, const struct diag_element *element)
{
    if (element->among_count == 0) {
        return RS_OK;
    }
    const rs_dur cost = gain_of_common(decider, element);
    struct diag_set set = {.is_spread = element->what == DIAG_SPREAD,
                           .is_heavier = element->what == DIAG_HEAVIER,
                           .is_loaded = element->what == DIAG_LOADED,
                           .is_jitter = element->what == DIAG_JITTER,
                           .cost = cost};
    set.kind = set.is_jitter ? RS_FINDING_JITTER : RS_FINDING_IMBALANCE;
    if ((double)set.cost < DIAG_WORTH_SHARE * decider->step_ns) {
        return RS_OK;
    }
    if (set.is_heavier) {
        set.rebalanced = gain_of_sharing(decider);
    }
    if (set.is_heavier && (double)set.rebalanced < DIAG_WORTH_SHARE * decider->step_ns) {
        /* What there is to do has to be done by somebody, and nobody has much less of it. */
        set.cost = set.alone = set.left = set.rebalanced > 0 ? set.rebalanced : 0;
        return verdict_add(decider, &set);
    }
    const double error = model_error(decider, set.cost) + step_error(decider, is_lasting(element));
    set.alone = set.left = set.cost;
    set.low = set.cost - (rs_dur)llround(error) > 0 ? set.cost - (rs_dur)llround(error) : 0;
    set.high = set.cost + (rs_dur)llround(error);
    widen_by_clocks(decider, &set);
    set.is_worth = true;
    memcpy(decider->taken, decider->work, decider->model->graph.count * sizeof *decider->taken);
    memcpy(decider->taken_ends, decider->ends,
           decider->model->step_count * sizeof *decider->taken_ends);
    decider->verdict->worth_count++;
    return verdict_add(decider, &set);
}

static enum rs_status list_rest(struct decider *decider)
{
    for (size_t e = 0; e < decider->effects->count; e++) {
        if (decider->is_taken[e]) {
            continue;
        }
        struct diag_set set = {.members = &e,
                               .count = 1,
                               .alone = decider->alone[e],
                               .left = decider->left[e],
                               .cost = decider->alone[e]};
        set.kind = kind_of(decider, &set);
        if (verdict_add(decider, &set) != RS_OK) {
            return RS_NOMEM;
        }
    }
    return RS_OK;
}

/* ---- loss, and how well the graph explains the run ------------------------------------------- */

static enum rs_status find_loss(struct decider *decider)
{
    struct diag_verdict *verdict = decider->verdict;
    const struct diag_model *model = decider->model;
    start_from(decider, model->graph.work);
    const enum rs_status status = diag_ideal(model, decider->effects, decider->work);
    if (status != RS_OK) {
        return status;
    }
    replay(decider, decider->work, decider->ends);
    verdict->step_ns = (rs_dur)llround(decider->step_ns);
    const rs_dur saved = gain(decider, decider->base_ends, decider->ends, true);
    verdict->ideal_ns = verdict->step_ns - (saved > 0 ? saved : 0);
    /* Where everything is as on the peers some become slower, too: never less is to be won than by the best single thing. */
    for (size_t i = 0; i < verdict->count; i++) {
        const rs_dur left = verdict->step_ns - verdict->sets[i].cost;
        verdict->ideal_ns = left < verdict->ideal_ns ? left : verdict->ideal_ns;
    }
    return RS_OK;
}

/* Walks the critical path back from the end and sums its delays. */
static double unexplained(const struct decider *decider, const rs_ns *times)
{
    const struct graph *graph = &decider->model->graph;
    uint32_t node = GRAPH_NONE;
    double delays = 0;
    for (size_t n = 0; n < graph->count; n++) {
        if (graph->step[n] < decider->model->step_count &&
            (node == GRAPH_NONE || times[n] > times[node])) {
            node = (uint32_t)n;
        }
    }
    while (node != GRAPH_NONE && graph->first[node] < graph->first[node + 1]) {
        uint32_t latest = graph->preds[graph->first[node]];
        for (uint32_t i = graph->first[node]; i < graph->first[node + 1]; i++) {
            latest = times[graph->preds[i]] > times[latest] ? graph->preds[i] : latest;
        }
        delays += (double)graph->delay[node];
        node = latest;
    }
    const double length = decider->step_ns * (double)decider->model->step_count;
    return length > 0 ? delays / length : 0;
}

static void check_replay(struct decider *decider)
{
    const struct diag_model *model = decider->model;
    rs_ns *seen = decider->ends;
    diag_step_ends(model, model->graph.seen, seen);
    graph_replay(&model->graph, NULL, decider->times);
    diag_step_ends(model, decider->times, decider->base_ends);
    const size_t last = model->step_count - 1;
    const double length = (double)(seen[last] - diag_start(model));
    const double error = fabs((double)(decider->base_ends[last] - seen[last]));
    decider->verdict->error_share = length > 0 ? error / length : 0;
    decider->step_ns = length / (double)model->step_count;
    decider->verdict->unexplained_share =
        model->steps_are_separate ? 0 : unexplained(decider, decider->times);
    memcpy(decider->taken_ends, decider->base_ends, model->step_count * sizeof *seen);
    memcpy(decider->taken, model->graph.work, model->graph.count * sizeof *decider->taken);
}

static void decider_fini(struct decider *decider)
{
    rs_mem_free(decider->taken);
    rs_mem_free(decider->work);
    rs_mem_free(decider->more_work);
    rs_mem_free(decider->times);
    rs_mem_free(decider->base_ends);
    rs_mem_free(decider->taken_ends);
    rs_mem_free(decider->ends);
    rs_mem_free(decider->more_ends);
    rs_mem_free(decider->alone);
    rs_mem_free(decider->left);
    rs_mem_free(decider->is_taken);
    rs_mem_free(decider->is_worth);
    rs_mem_free(decider->members);
    rs_mem_free(decider->both);
}

static bool decider_init(struct decider *decider)
{
    const size_t nodes = decider->model->graph.count + 1;
    const size_t steps = decider->model->step_count + 1, count = decider->effects->count + 1;
    decider->taken = rs_mem_calloc(nodes, sizeof *decider->taken);
    decider->work = rs_mem_calloc(nodes, sizeof *decider->work);
    decider->more_work = rs_mem_calloc(nodes, sizeof *decider->more_work);
    decider->times = rs_mem_calloc(nodes, sizeof *decider->times);
    decider->base_ends = rs_mem_calloc(steps, sizeof *decider->base_ends);
    decider->taken_ends = rs_mem_calloc(steps, sizeof *decider->taken_ends);
    decider->ends = rs_mem_calloc(steps, sizeof *decider->ends);
    decider->more_ends = rs_mem_calloc(steps, sizeof *decider->more_ends);
    decider->alone = rs_mem_calloc(count, sizeof *decider->alone);
    decider->left = rs_mem_calloc(count, sizeof *decider->left);
    decider->is_taken = rs_mem_calloc(count, 1);
    decider->is_worth = rs_mem_calloc(count, 1);
    decider->members = rs_mem_calloc(2 * count, sizeof *decider->members);
    decider->both = rs_mem_calloc(2 * count, sizeof *decider->both);
    /* Of two sets that are taken as a pair one may be a host's and the other its class's. */
    decider->verdict->members = rs_mem_calloc(2 * count, sizeof *decider->verdict->members);
    return decider->taken != NULL && decider->work != NULL && decider->more_work != NULL &&
           decider->times != NULL && decider->base_ends != NULL && decider->taken_ends != NULL &&
           decider->ends != NULL && decider->more_ends != NULL && decider->alone != NULL &&
           decider->left != NULL && decider->is_taken != NULL && decider->is_worth != NULL &&
           decider->members != NULL && decider->both != NULL && decider->verdict->members != NULL;
}

void diag_verdict_fini(struct diag_verdict *verdict)
{
    rs_mem_free(verdict->sets);
    rs_mem_free(verdict->members);
    *verdict = (struct diag_verdict){0};
}

enum rs_status diag_decide(const struct diag_model *model, struct diag_effects *effects,
                           struct diag_verdict *verdict)
{
    struct decider decider = {.model = model, .effects = effects, .verdict = verdict};
    *verdict = (struct diag_verdict){0};
    enum rs_status status = decider_init(&decider) ? RS_OK : RS_NOMEM;
    if (status == RS_OK) {
        check_replay(&decider);
        judge_worth(&decider);
        judge_close(&decider);
        status = order_sets(&decider);
    }
    if (status == RS_OK) {
        status = take_common(&decider, &effects->loaded);
    }
    if (status == RS_OK) {
        status = take_common(&decider, &effects->jitter);
    }
    if (status == RS_OK) {
        status = take_common(&decider, &effects->spread);
    }
    if (status == RS_OK) {
        status = narrow_heavier(&decider, &effects->heavier);
    }
    if (status == RS_OK) {
        status = take_common(&decider, &effects->heavier);
    }
    if (status == RS_OK) {
        status = list_rest(&decider);
    }
    if (status == RS_OK) {
        status = find_loss(&decider);
    }
    decider_fini(&decider);
    if (status != RS_OK) {
        diag_verdict_fini(verdict);
    }
    return status;
}
