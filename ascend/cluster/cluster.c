/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run from paths to files: discover, load, join, write; and what is missing.
 */
#include "ascend/cluster/cluster_priv.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OUTPUT_NAME   "cluster_analysis_output"
#define MANIFEST_NAME "rankscope_manifest.json"

enum { MISSING_MAX = 1 << 16 }; /* ranks that are told one by one */

/* ---- the result ------------------------------------------------------------------------------ */

static enum rs_status add_result(struct rs_cluster_result *result, size_t *capacity,
                                 const struct rs_cluster_rank *rank)
{
    if (rs_mem_grow((void **)&result->ranks, capacity, result->rank_count + 1,
                    sizeof *result->ranks) != RS_OK)
        return RS_NOMEM;
    result->ranks[result->rank_count++] = *rank;
    return RS_OK;
}

static enum rs_status add_rank(struct run *run, struct rank_data *rank, size_t *capacity)
{
    const unsigned wanted = run->options->mode == RS_CLUSTER_COMMUNICATION_TIME ? RS_ASCEND_COMM_OPS
                            : run->options->mode == RS_CLUSTER_COMMUNICATION_MATRIX
                                ? RS_ASCEND_COMM_LINKS
                                : RS_ASCEND_COMM_OPS | RS_ASCEND_COMM_LINKS;
    const bool is_nothing = rank->bad_parts == wanted && rank->steps.count == 0;
    struct rs_cluster_rank made = {.rank = rank->rank,
                                   .form = rank->is_db || rank->has_db_steps ? "db" : "text",
                                   .dir = rs_mem_strdup(rank->vendor->dir)};
    made.state = !rank->reason.length ? RS_CLUSTER_WHOLE
                 : is_nothing         ? RS_CLUSTER_FAILED
                                      : RS_CLUSTER_PARTIAL;
    if (rank->reason.length)
        made.reason = rs_mem_strdup(rs_buf_text(&rank->reason));
    if (!made.dir || (rank->reason.length && !made.reason) ||
        add_result(run->result, capacity, &made) != RS_OK) {
        rs_mem_free(made.dir);
        rs_mem_free(made.reason);
        return RS_NOMEM;
    }
    return RS_OK;
}

static int by_rank(const void *a, const void *b)
{
    const struct rs_cluster_rank *x = a, *y = b;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* Everyone whom the metadata or a world size names. */
static enum rs_status list_expected(const struct run *run, struct rank_set *expected)
{
    enum rs_status status = RS_OK;
    int64_t world = 0;
    for (size_t i = 0; i < run->group_count && status == RS_OK; i++)
        for (size_t r = 0; r < run->groups[i].named.count && status == RS_OK; r++)
            status = rank_set_add(expected, run->groups[i].named.ranks[r]);
    for (size_t i = 0; i < run->rank_count; i++)
        if (run->ranks[i].has_meta && run->ranks[i].meta.world_size > world)
            world = run->ranks[i].meta.world_size;
    for (int64_t r = 0; r < world && r < MISSING_MAX && status == RS_OK; r++)
        status = rank_set_add(expected, r);
    return status;
}

static enum rs_status add_missing(struct run *run, size_t *capacity)
{
    struct rank_set expected = {0};
    enum rs_status status = list_expected(run, &expected);
    for (size_t i = 0; i < expected.count && status == RS_OK; i++) {
        if (find_rank(run, expected.ranks[i]))
            continue;
        struct rs_cluster_rank made = {
            .rank = expected.ranks[i],
            .state = RS_CLUSTER_MISSING,
            .form = "",
            .reason = rs_mem_strdup("other ranks name it, and no directory of it is there")};
        status = made.reason ? add_result(run->result, capacity, &made) : RS_NOMEM;
        if (status != RS_OK)
            rs_mem_free(made.reason);
    }
    rs_mem_free(expected.ranks);
    return status;
}

static enum rs_status report_notes(struct run *run, const struct rs_ascend_list *list)
{
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < list->note_count && status == RS_OK; i++)
        status = note(run->result, "%s: %s", list->notes[i].path, list->notes[i].text);
    if (run->result->dropped_links && status == RS_OK)
        status = note(run->result,
                      "%llu links are left out: an end of theirs has no global rank (neither a "
                      "link to itself nor the metadata says which)",
                      (unsigned long long)run->result->dropped_links);
    return status;
}

static enum rs_status fill_result(struct run *run, const struct rs_ascend_list *list)
{
    size_t capacity = 0;
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < run->rank_count && status == RS_OK; i++)
        status = add_rank(run, &run->ranks[i], &capacity);
    if (status == RS_OK)
        status = add_missing(run, &capacity);
    if (status == RS_OK && run->result->rank_count)
        qsort(run->result->ranks, run->result->rank_count, sizeof *run->result->ranks, by_rank);
    return status == RS_OK ? report_notes(run, list) : status;
}

