/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace_view.json and the layer OVERLAP_ANALYSIS, both read from the tables: there is nothing in them that is not
 * there.
 *
 *     layer               pid                     from
 *     Python              process                 PYTORCH_API, MSTX_EVENTS, RANKSCOPE_COUNTER
 *     Python GC           p << 10 | 1 << 5 | 31   GC_RECORD
 *     CANN                p << 10 | 7 << 5 | 31   CANN_API
 *     Ascend Hardware     p << 10 | 14 << 5 | d   TASK; flows HostToDevice from the call that launched it
 *     Communication       p << 10 | 16 << 5 | d   COMMUNICATION_OP
 *     Overlap Analysis    p << 10 | 31 << 5 | d   OVERLAP_ANALYSIS
 *
 * The names of layers are the vendor's, whatever made the recording: viewers look for them. ts is a string of us with
 * three decimals, dur a number.
 */
#include "ascend/export/export_priv.h"
#include "common/base/file.h"
#include "common/base/json_out.h"
#include "common/base/mem.h"

#include <sqlite3.h>

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static enum rs_status failed(const struct rs_export_ascend *e, struct rs_err *err)
{
    return rs_err_set(err, RS_IO, "cannot read back %s: %s", e->rows.path,
                      sqlite3_errmsg(e->rows.handle));
}

static enum rs_status ask(const struct rs_export_ascend *e, const char *sql, sqlite3_stmt **rows_p,
                          struct rs_err *err)
{
    return sqlite3_prepare_v2(e->rows.handle, sql, -1, rows_p, NULL) == SQLITE_OK ? RS_OK
                                                                                  : failed(e, err);
}

/* ---- OVERLAP_ANALYSIS ---- */

struct span {
    rs_ns start, end;
};
struct spans {
    LIST(struct span);
};

static enum rs_status push(struct spans *spans, rs_ns start, rs_ns end, struct rs_err *err)
{
    const enum rs_status status = no_room(rs_mem_grow((void **)&spans->items, &spans->capacity,
                                                      spans->count + 1, sizeof *spans->items),
                                          err);
    if (status == RS_OK)
        spans->items[spans->count++] = (struct span){start, end};
    return status;
}

/* Rows by start -> spans that do not touch. */
static enum rs_status load_spans(const struct rs_export_ascend *e, const char *sql, int64_t device,
                                 struct spans *spans, struct rs_err *err)
{
    sqlite3_stmt *rows = NULL;
    enum rs_status status = ask(e, sql, &rows, err);
    if (status != RS_OK)
        return status;
    (void)sqlite3_bind_int64(rows, 1, device);
    int code;
    while (status == RS_OK && (code = sqlite3_step(rows)) == SQLITE_ROW) {
        const rs_ns start = sqlite3_column_int64(rows, 0), end = sqlite3_column_int64(rows, 1);
        struct span *last = spans->count ? &spans->items[spans->count - 1] : NULL;
        if (end <= start)
            continue;
        if (last && start <= last->end)
            last->end = end > last->end ? end : last->end;
        else
            status = push(spans, start, end, err);
    }
    if (status == RS_OK && code != SQLITE_DONE)
        status = failed(e, err);
    (void)sqlite3_finalize(rows);
    return status;
}

/* a \ b, both without touching spans, by start. */
static enum rs_status subtract(const struct spans *a, const struct spans *b, struct spans *rest,
                               struct rs_err *err)
{
    size_t at = 0;
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < a->count && status == RS_OK; i++) {
        rs_ns from = a->items[i].start;
        const rs_ns to = a->items[i].end;
        while (at < b->count && b->items[at].end <= from)
            at++;
        for (size_t k = at; k < b->count && b->items[k].start < to && status == RS_OK; k++) {
            if (b->items[k].start > from)
                status = push(rest, from, b->items[k].start, err);
            from = b->items[k].end > from ? b->items[k].end : from;
        }
        if (from < to && status == RS_OK)
            status = push(rest, from, to, err);
    }
    return status;
}

