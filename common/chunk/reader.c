/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader: chunks in, batches out. Believes nothing until the header's checksum, the length, the
 * body's checksum and the decompressed length agree, and then still checks what it decodes.
 */
#include "common/base/mem.h"
#include "common/chunk/chunk_priv.h"

#include <string.h>
#define ZSTD_STATIC_LINKING_ONLY /* a context with an allocator of our own */
#include <zstd.h>

struct rs_chunk_reader_priv {
    ZSTD_DCtx *zstd;
    struct decoder *decoder;
    struct rs_buf raw;     /* the decompressed body */
    struct rs_buf piece;   /* a long string's first pieces */
    struct rs_buf staging; /* a summary's first parts */
    uint32_t next_part;
    uint32_t part_count;
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

void rs_chunk_reader_fini(struct rs_chunk_reader *reader)
{
    struct rs_chunk_reader_priv *priv = reader->priv;
    if (priv) {
        (void)ZSTD_freeDCtx(priv->zstd);
        decoder_free(&priv->decoder);
        rs_buf_fini(&priv->raw);
        rs_buf_fini(&priv->piece);
        rs_buf_fini(&priv->staging);
        rs_mem_free(priv);
    }
    rs_strtab_fini(&reader->strings);
    rs_lanes_fini(&reader->lanes);
    rs_trace_info_fini(&reader->info);
    rs_buf_fini(&reader->summary);
    *reader = (struct rs_chunk_reader){0};
}

enum rs_status rs_chunk_reader_init(struct rs_chunk_reader *reader, size_t strings_limit_bytes)
{
    *reader = (struct rs_chunk_reader){0};
    rs_trace_info_init(&reader->info);
    reader->priv = rs_mem_calloc(1, sizeof *reader->priv);
    if (!reader->priv)
        return RS_NOMEM;
    reader->priv->zstd = ZSTD_createDCtx_advanced((ZSTD_customMem){zstd_alloc, zstd_free, NULL});
    if (!reader->priv->zstd || decoder_new(&reader->priv->decoder) != RS_OK ||
        rs_strtab_init(&reader->strings, strings_limit_bytes) != RS_OK) {
        rs_chunk_reader_fini(reader);
        return RS_NOMEM;
    }
    return RS_OK;
}

static enum rs_status open_body(struct rs_chunk_reader_priv *priv, struct rs_view stored,
                                const struct rs_chunk_header *header, uint8_t compression,
                                struct rs_view *body_p, struct rs_err *err)
{
    if (compression == CHUNK_STORED) {
        *body_p = stored;
        return RS_OK;
    }
    rs_buf_reset(&priv->raw);
    /* one byte more, so that an empty body has an address */
    uint8_t *to = rs_buf_reserve(&priv->raw, (size_t)header->raw_bytes + 1);
    if (!to)
        return rs_err_set(err, RS_NOMEM, "no memory for a chunk of %u bytes", header->raw_bytes);
    const size_t got =
        ZSTD_decompressDCtx(priv->zstd, to, header->raw_bytes, stored.data, stored.length);
    if (ZSTD_isError(got) || got != header->raw_bytes)
        return rs_err_set(err, RS_FORMAT, "a chunk's body does not decompress to %u bytes",
                          header->raw_bytes);
    *body_p = rs_view_of(to, got);
    return RS_OK;
}

static enum rs_status bad_dictionary(struct rs_err *err, const char *what)
{
    return rs_err_set(err, RS_FORMAT, "a dictionary chunk %s", what);
}

static enum rs_status learn_string(struct rs_chunk_reader *reader, uint64_t id,
                                   struct rs_view bytes, struct rs_err *err)
{
    const struct rs_strtab *strings = &reader->strings;
    if (id < strings->count) {
        if (rs_strtab_length(strings, (rs_str)id) != bytes.length ||
            memcmp(rs_strtab_text(strings, (rs_str)id), bytes.data, bytes.length) != 0)
            return bad_dictionary(err, "gives a known id another text");
        return RS_OK;
    }
    if (id > strings->count)
        return bad_dictionary(err, "is missing: string ids leave a gap");
    rs_str got;
    const enum rs_status status =
        rs_strtab_add(&reader->strings, (const char *)bytes.data, bytes.length, &got);
    if (status != RS_OK)
        return rs_err_set(err, status, "the strings of a stream do not fit: %s",
                          rs_status_text(status));
    return got == id ? RS_OK : bad_dictionary(err, "names one text twice");
}

static bool is_string(const struct rs_chunk_reader *reader, rs_str id)
{
    return id == RS_STR_NONE || id < reader->strings.count;
}

static bool same_lane(const struct rs_lane *a, const struct rs_lane *b)
{
    return a->kind == b->kind && a->device == b->device && a->process == b->process &&
           a->thread == b->thread && a->process_text == b->process_text &&
           a->thread_text == b->thread_text;
}

static enum rs_status learn_lane(struct rs_chunk_reader *reader, uint64_t id,
                                 const struct rs_lane *lane, struct rs_err *err)
{
    struct rs_lanes *lanes = &reader->lanes;
    if (id < lanes->count)
        return same_lane(&lanes->items[id], lane)
                   ? RS_OK
                   : bad_dictionary(err, "gives a known lane other coordinates");
    if (id > lanes->count)
        return bad_dictionary(err, "is missing: lane ids leave a gap");
    if (!is_string(reader, lane->process_text) || !is_string(reader, lane->thread_text))
        return bad_dictionary(err, "has a lane with an unknown string");
    if (rs_mem_grow((void **)&lanes->items, &lanes->capacity, lanes->count + 1,
                    sizeof *lanes->items) != RS_OK)
        return rs_err_set(err, RS_NOMEM, "no memory for a lane");
    lanes->items[lanes->count++] = *lane;
    return RS_OK;
}

static enum rs_status read_lanes(struct rs_chunk_reader *reader, struct rs_view *body,
                                 uint64_t first, uint64_t count, struct rs_err *err)
{
    for (uint64_t i = 0; i < count; i++) {
        struct rs_lane lane;
        lane_decode(body, &lane);
        if (body->failed)
            return bad_dictionary(err, "has a damaged lane");
        const enum rs_status status = learn_lane(reader, first + i, &lane, err);
        if (status != RS_OK)
            return status;
    }
    return RS_OK;
}

/* Strings' lengths, then lanes, then the strings' bytes: so the strings are learnt first. */
static enum rs_status read_entries(struct rs_chunk_reader *reader, struct rs_view body,
                                   struct rs_err *err)
{
    const uint64_t first = rs_view_varint(&body);
    const uint64_t count = rs_view_varint(&body);
    if (body.failed || count > body.length || first > UINT32_MAX)
        return bad_dictionary(err, "has a bad count");
    struct rs_view lengths = body;
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t length = rs_view_varint(&body);
        if (body.failed || length > RS_CHUNK_RAW_MAX_BYTES)
            return bad_dictionary(err, "has a bad string length");
        bytes += length;
    }
    if (bytes > body.length)
        return bad_dictionary(err, "is shorter than its strings");
    struct rs_view text = rs_view_of(body.data + body.length - bytes, (size_t)bytes);
    body.length -= (size_t)bytes;
    for (uint64_t i = 0; i < count; i++) {
        const struct rs_view one = rs_view_take(&text, (size_t)rs_view_varint(&lengths));
        const enum rs_status status = learn_string(reader, first + i, one, err);
        if (status != RS_OK)
            return status;
    }
    const uint64_t first_lane = rs_view_varint(&body);
    const uint64_t lane_count = rs_view_varint(&body);
    if (body.failed || lane_count > body.length || first_lane > UINT32_MAX)
        return bad_dictionary(err, "has a bad count of lanes");
    const enum rs_status status = read_lanes(reader, &body, first_lane, lane_count, err);
    return status == RS_OK && body.length ? bad_dictionary(err, "is longer than its entries")
                                          : status;
}

