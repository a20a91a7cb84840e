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

static const struct rs_arg items[] = {
    {.name = "quiet", .letter = 'q', .kind = RS_ARG_FLAG, .target = &words.is_quiet, .help = "h"},
    {.name = "out",
     .letter = 'o',
     .kind = RS_ARG_TEXT,
     .target = &words.out,
     .value = "DIR",
     .help = "h",
     .environment = "RANKSCOPE_UNIT_OUT"},
    {.name = "from", .kind = RS_ARG_LIST, .target = &words.from, .value = "P", .help = "h"},
    {.name = "jobs",
     .letter = 'j',
     .kind = RS_ARG_INT,
     .target = &words.jobs,
     .value = "N",
     .help = "h",
     .min = 1,
     .max = 256},
    {.name = "wait", .kind = RS_ARG_DURATION, .target = &words.wait_ns, .value = "T", .help = "h"},
    {.name = "bytes", .kind = RS_ARG_SIZE, .target = &words.bytes, .value = "B", .help = "h"},
    {.name = "share", .kind = RS_ARG_PERCENT, .target = &words.share, .value = "X%", .help = "h"},
    {.name = "pause",
     .kind = RS_ARG_DURATION,
     .target = &words.pause_ns,
     .value = "T",
     .help = "h",
     .with = "quiet"},
    {.name = "limit",
     .kind = RS_ARG_INT,
     .target = &words.limit,
     .value = "N",
     .help = "h",
     .with = "out"},
};
static const struct rs_args args = {.verb = "analyse",
                                    .operands = "PATH...",
                                    .summary = "s",
                                    .items = items,
                                    .count = sizeof items / sizeof items[0]};

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
        cmocka_unit_test(numbers_are_whole_texts),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
