/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pickle machine: what libtorch writes is read, what runs code is refused with its place, nothing outgrows its limits.
 */
#include "collector/source/pickle.h"

#include "tests/support/rs_test.h"

#include <stdio.h>
#include <string.h>

static enum rs_status run(struct rs_pickle *pickle, const void *bytes, size_t length,
                          struct rs_pickle_value *root, struct rs_err *err)
{
    rs_pickle_init(pickle);
    return rs_pickle_read(pickle, bytes, length, root, err);
}

#define RUN(pickle, text, root, err) run(pickle, text, sizeof(text) - 1, root, err)

static void plain_data_is_read(void **state)
{
    (void)state;
    struct rs_pickle pickle;
    struct rs_pickle_value root;
    struct rs_err err = {0};
    size_t count;
    assert_ok(RUN(&pickle,
                  "\x80\x02}(X\x01\x00\x00\x00"
                  "aq\x00K\x07X\x01\x00\x00\x00"
                  "b](J\xff\xff\xff\xffM\x00\x01\x8a\x02\x00\x80N\x88\x89"
                  "eu.",
                  &root, &err));
    const struct rs_pickle_value *items = rs_pickle_items(&pickle, root, &count);
    assert_int_equal(root.kind, RS_PICKLE_DICT);
    assert_int_equal(count, 4);
    assert_int_equal(items[1].number, 7);
    items = rs_pickle_items(&pickle, items[3], &count);
    assert_int_equal(count, 6);
    assert_int_equal(items[0].number, -1);
    assert_int_equal(items[1].number, 256);
    assert_int_equal(items[2].number, -32768);
    assert_int_equal(items[3].kind, RS_PICKLE_NONE);
    rs_pickle_fini(&pickle);
}

static bool is_read(unsigned code)
{
    static const unsigned char known[] = "(.GJKMNX]aehjqrst)u}\x80\x85\x86\x87\x88\x89\x8a";
    return memchr(known, (int)code, sizeof known - 1) != NULL;
}

static void every_other_code_is_refused_with_its_offset(void **state)
{
    (void)state;
    unsigned known = 0, named = 0, unnamed = 0;
    print_message("refused, with its offset:\n");
    for (unsigned code = 0; code < 256; code++) {
        struct rs_pickle pickle;
        struct rs_pickle_value root;
        struct rs_err err = {0};
        const unsigned char bytes[] = {0x80, 2, 'N', (unsigned char)code, '.', 0, 0, 0, 0, 0, 0,
                                       0,    0, 0};
        const enum rs_status status = run(&pickle, bytes, sizeof bytes, &root, &err);
        if (!is_read(code)) {
            char word[64];
            (void)snprintf(word, sizeof word, "code 0x%02x", code);
            assert_status(status, RS_FORMAT);
            assert_non_null(strstr(err.text, word));
            assert_non_null(strstr(err.text, "at byte 3 is refused"));
            const bool is_code = !strstr(err.text, "no pickle code");
            if (is_code)
                print_message("  %.*s\n", (int)(strstr(err.text, " at byte") - err.text), err.text);
            named += is_code;
            unnamed += !is_code;
        }
        known += is_read(code);
        rs_pickle_fini(&pickle);
    }
    print_message("%u codes of Python refused by name, %u bytes that are no code, %u codes read\n",
                  named, unnamed, known);
    assert_int_equal(named + unnamed + known, 256);
}

static void a_program_in_a_pickle_is_refused(void **state)
{
    (void)state;
    struct rs_pickle pickle;
    struct rs_pickle_value root;
    struct rs_err err = {0};
    assert_status(RUN(&pickle,
                      "\x80\x02"
                      "cos\nsystem\n(X\x04\x00\x00\x00"
                      "true\x85R.",
                      &root, &err),
                  RS_FORMAT);
    assert_non_null(strstr(err.text, "GLOBAL"));
    assert_non_null(strstr(err.text, "byte 2"));
    rs_pickle_fini(&pickle);
}

static void other_protocols_are_refused(void **state)
{
    (void)state;
    struct rs_pickle pickle;
    struct rs_pickle_value root;
    struct rs_err err = {0};
    assert_status(RUN(&pickle, "\x80\x04\x95", &root, &err), RS_VERSION);
    rs_pickle_fini(&pickle);
}

static void what_is_not_there_cannot_be_named(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "\x80\x02h\x05.", "\x80\x02q",     "\x80\x02Nr\xff\xff\xff\x7f.",
        "\x80\x02u",      "\x80\x02](NeN", "\x80\x02(u.",
        "\x80\x02(\x86.", "\x80\x02N(a.",  "\x80\x02N(NNu.",
        "\x80\x02}(Nu.",  "\x80\x02NN."};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct rs_pickle pickle;
        struct rs_pickle_value root;
        struct rs_err err = {0};
        const size_t length = i == 2 ? 8 : strlen(bad[i]) + (i == 1);
        const enum rs_status status = run(&pickle, bad[i], length, &root, &err);
        assert_true(status == RS_FORMAT || status == RS_PARTIAL);
        assert_true(err.text[0]);
        rs_pickle_fini(&pickle);
    }
}

static void a_length_beyond_the_end_takes_no_memory(void **state)
{
    (void)state;
    struct rs_pickle pickle;
    struct rs_pickle_value root;
    struct rs_err err = {0};
    assert_status(RUN(&pickle,
                      "\x80\x02X\xff\xff\xff\x7f"
                      "abc",
                      &root, &err),
                  RS_PARTIAL);
    assert_true(pickle.text_count == 0);
    rs_pickle_fini(&pickle);
}

static void deep_nesting_is_refused(void **state)
{
    (void)state;
    struct rs_pickle pickle;
    struct rs_pickle_value root;
    struct rs_err err = {0};
    unsigned char bytes[256] = {0x80, 2, ')'};
    memset(bytes + 3, 0x85, 200);
    assert_status(run(&pickle, bytes, 203, &root, &err), RS_LIMIT);
    rs_pickle_fini(&pickle);
}

/* [[..], [..]] doubled again and again by the memo: the arena's limit ends it. */
static void a_memo_bomb_ends_at_the_limit(void **state)
{
    (void)state;
    struct rs_pickle pickle;
    struct rs_pickle_value root;
    struct rs_err err = {0};
    unsigned char bytes[4096] = {0x80, 2, ']', 'q', 0};
    size_t at = 5;
    for (; at + 8 < sizeof bytes; at += 4) { /* appends the list to itself */
        bytes[at] = 'h';
        bytes[at + 1] = 0;
        bytes[at + 2] = 'a';
        bytes[at + 3] = 'N';
        bytes[at + 4] = 'a';
        at++;
    }
    rs_pickle_init(&pickle);
    pickle.limits.values = 256;
    assert_status(rs_pickle_read(&pickle, bytes, at, &root, &err), RS_LIMIT);
    assert_true(pickle.arena_capacity <= 1024);
    rs_pickle_fini(&pickle);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_data_is_read),
        cmocka_unit_test(every_other_code_is_refused_with_its_offset),
        cmocka_unit_test(a_program_in_a_pickle_is_refused),
        cmocka_unit_test(other_protocols_are_refused),
        cmocka_unit_test(what_is_not_there_cannot_be_named),
        cmocka_unit_test(a_length_beyond_the_end_takes_no_memory),
        cmocka_unit_test(deep_nesting_is_refused),
        cmocka_unit_test(a_memo_bomb_ends_at_the_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
