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
    fprintf(to, "usage: rankscope VERB [...]\n\nverbs:\n");
    for (size_t i = 0; i < VERB_COUNT; i++)
        fprintf(to, "  %-12s %s\n", verbs[i].name, verbs[i].sentence);
    fprintf(to, "\nrankscope VERB --help says more; rankscope --version says which this is.\n");
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
    fprintf(stderr, "rankscope: there is no verb \"%.40s\"%s%s%s\n", word,
            nearest ? "; did you mean \"" : "", nearest ? nearest->name : "", nearest ? "\"?" : "");
    fprintf(stderr, "verbs:");
    for (size_t i = 0; i < VERB_COUNT; i++)
        fprintf(stderr, " %s", verbs[i].name);
    fprintf(stderr, "\n");
    return RS_EXIT_BAD_REQUEST;
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
        print_verbs(stdout);
        return RS_EXIT_COMPLETE;
    }
    for (size_t i = 0; i < VERB_COUNT; i++)
        if (strcmp(word, verbs[i].name) == 0)
            return verbs[i].run(argc - 1, argv + 1);
    return no_such_verb(word);
}
