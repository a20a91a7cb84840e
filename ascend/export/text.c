/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of text beside the database, with the vendor's columns; each is a question to the tables that are there.
 *
 *     kernel_details.csv    operators and communication of devices, with the step that launched them
 *     op_statistic.csv      the same by type
 *     api_statistic.csv     calls by name
 *     memory_record.csv, operator_memory.csv
 *     (operator_details.csv: operators.c)
 *
 * What the recording's own profiler had written is kept (kept.c) and not made again. A table without a row is no file; a
 * cell of something unknown is empty. Columns are the documented ones: those that only the vendor's device could fill are empty
 * in all rows, so that readers find them by name.
 */
#include "ascend/export/export_priv.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#include <sqlite3.h>

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- files ---- */

enum rs_status table_file_open(const struct rs_export_ascend *e, const char *name, char **path_p,
                               FILE **file_p, struct rs_err *err)
{
    *path_p = rs_file_join(e->output_dir, name);
    if (!*path_p)
        return no_room(RS_NOMEM, err);
    const int fd = open(*path_p, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, RS_FILE_MODE);
    if (fd < 0)
        return rs_err_errno(err, "cannot create %s", *path_p);
    *file_p = fchmod(fd, RS_FILE_MODE) == 0 ? fdopen(fd, "w") : NULL;
    if (*file_p)
        return RS_OK;
    const enum rs_status status = rs_err_errno(err, "cannot create %s", *path_p);
    (void)close(fd);
    return status;
}

void table_file_cell(struct rs_buf *line, const char *text)
{
    if (!strpbrk(text, ",\"\r\n")) {
        rs_buf_string(line, text);
        return;
    }
    rs_buf_u8(line, '"');
    for (; *text; text++) {
        if (*text == '"')
            rs_buf_u8(line, '"');
        rs_buf_u8(line, (uint8_t)*text);
    }
    rs_buf_u8(line, '"');
}

enum rs_status table_file_line(FILE *file, const char *path, struct rs_buf *line,
                               struct rs_err *err)
{
    rs_buf_string(line, "\n");
    enum rs_status status = line->failed ? no_room(RS_NOMEM, err) : RS_OK;
    if (status == RS_OK && fwrite(line->data, 1, line->length, file) != line->length)
        status = rs_err_errno(err, "cannot write %s", path);
    rs_buf_reset(line);
    return status;
}

/* ---- questions ---- */

/* us(ns): us with three decimals, as the vendor writes times. NULL stays NULL. */
static void us_of_ns(sqlite3_context *context, int count, sqlite3_value **values)
{
    char text[32];
    (void)count;
    if (sqlite3_value_type(values[0]) == SQLITE_NULL)
        return;
    const int64_t ns = sqlite3_value_int64(values[0]);
    const uint64_t size = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
    (void)snprintf(text, sizeof text, "%s%" PRIu64 ".%03d", ns < 0 ? "-" : "", size / 1000,
                   (int)(size % 1000));
    sqlite3_result_text(context, text, -1, SQLITE_TRANSIENT);
}

/* clang-format off */

/* Operators and communication of devices. The step is that of the call that launched it; where no call is known, the one in which
 * it starts itself. A kernel waits since the end of the one before on its stream. */
