/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `rankscope ranks`: who is there, as the collectors told last.
 */
#include "cli/cli.h"
#include "cli/options/args.h"
#include "common/answer/answer.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/client/client.h"
#include "common/request/adapter.h"
#include "common/request/roles.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

struct ranks {
    bool as_json, is_quiet;
    bool is_watching; /* again and again: JSON a line each, a table at most row_max rows */
    size_t row_max;   /* 0: all */
    bool is_waiting;  /* count, print nothing yet */
    int64_t min_step; /* ranks below this step do not count as ready */
    size_t count;
    size_t ready_count;
    const struct rs_rank_expr *expr; /* NULL: all */
    struct rs_buf roles;             /* text of --roles; empty: none */
    bool is_partial;                 /* something the expression names is not there */
    struct rs_err err;               /* of a reply that could not be worked on */
};

/* The rows that are shown: pointers into the reply. */
struct shown {
    Rankscope__RankState **items;
    size_t count;
};

static uint32_t capabilities_of(const Rankscope__RankState *rank)
{
    return *rank->adapter ? rank->capabilities
                          : rs_adapter_capabilities_of(rs_adapter_name(rank->kind));
}

/* ---- --ranks --------------------------------------------------------------------------------------------- */

static struct rs_rank_row row_of(const Rankscope__RankState *state, const struct rs_roles *roles)
{
    struct rs_rank_row row = {.rank = state->rank,
                              .node = state->host,
                              .step_time_ns = state->step_duration_ns,
                              .self_time_ns = state->self_time_ns};
    for (size_t i = 0; i < RS_ROLE_COUNT; i++)
        row.role[i] = i < state->n_role ? state->role[i] : -1;
    rs_roles_apply(roles, &row);
    return row;
}

static void report_unknown(const char *run, const struct rs_rank_set *set)
{
    for (size_t i = 0; i < set->unknown_count; i++) {
        const struct rs_rank_range *range = &set->unknown[i];
        if (range->first == range->last)
            rs_cli_note("ranks", "run %.60s has no rank %u", run, range->first);
        else
            rs_cli_note("ranks", "run %.60s has no ranks %u-%u", run, range->first, range->last);
    }
    for (size_t i = 0; i < set->remark_count; i++)
        rs_cli_note("ranks", "run %.60s: %s", run, set->remarks[i]);
}

/* One run's rows, sorted by rank: those the expression chooses go to the front of `shown`. */
static enum rs_status choose(struct ranks *ranks, Rankscope__RankState **states, size_t count,
                             struct shown *shown)
{
    struct rs_rank_set set = {0};
    struct rs_roles roles = {0};
    struct rs_rank_row *rows = rs_mem_calloc(count, sizeof *rows);
    enum rs_status status =
        rows ? RS_OK : rs_err_set(&ranks->err, RS_NOMEM, "no memory for %zu ranks", count);
    if (status == RS_OK && ranks->roles.length)
        status = rs_roles_from_json(rs_buf_text(&ranks->roles), ranks->roles.length,
                                    states[0]->world, &roles, &ranks->err);
    size_t row_count = 0;
    for (size_t i = 0; i < count && status == RS_OK; i++)
        if (!row_count || rows[row_count - 1].rank != states[i]->rank)
            rows[row_count++] = row_of(states[i], &roles);
    if (status == RS_OK)
        status = rs_rank_expr_eval(ranks->expr, rows, row_count, 0, &set, &ranks->err);
    if (status == RS_PARTIAL && !ranks->is_waiting) {
        if (!ranks->is_watching || !ranks->is_partial) /* once is enough */
            report_unknown(states[0]->run, &set);
        ranks->is_partial = true;
    }
    for (size_t i = 0; i < count && status >= 0; i++)
        if (rs_rank_set_has(&set, states[i]->rank))
            shown->items[shown->count++] = states[i];
    rs_rank_set_fini(&set);
    rs_roles_fini(&roles);
    rs_mem_free(rows);
    return status < 0 ? status : RS_OK;
}

