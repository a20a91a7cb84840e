/* SPDX-License-Identifier: Apache-2.0 */
/* Which rows belong together: numbers, order with a searched shift, groups, pairs, clocks. */
#include "aggregator/analysis/analysis_priv.h"
#include "common/base/mem.h"
#include "tests/unit/aggregator_analysis/join_rig.h"

#include <stdio.h>
#include <string.h>

static const int32_t four[] = {0, 1, 2, 3};
static const rs_ns US = 1000;

/* The k-th operation of a job in which all do one after another: 100 us each, ranks start at odd moments. */
static struct rs_comm_op *regular(struct rs_summary *summary, enum rs_op_type type, int64_t k,
                                  int32_t rank)
{
    return make_op(summary, type, (k * 200 + rank * 7) * US, (k * 200 + 100 + rank) * US);
}

static void add_regular(struct rig *rig, int32_t rank, const char *host, int64_t first, int64_t end)
{
    struct rs_summary *summary = rig_rank(rig, rank, host);
    const uint32_t group = make_group(summary, "0", four, 4);
    for (int64_t k = first; k < end; k++) {
        struct rs_comm_op *op = regular(summary, RS_OP_ALL_REDUCE, k, rank);
        op->group = group;
        op->bytes = 1000 + k; /* what the tests know, and matching by time must find out */
    }
}

/* Every operation's rows carry the same number of bytes. */
static void expect_pure(const struct rig *rig)
{
    for (size_t i = 0; i < rig->analysis->op_count; i++) {
        const struct rs_job_op *op = &rig->analysis->ops[i];
        const struct rs_job_row *rows = &rig->analysis->rows[op->row_first];
        for (size_t r = 1; r < op->row_count; r++) {
            assert_int_equal(rig_own(rig, &rows[r])->bytes, rig_own(rig, &rows[0])->bytes);
        }
    }
}

static void hide_bytes(struct rig *rig)
{
    for (size_t s = 0; s < rig->count; s++) {
        for (size_t i = 0; i < rig->ranks[s].op_count; i++) {
            rig->ranks[s].ops[i].shape_hash = 0;
            rig->ranks[s].ops[i].call_start = rig->ranks[s].ops[i].bytes; /* kept for the test */
            rig->ranks[s].ops[i].bytes = -1;
        }
    }
}

static void show_bytes(struct rig *rig)
{
    for (size_t s = 0; s < rig->count; s++) {
        for (size_t i = 0; i < rig->ranks[s].op_count; i++) {
            rig->ranks[s].ops[i].bytes = rig->ranks[s].ops[i].call_start;
        }
    }
}

/* A row whose call was lost stands where it began, behind what was called after it: the host runs far ahead. */
static void a_row_whose_call_was_lost_keeps_its_place(void **state)
{
    enum { OPS = 12, LACKS = 3 };
    struct rig rig = {0};
    (void)state;
    for (int32_t rank = 0; rank < 4; rank++) {
        add_regular(&rig, rank, "n1", 0, OPS);
        struct rs_summary *summary = &rig.ranks[rank];
        for (size_t k = 0; k < OPS; k++) {
            summary->ops[k].flags |= RS_OP_ON_DEVICE;
            summary->ops[k].stream = 20;
            summary->ops[k].call_start = (rs_ns)k - 100;
        }
        if (rank == 2) {
            struct rs_comm_op lacking = summary->ops[LACKS];
            lacking.call_start = lacking.start;
            memmove(&summary->ops[LACKS], &summary->ops[LACKS + 1],
                    (OPS - LACKS - 1) * sizeof *summary->ops);
            summary->ops[OPS - 1] = lacking;
        }
        for (size_t k = 0; k < OPS; k++) {
            summary->ops[k].call_order = (int64_t)k;
        }
    }
    (void)rig_run(&rig, false);
    assert_int_equal(rig.analysis->op_count, OPS);
    expect_pure(&rig);
    rig_fini(&rig);
}

static void shift_is_found_by_feasibility(void **state)
{
    struct rig rig = {0};
    (void)state;
    add_regular(&rig, 0, "n1", 2, 12); /* recordings begin and end anywhere */
    add_regular(&rig, 1, "n1", 0, 10);
    add_regular(&rig, 2, "n1", 1, 11);
    add_regular(&rig, 3, "n1", 0, 12);
    hide_bytes(&rig);
    rig_run(&rig, false);
    show_bytes(&rig);
    assert_int_equal(rig.analysis->op_count, 12);
    assert_int_equal(rig_matched(rig.analysis), 12);
    expect_pure(&rig);
    size_t full = 0;
    for (size_t i = 0; i < 12; i++) {
        full += rig.analysis->ops[i].row_count == 4;
        assert_int_equal(rig.analysis->ops[i].seq, i);
    }
    assert_int_equal(full, 8);
    rig_fini(&rig);
}

static void row_lost_in_the_middle_shifts_the_rest(void **state)
{
    struct rig rig = {0};
    (void)state;
    for (int32_t rank = 0; rank < 4; rank++) {
        add_regular(&rig, rank, "n1", 0, 20);
    }
    struct rs_summary *summary = &rig.ranks[2];
    memmove(&summary->ops[7], &summary->ops[8], 12 * sizeof *summary->ops);
    summary->op_count--;
    hide_bytes(&rig);
    rig_run(&rig, false);
    show_bytes(&rig);
    assert_int_equal(rig.analysis->op_count, 20);
    expect_pure(&rig);
    for (size_t i = 0; i < 20; i++) {
        assert_int_equal(rig.analysis->ops[i].row_count, i == 7 ? 3 : 4);
        assert_int_equal(rig.analysis->ops[i].coverage,
                         i == 7 ? RS_COVERAGE_PARTIAL : RS_COVERAGE_EXACT);
    }
    rig_fini(&rig);
}

