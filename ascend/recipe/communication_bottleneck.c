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
#include "common/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Operations of the rank that is asked about, sends and receives in them, and their rows in all ranks. */
enum { TOPS, PAIRS, ROWS };
enum { T_PLACE, T_START, T_END, T_NAME, T_SLOW = 9, T_FAST, T_REASON };
enum { R_TOP, R_RANK, R_START, R_END };
/* Tasks of both ranks, in one frame so that names are one set. */
enum { S_SIDE, S_START, S_DURATION, S_NAME };
#define TASK_KINDS "iiit"

enum { WAIT_NS = 100000, ALIGNED_NS = 1000000, REASON_BYTES = 2048 };
#define SAME 0.05

static const char tops_sql[] =
    "SELECT place, start, end, name, communicator, coalesce(src, -1), coalesce(dst, -1), "
    "coalesce(number, -1), coalesce(is_receive, 0), NULL, NULL, NULL "
    "FROM (SELECT row_number() OVER () - 1 AS place, * FROM (SELECT c.startNs AS start, "
    "c.endNs AS end, n.value AS name, g.value AS communicator, c.opId AS id "
    "FROM COMMUNICATION_OP c JOIN STRING_IDS n ON n.id = c.opName "
    "LEFT JOIN STRING_IDS g ON g.id = c.groupName WHERE c.startNs >= :from AND c.endNs <= :to "
    "ORDER BY c.endNs - c.startNs DESC LIMIT :top)) "
    "LEFT JOIN (SELECT op, src, dst, number, is_receive FROM pairs) ON op = id";

#define C_IS_SPAN IS_SPAN("c.startNs", "c.endNs")

/* In each rank the first row of the operation's name, in its communicator. */
static const char same_name_sql[] =
    "SELECT place, :rank, start, end FROM (SELECT t.place, c.startNs AS start, c.endNs AS end, "
    "row_number() OVER (PARTITION BY t.place ORDER BY c.startNs) AS n FROM tops t "
    "JOIN STRING_IDS s ON s.value = t.name JOIN COMMUNICATION_OP c ON c.opName = s.id "
    "LEFT JOIN STRING_IDS g ON g.id = c.groupName "
    "WHERE coalesce(g.value, '') = coalesce(t.communicator, '') AND " C_IS_SPAN
    ") WHERE n = 1 ORDER BY place";
static const char same_name_compat_sql[] =
    "SELECT :number, :rank, c.startNs, c.endNs FROM COMMUNICATION_OP c "
    "JOIN STRING_IDS n ON c.opName = n.id WHERE n.value = :text AND " C_IS_SPAN "GROUP BY n.value";
/* The other end of each transfer. */
static const char partners_sql[] =
    "SELECT t.place, :rank, c.startNs, c.endNs FROM pairs p JOIN tops t ON t.number = p.number AND "
    "t.src = p.src AND t.dst = p.dst AND t.is_receive <> p.is_receive AND "
    "t.communicator = p.communicator JOIN COMMUNICATION_OP c ON c.opId = p.op AND " C_IS_SPAN
    "ORDER BY p.rowid, t.place";

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

static void fill(struct inputs *in, struct frame *frames)
{
    const struct frame *tops = &frames[TOPS];
    frames[TOPS].failed = frame_append(&frames[TOPS], &in->run->frames[TOPS]) != RS_OK;
    if (!in->run->options->compat) {
        in_load(in, &frames[ROWS], in->profiler, same_name_sql);
        if (in_has(in, PAIR_TABLES))
            in_load(in, &frames[PAIRS], in->profiler, pairs_sql);
        in_load(in, &frames[ROWS], in->profiler, partners_sql);
        return;
    }
    for (size_t i = 0; i < tops->count; i++) {
        in->number = (int64_t)i;
        in->text = frame_text(tops, frame_row(tops, i)[T_NAME].t);
        in_load(in, &frames[ROWS], in->profiler, same_name_compat_sql);
    }
}

/* ---- why ---- */

