/* SPDX-License-Identifier: Apache-2.0 */
/* `rankscope counters`: what the aggregator counts, and what its collectors told last. */
#include "common/base/counters.h"

#include "cli/cli.h"
#include "cli/verbs.h"
#include "common/answer/answer.h"
#include "common/answer/answer_text.h"
#include "common/client/client.h"
#include "common/client/counters.h"

#include <inttypes.h>

static struct {
    const char *connect;
    bool as_json, as_prometheus;
} words;

static enum rs_status print(const struct rs_client_counters *daemons, struct rs_err *err)
{
    struct rs_buf buf = {0};
    if (words.as_prometheus)
        rs_counters_prometheus(daemons->sets, daemons->count, &buf);
    else if (words.as_json)
        rs_answer_counters(daemons->sets, daemons->count, 1, &buf);
    else
        for (size_t i = 0; i < daemons->count; i++)
            rs_answer_counters_text(&daemons->sets[i], &buf);
    if (words.as_json)
        rs_buf_u8(&buf, '\n');
    return rs_cli_print(&buf, "the counters", err);
}

static enum rs_status counters(char **operands, struct rs_err *err)
{
    struct rs_address address;
    struct rs_client_counters daemons = {.count = 0};
    (void)operands;
    if (words.as_json && words.as_prometheus)
        return rs_err_set(err, RS_INVALID, "either --json or --prometheus");
    enum rs_status status = rs_client_address(words.connect, &address, err);
    if (status == RS_OK)
        status = rs_client_counters_ask(&address, &daemons, err);
    if (status >= 0)
        status = print(&daemons, err);
    if (status == RS_OK && daemons.unknown)
        rs_cli_note("counters", "%" PRIu64 " counters of a newer daemon are not shown",
                    daemons.unknown);
    rs_client_counters_fini(&daemons);
    return status < 0 ? status : RS_OK;
}

/* clang-format off */
static const struct rs_arg options[] = {
    RS_OPT_FLAG("prometheus", 0, &words.as_prometheus, "print Prometheus' text format"),
    RS_CLI_JSON_ARG(&words.as_json),
    RS_CLI_CONNECT_ARGS(&words.connect),
};
const struct rs_args rs_grammar_counters = {
    .verb = "counters", .operands = "", .expected = "counters takes no operand",
    .summary = "Prints what the aggregator counts, and what the collectors that are connected to it told last (every 10 s): chunks, losses, refusals, memory.",
    RS_OPTIONS(options), .act = counters,
    .epilogue =
        "  rankscope counters\n"
        "  rankscope counters --prometheus > /var/lib/node_exporter/rankscope.prom\n"
        "\n"
        "Exit: 0 complete, 2 bad request, 4 no aggregator answers.\n"};
/* clang-format on */
