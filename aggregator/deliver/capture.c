/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A capture of a store -> summaries -> deliverables.
 *
 *     capture's folder --ranks--> summary of each (aggregator/analysis/capture_data.h) --> deliver: join, report, files
 *
 * Findings need no raw data: a rank whose events are still on their way, or held back, is in the report as soon as its summary
 * is there.
 */
#include "aggregator/analysis/capture_data.h"
#include "aggregator/deliver/deliver.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/request/request.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- a capture ------------------------------------------------------------------------------------------ */

enum { UNRECORDED_NAMED = 16 };

/* What a stream became, to be put in order: several incarnations of one rank follow each other in time. */
struct taken {
    struct rs_summary summary;
    bool has_summary;
    size_t stream;
};

static int by_rank_and_time(const void *a_, const void *b_)
{
    const struct taken *a = a_, *b = b_;
    const int32_t x = a->has_summary ? a->summary.trace.rank : INT32_MAX;
    const int32_t y = b->has_summary ? b->summary.trace.rank : INT32_MAX;
    if (x != y)
        return x < y ? -1 : 1;
    if (x != INT32_MAX && a->summary.span_start != b->summary.span_start)
        return a->summary.span_start < b->summary.span_start ? -1 : 1;
    return (a->stream > b->stream) - (a->stream < b->stream);
}

static void stream_path(const struct rs_capture_stream *stream, char *text, size_t size)
{
    if (stream->origin && *stream->origin)
        (void)snprintf(text, size, "%s", stream->origin);
    else
        (void)snprintf(text, size, "rank %" PRIu32 " of %s", stream->rank, stream->incarnation);
}

/* Losses that the summary has felt: what was made from the events before they were lost is whole. */
static bool is_felt(const struct rs_stored_stream *raw)
{
    if (raw->missing_count || raw->hole_count > RS_STORED_HOLES_MAX)
        return true;
    for (size_t i = 0; i < raw->hole_count; i++)
        if (raw->holes[i].loss.cause == RS_LOSS_FULL)
            return true;
    return false;
}

/* Says what the store itself knows to be missing. */
static enum rs_status report_losses(struct rs_deliver *deliver,
                                    const struct rs_capture_stream *stream)
{
    char text[256];
    const struct rs_stored_stream *raw = stream->raw;
    const bool has_summary =
        stream->summary && stream->summary->is_ended && !stream->summary->loss.chunks;
    if (!raw)
        return RS_OK; /* held back, or on its way */
    if (raw->missing_count || raw->loss.chunks) {
        (void)snprintf(text, sizeof text,
                       "rank %" PRIu32 " lacks %" PRIu64 " chunks and the spool dropped %" PRIu64
                       " (%" PRIu64 " events)",
                       raw->rank, raw->missing_count, raw->loss.chunks, raw->loss.events);
        deliver->is_partial = deliver->is_partial || !has_summary || is_felt(raw);
    } else if (!raw->is_ended && !has_summary) {
        (void)snprintf(text, sizeof text, "the stream of rank %" PRIu32 " has not ended",
                       raw->rank);
        deliver->is_partial = true;
    } else {
        return RS_OK;
    }
    return rs_deliver_note(deliver, text);
}

static enum rs_status take_stream(const struct rs_capture_data *data, size_t index,
                                  bool summaries_only, struct rs_deliver *deliver,
                                  struct taken *taken, struct rs_err *err)
{
    const struct rs_capture_stream *stream = rs_capture_data_stream(data, index);
    struct rs_err why = {0};
    char path[1024];
    enum rs_summary_origin origin = RS_SUMMARY_FROM_LANE;
    *taken = (struct taken){.stream = index};
    const enum rs_status status =
        rs_capture_data_summary(data, index, !summaries_only, &taken->summary, &origin, &why);
    const bool is_so_far = status == RS_OK && origin == RS_SUMMARY_SO_FAR;
    if (status == RS_NOTFOUND && summaries_only) {
        deliver->waiting_count++;
        return RS_OK;
    }
    if (!is_so_far && report_losses(deliver, stream) != RS_OK) {
        if (status == RS_OK)
            rs_summary_fini(&taken->summary);
        return rs_err_set(err, RS_NOMEM, "out of memory");
    }
    if (status == RS_OK) {
        deliver->recording_count += is_so_far;
        taken->has_summary = true;
        taken->summary.trace.rank = (int32_t)stream->rank;
        return RS_OK;
    }
    if (status == RS_NOMEM)
        return rs_err_set(err, status, "%s", why.text);
    stream_path(stream, path, sizeof path);
    return rs_deliver_file(deliver, path, RS_OUTPUT_FAILED, why.text, err);
}

