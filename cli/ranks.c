/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `rankscope ranks`: who is there, as the collectors told last.
 */
#include "common/client/ranks.h"

#include "cli/cli.h"
#include "cli/present.h"
#include "cli/verbs.h"
#include "common/answer/answer.h"
#include "common/answer/answer_text.h"
#include "common/base/file.h"
#include "common/base/terminal.h"
#include "common/client/client.h"
#include "common/request/adapter.h"
#include "common/request/roles.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

static const char verb[] = "ranks";

static struct {
    const char *connect, *run, *expression, *roles;
    int64_t wanted, min_step; /* ranks below this step do not count as ready */
    rs_dur timeout, interval;
    bool as_json, is_quiet,
        is_watching; /* again and again: JSON a line each, a table at most a screen long */
} words = {.timeout = 60 * (rs_dur)RS_NS_PER_S, .interval = RS_NS_PER_S};

/* What is chosen, and what came of it. */
static struct {
    struct rs_rank_expr *expr; /* NULL: all */
    struct rs_buf roles;       /* text of --roles; empty: none */
    bool is_waiting;           /* count, print nothing yet */
    size_t row_max;            /* 0: all */
    size_t count, ready_count;
    bool is_partial; /* something the expression names is not there */
} found;

/* Ranks whose profilers do not tell a step are ready when they are there. */
static bool is_ready(const Rankscope__RankState *rank)
{
    const uint32_t capabilities = *rank->adapter
                                      ? rank->capabilities
                                      : rs_adapter_capabilities_of(rs_adapter_name(rank->kind));
    const bool may_not_report = !(capabilities & RS_CAP_TELLS_STEP) && rank->step < 0;
    return may_not_report ? words.min_step == 0 && rank->state != RS_RANK_GONE
                          : rank->step >= words.min_step;
}

static void show(const struct rs_client_ranks *ranks)
{
    const Rankscope__RankState *const *items = (const Rankscope__RankState *const *)ranks->items;
    struct rs_buf buf = {0};
    found.count = ranks->count;
    found.ready_count = 0;
    for (size_t i = 0; i < ranks->count; i++)
        found.ready_count += is_ready(items[i]);
    if (found.is_waiting)
        return;
    if (words.as_json) {
        rs_answer_ranks(items, ranks->count, words.is_watching ? 0 : 2, &buf);
        rs_buf_u8(&buf, '\n');
    } else if (!words.is_quiet) {
        rs_answer_ranks_text(items, ranks->count, found.expr != NULL, found.row_max, &buf);
    }
    fputs(rs_buf_text(&buf), stdout);
    rs_buf_fini(&buf);
}

static enum rs_status ask_once(const struct rs_address *address, struct rs_err *err)
{
    struct rs_client_ranks ranks = {.count = 0};
    struct rs_cli_noter noter = {.verb = verb};
    /* Who is not there is told once. */
    const bool is_told = found.is_waiting || (words.is_watching && found.is_partial);
    enum rs_status status = rs_client_ranks_ask(address, words.run ? words.run : "", &ranks, err);
    if (ranks.count)
        rs_answer_sort_ranks(ranks.items, ranks.count);
    if (status >= 0 && found.expr)
        status = rs_client_ranks_choose(&ranks, found.expr, &found.roles,
                                        is_told ? NULL : rs_cli_note_line, &noter, err);
    found.is_partial = found.is_partial || (status == RS_PARTIAL && !found.is_waiting);
    if (status >= 0)
        show(&ranks);
    rs_client_ranks_fini(&ranks);
    return status < 0 ? status : RS_OK;
}

/* Until so many ranks are at min_step or beyond. An aggregator that is not there yet is waited for too. */
static enum rs_status wait_for(const struct rs_address *address, struct rs_err *err)
{
    const rs_ns deadline = rs_time_monotonic() + words.timeout;
    const struct timespec pause = {.tv_nsec = 200 * (long)RS_NS_PER_MS};
    enum rs_status status;
    found.is_waiting = true;
    for (;;) {
        status = ask_once(address, err);
        if ((status < 0 && status != RS_UNREACHABLE) ||
            (status >= 0 && (int64_t)found.ready_count >= words.wanted))
            break;
        if (rs_time_monotonic() >= deadline) {
            if (status >= 0)
                status = rs_err_set(err, RS_TIMEOUT,
                                    "%zu of %" PRId64 " ranks were at step %" PRId64
                                    " or beyond when the time was over",
                                    found.ready_count, words.wanted, words.min_step);
            break;
        }
        (void)nanosleep(&pause, NULL);
    }
    found.is_waiting = false;
    return status;
}

/* ---- --watch ----------------------------------------------------------------------------------------------------- */

/* Rows that a terminal has beside the head and what is behind the table. */
static size_t rows_of_terminal(void)
{
    enum { OTHER_LINES = 4, ROWS_MIN = 3 };
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row < OTHER_LINES + ROWS_MIN)
        return ROWS_MIN;
    return size.ws_row - (size_t)OTHER_LINES;
}

