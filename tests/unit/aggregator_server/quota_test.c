/* SPDX-License-Identifier: Apache-2.0 */
/* Accounts of identities: shared by links of the same name, filled again by time, and a share of the queue while others want it. */
#include "aggregator/server/quota.h"

#include "aggregator/server/bounds.h"
#include "tests/support/rs_test.h"

#include <string.h>

static const struct rs_identity alice = {.party = RS_PARTY_USER, .name = "alice"};
static const struct rs_identity bob = {.party = RS_PARTY_USER, .name = "bob"};
static const struct rs_identity root = {.party = RS_PARTY_LOCAL, .name = "root"};
static const struct quota_limits few = {
    .most = {[QUOTA_LINKS] = 2, [QUOTA_STREAMS] = 1, [QUOTA_RANKS] = 2}, .bytes_per_s = 1000};

static void links_of_one_name_share_an_account(void **state)
{
    struct quotas quotas = {.limits = &few};
    struct quota *one = NULL, *two = NULL, *other = NULL;
    struct rs_err err = {0};
    (void)state;
    assert_ok(quota_open(&quotas, &alice, 1, &one, NULL));
    assert_ok(quota_open(&quotas, &alice, 1, &two, NULL));
    assert_ptr_equal(one, two);
    assert_status(quota_open(&quotas, &alice, 1, &two, &err), RS_LIMIT);
    assert_non_null(strstr(err.text, "user/alice has 2 links"));
    assert_ok(quota_open(&quotas, &bob, 1, &other, NULL));
    assert_ok(quota_take(one, QUOTA_STREAMS, 1, NULL));
    assert_status(quota_take(one, QUOTA_STREAMS, 1, NULL), RS_LIMIT);
    assert_ok(quota_take(other, QUOTA_STREAMS, 1, NULL));
    quota_give(one, QUOTA_STREAMS);
    assert_ok(quota_take(one, QUOTA_STREAMS, 1, NULL));
    quota_close(one, 2);
    assert_ok(quota_open(&quotas, &alice, 3, &one, NULL));
    quotas_fini(&quotas);
}

static void what_is_per_minute_comes_back_and_leaving_does_not_bring_it(void **state)
{
    struct quotas quotas = {.limits = &few};
    struct quota *quota = NULL;
    const rs_ns minute = 60 * (rs_ns)RS_NS_PER_S;
    (void)state;
    assert_ok(quota_open(&quotas, &alice, 1, &quota, NULL));
    assert_ok(quota_take(quota, QUOTA_RANKS, 1, NULL));
    assert_ok(quota_take(quota, QUOTA_RANKS, 1, NULL));
    assert_status(quota_take(quota, QUOTA_RANKS, 1, NULL), RS_LIMIT);
    quota_close(quota, 2);
    quotas_sweep(&quotas, 3);
    assert_ok(quota_open(&quotas, &alice, 4, &quota, NULL));
    assert_status(quota_take(quota, QUOTA_RANKS, 4, NULL), RS_LIMIT);
    assert_ok(quota_take(quota, QUOTA_RANKS, 2 + minute, NULL));
    quota_close(quota, minute);
    quotas_sweep(&quotas, 3 * minute);
    assert_null(quotas.first);
}

static void bytes_make_a_link_wait(void **state)
{
    struct quotas quotas = {.limits = &few};
    struct quota *quota = NULL;
    (void)state;
    assert_ok(quota_open(&quotas, &alice, 0, &quota, NULL));
    assert_true(quota_may_read(&quotas, quota, 0));
    quota_put(&quotas, quota, 1500, 0);
    assert_false(quota_may_read(&quotas, quota, 0));
    assert_false(quota_may_read(&quotas, quota, RS_NS_PER_S / 4));
    assert_true(quota_may_read(&quotas, quota, 3 * (rs_ns)RS_NS_PER_S / 4));
    quota_done(&quotas, quota, 1500, RS_NS_PER_S);
    quotas_fini(&quotas);
}

static void the_queue_is_shared_while_others_send(void **state)
{
    struct quotas quotas = {.first = NULL};
    struct quota *greedy = NULL, *other = NULL;
    (void)state;
    /* of local links each is one of many: they share nothing but the queue */
    assert_ok(quota_open(&quotas, &root, 0, &greedy, NULL));
    assert_ok(quota_open(&quotas, &root, 0, &other, NULL));
    assert_ptr_not_equal(greedy, other);
    quota_put(&quotas, greedy, 2 * BOUND_SHARE_BYTES, 0);
    assert_true(quota_may_read(&quotas, greedy, 0));
    quota_put(&quotas, other, 2 * BOUND_SHARE_BYTES, 1);
    assert_false(quota_may_read(&quotas, greedy, 1));
    quota_done(&quotas, other, BOUND_SHARE_BYTES + 1, 1);
    assert_true(quota_may_read(&quotas, other, 1));
    quota_done(&quotas, greedy, BOUND_SHARE_BYTES + 1, 1);
    assert_true(quota_may_read(&quotas, greedy, 1));
    quota_put(&quotas, greedy, BOUND_SHARE_BYTES, 1);
    assert_false(quota_may_read(&quotas, greedy, 1));
    assert_true(quota_may_read(&quotas, greedy, 2 + RS_NS_PER_S)); /* nobody else does any more */
    quotas_fini(&quotas);
}

