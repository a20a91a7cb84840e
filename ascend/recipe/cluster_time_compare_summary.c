/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cluster_time_compare_summary: ClusterTimeSummary of one result against another's.
 *
 * Peer: PATH and --bp each hold cluster_analysis_output/cluster_analysis.db with that table; for every
 * (rank, step) in both, each column X as X, XBase and XDiff = X - XBase; rows with an empty cell are dropped.
 * Database only, --step-id must be in both. Corrected: text form works too; rows that one
 * side lacks are reported.
 */
#include "ascend/recipe/recipe_priv.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { RANK, STEP, FIRST, VALUES = 10, COLUMNS = 2 + 3 * VALUES };
#define KINDS "iirrrrrrrrrr"

static const char *const names[VALUES] = {"stepTime",
                                          "computation",
                                          "communicationNotOverlapComputation",
                                          "communicationOverlapComputation",
                                          "communication",
                                          "free",
                                          "communicationWaitStageTime",
                                          "communicationTransmitStageTime",
                                          "memory",
                                          "memoryNotOverlapComputationCommunication"};

struct state {
    char titles[COLUMNS][64];
    struct column columns[COLUMNS];
    struct table table;
};

static enum rs_status read_side(const struct run *run, const char *base, struct frame *rows,
                                struct rs_err *err)
{
    const int64_t params[] = {run->options->step_id};
    const struct frame_query query = {
        .sql = "SELECT rank, step, stepTime, computation, communicationNotOverlapComputation, "
               "communicationOverlapComputation, communication, free, communicationWaitStageTime, "
               "communicationTransmitStageTime, memory, memoryNotOverlapComputationCommunication "
               "FROM ClusterTimeSummary WHERE ?1 < 0 OR step = ?1 ORDER BY rank, step",
        .params = params,
        .param_count = 1};
    struct rs_ascend_db *db = NULL;
    char *path = rs_file_join(base, "cluster_analysis_output/cluster_analysis.db");
    if (!path)
        return rs_err_set(err, RS_NOMEM, "no memory for a name");
    enum rs_status status = rs_ascend_db_open(path, &db, err);
    rs_mem_free(path);
    if (status == RS_OK && db_requires(db, "ClusterTimeSummary.memory", NULL) != RS_OK)
        status =
            rs_err_set(err, RS_NOTFOUND,
                       "%s has no ClusterTimeSummary; make it with recipe cluster_time_summary",
                       rs_ascend_db_path(db));
    if (status == RS_OK)
        status = frame_load(rows, db, &query, err);
    if (status == RS_OK && !rows->count)
        status = rs_err_set(err, RS_NOTFOUND, "ClusterTimeSummary of %s has no such step",
                            rs_ascend_db_path(db));
    rs_ascend_db_close(&db);
    return status;
}

static void lay_columns(struct state *state)
{
    state->columns[0] = (struct column){"rank", 'i', NULL};
    state->columns[1] = (struct column){"step", 'i', NULL};
    for (size_t i = 0; i < VALUES; i++) {
        static const char *const tails[] = {"", "Base", "Diff"};
        for (size_t k = 0; k < 3; k++) {
            char *title = state->titles[2 + i * 3 + k];
            (void)snprintf(title, sizeof state->titles[0], "%s%s", names[i], tails[k]);
            state->columns[2 + i * 3 + k] = (struct column){title, 'r', NULL};
        }
    }
    state->table = (struct table){"ClusterTimeCompareSummary",
                                  "cluster_time_compare_summary.csv",
                                  state->columns,
                                  COLUMNS,
                                  0,
                                  false};
}

static bool has_null(const union frame_cell *row)
{
    for (size_t c = 0; c < VALUES; c++)
        if (row[FIRST + c].r != row[FIRST + c].r)
            return true;
    return row[RANK].i == RS_NULL || row[STEP].i == RS_NULL;
}

static int compare(const union frame_cell *a, const union frame_cell *b)
{
    if (a[RANK].i != b[RANK].i)
        return a[RANK].i < b[RANK].i ? -1 : 1;
    return (a[STEP].i > b[STEP].i) - (a[STEP].i < b[STEP].i);
}

static enum rs_status write_pair(struct run *run, const union frame_cell *now,
                                 const union frame_cell *before, struct rs_err *err)
{
    struct cell cells[COLUMNS];
    cells[0] = cell_int(now[RANK].i);
    cells[1] = cell_int(now[STEP].i);
    for (size_t i = 0; i < VALUES; i++) {
        cells[2 + i * 3] = cell_real(now[FIRST + i].r);
        cells[3 + i * 3] = cell_real(before[FIRST + i].r);
        cells[4 + i * 3] = cell_real(now[FIRST + i].r - before[FIRST + i].r);
    }
    return table_row(run, cells, err);
}

/* Both are sorted by (rank, step). */
static enum rs_status write_all(struct run *run, const struct frame *now,
                                const struct frame *before, struct rs_err *err)
{
    struct state *state = run->state;
    enum rs_status status = table_begin(run, &state->table, err);
    for (size_t i = 0, k = 0; i < now->count && status == RS_OK;) {
        const union frame_cell *a = frame_row(now, i);
        const union frame_cell *b = k < before->count ? frame_row(before, k) : NULL;
        const int order = b ? compare(a, b) : -1;
        if (order > 0) {
            k++;
            continue;
        }
        i++;
        if (order < 0 || has_null(a) || has_null(b)) {
            run_add_problem(run, a[RANK].i, false,
                            "step %" PRId64 " has nothing to be compared with", a[STEP].i);
            continue;
        }
        status = write_pair(run, a, b, err);
    }
    return status == RS_OK ? table_end(run, err) : status;
}

static enum rs_status finish(struct run *run, struct rs_err *err)
{
    struct frame now = {0}, before = {0};
    if (!run->options->base)
        return rs_err_set(err, RS_INVALID, "cluster_time_compare_summary needs --bp BASE");
    lay_columns(run->state);
    enum rs_status status = RS_OK;
    if (frame_init(&now, KINDS) != RS_OK || frame_init(&before, KINDS) != RS_OK)
        status = rs_err_set(err, RS_NOMEM, "no memory for steps");
    if (status == RS_OK)
        status = read_side(run, run->paths[0], &now, err);
    if (status == RS_OK)
        status = read_side(run, run->options->base, &before, err);
    if (status == RS_OK)
        status = write_all(run, &now, &before, err);
    frame_fini(&now);
    frame_fini(&before);
    return status;
}

const struct recipe recipe_cluster_time_compare_summary = {
    .info = {"cluster_time_compare_summary", "ClusterTimeSummary of one result against another's",
             "ClusterTimeCompareSummary"},
    .folder = "ClusterTimeCompareSummary",
    .state_bytes = sizeof(struct state),
    .finish = finish,
};
