/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/deliver/deliver.h"

#include "aggregator/analysis/from_rows.h"
#include "aggregator/analysis/rows.h"
#include "aggregator/deliver/rows.h"
#include "common/base/mem.h"
#include "common/reduce/summary_merge.h"

#include <inttypes.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SKIPPED_REPORTED = 8, /* a folder may hold thousands of files that are no profiles */
    TRIM_AFTER = 32       /* summaries without spans */
};

static void RS_PRINTF(2, 3) note(const struct rs_deliver *deliver, const char *format, ...)
{
    char line[2048]; /* a path and a reason */
    va_list args;
    if (!deliver->print)
        return;
    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args);
    va_end(args);
    deliver->print(deliver->print_self, line);
}

void rs_deliver_fini(struct rs_deliver *deliver)
{
    for (size_t i = 0; i < deliver->summary_count; i++)
        rs_summary_fini(&deliver->summaries[i]);
    for (size_t i = 0; i < deliver->file_count; i++)
        rs_output_file_fini(&deliver->files[i]);
    for (size_t i = 0; i < deliver->note_count; i++)
        rs_mem_free(deliver->notes[i]);
    rs_slots_fini(&deliver->by_rank);
    rs_mem_free(deliver->summaries);
    rs_mem_free(deliver->files);
    rs_mem_free(deliver->notes);
    *deliver = (struct rs_deliver){0};
}

static enum rs_status no_memory(struct rs_err *err)
{
    return rs_err_set(err, RS_NOMEM, "out of memory");
}

static enum rs_status room_for_file(struct rs_deliver *deliver)
{
    return rs_mem_grow((void **)&deliver->files, &deliver->file_capacity, deliver->file_count + 1,
                       sizeof *deliver->files);
}

enum rs_status rs_deliver_note(struct rs_deliver *deliver, const char *text)
{
    if (rs_mem_grow((void **)&deliver->notes, &deliver->note_capacity, deliver->note_count + 1,
                    sizeof *deliver->notes) != RS_OK)
        return RS_NOMEM;
    char *copy = rs_mem_strdup(text);
    if (!copy)
        return RS_NOMEM;
    deliver->notes[deliver->note_count++] = copy;
    if (deliver->print)
        deliver->print(deliver->print_self, text);
    return RS_OK;
}

enum rs_status rs_deliver_file(struct rs_deliver *deliver, const char *path,
                               enum rs_output_state state, const char *reason, struct rs_err *err)
{
    if (room_for_file(deliver) != RS_OK ||
        rs_output_file_init(&deliver->files[deliver->file_count], path, state, reason) != RS_OK)
        return no_memory(err);
    deliver->file_count++;
    if (state == RS_OUTPUT_FAILED) {
        deliver->is_partial = true;
        note(deliver, "failed: %s: %s", path, reason ? reason : "cannot be read");
    } else if (state == RS_OUTPUT_SKIPPED && ++deliver->skipped_count <= SKIPPED_REPORTED) {
        note(deliver, "no rank: %s: %s", path, reason ? reason : "skipped");
    }
    return RS_OK;
}

/* The first partial file with this file's reason: itself, when nobody had it before. */
static const struct rs_output_file *first_of_reason(const struct rs_deliver *deliver,
                                                    const struct rs_output_file *file)
{
    for (const struct rs_output_file *at = deliver->files; at < file; at++)
        if (at->state == RS_OUTPUT_PARTIAL && at->reason && file->reason &&
            strcmp(at->reason, file->reason) == 0)
            return at;
    return file;
}

/* What a thousand ranks have in common is said once, when it is met; then how many they are. */
static void report_partial(const struct rs_deliver *deliver, const struct rs_output_file *file)
{
    if (first_of_reason(deliver, file) == file)
        note(deliver, "partial: %s: %s", file->path, file->reason ? file->reason : "cut");
}

static enum rs_status report_partial_counts(const struct rs_deliver *deliver)
{
    size_t *counts = rs_mem_calloc(deliver->file_count + 1, sizeof *counts);
    if (!counts)
        return RS_NOMEM;
    for (size_t i = 0; i < deliver->file_count; i++)
        if (deliver->files[i].state == RS_OUTPUT_PARTIAL)
            counts[first_of_reason(deliver, &deliver->files[i]) - deliver->files]++;
    for (size_t i = 0; i < deliver->file_count; i++)
        if (counts[i] > 1)
            note(deliver, "partial: %zu more for the same reason as %s; manifest.json lists them",
                 counts[i] - 1, deliver->files[i].path);
    rs_mem_free(counts);
    return RS_OK;
}

static bool is_of_rank(const void *self, uint32_t index, const void *wanted)
{
    const struct rs_summary *summaries = self;
    return summaries[index].trace.rank == *(const int32_t *)wanted;
}

