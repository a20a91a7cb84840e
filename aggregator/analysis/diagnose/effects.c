/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who differs from its equals, in what, and how sure is that?
 *
 *   items --tables--> per class [member][step][position]
 *      own work      mean of logarithms over positions, and the logarithm of the step's total
 *      host head     ns before the first launch of a step
 *      stages        level of each class against the others
 *      transfers     of pairs and groups against others of their fabric
 *   panels --judge--> elements: lasting ones by Student's t, intermittent ones by permutation
 *
 * An effect must exceed the noise of the recording *and* what ranks differ by anyway (tau). What exceeds the
 * noise only goes into one element `spread`; hits of single steps that fall on many ranks into `jitter`.
 */
#include "aggregator/analysis/diagnose/diagnose_priv.h"
#include "common/base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Work of one class as a table. */
struct table {
    size_t n, positions;
    uint32_t *workers; /* [n] */
    double *work;      /* [n][steps][positions]; NAN: not seen */
    double *level;     /* [positions] of the healthy, over steps */
    double *kernels;   /* mean per step of the class; 0 unknown */
};

struct finder {
    const struct diag_model *model;
    struct diag_effects *effects;
    struct table *tables;     /* [class] computing */
    uint32_t *member;         /* [worker] its index in its class's table */
    struct diag_panel **logs; /* [class] NULL: not judged */
    struct diag_panel **totals;
    struct diag_panel **heads;
    struct diag_panel **idles;
    struct diag_panel **links; /* [panel of units] */
    double *relative;          /* [move] */
    struct diag_panel *stages;
    struct diag_stages stage_work;
    struct diag_pool log_pool, total_pool, head_pool, idle_pool, stage_pool, *link_pools;
    double tests;
    double step_ns;
    double *scratch;
    uint8_t *is_slow; /* [worker] named for its work: not part of a level */
};

static double cell(const struct table *table, size_t steps, size_t m, size_t k, size_t p)
{
    return table->work[(m * steps + k) * table->positions + p];
}

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
        if (item->figure == RS_FIGURE_COMPUTING && item->position >= table->positions) {
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
            if (item->figure != RS_FIGURE_COMPUTING || item->step >= model->step_count) {
                continue;
            }
            double *at = &table->work[(m * model->step_count + item->step) * table->positions +
                                      item->position];
            *at = (isnan(*at) ? 0 : *at) + (double)model->graph.work[item->node];
        }
    }
}

static enum rs_status make_tables(struct finder *finder)
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
                const double work = cell(table, steps, m, k, p);
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
                const double work = cell(table, steps, m, k, p);
                if (!isnan(work) && work > 0) {
                    column[count++] = log(work);
                }
            }
            if (totals[p] < limit || count < table->n) {
                continue;
            }
            const double middle = diag_median(column, count);
            for (size_t m = 0; m < table->n; m++) {
                sums[m] += log(cell(table, steps, m, k, p)) - middle;
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
        const double work = cell(table, steps, m, k, p);
        total += isnan(work) ? 0 : work;
    }
    return total;
}

static enum rs_status class_panels(struct finder *finder, size_t c)
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
    position_totals(finder, table, totals);
    add_logs(finder, table, totals, finder->logs[c]);
    rs_mem_free(totals);
    for (size_t m = 0; m < table->n; m++) {
        finder->logs[c]->id[m] = finder->totals[c]->id[m] = table->workers[m];
        for (size_t k = 0; k < steps; k++) {
            const double total = model->cpu != NULL
                                     ? (double)model->cpu[table->workers[m] * steps + k]
                                     : step_total(table, steps, m, k);
            finder->totals[c]->y[m * steps + k] = total > 0 ? log(total) : (double)NAN;
        }
    }
    finder->logs[c]->class_id = finder->totals[c]->class_id = (uint32_t)c;
    finder->logs[c]->figure = finder->totals[c]->figure = RS_FIGURE_COMPUTING;
    return RS_OK;
}

static enum rs_status head_panel(struct finder *finder, size_t c)
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
    if (!has_heads) {
        diag_panel_free(&finder->heads[c]);
    }
    return RS_OK;
}

/* Host time between launches; on CPU ranks, own time in which nothing computed, over the whole step: a stall may fall before the first
 * operator or behind it. */
static enum rs_status idle_panel(struct finder *finder, size_t c)
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
    if (!has_any) {
        diag_panel_free(&finder->idles[c]);
    }
    return RS_OK;
}

/* ---- stages ------------------------------------------------------------------------------ */

/* Stages are compared by what all of them run, where some run more; see stages.c. */
static enum rs_status stage_panel(struct finder *finder)
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
    for (size_t c = 0; c < model->class_count && (work->are_alike || work->has_same); c++) {
        if (finder->tables[c].n == 0 || finder->tables[c].positions == 0) {
            continue;
        }
        memcpy(&panel->y[n * steps], &level[c * steps], steps * sizeof *level);
        panel->id[n++] = (uint32_t)c;
    }
    panel->n = n;
    panel->figure = RS_FIGURE_COMPUTING;
    return RS_OK;
}

/* ---- links -------------------------------------------------------------------------------- */

struct keyed {
    uint32_t key, panel;
    double log_ns;
    size_t move;
};

static int by_key(const void *left, const void *right)
{
    const struct keyed *a = left, *b = right;
    if (a->panel != b->panel) {
        return a->panel > b->panel ? 1 : -1;
    }
    if (a->key != b->key) {
        return a->key > b->key ? 1 : -1;
    }
    if (a->log_ns < b->log_ns || a->log_ns > b->log_ns) {
        return a->log_ns > b->log_ns ? 1 : -1;
    }
    return (a->move > b->move) - (a->move < b->move);
}

