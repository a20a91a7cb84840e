/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/mem.h"
#include "common/reduce/reduce.h"
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
    make_row(e, name[0] == 'n' || name[0] == 'g' ? RS_KIND_USER_ANNOTATION : RS_KIND_CPU_OP, name,
             lane, start, end);
}

/* As writers of 2023 leave it: no message arguments, tensors on the annotation. */
static void an_all_to_all_of_send_recv_kernels_is_one(void **unused)
{
    (void)unused;
    struct make_events e;
    struct rs_summary s;
    make_events_init(&e);
    const uint32_t host = make_host_lane(&e, 11), gpu = make_device_lane(&e, 0, 84);
    call(&e, "c10d::alltoall_base_", host, 100, 200);
    make_inputs(&e, "[[768], [3392], [], [], [], []]",
                "[\"int\", \"int\", \"\", \"\", \"\", \"Scalar\"]", NULL);
    call(&e, "record_param_comms", host, 105, 195);
    make_inputs(&e, "[[3392], [], []]", "[\"int\", \"Scalar\", \"Scalar\"]", NULL);
    call(&e, "nccl:all_to_all", host, 110, 190);
    make_inputs(&e, "[[3392]]", "[\"int\"]", NULL);
    make_launched(&e, "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*)", host, 150, gpu,
                  (struct make_span){300, 400});
    make_launched(&e, "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*)", host, 160, gpu,
                  (struct make_span){400, 450});
    call(&e, "record_param_comms", host, 500, 503); /* a wait: no operation */
    reduce(&e, &s);
    assert_int_equal(s.op_count, 1); /* two kernels of one call */
    assert_int_equal(s.ops[0].type, RS_OP_ALL_TO_ALL);
    assert_int_equal(s.ops[0].bytes, 3392 * 4); /* the whole input */
    assert_int_equal(s.ops[0].start, 300);
    assert_int_equal(s.ops[0].end, 450);
    assert_int_equal(s.ops[0].call_start, 100);
    assert_int_equal(s.ops[0].caller_thread, 11);
    assert_int_equal(s.ops[0].stream, 84);
    assert_int_equal(s.ops[0].group, RS_NO_GROUP);
    assert_int_equal(s.ops[0].flags, RS_OP_ON_DEVICE);
    assert_int_equal(s.steps[0].bubble, 0); /* no receive */
    rs_summary_fini(&s);
    make_events_fini(&e);
}

static void name_group(struct make_events *e, struct rs_comm *comm, const char *name,
                       const char *ranks, int64_t size)
{
    comm->group_name = make_string(e, name);
    comm->group_ranks = make_string(e, ranks);
    comm->group_size = size;
    comm->has |= RS_COMM_HAS_GROUP_SIZE;
}

static void set_elements(struct make_events *e, struct rs_comm *comm, const char *dtype, int64_t in,
                         int64_t out)
{
    comm->dtype = make_string(e, dtype);
    comm->in_nelems = in;
    comm->out_nelems = out;
    comm->has |= RS_COMM_HAS_IN_NELEMS | RS_COMM_HAS_OUT_NELEMS;
}

static void arguments_give_group_bytes_sequence_and_peer(void **unused)
{
    (void)unused;
    struct make_events e;
    struct rs_summary s;
    make_events_init(&e);
    const uint32_t host = make_host_lane(&e, 11), gpu = make_device_lane(&e, 0, 84);
    call(&e, "c10d::_allgather_base_", host, 100, 200);
    make_launched(&e, "ncclDevKernel_AllGather_RING_LL(...)", host, 150, gpu,
                  (struct make_span){300, 400});
    struct rs_comm *comm = make_comm(&e, "_allgather_base");
    name_group(&e, comm, "7", "[2, 3]", 2);
    set_elements(&e, comm, "BFloat16", 100, 200);
    comm->seq = 41;
    comm->comms_id = 0xfedcba9876543210u;
    comm->has |= RS_COMM_HAS_SEQ | RS_COMM_HAS_COMMS_ID;
    call(&e, "c10d::send", host, 500, 600);
    make_inputs(&e, NULL, NULL, "[\"\", \"\", \"1\", \"0\"]");
    make_launched(&e, "ncclDevKernel_SendRecv(...)", host, 550, gpu, (struct make_span){700, 800});
    comm = make_comm(&e, "send");
    name_group(&e, comm, "7", "[2, 3]", 2);
    set_elements(&e, comm, "Float", 10, 10);
    comm->comms_id = 5;
    comm->has |= RS_COMM_HAS_COMMS_ID;
    call(&e, "c10d::broadcast_", host, 900, 950);
    make_inputs(&e, NULL, NULL, "[\"\", \"\", \"1\", \"0\", \"False\", \"-1\"]");
    make_launched(&e, "ncclDevKernel_Broadcast_RING_LL(...)", host, 920, gpu,
                  (struct make_span){1000, 1100});
    comm = make_comm(&e, "broadcast");
    name_group(&e, comm, "9", "[0, ..., 5, ...]", 40); /* cut, and nothing completes it */
    reduce(&e, &s);
    assert_int_equal(s.op_count, 3);
    assert_int_equal(s.group_count, 2);
    assert_string_equal(rs_strtab_text(&s.strings, s.groups[0].name), "7");
    assert_int_equal(s.groups[0].rank_count, 2);
    assert_int_equal(s.groups[0].ranks[1], 3);
    assert_int_equal(s.ops[0].group, 0);
    assert_int_equal(s.ops[0].bytes, 400); /* the whole output */
    assert_int_equal(s.ops[0].seq, 41);
    assert_true(s.ops[0].comms_id == 0xfedcba9876543210u);
    assert_int_equal(s.ops[1].type, RS_OP_SEND);
    assert_int_equal(s.ops[1].peer, 3); /* rank 1 of [2, 3] */
    assert_int_equal(s.ops[1].flags & RS_OP_PEER_IN_GROUP, 0);
    assert_int_equal(s.ops[1].bytes, 40);
    assert_true(s.ops[1].comms_id == 0); /* no identity of a pair */
    assert_int_equal(s.ops[2].group, 1);
    assert_int_equal(s.groups[1].size, 40);
    assert_int_equal(s.ops[2].root, 1);
    assert_int_equal(s.ops[2].flags & RS_OP_ROOT_IN_GROUP, RS_OP_ROOT_IN_GROUP);
    assert_int_equal(s.ops[2].bytes, -1);
    rs_summary_fini(&s);
    make_events_fini(&e);
}

