/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream is read twice: what its INFO chunks say of its time base may stand behind its events. The first time dictionaries and
 * INFO alone are decoded, the second time dictionaries and those events that lie in the stretch.
 *
 *     stream 0 --> base --> chunk, chunk, ... --> stream 1 --> base --> ... --> RS_END
 */
#include "aggregator/analysis/spans.h"

#include "aggregator/store/store.h"
#include "common/base/buf.h"
#include "common/base/envelope.h"
#include "common/base/mem.h"
#include "common/chunk/chunk.h"
#include "common/event/event.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct rs_spans {
    struct rs_stored *stored;
    int32_t *ranks;
    const struct rs_table *table; /* whose rows it makes */
    enum rs_read read;
    struct rs_read_filter filter; /* its ranks are ours */
    uint64_t chunks;              /* of these ranks: what a token is of */
    uint64_t rows;                /* handed out, those skipped by a token with them */
    /* the stream at hand */
    size_t stream;
    bool is_open; /* it has a reader */
    struct rs_chunk_reader reader;
    rs_ns base_ns;
    uint64_t chunk;               /* the next one */
    const struct rs_batch *batch; /* NULL: the next chunk is to be read */
    size_t row;
};

static bool is_meant(const struct rs_spans *spans, uint32_t rank)
{
    for (size_t i = 0; i < spans->filter.rank_count; i++)
        if ((uint32_t)spans->ranks[i] == rank)
            return true;
    return false;
}

static void end_stream(struct rs_spans *spans)
{
    if (spans->is_open)
        rs_chunk_reader_fini(&spans->reader);
    spans->is_open = false;
    spans->batch = NULL;
}

/* The next chunk of that kind, dictionaries before it with it. RS_END: none, or it cannot be read. */
static enum rs_status read_chunk(struct rs_spans *spans, enum rs_chunk_kind wanted)
{
    struct rs_stored_chunk chunk;
    struct rs_chunk_header header;
    spans->batch = NULL;
    while (rs_stored_chunk(spans->stored, spans->stream, spans->chunk, true, &chunk, NULL) ==
           RS_OK) {
        spans->chunk++;
        if (chunk.flags & RS_ENVELOPE_LOSS)
            continue;
        if (rs_chunk_peek(chunk.bytes, &header, NULL) != RS_OK)
            return RS_END;
        if (header.kind != wanted && header.kind != RS_CHUNK_DICTIONARY)
            continue;
        /* The base is known when events are wanted. */
        if (header.kind == RS_CHUNK_EVENTS &&
            (header.last_ns < spans->filter.from_ns - spans->base_ns ||
             header.first_ns > spans->filter.to_ns - spans->base_ns))
            continue;
        if (rs_chunk_read(&spans->reader, chunk.bytes, &spans->batch, NULL, NULL) != RS_OK)
            return RS_END;
        if (header.kind == wanted)
            return RS_OK;
    }
    return RS_END;
}

static enum rs_status start_reader(struct rs_spans *spans, struct rs_err *err)
{
    end_stream(spans);
    spans->chunk = 0;
    if (rs_chunk_reader_init(&spans->reader, 0) != RS_OK)
        return rs_err_set(err, RS_NOMEM, "no memory to read a stream");
    spans->is_open = true;
    return RS_OK;
}

/* Opens the stream at hand, ready for its events. RS_END: nothing can be said of when its events were. */
static enum rs_status open_stream(struct rs_spans *spans, struct rs_err *err)
{
    enum rs_status status = start_reader(spans, err);
    if (status != RS_OK)
        return status;
    while (read_chunk(spans, RS_CHUNK_INFO) == RS_OK)
        ;
    const bool has_base = spans->reader.has_info && spans->reader.info.has_time_base;
    spans->base_ns = spans->reader.info.base_ns;
    /* Nothing that is subtracted from it may overflow. */
    if (!has_base || spans->base_ns < 0)
        return RS_END;
    return start_reader(spans, err);
}