/* relative[move] = log of its transfer over the median of its key and fabric; NAN where only one unit has it. */
static enum rs_status relative_moves(const struct diag_model *model, double *relative)
{
    struct keyed *list = rs_mem_calloc(model->move_count + 1, sizeof *list);
    size_t count = 0;
    if (list == NULL) {
        return RS_NOMEM;
    }
    for (size_t i = 0; i < model->move_count; i++) {
        const struct diag_move *move = &model->moves[i];
        relative[i] = (double)NAN;
        if (move->ns > 0 && move->step < model->step_count) {
            list[count++] =
                (struct keyed){move->key, model->units[move->unit].panel, log(move->ns), i};
        }
    }
    if (count > 1) {
        qsort(list, count, sizeof *list, by_key);
    }
    for (size_t i = 0, end; i < count; i = end) {
        bool has_others = false;
        for (end = i;
             end < count && list[end].key == list[i].key && list[end].panel == list[i].panel;
             end++) {
            has_others =
                has_others || model->moves[list[end].move].unit != model->moves[list[i].move].unit;
        }
        const double middle = list[i + (end - i) / 2].log_ns;
        for (size_t j = i; j < end && has_others; j++) {
            relative[list[j].move] = list[j].log_ns - middle;
        }
    }
    rs_mem_free(list);
    return RS_OK;
}

static enum rs_status link_panels(struct finder *finder)
{
    const struct diag_model *model = finder->model;
    const size_t steps = model->step_count;
    double *relative = rs_mem_calloc(model->move_count + 1, sizeof *relative);
    finder->relative = relative;
    size_t *used = rs_mem_calloc(model->panel_count + 1, sizeof *used);
    enum rs_status status = relative == NULL || used == NULL ? RS_NOMEM : RS_OK;
    if (status == RS_OK) {
        status = relative_moves(model, relative);
    }
    for (size_t u = 0; status == RS_OK && u < model->unit_count; u++) {
        used[model->units[u].panel]++;
    }
    for (size_t p = 0; status == RS_OK && p < model->panel_count; p++) {
        status = diag_panel_new(used[p], steps, &finder->links[p]);
        if (status == RS_OK) {
            finder->links[p]->figure = RS_FIGURE_TRANSFER;
            finder->links[p]->n = 0;
        }
    }
    for (size_t u = 0; status == RS_OK && u < model->unit_count; u++) {
        struct diag_panel *panel = finder->links[model->units[u].panel];
        for (size_t k = 0; k < steps; k++) {
            double sum = 0, count = 0;
            for (size_t i = model->move_first[u]; i < model->move_first[u + 1]; i++) {
                if (model->moves[i].step == k && !isnan(relative[i])) {
                    sum += relative[i];
                    count += 1;
                }
            }
            panel->y[panel->n * steps + k] = count > 0 ? sum / count : (double)NAN;
        }
        panel->id[panel->n++] = (uint32_t)u;
    }
    rs_mem_free(used);
    return status;
}

/* ---- elements ------------------------------------------------------------------------------ */

static enum rs_status element_new(struct finder *finder, const struct diag_panel *panel, size_t m,
                                  enum diag_what what, struct diag_element **element_p)
{
    struct diag_effects *effects = finder->effects;
    if (rs_mem_grow((void **)&effects->elements, &effects->capacity, effects->count + 1,
                    sizeof *effects->elements) != RS_OK) {
        return RS_NOMEM;
    }
    struct diag_element *element = &effects->elements[effects->count++];
    *element = (struct diag_element){.what = what,
                                     .id = panel->id[m],
                                     .position = GRAPH_NONE,
                                     .effect = panel->a[m] - panel->base,
                                     .is_additive = panel->is_additive,
                                     .hits = panel->steps,
                                     .period = 1,
                                     .input = -1};
    for (size_t u = 0; u < panel->n; u++) {
        element->peers += isnan(panel->a[u]) ? 0U : 1U;
    }
    *element_p = element;
    return RS_OK;
}

static double p_of(const struct finder *finder, const struct diag_panel *panel, size_t m)
{
    const double p = panel->p_noise[m] * (double)panel->n * finder->tests;
    return p < 1 ? p : 1;
}

static void set_test(const struct finder *finder, const struct diag_pool *pool,
                     const struct diag_panel *panel, size_t m, struct diag_element *element)
{
    const double spread = sqrt(1 + panel->base_variance);
    const double n = (double)panel->n;
    element->se = pool->noise / sqrt((double)panel->steps);
    element->noise = element->se;
    element->p = p_of(finder, panel, m);
    element->p_ordinary = panel->p_tau[m];
    const double by_noise =
        pool->dof >= 1
            ? element->se * diag_t_quantile(DIAG_LEVEL_WEAK / n / finder->tests, pool->dof)
            : 0;
    const double by_tau = pool->tau * diag_t_quantile(DIAG_LEVEL_WEAK / n, pool->tau_dof);
    element->limit = spread * (by_noise > by_tau ? by_noise : by_tau);
}

/* z[k]: how far the member is above the others' median in that step, levels taken out. */
static void step_effects(const struct finder *finder, const struct diag_panel *panel, size_t m,
                         double *z)
{
    for (size_t k = 0; k < panel->steps; k++) {
        size_t count = 0;
        for (size_t u = 0; u < panel->n; u++) {
            const double y = panel->y[u * panel->steps + k];
            if (u != m && !isnan(y)) {
                finder->scratch[count++] = y;
            }
        }
        (void)diag_median(finder->scratch, count);
        const double others = diag_median(finder->scratch, panel->n > 2 ? (count + 1) / 2 : count);
        z[k] = panel->y[m * panel->steps + k] - others;
    }
}

/* Beyond what a single cell may differ by: chance of LEVEL_WEAK over all cells of the pool. */
static double hit_limit(const struct finder *finder, const struct diag_pool *pool)
{
    double cells = 0;
    for (size_t p = 0; p < pool->count; p++) {
        cells += (double)(pool->panels[p]->n * pool->panels[p]->steps);
    }
    if (pool == &finder->head_pool || pool == &finder->idle_pool) {
        const double by_noise = pool->noise * DIAG_HIT_MAD / 1.4826;
        const double by_step = DIAG_HIT_STEP_SHARE * finder->step_ns;
        return by_noise > by_step ? by_noise : by_step;
    }
    const double by_tau = 3 * pool->tau;
    const double by_noise =
        pool->dof >= 1
            ? sqrt(2) * pool->noise * diag_t_quantile(DIAG_LEVEL_WEAK / (cells + 1), pool->dof)
            : (double)INFINITY;
    return by_noise > by_tau ? by_noise : by_tau;
}

