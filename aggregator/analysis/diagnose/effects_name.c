/* SPDX-License-Identifier: Apache-2.0 */
/* From panels to elements: lasting effects by Student's t, intermittent ones by their hits; stages; links of a fabric. */
#include "aggregator/analysis/diagnose/effects_priv.h"
#include "common/base/mem.h"

#include <math.h>

enum rs_status effect_element_new(struct finder *finder, const struct diag_panel *panel, size_t m,
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

double effect_p_of(const struct finder *finder, const struct diag_panel *panel, size_t m)
{
    const double p = panel->p_noise[m] * (double)panel->n * finder->tests;
    return p < 1 ? p : 1;
}

void effect_set_test(const struct finder *finder, const struct diag_pool *pool,
                     const struct diag_panel *panel, size_t m, struct diag_element *element)
{
    const double spread = sqrt(1 + panel->base_variance);
    const double n = (double)panel->n;
    element->se = sqrt(diag_own_variance(pool, panel));
    element->noise = element->se;
    element->p = effect_p_of(finder, panel, m);
    element->p_ordinary = panel->p_tau[m];
    const double by_noise =
        pool->dof >= 1
            ? element->se * diag_t_quantile(DIAG_LEVEL_WEAK / n / finder->tests, pool->dof)
            : 0;
    const double by_tau = pool->shares_cores
                              ? pool->tau * diag_t_quantile(DIAG_LEVEL_WEAK / n, pool->tau_dof)
                              : sqrt(pool->apart_squares / pool->apart_dof) *
                                    diag_t_quantile(DIAG_LEVEL_WEAK / n, pool->apart_dof);
    element->limit = spread * (by_noise > by_tau ? by_noise : by_tau);
    if (pool->dof >= 1 && element->effect > 0) {
        const double sure =
            spread * element->se * diag_t_quantile(DIAG_LEVEL_EXACT / n / finder->tests, pool->dof);
        const double ratio = sure / element->effect;
        element->more_steps =
            ratio > 1 ? ceil((double)panel->steps * (ratio * ratio * 1.2 - 1)) + 1 : 0;
    }
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

enum { ALL_BUT_FIRST_STEPS = 4 };

/* A recording on demand begins in the middle of a step: what passes on a host between two steps is not in the first of them. */
static bool is_hit_but_for_first(const double *z, const uint8_t *is_hit, size_t steps)
{
    bool is_always = steps >= ALL_BUT_FIRST_STEPS && is_hit[0] == 0;
    for (size_t k = 1; k < steps; k++) {
        is_always = is_always && (is_hit[k] != 0 || isnan(z[k]));
    }
    return is_always;
}

static enum rs_status name_lasting(struct finder *finder, const struct diag_pool *pool,
                                   struct hits *hits, enum diag_what what, size_t at)
{
    const size_t steps = finder->model->step_count;
    struct diag_panel *panel = hits->panel[at];
    const size_t m = hits->member[at];
    struct diag_element *element = NULL;
    if (effect_p_of(finder, panel, m) > DIAG_LEVEL_WEAK || panel->p_tau[m] > DIAG_LEVEL_WEAK) {
        return RS_OK;
    }
    bool stands = !effect_is_intermittent(&hits->z[at * steps], &hits->is_hit[at * steps], steps);
    stands = stands || panel->has_more_work[m] != 0 ||
             (panel->is_additive && !finder->shares_cores &&
              is_hit_but_for_first(&hits->z[at * steps], &hits->is_hit[at * steps], steps));
    if (finder->shares_cores && panel->is_additive &&
        effect_stands_throughout(panel, m, &stands) != RS_OK) {
        return RS_NOMEM;
    }
    const double chance = finder->shares_cores ? 0 : effect_chance_of_all(hits, at, steps);
    if (!stands || chance > DIAG_LEVEL_WEAK) {
        return RS_OK; /* name_coming() judges it */
    }
    hits->is_lasting[at] = 1;
    if (is_named_for(finder->effects, what, panel->id[m])) {
        return RS_OK;
    }
    if (effect_element_new(finder, panel, m, what, &element) != RS_OK) {
        return RS_NOMEM;
    }
    effect_set_test(finder, pool, panel, m, element);
    element->p = fmax(element->p, chance);
    element->operators = what == DIAG_RANK ? finder->operators[panel->id[m]] : 0;
    element->peers_operators = finder->peers_operators[panel->id[m]];
    return RS_OK;
}

/* Every k-th step, by what no scheduler does; else by hits. */
static enum rs_status name_coming(struct finder *finder, const struct diag_pool *pool,
                                  struct hits *hits, enum diag_what what, size_t at)
{
    bool is_named = false;
    if (finder->shares_cores) {
        const enum rs_status status = effect_name_beat(finder, pool, hits, what, at, &is_named);
        if (status != RS_OK || is_named) {
            return status;
        }
    }
    return effect_name_intermittent(finder, pool, hits, what, at);
}

enum rs_status effect_name_members(struct finder *finder, const struct diag_pool *pool,
                                   enum diag_what what)
{
    struct hits hits;
    if (pool->count == 0) {
        return RS_OK;
    }
    enum rs_status status = effect_hits_init(finder, pool, &hits);
    if (status != RS_OK) {
        return status;
    }
    for (size_t at = 0; status == RS_OK && at < hits.n; at++) {
        status = name_lasting(finder, pool, &hits, what, at);
    }
    for (size_t at = 0; status == RS_OK && at < hits.n; at++) {
        if (!hits.is_lasting[at] &&
            !is_named_for(finder->effects, what, hits.panel[at]->id[hits.member[at]])) {
            status = name_coming(finder, pool, &hits, what, at);
        }
    }
    if (status == RS_OK && (what == DIAG_HEAD || what == DIAG_RANK || what == DIAG_IDLE)) {
        status = finder->shares_cores && what != DIAG_RANK ? effect_add_pauses(finder, &hits, what)
                                                           : effect_add_jitter(finder, &hits, what);
    }
    effect_hits_fini(&hits);
    return status;
}

/* Where rows were lost, ranks may have fallen out of their stage, and would be another one by themselves: not so those of which there are
 * more than half of what the largest has. */
static bool is_stage_whole(const struct finder *finder, size_t c)
{
    const struct diag_model *model = finder->model;
    size_t most = 0;
    for (size_t i = 0; i < model->class_count; i++) {
        most = finder->tables[i].n > most ? finder->tables[i].n : most;
    }
    return !model->has_lost_rows || 2 * finder->tables[c].n > most;
}

enum rs_status effect_name_stages(struct finder *finder)
{
    const struct diag_panel *panel = finder->stages;
    for (size_t m = 0; m < panel->n; m++) {
        struct diag_element *element = NULL;
        if (panel->n < 2 || effect_p_of(finder, panel, m) > DIAG_LEVEL_WEAK ||
            panel->p_tau[m] > DIAG_LEVEL_WEAK || !is_stage_whole(finder, panel->id[m])) {
            continue;
        }
        if (effect_element_new(finder, panel, m, DIAG_STAGE, &element) != RS_OK) {
            return RS_NOMEM;
        }
        effect_set_test(finder, &finder->stage_pool, panel, m, element);
    }
    return RS_OK;
}

static bool is_suspect(const struct finder *finder, const struct diag_panel *panel, size_t m)
{
    return effect_p_of(finder, panel, m) <= DIAG_LEVEL_WEAK && panel->p_tau[m] <= DIAG_LEVEL_WEAK;
}

enum { HOST_LINKS_LEAST = 2 };

/* Are the pairs of one host those that are marked, all of them and no other, and are there others? Then it is not the network that is slow,
 * but what connects that host. `marked`: [panel->n]. */
static bool are_of_a_host(const struct finder *finder, const struct diag_panel *panel,
                          const uint8_t *marked)
{
    const struct diag_model *model = finder->model;
    size_t first = 0;
    while (first < panel->n && (marked[first] == 0 || isnan(panel->a[first]))) {
        first++;
    }
    const struct diag_unit *pair = first < panel->n ? &model->units[panel->id[first]] : NULL;
    if (pair == NULL || pair->a < 0) {
        return false;
    }
    /* All that are marked touch it: so it is at one end of any of them. */
    const int32_t ends[] = {model->workers[pair->a].host, model->workers[pair->b].host};
    for (size_t end = 0; end < 2; end++) {
        size_t own = 0, others = 0, odd = 0;
        for (size_t m = 0; m < panel->n && odd == 0 && ends[end] >= 0; m++) {
            if (isnan(panel->a[m])) {
                continue;
            }
            const bool is_own = diag_unit_touches(model, panel->id[m], ends[end]);
            own += is_own;
            others += !is_own;
            odd += is_own != (marked[m] != 0);
        }
        if (odd == 0 && own >= HOST_LINKS_LEAST && others >= HOST_LINKS_LEAST) {
            return true;
        }
    }
    return false;
}

enum modes_verdict { NO_MODES, MODES_HINT, MODES_OF_HOST };

/* The panel's base and what it may differ by, of the links that are not marked. */
static void level_of_fast(struct finder *finder, size_t p, const uint8_t *marked, double fast)
{
    struct diag_panel *panel = finder->links[p];
    struct diag_pool *pool = &finder->link_pools[p];
    double sum = 0, squares = 0;
    for (size_t m = 0; m < panel->n; m++) {
        sum += marked[m] != 0 || isnan(panel->a[m]) ? 0 : panel->a[m];
    }
    panel->base = sum / fast;
    panel->base_variance = 1 / fast;
    for (size_t m = 0; m < panel->n; m++) {
        const double rest = marked[m] != 0 || isnan(panel->a[m]) ? 0 : panel->a[m] - panel->base;
        squares += rest * rest;
    }
    const double prior = pool->shares_cores ? DIAG_TAU_PRIOR_HOST : DIAG_TAU_PRIOR;
    pool->apart_dof = DIAG_TAU_PRIOR_WEIGHT + fast - 1;
    pool->apart_squares =
        squares + DIAG_TAU_PRIOR_WEIGHT * (prior * prior + diag_own_variance(pool, panel));
    pool->tau = sqrt(pool->apart_squares / pool->apart_dof);
    pool->tau_dof = pool->apart_dof;
    for (size_t m = 0; m < panel->n; m++) {
        if (marked[m] == 0) {
            continue;
        }
        const double effect = panel->a[m] - panel->base, spread = sqrt(1 + panel->base_variance);
        const double se = sqrt(diag_own_variance(pool, panel)) * spread;
        panel->p_noise[m] = se > 0 && pool->dof >= 1 ? diag_t_above(effect / se, pool->dof) : 1;
        panel->p_tau[m] =
            (double)panel->n * diag_t_above(effect / (pool->tau * spread), pool->tau_dof);
    }
}

/* Of a fabric most of which is slow the level is no longer that of the fast ones. Where the links part in two modes, as fabrics do, and the
 * slow ones are those of one host, its level is the mean of the fast mode. `marked` are the slow ones then. It is a hint where hosts that are
 * in racks, not equally many in each, could be as far apart. */
static enum modes_verdict part_in_modes(struct finder *finder, size_t p, uint8_t *marked)
{
    struct diag_panel *panel = finder->links[p];
    double *sorted = finder->scratch;
    size_t known = 0, at = 0;
    for (size_t m = 0; m < panel->n; m++) {
        if (!isnan(panel->a[m])) {
            sorted[known++] = panel->a[m];
        }
    }
    (void)diag_median(sorted, known); /* sorts */
    double gap = 0;
    for (size_t i = 1; i < known; i++) {
        if (sorted[i] - sorted[i - 1] > gap) {
            gap = sorted[i] - sorted[i - 1];
            at = i;
        }
    }
    const double apart =
        at > 0 ? fmax(sorted[at - 1] - sorted[0], sorted[known - 1] - sorted[at]) : 0;
    if (at == 0 || gap < log(DIAG_FABRIC_GAP) || gap < 2 * apart) {
        return NO_MODES;
    }
    for (size_t m = 0; m < panel->n; m++) {
        marked[m] = panel->a[m] >= sorted[at]; /* not where it is unknown */
    }
    if (!are_of_a_host(finder, panel, marked)) {
        return NO_MODES;
    }
    level_of_fast(finder, p, marked, (double)at);
    return gap < log(DIAG_RACK_FACTOR) ? MODES_HINT : MODES_OF_HOST;
}

static enum rs_status name_links_of(struct finder *finder, size_t p, uint8_t *marked)
{
    struct diag_panel *panel = finder->links[p];
    size_t suspects = 0, known = 0;
    for (size_t m = 0; m < panel->n; m++) {
        known += isnan(panel->a[m]) ? 0U : 1U;
        marked[m] = is_suspect(finder, panel, m);
        suspects += marked[m];
    }
    const bool is_much = suspects > 1 && (double)suspects > DIAG_FABRIC_MOST * (double)known;
    const bool is_of_host = is_much && are_of_a_host(finder, panel, marked);
    const enum modes_verdict modes = !is_of_host && (is_much || suspects == 0) && known > 2
                                         ? part_in_modes(finder, p, marked)
                                         : NO_MODES;
    if (known < 2 || ((is_much || suspects == 0) && !is_of_host && modes == NO_MODES)) {
        return RS_OK;
    }
    for (size_t m = 0; m < panel->n; m++) {
        struct diag_element *element = NULL;
        if (!marked[m] || panel->a[m] - panel->base < log(DIAG_LINK_FACTOR)) {
            continue;
        }
        if (effect_element_new(finder, panel, m, DIAG_UNIT, &element) != RS_OK) {
            return RS_NOMEM;
        }
        effect_set_test(finder, &finder->link_pools[p], panel, m, element);
        element->is_of_host = is_of_host || modes != NO_MODES;
        /* where most are slow, the fast ones may be the odd ones: a hint */
        element->p = modes == MODES_HINT ? DIAG_LEVEL_WEAK : element->p;
    }
    return RS_OK;
}

enum rs_status effect_name_links(struct finder *finder)
{
    uint8_t *marked = rs_mem_calloc(finder->model->unit_count + 1, 1);
    enum rs_status status = marked != NULL ? RS_OK : RS_NOMEM;
    for (size_t p = 0; status == RS_OK && p < finder->model->panel_count; p++) {
        status = name_links_of(finder, p, marked);
    }
    rs_mem_free(marked);
    return status;
}
