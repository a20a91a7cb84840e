/* SPDX-License-Identifier: Apache-2.0 */
/* The command line as a whole, in this process: which verb is meant, what is printed where, which exit code. */
#include "cli/verbs.h"

#include "cli/cli.h"
#include "tests/support/rs_test.h"
#include "tests/support/tmp_dir.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORDS_MAX = 8, TEXT_BYTES = 262144 };

static struct {
    char folder[64];
    char out[TEXT_BYTES], err[TEXT_BYTES]; /* of the last run */
} said;

static int setup(void **state)
{
    (void)state;
    tmp_dir_make(said.folder);
    return setenv("RANKSCOPE_CONFIG", "", 1) || setenv("RANKSCOPE_RUNTIME_DIR", said.folder, 1) ||
           unsetenv("RANKSCOPE_CONNECT") || unsetenv("RANKSCOPE_DATA");
}

static int teardown(void **state)
{
    (void)state;
    tmp_dir_remove(said.folder);
    return 0;
}

static void divert(FILE *stream, const char *name)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/%s", said.folder, name);
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || dup2(fd, fileno(stream)) < 0)
        _exit(99);
}

static void read_back(const char *name, char text[TEXT_BYTES])
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/%s", said.folder, name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, TEXT_BYTES - 1, file)] = '\0';
    (void)fclose(file);
}

/* The exit code of "rankscope WORDS"; said.out and said.err are what it printed. In a process of its own, as verbs expect it. */
static int run(const char *text)
{
    char line[256];
    char program[] = "rankscope";
    char *argv[WORDS_MAX + 1] = {program};
    char *rest = NULL;
    int argc = 1, status = 0;
    (void)snprintf(line, sizeof line, "%s", text);
    for (char *word = strtok_r(line, " ", &rest); word && argc < WORDS_MAX;
         word = strtok_r(NULL, " ", &rest))
        argv[argc++] = word;
    argv[argc] = NULL;
    (void)fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        divert(stdout, "out");
        divert(stderr, "err");
        const int code = rs_cli_main(argc, argv);
        (void)fflush(NULL);
        _exit(code);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    read_back("out", said.out);
    read_back("err", said.err);
    return WEXITSTATUS(status);
}

static void assert_says(const char *text, const char *wanted)
{
    if (!strstr(text, wanted))
        fail_msg("\"%.300s\" does not say \"%s\"", text, wanted);
}

static void without_a_verb_there_is_the_list(void **state)
{
    (void)state;
    assert_int_equal(run(""), RS_EXIT_BAD_REQUEST);
    assert_string_equal(said.out, "");
    assert_int_equal(run("--help"), RS_EXIT_COMPLETE);
    assert_string_equal(said.err, "");
    for (size_t i = 0; rs_verb_at(i); i++)
        assert_says(said.out, rs_verb_at(i)->sentence);
    assert_says(said.out, "exit codes:");
    assert_int_equal(run("--version"), RS_EXIT_COMPLETE);
    assert_string_equal(said.out, "rankscope " RS_PROGRAM_VERSION "\n");
}

static void a_slip_in_the_verb_is_answered_with_the_nearest(void **state)
{
    (void)state;
    assert_int_equal(run("analyze traces"), RS_EXIT_BAD_REQUEST);
    assert_says(said.err, "there is no verb \"analyze\"; did you mean \"analyse\"?");
    assert_string_equal(said.out, "");
    assert_int_equal(run("--quiet"), RS_EXIT_BAD_REQUEST);
    assert_says(said.err, "options stand behind a verb");
    assert_int_equal(run("help reprot"), RS_EXIT_BAD_REQUEST);
    assert_says(said.err, "did you mean \"report\"?");
}

/* Nothing is asked, opened or started for it. */
static void every_verb_helps_and_refuses_what_it_does_not_know(void **state)
{
    (void)state;
    for (size_t i = 0; rs_verb_at(i); i++) {
        char line[128], prefix[64];
        const struct rs_verb *verb = rs_verb_at(i);
        (void)snprintf(line, sizeof line, "%s --help", verb->name);
        if (run(line) != RS_EXIT_COMPLETE)
            fail_msg("%s: %s", line, said.err);
        assert_says(said.out, "usage: rankscope ");
        assert_string_equal(said.err, "");
        (void)snprintf(line, sizeof line, "%s --no-such-option-at-all", verb->name);
        (void)snprintf(prefix, sizeof prefix, "rankscope %s", verb->name);
        if (run(line) != RS_EXIT_BAD_REQUEST)
            fail_msg("%s is taken", line);
        if (strncmp(said.err, prefix, strlen(prefix)) != 0)
            fail_msg("%s: \"%s\"", line, said.err);
        assert_string_equal(said.out, "");
    }
}