struct contest {
    struct run *run;
    const union frame_cell *slow, *fast; /* rows */
    int64_t shift;                       /* fast's clock minus slow's */
    enum rs_status status;               /* the first failure */
    struct rs_err err;
};

struct window {
    int64_t from, to; /* :from and :to */
};

/* The answers of a row's rank. */
static void ask(struct contest *contest, const union frame_cell *row, int64_t side,
                struct window window, const char *const *queries, struct frame *answer)
{
    struct inputs in;
    if (contest->status != RS_OK)
        return;
    contest->status =
        inputs_open(contest->run, find_rank(contest->run, row[R_RANK].i), &in, &contest->err);
    if (contest->status != RS_OK)
        return;
    in.from = window.from;
    in.to = window.to;
    in.number = side;
    for (; *queries; queries++)
        in_load(&in, answer, in.profiler, *queries);
    inputs_close(&in);
    contest->status = in.status;
    contest->err = in.err;
}

struct widest {
    rs_str duration_name, start_name;
    int64_t duration, start;
    size_t matched;
    bool is_aligned;
};

static int by_late_start(const void *a, const void *b, void *data)
{
    const struct frame *tasks = data;
    const uint32_t p = *(const uint32_t *)a, q = *(const uint32_t *)b;
    const int64_t x = frame_row(tasks, p)[S_START].i, y = frame_row(tasks, q)[S_START].i;
    return x != y ? (x > y ? -1 : 1) : (p > q) - (p < q);
}

/* Places of a name on the fast side, ascending: next[i] is the next place with the name of i. */
struct places {
    uint32_t *first, *next; /* by name; by place */
};

static uint32_t place_from(struct places *places, rs_str name, uint32_t from)
{
    while (places->first[name] != UINT32_MAX && places->first[name] < from)
        places->first[name] = places->next[places->first[name]];
    return places->first[name];
}

static void match(const struct frame *tasks, const uint32_t *slow, size_t slow_count,
                  const uint32_t *fast, struct places *places, int64_t shift, struct widest *widest)
{
    uint32_t at = 0;
    for (size_t i = 0; i < slow_count && !widest->is_aligned; i++) {
        const union frame_cell *mine = frame_row(tasks, slow[i]);
        if (mine[S_NAME].t == RS_STR_NONE)
            continue;
        const uint32_t place = place_from(places, mine[S_NAME].t, at);
        if (place == UINT32_MAX)
            continue;
        const union frame_cell *theirs = frame_row(tasks, fast[place]);
        const int64_t late = mine[S_START].i - theirs[S_START].i + shift;
        const int64_t longer = mine[S_DURATION].i - theirs[S_DURATION].i;
        at = place + 1;
        if (!widest->matched || longer > widest->duration) {
            widest->duration = longer;
            widest->duration_name = mine[S_NAME].t;
        }
        if (!widest->matched || late > widest->start) {
            widest->start = late;
            widest->start_name = mine[S_NAME].t;
        }
        widest->matched++;
        widest->is_aligned = late < ALIGNED_NS;
    }
}

/* Walks both sides of `tasks` backwards. */
static enum rs_status walk_back(struct frame *tasks, int64_t shift, struct widest *widest)
{
    uint32_t *rows = rs_mem_calloc(tasks->count + 1, sizeof *rows);
    uint32_t *fast = rs_mem_calloc(tasks->count + 1, sizeof *fast);
    struct places places = {.first = rs_mem_calloc(tasks->texts.count, sizeof *places.first),
                            .next = rs_mem_calloc(tasks->count + 1, sizeof *places.next)};
    size_t slow_count = 0, fast_count = 0;
    *widest = (struct widest){0};
    const bool ok = rows && fast && places.first && places.next;
    if (ok) {
        for (size_t i = 0; i < tasks->count; i++)
            rows[i] = (uint32_t)i;
        qsort_r(rows, tasks->count, sizeof *rows, by_late_start, tasks);
        for (size_t i = 0; i < tasks->count; i++) {
            if (frame_row(tasks, rows[i])[S_SIDE].i)
                fast[fast_count++] = rows[i];
            else
                rows[slow_count++] = rows[i];
        }
        memset(places.first, 0xff, tasks->texts.count * sizeof *places.first);
        for (size_t i = fast_count; i-- > 0;) {
            const rs_str name = frame_row(tasks, fast[i])[S_NAME].t;
            if (name == RS_STR_NONE)
                continue;
            places.next[i] = places.first[name];
            places.first[name] = (uint32_t)i;
        }
        match(tasks, rows, slow_count, fast, &places, shift, widest);
    }
    rs_mem_free(rows);
    rs_mem_free(fast);
    rs_mem_free(places.first);
    rs_mem_free(places.next);
    return ok ? RS_OK : RS_NOMEM;
}

