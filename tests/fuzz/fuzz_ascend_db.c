/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A database of anyone's bytes, read by hand: header, schema, pages, and SQLite where that is not to be done. The first
 * byte says whether the file is read whole or page by page. What a visitor is shown must be what is kept.
 */
#include "ascend/format/comm.h"
#include "ascend/format/step.h"
#include "common/base/check.h"
#include "common/base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ENOUGH_BYTES = 1 << 20 };

struct seen {
    size_t ops, bands, packages;
};

static enum rs_status see_op(void *context, const struct rs_ascend_comm_op *op,
                             const struct rs_ascend_num *times)
{
    struct seen *seen = context;
    (void)op;
    for (int i = 0; i < RS_ASCEND_COMM_TIMES; i++)
        RS_CHECK(times[i].kind < RS_ASCEND_NUM_KINDS);
    seen->ops++;
    return RS_OK;
}

static enum rs_status see_band(void *context, rs_str transport, const struct rs_ascend_num *fields)
{
    struct seen *seen = context;
    char text[RS_ASCEND_NUM_TEXT_BYTES];
    (void)transport;
    RS_CHECK(seen->ops > 0 && rs_ascend_num_print(&fields[0], text) <= sizeof text);
    seen->bands++;
    return RS_OK;
}

static enum rs_status see_package(void *context, rs_str size, const struct rs_ascend_num *count,
                                  const struct rs_ascend_num *duration)
{
    struct seen *seen = context;
    (void)size;
    RS_CHECK(seen->bands > 0 && rs_ascend_num_double(count) == rs_ascend_num_double(count) &&
             duration->kind < RS_ASCEND_NUM_KINDS);
    seen->packages++;
    return RS_OK;
}

static void read_comm(struct rs_ascend_db *db)
{
    struct seen seen = {0};
    const struct rs_ascend_comm_visitor visitor = {&seen, see_op, see_band, see_package};
    struct rs_ascend_comm shown, kept;
    if (rs_ascend_comm_init(&shown) != RS_OK)
        return;
    if (rs_ascend_comm_init(&kept) == RS_OK) {
        const enum rs_status visited = rs_ascend_comm_visit_db(&shown, db, &visitor, NULL);
        const enum rs_status read = rs_ascend_comm_read_db(&kept, RS_ASCEND_COMM_OPS, db, NULL);
        if (visited == RS_OK && read == RS_OK)
            RS_CHECK(seen.ops == kept.op_count);
        (void)!rs_ascend_comm_read_db(&kept, RS_ASCEND_COMM_LINKS, db, NULL);
    }
    rs_ascend_comm_fini(&kept);
    rs_ascend_comm_fini(&shown);
}

static void read_rest(struct rs_ascend_db *db)
{
    struct rs_ascend_steps steps = {0};
    struct rs_ascend_place place = {.device = -1};
    struct rs_ascend_metadata meta;
    if (rs_ascend_steps_read_db(db, &steps, NULL) == RS_OK)
        rs_ascend_steps_fini(&steps);
    if (rs_ascend_place_read(db, &place, NULL) == RS_OK)
        rs_ascend_place_fini(&place);
    if (rs_ascend_db_metadata(db, &meta, NULL) == RS_OK)
        rs_ascend_metadata_fini(&meta);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[] = "/tmp/rs-fuzz-vendor-db-XXXXXX";
    struct rs_ascend_db *db = NULL;
    if (size < 2 || size > ENOUGH_BYTES)
        return 0;
    const int fd = mkstemp(path);
    if (fd < 0)
        return 0;
    const bool is_written = write(fd, data + 1, size - 1) == (ssize_t)(size - 1);
    (void)close(fd);
    if (is_written && rs_ascend_db_open(path, &db, NULL) == RS_OK) {
        if (data[0] & 2)
            read_rest(db);
        read_comm(db);
        read_rest(db);
        rs_ascend_db_close(&db);
    }
    (void)unlink(path);
    return 0;
}
