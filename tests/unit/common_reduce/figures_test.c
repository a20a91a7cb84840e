/* SPDX-License-Identifier: Apache-2.0 */
#include "common/reduce/classify.h"
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
    assert_null(reducer);
}

static const struct rs_step_row *step_of(const struct rs_summary *s, int64_t step, int32_t device)
{
    for (size_t i = 0; i < s->step_count; i++) {
        if (s->steps[i].step == step && s->steps[i].device == device)
            return &s->steps[i];
    }
    fail_msg("no step %d on device %d", (int)step, (int)device);
    return NULL;
}

static void assert_adds_up(const struct rs_summary *s)
{
    for (size_t i = 0; i < s->step_count; i++) {
        const struct rs_step_row *row = &s->steps[i];
        assert_int_equal(row->window_end - row->window_start,
                         row->window_computing + row->window_exposed + row->window_memory +
                             row->idle_head + row->idle_inside + row->idle_tail);
        assert_true(row->idle_head >= 0 && row->idle_inside >= 0 && row->idle_tail >= 0);
    }
}

/* Contracts section 4: step of 100 us, compute [5,65), communication [40,80), receive [70,80). */
static void contract_example(struct make_events *e, uint32_t host, uint32_t device)
{
    make_row(e, RS_KIND_USER_ANNOTATION, "ProfilerStep#12", host, 0, 100 * US);
    make_launched(e, "gemm", host, 1 * US, device, (struct make_span){5 * US, 65 * US});
    make_launched(e, "ncclDevKernel_AllReduce_Sum_f32", host, 2 * US, device,
                  (struct make_span){40 * US, 80 * US});
    make_row(e, RS_KIND_CPU_OP, "c10d::recv_", host, 3 * US, 6 * US);
    make_inputs(e, "[[[64]], [], [], []]", "[\"TensorList\", \"\", \"Scalar\", \"Scalar\"]",
                "[\"\", \"\", \"1\", \"0\"]");
    make_launched(e, "ncclDevKernel_SendRecv", host, 4 * US, device,
                  (struct make_span){70 * US, 80 * US});
}

static void contracts_example_comes_out_to_the_ns(void **unused)
{
    (void)unused;
    struct make_events e;
    struct rs_summary s;
    make_events_init(&e);
    contract_example(&e, make_host_lane(&e, 1), make_device_lane(&e, 0, 7));
    reduce(&e, &s);
    assert_int_equal(s.step_origin, RS_STEPS_PROFILER_STEP);
    assert_int_equal(s.step_count, 1);
    const struct rs_step_row *row = step_of(&s, 12, 0);
    assert_int_equal(row->computing, 60 * US);
    assert_int_equal(row->communication_not_overlapped, 15 * US);
    assert_int_equal(row->overlapped, 25 * US);
    assert_int_equal(row->communication, 40 * US);
    assert_int_equal(row->free, 0);
    assert_int_equal(row->stage, 65 * US);
    assert_int_equal(row->bubble, 10 * US);
    assert_int_equal(row->communication_not_overlapped_exclude_receive, 5 * US);
    assert_int_equal(row->preparing, 5 * US);
    assert_int_equal(row->window_start, 0);
    assert_int_equal(row->window_end, 80 * US); /* the last work that the step launched */
    assert_int_equal(row->window_computing, 60 * US);
    assert_int_equal(row->window_exposed, 15 * US);
    assert_int_equal(row->idle_head, 5 * US);
    assert_int_equal(row->idle_tail, 0);
    assert_adds_up(&s);
    assert_int_equal(s.device_count, 1);
    assert_int_equal(s.devices[0].window_end - s.devices[0].window_start, 75 * US);
    assert_int_equal(s.devices[0].busy, 75 * US);
    rs_summary_fini(&s);
    make_events_fini(&e);
}