/* Ranks that share a device by turns: every operation's ends lie a slice apart, which is as long as an operation. 10 gathers and 2
 * reductions are a step. `extra`: rows of the next step that only the last rank recorded. */
static void add_sliced(struct rig *rig, const char *const *hosts, int64_t steps, int64_t extra)
{
    static const int64_t late[] = {5, 9, 11, 0};
    for (int32_t rank = 0; rank < 4; rank++) {
        struct rs_summary *summary = rig_rank(rig, rank, hosts[rank]);
        const uint32_t group = make_group(summary, "0", four, 4);
        int64_t begin = 0;
        for (int64_t k = 0; k < steps * 12 + (rank == 3 ? extra : 0); k++) {
            const int64_t end = k * 14 + 14 + late[(rank + k) % 4];
            const enum rs_op_type type = k % 12 < 10 ? RS_OP_ALL_GATHER : RS_OP_REDUCE_SCATTER;
            struct rs_comm_op *op = make_op(summary, type, begin * 1000 * US, end * 1000 * US);
            op->group = group;
            op->bytes = k; /* hidden from matching */
            begin = end;
        }
    }
}

static void expect_whole(const struct rig *rig, size_t ops, size_t alone)
{
    size_t whole = 0;
    expect_pure(rig);
    for (size_t i = 0; i < rig->analysis->op_count; i++) {
        whole += rig->analysis->ops[i].row_count == 4;
    }
    assert_int_equal(whole, ops);
    assert_int_equal(rig->analysis->op_count, ops + alone);
}

static void expect_none_lost(const char *const *hosts)
{
    for (int64_t extra = 0; extra < 4; extra++) {
        struct rig rig = {0};
        add_sliced(&rig, hosts, 10, extra);
        hide_bytes(&rig);
        rig_run(&rig, false);
        show_bytes(&rig);
        expect_whole(&rig, 120, (size_t)extra);
        rig_fini(&rig);
    }
}

/* Nor do rows of the next step that one rank alone recorded, of one host or of two. */
static void ends_that_lie_apart_lose_no_pair(void **state)
{
    static const char *const one[] = {"n1", "n1", "n1", "n1"}, *const two[] = {"n1", "n1", "n2",
                                                                               "n2"};
    (void)state;
    expect_none_lost(one);
    expect_none_lost(two);
}

/* Without a clock: a has some steps, b the same but for a row at an end. */
static void rows_alone_at_an_end_make_a_shift_or_nothing(void **state)
{
    enum { STEP = 6, ROWS = 4 * STEP, FEW = 2 * STEP };
    static const uint8_t types[STEP] = {RS_OP_BROADCAST,      RS_OP_ALL_GATHER,
                                        RS_OP_ALL_GATHER,     RS_OP_ALL_GATHER,
                                        RS_OP_REDUCE_SCATTER, RS_OP_REDUCE_SCATTER};
    const struct align_rules rules = {.kind = ALIGN_COLLECTIVE};
    struct align_item a[ROWS];
    size_t positions[ROWS];
    struct align_result found;
    (void)state;
    for (int64_t k = 0; k < ROWS; k++) {
        a[k] = (struct align_item){.max_start = k * 100 * US,
                                   .min_end = (k * 100 + 50) * US,
                                   .end = (k * 100 + 50) * US,
                                   .step = RS_STEP_NONE,
                                   .bytes = -1,
                                   .seq = -1,
                                   .last_member = UINT32_MAX,
                                   .type = types[k % STEP]};
    }
    const struct {
        struct align_side a, b;
        size_t found, first; /* first: the position of b's first row */
    } cases[] = {
        {{a, ROWS},
         {a, ROWS - 1},
         ROWS - 1,
         0}, /* one reduction of two may be either, but the other 22 lack nothing */
        {{a, ROWS - 1}, {a, ROWS}, ROWS - 1, 0},
        {{a, FEW}, {a, FEW - 1}, 0, ALIGN_NONE}, /* of so few it may */
        {{a, FEW},
         {a + 1, FEW - 1},
         FEW - 1,
         1}, /* the only one of its kind: whoever lacks it began later */
        {{a + 1, FEW - 1}, {a, FEW}, FEW - 1, ALIGN_NONE},
        {{a + 1, ROWS - 1}, {a, ROWS - 1}, ROWS - 2, ALIGN_NONE}, /* one at either end */
        {{a, ROWS}, {a, ROWS - STEP}, 0, ALIGN_NONE},             /* a whole step, at either end */
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        assert_int_equal(align_find(cases[k].a, cases[k].b, &rules, positions, &found), RS_OK);
        assert_int_equal(found.found, cases[k].found);
        assert_int_equal(positions[0], cases[k].first);
    }
    for (size_t k = 0; k < ROWS; k++) {
        a[k].type = RS_OP_ALL_REDUCE; /* all alike */
    }
    assert_int_equal(align_find((struct align_side){a, ROWS}, (struct align_side){a, ROWS - 1},
                                &rules, positions, &found),
                     RS_OK);
    assert_int_equal(found.found, 0);
    assert_int_equal(positions[0], ALIGN_NONE);
}

/* Of two hosts, equally many rows of one kind, but those of the second begin one operation later: the times between operations differ, so that
 * clocks tell. */
static void equally_many_rows_may_begin_apart(void **state)
{
    static const char *const hosts[] = {"n1", "n1", "n2", "n2"};
    (void)state;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        uint64_t random = seed * 0x9e3779b97f4a7c15U + 1;
        struct rig rig = {0};
        rs_ns at[62] = {0};
        for (size_t k = 1; k < sizeof at / sizeof *at; k++) {
            at[k] = at[k - 1] + make_random_range(&random, 1000, 3000) * US;
        }
        for (int32_t rank = 0; rank < 4; rank++) {
            struct rs_summary *summary = rig_rank(&rig, rank, hosts[rank]);
            const uint32_t group = make_group(summary, "0", four, 4);
            const rs_ns off = rank < 2 ? 0 : 5000 * US;
            for (size_t k = rank < 2 ? 0 : 1; k < (rank < 2 ? 60U : 61U); k++) {
                /* one right behind the other, as where all wait for somebody */
                struct rs_comm_op *op =
                    make_op(summary, RS_OP_ALL_REDUCE,
                            off + at[k] + make_random_range(&random, 10, 60) * US,
                            off + at[k + 1] + make_random_range(&random, 0, 3) * US);
                op->group = group;
                op->bytes = (int64_t)k; /* hidden from matching */
            }
        }
        hide_bytes(&rig);
        rig_run(&rig, false);
        show_bytes(&rig);
        expect_pure(&rig);
        rig_fini(&rig);
    }
}

