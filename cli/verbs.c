/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `rankscope VERB [...]`: which verb of the table (verbs.def) a command line means, and running it.
 */
#include "cli/verbs.h"

#include "cli/cli.h"
#include "cli/options/nearest.h"

#include <stdio.h>
#include <string.h>

/* RS_PROGRAM_VERSION comes from CMakeLists.txt. */

#define S(verb, name, ...)
#define V(name_, words_, sentence_)                                                                \
    {.name = #name_, .sentence = sentence_, .args = &rs_grammar_##name_, .words = words_},
#define G(name_, run_, about_, sentence_)                                                          \
    {.name = #name_, .sentence = sentence_, .run = run_, .about = about_},
static const struct rs_verb own[] = {
#include "cli/verbs.def"
};
#undef S
#undef V
#undef G
#define V(name, ...)
#define G(name, ...)
#define S(verb_, name_, sentence_)                                                                 \
    {.name = #verb_ " " #name_, .sentence = sentence_, .args = &rs_grammar_##verb_##_##name_},
static const struct rs_verb subs[] = {
#include "cli/verbs.def"
};

enum { OWN_COUNT = sizeof own / sizeof own[0], SUB_COUNT = sizeof subs / sizeof subs[0] };

static const struct rs_verb *added;
static size_t added_count;

void rs_verbs_add(const struct rs_verb *verbs, size_t count)
{
    added = verbs;
    added_count = count;
}

/* The last of our own, which speaks of all the others, stays the last. */
const struct rs_verb *rs_verb_at(size_t index)
{
    if (index < OWN_COUNT - 1)
        return &own[index];
    index -= OWN_COUNT - 1;
    if (index < added_count)
        return &added[index];
    return index == added_count ? &own[OWN_COUNT - 1] : NULL;
}

const struct rs_verb *rs_verb_sub(const struct rs_verb *verb, size_t index)
{
    const size_t length = strlen(verb->name);
    for (size_t i = 0; i < SUB_COUNT; i++)
        if (strncmp(subs[i].name, verb->name, length) == 0 && subs[i].name[length] == ' ' &&
            !index--)
            return &subs[i];
    return NULL;
}

const struct rs_verb *rs_verb_sub_named(const struct rs_verb *verb, const char *name)
{
    const struct rs_verb *sub = NULL;
    for (size_t i = 0; (sub = rs_verb_sub(verb, i)); i++)
        if (strcmp(sub->name + strlen(verb->name) + 1, name) == 0)
            return sub;
    return NULL;
}

/* One that is parsed by itself says what it takes when it is run. */
void rs_verb_describe(const struct rs_verb *verb, rs_args_describe_fn *describe, void *self)
{
    const struct rs_verb *sub = NULL;
    char name[32];
    char *words[] = {name, NULL};
    (void)snprintf(name, sizeof name, "%s", verb->name);
    for (size_t i = 0; (sub = rs_verb_sub(verb, i)); i++)
        rs_verb_describe(sub, describe, self);
    if (verb->args && verb->args->prepare)
        verb->args->prepare();
    if (verb->args) {
        describe(self, verb->args);
    } else if (!rs_verb_sub(verb, 0)) {
        rs_args_describe_with(describe, self);
        (void)verb->run(1, words);
        rs_args_describe_with(NULL, NULL);
    }
}

/* ---- running one ------------------------------------------------------------------------------------------------ */

static int run_by_grammar(const struct rs_args *args, int argc, char **argv)
{
    struct rs_err err = {0};
    int first = argc;
    if (args->prepare)
        args->prepare();
    const enum rs_status status = rs_args_parse(args, argc, argv, &first, &err);
    const int count = argc - first;
    if (status == RS_END)
        return RS_EXIT_COMPLETE;
    if (status == RS_OK && count >= args->least && count <= args->most)
        return args->run ? args->run(argv + first)
                         : rs_cli_end(args->verb, args->act(argv + first, &err), &err);
    if (status == RS_OK && args->expected)
        (void)rs_err_set(&err, RS_INVALID, "%s", args->expected);
    else if (status == RS_OK)
        (void)rs_err_set(&err, RS_INVALID, "\"%s\" is not expected here", argv[first + args->most]);
    return rs_cli_fail(args->verb, &err);
}

/* The sub-verb that argv[1] names; without one, or with --help, which there are. */
static int run_sub(const struct rs_verb *verb, int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : "";
    const bool is_help = strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
    FILE *to = is_help ? stdout : stderr;
    struct rs_nearest nearest = rs_nearest(word);
    const size_t length = strlen(verb->name) + 1;
    const struct rs_verb *sub = rs_verb_sub_named(verb, word);
    if (sub)
        return run_by_grammar(sub->args, argc - 1, argv + 1);
    for (size_t i = 0; (sub = rs_verb_sub(verb, i)); i++)
        rs_nearest_look(&nearest, sub->name + length);
    if (*word && !is_help)
        fprintf(to, "rankscope %s: there is no %s %.40s%s%s%s\n", verb->name, verb->name, word,
                nearest.best ? "; did you mean " : "", nearest.best ? nearest.best : "",
                nearest.best ? "?" : "");
    fprintf(to, "usage: rankscope %s WORD [OPTION...]\n\n%s\n\n", verb->name, verb->about);
    for (size_t i = 0; (sub = rs_verb_sub(verb, i)); i++)
        fprintf(to, "  %-8s %s\n", sub->name + length, sub->sentence);
    fprintf(to, "\nrankscope %s WORD --help says more.\n", verb->name);
    return is_help ? RS_EXIT_COMPLETE : RS_EXIT_BAD_REQUEST;
}

int rs_verb_run(const struct rs_verb *verb, int argc, char **argv)
{
    return verb->args  ? run_by_grammar(verb->args, argc, argv)
           : verb->run ? verb->run(argc, argv)
                       : run_sub(verb, argc, argv);
}

/* ---- the program's own help ------------------------------------------------------------------------------------- */

static void print_verbs(FILE *to)
{
    fprintf(to,
            "usage: rankscope VERB [OPTION...] [OPERAND...]\n\n"
            "Profiles all ranks of a training job at once, and says who makes the others wait.\n\n"
            "verbs:\n");
    for (size_t i = 0; rs_verb_at(i); i++)
        fprintf(to, "  %-12s %s\n", rs_verb_at(i)->name, rs_verb_at(i)->sentence);
    fprintf(to, "\nrankscope VERB --help says more; rankscope --version says which this is.\n");
}

static void print_help(void)
{
    print_verbs(stdout);
    printf(
        "\nresults go to stdout, what is missing or wrong to stderr.\n"
        "\nexit codes:\n"
        "  0    complete\n"
        "  1    a result, but partial: what is missing is said\n"
        "  2    bad request or bad input\n"
        "  3    refused: policy, permission, room; nothing was started\n"
        "  4    no aggregator answers\n"
        "  5    a threshold that was asked for is crossed (--fail-above)\n"
        "  130  interrupted\n"
        "\nenvironment (an option counts over it, it over the settings files; --help of a verb names what it reads):\n"
        "  RANKSCOPE_CONNECT      address of the aggregator: unix:PATH or HOST:PORT\n"
        "  RANKSCOPE_CERTS        folder of certificates for HOST:PORT (rankscope certs --help)\n"
        "  RANKSCOPE_RUNTIME_DIR  where the sockets are (default: /run/rankscope for root, else\n"
        "                         $XDG_RUNTIME_DIR/rankscope, else /tmp/rankscope-UID)\n"
        "  RANKSCOPE_DATA         the aggregator's data\n"
        "  RANKSCOPE_CONFIG       the only settings file to read (empty: none); default:\n"
        "                         /etc/rankscope/*.conf, then ~/.config/rankscope/*.conf\n"
        "  NO_COLOR               no colours on a terminal\n"
        "\nexamples:\n"
        "  rankscope analyse traces/ -o out      # traces that are there already\n"
        "  rankscope doctor                      # can this node's processes be captured\n"
        "  rankscope capture --steps 5 -o out    # five steps of a running job, then the report\n");
}

static int no_such_verb(const char *word)
{
    struct rs_nearest nearest = rs_nearest(word);
    for (size_t i = 0; rs_verb_at(i); i++)
        rs_nearest_look(&nearest, rs_verb_at(i)->name);
    if (*word == '-') {
        fprintf(
            stderr,
            "rankscope: there is no option %.40s; options stand behind a verb, see rankscope --help\n",
            word);
        return RS_EXIT_BAD_REQUEST;
    }
    fprintf(stderr, "rankscope: there is no verb \"%.40s\"%s%s%s\n", word,
            nearest.best ? "; did you mean \"" : "", nearest.best ? nearest.best : "",
            nearest.best ? "\"?" : "");
    fprintf(stderr, "verbs:");
    for (size_t i = 0; rs_verb_at(i); i++)
        fprintf(stderr, " %s", rs_verb_at(i)->name);
    fprintf(stderr, "\n");
    return RS_EXIT_BAD_REQUEST;
}

static const struct rs_verb *find_verb(const char *word)
{
    for (size_t i = 0; rs_verb_at(i); i++)
        if (strcmp(word, rs_verb_at(i)->name) == 0)
            return rs_verb_at(i);
    return NULL;
}

/* `rankscope help VERB`. */
static int help_of(char *word)
{
    char help[] = "--help";
    char *words[] = {word, help, NULL};
    const struct rs_verb *verb = find_verb(word);
    return verb ? rs_verb_run(verb, 2, words) : no_such_verb(word);
}

int rs_cli_main(int argc, char **argv)
{
    if (argc < 2) {
        print_verbs(stderr);
        return RS_EXIT_BAD_REQUEST;
    }
    const char *word = argv[1];
    if (strcmp(word, "--version") == 0) {
        printf("rankscope %s\n", RS_PROGRAM_VERSION);
        return RS_EXIT_COMPLETE;
    }
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0) {
        if (*word == 'h' && argc > 2)
            return help_of(argv[2]);
        print_help();
        return RS_EXIT_COMPLETE;
    }
    const struct rs_verb *verb = find_verb(word);
    return verb ? rs_verb_run(verb, argc - 1, argv + 1) : no_such_verb(word);
}
