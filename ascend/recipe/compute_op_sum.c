/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compute_op_sum: how long computing tasks take, by (type, task type), per rank and over all.
 *
 * Peer: COMPUTE_TASK_INFO joined to TASK, tasks that start in the step; groups without a
 * name for one of their keys are dropped; without --exclude-op-name also per rank by (name, type,
 * task type, input shapes). Sorted by the sum, descending. Nothing to correct.
 */
#include "ascend/recipe/recipe_priv.h"

/* One row for each value of `keys`, which `shown` tells before the statistics. */
#define STATS_BY(keys, shown, rank, where)                                                         \
    "SELECT " shown ", " SELECT_STATS rank " FROM (SELECT " keys ", group_stats(duration) AS s "   \
    "FROM tasks WHERE " where " GROUP BY " keys ") ORDER BY " STAT_SUM " DESC, " keys
#define TYPED "type IS NOT NULL AND task_type IS NOT NULL"
#define NAMED TYPED " AND name IS NOT NULL AND shapes IS NOT NULL"

static const struct result results[] = {
    {.name = "ComputeOpAllRankStats",
     .file = "all_stats.csv",
     .columns = "OpType:t|TaskType:t" RESULT_STATS,
     .index_columns = 2,
     .sql = STATS_BY("type, task_type", "type, task_type", "", TYPED)},
    {.name = "ComputeOpPerRankStatsByOpType",
     .file = "rank_stats_by_optype.csv",
     .columns = "OpType:t|TaskType:t" RESULT_STATS "|Rank:i",
     .index_columns = 2,
     .sql = STATS_BY("rank, type, task_type", "type, task_type", ", rank", TYPED)},
    {.name = "ComputeOpPerRankStatsByOpName",
     .file = "rank_stats_by_opname.csv",
     .columns = "OpName:t|OpType:t|TaskType:t|InputShapes:t" RESULT_STATS "|Rank:i",
     .index_columns = 4,
     .when = "SELECT 1 WHERE NOT :exclude_op_name",
     .sql = STATS_BY("rank, name, type, task_type, shapes", "name, type, task_type, shapes",
                     ", rank", NAMED)},
};

const struct recipe recipe_compute_op_sum = {
    .info = {"compute_op_sum", "durations of computing tasks by type, rank and name",
             "ComputeOpAllRankStats, ComputeOpPerRankStatsByOpType, ComputeOpPerRankStatsByOpName"},
    .folder = "ComputeOpSum",
    .needs = NEED_PROFILER,
    .frames = {{.name = "tasks",
                .columns = "name:t type:t task_type:t shapes:t duration:i rank:i",
                .requires = "COMPUTE_TASK_INFO.name COMPUTE_TASK_INFO.opType "
                            "COMPUTE_TASK_INFO.taskType COMPUTE_TASK_INFO.inputShapes "
                            "COMPUTE_TASK_INFO.globalTaskId TASK.globalTaskId TASK.startNs "
                            "TASK.endNs STRING_IDS.value",
                .missing = "no such rows",
                .sql = "SELECT n.value, o.value, y.value, s.value, TASK.endNs - TASK.startNs, "
                       ":rank FROM COMPUTE_TASK_INFO c "
                       "JOIN TASK ON TASK.globalTaskId = c.globalTaskId "
                       "LEFT JOIN STRING_IDS n ON n.id = c.name "
                       "LEFT JOIN STRING_IDS o ON o.id = c.opType "
                       "LEFT JOIN STRING_IDS y ON y.id = c.taskType "
                       "LEFT JOIN STRING_IDS s ON s.id = c.inputShapes "
                       "WHERE TASK.startNs >= :from AND TASK.startNs <= :to"}},
    RESULTS(results),
};
