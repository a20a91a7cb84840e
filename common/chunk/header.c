/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The 64 bytes in front of every chunk (FORMAT.md, "Header"). Whoever carries chunks needs this
 * file only.
 */
#include "common/base/digest.h"
#include "common/chunk/chunk_priv.h"

#include <string.h>

enum { HEADER_CRC_OFFSET = 60 };

const char *rs_chunk_kind_text(enum rs_chunk_kind kind)
{
    switch (kind) {
    case RS_CHUNK_DICTIONARY:
        return "dictionary";
    case RS_CHUNK_EVENTS:
        return "events";
    case RS_CHUNK_INFO:
        return "info";
    case RS_CHUNK_SUMMARY:
        return "summary";
    }
    return "?";
}

static void put_u16(uint8_t *at, uint16_t value)
{
    at[0] = (uint8_t)value;
    at[1] = (uint8_t)(value >> 8);
}

static void put_u32(uint8_t *at, uint32_t value)
{
    put_u16(at, (uint16_t)value);
    put_u16(at + 2, (uint16_t)(value >> 16));
}

static void put_u64(uint8_t *at, uint64_t value)
{
    put_u32(at, (uint32_t)value);
    put_u32(at + 4, (uint32_t)(value >> 32));
}

void header_encode(const struct rs_chunk_header *header, uint8_t compression,
                   uint8_t bytes_p[RS_CHUNK_HEADER_BYTES])
{
    put_u32(bytes_p, CHUNK_MAGIC);
    put_u16(bytes_p + 4, RS_CHUNK_VERSION);
    put_u16(bytes_p + 6, RS_CHUNK_HEADER_BYTES);
    bytes_p[8] = (uint8_t)header->kind;
    bytes_p[9] = compression;
    put_u16(bytes_p + 10, header->flags);
    put_u32(bytes_p + 12, header->body_bytes);
    put_u32(bytes_p + 16, header->raw_bytes);
    put_u32(bytes_p + 20, header->count);
    put_u64(bytes_p + 24, (uint64_t)header->first_ns);
    put_u64(bytes_p + 32, (uint64_t)header->last_ns);
    put_u32(bytes_p + 40, header->part_index);
    put_u32(bytes_p + 44, header->part_count);
    put_u32(bytes_p + 48, header->strings_count);
    put_u32(bytes_p + 52, header->lanes_count);
    put_u32(bytes_p + 56, header->body_crc);
    put_u32(bytes_p + HEADER_CRC_OFFSET, rs_crc32c(0, bytes_p, HEADER_CRC_OFFSET));
}

/* What is wrong with lengths and counts, or NULL. */
static const char *broken_field(const struct rs_chunk_header *header, uint8_t compression)
{
    if (header->body_bytes > RS_CHUNK_MAX_BYTES - RS_CHUNK_HEADER_BYTES)
        return "body length";
    if (header->raw_bytes > RS_CHUNK_RAW_MAX_BYTES || compression > CHUNK_ZSTD ||
        (compression == CHUNK_STORED && header->raw_bytes != header->body_bytes))
        return "uncompressed length";
    if (header->kind < RS_CHUNK_DICTIONARY || header->kind > RS_CHUNK_SUMMARY)
        return "kind";
    if (header->flags & ~(header->kind == RS_CHUNK_INFO ? RS_CHUNK_END : 0))
        return "flags";
    if (header->kind == RS_CHUNK_EVENTS && (!header->count || header->count > RS_CHUNK_ROWS_MAX))
        return "row count";
    if (header->last_ns < header->first_ns)
        return "time";
    if (header->kind == RS_CHUNK_SUMMARY
            ? header->part_index >= header->part_count ||
                  header->part_count > RS_CHUNK_SUMMARY_MAX_BYTES / 1024
            : header->part_index || header->part_count)
        return "part";
    return NULL;
}

enum rs_status header_decode(struct rs_view bytes, struct rs_chunk_header *header_p,
                             uint8_t *compression_p, struct rs_err *err)
{
    if (bytes.length < RS_CHUNK_HEADER_BYTES)
        return rs_err_set(err, RS_FORMAT, "a chunk's header is cut: %zu of %d bytes", bytes.length,
                          RS_CHUNK_HEADER_BYTES);
    const uint32_t crc = rs_crc32c(0, bytes.data, HEADER_CRC_OFFSET);
    struct rs_chunk_header header = {0};
    if (rs_view_u32(&bytes) != CHUNK_MAGIC)
        return rs_err_set(err, RS_FORMAT, "no chunk starts here: the magic number is missing");
    const uint16_t version = rs_view_u16(&bytes);
    const uint16_t header_bytes = rs_view_u16(&bytes);
    header.kind = (enum rs_chunk_kind)rs_view_u8(&bytes);
    const uint8_t compression = rs_view_u8(&bytes);
    header.flags = rs_view_u16(&bytes);
    header.body_bytes = rs_view_u32(&bytes);
    header.chunk_bytes = RS_CHUNK_HEADER_BYTES + header.body_bytes;
    header.raw_bytes = rs_view_u32(&bytes);
    header.count = rs_view_u32(&bytes);
    header.first_ns = (rs_ns)rs_view_u64(&bytes);
    header.last_ns = (rs_ns)rs_view_u64(&bytes);
    header.part_index = rs_view_u32(&bytes);
    header.part_count = rs_view_u32(&bytes);
    header.strings_count = rs_view_u32(&bytes);
    header.lanes_count = rs_view_u32(&bytes);
    header.body_crc = rs_view_u32(&bytes);
    if (rs_view_u32(&bytes) != crc)
        return rs_err_set(err, RS_FORMAT, "a chunk's header is damaged: its checksum differs");
    if (version != RS_CHUNK_VERSION)
        return rs_err_set(err, RS_VERSION, "a chunk of version %u; this program reads version %d",
                          version, RS_CHUNK_VERSION);
    const char *broken = header_bytes != RS_CHUNK_HEADER_BYTES ? "header length"
                                                               : broken_field(&header, compression);
    if (broken)
        return rs_err_set(err, RS_FORMAT, "a chunk's header has a bad %s", broken);
    *header_p = header;
    *compression_p = compression;
    return RS_OK;
}

enum rs_status rs_chunk_peek(struct rs_view bytes, struct rs_chunk_header *header_p,
                             struct rs_err *err)
{
    uint8_t compression;
    return header_decode(bytes, header_p, &compression, err);
}

enum rs_status rs_chunk_verify(struct rs_view bytes, struct rs_chunk_header *header_p,
                               struct rs_err *err)
{
    struct rs_chunk_header header = {0};
    const enum rs_status status = rs_chunk_peek(bytes, &header, err);
    if (status != RS_OK)
        return status;
    if (bytes.length != header.chunk_bytes)
        return rs_err_set(err, RS_FORMAT, "a chunk of %u bytes has %zu", header.chunk_bytes,
                          bytes.length);
    if (rs_crc32c(0, bytes.data + RS_CHUNK_HEADER_BYTES, header.body_bytes) != header.body_crc)
        return rs_err_set(err, RS_FORMAT, "a chunk's body is damaged: its checksum differs");
    *header_p = header;
    return RS_OK;
}
