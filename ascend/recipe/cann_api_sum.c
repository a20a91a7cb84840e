/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cann_api_sum: time in CANN's host calls by name, per rank and over all.
 *
 * Peer, per rank: calls that start in the step, by name; share in percent (2 digits), the rest
 * rounded to 1 digit by SQLite's round(); deviation of the population. Over ranks: sums; mean = sum / count;
 * the least first quartile, the median of medians, the largest third quartile; deviation pooled
 * from the ranks' rounded ones; lists of the ranks that have the least and the largest call;
 * rounded to 1 digit. The quartiles over ranks are bounds, not quantiles, in both modes.
 */
#include "ascend/recipe/recipe_priv.h"
#include "common/base/mem.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

enum { NAME, SHARE, TOTAL, COUNT, MEAN, MIN, Q1, MEDIAN, Q3, MAX, STD, RANK };
#define KINDS "triirrrrrrri"

static void fill_row(union frame_cell *row, const struct scratch *scratch, double *sorted)
{
    double mean, total = 0;
    const size_t n = scratch->count;
    const double std = stats_std_population(scratch->values, n, &mean);
    for (size_t i = 0; i < n; i++) {
        sorted[i] = scratch->values[i];
        total += scratch->values[i]; /* whole ns: exact up to 2^53 */
    }
    stats_sort(sorted, n);
    row[TOTAL].i = (int64_t)total;
    row[COUNT].i = (int64_t)n;
    row[MEAN].r = stats_round_sql(total / (double)n, 1);
    row[MIN].r = stats_round_sql(sorted[0], 1);
    row[Q1].r = stats_round_sql(stats_quantile(sorted, n, 0.25), 1);
    row[MEDIAN].r = stats_round_sql(stats_median_sorted(sorted, n), 1);
    row[Q3].r = stats_round_sql(stats_quantile(sorted, n, 0.75), 1);
    row[MAX].r = stats_round_sql(sorted[n - 1], 1);
    row[STD].r = stats_round_sql(std, 1);
}

/* Calls (name id, name, duration) -> one row per name id. */
static enum rs_status sum_up(const struct frame *calls, struct frame *part, int64_t rank)
{
    struct frame_order order;
    struct scratch scratch = {0};
    enum rs_status status = frame_order(calls, "\1", &order);
    double total = 0;
    for (size_t at = 0, end = 0; status == RS_OK && at < order.count; at = end) {
        const rs_str name = frame_row(calls, order.rows[at])[1].t;
        end = frame_group_end(calls, &order, at);
        status = scratch_gather(&scratch, calls, &order, at, end, 2);
        if (status != RS_OK || !scratch.count)
            continue;
        union frame_cell *row = frame_add(part);
        if (!row) {
            status = RS_NOMEM;
            break;
        }
        row[NAME].t = RS_STR_NONE;
        row[RANK].i = rank;
        fill_row(row, &scratch, scratch.sorted);
        total += (double)row[TOTAL].i;
        if (name != RS_STR_NONE)
            status = frame_text_id(part, frame_text(calls, name), &row[NAME].t);
    }
    for (size_t i = 0; i < part->count && status == RS_OK; i++) {
        union frame_cell *row = part->cells + i * part->columns;
        row[SHARE].r =
            total > 0 ? stats_round_sql((double)row[TOTAL].i * 100.0 / total, 2) : (double)NAN;
    }
    scratch_fini(&scratch);
    frame_order_fini(&order);
    return status;
}

static enum rs_status map(struct run *run, const struct inputs *in, void **part_p,
                          struct rs_err *err)
{
    (void)run;
    void *calls = NULL;
    enum rs_status status = db_requires(
        in->profiler, "CANN_API.name CANN_API.startNs CANN_API.endNs STRING_IDS.value", err);
    if (status == RS_OK)
        status = frame_map(in, in->profiler, "iti",
                           "SELECT name, s.value, endNs - startNs FROM CANN_API "
                           "LEFT JOIN STRING_IDS s ON s.id = name "
                           "WHERE startNs >= ?1 AND startNs <= ?2",
                           &calls, err);
    if (status != RS_OK)
        return status;
    struct frame *part = frame_new(KINDS);
    status = part ? sum_up(calls, part, in->of->rank) : RS_NOMEM;
    frame_drop(calls);
    return frame_part(part, status, part_p, err);
}