static enum rs_status put_layer(struct rs_export_ascend *e, int64_t device, int type,
                                const struct spans *spans, int64_t *next_p, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < spans->count && status == RS_OK; i++) {
        struct db_row row = db_row_begin(&e->rows, T_OVERLAP);
        db_row_int(&row, (*next_p)++, true);
        db_row_int(&row, device, true);
        db_row_int(&row, spans->items[i].start, true);
        db_row_int(&row, spans->items[i].end, true);
        db_row_int(&row, type, true);
        status = db_row_end(&e->rows, &row, err);
    }
    return status;
}

enum {
    LAYER_COMPUTING,
    LAYER_COMMUNICATION,
    LAYER_EXPOSED,
    LAYER_FREE,
    LAYER_BUSY,
    LAYER_ALL,
    LAYER_COUNT
};

/* Free: of the span from the first to the last task, what is neither computing nor communication. */
static enum rs_status overlap_of(struct rs_export_ascend *e, int64_t device, int64_t *next_p,
                                 struct rs_err *err)
{
    static const char *const sources[LAYER_COUNT] = {
        [LAYER_COMPUTING] =
            "SELECT t.startNs, t.endNs FROM TASK t JOIN COMPUTE_TASK_INFO c "
            "ON c.globalTaskId = t.globalTaskId WHERE t.deviceId = ?1 ORDER BY 1, 2",
        [LAYER_COMMUNICATION] = "SELECT startNs, endNs FROM COMMUNICATION_OP WHERE deviceId = ?1 "
                                "ORDER BY 1, 2",
        [LAYER_BUSY] =
            "SELECT t.startNs, t.endNs FROM TASK t JOIN COMPUTE_TASK_INFO c ON c.globalTaskId = "
            "t.globalTaskId WHERE t.deviceId = ?1 UNION ALL SELECT startNs, endNs FROM "
            "COMMUNICATION_OP WHERE deviceId = ?1 ORDER BY 1, 2",
        [LAYER_ALL] = "SELECT min(startNs), max(endNs) FROM TASK WHERE deviceId = ?1"};
    struct spans layers[LAYER_COUNT] = {0};
    enum rs_status status = RS_OK;
    for (int i = 0; i < LAYER_COUNT && status == RS_OK; i++)
        if (sources[i])
            status = load_spans(e, sources[i], device, &layers[i], err);
    if (status == RS_OK)
        status = subtract(&layers[LAYER_COMMUNICATION], &layers[LAYER_COMPUTING],
                          &layers[LAYER_EXPOSED], err);
    if (status == RS_OK)
        status = subtract(&layers[LAYER_ALL], &layers[LAYER_BUSY], &layers[LAYER_FREE], err);
    for (int i = 0; i <= LAYER_FREE && status == RS_OK; i++)
        status = put_layer(e, device, i, &layers[i], next_p, err);
    for (int i = 0; i < LAYER_COUNT; i++)
        rs_mem_free(layers[i].items);
    return status;
}

enum rs_status trace_overlap(struct rs_export_ascend *e, struct rs_err *err)
{
    int64_t next = 1;
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < e->devices.count && status == RS_OK; i++)
        status = overlap_of(e, e->devices.items[i], &next, err);
    return status;
}

/* ---- trace_view.json ---- */

enum {
    LAYER_GC = 1,
    LAYER_CANN = 7,
    LAYER_HARDWARE = 14,
    LAYER_COMM = 16,
    LAYER_OVERLAP = 31,
    HOST_DEVICE = 31
};

struct trace {
    struct rs_export_ascend *e;
    struct rs_buf buf;
    struct rs_json_out json;
    char *path;
    int fd;
    int64_t pid;
};

static int64_t layer_pid(const struct trace *t, int64_t layer, int64_t device)
{
    return (int64_t)((uint64_t)t->pid << 10 | (uint64_t)layer << 5 | ((uint64_t)device & 31));
}

static enum rs_status drain(struct trace *t, size_t above, struct rs_err *err)
{
    if (t->buf.length <= above)
        return RS_OK;
    if (t->buf.failed)
        return no_room(RS_NOMEM, err);
    const enum rs_status status =
        rs_file_write_all(t->fd, t->buf.data, t->buf.length, t->path, err);
    rs_buf_reset(&t->buf);
    return status;
}

static void key_text(struct trace *t, const char *key, const char *text)
{
    rs_json_out_key(&t->json, key);
    rs_json_out_string(&t->json, text ? text : "");
}

