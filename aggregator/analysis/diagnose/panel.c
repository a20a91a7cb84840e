/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who stands out of a panel of equals? y[unit][step] of one figure, in logarithms or ns.
 *
 *   a[u]    mean over steps                      rest   y - a - what all units have in common in that step
 *   noise   root mean square of the rest, cells beyond 6 MAD left out, pooled over all panels of the figure
 *   level   median of the faster half of a, minus its bias; then mean of those that do not stand out, again
 *           until nothing changes (three times at most). Right as long as half of the units are healthy
 *   tau     ordinary differences: from the range of the faster halves, and of panels of two from the middle one of their
 *           differences, with a prior. Of ranks that share cores the
 *           prior is large, since the scheduler may favour some; but what it does shows in their steps, too, so the
 *           steadier they are seen to be, the smaller it gets
 *   apart   how far the healthy lie from their mean, noise and ordinary differences together: a unit is held against all the
 *           healthy *others*, since what stands out must not say by how much others may
 *
 * A unit's p: chance that noise (or ordinary differences) alone put it so far above the level. Formulas:
 * Student's t with the noise's degrees of freedom, its variance raised by that of the level. The level's bias
 * and variance stand in faster_half.def.
 */
#include "aggregator/analysis/diagnose/diagnose_priv.h"
#include "aggregator/analysis/median.h"
#include "common/base/mem.h"

#include <math.h>
#include <stdlib.h>

/* ---- Student's t: the incomplete beta function by its continued fraction (Lentz) --------- */

static double beta_fraction(double a, double b, double x)
{
    const double tiny = 1e-300;
    double c = 1, d = 1 - (a + b) * x / (a + 1);
    d = 1 / (fabs(d) < tiny ? tiny : d);
    double h = d;
    for (int m = 1; m <= 300; m++) {
        const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
        d = 1 + even * d;
        c = 1 + even / c;
        d = 1 / (fabs(d) < tiny ? tiny : d);
        c = fabs(c) < tiny ? tiny : c;
        h *= d * c;
        const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
        d = 1 + odd * d;
        c = 1 + odd / c;
        d = 1 / (fabs(d) < tiny ? tiny : d);
        c = fabs(c) < tiny ? tiny : c;
        const double step = d * c;
        h *= step;
        if (fabs(step - 1) < 1e-12) {
            break;
        }
    }
    return h;
}

static double log_gamma(double x)
{
    int sign;
    return lgamma_r(x, &sign);
}

static double incomplete_beta(double a, double b, double x)
{
    if (x <= 0 || x >= 1) {
        return x <= 0 ? 0 : 1;
    }
    const double front =
        exp(log_gamma(a + b) - log_gamma(a) - log_gamma(b) + a * log(x) + b * log1p(-x));
    return x < (a + 1) / (a + b + 2) ? front * beta_fraction(a, b, x) / a
                                     : 1 - front * beta_fraction(b, a, 1 - x) / b;
}

double diag_t_above(double t, double dof)
{
    const double half = 0.5 * incomplete_beta(dof / 2, 0.5, dof / (dof + t * t));
    return t >= 0 ? half : 1 - half;
}

double diag_t_quantile(double p_above, double dof)
{
    double low = 0, high = 1;
    if (p_above >= 0.5) {
        return 0;
    }
    while (diag_t_above(high, dof) > p_above && high < 1e12) {
        high *= 2;
    }
    for (int i = 0; i < 80; i++) {
        const double middle = (low + high) / 2;
        *(diag_t_above(middle, dof) > p_above ? &low : &high) = middle;
    }
    return high;
}

struct diag_half diag_faster_half(size_t n)
{
    static const struct {
        size_t n;
        struct diag_half half;
    } table[] = {
#define X(n, mean, variance, range) {n, {mean, variance, range}},
// NOLINTNEXTLINE(bugprone-suspicious-include)
#include "aggregator/analysis/diagnose/faster_half.def"
#undef X
    };
    const size_t last = sizeof table / sizeof table[0] - 1;
    if (n < 2) {
        return (struct diag_half){0, 1, 0};
    }
    if (n <= table[last].n) {
        return table[n - 2].half;
    }
    /* The faster half's median is the first quartile; its range grows with the smallest of n. */
    const double smallest = sqrt(2 * log((double)n));
    return (struct diag_half){-0.674, 1.86 / (double)n,
                              fmax(table[last].half.square_range, smallest * smallest * 0.7)};
}

