/* SPDX-License-Identifier: Apache-2.0 */
/* What goes in comes out: every column, every order, every kind of chunk. */
#include "common/base/mem.h"
#include "common/chunk/chunk.h"
#include "tests/support/chunk_list.h"
#include "tests/support/make_batches.h"
#include "tests/support/rs_test.h"

static struct rs_chunk_writer *new_writer(const struct make_stream *stream, struct chunk_list *list,
                                          size_t rows_per_chunk)
{
    struct rs_chunk_writer *writer;
    const struct rs_chunk_writer_options options = {
        .strings = &stream->strings,
        .lanes = &stream->lanes,
        .put = chunk_list_put,
        .put_self = list,
        .rows_per_chunk = rows_per_chunk,
    };
    assert_ok(rs_chunk_writer_new(&options, &writer, NULL));
    return writer;
}

/* Reads all chunks; rows of the batches that come must be those of `expected`, in order. */
static void assert_rows(const struct chunk_list *list, struct rs_chunk_reader *reader,
                        const struct rs_batch *expected)
{
    struct rs_err err = {0};
    size_t row = 0;
    for (size_t i = 0; i < list->count; i++) {
        const struct rs_batch *batch;
        struct rs_chunk_header header;
        if (rs_chunk_read(reader, chunk_list_at(list, i), &batch, &header, &err) != RS_OK)
            fail_msg("chunk %zu: %s", i, err.text);
        assert_true((header.kind == RS_CHUNK_EVENTS) == (batch != NULL));
        for (size_t j = 0; batch && j < batch->count; j++, row++) {
            const char *column = row_difference(expected, row, batch, j);
            if (column)
                fail_msg("row %zu differs in %s", row, column);
        }
    }
    assert_int_equal(row, expected->count);
}

static void round_trip_wild(uint64_t seed, size_t count, size_t rows_per_chunk)
{
    struct make_stream stream;
    struct chunk_list list = {0};
    struct rs_chunk_reader reader;
    make_open(&stream, seed, count);
    make_wild(&stream, count);
    struct rs_chunk_writer *writer = new_writer(&stream, &list, rows_per_chunk);
    assert_ok(rs_chunk_writer_add(writer, &stream.batch, NULL));
    assert_ok(rs_chunk_writer_flush(writer, NULL));
    assert_ok(rs_chunk_reader_init(&reader, 0));
    assert_rows(&list, &reader, &stream.batch);
    assert_int_equal(reader.strings.count, stream.strings.count);
    rs_chunk_reader_fini(&reader);
    rs_chunk_writer_free(&writer);
    chunk_list_fini(&list);
    make_close(&stream);
}

static void every_column_comes_back_whatever_it_holds(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++)
        round_trip_wild(seed, 1 + (size_t)(seed * 37 % 700), seed % 3 ? 0 : 100);
    round_trip_wild(1000, 40000, 0);
}

static void a_plausible_step_comes_back_and_is_small(void **state)
{
    (void)state;
    struct make_stream stream;
    struct chunk_list list = {0};
    struct rs_chunk_reader reader;
    struct make_clock clock = {0};
    make_open(&stream, 7, 30000);
    make_step(&stream, &clock);
    struct rs_chunk_writer *writer = new_writer(&stream, &list, 0);
    assert_ok(rs_chunk_writer_add(writer, &stream.batch, NULL));
    assert_ok(rs_chunk_writer_flush(writer, NULL));
    assert_ok(rs_chunk_reader_init(&reader, 0));
    assert_rows(&list, &reader, &stream.batch);
    assert_true(list.bytes.length < stream.batch.count * 5);
    rs_chunk_reader_fini(&reader);
    rs_chunk_writer_free(&writer);
    chunk_list_fini(&list);
    make_close(&stream);
}

/* Writes the stream's batch in pieces of `step` rows. */
static void write_in_steps(struct rs_chunk_writer *writer, struct make_stream *stream, size_t step)
{
    struct rs_batch piece = stream->batch;
    for (size_t first = 0; first < stream->batch.count; first += step) {
        const size_t left = stream->batch.count - first;
        piece.count = left < step ? left : step;
        assert_ok(rs_chunk_writer_add(writer, &piece, NULL));
        piece.kind += step;
        piece.flags += step;
        piece.phase += step;
        piece.category += step;
        piece.name += step;
        piece.lane += step;
        piece.start += step;
        piece.end += step;
        piece.correlation += step;
        piece.external_id += step;
        piece.bytes += step;
        piece.cpu_ns += step;
        piece.input_dims += step;
        piece.input_types += step;
        piece.concrete_inputs += step;
        piece.comm += step;
        piece.extra_offset += step;
        piece.extra_length += step;
    }
    assert_ok(rs_chunk_writer_flush(writer, NULL));
}