/* Recordings that begin and end anywhere, lack rows anywhere, on hosts whose clocks differ: whatever is joined is of one kind, has a rank
 * once, and stands in the order of each rank's calls. */
static void whatever_is_lost_order_and_kind_are_kept(void **state)
{
    static const char *const hosts[] = {"n1", "n2", "n3", NULL};
    static const enum rs_op_type types[] = {RS_OP_ALL_REDUCE, RS_OP_ALL_GATHER,
                                            RS_OP_REDUCE_SCATTER};
    (void)state;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        uint64_t random = seed * 0x9e3779b97f4a7c15U + 1;
        struct rig rig = {0};
        const int64_t ops = make_random_range(&random, 1, 60);
        const int64_t loss = make_random_range(&random, 0, 3) * 4;
        const int64_t kinds = make_random_range(&random, 1, 3);
        const int64_t slice = make_random_range(&random, 0, 1) * 90;
        for (int32_t rank = 0; rank < 4; rank++) {
            struct rs_summary *summary =
                rig_rank(&rig, rank, hosts[make_random_range(&random, 0, 3)]);
            const uint32_t group = make_group(summary, "0", four, 4);
            const int64_t from = make_random_range(&random, 0, 4);
            const int64_t to = ops - make_random_range(&random, 0, 4);
            const rs_ns off = make_random_range(&random, 0, 1) * rank * 700 * US;
            for (int64_t k = from; k < to; k++) {
                if (make_random_range(&random, 0, 99) < loss) {
                    continue;
                }
                const rs_ns end = off + (k * 100 + 90 + make_random_range(&random, 0, slice)) * US;
                struct rs_comm_op *op =
                    make_op(summary, types[k * k % 7 % kinds], off + k * 100 * US, end);
                op->group = group;
            }
        }
        const struct rs_analysis *analysis = rig_run(&rig, false);
        const struct rs_comm_op *before[4] = {NULL};
        for (size_t i = 0; i < analysis->op_count; i++) {
            const struct rs_job_op *op = &analysis->ops[i];
            const struct rs_job_row *rows = &analysis->rows[op->row_first];
            for (size_t r = 0; r < op->row_count; r++) {
                const struct rs_comm_op *own = rig_own(&rig, &rows[r]);
                assert_int_equal(own->type, op->type);
                assert_true(r == 0 || rows[r].rank > rows[r - 1].rank);
                if (op->is_matched) {
                    assert_true(before[rows[r].rank] == NULL || own > before[rows[r].rank]);
                    before[rows[r].rank] = own;
                }
            }
        }
        rig_fini(&rig);
    }
}

/* 10,000 operations that all look alike, one lost in ten places: near-linear and right. */
static void long_sequences_stay_together(void **state)
{
    enum { OPS = 10000 };
    struct rig rig = {0};
    (void)state;
    for (int32_t rank = 0; rank < 4; rank++) {
        add_regular(&rig, rank, "n1", rank, OPS);
        struct rs_summary *summary = &rig.ranks[rank];
        for (size_t lost = (size_t)rank * 100 + 500; lost < 9000; lost += 1000) {
            memmove(&summary->ops[lost], &summary->ops[lost + 1],
                    (summary->op_count - lost - 1) * sizeof *summary->ops);
            summary->op_count--;
        }
    }
    hide_bytes(&rig);
    rig_run(&rig, false);
    show_bytes(&rig);
    assert_int_equal(rig.analysis->op_count, OPS);
    expect_pure(&rig);
    rig_fini(&rig);
}

static void sequence_numbers_come_first(void **state)
{
    struct rig rig = {0};
    (void)state;
    for (int32_t rank = 0; rank < 4; rank++) {
        add_regular(&rig, rank, "n1", 0, 6);
        for (int64_t k = 0; k < 6; k++) {
            /* the recording of rank 1 says operation 3 later than any other: still number 13 */
            rig.ranks[rank].ops[k].seq = 10 + k;
            rig.ranks[rank].ops[k].bytes = -1;
        }
    }
    rig.ranks[1].ops[3].start += 90 * US;
    memmove(&rig.ranks[3].ops[0], &rig.ranks[3].ops[2], 4 * sizeof(struct rs_comm_op));
    rig.ranks[3].op_count = 4;
    rig_run(&rig, false);
    assert_int_equal(rig.analysis->op_count, 6);
    for (size_t i = 0; i < 6; i++) {
        const struct rs_job_op *op = &rig.analysis->ops[i];
        assert_int_equal(op->row_count, i < 2 ? 3 : 4);
        for (size_t r = 0; r < op->row_count; r++) {
            assert_int_equal(rig_own(&rig, &rig.analysis->rows[op->row_first + r])->seq, 10 + i);
        }
    }
    rig_fini(&rig);
}

static void comms_ids_do_without_order(void **state)
{
    struct rig rig = {0};
    (void)state;
    for (int32_t rank = 0; rank < 4; rank++) {
        add_regular(&rig, rank, "n1", 0, 5);
        for (uint64_t k = 0; k < 5; k++) {
            rig.ranks[rank].ops[k].comms_id = 0xabcdef0123U * (k + 1);
        }
    }
    rig_run(&rig, false);
    assert_int_equal(rig.analysis->op_count, 5);
    expect_pure(&rig);
    rig_fini(&rig);
}

