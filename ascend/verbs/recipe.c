/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `rankscope recipe NAME PATH...`: the official cluster recipes, from the ranks' databases.
 */
#include "ascend/recipe/recipe.h"

#include "ascend/verbs/verbs.h"
#include "cli/cli.h"
#include "cli/options/args.h"
#include "cli/options/nearest.h"
#include "cli/present.h"
#include "common/base/buf.h"
#include "common/base/json_out.h"
#include "common/client/place.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct recipe_options {
    struct rs_recipe_options recipe;
    const char *export_type, *compat, *fuzzy;
    int64_t threads;
    bool is_list, is_json, is_quiet;
};

static int list_recipes(bool as_json)
{
    struct rs_buf buf = {0};
    struct rs_json_out json;
    rs_json_out_init(&json, &buf, 2);
    rs_json_out_array(&json);
    for (size_t i = 0; i < rs_recipe_count(); i++) {
        const struct rs_recipe_info *info = rs_recipe_at(i);
        if (!as_json)
            printf("%-30s %s\n%-30s   %s\n", info->name, info->summary, "", info->tables);
        rs_json_out_object(&json);
        rs_json_out_key(&json, "name");
        rs_json_out_string(&json, info->name);
        rs_json_out_key(&json, "summary");
        rs_json_out_string(&json, info->summary);
        rs_json_out_key(&json, "tables");
        rs_json_out_string(&json, info->tables);
        rs_json_out_end(&json);
    }
    rs_json_out_end(&json);
    if (as_json)
        printf("%s\n", rs_buf_text(&buf));
    rs_buf_fini(&buf);
    return RS_EXIT_COMPLETE;
}

static void report_problems(const struct rs_recipe_result *result)
{
    for (size_t i = 0; i < result->problem_count; i++) {
        const struct rs_recipe_problem *problem = &result->problems[i];
        const char *what = problem->is_missing ? "missing" : "note";
        if (problem->rank >= 0)
            rs_cli_note("recipe", "%s: rank %" PRId64 ": %s", what, problem->rank, problem->text);
        else
            rs_cli_note("recipe", "%s: %s", what, problem->text);
    }
}

static void print_text(const struct rs_recipe_result *result)
{
    printf("%s: %zu rank%s\n", result->out, result->rank_count, result->rank_count == 1 ? "" : "s");
    for (size_t i = 0; i < result->written_count; i++)
        printf("  %-36s %10" PRIu64 " rows\n", result->written[i].name, result->written[i].rows);
    if (!result->written_count)
        printf("  nothing found, no table written\n");
}

static void json_written(struct rs_json_out *json, const struct rs_recipe_result *result)
{
    rs_json_out_key(json, "written");
    rs_json_out_array(json);
    for (size_t i = 0; i < result->written_count; i++) {
        rs_json_out_object(json);
        rs_json_out_key(json, "name");
        rs_json_out_string(json, result->written[i].name);
        rs_json_out_key(json, "rows");
        rs_json_out_uint(json, result->written[i].rows);
        rs_json_out_end(json);
    }
    rs_json_out_end(json);
}

static void json_problems(struct rs_json_out *json, const struct rs_recipe_result *result)
{
    rs_json_out_key(json, "problems");
    rs_json_out_array(json);
    for (size_t i = 0; i < result->problem_count; i++) {
        const struct rs_recipe_problem *problem = &result->problems[i];
        rs_json_out_object(json);
        rs_json_out_key(json, "rank");
        if (problem->rank >= 0)
            rs_json_out_int(json, problem->rank);
        else
            rs_json_out_null(json);
        rs_json_out_key(json, "is_missing");
        rs_json_out_bool(json, problem->is_missing);
        rs_json_out_key(json, "text");
        rs_json_out_string(json, problem->text);
        rs_json_out_end(json);
    }
    rs_json_out_end(json);
}

static void print_json(const char *name, const struct rs_recipe_result *result,
                       enum rs_status status)
{
    struct rs_buf buf = {0};
    struct rs_json_out json;
    rs_json_out_init(&json, &buf, 2);
    rs_json_out_object(&json);
    rs_json_out_key(&json, "schema_version");
    rs_json_out_int(&json, 1);
    rs_json_out_key(&json, "recipe");
    rs_json_out_string(&json, name);
    rs_json_out_key(&json, "state");
    rs_json_out_string(&json, status == RS_OK ? "whole" : status > 0 ? "partial" : "failed");
    rs_json_out_key(&json, "out");
    if (result->out)
        rs_json_out_string(&json, result->out);
    else
        rs_json_out_null(&json);
    rs_json_out_key(&json, "ranks");
    rs_json_out_uint(&json, result->rank_count);
    json_written(&json, result);
    json_problems(&json, result);
    rs_json_out_end(&json);
    printf("%s\n", rs_buf_text(&buf));
    rs_buf_fini(&buf);
}

