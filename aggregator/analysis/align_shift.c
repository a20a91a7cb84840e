/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two recordings of one sequence that began and ended at different rows, and lack nothing between.
 *
 *      a   A0 A1 A2 A3 A4
 *      b         b0 b1 b2 b3 b4      shift 2: b[i] is a[i + 2]; A0 and A1, b3 and b4 are one side's alone
 *
 * So it is where captures of some ranks end later than others': a host runs ahead of its device, and what it launched until the
 * profiler stopped is recorded. Of all shifts those are tried first that leave the fewest rows alone; several that leave equally
 * many say nothing.
 *
 * A row that is alone at an end may as well have been lost inside the run of its like there:
 *
 *      a   ... s g g         b lost one of three g, or ended one earlier?
 *      b   ... s g
 *
 * Where the rest is many times longer than that run and lacks nothing, a loss in just that run is unlikely, and its rows are
 * paired. Else the shift does not count.
 */
#include "aggregator/analysis/analysis_priv.h"

#include <stddef.h>

enum {
    ALONE_MOST = 64,     /* rows at both ends together that only one side has */
    SURE_FOR_ONE = 16,   /* rows in step for each whose place in a run is not known */
    OVERLAP_OF_FOUR = 3, /* of four rows of the shorter side at least so many are paired */
};

struct overlap {
    size_t a, b, count; /* first positions */
};

static struct overlap overlap_of(struct align_side a, struct align_side b, ptrdiff_t shift)
{
    const size_t in_a = shift > 0 ? (size_t)shift : 0, in_b = shift < 0 ? (size_t)-shift : 0;
    if (in_a >= a.count || in_b >= b.count) {
        return (struct overlap){0};
    }
    const size_t rest_a = a.count - in_a, rest_b = b.count - in_b;
    return (struct overlap){in_a, in_b, rest_a < rest_b ? rest_a : rest_b};
}

static bool all_fit(struct align_side a, struct align_side b, const struct align_rules *rules,
                    struct overlap over)
{
    for (size_t k = 0; k < over.count; k++) {
        if (!align_items_fit(&a.items[over.a + k], &b.items[over.b + k], rules)) {
            return false;
        }
    }
    return true;
}

static void write_positions(struct align_side b, struct overlap over, size_t *positions)
{
    for (size_t i = 0; i < b.count; i++) {
        positions[i] = i >= over.b && i - over.b < over.count ? over.a + (i - over.b) : ALIGN_NONE;
    }
}

/* All shifts of which the overlap is `count` rows, in turn: calls with *at = 0 first. false: there are no more. */
static bool next_shift(struct align_side a, struct align_side b, size_t count, size_t *at,
                       ptrdiff_t *shift_p)
{
    const ptrdiff_t more = (ptrdiff_t)a.count - (ptrdiff_t)b.count;
    const ptrdiff_t low = more < 0 ? more : 0, high = more > 0 ? more : 0;
    const size_t most = a.count < b.count ? a.count : b.count;
    const ptrdiff_t beyond = (ptrdiff_t)(most - count);
    const size_t shifts = beyond == 0 ? (size_t)(high - low) + 1 : 2;
    if (*at >= shifts) {
        return false;
    }
    *shift_p = beyond == 0 ? low + (ptrdiff_t)*at : *at == 0 ? low - beyond : high + beyond;
    ++*at;
    return true;
}

static size_t alone(struct align_side a, struct align_side b, size_t paired)
{
    return a.count - paired + (b.count - paired);
}

static bool is_tried(struct align_side a, struct align_side b, size_t count)
{
    const size_t least = a.count < b.count ? a.count : b.count;
    return count > 0 && count * 4 >= least * OVERLAP_OF_FOUR && alone(a, b, count) <= ALONE_MOST;
}

/* How many rows of the overlap, from its begin (or its end) on, are of the kind of the row beside it that is one side's alone. */
static size_t unsure_at_begin(struct align_side a, struct align_side b, struct overlap over)
{
    const struct align_item *beside = over.a > 0   ? &a.items[over.a - 1]
                                      : over.b > 0 ? &b.items[over.b - 1]
                                                   : NULL;
    size_t count = 0;
    while (beside != NULL && count < over.count &&
           align_same_kind(beside, &a.items[over.a + count])) {
        count++;
    }
    return count;
}

static size_t unsure_at_end(struct align_side a, struct align_side b, struct overlap over)
{
    const size_t end_a = over.a + over.count, end_b = over.b + over.count;
    const struct align_item *beside = end_a < a.count   ? &a.items[end_a]
                                      : end_b < b.count ? &b.items[end_b]
                                                        : NULL;
    size_t count = 0;
    while (beside != NULL && count < over.count &&
           align_same_kind(beside, &a.items[end_a - 1 - count])) {
        count++;
    }
    return count;
}

bool align_find_shift(struct align_side a, struct align_side b, const struct align_rules *rules,
                      size_t *positions, ptrdiff_t *shift_p)
{
    const size_t most = a.count < b.count ? a.count : b.count;
    for (size_t count = most; is_tried(a, b, count); count--) {
        struct overlap found = {0};
        size_t fitting = 0;
        ptrdiff_t shift;
        for (size_t at = 0; fitting < 2 && next_shift(a, b, count, &at, &shift);) {
            const struct overlap over = overlap_of(a, b, shift);
            if (!all_fit(a, b, rules, over)) {
                continue;
            }
            write_positions(b, over, positions);
            if (align_some_clock_fits(a, b, rules, positions)) {
                found = over;
                fitting++;
            }
        }
        if (fitting > 1) {
            return false;
        }
        if (fitting == 1) {
            const size_t begin = unsure_at_begin(a, b, found), end = unsure_at_end(a, b, found);
            if ((begin + end) * SURE_FOR_ONE > found.count) {
                return false;
            }
            write_positions(b, found, positions);
            *shift_p = (ptrdiff_t)found.a - (ptrdiff_t)found.b;
            return true;
        }
    }
    return false;
}