static const char views[] =
    "CREATE INDEX CallChainIds ON PYTORCH_CALLCHAINS (id); CREATE INDEX StepStarts ON STEP_TIME (startNs);"
    "CREATE TEMP TABLE KernelRow AS "
    "SELECT t.deviceId AS device, t.streamId AS stream, n.value AS name, y.value AS type, "
    "  NULLIF(c.value, 'N/A') AS core, t.startNs AS start, t.endNs AS end, "
    "  coalesce(a.startNs, t.startNs) AS called, NULLIF(i.value, 'N/A') AS shapes, NULLIF(d.value, 'N/A') AS dtypes, "
    "  k.blockNum AS blocks, k.mixBlockNum AS mixed, NULLIF(p.value, 'N/A') AS state, NULLIF(h.value, 'N/A') AS hf32, "
    "  NULLIF(f.value, 'N/A') AS formats, NULLIF(os.value, 'N/A') AS outShapes, NULLIF(od.value, 'N/A') AS outDtypes, "
    "  NULLIF(w.value, 'N/A') AS outFormats "
    "FROM COMPUTE_TASK_INFO k JOIN TASK t USING (globalTaskId) "
    "  JOIN STRING_IDS n ON n.id = k.name JOIN STRING_IDS y ON y.id = k.opType "
    "  LEFT JOIN STRING_IDS c ON c.id = k.taskType LEFT JOIN STRING_IDS i ON i.id = k.inputShapes "
    "  LEFT JOIN STRING_IDS d ON d.id = k.inputDataTypes LEFT JOIN STRING_IDS p ON p.id = k.opState "
    "  LEFT JOIN STRING_IDS h ON h.id = k.hf32Eligible LEFT JOIN STRING_IDS f ON f.id = k.inputFormats "
    "  LEFT JOIN STRING_IDS os ON os.id = k.outputShapes LEFT JOIN STRING_IDS od ON od.id = k.outputDataTypes "
    "  LEFT JOIN STRING_IDS w ON w.id = k.outputFormats "
    "  LEFT JOIN CANN_API a ON a.connectionId = NULLIF(t.connectionId, 4294967295);"
    "INSERT INTO KernelRow "
    "SELECT o.deviceId, NULL, n.value, y.value, 'COMMUNICATION', o.startNs, o.endNs, "
    "  coalesce(a.startNs, o.startNs), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL "
    "FROM COMMUNICATION_OP o JOIN STRING_IDS n ON n.id = o.opName LEFT JOIN STRING_IDS y ON y.id = o.opType "
    "  LEFT JOIN CANN_API a ON a.connectionId = NULLIF(o.connectionId, 4294967295);"
    "CREATE TEMP VIEW KernelDetails AS "
    "SELECT device AS \"Device_id\", NULL AS \"Model ID\", NULL AS \"Task ID\", stream AS \"Stream ID\", "
    "  name AS \"Name\", type AS \"Type\", state AS \"OP State\", core AS \"Accelerator Core\", "
    "  us(start) AS \"Start Time(us)\", us(end - start) AS \"Duration(us)\", "
    "  us(max(0, start - CASE WHEN stream IS NULL THEN NULL ELSE max(end) OVER (PARTITION BY device, stream "
    "    ORDER BY start, end ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) END)) AS \"Wait Time(us)\", "
    "  blocks AS \"Block Num\", mixed AS \"Mix Block Num\", hf32 AS \"HF32 Eligible\", shapes AS \"Input Shapes\", "
    "  dtypes AS \"Input Data Types\", formats AS \"Input Formats\", outShapes AS \"Output Shapes\", "
    "  outDtypes AS \"Output Data Types\", outFormats AS \"Output Formats\", called, start, end FROM KernelRow;";

#define KERNEL_COLUMNS \
    "\"Device_id\", \"Model ID\", \"Task ID\", \"Stream ID\", \"Name\", \"Type\", \"OP State\", \"Accelerator Core\", " \
    "\"Start Time(us)\", \"Duration(us)\", \"Wait Time(us)\", \"Block Num\", \"Mix Block Num\", \"HF32 Eligible\", " \
    "\"Input Shapes\", \"Input Data Types\", \"Input Formats\", \"Output Shapes\", \"Output Data Types\", " \
    "\"Output Formats\" FROM KernelDetails ORDER BY start, end, \"Name\""

