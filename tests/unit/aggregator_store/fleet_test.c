/* SPDX-License-Identifier: Apache-2.0 */
/* Aggregators of one database: what its rows mean, and whose id a data folder has. With a real database: e2e_aggregators. */
#include "aggregator/store/fleet_priv.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "tests/support/rs_test.h"
#include "tests/support/tmp_dir.h"

#include <stdio.h>
#include <string.h>

#define A "aaaaaaaaaaaaaaaa"
#define B "bbbbbbbbbbbbbbbb"
/* of a process: id, instance, epoch, state, began, seen; asked at 1000 */
#define ROW(id, instance, epoch, state, began, seen)                                               \
    id "\t" instance "\t" epoch "\thost\thost:7070\t\t0.3.0\t12\t1\t" state "\t" began "\t" seen   \
       "\t1000\n"

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    tmp_dir_make(folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    tmp_dir_remove(folder);
    return 0;
}

static struct rs_fleet_list taken(const char *lines)
{
    struct rs_fleet_list list = {.count = 0};
    assert_ok(fleet_take(lines, &list, NULL));
    return list;
}

static void who_wrote_within_the_lease_lives(void **state)
{
    (void)state;
    struct rs_fleet_list list = taken(ROW(B, "p1", "3", "0", "500", "990") /**/
                                      ROW(A, "p2", "1", "0", "600", "989")
                                          ROW("cccccccccccccccc", "p3", "1", "1", "600", "999"));
    assert_int_equal(list.count, 3);
    assert_int_equal(list.now_ns, 1000 * (rs_ns)RS_NS_PER_S);
    assert_string_equal(list.items[0].id, A);
    assert_int_equal(list.items[0].state, RS_FLEET_GONE);
    assert_string_equal(list.items[1].id, B);
    assert_int_equal(list.items[1].state, RS_FLEET_LIVING);
    assert_int_equal(list.items[1].epoch, 3);
    assert_int_equal(list.items[1].captures, 12);
    assert_int_equal(list.items[1].open, 1);
    assert_int_equal(list.items[1].began_ns, 500 * (rs_ns)RS_NS_PER_S);
    assert_string_equal(list.items[1].address, "host:7070");
    assert_string_equal(list.items[1].http, "");
    assert_int_equal(list.items[2].state, RS_FLEET_STOPPED);
    rs_fleet_list_fini(&list);
}

/* The process before was killed: its lease goes on for a while, and it is not another aggregator. */
static void a_restart_takes_the_place_of_who_was_there(void **state)
{
    (void)state;
    struct rs_fleet_list list =
        taken(ROW(A, "old", "4", "0", "500", "995") ROW(A, "new", "5", "0", "996", "999"));
    assert_int_equal(list.count, 1);
    assert_string_equal(list.items[0].instance, "new");
    assert_false(list.items[0].is_double);
    rs_fleet_list_fini(&list);
}

static void a_stop_counts_over_what_was_said_in_its_second(void **state)
{
    (void)state;
    struct rs_fleet_list list =
        taken(ROW(A, "p", "4", "0", "500", "999") ROW(A, "p", "4", "1", "500", "999"));
    assert_int_equal(list.count, 1);
    assert_int_equal(list.items[0].state, RS_FLEET_STOPPED);
    assert_false(list.items[0].is_double);
    rs_fleet_list_fini(&list);
}

/* A copy of a data folder has its id: both go on writing. */
static void two_that_live_with_one_id_are_marked(void **state)
{
    (void)state;
    struct rs_fleet_list list =
        taken(ROW(A, "copy", "7", "0", "800", "999") /**/
              ROW(A, "original", "9", "0", "500", "998") ROW(B, "other", "1", "0", "500", "998"));
    assert_int_equal(list.count, 3);
    assert_true(list.items[0].is_double);
    assert_string_equal(list.items[0].instance, "original");
    assert_true(list.items[1].is_double);
    assert_false(list.items[2].is_double);
    rs_fleet_list_fini(&list);
}