static void key_int(struct trace *t, const char *key, int64_t value)
{
    rs_json_out_key(&t->json, key);
    rs_json_out_int(&t->json, value);
}

static void put_us(char text[32], int64_t ns)
{
    const uint64_t size = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
    (void)snprintf(text, 32, "%s%" PRIu64 ".%03d", ns < 0 ? "-" : "", size / 1000,
                   (int)(size % 1000));
}

static void key_ts(struct trace *t, int64_t ns)
{
    char text[32];
    put_us(text, ns);
    key_text(t, "ts", text);
}

static void key_dur(struct trace *t, int64_t ns)
{
    char text[32];
    put_us(text, ns < 0 ? 0 : ns);
    rs_json_out_key(&t->json, "dur");
    rs_json_out_number(&t->json, text);
}

/* An M row: `text`, or the number where there is none. */
struct meta {
    const char *what, *key, *text;
    int64_t number;
};

static void put_meta(struct trace *t, int64_t pid, int64_t tid, struct meta meta)
{
    rs_json_out_object(&t->json);
    key_text(t, "ph", "M");
    key_text(t, "name", meta.what);
    key_int(t, "pid", pid);
    key_int(t, "tid", tid);
    rs_json_out_key(&t->json, "args");
    rs_json_out_object(&t->json);
    if (meta.text)
        key_text(t, meta.key, meta.text);
    else
        key_int(t, meta.key, meta.number);
    rs_json_out_end(&t->json);
    rs_json_out_end(&t->json);
}

static void put_process(struct trace *t, int64_t pid, const char *name, const char *label,
                        int64_t order)
{
    put_meta(t, pid, 0, (struct meta){"process_name", "name", name, 0});
    put_meta(t, pid, 0, (struct meta){"process_labels", "labels", label, 0});
    put_meta(t, pid, 0, (struct meta){"process_sort_index", "sort_index", NULL, order});
}

/* The head of an X row, its object left open. */
static void open_event(struct trace *t, const char *name, int64_t pid, int64_t tid, rs_ns start,
                       rs_ns end)
{
    rs_json_out_object(&t->json);
    key_text(t, "ph", "X");
    key_text(t, "name", name);
    key_int(t, "pid", pid);
    key_int(t, "tid", tid);
    key_ts(t, start);
    key_dur(t, end - start);
}

static void put_flow(struct trace *t, const char *phase, int64_t connection, int64_t pid,
                     int64_t tid, rs_ns at)
{
    char text[48];
    rs_json_out_object(&t->json);
    (void)snprintf(text, sizeof text, "HostToDevice%" PRId64, connection);
    key_text(t, "name", text);
    key_text(t, "ph", phase);
    key_text(t, "cat", "HostToDevice");
    (void)snprintf(text, sizeof text, "%" PRId64, connection);
    key_text(t, "id", text);
    key_int(t, "pid", pid);
    key_int(t, "tid", tid);
    key_ts(t, at);
    if (*phase == 'f')
        key_text(t, "bp", "e");
    rs_json_out_end(&t->json);
}

static const char *text_at(sqlite3_stmt *rows, int column)
{
    return (const char *)sqlite3_column_text(rows, column);
}

typedef void event_fn(struct trace *t, sqlite3_stmt *rows);

/* What the vendor calls the rows of the framework, by their type; its queue has two ends. */
static const char *category_of(sqlite3_stmt *rows)
{
    switch (sqlite3_column_int64(rows, 4)) {
    case 50002:
        return *text_at(rows, 3) == 'D' ? "dequeue" : "enqueue";
    case 50003:
        return "python_function";
    case 50004:
        return "mstx";
    default:
        return "cpu_op";
    }
}

