/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank's result folder for tests, and what reading it gives: all rows, copied.
 */
#ifndef RS_TESTS_ASCEND_SUPPORT_H
#define RS_TESTS_ASCEND_SUPPORT_H

#include "ascend/source/ascend.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "tests/support/rs_test.h"
#include "tests/support/tmp_dir.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct seen_row {
    enum rs_kind kind;
    uint8_t flags;
    char name[64];
    struct rs_lane lane;
    rs_ns start, end;
    int64_t correlation, external_id, bytes;
    char category[32], extra[512];
    bool has_comm;
    struct rs_comm comm;
    char group[64], ranks[64], collective[32], dtype[32], transport[16];
};

enum { SEEN_MAX = 512 };

struct seen {
    struct seen_row rows[SEEN_MAX];
    size_t count;
    struct rs_source_stream stream;
    enum rs_status status;
    struct rs_err err;
};

static inline void seen_text(const struct rs_strtab *strings, rs_str id, char *text, size_t bytes)
{
    (void)snprintf(text, bytes, "%s", id == RS_STR_NONE ? "" : rs_strtab_text(strings, id));
}

static inline enum rs_status see(void *self, const struct rs_batch *batch, struct rs_err *err)
{
    struct seen *seen = self;
    if (rs_batch_check(batch, err) != RS_OK)
        return RS_INVALID;
    for (size_t i = 0; i < batch->count; i++) {
        assert_true(seen->count < SEEN_MAX);
        struct seen_row *row = &seen->rows[seen->count++];
        *row = (struct seen_row){.kind = (enum rs_kind)batch->kind[i],
                                 .flags = batch->flags[i],
                                 .lane = batch->lanes->items[batch->lane[i]],
                                 .start = batch->start[i],
                                 .end = batch->end[i],
                                 .correlation = batch->correlation[i],
                                 .external_id = batch->external_id[i],
                                 .bytes = batch->bytes[i],
                                 .has_comm = batch->comm[i] != RS_NO_COMM};
        seen_text(batch->strings, batch->name[i], row->name, sizeof row->name);
        seen_text(batch->strings, batch->category[i], row->category, sizeof row->category);
        if (batch->extra_length[i])
            (void)snprintf(row->extra, sizeof row->extra, "%.*s", (int)batch->extra_length[i],
                           batch->extra + batch->extra_offset[i]);
        if (!row->has_comm)
            continue;
        row->comm = batch->comms[batch->comm[i]];
        seen_text(batch->strings, row->comm.group_name, row->group, sizeof row->group);
        seen_text(batch->strings, row->comm.group_ranks, row->ranks, sizeof row->ranks);
        seen_text(batch->strings, row->comm.collective, row->collective, sizeof row->collective);
        seen_text(batch->strings, row->comm.dtype, row->dtype, sizeof row->dtype);
        seen_text(batch->strings, row->comm.transport, row->transport, sizeof row->transport);
    }
    return RS_OK;
}

/* The only row of this kind and name. */
static inline const struct seen_row *the_row(const struct seen *seen, enum rs_kind kind,
                                             const char *name)
{
    const struct seen_row *found = NULL;
    for (size_t i = 0; i < seen->count; i++) {
        if (seen->rows[i].kind != kind || strcmp(seen->rows[i].name, name) != 0)
            continue;
        if (found)
            fail_msg("two rows %s %s", rs_kind_text(kind), name);
        found = &seen->rows[i];
    }
    if (!found)
        fail_msg("no row %s %s", rs_kind_text(kind), name);
    return found;
}

static inline size_t count_kind(const struct seen *seen, enum rs_kind kind)
{
    size_t count = 0;
    for (size_t i = 0; i < seen->count; i++)
        count += seen->rows[i].kind == kind;
    return count;
}

static inline void put_file(const char *folder, const char *name, const char *text)
{
    char path[512];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* root/node7_4711_20260102030405006_ascend_pt with its ASCEND_PROFILER_OUTPUT and a finished profiler_info. */
struct place {
    char root[64], rank[256], output[320];
};

static inline void make_place(struct place *place, int rank)
{
    char name[64];
    char text[256];
    tmp_dir_make(place->root);
    (void)snprintf(place->rank, sizeof place->rank, "%s/node7_4711_20260102030405006_ascend_pt",
                   place->root);
    (void)snprintf(place->output, sizeof place->output, "%s/ASCEND_PROFILER_OUTPUT", place->rank);
    assert_int_equal(mkdir(place->rank, 0700), 0);
    assert_int_equal(mkdir(place->output, 0700), 0);
    (void)snprintf(name, sizeof name, "profiler_info_%d.json", rank);
    (void)snprintf(text, sizeof text,
                   "{\"rank_id\": \"%d\", \"end_info\": {\"collectionTimeEnd\": 1}, "
                   "\"cann_version\": \"8.3.RC1\", \"torch_npu_version\": \"2.7.1\"}",
                   rank);
    put_file(place->rank, name, text);
}

static inline struct seen *read_place(const struct place *place, unsigned flags)
{
    struct seen *seen = calloc(1, sizeof *seen);
    struct rs_ascend_list list;
    const char *root = place->root;
    assert_non_null(seen);
    assert_ok(rs_ascend_discover(&root, 1, &list, &seen->err));
    assert_int_equal(list.count, 1);
    assert_ok(rs_source_stream_init(&seen->stream));
    const struct rs_sink sink = {.batch = see, .self = seen};
    seen->status = rs_ascend_read(&list.ranks[0], flags, &seen->stream, sink, &seen->err);
    rs_ascend_list_fini(&list);
    return seen;
}

static inline void forget(struct seen *seen)
{
    rs_source_stream_fini(&seen->stream);
    free(seen);
}

#endif
