/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of a capture's tables, page by page from the server's blocks to JSON or CSV, as the client takes them; what the command
 * `rankscope table` prints.
 */
#include "aggregator/http/api_priv.h"
#include "aggregator/model/columns.h"
#include "aggregator/model/history.h"
#include "aggregator/model/reads.h"
#include "common/base/json_out.h"
#include "common/base/mem.h"
#include "common/request/numbers.h"
#include "common/wire/wire.h"

#include <jansson.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SCHEMA_VERSION = 1, COLUMNS_MAX = 32, NAMES_MAX = 64 };

/* Words that people look for, beside the names of the tables themselves. */
static const struct {
    const char *word, *read;
} aliases[] = {
    {"steps", "step_device"}, {"ops", "op"},           {"links", "link"},
    {"kernels", "kernel"},    {"findings", "finding"},
};

static bool find_read(const char *word, enum rs_read *read_p)
{
    for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++)
        if (strcmp(word, aliases[i].word) == 0)
            word = aliases[i].read;
    return rs_read_named(word, read_p);
}

struct rows {
    struct rs_call *call;
    Rankscope__Reply *first;
    const struct rs_table *table;
    struct rs_column columns[COLUMNS_MAX]; /* that are shown */
    struct rs_table shown;
    struct rs_block block;
    bool is_csv, has_begun, is_over;
    /* What is known of all rows with the last of them only: it stands behind them. */
    bool is_partial, is_provisional;
    struct rs_buf notes;
    struct rs_json_out notes_json;
    uint64_t count, limit; /* 0: all */
    char cursor[512];      /* behind the last row */
};

static void end_rows(void *self)
{
    struct rows *rows = self;
    rs_call_end(&rows->call);
    if (rows->first)
        rankscope__reply__free_unpacked(rows->first, NULL);
    rs_block_fini(&rows->block);
    rs_buf_fini(&rows->notes);
    rs_mem_free(rows);
}

static void put_begin(struct rows *rows, struct rs_buf *buf)
{
    rows->has_begun = true;
    if (rows->is_csv)
        rs_csv_head(&rows->shown, buf);
    else
        rs_buf_printf(buf, "{\"schema_version\": %d, \"table\": \"%s\", \"rows\": [",
                      SCHEMA_VERSION, rows->table->name);
}

/* Where the limit cut it off the next page begins. */
static void put_end(struct rows *rows, struct rs_buf *buf)
{
    struct rs_json_out json;
    if (rows->is_csv)
        return;
    rs_json_out_end(&rows->notes_json);
    rs_buf_printf(buf, "\n], \"is_partial\": %s, \"is_provisional\": %s, \"notes\": ",
                  rows->is_partial ? "true" : "false", rows->is_provisional ? "true" : "false");
    rs_buf_bytes(buf, rows->notes.data, rows->notes.length);
    rs_buf_string(buf, ", \"cursor\": ");
    if (rows->limit && rows->count == rows->limit) {
        rs_json_out_init(&json, buf, 0);
        rs_json_out_string(&json, rows->cursor);
    } else {
        rs_buf_string(buf, "null");
    }
    rs_buf_string(buf, "}\n");
    buf->failed = buf->failed || rows->notes.failed;
}

static enum rs_status put_page(struct rows *rows, const Rankscope__TableRows *page,
                               struct rs_buf *buf)
{
    struct rs_err err = {0};
    enum rs_status status = RS_OK;
    if (!rows->has_begun)
        put_begin(rows, buf);
    rows->is_partial = page->is_partial;
    rows->is_provisional = page->is_provisional;
    for (size_t i = 0; i < page->n_lines; i++)
        rs_json_out_string(&rows->notes_json, page->lines[i]);
    if (page->block.len)
        status = rs_block_take(rows->table, rs_view_of(page->block.data, page->block.len),
                               &rows->block, &err);
    for (size_t i = 0; status == RS_OK && page->block.len && i < rows->block.count; i++) {
        if (rows->is_csv) {
            rs_csv_row(&rows->shown, rs_block_row(&rows->block, i), buf);
        } else {
            rs_buf_string(buf, rows->count ? ",\n" : "\n");
            rs_json_row(&rows->shown, rs_block_row(&rows->block, i), buf);
        }
        rows->count++;
    }
    if (page->rows)
        (void)snprintf(rows->cursor, sizeof rows->cursor, "%s", page->cursor);
    return status;
}