/* `table` is sorted by run and rank. shown->items: rs_mem_free(). */
static enum rs_status filter(struct ranks *ranks, const Rankscope__RankTable *table,
                             struct shown *shown)
{
    enum rs_status status = RS_OK;
    shown->items = rs_mem_calloc(table->n_ranks + 1, sizeof(Rankscope__RankState *));
    if (!shown->items)
        return rs_err_set(&ranks->err, RS_NOMEM, "no memory for %zu ranks", table->n_ranks);
    for (size_t i = 0; i < table->n_ranks && status == RS_OK;) {
        size_t end = i + 1;
        while (end < table->n_ranks && strcmp(table->ranks[end]->run, table->ranks[i]->run) == 0)
            end++;
        if (ranks->expr)
            status = choose(ranks, table->ranks + i, end - i, shown);
        for (size_t k = i; !ranks->expr && k < end; k++)
            shown->items[shown->count++] = table->ranks[k];
        i = end;
    }
    return status;
}

/* ---- printing -------------------------------------------------------------------------------------------- */

static void print_json(const struct shown *table, unsigned indent)
{
    struct rs_buf buf = {0};
    rs_answer_ranks((const Rankscope__RankState *const *)table->items, table->count, indent, &buf);
    printf("%s\n", rs_buf_text(&buf));
    rs_buf_fini(&buf);
}

/* "tp=0 pp=1"; "" when nothing is known. */
static void roles_text(const Rankscope__RankState *rank, char *text, size_t bytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < rank->n_role && i < RS_ROLE_COUNT && used < bytes; i++)
        if (rank->role[i] >= 0)
            used += (size_t)snprintf(text + used, bytes - used, "%s%s=%d", used ? " " : "",
                                     rs_rank_role_name((enum rs_rank_role_kind)i), rank->role[i]);
}

/* Widths of the columns whose texts have no usual length. */
struct widths {
    int run, host, kind, state, roles; /* roles 0: nobody has one */
};

static int wider(int width, const char *text, int most)
{
    const int length = (int)strnlen(text, (size_t)most);
    return length > width ? length : width;
}

static struct widths widths_of(const struct shown *table)
{
    struct widths w = {.run = 3, .host = 4, .kind = 4, .state = 5};
    char roles[80];
    for (size_t i = 0; i < table->count; i++) {
        const Rankscope__RankState *rank = table->items[i];
        w.run = wider(w.run, rank->run, 40);
        w.host = wider(w.host, rank->host, 40);
        w.kind = wider(w.kind, rs_answer_adapter(rank), 20);
        w.state = wider(w.state, rs_rank_state_text((enum rs_rank_state)rank->state), 20);
        roles_text(rank, roles, sizeof roles);
        if (*roles)
            w.roles = wider(w.roles ? w.roles : 5, roles, 60);
    }
    return w;
}

static void print_row(const Rankscope__RankState *rank, const struct widths *w)
{
    const rs_dur ago = rs_time_realtime() - rank->seen_ns;
    char step[24] = "-";
    char duration[24] = "-";
    char world[16] = "?";
    char roles[80];
    if (rank->step >= 0)
        (void)snprintf(step, sizeof step, "%" PRId64, rank->step);
    if (rank->step_duration_ns > 0)
        (void)snprintf(duration, sizeof duration, "%.*f",
                       rank->step_duration_ns < RS_NS_PER_S / 10 ? 3 : 1,
                       (double)rank->step_duration_ns / RS_NS_PER_MS);
    if (rank->world)
        (void)snprintf(world, sizeof world, "%u", rank->world);
    roles_text(rank, roles, sizeof roles);
    printf("%-*.40s %5u %5s  %-*.40s %7u  %-*s  %-*s %7s %8s  ", w->run, rank->run, rank->rank,
           world, w->host, rank->host, rank->pid, w->kind, rs_answer_adapter(rank), w->state,
           rs_rank_state_text((enum rs_rank_state)rank->state), step, duration);
    if (w->roles)
        printf("%-*.60s  ", w->roles, *roles ? roles : "-");
    printf("%" PRId64 " s\n", ago > 0 ? ago / RS_NS_PER_S : 0);
}

static void print_table(const struct shown *table, bool is_chosen, size_t row_max)
{
    if (table->count == 0) {
        printf(is_chosen ? "no rank is meant by that\n" : "no rank is known\n");
        return;
    }
    const struct widths w = widths_of(table);
    printf("%-*s %5s %5s  %-*s %7s  %-*s  %-*s %7s %8s  ", w.run, "RUN", "RANK", "WORLD", w.host,
           "HOST", "PID", w.kind, "KIND", w.state, "STATE", "STEP", "STEP ms");
    if (w.roles)
        printf("%-*s  ", w.roles, "ROLES");
    printf("AGO\n");
    const size_t count = row_max && table->count > row_max ? row_max : table->count;
    for (size_t i = 0; i < count; i++)
        print_row(table->items[i], &w);
    if (count < table->count)
        printf("... and %zu more; --ranks slowest=%zu shows those that count\n",
               table->count - count, count);
}

