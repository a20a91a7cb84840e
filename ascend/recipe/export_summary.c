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

static const char calls_sql[] =
    "SELECT value AS \"API Name\", sum(endNs - startNs) AS \"Total Time(ns)\", count(*) AS \"Count\", "
    "avg(endNs - startNs) AS \"Avg Time(ns)\", min(endNs - startNs) AS \"Min Time(ns)\", "
    "max(endNs - startNs) AS \"Max Time(ns)\", '' FROM CANN_API JOIN STRING_IDS ON id = name "
    "GROUP BY value ORDER BY 2 DESC, 1";
static const char calls_compat_sql[] =
    "SELECT value AS \"API Name\", sum(t.endNs - t.startNs) AS \"Total Time(ns)\", count(*) AS "
    "\"Count\", avg(t.endNs - t.startNs) AS \"Avg Time(ns)\", min(t.endNs - t.startNs) AS \"Min "
    "Time(ns)\", max(t.endNs - t.startNs) AS \"Max Time(ns)\", '' FROM CANN_API c JOIN STRING_IDS ON "
    "id = c.name JOIN TASK t ON t.connectionId = c.connectionId GROUP BY value ORDER BY 2 DESC, 1";

#define NAMED(column, as) "(SELECT value FROM STRING_IDS WHERE id = c." column ") AS " as
#define TASK_COLUMNS                                                                               \
    "t.startNs AS task_start_time, t.endNs AS e, t.endNs - t.startNs AS task_duration, "           \
    "t.deviceId AS device_id, t.modelId AS model_id, t.streamId AS stream_id, "                    \
    "t.contextId AS context_id, t.taskId AS task_id, c.globalTaskId AS g, '%s' AS fill"

/* The rows of all kernels, columns as named in the first part; `fill` is for what a row does not have. */
static void print_kernels(struct rs_ascend_db *db, bool compat, bool has_counters,
                          struct rs_buf *sql)
{
    const char *fill = compat ? "N/A" : "";
    const bool has_num = rs_ascend_db_has_column(db, "COMPUTE_TASK_INFO", "blockNum");
    const bool has_state = rs_ascend_db_has_column(db, "COMPUTE_TASK_INFO", "opState");
    rs_buf_printf(
        sql,
        "SELECT " NAMED("name", "op_name") ", c.%s AS block_dim, c.%s AS mix_block_dim, " NAMED("opType", "op_type") ", " NAMED("taskType", "task_type") ", " NAMED(
            "inputFormats",
            "input_formats") ", " NAMED("inputShapes",
                                        "input_shapes") ", " NAMED("inputDataTypes",
                                                                   "input_data_types") ", " NAMED("outputShapes",
                                                                                                  "output_shapes") ", " NAMED("outputFormats",
                                                                                                                              "output_formats") ", " NAMED("outputDataTypes",
                                                                                                                                                           "output_data_types") ", %s" TASK_COLUMNS
                                                                                                                                                                                " FROM COMPUTE_TASK_INFO c JOIN TASK t ON t.globalTaskId = c.globalTaskId",
        has_num ? "blockNum" : "blockDim", has_num ? "mixBlockNum" : "mixBlockDim",
        has_state ? NAMED("opState", "op_state") ", " : "", compat && has_counters ? "0" : fill);
    if (rs_ascend_db_has_table(db, "COMMUNICATION_OP"))
        rs_buf_printf(
            sql,
            " UNION ALL SELECT " NAMED("opName", "op_name") ", NULL, NULL, " NAMED(
                "opType",
                "op_type") ", 'COMMUNICATION', NULL, NULL, NULL, NULL, NULL, NULL, %sc.startNs, c.endNs, c.endNs - "
                           "c.startNs, d.device, d.model, NULL, NULL, NULL, NULL, '%s' FROM COMMUNICATION_OP c %s JOIN "
                           "(SELECT connectionId, min(deviceId) device, min(modelId) model FROM TASK GROUP BY "
                           "connectionId HAVING count(DISTINCT deviceId) = 1 AND count(DISTINCT modelId) = 1) d "
                           "ON d.connectionId = c.connectionId",
            has_state ? "NULL, " : "", fill, compat ? "" : "LEFT");
    if (rs_ascend_db_has_table(db, "COMMUNICATION_SCHEDULE_TASK_INFO"))
        rs_buf_printf(
            sql,
            " UNION ALL SELECT " NAMED("name", "op_name") ", NULL, NULL, " NAMED("opType", "op_type") ", " NAMED(
                "taskType",
                "task_type") ", NULL, NULL, NULL, NULL, NULL, NULL, %s" TASK_COLUMNS
                             " FROM COMMUNICATION_SCHEDULE_TASK_INFO c JOIN TASK t ON t.globalTaskId = c.globalTaskId",
            has_state ? "NULL, " : "", fill);
}

