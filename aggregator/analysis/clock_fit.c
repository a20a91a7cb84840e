/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How do the clocks of different hosts (and of files that name no host) stand to each other?
 *
 *   first guess   two ranks of different domains (clock_vote.c): the difference of ends that most rows of one kind agree on,
 *                 then, followed through both recordings: offset and drift, by least squares without outliers.
 *                 Domains join the reference (that of the lowest rank) one after another, each through the rank it shares most with.
 *   refined       (clock_refine.c) once operations are matched: all domains together, each against the mean end of its operations;
 *                 three rounds without what lies beyond 5 MAD
 *   bounds        the spread of those ends; and, as nobody leaves before the last has come, end - start of every
 *                 operation bounds the difference of two clocks: shortest paths over all of them. The narrower of the two holds
 *
 * Rows that name no group agree by chance, too, most of all those of two stages of a pipeline, shifted against each other: they
 * count when they bear out whole streams (clock_carrier.c), and files without a host are tried as they stand first.
 *
 * Nothing is assumed because it looks feasible: where no difference stands out, the domain stays on its own, and no time
 * of it is compared with another's. Files without a host whose clocks were *measured* to be within their bound of the reference
 * stand on it as they are.
 *
 * Linear in rows but for the votes, which look at a bounded number of rows.
 */
#include "aggregator/analysis/clock_fit_priv.h"
#include "common/base/const.h"
#include "common/base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    PARTNERS_TRIED = 4,  /* aligned ranks a domain is held against */
    PARTNERS_SEEN = 512, /* of which those with most in common are chosen */
    FEW_ROWS = 16,       /* of a rank that cannot vote for want of rows */
    STANDING_SEEN = 64,  /* ranks that those are held against, all together */
};
/* Ends of one operation on devices of one host, and the chance at which that many of them are no accident. */
#define FEW_WITHIN_NS 10000.0
#define FEW_CHANCE    0.01
#define FEW_OFF_NS    1000000.0 /* what clocks that are not one are off by at least */

rs_ns join_time(const struct join *join, size_t summary, rs_ns instant)
{
    const struct rs_job_clock *clock = &join->out->clocks[summary];
    if (clock->offset_ns == 0 && clock->drift_ppb == 0) {
        return instant;
    }
    const double drifted = (double)(instant - clock->at_ns) * 1e-9 * (double)clock->drift_ppb;
    return instant - clock->offset_ns - (rs_ns)llround(drifted);
}

rs_dur join_bound(const struct join *join, size_t a, size_t b)
{
    if (join->host[a] == join->host[b]) {
        return 0;
    }
    return join_sum(join->out->clocks[a].bound_ns, join->out->clocks[b].bound_ns);
}

/* ---- domains one after another ------------------------------------------------------------- */

