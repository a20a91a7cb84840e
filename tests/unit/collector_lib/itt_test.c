/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges by their text, and what a program says of itself: what comes of the calls. */
#include "collector/lib/client_priv.h"
#include "tests/unit/collector_lib/door.h"

#include <errno.h>

static struct door door;

static int connected_process(void **state)
{
    (void)state;
    door_open(&door);
    struct rankscope_config config = door_config(&door);
    assert_int_equal(rankscope_init(&config), 0);
    door_welcome(&door);
    door_take_rings(&door);
    for (size_t i = 0; i < door.ring_count; i++)
        rs_ring_discard(door.rings[i]);
    return 0;
}

static int process_ends(void **state)
{
    (void)state;
    rankscope_fini();
    door_close(&door);
    return 0;
}

static void start_recording(void)
{
    (void)rs_control_request(door.control, RS_LIB_START_NEXT, 999);
    rankscope_step(1);
    assert_true(rankscope_is_recording());
}

static void depths_count_from_0_recorded_or_not(void **state)
{
    (void)state;
    assert_int_equal(rankscope_itt_is_available(), 1);
    for (int turn = 0; turn < 2; turn++) {
        assert_int_equal(rankscope_itt_range_push("a"), 0);
        assert_int_equal(rankscope_itt_range_push("b"), 1);
        assert_int_equal(rankscope_itt_range_push("c"), 2);
        assert_int_equal(rankscope_itt_range_pop(), 2);
        assert_int_equal(rankscope_itt_range_pop(), 1);
        assert_int_equal(rankscope_itt_range_pop(), 0);
        assert_int_equal(rankscope_itt_range_pop(), -ENOENT);
        if (turn == 0)
            start_recording();
    }
    door_drain(&door);
    assert_int_equal(door_count(&door, RS_RECORD_RANGE), 3);
}

static void ranges_and_marks_have_their_texts(void **state)
{
    (void)state;
    start_recording();
    assert_int_equal(rankscope_itt_range_push("load"), 0);
    assert_int_equal(rankscope_itt_mark("here"), 0);
    assert_int_equal(rankscope_itt_range_pop(), 0);
    door_drain(&door);
    assert_ok(rs_control_names(door.control, NULL));
    for (size_t i = 0; i < door.record_count; i++) {
        const struct rs_ring_record *record = &door.records[i];
        if (record->slot.kind != RS_RECORD_RANGE && record->slot.kind != RS_RECORD_MARK)
            continue;
        assert_string_equal(rs_control_name(door.control, record->slot.name)->text,
                            record->slot.kind == RS_RECORD_RANGE ? "load" : "here");
    }
    assert_int_equal(door_count(&door, RS_RECORD_RANGE), 1);
    assert_int_equal(door_count(&door, RS_RECORD_MARK), 1);
}

static void what_is_no_ascii_text_is_refused_and_begins_nothing(void **state)
{
    (void)state;
    assert_int_equal(rankscope_itt_mark(NULL), -EINVAL);
    assert_int_equal(rankscope_itt_mark(""), -EINVAL);
    assert_int_equal(rankscope_itt_mark("caf\xc3\xa9"), -EINVAL);
    assert_int_equal(rankscope_itt_range_push("caf\xc3\xa9"), -EINVAL);
    assert_int_equal(rankscope_itt_range_pop(), -ENOENT);
}

