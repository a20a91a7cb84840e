/* SPDX-License-Identifier: Apache-2.0 */
/* `rankscope verify`: every stream of a capture, read again (aggregator/output/verify_report.h). */
#include "aggregator/output/verify_report.h"
#include "cli/cli.h"
#include "cli/present.h"
#include "cli/verbs.h"
#include "common/client/client.h"
#include "common/reduce/classes.h"

#include <stdio.h>

static struct {
    const char *connect, *data, *classes;
    bool as_json, is_quiet;
} words;

static void print(void *self, const char *text)
{
    (void)self;
    fputs(text, stdout);
}

static int verify_dir(const char *dir)
{
    const struct rs_verify_report report = {
        .as_json = words.as_json, .print = words.is_quiet && !words.as_json ? NULL : print};
    struct rs_err err = {0};
    struct rs_capture_data *data = NULL;
    struct rs_verify_totals totals;
    if (rs_capture_data_open(dir, &data, &err) < 0)
        return rs_cli_fail("verify", &err);
    const enum rs_status status = rs_output_verify(data, &report, &totals, &err);
    if (status == RS_OK && totals.damaged_segments)
        rs_cli_note("verify", "%zu segments are damaged: %s", totals.damaged_segments,
                    totals.damage);
    if (status == RS_OK && !totals.streams)
        rs_cli_note("verify", "%s holds no stream", dir);
    rs_capture_data_close(&data);
    if (status < 0)
        return rs_cli_fail("verify", &err);
    return totals.is_good ? RS_EXIT_COMPLETE : RS_EXIT_PARTIAL;
}

static int verify(char **operands)
{
    struct rs_err err = {0};
    struct rs_client_carried carried = {.dir = ""};
    enum rs_status status = rs_classes_load(words.classes, &err);
    if (status == RS_OK)
        status = rs_client_carry(operands[0], words.data, words.connect, &carried, &err);
    if (status < 0)
        return rs_cli_fail("verify", &err);
    const int code = verify_dir(carried.dir);
    rs_client_carried_remove(&carried);
    return code;
}

/* clang-format off */
static const struct rs_arg options[] = {
    RS_OPT_TEXT("data", 'd', &words.data, "DIR", "look for an ID in this data folder, without asking an aggregator", .environment = "RANKSCOPE_DATA"),
    RS_CLI_CONNECT_ARGS(&words.connect),
    RS_CLI_CLASSES_ARG(&words.classes),
    RS_CLI_JSON_ARG(&words.as_json),
    RS_OPT_FLAG("quiet", 'q', &words.is_quiet, "print nothing: the exit code says it"),
};
const struct rs_args rs_grammar_verify = {
    .verb = "verify", .operands = "ID | DIR", .least = 1, .most = 1, .expected = "give one capture: its ID or its folder",
    .summary = "Reads every chunk of a capture again: checksums, numbers without gap or repeat, decoding, and the rank summaries computed from the events against the stored ones. Nothing is changed.",
    RS_OPTIONS(options), .run = verify,
    .epilogue =
        "  rankscope verify 20260102-030405-a1b2c3\n"
        "  rankscope verify ./data/captures/20260102-030405-a1b2c3 --json\n"
        "\n"
        "Exit: 0 nothing missing, nothing double, nothing damaged; 1 something is; 2 no such\n"
        "capture. Events that a full spool lost are reported, and are not damage.\n"};
/* clang-format on */
