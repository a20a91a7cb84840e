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

/* clang-format off */

/* Times of a table that the rank does not have are 0, those that it does not say are unknown. */
#define IN_TASKS(time) "iif(has('TASK.connectionId'), t." time ", 0)"
#define HAS_TORCH "has('PYTORCH_API.connectionId CONNECTION_IDS.id CONNECTION_IDS.connectionId')"

static const char points_sql[] =
    "SELECT m.value, e.startNs, iif(:compat, 0, " IN_TASKS("startNs") "), iif(:compat OR NOT " HAS_TORCH
    ", 0, CAST(p.startNs AS INTEGER)), e.globalTid FROM MSTX_EVENTS e LEFT JOIN TASK t ON t.connectionId = "
    "e.connectionId AND NOT :compat LEFT JOIN CONNECTION_IDS k ON k.connectionId = e.connectionId AND NOT :compat "
    "LEFT JOIN PYTORCH_API p ON p.connectionId = k.id LEFT JOIN STRING_IDS m ON m.id = e.message WHERE e.eventType "
    "= 3 AND e.startNs >= :from AND e.startNs <= :to ORDER BY e.startNs";
static const char ranges_sql[] =
    "SELECT coalesce(m.value, ''), e.startNs, e.endNs, " IN_TASKS("startNs") ", " IN_TASKS("endNs")
    " FROM MSTX_EVENTS e LEFT JOIN TASK t ON t.connectionId = e.connectionId LEFT JOIN STRING_IDS m ON m.id = "
    "e.message WHERE e.eventType = 2 AND e.startNs >= :from AND e.startNs <= :to AND e.connectionId <> 4294967295 "
    "ORDER BY e.startNs";

/* Stop marks with the last open start of their name and thread; then ranges with their paths. */
static const char paired_sql[] =
    "CREATE TEMP TABLE pair AS SELECT *, partner(id, is_start) OVER (PARTITION BY tid, head ORDER BY id ROWS "
    "UNBOUNDED PRECEDING) AS start FROM (SELECT rowid AS id, *, text GLOB '*_start' AS is_start, substr(text, 1, "
    "length(text) - iif(text GLOB '*_start', 6, 5)) AS head FROM points WHERE text GLOB '*_start' OR text GLOB "
    "'*_stop'); "
    "SELECT 0, count(*) || ' stop marks have no start' FROM pair WHERE NOT is_start AND start IS NULL HAVING "
    "count(*); "
    "CREATE TEMP TABLE event AS SELECT rowid AS id, start, end, text, around(rowid, end, end) OVER (ORDER BY start, "
    "end DESC, rowid ROWS UNBOUNDED PRECEDING) AS up FROM ranges; "
    "CREATE INDEX temp.event_up ON event (up); "
    "CREATE TEMP TABLE nested (id INTEGER PRIMARY KEY, name); "
    "INSERT INTO nested WITH RECURSIVE path (id, start, end, text, level) AS (SELECT id, start, end, text, 1 FROM "
    "event WHERE up IS NULL UNION ALL "
    "SELECT e.id, e.start, e.end, iif(level < 99, path.text || '::', '') || e.text, level + 1 FROM path JOIN event "
    "e ON e.up = path.id) "
    /* of equal times the innermost one's name */
    "SELECT id, last_value(text) OVER (PARTITION BY start, end ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND "
    "UNBOUNDED FOLLOWING) AS name FROM path";

/* Names that come more than once in a step get a number. */
static const char marks_sql[] =
    "WITH mark (source, id, name, framework, cann, device, start) AS (SELECT 1, stop.id, stop.head, stop.framework "
    "- begin.framework, stop.cann - begin.cann, stop.device - begin.device, begin.cann FROM pair stop JOIN pair "
    "begin ON begin.id = stop.start WHERE NOT stop.is_start UNION ALL "
    "SELECT 2, id, name, 0, end - start, device_end - device_start, start FROM ranges CROSS JOIN nested ON id = "
    "ranges.rowid), "
    "stepped AS (SELECT *, coalesce((SELECT s.id FROM STEP_TIME s WHERE s.startNs <= start AND start <= s.endNs "
    "ORDER BY s.startNs LIMIT 1), 0) AS step FROM mark) "
    "SELECT name || iif(count(*) OVER (PARTITION BY step, name) > 1, '_' || (row_number() OVER (PARTITION BY step, "
    "name ORDER BY source, id) - 1), ''), framework, cann, device, :rank, step FROM stepped ORDER BY source, id";

