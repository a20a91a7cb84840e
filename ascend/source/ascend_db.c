/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ascend_pytorch_profiler_R.db and its kin -> batches, in exact ns.
 *
 *   STEP_TIME          -> ProfilerStep#N, and with CANN_API and TASK the window of the step on the device
 *   CANN_API           -> RUNTIME, correlation = connectionId
 *   TASK               -> KERNEL where COMPUTE_TASK_INFO knows it, MEMCPY where its type says so and no operation
 *                         of HCCL launched it
 *   COMMUNICATION_*    -> ascend_db_comm.c
 *   all else           -> ascend_db_rest.c
 *   SESSION_TIME_INFO  -> the recording's span
 *
 * Window of a step (reference 3.3): rows of CANN_API that are nodes, or launched an operation of HCCL (in real
 * files these are nodes, too), and lie fully inside the step on the host -> their connections -> TASK rows
 * of any kind: START = first start, END = the later of last end and the host's.
 *
 * Every table and column is optional: what is missing is NULL and gives no rows. Types come from the enum
 * tables. One pass over TASK; memory grows with connections of steps and with operations.
 */
#include "ascend/source/ascend_db_priv.h"
#include "common/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum { NODE_TYPE = 10000, DEVICES_MAX = 256 };
#define UNSET_CONNECTION INT64_C(4294967295)

/* ---- cells ---- */

void db_put_column(struct db_reader *reader, struct rs_buf *sql, const char *table,
                   const char *alias, const char *column)
{
    const char *comma = sql->length && sql->data[sql->length - 1] != ' ' ? "," : "";
    if (rs_ascend_db_has_column(reader->db, table, column))
        rs_buf_printf(sql, "%s%s.%s", comma, alias, column);
    else
        rs_buf_printf(sql, "%sNULL", comma);
}

enum rs_status db_prepare(struct db_reader *reader, struct rs_buf *sql,
                          struct sqlite3_stmt **rows_p, struct rs_err *err)
{
    const enum rs_status status =
        sql->failed ? rs_err_set(err, RS_NOMEM, "%s: out of memory", reader->a.rank->dir)
                    : rs_ascend_db_prepare(reader->db, rs_buf_text(sql), rows_p, err);
    rs_buf_fini(sql);
    return status;
}

int64_t db_int(struct sqlite3_stmt *rows, int column, int64_t absent)
{
    int64_t value;
    return rs_ascend_column_int(rows, column, &value) ? value : absent;
}

const char *db_name(const struct rs_ascend_names *names, struct sqlite3_stmt *rows, int column)
{
    int64_t id;
    const char *text = NULL;
    if (sqlite3_column_type(rows, column) == SQLITE_TEXT)
        return rs_ascend_column_text(rows, column);
    if (rs_ascend_column_int(rows, column, &id))
        text = rs_ascend_names_find(names, id);
    return text ? text : "";
}

const char *db_string(struct db_reader *reader, struct sqlite3_stmt *rows, int column)
{
    return db_name(&reader->strings, rows, column);
}

bool db_times(struct db_reader *reader, struct sqlite3_stmt *rows, rs_ns *start_p, rs_ns *end_p)
{
    if (rs_ascend_column_int(rows, 0, start_p) && rs_ascend_column_int(rows, 1, end_p) &&
        *end_p >= *start_p && *start_p > 0)
        return true;
    reader->a.rows_bad++;
    return false;
}

enum rs_status db_status(const struct db_reader *reader, enum rs_status status, struct rs_err *err)
{
    return status == RS_OK ? RS_OK
                           : rs_err_set(err, status, "%s: %s", reader->a.rank->profiler_db,
                                        rs_status_text(status));
}

/* ---- connections ---- */

static size_t place_of(const struct db_connections *map, int64_t id)
{
    const uint64_t mixed = (uint64_t)id * UINT64_C(0x9e3779b97f4a7c15);
    size_t at = (size_t)(mixed >> 24) & (map->slot_count - 1);
    while (map->slots[at].is_used && map->slots[at].id != id)
        at = (at + 1) & (map->slot_count - 1);
    return at;
}

