/* SPDX-License-Identifier: Apache-2.0 */
/* `rankscope counters`: what the aggregator counts, and what its collectors told last. */
#include "common/base/counters.h"

#include "cli/cli.h"
#include "cli/verbs.h"
#include "common/answer/answer.h"
#include "common/answer/answer_text.h"
#include "common/base/mem.h"
#include "common/client/client.h"

#include <inttypes.h>
#include <string.h>

static const char verb[] = "counters";

static struct {
    const char *connect;
    bool as_json, as_prometheus;
} words;

struct daemons {
    struct rs_counter_set *sets; /* texts are own copies */
    size_t count, capacity;
    uint64_t unknown; /* counters of a newer daemon */
    bool is_short;    /* no memory */
};

static void take_set(struct daemons *daemons, const Rankscope__CounterSet *from)
{
    if (rs_mem_grow((void **)&daemons->sets, &daemons->capacity, daemons->count + 1,
                    sizeof *daemons->sets) < 0) {
        daemons->is_short = true;
        return;
    }
    struct rs_counter_set *set = &daemons->sets[daemons->count++];
    *set = (struct rs_counter_set){.daemon = rs_mem_strdup(from->daemon),
                                   .node = rs_mem_strdup(from->node),
                                   .instance = rs_mem_strdup(from->instance)};
    daemons->is_short |= !set->daemon || !set->node || !set->instance;
    for (size_t i = 0; i < from->n_counters; i++) {
        const enum rs_counter counter = rs_counter_find(from->counters[i]->name);
        daemons->unknown += counter == RS_COUNT_END;
        if (counter == RS_COUNT_END)
            continue;
        set->values[counter] = from->counters[i]->value;
        set->has[counter] = true;
    }
}

static bool on_reply(void *self, const Rankscope__Reply *reply)
{
    struct daemons *daemons = self;
    if (reply->message_case != RANKSCOPE__REPLY__MESSAGE_COUNTERS)
        return false;
    for (size_t i = 0; i < reply->counters->n_daemons; i++)
        take_set(daemons, reply->counters->daemons[i]);
    return !daemons->is_short;
}

static enum rs_status print(const struct daemons *daemons, struct rs_err *err)
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

static int counters(char **operands)
{
    struct rs_err err = {0};
    (void)operands;
    if (words.as_json && words.as_prometheus) {
        (void)rs_err_set(&err, RS_INVALID, "either --json or --prometheus");
        return rs_cli_fail(verb, &err);
    }
    struct rs_address address;
    struct daemons daemons = {0};
    Rankscope__AskCounters ask_counters = RANKSCOPE__ASK_COUNTERS__INIT;
    Rankscope__Ask ask = RANKSCOPE__ASK__INIT;
    ask.message_case = RANKSCOPE__ASK__MESSAGE_COUNTERS;
    ask.counters = &ask_counters;
    enum rs_status status = rs_client_address(words.connect, &address, &err);
    if (status == RS_OK)
        status = rs_client_ask(&address, &ask, on_reply, &daemons, &err);
    if (status >= 0 && daemons.is_short)
        status = rs_err_set(&err, RS_NOMEM, "out of memory");
    if (status >= 0 && !daemons.count)
        status = rs_err_set(&err, RS_UNREACHABLE, "the aggregator told no counters");
    if (status >= 0)
        status = print(&daemons, &err);
    if (status == RS_OK && daemons.unknown)
        rs_cli_note(verb, "%" PRIu64 " counters of a newer daemon are not shown", daemons.unknown);
    for (size_t i = 0; i < daemons.count; i++) {
        union {
            const char *in;
            void *out;
        } texts[] = {{.in = daemons.sets[i].daemon},
                     {.in = daemons.sets[i].node},
                     {.in = daemons.sets[i].instance}};
        for (size_t k = 0; k < sizeof texts / sizeof texts[0]; k++)
            rs_mem_free(texts[k].out);
    }
    rs_mem_free(daemons.sets);
    return status < 0 ? rs_cli_end(verb, status, &err) : RS_EXIT_COMPLETE;
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
    RS_OPTIONS(options), .run = counters,
    .epilogue =
        "  rankscope counters\n"
        "  rankscope counters --prometheus > /var/lib/node_exporter/rankscope.prom\n"
        "\n"
        "Exit: 0 complete, 2 bad request, 4 no aggregator answers.\n"};
/* clang-format on */
