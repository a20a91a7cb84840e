/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each class did, as tables and panels.
 *
 *   items --> per class a table [member][step][position] of computing work --> panels [member][step]:
 *      logs      mean of logarithms over positions: trouble everywhere
 *      totals    logarithm of the step's total; CPU time where it is known
 *      heads     ns of the host before the first launch of a step
 *      idles     ns of the host between launches; on CPU ranks, own time in which nothing computed
 *      stages    level of each class in each step, by what all of them run (stages.c)
 */
#include "aggregator/analysis/diagnose/effects_priv.h"
#include "aggregator/analysis/median.h"
#include "common/base/mem.h"

#include <math.h>
#include <string.h>

/* ---- tables ---------------------------------------------------------------------------- */

static void count_members(struct finder *finder)
{
    const struct diag_model *model = finder->model;
    for (size_t w = 0; w < model->worker_count; w++) {
        struct table *table = &finder->tables[model->workers[w].class_id];
        finder->member[w] = (uint32_t)table->n;
        if (model->workers[w].is_judged) {
            table->workers[table->n++] = (uint32_t)w;
        }
    }
    for (size_t i = 0; i < model->item_count; i++) {
        const struct diag_item *item = &model->items[i];
        struct table *table = &finder->tables[model->workers[item->worker].class_id];
        if (item->figure == RS_FIGURE_COMPUTING && item->position != GRAPH_NONE &&
            item->position >= table->positions) {
            table->positions = item->position + 1;
        }
    }
}

static void fill_table(struct finder *finder, struct table *table)
{
    const struct diag_model *model = finder->model;
    const size_t cells = table->n * model->step_count * table->positions;
    for (size_t i = 0; i < cells; i++) {
        table->work[i] = (double)NAN;
    }
    for (size_t m = 0; m < table->n; m++) {
        const uint32_t w = table->workers[m];
        for (size_t i = model->item_first[w]; i < model->item_first[w + 1]; i++) {
            const struct diag_item *item = &model->items[i];
            if (item->figure != RS_FIGURE_COMPUTING || item->step >= model->step_count ||
                item->position == GRAPH_NONE) {
                continue;
            }
            double *at = &table->work[(m * model->step_count + item->step) * table->positions +
                                      item->position];
            *at = (isnan(*at) ? 0 : *at) + (double)model->graph.work[item->node];
        }
    }
}

enum rs_status effect_tables_make(struct finder *finder)
{
    const struct diag_model *model = finder->model;
    for (size_t c = 0; c < model->class_count; c++) {
        finder->tables[c].workers =
            rs_mem_calloc(model->worker_count + 1, sizeof *finder->tables[c].workers);
        if (finder->tables[c].workers == NULL) {
            return RS_NOMEM;
        }
    }
    count_members(finder);
    for (size_t c = 0; c < model->class_count; c++) {
        struct table *table = &finder->tables[c];
        uint32_t *shrunk = rs_mem_realloc(table->workers, table->n + 1, sizeof *table->workers);
        table->workers = shrunk != NULL ? shrunk : table->workers;
        table->work =
            rs_mem_calloc(table->n * model->step_count * table->positions + 1, sizeof(double));
        table->level = rs_mem_calloc(table->positions + 1, sizeof(double));
        if (table->work == NULL || table->level == NULL) {
            return RS_NOMEM;
        }
        fill_table(finder, table);
    }
    return RS_OK;
}

/* ---- panels of a class ------------------------------------------------------------------ */

static void position_totals(const struct finder *finder, const struct table *table, double *totals)
{
    const size_t steps = finder->model->step_count;
    for (size_t p = 0; p < table->positions; p++) {
        totals[p] = 0;
        for (size_t m = 0; m < table->n; m++) {
            for (size_t k = 0; k < steps; k++) {
                const double work = effect_cell(table, steps, m, k, p);
                totals[p] += isnan(work) ? 0 : work;
            }
        }
    }
}

/* Positions too short to weigh anything do not vote: their logarithms are rounding. */
static double vote_limit(const struct table *table, const double *totals)
{
    double sum = 0;
    for (size_t p = 0; p < table->positions; p++) {
        sum += totals[p];
    }
    return table->positions > 0 ? 0.1 * sum / (double)table->positions : 0;
}