/* Counters as columns, by name: their names in the result in `columns`, their values in `values`. */
static enum rs_status print_counters(struct rs_ascend_db *db, struct rs_buf *columns,
                                     struct rs_buf *values, struct rs_err *err)
{
    static const struct frame_query query = {
        .sql = "SELECT DISTINCT s.value FROM TASK_PMU_INFO p JOIN STRING_IDS s ON s.id = p.name "
               "WHERE s.value IS NOT NULL ORDER BY 1"};
    struct frame names = {0};
    if (!rs_ascend_db_has_column(db, "TASK_PMU_INFO", "globalTaskId"))
        return RS_OK;
    enum rs_status status = frame_init(&names, "t");
    if (status == RS_OK)
        status = frame_load(&names, db, &query, err);
    if (status == RS_OK && names.count > COUNTERS_MAX)
        status = rs_err_set(err, RS_LIMIT, "%s has %zu kinds of counters, more than %d",
                            rs_ascend_db_path(db), names.count, COUNTERS_MAX);
    for (size_t i = 0; i < names.count && status == RS_OK; i++) {
        const char *name = frame_text(&names, frame_row(&names, i)->t);
        const char *shown = strcmp(name, "aiv_total_time") == 0   ? "aiv_time"
                            : strcmp(name, "aic_total_time") == 0 ? "aicore_time"
                                                                  : name;
        char *text =
            sqlite3_mprintf(", min(value) FILTER (WHERE name IN (SELECT id FROM STRING_IDS "
                            "WHERE value = %Q)) AS c%d",
                            name, (int)i);
        char *column = sqlite3_mprintf(", c%d AS \"%w\"", (int)i, shown);
        if (!text || !column)
            status = RS_NOMEM;
        else {
            rs_buf_string(values, text);
            rs_buf_string(columns, column);
        }
        sqlite3_free(text);
        sqlite3_free(column);
    }
    frame_fini(&names);
    return status;
}

