/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the work of nodes is when an element is fixed: its lasting excess goes, its random variation stays
 * (work / factor, or work - excess). No work ever gets longer than it is.
 */
#include "aggregator/analysis/diagnose/diagnose_priv.h"
#include "common/base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static rs_dur divided(rs_dur work, double log_factor)
{
    return log_factor > 0 ? (rs_dur)llround((double)work / exp(log_factor)) : work;
}

static rs_dur lowered(rs_dur work, double excess)
{
    const double left = (double)work - (excess > 0 ? excess : 0);
    return left > 0 ? (rs_dur)llround(left) : 0;
}

/* What a lasting effect differs by in this step from what it is on average. */
static double varies(const struct diag_element *element, uint32_t step)
{
    return element->excess_steps != NULL ? element->excess_steps[step] - element->effect : 0;
}

static void apply_worker(const struct diag_model *model, const struct diag_element *element,
                         uint32_t worker, const double *by_step, double effect, rs_dur *work)
{
    const uint8_t figure = element->is_additive ? RS_FIGURE_HOST_HEAD : RS_FIGURE_COMPUTING;
    for (size_t i = model->item_first[worker]; i < model->item_first[worker + 1]; i++) {
        const struct diag_item *item = &model->items[i];
        const bool is_meant = item->figure == figure && (element->position == GRAPH_NONE ||
                                                         element->position == item->position);
        if (!is_meant || item->step >= model->step_count) {
            continue;
        }
        const bool has_place = element->by_place != NULL && item->position < element->place_count;
        const double place = has_place ? element->by_place[item->position] - element->effect : 0;
        const double own =
            by_step != NULL ? by_step[item->step] : effect + place + varies(element, item->step);
        rs_dur *at = &work[item->node];
        *at = element->is_additive ? lowered(*at, own) : divided(*at, own);
    }
}

/* What an item lets pass above the element's peers at its slot. */
static double idle_excess(const struct diag_model *model, const struct diag_element *element,
                          const struct diag_item *item)
{
    const double own = (double)diag_value(model, item);
    return item->figure != RS_FIGURE_HOST_INSIDE ? 0
           : item->position < element->idle_level_count
               ? fmax(0, own - element->idle_levels[item->position])
               : own;
}

enum { HALVINGS = 40 };

/* What stands above this in the items' excess is `own` in all: the tallest goes first, since a host that pauses once lets its launches
 * fall into other slots as well, a little in each. 0: there is no more of it than that. */
static double idle_floor(const struct diag_model *model, const struct diag_element *element,
                         size_t first, size_t end, double own)
{
    double low = 0, high = 0, all = 0;
    for (size_t i = first; i < end; i++) {
        const double excess = idle_excess(model, element, &model->items[i]);
        high = fmax(high, excess);
        all += excess;
    }
    for (int n = 0; n < HALVINGS && all > own; n++) {
        const double middle = (low + high) / 2;
        double above = 0;
        for (size_t i = first; i < end; i++) {
            above += fmax(0, idle_excess(model, element, &model->items[i]) - middle);
        }
        low = above > own ? middle : low;
        high = above > own ? high : middle;
    }
    return all > own ? high : 0;
}

/* A worker's step: items from `first` to `end`, of whose idle time `own` is to go. */
static void lower_idle(const struct diag_model *model, const struct diag_element *element,
                       size_t first, size_t end, double own, rs_dur *work)
{
    const bool is_known = element->idle_level_count > 0 && own > 0;
    const double floor = is_known ? idle_floor(model, element, first, end, own) : 0;
    double idle = 0, found = 0;
    for (size_t i = first; i < end; i++) {
        const struct diag_item *item = &model->items[i];
        idle += item->figure == RS_FIGURE_HOST_INSIDE ? (double)diag_value(model, item) : 0;
        found += is_known ? fmax(0, idle_excess(model, element, item) - floor) : 0;
    }
    for (size_t i = first; i < end; i++) {
        const struct diag_item *item = &model->items[i];
        if (item->figure == RS_FIGURE_HOST_INSIDE) {
            const double value = (double)diag_value(model, item);
            const double taken = is_known ? fmax(0, idle_excess(model, element, item) - floor) : 0;
            const double share = idle > found ? (value - taken) / (idle - found) : 0;
            work[item->node] = lowered(work[item->node], taken + fmax(0, own - found) * share);
        }
    }
}

/* The excess of a step's idle time is taken from where it is; what cannot be found so in proportion to what is idle in the items. */
static void apply_idle(const struct diag_model *model, const struct diag_element *element,
                       uint32_t worker, const double *by_step, double effect, rs_dur *work)
{
    size_t end = model->item_first[worker];
    for (size_t i = end; i < model->item_first[worker + 1]; i = end) {
        const uint32_t step = model->items[i].step;
        for (end = i; end < model->item_first[worker + 1] && model->items[end].step == step;
             end++) {
        }
        if (step < model->step_count) {
            lower_idle(model, element, i, end,
                       by_step != NULL ? by_step[step] : effect + varies(element, step), work);
        }
    }
}

