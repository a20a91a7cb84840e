/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Real traces through chunks and back: every row, byte for byte, `extra` and metadata too; and the sizes
 * that were promised without `extra` (dictionaries counted).
 */
#include "collector/source/kineto.h"
#include "common/base/mem.h"
#include "common/chunk/chunk.h"
#include "tests/support/chunk_list.h"
#include "tests/support/rs_test.h"

#include <stdio.h>
#include <unistd.h>

#define DATA    "../shared/data/kineto/"
#define BUNDLED "docs/examples/slow-loader/"

/* Compares what a reader gives with what the source emits, batch by batch as they come. */
struct echo {
    struct rs_chunk_writer *writer;
    struct rs_chunk_reader reader;
    const struct rs_batch *emitted;
    size_t compared;
    bool without_extra;
    uint64_t bytes;
};

static enum rs_status compare_chunk(void *self, struct rs_view chunk,
                                    const struct rs_chunk_header *header, struct rs_err *err)
{
    struct echo *echo = self;
    const struct rs_batch *batch;
    const enum rs_status status = rs_chunk_read(&echo->reader, chunk, &batch, NULL, err);
    echo->bytes += header->chunk_bytes;
    for (size_t j = 0; status == RS_OK && batch && j < batch->count; j++) {
        const char *column = row_difference(echo->emitted, echo->compared, batch, j);
        if (column)
            fail_msg("row %zu differs in %s", echo->compared, column);
        echo->compared++;
    }
    return status;
}

/* Adds a batch and flushes it, so that the source's rows are still there to be compared with. */
static enum rs_status emit(void *self, const struct rs_batch *batch, struct rs_err *err)
{
    struct echo *echo = self;
    struct rs_batch shown = *batch;
    uint32_t *no_lengths = NULL;
    if (echo->without_extra) {
        no_lengths = rs_mem_calloc(batch->count, sizeof *no_lengths);
        assert_non_null(no_lengths);
        shown.extra_length = no_lengths;
    }
    echo->emitted = &shown;
    echo->compared = 0;
    enum rs_status status = rs_chunk_writer_add(echo->writer, &shown, err);
    if (status == RS_OK)
        status = rs_chunk_writer_flush(echo->writer, err);
    if (status == RS_OK)
        assert_int_equal(echo->compared, batch->count);
    rs_mem_free(no_lengths);
    return status;
}

static void assert_same_info(const struct rs_source_stream *stream,
                             const struct rs_chunk_reader *reader)
{
    assert_true(reader->has_end && reader->end.rows == reader->rows_read);
    assert_int_equal(reader->strings.count, stream->strings.count);
    for (rs_str id = 0; id < stream->strings.count; id++)
        assert_true(same_string(&stream->strings, &reader->strings, id));
    assert_int_equal(reader->info.rank, stream->info.rank);
    assert_int_equal(reader->info.metadata, stream->info.metadata);
    assert_true(reader->info.base_ns == stream->info.base_ns);
    assert_int_equal(reader->info.group_count, stream->info.group_count);
}

/* Bytes per row of all its chunks. */
static double round_trip(const char *path, bool without_extra)
{
    struct rs_source_stream stream;
    struct rs_err err = {0};
    struct echo echo = {.without_extra = without_extra};
    assert_ok(rs_source_stream_init(&stream));
    assert_ok(rs_chunk_reader_init(&echo.reader, 0));
    const struct rs_chunk_writer_options options = {.strings = &stream.strings,
                                                    .lanes = &stream.lanes,
                                                    .put = compare_chunk,
                                                    .put_self = &echo};
    assert_ok(rs_chunk_writer_new(&options, &echo.writer, NULL));
    const struct rs_sink sink = {.batch = emit, .self = &echo};
    if (rs_kineto_read(path, RS_SOURCE_LOSSLESS, &stream, sink, &err) != RS_OK)
        fail_msg("%s: %s", path, err.text);
    const double bytes_per_row = (double)echo.bytes / (double)echo.reader.rows_read;
    assert_ok(rs_chunk_writer_info(echo.writer, &stream.info, true, NULL));
    assert_same_info(&stream, &echo.reader);
    print_message("%s: %llu rows, %.2f bytes a row%s\n", path,
                  (unsigned long long)echo.reader.rows_read, bytes_per_row,
                  without_extra ? " without extra" : "");
    rs_chunk_writer_free(&echo.writer);
    rs_chunk_reader_fini(&echo.reader);
    rs_source_stream_fini(&stream);
    return bytes_per_row;
}

static void bundled_traces_come_back_whole(void **state)
{
    (void)state;
    for (int rank = 0; rank < 4; rank++) {
        char path[64];
        (void)snprintf(path, sizeof path, BUNDLED "rank%d.pt.trace.json.gz", rank);
        (void)round_trip(path, false);
        assert_true(round_trip(path, true) <= 5.0);
    }
}

static void real_traces_come_back_whole(void **state)
{
    (void)state;
    static const char *const paths[] = {
        DATA "v100-ns-resolution.json.gz",
        DATA "mi300-resnet-rank0of8.json.gz",
        DATA "a100-nccl-rank0of2.json.gz",
        DATA "cpu-gloo-rank34of300.json.gz",
        DATA "mi250-minitoy.json.gz",
        DATA "triton-example.json.gz",
        DATA "gloo-groups-4rank-ondemand/trace_7539.json.gz",
        DATA "gloo-ddp-4rank-api/rank0.pt.trace.json.gz",
        DATA "dlrm-8rank/worker0_step_12.1694128201545.pt.trace.json",
    };
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        (void)round_trip(paths[i], false);
}

static void rows_without_extra_are_as_small_as_promised(void **state)
{
    (void)state;
    assert_true(round_trip(DATA "v100-ns-resolution.json.gz", true) <= 4.0);
    assert_true(round_trip(DATA "mi300-resnet-rank0of8.json.gz", true) <= 4.0);
    assert_true(round_trip(DATA "a100-nccl-rank0of2.json.gz", true) <= 5.0);
}

int main(void)
{
    const struct CMUnitTest bundled[] = {cmocka_unit_test(bundled_traces_come_back_whole)};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(real_traces_come_back_whole),
        cmocka_unit_test(rows_without_extra_are_as_small_as_promised),
    };
    const int failed = cmocka_run_group_tests(bundled, NULL, NULL);
    if (access(DATA, R_OK) != 0) {
        print_message("%s is not there: only the bundled traces were tried\n", DATA);
        return failed;
    }
    return failed + cmocka_run_group_tests(tests, NULL, NULL);
}
