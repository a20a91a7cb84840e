/* SPDX-License-Identifier: Apache-2.0 */
/* Instants as people read them. */
#include "common/base/time.h"

#include "tests/support/rs_test.h"

static void an_instant_is_a_day_and_a_time_of_utc(void **state)
{
    (void)state;
    char text[RS_TIME_TEXT_BYTES];
    rs_time_text(INT64_C(1767323045999999999), text);
    assert_string_equal(text, "2026-01-02T03:04:05Z");
    rs_time_text(1, text);
    assert_string_equal(text, "1970-01-01T00:00:00Z");
}

static void one_that_is_not_known_is_a_dash(void **state)
{
    (void)state;
    char text[RS_TIME_TEXT_BYTES];
    rs_time_text(0, text);
    assert_string_equal(text, "-");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_instant_is_a_day_and_a_time_of_utc),
        cmocka_unit_test(one_that_is_not_known_is_a_dash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
