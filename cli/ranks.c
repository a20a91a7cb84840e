/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `rankscope ranks`: who is there, as the collectors told last.
 */
#include "cli/args.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "common/base/json_out.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct ranks {
    bool as_json, is_quiet;
    bool is_waiting;  /* count, print nothing yet */
    int64_t min_step; /* ranks below this step do not count as ready */
    size_t count;
    size_t ready_count;
};

static int by_rank(const void *left, const void *right)
{
    const Rankscope__RankState *a = *(Rankscope__RankState *const *)left;
    const Rankscope__RankState *b = *(Rankscope__RankState *const *)right;
    const int order = strcmp(a->run, b->run);
    if (order)
        return order;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    return strcmp(a->incarnation, b->incarnation);
}

static void print_json(const Rankscope__RankTable *table)
{
    struct rs_buf buf = {0};
    struct rs_json_out json;
    rs_json_out_init(&json, &buf, 2);
    rs_json_out_object(&json);
    rs_json_out_key(&json, "schema_version");
    rs_json_out_int(&json, 1);
    rs_json_out_key(&json, "ranks");
    rs_json_out_array(&json);
    for (size_t i = 0; i < table->n_ranks; i++) {
        const Rankscope__RankState *rank = table->ranks[i];
        rs_json_out_object(&json);
        rs_json_out_key(&json, "run");
        rs_json_out_string(&json, rank->run);
        rs_json_out_key(&json, "rank");
        rs_json_out_int(&json, rank->rank);
        rs_json_out_key(&json, "world");
        if (rank->world)
            rs_json_out_int(&json, rank->world);
        else
            rs_json_out_null(&json);
        rs_json_out_key(&json, "host");
        rs_json_out_string(&json, rank->host);
        rs_json_out_key(&json, "node");
        rs_json_out_string(&json, rank->node);
        rs_json_out_key(&json, "pid");
        rs_json_out_int(&json, rank->pid);
        rs_json_out_key(&json, "incarnation");
        rs_json_out_string(&json, rank->incarnation);
        rs_json_out_key(&json, "kind");
        rs_json_out_string(&json, rs_rank_kind_text((enum rs_rank_kind)rank->kind));
        rs_json_out_key(&json, "state");
        rs_json_out_string(&json, rs_rank_state_text((enum rs_rank_state)rank->state));
        rs_json_out_key(&json, "step");
        if (rank->step >= 0)
            rs_json_out_int(&json, rank->step);
        else
            rs_json_out_null(&json);
        rs_json_out_key(&json, "step_duration_ns");
        if (rank->step_duration_ns)
            rs_json_out_int(&json, rank->step_duration_ns);
        else
            rs_json_out_null(&json);
        rs_json_out_key(&json, "capture");
        if (*rank->capture)
            rs_json_out_string(&json, rank->capture);
        else
            rs_json_out_null(&json);
        rs_json_out_key(&json, "can_capture");
        rs_json_out_bool(&json, rank->can_capture);
        rs_json_out_key(&json, "events_dropped");
        rs_json_out_uint(&json, rank->events_dropped);
        rs_json_out_key(&json, "seen_ns");
        rs_json_out_int(&json, rank->seen_ns);
        rs_json_out_end(&json);
    }
    rs_json_out_end(&json);
    rs_json_out_end(&json);
    printf("%s\n", rs_buf_text(&buf));
    rs_buf_fini(&buf);
}

static void print_table(const Rankscope__RankTable *table)
{
    if (table->n_ranks == 0) {
        printf("no rank is known\n");
        return;
    }
    printf("%-20s %5s %5s  %-16s %8s  %-6s %-9s %8s %10s  %s\n", "RUN", "RANK", "WORLD", "HOST",
           "PID", "KIND", "STATE", "STEP", "STEP ms", "SEEN");
    const rs_ns now = rs_time_realtime();
    for (size_t i = 0; i < table->n_ranks; i++) {
        const Rankscope__RankState *rank = table->ranks[i];
        char step[24] = "-";
        char duration[24] = "-";
        char world[16] = "?";
        if (rank->step >= 0)
            (void)snprintf(step, sizeof step, "%" PRId64, rank->step);
        if (rank->step_duration_ns > 0)
            (void)snprintf(duration, sizeof duration, "%" PRId64 ".%03" PRId64,
                           rank->step_duration_ns / RS_NS_PER_MS,
                           rank->step_duration_ns % RS_NS_PER_MS / RS_NS_PER_US);
        if (rank->world)
            (void)snprintf(world, sizeof world, "%u", rank->world);
        const rs_dur ago = now - rank->seen_ns;
        printf("%-20.40s %5u %5s  %-16.40s %8u  %-6s %-9s %8s %10s  %" PRId64 " s ago\n", rank->run,
               rank->rank, world, rank->host, rank->pid,
               rs_rank_kind_text((enum rs_rank_kind)rank->kind),
               rs_rank_state_text((enum rs_rank_state)rank->state), step, duration,
               ago > 0 ? ago / RS_NS_PER_S : 0);
    }
}

