/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps x ranks as a picture (SVG): how long each rank was busy with its own work in each step, against the median of all
 * ranks in that step. A slow rank is a dark line, a bad step a dark column, noise is scattered.
 *
 * Where there are more ranks or steps than the picture has cells, a cell is the worst of those that fall into it.
 */
#include "aggregator/output/report_figure.h"

#include "aggregator/output/report_findings.h"
#include "aggregator/output/report_grid.h"
#include "common/base/mem.h"

#include <inttypes.h>

enum { ROWS_MAX = 64, COLUMNS_MAX = 120, LABELS_MAX = 16, WIDTH = 900, LEFT = 70, CLASSES = 6 };

/* What a colour means: own work up to so many times the median. The last has no end. */
static const double limits[CLASSES - 1] = {0.9, 1.05, 1.15, 1.3, 1.6};
static const char *const meanings[CLASSES] = {
    "less than 0.9 times the median", "0.9 to 1.05", "to 1.15", "to 1.3", "to 1.6", "more"};

/* Own work as a share of the step's median; -1 unknown. RS_NOMEM. */
static enum rs_status find_ratios(const struct grid *grid, double *ratio_p)
{
    rs_dur *medians = rs_mem_calloc(grid->step_count + 1, sizeof *medians);
    const enum rs_status status = medians ? grid_medians(grid, false, medians) : RS_NOMEM;
    for (size_t s = 0; status == RS_OK && s < grid->step_count; s++)
        for (size_t r = 0; r < grid->rank_count; r++) {
            const rs_dur own = grid_own(grid, r, s);
            ratio_p[r * grid->step_count + s] =
                own >= 0 && medians[s] > 0 ? (double)own / (double)medians[s] : -1;
        }
    rs_mem_free(medians);
    return status;
}

static int class_of(double ratio)
{
    int class = 0;
    while (class < CLASSES - 1 && ratio > limits[class])
        class ++;
    return ratio < 0 ? -1 : class;
}

/* How the grid becomes a picture. */
struct picture {
    const struct grid *grid;
    const double *ratio; /* [rank][step] */
    size_t rows, columns;
    double width, height; /* of a cell */
};

/* The worst of the grid's cells that fall into cell (row, column) of the picture. */
static int class_at(const struct picture *picture, size_t row, size_t column)
{
    const struct grid *grid = picture->grid;
    double worst = -1;
    const size_t last_rank = (row + 1) * grid->rank_count / picture->rows;
    const size_t last_step = (column + 1) * grid->step_count / picture->columns;
    for (size_t r = row * grid->rank_count / picture->rows; r < last_rank; r++)
        for (size_t s = column * grid->step_count / picture->columns; s < last_step; s++)
            if (picture->ratio[r * grid->step_count + s] > worst)
                worst = picture->ratio[r * grid->step_count + s];
    return class_of(worst);
}

/* Runs of equal cells in one row, a rectangle each. `is_begun`: the class has its path. */
static void put_runs(const struct picture *picture, size_t row, int class, bool *is_begun,
                     struct rs_buf *html)
{
    for (size_t c = 0; c < picture->columns;) {
        size_t end = c;
        while (end < picture->columns && class_at(picture, row, end) == class)
            end++;
        if (end > c) {
            const double length = (double)(end - c) * picture->width;
            if (!*is_begun)
                rs_buf_printf(html, "<path class=\"h%d\" d=\"", class);
            rs_buf_printf(html, "M%.5g %.5gh%.5gv%.5gh-%.5gz", LEFT + (double)c * picture->width,
                          (double)row * picture->height, length, picture->height, length);
            *is_begun = true;
        }
        c = end > c ? end : c + 1;
    }
}

/* One path a class. */
static void put_cells(const struct picture *picture, struct rs_buf *html)
{
    for (int class = 0; class < CLASSES; class ++) {
        bool is_begun = false;
        for (size_t r = 0; r < picture->rows; r++)
            put_runs(picture, r, class, &is_begun, html);
        rs_buf_string(html, is_begun ? "\"/>\n" : "");
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
    put_cells(&(struct picture){grid, ratio, rows, columns, width, height}, html);
    put_axes(report, grid, rows, columns, height, html);
    rs_buf_string(html, "</svg>\n");
    put_legend(grid, rows, columns, html);
}

enum rs_status report_put_figure(const struct report *report, struct rs_buf *html)
{
    struct grid grid;
    double *ratio = NULL;
    enum rs_status status = grid_init(&grid, report->analysis);
    if (status == RS_OK && grid.rank_count > 1 && grid.step_count) {
        ratio = rs_mem_calloc(grid.rank_count * grid.step_count, sizeof *ratio);
        status = ratio ? find_ratios(&grid, ratio) : RS_NOMEM;
        if (status == RS_OK)
            put_picture(report, &grid, ratio, html);
    }
    rs_mem_free(ratio);
    grid_fini(&grid);
    return status;
}
