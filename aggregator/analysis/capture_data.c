/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pairs the lanes of a capture by (rank, incarnation), and finds a rank's summary in them.
 *
 *   whole in the summary lane, or all of its parts? --yes--> it, joined
 *        | no
 *   SUMMARY chunks in the raw lane? --yes--> the newest
 *        | no
 *   some parts, and neither lane has ended? --yes--> what is here so far
 *        | no
 *   events --up to the first that cannot be read--> reducer
 */
#include "aggregator/analysis/capture_data.h"

#include "common/base/mem.h"
#include "common/chunk/chunk.h"
#include "common/reduce/parts.h"
#include "common/reduce/reduce.h"

#include <stdlib.h>
#include <string.h>

struct rs_capture_data {
    struct rs_stored *raw, *summaries;
    struct rs_capture_stream *streams;
    size_t count, capacity;
};

/* ---- pairing ---------------------------------------------------------------------------------------------- */

static int by_who(const void *left, const void *right)
{
    const struct rs_capture_stream *a = left;
    const struct rs_capture_stream *b = right;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    return strcmp(a->incarnation, b->incarnation);
}

static enum rs_status add_stream(struct rs_capture_data *data, const struct rs_stored_stream *from,
                                 struct rs_capture_stream **stream_p)
{
    if (rs_mem_grow((void **)&data->streams, &data->capacity, data->count + 1,
                    sizeof *data->streams) < 0)
        return RS_NOMEM;
    *stream_p = &data->streams[data->count++];
    **stream_p = (struct rs_capture_stream){.rank = from->rank,
                                            .incarnation = from->incarnation,
                                            .host = from->host,
                                            .origin = from->origin,
                                            .world = from->world};
    return RS_OK;
}

/* Both lists are in order of rank and incarnation: one walk pairs them. */
static enum rs_status pair_lanes(struct rs_capture_data *data)
{
    const size_t raw_count = rs_stored_stream_count(data->raw);
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < raw_count && status == RS_OK; i++) {
        struct rs_capture_stream *stream = NULL;
        status = add_stream(data, rs_stored_stream(data->raw, i), &stream);
        if (status != RS_OK)
            break;
        stream->raw = rs_stored_stream(data->raw, i);
        stream->raw_index = i;
    }
    for (size_t i = 0; i < rs_stored_stream_count(data->summaries) && status == RS_OK; i++) {
        const struct rs_stored_stream *from = rs_stored_stream(data->summaries, i);
        const struct rs_capture_stream key = {.rank = from->rank, .incarnation = from->incarnation};
        struct rs_capture_stream *stream =
            raw_count ? bsearch(&key, data->streams, raw_count, sizeof key, by_who) : NULL;
        if (!stream)
            status = add_stream(data, from, &stream);
        if (status != RS_OK)
            break;
        stream->summary = from;
        stream->summary_index = i;
    }
    if (status == RS_OK && data->count)
        qsort(data->streams, data->count, sizeof *data->streams, by_who);
    return status;
}

enum rs_status rs_capture_data_open(const char *dir, struct rs_capture_data **data_p,
                                    struct rs_err *err)
{
    struct rs_capture_data *data = rs_mem_calloc(1, sizeof *data);
    if (!data)
        return rs_err_set(err, RS_NOMEM, "no memory to read %s", dir);
    enum rs_status status = rs_store_open_lane(dir, RS_STREAM_RAW, &data->raw, err);
    if (status == RS_OK)
        status = rs_store_open_lane(dir, RS_STREAM_SUMMARY, &data->summaries, err);
    if (status == RS_OK && pair_lanes(data) < 0)
        status = rs_err_set(err, RS_NOMEM, "no memory to read %s", dir);
    if (status < 0) {
        rs_capture_data_close(&data);
        return status;
    }
    *data_p = data;
    return RS_OK;
}

void rs_capture_data_close(struct rs_capture_data **data_p)
{
    struct rs_capture_data *data = *data_p;
    if (!data)
        return;
    *data_p = NULL;
    if (data->raw)
        rs_stored_close(&data->raw);
    if (data->summaries)
        rs_stored_close(&data->summaries);
    rs_mem_free(data->streams);
    rs_mem_free(data);
}