struct db_connection *db_connection_find(const struct db_connections *map, int64_t id)
{
    if (!map->slot_count)
        return NULL;
    struct db_connection *slot = &map->slots[place_of(map, id)];
    return slot->is_used ? slot : NULL;
}

enum rs_status db_connection_add(struct db_connections *map, int64_t id,
                                 struct db_connection **connection_p)
{
    if ((map->count + 1) * 2 > map->slot_count) {
        struct db_connections bigger = {.slot_count = map->slot_count ? map->slot_count * 2 : 1024,
                                        .count = map->count};
        bigger.slots = rs_mem_calloc(bigger.slot_count, sizeof *bigger.slots);
        if (!bigger.slots)
            return RS_NOMEM;
        for (size_t i = 0; i < map->slot_count; i++)
            if (map->slots[i].is_used)
                bigger.slots[place_of(&bigger, map->slots[i].id)] = map->slots[i];
        rs_mem_free(map->slots);
        *map = bigger;
    }
    struct db_connection *slot = &map->slots[place_of(map, id)];
    if (!slot->is_used) {
        *slot = (struct db_connection){
            .id = id, .step = DB_NO_STEP, .is_used = true, .device = DB_DEVICE_UNKNOWN};
        map->count++;
    }
    *connection_p = slot;
    return RS_OK;
}

/* ---- the recording's span ---- */

static enum rs_status emit_span(struct db_reader *reader, struct rs_err *err)
{
    static const char *const questions[] = {
        "SELECT min(startTimeNs), max(endTimeNs) FROM SESSION_TIME_INFO",
        "SELECT min(startNs), max(endNs) FROM TASK"};
    static const char *const tables[] = {"SESSION_TIME_INFO", "TASK"};
    for (size_t i = 0; i < 2; i++) {
        struct sqlite3_stmt *rows = NULL;
        struct ascend_row row = {.kind = RS_KIND_TRACE_SPAN,
                                 .category = RS_STR_NONE,
                                 .correlation = -1,
                                 .external_id = -1,
                                 .bytes = -1};
        if (!rs_ascend_db_has_table(reader->db, tables[i]))
            continue;
        enum rs_status status = rs_ascend_db_prepare(reader->db, questions[i], &rows, NULL);
        if (status == RS_OK)
            status = rs_ascend_db_step(reader->db, rows, NULL);
        const bool has_times = status == RS_OK && rs_ascend_column_int(rows, 0, &row.start) &&
                               rs_ascend_column_int(rows, 1, &row.end) && row.end > row.start &&
                               row.start > 0;
        rs_ascend_db_finish(&rows);
        if (!has_times)
            continue;
        size_t at;
        status = ascend_text(&reader->a, "Recording", &row.name);
        if (status == RS_OK)
            status = ascend_host_lane(&reader->a, 0, 0, &row.lane);
        return status == RS_OK ? ascend_emit(&reader->a, &row, &at, err)
                               : db_status(reader, status, err);
    }
    return RS_OK;
}

/* ---- steps on the host ---- */

static enum rs_status add_step(struct db_reader *reader, int64_t number, rs_ns start, rs_ns end)
{
    const enum rs_status status = rs_mem_grow((void **)&reader->steps, &reader->step_capacity,
                                              reader->step_count + 1, sizeof *reader->steps);
    if (status == RS_OK)
        reader->steps[reader->step_count++] =
            (struct db_step){number, start, end, RS_NS_MAX, RS_NS_MIN};
    return status;
}

static int by_start(const void *a_, const void *b_)
{
    const struct db_step *a = a_, *b = b_;
    if (a->host_start != b->host_start)
        return a->host_start < b->host_start ? -1 : 1;
    return (a->number > b->number) - (a->number < b->number);
}

