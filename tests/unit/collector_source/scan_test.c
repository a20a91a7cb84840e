/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All paths of the object scan give the same answers, on any bytes, at any place of a block.
 */
#include "tests/support/rs_test.h"
/**/
#include "collector/source/scan.h"

#include <stdio.h>
#include <stdlib.h>

static uint64_t seed = 0x9e3779b97f4a7c15U;
static uint64_t random_of(uint64_t limit)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed % limit;
}

static void make_text(char *text, size_t length)
{
    static const char letters[] = "{}\"\\\nab,: \"{}finished\"x";
    static const char plain[] = "abcdefgh,: 0123456789[]";
    const bool is_dense = random_of(2);
    for (size_t i = 0; i < length; i++)
        text[i] = is_dense || !random_of(12) ? letters[random_of(sizeof letters - 1)]
                                             : plain[random_of(sizeof plain - 1)];
    if (!random_of(3)) { /* without line breaks most ends are found */
        for (size_t i = 0; i < length; i++)
            text[i] = text[i] == '\n' ? ' ' : text[i];
    }
    memset(text + length, 0, SCAN_PADDING);
}

static void all_paths_agree(void **state)
{
    (void)state;
    enum { LENGTH_MAX = 700 };
    char *text = malloc(LENGTH_MAX + SCAN_PADDING);
    size_t found = 0;
    size_t bad = 0;
    assert_non_null(text);
    for (unsigned round = 0; round < 300000; round++) {
        const size_t length = random_of(LENGTH_MAX);
        const unsigned depth = 1 + (unsigned)random_of(3);
        make_text(text, length);
        struct scan_close want = {0};
        const enum scan_outcome outcome =
            scan_close_scalar(text, text + length, depth, &want, NULL);
        found += outcome == SCAN_FOUND;
        bad += outcome == SCAN_BAD;
        for (unsigned path = SCAN_AVX2; path < SCAN_PATH_COUNT; path++) {
            scan_close_fn *close = scan_close_of((enum scan_path)path);
            struct scan_close got = {0};
            if (!close)
                continue;
            const enum scan_outcome other = close(text, text + length, depth, &got, NULL);
            if (other != outcome || got.end != want.end || got.has_finished != want.has_finished)
                print_error("%s: outcome %d, expected %d, depth %u, text <%.*s>\n",
                            scan_path_text((enum scan_path)path), (int)other, (int)outcome, depth,
                            (int)length, text);
            assert_int_equal(other, outcome);
            assert_ptr_equal(got.end, want.end);
            assert_int_equal(got.has_finished, want.has_finished);
        }
    }
    print_message("%zu ends found, %zu texts bad\n", found, bad);
    assert_true(found > 10000 && bad > 10000);
    free(text);
}

/* What is said of quotes is what stands there, up to the object's end; with a backslash among them nothing is said. */
static void marks_are_the_quotes_that_were_passed(void **state)
{
    (void)state;
    enum { LENGTH_MAX = 700 };
    char *text = malloc(LENGTH_MAX + SCAN_PADDING);
    size_t known = 0;
    assert_non_null(text);
    for (unsigned round = 0; round < 100000; round++) {
        const size_t length = random_of(LENGTH_MAX);
        make_text(text, length);
        for (unsigned path = SCAN_SCALAR; path < SCAN_PATH_COUNT; path++) {
            scan_close_fn *close = scan_close_of((enum scan_path)path);
            struct scan_close found;
            struct scan_marks marks = {.are_known = path == SCAN_SCALAR};
            if (!close || close(text, text + length, 1, &found, &marks) != SCAN_FOUND)
                continue;
            if (path == SCAN_SCALAR)
                assert_false(marks.are_known);
            known += marks.are_known;
            const size_t end = (size_t)(found.end - text);
            for (size_t i = 0; marks.are_known && i < end; i++) {
                assert_int_equal(marks.quotes[i / 64] >> i % 64 & 1, text[i] == '"');
                assert_int_not_equal(text[i], '\\');
            }
        }
    }
    print_message("%zu objects with marks\n", known);
    assert_true(known > 1000 || scan_close_best() == scan_close_scalar);
    free(text);
}

static void a_long_object_has_no_marks(void **state)
{
    (void)state;
    enum { MARKED = SCAN_MARKED_BLOCKS * 64 };
    char text[MARKED + 1 + SCAN_PADDING] = {0};
    struct scan_close found;
    struct scan_marks marks;
    scan_close_fn *close = scan_close_best();
    memset(text, ' ', MARKED);
    text[MARKED - 1] = '}';
    assert_int_equal(close(text, text + MARKED, 1, &found, &marks), SCAN_FOUND);
    assert_int_equal(marks.are_known, close != scan_close_scalar);
    text[MARKED - 1] = ' ';
    text[MARKED] = '}';
    assert_int_equal(close(text, text + MARKED + 1, 1, &found, &marks), SCAN_FOUND);
    assert_false(marks.are_known);
}

/* `at` and what a loop over bytes finds are the same place. */
static void assert_stops(const char *text, const char *at, const char *bytes, bool is_in_bytes)
{
    while (*text && (strchr(bytes, *text) != NULL) == is_in_bytes)
        text++;
    assert_ptr_equal(at, text);
}

static void blanks_numbers_and_structure_end_where_bytes_do(void **state)
{
    (void)state;
    static const char letters[] = "      \n\r\t00123456789-./\"{}[]+e:,x\x7f\x80\x1f";
    char text[80 + SCAN_PADDING];
    for (unsigned round = 0; round < 200000; round++) {
        const size_t length = random_of(80);
        const size_t kinds = 1 + random_of(sizeof letters - 1);
        memset(text, 0, sizeof text);
        for (size_t i = 0; i < length; i++)
            text[i] = letters[random_of(kinds)];
        assert_stops(text, scan_blanks(text), " \n\r\t", true);
        assert_stops(text, scan_number(text), "-./0123456789", true);
        assert_stops(text, scan_structure(text, text + length), "\"{}[]", false);
    }
}

static void a_string_ends_at_its_first_quote_without_a_backslash(void **state)
{
    (void)state;
    char text[256];
    for (size_t length = 0; length < 100; length++) {
        memset(text, 0, sizeof text);
        memset(text, 'x', length);
        text[length] = '"';
        bool has_escape = false;
        assert_ptr_equal(scan_string_end(text, text + length + 1, &has_escape), text + length);
        assert_false(has_escape);
        assert_null(scan_string_end(text, text + length, &has_escape));
        text[length] = '\\';
        text[length + 1] = '"';
        assert_null(scan_string_end(text, text + length + 2, &has_escape));
        text[length + 2] = '"';
        assert_ptr_equal(scan_string_end(text, text + length + 3, &has_escape), text + length + 2);
        assert_true(has_escape);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_paths_agree),
        cmocka_unit_test(marks_are_the_quotes_that_were_passed),
        cmocka_unit_test(a_long_object_has_no_marks),
        cmocka_unit_test(blanks_numbers_and_structure_end_where_bytes_do),
        cmocka_unit_test(a_string_ends_at_its_first_quote_without_a_backslash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
