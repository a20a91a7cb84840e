/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two sequences of operations of one communicator, recorded by different ranks: which belong together?
 *
 * Both hold them in the order of the calls; rows may be missing on either side, and recordings may begin and end anywhere.
 *
 *      a   . A0 A1 A2 A3    A5
 *      b         b0    b2   b3
 *
 * With a clock (one host, or clocks that were aligned): a row may pair with those of its kind that end near it and are feasible (nobody
 * ends before a start it needs). Of all pairings that keep the order the one with most pairs is taken, and of those the one whose
 * ends lie closest: a pair counts between 1 and 2, by how close its ends are. How near is near is learned from the rows
 * themselves (ends agree to microseconds on NCCL, to milliseconds on gloo), unless the caller says it.
 *
 * Without a clock, or between hosts' sends and receives, whose ends say nothing: an index shift, searched where it stops fitting:
 *
 *  1. At the start, and wherever the shift stops fitting, candidates near in time (on one clock), or
 *     near in position (without one), are tried: how many pairs on end fit, up to 64?
 *  2. A candidate counts when it holds nearly as long as the best; of those that count, the one with the least
 *     mean distance of ends wins, then the least shift. So feasibility comes first and end spread only ranks.
 *  3. As long as pairs fit, the shift is kept. What fits nowhere stays unmatched.
 *  4. Without a clock only steps of which neither side lacks a row count: one that is missing moves all behind it. Where steps
 *     have no numbers: recordings that differ at their ends alone (align_shift.c).
 *
 * Linear in the number of operations, but for logarithms and searches that are bounded.
 */
#include "aggregator/analysis/analysis_priv.h"
#include "common/base/mem.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { LOOK_AHEAD = 64, WINDOW_NEAR = 16, WINDOW_BLIND = 32 };

struct aligner {
    const struct align_item *a, *b;
    size_t a_count, b_count;
    const struct align_rules *rules;
    rs_ns *keys; /* [a_count] running maximum of max_start: what a search by time can bisect */
};

struct score {
    size_t fitting; /* pairs on end */
    double cost;    /* mean */
};

void align_item_from(const struct join *join, size_t summary, const struct rs_comm_op *op,
                     struct align_item *item_p)
{
    const struct rs_summary *from = join->out->summaries[summary];
    const bool is_unfinished = (op->flags & RS_OP_UNFINISHED) != 0;
    const bool steps_mean_something =
        from->step_origin == RS_STEPS_PROFILER_STEP || from->step_origin == RS_STEPS_NATIVE;
    const rs_ns end = join_time(join, summary, op->end);
    *item_p = (struct align_item){
        .max_start = join_time(join, summary, op->start),
        .min_end = is_unfinished ? RS_NS_MAX : end,
        .end = is_unfinished ? RS_NS_MIN : end,
        .bound = join->out->clocks[summary].bound_ns,
        .step = steps_mean_something ? op->step : RS_STEP_NONE,
        .bytes = op->bytes,
        .seq = op->seq,
        .comms_id = op->comms_id,
        .shape_hash = op->shape_hash,
        .last_member = UINT32_MAX,
        .type = op->type,
        .is_on_device = (op->flags & RS_OP_ON_DEVICE) != 0,
    };
}

bool align_is_even(uint8_t type)
{
    return type == RS_OP_ALL_REDUCE || type == RS_OP_REDUCE_SCATTER || type == RS_OP_REDUCE ||
           type == RS_OP_BROADCAST;
}

/* gloo gathers equally much of all; what is uneven on devices is a broadcast of each in turn. */
static bool is_even_on_hosts(const struct align_item *a, const struct align_item *b)
{
    return a->type == RS_OP_ALL_GATHER && !a->is_on_device && !b->is_on_device;
}

static bool same_message(const struct align_item *a, const struct align_item *b)
{
    if (!align_is_even(a->type) && !is_even_on_hosts(a, b)) {
        return true;
    }
    if (a->bytes >= 0 && b->bytes >= 0 && a->bytes != b->bytes) {
        return false;
    }
    return a->shape_hash == 0 || b->shape_hash == 0 || a->shape_hash == b->shape_hash;
}

