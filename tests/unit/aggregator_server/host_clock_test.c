/* SPDX-License-Identifier: Apache-2.0 */
/* A host's clock from heartbeats: the best of the last samples, what it may be wrong by, clocks that are set, numbers that are none. */
#include "aggregator/server/host_clock.h"

#include "tests/support/rs_test.h"

static const rs_dur ms = RS_NS_PER_MS;
static const rs_dur drift = 500 * (rs_dur)RS_NS_PER_MS / 5000; /* of half a second */
static const rs_ns begin = 1700000000 * (rs_ns)RS_NS_PER_S;

/* A heartbeat of ours at `now`, on the way for `there`; the answer comes half a second later, on the way for `back`. */
static void beat(struct host_clock *clock, rs_ns now, rs_dur offset, rs_dur there, rs_dur back)
{
    const rs_ns t0 = begin + now;
    const rs_ns t3 = t0 + there + 500 * ms + back;
    host_clock_take(clock, t0, t0 + there + offset, t3 - back + offset, t3, now);
}

static void the_truth_is_within_the_bound_and_the_shortest_way_counts(void **state)
{
    (void)state;
    struct host_clock clock = {.count = 0};
    rs_dur offset = 1, bound = 1;
    assert_false(host_clock_offset(&clock, 0, &offset, &bound));
    assert_int_equal(offset, 0);
    assert_int_equal(bound, 0);
    const rs_dur truth = -2000 * ms;
    beat(&clock, 0, truth, 50 * ms, 10 * ms); /* 20 ms of it are not seen */
    assert_true(host_clock_offset(&clock, 0, &offset, &bound));
    assert_int_equal(offset, truth + 20 * ms);
    assert_int_equal(bound, 30 * ms + drift);
    beat(&clock, 1000 * ms, truth, 1 * ms, 1 * ms);
    beat(&clock, 2000 * ms, truth, 80 * ms, 1 * ms);
    assert_true(host_clock_offset(&clock, 2000 * ms, &offset, &bound));
    assert_int_equal(offset, truth);
    assert_int_equal(bound, 1 * ms + drift + 1000 * ms / 5000); /* older by a second */
}

static void a_clock_that_drifts_stays_within_the_bound(void **state)
{
    (void)state;
    struct host_clock clock = {.count = 0};
    for (int64_t at = 0; at < 600; at++) { /* 100 ppm; one way of ten is short */
        const rs_ns now = at * 500 * ms;
        const rs_dur truth = 2000 * ms + now / 10000;
        rs_dur offset = 0, bound = 0;
        beat(&clock, now, truth, at % 10 == 0 ? ms : 20 * ms, ms);
        assert_true(host_clock_offset(&clock, now, &offset, &bound));
        assert_true(offset - bound <= truth && truth <= offset + bound);
        assert_true(bound < 3 * ms);
    }
}

/* Over a way of 20 us a clock that gains 100 ppm has gained more when it answers two seconds later. */
static void a_clock_that_gains_more_than_the_way_takes_is_measured(void **state)
{
    (void)state;
    for (int64_t ppm = -200; ppm <= 200; ppm += 50) {
        struct host_clock clock = {.count = 0};
        const rs_dur way = 10000, stay = 2000 * ms, gained = stay / 1000000 * ppm;
        const rs_ns t1 = begin + way + 2000 * ms, t3 = begin + way + stay + way;
        host_clock_take(&clock, begin, t1, t1 + stay + gained, t3, 0);
        rs_dur offset = 0, bound = 0;
        assert_true(host_clock_offset(&clock, 0, &offset, &bound));
        const rs_dur truth = 2000 * ms + gained; /* when it answered */
        assert_true(offset - bound <= truth && truth <= offset + bound);
        assert_in_range(bound, 1, ms);
    }
    struct host_clock clock = {.count = 0}; /* no clock gains so much: it was set */
    const rs_ns t1 = begin + 1000;
    rs_dur offset = 0, bound = 0;
    host_clock_take(&clock, begin, t1, t1 + 2001 * ms, t1 + 2000 * ms + 1000, 0);
    assert_false(host_clock_offset(&clock, 0, &offset, &bound));
}

static void a_clock_that_was_set_is_measured_anew(void **state)
{
    (void)state;
    struct host_clock clock = {.count = 0};
    rs_dur offset = 0, bound = 0;
    for (int64_t at = 0; at < 20; at++)
        beat(&clock, at * 500 * ms, 0, ms / 10, ms / 10);
    beat(&clock, 10000 * ms, 3000 * ms, 5 * ms, 5 * ms);
    assert_true(host_clock_offset(&clock, 10000 * ms, &offset, &bound));
    assert_int_equal(offset, 3000 * ms);
    assert_int_equal(bound, 5 * ms + drift);
}

static void numbers_that_are_no_instants_are_left_unread(void **state)
{
    (void)state;
    struct host_clock clock = {.count = 0};
    rs_dur offset = 0, bound = 0;
    const rs_ns odd[] = {RS_NS_MIN, -1, 0, 1, RS_NS_MAX};
    for (size_t i = 0; i < 5; i++)
        for (size_t k = 0; k < 5; k++)
            host_clock_take(&clock, begin, odd[i], odd[k], begin + 500 * ms, 0);
    host_clock_take(&clock, 0, begin, begin, begin, 0);             /* no echo yet */
    host_clock_take(&clock, begin, begin, begin + 2, begin + 1, 0); /* it took less than nothing */
    const bool is_any = host_clock_offset(&clock, 0, &offset, &bound);
    assert_true(!is_any || bound >= 0);
    assert_true(offset > RS_NS_MIN / 2 && offset < RS_NS_MAX / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_truth_is_within_the_bound_and_the_shortest_way_counts),
        cmocka_unit_test(a_clock_that_drifts_stays_within_the_bound),
        cmocka_unit_test(a_clock_that_gains_more_than_the_way_takes_is_measured),
        cmocka_unit_test(a_clock_that_was_set_is_measured_anew),
        cmocka_unit_test(numbers_that_are_no_instants_are_left_unread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
