/* SPDX-License-Identifier: Apache-2.0 */
/*
 * export_summary: api_statistic.csv and kernel_details.csv of each rank, from its database.
 *
 * Peer: both are SELECTs, written into the rank's own folder unless such a file is there. Kernels: computing tasks with
 * their counters (TASK_PMU_INFO, a column for each name, sorted), communication operations whose tasks agree about device and
 * model, communication tasks of the AI CPU; times in us. Calls: by name, in ns.
 *
 * Corrected: files stand in the result, the inputs are not written (both modes). The calls' times are their own, as
 * the profiler's api_statistic.csv has them; the peer adds up the tasks that they launched. A kernel waits from the end of
 * the one before on its device, and not less than nothing; the peer takes the start of that one from its own end. What a
 * row does not have is empty; the peer says 0 or N/A. A communication operation whose tasks disagree has no device, and is there.
 * Times have all their digits (both modes).
 */
#include "ascend/recipe/recipe_priv.h"
#include "common/base/csv_out.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#include <sqlite3.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { COUNTERS_MAX = 500 };

/* clang-format off */

#define CALLS(from, more) \
    "SELECT value AS \"API Name\", sum(" from "endNs - " from "startNs) AS \"Total Time(ns)\", count(*) AS " \
    "\"Count\", avg(" from "endNs - " from "startNs) AS \"Avg Time(ns)\", min(" from "endNs - " from "startNs) AS " \
    "\"Min Time(ns)\", max(" from "endNs - " from "startNs) AS \"Max Time(ns)\", '' FROM CANN_API c JOIN " \
    "STRING_IDS ON id = c.name " more "GROUP BY value ORDER BY 2 DESC, 1"
static const char calls_sql[] = CALLS("c.", "");
static const char calls_compat_sql[] = CALLS("t.", "JOIN TASK t ON t.connectionId = c.connectionId ");

#define NAMED(column, as) "(SELECT value FROM STRING_IDS WHERE id = c." column ") AS " as ", "
#define NONE "NULL, NULL, NULL, NULL, NULL, NULL, NULL, "
#define TASK_COLUMNS \
    "t.startNs AS task_start_time, t.endNs AS e, t.endNs - t.startNs AS task_duration, t.deviceId AS device_id, " \
    "t.modelId AS model_id, t.streamId AS stream_id, t.contextId AS context_id, t.taskId AS task_id, " \
    "c.globalTaskId AS g "

/* The rows of all kernels, columns as named in the first part. */
#define EITHER(column, older) "iif(has('COMPUTE_TASK_INFO." column "'), c." column ", c." older ") AS "
#define KERNELS \
    "SELECT 1 AS is_computing, " NAMED("name", "op_name") EITHER("blockNum", "blockDim") "block_dim, " \
    EITHER("mixBlockNum", "mixBlockDim") "mix_block_dim, " NAMED("opType", "op_type") NAMED("taskType", "task_type") \
    NAMED("inputFormats", "input_formats") NAMED("inputShapes", "input_shapes") \
    NAMED("inputDataTypes", "input_data_types") NAMED("outputShapes", "output_shapes") \
    NAMED("outputFormats", "output_formats") NAMED("outputDataTypes", "output_data_types") \
    NAMED("opState", "op_state") TASK_COLUMNS "FROM COMPUTE_TASK_INFO c JOIN TASK t ON t.globalTaskId = " \
    "c.globalTaskId UNION ALL " \
    "SELECT 0, " NAMED("opName", "op_name") "NULL, NULL, " NAMED("opType", "op_type") "'COMMUNICATION', " NONE \
    "c.startNs, c.endNs, c.endNs - c.startNs, d.device, d.model, NULL, NULL, NULL, NULL FROM COMMUNICATION_OP c " \
    "LEFT JOIN (SELECT connectionId, min(deviceId) device, min(modelId) model FROM TASK GROUP BY connectionId " \
    "HAVING count(DISTINCT deviceId) = 1 AND count(DISTINCT modelId) = 1) d ON d.connectionId = c.connectionId " \
    "WHERE d.connectionId IS NOT NULL OR NOT :compat UNION ALL " \
    "SELECT 0, " NAMED("name", "op_name") "NULL, NULL, " NAMED("opType", "op_type") NAMED("taskType", "task_type") \
    NONE TASK_COLUMNS "FROM COMMUNICATION_SCHEDULE_TASK_INFO c JOIN TASK t ON t.globalTaskId = c.globalTaskId"