/* Ranks whose profilers do not tell a step are ready when they are there. */
static bool is_ready(const struct ranks *ranks, const Rankscope__RankState *rank)
{
    const bool may_not_report = !(capabilities_of(rank) & RS_CAP_TELLS_STEP) && rank->step < 0;
    return may_not_report ? ranks->min_step == 0 && rank->state != RS_RANK_GONE
                          : rank->step >= ranks->min_step;
}

static void show(struct ranks *ranks, Rankscope__RankTable *table)
{
    struct shown shown = {0};
    rs_answer_sort_ranks(table->ranks, table->n_ranks);
    ranks->ready_count = ranks->count = 0;
    if (filter(ranks, table, &shown) == RS_OK) {
        ranks->count = shown.count;
        for (size_t i = 0; i < shown.count; i++)
            ranks->ready_count += is_ready(ranks, shown.items[i]);
        if (!ranks->is_waiting && ranks->as_json)
            print_json(&shown, ranks->is_watching ? 0 : 2);
        else if (!ranks->is_waiting && !ranks->is_quiet)
            print_table(&shown, ranks->expr != NULL, ranks->row_max);
    }
    rs_mem_free(shown.items);
}

/* Pages of the table, by copy: a reply is lent for its call. */
struct pages {
    struct ranks *ranks;
    Rankscope__RankTable **items;
    size_t count, capacity;
    Rankscope__RankTable whole; /* lends its ranks from the pages */
    size_t rank_capacity;
    bool has_failed;
};

static bool keep_page(struct pages *pages, const Rankscope__RankTable *table)
{
    const size_t bytes = rankscope__rank_table__get_packed_size(table);
    uint8_t *packed = rs_mem_calloc(bytes + 1, 1);
    if (packed)
        (void)rankscope__rank_table__pack(table, packed);
    Rankscope__RankTable *copy = packed ? rankscope__rank_table__unpack(NULL, bytes, packed) : NULL;
    rs_mem_free(packed);
    if (!copy || rs_mem_grow((void **)&pages->items, &pages->capacity, pages->count + 1,
                             sizeof(Rankscope__RankTable *)) < 0) {
        if (copy)
            rankscope__rank_table__free_unpacked(copy, NULL);
        return false;
    }
    pages->items[pages->count++] = copy;
    if (rs_mem_grow((void **)&pages->whole.ranks, &pages->rank_capacity,
                    pages->whole.n_ranks + copy->n_ranks + 1, sizeof(Rankscope__RankState *)) < 0)
        return false;
    for (size_t i = 0; i < copy->n_ranks; i++)
        pages->whole.ranks[pages->whole.n_ranks++] = copy->ranks[i];
    return true;
}

static bool on_reply(void *self, const Rankscope__Reply *reply)
{
    struct pages *pages = self;
    if (reply->message_case != RANKSCOPE__REPLY__MESSAGE_RANKS)
        return false;
    pages->has_failed = !keep_page(pages, reply->ranks);
    if (reply->last && !pages->has_failed)
        show(pages->ranks, &pages->whole);
    return !pages->has_failed;
}

static enum rs_status ask_once(const struct rs_address *address, const char *run,
                               struct ranks *ranks, struct rs_err *err)
{
    union {
        const char *in;
        char *out;
    } lent = {.in = run ? run : ""};
    Rankscope__AskRanks ask_ranks = RANKSCOPE__ASK_RANKS__INIT;
    ask_ranks.run = lent.out;
    Rankscope__Ask ask = RANKSCOPE__ASK__INIT;
    ask.message_case = RANKSCOPE__ASK__MESSAGE_RANKS;
    ask.ranks = &ask_ranks;
    struct pages pages = {.ranks = ranks, .whole = RANKSCOPE__RANK_TABLE__INIT};
    enum rs_status status = rs_client_ask(address, &ask, on_reply, &pages, err);
    for (size_t i = 0; i < pages.count; i++)
        rankscope__rank_table__free_unpacked(pages.items[i], NULL);
    rs_mem_free(pages.items);
    rs_mem_free(pages.whole.ranks);
    if (status == RS_OK && pages.has_failed)
        status = rs_err_set(err, RS_NOMEM, "out of memory");
    if (status >= 0 && ranks->err.status < 0)
        return rs_err_set(err, ranks->err.status, "%s", ranks->err.text);
    return status;
}

