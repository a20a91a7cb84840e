/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `rankscope hang`: who did not arrive.
 *
 *     PATH...   from the flight recorder dumps of a job
 *     --local   from its ranks on this node, which are asked
 *     --watch   waits until the job hangs, then as below
 *     else      from its ranks everywhere: the aggregator's collectors ask them, and it keeps what they say as a capture
 */
#include "cli/present.h"
#include "collector/agent/flight_ask.h"
#include "collector/source/flight.h"
#include "common/client/client.h"
#include "common/client/hang_watch.h"

#include <string.h>

static const char verb[] = "hang";

static struct options {
    const char *rank_map, *run, *ranks, *connect, *keep, *out;
    bool is_local, is_watch, fail_if_hung;
    int64_t incidents;
    struct rs_arg_list rank_from;
    struct rs_hang_options how;
    struct rs_report_options report;
} words = {.report = {.fail_above = -1}};

/* `failed`: something could not be read or asked, and was told. */
static int judge(const struct options *options, const struct rs_flight_set *set, bool failed)
{
    const struct rs_deliver_options deliver = {.out_dir = options->out,
                                               .report = rs_cli_report_kind(&options->report),
                                               .style = rs_cli_style()};
    struct rs_deliver_result result = {.is_partial = false};
    struct rs_cli_noter noter = {.verb = verb};
    struct rs_err err = {0};
    if (rs_deliver_hang_set(set, &options->how, &deliver, rs_cli_note_line, &noter, &result, &err) <
        0)
        return rs_cli_fail(verb, &err);
    result.is_partial = result.is_partial || failed;
    const int code = rs_cli_present(verb, &result, options->out, &options->report);
    rs_deliver_result_fini(&result);
    return code;
}

static int run_paths(const struct options *options, const char *const *paths, size_t count)
{
    const struct rs_flight_find_options find = {.rank_map_path = options->rank_map,
                                                .rank_from = options->rank_from.items,
                                                .rank_from_count = options->rank_from.count};
    struct rs_flight_set set;
    struct rs_flight_found found = {0};
    struct rs_err err = {0};
    if (rs_flight_set_init(&set) != RS_OK) {
        (void)rs_err_set(&err, RS_NOMEM, "no memory");
        return rs_cli_fail(verb, &err);
    }
    enum rs_status status = rs_flight_find(paths, count, &find, &set, &found, &err);
    int code;
    if (status >= 0 && !set.dump_count) {
        for (size_t i = 0; i < set.note_count; i++)
            rs_cli_note(verb, "%s", set.notes[i]);
        status = rs_err_set(
            &err, RS_NOTFOUND,
            "no flight recorder dump could be read here%s; PyTorch writes them to "
            "TORCH_FR_DUMP_TEMP_FILE + rank (default ~/.cache/torch/comm_lib_trace_rank_N)",
            set.witness_count ? ", only what NCCL says of its ranks" : "");
    }
    if (found.failed && status >= 0)
        rs_cli_note(verb, "%zu %s could not be read", found.failed,
                    found.failed == 1 ? "dump" : "dumps");
    if (status < 0)
        code = rs_cli_fail(verb, &err);
    else
        code = judge(options, &set, found.failed || found.partial);
    rs_flight_set_fini(&set);
    return code == RS_EXIT_COMPLETE || status >= 0 ? code : RS_EXIT_BAD_REQUEST;
}