static enum rs_status next_rows(void *self, struct rs_buf *buf)
{
    struct rows *rows = self;
    Rankscope__Reply *reply = rows->first;
    struct rs_err err = {0};
    enum rs_status status = RS_OK;
    if (rows->is_over)
        return RS_END;
    rows->first = NULL;
    while (!reply && (status == RS_OK || status == RS_AGAIN))
        status = rs_call_next(rows->call, rs_time_monotonic() + RS_NS_PER_S, &reply, &err);
    if (!reply)
        return RS_UNREACHABLE; /* the last reply says that it is the last: an end before it is none */
    status = reply->message_case == RANKSCOPE__REPLY__MESSAGE_TABLE
                 ? put_page(rows, reply->table, buf)
                 : RS_FORMAT;
    rows->is_over = reply->last;
    if (status == RS_OK && reply->last)
        put_end(rows, buf);
    rankscope__reply__free_unpacked(reply, NULL);
    return status;
}

static bool is_csv(struct api_ask *ask, bool *is_csv_p)
{
    const char *format = rs_http_query(ask->request, "format");
    const char *accept = rs_http_header(ask->request, "Accept");
    *is_csv_p = format ? strcmp(format, "csv") == 0 : accept && strncmp(accept, "text/csv", 8) == 0;
    if (!format || *is_csv_p || strcmp(format, "json") == 0)
        return true;
    rs_http_problem_as(ask->answer, 400, "format is json or csv");
    return false;
}

/* "rank,step": only these, in this order; the rows are as they were. False: the answer says why. */
static bool choose_columns(struct api_ask *ask, struct rows *rows)
{
    const char *at = rs_http_query(ask->request, "columns");
    struct rs_err err = {0};
    rows->shown = *rows->table;
    if (!at)
        return true;
    rows->shown.columns = rows->columns;
    rows->shown.column_count = 0;
    const char *end;
    for (; *at; at = *end ? end + 1 : end) {
        char name[64];
        end = at + strcspn(at, ",");
        (void)snprintf(name, sizeof name, "%.*s", (int)(end - at), at);
        const struct rs_column *column = rs_table_column(rows->table, name);
        if (!column || rows->shown.column_count == COLUMNS_MAX) {
            (void)rs_err_set(&err, RS_INVALID,
                             column ? "%s: more columns than it has are asked for, with \"%s\""
                                    : "%s has no column \"%s\": /api/v1/tables lists them",
                             rows->table->name, name);
            rs_http_problem(ask->answer, &err);
            return false;
        }
        rows->columns[rows->shown.column_count++] = *column;
    }
    if (!rows->shown.column_count)
        rs_http_problem_as(ask->answer, 400, "columns names none");
    return rows->shown.column_count > 0;
}

/* False: the answer says why. */
static bool choose(struct api_ask *ask, int64_t steps[RS_READ_FILTER_MAX],
                   uint32_t ranks[RS_READ_FILTER_MAX], Rankscope__AskTable *question)
{
    struct rs_err err = {0};
    if (rs_numbers_of_steps(rs_http_query(ask->request, "step"), steps, RS_READ_FILTER_MAX,
                            &question->n_steps, &err) == RS_OK &&
        rs_numbers_of_ranks(rs_http_query(ask->request, "ranks"), ranks, RS_READ_FILTER_MAX,
                            &question->n_ranks, &err) == RS_OK)
        return true;
    rs_http_problem(ask->answer, &err);
    return false;
}

/* How rows are wanted, whatever they are of. NULL: the answer says why. */
static struct rows *begin_rows(struct api_ask *ask, const struct rs_table *table)
{
    bool has_csv = false;
    uint64_t limit = 0;
    if (!is_csv(ask, &has_csv) || !api_number(ask, "limit", &limit))
        return NULL;
    struct rows *rows = rs_mem_calloc(1, sizeof *rows);
    if (!rows) {
        rs_http_problem_as(ask->answer, 500, "out of memory");
        return NULL;
    }
    rows->table = table;
    rows->is_csv = has_csv;
    rows->limit = limit;
    rs_json_out_init(&rows->notes_json, &rows->notes, 0);
    rs_json_out_array(&rows->notes_json);
    if (choose_columns(ask, rows))
        return rows;
    end_rows(rows);
    return NULL;
}

