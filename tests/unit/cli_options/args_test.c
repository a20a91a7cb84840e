/* SPDX-License-Identifier: Apache-2.0 */
/* Options of a verb: what is taken, and the sentence for what is not. */
#include "cli/options/args.h"

#include "tests/support/rs_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    bool is_quiet;
    const char *out;
    struct rs_arg_list from;
    int64_t jobs, wait_ns, bytes, pause_ns, limit;
    double share;
} words;

/* clang-format off */
static const struct rs_arg items[] = {
    RS_OPT_FLAG("quiet", 'q', &words.is_quiet, "h"),
    RS_OPT_TEXT("out", 'o', &words.out, "DIR", "h", .environment = "RANKSCOPE_UNIT_OUT"),
    RS_OPT_LIST("from", 0, &words.from, "P", "h"),
    RS_OPT_INT("jobs", 'j', &words.jobs, "N", 1, 256, "h"),
    RS_OPT_TIME("wait", 0, &words.wait_ns, "T", "h"),
    RS_OPT_SIZE("bytes", 0, &words.bytes, "B", "h"),
    RS_OPT_SHARE("share", 0, &words.share, "X%", "h"),
    RS_OPT_TIME("pause", 0, &words.pause_ns, "T", "h", .with = "quiet"),
    RS_OPT_INT("limit", 0, &words.limit, "N", 0, 0, "h", .with = "out"),
};
/* clang-format on */
static const struct rs_args args = {
    .verb = "analyse", .operands = "PATH...", .summary = "s", RS_OPTIONS(items)};

enum { WORDS_MAX = 12 };

/* Of a line of words; `line` is changed. */
static enum rs_status parse(char *line, char *argv[WORDS_MAX], int *argc_p, int *first_p,
                            struct rs_err *err)
{
    int argc = 0;
    char *rest = NULL;
    memset(&words, 0, sizeof words);
    words.jobs = 4;
    for (char *word = strtok_r(line, " ", &rest); word && argc < WORDS_MAX - 1;
         word = strtok_r(NULL, " ", &rest))
        argv[argc++] = word;
    argv[argc] = NULL;
    *argc_p = argc;
    return rs_args_parse(&args, argc, argv, first_p, err);
}

static int setup(void **state)
{
    (void)state;
    return setenv("RANKSCOPE_CONFIG", "", 1); /* no settings of whoever runs this */
}