/* The last column is for what a row does not have. */
#define DETAILS \
    "SELECT op_name, block_dim, mix_block_dim, op_type, task_type, input_formats, input_shapes, input_data_types, " \
    "output_shapes, output_formats, output_data_types, %stask_start_time, task_duration, device_id, model_id, " \
    "stream_id, context_id, task_id%s, iif(:compat, coalesce(e - CAST(lag(task_start_time) OVER (ORDER BY " \
    "task_start_time) AS REAL), 0), max(0, task_start_time - lag(e) OVER (PARTITION BY device_id ORDER BY " \
    "task_start_time))) AS task_wait_time, CASE WHEN NOT :compat THEN '' WHEN is_computing AND %d THEN '0' ELSE " \
    "'N/A' END FROM k %s ORDER BY task_start_time"
/* clang-format on */

/* Counters as columns, by name: their names in the result in `columns`, their values in `values`. */
static void print_counters(struct inputs *in, struct rs_buf *columns, struct rs_buf *values)
{
    struct frame names;
    if (frame_init(&names, "t") != RS_OK)
        in_fail(in, RS_NOMEM, "no memory for a query");
    if (rs_ascend_db_has_column(in->profiler, "TASK_PMU_INFO", "globalTaskId"))
        in_load(in, &names, in->profiler,
                "SELECT DISTINCT s.value FROM TASK_PMU_INFO p JOIN STRING_IDS s ON s.id = p.name "
                "WHERE s.value IS NOT NULL ORDER BY 1");
    if (names.count > COUNTERS_MAX)
        in_fail(in, RS_LIMIT, "%s has %zu kinds of counters, more than %d",
                rs_ascend_db_path(in->profiler), names.count, COUNTERS_MAX);
    for (size_t i = 0; i < names.count && in->status == RS_OK; i++) {
        const char *name = frame_text(&names, frame_row(&names, i)->t);
        const char *shown = strcmp(name, "aiv_total_time") == 0   ? "aiv_time"
                            : strcmp(name, "aic_total_time") == 0 ? "aicore_time"
                                                                  : name;
        char *value =
            sqlite3_mprintf(", min(value) FILTER (WHERE name IN (SELECT id FROM STRING_IDS "
                            "WHERE value = %Q)) AS c%d",
                            name, (int)i);
        char *column = sqlite3_mprintf(", c%d AS \"%w\"", (int)i, shown);
        rs_buf_string(values, value ? value : "");
        rs_buf_string(columns, column ? column : "");
        if (!value || !column)
            in_fail(in, RS_NOMEM, "no memory for a query");
        sqlite3_free(value);
        sqlite3_free(column);
    }
    frame_fini(&names);
}

static void print_details(struct inputs *in, struct rs_buf *sql)
{
    struct rs_buf columns = {0}, values = {0};
    print_counters(in, &columns, &values);
    rs_buf_string(sql, "WITH k AS (" KERNELS ")");
    if (columns.length)
        rs_buf_printf(sql,
                      ", p AS (SELECT globalTaskId%s FROM TASK_PMU_INFO GROUP BY globalTaskId)",
                      rs_buf_text(&values));
    rs_buf_printf(sql, DETAILS, in_has(in, "COMPUTE_TASK_INFO.opState") ? "op_state, " : "",
                  rs_buf_text(&columns), columns.length != 0,
                  columns.length ? "LEFT JOIN p ON p.globalTaskId = g" : "");
    if (sql->failed || columns.failed || values.failed)
        in_fail(in, RS_NOMEM, "no memory for a query");
    rs_buf_fini(&columns);
    rs_buf_fini(&values);
}

/* Columns whose ns are shown as us. */
static bool is_scaled(const char *name)
{
    return (strstr(name, "time") && !strchr(name, '(')) || strcmp(name, "task_duration") == 0;
}

