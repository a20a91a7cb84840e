/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a report needs beside the analysis, made once for text, Markdown, HTML and JSON: means of each part of a step over all ranks and of
 * each rank, the order of ranks and links, what was dropped and why, which steps are complete. Sentences are made elsewhere (report_doc.c,
 * report_findings.c); nothing here is.
 */
#include "aggregator/output/report.h"

#include "aggregator/output/output_priv.h"
#include "common/base/mem.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *text, *key;
} parts[PART_COUNT] = {
    [PART_COMPUTING] = {"computing", "computing_ns"},
    [PART_EXPOSED] = {"communication, exposed", "exposed_communication_ns"},
    [PART_MEMORY] = {"memory copies and sets", "memory_ns"},
    [PART_IDLE_HEAD] = {"idle before the first work", "idle_head_ns"},
    [PART_IDLE_INSIDE] = {"idle between work", "idle_inside_ns"},
    [PART_IDLE_TAIL] = {"idle after the last work", "idle_tail_ns"},
};

const char *report_part_text(enum report_part part)
{
    return parts[part].text;
}

const char *report_part_key(enum report_part part)
{
    return parts[part].key;
}

/* --- means -------------------------------------------------------------------------------------- */

static rs_dur rounded(rs_dur sum, int64_t count)
{
    return count > 0 ? sum_of(sum, count / 2) / count : 0;
}

static void add_step(struct report_mean *mean, const struct rs_step_row *step)
{
    mean->steps++;
    const rs_dur parts_of_step[PART_COUNT] = {
        [PART_COMPUTING] = step->window_computing, [PART_EXPOSED] = step->window_exposed,
        [PART_MEMORY] = step->window_memory,       [PART_IDLE_HEAD] = step->idle_head,
        [PART_IDLE_INSIDE] = step->idle_inside,    [PART_IDLE_TAIL] = step->idle_tail,
    };
    for (int i = 0; i < PART_COUNT; i++)
        mean->parts[i] = sum_of(mean->parts[i], parts_of_step[i]);
}

/* Sums become means; the window is their sum, so that a row still adds up after rounding. */
static void settle(struct report_mean *mean, int64_t count)
{
    mean->window = 0;
    for (int i = 0; i < PART_COUNT; i++) {
        mean->parts[i] = rounded(mean->parts[i], count);
        mean->window = sum_of(mean->window, mean->parts[i]);
    }
}

static struct report_mean *mean_of(struct report *report, size_t first, int32_t rank,
                                   int32_t device)
{
    for (size_t i = first; i < report->mean_count; i++)
        if (report->means[i].device == device)
            return &report->means[i];
    struct report_mean *mean = &report->means[report->mean_count++];
    *mean = (struct report_mean){.rank = rank, .device = device};
    return mean;
}

static int by_device(const void *a_, const void *b_)
{
    const struct report_mean *a = a_, *b = b_;
    return (a->device > b->device) - (a->device < b->device);
}

/* At most one mean per step row; devices of one rank are few. */
static enum rs_status add_means(struct report *report)
{
    const struct rs_analysis *analysis = report->analysis;
    size_t capacity = 0;
    for (size_t i = 0; i < analysis->summary_count; i++) {
        const struct rs_summary *summary = analysis->summaries[i];
        const size_t first = report->mean_count;
        for (size_t k = 0; k < summary->step_count; k++) {
            if (!rs_analysis_is_in_means(analysis, i, k))
                continue;
            if (rs_mem_grow((void **)&report->means, &capacity, report->mean_count + 1,
                            sizeof *report->means) != RS_OK)
                return RS_NOMEM;
            add_step(mean_of(report, first, summary->trace.rank, summary->steps[k].device),
                     &summary->steps[k]);
        }
        if (report->mean_count == first)
            continue;
        qsort(report->means + first, report->mean_count - first, sizeof *report->means, by_device);
        for (size_t k = first; k < report->mean_count; k++)
            settle(&report->means[k], report->means[k].steps);
    }
    report->overall = (struct report_mean){.rank = -1, .device = -1};
    for (size_t i = 0; i < report->mean_count; i++)
        for (int p = 0; p < PART_COUNT; p++)
            report->overall.parts[p] = sum_of(report->overall.parts[p], report->means[i].parts[p]);
    settle(&report->overall, (int64_t)report->mean_count);
    report->overall.steps = analysis->complete_steps;
    return RS_OK;
}