static void add_logs(const struct finder *finder, const struct table *table, const double *totals,
                     struct diag_panel *panel)
{
    const size_t steps = finder->model->step_count;
    const double limit = vote_limit(table, totals);
    double *sums = finder->scratch;
    double *counts = sums + table->n;
    double *column = counts + table->n;
    for (size_t k = 0; k < steps; k++) {
        memset(sums, 0, 2 * table->n * sizeof *sums);
        for (size_t p = 0; p < table->positions; p++) {
            size_t count = 0;
            for (size_t m = 0; m < table->n; m++) {
                const double work = effect_cell(table, steps, m, k, p);
                if (!isnan(work) && work > 0) {
                    column[count++] = log(work);
                }
            }
            if (totals[p] < limit || count < table->n) {
                continue;
            }
            const double middle = rs_median(column, count);
            for (size_t m = 0; m < table->n; m++) {
                sums[m] += log(effect_cell(table, steps, m, k, p)) - middle;
                counts[m] += 1;
            }
        }
        for (size_t m = 0; m < table->n; m++) {
            if (counts[m] > 0) {
                panel->y[m * steps + k] = sums[m] / counts[m];
            }
        }
    }
}

static double step_total(const struct table *table, size_t steps, size_t m, size_t k)
{
    double total = 0;
    for (size_t p = 0; p < table->positions; p++) {
        const double work = effect_cell(table, steps, m, k, p);
        total += isnan(work) ? 0 : work;
    }
    return total;
}

enum rs_status effect_class_panel(struct finder *finder, size_t c)
{
    const struct diag_model *model = finder->model;
    const struct table *table = &finder->tables[c];
    const size_t steps = model->step_count;
    if (table->n < 2 || table->positions == 0) {
        return RS_OK;
    }
    double *totals = rs_mem_calloc(table->positions + 1, sizeof *totals);
    if (totals == NULL || diag_panel_new(table->n, steps, &finder->logs[c]) != RS_OK ||
        diag_panel_new(table->n, steps, &finder->totals[c]) != RS_OK) {
        rs_mem_free(totals);
        return RS_NOMEM;
    }
    const bool has_lost = model->has_lost_rows && model->cpu == NULL;
    position_totals(finder, table, totals);
    if (!has_lost) {
        add_logs(finder, table, totals, finder->logs[c]);
    }
    rs_mem_free(totals);
    for (size_t m = 0; m < table->n; m++) {
        finder->logs[c]->id[m] = finder->totals[c]->id[m] = table->workers[m];
        for (size_t k = 0; k < steps && !has_lost; k++) {
            const double total = model->cpu != NULL
                                     ? (double)model->cpu[table->workers[m] * steps + k]
                                     : step_total(table, steps, m, k);
            finder->totals[c]->y[m * steps + k] = total > 0 ? log(total) : (double)NAN;
        }
    }
    finder->logs[c]->class_id = finder->totals[c]->class_id = (uint32_t)c;
    finder->logs[c]->figure = finder->totals[c]->figure = RS_FIGURE_COMPUTING;
    return has_lost ? effect_lost_panels(finder, c) : RS_OK;
}

enum rs_status effect_head_panel(struct finder *finder, size_t c)
{
    const struct diag_model *model = finder->model;
    const struct table *table = &finder->tables[c];
    const size_t steps = model->step_count;
    bool has_heads = false;
    if (table->n < 2) {
        return RS_OK;
    }
    if (diag_panel_new(table->n, steps, &finder->heads[c]) != RS_OK) {
        return RS_NOMEM;
    }
    struct diag_panel *panel = finder->heads[c];
    for (size_t m = 0; m < table->n; m++) {
        const uint32_t w = table->workers[m];
        panel->id[m] = w;
        for (size_t i = model->item_first[w]; i < model->item_first[w + 1]; i++) {
            const struct diag_item *item = &model->items[i];
            if (item->figure == RS_FIGURE_HOST_HEAD && item->step < steps) {
                panel->y[m * steps + item->step] = (double)diag_value(model, item);
                has_heads = true;
            }
        }
    }
    panel->class_id = (uint32_t)c;
    panel->figure = RS_FIGURE_HOST_HEAD;
    panel->is_additive = true;
    panel->by_median = finder->shares_cores;
    if (!has_heads) {
        diag_panel_free(&finder->heads[c]);
    }
    return RS_OK;
}