/* Whoever may write into the database may write anything into the table. */
static void rows_that_are_no_aggregators_are_left_out(void **state)
{
    (void)state;
    char row[1024], longest[400];
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    static const char *const rows[] = {
        ROW("not-an-id", "p", "1", "0", "1", "999"),
        ROW(A, "p", "one", "0", "1", "999"),
        ROW(A, "p", "1", "0", "1", "-5"),
        ROW(A, "p", "1", "0", "1", "9223372036854775807"),
        ROW(A, "p", "1", "0", "1", "1011"), /* it would live until then */
        ROW(A, "\033[2J", "1", "0", "1", "999"),
        ROW(A, "it's", "1", "0", "1", "999"),
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        (void)snprintf(row, sizeof row, "%s%s", rows[i], ROW(B, "p", "1", "0", "1", "999"));
        struct rs_fleet_list list = taken(row);
        assert_int_equal(list.count, 1);
        assert_string_equal(list.items[0].id, B);
        rs_fleet_list_fini(&list);
    }
    struct rs_fleet_list near = taken(ROW(A, "p", "1", "0", "1", "1010"));
    assert_int_equal(near.count, 1); /* replicas of a database are not of one second */
    rs_fleet_list_fini(&near);
    (void)snprintf(row, sizeof row, A "\tp\t1\thost\t%s\t\t0.3.0\t1\t1\t0\t1\t999\t1000\n",
                   longest);
    struct rs_fleet_list list = taken(row);
    assert_int_equal(list.count, 0);
    assert_status(fleet_take("a\tb\n", &list, NULL), RS_FORMAT);
    rs_fleet_list_fini(&list);
}

static void a_data_folder_keeps_its_id_and_counts_its_starts(void **state)
{
    (void)state;
    char first[RS_FLEET_ID_BYTES], second[RS_FLEET_ID_BYTES];
    int64_t epoch = 0;
    assert_ok(rs_fleet_id_take(folder, first, &epoch, NULL));
    assert_int_equal(epoch, 1);
    assert_int_equal(strlen(first), RS_FLEET_ID_BYTES - 1);
    assert_ok(rs_fleet_id_take(folder, second, &epoch, NULL));
    assert_int_equal(epoch, 2);
    assert_string_equal(first, second);
}

/* To begin with another id would be to be somebody else. */
static void a_file_that_is_damaged_is_not_written_over(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        "rankscope aggregator 1\n" A "\n",
                                        "rankscope aggregator 2\n" A "\n1\n",
                                        "rankscope aggregator 1\n" A "\n1x\n",
                                        "rankscope aggregator 1\naaaa\n1\n",
                                        "rankscope aggregator 1\n" A "\n4194304\n"};
    char id[RS_FLEET_ID_BYTES] = "";
    char *path = rs_file_join(folder, RS_FLEET_ID_FILE);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct rs_buf text = {0};
        int64_t epoch = 0;
        assert_ok(rs_file_replace(path, texts[i], strlen(texts[i]), false, NULL));
        assert_status(rs_fleet_id_take(folder, id, &epoch, NULL), RS_FORMAT);
        assert_ok(rs_file_read(path, 4096, &text, NULL));
        assert_string_equal(rs_buf_text(&text), texts[i]);
        rs_buf_fini(&text);
    }
    rs_mem_free(path);
}

static void what_cannot_stand_in_a_statement_is_not_sent(void **state)
{
    (void)state;
    const struct rs_clickhouse_options options = {.url = "clickhouse+http://127.0.0.1:1/away"};
    struct rs_fleet_member self = {.id = A, .instance = "p", .host = "it's"};
    struct rs_fleet_list list = {.count = 0};
    struct rs_fleet *fleet = NULL;
    assert_ok(rs_fleet_open(&options, &fleet, NULL));
    assert_status(rs_fleet_renew(fleet, &self, 0, &list, NULL), RS_INVALID);
    (void)snprintf(self.host, sizeof self.host, "host");
    assert_status(rs_fleet_renew(fleet, &self, 0, &list, NULL), RS_UNREACHABLE);
    assert_int_equal(list.count, 0);
    rs_fleet_close(&fleet);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_wrote_within_the_lease_lives),
        cmocka_unit_test(a_restart_takes_the_place_of_who_was_there),
        cmocka_unit_test(a_stop_counts_over_what_was_said_in_its_second),
        cmocka_unit_test(two_that_live_with_one_id_are_marked),
        cmocka_unit_test(rows_that_are_no_aggregators_are_left_out),
        cmocka_unit_test_setup_teardown(a_data_folder_keeps_its_id_and_counts_its_starts,
                                        make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_file_that_is_damaged_is_not_written_over, make_folder,
                                        remove_folder),
        cmocka_unit_test(what_cannot_stand_in_a_statement_is_not_sent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