static void a_cut_list_is_completed(void **unused)
{
    (void)unused;
    struct make_events e;
    struct rs_summary s;
    make_events_init(&e);
    const uint32_t host = make_host_lane(&e, 11), gpu = make_device_lane(&e, 0, 84);
    make_launched(&e, "ncclDevKernel_AllReduce_Sum_f32(...)", host, 150, gpu,
                  (struct make_span){300, 400});
    struct rs_comm *comm = make_comm(&e, "allreduce");
    name_group(&e, comm, "1", "[4, 6, 8, ..., 102]", 50);
    comm->global_start = 4;
    comm->global_stride = 2;
    comm->has |= RS_COMM_HAS_GLOBAL_START | RS_COMM_HAS_GLOBAL_STRIDE;
    make_launched(&e, "ncclDevKernel_AllReduce_Sum_f32(...)", host, 450, gpu,
                  (struct make_span){500, 600});
    comm = make_comm(&e, "allreduce");
    name_group(&e, comm, "2", "[1, ..., 9, ...]", 3);
    static int32_t known[] = {1, 9, 17};
    struct rs_group_info group = {.name = make_string(&e, "2"),
                                  .description = RS_STR_NONE,
                                  .size = 3,
                                  .ranks = known,
                                  .rank_count = 3};
    e.info.groups = &group;
    e.info.group_count = 1;
    reduce(&e, &s);
    e.info.groups = NULL;
    e.info.group_count = 0;
    assert_int_equal(s.group_count, 2);
    assert_int_equal(s.groups[0].rank_count, 50);
    assert_int_equal(s.groups[0].ranks[49], 102);
    assert_int_equal(s.groups[1].rank_count, 3);
    assert_int_equal(s.groups[1].ranks[2], 17);
    assert_int_equal(s.trace.group_count, 1);
    rs_summary_fini(&s);
    make_events_fini(&e);
}

static void kernels_without_a_call_stay_alone(void **unused)
{
    (void)unused;
    struct make_events e;
    struct rs_summary s;
    make_events_init(&e);
    const uint32_t host = make_host_lane(&e, 11), gpu = make_device_lane(&e, 0, 84);
    make_row(&e, RS_KIND_USER_ANNOTATION, "ProfilerStep#3", host, 0, 1000);
    make_launched(&e, "void vllm::cross_device_reduce_1stage<half, 2>(RankData*)", host, 150, gpu,
                  (struct make_span){300, 400});
    make_row(&e, RS_KIND_KERNEL, "ncclDevKernel_Generic(...)", gpu, 500, 600);
    make_correlation(&e, 777777); /* launched before the recording */
    reduce(&e, &s);
    assert_int_equal(s.op_count, 2);
    assert_int_equal(s.ops[0].type, RS_OP_ALL_REDUCE);
    assert_int_equal(s.ops[0].flags, RS_OP_ON_DEVICE | RS_OP_NO_CALL);
    assert_int_equal(s.ops[0].group, RS_NO_GROUP);
    assert_int_equal(s.ops[0].call_start, 150);
    assert_int_equal(s.ops[0].step, 3);
    assert_int_equal(s.ops[1].type, RS_OP_UNKNOWN);
    assert_int_equal(s.ops[1].flags, RS_OP_ON_DEVICE | RS_OP_NO_CALL);
    assert_int_equal(s.ops[1].step, 3);
    rs_summary_fini(&s);
    make_events_fini(&e);
}

