/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/deliver.h"

#include "cli/cli.h"
#include "common/base/mem.h"
#include "common/reduce/summary_merge.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { SKIPPED_TOLD = 8 }; /* a folder may hold thousands of files that are no profiles */

void deliver_fini(struct deliver *deliver)
{
    for (size_t i = 0; i < deliver->summary_count; i++)
        rs_summary_fini(&deliver->summaries[i]);
    for (size_t i = 0; i < deliver->file_count; i++)
        rs_output_file_fini(&deliver->files[i]);
    for (size_t i = 0; i < deliver->note_count; i++)
        rs_mem_free(deliver->notes[i]);
    rs_mem_free(deliver->summaries);
    rs_mem_free(deliver->files);
    rs_mem_free(deliver->notes);
    *deliver = (struct deliver){0};
}

static enum rs_status no_memory(struct rs_err *err)
{
    return rs_err_set(err, RS_NOMEM, "out of memory");
}

static enum rs_status room_for_file(struct deliver *deliver)
{
    return rs_mem_grow((void **)&deliver->files, &deliver->file_capacity, deliver->file_count + 1,
                       sizeof *deliver->files);
}

enum rs_status deliver_note(struct deliver *deliver, const char *text)
{
    if (rs_mem_grow((void **)&deliver->notes, &deliver->note_capacity, deliver->note_count + 1,
                    sizeof *deliver->notes) != RS_OK)
        return RS_NOMEM;
    char *copy = rs_mem_strdup(text);
    if (!copy)
        return RS_NOMEM;
    deliver->notes[deliver->note_count++] = copy;
    rs_cli_tell(deliver->verb, "%s", text);
    return RS_OK;
}

enum rs_status deliver_file(struct deliver *deliver, const char *path, enum rs_output_state state,
                            const char *reason, struct rs_err *err)
{
    if (room_for_file(deliver) != RS_OK ||
        rs_output_file_init(&deliver->files[deliver->file_count], path, state, reason) != RS_OK)
        return no_memory(err);
    deliver->file_count++;
    if (state == RS_OUTPUT_FAILED) {
        deliver->is_partial = true;
        rs_cli_tell(deliver->verb, "failed: %s: %s", path, reason ? reason : "cannot be read");
    } else if (state == RS_OUTPUT_SKIPPED && ++deliver->skipped_count <= SKIPPED_TOLD) {
        rs_cli_tell(deliver->verb, "no rank: %s: %s", path, reason ? reason : "skipped");
    }
    return RS_OK;
}

/* The first partial file with this file's reason: itself, when nobody had it before. */
static const struct rs_output_file *first_of_reason(const struct deliver *deliver,
                                                    const struct rs_output_file *file)
{
    for (const struct rs_output_file *at = deliver->files; at < file; at++)
        if (at->state == RS_OUTPUT_PARTIAL && at->reason && file->reason &&
            strcmp(at->reason, file->reason) == 0)
            return at;
    return file;
}

/* What a thousand ranks have in common is said once, when it is met; then how many they are. */
static void tell_partial(const struct deliver *deliver, const struct rs_output_file *file)
{
    if (first_of_reason(deliver, file) == file)
        rs_cli_tell(deliver->verb, "partial: %s: %s", file->path,
                    file->reason ? file->reason : "cut");
}

static enum rs_status tell_partial_counts(const struct deliver *deliver)
{
    size_t *counts = rs_mem_calloc(deliver->file_count + 1, sizeof *counts);
    if (!counts)
        return RS_NOMEM;
    for (size_t i = 0; i < deliver->file_count; i++)
        if (deliver->files[i].state == RS_OUTPUT_PARTIAL)
            counts[first_of_reason(deliver, &deliver->files[i]) - deliver->files]++;
    for (size_t i = 0; i < deliver->file_count; i++)
        if (counts[i] > 1)
            rs_cli_tell(deliver->verb,
                        "partial: %zu more for the same reason as %s; manifest.json lists them",
                        counts[i] - 1, deliver->files[i].path);
    rs_mem_free(counts);
    return RS_OK;
}

/* Adds the summary to the rank's, or as a rank of its own. */
static enum rs_status join(struct deliver *deliver, struct rs_summary *summary, struct rs_err *err)
{
    for (size_t i = 0; i < deliver->summary_count; i++)
        if (deliver->summaries[i].trace.rank == summary->trace.rank) {
            const enum rs_status status = rs_summary_merge(&deliver->summaries[i], summary, err);
            if (status == RS_OK || status == RS_INVALID)
                rs_summary_fini(summary);
            return status;
        }
    if (rs_mem_grow((void **)&deliver->summaries, &deliver->summary_capacity,
                    deliver->summary_count + 1, sizeof *deliver->summaries) != RS_OK)
        return no_memory(err);
    deliver->summaries[deliver->summary_count++] = *summary;
    *summary = (struct rs_summary){0};
    return RS_OK;
}