static void host_event(struct trace *t, sqlite3_stmt *rows)
{
    const int64_t tid = sqlite3_column_int64(rows, 2);
    open_event(t, text_at(rows, 3), t->pid, tid & UINT32_MAX, sqlite3_column_int64(rows, 0),
               sqlite3_column_int64(rows, 1));
    key_text(t, "cat", category_of(rows));
    rs_json_out_key(&t->json, "args");
    rs_json_out_object(&t->json);
    if (sqlite3_column_type(rows, 5) != SQLITE_NULL)
        key_int(t, "Sequence number", sqlite3_column_int64(rows, 5));
    if (sqlite3_column_type(rows, 6) != SQLITE_NULL)
        key_text(t, "Input Dims", text_at(rows, 6));
    if (sqlite3_column_type(rows, 7) != SQLITE_NULL)
        key_text(t, "Input type", text_at(rows, 7));
    if (sqlite3_column_type(rows, 8) != SQLITE_NULL)
        key_text(t, "Call stack", text_at(rows, 8));
    rs_json_out_end(&t->json);
    rs_json_out_end(&t->json);
}

/* A collection stops the whole process, so it is nobody's lane but its own. */
static void gc_event(struct trace *t, sqlite3_stmt *rows)
{
    open_event(t, "GC", layer_pid(t, LAYER_GC, HOST_DEVICE),
               sqlite3_column_int64(rows, 2) & UINT32_MAX, sqlite3_column_int64(rows, 0),
               sqlite3_column_int64(rows, 1));
    key_text(t, "cat", "GC");
    rs_json_out_end(&t->json);
}

static void mark_event(struct trace *t, sqlite3_stmt *rows)
{
    open_event(t, text_at(rows, 3), t->pid, sqlite3_column_int64(rows, 2) & UINT32_MAX,
               sqlite3_column_int64(rows, 0), sqlite3_column_int64(rows, 1));
    key_text(t, "cat", "mstx");
    rs_json_out_end(&t->json);
}

static void api_event(struct trace *t, sqlite3_stmt *rows)
{
    const int64_t pid = layer_pid(t, LAYER_CANN, HOST_DEVICE);
    const int64_t tid = sqlite3_column_int64(rows, 2) & UINT32_MAX;
    const int64_t connection = sqlite3_column_int64(rows, 4);
    char name[512];
    (void)snprintf(name, sizeof name, "%s@%s", text_at(rows, 5), text_at(rows, 3));
    open_event(t, name, pid, tid, sqlite3_column_int64(rows, 0), sqlite3_column_int64(rows, 1));
    rs_json_out_key(&t->json, "args");
    rs_json_out_object(&t->json);
    key_int(t, "Thread Id", tid);
    key_text(t, "level", text_at(rows, 5));
    key_int(t, "connection_id", connection);
    rs_json_out_end(&t->json);
    rs_json_out_end(&t->json);
    if (strcmp(text_at(rows, 5), "node") == 0)
        put_flow(t, "s", connection, pid, tid, sqlite3_column_int64(rows, 0));
}

static void task_event(struct trace *t, sqlite3_stmt *rows)
{
    const int64_t pid = layer_pid(t, LAYER_HARDWARE, sqlite3_column_int64(rows, 2));
    const int64_t stream = sqlite3_column_int64(rows, 3);
    const bool has_connection = sqlite3_column_type(rows, 4) != SQLITE_NULL;
    open_event(t, text_at(rows, 6) ? text_at(rows, 6) : text_at(rows, 5), pid, stream,
               sqlite3_column_int64(rows, 0), sqlite3_column_int64(rows, 1));
    rs_json_out_key(&t->json, "args");
    rs_json_out_object(&t->json);
    key_text(t, "Task Type", text_at(rows, 5));
    key_int(t, "Physic Stream Id", stream);
    if (has_connection)
        key_int(t, "connection_id", sqlite3_column_int64(rows, 4));
    rs_json_out_end(&t->json);
    rs_json_out_end(&t->json);
    if (has_connection)
        put_flow(t, "f", sqlite3_column_int64(rows, 4), pid, stream, sqlite3_column_int64(rows, 0));
}