/* Host time between launches; on CPU ranks, own time in which nothing computed, over the whole step: a stall may fall before the first
 * operator or behind it. */
enum rs_status effect_idle_panel(struct finder *finder, size_t c)
{
    const struct diag_model *model = finder->model;
    const struct table *table = &finder->tables[c];
    const size_t steps = model->step_count;
    bool has_any = false;
    if (table->n < 2) {
        return RS_OK;
    }
    if (diag_panel_new(table->n, steps, &finder->idles[c]) != RS_OK) {
        return RS_NOMEM;
    }
    struct diag_panel *panel = finder->idles[c];
    for (size_t m = 0; m < table->n; m++) {
        const uint32_t w = table->workers[m];
        panel->id[m] = w;
        for (size_t i = model->item_first[w]; i < model->item_first[w + 1]; i++) {
            const struct diag_item *item = &model->items[i];
            if (item->figure != RS_FIGURE_HOST_INSIDE || item->step >= steps) {
                continue;
            }
            double *y = &panel->y[m * steps + item->step];
            *y = (isnan(*y) ? 0 : *y) + (double)diag_value(model, item);
            has_any = true;
        }
    }
    panel->class_id = (uint32_t)c;
    panel->figure = RS_FIGURE_HOST_INSIDE;
    panel->is_additive = true;
    panel->by_median = finder->shares_cores;
    if (!has_any) {
        diag_panel_free(&finder->idles[c]);
    }
    return RS_OK;
}

/* ---- stages ------------------------------------------------------------------------------ */

/* Where rows were lost a stage's level is one figure of all steps (stages_level.c). They differ as what is known of its ranks does; of one
 * that has no peers that is not known. `y`: [steps] of class c. */
static void add_lost_steps(struct finder *finder, size_t c, double *y)
{
    const struct diag_panel *panel = finder->totals[c];
    const size_t steps = finder->model->step_count;
    double sum = 0, known = 0;
    for (size_t k = 0; k < steps; k++) {
        size_t count = 0;
        for (size_t m = 0; panel != NULL && m < panel->n; m++) {
            if (!isnan(panel->y[m * steps + k])) {
                finder->scratch[count++] = panel->y[m * steps + k];
            }
        }
        y[k] += count > 0 ? rs_median(finder->scratch, count) : (double)NAN;
        sum += count > 0 ? rs_median(finder->scratch, count) : 0;
        known += count > 0 ? 1 : 0;
    }
    for (size_t k = 0; k < steps; k++) {
        y[k] -= known > 0 ? sum / known : 0;
    }
}

/* Stages are compared by what is the same work on them; see stages.c. */
enum rs_status effect_stage_panel(struct finder *finder)
{
    const struct diag_model *model = finder->model;
    const size_t steps = model->step_count;
    size_t n = 0;
    if (diag_panel_new(model->class_count, steps, &finder->stages) != RS_OK ||
        diag_stages_measure(model, &finder->stage_work) != RS_OK) {
        return RS_NOMEM;
    }
    struct diag_panel *panel = finder->stages;
    const struct diag_stages *work = &finder->stage_work;
    const double *level = work->are_alike ? work->total : work->same;
    for (size_t c = 0; c < model->class_count; c++) {
        if (!work->is_compared[c] || finder->tables[c].n == 0 || finder->tables[c].positions == 0) {
            continue;
        }
        memcpy(&panel->y[n * steps], &level[c * steps], steps * sizeof *level);
        if (model->has_lost_rows && work->is_by_names) {
            add_lost_steps(finder, c, &panel->y[n * steps]);
        }
        panel->id[n++] = (uint32_t)c;
    }
    panel->n = n;
    panel->figure = RS_FIGURE_COMPUTING;
    return RS_OK;
}