/* Period and phase when the hits are exactly every period-th step from phase on. */
static void find_period(const double *z, size_t steps, double limit, struct diag_element *element)
{
    size_t first = steps, second = steps, last = 0, hits = 0;
    for (size_t k = 0; k < steps; k++) {
        if (z[k] > limit) {
            first = first == steps ? k : first;
            second = second == steps && k > first ? k : second;
            last = k;
            hits++;
        }
    }
    element->hits = hits;
    element->first = first < steps ? first : 0;
    element->period = element->phase = 0;
    element->began = hits > 1 && first > 0 && last == steps - 1 && last - first + 1 == hits;
    if (hits < 2 || second == steps) {
        return;
    }
    const size_t period = second - first;
    bool is_regular = first < period;
    for (size_t k = 0; k < steps; k++) {
        const bool expected = k >= first && (k - first) % period == 0;
        is_regular = is_regular && (z[k] > limit) == expected;
    }
    if (is_regular) {
        element->period = period;
        element->phase = first;
    }
}

static double choose(size_t n, size_t k)
{
    double value = 1;
    for (size_t i = 1; i <= k; i++) {
        value = value * (double)(n - k + i) / (double)i;
    }
    return value;
}

/* Share of the c-subsets of the steps that are as regular: a beat of any period, or a run up to the end. */
static double regularity(const struct diag_element *element, size_t steps)
{
    if (element->began) {
        return 1 / choose(steps, element->hits);
    }
    if (element->period < 2) {
        return 1;
    }
    double beats = 0;
    for (size_t period = 2; period <= steps; period++) {
        for (size_t phase = 0; phase < period && phase < steps; phase++) {
            beats += (steps - phase + period - 1) / period == element->hits ? 1 : 0;
        }
    }
    const double share = beats / choose(steps, element->hits);
    return share < 1 ? share : 1;
}

/* Chance that some rank collects so many hits when each step's hits fall on ranks at random. */
static double permutation(const uint8_t *hits, size_t n, size_t steps, size_t wanted,
                          uint32_t *counts)
{
    uint64_t state = 0x9e3779b97f4a7c15U;
    double reached = 1;
    for (int draw = 0; draw < (int)DIAG_PERMUTATIONS; draw++) {
        uint32_t most = 0;
        memset(counts, 0, n * sizeof *counts);
        for (size_t k = 0; k < steps; k++) {
            size_t left = 0;
            for (size_t u = 0; u < n; u++) {
                left += (size_t)hits[u * steps + k];
            }
            for (size_t u = 0; u < n && left > 0; u++) {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                if ((state >> 11) % (n - u) < left) {
                    left--;
                    counts[u]++;
                    most = counts[u] > most ? counts[u] : most;
                }
            }
        }
        reached += most >= wanted ? 1 : 0;
    }
    return reached / (DIAG_PERMUTATIONS + 1);
}

/* ---- hits of one pool ------------------------------------------------------------------------ */

struct hits {
    size_t n; /* members of all panels of the pool */
    uint8_t *is_hit;
    double *z;
    uint32_t *counts, *id;
    struct diag_panel **panel;
    size_t *member;
    uint8_t *is_lasting; /* [n] by Student's t */
};

static void hits_fini(struct hits *hits)
{
    rs_mem_free(hits->is_hit);
    rs_mem_free(hits->z);
    rs_mem_free(hits->counts);
    rs_mem_free(hits->panel);
    rs_mem_free(hits->member);
    rs_mem_free(hits->is_lasting);
}

static enum rs_status hits_init(struct finder *finder, const struct diag_pool *pool,
                                struct hits *hits)
{
    const size_t steps = finder->model->step_count;
    const double limit = hit_limit(finder, pool);
    *hits = (struct hits){0};
    for (size_t p = 0; p < pool->count; p++) {
        hits->n += pool->panels[p]->n;
    }
    hits->is_hit = rs_mem_calloc(hits->n * steps + 1, 1);
    hits->z = rs_mem_calloc(hits->n * steps + 1, sizeof *hits->z);
    hits->counts = rs_mem_calloc(hits->n + 1, sizeof *hits->counts);
    hits->panel = rs_mem_calloc(hits->n + 1, sizeof(struct diag_panel *));
    hits->member = rs_mem_calloc(hits->n + 1, sizeof *hits->member);
    hits->is_lasting = rs_mem_calloc(hits->n + 1, 1);
    if (hits->is_hit == NULL || hits->z == NULL || hits->counts == NULL || hits->panel == NULL ||
        hits->member == NULL || hits->is_lasting == NULL) {
        hits_fini(hits);
        return RS_NOMEM;
    }
    size_t at = 0;
    for (size_t p = 0; p < pool->count; p++) {
        for (size_t m = 0; m < pool->panels[p]->n; m++, at++) {
            hits->panel[at] = pool->panels[p];
            hits->member[at] = m;
            step_effects(finder, pool->panels[p], m, &hits->z[at * steps]);
            for (size_t k = 0; k < steps; k++) {
                hits->is_hit[at * steps + k] = hits->z[at * steps + k] > limit;
            }
        }
    }
    return RS_OK;
}

/* Hit in some steps, and healthy in the others: less than a quarter of it. */
static bool is_intermittent(const double *z, const uint8_t *is_hit, size_t steps)
{
    double hit = 0, hits = 0, rest = 0, rests = 0;
    for (size_t k = 0; k < steps; k++) {
        *(is_hit[k] ? &hit : &rest) += z[k];
        *(is_hit[k] ? &hits : &rests) += 1;
    }
    return hits > 0 && rests > 0 && rest / rests < 0.25 * hit / hits;
}

static enum rs_status keep_steps(struct diag_element *element, const double *z,
                                 const uint8_t *is_hit, size_t steps)
{
    element->by_step = rs_mem_calloc(steps + 1, sizeof *element->by_step);
    if (element->by_step == NULL) {
        return RS_NOMEM;
    }
    element->effect = 0;
    for (size_t k = 0; k < steps; k++) {
        element->by_step[k] = is_hit[k] ? z[k] : 0;
        element->effect += element->by_step[k] / (double)element->hits;
    }
    return RS_OK;
}

