/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Are the vendor's own step figures those of the recording?
 *
 * Official tables show the vendor's figures of a rank that has them; nothing of ours is made from them. Where the two
 * differ by more than 1 us and 0.1 %, somebody who compares tables has to know: one note per rank, with both values
 * of the figure that differs most and how many others do. Free and Stage of the text algorithm are other figures by
 * definition and are not compared; nor is a rank whose recording is partial, which is said already.
 */
#include "aggregator/analysis/analysis_priv.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { PS_PER_NS = 1000, FREE = 4, STAGE = 5 };
static const int64_t least_ps = 1000000; /* 1 us */

static const char *const figure_names[RS_VENDOR_STEP_FIELDS] = {
    "Computing",  "Communication(Not Overlapped)",
    "Overlapped", "Communication",
    "Free",       "Stage",
    "Bubble",     "Communication(Not Overlapped and Exclude Receive)",
    "Preparing"};

struct difference {
    int64_t by; /* ps; 0: none yet */
    int64_t vendor_ps, ours_ns, step;
    int figure;
    size_t count;
};

/* The one row of this step; NULL: none, or several devices. */
static const struct rs_step_row *row_of(const struct rs_summary *summary, int64_t step)
{
    const struct rs_step_row *found = NULL;
    for (size_t i = 0; i < summary->step_count; i++) {
        if (summary->steps[i].step != step)
            continue;
        if (found)
            return NULL;
        found = &summary->steps[i];
    }
    return found;
}

static void compare(const struct rs_provenance *provenance, const struct rs_vendor_step *vendor,
                    const struct rs_step_row *row, struct difference *found)
{
    const int64_t ours[RS_VENDOR_STEP_FIELDS] = {
        row->computing,  row->communication_not_overlapped,
        row->overlapped, row->communication,
        row->free,       row->stage,
        row->bubble,     row->communication_not_overlapped_exclude_receive,
        row->preparing};
    for (int i = 0; i < RS_VENDOR_STEP_FIELDS; i++) {
        int64_t ours_ps, by;
        if (vendor->ps[i] == RS_VENDOR_UNKNOWN ||
            (provenance->has_text_steps && (i == FREE || i == STAGE)) ||
            __builtin_mul_overflow(ours[i], PS_PER_NS, &ours_ps) ||
            __builtin_sub_overflow(vendor->ps[i], ours_ps, &by) || by == INT64_MIN)
            continue;
        by = llabs(by);
        if (by <= least_ps || by <= llabs(vendor->ps[i]) / 1000)
            continue;
        found->count++;
        if (by > found->by)
            *found = (struct difference){.by = by,
                                         .vendor_ps = vendor->ps[i],
                                         .ours_ns = ours[i],
                                         .step = row->step,
                                         .figure = i,
                                         .count = found->count};
    }
}

static enum rs_status note_rank(struct join *join, const struct rs_summary *summary)
{
    const struct rs_provenance *provenance = summary->trace.vendor;
    struct difference found = {0};
    for (size_t i = 0; i < provenance->step_count; i++) {
        const char *text = rs_strtab_text(&summary->strings, provenance->steps[i].step);
        char *end;
        const int64_t number = strtoll(text, &end, 10);
        const struct rs_step_row *row = *text && !*end ? row_of(summary, number) : NULL;
        if (row && row->has_work)
            compare(provenance, &provenance->steps[i], row, &found);
    }
    if (!found.count)
        return RS_OK;
    char more[64] = "";
    if (found.count > 1)
        (void)snprintf(more, sizeof more, ", and %zu more figures", found.count - 1);
    return join_note(join,
                     "Rank %" PRId32 ": its profiler says %s of step %" PRId64
                     " was %.3f us, its recording gives %.3f us%s. Official tables show the "
                     "profiler's figures.",
                     summary->trace.rank, figure_names[found.figure], found.step,
                     (double)found.vendor_ps / 1e6, (double)found.ours_ns / 1e3, more);
}

enum rs_status vendor_notes(struct join *join)
{
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < join->out->summary_count && status == RS_OK; i++)
        if (join->out->summaries[i]->trace.vendor && !join->out->summaries[i]->trace.is_partial)
            status = note_rank(join, join->out->summaries[i]);
    return status;
}
