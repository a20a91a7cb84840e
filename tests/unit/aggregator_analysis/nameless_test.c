/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations on devices of many ranks whose group no file names. Groups of one size that call side by side end so close to each other
 * that every rank pairs up with every other: what of it is one group has to be seen from who ended with whom, however many
 * ranks there are. No pair is better than a wrong one.
 */
#include "aggregator/analysis/analysis.h"
#include "common/base/time.h"
#include "tests/support/make_summary.h"
#include "tests/support/rs_test.h"

#include <stdio.h>
#include <stdlib.h>

enum { RANKS = 1024, OPS = 40, US = 1000 };

static struct rs_summary summaries[RANKS];
static const struct rs_summary *lent[RANKS];
static uint32_t group_of[RANKS]; /* by rank: the truth */

enum { NOBODY_MISSES = -1 };

/* Group g is ready g * apart later than the first. Each member waits for the last of its group, and all
 * of them end up to 1 us apart. */
static size_t make_job(int32_t ranks, rs_dur apart, int32_t missing)
{
    static rs_ns starts[RANKS];
    size_t given = 0;
    uint64_t random = 4711;
    for (int32_t rank = 0; rank < ranks; rank++) {
        make_summary_init(&summaries[rank], rank, "n1");
        summaries[rank].trace.world_size = ranks;
        if (rank != missing) {
            lent[given++] = &summaries[rank];
        }
    }
    for (size_t k = 0; k < OPS; k++) {
        rs_ns last[RANKS] = {0};
        for (int32_t rank = 0; rank < ranks; rank++) {
            const uint32_t g = group_of[rank];
            const rs_ns ready = (rs_ns)(k + 1) * 10000 * US + (rs_ns)g * apart;
            starts[rank] = ready + make_random_range(&random, 0, (100 + ranks) * US);
            last[g] = starts[rank] > last[g] ? starts[rank] : last[g];
        }
        for (int32_t rank = 0; rank < ranks; rank++) {
            const rs_ns end = last[group_of[rank]] + 50 * US + make_random_range(&random, 0, US);
            struct rs_comm_op *op = make_op(&summaries[rank], RS_OP_ALL_REDUCE, starts[rank], end);
            op->flags = RS_OP_ON_DEVICE;
            op->device = 0;
            op->stream = 7;
        }
    }
    return given;
}

struct counts {
    size_t whole, part, mixed; /* operations that are all of a group, some of it, not one */
};

static void count_op(const struct rs_analysis *analysis, const struct rs_job_op *op,
                     const size_t *sizes, struct counts *counts)
{
    const struct rs_job_row *first = &analysis->rows[op->row_first];
    for (size_t r = 0; r < op->row_count; r++) {
        if (group_of[first[r].rank] != group_of[first->rank]) {
            counts->mixed++;
            return;
        }
    }
    counts->whole += op->row_count == sizes[group_of[first->rank]];
    counts->part += op->row_count > 1 && op->row_count < sizes[group_of[first->rank]];
}

static struct counts analyse(int32_t ranks, size_t given)
{
    const struct rs_analysis_options options = {0};
    struct rs_analysis *analysis = NULL;
    struct counts counts = {0};
    size_t sizes[RANKS] = {0};
    assert_ok(rs_analysis_new(lent, given, &options, &analysis, NULL));
    for (size_t s = 0; s < given; s++) {
        sizes[group_of[lent[s]->trace.rank]]++;
    }
    for (size_t i = 0; i < analysis->op_count; i++) {
        count_op(analysis, &analysis->ops[i], sizes, &counts);
    }
    rs_analysis_free(&analysis);
    for (int32_t rank = 0; rank < ranks; rank++) {
        make_summary_fini(&summaries[rank]);
    }
    return counts;
}

static void interleave(int32_t ranks, uint32_t count)
{
    for (int32_t rank = 0; rank < ranks; rank++) {
        group_of[rank] = (uint32_t)rank % count;
    }
}

