/* SPDX-License-Identifier: Apache-2.0 */
/*
 * communication_bottleneck: for the longest communication operations of one rank, who was late and why.
 *
 * Peer: the --top-num longest operations of --rank-id; for each the row of the same name in every rank,
 * whatever its group; the longest is the fast rank's, the shortest the slow rank's. Below 5 % of
 * difference nobody is slow (its text says 0.05 %). Else, with the ends as one clock: tasks of
 * the slow rank from the fast rank's start on, joined to their node@launch and framework calls; more than half of
 * them waiting 100 us longer on the device than on the host is device-bound, else host-bound. Then both
 * ranks are walked backwards in time, equal names matched, until they started within 1 ms of each
 * other: the pair with the largest difference in duration and the one with the largest in start.
 *
 * Corrected: rows are compared within the group; a send is compared with its receive, since they
 * have different names; the text says 5%.
 */
#include "ascend/recipe/recipe_priv.h"

#include <inttypes.h>
#include <stdio.h>

enum { TOPS, PAIRS, ROWS, TASKS }; /* frames */

/* clang-format off */

/* Operations of the rank that is asked about. */
static const char tops_sql[] =
    "SELECT place, start, end, name, communicator, coalesce(src, -1), coalesce(dst, -1), coalesce(number, -1), "
    "coalesce(is_receive, 0) FROM (SELECT row_number() OVER () - 1 AS place, * FROM (SELECT c.startNs AS start, "
    "c.endNs AS end, n.value AS name, g.value AS communicator, c.opId AS id FROM COMMUNICATION_OP c JOIN STRING_IDS "
    "n ON n.id = c.opName LEFT JOIN STRING_IDS g ON g.id = c.groupName WHERE c.startNs >= :from AND c.endNs <= :to "
    "ORDER BY c.endNs - c.startNs DESC LIMIT :top)) LEFT JOIN (SELECT op, src, dst, number, is_receive FROM pairs) "
    "ON op = id";

#define C_IS_SPAN IS_SPAN("c.startNs", "c.endNs")
/* Their rows in each rank: the first one of the name, in its communicator, then the other end of a transfer. */
static const char rows_sql[] =
    "SELECT place, :rank, start, end FROM (SELECT t.place, c.startNs AS start, c.endNs AS end, row_number() OVER "
    "(PARTITION BY t.place ORDER BY c.startNs) AS n FROM tops t JOIN STRING_IDS s ON s.value = t.name JOIN "
    "COMMUNICATION_OP c ON c.opName = s.id LEFT JOIN STRING_IDS g ON g.id = c.groupName WHERE coalesce(g.value, '') "
    "= coalesce(t.communicator, '') AND " C_IS_SPAN ") WHERE n = 1 UNION ALL "
    "SELECT t.place, :rank, c.startNs, c.endNs FROM pairs p JOIN tops t ON t.number = p.number AND t.src = p.src "
    "AND t.dst = p.dst AND t.is_receive <> p.is_receive AND t.communicator = p.communicator JOIN COMMUNICATION_OP c "
    "ON c.opId = p.op AND " C_IS_SPAN;
static const char rows_compat_sql[] =
    "SELECT t.place, :rank, c.startNs, c.endNs FROM tops t JOIN STRING_IDS n ON n.value = t.name JOIN "
    "COMMUNICATION_OP c ON c.opName = n.id WHERE " C_IS_SPAN "GROUP BY t.place";

/* Who the operation's slow and fast rank are; where there is nothing to explain, the reason. */
static const char contests_sql[] =
    "WITH r AS MATERIALIZED (SELECT top, rank, start, end, end - start AS ns, row_number() OVER (PARTITION BY top "
    "ORDER BY end - start DESC, rows.rowid) AS fast, row_number() OVER (PARTITION BY top ORDER BY end - start, "
    "rows.rowid DESC) AS slow FROM rows) "
    "SELECT place, s.rank, f.rank, s.start, s.end, f.start, f.end - s.end, CASE WHEN f.rank IS NULL THEN '[Failed] "
    "No data found for the communication operator' WHEN f.ns <= 0 OR CAST(f.ns - s.ns AS REAL) / f.ns < 0.05 THEN "
    "'[Completed] No slow NPU detected: execution time difference is less than ' || iif(:compat, '0.05%', '5%') END "
    "FROM tops LEFT JOIN r f ON f.top = place AND f.fast = 1 LEFT JOIN r s ON s.top = place AND s.slow = 1 ORDER BY "
    "place";

/* ---- why ---- */

#define TASK_SQL(columns, from) \
    "SELECT :number, " columns " FROM " from " WHERE TASK.startNs >= 0 AND TASK.endNs <= :to "
