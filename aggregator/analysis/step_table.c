/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of the table step: of every step row of every rank one item, put in the order of (step, rank), then a run of equal steps becomes a
 * row. A rank with several devices has it complete where none of its rows is partial.
 */
#include "aggregator/analysis/analysis_priv.h"
#include "aggregator/analysis/rows_priv.h"
#include "common/base/mem.h"

#include <stdlib.h>

struct item {
    int64_t step;
    uint32_t summary, index;
};

static int by_step(const void *a_, const void *b_)
{
    const struct item *a = a_, *b = b_;
    if (a->step != b->step)
        return a->step < b->step ? -1 : 1;
    if (a->summary != b->summary)
        return a->summary < b->summary ? -1 : 1;
    return (a->index > b->index) - (a->index < b->index);
}

/* A time that is known is smaller, or larger, than none. */
static void widen(struct rs_row_step *row, rs_ns start, rs_ns end)
{
    if (row->first_ns == RS_NULL || start < row->first_ns)
        row->first_ns = start;
    if (row->last_ns == RS_NULL || end > row->last_ns)
        row->last_ns = end;
}

/* One rank's rows of the step; `sum_p` and `count_p`: lengths of windows. */
static void add_rank(const struct rs_analysis *analysis, const struct item *items, size_t count,
                     struct rs_row_step *row, int64_t *sum_p, int64_t *count_p)
{
    const size_t s = items[0].summary;
    const struct rs_summary *summary = analysis->summaries[s];
    bool is_complete = true, is_in_means = false;
    for (size_t i = 0; i < count; i++) {
        const struct rs_step_row *step = &summary->steps[items[i].index];
        const rs_dur window = step->window_end - step->window_start;
        is_complete = is_complete && !step->is_partial;
        is_in_means = is_in_means || rs_analysis_is_in_means(analysis, s, items[i].index);
        if (summary->trace.has_time_base)
            widen(row, rs_analysis_time(analysis, s, step->window_start),
                  rs_analysis_time(analysis, s, step->window_end));
        *sum_p = join_sum(*sum_p, window);
        (*count_p)++;
        if (row->longest_rank == RS_NULL || window > row->longest_ns) {
            row->longest_ns = window;
            row->longest_rank = summary->trace.rank;
        }
    }
    row->ranks_seen++;
    row->ranks_complete += is_complete;
    row->ranks_in_means += is_in_means;
}

static enum rs_status put_step(struct rows_filler *filler, const struct item *items, size_t count)
{
    const struct rs_analysis *analysis = filler->analysis;
    struct rs_row_step *row = rows_add(filler);
    if (!row)
        return rows_failed(filler);
    int64_t sum = 0, windows = 0;
    row->capture = filler->capture;
    row->step = items[0].step;
    row->ranks_seen = row->ranks_complete = row->ranks_in_means = 0;
    row->ranks_expected = analysis->world_size > 0 ? analysis->world_size : RS_NULL;
    for (size_t i = 0, end; i < count; i = end) {
        end = i + 1;
        while (end < count && items[end].summary == items[i].summary)
            end++;
        add_rank(analysis, items + i, end - i, row, &sum, &windows);
    }
    row->mean_ns = sum / windows;
    row->is_complete = row->ranks_complete == (int64_t)analysis->summary_count;
    return RS_OK;
}

enum rs_status rows_put_job_steps(struct rows_filler *filler)
{
    const struct rs_analysis *analysis = filler->analysis;
    size_t total = 0, count = 0;
    for (size_t s = 0; s < analysis->summary_count; s++)
        total += analysis->summaries[s]->step_count;
    struct item *items = rs_mem_calloc(total + 1, sizeof *items);
    if (!items)
        return rs_err_set(filler->err, RS_NOMEM, "no memory for rows of step");
    for (size_t s = 0; s < analysis->summary_count; s++)
        for (size_t k = 0; k < analysis->summaries[s]->step_count; k++)
            items[count++] = (struct item){.step = analysis->summaries[s]->steps[k].step,
                                           .summary = (uint32_t)s,
                                           .index = (uint32_t)k};
    qsort(items, count, sizeof *items, by_step);
    rows_of(filler, &rs_table_step);
    enum rs_status status = RS_OK;
    for (size_t i = 0, end; i < count && status == RS_OK; i = end) {
        end = i + 1;
        while (end < count && items[end].step == items[i].step)
            end++;
        status = put_step(filler, items + i, end - i);
    }
    rs_mem_free(items);
    return status == RS_OK ? rows_flush(filler) : status;
}
