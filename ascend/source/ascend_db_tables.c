/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of a database that no figure of a step is made of, whatever their names: memory, networks, buses, host, counters,
 * and what the vendor says of each task (shapes, masters, bandwidths, PMU). For the lossless reading only.
 *
 *     a row of a table  -> COUNTER, category = the table's name, extra = all cells that hold something
 *     a table with rows -> before them METADATA "vendor table", extra = its columns and their types
 *
 * Its time is in one of the columns that the vendor uses for times, else that of its task (globalTaskId), else it has none.
 * Ids of strings are replaced by what they mean; other numbers stay. Columns whose value is worth a curve are counters of
 * their own. Tables that the other files of this room read whole are left out, and those that viewers add; enums stay, as
 * numbers that they explain do.
 */
#include "ascend/source/ascend_db_priv.h"
#include "common/base/json_out.h"

#include <stdio.h>
#include <string.h>

enum { TABLES_MAX = 256, NAME_MAX_BYTES = 64, ROWS_MAX = 8 << 20 };

static const char *const elsewhere[] = {
    "STRING_IDS",       "SESSION_TIME_INFO", "META_DATA",   "HOST_INFO",
    "RANK_DEVICE_MAP",  "NPU_INFO",          "STEP_TIME",   "TASK",
    "CANN_API",         "PYTORCH_API",       "MSTX_EVENTS", "GC_RECORD",
    "OVERLAP_ANALYSIS", "connectionCats",    "status_info", "StepTraceTime",
};

static const struct counter {
    const char *table, *value, *name;
} counters[] = {
    {"MEMORY_RECORD", "totalAllocated", "memory allocated"},
    {"MEMORY_RECORD", "totalReserved", "memory reserved"},
    {"NPU_MEM", "hbm", "NPU memory"},
    {"NPU_MODULE_MEM", "totalReserved", "NPU module memory"},
    {"NIC", "rxByteRate", "NIC receive B/s"},
    {"NIC", "txByteRate", "NIC transmit B/s"},
    {"ROCE", "rxByteRate", "RoCE receive B/s"},
    {"ROCE", "txByteRate", "RoCE transmit B/s"},
    {"HCCS", "txThroughput", "HCCS transmit B/s"},
    {"HCCS", "rxThroughput", "HCCS receive B/s"},
    {"PCIE", "txPostAvg", "PCIe transmit B/s"},
    {"PCIE", "rxPostAvg", "PCIe receive B/s"},
    {"AICORE_FREQ", "freq", "AI core MHz"},
};

struct table {
    struct db_reader *reader;
    const char *name;
    rs_str category;
    int columns, start, end, device; /* -1: there is none */
    bool is_text[64];
};

static bool is_in(const char *word, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(word, words[i]) == 0)
            return true;
    return false;
}

static bool is_wanted(const char *name)
{
    const size_t length = strlen(name);
    return length && length <= NAME_MAX_BYTES &&
           strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") ==
               length &&
           strncmp(name, "sqlite_", 7) != 0 && strncmp(name, "CommAnalyzer", 12) != 0 &&
           !is_in(name, elsewhere, sizeof elsewhere / sizeof elsewhere[0]);
}

/* ---- rows ---- */

static void put_cell(const struct table *table, struct sqlite3_stmt *rows, int column,
                     struct rs_json_out *json)
{
    const char *name = sqlite3_column_name(rows, column);
    switch (sqlite3_column_type(rows, column)) {
    case SQLITE_INTEGER: {
        const char *text =
            table->is_text[column]
                ? rs_ascend_names_find(&table->reader->strings, sqlite3_column_int64(rows, column))
                : NULL;
        rs_json_out_key(json, name);
        if (text)
            rs_json_out_string(json, text);
        else
            rs_json_out_int(json, sqlite3_column_int64(rows, column));
        break;
    }
    case SQLITE_FLOAT:
        rs_json_out_key(json, name);
        rs_json_out_double(json, sqlite3_column_double(rows, column));
        break;
    case SQLITE_TEXT:
        rs_json_out_key(json, name);
        rs_json_out_bytes(json, (const char *)sqlite3_column_text(rows, column),
                          (size_t)sqlite3_column_bytes(rows, column));
        break;
    default:
        break; /* NULL; no table has blobs */
    }
}

static enum rs_status put_extra(const struct table *table, struct sqlite3_stmt *rows, size_t at)
{
    struct rs_buf buf = {0};
    struct rs_json_out json;
    rs_json_out_init(&json, &buf, 0);
    rs_json_out_object(&json);
    for (int i = 0; i < table->columns; i++)
        put_cell(table, rows, i, &json);
    rs_json_out_end(&json);
    enum rs_status status = buf.failed ? RS_NOMEM : RS_OK;
    if (status == RS_OK && buf.length > 2) /* without its braces */
        status =
            rs_batch_extra(&table->reader->a.batch, at, (const char *)buf.data + 1, buf.length - 2);
    rs_buf_fini(&buf);
    return status;
}