static void devices_of_one_file_stay_apart(void **unused)
{
    (void)unused;
    struct make_events e;
    struct rs_summary s;
    make_events_init(&e);
    const uint32_t host = make_host_lane(&e, 1);
    make_row(&e, RS_KIND_USER_ANNOTATION, "ProfilerStep#0", host, 0, 1000);
    make_launched(&e, "gemm", host, 10, make_device_lane(&e, 3, 0),
                  (struct make_span){100, 300}); /* stream 0 */
    make_launched(&e, "gemm", host, 20, make_device_lane(&e, 1, 7), (struct make_span){200, 500});
    make_launched(&e, "gemm", host, 30, make_device_lane(&e, 3, 9), (struct make_span){250, 400});
    reduce(&e, &s);
    assert_int_equal(s.device_count, 2);
    assert_int_equal(s.devices[0].device, 1);
    assert_int_equal(s.devices[0].computing, 300);
    assert_int_equal(s.devices[1].device, 3);
    assert_int_equal(s.devices[1].computing, 300); /* [100,300) and [250,400) */
    assert_int_equal(s.step_count, 2);
    assert_int_equal(step_of(&s, 0, 1)->window_end, 500);
    assert_int_equal(step_of(&s, 0, 3)->window_end, 400);
    assert_adds_up(&s);
    assert_int_equal(s.kernel_count, 2);
    assert_int_equal(s.kernels[1].device, 3);
    assert_int_equal(s.kernels[1].count, 2);
    assert_int_equal(s.kernels[1].total, 350);
    assert_int_equal(s.kernels[1].min, 150);
    assert_int_equal(s.kernels[1].max, 200);
    rs_summary_fini(&s);
    make_events_fini(&e);
}

/* Launched in step 1, run while the host is in step 2. */
static void work_belongs_to_the_step_that_launched_it(void **unused)
{
    (void)unused;
    struct make_events e;
    struct rs_summary s;
    make_events_init(&e);
    const uint32_t host = make_host_lane(&e, 1), gpu = make_device_lane(&e, 0, 7);
    make_row(&e, RS_KIND_USER_ANNOTATION, "ProfilerStep#1", host, 0, 100);
    make_row(&e, RS_KIND_USER_ANNOTATION, "ProfilerStep#2", host, 100, 200);
    make_launched(&e, "gemm", host, 90, gpu, (struct make_span){120, 180});
    make_launched(&e, "gemm", host, 150, gpu, (struct make_span){190, 260});
    make_launched(&e, "gemm", host, 160, gpu, (struct make_span){270, 290});
    make_row(&e, RS_KIND_MEMCPY, "Memcpy HtoD", gpu, 185, 195); /* launch row gone: host step 2 */
    make_correlation(&e, 999999);
    reduce(&e, &s);
    const struct rs_step_row *one = step_of(&s, 1, 0), *two = step_of(&s, 2, 0);
    assert_int_equal(one->computing, 60);
    assert_int_equal(one->window_end, 180);
    assert_int_equal(one->idle_head, 120);
    assert_int_equal(two->computing, 90);
    assert_int_equal(two->free, 10);
    assert_int_equal(two->stage, 100);
    assert_int_equal(two->preparing, 90);
    assert_int_equal(two->window_start, 180);
    assert_int_equal(two->window_end, 290);
    assert_int_equal(two->window_memory, 5); /* [185,190): what is not under computing */
    assert_int_equal(two->idle_head, 5);
    assert_int_equal(two->idle_inside, 10);
    assert_adds_up(&s);
    rs_summary_fini(&s);
    make_events_fini(&e);
}

