/* SPDX-License-Identifier: Apache-2.0 */
/* Who holds whom, whose time, device work and memory it is. */
#include "aggregator/trace/averages.h"
#include "aggregator/trace/stacks.h"
#include "trace_support.h"

static const char *name_of(const struct recording *own, uint32_t call)
{
    return call == RS_NO_CALL ? "-" : rs_strtab_text(&own->strings, own->calls.items[call].name);
}

static void a_self_time_is_without_the_calls_inside_and_with_its_python_frames(void **state)
{
    (void)state;
    struct recording own;
    recording_init(&own);
    recording_row(&own, own.host, RS_KIND_CPU_OP, "inner", 30, 40); /* in no order */
    recording_row(&own, own.host, RS_KIND_USER_ANNOTATION, "layer", 0, 100);
    recording_row(&own, own.host, RS_KIND_PYTHON, "f.py(1): f", 10, 60);
    recording_row(&own, own.host, RS_KIND_CPU_OP, "outer", 20, 50);
    recording_nest(&own);
    assert_string_equal(name_of(&own, recording_call(&own, "inner")->parent), "outer");
    assert_string_equal(name_of(&own, recording_call(&own, "outer")->parent), "f.py(1): f");
    assert_string_equal(name_of(&own, recording_call(&own, "outer")->op), "layer");
    assert_int_equal(recording_call(&own, "outer")->self, 20000);
    assert_int_equal(recording_call(&own, "layer")->self, 70000);
    assert_int_equal(recording_call(&own, "layer")->own, 50000);
    recording_fini(&own);
}

static void a_row_that_only_overlaps_is_not_inside(void **state)
{
    (void)state;
    struct recording own;
    recording_init(&own);
    recording_row(&own, own.host, RS_KIND_USER_ANNOTATION, "range", 0, 100);
    recording_row(&own, own.host, RS_KIND_CPU_OP, "first", 10, 30);
    recording_row(&own, own.host, RS_KIND_CPU_OP, "across", 20, 40);
    recording_row(&own, own.other, RS_KIND_CPU_OP, "elsewhere", 25, 26);
    recording_nest(&own);
    assert_string_equal(name_of(&own, recording_call(&own, "across")->parent), "range");
    assert_int_equal(recording_call(&own, "first")->self, 20000);
    assert_int_equal(recording_call(&own, "elsewhere")->parent, RS_NO_CALL);
    recording_fini(&own);
}

static void an_overload_that_calls_the_next_is_one_call(void **state)
{
    (void)state;
    struct recording own;
    struct rs_averages averages;
    recording_init(&own);
    recording_row(&own, own.host, RS_KIND_CPU_OP, "aten::sum", 0, 30);
    recording_row(&own, own.host, RS_KIND_CPU_OP, "aten::sum", 5, 25);
    recording_row(&own, own.host, RS_KIND_CPU_OP, "aten::fill_", 10, 15);
    recording_row(&own, own.host, RS_KIND_CPU_OP, "aten::sum", 40, 50);
    recording_nest(&own);
    assert_ok(rs_averages_init(&averages, &(struct rs_averages_options){0}));
    assert_ok(rs_averages_add(&averages, 3, &own.calls, &own.strings, NULL));
    rs_averages_sort(&averages, RS_AVERAGE_SELF_CPU);
    assert_int_equal(averages.count, 2);
    assert_string_equal(rs_strtab_text(&averages.texts, averages.items[0].name), "aten::sum");
    assert_int_equal(averages.items[0].count, 2);
    assert_int_equal(averages.items[0].cpu, 40000);
    assert_int_equal(averages.items[0].self_cpu, 35000);
    assert_int_equal(averages.items[0].min, 10000);
    assert_int_equal(averages.items[0].rank, 3);
    rs_averages_fini(&averages);
    recording_fini(&own);
}

static size_t launch(struct recording *own, rs_ns at_us, int64_t correlation)
{
    const size_t row =
        recording_row(own, own->host, RS_KIND_RUNTIME, "cudaLaunchKernel", at_us, at_us + 1);
    own->batch.correlation[row] = correlation;
    return row;
}

static void kernel(struct recording *own, const char *name, rs_ns at_us, rs_ns length_us,
                   int64_t correlation, int64_t external_id)
{
    const size_t row =
        recording_row(own, own->device, RS_KIND_KERNEL, name, at_us, at_us + length_us);
    own->batch.correlation[row] = correlation;
    own->batch.external_id[row] = external_id;
}