/* Streams are in order of rank. */
static bool has_stream(const struct rs_capture_data *data, uint32_t rank)
{
    size_t low = 0, high = rs_capture_data_count(data);
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (rs_capture_data_stream(data, middle)->rank < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low < rs_capture_data_count(data) && rs_capture_data_stream(data, low)->rank == rank;
}

static enum rs_status report_one_absent(struct rs_deliver *deliver, uint32_t rank, const char *why)
{
    char text[RS_STORE_TEXT_BYTES + 64];
    (void)snprintf(text, sizeof text, "rank %" PRIu32 " sent nothing%s%s", rank, *why ? ": " : "",
                   why);
    deliver->is_partial = true;
    return rs_deliver_note(deliver, text);
}

/* Ranks that were asked for and sent nothing. */
static enum rs_status report_absent(const struct rs_capture_data *data,
                                    const struct rs_deliver_live *live, struct rs_deliver *deliver)
{
    const struct rs_stored *stored = rs_capture_data_raw(data);
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < rs_stored_rank_count(stored) && status == RS_OK; i++) {
        const struct rs_capture_rank *rank = rs_stored_rank(stored, i);
        if (!has_stream(data, rank->rank))
            status = report_one_absent(deliver, rank->rank, rank->text);
    }
    for (size_t i = 0; live && i < live->absent_count && status == RS_OK; i++)
        if (!has_stream(data, live->absent[i].rank))
            status = report_one_absent(deliver, live->absent[i].rank, live->absent[i].why);
    return status;
}

static enum rs_status take_all(const struct rs_capture_data *data, bool summaries_only,
                               const struct rs_deliver_live *live, struct rs_deliver *deliver,
                               struct rs_err *err)
{
    const size_t count = rs_capture_data_count(data);
    struct taken *taken = rs_mem_calloc(count + 1, sizeof *taken);
    if (!taken)
        return rs_err_set(err, RS_NOMEM, "out of memory");
    enum rs_status status = RS_OK;
    size_t made = 0;
    for (; made < count && status == RS_OK; made++)
        status = take_stream(data, made, summaries_only, deliver, &taken[made], err);
    qsort(taken, made, sizeof *taken, by_rank_and_time);
    for (size_t i = 0; i < made; i++) {
        char path[1024];
        if (!taken[i].has_summary)
            continue;
        stream_path(rs_capture_data_stream(data, taken[i].stream), path, sizeof path);
        if (status == RS_OK)
            status = rs_deliver_add(deliver, path, &taken[i].summary, err);
        else
            rs_summary_fini(&taken[i].summary);
    }
    rs_mem_free(taken);
    if (status == RS_OK && report_absent(data, live, deliver) != RS_OK)
        status = rs_err_set(err, RS_NOMEM, "out of memory");
    return status;
}

static enum rs_status report_damage(const struct rs_stored *stored, struct rs_deliver *deliver,
                                    struct rs_err *err)
{
    const char *text = "";
    if (!rs_stored_damage(stored, &text))
        return RS_OK;
    deliver->is_partial = true;
    return rs_deliver_note(deliver, text) == RS_OK ? RS_OK
                                                   : rs_err_set(err, RS_NOMEM, "out of memory");
}

/* The request of the capture as one line of JSON, appended; nothing when there is none that can be read. The activities of a device
 * that it names. */
