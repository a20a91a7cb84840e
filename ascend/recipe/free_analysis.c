/* SPDX-License-Identifier: Apache-2.0 */
/*
 * free_analysis: the longest times in which a rank's device neither computed nor communicated, and why.
 *
 * Peer: busy is the union of computing tasks and communication operations; the --top-num longest gaps
 * of each rank. Device tasks wholly inside a gap: their kinds, and the longest stretch that is left.
 * Else the tasks before and after with their host calls: idle times are the differences of the
 * calls' ends; if the wait between framework and CANN grew by less than 50 us the framework
 * dispatched nothing, else CANN was slow: between two launches, or in one. Of gaps of equal length the
 * peer takes any, here the earliest comes first. Host times pass through doubles (256 ns steps).
 *
 * Corrected: host times are exact.
 */
#include "ascend/recipe/recipe_priv.h"
#include "common/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANK, START, END, TORCH_IDLE, CANN_IDLE, REASON };
enum { TYPE, TASK_START, TASK_END, CANN_START, CANN_END, TORCH_START, TORCH_END };
#define LINK_KINDS "tiiiiii"
enum { WAIT_NS = 50000, REASON_BYTES = 512 };

struct gap {
    int64_t start, end;
};

static int by_length(const void *a, const void *b)
{
    const struct gap *x = a, *y = b;
    const int64_t p = x->end - x->start, q = y->end - y->start;
    if (p != q)
        return p > q ? -1 : 1;
    return (x->start > y->start) - (x->start < y->start);
}

static enum rs_status find_gaps(const struct frame *busy, struct gap **gaps_p, size_t *count_p)
{
    struct frame_order order;
    struct gap *gaps = rs_mem_calloc(busy->count + 1, sizeof *gaps);
    int64_t end = INT64_MIN;
    size_t count = 0;
    if (!gaps || frame_order(busy, "\1", &order) != RS_OK) {
        rs_mem_free(gaps);
        return RS_NOMEM;
    }
    for (size_t i = 0; i < order.count; i++) {
        const union frame_cell *row = frame_row(busy, order.rows[i]);
        if (i && row[0].i > end)
            gaps[count++] = (struct gap){end, row[0].i};
        end = row[1].i > end ? row[1].i : end;
    }
    frame_order_fini(&order);
    qsort(gaps, count, sizeof *gaps, by_length);
    *gaps_p = gaps;
    *count_p = count;
    return RS_OK;
}

static void print_us(int64_t ns, char *text, size_t size)
{
    stats_print(stats_round((double)ns * 0.001, 3), text, size);
}

struct kind {
    rs_str type;
    size_t tasks, order;
};