/* Without correlation the host bounds the windows. */
static void work_without_correlation_goes_by_the_host(void **unused)
{
    (void)unused;
    struct make_events e;
    struct rs_summary s;
    make_events_init(&e);
    const uint32_t host = make_host_lane(&e, 1), gpu = make_device_lane(&e, 0, 7);
    make_row(&e, RS_KIND_USER_ANNOTATION, "ProfilerStep#1", host, 0, 100);
    make_row(&e, RS_KIND_USER_ANNOTATION, "ProfilerStep#2", host, 100, 200);
    make_row(&e, RS_KIND_KERNEL, "gemm", gpu, 90, 130);
    make_row(&e, RS_KIND_KERNEL, "gemm", gpu, 190, 220);
    reduce(&e, &s);
    const struct rs_step_row *one = step_of(&s, 1, 0), *two = step_of(&s, 2, 0);
    assert_int_equal(one->computing, 40); /* whole */
    assert_int_equal(one->window_end, 100);
    assert_int_equal(one->window_computing, 10); /* clipped */
    assert_int_equal(two->computing, 30);
    assert_int_equal(two->window_end, 200);
    assert_int_equal(two->window_computing, 40);
    assert_adds_up(&s);
    rs_summary_fini(&s);
    make_events_fini(&e);
}

static void what_is_no_device_work_is_not_busy(void **unused)
{
    (void)unused;
    struct make_events e;
    struct rs_summary s;
    make_events_init(&e);
    const uint32_t host = make_host_lane(&e, 1), gpu = make_device_lane(&e, 2, 7);
    make_row(&e, RS_KIND_KERNEL, "gemm", gpu, 100, 110);
    make_row(&e, RS_KIND_SYNC, "Stream Sync", gpu, 0, 1000);
    make_row(&e, RS_KIND_GPU_USER_ANNOTATION, "nccl:all_reduce", gpu, 0, 1000);
    make_row(&e, RS_KIND_CPU_OP, "triton_poi_fused", host, 0, 1000);
    make_row(&e, RS_KIND_MEMSET, "Memset (Device)", gpu, 105, 120);
    reduce(&e, &s);
    assert_int_equal(s.device_count, 1);
    assert_int_equal(s.devices[0].device, 2);
    assert_int_equal(s.devices[0].window_end - s.devices[0].window_start, 20);
    assert_int_equal(s.devices[0].busy, 20);
    assert_int_equal(s.devices[0].computing, 10);
    assert_int_equal(s.devices[0].memory, 15);
    assert_int_equal(s.devices[0].overlapped, 0); /* memory is never overlap */
    assert_int_equal(s.step_origin, RS_STEPS_NONE);
    assert_int_equal(s.step_count, 1);
    assert_int_equal(s.steps[0].step, 0);
    assert_int_equal(s.steps[0].preparing, 100); /* from the earliest event */
    assert_int_equal(s.steps[0].window_end, 120);
    assert_adds_up(&s);
    rs_summary_fini(&s);
    make_events_fini(&e);
}

static void rows_of_one_number_are_one_step(void **unused)
{
    (void)unused;
    struct make_events e;
    struct rs_summary s;
    make_events_init(&e);
    const uint32_t host = make_host_lane(&e, 1);
    make_row(&e, RS_KIND_USER_ANNOTATION, "ProfilerStep#7", host, 100, 200);
    make_row(&e, RS_KIND_USER_ANNOTATION, "ProfilerStep#6", host, 0, 90);
    make_row(&e, RS_KIND_USER_ANNOTATION, "ProfilerStep#6", host, 10, 100);
    make_row(&e, RS_KIND_USER_ANNOTATION, "ProfilerStep#8", host, 200, 300);
    e.batch.flags[e.row] = RS_EVENT_UNFINISHED;
    make_row(&e, RS_KIND_CPU_OP, "aten::mm", host, 120, 150);
    make_row(&e, RS_KIND_TRACE_SPAN, "PyTorch Profiler (0)", host, 0, 250);
    reduce(&e, &s);
    assert_int_equal(s.step_count, 3);
    assert_int_equal(s.steps[0].step, 6);
    assert_int_equal(s.steps[0].host_end, 100);
    assert_int_equal(s.steps[1].step, 7);
    assert_false(s.steps[1].is_partial);
    assert_int_equal(s.steps[2].step, 8);
    assert_true(s.steps[2].is_partial);
    assert_int_equal(s.steps[2].host_end, 250); /* clamped to the Trace row */
    assert_false(s.steps[2].has_work);
    assert_int_equal(s.steps[2].idle_head, 50);
    assert_adds_up(&s);
    rs_summary_fini(&s);
    make_events_fini(&e);
}