/* Shares of the rank's sum, in percent. */
#define SHARE(column) "CASE WHEN " column "_sum <> 0 THEN " column " / " column "_sum * 100 ELSE 0 END"
#define SUM(column) "sum_exact(" column ") AS " column "_sum"
static const char mark_sql[] =
    "SELECT name, framework, " SHARE("framework") ", cann, " SHARE("cann") " AS c, device, " SHARE("device")
    ", rank, step FROM (SELECT *, marks.rowid AS at FROM marks) JOIN (SELECT rank, " SUM("framework") ", "
    SUM("cann") ", " SUM("device") " FROM marks GROUP BY rank) USING (rank) ORDER BY c DESC, at";
#define MARK_COLUMNS \
    "Name:t|FrameworkDurationNs:r|FrameworkDurationRatio(%):r|CannDurationNs:r|CannDurationRatio(%):r|DeviceDuratio" \
    "nNs:r|DeviceDurationRatio(%):r|Rank:i|StepId:i"

/* Statistics of one of the three durations. A rank is 0 where there is no time at all, as the peer has it. */
#define LINE_COLUMNS \
    "Name:t|Count:r|MeanNs:r|StdNs:r|MinNs:r|MinRank:i|Q1Ns:r|MedianNs:r|Q3Ns:r|MaxNs:r|MaxRank:i|SumNs:r|Dispersio" \
    "n(%):r|StepId:i"
#define LINES(column) \
    "SELECT name, stat(s,0), stat(s,1), stat(s,2), stat(s,3), iif(is_none, 0, least), stat(s,4), stat(s,5), " \
    "stat(s,6), stat(s,7), iif(is_none, 0, most), total, dispersion, step FROM (SELECT *, coalesce((stat(s,7) - " \
    "stat(s,6)) / total * 100, 0) AS dispersion, stat(s,3) >= 0 AND stat(s,7) <= 0 AS is_none FROM (SELECT step, " \
    "name, column_stats(" column ") AS s, sum_exact(" column ") AS total, rank_of_least(" column \
    ", rank) AS least, rank_of_most(" column ", rank) AS most FROM mark GROUP BY step, name HAVING count(" column \
    ") > 0)) ORDER BY step, dispersion DESC, name"
/* clang-format on */
#define RESULT_LINES(which, prefix, of)                                                            \
    {                                                                                              \
        .name = "MSTXAll" which "Stats", .file = "all_" prefix "_stats.csv",                       \
        .columns = LINE_COLUMNS, .sql = LINES(of), .index_columns = 1, .is_ms = true               \
    }

static const struct result results[] = {
    /* the longest of a rank first; sums are made in this order */
    {.name = "mark",
     .columns = "name:t framework:r f:r cann:r c:r device:r d:r rank:i step:i",
     .is_rows = true,
     .sql = mark_sql},
    {.name = "MSTXMarkStats",
     .columns = "index:i|" MARK_COLUMNS,
     .sql = "SELECT rowid, * FROM mark",
     .index_columns = 1,
     .is_only_db = true},
    {.name = "MSTXMarkStats",
     .file = "mark_stats.csv",
     .columns = MARK_COLUMNS,
     .sql = "SELECT * FROM mark",
     .is_ms = true,
     .is_only_text = true},
    RESULT_LINES("Framework", "fwk", "framework"),
    RESULT_LINES("Cann", "cann", "cann"),
    RESULT_LINES("Device", "device", "device"),
};

const struct recipe recipe_mstx_sum = {
    .info = {"mstx_sum", "durations of the job's own marks and ranges",
             "MSTXMarkStats, MSTXAllFrameworkStats, MSTXAllCannStats, MSTXAllDeviceStats"},
    .folder = "MstxSum",
    .needs = NEED_PROFILER,
    .optional = "TASK(startNs,endNs;connectionId) PYTORCH_API(startNs;connectionId) "
                "CONNECTION_IDS(id,connectionId) STEP_TIME(id,endNs;startNs)",
    .frames = {{.name = "points",
                .columns = "text:t cann:i device:i framework:i tid:i",
                .requires = "MSTX_EVENTS.startNs MSTX_EVENTS.endNs MSTX_EVENTS.eventType "
                            "MSTX_EVENTS.message MSTX_EVENTS.globalTid MSTX_EVENTS.connectionId "
                            "STRING_IDS.value",
                .sql = points_sql,
                .is_passing = true},
               {.name = "ranges",
                .columns = "text:t start:i end:i device_start:i device_end:i",
                .sql = ranges_sql,
                .is_passing = true},
               {.sql = paired_sql},
               {.name = "marks",
                .columns = "name:t framework:r cann:r device:r rank:i step:i",
                .sql = marks_sql,
                .missing = "no marks"}},
    RESULTS(results),
};
