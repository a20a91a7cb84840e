/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `rankscope VERB [...]`: the table of verbs, and which of them a command line means.
 */
#include "cli/verbs.h"

#include "cli/cli.h"
#include "cli/options/nearest.h"

#include <stdio.h>
#include <string.h>

/* RS_PROGRAM_VERSION comes from CMakeLists.txt. */

static const struct rs_verb own[] = {
    {.name = "analyse",
     .run = rs_cmd_analyse,
     .sentence = "join per-rank profiles that lie on this machine: tables and a report"},
    {.name = "report",
     .run = rs_cmd_report,
     .sentence = "the same tables and report from a capture of the aggregator"},
    {.name = "table",
     .run = rs_cmd_table,
     .sentence = "one table of a capture as CSV or JSON: findings, operations, steps, links, ..."},
    {.name = "query",
     .run = rs_cmd_query,
     .sentence = "the rows of a SELECT of one's own on the tables of a capture"},
    {.name = "history",
     .run = rs_cmd_history,
     .sentence =
         "captures of all runs together: step time, who was named, which hosts again and again",
     .words = "captures ranks findings hosts"},
    {.name = "aggregator",
     .run = rs_cmd_aggregator,
     .sentence = "takes what collectors send, stores it, answers questions"},
    {.name = "collector",
     .run = rs_cmd_collector,
     .sentence = "takes the profiles of this node and sends them"},
    {.name = "ranks", .run = rs_cmd_ranks, .sentence = "the live table of ranks"},
    {.name = "capture",
     .run = rs_cmd_capture,
     .sentence = "record steps of all ranks, wait, report; list, show, stop, wait",
     .words = "list show stop wait"},
    {.name = "watch",
     .run = rs_cmd_watch,
     .sentence = "waits until a run's steps take longer, then captures some and says why"},
    {.name = "counters",
     .run = rs_cmd_counters,
     .sentence = "what the daemons count: chunks, losses, refusals; for people and for Prometheus"},
    {.name = "aggregators",
     .run = rs_cmd_aggregators,
     .sentence = "which aggregators write into one database: who lives, where, how many captures"},
    {.name = "fetch",
     .run = rs_cmd_fetch,
     .sentence = "sends the raw data that a capture left with its collectors"},
    {.name = "verify",
     .run = rs_cmd_verify,
     .sentence = "reads a capture again: nothing missing, nothing double"},
    {.name = "archive",
     .run = rs_cmd_archive,
     .sentence = "moves closed captures to object storage"},
    {.name = "restore", .run = rs_cmd_restore, .sentence = "brings archived captures back"},
    {.name = "rm", .run = rs_cmd_rm, .sentence = "removes captures from the aggregator's store"},
    {.name = "store",
     .run = rs_cmd_store,
     .sentence = "rows of captures in a ClickHouse database: copy, rm",
     .subverbs = {"copy", "rm"}},
    {.name = "rebuild",
     .run = rs_cmd_rebuild,
     .sentence = "makes the databases of captures again from their segments"},
    {.name = "run", .run = rs_cmd_run, .sentence = "start a job so that it can be asked to record"},
    {.name = "doctor",
     .run = rs_cmd_doctor,
     .sentence = "which processes of this node can be captured, and why others cannot"},
    {.name = "hang",
     .run = rs_cmd_hang,
     .sentence = "why a job hangs, and which rank did not arrive, from flight recorder dumps"},
    {.name = "whatif",
     .run = rs_cmd_whatif,
     .sentence = "what a job would gain without its stragglers, from a table of operations"},
    {.name = "config",
     .run = rs_cmd_config,
     .sentence =
         "profiler_config.json: a template, a check, safe changes; which settings count here",
     .subverbs = {"init", "validate", "set", "show"}},
    {.name = "certs",
     .run = rs_cmd_certs,
     .sentence = "who may do what over TCP: make, issue, invite, renew, revoke, show",
     .subverbs = {"init", "issue", "invite", "renew", "revoke", "show"}},
    {.name = "token",
     .run = rs_cmd_token,
     .sentence = "who may use the HTTP API: new, list, revoke",
     .subverbs = {"new", "list", "revoke"}},
    {.name = "completion",
     .run = rs_cmd_completion,
     .sentence = "completion for bash, zsh or fish; man pages; a settings file",
     .words = "bash zsh fish man conf"},
};

enum { OWN_COUNT = sizeof own / sizeof own[0] };

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
    return verb ? verb->run(2, words) : no_such_verb(word);
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
    return verb ? verb->run(argc - 1, argv + 1) : no_such_verb(word);
}
