/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/analysis/clock_few.h"

#include "aggregator/analysis/clock_fit_priv.h"
#include "common/base/mem.h"

#include <math.h>
#include <stdlib.h>

enum {
    FEW_ROWS = 16,      /* of a rank that cannot vote for want of rows */
    STANDING_SEEN = 64, /* ranks that each kind of their rows is held against */
};
/* Ends of one operation on devices of one host, and the chance at which that many of them are no accident. */
#define FEW_WITHIN_NS 10000.0
#define FEW_CHANCE    0.01
#define FEW_OFF_NS    1000000.0 /* what clocks that are not one are off by at least */

bool clock_is_few(const struct join *join, const struct witnesses *own, size_t s)
{
    return own->count >= 2 && own->count <= FEW_ROWS && !clock_names_host(join, s);
}

bool clock_runs_with_reference(const struct join *join, size_t s)
{
    const struct rs_job_clock *clock = &join->out->clocks[s];
    const rs_dur off = clock->offset_ns < 0 ? -clock->offset_ns : clock->offset_ns;
    return !clock_names_host(join, s) && off <= RS_CLOCK_BOUND_NS && clock->drift_ppb == 0 &&
           clock->bound_ns <= SETTLED_BOUND_NS;
}

/* Ends that its clock was measured by differ by microseconds: it is the reference's although nothing measured is exactly 0. */
static bool stands_as_it_is(const struct join *join, size_t s)
{
    const struct rs_job_clock *clock = &join->out->clocks[s];
    return clock_runs_with_reference(join, s) ||
           (!clock_names_host(join, s) && clock->offset_ns == 0 && clock->drift_ppb == 0);
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

/* ---- kinds ---------------------------------------------------------------------------------- */

static bool is_kind(const void *self, uint32_t index, const void *wanted)
{
    const struct clock_ended_kind *kinds = self;
    return kinds[index].kind == *(const uint64_t *)wanted;
}

static uint32_t find_kind(const struct clock_standing *standing, uint64_t kind)
{
    return rs_slots_find(&standing->slots, rs_slots_mix(0, kind), is_kind, standing->kinds, &kind);
}

enum rs_status clock_standing_init(struct clock_standing *standing, const struct join *join,
                                   const struct witnesses *witnesses)
{
    const size_t count = join->out->summary_count;
    size_t room = 0;
    for (size_t s = 0; s < count; s++) {
        room += clock_is_few(join, &witnesses[s], s) ? witnesses[s].count : 0;
    }
    *standing = (struct clock_standing){
        .kinds = rs_mem_calloc(room + 1, sizeof *standing->kinds),
    };
    enum rs_status status = standing->kinds != NULL ? RS_OK : RS_NOMEM;
    for (size_t s = 0; s < count && room > 0; s++) {
        const bool is_few = clock_is_few(join, &witnesses[s], s);
        for (size_t i = 0; is_few && i < witnesses[s].count && status == RS_OK; i++) {
            const uint64_t kind = witnesses[s].items[i].kind;
            if (find_kind(standing, kind) == RS_SLOTS_NONE) {
                standing->kinds[standing->kind_count].kind = kind;
                status = rs_slots_put(&standing->slots, rs_slots_mix(0, kind),
                                      (uint32_t)standing->kind_count++);
            }
        }
    }
    return status;
}

void clock_standing_fini(struct clock_standing *standing)
{
    rs_slots_fini(&standing->slots);
    rs_mem_free(standing->rows);
    rs_mem_free(standing->kinds);
    *standing = (struct clock_standing){.rows = NULL};
}

/* Rows of this rank, as far as their kinds have room for one more. */
static enum rs_status add_rank(struct clock_standing *standing, const struct witnesses *own,
                               size_t s)
{
    for (size_t i = 0; i < own->count; i++) {
        const uint32_t at = find_kind(standing, own->items[i].kind);
        if (at == RS_SLOTS_NONE) {
            continue;
        }
        struct clock_ended_kind *kind = &standing->kinds[at];
        if (kind->look != standing->look) {
            *kind = (struct clock_ended_kind){.kind = kind->kind, .look = standing->look};
        }
        if (kind->ranks == 0 || kind->newest != s) {
            if (kind->ranks == STANDING_SEEN) {
                continue;
            }
            kind->ranks++;
            kind->newest = s;
        }
        if (rs_mem_grow((void **)&standing->rows, &standing->row_capacity, standing->row_count + 1,
                        sizeof *standing->rows) != RS_OK) {
            return RS_NOMEM;
        }
        standing->rows[standing->row_count++] = (struct clock_ended){at, own->items[i].end};
    }
    return RS_OK;
}

static void divide_by_kind(struct clock_standing *standing)
{
    const struct clock_ended *rows = standing->rows;
    for (size_t i = 0, end; i < standing->row_count; i = end) {
        for (end = i; end < standing->row_count && rows[end].kind == rows[i].kind;) {
            end++;
        }
        struct clock_ended_kind *kind = &standing->kinds[rows[i].kind];
        kind->from = i;
        kind->count = end - i;
        kind->chance = chance_near(rows + i, end - i);
    }
}

enum rs_status clock_standing_look(struct clock_standing *standing, const struct join *join,
                                   const struct witnesses *witnesses, const bool *is_in)
{
    standing->look++;
    standing->row_count = 0;
    for (size_t t = 0; t < join->out->summary_count; t++) {
        if (is_in[t] && stands_as_it_is(join, t) && add_rank(standing, &witnesses[t], t) != RS_OK) {
            return RS_NOMEM;
        }
    }
    if (standing->row_count > 1) {
        qsort(standing->rows, standing->row_count, sizeof *standing->rows, compare_ended);
    }
    divide_by_kind(standing);
    return RS_OK;
}

/* ---- one file ------------------------------------------------------------------------------- */

/* How far the nearest row of its kind ended from it; infinite: nobody has one. */
static double nearest_ended(const struct clock_standing *standing, const struct witness *own,
                            double *chance_p)
{
    const uint32_t at = find_kind(standing, own->kind);
    *chance_p = 0;
    if (at == RS_SLOTS_NONE || standing->kinds[at].look != standing->look) {
        return HUGE_VAL;
    }
    const struct clock_ended_kind *kind = &standing->kinds[at];
    *chance_p = kind->chance;
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

/* Chance that so many of as many rows are near one when each is with this chance: where it is small, no less than that of rows whose chances
 * differ and have this mean. */
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
