/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The writer: batches in, sealed chunks out.
 *
 *     add --> [pending rows] --full, flush--> dictionary additions --> put
 *                                             rows -> body -> zstd --> put
 *
 * Rows wait in one batch of rows_per_chunk rows. A chunk that would be longer than RS_CHUNK_MAX_BYTES
 * (rows with much text) is cut in half until it fits.
 */
#include "common/base/digest.h"
#include "common/base/mem.h"
#include "common/chunk/chunk_priv.h"

#include <string.h>
#define ZSTD_STATIC_LINKING_ONLY /* a context with an allocator of our own */
#include <zstd.h>
#include <zstd_errors.h>

enum {
    DEFAULT_ROWS = 16 * 1024,
    DEFAULT_TARGET_BYTES = 192 * 1024,
    ZSTD_LEVEL = 1,
    TEXT_RATIO = 8, /* text shrinks by about this: seal before target * ratio of it */
    DICTIONARY_BYTES = 512 * 1024, /* of strings in one chunk; fits even when nothing shrinks */
    DICTIONARY_LANES = 4096,
    DICTIONARY_STRINGS = 16 * 1024,
    SUMMARY_PART_BYTES = 896 * 1024,
};

struct rs_chunk_writer {
    struct rs_chunk_writer_options options;
    size_t text_cut_bytes; /* seal when this much text waits */
    struct rs_batch pending;
    struct encoder *encoder;
    ZSTD_CCtx *zstd;
    uint8_t *chunk; /* [RS_CHUNK_MAX_BYTES] */
    struct rs_buf body;
    size_t strings_done; /* ids below are in dictionary chunks */
    size_t lanes_done;
    struct rs_chunk_totals totals;
    enum rs_status broken; /* RS_OK, or what every call answers now */
};

static void *zstd_alloc(void *unused, size_t size)
{
    (void)unused;
    return rs_mem_realloc(NULL, size, 1);
}

static void zstd_free(void *unused, void *memory)
{
    (void)unused;
    rs_mem_free(memory);
}

void rs_chunk_writer_free(struct rs_chunk_writer **writer_p)
{
    struct rs_chunk_writer *writer = *writer_p;
    if (!writer)
        return;
    rs_batch_fini(&writer->pending);
    encoder_free(&writer->encoder);
    (void)ZSTD_freeCCtx(writer->zstd);
    rs_mem_free(writer->chunk);
    rs_buf_fini(&writer->body);
    rs_mem_free(writer);
    *writer_p = NULL;
}

enum rs_status rs_chunk_writer_new(const struct rs_chunk_writer_options *options,
                                   struct rs_chunk_writer **writer_p, struct rs_err *err)
{
    if (!options->strings || !options->lanes || !options->put ||
        options->rows_per_chunk > RS_CHUNK_ROWS_MAX || options->target_bytes > RS_CHUNK_MAX_BYTES)
        return rs_err_set(err, RS_INVALID, "a chunk writer needs tables, a put and lawful sizes");
    struct rs_chunk_writer *writer = rs_mem_calloc(1, sizeof *writer);
    if (!writer)
        return rs_err_set(err, RS_NOMEM, "no memory for a chunk writer");
    writer->options = *options;
    if (!writer->options.rows_per_chunk)
        writer->options.rows_per_chunk = DEFAULT_ROWS;
    if (!writer->options.target_bytes)
        writer->options.target_bytes = DEFAULT_TARGET_BYTES;
    writer->text_cut_bytes = writer->options.target_bytes * TEXT_RATIO;
    if (writer->text_cut_bytes > CHUNK_EXTRA_CUT_BYTES)
        writer->text_cut_bytes = CHUNK_EXTRA_CUT_BYTES;
    writer->strings_done = 1; /* the empty string is in every table */
    writer->zstd = ZSTD_createCCtx_advanced((ZSTD_customMem){zstd_alloc, zstd_free, NULL});
    writer->chunk = rs_mem_calloc(1, RS_CHUNK_MAX_BYTES);
    if (!writer->zstd || !writer->chunk ||
        encoder_new(writer->options.rows_per_chunk, &writer->encoder) != RS_OK ||
        rs_batch_init(&writer->pending, options->strings, options->lanes,
                      writer->options.rows_per_chunk) != RS_OK) {
        rs_chunk_writer_free(&writer);
        return rs_err_set(err, RS_NOMEM, "no memory for a chunk writer");
    }
    *writer_p = writer;
    return RS_OK;
}

