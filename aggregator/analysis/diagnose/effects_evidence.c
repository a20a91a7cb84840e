/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an element is about: the level of its peers, the one position in which its excess stands, its kind where
 * one loss was found twice, the way of a link, and the ns that the report shows.
 */
#include "aggregator/analysis/diagnose/effects_priv.h"
#include "common/base/mem.h"

#include <math.h>

static void find_levels(struct finder *finder, struct table *table)
{
    const size_t steps = finder->model->step_count;
    for (size_t p = 0; p < table->positions; p++) {
        double sum = 0, count = 0, all = 0, cells = 0;
        for (size_t m = 0; m < table->n; m++) {
            for (size_t k = 0; k < steps; k++) {
                const double work = effect_cell(table, steps, m, k, p);
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
        const double work = effect_cell(table, steps, m, k, p);
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

/* How the cells of one position vary over steps for a rank, beside what all its positions do in a step: sum of squares and degrees of freedom,
 * each position as heavy as its level. */
static double place_noise(const struct table *table, size_t steps, size_t m, double *dof_p)
{
    double squares = 0, weight = 0;
    for (size_t p = 0; p < table->positions; p++) {
        double sum = 0, own = 0, count = 0;
        for (size_t k = 0; k < steps; k++) {
            const double work = effect_cell(table, steps, m, k, p);
            if (!isnan(work) && work > 0) {
                sum += log(work);
                own += log(work) * log(work);
                count += 1;
            }
        }
        if (count > 1 && table->level[p] > 0) {
            squares += table->level[p] * fmax(0, own - sum * sum / count) / (count - 1) / count;
            weight += table->level[p];
            *dof_p += count - 1;
        }
    }
    return weight > 0 ? squares / weight : 0;
}

/* Some work may be longer and other work not (one kind of kernel is slow): then what is won is not what an equal factor over all would win.
 * What the effects at the positions differ by is taken as far as it exceeds what noise makes of it. */
static enum rs_status find_places(const struct finder *finder, struct diag_element *element)
{
    const size_t steps = finder->model->step_count;
    const struct table *table = &finder->tables[finder->model->workers[element->id].class_id];
    const size_t m = finder->member[element->id];
    double dof = 0, weight = 0, sum = 0, squares = 0;
    const double peers = table->n > 1 ? (double)table->n - 1 : 1; /* their level is as noisy */
    const double noise = place_noise(table, steps, m, &dof) * (1 + 1 / peers);
    if (dof < 1) {
        return RS_OK; /* as if all were alike */
    }
    double *effects = rs_mem_calloc(table->positions + 1, sizeof *effects);
    if (effects == NULL) {
        return RS_NOMEM;
    }
    for (size_t p = 0; p < table->positions; p++) {
        const double own = own_mean(table, steps, m, p);
        const bool is_known = own > 0 && table->level[p] > 0; /* own: not NAN */
        effects[p] = is_known ? log(own / table->level[p]) : (double)NAN;
        if (is_known) {
            weight += table->level[p];
            sum += table->level[p] * effects[p];
            squares += table->level[p] * effects[p] * effects[p];
        }
    }
    const double mean = weight > 0 ? sum / weight : 0;
    const double apart = weight > 0 ? squares / weight - mean * mean : 0;
    const double kept = apart > noise ? (apart - noise) / apart : 0;
    for (size_t p = 0; p < table->positions; p++) {
        effects[p] = isnan(effects[p]) ? element->effect
                                       : element->effect + kept * (effects[p] - element->effect);
    }
    element->by_place = effects;
    element->place_count = table->positions;
    return RS_OK;
}

/* Data loading of one step, where HOST_INSIDE is of; -1 unknown. */
static double input_inside(const struct diag_model *model, uint32_t worker, size_t step)
{
    return model->inputs != NULL ? (double)model->inputs[worker * model->step_count + step] : -1;
}

/* Data loading of a rank over all steps. */
static double input_of(const struct diag_model *model, uint32_t worker, uint8_t figure)
{
    double sum = 0;
    for (size_t k = 0; k < model->step_count && figure == RS_FIGURE_HOST_INSIDE; k++) {
        sum += fmax(input_inside(model, worker, k), 0);
    }
    for (size_t i = model->item_first[worker];
         i < model->item_first[worker + 1] && figure == RS_FIGURE_HOST_HEAD; i++) {
        const struct diag_item *item = &model->items[i];
        sum += item->figure == figure && item->input > 0 ? (double)item->input : 0;
    }
    return sum;
}

/* Data loading per step of the others of the class, on average: every rank loads data. Of the healthy ones, if there are any. 0 where it is
 * not known. */
static double input_of_peers(const struct finder *finder, uint32_t id, uint8_t figure)
{
    const struct diag_model *model = finder->model;
    const struct table *table = &finder->tables[model->workers[id].class_id];
    double sum = 0, peers = 0, healthy_sum = 0, healthy = 0;
    for (size_t m = 0; m < table->n; m++) {
        const uint32_t w = table->workers[m];
        if (w == id || finder->is_slow[w]) {
            continue;
        }
        const double input = input_of(model, w, figure);
        const bool is_healthy = finder->has_slow_host[w] == 0;
        sum += input;
        peers += 1;
        healthy_sum += is_healthy ? input : 0;
        healthy += is_healthy;
    }
    const double steps = (double)model->step_count;
    return healthy > 0 ? healthy_sum / healthy / steps : peers > 0 ? sum / peers / steps : 0;
}

/* Data loading within the time of an item: more of it may pass later in the step. -1 unknown. */
static double input_within(const struct diag_model *model, const struct diag_item *item)
{
    return item->input >= 0 ? fmin((double)item->input, (double)diag_value(model, item)) : -1;
}

/* What its peers take; of a rank without any, what its other steps do. */
static double healthy_of(const struct diag_element *element, const struct diag_panel *panel)
{
    if (element->is_of_own_steps)
        return fmax(0, element->own - element->effect);
    return panel != NULL && panel->base > 0 ? panel->base : 0;
}

/* What the healthy peers of a step lie above what they do on average, in the mean. NAN: there are none. */
static double common_of_healthy(const struct finder *finder, const struct diag_panel *panel,
                                size_t me, size_t k)
{
    double sum = 0, count = 0;
    for (size_t m = 0; m < panel->n; m++) {
        const double rest = panel->y[m * panel->steps + k] - panel->a[m];
        if (m != me && !isnan(rest) && finder->has_slow_host[panel->id[m]] == 0) {
            sum += rest;
            count += 1;
        }
    }
    return count > 0 ? sum / count : (double)NAN;
}

/* A loader that keeps a rank waiting does so for longer in one step than in another. What of that exceeds how its peers vary is the
 * trouble's, too, and goes with it: step by step. */
static enum rs_status take_variation(const struct finder *finder, const struct diag_panel *panel,
                                     struct diag_element *element)
{
    const size_t steps = finder->model->step_count;
    double own = 0, own_cells = 0, peers = 0, peers_cells = 0;
    const size_t me = finder->member[element->id];
    if (panel == NULL || finder->shares_cores || element->is_of_own_steps ||
        element->by_step != NULL || me >= panel->n || panel->id[me] != element->id) {
        return RS_OK;
    }
    double *rests = rs_mem_calloc(steps + 1, sizeof *rests);
    if (rests == NULL) {
        return RS_NOMEM;
    }
    for (size_t k = 0; k < steps; k++) {
        const double common = common_of_healthy(finder, panel, me, k);
        rests[k] = panel->y[me * steps + k] - panel->a[me] - common;
        own += isnan(rests[k]) ? 0 : rests[k] * rests[k];
        own_cells += isnan(rests[k]) ? 0 : 1;
        for (size_t m = 0; m < panel->n; m++) {
            const double rest = panel->y[m * steps + k] - panel->a[m] - common;
            if (m != me && !isnan(rest) && finder->has_slow_host[panel->id[m]] == 0) {
                peers += rest * rest;
                peers_cells += 1;
            }
        }
    }
    if (own_cells < 2 || peers_cells < 2 || own / own_cells <= peers / peers_cells) {
        rs_mem_free(rests);
        return RS_OK;
    }
    const double kept = sqrt(peers / peers_cells / (own / own_cells));
    for (size_t k = 0; k < steps; k++) {
        rests[k] = element->effect + (isnan(rests[k]) ? 0 : (1 - kept) * rests[k]);
    }
    element->excess_steps = rests;
    return RS_OK;
}

static enum rs_status head_evidence(const struct finder *finder, struct diag_element *element)
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
        input += input_within(model, item);
        knows_input = knows_input && item->input >= 0;
        count += 1;
    }
    element->own = count > 0 ? own / count : 0;
    element->input = knows_input && count > 0 ? input / count : -1;
    element->healthy_input = input_of_peers(finder, element->id, RS_FIGURE_HOST_HEAD);
    element->healthy = healthy_of(element, panel);
    return take_variation(finder, panel, element);
}

static bool is_idle(const struct diag_model *model, const struct diag_item *item)
{
    return item->figure == RS_FIGURE_HOST_INSIDE && item->step < model->step_count;
}

/* The last slot at which one of the class's hosts lets time pass, and one. */
static size_t idle_slots(const struct diag_model *model, const struct table *table)
{
    size_t slots = 0;
    for (size_t m = 0; m < table->n; m++) {
        const uint32_t w = table->workers[m];
        for (size_t i = model->item_first[w]; i < model->item_first[w + 1]; i++) {
            const struct diag_item *item = &model->items[i];
            slots = is_idle(model, item) && item->position >= slots ? item->position + 1U : slots;
        }
    }
    return slots;
}

/* What the hosts of its peers let pass at each slot of a step, on average: where it lets more pass the excess is. */
static enum rs_status take_idle_levels(const struct finder *finder, struct diag_element *element)
{
    const struct diag_model *model = finder->model;
    const struct table *table = &finder->tables[model->workers[element->id].class_id];
    const size_t slots = idle_slots(model, table);
    double peers = 0;
    element->idle_levels = rs_mem_calloc(slots + 1, sizeof *element->idle_levels);
    if (element->idle_levels == NULL) {
        return RS_NOMEM;
    }
    for (size_t m = 0; m < table->n; m++) {
        const uint32_t w = table->workers[m];
        const size_t first = model->item_first[w];
        peers += w != element->id;
        for (size_t i = first; i < model->item_first[w + 1] && w != element->id; i++) {
            const struct diag_item *item = &model->items[i];
            element->idle_levels[is_idle(model, item) ? item->position : slots] +=
                (double)diag_value(model, item);
        }
    }
    element->idle_level_count = peers > 0 ? slots : 0;
    for (size_t s = 0; s < element->idle_level_count; s++) {
        element->idle_levels[s] /= peers * (double)model->step_count;
    }
    return RS_OK;
}

static enum rs_status idle_evidence(const struct finder *finder, struct diag_element *element)
{
    const struct diag_model *model = finder->model;
    const struct diag_panel *panel = finder->idles[model->workers[element->id].class_id];
    const size_t steps = model->step_count;
    double own = 0, input = 0;
    bool knows_input = false;
    const size_t all = model->item_first[element->id + 1];
    size_t i = model->item_first[element->id];
    for (size_t k = 0; k < steps; k++) {
        double passed = 0;
        for (; i < all && model->items[i].step <= k; i++) {
            const struct diag_item *item = &model->items[i];
            passed += item->figure == RS_FIGURE_HOST_INSIDE ? (double)diag_value(model, item) : 0;
        }
        if (element->by_step != NULL && element->by_step[k] <= 0) {
            continue;
        }
        const double loaded = input_inside(model, element->id, k);
        own += passed;
        input += fmax(fmin(loaded, passed), 0);
        knows_input = knows_input || loaded >= 0;
    }
    element->own = own / (double)element->hits;
    element->input = knows_input ? input / (double)element->hits : -1;
    element->healthy_input = input_of_peers(finder, element->id, RS_FIGURE_HOST_INSIDE);
    element->healthy = healthy_of(element, panel);
    const enum rs_status status = take_variation(finder, panel, element);
    return status == RS_OK && !element->is_of_own_steps ? take_idle_levels(finder, element)
                                                        : status;
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
            rs_mem_free(gone->idle_levels);
            rs_mem_free(gone->by_place);
            rs_mem_free(gone->excess_steps);
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

enum rs_status effect_finish_elements(struct finder *finder)
{
    struct diag_effects *effects = finder->effects;
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < effects->count; i++) {
        const struct diag_element *element = &effects->elements[i];
        if (element->what == DIAG_RANK) {
            finder->is_slow[element->id] = 1;
        } else if (element->what == DIAG_HEAD || element->what == DIAG_IDLE) {
            finder->has_slow_host[element->id] = 1;
        }
    }
    for (size_t c = 0; c < finder->model->class_count; c++) {
        find_levels(finder, &finder->tables[c]);
    }
    for (size_t i = 0; i < effects->count && status == RS_OK; i++) {
        struct diag_element *element = &effects->elements[i];
        switch (element->what) {
        case DIAG_RANK:
            find_place(finder, element);
            if (element->position == GRAPH_NONE && element->by_step == NULL) {
                status = find_places(finder, element);
            }
            break;
        case DIAG_HEAD:
            status = head_evidence(finder, element);
            break;
        case DIAG_IDLE:
            status = idle_evidence(finder, element);
            break;
        case DIAG_STAGE:
            stage_evidence(finder, element);
            break;
        case DIAG_UNIT:
            unit_evidence(finder, element);
            break;
        case DIAG_HEAVIER:
        case DIAG_LOADED:
        case DIAG_SPREAD:
        case DIAG_JITTER:
            break;
        }
    }
    if (status == RS_OK) {
        keep_kind(finder->model, effects);
    }
    return status;
}
