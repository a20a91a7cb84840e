/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/analysis/verify.h"

#include "common/chunk/chunk.h"
#include "common/reduce/reduce.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void note(struct rs_verify_finding *finding, const char *text)
{
    if (!finding->wrong[0])
        (void)snprintf(finding->wrong, sizeof finding->wrong, "%s", text);
}

/* What could not be read for want of memory is not damage: false then, and it ends. */
static bool note_failure(struct rs_verify_finding *finding, const char *text,
                         const struct rs_err *why, struct rs_err *err)
{
    if (why->status == RS_NOMEM) {
        (void)rs_err_set(err, RS_NOMEM, "%s", why->text);
        return false;
    }
    note(finding, text);
    return true;
}

/* Reads one stream again. RS_NOMEM ends everything; what is wrong with the bytes stands in the finding. */
struct reading {
    struct rs_chunk_reader reader;
    struct rs_reduce *reduce;
    bool has_failed; /* the reducer gave up: the summary cannot be compared */
};

static enum rs_status read_chunk(struct reading *reading, const struct rs_stored_chunk *chunk,
                                 struct rs_verify_finding *finding, struct rs_err *err)
{
    struct rs_err why = {0};
    struct rs_chunk_header header;
    const struct rs_batch *batch = NULL;
    finding->bytes += chunk->bytes.length;
    if (chunk->flags & RS_ENVELOPE_LOSS) {
        finding->loss_records++;
        return RS_OK;
    }
    if (rs_chunk_verify(chunk->bytes, &header, &why) < 0 ||
        rs_chunk_read(&reading->reader, chunk->bytes, &batch, &header, &why) < 0) {
        char text[RS_ERR_TEXT_BYTES];
        (void)snprintf(text, sizeof text, "chunk %" PRIu64 ": %.700s", chunk->seq, why.text);
        return note_failure(finding, text, &why, err) ? RS_OK : RS_NOMEM;
    }
    if (!batch)
        return RS_OK;
    finding->rows += batch->count;
    if (!reading->has_failed && rs_reduce_add(reading->reduce, batch, &why) < 0) {
        reading->has_failed = true;
        return note_failure(finding, why.text, &why, err) ? RS_OK : RS_NOMEM;
    }
    return RS_OK;
}

/* The stored summary as we write it, and what only it holds (what the vendor said, and when all was written, is in no event) put where
 * the one that is computed again takes it from. */
static enum rs_status read_stored(struct reading *reading, const struct rs_summary *stored,
                                  struct rs_buf *bytes, struct rs_err *err)
{
    const enum rs_status status = rs_summary_encode(stored, bytes, err);
    reading->reader.info.written_ns = stored->trace.written_ns;
    return status == RS_OK
               ? rs_provenance_add(&reading->reader.info.vendor, &reading->reader.strings,
                                   stored->trace.vendor, &stored->strings)
               : status;
}

/* `stored`: NULL when none came. */
static enum rs_status compare_summary(struct reading *reading,
                                      const struct rs_summary *stored_summary,
                                      struct rs_verify_finding *finding, struct rs_err *err)
{
    struct rs_summary summary = {0};
    struct rs_buf bytes = {0}, stored = {0};
    struct rs_err why = {0};
    enum rs_status status = RS_OK;
    finding->has_end = reading->reader.has_end;
    finding->has_summary = stored_summary != NULL;
    const bool is_cut = finding->stream->is_partial || finding->loss_records;
    if (finding->has_end && !is_cut && finding->rows != reading->reader.end.rows)
        note(finding, "the end mark counts other rows than there are");
    if (!stored_summary || reading->has_failed || is_cut)
        return RS_OK; /* what was lost before it came here is in the stored one, or the stored one is not there */
    finding->is_summary_older = stored_summary->is_of_older_format;
    if (finding->is_summary_older)
        return RS_OK; /* it says less than one of today: the bytes differ, and nothing is wrong */
    finding->is_summary_checked = true;
    if (read_stored(reading, stored_summary, &stored, &why) == RS_OK &&
        rs_reduce_finish(reading->reduce, &reading->reader.info, &summary, &why) == RS_OK &&
        rs_summary_encode(&summary, &bytes, &why) == RS_OK && !bytes.failed)
        finding->is_summary_equal =
            bytes.length == stored.length && memcmp(bytes.data, stored.data, bytes.length) == 0;
    if (bytes.failed && why.status >= 0)
        (void)rs_err_set(&why, RS_NOMEM, "no memory for a summary");
    if (!finding->is_summary_equal &&
        !note_failure(finding, why.text[0] ? why.text : "the summary computed again is another",
                      &why, err))
        status = RS_NOMEM;
    rs_buf_fini(&bytes);
    rs_buf_fini(&stored);
    rs_summary_fini(&summary);
    return status;
}