static int compare_doubles(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

double diag_median(double *values, size_t count)
{
    if (count == 0) {
        return (double)NAN;
    }
    qsort(values, count, sizeof *values, compare_doubles);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

/* ---- one panel ------------------------------------------------------------------------- */

enum rs_status diag_panel_new(size_t n, size_t steps, struct diag_panel **panel_p)
{
    struct diag_panel *panel = rs_mem_calloc(1, sizeof *panel);
    if (panel == NULL) {
        return RS_NOMEM;
    }
    *panel = (struct diag_panel){.n = n, .steps = steps};
    panel->y = rs_mem_calloc(n * steps + 1, sizeof *panel->y);
    panel->rest = rs_mem_calloc(n * steps + 1, sizeof *panel->rest);
    panel->id = rs_mem_calloc(n + 1, sizeof *panel->id);
    panel->a = rs_mem_calloc(n + 1, sizeof *panel->a);
    panel->has_more_work = rs_mem_calloc(n + 1, 1);
    panel->p_noise = rs_mem_calloc(n + 1, sizeof *panel->p_noise);
    panel->p_tau = rs_mem_calloc(n + 1, sizeof *panel->p_tau);
    if (panel->y == NULL || panel->rest == NULL || panel->id == NULL || panel->a == NULL ||
        panel->p_noise == NULL || panel->p_tau == NULL || panel->has_more_work == NULL) {
        diag_panel_free(&panel);
        return RS_NOMEM;
    }
    for (size_t i = 0; i < n * steps; i++) {
        panel->y[i] = (double)NAN;
    }
    *panel_p = panel;
    return RS_OK;
}

void diag_panel_free(struct diag_panel **panel_p)
{
    struct diag_panel *panel = *panel_p;
    if (panel == NULL) {
        return;
    }
    rs_mem_free(panel->y);
    rs_mem_free(panel->rest);
    rs_mem_free(panel->id);
    rs_mem_free(panel->a);
    rs_mem_free(panel->p_noise);
    rs_mem_free(panel->p_tau);
    rs_mem_free(panel->has_more_work);
    rs_mem_free(panel);
    *panel_p = NULL;
}

/* `scratch`: as many values as there are cells. */
static void take_means(struct diag_panel *panel, double *scratch)
{
    for (size_t u = 0; u < panel->n; u++) {
        double sum = 0;
        size_t count = 0;
        for (size_t k = 0; k < panel->steps; k++) {
            const double y = panel->y[u * panel->steps + k];
            if (!isnan(y)) {
                sum += y;
                scratch[count++] = y;
            }
        }
        panel->a[u] = count == 0         ? (double)NAN
                      : panel->by_median ? rs_median(scratch, count)
                                         : sum / (double)count;
    }
    for (size_t k = 0; k < panel->steps; k++) {
        size_t count = 0;
        for (size_t u = 0; u < panel->n; u++) {
            const double rest = panel->y[u * panel->steps + k] - panel->a[u];
            if (!isnan(rest)) {
                scratch[count++] = rest;
            }
        }
        const double common = rs_median(scratch, count);
        for (size_t u = 0; u < panel->n; u++) {
            double *rest = &panel->rest[u * panel->steps + k];
            *rest = panel->y[u * panel->steps + k] - panel->a[u] - common;
        }
    }
}

static size_t known_sorted(const struct diag_panel *panel, double *sorted)
{
    size_t count = 0;
    for (size_t u = 0; u < panel->n; u++) {
        if (!isnan(panel->a[u]) && !panel->has_more_work[u]) {
            sorted[count++] = panel->a[u];
        }
    }
    qsort(sorted, count, sizeof *sorted, compare_doubles);
    return count;
}

/* ---- the pool --------------------------------------------------------------------------- */

static double pool_outlier(const struct diag_pool *pool, double *scratch)
{
    size_t count = 0;
    for (size_t p = 0; p < pool->count; p++) {
        const struct diag_panel *panel = pool->panels[p];
        for (size_t i = 0; i < panel->n * panel->steps; i++) {
            if (!isnan(panel->rest[i])) {
                scratch[count++] = fabs(panel->rest[i]);
            }
        }
    }
    return count > 0 ? DIAG_OUTLIER_MAD * 1.4826 * rs_median(scratch, count) : 0;
}

static void pool_noise(struct diag_pool *pool, double *scratch)
{
    const double outlier = pool_outlier(pool, scratch);
    double squares = 0, cells = 0, taken = 0;
    for (size_t p = 0; p < pool->count; p++) {
        const struct diag_panel *panel = pool->panels[p];
        double units = 0, steps = 0;
        for (size_t u = 0; u < panel->n; u++) {
            units += isnan(panel->a[u]) ? 0 : 1;
        }
        steps = (double)panel->steps;
        taken += steps > 1 && units > 1 ? units + steps - 1 : 0;
        for (size_t i = 0; i < panel->n * panel->steps; i++) {
            const double rest = panel->rest[i];
            if (!isnan(rest) && fabs(rest) <= outlier && steps > 1 && units > 1) {
                squares += rest * rest;
                cells += 1;
            }
        }
    }
    pool->dof = cells - taken;
    pool->noise = pool->dof >= 1 ? sqrt(squares / pool->dof) : 0;
}

double diag_own_variance(const struct diag_pool *pool, const struct diag_panel *panel)
{
    const double of_median = panel->by_median ? M_PI / 2 : 1;
    return of_median * pool->noise * pool->noise / (double)panel->steps;
}

/* How far ranks that share cores may lie apart: as the prior says while little was seen, then by how steady
 * their steps are, bursts included. */
static double prior_of_sharing(const struct diag_pool *pool, double prior)
{
    double squares = 0, cells = 0;
    for (size_t p = 0; p < pool->count; p++) {
        const struct diag_panel *panel = pool->panels[p];
        for (size_t i = 0; panel->steps > 1 && i < panel->n * panel->steps; i++) {
            if (!isnan(panel->rest[i])) {
                squares += panel->rest[i] * panel->rest[i];
                cells += 1;
            }
        }
    }
    const double seen = DIAG_TAU_SHARING_NOISE * DIAG_TAU_SHARING_NOISE * squares;
    const double own = DIAG_TAU_PRIOR_WEIGHT * prior * prior;
    return fmin(prior, sqrt((own + seen) / (DIAG_TAU_PRIOR_WEIGHT + cells)));
}

enum { PAIRS_MIN = 3, NORMAL_DOF = 1000000 };

/* Of two a faster half says nothing. The difference in the middle of several pairs does (the lower one of an even number), though
 * somebody is slow in half of them: it is sqrt(2) times that quantile of |N(0, 1)| as much as tau. True: *square_p is tau
 * squared, worth *dof_p differences. */
static bool tau_of_pairs(const struct diag_pool *pool, double *scratch, double *square_p,
                         double *dof_p)
{
    size_t pairs = 0;
    double own = 0;
    for (size_t p = 0; p < pool->count; p++) {
        double two[2] = {0, 0};
        const struct diag_panel *panel = pool->panels[p];
        size_t n = 0;
        for (size_t u = 0; u < panel->n; u++) {
            if (!isnan(panel->a[u]) && !panel->has_more_work[u] && n++ < 2) {
                two[n - 1] = panel->a[u];
            }
        }
        if (n == 2) {
            scratch[pairs++] = fabs(two[0] - two[1]);
            own += diag_own_variance(pool, panel);
        }
    }
    if (pairs < PAIRS_MIN) {
        return false;
    }
    qsort(scratch, pairs, sizeof *scratch, compare_doubles);
    const size_t middle = (pairs - 1) / 2;
    const double above = 1 - (double)(middle + 1) / (double)(pairs + 1);
    const double tau = scratch[middle] / (sqrt(2) * diag_t_quantile(above / 2, NORMAL_DOF));
    const double rest = tau * tau - own / (double)pairs;
    *square_p = rest > 0 ? rest : 0;
    const size_t half = pairs / 2;
    *dof_p = (double)half; /* a median is worth a good third of what it is of */
    return true;
}

static void pool_tau(struct diag_pool *pool, double prior, double *scratch)
{
    if (pool->shares_cores) {
        prior = fmax(DIAG_TAU_PRIOR, prior_of_sharing(pool, prior));
    }
    double squares = 0, dof = 0;
    for (size_t p = 0; p < pool->count; p++) {
        const struct diag_panel *panel = pool->panels[p];
        const size_t n = known_sorted(panel, scratch);
        const size_t half = (n + 1) / 2;
        if (half < 2) {
            continue;
        }
        const double range = scratch[half - 1] - scratch[0];
        const double square = range * range / diag_faster_half(n).square_range;
        const double rest = square - diag_own_variance(pool, panel);
        squares += (double)(half - 1) * (rest > 0 ? rest : 0);
        dof += (double)(half - 1);
    }
    double square, worth;
    if (tau_of_pairs(pool, scratch, &square, &worth)) {
        squares += worth * square;
        dof += worth;
    }
    pool->tau_dof = DIAG_TAU_PRIOR_WEIGHT + dof;
    pool->tau = sqrt((DIAG_TAU_PRIOR_WEIGHT * prior * prior + squares) / pool->tau_dof);
}

static bool is_healthy(const struct diag_panel *panel, size_t u, double limit)
{
    return !isnan(panel->a[u]) && !panel->has_more_work[u] && panel->a[u] <= limit;
}

/* Level of those that do not stand out at `limit` standard errors; see the head of this file. */
static void find_level(struct diag_pool *pool, struct diag_panel *panel, double tests,
                       double *scratch)
{
    const size_t n = known_sorted(panel, scratch);
    const size_t half = (n + 1) / 2;
    const struct diag_half table = diag_faster_half(n);
    const double variance = diag_own_variance(pool, panel) + pool->tau * pool->tau;
    const double se = sqrt(variance);
    const double dof = pool->dof >= 1 ? pool->dof : pool->tau_dof;
    panel->base = n > 0 ? diag_median(scratch, half) - table.mean * se : (double)NAN;
    panel->base_variance = table.variance;
    panel->healthy = panel->healthy_squares = 0;
    for (int round = 0; round < 3 && n > 2; round++) {
        const double limit =
            panel->base + se * sqrt(1 + panel->base_variance) *
                              diag_t_quantile(DIAG_LEVEL_WEAK / tests / (double)n, dof);
        double sum = 0, healthy = 0;
        for (size_t u = 0; u < panel->n; u++) {
            if (is_healthy(panel, u, limit)) {
                sum += panel->a[u];
                healthy += 1;
            }
        }
        if (healthy < (double)half) {
            break;
        }
        panel->base = sum / healthy;
        panel->base_variance = 1 / healthy;
        panel->healthy = healthy;
        panel->limit = limit;
    }
    for (size_t u = 0; u < panel->n && panel->healthy > 0; u++) {
        const double rest = is_healthy(panel, u, panel->limit) ? panel->a[u] - panel->base : 0;
        panel->healthy_squares += rest * rest;
    }
}

/* ---- against the others ----------------------------------------------------------------- */

/* How far the healthy of all panels lie from the mean of their own, and what is expected of them before any is seen. */
static void pool_apart(struct diag_pool *pool, double prior, double *scratch)
{
    double square, worth, own = 0;
    pool->apart_dof = DIAG_TAU_PRIOR_WEIGHT;
    pool->apart_squares = 0;
    for (size_t p = 0; p < pool->count; p++) {
        const struct diag_panel *panel = pool->panels[p];
        own = fmax(own, diag_own_variance(pool, panel));
        pool->apart_dof += panel->healthy > 1 ? panel->healthy - 1 : 0;
        pool->apart_squares += panel->healthy_squares;
    }
    pool->apart_squares += DIAG_TAU_PRIOR_WEIGHT * (prior * prior + own);
    if (tau_of_pairs(pool, scratch, &square, &worth)) {
        pool->apart_squares += worth * (square + own);
        pool->apart_dof += worth;
    }
}

/* Chance that what healthy others differ by puts this one so far above them. */
static double p_apart(const struct diag_pool *pool, const struct diag_panel *panel, size_t u)
{
    double base = panel->base, squares = pool->apart_squares, dof = pool->apart_dof;
    double variance = panel->base_variance;
    if (panel->healthy > 1 && is_healthy(panel, u, panel->limit)) {
        const double h = panel->healthy, rest = panel->a[u] - panel->base;
        base = (h * base - panel->a[u]) / (h - 1);
        squares = fmax(0, squares - rest * rest * h / (h - 1));
        dof -= 1;
        variance = 1 / (h - 1);
    }
    const double se = sqrt(squares / dof * (1 + variance));
    return se > 0 ? diag_t_above((panel->a[u] - base) / se, dof) : panel->a[u] > base ? 0 : 1;
}

/* Of the steps in which a unit is known; 1 where it is in none. */
static double known_part(const struct diag_panel *panel, size_t u)
{
    size_t known = 0;
    for (size_t k = 0; k < panel->steps; k++) {
        known += isnan(panel->y[u * panel->steps + k]) ? 0U : 1U;
    }
    return known > 0 ? (double)known / (double)panel->steps : 1;
}

enum rs_status diag_pool_judge(struct diag_pool *pool, double tau_prior, double tests)
{
    size_t cells = 1;
    for (size_t p = 0; p < pool->count; p++) {
        cells += pool->panels[p]->n * (pool->panels[p]->steps + 1);
    }
    double *scratch = rs_mem_calloc(cells, sizeof *scratch);
    if (scratch == NULL) {
        return RS_NOMEM;
    }
    for (size_t p = 0; p < pool->count; p++) {
        take_means(pool->panels[p], scratch);
    }
    pool_noise(pool, scratch);
    pool_tau(pool, tau_prior, scratch);
    double units = 0; /* levels are of a report, not of a panel */
    for (size_t p = 0; p < pool->count; p++) {
        units += (double)pool->panels[p]->n;
    }
    for (size_t p = 0; p < pool->count; p++) {
        find_level(pool, pool->panels[p], tests, scratch);
    }
    pool_apart(pool, tau_prior, scratch);
    for (size_t p = 0; p < pool->count; p++) {
        struct diag_panel *panel = pool->panels[p];
        const double spread = sqrt(1 + panel->base_variance);
        const double all_steps = sqrt(diag_own_variance(pool, panel));
        for (size_t u = 0; u < panel->n; u++) {
            const double effect = panel->a[u] - panel->base;
            const bool is_known = !isnan(effect) && panel->n > 1;
            const double se = all_steps / sqrt(known_part(panel, u));
            const double by_noise = se > 0 ? effect / (se * spread) : effect > 0 ? 1e6 : 0;
            const double by_tau = pool->tau > 0 ? effect / (pool->tau * spread) : 1e6;
            panel->p_noise[u] = is_known && pool->dof >= 1 ? diag_t_above(by_noise, pool->dof)
                                : is_known                 ? 0
                                                           : 1;
            const double p_tau =
                pool->shares_cores ? diag_t_above(by_tau, pool->tau_dof) : p_apart(pool, panel, u);
            panel->p_tau[u] = is_known ? p_tau * units : 1;
            /* More work is no ordinary difference, where noise is known and it made the unit slower. */
            if (panel->has_more_work[u] && pool->dof >= 1 && effect > 0) {
                panel->p_tau[u] = panel->p_noise[u] * units;
            }
        }
    }
    rs_mem_free(scratch);
    return RS_OK;
}
