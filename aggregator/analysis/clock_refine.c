/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clocks once operations are matched: all hosts together, each against the mean end of its operations, in rounds without what lies
 * beyond five times the spread. What was measured to run with the reference settles on its host.
 */
#include "aggregator/analysis/clock_few.h"
#include "aggregator/analysis/clock_fit_priv.h"
#include "common/base/mem.h"

#include <math.h>

enum { REFINE_ROUNDS = 12 };

/* An end of a matched operation, of one host. */
struct end_row {
    uint32_t host, op;
    rs_ns start, end;
    uint32_t summary;
};

struct refining {
    struct fitting fit;
    struct end_row *rows; /* by op */
    size_t count;
    size_t *host_first; /* [host_count + 2] rows of a host in `by_host` */
    uint32_t *by_host;
    double *op_end;  /* [op] mean end on the reference's clock */
    rs_ns epoch;     /* from which doubles count */
    bool *is_in_use; /* [row] not an outlier */
};

/* Operations whose members end together, more than one host among them. */
static bool ends_together(const struct join *join, const struct rs_job_op *op)
{
    const struct rs_job_row *rows = &join->out->rows[op->row_first];
    const enum rs_dependency needs = rs_op_type_dependency((enum rs_op_type)op->type);
    bool crosses = false;
    if (!op->is_matched || clock_crosses(join, op)) {
        return false;
    }
    for (size_t r = 0; r < op->row_count; r++) {
        const struct rs_comm_op *own = join_op(join, rows[r].summary, rows[r].op_index);
        const bool is_device = (own->flags & RS_OP_ON_DEVICE) != 0;
        if (needs != RS_DEPENDS_ALL && !(op->is_p2p && is_device)) {
            return false;
        }
        crosses = crosses || join->host[rows[r].summary] != join->host[rows[0].summary];
    }
    return crosses;
}

static enum rs_status collect_ends(struct refining *re)
{
    struct join *join = re->fit.join;
    const struct rs_analysis *out = join->out;
    re->rows = rs_mem_calloc(out->row_count + 1, sizeof *re->rows);
    re->by_host = rs_mem_calloc(out->row_count + 1, sizeof *re->by_host);
    re->host_first = rs_mem_calloc(join->host_count + 3, sizeof *re->host_first);
    re->op_end = rs_mem_calloc(out->op_count + 1, sizeof *re->op_end);
    re->is_in_use = rs_mem_calloc(out->row_count + 1, sizeof *re->is_in_use);
    if (re->rows == NULL || re->by_host == NULL || re->host_first == NULL || re->op_end == NULL ||
        re->is_in_use == NULL || !fit_need_scratch(&re->fit, out->row_count + 1)) {
        return RS_NOMEM;
    }
    for (size_t i = 0; i < out->op_count; i++) {
        const struct rs_job_op *op = &out->ops[i];
        for (size_t r = op->row_first; ends_together(join, op) && r < op->row_first + op->row_count;
             r++) {
            const struct rs_job_row *row = &out->rows[r];
            const struct rs_comm_op *own = join_op(join, row->summary, row->op_index);
            if ((own->flags & RS_OP_UNFINISHED) != 0) {
                continue;
            }
            re->epoch = re->count == 0 ? own->end : re->epoch;
            re->is_in_use[re->count] = true;
            re->rows[re->count++] = (struct end_row){join->host[row->summary], (uint32_t)i,
                                                     own->start, own->end, row->summary};
        }
    }
    for (size_t i = 0; i < re->count; i++) {
        re->host_first[re->rows[i].host + 2]++;
    }
    for (size_t h = 0; h < join->host_count; h++) {
        re->host_first[h + 2] += re->host_first[h + 1];
    }
    for (size_t i = 0; i < re->count; i++) {
        re->by_host[re->host_first[re->rows[i].host + 1]++] = (uint32_t)i;
    }
    return RS_OK;
}

/* Mean ends of operations, without outliers, as the clocks stand. */
static void mean_ends(struct refining *re)
{
    for (size_t i = 0; i < re->count;) {
        double sum = 0, all = 0;
        size_t used = 0, end = i;
        for (; end < re->count && re->rows[end].op == re->rows[i].op; end++) {
            const struct end_row *row = &re->rows[end];
            const double at = (double)(join_time(re->fit.join, row->summary, row->end) - re->epoch);
            all += at;
            sum += re->is_in_use[end] ? at : 0;
            used += re->is_in_use[end];
        }
        re->op_end[re->rows[i].op] = used > 0 ? sum / (double)used : all / (double)(end - i);
        i = end;
    }
}