static void a_coalesced_batch_is_one_send_recv(void **unused)
{
    (void)unused;
    struct make_events e;
    struct rs_summary s;
    make_events_init(&e);
    const uint32_t host = make_host_lane(&e, 11), gpu = make_device_lane(&e, 0, 84);
    const char *types = "[\"float\"]";
    for (int i = 0; i < 2; i++) { /* once inside an annotation, once inside none */
        const rs_ns at = i * INT64_C(10000);
        call(&e, "c10d::send", host, at + 100, at + 200);
        make_inputs(&e, "[[[64]], [], [], []]", NULL, "[\"\", \"\", \"3\", \"0\"]");
        call(&e, "nccl:send 1->3", host, at + 110, at + 120);
        make_inputs(&e, "[[64]]", types, NULL);
        call(&e, "c10d::recv_", host, at + 300, at + 400);
        make_inputs(&e, "[[[16]], [], [], []]", NULL, "[\"\", \"\", \"3\", \"0\"]");
        call(&e, "nccl:recv 1<-3", host, at + 310, at + 320);
        make_inputs(&e, "[[16]]", types, NULL);
        if (i == 0)
            call(&e, "nccl:coalesced", host, at + 500, at + 600);
        make_launched(&e, "ncclDevKernel_SendRecv(...)", host, at + 550, gpu,
                      (struct make_span){at + 700, at + 800});
    }
    make_launched(&e, "ncclDevKernel_SendRecv(...)", host, 20000, gpu,
                  (struct make_span){20100, 20200}); /* more of the second */
    reduce(&e, &s);
    assert_int_equal(s.op_count, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(s.ops[i].type, RS_OP_SEND_RECV);
        assert_int_equal(s.ops[i].flags & RS_OP_IS_BATCH, RS_OP_IS_BATCH);
        assert_int_equal(s.ops[i].flags & RS_OP_NO_CALL, 0);
        assert_int_equal(s.ops[i].bytes, 256); /* the larger of sent and received */
        assert_int_equal(s.ops[i].peer, 3);
        assert_int_equal(s.ops[i].flags & RS_OP_PEER_IN_GROUP, RS_OP_PEER_IN_GROUP);
        assert_int_equal(s.ops[i].call_start, i * 10000 + 100);
    }
    assert_int_equal(s.ops[1].end, 20200);
    assert_int_equal(s.steps[0].bubble, 0); /* single receives only */
    rs_summary_fini(&s);
    make_events_fini(&e);
}

/* A batch of calls in one direction, with one peer: what it is called, not how it was launched. */
static void a_coalesced_batch_in_one_direction_is_a_send_or_a_receive(void **unused)
{
    (void)unused;
    struct make_events e;
    struct rs_summary s;
    make_events_init(&e);
    const uint32_t host = make_host_lane(&e, 11), gpu = make_device_lane(&e, 0, 84);
    for (int i = 0; i < 4; i++) { /* a send, a receive, and each of two tensors */
        const rs_ns at = i * INT64_C(10000);
        const bool is_send = i % 2 == 0;
        for (int k = 0; k <= i / 2; k++) {
            call(&e, is_send ? "c10d::send" : "c10d::recv_", host, at + 100 + 100 * k,
                 at + 190 + 100 * k);
            make_inputs(&e, "[[[64]], [], [], []]", NULL, "[\"\", \"\", \"3\", \"0\"]");
            call(&e, is_send ? "nccl:send 1->3" : "nccl:recv 1<-3", host, at + 110 + 100 * k,
                 at + 180 + 100 * k);
            make_inputs(&e, "[[64]]", "[\"float\"]", NULL);
        }
        call(&e, "nccl:coalesced", host, at + 500, at + 600);
        make_launched(&e, "ncclDevKernel_SendRecv(...)", host, at + 550, gpu,
                      (struct make_span){at + 700, at + 800});
    }
    reduce(&e, &s);
    assert_int_equal(s.op_count, 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(s.ops[i].type, i % 2 == 0 ? RS_OP_SEND : RS_OP_RECV);
        assert_int_equal(s.ops[i].flags & RS_OP_IS_BATCH, 0);
        assert_int_equal(s.ops[i].peer, 3);
        assert_int_equal(s.ops[i].bytes, 256 * (1 + i / 2));
    }
    rs_summary_fini(&s);
    make_events_fini(&e);
}

