/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What may reach a terminal, a log or a table: no controls of C0 and C1, none that turn the order of text, no bytes that are not
 * UTF-8. Everything else as it is.
 */
#include "common/base/utf8.h"

#include "common/base/csv_out.h"
#include "common/base/err.h"
#include "common/base/json_out.h"
#include "tests/support/rs_test.h"

#include <stdio.h>
#include <string.h>

static void controls_are_those_that_steer(void **state)
{
    (void)state;
    size_t count = 0;
    for (uint32_t c = 0; c <= 0x10ffff; c++)
        count += rs_utf8_is_control(c);
    assert_int_equal(count, 32 + 33 + 3 + 2 + 5 +
                                4); /* C0, DEL and C1, marks, separators, embeddings, isolates */
    static const uint32_t harmless[] = {' ', '~', 0xa0, 0xe9, 0x200d, 0x2060, 0x4e2d, 0x1f600};
    for (size_t i = 0; i < sizeof harmless / sizeof harmless[0]; i++)
        assert_false(rs_utf8_is_control(harmless[i]));
}

static const struct {
    const char *text, *plain, *escaped, *cell;
} cases[] = {
    {"", "", "", ""},
    {"gemm", "gemm", "gemm", "gemm"},
    {"caf\xc3\xa9 \xe4\xb8\xad \xf0\x9f\x98\x80", "caf\xc3\xa9 \xe4\xb8\xad \xf0\x9f\x98\x80",
     "caf\xc3\xa9 \xe4\xb8\xad \xf0\x9f\x98\x80", "caf\xc3\xa9 \xe4\xb8\xad \xf0\x9f\x98\x80"},
    {"a\x1b[31m", "a?[31m", "a\\u001b[31m", "a\\u001b[31m"},
    {"a\xc2\x9b"
     "31m",
     "a??31m", "a\\u009b31m", "a\\u009b31m"}, /* the same as one character */
    {"x\xe2\x80\xaey,z", "x???y,z", "x\\u202ey,z", "\"x\\u202ey,z\""},
    {"\x7f\x9b\xc3", "???", "\\u007f\\x9B\\xC3", "\\u007f\\x9B\\xC3"},
    {"a\nb\tc", "a?b?c", "a\nb\\u0009c", "\"a\nb\\u0009c\""},
    {"say \"hi\"", "say \"hi\"", "say \"hi\"", "\"say \"\"hi\"\"\""},
};

static void every_way_out_is_clean(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char plain[64];
        struct rs_buf buf = {0};
        (void)snprintf(plain, sizeof plain, "%s", cases[i].text);
        rs_utf8_plain(plain);
        assert_string_equal(plain, cases[i].plain);
        rs_utf8_escape(&buf, cases[i].text, strlen(cases[i].text), "\r\n");
        rs_buf_u8(&buf, 0);
        assert_string_equal((const char *)buf.data, cases[i].escaped);
        rs_buf_reset(&buf);
        rs_csv_text(&buf, cases[i].text);
        rs_buf_u8(&buf, 0);
        assert_string_equal((const char *)buf.data, cases[i].cell);
        rs_buf_fini(&buf);
        struct rs_err err = {0};
        assert_status(rs_err_set(&err, RS_INVALID, "%s", cases[i].text), RS_INVALID);
        assert_string_equal(err.text, cases[i].plain);
    }
}

/* The reader of the document has the same text again. */
static void json_spells_controls(void **state)
{
    struct rs_buf buf = {0};
    struct rs_json_out json;
    (void)state;
    rs_json_out_init(&json, &buf, 0);
    rs_json_out_string(&json, "\x1b \xc2\x9b \xe2\x80\xae \xe2\x81\xa6 \xc3\xa9");
    rs_buf_u8(&buf, 0);
    assert_string_equal((const char *)buf.data, "\"\\u001b \\u009b \\u202e \\u2066 \xc3\xa9\"");
    rs_buf_fini(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(controls_are_those_that_steer),
        cmocka_unit_test(every_way_out_is_clean),
        cmocka_unit_test(json_spells_controls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