/* Asks, and answers with what comes; takes `rows`. */
static void answer_rows(struct api_ask *ask, Rankscope__Ask *message, struct rows *rows)
{
    struct rs_err err = {0};
    rows->call = api_begin(ask, message);
    if (rows->call)
        rows->first = api_next(ask, rows->call, &err);
    if (!rows->first) {
        if (rows->call && err.status >= 0)
            rs_http_problem_as(ask->answer, 500, "the aggregator gave no answer");
        end_rows(rows);
        return;
    }
    ask->answer->type = rows->is_csv ? "text/csv; charset=utf-8" : "application/json";
    ask->answer->next = next_rows;
    ask->answer->end = end_rows;
    ask->answer->self = rows;
}

void route_table(struct api_ask *ask)
{
    Rankscope__AskTable question = RANKSCOPE__ASK_TABLE__INIT;
    Rankscope__Ask message = RANKSCOPE__ASK__INIT;
    const char *cursor = rs_http_query(ask->request, "cursor");
    enum rs_read read;
    uint64_t from_ns = 0, to_ns = 0;
    bool has_common_clock = false;
    int64_t steps[RS_READ_FILTER_MAX];
    uint32_t ranks[RS_READ_FILTER_MAX];
    if (!rs_wire_is_capture_id(ask->id) || !find_read(ask->rest, &read)) {
        rs_http_problem_as(ask->answer, 404,
                           "captures have no such table: /api/v1/tables lists them");
        return;
    }
    if (!api_number(ask, "from_ns", &from_ns) || !api_number(ask, "to_ns", &to_ns) ||
        !api_flag(ask, "assume_common_clock", &has_common_clock) ||
        !choose(ask, steps, ranks, &question))
        return;
    struct rows *rows = begin_rows(ask, rs_read_def(read)->result);
    if (!rows)
        return;
    question.capture = ask->id;
    question.read = api_lend(rs_read_def(read)->name);
    question.limit = rows->limit;
    question.assume_common_clock = has_common_clock;
    question.steps = steps;
    question.ranks = ranks;
    question.from_ns = (int64_t)from_ns; /* api_number() has looked */
    question.to_ns = (int64_t)to_ns;
    question.cursor = api_lend(cursor ? cursor : "");
    message.message_case = RANKSCOPE__ASK__MESSAGE_TABLE;
    message.table = &question;
    answer_rows(ask, &message, rows);
}

/* "n1,n2" into at most NAMES_MAX pointers into `text`. RS_INVALID. */
static bool split_names(char *text, char *names[NAMES_MAX], size_t *count_p)
{
    char *rest = text;
    for (char *name; (name = strtok_r(rest, ",", &rest)) != NULL;) {
        if (*count_p == NAMES_MAX)
            return false;
        names[(*count_p)++] = name;
    }
    return true;
}

void route_history(struct api_ask *ask)
{
    Rankscope__AskHistory question = RANKSCOPE__ASK_HISTORY__INIT;
    Rankscope__Ask message = RANKSCOPE__ASK__INIT;
    const char *cursor = rs_http_query(ask->request, "cursor");
    const char *run = rs_http_query(ask->request, "run");
    const char *hosts = rs_http_query(ask->request, "hosts");
    enum rs_history_view view;
    struct rs_err err = {0};
    uint64_t since_ns = 0;
    uint32_t ranks[RS_READ_FILTER_MAX];
    char *host_names[NAMES_MAX], *run_name = api_lend(run);
    if (!rs_history_named(ask->rest, &view)) {
        rs_http_problem_as(ask->answer, 404,
                           "there is a history of captures, ranks, findings and hosts");
        return;
    }
    if (!api_number(ask, "since_ns", &since_ns))
        return;
    if (rs_numbers_of_ranks(rs_http_query(ask->request, "ranks"), ranks, RS_READ_FILTER_MAX,
                            &question.n_ranks, &err) < 0) {
        rs_http_problem(ask->answer, &err);
        return;
    }
    char *text = rs_mem_strdup(hosts ? hosts : "");
    struct rows *rows = text ? begin_rows(ask, rs_history_def(view)->table) : NULL;
    if (rows && !split_names(text, host_names, &question.n_hosts)) {
        rs_http_problem_as(ask->answer, 400, "hosts names more than 64");
        end_rows(rows);
        rows = NULL;
    }
    if (rows) {
        question.view = api_lend(rs_history_def(view)->name);
        question.limit = rows->limit;
        question.hosts = host_names;
        question.runs = &run_name;
        question.n_runs = run != NULL;
        question.ranks = ranks;
        question.since_ns = (int64_t)since_ns;
        question.cursor = api_lend(cursor ? cursor : "");
        message.message_case = RANKSCOPE__ASK__MESSAGE_HISTORY;
        message.history = &question;
        answer_rows(ask, &message, rows);
    } else if (!text) {
        rs_http_problem_as(ask->answer, 500, "out of memory");
    }
    rs_mem_free(text);
}