static const char *const device_queries[] = {
    TASK_SQL("TASK.startNs, TASK.endNs - TASK.startNs, n.value",
             "TASK JOIN COMPUTE_TASK_INFO c ON TASK.globalTaskId = "
             "c.globalTaskId JOIN STRING_IDS n ON n.id = c.name") "ORDER BY TASK.startNs DESC",
    TASK_SQL(
        "min(TASK.startNs), max(TASK.endNs) - min(TASK.startNs), n.value",
        "TASK JOIN COMMUNICATION_TASK_INFO c ON "
        "TASK.globalTaskId = c.globalTaskId JOIN STRING_IDS n ON n.id = c.name") "GROUP BY n.value ORDER BY 2 DESC",
    TASK_SQL(
        "TASK.startNs, TASK.endNs - TASK.startNs, n.value",
        "TASK JOIN STRING_IDS n ON n.id = TASK.taskType") "AND lower(n.value) LIKE '%memcpy%' ORDER BY TASK.startNs DESC",
    NULL};
static const char *const torch_queries[] = {
    "SELECT :number, CAST(p.startNs AS INTEGER), p.endNs - p.startNs, n.value FROM PYTORCH_API p "
    "JOIN STRING_IDS n ON n.id = p.name WHERE CAST(p.endNs AS INTEGER) <= :to AND n.value LIKE '%::%' "
    "ORDER BY CAST(p.startNs AS INTEGER) DESC",
    NULL};
static const char *const cann_queries[] = {
    "SELECT :number, a.startNs, a.endNs - a.startNs, e.name || '@' || n.value FROM CANN_API a "
    "JOIN STRING_IDS n ON n.id = a.name JOIN ENUM_API_TYPE e ON e.id = a.type WHERE a.startNs >= 0 AND a.endNs <= :to "
    "ORDER BY a.startNs DESC",
    NULL};
/* How many launches there are, and how many wait 100 us longer on the device than on the host. */
static const char *const launch_queries[] = {
    "SELECT 0, count(*), sum(TASK.startNs - a.endNs - (a.startNs - CAST(p.endNs AS INTEGER)) > 100000), NULL FROM TASK "
    "JOIN CANN_API a ON TASK.connectionId = a.connectionId JOIN CONNECTION_IDS k ON k.connectionId = TASK.connectionId "
    "JOIN PYTORCH_API p ON k.id = p.connectionId JOIN ENUM_API_TYPE e ON a.type = e.id JOIN STRING_IDS n ON n.id = a.name "
    "WHERE TASK.startNs > :from AND TASK.endNs < :to AND e.name = 'node' AND n.value = 'launch'",
    NULL};

/* Both ranks walked backwards, equal names matched, until they started within 1 ms of each other; :rank is the fast one's clock
 * minus the slow one's. No answer: they never did. */
#define US(ns) "number_text(round_even(" ns " * 0.001, 3))"
#define LARGEST(of) "(SELECT name, " of " FROM walk WHERE late IS NOT NULL ORDER BY " of " DESC, i LIMIT 1)"
static const char walk_sql[] =
    "DROP TABLE IF EXISTS temp.fast; "
    "CREATE TEMP TABLE fast AS SELECT start, duration, name FROM tasks WHERE side ORDER BY start DESC, tasks.rowid; "
    "CREATE INDEX temp.fast_name ON fast (name); "
    "WITH RECURSIVE slow AS MATERIALIZED (SELECT row_number() OVER (ORDER BY start DESC, tasks.rowid) AS turn, "
    "start, duration, name FROM tasks WHERE NOT side), "
    "walk (i, at, late, longer, name, is_done) AS MATERIALIZED (SELECT 0, 0, NULL, NULL, NULL, 0 UNION ALL "
    "SELECT i + 1, coalesce(f.rowid, at), s.start - f.start + :rank, s.duration - f.duration, s.name, s.start - "
    "f.start + :rank < 1000000 FROM walk JOIN slow s ON turn = i + 1 LEFT JOIN fast f ON f.rowid = (SELECT "
    "min(rowid) FROM fast WHERE fast.name = s.name AND fast.rowid > at) WHERE is_done IS NOT 1) "
    "SELECT ': max duration-diff op ' || d.name || ', diff ' || " US("longer") " || ' us, max start-time-diff op ' "
    "|| l.name || ', diff ' || " US("late") " || ' us.' FROM " LARGEST("longer") " d JOIN " LARGEST("late")
    " l WHERE (SELECT max(is_done) FROM walk)";
/* clang-format on */

static const struct recipe_rank *find_rank(const struct run *run, int64_t rank)
{
    for (size_t i = 0; i < run->rank_count; i++)
        if (run->ranks[i].rank == rank)
            return &run->ranks[i];
    return NULL;
}

