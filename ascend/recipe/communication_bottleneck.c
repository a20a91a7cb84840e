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

/* The target's operations; P_* are the pair it belongs to, number -1: none. */
enum { T_START, T_END, T_NAME, T_GROUP, T_ID, P_SRC, P_DST, P_NUMBER, P_RECEIVE };
#define TOP_KINDS "iittiiiii"
/* Their rows in all ranks. */
enum { R_TOP, R_RANK, R_START, R_END };
#define ROW_KINDS "iiii"
/* Tasks of both ranks, in one frame so that names are one set. */
enum { S_SIDE, S_START, S_DURATION, S_NAME };
#define TASK_KINDS "iiit"

enum { WAIT_NS = 100000, ALIGNED_NS = 1000000, REASON_BYTES = 2048 };
#define SAME 0.05

struct state {
    struct frame tops, rows;
};

/* ---- which operations ---- */

static enum rs_status find_pairs(struct run *run, const struct inputs *in, struct frame *tops,
                                 struct rs_err *err)
{
    struct pair_list pairs;
    const enum rs_status status = pair_list_read(run, in, &pairs, err);
    if (status == RS_NOTFOUND)
        return RS_OK;
    if (status != RS_OK)
        return status;
    for (size_t i = 0; i < tops->count; i++) {
        union frame_cell *top = tops->cells + i * tops->columns;
        for (size_t k = 0; k < pairs.count; k++) {
            const struct pair_op *op = &pairs.ops[k];
            if (op->op_row != top[T_ID].i)
                continue;
            top[P_SRC].i = op->src;
            top[P_DST].i = op->dst;
            top[P_NUMBER].i = op->number;
            top[P_RECEIVE].i = op->is_receive;
        }
    }
    pair_list_fini(&pairs);
    return RS_OK;
}

static enum rs_status read_tops(struct run *run, const struct inputs *in, struct rs_err *err)
{
    struct state *state = run->state;
    const int64_t params[] = {in->from, in->to, run_top(run, 10)};
    const struct frame_query query = {
        .sql = "SELECT c.startNs, c.endNs, n.value, g.value, c.opId, -1, -1, -1, 0 "
               "FROM COMMUNICATION_OP c JOIN STRING_IDS n ON n.id = c.opName "
               "LEFT JOIN STRING_IDS g ON g.id = c.groupName "
               "WHERE c.startNs >= ?1 AND c.endNs <= ?2 "
               "ORDER BY c.endNs - c.startNs DESC LIMIT ?3",
        .params = params,
        .param_count = 3};
    enum rs_status status = db_requires(in->profiler,
                                        "COMMUNICATION_OP.opName COMMUNICATION_OP.groupName "
                                        "COMMUNICATION_OP.opId COMMUNICATION_OP.startNs "
                                        "STRING_IDS.value",
                                        err);
    if (status == RS_OK)
        status = frame_load(&state->tops, in->profiler, &query, err);
    if (status == RS_OK && !state->tops.count)
        status = rs_err_set(err, RS_NOTFOUND, "%s has no communication operations",
                            rs_ascend_db_path(in->profiler));
    if (status == RS_OK && !run->options->compat)
        status = find_pairs(run, in, &state->tops, err);
    return status;
}

static const struct recipe_rank *find_rank(const struct run *run, int64_t rank)
{
    for (size_t i = 0; i < run->rank_count; i++)
        if (run->ranks[i].rank == rank)
            return &run->ranks[i];
    return NULL;
}

static enum rs_status start(struct run *run, struct rs_err *err)
{
    struct state *state = run->state;
    struct inputs in;
    const struct recipe_rank *target = find_rank(run, run->options->rank_id);
    if (!target)
        return rs_err_set(err, RS_INVALID, "rank %" PRId64 " (--rank-id) is not among the results",
                          run->options->rank_id);
    if (frame_init(&state->tops, TOP_KINDS) != RS_OK ||
        frame_init(&state->rows, ROW_KINDS) != RS_OK)
        return rs_err_set(err, RS_NOMEM, "no memory for operations");
    enum rs_status status = inputs_open(run, target, &in, err);
    if (status != RS_OK)
        return status;
    status = read_tops(run, &in, err);
    inputs_close(&in);
    return status;
}