static const struct table_of_text {
    const char *name;
    const char *with_steps; /* the question where the recording has steps; NULL: it is the same */
    const char *sql;
} tables[] = {
    {"kernel_details",
     "SELECT (SELECT CASE WHEN s.endNs > called THEN s.id END FROM STEP_TIME s WHERE s.startNs <= called "
     "  ORDER BY s.startNs DESC LIMIT 1) AS \"Step Id\", " KERNEL_COLUMNS,
     "SELECT " KERNEL_COLUMNS},
    {"op_statistic", NULL,
     "SELECT device AS \"Device_id\", type AS \"OP Type\", core AS \"Core Type\", count(*) AS \"Count\", "
     "  us(sum(end - start)) AS \"Total Time(us)\", us(min(end - start)) AS \"Min Time(us)\", "
     "  us(sum(end - start) / count(*)) AS \"Avg Time(us)\", us(max(end - start)) AS \"Max Time(us)\", "
     "  printf('%.3f', 100.0 * sum(end - start) / sum(sum(end - start)) OVER (PARTITION BY device)) AS \"Ratio(%)\" "
     "FROM KernelRow WHERE stream IS NOT NULL GROUP BY device, type, core "
     "ORDER BY device, sum(end - start) DESC, type"},
    {"api_statistic", NULL,
     "WITH calls AS (SELECT e.name AS level, n.value AS name, a.endNs - a.startNs AS ns FROM CANN_API a "
     "  JOIN STRING_IDS n ON n.id = a.name LEFT JOIN ENUM_API_TYPE e ON e.id = a.type "
     "  WHERE n.value <> '" STEP_CALL "'), "
     "means AS (SELECT level, name, avg(ns) AS mean FROM calls GROUP BY level, name) "
     "SELECT 'host' AS \"Device_id\", level AS \"Level\", name AS \"API Name\", us(sum(ns)) AS \"Time(us)\", "
     "  count(*) AS \"Count\", us(sum(ns) / count(*)) AS \"Avg(us)\", us(min(ns)) AS \"Min(us)\", "
     "  us(max(ns)) AS \"Max(us)\", printf('%.3f', avg((ns - mean) * (ns - mean)) / 1e6) AS \"Variance\" "
     "FROM calls JOIN means USING (level, name) GROUP BY level, name ORDER BY level, sum(ns) DESC, name"},
    {"memory_record", NULL,
     "SELECT s.value AS \"Component\", us(timestamp) AS \"Timestamp(us)\", "
     "  totalAllocated / 1048576.0 AS \"Total Allocated(MB)\", totalReserved / 1048576.0 AS \"Total Reserved(MB)\", "
     "  totalActive / 1048576.0 AS \"Total Active(MB)\", streamPtr AS \"Stream Ptr\", "
     "  'NPU:' || deviceId AS \"Device Type\" "
     "FROM MEMORY_RECORD LEFT JOIN STRING_IDS s ON s.id = component ORDER BY timestamp"},
    {"operator_memory", NULL,
     "SELECT s.value AS \"Name\", size / 1024.0 AS \"Size(KB)\", us(allocationTime) AS \"Allocation Time(us)\", "
     "  us(releaseTime) AS \"Release Time(us)\", us(activeReleaseTime) AS \"Active Release Time(us)\", "
     "  us(duration) AS \"Duration(us)\", us(activeDuration) AS \"Active Duration(us)\", "
     "  allocationTotalAllocated / 1048576.0 AS \"Allocation Total Allocated(MB)\", "
     "  allocationTotalReserved / 1048576.0 AS \"Allocation Total Reserved(MB)\", "
     "  allocationTotalActive / 1048576.0 AS \"Allocation Total Active(MB)\", "
     "  releaseTotalAllocated / 1048576.0 AS \"Release Total Allocated(MB)\", "
     "  releaseTotalReserved / 1048576.0 AS \"Release Total Reserved(MB)\", "
     "  releaseTotalActive / 1048576.0 AS \"Release Total Active(MB)\", streamPtr AS \"Stream Ptr\", "
     "  'NPU:' || deviceId AS \"Device Type\" "
     "FROM OP_MEMORY m LEFT JOIN STRING_IDS s ON s.id = m.name ORDER BY allocationTime, releaseTime"},
};