static void metadata_is_refused_with_what_is_wrong(void **state)
{
    (void)state;
    static const char *const good[] = {
        "1",
        "-0.5e+3",
        "\"a\\u00e9\"",
        "true",
        "null",
        " [ ] ",
        "{}",
        "[1, [2, {\"a\": []}]]",
        "{\"a\": {\"b\": 1}, \"c\": [null, false]}",
        "[9223372036854775807, -9223372036854775808, -0, 1e300, 1e-999]",
        "\"caf\xc3\xa9 \xf0\x9f\x98\x80 \\ud83d\\ude00 \\u0001\x7f\""};
    static const char *const bad[] = {"",
                                      "k",
                                      "01",
                                      "1.",
                                      "+1",
                                      "{\"a\"}",
                                      "{a: 1}",
                                      "[1,]",
                                      "[1 2]",
                                      "{\"a\": 1,}",
                                      "\"open",
                                      "\"\\x\"",
                                      "1 2",
                                      "{\"a\":",
                                      "[",
                                      "]",
                                      "tru",
                                      "\"\\u12g4\"",
                                      "{]",
                                      "[}",
                                      "nul l",
                                      "\"a\nb\"",
                                      "[1,,2]",
                                      "9223372036854775808",
                                      "-9223372036854775809",
                                      "[99999999999999999999]",
                                      "\"\\u0000\"",
                                      "\"\\ud800\"",
                                      "\"\\ud800\\u0041\"",
                                      "\"\\udc00\"",
                                      "\"\xff\"",
                                      "\"\xc3\"",
                                      "\"\xc0\xaf\"",
                                      "\"\xed\xa0\x80\"",
                                      "\"\xf4\x90\x80\x80\"",
                                      "\"\xf0\x80\x80\x80\"",
                                      "{\"\xe9\": 1}",
                                      "1e309",
                                      "-1.5E+99999999999999999999"};
    char longest[5000];
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_int_equal(rankscope_metadata_json("k", good[i]), 0);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(rankscope_metadata_json("k", bad[i]), -EINVAL);
    assert_int_equal(rankscope_metadata("k", "caf\xe9"), -EINVAL);
    assert_int_equal(rankscope_metadata("caf\xe9", "v"), -EINVAL);
    assert_int_equal(rankscope_metadata("caf\xc3\xa9", "\xe2\x82\xac"), 0);
    memset(longest, '[', sizeof longest);
    longest[sizeof longest - 1] = 0;
    assert_int_equal(rankscope_metadata_json("k", longest), -E2BIG);
    longest[3000] = 0; /* deeper than anybody means */
    assert_int_equal(rankscope_metadata_json("k", longest), -EINVAL);
    assert_int_equal(rankscope_metadata(longest, "v"), -E2BIG);
    assert_int_equal(rankscope_metadata("", "v"), -EINVAL);
    assert_int_equal(rankscope_metadata(NULL, "v"), -EINVAL);
    assert_int_equal(rankscope_metadata("k", NULL), -EINVAL);
    memset(longest, 1, sizeof longest);
    longest[1000] = 0; /* each takes six bytes */
    assert_int_equal(rankscope_metadata("k", longest), -E2BIG);
    longest[600] = 0;
    assert_int_equal(rankscope_metadata("k", longest), 0);
}

static void metadata_takes_no_name_and_its_room_ends(void **state)
{
    (void)state;
    assert_int_equal(rankscope_metadata("k", "v"), 0);
    const uint32_t before = rankscope_name("before", 0);
    int status = 0;
    unsigned count = 0;
    while (status == 0 && count++ < RS_CONTROL_NAMES_BYTES)
        status = rankscope_metadata("k", "v");
    assert_int_equal(status, -ENOMEM);
    assert_int_equal(rankscope_name("before", 0), before);
    assert_int_equal(rankscope_name("later", 0), 0);
    assert_ok(rs_control_names(door.control, NULL));
    assert_string_equal(rs_control_name(door.control, before)->text, "before");
}

static void without_init_nothing_happens(void **state)
{
    (void)state;
    assert_int_equal(rankscope_itt_is_available(), 0);
    assert_int_equal(rankscope_metadata("k", "v"), 0);
    assert_int_equal(rankscope_itt_range_push("a"), 0);
    assert_int_equal(rankscope_itt_range_pop(), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, connected_process, process_ends)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_init_nothing_happens),
        TEST(depths_count_from_0_recorded_or_not),
        TEST(ranges_and_marks_have_their_texts),
        TEST(what_is_no_ascii_text_is_refused_and_begins_nothing),
        TEST(metadata_is_refused_with_what_is_wrong),
        TEST(metadata_takes_no_name_and_its_room_ends),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
