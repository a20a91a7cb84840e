/* SPDX-License-Identifier: Apache-2.0 */
/* How long transfers took against those of the same size and kind on other units of their fabric: panels [unit][step]. */
#include "aggregator/analysis/diagnose/effects_priv.h"
#include "common/base/mem.h"

#include <math.h>
#include <stdlib.h>

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

enum rs_status effect_link_panels(struct finder *finder)
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
