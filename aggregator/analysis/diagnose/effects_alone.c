/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks without peers (each stage of a pipeline is one rank): held against their own other steps.
 *
 *     host time      . . | . . | . . | . .        what takes as long in every step may be its work: nothing is said of that.
 *     of rank 3      0 1 2 3 4 5 6 7 8 9 10       What comes every k-th step, and equally long, is something else: a logger, a
 *                                                 checkpoint, a data loader that fetches.
 *
 *   z      a rank's step above the median of its steps, less what the others of the job are above theirs in the same step: what
 *          all do every k-th step (an evaluation) is nobody's
 *   hit    as in effects_hits.c: beyond DIAG_HIT_MAD of what cells differ by, and DIAG_HIT_STEP_SHARE of a step
 *   p      the share of choices of as many steps that are as regular, times the chance that pauses are so equally long, times the
 *          ranks that were looked at, in two figures each. No beat: nothing is said, since there is nobody whose steps would
 *          have been as likely
 */
#include "aggregator/analysis/diagnose/effects_priv.h"
#include "common/base/mem.h"

#include <math.h>

enum { FIGURES = 2 }; /* heads and idle times: a beat is looked for in both */

struct alone {
    struct finder *finder;
    enum diag_what what;
    size_t workers, steps;
    double *y;       /* [worker * steps] host time; NAN unknown */
    double *z;       /* [worker * steps] */
    double *scratch; /* [larger of the two] */
    uint8_t *is_hit; /* [steps] */
};

static void take_times(struct alone *alone)
{
    const struct diag_model *model = alone->finder->model;
    const uint8_t figure = alone->what == DIAG_HEAD ? RS_FIGURE_HOST_HEAD : RS_FIGURE_HOST_INSIDE;
    for (size_t i = 0; i < alone->workers * alone->steps; i++)
        alone->y[i] = (double)NAN;
    for (size_t i = 0; i < model->item_count; i++) {
        const struct diag_item *item = &model->items[i];
        if (item->figure != figure || item->step >= alone->steps)
            continue;
        double *y = &alone->y[item->worker * alone->steps + item->step];
        *y = (isnan(*y) ? 0 : *y) + (double)diag_value(model, item);
    }
}

/* Those of `values` that are known; how many. */
static size_t take_known(const double *values, size_t count, size_t stride, double *found)
{
    size_t known = 0;
    for (size_t i = 0; i < count; i++)
        if (!isnan(values[i * stride]))
            found[known++] = values[i * stride];
    return known;
}

/* y less the rank's own median. */
static void take_levels_out(struct alone *alone)
{
    for (size_t w = 0; w < alone->workers; w++) {
        double *y = &alone->y[w * alone->steps];
        const size_t known = take_known(y, alone->steps, 1, alone->scratch);
        const double level = diag_median(alone->scratch, known);
        for (size_t k = 0; k < alone->steps; k++)
            y[k] -= level; /* nothing is known: none of them is */
    }
}

/* z: less what the others are above theirs in that step. */
static void take_common_out(struct alone *alone)
{
    for (size_t k = 0; k < alone->steps; k++) {
        const size_t known = take_known(&alone->y[k], alone->workers, alone->steps, alone->scratch);
        (void)diag_median(alone->scratch, known); /* sorts */
        for (size_t w = 0; w < alone->workers; w++) {
            const size_t at = w * alone->steps + k;
            const double own = alone->y[at];
            const double others =
                isnan(own) ? 0 : effect_median_of_others(alone->scratch, known, own, known - 1);
            alone->z[at] = own - (others > 0 ? others : 0);
        }
    }
}

