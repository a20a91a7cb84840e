/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `rankscope cluster PATH...|CAPTURE`: the official cluster output of an Ascend job.
 *
 *     PATH...   --------------------------------------> ascend/cluster --> OUT/cluster_analysis_output
 *     CAPTURE   --documents of its streams--> OUT/ranks/ --^
 */
#include "ascend/cluster/cluster.h"

#include "ascend/verbs/documents.h"
#include "ascend/verbs/verbs.h"
#include "cli/cli.h"
#include "cli/options/args.h"
#include "cli/present.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/client/client.h"
#include "common/client/place.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct cluster_options {
    struct rs_cluster_options cluster;
    const char *mode, *form, *compat, *data, *connect;
    int64_t jobs;
    bool is_json, is_quiet;
};

static void report_missing(const struct rs_cluster_result *result)
{
    for (size_t i = 0; i < result->rank_count; i++) {
        const struct rs_cluster_rank *rank = &result->ranks[i];
        if (rank->state == RS_CLUSTER_WHOLE)
            continue;
        if (rank->rank < 0)
            rs_cli_note("cluster", "%s is %s: %s", rank->dir, rs_cluster_state_name(rank->state),
                        rank->reason);
        else
            rs_cli_note("cluster", "rank %" PRId64 " is %s: %s", rank->rank,
                        rs_cluster_state_name(rank->state), rank->reason);
    }
    for (size_t i = 0; i < result->note_count; i++)
        rs_cli_note("cluster", "%s", result->notes[i]);
}

static size_t count_read(const struct rs_cluster_result *result)
{
    size_t read = 0;
    for (size_t i = 0; i < result->rank_count; i++)
        read += result->ranks[i].state == RS_CLUSTER_WHOLE ||
                result->ranks[i].state == RS_CLUSTER_PARTIAL;
    return read;
}

/* Several results that name no rank stand under one number: their rows are everybody's. */
static bool is_nameless(const struct rs_cluster_result *result)
{
    size_t count = 0;
    for (size_t i = 0; i < result->rank_count; i++)
        count += result->ranks[i].rank < 0;
    if (count < 2)
        return false;
    for (size_t i = 0; i < result->rank_count; i++)
        if (result->ranks[i].rank < 0)
            rs_cli_note("cluster",
                        "%s names no rank, and is not the only one: rows of rank -1 are "
                        "of several",
                        result->ranks[i].dir);
    return true;
}

static void print_text(const struct rs_cluster_result *result)
{
    const size_t read = count_read(result);
    printf("%s: %zu rank%s, %" PRIu64 " group%s, %" PRIu64 " operation%s, %" PRIu64 " link%s\n",
           result->out_dir, read, read == 1 ? "" : "s", result->group_count,
           result->group_count == 1 ? "" : "s", result->op_count, result->op_count == 1 ? "" : "s",
           result->link_count, result->link_count == 1 ? "" : "s");
    for (size_t i = 0; i < result->file_count; i++)
        printf("  %-44s %12" PRIu64 " bytes\n", strrchr(result->files[i].path, '/') + 1,
               result->files[i].bytes);
}

static void print_json(const struct rs_cluster_result *result, enum rs_status status)
{
    struct rs_buf buf = {0};
    rs_cluster_manifest(result, status, &buf);
    printf("%s", rs_buf_text(&buf));
    rs_buf_fini(&buf);
}

/* The index of `word` in `words`; RS_INVALID naming them all. */
static enum rs_status read_word(const char *option, const char *word, const char *const *words,
                                size_t count, int *index_p, struct rs_err *err)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(word, words[i]) == 0) {
            *index_p = (int)i;
            return RS_OK;
        }
    return rs_err_set(err, RS_INVALID, "%s does not know \"%.40s\"; see rankscope cluster --help",
                      option, word);
}

static enum rs_status read_words(struct cluster_options *options, struct rs_err *err)
{
    static const char *const modes[] = {"all", "communication_time", "communication_matrix"};
    static const char *const forms[] = {"auto", "text", "db", "both"};
    static const char *const tools[] = {"msprof-analyze"};
    int mode = 0, form = 0, tool = 0;
    enum rs_status status = read_word("--mode", options->mode, modes, 3, &mode, err);
    if (status == RS_OK)
        status = read_word("--form", options->form, forms, 4, &form, err);
    if (status == RS_OK && options->compat)
        status = read_word("--compat", options->compat, tools, 1, &tool, err);
    options->cluster.mode = (enum rs_cluster_mode)mode;
    options->cluster.form = (enum rs_cluster_form)form;
    options->cluster.compat = options->compat != NULL;
    options->cluster.jobs = (unsigned)options->jobs;
    return status;
}

static int run(const struct cluster_options *options, const char *const *paths, size_t count)
{
    struct rs_cluster_result result;
    struct rs_err err = {0};
    const enum rs_status status = rs_cluster_run(paths, count, &options->cluster, &result, &err);
    int code = (int)rs_exit_of(status);
    rs_cli_tell_of_link("cluster", options->cluster.out);
    report_missing(&result);
    if (options->is_json)
        print_json(&result, status);
    else if (status >= 0 && !options->is_quiet)
        print_text(&result);
    if (status < 0) {
        code = rs_cli_fail("cluster", &err);
        if (status == RS_NOTFOUND)
            rs_cli_note("cluster", "ranks of other profilers become such directories by "
                                   "`rankscope export ascend PATH... -o DIR`");
    } else if (!count_read(&result)) { /* empty documents are no result */
        rs_cli_note("cluster", "no rank could be read");
        code = RS_EXIT_BAD_REQUEST;
    } else if (is_nameless(&result)) {
        code = RS_EXIT_PARTIAL;
    }
    rs_cluster_result_fini(&result);
    return code;
}

