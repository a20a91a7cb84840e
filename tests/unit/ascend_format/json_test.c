/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The JSON reader and the numbers: what is right is held against jansson and libc, document by
 * document, damaged in every way a byte can be.
 */
#include "ascend/format/json.h"

#include "ascend/format/num.h"
#include "tests/support/rs_test.h"

#include <jansson.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The document as one line of what the tokens say; false: not JSON. */
static bool spell_tokens(const char *text, size_t length, struct rs_buf *out)
{
    struct rs_vjson json;
    rs_vjson_init(&json, text, length, "test");
    enum rs_status status;
    while ((status = rs_vjson_next(&json, NULL)) == RS_OK && json.token != RS_VJSON_END) {
        rs_buf_u8(out, (uint8_t)('A' + json.token));
        if (json.token == RS_VJSON_KEY || json.token == RS_VJSON_STRING) {
            rs_buf_bytes(out, json.text, json.length);
        } else if (json.token == RS_VJSON_NUMBER) {
            struct rs_ascend_num num;
            if (rs_ascend_num_parse(json.text, json.length, &num) == RS_OK)
                rs_buf_printf(out, "%.17g", rs_ascend_num_double(&num));
        }
    }
    rs_vjson_fini(&json);
    return status == RS_OK;
}

static void spell_tree(const json_t *value, struct rs_buf *out)
{
    static const char letters[] = "ACFGGHIJ"; /* by json_type: the tokens above */
    const char *key;
    json_t *item;
    size_t i;
    rs_buf_u8(out, (uint8_t)letters[json_typeof(value)]);
    if (json_is_string(value))
        rs_buf_bytes(out, json_string_value(value), json_string_length(value));
    if (json_is_number(value))
        rs_buf_printf(out, "%.17g", json_number_value(value));
    json_object_foreach((json_t *)(uintptr_t)value, key, item)
    {
        rs_buf_printf(out, "E%s", key);
        spell_tree(item, out);
    }
    json_array_foreach(value, i, item) spell_tree(item, out);
    if (json_is_object(value) || json_is_array(value))
        rs_buf_u8(out, json_is_object(value) ? 'B' : 'D');
}

/* jansson refuses integers beyond 64 bits and keeps one of two equal keys: not our question. */
static bool both_agree(const char *text, size_t length)
{
    struct rs_buf ours = {0}, theirs = {0};
    const bool is_ours = spell_tokens(text, length, &ours);
    json_t *tree = json_loadb(text, length, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);
    json_error_t at;
    json_t *loose = json_loadb(text, length, JSON_DECODE_ANY, &at);
    bool agree = is_ours == (loose != NULL);
    if (tree && is_ours) {
        spell_tree(tree, &theirs);
        agree = ours.length == theirs.length && memcmp(ours.data, theirs.data, ours.length) == 0;
    }
    if (!agree && loose == NULL && strstr(at.text, "too big"))
        agree = true;
    json_decref(tree);
    json_decref(loose);
    rs_buf_fini(&ours);
    rs_buf_fini(&theirs);
    return agree;
}

static const char *const documents[] = {
    "{}",
    "[]",
    "null",
    "true",
    "\"\"",
    "-0",
    "0.5",
    "[1,2.50,-3e2,1E-7,0]",
    "{\"a\":{\"b\":[{}]}}",
    " { \"x\" : [ 1 , 2 ] , \"y\" : null } ",
    "\"\\u00e9\\ud83d\\ude00\\n\\\"\\/\\\\\"",
    ("{\"step1\": {\"p2p\": {}, \"collective\": {\"hcom_allReduce__606_0_1@12\": {\"Communication Time "
     "Info\": {\"Start Timestamp(us)\": 1750000000002233.5, \"Wait Time Ratio\": 0.0}}}}}"),
    "\"caf\xc3\xa9 \xf0\x9f\x98\x80 plain text longer than eight bytes\""};

