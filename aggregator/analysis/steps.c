/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which steps count for a mean, and the mean.
 *
 * A profiler that is switched on and off inside a running program does that within a step: the first step that is
 * recorded and the last one hold the program up. They stay in every table, are said to be inflated, and stay out of
 * the means of a rank, as long as it has a step between them.
 */
#include "aggregator/analysis/analysis_priv.h"
#include "common/base/mem.h"

#include <stdlib.h>

/* Step numbers of a rank are in time order, one after the other for each device. */
static void find_edges(const struct rs_summary *summary, struct rs_job_rank *rank)
{
    const size_t count = summary->step_count;
    rank->has_edges = count > 0;
    rank->edge_first = count > 0 ? summary->steps[0].step : 0;
    rank->edge_last = count > 0 ? summary->steps[count - 1].step : 0;
    rank->has_clean_steps = false;
    for (size_t i = 0; i < count && !rank->has_clean_steps; i++) {
        const struct rs_step_row *row = &summary->steps[i];
        rank->has_clean_steps =
            !row->is_partial && row->step != rank->edge_first && row->step != rank->edge_last;
    }
}

bool rs_analysis_is_inflated(const struct rs_analysis *analysis, size_t summary_index,
                             size_t step_index)
{
    const struct rs_job_rank *rank = &analysis->ranks[summary_index];
    const int64_t step = analysis->summaries[summary_index]->steps[step_index].step;
    return rank->has_edges && (step == rank->edge_first || step == rank->edge_last);
}

bool rs_analysis_is_in_means(const struct rs_analysis *analysis, size_t summary_index,
                             size_t step_index)
{
    return !analysis->summaries[summary_index]->steps[step_index].is_partial &&
           !(analysis->ranks[summary_index].has_clean_steps &&
             rs_analysis_is_inflated(analysis, summary_index, step_index));
}

static int compare_numbers(const void *left, const void *right)
{
    const int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

/* Of the numbers marked, those stay that are complete in this summary. `numbers`: room for its rows. */
static void keep_complete(const struct rs_summary *summary, const struct rs_summary *least,
                          bool *marks, int64_t *numbers)
{
    size_t count = 0;
    for (size_t i = 0; i < summary->step_count; i++) {
        if (!summary->steps[i].is_partial) {
            numbers[count++] = summary->steps[i].step;
        }
    }
    if (count > 1) {
        qsort(numbers, count, sizeof *numbers, compare_numbers);
    }
    for (size_t i = 0; i < least->step_count; i++) {
        marks[i] = marks[i] && count > 0 &&
                   bsearch(&least->steps[i].step, numbers, count, sizeof *numbers,
                           compare_numbers) != NULL;
    }
}

/* How many numbers are complete on all ranks. `least` is who has the fewest rows, `most_rows` how many somebody has. */
static enum rs_status count_complete(const struct rs_analysis *analysis,
                                     const struct rs_summary *least, size_t most_rows,
                                     int64_t *count_p)
{
    bool *marks = rs_mem_calloc(least->step_count + 1, sizeof *marks);
    int64_t *numbers = rs_mem_calloc(most_rows + 1, sizeof *numbers);
    if (marks == NULL || numbers == NULL) {
        rs_mem_free(marks);
        rs_mem_free(numbers);
        return RS_NOMEM;
    }
    int64_t last = INT64_MIN;
    for (size_t i = 0; i < least->step_count; i++) {
        marks[i] = !least->steps[i].is_partial && least->steps[i].step != last;
        last = least->steps[i].step;
    }
    for (size_t s = 0; s < analysis->summary_count; s++) {
        keep_complete(analysis->summaries[s], least, marks, numbers);
    }
    int64_t count = 0;
    for (size_t i = 0; i < least->step_count; i++) {
        count += marks[i];
    }
    rs_mem_free(marks);
    rs_mem_free(numbers);
    *count_p = count;
    return RS_OK;
}

enum rs_status count_steps(struct rs_analysis *out, bool is_triggered)
{
    int64_t total = 0, count = 0;
    const struct rs_summary *least = NULL;
    size_t most_rows = 0;
    for (size_t s = 0; s < out->summary_count; s++) {
        const struct rs_summary *summary = out->summaries[s];
        if (is_triggered)
            find_edges(summary, &out->ranks[s]);
        for (size_t i = 0; i < summary->step_count; i++) {
            if (!rs_analysis_is_in_means(out, s, i))
                continue;
            total = join_sum(total, summary->steps[i].window_end - summary->steps[i].window_start);
            count++;
        }
        if (least == NULL || summary->step_count < least->step_count)
            least = summary;
        most_rows = summary->step_count > most_rows ? summary->step_count : most_rows;
    }
    out->mean_step_ns = count > 0 ? total / count : 0;
    return least == NULL ? RS_OK : count_complete(out, least, most_rows, &out->complete_steps);
}

enum rs_status note_edges(struct join *join)
{
    const struct rs_analysis *out = join->out;
    size_t edged = 0, clean = 0;
    for (size_t s = 0; s < out->summary_count; s++) {
        edged += out->ranks[s].has_edges;
        clean += out->ranks[s].has_edges && out->ranks[s].has_clean_steps;
    }
    if (edged == 0)
        return RS_OK;
    if (clean == edged)
        return join_note(join, "The first and the last recorded step of each rank are inflated by "
                               "switching its profiler on and off: they are not in the means.");
    return join_note(join,
                     "The first and the last recorded step of each rank are inflated by switching "
                     "its profiler on and off; %zu of %zu ranks have no other step, so that theirs "
                     "are in the means: record three steps or more.",
                     edged - clean, edged);
}
