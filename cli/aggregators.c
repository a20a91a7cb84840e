/* SPDX-License-Identifier: Apache-2.0 */
/* `rankscope aggregators`: who writes into the database of the aggregator that is asked (aggregator --store), and who of them lives. */
#include "cli/cli.h"
#include "cli/verbs.h"
#include "common/answer/answer.h"
#include "common/answer/answer_text.h"
#include "common/client/client.h"

#include <inttypes.h>
#include <stdio.h>

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
        rs_answer_aggregators_text(table, &told->text);
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
    if (status >= 0 && !told->text.failed && !told->text.length)
        status = rs_err_set(err, RS_UNREACHABLE, "the aggregator told nothing");
    return status < 0 ? status : rs_cli_print(&told->text, "the aggregators", err);
}

static int aggregators(char **operands)
{
    (void)operands;
    struct told told = {.count = 0};
    struct rs_err err = {0};
    const enum rs_status status = ask(&told, &err);
    rs_buf_fini(&told.text);
    if (status < 0)
        return rs_cli_end(verb, status, &err);
    if (told.double_count)
        rs_cli_note(verb,
                    "%" PRIu64 " of them live with one id: data folders that are copies of "
                    "each other; remove aggregator.id from all but one and start those again",
                    told.double_count);
    if (*told.away)
        rs_cli_note(verb, "as it was when the database was reached last: %s", told.away);
    return *told.away || told.double_count ? RS_EXIT_PARTIAL : RS_EXIT_COMPLETE;
}

/* clang-format off */
static const struct rs_arg options[] = {
    RS_CLI_JSON_ARG(&words.as_json),
    RS_CLI_CONNECT_ARGS(&words.connect),
};
const struct rs_args rs_grammar_aggregators = {
    .verb = "aggregators", .operands = "", .expected = "aggregators takes no operand",
    .summary = "Lists the aggregators that write into the same ClickHouse database (rankscope aggregator --store) and were there within the last week: where each is reached, since when it serves, how many captures it has. It is the database that tells; * marks the one that answers.",
    RS_OPTIONS(options), .run = aggregators,
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
/* clang-format on */
