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
#include "common/base/mem.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Of a step: what is known from each table; NaN where it is not there. */
enum { RANK, STEP, STEP_US, COMPUTING, EXPOSED, OVERLAPPED, COMMUNICATION, FREE, MEMORY, BARE };
#define STEP_KINDS "iirrrrrrrr"
enum { O_GROUP, O_NAME, O_STEP, O_RANK, O_TIME, O_ID };
#define OP_KINDS "ttiiri"
enum { W_START, W_END, W_TYPE, W_STEP };
#define WORK_KINDS "iiii"
enum { TYPE_COMPUTING = 0, TYPE_COMMUNICATION = 1, TYPE_MEMORY = 4 };

struct part {
    struct frame steps, ops;
};

struct state {
    struct frame steps, ops;
    size_t ranks_with_ops;
};

static void drop(void *data)
{
    struct part *part = data;
    frame_fini(&part->steps);
    frame_fini(&part->ops);
    rs_mem_free(part);
}

static enum rs_status start(struct run *run, struct rs_err *err)
{
    struct state *state = run->state;
    enum rs_status status = frame_init(&state->steps, STEP_KINDS);
    if (status == RS_OK)
        status = frame_init(&state->ops, OP_KINDS);
    return status == RS_OK ? RS_OK : rs_err_set(err, status, "no memory for steps");
}

/* The row of a step, made when there is none. */
static union frame_cell *step_row(struct frame *steps, int64_t rank, int64_t step)
{
    for (size_t i = 0; i < steps->count; i++) {
        union frame_cell *row = steps->cells + i * steps->columns;
        if (row[STEP].i == step)
            return row;
    }
    union frame_cell *row = frame_add(steps);
    if (!row)
        return NULL;
    row[RANK].i = rank;
    row[STEP].i = step;
    for (size_t c = STEP_US; c <= BARE; c++)
        row[c].r = (double)NAN;
    return row;
}

static bool wants(const struct run *run, int64_t step)
{
    return run->options->step_id < 0 || step == run->options->step_id;
}

static enum rs_status read_step_times(struct run *run, const struct inputs *in, struct frame *steps,
                                      struct rs_err *err)
{
    const struct frame_query query = {.sql = "SELECT id, endNs - startNs FROM STEP_TIME"};
    struct frame rows;
    if (db_requires(in->profiler, "STEP_TIME.id STEP_TIME.startNs STEP_TIME.endNs", NULL) != RS_OK)
        return RS_OK;
    enum rs_status status = frame_init(&rows, "ii");
    if (status == RS_OK)
        status = frame_load(&rows, in->profiler, &query, err);
    for (size_t i = 0; i < rows.count && status == RS_OK; i++) {
        const union frame_cell *cells = frame_row(&rows, i);
        if (!wants(run, cells[0].i))
            continue;
        union frame_cell *row = step_row(steps, in->of->rank, cells[0].i);
        if (!row)
            status = rs_err_set(err, RS_NOMEM, "no memory for steps");
        else
            row[STEP_US].r = (double)cells[1].i / 1000.0;
    }
    frame_fini(&rows);
    return status;
}

static enum rs_status read_trace(struct run *run, const struct inputs *in, struct frame *steps,
                                 struct rs_err *err)
{
    const struct frame_query query = {
        .sql = "SELECT CAST(coalesce(nullif(step, ''), '-1') AS INTEGER), computing, "
               "communication_not_overlapped, overlapped, communication, free FROM StepTraceTime"};
    struct frame rows;
    enum rs_status status = db_requires(
        in->analysis,
        "StepTraceTime.step StepTraceTime.computing StepTraceTime.communication_not_overlapped "
        "StepTraceTime.overlapped StepTraceTime.communication StepTraceTime.free",
        err);
    if (status != RS_OK)
        return status;
    status = frame_init(&rows, "irrrrr");
    if (status == RS_OK)
        status = frame_load(&rows, in->analysis, &query, err);
    if (status == RS_OK && !rows.count)
        status = rs_err_set(err, RS_NOTFOUND, "StepTraceTime of %s is empty",
                            rs_ascend_db_path(in->analysis));
    for (size_t i = 0; i < rows.count && status == RS_OK; i++) {
        const union frame_cell *cells = frame_row(&rows, i);
        if (!wants(run, cells[0].i))
            continue;
        union frame_cell *row = step_row(steps, in->of->rank, cells[0].i);
        if (!row)
            status = rs_err_set(err, RS_NOMEM, "no memory for steps");
        for (size_t c = 0; row && c < 5; c++)
            row[COMPUTING + c].r = cells[1 + c].r;
    }
    frame_fini(&rows);
    return status;
}

