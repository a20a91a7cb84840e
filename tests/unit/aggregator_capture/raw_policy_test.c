/* SPDX-License-Identifier: Apache-2.0 */
/* Whose raw data is wanted: the list that was written down says the same after a restart. */
#include "aggregator/capture/coord_priv.h"
#include "tests/support/rs_test.h"

#include <stdio.h>
#include <string.h>

static struct rs_coord_capture capture;

static bool wants(const char *raw, uint32_t rank)
{
    (void)snprintf(capture.raw, sizeof capture.raw, "%s", raw);
    return rs_coord_wants_raw(&capture, rank);
}

static void a_list_says_each_rank(void **state)
{
    (void)state;
    assert_true(wants("", 3)); /* captures of an earlier program */
    assert_true(wants("all", 3));
    assert_false(wants("none", 3));
    assert_true(wants("1,3-5", 1));
    assert_false(wants("1,3-5", 2));
    assert_true(wants("1,3-5", 3));
    assert_true(wants("1,3-5", 5));
    assert_false(wants("1,3-5", 6));
    assert_false(wants("10-19", 1));
}

static void what_is_no_list_holds_nothing_back(void **state)
{
    (void)state;
    assert_true(wants("?", 3));
    assert_true(wants("3;4", 4));
}

static void a_policy_is_checked_before_anything_begins(void **state)
{
    (void)state;
    struct rs_err err = {0};
    assert_ok(rs_coord_check_raw("all", &err));
    assert_ok(rs_coord_check_raw("none", &err));
    assert_ok(rs_coord_check_raw("ranks 0,3-7", &err));
    assert_ok(rs_coord_check_raw("tp=0 & pp=last", &err));
    assert_status(rs_coord_check_raw("ranks 0,,3", &err), RS_INVALID);
    assert_status(rs_coord_check_raw("some", &err), RS_INVALID);
}

static void an_expression_becomes_the_list_of_its_ranks(void **state)
{
    (void)state;
    struct rs_rank_row rows[8];
    for (uint32_t i = 0; i < 8; i++)
        rows[i] = (struct rs_rank_row){
            .rank = i, .node = i < 4 ? "a" : "b", .role = {-1, -1, -1, -1, -1}};
    assert_ok(raw_policy_set(&capture, "ranks node=b", rows, 8, NULL));
    assert_string_equal(capture.raw, "4-7");
    assert_ok(raw_policy_set(&capture, "1,2,6", rows, 8, NULL));
    assert_string_equal(capture.raw, "1,2,6");
    assert_ok(raw_policy_set(&capture, "node=c", rows, 8, NULL));
    assert_string_equal(capture.raw, "none"); /* nobody is on it */
    assert_ok(raw_policy_set(&capture, NULL, rows, 8, NULL));
    assert_string_equal(capture.raw, "all");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_says_each_rank),
        cmocka_unit_test(what_is_no_list_holds_nothing_back),
        cmocka_unit_test(a_policy_is_checked_before_anything_begins),
        cmocka_unit_test(an_expression_becomes_the_list_of_its_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