const struct rs_stored *rs_capture_data_raw(const struct rs_capture_data *data)
{
    return data->raw;
}

const struct rs_stored *rs_capture_data_summaries(const struct rs_capture_data *data)
{
    return data->summaries;
}

size_t rs_capture_data_count(const struct rs_capture_data *data)
{
    return data->count;
}

const struct rs_capture_stream *rs_capture_data_stream(const struct rs_capture_data *data,
                                                       size_t index)
{
    return index < data->count ? &data->streams[index] : NULL;
}

/* ---- one stream -> one summary ----------------------------------------------------------------------------- */

static bool is_chunk(const struct rs_stored_chunk *chunk)
{
    return !(chunk->flags & RS_ENVELOPE_LOSS);
}

/* Feeds the stream's SUMMARY chunks and nothing else: a handful, whatever the size of the stream. Parts go into `parts` as they
 * become whole; the newest summary that is none stays in the reader. */
static enum rs_status read_summaries(const struct rs_stored *stored, size_t stream,
                                     struct rs_chunk_reader *reader, struct rs_parts *parts,
                                     struct rs_err *err)
{
    const uint64_t count = rs_stored_stream(stored, stream)->chunk_count;
    for (uint64_t i = 0; i < count; i++) {
        struct rs_stored_chunk chunk;
        struct rs_chunk_header header;
        const struct rs_batch *batch = NULL;
        enum rs_status status = rs_stored_chunk(stored, stream, i, false, &chunk, err);
        if (status == RS_OK && !is_chunk(&chunk))
            continue;
        if (status == RS_OK)
            status = rs_chunk_peek(chunk.bytes, &header, err);
        if (status != RS_OK)
            return status;
        if (header.kind != RS_CHUNK_SUMMARY)
            continue;
        status = rs_chunk_read(reader, chunk.bytes, &batch, NULL, err);
        const struct rs_view bytes = rs_view_of(reader->summary.data, reader->summary.length);
        if (status == RS_OK && header.part_index + 1 == header.part_count && rs_part_is(bytes)) {
            status = rs_parts_add(parts, bytes, err);
            reader->has_summary = false;
        }
        if (status != RS_OK)
            return status;
    }
    return RS_OK;
}

/* The newest whole one, or its parts joined: *is_so_far_p when some of them are not here yet. RS_NOTFOUND: there is none. */
static enum rs_status stored_summary(const struct rs_stored *stored, size_t stream,
                                     struct rs_summary *summary_p, bool *is_so_far_p,
                                     struct rs_err *err)
{
    struct rs_chunk_reader reader;
    struct rs_parts parts = {0};
    enum rs_status status = rs_chunk_reader_init(&reader, 0);
    *is_so_far_p = false;
    if (status != RS_OK)
        return rs_err_set(err, status, "no memory to read a stream");
    status = read_summaries(stored, stream, &reader, &parts, err);
    if (status == RS_OK && reader.has_summary) {
        status = rs_summary_decode(rs_view_of(reader.summary.data, reader.summary.length),
                                   summary_p, err);
    } else if (status == RS_OK && parts.count) {
        *is_so_far_p = !rs_parts_are_whole(&parts);
        status = rs_parts_join(&parts, summary_p, err);
    } else if (status == RS_OK) {
        status = rs_err_set(err, RS_NOTFOUND, "its summary did not come");
    }
    rs_parts_fini(&parts);
    rs_chunk_reader_fini(&reader);
    return status;
}

static enum rs_status mark_broken(struct rs_chunk_reader *reader, struct rs_err *err)
{
    static const char why[] = "its stream broke off before its end came";
    reader->info.is_partial = true;
    if (reader->info.partial_reason != RS_STR_NONE)
        return RS_OK;
    const enum rs_status status =
        rs_strtab_add(&reader->strings, why, sizeof why - 1, &reader->info.partial_reason);
    return status == RS_OK ? RS_OK : rs_err_set(err, status, "no memory to read a stream");
}