/* A join that gives "s.id" when the database has steps. */
struct step_join {
    const char *field, *join;
    char text[160];
};

static struct step_join join_steps(const struct inputs *in, const char *time)
{
    struct step_join join = {.field = "-1", .join = ""};
    if (rs_ascend_db_has_column(in->profiler, "STEP_TIME", "startNs")) {
        join.field = "s.id";
        (void)snprintf(join.text, sizeof join.text,
                       "LEFT JOIN STEP_TIME s ON %s >= s.startNs AND %s <= s.endNs", time, time);
    }
    return join;
}

static const char *api_join(const struct run *run, const struct inputs *in, const char *table)
{
    if (!rs_ascend_db_has_column(in->profiler, "CANN_API", "connectionId") ||
        !rs_ascend_db_has_column(in->profiler, table, "connectionId"))
        return NULL;
    return run->options->compat ? "JOIN" : "LEFT JOIN";
}

static enum rs_status read_ops(struct run *run, const struct inputs *in, struct frame *ops,
                               struct rs_err *err)
{
    const char *how = api_join(run, in, "COMMUNICATION_OP");
    const char *time = how ? "coalesce(a.startNs, c.startNs)" : "c.startNs";
    const struct step_join steps = join_steps(in, time);
    const bool has_id = rs_ascend_db_has_column(in->profiler, "COMMUNICATION_OP", "opId");
    const int64_t params[] = {in->from, in->to, in->of->rank};
    char sql[1024];
    enum rs_status status = db_requires(in->profiler,
                                        "COMMUNICATION_OP.groupName COMMUNICATION_OP.opName "
                                        "COMMUNICATION_OP.startNs STRING_IDS.value",
                                        NULL);
    if (status != RS_OK)
        return RS_OK; /* a rank that communicates nothing has steps all the same */
    (void)snprintf(sql, sizeof sql,
                   "SELECT g.value, n.value, %s, ?3, (c.endNs - c.startNs) / 1000.0, %s "
                   "FROM COMMUNICATION_OP c JOIN STRING_IDS g ON g.id = c.groupName "
                   "JOIN STRING_IDS n ON n.id = c.opName %s %s %s "
                   "WHERE %s >= ?1 AND %s <= ?2",
                   steps.field, has_id ? "c.opId" : "c.rowid", how ? how : "",
                   how ? "CANN_API a ON a.connectionId = c.connectionId" : "", steps.text, time,
                   time);
    const struct frame_query query = {.sql = sql, .params = params, .param_count = 3};
    return frame_load(ops, in->profiler, &query, err);
}

