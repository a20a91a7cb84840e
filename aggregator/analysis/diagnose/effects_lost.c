/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who takes longer, where rows were lost. Of a step some places are not known, each rank others (lost.c), so that neither totals nor means of
 * logarithms can be compared as they are: what is known is held against what is usual at its places.
 */
#include "aggregator/analysis/diagnose/effects_priv.h"
#include "aggregator/analysis/median.h"
#include "common/base/mem.h"

#include <math.h>

/* Of a step so much must be known, in parts of 1. */
static const double known_least = 0.3;

/* All work that is known at a place, of all ranks and steps. How much of it there is. */
static size_t known_work(const struct table *table, size_t steps, size_t p, double *cells)
{
    size_t count = 0;
    for (size_t m = 0; m < table->n; m++) {
        for (size_t k = 0; k < steps; k++) {
            const double work = effect_cell(table, steps, m, k, p);
            if (work > 0) { /* not NAN */
                cells[count++] = work;
            }
        }
    }
    return count;
}

/* What is usual at each place, in the middle of all ranks and steps; 0: nobody has work there. */
static enum rs_status usual_work(const struct table *table, size_t steps, double *usual)
{
    double *cells = rs_mem_calloc(table->n * steps + 1, sizeof *cells);
    if (cells == NULL) {
        return RS_NOMEM;
    }
    for (size_t p = 0; p < table->positions; p++) {
        const size_t count = known_work(table, steps, p, cells);
        usual[p] = count > 0 ? rs_median(cells, count) : 0;
    }
    rs_mem_free(cells);
    return RS_OK;
}

/* `limit`: places with less work do not vote on logarithms; `all`: what is usual in a step. */
static void judge_step(const struct finder *finder, size_t c, const double *usual, double limit,
                       double all, size_t at)
{
    const struct table *table = &finder->tables[c];
    const size_t steps = finder->model->step_count, m = at / steps, k = at % steps;
    double own = 0, peers = 0, logs = 0, votes = 0;
    for (size_t p = 0; p < table->positions; p++) {
        const double work = effect_cell(table, steps, m, k, p);
        if (!(work > 0) || usual[p] <= 0) {
            continue;
        }
        own += work;
        peers += usual[p];
        logs += usual[p] >= limit ? log(work / usual[p]) : 0;
        votes += usual[p] >= limit ? 1 : 0;
    }
    const bool is_known = peers >= known_least * all && votes > 0;
    finder->logs[c]->y[at] = is_known ? logs / votes : (double)NAN;
    finder->totals[c]->y[at] = is_known ? log(own / peers) : (double)NAN;
}

enum rs_status effect_lost_panels(const struct finder *finder, size_t c)
{
    const struct table *table = &finder->tables[c];
    const size_t steps = finder->model->step_count;
    double *usual = rs_mem_calloc(table->positions + 1, sizeof *usual);
    double all = 0;
    if (usual == NULL || usual_work(table, steps, usual) != RS_OK) {
        rs_mem_free(usual);
        return RS_NOMEM;
    }
    for (size_t p = 0; p < table->positions; p++) {
        all += usual[p];
    }
    for (size_t at = 0; at < table->n * steps; at++) {
        judge_step(finder, c, usual, 0.1 * all / (double)table->positions, all, at);
    }
    rs_mem_free(usual);
    return RS_OK;
}