/* --- who came last, which link is slow ------------------------------------------------------------ */

struct ranked {
    double value; /* ascending */
    size_t index;
};

static int by_value(const void *a_, const void *b_)
{
    const struct ranked *a = a_, *b = b_;
    if (a->value < b->value || a->value > b->value)
        return a->value < b->value ? -1 : 1;
    return (a->index > b->index) - (a->index < b->index);
}

/* Sorts `list` and keeps the indices. Takes nothing; RS_NOMEM. */
static enum rs_status keep_order(struct ranked *list, size_t count, size_t **indices_p)
{
    size_t *indices = rs_mem_calloc(count + 1, sizeof *indices);
    if (!indices)
        return RS_NOMEM;
    if (count)
        qsort(list, count, sizeof *list, by_value);
    for (size_t i = 0; i < count; i++)
        indices[i] = list[i].index;
    *indices_p = indices;
    return RS_OK;
}

static enum rs_status order_ranks(struct report *report)
{
    const struct rs_analysis *analysis = report->analysis;
    struct ranked *list = rs_mem_calloc(analysis->summary_count + 1, sizeof *list);
    if (!list)
        return RS_NOMEM;
    for (size_t i = 0; i < analysis->summary_count; i++) {
        const struct rs_job_rank *rank = &analysis->ranks[i];
        report->caused_wait = sum_of(report->caused_wait, rank->caused_wait);
        report->timed_ops += rank->ops_last;
        if (rank->ops_last || rank->caused_wait || rank->own_wait)
            list[report->arrival_count++] =
                (struct ranked){.value = -(double)rank->caused_wait, .index = i};
    }
    const enum rs_status status = keep_order(list, report->arrival_count, &report->arrivals);
    rs_mem_free(list);
    return status;
}

static enum rs_status order_links(struct report *report)
{
    const struct rs_analysis *analysis = report->analysis;
    struct ranked *list = rs_mem_calloc(analysis->link_count + 1, sizeof *list);
    if (!list)
        return RS_NOMEM;
    for (size_t i = 0; i < analysis->link_count; i++)
        if (analysis->links[i].median_bytes_per_s > 0)
            list[report->link_count++] =
                (struct ranked){.value = analysis->links[i].median_bytes_per_s, .index = i};
    const enum rs_status status = keep_order(list, report->link_count, &report->links);
    rs_mem_free(list);
    return status;
}

/* --- coverage ------------------------------------------------------------------------------------- */

static int by_reason(const void *a_, const void *b_)
{
    const struct report_drop *a = a_, *b = b_;
    return strcmp(a->reason, b->reason);
}

static enum rs_status add_drop(struct report *report, const char *reason, int64_t count)
{
    report->dropped = sum_of(report->dropped, count);
    for (size_t i = 0; i < report->drop_count; i++)
        if (strcmp(report->drops[i].reason, reason) == 0) {
            report->drops[i].count = sum_of(report->drops[i].count, count);
            return RS_OK;
        }
    if (rs_mem_grow((void **)&report->drops, &report->drop_capacity, report->drop_count + 1,
                    sizeof *report->drops) != RS_OK)
        return RS_NOMEM;
    report->drops[report->drop_count++] = (struct report_drop){.reason = reason, .count = count};
    return RS_OK;
}

bool report_is_partial_step(const struct rs_summary *summary, size_t index)
{
    const struct rs_step_row *step = &summary->steps[index];
    /* Devices of one step stand side by side: the first one that is partial speaks for all. */
    for (size_t i = index; i > 0 && summary->steps[i - 1].step == step->step; i--)
        if (summary->steps[i - 1].is_partial)
            return false;
    return step->is_partial;
}

static int by_number(const void *a_, const void *b_)
{
    const int64_t a = *(const int64_t *)a_, b = *(const int64_t *)b_;
    return (a > b) - (a < b);
}