static void apply_unit(const struct diag_model *model, const struct diag_element *element,
                       double effect, rs_dur *work)
{
    const double shift = effect - element->effect;
    for (size_t i = model->move_first[element->id]; i < model->move_first[element->id + 1]; i++) {
        const struct diag_move *move = &model->moves[i];
        const double own_way = element->way_effects[move->is_back];
        const double own = element->way == 0 ? effect : own_way > 0 ? own_way + shift : 0;
        for (uint32_t n = 0; n < move->node_count; n++) {
            rs_dur *at = &work[model->move_nodes[move->node_first + n]];
            *at = divided(*at, own);
        }
    }
}

void diag_apply(const struct diag_model *model, const struct diag_element *element, double shift,
                rs_dur *work)
{
    const double effect = element->effect + shift * element->se;
    const size_t steps = model->step_count;
    switch (element->what) {
    case DIAG_RANK:
    case DIAG_HEAD:
        apply_worker(model, element, element->id, element->by_step, effect, work);
        return;
    case DIAG_IDLE:
        apply_idle(model, element, element->id, element->by_step, effect, work);
        return;
    case DIAG_STAGE:
        for (size_t w = 0; w < model->worker_count; w++) {
            if (model->workers[w].class_id == element->id) {
                apply_worker(model, element, (uint32_t)w, NULL, effect, work);
            }
        }
        return;
    case DIAG_UNIT:
        apply_unit(model, element, effect, work);
        return;
    case DIAG_HEAVIER:
    case DIAG_LOADED:
    case DIAG_SPREAD:
        for (size_t i = 0; i < element->among_count; i++) {
            apply_worker(model, element, element->among[i], NULL, element->among_effects[i], work);
        }
        return;
    case DIAG_JITTER:
        for (size_t i = 0; i < element->among_count; i++) {
            const double *cells = &element->among_effects[i * steps];
            if (element->is_idle) {
                apply_idle(model, element, element->among[i], cells, 0, work);
            } else {
                apply_worker(model, element, element->among[i], cells, 0, work);
            }
        }
        return;
    }
}

/* ---- ideal -------------------------------------------------------------------------------- */

struct place {
    uint64_t key; /* of moves: key and panel */
    double ns;
    uint32_t index;
    bool counts; /* of a healthy worker */
};

static int by_place(const void *left, const void *right)
{
    const struct place *a = left, *b = right;
    if (a->key != b->key) {
        return a->key > b->key ? 1 : -1;
    }
    if (a->ns < b->ns || a->ns > b->ns) {
        return a->ns > b->ns ? 1 : -1;
    }
    return (a->index > b->index) - (a->index < b->index);
}

static double heavier_effect(const struct diag_model *model, const struct diag_effects *effects,
                             uint32_t class_id)
{
    for (size_t i = 0; i < effects->heavier.among_count; i++) {
        if (model->workers[effects->heavier.among[i]].class_id == class_id) {
            return effects->heavier.among_effects[i];
        }
    }
    return 0;
}

static double stage_effect(const struct diag_effects *effects, uint32_t class_id)
{
    for (size_t i = 0; i < effects->count; i++) {
        if (effects->elements[i].what == DIAG_STAGE && effects->elements[i].id == class_id) {
            return effects->elements[i].effect;
        }
    }
    return 0;
}

static bool is_slow(const struct diag_effects *effects, uint32_t worker)
{
    for (size_t i = 0; i < effects->count; i++) {
        const struct diag_element *element = &effects->elements[i];
        if (element->id == worker && (element->what == DIAG_RANK || element->what == DIAG_HEAD ||
                                      element->what == DIAG_IDLE)) {
            return true;
        }
    }
    return false;
}

/* Level of a run of equal places: mean of the healthy for work, median for heads. Sorts the run where it needs to. */
static double level_of(struct place *run, size_t count, bool is_head)
{
    double sum = 0, healthy = 0;
    for (size_t i = 0; i < count; i++) {
        if (run[i].counts) {
            sum += run[i].ns;
            healthy += 1;
        }
    }
    if (!is_head && healthy > 0) {
        return sum / healthy;
    }
    qsort(run, count, sizeof *run, by_place);
    return run[count / 2].ns;
}

/* Places of one class: heads behind its work, each as many as it has. */
struct ideal {
    const struct diag_model *model;
    const struct diag_effects *effects;
    struct place *places; /* of one class */
    size_t *first;        /* [2 * positions + 1] into `places`, by (head, position) */
    size_t positions;
    uint8_t *is_slow; /* [worker] */
};

static bool has_level(const struct diag_item *item)
{
    return item->part < 0 && item->figure != RS_FIGURE_HOST_INSIDE && item->position != GRAPH_NONE;
}

static size_t place_of(const struct ideal *ideal, const struct diag_item *item)
{
    return (item->figure == RS_FIGURE_COMPUTING ? 0 : ideal->positions) + item->position;
}