static void print_cell(sqlite3_stmt *stmt, int c, struct rs_buf *csv)
{
    char text[64];
    const bool scaled = is_scaled(sqlite3_column_name(stmt, c));
    switch (sqlite3_column_type(stmt, c)) {
    case SQLITE_NULL:
        rs_buf_string(csv, rs_ascend_column_text(stmt, sqlite3_column_count(stmt) - 1));
        return;
    case SQLITE_INTEGER:
        if (scaled)
            stats_print_us(sqlite3_column_int64(stmt, c), text, sizeof text);
        else
            (void)snprintf(text, sizeof text, "%" PRId64, (int64_t)sqlite3_column_int64(stmt, c));
        break;
    case SQLITE_FLOAT:
        stats_print(sqlite3_column_double(stmt, c) / (scaled ? 1e3 : 1), text, sizeof text);
        break;
    default:
        rs_csv_text(csv, rs_ascend_column_text(stmt, c));
        return;
    }
    rs_buf_string(csv, text);
}

/* Writes the answer but its last column as NAME_R.csv; nothing when it is empty. */
static void write_answer(struct inputs *in, const char *sql, const char *name,
                         struct rank_files *files)
{
    struct rs_buf csv = {0};
    char file[64], *path = NULL;
    sqlite3_stmt *stmt = in_ask(in, in->profiler, sql);
    uint64_t rows = 0;
    for (int c = 0; in->status == RS_OK && c < sqlite3_column_count(stmt) - 1; c++) {
        rs_buf_string(&csv, c ? "," : "");
        rs_csv_text(&csv, sqlite3_column_name(stmt, c));
    }
    for (; in->status == RS_OK && in_step(in, in->profiler, stmt); rows++)
        for (int c = 0; c < sqlite3_column_count(stmt) - 1; c++) {
            rs_buf_u8(&csv, c ? ',' : '\n');
            print_cell(stmt, c, &csv);
        }
    rs_ascend_db_finish(&stmt);
    rs_buf_u8(&csv, '\n');
    if (csv.failed)
        in_fail(in, RS_NOMEM, "no memory for %s", name);
    if (in->status == RS_OK && rows) {
        (void)snprintf(file, sizeof file, "%s_%" PRId64 ".csv", name, in->of->rank);
        in->status = rank_file_path(in->run, file, &path, &in->err);
        if (in->status == RS_OK)
            in->status = rs_file_replace(path, csv.data, csv.length, false, &in->err);
        rank_files_add(in, files, file, rows);
    }
    rs_mem_free(path);
    rs_buf_fini(&csv);
}

/* One of the two may be missing. */
static void write_files(struct inputs *in, struct rank_files *files)
{
    const bool compat = in->run->options->compat;
    struct rs_buf sql = {0};
    in_require(in, in->profiler,
               "CANN_API.name CANN_API.startNs CANN_API.endNs CANN_API.connectionId "
               "STRING_IDS.value TASK.connectionId");
    if (in->status == RS_OK)
        write_answer(in, compat ? calls_compat_sql : calls_sql, "api_statistic", files);
    else
        run_add_problem(in->run, in->of->rank, true, "%s", in->err.text);
    if (in->status == RS_NOTFOUND)
        in->status = RS_OK;
    in_require(in, in->profiler,
               "COMPUTE_TASK_INFO.globalTaskId COMPUTE_TASK_INFO.outputDataTypes "
               "TASK.globalTaskId TASK.modelId TASK.contextId STRING_IDS.value");
    if (in->status == RS_OK)
        print_details(in, &sql);
    if (in->status == RS_OK)
        write_answer(in, rs_buf_text(&sql), "kernel_details", files);
    if (in->status < 0 && files->count && in->status != RS_NOMEM) {
        run_add_problem(in->run, in->of->rank, true, "%s", in->err.text);
        in->status = RS_OK;
    }
    rs_buf_fini(&sql);
}

const struct recipe recipe_export_summary = {
    .info = {"export_summary", "api_statistic and kernel_details of each rank as csv",
             "api_statistic_R.csv, kernel_details_R.csv"},
    .folder = "ExportSummary",
    .needs = NEED_PROFILER,
    .optional = "COMMUNICATION_OP(opName,opType,startNs,endNs,connectionId) "
                "COMMUNICATION_SCHEDULE_TASK_INFO(name,opType,taskType,globalTaskId) "
                "COMPUTE_TASK_INFO(;blockNum,mixBlockNum,blockDim,mixBlockDim,opState)",
    .write = write_files,
};