static void device_work_is_its_launchs_operators(void **state)
{
    (void)state;
    struct recording own;
    recording_init(&own);
    recording_row(&own, own.host, RS_KIND_CPU_OP, "aten::linear", 0, 30);
    recording_row(&own, own.host, RS_KIND_CPU_OP, "aten::addmm", 5, 20);
    (void)launch(&own, 10, 77);
    const size_t named = recording_row(&own, own.host, RS_KIND_CPU_OP, "aten::copy_", 40, 50);
    own.batch.external_id[named] = 9;
    kernel(&own, "gemm", 100, 300, 77, -1);
    kernel(&own, "copy", 500, 20, 78, 9); /* its launch is not recorded */
    kernel(&own, "orphan", 600, 5, 79, -1);
    recording_nest(&own);
    assert_int_equal(recording_call(&own, "aten::addmm")->device_self, 300000);
    assert_int_equal(recording_call(&own, "aten::linear")->device_self, 0);
    assert_int_equal(recording_call(&own, "aten::linear")->device, 300000);
    assert_int_equal(recording_call(&own, "aten::copy_")->device, 20000);
    assert_int_equal(own.calls.device_rows[2].call, RS_NO_CALL);
    recording_fini(&own);
}

static void stacks_of_device_time_end_with_the_kernel(void **state)
{
    (void)state;
    struct recording own;
    struct rs_buf out = {0};
    uint64_t lines = 0;
    const struct rs_stacks_form of_device = {.metric = RS_STACK_SELF_DEVICE};
    const struct rs_stacks_form of_host = {.metric = RS_STACK_SELF_CPU};
    recording_init(&own);
    recording_row(&own, own.host, RS_KIND_PYTHON, "train.py(3): step; now", 0, 60);
    recording_row(&own, own.host, RS_KIND_CPU_OP, "aten::mm", 10, 30);
    (void)launch(&own, 12, 1);
    recording_row(&own, own.host, RS_KIND_CPU_OP, "aten::mm", 40, 50);
    (void)launch(&own, 42, 2);
    kernel(&own, "gemm", 100, 300, 1, -1);
    kernel(&own, "gemm", 500, 200, 2, -1);
    kernel(&own, "orphan", 800, 4, -1, -1);
    recording_nest(&own);
    assert_ok(rs_stacks_write(&own.calls, &own.strings, &of_device, &out, &lines, NULL));
    assert_string_equal(rs_buf_text(&out), "train.py(3):_step__now;aten::mm;gemm 500\norphan 4\n");
    assert_int_equal(lines, 2);
    rs_buf_reset(&out);
    assert_ok(rs_stacks_write(&own.calls, &own.strings, &of_host, &out, &lines, NULL));
    assert_string_equal(rs_buf_text(&out),
                        "train.py(3):_step__now 30\ntrain.py(3):_step__now;aten::mm 28\n"
                        "train.py(3):_step__now;aten::mm;cudaLaunchKernel 2\n");
    rs_buf_fini(&out);
    recording_fini(&own);
}

static void bytes_are_the_innermost_calls_at_that_time(void **state)
{
    (void)state;
    struct recording own;
    recording_init(&own);
    recording_memory(&own, 12, 4096, "\"Device Type\": 0, \"Addr\": 5");
    recording_row(&own, own.host, RS_KIND_CPU_OP, "aten::relu", 0, 30);
    recording_row(&own, own.host, RS_KIND_CPU_OP, "aten::empty", 10, 20);
    recording_memory(&own, 25, -1024, "\"Device Type\": 0, \"Addr\": 6");
    recording_memory(&own, 28, 512, "\"Device Type\": 1, \"Device Id\": 0, \"Addr\": 7");
    recording_memory(&own, 90, 1, "\"Device Type\": 0, \"Addr\": 8");
    recording_nest(&own);
    assert_int_equal(recording_call(&own, "aten::empty")->memory_self, 4096);
    assert_int_equal(recording_call(&own, "aten::relu")->memory_self, -1024);
    assert_int_equal(recording_call(&own, "aten::relu")->memory, 3072);
    assert_int_equal(recording_call(&own, "aten::relu")->device_memory, 512);
    recording_fini(&own);
}