/* Adds the summary to the rank's, or as a rank of its own. */
static enum rs_status join(struct rs_deliver *deliver, struct rs_summary *summary,
                           struct rs_err *err)
{
    const int32_t rank = summary->trace.rank;
    const uint64_t hash = rs_slots_mix(0, (uint64_t)rank);
    const uint32_t same =
        rs_slots_find(&deliver->by_rank, hash, is_of_rank, deliver->summaries, &rank);
    if (same != RS_SLOTS_NONE) {
        const enum rs_status status = rs_summary_merge(&deliver->summaries[same], summary, err);
        if (status == RS_OK || status == RS_INVALID)
            rs_summary_fini(summary);
        return status;
    }
    if (rs_mem_grow((void **)&deliver->summaries, &deliver->summary_capacity,
                    deliver->summary_count + 1, sizeof *deliver->summaries) != RS_OK ||
        rs_slots_put(&deliver->by_rank, hash, (uint32_t)deliver->summary_count) != RS_OK)
        return no_memory(err);
    deliver->summaries[deliver->summary_count++] = *summary;
    *summary = (struct rs_summary){0};
    return RS_OK;
}

enum rs_status rs_deliver_add(struct rs_deliver *deliver, const char *path,
                              struct rs_summary *summary, struct rs_err *err)
{
    struct rs_err why = {0};
    if (room_for_file(deliver) != RS_OK ||
        rs_output_file_of(&deliver->files[deliver->file_count], path, summary) != RS_OK) {
        rs_summary_fini(summary);
        *summary = (struct rs_summary){0};
        return no_memory(err);
    }
    struct rs_output_file *file = &deliver->files[deliver->file_count++];
    if (file->state == RS_OUTPUT_PARTIAL) {
        deliver->is_partial = true;
        report_partial(deliver, file);
    }
    const enum rs_status status = join(deliver, summary, &why);
    if (status == RS_OK)
        return RS_OK;
    rs_summary_fini(summary);
    *summary = (struct rs_summary){0};
    if (status != RS_INVALID)
        return rs_err_set(err, status, "%s", why.text);
    rs_mem_free(file->reason);
    file->reason = rs_mem_strdup(why.text);
    file->state = RS_OUTPUT_FAILED;
    deliver->is_partial = true;
    note(deliver, "failed: %s: %s", path, why.text);
    return file->reason ? RS_OK : no_memory(err);
}

/* --- the end ------------------------------------------------------------------------------------------ */

static int by_rank(const void *a_, const void *b_)
{
    const struct rs_summary *const *a = a_, *const *b = b_;
    return ((*a)->trace.rank > (*b)->trace.rank) - ((*a)->trace.rank < (*b)->trace.rank);
}

static enum rs_status render(const struct rs_analysis *analysis,
                             const struct rs_deliver_options *options, struct rs_buf *buf,
                             struct rs_err *err)
{
    switch (options->report) {
    case RS_DELIVER_NO_REPORT:
        break;
    case RS_DELIVER_TEXT:
        return rs_output_report_text(analysis, options->style, buf, err);
    case RS_DELIVER_JSON:
        return rs_output_report_json(analysis, buf, err);
    }
    return RS_OK;
}

/* The last step that every rank has; RS_STEP_NONE: a rank has none. */
static int64_t last_common_step(const struct rs_analysis *analysis)
{
    int64_t common = RS_STEP_NONE;
    for (size_t i = 0; i < analysis->summary_count; i++) {
        const struct rs_summary *summary = analysis->summaries[i];
        int64_t last = RS_STEP_NONE;
        for (size_t k = 0; k < summary->step_count; k++)
            last = summary->steps[k].step > last ? summary->steps[k].step : last;
        if (last == RS_STEP_NONE)
            return RS_STEP_NONE;
        common = i == 0 || last < common ? last : common;
    }
    return common;
}

/* The report, and what of it is wanted apart. */
static enum rs_status report_of(const struct rs_analysis *analysis,
                                const struct rs_deliver_options *options,
                                struct rs_deliver_result *result, struct rs_err *err)
{
    enum rs_status status = render(analysis, options, &result->report, err);
    result->shares = rs_mem_calloc(analysis->diagnosis->finding_count + 1, sizeof *result->shares);
    if (!result->shares)
        return status < 0 ? status : no_memory(err);
    for (size_t i = 0; i < analysis->diagnosis->finding_count; i++)
        result->shares[result->share_count++] = analysis->diagnosis->findings[i].share;
    if (status == RS_OK && analysis->diagnosis->finding_count)
        rs_output_finding_line(&analysis->diagnosis->findings[0], &result->headline);
    result->rank_count = analysis->summary_count;
    result->last_step = last_common_step(analysis);
    return status;
}

static enum rs_status hand_over(const struct rs_deliver *deliver,
                                const struct rs_analysis *analysis,
                                const struct rs_deliver_options *options,
                                struct rs_deliver_result *result, struct rs_err *err)
{
    const struct rs_output_input input = {.analysis = analysis,
                                          .files = deliver->files,
                                          .file_count = deliver->file_count,
                                          .run = options->run,
                                          .capture = options->capture,
                                          .request = options->request,
                                          .facts = options->facts,
                                          .streams = options->streams,
                                          .stream_count = options->stream_count,
                                          .notes = (const char *const *)deliver->notes,
                                          .note_count = deliver->note_count};
    enum rs_status status = RS_OK;
    if (options->rows)
        status = rs_output_rows(&input, options->rows, err);
    if (status == RS_OK && options->out_dir)
        status = rs_output_write(&input, options->out_dir, err);
    result->recording_count = deliver->recording_count;
    result->waiting_count = deliver->waiting_count;
    return status == RS_OK ? report_of(analysis, options, result, err) : status;
}

