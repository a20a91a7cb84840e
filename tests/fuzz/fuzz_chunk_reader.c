/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a stream of chunks. Checksums would stop nearly every input at the door, so each chunk's
 * are made right first; bodies come stored or compressed as the header says. What is not refused must
 * pass rs_batch_check().
 *
 * Input: repeated (u16 little-endian length, that many bytes of a chunk).
 */
#include "common/base/check.h"
#include "common/base/digest.h"
#include "common/base/mem.h"
#include "common/chunk/chunk_priv.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void put_u32(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

/* Right magic, lengths and checksums, so that the decoders are reached. */
static void mend(uint8_t *chunk, size_t length)
{
    const size_t body = length - RS_CHUNK_HEADER_BYTES;
    put_u32(chunk, CHUNK_MAGIC);
    chunk[4] = RS_CHUNK_VERSION;
    chunk[5] = 0;
    chunk[6] = RS_CHUNK_HEADER_BYTES;
    chunk[7] = 0;
    put_u32(chunk + 12, (uint32_t)body);
    if (chunk[9] == CHUNK_STORED)
        put_u32(chunk + 16, (uint32_t)body);
    put_u32(chunk + 56, rs_crc32c(0, chunk + RS_CHUNK_HEADER_BYTES, body));
    put_u32(chunk + 60, rs_crc32c(0, chunk, 60));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rs_chunk_reader reader;
    struct rs_view input = rs_view_of(data, size);
    RS_CHECK(rs_chunk_reader_init(&reader, 1 << 20) == RS_OK);
    while (input.length >= 2) {
        const uint16_t length = rs_view_u16(&input);
        const struct rs_view part =
            rs_view_take(&input, length < input.length ? length : input.length);
        uint8_t *chunk = rs_mem_calloc(1, part.length + 1);
        const struct rs_batch *batch = NULL;
        struct rs_err err;
        RS_CHECK(chunk);
        if (part.length)
            memcpy(chunk, part.data, part.length);
        if (part.length >= RS_CHUNK_HEADER_BYTES)
            mend(chunk, part.length);
        if (rs_chunk_read(&reader, rs_view_of(chunk, part.length), &batch, NULL, &err) == RS_OK &&
            batch)
            RS_CHECK(rs_batch_check(batch, &err) == RS_OK);
        rs_mem_free(chunk);
    }
    rs_chunk_reader_fini(&reader);
    return 0;
}