/* A program that says sequence 0 for everything has not numbered anything. */
static void constant_sequence_is_no_number(void **state)
{
    struct rig rig = {0};
    (void)state;
    for (int32_t rank = 0; rank < 2; rank++) {
        add_regular(&rig, rank, "n1", 0, 200);
        for (size_t k = 0; k < 200; k++) {
            rig.ranks[rank].ops[k].seq = 0;
        }
    }
    rig_run(&rig, false);
    assert_int_equal(rig.analysis->op_count, 200);
    expect_pure(&rig);
    rig_fini(&rig);
}

static void name_alone_is_no_identity(void **state)
{
    static const int32_t low[] = {0, 1}, high[] = {2, 3}, odd[] = {0, 1, 2, 8};
    struct rig rig = {0};
    (void)state;
    for (int32_t rank = 0; rank < 4; rank++) {
        struct rs_summary *summary = rig_rank(&rig, rank, "n1");
        const uint32_t pair = make_group(summary, "1", rank < 2 ? low : high, 2);
        const uint32_t all = make_group(summary, "0", four, 4);
        regular(summary, RS_OP_ALL_REDUCE, 0, rank)->group = pair;
        regular(summary, RS_OP_ALL_REDUCE, 1, rank)->group = all;
        if (rank == 0) {
            regular(summary, RS_OP_ALL_REDUCE, 2, rank)->group = make_group(summary, NULL, odd, 4);
        }
    }
    rig_run(&rig, false);
    assert_int_equal(rig.analysis->op_count, 4);
    assert_string_equal(rig_group(rig.analysis, 0), "0");
    assert_string_equal(rig_group(rig.analysis, 1), "1@0-1");
    assert_string_equal(rig_group(rig.analysis, 2), "1@2-3");
    assert_string_equal(rig_group(rig.analysis, 3), "g:0-2,8");
    assert_int_equal(rig.analysis->ops[3].ranks_expected, 4);
    assert_false(rig.analysis->ops[3].is_matched);
    rig_fini(&rig);
}

/* Worker threads of gloo: tensor-parallel pairs and data-parallel pairs, operations that look alike. */
static void add_gloo_rank(struct rig *rig, int32_t rank, int64_t steps)
{
    struct rs_summary *summary = rig_rank(rig, rank, "n1");
    summary->trace.world_size = 4;
    summary->step_origin = RS_STEPS_OPTIMIZER_STEP;
    for (int64_t k = 0; k < steps; k++) {
        const rs_ns base = k * 1000 * US;
        /* tp groups 0-1 and 2-3 call at different moments, then dp groups 0,2 and 1,3, then all */
        const rs_ns tp = base + (rank < 2 ? 0 : 60) * US, dp = base + (rank % 2 ? 260 : 200) * US;
        make_op(summary, RS_OP_ALL_REDUCE, tp + rank * US, tp + 50 * US)->stream =
            100 + (k + rank) % 2;
        make_op(summary, RS_OP_ALL_REDUCE, dp + rank * US, dp + 50 * US)->stream =
            200 + (k / 2 + rank) % 2;
        make_op(summary, RS_OP_ALL_REDUCE, base + 400 * US + rank * US, base + 500 * US)->stream =
            50 + (k * rank) % 2;
    }
}

static void gloo_groups_are_inferred_from_time(void **state)
{
    static const char *const expected[] = {"g:0,2", "g:0-1", "g:0-3", "g:1,3", "g:2-3"};
    struct rig rig = {0};
    (void)state;
    for (int32_t rank = 0; rank < 4; rank++) {
        add_gloo_rank(&rig, rank, 6);
    }
    rig_run(&rig, false);
    assert_int_equal(rig.analysis->op_count, 30);
    assert_int_equal(rig_matched(rig.analysis), 30);
    for (size_t i = 0; i < 30; i++) {
        assert_string_equal(rig_group(rig.analysis, i), expected[i / 6]);
        assert_true(rig.analysis->groups[rig.analysis->ops[i].group].is_inferred);
    }
    rig_fini(&rig);
}

/* Two buckets a step on the two threads of the only group, taken as they come; the ids of the threads lie apart,
 * as where many processes start at once. */
static void two_gloo_threads_far_apart_are_one_group(void **state)
{
    enum { STEPS = 20 };
    struct rig rig = {0};
    (void)state;
    for (int32_t rank = 0; rank < 4; rank++) {
        struct rs_summary *summary = rig_rank(&rig, rank, "n1");
        summary->trace.world_size = 4;
        for (int64_t k = 0; k < STEPS; k++) {
            const rs_ns base = k * 1000 * US, start = base + rank * 10 * US;
            const int64_t first = ((k * 7919 + rank * 104729) >> 3) & 1;
            struct rs_comm_op *large = make_op(summary, RS_OP_ALL_REDUCE, start, base + 500 * US);
            large->bytes = 1575936;
            large->stream = 1000 + rank * 20 + first * 7;
            struct rs_comm_op *small =
                make_op(summary, RS_OP_ALL_REDUCE, start + US, base + 600 * US);
            small->bytes = 526336;
            small->stream = 1000 + rank * 20 + (1 - first) * 7;
        }
    }
    rig_run(&rig, false);
    assert_int_equal(rig.analysis->op_count, 2 * STEPS);
    assert_int_equal(rig_matched(rig.analysis), 2 * STEPS);
    for (size_t i = 0; i < 2 * STEPS; i++) {
        assert_string_equal(rig_group(rig.analysis, i), "g:0-3");
        assert_int_equal(rig.analysis->ops[i].row_count, 4);
    }
    rig_fini(&rig);
}

