/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/analysis/clock_few.h"

#include "aggregator/analysis/clock_fit_priv.h"
#include "common/base/mem.h"

#include <math.h>
#include <stdlib.h>

enum {
    FEW_ROWS = 16,      /* of a rank that cannot vote for want of rows */
    STANDING_SEEN = 64, /* ranks that those are held against, all together */
};
/* Ends of one operation on devices of one host, and the chance at which that many of them are no accident. */
#define FEW_WITHIN_NS 10000.0
#define FEW_CHANCE    0.01
#define FEW_OFF_NS    1000000.0 /* what clocks that are not one are off by at least */

bool clock_is_few(const struct join *join, const struct witnesses *own, size_t s)
{
    return own->count >= 2 && own->count <= FEW_ROWS && !clock_names_host(join, s);
}

static bool stands_as_it_is(const struct join *join, size_t s)
{
    return !clock_names_host(join, s) && join->out->clocks[s].offset_ns == 0 &&
           join->out->clocks[s].drift_ppb == 0;
}

static int compare_ended(const void *left, const void *right)
{
    const struct clock_ended *a = left, *b = right;
    if (a->kind != b->kind) {
        return a->kind > b->kind ? 1 : -1;
    }
    return (a->end > b->end) - (a->end < b->end);
}

/* What part of the time from the first to the last of these rows is near to one: of the time that clocks may be off by, where there is only
 * one. */
static double chance_near(const struct clock_ended *rows, size_t count)
{
    double covered = 2 * FEW_WITHIN_NS;
    for (size_t i = 1; i < count; i++) {
        covered += fmin((double)(rows[i].end - rows[i - 1].end), 2 * FEW_WITHIN_NS);
    }
    const double lasts = (double)(rows[count - 1].end - rows[0].end);
    return fmin(1, covered / (fmax(lasts, FEW_OFF_NS) + 2 * FEW_WITHIN_NS));
}

static size_t divide_by_kind(struct clock_standing *standing, size_t count)
{
    size_t kinds = 0;
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i; end < count && standing->rows[end].kind == standing->rows[i].kind;) {
            end++;
        }
        if (standing->kinds != NULL) {
            standing->kinds[kinds] = (struct clock_ended_kind){
                standing->rows[i].kind, i, end - i, chance_near(standing->rows + i, end - i)};
        }
        kinds++;
    }
    return kinds;
}

enum rs_status clock_standing_collect(const struct join *join, const struct witnesses *witnesses,
                                      const bool *is_in, struct clock_standing *standing)
{
    size_t chosen[STANDING_SEEN], ranks = 0, room = 0, count = 0;
    for (size_t t = 0; t < join->out->summary_count && ranks < STANDING_SEEN; t++) {
        if (is_in[t] && stands_as_it_is(join, t)) {
            chosen[ranks++] = t;
            room += witnesses[t].count;
        }
    }
    standing->rows = rs_mem_calloc(room + 1, sizeof *standing->rows);
    if (standing->rows == NULL) {
        return RS_NOMEM;
    }
    for (size_t k = 0; k < ranks; k++) {
        for (size_t i = 0; i < witnesses[chosen[k]].count; i++) {
            const struct witness *row = &witnesses[chosen[k]].items[i];
            standing->rows[count++] = (struct clock_ended){row->kind, row->end};
        }
    }
    if (count > 1) {
        qsort(standing->rows, count, sizeof *standing->rows, compare_ended);
    }
    standing->kinds = rs_mem_calloc(divide_by_kind(standing, count) + 1, sizeof *standing->kinds);
    if (standing->kinds == NULL) {
        return RS_NOMEM;
    }
    standing->kind_count = divide_by_kind(standing, count);
    return RS_OK;
}

void clock_standing_fini(struct clock_standing *standing)
{
    rs_mem_free(standing->rows);
    rs_mem_free(standing->kinds);
    *standing = (struct clock_standing){.rows = NULL};
}

static int compare_kind(const void *left, const void *right)
{
    const uint64_t kind = *(const uint64_t *)left;
    const struct clock_ended_kind *other = right;
    return (kind > other->kind) - (kind < other->kind);
}

/* How far the nearest row of its kind ended from it; infinite: nobody has one. */
static double nearest_ended(const struct clock_standing *standing, const struct witness *own,
                            double *chance_p)
{
    const struct clock_ended_kind *kind =
        standing->kind_count == 0 ? NULL
                                  : bsearch(&own->kind, standing->kinds, standing->kind_count,
                                            sizeof *standing->kinds, compare_kind);
    *chance_p = kind != NULL ? kind->chance : 0;
    if (kind == NULL) {
        return HUGE_VAL;
    }
    const struct clock_ended *rows = standing->rows + kind->from;
    size_t low = 0, high = kind->count; /* to the first that ended then or later */
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (rows[middle].end < own->end) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    const double after = low < kind->count ? (double)(rows[low].end - own->end) : HUGE_VAL;
    const double before = low > 0 ? (double)(own->end - rows[low - 1].end) : HUGE_VAL;
    return fmin(after, before);
}

/* Chance that so many of as many rows are near one when each is with this chance. */
static double chance_of(size_t near, size_t rows, double chance)
{
    double sum = 0;
    for (size_t k = near; k <= rows; k++) {
        double term = pow(chance, (double)k) * pow(1 - chance, (double)(rows - k));
        for (size_t i = 0; i < k; i++) {
            term *= (double)(rows - i) / (double)(i + 1);
        }
        sum += term;
    }
    return sum;
}

bool clock_stands(const struct clock_standing *standing, const struct witnesses *own,
                  struct rs_job_clock *clock_p)
{
    size_t near = 0;
    double mean = 0, spread = 0;
    for (size_t i = 0; i < own->count; i++) {
        double chance;
        const double apart = nearest_ended(standing, &own->items[i], &chance);
        mean += chance / (double)own->count;
        near += apart <= FEW_WITHIN_NS;
        spread = apart <= FEW_WITHIN_NS ? fmax(spread, apart) : spread;
    }
    if (near < 2 || 2 * near <= own->count || chance_of(near, own->count, mean) > FEW_CHANCE) {
        return false;
    }
    *clock_p = (struct rs_job_clock){.method = RS_CLOCK_ENDS,
                                     .at_ns = own->items[0].end,
                                     .bound_ns = LEAST_BOUND_NS + (rs_dur)llround(3 * spread)};
    return true;
}
