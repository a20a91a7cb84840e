/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of recipes, and how one is run: find the ranks, map and reduce, write.
 */
#include "ascend/recipe/recipe_priv.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define POINTER(name) &recipe_##name,
static const struct recipe *const recipes[] = {RECIPES(POINTER)};

size_t rs_recipe_count(void)
{
    return sizeof recipes / sizeof recipes[0];
}

const struct rs_recipe_info *rs_recipe_at(size_t index)
{
    return index < rs_recipe_count() ? &recipes[index]->info : NULL;
}

static const struct recipe *find_recipe(const char *name)
{
    for (size_t i = 0; i < rs_recipe_count(); i++)
        if (strcmp(recipes[i]->info.name, name) == 0)
            return recipes[i];
    return NULL;
}

const struct rs_recipe_info *rs_recipe_find(const char *name)
{
    const struct recipe *recipe = find_recipe(name);
    return recipe ? &recipe->info : NULL;
}

/* Recipes with two passes meet the same problem twice. */
static bool is_reported(const struct rs_recipe_result *result, int64_t rank, const char *text)
{
    for (size_t i = 0; i < result->problem_count; i++)
        if (result->problems[i].rank == rank && strcmp(result->problems[i].text, text) == 0)
            return true;
    return false;
}

void run_add_problem(struct run *run, int64_t rank, bool is_missing, const char *format, ...)
{
    char text[RS_ERR_TEXT_BYTES];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    struct rs_recipe_result *result = run->result;
    char *copy = rs_mem_strdup(text);
    (void)pthread_mutex_lock(&run->problem_lock);
    if (copy && !is_reported(result, rank, copy) &&
        rs_mem_grow((void **)&result->problems, &result->problem_capacity,
                    result->problem_count + 1, sizeof *result->problems) == RS_OK) {
        result->problems[result->problem_count++] =
            (struct rs_recipe_problem){rank, is_missing, copy};
        copy = NULL;
    }
    (void)pthread_mutex_unlock(&run->problem_lock);
    rs_mem_free(copy);
}

static void report_notes(struct run *run)
{
    for (size_t i = 0; i < run->list.note_count; i++) {
        const struct rs_ascend_note *note = &run->list.notes[i];
        if (note->kind == RS_ASCEND_NOTE_SKIPPED)
            continue; /* what is no profile is no problem */
        run_add_problem(run, -1, note->kind == RS_ASCEND_NOTE_FAILED, "%s: %s", note->path,
                        note->text);
    }
}

static enum rs_status add_rank(struct run *run, const struct rs_ascend_rank *vendor)
{
    run->ranks[run->rank_count++] = (struct recipe_rank){vendor, vendor->rank};
    return RS_OK;
}

/* Where the same may be had from text: its own tables by `cluster`, a database by `export`. */
static void report_text_only(struct run *run, const struct rs_ascend_rank *rank)
{
    static const char *const of_cluster[] = {"communication_group_map", "communication_time_sum",
                                             "communication_matrix_sum"};
    char *trace = rank->output ? rs_file_join(rank->output, "trace_view.json") : NULL;
    const bool has_trace = trace && access(trace, R_OK) == 0;
    bool is_of_cluster = false;
    for (size_t i = 0; i < sizeof of_cluster / sizeof of_cluster[0]; i++)
        is_of_cluster |= strcmp(run->recipe->info.name, of_cluster[i]) == 0;
    run_add_problem(run, rank->rank, true,
                    "%s holds text results only, and recipes read databases; %s", rank->dir,
                    is_of_cluster ? "`rankscope cluster --form db` makes these tables from text"
                    : has_trace
                        ? "`rankscope export ascend` makes a database of its trace_view.json"
                        : "it has no trace_view.json that a database could be made of");
    rs_mem_free(trace);
}

static size_t count_nameless(const struct run *run, enum rs_ascend_framework framework)
{
    size_t count = 0;
    for (size_t i = 0; i < run->list.count; i++)
        count += run->list.ranks[i].framework == framework &&
                 run->list.ranks[i].rank == RS_ASCEND_NO_RANK;
    return count;
}