/* A worker thread notes the end of an operation when the next step has begun: not that step's first work. */
static void what_runs_on_is_not_a_hosts_first_work(void **unused)
{
    (void)unused;
    struct make_events e;
    struct rs_summary s;
    make_events_init(&e);
    const uint32_t host = make_host_lane(&e, 1), worker = make_host_lane(&e, 2);
    make_row(&e, RS_KIND_USER_ANNOTATION, "ProfilerStep#1", host, 0, 100);
    make_row(&e, RS_KIND_USER_ANNOTATION, "ProfilerStep#2", host, 100, 200);
    make_row(&e, RS_KIND_USER_ANNOTATION, "ProfilerStep#3", host, 200, 300);
    make_row(&e, RS_KIND_CPU_OP, "aten::mm", worker, 10, 105);
    make_row(&e, RS_KIND_CPU_OP, "aten::mm", host, 180, 195);
    make_row(&e, RS_KIND_CPU_OP, "aten::mm", worker, 197, 210); /* nothing begins behind it */
    reduce(&e, &s);
    assert_int_equal(s.step_count, 3);
    assert_int_equal(s.steps[0].idle_head, 10);
    assert_int_equal(s.steps[1].idle_head, 75);
    assert_int_equal(s.steps[1].idle_inside, 2);
    assert_int_equal(s.steps[1].idle_tail, 0);
    assert_int_equal(s.steps[2].idle_head, 0);
    assert_int_equal(s.steps[2].idle_tail, 90);
    assert_adds_up(&s);
    rs_summary_fini(&s);
    make_events_fini(&e);
}

static void steps_of_a_damaged_trace_are_partial(void **unused)
{
    (void)unused;
    struct make_events e;
    struct rs_summary s;
    make_events_init(&e);
    make_row(&e, RS_KIND_USER_ANNOTATION, "ProfilerStep#7", make_host_lane(&e, 1), 100, 200);
    make_row(&e, RS_KIND_CPU_OP, "aten::mm", make_host_lane(&e, 1), 120, 150);
    e.info.is_partial = true;
    reduce(&e, &s);
    assert_true(s.steps[0].is_partial);
    rs_summary_fini(&s);
    make_events_fini(&e);
}

static void optimizer_row(struct make_events *e, const char *name, rs_ns start, rs_ns end)
{
    make_row(e, RS_KIND_USER_ANNOTATION, name, make_host_lane(e, 1), start, end);
}

static void n_optimizer_steps_are_n_steps(void **unused)
{
    (void)unused;
    struct make_events e;
    struct rs_summary s;
    make_events_init(&e);
    const uint32_t host = make_host_lane(&e, 1);
    make_row(&e, RS_KIND_TRACE_SPAN, "PyTorch Profiler (0)", host, 50, 1000);
    optimizer_row(&e, "Optimizer.step#SGD.step", 280, 300);
    optimizer_row(&e, "Optimizer.step#SGD.step", 580, 600);
    optimizer_row(&e, "Optimizer.step#SGD.step", 890, 900);
    e.batch.flags[e.row] = RS_EVENT_UNFINISHED;
    make_row(&e, RS_KIND_CPU_OP, "aten::mm", host, 100, 200);
    make_row(&e, RS_KIND_CPU_OP, "aten::mm", host, 300,
             350); /* starts at the end of step 0: its own */
    make_row(&e, RS_KIND_CPU_OP, "aten::mm", host, 700, 710);
    make_row(&e, RS_KIND_CPU_OP, "aten::mm", host, 950, 990);
    reduce(&e, &s);
    assert_int_equal(s.step_origin, RS_STEPS_OPTIMIZER_STEP);
    assert_int_equal(s.step_count, 3);
    assert_int_equal(s.steps[0].step, 0);
    assert_int_equal(s.steps[0].host_start, 50);
    assert_int_equal(s.steps[0].host_end, 300);
    assert_int_equal(s.steps[0].preparing, 50);
    assert_int_equal(s.steps[1].host_start, 300);
    assert_int_equal(s.steps[1].window_computing, 50);
    assert_int_equal(s.steps[2].computing, 10); /* what comes after is in no step */
    assert_true(s.steps[2].is_partial);
    assert_adds_up(&s);
    rs_summary_fini(&s);
    make_events_fini(&e);
}

