/* SPDX-License-Identifier: Apache-2.0 */
/* Every kind of dependency, with the waits that the contract's formula gives by hand. */
#include "tests/unit/aggregator_analysis/join_rig.h"

static const int32_t three[] = {0, 1, 2};
static const rs_ns MS = 1000000;

/* Ranks 0, 1, 2 start at 10, 30, 20 ms and end at 50, 52, 51 ms. */
static void add_three(struct rig *rig, enum rs_op_type type, int32_t root)
{
    static const rs_ns starts[] = {10, 30, 20}, ends[] = {50, 52, 51};
    for (int32_t rank = 0; rank < 3; rank++) {
        struct rs_summary *summary = rig_rank(rig, rank, "n1");
        const uint32_t group = make_group(summary, "0", three, 3);
        struct rs_comm_op *op = make_op(summary, type, starts[rank] * MS, ends[rank] * MS);
        op->group = group;
        op->root = root;
    }
}

static void expect_waits(const struct rig *rig, const rs_dur waits_ms[3], int32_t last)
{
    static const rs_dur lengths[] = {40, 22, 31};
    assert_int_equal(rig->analysis->op_count, 1);
    const struct rs_job_op *op = &rig->analysis->ops[0];
    assert_true(op->is_matched && op->has_wait);
    assert_int_equal(op->coverage, RS_COVERAGE_EXACT);
    assert_int_equal(op->ranks_expected, 3);
    assert_int_equal(op->last_rank, last);
    for (int32_t rank = 0; rank < 3; rank++) {
        const struct rs_job_row *row = rig_row(rig, 0, rank);
        assert_int_equal(row->wait, waits_ms[rank] * MS);
        assert_int_equal(row->transfer, (lengths[rank] - waits_ms[rank]) * MS);
        assert_true(row->has_transfer && !row->is_partial);
    }
}

static void symmetric_members_wait_for_the_last(void **state)
{
    static const enum rs_op_type types[] = {RS_OP_ALL_REDUCE, RS_OP_ALL_GATHER,
                                            RS_OP_REDUCE_SCATTER, RS_OP_ALL_TO_ALL, RS_OP_BARRIER};
    (void)state;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        struct rig rig = {0};
        add_three(&rig, types[i], -1);
        rig_run(&rig, false);
        expect_waits(&rig, (rs_dur[]){20, 0, 10}, 1);
        assert_int_equal(rig.analysis->ranks[1].ops_last, 1);
        assert_int_equal(rig.analysis->ranks[1].caused_wait, 30 * MS);
        assert_int_equal(rig.analysis->ranks[0].own_wait, 20 * MS);
        rig_fini(&rig);
    }
}

static void broadcast_and_scatter_wait_for_the_root(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct rig rig = {0};
        add_three(&rig, i == 0 ? RS_OP_BROADCAST : RS_OP_SCATTER, 2);
        rig_run(&rig, false);
        expect_waits(&rig, (rs_dur[]){10, 0, 0}, 2);
        rig_fini(&rig);
    }
}

static void reduce_and_gather_let_the_root_wait(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct rig rig = {0};
        add_three(&rig, i == 0 ? RS_OP_REDUCE : RS_OP_GATHER, 0);
        rig_run(&rig, false);
        expect_waits(&rig, (rs_dur[]){20, 0, 0}, 1);
        rig_fini(&rig);
    }
}

static void root_within_group_is_mapped(void **state)
{
    static const int32_t ranks[] = {4, 7};
    struct rig rig = {0};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct rs_summary *summary = rig_rank(&rig, ranks[i], "n1");
        const uint32_t group = make_group(summary, "x", ranks, 2);
        struct rs_comm_op *op = make_op(summary, RS_OP_BROADCAST, i == 0 ? 100 : 400, 900);
        op->group = group;
        op->root = 1;
        op->flags = RS_OP_ROOT_IN_GROUP;
    }
    rig_run(&rig, false);
    assert_int_equal(rig.analysis->ops[0].last_rank, 7);
    assert_int_equal(rig_row(&rig, 0, 4)->wait, 300);
    rig_fini(&rig);
}

