/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report.json, as docs/schema/report.schema.json describes it. No ids, times of day or paths: the same
 * analysis gives the same bytes.
 */
#include "aggregator/output/output_priv.h"
#include "aggregator/output/report.h"
#include "aggregator/output/report_findings.h"
#include "common/base/json_out.h"
#include "common/base/mem.h"

#include <string.h>

static void put_int(struct rs_json_out *json, const char *key, int64_t value, bool is_known)
{
    rs_json_out_key(json, key);
    if (is_known)
        rs_json_out_int(json, value);
    else
        rs_json_out_null(json);
}

static void put_text(struct rs_json_out *json, const char *key, const char *text)
{
    rs_json_out_key(json, key);
    if (text)
        rs_json_out_string(json, text);
    else
        rs_json_out_null(json);
}

static void put_partial(struct rs_json_out *json, const struct rs_analysis *analysis)
{
    rs_json_out_key(json, "partial_ranks");
    rs_json_out_array(json);
    for (size_t i = 0; i < analysis->summary_count; i++)
        if (analysis->summaries[i]->trace.is_partial)
            rs_json_out_int(json, analysis->summaries[i]->trace.rank);
    rs_json_out_end(json);
    rs_json_out_key(json, "partial_steps");
    rs_json_out_array(json);
    for (size_t i = 0; i < analysis->summary_count; i++) {
        const struct rs_summary *summary = analysis->summaries[i];
        for (size_t k = 0; k < summary->step_count; k++) {
            if (!report_is_partial_step(summary, k))
                continue;
            rs_json_out_object(json);
            put_int(json, "rank", summary->trace.rank, true);
            put_int(json, "step", summary->steps[k].step, true);
            rs_json_out_end(json);
        }
    }
    rs_json_out_end(json);
}

static void put_inflated(struct rs_json_out *json, const struct rs_analysis *analysis)
{
    rs_json_out_key(json, "inflated_steps");
    rs_json_out_array(json);
    for (size_t i = 0; i < analysis->summary_count; i++) {
        const struct rs_job_rank *rank = &analysis->ranks[i];
        if (!rank->has_edges)
            continue;
        rs_json_out_object(json);
        put_int(json, "rank", rank->rank, true);
        put_int(json, "first", rank->edge_first, true);
        put_int(json, "last", rank->edge_last, true);
        rs_json_out_key(json, "in_means");
        rs_json_out_bool(json, !rank->has_clean_steps);
        rs_json_out_end(json);
    }
    rs_json_out_end(json);
}

static void put_coverage(struct rs_json_out *json, const struct report *report)
{
    const struct rs_analysis *analysis = report->analysis;
    rs_json_out_key(json, "coverage");
    rs_json_out_object(json);
    put_int(json, "ranks_seen", (int64_t)analysis->summary_count, true);
    put_int(json, "ranks_expected", analysis->world_size, analysis->world_size >= 0);
    rs_json_out_key(json, "missing_ranks");
    rs_json_out_array(json);
    for (size_t i = 0; i < analysis->missing_count; i++)
        rs_json_out_int(json, analysis->missing_ranks[i]);
    rs_json_out_end(json);
    put_int(json, "steps", report->steps, true);
    put_int(json, "complete_steps", analysis->complete_steps, true);
    put_int(json, "events", report->events, true);
    put_int(json, "dropped", report->dropped, true);
    rs_json_out_key(json, "dropped_by_reason");
    rs_json_out_object(json);
    for (size_t i = 0; i < report->drop_count; i++)
        put_int(json, report->drops[i].reason, report->drops[i].count, true);
    rs_json_out_end(json);
    put_partial(json, analysis);
    put_inflated(json, analysis);
    rs_json_out_key(json, "operations");
    rs_json_out_object(json);
    put_int(json, "matched", report->ops_matched, true);
    put_int(json, "matched_in_part", report->ops_partial, true);
    put_int(json, "unmatched", report->ops_unmatched, true);
    put_int(json, "without_wait", report->ops_without_wait, true);
    put_int(json, "rows", report->rows, true);
    put_int(json, "rows_without_bytes", report->rows_without_bytes, true);
    put_int(json, "rows_unfinished", report->analysis->unfinished_count, true);
    rs_json_out_end(json);
    put_text(json, "clock", report_clock_text(analysis));
    rs_json_out_end(json);
}

static void put_steps(struct rs_json_out *json, const struct report *report)
{
    put_int(json, "mean_step_ns", report->analysis->mean_step_ns,
            report->analysis->mean_step_ns > 0);
    rs_json_out_key(json, "steps");
    rs_json_out_array(json);
    for (size_t i = 0; i < report->mean_count; i++) {
        const struct report_mean *mean = &report->means[i];
        rs_json_out_object(json);
        put_int(json, "rank", mean->rank, true);
        put_int(json, "device", mean->device, true);
        put_int(json, "complete_steps", mean->steps, true);
        put_int(json, "window_ns", mean->window, true);
        for (int p = 0; p < PART_COUNT; p++)
            put_int(json, report_part_key((enum report_part)p), mean->parts[p], true);
        rs_json_out_end(json);
    }
    rs_json_out_end(json);
}

