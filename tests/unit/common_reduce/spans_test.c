/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/mem.h"
#include "common/reduce/reduce.h"
#include "common/reduce/summary_merge.h"
#include "tests/support/make_events.h"
#include "tests/support/rs_test.h"

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

static void call(struct make_events *e, const char *name, uint32_t lane, rs_ns start, rs_ns end)
{
    make_row(e, name[0] == 'g' ? RS_KIND_USER_ANNOTATION : RS_KIND_CPU_OP, name, lane, start, end);
}

static void expect_times(const struct rs_span_row *span, rs_ns start, rs_ns end, rs_dur busy)
{
    assert_int_equal(span->start, start);
    assert_int_equal(span->end, end);
    assert_int_equal(span->busy, busy);
}

static void expect_top(const struct rs_summary *s, const struct rs_span_row *span, const char *name,
                       rs_dur ns)
{
    assert_string_equal(rs_strtab_text(&s->strings, span->top_name), name);
    assert_int_equal(span->top_ns, ns);
}

/*
 *  host   |10 a  |20 b  |30 copy  |40 call+nccl |50 a   |60 sync.....130|  |140 step 2  150 c
 *  s 7      100-110 115-120                        121-125                                  160-170
 *  s 8                    130-135 (copy)
 */
static void calls_waits_and_steps_part_the_rows_of_a_stream(void **unused)
{
    (void)unused;
    struct make_events e;
    struct rs_summary s;
    make_events_init(&e);
    const uint32_t host = make_host_lane(&e, 11), seven = make_device_lane(&e, 0, 7),
                   eight = make_device_lane(&e, 0, 8), net = make_device_lane(&e, 0, 20);
    make_row(&e, RS_KIND_USER_ANNOTATION, "ProfilerStep#1", host, 0, 140);
    make_row(&e, RS_KIND_USER_ANNOTATION, "ProfilerStep#2", host, 140, 300);
    make_row(&e, RS_KIND_USER_ANNOTATION, "enumerate(DataLoader)#It.__next__", host, 2, 9);
    make_row(&e, RS_KIND_USER_ANNOTATION, "enumerate(DataLoader)#It.__next__", host, 145, 155);
    make_launched(&e, "a", host, 10, seven, (struct make_span){100, 110});
    make_launched(&e, "b", host, 20, seven, (struct make_span){115, 120});
    make_launched(&e, "Memcpy DtoH", host, 30, eight, (struct make_span){130, 135});
    e.batch.kind[e.row] = RS_KIND_MEMCPY;
    call(&e, "c10d::allreduce_", host, 40, 48);
    make_launched(&e, "ncclDevKernel_AllReduce", host, 45, net, (struct make_span){120, 200});
    make_launched(&e, "a", host, 50, seven, (struct make_span){121, 125});
    make_row(&e, RS_KIND_RUNTIME, "cudaStreamSynchronize", host, 60, 130);
    make_correlation(&e, 77);
    make_row(&e, RS_KIND_DRIVER, "cuStreamSynchronize", host, 61, 129); /* the same wait */
    make_row(&e, RS_KIND_SYNC, "Stream Sync", eight, 60, 130);
    make_correlation(&e, 77);
    make_launched(&e, "c", host, 150, seven, (struct make_span){160, 170});
    reduce(&e, &s);

    assert_int_equal(s.op_count, 1);
    assert_int_equal(s.span_count, 5);
    const struct rs_span_row *own = &s.spans[0], *copy = &s.spans[1], *later = &s.spans[2],
                             *wait = &s.spans[3], *next = &s.spans[4];
    expect_times(own, 100, 120, 15);
    expect_top(&s, own, "a", 10);
    assert_int_equal(own->kind, RS_SPAN_COMPUTING);
    assert_int_equal(own->count, 2);
    assert_int_equal(own->order, 0);
    assert_int_equal(own->step, 1);
    assert_int_equal(own->device, 0);
    assert_int_equal(own->stream, 7);
    assert_int_equal(own->thread, 11);
    assert_int_equal(own->launch_first, 10);
    assert_int_equal(own->launch_last, 20);
    expect_times(copy, 130, 135, 5);
    assert_int_equal(copy->kind, RS_SPAN_MEMORY);
    assert_int_equal(copy->order, 1);
    assert_int_equal(s.ops[0].call_order, 2);
    expect_times(later, 121, 125, 4);
    assert_int_equal(later->order, 3);
    assert_true(later->signature != own->signature);
    expect_times(wait, 60, 130, 0);
    assert_int_equal(wait->kind, RS_SPAN_HOST_WAIT);
    assert_int_equal(wait->order, 4);
    assert_int_equal(wait->stream, 8);
    assert_int_equal(wait->device, 0);
    assert_int_equal(wait->thread, 11);
    assert_true(wait->top_name == RS_STR_NONE);
    expect_times(next, 160, 170, 10);
    assert_int_equal(next->order, 5);
    assert_int_equal(next->step, 2);
    assert_int_equal(s.steps[0].input_ns, 7);
    assert_int_equal(s.steps[1].input_ns, 5); /* from 145 to the first launch */
    assert_int_equal(s.steps[0].input_inside_ns, 0);
    assert_int_equal(s.steps[1].input_inside_ns, 5); /* and on to 155 */
    rs_summary_fini(&s);
    make_events_fini(&e);
}