/* ---- their rows in each rank ---- */

static enum rs_status add_row(struct frame *part, size_t top, int64_t rank, int64_t start_ns,
                              int64_t end_ns)
{
    union frame_cell *row = frame_add(part);
    if (!row)
        return RS_NOMEM;
    row[R_TOP].i = (int64_t)top;
    row[R_RANK].i = rank;
    row[R_START].i = start_ns;
    row[R_END].i = end_ns;
    return RS_OK;
}

static enum rs_status add_same_name(struct run *run, const struct inputs *in, size_t top,
                                    struct frame *part, struct rs_err *err)
{
    const struct state *state = run->state;
    const union frame_cell *of = frame_row(&state->tops, top);
    const char *group = of[T_GROUP].t == RS_STR_NONE ? "" : frame_text(&state->tops, of[T_GROUP].t);
    struct frame found;
    const struct frame_query query = {
        .sql = run->options->compat
                   ? "SELECT c.startNs, c.endNs, '' FROM COMMUNICATION_OP c "
                     "JOIN STRING_IDS n ON c.opName = n.id WHERE n.value = ?1 GROUP BY n.value"
                   : "SELECT c.startNs, c.endNs, coalesce(g.value, '') FROM COMMUNICATION_OP c "
                     "JOIN STRING_IDS n ON c.opName = n.id "
                     "LEFT JOIN STRING_IDS g ON g.id = c.groupName "
                     "WHERE n.value = ?1 ORDER BY c.startNs",
        .text_param = frame_text(&state->tops, of[T_NAME].t)};
    enum rs_status status = frame_init(&found, "iit");
    if (status == RS_OK)
        status = frame_load(&found, in->profiler, &query, err);
    for (size_t i = 0; i < found.count && status == RS_OK; i++) {
        const union frame_cell *row = frame_row(&found, i);
        if (!run->options->compat && strcmp(frame_text(&found, row[2].t), group) != 0)
            continue;
        status = add_row(part, top, in->of->rank, row[0].i, row[1].i);
        break; /* one row per rank */
    }
    frame_fini(&found);
    return status;
}

/* The other end of each transfer among the target's operations. */
static enum rs_status add_partners(struct run *run, const struct inputs *in, struct frame *part,
                                   struct rs_err *err)
{
    const struct state *state = run->state;
    struct pair_list pairs;
    enum rs_status status = pair_list_read(run, in, &pairs, err);
    if (status == RS_NOTFOUND)
        return RS_OK;
    for (size_t k = 0; status == RS_OK && k < pairs.count; k++) {
        const struct pair_op *op = &pairs.ops[k];
        for (size_t i = 0; i < state->tops.count && status == RS_OK; i++) {
            const union frame_cell *top = frame_row(&state->tops, i);
            if (top[P_NUMBER].i != op->number || top[P_SRC].i != op->src ||
                top[P_DST].i != op->dst || top[P_RECEIVE].i == op->is_receive ||
                top[T_GROUP].t == RS_STR_NONE ||
                strcmp(frame_text(&state->tops, top[T_GROUP].t),
                       rs_strtab_text(&pairs.texts, op->group)) != 0)
                continue;
            struct frame row;
            const int64_t params[] = {op->op_row};
            const struct frame_query query = {
                .sql = "SELECT startNs, endNs FROM COMMUNICATION_OP WHERE opId = ?1 LIMIT 1",
                .params = params,
                .param_count = 1};
            status = frame_init(&row, "ii");
            if (status == RS_OK)
                status = frame_load(&row, in->profiler, &query, err);
            if (status == RS_OK && row.count)
                status = add_row(part, i, in->of->rank, frame_row(&row, 0)[0].i,
                                 frame_row(&row, 0)[1].i);
            frame_fini(&row);
        }
    }
    pair_list_fini(&pairs);
    return status;
}

