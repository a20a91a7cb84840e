/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How do the clocks of different hosts (and of files that name no host) stand to each other?
 *
 *   first guess   two ranks of different domains (clock_vote.c): the difference of ends that most rows of one kind agree on,
 *                 then, followed through both recordings: offset and drift, by least squares without outliers.
 *                 Domains join the reference (that of the lowest rank) one after another, each through the rank it shares most with
 *                 (clock_partners.c).
 *   refined       (clock_refine.c) once operations are matched: all domains together, each against the mean end of its operations;
 *                 three rounds without what lies beyond 5 MAD
 *   bounds        the spread of those ends; and, as nobody leaves before the last has come, end - start of every
 *                 operation bounds the difference of two clocks: shortest paths over all of them. The narrower of the two holds
 *
 * Files too short to vote come last, held against all that voted (clock_few.c).
 *
 * Rows that name no group agree by chance, too, most of all those of two stages of a pipeline, shifted against each other: they
 * count when they bear out whole streams (clock_carrier.c), and files without a host are tried as they stand first.
 *
 * Nothing is assumed because it looks feasible: where no difference stands out, the domain stays on its own, and no time
 * of it is compared with another's. Files without a host whose clocks were *measured* to be within their bound of the reference
 * stand on it as they are.
 *
 * Linear in rows but for the votes, which look at a bounded number of rows.
 */
#include "aggregator/analysis/clock_few.h"
#include "aggregator/analysis/clock_fit_priv.h"
#include "aggregator/analysis/clock_partners.h"
#include "common/base/const.h"
#include "common/base/mem.h"

#include <math.h>
#include <string.h>

rs_ns join_time(const struct join *join, size_t summary, rs_ns instant)
{
    const struct rs_job_clock *clock = &join->out->clocks[summary];
    if (clock->offset_ns == 0 && clock->drift_ppb == 0) {
        return instant;
    }
    const double drifted = (double)(instant - clock->at_ns) * 1e-9 * (double)clock->drift_ppb;
    return instant - clock->offset_ns - (rs_ns)llround(drifted);
}

rs_dur join_bound(const struct join *join, size_t a, size_t b)
{
    if (join->host[a] == join->host[b]) {
        return 0;
    }
    return join_sum(join->out->clocks[a].bound_ns, join->out->clocks[b].bound_ns);
}

/* ---- domains one after another ------------------------------------------------------------- */

/* b's clock against the reference, through an aligned a. */
static struct rs_job_clock through(const struct join *join, size_t a, const struct estimate *e)
{
    const struct rs_job_clock *known = &join->out->clocks[a];
    struct rs_job_clock clock = {.method = RS_CLOCK_ENDS, .at_ns = e->at};
    const rs_ns a_time = e->at - (rs_ns)llround(e->line.offset);
    clock.offset_ns = e->at - join_time(join, a, a_time);
    clock.drift_ppb = (int64_t)llround(e->line.drift * 1e9) + known->drift_ppb;
    clock.bound_ns = known->bound_ns + LEAST_BOUND_NS + (rs_dur)llround(3 * e->line.spread);
    return clock;
}

static enum rs_status align_domain(struct fitting *fit, struct clock_partners *partners, size_t s,
                                   bool *found_p)
{
    struct join *join = fit->join;
    const struct rs_analysis *out = join->out;
    size_t tried[PARTNERS_TRIED];
    struct estimate best = {.pairs = 0};
    size_t with = 0;
    const size_t count = clock_partners_find(partners, s, tried);
    for (size_t k = 0; k < count; k++) {
        struct estimate one;
        bool found;
        const enum rs_status status = fit_two(fit, tried[k], s, &one, &found);
        if (status != RS_OK) {
            return status;
        }
        if (found && (best.pairs == 0 || one.line.spread < best.line.spread / 2 ||
                      (one.line.spread <= best.line.spread * 2 && one.pairs > best.pairs))) {
            best = one;
            with = tried[k];
        }
    }
    *found_p = best.pairs > 0;
    if (!*found_p) {
        return RS_OK;
    }
    const struct rs_job_clock clock = through(join, with, &best);
    for (size_t t = 0; t < out->summary_count; t++) {
        if (join->host[t] == join->host[s]) {
            join->out->clocks[t] = clock;
        }
    }
    return RS_OK;
}

static void take_in(const struct join *join, struct clock_partners *partners, bool *is_in, size_t s)
{
    for (size_t t = 0; t < join->out->summary_count; t++) {
        if (!is_in[t] && join->host[t] == join->host[s]) {
            is_in[t] = true;
            clock_partners_add(partners, t);
        }
    }
}

/* Those outside of every island that this finds a place in it for. */
static enum rs_status join_by_votes(struct fitting *fit, struct clock_partners *partners,
                                    const bool *is_aligned, bool *is_in, bool *is_new_p)
{
    const struct join *join = fit->join;
    for (size_t s = 0; s < join->out->summary_count; s++) {
        bool found = false;
        if (is_in[s] || is_aligned[s] || !join->out->ranks[s].takes_part) {
            continue;
        }
        const enum rs_status status = align_domain(fit, partners, s, &found);
        if (status != RS_OK) {
            return status;
        }
        if (found) {
            take_in(join, partners, is_in, s);
            *is_new_p = true;
        }
    }
    return RS_OK;
}