static enum rs_status name_intermittent(struct finder *finder, const struct diag_pool *pool,
                                        struct hits *hits, enum diag_what what, size_t at)
{
    const size_t steps = finder->model->step_count;
    const uint8_t *is_hit = &hits->is_hit[at * steps];
    struct diag_element trial = {0};
    struct diag_element *element = NULL;
    double *flags = finder->scratch;
    for (size_t k = 0; k < steps; k++) {
        flags[k] = is_hit[k];
    }
    find_period(flags, steps, 0.5, &trial);
    if (trial.hits < 2) {
        return RS_OK;
    }
    const double p = permutation(hits->is_hit, hits->n, steps, trial.hits, hits->counts) *
                     regularity(&trial, steps);
    if (p > DIAG_LEVEL_WEAK) {
        return RS_OK;
    }
    if (element_new(finder, hits->panel[at], hits->member[at], what, &element) != RS_OK) {
        return RS_NOMEM;
    }
    set_test(finder, pool, hits->panel[at], hits->member[at], element);
    element->p = p;
    element->hits = trial.hits;
    element->first = trial.first;
    element->period = trial.period;
    element->phase = trial.phase;
    element->began = trial.began;
    hits->is_lasting[at] = 1;
    return keep_steps(element, &hits->z[at * steps], is_hit, steps);
}

static enum rs_status add_jitter(struct finder *finder, struct hits *hits, enum diag_what what)
{
    const size_t steps = finder->model->step_count;
    struct diag_element *jitter = &finder->effects->jitter;
    size_t cells = 0, members = 0;
    for (size_t at = 0; at < hits->n; at++) {
        size_t own = 0;
        for (size_t k = 0; k < steps && !hits->is_lasting[at]; k++) {
            own += (size_t)hits->is_hit[at * steps + k];
        }
        cells += own;
        members += own > 0 ? 1U : 0U;
    }
    if (cells < 3 || members < 2 || jitter->among_count > 0) {
        return RS_OK;
    }
    *jitter = (struct diag_element){.what = DIAG_JITTER,
                                    .position = GRAPH_NONE,
                                    .is_additive = what != DIAG_RANK,
                                    .is_idle = what == DIAG_IDLE,
                                    .hits = cells,
                                    .peers = hits->n,
                                    .input = -1};
    jitter->among = rs_mem_calloc(members, sizeof *jitter->among);
    jitter->among_effects = rs_mem_calloc(members * steps, sizeof *jitter->among_effects);
    if (jitter->among == NULL || jitter->among_effects == NULL) {
        return RS_NOMEM;
    }
    for (size_t at = 0; at < hits->n; at++) {
        bool has = false;
        for (size_t k = 0; k < steps && !hits->is_lasting[at]; k++) {
            if (hits->is_hit[at * steps + k]) {
                jitter->among_effects[jitter->among_count * steps + k] = hits->z[at * steps + k];
                has = true;
            }
        }
        if (has) {
            jitter->among[jitter->among_count++] = hits->panel[at]->id[hits->member[at]];
        }
    }
    return RS_OK;
}

/* ---- naming ------------------------------------------------------------------------------------ */

static bool is_named_for(const struct diag_effects *effects, enum diag_what what, uint32_t id)
{
    for (size_t i = 0; i < effects->count; i++) {
        if (effects->elements[i].what == what && effects->elements[i].id == id) {
            return true;
        }
    }
    return false;
}

static enum rs_status name_lasting(struct finder *finder, const struct diag_pool *pool,
                                   struct hits *hits, enum diag_what what, size_t at)
{
    const size_t steps = finder->model->step_count;
    struct diag_panel *panel = hits->panel[at];
    const size_t m = hits->member[at];
    struct diag_element *element = NULL;
    if (p_of(finder, panel, m) > DIAG_LEVEL_WEAK || panel->p_tau[m] > DIAG_LEVEL_WEAK) {
        return RS_OK;
    }
    if (is_intermittent(&hits->z[at * steps], &hits->is_hit[at * steps], steps)) {
        return RS_OK; /* name_intermittent() judges it */
    }
    hits->is_lasting[at] = 1;
    if (is_named_for(finder->effects, what, panel->id[m])) {
        return RS_OK;
    }
    if (element_new(finder, panel, m, what, &element) != RS_OK) {
        return RS_NOMEM;
    }
    set_test(finder, pool, panel, m, element);
    return RS_OK;
}

static enum rs_status name_members(struct finder *finder, const struct diag_pool *pool,
                                   enum diag_what what)
{
    struct hits hits;
    if (pool->count == 0) {
        return RS_OK;
    }
    enum rs_status status = hits_init(finder, pool, &hits);
    if (status != RS_OK) {
        return status;
    }
    for (size_t at = 0; status == RS_OK && at < hits.n; at++) {
        status = name_lasting(finder, pool, &hits, what, at);
    }
    for (size_t at = 0; status == RS_OK && at < hits.n; at++) {
        if (!hits.is_lasting[at] &&
            !is_named_for(finder->effects, what, hits.panel[at]->id[hits.member[at]])) {
            status = name_intermittent(finder, pool, &hits, what, at);
        }
    }
    if (status == RS_OK && (what == DIAG_HEAD || what == DIAG_RANK || what == DIAG_IDLE)) {
        status = add_jitter(finder, &hits, what);
    }
    hits_fini(&hits);
    return status;
}

static enum rs_status name_stages(struct finder *finder)
{
    const struct diag_panel *panel = finder->stages;
    for (size_t m = 0; m < panel->n; m++) {
        struct diag_element *element = NULL;
        if (panel->n < 2 || p_of(finder, panel, m) > DIAG_LEVEL_WEAK ||
            panel->p_tau[m] > DIAG_LEVEL_WEAK) {
            continue;
        }
        if (element_new(finder, panel, m, DIAG_STAGE, &element) != RS_OK) {
            return RS_NOMEM;
        }
        set_test(finder, &finder->stage_pool, panel, m, element);
    }
    return RS_OK;
}