static uint32_t read_request(const char *capture_dir, struct rs_buf *json)
{
    struct rs_capture_request request = {0};
    struct rs_request_notes notes = {0};
    struct rs_buf text = {0};
    char *path = rs_file_join(capture_dir, "request.json");
    uint32_t activities = 0;
    if (path && rs_file_read(path, RS_REQUEST_TEXT_MAX_BYTES, &text, NULL) == RS_OK &&
        rs_request_from_json(rs_buf_text(&text), text.length, &request, &notes, NULL) == RS_OK) {
        rs_request_to_json(&request, 0, json);
        activities = request.activities & ~(uint32_t)RS_ACTIVITY_CPU;
    }
    rs_request_fini(&request);
    rs_request_notes_fini(&notes);
    rs_buf_fini(&text);
    rs_mem_free(path);
    return activities;
}

static bool has_device(const struct rs_summary *summary)
{
    for (size_t i = 0; i < summary->device_count; i++)
        if (summary->devices[i].device >= 0)
            return true;
    return false;
}

/* No more will come that could change what is found. */
static bool is_final(const struct rs_capture_facts *facts, const struct rs_deliver_live *live)
{
    return (facts && facts->is_closed) || (live && live->is_summarised);
}

/* Whether a rank has a device cannot always be known when the request is answered; what it recorded shows it. */
static enum rs_status report_unrecorded(uint32_t activities, struct rs_deliver *deliver,
                                        struct rs_err *err)
{
    char names[64], text[512];
    size_t count = 0, used;
    rs_request_activity_names(activities, names, sizeof names);
    used = (size_t)snprintf(text, sizeof text,
                            "activities: %s asked for, and nothing of a device "
                            "was recorded on rank",
                            names);
    for (size_t i = 0; i < deliver->summary_count && activities; i++) {
        if (has_device(&deliver->summaries[i]))
            continue;
        if (count++ < UNRECORDED_NAMED)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s %" PRId32,
                                     count > 1 ? "," : "", deliver->summaries[i].trace.rank);
    }
    if (count > UNRECORDED_NAMED)
        (void)snprintf(text + used, sizeof text - used, " and %zu more", count - UNRECORDED_NAMED);
    return !count || rs_deliver_note(deliver, text) == RS_OK
               ? RS_OK
               : rs_err_set(err, RS_NOMEM, "out of memory");
}

/* Profilers that live in the program are switched on and off within a step of it; librankscope's rings are always there. */
static bool is_triggered(const char *source)
{
    return (rs_adapter_capabilities_of(source) & RS_CAP_WRITES_FILES) != 0;
}

static void print_provisional(const struct rs_deliver_result *result, rs_deliver_print_fn *print,
                              void *print_self)
{
    char line[160];
    size_t used = (size_t)snprintf(line, sizeof line,
                                   "provisional: the capture is not closed, more may come: %zu "
                                   "rank%s joined",
                                   result->rank_count, result->rank_count == 1 ? "" : "s");
    if (result->recording_count && result->last_step != RS_STEP_NONE)
        (void)snprintf(line + used, sizeof line - used,
                       ", %zu still recording, up to step %" PRId64, result->recording_count,
                       result->last_step);
    if (print)
        print(print_self, line);
}

static void fill_stream(const struct rs_stored_stream *from, enum rs_stream_lane lane,
                        struct rs_row_stream *row)
{
    rs_row_clear(&rs_table_stream, row);
    row->lane = lane;
    row->rank = from->rank;
    row->incarnation = from->incarnation;
    row->host = *from->host ? from->host : NULL;
    row->origin = *from->origin ? from->origin : NULL;
    row->first_seq = (int64_t)from->first_seq;
    row->last_seq = (int64_t)from->last_seq;
    row->chunks = (int64_t)from->chunk_count;
    row->bytes = (int64_t)from->bytes;
    row->missing_chunks = (int64_t)from->missing_count;
    row->lost_chunks = (int64_t)from->loss.chunks;
    row->lost_events = (int64_t)from->loss.events;
    row->is_ended = from->is_ended;
    row->is_partial = from->is_partial;
}