static void halves_of_any_number_of_ranks_are_two_groups(void **state)
{
    static const int32_t sizes[] = {32, 128, 144, 256, 1024};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        interleave(sizes[i], 2);
        const struct counts counts = analyse(sizes[i], make_job(sizes[i], 12 * US, NOBODY_MISSES));
        print_message("%d ranks: %zu whole, %zu in part, %zu mixed\n", (int)sizes[i], counts.whole,
                      counts.part, counts.mixed);
        assert_int_equal(counts.mixed, 0);
        assert_int_equal(counts.whole, 2 * OPS);
    }
}

/* Ranks that are laid out in no order, as where a scheduler places them. */
static void shuffle(int32_t ranks)
{
    uint64_t random = 3;
    for (int32_t i = ranks - 1; i > 0; i--) {
        const int64_t other = make_random_range(&random, 0, i);
        const uint32_t kept = group_of[i];
        group_of[i] = group_of[other];
        group_of[other] = kept;
    }
}

static void halves_in_no_order_are_two_groups(void **state)
{
    enum { SIZE = 256 };
    (void)state;
    interleave(SIZE, 2);
    shuffle(SIZE);
    const struct counts counts = analyse(SIZE, make_job(SIZE, 12 * US, NOBODY_MISSES));
    assert_int_equal(counts.mixed, 0);
    assert_int_equal(counts.whole, 2 * OPS);
}

/* 255 ranks are of no layout; that of the 256 of the world is looked at. */
static void halves_of_which_one_is_missing_are_not_mixed(void **state)
{
    (void)state;
    for (int32_t missing = 0; missing < 256; missing += 85) {
        interleave(256, 2);
        const struct counts counts = analyse(256, make_job(256, 12 * US, missing));
        assert_int_equal(counts.mixed, 0);
    }
}

/* They begin together and end as close as members of one do, as often one as the other later: nothing tells them apart. */
static void groups_that_end_together_are_not_mixed(void **state)
{
    static const int32_t sizes[] = {12, 32, 127, 128, 130, 256, 300};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (uint32_t count = 2; count < 5; count++) {
            for (int is_shuffled = 0; is_shuffled < 2; is_shuffled++) {
                interleave(sizes[i], count); /* of 127 not all are as large */
                if (is_shuffled) {
                    shuffle(sizes[i]);
                }
                const struct counts counts =
                    analyse(sizes[i], make_job(sizes[i], 0, NOBODY_MISSES));
                assert_int_equal(counts.mixed, 0);
            }
        }
    }
}

/* Blocks of 16 ranks belong to one and the other by turns. */
static void groups_of_blocks_are_told_apart(void **state)
{
    enum { SIZE = 256, GROUPS = 4 };
    (void)state;
    for (int32_t rank = 0; rank < SIZE; rank++) {
        group_of[rank] = (uint32_t)rank / 16 % GROUPS;
    }
    const struct counts counts = analyse(SIZE, make_job(SIZE, 6 * US, NOBODY_MISSES));
    print_message("%zu whole, %zu in part, %zu mixed\n", counts.whole, counts.part, counts.mixed);
    assert_int_equal(counts.mixed, 0);
    assert_int_equal(counts.whole, GROUPS * OPS);
}

/* The check asks for proof, and a group of any size can give it. */
static void one_group_of_any_number_of_ranks_is_one(void **state)
{
    static const int32_t sizes[] = {128, 256, 1000, 1024};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        interleave(sizes[i], 1);
        const struct counts counts = analyse(sizes[i], make_job(sizes[i], 0, NOBODY_MISSES));
        assert_int_equal(counts.whole, OPS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(halves_of_any_number_of_ranks_are_two_groups),
        cmocka_unit_test(halves_in_no_order_are_two_groups),
        cmocka_unit_test(halves_of_which_one_is_missing_are_not_mixed),
        cmocka_unit_test(groups_that_end_together_are_not_mixed),
        cmocka_unit_test(groups_of_blocks_are_told_apart),
        cmocka_unit_test(one_group_of_any_number_of_ranks_is_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
