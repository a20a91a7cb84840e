/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Do the ranks move? A clock of its own: nothing here waits.
 */
#include "common/client/hang_watch.h"

#include "tests/support/rs_test.h"

static const rs_dur second = RS_NS_PER_S;

static rs_dur still(const struct rs_hang_steps *steps, rs_ns now, rs_dur *limit)
{
    return rs_hang_steps_still(steps, 10, 5 * second, now, limit);
}

static void nobody_tells_steps(void **state)
{
    (void)state;
    struct rs_hang_steps steps = {.items = NULL};
    rs_dur limit;
    assert_int_equal(still(&steps, 1000 * second, &limit), 0);
    assert_ok(rs_hang_steps_see(&steps, 0, -1, second, second));
    assert_int_equal(still(&steps, 1000 * second, &limit), 0);
    /* A step whose length nobody knows says nothing of what is long. */
    assert_ok(rs_hang_steps_see(&steps, 0, 7, 0, second));
    assert_int_equal(still(&steps, 1000 * second, &limit), 0);
    rs_hang_steps_fini(&steps);
}

static void one_rank_that_moves_is_no_hang(void **state)
{
    (void)state;
    struct rs_hang_steps steps = {.items = NULL};
    rs_dur limit;
    for (int64_t i = 0; i < 20; i++)
        for (uint32_t rank = 4; rank-- > 0;) /* in any order */
            if (rank == 2 || i < 5)
                assert_ok(rs_hang_steps_see(&steps, rank, i, second / 2, (100 + i) * second));
    assert_int_equal(steps.count, 4);
    assert_int_equal(still(&steps, 120 * second, &limit), second);
    assert_int_equal(limit, 5 * second);
    assert_true(still(&steps, 125 * second, &limit) > limit);
    /* Asked again and again without a step: the same. Then one moves. */
    assert_ok(rs_hang_steps_see(&steps, 2, 19, second / 2, 130 * second));
    assert_int_equal(still(&steps, 131 * second, &limit), 12 * second);
    assert_ok(rs_hang_steps_see(&steps, 0, 5, second / 2, 131 * second));
    assert_int_equal(still(&steps, 131 * second, &limit), 0);
    rs_hang_steps_fini(&steps);
}

static void long_steps_have_a_long_limit(void **state)
{
    (void)state;
    struct rs_hang_steps steps = {.items = NULL};
    rs_dur limit;
    assert_ok(rs_hang_steps_see(&steps, 0, 3, 60 * second, 100 * second));
    assert_ok(rs_hang_steps_see(&steps, 1, 3, 62 * second, 100 * second));
    assert_ok(rs_hang_steps_see(&steps, 2, 3, 2 * second, 100 * second));
    assert_int_equal(still(&steps, 400 * second, &limit), 300 * second);
    assert_int_equal(limit, 600 * second); /* ten times the median */
    /* Started again: a smaller step is a move, too. */
    assert_ok(rs_hang_steps_see(&steps, 0, 0, 0, 900 * second));
    assert_int_equal(still(&steps, 900 * second, &limit), 0);
    rs_hang_steps_fini(&steps);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_tells_steps),
        cmocka_unit_test(one_rank_that_moves_is_no_hang),
        cmocka_unit_test(long_steps_have_a_long_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
