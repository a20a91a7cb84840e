/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long stages of a pipeline compute: all of it, and the part that is the same work on all of them.
 *
 * A stage with more kernels (the last one with its loss) takes longer by design. Spans with the same kernels in
 * the same order (their signature) are the same work wherever they run, so stages are compared by the signatures
 * that all of them have equally often, each at its mean length (shapes are not part of a signature: where one kernel
 * comes in two sizes, none may be missing); by all of their work only where all run equally many kernels, or where
 * kernels are not known. An embedding or a loss becomes one span with the layer beside it, and no signature may be left: then
 * stages are compared by the kernels, by name, that all of them run equally often, and where that is not enough either,
 * the largest set of stages that are alike is (stages_alike.c). What a stage's other kernels add is `heavier`: to be
 * rebalanced, nobody's fault. Stages that run the kernels of a layer in one ratio, since they have other numbers of layers, are compared by
 * one run of each (stages_level.c), and so are all where rows were lost.
 *
 *   all run as many kernels? --no--> signatures of all? --no--> names of all? --no--> names in one ratio of all?
 *       --no--> the largest set by any of these
 */
#include "aggregator/analysis/diagnose/stages_priv.h"
#include "common/base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct measure {
    const struct diag_model *model;
    struct diag_stages *stages;
    struct alike alike;    /* by signatures, or by names */
    bool is_levelled;      /* by names, of which stages run not equally many */
    double *sums, *counts; /* [kind] of one worker's step */
    size_t *seen;          /* [kind] which of them it has: nobody looks through all for each step */
    double *member_same;   /* [worker * steps]; NAN */
    double *member_total;
    double *members; /* [class] */
};

static bool is_work(const struct diag_model *model, const struct diag_item *item)
{
    return item->figure == RS_FIGURE_COMPUTING && item->step < model->step_count;
}

static bool is_stage_member(const struct measure *measure, size_t w)
{
    return measure->alike.members > 0 &&
           measure->alike.is_member[measure->model->workers[w].class_id];
}

/* The i-th piece of work of all ranks, by signature or by name; key 0: it has none. False: it does not count. */
static bool work_at(const struct diag_model *model, bool by_names, size_t i, struct alike_row *row)
{
    if (by_names) {
        const struct diag_name *name = &model->names[i];
        *row = (struct alike_row){name->key, model->workers[name->worker].class_id, name->count,
                                  name->ns};
        return model->workers[name->worker].is_judged;
    }
    const struct diag_item *item = &model->items[i];
    *row = (struct alike_row){item->signature, model->workers[item->worker].class_id, 1,
                              (double)model->graph.work[item->node]};
    return is_work(model, item);
}

enum kinds { BY_SIGNATURES, BY_NAMES, BY_NAMES_LEVELLED };

static struct alike_limits limits_of(const struct diag_model *model, enum kinds by)
{
    return (struct alike_limits){.apart = model->has_lost_rows ? DIAG_LOST_OFTEN : DIAG_AS_OFTEN,
                                 .share = by == BY_NAMES_LEVELLED && !model->has_lost_rows
                                              ? DIAG_LAYERS_SHARE
                                              : DIAG_COMMON_SHARE};
}

/* Of a member in the mean. */
static enum rs_status find_kinds(const struct measure *measure, enum kinds by, struct alike *alike)
{
    const struct diag_model *model = measure->model;
    const struct alike_limits limits = limits_of(model, by);
    const size_t all = by != BY_SIGNATURES ? model->name_count : model->item_count;
    struct alike_row *rows = rs_mem_calloc(all + 1, sizeof *rows);
    double *totals = rs_mem_calloc(model->class_count + 1, sizeof *totals);
    enum rs_status status = rows != NULL && totals != NULL ? RS_OK : RS_NOMEM;
    size_t count = 0;
    for (size_t i = 0; i < all && status == RS_OK; i++) {
        struct alike_row row;
        if (!work_at(model, by != BY_SIGNATURES, i, &row) || measure->members[row.class_id] <= 0) {
            continue;
        }
        row.count /= measure->members[row.class_id];
        row.ns /= measure->members[row.class_id];
        totals[row.class_id] += row.ns;
        if (row.key != 0) {
            rows[count++] = row;
        }
    }
    if (status == RS_OK && by == BY_NAMES_LEVELLED) {
        status = stages_level_counts(rows, &count);
    }
    if (status == RS_OK) {
        status = alike_find(rows, count, totals, model->class_count, &limits, alike);
    }
    rs_mem_free(rows);
    rs_mem_free(totals);
    return status;
}

