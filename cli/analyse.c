/* SPDX-License-Identifier: Apache-2.0 */
/* `rankscope analyse PATH...`: the whole stream in one process: cli/offline reads, deliver joins and writes. */
#include "aggregator/deliver/deliver.h"
#include "cli/cli.h"
#include "cli/offline/offline.h"
#include "cli/options/args.h"
#include "cli/present.h"
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

static int64_t default_jobs(void)
{
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online < 1 ? 1 : online > RS_OFFLINE_JOBS_MAX ? RS_OFFLINE_JOBS_MAX : online;
}

int rs_cmd_analyse(int argc, char **argv)
{
    struct request request = {.report = {.fail_above = -1}, .jobs = default_jobs()};
    const struct rs_arg options[] = {
        {.name = "out",
         .letter = 'o',
         .kind = RS_ARG_TEXT,
         .target = &request.out_dir,
         .value = "DIR",
         .help =
             "write the deliverables into DIR, which is created; without it only the report is printed"},
        {.name = "cluster",
         .kind = RS_ARG_FLAG,
         .target = &request.is_cluster,
         .help =
             "of Ascend results, also write the official DIR/cluster_analysis_output (see rankscope cluster)"},
        {.name = "rank-map",
         .kind = RS_ARG_TEXT,
         .target = &request.rank_map,
         .value = "FILE",
         .help = "JSON object: file name -> rank, or null for a file that is no rank"},
        {.name = "rank-from",
         .kind = RS_ARG_LIST,
         .target = &request.rank_from,
         .value = "PATTERN",
         .help =
             "text before the rank in a file name, such as \"node-\"; a '*' says where the number stands"},
        RS_CLI_CLASSES_ARG(&request.classes),
        {.name = "run",
         .kind = RS_ARG_TEXT,
         .target = &request.run,
         .value = "NAME",
         .help = "name of the run, for the manifest"},
        {.name = "assume-common-clock",
         .kind = RS_ARG_FLAG,
         .target = &request.report.assume_common_clock,
         .help = "take the clocks of all hosts as one"},
        {.name = "jobs",
         .letter = 'j',
         .kind = RS_ARG_INT,
         .target = &request.jobs,
         .value = "N",
         .help = "read N files at a time; default: the processors online",
         .min = 1,
         .max = RS_OFFLINE_JOBS_MAX},
        {.name = "json",
         .kind = RS_ARG_FLAG,
         .target = &request.report.as_json,
         .help = "print report.json instead of the text"},
        {.name = "quiet",
         .letter = 'q',
         .kind = RS_ARG_FLAG,
         .target = &request.report.is_quiet,
         .help = "print nothing on stdout"},
        {.name = "fail-above",
         .kind = RS_ARG_PERCENT,
         .target = &request.report.fail_above,
         .value = "X%",
         .help = "exit with 5 when a finding costs more than X % of a step"},
    };
    const struct rs_args args = {
        .verb = verb,
        .operands = "PATH...",
        .summary =
            "Reads the per-rank profiles in PATH, joins them and says where step time goes, who "
            "arrives last and who is to blame. PATH is a file, or a folder that is searched: traces "
            "of Kineto (PyTorch; .json, also compressed or in a tar), results of Ascend's profilers "
            "(*_ascend_pt, *_ascend_ms, PROF_*).",
        .items = options,
        .count = sizeof options / sizeof options[0],
        .epilogue =
            "Exit: 0 complete, 1 partial (what is missing is named), 2 bad request or input, 3 refused,\n"
            "5 --fail-above.\n"
            "\nexample:\n  rankscope analyse traces/ -o out\n"};
    struct rs_err err = {0};
    int first = argc;
    const enum rs_status parsed = rs_args_parse(&args, argc, argv, &first, &err);
    if (parsed != RS_OK)
        return parsed == RS_END ? RS_EXIT_COMPLETE : rs_cli_fail(verb, &err);
    if (rs_classes_load(request.classes, &err) < 0)
        return rs_cli_fail(verb, &err);
    if (first == argc) {
        (void)rs_err_set(&err, RS_INVALID, "give a file or a folder; see rankscope analyse --help");
        return rs_cli_fail(verb, &err);
    }
    if (request.is_cluster && !request.out_dir) {
        (void)rs_err_set(&err, RS_INVALID, "say with --out where the cluster output goes");
        return rs_cli_fail(verb, &err);
    }
    if (request.is_cluster && !cluster_verb) {
        (void)rs_err_set(&err, RS_INVALID, "--cluster: this program was built without Ascend");
        return rs_cli_fail(verb, &err);
    }
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
    (void)sigaction(SIGINT, &action, NULL);
    return analyse_with_cluster(&request, (const char *const *)argv + first,
                                (size_t)(argc - first));
}
