/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What strangers send about a rank's communication: the first byte says as what the rest is read.
 * Whatever is read whole must encode to a blob that decodes to the same blob.
 */
#include "ascend/format/comm.h"
#include "ascend/format/step.h"
#include "common/base/check.h"
#include "common/base/digest.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void walk(const struct rs_ascend_comm *comm)
{
    struct rs_ascend_num times[RS_ASCEND_COMM_TIMES], fields[RS_ASCEND_COMM_BAND_FIELDS], a, b;
    char text[RS_ASCEND_NUM_TEXT_BYTES];
    for (size_t i = 0; i < comm->op_count; i++) {
        struct rs_ascend_comm_cursor cursor;
        rs_str id = 0;
        rs_ascend_comm_op_open(comm, &comm->ops[i], &cursor, times);
        while (rs_ascend_comm_band(&cursor, &id, fields)) {
            RS_CHECK(rs_strtab_text(&comm->names, id));
            RS_CHECK(rs_ascend_num_print(&fields[0], text) <= sizeof text);
            while (rs_ascend_comm_package(&cursor, &id, &a, &b))
                RS_CHECK(rs_strtab_text(&comm->names, id));
        }
    }
    for (size_t i = 0; i < comm->link_count; i++)
        rs_ascend_comm_link_open(comm, &comm->links[i], fields);
}

static void round_trip(const struct rs_ascend_comm *comm)
{
    struct rs_buf once = {0}, twice = {0};
    struct rs_ascend_comm again;
    if (rs_ascend_comm_encode(comm, &once, NULL) == RS_OK) {
        RS_CHECK(rs_ascend_comm_decode(once.data, once.length, &again, NULL) == RS_OK);
        RS_CHECK(rs_ascend_comm_encode(&again, &twice, NULL) == RS_OK);
        RS_CHECK(once.length == twice.length && memcmp(once.data, twice.data, once.length) == 0);
        rs_ascend_comm_fini(&again);
    }
    rs_buf_fini(&once);
    rs_buf_fini(&twice);
}

static void read_json(enum rs_ascend_comm_part part, const uint8_t *data, size_t size)
{
    struct rs_ascend_comm comm;
    if (rs_ascend_comm_init(&comm) != RS_OK)
        return;
    if (rs_ascend_comm_parse(&comm, part, data, size, "fuzz", NULL) == RS_OK) {
        walk(&comm);
        round_trip(&comm);
    }
    rs_ascend_comm_fini(&comm);
}

/* A blob's body with the head that fits: the checksum would stop nearly every input at the door. */
static void read_body(const uint8_t *data, size_t size)
{
    struct rs_ascend_comm comm;
    struct rs_buf blob = {0};
    rs_buf_string(&blob, "RSVC");
    rs_buf_u32(&blob, 1);
    rs_buf_u64(&blob, size);
    rs_buf_u32(&blob, rs_crc32c(0, data, size));
    rs_buf_bytes(&blob, data, size);
    if (rs_ascend_comm_decode(blob.data, blob.length, &comm, NULL) == RS_OK) {
        walk(&comm);
        round_trip(&comm);
        rs_ascend_comm_fini(&comm);
    }
    rs_buf_fini(&blob);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rs_ascend_steps steps;
    if (size == 0)
        return 0;
    switch (data[0]) {
    case 'o':
        read_json(RS_ASCEND_COMM_OPS, data + 1, size - 1);
        break;
    case 'l':
        read_json(RS_ASCEND_COMM_LINKS, data + 1, size - 1);
        break;
    case 's':
        if (rs_ascend_steps_parse(data + 1, size - 1, "fuzz", &steps, NULL) == RS_OK)
            rs_ascend_steps_fini(&steps);
        break;
    default:
        read_body(data + 1, size - 1);
        break;
    }
    return 0;
}