int rs_ascend_cluster(const char *const *paths, size_t count, const char *out, unsigned jobs,
                      bool is_quiet)
{
    const struct cluster_options options = {
        .cluster = {.out = out, .mode = RS_CLUSTER_ALL, .form = RS_CLUSTER_AUTO, .jobs = jobs},
        .is_quiet = is_quiet};
    return run(&options, paths, count);
}

/* A capture's ranks become folders below OUT/ranks, which stay: RankDeviceMap names them, and viewers open them. */
static int run_capture(struct cluster_options *options, const char *capture, const char *word)
{
    struct rs_documents_result restored = {0};
    struct rs_err err = {0};
    if (!options->cluster.out) {
        (void)rs_err_set(&err, RS_INVALID, "say with -o where the output of a capture goes");
        return rs_cli_fail("cluster", &err);
    }
    char *ranks = rs_file_join(options->cluster.out, "ranks");
    enum rs_status status = ranks ? rs_documents_restore("cluster", capture, ranks, &restored, &err)
                                  : rs_err_set(&err, RS_NOMEM, "no memory");
    if (status == RS_OK && !restored.ranks)
        status = rs_err_set(&err, RS_NOTFOUND,
                            "no stream of %s brought documents of an Ascend profiler; `rankscope "
                            "export ascend` makes its ranks into directories",
                            word);
    if (status == RS_OK && restored.others)
        rs_cli_note("cluster", "%zu streams brought no documents of an Ascend profiler",
                    restored.others);
    int code = status == RS_OK ? run(options, (const char *const *)&ranks, 1)
                               : rs_cli_fail("cluster", &err);
    if (code == RS_EXIT_COMPLETE && (restored.is_partial || restored.others))
        code = RS_EXIT_PARTIAL;
    rs_mem_free(ranks);
    return code;
}

int rs_cmd_cluster(int argc, char **argv)
{
    struct cluster_options options = {.mode = "all", .form = "auto"};
    const struct rs_arg items[] = {
        {.name = "out",
         .letter = 'o',
         .kind = RS_ARG_TEXT,
         .target = &options.cluster.out,
         .value = "DIR",
         .help = "write DIR/cluster_analysis_output (default: in the first path)"},
        {.name = "mode",
         .letter = 'm',
         .kind = RS_ARG_TEXT,
         .target = &options.mode,
         .value = "MODE",
         .help = "all, communication_time or communication_matrix"},
        {.name = "form",
         .kind = RS_ARG_TEXT,
         .target = &options.form,
         .value = "FORM",
         .help = "text, db, both, or auto (default): db when some rank has a database, else text"},
        {.name = "compat",
         .kind = RS_ARG_TEXT,
         .target = &options.compat,
         .value = "TOOL",
         .help = "msprof-analyze: its values where ours differ on purpose"},
        {.name = "jobs",
         .kind = RS_ARG_INT,
         .target = &options.jobs,
         .value = "N",
         .max = 64,
         .help = "ranks read at a time (default: the processors)"},
        {.name = "data",
         .letter = 'd',
         .kind = RS_ARG_TEXT,
         .target = &options.data,
         .value = "DIR",
         .environment = "RANKSCOPE_DATA",
         .help = "the aggregator's data, where a capture's ID is looked for"},
        RS_CLI_CONNECT_ARGS(&options.connect),
        {.name = "json",
         .kind = RS_ARG_FLAG,
         .target = &options.is_json,
         .help = "print what was written and what is missing as JSON"},
        {.name = "quiet",
         .letter = 'q',
         .kind = RS_ARG_FLAG,
         .target = &options.is_quiet,
         .help = "print nothing on stdout"},
    };
    const struct rs_args args = {
        .verb = "cluster",
        .operands = "PATH...|CAPTURE",
        .summary = "Make the official cluster output (cluster_analysis_output) from the result "
                   "directories of Ascend ranks, text and databases alike, or from a capture that "
                   "collectors streamed (its folder or ID): the ranks' own documents are then put "
                   "back below OUT/ranks.",
        .items = items,
        .count = sizeof items / sizeof items[0],
        .epilogue =
            "  rankscope cluster /data/run7\n"
            "  rankscope cluster /data/run7 -o /tmp/result --form both\n"
            "  rankscope cluster 20260102-030405-a1b2c3 -o /tmp/result\n"
            "\n"
            "rankscope_manifest.json beside the tables says what every rank gave. Exit: 0 complete,\n"
            "1 partial (what is missing is named), 2 bad request or no rank could be read, 3 cannot\n"
            "write.\n"};
    struct rs_err err = {0};
    int first = 0;
    enum rs_status status = rs_args_parse(&args, argc, argv, &first, &err);
    if (status == RS_END)
        return RS_EXIT_COMPLETE;
    if (status == RS_OK)
        status = read_words(&options, &err);
    if (status == RS_OK && argc == first)
        status = rs_err_set(&err, RS_INVALID, "say where the ranks' directories are");
    if (status != RS_OK)
        return rs_cli_fail("cluster", &err);
    struct rs_client_carried carried = {.dir = ""};
    if (argc - first == 1) {
        status = rs_client_carry(argv[first], options.data, options.connect, &carried, &err);
        const bool is_named = options.connect || options.data;
        if (status < 0 && (status != RS_NOTFOUND || is_named) && access(argv[first], F_OK) < 0)
            return rs_cli_fail("cluster", &err);
        if (status == RS_OK) {
            const int code = run_capture(&options, carried.dir, argv[first]);
            rs_client_carried_remove(&carried);
            return code;
        }
    }
    return run(&options, (const char *const *)argv + first, (size_t)(argc - first));
}