enum rs_status deliver_add(struct deliver *deliver, const char *path, struct rs_summary *summary,
                           struct rs_err *err)
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
        tell_partial(deliver, file);
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
    rs_cli_tell(deliver->verb, "failed: %s: %s", path, why.text);
    return file->reason ? RS_OK : no_memory(err);
}

/* --- the end ------------------------------------------------------------------------------------------ */

static int by_rank(const void *a_, const void *b_)
{
    const struct rs_summary *const *a = a_, *const *b = b_;
    return ((*a)->trace.rank > (*b)->trace.rank) - ((*a)->trace.rank < (*b)->trace.rank);
}

static enum rs_status print_report(const struct rs_analysis *analysis,
                                   const struct deliver_options *options, struct rs_err *err)
{
    struct rs_buf buf = {0};
    const struct rs_output_style style = {.width = rs_cli_width(stdout),
                                          .has_colour = rs_cli_wants_colour(stdout),
                                          .has_utf8 = rs_cli_wants_utf8()};
    enum rs_status status = options->as_json ? rs_output_report_json(analysis, &buf, err)
                                             : rs_output_report_text(analysis, style, &buf, err);
    if (status == RS_OK && !options->as_json && options->out_dir)
        rs_buf_printf(&buf, "\nDeliverables are in %s\n", options->out_dir);
    if (status == RS_OK &&
        (fwrite(buf.data, 1, buf.length, stdout) != buf.length || fflush(stdout) != 0))
        status = rs_err_errno(err, "cannot print the report");
    rs_buf_fini(&buf);
    return status;
}

static enum rs_status hand_over(const struct deliver *deliver, const struct rs_analysis *analysis,
                                const struct deliver_options *options, struct rs_err *err)
{
    const struct rs_output_input input = {.analysis = analysis,
                                          .files = deliver->files,
                                          .file_count = deliver->file_count,
                                          .run = options->run,
                                          .capture = options->capture,
                                          .request = options->request,
                                          .notes = (const char *const *)deliver->notes,
                                          .note_count = deliver->note_count};
    enum rs_status status = RS_OK;
    if (options->out_dir)
        status = rs_output_write(&input, options->out_dir, err);
    if (status == RS_OK && !options->is_quiet)
        status = print_report(analysis, options, err);
    return status;
}

static int verdict(const struct deliver *deliver, const struct rs_analysis *analysis,
                   const struct deliver_options *options)
{
    for (size_t i = 0; i < analysis->finding_count && options->fail_above >= 0; i++)
        if (analysis->findings[i].share > options->fail_above) {
            rs_cli_tell(deliver->verb, "a finding costs %.2f %% of a step, more than %.2f %%",
                        analysis->findings[i].share * 100, options->fail_above * 100);
            return RS_EXIT_THRESHOLD;
        }
    /* The list of missing ranks is bounded; a world size from a file is not. */
    const bool is_missing =
        !deliver->is_choice &&
        (analysis->missing_count || analysis->world_size > (int64_t)analysis->summary_count);
    if (is_missing && analysis->missing_count && !deliver->has_told_missing)
        rs_cli_tell(deliver->verb, "partial: %zu of %" PRId32 " ranks were not seen",
                    analysis->missing_count, analysis->world_size);
    return deliver->is_partial || is_missing ? RS_EXIT_PARTIAL : RS_EXIT_COMPLETE;
}

int deliver_finish(struct deliver *deliver, const struct deliver_options *options)
{
    struct rs_err err = {0};
    struct rs_analysis *analysis = NULL;
    const struct rs_summary **lent =
        rs_mem_calloc(deliver->summary_count + 1, sizeof(const struct rs_summary *));
    if (!lent) {
        (void)no_memory(&err);
        return rs_cli_fail(deliver->verb, &err);
    }
    for (size_t i = 0; i < deliver->summary_count; i++)
        lent[i] = &deliver->summaries[i];
    qsort(lent, deliver->summary_count, sizeof(const struct rs_summary *), by_rank);
    if (deliver->skipped_count > SKIPPED_TOLD)
        rs_cli_tell(deliver->verb, "no rank: %zu more, listed in manifest.json",
                    deliver->skipped_count - SKIPPED_TOLD);
    const struct rs_analysis_options how = {.assume_common_clock = options->assume_common_clock,
                                            .is_triggered = options->is_triggered};
    if (tell_partial_counts(deliver) != RS_OK) {
        rs_mem_free(lent);
        (void)no_memory(&err);
        return rs_cli_fail(deliver->verb, &err);
    }
    enum rs_status status = rs_analysis_new(lent, deliver->summary_count, &how, &analysis, &err);
    if (status == RS_OK)
        status = hand_over(deliver, analysis, options, &err);
    const int code =
        status == RS_OK ? verdict(deliver, analysis, options) : rs_cli_fail(deliver->verb, &err);
    rs_analysis_free(&analysis);
    rs_mem_free(lent);
    return code;
}
