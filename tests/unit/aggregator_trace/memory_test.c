/* SPDX-License-Identifier: Apache-2.0 */
/* Memory over time, in torch's forms. */
#include "aggregator/trace/memory.h"

#include "trace_support.h"

/* A block of before, one that lives and goes, one that stays; another device's. */
static void fill(struct recording *own)
{
    recording_init(own);
    recording_memory(own, 10, 100, "\"Device Type\": 1, \"Device Id\": 0, \"Addr\": 1");
    recording_memory(own, 20, -40, "\"Device Type\": 1, \"Device Id\": 0, \"Addr\": 2");
    recording_memory(own, 30, -100, "\"Device Type\": 1, \"Device Id\": 0, \"Addr\": 1");
    recording_memory(own, 40, 7, "\"Device Type\": 1, \"Device Id\": 0, \"Addr\": 1");
    recording_memory(own, 50, 9999, "\"Device Type\": 1, \"Device Id\": 1, \"Addr\": 1");
    recording_memory(own, 60, 8888, "\"Device Type\": 0, \"Device Id\": -1, \"Addr\": 1");
    recording_memory(own, 70, -5, "\"Device Type\": 1, \"Device Id\": 0");
    recording_nest(own);
}

static void what_was_there_before_is_known_when_it_is_freed(void **state)
{
    (void)state;
    struct recording own;
    struct rs_memory_timeline timeline;
    struct rs_memory_device device;
    struct rs_buf out = {0};
    fill(&own);
    assert_true(rs_memory_device_named("cuda:0", &device));
    assert_ok(rs_memory_timeline_new(&own.calls, 1000000, &device, &timeline, NULL));
    assert_int_equal(timeline.unknown, 1); /* of which nobody knows what was freed */
    assert_int_equal(timeline.peak_bytes, 140);
    rs_memory_write_events(&timeline, &out);
    assert_string_equal(rs_buf_text(&out),
                        "[[-1, 1, 40, 7], [1010000, 2, 100, 7], [1020000, 4, -40, 7], "
                        "[1030000, 4, -100, 7], [1040000, 2, 7, 7]]\n");
    rs_buf_reset(&out);
    rs_memory_write_sizes(&timeline, &out);
    assert_string_equal(rs_buf_text(&out),
                        "[[1010, 1020, 1030, 1040], [[0, 0, 0, 0, 0, 0, 0, 0, 140], "
                        "[0, 0, 0, 0, 0, 0, 0, 0, 100], [0, 0, 0, 0, 0, 0, 0, 0, 0], "
                        "[0, 0, 0, 0, 0, 0, 0, 0, 7]]]\n");
    rs_buf_reset(&out);
    rs_memory_write_page(&timeline, "Rank 3 <b>", &out);
    assert_non_null(strstr(rs_buf_text(&out), "Rank 3 &#60;b&#62;"));
    assert_null(strstr(rs_buf_text(&out), "<b>"));
    rs_buf_fini(&out);
    rs_memory_timeline_fini(&timeline);
    recording_fini(&own);
}

static void a_device_without_a_row_is_an_error_that_names_one_with_some(void **state)
{
    (void)state;
    struct recording own;
    struct rs_memory_timeline timeline;
    struct rs_memory_device device;
    struct rs_err err = {0};
    fill(&own);
    assert_true(rs_memory_device_named("npu:3", &device));
    assert_status(rs_memory_timeline_new(&own.calls, 0, &device, &timeline, &err), RS_NOTFOUND);
    assert_non_null(strstr(err.text, "npu:3"));
    assert_non_null(strstr(err.text, "cuda:0 is there"));
    recording_fini(&own);
}

static void devices_are_named_as_torch_names_them(void **state)
{
    (void)state;
    struct recording own;
    struct rs_memory_timeline timeline;
    struct rs_memory_device device;
    static const char *const wrong[] = {"", "gpu", "cuda:", "cuda:x", "cuda:1x", "cuda1", "cpu:1"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_false(rs_memory_device_named(wrong[i], &device));
    fill(&own);
    assert_true(rs_memory_device_named("cuda", &device)); /* the first of them */
    assert_ok(rs_memory_timeline_new(&own.calls, 0, &device, &timeline, NULL));
    assert_int_equal(timeline.peak_bytes, 140);
    rs_memory_timeline_fini(&timeline);
    assert_true(rs_memory_device_default(&own.calls, &device));
    assert_int_equal(device.type, 1);
    assert_true(rs_memory_device_named("cpu", &device));
    assert_ok(rs_memory_timeline_new(&own.calls, 0, &device, &timeline, NULL));
    assert_int_equal(timeline.peak_bytes, 8888);
    rs_memory_timeline_fini(&timeline);
    recording_fini(&own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_there_before_is_known_when_it_is_freed),
        cmocka_unit_test(a_device_without_a_row_is_an_error_that_names_one_with_some),
        cmocka_unit_test(devices_are_named_as_torch_names_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