static enum rs_status name_links(struct finder *finder)
{
    for (size_t p = 0; p < finder->model->panel_count; p++) {
        const struct diag_panel *panel = finder->links[p];
        size_t suspects = 0, known = 0;
        for (size_t m = 0; m < panel->n; m++) {
            known += isnan(panel->a[m]) ? 0U : 1U;
            suspects +=
                p_of(finder, panel, m) <= DIAG_LEVEL_WEAK && panel->p_tau[m] <= DIAG_LEVEL_WEAK;
        }
        const double most = DIAG_FABRIC_MOST * (double)known;
        if (known < 2 || (suspects > 1 && (double)suspects > most)) {
            continue;
        }
        for (size_t m = 0; m < panel->n; m++) {
            struct diag_element *element = NULL;
            if (p_of(finder, panel, m) > DIAG_LEVEL_WEAK || panel->p_tau[m] > DIAG_LEVEL_WEAK ||
                panel->a[m] - panel->base < log(DIAG_LINK_FACTOR)) {
                continue;
            }
            if (element_new(finder, panel, m, DIAG_UNIT, &element) != RS_OK) {
                return RS_NOMEM;
            }
            set_test(finder, &finder->link_pools[p], panel, m, element);
        }
    }
    return RS_OK;
}

/* ---- levels, one place, evidence ---------------------------------------------------------------- */

static void find_levels(struct finder *finder, struct table *table)
{
    const size_t steps = finder->model->step_count;
    for (size_t p = 0; p < table->positions; p++) {
        double sum = 0, count = 0, all = 0, cells = 0;
        for (size_t m = 0; m < table->n; m++) {
            for (size_t k = 0; k < steps; k++) {
                const double work = cell(table, steps, m, k, p);
                if (isnan(work)) {
                    continue;
                }
                all += work;
                cells += 1;
                if (!finder->is_slow[table->workers[m]]) {
                    sum += work;
                    count += 1;
                }
            }
        }
        table->level[p] = count > 0 ? sum / count : cells > 0 ? all / cells : 0;
    }
}

/* NAN: it was not seen there. */
static double own_mean(const struct table *table, size_t steps, size_t m, size_t p)
{
    double sum = 0, count = 0;
    for (size_t k = 0; k < steps; k++) {
        const double work = cell(table, steps, m, k, p);
        if (!isnan(work)) {
            sum += work;
            count += 1;
        }
    }
    return count > 0 ? sum / count : (double)NAN;
}

/* An excess that stands in one position is taken away there: a factor over all would take from the others. */
static void find_place(const struct finder *finder, struct diag_element *element)
{
    const struct diag_model *model = finder->model;
    const struct table *table = &finder->tables[model->workers[element->id].class_id];
    const size_t m = finder->member[element->id];
    double above = 0, most = 0, own_most = 0, level_most = 0;
    size_t at = 0;
    element->own = element->healthy = 0;
    for (size_t p = 0; p < table->positions; p++) {
        const double own = own_mean(table, model->step_count, m, p);
        if (isnan(own)) {
            continue; /* its peers' work there is nothing to compare with */
        }
        const double excess = own - table->level[p];
        element->own += own;
        element->healthy += table->level[p];
        above += excess > 0 ? excess : 0;
        if (excess > most) {
            most = excess;
            at = p;
            own_most = own;
            level_most = table->level[p];
        }
    }
    const double share = element->healthy > 0 ? level_most / element->healthy : 1;
    if (table->positions > 2 && most > DIAG_ONE_PLACE * above && share < 0.5 * most / above &&
        element->by_step == NULL && level_most > 0) {
        element->position = (uint32_t)at;
        element->effect = log(own_most / level_most);
    }
}

/* Data loading per step of the others of the class, on average: every rank loads data. 0 where it is not known. */
static double input_of_peers(const struct finder *finder, uint32_t id, uint8_t figure)
{
    const struct diag_model *model = finder->model;
    const struct table *table = &finder->tables[model->workers[id].class_id];
    double sum = 0, peers = 0;
    for (size_t m = 0; m < table->n; m++) {
        const uint32_t w = table->workers[m];
        peers += w != id && !finder->is_slow[w];
        for (size_t i = model->item_first[w];
             i < model->item_first[w + 1] && w != id && !finder->is_slow[w]; i++) {
            const struct diag_item *item = &model->items[i];
            sum += item->figure == figure && item->input > 0 ? (double)item->input : 0;
        }
    }
    return peers > 0 ? sum / peers / (double)model->step_count : 0;
}

static void head_evidence(const struct finder *finder, struct diag_element *element)
{
    const struct diag_model *model = finder->model;
    const struct diag_panel *panel = finder->heads[model->workers[element->id].class_id];
    double own = 0, count = 0, input = 0;
    bool knows_input = true;
    for (size_t i = model->item_first[element->id]; i < model->item_first[element->id + 1]; i++) {
        const struct diag_item *item = &model->items[i];
        if (item->figure != RS_FIGURE_HOST_HEAD ||
            (element->by_step != NULL && element->by_step[item->step] <= 0)) {
            continue;
        }
        own += (double)diag_value(model, item);
        input += (double)item->input;
        knows_input = knows_input && item->input >= 0;
        count += 1;
    }
    element->own = count > 0 ? own / count : 0;
    element->input = knows_input && count > 0 ? input / count : -1;
    element->healthy_input = input_of_peers(finder, element->id, RS_FIGURE_HOST_HEAD);
    element->healthy = panel != NULL && panel->base > 0 ? panel->base : 0;
}

static void idle_evidence(const struct finder *finder, struct diag_element *element)
{
    const struct diag_model *model = finder->model;
    const struct diag_panel *panel = finder->idles[model->workers[element->id].class_id];
    double own = 0, input = 0;
    bool knows_input = false;
    for (size_t i = model->item_first[element->id]; i < model->item_first[element->id + 1]; i++) {
        const struct diag_item *item = &model->items[i];
        if (item->figure == RS_FIGURE_HOST_INSIDE &&
            (element->by_step == NULL || element->by_step[item->step] > 0)) {
            own += (double)diag_value(model, item);
            input += item->input > 0 ? (double)item->input : 0;
            knows_input = knows_input || item->input >= 0;
        }
    }
    const double steps = (double)element->hits;
    element->own = own / steps;
    element->input = knows_input ? input / steps : -1;
    element->healthy_input = input_of_peers(finder, element->id, RS_FIGURE_HOST_INSIDE);
    element->healthy = panel != NULL && panel->base > 0 ? panel->base : 0;
}