static void unknown_root_says_nothing(void **state)
{
    struct rig rig = {0};
    (void)state;
    add_three(&rig, RS_OP_BROADCAST, -1);
    rig_run(&rig, false);
    assert_int_equal(rig.analysis->ops[0].coverage, RS_COVERAGE_PARTIAL);
    assert_int_equal(rig.analysis->ops[0].last_rank, -1);
    assert_int_equal(rig_row(&rig, 0, 0)->wait, 0);
    rig_fini(&rig);
}

static void wait_is_clamped_to_the_operation(void **state)
{
    static const int32_t two[] = {0, 1};
    struct rig rig = {0};
    (void)state;
    for (int32_t rank = 0; rank < 2; rank++) {
        struct rs_summary *summary = rig_rank(&rig, rank, "n1");
        const uint32_t group = make_group(summary, "0", two, 2);
        /* rank 1 starts 4 us after rank 0 ended: within the clock bound */
        struct rs_comm_op *op =
            make_op(summary, RS_OP_ALL_REDUCE, rank == 0 ? 1000 : 9000, rank == 0 ? 5000 : 9500);
        op->group = group;
    }
    rig_run(&rig, false);
    assert_int_equal(rig_row(&rig, 0, 0)->wait, 4000);
    assert_int_equal(rig_row(&rig, 0, 0)->transfer, 0);
    rig_fini(&rig);
}

static void ties_fall_to_the_lowest_rank(void **state)
{
    struct rig rig = {0};
    (void)state;
    for (int32_t rank = 0; rank < 3; rank++) {
        struct rs_summary *summary = rig_rank(&rig, rank, "n1");
        const uint32_t group = make_group(summary, "0", three, 3);
        make_op(summary, RS_OP_BARRIER, rank == 0 ? 10 : 50, 90)->group = group;
    }
    rig_run(&rig, false);
    assert_int_equal(rig.analysis->ops[0].last_rank, 1);
    rig_fini(&rig);
}

static void missing_member_makes_bounds(void **state)
{
    struct rig rig = {0};
    (void)state;
    add_three(&rig, RS_OP_ALL_REDUCE, -1);
    rig.count = 2; /* rank 2 is not there */
    rig_run(&rig, false);
    const struct rs_job_op *op = &rig.analysis->ops[0];
    assert_true(op->is_matched);
    assert_int_equal(op->coverage, RS_COVERAGE_PARTIAL);
    assert_int_equal(op->row_count, 2);
    assert_int_equal(op->ranks_expected, 3);
    assert_int_equal(op->last_rank, -1);
    assert_int_equal(rig_row(&rig, 0, 0)->wait, 20 * MS);
    assert_true(rig_row(&rig, 0, 0)->is_partial);
    rig.count = 3;
    rig_fini(&rig);
}

/* A send on a device waits for its recv, on the host it does not. */
static void run_pair(struct rig *rig, uint8_t flags, rs_ns send_start, rs_ns recv_start)
{
    static const int32_t two[] = {0, 1};
    struct rs_summary *sender = rig_rank(rig, 0, "n1"), *receiver = rig_rank(rig, 1, "n1");
    struct rs_comm_op *send = make_op(sender, RS_OP_SEND, send_start, 100);
    send->group = make_group(sender, "0", two, 2);
    send->peer = 1;
    send->flags = flags;
    send->bytes = 64;
    struct rs_comm_op *recv = make_op(receiver, RS_OP_RECV, recv_start, 110);
    recv->group = make_group(receiver, "0", two, 2);
    recv->peer = 0;
    recv->flags = flags;
    recv->bytes = 64;
    make_step(receiver, 5, 0, 200);
    recv->step = send->step = 5;
    rig_run(rig, false);
    assert_int_equal(rig->analysis->op_count, 1);
    assert_int_equal(rig->analysis->ops[0].type, RS_OP_SEND);
    assert_int_equal(rig->analysis->ops[0].ranks_expected, 2);
    assert_int_equal(rig->analysis->ops[0].seq, 0);
}

