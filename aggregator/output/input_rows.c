/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the analysis does not know, as rows of the capture's unit: the capture, its streams, what was read, what of it was dropped,
 * and what was said meanwhile. Texts are lent from the input.
 */
#include "aggregator/analysis/rows.h"
#include "aggregator/output/output_priv.h"
#include "common/base/mem.h"

#include <string.h>

static int64_t known(int64_t value, bool is_known)
{
    return is_known ? value : RS_NULL;
}

static const char *text_or_null(const char *text)
{
    return text && *text ? text : NULL;
}

static const char *clock_word(const struct rs_analysis *analysis)
{
    return !analysis->one_clock          ? "several"
           : analysis->clock_was_assumed ? "assumed"
           : analysis->clock_was_aligned ? "aligned"
                                         : "one";
}

static enum rs_status put_capture(const struct rs_output_input *input, struct rs_writer *writer,
                                  struct rs_err *err)
{
    const struct rs_analysis *analysis = input->analysis;
    const struct rs_capture_facts *facts = input->facts;
    struct rs_row_capture row;
    rs_row_clear(&rs_table_capture, &row);
    row.capture = RS_ROWS_CAPTURE;
    row.id = input->capture;
    row.run = input->run;
    row.request = input->request;
    row.world_size = known(analysis->world_size, analysis->world_size >= 0);
    row.clock = clock_word(analysis);
    for (size_t i = 0; i < analysis->summary_count && row.reference_rank == RS_NULL; i++)
        if (analysis->ranks[i].takes_part)
            row.reference_rank = analysis->ranks[i].rank;
    if (facts) {
        row.source = text_or_null(facts->source);
        row.state = text_or_null(facts->state);
        row.reason = text_or_null(facts->reason);
        row.created_ns = known(facts->created_ns, facts->created_ns > 0);
        row.closed_ns = known(facts->closed_ns, facts->closed_ns > 0);
        row.start_step = known(facts->start_step, facts->start_step >= 0);
        row.steps = known(facts->steps, facts->steps > 0);
    }
    return rs_writer_put(writer, &rs_table_capture, &row, 1, err);
}

static enum rs_status put_streams(const struct rs_output_input *input, struct rs_writer *writer,
                                  struct rs_err *err)
{
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < input->stream_count && status == RS_OK; i++) {
        struct rs_row_stream row = input->streams[i];
        row.capture = RS_ROWS_CAPTURE;
        status = rs_writer_put(writer, &rs_table_stream, &row, 1, err);
    }
    return status;
}

static void fill_input(const struct rs_output_file *file, struct rs_row_input *row)
{
    const bool is_read = file->state == RS_OUTPUT_WHOLE || file->state == RS_OUTPUT_PARTIAL;
    row->rank = known(file->rank, file->rank >= 0);
    row->path = file->path;
    row->state = rs_output_state_text(file->state);
    row->reason = file->reason;
    row->format = file->generation;
    row->host = file->host;
    row->framework = file->framework;
    row->framework_version = file->framework_version;
    row->cann_version = file->cann_version;
    if (!is_read)
        return;
    row->rank_source = rs_rank_source_text(file->rank_source);
    row->step_origin = rs_step_origin_text(file->step_origin);
    row->has_time_base = file->has_time_base;
    row->events_read = file->events_read;
    row->rows_read = file->rows_read;
    row->input_bytes = file->input_bytes;
    row->raw_bytes = file->raw_bytes;
}

static enum rs_status put_inputs(const struct rs_output_input *input, struct rs_writer *writer,
                                 struct rs_err *err)
{
    struct rs_row_input *rows = rs_mem_calloc(input->file_count + 1, sizeof *rows);
    if (!rows)
        return rs_err_set(err, RS_NOMEM, "no memory for the list of inputs");
    for (size_t i = 0; i < input->file_count; i++) {
        rs_row_clear(&rs_table_input, &rows[i]);
        rows[i].capture = RS_ROWS_CAPTURE;
        rows[i].input_no = (int64_t)i;
        fill_input(&input->files[i], &rows[i]);
    }
    const enum rs_status status =
        rs_writer_put(writer, &rs_table_input, rows, input->file_count, err);
    rs_mem_free(rows);
    return status;
}

static enum rs_status put_drops(const struct rs_output_input *input, struct rs_writer *writer,
                                int64_t coverage_no, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < input->file_count; i++) {
        const struct rs_output_file *file = &input->files[i];
        for (size_t k = 0; k < file->drop_count && status == RS_OK; k++) {
            struct rs_row_coverage row;
            rs_row_clear(&rs_table_coverage, &row);
            row.capture = RS_ROWS_CAPTURE;
            row.coverage_no = coverage_no++;
            row.what = "dropped";
            row.rank = known(file->rank, file->rank >= 0);
            row.input_no = (int64_t)i;
            row.reason = file->drops[k].reason;
            row.count = file->drops[k].count;
            status = rs_writer_put(writer, &rs_table_coverage, &row, 1, err);
        }
    }
    return status;
}

static enum rs_status put_notes(const struct rs_output_input *input, struct rs_writer *writer,
                                int64_t note_no, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < input->note_count && status == RS_OK; i++) {
        const struct rs_row_note row = {.capture = RS_ROWS_CAPTURE,
                                        .note_no = note_no + (int64_t)i,
                                        .is_of_input = 1,
                                        .text = input->notes[i]};
        status = rs_writer_put(writer, &rs_table_note, &row, 1, err);
    }
    return status;
}

static enum rs_status put_all(void *self, struct rs_writer *writer, int64_t coverage_no,
                              int64_t note_no, struct rs_err *err)
{
    const struct rs_output_input *input = self;
    enum rs_status status = put_capture(input, writer, err);
    if (status == RS_OK)
        status = put_streams(input, writer, err);
    if (status == RS_OK)
        status = put_inputs(input, writer, err);
    if (status == RS_OK)
        status = put_drops(input, writer, coverage_no, err);
    return status == RS_OK ? put_notes(input, writer, note_no, err) : status;
}

enum rs_status rs_output_rows(const struct rs_output_input *input, struct rs_row_store *store,
                              struct rs_err *err)
{
    struct rs_output_input copy = *input;
    const struct rs_rows_more more = {.put = put_all, .self = &copy};
    return rs_analysis_rows_with(input->analysis, RS_ROWS_CAPTURE, store, &more, err);
}