static bool same_step(const struct align_item *a, const struct align_item *b)
{
    return a->step == RS_STEP_NONE || b->step == RS_STEP_NONE || a->step == b->step;
}

static bool not_after(rs_ns start, rs_ns end, rs_dur bound)
{
    return end == RS_NS_MAX || start <= end || start - end <= RS_CLOCK_BOUND_NS + bound;
}

static rs_ns later(rs_ns a, rs_ns b)
{
    return a > b ? a : b;
}

static rs_ns earlier(rs_ns a, rs_ns b)
{
    return a < b ? a : b;
}

static bool is_feasible(const struct align_item *a, const struct align_item *b)
{
    const rs_ns start = later(a->max_start, b->max_start);
    const rs_ns end = earlier(a->min_end, b->min_end);
    const rs_dur bound = join_sum(a->bound, b->bound);
    switch (rs_op_type_dependency((enum rs_op_type)a->type)) {
    case RS_DEPENDS_ALL:
        return not_after(start, end, bound);
    case RS_DEPENDS_ROOT:
        return !(a->has_root || b->has_root) ||
               not_after(a->has_root ? a->root_start : b->root_start, end, bound);
    case RS_DEPENDS_TO_ROOT:
        return !(a->has_root || b->has_root) ||
               not_after(start, a->has_root ? a->root_end : b->root_end, bound);
    case RS_DEPENDS_NONE:
    case RS_DEPENDS_SEND:
    case RS_DEPENDS_RECV:
        break;
    }
    return true;
}

bool align_same_kind(const struct align_item *a, const struct align_item *b)
{
    return a->type == b->type && same_message(a, b) && same_step(a, b);
}

bool align_items_fit(const struct align_item *a, const struct align_item *b,
                     const struct align_rules *rules)
{
    if (rules->kind == ALIGN_P2P) { /* a: sends, b: receives; or both batches */
        if (a->bytes >= 0 && b->bytes >= 0 && a->bytes != b->bytes && a->type != RS_OP_SEND_RECV) {
            return false;
        }
        if (!same_step(a, b)) {
            return false;
        }
        if (!rules->has_clock) {
            return true;
        }
        return a->type == RS_OP_SEND_RECV
                   ? is_feasible(a, b)
                   : not_after(a->max_start, b->min_end, join_sum(a->bound, b->bound));
    }
    if (a->type != b->type || !same_message(a, b)) {
        return false;
    }
    if (a->seq >= 0 && b->seq >= 0 && a->seq != b->seq) {
        return false;
    }
    return rules->has_clock ? is_feasible(a, b) : same_step(a, b);
}

static bool fits(const struct aligner *al, size_t i, size_t j)
{
    return align_items_fit(&al->a[j], &al->b[i], al->rules);
}

static bool has_ends(const struct align_item *a, const struct align_item *b)
{
    return a->end != RS_NS_MIN && b->end != RS_NS_MIN;
}

/* Pairs (i, j), (i + 1, j + 1), ... as long as they fit: where a row is missing any shift ends. On one clock
 * cost is the distance of ends; without one, how much that distance varies. */
static struct score try_shift(const struct aligner *al, size_t i, size_t j)
{
    struct score score = {0};
    double sum = 0, offset = 0;
    size_t with_ends = 0;
    for (size_t t = 0; t < LOOK_AHEAD && i + t < al->b_count && j + t < al->a_count; t++) {
        if (!fits(al, i + t, j + t)) {
            break;
        }
        score.fitting++;
        const struct align_item *a = &al->a[j + t], *b = &al->b[i + t];
        if (has_ends(a, b)) {
            const double distance = (double)(b->end - a->end);
            if (with_ends == 0 && !al->rules->has_clock) {
                offset = distance;
            }
            sum += fabs(distance - offset);
            with_ends++;
        }
    }
    score.cost = with_ends > 0 ? sum / (double)with_ends : 0;
    return score;
}