/* Compresses the body behind the header's place; RS_LIMIT when it does not fit a chunk. */
static enum rs_status compress_body(struct rs_chunk_writer *writer, struct rs_view body,
                                    struct rs_chunk_header *header, uint8_t *compression_p)
{
    const size_t room = RS_CHUNK_MAX_BYTES - RS_CHUNK_HEADER_BYTES;
    uint8_t *to = writer->chunk + RS_CHUNK_HEADER_BYTES;
    if (body.length > RS_CHUNK_RAW_MAX_BYTES)
        return RS_LIMIT;
    size_t used = ZSTD_compressCCtx(writer->zstd, to, room, body.data, body.length, ZSTD_LEVEL);
    if (ZSTD_isError(used)) {
        if (ZSTD_getErrorCode(used) != ZSTD_error_dstSize_tooSmall)
            return RS_NOMEM;
        used = SIZE_MAX;
    }
    *compression_p = CHUNK_ZSTD;
    if (used >= body.length) {
        if (body.length > room)
            return RS_LIMIT;
        memcpy(to, body.data, body.length);
        used = body.length;
        *compression_p = CHUNK_STORED;
    }
    header->raw_bytes = (uint32_t)body.length;
    header->body_bytes = (uint32_t)used;
    header->chunk_bytes = RS_CHUNK_HEADER_BYTES + header->body_bytes;
    header->body_crc = rs_crc32c(0, to, used);
    return RS_OK;
}

static void count_chunk(struct rs_chunk_totals *totals, const struct rs_chunk_header *header)
{
    totals->chunks++;
    totals->bytes += header->chunk_bytes;
    switch (header->kind) {
    case RS_CHUNK_DICTIONARY:
        totals->dictionary_bytes += header->chunk_bytes;
        return;
    case RS_CHUNK_EVENTS:
        totals->rows += header->count;
        totals->events_bytes += header->chunk_bytes;
        return;
    case RS_CHUNK_INFO:
        totals->info_bytes += header->chunk_bytes;
        return;
    case RS_CHUNK_SUMMARY:
        totals->summary_bytes += header->chunk_bytes;
        return;
    }
}

/* Seals one chunk and hands it over. `header` has what is special to its kind. RS_LIMIT before anything
 * was put when it does not fit (err untouched: the caller knows what to say or do). */
static enum rs_status seal(struct rs_chunk_writer *writer, struct rs_view body,
                           struct rs_chunk_header *header, bool *is_too_big_p, struct rs_err *err)
{
    uint8_t compression;
    enum rs_status status = compress_body(writer, body, header, &compression);
    *is_too_big_p = status == RS_LIMIT;
    if (status == RS_LIMIT)
        return status;
    if (status != RS_OK)
        return rs_err_set(err, status, "no memory to compress a chunk");
    header_encode(header, compression, writer->chunk);
    status = writer->options.put(writer->options.put_self,
                                 rs_view_of(writer->chunk, header->chunk_bytes), header, err);
    if (status >= RS_OK)
        count_chunk(&writer->totals, header);
    return status < RS_OK ? status : RS_OK;
}

/* seal() of a body that fits by its making. */
static enum rs_status seal_small(struct rs_chunk_writer *writer, struct rs_chunk_header *header,
                                 struct rs_err *err)
{
    if (writer->body.failed)
        return rs_err_set(err, RS_NOMEM, "no memory for a chunk");
    bool is_too_big;
    const enum rs_status status =
        seal(writer, rs_view_of(writer->body.data, writer->body.length), header, &is_too_big, err);
    return is_too_big ? rs_err_set(err, RS_LIMIT, "a chunk of kind %s does not fit %d bytes",
                                   rs_chunk_kind_text(header->kind), RS_CHUNK_MAX_BYTES)
                      : status;
}

/* One string too long for a chunk, piece by piece. */
static enum rs_status put_long_string(struct rs_chunk_writer *writer, struct rs_err *err)
{
    const struct rs_strtab_entry *entry = &writer->options.strings->entries[writer->strings_done];
    for (size_t offset = 0; offset < entry->length;) {
        const size_t left = entry->length - offset;
        const size_t taken = left < DICTIONARY_BYTES ? left : DICTIONARY_BYTES;
        const bool is_last = taken == left;
        rs_buf_reset(&writer->body);
        rs_buf_u8(&writer->body, 1);
        rs_buf_varint(&writer->body, writer->strings_done);
        rs_buf_varint(&writer->body, entry->length);
        rs_buf_varint(&writer->body, offset);
        rs_buf_bytes(&writer->body, entry->text + offset, taken);
        struct rs_chunk_header header = {
            .kind = RS_CHUNK_DICTIONARY,
            .count = is_last,
            .strings_count = (uint32_t)(writer->strings_done + is_last),
            .lanes_count = (uint32_t)writer->lanes_done,
        };
        const enum rs_status status = seal_small(writer, &header, err);
        if (status != RS_OK)
            return status;
        offset += taken;
    }
    writer->strings_done++;
    return RS_OK;
}