static enum rs_status read_piece(struct rs_chunk_reader *reader, struct rs_view body,
                                 struct rs_err *err)
{
    struct rs_buf *piece = &reader->priv->piece;
    const uint64_t id = rs_view_varint(&body);
    const uint64_t length = rs_view_varint(&body);
    const uint64_t offset = rs_view_varint(&body);
    if (body.failed || length > UINT32_MAX || offset > length || body.length > length - offset)
        return bad_dictionary(err, "has a bad piece of a string");
    if (length > reader->strings.limit_bytes)
        return rs_err_set(err, RS_LIMIT, "a string of %llu bytes", (unsigned long long)length);
    if (offset == 0)
        rs_buf_reset(piece);
    if (offset != piece->length)
        return bad_dictionary(err, "is missing: pieces of a string leave a gap");
    rs_buf_bytes(piece, body.data, body.length);
    if (piece->failed) {
        rs_buf_reset(piece);
        return rs_err_set(err, RS_NOMEM, "no memory for a long string");
    }
    if (piece->length < length)
        return RS_OK;
    const enum rs_status status =
        learn_string(reader, id, rs_view_of(piece->data, piece->length), err);
    rs_buf_reset(piece);
    return status;
}

static enum rs_status read_dictionary(struct rs_chunk_reader *reader, struct rs_view body,
                                      struct rs_err *err)
{
    const uint8_t form = rs_view_u8(&body);
    if (body.failed || form > 1)
        return bad_dictionary(err, "has an unknown form");
    return form ? read_piece(reader, body, err) : read_entries(reader, body, err);
}

static bool info_strings_are_known(const struct rs_chunk_reader *reader,
                                   const struct rs_trace_info *info)
{
    bool known = is_string(reader, info->host) && is_string(reader, info->trace_id) &&
                 is_string(reader, info->backend) && is_string(reader, info->generation) &&
                 is_string(reader, info->metadata) && is_string(reader, info->partial_reason);
    for (size_t i = 0; i < info->group_count; i++)
        known = known && is_string(reader, info->groups[i].name) &&
                is_string(reader, info->groups[i].description);
    for (size_t i = 0; i < info->drop_count; i++)
        known = known && info->drops[i].reason < reader->strings.count;
    return known;
}

