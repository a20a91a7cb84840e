/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stages that do the same work, but not equally much of it: by one run of each kernel. A stage with more layers than another runs all kernels of
 * a layer so many times as often; and where rows were lost, counts are lower by what was lost.
 *
 *     runs of        a     b     c     d        stage 1 has 4 layers, stage 0 has 3: most of its counts are 4/3 of the other's,
 *     stage 0      600   300   150     -        and where they are, it is the same work. Of c it runs one more in each step (of a
 *     stage 1      800   400   210    10        size that nobody knows), d it has alone.
 *
 * Counts are so brought to one level first; which names all stages run equally often then is asked as ever (stages_alike.c).
 */
#include "aggregator/analysis/diagnose/stages_priv.h"
#include "common/base/mem.h"

#include <math.h>
#include <stdlib.h>

static int by_class(const void *left, const void *right)
{
    const struct alike_row *a = left, *b = right;
    if (a->class_id != b->class_id) {
        return a->class_id > b->class_id ? 1 : -1;
    }
    return (a->key > b->key) - (a->key < b->key);
}

/* Rows of one class and key become one. */
static size_t join_rows(struct alike_row *rows, size_t count)
{
    size_t kept = 0;
    if (count > 1) {
        qsort(rows, count, sizeof *rows, by_class);
    }
    for (size_t i = 0; i < count; i++) {
        if (kept > 0 && by_class(&rows[kept - 1], &rows[i]) == 0) {
            rows[kept - 1].count += rows[i].count;
            rows[kept - 1].ns += rows[i].ns;
        } else {
            rows[kept++] = rows[i];
        }
    }
    return kept;
}

static size_t class_end(const struct alike_row *rows, size_t count, size_t i)
{
    const uint32_t class_id = rows[i].class_id;
    while (i < count && rows[i].class_id == class_id) {
        i++;
    }
    return i;
}

/* In the middle of the names that both have: runs of the second class [from, end) over those of the first [0, first). NAN: none. */
static double usual_ratio(const struct alike_row *rows, size_t first, size_t from, size_t end,
                          double *scratch)
{
    size_t known = 0;
    for (size_t a = 0, b = from; a < first && b < end;) {
        if (rows[a].key == rows[b].key) {
            scratch[known++] = rows[b++].count / rows[a++].count;
        } else if (rows[a].key < rows[b].key) {
            a++;
        } else {
            b++;
        }
    }
    return diag_median(scratch, known);
}

enum rs_status stages_level_counts(struct alike_row *rows, size_t *count_p)
{
    double *scratch = rs_mem_calloc(*count_p + 1, sizeof *scratch);
    if (scratch == NULL) {
        return RS_NOMEM;
    }
    const size_t count = join_rows(rows, *count_p);
    const size_t first = count > 0 ? class_end(rows, count, 0) : 0;
    for (size_t i = first, end; i < count; i = end) {
        end = class_end(rows, count, i);
        const double ratio = usual_ratio(rows, first, i, end, scratch);
        for (size_t r = i; r < end && ratio > 0; r++) { /* not where it is NAN */
            rows[r].count /= ratio;
        }
    }
    rs_mem_free(scratch);
    *count_p = count;
    return RS_OK;
}

/* runs[kind]: of all workers together. */
static void count_runs(const struct diag_model *model, const struct alike *alike, double *runs)
{
    for (size_t i = 0; i < model->name_count; i++) {
        const struct diag_name *name = &model->names[i];
        const size_t kind = alike_index(alike, name->key);
        if (kind != SIZE_MAX && alike->is_member[model->workers[name->worker].class_id]) {
            runs[kind] += name->count;
        }
    }
}

enum rs_status stages_level_sums(const struct diag_model *model, const struct alike *alike,
                                 double *means, double *fastest)
{
    double *runs = rs_mem_calloc(alike->count + 1, sizeof *runs);
    size_t *seen = rs_mem_calloc(model->worker_count + 1, sizeof *seen);
    if (runs == NULL || seen == NULL) {
        rs_mem_free(runs);
        rs_mem_free(seen);
        return RS_NOMEM;
    }
    count_runs(model, alike, runs);
    for (size_t w = 0; w < model->worker_count; w++) {
        means[w] = fastest[w] = 0;
    }
    for (size_t i = 0; i < model->name_count; i++) {
        const struct diag_name *name = &model->names[i];
        const size_t kind = alike_index(alike, name->key);
        if (kind != SIZE_MAX && alike->is_member[model->workers[name->worker].class_id]) {
            means[name->worker] += runs[kind] * name->ns / name->count;
            fastest[name->worker] += runs[kind] * name->fastest_ns;
            seen[name->worker]++;
        }
    }
    for (size_t w = 0; w < model->worker_count; w++) {
        const bool is_known =
            alike->count > 0 && seen[w] == alike->count && means[w] > 0 && fastest[w] > 0;
        means[w] = is_known ? log(means[w]) : (double)NAN;
        fastest[w] = is_known ? log(fastest[w]) : (double)NAN;
    }
    rs_mem_free(runs);
    rs_mem_free(seen);
    return RS_OK;
}
