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

/* clang-format off */

static const char busy_sql[] =
    "SELECT t.startNs, t.endNs FROM COMPUTE_TASK_INFO c JOIN TASK t ON t.globalTaskId = c.globalTaskId UNION ALL "
    "SELECT startNs, endNs FROM COMMUNICATION_OP";
#define US(ns) "number_text(round_even((" ns ") * 0.001, 3))"
/* Tasks with their host calls. */
static const char links_sql[] =
    "SELECT y.value, TASK.startNs, TASK.endNs, a.startNs, a.endNs, CAST(p.startNs AS INTEGER), CAST(p.endNs AS "
    "INTEGER) FROM TASK LEFT JOIN CANN_API a ON a.connectionId = TASK.connectionId LEFT JOIN STRING_IDS y ON y.id = "
    "TASK.taskType LEFT JOIN CONNECTION_IDS k ON k.connectionId = TASK.connectionId LEFT JOIN PYTORCH_API p ON "
    "p.connectionId = k.id ORDER BY TASK.startNs";

static const char gaps_sql[] =
    "CREATE TEMP TABLE gap AS SELECT free, busy FROM (SELECT max(end) OVER (ORDER BY start, rowid ROWS BETWEEN "
    "UNBOUNDED PRECEDING AND 1 PRECEDING) AS free, start AS busy FROM busy) WHERE busy > free ORDER BY free - busy, "
    "free LIMIT :top";

/* Tasks wholly inside a gap: their kinds, and the longest stretch that is left. */
static const char inside_sql[] =
    "CREATE TEMP TABLE inside AS WITH task AS MATERIALIZED (SELECT gap.rowid AS gap, free, busy, links.rowid AS id, "
    "type, start, end FROM gap CROSS JOIN links WHERE start > free AND end < busy), "
    "kind AS (SELECT gap, count(*) || ' ' || type || ' tasks' AS text, row_number() OVER (PARTITION BY gap ORDER BY "
    "count(*) DESC, min(id)) AS turn FROM task WHERE type IS NOT NULL GROUP BY gap, type), "
    "kinds AS (SELECT gap, max(turn), texts FROM (SELECT gap, turn, group_concat(text, ', ') OVER (PARTITION BY gap "
    "ORDER BY turn) AS texts FROM kind) GROUP BY gap), "
    "rest AS (SELECT gap, start - coalesce(max(end) OVER (PARTITION BY gap ORDER BY id ROWS BETWEEN UNBOUNDED "
    "PRECEDING AND 1 PRECEDING), free) AS ns FROM task UNION ALL "
    "SELECT gap, busy - max(end) FROM task GROUP BY gap) "
    "SELECT gap, 'Device task running: ' || coalesce(texts, '') || iif(max(ns) > 0, ', max remaining free ' || "
    US("max(ns)") " || ' us', '.') AS text FROM rest LEFT JOIN kinds USING (gap) GROUP BY gap; "
    "CREATE TEMP TABLE beside AS SELECT rowid AS gap, (SELECT links.rowid FROM links WHERE end <= free ORDER BY end "
    "DESC, links.rowid DESC LIMIT 1) AS prior, (SELECT links.rowid FROM links WHERE start >= busy ORDER BY start, "
    "links.rowid LIMIT 1) AS later FROM gap WHERE rowid NOT IN (SELECT gap FROM inside)";

/* The peer's columns of host times become doubles as soon as one task has no call: times since 1970 then lie on steps of 256
 * ns. Those of the framework are texts, of which its parser reads 17 digits in double arithmetic, then zeros. */
#define PARSED(time) \
    "CASE WHEN length(" time ") < 17 THEN " time " ELSE ((substr(" time ", 1, 15) * 10.0 + substr(" time \
    ", 16, 1)) * 10.0 + substr(" time ", 17, 1)) * CASE length(" time ") WHEN 19 THEN 100.0 WHEN 18 THEN 10.0 ELSE " \
    "1.0 END END"
#define BLURRED(time, as) \
    ", iif(:compat AND " time " >= 0 AND (SELECT count(*) > count(" time ") FROM links), CAST(" as " AS INTEGER), " \
    "coalesce(" time ", 0)) AS " time
static const char calls_sql[] =
    "CREATE TEMP TABLE host AS SELECT links.rowid AS id" BLURRED("cann_start", "CAST(cann_start AS REAL)")
    BLURRED("cann_end", "CAST(cann_end AS REAL)") BLURRED("torch_start", PARSED("torch_start"))
    BLURRED("torch_end", PARSED("torch_end")) " FROM links WHERE links.rowid IN (SELECT later FROM beside UNION ALL "
    "SELECT prior FROM beside)";

/* The wait between framework and CANN grew by less than 50 us: nothing was dispatched. Else CANN was slow. */
static const char reasons_sql[] =
    "WITH pair AS (SELECT gap, b.id IS NOT NULL AND a.id IS NOT NULL AS is_pair, b.torch_start <> 0 AND "
    "a.torch_start <> 0 AS is_known, a.torch_end - b.torch_end AS torch_idle, a.cann_end - b.cann_end AS cann_idle, "
    "a.cann_start - a.torch_end - (b.cann_start - b.torch_end) AS grown, max(b.cann_end - b.cann_start, a.cann_end "
    "- a.cann_start) AS launch, a.cann_start - b.cann_end AS between_launches FROM beside LEFT JOIN host b ON b.id "
    "= prior LEFT JOIN host a ON a.id = later) "
    "SELECT :rank, free, busy, iif(is_known, torch_idle, NULL), iif(is_known, cann_idle, NULL), CASE WHEN text IS "
    "NOT NULL THEN text WHEN NOT is_pair THEN 'Skip free analysis due to no prev or next task.' WHEN NOT is_known "
    "THEN 'Skip free analysis due to no pytorch dispatch time.' WHEN grown < 50000 THEN 'Idle Pytorch layer: no "
    "task dispatched in ' || " US("torch_idle") " || ' us' WHEN between_launches >= launch THEN 'Abnormal CANN "
    "layer: long time between two node@launch ' || " US("between_launches") " || ' us' ELSE 'Abnormal CANN layer: "
    "long node@launch ' || " US("launch") " || ' us' END FROM gap LEFT JOIN inside ON inside.gap = gap.rowid LEFT "
    "JOIN pair ON pair.gap = gap.rowid ORDER BY gap.rowid";
/* clang-format on */

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
    .top = 10,
    .optional = "CANN_API(startNs,endNs;connectionId) CONNECTION_IDS(id,connectionId) "
                "PYTORCH_API(connectionId,startNs,endNs) COMPUTE_TASK_INFO(;globalTaskId) "
                "COMMUNICATION_OP(endNs;startNs)",
    .frames = {{.name = "busy",
                .columns = "start:i end:i",
                .requires = "TASK.startNs TASK.endNs TASK.taskType STRING_IDS.value",
                .sql = busy_sql,
                .missing = "neither computing nor communication",
                .is_passing = true},
               {.name = "links",
                .columns = "type:t start:i end:i cann_start:i cann_end:i torch_start:i torch_end:i",
                .sql = links_sql,
                .is_passing = true},
               {.sql = gaps_sql},
               {.sql = inside_sql},
               {.sql = calls_sql},
               {.name = "gaps",
                .columns = "rank:i start:i end:i torch_idle:i cann_idle:i reason:t",
                .sql = reasons_sql}},
    RESULTS(results),
};