/* What came, lane by lane; texts are the data's. rs_mem_free(). NULL: no memory. */
static struct rs_row_stream *streams_of(const struct rs_capture_data *data, size_t *count_p)
{
    const struct rs_stored *const lanes[RS_STREAM_LANE_COUNT] = {
        [RS_STREAM_RAW] = rs_capture_data_raw(data),
        [RS_STREAM_SUMMARY] = rs_capture_data_summaries(data)};
    size_t count = 0;
    for (int lane = 0; lane < RS_STREAM_LANE_COUNT; lane++)
        count += lanes[lane] ? rs_stored_stream_count(lanes[lane]) : 0;
    struct rs_row_stream *rows = rs_mem_calloc(count + 1, sizeof *rows);
    *count_p = 0;
    for (int lane = 0; rows && lane < RS_STREAM_LANE_COUNT; lane++)
        for (size_t i = 0; lanes[lane] && i < rs_stored_stream_count(lanes[lane]); i++)
            fill_stream(rs_stored_stream(lanes[lane], i), (enum rs_stream_lane)lane,
                        &rows[(*count_p)++]);
    return rows;
}

enum rs_status rs_deliver_capture(const char *dir, const struct rs_deliver_options *options,
                                  rs_deliver_print_fn *print, void *print_self,
                                  struct rs_deliver_result *result_p, struct rs_err *err)
{
    struct rs_capture_data *data = NULL;
    struct rs_deliver deliver = {.print = print, .print_self = print_self};
    enum rs_status status = rs_deliver_hang(dir, options, print, print_self, result_p, err);
    if (status != RS_END)
        return status;
    status = rs_capture_data_open(dir, &data, err);
    if (status != RS_OK)
        return status;
    const struct rs_stored *stored = rs_capture_data_raw(data);
    const struct rs_capture_facts *facts = rs_stored_facts(stored);
    const struct rs_deliver_live *live = facts && facts->is_closed ? NULL : options->live;
    status = report_damage(rs_capture_data_summaries(data), &deliver, err);
    if (status == RS_OK)
        status = report_damage(stored, &deliver, err);
    if (status == RS_OK)
        status = take_all(data, options->summaries_only, live, &deliver, err);
    if (status == RS_OK && !deliver.summary_count)
        status = rs_err_set(err, RS_NOTFOUND, "%s holds no rank that could be read", dir);
    deliver.is_choice = facts && facts->is_closed && strcmp(facts->source, "files") != 0 &&
                        strcmp(facts->state, "complete") == 0;
    struct rs_buf request = {0};
    const uint32_t activities = read_request(dir, &request);
    if (status == RS_OK && is_final(facts, live))
        status = report_unrecorded(activities, &deliver, err);
    struct rs_deliver_options how = *options;
    how.request = request.length ? rs_buf_text(&request) : NULL;
    how.is_triggered = is_triggered(live ? live->source : facts ? facts->source : "files");
    how.run = facts && *facts->run ? facts->run : NULL;
    how.capture = facts && *facts->id ? facts->id : NULL;
    how.facts = facts;
    struct rs_row_stream *streams = streams_of(data, &how.stream_count);
    how.streams = streams;
    if (status == RS_OK && !streams)
        status = rs_err_set(err, RS_NOMEM, "out of memory");
    if (live) {
        deliver.is_choice = live->is_choice;
        how.run = live->run;
        how.capture = live->id;
    }
    if (status == RS_OK)
        status = rs_deliver_finish(&deliver, &how, result_p, err);
    if (status == RS_OK && facts && !is_final(facts, live)) {
        result_p->is_provisional = true;
        print_provisional(result_p, print, print_self);
    }
    rs_deliver_fini(&deliver);
    rs_mem_free(streams);
    rs_capture_data_close(&data);
    rs_buf_fini(&request);
    return status;
}
