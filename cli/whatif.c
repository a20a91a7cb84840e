/* SPDX-License-Identifier: Apache-2.0 */
/* `rankscope whatif FILE`: what a job would gain without its stragglers, from a table of operations. */
#include "aggregator/output/whatif_report.h"
#include "cli/cli.h"
#include "cli/verbs.h"

static const char verb[] = "whatif";

static bool is_json;

static int run(char **paths)
{
    struct rs_whatif_ops ops = {0};
    struct rs_whatif *whatif = NULL;
    struct rs_buf buf = {0};
    struct rs_err err = {0};
    enum rs_status status = rs_whatif_read(paths[0], &ops, &err);
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

/* clang-format off */
static const struct rs_arg options[] = {
    RS_OPT_FLAG("json", 0, &is_json, "print JSON (docs/schema/whatif.schema.json) instead of the report"),
};
const struct rs_args rs_grammar_whatif = {
    .verb = verb, .operands = "FILE", .least = 1, .most = 1, .expected = "say which table of operations, one file",
    .summary = "Plays the steps of a pipeline-parallel job again as if stragglers were as fast as the others, from a table of operations (ops.csv), and says who costs what: slowdown S, M_W, M_S, per worker, stage and operation.",
    RS_OPTIONS(options), .run = run,
    .epilogue =
        "  rankscope whatif ops.csv\n"
        "  rankscope whatif ops.csv --json | jq .culprits\n"
        "\n"
        "Exit: 0 from all steps; 1 some steps were left out; 2 the table cannot be read or played again.\n"};
/* clang-format on */
