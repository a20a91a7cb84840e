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

#include <math.h>
#include <stdio.h>

enum { PAIRS, STEPS, OPS };
enum { O_GROUP, O_NAME, O_STEP, O_TIME = 4, O_LEAST };
enum { W_START, W_END, W_TYPE, W_STEP };
enum { TYPE_MEMORY = 4 };

/* How a rank's rows find their step and their host call. */
struct joins {
    char steps[160]; /* a join that gives "s.id" when the database has steps */
    const char *step;
};

static void join_steps(const struct inputs *in, const char *time, struct joins *joins)
{
    *joins = (struct joins){.step = "-1"};
    if (!in_has(in, "STEP_TIME.startNs"))
        return;
    joins->step = "s.id";
    (void)snprintf(joins->steps, sizeof joins->steps,
                   "LEFT JOIN STEP_TIME s ON %s >= s.startNs AND %s <= s.endNs", time, time);
}

/* How to join a table with CANN_API; NULL: it cannot be. */
static const char *api_join(const struct inputs *in, const char *column)
{
    return !in_has(in, "CANN_API.connectionId") || !in_has(in, column) ? NULL
           : in->run->options->compat                                  ? "JOIN"
                                                                       : "LEFT JOIN";
}

/* A send and its receive have one name, "p2p a b k", so that they meet. */
static void read_ops(struct inputs *in, struct frame *ops)
{
    const char *how = api_join(in, "COMMUNICATION_OP.connectionId");
    const char *time = how ? "coalesce(a.startNs, c.startNs)" : "c.startNs";
    const char *id = in_has(in, "COMMUNICATION_OP.opId") ? "c.opId" : "c.rowid";
    struct joins joins;
    char sql[1400];
    if (!in_has(in, "COMMUNICATION_OP.groupName COMMUNICATION_OP.opName COMMUNICATION_OP.startNs "
                    "STRING_IDS.value"))
        return; /* a rank that communicates nothing has steps all the same */
    join_steps(in, time, &joins);
    (void)snprintf(sql, sizeof sql,
                   "WITH p AS MATERIALIZED (SELECT op, 'p2p ' || src || ' ' || dst || ' ' || "
                   "number AS name FROM pairs) "
                   "SELECT g.value, coalesce(p.name, n.value), %s, :rank, "
                   "(c.endNs - c.startNs) / 1000.0, 0 "
                   "FROM COMMUNICATION_OP c JOIN STRING_IDS g ON g.id = c.groupName "
                   "JOIN STRING_IDS n ON n.id = c.opName %s %s %s LEFT JOIN p ON p.op = %s "
                   "WHERE %s >= :from AND %s <= :to",
                   joins.step, how ? how : "",
                   how ? "CANN_API a ON a.connectionId = c.connectionId" : "", joins.steps, id,
                   time, time);
    in_load(in, ops, in->profiler, sql);
}

/* ---- memory ---- */

/* All that the device does, (start, end, type, step), in order of time. */
static void read_work(struct inputs *in, struct frame *work)
{
    const char *task_how = api_join(in, "TASK.connectionId");
    const char *op_how = api_join(in, "COMMUNICATION_OP.connectionId");
    struct joins joins;
    struct rs_buf sql = {0};
    if (!in_has(in, "TASK.startNs TASK.taskType STRING_IDS.value"))
        return;
    join_steps(in, "w.t", &joins);
    rs_buf_printf(&sql, "SELECT w.a, w.b, w.y, %s FROM (", joins.step);
    if (in_has(in, "COMPUTE_TASK_INFO.globalTaskId"))
        rs_buf_printf(&sql,
                      "SELECT TASK.startNs a, TASK.endNs b, %s t, 0 y FROM COMPUTE_TASK_INFO c "
                      "JOIN TASK ON TASK.globalTaskId = c.globalTaskId AND "
                      "TASK.startNs <> TASK.endNs %s %s UNION ALL ",
                      task_how ? "coalesce(p.startNs, TASK.startNs)" : "TASK.startNs",
                      task_how ? task_how : "",
                      task_how ? "CANN_API p ON p.connectionId = TASK.connectionId" : "");
    if (in_has(in, "COMMUNICATION_OP.startNs"))
        rs_buf_printf(&sql,
                      "SELECT o.startNs a, o.endNs b, %s t, 1 y FROM COMMUNICATION_OP o %s %s "
                      "UNION ALL ",
                      op_how ? "coalesce(p.startNs, o.startNs)" : "o.startNs", op_how ? op_how : "",
                      op_how ? "CANN_API p ON p.connectionId = o.connectionId" : "");
    rs_buf_printf(
        &sql,
        "SELECT startNs a, endNs b, startNs t, 4 y FROM TASK WHERE taskType = "
        "(SELECT id FROM STRING_IDS WHERE value = 'MEMCPY_ASYNC')) w %s "
        "WHERE w.t >= :from AND w.t <= :to AND " IS_SPAN("w.a", "w.b") "ORDER BY w.a, w.b",
        joins.steps);
    if (sql.failed)
        in_fail(in, RS_NOMEM, "no memory for a query");
    in_load(in, work, in->profiler, rs_buf_text(&sql));
    rs_buf_fini(&sql);
}