static enum rs_status map(struct run *run, const struct inputs *in, void **part_p,
                          struct rs_err *err)
{
    const struct state *state = run->state;
    struct frame *part = rs_mem_calloc(1, sizeof *part);
    enum rs_status status = part ? frame_init(part, ROW_KINDS) : RS_NOMEM;
    if (status == RS_OK)
        status =
            db_requires(in->profiler,
                        "COMMUNICATION_OP.opName COMMUNICATION_OP.groupName STRING_IDS.value", err);
    for (size_t i = 0; i < state->tops.count && status == RS_OK; i++)
        status = add_same_name(run, in, i, part, err);
    if (status == RS_OK && !run->options->compat)
        status = add_partners(run, in, part, err);
    if (status != RS_OK) {
        if (status == RS_NOMEM)
            (void)rs_err_set(err, status, "no memory for operations");
        if (part)
            frame_drop(part);
        return status;
    }
    *part_p = part;
    return RS_OK;
}

static enum rs_status reduce(struct run *run, const struct recipe_rank *rank, void *part,
                             struct rs_err *err)
{
    struct state *state = run->state;
    const enum rs_status status = frame_append(&state->rows, part);
    return status == RS_OK ? RS_OK
                           : rs_err_set(err, status, "no memory for rank %" PRId64, rank->rank);
}

/* ---- why ---- */

struct decision {
    int64_t slow, fast; /* ranks; -1: nobody */
    char reason[REASON_BYTES];
};

struct contest {
    const union frame_cell *slow, *fast; /* rows */
    int64_t shift;                       /* fast's clock minus slow's */
};