/* How many strings from strings_done on go into one chunk. */
static size_t strings_for_chunk(const struct rs_chunk_writer *writer)
{
    const struct rs_strtab *strings = writer->options.strings;
    size_t count = 0;
    size_t bytes = 0;
    while (writer->strings_done + count < strings->count && count < DICTIONARY_STRINGS) {
        bytes += strings->entries[writer->strings_done + count].length;
        if (bytes > DICTIONARY_BYTES)
            break;
        count++;
    }
    return count;
}

static enum rs_status put_dictionary_chunk(struct rs_chunk_writer *writer, struct rs_err *err)
{
    const struct rs_strtab *strings = writer->options.strings;
    const struct rs_lanes *lanes = writer->options.lanes;
    const size_t first = writer->strings_done;
    const size_t count = strings_for_chunk(writer);
    if (!count && first < strings->count)
        return put_long_string(writer, err);
    /* a lane's texts are strings: lanes wait until all strings are out */
    const size_t lanes_left =
        first + count < strings->count ? 0 : lanes->count - writer->lanes_done;
    const size_t lane_count = lanes_left < DICTIONARY_LANES ? lanes_left : DICTIONARY_LANES;
    struct rs_buf *body = &writer->body;
    rs_buf_reset(body);
    rs_buf_u8(body, 0);
    rs_buf_varint(body, first);
    rs_buf_varint(body, count);
    for (size_t i = first; i < first + count; i++)
        rs_buf_varint(body, strings->entries[i].length);
    rs_buf_varint(body, writer->lanes_done);
    rs_buf_varint(body, lane_count);
    for (size_t i = 0; i < lane_count; i++)
        lane_encode(&lanes->items[writer->lanes_done + i], body);
    for (size_t i = first; i < first + count; i++)
        rs_buf_bytes(body, strings->entries[i].text, strings->entries[i].length);
    struct rs_chunk_header header = {
        .kind = RS_CHUNK_DICTIONARY,
        .count = (uint32_t)(count + lane_count),
        .strings_count = (uint32_t)(first + count),
        .lanes_count = (uint32_t)(writer->lanes_done + lane_count),
    };
    const enum rs_status status = seal_small(writer, &header, err);
    if (status == RS_OK) {
        writer->strings_done += count;
        writer->lanes_done += lane_count;
    }
    return status;
}

static enum rs_status put_dictionary(struct rs_chunk_writer *writer, struct rs_err *err)
{
    while (writer->strings_done < writer->options.strings->count ||
           writer->lanes_done < writer->options.lanes->count) {
        const enum rs_status status = put_dictionary_chunk(writer, err);
        if (status != RS_OK)
            return status;
    }
    return RS_OK;
}

/* clang-format off */
#define PLAIN_COLUMNS(X) \
    X(kind) X(flags) X(phase) X(category) X(name) X(lane) X(start) X(end) X(correlation) \
    X(external_id) X(bytes) X(cpu_ns) X(input_dims) X(input_types) X(concrete_inputs)
/* clang-format on */

/* Rows first .. first + count of a batch as a batch; lends the same memory. */
static struct rs_batch slice(const struct rs_batch *batch, size_t first, size_t count)
{
    struct rs_batch part = *batch;
#define X(column) part.column += first;
    PLAIN_COLUMNS(X)
#undef X
    part.comm += first;
    part.extra_offset += first;
    part.extra_length += first;
    part.count = part.capacity = count;
    return part;
}

