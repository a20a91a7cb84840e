/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sources that know more than names tell: class of a kernel, window of a step, hops of a device's operation.
 */
#include "common/reduce/reduce.h"
#include "tests/support/make_events.h"
#include "tests/support/rs_test.h"

#define US INT64_C(1000)

static void reduce(struct make_events *e, struct rs_summary *summary)
{
    struct rs_reduce *reducer;
    struct rs_err err;
    assert_ok(rs_batch_check(&e->batch, &err));
    assert_ok(rs_reduce_new(&e->strings, &e->lanes, &reducer));
    assert_ok(rs_reduce_add(reducer, &e->batch, &err));
    assert_ok(rs_reduce_finish(reducer, &e->info, summary, &err));
    rs_reduce_free(&reducer);
}

static void vendor_event(struct make_events *e, const char *name, uint32_t lane,
                         struct make_span span, uint8_t flag)
{
    make_row(e, RS_KIND_KERNEL, name, lane, span.start, span.end);
    e->batch.flags[e->row] = flag;
}

static void class_is_what_the_source_says(void **state)
{
    (void)state;
    struct make_events e;
    struct rs_summary s;
    make_events_init(&e);
    const uint32_t device = make_device_lane(&e, 3, 1);
    vendor_event(&e, "hcom_like_fused_kernel", device, (struct make_span){10 * US, 30 * US},
                 RS_EVENT_COMPUTING);
    vendor_event(&e, "plain_name", device, (struct make_span){30 * US, 70 * US},
                 RS_EVENT_COMMUNICATION);
    (void)make_comm(&e, "allReduce");
    reduce(&e, &s);
    assert_int_equal(s.devices[0].computing, 20 * US);
    assert_int_equal(s.devices[0].communication, 40 * US);
    assert_int_equal(s.op_count, 1);
    assert_int_equal(s.ops[0].type, RS_OP_ALL_REDUCE);
    assert_string_equal(rs_strtab_text(&s.strings, s.ops[0].op_text), "plain_name");
    rs_summary_fini(&s);
    make_events_fini(&e);
}

/* Without the row the window would begin with the first kernel that the step launched: at 20. */
static void reported_window_has_the_last_word(void **state)
{
    (void)state;
    struct make_events e;
    struct rs_summary s;
    make_events_init(&e);
    const uint32_t host = make_host_lane(&e, 1);
    const uint32_t device = make_device_lane(&e, 3, 1);
    const uint32_t other = make_device_lane(&e, 4, 1);
    make_row(&e, RS_KIND_USER_ANNOTATION, "ProfilerStep#7", host, 5 * US, 100 * US);
    make_launched(&e, "gemm", host, 6 * US, device, (struct make_span){20 * US, 40 * US});
    vendor_event(&e, "before", device, (struct make_span){8 * US, 10 * US}, RS_EVENT_COMPUTING);
    vendor_event(&e, "inside", device, (struct make_span){15 * US, 18 * US}, RS_EVENT_COMPUTING);
    vendor_event(&e, "elsewhere", other, (struct make_span){8 * US, 10 * US}, RS_EVENT_COMPUTING);
    make_row(&e, RS_KIND_STEP_WINDOW, "ProfilerStep", device, 12 * US, 100 * US);
    make_correlation(&e, 7);
    make_row(&e, RS_KIND_STEP_WINDOW, "ProfilerStep", device, 1 * US, 2 * US);
    make_correlation(&e, 8); /* no such step */
    make_row(&e, RS_KIND_STEP_WINDOW, "ProfilerStep", host, 1 * US, 2 * US);
    make_correlation(&e, 7); /* not on a device */
    reduce(&e, &s);
    assert_int_equal(s.step_count, 2);
    assert_int_equal(s.steps[0].device, 3);
    assert_int_equal(s.steps[0].computing,
                     23 * US); /* inside and gemm; "before" is not in the window */
    assert_int_equal(s.steps[0].preparing, 10 * US);
    assert_int_equal(s.steps[1].computing, 2 * US); /* the other device's bounds are the host's */
    rs_summary_fini(&s);
    make_events_fini(&e);
}

static void hop(struct make_events *e, uint32_t lane, int64_t of, struct make_span span,
                int64_t bytes)
{
    make_row(e, RS_KIND_COMM_TASK, "Memcpy", lane, span.start, span.end);
    e->batch.external_id[e->row] = of;
    struct rs_comm *comm = make_comm(e, NULL);
    comm->src = 0;
    comm->dst = 2;
    comm->bytes = bytes;
    comm->has = RS_COMM_HAS_SRC | RS_COMM_HAS_DST | RS_COMM_HAS_BYTES;
}

/* Several operations inside one call stay several; each has its own hops. */
static void each_operation_keeps_its_hops(void **state)
{
    (void)state;
    struct make_events e;
    struct rs_summary s;
    make_events_init(&e);
    const uint32_t host = make_host_lane(&e, 1);
    const uint32_t device = make_device_lane(&e, 3, 1);
    make_row(&e, RS_KIND_CPU_OP, "c10d::allreduce_", host, 0, 9 * US);
    for (int64_t id = 0; id < 2; id++) {
        const struct make_span span = {(10 + 20 * id) * US, (20 + 20 * id) * US};
        make_row(&e, RS_KIND_RUNTIME, "launch", host, (1 + id) * US, (2 + id) * US);
        make_correlation(&e, 50 + id);
        vendor_event(&e, id ? "hcom_allReduce__606_1_1" : "hcom_allReduce__606_0_1", device, span,
                     RS_EVENT_COMMUNICATION);
        make_correlation(&e, 50 + id);
        e.batch.external_id[e.row] = id;
        struct rs_comm *comm = make_comm(&e, "allReduce");
        comm->group_name = make_string(&e, "12345678901234567606");
        comm->group_ranks = make_string(&e, "[0, 2]");
    }
    hop(&e, device, 1, (struct make_span){33 * US, 36 * US}, 70);
    hop(&e, device, 1, (struct make_span){31 * US, 32 * US}, 60);
    hop(&e, device, 0, (struct make_span){12 * US, 13 * US}, 50);
    hop(&e, device, 9, (struct make_span){12 * US, 13 * US}, 40); /* of no operation */
    reduce(&e, &s);
    assert_int_equal(s.op_count, 2);
    assert_string_equal(rs_strtab_text(&s.strings, s.ops[1].op_text), "hcom_allReduce__606_1_1");
    assert_int_equal(s.ops[1].call_start, 2 * US);
    assert_int_equal(s.ops[0].task_count, 1);
    assert_int_equal(s.tasks[s.ops[0].task_first].bytes, 50);
    assert_int_equal(s.ops[1].task_count, 2);
    assert_int_equal(s.tasks[s.ops[1].task_first].bytes, 60); /* by start */
    assert_int_equal(s.tasks[s.ops[1].task_first + 1].bytes, 70);
    assert_true(s.tasks[s.ops[1].task_first].is_send);
    assert_int_equal(s.group_count, 1);
    assert_int_equal(s.groups[0].rank_count, 2);
    assert_int_equal(s.trace.drop_count, 1);
    assert_int_equal(s.trace.drops[0].count, 1);
    rs_summary_fini(&s);
    make_events_fini(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(class_is_what_the_source_says),
        cmocka_unit_test(reported_window_has_the_last_word),
        cmocka_unit_test(each_operation_keeps_its_hops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