static enum rs_status write_ranks(struct run *run, struct rs_err *err)
{
    static const struct column columns[] = {
        {"name", 't', NULL},       {"durationRatio", 'r', NULL}, {"totalTimeNs", 'i', NULL},
        {"totalCount", 'i', NULL}, {"averageNs", 'r', NULL},     {"minNs", 'r', NULL},
        {"Q1Ns", 'r', NULL},       {"medNs", 'r', NULL},         {"Q3Ns", 'r', NULL},
        {"maxNs", 'r', NULL},      {"stdev", 'r', NULL},         {"rank", 'i', NULL}};
    static const struct table table = {
        "CannApiSumRank", "rank_stats.csv", columns, COLUMN_COUNT(columns), 0, false};
    const struct frame *rows = &((const struct frame_state *)run->state)->rows;
    return table_of_frame(run, &table, &(struct frame_rows){rows, NULL, 0, rows->count}, err);
}

struct sum {
    rs_str name;
    int64_t total, count;
    double q1, median, q3, min, max, std;
    size_t from, end, order;
};

static int by_total(const void *a, const void *b)
{
    const struct sum *x = a, *y = b;
    if (x->total != y->total)
        return x->total > y->total ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

/* Ranks' deviations and means -> one deviation. */
static double pooled(const struct frame *rows, const struct frame_order *order,
                     const struct sum *sum)
{
    const double mean = (double)sum->total / (double)sum->count;
    double within = 0, between = 0;
    if (sum->end - sum->from <= 1)
        return frame_row(rows, order->rows[sum->from])[STD].r;
    for (size_t i = sum->from; i < sum->end; i++) {
        const union frame_cell *row = frame_row(rows, order->rows[i]);
        const double away = row[MEAN].r - mean;
        within += (double)(row[COUNT].i - 1) * (row[STD].r * row[STD].r);
        between += (double)row[COUNT].i * (away * away);
    }
    return sum->count > 1 ? sqrt((within + between) / (double)(sum->count - 1)) : 0;
}

static enum rs_status sum_names(struct frame_state *state, const struct frame_order *order,
                                struct sum *sums, size_t *count_p)
{
    size_t count = 0;
    for (size_t at = 0, end = 0; at < order->count; at = end) {
        const union frame_cell *first = frame_row(&state->rows, order->rows[at]);
        end = frame_group_end(&state->rows, order, at);
        if (first[NAME].t == RS_STR_NONE)
            continue;
        struct sum sum = {.name = first[NAME].t,
                          .q1 = first[Q1].r,
                          .q3 = first[Q3].r,
                          .min = first[MIN].r,
                          .max = first[MAX].r,
                          .from = at,
                          .end = end,
                          .order = count};
        for (size_t i = at; i < end; i++) {
            const union frame_cell *row = frame_row(&state->rows, order->rows[i]);
            sum.total += row[TOTAL].i;
            sum.count += row[COUNT].i;
            sum.q1 = row[Q1].r < sum.q1 ? row[Q1].r : sum.q1;
            sum.q3 = row[Q3].r > sum.q3 ? row[Q3].r : sum.q3;
            sum.min = row[MIN].r < sum.min ? row[MIN].r : sum.min;
            sum.max = row[MAX].r > sum.max ? row[MAX].r : sum.max;
        }
        if (scratch_gather(&state->scratch, &state->rows, order, at, end, MEDIAN) != RS_OK)
            return RS_NOMEM;
        stats_sort(state->scratch.values, state->scratch.count);
        sum.median = stats_median_sorted(state->scratch.values, state->scratch.count);
        sum.std = pooled(&state->rows, order, &sum);
        sums[count++] = sum;
    }
    *count_p = count;
    return RS_OK;
}

static void print_ranks(struct rs_buf *text, const struct frame *rows,
                        const struct frame_order *order, const struct sum *sum, size_t column,
                        double value)
{
    bool is_first = true;
    rs_buf_reset(text);
    for (size_t i = sum->from; i < sum->end; i++) {
        const union frame_cell *row = frame_row(rows, order->rows[i]);
        if (row[column].r < value || row[column].r > value)
            continue;
        rs_buf_printf(text, "%s%" PRId64, is_first ? "" : ", ", row[RANK].i);
        is_first = false;
    }
}

static enum rs_status write_sums(struct run *run, const struct frame_order *order,
                                 const struct sum *sums, size_t count, struct rs_err *err)
{
    static const struct column columns[] = {
        {"name", 't', NULL},       {"timeRatio", 'r', NULL}, {"totalTimeNs", 'i', NULL},
        {"totalCount", 'i', NULL}, {"averageNs", 'r', NULL}, {"Q1Ns", 'r', NULL},
        {"medNs", 'r', NULL},      {"Q3Ns", 'r', NULL},      {"minNs", 'r', NULL},
        {"maxNs", 'r', NULL},      {"stdev", 'r', NULL},     {"minRank", 't', NULL},
        {"maxRank", 't', NULL}};
    static const struct table table = {
        "CannApiSum", "all_stats.csv", columns, COLUMN_COUNT(columns), 1, false};
    const struct frame_state *state = run->state;
    struct rs_buf least = {0}, most = {0};
    int64_t total = 0;
    for (size_t i = 0; i < count; i++)
        total += sums[i].total;
    enum rs_status status = table_begin(run, &table, err);
    for (size_t i = 0; i < count && status == RS_OK; i++) {
        const struct sum *sum = &sums[i];
        print_ranks(&least, &state->rows, order, sum, MIN, sum->min);
        print_ranks(&most, &state->rows, order, sum, MAX, sum->max);
        const double share = total ? (double)sum->total / (double)total * 100.0 : 0;
        const struct cell cells[] = {
            cell_text(frame_text(&state->rows, sum->name)),
            cell_real(stats_round(share, 1)),
            cell_int(sum->total),
            cell_int(sum->count),
            cell_real(stats_round((double)sum->total / (double)sum->count, 1)),
            cell_real(stats_round(sum->q1, 1)),
            cell_real(stats_round(sum->median, 1)),
            cell_real(stats_round(sum->q3, 1)),
            cell_real(stats_round(sum->min, 1)),
            cell_real(stats_round(sum->max, 1)),
            cell_real(stats_round(sum->std, 1)),
            cell_text(rs_buf_text(&least)),
            cell_text(rs_buf_text(&most))};
        status = table_row(run, cells, err);
    }
    rs_buf_fini(&least);
    rs_buf_fini(&most);
    return status == RS_OK ? table_end(run, err) : status;
}

static enum rs_status finish(struct run *run, struct rs_err *err)
{
    struct frame_state *state = run->state;
    struct frame_order order = {0};
    size_t count = 0;
    enum rs_status status = write_ranks(run, err);
    if (status != RS_OK)
        return status;
    struct sum *sums = rs_mem_calloc(state->rows.count + 1, sizeof *sums);
    status = sums ? frame_order(&state->rows, (char[]){NAME + 1, 0}, &order) : RS_NOMEM;
    if (status == RS_OK)
        status = sum_names(state, &order, sums, &count);
    if (status == RS_OK) {
        qsort(sums, count, sizeof *sums, by_total);
        status = write_sums(run, &order, sums, count, err);
    } else {
        (void)rs_err_set(err, status, "no memory to sum calls");
    }
    rs_mem_free(sums);
    frame_order_fini(&order);
    return status;
}

const struct recipe recipe_cann_api_sum = {
    .info = {"cann_api_sum", "time in CANN's host calls by name", "CannApiSumRank, CannApiSum"},
    .folder = "CannApiSum",
    .needs = NEED_PROFILER,
    .state_bytes = sizeof(struct frame_state),
    .kinds = KINDS,
    FRAME_RECIPE,
    .map = map,
    .finish = finish,
};