bool db_step_number(const char *name, int64_t *number_p)
{
    char *end;
    if (strncmp(name, "ProfilerStep#", 13) != 0 || name[13] < '0' || name[13] > '9')
        return false;
    *number_p = strtoll(name + 13, &end, 10);
    return *end == '\0' && end - name < 31;
}

static enum rs_status load_step_time(struct db_reader *reader, struct rs_err *err)
{
    struct sqlite3_stmt *rows = NULL;
    if (!rs_ascend_db_has_table(reader->db, "STEP_TIME"))
        return RS_OK;
    struct rs_buf sql = {0};
    rs_buf_string(&sql, "SELECT ");
    db_put_column(reader, &sql, "STEP_TIME", "t", "startNs");
    db_put_column(reader, &sql, "STEP_TIME", "t", "endNs");
    db_put_column(reader, &sql, "STEP_TIME", "t", "id");
    rs_buf_string(&sql, " FROM STEP_TIME t");
    enum rs_status status = db_prepare(reader, &sql, &rows, err);
    while (status == RS_OK && (status = rs_ascend_db_step(reader->db, rows, err)) == RS_OK) {
        rs_ns start, end;
        const int64_t number = db_int(rows, 2, -1);
        if (number >= 0 && db_times(reader, rows, &start, &end))
            status = db_status(reader, add_step(reader, number, start, end), err);
    }
    rs_ascend_db_finish(&rows);
    return status == RS_END ? RS_OK : status;
}

/* Where STEP_TIME is missing, the steps are operators of PYTORCH_API. */
static enum rs_status load_step_ops(struct db_reader *reader, struct rs_err *err)
{
    struct sqlite3_stmt *rows = NULL;
    if (reader->step_count || !rs_ascend_db_has_column(reader->db, "PYTORCH_API", "name") ||
        !rs_ascend_db_has_table(reader->db, "STRING_IDS"))
        return RS_OK;
    enum rs_status status = rs_ascend_db_prepare(
        reader->db,
        "SELECT p.startNs, p.endNs, s.value FROM PYTORCH_API p JOIN STRING_IDS s ON s.id = p.name"
        " WHERE s.value LIKE 'ProfilerStep#%'",
        &rows, err);
    while (status == RS_OK && (status = rs_ascend_db_step(reader->db, rows, err)) == RS_OK) {
        rs_ns start, end;
        int64_t number;
        if (db_step_number(rs_ascend_column_text(rows, 2), &number) &&
            db_times(reader, rows, &start, &end))
            status = db_status(reader, add_step(reader, number, start, end), err);
    }
    rs_ascend_db_finish(&rows);
    return status == RS_END ? RS_OK : status;
}

static enum rs_status emit_steps(struct db_reader *reader, struct rs_err *err)
{
    enum rs_status status = load_step_time(reader, err);
    if (status == RS_OK)
        status = load_step_ops(reader, err);
    if (status == RS_OK && reader->step_count)
        qsort(reader->steps, reader->step_count, sizeof *reader->steps, by_start);
    for (size_t i = 0; i < reader->step_count && status == RS_OK; i++) {
        char name[40];
        size_t at;
        struct ascend_row row = {.kind = RS_KIND_USER_ANNOTATION,
                                 .start = reader->steps[i].host_start,
                                 .end = reader->steps[i].host_end,
                                 .correlation = -1,
                                 .external_id = -1,
                                 .bytes = -1};
        (void)snprintf(name, sizeof name, "ProfilerStep#%" PRId64, reader->steps[i].number);
        status = ascend_text(&reader->a, name, &row.name);
        if (status == RS_OK)
            status = ascend_text(&reader->a, "user_annotation", &row.category);
        if (status == RS_OK)
            status = ascend_host_lane(&reader->a, 0, 0, &row.lane);
        status = status == RS_OK ? ascend_emit(&reader->a, &row, &at, err)
                                 : db_status(reader, status, err);
    }
    return status;
}

/* ---- CANN_API ---- */

/* The step in which [start, end] lies fully; DB_NO_STEP. Steps of one thread do not overlap: the last that starts
 * before is the only one to ask. */