static void numbered_steps_are_one_row_and_stacks_tell_rows_apart(void **state)
{
    (void)state;
    struct recording own;
    struct rs_averages averages;
    recording_init(&own);
    recording_row(&own, own.host, RS_KIND_USER_ANNOTATION, "ProfilerStep#4", 0, 100);
    recording_row(&own, own.host, RS_KIND_PYTHON, "a.py(1): a", 5, 40);
    recording_row(&own, own.host, RS_KIND_CPU_OP, "aten::add", 10, 20);
    recording_row(&own, own.host, RS_KIND_PYTHON, "b.py(1): b", 50, 90);
    recording_row(&own, own.host, RS_KIND_CPU_OP, "aten::add", 60, 80);
    recording_row(&own, own.host, RS_KIND_USER_ANNOTATION, "ProfilerStep#5", 100, 200);
    recording_row(&own, own.host, RS_KIND_USER_ANNOTATION, "#5", 120, 130);
    recording_nest(&own);
    assert_ok(rs_averages_init(&averages, &(struct rs_averages_options){.stack_frames = 1}));
    assert_ok(rs_averages_add(&averages, 0, &own.calls, &own.strings, NULL));
    rs_averages_sort(&averages, RS_AVERAGE_CPU);
    assert_int_equal(averages.count, 4);
    assert_string_equal(rs_strtab_text(&averages.texts, averages.items[0].name), "ProfilerStep*");
    assert_int_equal(averages.items[0].count, 2);
    assert_string_equal(rs_strtab_text(&averages.texts, averages.items[1].stack), "b.py(1): b");
    assert_int_equal(averages.items[1].cpu, 20000);
    rs_averages_fini(&averages);
    recording_fini(&own);
}

static void floating_point_operations_are_torchs(void **state)
{
    (void)state;
    assert_int_equal(rs_flops_of("aten::mm", "[[32, 64], [64, 8]]", NULL), 2 * 32 * 64 * 8);
    assert_int_equal(rs_flops_of("aten::addmm", "[[8], [32, 64], [64, 8], [], []]", NULL),
                     2 * 32 * 64 * 8);
    assert_int_equal(rs_flops_of("aten::bmm", "[[4, 3, 5], [4, 5, 7]]", NULL), 2 * 4 * 3 * 5 * 7);
    /* One image of 3 x 32 x 32 by 16 filters of 3 x 3, padded by one, every second place. */
    assert_int_equal(rs_flops_of("aten::conv2d",
                                 "[[1, 3, 32, 32], [16, 3, 3, 3], [16], [], [], [], []]",
                                 "[\"\", \"\", \"\", \"[2, 2]\", \"[1, 1]\", \"[1, 1]\", \"1\"]"),
                     2 * 16 * 16 * 16 * 3 * 3 * 3);
    assert_int_equal(rs_flops_of("aten::mm", "[[32, 64], [32, 8]]", NULL), -1);
    assert_int_equal(rs_flops_of("aten::mm", "[[9223372036854775807, 2], [2, 8]]", NULL), -1);
    assert_int_equal(rs_flops_of("aten::mm", "[[32, 64", NULL), -1);
    assert_int_equal(rs_flops_of("aten::conv2d", "[[1, 3, 32, 32], [16, 3, 3, 3]]", "[\"\", \"\"]"),
                     -1);
    assert_int_equal(rs_flops_of("aten::relu", "[[32, 64], [64, 8]]", NULL), -1);
    assert_int_equal(rs_flops_of("aten::conv2d", "[[1, 1, 9223372036854775807, 1], [1, 1, 0, 1]]",
                                 "[\"\", \"\", \"\", \"[1]\", \"[0]\", \"[1]\"]"),
                     -1);
    /* a kernel of no size, as far apart as can be */
    assert_int_equal(rs_flops_of("aten::conv2d", "[[1, 1, 9223372036854775807, 1], [1, 1, 0, 1]]",
                                 "[\"\", \"\", \"\", \"[1]\", \"[0]\", \"[9223372036854775807]\"]"),
                     -1);
}

static void times_of_a_strangers_file_do_no_harm(void **state)
{
    (void)state;
    struct recording own;
    struct rs_averages averages;
    recording_init(&own);
    for (unsigned i = 0; i < 4; i++) {
        const size_t row = recording_row(&own, own.host, RS_KIND_CPU_OP, "far", 0, 0);
        own.batch.start[row] = i < 2 ? 0 : INT64_MIN;
        own.batch.end[row] = INT64_MAX;
    }
    recording_nest(&own);
    assert_int_equal(own.calls.count, 2);
    assert_ok(rs_averages_init(&averages, &(struct rs_averages_options){0}));
    assert_ok(rs_averages_add(&averages, 0, &own.calls, &own.strings, NULL));
    assert_int_equal(averages.items[0].cpu, INT64_MAX);
    rs_averages_fini(&averages);
    recording_fini(&own);
}