/* An interleaved pipeline's: forward to rank 3 and from rank 0, the gradient of one of them back. */
static void a_batch_names_all_of_its_peers(void **unused)
{
    (void)unused;
    struct make_events e;
    struct rs_summary s;
    make_events_init(&e);
    const uint32_t host = make_host_lane(&e, 11), gpu = make_device_lane(&e, 0, 84);
    const char *types = "[\"float\"]";
    static const struct {
        const char *name, *annotation, *lists, *inputs, *peer;
    } calls[] = {
        {"c10d::send", "nccl:send 1->3", "[[[64]], [], [], []]", "[[64]]",
         "[\"\", \"\", \"3\", \"0\"]"},
        {"c10d::recv_", "nccl:recv 1<-0", "[[[16]], [], [], []]", "[[16]]",
         "[\"\", \"\", \"0\", \"0\"]"},
        {"c10d::recv_", "nccl:recv 1<-3", "[[[8]], [], [], []]", "[[8]]",
         "[\"\", \"\", \"3\", \"0\"]"},
    };
    for (int i = 0; i < 2; i++) { /* of the first the kernel was lost */
        const rs_ns at = i * INT64_C(10000);
        for (int k = 0; k < 3; k++) {
            call(&e, calls[k].name, host, at + 100 * k, at + 100 * k + 90);
            make_inputs(&e, calls[k].lists, NULL, calls[k].peer);
            call(&e, calls[k].annotation, host, at + 100 * k + 10, at + 100 * k + 80);
            make_inputs(&e, calls[k].inputs, types, NULL);
        }
        call(&e, "nccl:coalesced", host, at + 500, at + 600);
    }
    make_launched(&e, "ncclDevKernel_SendRecv(...)", host, 10550, gpu,
                  (struct make_span){10700, 10800});
    reduce(&e, &s);
    assert_int_equal(s.op_count, 1);
    assert_int_equal(s.ops[0].flags & RS_OP_IS_BATCH, RS_OP_IS_BATCH);
    assert_int_equal(s.ops[0].peer, -1);
    assert_int_equal(s.ops[0].flags & RS_OP_PEER_IN_GROUP, RS_OP_PEER_IN_GROUP);
    assert_int_equal(s.ops[0].bytes, 256); /* the larger of what was sent and received in all */
    assert_int_equal(s.ops[0].call_start, 10000);
    assert_int_equal(s.ops[0].task_count, 3);
    assert_true(rs_comm_op_has_calls_only(&s, &s.ops[0]));
    const struct rs_comm_task *tasks = s.tasks + s.ops[0].task_first;
    assert_int_equal(rs_comm_task_peer(&tasks[0]), 3);
    assert_true(tasks[0].is_send);
    assert_int_equal(tasks[0].src, -1);
    assert_int_equal(tasks[0].bytes, 256);
    assert_int_equal(rs_comm_task_peer(&tasks[1]), 0);
    assert_int_equal(tasks[1].bytes, 64);
    assert_false(tasks[2].is_send);
    assert_int_equal(rs_comm_task_peer(&tasks[2]), 3);
    rs_summary_fini(&s);
    make_events_fini(&e);
}

static void tensors_of_a_coalesced_collective_add_up(void **unused)
{
    (void)unused;
    struct make_events e;
    struct rs_summary s;
    make_events_init(&e);
    const uint32_t host = make_host_lane(&e, 11), gpu = make_device_lane(&e, 0, 84);
    call(&e, "c10d::allgather_into_tensor_coalesced_", host, 100, 200);
    for (int i = 0; i < 3; i++) {
        call(&e, "record_param_comms", host, 110 + 20 * i, 125 + 20 * i);
        struct rs_comm *comm = make_comm(&e, "_allgather_base");
        set_elements(&e, comm, "Half", 10 + i, 40 + 4 * i);
    }
    make_launched(&e, "ncclDevKernel_AllGather_RING_LL(...)", host, 190, gpu,
                  (struct make_span){300, 400});
    set_elements(&e, make_comm(&e, "_allgather_base"), "Half", 12, 48); /* of the last only */
    reduce(&e, &s);
    assert_int_equal(s.op_count, 1);
    assert_int_equal(s.ops[0].type, RS_OP_ALL_GATHER);
    assert_int_equal(s.ops[0].bytes, 2 * (40 + 44 + 48));
    rs_summary_fini(&s);
    make_events_fini(&e);
}

static void without_any_link_kernels_and_calls_pair_in_order(void **unused)
{
    (void)unused;
    for (int extra = 0; extra < 2; extra++) {
        struct make_events e;
        struct rs_summary s;
        make_events_init(&e);
        const uint32_t host = make_host_lane(&e, 11), gpu = make_device_lane(&e, 0, 84);
        call(&e, "c10d::alltoall_base_", host, 100, 110);
        call(&e, "c10d::allreduce_", host, 120, 130);
        make_row(&e, RS_KIND_KERNEL, "ncclDevKernel_AllReduce_Sum(...)", gpu, 300, 350);
        make_row(&e, RS_KIND_KERNEL, "ncclDevKernel_SendRecv(...)", gpu, 200, 250);
        if (extra) /* one too many: nobody knows which belongs where */
            make_row(&e, RS_KIND_KERNEL, "ncclDevKernel_AllReduce_Sum(...)", gpu, 400, 450);
        reduce(&e, &s);
        assert_int_equal(s.op_count, extra ? 3 : 2);
        assert_int_equal(s.ops[0].type, extra ? RS_OP_SEND_RECV : RS_OP_ALL_TO_ALL);
        assert_int_equal(s.ops[0].flags & RS_OP_NO_CALL, extra ? RS_OP_NO_CALL : 0);
        rs_summary_fini(&s);
        make_events_fini(&e);
    }
}

