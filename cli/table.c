/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `rankscope table ID|DIR READ`: the rows of a named read (aggregator/model/reads.def) as CSV or JSON.
 *
 *     ID               AskTable --> blocks of rows, page by page, as the aggregator made them --+--> printed by their columns
 *     DIR, or --data   joined in this process into a private store --> the same read ----------+
 *     --store URL      the same read of rows that were copied into ClickHouse -----------------+
 *
 * Which reads there are, and what their columns mean, needs no capture: `table` alone, `table --schema READ`.
 */
#include "aggregator/deliver/rows.h"
#include "cli/cli.h"
#include "cli/options/nearest.h"
#include "cli/present.h"
#include "cli/print_rows.h"
#include "cli/store.h"
#include "cli/verbs.h"
#include "common/client/client.h"
#include "common/request/numbers.h"

#include <stdlib.h>
#include <string.h>

static const char verb[] = "table";

static struct {
    const char *data, *connect, *steps, *ranks;
    int64_t limit, from_ns, to_ns;
    bool as_json, as_schema, assume_common_clock;
    struct rs_clickhouse_options store; /* its url NULL: none */
} words;

/* Which rows: what the words mean. */
static struct {
    int64_t steps[RS_READ_FILTER_MAX];
    uint32_t ranks[RS_READ_FILTER_MAX];
    size_t step_count, rank_count;
} chosen;

/* ---- an aggregator's ----------------------------------------------------------------------------------------------- */

static int ask(const struct rs_address *address, char *capture, struct rs_rows_printer *printer)
{
    struct rs_err err = {0};
    char name[64];
    Rankscope__AskTable question = RANKSCOPE__ASK_TABLE__INIT;
    Rankscope__Ask message = RANKSCOPE__ASK__INIT;
    (void)snprintf(name, sizeof name, "%s", printer->table->name);
    question.capture = capture;
    question.read = name;
    question.limit = (uint64_t)words.limit;
    question.steps = chosen.steps;
    question.n_steps = chosen.step_count;
    question.ranks = chosen.ranks;
    question.n_ranks = chosen.rank_count;
    question.from_ns = words.from_ns;
    question.to_ns = words.to_ns;
    question.assume_common_clock = words.assume_common_clock;
    message.message_case = RANKSCOPE__ASK__MESSAGE_TABLE;
    message.table = &question;
    const enum rs_status status =
        rs_client_pages_ask(address, &message, rs_rows_take_page, printer, &err);
    return rs_rows_finish(printer, status, &err);
}

/* ---- a folder's ---------------------------------------------------------------------------------------------------- */

static bool take(void *self, const struct rs_block *block, size_t count)
{
    struct rs_rows_printer *printer = self;
    rs_rows_print(printer, block, count);
    return printer->status == RS_OK;
}

static enum rs_status check_filter(enum rs_read read, struct rs_rows_printer *printer,
                                   struct rs_deliver_read *how_p, struct rs_err *err)
{
    static int32_t ranks[RS_READ_FILTER_MAX];
    for (size_t i = 0; i < chosen.rank_count; i++)
        ranks[i] = (int32_t)chosen.ranks[i];
    *how_p = (struct rs_deliver_read){.read = read,
                                      .filter = {.steps = chosen.steps,
                                                 .step_count = chosen.step_count,
                                                 .ranks = ranks,
                                                 .rank_count = chosen.rank_count,
                                                 .from_ns = words.from_ns,
                                                 .to_ns = words.to_ns ? words.to_ns : INT64_MAX},
                                      .limit = (uint64_t)words.limit,
                                      .take = take,
                                      .self = printer};
    return rs_read_check_filter(read, &how_p->filter, err);
}

/* Rows that were copied into a database. */
static int read_store(const char *capture, enum rs_read read, struct rs_rows_printer *printer)
{
    struct rs_err err = {0};
    struct rs_row_store *rows = NULL;
    struct rs_deliver_read how;
    enum rs_status status = check_filter(read, printer, &how, &err);
    if (status == RS_OK)
        status = rs_clickhouse_open(&words.store, capture, RS_ROWS_READ, &rows, &err);
    if (status == RS_OK)
        status = rs_deliver_read_rows(rows, &how, &err);
    rs_row_store_close(&rows);
    return rs_rows_finish(printer, status, &err);
}

static int read_folder(const char *dir, enum rs_read read, struct rs_rows_printer *printer)
{
    struct rs_err err = {0};
    struct rs_cli_noter noter = {.verb = verb};
    struct rs_deliver_rows rows = {.store = NULL};
    struct rs_deliver_read how;
    enum rs_status status = check_filter(read, printer, &how, &err);
    if (status == RS_OK && rs_read_is_raw(read))
        return rs_rows_finish(printer, rs_deliver_read_spans(dir, &how, &err), &err);
    if (status == RS_OK)
        status = rs_deliver_rows_open(dir, words.assume_common_clock, rs_cli_note_line, &noter,
                                      &rows, &err);
    printer->is_partial = rows.is_partial;
    printer->is_provisional = rows.is_provisional;
    if (status == RS_OK)
        status = rs_deliver_read_rows(rows.store, &how, &err);
    rs_deliver_rows_close(&rows);
    return rs_rows_finish(printer, status, &err);
}

/* ---- the verb ------------------------------------------------------------------------------------------------------ */

