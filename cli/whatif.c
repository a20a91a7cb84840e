/* SPDX-License-Identifier: Apache-2.0 */
/* `rankscope whatif FILE`: what a job would gain without its stragglers, from a table of operations. */
#include "aggregator/output/whatif_report.h"
#include "cli/cli.h"
#include "cli/options/args.h"

static const char verb[] = "whatif";

static int run(const char *path, bool is_json)
{
    struct rs_whatif_ops ops = {0};
    struct rs_whatif *whatif = NULL;
    struct rs_buf buf = {0};
    struct rs_err err = {0};
    enum rs_status status = rs_whatif_read(path, &ops, &err);
    if (status == RS_OK)
        status = rs_whatif_new(&ops, &whatif, &err);
    rs_whatif_ops_fini(&ops);
    const bool is_partial = status == RS_PARTIAL;
    if (status >= 0)
        status = is_json ? rs_output_whatif_json(whatif, &buf, &err)
                         : rs_output_whatif_text(whatif, &buf, &err);
    if (status == RS_OK)
        (void)fwrite(buf.data, 1, buf.length, stdout);
    if (status == RS_OK && is_partial && whatif)
        rs_cli_note(
            verb,
            "%zu of %zu steps were left out, the first is step %lld: they have not the operations that most "
            "steps have",
            whatif->skipped_steps, whatif->skipped_steps + whatif->step_count,
            (long long)whatif->first_skipped);
    int code = is_partial ? RS_EXIT_PARTIAL : RS_EXIT_COMPLETE;
    if (status < 0)
        code = rs_cli_fail(verb, &err);
    rs_whatif_free(&whatif);
    rs_buf_fini(&buf);
    return code;
}

int rs_cmd_whatif(int argc, char **argv)
{
    bool is_json = false;
    const struct rs_arg items[] = {
        {.name = "json",
         .kind = RS_ARG_FLAG,
         .target = &is_json,
         .help = "print JSON (docs/schema/whatif.schema.json) instead of the report"},
    };
    const struct rs_args args = {
        .verb = verb,
        .operands = "FILE",
        .summary =
            "Plays the steps of a pipeline-parallel job again as if stragglers were as fast as the others, from a "
            "table of operations (ops.csv), and says who costs what: slowdown S, M_W, M_S, per worker, stage and "
            "operation.",
        .items = items,
        .count = sizeof items / sizeof items[0],
        .epilogue =
            "  rankscope whatif ops.csv\n"
            "  rankscope whatif ops.csv --json | jq .culprits\n"
            "\n"
            "Exit: 0 from all steps; 1 some steps were left out; 2 the table cannot be read or played again.\n"};
    struct rs_err err = {0};
    int first = 0;
    enum rs_status status = rs_args_parse(&args, argc, argv, &first, &err);
    if (status == RS_END)
        return RS_EXIT_COMPLETE;
    if (status == RS_OK && argc - first != 1)
        status = rs_err_set(&err, RS_INVALID, "say which table of operations, one file");
    return status < 0 ? rs_cli_fail(verb, &err) : run(argv[first], is_json);
}