static void optimizers_that_take_turns_make_one_step(void **unused)
{
    (void)unused;
    struct make_events e;
    struct rs_summary s;
    make_events_init(&e);
    make_row(&e, RS_KIND_TRACE_SPAN, "PyTorch Profiler (0)", make_host_lane(&e, 1), 0, 1000);
    make_row(&e, RS_KIND_CPU_OP, "aten::mm", make_host_lane(&e, 1), 10, 20);
    optimizer_row(&e, "Optimizer.step#Adam.step", 90, 100);
    optimizer_row(&e, "Optimizer.step#SGD.step", 110, 120);
    optimizer_row(&e, "Optimizer.step#Adam.step", 190, 200);
    optimizer_row(&e, "Optimizer.step#SGD.step", 210, 220);
    optimizer_row(&e, "Optimizer.step#Adam.step", 290, 300);
    reduce(&e, &s);
    assert_int_equal(s.step_count, 3);
    assert_int_equal(s.steps[0].host_end, 120);
    assert_int_equal(s.steps[1].host_end, 220);
    assert_int_equal(s.steps[2].host_end, 300);
    assert_false(s.steps[1].is_partial);
    assert_true(s.steps[2].is_partial); /* its second optimizer is not there */
    rs_summary_fini(&s);
    make_events_fini(&e);
}

/* Reference section 10.2: c10d calls and gloo time on the same thread are not computing. */
static void the_cpu_is_the_device_where_there_is_none(void **unused)
{
    (void)unused;
    struct make_events e;
    struct rs_summary s;
    make_events_init(&e);
    const uint32_t main_thread = make_host_lane(&e, 1), worker = make_host_lane(&e, 2);
    make_row(&e, RS_KIND_CPU_OP, "aten::linear", main_thread, 0, 100);
    make_row(&e, RS_KIND_CPU_OP, "aten::addmm", main_thread, 10, 90); /* inside */
    make_row(&e, RS_KIND_CPU_OP, "autograd::engine", main_thread, 100, 200);
    make_row(&e, RS_KIND_CPU_OP, "c10d::allreduce_", main_thread, 150, 160);
    make_row(&e, RS_KIND_USER_ANNOTATION, "gloo:all_reduce", worker, 170, 400);
    make_row(&e, RS_KIND_CPU_OP, "aten::add", worker, 180, 190);
    make_row(&e, RS_KIND_CPU_OP, "aten::mul", worker, 390, 420);
    make_row(&e, RS_KIND_USER_ANNOTATION, "gloo:send", main_thread, 500, 510);
    reduce(&e, &s);
    assert_int_equal(s.device_count, 1);
    assert_int_equal(s.devices[0].device, -1);
    assert_int_equal(s.devices[0].computing, 190 + 20);
    assert_int_equal(s.devices[0].communication, 240);
    assert_int_equal(s.devices[0].overlapped, 30);
    assert_int_equal(s.devices[0].window_end, 510);
    assert_int_equal(s.steps[0].free, 10 + 80);
    assert_adds_up(&s);
    rs_summary_fini(&s);
    make_events_fini(&e);
}