static void recv_waits_for_its_send(void **state)
{
    struct rig rig = {0};
    (void)state;
    run_pair(&rig, 0, 50, 20);
    assert_int_equal(rig_row(&rig, 0, 0)->wait, 0);
    assert_int_equal(rig_row(&rig, 0, 1)->wait, 30);
    assert_int_equal(rig.analysis->ops[0].last_rank, 0);
    assert_int_equal(rs_analysis_p2p_wait(rig.analysis, 1, 0), 30);
    assert_int_equal(rig.analysis->ranks[1].p2p_wait, 30);
    rig_fini(&rig);
}

static void host_send_waits_for_nobody(void **state)
{
    struct rig rig = {0};
    (void)state;
    run_pair(&rig, 0, 20, 50);
    assert_int_equal(rig_row(&rig, 0, 0)->wait, 0);
    assert_int_equal(rig_row(&rig, 0, 1)->wait, 0);
    assert_int_equal(rig.analysis->ops[0].last_rank, 1);
    rig_fini(&rig);
}

static void device_send_waits_for_its_recv(void **state)
{
    struct rig rig = {0};
    (void)state;
    run_pair(&rig, RS_OP_ON_DEVICE, 20, 50);
    assert_int_equal(rig_row(&rig, 0, 0)->wait, 30);
    assert_int_equal(rig_row(&rig, 0, 1)->wait, 0);
    rig_fini(&rig);
}

static void batch_members_wait_for_each_other(void **state)
{
    struct rig rig = {0};
    (void)state;
    for (int32_t rank = 0; rank < 2; rank++) {
        struct rs_summary *summary = rig_rank(&rig, rank, "n1");
        struct rs_comm_op *op = make_op(summary, RS_OP_SEND_RECV, rank == 0 ? 10 : 35, 100);
        op->peer = 1 - rank;
        op->flags = RS_OP_IS_BATCH | RS_OP_ON_DEVICE;
    }
    rig_run(&rig, false);
    assert_int_equal(rig.analysis->ops[0].type, RS_OP_SEND_RECV);
    assert_int_equal(rig.analysis->ops[0].last_rank, 1);
    assert_int_equal(rig_row(&rig, 0, 0)->wait, 25);
    rig_fini(&rig);
}

/* Rank 1's row exchanges with 0 and 2, which have one peer each. `sent` is what it sends to rank 2. */
static void run_line(struct rig *rig, int64_t sent, bool has_last)
{
    for (int32_t rank = 0; rank < (has_last ? 3 : 2); rank++) {
        static const rs_ns starts[] = {10, 20, 60};
        struct rs_summary *summary = rig_rank(rig, rank, "n1");
        struct rs_comm_op *op = make_op(summary, RS_OP_SEND_RECV, starts[rank], 100);
        op->flags = RS_OP_IS_BATCH | RS_OP_ON_DEVICE;
        op->peer = rank == 1 ? -1 : 1;
        op->bytes = rank == 2 ? 512 : 256;
        if (rank != 1) {
            continue;
        }
        const struct rs_comm_task from = {
            .src = 0, .dst = -1, .bytes = 256, .start = 20, .end = 100, .transport = RS_STR_NONE};
        const struct rs_comm_task to = {.src = -1,
                                        .dst = 2,
                                        .is_send = true,
                                        .bytes = sent,
                                        .start = 20,
                                        .end = 100,
                                        .transport = RS_STR_NONE};
        make_task(summary, &from);
        make_task(summary, &to);
    }
    rig_run(rig, false);
}

static void a_batch_with_several_peers_waits_for_its_own(void **state)
{
    struct rig rig = {0};
    (void)state;
    run_line(&rig, 512, true);
    assert_int_equal(rig.analysis->op_count, 1);
    assert_int_equal(rig.analysis->ops[0].coverage, RS_COVERAGE_EXACT);
    assert_int_equal(rig.analysis->ops[0].ranks_expected, 3);
    assert_int_equal(rig.analysis->ops[0].last_rank, 2);
    assert_int_equal(rig_row(&rig, 0, 0)->wait, 10); /* for rank 1, and not for rank 2 */
    assert_int_equal(rig_row(&rig, 0, 1)->wait, 40);
    assert_int_equal(rig_row(&rig, 0, 2)->wait, 0);
    assert_int_equal(rig.analysis->ranks[2].caused_wait, 40);
    rig_fini(&rig);
}

