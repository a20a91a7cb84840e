/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks to which more work comes than to their peers (loads.c) are not slow. What the load takes is found from how the work of each
 * rank follows its own load from step to step, so that a rank that is slow in all of them does not bend it:
 *
 *   work = a + b * load      per position of the program; b from what is left of both without the means of ranks and steps,
 *                            load: of the all_to_all behind the position, before it, or of the whole step, whichever tells most
 *   table --> work * (a + b * load in the middle) / (a + b * its own load)     what is judged
 *         --> what was taken away                                              `loaded`, told as imbalance
 *
 * A position of which no slope was found may follow the load nevertheless, by as much as noise hides (loads may hardly change, or
 * never). There a rank with more load may take longer by as much as it has more, no more than so; what is beyond is its own.
 */
#include "aggregator/analysis/diagnose/effects_priv.h"
#include "aggregator/analysis/median.h"
#include "common/base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Loads of one kind: of one place of the program, or of the whole step. */
struct load {
    double *x;      /* [cell] bytes */
    double *apart;  /* [cell] without means of rank and step */
    double squares; /* of `apart` */
    double middle;  /* of the rank in the middle */
    uint32_t slot;  /* of its operation */
};

struct loads {
    const struct diag_model *model;
    struct table *table;
    size_t first, end; /* into model->loads: of its class */
    size_t *steps;     /* [step_count] those in which all loads of all ranks are known */
    size_t step_count, cells;
    struct load *items; /* by slot, the whole step last */
    size_t count;
    double *y;        /* [cell] scratch */
    double *mean;     /* [n] load of a rank */
    double *doubt;    /* [n] variance of what was taken away from its step */
    double *supposed; /* [n] by how much its work is less for what noise may hide, as a logarithm */
    double *part, *means; /* [n] scratch */
    double *scratch;      /* [n + steps] */
    double *raw;          /* [cell] work of a step, as it was */
    /* [positions] on the load of the whole step, where none was found for sure; 0 elsewhere; se infinite: unknown */
    double *slope, *se;
};

static double *cell_of(const struct loads *loads, size_t i, size_t p)
{
    const size_t m = i / loads->step_count, k = loads->steps[i % loads->step_count];
    return &loads->table->work[(m * loads->model->step_count + k) * loads->table->positions + p];
}

/* Takes away the means of ranks and of steps. All cells are there, so once is enough. */
static void take_means(const struct loads *loads, double *cells)
{
    const size_t steps = loads->step_count;
    const double n = (double)loads->table->n;
    double all = 0;
    memset(loads->scratch, 0, steps * sizeof *loads->scratch);
    for (size_t m = 0; m < loads->table->n; m++) {
        double sum = 0;
        for (size_t k = 0; k < steps; k++) {
            sum += cells[m * steps + k];
            loads->scratch[k] += cells[m * steps + k] / n;
        }
        all += sum;
        for (size_t k = 0; k < steps; k++) {
            cells[m * steps + k] -= sum / (double)steps;
        }
    }
    for (size_t i = 0; i < loads->cells; i++) {
        cells[i] -= loads->scratch[i % steps] - all / (double)loads->cells;
    }
}

static double mean_of(const struct loads *loads, const double *cells, size_t m)
{
    double sum = 0;
    for (size_t k = 0; k < loads->step_count; k++) {
        sum += cells[m * loads->step_count + k] / (double)loads->step_count;
    }
    return sum;
}

/* Of the means of the ranks the one in the middle. */
static double middle_of(const struct loads *loads, const double *cells)
{
    for (size_t m = 0; m < loads->table->n; m++) {
        loads->scratch[m] = mean_of(loads, cells, m);
    }
    return rs_median(loads->scratch, loads->table->n);
}

static double work_of(const struct loads *loads, size_t i)
{
    double sum = 0;
    for (size_t p = 0; p < loads->table->positions; p++) {
        const double work = *cell_of(loads, i, p);
        sum += isnan(work) ? 0 : work;
    }
    return sum;
}

/* Slope of y, whose means are gone, and its standard error; infinite where nothing is known of it. False: none that noise would not
 * show as well. */