static void the_same_rows_give_the_same_bytes(void **state)
{
    (void)state;
    struct make_stream stream;
    struct chunk_list lists[2] = {0};
    make_open(&stream, 11, 5000);
    make_wild(&stream, 5000);
    for (int k = 0; k < 2; k++) {
        struct rs_chunk_writer *writer = new_writer(&stream, &lists[k], 2000);
        write_in_steps(writer, &stream, k ? 5000 : 333);
        rs_chunk_writer_free(&writer);
    }
    assert_int_equal(lists[0].bytes.length, lists[1].bytes.length);
    assert_memory_equal(lists[0].bytes.data, lists[1].bytes.data, lists[0].bytes.length);
    chunk_list_fini(&lists[0]);
    chunk_list_fini(&lists[1]);
    make_close(&stream);
}

static void whole_microseconds_cost_no_digits_of_nanoseconds(void **state)
{
    (void)state;
    struct make_stream stream;
    struct chunk_list lists[2] = {0};
    struct make_clock clock = {0};
    make_open(&stream, 3, 10000);
    make_step(&stream, &clock);
    for (int k = 0; k < 2; k++) {
        for (size_t row = 0; row < stream.batch.count; row++) {
            stream.batch.start[row] = stream.batch.start[row] / 1000 * 1000 + (k && row == 9);
            stream.batch.end[row] = stream.batch.start[row] + stream.batch.end[row] % 64 * 1000;
        }
        struct rs_chunk_writer *writer = new_writer(&stream, &lists[k], 0);
        write_in_steps(writer, &stream, 10000);
        rs_chunk_writer_free(&writer);
        struct rs_chunk_reader reader;
        assert_ok(rs_chunk_reader_init(&reader, 0));
        assert_rows(&lists[k], &reader, &stream.batch);
        rs_chunk_reader_fini(&reader);
    }
    assert_true(lists[0].bytes.length < lists[1].bytes.length);
    chunk_list_fini(&lists[0]);
    chunk_list_fini(&lists[1]);
    make_close(&stream);
}

static void much_text_is_cut_into_chunks_that_fit(void **state)
{
    (void)state;
    struct make_stream stream;
    struct chunk_list list = {0};
    struct rs_chunk_reader reader;
    enum { ROWS = 300, TEXT = 40000 };
    make_open(&stream, 5, ROWS);
    make_wild(&stream, 0);
    char *text = rs_mem_calloc(1, TEXT);
    assert_non_null(text);
    for (size_t i = 0; i < ROWS; i++) {
        make_wild_row(&stream);
        for (size_t k = 0; k < TEXT; k++)
            text[k] = (char)make_next(&stream.random);
        make_must(rs_batch_extra(&stream.batch, i, text, TEXT));
    }
    struct rs_chunk_writer *writer = new_writer(&stream, &list, 0);
    assert_ok(rs_chunk_writer_add(writer, &stream.batch, NULL));
    assert_ok(rs_chunk_writer_flush(writer, NULL));
    for (size_t i = 0; i < list.count; i++)
        assert_true(chunk_list_at(&list, i).length <= RS_CHUNK_MAX_BYTES);
    assert_ok(rs_chunk_reader_init(&reader, 0));
    assert_rows(&list, &reader, &stream.batch);
    rs_mem_free(text);
    rs_chunk_reader_fini(&reader);
    rs_chunk_writer_free(&writer);
    chunk_list_fini(&list);
    make_close(&stream);
}

static void a_row_that_fits_no_chunk_is_refused_and_ends_the_stream(void **state)
{
    (void)state;
    struct make_stream stream;
    struct chunk_list list = {0};
    struct rs_err err = {0};
    enum { TEXT = 2 * 1024 * 1024 };
    make_open(&stream, 6, 4);
    make_wild(&stream, 1);
    char *text = rs_mem_calloc(1, TEXT);
    assert_non_null(text);
    for (size_t k = 0; k < TEXT; k++)
        text[k] = (char)make_next(&stream.random);
    make_must(rs_batch_extra(&stream.batch, 0, text, TEXT));
    struct rs_chunk_writer *writer = new_writer(&stream, &list, 0);
    assert_status(rs_chunk_writer_add(writer, &stream.batch, &err), RS_LIMIT);
    assert_non_null(strstr(err.text, "does not fit a chunk"));
    assert_status(rs_chunk_writer_flush(writer, &err), RS_LIMIT);
    rs_mem_free(text);
    rs_chunk_writer_free(&writer);
    chunk_list_fini(&list);
    make_close(&stream);
}