/* A sentence on stderr that begins with the verb, nothing on stdout, and the code of contracts section 2. */
static void what_is_missing_is_said(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        int code;
        const char *says;
    } cases[] = {
        {"analyse", RS_EXIT_BAD_REQUEST, "give a file or a folder"},
        {"analyse /no/such/folder", RS_EXIT_BAD_REQUEST, "/no/such/folder"},
        {"analyse --cluster x", RS_EXIT_BAD_REQUEST, "say with --out"},
        {"analyse x --cluster -o y", RS_EXIT_BAD_REQUEST, "built without Ascend"},
        {"whatif", RS_EXIT_BAD_REQUEST, "one file"},
        {"whatif /no/such.csv", RS_EXIT_BAD_REQUEST, "/no/such.csv"},
        {"hang /no/such/folder", RS_EXIT_BAD_REQUEST, "/no/such/folder"},
        {"fetch", RS_EXIT_BAD_REQUEST, "the ID of one capture"},
        {"counters now", RS_EXIT_BAD_REQUEST, "no operand"},
        {"counters --json --prometheus", RS_EXIT_BAD_REQUEST, "either"},
        {"counters --connect unix:/no/such.sock", RS_EXIT_UNREACHABLE, "/no/such.sock"},
        {"ranks --connect unix:/no/such.sock", RS_EXIT_UNREACHABLE, "/no/such.sock"},
        {"capture list --connect unix:/no/such.sock", RS_EXIT_UNREACHABLE, "/no/such.sock"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const int code = run(cases[i].line);
        if (code != cases[i].code)
            fail_msg("%s: exit %d: %s", cases[i].line, code, said.err);
        assert_true(strncmp(said.err, "rankscope ", 10) == 0);
        assert_says(said.err, cases[i].says);
        assert_string_equal(said.out, "");
    }
}

/* What --help, completion and man pages read is what a line is parsed by. */
static void every_verb_has_a_grammar(void **state)
{
    (void)state;
    for (size_t i = 0; rs_verb_at(i); i++) {
        const struct rs_verb *verb = rs_verb_at(i), *sub = rs_verb_sub(verb, 0);
        if (!verb->args == !sub)
            fail_msg("%s has a grammar or sub-verbs, and not both", verb->name);
        for (size_t k = 0; (sub = rs_verb_sub(verb, k)); k++) {
            assert_non_null(sub->args);
            assert_string_equal(sub->args->verb, sub->name);
            assert_ptr_equal(rs_verb_sub_named(verb, sub->name + strlen(verb->name) + 1), sub);
        }
        if (verb->args)
            assert_string_equal(verb->args->verb, verb->name);
    }
}

static void count_options(void *self, const struct rs_args *args)
{
    size_t *count = self;
    *count += args->count;
}

static void a_verb_of_verbs_is_described_by_its_sub_verbs(void **state)
{
    (void)state;
    for (size_t i = 0; rs_verb_at(i); i++) {
        size_t described = 0, own = rs_verb_at(i)->args ? rs_verb_at(i)->args->count : 0;
        const struct rs_verb *sub = NULL;
        for (size_t k = 0; (sub = rs_verb_sub(rs_verb_at(i), k)); k++)
            own += sub->args->count;
        rs_verb_describe(rs_verb_at(i), count_options, &described);
        assert_int_equal(described, own);
        assert_true(described > 0);
    }
}

/* Options are looked at first, then the number of operands. */
static void operands_too_few_or_too_many_are_refused(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"doctor x", "\"x\" is not expected here"},
        {"ranks x y", "\"x\" is not expected here"},
        {"watch a b", "\"b\" is not expected here"},
        {"aggregators x", "aggregators takes no operand"},
        {"fetch a b", "fetch takes the ID of one capture"},
        {"rm", "rm takes the IDs of captures"},
        {"store copy a", "give where from and where to"},
        {"certs issue operator", "PARTY, NAME and --out DIR are expected"},
        {"certs issue operator a", "PARTY, NAME and --out DIR are expected"},
        {"certs renew a b", "one DIR is expected"},
        {"token revoke", "an ID or PARTY/NAME is expected"},
        {"config set a.json", "FILE and at least one KEY=VALUE are expected"},
        {"completion", "one of bash, zsh, fish, man, conf is expected"},
        {"completion bash zsh", "one of bash, zsh, fish, man, conf is expected"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (run(cases[i][0]) != RS_EXIT_BAD_REQUEST)
            fail_msg("%s is taken", cases[i][0]);
        assert_says(said.err, cases[i][1]);
        assert_string_equal(said.out, "");
    }
    assert_int_equal(run("fetch a b --no-such"), RS_EXIT_BAD_REQUEST);
    assert_says(said.err, "there is no option --no-such");
}