static size_t working_classes(const struct measure *measure)
{
    size_t count = 0;
    for (size_t c = 0; c < measure->model->class_count; c++) {
        count += measure->members[c] > 0;
    }
    return count;
}

/* Those by names instead, if more classes are alike by them. */
static enum rs_status try_names(struct measure *measure, enum kinds by)
{
    struct alike found = {0};
    const enum rs_status status = find_kinds(measure, by, &found);
    if (status == RS_OK && found.members > measure->alike.members) {
        const struct alike before = measure->alike;
        measure->alike = found;
        found = before;
        measure->stages->is_by_names = true;
        measure->is_levelled = by == BY_NAMES_LEVELLED;
    }
    alike_fini(&found);
    return status;
}

static enum rs_status find_alike(struct measure *measure)
{
    const size_t working = working_classes(measure);
    const bool has_lost = measure->model->has_lost_rows;
    enum rs_status status = has_lost ? RS_OK : find_kinds(measure, BY_SIGNATURES, &measure->alike);
    if (has_lost) {
        measure->alike.is_member = rs_mem_calloc(measure->model->class_count + 1, 1);
        status = measure->alike.is_member != NULL ? RS_OK : RS_NOMEM;
    }
    if (status == RS_OK && !has_lost && measure->alike.members < working) {
        status = try_names(measure, BY_NAMES);
    }
    if (status == RS_OK && measure->alike.members < working) {
        status = try_names(measure, BY_NAMES_LEVELLED);
    }
    return status;
}

/* One worker's step: items from `i` to `end`. */
static void measure_step(const struct measure *measure, size_t i, size_t end)
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
        const size_t c = item->signature != 0 && !measure->stages->is_by_names
                             ? alike_index(&measure->alike, item->signature)
                             : SIZE_MAX;
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
            shared += work;
        }
    }
    const bool has_all = seen > 0 && seen == measure->alike.count && is_stage_member(measure, w);
    for (size_t c = 0; c < measure->alike.count && has_all; c++) {
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

/* By names only figures over all steps are known: the steps differ as all of the rank's computing does. Where rows were lost that is what
 * was lost, and effects_panels.c tells them apart. */
static void set_same(const struct measure *measure, size_t w, double same)
{
    const size_t steps = measure->model->step_count;
    const double *total = &measure->member_total[w * steps];
    double mean = 0, known = 0;
    for (size_t k = 0; k < steps; k++) {
        mean += isnan(total[k]) ? 0 : total[k];
        known += isnan(total[k]) ? 0 : 1;
    }
    for (size_t k = 0; k < steps && known > 0; k++) {
        const double apart = measure->model->has_lost_rows ? 0 : total[k] - mean / known;
        measure->member_same[w * steps + k] = isnan(total[k]) ? (double)NAN : same + apart;
    }
}

/* Logarithm of what a worker's common kernels take, each at its mean length and each as fast as it ever was; NAN: it has none. */
static void sum_names(const struct measure *measure, double *means, double *fastest)
{
    const struct diag_model *model = measure->model;
    for (size_t w = 0; w < model->worker_count; w++) {
        means[w] = fastest[w] = 0;
    }
    for (size_t i = 0; i < model->name_count; i++) {
        const struct diag_name *name = &model->names[i];
        if (is_stage_member(measure, name->worker) &&
            alike_index(&measure->alike, name->key) != SIZE_MAX) {
            means[name->worker] += name->ns;
            fastest[name->worker] += name->count * name->fastest_ns;
        }
    }
    for (size_t w = 0; w < model->worker_count; w++) {
        const bool is_known = means[w] > 0 && fastest[w] > 0;
        means[w] = is_known ? log(means[w]) : (double)NAN;
        fastest[w] = is_known ? log(fastest[w]) : (double)NAN;
    }
}

static double median_known(const double *values, size_t count, double *scratch)
{
    size_t known = 0;
    for (size_t i = 0; i < count; i++) {
        if (!isnan(values[i])) {
            scratch[known++] = values[i];
        }
    }
    return diag_median(scratch, known);
}

/* In the mean of a kernel there is, too, what others that share the device or its links took at that place of the schedule; and where they always
 * do, even its fastest run has it. So a stage stands apart by what both say: by the lesser, and not at all where they contradict each other. */
static enum rs_status measure_names(const struct measure *measure)
{
    const size_t workers = measure->model->worker_count;
    double *means = rs_mem_calloc(3 * workers + 1, sizeof *means);
    if (means == NULL) {
        return RS_NOMEM;
    }
    double *fastest = means + workers, *scratch = fastest + workers;
    if (!measure->is_levelled) {
        sum_names(measure, means, fastest);
    } else if (stages_level_sums(measure->model, &measure->alike, means, fastest) != RS_OK) {
        rs_mem_free(means);
        return RS_NOMEM;
    }
    const double mean = median_known(means, workers, scratch);
    const double fast = median_known(fastest, workers, scratch);
    for (size_t w = 0; w < workers; w++) {
        const double by_mean = means[w] - mean, by_fastest = fastest[w] - fast;
        if (isnan(by_mean)) {
            continue;
        }
        const double lesser = fabs(by_mean) < fabs(by_fastest) ? by_mean : by_fastest;
        set_same(measure, w, fast + (by_mean * by_fastest > 0 ? lesser : 0));
    }
    rs_mem_free(means);
    return RS_OK;
}

static enum rs_status measure_members(struct measure *measure)
{
    const struct diag_model *model = measure->model;
    const size_t cells = model->worker_count * model->step_count;
    measure->sums = rs_mem_calloc(measure->alike.count + 1, sizeof *measure->sums);
    measure->counts = rs_mem_calloc(measure->alike.count + 1, sizeof *measure->counts);
    measure->seen = rs_mem_calloc(measure->alike.count + 1, sizeof *measure->seen);
    measure->member_same = rs_mem_calloc(cells + 1, sizeof *measure->member_same);
    measure->member_total = rs_mem_calloc(cells + 1, sizeof *measure->member_total);
    if (measure->sums == NULL || measure->counts == NULL || measure->seen == NULL ||
        measure->member_same == NULL || measure->member_total == NULL) {
        return RS_NOMEM;
    }
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
            measure_step(measure, i, end);
        }
    }
    return measure->stages->is_by_names ? measure_names(measure) : RS_OK;
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
    stages->are_alike =
        (!model->has_lost_rows || most <= 0) && most <= least * (1 + DIAG_KERNELS_ALIKE);
}

