/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/lib/clock_map.h"

#include "collector/lib/clock.h"
#include "tests/support/rs_test.h"

#include <stdlib.h>
#include <string.h>

/* A clock of 2.5 GHz that starts anywhere. */
static const uint64_t first[2] = {UINT64_C(0x0ffffff000000000),
                                  UINT64_C(0x0ffffff000000000) + 2500000};
static const rs_ns real[2] = {INT64_C(1760000000000000000), INT64_C(1760000000000000000) + 1000000};

static void a_steady_clock_is_converted_to_the_nanosecond(void **state)
{
    (void)state;
    static struct rs_clock_map map;
    assert_ok(rs_clock_map_from(&map, first, real));
    assert_int_equal(rs_clock_map_ns(&map, first[0]), real[0]);
    assert_int_equal(rs_clock_map_ns(&map, first[0] + 5),
                     real[0] + 2 - 1); /* 2 ns, cut: mult rounds down */
    assert_true(llabs(rs_clock_map_ns(&map, first[0] + 25000000000) - real[0] - 10000000000) <= 1);
    assert_true(llabs(rs_clock_map_ns(&map, first[0] - 2500) - real[0] + 1000) <= 1);
}

static void what_was_converted_once_stays_and_the_map_is_monotone(void **state)
{
    (void)state;
    static struct rs_clock_map map;
    assert_ok(rs_clock_map_from(&map, first, real));
    uint64_t probe = first[0] + 3000000000;
    rs_ns before = 0;
    uint64_t ticks = first[0];
    rs_ns now = real[0];
    rs_ns last = real[0];
    srand(3);
    for (int i = 0; i < 3000;
         i++) { /* past the table, with a clock that is 50 ppm off and read badly */
        ticks += 2500000000 + (uint64_t)(rand() % 1000000);
        now = real[0] + (rs_dur)((ticks - first[0]) / 5 * 2) +
              (rs_dur)((ticks - first[0]) / 5 * 2 / 20000) + rand() % 2000 - 1000;
        rs_clock_map_add(&map, ticks, now);
        rs_ns at = rs_clock_map_ns(&map, ticks);
        assert_true(at > last);
        assert_true(rs_clock_map_ns(&map, ticks + 1) >= at);
        last = at;
        if (i == 1) /* the instant has passed */
            before = rs_clock_map_ns(&map, probe);
        else if (i == 400)
            assert_int_equal(rs_clock_map_ns(&map, probe), before);
    }
    assert_int_equal(map.jump_ns, 0);
    assert_true(llabs(last - now) < 100000);
}

static void a_clock_that_is_set_does_not_bend_lengths(void **state)
{
    (void)state;
    static struct rs_clock_map map;
    assert_ok(rs_clock_map_from(&map, first, real));
    for (uint64_t s = 1; s <= 10; s++) {
        rs_dur jump = s >= 5 ? -3600 * (rs_dur)RS_NS_PER_S : 0;
        rs_clock_map_add(&map, first[0] + s * 2500000000u + 1000,
                         real[0] + (rs_dur)s * RS_NS_PER_S + 400 + jump);
    }
    rs_dur length = rs_clock_map_ns(&map, first[0] + 25000000000) - real[0];
    assert_true(llabs(length - 10 * (rs_dur)RS_NS_PER_S) < 1000);
    assert_true(llabs(map.jump_ns + 3600 * (rs_dur)RS_NS_PER_S) < 1000);
}

static void pairs_without_a_rate_are_refused(void **state)
{
    (void)state;
    static struct rs_clock_map map;
    const uint64_t still[2] = {5, 5};
    const uint64_t slow[2] = {5, 6};
    const rs_ns back[2] = {100, 50};
    assert_status(rs_clock_map_from(&map, still, real), RS_INVALID);
    assert_status(rs_clock_map_from(&map, first, back), RS_INVALID);
    assert_status(rs_clock_map_from(&map, slow, real), RS_INVALID);
}

static void the_clocks_of_this_machine_agree_with_the_time_of_day(void **state)
{
    (void)state;
    static struct rs_clock_map map;
    rankscope_priv_clock_init();
    const uint32_t kinds[] = {RS_CLOCK_MONOTONIC, rankscope_priv_clock_kind};
    for (size_t i = 0; i < 2; i++) {
        assert_ok(rs_clock_map_init(&map, kinds[i], NULL));
        uint64_t ticks = rs_clock_map_ticks_now(&map);
        assert_true(llabs(rs_clock_map_ns(&map, ticks) - rs_time_realtime()) < 10 * RS_NS_PER_MS);
    }
    assert_status(rs_clock_map_init(&map, 77, NULL), RS_NOTFOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_steady_clock_is_converted_to_the_nanosecond),
        cmocka_unit_test(what_was_converted_once_stays_and_the_map_is_monotone),
        cmocka_unit_test(a_clock_that_is_set_does_not_bend_lengths),
        cmocka_unit_test(pairs_without_a_rate_are_refused),
        cmocka_unit_test(the_clocks_of_this_machine_agree_with_the_time_of_day),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
