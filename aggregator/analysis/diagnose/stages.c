/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long stages of a pipeline compute: all of it, and the part that is the same work on all of them.
 *
 * A stage with more kernels (the last one with its loss) takes longer by design. Spans with the same kernels in
 * the same order (their signature) are the same work wherever they run, so stages are compared by the signatures
 * that all of them have equally often, each at its mean length (shapes are not part of a signature: where one kernel
 * comes in two sizes, none may be missing); by all of their work only where all run equally many kernels, or where
 * kernels are not known. What a stage's other kernels add is `heavier`: to be rebalanced, nobody's fault.
 */
#include "aggregator/analysis/diagnose/diagnose_priv.h"
#include "common/base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct work_key {
    uint64_t signature;
    uint32_t class_id;
};

struct measure {
    const struct diag_model *model;
    struct diag_stages *stages;
    uint64_t *common; /* signatures that all classes have, sorted */
    size_t common_count;
    double *sums, *counts; /* [common] of one worker's step */
    size_t *seen;        /* [common] which of them it has: nobody looks through all for each step */
    double *member_same; /* [worker * steps]; NAN */
    double *member_total;
    double common_share; /* of all computing of the class that has least of it */
};

static int by_signature(const void *left, const void *right)
{
    const struct work_key *a = left, *b = right;
    if (a->signature != b->signature) {
        return a->signature > b->signature ? 1 : -1;
    }
    return (a->class_id > b->class_id) - (a->class_id < b->class_id);
}

static bool is_work(const struct diag_model *model, const struct diag_item *item)
{
    return item->figure == RS_FIGURE_COMPUTING && item->step < model->step_count;
}

/* Index of a common signature; SIZE_MAX: not all stages have it. */
static size_t common_index(const struct measure *measure, uint64_t signature)
{
    size_t low = 0, high = measure->common_count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (measure->common[middle] < signature) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < measure->common_count && measure->common[low] == signature ? low : SIZE_MAX;
}

static size_t working_classes(const struct diag_model *model, uint8_t *works)
{
    size_t count = 0;
    for (size_t i = 0; i < model->item_count; i++) {
        if (is_work(model, &model->items[i])) {
            works[model->workers[model->items[i].worker].class_id] = 1;
        }
    }
    for (size_t c = 0; c < model->class_count; c++) {
        count += works[c];
    }
    return count;
}

static enum rs_status find_common(struct measure *measure)
{
    const struct diag_model *model = measure->model;
    struct work_key *keys = rs_mem_calloc(model->item_count + 1, sizeof *keys);
    uint8_t *works = rs_mem_calloc(model->class_count + 1, 1);
    double *members = rs_mem_calloc(model->class_count + 1, sizeof *members);
    measure->common = rs_mem_calloc(model->item_count + 1, sizeof *measure->common);
    if (keys == NULL || works == NULL || members == NULL || measure->common == NULL) {
        rs_mem_free(keys);
        rs_mem_free(works);
        rs_mem_free(members);
        return RS_NOMEM;
    }
    const size_t classes = working_classes(model, works);
    size_t count = 0;
    for (size_t w = 0; w < model->worker_count; w++) {
        members[model->workers[w].class_id] += model->workers[w].is_judged;
    }
    for (size_t i = 0; i < model->item_count; i++) {
        const struct diag_item *item = &model->items[i];
        if (is_work(model, item) && item->signature != 0) {
            keys[count++] =
                (struct work_key){item->signature, model->workers[item->worker].class_id};
        }
    }
    if (count > 1) {
        qsort(keys, count, sizeof *keys, by_signature);
    }
    for (size_t i = 0, end; i < count; i = end) {
        size_t having = 0;
        bool is_even = true;
        double often = 0;
        for (size_t next = end = i; next < count && keys[next].signature == keys[i].signature;
             next = end) {
            while (end < count && by_signature(&keys[end], &keys[next]) == 0) {
                end++;
            }
            const double own = (double)(end - next) / members[keys[next].class_id];
            is_even = is_even && (having == 0 || fabs(own - often) < 0.01 * often);
            often = own;
            having++;
        }
        if (having == classes && is_even) {
            measure->common[measure->common_count++] = keys[i].signature;
        }
    }
    rs_mem_free(keys);
    rs_mem_free(works);
    rs_mem_free(members);
    return RS_OK;
}