/* A send before the recording of the receiver began may lack its receive; a later one may not. */
static bool may_skip(const struct aligner *al, size_t j_from, size_t j)
{
    if (al->rules->kind != ALIGN_P2P || !al->rules->has_clock || j <= j_from) {
        return true;
    }
    return j_from > 0 || al->a[j - 1].max_start < al->rules->b_span_start;
}

struct candidate {
    size_t i, j;
    struct score score;
};

static size_t distance_of(const struct candidate *c, size_t j_from)
{
    return (c->j > j_from ? c->j - j_from : j_from - c->j) + c->i;
}

/* Of all that count (4 of 5 of the longest), the least cost, then the nearest. */
static bool choose(const struct candidate *candidates, size_t count, size_t j_from,
                   struct candidate *best_p)
{
    size_t longest = 0;
    for (size_t k = 0; k < count; k++) {
        longest = candidates[k].score.fitting > longest ? candidates[k].score.fitting : longest;
    }
    const struct candidate *best = NULL;
    for (size_t k = 0; k < count; k++) {
        const struct candidate *c = &candidates[k];
        if (c->score.fitting == 0 || c->score.fitting * 5 < longest * 4) {
            continue;
        }
        if (best == NULL || c->score.cost < best->score.cost ||
            (c->score.cost <= best->score.cost &&
             distance_of(c, j_from) < distance_of(best, j_from))) {
            best = c;
        }
    }
    if (best != NULL) {
        *best_p = *best;
    }
    return best != NULL;
}