static uint32_t step_around(const struct db_reader *reader, rs_ns start, rs_ns end)
{
    size_t low = 0, high = reader->step_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (reader->steps[middle].host_start <= start)
            low = middle + 1;
        else
            high = middle;
    }
    return low && end <= reader->steps[low - 1].host_end ? (uint32_t)(low - 1) : DB_NO_STEP;
}

/* The number of the type "node" in this file. */
static bool is_node(const struct db_reader *reader, struct sqlite3_stmt *rows, int column)
{
    const char *name = db_name(&reader->api_types, rows, column);
    return *name ? strcasecmp(name, "node") == 0 : db_int(rows, column, -1) == NODE_TYPE;
}

static enum rs_status emit_api(struct db_reader *reader, struct sqlite3_stmt *rows,
                               struct rs_err *err)
{
    struct ascend *a = &reader->a;
    struct ascend_row row = {
        .kind = RS_KIND_RUNTIME, .correlation = -1, .external_id = -1, .bytes = -1};
    if (!db_times(reader, rows, &row.start, &row.end))
        return RS_OK;
    const int64_t connection = db_int(rows, 4, UNSET_CONNECTION);
    enum rs_status status = RS_OK;
    if (connection != UNSET_CONNECTION && connection >= 0) {
        row.correlation = connection;
        struct db_connection *known = db_connection_find(&reader->connections, connection);
        const bool bounds = is_node(reader, rows, 2) || (known && known->is_op);
        const uint32_t step = bounds ? step_around(reader, row.start, row.end) : DB_NO_STEP;
        if (step != DB_NO_STEP) {
            status = db_connection_add(&reader->connections, connection, &known);
            if (status == RS_OK)
                known->step = step;
        }
    }
    const uint64_t global = (uint64_t)db_int(rows, 3, 0);
    if (status == RS_OK)
        status = ascend_text(a, db_string(reader, rows, 5), &row.name);
    if (status == RS_OK)
        status = ascend_text(a, db_name(&reader->api_types, rows, 2), &row.category);
    if (status == RS_OK)
        status =
            ascend_host_lane(a, (int64_t)(global >> 32), (int64_t)(global & UINT32_MAX), &row.lane);
    size_t at;
    return status == RS_OK ? ascend_emit(a, &row, &at, err) : db_status(reader, status, err);
}

enum rs_status db_emit_table(struct db_reader *reader, const char *table,
                             const char *const *columns, db_row_fn *each, struct rs_err *err)
{
    return db_emit_rows(reader, table, columns, "", each, err);
}

enum rs_status db_emit_rows(struct db_reader *reader, const char *table, const char *const *columns,
                            const char *where, db_row_fn *each, struct rs_err *err)
{
    struct sqlite3_stmt *rows = NULL;
    struct rs_buf sql = {0};
    if (!rs_ascend_db_has_table(reader->db, table))
        return RS_OK;
    rs_buf_string(&sql, "SELECT ");
    for (size_t i = 0; columns[i]; i++)
        db_put_column(reader, &sql, table, "t", columns[i]);
    rs_buf_printf(&sql, " FROM %s t%s", table, where);
    enum rs_status status = db_prepare(reader, &sql, &rows, err);
    while (status == RS_OK && (status = rs_ascend_db_step(reader->db, rows, err)) == RS_OK)
        status = each(reader, rows, err);
    rs_ascend_db_finish(&rows);
    return status == RS_END ? RS_OK : status;
}

/* ---- TASK ---- */

enum task_column {
    TASK_START,
    TASK_END,
    TASK_DEVICE,
    TASK_CONNECTION,
    TASK_TYPE,
    TASK_STREAM,
    COMPUTE_NAME,
    COMPUTE_TYPE,
    COMPUTE_SHAPES,
    COMPUTE_DTYPES,
    COPY_BYTES,
    COMPUTE_MORE, /* compute_more[] */
};

