/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mstx_sum: how long the job's own marks and ranges take, on the host, in CANN and on the device.
 *
 * Peer, per rank: markers "X_start" and "X_stop" of one thread are paired, the last start first;
 * ranges with a connection are named by the ranges around them ("outer::inner", by time alone, at most 100
 * deep; ranges with equal times get the innermost name). The step is the first whose window holds
 * the start, else 0; a name that comes more than once in a step gets _0, _1, ... Then each mark with its share
 * of its rank's sum, and statistics per (step, name) with the ranks of the extremes and the
 * dispersion (max - Q3) / sum in percent. Text form in ms. Pairs of markers have framework and device
 * times 0, always: it asks whether the tables are there through the wrong handle.
 *
 * Corrected: pairs of markers have their framework and device times.
 */
#include "ascend/recipe/recipe_priv.h"
#include "common/base/mem.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME, FRAMEWORK, CANN, DEVICE, RANK, STEP };
enum { M_TEXT, M_CANN, M_DEVICE, M_FRAMEWORK, M_TID };
#define MARK_KINDS "tiiii"
enum { R_TEXT, R_START, R_END, R_DEVICE_START, R_DEVICE_END, R_ORDER };
#define RANGE_KINDS "tiiiii"
enum { DEPTH_MAX = 100 };

static double length_of(int64_t start, int64_t end)
{
    return start == RS_NULL || end == RS_NULL ? (double)NAN : (double)(end - start);
}

static enum rs_status add_mark(struct frame *part, const char *name, const double lengths[3],
                               int64_t rank, int64_t start)
{
    union frame_cell *row = frame_add(part);
    if (!row)
        return RS_NOMEM;
    row[FRAMEWORK].r = lengths[0];
    row[CANN].r = lengths[1];
    row[DEVICE].r = lengths[2];
    row[RANK].i = rank;
    row[STEP].i = start; /* until the step is known */
    return frame_text_id(part, name, &row[NAME].t);
}

static bool cut_tail(const char *text, const char *tail, char *head, size_t size)
{
    const size_t length = strlen(text), tail_length = strlen(tail);
    if (length < tail_length || length - tail_length >= size ||
        strcmp(text + length - tail_length, tail) != 0)
        return false;
    memcpy(head, text, length - tail_length);
    head[length - tail_length] = '\0';
    return true;
}

/* The latest open start of this name and thread before row `at`; marks it as taken. */
static size_t find_start(const struct frame *marks, bool *taken, size_t at, const char *head)
{
    char other[1024];
    for (size_t i = at; i-- > 0;) {
        const union frame_cell *row = frame_row(marks, i);
        if (!taken[i] && row[M_TID].i == frame_row(marks, at)[M_TID].i &&
            cut_tail(frame_text(marks, row[M_TEXT].t), "_start", other, sizeof other) &&
            strcmp(other, head) == 0) {
            taken[i] = true;
            return i;
        }
    }
    return SIZE_MAX;
}

static enum rs_status pair_marks(struct run *run, const struct frame *marks, struct frame *part,
                                 int64_t rank)
{
    bool *taken = rs_mem_calloc(marks->count + 1, sizeof *taken);
    size_t single = 0;
    enum rs_status status = taken ? RS_OK : RS_NOMEM;
    for (size_t i = 0; i < marks->count && status == RS_OK; i++) {
        char head[1024];
        const union frame_cell *stop = frame_row(marks, i);
        if (stop[M_TEXT].t == RS_STR_NONE ||
            !cut_tail(frame_text(marks, stop[M_TEXT].t), "_stop", head, sizeof head))
            continue;
        const size_t at = find_start(marks, taken, i, head);
        if (at == SIZE_MAX) {
            single++;
            continue;
        }
        const union frame_cell *begin = frame_row(marks, at);
        const double lengths[] = {length_of(begin[M_FRAMEWORK].i, stop[M_FRAMEWORK].i),
                                  length_of(begin[M_CANN].i, stop[M_CANN].i),
                                  length_of(begin[M_DEVICE].i, stop[M_DEVICE].i)};
        status = add_mark(part, head, lengths, rank, begin[M_CANN].i);
    }
    if (single)
        run_add_problem(run, rank, false, "%zu stop marks have no start", single);
    rs_mem_free(taken);
    return status;
}