static enum rs_status read_info(struct rs_chunk_reader *reader, struct rs_view body,
                                const struct rs_chunk_header *header, struct rs_err *err)
{
    struct rs_trace_info info;
    const enum rs_status status = info_decode(&body, &info);
    if (status != RS_OK)
        return rs_err_set(err, status, "an info chunk is damaged");
    struct rs_chunk_totals totals = {0};
    totals.rows = rs_view_varint(&body);
    totals.chunks = rs_view_varint(&body);
    totals.bytes = rs_view_varint(&body);
    totals.extra_raw_bytes = rs_view_varint(&body);
    if (body.failed || body.length || !info_strings_are_known(reader, &info)) {
        rs_trace_info_fini(&info);
        return rs_err_set(err, RS_FORMAT, "an info chunk is damaged");
    }
    rs_trace_info_fini(&reader->info);
    reader->info = info;
    reader->has_info = true;
    if (header->flags & RS_CHUNK_END) {
        reader->has_end = true;
        reader->end = totals;
    }
    return RS_OK;
}

static enum rs_status read_summary(struct rs_chunk_reader *reader, struct rs_view body,
                                   const struct rs_chunk_header *header, struct rs_err *err)
{
    struct rs_chunk_reader_priv *priv = reader->priv;
    if (header->part_index == 0) {
        rs_buf_reset(&priv->staging);
        priv->next_part = 0;
        priv->part_count = header->part_count;
    }
    if (header->part_index != priv->next_part || header->part_count != priv->part_count)
        return rs_err_set(err, RS_FORMAT, "part %u of a summary is missing", priv->next_part);
    if (body.length > RS_CHUNK_SUMMARY_MAX_BYTES - priv->staging.length)
        return rs_err_set(err, RS_LIMIT, "a summary of more than %d bytes",
                          RS_CHUNK_SUMMARY_MAX_BYTES);
    rs_buf_bytes(&priv->staging, body.data, body.length);
    if (priv->staging.failed) {
        priv->part_count = 0; /* only part 0 can start again */
        return rs_err_set(err, RS_NOMEM, "no memory for a summary");
    }
    if (++priv->next_part < priv->part_count)
        return RS_OK;
    const struct rs_buf old = reader->summary;
    reader->summary = priv->staging;
    priv->staging = old;
    rs_buf_reset(&priv->staging);
    priv->part_count = 0;
    reader->has_summary = true;
    return RS_OK;
}

static enum rs_status read_events(struct rs_chunk_reader *reader, struct rs_view body,
                                  const struct rs_chunk_header *header,
                                  const struct rs_batch **batch_p, struct rs_err *err)
{
    const struct rs_batch *batch;
    const enum rs_status status =
        decoder_run(reader->priv->decoder, reader, body, header->count, &batch, err);
    if (status != RS_OK)
        return status;
    rs_ns first_ns = batch->start[0];
    rs_ns last_ns = batch->end[0];
    for (size_t row = 1; row < batch->count; row++) {
        first_ns = batch->start[row] < first_ns ? batch->start[row] : first_ns;
        last_ns = batch->end[row] > last_ns ? batch->end[row] : last_ns;
    }
    if (first_ns != header->first_ns || last_ns != header->last_ns)
        return rs_err_set(err, RS_FORMAT,
                          "an events chunk's header names other times than its rows");
    *batch_p = batch;
    reader->rows_read += batch->count;
    return RS_OK;
}

enum rs_status rs_chunk_read(struct rs_chunk_reader *reader, struct rs_view bytes,
                             const struct rs_batch **batch_p, struct rs_chunk_header *header_p,
                             struct rs_err *err)
{
    struct rs_chunk_header header;
    uint8_t compression = CHUNK_STORED;
    struct rs_view body = {0};
    enum rs_status status = rs_chunk_verify(bytes, &header, err);
    if (status == RS_OK)
        status = header_decode(bytes, &header, &compression, err);
    if (status != RS_OK)
        return status;
    if (header.kind != RS_CHUNK_DICTIONARY &&
        (header.strings_count > reader->strings.count || header.lanes_count > reader->lanes.count))
        return rs_err_set(err, RS_FORMAT,
                          "a dictionary chunk is missing: %u strings needed, %zu known",
                          header.strings_count, reader->strings.count);
    struct rs_view stored = bytes;
    (void)rs_view_take(&stored, RS_CHUNK_HEADER_BYTES);
    status = open_body(reader->priv, stored, &header, compression, &body, err);
    if (status != RS_OK)
        return status;
    const struct rs_batch *batch = NULL;
    switch (header.kind) {
    case RS_CHUNK_DICTIONARY:
        status = read_dictionary(reader, body, err);
        break;
    case RS_CHUNK_EVENTS:
        status = read_events(reader, body, &header, &batch, err);
        break;
    case RS_CHUNK_INFO:
        status = read_info(reader, body, &header, err);
        break;
    case RS_CHUNK_SUMMARY:
        status = read_summary(reader, body, &header, err);
        break;
    }
    if (status != RS_OK)
        return status;
    reader->chunks_read++;
    *batch_p = batch;
    if (header_p)
        *header_p = header;
    return RS_OK;
}