/* The sweep: of work in order of start, the memory that nothing else covers. ns. */
static int64_t bare_memory(const struct frame *work, const struct frame_order *order, size_t from,
                           size_t end)
{
    const int64_t first = frame_row(work, order->rows[from])[W_START].i;
    int64_t block_start = first, block_end = first, bare = 0;
    int64_t type = -1;
    for (size_t i = from; i < end; i++) {
        const union frame_cell *row = frame_row(work, order->rows[i]);
        const int64_t start_ns = row[W_START].i, end_ns = row[W_END].i;
        if (type == TYPE_MEMORY) {
            const int64_t until = start_ns > block_end ? block_end : start_ns;
            bare += block_start < until ? until - block_start : 0;
        }
        if (start_ns > block_end) {
            block_start = start_ns;
            block_end = end_ns;
            type = row[W_TYPE].i;
        } else if (end_ns > block_end) {
            block_start = block_end;
            block_end = end_ns;
            type = row[W_TYPE].i;
        } else {
            block_start = end_ns;
        }
    }
    return type == TYPE_MEMORY ? bare + block_end - block_start : bare;
}

static void fill_memory(struct inputs *in, struct frame *steps)
{
    enum { RANK, STEP, US, BARE = 9, COLUMNS };
    struct frame work;
    struct frame_order order = {0};
    if (frame_init(&work, "iiii") != RS_OK)
        in_fail(in, RS_NOMEM, "no memory for steps");
    read_work(in, &work);
    if (frame_order(&work, (char[]){W_STEP + 1, 0}, &order) != RS_OK)
        in_fail(in, RS_NOMEM, "no memory for steps");
    for (size_t at = 0, end = 0; at < order.count; at = end) {
        int64_t memory = 0;
        bool has_memory = false;
        const int64_t step = frame_row(&work, order.rows[at])[W_STEP].i;
        end = frame_group_end(&work, &order, at);
        for (size_t i = at; i < end; i++) {
            const union frame_cell *row = frame_row(&work, order.rows[i]);
            if (row[W_TYPE].i != TYPE_MEMORY)
                continue;
            has_memory = true;
            memory += row[W_END].i - row[W_START].i;
        }
        if (!has_memory || step == RS_NULL)
            continue;
        union frame_cell *row = frame_put(steps);
        for (size_t c = US; c < COLUMNS; c++)
            row[c].r = (double)NAN;
        row[RANK].i = in->of->rank;
        row[STEP].i = step;
        row[BARE - 1].r = (double)memory / 1000.0;
        row[BARE].r = (double)bare_memory(&work, &order, at, end) / 1000.0;
    }
    frame_order_fini(&order);
    frame_fini(&work);
}