#define TASK_SQL(columns, from)                                                                    \
    "SELECT :number, " columns " FROM " from " WHERE TASK.startNs >= 0 AND TASK.endNs <= :to "

static const char *const device_queries[] = {
    TASK_SQL("TASK.startNs, TASK.endNs - TASK.startNs, n.value",
             "TASK JOIN COMPUTE_TASK_INFO c ON TASK.globalTaskId = c.globalTaskId "
             "JOIN STRING_IDS n ON n.id = c.name") "ORDER BY TASK.startNs DESC",
    TASK_SQL("min(TASK.startNs), max(TASK.endNs) - min(TASK.startNs), n.value",
             "TASK JOIN COMMUNICATION_TASK_INFO c ON TASK.globalTaskId = c.globalTaskId "
             "JOIN STRING_IDS n ON n.id = c.name") "GROUP BY n.value ORDER BY 2 DESC",
    TASK_SQL(
        "TASK.startNs, TASK.endNs - TASK.startNs, n.value",
        "TASK JOIN STRING_IDS n ON n.id = TASK.taskType") "AND lower(n.value) LIKE '%memcpy%' ORDER BY TASK.startNs DESC",
    NULL};

static const char *const torch_queries[] = {
    "SELECT :number, CAST(p.startNs AS INTEGER), p.endNs - p.startNs, n.value FROM PYTORCH_API p "
    "JOIN STRING_IDS n ON n.id = p.name WHERE CAST(p.endNs AS INTEGER) <= :to "
    "AND n.value LIKE '%::%' ORDER BY CAST(p.startNs AS INTEGER) DESC",
    NULL};

static const char *const cann_queries[] = {
    "SELECT :number, a.startNs, a.endNs - a.startNs, e.name || '@' || n.value FROM CANN_API a "
    "JOIN STRING_IDS n ON n.id = a.name JOIN ENUM_API_TYPE e ON e.id = a.type "
    "WHERE a.startNs >= 0 AND a.endNs <= :to ORDER BY a.startNs DESC",
    NULL};

/* Without these tables no launch is known. */
static const char launch_tables[] =
    "CONNECTION_IDS.id CONNECTION_IDS.connectionId PYTORCH_API.connectionId PYTORCH_API.endNs "
    "ENUM_API_TYPE.name CANN_API.connectionId";
static const char *const launch_queries[] = {
    "SELECT a.startNs - CAST(p.endNs AS INTEGER), TASK.startNs - a.endNs FROM TASK "
    "JOIN CANN_API a ON TASK.connectionId = a.connectionId "
    "JOIN CONNECTION_IDS k ON k.connectionId = TASK.connectionId "
    "JOIN PYTORCH_API p ON k.id = p.connectionId "
    "JOIN ENUM_API_TYPE e ON a.type = e.id JOIN STRING_IDS n ON n.id = a.name "
    "WHERE TASK.startNs > :from AND TASK.endNs < :to AND e.name = 'node' "
    "AND n.value = 'launch'",
    NULL};

