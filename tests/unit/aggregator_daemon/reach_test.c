/* SPDX-License-Identifier: Apache-2.0 */
/* What others are told of the addresses that are served. */
#include "aggregator/daemon/reach.h"

#include "tests/support/rs_test.h"

static void every_address_becomes_the_hosts_name(void **state)
{
    (void)state;
    static const struct {
        const char *served, *told;
    } cases[] = {
        {"0.0.0.0:7070", "agg1:7070"},
        {"[::]:7070", "agg1:7070"},
        {"https://0.0.0.0:7443", "https://agg1:7443"},
        {"http://127.0.0.1:80", "http://127.0.0.1:80"},
        {"10.0.0.1:7070", "10.0.0.1:7070"},
        {"[fe80::1]:7070", "[fe80::1]:7070"},
        {"unix:/run/rankscope/aggregator.sock", "unix:/run/rankscope/aggregator.sock"},
        {"", ""},
    };
    char text[64];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_true(rs_reach_text(cases[i].served, "agg1", text, sizeof text));
        assert_string_equal(text, cases[i].told);
    }
    assert_false(rs_reach_text("0.0.0.0:7070", "a-name-that-is-too-long", text, 16));
}

static void what_others_can_reach_is_chosen(void **state)
{
    (void)state;
    static const char *const all[] = {"unix:/a.sock", "127.0.0.1:7070", "agg1:7070", "agg1:7071"};
    static const char *const local[] = {"unix:/a.sock", "127.0.0.1:7070", "[::1]:7070"};
    assert_int_equal(rs_reach_choose(all, 4), 2);
    assert_int_equal(rs_reach_choose(local, 3), 1);
    assert_int_equal(rs_reach_choose(local, 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_address_becomes_the_hosts_name),
        cmocka_unit_test(what_others_can_reach_is_chosen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
