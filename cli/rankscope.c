/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `rankscope VERB [...]`: the table of verbs and nothing else.
 */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

/* RS_PROGRAM_VERSION comes from CMakeLists.txt. */

static const struct verb {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *sentence;
} verbs[] = {
    {"analyse", rs_cmd_analyse,
     "join per-rank profiles that lie on this machine: tables and a report"},
    {"report", rs_cmd_report, "the same tables and report from a capture of the aggregator"},
    {"aggregator", rs_cmd_aggregator, "takes what collectors send, stores it, answers questions"},
    {"collector", rs_cmd_collector, "takes the profiles of this node and sends them"},
    {"ranks", rs_cmd_ranks, "the live table of ranks"},
    {"capture", rs_cmd_capture, "record steps of all ranks, wait, report; list, show, stop, wait"},
    {"verify", rs_cmd_verify, "reads a capture again: nothing missing, nothing double"},
    {"run", rs_cmd_run, "start a job so that it can be asked to record"},
    {"doctor", rs_cmd_doctor,
     "which processes of this node can be captured, and why others cannot"},
    {"config", rs_cmd_config, "profiler_config.json: a template, a check, safe changes"},
    {"recipe", rs_cmd_recipe, "official cluster tables from the databases of Ascend ranks"},
    {"cluster", rs_cmd_cluster, "official cluster output of an Ascend job, text or database"},
    {"export", rs_cmd_export, "ranks of any kind as directories that other tools open"},
};

enum { VERB_COUNT = sizeof verbs / sizeof verbs[0] };

static void print_verbs(FILE *to)
{
    fprintf(to,
            "usage: rankscope VERB [OPTION...] [OPERAND...]\n\n"
            "Profiles all ranks of a training job at once, and says who makes the others wait.\n\n"
            "verbs:\n");
    for (size_t i = 0; i < VERB_COUNT; i++)
        fprintf(to, "  %-12s %s\n", verbs[i].name, verbs[i].sentence);
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
        "\nenvironment (an option counts over it; --help of a verb names those it reads):\n"
        "  RANKSCOPE_CONNECT      address of the aggregator: unix:PATH or HOST:PORT\n"
        "  RANKSCOPE_RUNTIME_DIR  where the sockets are (default: /run/rankscope for root, else\n"
        "                         $XDG_RUNTIME_DIR/rankscope, else /tmp/rankscope-UID)\n"
        "  RANKSCOPE_DATA         the aggregator's data\n"
        "  NO_COLOR               no colours on a terminal\n"
        "\nexamples:\n"
        "  rankscope analyse traces/ -o out      # traces that are there already\n"
        "  rankscope doctor                      # can this node's processes be captured\n"
        "  rankscope capture --steps 5 -o out    # five steps of a running job, then the report\n");
}

static size_t min3(size_t a, size_t b, size_t c)
{
    const size_t ab = a < b ? a : b;
    return ab < c ? ab : c;
}

/* Edit distance of two short words; words longer than the row are told apart by their beginning. */
static size_t distance(const char *a, const char *b)
{
    enum { ROW = 24 };
    size_t row[ROW + 1];
    const size_t width = strnlen(b, ROW);
    for (size_t j = 0; j <= width; j++)
        row[j] = j;
    for (size_t i = 0; a[i] && i < ROW; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < width; j++) {
            const size_t above = row[j + 1];
            row[j + 1] = min3(above + 1, row[j] + 1, diagonal + (a[i] != b[j]));
            diagonal = above;
        }
    }
    return row[width];
}

static int no_such_verb(const char *word)
{
    const struct verb *nearest = NULL;
    size_t best = 4; /* further away is another word, not a slip */
    for (size_t i = 0; i < VERB_COUNT; i++) {
        const size_t d = distance(word, verbs[i].name);
        if (d < best) {
            best = d;
            nearest = &verbs[i];
        }
    }
    if (*word == '-') {
        fprintf(
            stderr,
            "rankscope: there is no option %.40s; options stand behind a verb, see rankscope --help\n",
            word);
        return RS_EXIT_BAD_REQUEST;
    }
    fprintf(stderr, "rankscope: there is no verb \"%.40s\"%s%s%s\n", word,
            nearest ? "; did you mean \"" : "", nearest ? nearest->name : "", nearest ? "\"?" : "");
    fprintf(stderr, "verbs:");
    for (size_t i = 0; i < VERB_COUNT; i++)
        fprintf(stderr, " %s", verbs[i].name);
    fprintf(stderr, "\n");
    return RS_EXIT_BAD_REQUEST;
}

static const struct verb *find_verb(const char *word)
{
    for (size_t i = 0; i < VERB_COUNT; i++)
        if (strcmp(word, verbs[i].name) == 0)
            return &verbs[i];
    return NULL;
}

/* `rankscope help VERB`. */
static int help_of(char *word)
{
    char help[] = "--help";
    char *words[] = {word, help, NULL};
    const struct verb *verb = find_verb(word);
    return verb ? verb->run(2, words) : no_such_verb(word);
}

int main(int argc, char **argv)
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
    const struct verb *verb = find_verb(word);
    return verb ? verb->run(argc - 1, argv + 1) : no_such_verb(word);
}