/* The tasks of a rank that ended before `until`, by the queries given, as one side. */
static enum rs_status read_tasks(struct run *run, int64_t rank, int64_t side, int64_t until,
                                 const char *const *queries, size_t count, struct frame *tasks,
                                 struct rs_err *err)
{
    struct inputs in;
    const struct recipe_rank *of = find_rank(run, rank);
    const int64_t params[] = {side, until};
    enum rs_status status = inputs_open(run, of, &in, err);
    if (status != RS_OK)
        return status;
    for (size_t i = 0; i < count && status == RS_OK; i++) {
        const struct frame_query query = {.sql = queries[i], .params = params, .param_count = 2};
        status = frame_load(tasks, in.profiler, &query, err);
    }
    inputs_close(&in);
    return status;
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
static enum rs_status walk_back(const struct frame *tasks, int64_t shift, struct widest *widest)
{
    uint32_t *rows = rs_mem_calloc(tasks->count + 1, sizeof *rows);
    uint32_t *fast = rs_mem_calloc(tasks->count + 1, sizeof *fast);
    struct places places = {.first = rs_mem_calloc(tasks->texts.count, sizeof *places.first),
                            .next = rs_mem_calloc(tasks->count + 1, sizeof *places.next)};
    struct frame lent = *tasks; /* qsort_r's argument is not const */
    size_t slow_count = 0, fast_count = 0;
    *widest = (struct widest){0};
    const bool ok = rows && fast && places.first && places.next;
    if (ok) {
        for (size_t i = 0; i < tasks->count; i++)
            rows[i] = (uint32_t)i;
        qsort_r(rows, tasks->count, sizeof *rows, by_late_start, &lent);
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
    "SELECT ?1, " columns " FROM " from " WHERE TASK.startNs >= 0 AND TASK.endNs <= ?2 "

static const char *const device_queries[] = {
    TASK_SQL("TASK.startNs, TASK.endNs - TASK.startNs, n.value",
             "TASK JOIN COMPUTE_TASK_INFO c ON TASK.globalTaskId = c.globalTaskId "
             "JOIN STRING_IDS n ON n.id = c.name") "ORDER BY TASK.startNs DESC",
    TASK_SQL("min(TASK.startNs), max(TASK.endNs) - min(TASK.startNs), n.value",
             "TASK JOIN COMMUNICATION_TASK_INFO c ON TASK.globalTaskId = c.globalTaskId "
             "JOIN STRING_IDS n ON n.id = c.name") "GROUP BY n.value ORDER BY 2 DESC",
    TASK_SQL(
        "TASK.startNs, TASK.endNs - TASK.startNs, n.value",
        "TASK JOIN STRING_IDS n ON n.id = TASK.taskType") "AND lower(n.value) LIKE '%memcpy%' ORDER BY TASK.startNs DESC"};

static const char *const torch_queries[] = {
    "SELECT ?1, CAST(p.startNs AS INTEGER), p.endNs - p.startNs, n.value FROM PYTORCH_API p "
    "JOIN STRING_IDS n ON n.id = p.name WHERE CAST(p.endNs AS INTEGER) <= ?2 "
    "AND n.value LIKE '%::%' ORDER BY CAST(p.startNs AS INTEGER) DESC"};

static const char *const cann_queries[] = {
    "SELECT ?1, a.startNs, a.endNs - a.startNs, e.name || '@' || n.value FROM CANN_API a "
    "JOIN STRING_IDS n ON n.id = a.name JOIN ENUM_API_TYPE e ON e.id = a.type "
    "WHERE a.startNs >= 0 AND a.endNs <= ?2 ORDER BY a.startNs DESC"};

/* One level's summary behind `reason`; *found_p false: the ranks never were aligned. */
static enum rs_status summarise(struct run *run, const struct contest *contest, const char *level,
                                const char *const *queries, size_t count, char *text, bool *found_p,
                                struct rs_err *err)
{
    struct frame tasks;
    struct widest widest = {0};
    enum rs_status status = frame_init(&tasks, TASK_KINDS);
    if (status == RS_OK)
        status = read_tasks(run, contest->slow[R_RANK].i, 0, contest->slow[R_START].i, queries,
                            count, &tasks, err);
    if (status == RS_OK)
        status = read_tasks(run, contest->fast[R_RANK].i, 1, contest->fast[R_START].i, queries,
                            count, &tasks, err);
    if (status == RS_OK)
        status = walk_back(&tasks, contest->shift, &widest);
    *found_p = status == RS_OK && widest.matched && widest.is_aligned;
    if (*found_p) {
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
    return status;
}

/* More than half of the slow rank's launches waited on the device? *known_p false: no launches. */
static enum rs_status is_device_bound(struct run *run, const struct contest *contest, bool *known_p,
                                      bool *device_p, struct rs_err *err)
{
    const int64_t params[] = {contest->fast[R_START].i - contest->shift, contest->slow[R_END].i};
    const struct frame_query query = {
        .sql = "SELECT a.startNs - CAST(p.endNs AS INTEGER), TASK.startNs - a.endNs FROM TASK "
               "JOIN CANN_API a ON TASK.connectionId = a.connectionId "
               "JOIN CONNECTION_IDS k ON k.connectionId = TASK.connectionId "
               "JOIN PYTORCH_API p ON k.id = p.connectionId "
               "JOIN ENUM_API_TYPE e ON a.type = e.id JOIN STRING_IDS n ON n.id = a.name "
               "WHERE TASK.startNs > ?1 AND TASK.endNs < ?2 AND e.name = 'node' "
               "AND n.value = 'launch'",
        .params = params,
        .param_count = 2};
    struct frame waits;
    struct inputs in;
    size_t device = 0;
    enum rs_status status = inputs_open(run, find_rank(run, contest->slow[R_RANK].i), &in, err);
    if (status != RS_OK)
        return status;
    status = frame_init(&waits, "ii");
    if (status == RS_OK && /* without these tables no launch is known */
        db_requires(in.profiler,
                    "CONNECTION_IDS.id CONNECTION_IDS.connectionId PYTORCH_API.connectionId "
                    "PYTORCH_API.endNs ENUM_API_TYPE.name CANN_API.connectionId",
                    NULL) == RS_OK)
        status = frame_load(&waits, in.profiler, &query, err);
    inputs_close(&in);
    for (size_t i = 0; i < waits.count && status == RS_OK; i++)
        device += frame_row(&waits, i)[1].i - frame_row(&waits, i)[0].i > WAIT_NS;
    *known_p = waits.count != 0;
    *device_p = waits.count && (double)device / (double)waits.count > 0.5;
    frame_fini(&waits);
    return status;
}

static enum rs_status explain_host(struct run *run, const struct contest *contest, char *reason,
                                   struct rs_err *err)
{
    char torch[REASON_BYTES / 2] = "", cann[REASON_BYTES / 2] = "";
    bool has_torch = false, has_cann = false;
    enum rs_status status =
        summarise(run, contest, "PyTorch", torch_queries, 1, torch, &has_torch, err);
    if (status == RS_OK)
        status = summarise(run, contest, "CANN", cann_queries, 1, cann, &has_cann, err);
    if (status != RS_OK)
        return status;
    if (!has_torch)
        (void)snprintf(reason, REASON_BYTES,
                       "[Host-bound] Tasks are not aligned between slow and "
                       "fast NPU from the beginning");
    else
        (void)snprintf(reason, REASON_BYTES, "[Host-bound] %.900s%s%.900s", torch,
                       has_cann ? " | " : "", cann);
    return RS_OK;
}

static enum rs_status explain(struct run *run, const struct contest *contest, char *reason,
                              struct rs_err *err)
{
    bool is_known = false, is_device = false, is_found = false;
    char text[REASON_BYTES / 2] = "";
    enum rs_status status = is_device_bound(run, contest, &is_known, &is_device, err);
    if (status != RS_OK)
        return status;
    if (!is_known) {
        (void)snprintf(reason, REASON_BYTES,
                       "[Failed] Insufficient data for analyzing slow NPU bottleneck");
        return RS_OK;
    }
    if (!is_device)
        return explain_host(run, contest, reason, err);
    status = summarise(run, contest, "Device", device_queries, 3, text, &is_found, err);
    (void)snprintf(
        reason, REASON_BYTES, "[Device-bound]%s",
        is_found ? text : " Tasks are not aligned between slow and fast NPU from the beginning");
    return status;
}

static int64_t length_of(const union frame_cell *row)
{
    return row[R_END].i - row[R_START].i;
}

static enum rs_status decide(struct run *run, size_t top, struct decision *decision,
                             struct rs_err *err)
{
    const struct state *state = run->state;
    struct contest contest = {NULL, NULL, 0};
    *decision = (struct decision){.slow = RS_NULL, .fast = RS_NULL};
    for (size_t i = 0; i < state->rows.count; i++) {
        const union frame_cell *row = frame_row(&state->rows, i);
        if (row[R_TOP].i != (int64_t)top)
            continue;
        if (!contest.fast || length_of(row) > length_of(contest.fast))
            contest.fast = row;
        if (!contest.slow || length_of(row) <= length_of(contest.slow))
            contest.slow = row;
    }
    if (!contest.fast) {
        (void)snprintf(decision->reason, sizeof decision->reason,
                       "[Failed] No data found for the communication operator");
        return RS_OK;
    }
    const double longest = (double)length_of(contest.fast);
    const double shortest = (double)length_of(contest.slow);
    if (!(longest > 0) || (longest - shortest) / longest < SAME) {
        (void)snprintf(
            decision->reason, sizeof decision->reason,
            "[Completed] No slow NPU detected: execution time difference is less than %s",
            run->options->compat ? "0.05%" : "5%");
        return RS_OK;
    }
    contest.shift = contest.fast[R_END].i - contest.slow[R_END].i;
    decision->slow = contest.slow[R_RANK].i;
    decision->fast = contest.fast[R_RANK].i;
    const enum rs_status status = explain(run, &contest, decision->reason, err);
    if (status == RS_OK || status == RS_NOMEM)
        return status;
    /* tables for the why are missing or broken: the who stands */
    run_add_problem(run, decision->slow, true, "%s", err ? err->text : rs_status_text(status));
    (void)snprintf(decision->reason, sizeof decision->reason,
                   "[Failed] Insufficient data for analyzing slow NPU bottleneck");
    return RS_OK;
}

static enum rs_status write_decisions(struct run *run, const struct decision *decisions,
                                      struct rs_err *err)
{
    const struct state *state = run->state;
    size_t named = 0;
    for (size_t i = 0; i < state->tops.count; i++)
        named += decisions[i].slow != RS_NULL;
    /* as a data frame types ranks: all there, with gaps, none at all */
    const char some = (char)(named ? 'r' : 't');
    char kind = 'i';
    if (named != state->tops.count)
        kind = some;
    const struct column columns[] = {{"startTime(us)", 't', "Start Time(us)"},
                                     {"endTime(us)", 't', "End Time(us)"},
                                     {"duration(us)", 'r', "Duration(us)"},
                                     {"communicationOp", 't', "Communication Op"},
                                     {"slowRankId", kind, "Slow Rank ID"},
                                     {"fastRankId", kind, "Fast Rank ID"},
                                     {"reason", 't', "Reason"}};
    const struct table table = {"CommunicationBottleneck",
                                "communication_bottleneck.csv",
                                columns,
                                COLUMN_COUNT(columns),
                                0,
                                false};
    enum rs_status status = table_begin(run, &table, err);
    for (size_t i = 0; i < state->tops.count && status == RS_OK; i++) {
        const union frame_cell *top = frame_row(&state->tops, i);
        char from[40], to[40];
        stats_print_us(top[T_START].i, from, sizeof from);
        stats_print_us(top[T_END].i, to, sizeof to);
        const struct cell cells[] = {
            cell_text(from),
            cell_text(to),
            cell_real(stats_round((double)(top[T_END].i - top[T_START].i) * 0.001, 3)),
            cell_text(frame_text(&state->tops, top[T_NAME].t)),
            cell_int(decisions[i].slow),
            cell_int(decisions[i].fast),
            cell_text(decisions[i].reason)};
        status = table_row(run, cells, err);
    }
    return status == RS_OK ? table_end(run, err) : status;
}

static enum rs_status finish(struct run *run, struct rs_err *err)
{
    const struct state *state = run->state;
    struct decision *decisions = rs_mem_calloc(state->tops.count + 1, sizeof *decisions);
    enum rs_status status =
        decisions ? RS_OK : rs_err_set(err, RS_NOMEM, "no memory for decisions");
    for (size_t i = 0; i < state->tops.count && status == RS_OK; i++)
        status = decide(run, i, &decisions[i], err);
    if (status == RS_OK)
        status = write_decisions(run, decisions, err);
    rs_mem_free(decisions);
    return status;
}

static void stop(struct run *run)
{
    struct state *state = run->state;
    frame_fini(&state->tops);
    frame_fini(&state->rows);
}

const struct recipe recipe_communication_bottleneck = {
    .info = {"communication_bottleneck",
             "who was late to the longest communication operations of a rank, and why",
             "CommunicationBottleneck"},
    .folder = "CommunicatonBottleneckAnalysis", /* so spelled by the peer */
    .needs = NEED_PROFILER,
    .state_bytes = sizeof(struct state),
    .start = start,
    .map = map,
    .reduce = reduce,
    .finish = finish,
    .drop = frame_drop,
    .stop = stop,
};