/* Of two ranks the same work has the same signature, at whatever times; other work another one. */
static void the_same_names_in_order_have_one_signature(void **unused)
{
    (void)unused;
    static const char *const names[3][2] = {{"a", "b"}, {"a", "b"}, {"b", "a"}};
    uint64_t signatures[3];
    for (int i = 0; i < 3; i++) {
        struct make_events e;
        struct rs_summary s;
        make_events_init(&e);
        const uint32_t host = make_host_lane(&e, 11), gpu = make_device_lane(&e, 0, 7);
        if (i) /* ids of names differ between ranks */
            (void)make_string(&e, "something else");
        make_launched(&e, names[i][0], host, 10 + i, gpu, (struct make_span){100 + i, 110});
        make_launched(&e, names[i][1], host, 20, gpu, (struct make_span){115, 120 + i});
        reduce(&e, &s);
        assert_int_equal(s.span_count, 1);
        signatures[i] = s.spans[0].signature;
        assert_int_equal(s.steps[0].input_ns, -1); /* no such range anywhere */
        rs_summary_fini(&s);
        make_events_fini(&e);
    }
    assert_true(signatures[0] == signatures[1]);
    assert_true(signatures[0] != signatures[2]);
}

/*
 *  host     |10 a  |20 a  |30 k  |40 b  |50 copy |60 b  |  what runs on stream 9 may be an operation under any name: the work
 *  s 7        100-110 115-120       300-310        320-330   before it and behind it are two spans. Copies part nothing,
 *  s 9                      120-295                          and a step is a cut by itself.
 */
static void launches_on_another_stream_part_spans(void **unused)
{
    (void)unused;
    struct make_events e;
    struct rs_summary s;
    make_events_init(&e);
    const uint32_t host = make_host_lane(&e, 11), seven = make_device_lane(&e, 0, 7),
                   eight = make_device_lane(&e, 0, 8), nine = make_device_lane(&e, 0, 9);
    make_row(&e, RS_KIND_USER_ANNOTATION, "ProfilerStep#1", host, 0, 140);
    make_row(&e, RS_KIND_USER_ANNOTATION, "ProfilerStep#2", host, 140, 400);
    make_launched(&e, "a", host, 10, seven, (struct make_span){100, 110});
    make_launched(&e, "a", host, 20, seven, (struct make_span){115, 120});
    make_launched(&e, "k", host, 30, nine, (struct make_span){120, 295});
    make_launched(&e, "b", host, 40, seven, (struct make_span){300, 310});
    make_launched(&e, "Memcpy DtoH", host, 50, eight, (struct make_span){301, 305});
    e.batch.kind[e.row] = RS_KIND_MEMCPY;
    make_launched(&e, "b", host, 60, seven, (struct make_span){320, 330});
    make_launched(&e, "a", host, 150, seven, (struct make_span){340, 350});
    make_launched(&e, "a", host, 160, seven, (struct make_span){355, 360});
    reduce(&e, &s);

    assert_int_equal(s.span_count, 5);
    expect_times(&s.spans[0], 100, 120, 15);
    expect_times(&s.spans[1], 120, 295, 175);
    assert_int_equal(s.spans[1].stream, 9);
    assert_int_equal(s.spans[1].count, 1);
    expect_times(&s.spans[2], 300, 330, 20);
    assert_int_equal(s.spans[3].kind, RS_SPAN_MEMORY);
    expect_times(&s.spans[4], 340, 360, 15);
    rs_summary_fini(&s);
    make_events_fini(&e);
}