/* Words that only certain values may be. */
static enum rs_status read_words(struct recipe_options *options, struct rs_err *err)
{
    if (strcmp(options->export_type, "text") == 0)
        options->recipe.as_text = true;
    else if (strcmp(options->export_type, "db") != 0)
        return rs_err_set(err, RS_INVALID, "--export-type is db or text, not \"%.40s\"",
                          options->export_type);
    if (options->compat) {
        if (strcmp(options->compat, "msprof-analyze") != 0)
            return rs_err_set(err, RS_INVALID, "--compat knows msprof-analyze only, not \"%.40s\"",
                              options->compat);
        options->recipe.compat = true;
    }
    if (options->fuzzy) {
        char *end = NULL;
        options->recipe.fuzzy_threshold = strtod(options->fuzzy, &end);
        if (end == options->fuzzy || *end ||
            !(options->recipe.fuzzy_threshold >= 0 && options->recipe.fuzzy_threshold <= 1))
            return rs_err_set(err, RS_INVALID, "--fuzzy-threshold is 0 to 1, not \"%.40s\"",
                              options->fuzzy);
    }
    options->recipe.threads = (unsigned)options->threads;
    return RS_OK;
}

static int run(const struct recipe_options *options, const char *name, const char *const *paths,
               size_t count)
{
    struct rs_recipe_result result;
    struct rs_err err = {0};
    const enum rs_status status =
        rs_recipe_run(name, paths, count, &options->recipe, &result, &err);
    int code = (int)rs_exit_of(status);
    rs_cli_tell_of_link("recipe", options->recipe.out);
    report_problems(&result);
    if (options->is_json)
        print_json(name, &result, status);
    else if (status >= 0 && !options->is_quiet)
        print_text(&result);
    if (status < 0)
        code = rs_cli_fail("recipe", &err);
    rs_recipe_result_fini(&result);
    return code;
}

/* A name that is mistyped is told before anything about the paths. */
static enum rs_status check_name(const char *name, struct rs_err *err)
{
    if (rs_recipe_find(name))
        return RS_OK;
    struct rs_nearest nearest = rs_nearest(name);
    for (size_t i = 0; i < rs_recipe_count(); i++)
        rs_nearest_look(&nearest, rs_recipe_at(i)->name);
    return nearest.best ? rs_err_set(err, RS_INVALID,
                                     "there is no recipe \"%.60s\"; did you mean \"%s\"? --list "
                                     "names them",
                                     name, nearest.best)
                        : rs_err_set(err, RS_INVALID,
                                     "there is no recipe \"%.60s\"; --list names them", name);
}

/* `words` are the operands: NAME PATH... */
static int carry_out(struct recipe_options *options, int count, char **words)
{
    enum { PATHS_MAX = 1024 };
    const char *paths[PATHS_MAX];
    struct rs_err err = {0};
    enum rs_status status = read_words(options, &err);
    if (status == RS_OK && options->is_list)
        return list_recipes(options->is_json);
    if (status == RS_OK && count > 0)
        status = check_name(words[0], &err);
    if (status == RS_OK && count < 2)
        status = rs_err_set(&err, RS_INVALID,
                            "say which recipe and where the ranks are; --list names the recipes");
    if (status == RS_OK && count > PATHS_MAX)
        status = rs_err_set(&err, RS_INVALID, "more than %d paths", PATHS_MAX - 1);
    if (status == RS_OK && count == 2 && rs_client_is_capture(words[1]))
        status = rs_err_set(&err, RS_INVALID,
                            "%s is a capture or nothing that is here; make a capture's ranks into "
                            "databases with `rankscope export ascend %s -o DIR`, then give DIR",
                            words[1], words[1]);
    if (status != RS_OK)
        return rs_cli_fail("recipe", &err);
    for (int i = 1; i < count; i++)
        paths[i - 1] = words[i];
    return run(options, words[0], paths, (size_t)count - 1);
}

static struct recipe_options words; /* what the command line says */