/* Answers with the rows, or with what is wrong. */
static void query(struct api_ask *ask, const char *sql, uint64_t limit, bool has_common_clock)
{
    Rankscope__AskQuery question = RANKSCOPE__ASK_QUERY__INIT;
    Rankscope__Ask message = RANKSCOPE__ASK__INIT;
    struct rs_buf body = {0};
    struct rs_json_out notes;
    if (!rs_wire_is_capture_id(ask->id)) {
        rs_http_problem_as(ask->answer, 404, "there is no such capture");
        return;
    }
    if (!sql || !*sql) {
        rs_http_problem_as(ask->answer, 400, "sql=SELECT ... is what is asked");
        return;
    }
    question.capture = ask->id;
    question.sql = api_lend(sql);
    question.limit = limit;
    question.assume_common_clock = has_common_clock;
    message.message_case = RANKSCOPE__ASK__MESSAGE_QUERY;
    message.query = &question;
    Rankscope__Reply *reply = api_ask(ask, &message, RANKSCOPE__REPLY__MESSAGE_QUERY);
    if (!reply)
        return;
    const Rankscope__QueryRows *rows = reply->query;
    rs_buf_printf(&body,
                  "{\"schema_version\": %d, \"is_partial\": %s, \"is_provisional\": %s, "
                  "\"is_cut\": %s, \"notes\": ",
                  SCHEMA_VERSION, rows->is_partial ? "true" : "false",
                  rows->is_provisional ? "true" : "false", rows->is_cut ? "true" : "false");
    rs_json_out_init(&notes, &body, 0);
    rs_json_out_array(&notes);
    for (size_t i = 0; i < rows->n_lines; i++)
        rs_json_out_string(&notes, rows->lines[i]);
    rs_json_out_end(&notes);
    rs_buf_string(&body, ", ");
    rs_buf_bytes(&body, rows->json.data, rows->json.len);
    rs_buf_string(&body, "}\n");
    rankscope__reply__free_unpacked(reply, NULL);
    api_json(ask, &body);
}

void route_query(struct api_ask *ask)
{
    uint64_t limit = 0;
    bool has_common_clock = false;
    if (api_number(ask, "limit", &limit) && api_flag(ask, "assume_common_clock", &has_common_clock))
        query(ask, rs_http_query(ask->request, "sql"), limit, has_common_clock);
}

/* {"sql": "SELECT ...", "limit": 100, "assume_common_clock": false}: for what is too long for an address, and not to be in its log. */
void route_query_body(struct api_ask *ask)
{
    const struct rs_view body = ask->request->body;
    const char *sql = NULL;
    json_error_t why;
    json_int_t limit = 0;
    int has_common_clock = 0;
    json_t *root = json_loadb(body.length ? (const char *)body.data : "", body.length,
                              JSON_REJECT_DUPLICATES, &why);
    if (!root ||
        json_unpack_ex(root, &why, JSON_STRICT, "{s:s, s?I, s?b}", "sql", &sql, "limit", &limit,
                       "assume_common_clock", &has_common_clock) != 0 ||
        limit < 0) {
        char text[RS_HTTP_TEXT_BYTES];
        (void)snprintf(text, sizeof text,
                       "the body is {\"sql\": \"SELECT ...\", \"limit\": 100}: %.100s",
                       limit < 0 ? "a limit is a number from 0 on" : why.text);
        rs_http_problem_as(ask->answer, 400, text);
    } else {
        query(ask, sql, (uint64_t)limit, has_common_clock != 0);
    }
    json_decref(root);
}

void route_tables(struct api_ask *ask)
{
    struct rs_buf body = {0};
    rs_buf_printf(&body, "{\"schema_version\": %d, \"tables\": [", SCHEMA_VERSION);
    for (enum rs_read read = 0; read < RS_READ_COUNT; read++) {
        const struct rs_read_def *def = rs_read_def(read);
        struct rs_json_out json;
        rs_buf_printf(&body, "%s\n{\"name\": \"%s\", \"title\": ", read ? "," : "", def->name);
        rs_json_out_init(&json, &body, 0);
        rs_json_out_string(&json, def->help);
        rs_buf_string(&body, ", \"row\": ");
        rs_json_schema(def->result, &body);
        rs_buf_string(&body, "}");
    }
    rs_buf_string(&body, "\n]}");
    api_json(ask, &body);
}