/* Gives a send and its receive one name, "p2p a b k", so that they meet. */
static enum rs_status rename_pairs(struct run *run, const struct inputs *in, struct frame *ops,
                                   struct rs_err *err)
{
    struct pair_list pairs;
    const enum rs_status found = pair_list_read(run, in, &pairs, err);
    enum rs_status status = RS_OK;
    if (found == RS_NOTFOUND)
        return RS_OK;
    if (found != RS_OK)
        return found;
    /* both come in order of their tables; look an operation up by its number */
    struct frame_order order;
    status = frame_order(ops, (char[]){O_ID + 1, 0}, &order);
    for (size_t i = 0; i < pairs.count && status == RS_OK; i++) {
        const struct pair_op *op = &pairs.ops[i];
        char name[100];
        rs_str id;
        size_t low = 0, high = order.count;
        while (low < high) {
            const size_t middle = low + (high - low) / 2;
            if (frame_row(ops, order.rows[middle])[O_ID].i < op->op_row)
                low = middle + 1;
            else
                high = middle;
        }
        (void)snprintf(name, sizeof name, "p2p %" PRId64 " %" PRId64 " %" PRId64, op->src, op->dst,
                       op->number);
        status = frame_text_id(ops, name, &id);
        for (; low < order.count && status == RS_OK &&
               frame_row(ops, order.rows[low])[O_ID].i == op->op_row;
             low++)
            ops->cells[order.rows[low] * ops->columns + O_NAME].t = id;
    }
    frame_order_fini(&order);
    pair_list_fini(&pairs);
    return status == RS_OK ? RS_OK : rs_err_set(err, status, "no memory for pairs");
}

/* ---- memory ---- */

