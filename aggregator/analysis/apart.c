/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that recorded at another time than most: a profiler that was switched on for another multiple of the round-up, or files of
 * different recordings in one folder. Nothing of theirs can be matched with the others', and a reader has to know why.
 */
#include "aggregator/analysis/analysis_priv.h"
#include "common/base/mem.h"
#include "common/base/stretch.h"

#include <inttypes.h>

enum { NAMED_MAX = 8 };

/* What a rank recorded, on the reference's clock; nothing where that is not known against `common`. */
static struct rs_stretch window_of(const struct rs_analysis *analysis, size_t s)
{
    const struct rs_summary *summary = analysis->summaries[s];
    if (!analysis->ranks[s].takes_part || summary->step_count == 0) {
        return (struct rs_stretch){0, 0};
    }
    rs_ns start = RS_NS_MAX, end = RS_NS_MIN;
    for (size_t i = 0; i < summary->step_count; i++) {
        const struct rs_step_row *row = &summary->steps[i];
        start = row->window_start < start ? row->window_start : start;
        end = row->window_end > end ? row->window_end : end;
    }
    return (struct rs_stretch){rs_analysis_time(analysis, s, start),
                               rs_analysis_time(analysis, s, end)};
}

/* Further apart than their clocks may be off. */
static bool is_apart(const struct rs_analysis *analysis, const struct rs_stretch *windows, size_t s,
                     size_t common)
{
    const rs_dur bound = rs_analysis_clock_bound(analysis, s, common);
    const struct rs_stretch *own = &windows[s], *most = &windows[common];
    return bound < RS_NS_MAX && rs_stretch_is_known(own) && !rs_stretch_overlaps(own, most) &&
           (own->start >= most->end ? own->start - most->end : most->start - own->end) > bound;
}

static void name_rank(struct rs_buf *text, const struct rs_analysis *analysis,
                      const struct rs_stretch *windows, size_t s, size_t common)
{
    const rs_dur apart = windows[s].start - windows[common].start;
    const rs_dur size = apart < 0 ? -apart : apart;
    rs_buf_printf(text, "%srank %d (%" PRId64 ".%" PRId64 " s %s)", text->length ? ", " : "",
                  (int)analysis->ranks[s].rank, size / RS_NS_PER_S,
                  size % RS_NS_PER_S / ((int64_t)100 * RS_NS_PER_MS),
                  apart < 0 ? "earlier" : "later");
}

enum rs_status note_apart(struct join *join)
{
    const struct rs_analysis *out = join->out;
    struct rs_stretch *windows = rs_mem_calloc(out->summary_count + 1, sizeof *windows);
    struct rs_buf names = {0};
    size_t count = 0;
    if (windows == NULL) {
        return RS_NOMEM;
    }
    for (size_t s = 0; s < out->summary_count; s++) {
        windows[s] = window_of(out, s);
    }
    const size_t common = rs_stretch_most_shared(windows, out->summary_count);
    for (size_t s = 0; s < out->summary_count && common != SIZE_MAX; s++) {
        if (is_apart(out, windows, s, common) && count++ < NAMED_MAX) {
            name_rank(&names, out, windows, s, common);
        }
    }
    if (count > NAMED_MAX) {
        rs_buf_printf(&names, " and %zu more", count - NAMED_MAX);
    }
    rs_mem_free(windows);
    const enum rs_status status =
        count == 0     ? RS_OK
        : names.failed ? RS_NOMEM
                       : join_note(join,
                                   "Not recorded at the time of most ranks: %s. What they did then "
                                   "cannot be matched with the others.",
                                   rs_buf_text(&names));
    rs_buf_fini(&names);
    return status;
}
