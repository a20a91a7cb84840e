/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever is written is JSON, and says what was meant. */
#include "common/base/json_out.h"

#include "common/base/check.h"
#include "tests/support/rs_test.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void members_get_commas_and_keys(void **state)
{
    (void)state;
    struct rs_buf buf = {0};
    struct rs_json_out json;
    rs_json_out_init(&json, &buf, 0);
    rs_json_out_object(&json);
    rs_json_out_key(&json, "a");
    rs_json_out_int(&json, INT64_MIN);
    rs_json_out_key(&json, "b");
    rs_json_out_array(&json);
    rs_json_out_uint(&json, UINT64_MAX);
    rs_json_out_bool(&json, false);
    rs_json_out_null(&json);
    rs_json_out_object(&json);
    rs_json_out_end(&json);
    rs_json_out_end(&json);
    rs_json_out_key_bytes(&json, "c\0d", 3);
    rs_json_out_number(&json, "1.250");
    rs_json_out_end(&json);
    assert_string_equal(rs_buf_text(&buf),
                        "{\"a\":-9223372036854775808,\"b\":[18446744073709551615,false,null,{}],"
                        "\"c\\u0000d\":1.250}");
    rs_buf_fini(&buf);
}

static void a_member_is_written_in_one_call_and_unknown_is_null(void **state)
{
    (void)state;
    struct rs_buf buf = {0};
    struct rs_json_out json;
    rs_json_out_init(&json, &buf, 0);
    rs_json_out_object(&json);
    rs_json_put_string(&json, "a", "");
    rs_json_put_text(&json, "b", "");
    rs_json_put_text(&json, "c", NULL);
    rs_json_put_text(&json, "d", "x");
    rs_json_put_int(&json, "e", -1);
    rs_json_put_uint(&json, "f", UINT64_MAX);
    rs_json_put_known(&json, "g", 7, true);
    rs_json_put_known(&json, "h", 7, false);
    rs_json_put_bool(&json, "i", true);
    rs_json_put_null(&json, "j");
    rs_json_put_object(&json, "k");
    rs_json_put_array(&json, "l");
    rs_json_out_end(&json);
    rs_json_out_end(&json);
    rs_json_out_end(&json);
    assert_string_equal(rs_buf_text(&buf),
                        "{\"a\":\"\",\"b\":null,\"c\":null,\"d\":\"x\",\"e\":-1,"
                        "\"f\":18446744073709551615,\"g\":7,\"h\":null,\"i\":true,\"j\":null,"
                        "\"k\":{\"l\":[]}}");
    rs_buf_fini(&buf);
}

static void indented_members_stand_on_their_own_lines(void **state)
{
    (void)state;
    struct rs_buf buf = {0};
    struct rs_json_out json;
    rs_json_out_init(&json, &buf, 2);
    rs_json_out_object(&json);
    rs_json_out_key(&json, "a");
    rs_json_out_array(&json);
    rs_json_out_int(&json, 1);
    rs_json_out_int(&json, 2);
    rs_json_out_end(&json);
    rs_json_out_key(&json, "b");
    rs_json_out_array(&json);
    rs_json_out_end(&json);
    rs_json_out_end(&json);
    assert_string_equal(rs_buf_text(&buf), "{\n  \"a\": [\n    1,\n    2\n  ],\n  \"b\": []\n}");
    rs_buf_fini(&buf);
}

static void assert_written_as(const char *text, size_t length, const char *expected)
{
    struct rs_buf buf = {0};
    struct rs_json_out json;
    rs_json_out_init(&json, &buf, 0);
    rs_json_out_bytes(&json, text, length);
    assert_string_equal(rs_buf_text(&buf), expected);
    rs_buf_fini(&buf);
}

static void strings_are_escaped(void **state)
{
    (void)state;
    assert_written_as("a\"b\\c\n\r\t\x01\x7f", 10, "\"a\\\"b\\\\c\\n\\r\\t\\u0001\\u007f\"");
    assert_written_as("", 0, "\"\"");
    assert_written_as("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 9,
                      "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"");
}

static void bytes_that_are_no_utf8_are_replaced(void **state)
{
    (void)state;
    assert_written_as("a\xff", 2, "\"a\xef\xbf\xbd\"");
    assert_written_as("\xc3", 1, "\"\xef\xbf\xbd\"");                 /* cut */
    assert_written_as("\xc0\xaf", 2, "\"\xef\xbf\xbd\xef\xbf\xbd\""); /* overlong */
    assert_written_as("\xed\xa0\x80x", 4,
                      "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdx\""); /* surrogate */
    assert_written_as("\xf4\x90\x80\x80", 4,
                      "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""); /* too high */
}

static void doubles_read_back_the_same(void **state)
{
    (void)state;
    const double values[] = {0.1,          1.0 / 3, DBL_MAX,       DBL_MIN,
                             DBL_TRUE_MIN, -0.0,    123456789.125, 1e22};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        struct rs_buf buf = {0};
        struct rs_json_out json;
        rs_json_out_init(&json, &buf, 0);
        rs_json_out_double(&json, values[i]);
        const double back = strtod(rs_buf_text(&buf), NULL);
        assert_memory_equal(&back, &values[i], sizeof back);
        rs_buf_fini(&buf);
    }
}

static void what_is_no_number_becomes_null(void **state)
{
    (void)state;
    struct rs_buf buf = {0};
    struct rs_json_out json;
    rs_json_out_init(&json, &buf, 0);
    rs_json_out_array(&json);
    rs_json_out_double(&json, (double)INFINITY);
    rs_json_out_double(&json, (double)NAN);
    rs_json_out_double(&json, 0.1);
    rs_json_out_end(&json);
    assert_string_equal(rs_buf_text(&buf), "[null,null,0.1]");
    rs_buf_fini(&buf);
}

static jmp_buf after_check;

static _Noreturn void jump_back(const char *expression, const char *file, int line,
                                const char *function)
{
    (void)expression;
    (void)file;
    (void)line;
    (void)function;
    longjmp(after_check, 1);
}

static void a_value_where_a_key_belongs_is_caught(void **state)
{
    (void)state;
    struct rs_buf buf = {0};
    struct rs_json_out json;
    rs_json_out_init(&json, &buf, 0);
    rs_json_out_object(&json);
    rs_check_on_fail((rs_check_fail_fn *)jump_back);
    volatile bool was_caught = true;
    if (setjmp(after_check) == 0) {
        rs_json_out_int(&json, 1);
        was_caught = false;
    }
    rs_check_on_fail(NULL);
    assert_true(was_caught);
    rs_buf_fini(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_get_commas_and_keys),
        cmocka_unit_test(a_member_is_written_in_one_call_and_unknown_is_null),
        cmocka_unit_test(indented_members_stand_on_their_own_lines),
        cmocka_unit_test(strings_are_escaped),
        cmocka_unit_test(bytes_that_are_no_utf8_are_replaced),
        cmocka_unit_test(doubles_read_back_the_same),
        cmocka_unit_test(what_is_no_number_becomes_null),
        cmocka_unit_test(a_value_where_a_key_belongs_is_caught),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
