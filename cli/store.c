/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `rankscope store copy|rm`: rows of captures in ClickHouse.
 *
 *     copy FOLDER URL    the capture is joined here into a private store --unit by unit--> the database
 *     copy URL FOLDER    the database --unit by unit--> the folder (rs_row_store_copy_into())
 *     copy URL URL       from one server to another
 */
#include "cli/store.h"

#include "aggregator/analysis/rows.h"
#include "aggregator/deliver/rows.h"
#include "cli/cli.h"
#include "cli/present.h"
#include "cli/verbs.h"
#include "common/wire/wire.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char copy_verb[] = "store copy";

static struct {
    const char *name;
    bool is_quiet;
    struct rs_clickhouse_options store;
} words;

/* "": the folder's name is none of a capture. */
static void name_of(const char *path, char name[RS_STORE_ID_BYTES])
{
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        length--;
    size_t first = length;
    while (first && path[first - 1] != '/')
        first--;
    (void)snprintf(name, RS_STORE_ID_BYTES, "%.*s", (int)(length - first), path + first);
    if (length - first >= RS_STORE_ID_BYTES || !rs_wire_is_capture_id(name))
        *name = '\0';
}

static enum rs_status open_url(const char *url, const char *name, enum rs_row_mode mode,
                               struct rs_row_store **rows_p, struct rs_err *err)
{
    struct rs_clickhouse_options options = words.store;
    options.url = url;
    return rs_clickhouse_open(&options, name, mode, rows_p, err);
}

static enum rs_status copy(const char *from_word, const char *to_word, const char *name,
                           uint64_t *rows_p, bool *is_partial_p, struct rs_err *err)
{
    struct rs_row_store *from = NULL, *to = NULL;
    struct rs_deliver_rows joined = {.store = NULL};
    struct rs_cli_noter noter = {.verb = copy_verb};
    const bool is_from_url = rs_clickhouse_is_url(from_word);
    enum rs_status status = is_from_url ? open_url(from_word, name, RS_ROWS_READ, &from, err)
                                        : rs_deliver_rows_open(from_word, false, rs_cli_note_line,
                                                               &noter, &joined, err);
    *is_partial_p = joined.is_partial || joined.is_provisional;
    from = is_from_url ? from : joined.store;
    if (status == RS_OK && rs_clickhouse_is_url(to_word)) {
        status = open_url(to_word, name, RS_ROWS_WRITE, &to, err);
        if (status == RS_OK)
            status = rs_row_store_copy(from, to, RS_ROWS_CAPTURE, rows_p, err);
    } else if (status == RS_OK) {
        const struct rs_row_copy_into into = {.from = from,
                                              .capture = RS_ROWS_CAPTURE,
                                              .dir = to_word,
                                              .print = rs_cli_note_line,
                                              .self = &noter};
        status = rs_row_store_copy_into(&into, rows_p, err);
    }
    rs_row_store_close(&from);
    rs_row_store_close(&to);
    return status;
}

/* Which capture is copied: what --as says, else the name of the folder, which one of the two is. */
static enum rs_status find_name(const char *from, const char *to, char name[RS_STORE_ID_BYTES],
                                struct rs_err *err)
{
    const bool is_from_url = rs_clickhouse_is_url(from), is_to_url = rs_clickhouse_is_url(to);
    if (!is_from_url && !is_to_url)
        return rs_err_set(err, RS_INVALID,
                          "one of the two is a database: clickhouse://[USER@]HOST/DATABASE");
    if (words.name && !rs_wire_is_capture_id(words.name))
        return rs_err_set(err, RS_INVALID,
                          "--as: a capture's name is of a-z, A-Z, 0-9, -, _ and ., 63 at most, not "
                          "\"%.100s\"",
                          words.name);
    if (words.name)
        (void)snprintf(name, RS_STORE_ID_BYTES, "%.63s", words.name);
    else if (!is_from_url || !is_to_url)
        name_of(is_from_url ? to : from, name);
    return *name ? RS_OK
                 : rs_err_set(err, RS_INVALID,
                              "which capture? No folder of one is named; give its name with --as");
}

static int store_copy(char **operands)
{
    struct rs_err err = {0};
    char name[RS_STORE_ID_BYTES] = "";
    uint64_t rows = 0;
    bool is_partial = false;
    enum rs_status status = find_name(operands[0], operands[1], name, &err);
    if (status == RS_OK)
        status = copy(operands[0], operands[1], name, &rows, &is_partial, &err);
    if (status < 0)
        return rs_cli_fail(copy_verb, &err);
    if (!words.is_quiet)
        printf("%s: %" PRIu64 " rows copied to %s\n", name, rows, operands[1]);
    return is_partial ? RS_EXIT_PARTIAL : RS_EXIT_COMPLETE;
}

static enum rs_status store_rm(char **operands, struct rs_err *err)
{
    struct rs_clickhouse_options options = words.store;
    enum rs_status status = RS_OK;
    options.url = *operands;
    while (*++operands && status == RS_OK)
        status = rs_clickhouse_remove(&options, *operands, err);
    return status;
}

/* clang-format off */
static const struct rs_arg copy_options[] = {
    RS_OPT_TEXT("as", 0, &words.name, "ID", "the capture's name in the database (default: the name of its folder)"),
    RS_CLI_QUIET_ARG(&words.is_quiet),
    RS_CLI_STORE_ARGS(&words.store),
};
const struct rs_args rs_grammar_store_copy = {
    .verb = copy_verb, .operands = "FROM TO", .least = 2, .most = 2, .expected = "give where from and where to; see --help",
    .summary = "Copies the rows of one capture: from its folder into a ClickHouse database, from there into a capture's folder, or from one database into another. What is there is replaced, unit by unit; a reader sees each whole.",
    RS_OPTIONS(copy_options), .run = store_copy,
    .epilogue =
        "  rankscope store copy /var/lib/rankscope/captures/20260102-030405-a1b2c3 \\\n"
        "                       clickhouse://profiler@ch.example.com/rankscope\n"
        "  rankscope store copy clickhouse://profiler@ch.example.com/rankscope captures/20260102-030405-a1b2c3\n"
        "\n"
        "clickhouse:// is HTTPS (port 8443); clickhouse+http:// (8123) is for this machine alone. Rows only:\n"
        "what the capture was made of (segments) goes to an archive (rankscope archive).\n"
        "\n"
        "Exit: 0 copied, 1 copied, and something is missing in the capture (named), 2 no such capture, 3 refused,\n"
        "4 the database does not answer.\n"};
static const struct rs_arg rm_options[] = {
    RS_CLI_STORE_ARGS(&words.store),
};
const struct rs_args rs_grammar_store_rm = {
    .verb = "store rm", .operands = "URL ID...", .least = 2, .most = RS_ARGS_ANY, .expected = "give a database and the IDs of captures",
    .summary = "Removes rows of captures from a ClickHouse database, by their partitions.",
    RS_OPTIONS(rm_options), .act = store_rm,
    .epilogue =
        "  rankscope store rm clickhouse://profiler@ch.example.com/rankscope 20260102-030405-a1b2c3\n"
        "\n"
        "Exit: 0 they are not there (any more), 2 bad request, 3 refused, 4 the database does not answer.\n"};
/* clang-format on */