static int list_reads(void)
{
    for (enum rs_read read = 0; read < RS_READ_COUNT; read++)
        printf("%-22s %s\n", rs_read_def(read)->name, rs_read_def(read)->help);
    if (fflush(stdout) == 0)
        return RS_EXIT_COMPLETE;
    struct rs_err err = {0};
    (void)rs_err_errno(&err, "cannot print the list of tables");
    return rs_cli_fail(verb, &err);
}

static int no_such_read(const char *word)
{
    struct rs_err err = {0};
    struct rs_nearest nearest = rs_nearest(word);
    for (enum rs_read read = 0; read < RS_READ_COUNT; read++)
        rs_nearest_look(&nearest, rs_read_def(read)->name);
    (void)rs_err_set(&err, RS_INVALID,
                     "there is no table \"%.60s\"%s%s%s; `rankscope table` lists them", word,
                     nearest.best ? "; did you mean \"" : "", nearest.best ? nearest.best : "",
                     nearest.best ? "\"?" : "");
    return rs_cli_fail(verb, &err);
}

/* Rows in a database are as they were copied: who asks for them otherwise would get something else than he thinks. */
static enum rs_status check_store(struct rs_err *err)
{
    static const char *const others[] = {"data", "connect", "assume-common-clock"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (rs_args_was_given(others[i]))
            return rs_err_set(err, RS_INVALID,
                              "--store reads rows as they were copied: --%s is not for it",
                              others[i]);
    return RS_OK;
}

static int table(char **operands)
{
    struct rs_err err = {0};
    struct rs_client_place place;
    enum rs_read read;
    size_t count = 0;
    while (operands[count])
        count++;
    if (!count && !words.as_schema)
        return list_reads();
    if (count != (words.as_schema ? 1 : 2)) {
        (void)rs_err_set(&err, RS_INVALID,
                         "give a capture and a table; see rankscope table --help");
        return rs_cli_fail(verb, &err);
    }
    if (!rs_read_named(operands[count - 1], &read))
        return no_such_read(operands[count - 1]);
    struct rs_rows_printer printer = {
        .verb = verb, .table = rs_read_def(read)->result, .as_json = words.as_json};
    if (words.as_schema)
        return rs_rows_print_schema(&printer);
    if (rs_numbers_of_steps(words.steps, chosen.steps, RS_READ_FILTER_MAX, &chosen.step_count,
                            &err) < 0 ||
        rs_numbers_of_ranks(words.ranks, chosen.ranks, RS_READ_FILTER_MAX, &chosen.rank_count,
                            &err) < 0 ||
        (words.store.url && check_store(&err) < 0))
        return rs_cli_fail(verb, &err);
    if (words.store.url)
        return read_store(operands[0], read, &printer);
    if (rs_client_place_of(operands[0], words.data, words.connect, &place, &err) < 0)
        return rs_cli_fail(verb, &err);
    return *place.dir ? read_folder(place.dir, read, &printer)
                      : ask(&place.address, operands[0], &printer);
}

/* clang-format off */
static const struct rs_arg options[] = {
    RS_OPT_FLAG("json", 0, &words.as_json, "print JSON instead of CSV; unknown is null"),
    RS_OPT_INT("limit", 0, &words.limit, "N", 1, INT64_MAX, "the first N rows (default: all)"),
    RS_OPT_TEXT("ranks", 0, &words.ranks, "RANKS", "of whole tables, span, host_span and counter: only rows of these ranks, 0-3,8"),
    RS_OPT_TEXT("step", 0, &words.steps, "N[,N]", "of whole tables: only rows of these steps"),
    RS_OPT_INT("from-ns", 0, &words.from_ns, "NS", 0, INT64_MAX, "of span, host_span and counter: what ends behind this time, Unix"),
    RS_OPT_INT("to-ns", 0, &words.to_ns, "NS", 0, INT64_MAX, "of span, host_span and counter: what begins before this time, Unix"),
    RS_OPT_FLAG("schema", 0, &words.as_schema, "print the JSON Schema of a row instead: columns, units, what they mean; needs no capture"),
    RS_CLI_COMMON_CLOCK_ARG(&words.assume_common_clock),
    RS_CLI_DATA_ARG(&words.data),
    RS_OPT_TEXT("store", 0, &words.store.url, "URL", "read the rows that were copied into this ClickHouse (rankscope store copy)"),
    RS_CLI_STORE_ARGS(&words.store),
    RS_CLI_CONNECT_ARGS(&words.connect),
};
const struct rs_args rs_grammar_table = {
    .verb = verb, .operands = "[[DIR|ID] READ]", .most = RS_ARGS_ANY,
    .summary = "The rows of one table of a capture, as CSV or JSON: of an ID by the aggregator that holds it, of a capture's folder in this process, or of what was copied into a database. Without operands: which tables there are.",
    RS_OPTIONS(options), .run = table,
    .epilogue =
        "  rankscope table\n"
        "  rankscope table --schema finding\n"
        "  rankscope table 20260102-030405-a1b2c3 finding --json\n"
        "  rankscope table 20260102-030405-a1b2c3 collectives --connect 127.0.0.1:7070\n"
        "  rankscope table 20260102-030405-a1b2c3 span --ranks 0-3\n"
        "\n"
        "A capture that goes on has the rows of what has come so far.\n"
        "\n"
        "Exit: 0 complete, 1 something is missing in the capture (named), 2 no such capture or table,\n"
        "3 refused, 4 no aggregator answers.\n"};
/* clang-format on */
