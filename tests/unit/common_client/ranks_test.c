/* SPDX-License-Identifier: Apache-2.0 */
/* Which ranks of the live table an expression means. */
#include "common/client/ranks.h"

#include "common/base/mem.h"
#include "tests/support/rs_test.h"

#include <stdio.h>
#include <string.h>

enum { RANKS = 6 };

static Rankscope__RankState states[RANKS];
static char a[] = "a", b[] = "b";
static char lines[512];

/* Four ranks of run "a", two of run "b". */
static struct rs_client_ranks make(void)
{
    struct rs_client_ranks ranks = {.count = RANKS};
    ranks.items = rs_mem_calloc(RANKS, sizeof(Rankscope__RankState *));
    assert_non_null(ranks.items);
    for (uint32_t i = 0; i < RANKS; i++) {
        rankscope__rank_state__init(&states[i]);
        states[i].run = i < 4 ? a : b;
        states[i].rank = i < 4 ? i : i - 4;
        ranks.items[i] = &states[i];
    }
    lines[0] = '\0';
    return ranks;
}

static void take(void *self, const char *line)
{
    (void)self;
    const size_t used = strlen(lines);
    (void)snprintf(lines + used, sizeof lines - used, "%s\n", line);
}

static enum rs_status choose(struct rs_client_ranks *ranks, const char *text, const char *roles)
{
    struct rs_rank_expr *expr = NULL;
    struct rs_buf buf = {0};
    rs_buf_string(&buf, roles);
    assert_ok(rs_rank_expr_parse(text, strlen(text), &expr, NULL));
    const enum rs_status status = rs_client_ranks_choose(ranks, expr, &buf, take, NULL, NULL);
    rs_rank_expr_free(&expr);
    rs_buf_fini(&buf);
    return status;
}

static void it_is_asked_of_each_run(void **state)
{
    (void)state;
    struct rs_client_ranks ranks = make();
    assert_ok(choose(&ranks, "0-1", ""));
    assert_int_equal(ranks.count, 4);
    assert_ptr_equal(ranks.items[0], &states[0]);
    assert_ptr_equal(ranks.items[1], &states[1]);
    assert_ptr_equal(ranks.items[2], &states[4]);
    assert_ptr_equal(ranks.items[3], &states[5]);
    assert_string_equal(lines, "");
    rs_client_ranks_fini(&ranks);
}

static void who_is_named_and_not_there_is_told(void **state)
{
    (void)state;
    struct rs_client_ranks ranks = make();
    assert_status(choose(&ranks, "1,3", ""), RS_PARTIAL);
    assert_int_equal(ranks.count, 3);
    assert_string_equal(lines, "run b has no rank 3\n");
    rs_client_ranks_fini(&ranks);
}

static void roles_of_a_file_count(void **state)
{
    (void)state;
    struct rs_client_ranks ranks = make();
    ranks.count = 4;
    assert_ok(
        choose(&ranks, "tp=1",
               "{\"0\": {\"tp\": 0}, \"1\": {\"tp\": 0}, \"2\": {\"tp\": 1}, \"3\": {\"tp\": 0}}"));
    assert_int_equal(ranks.count, 1);
    assert_ptr_equal(ranks.items[0], &states[2]);
    rs_client_ranks_fini(&ranks);
}

static void nobody_is_chosen_of_nobody(void **state)
{
    (void)state;
    struct rs_client_ranks ranks = make();
    ranks.count = 0;
    assert_ok(choose(&ranks, "0", ""));
    assert_int_equal(ranks.count, 0);
    rs_client_ranks_fini(&ranks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_asked_of_each_run),
        cmocka_unit_test(who_is_named_and_not_there_is_told),
        cmocka_unit_test(roles_of_a_file_count),
        cmocka_unit_test(nobody_is_chosen_of_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
