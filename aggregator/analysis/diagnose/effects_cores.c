/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks without a device that share cores: what the scheduler does to them, and what it cannot do.
 *
 *   it only adds   time to a step, now to this rank, now to that, often to one of them for many steps in turn. So a mean says little:
 *                  levels are medians over steps, and what lasts must stand in (almost) every step, above what peers usually need
 *   it has no beat what is late in every k-th step, and only there, is no scheduling: the exact chance of the ranks (Wilcoxon), or of the highest, of those
 *                  steps among all, over all beats that were tried. It does not ask how large the noise is
 *   it spares no   rank: what falls on many of them, long enough to be told, is `jitter` and nobody's
 *   it adds no     operators: a rank that runs more of them than its peers has more to do, whatever the noise. It is not part of the
 *   work           level, and its excess needs no excuse in ordinary differences
 */
#include "aggregator/analysis/diagnose/effects_priv.h"
#include "aggregator/analysis/median.h"
#include "common/base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- lasting --------------------------------------------------------------------------- */

static int compare_doubles(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* What a step of the others usually needs. `scratch`: cells of the panel. */
static double usual_of_others(const struct diag_panel *panel, size_t m, double *scratch)
{
    size_t count = 0;
    for (size_t u = 0; u < panel->n; u++) {
        for (size_t k = 0; k < panel->steps && u != m; k++) {
            const double y = panel->y[u * panel->steps + k];
            if (!isnan(y)) {
                scratch[count++] = y;
            }
        }
    }
    return rs_median(scratch, count);
}

enum rs_status effect_stands_throughout(const struct diag_panel *panel, size_t m, bool *stands_p)
{
    double *cells = rs_mem_calloc(panel->n * panel->steps + 1, sizeof *cells);
    if (cells == NULL) {
        return RS_NOMEM;
    }
    const double usual = usual_of_others(panel, m, cells);
    size_t count = 0;
    for (size_t k = 0; k < panel->steps; k++) {
        const double y = panel->y[m * panel->steps + k];
        if (!isnan(y)) {
            cells[count++] = y;
        }
    }
    qsort(cells, count, sizeof *cells, compare_doubles);
    const size_t spared = (size_t)(DIAG_LASTING_SPARED * (double)count);
    *stands_p =
        count > 0 && cells[spared] - usual >= DIAG_LASTING_LEAST * (panel->a[m] - panel->base);
    rs_mem_free(cells);
    return RS_OK;
}

/* ---- every k-th step ------------------------------------------------------------------- */

enum { EXACT_STEPS = 64 };
static const size_t beats_min = 3;

struct beat {
    size_t period, phase;
    size_t beats, sum,
        high;     /* steps on it, sum of their places, and how many are among as many highest */
    double tried; /* beats that were looked at */
};

/* Of `steps` places (1 to steps) `beats` are drawn: chance that their sum is at least `sum`. Exact for few steps by counting
 * subsets, else by the normal approximation. */
static double chance_of_sum(size_t steps, size_t beats, size_t sum, double *ways)
{
    if (steps > EXACT_STEPS) {
        const double b = (double)beats, n = (double)steps;
        const double sd = sqrt(b * (n - b) * (n + 1) / 12);
        return 0.5 * erfc(((double)sum - 0.5 - b * (n + 1) / 2) / sd / sqrt(2));
    }
    const size_t most = steps * (steps + 1) / 2 + 1;
    memset(ways, 0, (beats + 1) * most * sizeof *ways);
    ways[0] = 1;
    for (size_t place = 1; place <= steps; place++) {
        for (size_t b = beats < place ? beats : place; b > 0; b--) {
            for (size_t s = most; s-- > place;) {
                ways[b * most + s] += ways[(b - 1) * most + s - place];
            }
        }
    }
    double all = 0, reached = 0;
    for (size_t s = 0; s < most; s++) {
        all += ways[beats * most + s];
        reached += s >= sum ? ways[beats * most + s] : 0;
    }
    return all > 0 ? reached / all : 1;
}

static double log_choose(double n, double k)
{
    int sign;
    return lgamma_r(n + 1, &sign) - lgamma_r(k + 1, &sign) - lgamma_r(n - k + 1, &sign);
}

/* Chance that at least `high` of the `beats` are among as many highest of `steps`: it minds one beat that was missed less than
 * the sum of places does. */
static double chance_of_high(size_t steps, size_t beats, size_t high)
{
    const double n = (double)steps, b = (double)beats;
    double chance = 0;
    for (size_t k = high; k <= beats; k++) {
        const double out = b - (double)k; /* beats that are elsewhere */
        if (out <= n - b) {
            chance += exp(log_choose(b, out) + log_choose(n - b, out) - log_choose(n, b));
        }
    }
    return fmin(1, chance);
}

struct placed {
    double z;
    size_t step;
};

static int by_z(const void *left, const void *right)
{
    const struct placed *a = left, *b = right;
    if (a->z < b->z || a->z > b->z) {
        return a->z > b->z ? 1 : -1;
    }
    return (a->step > b->step) - (a->step < b->step);
}

static size_t sum_of(const size_t *place, size_t steps, size_t period, size_t phase,
                     size_t *beats_p)
{
    size_t sum = 0;
    *beats_p = 0;
    for (size_t k = phase; k < steps; k += period) {
        sum += place[k];
        (*beats_p)++;
    }
    return sum;
}

/* The beat whose steps stand highest among all: the one of the largest distance from the mean, in standard deviations. */
static struct beat best_beat(const size_t *place, size_t steps)
{
    struct beat best = {.period = 0};
    double farthest = 0, tried = 0;
    for (size_t period = 2; period * beats_min <= steps; period++) {
        for (size_t phase = 0; phase < period; phase++) {
            size_t beats;
            const size_t sum = sum_of(place, steps, period, phase, &beats);
            const double b = (double)beats, n = (double)steps;
            const double sd = sqrt(b * (n - b) * (n + 1) / 12);
            const double far = ((double)sum - b * (n + 1) / 2) / sd;
            tried += 1;
            if (far > farthest) {
                farthest = far;
                best = (struct beat){.period = period, .phase = phase, .beats = beats, .sum = sum};
            }
        }
    }
    best.tried = tried;
    for (size_t k = best.phase; best.period > 0 && k < steps; k += best.period) {
        best.high += place[k] > steps - best.beats;
    }
    return best;
}

/* The exact chance counts millions of subsets: only a beat that has all else of one is worth that. */
static enum rs_status chance_of_beat(const struct beat *beat, size_t steps, double *chance_p)
{
    const size_t most = steps < EXACT_STEPS ? steps : EXACT_STEPS;
    double *ways = rs_mem_calloc((most + 1) * (most * (most + 1) / 2 + 1), sizeof *ways);
    if (ways == NULL) {
        return RS_NOMEM;
    }
    const double chance = fmin(chance_of_sum(steps, beat->beats, beat->sum, ways),
                               chance_of_high(steps, beat->beats, beat->high));
    *chance_p = fmin(1, 2 * beat->tried * chance); /* two questions were asked */
    rs_mem_free(ways);
    return RS_OK;
}

static bool is_beat(const struct beat *beat, size_t k)
{
    return k >= beat->phase && (k - beat->phase) % beat->period == 0;
}

/* Almost all steps on the beat are late by at least half of what is usual there, and few others are: trouble that moves from rank to
 * rank may fall on one of them at a beat more often than not. */
static bool is_kept(const struct beat *beat, const double *z, size_t steps, double on)
{
    double beats = 0, kept = 0, others = 0, late = 0;
    for (size_t k = 0; k < steps; k++) {
        const bool is_late = z[k] >= DIAG_LASTING_LEAST * on;
        *(is_beat(beat, k) ? &beats : &others) += 1;
        *(is_beat(beat, k) ? &kept : &late) += is_late;
    }
    return beats - kept <= floor(DIAG_LASTING_SPARED * beats) &&
           late <= 2 * DIAG_LASTING_SPARED * others;
}

/* Median of the steps on the beat, or of those off it. */
static double median_of(const struct beat *beat, const double *z, size_t steps, bool on,
                        double *scratch)
{
    size_t count = 0;
    for (size_t k = 0; k < steps; k++) {
        if (is_beat(beat, k) == on) {
            scratch[count++] = z[k];
        }
    }
    return rs_median(scratch, count);
}

/* A beat has three steps or more, and the median of its steps is at least `least`: so at least two are. */
static bool may_have_beat(const double *z, size_t steps, double least)
{
    size_t late = 0;
    for (size_t k = 0; k < steps; k++) {
        if (isnan(z[k])) {
            return false;
        }
        late += z[k] >= least;
    }
    return late >= 2 && steps >= 2 * beats_min;
}

static enum rs_status find_beat(const double *z, size_t steps, struct beat *beat_p)
{
    struct placed *sorted = rs_mem_calloc(steps + 1, sizeof *sorted);
    size_t *place = rs_mem_calloc(steps + 1, sizeof *place);
    const enum rs_status status = sorted != NULL && place != NULL ? RS_OK : RS_NOMEM;
    for (size_t k = 0; status == RS_OK && k < steps; k++) {
        sorted[k] = (struct placed){z[k], k};
    }
    if (status == RS_OK) {
        qsort(sorted, steps, sizeof *sorted, by_z);
        for (size_t k = 0; k < steps; k++) {
            place[sorted[k].step] = k + 1;
        }
        *beat_p = best_beat(place, steps);
    }
    rs_mem_free(sorted);
    rs_mem_free(place);
    return status;
}

/* The cheap questions first: most ranks have no beat. */
enum rs_status effect_name_beat(struct finder *finder, const struct diag_pool *pool,
                                struct hits *hits, enum diag_what what, size_t at, bool *is_named_p)
{
    const size_t steps = finder->model->step_count;
    const double *z = &hits->z[at * steps];
    const struct diag_panel *panel = hits->panel[at];
    const double least =
        panel->is_additive ? DIAG_WORTH_SHARE * finder->step_ns : log(DIAG_LINK_FACTOR);
    struct beat beat = {.period = 0};
    double chance = 1;
    *is_named_p = false;
    if (!may_have_beat(z, steps, least)) {
        return RS_OK;
    }
    if (find_beat(z, steps, &beat) != RS_OK) {
        return RS_NOMEM;
    }
    if (beat.period == 0) {
        return RS_OK;
    }
    const double on = median_of(&beat, z, steps, true, finder->scratch);
    const double off = median_of(&beat, z, steps, false, finder->scratch);
    if (on < least || fabs(off) > 0.25 * on || !is_kept(&beat, z, steps, on)) {
        return RS_OK;
    }
    if (chance_of_beat(&beat, steps, &chance) != RS_OK) {
        return RS_NOMEM;
    }
    const double p = chance * (double)hits->n * finder->tests;
    if (p > DIAG_LEVEL_WEAK) {
        return RS_OK;
    }
    struct diag_element *element = NULL;
    if (effect_element_new(finder, panel, hits->member[at], what, &element) != RS_OK) {
        return RS_NOMEM;
    }
    effect_set_test(finder, pool, panel, hits->member[at], element);
    element->by_step = rs_mem_calloc(steps + 1, sizeof *element->by_step);
    if (element->by_step == NULL) {
        return RS_NOMEM;
    }
    element->p = p;
    element->p_ordinary = 0; /* ordinary differences have no beat */
    element->hits = 0;
    for (size_t k = 0; k < steps; k++) {
        /* Noise beside the trouble is not the trouble's: no step is charged with more than is usual on the beat. */
        element->by_step[k] = is_beat(&beat, k) ? fmin(on, fmax(0, z[k])) : 0;
        element->hits += is_beat(&beat, k);
    }
    element->effect = on;
    element->has_beat = true;
    element->period = beat.period;
    element->first = element->phase = beat.phase;
    hits->is_lasting[at] = 1;
    *is_named_p = true;
    return RS_OK;
}

/* ---- pauses of many ranks -------------------------------------------------------------- */

static bool is_named(const struct diag_effects *effects, uint32_t worker)
{
    for (size_t i = 0; i < effects->count; i++) {
        const enum diag_what what = effects->elements[i].what;
        if (effects->elements[i].id == worker &&
            (what == DIAG_RANK || what == DIAG_HEAD || what == DIAG_IDLE)) {
            return true;
        }
    }
    return false;
}

/* above[m][k]: what the step took longer than the member's own quick ones (lower quartile), less what all members had of that. */
static void steps_above(const struct diag_panel *panel, double *above, double *scratch)
{
    for (size_t m = 0; m < panel->n; m++) {
        size_t count = 0;
        for (size_t k = 0; k < panel->steps; k++) {
            const double y = panel->y[m * panel->steps + k];
            if (!isnan(y)) {
                scratch[count++] = y;
            }
        }
        qsort(scratch, count, sizeof *scratch, compare_doubles);
        const double quick = count > 0 ? scratch[count / 4] : 0;
        for (size_t k = 0; k < panel->steps; k++) {
            above[m * panel->steps + k] = panel->y[m * panel->steps + k] - quick;
        }
    }
    for (size_t k = 0; k < panel->steps; k++) {
        double common = (double)INFINITY;
        for (size_t m = 0; m < panel->n; m++) {
            const double own = above[m * panel->steps + k];
            common = isnan(own) ? common : fmin(common, own);
        }
        for (size_t m = 0; m < panel->n; m++) {
            above[m * panel->steps + k] -= isinf(common) ? 0 : common;
        }
    }
}

/* Keeps what is long enough to be told; members without any are left out. Returns how many cells are kept. */
static size_t keep_pauses(const struct finder *finder, const struct hits *hits, const double *above,
                          struct diag_element *jitter)
{
    const size_t steps = finder->model->step_count;
    size_t cells = 0;
    for (size_t at = 0; at < hits->n; at++) {
        const uint32_t worker = hits->panel[at]->id[hits->member[at]];
        const bool counts = !is_named(finder->effects, worker);
        double *kept = &jitter->among_effects[jitter->among_count * steps];
        size_t own = 0;
        for (size_t k = 0; k < steps; k++) {
            const double cell = above[at * steps + k];
            const bool is_pause = counts && cell > DIAG_PAUSE_LEAST * finder->step_ns;
            kept[k] = is_pause ? cell : 0;
            own += is_pause;
        }
        if (own > 0) {
            jitter->among[jitter->among_count++] = worker;
        }
        cells += own;
    }
    return cells;
}

enum rs_status effect_add_pauses(struct finder *finder, const struct hits *hits,
                                 enum diag_what what)
{
    const size_t steps = finder->model->step_count;
    struct diag_element *jitter = &finder->effects->jitter;
    if (jitter->among_count > 0 || steps < 2 * beats_min) {
        return RS_OK;
    }
    struct diag_element found = {.what = DIAG_JITTER,
                                 .position = GRAPH_NONE,
                                 .is_additive = true,
                                 .is_idle = what == DIAG_IDLE,
                                 .peers = hits->n,
                                 .input = -1};
    double *above = rs_mem_calloc(hits->n * steps + 1, sizeof *above);
    double *scratch = rs_mem_calloc(steps + 1, sizeof *scratch);
    found.among = rs_mem_calloc(hits->n + 1, sizeof *found.among);
    found.among_effects = rs_mem_calloc((hits->n + 1) * steps, sizeof *found.among_effects);
    enum rs_status status = RS_NOMEM;
    if (above != NULL && scratch != NULL && found.among != NULL && found.among_effects != NULL) {
        for (size_t at = 0; at < hits->n; at += hits->panel[at]->n) {
            steps_above(hits->panel[at], &above[at * steps], scratch);
        }
        found.hits = keep_pauses(finder, hits, above, &found);
        status = RS_OK;
    }
    if (status == RS_OK && found.hits >= beats_min && found.among_count > 1) {
        *jitter = found;
    } else {
        rs_mem_free(found.among);
        rs_mem_free(found.among_effects);
    }
    rs_mem_free(above);
    rs_mem_free(scratch);
    return status;
}

/* ---- more operators -------------------------------------------------------------------- */

/* Operators of a worker's step; 0: not counted. */
static void count_operators(const struct diag_model *model, uint32_t worker, double *counts)
{
    memset(counts, 0, model->step_count * sizeof *counts);
    for (size_t i = model->item_first[worker]; i < model->item_first[worker + 1]; i++) {
        const struct diag_item *item = &model->items[i];
        if (item->figure == RS_FIGURE_COMPUTING && item->step < model->step_count &&
            item->kernels > 0) {
            counts[item->step] += item->kernels;
        }
    }
}

/* Median over steps: the profiler adds to the first and the last. */
static double usual_operators(const struct diag_model *model, uint32_t worker, double *scratch)
{
    count_operators(model, worker, scratch);
    return rs_median(scratch, model->step_count);
}

enum rs_status effect_find_operators(struct finder *finder, size_t c)
{
    const struct table *table = &finder->tables[c];
    if (!finder->shares_cores || finder->totals[c] == NULL) {
        return RS_OK;
    }
    double *own = rs_mem_calloc(2 * table->n + 1, sizeof *own);
    double *scratch = rs_mem_calloc(finder->model->step_count + 1, sizeof *scratch);
    if (own == NULL || scratch == NULL) {
        rs_mem_free(own);
        rs_mem_free(scratch);
        return RS_NOMEM;
    }
    double *sorted = own + table->n;
    for (size_t m = 0; m < table->n; m++) {
        own[m] = sorted[m] = usual_operators(finder->model, table->workers[m], scratch);
    }
    (void)diag_median(sorted, table->n); /* sorts */
    const double usual = diag_median(sorted, (table->n + 1) / 2);
    for (size_t m = 0; m < table->n && usual > 0; m++) {
        const bool has_more = own[m] > usual * DIAG_MORE_OPERATORS;
        finder->totals[c]->has_more_work[m] = finder->logs[c]->has_more_work[m] = has_more;
        finder->operators[table->workers[m]] = has_more ? own[m] : 0;
        finder->peers_operators[table->workers[m]] = usual;
    }
    rs_mem_free(own);
    rs_mem_free(scratch);
    return RS_OK;
}