static void comm_event(struct trace *t, sqlite3_stmt *rows)
{
    const int64_t pid = layer_pid(t, LAYER_COMM, sqlite3_column_int64(rows, 2));
    open_event(t, text_at(rows, 3), pid, sqlite3_column_int64(rows, 4),
               sqlite3_column_int64(rows, 0), sqlite3_column_int64(rows, 1));
    rs_json_out_key(&t->json, "args");
    rs_json_out_object(&t->json);
    if (sqlite3_column_type(rows, 5) != SQLITE_NULL)
        key_int(t, "connection_id", sqlite3_column_int64(rows, 5));
    key_text(t, "data_type", text_at(rows, 6));
    if (sqlite3_column_type(rows, 7) != SQLITE_NULL)
        key_int(t, "count", sqlite3_column_int64(rows, 7));
    if (sqlite3_column_type(rows, 8) != SQLITE_NULL)
        key_int(t, "rank_size", sqlite3_column_int64(rows, 8));
    rs_json_out_end(&t->json);
    rs_json_out_end(&t->json);
}

static void overlap_event(struct trace *t, sqlite3_stmt *rows)
{
    static const char *const names[] = {"Computing", "Communication",
                                        "Communication(Not Overlapped)", "Free"};
    const int64_t type = sqlite3_column_int64(rows, 3);
    if (type < 0 || type > 3)
        return;
    open_event(t, names[type], layer_pid(t, LAYER_OVERLAP, sqlite3_column_int64(rows, 2)), type,
               sqlite3_column_int64(rows, 0), sqlite3_column_int64(rows, 1));
    rs_json_out_end(&t->json);
}

static void counter_event(struct trace *t, sqlite3_stmt *rows)
{
    rs_json_out_object(&t->json);
    key_text(t, "ph", "C");
    key_text(t, "name", text_at(rows, 0));
    key_int(t, "pid", t->pid);
    key_int(t, "tid", 0);
    key_ts(t, sqlite3_column_int64(rows, 1));
    rs_json_out_key(&t->json, "args");
    rs_json_out_object(&t->json);
    key_int(t, "value", sqlite3_column_int64(rows, 2));
    rs_json_out_end(&t->json);
    rs_json_out_end(&t->json);
}

static void stream_name(struct trace *t, sqlite3_stmt *rows)
{
    char name[48];
    const int64_t stream = sqlite3_column_int64(rows, 1);
    (void)snprintf(name, sizeof name, "Stream %" PRId64, stream);
    put_meta(t, layer_pid(t, LAYER_HARDWARE, sqlite3_column_int64(rows, 0)), stream,
             (struct meta){"thread_name", "name", name, 0});
}

static void group_name(struct trace *t, sqlite3_stmt *rows)
{
    char name[160];
    (void)snprintf(name, sizeof name, "Group %.100s Communication", text_at(rows, 2));
    put_meta(t, layer_pid(t, LAYER_COMM, sqlite3_column_int64(rows, 0)),
             sqlite3_column_int64(rows, 1), (struct meta){"thread_name", "name", name, 0});
}

static enum rs_status each_row(struct trace *t, const char *sql, event_fn *put, struct rs_err *err)
{
    sqlite3_stmt *rows = NULL;
    enum rs_status status = ask(t->e, sql, &rows, err);
    int code = SQLITE_DONE;
    while (status == RS_OK && (code = sqlite3_step(rows)) == SQLITE_ROW) {
        put(t, rows);
        status = drain(t, (size_t)256 * 1024, err);
    }
    if (status == RS_OK && code != SQLITE_DONE)
        status = failed(t->e, err);
    (void)sqlite3_finalize(rows);
    return status;
}

static void put_processes(struct trace *t)
{
    char label[32];
    static const struct {
        int64_t layer;
        const char *name;
    } layers[] = {{LAYER_HARDWARE, "Ascend Hardware"},
                  {LAYER_COMM, "Communication"},
                  {LAYER_OVERLAP, "Overlap Analysis"}};
    put_process(t, t->pid, "Python", "CPU", 0);
    if (t->e->has_gc)
        put_process(t, layer_pid(t, LAYER_GC, HOST_DEVICE), "Python GC", "CPU", LAYER_GC);
    put_process(t, layer_pid(t, LAYER_CANN, HOST_DEVICE), "CANN", "CPU", LAYER_CANN);
    for (size_t i = 0; i < t->e->devices.count; i++)
        for (size_t k = 0; k < sizeof layers / sizeof layers[0]; k++) {
            (void)snprintf(label, sizeof label, "NPU %" PRId32, t->e->devices.items[i]);
            put_process(t, layer_pid(t, layers[k].layer, t->e->devices.items[i]), layers[k].name,
                        label, layers[k].layer);
        }
}

