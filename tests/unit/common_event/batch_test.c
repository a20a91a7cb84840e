/* SPDX-License-Identifier: Apache-2.0 */
/* A new row says "none" everywhere; rs_batch_check() names what is broken. */
#include "common/base/mem.h"
#include "common/event/event.h"
#include "tests/support/make_batches.h"
#include "tests/support/rs_test.h"

#include <string.h>

static int open_stream(void **state)
{
    struct make_stream *stream = rs_mem_calloc(1, sizeof *stream);
    make_open(stream, 1, 8);
    (void)make_lane(stream, RS_LANE_HOST, -1, 1, 1);
    *state = stream;
    return 0;
}

static int close_stream(void **state)
{
    make_close(*state);
    rs_mem_free(*state);
    return 0;
}

static void a_new_row_is_none_in_every_column(void **state)
{
    struct make_stream *stream = *state;
    struct rs_batch *batch = &stream->batch;
    size_t row;
    make_wild(stream, 8); /* so that the cells held something before */
    rs_batch_reset(batch);
    assert_ok(rs_batch_row(batch, &row));
    assert_int_equal(row, 0);
    assert_int_equal(batch->kind[row], RS_KIND_OTHER);
    assert_int_equal(batch->flags[row] | batch->phase[row], 0);
    assert_int_equal(batch->category[row], RS_STR_NONE);
    assert_int_equal(batch->name[row], RS_STR_EMPTY);
    assert_int_equal(batch->lane[row], 0);
    assert_true(batch->start[row] == 0 && batch->end[row] == 0);
    assert_true(batch->correlation[row] == -1 && batch->external_id[row] == -1);
    assert_true(batch->bytes[row] == -1 && batch->cpu_ns[row] == -1);
    assert_int_equal(batch->input_dims[row], RS_STR_NONE);
    assert_int_equal(batch->input_types[row], RS_STR_NONE);
    assert_int_equal(batch->concrete_inputs[row], RS_STR_NONE);
    assert_int_equal(batch->comm[row], RS_NO_COMM);
    assert_int_equal(batch->extra_length[row], 0);
    assert_ok(rs_batch_check(batch, NULL));
}

static void a_full_batch_takes_no_more_rows(void **state)
{
    struct make_stream *stream = *state;
    size_t row = 99;
    for (size_t i = 0; i < stream->batch.capacity; i++)
        assert_ok(rs_batch_row(&stream->batch, &row));
    assert_status(rs_batch_row(&stream->batch, &row), RS_LIMIT);
    assert_int_equal(stream->batch.count, stream->batch.capacity);
    rs_batch_reset(&stream->batch);
    assert_ok(rs_batch_row(&stream->batch, &row));
    assert_int_equal(row, 0);
}

static void comm_arguments_begin_as_none(void **state)
{
    struct make_stream *stream = *state;
    struct rs_comm *comm;
    size_t row;
    assert_ok(rs_batch_row(&stream->batch, &row));
    assert_ok(rs_batch_comm(&stream->batch, row, &comm));
    assert_int_equal(comm->has, 0);
    assert_int_equal(comm->collective, RS_STR_NONE);
    assert_int_equal(comm->transport, RS_STR_NONE);
    assert_true(comm->src == -1 && comm->dst == -1 && comm->seq == -1 && comm->bytes == -1);
    assert_int_equal(comm->comms_id, 0);
    assert_int_equal(stream->batch.comm[row], 0);
    assert_ok(rs_batch_check(&stream->batch, NULL));
}

static void extra_text_is_gathered_piece_by_piece(void **state)
{
    struct make_stream *stream = *state;
    struct rs_batch *batch = &stream->batch;
    size_t one, two;
    assert_ok(rs_batch_row(batch, &one));
    assert_ok(rs_batch_extra(batch, one, "ab", 2));
    assert_ok(rs_batch_extra(batch, one, "c", 1));
    assert_ok(rs_batch_row(batch, &two));
    assert_ok(rs_batch_extra(batch, two, "d", 1));
    assert_int_equal(batch->extra_length[one], 3);
    assert_memory_equal(batch->extra + batch->extra_offset[one], "abc", 3);
    assert_memory_equal(batch->extra + batch->extra_offset[two], "d", 1);
    assert_ok(rs_batch_check(batch, NULL));
}

/* Breaks one cell of a lawful batch, looks for the column's name in the sentence, mends it. */
#define ASSERT_NAMED(cell, value, word)                                                            \
    do {                                                                                           \
        struct rs_err err = {0};                                                                   \
        const __typeof__(cell) kept = (cell);                                                      \
        (cell) = (value);                                                                          \
        assert_status(rs_batch_check(batch, &err), RS_FORMAT);                                     \
        assert_non_null(strstr(err.text, word));                                                   \
        (cell) = kept;                                                                             \
        assert_ok(rs_batch_check(batch, NULL));                                                    \
    } while (0)