/* Beside one that has little under way, whoever has much has one chunk: what it has under way is waited for, too. */
static void a_greedy_one_has_no_more_under_way_than_the_others(void **state)
{
    enum { CHUNK = 256 * 1024, SMALL = 64 * 1024 };
    struct quotas quotas = {.first = NULL};
    struct quota *greedy = NULL, *polite = NULL;
    (void)state;
    assert_ok(quota_open(&quotas, &root, 0, &greedy, NULL));
    assert_ok(quota_open(&quotas, &root, 0, &polite, NULL));
    rs_ns now = RS_NS_PER_S;
    quota_put(&quotas, greedy, CHUNK, now);
    quota_put(&quotas, greedy, CHUNK, now);
    quota_put(&quotas, polite, SMALL, now);
    for (int turn = 0; turn < 30; turn++, now += RS_NS_PER_S / 10) {
        assert_false(quota_may_read(&quotas, greedy, now));
        quota_done(&quotas, polite, SMALL, now);
        assert_true(quota_may_read(&quotas, polite, now)); /* it waits for nobody */
        quota_put(&quotas, polite, SMALL, now);
        quota_done(&quotas, greedy, CHUNK, now);
        /* it rests for a while, see below */
        assert_int_equal(quota_may_read(&quotas, greedy, now + RS_NS_PER_S / 25 * 2), turn > 0);
        if (turn > 0)
            quota_put(&quotas, greedy, CHUNK, now);
    }
    /* the other wants more: they have it both */
    for (int turn = 1; turn < 4; turn++) {
        assert_true(quota_may_read(&quotas, polite, now) || turn > 2);
        quota_put(&quotas, polite, CHUNK, now);
        assert_true(quota_may_read(&quotas, greedy, now));
        quota_put(&quotas, greedy, CHUNK, now);
    }
    quotas_fini(&quotas);
}

/* While the disk is busy with its chunk nobody else's is written: it leaves the disk to the others for about as long. */
static void who_sends_more_than_the_others_rests_after_each_chunk(void **state)
{
    enum { CHUNK = 256 * 1024, SMALL = 16 * 1024 };
    const rs_dur ms = RS_NS_PER_MS;
    struct quotas quotas = {.first = NULL};
    struct quota *greedy = NULL, *polite = NULL;
    (void)state;
    assert_ok(quota_open(&quotas, &root, 0, &greedy, NULL));
    assert_ok(quota_open(&quotas, &root, 0, &polite, NULL));
    rs_ns now = RS_NS_PER_S;
    quota_put(&quotas, greedy, CHUNK, now);
    quota_done(&quotas, greedy, CHUNK, now + 4 * ms);
    assert_true(quota_may_read(&quotas, greedy, now + 4 * ms)); /* nobody else sends */
    quota_put(&quotas, polite, SMALL, now + 4 * ms);
    quota_put(&quotas, greedy, CHUNK, now + 5 * ms);
    quota_done(&quotas, polite, SMALL, now + 6 * ms);
    quota_done(&quotas, greedy, CHUNK, now + 9 * ms); /* it took 4 ms */
    assert_int_equal(quota_rests_until(&quotas, polite, now + 9 * ms), 0);
    assert_true(quota_may_read(&quotas, polite, now + 9 * ms));
    const rs_ns until = quota_rests_until(&quotas, greedy, now + 9 * ms);
    assert_in_range(until - now, 14 * ms, 15 * ms);
    assert_false(quota_may_read(&quotas, greedy, until - 1));
    assert_true(quota_may_read(&quotas, greedy, until));
    /* A disk that stands still is not its doing; and who sends as much as the other rests for nothing. */
    quota_put(&quotas, greedy, CHUNK, until);
    quota_put(&quotas, polite, SMALL, until + 900 * ms);
    quota_done(&quotas, greedy, CHUNK, until + 900 * ms);
    assert_in_range(quota_rests_until(&quotas, greedy, until + 900 * ms), until + 900 * ms,
                    until + 975 * ms);
    for (int i = 0; i < 8; i++)
        quota_put(&quotas, polite, CHUNK, until + 1000 * ms);
    quota_put(&quotas, greedy, CHUNK, until + 1000 * ms);
    quota_done(&quotas, greedy, CHUNK, until + 1004 * ms);
    assert_int_equal(quota_rests_until(&quotas, greedy, until + 1004 * ms), 0);
    quotas_fini(&quotas);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(links_of_one_name_share_an_account),
        cmocka_unit_test(what_is_per_minute_comes_back_and_leaving_does_not_bring_it),
        cmocka_unit_test(bytes_make_a_link_wait),
        cmocka_unit_test(the_queue_is_shared_while_others_send),
        cmocka_unit_test(a_greedy_one_has_no_more_under_way_than_the_others),
        cmocka_unit_test(who_sends_more_than_the_others_rests_after_each_chunk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
