/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of steps and ranks in a question: what they mean, what is none, and how many are too many.
 */
#include "common/request/numbers.h"

#include "tests/support/rs_test.h"

#include <string.h>

enum { MAX = 4 };

static void steps_are_read(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "", ",", "1,", ",1", "x", "1x", "1 2", "+1", "1,,2", "99999999999999999999", "1,2,3,4,5"};
    int64_t steps[MAX];
    size_t count = 9;
    struct rs_err err = {0};
    assert_int_equal(rs_numbers_of_steps(NULL, steps, MAX, &count, &err), RS_OK);
    assert_int_equal(count, 0U);
    assert_int_equal(rs_numbers_of_steps("12,-13", steps, MAX, &count, &err), RS_OK);
    assert_int_equal(count, 2U);
    assert_int_equal(steps[0], 12);
    assert_int_equal(steps[1], -13);
    assert_int_equal(rs_numbers_of_steps("1,2,3,4", steps, MAX, &count, &err), RS_OK);
    assert_int_equal(count, 4U);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(rs_numbers_of_steps(wrong[i], steps, MAX, &count, &err), RS_INVALID);
        assert_true(strlen(err.text) > 0);
    }
}

static void ranks_are_read(void **state)
{
    (void)state;
    static const char *const wrong[] = {"", "0-", "tp=0", "all", "0-4", "1,2,3,4,5", "node=a"};
    uint32_t ranks[MAX];
    size_t count = 9;
    struct rs_err err = {0};
    assert_int_equal(rs_numbers_of_ranks(NULL, ranks, MAX, &count, &err), RS_OK);
    assert_int_equal(count, 0U);
    assert_int_equal(rs_numbers_of_ranks("8,0-2", ranks, MAX, &count, &err), RS_OK);
    assert_int_equal(count, 4U);
    assert_int_equal(ranks[0], 0U);
    assert_int_equal(ranks[3], 8U);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(rs_numbers_of_ranks(wrong[i], ranks, MAX, &count, &err), RS_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_read),
        cmocka_unit_test(ranks_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