/* operators_settle() has filled OperatorTime. */
static const char operator_details[] =
    "SELECT n.value AS \"Name\", s.value AS \"Input Shapes\", "
    "  (" CALL_STACK_OF("p") ") AS \"Call Stack\", "
    "  us(o.hostSelf) AS \"Host Self Duration(us)\", us(o.hostTotal) AS \"Host Total Duration(us)\", "
    "  us(o.deviceSelf) AS \"Device Self Duration(us)\", us(o.deviceTotal) AS \"Device Total Duration(us)\", "
    "  NULL AS \"Device Self Duration With AICore(us)\", NULL AS \"Device Total Duration With AICore(us)\" "
    "FROM OperatorTime o JOIN PYTORCH_API p ON p.rowid = o.id JOIN STRING_IDS n ON n.id = p.name "
    "  LEFT JOIN STRING_IDS s ON s.id = p.inputShapes ORDER BY o.id";

/* clang-format on */

static enum rs_status failed(const struct rs_export_ascend *e, struct rs_err *err)
{
    return rs_err_set(err, RS_IO, "cannot read back %s: %s", e->rows.path,
                      sqlite3_errmsg(e->rows.handle));
}

static enum rs_status put_header(sqlite3_stmt *rows, FILE *file, const char *path,
                                 struct rs_buf *line, struct rs_err *err)
{
    for (int i = 0; i < sqlite3_column_count(rows); i++) {
        rs_buf_string(line, i ? "," : "");
        table_file_cell(line, sqlite3_column_name(rows, i));
    }
    return table_file_line(file, path, line, err);
}

static enum rs_status write_rows(struct rs_export_ascend *e, const char *name, sqlite3_stmt *rows,
                                 struct rs_err *err)
{
    char *path = NULL, file_name[64];
    FILE *file = NULL;
    struct rs_buf line = {0};
    enum rs_status status = RS_OK;
    int code = sqlite3_step(rows);
    (void)snprintf(file_name, sizeof file_name, "%s.csv", name);
    if (code == SQLITE_ROW) {
        status = table_file_open(e, file_name, &path, &file, err);
        if (status == RS_OK)
            status = put_header(rows, file, path, &line, err);
    }
    for (; status == RS_OK && code == SQLITE_ROW; code = sqlite3_step(rows)) {
        for (int i = 0; i < sqlite3_column_count(rows); i++) {
            const char *cell = (const char *)sqlite3_column_text(rows, i);
            rs_buf_string(&line, i ? "," : "");
            if (cell)
                table_file_cell(&line, cell);
        }
        status = table_file_line(file, path, &line, err);
    }
    if (status == RS_OK && code != SQLITE_DONE)
        status = failed(e, err);
    if (file && fclose(file) != 0 && status == RS_OK)
        status = rs_err_errno(err, "cannot write %s", path);
    rs_buf_fini(&line);
    rs_mem_free(path);
    return status;
}

static enum rs_status write_table(struct rs_export_ascend *e, const char *name, const char *sql,
                                  struct rs_err *err)
{
    sqlite3_stmt *rows = NULL;
    if (kept_has(e, name))
        return RS_OK;
    enum rs_status status = sqlite3_prepare_v2(e->rows.handle, sql, -1, &rows, NULL) == SQLITE_OK
                                ? RS_OK
                                : failed(e, err);
    if (status == RS_OK)
        status = write_rows(e, name, rows, err);
    (void)sqlite3_finalize(rows);
    return status;
}

enum rs_status text_tables(struct rs_export_ascend *e, struct rs_err *err)
{
    bool has_no_steps = true;
    enum rs_status status =
        sqlite3_create_function_v2(e->rows.handle, "us", 1, SQLITE_UTF8 | SQLITE_DETERMINISTIC,
                                   NULL, us_of_ns, NULL, NULL, NULL) == SQLITE_OK
            ? db_run(&e->rows, views, err)
            : failed(e, err);
    if (status == RS_OK)
        status = db_is_empty(&e->rows, "STEP_TIME", &has_no_steps, err);
    for (size_t i = 0; i < sizeof tables / sizeof tables[0] && status == RS_OK; i++)
        status = write_table(
            e, tables[i].name,
            tables[i].with_steps && !has_no_steps ? tables[i].with_steps : tables[i].sql, err);
    return status == RS_OK ? write_table(e, "operator_details", operator_details, err) : status;
}
