/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cluster_time_summary: where each rank's steps went, in us.
 *
 * Peer, per (rank, step): STEP_TIME; the figures of StepTraceTime; communication split into transmit,
 * the sum over operations of the shortest duration among the ranks that have the same (group, name,
 * step), and wait, the rest; memory = MEMCPY_ASYNC tasks, and of these what a sweep over all work
 * finds uncovered, which is taken from free. An operation belongs to the step whose window holds the
 * start of its CANN_API row (a memcpy: its own start). A rank alone waits and transmits nothing. A
 * missing STEP_TIME row gives computing + not overlapped + free.
 *
 * Corrected: send and receive have different names, so for the peer neither ever waits; here the
 * k-th send and the k-th receive between two ranks of a group are one operation. Operations
 * without a CANN_API row go by their own start. Operations that lack a member are reported.
 */
#include "ascend/recipe/recipe_priv.h"

#include <sqlite3.h>

/* bare(start, end, type): the peer's sweep over work in order of start; the memory that nothing else covers, ns. */
enum { TYPE_MEMORY = 4 };
struct sweep {
    int64_t start, end, bare; /* of the block at hand */
    int64_t type;
    bool is_begun;
};

void step_bare(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    struct sweep *sweep = sqlite3_aggregate_context(context, sizeof *sweep);
    (void)argc;
    if (!sweep)
        return;
    const int64_t start = sqlite3_value_int64(argv[0]), end = sqlite3_value_int64(argv[1]);
    if (!sweep->is_begun)
        *sweep = (struct sweep){.start = start, .end = start, .type = -1, .is_begun = true};
    if (sweep->type == TYPE_MEMORY) {
        const int64_t until = start > sweep->end ? sweep->end : start;
        sweep->bare += sweep->start < until ? until - sweep->start : 0;
    }
    if (end <= sweep->end && start <= sweep->end) {
        sweep->start = end;
        return;
    }
    sweep->start = start > sweep->end ? start : sweep->end;
    sweep->end = end;
    sweep->type = sqlite3_value_int64(argv[2]);
}

void end_bare(sqlite3_context *context)
{
    const struct sweep *sweep = sqlite3_aggregate_context(context, 0);
    if (sweep)
        sqlite3_result_int64(context, sweep->type == TYPE_MEMORY
                                          ? sweep->bare + sweep->end - sweep->start
                                          : sweep->bare);
}

/* clang-format off */

#define JOIN_STEPS(time) "LEFT JOIN STEP_TIME s ON " time " >= s.startNs AND " time " <= s.endNs "
#define STEP "iif(has('STEP_TIME.startNs'), s.id, -1)"

/* All that the device does, in order of time. */
static const char work_sql[] =
    "SELECT w.a, w.b, w.y, " STEP " FROM (SELECT TASK.startNs a, TASK.endNs b, coalesce(a.startNs, TASK.startNs) t, "
    "0 y FROM COMPUTE_TASK_INFO c JOIN TASK ON TASK.globalTaskId = c.globalTaskId AND TASK.startNs <> TASK.endNs "
    LEFT_JOIN_API("TASK") "WHERE " HAS_API("TASK") " UNION ALL "
    "SELECT o.startNs, o.endNs, coalesce(a.startNs, o.startNs), 1 FROM COMMUNICATION_OP o " LEFT_JOIN_API("o")
    "WHERE " HAS_API("COMMUNICATION_OP") " UNION ALL "
    "SELECT startNs, endNs, startNs, 4 FROM TASK WHERE taskType = (SELECT id FROM STRING_IDS WHERE value = "
    "'MEMCPY_ASYNC')) w " JOIN_STEPS("w.t") "WHERE w.t >= :from AND w.t <= :to AND " IS_SPAN("w.a", "w.b")
    "ORDER BY w.a, w.b";

/* One after another: STEP_TIME, StepTraceTime, memory. */
static const char steps_sql[] =
    "SELECT :rank, id, (endNs - startNs) / 1000.0, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM STEP_TIME UNION "
    "ALL "
    "SELECT :rank, step, NULL, computing, exposed, overlapped, communication, free, NULL, NULL FROM traces UNION "
    "ALL "
    "SELECT :rank, step, NULL, NULL, NULL, NULL, NULL, NULL, sum(iif(type = 4, end - start, 0)) / 1000.0, "
    "bare(start, end, type) / 1000.0 FROM work GROUP BY step HAVING sum(type = 4) AND step IS NOT NULL";

