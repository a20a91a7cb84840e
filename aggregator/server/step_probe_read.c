/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a probe tells of its ranks: from their summaries, so that nothing has to be joined.
 */
#include "aggregator/analysis/capture_data.h"
#include "aggregator/server/step_probe.h"
#include "common/base/mem.h"
#include "common/reduce/summary.h"

/* Whole steps of its first device that did something: a step that was cut off says nothing of its length. */
static bool counts(const struct rs_step_row *step, int32_t device)
{
    const rs_dur window = step->window_end - step->window_start;
    return !step->is_partial && step->has_work && step->device == device && window > 0 &&
           step->window_exposed >= 0 && step->window_exposed <= window;
}

static enum rs_status take_summary(const struct rs_summary *summary, uint32_t rank,
                                   struct rs_probe_figure *figures, size_t *count_p)
{
    const size_t all = summary->step_count;
    rs_dur *lengths = all ? rs_mem_calloc(2 * all, sizeof *lengths) : NULL;
    size_t count = 0;
    if (all && !lengths)
        return RS_NOMEM;
    for (size_t i = 0; i < all; i++) {
        const struct rs_step_row *step = &summary->steps[i];
        if (!counts(step, summary->steps[0].device))
            continue;
        lengths[count] = step->window_end - step->window_start;
        lengths[all + count] = lengths[count] - step->window_exposed;
        count++;
    }
    *count_p +=
        lengths && rs_probe_figure_of(rank, lengths, lengths + all, count, &figures[*count_p]);
    rs_mem_free(lengths);
    return RS_OK;
}

static bool is_wanted(const uint32_t *ranks, size_t rank_count,
                      const struct rs_probe_figure *figures, size_t count, uint32_t rank)
{
    bool is_there = false;
    for (size_t i = 0; i < rank_count; i++)
        is_there = is_there || ranks[i] == rank;
    for (size_t i = 0; i < count; i++)
        if (figures[i].rank == rank)
            return false; /* another process of that rank was read */
    return is_there;
}

enum rs_status step_probe_figures(const char *dir, const uint32_t *ranks, size_t rank_count,
                                  struct rs_probe_figure *figures, size_t *count_p,
                                  struct rs_err *err)
{
    struct rs_capture_data *data = NULL;
    *count_p = 0;
    enum rs_status status = rs_capture_data_open(dir, &data, err);
    const size_t all = status == RS_OK ? rs_capture_data_count(data) : 0;
    for (size_t i = 0; i < all && status == RS_OK && *count_p < rank_count; i++) {
        struct rs_summary summary;
        const uint32_t rank = rs_capture_data_stream(data, i)->rank;
        if (!is_wanted(ranks, rank_count, figures, *count_p, rank) ||
            rs_capture_data_summary(data, i, false, &summary, NULL, NULL) != RS_OK)
            continue;
        status = take_summary(&summary, rank, figures, count_p);
        rs_summary_fini(&summary);
    }
    rs_capture_data_close(&data);
    return status == RS_NOMEM ? rs_err_set(err, status, "no memory to read a probe") : status;
}
