/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/output/report_grid.h"

#include "common/base/mem.h"

#include <stdlib.h>

void grid_fini(struct grid *grid)
{
    rs_mem_free(grid->steps);
    rs_mem_free(grid->ranks);
    rs_mem_free(grid->rows);
}

static int by_number(const void *left, const void *right)
{
    const int64_t a = *(const int64_t *)left;
    const int64_t b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

/* The distinct steps and the ranks that have one. */
static enum rs_status find_axes(const struct rs_analysis *analysis, struct grid *grid)
{
    size_t capacity = 0;
    grid->ranks = rs_mem_calloc(analysis->summary_count + 1, sizeof *grid->ranks);
    if (!grid->ranks)
        return RS_NOMEM;
    for (size_t i = 0; i < analysis->summary_count; i++) {
        const struct rs_summary *summary = analysis->summaries[i];
        bool has_step = false;
        for (size_t k = 0; k < summary->step_count; k++) {
            if (!rs_analysis_is_in_means(analysis, i, k))
                continue;
            if (rs_mem_grow((void **)&grid->steps, &capacity, grid->step_count + 1,
                            sizeof *grid->steps) != RS_OK)
                return RS_NOMEM;
            grid->steps[grid->step_count++] = summary->steps[k].step;
            has_step = true;
        }
        if (has_step)
            grid->ranks[grid->rank_count++] = summary->trace.rank;
    }
    if (grid->step_count)
        qsort(grid->steps, grid->step_count, sizeof *grid->steps, by_number);
    size_t kept = 0;
    for (size_t i = 0; i < grid->step_count; i++)
        if (!kept || grid->steps[kept - 1] != grid->steps[i])
            grid->steps[kept++] = grid->steps[i];
    grid->step_count = kept;
    return RS_OK;
}

static rs_dur own_of(const struct rs_step_row *step)
{
    return step->window_computing + step->window_memory + step->idle_head + step->idle_inside +
           step->idle_tail;
}

rs_dur grid_own(const struct grid *grid, size_t rank, size_t step)
{
    const struct rs_step_row *row = grid->rows[rank * grid->step_count + step];
    return row ? own_of(row) : -1;
}

static enum rs_status fill(const struct rs_analysis *analysis, struct grid *grid)
{
    size_t row = 0;
    grid->rows = rs_mem_calloc(grid->rank_count * grid->step_count + 1, sizeof(void *));
    if (!grid->rows)
        return RS_NOMEM;
    for (size_t i = 0; i < analysis->summary_count; i++) {
        const struct rs_summary *summary = analysis->summaries[i];
        if (row >= grid->rank_count || summary->trace.rank != grid->ranks[row])
            continue;
        for (size_t k = 0; k < summary->step_count; k++) {
            const struct rs_step_row *step = &summary->steps[k];
            if (!rs_analysis_is_in_means(analysis, i, k))
                continue;
            const int64_t *found =
                bsearch(&step->step, grid->steps, grid->step_count, sizeof *grid->steps, by_number);
            const struct rs_step_row **cell =
                &grid->rows[row * grid->step_count + (size_t)(found - grid->steps)];
            if (!*cell || own_of(step) > own_of(*cell))
                *cell = step;
        }
        row++;
    }
    return RS_OK;
}

enum rs_status grid_init(struct grid *grid_p, const struct rs_analysis *analysis)
{
    *grid_p = (struct grid){.steps = NULL};
    const enum rs_status status = find_axes(analysis, grid_p);
    return status == RS_OK ? fill(analysis, grid_p) : status;
}

enum rs_status grid_medians(const struct grid *grid, bool is_upper, rs_dur *medians_p)
{
    int64_t *column = rs_mem_calloc(grid->rank_count + 1, sizeof *column);
    if (!column)
        return RS_NOMEM;
    for (size_t s = 0; s < grid->step_count; s++) {
        size_t count = 0;
        for (size_t r = 0; r < grid->rank_count; r++)
            if (grid->rows[r * grid->step_count + s])
                column[count++] = grid_own(grid, r, s);
        if (count)
            qsort(column, count, sizeof *column, by_number);
        medians_p[s] = count ? column[is_upper ? count / 2 : (count - 1) / 2] : 0;
    }
    rs_mem_free(column);
    return RS_OK;
}
