/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of the catalogue as they go to the database and come back; with one that is not there. With a real one: e2e_aggregators. */
#include "aggregator/store/fleet_captures_priv.h"
#include "common/base/mem.h"
#include "tests/support/rs_test.h"

#include <string.h>

static const uint8_t message[] = {0, 1, 0xff, '\n', 0, '\t'};

static struct rs_fleet_capture capture_of(const char *id)
{
    return (struct rs_fleet_capture){.id = id,
                                     .aggregator = "49a92e45612c7794",
                                     .version = INT64_MAX,
                                     .is_removed = false,
                                     .mark = "complete 5 2 0",
                                     .run = "r\xc3\xa9sum\xc3\xa9 'x'\n\t\\",
                                     .owner = "",
                                     .state = "complete",
                                     .reason = "partial: rank 3",
                                     .source = "native+kineto",
                                     .created_ns = 17,
                                     .closed_ns = -1,
                                     .world = 8,
                                     .rank_count = 4,
                                     .rows = RS_FLEET_ROWS_WHOLE,
                                     .head = rs_view_of(message, sizeof message),
                                     .info = rs_view_of(NULL, 0),
                                     .notes = "complete\na line\n"};
}

static void assert_same(const struct rs_fleet_capture *got, const struct rs_fleet_capture *want)
{
    assert_string_equal(got->id, want->id);
    assert_string_equal(got->aggregator, want->aggregator);
    assert_string_equal(got->mark, want->mark);
    assert_string_equal(got->run, want->run);
    assert_string_equal(got->owner, want->owner);
    assert_string_equal(got->state, want->state);
    assert_string_equal(got->reason, want->reason);
    assert_string_equal(got->source, want->source);
    assert_string_equal(got->notes, want->notes);
    assert_true(got->version == want->version && got->is_removed == want->is_removed);
    assert_true(got->created_ns == want->created_ns && got->closed_ns == want->closed_ns);
    assert_true(got->world == want->world && got->rank_count == want->rank_count);
    assert_int_equal(got->rows, want->rows);
    assert_int_equal(got->head.length, want->head.length);
    assert_memory_equal(got->head.data, want->head.data, want->head.length);
    assert_int_equal(got->info.length, want->info.length);
}

static void what_is_written_is_read_again(void **state)
{
    (void)state;
    char longest[300];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    struct rs_fleet_capture first = capture_of("20260102-030405-a1b2c3"), second = capture_of("");
    struct rs_fleet_captures captures = {.count = 0};
    second.is_removed = true;
    second.rows = RS_FLEET_ROWS_NONE;
    second.reason = longest; /* its length takes two bytes */
    fleet_captures_put(&first, &captures.bytes);
    fleet_captures_put(&second, &captures.bytes);
    assert_ok(fleet_captures_take(&captures, NULL));
    assert_int_equal(captures.count, 2);
    assert_same(&captures.items[0], &first);
    assert_same(&captures.items[1], &second);
    rs_fleet_captures_fini(&captures);
}

static void an_answer_that_ends_within_a_row_is_none(void **state)
{
    (void)state;
    struct rs_buf whole = {0};
    const struct rs_fleet_capture capture = capture_of("20260102-030405-a1b2c3");
    fleet_captures_put(&capture, &whole);
    for (size_t length = 1; length < whole.length; length++) {
        struct rs_fleet_captures captures = {.count = 0};
        rs_buf_bytes(&captures.bytes, whole.data, length);
        assert_status(fleet_captures_take(&captures, NULL), RS_FORMAT);
        rs_fleet_captures_fini(&captures);
    }
    rs_buf_fini(&whole);
}

static void a_length_that_nothing_stands_behind_is_none(void **state)
{
    (void)state;
    struct rs_fleet_captures captures = {.count = 0};
    for (int i = 0; i < 7; i++)
        rs_buf_u64(&captures.bytes, 0);
    rs_buf_varint(&captures.bytes, UINT64_MAX);
    rs_buf_string(&captures.bytes, "id");
    assert_status(fleet_captures_take(&captures, NULL), RS_FORMAT);
    rs_fleet_captures_fini(&captures);
}

static void notes_come_back_as_they_were_written(void **state)
{
    (void)state;
    struct rs_row_notes notes = {.is_partial = true}, back;
    struct rs_buf text = {0};
    assert_true(rs_row_notes_add(&notes, "rank 3 sent nothing"));
    assert_true(rs_row_notes_add(&notes, "two\nlines"));
    rs_row_notes_put(&notes, &text);
    assert_ok(rs_row_notes_take(rs_buf_text(&text), &back, NULL));
    assert_true(back.is_partial);
    assert_int_equal(back.count, 2);
    assert_string_equal(back.lines[0], "rank 3 sent nothing");
    assert_string_equal(back.lines[1], "two");
    rs_row_notes_fini(&back);
    assert_ok(rs_row_notes_take("", &back, NULL)); /* of rows that are not whole there are none */
    assert_false(back.is_partial);
    assert_int_equal(back.count, 0);
    rs_row_notes_fini(&back);
    rs_row_notes_fini(&notes);
    rs_buf_fini(&text);
}

static void a_database_that_is_away_is_asked_by_one(void **state)
{
    (void)state;
    const struct rs_clickhouse_options options = {.url = "clickhouse+http://127.0.0.1:1/away",
                                                  .retry_ns = 1};
    struct rs_row_place *place = NULL;
    struct rs_fleet_captures captures = {.count = 0};
    struct rs_err err = {0};
    const struct rs_fleet_capture capture = capture_of("20260102-030405-a1b2c3");
    assert_ok(rs_row_place_open(&options, &place, NULL));
    assert_status(rs_fleet_heads(place, "49a92e45612c7794", &captures, &err), RS_UNREACHABLE);
    assert_non_null(strstr(err.text, "it is asked again in"));
    assert_status(rs_fleet_put_captures(place, &capture, 1, NULL), RS_UNREACHABLE);
    assert_status(rs_fleet_find(place, capture.id, capture.aggregator, &captures, NULL),
                  RS_UNREACHABLE);
    assert_int_equal(captures.count, 0);
    rs_row_place_close(&place);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read_again),
        cmocka_unit_test(an_answer_that_ends_within_a_row_is_none),
        cmocka_unit_test(a_length_that_nothing_stands_behind_is_none),
        cmocka_unit_test(notes_come_back_as_they_were_written),
        cmocka_unit_test(a_database_that_is_away_is_asked_by_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