static bool find_slope(const struct loads *loads, const struct load *load, double *b_p,
                       double *se_p, double *told_p)
{
    const double dof = (double)((loads->table->n - 1) * (loads->step_count - 1)) - 1;
    double products = 0, rest = 0;
    *b_p = *told_p = 0;
    *se_p = (double)INFINITY;
    if (load->squares <= 0 || dof < 1) {
        return false;
    }
    for (size_t i = 0; i < loads->cells; i++) {
        products += load->apart[i] * loads->y[i];
    }
    const double b = products / load->squares;
    for (size_t i = 0; i < loads->cells; i++) {
        rest += (loads->y[i] - b * load->apart[i]) * (loads->y[i] - b * load->apart[i]);
    }
    const double se = sqrt(rest / dof / load->squares);
    *b_p = b;
    *se_p = se;
    *told_p = products * b;
    return b > 0 && diag_t_above(se > 0 ? b / se : 1e6, dof) <= DIAG_LOAD_P;
}

/* In steps in which not all loads are known the load of a rank counts as it does in the others. */
static void scale_other_steps(const struct loads *loads, size_t m, size_t p, double factor)
{
    const size_t steps = loads->model->step_count, positions = loads->table->positions;
    for (size_t k = 0, at = 0; k < steps; k++) {
        if (at < loads->step_count && loads->steps[at] == k) {
            at++;
        } else {
            loads->table->work[(m * steps + k) * positions + p] *= factor;
        }
    }
}

static void follow(const struct loads *loads, const struct load *load, size_t p, double b,
                   double se)
{
    /* more than in proportion only where that is sure: what a position has without any load is not below 0 */
    for (size_t i = 0; i < loads->cells; i++) {
        loads->y[i] = *cell_of(loads, i, p);
    }
    const double all = load->middle > 0 ? middle_of(loads, loads->y) / load->middle : b;
    b = fmin(b, fmax(all, b - DIAG_LOAD_DOUBT * se));
    for (size_t i = 0; i < loads->cells; i++) {
        loads->y[i] -= b * load->x[i];
    }
    const double a = middle_of(loads, loads->y);
    const double usual = a + b * load->middle;
    for (size_t i = 0; i < loads->cells && usual > 0; i++) {
        const double expected = fmax(a + b * load->x[i], DIAG_LOAD_LEAST * usual);
        loads->y[i] = usual / expected;
        *cell_of(loads, i, p) *= loads->y[i];
    }
    for (size_t m = 0; m < loads->table->n; m++) {
        const double more = mean_of(loads, load->x, m) - load->middle;
        loads->doubt[m] += se * se * more * more;
        if (usual > 0) {
            scale_other_steps(loads, m, p, mean_of(loads, loads->y, m));
        }
    }
}

/* Of a position in the steps in which it was seen; NAN: in none. */
static double mean_known(const struct loads *loads, size_t m, size_t p)
{
    double sum = 0, known = 0;
    for (size_t k = 0; k < loads->step_count; k++) {
        const double work = *cell_of(loads, m * loads->step_count + k, p);
        sum += isnan(work) ? 0 : work;
        known += isnan(work) ? 0 : 1;
    }
    return known > 0 ? sum / known : (double)NAN;
}

static double mean_work(const struct loads *loads, size_t m)
{
    double sum = 0;
    for (size_t k = 0; k < loads->step_count; k++) {
        sum += work_of(loads, m * loads->step_count + k) / (double)loads->step_count;
    }
    return sum;
}

/* Does the work of a position follow one of the loads? */
static bool take_position(const struct loads *loads, size_t p)
{
    const uint32_t slot = (uint32_t)(p / loads->model->lanes);
    const struct load *best = NULL;
    double b = 0, se = 0, most = 0;
    size_t next = 0;
    loads->slope[p] = 0;
    loads->se[p] = (double)INFINITY;
    for (size_t i = 0; i < loads->cells; i++) {
        loads->y[i] = *cell_of(loads, i, p);
        if (isnan(loads->y[i])) {
            return false;
        }
    }
    take_means(loads, loads->y);
    while (next + 1 < loads->count && loads->items[next].slot < slot) {
        next++;
    }
    const size_t tried[] = {next, next > 0 ? next - 1 : next, loads->count - 1};
    for (size_t t = 0; t < 3; t++) {
        double own_b, own_se, told;
        const struct load *load = &loads->items[tried[t]];
        if (find_slope(loads, load, &own_b, &own_se, &told) && told > most) {
            best = load;
            b = own_b;
            se = own_se;
            most = told;
        }
        loads->slope[p] = own_b; /* of the whole step's, the last */
        loads->se[p] = own_se;
    }
    if (best != NULL) {
        loads->slope[p] = loads->se[p] = 0;
        follow(loads, best, p, b, se);
    }
    return best != NULL;
}