/* The list of missing ranks is bounded; a world size from a file is not. */
static bool report_missing(const struct rs_deliver *deliver, const struct rs_analysis *analysis)
{
    const bool is_missing =
        !deliver->is_choice &&
        (analysis->missing_count || analysis->world_size > (int64_t)analysis->summary_count);
    if (is_missing && analysis->missing_count && !deliver->has_reported_missing)
        note(deliver, "partial: %zu of %" PRId32 " ranks were not seen", analysis->missing_count,
             analysis->world_size);
    return is_missing;
}

void rs_deliver_result_fini(struct rs_deliver_result *result)
{
    rs_buf_fini(&result->report);
    rs_buf_fini(&result->headline);
    rs_mem_free(result->shares);
    *result = (struct rs_deliver_result){0};
}

/* Of many ranks spans are as much as all operations. Freed one by one they lie between what is kept: so they are given back now and
 * then, too. */
static void drop_spans(void *self, const struct rs_summary *summary)
{
    struct rs_deliver *deliver = self;
    struct rs_summary *own = &deliver->summaries[summary - deliver->summaries];
    rs_mem_free(own->spans);
    own->spans = NULL;
    own->span_count = own->span_capacity = 0;
    if (++deliver->dropped_count % TRIM_AFTER == 0)
        (void)malloc_trim(0);
}

enum rs_status rs_deliver_finish(struct rs_deliver *deliver,
                                 const struct rs_deliver_options *options,
                                 struct rs_deliver_result *result_p, struct rs_err *err)
{
    struct rs_deliver_result result = {0};
    struct rs_analysis *analysis = NULL;
    const struct rs_summary **lent =
        rs_mem_calloc(deliver->summary_count + 1, sizeof(const struct rs_summary *));
    if (!lent)
        return no_memory(err);
    for (size_t i = 0; i < deliver->summary_count; i++)
        lent[i] = &deliver->summaries[i];
    qsort(lent, deliver->summary_count, sizeof(const struct rs_summary *), by_rank);
    if (deliver->skipped_count > SKIPPED_REPORTED)
        note(deliver, "no rank: %zu more, listed in manifest.json",
             deliver->skipped_count - SKIPPED_REPORTED);
    const struct rs_analysis_options how = {.assume_common_clock = options->assume_common_clock,
                                            .is_triggered = options->is_triggered,
                                            .spans_read = drop_spans,
                                            .self = deliver};
    enum rs_status status = report_partial_counts(deliver) == RS_OK ? RS_OK : no_memory(err);
    if (status == RS_OK)
        status = rs_analysis_new(lent, deliver->summary_count, &how, &analysis, err);
    if (status == RS_OK)
        status = hand_over(deliver, analysis, options, &result, err);
    if (status == RS_OK) {
        const bool is_missing = report_missing(deliver, analysis);
        result.is_partial = deliver->is_partial || is_missing;
        *result_p = result;
    } else {
        rs_deliver_result_fini(&result);
    }
    rs_analysis_free(&analysis);
    rs_mem_free(lent);
    return status;
}

/* ---- of rows ---------------------------------------------------------------------------------------------------- */

/* What is not whole is said by the rows of what was read. */
static bool look_at_input(void *self, const struct rs_block *block, size_t count)
{
    bool *is_partial = self;
    for (size_t i = 0; i < count; i++) {
        const struct rs_row_input *row = rs_block_row(block, i);
        *is_partial = *is_partial || (row->state && strcmp(row->state, "partial") == 0) ||
                      (row->state && strcmp(row->state, "failed") == 0);
    }
    return !*is_partial;
}

enum rs_status rs_deliver_report_of_rows(struct rs_row_store *store,
                                         const struct rs_deliver_options *options,
                                         struct rs_deliver_result *result_p, struct rs_err *err)
{
    struct rs_deliver_result result = {.is_partial = false};
    struct rs_analysis *analysis = NULL;
    const struct rs_deliver_read inputs = {
        .read = RS_READ_INPUTS, .take = look_at_input, .self = &result.is_partial};
    enum rs_status status = rs_deliver_read_rows(store, &inputs, err);
    if (status == RS_OK)
        status = rs_analysis_read(store, RS_ROWS_CAPTURE, &analysis, err);
    if (status == RS_OK)
        status = report_of(analysis, options, &result, err);
    if (status == RS_OK) {
        result.is_partial = result.is_partial || analysis->missing_count ||
                            analysis->world_size > (int64_t)analysis->summary_count;
        *result_p = result;
    } else {
        rs_deliver_result_fini(&result);
    }
    rs_analysis_free(&analysis);
    return status;
}
