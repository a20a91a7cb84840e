/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a collector sends as a dump, of any bytes: unpacked, judged, packed again. Promises held here: no crash, no memory beyond
 * the limits, a refused dump leaves nothing, what was taken comes back the same.
 */
#include "aggregator/analysis/hang/hang.h"
#include "common/base/check.h"
#include "common/flight/pack.h"

#include <zstd.h>

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The input is what stands inside the compression: a fuzzer finds no way through it. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t frame[ZSTD_COMPRESSBOUND(1 << 16)];
    struct rs_flight_set set;
    struct rs_err err = {0};
    struct rs_buf first = {0}, second = {0};
    struct rs_hang *hang = NULL;
    if (size > 1 << 16)
        return 0;
    const size_t length = ZSTD_compress(frame, sizeof frame, data, size, 1);
    RS_CHECK(!ZSTD_isError(length));
    RS_CHECK(rs_flight_set_init(&set) == RS_OK);
    if (rs_flight_unpack(frame, length, &set, &err) < 0) {
        RS_CHECK(err.text[0] && set.dump_count == 0 && set.entry_count == 0);
    } else {
        RS_CHECK(set.dump_count == 1);
        RS_CHECK(rs_flight_pack(&set, &set.dumps[0], &first, &err) == RS_OK);
        RS_CHECK(rs_flight_unpack(first.data, first.length, &set, &err) == RS_OK);
        RS_CHECK(rs_flight_pack(&set, &set.dumps[1], &second, &err) == RS_OK);
        RS_CHECK(first.length == second.length &&
                 memcmp(first.data, second.data, first.length) == 0);
        set.dumps[0].rank = 0;
        set.dumps[1].rank = 1;
        RS_CHECK(rs_flight_set_sort(&set) == RS_OK);
        RS_CHECK(rs_hang_new(&set, NULL, &hang, &err) == RS_OK);
        rs_hang_free(&hang);
    }
    rs_buf_fini(&first);
    rs_buf_fini(&second);
    rs_flight_set_fini(&set);
    return 0;
}
