/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps x ranks as a picture (SVG): how long each rank was busy with its own work in each step, against the median of all
 * ranks in that step. A slow rank is a dark line, a bad step a dark column, noise is scattered.
 *
 * Own work is what a step took without exposed communication: ranks in lock step all take equally long, and wait in it for the
 * slowest. Where there are more ranks or steps than the picture has cells, a cell is the worst of those that fall into it.
 */
#include "aggregator/output/report_figure.h"

#include "aggregator/output/report_findings.h"
#include "common/base/mem.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_MAX = 64, COLUMNS_MAX = 120, LABELS_MAX = 16, WIDTH = 900, LEFT = 70, CLASSES = 6 };

/* What a colour means: own work up to so many times the median. The last has no end. */
static const double limits[CLASSES - 1] = {0.9, 1.05, 1.15, 1.3, 1.6};
static const char *const meanings[CLASSES] = {
    "less than 0.9 times the median", "0.9 to 1.05", "to 1.15", "to 1.3", "to 1.6", "more"};

struct grid {
    int64_t *steps; /* numbers, ascending */
    size_t step_count;
    int32_t *ranks; /* ascending */
    size_t rank_count;
    rs_dur *own; /* [rank][step]; -1: not known */
};

static void grid_fini(struct grid *grid)
{
    rs_mem_free(grid->steps);
    rs_mem_free(grid->ranks);
    rs_mem_free(grid->own);
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

/* Of a rank with several devices the one that worked longest counts. */
static enum rs_status fill(const struct rs_analysis *analysis, struct grid *grid)
{
    const size_t count = grid->rank_count * grid->step_count;
    size_t row = 0;
    grid->own = rs_mem_calloc(count + 1, sizeof *grid->own);
    if (!grid->own)
        return RS_NOMEM;
    for (size_t i = 0; i < count; i++)
        grid->own[i] = -1;
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
            rs_dur *cell = &grid->own[row * grid->step_count + (size_t)(found - grid->steps)];
            const rs_dur own = step->window_computing + step->window_memory + step->idle_head +
                               step->idle_inside + step->idle_tail;
            *cell = own > *cell ? own : *cell;
        }
        row++;
    }
    return RS_OK;
}

/* Own work as a share of the step's median becomes a class; -1 unknown. RS_NOMEM. */
static enum rs_status classify(const struct grid *grid, double *ratio_p)
{
    int64_t *column = rs_mem_calloc(grid->rank_count + 1, sizeof *column);
    if (!column)
        return RS_NOMEM;
    for (size_t s = 0; s < grid->step_count; s++) {
        size_t count = 0;
        for (size_t r = 0; r < grid->rank_count; r++)
            if (grid->own[r * grid->step_count + s] >= 0)
                column[count++] = grid->own[r * grid->step_count + s];
        if (count)
            qsort(column, count, sizeof *column, by_number);
        const rs_dur median = count ? column[(count - 1) / 2] : 0;
        for (size_t r = 0; r < grid->rank_count; r++) {
            const rs_dur own = grid->own[r * grid->step_count + s];
            ratio_p[r * grid->step_count + s] =
                own >= 0 && median > 0 ? (double)own / (double)median : -1;
        }
    }
    rs_mem_free(column);
    return RS_OK;
}

static int class_of(double ratio)
{
    int class = 0;
    while (class < CLASSES - 1 && ratio > limits[class])
        class ++;
    return ratio < 0 ? -1 : class;
}

/* The worst of the grid's cells that fall into cell (row, column) of the picture. */
static int class_at(const struct grid *grid, const double *ratio, size_t row, size_t column,
                    size_t rows, size_t columns)
{
    double worst = -1;
    const size_t last_rank = (row + 1) * grid->rank_count / rows;
    const size_t last_step = (column + 1) * grid->step_count / columns;
    for (size_t r = row * grid->rank_count / rows; r < last_rank; r++)
        for (size_t s = column * grid->step_count / columns; s < last_step; s++)
            if (ratio[r * grid->step_count + s] > worst)
                worst = ratio[r * grid->step_count + s];
    return class_of(worst);
}

/* One path a class: runs of equal cells are one rectangle. */
static void put_cells(const struct grid *grid, const double *ratio, size_t rows, size_t columns,
                      double width, double height, struct rs_buf *html)
{
    for (int class = 0; class < CLASSES; class ++) {
        bool has_any = false;
        for (size_t r = 0; r < rows; r++)
            for (size_t c = 0; c < columns;) {
                size_t end = c;
                while (end < columns && class_at(grid, ratio, r, end, rows, columns) == class)
                    end++;
                if (end > c) {
                    if (!has_any)
                        rs_buf_printf(html, "<path class=\"h%d\" d=\"", class);
                    rs_buf_printf(html, "M%.5g %.5gh%.5gv%.5gh-%.5gz", LEFT + (double)c * width,
                                  (double)r * height, (double)(end - c) * width, height,
                                  (double)(end - c) * width);
                    has_any = true;
                }
                c = end > c ? end : c + 1;
            }
        rs_buf_string(html, has_any ? "\"/>\n" : "");
    }
}