static const char *const not_json[] = {"",
                                       "{",
                                       "[1,]",
                                       "{\"a\":1,}",
                                       "{a:1}",
                                       "[1 2]",
                                       "01",
                                       "1.",
                                       ".5",
                                       "+1",
                                       "1e",
                                       "nul",
                                       "\"\\x\"",
                                       "\"\\u12\"",
                                       "\"\\ud800\"",
                                       "\"\\udc00\\ud800\"",
                                       "\"tab\tinside\"",
                                       "\"\xff\"",
                                       "\"\xc0\x80\"",
                                       "\"\xed\xa0\x80\"",
                                       "[1]]",
                                       "{\"a\"}",
                                       "{\"a\":}",
                                       "[}",
                                       "\"\\u0000\"",
                                       "1 1",
                                       "\"open"};

static void good_documents_read_as_jansson_reads_them(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof documents / sizeof documents[0]; i++) {
        struct rs_buf out = {0};
        assert_true(spell_tokens(documents[i], strlen(documents[i]), &out));
        assert_true(both_agree(documents[i], strlen(documents[i])));
        rs_buf_fini(&out);
    }
}

static void what_is_not_json_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof not_json / sizeof not_json[0]; i++) {
        struct rs_buf out = {0};
        if (spell_tokens(not_json[i], strlen(not_json[i]), &out))
            fail_msg("read as JSON: %s", not_json[i]);
        rs_buf_fini(&out);
    }
}

static void every_cut_and_every_changed_byte_is_judged_as_by_jansson(void **state)
{
    static const char bytes[] = "\"\\{}[],:.0-1eEu \n\x80\xc3\x01tfn";
    (void)state;
    for (size_t d = 0; d < sizeof documents / sizeof documents[0]; d++) {
        char copy[512];
        const size_t length = strlen(documents[d]);
        assert_true(length < sizeof copy);
        for (size_t cut = 0; cut <= length; cut++)
            assert_true(both_agree(documents[d], cut));
        for (size_t at = 0; at < length; at++)
            for (size_t b = 0; b < sizeof bytes - 1; b++) {
                memcpy(copy, documents[d], length);
                copy[at] = bytes[b];
                if (!both_agree(copy, length))
                    fail_msg("judged otherwise: %.*s", (int)length, copy);
            }
    }
}

static void depth_has_a_limit(void **state)
{
    char text[RS_VJSON_DEPTH_MAX + 2];
    struct rs_buf out = {0};
    (void)state;
    memset(text, '[', sizeof text);
    assert_false(spell_tokens(text, sizeof text, &out));
    rs_buf_fini(&out);
}

/* ---- numbers -------------------------------------------------------------------------------- */

static const char *repr(const char *text)
{
    static char out[RS_ASCEND_NUM_TEXT_BYTES + 1];
    struct rs_ascend_num num;
    if (rs_ascend_num_parse(text, strlen(text), &num) != RS_OK)
        return "refused";
    out[rs_ascend_num_print(&num, out)] = '\0';
    return out;
}

static void numbers_come_out_as_python_writes_them(void **state)
{
    /* left: as in a file; right: json.dumps(json.loads(left)) */
    static const char *const pairs[][2] = {{"0", "0"},
                                           {"-0", "0"},
                                           {"0.0", "0.0"},
                                           {"-0.0", "-0.0"},
                                           {"1.50", "1.5"},
                                           {"7", "7"},
                                           {"-12", "-12"},
                                           {"100.0", "100.0"},
                                           {"1e3", "1000.0"},
                                           {"1E-5", "1e-05"},
                                           {"0.0001", "0.0001"},
                                           {"0.00001234", "1.234e-05"},
                                           {"1e16", "1e+16"},
                                           {"123456789012345680.0", "1.2345678901234568e+17"},
                                           {"9999999999999998.0", "9999999999999998.0"},
                                           {"1750000000002233.5", "1750000000002233.5"},
                                           {"0.1000000000000000055511151231257827", "0.1"},
                                           {"0.10000000000000001", "0.1"},
                                           {"28.647232000000002", "28.647232000000002"},
                                           {"0.23918478124999998", "0.23918478124999998"},
                                           {"2.2250738585072014e-308", "2.2250738585072014e-308"},
                                           {"5e-324", "5e-324"},
                                           {"1.7976931348623157e308", "1.7976931348623157e+308"},
                                           {"9223372036854775807", "9223372036854775807"},
                                           {"1e400", "refused"},
                                           {"92233720368547758080", "refused"},
                                           {"0.30000000000000004", "0.30000000000000004"},
                                           {"6.0000000000000008e-05", "6.000000000000001e-05"},
                                           {"0.9999999999999999", "0.9999999999999999"}};
    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        assert_string_equal(repr(pairs[i][0]), pairs[i][1]);
}