/* Until so many ranks are at min_step or beyond. An aggregator that is not there yet is waited for too. */
static enum rs_status wait_for(const struct rs_address *address, const char *run, int64_t wanted,
                               rs_dur timeout, struct ranks *ranks, struct rs_err *err)
{
    const rs_ns deadline = rs_time_monotonic() + timeout;
    ranks->is_waiting = true;
    enum rs_status status;
    for (;;) {
        status = ask_once(address, run, ranks, err);
        if (status < 0 && status != RS_UNREACHABLE)
            break;
        if (status >= 0 && (int64_t)ranks->ready_count >= wanted)
            break;
        if (rs_time_monotonic() >= deadline) {
            if (status >= 0)
                status = rs_err_set(err, RS_TIMEOUT,
                                    "%zu of %" PRId64 " ranks were at step %" PRId64
                                    " or beyond when the time was over",
                                    ranks->ready_count, wanted, ranks->min_step);
            break;
        }
        const struct timespec pause = {.tv_nsec = 200 * (long)RS_NS_PER_MS};
        (void)nanosleep(&pause, NULL);
    }
    ranks->is_waiting = false;
    return status;
}

static struct options {
    const char *connect, *run, *expression, *roles;
    int64_t wanted;
    rs_dur timeout, interval;
    struct ranks ranks;
} options = {.timeout = 60 * (rs_dur)RS_NS_PER_S, .interval = RS_NS_PER_S};

static const struct rs_arg items[] = {
    RS_CLI_CONNECT_ARGS(&options.connect),
    {.name = "run",
     .kind = RS_ARG_TEXT,
     .target = &options.run,
     .value = "NAME",
     .help = "only ranks of this run"},
    {.name = "ranks",
     .letter = 'r',
     .kind = RS_ARG_TEXT,
     .target = &options.expression,
     .value = "EXPR",
     .help = "only these: all (default), 0,3-7, node=n12, tp=0 & pp=last, one-per-node, every=8, "
             "sample=1%, slowest=8, !EXPR, (EXPR)"},
    {.name = "roles",
     .kind = RS_ARG_TEXT,
     .target = &options.roles,
     .value = "FILE",
     .help =
         "JSON that says which tp, pp, dp, ep index a rank has, over what the aggregator knows"},
    {.name = "json",
     .kind = RS_ARG_FLAG,
     .target = &options.ranks.as_json,
     .help = "print JSON; unknown is null"},
    {.name = "quiet",
     .letter = 'q',
     .kind = RS_ARG_FLAG,
     .target = &options.ranks.is_quiet,
     .help = "print nothing: exit 0 when there is a rank, 1 when there is none"},
    {.name = "wait",
     .kind = RS_ARG_INT,
     .target = &options.wanted,
     .value = "N",
     .min = 1,
     .max = INT32_MAX,
     .help =
         "first wait until N ranks step; of PyTorch ranks, which do not report their step, until they are "
         "there"},
    {.name = "min-step",
     .kind = RS_ARG_INT,
     .target = &options.ranks.min_step,
     .value = "K",
     .min = 0,
     .max = INT64_MAX,
     .with = "wait",
     .help = "with --wait, a rank counts from this step on (default 0)"},
    {.name = "timeout",
     .kind = RS_ARG_DURATION,
     .target = &options.timeout,
     .value = "D",
     .with = "wait",
     .help = "with --wait, give up after this time (default 60s): exit 1"},
    {.name = "watch",
     .letter = 'w',
     .kind = RS_ARG_FLAG,
     .target = &options.ranks.is_watching,
     .help =
         "show it again and again until Ctrl-C, also while the aggregator is away; with --json a "
         "document a line"},
    {.name = "interval",
     .kind = RS_ARG_DURATION,
     .target = &options.interval,
     .value = "D",
     .with = "watch",
     .help = "with --watch, how often (default 1s, at least 100ms)"},
};
static const struct rs_args args = {
    .verb = "ranks",
    .operands = "",
    .summary = "Lists the ranks that collectors know: run, rank, host, process, the step each is "
               "in and how long its steps take.",
    .items = items,
    .count = sizeof items / sizeof items[0],
    .epilogue =
        "  rankscope ranks\n"
        "  rankscope ranks --run r1 --json\n"
        "  rankscope ranks --ranks slowest=3\n"
        "  rankscope ranks --watch --ranks slowest=20\n"
        "  rankscope ranks --wait 8 --min-step 10   # a job that starts up\n"
        "\n"
        "Exit: 0 there are ranks, 1 there are none, or not all that were named, 2 bad request, 4 no\n"
        "aggregator answers, 130 --watch was ended.\n"};