static double excess_of(const struct diag_element *element)
{
    return element->is_additive ? element->effect : element->own - element->healthy;
}

/* a's time is also in b's: on a CPU rank a head is part of what is idle, and that of its own work. */
static bool is_within(const struct diag_model *model, const struct diag_element *a,
                      const struct diag_element *b)
{
    return a->id == b->id && !model->workers[a->id].has_device &&
           ((a->what == DIAG_HEAD && (b->what == DIAG_IDLE || b->what == DIAG_RANK)) ||
            (a->what == DIAG_IDLE && b->what == DIAG_RANK));
}

/* Lost time is judged as a whole and fixed once; its kind is what most of it is. */
static void keep_kind(const struct diag_model *model, struct diag_effects *effects)
{
    for (size_t i = 0; i < effects->count; i++) {
        for (size_t k = 0; k < effects->count; k++) {
            struct diag_element *part = &effects->elements[i], *whole = &effects->elements[k];
            if (i == k || part->what == DIAG_STAGE || part->what == DIAG_UNIT ||
                !is_within(model, part, whole)) {
                continue;
            }
            struct diag_element *gone = excess_of(part) > 0.5 * excess_of(whole) ? whole : part;
            rs_mem_free(gone->by_step);
            *gone = effects->elements[--effects->count];
            keep_kind(model, effects);
            return;
        }
    }
}

/* Whether a pair is slow one way only, and by how much each way is: the mean over both would be charged to both. */
static void find_way(const struct finder *finder, struct diag_element *element)
{
    const struct diag_model *model = finder->model;
    const double base = finder->links[model->units[element->id].panel]->base;
    double sums[2] = {0, 0}, counts[2] = {0, 0};
    for (size_t i = model->move_first[element->id]; i < model->move_first[element->id + 1]; i++) {
        const struct diag_move *move = &model->moves[i];
        if (!move->has_way) {
            return;
        }
        if (!isnan(finder->relative[i])) {
            sums[move->is_back] += finder->relative[i];
            counts[move->is_back] += 1;
        }
    }
    for (size_t back = 0; back < 2; back++) {
        element->way_effects[back] = counts[back] > 0 ? sums[back] / counts[back] - base : 0;
    }
    if (counts[0] < 1 || counts[1] < 1) {
        element->way = counts[0] > 0 ? 1 : counts[1] > 0 ? -1 : 0;
        return;
    }
    const double difference = element->way_effects[0] - element->way_effects[1];
    element->way = difference > log(DIAG_ONE_WAY) ? 1 : difference < -log(DIAG_ONE_WAY) ? -1 : 0;
    /* What the better way differs by is not worth telling from its equals. */
    double *better = &element->way_effects[element->way > 0];
    *better = *better < log(DIAG_LINK_FACTOR) ? 0 : *better;
}

static void unit_evidence(const struct finder *finder, struct diag_element *element)
{
    find_way(finder, element);
    const struct diag_model *model = finder->model;
    double sum = 0, count = 0;
    for (size_t i = model->move_first[element->id]; i < model->move_first[element->id + 1]; i++) {
        if (element->way != 0 && model->moves[i].is_back != (element->way < 0)) {
            continue;
        }
        sum += model->moves[i].ns;
        count += 1;
    }
    if (element->way != 0) {
        element->effect = element->way_effects[element->way < 0];
        element->se *= sqrt(2); /* of half the transfers */
    }
    element->own = count > 0 ? sum / count : 0;
    element->healthy = element->own / exp(element->effect);
}

static void stage_evidence(const struct finder *finder, struct diag_element *element)
{
    const struct table *table = &finder->tables[element->id];
    element->own = 0;
    for (size_t p = 0; p < table->positions; p++) {
        element->own += table->level[p];
    }
    element->healthy = element->own / exp(element->effect);
}

static void finish_elements(struct finder *finder)
{
    struct diag_effects *effects = finder->effects;
    for (size_t i = 0; i < effects->count; i++) {
        if (effects->elements[i].what == DIAG_RANK) {
            finder->is_slow[effects->elements[i].id] = 1;
        }
    }
    for (size_t c = 0; c < finder->model->class_count; c++) {
        find_levels(finder, &finder->tables[c]);
    }
    for (size_t i = 0; i < effects->count; i++) {
        struct diag_element *element = &effects->elements[i];
        switch (element->what) {
        case DIAG_RANK:
            find_place(finder, element);
            break;
        case DIAG_HEAD:
            head_evidence(finder, element);
            break;
        case DIAG_IDLE:
            idle_evidence(finder, element);
            break;
        case DIAG_STAGE:
            stage_evidence(finder, element);
            break;
        case DIAG_UNIT:
            unit_evidence(finder, element);
            break;
        case DIAG_HEAVIER:
        case DIAG_SPREAD:
        case DIAG_JITTER:
            break;
        }
    }
    keep_kind(finder->model, effects);
}

/* What exceeds the noise but not what ranks differ by anyway. */
static enum rs_status find_spread(struct finder *finder)
{
    struct diag_element *spread = &finder->effects->spread;
    *spread = (struct diag_element){.what = DIAG_SPREAD, .position = GRAPH_NONE, .input = -1};
    for (size_t p = 0; p < finder->total_pool.count; p++) {
        const struct diag_panel *panel = finder->total_pool.panels[p];
        for (size_t m = 0; m < panel->n; m++) {
            if (p_of(finder, panel, m) > DIAG_LEVEL_EXACT || finder->is_slow[panel->id[m]]) {
                continue;
            }
            const size_t need = spread->among_count + 1;
            uint32_t *among = rs_mem_realloc(spread->among, need, sizeof *among);
            spread->among = among != NULL ? among : spread->among;
            double *effects = rs_mem_realloc(spread->among_effects, need, sizeof *effects);
            spread->among_effects = effects != NULL ? effects : spread->among_effects;
            if (among == NULL || effects == NULL) {
                return RS_NOMEM;
            }
            const double effect = panel->a[m] - panel->base;
            among[spread->among_count] = panel->id[m];
            effects[spread->among_count++] = effect;
            spread->sum = effect > spread->sum ? effect : spread->sum;
        }
    }
    return RS_OK;
}

