/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work of which rows were lost: how long it would be with all of them.
 *
 *     rank 0   [k][k][k][k]      4 kernels at this place, in all steps
 *     rank 1   [k][k]   [k]      3: one was lost, and its time is the gap. Taken as 4/3 as long as its rows, no longer than from the first
 *                                to the last
 *
 * How many rows there should be at a place of the program: what a rank has there in all steps, where it never varies (ranks may run more
 * kernels than others by design); else what one does that never varies; else the most that anybody ever has.
 *
 * Lost rows are mostly not of average length. By how much what its ranks lack differs is how far what is made up may be off: `lost_doubt`.
 */
#include "aggregator/analysis/diagnose/build.h"
#include "common/base/mem.h"

#include <math.h>

/* So many steps with equally many rows are no chance. */
enum { STEADY_STEPS = 3 };

struct rows {
    struct builder *builder;
    uint32_t class_id;
    size_t n, steps, places;
    uint32_t *members; /* [n] workers */
    double *counts;    /* [n][steps][places] */
    double *whole;     /* [n][places] */
    double *
        lacking; /* [n] logarithm of what it should have over what it has, each with the work as weight */
    double *weight; /* [n] */
};

static bool has_place(const struct program *program, const struct line *line)
{
    return line->what == LINE_SPAN && !line->on_host && !line->is_astray &&
           program->step_signatures[line->step] == program->signature;
}

static size_t place_of(const struct rows *rows, const struct line *line)
{
    return line->slot * rows->builder->most_lanes + line->lane;
}

static double *count_at(const struct rows *rows, size_t m, size_t k, size_t p)
{
    return &rows->counts[(m * rows->steps + k) * rows->places + p];
}

static const struct program *program_of(const struct rows *rows, size_t m)
{
    return &rows->builder->programs[rows->members[m]];
}

static void count_rows(const struct rows *rows)
{
    for (size_t m = 0; m < rows->n; m++) {
        const struct program *program = program_of(rows, m);
        const struct rs_summary *summary = rows->builder->analysis->summaries[program->summary];
        for (size_t i = 0; i < program->count; i++) {
            const struct line *line = &program->lines[i];
            if (has_place(program, line)) {
                *count_at(rows, m, line->step, place_of(rows, line)) +=
                    (double)summary->spans[line->index].count;
            }
        }
    }
}

/* As many as the rank has at that place in all steps; 0: they vary, or too few are known. */
static double steady_count(const struct rows *rows, size_t m, size_t p)
{
    double least = (double)INFINITY, most = 0, known = 0;
    for (size_t k = 0; k < rows->steps; k++) {
        const double count = *count_at(rows, m, k, p);
        if (count > 0) {
            least = fmin(least, count);
            most = fmax(most, count);
            known += 1;
        }
    }
    return known >= STEADY_STEPS && least >= most ? most : 0;
}

static void find_whole(const struct rows *rows)
{
    for (size_t p = 0; p < rows->places; p++) {
        double steady = 0, most = 0;
        for (size_t m = 0; m < rows->n; m++) {
            rows->whole[m * rows->places + p] = steady_count(rows, m, p);
            steady = fmax(steady, rows->whole[m * rows->places + p]);
            for (size_t k = 0; k < rows->steps; k++) {
                most = fmax(most, *count_at(rows, m, k, p));
            }
        }
        for (size_t m = 0; m < rows->n; m++) {
            double *whole = &rows->whole[m * rows->places + p];
            *whole = *whole > 0 ? *whole : steady > 0 ? steady : most;
        }
    }
}

static void mend_lines(const struct rows *rows, size_t m)
{
    const struct program *program = program_of(rows, m);
    for (size_t i = 0; i < program->count; i++) {
        struct line *line = &program->lines[i];
        if (!has_place(program, line)) {
            line->lacks_rows = line->what == LINE_SPAN && !line->on_host;
            continue;
        }
        const size_t p = place_of(rows, line);
        const double count = *count_at(rows, m, line->step, p);
        const double factor = count > 0 ? rows->whole[m * rows->places + p] / count : 1;
        const double work = (double)line->work * factor;
        rows->lacking[m] += factor > 1 ? work * log(factor) : 0;
        rows->weight[m] += work;
        if (factor > 1) {
            const rs_dur length = line->end - line->start;
            line->lacks_rows = true;
            line->work = work < (double)length ? (rs_dur)llround(work) : length;
        }
    }
}

/* Of who has less than this part of the work that the others have, too little is known to compare it. */
static const double weight_least = 0.3;

/* Root mean square of what its ranks lack more or less than they do on average. */
static double doubt_of(const struct rows *rows)
{
    double sum = 0, squares = 0, n = 0, most = 0;
    for (size_t m = 0; m < rows->n; m++) {
        most = fmax(most, rows->weight[m]);
    }
    for (size_t m = 0; m < rows->n; m++) {
        if (rows->weight[m] > weight_least * most) {
            const double lacking = rows->lacking[m] / rows->weight[m];
            sum += lacking;
            squares += lacking * lacking;
            n += 1;
        }
    }
    return n > 1 ? sqrt(fmax(0, squares - sum * sum / n) / (n - 1)) : 0;
}

static enum rs_status mend_class(struct rows *rows)
{
    struct builder *builder = rows->builder;
    size_t slots = 0;
    rows->n = 0;
    for (uint32_t w = 0; w < builder->model->worker_count; w++) {
        const struct program *program = &builder->programs[w];
        if (builder->model->workers[w].class_id != rows->class_id) {
            continue;
        }
        rows->members[rows->n++] = w;
        for (size_t i = 0; i < program->count; i++) {
            slots = program->lines[i].slot >= slots ? program->lines[i].slot + 1U : slots;
        }
    }
    rows->places = slots * builder->most_lanes;
    rows->counts = rs_mem_calloc(rows->n * rows->steps * rows->places + 1, sizeof *rows->counts);
    rows->whole = rs_mem_calloc(rows->n * (rows->places + 2) + 1, sizeof *rows->whole);
    enum rs_status status = rows->counts != NULL && rows->whole != NULL ? RS_OK : RS_NOMEM;
    if (status == RS_OK) {
        rows->lacking = rows->whole + rows->n * rows->places;
        rows->weight = rows->lacking + rows->n;
        count_rows(rows);
        find_whole(rows);
        for (size_t m = 0; m < rows->n; m++) {
            mend_lines(rows, m);
        }
        builder->model->lost_doubt = fmax(builder->model->lost_doubt, doubt_of(rows));
    }
    rs_mem_free(rows->counts);
    rs_mem_free(rows->whole);
    return status;
}

enum rs_status lost_mend_work(struct builder *builder)
{
    struct rows rows = {.builder = builder, .steps = builder->model->step_count};
    if (!builder->model->has_lost_rows) {
        return RS_OK;
    }
    rows.members = rs_mem_calloc(builder->model->worker_count + 1, sizeof *rows.members);
    enum rs_status status = rows.members != NULL ? RS_OK : RS_NOMEM;
    for (uint32_t c = 0; status == RS_OK && c < builder->model->class_count; c++) {
        rows.class_id = c;
        status = mend_class(&rows);
    }
    rs_mem_free(rows.members);
    return status;
}