/* A vendor's operation with a gap: two rows of one id. Figures count what they cover, the list has one operation. */
static void stretches_of_one_id_are_one_operation(void **unused)
{
    (void)unused;
    static const rs_ns times[][2] = {{100, 200}, {150, 250}, {300, 400}, {500, 600}};
    static const int64_t ids[] = {7, 8, 7, 9};
    struct make_events e;
    struct rs_summary s;
    make_events_init(&e);
    const uint32_t lanes[] = {make_device_lane(&e, 0, 1), make_device_lane(&e, 0, 2)};
    for (size_t i = 0; i < 4; i++) {
        struct rs_comm *comm;
        make_row(&e, RS_KIND_KERNEL, "hcom_allReduce__586_0_1", lanes[ids[i] == 8], times[i][0],
                 times[i][1]);
        e.batch.flags[e.row] |= RS_EVENT_COMMUNICATION;
        e.batch.external_id[e.row] = ids[i];
        comm = make_comm(&e, "allReduce");
        set_elements(&e, comm, "Half", 8, 8);
    }
    reduce(&e, &s);
    assert_int_equal(s.op_count, 3);
    assert_int_equal(s.ops[0].start, 100);
    assert_int_equal(s.ops[0].end, 400);
    assert_int_equal(s.ops[1].start, 150);
    assert_int_equal(s.ops[1].end, 250);
    assert_int_equal(s.ops[2].start, 500);
    assert_int_equal(s.devices[0].communication, 150 + 100 + 100);
    rs_summary_fini(&s);
    make_events_fini(&e);
}

static void an_external_id_finds_the_call_when_the_launch_is_gone(void **unused)
{
    (void)unused;
    struct make_events e;
    struct rs_summary s;
    make_events_init(&e);
    const uint32_t host = make_host_lane(&e, 11), gpu = make_device_lane(&e, 0, 84);
    call(&e, "c10d::allreduce_", host, 100, 200);
    call(&e, "record_param_comms", host, 110, 190);
    e.batch.external_id[e.row] = 47;
    struct rs_comm *comm = make_comm(&e, "allreduce");
    set_elements(&e, comm, "Half", 8, 8);
    make_row(&e, RS_KIND_KERNEL, "ncclDevKernel_Generic(...)", gpu, 300, 350);
    make_correlation(&e, 12);
    e.batch.external_id[e.row] = 47;
    make_row(&e, RS_KIND_KERNEL, "ncclDevKernel_Generic(...)", gpu, 400, 450);
    make_correlation(&e, 47); /* its own correlation, as unlinked kernels of 2023 have it */
    e.batch.external_id[e.row] = 47;
    reduce(&e, &s);
    assert_int_equal(s.op_count, 2);
    assert_int_equal(s.ops[0].type, RS_OP_ALL_REDUCE);
    assert_int_equal(s.ops[0].bytes, 16);
    assert_int_equal(s.ops[0].call_start, 100);
    assert_int_equal(s.ops[0].end, 350);
    assert_int_equal(s.ops[1].flags & RS_OP_NO_CALL, RS_OP_NO_CALL);
    rs_summary_fini(&s);
    make_events_fini(&e);
}

/* ---- gloo ---- */

static void gloo(struct make_events *e, const char *name, uint32_t lane, rs_ns start, rs_ns end,
                 const char *dims)
{
    make_row(e, RS_KIND_USER_ANNOTATION, name, lane, start, end);
    make_inputs(e, dims, "[\"float\", \"float\", \"float\", \"float\"]", NULL);
}