/* What else is said of an operator, under the newer name of columns that were renamed. */
static const struct {
    const char *name, *older; /* columns; NULL: it was always called so */
    bool is_text;
} compute_more[] = {{"taskType", NULL, true},
                    {"blockNum", "blockDim", false},
                    {"mixBlockNum", "mixBlockDim", false},
                    {"inputFormats", NULL, true},
                    {"outputShapes", NULL, true},
                    {"outputDataTypes", NULL, true},
                    {"outputFormats", NULL, true},
                    {"attrInfo", NULL, true},
                    {"opState", NULL, true},
                    {"hf32Eligible", NULL, true}};
enum { COMPUTE_MORE_COUNT = sizeof compute_more / sizeof compute_more[0] };

static enum rs_status note_device(struct db_reader *reader, int64_t device)
{
    for (size_t i = reader->device_count; i-- > 0;)
        if (reader->devices[i] == device)
            return RS_OK;
    if (reader->device_count >= DEVICES_MAX)
        return RS_LIMIT;
    const enum rs_status status = rs_mem_grow((void **)&reader->devices, &reader->device_capacity,
                                              reader->device_count + 1, sizeof *reader->devices);
    if (status == RS_OK)
        reader->devices[reader->device_count++] = (int32_t)device;
    return status;
}

/* What the task tells of its connection. */
static void note_connection(struct db_reader *reader, struct db_connection *known, int64_t device,
                            const struct ascend_row *row)
{
    if (known->device == DB_DEVICE_UNKNOWN)
        known->device = (int32_t)device;
    else if (known->device != device)
        known->device = DB_DEVICE_SEVERAL;
    if (known->step == DB_NO_STEP)
        return;
    struct db_step *step = &reader->steps[known->step];
    step->start = row->start < step->start ? row->start : step->start;
    step->end = row->end > step->end ? row->end : step->end;
}

static bool is_set(const char *type)
{
    return strncasecmp(type, "MEMSET", 6) == 0;
}

static bool is_copy(const char *type)
{
    return strncasecmp(type, "MEMCPY", 6) == 0 || is_set(type);
}

static enum rs_status emit_compute(struct db_reader *reader, struct sqlite3_stmt *rows,
                                   struct ascend_row *row, struct rs_err *err)
{
    struct ascend *a = &reader->a;
    row->kind = RS_KIND_KERNEL;
    row->flags = RS_EVENT_COMPUTING;
    enum rs_status status = ascend_text(a, db_string(reader, rows, COMPUTE_NAME), &row->name);
    if (status == RS_OK)
        status = ascend_text(a, "kernel", &row->category);
    if (status != RS_OK)
        return db_status(reader, status, err);
    size_t at;
    status = ascend_emit(a, row, &at, err);
    if (status != RS_OK || !a->is_lossless)
        return status;
    struct db_member members[COMPUTE_MORE_COUNT + 1] = {{COMPUTE_TYPE, true, "opType"}};
    for (int i = 0; i < COMPUTE_MORE_COUNT; i++)
        members[i + 1] =
            (struct db_member){COMPUTE_MORE + i, compute_more[i].is_text, compute_more[i].name};
    const char *shapes = db_string(reader, rows, COMPUTE_SHAPES);
    const char *dtypes = db_string(reader, rows, COMPUTE_DTYPES);
    if (*shapes)
        status = ascend_text(a, shapes, &a->batch.input_dims[at]);
    if (status == RS_OK && *dtypes)
        status = ascend_text(a, dtypes, &a->batch.input_types[at]);
    if (status == RS_OK)
        status = db_put_members(reader, rows, members, COMPUTE_MORE_COUNT + 1, at);
    return db_status(reader, status, err);
}

