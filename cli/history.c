/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `rankscope history [VIEW]`: rows over the captures of all runs.
 *
 *     VIEW      AskHistory --> rows of a view (aggregator/model/history.h) --> CSV or JSON
 *     without   hosts, then captures --> lines for people: "host n3 was named in 7 of 9 runs", then a line a capture
 */
#include "aggregator/output/history.h"

#include "cli/cli.h"
#include "cli/options/nearest.h"
#include "cli/print_rows.h"
#include "cli/verbs.h"
#include "common/base/lend.h"
#include "common/base/time.h"
#include "common/client/client.h"
#include "common/request/numbers.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char verb[] = "history";
enum { RANKS_MAX = 1024 };

static struct {
    const char *connect, *ranks;
    struct rs_arg_list runs, hosts;
    int64_t limit, since_ns;
    bool as_json, as_schema;
} words;

static struct {
    uint32_t ranks[RANKS_MAX];
    size_t rank_count;
    char *runs[RS_ARG_LIST_MAX], *hosts[RS_ARG_LIST_MAX];
} chosen;

/* ---- for people --------------------------------------------------------------------------------------------------------- */

static struct rs_history_told told;

static void say(const struct rs_block *block,
                void (*put)(const struct rs_block *block, struct rs_history_told *told,
                            struct rs_buf *buf))
{
    struct rs_buf buf = {0};
    put(block, &told, &buf);
    fputs(rs_buf_text(&buf), stdout);
    rs_buf_fini(&buf);
}

static void say_hosts(void *self, const struct rs_block *block)
{
    (void)self;
    say(block, rs_history_hosts_text);
}

static void say_captures(void *self, const struct rs_block *block)
{
    (void)self;
    say(block, rs_history_captures_text);
}

/* ---- asking -------------------------------------------------------------------------------------------------------------- */

static int ask(const struct rs_address *address, enum rs_history_view view, uint64_t limit,
               struct rs_rows_printer *printer)
{
    struct rs_err err = {0};
    Rankscope__AskHistory question = RANKSCOPE__ASK_HISTORY__INIT;
    Rankscope__Ask message = RANKSCOPE__ASK__INIT;
    question.view = rs_lend(rs_history_def(view)->name);
    question.runs = chosen.runs;
    question.n_runs = words.runs.count;
    question.hosts = chosen.hosts;
    question.n_hosts = words.hosts.count;
    question.ranks = chosen.ranks;
    question.n_ranks = chosen.rank_count;
    question.since_ns = words.since_ns ? rs_time_realtime() - words.since_ns : 0;
    question.limit = limit;
    message.message_case = RANKSCOPE__ASK__MESSAGE_HISTORY;
    message.history = &question;
    const enum rs_status status =
        rs_client_pages_ask(address, &message, rs_rows_take_page, printer, &err);
    return rs_rows_finish(printer, status, &err);
}

static int cannot_print(void)
{
    struct rs_err err = {0};
    (void)rs_err_errno(&err, "cannot print the history");
    return rs_cli_fail(verb, &err);
}

static int say_all(const struct rs_address *address)
{
    struct rs_rows_printer hosts = {
        .verb = verb, .table = rs_history_def(RS_HISTORY_HOSTS)->table, .take = say_hosts};
    struct rs_rows_printer captures = {
        .verb = verb, .table = rs_history_def(RS_HISTORY_CAPTURES)->table, .take = say_captures};
    int hosts_code = RS_EXIT_COMPLETE;
    if (!chosen.rank_count) { /* a rank may be on another host each time */
        hosts_code = ask(address, RS_HISTORY_HOSTS, 0, &hosts);
        if (hosts_code != RS_EXIT_COMPLETE && hosts_code != RS_EXIT_PARTIAL)
            return hosts_code;
        if (told.quiet)
            printf("%zu %shost%s that nobody named\n", told.quiet, told.loud ? "other " : "",
                   told.quiet == 1 ? "" : "s");
        if (told.quiet || told.loud)
            fputs("\n", stdout);
    }
    captures.is_told = hosts_code == RS_EXIT_PARTIAL;
    const int code = ask(address, RS_HISTORY_CAPTURES, (uint64_t)words.limit, &captures);
    if (code != RS_EXIT_COMPLETE && code != RS_EXIT_PARTIAL)
        return code;
    if (!told.has_begun)
        printf("there is no closed capture%s\n",
               words.runs.count || words.hosts.count || chosen.rank_count || words.since_ns
                   ? " of these"
                   : "");
    if (fflush(stdout) != 0)
        return cannot_print();
    /* The first answer may have lacked what was joined for the second. */
    return code == RS_EXIT_COMPLETE ? hosts_code : code;
}

