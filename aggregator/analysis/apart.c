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

/* What a rank recorded, on the reference's clock; nothing where that is not known. */
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
           (own->start >= most->end ? rs_stretch_between(most->end, own->start)
                                    : rs_stretch_between(own->end, most->start)) > bound;
}

static void name_rank(struct rs_buf *text, const struct rs_analysis *analysis,
                      const struct rs_stretch *windows, size_t s, size_t common)
{
    const rs_dur apart = rs_stretch_between(windows[common].start, windows[s].start);
    const int64_t tenths = rs_stretch_tenths(apart);
    rs_buf_printf(text, "%srank %d (%" PRId64 ".%" PRId64 " s %s)", text->length ? ", " : "",
                  (int)analysis->ranks[s].rank, tenths / 10, tenths % 10,
                  apart < 0 ? "earlier" : "later");
}

/* `count` of `known` ranks are apart from the one that shares its time with most. */
static enum rs_status say(struct join *join, const char *names, size_t count, size_t known,
                          int32_t common)
{
    if (count * 2 < known) {
        return join_note(join,
                         "Not recorded at the time of most ranks: %s. What they did then cannot be "
                         "matched with the others.",
                         names);
    }
    return join_note(
        join,
        "Not recorded at the time of rank %d: %s. What they did then cannot be matched "
        "with it.",
        (int)common, names);
}

enum rs_status note_apart(struct join *join)
{
    const struct rs_analysis *out = join->out;
    struct rs_stretch *windows = rs_mem_calloc(out->summary_count + 1, sizeof *windows);
    struct rs_buf names = {0};
    size_t count = 0, known = 0, common = SIZE_MAX;
    if (windows == NULL) {
        return RS_NOMEM;
    }
    for (size_t s = 0; s < out->summary_count; s++) {
        windows[s] = window_of(out, s);
        known += rs_stretch_is_known(&windows[s]);
    }
    enum rs_status status = rs_stretch_most_shared(windows, out->summary_count, &common);
    for (size_t s = 0; s < out->summary_count && status == RS_OK; s++) {
        if (is_apart(out, windows, s, common) && count++ < NAMED_MAX) {
            name_rank(&names, out, windows, s, common);
        }
    }
    if (count > NAMED_MAX) {
        rs_buf_printf(&names, " and %zu more", count - NAMED_MAX);
    }
    rs_mem_free(windows);
    if (count > 0) {
        status = names.failed
                     ? RS_NOMEM
                     : say(join, rs_buf_text(&names), count, known, out->ranks[common].rank);
    }
    rs_buf_fini(&names);
    return status == RS_NOTFOUND ? RS_OK : status;
}
