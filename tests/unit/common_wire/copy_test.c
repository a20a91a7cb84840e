/* SPDX-License-Identifier: Apache-2.0 */
/* A copy of a message that is lent. */
#include "common/wire/copy.h"

#include "proto/rankscope.pb-c.h"
#include "tests/support/rs_test.h"

#include <string.h>

static void a_copy_outlives_the_message(void **state)
{
    (void)state;
    char run[] = "r1", host[] = "n1";
    Rankscope__RankState rank = RANKSCOPE__RANK_STATE__INIT;
    Rankscope__RankState *items[] = {&rank};
    Rankscope__RankTable table = RANKSCOPE__RANK_TABLE__INIT;
    rank.run = run;
    rank.host = host;
    rank.rank = 7;
    table.ranks = items;
    table.n_ranks = 1;
    Rankscope__RankTable *copy = (Rankscope__RankTable *)rs_wire_copy(&table.base);
    assert_non_null(copy);
    memset(run, 'x', 2);
    memset(&rank, 0, sizeof rank);
    assert_int_equal(copy->n_ranks, 1);
    assert_string_equal(copy->ranks[0]->run, "r1");
    assert_int_equal(copy->ranks[0]->rank, 7);
    rankscope__rank_table__free_unpacked(copy, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_copy_outlives_the_message)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