/* ---- writing --------------------------------------------------------------------------------- */

struct job {
    const char *name;
    enum rs_status (*write)(const struct run *run, const char *dir, uint64_t *bytes_p,
                            struct rs_err *err);
    const struct run *run;
    uint64_t bytes;
    struct rs_err err;
    enum rs_status status;
    pthread_t thread;
    bool is_started;
};

static void *do_job(void *argument)
{
    struct job *job = argument;
    job->status = job->write(job->run, job->run->result->out_dir, &job->bytes, &job->err);
    return NULL;
}

static enum rs_status note_file(struct rs_cluster_result *result, const char *name, uint64_t bytes)
{
    if (rs_mem_grow((void **)&result->files, &result->file_capacity, result->file_count + 1,
                    sizeof *result->files) != RS_OK)
        return RS_NOMEM;
    struct rs_cluster_file file = {rs_file_join(result->out_dir, name), bytes};
    if (!file.path)
        return RS_NOMEM;
    result->files[result->file_count++] = file;
    return RS_OK;
}

/* The documents side by side: each has its own thread unless one was asked for. */
static enum rs_status do_jobs(struct run *run, struct job *jobs, size_t count, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < count; i++) {
        jobs[i].run = run;
        jobs[i].is_started = i + 1 < count && run->options->jobs != 1 &&
                             pthread_create(&jobs[i].thread, NULL, do_job, &jobs[i]) == 0;
        if (!jobs[i].is_started)
            (void)do_job(&jobs[i]);
    }
    for (size_t i = 0; i < count; i++) {
        if (jobs[i].is_started)
            (void)pthread_join(jobs[i].thread, NULL);
        if (status != RS_OK)
            continue;
        status = jobs[i].status;
        if (status != RS_OK)
            status = rs_err_set(err, status, "%s", jobs[i].err.text);
        else if (note_file(run->result, jobs[i].name, jobs[i].bytes) != RS_OK)
            status = rs_err_set(err, RS_NOMEM, "no memory");
    }
    return status;
}

static enum rs_status write_all(struct run *run, struct rs_err *err)
{
    struct job jobs[5];
    size_t count = 0;
    const bool is_db = run->wants_db, is_text = run->wants_text;
    const enum rs_cluster_mode mode = run->options->mode;
    if (is_text && mode != RS_CLUSTER_COMMUNICATION_MATRIX)
        jobs[count++] =
            (struct job){.name = "cluster_communication.json", .write = write_comm_json};
    if (is_db)
        jobs[count++] = (struct job){.name = "cluster_analysis.db", .write = write_db};
    if (is_text && mode != RS_CLUSTER_COMMUNICATION_TIME)
        jobs[count++] =
            (struct job){.name = "cluster_communication_matrix.json", .write = write_matrix_json};
    if (is_text) {
        jobs[count++] = (struct job){.name = "communication_group.json", .write = write_group_json};
        jobs[count++] =
            (struct job){.name = "cluster_step_trace_time.csv", .write = write_step_csv};
    }
    return do_jobs(run, jobs, count, err);
}

static enum rs_status write_manifest(struct run *run, enum rs_status outcome, struct rs_err *err)
{
    struct rs_buf buf = {0};
    char *path = rs_file_join(run->result->out_dir, MANIFEST_NAME);
    rs_cluster_manifest(run->result, outcome, &buf);
    enum rs_status status = !path || buf.failed
                                ? rs_err_set(err, RS_NOMEM, "no memory for the manifest")
                                : rs_file_replace(path, buf.data, buf.length, false, err);
    rs_mem_free(path);
    rs_buf_fini(&buf);
    return status;
}

/* ---- the run ---------------------------------------------------------------------------------- */

static enum rs_status make_out_dir(struct run *run, const char *first_path, struct rs_err *err)
{
    struct stat st;
    const char *base = run->options->out;
    if (!base) {
        base = first_path;
        if (stat(first_path, &st) == 0 && !S_ISDIR(st.st_mode))
            return rs_err_set(err, RS_INVALID, "say with -o where the output goes: %s is a file",
                              first_path);
    }
    run->result->out_dir = rs_file_join(base, OUTPUT_NAME);
    if (!run->result->out_dir)
        return rs_err_set(err, RS_NOMEM, "no memory");
    const enum rs_status status = rs_file_make_dirs(run->result->out_dir, RS_FOLDER_MODE, err);
    if (status == RS_OK)
        rs_file_sweep(run->result->out_dir);
    return status;
}