static void fill_info(struct make_stream *stream, struct rs_trace_info *info)
{
    rs_trace_info_init(info);
    info->rank = 3;
    info->rank_source = RS_RANK_MAP;
    info->world_size = 8;
    info->host = make_string(stream, "node-1");
    info->backend = make_string(stream, "nccl");
    info->has_time_base = true;
    info->base_ns = INT64_C(1712195495749263800);
    info->is_partial = true;
    info->partial_reason = make_string(stream, "cut at byte 77");
    info->events_read = INT64_MAX;
    info->raw_bytes = -1;
    make_must(rs_trace_info_drop(info, &stream->strings, "no lane", 12));
    make_must(rs_mem_grow((void **)&info->groups, &info->group_capacity, 1, sizeof *info->groups));
    info->groups[info->group_count++] = (struct rs_group_info){
        .name = make_string(stream, "0"), .description = RS_STR_NONE, .size = 4};
    info->groups[0].ranks = rs_mem_calloc(3, sizeof(int32_t));
    assert_non_null(info->groups[0].ranks);
    info->groups[0].ranks[0] = INT32_MIN;
    info->groups[0].ranks[1] = 7;
    info->groups[0].ranks[2] = INT32_MAX;
    info->groups[0].rank_count = 3;
}

static void info_and_end_mark_come_back(void **state)
{
    (void)state;
    struct make_stream stream;
    struct chunk_list list = {0};
    struct rs_chunk_reader reader;
    struct rs_trace_info info;
    make_open(&stream, 8, 100);
    make_wild(&stream, 100);
    fill_info(&stream, &info);
    struct rs_chunk_writer *writer = new_writer(&stream, &list, 0);
    assert_ok(rs_chunk_writer_add(writer, &stream.batch, NULL));
    assert_ok(rs_chunk_writer_info(writer, &info, true, NULL));
    assert_ok(rs_chunk_reader_init(&reader, 0));
    assert_rows(&list, &reader, &stream.batch);
    assert_true(reader.has_info && reader.has_end);
    assert_int_equal(reader.end.rows, 100);
    assert_int_equal(reader.end.chunks, list.count - 1);
    assert_int_equal(reader.info.rank, 3);
    assert_int_equal(reader.info.rank_source, RS_RANK_MAP);
    assert_int_equal(reader.info.base_ns, info.base_ns);
    assert_int_equal(reader.info.events_read, INT64_MAX);
    assert_int_equal(reader.info.raw_bytes, -1);
    assert_true(reader.info.is_partial && reader.info.has_time_base);
    assert_string_equal(rs_strtab_text(&reader.strings, reader.info.host), "node-1");
    assert_int_equal(reader.info.metadata, RS_STR_NONE);
    assert_int_equal(reader.info.drop_count, 1);
    assert_int_equal(reader.info.drops[0].count, 12);
    assert_int_equal(reader.info.group_count, 1);
    assert_memory_equal(reader.info.groups[0].ranks, info.groups[0].ranks, 3 * sizeof(int32_t));
    rs_trace_info_fini(&info);
    rs_chunk_reader_fini(&reader);
    rs_chunk_writer_free(&writer);
    chunk_list_fini(&list);
    make_close(&stream);
}

static void a_long_summary_travels_in_parts(void **state)
{
    (void)state;
    struct make_stream stream;
    struct chunk_list list = {0};
    struct rs_chunk_reader reader;
    enum { BYTES = 2500000 };
    make_open(&stream, 9, 1);
    uint8_t *bytes = rs_mem_calloc(1, BYTES);
    assert_non_null(bytes);
    for (size_t i = 0; i < BYTES; i++)
        bytes[i] = (uint8_t)make_next(&stream.random);
    struct rs_chunk_writer *writer = new_writer(&stream, &list, 0);
    assert_ok(rs_chunk_writer_summary(writer, rs_view_of(bytes, BYTES), NULL));
    assert_true(list.count > 1);
    assert_ok(rs_chunk_reader_init(&reader, 0));
    assert_rows(&list, &reader, &stream.batch);
    assert_true(reader.has_summary);
    assert_int_equal(reader.summary.length, BYTES);
    assert_memory_equal(reader.summary.data, bytes, BYTES);
    const struct rs_batch *batch;
    assert_status(rs_chunk_read(&reader, chunk_list_at(&list, 1), &batch, NULL, NULL), RS_FORMAT);
    rs_mem_free(bytes);
    rs_chunk_reader_fini(&reader);
    rs_chunk_writer_free(&writer);
    chunk_list_fini(&list);
    make_close(&stream);
}

