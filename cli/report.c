/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `rankscope report DIR|ID`: the tables and the report of a capture that an aggregator stored, with the same bytes as
 * `analyse` makes them from files.
 *
 *     DIR, or ID with --data: joined in this process (aggregator/deliver)
 *     ID                    : joined by the aggregator, fetched (present.c)
 *     ID with --store       : read from the rows that are in a database, whoever joined them
 */
#include "aggregator/deliver/rows.h"
#include "cli/cli.h"
#include "cli/present.h"
#include "cli/store.h"
#include "cli/verbs.h"
#include "common/client/client.h"

#include <string.h>

static const char verb[] = "report";

static struct {
    const char *out_dir, *data, *connect;
    struct rs_clickhouse_options store; /* its url NULL: none */
    struct rs_report_options how;
} words = {.how = {.fail_above = -1}};

static int report_folder(const char *capture_dir)
{
    const struct rs_report_options *options = &words.how;
    struct rs_err err = {0};
    struct rs_deliver_result result = {0};
    const struct rs_deliver_options how = {.out_dir = words.out_dir,
                                           .assume_common_clock = options->assume_common_clock,
                                           .report = rs_cli_report_kind(options),
                                           .style = rs_cli_style()};
    struct rs_cli_noter noter = {.verb = verb};
    const enum rs_status status =
        rs_deliver_capture(capture_dir, &how, rs_cli_note_line, &noter, &result, &err);
    const int code = status == RS_OK ? rs_cli_present(verb, &result, words.out_dir, options)
                                     : rs_cli_fail(verb, &err);
    rs_deliver_result_fini(&result);
    return code;
}

/* The rows are what was joined, by whoever did: what else could be asked for is not in them. */
static enum rs_status check_store(struct rs_err *err)
{
    static const char *const others[] = {"data", "connect", "assume-common-clock", "out"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (rs_args_was_given(others[i]))
            return rs_err_set(err, RS_INVALID,
                              "--store reads the report from rows as they were joined: --%s is not "
                              "for it%s",
                              others[i],
                              strcmp(others[i], "out") == 0 ? "; rankscope table reads the others"
                                                            : "");
    return RS_OK;
}

static int report_store(const char *capture)
{
    struct rs_err err = {0};
    struct rs_row_store *rows = NULL;
    struct rs_deliver_result result = {.is_partial = false};
    const struct rs_deliver_options how = {.report = rs_cli_report_kind(&words.how),
                                           .style = rs_cli_style()};
    enum rs_status status = check_store(&err);
    if (status == RS_OK)
        status = rs_clickhouse_open(&words.store, capture, RS_ROWS_READ, &rows, &err);
    if (status == RS_OK)
        status = rs_deliver_report_of_rows(rows, &how, &result, &err);
    const int code =
        status == RS_OK ? rs_cli_present(verb, &result, NULL, &words.how) : rs_cli_fail(verb, &err);
    rs_row_store_close(&rows);
    rs_deliver_result_fini(&result);
    return code;
}

static int report(char **operands)
{
    struct rs_err err = {0};
    if (words.store.url)
        return report_store(operands[0]);
    struct rs_client_place place;
    if (rs_client_place_of(operands[0], words.data, words.connect, &place, &err) < 0)
        return rs_cli_fail(verb, &err);
    return *place.dir
               ? report_folder(place.dir)
               : rs_cli_report_remote(verb, &place.address, operands[0], words.out_dir, &words.how);
}

/* clang-format off */
static const struct rs_arg options[] = {
    RS_OPT_TEXT("out", 'o', &words.out_dir, "DIR", "write the deliverables into DIR, which is created"),
    RS_CLI_DATA_ARG(&words.data),
    RS_OPT_TEXT("store", 0, &words.store.url, "URL", "read it from the rows that are in this ClickHouse, without any aggregator"),
    RS_CLI_STORE_ARGS(&words.store),
    RS_CLI_CONNECT_ARGS(&words.connect),
    RS_CLI_COMMON_CLOCK_ARG(&words.how.assume_common_clock),
    RS_OPT_FLAG("json", 0, &words.how.as_json, "print report.json instead of the text"),
    RS_OPT_FLAG("quiet", 'q', &words.how.is_quiet, "print nothing on stdout"),
    RS_CLI_FAIL_ABOVE_ARG(&words.how.fail_above),
};
const struct rs_args rs_grammar_report = {
    .verb = verb, .operands = "DIR|ID", .least = 1, .most = 1, .expected = "give one capture; see rankscope report --help",
    .summary = "The report and the tables of a capture: of an ID by the aggregator that holds it, which needs no right on its disk; of a capture's folder, which may have been carried away, in this process.",
    RS_OPTIONS(options), .run = report,
    .epilogue =
        "  rankscope report 20260102-030405-a1b2c3 -o out\n"
        "  rankscope report 20260102-030405-a1b2c3 --connect 127.0.0.1:7070 -o out\n"
        "  rankscope report /srv/rankscope/captures/20260102-030405-a1b2c3 --json\n"
        "  rankscope report 20260102-030405-a1b2c3 --store clickhouse://rankscope@db/rankscope\n"
        "\n"
        "Exit: 0 complete, 1 partial (what is missing is named), 2 no such capture, 3 refused,\n"
        "4 no aggregator answers, 5 --fail-above.\n"};
/* clang-format on */