/* What a host thread did, and lasted. Python's frames are left out: there are more of them than of all others, one in the other. */
static bool is_host_work(const struct rs_batch *batch, size_t row)
{
    if (batch->lanes->items[batch->lane[row]].kind == RS_LANE_DEVICE)
        return false;
    switch ((enum rs_kind)batch->kind[row]) {
    case RS_KIND_CPU_OP:
    case RS_KIND_USER_ANNOTATION:
    case RS_KIND_RUNTIME:
    case RS_KIND_DRIVER:
    case RS_KIND_SYNC:
    case RS_KIND_OVERHEAD:
    case RS_KIND_STEP:
    case RS_KIND_RANGE:
    case RS_KIND_OTHER:
        return true;
    case RS_KIND_GPU_USER_ANNOTATION:
    case RS_KIND_KERNEL:
    case RS_KIND_MEMCPY:
    case RS_KIND_MEMSET:
    case RS_KIND_DEVICE_EVENT:
    case RS_KIND_PYTHON:
    case RS_KIND_MEMORY:
    case RS_KIND_FLOW_START:
    case RS_KIND_FLOW_END:
    case RS_KIND_COUNTER:
    case RS_KIND_METADATA:
    case RS_KIND_INSTANT:
    case RS_KIND_TRACE_SPAN:
    case RS_KIND_OP: /* those that count as work are spans */
    case RS_KIND_COMM:
    case RS_KIND_COMM_TASK:
    case RS_KIND_MARK:
    case RS_KIND_LOSS:
    case RS_KIND_STEP_WINDOW:
    case RS_KIND_COUNT:
        break;
    }
    return false;
}

static bool is_wanted(enum rs_read read, const struct rs_batch *batch, size_t row)
{
    if (read == RS_READ_COUNTERS) /* a value is of an instant, and need not last */
        return batch->kind[row] == RS_KIND_COUNTER && !(batch->flags[row] & RS_EVENT_NO_TIME);
    return (read == RS_READ_HOST_SPANS ? is_host_work(batch, row)
                                       : rs_kind_is_device_work(batch->kind[row])) &&
           !(batch->flags[row] & (RS_EVENT_NO_END | RS_EVENT_NO_TIME));
}

static bool is_row(const struct rs_spans *spans, const struct rs_batch *batch, size_t row)
{
    return is_wanted(spans->read, batch, row) &&
           batch->end[row] >= spans->filter.from_ns - spans->base_ns &&
           batch->start[row] <= spans->filter.to_ns - spans->base_ns &&
           batch->end[row] <= INT64_MAX - spans->base_ns; /* of a damaged recording */
}

/* The next row of all streams: its batch and row are at hand. */
static enum rs_status find_next(struct rs_spans *spans, struct rs_err *err)
{
    while (spans->stream < rs_stored_stream_count(spans->stored)) {
        enum rs_status status = RS_OK;
        if (!spans->is_open)
            status = is_meant(spans, rs_stored_stream(spans->stored, spans->stream)->rank)
                         ? open_stream(spans, err)
                         : RS_END;
        while (status == RS_OK) {
            while (spans->batch && spans->row < spans->batch->count)
                if (is_row(spans, spans->batch, spans->row++))
                    return RS_OK;
            status = read_chunk(spans, RS_CHUNK_EVENTS);
            spans->row = 0;
        }
        if (status < 0)
            return status;
        end_stream(spans);
        spans->stream++;
    }
    return RS_END;
}

static void put_span(const struct rs_spans *spans, struct rs_block *block, struct rs_row_span *row)
{
    const struct rs_batch *batch = spans->batch;
    const size_t at = spans->row - 1;
    const struct rs_lane *lane = &batch->lanes->items[batch->lane[at]];
    row->rank = rs_stored_stream(spans->stored, spans->stream)->rank;
    if (lane->kind == RS_LANE_DEVICE)
        row->device = lane->device;
    row->stream = lane->thread;
    row->start_ns = spans->base_ns + batch->start[at];
    row->end_ns = spans->base_ns + batch->end[at];
    rs_block_text(block, &row->kind, rs_kind_text(batch->kind[at]));
    rs_block_text(block, &row->name, rs_strtab_text(batch->strings, batch->name[at]));
}

/* "{...}" of what was recorded beside the columns; a row's other members, behind a line's end, are not of `args`. False: no memory. */
static bool put_args(const struct rs_batch *batch, size_t at, struct rs_block *block,
                     struct rs_row_counter *row)
{
    const char *extra = batch->extra + batch->extra_offset[at];
    const char *line = memchr(extra, '\n', batch->extra_length[at]);
    struct rs_buf args = {0};
    rs_buf_u8(&args, '{');
    rs_buf_bytes(&args, extra, line ? (size_t)(line - extra) : batch->extra_length[at]);
    rs_buf_u8(&args, '}');
    const bool is_there = !args.failed;
    if (is_there)
        rs_block_text(block, &row->args, rs_buf_text(&args));
    rs_buf_fini(&args);
    return is_there;
}