static int by_nesting(const void *a, const void *b, void *data)
{
    const struct frame *ranges = data;
    const uint32_t p = *(const uint32_t *)a, q = *(const uint32_t *)b;
    const union frame_cell *x = frame_row(ranges, p), *y = frame_row(ranges, q);
    if (x[R_START].i != y[R_START].i)
        return x[R_START].i < y[R_START].i ? -1 : 1;
    if (x[R_END].i != y[R_END].i)
        return x[R_END].i > y[R_END].i ? -1 : 1;
    return (p > q) - (p < q);
}

/* Gives each range its path. `stack` has room for all. */
static enum rs_status name_paths(struct frame *ranges, const uint32_t *rows, uint32_t *stack)
{
    size_t depth = 0;
    struct rs_buf path = {0};
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < ranges->count && status == RS_OK; i++) {
        union frame_cell *row = ranges->cells + rows[i] * ranges->columns;
        while (depth && (frame_row(ranges, stack[depth - 1])[R_START].i > row[R_START].i ||
                         frame_row(ranges, stack[depth - 1])[R_END].i < row[R_END].i))
            depth--;
        const char *own = frame_text(ranges, row[R_TEXT].t);
        if (depth && depth < DEPTH_MAX - 1) {
            rs_buf_reset(&path);
            rs_buf_printf(&path, "%s::%s",
                          frame_text(ranges, frame_row(ranges, stack[depth - 1])[R_TEXT].t), own);
            status =
                path.failed ? RS_NOMEM : frame_text_id(ranges, rs_buf_text(&path), &row[R_TEXT].t);
        }
        stack[depth++] = rows[i];
    }
    rs_buf_fini(&path);
    /* equal times: the innermost name for all of them */
    for (size_t i = ranges->count; i-- > 1;) {
        const union frame_cell *inner = frame_row(ranges, rows[i]);
        union frame_cell *outer = ranges->cells + rows[i - 1] * ranges->columns;
        if (inner[R_START].i == outer[R_START].i && inner[R_END].i == outer[R_END].i)
            outer[R_TEXT].t = inner[R_TEXT].t;
    }
    return status;
}

static enum rs_status add_ranges(struct frame *ranges, struct frame *part, int64_t rank)
{
    uint32_t *rows = rs_mem_calloc(ranges->count + 1, sizeof *rows);
    uint32_t *stack = rs_mem_calloc(ranges->count + 1, sizeof *stack);
    enum rs_status status = rows && stack ? RS_OK : RS_NOMEM;
    if (status == RS_OK) {
        for (size_t i = 0; i < ranges->count; i++)
            rows[i] = (uint32_t)i;
        qsort_r(rows, ranges->count, sizeof *rows, by_nesting, ranges);
        status = name_paths(ranges, rows, stack);
    }
    for (size_t i = 0; i < ranges->count && status == RS_OK; i++) {
        const union frame_cell *row = frame_row(ranges, i);
        const double lengths[] = {0, length_of(row[R_START].i, row[R_END].i),
                                  length_of(row[R_DEVICE_START].i, row[R_DEVICE_END].i)};
        status = add_mark(part, frame_text(ranges, row[R_TEXT].t), lengths, rank, row[R_START].i);
    }
    rs_mem_free(rows);
    rs_mem_free(stack);
    return status;
}

/* Start times become steps. */
static enum rs_status find_steps(const struct inputs *in, struct frame *part, struct rs_err *err)
{
    const struct frame_query query = {
        .sql = "SELECT id, startNs, endNs FROM STEP_TIME ORDER BY startNs"};
    struct frame steps;
    enum rs_status status = frame_init(&steps, "iii");
    if (status == RS_OK && rs_ascend_db_has_column(in->profiler, "STEP_TIME", "startNs"))
        status = frame_load(&steps, in->profiler, &query, err);
    for (size_t i = 0; i < part->count && status == RS_OK; i++) {
        union frame_cell *row = part->cells + i * part->columns;
        const int64_t start = row[STEP].i;
        row[STEP].i = 0;
        for (size_t s = 0; s < steps.count; s++) {
            const union frame_cell *step = frame_row(&steps, s);
            if (step[1].i <= start && start <= step[2].i) {
                row[STEP].i = step[0].i;
                break;
            }
        }
    }
    frame_fini(&steps);
    return status;
}

