/* SPDX-License-Identifier: Apache-2.0 */
/*
 * calibrate_npu_gpu: the modules of a network on an NPU beside the same modules on a GPU.
 *
 * Peer: the NPU's side is module_statistic; the GPU's an SQLite export of Nsight Systems: push/pop ranges of
 * NVTX_EVENTS are a stack per thread, a kernel belongs to the ranges that are open where it was launched. Ranges whose name holds
 * one of a few words are modules, ranges with "::" are operations. Both sides by (parent, module, operation); modules match by
 * path and name without "Ascend", else by the most alike path; within a module the rows by time, side by side. A
 * rank is compared with the device of its number: CompareProfileReportRankR, compare_profile_report_R.csv.
 *
 * Corrected: a GPU's path has no "/" before it (the peer's has, so that below the outermost modules nothing matches by rule);
 * --fuzzy-threshold counts (the peer always takes 0.6); a [Backward] module is not matched with one that is
 * none; a range is a module too when the NPU has one of its name (the peer's words are those of one family of networks); the
 * mean of an operation is its time over its calls, not a mean of means; a launch and a kernel of one number
 * belong together within a process only; what a row does not have is empty, not a blank.
 */
#include "ascend/recipe/modules.h"

/* clang-format off */

/* Ranges and launches of the GPU's file, by thread and time. */
#define GPU_EVENTS(same_process) \
    "SELECT n.globalTid, n.start, n.end, 0, coalesce(n.text, s.value, 'Unknown_Region'), 0, 0 FROM NVTX_EVENTS n " \
    "LEFT JOIN StringIds s ON s.id = n.textId WHERE n.eventType = 59 AND n.start IS NOT NULL AND n.end IS NOT NULL " \
    "UNION ALL " \
    "SELECT r.globalTid, r.start, r.start, 1, s.value, k.end - k.start, k.deviceId FROM " \
    "CUPTI_ACTIVITY_KIND_RUNTIME r JOIN CUPTI_ACTIVITY_KIND_KERNEL k ON k.correlationId = r.correlationId " \
    same_process "JOIN StringIds s ON s.id = k.demangledName WHERE r.start IS NOT NULL AND k.end >= k.start ORDER " \
    "BY 1, 2, 4, 3 DESC"

#define IN_NAME(word) "instr(name, '" word "') OR "
#define IS_MODULE \
    "(" IN_NAME("Qwen") IN_NAME("Attention") IN_NAME("Linear") IN_NAME("RMSNorm") IN_NAME("Embedding") \
    IN_NAME("Sampler") IN_NAME("Logits") "NOT :compat AND name <> '' AND name IN (SELECT replace(name, 'Ascend', " \
    "'') FROM modules))"

/* What module_statistic is to the other side: kernels by the ranges that were open where they were launched. */
static const char gpu_sql[] =
    "CREATE TEMP TABLE event AS SELECT *, around(iif(is_kernel, NULL, rowid), end, start + 1) OVER (PARTITION BY "
    "thread ORDER BY rowid ROWS UNBOUNDED PRECEDING) AS up, rowid AS id FROM events; "
    "CREATE INDEX temp.event_up ON event (is_kernel, up); "
    "CREATE TEMP TABLE range (id INTEGER PRIMARY KEY, op, module, parent); "
    "INSERT INTO range WITH RECURSIVE sort AS MATERIALIZED (SELECT name, " IS_MODULE " AS is_module, instr(name, "
    "'::') AS is_op FROM events GROUP BY name), "
    "open (id, op, module, parent) AS (SELECT NULL, NULL, NULL, '' UNION ALL "
    "SELECT r.id, iif(is_op, name, op), iif(is_module, name, module), iif(is_module AND module IS NOT NULL, parent "
    "|| iif(parent <> '' OR :compat, '/', '') || module, parent) FROM open JOIN event r ON is_kernel = 0 AND r.up "
    "IS open.id JOIN sort USING (name)) "
    "SELECT * FROM open WHERE id IS NOT NULL; "
    "CREATE TEMP TABLE gpu AS SELECT device AS rank, parent, module AS name, substr(op, 1, instr(op, ',') - 1) AS "
    "op, kernels, CAST(sum(time) AS REAL) AS total, CAST(sum(time) AS REAL) / count(*) AS mean, count(*) AS calls "
    "FROM (SELECT device, parent, module, coalesce(op, 'None') || ',' AS op, event.name AS kernels, time FROM event "
    "JOIN range ON range.id = up WHERE is_kernel AND module IS NOT NULL) GROUP BY 1, 2, 3, 4, 5";