/*
 *  host     |10 a  |20 a  |25 wait for an event  |30 b  |40 b  |  what stands behind the event may begin whenever another stream
 *  s 7        100-110 115-120                      300-310 312-320  has come so far
 */
static void a_stream_that_waits_for_an_event_begins_a_span(void **unused)
{
    static const char *const calls[] = {"cudaStreamWaitEvent", "hipStreamWaitEvent",
                                        "cuStreamWaitEvent", "cudaEventRecord"};
    (void)unused;
    for (int i = 0; i < 4; i++) {
        struct make_events e;
        struct rs_summary s;
        make_events_init(&e);
        const uint32_t host = make_host_lane(&e, 11), seven = make_device_lane(&e, 0, 7);
        make_launched(&e, "a", host, 10, seven, (struct make_span){100, 110});
        make_launched(&e, "a", host, 20, seven, (struct make_span){115, 120});
        make_row(&e, RS_KIND_RUNTIME, calls[i], host, 25, 26);
        make_launched(&e, "b", host, 30, seven, (struct make_span){300, 310});
        make_launched(&e, "b", host, 40, seven, (struct make_span){312, 320});
        reduce(&e, &s);
        assert_int_equal(s.span_count, i < 3 ? 2 : 1);
        expect_times(&s.spans[0], 100, i < 3 ? 120 : 320, i < 3 ? 15 : 33);
        if (i < 3) {
            expect_times(&s.spans[1], 300, 320, 18);
        }
        rs_summary_fini(&s);
        make_events_fini(&e);
    }
}

/*
 *  s 7      100-110      201000-201010  201020-201030     what was launched long ago and begins when communication of another
 *  net          120 .......... 200990                     stream has just ended has waited for it, though no call says so
 */
static void a_row_that_begins_where_communication_ends_begins_a_span(void **unused)
{
    (void)unused;
    for (int late = 0; late < 2;
         late++) { /* behind it by more than an event takes: nothing is known of why */
        struct make_events e;
        struct rs_summary s;
        const rs_ns at = late ? 301000 : 201000;
        make_events_init(&e);
        const uint32_t host = make_host_lane(&e, 11), seven = make_device_lane(&e, 0, 7),
                       net = make_device_lane(&e, 0, 20);
        call(&e, "c10d::allreduce_", host, 2, 8);
        make_launched(&e, "ncclDevKernel_AllReduce", host, 5, net, (struct make_span){120, 200990});
        make_launched(&e, "a", host, 10, seven, (struct make_span){100, 110});
        make_launched(&e, "b", host, 20, seven, (struct make_span){at, at + 10});
        make_launched(&e, "b", host, 30, seven, (struct make_span){at + 20, at + 30});
        reduce(&e, &s);
        assert_int_equal(s.span_count, late ? 1 : 2);
        expect_times(&s.spans[0], 100, late ? at + 30 : 110, late ? 30 : 10);
        if (!late) {
            expect_times(&s.spans[1], at, at + 30, 20);
        }
        rs_summary_fini(&s);
        make_events_fini(&e);
    }
}

static void spans_stay_few_where_every_row_waits(void **unused)
{
    enum { ROWS = 1000, MOST = 256 };
    struct make_events e;
    struct rs_summary s;
    (void)unused;
    make_events_init(&e);
    const uint32_t host = make_host_lane(&e, 11), seven = make_device_lane(&e, 0, 7);
    for (int i = 0; i < ROWS; i++) {
        const rs_ns at = 10 * i;
        make_row(&e, RS_KIND_RUNTIME, "cudaStreamWaitEvent", host, at, at + 1);
        make_launched(&e, "a", host, at + 5, seven, (struct make_span){20000 + at, 20005 + at});
    }
    reduce(&e, &s);
    assert_int_equal(s.span_count, MOST);
    assert_int_equal(s.spans[MOST - 1].count, ROWS - MOST + 1);
    rs_summary_fini(&s);
    make_events_fini(&e);
}