static int by_tasks(const void *a, const void *b)
{
    const struct kind *x = a, *y = b;
    if (x->tasks != y->tasks)
        return x->tasks > y->tasks ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

/* Tasks within the gap, in order of start. What is left of it is returned through left_p, -1 nothing. */
struct inside {
    struct kind *kinds;
    size_t kind_count, kind_capacity, tasks;
    int64_t left;
};

static enum rs_status count_kind(struct inside *inside, rs_str type)
{
    size_t k = 0;
    if (type == RS_STR_NONE)
        return RS_OK;
    while (k < inside->kind_count && inside->kinds[k].type != type)
        k++;
    if (k == inside->kind_count) {
        if (rs_mem_grow((void **)&inside->kinds, &inside->kind_capacity, k + 1,
                        sizeof *inside->kinds) != RS_OK)
            return RS_NOMEM;
        inside->kinds[inside->kind_count++] = (struct kind){type, 0, k};
    }
    inside->kinds[k].tasks++;
    return RS_OK;
}

static enum rs_status look_inside(const struct frame *links, const struct gap *gap,
                                  struct inside *inside)
{
    int64_t at = gap->start;
    inside->left = -1;
    for (size_t i = 0; i < links->count; i++) {
        const union frame_cell *row = frame_row(links, i);
        if (row[TASK_START].i <= gap->start || row[TASK_END].i >= gap->end)
            continue;
        if (count_kind(inside, row[TYPE].t) != RS_OK)
            return RS_NOMEM;
        inside->tasks++;
        if (row[TASK_START].i - at > inside->left && row[TASK_START].i > at)
            inside->left = row[TASK_START].i - at;
        at = row[TASK_END].i > at ? row[TASK_END].i : at;
    }
    if (inside->tasks && gap->end > at && gap->end - at > inside->left)
        inside->left = gap->end - at;
    return RS_OK;
}

static void explain_tasks(const struct frame *links, struct inside *inside, char *reason)
{
    struct rs_buf text = {0};
    char left[40];
    if (inside->kind_count) /* else there is no array, and qsort() asks for one */
        qsort(inside->kinds, inside->kind_count, sizeof *inside->kinds, by_tasks);
    rs_buf_string(&text, "Device task running: ");
    for (size_t k = 0; k < inside->kind_count; k++)
        rs_buf_printf(&text, "%s%zu %s tasks", k ? ", " : "", inside->kinds[k].tasks,
                      frame_text(links, inside->kinds[k].type));
    print_us(inside->left, left, sizeof left);
    if (inside->left >= 0)
        rs_buf_printf(&text, ", max remaining free %s us", left);
    else
        rs_buf_u8(&text, '.');
    (void)snprintf(reason, REASON_BYTES, "%s", rs_buf_text(&text));
    rs_buf_fini(&text);
}

/* The tasks next to the gap, NULL where there is none. */
static void find_neighbours(const struct frame *links, const struct gap *gap,
                            const union frame_cell **before_p, const union frame_cell **after_p)
{
    *before_p = *after_p = NULL;
    for (size_t i = 0; i < links->count; i++) {
        const union frame_cell *row = frame_row(links, i);
        if (row[TASK_END].i <= gap->start &&
            (!*before_p || row[TASK_END].i >= (*before_p)[TASK_END].i))
            *before_p = row;
        if (row[TASK_START].i >= gap->end &&
            (!*after_p || row[TASK_START].i < (*after_p)[TASK_START].i))
            *after_p = row;
    }
}

static int64_t or_zero(int64_t value)
{
    return value == RS_NULL ? 0 : value;
}

static void explain_launches(const union frame_cell *before, const union frame_cell *after,
                             union frame_cell *row, char *reason)
{
    char text[40];
    const int64_t torch_idle = or_zero(after[TORCH_END].i) - or_zero(before[TORCH_END].i);
    const int64_t wait_before = or_zero(before[CANN_START].i) - or_zero(before[TORCH_END].i);
    const int64_t wait_after = or_zero(after[CANN_START].i) - or_zero(after[TORCH_END].i);
    const int64_t launch_before = or_zero(before[CANN_END].i) - or_zero(before[CANN_START].i);
    const int64_t launch_after = or_zero(after[CANN_END].i) - or_zero(after[CANN_START].i);
    const int64_t launch = launch_before > launch_after ? launch_before : launch_after;
    const int64_t between = or_zero(after[CANN_START].i) - or_zero(before[CANN_END].i);
    row[TORCH_IDLE].i = torch_idle;
    row[CANN_IDLE].i = or_zero(after[CANN_END].i) - or_zero(before[CANN_END].i);
    if (wait_after - wait_before < WAIT_NS) {
        print_us(torch_idle, text, sizeof text);
        (void)snprintf(reason, REASON_BYTES, "Idle Pytorch layer: no task dispatched in %s us",
                       text);
        return;
    }
    print_us(between >= launch ? between : launch, text, sizeof text);
    (void)snprintf(reason, REASON_BYTES, "Abnormal CANN layer: %s %s us",
                   between >= launch ? "long time between two node@launch" : "long node@launch",
                   text);
}

static enum rs_status explain(const struct frame *links, const struct gap *gap,
                              union frame_cell *row, char *reason)
{
    const union frame_cell *before, *after;
    struct inside inside = {0};
    row[TORCH_IDLE].i = row[CANN_IDLE].i = RS_NULL;
    if (look_inside(links, gap, &inside) != RS_OK) {
        rs_mem_free(inside.kinds);
        return RS_NOMEM;
    }
    if (inside.tasks) {
        explain_tasks(links, &inside, reason);
        rs_mem_free(inside.kinds);
        return RS_OK;
    }
    find_neighbours(links, gap, &before, &after);
    if (!before || !after)
        (void)snprintf(reason, REASON_BYTES, "Skip free analysis due to no prev or next task.");
    else if (or_zero(before[TORCH_START].i) == 0 || or_zero(after[TORCH_START].i) == 0)
        (void)snprintf(reason, REASON_BYTES, "Skip free analysis due to no pytorch dispatch time.");
    else
        explain_launches(before, after, row, reason);
    return RS_OK;
}

/* A number of more than 17 digits as the peer's parser of texts reads it: 17 digits in double
 * arithmetic, then zeros. */
static double parse_like_peer(int64_t value)
{
    char digits[24];
    double number = 0;
    const int length = snprintf(digits, sizeof digits, "%" PRId64, value);
    for (int i = 0; i < length && i < 17; i++)
        number = number * 10.0 + (digits[i] - '0');
    for (int i = 17; i < length; i += 2)
        number *= length - i >= 2 ? 100.0 : 10.0;
    return number;
}

/* The peer's columns of host times become doubles as soon as one task has no call: times since 1970
 * then lie on steps of 256 ns. Those of the framework are texts and are parsed. */
static void blur_host_times(struct frame *links)
{
    for (size_t c = CANN_START; c <= TORCH_END; c++) {
        bool has_null = false;
        for (size_t i = 0; i < links->count && !has_null; i++)
            has_null = frame_row(links, i)[c].i == RS_NULL;
        for (size_t i = 0; i < links->count && has_null; i++) {
            union frame_cell *cell = &links->cells[i * links->columns + c];
            if (cell->i != RS_NULL && cell->i >= 0)
                cell->i = (int64_t)(c < TORCH_START ? (double)cell->i : parse_like_peer(cell->i));
        }
    }
}

static enum rs_status read_links(const struct inputs *in, struct frame *links, struct rs_err *err)
{
    const bool has_torch = db_requires(in->profiler,
                                       "CONNECTION_IDS.id CONNECTION_IDS.connectionId "
                                       "PYTORCH_API.connectionId PYTORCH_API.startNs",
                                       NULL) == RS_OK;
    const bool has_cann = rs_ascend_db_has_column(in->profiler, "CANN_API", "connectionId");
    char sql[800];
    (void)snprintf(sql, sizeof sql,
                   "SELECT y.value, TASK.startNs, TASK.endNs, %s, %s FROM TASK %s "
                   "LEFT JOIN STRING_IDS y ON y.id = TASK.taskType %s ORDER BY TASK.startNs",
                   has_cann ? "a.startNs, a.endNs" : "NULL, NULL",
                   has_torch ? "CAST(p.startNs AS INTEGER), CAST(p.endNs AS INTEGER)"
                             : "NULL, NULL",
                   has_cann ? "LEFT JOIN CANN_API a ON a.connectionId = TASK.connectionId" : "",
                   has_torch ? "LEFT JOIN CONNECTION_IDS k ON k.connectionId = TASK.connectionId "
                               "LEFT JOIN PYTORCH_API p ON p.connectionId = k.id"
                             : "");
    const struct frame_query query = {.sql = sql};
    return frame_load(links, in->profiler, &query, err);
}

static enum rs_status read_busy(const struct inputs *in, struct frame *busy, struct rs_err *err)
{
    static const char tasks[] = "SELECT TASK.startNs, TASK.endNs FROM COMPUTE_TASK_INFO c "
                                "JOIN TASK ON TASK.globalTaskId = c.globalTaskId";
    static const char ops[] = "SELECT startNs, endNs FROM COMMUNICATION_OP";
    struct frame_query query = {.sql = tasks};
    enum rs_status status = RS_OK;
    if (rs_ascend_db_has_column(in->profiler, "COMPUTE_TASK_INFO", "globalTaskId"))
        status = frame_load(busy, in->profiler, &query, err);
    query.sql = ops;
    if (status == RS_OK && rs_ascend_db_has_column(in->profiler, "COMMUNICATION_OP", "startNs"))
        status = frame_load(busy, in->profiler, &query, err);
    if (status == RS_OK && !busy->count)
        status = rs_err_set(err, RS_NOTFOUND, "%s has neither computing nor communication",
                            rs_ascend_db_path(in->profiler));
    return status;
}

static enum rs_status analyse(struct run *run, const struct inputs *in, const struct frame *busy,
                              const struct frame *links, struct frame *part)
{
    struct gap *gaps = NULL;
    size_t count = 0;
    const size_t limit = (size_t)run_top(run, 10);
    enum rs_status status = find_gaps(busy, &gaps, &count);
    for (size_t i = 0; i < count && i < limit && status == RS_OK; i++) {
        char reason[REASON_BYTES] = "";
        union frame_cell *row = frame_add(part);
        if (!row) {
            status = RS_NOMEM;
            break;
        }
        row[RANK].i = in->of->rank;
        row[START].i = gaps[i].start;
        row[END].i = gaps[i].end;
        status = explain(links, &gaps[i], row, reason);
        if (status == RS_OK)
            status = frame_text_id(part, reason, &row[REASON].t);
    }
    rs_mem_free(gaps);
    return status;
}

static void fill(struct inputs *in, struct frame *frames)
{
    struct frame busy = {0}, links = {0};
    if (in->status == RS_OK &&
        (frame_init(&busy, "ii") != RS_OK || frame_init(&links, LINK_KINDS) != RS_OK))
        in_fail(in, RS_NOMEM, "no memory for tasks");
    if (in->status == RS_OK)
        in->status = read_busy(in, &busy, &in->err);
    if (in->status == RS_OK)
        in->status = read_links(in, &links, &in->err);
    if (in->status == RS_OK && in->run->options->compat)
        blur_host_times(&links);
    if (in->status == RS_OK && analyse(in->run, in, &busy, &links, &frames[0]) != RS_OK)
        in_fail(in, RS_NOMEM, "no memory for gaps");
    frame_fini(&busy);
    frame_fini(&links);
}

static const struct result results[] = {
    {.name = "FreeAnalysis",
     .file = "free_analysis.csv",
     .columns = "rankId:i=Rank ID|startTime(us):t=Start Time(us)|endTime(us):t=End Time(us)|"
                "duration(us):r=Duration(us)|pytorchIdleTime(us):r=Pytorch Idle Time(us)|"
                "cannIdleTime(us):r=Cann Idle Time(us)|reason:t=Reason",
     .sql = "SELECT rank, us_text(start), us_text(end), round_even((end - start) * 0.001, 3), "
            "round_even(torch_idle * 0.001, 3), round_even(cann_idle * 0.001, 3), reason "
            "FROM gaps"}};

const struct recipe recipe_free_analysis = {
    .info = {"free_analysis", "the longest idle times of each device, and why", "FreeAnalysis"},
    .folder = "FreeAnalysis",
    .needs = NEED_PROFILER,
    .frames = {{.name = "gaps",
                .columns = "rank:i start:i end:i torch_idle:i cann_idle:i reason:t",
                .requires = "TASK.startNs TASK.endNs TASK.taskType STRING_IDS.value"}},
    .fill = fill,
    .results = results,
    .result_count = COLUMN_COUNT(results),
};