static void inferred_group_takes_the_only_name(void **state)
{
    struct rig rig = {0};
    (void)state;
    for (int32_t rank = 0; rank < 4; rank++) {
        struct rs_summary *summary = rig_rank(&rig, rank, "n1");
        make_group(summary, "default", four, 4);
        regular(summary, RS_OP_ALL_REDUCE, 0, rank)->stream = 7;
    }
    rig_run(&rig, false);
    assert_string_equal(rig_group(rig.analysis, 0), "default");
    rig_fini(&rig);
}

static void inferred_world_is_not_complete_when_ranks_are_missing(void **state)
{
    struct rig rig = {0};
    (void)state;
    for (int32_t rank = 0; rank < 3; rank++) {
        struct rs_summary *summary = rig_rank(&rig, rank, "n1");
        summary->trace.world_size = 4;
        regular(summary, RS_OP_ALL_REDUCE, 0, rank)->stream = 7;
    }
    rig_run(&rig, false);
    assert_int_equal(rig.analysis->ops[0].ranks_expected, 4);
    assert_int_equal(rig.analysis->ops[0].coverage, RS_COVERAGE_PARTIAL);
    assert_int_equal(rig.analysis->missing_count, 1);
    assert_int_equal(rig.analysis->missing_ranks[0], 3);
    rig_fini(&rig);
}

static void kernel_without_a_call_stays_alone(void **state)
{
    struct rig rig = {0};
    (void)state;
    for (int32_t rank = 0; rank < 2; rank++) {
        struct rs_comm_op *op = regular(rig_rank(&rig, rank, "n1"), RS_OP_ALL_REDUCE, 0, rank);
        op->flags = RS_OP_NO_CALL | RS_OP_ON_DEVICE;
        op->device = 0;
    }
    rig_run(&rig, false);
    assert_int_equal(rig.analysis->op_count, 2);
    assert_int_equal(rig_matched(rig.analysis), 0);
    assert_string_equal(rig_group(rig.analysis, 0), "");
    rig_fini(&rig);
}

/* ---- pairs --------------------------------------------------------------------------- */

static void add_transfer(struct rig *rig, size_t from, size_t to, const rs_ns times[4],
                         int64_t bytes)
{
    struct rs_comm_op *send = make_op(&rig->ranks[from], RS_OP_SEND, times[0] * US, times[1] * US);
    send->peer = rig->ranks[to].trace.rank;
    send->bytes = bytes;
    struct rs_comm_op *recv = make_op(&rig->ranks[to], RS_OP_RECV, times[2] * US, times[3] * US);
    recv->peer = rig->ranks[from].trace.rank;
    recv->bytes = bytes;
}

static void both_directions_are_pairs_of_their_own(void **state)
{
    struct rig rig = {0};
    (void)state;
    rig_rank(&rig, 0, "n1");
    rig_rank(&rig, 1, "n1");
    for (int64_t k = 0; k < 5; k++) {
        add_transfer(&rig, 0, 1, (rs_ns[]){k * 100, k * 100 + 10, k * 100 + 5, k * 100 + 12},
                     k + 1);
        add_transfer(&rig, 1, 0, (rs_ns[]){k * 100 + 40, k * 100 + 50, k * 100 + 30, k * 100 + 55},
                     k + 100);
    }
    rig_run(&rig, false);
    assert_int_equal(rig.analysis->op_count, 10);
    assert_int_equal(rig_matched(rig.analysis), 10);
    expect_pure(&rig);
    for (size_t i = 0; i < 10; i++) {
        assert_in_range(rig.analysis->ops[i].seq, 0, 4); /* each direction counts from 0 */
    }
    assert_int_equal(rig.analysis->link_count, 2);
    assert_int_equal(rig.analysis->links[0].src, 0);
    assert_int_equal(rig.analysis->links[0].bytes, 1 + 2 + 3 + 4 + 5);
    rig_fini(&rig);
}

/* The receiver's recording began later: its first recv is the sender's third send. */
static void pair_shift_is_found_by_ends(void **state)
{
    struct rig rig = {0};
    (void)state;
    rig_rank(&rig, 0, "n1");
    rig_rank(&rig, 1, "n1");
    for (int64_t k = 0; k < 8; k++) {
        add_transfer(&rig, 0, 1, (rs_ns[]){k * 100, k * 100 + 10, k * 100 + 5, k * 100 + 12}, 64);
        rig.ranks[0].ops[k].call_order = rig.ranks[1].ops[k].call_order = k;
    }
    memmove(&rig.ranks[1].ops[0], &rig.ranks[1].ops[2], 6 * sizeof(struct rs_comm_op));
    rig.ranks[1].op_count = 6;
    rig.ranks[1].span_start = 190 * US;
    rig.ranks[0].op_count = 7;
    rig_run(&rig, false);
    assert_int_equal(rig_matched(rig.analysis), 5);
    for (size_t i = 0; i < rig.analysis->op_count; i++) {
        const struct rs_job_op *op = &rig.analysis->ops[i];
        const struct rs_job_row *rows = &rig.analysis->rows[op->row_first];
        if (op->is_matched) {
            assert_int_equal(rig_own(&rig, &rows[0])->call_order,
                             rig_own(&rig, &rows[1])->call_order);
        }
    }
    rig_fini(&rig);
}

/* A sender that runs ahead of its receiver by several messages, all of equal size. */
static void buffered_sends_keep_their_order(void **state)
{
    struct rig rig = {0};
    (void)state;
    rig_rank(&rig, 0, "n1");
    rig_rank(&rig, 1, "n1");
    for (int64_t k = 0; k < 12; k++) {
        add_transfer(&rig, 0, 1, (rs_ns[]){k * 100, k * 100 + 10, k * 100 + 405, k * 100 + 412},
                     64);
        rig.ranks[0].ops[k].call_order = rig.ranks[1].ops[k].call_order = k;
    }
    rig.ranks[1].span_start =
        0; /* recorded from the beginning: the first recv is the first send's */
    rig_run(&rig, false);
    assert_int_equal(rig_matched(rig.analysis), 12);
    for (size_t i = 0; i < 12; i++) {
        const struct rs_job_row *rows = &rig.analysis->rows[rig.analysis->ops[i].row_first];
        assert_int_equal(rig_own(&rig, &rows[0])->call_order, rig_own(&rig, &rows[1])->call_order);
    }
    rig_fini(&rig);
}