/* A value of one number is in `bytes`, of which -1 is none; a native counter always has one. False: no memory. */
static bool put_counter(const struct rs_spans *spans, struct rs_block *block,
                        struct rs_row_counter *row)
{
    const struct rs_batch *batch = spans->batch;
    const size_t at = spans->row - 1;
    const struct rs_lane *lane = &batch->lanes->items[batch->lane[at]];
    const bool has_args = batch->extra_length[at] != 0;
    row->rank = rs_stored_stream(spans->stored, spans->stream)->rank;
    if (lane->kind == RS_LANE_DEVICE)
        row->device = lane->device;
    row->at_ns = spans->base_ns + batch->start[at];
    if (batch->bytes[at] != -1 || (!has_args && !batch->phase[at]))
        row->value = batch->bytes[at];
    rs_block_text(block, &row->name, rs_strtab_text(batch->strings, batch->name[at]));
    return !has_args || put_args(batch, at, block, row);
}

enum rs_status rs_spans_next(struct rs_spans *spans, struct rs_block *block, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    bool has_room = true;
    rs_block_begin(block, spans->table);
    while (has_room && block->count < RS_CURSOR_ROWS && (status = find_next(spans, err)) == RS_OK) {
        void *row = rs_block_add(block);
        if (!row)
            break;
        if (spans->read == RS_READ_COUNTERS)
            has_room = put_counter(spans, block, row);
        else
            put_span(spans, block, row);
        spans->rows++;
    }
    if (rs_block_end(block) != RS_OK || !has_room)
        return rs_err_set(err, RS_NOMEM, "no memory for rows");
    if (status < 0)
        return status;
    return block->count ? RS_OK : RS_END;
}

static enum rs_status skip_to(struct rs_spans *spans, const char *token, struct rs_err *err)
{
    int64_t chunks;
    uint64_t rows;
    enum rs_status status = RS_OK;
    if (!rs_read_place(token, &chunks, &rows) || chunks < 0)
        return rs_err_set(err, RS_INVALID, "\"%.60s\" is no place in a read", token);
    if ((uint64_t)chunks != spans->chunks)
        return rs_err_set(err, RS_AGAIN, "events came since: read again from the start");
    while (spans->rows < rows && (status = find_next(spans, err)) == RS_OK)
        spans->rows++;
    return status < 0 ? status : RS_OK;
}

enum rs_status rs_spans_open(const char *capture_dir, enum rs_read read,
                             const struct rs_read_filter *filter, const char *token,
                             struct rs_spans **spans_p, struct rs_err *err)
{
    struct rs_spans *spans = rs_mem_calloc(1, sizeof *spans);
    if (!spans)
        return rs_err_set(err, RS_NOMEM, "no memory to read a capture");
    spans->table = rs_read_def(read)->result;
    spans->read = read;
    spans->filter = *filter;
    spans->ranks = rs_mem_calloc(filter->rank_count + 1, sizeof *spans->ranks);
    enum rs_status status =
        spans->ranks ? rs_store_open_lane(capture_dir, RS_STREAM_RAW, &spans->stored, err)
                     : rs_err_set(err, RS_NOMEM, "no memory to read a capture");
    if (status == RS_OK) {
        memcpy(spans->ranks, filter->ranks, filter->rank_count * sizeof *spans->ranks);
        for (size_t i = 0; i < rs_stored_stream_count(spans->stored); i++)
            if (is_meant(spans, rs_stored_stream(spans->stored, i)->rank))
                spans->chunks += rs_stored_stream(spans->stored, i)->chunk_count;
        status = token ? skip_to(spans, token, err) : RS_OK;
    }
    if (status < 0)
        rs_spans_close(&spans);
    else
        *spans_p = spans;
    return status;
}

void rs_spans_token_before(const struct rs_spans *spans, uint64_t rows, char token[RS_TOKEN_BYTES])
{
    (void)snprintf(token, RS_TOKEN_BYTES, "%" PRIu64 ".%" PRIu64, spans->chunks,
                   spans->rows - rows);
}

void rs_spans_close(struct rs_spans **spans_p)
{
    struct rs_spans *spans = *spans_p;
    if (!spans)
        return;
    *spans_p = NULL;
    end_stream(spans);
    if (spans->stored)
        rs_stored_close(&spans->stored);
    rs_mem_free(spans->ranks);
    rs_mem_free(spans);
}