static void gloo_rows_find_their_calls(void **unused)
{
    (void)unused;
    struct make_events e;
    struct rs_summary s;
    make_events_init(&e);
    const uint32_t main_thread = make_host_lane(&e, 1);
    const uint32_t worker[2] = {make_host_lane(&e, 21), make_host_lane(&e, 22)};
    const char *list = "[\"TensorList\", \"\", \"\"]";
    /* in the file rows do not stand in order of time */
    gloo(&e, "gloo:all_reduce", worker[0], 260, 500, "[[400]]");
    gloo(&e, "gloo:all_reduce", worker[1], 150, 600, "[[1000]]");
    gloo(&e, "gloo:all_gather", worker[0], 710, 800, "[[100]]");
    gloo(&e, "gloo:all_gather", worker[0], 910, 990, "[[50]]");
    gloo(&e, "gloo:recv", main_thread, 1030, 1100, "[[64]]");
    gloo(&e, "gloo:reduce", worker[1], 1210, 1300, "[[10]]");
    make_row(&e, RS_KIND_USER_ANNOTATION, "gloo:barrier", worker[1], 1410, 1500);
    gloo(&e, "gloo:all_reduce", worker[0], 5, 90, "[[1000]]"); /* called before the recording */
    call(&e, "c10d::allreduce_", main_thread, 100, 120);
    make_inputs(&e, "[[[1000]], [], []]", list, "[\"\", \"\", \"\"]");
    call(&e, "c10d::_reduce_scatter_base_", main_thread, 200, 220);
    make_inputs(&e, "[[100], [400], []]", "[\"float\", \"float\", \"\"]", NULL);
    call(&e, "c10d::_allgather_base_", main_thread, 700, 720);
    make_inputs(&e, "[[400], [100], []]", "[\"float\", \"float\", \"\"]", NULL);
    call(&e, "c10d::allgather_", main_thread, 900, 920);
    make_inputs(&e, "[[], [[50]], []]", "[\"\", \"TensorList\", \"\"]", NULL);
    call(&e, "c10d::recv_", main_thread, 1000, 1040);
    make_inputs(&e, "[[[64]], [], [], []]", list, "[\"\", \"\", \"0\", \"0\"]");
    call(&e, "c10d::reduce_", main_thread, 1200, 1220);
    make_inputs(&e, "[[[10]], [], []]", list, "[\"\", \"\", \"\", \"2\", \"0\"]");
    call(&e, "c10d::barrier", main_thread, 1400, 1420);
    make_inputs(&e, "[[1], []]", "[\"unsigned char\", \"\"]", NULL);
    reduce(&e, &s);
    assert_int_equal(s.op_count, 8);
    static const struct {
        enum rs_op_type type;
        rs_ns call, start;
        int64_t bytes, caller, stream;
    } want[] = {
        {RS_OP_ALL_REDUCE, 5, 5, 4000, -1, 21},        {RS_OP_ALL_REDUCE, 100, 150, 4000, 1, 22},
        {RS_OP_REDUCE_SCATTER, 200, 260, 1600, 1, 21}, {RS_OP_ALL_GATHER, 700, 710, 1600, 1, 21},
        {RS_OP_ALL_GATHER, 900, 910, 800, 1, 21}, /* 50 x 4 ranks: the thread's other rows tell the size */
        {RS_OP_RECV, 1000, 1030, 256, 1, 1},           {RS_OP_REDUCE, 1200, 1210, 40, 1, 22},
        {RS_OP_BARRIER, 1400, 1410, -1, 1, 22},
    };
    for (size_t i = 0; i < 8; i++) {
        const struct rs_comm_op *op = &s.ops[i];
        assert_int_equal(op->type, want[i].type);
        assert_int_equal(op->call_start, want[i].call);
        assert_int_equal(op->start, want[i].start);
        assert_int_equal(op->bytes, want[i].bytes);
        assert_int_equal(op->caller_thread, want[i].caller);
        assert_int_equal(op->stream, want[i].stream);
        assert_int_equal(op->device, -1);
        assert_int_equal(op->group, RS_NO_GROUP);
        assert_true(i == 0 || op->call_order > op[-1].call_order); /* spans lie between */
    }
    assert_int_equal(s.ops[5].peer, 0);
    assert_int_equal(s.ops[5].flags, RS_OP_PEER_IN_GROUP);
    assert_int_equal(s.ops[6].root, 2);
    assert_int_equal(s.ops[6].flags, RS_OP_ROOT_IN_GROUP);
    assert_true(s.ops[2].shape_hash !=
                s.ops[3].shape_hash);         /* 100 floats per member both, but other calls */
    assert_int_equal(s.ops[0].shape_hash, 0); /* nobody knows which call it was */
    assert_int_equal(s.steps[0].bubble, 70);
    rs_summary_fini(&s);
    make_events_fini(&e);
}

/* Of five equal operations, two of them queued at once, the second one's row was lost: those behind it keep their own calls. */
static void a_lost_gloo_row_leaves_its_call_alone(void **unused)
{
    (void)unused;
    struct make_events e;
    struct rs_summary s;
    static const rs_ns calls[] = {1000, 2000, 3000, 3010, 4000};
    static const rs_ns rows[] = {1050, 3060, 3200, 4040};
    static const rs_ns called[] = {1000, 3000, 3010, 4000};
    make_events_init(&e);
    const uint32_t main_thread = make_host_lane(&e, 1), worker = make_host_lane(&e, 21);
    for (size_t i = 0; i < 5; i++) {
        call(&e, "c10d::allreduce_", main_thread, calls[i], calls[i] + 5);
        make_inputs(&e, "[[[1000]], [], []]", "[\"TensorList\", \"\", \"\"]", "[\"\", \"\", \"\"]");
    }
    for (size_t i = 0; i < 4; i++) {
        gloo(&e, "gloo:all_reduce", worker, rows[i], rows[i] + 100, "[[1000]]");
    }
    reduce(&e, &s);
    assert_int_equal(s.op_count, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(s.ops[i].start, rows[i]);
        assert_int_equal(s.ops[i].call_start, called[i]);
    }
    rs_summary_fini(&s);
    make_events_fini(&e);
}