/* Rank 0 lost the second of three, rank 1 the third: what neither found in the other stands in the order of time, and rank 2 has both. */
static void what_two_ranks_lost_stands_in_order_for_a_third(void **state)
{
    struct rig rig = {0};
    (void)state;
    for (int32_t rank = 0; rank < 3; rank++) {
        struct rs_summary *summary = rig_rank(&rig, rank, "n1");
        const uint32_t group = make_group(summary, "0", four, 3);
        for (int64_t k = 0; k < 3; k++) {
            if ((rank == 0 && k == 1) || (rank == 1 && k == 2)) {
                continue;
            }
            struct rs_comm_op *op = regular(summary, RS_OP_ALL_REDUCE, k, rank);
            op->group = group;
            op->bytes = 64;
        }
    }
    rig_run(&rig, false);
    assert_int_equal(rig.analysis->op_count, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(rig.analysis->ops[i].row_count, i == 0 ? 3 : 2);
    }
    rig_fini(&rig);
}

/* Files that name no host, and one of which two rows of nine are left: too few to vote, but both end as the others' do. */
static void a_file_with_two_rows_stands_as_the_others_do(void **state)
{
    struct rig rig = {0};
    (void)state;
    for (int32_t rank = 0; rank < 4; rank++) {
        struct rs_summary *summary = rig_rank(&rig, rank, NULL);
        summary->trace.world_size = 4;
        for (int64_t k = 0; k < 9; k++) {
            if (rank == 2 && k != 3 && k != 7) {
                continue;
            }
            const rs_ns end = k * 1000 + k * k * 37;
            struct rs_comm_op *op =
                make_op(summary, RS_OP_ALL_REDUCE, (end - 100 - (rank + k) % 4 * 20) * US,
                        (end + rank) * US);
            op->device = rank;
            op->stream = 7;
            op->flags = RS_OP_ON_DEVICE;
        }
    }
    rig_run(&rig, false);
    assert_true(rig.analysis->one_clock);
    assert_int_equal(rig.analysis->clocks[2].method, RS_CLOCK_ENDS);
    assert_int_equal(rig_matched(rig.analysis), 9);
    rig_fini(&rig);
}

/* gloo: the peer is numbered within a group that the row does not name. */
static void peer_within_an_unnamed_group(void **state)
{
    struct rig rig = {0};
    (void)state;
    for (int32_t rank = 0; rank < 4; rank++) {
        add_gloo_rank(&rig, rank, 3);
    }
    add_transfer(&rig, 0, 1, (rs_ns[]){600, 610, 605, 612}, 64); /* of the default group */
    add_transfer(&rig, 2, 3, (rs_ns[]){700, 710, 705, 712}, 32); /* of tp 2-3: 0 -> 1 within */
    for (size_t s = 0; s < 4; s++) {
        rig.ranks[s].ops[9].flags = RS_OP_PEER_IN_GROUP;
    }
    rig.ranks[2].ops[9].peer = 1;
    rig.ranks[3].ops[9].peer = 0;
    rig_run(&rig, false);
    size_t pairs = 0;
    for (size_t i = 0; i < rig.analysis->op_count; i++) {
        if (rig.analysis->ops[i].is_p2p) {
            assert_true(rig.analysis->ops[i].is_matched);
            const int32_t rank = rig.analysis->rows[rig.analysis->ops[i].row_first].rank;
            assert_string_equal(rig_group(rig.analysis, i), rank == 0 ? "g:0-3" : "g:2-3");
            pairs++;
        }
    }
    assert_int_equal(pairs, 2);
    rig_fini(&rig);
}

static void recv_before_its_send_is_no_pair(void **state)
{
    struct rig rig = {0};
    (void)state;
    rig_rank(&rig, 0, "n1");
    rig_rank(&rig, 1, "n1");
    add_transfer(&rig, 0, 1, (rs_ns[]){500, 510, 5, 12}, 64);
    rig_run(&rig, false);
    assert_int_equal(rig_matched(rig.analysis), 0);
    assert_int_equal(rig.analysis->op_count, 2);
    rig_fini(&rig);
}

/* Documents of a rank without its trace: a receive says its group, not whom it is from. Sends of two ranks end in turn. */
static void a_recv_without_a_peer_finds_its_send(void **state)
{
    const int32_t members[] = {0, 1, 2};
    struct rig rig = {0};
    (void)state;
    for (int32_t rank = 0; rank < 3; rank++) {
        rig_rank(&rig, rank, "n1");
        assert_int_equal(make_group(&rig.ranks[rank], "pp", members, 3), 0);
    }
    for (int64_t k = 0; k < 6; k++) {
        const size_t from = k % 2 == 0 ? 0 : 2;
        add_transfer(&rig, from, 1, (rs_ns[]){k * 100, k * 100 + 40, k * 100 - 10, k * 100 + 41},
                     64);
        rig.ranks[from].ops[rig.ranks[from].op_count - 1].group = 0;
        struct rs_comm_op *recv = &rig.ranks[1].ops[rig.ranks[1].op_count - 1];
        struct rs_comm_op *send = &rig.ranks[from].ops[rig.ranks[from].op_count - 1];
        send->flags = recv->flags = RS_OP_ON_DEVICE;
        recv->group = 0;
        recv->peer = -1;
        recv->bytes = -1;
    }
    rig_run(&rig, false);
    assert_int_equal(rig.analysis->op_count, 6);
    assert_int_equal(rig_matched(rig.analysis), 6);
    for (size_t i = 0; i < 6; i++) {
        const struct rs_job_op *op = &rig.analysis->ops[i];
        const struct rs_job_row *rows = &rig.analysis->rows[op->row_first];
        assert_int_equal(op->ranks_expected, 2);
        assert_int_equal(op->coverage, RS_COVERAGE_EXACT);
        const rs_ns ends[2] = {rig.ranks[rows[0].rank].ops[rows[0].op_index].end,
                               rig.ranks[rows[1].rank].ops[rows[1].op_index].end};
        assert_in_range(llabs(ends[0] - ends[1]), 0, 1 * US);
    }
    rig_fini(&rig);
}