static enum rs_status put_rows(struct trace *t, struct rs_err *err)
{
    static const struct {
        const char *sql;
        event_fn *put;
    } parts[] = {
        {"SELECT DISTINCT deviceId, streamId FROM TASK ORDER BY 1, 2", stream_name},
        {"SELECT DISTINCT deviceId, groupName, s.value FROM COMMUNICATION_OP c JOIN STRING_IDS s ON "
         "s.id = c.groupName ORDER BY 1, 2",
         group_name},
        {"SELECT p.startNs, p.endNs, p.globalTid, n.value, p.type, p.sequenceNumber, d.value, "
         "y.value, (" CALL_STACK_OF(
             "p") ") FROM PYTORCH_API p JOIN STRING_IDS n ON n.id = p.name LEFT JOIN STRING_IDS d ON "
                  "d.id = p.inputShapes LEFT JOIN STRING_IDS y ON y.id = p.inputDtypes ORDER BY p.rowid",
         host_event},
        {"SELECT startNs, endNs, globalTid FROM GC_RECORD ORDER BY rowid", gc_event},
        {"SELECT m.startNs, m.endNs, m.globalTid, n.value FROM MSTX_EVENTS m JOIN STRING_IDS n ON "
         "n.id = m.message ORDER BY m.rowid",
         mark_event},
        {"SELECT a.startNs, a.endNs, a.globalTid, n.value, a.connectionId, y.name FROM CANN_API a "
         "JOIN STRING_IDS n ON n.id = a.name JOIN ENUM_API_TYPE y ON y.id = a.type "
         "ORDER BY a.connectionId",
         api_event},
        {"SELECT t.startNs, t.endNs, t.deviceId, t.streamId, NULLIF(t.connectionId, 4294967295), "
         "y.value, n.value FROM TASK t JOIN STRING_IDS y ON y.id = t.taskType LEFT JOIN COMPUTE_TASK_INFO c ON "
         "c.globalTaskId = t.globalTaskId LEFT JOIN STRING_IDS n ON n.id = c.name ORDER BY t.rowid",
         task_event},
        {"SELECT c.startNs, c.endNs, c.deviceId, n.value, c.groupName, NULLIF(c.connectionId, "
         "4294967295), d.name, "
         "c.count, c.rankSize FROM COMMUNICATION_OP c JOIN STRING_IDS n ON n.id = c.opName "
         "LEFT JOIN ENUM_HCCL_DATA_TYPE d ON d.id = c.dataType ORDER BY c.opId",
         comm_event},
        {"SELECT startNs, endNs, deviceId, type FROM OVERLAP_ANALYSIS ORDER BY id", overlap_event},
        {"SELECT n.value, c.timestampNs, c.value FROM RANKSCOPE_COUNTER c JOIN "
         "STRING_IDS n ON n.id = c.name ORDER BY c.rowid",
         counter_event},
    };
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0] && status == RS_OK; i++)
        status = each_row(t, parts[i].sql, parts[i].put, err);
    return status;
}

enum rs_status trace_view(struct rs_export_ascend *e, struct rs_err *err)
{
    struct trace t = {.e = e, .fd = -1, .pid = e->main_process >= 0 ? e->main_process : e->rank};
    t.path = rs_file_join(e->output_dir, "trace_view.json");
    if (!t.path)
        return no_room(RS_NOMEM, err);
    t.fd = open(t.path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, RS_FILE_MODE);
    enum rs_status status = t.fd >= 0 && fchmod(t.fd, RS_FILE_MODE) == 0
                                ? RS_OK
                                : rs_err_errno(err, "cannot create %s", t.path);
    rs_json_out_init(&t.json, &t.buf, 0);
    rs_json_out_array(&t.json);
    put_processes(&t);
    if (status == RS_OK)
        status = put_rows(&t, err);
    if (status == RS_OK) {
        rs_json_out_end(&t.json);
        status = drain(&t, 0, err);
    }
    if (t.fd >= 0 && close(t.fd) != 0 && status == RS_OK)
        status = rs_err_errno(err, "cannot write %s", t.path);
    rs_mem_free(t.path);
    rs_buf_fini(&t.buf);
    return status;
}