/* One worker's step: items from `i` to `end`. */
static void measure_step(struct measure *measure, size_t i, size_t end, double *class_common,
                         double *class_total)
{
    const struct diag_model *model = measure->model;
    const uint32_t w = model->items[i].worker, k = model->items[i].step;
    const size_t at = w * model->step_count + k;
    double total = 0, same = 0, shared = 0;
    size_t seen = 0;
    for (; i < end; i++) {
        const struct diag_item *item = &model->items[i];
        if (!is_work(model, item)) {
            continue;
        }
        const double work = (double)model->graph.work[item->node];
        const size_t c = item->signature != 0 ? common_index(measure, item->signature) : SIZE_MAX;
        total += work;
        if (item->kernels > 0 && model->workers[w].has_device) {
            measure->stages->kernels[model->workers[w].class_id] += (double)item->kernels;
        }
        if (c != SIZE_MAX) {
            if (measure->counts[c] <= 0) {
                measure->seen[seen++] = c;
            }
            measure->sums[c] += work;
            measure->counts[c] += 1;
            class_common[model->workers[w].class_id] += work;
            shared += work;
        }
    }
    class_total[model->workers[w].class_id] += total;
    const bool has_all = seen > 0 && seen == measure->common_count;
    for (size_t c = 0; c < measure->common_count && has_all; c++) {
        same += measure->sums[c] / measure->counts[c];
    }
    for (size_t c = 0; c < seen; c++) {
        measure->sums[measure->seen[c]] = measure->counts[measure->seen[c]] = 0;
    }
    /* Where the CPU time is known, by that, as ranks: a crowded machine makes the wall time of a whole stage long. It is
     * known of a step only, so the same work has the part of it that it has of the wall time; a mean per signature would
     * give one crowded operation of many the weight of all. */
    if (model->cpu != NULL && total > 0) {
        same = (double)model->cpu[at] * (shared / total);
        total = (double)model->cpu[at];
    }
    measure->member_total[at] = total > 0 ? log(total) : (double)NAN;
    measure->member_same[at] = has_all && same > 0 ? log(same) : (double)NAN;
}

static enum rs_status measure_members(struct measure *measure)
{
    const struct diag_model *model = measure->model;
    const size_t cells = model->worker_count * model->step_count;
    double *class_common = rs_mem_calloc(2 * model->class_count + 1, sizeof *class_common);
    measure->sums = rs_mem_calloc(measure->common_count + 1, sizeof *measure->sums);
    measure->counts = rs_mem_calloc(measure->common_count + 1, sizeof *measure->counts);
    measure->seen = rs_mem_calloc(measure->common_count + 1, sizeof *measure->seen);
    measure->member_same = rs_mem_calloc(cells + 1, sizeof *measure->member_same);
    measure->member_total = rs_mem_calloc(cells + 1, sizeof *measure->member_total);
    if (class_common == NULL || measure->sums == NULL || measure->counts == NULL ||
        measure->seen == NULL || measure->member_same == NULL || measure->member_total == NULL) {
        rs_mem_free(class_common);
        return RS_NOMEM;
    }
    double *class_total = class_common + model->class_count;
    for (size_t i = 0; i < cells; i++) {
        measure->member_same[i] = measure->member_total[i] = (double)NAN;
    }
    for (size_t i = 0, end; i < model->item_count; i = end) {
        for (end = i + 1;
             end < model->item_count && model->items[end].worker == model->items[i].worker &&
             model->items[end].step == model->items[i].step;
             end++) {
        }
        if (model->items[i].step < model->step_count) {
            measure_step(measure, i, end, class_common, class_total);
        }
    }
    measure->common_share = 1;
    for (size_t c = 0; c < model->class_count; c++) {
        if (class_total[c] > 0) {
            measure->common_share = fmin(measure->common_share, class_common[c] / class_total[c]);
        }
    }
    rs_mem_free(class_common);
    return RS_OK;
}

/* Median of the faster half of a class's members in one step: a slow rank is no slow stage. */
static double class_level(const struct diag_model *model, const double *members, uint32_t class_id,
                          size_t k, double *scratch)
{
    size_t count = 0;
    for (size_t w = 0; w < model->worker_count; w++) {
        const double own = members[w * model->step_count + k];
        if (model->workers[w].class_id == class_id && model->workers[w].is_judged && !isnan(own)) {
            scratch[count++] = own;
        }
    }
    (void)diag_median(scratch, count); /* sorts */
    return count > 0 ? diag_median(scratch, (count + 1) / 2) : (double)NAN;
}