/* Ranks of this node. Who cannot be asked is named with what to set. */
static int run_local(const struct options *options)
{
    struct rs_flight_set set;
    struct rs_flight_asked asked = {0};
    struct rs_err err = {0};
    bool failed = false;
    if (rs_flight_set_init(&set) != RS_OK) {
        (void)rs_err_set(&err, RS_NOMEM, "no memory");
        return rs_cli_fail(verb, &err);
    }
    enum rs_status status = rs_flight_ask_node(options->run, options->keep, &set, &asked, &err);
    for (size_t i = 0; i < asked.count; i++)
        if (asked.offers[i].way == RS_FLIGHT_WAY_NONE) {
            rs_cli_note(verb, "rank %d (process %d) cannot be asked: %s", (int)asked.offers[i].rank,
                        (int)asked.offers[i].pid, asked.offers[i].why);
            failed = true;
        }
    if (status == RS_OK && !set.dump_count)
        status = rs_err_set(&err, RS_REFUSED, "none of %zu ranks here could be asked", asked.count);
    const int code = status < 0 ? rs_cli_fail(verb, &err) : judge(options, &set, failed);
    rs_flight_asked_fini(&asked);
    rs_flight_set_fini(&set);
    return code;
}

/* ---- everywhere -------------------------------------------------------------------------------------------- */

/* The aggregator gathers and keeps; its report is then fetched as that of any capture. */
static int run_cluster(const struct options *options)
{
    char id[64] = "";
    struct rs_err err = {0};
    struct rs_address address;
    enum rs_status status = rs_client_address(options->connect, &address, &err);
    if (status == RS_OK)
        status = rs_client_hang(&address, options->run ? options->run : "",
                                options->ranks ? options->ranks : "", id, &err);
    if (status == RS_CANCELLED)
        return RS_EXIT_INTERRUPTED;
    if (status < 0)
        return rs_cli_fail(verb, &err);
    rs_cli_note(verb, "kept as capture %s", id);
    return rs_cli_report_remote(verb, &address, id, options->out, &options->report);
}

struct watching {
    const struct options *options;
    const struct rs_address *address;
    int code; /* of the last incident */
};

static void on_incident(void *self, const char *what, const char *capture, const char *why)
{
    struct watching *watching = self;
    rs_cli_note(verb, "%s", what);
    if (!capture) {
        rs_cli_note(verb, "nothing could be kept: %s", why);
        watching->code = RS_EXIT_PARTIAL;
        return;
    }
    rs_cli_note(verb, "kept as capture %s", capture);
    watching->code = rs_cli_report_remote(verb, watching->address, capture, watching->options->out,
                                          &watching->options->report);
    (void)fflush(stdout);
}

static int run_watch(const struct options *options)
{
    struct rs_err err = {0};
    struct rs_address address;
    struct watching watching = {.options = options, .address = &address};
    const struct rs_hang_watch_options watch = {.address = &address,
                                                .run = options->run ? options->run : "",
                                                .floor_ns = options->how.min_wait_ns,
                                                .budget = (unsigned)options->incidents,
                                                .on_incident = on_incident,
                                                .self = &watching};
    enum rs_status status = rs_client_address(options->connect, &address, &err);
    if (status == RS_OK)
        status = rs_client_hang_watch(&watch, &err);
    if (status == RS_CANCELLED)
        return RS_EXIT_INTERRUPTED;
    return status < 0 ? rs_cli_fail(verb, &err) : watching.code;
}

static enum rs_status check(bool has_paths, struct rs_err *err)
{
    const bool is_cluster = !words.is_local && !has_paths;
    if (words.is_local && has_paths)
        return rs_err_set(err, RS_INVALID, "either paths or --local, not both");
    if (has_paths && (words.run || words.ranks || words.connect))
        return rs_err_set(err, RS_INVALID, "--run, --ranks and --connect go without paths");
    if (!words.is_local && words.keep)
        return rs_err_set(err, RS_INVALID, "--keep goes with --local");
    if (is_cluster && !words.is_watch && words.how.min_wait_ns)
        return rs_err_set(err, RS_INVALID, "--min-wait goes with paths, --local or --watch");
    if (words.is_watch && (!is_cluster || words.ranks))
        return rs_err_set(err, RS_INVALID, "--watch goes without paths, --local and --ranks");
    if (words.incidents && !words.is_watch)
        return rs_err_set(err, RS_INVALID, "--incidents goes with --watch");
    if (words.is_local && words.ranks)
        return rs_err_set(err, RS_INVALID, "--ranks goes without --local");
    return RS_OK;
}