static const struct rs_arg items[] = {
    {.name = "out",
     .letter = 'o',
     .kind = RS_ARG_TEXT,
     .target = &words.recipe.out,
     .value = "DIR",
     .help = "write below DIR/cluster_analysis_output (default: the first path)"},
    {.name = "export-type",
     .kind = RS_ARG_TEXT,
     .target = &words.export_type,
     .value = "db|text",
     .help = "tables of cluster_analysis.db, or csv files"},
    {.name = "rank-list",
     .kind = RS_ARG_TEXT,
     .target = &words.recipe.rank_list,
     .value = "RANKS",
     .help = "\"0,3,5\" or \"all\"; ranks are read in this order"},
    {.name = "step-id",
     .kind = RS_ARG_INT,
     .target = &words.recipe.step_id,
     .value = "N",
     .max = INT64_MAX,
     .help = "only this step"},
    {.name = "top-num",
     .kind = RS_ARG_INT,
     .target = &words.recipe.top_num,
     .value = "N",
     .min = 1,
     .max = 1000000,
     .help = "how many of the largest (recipes that rank things)"},
    {.name = "rank-id",
     .kind = RS_ARG_INT,
     .target = &words.recipe.rank_id,
     .value = "N",
     .max = INT64_MAX,
     .help = "communication_bottleneck: whose operations"},
    {.name = "bp",
     .kind = RS_ARG_TEXT,
     .target = &words.recipe.base,
     .value = "BASE",
     .help = "cluster_time_compare_summary: the result to compare with"},
    {.name = "parallel-types",
     .kind = RS_ARG_TEXT,
     .target = &words.recipe.parallel_types,
     .value = "KINDS",
     .help =
         "computational_op_masking: 'dp;tp,ep' are two kinds, the second of two names of groups"},
    {.name = "baseline-profiling-path",
     .kind = RS_ARG_TEXT,
     .target = &words.recipe.baseline,
     .value = "FILE",
     .help =
         "calibrate_npu_gpu: what the same model did on GPUs, an SQLite export of Nsight Systems"},
    {.name = "fuzzy-threshold",
     .kind = RS_ARG_TEXT,
     .target = &words.fuzzy,
     .value = "X",
     .help =
         "calibrate_npu_gpu: how alike names of modules must be, 0 (by rule only) to 1 (default: 0.8)"},
    {.name = "exclude-op-name",
     .kind = RS_ARG_FLAG,
     .target = &words.recipe.exclude_op_name,
     .help = "compute_op_sum: no table by name"},
    {.name = "compat",
     .kind = RS_ARG_TEXT,
     .target = &words.compat,
     .value = "msprof-analyze",
     .help = "reproduce that tool's values, known errors included"},
    {.name = "threads",
     .kind = RS_ARG_INT,
     .target = &words.threads,
     .value = "N",
     .max = 64,
     .help = "ranks read at a time (default: the processors)"},
    {.name = "list", .kind = RS_ARG_FLAG, .target = &words.is_list, .help = "name the recipes"},
    {.name = "json",
     .kind = RS_ARG_FLAG,
     .target = &words.is_json,
     .help = "print what was written and what is missing as JSON"},
    {.name = "quiet",
     .letter = 'q',
     .kind = RS_ARG_FLAG,
     .target = &words.is_quiet,
     .help = "print nothing on stdout"},
};

static const struct rs_args args = {
    .verb = "recipe",
    .operands = "NAME PATH...",
    .summary = "Make the tables of one cluster recipe from the databases of Ascend ranks.",
    .items = items,
    .count = sizeof items / sizeof items[0],
    .epilogue =
        "  rankscope recipe --list\n"
        "  rankscope recipe slow_rank /data/run7 -o /tmp/result\n"
        "\n"
        "Recipes read databases, as the vendor's do. Ranks in text form, and captures that\n"
        "collectors streamed, become databases by\n"
        "  rankscope export ascend /data/run7 -o /tmp/ranks\n"
        "\n"
        "Inputs are opened read-only. Exit: 0 complete, 1 partial (what is missing is named), 2 bad\n"
        "request or no rank could be read, 3 cannot write.\n"};

int rs_cmd_recipe(int argc, char **argv)
{
    words = (struct recipe_options){.recipe = {.step_id = -1, .fuzzy_threshold = 0.8},
                                    .export_type = "db"};
    struct rs_err err = {0};
    int first = 0;
    const enum rs_status status = rs_args_parse(&args, argc, argv, &first, &err);
    if (status == RS_END)
        return RS_EXIT_COMPLETE;
    return status == RS_OK ? carry_out(&words, argc - first, argv + first)
                           : rs_cli_fail("recipe", &err);
}