/* Gives a stream's events to `reduce`, up to its end or to the first chunk that cannot be read. */
static enum rs_status read_events(const struct rs_stored *stored, size_t stream,
                                  struct rs_chunk_reader *reader, struct rs_reduce *reduce,
                                  struct rs_err *err)
{
    const uint64_t count = rs_stored_stream(stored, stream)->chunk_count;
    enum rs_status status = RS_OK;
    for (uint64_t i = 0; i < count && status == RS_OK; i++) {
        struct rs_stored_chunk chunk;
        const struct rs_batch *batch = NULL;
        if (rs_stored_chunk(stored, stream, i, true, &chunk, NULL) != RS_OK)
            return mark_broken(reader, err);
        if (!is_chunk(&chunk))
            continue;
        if (rs_chunk_read(reader, chunk.bytes, &batch, NULL, NULL) != RS_OK)
            return mark_broken(reader, err);
        if (batch)
            status = rs_reduce_add(reduce, batch, err);
    }
    return status == RS_OK && !reader->has_end ? mark_broken(reader, err) : status;
}

static enum rs_status reduce_events(const struct rs_stored *stored, size_t stream,
                                    struct rs_summary *summary_p, struct rs_err *err)
{
    struct rs_chunk_reader reader;
    struct rs_reduce *reduce = NULL;
    enum rs_status status = rs_chunk_reader_init(&reader, 0);
    if (status == RS_OK)
        status = rs_reduce_new(&reader.strings, &reader.lanes, &reduce);
    if (status != RS_OK) {
        rs_chunk_reader_fini(&reader);
        return rs_err_set(err, status, "no memory to read a stream");
    }
    status = read_events(stored, stream, &reader, reduce, err);
    if (status == RS_OK)
        status = rs_reduce_finish(reduce, &reader.info, summary_p, err);
    rs_reduce_free(&reduce);
    rs_chunk_reader_fini(&reader);
    return status;
}

/* A rank that still records: what it recorded last is more than what was read of it. */
static bool goes_on(const struct rs_capture_data *data, const struct rs_capture_stream *stream)
{
    const struct rs_capture_facts *facts = rs_stored_facts(data->raw);
    return !(facts && facts->is_closed) && !stream->summary->is_ended &&
           !(stream->raw && stream->raw->is_ended);
}

enum rs_status rs_capture_data_summary(const struct rs_capture_data *data, size_t index,
                                       bool may_reduce, struct rs_summary *summary_p,
                                       enum rs_summary_origin *origin_p, struct rs_err *err)
{
    const struct rs_capture_stream *stream = rs_capture_data_stream(data, index);
    enum rs_summary_origin origin = RS_SUMMARY_FROM_LANE;
    struct rs_err why = {0};
    enum rs_status status = RS_NOTFOUND;
    bool is_so_far = false;
    if (!stream)
        return rs_err_set(err, RS_NOTFOUND, "there is no such stream");
    if (stream->summary)
        status =
            stored_summary(data->summaries, stream->summary_index, summary_p, &is_so_far, &why);
    if (status == RS_OK && is_so_far) {
        origin = RS_SUMMARY_SO_FAR;
        if (!goes_on(data, stream)) { /* it broke off: its events say more */
            rs_summary_fini(summary_p);
            status = rs_err_set(&why, RS_NOTFOUND, "parts of its summary did not come");
        }
    }
    if (status < 0 && status != RS_NOMEM && stream->raw) {
        origin = RS_SUMMARY_FROM_RAW;
        status = stored_summary(data->raw, stream->raw_index, summary_p, &is_so_far, &why);
    }
    if (status == RS_NOTFOUND && stream->raw && may_reduce) {
        origin = RS_SUMMARY_FROM_EVENTS;
        status = reduce_events(data->raw, stream->raw_index, summary_p, &why);
    }
    if (status < 0)
        return rs_err_set(err, status, "%s", why.text);
    if (origin_p)
        *origin_p = origin;
    return RS_OK;
}
