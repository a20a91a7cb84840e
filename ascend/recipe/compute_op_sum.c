/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compute_op_sum: how long computing tasks take, by (type, task type), per rank and over all.
 *
 * Peer: COMPUTE_TASK_INFO joined to TASK, tasks that start in the step; groups without a
 * name for one of their keys are dropped; without --exclude-op-name also per rank by (name, type,
 * task type, input shapes). Sorted by the sum, descending. Nothing to correct.
 */
#include "ascend/recipe/recipe_priv.h"
#include "common/base/mem.h"

#include <inttypes.h>
#include <stdlib.h>

enum { NAME, TYPE, TASK_TYPE, SHAPES, DURATION, RANK };
#define KINDS "ttttii"
enum { KEYS_MAX = 4 };

static enum rs_status map(struct run *run, const struct inputs *in, void **part_p,
                          struct rs_err *err)
{
    (void)run;
    const enum rs_status status =
        db_requires(in->profiler,
                    "COMPUTE_TASK_INFO.name COMPUTE_TASK_INFO.opType COMPUTE_TASK_INFO.taskType "
                    "COMPUTE_TASK_INFO.inputShapes COMPUTE_TASK_INFO.globalTaskId "
                    "TASK.globalTaskId TASK.startNs TASK.endNs STRING_IDS.value",
                    err);
    if (status != RS_OK)
        return status;
    return frame_map(in, in->profiler, KINDS,
                     "SELECT n.value, o.value, y.value, s.value, TASK.endNs - TASK.startNs, ?3 "
                     "FROM COMPUTE_TASK_INFO c "
                     "JOIN TASK ON TASK.globalTaskId = c.globalTaskId "
                     "LEFT JOIN STRING_IDS n ON n.id = c.name "
                     "LEFT JOIN STRING_IDS o ON o.id = c.opType "
                     "LEFT JOIN STRING_IDS y ON y.id = c.taskType "
                     "LEFT JOIN STRING_IDS s ON s.id = c.inputShapes "
                     "WHERE TASK.startNs >= ?1 AND TASK.startNs <= ?2",
                     part_p, err);
}

struct line {
    struct stats stats;
    size_t row, order;
};

static int by_sum(const void *a, const void *b)
{
    const struct line *x = a, *y = b;
    if (x->stats.sum < y->stats.sum || x->stats.sum > y->stats.sum)
        return x->stats.sum > y->stats.sum ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

/* Text keys of the table, in the order of its columns. */
struct view {
    const struct table *table;
    const char *keys; /* sort keys, the rank among them when rows are per rank */
    size_t texts[KEYS_MAX];
    size_t text_count;
    bool with_rank;
};

static bool lacks_key(const union frame_cell *row, const struct view *view)
{
    for (size_t i = 0; i < view->text_count; i++)
        if (row[view->texts[i]].t == RS_STR_NONE)
            return true;
    return false;
}

static enum rs_status collect(struct frame_state *state, const struct view *view,
                              struct line **lines_p, size_t *count_p)
{
    struct frame_order order;
    struct line *lines = NULL;
    size_t count = 0, capacity = 0;
    enum rs_status status = frame_order(&state->rows, view->keys, &order);
    if (status != RS_OK)
        return status;
    for (size_t at = 0, end = 0; at < order.count && status == RS_OK; at = end) {
        end = frame_group_end(&state->rows, &order, at);
        if (lacks_key(frame_row(&state->rows, order.rows[at]), view))
            continue;
        status = rs_mem_grow((void **)&lines, &capacity, count + 1, sizeof *lines);
        if (status == RS_OK)
            status = scratch_gather(&state->scratch, &state->rows, &order, at, end, DURATION);
        if (status != RS_OK)
            break;
        lines[count] = (struct line){.row = order.rows[at], .order = count};
        stats_of_group(state->scratch.values, state->scratch.count, state->scratch.sorted,
                       &lines[count].stats);
        count++;
    }
    frame_order_fini(&order);
    if (status != RS_OK) {
        rs_mem_free(lines);
        return status;
    }
    if (count)
        qsort(lines, count, sizeof *lines, by_sum);
    *lines_p = lines;
    *count_p = count;
    return RS_OK;
}

static enum rs_status write_view(struct run *run, const struct view *view, struct rs_err *err)
{
    struct frame_state *state = run->state;
    struct line *lines = NULL;
    size_t count = 0;
    enum rs_status status = collect(state, view, &lines, &count);
    if (status != RS_OK)
        return rs_err_set(err, status, "no memory to sort tasks");
    status = table_begin(run, view->table, err);
    for (size_t i = 0; i < count && status == RS_OK; i++) {
        const union frame_cell *row = frame_row(&state->rows, lines[i].row);
        struct cell cells[KEYS_MAX + STATS_COLUMN_COUNT + 1];
        for (size_t k = 0; k < view->text_count; k++)
            cells[k] = cell_text(frame_text(&state->rows, row[view->texts[k]].t));
        stats_cells(&lines[i].stats, cells + view->text_count);
        if (view->with_rank)
            cells[view->text_count + STATS_COLUMN_COUNT] = cell_int(row[RANK].i);
        status = table_row(run, cells, err);
    }
    rs_mem_free(lines);
    return status == RS_OK ? table_end(run, err) : status;
}

static enum rs_status finish(struct run *run, struct rs_err *err)
{
    static const struct column all[] = {
        {"OpType", 't', NULL}, {"TaskType", 't', NULL}, STATS_COLUMNS};
    static const struct column by_type[] = {
        {"OpType", 't', NULL}, {"TaskType", 't', NULL}, STATS_COLUMNS, {"Rank", 'i', NULL}};
    static const struct column by_name[] = {{"OpName", 't', NULL},   {"OpType", 't', NULL},
                                            {"TaskType", 't', NULL}, {"InputShapes", 't', NULL},
                                            STATS_COLUMNS,           {"Rank", 'i', NULL}};
    static const struct table tables[] = {
        {"ComputeOpAllRankStats", "all_stats.csv", all, COLUMN_COUNT(all), 2, false},
        {"ComputeOpPerRankStatsByOpType", "rank_stats_by_optype.csv", by_type,
         COLUMN_COUNT(by_type), 2, false},
        {"ComputeOpPerRankStatsByOpName", "rank_stats_by_opname.csv", by_name,
         COLUMN_COUNT(by_name), 4, false},
    };
    const struct view views[] = {
        {&tables[0], (char[]){TYPE + 1, TASK_TYPE + 1, 0}, {TYPE, TASK_TYPE}, 2, false},
        {&tables[1], (char[]){RANK + 1, TYPE + 1, TASK_TYPE + 1, 0}, {TYPE, TASK_TYPE}, 2, true},
        {&tables[2],
         (char[]){RANK + 1, NAME + 1, TYPE + 1, TASK_TYPE + 1, SHAPES + 1, 0},
         {NAME, TYPE, TASK_TYPE, SHAPES},
         4,
         true},
    };
    const size_t count = run->options->exclude_op_name ? 2 : 3;
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < count && status == RS_OK; i++)
        status = write_view(run, &views[i], err);
    return status;
}

const struct recipe recipe_compute_op_sum = {
    .info = {"compute_op_sum", "durations of computing tasks by type, rank and name",
             "ComputeOpAllRankStats, ComputeOpPerRankStatsByOpType, ComputeOpPerRankStatsByOpName"},
    .folder = "ComputeOpSum",
    .needs = NEED_PROFILER,
    .state_bytes = sizeof(struct frame_state),
    .kinds = KINDS,
    FRAME_RECIPE,
    .map = map,
    .finish = finish,
};