/* ---- clocks -------------------------------------------------------------------------- */

static void move_clock(struct rs_summary *summary, rs_dur by)
{
    for (size_t i = 0; i < summary->op_count; i++) {
        summary->ops[i].start += by;
        summary->ops[i].end += by;
    }
}

static void hosts_are_matched_and_their_clocks_aligned(void **state)
{
    struct rig rig = {0};
    (void)state;
    for (int32_t rank = 0; rank < 4; rank++) {
        add_regular(&rig, rank, rank < 2 ? "n1" : "n2", rank == 2 ? 3 : 0, 20);
    }
    for (size_t s = 0; s < 4; s++) { /* order alone: 20 alike, but for irregular lengths between */
        for (size_t i = 0; i < rig.ranks[s].op_count; i++) {
            const rs_dur jitter = (rig.ranks[s].ops[i].bytes * 37 % 11) * 9 * US;
            rig.ranks[s].ops[i].start += jitter;
            rig.ranks[s].ops[i].end += jitter;
        }
    }
    move_clock(&rig.ranks[2], 123456789);
    move_clock(&rig.ranks[3], 123456789);
    hide_bytes(&rig);
    rig_run(&rig, false);
    show_bytes(&rig);
    assert_true(rig.analysis->one_clock && rig.analysis->clock_was_aligned);
    assert_int_equal(rig.analysis->op_count, 20);
    expect_pure(&rig);
    for (size_t s = 2; s < 4; s++) {
        const rs_dur off = rig.analysis->clocks[s].offset_ns - 123456789;
        assert_true(off <= rig.analysis->clocks[s].bound_ns &&
                    -off <= rig.analysis->clocks[s].bound_ns);
    }
    for (size_t i = 0; i < 20; i++) {
        const struct rs_job_op *op = &rig.analysis->ops[i];
        assert_true(op->has_wait);
        assert_int_equal(op->row_count, i < 3 ? 3 : 4);
    }
    rig_fini(&rig);
}

static void common_clock_can_be_assumed(void **state)
{
    struct rig rig = {0};
    (void)state;
    for (int32_t rank = 0; rank < 4; rank++) {
        add_regular(&rig, rank, rank < 2 ? "n1" : "n2", 0, 5);
    }
    rig_run(&rig, true);
    assert_true(rig.analysis->one_clock && rig.analysis->clock_was_assumed);
    assert_int_equal(rig.analysis->ops[0].last_rank, 3);
    assert_int_equal(rig_row(&rig, 0, 0)->wait, 21 * US);
    rig_fini(&rig);
}

static void clocks_of_unknown_hosts_are_measured(void **state)
{
    struct rig rig = {0};
    (void)state;
    for (int32_t rank = 0; rank < 4; rank++) {
        add_regular(&rig, rank, NULL, 0, 5);
    }
    rig_run(&rig, false);
    assert_true(rig.analysis->one_clock && !rig.analysis->clock_was_assumed);
    for (size_t s = 1; s < 4; s++) {
        assert_int_equal(rig.analysis->clocks[s].offset_ns, 0);
        assert_int_equal(rig.analysis->clocks[s].method, RS_CLOCK_ENDS);
    }
    rig_fini(&rig);
}

static void unknown_hosts_far_apart_are_aligned(void **state)
{
    struct rig rig = {0};
    (void)state;
    for (int32_t rank = 0; rank < 4; rank++) {
        add_regular(&rig, rank, NULL, 0, 5);
    }
    move_clock(&rig.ranks[1], 500 * 1000 * US);
    rig_run(&rig, false);
    assert_true(rig.analysis->one_clock && rig.analysis->clock_was_aligned);
    assert_int_equal(rig.analysis->op_count, 5);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(rig.analysis->ops[i].row_count, 4);
        assert_true(rig.analysis->ops[i].has_wait);
    }
    const rs_dur off = rig.analysis->clocks[1].offset_ns - 500 * 1000 * US;
    assert_true(off <= rig.analysis->clocks[1].bound_ns &&
                -off <= rig.analysis->clocks[1].bound_ns);
    rig_fini(&rig);
}

static void rank_without_time_base_takes_no_part(void **state)
{
    struct rig rig = {0};
    (void)state;
    for (int32_t rank = 0; rank < 4; rank++) {
        add_regular(&rig, rank, "n1", 0, 5);
    }
    rig.ranks[2].trace.has_time_base = false;
    rig_run(&rig, false);
    assert_int_equal(rig.analysis->row_count, 15);
    assert_int_equal(rig.analysis->ops[0].coverage, RS_COVERAGE_PARTIAL);
    assert_false(rig.analysis->ranks[2].takes_part);
    rig_fini(&rig);
}

/* ---- order --------------------------------------------------------------------------- */

static void op_ids_follow_step_group_and_seq(void **state)
{
    struct rig rig = {0};
    static const int32_t two[] = {0, 1};
    (void)state;
    for (int32_t rank = 0; rank < 2; rank++) {
        struct rs_summary *summary = rig_rank(&rig, rank, "n1");
        const uint32_t b = make_group(summary, "b", two, 2), a = make_group(summary, "a", two, 2);
        for (int64_t k = 0; k < 4; k++) {
            struct rs_comm_op *op = regular(summary, RS_OP_ALL_REDUCE, k, rank);
            op->group = k % 2 ? a : b;
            op->step = k / 2;
        }
        if (rank == 1) {
            make_op(summary, RS_OP_UNKNOWN, 9999 * US, 99999 * US)->step = 1;
        }
    }
    rig_run(&rig, false);
    static const char *const groups[] = {"a", "b", "", "a", "b"};
    static const int64_t steps[] = {0, 0, 1, 1, 1}, seqs[] = {0, 0, -1, 1, 1};
    assert_int_equal(rig.analysis->op_count, 5);
    for (size_t i = 0; i < 5; i++) {
        assert_string_equal(rig_group(rig.analysis, i), groups[i]);
        assert_int_equal(rig.analysis->ops[i].step, steps[i]);
        assert_int_equal(rig.analysis->ops[i].seq, seqs[i]);
    }
    rig_fini(&rig);
}