static enum rs_status emit_task(struct db_reader *reader, struct sqlite3_stmt *rows,
                                struct rs_err *err)
{
    struct ascend *a = &reader->a;
    struct ascend_row row = {.correlation = -1, .external_id = -1, .bytes = -1};
    if (!db_times(reader, rows, &row.start, &row.end))
        return RS_OK;
    int64_t device = db_int(rows, TASK_DEVICE, reader->map_device);
    device = device >= 0 && device <= INT32_MAX ? device : 0;
    const int64_t connection = db_int(rows, TASK_CONNECTION, UNSET_CONNECTION);
    struct db_connection *known = NULL;
    if (connection != UNSET_CONNECTION && connection >= 0) {
        row.correlation = connection;
        known = db_connection_find(&reader->connections, connection);
    }
    enum rs_status status = note_device(reader, device);
    if (known)
        note_connection(reader, known, device, &row);
    const bool is_compute = sqlite3_column_type(rows, COMPUTE_NAME) != SQLITE_NULL;
    const char *type = db_string(reader, rows, TASK_TYPE);
    if (status == RS_OK && !is_compute && (!is_copy(type) || (known && known->is_op)))
        return RS_OK;
    if (status == RS_OK)
        status = ascend_device_lane(a, device, db_int(rows, TASK_STREAM, 0), NULL, &row.lane);
    if (status != RS_OK)
        return db_status(reader, status, err);
    if (is_compute)
        return emit_compute(reader, rows, &row, err);
    row.kind = is_set(type) ? RS_KIND_MEMSET : RS_KIND_MEMCPY;
    row.bytes = db_int(rows, COPY_BYTES, -1);
    status = ascend_text(a, type, &row.name);
    if (status == RS_OK)
        status = ascend_text(a, is_set(type) ? "gpu_memset" : "gpu_memcpy", &row.category);
    size_t at;
    return status == RS_OK ? ascend_emit(a, &row, &at, err) : db_status(reader, status, err);
}

static enum rs_status emit_tasks(struct db_reader *reader, struct rs_err *err)
{
    struct sqlite3_stmt *rows = NULL;
    struct rs_buf sql = {0};
    if (!rs_ascend_db_has_table(reader->db, "TASK"))
        return RS_OK;
    const bool has_compute =
        rs_ascend_db_has_column(reader->db, "COMPUTE_TASK_INFO", "globalTaskId");
    const bool has_copies = rs_ascend_db_has_column(reader->db, "MEMCPY_INFO", "globalTaskId");
    static const char *const own[] = {"startNs",      "endNs",    "deviceId",
                                      "connectionId", "taskType", "streamId"};
    static const char *const theirs[] = {"name", "opType", "inputShapes", "inputDataTypes"};
    rs_buf_string(&sql, "SELECT ");
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        db_put_column(reader, &sql, "TASK", "t", own[i]);
    for (size_t i = 0; i < sizeof theirs / sizeof theirs[0]; i++)
        db_put_column(reader, &sql, has_compute ? "COMPUTE_TASK_INFO" : "", "c", theirs[i]);
    db_put_column(reader, &sql, has_copies ? "MEMCPY_INFO" : "", "m", "size");
    for (size_t i = 0; i < COMPUTE_MORE_COUNT; i++) {
        const bool has_older =
            compute_more[i].older &&
            !rs_ascend_db_has_column(reader->db, "COMPUTE_TASK_INFO", compute_more[i].name);
        db_put_column(reader, &sql, has_compute ? "COMPUTE_TASK_INFO" : "", "c",
                      has_older ? compute_more[i].older : compute_more[i].name);
    }
    rs_buf_printf(&sql, " FROM TASK t%s%s",
                  has_compute ? " LEFT JOIN COMPUTE_TASK_INFO c ON c.globalTaskId = t.globalTaskId"
                              : "",
                  has_copies ? " LEFT JOIN MEMCPY_INFO m ON m.globalTaskId = t.globalTaskId" : "");
    enum rs_status status = db_prepare(reader, &sql, &rows, err);
    while (status == RS_OK && (status = rs_ascend_db_step(reader->db, rows, err)) == RS_OK)
        status = emit_task(reader, rows, err);
    rs_ascend_db_finish(&rows);
    return status == RS_END ? RS_OK : status;
}