/* To most ranks nothing may come at all. */
static double of_middle(const struct loads *loads, size_t m)
{
    const double middle = loads->items[loads->count - 1].middle;
    return middle > 0 ? loads->mean[m] / middle : loads->mean[m] > 0 ? (double)INFINITY : 1;
}

/* More comes to it, and it worked. */
static bool is_heavy(const struct loads *loads, size_t m)
{
    return of_middle(loads, m) >= DIAG_MORE_LOAD && mean_of(loads, loads->raw, m) > 0;
}

/* Means of the ranks at a position, into `means`, and those that are known in order, into `scratch`. */
static size_t sort_means(const struct loads *loads, size_t p)
{
    size_t known = 0;
    for (size_t m = 0; m < loads->table->n; m++) {
        loads->means[m] = mean_known(loads, m, p);
        if (!isnan(loads->means[m])) {
            loads->scratch[known++] = loads->means[m];
        }
    }
    if (known > 0) {
        (void)diag_median(loads->scratch, known); /* sorts */
    }
    return known;
}

/* How much longer its work at the position of sort_means() takes than on the other ranks, as a factor, as far as its load is larger. */
static double share_of(const struct loads *loads, size_t m, size_t known, double *usual_p)
{
    const double own = loads->means[m];
    *usual_p = isnan(own) || known < 2
                   ? 0
                   : effect_median_of_others(loads->scratch, known, own, known - 1);
    return *usual_p > 0 && own > *usual_p ? fmin(of_middle(loads, m), own / *usual_p) : 1;
}

static bool is_unsure(const struct loads *loads, size_t p)
{
    return loads->se[p] > 0 && isfinite(loads->se[p]);
}

/* part[m]: which part of what its work takes longer noise may hide, of all slopes together where none was found. */
static void find_parts(const struct loads *loads)
{
    double slope = 0, squares = 0, usual;
    memset(loads->part, 0, loads->table->n * sizeof *loads->part);
    for (size_t p = 0; p < loads->table->positions; p++) {
        if (!is_unsure(loads, p)) {
            continue;
        }
        slope += loads->slope[p];
        squares += loads->se[p] * loads->se[p];
        const size_t known = sort_means(loads, p);
        for (size_t m = 0; m < loads->table->n; m++) {
            if (is_heavy(loads, m)) {
                const double share = share_of(loads, m, known, &usual);
                loads->part[m] += (share - 1) * usual;
            }
        }
    }
    for (size_t m = 0; m < loads->table->n; m++) {
        const double more = loads->mean[m] - loads->items[loads->count - 1].middle;
        const double most = fmax(0, slope + DIAG_LOAD_DOUBT * sqrt(squares)) * more;
        loads->part[m] = loads->part[m] > most ? most / loads->part[m] : 1;
    }
}

/* One position of all heavy ranks. */
static void take_share(const struct loads *loads, size_t p)
{
    const size_t known = loads->se[p] > 0 ? sort_means(loads, p) : 0;
    for (size_t m = 0; m < loads->table->n && known > 0; m++) {
        double usual;
        const double share = is_heavy(loads, m) ? share_of(loads, m, known, &usual) : 1;
        if (share <= 1) {
            continue;
        }
        const double factor = 1 / (1 + (share - 1) * (is_unsure(loads, p) ? loads->part[m] : 1));
        for (size_t k = 0; k < loads->step_count; k++) {
            *cell_of(loads, m * loads->step_count + k, p) *= factor;
        }
        scale_other_steps(loads, m, p, factor);
    }
}

/* Takes away what heavy ranks take longer where no slope was found, as much as noise may hide. supposed[m]: by how much their work, as a
 * logarithm, is less. */
static void take_shares(const struct loads *loads)
{
    const size_t n = loads->table->n;
    for (size_t m = 0; m < n; m++) {
        loads->supposed[m] = is_heavy(loads, m) ? mean_work(loads, m) : 0;
    }
    find_parts(loads);
    for (size_t p = 0; p < loads->table->positions; p++) {
        take_share(loads, p);
    }
    for (size_t m = 0; m < n; m++) {
        const double after = is_heavy(loads, m) ? mean_work(loads, m) : 0;
        loads->supposed[m] = after > 0 ? log(loads->supposed[m] / after) : 0;
    }
}