/* Deeper than any stack: nobody walks from each of them to the outermost. */
static void calls_a_hundred_thousand_deep_are_summed_up(void **state)
{
    (void)state;
    enum { DEPTH = 200000 };
    static const char *const names[] = {"a", "b", "a", "c"};
    const struct rs_averages_options how = {.stack_frames = 2};
    const struct rs_stacks_form form = {.limit_bytes = 1 << 20};
    struct recording own;
    struct rs_averages averages;
    struct rs_buf out = {0};
    struct rs_err err = {0};
    uint64_t lines = 0;
    recording_init(&own);
    recording_row(&own, own.host, RS_KIND_PYTHON, "main", 0, 2 * DEPTH + 2);
    for (size_t i = 0; i < DEPTH; i++) {
        recording_row(&own, own.host, i % 4 == 3 ? RS_KIND_PYTHON : RS_KIND_CPU_OP, names[i % 4],
                      (rs_ns)i + 1, 2 * DEPTH + 1 - (rs_ns)i);
        if (own.batch.count == 256) {
            assert_ok(rs_trace_calls_add(&own.calls, &own.batch, NULL));
            rs_batch_reset(&own.batch);
        }
    }
    recording_row(&own, own.host, RS_KIND_CPU_OP, "a", 2 * DEPTH + 10, 2 * DEPTH + 15);
    recording_nest(&own);
    assert_ok(rs_averages_init(&averages, &how));
    assert_ok(rs_averages_add(&averages, 0, &own.calls, &own.strings, NULL));
    rs_dur total = 0;
    for (size_t i = 0; i < averages.count; i++)
        if (strcmp(rs_strtab_text(&averages.texts, averages.items[i].name), "a") == 0)
            total += averages.items[i].cpu;
    /* the outermost, and the one behind it: what is inside is in its total */
    assert_int_equal(total, (2 * (rs_dur)DEPTH + 5) * 1000);
    assert_status(rs_stacks_write(&own.calls, &own.strings, &form, &out, &lines, &err), RS_LIMIT);
    assert_string_equal(err.text, "its stacks are too many or too deep");
    rs_buf_fini(&out);
    rs_averages_fini(&averages);
    recording_fini(&own);
}

/* A name of a stranger's steers no terminal, nor do its shapes and frames; sums of sums stay at their ends, too. */
static void a_table_for_people_is_plain(void **state)
{
    (void)state;
    const struct rs_averages_options how = {.by_shapes = true, .stack_frames = 1};
    const struct rs_averages_form form = {.row_limit = SIZE_MAX, .form = RS_AVERAGES_TEXT};
    struct recording own;
    struct rs_averages averages;
    struct rs_buf out = {0};
    recording_init(&own);
    recording_row(&own, own.host, RS_KIND_PYTHON, "f\x1b[2J\xc2\x9b\nsecond\x7f", 0, 100);
    for (unsigned i = 0; i < 3; i++) {
        const size_t row =
            recording_row(&own, own.host, RS_KIND_CPU_OP, i ? "x\x1b\x7f\r\ny" : "y", 1 + i, 2 + i);
        own.batch.input_dims[row] = recording_text(&own, "[[\"\x1b\xc2\x9b\"]]");
        const uint32_t lanes[] = {own.host, own.other, own.other};
        own.batch.lane[row] = lanes[i];
    }
    for (size_t row = own.batch.count - 2; row < own.batch.count; row++) {
        own.batch.start[row] = 0;
        own.batch.end[row] = INT64_MAX;
    }
    own.batch.lane[own.batch.count - 1] = recording_lane(&own, RS_LANE_HOST, -1, 3);
    recording_nest(&own);
    assert_ok(rs_averages_init(&averages, &how));
    assert_ok(rs_averages_add(&averages, 0, &own.calls, &own.strings, NULL));
    rs_averages_sort(&averages, RS_AVERAGE_CPU);
    rs_averages_write(&averages, &form, &out);
    for (size_t i = 0; i < out.length; i++)
        assert_true(out.data[i] == '\n' || (out.data[i] >= ' ' && out.data[i] < 0x7f));
    assert_non_null(strstr(rs_buf_text(&out), "f\\u001b[2J\\u009b\n    second\\u007f\n"));
    assert_non_null(strstr(rs_buf_text(&out), "    [[\"\\u001b\\u009b\"]]\n"));
    rs_buf_fini(&out);
    rs_averages_fini(&averages);
    recording_fini(&own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_self_time_is_without_the_calls_inside_and_with_its_python_frames),
        cmocka_unit_test(a_row_that_only_overlaps_is_not_inside),
        cmocka_unit_test(an_overload_that_calls_the_next_is_one_call),
        cmocka_unit_test(device_work_is_its_launchs_operators),
        cmocka_unit_test(stacks_of_device_time_end_with_the_kernel),
        cmocka_unit_test(bytes_are_the_innermost_calls_at_that_time),
        cmocka_unit_test(numbered_steps_are_one_row_and_stacks_tell_rows_apart),
        cmocka_unit_test(floating_point_operations_are_torchs),
        cmocka_unit_test(times_of_a_strangers_file_do_no_harm),
        cmocka_unit_test(calls_a_hundred_thousand_deep_are_summed_up),
        cmocka_unit_test(a_table_for_people_is_plain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