/* Names that come more than once in a step get a number. */
static enum rs_status number_names(struct frame *part)
{
    struct frame_order order;
    struct rs_buf text = {0};
    enum rs_status status = frame_order(part, (char[]){STEP + 1, NAME + 1, 0}, &order);
    if (status != RS_OK)
        return status;
    for (size_t at = 0, end = 0; at < order.count && status == RS_OK; at = end) {
        const rs_str name = frame_row(part, order.rows[at])[NAME].t;
        end = frame_group_end(part, &order, at);
        for (size_t i = at; end - at > 1 && i < end && status == RS_OK; i++) {
            rs_buf_reset(&text);
            rs_buf_printf(&text, "%s_%zu", frame_text(part, name), i - at);
            status = text.failed
                         ? RS_NOMEM
                         : frame_text_id(part, rs_buf_text(&text),
                                         &part->cells[order.rows[i] * part->columns + NAME].t);
        }
    }
    rs_buf_fini(&text);
    frame_order_fini(&order);
    return status;
}

static enum rs_status read_events(const struct run *run, const struct inputs *in,
                                  struct frame *marks, struct frame *ranges, struct rs_err *err)
{
    const int64_t params[] = {in->from, in->to};
    const bool task = rs_ascend_db_has_column(in->profiler, "TASK", "connectionId");
    const bool torch = db_requires(in->profiler,
                                   "PYTORCH_API.connectionId CONNECTION_IDS.id "
                                   "CONNECTION_IDS.connectionId",
                                   NULL) == RS_OK;
    char sql[1024];
    struct frame_query query = {.sql = sql, .params = params, .param_count = 2};
    const bool mark_task = task && !run->options->compat;
    const bool mark_torch = torch && !run->options->compat;
    (void)snprintf(
        sql, sizeof sql,
        "SELECT m.value, e.startNs, %s, %s, e.globalTid FROM MSTX_EVENTS e %s %s "
        "LEFT JOIN STRING_IDS m ON m.id = e.message "
        "WHERE e.eventType = 3 AND e.startNs >= ?1 AND e.startNs <= ?2 ORDER BY e.startNs",
        mark_task ? "t.startNs" : "0", mark_torch ? "CAST(p.startNs AS INTEGER)" : "0",
        mark_task ? "LEFT JOIN TASK t ON t.connectionId = e.connectionId" : "",
        mark_torch ? "LEFT JOIN CONNECTION_IDS k ON k.connectionId = e.connectionId "
                     "LEFT JOIN PYTORCH_API p ON p.connectionId = k.id"
                   : "");
    enum rs_status status = frame_load(marks, in->profiler, &query, err);
    if (status != RS_OK)
        return status;
    (void)snprintf(sql, sizeof sql,
                   "SELECT coalesce(m.value, ''), e.startNs, e.endNs, %s, 0 FROM MSTX_EVENTS e %s "
                   "LEFT JOIN STRING_IDS m ON m.id = e.message "
                   "WHERE e.eventType = 2 AND e.startNs >= ?1 AND e.startNs <= ?2 "
                   "AND e.connectionId <> 4294967295 ORDER BY e.startNs",
                   task ? "t.startNs, t.endNs" : "0, 0",
                   task ? "LEFT JOIN TASK t ON t.connectionId = e.connectionId" : "");
    return frame_load(ranges, in->profiler, &query, err);
}

static enum rs_status fill_part(struct run *run, const struct inputs *in, struct frame *part,
                                struct rs_err *err)
{
    struct frame marks = {0}, ranges = {0};
    enum rs_status status = frame_init(&marks, MARK_KINDS);
    if (status == RS_OK)
        status = frame_init(&ranges, RANGE_KINDS);
    if (status == RS_OK)
        status = read_events(run, in, &marks, &ranges, err);
    if (status == RS_OK)
        status = pair_marks(run, &marks, part, in->of->rank);
    if (status == RS_OK)
        status = add_ranges(&ranges, part, in->of->rank);
    frame_fini(&marks);
    frame_fini(&ranges);
    if (status == RS_OK)
        status = find_steps(in, part, err);
    if (status == RS_OK)
        status = number_names(part);
    if (status == RS_NOMEM)
        (void)rs_err_set(err, status, "no memory for marks");
    if (status == RS_OK && !part->count)
        status = rs_err_set(err, RS_NOTFOUND, "%s has no marks", rs_ascend_db_path(in->profiler));
    return status;
}

static void fill(struct inputs *in, struct frame *frames)
{
    if (in->status == RS_OK)
        in->status = fill_part(in->run, in, &frames[0], &in->err);
}