/* One level's summary; false: the ranks never were aligned. */
static bool summarise(struct contest *contest, const char *level, const char *const *queries,
                      char text[REASON_BYTES / 2])
{
    struct frame tasks;
    struct widest widest = {0};
    if (contest->status == RS_OK)
        contest->status = frame_init(&tasks, TASK_KINDS);
    if (contest->status != RS_OK)
        return false;
    ask(contest, contest->slow, 0, (struct window){0, contest->slow[R_START].i}, queries, &tasks);
    ask(contest, contest->fast, 1, (struct window){0, contest->fast[R_START].i}, queries, &tasks);
    if (contest->status == RS_OK)
        contest->status = walk_back(&tasks, contest->shift, &widest);
    const bool is_found = contest->status == RS_OK && widest.matched && widest.is_aligned;
    if (is_found) {
        char longer[40], later[40];
        stats_print(stats_round((double)widest.duration * 0.001, 3), longer, sizeof longer);
        stats_print(stats_round((double)widest.start * 0.001, 3), later, sizeof later);
        (void)snprintf(text, REASON_BYTES / 2,
                       "%s: max duration-diff op %.300s, diff %s us, "
                       "max start-time-diff op %.300s, diff %s us.",
                       level, frame_text(&tasks, widest.duration_name), longer,
                       frame_text(&tasks, widest.start_name), later);
    }
    frame_fini(&tasks);
    return is_found;
}

/* More than half of the slow rank's launches waited on the device? *known_p false: no launches. */
static bool is_device_bound(struct contest *contest, bool *known_p)
{
    static const char *const none[] = {NULL};
    struct frame waits;
    size_t device = 0;
    struct inputs in;
    contest->status = inputs_open(contest->run, find_rank(contest->run, contest->slow[R_RANK].i),
                                  &in, &contest->err);
    if (contest->status != RS_OK)
        return false;
    const bool has_launches = in_has(&in, launch_tables);
    inputs_close(&in);
    contest->status = frame_init(&waits, "ii");
    const struct window window = {contest->fast[R_START].i - contest->shift,
                                  contest->slow[R_END].i};
    ask(contest, contest->slow, 0, window, has_launches ? launch_queries : none, &waits);
    for (size_t i = 0; i < waits.count; i++)
        device += frame_row(&waits, i)[1].i - frame_row(&waits, i)[0].i > WAIT_NS;
    *known_p = waits.count != 0;
    const bool is_most = waits.count && (double)device / (double)waits.count > 0.5;
    frame_fini(&waits);
    return is_most;
}

static const char not_enough[] = "[Failed] Insufficient data for analyzing slow NPU bottleneck";
static const char not_aligned[] =
    " Tasks are not aligned between slow and fast NPU from the beginning";

static void explain(struct contest *contest, char reason[REASON_BYTES])
{
    char text[REASON_BYTES / 2] = "", cann[REASON_BYTES / 2] = "";
    bool is_known = false;
    const bool is_device = is_device_bound(contest, &is_known);
    if (contest->status != RS_OK || !is_known) {
        (void)snprintf(reason, REASON_BYTES, "%s", not_enough);
        return;
    }
    if (is_device) {
        const bool is_found = summarise(contest, "Device", device_queries, text);
        (void)snprintf(reason, REASON_BYTES, "[Device-bound]%s", is_found ? text : not_aligned);
        return;
    }
    const bool has_torch = summarise(contest, "PyTorch", torch_queries, text);
    const bool has_cann = summarise(contest, "CANN", cann_queries, cann);
    if (has_torch)
        (void)snprintf(reason, REASON_BYTES, "[Host-bound] %.900s%s%.900s", text,
                       has_cann ? " | " : "", cann);
    else
        (void)snprintf(reason, REASON_BYTES, "[Host-bound]%s", not_aligned);
}

static int64_t length_of(const union frame_cell *row)
{
    return row[R_END].i - row[R_START].i;
}

