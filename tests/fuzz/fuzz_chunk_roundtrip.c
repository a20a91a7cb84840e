/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as rows: written twice the bytes are the same, read back the rows are.
 *
 * Input: one byte rows per chunk, then cells, taken until the bytes are used up.
 */
#include "common/base/check.h"
#include "tests/support/chunk_list.h"
#include "tests/support/make_batches.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ROWS = 400 };

/* A number of 0 to 8 bytes. */
static int64_t take_number(struct rs_view *input)
{
    const uint8_t length = rs_view_u8(input);
    uint64_t value = 0;
    for (uint8_t i = 0; i < length % 9; i++)
        value = value << 8 | rs_view_u8(input);
    return length & 128 ? (int64_t)~value : (int64_t)value;
}

static rs_str take_string(struct rs_view *input, struct make_stream *stream)
{
    const size_t pick = (size_t)rs_view_u8(input) % (stream->strings.count + 1);
    return pick == stream->strings.count ? RS_STR_NONE : (rs_str)pick;
}

static void take_row(struct rs_view *input, struct make_stream *stream)
{
    struct rs_batch *batch = &stream->batch;
    size_t row;
    make_must(rs_batch_row(batch, &row));
    const uint8_t what = rs_view_u8(input);
    batch->kind[row] = (uint8_t)(what % RS_KIND_COUNT);
    batch->name[row] = (rs_str)(rs_view_u8(input) % stream->strings.count);
    batch->lane[row] = (uint32_t)(rs_view_u8(input) % stream->lanes.count);
    const int64_t one = take_number(input);
    const int64_t other = take_number(input);
    batch->start[row] = one < other ? one : other;
    batch->end[row] = one < other ? other : one;
    batch->correlation[row] = take_number(input);
    if (what & 32) {
        batch->flags[row] = rs_view_u8(input);
        batch->phase[row] = rs_view_u8(input);
        batch->category[row] = take_string(input, stream);
        batch->external_id[row] = take_number(input);
        batch->bytes[row] = take_number(input);
        batch->cpu_ns[row] = take_number(input);
        batch->input_dims[row] = take_string(input, stream);
        batch->input_types[row] = take_string(input, stream);
        batch->concrete_inputs[row] = take_string(input, stream);
    }
    if (what & 64) {
        struct rs_comm *comm;
        make_must(rs_batch_comm(batch, row, &comm));
        comm->has = rs_view_u32(input);
        comm->collective = take_string(input, stream);
        comm->seq = take_number(input);
        comm->comms_id = (uint64_t)take_number(input);
    }
    if (what & 128) {
        const struct rs_view text = rs_view_take(input, rs_view_u8(input));
        make_must(rs_batch_extra(batch, row, (const char *)text.data, text.length));
    }
}

static void write_stream(const struct make_stream *stream, size_t rows_per_chunk,
                         struct chunk_list *list)
{
    struct rs_chunk_writer *writer;
    const struct rs_chunk_writer_options options = {.strings = &stream->strings,
                                                    .lanes = &stream->lanes,
                                                    .put = chunk_list_put,
                                                    .put_self = list,
                                                    .rows_per_chunk = rows_per_chunk};
    make_must(rs_chunk_writer_new(&options, &writer, NULL));
    make_must(rs_chunk_writer_add(writer, &stream->batch, NULL));
    make_must(rs_chunk_writer_flush(writer, NULL));
    rs_chunk_writer_free(&writer);
}

static void check_rows(const struct make_stream *stream, const struct chunk_list *list)
{
    struct rs_chunk_reader reader;
    const struct rs_batch *batch;
    size_t row = 0;
    make_must(rs_chunk_reader_init(&reader, 0));
    for (size_t i = 0; i < list->count; i++) {
        make_must(rs_chunk_read(&reader, chunk_list_at(list, i), &batch, NULL, NULL));
        for (size_t j = 0; batch && j < batch->count; j++, row++)
            RS_CHECK(!row_difference(&stream->batch, row, batch, j));
    }
    RS_CHECK(row == stream->batch.count);
    rs_chunk_reader_fini(&reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct make_stream stream;
    struct chunk_list lists[2] = {0};
    struct rs_view input = rs_view_of(data, size);
    make_open(&stream, 1, ROWS);
    make_wild(&stream, 0);
    const size_t rows_per_chunk = 1 + rs_view_u8(&input);
    while (input.length && stream.batch.count < ROWS)
        take_row(&input, &stream);
    if (stream.batch.count) {
        write_stream(&stream, rows_per_chunk, &lists[0]);
        write_stream(&stream, rows_per_chunk, &lists[1]);
        RS_CHECK(lists[0].bytes.length == lists[1].bytes.length &&
                 !memcmp(lists[0].bytes.data, lists[1].bytes.data, lists[0].bytes.length));
        check_rows(&stream, &lists[0]);
    }
    chunk_list_fini(&lists[0]);
    chunk_list_fini(&lists[1]);
    make_close(&stream);
    return 0;
}