static int compare_kinds(const void *left, const void *right)
{
    const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

struct partner {
    size_t common, summary;
};

/* Kinds of rows that two ranks have in common: both lists sorted. */
static size_t common_kinds(const uint64_t *a, size_t a_count, const uint64_t *b, size_t b_count)
{
    size_t i = 0, k = 0, common = 0;
    while (i < a_count && k < b_count) {
        common += a[i] == b[k];
        const bool is_a = a[i] <= b[k], is_b = b[k] <= a[i];
        i += is_a;
        k += is_b;
    }
    return common;
}

struct kinds {
    uint64_t *items;
    size_t count;
};

static enum rs_status collect_kinds(const struct fitting *fit, struct kinds *kinds)
{
    for (size_t s = 0; s < fit->join->out->summary_count; s++) {
        const struct witnesses *rows = &fit->rows[s];
        kinds[s].items = rs_mem_calloc(rows->count + 1, sizeof *kinds[s].items);
        if (kinds[s].items == NULL) {
            return RS_NOMEM;
        }
        for (size_t i = 0; i < rows->count; i++) {
            kinds[s].items[i] = rows->items[i].kind;
        }
        qsort(kinds[s].items, rows->count, sizeof *kinds[s].items, compare_kinds);
        size_t kept = 0;
        for (size_t i = 0; i < rows->count; i++) {
            if (kept == 0 || kinds[s].items[kept - 1] != kinds[s].items[i]) {
                kinds[s].items[kept++] = kinds[s].items[i];
            }
        }
        kinds[s].count = kept;
    }
    return RS_OK;
}

/* The aligned ranks that share most kinds of rows with s; ties: the lowest. */
static size_t find_partners(const struct fitting *fit, const struct kinds *kinds,
                            const bool *is_aligned, size_t s, struct partner *partners)
{
    const struct rs_analysis *out = fit->join->out;
    size_t count = 0, looked_at = 0;
    for (size_t t = 0; t < out->summary_count && looked_at < PARTNERS_SEEN; t++) {
        if (!is_aligned[t] || fit->rows[t].count == 0) {
            continue;
        }
        looked_at++;
        const size_t common =
            common_kinds(kinds[s].items, kinds[s].count, kinds[t].items, kinds[t].count);
        size_t at = count;
        if (common == 0 || (count == PARTNERS_TRIED && common <= partners[count - 1].common)) {
            continue;
        }
        if (count < PARTNERS_TRIED) {
            count++;
        } else {
            at--;
        }
        for (; at > 0 && partners[at - 1].common < common; at--) {
            partners[at] = partners[at - 1];
        }
        partners[at] = (struct partner){common, t};
    }
    return count;
}

/* b's clock against the reference, through an aligned a. */
static struct rs_job_clock through(const struct join *join, size_t a, const struct estimate *e)
{
    const struct rs_job_clock *known = &join->out->clocks[a];
    struct rs_job_clock clock = {.method = RS_CLOCK_ENDS, .at_ns = e->at};
    const rs_ns a_time = e->at - (rs_ns)llround(e->line.offset);
    clock.offset_ns = e->at - join_time(join, a, a_time);
    clock.drift_ppb = (int64_t)llround(e->line.drift * 1e9) + known->drift_ppb;
    clock.bound_ns = known->bound_ns + LEAST_BOUND_NS + (rs_dur)llround(3 * e->line.spread);
    return clock;
}

/* ---- few rows ------------------------------------------------------------------------------- */

struct ended {
    uint64_t kind;
    rs_ns end;
};

static int compare_ended(const void *left, const void *right)
{
    const struct ended *a = left, *b = right;
    if (a->kind != b->kind) {
        return a->kind > b->kind ? 1 : -1;
    }
    return (a->end > b->end) - (a->end < b->end);
}

static bool stands_as_it_is(const struct join *join, size_t s)
{
    return !clock_names_host(join, s) && join->out->clocks[s].offset_ns == 0 &&
           join->out->clocks[s].drift_ppb == 0;
}

/* Rows of aligned ranks whose files name no host and whose clocks are the reference's, by kind and end. */
static struct ended *rows_as_they_stand(const struct fitting *fit, const bool *is_aligned,
                                        size_t *count_p)
{
    const struct rs_analysis *out = fit->join->out;
    size_t room = 0, ranks = 0;
    for (size_t t = 0; t < out->summary_count && ranks < STANDING_SEEN; t++) {
        const bool is_meant = is_aligned[t] && stands_as_it_is(fit->join, t);
        ranks += is_meant;
        room += is_meant ? fit->rows[t].count : 0;
    }
    struct ended *rows = rs_mem_calloc(room + 1, sizeof *rows);
    size_t count = 0;
    for (size_t t = 0; rows != NULL && count < room; t++) {
        for (size_t i = 0; is_aligned[t] && stands_as_it_is(fit->join, t) && i < fit->rows[t].count;
             i++) {
            rows[count++] = (struct ended){fit->rows[t].items[i].kind, fit->rows[t].items[i].end};
        }
    }
    if (count > 1) {
        qsort(rows, count, sizeof *rows, compare_ended);
    }
    *count_p = count;
    return rows;
}

/* How near the nearest row of this kind ended, and what part of the time from the first to the last is as near to one: of the time that
 * clocks may be off by, where there is only one. */
static double nearest_ended(const struct ended *rows, size_t count, const struct witness *own,
                            double *chance_p)
{
    double nearest = HUGE_VAL, covered = 0, first = 0, last = 0;
    for (size_t i = 0; i < count; i++) {
        if (rows[i].kind != own->kind) {
            continue;
        }
        const double at = (double)(rows[i].end - own->end);
        first = isinf(nearest) ? at : first;
        covered += isinf(nearest) ? 2 * FEW_WITHIN_NS : fmin(at - last, 2 * FEW_WITHIN_NS);
        nearest = fmin(nearest, fabs(at));
        last = at;
    }
    *chance_p = fmin(1, covered / (fmax(last - first, FEW_OFF_NS) + 2 * FEW_WITHIN_NS));
    return nearest;
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

/* A file without a host of which little is left: too little to vote. But that it stands as others do is one guess, not many, and if all of
 * them together bear it out more often than chance would, it does. */
static enum rs_status align_few(struct fitting *fit, const bool *is_aligned, size_t s,
                                bool *found_p)
{
    struct rs_job_clock *clock = &fit->join->out->clocks[s];
    const struct witnesses *own = &fit->rows[s];
    size_t count, near = 0;
    double mean = 0, spread = 0;
    if (own->count < 2 || own->count > FEW_ROWS || clock_names_host(fit->join, s)) {
        return RS_OK;
    }
    struct ended *rows = rows_as_they_stand(fit, is_aligned, &count);
    if (rows == NULL) {
        return RS_NOMEM;
    }
    for (size_t i = 0; i < own->count; i++) {
        double chance;
        const double apart = nearest_ended(rows, count, &own->items[i], &chance);
        mean += chance / (double)own->count;
        near += apart <= FEW_WITHIN_NS;
        spread = apart <= FEW_WITHIN_NS ? fmax(spread, apart) : spread;
    }
    rs_mem_free(rows);
    if (near >= 2 && 2 * near > own->count && chance_of(near, own->count, mean) <= FEW_CHANCE) {
        *clock = (struct rs_job_clock){.method = RS_CLOCK_ENDS,
                                       .at_ns = own->items[0].end,
                                       .bound_ns = LEAST_BOUND_NS + (rs_dur)llround(3 * spread)};
        *found_p = true;
    }
    return RS_OK;
}

static enum rs_status align_domain(struct fitting *fit, const struct kinds *kinds,
                                   const bool *is_aligned, size_t s, bool *found_p)
{
    struct join *join = fit->join;
    const struct rs_analysis *out = join->out;
    struct partner partners[PARTNERS_TRIED];
    struct estimate best = {.pairs = 0};
    size_t with = 0;
    const size_t count = find_partners(fit, kinds, is_aligned, s, partners);
    for (size_t k = 0; k < count; k++) {
        struct estimate one;
        bool found;
        const enum rs_status status = fit_two(fit, partners[k].summary, s, &one, &found);
        if (status != RS_OK) {
            return status;
        }
        if (found && (best.pairs == 0 || one.line.spread < best.line.spread / 2 ||
                      (one.line.spread <= best.line.spread * 2 && one.pairs > best.pairs))) {
            best = one;
            with = partners[k].summary;
        }
    }
    *found_p = best.pairs > 0;
    if (!*found_p) {
        return align_few(fit, is_aligned, s, found_p);
    }
    const struct rs_job_clock clock = through(join, with, &best);
    for (size_t t = 0; t < out->summary_count; t++) {
        if (join->host[t] == join->host[s]) {
            join->out->clocks[t] = clock;
        }
    }
    return RS_OK;
}

/* The island of the lowest rank that is in none yet: all that can be joined to it. */
static enum rs_status grow_island(struct fitting *fit, const struct kinds *kinds, bool *is_aligned,
                                  size_t seed)
{
    struct join *join = fit->join;
    const size_t count = join->out->summary_count;
    bool *is_in = rs_mem_calloc(count + 1, sizeof *is_in);
    if (is_in == NULL) {
        return RS_NOMEM;
    }
    enum rs_status status = RS_OK;
    const uint32_t island = join->host[seed];
    for (size_t t = 0; t < count; t++) {
        is_in[t] = join->host[t] == island;
    }
    for (bool is_new = true; is_new && status == RS_OK;) {
        is_new = false;
        for (size_t s = 0; s < count && status == RS_OK; s++) {
            bool found = false;
            if (is_in[s] || is_aligned[s] || !join->out->ranks[s].takes_part) {
                continue;
            }
            status = align_domain(fit, kinds, is_in, s, &found);
            for (size_t t = 0; found && status == RS_OK && t < count; t++) {
                is_in[t] = is_in[t] || join->host[t] == join->host[s];
            }
            is_new = is_new || (status == RS_OK && found);
        }
    }
    for (size_t t = 0; t < count; t++) {
        if (is_in[t]) {
            is_aligned[t] = true;
            join->domain[t] = island;
        }
    }
    rs_mem_free(is_in);
    return status;
}

static void fitting_fini(struct fitting *fit)
{
    for (size_t s = 0; fit->rows != NULL && s < fit->join->out->summary_count; s++) {
        rs_mem_free(fit->rows[s].items);
    }
    rs_mem_free(fit->rows);
    rs_mem_free(fit->votes);
    rs_mem_free(fit->seen);
    rs_mem_free(fit->points);
    rs_mem_free(fit->sorted);
}

/* Aligns what can be aligned; *domains_p: how many domains are left. */
static enum rs_status align_all(struct join *join, bool has_steps, size_t *domains_p)
{
    const size_t count = join->out->summary_count;
    struct fitting fit = {.join = join, .has_steps = has_steps};
    bool *is_aligned = rs_mem_calloc(count + 1, sizeof *is_aligned);
    struct kinds *kinds = rs_mem_calloc(count + 1, sizeof *kinds);
    fit.rows = rs_mem_calloc(count + 1, sizeof *fit.rows);
    fit.votes = rs_mem_calloc((size_t)VOTE_ROWS * (2 * VOTE_NEAR + 1), sizeof *fit.votes);
    fit.seen = rs_mem_calloc(VOTE_ROWS, sizeof *fit.seen);
    enum rs_status status = RS_NOMEM;
    *domains_p = 0;
    if (is_aligned != NULL && kinds != NULL && fit.rows != NULL && fit.votes != NULL &&
        fit.seen != NULL) {
        status = fit_collect_witnesses(&fit);
    }
    if (status == RS_OK) {
        status = collect_kinds(&fit, kinds);
    }
    for (size_t s = 0; s < count && status == RS_OK; s++) {
        if (!is_aligned[s] && join->out->ranks[s].takes_part) {
            status = grow_island(&fit, kinds, is_aligned, s);
            ++*domains_p;
        }
    }
    for (size_t s = 0; s < count && kinds != NULL; s++) {
        rs_mem_free(kinds[s].items);
    }
    rs_mem_free(kinds);
    rs_mem_free(is_aligned);
    fitting_fini(&fit);
    return status;
}

/* Numbers of steps first: they tell apart what else looks alike. Where ranks count their steps differently, without. */
enum rs_status clock_align(struct join *join)
{
    const size_t count = join->out->summary_count;
    size_t with, without;
    enum rs_status status = align_all(join, true, &with);
    if (status != RS_OK || with < 2) {
        return status;
    }
    struct rs_job_clock *clocks = rs_mem_calloc(count + 1, sizeof *clocks);
    uint32_t *domains = rs_mem_calloc(count + 1, sizeof *domains);
    if (clocks == NULL || domains == NULL) {
        rs_mem_free(clocks);
        rs_mem_free(domains);
        return RS_NOMEM;
    }
    memcpy(clocks, join->out->clocks, count * sizeof *clocks);
    memcpy(domains, join->domain, count * sizeof *domains);
    status = clock_domains(join);
    if (status == RS_OK) {
        status = align_all(join, false, &without);
    }
    if (status == RS_OK && without >= with) {
        memcpy(join->out->clocks, clocks, count * sizeof *clocks);
        memcpy(join->domain, domains, count * sizeof *domains);
    }
    rs_mem_free(clocks);
    rs_mem_free(domains);
    return status;
}

rs_ns rs_analysis_time(const struct rs_analysis *analysis, size_t summary_index, rs_ns instant)
{
    if (analysis->clocks == NULL) { /* made by hand: one clock */
        return instant;
    }
    const struct join view = {.out = rs_const_away(analysis)};
    return join_time(&view, summary_index, instant);
}

rs_dur rs_analysis_clock_bound(const struct rs_analysis *analysis, size_t a, size_t b)
{
    if (analysis->clocks == NULL || analysis->clocks[a].clock == analysis->clocks[b].clock) {
        return 0;
    }
    if (analysis->clocks[a].domain != analysis->clocks[b].domain) {
        return RS_NS_MAX;
    }
    return join_sum(analysis->clocks[a].bound_ns, analysis->clocks[b].bound_ns);
}