static enum rs_status put_rows(struct rs_chunk_writer *writer, const struct rs_batch *batch,
                               struct rs_err *err)
{
    struct rs_view body;
    enum rs_status status = encoder_run(writer->encoder, batch, &body);
    if (status != RS_OK)
        return rs_err_set(err, status, "no memory to encode %zu rows", batch->count);
    struct rs_chunk_header header = {
        .kind = RS_CHUNK_EVENTS,
        .count = (uint32_t)batch->count,
        .first_ns = batch->start[0],
        .last_ns = batch->end[0],
        .strings_count = (uint32_t)writer->strings_done,
        .lanes_count = (uint32_t)writer->lanes_done,
    };
    for (size_t row = 1; row < batch->count; row++) {
        header.first_ns = batch->start[row] < header.first_ns ? batch->start[row] : header.first_ns;
        header.last_ns = batch->end[row] > header.last_ns ? batch->end[row] : header.last_ns;
    }
    bool is_too_big;
    status = seal(writer, body, &header, &is_too_big, err);
    if (!is_too_big)
        return status;
    if (batch->count == 1)
        return rs_err_set(err, RS_LIMIT, "one row with %u bytes of extra text does not fit a chunk",
                          batch->extra_length[0]);
    const size_t half = batch->count / 2;
    const struct rs_batch head = slice(batch, 0, half);
    const struct rs_batch tail = slice(batch, half, batch->count - half);
    status = put_rows(writer, &head, err);
    return status == RS_OK ? put_rows(writer, &tail, err) : status;
}

static enum rs_status flush(struct rs_chunk_writer *writer, struct rs_err *err)
{
    enum rs_status status = put_dictionary(writer, err);
    if (status == RS_OK && writer->pending.count)
        status = put_rows(writer, &writer->pending, err);
    if (status == RS_OK)
        rs_batch_reset(&writer->pending);
    return status;
}

/* How many rows from `first` on still fit with those that wait; text counts too. */
static size_t rows_that_fit(const struct rs_chunk_writer *writer, const struct rs_batch *batch,
                            size_t first)
{
    size_t room = writer->options.rows_per_chunk - writer->pending.count;
    if (room > batch->count - first)
        room = batch->count - first;
    if (!batch->extra_bytes)
        return room;
    size_t text = writer->pending.extra_bytes;
    for (size_t i = 0; i < room; i++) {
        text += batch->extra_length[first + i];
        if (text > writer->text_cut_bytes)
            return i;
    }
    return room;
}

static enum rs_status copy_comms(struct rs_batch *to, const struct rs_batch *from, size_t at)
{
    for (size_t row = 0; row < from->count; row++) {
        to->comm[at + row] = RS_NO_COMM;
        if (from->comm[row] == RS_NO_COMM)
            continue;
        if (rs_mem_grow((void **)&to->comms, &to->comm_capacity, to->comm_count + 1,
                        sizeof *to->comms) != RS_OK)
            return RS_NOMEM;
        to->comms[to->comm_count] = from->comms[from->comm[row]];
        to->comm[at + row] = (uint32_t)to->comm_count++;
    }
    return RS_OK;
}

static enum rs_status copy_extra(struct rs_batch *to, const struct rs_batch *from, size_t at)
{
    size_t bytes = to->extra_bytes;
    for (size_t row = 0; row < from->count; row++)
        bytes += from->extra_length[row];
    if (rs_mem_grow((void **)&to->extra, &to->extra_capacity, bytes, 1) != RS_OK)
        return RS_NOMEM;
    for (size_t row = 0; row < from->count; row++) {
        const size_t length = from->extra_length[row];
        to->extra_offset[at + row] = length ? (uint32_t)to->extra_bytes : 0;
        to->extra_length[at + row] = (uint32_t)length;
        if (length)
            memcpy(to->extra + to->extra_bytes, from->extra + from->extra_offset[row], length);
        to->extra_bytes += length;
    }
    return RS_OK;
}

static enum rs_status append(struct rs_batch *to, const struct rs_batch *from)
{
    const size_t at = to->count;
#define X(column) memcpy(to->column + at, from->column, from->count * sizeof *to->column);
    PLAIN_COLUMNS(X)
#undef X
    if (copy_comms(to, from, at) != RS_OK || copy_extra(to, from, at) != RS_OK)
        return RS_NOMEM;
    to->count += from->count;
    return RS_OK;
}

/* Takes in rows from `first` on, as many as go into one step; *taken_p of them. */
static enum rs_status add_some(struct rs_chunk_writer *writer, const struct rs_batch *batch,
                               size_t first, size_t *taken_p, struct rs_err *err)
{
    size_t fitting = rows_that_fit(writer, batch, first);
    *taken_p = 0;
    if (!fitting && writer->pending.count)
        return flush(writer, err);
    if (!fitting)
        fitting = 1; /* one row with more text than a chunk should have */
    const struct rs_batch part = slice(batch, first, fitting);
    *taken_p = fitting;
    if (fitting == writer->options.rows_per_chunk) {
        const enum rs_status status = put_dictionary(writer, err);
        return status == RS_OK ? put_rows(writer, &part, err) : status;
    }
    if (append(&writer->pending, &part) != RS_OK)
        return rs_err_set(err, RS_NOMEM, "no memory for rows that wait to be sealed");
    return writer->pending.count == writer->options.rows_per_chunk ||
                   writer->pending.extra_bytes >= writer->text_cut_bytes
               ? flush(writer, err)
               : RS_OK;
}