static void count_kernels(struct measure *measure)
{
    const struct diag_model *model = measure->model;
    struct diag_stages *stages = measure->stages;
    double least = (double)INFINITY, most = 0;
    for (size_t c = 0; c < model->class_count; c++) {
        double members = 0;
        for (size_t w = 0; w < model->worker_count; w++) {
            members += model->workers[w].class_id == c && model->workers[w].is_judged;
        }
        stages->kernels[c] /= members > 0 ? members * (double)model->step_count : 1;
        if (members > 0) {
            least = fmin(least, stages->kernels[c]);
            most = fmax(most, stages->kernels[c]);
        }
    }
    stages->are_alike = most <= least * (1 + DIAG_KERNELS_ALIKE);
}

static enum rs_status measure_all(struct measure *measure)
{
    const struct diag_model *model = measure->model;
    struct diag_stages *stages = measure->stages;
    enum rs_status status = find_common(measure);
    if (status == RS_OK) {
        status = measure_members(measure);
    }
    double *scratch = rs_mem_calloc(model->worker_count + 1, sizeof *scratch);
    if (status != RS_OK || scratch == NULL) {
        rs_mem_free(scratch);
        return RS_NOMEM;
    }
    count_kernels(measure);
    stages->has_same = measure->common_share >= DIAG_COMMON_SHARE;
    for (uint32_t c = 0; c < model->class_count; c++) {
        for (size_t k = 0; k < model->step_count; k++) {
            const size_t at = c * model->step_count + k;
            stages->total[at] = class_level(model, measure->member_total, c, k, scratch);
            stages->same[at] = class_level(model, measure->member_same, c, k, scratch);
        }
    }
    rs_mem_free(scratch);
    return RS_OK;
}

enum rs_status diag_stages_measure(const struct diag_model *model, struct diag_stages *stages)
{
    struct measure measure = {.model = model, .stages = stages};
    const size_t cells = model->class_count * model->step_count;
    *stages = (struct diag_stages){0};
    stages->total = rs_mem_calloc(cells + 1, sizeof *stages->total);
    stages->same = rs_mem_calloc(cells + 1, sizeof *stages->same);
    stages->kernels = rs_mem_calloc(model->class_count + 1, sizeof *stages->kernels);
    enum rs_status status = stages->total == NULL || stages->same == NULL || stages->kernels == NULL
                                ? RS_NOMEM
                                : measure_all(&measure);
    rs_mem_free(measure.common);
    rs_mem_free(measure.sums);
    rs_mem_free(measure.counts);
    rs_mem_free(measure.seen);
    rs_mem_free(measure.member_same);
    rs_mem_free(measure.member_total);
    if (status != RS_OK) {
        diag_stages_fini(stages);
    }
    return status;
}

void diag_stages_fini(struct diag_stages *stages)
{
    rs_mem_free(stages->total);
    rs_mem_free(stages->same);
    rs_mem_free(stages->kernels);
    *stages = (struct diag_stages){0};
}

/* ---- more to do ------------------------------------------------------------------------------- */

/* Logarithm of what a stage computes in most steps: what it has to do by design it does in each of them, and what comes
 * every third step is no more work. `scratch`: [steps]. */
static double usual_total(const struct diag_model *model, const struct diag_stages *stages,
                          size_t c, double *scratch)
{
    size_t count = 0;
    for (size_t k = 0; k < model->step_count; k++) {
        const double own = stages->total[c * model->step_count + k];
        if (!isnan(own))
            scratch[count++] = own;
    }
    return count > 0 ? diag_median(scratch, count) : (double)NAN;
}

/* A logarithm, too. */
static double stage_effect(const struct diag_effects *effects, size_t c)
{
    for (size_t i = 0; i < effects->count; i++) {
        if (effects->elements[i].what == DIAG_STAGE && effects->elements[i].id == c) {
            return fmax(0, effects->elements[i].effect);
        }
    }
    return 0;
}