/* What is left above the others, as far as the doubt of the slopes explains it. */
static void take_rest(const struct loads *loads)
{
    const size_t n = loads->table->n, row = loads->model->step_count * loads->table->positions;
    for (size_t m = 0; m < n; m++) {
        loads->means[m] = 0;
        for (size_t k = 0; k < loads->step_count; k++) {
            const double work = work_of(loads, m * loads->step_count + k);
            loads->means[m] += work > 0 ? log(work) / (double)loads->step_count : 0;
        }
        loads->scratch[m] = loads->means[m];
    }
    (void)diag_median(loads->scratch, n); /* sorts */
    for (size_t m = 0; m < n; m++) {
        if (!is_heavy(loads, m)) {
            continue;
        }
        const double most = DIAG_LOAD_DOUBT * sqrt(loads->doubt[m]) / mean_of(loads, loads->raw, m);
        const double excess =
            loads->means[m] - effect_median_of_others(loads->scratch, n, loads->means[m], n - 1);
        const double factor = exp(-fmin(fmax(0, excess), most));
        for (size_t i = 0; i < row && excess > 0; i++) {
            loads->table->work[m * row + i] *= factor;
        }
    }
}

/* Ranks of which much was taken away. */
static enum rs_status note_loaded(const struct loads *loads, struct diag_element *loaded)
{
    const struct table *table = loads->table;
    for (size_t m = 0; m < table->n; m++) {
        double effect = 0;
        for (size_t k = 0; k < loads->step_count; k++) {
            const size_t i = m * loads->step_count + k;
            const double left = work_of(loads, i);
            effect += left > 0 ? log(loads->raw[i] / left) / (double)loads->step_count : 0;
        }
        if (of_middle(loads, m) < DIAG_MORE_LOAD || effect < DIAG_HEAVIER_LEAST) {
            continue;
        }
        if (loads->supposed[m] > effect / 2) {
            loaded->p = DIAG_LEVEL_WEAK; /* that the load is the reason is likely, and not seen */
        }
        const size_t need = loaded->among_count + 1;
        uint32_t *among = rs_mem_realloc(loaded->among, need, sizeof *among);
        loaded->among = among != NULL ? among : loaded->among;
        double *effects = rs_mem_realloc(loaded->among_effects, need, sizeof *effects);
        loaded->among_effects = effects != NULL ? effects : loaded->among_effects;
        double *ratios = rs_mem_realloc(loaded->among_loads, need, sizeof *ratios);
        loaded->among_loads = ratios != NULL ? ratios : loaded->among_loads;
        if (among == NULL || effects == NULL || ratios == NULL) {
            return RS_NOMEM;
        }
        ratios[loaded->among_count] = log(of_middle(loads, m));
        among[loaded->among_count] = table->workers[m];
        effects[loaded->among_count++] = effect;
        if (effect > loaded->effect) {
            loaded->effect = effect;
            loaded->id = table->workers[m];
            loaded->own = loads->mean[m];
            loaded->healthy = loads->items[loads->count - 1].middle;
            loaded->peers = table->n;
        }
    }
    return RS_OK;
}

static enum rs_status judge_loads(const struct loads *loads, struct diag_element *loaded)
{
    const struct table *table = loads->table;
    bool follows = false;
    for (size_t i = 0; i < loads->cells; i++) {
        loads->raw[i] = work_of(loads, i);
    }
    for (size_t m = 0; m < table->n; m++) {
        loads->mean[m] = mean_of(loads, loads->items[loads->count - 1].x, m);
    }
    for (size_t p = 0; p < table->positions; p++) {
        follows = take_position(loads, p) || follows;
    }
    take_shares(loads);
    if (follows) {
        take_rest(loads);
    }
    return note_loaded(loads, loaded);
}

/* ---- which loads -------------------------------------------------------------------------------- */

