/* SPDX-License-Identifier: Apache-2.0 */
/* Rows in which every column takes every value: sums go to their ends, nothing overflows, and what comes out has its form. */
#include "aggregator/trace/averages.h"
#include "aggregator/trace/memory.h"
#include "aggregator/trace/stacks.h"
#include "tests/support/make_batches.h"
#include "trace_support.h"

enum { SEEDS = 60, ROWS = 400 };

static void summed_up(const struct rs_trace_calls *calls, const struct rs_strtab *strings)
{
    struct rs_averages averages;
    const struct rs_averages_options how = {.by_shapes = true, .stack_frames = 3};
    assert_ok(rs_averages_init(&averages, &how));
    assert_ok(rs_averages_add(&averages, 1, calls, strings, NULL));
    rs_averages_sort(&averages, RS_AVERAGE_CPU);
    uint64_t counted = 0, expected = calls->device_count;
    for (size_t i = 0; i < averages.count; i++)
        counted += averages.items[i].count;
    for (size_t i = 0; i < calls->count; i++)
        expected += calls->items[i].kind != RS_KIND_PYTHON && !calls->items[i].is_again;
    assert_int_equal(counted, expected);
    rs_averages_fini(&averages);
}

static void stacked(const struct rs_trace_calls *calls, const struct rs_strtab *strings,
                    enum rs_stack_metric metric)
{
    struct rs_buf out = {0};
    uint64_t lines = 0, seen = 0;
    const struct rs_stacks_form how = {.metric = metric};
    assert_ok(rs_stacks_write(calls, strings, &how, &out, &lines, NULL));
    for (size_t i = 0; i < out.length; i++)
        seen += out.data[i] == '\n';
    assert_int_equal(seen, lines); /* no name breaks a line */
    rs_buf_fini(&out);
}

static void drawn(const struct rs_trace_calls *calls, rs_ns base_ns)
{
    struct rs_memory_device device;
    struct rs_memory_timeline timeline;
    struct rs_buf out = {0};
    if (!rs_memory_device_default(calls, &device))
        return;
    const enum rs_status status = rs_memory_timeline_new(calls, base_ns, &device, &timeline, NULL);
    if (status == RS_NOTFOUND)
        return; /* no row had a time */
    assert_ok(status);
    rs_memory_write_sizes(&timeline, &out);
    rs_memory_write_events(&timeline, &out);
    rs_memory_write_page(&timeline, "wild", &out);
    assert_false(out.failed);
    rs_buf_fini(&out);
    rs_memory_timeline_fini(&timeline);
}

static void wild_rows_do_no_harm(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct make_stream stream;
        struct rs_trace_calls calls = {0};
        make_open(&stream, seed, ROWS);
        make_wild(&stream, ROWS);
        assert_ok(rs_trace_calls_add(&calls, &stream.batch, NULL));
        assert_ok(rs_trace_calls_nest(&calls, NULL));
        for (size_t i = 0; i < calls.count; i++)
            assert_true(calls.items[i].parent == RS_NO_CALL || calls.items[i].parent < i);
        summed_up(&calls, &stream.strings);
        stacked(&calls, &stream.strings, RS_STACK_SELF_CPU);
        stacked(&calls, &stream.strings, RS_STACK_SELF_DEVICE);
        drawn(&calls, seed % 3 ? 0 : (rs_ns)seed * RS_NS_PER_S);
        rs_trace_calls_fini(&calls);
        make_close(&stream);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wild_rows_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