static enum rs_status add_heavier(const struct diag_model *model, size_t c, double effect,
                                  struct diag_element *heavier)
{
    for (size_t w = 0; w < model->worker_count; w++) {
        if (model->workers[w].class_id != c) {
            continue;
        }
        const size_t need = heavier->among_count + 1;
        uint32_t *among = rs_mem_realloc(heavier->among, need, sizeof *among);
        heavier->among = among != NULL ? among : heavier->among;
        double *effects = rs_mem_realloc(heavier->among_effects, need, sizeof *effects);
        heavier->among_effects = effects != NULL ? effects : heavier->among_effects;
        if (among == NULL || effects == NULL) {
            return RS_NOMEM;
        }
        among[heavier->among_count] = (uint32_t)w;
        effects[heavier->among_count++] = effect;
    }
    return RS_OK;
}

enum rs_status diag_stages_heavier(const struct diag_model *model, const struct diag_stages *stages,
                                   struct diag_effects *effects)
{
    struct diag_element *heavier = &effects->heavier;
    double *levels = rs_mem_calloc(2 * model->class_count + model->step_count + 1, sizeof *levels);
    enum rs_status status = levels == NULL ? RS_NOMEM : RS_OK;
    *heavier = (struct diag_element){.what = DIAG_HEAVIER,
                                     .id = GRAPH_NONE,
                                     .position = GRAPH_NONE,
                                     .hits = model->step_count,
                                     .peers = model->class_count,
                                     .period = 1,
                                     .input = -1};
    if (status != RS_OK || model->class_count < 2 || stages->are_alike) {
        rs_mem_free(levels);
        return status;
    }
    double *kernels = levels + model->class_count, *scratch = kernels + model->class_count;
    memcpy(kernels, stages->kernels, model->class_count * sizeof *kernels);
    (void)diag_median(kernels, model->class_count); /* sorts */
    const double usual = diag_median(kernels, (model->class_count + 1) / 2);
    size_t count = 0;
    for (size_t c = 0; c < model->class_count; c++) {
        const double own = usual_total(model, stages, c, scratch) - stage_effect(effects, c);
        if (!isnan(own) && stages->kernels[c] <= usual * (1 + DIAG_KERNELS_ALIKE)) {
            levels[count++] = own;
        }
    }
    const double level = diag_median(levels, count);
    for (size_t c = 0; c < model->class_count && status == RS_OK && count > 0; c++) {
        const double effect =
            usual_total(model, stages, c, scratch) - stage_effect(effects, c) - level;
        if (stages->kernels[c] > usual * (1 + DIAG_KERNELS_ALIKE) && effect > DIAG_HEAVIER_LEAST) {
            const bool is_most = heavier->id == GRAPH_NONE || effect > heavier->effect;
            heavier->effect = is_most ? effect : heavier->effect;
            heavier->id = is_most ? (uint32_t)c : heavier->id;
            heavier->own = is_most ? stages->kernels[c] : heavier->own;
            heavier->healthy = usual;
            status = add_heavier(model, c, effect, heavier);
        }
    }
    rs_mem_free(levels);
    return status;
}

/* Every stage at the mean of all: what some lose others win. */
void diag_stages_share(const struct diag_model *model, rs_dur *work)
{
    double *totals = rs_mem_calloc(2 * model->class_count + 1, sizeof *totals);
    if (totals == NULL) {
        return;
    }
    double *members = totals + model->class_count;
    double sum = 0, count = 0;
    for (size_t i = 0; i < model->item_count; i++) {
        if (is_work(model, &model->items[i])) {
            totals[model->workers[model->items[i].worker].class_id] +=
                (double)work[model->items[i].node];
        }
    }
    for (size_t w = 0; w < model->worker_count; w++) {
        members[model->workers[w].class_id] += model->workers[w].is_judged;
    }
    for (size_t c = 0; c < model->class_count; c++) {
        if (members[c] > 0 && totals[c] > 0) {
            totals[c] /= members[c];
            sum += totals[c];
            count += 1;
        }
    }
    for (size_t i = 0; i < model->item_count; i++) {
        const struct diag_item *item = &model->items[i];
        const double own = totals[model->workers[item->worker].class_id];
        if (is_work(model, item) && own > 0) {
            rs_dur *at = &work[item->node];
            *at = (rs_dur)llround((double)*at * (sum / count) / own);
        }
    }
    rs_mem_free(totals);
}
