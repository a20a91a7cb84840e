/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which steps count for a mean, and the mean.
 *
 * A profiler that is switched on and off inside a running program does that within a step: the first step that is
 * recorded and the last one hold the program up. They stay in every table, are said to be inflated, and stay out of
 * the means of a rank, as long as it has a step between them.
 */
#include "aggregator/analysis/analysis_priv.h"

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

static bool is_complete_on(const struct rs_summary *summary, int64_t step)
{
    for (size_t i = 0; i < summary->step_count; i++)
        if (summary->steps[i].step == step && !summary->steps[i].is_partial)
            return true;
    return false;
}

/* How many numbers are complete on all ranks. */
static int64_t count_complete(const struct rs_analysis *analysis, const struct rs_summary *least)
{
    int64_t count = 0;
    int64_t last = INT64_MIN;
    for (size_t i = 0; i < least->step_count; i++) {
        bool is_complete = !least->steps[i].is_partial && least->steps[i].step != last;
        for (size_t s = 0; s < analysis->summary_count && is_complete; s++)
            is_complete = is_complete_on(analysis->summaries[s], least->steps[i].step);
        count += is_complete;
        last = least->steps[i].step;
    }
    return count;
}

void count_steps(struct rs_analysis *out, bool is_triggered)
{
    int64_t total = 0, count = 0;
    const struct rs_summary *least = NULL;
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
    }
    out->mean_step_ns = count > 0 ? total / count : 0;
    if (least != NULL)
        out->complete_steps = count_complete(out, least);
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