static enum rs_status emit_windows(struct db_reader *reader, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    for (size_t d = 0; d < reader->device_count; d++) {
        for (size_t i = 0; i < reader->step_count && status == RS_OK; i++) {
            const struct db_step *step = &reader->steps[i];
            const bool has_work = step->start != RS_NS_MAX;
            struct ascend_row row = {.kind = RS_KIND_STEP_WINDOW,
                                     .category = RS_STR_NONE,
                                     .start = has_work ? step->start : step->host_start,
                                     .end = has_work && step->end > step->host_end ? step->end
                                                                                   : step->host_end,
                                     .correlation = step->number,
                                     .external_id = -1,
                                     .bytes = -1};
            size_t at;
            status = ascend_text(&reader->a, "ProfilerStep", &row.name);
            if (status == RS_OK)
                status = ascend_device_lane(&reader->a, reader->devices[d], 0, NULL, &row.lane);
            status = status == RS_OK ? ascend_emit(&reader->a, &row, &at, err)
                                     : db_status(reader, status, err);
        }
    }
    return status;
}

/* ---- who and where ---- */

/* The machine: two hosts may bear one name, so its id stands behind the name. */
static enum rs_status report_host(struct db_reader *reader)
{
    char *uid = NULL, *name = NULL;
    enum rs_status status = rs_ascend_db_host(reader->db, &uid, &name, NULL);
    if (status == RS_OK && (*uid || *name)) {
        char text[512];
        (void)snprintf(text, sizeof text, *uid && *name ? "%.200s (%.200s)" : "%.200s%.200s", name,
                       uid);
        status = ascend_text(&reader->a, text, &reader->a.stream->info.host);
    }
    rs_mem_free(uid);
    rs_mem_free(name);
    return status == RS_NOMEM ? RS_NOMEM : RS_OK;
}

/* Groups that META_DATA names, when the directory's own metadata does not. */
static enum rs_status take_metadata(struct db_reader *reader)
{
    struct rs_ascend_metadata meta;
    if (reader->a.meta.has_groups)
        return RS_OK;
    const enum rs_status status = rs_ascend_db_metadata(reader->db, &meta, NULL);
    if (status == RS_OK) {
        rs_ascend_metadata_fini(&reader->a.meta);
        reader->a.meta = meta;
    }
    return status == RS_NOMEM ? RS_NOMEM : RS_OK;
}

/* What META_DATA says of the rank's environment, and what the user added. */
static enum rs_status take_setting(struct db_reader *reader, struct sqlite3_stmt *rows,
                                   struct rs_err *err)
{
    return db_status(
        reader,
        ascend_setting(&reader->a, rs_ascend_column_text(rows, 0), rs_ascend_column_text(rows, 1)),
        err);
}

static enum rs_status load_names(struct db_reader *reader, struct rs_err *err)
{
    const struct {
        const char *table;
        struct rs_ascend_names *names;
    } tables[] = {{"STRING_IDS", &reader->strings},
                  {"ENUM_API_TYPE", &reader->api_types},
                  {"ENUM_HCCL_LINK_TYPE", &reader->link_types},
                  {"ENUM_HCCL_DATA_TYPE", &reader->data_types},
                  {"ENUM_HCCL_RDMA_TYPE", &reader->rdma_types}};
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < sizeof tables / sizeof tables[0] && status == RS_OK; i++)
        status = rs_ascend_names_load(reader->db, tables[i].table, tables[i].names, err);
    return status;
}