static int compare_slots(const void *left, const void *right)
{
    const uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

/* Slots of the class's loads, each once, ascending. */
static size_t slots_of(const struct loads *loads, uint32_t *slots)
{
    const struct diag_model *model = loads->model;
    size_t count = 0, kept = 0;
    for (size_t i = loads->first; i < loads->end; i++) {
        slots[count++] = model->loads[i].slot;
    }
    if (count > 1) {
        qsort(slots, count, sizeof *slots, compare_slots);
    }
    for (size_t i = 0; i < count; i++) {
        if (kept == 0 || slots[i] != slots[kept - 1]) {
            slots[kept++] = slots[i];
        }
    }
    return kept;
}

/* Steps in which all members have all of them. `seen`: [steps] scratch. */
static void choose_steps(struct loads *loads, size_t places, uint32_t *seen)
{
    const struct diag_model *model = loads->model;
    for (size_t i = loads->first; i < loads->end; i++) {
        const struct diag_load *load = &model->loads[i];
        seen[load->step] += model->workers[load->worker].is_judged;
    }
    for (size_t k = 0; k < model->step_count; k++) {
        if (seen[k] == places * loads->table->n) {
            loads->steps[loads->step_count++] = k;
        }
    }
    loads->cells = loads->table->n * loads->step_count;
}

static void fill(const struct loads *loads, const struct finder *finder, const uint32_t *slots)
{
    const struct diag_model *model = finder->model;
    struct load *whole = &loads->items[loads->count - 1];
    for (size_t i = loads->first, k = 0; i < loads->end; i++) {
        const struct diag_load *load = &model->loads[i];
        const uint32_t *at_slot =
            bsearch(&load->slot, slots, loads->count - 1, sizeof *slots, compare_slots);
        if (i == loads->first || load->worker != model->loads[i - 1].worker) {
            k = 0; /* those of a rank come by step */
        }
        while (k < loads->step_count && loads->steps[k] < load->step) {
            k++;
        }
        if (at_slot != NULL && k < loads->step_count && loads->steps[k] == load->step &&
            model->workers[load->worker].is_judged) {
            const size_t l = (size_t)(at_slot - slots);
            const size_t at = finder->member[load->worker] * loads->step_count + k;
            loads->items[l].x[at] += load->bytes;
            whole->x[at] += load->bytes;
        }
    }
    for (size_t l = 0; l < loads->count; l++) {
        struct load *load = &loads->items[l];
        load->middle = middle_of(loads, load->x);
        memcpy(load->apart, load->x, loads->cells * sizeof *load->x);
        take_means(loads, load->apart);
        for (size_t i = 0; i < loads->cells; i++) {
            load->squares += load->apart[i] * load->apart[i];
        }
    }
}

static enum rs_status take_class(struct loads *loads, struct finder *finder, const uint32_t *slots)
{
    const size_t n = loads->table->n, places = loads->count - 1;
    const size_t cells = (2 * loads->count + 2) * loads->cells;
    loads->items = rs_mem_calloc(loads->count, sizeof *loads->items);
    double *room = rs_mem_calloc(
        cells + 6 * n + loads->step_count + 2 * loads->table->positions + 1, sizeof *room);
    enum rs_status status = RS_NOMEM;
    if (loads->items != NULL && room != NULL) {
        for (size_t l = 0; l < loads->count; l++) {
            loads->items[l] = (struct load){.x = room + 2 * l * loads->cells,
                                            .apart = room + (2 * l + 1) * loads->cells,
                                            .slot = l < places ? slots[l] : UINT32_MAX};
        }
        loads->y = room + 2 * loads->count * loads->cells;
        loads->raw = loads->y + loads->cells;
        loads->mean = loads->raw + loads->cells;
        loads->doubt = loads->mean + n;
        loads->supposed = loads->doubt + n;
        loads->part = loads->supposed + n;
        loads->means = loads->part + n;
        loads->slope = loads->means + n;
        loads->se = loads->slope + loads->table->positions;
        loads->scratch = loads->se + loads->table->positions;
        fill(loads, finder, slots);
        status = judge_loads(loads, &finder->effects->loaded);
    }
    rs_mem_free(loads->items);
    rs_mem_free(room);
    return status;
}

enum rs_status effect_take_loads(struct finder *finder, size_t c)
{
    const struct diag_model *model = finder->model;
    struct loads loads = {.model = model, .table = &finder->tables[c]};
    loads.first = loads.end = finder->load_at; /* classes come in order, and so do their loads */
    while (loads.end < model->load_count &&
           model->workers[model->loads[loads.end].worker].class_id == c) {
        loads.end++;
    }
    finder->load_at = loads.end;
    if (loads.first == loads.end || loads.table->n < 2 || loads.table->positions == 0 ||
        finder->shares_cores || model->cpu != NULL) {
        return RS_OK;
    }
    uint32_t *slots = rs_mem_calloc(loads.end - loads.first + 1, sizeof *slots);
    uint32_t *seen = rs_mem_calloc(model->step_count + 1, sizeof *seen);
    loads.steps = rs_mem_calloc(model->step_count + 1, sizeof *loads.steps);
    enum rs_status status = RS_NOMEM;
    if (slots != NULL && seen != NULL && loads.steps != NULL) {
        const size_t places = slots_of(&loads, slots);
        choose_steps(&loads, places, seen);
        loads.count = places + 1;
        status = places > 0 && loads.step_count > 0 ? take_class(&loads, finder, slots) : RS_OK;
    }
    rs_mem_free(slots);
    rs_mem_free(seen);
    rs_mem_free(loads.steps);
    return status;
}