/* Ranks of the list that can be read: not raw, not another framework's. */
static bool is_usable(struct run *run, const struct rs_ascend_rank *rank,
                      enum rs_ascend_framework framework)
{
    if (rank->framework != framework)
        return false;
    if (rank->rank == RS_ASCEND_NO_RANK && count_nameless(run, framework) > 1) {
        run_add_problem(run, rank->rank, true,
                        "%s names no rank, and is not the only one: nobody could tell them apart",
                        rank->dir);
        return false;
    }
    if (rank->state == RS_ASCEND_UNPARSED) {
        run_add_problem(run, rank->rank, true, "%s is not parsed by the vendor's tool yet",
                        rank->dir);
        return false;
    }
    if (rank->state == RS_ASCEND_UNFINISHED)
        run_add_problem(run, rank->rank, true, "%s is not finished", rank->dir);
    if (!(rank->forms & RS_ASCEND_F_DB)) {
        if (rank->state != RS_ASCEND_UNFINISHED)
            report_text_only(run, rank);
        return false;
    }
    return true;
}

static enum rs_status pick_framework(struct run *run, enum rs_ascend_framework *framework_p,
                                     struct rs_err *err)
{
    size_t counts[3] = {0, 0, 0};
    for (size_t i = 0; i < run->list.count; i++)
        counts[run->list.ranks[i].framework]++;
    if (counts[RS_ASCEND_PYTORCH] && counts[RS_ASCEND_MINDSPORE])
        return rs_err_set(err, RS_INVALID,
                          "the paths hold results of PyTorch and of MindSpore; give one of them");
    *framework_p = counts[RS_ASCEND_PYTORCH]     ? RS_ASCEND_PYTORCH
                   : counts[RS_ASCEND_MINDSPORE] ? RS_ASCEND_MINDSPORE
                                                 : RS_ASCEND_MSMONITOR;
    if (*framework_p != RS_ASCEND_MSMONITOR && counts[RS_ASCEND_MSMONITOR])
        run_add_problem(run, -1, false,
                        "%zu msmonitor databases stand beside the profiles and are left out",
                        counts[RS_ASCEND_MSMONITOR]);
    return RS_OK;
}

static const struct rs_ascend_rank *find_rank(const struct run *run,
                                              enum rs_ascend_framework framework, int64_t rank)
{
    for (size_t i = 0; i < run->list.count; i++)
        if (run->list.ranks[i].framework == framework && run->list.ranks[i].rank == rank)
            return &run->list.ranks[i];
    return NULL;
}

/* Ranks named by --rank-list, in its order. */
static enum rs_status pick_listed(struct run *run, enum rs_ascend_framework framework,
                                  struct rs_err *err)
{
    for (const char *p = run->options->rank_list; *p;) {
        char *end = NULL;
        const long long rank = strtoll(p, &end, 10);
        if (end == p || (*end && *end != ','))
            return rs_err_set(err, RS_INVALID, "--rank-list is \"0,3,5\" or \"all\", not \"%.60s\"",
                              run->options->rank_list);
        p = end + (*end == ',');
        const struct rs_ascend_rank *found = find_rank(run, framework, rank);
        bool is_twice = false;
        for (size_t i = 0; i < run->rank_count; i++)
            is_twice = is_twice || run->ranks[i].vendor == found;
        if (!found)
            run_add_problem(run, rank, true, "rank %lld is not among the results", rank);
        else if (!is_twice && is_usable(run, found, framework))
            (void)add_rank(run, found);
    }
    return RS_OK;
}