/* One framework, and somebody there. */
static enum rs_status check_list(const struct rs_ascend_list *list, struct rs_err *err)
{
    size_t seen[3] = {0};
    for (size_t i = 0; i < list->count; i++)
        seen[list->ranks[i].framework]++;
    if (seen[RS_ASCEND_PYTORCH] && seen[RS_ASCEND_MINDSPORE])
        return rs_err_set(err, RS_INVALID,
                          "%zu results of PyTorch and %zu of MindSpore: give those of one job",
                          seen[RS_ASCEND_PYTORCH], seen[RS_ASCEND_MINDSPORE]);
    if (!seen[RS_ASCEND_PYTORCH] && !seen[RS_ASCEND_MINDSPORE])
        return rs_err_set(err, RS_NOTFOUND, "no result directories of an Ascend profiler there%s%s",
                          list->note_count ? "; " : "",
                          list->note_count ? list->notes[0].text : "");
    return RS_OK;
}

static bool is_all_there(const struct rs_cluster_result *result)
{
    for (size_t i = 0; i < result->rank_count; i++)
        if (result->ranks[i].state != RS_CLUSTER_WHOLE)
            return false;
    return result->dropped_links == 0;
}

static bool has_failed_note(const struct rs_ascend_list *list)
{
    for (size_t i = 0; i < list->note_count; i++)
        if (list->notes[i].kind != RS_ASCEND_NOTE_SKIPPED)
            return true;
    return false;
}

/* Forms to be written: as asked for, else the database if there is one. */
static void choose_forms(struct run *run, bool has_db)
{
    const enum rs_cluster_form form = run->options->form;
    run->wants_db =
        form == RS_CLUSTER_DB || form == RS_CLUSTER_BOTH || (form == RS_CLUSTER_AUTO && has_db);
    run->wants_text =
        form == RS_CLUSTER_TEXT || form == RS_CLUSTER_BOTH || (form == RS_CLUSTER_AUTO && !has_db);
}

static bool lists_db(const struct rs_ascend_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->ranks[i].analysis_db)
            return true;
    return false;
}

static bool was_db(const struct run *run)
{
    for (size_t i = 0; i < run->rank_count; i++)
        if (run->ranks[i].is_db || run->ranks[i].has_db_steps)
            return true;
    return false;
}

/* The ranks, and their rows in the database if one is wanted. When every database turns out unreadable and the
 * form is ours to choose, text it is. */
static enum rs_status load(struct run *run, const struct rs_ascend_list *list, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    choose_forms(run, lists_db(list));
    if (run->wants_db)
        status = db_begin(run, run->result->out_dir, err);
    if (status == RS_OK)
        status = load_ranks(run, list, err);
    if (status != RS_OK || !run->wants_db || run->options->form != RS_CLUSTER_AUTO || was_db(run))
        return status;
    db_drop(run);
    unload_ranks(run);
    choose_forms(run, false);
    return load_ranks(run, list, err);
}

static enum rs_status run_on(struct run *run, const struct rs_ascend_list *list,
                             const char *first_path, struct rs_err *err)
{
    enum rs_status status = check_list(list, err);
    if (status == RS_OK)
        status = make_out_dir(run, first_path, err);
    if (status == RS_OK)
        status = load(run, list, err);
    if (status == RS_OK) {
        status = join_ranks(run);
        if (status == RS_OK)
            status = fill_result(run, list);
        if (status != RS_OK)
            return rs_err_set(err, status, "joining %zu ranks: %s", run->rank_count,
                              rs_status_text(status));
        status = write_all(run, err);
    }
    if (status != RS_OK)
        return status;
    const enum rs_status outcome =
        is_all_there(run->result) && !has_failed_note(list) ? RS_OK : RS_PARTIAL;
    status = write_manifest(run, outcome, err);
    return status == RS_OK ? outcome : status;
}

enum rs_status rs_cluster_run(const char *const *paths, size_t count,
                              const struct rs_cluster_options *options,
                              struct rs_cluster_result *result_p, struct rs_err *err)
{
    struct rs_ascend_list list = {0};
    struct run run = {.options = options, .result = result_p};
    *result_p = (struct rs_cluster_result){0};
    rs_ascend_db_spare_locks();
    enum rs_status status = rs_ascend_discover(paths, count, &list, err);
    if (status == RS_OK)
        status = run_on(&run, &list, paths[0], err);
    db_drop(&run);
    join_fini(&run);
    unload_ranks(&run);
    rs_ascend_list_fini(&list);
    return status;
}