static enum rs_status take_expression(struct rs_rank_expr **expr_p, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    if (options.roles)
        status = rs_file_read(options.roles, RS_ROLES_MAX_BYTES, &options.ranks.roles, err);
    if (status == RS_OK && options.expression)
        status = rs_rank_expr_parse(options.expression, strlen(options.expression), expr_p, err);
    options.ranks.expr = *expr_p;
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

/* False: Ctrl-C. The signals are blocked by the first question. */
static bool pause_for(rs_dur interval)
{
    const struct timespec time = {.tv_sec = (time_t)(interval / RS_NS_PER_S),
                                  .tv_nsec = (long)(interval % RS_NS_PER_S)};
    sigset_t signals;
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGINT);
    (void)sigaddset(&signals, SIGTERM);
    (void)pthread_sigmask(SIG_BLOCK, &signals, NULL);
    return sigtimedwait(&signals, NULL, &time) < 0;
}

/* Until Ctrl-C, or until it is clear that asking again would be of no use. */
static enum rs_status watch(const struct rs_address *address, struct rs_err *err)
{
    const bool is_terminal = isatty(STDOUT_FILENO) && !options.ranks.as_json;
    enum rs_status status = RS_OK;
    do {
        options.ranks.row_max = is_terminal ? rows_of_terminal() : 0;
        if (is_terminal)
            printf("\033[H\033[J"); /* from the top, and nothing of the last look below */
        *err = (struct rs_err){.status = RS_OK};
        status = ask_once(address, options.run, &options.ranks, err);
        if (status == RS_UNREACHABLE && is_terminal)
            printf("%s\n", err->text);
        else if (status == RS_UNREACHABLE)
            rs_cli_note("ranks", "%s", err->text);
        else if (status >= 0 && !is_terminal && !options.ranks.as_json)
            printf("\n");
        if (fflush(stdout) != 0)
            return rs_err_errno(err, "cannot print the ranks");
    } while ((status >= 0 || status == RS_UNREACHABLE) && pause_for(options.interval));
    return status >= 0 || status == RS_UNREACHABLE ? RS_CANCELLED : status;
}

static enum rs_status ask_for_table(struct rs_err *err)
{
    struct rs_address address;
    enum rs_status status = rs_client_address(options.connect, &address, err);
    if (status == RS_OK && options.wanted)
        status =
            wait_for(&address, options.run, options.wanted, options.timeout, &options.ranks, err);
    if (status >= 0)
        status = options.ranks.is_watching ? watch(&address, err)
                                           : ask_once(&address, options.run, &options.ranks, err);
    return status;
}

int rs_cmd_ranks(int argc, char **argv)
{
    struct rs_err err = {0};
    struct rs_rank_expr *expr = NULL;
    int first = 0;
    enum rs_status status = rs_args_parse(&args, argc, argv, &first, &err);
    if (status == RS_END)
        return RS_EXIT_COMPLETE;
    if (status == RS_OK && first < argc)
        status = rs_err_set(&err, RS_INVALID, "\"%s\" is not expected here", argv[first]);
    if (status == RS_OK && options.ranks.is_watching && options.ranks.is_quiet)
        status = rs_err_set(&err, RS_INVALID, "--watch and --quiet exclude each other");
    if (status == RS_OK && options.interval < RS_NS_PER_S / 10)
        status = rs_err_set(&err, RS_INVALID, "--interval is at least 100ms");
    if (status == RS_OK)
        status = take_expression(&expr, &err);
    if (status == RS_OK)
        status = ask_for_table(&err);
    rs_rank_expr_free(&expr);
    rs_buf_fini(&options.ranks.roles);
    if (status == RS_TIMEOUT) {
        (void)rs_cli_fail("ranks", &err);
        return RS_EXIT_PARTIAL;
    }
    if (status == RS_CANCELLED)
        return RS_EXIT_INTERRUPTED;
    if (status < 0)
        return rs_cli_fail("ranks", &err);
    return options.ranks.count && !options.ranks.is_partial ? RS_EXIT_COMPLETE : RS_EXIT_PARTIAL;
}