static size_t position_in_time(const struct aligner *al, rs_ns start)
{
    size_t low = 0, high = al->a_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (al->keys[middle] < start) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Where b[i] goes, at j_from or behind it. */
static bool find(const struct aligner *al, size_t i, size_t j_from, size_t *j_p)
{
    size_t low = j_from, high = j_from + WINDOW_BLIND;
    if (al->rules->has_clock) {
        const size_t near = position_in_time(al, al->b[i].max_start);
        low = near > WINDOW_NEAR ? near - WINDOW_NEAR : 0;
        high = near + WINDOW_NEAR;
        low = low > j_from ? low : j_from;
    }
    struct candidate candidates[2 * WINDOW_NEAR + WINDOW_BLIND];
    size_t count = 0;
    for (size_t j = low; j <= high && j < al->a_count && count < 2 * WINDOW_NEAR + 2; j++) {
        if (fits(al, i, j) && may_skip(al, j_from, j)) {
            candidates[count++] = (struct candidate){.j = j, .score = try_shift(al, i, j)};
        }
    }
    struct candidate best;
    if (!choose(candidates, count, j_from, &best)) {
        return false;
    }
    *j_p = best.j;
    return true;
}

/* Without a clock nothing says which side began earlier: both directions are tried. */
static bool find_blind_start(const struct aligner *al, size_t *i_p, size_t *j_p)
{
    struct candidate candidates[2 * WINDOW_BLIND];
    size_t count = 0;
    for (size_t k = 0; k < WINDOW_BLIND; k++) {
        if (k < al->a_count && fits(al, 0, k)) {
            candidates[count++] = (struct candidate){.j = k, .score = try_shift(al, 0, k)};
        }
        if (k > 0 && k < al->b_count && fits(al, k, 0)) {
            candidates[count++] = (struct candidate){.i = k, .score = try_shift(al, k, 0)};
        }
    }
    struct candidate best;
    if (!choose(candidates, count, 0, &best)) {
        return false;
    }
    *i_p = best.i;
    *j_p = best.j;
    return true;
}

static struct align_result walk(const struct aligner *al, size_t *positions)
{
    size_t found = 0, next = 0, i = 0, with_ends = 0;
    bool is_locked = false;
    double sum = 0;
    if (!al->rules->has_clock && find_blind_start(al, &i, &next)) {
        is_locked = true;
    }
    for (size_t k = 0; k < al->b_count; k++) {
        positions[k] = ALIGN_NONE;
    }
    for (; i < al->b_count; i++) {
        size_t j = next;
        if (!(is_locked && j < al->a_count && fits(al, i, j)) && !find(al, i, next, &j)) {
            is_locked = false;
            continue;
        }
        positions[i] = j;
        next = j + 1;
        is_locked = true;
        found++;
        if (has_ends(&al->a[j], &al->b[i])) {
            sum += fabs((double)(al->a[j].end - al->b[i].end));
            with_ends++;
        }
    }
    return (struct align_result){found, with_ends > 0 ? sum / (double)with_ends : 0};
}

/* ---- without a clock: what is sure of it ------------------------------------------------ */

/* Clocks drift apart by so much of the time between. */
#define DRIFT_MOST 1e-4

/* Rows of one step, by position: those of a side that numbers no steps are one. */
static size_t run_of_step(struct align_side side, size_t begin)
{
    size_t end = begin + 1;
    while (end < side.count && side.items[end].step == side.items[begin].step) {
        end++;
    }
    return end;
}

bool align_some_clock_fits(struct align_side a, struct align_side b,
                           const struct align_rules *rules, const size_t *positions)
{
    double least = -HUGE_VAL, most = HUGE_VAL, first = HUGE_VAL, last = -HUGE_VAL;
    for (size_t i = 0; i < b.count; i++) {
        if (positions[i] == ALIGN_NONE) {
            continue;
        }
        const struct align_item *x = &a.items[positions[i]], *y = &b.items[i];
        const bool is_transfer = rules->kind == ALIGN_P2P && x->type != RS_OP_SEND_RECV;
        if (!is_transfer && rs_op_type_dependency((enum rs_op_type)x->type) != RS_DEPENDS_ALL &&
            x->type != RS_OP_SEND_RECV) {
            continue;
        }
        /* x.start <= y.end + d, and y.start + d <= x.end: a send does not wait for its recv everywhere */
        if (y->min_end != RS_NS_MAX) {
            least = fmax(least, (double)x->max_start - (double)y->min_end);
        }
        if (x->min_end != RS_NS_MAX && !is_transfer) {
            most = fmin(most, (double)x->min_end - (double)y->max_start);
        }
        first = fmin(first, (double)y->max_start);
        last = fmax(last, (double)y->max_start);
    }
    return least <= most + 2 * RS_CLOCK_BOUND_NS + (last > first ? (last - first) * DRIFT_MOST : 0);
}

static void take_no_pair(struct align_side b, size_t *positions, struct align_result *result)
{
    result->found = 0;
    for (size_t i = 0; i < b.count; i++) {
        positions[i] = ALIGN_NONE;
    }
}

/* Order alone says what belongs together only as long as nothing is missing: a step counts when each side has as many rows of it
 * and all of them are paired; where steps have no numbers, the whole recording. And some clock must allow it. */
static void keep_sure(struct align_side a, struct align_side b, const struct align_rules *rules,
                      size_t *positions, struct align_result *result)
{
    result->found = 0;
    for (size_t i = 0, end; i < b.count; i = end) {
        size_t paired = 0, first = ALIGN_NONE;
        end = run_of_step(b, i);
        for (size_t k = i; k < end; k++) {
            paired += positions[k] != ALIGN_NONE;
            first = first == ALIGN_NONE ? positions[k] : first;
        }
        if (first != ALIGN_NONE) {
            while (first > 0 && a.items[first - 1].step == a.items[first].step) {
                first--;
            }
            if (paired == end - i && run_of_step(a, first) - first == paired) {
                result->found += paired;
                continue;
            }
        }
        for (size_t k = i; k < end; k++) {
            positions[k] = ALIGN_NONE;
        }
    }
    if (result->found == 0 || !align_some_clock_fits(a, b, rules, positions)) {
        take_no_pair(b, positions, result);
    }
}

static bool has_step_numbers(struct align_side side)
{
    return side.items[0].step != RS_STEP_NONE || side.items[side.count - 1].step != RS_STEP_NONE;
}

static void find_shift(struct align_side a, struct align_side b, const struct align_rules *rules,
                       size_t *positions, struct align_result *result)
{
    ptrdiff_t shift;
    if (!align_find_shift(a, b, rules, positions, &shift)) {
        take_no_pair(b, positions, result);
        return;
    }
    for (size_t i = 0; i < b.count; i++) {
        result->found += positions[i] != ALIGN_NONE;
    }
}

/* ---- with a clock: the best pairing in order ------------------------------------------- */

enum {
    NEAR_MOST = 24,          /* rows of a that one of b is held against */
    TOLERANCE_LEAST = 25000, /* ns: what ends of one operation differ by on devices */
    TOLERANCE_SPREADS =
        8, /* and where they spread more: so many times the distance of the nearest third */
    DEVICE_SPREADS = 2, /* on devices, whose ends agree */
};

#define PAIR_ONE (INT64_C(1) << 20) /* what a pair counts at least */

struct pair {
    size_t i, j;    /* of b, of a */
    int64_t weight; /* its own */
    int64_t total;  /* of the best pairing that ends with it */
    size_t before;  /* the pair before it there, or SIZE_MAX */
};

struct near {
    rs_ns at;
    size_t position;
};

struct pairing_in_order {
    struct align_side a, b;
    const struct align_rules *rules;
    struct near *by_time; /* rows of a */
    struct pair *pairs;   /* by i, within one i by falling j */
    size_t count, capacity;
    size_t *
        best; /* Fenwick tree over positions of a: index + 1 of the best pair that ends at or before */
    rs_dur tolerance;
};

static rs_ns time_of(const struct align_item *item)
{
    return item->end != RS_NS_MIN ? item->end : item->max_start;
}

static int compare_near(const void *left, const void *right)
{
    const struct near *a = left, *b = right;
    if (a->at != b->at) {
        return a->at > b->at ? 1 : -1;
    }
    return (a->position > b->position) - (a->position < b->position);
}

static size_t first_near(const struct pairing_in_order *in, rs_ns at)
{
    size_t low = 0, high = in->a.count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (in->by_time[middle].at < at) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static rs_dur distance_between(const struct align_item *a, const struct align_item *b)
{
    const rs_ns x = time_of(a), y = time_of(b);
    rs_dur distance;
    if (__builtin_sub_overflow(x, y, &distance)) {
        return INT64_MAX;
    }
    return distance < 0 ? -distance : distance;
}

/* Of the rows of a nearest in time to b[i], nearest first on either side by turns: calls `each` for those that fit. */
typedef bool near_fn(struct pairing_in_order *in, size_t i, size_t j, rs_dur distance);

static bool look_around(struct pairing_in_order *in, size_t i, near_fn *each)
{
    const struct align_item *own = &in->b.items[i];
    size_t up = first_near(in, time_of(own)), down = up;
    for (size_t k = 0; k < NEAR_MOST && (down > 0 || up < in->a.count); k++) {
        const bool is_up = down == 0 || (up < in->a.count && k % 2 == 0);
        const size_t j = in->by_time[is_up ? up++ : --down].position;
        const struct align_item *other = &in->a.items[j];
        if (align_items_fit(other, own, in->rules) &&
            !each(in, i, j, distance_between(other, own))) {
            return false;
        }
    }
    return true;
}

static bool keep_nearest(struct pairing_in_order *in, size_t i, size_t j, rs_dur distance)
{
    (void)j;
    if (in->pairs[i].total < 0 || distance < in->pairs[i].total) {
        in->pairs[i].total = distance;
    }
    return true;
}

static int compare_totals(const void *left, const void *right)
{
    const struct pair *a = left, *b = right;
    return (a->total > b->total) - (a->total < b->total);
}

/* Most rows have their partner, and it is mostly the nearest: the lower third tells how far ends of one operation lie apart. */
static bool learn_tolerance(struct pairing_in_order *in)
{
    in->tolerance = in->rules->tolerance;
    if (in->tolerance > 0) {
        return true;
    }
    if (rs_mem_grow((void **)&in->pairs, &in->capacity, in->b.count, sizeof *in->pairs) != RS_OK) {
        return false;
    }
    size_t known = 0;
    for (size_t i = 0; i < in->b.count; i++) {
        in->pairs[i].total = -1;
        (void)look_around(in, i, keep_nearest);
    }
    for (size_t i = 0; i < in->b.count; i++) {
        if (in->pairs[i].total >= 0 && in->b.items[i].end != RS_NS_MIN) {
            in->pairs[known++].total = in->pairs[i].total;
        }
    }
    if (known == 0) {
        in->tolerance = TOLERANCE_LEAST;
        return true;
    }
    qsort(in->pairs, known, sizeof *in->pairs, compare_totals);
    const rs_dur usual =
        in->pairs[known * 3 / 10].total; /* the nearest of a lost partner is another row */
    const bool on_device = in->a.items[0].is_on_device && in->b.items[0].is_on_device;
    if (on_device && in->pairs[known / 5].total <= TOLERANCE_LEAST) {
        /* a fifth has someone who ended with it: more than by chance, so that is how near is near */
        in->tolerance = TOLERANCE_LEAST;
        return true;
    }
    in->tolerance = usual < (INT64_MAX - TOLERANCE_LEAST) / ((int64_t)2 * TOLERANCE_SPREADS)
                        ? TOLERANCE_LEAST + (on_device ? DEVICE_SPREADS : TOLERANCE_SPREADS) * usual
                        : INT64_MAX / 2;
    return true;
}

/* On a device two operations of one group follow each other, so that only members of one can run at the same time, unless
 * ranks share the device by turns. */
static bool overlap_for_sure(const struct align_item *a, const struct align_item *b)
{
    const rs_ns start = later(a->max_start, b->max_start), end = earlier(a->min_end, b->min_end);
    return end != RS_NS_MAX && end > start &&
           end - start > RS_CLOCK_BOUND_NS + join_sum(a->bound, b->bound);
}

static bool add_pair(struct pairing_in_order *in, size_t i, size_t j, rs_dur distance)
{
    /* of an unfinished row only the start is known: it counts least */
    const bool has_both = has_ends(&in->a.items[j], &in->b.items[i]);
    const bool on_device = in->a.items[j].is_on_device && in->b.items[i].is_on_device;
    if (has_both && on_device && distance > in->tolerance &&
        !(in->rules->is_one_group && overlap_for_sure(&in->a.items[j], &in->b.items[i]))) {
        return true;
    }
    if (rs_mem_grow((void **)&in->pairs, &in->capacity, in->count + 1, sizeof *in->pairs) !=
        RS_OK) {
        return false;
    }
    int64_t weight = PAIR_ONE;
    if (has_both) {
        const double closeness = 1 - (double)distance / (double)(in->tolerance + 1);
        weight += closeness > 0 ? (int64_t)(closeness * (double)PAIR_ONE) : 0;
    }
    in->pairs[in->count++] = (struct pair){i, j, weight, weight, SIZE_MAX};
    return true;
}

static int compare_pairs(const void *left, const void *right)
{
    const struct pair *a = left, *b = right;
    if (a->i != b->i) {
        return a->i > b->i ? 1 : -1;
    }
    return (a->j < b->j) - (a->j > b->j);
}

/* Best pairing that ends before position j of a. */
static size_t best_before(const struct pairing_in_order *in, size_t j)
{
    size_t best = SIZE_MAX;
    for (size_t at = j; at > 0; at &= at - 1) {
        const size_t pair = in->best[at];
        if (pair != 0 && (best == SIZE_MAX || in->pairs[pair - 1].total > in->pairs[best].total)) {
            best = pair - 1;
        }
    }
    return best;
}

static void note_best(struct pairing_in_order *in, size_t pair)
{
    for (size_t at = in->pairs[pair].j + 1; at <= in->a.count; at += at & (~at + 1)) {
        const size_t known = in->best[at];
        if (known == 0 || in->pairs[pair].total > in->pairs[known - 1].total) {
            in->best[at] = pair + 1;
        }
    }
}

static struct align_result take_best(struct pairing_in_order *in, size_t *positions)
{
    struct align_result result = {0};
    double sum = 0;
    size_t best = SIZE_MAX, with_ends = 0;
    for (size_t k = 0; k < in->count; k++) {
        struct pair *pair = &in->pairs[k];
        pair->before = best_before(in, pair->j);
        if (pair->before != SIZE_MAX) {
            pair->total += in->pairs[pair->before].total;
        }
        note_best(in, k); /* rows of one i come by falling j: none of them sees another */
        if (best == SIZE_MAX || pair->total > in->pairs[best].total) {
            best = k;
        }
    }
    for (size_t k = best; k != SIZE_MAX; k = in->pairs[k].before) {
        const struct pair *pair = &in->pairs[k];
        positions[pair->i] = pair->j;
        result.found++;
        if (has_ends(&in->a.items[pair->j], &in->b.items[pair->i])) {
            sum += (double)distance_between(&in->a.items[pair->j], &in->b.items[pair->i]);
            with_ends++;
        }
    }
    result.cost = with_ends > 0 ? sum / (double)with_ends : 0;
    return result;
}

static enum rs_status find_in_order(struct align_side a, struct align_side b,
                                    const struct align_rules *rules, size_t *positions,
                                    struct align_result *result_p)
{
    struct pairing_in_order in = {.a = a, .b = b, .rules = rules};
    enum rs_status status = RS_NOMEM;
    in.by_time = rs_mem_calloc(a.count + 1, sizeof *in.by_time);
    in.best = rs_mem_calloc(a.count + 1, sizeof *in.best);
    if (in.by_time == NULL || in.best == NULL) {
        goto done;
    }
    for (size_t j = 0; j < a.count; j++) {
        in.by_time[j] = (struct near){time_of(&a.items[j]), j};
    }
    qsort(in.by_time, a.count, sizeof *in.by_time, compare_near);
    if (!learn_tolerance(&in)) {
        goto done;
    }
    for (size_t i = 0; i < b.count; i++) {
        positions[i] = ALIGN_NONE;
        if (!look_around(&in, i, add_pair)) {
            goto done;
        }
    }
    if (in.count > 1) {
        qsort(in.pairs, in.count, sizeof *in.pairs, compare_pairs);
    }
    *result_p = take_best(&in, positions);
    status = RS_OK;
done:
    rs_mem_free(in.by_time);
    rs_mem_free(in.best);
    rs_mem_free(in.pairs);
    return status;
}

/* Between hosts, where a row is missing on one side, order alone does not say which: of as many pairs those that lie closer
 * together are meant. */
static enum rs_status prefer_closer(struct align_side a, struct align_side b,
                                    const struct align_rules *rules, size_t *positions,
                                    struct align_result *result)
{
    if (result->found == a.count && result->found == b.count) {
        return RS_OK;
    }
    struct align_result closer;
    size_t *other = rs_mem_calloc(b.count, sizeof *other);
    const enum rs_status status =
        other == NULL ? RS_NOMEM : find_in_order(a, b, rules, other, &closer);
    if (status == RS_OK && closer.found >= result->found) {
        memcpy(positions, other, b.count * sizeof *other);
        *result = closer;
    }
    rs_mem_free(other);
    return status;
}

/* ---- the door --------------------------------------------------------------------------- */

enum rs_status align_find(struct align_side a, struct align_side b, const struct align_rules *rules,
                          size_t *positions, struct align_result *result_p)
{
    struct aligner al = {a.items, b.items, a.count, b.count, rules, NULL};
    *result_p = (struct align_result){0};
    if (a.count == 0 || b.count == 0) {
        for (size_t i = 0; i < b.count; i++) {
            positions[i] = ALIGN_NONE;
        }
        return RS_OK;
    }
    if (rules->has_clock && !rules->ends_say_nothing) {
        return find_in_order(a, b, rules, positions, result_p);
    }
    al.keys = rs_mem_calloc(a.count, sizeof *al.keys);
    if (al.keys == NULL) {
        return RS_NOMEM;
    }
    rs_ns latest = RS_NS_MIN;
    for (size_t j = 0; j < a.count; j++) {
        latest = later(latest, a.items[j].max_start);
        al.keys[j] = latest;
    }
    *result_p = walk(&al, positions);
    rs_mem_free(al.keys);
    if (rules->has_clock) {
        return prefer_closer(a, b, rules, positions, result_p);
    }
    keep_sure(a, b, rules, positions, result_p);
    if (result_p->found == 0 && rules->kind == ALIGN_COLLECTIVE && !has_step_numbers(a) &&
        !has_step_numbers(b)) {
        find_shift(a, b, rules, positions, result_p);
    }
    return RS_OK;
}

void align_item_merge(struct align_item *into, const struct align_item *other)
{
    into->max_start = later(into->max_start, other->max_start);
    into->min_end = earlier(into->min_end, other->min_end);
    into->end = later(into->end, other->end);
    into->bound = into->bound > other->bound ? into->bound : other->bound;
    if (!into->has_root && other->has_root) {
        into->has_root = true;
        into->root_start = other->root_start;
        into->root_end = other->root_end;
    }
    if (into->bytes < 0) {
        into->bytes = other->bytes;
    }
    if (into->shape_hash == 0) {
        into->shape_hash = other->shape_hash;
    }
    if (into->step == RS_STEP_NONE) {
        into->step = other->step;
    }
    if (into->seq < 0) {
        into->seq = other->seq;
    }
}

/* Where in the list what has no pair goes: behind `least`, before what ended later. */
static size_t place_by_time(const struct align_list *list, size_t least, size_t from,
                            const struct align_item *item)
{
    while (from > least && time_of(&list->items[from - 1]) > time_of(item)) {
        from--;
    }
    return from;
}

/* Behind the pair before b[i]; 0: there is none. */
static size_t behind_pair_before(const size_t *positions, size_t i)
{
    while (i > 0 && positions[i - 1] == ALIGN_NONE) {
        i--;
    }
    return i > 0 ? positions[i - 1] + 1 : 0;
}

enum rs_status align_merge(struct align_list *list, const struct align_item *b, size_t b_count,
                           bool has_clock, const size_t *positions, uint32_t *ids)
{
    size_t fresh = 0;
    for (size_t i = 0; i < b_count; i++) {
        if (positions[i] == ALIGN_NONE) {
            fresh++;
        } else {
            ids[i] = list->items[positions[i]].id;
            align_item_merge(&list->items[positions[i]], &b[i]);
        }
    }
    if (fresh == 0) {
        return RS_OK;
    }
    if (rs_mem_grow((void **)&list->items, &list->capacity, list->count + fresh,
                    sizeof *list->items) != RS_OK) {
        return RS_NOMEM;
    }
    /* From behind: what has no pair goes before the next one that has, and on one clock among what else has none by time. */
    size_t to = list->count + fresh, from = list->count, least = 0;
    uint32_t id = list->next_id + (uint32_t)fresh;
    for (size_t i = b_count; i-- > 0;) {
        const bool has_pair = positions[i] != ALIGN_NONE;
        if (!has_pair && (i + 1 == b_count || positions[i + 1] != ALIGN_NONE)) {
            least = behind_pair_before(positions, i);
        }
        const size_t place = has_pair    ? positions[i]
                             : has_clock ? place_by_time(list, least, from, &b[i])
                                         : from;
        const size_t moved = from - place;
        memmove(&list->items[to - moved], &list->items[place], moved * sizeof *list->items);
        to -= moved;
        from = place;
        if (!has_pair) {
            list->items[--to] = b[i];
            list->items[to].id = ids[i] = --id;
        }
    }
    list->count += fresh;
    list->next_id += (uint32_t)fresh;
    return RS_OK;
}

void align_list_fini(struct align_list *list)
{
    rs_mem_free(list->items);
    *list = (struct align_list){0};
}