static void an_unfinished_row_ends_with_the_recording(void **unused)
{
    (void)unused;
    struct make_events e;
    struct rs_summary s;
    make_events_init(&e);
    const uint32_t worker = make_host_lane(&e, 2);
    make_row(&e, RS_KIND_TRACE_SPAN, "PyTorch Profiler (0)", worker, 0, 1000);
    make_row(&e, RS_KIND_USER_ANNOTATION, "gloo:all_reduce", worker, 900, 5000);
    e.batch.flags[e.row] = RS_EVENT_UNFINISHED;
    make_row(&e, RS_KIND_USER_ANNOTATION, "gloo:all_reduce", worker, 100,
             1200); /* finished: as it is */
    e.info.base_ns = 7000;
    reduce(&e, &s);
    assert_int_equal(s.op_count, 2);
    assert_int_equal(s.ops[0].end, 8200);
    assert_int_equal(s.ops[0].flags & RS_OP_UNFINISHED, 0);
    assert_int_equal(s.ops[1].start, 7900);
    assert_int_equal(s.ops[1].end, 8000);
    assert_int_equal(s.ops[1].flags & RS_OP_UNFINISHED, RS_OP_UNFINISHED);
    assert_int_equal(s.span_end, 8000);
    rs_summary_fini(&s);
    make_events_fini(&e);
}

static void native_ranks_know_their_steps_and_cpu_time(void **unused)
{
    (void)unused;
    struct make_events e;
    struct rs_summary s;
    make_events_init(&e);
    const uint32_t thread = make_host_lane(&e, 1);
    for (int64_t step = 40; step < 43; step++) {
        const rs_ns at = (step - 40) * 1000;
        make_row(&e, RS_KIND_STEP, "step", thread, at, at + 1000);
        make_correlation(&e, step);
        make_row(&e, RS_KIND_OP, "forward", thread, at + 100, at + 400);
        e.batch.cpu_ns[e.row] = 250;
        make_row(&e, RS_KIND_OP, "layer", thread, at + 100,
                 at + 200); /* inside: not counted again */
        e.batch.cpu_ns[e.row] = 90;
        make_row(&e, RS_KIND_OP, "backward", thread, at + 400, at + 600);
        e.batch.cpu_ns[e.row] = 150;
        make_row(&e, RS_KIND_COMM, "grads", thread, at + 550, at + 900);
        make_comm(&e, "all_reduce");
    }
    make_row(&e, RS_KIND_LOSS, "ring full", thread, 1500, 1600);
    reduce(&e, &s);
    assert_int_equal(s.step_origin, RS_STEPS_NATIVE);
    assert_int_equal(s.step_count, 3);
    const struct rs_step_row *row = step_of(&s, 41, -1);
    assert_int_equal(row->computing, 450); /* without what communicates on this thread */
    assert_int_equal(row->communication, 350);
    assert_int_equal(row->overlapped, 0);
    assert_int_equal(row->cpu_ns, 400);
    assert_int_equal(row->preparing, 100);
    assert_true(row->is_partial); /* events were lost in it */
    assert_false(step_of(&s, 40, -1)->is_partial);
    assert_false(step_of(&s, 42, -1)->is_partial);
    assert_adds_up(&s);
    rs_summary_fini(&s);
    make_events_fini(&e);
}