static enum rs_status read_work(struct run *run, const struct inputs *in, struct frame *work,
                                struct rs_err *err)
{
    const char *task_how = api_join(run, in, "TASK"),
               *op_how = api_join(run, in, "COMMUNICATION_OP");
    const struct step_join steps = join_steps(in, "w.t");
    const int64_t params[] = {in->from, in->to};
    struct rs_buf sql = {0};
    if (db_requires(in->profiler, "TASK.startNs TASK.taskType STRING_IDS.value", NULL) != RS_OK)
        return RS_OK;
    rs_buf_printf(&sql, "SELECT w.a, w.b, w.y, %s FROM (", steps.field);
    if (rs_ascend_db_has_column(in->profiler, "COMPUTE_TASK_INFO", "globalTaskId"))
        rs_buf_printf(&sql,
                      "SELECT TASK.startNs a, TASK.endNs b, %s t, 0 y FROM COMPUTE_TASK_INFO c "
                      "JOIN TASK ON TASK.globalTaskId = c.globalTaskId AND "
                      "TASK.startNs <> TASK.endNs %s %s UNION ALL ",
                      task_how ? "coalesce(p.startNs, TASK.startNs)" : "TASK.startNs",
                      task_how ? task_how : "",
                      task_how ? "CANN_API p ON p.connectionId = TASK.connectionId" : "");
    if (rs_ascend_db_has_column(in->profiler, "COMMUNICATION_OP", "startNs"))
        rs_buf_printf(&sql,
                      "SELECT o.startNs a, o.endNs b, %s t, 1 y FROM COMMUNICATION_OP o %s %s "
                      "UNION ALL ",
                      op_how ? "coalesce(p.startNs, o.startNs)" : "o.startNs", op_how ? op_how : "",
                      op_how ? "CANN_API p ON p.connectionId = o.connectionId" : "");
    rs_buf_printf(&sql,
                  "SELECT startNs a, endNs b, startNs t, 4 y FROM TASK WHERE taskType = "
                  "(SELECT id FROM STRING_IDS WHERE value = 'MEMCPY_ASYNC')) w %s "
                  "WHERE w.t >= ?1 AND w.t <= ?2 ORDER BY w.a, w.b",
                  steps.text);
    const struct frame_query query = {.sql = rs_buf_text(&sql), .params = params, .param_count = 2};
    const enum rs_status status = sql.failed ? rs_err_set(err, RS_NOMEM, "no memory for a query")
                                             : frame_load(work, in->profiler, &query, err);
    rs_buf_fini(&sql);
    return status;
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

static enum rs_status fill_memory(struct run *run, const struct inputs *in, struct frame *steps,
                                  struct rs_err *err)
{
    struct frame work;
    struct frame_order order = {0};
    enum rs_status status = frame_init(&work, WORK_KINDS);
    if (status == RS_OK)
        status = read_work(run, in, &work, err);
    if (status == RS_OK)
        status = frame_order(&work, (char[]){W_STEP + 1, 0}, &order);
    for (size_t at = 0, end = 0; status == RS_OK && at < order.count; at = end) {
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
        if (!has_memory || step == RS_NULL || !wants(run, step))
            continue;
        union frame_cell *row = step_row(steps, in->of->rank, step);
        if (!row) {
            status = rs_err_set(err, RS_NOMEM, "no memory for steps");
            break;
        }
        row[MEMORY].r = (double)memory / 1000.0;
        row[BARE].r = (double)bare_memory(&work, &order, at, end) / 1000.0;
    }
    frame_order_fini(&order);
    frame_fini(&work);
    return status;
}

static enum rs_status map(struct run *run, const struct inputs *in, void **part_p,
                          struct rs_err *err)
{
    struct part *part = rs_mem_calloc(1, sizeof *part);
    if (!part)
        return rs_err_set(err, RS_NOMEM, "no memory for steps");
    enum rs_status status = frame_init(&part->steps, STEP_KINDS);
    if (status == RS_OK)
        status = frame_init(&part->ops, OP_KINDS);
    if (status == RS_OK)
        status = read_step_times(run, in, &part->steps, err);
    if (status == RS_OK)
        status = read_trace(run, in, &part->steps, err);
    if (status == RS_OK)
        status = read_ops(run, in, &part->ops, err);
    if (status == RS_OK && !run->options->compat)
        status = rename_pairs(run, in, &part->ops, err);
    if (status == RS_OK)
        status = fill_memory(run, in, &part->steps, err);
    if (status != RS_OK) {
        drop(part);
        return status;
    }
    *part_p = part;
    return RS_OK;
}

static enum rs_status reduce(struct run *run, const struct recipe_rank *rank, void *data,
                             struct rs_err *err)
{
    struct state *state = run->state;
    struct part *part = data;
    enum rs_status status = frame_append(&state->steps, &part->steps);
    if (status == RS_OK)
        status = frame_append(&state->ops, &part->ops);
    state->ranks_with_ops += part->ops.count != 0;
    return status == RS_OK
               ? RS_OK
               : rs_err_set(err, status, "no memory for the steps of rank %" PRId64, rank->rank);
}

/* ---- transmit and wait ---- */

/* O_ID of each row becomes the row with the least time of its operation. */
static enum rs_status find_least(struct frame *ops)
{
    struct frame_order order;
    const enum rs_status status =
        frame_order(ops, (char[]){O_GROUP + 1, O_NAME + 1, O_STEP + 1, 0}, &order);
    if (status != RS_OK)
        return status;
    for (size_t at = 0, end = 0; at < order.count; at = end) {
        uint32_t least = order.rows[at];
        end = frame_group_end(ops, &order, at);
        for (size_t i = at; i < end; i++)
            if (frame_row(ops, order.rows[i])[O_TIME].r < frame_row(ops, least)[O_TIME].r)
                least = order.rows[i];
        for (size_t i = at; i < end; i++)
            ops->cells[order.rows[i] * ops->columns + O_ID].i = least;
    }
    frame_order_fini(&order);
    return RS_OK;
}

struct split {
    double wait, transmit;
};

/* Order of `by_step`: (rank, step). The sums of one of its groups, 0 when the step is not there. */
static struct split split_of(const struct frame *ops, const struct frame_order *by_step,
                             int64_t rank, int64_t step)
{
    struct stats_sum wait = {0, 0}, transmit = {0, 0};
    size_t low = 0, high = by_step->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const union frame_cell *row = frame_row(ops, by_step->rows[middle]);
        if (row[O_RANK].i < rank || (row[O_RANK].i == rank && row[O_STEP].i < step))
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < by_step->count; low++) {
        const union frame_cell *row = frame_row(ops, by_step->rows[low]);
        if (row[O_RANK].i != rank || row[O_STEP].i != step)
            break;
        const double least = frame_row(ops, (size_t)row[O_ID].i)[O_TIME].r;
        stats_add(&wait, row[O_TIME].r - least);
        stats_add(&transmit, least);
    }
    return (struct split){wait.sum, transmit.sum};
}

