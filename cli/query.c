/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `rankscope query ID|DIR SQL`: one SELECT of one's own on a capture's tables.
 *
 *     ID               AskQuery --> rows as JSON, as the aggregator's SQLite made them --+--> JSON as it is, or CSV
 *     DIR, or --data   joined in this process into a private store --> the same query ---+
 *
 * What may be asked, and how much of an answer comes, is the same on both ways: aggregator/store/query.h.
 */
#include "aggregator/store/query.h"

#include "aggregator/deliver/rows.h"
#include "cli/cli.h"
#include "cli/present.h"
#include "cli/verbs.h"
#include "common/base/csv_out.h"
#include "common/base/mem.h"
#include "common/client/client.h"

#include <jansson.h>

#include <inttypes.h>
#include <string.h>

static const char verb[] = "query";
enum { ROWS_MAX = 10000, BYTES_MAX = 16 << 20, TIME_S = 60, MEMORY_MIB = 2048 };

static struct {
    const char *data, *connect;
    int64_t limit;
    bool as_json, assume_common_clock;
} words;

struct answer {
    struct rs_buf json; /* "columns": [...], "rows": [...] */
    uint64_t rows;
    bool is_there, is_cut, is_partial, is_provisional;
};

/* ---- printing ------------------------------------------------------------------------------------------------------ */

static void put_cell(struct rs_buf *csv, const json_t *value)
{
    if (json_is_string(value))
        rs_csv_text(csv, json_string_value(value));
    else if (json_is_integer(value))
        rs_buf_printf(csv, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_real(value))
        rs_buf_printf(csv, "%.17g", json_real_value(value));
    /* Unknown is an empty cell. */
}

static void put_line(struct rs_buf *csv, const json_t *cells)
{
    for (size_t i = 0; i < json_array_size(cells); i++) {
        if (i > 0)
            rs_buf_string(csv, ",");
        put_cell(csv, json_array_get(cells, i));
    }
    rs_buf_string(csv, "\n");
}

static enum rs_status csv_of(const struct rs_buf *document, struct rs_buf *csv, struct rs_err *err)
{
    json_error_t why;
    json_t *root = json_loadb((const char *)document->data, document->length, 0, &why);
    const json_t *rows = root ? json_object_get(root, "rows") : NULL;
    const json_t *columns = root ? json_object_get(root, "columns") : NULL;
    enum rs_status status = RS_OK;
    if (!json_is_array(rows) || !json_is_array(columns))
        status = rs_err_set(err, RS_FORMAT, "the answer holds no rows: %.100s",
                            root ? "other members" : why.text);
    else
        put_line(csv, columns);
    for (size_t i = 0; status == RS_OK && i < json_array_size(rows); i++)
        put_line(csv, json_array_get(rows, i));
    json_decref(root);
    return status;
}

static enum rs_status print_answer(const struct answer *answer, struct rs_err *err)
{
    struct rs_buf document = {0}, csv = {0};
    rs_buf_string(&document, "{");
    rs_buf_bytes(&document, answer->json.data, answer->json.length);
    rs_buf_printf(&document, ", \"is_cut\": %s, \"is_partial\": %s, \"is_provisional\": %s}\n",
                  answer->is_cut ? "true" : "false", answer->is_partial ? "true" : "false",
                  answer->is_provisional ? "true" : "false");
    if (words.as_json)
        return rs_cli_print(&document, "the rows", err);
    const enum rs_status status = csv_of(&document, &csv, err);
    rs_buf_fini(&document);
    if (status == RS_OK)
        return rs_cli_print(&csv, "the rows", err);
    rs_buf_fini(&csv);
    return status;
}

static int finish(struct answer *answer, enum rs_status status, struct rs_err *err)
{
    if (status == RS_OK)
        status = print_answer(answer, err);
    rs_buf_fini(&answer->json);
    if (status < 0)
        return rs_cli_fail(verb, err);
    if (answer->is_cut)
        rs_cli_note(verb, "there are more rows than these %" PRIu64, answer->rows);
    return answer->is_cut || answer->is_partial || answer->is_provisional ? RS_EXIT_PARTIAL
                                                                          : RS_EXIT_COMPLETE;
}

/* ---- an aggregator's ----------------------------------------------------------------------------------------------- */

