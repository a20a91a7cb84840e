/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that never stood in a Chrome trace, written as one (those that did: kineto_test.c). */
#include "collector/source/kineto_write.h"

#include "tests/support/rs_test.h"

#include <string.h>

struct stream {
    struct rs_strtab strings;
    struct rs_lanes lanes;
    struct rs_batch batch;
    uint32_t lane;
};

static void stream_init(struct stream *own)
{
    const struct rs_lane lane = {.kind = RS_LANE_HOST,
                                 .device = -1,
                                 .process = 100,
                                 .thread = 1,
                                 .process_text = RS_STR_NONE,
                                 .thread_text = RS_STR_NONE};
    *own = (struct stream){0};
    assert_ok(rs_strtab_init(&own->strings, 0));
    assert_ok(rs_batch_init(&own->batch, &own->strings, &own->lanes, 8));
    assert_ok(rs_lanes_find(&own->lanes, &lane, &own->lane));
}

static void stream_fini(struct stream *own)
{
    rs_batch_fini(&own->batch);
    rs_lanes_fini(&own->lanes);
    rs_strtab_fini(&own->strings);
}

static size_t add_row(struct stream *own, enum rs_kind kind, const char *name, rs_ns start,
                      rs_ns end)
{
    size_t row = 0;
    assert_ok(rs_batch_row(&own->batch, &row));
    own->batch.kind[row] = (uint8_t)kind;
    own->batch.lane[row] = own->lane;
    own->batch.start[row] = start;
    own->batch.end[row] = end;
    assert_ok(rs_strtab_add(&own->strings, name, strlen(name), &own->batch.name[row]));
    return row;
}

static void native_rows_become_rows_of_a_trace(void **state)
{
    (void)state;
    struct stream own;
    struct rs_buf out = {0};
    struct rs_kineto_writer writer;
    struct rs_trace_info info;
    stream_init(&own);
    own.batch.correlation[add_row(&own, RS_KIND_STEP, "step", 1000, 5000)] = 12;
    (void)add_row(&own, RS_KIND_OP, "forward", 1500, 2500);
    (void)add_row(&own, RS_KIND_MARK, "saved", 3000, 3000);
    own.batch.bytes[add_row(&own, RS_KIND_COUNTER, "queue", 3000, 3000)] = 4;
    rs_trace_info_init(&info);
    info.rank = 3;
    info.world_size = 8;
    info.has_time_base = true;
    info.base_ns = 7000000;
    rs_kineto_write_begin(&writer, &out);
    writer.fills_in = true;
    rs_kineto_write_rows(&writer, &own.batch);
    rs_kineto_write_end(&writer, &info, &own.strings);
    assert_string_equal(
        rs_buf_text(&out),
        "{\"traceEvents\": [\n"
        "{\"ph\": \"X\", \"cat\": \"step\", \"name\": \"step 12\", \"pid\": 100, \"tid\": 1, \"ts\": 1, "
        "\"dur\": 4, \"args\": {\"correlation\": 12}},\n"
        "{\"ph\": \"X\", \"cat\": \"op\", \"name\": \"forward\", \"pid\": 100, \"tid\": 1, \"ts\": 1.500, "
        "\"dur\": 1},\n"
        "{\"ph\": \"i\", \"cat\": \"mark\", \"name\": \"saved\", \"pid\": 100, \"tid\": 1, \"ts\": 3},\n"
        "{\"ph\": \"C\", \"cat\": \"counter\", \"name\": \"queue\", \"pid\": 100, \"tid\": 1, \"ts\": 3, "
        "\"args\": {\"value\": 4}}\n"
        "], \"baseTimeNanoseconds\": 7000000, \"distributedInfo\": {\"rank\": 3, \"world_size\": 8}}\n");
    rs_buf_fini(&out);
    rs_trace_info_fini(&info);
    stream_fini(&own);
}

