/* SPDX-License-Identifier: Apache-2.0 */
/* `rankscope aggregators`: who writes into the database of the aggregator that is asked (aggregator --store), and who of them lives. */
#include "cli/cli.h"
#include "cli/options/args.h"
#include "common/answer/answer.h"
#include "common/client/client.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

static const char verb[] = "aggregators";

static struct {
    const char *connect;
    bool as_json;
} words;

struct told {
    struct rs_buf text;
    uint64_t count, double_count;
    char away[512]; /* "": the database answers */
};

/* "-": unknown. */
static void put_time(int64_t ns, char text[32])
{
    const time_t seconds = (time_t)(ns / RS_NS_PER_S);
    struct tm parts = {0};
    if (!ns || !gmtime_r(&seconds, &parts) || !strftime(text, 32, "%Y-%m-%dT%H:%M:%SZ", &parts))
        (void)snprintf(text, 32, "-");
}

static void put_count(int64_t count, char text[24])
{
    if (count < 0)
        (void)snprintf(text, 24, "-");
    else
        (void)snprintf(text, 24, "%" PRId64, count);
}

static size_t widest(size_t width, const char *text)
{
    const size_t length = strlen(text);
    return length > width ? length : width;
}

static void put_table(const Rankscope__AggregatorTable *table, struct rs_buf *buf)
{
    size_t host = sizeof "HOST" - 1, address = sizeof "ADDRESS" - 1;
    for (size_t i = 0; i < table->n_aggregators; i++) {
        host = widest(host, table->aggregators[i]->host);
        address = widest(address, table->aggregators[i]->address);
    }
    rs_buf_printf(buf, "  %-16s  %-*s  %-*s  %-7s  %-20s  %-20s  %8s  %5s  %s\n", "AGGREGATOR",
                  (int)host, "HOST", (int)address, "ADDRESS", "STATE", "SINCE", "SEEN", "CAPTURES",
                  "OPEN", "VERSION");
    for (size_t i = 0; i < table->n_aggregators; i++) {
        const Rankscope__AggregatorState *one = table->aggregators[i];
        char began[32], seen[32], captures[24], open[24];
        put_time(one->began_ns, began);
        put_time(one->seen_ns, seen);
        put_count(one->captures, captures);
        put_count(one->open, open);
        rs_buf_printf(buf, "%c %-16s  %-*s  %-*s  %-7s  %-20s  %-20s  %8s  %5s  %s\n",
                      one->is_self ? '*' : ' ', one->id, (int)host, one->host, (int)address,
                      one->address, one->state, began, seen, captures, open, one->version);
    }
}

static bool on_reply(void *self, const Rankscope__Reply *reply)
{
    struct told *told = self;
    if (reply->message_case != RANKSCOPE__REPLY__MESSAGE_AGGREGATORS)
        return false;
    const Rankscope__AggregatorTable *table = reply->aggregators;
    told->count = table->n_aggregators;
    for (size_t i = 0; i < table->n_aggregators; i++)
        told->double_count += table->aggregators[i]->is_double ? 1 : 0;
    (void)snprintf(told->away, sizeof told->away, "%s", table->away);
    if (words.as_json) {
        rs_answer_aggregators(table, 1, &told->text);
        rs_buf_string(&told->text, "\n");
    } else {
        put_table(table, &told->text);
    }
    return true;
}

static enum rs_status ask(struct told *told, struct rs_err *err)
{
    struct rs_address address;
    Rankscope__AskAggregators question = RANKSCOPE__ASK_AGGREGATORS__INIT;
    Rankscope__Ask message = RANKSCOPE__ASK__INIT;
    message.message_case = RANKSCOPE__ASK__MESSAGE_AGGREGATORS;
    message.aggregators = &question;
    enum rs_status status = rs_client_address(words.connect, &address, err);
    if (status == RS_OK)
        status = rs_client_ask(&address, &message, on_reply, told, err);
    if (status >= 0 && told->text.failed)
        status = rs_err_set(err, RS_NOMEM, "out of memory");
    else if (status >= 0 && !told->text.length)
        status = rs_err_set(err, RS_UNREACHABLE, "the aggregator told nothing");
    if (status >= 0 && fwrite(told->text.data, 1, told->text.length, stdout) != told->text.length)
        status = rs_err_errno(err, "cannot print the aggregators");
    return status;
}

static int aggregators(void)
{
    struct told told = {.count = 0};
    struct rs_err err = {0};
    const enum rs_status status = ask(&told, &err);
    rs_buf_fini(&told.text);
    if (status == RS_CANCELLED)
        return RS_EXIT_INTERRUPTED;
    if (status < 0)
        return rs_cli_fail(verb, &err);
    if (told.double_count)
        rs_cli_note(verb,
                    "%" PRIu64 " of them live with one id: data folders that are copies of "
                    "each other; remove aggregator.id from all but one and start those again",
                    told.double_count);
    if (*told.away)
        rs_cli_note(verb, "as it was when the database was reached last: %s", told.away);
    return *told.away || told.double_count ? RS_EXIT_PARTIAL : RS_EXIT_COMPLETE;
}

int rs_cmd_aggregators(int argc, char **argv)
{
    static const struct rs_arg items[] = {
        {.name = "json", .kind = RS_ARG_FLAG, .target = &words.as_json, .help = "print JSON"},
        RS_CLI_CONNECT_ARGS(&words.connect),
    };
    static const struct rs_args args = {
        .verb = "aggregators",
        .operands = "",
        .summary =
            "Lists the aggregators that write into the same ClickHouse database (rankscope aggregator "
            "--store) and were there within the last week: where each is reached, since when it serves, "
            "how many captures it has. It is the database that tells; * marks the one that answers.",
        .items = items,
        .count = sizeof items / sizeof items[0],
        .epilogue =
            "  rankscope aggregators\n"
            "  rankscope aggregators --connect agg2.cluster:7070 --json\n"
            "\n"
            "living   it wrote that it lives within the last 10 s, by the database's clock\n"
            "stopped  it said that it stops\n"
            "gone     it was killed, or cannot reach the database\n"
            "\n"
            "Exit: 0 complete, 1 as it was before the database was away, or two have one id, 2 bad\n"
            "request, 3 the aggregator has no --store, 4 no aggregator or no database answers.\n"};
    struct rs_err err = {0};
    int first = 0;
    enum rs_status status = rs_args_parse(&args, argc, argv, &first, &err);
    if (status == RS_END)
        return RS_EXIT_COMPLETE;
    if (status == RS_OK && argc != first)
        status = rs_err_set(&err, RS_INVALID, "aggregators takes no operand");
    return status < 0 ? rs_cli_fail(verb, &err) : aggregators();
}