static enum rs_status pick_ranks(struct run *run, struct rs_err *err)
{
    enum rs_ascend_framework framework = RS_ASCEND_PYTORCH;
    const char *listed = run->options->rank_list;
    enum rs_status status = pick_framework(run, &framework, err);
    if (status != RS_OK)
        return status;
    run->ranks = rs_mem_calloc(run->list.count ? run->list.count : 1, sizeof *run->ranks);
    if (!run->ranks)
        return rs_err_set(err, RS_NOMEM, "no memory for the list of ranks");
    if (listed && strcmp(listed, "all") != 0) {
        status = pick_listed(run, framework, err);
    } else {
        for (size_t i = 0; i < run->list.count && status == RS_OK; i++)
            if (is_usable(run, &run->list.ranks[i], framework))
                status = add_rank(run, &run->list.ranks[i]);
    }
    if (status == RS_OK && !run->rank_count)
        status = rs_err_set(err, RS_NOTFOUND, "no rank with databases below %s%s", run->paths[0],
                            run->path_count > 1 ? " and the other paths" : "");
    return status;
}

static enum rs_status find_ranks(struct run *run, struct rs_err *err)
{
    if (!run->recipe->needs)
        return RS_OK;
    enum rs_status status = rs_ascend_discover(run->paths, run->path_count, &run->list, err);
    if (status != RS_OK)
        return status;
    report_notes(run);
    return pick_ranks(run, err);
}

static enum rs_status map_ranks(struct run *run, struct rs_err *err)
{
    size_t used = 0;
    if (!run->recipe->needs)
        return RS_OK;
    enum rs_status status = run_map(run, &used, err);
    run->result->rank_count = used;
    if (status == RS_OK && !used)
        status = rs_err_set(err, RS_NOTFOUND, "no rank has what %s needs; the first says: %s",
                            run->recipe->info.name,
                            run->result->problem_count ? run->result->problems[0].text : "nothing");
    return status;
}

static enum rs_status run_it(struct run *run, struct rs_err *err)
{
    const struct recipe *recipe = run->recipe;
    enum rs_status status = find_ranks(run, err);
    if (status != RS_OK)
        return status;
    status = out_open(run, err);
    if (status == RS_OK)
        status = frames_start(run, err);
    if (status == RS_OK && recipe->start)
        status = recipe->start(run, err);
    if (status == RS_OK)
        status = map_ranks(run, err);
    if (status == RS_OK)
        status = recipe->finish ? recipe->finish(run, err) : frames_finish(run, err);
    const enum rs_status closed = out_close(run, status == RS_OK, status == RS_OK ? err : NULL);
    frames_stop(run);
    return status == RS_OK ? closed : status;
}

enum rs_status rs_recipe_run(const char *name, const char *const *paths, size_t count,
                             const struct rs_recipe_options *options,
                             struct rs_recipe_result *result_p, struct rs_err *err)
{
    *result_p = (struct rs_recipe_result){0};
    struct run run = {.recipe = find_recipe(name),
                      .options = options,
                      .paths = paths,
                      .path_count = count,
                      .result = result_p};
    if (!run.recipe)
        return rs_err_set(err, RS_INVALID, "there is no recipe \"%.60s\"; --list names them", name);
    if (!count)
        return rs_err_set(err, RS_INVALID, "recipe %s needs a path", name);
    rs_ascend_db_spare_locks();
    (void)pthread_mutex_init(&run.problem_lock, NULL);
    struct rs_err why = {0};
    enum rs_status status = run_it(&run, &why);
    if (status < 0)
        (void)rs_err_set(err, status, "%s", why.text[0] ? why.text : rs_status_text(status));
    (void)pthread_mutex_destroy(&run.problem_lock);
    rs_ascend_list_fini(&run.list);
    rs_mem_free(run.ranks);
    for (size_t i = 0; i < result_p->problem_count && status == RS_OK; i++)
        if (result_p->problems[i].is_missing)
            status = RS_PARTIAL;
    return status;
}

void rs_recipe_result_fini(struct rs_recipe_result *result)
{
    for (size_t i = 0; i < result->written_count; i++)
        rs_mem_free(result->written[i].name);
    for (size_t i = 0; i < result->problem_count; i++)
        rs_mem_free(result->problems[i].text);
    rs_mem_free(result->written);
    rs_mem_free(result->problems);
    rs_mem_free(result->out);
    *result = (struct rs_recipe_result){0};
}