/* Files with few rows, when all that can vote has: against all of it. */
static enum rs_status join_by_few(struct fitting *fit, struct clock_partners *partners,
                                  struct clock_standing *standing, const bool *is_aligned,
                                  bool *is_in, bool *is_new_p)
{
    struct join *join = fit->join;
    enum rs_status status = RS_OK;
    bool has_looked = false;
    for (size_t s = 0; s < join->out->summary_count && status == RS_OK; s++) {
        if (is_in[s] || is_aligned[s] || !join->out->ranks[s].takes_part ||
            !clock_is_few(join, &fit->rows[s], s)) {
            continue;
        }
        if (!has_looked) {
            status = clock_standing_look(standing, join, fit->rows, is_in);
            has_looked = true;
        }
        if (status == RS_OK && clock_stands(standing, &fit->rows[s], &join->out->clocks[s])) {
            take_in(join, partners, is_in, s);
            *is_new_p = true;
        }
    }
    return status;
}

/* The island of the lowest rank that is in none yet: all that can be joined to it. */
static enum rs_status grow_island(struct fitting *fit, struct clock_partners *partners,
                                  struct clock_standing *standing, bool *is_aligned, size_t seed)
{
    struct join *join = fit->join;
    const size_t count = join->out->summary_count;
    bool *is_in = rs_mem_calloc(count + 1, sizeof *is_in);
    if (is_in == NULL) {
        return RS_NOMEM;
    }
    enum rs_status status = RS_OK;
    const uint32_t island = join->host[seed];
    clock_partners_begin(partners);
    take_in(join, partners, is_in, seed);
    for (bool is_new = true; is_new && status == RS_OK;) {
        is_new = false;
        status = join_by_votes(fit, partners, is_aligned, is_in, &is_new);
        if (status == RS_OK && !is_new) {
            status = join_by_few(fit, partners, standing, is_aligned, is_in, &is_new);
        }
    }
    for (size_t t = 0; t < count; t++) {
        if (is_in[t]) {
            is_aligned[t] = true;
            join->domain[t] = island;
        }
    }
    rs_mem_free(is_in);
    return status;
}

static void fitting_fini(struct fitting *fit)
{
    for (size_t s = 0; fit->rows != NULL && s < fit->join->out->summary_count; s++) {
        rs_mem_free(fit->rows[s].items);
    }
    rs_mem_free(fit->rows);
    rs_mem_free(fit->votes);
    rs_mem_free(fit->seen);
    rs_mem_free(fit->points);
    rs_mem_free(fit->sorted);
}

/* Aligns what can be aligned; *domains_p: how many domains are left. */
static enum rs_status align_all(struct join *join, bool has_steps, size_t *domains_p)
{
    const size_t count = join->out->summary_count;
    struct fitting fit = {.join = join, .has_steps = has_steps};
    bool *is_aligned = rs_mem_calloc(count + 1, sizeof *is_aligned);
    struct clock_partners partners = {.count = 0};
    struct clock_standing standing = {.kind_count = 0};
    fit.rows = rs_mem_calloc(count + 1, sizeof *fit.rows);
    fit.votes = rs_mem_calloc((size_t)VOTE_ROWS * (2 * VOTE_NEAR + 1), sizeof *fit.votes);
    fit.seen = rs_mem_calloc(VOTE_ROWS, sizeof *fit.seen);
    enum rs_status status = RS_NOMEM;
    *domains_p = 0;
    if (is_aligned != NULL && fit.rows != NULL && fit.votes != NULL && fit.seen != NULL) {
        status = fit_collect_witnesses(&fit);
    }
    if (status == RS_OK) {
        status = clock_partners_init(&partners, fit.rows, count);
    }
    if (status == RS_OK) {
        status = clock_standing_init(&standing, join, fit.rows);
    }
    for (size_t s = 0; s < count && status == RS_OK; s++) {
        if (!is_aligned[s] && join->out->ranks[s].takes_part) {
            status = grow_island(&fit, &partners, &standing, is_aligned, s);
            ++*domains_p;
        }
    }
    clock_partners_fini(&partners);
    clock_standing_fini(&standing);
    rs_mem_free(is_aligned);
    fitting_fini(&fit);
    return status;
}

/* Numbers of steps first: they tell apart what else looks alike. Where ranks count their steps differently, without. */
enum rs_status clock_align(struct join *join)
{
    const size_t count = join->out->summary_count;
    size_t with, without;
    enum rs_status status = align_all(join, true, &with);
    if (status != RS_OK || with < 2) {
        return status;
    }
    struct rs_job_clock *clocks = rs_mem_calloc(count + 1, sizeof *clocks);
    uint32_t *domains = rs_mem_calloc(count + 1, sizeof *domains);
    if (clocks == NULL || domains == NULL) {
        rs_mem_free(clocks);
        rs_mem_free(domains);
        return RS_NOMEM;
    }
    memcpy(clocks, join->out->clocks, count * sizeof *clocks);
    memcpy(domains, join->domain, count * sizeof *domains);
    status = clock_domains(join);
    if (status == RS_OK) {
        status = align_all(join, false, &without);
    }
    if (status == RS_OK && without >= with) {
        memcpy(join->out->clocks, clocks, count * sizeof *clocks);
        memcpy(join->domain, domains, count * sizeof *domains);
    }
    rs_mem_free(clocks);
    rs_mem_free(domains);
    return status;
}

rs_ns rs_analysis_time(const struct rs_analysis *analysis, size_t summary_index, rs_ns instant)
{
    if (analysis->clocks == NULL) { /* made by hand: one clock */
        return instant;
    }
    const struct join view = {.out = rs_const_away(analysis)};
    return join_time(&view, summary_index, instant);
}

rs_dur rs_analysis_clock_bound(const struct rs_analysis *analysis, size_t a, size_t b)
{
    if (analysis->clocks == NULL || analysis->clocks[a].clock == analysis->clocks[b].clock) {
        return 0;
    }
    if (analysis->clocks[a].domain != analysis->clocks[b].domain) {
        return RS_NS_MAX;
    }
    return join_sum(analysis->clocks[a].bound_ns, analysis->clocks[b].bound_ns);
}