static void every_broken_invariant_is_named(void **state)
{
    struct make_stream *stream = *state;
    struct rs_batch *batch = &stream->batch;
    struct rs_comm *comm;
    size_t row;
    assert_ok(rs_batch_row(batch, &row));
    assert_ok(rs_batch_row(batch, &row));
    assert_ok(rs_batch_comm(batch, row, &comm));
    assert_ok(rs_batch_extra(batch, row, "text", 4));
    assert_ok(rs_batch_check(batch, NULL));
    const rs_str unknown = (rs_str)stream->strings.count;
    ASSERT_NAMED(batch->kind[row], RS_KIND_COUNT, "kind");
    ASSERT_NAMED(batch->end[row], -1, "end");
    ASSERT_NAMED(batch->name[row], unknown, "name");
    ASSERT_NAMED(batch->name[row], RS_STR_NONE, "name");
    ASSERT_NAMED(batch->category[row], unknown, "category");
    ASSERT_NAMED(batch->input_dims[row], unknown, "inputs");
    ASSERT_NAMED(batch->input_types[row], unknown, "inputs");
    ASSERT_NAMED(batch->concrete_inputs[row], unknown, "inputs");
    ASSERT_NAMED(batch->lane[row], 1, "lane");
    ASSERT_NAMED(batch->comm[row], 1, "comm");
    ASSERT_NAMED(batch->extra_length[row], 5, "extra");
    ASSERT_NAMED(batch->extra_offset[row], UINT32_MAX, "extra");
    ASSERT_NAMED(batch->comms[0].group_name, unknown, "string");
    ASSERT_NAMED(batch->comms[0].transport, unknown, "string");
    ASSERT_NAMED(batch->count, 9, "room");
}

static void lanes_are_found_again_by_all_their_coordinates(void **state)
{
    struct make_stream *stream = *state;
    const uint32_t host = make_lane(stream, RS_LANE_HOST, -1, 5, 6);
    assert_int_equal(make_lane(stream, RS_LANE_HOST, -1, 5, 6), host);
    assert_int_not_equal(make_lane(stream, RS_LANE_DEVICE, -1, 5, 6), host);
    assert_int_not_equal(make_lane(stream, RS_LANE_HOST, 0, 5, 6), host);
    assert_int_not_equal(make_lane(stream, RS_LANE_HOST, -1, 6, 6), host);
    assert_int_not_equal(make_lane(stream, RS_LANE_HOST, -1, 5, 7), host);
    assert_int_equal(stream->lanes.count, 6);
}

static void drops_of_one_reason_add_up(void **state)
{
    struct make_stream *stream = *state;
    struct rs_trace_info info;
    rs_trace_info_init(&info);
    assert_ok(rs_trace_info_drop(&info, &stream->strings, "no name", 2));
    assert_ok(rs_trace_info_drop(&info, &stream->strings, "no time", 1));
    assert_ok(rs_trace_info_drop(&info, &stream->strings, "no name", 3));
    assert_int_equal(info.drop_count, 2);
    assert_int_equal(info.drops[0].count, 5);
    rs_trace_info_fini(&info);
    assert_int_equal(info.rank, -1);
    assert_null(info.drops);
}

static void every_kind_has_a_word_and_five_are_device_work(void **state)
{
    (void)state;
    int device_work = 0;
    for (int kind = 0; kind < RS_KIND_COUNT; kind++) {
        assert_string_not_equal(rs_kind_text((enum rs_kind)kind), "?");
        device_work += rs_kind_is_device_work((enum rs_kind)kind);
    }
    assert_string_equal(rs_kind_text(RS_KIND_COUNT), "?");
    assert_true(rs_kind_is_device_work(RS_KIND_KERNEL) && rs_kind_is_device_work(RS_KIND_MEMCPY) &&
                rs_kind_is_device_work(RS_KIND_MEMSET));
    assert_false(rs_kind_is_device_work(RS_KIND_SYNC));
    assert_int_equal(device_work, 5); /* with native OP and COMM, where the CPU is the device */
}

static size_t countdown;

static bool fail_one(void)
{
    return countdown == 0 || --countdown > 0;
}

static void a_batch_without_memory_is_empty_and_may_be_freed(void **state)
{
    struct make_stream *stream = *state;
    enum rs_status status = RS_NOMEM;
    for (size_t k = 1; status != RS_OK; k++) {
        struct rs_batch batch;
        rs_mem_set_gate(fail_one);
        countdown = k;
        status = rs_batch_init(&batch, &stream->strings, &stream->lanes, 4);
        rs_mem_set_gate(NULL);
        if (status != RS_OK)
            assert_true(status == RS_NOMEM && !batch.kind && !batch.extra_length);
        rs_batch_fini(&batch);
        assert_true(k < 50);
    }
}

int main(void)
{
#define WITH_STREAM(test) cmocka_unit_test_setup_teardown(test, open_stream, close_stream)
    const struct CMUnitTest tests[] = {
        WITH_STREAM(a_new_row_is_none_in_every_column),
        WITH_STREAM(a_full_batch_takes_no_more_rows),
        WITH_STREAM(comm_arguments_begin_as_none),
        WITH_STREAM(extra_text_is_gathered_piece_by_piece),
        WITH_STREAM(every_broken_invariant_is_named),
        WITH_STREAM(lanes_are_found_again_by_all_their_coordinates),
        WITH_STREAM(drops_of_one_reason_add_up),
        cmocka_unit_test(every_kind_has_a_word_and_five_are_device_work),
        WITH_STREAM(a_batch_without_memory_is_empty_and_may_be_freed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