static void fill(struct inputs *in, struct frame *frames)
{
    struct frame *steps = &frames[STEPS];
    if (in_has(in, "STEP_TIME.id STEP_TIME.startNs STEP_TIME.endNs"))
        in_load(
            in, steps, in->profiler,
            "SELECT :rank, id, (endNs - startNs) / 1000.0, NULL, NULL, NULL, NULL, NULL, NULL, NULL "
            "FROM STEP_TIME");
    const size_t before = steps->count;
    in_require(in, in->analysis,
               "StepTraceTime.step StepTraceTime.computing "
               "StepTraceTime.communication_not_overlapped StepTraceTime.overlapped "
               "StepTraceTime.communication StepTraceTime.free");
    in_load(in, steps, in->analysis,
            "SELECT :rank, CAST(coalesce(nullif(step, ''), '-1') AS INTEGER), NULL, computing, "
            "communication_not_overlapped, overlapped, communication, free, NULL, NULL "
            "FROM StepTraceTime");
    if (steps->count == before)
        in_fail(in, RS_NOTFOUND, "StepTraceTime of %s is empty", rs_ascend_db_path(in->analysis));
    if (!in->run->options->compat && in_has(in, "COMMUNICATION_OP.groupName"))
        pairs_load_if_any(in, &frames[PAIRS]);
    read_ops(in, &frames[OPS]);
    fill_memory(in, steps);
}

/* Of each operation the least time among the ranks that have it, in all its rows. */
static enum rs_status find_least(struct frame *ops)
{
    struct frame_order order;
    const enum rs_status status =
        frame_order(ops, (char[]){O_GROUP + 1, O_NAME + 1, O_STEP + 1, 0}, &order);
    for (size_t at = 0, end = 0; status == RS_OK && at < order.count; at = end) {
        double least = frame_row(ops, order.rows[at])[O_TIME].r;
        end = frame_group_end(ops, &order, at);
        for (size_t i = at; i < end; i++)
            if (frame_row(ops, order.rows[i])[O_TIME].r < least)
                least = frame_row(ops, order.rows[i])[O_TIME].r;
        for (size_t i = at; i < end; i++)
            frame_at(ops, order.rows[i])[O_LEAST].r = least;
    }
    frame_order_fini(&order);
    return status;
}

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
     .sql = "WITH split AS MATERIALIZED (SELECT rank, step, sum_exact(us - least) AS wait, "
            "sum_exact(least) AS transmit FROM ops WHERE (SELECT count(*) FROM (SELECT 1 FROM ops "
            "GROUP BY rank)) > 1 GROUP BY rank, step) "
            "SELECT rank, step, coalesce(us, computing + exposed + free, 0), "
            "coalesce(computing, 0), coalesce(exposed, 0), coalesce(overlapped, 0), "
            "coalesce(communication, 0), coalesce(free, 0) - coalesce(bare, 0), "
            "coalesce(wait, 0), coalesce(transmit, 0), coalesce(memory, 0), coalesce(bare, 0) "
            "FROM (SELECT rank, step, last_of(us) AS us, last_of(computing) AS computing, "
            "last_of(exposed) AS exposed, last_of(overlapped) AS overlapped, "
            "last_of(communication) AS communication, last_of(free) AS free, "
            "last_of(memory) AS memory, last_of(bare) AS bare FROM steps "
            "WHERE :step < 0 OR step = :step GROUP BY rank, step) "
            "LEFT JOIN split USING (rank, step) ORDER BY rank, step"}};

static enum rs_status finish(struct run *run, struct rs_err *err)
{
    const enum rs_status status = find_least(&run->frames[OPS]);
    return status == RS_OK ? result_write(run, &results[0], err)
                           : rs_err_set(err, status, "no memory to sort steps");
}

const struct recipe recipe_cluster_time_summary = {
    .info = {"cluster_time_summary", "where each rank's steps went, wait and transmit apart",
             "ClusterTimeSummary"},
    .folder = "ClusterTimeSummary",
    .needs = NEED_PROFILER | NEED_ANALYSIS,
    .frames = {{.name = "pairs", .columns = PAIR_COLUMNS, .is_passing = true},
               {.name = "steps",
                .columns = "rank:i step:i us:r computing:r exposed:r overlapped:r communication:r "
                           "free:r memory:r bare:r"},
               {.name = "ops", .columns = "communicator:t name:t step:i rank:i us:r least:r"}},
    .fill = fill,
    .finish = finish,
};