static void read_tops(struct inputs *in, struct frame *tops)
{
    struct frame pairs;
    struct frame_table table = {.columns = PAIR_COLUMNS, .frame = &pairs};
    in_require(in, in->profiler,
               "COMMUNICATION_OP.opName COMMUNICATION_OP.groupName COMMUNICATION_OP.opId "
               "COMMUNICATION_OP.startNs STRING_IDS.value");
    if (frame_init(&pairs, PAIR_COLUMNS) != RS_OK ||
        select_frame(rs_ascend_db_sqlite(in->profiler), "pairs", &table) != 0)
        in_fail(in, RS_NOMEM, "no memory for operations");
    if (!in->run->options->compat && in_has(in, PAIR_TABLES))
        in_load(in, &pairs, in->profiler, pairs_sql);
    in_load(in, tops, in->profiler, tops_sql);
    if (!tops->count)
        in_fail(in, RS_NOTFOUND, "%s has no communication operations",
                rs_ascend_db_path(in->profiler));
    frame_fini(&pairs);
}

static enum rs_status start(struct run *run, struct rs_err *err)
{
    struct inputs in;
    const struct recipe_rank *target = find_rank(run, run->options->rank_id);
    if (!target)
        return rs_err_set(err, RS_INVALID, "rank %" PRId64 " (--rank-id) is not among the results",
                          run->options->rank_id);
    const enum rs_status status = inputs_open(run, target, &in, err);
    if (status != RS_OK)
        return status;
    read_tops(&in, &run->frames[TOPS]);
    inputs_close(&in);
    return in.status == RS_OK ? RS_OK : rs_err_set(err, in.status, "%s", in.err.text);
}

static void take_tops(struct inputs *in, struct frame *tops)
{
    tops->failed = frame_append(tops, &in->run->frames[TOPS]) != RS_OK;
}

/* A row of contests_sql, and what its two ranks have to say. */
enum { C_PLACE, C_SLOW, C_FAST, C_SLOW_START, C_SLOW_END, C_FAST_START, C_SHIFT, C_REASON };
struct contest {
    struct run *run;
    const union frame_cell *row;
    enum rs_status status; /* the first failure */
    struct rs_err err;
};

/* Adds a rank's answers to the run's tasks; :from, :to and, as :number, the side. */
static void ask(struct contest *contest, int64_t rank, const int64_t bound[3],
                const char *const *queries)
{
    struct inputs in;
    if (contest->status == RS_OK)
        contest->status =
            inputs_open(contest->run, find_rank(contest->run, rank), &in, &contest->err);
    if (contest->status != RS_OK)
        return;
    in.from = bound[0];
    in.to = bound[1];
    in.number = bound[2];
    for (; *queries; queries++)
        in_load(&in, &contest->run->frames[TASKS], in.profiler, *queries);
    inputs_close(&in);
    contest->status = in.status;
    contest->err = in.err;
}

static void forget_tasks(struct run *run)
{
    select_forget(&run->tables[TASKS]);
    run->frames[TASKS].count = 0;
}

/* One level's summary; false: the ranks never were aligned. */
static bool summarise(struct contest *contest, const char *level, const char *const *queries,
                      struct rs_buf *reason)
{
    const union frame_cell *row = contest->row;
    struct rs_buf text = {0};
    forget_tasks(contest->run);
    ask(contest, row[C_SLOW].i, (int64_t[]){0, row[C_SLOW_START].i, 0}, queries);
    ask(contest, row[C_FAST].i, (int64_t[]){0, row[C_FAST_START].i, 1}, queries);
    if (contest->status == RS_OK)
        contest->status = result_text(contest->run, walk_sql, row[C_SHIFT].i, &text, &contest->err);
    const bool is_found = text.length != 0;
    if (is_found)
        rs_buf_printf(reason, "%s%s", level, rs_buf_text(&text));
    rs_buf_fini(&text);
    return is_found;
}

static void explain(struct contest *contest, struct rs_buf *reason)
{
    static const char apart[] =
        " Tasks are not aligned between slow and fast NPU from the beginning";
    const union frame_cell *row = contest->row;
    const struct frame *tasks = &contest->run->frames[TASKS];
    forget_tasks(contest->run);
    ask(contest, row[C_SLOW].i,
        (int64_t[]){row[C_FAST_START].i - row[C_SHIFT].i, row[C_SLOW_END].i, 0}, launch_queries);
    const int64_t launches = tasks->count ? frame_row(tasks, 0)[1].i : 0;
    if (!launches)
        return;
    const bool is_device = frame_row(tasks, 0)[2].i * 2 > launches;
    rs_buf_string(reason, is_device ? "[Device-bound]" : "[Host-bound]");
    if (is_device) {
        if (!summarise(contest, "Device", device_queries, reason))
            rs_buf_string(reason, apart);
        return;
    }
    rs_buf_u8(reason, ' ');
    if (!summarise(contest, "PyTorch", torch_queries, reason)) {
        reason->length--;
        rs_buf_string(reason, apart);
        return;
    }
    const size_t length = reason->length;
    rs_buf_string(reason, " | ");
    if (!summarise(contest, "CANN", cann_queries, reason))
        reason->length = length;
}