static enum rs_status count_steps(struct report *report)
{
    const struct rs_analysis *analysis = report->analysis;
    size_t total = 0, count = 0;
    for (size_t i = 0; i < analysis->summary_count; i++)
        total += analysis->summaries[i]->step_count;
    int64_t *numbers = rs_mem_calloc(total + 1, sizeof *numbers);
    if (!numbers)
        return RS_NOMEM;
    for (size_t i = 0; i < analysis->summary_count; i++)
        for (size_t k = 0; k < analysis->summaries[i]->step_count; k++) {
            numbers[count++] = analysis->summaries[i]->steps[k].step;
            report->partial_step_count += report_is_partial_step(analysis->summaries[i], k);
        }
    qsort(numbers, count, sizeof *numbers, by_number);
    for (size_t i = 0; i < count; i++)
        report->steps += i == 0 || numbers[i] != numbers[i - 1];
    rs_mem_free(numbers);
    return RS_OK;
}

static enum rs_status count_inputs(struct report *report)
{
    const struct rs_analysis *analysis = report->analysis;
    for (size_t i = 0; i < analysis->summary_count; i++) {
        const struct rs_trace_info *trace = &analysis->summaries[i]->trace;
        report->events = sum_of(report->events, trace->events_read);
        report->partial_rank_count += trace->is_partial;
        for (size_t k = 0; k < trace->drop_count; k++)
            if (add_drop(report,
                         rs_strtab_text(&analysis->summaries[i]->strings, trace->drops[k].reason),
                         trace->drops[k].count) != RS_OK)
                return RS_NOMEM;
    }
    if (report->drop_count)
        qsort(report->drops, report->drop_count, sizeof *report->drops, by_reason);
    return RS_OK;
}

static void count_ops(struct report *report)
{
    const struct rs_analysis *analysis = report->analysis;
    for (size_t i = 0; i < analysis->op_count; i++) {
        const struct rs_job_op *op = &analysis->ops[i];
        report->ops_matched += op->is_matched;
        report->ops_unmatched += !op->is_matched;
        report->ops_partial += op->is_matched && op->coverage == RS_COVERAGE_PARTIAL;
        report->ops_without_wait += op->is_matched && !op->has_wait;
    }
    for (size_t i = 0; i < analysis->row_count; i++) {
        const struct rs_job_row *row = &analysis->rows[i];
        const struct rs_comm_op *own = &analysis->summaries[row->summary]->ops[row->op_index];
        report->rows++;
        report->rows_without_bytes += own->bytes < 0 && own->type != RS_OP_BARRIER;
    }
}

enum rs_status report_init(struct report *report_p, const struct rs_analysis *analysis)
{
    struct report report = {.analysis = analysis};
    enum rs_status status = add_means(&report);
    if (status == RS_OK)
        status = order_ranks(&report);
    if (status == RS_OK)
        status = order_links(&report);
    if (status == RS_OK)
        status = count_steps(&report);
    if (status == RS_OK)
        status = count_inputs(&report);
    if (status != RS_OK) {
        report_fini(&report);
        return status;
    }
    count_ops(&report);
    *report_p = report;
    return RS_OK;
}

void report_fini(struct report *report)
{
    rs_mem_free(report->means);
    rs_mem_free(report->arrivals);
    rs_mem_free(report->links);
    rs_mem_free(report->drops);
    *report = (struct report){0};
}

const char *report_clock_text(const struct rs_analysis *analysis)
{
    return !analysis->one_clock          ? "several"
           : analysis->clock_was_assumed ? "assumed"
           : analysis->clock_was_aligned ? "aligned"
                                         : "one";
}

void report_put_ranks(struct rs_buf *buf, const int32_t *ranks, size_t count)
{
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count && ranks[end] == ranks[end - 1] + 1;)
            end++;
        rs_buf_printf(buf, "%s%" PRId32, i ? "," : "", ranks[i]);
        if (end - i > 1)
            rs_buf_printf(buf, "-%" PRId32, ranks[end - 1]);
    }
}