/* Who came closest to being named, and how many more steps would tell. */
static void find_close(struct finder *finder)
{
    struct diag_effects *effects = finder->effects;
    const struct diag_pool *pools[] = {&finder->total_pool, &finder->head_pool, &finder->idle_pool};
    double best = 0.5;
    for (size_t i = 0; i < 3; i++) {
        for (size_t p = 0; p < pools[i]->count; p++) {
            const struct diag_panel *panel = pools[i]->panels[p];
            for (size_t m = 0; m < panel->n; m++) {
                const double p_own = p_of(finder, panel, m);
                if (p_own > best || p_own <= DIAG_LEVEL_WEAK || panel->p_tau[m] > DIAG_LEVEL_WEAK ||
                    pools[i]->dof < 1) {
                    continue;
                }
                best = p_own;
                effects->has_close = true;
                effects->close = (struct diag_element){.what = i == 0   ? DIAG_RANK
                                                               : i == 1 ? DIAG_HEAD
                                                                        : DIAG_IDLE,
                                                       .id = panel->id[m],
                                                       .position = GRAPH_NONE,
                                                       .effect = panel->a[m] - panel->base,
                                                       .is_additive = panel->is_additive,
                                                       .hits = panel->steps,
                                                       .peers = panel->n,
                                                       .period = 1,
                                                       .input = -1};
                set_test(finder, pools[i], panel, m, &effects->close);
                const double ratio = effects->close.limit / effects->close.effect;
                effects->close_more_steps =
                    ceil((double)panel->steps * (ratio * ratio * 1.2 - 1)) + 1;
            }
        }
    }
}

static void find_sensitivity(struct finder *finder)
{
    double sum = 0, count = 0;
    for (size_t p = 0; p < finder->total_pool.count; p++) {
        struct diag_element element = {0};
        const struct diag_panel *panel = finder->total_pool.panels[p];
        set_test(finder, &finder->total_pool, panel, 0, &element);
        sum += element.limit;
        count += 1;
        for (size_t m = 0; m < panel->n; m++) {
            finder->effects->judged_workers += isnan(panel->a[m]) ? 0U : 1U;
        }
    }
    finder->effects->smallest_factor = count > 0 ? exp(sum / count) : 0;
}

/* ---- the door --------------------------------------------------------------------------------- */

static size_t gather(struct diag_panel **panels, size_t count, struct diag_panel **known)
{
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        if (panels[i] != NULL && panels[i]->n > 1) {
            known[found++] = panels[i];
        }
    }
    return found;
}

/* Stages differ by chance at least as means of their ranks do. Where no kernels were recorded, nothing says that
 * operations of one name do the same work in all of them: by design, one stage may have other layers. */
static double stage_prior(const struct finder *finder, double prior)
{
    size_t least = SIZE_MAX;
    bool has_kernels = false;
    for (size_t c = 0; c < finder->model->class_count; c++) {
        const size_t n = finder->tables[c].n;
        least = n > 0 && n < least ? n : least;
        has_kernels = has_kernels || finder->stage_work.kernels[c] > 0;
    }
    prior = has_kernels ? prior : fmax(prior, DIAG_TAU_PRIOR_STAGE);
    return least < SIZE_MAX ? hypot(prior, finder->total_pool.tau / sqrt((double)least)) : prior;
}

static enum rs_status judge_all(struct finder *finder)
{
    const struct diag_model *model = finder->model;
    struct diag_panel **known =
        rs_mem_calloc(4 * model->class_count + model->panel_count + 1, sizeof(struct diag_panel *));
    if (known == NULL) {
        return RS_NOMEM;
    }
    const size_t c = model->class_count;
    finder->log_pool = (struct diag_pool){.panels = known};
    finder->log_pool.count = gather(finder->logs, c, known);
    finder->total_pool = (struct diag_pool){.panels = known + c};
    finder->total_pool.count = gather(finder->totals, c, known + c);
    finder->head_pool = (struct diag_pool){.panels = known + 2 * c};
    finder->head_pool.count = gather(finder->heads, c, known + 2 * c);
    finder->idle_pool = (struct diag_pool){.panels = known + 3 * c};
    finder->idle_pool.count = gather(finder->idles, c, known + 3 * c);
    finder->stage_pool = (struct diag_pool){.panels = &finder->stages, .count = 1};
    size_t links = 0;
    for (size_t p = 0; p < model->panel_count; p++) {
        finder->link_pools[p] = (struct diag_pool){.panels = &finder->links[p], .count = 1};
        links += finder->links[p]->n > 1;
    }
    finder->tests =
        (double)(finder->log_pool.count + finder->total_pool.count + finder->head_pool.count +
                 finder->idle_pool.count + (finder->stages->n > 1) + links);
    finder->tests = finder->tests > 1 ? finder->tests : 1;
    const bool shares = diag_may_share_cores(model);
    const double prior = shares ? DIAG_TAU_PRIOR_HOST : DIAG_TAU_PRIOR;
    finder->log_pool.shares_cores = finder->total_pool.shares_cores = shares;
    enum rs_status status = diag_pool_judge(&finder->log_pool, prior, finder->tests);
    if (status == RS_OK) {
        status = diag_pool_judge(&finder->total_pool, prior, finder->tests);
    }
    if (status == RS_OK) {
        status = diag_pool_judge(&finder->head_pool, DIAG_HIT_STEP_SHARE * finder->step_ns / 2,
                                 finder->tests);
    }
    if (status == RS_OK) {
        status = diag_pool_judge(&finder->idle_pool, DIAG_HIT_STEP_SHARE * finder->step_ns / 2,
                                 finder->tests);
    }
    if (status == RS_OK) {
        status = diag_pool_judge(&finder->stage_pool, stage_prior(finder, prior), finder->tests);
    }
    for (size_t p = 0; status == RS_OK && p < model->panel_count; p++) {
        status = diag_pool_judge(&finder->link_pools[p], DIAG_TAU_PRIOR, finder->tests);
    }
    return status;
}

