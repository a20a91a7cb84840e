/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trouble that comes and goes, judged step by step.
 *
 *   hit          a member beyond the others' median by more than a single cell may differ; or, where hits are many and of one
 *                size while cells differ much anyway, beyond the gap between them and all other cells
 *   a rank's     as many hits of one rank are unlikely when each step's hits fall on ranks at random (permutation),
 *                times the share of choices of steps that are as regular: every k-th, or all from one on; for every k-th, times
 *                the chance that pauses are so equally long (a stall that moves from rank to rank is equally long everywhere);
 *                times the ranks that have as many
 *   jitter       hits that fall on many ranks: nobody's
 */
#include "aggregator/analysis/diagnose/effects_priv.h"
#include "aggregator/analysis/median.h"
#include "common/base/mem.h"

#include <math.h>
#include <string.h>

/* The i-th smallest of a step's values without the member's own, which stands at `own`. */
static double other_at(const double *sorted, size_t own, size_t i)
{
    return sorted[i < own ? i : i + 1];
}

double effect_median_of_others(const double *sorted, size_t known, double y, size_t half)
{
    size_t low = 0, high = known;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (sorted[middle] < y) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (half == 0) {
        return (double)NAN;
    }
    const double upper = other_at(sorted, low, half / 2);
    return half % 2 ? upper : (other_at(sorted, low, half / 2 - 1) + upper) / 2;
}

/* z[m][k]: how far the member is above the others' median in that step, levels taken out. */
static void step_effects(const struct finder *finder, const struct diag_panel *panel, double *z)
{
    double *sorted = finder->scratch;
    for (size_t k = 0; k < panel->steps; k++) {
        size_t known = 0;
        for (size_t u = 0; u < panel->n; u++) {
            const double y = panel->y[u * panel->steps + k];
            if (!isnan(y)) {
                sorted[known++] = y;
            }
        }
        (void)diag_median(sorted, known);
        /* the faster half of the others; of a panel of two, the other one */
        const size_t half = panel->n > 2 || known == 0 ? known / 2 : known - 1;
        for (size_t m = 0; m < panel->n; m++) {
            const double y = panel->y[m * panel->steps + k];
            z[m * panel->steps + k] =
                isnan(y) ? (double)NAN : y - effect_median_of_others(sorted, known, y, half);
        }
    }
}

/* How much cells differ where nothing happens, by the effects themselves: half of them may be hits. What the pool was fitted to takes a
 * rank's mean out of each of its cells, so that a few hits on every rank make all of them look noisy. */
static double quiet_noise(const struct hits *hits, size_t cells, double *scratch)
{
    size_t count = 0;
    for (size_t i = 0; i < cells; i++) {
        if (!isnan(hits->z[i])) {
            scratch[count++] = fabs(hits->z[i]);
        }
    }
    return count > 0 ? 1.4826 * diag_median(scratch, count) : (double)INFINITY;
}

/* Where the hits stand apart from all other cells: in the middle of the gap between. INFINITY: no gap, or few beyond it.
 *
 *      cells      ::..:.:: .                        . :: :.
 *      effect     0    MAD                     |    hits         at least DIAG_GAP_CELLS, each at least DIAG_GAP_FACTOR times the
 *                                            limit               largest of the others
 *
 * MAD is that of the other cells. scratch: [2 * cells]. */
static double gap_limit(const struct hits *hits, size_t cells, double *scratch)
{
    size_t count = 0;
    for (size_t i = 0; i < cells; i++) {
        if (!isnan(hits->z[i])) {
            scratch[count++] = hits->z[i];
        }
    }
    (void)diag_median(scratch, count); /* sorts */
    for (size_t i = count; i-- > count - count / 2 && i > 0;) {
        const double below = scratch[i - 1], above = scratch[i];
        if (above <= 0 || above <= DIAG_GAP_FACTOR * below) {
            continue;
        }
        double *others = &scratch[count];
        for (size_t k = 0; k < i; k++) {
            others[k] = fabs(scratch[k]);
        }
        if (above > DIAG_GAP_MAD * diag_median(others, i)) {
            /* the highest gap: what is below it is no pause of this kind */
            return count - i >= (size_t)DIAG_GAP_CELLS ? (below + above) / 2 : (double)INFINITY;
        }
    }
    return (double)INFINITY;
}