static void options_stand_before_or_behind_operands(void **state)
{
    (void)state;
    char line[] =
        "analyse a -q b --out=dir --from x --from y -j 7 --wait 200ms --bytes 64MiB --share 5% c";
    char *argv[24];
    int argc = 0, first = 0;
    char *rest = NULL;
    struct rs_err err = {0};
    memset(&words, 0, sizeof words);
    for (char *word = strtok_r(line, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        argv[argc++] = word;
    argv[argc] = NULL;
    assert_ok(rs_args_parse(&args, argc, argv, &first, &err));
    assert_int_equal(argc - first, 3);
    assert_string_equal(argv[first], "a");
    assert_string_equal(argv[first + 2], "c");
    assert_true(words.is_quiet);
    assert_string_equal(words.out, "dir");
    assert_int_equal(words.from.count, 2);
    assert_string_equal(words.from.items[1], "y");
    assert_int_equal(words.jobs, 7);
    assert_int_equal(words.wait_ns, 200000000);
    assert_int_equal(words.bytes, 64 << 20);
    assert_true(words.share > 0.0499 && words.share < 0.0501);
}

static void what_is_wrong_is_named_with_what_was_meant(void **state)
{
    (void)state;
    static const struct {
        const char *line, *says[3];
    } cases[] = {
        {"analyse --ot dir", {"--ot", "--out", "--help"}},
        {"analyse --zzzzzzzz", {"there is no option --zzzzzzzz", "rankscope analyse --help", ""}},
        {"analyse -x", {"there is no option -x", "rankscope analyse --help", ""}},
        {"analyse --quiet=yes", {"--quiet takes no value", "", ""}},
        {"analyse --out", {"--out needs a value", "rankscope analyse --help", ""}},
        {"analyse -j 0", {"1", "256", "0"}},
        {"analyse -j 257", {"1", "256", "257"}},
        {"analyse -j 3x", {"3x", "", ""}},
        {"analyse -j 99999999999999999999", {"99999999999999999999", "", ""}},
        {"analyse --wait 5parsecs", {"5parsecs", "", ""}},
        {"analyse --bytes -1", {"-1", "", ""}},
        {"analyse --share much", {"much", "", ""}},
        {"analyse --pause 3s", {"--pause does nothing without --quiet", "--help", ""}},
        {"analyse --limit 3", {"--limit does nothing without --out", "--help", ""}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char line[128], *argv[WORDS_MAX];
        int argc = 0, first = 0;
        struct rs_err err = {0};
        (void)snprintf(line, sizeof line, "%s", cases[i].line);
        if (parse(line, argv, &argc, &first, &err) != RS_INVALID)
            fail_msg("\"%s\" is taken", cases[i].line);
        for (size_t k = 0; k < 3; k++)
            if (!strstr(err.text, cases[i].says[k]))
                fail_msg("\"%s\": \"%s\" does not say \"%s\"", cases[i].line, err.text,
                         cases[i].says[k]);
    }
}

static void defaults_stay_and_the_environment_counts_behind_the_option(void **state)
{
    (void)state;
    char bare[] = "analyse", given[] = "analyse -o mine", dashes[] = "analyse -- -q";
    char *argv[WORDS_MAX];
    int argc = 0, first = 0;
    struct rs_err err = {0};
    assert_int_equal(setenv("RANKSCOPE_UNIT_OUT", "environment", 1), 0);
    assert_ok(parse(bare, argv, &argc, &first, &err));
    assert_string_equal(words.out, "environment");
    assert_int_equal(words.jobs, 4);
    assert_ok(parse(given, argv, &argc, &first, &err));
    assert_string_equal(words.out, "mine");
    assert_int_equal(unsetenv("RANKSCOPE_UNIT_OUT"), 0);
    assert_ok(parse(dashes, argv, &argc, &first, &err));
    assert_false(words.is_quiet);
    assert_string_equal(argv[first], "-q");
}

static void what_another_option_needs_may_come_from_anywhere(void **state)
{
    (void)state;
    char flag[] = "analyse --pause 3s -q", text[] = "analyse --limit 3 -o x";
    char environment[] = "analyse --limit 3";
    char *argv[WORDS_MAX];
    int argc = 0, first = 0;
    struct rs_err err = {0};
    assert_ok(parse(flag, argv, &argc, &first, &err));
    assert_ok(parse(text, argv, &argc, &first, &err));
    assert_int_equal(setenv("RANKSCOPE_UNIT_OUT", "environment", 1), 0);
    assert_ok(parse(environment, argv, &argc, &first, &err));
    assert_int_equal(words.limit, 3);
    assert_int_equal(unsetenv("RANKSCOPE_UNIT_OUT"), 0);
}

static void what_was_typed_is_told_from_what_was_set_otherwise(void **state)
{
    (void)state;
    char begun[] = "analyse --qui --limit 3";
    char *argv[WORDS_MAX];
    int argc = 0, first = 0;
    struct rs_err err = {0};
    assert_int_equal(setenv("RANKSCOPE_UNIT_OUT", "environment", 1), 0);
    assert_ok(parse(begun, argv, &argc, &first, &err));
    assert_true(rs_args_was_given("quiet"));
    assert_true(rs_args_was_given("limit"));
    assert_string_equal(words.out, "environment");
    assert_false(rs_args_was_given("out"));
    assert_int_equal(unsetenv("RANKSCOPE_UNIT_OUT"), 0);
}

static void options_of_a_launcher_end_at_the_first_operand(void **state)
{
    (void)state;
    char launcher_word[] = "run", quiet[] = "-q", command[] = "echo", own[] = "--out=x";
    char *argv[] = {launcher_word, quiet, command, own, NULL};
    const struct rs_args launcher = {
        .verb = "run", .operands = "CMD", .summary = "s", RS_OPTIONS(items), .is_launcher = true};
    int first = 0;
    memset(&words, 0, sizeof words);
    assert_ok(rs_args_parse(&launcher, 4, argv, &first, NULL));
    assert_true(words.is_quiet);
    assert_null(words.out);
    assert_int_equal(first, 2);
    assert_string_equal(argv[3], "--out=x");
}

static void numbers_are_whole_texts(void **state)
{
    (void)state;
    int64_t value = 77;
    double share = 77;
    assert_status(rs_args_int("", 0, 0, &value), RS_INVALID);
    assert_status(rs_args_int("12 ", 0, 0, &value), RS_INVALID);
    assert_status(rs_args_duration("", &value), RS_INVALID);
    assert_status(rs_args_duration("9223372036854775807h", &value), RS_INVALID);
    assert_status(rs_args_size("1XB", &value), RS_INVALID);
    assert_status(rs_args_size("99999999999GB", &value), RS_INVALID);
    assert_status(rs_args_percent("nan", &share), RS_INVALID);
    assert_int_equal(value, 77);
    assert_ok(rs_args_duration("1.5s", &value));
    assert_int_equal(value, 1500000000);
    assert_ok(rs_args_size("4096", &value));
    assert_int_equal(value, 4096);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_stand_before_or_behind_operands),
        cmocka_unit_test(what_is_wrong_is_named_with_what_was_meant),
        cmocka_unit_test(defaults_stay_and_the_environment_counts_behind_the_option),
        cmocka_unit_test(what_another_option_needs_may_come_from_anywhere),
        cmocka_unit_test(what_was_typed_is_told_from_what_was_set_otherwise),
        cmocka_unit_test(options_of_a_launcher_end_at_the_first_operand),
        cmocka_unit_test(numbers_are_whole_texts),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