static enum rs_status name_all(struct finder *finder)
{
    enum rs_status status = name_members(finder, &finder->total_pool, DIAG_RANK);
    if (status == RS_OK) {
        status = name_members(finder, &finder->log_pool, DIAG_RANK);
    }
    if (status == RS_OK) {
        status = name_members(finder, &finder->head_pool, DIAG_HEAD);
    }
    if (status == RS_OK) {
        status = name_members(finder, &finder->idle_pool, DIAG_IDLE);
    }
    if (status == RS_OK) {
        status = name_stages(finder);
    }
    if (status == RS_OK) {
        status = name_links(finder);
    }
    if (status == RS_OK) {
        finish_elements(finder);
        status = find_spread(finder);
    }
    if (status == RS_OK) {
        status = diag_stages_heavier(finder->model, &finder->stage_work, finder->effects);
    }
    if (status == RS_OK) {
        find_close(finder);
        find_sensitivity(finder);
    }
    return status;
}

static enum rs_status make_panels(struct finder *finder)
{
    enum rs_status status = make_tables(finder);
    for (size_t c = 0; status == RS_OK && c < finder->model->class_count; c++) {
        status = class_panels(finder, c);
        if (status == RS_OK) {
            status = head_panel(finder, c);
        }
        if (status == RS_OK) {
            status = idle_panel(finder, c);
        }
    }
    if (status == RS_OK) {
        status = stage_panel(finder);
    }
    return status == RS_OK ? link_panels(finder) : status;
}

static void finder_fini(struct finder *finder)
{
    for (size_t c = 0; c < finder->model->class_count; c++) {
        if (finder->tables != NULL) {
            rs_mem_free(finder->tables[c].workers);
            rs_mem_free(finder->tables[c].work);
            rs_mem_free(finder->tables[c].level);
        }
        if (finder->logs != NULL) {
            diag_panel_free(&finder->logs[c]);
        }
        if (finder->totals != NULL) {
            diag_panel_free(&finder->totals[c]);
        }
        if (finder->heads != NULL) {
            diag_panel_free(&finder->heads[c]);
        }
        if (finder->idles != NULL) {
            diag_panel_free(&finder->idles[c]);
        }
    }
    for (size_t p = 0; finder->links != NULL && p < finder->model->panel_count; p++) {
        diag_panel_free(&finder->links[p]);
    }
    diag_panel_free(&finder->stages);
    diag_stages_fini(&finder->stage_work);
    rs_mem_free(finder->log_pool.panels);
    rs_mem_free(finder->tables);
    rs_mem_free(finder->member);
    rs_mem_free(finder->logs);
    rs_mem_free(finder->totals);
    rs_mem_free(finder->heads);
    rs_mem_free(finder->idles);
    rs_mem_free(finder->links);
    rs_mem_free(finder->link_pools);
    rs_mem_free(finder->relative);
    rs_mem_free(finder->scratch);
    rs_mem_free(finder->is_slow);
}

static double mean_step(const struct diag_model *model)
{
    rs_ns *ends = rs_mem_calloc(model->step_count + 1, sizeof *ends);
    if (ends == NULL || model->step_count == 0) {
        rs_mem_free(ends);
        return 0;
    }
    diag_step_ends(model, model->graph.seen, ends);
    const double mean =
        (double)(ends[model->step_count - 1] - diag_start(model)) / (double)model->step_count;
    rs_mem_free(ends);
    return mean;
}

enum rs_status diag_effects_find(const struct diag_model *model, struct diag_effects *effects)
{
    const size_t classes = model->class_count;
    struct finder finder = {.model = model, .effects = effects};
    *effects = (struct diag_effects){0};
    finder.step_ns = mean_step(model);
    finder.tables = rs_mem_calloc(classes + 1, sizeof *finder.tables);
    finder.member = rs_mem_calloc(model->worker_count + 1, sizeof *finder.member);
    finder.logs = rs_mem_calloc(classes + 1, sizeof(struct diag_panel *));
    finder.totals = rs_mem_calloc(classes + 1, sizeof(struct diag_panel *));
    finder.heads = rs_mem_calloc(classes + 1, sizeof(struct diag_panel *));
    finder.idles = rs_mem_calloc(classes + 1, sizeof(struct diag_panel *));
    finder.links = rs_mem_calloc(model->panel_count + 1, sizeof(struct diag_panel *));
    finder.link_pools = rs_mem_calloc(model->panel_count + 1, sizeof *finder.link_pools);
    finder.scratch = rs_mem_calloc(
        3 * model->worker_count + model->unit_count + model->step_count + 1, sizeof(double));
    finder.is_slow = rs_mem_calloc(model->worker_count + 1, 1);
    enum rs_status status = finder.tables == NULL || finder.member == NULL || finder.logs == NULL ||
                                    finder.totals == NULL || finder.heads == NULL ||
                                    finder.idles == NULL || finder.links == NULL ||
                                    finder.link_pools == NULL || finder.scratch == NULL ||
                                    finder.is_slow == NULL
                                ? RS_NOMEM
                                : RS_OK;
    if (status == RS_OK) {
        status = make_panels(&finder);
    }
    if (status == RS_OK) {
        status = judge_all(&finder);
    }
    if (status == RS_OK) {
        status = name_all(&finder);
    }
    finder_fini(&finder);
    if (status != RS_OK) {
        diag_effects_fini(effects);
    }
    return status;
}

static void element_fini(struct diag_element *element)
{
    rs_mem_free(element->by_step);
    rs_mem_free(element->among);
    rs_mem_free(element->among_effects);
}

void diag_effects_fini(struct diag_effects *effects)
{
    for (size_t i = 0; i < effects->count; i++) {
        element_fini(&effects->elements[i]);
    }
    element_fini(&effects->spread);
    element_fini(&effects->heavier);
    element_fini(&effects->jitter);
    rs_mem_free(effects->elements);
    *effects = (struct diag_effects){0};
}