static int hang(char **paths)
{
    struct rs_err err = {0};
    size_t count = 0;
    while (paths[count])
        count++;
    if (check(count > 0, &err) < 0)
        return rs_cli_fail(verb, &err);
    words.how.assume_common_clock = words.report.assume_common_clock;
    if (words.fail_if_hung)
        words.report.fail_above = 0;
    if (words.is_local)
        return run_local(&words);
    if (count)
        return run_paths(&words, (const char *const *)paths, count);
    return words.is_watch ? run_watch(&words) : run_cluster(&words);
}

/* clang-format off */
static const struct rs_arg options[] = {
    RS_OPT_TEXT("out", 'o', &words.out, "DIR", "write the report into DIR: hang.json, hang.md, hang.txt"),
    RS_OPT_FLAG("local", 0, &words.is_local, "ask the ranks of this node only, without an aggregator"),
    RS_OPT_FLAG("watch", 0, &words.is_watch, "wait until no rank makes a step any more, or dumps appear; then ask all of them"),
    RS_OPT_INT("incidents", 0, &words.incidents, "N", 1, 1000, "with --watch: end after so many (default 5)", .with = "watch"),
    RS_OPT_TEXT("run", 'r', &words.run, "RUN", "of this job (default: the only one that runs)"),
    RS_OPT_TEXT("ranks", 0, &words.ranks, "EXPR", "of these ranks only: 0-7, node=n12, dp=0 (default: all)"),
    RS_CLI_CONNECT_ARGS(&words.connect),
    RS_OPT_TEXT("keep", 0, &words.keep, "DIR", "with --local: keep what the ranks answered in DIR, as HOST_rank_N", .with = "local"),
    RS_OPT_TEXT("rank-map", 0, &words.rank_map, "FILE", "JSON: {\"FILE\": RANK or null, ...}"),
    RS_OPT_LIST("rank-from", 0, &words.rank_from, "PATTERN", "the text before the rank in a file's name, or with * for it"),
    RS_OPT_TIME("min-wait", 0, &words.how.min_wait_ns, "TIME", "a shorter wait is no hang (default 2s, or three times the job's longest pause; with --watch: without a step, 10s or ten times the median step)"),
    RS_OPT_FLAG("assume-common-clock", 0, &words.report.assume_common_clock, "take times of different hosts as they stand"),
    RS_OPT_FLAG("fail-if-hung", 0, &words.fail_if_hung, "exit 5 when the job hangs"),
    RS_OPT_FLAG("json", 0, &words.report.as_json, "print hang.json instead of the report"),
    RS_OPT_FLAG("quiet", 'q', &words.report.is_quiet, "print nothing on stdout"),
};
const struct rs_args rs_grammar_hang = {
    .verb = verb, .operands = "[PATH... | --local]", .most = RS_ARGS_ANY,
    .summary = "Says why a job hangs and which rank the others wait for. Asks the ranks for their flight recorders, through the collectors of an aggregator, which keeps the answers as a capture; or reads PyTorch's dumps (pickle or JSON, of some or all ranks), with the statements of ncclras and NCCL Inspector where they lie beside them.",
    RS_OPTIONS(options), .run = hang,
    .epilogue =
        "  rankscope hang --run train1                   # ask all its ranks, now\n"
        "  rankscope hang --run train1 --watch           # as soon as it hangs\n"
        "  rankscope hang ~/.cache/torch                 # where PyTorch writes dumps\n"
        "  rankscope hang dumps/ --rank-from trace_ -o out\n"
        "\n"
        "Exit: 0 decided from all ranks, hang or none; 1 decided, but dumps are missing,\n"
        "truncated or older than the others', or ranks could not be asked; 2 no dump, no such job;\n"
        "3 nobody could be asked; 4 no aggregator answers; 5 with --fail-if-hung: it hangs.\n"};
/* clang-format on */