static void dictionaries_may_be_read_twice_and_long_strings_come_in_pieces(void **state)
{
    (void)state;
    struct make_stream stream;
    struct chunk_list list = {0};
    struct rs_chunk_reader reader;
    enum { TEXT = 1800000 };
    make_open(&stream, 10, 50);
    make_wild(&stream, 50);
    char *text = rs_mem_calloc(1, TEXT);
    assert_non_null(text);
    memset(text, 'x', TEXT);
    rs_str id;
    assert_ok(rs_strtab_add(&stream.strings, text, TEXT, &id));
    (void)make_string(&stream, "behind it");
    struct rs_chunk_writer *writer = new_writer(&stream, &list, 0);
    assert_ok(rs_chunk_writer_add(writer, &stream.batch, NULL));
    assert_ok(rs_chunk_writer_flush(writer, NULL));
    assert_ok(rs_chunk_reader_init(&reader, 0));
    assert_rows(&list, &reader, &stream.batch);
    assert_int_equal(rs_strtab_length(&reader.strings, id), TEXT);
    assert_rows(&list, &reader, &stream.batch);
    assert_int_equal(reader.strings.count, stream.strings.count);
    assert_int_equal(reader.lanes.count, stream.lanes.count);
    rs_mem_free(text);
    rs_chunk_reader_fini(&reader);
    rs_chunk_writer_free(&writer);
    chunk_list_fini(&list);
    make_close(&stream);
}

static void the_header_tells_rows_and_times_without_decoding(void **state)
{
    (void)state;
    struct make_stream stream;
    struct chunk_list list = {0};
    struct make_clock clock = {.host = 1000};
    make_open(&stream, 12, 500);
    make_step(&stream, &clock);
    struct rs_chunk_writer *writer = new_writer(&stream, &list, 0);
    assert_ok(rs_chunk_writer_add(writer, &stream.batch, NULL));
    assert_ok(rs_chunk_writer_flush(writer, NULL));
    struct rs_chunk_header header;
    struct rs_view chunk = chunk_list_at(&list, list.count - 1);
    const size_t whole = chunk.length;
    chunk.length = RS_CHUNK_HEADER_BYTES;
    assert_ok(rs_chunk_peek(chunk, &header, NULL));
    assert_int_equal(header.kind, RS_CHUNK_EVENTS);
    assert_int_equal(header.count, 500);
    assert_int_equal(header.chunk_bytes, whole);
    assert_int_equal(header.first_ns, 0);
    assert_true(header.last_ns >= clock.device - 2000);
    assert_int_equal(rs_chunk_writer_totals(writer).rows, 500);
    assert_int_equal(rs_chunk_writer_totals(writer).bytes, list.bytes.length);
    rs_chunk_writer_free(&writer);
    chunk_list_fini(&list);
    make_close(&stream);
}

static void a_batch_of_other_tables_is_refused(void **state)
{
    (void)state;
    struct make_stream stream, other;
    struct chunk_list list = {0};
    make_open(&stream, 13, 10);
    make_open(&other, 14, 10);
    make_wild(&other, 10);
    struct rs_chunk_writer *writer = new_writer(&stream, &list, 0);
    assert_status(rs_chunk_writer_add(writer, &other.batch, NULL), RS_INVALID);
    make_wild(&stream, 10);
    assert_ok(rs_chunk_writer_add(writer, &stream.batch, NULL));
    rs_chunk_writer_free(&writer);
    chunk_list_fini(&list);
    make_close(&stream);
    make_close(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_column_comes_back_whatever_it_holds),
        cmocka_unit_test(a_plausible_step_comes_back_and_is_small),
        cmocka_unit_test(the_same_rows_give_the_same_bytes),
        cmocka_unit_test(whole_microseconds_cost_no_digits_of_nanoseconds),
        cmocka_unit_test(much_text_is_cut_into_chunks_that_fit),
        cmocka_unit_test(a_row_that_fits_no_chunk_is_refused_and_ends_the_stream),
        cmocka_unit_test(info_and_end_mark_come_back),
        cmocka_unit_test(a_long_summary_travels_in_parts),
        cmocka_unit_test(dictionaries_may_be_read_twice_and_long_strings_come_in_pieces),
        cmocka_unit_test(the_header_tells_rows_and_times_without_decoding),
        cmocka_unit_test(a_batch_of_other_tables_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
