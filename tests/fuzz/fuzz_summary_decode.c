/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as the body of a rank summary. The header would stop nearly every input at the door, so it
 * is put before them, right, of each version that is read. What is not refused must write and read as the same bytes again.
 */
#include "common/base/check.h"
#include "common/base/digest.h"
#include "common/reduce/summary.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void seal(struct rs_buf *bytes, uint32_t version, const uint8_t *data, size_t size)
{
    rs_buf_bytes(bytes, "RSSUMMRY", 8);
    rs_buf_u32(bytes, version);
    rs_buf_u32(bytes, 0);
    rs_buf_u64(bytes, size);
    rs_buf_bytes(bytes, data, size);
    const uint32_t crc = rs_crc32c(0, bytes->data + 16, bytes->length - 16);
    for (int i = 0; i < 4; i++)
        bytes->data[12 + i] = (uint8_t)(crc >> (8 * i));
}

static void try_version(uint32_t version, const uint8_t *data, size_t size)
{
    struct rs_buf bytes = {0}, first = {0}, second = {0};
    struct rs_summary summary, again;
    struct rs_err err;
    seal(&bytes, version, data, size);
    if (rs_summary_decode(rs_view_of(bytes.data, bytes.length), &summary, &err) == RS_OK) {
        RS_CHECK(rs_summary_encode(&summary, &first, &err) == RS_OK);
        RS_CHECK(rs_summary_decode(rs_view_of(first.data, first.length), &again, &err) == RS_OK);
        RS_CHECK(rs_summary_encode(&again, &second, &err) == RS_OK);
        RS_CHECK(first.length == second.length &&
                 memcmp(first.data, second.data, first.length) == 0);
        rs_summary_fini(&summary);
        rs_summary_fini(&again);
    }
    rs_buf_fini(&bytes);
    rs_buf_fini(&first);
    rs_buf_fini(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rs_summary summary;
    struct rs_err err;
    for (uint32_t version = 1; version <= 5; version++)
        try_version(version, data, size);
    if (rs_summary_decode(rs_view_of(data, size), &summary, &err) == RS_OK)
        rs_summary_fini(&summary);
    return 0;
}