/* One host's clock against the mean ends of its operations. */
static void fit_host(struct refining *re, uint32_t host, struct rs_job_clock *clock_p, bool *has_p)
{
    const size_t begin = re->host_first[host], end = re->host_first[host + 1];
    const size_t count = end - begin;
    struct rs_job_clock *clock = clock_p;
    *has_p = count >= VOTE_LEAST;
    if (!*has_p) {
        return;
    }
    for (size_t k = 0; k < count; k++) {
        const struct end_row *row = &re->rows[re->by_host[begin + k]];
        re->fit.points[k] = (struct point){(double)(row->end - clock->at_ns),
                                           (double)(row->end - re->epoch) - re->op_end[row->op]};
    }
    const struct line line = fit_robust_line(re->fit.sorted, re->fit.points, count);
    for (size_t k = 0; k < count; k++) {
        const struct point *point = &re->fit.points[k];
        re->is_in_use[re->by_host[begin + k]] =
            fabs(point->value - line.offset - line.drift * point->at) <= 5 * line.spread + 1000;
    }
    clock->offset_ns = (rs_dur)llround(line.offset);
    clock->drift_ppb = (int64_t)llround(line.drift * 1e9);
    /* ends that spread by more than devices do say less: ranks that share a device end one after another, always in one order */
    const double spreads = line.spread > SETTLED_BOUND_NS ? 4 : 2;
    clock->bound_ns = LEAST_BOUND_NS + (rs_dur)llround(spreads * line.spread);
}

static void set_clock(struct join *join, uint32_t host, const struct rs_job_clock *clock)
{
    for (size_t s = 0; s < join->out->summary_count; s++) {
        if (join->host[s] == host) {
            join->out->clocks[s] = *clock;
        }
    }
}

/* The summary whose clock the others are held against; summary_count: none. */
static size_t reference_of(const struct join *join)
{
    size_t reference = 0;
    while (reference < join->out->summary_count &&
           join->out->clocks[reference].method != RS_CLOCK_REFERENCE) {
        reference++;
    }
    return reference;
}

/* A file that names no host, and whose clock was measured to run with the reference's, as closely as clocks of one host do: it
 * stands on the reference's host. */
static void settle(struct join *join)
{
    const size_t reference = reference_of(join);
    for (size_t s = 0; s < join->out->summary_count; s++) {
        struct rs_job_clock *clock = &join->out->clocks[s];
        if (clock->method != RS_CLOCK_ENDS || join->domain[s] != join->domain[reference] ||
            !clock_runs_with_reference(join, s)) {
            continue;
        }
        *clock = (struct rs_job_clock){.method = RS_CLOCK_ENDS, .bound_ns = RS_CLOCK_BOUND_NS};
        join->host[s] = join->host[reference];
    }
}

enum rs_status clock_refine(struct join *join)
{
    const struct rs_analysis *out = join->out;
    struct refining re = {.fit = {.join = join}};
    enum rs_status status = collect_ends(&re);
    const size_t reference = reference_of(join);
    for (int round = 0; round < REFINE_ROUNDS && status == RS_OK && re.count > 0; round++) {
        mean_ends(&re);
        for (size_t s = 0; s < out->summary_count; s++) {
            struct rs_job_clock clock = out->clocks[s];
            bool has = false;
            const bool is_first = s == 0 || join->host[s] != join->host[s - 1];
            if (!is_first || clock.method != RS_CLOCK_ENDS ||
                (reference < out->summary_count && join->host[s] == join->host[reference])) {
                continue;
            }
            fit_host(&re, join->host[s], &clock, &has);
            if (has) {
                set_clock(join, join->host[s], &clock);
            }
        }
    }
    if (status == RS_OK) {
        settle(join);
    }
    rs_mem_free(re.rows);
    rs_mem_free(re.by_host);
    rs_mem_free(re.host_first);
    rs_mem_free(re.op_end);
    rs_mem_free(re.is_in_use);
    rs_mem_free(re.fit.points);
    rs_mem_free(re.fit.sorted);
    return status;
}