static bool on_reply(void *self, const Rankscope__Reply *reply)
{
    struct ranks *ranks = self;
    if (reply->letter_case != RANKSCOPE__REPLY__LETTER_RANKS)
        return false;
    const Rankscope__RankTable *table = reply->ranks;
    ranks->count = table->n_ranks;
    ranks->ready_count = 0;
    for (size_t i = 0; i < table->n_ranks; i++)
        ranks->ready_count += table->ranks[i]->kind == RS_RANK_KINETO
                                  ? ranks->min_step == 0 && table->ranks[i]->state != RS_RANK_GONE
                                  : table->ranks[i]->step >= ranks->min_step;
    if (ranks->is_waiting)
        return false;
    if (table->n_ranks)
        qsort(table->ranks, table->n_ranks, sizeof(Rankscope__RankState *), by_rank);
    if (ranks->as_json)
        print_json(table);
    else if (!ranks->is_quiet)
        print_table(table);
    return false;
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
    ask.letter_case = RANKSCOPE__ASK__LETTER_RANKS;
    ask.ranks = &ask_ranks;
    return rs_client_ask(address, &ask, on_reply, ranks, err);
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

int rs_cmd_ranks(int argc, char **argv)
{
    const char *connect = NULL;
    const char *run = NULL;
    int64_t wanted = 0;
    rs_dur timeout = 60 * (rs_dur)RS_NS_PER_S;
    struct ranks ranks = {0};
    const struct rs_arg items[] = {
        {.name = "connect",
         .letter = 'c',
         .kind = RS_ARG_TEXT,
         .target = &connect,
         .value = "ADDR",
         .environment = "RANKSCOPE_CONNECT",
         .help = "the aggregator: unix:PATH or HOST:PORT (default: its default socket)"},
        {.name = "run",
         .kind = RS_ARG_TEXT,
         .target = &run,
         .value = "NAME",
         .help = "only ranks of this run"},
        {.name = "json",
         .kind = RS_ARG_FLAG,
         .target = &ranks.as_json,
         .help = "print JSON; unknown is null"},
        {.name = "quiet",
         .letter = 'q',
         .kind = RS_ARG_FLAG,
         .target = &ranks.is_quiet,
         .help = "print nothing: exit 0 when there is a rank, 1 when there is none"},
        {.name = "wait",
         .kind = RS_ARG_INT,
         .target = &wanted,
         .value = "N",
         .min = 1,
         .max = INT32_MAX,
         .help =
             "first wait until N ranks step; of PyTorch ranks, which do not tell their step, until they are "
             "there"},
        {.name = "min-step",
         .kind = RS_ARG_INT,
         .target = &ranks.min_step,
         .value = "K",
         .min = 0,
         .max = INT64_MAX,
         .help = "with --wait, a rank counts from this step on (default 0)"},
        {.name = "timeout",
         .kind = RS_ARG_DURATION,
         .target = &timeout,
         .value = "D",
         .help = "with --wait, give up after this time (default 60s): exit 1"},
    };
    const struct rs_args args = {
        .verb = "ranks",
        .operands = "",
        .summary =
            "Lists the ranks that collectors know: run, rank, host, process, the step each is "
            "in and how long its steps take.",
        .items = items,
        .count = sizeof items / sizeof items[0],
        .epilogue = "  rankscope ranks\n"
                    "  rankscope ranks --run r1 --json\n"
                    "  rankscope ranks --wait 8 --min-step 10   # a job that starts up\n"
                    "\n"
                    "Exit: 0 there are ranks, 1 there are none, 4 no aggregator answers.\n"};
    struct rs_err err = {0};
    int first = 0;
    enum rs_status status = rs_args_parse(&args, argc, argv, &first, &err);
    if (status == RS_END)
        return RS_EXIT_COMPLETE;
    if (status == RS_OK && first < argc)
        status = rs_err_set(&err, RS_INVALID, "\"%s\" is not expected here", argv[first]);
    struct rs_address address;
    if (status == RS_OK)
        status = rs_client_address(connect, &address, &err);
    if (status == RS_OK && wanted)
        status = wait_for(&address, run, wanted, timeout, &ranks, &err);
    if (status >= 0)
        status = ask_once(&address, run, &ranks, &err);
    if (status == RS_TIMEOUT) {
        (void)rs_cli_fail("ranks", &err);
        return RS_EXIT_PARTIAL;
    }
    if (status < 0)
        return rs_cli_fail("ranks", &err);
    return ranks.count ? RS_EXIT_COMPLETE : RS_EXIT_PARTIAL;
}