static uint64_t next_random(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

static void random_numbers_convert_as_libc_does_and_survive_packing(void **state)
{
    uint64_t seed = 88172645463325252ULL;
    (void)state;
    for (int i = 0; i < 200000; i++) {
        char text[64];
        uint8_t packed[RS_ASCEND_NUM_PACKED_BYTES];
        struct rs_ascend_num num, again;
        const uint64_t bits = next_random(&seed);
        double value = (double)(bits >> 11) * ldexp(1, (int)(bits % 120) - 110);
        const int digits = 1 + (int)(next_random(&seed) % 18);
        const int length = snprintf(text, sizeof text, i % 3 ? "%.*g" : "%.*e", digits, value);
        if (!strpbrk(text, ".e"))
            continue;
        value = strtod(text, NULL);
        assert_ok(rs_ascend_num_parse(text, (size_t)length, &num));
        assert_true(rs_ascend_num_double(&num) == value);
        const size_t used = rs_ascend_num_pack(&num, packed);
        assert_int_equal(rs_ascend_num_unpack(packed, used, &again), used);
        assert_true(rs_ascend_num_double(&again) == value);
        assert_int_equal(rs_ascend_num_unpack(packed, used - 1, &again), 0);
        char by_digits[RS_ASCEND_NUM_TEXT_BYTES + 1], by_value[RS_ASCEND_NUM_TEXT_BYTES + 1];
        by_digits[rs_ascend_num_print(&num, by_digits)] = '\0';
        by_value[rs_ascend_num_print_double(value, by_value)] = '\0';
        assert_string_equal(by_digits, by_value);
        assert_true(strtod(by_value, NULL) == value);
    }
}

static void ratios_round_as_python(void **state)
{
    /* round(part / whole, 4): ties are decided by the exact value of the quotient */
    static const struct {
        double part, whole;
        const char *text;
    } cases[] = {{1, 3, "0.3333"},       {2, 3, "0.6667"},
                 {0.00005, 1, "0.0001"}, {0.00015, 1, "0.0001"},
                 {2.67545, 1, "2.6755"}, {1, 0, "0"},
                 {0, 5, "0.0"},          {27.9135, 1, "27.9135"},
                 {1, 1e-16, "0"},        {123456789.00005, 1, "123456789.0"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[RS_ASCEND_NUM_TEXT_BYTES + 1];
        const struct rs_ascend_num num = rs_ascend_num_ratio(cases[i].part, cases[i].whole);
        text[rs_ascend_num_print(&num, text)] = '\0';
        assert_string_equal(text, cases[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_documents_read_as_jansson_reads_them),
        cmocka_unit_test(what_is_not_json_is_refused),
        cmocka_unit_test(every_cut_and_every_changed_byte_is_judged_as_by_jansson),
        cmocka_unit_test(depth_has_a_limit),
        cmocka_unit_test(numbers_come_out_as_python_writes_them),
        cmocka_unit_test(random_numbers_convert_as_libc_does_and_survive_packing),
        cmocka_unit_test(ratios_round_as_python),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