/* Operations of modules of both sides, us. */
static const char sides_sql[] =
    "CREATE TEMP TABLE side AS WITH row AS (SELECT 0 AS is_gpu, rank, parent, name, op, kernels, total, mean, "
    "calls, rowid AS n FROM modules UNION ALL "
    "SELECT 1, rank, parent, name, op, kernels, total, mean, calls, row_number() OVER (ORDER BY total DESC, "
    "kernels) FROM gpu), "
    "joined AS (SELECT *, group_concat(kernels, ', ') OVER (PARTITION BY is_gpu, rank, parent, name, op ORDER BY n) "
    "AS list FROM row), "
    "one AS (SELECT is_gpu, rank, parent, name, op, list, max(n), sum_exact_by(total, n) AS total, "
    "sum_exact_by(mean, n) / count(*) AS mean, sum(calls) AS calls FROM joined GROUP BY is_gpu, rank, parent, name, "
    "op) "
    "SELECT row_number() OVER (ORDER BY rank, is_gpu, parent, name, op) AS at, rank, is_gpu, iif(is_gpu, parent || "
    "'/' || name, replace(parent || '/' || name, 'Ascend', '')) AS key, parent, name, op, list AS kernels, total / "
    "1000 AS total, iif(:compat, mean, total / calls) / 1000 AS mean, calls FROM one; "
    ""
    /* what the GPU has no module of goes by the most alike one's key */
    "CREATE TEMP TABLE alias AS SELECT rank, key, (SELECT other FROM (SELECT DISTINCT key AS other, alike(key, "
    "n.key, least) AS ratio FROM side g WHERE is_gpu AND g.rank = n.rank AND (:compat OR (instr(key, '[Backward]') "
    "> 0) = (instr(n.key, '[Backward]') > 0))) WHERE ratio >= least ORDER BY ratio DESC, other DESC LIMIT 1) AS "
    "other FROM (SELECT DISTINCT rank, key, iif(:compat, 0.6, :figure) AS least FROM side WHERE NOT is_gpu AND "
    ":figure > 0) n WHERE (rank, key) NOT IN (SELECT rank, key FROM side WHERE is_gpu)";

static const char no_device_sql[] =
    "SELECT rank, 1, :text || ' has no device ' || rank || ' to compare with' FROM side WHERE rank NOT IN (SELECT "
    "rank FROM gpu) GROUP BY rank";

/* Of a path what stands before the last "/", which ends `FOLDER`, and behind it. */
#define FOLDER "rtrim(path, replace(path, '/', ''))"
#define PATH_PARENT "substr(path, 1, length(" FOLDER ") - 1)"
#define PATH_NAME "substr(path, length(" FOLDER ") + 1)"
/* The peer writes a blank where nothing is known. */
#define BLANK(value) "iif(:compat, coalesce(" value ", ' '), " value ")"
#define SIDE(s, whole) \
    BLANK(s ".op") ", " BLANK(s ".calls") ", " BLANK(s ".kernels") ", " BLANK(s ".total") ", " \
    BLANK("CASE WHEN " whole " > 0 THEN fixed(" s ".total / " whole " * 100, 2) || '%' END") ", " BLANK(s ".mean")
#define WHOLE(is_gpu) \
    "(SELECT sum_plain_by(total, at) FROM side WHERE side.rank = :rank AND side.is_gpu = " is_gpu ")"

/* Rows of a rank's modules side by side, the longest of each side first. */
static const char report_sql[] =
    "WITH turn AS (SELECT side.*, coalesce(other, key) AS path, other IS NOT NULL AS is_fuzzy, row_number() OVER "
    "(PARTITION BY coalesce(other, key), is_gpu ORDER BY total DESC, at) AS i FROM side LEFT JOIN alias USING "
    "(rank, key) WHERE rank = :rank AND rank IN (SELECT rank FROM gpu) AND rank IN (SELECT rank FROM modules)), "
    "pair AS (SELECT path, i, max(iif(is_gpu, NULL, at)) AS npu, max(iif(is_gpu, at, NULL)) AS gpu, "
    "iif(max(is_fuzzy), 'fuzzy', 'rule') AS how FROM turn GROUP BY path, i), "
    "module AS MATERIALIZED (SELECT path, sum_exact_by(iif(is_gpu, NULL, total), i) AS npus, "
    "sum_exact_by(iif(is_gpu, total, NULL), i) AS gpus FROM turn GROUP BY path), "
    "whole AS MATERIALIZED (SELECT " WHOLE("0") " AS npu_us, " WHOLE("1") " AS gpu_us) "
    "SELECT iif(gpu, g.parent, " PATH_PARENT "), iif(gpu, g.name, " PATH_NAME "), iif(npu, n.parent, " PATH_PARENT
    "), iif(npu, n.name, " PATH_NAME "), " BLANK("iif(npu, how, NULL)") ", " SIDE("n", "npu_us") ", "
    SIDE("g", "gpu_us") ", " BLANK("fixed(npus / iif(gpus > 0, gpus, NULL), 2)") ", " BLANK("npus - gpus")
    " FROM pair JOIN module USING (path) JOIN whole LEFT JOIN side n ON n.at = npu LEFT JOIN side g ON g.at = gpu "
    "ORDER BY iif(gpu, g.parent, " PATH_PARENT "), coalesce(gpus - npus, -9e999), coalesce(-g.total, -9e999), path, "
    "i";