static double or_zero(double value)
{
    return isnan(value) ? 0 : value;
}

static enum rs_status write_steps(struct run *run, const struct table *table, struct rs_err *err)
{
    struct state *state = run->state;
    struct frame_order order = {0}, by_step = {0};
    enum rs_status status = find_least(&state->ops);
    if (status == RS_OK)
        status = frame_order(&state->ops, (char[]){O_RANK + 1, O_STEP + 1, 0}, &by_step);
    if (status == RS_OK)
        status = frame_order(&state->steps, (char[]){RANK + 1, STEP + 1, 0}, &order);
    if (status != RS_OK)
        (void)rs_err_set(err, status, "no memory to sort steps");
    else
        status = table_begin(run, table, err);
    for (size_t i = 0; i < order.count && status == RS_OK; i++) {
        const union frame_cell *row = frame_row(&state->steps, order.rows[i]);
        struct split split = split_of(&state->ops, &by_step, row[RANK].i, row[STEP].i);
        const double whole = row[COMPUTING].r + row[EXPOSED].r + row[FREE].r;
        if (state->ranks_with_ops <= 1)
            split = (struct split){0, 0};
        const struct cell cells[] = {
            cell_int(row[RANK].i),
            cell_int(row[STEP].i),
            cell_real(or_zero(isnan(row[STEP_US].r) ? whole : row[STEP_US].r)),
            cell_real(or_zero(row[COMPUTING].r)),
            cell_real(or_zero(row[EXPOSED].r)),
            cell_real(or_zero(row[OVERLAPPED].r)),
            cell_real(or_zero(row[COMMUNICATION].r)),
            cell_real(or_zero(row[FREE].r) - or_zero(row[BARE].r)),
            cell_real(split.wait),
            cell_real(split.transmit),
            cell_real(or_zero(row[MEMORY].r)),
            cell_real(or_zero(row[BARE].r))};
        status = table_row(run, cells, err);
    }
    frame_order_fini(&order);
    frame_order_fini(&by_step);
    return status == RS_OK ? table_end(run, err) : status;
}

static enum rs_status finish(struct run *run, struct rs_err *err)
{
    static const struct column columns[] = {
        {"rank", 'i', "Rank"},
        {"step", 'i', "Step"},
        {"stepTime", 'r', "Step Time(us)"},
        {"computation", 'r', "Computation(us)"},
        {"communicationNotOverlapComputation", 'r', "Communication Not Overlap Computation(us)"},
        {"communicationOverlapComputation", 'r', "Communication Overlap Computation(us)"},
        {"communication", 'r', "Communication(us)"},
        {"free", 'r', "Free(us)"},
        {"communicationWaitStageTime", 'r', "Communication Wait Stage Time(us)"},
        {"communicationTransmitStageTime", 'r', "Communication Transmit Stage Time(us)"},
        {"memory", 'r', "Memory(us)"},
        {"memoryNotOverlapComputationCommunication", 'r',
         "Memory Not Overlap Computation Communication(us)"}};
    static const struct table table = {
        "ClusterTimeSummary", "cluster_time_summary.csv", columns, COLUMN_COUNT(columns), 0, false};
    return write_steps(run, &table, err);
}

static void stop(struct run *run)
{
    struct state *state = run->state;
    frame_fini(&state->steps);
    frame_fini(&state->ops);
}

const struct recipe recipe_cluster_time_summary = {
    .info = {"cluster_time_summary", "where each rank's steps went, wait and transmit apart",
             "ClusterTimeSummary"},
    .folder = "ClusterTimeSummary",
    .needs = NEED_PROFILER | NEED_ANALYSIS,
    .state_bytes = sizeof(struct state),
    .start = start,
    .map = map,
    .reduce = reduce,
    .finish = finish,
    .drop = drop,
    .stop = stop,
};
