/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `rankscope hang`: who did not arrive.
 *
 *     PATH...   from the flight recorder dumps of a job
 *     --local   from its ranks on this node, which are asked
 *     --watch   waits until the job hangs, then as below
 *     else      from its ranks everywhere: the aggregator's collectors ask them, and it keeps what they say as a capture
 */
#include "cli/options/args.h"
#include "cli/present.h"
#include "collector/agent/flight_ask.h"
#include "collector/source/flight.h"
#include "common/client/client.h"
#include "common/client/hang_watch.h"

#include <string.h>

static const char verb[] = "hang";

struct options {
    const char *rank_map, *run, *ranks, *connect, *keep, *out;
    bool is_local, is_watch, fail_if_hung;
    int64_t incidents;
    struct rs_arg_list rank_from;
    struct rs_hang_options how;
    struct rs_report_options report;
};

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

static struct options words; /* what the command line says */

static const struct rs_arg items[] = {
    {.name = "out",
     .letter = 'o',
     .kind = RS_ARG_TEXT,
     .target = &words.out,
     .value = "DIR",
     .help = "write the report into DIR: hang.json, hang.md, hang.txt"},
    {.name = "local",
     .kind = RS_ARG_FLAG,
     .target = &words.is_local,
     .help = "ask the ranks of this node only, without an aggregator"},
    {.name = "watch",
     .kind = RS_ARG_FLAG,
     .target = &words.is_watch,
     .help = "wait until no rank makes a step any more, or dumps appear; then ask all of them"},
    {.name = "incidents",
     .kind = RS_ARG_INT,
     .min = 1,
     .max = 1000,
     .target = &words.incidents,
     .value = "N",
     .with = "watch",
     .help = "with --watch: end after so many (default 5)"},
    {.name = "run",
     .letter = 'r',
     .kind = RS_ARG_TEXT,
     .target = &words.run,
     .value = "RUN",
     .help = "of this job (default: the only one that runs)"},
    {.name = "ranks",
     .kind = RS_ARG_TEXT,
     .target = &words.ranks,
     .value = "EXPR",
     .help = "of these ranks only: 0-7, node=n12, dp=0 (default: all)"},
    RS_CLI_CONNECT_ARGS(&words.connect),
    {.name = "keep",
     .kind = RS_ARG_TEXT,
     .target = &words.keep,
     .value = "DIR",
     .with = "local",
     .help = "with --local: keep what the ranks answered in DIR, as HOST_rank_N"},
    {.name = "rank-map",
     .kind = RS_ARG_TEXT,
     .target = &words.rank_map,
     .value = "FILE",
     .help = "JSON: {\"FILE\": RANK or null, ...}"},
    {.name = "rank-from",
     .kind = RS_ARG_LIST,
     .target = &words.rank_from,
     .value = "PATTERN",
     .help = "the text before the rank in a file's name, or with * for it"},
    {.name = "min-wait",
     .kind = RS_ARG_DURATION,
     .target = &words.how.min_wait_ns,
     .value = "TIME",
     .help =
         "a shorter wait is no hang (default 2s, or three times the job's longest pause; with --watch: without a step, 10s or "
         "ten times the median step)"},
    {.name = "assume-common-clock",
     .kind = RS_ARG_FLAG,
     .target = &words.report.assume_common_clock,
     .help = "take times of different hosts as they stand"},
    {.name = "fail-if-hung",
     .kind = RS_ARG_FLAG,
     .target = &words.fail_if_hung,
     .help = "exit 5 when the job hangs"},
    {.name = "json",
     .kind = RS_ARG_FLAG,
     .target = &words.report.as_json,
     .help = "print hang.json instead of the report"},
    {.name = "quiet",
     .letter = 'q',
     .kind = RS_ARG_FLAG,
     .target = &words.report.is_quiet,
     .help = "print nothing on stdout"},
};

static const struct rs_args args = {
    .verb = verb,
    .operands = "[PATH... | --local]",
    .summary =
        "Says why a job hangs and which rank the others wait for. Asks the ranks for their "
        "flight recorders, through the collectors of an aggregator, which keeps the answers as "
        "a capture; or reads PyTorch's dumps (pickle or JSON, of some or all ranks), with the "
        "statements of ncclras and NCCL Inspector where they lie beside them.",
    .items = items,
    .count = sizeof items / sizeof items[0],
    .epilogue =
        "  rankscope hang --run train1                   # ask all its ranks, now\n"
        "  rankscope hang --run train1 --watch           # as soon as it hangs\n"
        "  rankscope hang ~/.cache/torch                 # where PyTorch writes dumps\n"
        "  rankscope hang dumps/ --rank-from trace_ -o out\n"
        "\n"
        "Exit: 0 decided from all ranks, hang or none; 1 decided, but dumps are missing,\n"
        "truncated or older than the others', or ranks could not be asked; 2 no dump, no such job;\n"
        "3 nobody could be asked; 4 no aggregator answers; 5 with --fail-if-hung: it hangs.\n"};

int rs_cmd_hang(int argc, char **argv)
{
    words = (struct options){.report = {.fail_above = -1}};
    struct rs_err err = {0};
    int first = 0;
    enum rs_status status = rs_args_parse(&args, argc, argv, &first, &err);
    if (status == RS_END)
        return RS_EXIT_COMPLETE;
    if (status == RS_OK && words.is_local && first < argc)
        status = rs_err_set(&err, RS_INVALID, "either paths or --local, not both");
    if (status == RS_OK && first < argc && (words.run || words.ranks || words.connect))
        status = rs_err_set(&err, RS_INVALID, "--run, --ranks and --connect go without paths");
    if (status == RS_OK && !words.is_local && words.keep)
        status = rs_err_set(&err, RS_INVALID, "--keep goes with --local");
    if (status == RS_OK && !words.is_local && !words.is_watch && first == argc &&
        words.how.min_wait_ns)
        status = rs_err_set(&err, RS_INVALID, "--min-wait goes with paths, --local or --watch");
    if (status == RS_OK && words.is_watch && (words.is_local || first < argc || words.ranks))
        status = rs_err_set(&err, RS_INVALID, "--watch goes without paths, --local and --ranks");
    if (status == RS_OK && words.incidents && !words.is_watch)
        status = rs_err_set(&err, RS_INVALID, "--incidents goes with --watch");
    if (status == RS_OK && words.is_local && words.ranks)
        status = rs_err_set(&err, RS_INVALID, "--ranks goes without --local");
    if (status < 0)
        return rs_cli_fail(verb, &err);
    words.how.assume_common_clock = words.report.assume_common_clock;
    if (words.fail_if_hung)
        words.report.fail_above = 0;
    if (words.is_local)
        return run_local(&words);
    if (first < argc)
        return run_paths(&words, (const char *const *)argv + first, (size_t)(argc - first));
    return words.is_watch ? run_watch(&words) : run_cluster(&words);
}