/* clang-format on */

#define SIDE_COLUMNS(side)                                                                         \
    "(" side ") Op Name:t|(" side ") Op Count:i|(" side ") Kernel List:t|(" side                   \
    ") Total Kernel Duration(us):r|(" side ") Total Kernel Duration(%):t|(" side                   \
    ") Avg Kernel Duration(us):r|"

static const struct result results[] = {
    {.sql = sides_sql},
    {.sql = no_device_sql},
    {.name = "CompareProfileReportRank",
     .file = "compare_profile_report",
     .columns = "(GPU) Parent Module:t|(GPU) Module:t|(NPU) Parent Module:t|(NPU) Module:t|"
                "Match Type:t|" SIDE_COLUMNS("NPU") SIDE_COLUMNS(
                    "GPU") "(NPU/GPU) Module Time Ratio:t|(NPU-GPU,us) Module Time Diff:r",
     .sql = report_sql,
     .by_rank = true}};

enum { EVENTS = 6 }; /* a frame */

static void read_gpu(struct inputs *in, struct frame *events)
{
    const char *path = in->run->options->baseline;
    struct rs_ascend_db *db = NULL;
    in->status = rs_ascend_db_open(path, &db, &in->err);
    in_require(in, db,
               "NVTX_EVENTS.start NVTX_EVENTS.end NVTX_EVENTS.text NVTX_EVENTS.textId "
               "NVTX_EVENTS.globalTid NVTX_EVENTS.eventType StringIds.value "
               "CUPTI_ACTIVITY_KIND_RUNTIME.globalTid CUPTI_ACTIVITY_KIND_RUNTIME.correlationId "
               "CUPTI_ACTIVITY_KIND_KERNEL.correlationId CUPTI_ACTIVITY_KIND_KERNEL.demangledName "
               "CUPTI_ACTIVITY_KIND_KERNEL.deviceId");
    in_load(in, events, db,
            in->status == RS_OK &&
                    rs_ascend_db_has_column(db, "CUPTI_ACTIVITY_KIND_KERNEL", "globalPid")
                ? GPU_EVENTS("AND k.globalPid = r.globalTid / 16777216 * 16777216 ")
                : GPU_EVENTS(""));
    rs_ascend_db_close(&db);
}

static enum rs_status finish(struct run *run, struct rs_err *err)
{
    static const struct result gpu = {.sql = gpu_sql};
    static const struct recipe_rank nobody = {0};
    struct inputs in = {.of = &nobody, .run = run};
    bool is_any = false;
    read_gpu(&in, &run->frames[EVENTS]);
    enum rs_status status = in.status == RS_OK ? result_write(run, &gpu, err)
                                               : rs_err_set(err, in.status, "%s", in.err.text);
    if (status == RS_OK)
        status = result_ask(run, "SELECT 1 FROM gpu", 0, &is_any, err);
    if (status == RS_OK && !is_any)
        status =
            rs_err_set(err, RS_NOTFOUND, "%s has no kernels under modules", run->options->baseline);
    return status == RS_OK ? frames_finish(run, err) : status;
}

static enum rs_status start(struct run *run, struct rs_err *err)
{
    return run->options->baseline
               ? RS_OK
               : rs_err_set(
                     err, RS_INVALID,
                     "calibrate_npu_gpu needs --baseline-profiling-path, an SQLite export of "
                     "Nsight Systems (nsys export --type sqlite)");
}

const struct recipe recipe_calibrate_npu_gpu = {
    .info = {"calibrate_npu_gpu", "modules on an NPU beside the same on a GPU",
             "CompareProfileReportRankR"},
    .folder = "CalibrateNpuGpu",
    .needs = NEED_PROFILER,
    .optional = MODULES_OPTIONAL,
    .frames = {FRAMES_MODULES,
               {.name = "events",
                .columns = "thread:i start:i end:i is_kernel:i name:t time:i device:i"}},
    RESULTS(results),
    .start = start,
    .finish = finish,
};