/* ---- the verb -------------------------------------------------------------------------------------------------------------- */

static int no_such_view(const char *word)
{
    struct rs_err err = {0};
    struct rs_nearest nearest = rs_nearest(word);
    for (unsigned view = 0; view < RS_HISTORY_VIEW_COUNT; view++)
        rs_nearest_look(&nearest, rs_history_def((enum rs_history_view)view)->name);
    (void)rs_err_set(
        &err, RS_INVALID,
        "there is no history of \"%.60s\"%s%s%s; there are captures, ranks, findings and hosts",
        word, nearest.best ? "; did you mean \"" : "", nearest.best ? nearest.best : "",
        nearest.best ? "\"?" : "");
    return rs_cli_fail(verb, &err);
}

static enum rs_status take_words(struct rs_address *address, struct rs_err *err)
{
    for (size_t i = 0; i < words.runs.count; i++)
        chosen.runs[i] = rs_lend(words.runs.items[i]);
    for (size_t i = 0; i < words.hosts.count; i++)
        chosen.hosts[i] = rs_lend(words.hosts.items[i]);
    if (rs_numbers_of_ranks(words.ranks, chosen.ranks, RANKS_MAX, &chosen.rank_count, err) < 0)
        return err->status;
    return rs_client_address(words.connect, address, err);
}

static int history(char **operands)
{
    struct rs_err err = {0};
    struct rs_address address;
    enum rs_history_view view = RS_HISTORY_CAPTURES;
    if (*operands && !rs_history_named(operands[0], &view))
        return no_such_view(operands[0]);
    struct rs_rows_printer printer = {
        .verb = verb, .table = rs_history_def(view)->table, .as_json = words.as_json};
    if (words.as_schema)
        return rs_rows_print_schema(&printer);
    if (take_words(&address, &err) < 0)
        return rs_cli_fail(verb, &err);
    return !*operands && !words.as_json ? say_all(&address)
                                        : ask(&address, view, (uint64_t)words.limit, &printer);
}

/* clang-format off */
static const struct rs_arg options[] = {
    RS_OPT_LIST("run", 0, &words.runs, "RUN", "only captures of this run; may be given many times"),
    RS_OPT_LIST("host", 0, &words.hosts, "HOST", "only what is of this host; may be given many times"),
    RS_OPT_TEXT("rank", 0, &words.ranks, "RANKS", "only what is of these ranks, 0-3,8; not of hosts"),
    RS_OPT_TIME("since", 0, &words.since_ns, "TIME", "only captures that were asked for so long ago at most: 12h, 30d"),
    RS_OPT_INT("limit", 0, &words.limit, "N", 1, INT64_MAX, "the first N rows (default: all)"),
    RS_OPT_FLAG("json", 0, &words.as_json, "print JSON instead of CSV; unknown is null; without a view: captures"),
    RS_OPT_FLAG("schema", 0, &words.as_schema, "print the JSON Schema of a row of the view instead; asks nobody"),
    RS_CLI_CONNECT_ARGS(&words.connect),
};
const struct rs_args rs_grammar_history = {
    .verb = verb, .operands = "[captures|ranks|findings|hosts]", .most = 1, .expected = "give one view; see rankscope history --help",
    .summary = "What the captures of all runs say together: how long a step took, who was named, and which hosts are named again and again. A view prints its rows as CSV or JSON; without one: lines to read.",
    RS_OPTIONS(options), .run = history,
    .epilogue =
        "  rankscope history\n"
        "  rankscope history hosts --since 30d --json\n"
        "  rankscope history ranks --host node17\n"
        "  rankscope history captures --run llama-70b\n"
        "  rankscope history --schema hosts\n"
        "\n"
        "Captures that are closed count. A host is named by a finding that is worth fixing and not weak and\n"
        "that is about it, ranks on it, or a link of one (then both ends are: over many runs the one that\n"
        "is to blame stands out). Rows of captures that were never joined are made first, 64 at a time;\n"
        "archived ones are not fetched: their cells are empty unless their rows are at hand.\n"
        "\n"
        "Exit: 0 complete, 1 rows of some captures are not at hand (named), 2 no such view, 3 refused,\n"
        "4 no aggregator answers.\n"};
/* clang-format on */