static enum rs_status name_it(const struct alone *alone, size_t worker,
                              const struct diag_element *found)
{
    struct diag_effects *effects = alone->finder->effects;
    const double *z = &alone->z[worker * alone->steps];
    struct diag_element element = *found;
    element.by_step = rs_mem_calloc(alone->steps + 1, sizeof *element.by_step);
    if (element.by_step == NULL ||
        rs_mem_grow((void **)&effects->elements, &effects->capacity, effects->count + 1,
                    sizeof *effects->elements) != RS_OK) {
        rs_mem_free(element.by_step);
        return RS_NOMEM;
    }
    for (size_t k = 0; k < alone->steps; k++) {
        element.by_step[k] = alone->is_hit[k] ? z[k] : 0;
        element.effect += element.by_step[k] / (double)element.hits;
    }
    effects->elements[effects->count++] = element;
    return RS_OK;
}

static enum rs_status judge(struct alone *alone, size_t worker, double candidates)
{
    const double *z = &alone->z[worker * alone->steps];
    double *scratch = alone->scratch;
    size_t known = 0;
    for (size_t k = 0; k < alone->steps; k++)
        if (!isnan(z[k]))
            scratch[known++] = fabs(z[k]);
    const double noise = known > 0 ? 1.4826 * diag_median(scratch, known) : (double)INFINITY;
    const double by_noise = DIAG_HIT_MAD / 1.4826 * noise;
    const double limit = fmax(by_noise, DIAG_HIT_STEP_SHARE * alone->finder->step_ns);
    struct diag_element element = {.what = alone->what,
                                   .id = (uint32_t)worker,
                                   .position = GRAPH_NONE,
                                   .is_additive = true,
                                   .is_of_own_steps = true,
                                   .se = noise,
                                   .noise = noise,
                                   .limit = limit,
                                   .input = -1};
    for (size_t k = 0; k < alone->steps; k++) {
        alone->is_hit[k] = z[k] > limit;
        scratch[k] = alone->is_hit[k];
    }
    effect_find_period(scratch, alone->steps, 0.5, &element);
    if (element.hits < (size_t)DIAG_ALONE_HITS || element.period < 2)
        return RS_OK;
    element.p = effect_regularity(&element, alone->steps) *
                effect_likeness(z, alone->is_hit, alone->steps) * candidates * FIGURES;
    return element.p <= DIAG_LEVEL_WEAK ? name_it(alone, worker, &element) : RS_OK;
}

/* No other rank of its class has work. */
static bool is_alone(const struct finder *finder, size_t worker)
{
    const struct diag_worker *own = &finder->model->workers[worker];
    return own->is_judged && own->has_device && finder->tables[own->class_id].n == 1;
}

enum rs_status effect_name_alone(struct finder *finder, enum diag_what what)
{
    const struct diag_model *model = finder->model;
    struct alone alone = {
        .finder = finder, .what = what, .workers = model->worker_count, .steps = model->step_count};
    size_t candidates = 0;
    for (size_t w = 0; w < alone.workers; w++)
        candidates += is_alone(finder, w);
    if (candidates == 0 || finder->shares_cores)
        return RS_OK; /* a scheduler makes pauses of its own */
    const size_t cells = alone.workers * alone.steps;
    alone.y = rs_mem_calloc(cells + 1, sizeof *alone.y);
    alone.z = rs_mem_calloc(cells + 1, sizeof *alone.z);
    alone.scratch = rs_mem_calloc(alone.workers + alone.steps + 1, sizeof *alone.scratch);
    alone.is_hit = rs_mem_calloc(alone.steps + 1, 1);
    enum rs_status status = alone.y && alone.z && alone.scratch && alone.is_hit ? RS_OK : RS_NOMEM;
    if (status == RS_OK) {
        take_times(&alone);
        take_levels_out(&alone);
        take_common_out(&alone);
    }
    for (size_t w = 0; w < alone.workers && status == RS_OK; w++)
        status = is_alone(finder, w) ? judge(&alone, w, (double)candidates) : RS_OK;
    rs_mem_free(alone.y);
    rs_mem_free(alone.z);
    rs_mem_free(alone.scratch);
    rs_mem_free(alone.is_hit);
    return status;
}
