/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/analysis/diagnose/diagnose_priv.h"
#include "common/base/mem.h"

#include <stdlib.h>

static int by_place(const void *left, const void *right)
{
    const struct diag_item *a = left, *b = right;
    if (a->worker != b->worker) {
        return a->worker > b->worker ? 1 : -1;
    }
    if (a->step != b->step) {
        return a->step > b->step ? 1 : -1;
    }
    if (a->position != b->position) {
        return a->position > b->position ? 1 : -1;
    }
    return (a->node > b->node) - (a->node < b->node);
}

static int by_unit(const void *left, const void *right)
{
    const struct diag_move *a = left, *b = right;
    if (a->unit != b->unit) {
        return a->unit > b->unit ? 1 : -1;
    }
    if (a->step != b->step) {
        return a->step > b->step ? 1 : -1;
    }
    return (a->node_first > b->node_first) - (a->node_first < b->node_first);
}

/* Items come worker by worker and step by step: short runs are sorted, and all of them only where they did not. */
static void sort_items(struct diag_model *model)
{
    bool in_order = true;
    for (size_t i = 0, end; i < model->item_count; i = end) {
        const struct diag_item *first = &model->items[i];
        for (end = i + 1; end < model->item_count && model->items[end].worker == first->worker &&
                          model->items[end].step == first->step;
             end++) {
        }
        qsort(&model->items[i], end - i, sizeof *model->items, by_place);
        in_order = in_order && (i == 0 || by_place(&model->items[i - 1], &model->items[i]) <= 0);
    }
    if (!in_order) {
        qsort(model->items, model->item_count, sizeof *model->items, by_place);
    }
}

static enum rs_status judge_classes(struct diag_model *model)
{
    size_t *members = rs_mem_calloc(model->class_count + 1, sizeof *members);
    model->class_is_judged = rs_mem_calloc(model->class_count + 1, sizeof *model->class_is_judged);
    if (members == NULL || model->class_is_judged == NULL) {
        rs_mem_free(members);
        return RS_NOMEM;
    }
    for (size_t w = 0; w < model->worker_count; w++) {
        model->workers[w].is_judged = model->item_first[w + 1] > model->item_first[w];
        members[model->workers[w].class_id] += model->workers[w].is_judged;
    }
    for (size_t c = 0; c < model->class_count; c++) {
        model->class_is_judged[c] = members[c] > 1;
    }
    rs_mem_free(members);
    return RS_OK;
}

enum rs_status diag_model_finish(struct diag_model *model)
{
    model->item_first = rs_mem_calloc(model->worker_count + 2, sizeof *model->item_first);
    model->move_first = rs_mem_calloc(model->unit_count + 2, sizeof *model->move_first);
    if (model->item_first == NULL || model->move_first == NULL) {
        return RS_NOMEM;
    }
    sort_items(model);
    if (model->move_count > 1) {
        qsort(model->moves, model->move_count, sizeof *model->moves, by_unit);
    }
    for (size_t i = 0; i < model->item_count; i++) {
        model->item_first[model->items[i].worker + 1]++;
    }
    for (size_t w = 0; w < model->worker_count; w++) {
        model->item_first[w + 1] += model->item_first[w];
    }
    for (size_t i = 0; i < model->move_count; i++) {
        model->move_first[model->moves[i].unit + 1]++;
    }
    for (size_t u = 0; u < model->unit_count; u++) {
        model->move_first[u + 1] += model->move_first[u];
    }
    return judge_classes(model);
}

/* Where rows were lost, ranks may have fallen out of their stage, and be a class by themselves: then numbers of classes are none of stages. */
static bool are_classes_numbered(const struct diag_model *model)
{
    size_t first = 0;
    for (size_t c = 0; c < model->class_count && model->has_lost_rows; c++) {
        size_t members = 0;
        for (size_t w = 0; w < model->worker_count; w++) {
            members += model->workers[w].class_id == c;
        }
        first = c == 0 ? members : first;
        if (members != first) {
            return false;
        }
    }
    return true;
}

bool diag_is_stage(const struct diag_model *model, uint32_t class_id)
{
    if (!are_classes_numbered(model)) {
        return false;
    }
    for (size_t w = 0; w < model->worker_count; w++) {
        if (model->workers[w].class_id == class_id && model->workers[w].stage >= 0) {
            return true;
        }
    }
    return false;
}

void diag_model_fini(struct diag_model *model)
{
    graph_fini(&model->graph);
    rs_mem_free(model->workers);
    rs_mem_free(model->class_is_judged);
    rs_mem_free(model->items);
    rs_mem_free(model->item_first);
    rs_mem_free(model->units);
    rs_mem_free(model->moves);
    rs_mem_free(model->move_first);
    rs_mem_free(model->move_nodes);
    rs_mem_free(model->waits);
    rs_mem_free(model->steps);
    rs_mem_free(model->cpu);
    rs_mem_free(model->inputs);
    rs_mem_free(model->loads);
    rs_mem_free(model->names);
    *model = (struct diag_model){0};
}

bool diag_runs_on_cores(const struct diag_model *model)
{
    for (size_t w = 0; w < model->worker_count; w++) {
        if (model->workers[w].summary != GRAPH_NONE && !model->workers[w].has_device) {
            return true;
        }
    }
    return false;
}

bool diag_may_share_cores(const struct diag_model *model)
{
    return model->cpu == NULL && diag_runs_on_cores(model);
}

void diag_step_ends(const struct diag_model *model, const rs_ns *times, rs_ns *ends)
{
    const struct graph *graph = &model->graph;
    for (size_t k = 0; k < model->step_count; k++) {
        ends[k] = RS_NS_MIN;
    }
    for (size_t n = 0; n < graph->count; n++) {
        const uint32_t step = graph->step[n];
        if (step < model->step_count && times[n] > ends[step]) {
            ends[step] = times[n];
        }
    }
    if (model->steps_are_separate) {
        for (size_t k = 0; k < model->step_count; k++) {
            const rs_ns own = ends[k] == RS_NS_MIN ? 0 : ends[k];
            ends[k] = own + (k > 0 ? ends[k - 1] : 0);
        }
        return;
    }
    rs_ns latest = diag_start(model);
    for (size_t k = 0; k < model->step_count; k++) {
        latest = ends[k] > latest ? ends[k] : latest;
        ends[k] = latest;
    }
}

rs_ns diag_start(const struct diag_model *model)
{
    rs_ns start = RS_NS_MAX;
    if (model->steps_are_separate) {
        return 0;
    }
    for (size_t n = 0; n < model->graph.count; n++) {
        if (model->graph.step[n] < model->step_count) {
            const rs_ns begin = model->graph.seen[n] - model->graph.work[n];
            start = begin < start ? begin : start;
        }
    }
    return start == RS_NS_MAX ? 0 : start;
}