/* A row whose launch was cut away was launched before the next one of its stream. */
static void a_row_without_launch_stands_before_the_next_of_its_stream(void **unused)
{
    (void)unused;
    struct make_events e;
    struct rs_summary s;
    make_events_init(&e);
    const uint32_t host = make_host_lane(&e, 11), gpu = make_device_lane(&e, 0, 7),
                   net = make_device_lane(&e, 0, 20);
    make_row(&e, RS_KIND_KERNEL, "lost", gpu, 100, 110);
    make_launched(&e, "a", host, 10, gpu, (struct make_span){120, 130});
    call(&e, "c10d::allreduce_", host, 40, 48);
    make_launched(&e, "ncclDevKernel_AllReduce", host, 45, net, (struct make_span){120, 200});
    make_row(&e, RS_KIND_KERNEL, "lost", gpu, 210, 220);
    reduce(&e, &s);
    assert_int_equal(s.span_count, 2);
    expect_times(&s.spans[0], 100, 130, 20);
    assert_int_equal(s.spans[0].launch_first, 10);
    assert_int_equal(s.spans[0].launch_last, 10);
    assert_int_equal(s.ops[0].call_order, 1);
    expect_times(&s.spans[1], 210, 220, 10);
    assert_int_equal(s.spans[1].launch_first, RS_SPAN_NO_LAUNCH);
    assert_int_equal(s.spans[1].order, 2);
    rs_summary_fini(&s);
    make_events_fini(&e);
}

/*
 * A gloo rank: computes, calls, waits until the operation has ended, sleeps 30 (its own time), computes.
 *
 *   computing  [0 20]                                  [80 100]
 *   call            |20-22
 *   gloo                 [25 ........... 50]
 *   pieces     [0 20][20   wait          50][50  own  ... 100]
 */
static void a_rank_without_a_device_waits_until_its_operation_ends(void **unused)
{
    (void)unused;
    struct make_events e;
    struct rs_summary s;
    make_events_init(&e);
    const uint32_t host = make_host_lane(&e, 11), worker = make_host_lane(&e, 12);
    make_row(&e, RS_KIND_USER_ANNOTATION, "ProfilerStep#1", host, 0, 100);
    make_row(&e, RS_KIND_CPU_OP, "aten::linear", host, 0, 20);
    make_row(&e, RS_KIND_CPU_OP, "aten::addmm", host, 2, 18);
    call(&e, "c10d::allreduce_", host, 20, 22);
    call(&e, "gloo:all_reduce", worker, 25, 50);
    make_row(&e, RS_KIND_CPU_OP, "aten::mul", host, 80, 100);
    reduce(&e, &s);
    assert_int_equal(s.op_count, 1);
    assert_int_equal(s.ops[0].call_order, 1);
    assert_int_equal(s.span_count, 3);
    expect_times(&s.spans[0], 0, 20, 20);
    expect_top(&s, &s.spans[0], "aten::addmm", 16);
    assert_int_equal(s.spans[0].order, 0);
    assert_int_equal(s.spans[0].count, 2);
    assert_int_equal(s.spans[0].device, -1);
    assert_int_equal(s.spans[0].thread, 11);
    assert_int_equal(s.spans[0].launch_first, 0);
    expect_times(&s.spans[1], 20, 50, 0);
    assert_int_equal(s.spans[1].kind, RS_SPAN_HOST_WAIT);
    assert_int_equal(s.spans[1].order, 2);
    expect_times(&s.spans[2], 50, 100, 20);
    expect_top(&s, &s.spans[2], "aten::mul", 20);
    assert_int_equal(s.spans[2].order, 3);
    assert_int_equal(s.spans[2].step, 1);
    rs_summary_fini(&s);
    make_events_fini(&e);
}

/* The worker notes the operation's end after the caller went on: a long idle stretch was the wait all the same. */
static void an_end_noted_late_ends_the_wait_before_it(void **unused)
{
    (void)unused;
    struct make_events e;
    struct rs_summary s;
    make_events_init(&e);
    const rs_ns us = 1000;
    const uint32_t host = make_host_lane(&e, 11), worker = make_host_lane(&e, 12);
    make_row(&e, RS_KIND_CPU_OP, "aten::a", host, 0, 20 * us);
    call(&e, "c10d::allreduce_", host, 20 * us, 22 * us);
    call(&e, "gloo:all_reduce", worker, 25 * us, 1090 * us);
    make_row(&e, RS_KIND_CPU_OP, "aten::b", host, 1020 * us, 1100 * us);
    reduce(&e, &s);
    assert_int_equal(s.span_count, 3);
    assert_int_equal(s.spans[1].kind, RS_SPAN_HOST_WAIT);
    expect_times(&s.spans[1], 20 * us, 1020 * us, 0);
    expect_times(&s.spans[2], 1020 * us, 1100 * us, 80 * us);
    rs_summary_fini(&s);
    make_events_fini(&e);
}

