/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The report for people. The first lines name the culprit and what it costs; then where step time goes,
 * who caused the waiting, which links are slow; at the end what was seen and what is not known.
 */
#include "aggregator/output/doc.h"
#include "aggregator/output/output_priv.h"
#include "aggregator/output/report.h"
#include "aggregator/output/report_data.h"
#include "aggregator/output/report_figure.h"
#include "aggregator/output/report_findings.h"
#include "aggregator/output/report_script.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS_SHOWN = 16, LINKS_SHOWN = 8, LIST_SHOWN = 12, BAR_WIDTH = 24, RANK_BAR_WIDTH = 20 };

static const char *plural(int64_t count, const char *one, const char *many)
{
    return count == 1 ? one : many;
}

/* A rank that a finding points at stands out in every table. */
static enum doc_style rank_style(const struct report *report, int32_t rank)
{
    return report_names_rank(report->analysis, rank) ? DOC_ALARM : DOC_STRONG;
}

static void put_time(struct doc *doc, rs_dur ns)
{
    char time[UNIT_TEXT_BYTES];
    unit_people_time(time, ns);
    doc_cell(doc, ns ? DOC_PLAIN : DOC_DIM, "%s", ns ? time : "-");
}

/* --- title ---------------------------------------------------------------------------------------- */

static void put_title(struct doc *doc, const struct report *report)
{
    const struct rs_analysis *analysis = report->analysis;
    char ranks[64], step[UNIT_TEXT_BYTES], tail[64] = "";
    if (analysis->world_size >= 0)
        (void)snprintf(ranks, sizeof ranks, "%zu of %" PRId32 " ranks", analysis->summary_count,
                       analysis->world_size);
    else
        (void)snprintf(ranks, sizeof ranks, "%zu %s", analysis->summary_count,
                       plural((int64_t)analysis->summary_count, "rank", "ranks"));
    if (analysis->mean_step_ns > 0) {
        unit_people_time(step, analysis->mean_step_ns);
        (void)snprintf(tail, sizeof tail, " of %s", step);
    }
    doc_title(doc, "Rankscope: %s, %" PRId64 " %s%s, %" PRId64 " %s matched", ranks, report->steps,
              plural(report->steps, "step", "steps"), tail, report->ops_matched,
              plural(report->ops_matched, "operation", "operations"));
}

/* --- where step time goes ------------------------------------------------------------------------- */

static void put_extreme(struct doc *doc, const struct report *report, int part, bool is_most)
{
    const struct report_mean *found = &report->means[0];
    for (size_t i = 1; i < report->mean_count; i++) {
        const rs_dur value = report->means[i].parts[part];
        if (is_most ? value > found->parts[part] : value < found->parts[part])
            found = &report->means[i];
    }
    char time[UNIT_TEXT_BYTES];
    unit_people_time(time, found->parts[part]);
    doc_cell(doc, DOC_PLAIN, "%s", time);
    doc_cell(doc, DOC_DIM, "rank %" PRId32, found->rank);
}

static void put_part(struct doc *doc, const struct report *report, int part)
{
    static const char *const letters[PART_COUNT] = {"C", "X", "M", "I", "I", "I"};
    const struct report_mean *overall = &report->overall;
    char time[UNIT_TEXT_BYTES];
    unit_people_time(time, overall->parts[part]);
    doc_cell(doc, DOC_PLAIN, "%s", report_part_text((enum report_part)part));
    doc_cell(doc, DOC_STRONG, "%s", time);
    doc_cell(doc, DOC_PLAIN, "%.1f %%",
             overall->window > 0 ? 100.0 * (double)overall->parts[part] / (double)overall->window
                                 : 0.0);
    doc_bar(doc, BAR_WIDTH, letters[part], &overall->parts[part], overall->window);
    put_extreme(doc, report, part, false);
    put_extreme(doc, report, part, true);
}