/* Not there where it is not known: files that were found do not tell. */
static void put_recording(struct rs_json_out *json, const struct rs_job_recording *recording)
{
    if (!recording->rank_count)
        return;
    rs_json_out_key(json, "recording");
    rs_json_out_object(json);
    put_int(json, "ranks", (int64_t)recording->rank_count, true);
    put_int(json, "longest_on_rank", recording->rank, true);
    put_int(json, "recorded_ns", recording->recorded, true);
    put_int(json, "writing_ns", recording->writing, true);
    rs_json_out_end(json);
}

static void put_arrivals(struct rs_json_out *json, const struct report *report)
{
    rs_json_out_key(json, "arrivals");
    rs_json_out_array(json);
    for (size_t i = 0; i < report->arrival_count; i++) {
        const struct rs_job_rank *rank = &report->analysis->ranks[report->arrivals[i]];
        rs_json_out_object(json);
        put_int(json, "rank", rank->rank, true);
        put_int(json, "last_in", rank->ops_last, true);
        put_int(json, "caused_wait_ns", rank->caused_wait, true);
        put_int(json, "own_wait_ns", rank->own_wait, true);
        rs_json_out_end(json);
    }
    rs_json_out_end(json);
}

static void put_links(struct rs_json_out *json, const struct report *report)
{
    enum { LINKS_MAX = 64 };
    rs_json_out_key(json, "slowest_links");
    rs_json_out_array(json);
    for (size_t i = 0; i < report->link_count && i < LINKS_MAX; i++) {
        const struct rs_job_link *link = &report->analysis->links[report->links[i]];
        rs_json_out_object(json);
        put_int(json, "src", link->src, true);
        put_int(json, "dst", link->dst, true);
        put_text(json, "transport", link->transport ? link->transport : "UNKNOWN");
        put_int(json, "bytes", link->bytes, true);
        put_int(json, "messages", link->count, true);
        put_int(json, "busy_ns", link->busy, true);
        rs_json_out_key(json, "median_bytes_per_s");
        rs_json_out_double(json, link->median_bytes_per_s);
        rs_json_out_key(json, "is_estimated");
        rs_json_out_bool(json, link->is_estimated);
        rs_json_out_end(json);
    }
    rs_json_out_end(json);
}

static void put_rate(struct rs_json_out *json, const char *key, double bytes, rs_dur time)
{
    rs_json_out_key(json, key);
    rs_json_out_double(json, bytes / (double)time * 1e9);
}

/* As nccl-tests defines it: bandwidth.c. */
static enum rs_status put_bandwidths(struct rs_json_out *json, const struct rs_analysis *analysis)
{
    enum { SUMS_MAX = 64 };
    struct bandwidth_sums sums;
    if (bandwidth_sums_build(analysis, &sums) != RS_OK)
        return RS_NOMEM;
    rs_json_out_key(json, "collective_bandwidth");
    rs_json_out_array(json);
    for (size_t i = 0; i < sums.count && i < SUMS_MAX; i++) {
        const struct bandwidth_sum *sum = &sums.items[i];
        const double over_bus = (double)sum->bytes * (double)sum->factor / (double)sum->factor_over;
        rs_json_out_object(json);
        put_text(json, "op", rs_op_type_text((enum rs_op_type)sum->type));
        put_text(json, "group", sum->group);
        put_int(json, "ranks", sum->ranks, true);
        put_text(json, "transport", sum->transport);
        put_text(json, "coverage", sum->is_exact ? "exact" : "partial");
        put_int(json, "operations", sum->count, true);
        put_int(json, "bytes", sum->bytes, true);
        put_int(json, "time_ns", sum->time, true);
        put_rate(json, "algorithm_bytes_per_s", (double)sum->bytes, sum->time);
        put_rate(json, "bus_bytes_per_s", over_bus, sum->time);
        rs_json_out_end(json);
    }
    rs_json_out_end(json);
    rs_mem_free(sums.items);
    return RS_OK;
}

enum rs_status rs_output_report_json(const struct rs_analysis *analysis, struct rs_buf *buf,
                                     struct rs_err *err)
{
    struct report report;
    struct rs_json_out json;
    if (report_init(&report, analysis) != RS_OK)
        return rs_err_set(err, RS_NOMEM, "no memory for the report");
    rs_json_out_init(&json, buf, 2);
    rs_json_out_object(&json);
    put_int(&json, "schema_version", RS_OUTPUT_SCHEMA_VERSION, true);
    report_json_diagnosis(&json, analysis);
    put_coverage(&json, &report);
    put_recording(&json, &analysis->recording);
    put_steps(&json, &report);
    put_arrivals(&json, &report);
    put_links(&json, &report);
    if (put_bandwidths(&json, analysis) != RS_OK) {
        report_fini(&report);
        return rs_err_set(err, RS_NOMEM, "no memory for the report");
    }
    rs_json_out_key(&json, "notes");
    rs_json_out_array(&json);
    for (size_t i = 0; i < analysis->note_count; i++)
        rs_json_out_string(&json, analysis->notes[i]);
    rs_json_out_end(&json);
    rs_json_out_end(&json);
    rs_buf_u8(buf, '\n');
    report_fini(&report);
    return buf->failed ? rs_err_set(err, RS_NOMEM, "no memory for the report") : RS_OK;
}
