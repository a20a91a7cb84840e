/* SPDX-License-Identifier: Apache-2.0 */
/* Which aggregator of its list a collector goes to, and that it goes nowhere else. */
#include "collector/agent/aggregators.h"

#include "tests/support/rs_test.h"

#include <stdio.h>
#include <string.h>

static const rs_ns second = RS_NS_PER_S;

static struct rs_aggregators parse(const char *text)
{
    struct rs_aggregators list;
    assert_ok(rs_aggregators_parse(text, &list, NULL));
    return list;
}

static bool welcome(struct rs_aggregators *list, const char *id, const char *go_to)
{
    char own[40], to[160];
    Rankscope__Welcome message = RANKSCOPE__WELCOME__INIT;
    (void)snprintf(own, sizeof own, "%s", id);
    (void)snprintf(to, sizeof to, "%s", go_to);
    message.aggregator = own;
    message.go_to = to;
    return rs_aggregators_welcome(list, &message);
}

static void a_list_is_parsed_and_checked(void **state)
{
    (void)state;
    struct rs_aggregators list = parse("unix:/run/a,unix:/run/b,unix:/run/c");
    struct rs_err err = {0};
    assert_int_equal(list.count, 3);
    assert_string_equal(rs_aggregators_address(&list)->text, "unix:/run/a");
    list = parse("unix:/run/a");
    assert_int_equal(list.count, 1);
    static const char nine[] =
        "unix:/1,unix:/2,unix:/3,unix:/4,unix:/5,unix:/6,unix:/7,unix:/8,unix:/9";
    static const char *const bad[] = {"unix:/run/a,", ",unix:/run/a", "unix:/run/a,unix:/run/a",
                                      "unix:/run/a,nowhere", nine};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(rs_aggregators_parse(bad[i], &list, &err), RS_INVALID);
}

static void one_that_is_away_is_followed_by_the_next_and_rounds_end(void **state)
{
    (void)state;
    struct rs_aggregators list = parse("unix:/run/a,unix:/run/b");
    assert_true(rs_aggregators_away(&list, second));
    assert_string_equal(rs_aggregators_address(&list)->text, "unix:/run/b");
    assert_true(rs_aggregators_away(&list, second));
    assert_string_equal(rs_aggregators_address(&list)->text, "unix:/run/a");
    unsigned at_once = 2;
    while (rs_aggregators_away(&list, second))
        at_once++;
    assert_int_equal(at_once, 3); /* two rounds, then a pause */
    struct rs_aggregators alone = parse("unix:/run/a");
    assert_false(rs_aggregators_away(&alone, second));
}

static void it_goes_where_it_is_sent_within_its_list(void **state)
{
    (void)state;
    struct rs_aggregators list = parse("unix:/run/a,unix:/run/b");
    assert_true(rs_aggregators_away(&list, second));
    assert_false(welcome(&list, "b0", "unix:/run/a"));
    assert_string_equal(rs_aggregators_address(&list)->text, "unix:/run/a");
    assert_true(rs_aggregators_away(&list, second)); /* it was sent, and is there now */
    assert_string_equal(rs_aggregators_address(&list)->text, "unix:/run/a");
    assert_true(welcome(&list, "a0", "evil.example:7070"));
    assert_true(welcome(&list, "a0", "unix:/run/a"));
    rs_aggregators_goodbye(&list, "evil.example:7070");
    assert_string_equal(rs_aggregators_address(&list)->text, "unix:/run/a");
    assert_int_equal(rs_aggregators_find(&list, "b0", ""), 2);
    assert_int_equal(rs_aggregators_find(&list, "", "unix:/run/a"), 1);
    assert_int_equal(rs_aggregators_find(&list, "c0", "unix:/run/c"), 0);
    assert_int_equal(rs_aggregators_find(&list, "", ""), 0);
}

static void sent_back_and_forth_it_pauses(void **state)
{
    (void)state;
    struct rs_aggregators list = parse("unix:/run/a,unix:/run/b");
    unsigned connects = 1;
    bool at_once = rs_aggregators_away(&list, second);
    while (at_once && connects < 100) { /* b says that a lives, and a is not there */
        connects++;
        if (list.at == 1)
            assert_false(welcome(&list, "b0", "unix:/run/a"));
        at_once = rs_aggregators_away(&list, second);
    }
    assert_int_equal(connects, 4);
}

static void who_is_not_reached_for_long_is_told(void **state)
{
    (void)state;
    struct rs_aggregators list = parse("unix:/run/a,unix:/run/b");
    Rankscope__Hello hello = RANKSCOPE__HELLO__INIT;
    (void)rs_aggregators_away(&list, second);
    rs_aggregators_hello(&list, &hello, 30 * second);
    assert_int_equal(hello.n_aggregators, 2);
    assert_false(hello.aggregators[0]->is_unreached);
    assert_true(hello.aggregators[1]->is_this);
    rs_aggregators_hello(&list, &hello, 32 * second);
    assert_true(hello.aggregators[0]->is_unreached);
    assert_false(hello.aggregators[1]->is_unreached);
    list.at = 0;
    assert_true(welcome(&list, "a0", ""));
    rs_aggregators_hello(&list, &hello, 33 * second);
    assert_false(hello.aggregators[0]->is_unreached);
    assert_string_equal(hello.aggregators[0]->id, "a0");
    struct rs_aggregators alone = parse("unix:/run/a");
    Rankscope__Hello nobody = RANKSCOPE__HELLO__INIT;
    rs_aggregators_hello(&alone, &nobody, second);
    assert_int_equal(nobody.n_aggregators, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_is_parsed_and_checked),
        cmocka_unit_test(one_that_is_away_is_followed_by_the_next_and_rounds_end),
        cmocka_unit_test(it_goes_where_it_is_sent_within_its_list),
        cmocka_unit_test(sent_back_and_forth_it_pauses),
        cmocka_unit_test(who_is_not_reached_for_long_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