/* Sends and receives run within their call: where the first one's row was lost, the second keeps its own. */
static void a_gloo_receive_is_of_the_call_it_runs_in(void **unused)
{
    (void)unused;
    struct make_events e;
    struct rs_summary s;
    make_events_init(&e);
    const uint32_t main_thread = make_host_lane(&e, 1);
    for (rs_ns at = 1000; at <= 3000; at += 1000) {
        call(&e, "c10d::recv_", main_thread, at, at + 40);
        make_inputs(&e, "[[[64]], [], [], []]", "[\"TensorList\", \"\", \"\"]",
                    "[\"\", \"\", \"0\", \"0\"]");
    }
    gloo(&e, "gloo:recv", main_thread, 2030, 2100, "[[64]]");
    gloo(&e, "gloo:recv", main_thread, 2200, 2300, "[[64]]"); /* of no call that was recorded */
    gloo(&e, "gloo:recv", main_thread, 3500, 3600, "[[64]]"); /* behind one that has ended */
    reduce(&e, &s);
    assert_int_equal(s.op_count, 3);
    assert_int_equal(s.ops[2].call_start, 3500);
    assert_int_equal(s.ops[2].caller_thread, -1);
    assert_int_equal(s.ops[0].call_start, 2000);
    assert_int_equal(s.ops[0].caller_thread, 1);
    assert_int_equal(s.ops[1].call_start, 2200);
    assert_int_equal(s.ops[1].caller_thread, -1);
    rs_summary_fini(&s);
    make_events_fini(&e);
}

/* allgather_ and _allgather_base_ of one size, one behind the other: their rows are not of one operation. */
static void gloo_rows_of_other_calls_are_other_operations(void **unused)
{
    (void)unused;
    struct make_events e;
    struct rs_summary s;
    make_events_init(&e);
    const uint32_t main_thread = make_host_lane(&e, 1), worker = make_host_lane(&e, 21);
    for (rs_ns at = 1000; at <= 3000; at += 1000) {
        const bool is_base = at == 2000;
        call(&e, is_base ? "c10d::_allgather_base_" : "c10d::allgather_", main_thread, at, at + 20);
        make_inputs(&e, is_base ? "[[400], [100], []]" : "[[], [[100]], []]",
                    is_base ? "[\"float\", \"float\", \"\"]" : "[\"\", \"TensorList\", \"\"]",
                    NULL);
        gloo(&e, "gloo:all_gather", worker, at + 30, at + 400, "[[100]]");
    }
    reduce(&e, &s);
    assert_int_equal(s.op_count, 3);
    assert_true(s.ops[0].shape_hash != 0 && s.ops[0].shape_hash == s.ops[2].shape_hash);
    assert_true(s.ops[1].shape_hash != 0 && s.ops[1].shape_hash != s.ops[0].shape_hash);
    rs_summary_fini(&s);
    make_events_fini(&e);
}

/* A damaged row may start at any time: it costs no more than others that are far from their calls. */
static void a_damaged_time_of_a_gloo_row_costs_no_more_than_a_long_one(void **unused)
{
    (void)unused;
    struct make_events e;
    struct rs_summary s;
    static const rs_ns far = INT64_C(1) << 62;
    make_events_init(&e);
    const uint32_t main_thread = make_host_lane(&e, 1), worker = make_host_lane(&e, 21);
    for (rs_ns at = 1000; at <= 5000; at += 1000) {
        call(&e, "c10d::allreduce_", main_thread, at, at + 5);
        make_inputs(&e, "[[[1000]], [], []]", "[\"TensorList\", \"\", \"\"]", "[\"\", \"\", \"\"]");
    }
    gloo(&e, "gloo:all_reduce", worker, 1050, 1100, "[[1000]]");
    for (rs_ns i = 0; i < 3; i++) {
        gloo(&e, "gloo:all_reduce", worker, far + 100 * i, far + 100 * i + 50, "[[1000]]");
    }
    reduce(&e, &s);
    assert_int_equal(s.op_count, 4);
    assert_int_equal(s.ops[0].call_start, 1000);
    rs_summary_fini(&s);
    make_events_fini(&e);
}

static void without_shapes_there_are_no_bytes(void **unused)
{
    (void)unused;
    struct make_events e;
    struct rs_summary s;
    make_events_init(&e);
    call(&e, "c10d::allreduce_", make_host_lane(&e, 1), 100, 120);
    make_row(&e, RS_KIND_USER_ANNOTATION, "gloo:all_reduce", make_host_lane(&e, 2), 150, 200);
    reduce(&e, &s);
    assert_int_equal(s.op_count, 1);
    assert_int_equal(s.ops[0].bytes, -1);
    assert_int_equal(s.ops[0].call_start, 100);
    assert_true(s.ops[0].shape_hash == 0);
    rs_summary_fini(&s);
    make_events_fini(&e);
}