static enum rs_status measure_all(struct measure *measure)
{
    const struct diag_model *model = measure->model;
    struct diag_stages *stages = measure->stages;
    for (size_t w = 0; w < model->worker_count; w++) {
        measure->members[model->workers[w].class_id] += model->workers[w].is_judged;
    }
    enum rs_status status = find_alike(measure);
    if (status == RS_OK) {
        status = measure_members(measure);
    }
    double *scratch = rs_mem_calloc(model->worker_count + 1, sizeof *scratch);
    if (status != RS_OK || scratch == NULL) {
        rs_mem_free(scratch);
        return RS_NOMEM;
    }
    count_kernels(measure);
    for (uint32_t c = 0; c < model->class_count; c++) {
        stages->is_compared[c] =
            measure->members[c] > 0 &&
            (stages->are_alike || (measure->alike.members > 0 && measure->alike.is_member[c]));
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
    stages->is_compared = rs_mem_calloc(model->class_count + 1, 1);
    measure.members = rs_mem_calloc(model->class_count + 1, sizeof *measure.members);
    const bool has_room = stages->total != NULL && stages->same != NULL &&
                          stages->kernels != NULL && stages->is_compared != NULL &&
                          measure.members != NULL;
    enum rs_status status = has_room ? measure_all(&measure) : RS_NOMEM;
    alike_fini(&measure.alike);
    rs_mem_free(measure.members);
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
    rs_mem_free(stages->is_compared);
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
    /* Which stage runs more kernels nobody knows where rows were lost. */
    if (status != RS_OK || model->class_count < 2 || stages->are_alike || model->has_lost_rows) {
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
            /* nothing on it is the same work as on another stage: it may be slow as well */
            heavier->p = stages->is_compared[c] ? heavier->p : DIAG_LEVEL_WEAK;
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
