/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/counters.h"

#include "tests/support/rs_test.h"

#include <ctype.h>
#include <string.h>

/* What Prometheus asks of names, and the table of them. */
static void every_line_of_the_table_is_a_good_one(void **state)
{
    (void)state;
    for (unsigned i = 0; i < RS_COUNT_END; i++) {
        const struct rs_counter_info *info = rs_counter_info((enum rs_counter)i);
        const char *dot = strchr(info->name, '.');
        assert_non_null(dot);
        assert_null(strchr(dot + 1, '.'));
        for (const char *at = info->name; *at; at++)
            if (!islower((unsigned char)*at) && *at != '_' && *at != '.')
                fail_msg("%s: %c", info->name, *at);
        assert_true(strlen(info->name) <= 24); /* the column of the command */
        if (*info->unit && strcmp(info->unit, "bytes") != 0 && strcmp(info->unit, "seconds") != 0)
            fail_msg("%s: unit %s", info->name, info->unit);
        if (strstr(info->name, "_total") || strstr(info->name, "bytes"))
            fail_msg("%s: kind and unit are put behind the name by the printer", info->name);
        assert_true(strlen(info->help) > 10 && info->help[strlen(info->help) - 1] != '.');
        assert_int_equal(rs_counter_find(info->name), i); /* no name twice */
        assert_true(info->who >= 1 && info->who <= 3);
    }
    assert_int_equal(rs_counter_find("spool"), RS_COUNT_END);
}

static void counts_add_up_and_gauges_are_set(void **state)
{
    (void)state;
    const uint64_t before = rs_count_read(RS_COUNT_SERVER_LINKS);
    rs_count(RS_COUNT_SERVER_LINKS, 2);
    rs_count(RS_COUNT_SERVER_LINKS, 3);
    assert_int_equal(rs_count_read(RS_COUNT_SERVER_LINKS), before + 5);
    rs_count_set(RS_COUNT_SPOOL_HELD, 7);
    rs_count_set(RS_COUNT_SPOOL_HELD, 4);
    assert_int_equal(rs_count_read(RS_COUNT_SPOOL_HELD), 4);
    rs_count_process();
    assert_true(rs_count_read(RS_COUNT_PROCESS_RESIDENT) > 100000);
}

static void unknown_is_not_printed_and_labels_are_escaped(void **state)
{
    (void)state;
    struct rs_counter_set sets[2] = {
        {.daemon = "collector", .node = "a\"b\\c\nd", .instance = "0f"},
        {.daemon = "aggregator", .node = "", .instance = ""}};
    struct rs_buf buf = {0};
    sets[0].has[RS_COUNT_SPOOL_LOST_BYTES] = true;
    sets[0].values[RS_COUNT_SPOOL_LOST_BYTES] = 18446744073709551615u;
    sets[0].has[RS_COUNT_PROCESS_RESIDENT] = sets[1].has[RS_COUNT_PROCESS_RESIDENT] = true;
    sets[1].values[RS_COUNT_PROCESS_RESIDENT] = 4096;
    rs_counters_prometheus(sets, 2, &buf);
    assert_string_equal(
        rs_buf_text(&buf),
        "# HELP rankscope_spool_lost_bytes_total bytes that did not fit, or were given up.\n"
        "# TYPE rankscope_spool_lost_bytes_total counter\n"
        "rankscope_spool_lost_bytes_total{daemon=\"collector\",node=\"a\\\"b\\\\c\\nd\",collector=\"0f\"} "
        "18446744073709551615\n"
        "# HELP rankscope_process_resident_bytes memory of the daemon that is in use.\n"
        "# TYPE rankscope_process_resident_bytes gauge\n"
        "rankscope_process_resident_bytes{daemon=\"collector\",node=\"a\\\"b\\\\c\\nd\",collector=\"0f\"} 0\n"
        "rankscope_process_resident_bytes{daemon=\"aggregator\"} 4096\n");
    rs_buf_reset(&buf);
    rs_prometheus_label("run",
                        "b\xe4"
                        "d\xc3\xa4\xff",
                        &buf); /* one byte that is no UTF-8, and a scrape is lost */
    assert_string_equal(rs_buf_text(&buf), "run=\"b\\\\xE4d\xc3\xa4\\\\xFF\"");
    rs_buf_fini(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_line_of_the_table_is_a_good_one),
        cmocka_unit_test(counts_add_up_and_gauges_are_set),
        cmocka_unit_test(unknown_is_not_printed_and_labels_are_escaped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