/* Until Ctrl-C, or until it is clear that asking again would be of no use. */
static enum rs_status watch(const struct rs_address *address, struct rs_err *err)
{
    const bool is_terminal = isatty(STDOUT_FILENO) && !words.as_json;
    enum rs_status status = RS_OK;
    do {
        found.row_max = is_terminal ? rows_of_terminal() : 0;
        if (is_terminal)
            printf("\033[H\033[J"); /* from the top, and nothing of the last look below */
        *err = (struct rs_err){.status = RS_OK};
        status = ask_once(address, err);
        if (status == RS_UNREACHABLE && is_terminal)
            printf("%s\n", err->text);
        else if (status == RS_UNREACHABLE)
            rs_cli_note(verb, "%s", err->text);
        else if (status >= 0 && !is_terminal && !words.as_json)
            printf("\n");
        if (fflush(stdout) != 0)
            return rs_err_errno(err, "cannot print the ranks");
    } while ((status >= 0 || status == RS_UNREACHABLE) && rs_terminal_pause(words.interval));
    return status >= 0 || status == RS_UNREACHABLE ? RS_CANCELLED : status;
}

/* ---- the verb ------------------------------------------------------------------------------------------------------ */

static enum rs_status look(struct rs_err *err)
{
    struct rs_address address;
    enum rs_status status = RS_OK;
    if (words.is_watching && words.is_quiet)
        return rs_err_set(err, RS_INVALID, "--watch and --quiet exclude each other");
    if (words.interval < RS_NS_PER_S / 10)
        return rs_err_set(err, RS_INVALID, "--interval is at least 100ms");
    if (words.roles)
        status = rs_file_read(words.roles, RS_ROLES_MAX_BYTES, &found.roles, err);
    if (status == RS_OK && words.expression)
        status = rs_rank_expr_parse(words.expression, strlen(words.expression), &found.expr, err);
    if (status == RS_OK)
        status = rs_client_address(words.connect, &address, err);
    if (status == RS_OK && words.wanted)
        status = wait_for(&address, err);
    if (status >= 0)
        status = words.is_watching ? watch(&address, err) : ask_once(&address, err);
    return status;
}

static int run(char **operands)
{
    struct rs_err err = {0};
    (void)operands;
    const enum rs_status status = look(&err);
    rs_rank_expr_free(&found.expr);
    rs_buf_fini(&found.roles);
    const int code = rs_cli_end(verb, status, &err);
    if (status == RS_TIMEOUT)
        return RS_EXIT_PARTIAL;
    return status < 0 || (found.count && !found.is_partial) ? code : RS_EXIT_PARTIAL;
}

/* clang-format off */
static const struct rs_arg options[] = {
    RS_CLI_CONNECT_ARGS(&words.connect),
    RS_OPT_TEXT("run", 0, &words.run, "NAME", "only ranks of this run"),
    RS_OPT_TEXT("ranks", 'r', &words.expression, "EXPR", "only these: all (default), 0,3-7, node=n12, tp=0 & pp=last, one-per-node, every=8, sample=1%, slowest=8, !EXPR, (EXPR)"),
    RS_OPT_TEXT("roles", 0, &words.roles, "FILE", "JSON that says which tp, pp, dp, ep index a rank has, over what the aggregator knows"),
    RS_OPT_FLAG("json", 0, &words.as_json, "print JSON; unknown is null"),
    RS_OPT_FLAG("quiet", 'q', &words.is_quiet, "print nothing: exit 0 when there is a rank, 1 when there is none"),
    RS_OPT_INT("wait", 0, &words.wanted, "N", 1, INT32_MAX, "first wait until N ranks step; of PyTorch ranks, which do not report their step, until they are there"),
    RS_OPT_INT("min-step", 0, &words.min_step, "K", 0, INT64_MAX, "with --wait, a rank counts from this step on (default 0)", .with = "wait"),
    RS_OPT_TIME("timeout", 0, &words.timeout, "D", "with --wait, give up after this time (default 60s): exit 1", .with = "wait"),
    RS_OPT_FLAG("watch", 'w', &words.is_watching, "show it again and again until Ctrl-C, also while the aggregator is away; with --json a document a line"),
    RS_OPT_TIME("interval", 0, &words.interval, "D", "with --watch, how often (default 1s, at least 100ms)", .with = "watch"),
};
const struct rs_args rs_grammar_ranks = {
    .verb = verb, .operands = "",
    .summary = "Lists the ranks that collectors know: run, rank, host, process, the step each is in and how long its steps take.",
    RS_OPTIONS(options), .run = run,
    .epilogue =
        "  rankscope ranks\n"
        "  rankscope ranks --run r1 --json\n"
        "  rankscope ranks --ranks slowest=3\n"
        "  rankscope ranks --watch --ranks slowest=20\n"
        "  rankscope ranks --wait 8 --min-step 10   # a job that starts up\n"
        "\n"
        "Exit: 0 there are ranks, 1 there are none, or not all that were named, 2 bad request, 4 no\n"
        "aggregator answers, 130 --watch was ended.\n"};
/* clang-format on */