static bool on_rows(void *self, const Rankscope__Reply *reply)
{
    struct answer *answer = self;
    if (reply->message_case != RANKSCOPE__REPLY__MESSAGE_QUERY)
        return true;
    const Rankscope__QueryRows *rows = reply->query;
    answer->is_there = true;
    answer->rows = rows->rows;
    answer->is_cut = rows->is_cut;
    answer->is_partial = rows->is_partial;
    answer->is_provisional = rows->is_provisional;
    if (rows->is_provisional)
        rs_cli_note(verb, "the capture goes on: these are rows of what was joined so far");
    rs_buf_bytes(&answer->json, rows->json.data, rows->json.len);
    for (size_t i = 0; i < rows->n_lines; i++)
        rs_cli_note(verb, "%s", rows->lines[i]);
    return true;
}

static int ask(const struct rs_address *address, char *capture, char *sql)
{
    struct rs_err err = {0};
    struct answer answer = {.rows = 0};
    Rankscope__AskQuery question = RANKSCOPE__ASK_QUERY__INIT;
    Rankscope__Ask message = RANKSCOPE__ASK__INIT;
    question.capture = capture;
    question.sql = sql;
    question.limit = (uint64_t)words.limit;
    question.assume_common_clock = words.assume_common_clock;
    message.message_case = RANKSCOPE__ASK__MESSAGE_QUERY;
    message.query = &question;
    enum rs_status status = rs_client_ask(address, &message, on_rows, &answer, &err);
    if (status == RS_OK && !answer.is_there)
        status = rs_err_set(&err, RS_FORMAT, "the aggregator answers without rows");
    return finish(&answer, status, &err);
}

/* ---- a folder's ---------------------------------------------------------------------------------------------------- */

static int join(const char *dir, const char *sql)
{
    struct rs_err err = {0};
    struct answer answer = {.rows = 0};
    struct rs_query_facts facts = {0};
    struct rs_deliver_rows rows = {.store = NULL};
    struct rs_cli_noter noter = {.verb = verb};
    const struct rs_query_limits limits = {.rows = words.limit ? (uint64_t)words.limit : ROWS_MAX,
                                           .bytes = BYTES_MAX,
                                           .time_ns = TIME_S * (rs_dur)RS_NS_PER_S,
                                           .memory_bytes = (int64_t)MEMORY_MIB << 20};
    enum rs_status status =
        rs_deliver_rows_open(dir, words.assume_common_clock, rs_cli_note_line, &noter, &rows, &err);
    if (status >= 0)
        status = rs_row_store_query(rows.store, sql, &limits, &answer.json, &facts, &err);
    answer.rows = facts.rows;
    answer.is_cut = facts.is_cut;
    answer.is_partial = rows.is_partial;
    rs_deliver_rows_close(&rows);
    return finish(&answer, status, &err);
}

/* ---- the verb ------------------------------------------------------------------------------------------------------ */

static int query(char **operands)
{
    struct rs_err err = {0};
    struct rs_client_place place;
    if (rs_client_place_of(operands[0], words.data, words.connect, &place, &err) < 0)
        return rs_cli_fail(verb, &err);
    return *place.dir ? join(place.dir, operands[1])
                      : ask(&place.address, operands[0], operands[1]);
}

/* clang-format off */
static const struct rs_arg options[] = {
    RS_OPT_FLAG("json", 0, &words.as_json, "print JSON instead of CSV; unknown is null"),
    RS_OPT_INT("limit", 0, &words.limit, "N", 1, ROWS_MAX, "the first N rows (default, and the most: 10000)"),
    RS_CLI_COMMON_CLOCK_ARG(&words.assume_common_clock),
    RS_CLI_DATA_ARG(&words.data),
    RS_CLI_CONNECT_ARGS(&words.connect),
};
const struct rs_args rs_grammar_query = {
    .verb = verb, .operands = "DIR|ID SQL", .least = 2, .most = 2, .expected = "give a capture and a SELECT; see rankscope query --help",
    .summary = "The rows of one SELECT on the tables of a capture that is closed: of an ID by the aggregator that holds it, of a capture's folder in this process. It reads and computes, and can do nothing else.",
    RS_OPTIONS(options), .run = query,
    .epilogue =
        "  rankscope table                   # which tables there are\n"
        "  rankscope table --schema finding  # and their columns\n"
        "  rankscope query 20260102-030405-a1b2c3 'SELECT kind, confidence FROM finding'\n"
        "\n"
        "Exit: 0 complete, 1 rows were cut off or something is missing in the capture (named), 2 no such\n"
        "capture, or not one SELECT, 3 refused (time, memory), 4 no aggregator answers.\n"};
/* clang-format on */