static void put_axes(const struct report *report, const struct grid *grid, size_t rows,
                     size_t columns, double height, struct rs_buf *html)
{
    const size_t every = (rows + LABELS_MAX - 1) / LABELS_MAX;
    for (size_t r = 0; r < rows; r++) {
        const size_t first = r * grid->rank_count / rows;
        const size_t last = (r + 1) * grid->rank_count / rows - 1;
        bool is_named = false;
        for (size_t k = first; k <= last; k++)
            is_named = is_named || report_names_rank(report->analysis, grid->ranks[k]);
        if (r % every && !is_named)
            continue;
        rs_buf_printf(html, "<text x=\"%d\" y=\"%.5g\" class=\"axis%s\">%s%" PRId32, LEFT - 6,
                      ((double)r + 0.5) * height + 4, is_named ? " named" : "",
                      rows <= LABELS_MAX ? "rank " : "", grid->ranks[first]);
        if (last > first)
            rs_buf_printf(html, "-%" PRId32, grid->ranks[last]);
        rs_buf_string(html, "</text>\n");
    }
    rs_buf_printf(html,
                  "<text x=\"%d\" y=\"%.5g\" class=\"axis first\">step %" PRId64 "</text>"
                  "<text x=\"%d\" y=\"%.5g\" class=\"axis\">step %" PRId64 "</text>\n",
                  LEFT, (double)rows * height + 16, grid->steps[0], WIDTH,
                  (double)rows * height + 16, grid->steps[grid->step_count - 1]);
    (void)columns;
}

static void put_legend(const struct grid *grid, size_t rows, size_t columns, struct rs_buf *html)
{
    rs_buf_string(html, "<p class=\"legend\">Own work against the median of all ranks in the same "
                        "step:");
    for (int class = 0; class < CLASSES; class ++)
        rs_buf_printf(html, " <span class=\"key h%d\"></span>%s", class, meanings[class]);
    rs_buf_string(html, ". ");
    if (rows < grid->rank_count || columns < grid->step_count)
        rs_buf_printf(html, "Each cell is the worst of %.3g ranks and %.3g steps. ",
                      (double)grid->rank_count / (double)rows,
                      (double)grid->step_count / (double)columns);
    rs_buf_string(html, "Own work is the step without exposed communication; ranks whose part of "
                        "the work is another differ by design.</p>\n");
}

static void put_picture(const struct report *report, const struct grid *grid, const double *ratio,
                        struct rs_buf *html)
{
    const size_t rows = grid->rank_count < ROWS_MAX ? grid->rank_count : ROWS_MAX;
    const size_t columns = grid->step_count < COLUMNS_MAX ? grid->step_count : COLUMNS_MAX;
    const double width = (double)(WIDTH - LEFT) / (double)columns;
    const double height = rows <= LABELS_MAX ? 20 : 10;
    rs_buf_string(html, "<h2>Steps and ranks</h2>\n");
    rs_buf_printf(
        html,
        "<svg class=\"heat\" role=\"img\" viewBox=\"0 0 %d %.5g\" aria-label=\"Own work of "
        "%zu ranks in %zu steps against the median of each step\">\n",
        WIDTH, (double)rows * height + 22, grid->rank_count, grid->step_count);
    put_cells(grid, ratio, rows, columns, width, height, html);
    put_axes(report, grid, rows, columns, height, html);
    rs_buf_string(html, "</svg>\n");
    put_legend(grid, rows, columns, html);
}

enum rs_status report_put_figure(const struct report *report, struct rs_buf *html)
{
    struct grid grid = {.steps = NULL};
    double *ratio = NULL;
    enum rs_status status = find_axes(report->analysis, &grid);
    if (status == RS_OK)
        status = fill(report->analysis, &grid);
    if (status == RS_OK && grid.rank_count > 1 && grid.step_count) {
        ratio = rs_mem_calloc(grid.rank_count * grid.step_count, sizeof *ratio);
        status = ratio ? classify(&grid, ratio) : RS_NOMEM;
        if (status == RS_OK)
            put_picture(report, &grid, ratio, html);
    }
    rs_mem_free(ratio);
    grid_fini(&grid);
    return status;
}
