/* SPDX-License-Identifier: Apache-2.0 */
/* `rankscope analyse PATH...`: the whole stream in one process: aggregator/offline reads, deliver joins and writes. */
#include "aggregator/deliver/deliver.h"
#include "aggregator/offline/offline.h"
#include "cli/cli.h"
#include "cli/present.h"
#include "cli/verbs.h"
#include "common/reduce/classes.h"

#include <signal.h>
#include <unistd.h>

static const char verb[] = "analyse";

static atomic_int interrupted;

static void on_interrupt(int number)
{
    (void)number;
    atomic_store(&interrupted, 1);
}

struct request {
    struct rs_report_options report;
    const char *out_dir, *run; /* NULL: none */
    const char *rank_map, *classes;
    struct rs_arg_list rank_from;
    int64_t jobs;
    bool is_cluster; /* the official cluster output, too */
};

/* On a terminal, and only after a second, a line tells how far it is. */
static void show_progress(void *self, const struct rs_offline_progress *progress)
{
    bool *was_shown = self;
    const double seconds = (double)progress->elapsed / 1e9;
    if (progress->is_over && *was_shown)
        fprintf(stderr, "\r\033[K");
    if (progress->is_over || progress->elapsed <= RS_NS_PER_S)
        return;
    fprintf(stderr, "\r  %zu of %zu files, %.1f M events, %.0f MB/s \033[K", progress->files_done,
            progress->files, (double)progress->events / 1e6,
            (double)progress->bytes / 1e6 / seconds);
    (void)fflush(stderr);
    *was_shown = true;
}

static int analyse(const struct request *request, const char *const *paths, size_t path_count)
{
    struct rs_err err = {0};
    bool was_shown = false;
    struct rs_cli_noter noter = {.verb = verb};
    struct rs_deliver deliver = {
        .print = rs_cli_note_line, .print_self = &noter, .has_reported_missing = true};
    struct rs_deliver_result result = {0};
    const struct rs_offline_options how = {
        .paths = paths,
        .path_count = path_count,
        .discover = {.rank_map_path = request->rank_map,
                     .rank_from = request->rank_from.items,
                     .rank_from_count = request->rank_from.count},
        .jobs = (size_t)request->jobs,
        .must_stop = &interrupted,
        .progress = isatty(STDERR_FILENO) ? show_progress : NULL,
        .self = &was_shown};
    const struct rs_deliver_options finish = {.out_dir = request->out_dir,
                                              .run = request->run,
                                              .assume_common_clock =
                                                  request->report.assume_common_clock,
                                              .report = rs_cli_report_kind(&request->report),
                                              .style = rs_cli_style()};
    enum rs_status status = rs_offline_read(&how, &deliver, &err);
    if (status == RS_OK)
        status = rs_deliver_finish(&deliver, &finish, &result, &err);
    const int code = status == RS_OK
                         ? rs_cli_present(verb, &result, request->out_dir, &request->report)
                         : rs_cli_fail(verb, &err);
    rs_deliver_result_fini(&result);
    rs_deliver_fini(&deliver);
    return code;
}

static rs_cli_cluster_fn *cluster_verb;

void rs_cli_set_cluster(rs_cli_cluster_fn *cluster)
{
    cluster_verb = cluster;
}

/* The graver of the two outcomes; a crossed threshold stays one. */
static int analyse_with_cluster(const struct request *request, const char *const *paths,
                                size_t path_count)
{
    int code = analyse(request, paths, path_count);
    if (!request->is_cluster ||
        (code != RS_EXIT_COMPLETE && code != RS_EXIT_PARTIAL && code != RS_EXIT_THRESHOLD))
        return code;
    const int cluster = cluster_verb(paths, path_count, request->out_dir, (unsigned)request->jobs,
                                     request->report.is_quiet || request->report.as_json);
    return cluster > code ? cluster : code;
}

static struct request request = {.report = {.fail_above = -1}};

static void find_jobs(void)
{
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    request.jobs = online < 1 ? 1 : online > RS_OFFLINE_JOBS_MAX ? RS_OFFLINE_JOBS_MAX : online;
}

static int run(char **paths)
{
    size_t count = 0;
    struct rs_err err = {0};
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
    while (paths[count])
        count++;
    enum rs_status status = rs_classes_load(request.classes, &err);
    if (status == RS_OK && !count)
        status =
            rs_err_set(&err, RS_INVALID, "give a file or a folder; see rankscope analyse --help");
    if (status == RS_OK && request.is_cluster && !request.out_dir)
        status = rs_err_set(&err, RS_INVALID, "say with --out where the cluster output goes");
    if (status == RS_OK && request.is_cluster && !cluster_verb)
        status = rs_err_set(&err, RS_INVALID, "--cluster: this program was built without Ascend");
    if (status < 0)
        return rs_cli_fail(verb, &err);
    (void)sigaction(SIGINT, &action, NULL);
    return analyse_with_cluster(&request, (const char *const *)paths, count);
}

/* clang-format off */
static const struct rs_arg options[] = {
    RS_OPT_TEXT("out", 'o', &request.out_dir, "DIR", "write the deliverables into DIR, which is created; without it only the report is printed"),
    RS_OPT_FLAG("cluster", 0, &request.is_cluster, "of Ascend results, also write the official DIR/cluster_analysis_output (see rankscope cluster)"),
    RS_OPT_TEXT("rank-map", 0, &request.rank_map, "FILE", "JSON object: file name -> rank, or null for a file that is no rank"),
    RS_OPT_LIST("rank-from", 0, &request.rank_from, "PATTERN", "text before the rank in a file name, such as \"node-\"; a '*' says where the number stands"),
    RS_CLI_CLASSES_ARG(&request.classes),
    RS_OPT_TEXT("run", 0, &request.run, "NAME", "name of the run, for the manifest"),
    RS_CLI_COMMON_CLOCK_ARG(&request.report.assume_common_clock),
    RS_OPT_INT("jobs", 'j', &request.jobs, "N", 1, RS_OFFLINE_JOBS_MAX, "read N files at a time; default: the processors online"),
    RS_OPT_FLAG("json", 0, &request.report.as_json, "print report.json instead of the text"),
    RS_OPT_FLAG("quiet", 'q', &request.report.is_quiet, "print nothing on stdout"),
    RS_CLI_FAIL_ABOVE_ARG(&request.report.fail_above),
};
const struct rs_args rs_grammar_analyse = {
    .verb = verb, .operands = "PATH...", .most = RS_ARGS_ANY,
    .summary = "Reads the per-rank profiles in PATH, joins them and says where step time goes, who arrives last and who is to blame. PATH is a file, or a folder that is searched: traces of Kineto (PyTorch; .json, also compressed or in a tar), results of Ascend's profilers (*_ascend_pt, *_ascend_ms, PROF_*).",
    RS_OPTIONS(options), .run = run, .prepare = find_jobs,
    .epilogue =
        "Exit: 0 complete, 1 partial (what is missing is named), 2 bad request or input, 3 refused,\n"
        "5 --fail-above.\n"
        "\n"
        "example:\n"
        "  rankscope analyse traces/ -o out\n"};
/* clang-format on */