/* Why the slow rank was, into the row. */
static enum rs_status decide(struct run *run, struct frame *contests, union frame_cell *row,
                             struct rs_err *err)
{
    struct contest contest = {.run = run, .row = row};
    struct rs_buf reason = {0};
    explain(&contest, &reason);
    if (contest.status == RS_NOMEM || reason.failed)
        return rs_err_set(err, RS_NOMEM, "no memory for decisions");
    if (contest.status != RS_OK) /* tables for the why are missing or broken: the who stands */
        run_add_problem(run, row[C_SLOW].i, true, "%s",
                        contest.err.text[0] ? contest.err.text : rs_status_text(contest.status));
    row[C_REASON].t = frame_str(contests, contest.status == RS_OK && reason.length
                                              ? rs_buf_text(&reason)
                                              : "[Failed] Insufficient data for analyzing slow "
                                                "NPU bottleneck");
    rs_buf_fini(&reason);
    return RS_OK;
}

/* As a data frame types ranks: all there, with gaps, none at all. */
#define RESULT_OF(kind, condition)                                                                  \
    {                                                                                               \
        .name = "CommunicationBottleneck", .file = "communication_bottleneck.csv",                  \
        .columns =                                                                                  \
            "startTime(us):t=Start Time(us)|endTime(us):t=End Time(us)|"                            \
            "duration(us):r=Duration(us)|communicationOp:t=Communication Op|"                       \
            "slowRankId:" kind "=Slow Rank ID|fastRankId:" kind "=Fast Rank ID|reason:t=Reason",    \
        .sql = "SELECT us_text(start), us_text(end), round_even((end - start) * 0.001, 3), name, "  \
               "slow, fast, reason FROM tops JOIN contests USING (place) ORDER BY place",           \
        .when =                                                                                     \
            "SELECT 1 FROM (SELECT count(*) AS n, count(slow) AS k FROM contests) WHERE " condition \
    }
static const struct result contests_result = {
    .name = "contests",
    .columns = "place:i slow:i fast:i slow_start:i slow_end:i fast_start:i shift:i reason:t",
    .is_rows = true,
    .sql = contests_sql};
static const struct result results[] = {RESULT_OF("i", "k = n"), RESULT_OF("r", "k AND k < n"),
                                        RESULT_OF("t", "NOT k")};

static enum rs_status finish(struct run *run, struct rs_err *err)
{
    struct frame *contests = NULL;
    enum rs_status status = result_rows(run, &contests_result, &contests, err);
    for (size_t i = 0; status == RS_OK && i < contests->count; i++) {
        union frame_cell *row = frame_at(contests, i);
        if (row[C_REASON].t == RS_STR_NONE)
            status = decide(run, contests, row, err);
        else
            row[C_SLOW].i = row[C_FAST].i = RS_NULL;
    }
    return status == RS_OK ? frames_finish(run, err) : status;
}

const struct recipe recipe_communication_bottleneck = {
    .info = {"communication_bottleneck",
             "who was late to the longest communication operations of a rank, and why",
             "CommunicationBottleneck"},
    .folder = "CommunicatonBottleneckAnalysis", /* so spelled by the peer */
    .needs = NEED_PROFILER,
    .top = 10,
    .optional = "CANN_API(name,type,startNs,endNs;connectionId) CONNECTION_IDS(id,connectionId) "
                "COMMUNICATION_OP(opName,groupName,startNs,endNs,opId;connectionId) "
                "PYTORCH_API(connectionId,name,startNs,endNs) ENUM_API_TYPE(id,name)",
    .frames = {{.name = "tops",
                .columns = "place:i start:i end:i name:t communicator:t src:i dst:i number:i "
                           "is_receive:i",
                .requires = "COMMUNICATION_OP.opName COMMUNICATION_OP.groupName STRING_IDS.value",
                .before = take_tops,
                .is_passing = true},
               FRAME_PAIRS(PAIRS_OPTIONAL, .compat_sql = "", .is_passing = true),
               {.name = "rows",
                .columns = "top:i rank:i start:i end:i",
                .sql = rows_sql,
                .compat_sql = rows_compat_sql},
               {.name = "tasks", .columns = "side:i start:i duration:i name:t"}},
    RESULTS(results),
    .start = start,
    .finish = finish,
};