/* ---- native ---- */

static void native_operations_keep_what_the_program_said(void **unused)
{
    (void)unused;
    struct make_events e;
    struct rs_summary s;
    make_events_init(&e);
    e.info.rank = 2;
    const uint32_t thread = make_host_lane(&e, 1);
    make_row(&e, RS_KIND_COMM_TASK, "", thread, 110, 140);
    make_correlation(&e, 9);
    struct rs_comm *comm = make_comm(&e, NULL);
    comm->src = 2;
    comm->dst = 3;
    comm->bytes = 512;
    comm->has = RS_COMM_HAS_SRC | RS_COMM_HAS_DST | RS_COMM_HAS_BYTES;
    make_row(&e, RS_KIND_COMM_TASK, "", thread, 105, 150);
    make_correlation(&e, 9);
    comm = make_comm(&e, NULL);
    comm->src = 1;
    comm->dst = 2;
    comm->has = RS_COMM_HAS_SRC | RS_COMM_HAS_DST;
    make_row(&e, RS_KIND_COMM, "grads", thread, 100, 200);
    make_correlation(&e, 9);
    comm = make_comm(&e, "all_reduce");
    name_group(&e, comm, "dp", "[0, 1, 2, 3]", 4);
    comm->bytes = 4096;
    comm->seq = 5;
    comm->transport = make_string(&e, "TCP");
    comm->has |= RS_COMM_HAS_BYTES | RS_COMM_HAS_SEQ;
    make_row(&e, RS_KIND_COMM, "activations", thread, 300, 400);
    comm = make_comm(&e, "recv");
    comm->src = 0;
    comm->dst = 2;
    comm->has = RS_COMM_HAS_SRC | RS_COMM_HAS_DST;
    make_row(&e, RS_KIND_COMM_TASK, "", thread, 900, 950); /* its operation was lost */
    make_correlation(&e, 10);
    reduce(&e, &s);
    assert_int_equal(s.op_count, 2);
    assert_int_equal(s.ops[0].type, RS_OP_ALL_REDUCE);
    assert_int_equal(s.ops[0].bytes, 4096);
    assert_int_equal(s.ops[0].seq, 5);
    assert_string_equal(rs_strtab_text(&s.strings, s.ops[0].transport), "TCP");
    assert_int_equal(s.ops[0].task_count, 2);
    const struct rs_comm_task *tasks = &s.tasks[s.ops[0].task_first];
    assert_int_equal(tasks[0].start, 105);
    assert_false(tasks[0].is_send);
    assert_int_equal(tasks[0].bytes, -1);
    assert_true(tasks[1].is_send);
    assert_int_equal(tasks[1].dst, 3);
    assert_int_equal(tasks[1].bytes, 512);
    assert_int_equal(s.ops[1].type, RS_OP_RECV);
    assert_int_equal(s.ops[1].peer, 0);
    assert_int_equal(s.ops[1].bytes, -1);
    assert_int_equal(s.steps[0].bubble, 100);
    assert_int_equal(s.trace.drop_count, 1);
    assert_int_equal(s.trace.drops[0].count, 1);
    rs_summary_fini(&s);
    make_events_fini(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_all_to_all_of_send_recv_kernels_is_one),
        cmocka_unit_test(arguments_give_group_bytes_sequence_and_peer),
        cmocka_unit_test(a_cut_list_is_completed),
        cmocka_unit_test(kernels_without_a_call_stay_alone),
        cmocka_unit_test(a_coalesced_batch_is_one_send_recv),
        cmocka_unit_test(a_coalesced_batch_in_one_direction_is_a_send_or_a_receive),
        cmocka_unit_test(a_batch_names_all_of_its_peers),
        cmocka_unit_test(tensors_of_a_coalesced_collective_add_up),
        cmocka_unit_test(without_any_link_kernels_and_calls_pair_in_order),
        cmocka_unit_test(an_external_id_finds_the_call_when_the_launch_is_gone),
        cmocka_unit_test(stretches_of_one_id_are_one_operation),
        cmocka_unit_test(gloo_rows_find_their_calls),
        cmocka_unit_test(a_lost_gloo_row_leaves_its_call_alone),
        cmocka_unit_test(a_gloo_receive_is_of_the_call_it_runs_in),
        cmocka_unit_test(gloo_rows_of_other_calls_are_other_operations),
        cmocka_unit_test(a_damaged_time_of_a_gloo_row_costs_no_more_than_a_long_one),
        cmocka_unit_test(without_shapes_there_are_no_bytes),
        cmocka_unit_test(native_operations_keep_what_the_program_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