/* Beyond what a single cell may differ by: chance of LEVEL_WEAK over all cells of the pool. `quiet`, `gap`: see above. */
static double hit_limit(const struct finder *finder, const struct diag_pool *pool, double quiet,
                        double gap)
{
    double cells = 0;
    for (size_t p = 0; p < pool->count; p++) {
        cells += (double)(pool->panels[p]->n * pool->panels[p]->steps);
    }
    if (pool == &finder->head_pool || pool == &finder->idle_pool) {
        const double by_noise = fmin(fmin(pool->noise, quiet) * DIAG_HIT_MAD / 1.4826, gap);
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
void effect_find_period(const double *z, size_t steps, double limit, struct diag_element *element)
{
    size_t first = steps, second = steps, last = 0, hits = 0, healthy = 0;
    for (size_t k = 0; k < steps; k++) {
        healthy += hits == 0 && z[k] <= limit;
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
    element->began = hits > 1 && healthy > 0 && last == steps - 1 && last - first + 1 == hits;
    if (hits < 2 || second == steps) {
        return;
    }
    const size_t period = second - first;
    bool is_regular = true;
    for (size_t k = 0; k < steps; k++) { /* what is not known contradicts nothing */
        const bool expected = k % period == first % period;
        is_regular = is_regular && (isnan(z[k]) || (z[k] > limit) == expected);
    }
    if (is_regular) {
        element->period = period;
        element->phase = first % period;
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
double effect_regularity(const struct diag_element *element, size_t steps)
{
    if (element->began) {
        return 1 / choose(steps, element->hits);
    }
    if (element->period < 2) {
        return 1;
    }
    double beats = 0;
    for (size_t period = 2; period <= steps; period++) {
        /* of its phases the first steps % period have one hit more than the others */
        const size_t fewer = steps / period, longer = steps % period;
        beats += fewer + 1 == element->hits ? (double)longer : 0;
        beats += fewer == element->hits ? (double)(period - longer) : 0;
    }
    const double share = beats / choose(steps, element->hits);
    return share < 1 ? share : 1;
}

/* Chance that sizes of random pauses agree as closely as those of the hits: what comes every k-th step is one thing and takes
 * equally long, pauses of one cause differ by a factor (range of uniform logarithms). */
double effect_likeness(const double *z, const uint8_t *is_hit, size_t steps)
{
    double least = (double)INFINITY, most = -(double)INFINITY, hits = 0;
    for (size_t k = 0; k < steps; k++) {
        if (is_hit[k] != 0) {
            least = fmin(least, log(z[k]));
            most = fmax(most, log(z[k]));
            hits += 1;
        }
    }
    const double part = (most - least) / log(DIAG_PAUSES_DIFFER);
    return part < 1 ? hits * pow(part, hits - 1) - (hits - 1) * pow(part, hits) : 1;
}

/* Chance that so many of the other ranks' hits, drawn at random, would be as long as the member's: where all are of one length, that the
 * member's are says nothing. 0: the others have too few. */
static double likeness_of_others(const struct hits *hits, size_t at, size_t steps)
{
    double least = (double)INFINITY, most = -(double)INFINITY;
    size_t own = 0, others = 0, inside = 0;
    for (size_t k = 0; k < steps; k++) {
        if (hits->is_hit[at * steps + k] != 0) {
            least = fmin(least, hits->z[at * steps + k]);
            most = fmax(most, hits->z[at * steps + k]);
            own++;
        }
    }
    const double room =
        most / least; /* to either side as much as its own differ by, a tenth at least */
    const double factor = room > 1.1 ? room : 1.1;
    for (size_t i = 0; i < hits->n * steps; i++) {
        if (hits->is_hit[i] != 0 && i / steps != at) {
            others++;
            inside += hits->z[i] >= least / factor && hits->z[i] <= most * factor ? 1U : 0U;
        }
    }
    return others >= 2 ? pow((double)inside / (double)others, (double)own - 1) : 0;
}

/* Members with as many hits: each could have been the one whose hits are regular. */
static double rivals(const struct hits *hits, size_t steps, size_t wanted)
{
    double count = 0;
    for (size_t u = 0; u < hits->n; u++) {
        size_t own = 0;
        for (size_t k = 0; k < steps && !hits->is_steady[u]; k++) {
            own += hits->is_hit[u * steps + k];
        }
        count += own >= wanted ? 1 : 0;
    }
    return count;
}

/* Peers [begin, end) of which so many are hit in some step. */
struct draw {
    uint32_t begin, end, hits;
};

/* Of all steps in which somebody is hit. draws: [panels * steps] at most. */
static size_t list_draws(const struct hits *hits, size_t steps, struct draw *draws)
{
    size_t count = 0;
    for (size_t begin = 0, end; begin < hits->n; begin = end) {
        for (end = begin + 1; end < hits->n && hits->panel[end] == hits->panel[begin]; end++) {
        }
        for (size_t k = 0; k < steps; k++) {
            uint32_t own = 0;
            for (size_t u = begin; u < end; u++) {
                own += hits->is_steady[u] ? 0U : hits->is_hit[u * steps + k];
            }
            if (own > 0) {
                draws[count++] = (struct draw){(uint32_t)begin, (uint32_t)end, own};
            }
        }
    }
    return count;
}

/* The step's hits on as many of the peers at random. */
static void draw_peers(const struct hits *hits, const struct draw *draw, uint64_t *state)
{
    uint32_t left = draw->hits;
    for (uint32_t u = draw->begin; u < draw->end && left > 0; u++) {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        /* added, not branched on: no processor foresees a draw */
        const uint32_t hit = (*state >> 11) % (draw->end - u) < left;
        left -= hit;
        hits->counts[u] += hit;
    }
}

static bool is_hit_always(const struct hits *hits, size_t at, size_t steps)
{
    for (size_t k = 0; k < steps; k++) {
        if (hits->is_hit[at * steps + k] == 0 && !isnan(hits->z[at * steps + k])) {
            return false;
        }
    }
    return true;
}

double effect_chance_of_all(const struct hits *hits, size_t at, size_t steps)
{
    double cells = 0, hit = 0, known = 0;
    for (size_t k = 0; k < steps; k++) {
        known += isnan(hits->z[at * steps + k]) ? 0 : 1;
    }
    if (!hits->panel[at]->is_additive || !is_hit_always(hits, at, steps)) {
        return 0;
    }
    for (size_t u = 0; u < hits->n; u++) {
        const size_t counted = is_hit_always(hits, u, steps) ? 0 : steps;
        for (size_t k = 0; k < counted; k++) {
            cells += isnan(hits->z[u * steps + k]) ? 0 : 1;
            hit += hits->is_hit[u * steps + k];
        }
    }
    const double chance = cells > 0 ? (double)hits->n * pow(hit / cells, known) : 0;
    return chance < 1 ? chance : 1;
}

/* A member that is slower in every step was not hit at random in each: counted so, it would make as many hits of any other look like an
 * accident. */
static void find_steady(const struct hits *hits, size_t steps)
{
    for (size_t u = 0; u < hits->n; u++) {
        hits->is_steady[u] = hits->is_lasting[u] != 0 || is_hit_always(hits, u, steps);
    }
}

/* How many of the draws give some member so many hits: the same for whoever asks. hits->reached. */
static enum rs_status draw_all(struct hits *hits, size_t steps)
{
    uint64_t state = 0x9e3779b97f4a7c15U;
    size_t panels = 1;
    for (size_t u = 1; u < hits->n; u++) {
        panels += hits->panel[u] != hits->panel[u - 1];
    }
    struct draw *draws = rs_mem_calloc(panels * steps + 1, sizeof *draws);
    hits->reached = rs_mem_calloc(steps + 1, sizeof *hits->reached);
    if (draws == NULL || hits->reached == NULL) {
        rs_mem_free(draws);
        return RS_NOMEM;
    }
    find_steady(hits, steps);
    const size_t count = list_draws(hits, steps, draws);
    for (int round = 0; round < (int)DIAG_PERMUTATIONS; round++) {
        uint32_t most = 0;
        memset(hits->counts, 0, hits->n * sizeof *hits->counts);
        for (size_t i = 0; i < count; i++) {
            draw_peers(hits, &draws[i], &state);
        }
        for (size_t u = 0; u < hits->n; u++) {
            most = hits->counts[u] > most ? hits->counts[u] : most;
        }
        hits->reached[most]++;
    }
    for (size_t wanted = steps; wanted-- > 0;) {
        hits->reached[wanted] += hits->reached[wanted + 1];
    }
    rs_mem_free(draws);
    return RS_OK;
}

/* Chance that some rank collects so many hits when each step's hits fall on ranks at random: on peers of those that they fell on, since
 * what all of a stage do (its ranks alone load data) is no reason to name one of them. */
static double permutation(const struct hits *hits, size_t wanted)
{
    return (hits->reached[wanted] + 1.0) / (DIAG_PERMUTATIONS + 1);
}

/* ---- hits of one pool ------------------------------------------------------------------------ */

void effect_hits_fini(struct hits *hits)
{
    rs_mem_free(hits->is_hit);
    rs_mem_free(hits->z);
    rs_mem_free(hits->counts);
    rs_mem_free(hits->panel);
    rs_mem_free(hits->member);
    rs_mem_free(hits->is_lasting);
    rs_mem_free(hits->is_steady);
    rs_mem_free(hits->reached);
}

enum rs_status effect_hits_init(struct finder *finder, const struct diag_pool *pool,
                                struct hits *hits)
{
    const size_t steps = finder->model->step_count;
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
    hits->is_steady = rs_mem_calloc(hits->n + 1, 1);
    double *scratch = rs_mem_calloc(2 * hits->n * steps + 1, sizeof *scratch);
    if (scratch == NULL || hits->is_hit == NULL || hits->z == NULL || hits->counts == NULL ||
        hits->panel == NULL || hits->member == NULL || hits->is_lasting == NULL ||
        hits->is_steady == NULL) {
        rs_mem_free(scratch);
        effect_hits_fini(hits);
        return RS_NOMEM;
    }
    size_t at = 0;
    for (size_t p = 0; p < pool->count; p++) {
        step_effects(finder, pool->panels[p], &hits->z[at * steps]);
        for (size_t m = 0; m < pool->panels[p]->n; m++, at++) {
            hits->panel[at] = pool->panels[p];
            hits->member[at] = m;
        }
    }
    const double quiet = quiet_noise(hits, hits->n * steps, scratch);
    const double limit = hit_limit(finder, pool, quiet, gap_limit(hits, hits->n * steps, scratch));
    for (size_t i = 0; i < hits->n * steps; i++) {
        hits->is_hit[i] = hits->z[i] > limit;
    }
    rs_mem_free(scratch);
    return RS_OK;
}

/* Hit in some steps, and healthy in the others: less than a quarter of it. */
bool effect_is_intermittent(const double *z, const uint8_t *is_hit, size_t steps)
{
    double hit = 0, hits = 0, rest = 0, rests = 0;
    for (size_t k = 0; k < steps; k++) {
        *(is_hit[k] ? &hit : &rest) += isnan(z[k]) ? 0 : z[k];
        *(is_hit[k] ? &hits : &rests) += isnan(z[k]) ? 0 : 1;
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

static bool has_form(const struct diag_element *trial)
{
    return trial->began || trial->period > 1;
}

/* The form of these hits. What passes on a host between two steps is in the head of the later one, and a recording begins with a step's
 * mark: of the first step a head says nothing where it is not hit, if the hits have a beat without it. flags: [steps]. */
static void find_form(const double *flags, size_t steps, bool is_head, double *scratch,
                      struct diag_element *trial)
{
    struct diag_element rest = {0};
    effect_find_period(flags, steps, 0.5, trial);
    if (!is_head || has_form(trial) || flags[0] > 0.5) {
        return;
    }
    memcpy(scratch, flags, steps * sizeof *flags);
    scratch[0] = (double)NAN;
    effect_find_period(scratch, steps, 0.5, &rest);
    if (rest.period > 1) {
        *trial = rest;
        trial->lacks_first = true;
    }
}

/* Of one member. */
struct own_hits {
    const double *z;       /* [steps] */
    const uint8_t *is_hit; /* [steps] */
    size_t steps;
    bool is_head;
};

/* Which of the hits make a form, a beat or a beginning: all of them, or without strays, which are so much shorter that they are something
 * else. `strong`: [steps]; `flags`: [2 * steps]. True: there were strays, and without them it has one. */
static bool has_form_without_strays(const struct own_hits *own, double *flags, uint8_t *strong,
                                    struct diag_element *trial)
{
    const double *z = own->z;
    const uint8_t *is_hit = own->is_hit;
    const size_t steps = own->steps;
    struct diag_element all = {0}, rest = {0};
    double *lengths = flags;
    size_t hits = 0, kept = 0;
    for (size_t k = 0; k < steps; k++) {
        if (is_hit[k]) {
            lengths[hits++] = z[k];
        }
    }
    const double least = hits > 0 ? DIAG_STRAY_PART * rs_median(lengths, hits) : 0;
    for (size_t k = 0; k < steps; k++) {
        flags[k] = isnan(z[k]) ? (double)NAN : is_hit[k];
    }
    find_form(flags, steps, own->is_head, flags + steps, &all);
    for (size_t k = 0; k < steps; k++) {
        strong[k] = is_hit[k] && z[k] >= least;
        flags[k] = isnan(z[k]) ? (double)NAN : strong[k];
        kept += strong[k];
    }
    find_form(flags, steps, own->is_head, flags + steps, &rest);
    const bool is_better = kept < hits && kept > 1 && !has_form(&all) && has_form(&rest);
    *trial = is_better ? rest : all;
    return is_better;
}

/* Pauses that nobody else has: few may be chance, but the job lost that time at one place, and a hint says where. */
static bool is_worth_a_hint(const struct finder *finder, const struct hits *hits, size_t at)
{
    const size_t steps = finder->model->step_count;
    size_t others = 0;
    for (size_t i = 0; i < hits->n * steps; i++) {
        others += i / steps != at ? hits->is_hit[i] : 0U;
    }
    return others == 0 && hits->panel[at]->is_additive && !finder->shares_cores;
}

enum rs_status effect_name_intermittent(struct finder *finder, const struct diag_pool *pool,
                                        struct hits *hits, enum diag_what what, size_t at)
{
    const size_t steps = finder->model->step_count;
    struct diag_element trial = {0};
    struct diag_element *element = NULL;
    uint8_t *strong = rs_mem_calloc(steps + 1, 1);
    if (strong == NULL) {
        return RS_NOMEM;
    }
    /* two ways to look at it: the chance of an accident is twice as large */
    const struct own_hits own = {&hits->z[at * steps], &hits->is_hit[at * steps], steps,
                                 what == DIAG_HEAD};
    const bool has_strays = has_form_without_strays(&own, finder->scratch, strong, &trial);
    if (has_strays) {
        memcpy(&hits->is_hit[at * steps], strong, steps);
    }
    rs_mem_free(strong);
    const uint8_t *is_hit = &hits->is_hit[at * steps];
    size_t known = 0;
    for (size_t k = trial.lacks_first ? 1 : 0; k < steps; k++) {
        known += isnan(hits->z[at * steps + k]) ? 0U : 1U;
    }
    if (trial.hits < 2) {
        return RS_OK;
    }
    const double alike = trial.period > 1 && hits->panel[at]->is_additive
                             ? fmax(effect_likeness(&hits->z[at * steps], is_hit, steps),
                                    likeness_of_others(hits, at, steps))
                             : 1;
    if (hits->reached == NULL && draw_all(hits, steps) != RS_OK) {
        return RS_NOMEM;
    }
    const double p = fmax(permutation(hits, trial.hits) * effect_regularity(&trial, known) * alike *
                              rivals(hits, steps, trial.hits) * (has_strays ? 2 : 1),
                          effect_chance_of_all(hits, at, steps));
    if (p > DIAG_LEVEL_WEAK && !is_worth_a_hint(finder, hits, at)) {
        return RS_OK;
    }
    if (effect_element_new(finder, hits->panel[at], hits->member[at], what, &element) != RS_OK) {
        return RS_NOMEM;
    }
    effect_set_test(finder, pool, hits->panel[at], hits->member[at], element);
    element->p = p;
    element->hits = trial.hits;
    element->first = trial.first;
    element->period = trial.period;
    element->phase = trial.phase;
    element->began = trial.began;
    hits->is_lasting[at] = 1;
    return keep_steps(element, &hits->z[at * steps], is_hit, steps);
}

enum rs_status effect_add_jitter(struct finder *finder, struct hits *hits, enum diag_what what)
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