static void two_summaries_of_a_rank_are_refused(void **state)
{
    struct rig rig = {0};
    struct rs_err err = {0};
    const struct rs_analysis_options options = {0};
    (void)state;
    rig_rank(&rig, 3, "n1");
    rig_rank(&rig, 3, "n1");
    assert_status(rs_analysis_new(rig.lent, 2, &options, &rig.analysis, &err), RS_INVALID);
    assert_null(rig.analysis);
    rig_fini(&rig);
}

static size_t allocations_left;

static bool allow(void)
{
    return allocations_left > 0 && allocations_left-- > 0;
}

/* Every single allocation fails once: RS_NOMEM each time, nothing leaks (the sanitizers watch). */
static void failing_memory_is_a_status(void **state)
{
    struct rig rig = {0};
    const struct rs_analysis_options options = {0};
    (void)state;
    for (int32_t rank = 0; rank < 4; rank++) {
        add_gloo_rank(&rig, rank, 2);
        make_step(&rig.ranks[rank], 0, 0, 1000 * US);
        make_step(&rig.ranks[rank], 1, 1000 * US, 2000 * US);
    }
    add_transfer(&rig, 0, 1, (rs_ns[]){600, 610, 605, 612}, 64);
    for (int32_t rank = 0; rank < 4; rank++) { /* a batch with both neighbours of a ring */
        struct rs_comm_op *op =
            make_op(&rig.ranks[rank], RS_OP_SEND_RECV, (700 + rank) * US, 720 * US);
        op->flags = RS_OP_IS_BATCH | RS_OP_ON_DEVICE;
        make_task(&rig.ranks[rank], &(struct rs_comm_task){.src = -1,
                                                           .dst = (rank + 1) % 4,
                                                           .is_send = true,
                                                           .bytes = 64,
                                                           .transport = RS_STR_NONE});
        make_task(&rig.ranks[rank],
                  &(struct rs_comm_task){
                      .src = (rank + 3) % 4, .dst = -1, .bytes = 64, .transport = RS_STR_NONE});
    }
    enum rs_status status = RS_NOMEM;
    for (size_t k = 0; status != RS_OK; k++) {
        assert_in_range(k, 0, 5000);
        allocations_left = k;
        rs_mem_set_gate(allow);
        status = rs_analysis_new(rig.lent, rig.count, &options, &rig.analysis, NULL);
        rs_mem_set_gate(NULL);
        assert_true(status == RS_OK || status == RS_NOMEM);
        assert_true((status == RS_OK) == (rig.analysis != NULL));
    }
    bool has_ring = false;
    for (size_t i = 0; i < rig.analysis->op_count; i++) {
        const struct rs_job_op *op = &rig.analysis->ops[i];
        has_ring = has_ring || (op->type == RS_OP_SEND_RECV && op->row_count == 4);
    }
    assert_true(has_ring);
    rig_fini(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shift_is_found_by_feasibility),
        cmocka_unit_test(a_row_whose_call_was_lost_keeps_its_place),
        cmocka_unit_test(row_lost_in_the_middle_shifts_the_rest),
        cmocka_unit_test(ends_that_lie_apart_lose_no_pair),
        cmocka_unit_test(rows_alone_at_an_end_make_a_shift_or_nothing),
        cmocka_unit_test(equally_many_rows_may_begin_apart),
        cmocka_unit_test(whatever_is_lost_order_and_kind_are_kept),
        cmocka_unit_test(long_sequences_stay_together),
        cmocka_unit_test(sequence_numbers_come_first),
        cmocka_unit_test(comms_ids_do_without_order),
        cmocka_unit_test(constant_sequence_is_no_number),
        cmocka_unit_test(name_alone_is_no_identity),
        cmocka_unit_test(gloo_groups_are_inferred_from_time),
        cmocka_unit_test(two_gloo_threads_far_apart_are_one_group),
        cmocka_unit_test(what_two_ranks_lost_stands_in_order_for_a_third),
        cmocka_unit_test(a_file_with_two_rows_stands_as_the_others_do),
        cmocka_unit_test(inferred_group_takes_the_only_name),
        cmocka_unit_test(inferred_world_is_not_complete_when_ranks_are_missing),
        cmocka_unit_test(kernel_without_a_call_stays_alone),
        cmocka_unit_test(both_directions_are_pairs_of_their_own),
        cmocka_unit_test(pair_shift_is_found_by_ends),
        cmocka_unit_test(buffered_sends_keep_their_order),
        cmocka_unit_test(peer_within_an_unnamed_group),
        cmocka_unit_test(recv_before_its_send_is_no_pair),
        cmocka_unit_test(a_recv_without_a_peer_finds_its_send),
        cmocka_unit_test(hosts_are_matched_and_their_clocks_aligned),
        cmocka_unit_test(common_clock_can_be_assumed),
        cmocka_unit_test(clocks_of_unknown_hosts_are_measured),
        cmocka_unit_test(unknown_hosts_far_apart_are_aligned),
        cmocka_unit_test(rank_without_time_base_takes_no_part),
        cmocka_unit_test(op_ids_follow_step_group_and_seq),
        cmocka_unit_test(two_summaries_of_a_rank_are_refused),
        cmocka_unit_test(failing_memory_is_a_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
