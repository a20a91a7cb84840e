/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of history as lines. */
#include "aggregator/output/history.h"
#include "tests/support/rs_test.h"

#include <string.h>

static struct rs_row_history_hosts *add_host(struct rs_block *block, const char *name)
{
    struct rs_row_history_hosts *row = rs_block_add(block);
    assert_non_null(row);
    *row = (struct rs_row_history_hosts){.host = name, .runs = 3, .captures = 9};
    return row;
}

static void hosts_that_nobody_named_are_only_counted(void **state)
{
    (void)state;
    struct rs_block block = {.table = rs_history_def(RS_HISTORY_HOSTS)->table};
    struct rs_history_told told = {0};
    struct rs_buf buf = {0};
    struct rs_row_history_hosts *row = add_host(&block, "n1");
    row->runs_named = 2;
    row->captures_named = 7;
    row->last_capture = "c9";
    row->last_kind = "slow_rank";
    row = add_host(&block, "n2");
    row->runs_hinted = row->captures_hinted = 1;
    row->runs = 1;
    (void)add_host(&block, "n3");
    (void)add_host(&block, "n4");
    rs_history_hosts_text(&block, &told, &buf);
    assert_string_equal(
        rs_buf_text(&buf),
        "host n1 was named in 2 of 3 runs (7 of 9 captures), last in c9: slow_rank\n"
        "host n2 was hinted at in 1 of 1 run, and never named\n");
    assert_int_equal(told.quiet, 2);
    assert_int_equal(told.loud, 2);
    rs_block_fini(&block);
    rs_buf_fini(&buf);
}

static void captures_are_a_table_with_one_head(void **state)
{
    (void)state;
    struct rs_block block = {.table = rs_history_def(RS_HISTORY_CAPTURES)->table};
    struct rs_history_told told = {0};
    struct rs_buf buf = {0};
    struct rs_row_history_captures *row = rs_block_add(&block);
    assert_non_null(row);
    *row = (struct rs_row_history_captures){.created_ns = INT64_C(1767323045000000000),
                                            .capture = "c1",
                                            .run = "r1",
                                            .rows = "here",
                                            .step_ns = 1500000,
                                            .findings = 0};
    rs_history_captures_text(&block, &told, &buf);
    rs_history_captures_text(&block, &told, &buf);
    const char *text = rs_buf_text(&buf);
    assert_memory_equal(text, "ASKED FOR", 9);
    assert_null(strstr(text + 1, "ASKED FOR"));
    assert_non_null(strstr(text, "2026-01-02T03:04:05Z  c1"));
    assert_non_null(strstr(text, "1.500 ms  nobody is named\n"));
    rs_block_fini(&block);
    rs_buf_fini(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts_that_nobody_named_are_only_counted),
        cmocka_unit_test(captures_are_a_table_with_one_head),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