/* Numbers and ends, as the store counts them. */
static void check_numbers(struct rs_verify_finding *finding)
{
    if (finding->stream->missing_count)
        note(finding, "chunk numbers are missing");
    if (finding->stream->repeated_count)
        note(finding, "chunks are there more than once");
    if (!finding->stream->is_ended)
        note(finding, "its last chunk is not there");
}

/* Every record and chunk of the summary lane; the events it was made from are not here. */
static void check_summary_lane(const struct rs_capture_data *data,
                               const struct rs_capture_stream *stream,
                               struct rs_verify_finding *finding)
{
    const struct rs_stored *stored = rs_capture_data_summaries(data);
    for (uint64_t i = 0; i < stream->summary->chunk_count; i++) {
        struct rs_stored_chunk chunk;
        struct rs_chunk_header header;
        struct rs_err err = {0};
        if (rs_stored_chunk(stored, stream->summary_index, i, true, &chunk, &err) < 0 ||
            (!(chunk.flags & RS_ENVELOPE_LOSS) && rs_chunk_verify(chunk.bytes, &header, &err) < 0))
            note(finding, err.text);
        else if (finding->is_summary_only)
            finding->bytes += chunk.bytes.length;
    }
    if (stream->summary->missing_count)
        note(finding, "numbers are missing in its summary lane");
}

static enum rs_status verify_raw(const struct rs_capture_data *data, size_t index,
                                 const struct rs_summary *summary,
                                 struct rs_verify_finding *finding, struct rs_err *err)
{
    const struct rs_capture_stream *stream = rs_capture_data_stream(data, index);
    struct reading reading = {0};
    enum rs_status status = rs_chunk_reader_init(&reading.reader, 0);
    if (status == RS_OK)
        status = rs_reduce_new(&reading.reader.strings, &reading.reader.lanes, &reading.reduce);
    if (status < 0)
        (void)rs_err_set(err, status, "no memory to read a stream");
    for (uint64_t i = 0; i < stream->raw->chunk_count && status == RS_OK; i++) {
        struct rs_stored_chunk chunk;
        struct rs_err wrong = {0};
        if (rs_stored_chunk(rs_capture_data_raw(data), stream->raw_index, i, true, &chunk, &wrong) <
            0)
            note(finding, wrong.text);
        else
            status = read_chunk(&reading, &chunk, finding, err);
    }
    if (status == RS_OK) {
        check_numbers(finding);
        status = compare_summary(&reading, summary, finding, err);
    }
    rs_reduce_free(&reading.reduce);
    rs_chunk_reader_fini(&reading.reader);
    return status;
}

enum rs_status rs_verify_stream(const struct rs_capture_data *data, size_t index,
                                struct rs_verify_finding *finding, struct rs_err *err)
{
    const struct rs_capture_stream *stream = rs_capture_data_stream(data, index);
    struct rs_summary summary = {0};
    struct rs_err why = {0};
    *finding = (struct rs_verify_finding){.stream = stream->raw ? stream->raw : stream->summary,
                                          .is_summary_only = stream->raw == NULL};
    if (stream->summary)
        check_summary_lane(data, stream, finding);
    enum rs_summary_origin origin = RS_SUMMARY_FROM_LANE;
    enum rs_status status = rs_capture_data_summary(data, index, false, &summary, &origin, &why);
    if (status == RS_NOMEM)
        return rs_err_set(err, status, "%s", why.text);
    if (status == RS_OK &&
        origin == RS_SUMMARY_SO_FAR) { /* of a rank that records: not the one of these events */
        rs_summary_fini(&summary);
        status = RS_NOTFOUND;
    }
    finding->has_summary = status == RS_OK;
    if (status < 0 && status != RS_NOTFOUND)
        note(finding, why.text);
    if (status == RS_OK && rs_summary_order_tasks(&summary) < 0) {
        rs_summary_fini(&summary);
        return rs_err_set(err, RS_NOMEM, "out of memory");
    }
    const struct rs_summary *found = status == RS_OK ? &summary : NULL;
    status = RS_OK;
    if (finding->is_summary_only) {
        check_numbers(finding);
        if (!found)
            note(finding, "it has no summary that can be read");
    } else {
        status = verify_raw(data, index, found, finding, err);
    }
    if (found)
        rs_summary_fini(&summary);
    return status;
}