static void what_a_document_says_itself_is_said_once(void **state)
{
    (void)state;
    static const char said[] = "{\"baseTimeNanoseconds\": 5, \"distributedInfo\": {\"rank\": 1}}";
    struct stream own;
    struct rs_buf out = {0};
    struct rs_kineto_writer writer;
    struct rs_trace_info info;
    stream_init(&own);
    own.batch.bytes[add_row(&own, RS_KIND_COUNTER, "process CPU %", 3000, 3000)] = 4;
    rs_trace_info_init(&info);
    info.rank = 1;
    info.has_time_base = true;
    info.base_ns = 5;
    assert_ok(rs_strtab_add(&own.strings, said, sizeof said - 1, &info.metadata));
    rs_kineto_write_begin(&writer, &out);
    writer.fills_in = true;
    rs_kineto_write_rows(&writer, &own.batch); /* a sample beside rows of a trace */
    rs_kineto_write_end(&writer, &info, &own.strings);
    const char *text = rs_buf_text(&out), *base = strstr(text, "baseTimeNanoseconds");
    assert_non_null(base);
    assert_null(strstr(base + 1, "baseTimeNanoseconds"));
    assert_null(strstr(strstr(text, "distributedInfo") + 1, "distributedInfo"));
    rs_buf_fini(&out);
    rs_trace_info_fini(&info);
    stream_fini(&own);
}

static void rows_of_a_trace_are_left_as_they_were(void **state)
{
    (void)state;
    struct stream own;
    struct rs_buf out = {0};
    struct rs_kineto_writer writer;
    stream_init(&own);
    const size_t row = add_row(&own, RS_KIND_CPU_OP, "", 1000, 5000);
    own.batch.phase[row] = 'X';
    own.batch.category[row] = RS_STR_NONE;
    rs_kineto_write_begin(&writer, &out);
    writer.fills_in = true;
    rs_buf_reset(&out);
    rs_kineto_write_rows(&writer, &own.batch);
    assert_string_equal(
        rs_buf_text(&out),
        "\n{\"ph\": \"X\", \"name\": \"\", \"pid\": 100, \"tid\": 1, \"ts\": 1, \"dur\": 4}");
    rs_buf_fini(&out);
    stream_fini(&own);
}

/* An Ascend profiler's types are a text (FLOAT;FLOAT), and its shapes one in quotes: neither was JSON. */
static void texts_of_other_profilers_are_strings(void **state)
{
    (void)state;
    struct stream own;
    struct rs_buf out = {0};
    struct rs_kineto_writer writer;
    stream_init(&own);
    const size_t row = add_row(&own, RS_KIND_KERNEL, "MatMul", 1000, 5000);
    assert_ok(rs_strtab_add(&own.strings, "\"32,3\"", 6, &own.batch.input_dims[row]));
    assert_ok(rs_strtab_add(&own.strings, "FLOAT;\"x\n", 9, &own.batch.input_types[row]));
    rs_kineto_write_begin(&writer, &out);
    writer.fills_in = true;
    rs_buf_reset(&out);
    rs_kineto_write_rows(&writer, &own.batch);
    assert_string_equal(
        rs_buf_text(&out),
        "\n{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"MatMul\", \"pid\": 100, \"tid\": 1, "
        "\"ts\": 1, \"dur\": 4, \"args\": {\"Input Dims\": \"32,3\", \"Input type\": "
        "\"FLOAT;\\\"x\\u000a\"}}");
    rs_buf_fini(&out);
    stream_fini(&own);
}

/* What a chunk of a stranger's says may be any text of any length; a row of no length that can be said has the longest. */
static void times_of_a_stranger_stay_within_what_can_be_said(void **state)
{
    (void)state;
    struct stream own;
    struct rs_buf out = {0};
    struct rs_kineto_writer writer;
    stream_init(&own);
    (void)add_row(&own, RS_KIND_OP, "x", INT64_MIN, INT64_MAX);
    rs_kineto_write_begin(&writer, &out);
    writer.fills_in = true;
    rs_kineto_write_rows(&writer, &own.batch);
    assert_non_null(strstr(rs_buf_text(&out), "\"dur\": 9223372036854775.807"));
    rs_buf_fini(&out);
    stream_fini(&own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(native_rows_become_rows_of_a_trace),
        cmocka_unit_test(what_a_document_says_itself_is_said_once),
        cmocka_unit_test(rows_of_a_trace_are_left_as_they_were),
        cmocka_unit_test(texts_of_other_profilers_are_strings),
        cmocka_unit_test(times_of_a_stranger_stay_within_what_can_be_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