static void put_overall(struct doc *doc, const struct report *report)
{
    int order[PART_COUNT];
    for (int i = 0; i < PART_COUNT; i++) { /* insertion sort, largest first */
        int at = i;
        for (; at > 0 && report->overall.parts[order[at - 1]] < report->overall.parts[i]; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    doc_table_begin(doc);
    doc_column(doc, DOC_LEFT, "");
    doc_column(doc, DOC_RIGHT, "mean");
    doc_column(doc, DOC_RIGHT, "share");
    doc_column(doc, DOC_BAR, "");
    doc_column(doc, DOC_RIGHT, "least");
    doc_column(doc, DOC_LEFT, "");
    doc_column(doc, DOC_RIGHT, "most");
    doc_column(doc, DOC_LEFT, "");
    for (int i = 0; i < PART_COUNT; i++)
        if (report->overall.parts[order[i]] > 0)
            put_part(doc, report, order[i]);
    doc_table_end(doc);
}

/* Time in which a rank did not wait in communication: the straggler has the most. */
static rs_dur own_time(const struct report_mean *mean)
{
    return mean->window - mean->parts[PART_EXPOSED];
}

static void put_rank_row(struct doc *doc, const struct report *report,
                         const struct report_mean *mean, rs_dur longest, bool has_devices)
{
    const enum doc_style style = rank_style(report, mean->rank);
    const rs_dur idle = mean->parts[PART_IDLE_INSIDE] + mean->parts[PART_IDLE_TAIL];
    const rs_dur values[] = {mean->window,
                             mean->parts[PART_COMPUTING],
                             mean->parts[PART_EXPOSED],
                             mean->parts[PART_MEMORY],
                             mean->parts[PART_IDLE_HEAD],
                             idle};
    if (has_devices)
        doc_cell(doc, style, "%" PRId32 ":%" PRId32, mean->rank, mean->device);
    else
        doc_cell(doc, style, "%" PRId32, mean->rank);
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        put_time(doc, values[i]);
    const int64_t pieces[] = {values[1], values[2], values[3], values[4] + idle};
    doc_bar(doc, RANK_BAR_WIDTH, "CXMI", pieces, longest);
}

static bool has_devices(const struct report *report)
{
    for (size_t i = 1; i < report->mean_count; i++)
        if (report->means[i].rank == report->means[i - 1].rank)
            return true;
    return false;
}

static int by_own_time(const void *a_, const void *b_)
{
    const struct report_mean *const *a = a_, *const *b = b_;
    const rs_dur x = own_time(*a), y = own_time(*b);
    if (x != y)
        return x < y ? 1 : -1;
    return (*a > *b) - (*a < *b);
}

static void put_rank_table(struct doc *doc, const struct report *report,
                           const struct report_mean *const *shown, size_t count)
{
    const bool devices = has_devices(report);
    rs_dur longest = 0;
    for (size_t i = 0; i < count; i++)
        longest = shown[i]->window > longest ? shown[i]->window : longest;
    doc_table_begin(doc);
    doc_column(doc, DOC_RIGHT, devices ? "rank:device" : "rank");
    doc_column(doc, DOC_RIGHT, "step");
    doc_column(doc, DOC_RIGHT, "computing");
    doc_column(doc, DOC_RIGHT, "exposed comm");
    doc_column(doc, DOC_RIGHT, "memory");
    doc_column(doc, DOC_RIGHT, "idle head");
    doc_column(doc, DOC_RIGHT, "idle rest");
    doc_column(doc, DOC_BAR, "");
    for (size_t i = 0; i < count; i++)
        put_rank_row(doc, report, shown[i], longest, devices);
    doc_table_end(doc);
}

/* All ranks when they are few, else those with the most time of their own, kept by selection. */
static void put_ranks(struct doc *doc, const struct report *report)
{
    const struct report_mean *shown[RANKS_SHOWN + 1];
    size_t count = 0;
    for (size_t i = 0; i < report->mean_count; i++) {
        shown[count++] = &report->means[i];
        if (report->mean_count <= RANKS_SHOWN)
            continue;
        qsort(shown, count, sizeof(const struct report_mean *), by_own_time);
        count = count > RANKS_SHOWN ? RANKS_SHOWN : count;
    }
    if (report->mean_count > RANKS_SHOWN)
        doc_paragraph(
            doc, DOC_DIM,
            "The %d of %zu with the most time of their own (not in communication); all are "
            "in step_breakdown.csv:",
            RANKS_SHOWN, report->mean_count);
    put_rank_table(doc, report, shown, count);
}

static void put_steps(struct doc *doc, const struct report *report)
{
    char aside[160], window[UNIT_TEXT_BYTES];
    if (!report->mean_count) {
        doc_heading(doc, "Where step time goes", "");
        doc_paragraph(
            doc, DOC_PLAIN,
            "No step is complete in the recording; rank_breakdown.csv has the figures of the "
            "whole capture.");
        return;
    }
    unit_people_time(window, report->overall.window);
    (void)snprintf(aside, sizeof aside, "mean over complete steps: %s, largest part first", window);
    doc_heading(doc, "Where step time goes", aside);
    put_overall(doc, report);
    doc_heading(doc, "Rank by rank", "mean per step");
    put_ranks(doc, report);
}

/* --- links ----------------------------------------------------------------------------------------- */

static void put_links(struct doc *doc, const struct report *report)
{
    if (!report->link_count) {
        doc_heading(doc, "Slowest links", "");
        doc_paragraph(doc, DOC_PLAIN,
                      "Not known: nowhere in the recording do bytes and both ends of "
                      "a transfer stand together.");
        return;
    }
    doc_heading(doc, "Slowest links", "median over messages, 1 GB/s = 10^9 bytes/s");
    doc_table_begin(doc);
    doc_column(doc, DOC_LEFT, "link");
    doc_column(doc, DOC_RIGHT, "bandwidth");
    doc_column(doc, DOC_RIGHT, "moved");
    doc_column(doc, DOC_RIGHT, "messages");
    doc_column(doc, DOC_RIGHT, "busy");
    doc_column(doc, DOC_LEFT, "transport");
    doc_column(doc, DOC_LEFT, "");
    for (size_t i = 0; i < report->link_count && i < LINKS_SHOWN; i++) {
        const struct rs_job_link *link = &report->analysis->links[report->links[i]];
        char text[UNIT_TEXT_BYTES];
        doc_cell(doc, DOC_STRONG, "%" PRId32 " -> %" PRId32, link->src, link->dst);
        unit_people_rate(text, link->median_bytes_per_s);
        doc_cell(doc, DOC_PLAIN, "%s", text);
        unit_people_bytes(text, link->bytes);
        doc_cell(doc, DOC_PLAIN, "%s", text);
        doc_cell(doc, DOC_PLAIN, "%" PRId64, link->count);
        unit_people_time(text, link->busy);
        doc_cell(doc, DOC_PLAIN, "%s", text);
        doc_cell(doc, DOC_PLAIN, "%s", link->transport ? link->transport : "UNKNOWN");
        doc_cell(doc, DOC_DIM, "%s", link->is_estimated ? "estimated from the algorithm" : "");
    }
    doc_table_end(doc);
    if (report->link_count > LINKS_SHOWN)
        doc_paragraph(doc, DOC_DIM, "%zu more are in communication_matrix.json and report.json.",
                      report->link_count - LINKS_SHOWN);
}

/* --- coverage, what is not known -------------------------------------------------------------------- */

/* "0-3,8": the first LIST_SHOWN runs of a list of ranks that fit in `text`. */
static void ranks_text(const int32_t *ranks, size_t count, char *text, size_t size)
{
    struct rs_buf buf = {0};
    report_put_ranks(&buf, ranks, count);
    const char *all = rs_buf_text(&buf);
    if (strlen(all) < size - 4) {
        (void)snprintf(text, size, "%s", all);
    } else {
        size_t cut = size - 4;
        while (cut > 0 && all[cut] != ',')
            cut--;
        (void)snprintf(text, size, "%.*s,...", (int)cut, all);
    }
    rs_buf_fini(&buf);
}

static void put_partial(struct doc *doc, const struct report *report)
{
    const struct rs_analysis *analysis = report->analysis;
    size_t reported = 0;
    for (size_t i = 0; i < analysis->summary_count && reported < LIST_SHOWN; i++) {
        const struct rs_trace_info *trace = &analysis->summaries[i]->trace;
        if (!trace->is_partial)
            continue;
        reported++;
        const char *why =
            trace->partial_reason == RS_STR_NONE
                ? ""
                : rs_strtab_text(&analysis->summaries[i]->strings, trace->partial_reason);
        doc_bullet(doc, "Rank %" PRId32 " is partial: %s.", trace->rank,
                   *why ? why : "its recording is cut or damaged");
    }
    if (report->partial_rank_count > reported)
        doc_bullet(doc, "%zu more ranks are partial, see manifest.json.",
                   report->partial_rank_count - reported);
    if (report->partial_step_count)
        doc_bullet(doc,
                   "%zu %s without an end in the recording (rank by rank) and out of the means; "
                   "report.json lists them.",
                   report->partial_step_count,
                   plural((int64_t)report->partial_step_count, "step is", "steps are"));
}

static void put_ranks_missing(struct doc *doc, const struct rs_analysis *analysis)
{
    char text[160];
    if (analysis->missing_count) {
        ranks_text(analysis->missing_ranks, analysis->missing_count, text, sizeof text);
        doc_bullet(doc, "%zu of %" PRId32 " ranks were not seen: %s.", analysis->missing_count,
                   analysis->world_size, text);
    }
    if (analysis->world_size < 0)
        doc_bullet(doc,
                   "The recording does not say how many ranks there are, so missing ones cannot "
                   "be reported.");
    if (analysis->world_sizes_differ)
        doc_bullet(doc, "The ranks name different world sizes; the largest, %" PRId32 ", is used.",
                   analysis->world_size);
}

/* What the analysis itself tells (unmatched, unfinished, clocks) comes with its notes. */
static void put_operations(struct doc *doc, const struct report *report)
{
    if (report->ops_partial)
        doc_bullet(doc,
                   "%" PRId64 " of %" PRId64
                   " matched operations lack members: their waits are lower "
                   "bounds, nobody is called last.",
                   report->ops_partial, report->ops_matched);
    if (report->ops_without_wait)
        doc_bullet(doc,
                   "%" PRId64 " %s ranks that share no clock: waits and last arrivers are unknown "
                   "there (--assume-common-clock overrides).",
                   report->ops_without_wait,
                   plural(report->ops_without_wait, "operation joins", "operations join"));
    if (report->rows_without_bytes)
        doc_bullet(doc,
                   "Message sizes are unknown for %" PRId64 " of %" PRId64
                   " rows of communication, "
                   "and so is their bandwidth.",
                   report->rows_without_bytes, report->rows);
}

static void put_drops(struct doc *doc, const struct report *report)
{
    for (size_t i = 0; i < report->drop_count && i < LIST_SHOWN; i++)
        doc_bullet(doc, "%" PRId64 " %s not used: %s.", report->drops[i].count,
                   plural(report->drops[i].count, "row was", "rows were"), report->drops[i].reason);
}

/* What a capture cost the job: it was slower than usual then. */
static void put_recording(struct doc *doc, const struct rs_job_recording *recording)
{
    char whole[UNIT_TEXT_BYTES], recorded[UNIT_TEXT_BYTES], writing[UNIT_TEXT_BYTES];
    if (!recording->rank_count)
        return;
    unit_people_time(whole, recording->recorded + recording->writing);
    unit_people_time(recorded, recording->recorded);
    unit_people_time(writing, recording->writing);
    doc_bullet(
        doc,
        "Recording took up to %s, in which the steps of the job may have been slower: %s were "
        "recorded, and the profile was written to its end %s later (rank %" PRId32
        "; known of %zu %s).",
        whole, recorded, writing, recording->rank, recording->rank_count,
        plural((int64_t)recording->rank_count, "rank", "ranks"));
}

static void put_known(struct doc *doc, const struct report *report)
{
    const struct rs_analysis *analysis = report->analysis;
    char ranks[200];
    doc_heading(doc, "What was seen, and what is not known", "");
    int32_t few[256];
    size_t count = 0;
    while (count < analysis->summary_count && count < sizeof few / sizeof few[0]) {
        few[count] = analysis->summaries[count]->trace.rank;
        count++;
    }
    ranks_text(few, count, ranks, sizeof ranks);
    doc_bullet(doc,
               "Ranks %s%s; %" PRId64 " events; %" PRId64 " %s, %" PRId64
               " complete on all ranks; %" PRId64 " operations of which %" PRId64 " were matched.",
               ranks, count < analysis->summary_count ? ",..." : "", report->events, report->steps,
               plural(report->steps, "step", "steps"), analysis->complete_steps,
               report->ops_matched + report->ops_unmatched, report->ops_matched);
    put_ranks_missing(doc, analysis);
    put_partial(doc, report);
    put_operations(doc, report);
    put_drops(doc, report);
    put_recording(doc, &report->analysis->recording);
    report_put_judged(doc, report);
    for (size_t i = 0; i < analysis->note_count; i++)
        doc_bullet(doc, "%s", analysis->notes[i]);
}

/* --- whole ------------------------------------------------------------------------------------------ */

/* What only a page has. */
struct extras {
    struct rs_buf figure, data;
};

/* With `extras` these, too; NULL: they are not wanted. */
static enum rs_status build(const struct rs_analysis *analysis, struct doc **doc_p,
                            struct extras *extras, struct rs_err *err)
{
    struct report report;
    struct doc *doc = doc_new();
    if (!doc || report_init(&report, analysis) != RS_OK) {
        doc_free(&doc);
        return rs_err_set(err, RS_NOMEM, "no memory for the report");
    }
    put_title(doc, &report);
    report_put_findings(doc, &report);
    put_steps(doc, &report);
    report_put_waiting(doc, &report);
    put_links(doc, &report);
    put_known(doc, &report);
    enum rs_status status = extras ? report_put_figure(&report, &extras->figure) : RS_OK;
    if (extras && status == RS_OK)
        status = report_put_data(&report, &extras->data);
    report_fini(&report);
    if (doc_failed(doc) || status < 0) {
        doc_free(&doc);
        return rs_err_set(err, RS_NOMEM, "no memory for the report");
    }
    *doc_p = doc;
    return RS_OK;
}

enum rs_status rs_output_report_text(const struct rs_analysis *analysis,
                                     struct rs_output_style style, struct rs_buf *buf,
                                     struct rs_err *err)
{
    struct doc *doc = NULL;
    const enum rs_status status = build(analysis, &doc, NULL, err);
    if (status != RS_OK)
        return status;
    doc_as_text(doc, style, buf);
    doc_free(&doc);
    return buf->failed ? rs_err_set(err, RS_NOMEM, "no memory for the report") : RS_OK;
}

enum rs_status rs_output_report_markdown(const struct rs_analysis *analysis, struct rs_buf *buf,
                                         struct rs_err *err)
{
    struct doc *doc = NULL;
    const enum rs_status status = build(analysis, &doc, NULL, err);
    if (status != RS_OK)
        return status;
    doc_as_markdown(doc, buf);
    doc_free(&doc);
    return buf->failed ? rs_err_set(err, RS_NOMEM, "no memory for the report") : RS_OK;
}

enum rs_status rs_output_report_html(const struct rs_analysis *analysis, struct rs_buf *buf,
                                     struct rs_err *err)
{
    struct doc *doc = NULL;
    struct extras extras = {.figure = {0}};
    const enum rs_status status = build(analysis, &doc, &extras, err);
    const struct doc_page page = {
        .figure = &extras.figure, .data = &extras.data, .script = &report_script};
    if (status == RS_OK && !extras.figure.failed)
        doc_as_html(doc, &page, buf);
    const bool is_short = extras.figure.failed || buf->failed;
    rs_buf_fini(&extras.figure);
    rs_buf_fini(&extras.data);
    if (status != RS_OK)
        return status;
    doc_free(&doc);
    return is_short ? rs_err_set(err, RS_NOMEM, "no memory for the report") : RS_OK;
}