static void a_batch_of_another_size_is_not_its_partner(void **state)
{
    struct rig rig = {0};
    (void)state;
    run_line(&rig, 1024, true); /* rank 2 says 512 */
    assert_int_equal(rig.analysis->op_count, 2);
    assert_int_equal(rig.analysis->ops[0].coverage, RS_COVERAGE_PARTIAL);
    assert_int_equal(rig.analysis->ops[1].coverage, RS_COVERAGE_PARTIAL);
    rig_fini(&rig);
}

static void a_batch_without_one_of_its_partners_is_partial(void **state)
{
    struct rig rig = {0};
    (void)state;
    run_line(&rig, 512, false);
    assert_int_equal(rig.analysis->op_count, 1);
    assert_int_equal(rig.analysis->ops[0].coverage, RS_COVERAGE_PARTIAL);
    assert_int_equal(rig.analysis->ops[0].ranks_expected, 3);
    assert_int_equal(rig.analysis->ops[0].last_rank, -1);
    assert_int_equal(rig_row(&rig, 0, 0)->wait, 10);
    rig_fini(&rig);
}

/* The start is valid, so the others' waits are; its own transfer is not. */
static void unfinished_row_keeps_its_start(void **state)
{
    struct rig rig = {0};
    (void)state;
    add_three(&rig, RS_OP_ALL_REDUCE, -1);
    rig.ranks[1].ops[0].flags = RS_OP_UNFINISHED;
    rig.ranks[1].ops[0].end = rig.ranks[1].ops[0].start; /* clamped to the recording */
    rig_run(&rig, false);
    assert_int_equal(rig.analysis->ops[0].last_rank, 1);
    assert_int_equal(rig_row(&rig, 0, 0)->wait, 20 * MS);
    assert_false(rig_row(&rig, 0, 1)->has_transfer);
    assert_true(rig_row(&rig, 0, 1)->is_partial);
    assert_false(rig_row(&rig, 0, 0)->is_partial);
    assert_true(rig.analysis->note_count > 0);
    rig_fini(&rig);
}

static void unmatched_row_is_a_partial_operation(void **state)
{
    struct rig rig = {0};
    (void)state;
    struct rs_summary *summary = rig_rank(&rig, 3, "n1");
    make_op(summary, RS_OP_ALL_REDUCE, 10, 70);
    rig_run(&rig, false);
    const struct rs_job_op *op = &rig.analysis->ops[0];
    assert_false(op->is_matched);
    assert_int_equal(op->seq, -1);
    assert_int_equal(op->last_rank, -1);
    assert_int_equal(op->ranks_expected, -1);
    assert_int_equal(op->row_count, 1);
    assert_int_equal(op->coverage, RS_COVERAGE_PARTIAL);
    assert_int_equal(rig_row(&rig, 0, 3)->wait, 0);
    assert_int_equal(rig_row(&rig, 0, 3)->transfer, 60);
    assert_int_equal(op->group, RS_NO_GROUP);
    rig_fini(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(symmetric_members_wait_for_the_last),
        cmocka_unit_test(broadcast_and_scatter_wait_for_the_root),
        cmocka_unit_test(reduce_and_gather_let_the_root_wait),
        cmocka_unit_test(root_within_group_is_mapped),
        cmocka_unit_test(unknown_root_says_nothing),
        cmocka_unit_test(wait_is_clamped_to_the_operation),
        cmocka_unit_test(ties_fall_to_the_lowest_rank),
        cmocka_unit_test(missing_member_makes_bounds),
        cmocka_unit_test(recv_waits_for_its_send),
        cmocka_unit_test(host_send_waits_for_nobody),
        cmocka_unit_test(device_send_waits_for_its_recv),
        cmocka_unit_test(batch_members_wait_for_each_other),
        cmocka_unit_test(a_batch_with_several_peers_waits_for_its_own),
        cmocka_unit_test(a_batch_of_another_size_is_not_its_partner),
        cmocka_unit_test(a_batch_without_one_of_its_partners_is_partial),
        cmocka_unit_test(unfinished_row_keeps_its_start),
        cmocka_unit_test(unmatched_row_is_a_partial_operation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
