/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who differs from its equals, in what, and how sure is that?
 *
 *   items --tables--> per class [member][step][position]
 *      own work      mean of logarithms over positions, and the logarithm of the step's total
 *      host head     ns before the first launch of a step
 *      stages        level of each class against the others
 *      transfers     of pairs and groups against others of their fabric
 *   panels --judge--> elements: lasting ones by Student's t, intermittent ones by permutation; of ranks without
 *                            peers what has a beat in their own steps (effects_alone.c)
 *
 * An effect must exceed the noise of the recording *and* what ranks differ by anyway (tau). What exceeds the
 * noise only goes into one element `spread`; hits of single steps that fall on many ranks into `jitter`.
 */
#include "aggregator/analysis/diagnose/effects_priv.h"
#include "common/base/mem.h"

#include <math.h>

/* What exceeds the noise but not what ranks differ by anyway. */
static enum rs_status find_spread(struct finder *finder)
{
    struct diag_element *spread = &finder->effects->spread;
    *spread = (struct diag_element){.what = DIAG_SPREAD, .position = GRAPH_NONE, .input = -1};
    /* Where rows were lost, what they differ by may be what they lack. */
    for (size_t p = 0; !finder->model->has_lost_rows && p < finder->total_pool.count; p++) {
        const struct diag_panel *panel = finder->total_pool.panels[p];
        for (size_t m = 0; m < panel->n; m++) {
            if (effect_p_of(finder, panel, m) > DIAG_LEVEL_EXACT || finder->is_slow[panel->id[m]] ||
                panel->p_tau[m] <= DIAG_LEVEL_EXACT) {
                continue; /* what is far beyond ordinary is not called so, though nobody was named for it */
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
                const double p_own = effect_p_of(finder, panel, m);
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
                effect_set_test(finder, pools[i], panel, m, &effects->close);
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
        effect_set_test(finder, &finder->total_pool, panel, 0, &element);
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
    prior = !has_kernels ? fmax(prior, DIAG_TAU_PRIOR_STAGE)
            : finder->stage_work.is_by_names && !finder->stage_work.are_alike
                ? fmax(prior, DIAG_TAU_PRIOR_NAMES)
                : prior;
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
    const bool shares = finder->shares_cores;
    const double prior = hypot(shares ? DIAG_TAU_PRIOR_HOST : DIAG_TAU_PRIOR,
                               DIAG_LOST_DOUBT * finder->model->lost_doubt);
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
    const bool on_cores = diag_runs_on_cores(model);
    for (size_t p = 0; status == RS_OK && p < model->panel_count; p++) {
        finder->link_pools[p].shares_cores = on_cores;
        status = diag_pool_judge(&finder->link_pools[p],
                                 on_cores ? DIAG_TAU_PRIOR_HOST : DIAG_TAU_PRIOR, finder->tests);
    }
    return status;
}

static enum rs_status name_all(struct finder *finder)
{
    const struct {
        const struct diag_pool *pool;
        enum diag_what what;
    } figures[] = {{&finder->total_pool, DIAG_RANK},
                   {&finder->log_pool, DIAG_RANK},
                   {&finder->head_pool, DIAG_HEAD},
                   {&finder->idle_pool, DIAG_IDLE}};
    /* Pauses of ranks that share cores are looked for where nothing computed; all of their own time comes last. */
    const size_t first = finder->shares_cores ? 2 : 0;
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < 4 && status == RS_OK; i++) {
        status = effect_name_members(finder, figures[(first + i) % 4].pool,
                                     figures[(first + i) % 4].what);
    }
    if (status == RS_OK) {
        status = effect_name_alone(finder, DIAG_HEAD);
    }
    if (status == RS_OK) {
        status = effect_name_alone(finder, DIAG_IDLE);
    }
    if (status == RS_OK) {
        status = effect_name_stages(finder);
    }
    if (status == RS_OK) {
        status = effect_name_links(finder);
    }
    if (status == RS_OK) {
        status = effect_finish_elements(finder);
    }
    if (status == RS_OK) {
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
    enum rs_status status = effect_tables_make(finder);
    finder->effects->loaded = (struct diag_element){.what = DIAG_LOADED,
                                                    .id = GRAPH_NONE,
                                                    .position = GRAPH_NONE,
                                                    .hits = finder->model->step_count,
                                                    .period = 1,
                                                    .input = -1};
    for (size_t c = 0; status == RS_OK && c < finder->model->class_count; c++) {
        status = effect_take_loads(finder, c);
        if (status == RS_OK) {
            status = effect_class_panel(finder, c);
        }
        if (status == RS_OK) {
            status = effect_find_operators(finder, c);
        }
        if (status == RS_OK) {
            status = effect_head_panel(finder, c);
        }
        if (status == RS_OK) {
            status = effect_idle_panel(finder, c);
        }
    }
    if (status == RS_OK) {
        status = effect_stage_panel(finder);
    }
    return status == RS_OK ? effect_link_panels(finder) : status;
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
    rs_mem_free(finder->has_slow_host);
    rs_mem_free(finder->operators);
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
    finder.shares_cores = diag_may_share_cores(model);
    finder.tables = rs_mem_calloc(classes + 1, sizeof *finder.tables);
    finder.member = rs_mem_calloc(model->worker_count + 1, sizeof *finder.member);
    finder.logs = rs_mem_calloc(classes + 1, sizeof(struct diag_panel *));
    finder.totals = rs_mem_calloc(classes + 1, sizeof(struct diag_panel *));
    finder.heads = rs_mem_calloc(classes + 1, sizeof(struct diag_panel *));
    finder.idles = rs_mem_calloc(classes + 1, sizeof(struct diag_panel *));
    finder.links = rs_mem_calloc(model->panel_count + 1, sizeof(struct diag_panel *));
    finder.link_pools = rs_mem_calloc(model->panel_count + 1, sizeof *finder.link_pools);
    finder.scratch = rs_mem_calloc(
        3 * model->worker_count + model->unit_count + 2 * model->step_count + 1, sizeof(double));
    finder.is_slow = rs_mem_calloc(model->worker_count + 1, 1);
    finder.has_slow_host = rs_mem_calloc(model->worker_count + 1, 1);
    finder.operators = rs_mem_calloc(2 * model->worker_count + 1, sizeof *finder.operators);
    enum rs_status status =
        finder.tables == NULL || finder.member == NULL || finder.logs == NULL ||
                finder.totals == NULL || finder.heads == NULL || finder.idles == NULL ||
                finder.links == NULL || finder.link_pools == NULL || finder.scratch == NULL ||
                finder.is_slow == NULL || finder.has_slow_host == NULL || finder.operators == NULL
            ? RS_NOMEM
            : RS_OK;
    if (status == RS_OK) {
        finder.peers_operators = finder.operators + model->worker_count;
        status = make_panels(&finder);
    }
    if (status == RS_OK) {
        status = judge_all(&finder);
    }
    if (status == RS_OK) {
        status = name_all(&finder);
    }
    effects->is_stage_compared = finder.stage_work.is_compared;
    finder.stage_work.is_compared = NULL;
    finder_fini(&finder);
    if (status != RS_OK) {
        diag_effects_fini(effects);
    }
    return status;
}

static void element_fini(struct diag_element *element)
{
    rs_mem_free(element->by_step);
    rs_mem_free(element->by_place);
    rs_mem_free(element->excess_steps);
    rs_mem_free(element->idle_levels);
    rs_mem_free(element->among);
    rs_mem_free(element->among_effects);
    rs_mem_free(element->among_loads);
}

void diag_effects_fini(struct diag_effects *effects)
{
    for (size_t i = 0; i < effects->count; i++) {
        element_fini(&effects->elements[i]);
    }
    element_fini(&effects->spread);
    element_fini(&effects->heavier);
    element_fini(&effects->loaded);
    element_fini(&effects->jitter);
    rs_mem_free(effects->elements);
    rs_mem_free(effects->is_stage_compared);
    *effects = (struct diag_effects){0};
}
