/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two sequences of operations of one communicator, recorded by different ranks: which belong together?
 *
 * Both hold them in the order of the calls, so the answer is an index shift: constant, until a row is
 * missing on one side. A recording may begin and end anywhere, so the shift is searched:
 *
 *      a   . A0 A1 A2 A3 A4 A5            shift +2: b0-A2, b1-A3, then b lacks A4's counterpart,
 *      b         b0 b1    b2              and from b2 on the shift is +3
 *
 *  1. At the start, and wherever the shift stops fitting, candidates near in time (on one clock), or
 *     near in position (without one), are tried: how many pairs on end fit, up to 64?
 *  2. A candidate counts when it holds nearly as long as the best; of those that count, the one with the least
 *     mean distance of ends wins, then the least shift. So feasibility comes first and end spread only ranks.
 *  3. As long as pairs fit, the shift is kept. What fits nowhere stays unmatched.
 *
 * Linear in the number of operations, but for the searches, which are bounded.
 */
#include "aggregator/analysis/analysis_priv.h"
#include "common/base/mem.h"

#include <math.h>
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
    *item_p = (struct align_item){
        .max_start = op->start,
        .min_end = is_unfinished ? RS_NS_MAX : op->end,
        .end = is_unfinished ? RS_NS_MIN : op->end,
        .step = steps_mean_something ? op->step : RS_STEP_NONE,
        .bytes = op->bytes,
        .seq = op->seq,
        .comms_id = op->comms_id,
        .shape_hash = op->shape_hash,
        .last_member = UINT32_MAX,
        .type = op->type,
    };
}

/* Ops whose message is of one size on all members; an all_gather or all_to_all may be uneven. */
static bool is_even(uint8_t type)
{
    return type == RS_OP_ALL_REDUCE || type == RS_OP_REDUCE_SCATTER || type == RS_OP_REDUCE ||
           type == RS_OP_BROADCAST;
}

static bool same_message(const struct align_item *a, const struct align_item *b)
{
    if (!is_even(a->type)) {
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

static bool not_after(rs_ns start, rs_ns end)
{
    return end == RS_NS_MAX || start <= end || start - end <= RS_CLOCK_BOUND_NS;
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
    switch (rs_op_type_dependency((enum rs_op_type)a->type)) {
    case RS_DEPENDS_ALL:
        return not_after(start, end);
    case RS_DEPENDS_ROOT:
        return !(a->has_root || b->has_root) ||
               not_after(a->has_root ? a->root_start : b->root_start, end);
    case RS_DEPENDS_TO_ROOT:
        return !(a->has_root || b->has_root) ||
               not_after(start, a->has_root ? a->root_end : b->root_end);
    case RS_DEPENDS_NONE:
    case RS_DEPENDS_SEND:
    case RS_DEPENDS_RECV:
        break;
    }
    return true;
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
        return a->type == RS_OP_SEND_RECV ? is_feasible(a, b) : not_after(a->max_start, b->min_end);
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
    return RS_OK;
}

void align_item_merge(struct align_item *into, const struct align_item *other)
{
    into->max_start = later(into->max_start, other->max_start);
    into->min_end = earlier(into->min_end, other->min_end);
    into->end = later(into->end, other->end);
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

enum rs_status align_merge(struct align_list *list, const struct align_item *b, size_t b_count,
                           const size_t *positions, uint32_t *ids)
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
    /* From behind: what has no pair goes before the next one that has. */
    size_t to = list->count + fresh, from = list->count;
    uint32_t id = list->next_id + (uint32_t)fresh;
    for (size_t i = b_count; i-- > 0;) {
        if (positions[i] != ALIGN_NONE) {
            const size_t moved = from - positions[i];
            memmove(&list->items[to - moved], &list->items[positions[i]],
                    moved * sizeof *list->items);
            to -= moved;
            from = positions[i];
        } else {
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
