/* SPDX-License-Identifier: Apache-2.0 */
#include "common/reduce/summary_merge.h"

#include "common/base/mem.h"
#include "tests/support/make_summary.h"
#include "tests/support/rs_test.h"

#include <string.h>

static const int32_t both[] = {0, 1};

/* One recording: a step [start, start + 100), an all-reduce with one hop, a kernel, a dropped row. */
static void record(struct rs_summary *summary, int64_t step, rs_ns start)
{
    make_summary_init(summary, 1, "n1");
    summary->step_origin = RS_STEPS_PROFILER_STEP;
    summary->span_start = start;
    summary->span_end = start + 100;
    (void)make_text(summary, start ? "only later" : "only first"); /* ids differ between the two */
    (void)make_step(summary, step, start, start + 100);
    const uint32_t group = make_group(summary, "dp", both, 2);
    struct rs_comm_op *op = make_op(summary, RS_OP_ALL_REDUCE, start + 10, start + 20);
    op->group = group;
    op->step = step;
    op->name = make_text(summary, "ncclAllReduce");
    const struct rs_comm_task task = {.src = 0,
                                      .dst = 1,
                                      .bytes = 7,
                                      .start = start + 11,
                                      .end = start + 12,
                                      .transport = make_text(summary, "TCP")};
    make_task(summary, &task);
    summary->devices = rs_mem_calloc(1, sizeof *summary->devices);
    summary->device_count = summary->device_capacity = 1;
    summary->devices[0] = (struct rs_device_row){
        .window_start = start + 1, .window_end = start + 99, .busy = 30, .computing = 20};
    summary->kernels = rs_mem_calloc(1, sizeof *summary->kernels);
    summary->kernel_count = summary->kernel_capacity = 1;
    summary->kernels[0] = (struct rs_kernel_row){.name = make_text(summary, "sgemm"),
                                                 .count = 2,
                                                 .total = 20,
                                                 .min = start ? 5 : 9,
                                                 .max = 11};
    summary->trace.events_read = 10;
    assert_ok(rs_trace_info_drop(&summary->trace, &summary->strings, "no duration", 3));
    struct rs_provenance *vendor = summary->trace.vendor = rs_provenance_new();
    assert_non_null(vendor);
    vendor->framework = make_text(summary, "torch_npu");
    vendor->cann_version = make_text(summary, start ? "8.3" : "8.2");
    assert_ok(
        rs_mem_grow((void **)&vendor->steps, &vendor->step_capacity, 1, sizeof *vendor->steps));
    assert_ok(
        rs_mem_grow((void **)&vendor->comms, &vendor->comm_capacity, 1, sizeof *vendor->comms));
    vendor->steps[vendor->step_count++] =
        (struct rs_vendor_step){.step = make_text(summary, start ? "105" : "5"), .ps = {7 + start}};
    vendor->comms[vendor->comm_count++] =
        (struct rs_vendor_comm){.step = make_text(summary, start ? "step105" : "step5"),
                                .group = make_text(summary, "17"),
                                .name = make_text(summary, "hcom_allReduce__017_0_1"),
                                .wait = 9 + start};
}

static void what_the_vendor_reported_of_both_stays(void **state)
{
    (void)state;
    struct rs_summary first, later;
    record(&first, 5, 0);
    record(&later, 105, 1000);
    assert_ok(rs_summary_merge(&first, &later, NULL));
    const struct rs_provenance *vendor = first.trace.vendor;
    assert_string_equal(rs_strtab_text(&first.strings, vendor->framework), "torch_npu");
    assert_true(vendor->cann_version == RS_STR_NONE); /* two of them */
    assert_int_equal(vendor->step_count, 2);
    assert_string_equal(rs_strtab_text(&first.strings, vendor->steps[1].step), "105");
    assert_int_equal(vendor->steps[1].ps[0], 1007);
    assert_int_equal(vendor->comm_count, 2);
    assert_string_equal(rs_strtab_text(&first.strings, vendor->comms[1].step), "step105");
    assert_true(vendor->comms[0].name == vendor->comms[1].name);
    assert_int_equal(vendor->comms[1].wait, 1009);
    rs_summary_fini(&first);
    rs_summary_fini(&later);
}

static void a_later_recording_is_added(void **state)
{
    (void)state;
    struct rs_summary first, later;
    record(&first, 5, 0);
    record(&later, 105, 1000);
    assert_ok(rs_summary_merge(&first, &later, NULL));
    assert_int_equal(first.step_count, 2);
    assert_int_equal(first.steps[1].step, 105);
    assert_int_equal(first.op_count, 2);
    assert_int_equal(first.ops[1].step, 105);
    assert_int_equal(first.ops[1].task_first, 1);
    assert_true(first.ops[1].call_order > first.ops[0].call_order);
    assert_string_equal(rs_strtab_text(&first.strings, first.ops[1].name), "ncclAllReduce");
    assert_string_equal(rs_strtab_text(&first.strings, first.tasks[1].transport), "TCP");
    assert_int_equal(first.group_count, 1); /* the same group */
    assert_int_equal(first.ops[1].group, first.ops[0].group);
    assert_int_equal(first.device_count, 1);
    assert_int_equal(first.devices[0].window_start, 1);
    assert_int_equal(first.devices[0].window_end, 1099);
    assert_int_equal(first.devices[0].busy, 60);
    assert_int_equal(first.kernel_count, 1);
    assert_int_equal(first.kernels[0].count, 4);
    assert_int_equal(first.kernels[0].min, 5);
    assert_int_equal(first.trace.events_read, 20);
    assert_int_equal(first.trace.drop_count, 1);
    assert_int_equal(first.trace.drops[0].count, 6);
    assert_int_equal(first.span_end, 1100);
    rs_summary_fini(&first);
    rs_summary_fini(&later);
}

static void unnamed_steps_go_on_counting(void **state)
{
    (void)state;
    struct rs_summary first, later;
    record(&first, 0, 0);
    record(&later, 0, 1000);
    first.step_origin = later.step_origin = RS_STEPS_OPTIMIZER_STEP;
    assert_ok(rs_summary_merge(&first, &later, NULL));
    assert_int_equal(first.steps[1].step, 1);
    assert_int_equal(first.ops[1].step, 1);
    rs_summary_fini(&first);
    rs_summary_fini(&later);
}

static void what_cannot_be_put_in_order_is_refused_and_changes_nothing(void **state)
{
    (void)state;
    struct rs_summary first, later;
    struct rs_err err = {0};
    record(&first, 5, 0);
    record(&later, 105, 50);
    assert_status(rs_summary_merge(&first, &later, &err), RS_INVALID);
    assert_non_null(strstr(err.text, "overlap"));
    later.span_start = 1000;
    later.trace.has_time_base = false;
    assert_status(rs_summary_merge(&first, &later, &err), RS_INVALID);
    assert_int_equal(first.step_count, 1);
    assert_int_equal(first.op_count, 1);
    rs_summary_fini(&first);
    rs_summary_fini(&later);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_vendor_reported_of_both_stays),
        cmocka_unit_test(a_later_recording_is_added),
        cmocka_unit_test(unnamed_steps_go_on_counting),
        cmocka_unit_test(what_cannot_be_put_in_order_is_refused_and_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