static enum rs_status print_details(struct rs_ascend_db *db, bool compat, struct rs_buf *sql,
                                    struct rs_err *err)
{
    struct rs_buf columns = {0}, values = {0};
    const bool has_state = rs_ascend_db_has_column(db, "COMPUTE_TASK_INFO", "opState");
    enum rs_status status = print_counters(db, &columns, &values, err);
    rs_buf_string(sql, "WITH k AS (");
    print_kernels(db, compat, columns.length > 0, sql);
    rs_buf_string(sql, ")");
    if (columns.length)
        rs_buf_printf(sql,
                      ", p AS (SELECT globalTaskId%s FROM TASK_PMU_INFO GROUP BY globalTaskId)",
                      rs_buf_text(&values));
    rs_buf_printf(
        sql,
        " SELECT op_name, block_dim, mix_block_dim, op_type, task_type, input_formats, "
        "input_shapes, input_data_types, output_shapes, output_formats, output_data_types, "
        "%stask_start_time, task_duration, device_id, model_id, stream_id, context_id, "
        "task_id%s, %s AS task_wait_time, fill FROM k %s ORDER BY task_start_time",
        has_state ? "op_state, " : "", columns.length ? rs_buf_text(&columns) : "",
        compat
            ? "coalesce(e - CAST(lag(task_start_time) OVER (ORDER BY task_start_time) AS REAL), 0)"
            : "max(0, task_start_time - lag(e) OVER (PARTITION BY device_id ORDER BY "
              "task_start_time))",
        columns.length ? "LEFT JOIN p ON p.globalTaskId = g" : "");
    if (status == RS_OK && (sql->failed || columns.failed || values.failed))
        status = RS_NOMEM;
    rs_buf_fini(&columns);
    rs_buf_fini(&values);
    return status == RS_NOMEM ? rs_err_set(err, RS_NOMEM, "no memory for a query") : status;
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
static enum rs_status write_answer(struct run *run, const struct inputs *in, const char *sql,
                                   const char *name, struct rank_files *files, struct rs_err *err)
{
    struct rs_buf csv = {0};
    char file[64], *path = NULL;
    sqlite3_stmt *stmt = NULL;
    uint64_t rows = 0;
    enum rs_status status = rs_ascend_db_prepare(in->profiler, sql, &stmt, err);
    for (int c = 0; status == RS_OK && c < sqlite3_column_count(stmt) - 1; c++) {
        rs_buf_string(&csv, c ? "," : "");
        rs_csv_text(&csv, sqlite3_column_name(stmt, c));
    }
    while (status == RS_OK && (status = rs_ascend_db_step(in->profiler, stmt, err)) == RS_OK) {
        for (int c = 0; c < sqlite3_column_count(stmt) - 1; c++) {
            rs_buf_u8(&csv, c ? ',' : '\n');
            print_cell(stmt, c, &csv);
        }
        rows++;
    }
    rs_ascend_db_finish(&stmt);
    if (status == RS_END)
        status = RS_OK;
    if (status == RS_OK && csv.failed)
        status = rs_err_set(err, RS_NOMEM, "no memory for %s", name);
    if (status == RS_OK && rows) {
        rs_buf_u8(&csv, '\n');
        (void)snprintf(file, sizeof file, "%s_%" PRId64 ".csv", name, in->of->rank);
        status = rank_file_path(run, file, &path, err);
        if (status == RS_OK)
            status = rs_file_replace(path, csv.data, csv.length, false, err);
        if (status == RS_OK)
            status = rank_files_add(files, file, rows);
    }
    rs_mem_free(path);
    rs_buf_fini(&csv);
    return status;
}

static enum rs_status write_files(struct run *run, const struct inputs *in,
                                  struct rank_files *files, struct rs_err *err)
{
    struct rs_buf sql = {0};
    const bool compat = run->options->compat;
    struct rs_err why = {0};
    enum rs_status status =
        db_requires(in->profiler,
                    "CANN_API.name CANN_API.startNs CANN_API.endNs CANN_API.connectionId "
                    "STRING_IDS.value TASK.connectionId",
                    &why);
    if (status == RS_OK)
        status = write_answer(run, in, compat ? calls_compat_sql : calls_sql, "api_statistic",
                              files, err);
    else
        run_add_problem(run, in->of->rank, true, "%s", why.text);
    if (status == RS_OK || status == RS_NOTFOUND)
        status = db_requires(in->profiler,
                             "COMPUTE_TASK_INFO.globalTaskId COMPUTE_TASK_INFO.outputDataTypes "
                             "TASK.globalTaskId TASK.modelId TASK.contextId STRING_IDS.value",
                             err);
    if (status == RS_OK)
        status = print_details(in->profiler, compat, &sql, err);
    if (status == RS_OK)
        status = write_answer(run, in, rs_buf_text(&sql), "kernel_details", files, err);
    rs_buf_fini(&sql);
    return status;
}

static enum rs_status map(struct run *run, const struct inputs *in, void **part_p,
                          struct rs_err *err)
{
    struct rank_files *files = rs_mem_calloc(1, sizeof *files);
    struct rs_err why = {0};
    enum rs_status status = files ? write_files(run, in, files, &why)
                                  : rs_err_set(&why, RS_NOMEM, "no memory for a list of files");
    if (status < 0 && files && files->count && status != RS_NOMEM) {
        run_add_problem(run, in->of->rank, true, "%s", why.text); /* one of the two is there */
        status = RS_OK;
    }
    if (status == RS_OK) {
        *part_p = files;
        return RS_OK;
    }
    if (files)
        rank_files_drop(files);
    return rs_err_set(err, status, "%s", why.text);
}

const struct recipe recipe_export_summary = {
    .info = {"export_summary", "api_statistic and kernel_details of each rank as csv",
             "api_statistic_R.csv, kernel_details_R.csv"},
    .folder = "ExportSummary",
    .needs = NEED_PROFILER,
    FILES_RECIPE,
    .map = map,
};
