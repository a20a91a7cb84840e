/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `rankscope report DIR|ID`: the tables and the report of a capture that an aggregator stored, with the same bytes as
 * `analyse` makes them from files.
 *
 *     DIR, or ID with --data: joined in this process (aggregator/deliver)
 *     ID                    : joined by the aggregator, fetched (remote.c)
 */
#include "cli/cli.h"
#include "cli/options/args.h"
#include "cli/present.h"
#include "common/client/client.h"

static const char verb[] = "report";

static int report_folder(const char *capture_dir, const char *out_dir,
                         const struct rs_report_options *options)
{
    struct rs_err err = {0};
    struct rs_deliver_result result = {0};
    const struct rs_deliver_options how = {.out_dir = out_dir,
                                           .assume_common_clock = options->assume_common_clock,
                                           .report = rs_cli_report_kind(options),
                                           .style = rs_cli_style()};
    struct rs_cli_noter noter = {.verb = verb};
    const enum rs_status status =
        rs_deliver_capture(capture_dir, &how, rs_cli_note_line, &noter, &result, &err);
    const int code =
        status == RS_OK ? rs_cli_present(verb, &result, out_dir, options) : rs_cli_fail(verb, &err);
    rs_deliver_result_fini(&result);
    return code;
}

int rs_cmd_report(int argc, char **argv)
{
    const char *out_dir = NULL, *data = NULL, *connect = NULL;
    struct rs_report_options how = {.fail_above = -1};
    const struct rs_arg options[] = {
        {.name = "out",
         .letter = 'o',
         .kind = RS_ARG_TEXT,
         .target = &out_dir,
         .value = "DIR",
         .help = "write the deliverables into DIR, which is created"},
        {.name = "data",
         .kind = RS_ARG_TEXT,
         .target = &data,
         .value = "DIR",
         .help = "read the capture from this data folder, without asking an aggregator",
         .environment = "RANKSCOPE_DATA"},
        RS_CLI_CONNECT_ARGS(&connect),
        {.name = "assume-common-clock",
         .kind = RS_ARG_FLAG,
         .target = &how.assume_common_clock,
         .help = "take the clocks of all hosts as one"},
        {.name = "json",
         .kind = RS_ARG_FLAG,
         .target = &how.as_json,
         .help = "print report.json instead of the text"},
        {.name = "quiet",
         .letter = 'q',
         .kind = RS_ARG_FLAG,
         .target = &how.is_quiet,
         .help = "print nothing on stdout"},
        {.name = "fail-above",
         .kind = RS_ARG_PERCENT,
         .target = &how.fail_above,
         .value = "X%",
         .help = "exit with 5 when a finding costs more than X % of a step"},
    };
    const struct rs_args args = {
        .verb = verb,
        .operands = "DIR|ID",
        .summary =
            "The report and the tables of a capture: of an ID by the aggregator that holds it, which needs no right on its "
            "disk; of a capture's folder, which may have been carried away, in this process.",
        .items = options,
        .count = sizeof options / sizeof options[0],
        .epilogue =
            "  rankscope report 20260102-030405-a1b2c3 -o out\n"
            "  rankscope report 20260102-030405-a1b2c3 --connect 127.0.0.1:7070 -o out\n"
            "  rankscope report /srv/rankscope/captures/20260102-030405-a1b2c3 --json\n"
            "\n"
            "Exit: 0 complete, 1 partial (what is missing is named), 2 no such capture, 3 refused,\n"
            "4 no aggregator answers, 5 --fail-above.\n"};
    struct rs_err err = {0};
    int first = argc;
    const enum rs_status parsed = rs_args_parse(&args, argc, argv, &first, &err);
    if (parsed != RS_OK)
        return parsed == RS_END ? RS_EXIT_COMPLETE : rs_cli_fail(verb, &err);
    if (argc - first != 1) {
        (void)rs_err_set(&err, RS_INVALID, "give one capture; see rankscope report --help");
        return rs_cli_fail(verb, &err);
    }
    struct rs_cli_place place;
    if (rs_cli_place_of(argv[first], data, connect, &place, &err) < 0)
        return rs_cli_fail(verb, &err);
    const int code = *place.dir
                         ? report_folder(place.dir, out_dir, &how)
                         : rs_cli_report_remote(verb, &place.address, argv[first], out_dir, &how);
    return code;
}