static void sub_verbs_are_listed_and_a_slip_is_answered(void **state)
{
    (void)state;
    assert_int_equal(run("certs"), RS_EXIT_BAD_REQUEST);
    assert_says(said.err, "usage: rankscope certs WORD");
    assert_says(said.err, "  renew    the same identity, a new key, more time\n");
    assert_int_equal(run("certs --help"), RS_EXIT_COMPLETE);
    assert_string_equal(said.err, "");
    assert_int_equal(run("token revok x"), RS_EXIT_BAD_REQUEST);
    assert_says(said.err, "there is no token revok; did you mean revoke?");
    assert_int_equal(run("config sho"), RS_EXIT_BAD_REQUEST);
    assert_says(said.err, "init, validate, set or show is expected, not \"sho\"");
}

/* The command's options are its own. */
static void options_of_run_end_at_the_command(void **state)
{
    (void)state;
    assert_int_equal(run("run --run r1 /no/such/command --help --run r2"), 127);
    assert_says(said.err, "cannot start /no/such/command");
    assert_int_equal(run("run -- /no/such/command --print-env"), 127);
    assert_int_equal(run("run --print-env --run r1"), RS_EXIT_COMPLETE);
    assert_says(said.out, "export RANKSCOPE_RUN='r1' # the run's name\n");
    assert_int_equal(run("run"), RS_EXIT_BAD_REQUEST);
    assert_says(said.err, "there is no command");
}

static void completion_and_man_pages_know_every_option(void **state)
{
    (void)state;
    assert_int_equal(run("completion man"), RS_EXIT_COMPLETE);
    assert_says(said.out, "certs issue");
    assert_int_equal(run("completion fish"), RS_EXIT_COMPLETE);
    assert_says(
        said.out,
        "__fish_seen_subcommand_from token; and __fish_seen_subcommand_from new' -l operator");
    assert_int_equal(run("completion bash"), RS_EXIT_COMPLETE);
    assert_says(said.out, "certs) words=\" init issue invite renew revoke show\"; verb=");
    assert_says(said.out, "\"config set\") options=\"--help --framework --quiet\"");
}

static int fake_verb(int argc, char **argv)
{
    return argc == 2 && strcmp(argv[1], "x") == 0 ? RS_EXIT_PARTIAL : RS_EXIT_COMPLETE;
}

static void verbs_of_a_wing_stand_before_the_last(void **state)
{
    (void)state;
    static const struct rs_verb wing[] = {
        {.name = "winged", .run = fake_verb, .sentence = "of a wing"}};
    size_t count = 0;
    assert_int_equal(run("winged x"), RS_EXIT_BAD_REQUEST);
    rs_verbs_add(wing, 1);
    while (rs_verb_at(count))
        count++;
    assert_string_equal(rs_verb_at(count - 2)->name, "winged");
    assert_string_equal(rs_verb_at(count - 1)->name, "completion");
    assert_int_equal(run("winged x"), RS_EXIT_PARTIAL);
    rs_verbs_add(NULL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_verb_there_is_the_list),
        cmocka_unit_test(a_slip_in_the_verb_is_answered_with_the_nearest),
        cmocka_unit_test(every_verb_helps_and_refuses_what_it_does_not_know),
        cmocka_unit_test(what_is_missing_is_said),
        cmocka_unit_test(every_verb_has_a_grammar),
        cmocka_unit_test(a_verb_of_verbs_is_described_by_its_sub_verbs),
        cmocka_unit_test(operands_too_few_or_too_many_are_refused),
        cmocka_unit_test(sub_verbs_are_listed_and_a_slip_is_answered),
        cmocka_unit_test(options_of_run_end_at_the_command),
        cmocka_unit_test(completion_and_man_pages_know_every_option),
        cmocka_unit_test(verbs_of_a_wing_stand_before_the_last),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