/* A send and its receive have one name, "p2p a b k", so that they meet. */
static const char ops_sql[] =
    "WITH p AS MATERIALIZED (SELECT op, 'p2p ' || src || ' ' || dst || ' ' || number AS name FROM pairs WHERE NOT "
    ":compat) "
    "SELECT g.value, coalesce(p.name, n.value), " STEP ", :rank, (c.endNs - c.startNs) / 1000.0 FROM "
    "COMMUNICATION_OP c JOIN STRING_IDS g ON g.id = c.groupName JOIN STRING_IDS n ON n.id = c.opName "
    LEFT_JOIN_API("c") JOIN_STEPS("coalesce(a.startNs, c.startNs)") "LEFT JOIN p ON p.op = coalesce(c.opId, "
    "c.rowid) WHERE " HAS_API("COMMUNICATION_OP") " AND " IN_STEP("coalesce(a.startNs, c.startNs)");

/* Of each operation the least time among the ranks that have it is transmission, the rest waiting. */
#define SUMMED(values) "sum_exact_by(" values ", id)"
static const char summary_sql[] =
    "WITH op AS (SELECT rowid AS id, rank, step, us, min(us) OVER (PARTITION BY communicator, name, step) AS least "
    "FROM ops WHERE (SELECT min(rank) <> max(rank) FROM ops)), "
    "split AS MATERIALIZED (SELECT rank, step, " SUMMED("us - least") " AS wait, " SUMMED("least") " AS transmit "
    "FROM op GROUP BY rank, step) "
    "SELECT rank, step, coalesce(us, computing + exposed + free, 0), coalesce(computing, 0), coalesce(exposed, 0), "
    "coalesce(overlapped, 0), coalesce(communication, 0), coalesce(free, 0) - coalesce(bare, 0), coalesce(wait, 0), "
    "coalesce(transmit, 0), coalesce(memory, 0), coalesce(bare, 0) FROM (SELECT rank, step, last_of(us) AS us, "
    "last_of(computing) AS computing, last_of(exposed) AS exposed, last_of(overlapped) AS overlapped, "
    "last_of(communication) AS communication, last_of(free) AS free, last_of(memory) AS memory, last_of(bare) AS "
    "bare FROM steps WHERE :step < 0 OR step = :step GROUP BY rank, step) LEFT JOIN split USING (rank, step) ORDER "
    "BY rank, step";
/* clang-format on */

/* A rank alone waits and transmits nothing. */
static const struct result results[] = {
    {.name = "ClusterTimeSummary",
     .file = "cluster_time_summary.csv",
     .columns = "rank:i=Rank|step:i=Step|stepTime:r=Step Time(us)|computation:r=Computation(us)|"
                "communicationNotOverlapComputation:r=Communication Not Overlap Computation(us)|"
                "communicationOverlapComputation:r=Communication Overlap Computation(us)|"
                "communication:r=Communication(us)|free:r=Free(us)|"
                "communicationWaitStageTime:r=Communication Wait Stage Time(us)|"
                "communicationTransmitStageTime:r=Communication Transmit Stage Time(us)|"
                "memory:r=Memory(us)|memoryNotOverlapComputationCommunication:r="
                "Memory Not Overlap Computation Communication(us)",
     .sql = summary_sql}};

const struct recipe recipe_cluster_time_summary = {
    .info = {"cluster_time_summary", "where each rank's steps went, wait and transmit apart",
             "ClusterTimeSummary"},
    .folder = "ClusterTimeSummary",
    .needs = NEED_PROFILER | NEED_ANALYSIS,
    .optional = API_OPTIONAL TASKS_OPTIONAL "STEP_TIME(id,endNs;startNs) STRING_IDS(id,value)",
    .frames = {{.name = "traces",
                .columns = "step:i computing:r exposed:r overlapped:r communication:r free:r",
                .requires = "StepTraceTime.step StepTraceTime.computing "
                            "StepTraceTime.communication_not_overlapped StepTraceTime.overlapped "
                            "StepTraceTime.communication StepTraceTime.free",
                .sql = "SELECT CAST(coalesce(nullif(step, ''), '-1') AS INTEGER), computing, "
                       "communication_not_overlapped, overlapped, communication, free "
                       "FROM StepTraceTime",
                .missing = "an empty StepTraceTime",
                .is_analysis = true,
                .is_passing = true},
               FRAME_PAIRS(PAIRS_OPTIONAL, .is_passing = true),
               {.name = "ops",
                .columns = "communicator:t name:t step:i rank:i us:r",
                .asks = "COMMUNICATION_OP.groupName COMMUNICATION_OP.opName "
                        "COMMUNICATION_OP.startNs STRING_IDS.value",
                .sql = ops_sql}, /* a rank that communicates nothing has steps all the same */
               {.name = "work",
                .columns = "start:i end:i type:i step:i",
                .asks = "TASK.startNs TASK.taskType STRING_IDS.value",
                .sql = work_sql,
                .is_passing = true},
               {.name = "steps",
                .columns = "rank:i step:i us:r computing:r exposed:r overlapped:r communication:r "
                           "free:r memory:r bare:r",
                .sql = steps_sql}},
    RESULTS(results),
};