/* Who the operation's slow and fast rank are, and why: into its row. */
static enum rs_status decide(struct run *run, union frame_cell *top, struct rs_err *err)
{
    const struct frame *rows = &run->frames[ROWS];
    struct contest contest = {.run = run};
    char reason[REASON_BYTES] = "";
    for (size_t i = 0; i < rows->count; i++) {
        const union frame_cell *row = frame_row(rows, i);
        if (row[R_TOP].i != top[T_PLACE].i)
            continue;
        if (!contest.fast || length_of(row) > length_of(contest.fast))
            contest.fast = row;
        if (!contest.slow || length_of(row) <= length_of(contest.slow))
            contest.slow = row;
    }
    const double longest = contest.fast ? (double)length_of(contest.fast) : 0;
    const double shortest = contest.fast ? (double)length_of(contest.slow) : 0;
    if (!contest.fast) {
        (void)snprintf(reason, sizeof reason,
                       "[Failed] No data found for the communication operator");
    } else if (!(longest > 0) || (longest - shortest) / longest < SAME) {
        (void)snprintf(
            reason, sizeof reason,
            "[Completed] No slow NPU detected: execution time difference is less than %s",
            run->options->compat ? "0.05%" : "5%");
    } else {
        contest.shift = contest.fast[R_END].i - contest.slow[R_END].i;
        top[T_SLOW].i = contest.slow[R_RANK].i;
        top[T_FAST].i = contest.fast[R_RANK].i;
        explain(&contest, reason);
    }
    if (contest.status == RS_NOMEM)
        return rs_err_set(err, RS_NOMEM, "no memory for decisions");
    if (contest.status != RS_OK) { /* tables for the why are missing or broken: the who stands */
        run_add_problem(run, top[T_SLOW].i, true, "%s",
                        contest.err.text[0] ? contest.err.text : rs_status_text(contest.status));
        (void)snprintf(reason, sizeof reason, "%s", not_enough);
    }
    top[T_REASON].t = frame_str(&run->frames[TOPS], reason);
    return RS_OK;
}

static enum rs_status finish(struct run *run, struct rs_err *err)
{
    struct frame *tops = &run->frames[TOPS];
    enum rs_status status = RS_OK;
    size_t named = 0;
    char columns[240];
    for (size_t i = 0; i < tops->count && status == RS_OK; i++) {
        status = decide(run, frame_at(tops, i), err);
        named += frame_row(tops, i)[T_SLOW].i != RS_NULL;
    }
    if (status != RS_OK)
        return status;
    /* as a data frame types ranks: all there, with gaps, none at all */
    char kind = 't';
    if (named)
        kind = 'r';
    if (named == tops->count)
        kind = 'i';
    (void)snprintf(columns, sizeof columns,
                   "startTime(us):t=Start Time(us)|endTime(us):t=End Time(us)|"
                   "duration(us):r=Duration(us)|communicationOp:t=Communication Op|"
                   "slowRankId:%c=Slow Rank ID|fastRankId:%c=Fast Rank ID|reason:t=Reason",
                   kind, kind);
    const struct result result = {
        .name = "CommunicationBottleneck",
        .file = "communication_bottleneck.csv",
        .columns = columns,
        .sql = "SELECT us_text(start), us_text(end), round_even((end - start) * 0.001, 3), name, "
               "slow, fast, reason FROM tops"};
    return result_write(run, &result, err);
}

const struct recipe recipe_communication_bottleneck = {
    .info = {"communication_bottleneck",
             "who was late to the longest communication operations of a rank, and why",
             "CommunicationBottleneck"},
    .folder = "CommunicatonBottleneckAnalysis", /* so spelled by the peer */
    .needs = NEED_PROFILER,
    .top = 10,
    .optional = API_OPTIONAL,
    .frames = {{.name = "tops",
                .columns = "place:i start:i end:i name:t communicator:t src:i dst:i number:i "
                           "is_receive:i slow:i fast:i reason:t",
                .requires = "COMMUNICATION_OP.opName COMMUNICATION_OP.groupName STRING_IDS.value",
                .is_passing = true},
               {.name = "pairs", .columns = PAIR_COLUMNS, .is_passing = true},
               {.name = "rows", .columns = "top:i rank:i start:i end:i"}},
    .start = start,
    .fill = fill,
    .finish = finish,
};