static enum rs_status read_tables(struct db_reader *reader, struct rs_err *err)
{
    static const char *const api[] = {"startNs",      "endNs", "type", "globalTid",
                                      "connectionId", "name",  NULL};
    static const char *const meta[] = {"name", "value", NULL};
    enum rs_status status = db_check(reader, err);
    if (status == RS_OK)
        status = load_names(reader, err);
    if (status == RS_OK)
        status = db_status(reader, report_host(reader), err);
    if (status == RS_OK)
        status = db_status(reader, take_metadata(reader), err);
    if (status == RS_OK)
        status = db_emit_table(reader, "META_DATA", meta, take_setting, err);
    if (status == RS_OK)
        status = emit_span(reader, err);
    if (status == RS_OK)
        status = emit_steps(reader, err);
    if (status == RS_OK)
        status = db_load_ops(reader, err);
    if (status == RS_OK)
        status = db_emit_table(reader, "CANN_API", api, emit_api, err);
    if (status == RS_OK)
        status = emit_tasks(reader, err);
    if (status == RS_OK)
        status = emit_windows(reader, err);
    db_settle_devices(reader);
    if (status == RS_OK)
        status = db_emit_hops(reader, err);
    if (status == RS_OK)
        status = db_emit_ops(reader, err);
    if (status == RS_OK)
        status = db_read_marks(reader, err);
    if (status == RS_OK)
        status = db_read_operators(reader, err);
    if (status == RS_OK)
        status = db_read_rest(reader, err);
    return status;
}

static void reader_fini(struct db_reader *reader)
{
    rs_ascend_names_fini(&reader->strings);
    rs_ascend_names_fini(&reader->api_types);
    rs_ascend_names_fini(&reader->link_types);
    rs_ascend_names_fini(&reader->data_types);
    rs_ascend_names_fini(&reader->rdma_types);
    rs_mem_free(reader->steps);
    rs_mem_free(reader->connections.slots);
    rs_mem_free(reader->ops);
    rs_mem_free(reader->stretches);
    rs_mem_free(reader->devices);
    rs_ascend_db_close(&reader->db);
    ascend_close(&reader->a);
}

/* A single card's database says whose it is where the directory does not. */
static void ask_device(struct db_reader *reader)
{
    int64_t rank, device;
    reader->map_device = -1;
    if (rs_ascend_db_rank(reader->db, &rank, &device, NULL) == RS_OK)
        reader->map_device = device;
}

static enum rs_status form_of(struct db_reader *reader, char form[64])
{
    char *version = NULL;
    const enum rs_status status = rs_ascend_db_meta(reader->db, "SCHEMA_VERSION", &version, NULL);
    (void)snprintf(form, 64, status == RS_OK ? "database, schema %.40s" : "database%.0s",
                   status == RS_OK ? version : "");
    rs_mem_free(version);
    return status == RS_NOMEM ? RS_NOMEM : RS_OK;
}

/* Whose fault is it, and was anything read before it? What was emitted stays; the rest is reported. */
static enum rs_status end_early(struct db_reader *reader, enum rs_status status,
                                const struct rs_err *why, struct rs_err *err)
{
    const bool is_damage = status == RS_FORMAT && reader->a.stream->info.rows_read > 0;
    if (!is_damage)
        return rs_err_set(err, status, "%s", why->text);
    return db_status(reader, ascend_partial(&reader->a, why->text), err);
}

enum rs_status rs_ascend_db_read(const struct rs_ascend_rank *rank, unsigned flags,
                                 struct rs_source_stream *stream, struct rs_sink sink,
                                 struct rs_err *err)
{
    struct db_reader reader = {0};
    struct rs_err why = {0};
    struct stat about;
    char form[64] = "";
    if (!rank->profiler_db)
        return rs_err_set(err, RS_NOTFOUND, "%s holds no profiler database", rank->dir);
    enum rs_status status = ascend_open(&reader.a, rank, flags, stream, sink, err);
    if (status == RS_OK)
        status = rs_ascend_db_open(rank->profiler_db, &reader.db, err);
    if (status == RS_OK) {
        if (stat(rank->profiler_db, &about) == 0)
            stream->info.input_bytes = about.st_size;
        ask_device(&reader);
        status = db_status(&reader, form_of(&reader, form), err);
    }
    if (status == RS_OK) {
        status = read_tables(&reader, &why);
        if (status < 0)
            status = end_early(&reader, status, &why, err);
    }
    if (status == RS_OK)
        status = ascend_finish(&reader.a, form, err);
    reader_fini(&reader);
    return status;
}