static enum rs_status start_row(const struct table *table, struct sqlite3_stmt *rows,
                                struct ascend_row *row_p)
{
    struct ascend *a = &table->reader->a;
    *row_p = (struct ascend_row){.kind = RS_KIND_COUNTER,
                                 .category = table->category,
                                 .correlation = -1,
                                 .external_id = -1,
                                 .bytes = -1};
    if (table->start < 0 || !rs_ascend_column_int(rows, table->start, &row_p->start) ||
        row_p->start <= 0) {
        row_p->start = 0;
        row_p->flags = RS_EVENT_NO_TIME;
    }
    row_p->end = row_p->start;
    if (row_p->flags || table->end < 0 || !rs_ascend_column_int(rows, table->end, &row_p->end) ||
        row_p->end < row_p->start) {
        row_p->end = row_p->start;
        row_p->flags |= RS_EVENT_NO_END;
    }
    enum rs_status status = ascend_text(a, table->name, &row_p->name);
    const int64_t device = table->device < 0 ? -1 : db_int(rows, table->device, -1);
    if (status == RS_OK)
        status = device < 0 ? ascend_host_lane(a, 0, 0, &row_p->lane)
                            : ascend_device_lane(a, device, 0, NULL, &row_p->lane);
    return status;
}

static enum rs_status emit(const struct table *table, struct sqlite3_stmt *rows,
                           const struct ascend_row *row, bool has_extra, struct rs_err *err)
{
    size_t at;
    const enum rs_status status = ascend_emit(&table->reader->a, row, &at, err);
    return status == RS_OK && has_extra ? db_status(table->reader, put_extra(table, rows, at), err)
                                        : status;
}

/* Its counters, of which the first has the cells; else the row itself. */
static enum rs_status emit_row(const struct table *table, struct sqlite3_stmt *rows,
                               struct rs_err *err)
{
    struct ascend_row row;
    bool has_extra = true;
    enum rs_status status = db_status(table->reader, start_row(table, rows, &row), err);
    for (size_t i = 0; i < sizeof counters / sizeof counters[0] && status == RS_OK; i++) {
        struct ascend_row made = row;
        int column = 0;
        if (strcmp(counters[i].table, table->name) != 0 || row.flags & RS_EVENT_NO_TIME)
            continue;
        while (column < table->columns &&
               strcmp(sqlite3_column_name(rows, column), counters[i].value) != 0)
            column++;
        if (column == table->columns || !rs_ascend_column_int(rows, column, &made.bytes) ||
            made.bytes < 0)
            continue;
        status = db_status(table->reader,
                           ascend_text(&table->reader->a, counters[i].name, &made.name), err);
        if (status == RS_OK)
            status = emit(table, rows, &made, has_extra, err);
        has_extra = false;
    }
    return status == RS_OK && has_extra ? emit(table, rows, &row, true, err) : status;
}

/* ---- tables ---- */

/* The first of these columns; -1. */
static int find_column(struct sqlite3_stmt *rows, int columns, const char *const *names)
{
    for (; *names; names++)
        for (int i = columns - 1; i >= 0; i--)
            if (strcmp(sqlite3_column_name(rows, i), *names) == 0)
                return i;
    return -1;
}

static enum rs_status look_at_columns(struct table *table, struct sqlite3_stmt *rows)
{
    static const char *const starts[] = {"startNs", "timestampNs", "timestamp", "allocationTime",
                                         NULL};
    static const char *const ends[] = {"endNs", NULL};
    static const char *const devices[] = {"deviceId", NULL};
    table->columns = sqlite3_column_count(rows);
    if (table->columns > (int)(sizeof table->is_text))
        table->columns = (int)(sizeof table->is_text);
    table->start = find_column(rows, table->columns, starts);
    table->end = find_column(rows, table->columns, ends);
    table->device = find_column(rows, table->columns, devices);
    for (int i = 0; i < table->columns; i++)
        table->is_text[i] = rs_ascend_is_text_id(table->name, sqlite3_column_name(rows, i));
    return ascend_text(&table->reader->a, table->name, &table->category);
}

/* Who writes the table again has it as it was, with columns that hold nothing in any row. */
static enum rs_status put_columns(const struct table *table, struct sqlite3_stmt *columns,
                                  size_t at)
{
    struct rs_buf buf = {0};
    struct rs_json_out json;
    char type[64];
    rs_json_out_init(&json, &buf, 0);
    rs_json_out_object(&json);
    while (rs_ascend_db_step(table->reader->db, columns, NULL) == RS_OK) {
        (void)snprintf(type, sizeof type, "%.40s%s", rs_ascend_column_text(columns, 1),
                       db_int(columns, 2, 0) == 1 ? " PRIMARY KEY" : "");
        rs_json_out_key(&json, rs_ascend_column_text(columns, 0));
        rs_json_out_string(&json, type);
    }
    rs_json_out_end(&json);
    enum rs_status status = buf.failed ? RS_NOMEM : RS_OK;
    if (status == RS_OK && buf.length > 2) /* without its braces */
        status =
            rs_batch_extra(&table->reader->a.batch, at, (const char *)buf.data + 1, buf.length - 2);
    rs_buf_fini(&buf);
    return status;
}