/* The class's items by place: counted, then put in. */
static void gather_places(const struct ideal *ideal, uint32_t class_id)
{
    const struct diag_model *model = ideal->model;
    memset(ideal->first, 0, (2 * ideal->positions + 2) * sizeof *ideal->first);
    for (int pass = 0; pass < 2; pass++) {
        for (size_t w = 0; w < model->worker_count; w++) {
            for (size_t i = model->item_first[w];
                 model->workers[w].class_id == class_id && i < model->item_first[w + 1]; i++) {
                const struct diag_item *item = &model->items[i];
                if (!has_level(item)) {
                    continue;
                }
                if (pass == 0) {
                    ideal->first[place_of(ideal, item) + 2]++;
                    continue;
                }
                ideal->places[ideal->first[place_of(ideal, item) + 1]++] =
                    (struct place){.ns = (double)model->graph.work[item->node],
                                   .index = (uint32_t)i,
                                   .counts = ideal->is_slow[w] == 0};
            }
        }
        for (size_t p = 2; pass == 0 && p < 2 * ideal->positions + 2; p++) {
            ideal->first[p] += ideal->first[p - 1];
        }
    }
}

static void ideal_class(const struct ideal *ideal, uint32_t class_id, rs_dur *work)
{
    const double slow = fmax(0, stage_effect(ideal->effects, class_id)) +
                        heavier_effect(ideal->model, ideal->effects, class_id);
    gather_places(ideal, class_id);
    for (size_t p = 0; p < 2 * ideal->positions; p++) {
        const bool is_head = p >= ideal->positions;
        struct place *run = &ideal->places[ideal->first[p]];
        const size_t count = ideal->first[p + 1] - ideal->first[p];
        if (count == 0) {
            continue;
        }
        const double level = level_of(run, count, is_head) / exp(!is_head && slow > 0 ? slow : 0);
        for (size_t i = 0; i < count; i++) {
            work[ideal->model->items[run[i].index].node] = (rs_dur)llround(level);
        }
    }
}

static enum rs_status ideal_work(const struct diag_model *model, const struct diag_effects *effects,
                                 rs_dur *work)
{
    struct ideal ideal = {.model = model, .effects = effects};
    size_t *items = rs_mem_calloc(model->class_count + 1, sizeof *items);
    size_t most = 0;
    if (items == NULL) {
        return RS_NOMEM;
    }
    for (size_t i = 0; i < model->item_count; i++) {
        const struct diag_item *item = &model->items[i];
        if (has_level(item)) {
            const size_t count = ++items[model->workers[item->worker].class_id];
            most = count > most ? count : most;
            ideal.positions =
                item->position >= ideal.positions ? (size_t)item->position + 1 : ideal.positions;
        }
    }
    rs_mem_free(items);
    ideal.places = rs_mem_calloc(most + 1, sizeof *ideal.places);
    ideal.first = rs_mem_calloc(2 * ideal.positions + 3, sizeof *ideal.first);
    ideal.is_slow = rs_mem_calloc(model->worker_count + 1, 1);
    const bool has_room = ideal.places != NULL && ideal.first != NULL && ideal.is_slow != NULL;
    for (uint32_t w = 0; has_room && w < model->worker_count; w++) {
        ideal.is_slow[w] = is_slow(effects, w);
    }
    for (uint32_t c = 0; has_room && c < model->class_count; c++) {
        ideal_class(&ideal, c, work);
    }
    rs_mem_free(ideal.places);
    rs_mem_free(ideal.first);
    rs_mem_free(ideal.is_slow);
    return has_room ? RS_OK : RS_NOMEM;
}

static void ideal_moves(const struct diag_model *model, struct place *places, rs_dur *work)
{
    size_t count = 0;
    for (size_t i = 0; i < model->move_count; i++) {
        const struct diag_move *move = &model->moves[i];
        const uint64_t panel = model->units[move->unit].panel;
        places[count++] = (struct place){(panel << 32) | move->key, move->ns, (uint32_t)i, true};
    }
    if (count > 1) {
        qsort(places, count, sizeof *places, by_place);
    }
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i; end < count && places[end].key == places[i].key; end++) {
        }
        const double level = places[i + (end - i) / 2].ns;
        for (size_t j = i; j < end; j++) {
            const struct diag_move *move = &model->moves[places[j].index];
            for (uint32_t n = 0; n < move->node_count; n++) {
                rs_dur *at = &work[model->move_nodes[move->node_first + n]];
                *at = move->ns > 0 ? (rs_dur)llround((double)*at * level / move->ns) : *at;
            }
        }
    }
}

enum rs_status diag_ideal(const struct diag_model *model, const struct diag_effects *effects,
                          rs_dur *work)
{
    struct place *places = rs_mem_calloc(model->move_count + 1, sizeof *places);
    if (places == NULL) {
        return RS_NOMEM;
    }
    ideal_moves(model, places, work);
    rs_mem_free(places);
    return ideal_work(model, effects, work);
}