/* An operation that runs beside computing costs nobody any waiting; a short gap in it is own time. */
static void what_runs_beside_computing_is_not_waited_for(void **unused)
{
    (void)unused;
    struct make_events e;
    struct rs_summary s;
    make_events_init(&e);
    const uint32_t host = make_host_lane(&e, 11), worker = make_host_lane(&e, 12);
    make_row(&e, RS_KIND_CPU_OP, "aten::a", host, 0, 20);
    call(&e, "c10d::allreduce_", host, 20, 22);
    make_row(&e, RS_KIND_CPU_OP, "aten::b", host, 22, 30);
    make_row(&e, RS_KIND_CPU_OP, "aten::c", host, 35, 60);
    call(&e, "gloo:all_reduce", worker, 25, 50);
    reduce(&e, &s);
    assert_int_equal(s.span_count, 2);
    expect_times(&s.spans[0], 0, 20, 20);
    expect_times(&s.spans[1], 20, 60, 33);
    rs_summary_fini(&s);
    make_events_fini(&e);
}

/* Writers of 2021 call a step an operator: it bounds the step, and is no work. */
static void a_step_that_is_an_operator_is_a_step(void **unused)
{
    (void)unused;
    struct make_events e;
    struct rs_summary s;
    make_events_init(&e);
    const uint32_t host = make_host_lane(&e, 11);
    make_row(&e, RS_KIND_CPU_OP, "ProfilerStep#7", host, 0, 100);
    make_row(&e, RS_KIND_CPU_OP, "aten::mul", host, 10, 30);
    make_row(&e, RS_KIND_CPU_OP, "ProfilerStep#8", host, 100, 200);
    make_row(&e, RS_KIND_CPU_OP, "aten::mul", host, 110, 150);
    reduce(&e, &s);
    assert_int_equal(s.step_origin, RS_STEPS_PROFILER_STEP);
    assert_int_equal(s.step_count, 2);
    assert_int_equal(s.steps[0].step, 7);
    assert_int_equal(s.steps[0].computing, 20);
    assert_int_equal(s.steps[1].step, 8);
    assert_int_equal(s.steps[1].computing, 40);
    rs_summary_fini(&s);
    make_events_fini(&e);
}

static void recordings_that_are_joined_count_on(void **unused)
{
    (void)unused;
    struct rs_summary parts[2];
    struct rs_err err;
    for (int i = 0; i < 2; i++) {
        struct make_events e;
        make_events_init(&e);
        const rs_ns at = i * 1000;
        const uint32_t host = make_host_lane(&e, 11), gpu = make_device_lane(&e, 0, 7);
        make_launched(&e, i ? "b" : "a", host, at + 10, gpu,
                      (struct make_span){at + 100, at + 110});
        make_row(&e, RS_KIND_RUNTIME, "cudaDeviceSynchronize", host, at + 20, at + 111);
        reduce(&e, &parts[i]);
        assert_int_equal(parts[i].span_count, 2);
        make_events_fini(&e);
    }
    assert_ok(rs_summary_merge(&parts[0], &parts[1], &err));
    assert_int_equal(parts[0].span_count, 4);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(parts[0].spans[i].order, i);
    expect_top(&parts[0], &parts[0].spans[2], "b", 10);
    rs_summary_fini(&parts[0]);
    rs_summary_fini(&parts[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_waits_and_steps_part_the_rows_of_a_stream),
        cmocka_unit_test(the_same_names_in_order_have_one_signature),
        cmocka_unit_test(launches_on_another_stream_part_spans),
        cmocka_unit_test(a_stream_that_waits_for_an_event_begins_a_span),
        cmocka_unit_test(a_row_that_begins_where_communication_ends_begins_a_span),
        cmocka_unit_test(spans_stay_few_where_every_row_waits),
        cmocka_unit_test(a_row_without_launch_stands_before_the_next_of_its_stream),
        cmocka_unit_test(a_rank_without_a_device_waits_until_its_operation_ends),
        cmocka_unit_test(an_end_noted_late_ends_the_wait_before_it),
        cmocka_unit_test(what_runs_beside_computing_is_not_waited_for),
        cmocka_unit_test(a_step_that_is_an_operator_is_a_step),
        cmocka_unit_test(recordings_that_are_joined_count_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
