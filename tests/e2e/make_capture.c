/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a capture in a store as collector and aggregator would, without either: what `rankscope report` reads.
 *
 *     make_capture DATA [--no-summary] [--cut N] TRACE...      the i-th trace is rank i
 *
 * Prints the capture's directory. --no-summary: no SUMMARY chunks; --cut N: only the first N chunks of rank 0, and no
 * end.
 */
#include "aggregator/store/store.h"
#include "collector/source/kineto.h"
#include "common/base/mem.h"
#include "common/chunk/chunk.h"
#include "common/reduce/reduce.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct maker {
    struct rs_store *store;
    struct rs_store_stream *stream;
    struct rs_store_source source;
    const char *capture;
    struct rs_chunk_writer *writer;
    struct rs_reduce *reduce;
    struct rs_buf
        held; /* the newest chunk: it is appended when the next one comes, or as the last */
    rs_seq seq, limit;
};

static struct rs_err err;

static void must(enum rs_status status, const char *what)
{
    if (status >= 0)
        return;
    fprintf(stderr, "make_capture: %s: %s\n", what, err.text);
    exit(1);
}

static void append_held(struct maker *maker, unsigned flags)
{
    struct iovec part = {maker->held.data, maker->held.length};
    if (!maker->held.length || (maker->limit && maker->seq >= maker->limit))
        return;
    const struct rs_store_chunk chunk = {
        .seq = ++maker->seq, .flags = flags, .parts = &part, .part_count = 1};
    must(rs_store_append(maker->store, maker->stream, maker->capture, &maker->source, &chunk, &err),
         "append");
}

static enum rs_status on_chunk(void *self, struct rs_view chunk,
                               const struct rs_chunk_header *header, struct rs_err *why)
{
    struct maker *maker = self;
    (void)header;
    (void)why;
    append_held(maker, 0);
    rs_buf_reset(&maker->held);
    rs_buf_bytes(&maker->held, chunk.data, chunk.length);
    return RS_OK;
}

static enum rs_status on_batch(void *self, const struct rs_batch *batch, struct rs_err *why)
{
    struct maker *maker = self;
    const enum rs_status status = rs_reduce_add(maker->reduce, batch, why);
    return status == RS_OK ? rs_chunk_writer_add(maker->writer, batch, why) : status;
}

static void put_rank(struct maker *maker, const char *path, int32_t rank, bool has_summary)
{
    struct rs_source_stream stream;
    struct rs_summary summary;
    struct rs_buf bytes = {0};
    must(rs_source_stream_init(&stream), "stream");
    must(rs_reduce_new(&stream.strings, &stream.lanes, &maker->reduce), "reduce");
    const struct rs_chunk_writer_options options = {
        .strings = &stream.strings, .lanes = &stream.lanes, .put = on_chunk, .put_self = maker};
    must(rs_chunk_writer_new(&options, &maker->writer, &err), "writer");
    const struct rs_sink sink = {.batch = on_batch, .self = maker};
    must(rs_kineto_read(path, RS_SOURCE_LOSSLESS, &stream, sink, &err), path);
    stream.info.rank = rank;
    stream.info.rank_source = RS_RANK_MAP;
    must(rs_chunk_writer_info(maker->writer, &stream.info, true, &err), "info");
    must(rs_reduce_finish(maker->reduce, &stream.info, &summary, &err), "summary");
    must(rs_summary_encode(&summary, &bytes, &err), "encode");
    if (has_summary)
        must(rs_chunk_writer_summary(maker->writer, rs_view_of(bytes.data, bytes.length), &err),
             "summary");
    append_held(maker, maker->limit ? 0 : RS_ENVELOPE_LAST);
    rs_buf_fini(&maker->held);
    rs_buf_fini(&bytes);
    rs_summary_fini(&summary);
    rs_chunk_writer_free(&maker->writer);
    rs_reduce_free(&maker->reduce);
    rs_source_stream_fini(&stream);
}

int main(int argc, char **argv)
{
    struct rs_store *store = NULL;
    struct rs_capture_facts facts = {.run = "made", .source = "files", .state = "complete"};
    bool has_summary = true;
    rs_seq cut = 0;
    int first = 2;
    for (; first < argc && strncmp(argv[first], "--", 2) == 0; first++) {
        if (strcmp(argv[first], "--no-summary") == 0)
            has_summary = false;
        else if (strcmp(argv[first], "--cut") == 0 && first + 1 < argc)
            cut = strtoul(argv[++first], NULL, 10);
    }
    if (first >= argc)
        return 2;
    must(rs_store_open(argv[1], 0, &store, &err), argv[1]);
    must(rs_store_create_capture(store, &facts, &err), "create");
    for (int i = first; i < argc; i++) {
        char incarnation[32];
        struct maker maker = {.store = store,
                              .capture = facts.id,
                              .source = {.host = "", .origin = argv[i]},
                              .limit = i == first ? cut : 0};
        (void)snprintf(incarnation, sizeof incarnation, "made-%d", i - first);
        const struct rs_store_key key = {.run = facts.run,
                                         .incarnation = incarnation,
                                         .rank = (uint32_t)(i - first),
                                         .capture = facts.id};
        must(rs_store_stream(store, &key, &maker.stream, &err), "stream");
        put_rank(&maker, argv[i], i - first, has_summary);
    }
    must(rs_store_sync(store, &err), "sync");
    must(rs_store_close_capture(store, &facts, &err), "close");
    char *dir = rs_store_capture_dir(store, facts.id);
    printf("%s\n", dir ? dir : "");
    rs_mem_free(dir);
    rs_store_close(&store);
    return 0;
}
