/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does a guess of how two clocks stand hold for rows that say no more than their type?
 *
 *   rank a   tensor    | | | | | | | | | |          shifted by the time between two stages of a pipeline, many of these
 *            all        |         |                 operations end near others of their type: by chance, since rows are
 *   rank b   tensor      | | | | | | | | | |        dense, and because stages do equal work
 *            all        |         |                 but of no stream of a and stream of b do *most* rows end together
 *
 * So it is not how many rows agree that counts but whether two streams agree as wholes: CARRIED_SHARE of the rows of the shorter
 * (others may be lost, on either side), which is not much shorter than the other.
 */
#include "aggregator/analysis/clock_carrier.h"

#include <math.h>
#include <string.h>

enum { CARRIED_LEAST = 3 };
#define CARRIED_SHARE 0.4

size_t clock_first_not_before(const struct witnesses *rows, double end)
{
    size_t low = 0, high = rows->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if ((double)rows->items[middle].end < end) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void count_lanes(const struct witnesses *rows, size_t counts[CLOCK_LANES_MAX + 1])
{
    memset(counts, 0, (CLOCK_LANES_MAX + 1) * sizeof *counts);
    for (size_t i = 0; i < rows->count; i++) {
        counts[rows->items[i].lane]++;
    }
}

/* Streams of a in which a row like `own` ended at the same time: a bit each. */
static uint32_t lanes_that_agree(const struct witnesses *a, const struct witness *own,
                                 const struct clock_guess *guess)
{
    const double wanted =
        (double)own->end - guess->offset - guess->drift * (double)(own->end - guess->at);
    uint32_t lanes = 0;
    for (size_t i = clock_first_not_before(a, wanted - guess->within);
         i < a->count && (double)a->items[i].end <= wanted + guess->within; i++) {
        if (a->items[i].lane != 0 && a->items[i].kind == own->kind) {
            lanes |= UINT32_C(1) << (a->items[i].lane - 1);
        }
    }
    return lanes;
}

bool clock_find_carrier(const struct witnesses *a, const struct witnesses *b,
                        const struct clock_guess *guess, struct clock_carrier *carrier_p)
{
    size_t of_a[CLOCK_LANES_MAX + 1], of_b[CLOCK_LANES_MAX + 1];
    uint32_t agree[CLOCK_LANES_MAX + 1][CLOCK_LANES_MAX + 1] = {{0}};
    double best = 0;
    count_lanes(a, of_a);
    count_lanes(b, of_b);
    for (size_t i = 0; i < b->count; i++) {
        const struct witness *own = &b->items[i];
        uint32_t lanes = own->lane != 0 ? lanes_that_agree(a, own, guess) : 0;
        for (; lanes != 0; lanes &= lanes - 1) {
            agree[__builtin_ctz(lanes) + 1][own->lane]++;
        }
    }
    for (uint32_t k = 1; k <= CLOCK_LANES_MAX; k++) {
        for (uint32_t l = 1; l <= CLOCK_LANES_MAX; l++) {
            const size_t less = of_a[k] < of_b[l] ? of_a[k] : of_b[l];
            const size_t more = of_a[k] < of_b[l] ? of_b[l] : of_a[k];
            const double share = less > 0 ? (double)agree[k][l] / (double)less : 0;
            if (agree[k][l] >= CARRIED_LEAST && more <= 2 * less && share >= CARRIED_SHARE &&
                share > best) {
                best = share;
                *carrier_p = (struct clock_carrier){k, l};
            }
        }
    }
    return best > 0;
}
