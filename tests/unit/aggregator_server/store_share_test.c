/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one identity keeps on the disk: others do not notice, and what is counted twice for a while is set right by the next look.
 */
#include "aggregator/server/store_share.h"

#include "tests/support/rs_test.h"

#include <string.h>

static void who_keeps_as_much_as_he_may_keeps_no_more(void **state)
{
    (void)state;
    struct store_shares shares = {.limit_bytes = 1000};
    struct rs_err err = {0};
    struct store_share *alice = store_share_of(&shares, "user/alice");
    struct store_share *node = store_share_of(&shares, "node/gpu-017");
    assert_non_null(alice);
    assert_ptr_equal(store_share_of(&shares, "user/alice"), alice);
    store_share_add(alice, 999);
    assert_ok(store_share_check(&shares, alice, &err));
    store_share_add(alice, 1);
    assert_status(store_share_check(&shares, alice, &err), RS_REFUSED);
    assert_non_null(strstr(err.text, "user/alice keeps"));
    assert_non_null(strstr(err.text, "--keep-bytes-each"));
    assert_ok(store_share_check(&shares, node, &err));
    store_shares_fini(&shares);
}

static void a_look_says_what_is_kept_and_what_is_stored_meanwhile_counts(void **state)
{
    (void)state;
    struct store_shares shares = {.limit_bytes = 1000};
    struct store_share *alice = store_share_of(&shares, "user/alice");
    store_share_add(alice, 900);
    store_shares_begin_look(&shares);
    store_share_add(alice, 200); /* while the look is under way */
    assert_status(store_share_check(&shares, alice, NULL), RS_REFUSED);
    store_share_count(alice, 300); /* the rest was removed */
    store_share_count(alice, 100);
    store_shares_end_look(&shares);
    assert_ok(store_share_check(&shares, alice, NULL)); /* 400, and 200 */
    store_share_add(alice, 400);
    assert_status(store_share_check(&shares, alice, NULL), RS_REFUSED);
    /* All of it was removed. */
    store_shares_begin_look(&shares);
    store_shares_end_look(&shares);
    assert_ok(store_share_check(&shares, alice, NULL));
    store_shares_fini(&shares);
}

static void without_a_limit_or_a_name_there_is_no_account(void **state)
{
    (void)state;
    struct store_shares none = {.limit_bytes = 0}, shares = {.limit_bytes = 1};
    assert_null(store_share_of(&none, "user/alice"));
    assert_null(store_share_of(&shares, ""));
    store_share_add(NULL, 5);
    store_share_count(NULL, 5);
    assert_ok(store_share_check(&none, NULL, NULL));
    store_shares_fini(&none);
    store_shares_fini(&shares);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_keeps_as_much_as_he_may_keeps_no_more),
        cmocka_unit_test(a_look_says_what_is_kept_and_what_is_stored_meanwhile_counts),
        cmocka_unit_test(without_a_limit_or_a_name_there_is_no_account),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