/* The windows tile and add up, and the whole-capture figures are those of single nanoseconds. */
static void random_recordings_add_up(void **unused)
{
    (void)unused;
    uint64_t state = 99;
    for (int round = 0; round < 200; round++) {
        struct make_events e;
        struct rs_summary s;
        uint8_t line[3000] = {0};
        make_events_init(&e);
        const uint32_t host = make_host_lane(&e, 1);
        const uint32_t gpu[2] = {make_device_lane(&e, 0, 0), make_device_lane(&e, 0, 7)};
        for (rs_ns i = 0; i < 3; i++) {
            char name[32];
            snprintf(name, sizeof name, "ProfilerStep#%d", (int)i + 5);
            make_row(&e, RS_KIND_USER_ANNOTATION, name, host, i * 600, i * 600 + 590);
        }
        for (int i = 0; i < 60; i++) {
            state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            const rs_ns launch = (rs_ns)((state >> 40) % 1900);
            const rs_ns start = launch + (rs_ns)((state >> 20) % 500);
            const rs_ns end = start + (rs_ns)((state >> 50) % 60);
            const unsigned class = (unsigned)(state >> 33) % 3;
            static const char *const names[] = {"gemm", "ncclDevKernel_AllReduce",
                                                "Memset (Device)"};
            make_launched(&e, names[class], host, launch, gpu[(state >> 60) & 1],
                          (struct make_span){start, end});
            for (rs_ns at = start; at < end; at++)
                line[at] |= (uint8_t)(1u << class);
        }
        reduce(&e, &s);
        assert_adds_up(&s);
        rs_dur busy = 0, both = 0, memory = 0;
        for (size_t at = 0; at < sizeof line; at++) {
            busy += line[at] != 0;
            both += (line[at] & 3) == 3;
            memory += (line[at] & 4) != 0;
        }
        assert_int_equal(s.devices[0].busy, busy);
        assert_int_equal(s.devices[0].overlapped, both);
        assert_int_equal(s.devices[0].memory, memory);
        for (size_t i = 0; i < s.step_count; i++) {
            rs_dur computing = 0, exposed = 0, bare = 0;
            for (rs_ns at = s.steps[i].window_start; at < s.steps[i].window_end; at++) {
                computing += (line[at] & 1) != 0;
                exposed += (line[at] & 3) == 2;
                bare += line[at] == 4;
            }
            assert_int_equal(s.steps[i].window_computing, computing);
            assert_int_equal(s.steps[i].window_exposed, exposed);
            assert_int_equal(s.steps[i].window_memory, bare);
            if (i)
                assert_int_equal(s.steps[i].window_start, s.steps[i - 1].window_end);
        }
        rs_summary_fini(&s);
        make_events_fini(&e);
    }
}

static void a_recording_without_events_has_no_step(void **unused)
{
    (void)unused;
    struct make_events e;
    struct rs_summary s;
    make_events_init(&e);
    make_row(&e, RS_KIND_TRACE_SPAN, "PyTorch Profiler (0)", make_host_lane(&e, 1), 0, 250);
    reduce(&e, &s);
    assert_int_equal(s.step_count, 0);
    assert_int_equal(s.device_count, 0);
    assert_int_equal(s.op_count, 0);
    rs_summary_fini(&s);
    make_events_fini(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contracts_example_comes_out_to_the_ns),
        cmocka_unit_test(devices_of_one_file_stay_apart),
        cmocka_unit_test(work_belongs_to_the_step_that_launched_it),
        cmocka_unit_test(work_without_correlation_goes_by_the_host),
        cmocka_unit_test(what_is_no_device_work_is_not_busy),
        cmocka_unit_test(rows_of_one_number_are_one_step),
        cmocka_unit_test(what_runs_on_is_not_a_hosts_first_work),
        cmocka_unit_test(steps_of_a_damaged_trace_are_partial),
        cmocka_unit_test(n_optimizer_steps_are_n_steps),
        cmocka_unit_test(optimizers_that_take_turns_make_one_step),
        cmocka_unit_test(the_cpu_is_the_device_where_there_is_none),
        cmocka_unit_test(an_unfinished_row_ends_with_the_recording),
        cmocka_unit_test(native_ranks_know_their_steps_and_cpu_time),
        cmocka_unit_test(random_recordings_add_up),
        cmocka_unit_test(a_recording_without_events_has_no_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