static enum rs_status emit_columns(const struct table *table, struct rs_err *err)
{
    struct ascend *a = &table->reader->a;
    struct ascend_row row = {.kind = RS_KIND_METADATA,
                             .flags = RS_EVENT_NO_TIME | RS_EVENT_NO_END,
                             .category = table->category,
                             .correlation = -1,
                             .external_id = -1,
                             .bytes = -1};
    char sql[160];
    size_t at = 0;
    struct sqlite3_stmt *columns = NULL;
    (void)snprintf(sql, sizeof sql, "SELECT name, type, pk FROM pragma_table_info('%s')",
                   table->name);
    enum rs_status status = rs_ascend_db_prepare(table->reader->db, sql, &columns, err);
    if (status != RS_OK)
        return status;
    status = db_status(table->reader, ascend_text(a, "vendor table", &row.name), err);
    if (status == RS_OK)
        status = db_status(table->reader, ascend_host_lane(a, 0, 0, &row.lane), err);
    if (status == RS_OK)
        status = ascend_emit(a, &row, &at, err);
    if (status == RS_OK)
        status = db_status(table->reader, put_columns(table, columns, at), err);
    rs_ascend_db_finish(&columns);
    return status;
}

/* With the times of its task where it has none of its own. */
static enum rs_status ask(struct db_reader *reader, const char *name, struct sqlite3_stmt **rows_p,
                          struct rs_err *err)
{
    struct rs_buf sql = {0};
    const bool has_task = !rs_ascend_db_has_column(reader->db, name, "startNs") &&
                          rs_ascend_db_has_column(reader->db, name, "globalTaskId") &&
                          rs_ascend_db_has_column(reader->db, "TASK", "globalTaskId") &&
                          rs_ascend_db_has_column(reader->db, "TASK", "startNs") &&
                          rs_ascend_db_has_column(reader->db, "TASK", "endNs");
    rs_buf_printf(&sql,
                  has_task ? "SELECT d.*, t.startNs AS startNs, t.endNs AS endNs" : "SELECT d.*");
    if (has_task && rs_ascend_db_has_column(reader->db, "TASK", "deviceId"))
        rs_buf_string(&sql, ", t.deviceId AS deviceId");
    rs_buf_printf(&sql, " FROM \"%s\" d", name);
    if (has_task)
        rs_buf_string(&sql, " LEFT JOIN TASK t ON t.globalTaskId = d.globalTaskId");
    return db_prepare(reader, &sql, rows_p, err);
}

static enum rs_status read_table(struct db_reader *reader, const char *name, struct rs_err *err)
{
    struct table table = {.reader = reader, .name = name};
    struct sqlite3_stmt *rows = NULL;
    enum rs_status status = ask(reader, name, &rows, err);
    if (status == RS_OK)
        status = db_status(reader, look_at_columns(&table, rows), err);
    for (int64_t count = 0;
         status == RS_OK && (status = rs_ascend_db_step(reader->db, rows, err)) == RS_OK; count++) {
        if (count >= ROWS_MAX) {
            status =
                db_status(reader,
                          rs_trace_info_drop(&reader->a.stream->info, &reader->a.stream->strings,
                                             "a table's rows beyond the limit", 1),
                          err);
            break;
        }
        if (count == 0)
            status = emit_columns(&table, err);
        if (status == RS_OK)
            status = emit_row(&table, rows, err);
    }
    rs_ascend_db_finish(&rows);
    return status == RS_END ? RS_OK : status;
}

enum rs_status db_read_tables(struct db_reader *reader, struct rs_err *err)
{
    char names[TABLES_MAX][NAME_MAX_BYTES + 1];
    size_t count = 0;
    struct sqlite3_stmt *rows = NULL;
    enum rs_status status = rs_ascend_db_prepare(
        reader->db, "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name", &rows,
        err);
    while (status == RS_OK && (status = rs_ascend_db_step(reader->db, rows, err)) == RS_OK)
        if (count < TABLES_MAX && is_wanted(rs_ascend_column_text(rows, 0)))
            (void)snprintf(names[count++], sizeof names[0], "%s", rs_ascend_column_text(rows, 0));
    rs_ascend_db_finish(&rows);
    if (status == RS_END)
        status = RS_OK;
    for (size_t i = 0; i < count && status == RS_OK; i++)
        if (rs_ascend_db_has_table(reader->db, names[i]))
            status = read_table(reader, names[i], err);
    return status;
}