/* Shares of the rank's sum, in percent. */
#define SHARE(column)                                                                              \
    "CASE WHEN " column "_sum <> 0 THEN " column " / " column "_sum * 100 ELSE 0 END"
#define SUM(column) "sum_exact(" column ") AS " column "_sum"
#define MARK_COLUMNS                                                                               \
    "Name:t|FrameworkDurationNs:r|FrameworkDurationRatio(%):r|CannDurationNs:r|"                   \
    "CannDurationRatio(%):r|DeviceDurationNs:r|DeviceDurationRatio(%):r|Rank:i|StepId:i"

/* Statistics of one of the three durations. A rank is 0 where there is no time at all, as the peer has it. */
#define LINE_COLUMNS                                                                               \
    "Name:t|Count:r|MeanNs:r|StdNs:r|MinNs:r|MinRank:i|Q1Ns:r|MedianNs:r|Q3Ns:r|MaxNs:r|"          \
    "MaxRank:i|SumNs:r|Dispersion(%):r|StepId:i"
#define LINES(column)                                                                              \
    "SELECT name, stat(s,0), stat(s,1), stat(s,2), stat(s,3), iif(is_none, 0, least), stat(s,4), " \
    "stat(s,5), stat(s,6), stat(s,7), iif(is_none, 0, most), total, dispersion, step FROM "        \
    "(SELECT *, coalesce((stat(s,7) - stat(s,6)) / total * 100, 0) AS dispersion, "                \
    "stat(s,3) >= 0 AND stat(s,7) <= 0 AS is_none FROM (SELECT step, name, "                       \
    "column_stats(" column ") AS s, sum_exact(" column ") AS total, "                              \
    "rank_of_least(" column ", rank) AS least, rank_of_most(" column ", rank) AS most FROM mark "  \
    "GROUP BY step, name HAVING count(" column ") > 0)) ORDER BY step, dispersion DESC, name"
#define RESULT_LINES(which, prefix, of)                                                            \
    {                                                                                              \
        .name = "MSTXAll" which "Stats", .file = "all_" prefix "_stats.csv",                       \
        .columns = LINE_COLUMNS, .sql = LINES(of), .index_columns = 1, .is_ms = true               \
    }

static const struct result results[] = {
    /* the longest of a rank first; sums are made in this order */
    {.sql =
         "CREATE TEMP TABLE mark AS SELECT name, framework, " SHARE("framework") " AS f, cann, " SHARE("cann") " AS c, device, " SHARE(
             "device") " AS d, rank, step FROM (SELECT *, marks.rowid AS at FROM marks) JOIN "
                       "(SELECT rank, " SUM("framework") ", " SUM("cann") ", " SUM(
                           "device") " FROM marks GROUP BY rank) USING (rank) ORDER BY c DESC, at"},
    {.name = "MSTXMarkStats",
     .file = "mark_stats.csv",
     .columns = "index:i|" MARK_COLUMNS,
     .sql = "SELECT rowid - 1, * FROM mark",
     .index_columns = 1,
     .is_ms = true},
    RESULT_LINES("Framework", "fwk", "framework"),
    RESULT_LINES("Cann", "cann", "cann"),
    RESULT_LINES("Device", "device", "device"),
};

static enum rs_status finish(struct run *run, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < COLUMN_COUNT(results) && status == RS_OK; i++) {
        struct result result = results[i];
        if (i == 1 && run->options->as_text) { /* without the index */
            result.columns = MARK_COLUMNS;
            result.sql = "SELECT * FROM mark";
        }
        status = result_write(run, &result, err);
    }
    return status;
}

const struct recipe recipe_mstx_sum = {
    .info = {"mstx_sum", "durations of the job's own marks and ranges",
             "MSTXMarkStats, MSTXAllFrameworkStats, MSTXAllCannStats, MSTXAllDeviceStats"},
    .folder = "MstxSum",
    .needs = NEED_PROFILER,
    .frames = {{.name = "marks",
                .columns = "name:t framework:r cann:r device:r rank:i step:i",
                .requires = "MSTX_EVENTS.startNs MSTX_EVENTS.endNs MSTX_EVENTS.eventType "
                            "MSTX_EVENTS.message MSTX_EVENTS.globalTid MSTX_EVENTS.connectionId "
                            "STRING_IDS.value"}},
    .fill = fill,
    .finish = finish,
};