/* Remembers a failure: what was put can no longer be told from what was not. */
static enum rs_status ended(struct rs_chunk_writer *writer, enum rs_status status)
{
    if (status < RS_OK)
        writer->broken = status;
    return status;
}

static enum rs_status answer_broken(const struct rs_chunk_writer *writer, struct rs_err *err)
{
    return rs_err_set(err, writer->broken, "the chunk stream ended earlier: %s",
                      rs_status_text(writer->broken));
}

enum rs_status rs_chunk_writer_add(struct rs_chunk_writer *writer, const struct rs_batch *batch,
                                   struct rs_err *err)
{
    if (writer->broken != RS_OK)
        return answer_broken(writer, err);
    if (batch->strings != writer->options.strings || batch->lanes != writer->options.lanes)
        return rs_err_set(err, RS_INVALID, "a batch of another stream's tables");
    const enum rs_status checked = rs_batch_check(batch, err);
    if (checked != RS_OK)
        return checked;
    for (size_t first = 0, taken; first < batch->count; first += taken) {
        const enum rs_status status = add_some(writer, batch, first, &taken, err);
        if (status != RS_OK)
            return ended(writer, status);
    }
    for (size_t row = 0; row < batch->count; row++)
        writer->totals.extra_raw_bytes += batch->extra_length[row];
    return RS_OK;
}

enum rs_status rs_chunk_writer_flush(struct rs_chunk_writer *writer, struct rs_err *err)
{
    return writer->broken != RS_OK ? answer_broken(writer, err) : ended(writer, flush(writer, err));
}

enum rs_status rs_chunk_writer_info(struct rs_chunk_writer *writer,
                                    const struct rs_trace_info *info, bool is_end,
                                    struct rs_err *err)
{
    const enum rs_status status = rs_chunk_writer_flush(writer, err);
    if (status != RS_OK)
        return status;
    struct rs_buf *body = &writer->body;
    rs_buf_reset(body);
    info_encode(info, body);
    rs_buf_varint(body, writer->totals.rows);
    rs_buf_varint(body, writer->totals.chunks);
    rs_buf_varint(body, writer->totals.bytes);
    rs_buf_varint(body, writer->totals.extra_raw_bytes);
    struct rs_chunk_header header = {
        .kind = RS_CHUNK_INFO,
        .flags = is_end ? RS_CHUNK_END : 0,
        .strings_count = (uint32_t)writer->strings_done,
        .lanes_count = (uint32_t)writer->lanes_done,
    };
    return ended(writer, seal_small(writer, &header, err));
}

enum rs_status rs_chunk_writer_summary(struct rs_chunk_writer *writer, struct rs_view bytes,
                                       struct rs_err *err)
{
    if (writer->broken != RS_OK)
        return answer_broken(writer, err);
    if (bytes.length > RS_CHUNK_SUMMARY_MAX_BYTES)
        return rs_err_set(err, RS_LIMIT, "a summary of %zu bytes; at most %d are sent",
                          bytes.length, RS_CHUNK_SUMMARY_MAX_BYTES);
    const size_t parts =
        bytes.length ? (bytes.length + SUMMARY_PART_BYTES - 1) / SUMMARY_PART_BYTES : 1;
    for (size_t part = 0; part < parts; part++) {
        const size_t left = bytes.length;
        const struct rs_view body =
            rs_view_take(&bytes, left < SUMMARY_PART_BYTES ? left : SUMMARY_PART_BYTES);
        struct rs_chunk_header header = {
            .kind = RS_CHUNK_SUMMARY,
            .part_index = (uint32_t)part,
            .part_count = (uint32_t)parts,
            .strings_count = 0,
        };
        bool is_too_big;
        const enum rs_status status = seal(writer, body, &header, &is_too_big, err);
        if (status != RS_OK)
            return ended(writer, status);
    }
    return RS_OK;
}

struct rs_chunk_totals rs_chunk_writer_totals(const struct rs_chunk_writer *writer)
{
    return writer->totals;
}

static enum rs_status sink_batch(void *self, const struct rs_batch *batch, struct rs_err *err)
{
    return rs_chunk_writer_add(self, batch, err);
}

struct rs_sink rs_chunk_writer_sink(struct rs_chunk_writer *writer)
{
    return (struct rs_sink){.batch = sink_batch, .self = writer};
}
