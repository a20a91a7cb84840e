/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules of a network, the framework calls under them and the kernels those launched: what module_statistic, operator_mfu
 * and calibrate_npu_gpu count.
 *
 *     kernels --> call                                        equal (start, end, name), with the kernels' names and time
 *     ranges  --> span <-- backward <-- launched              mstx ranges of the domain "Module", and those made for backward
 *     call + span --> placed --> numbered --> grouped --> modules
 *
 * As the peer does it, per rank: ranges are a tree by time; framework calls that launched a kernel (COMPUTE_TASK_INFO,
 * COMMUNICATION_OP, COMMUNICATION_SCHEDULE_TASK_INFO) hang under the innermost range around them. Backward: calls with two
 * connection ids are forward and backward of one operation; runs of backward calls of one forward module become ranges of
 * their own, marked [Backward]. Calls of equal (parent, module, name, place, kernels, sequence of calls) over all repetitions
 * are one row. Where repetitions that follow each other have different sequences, the modules get _0, _1, ... At most 20
 * levels.
 */
#include "ascend/recipe/modules.h"

/* clang-format off */

#define TASKS_OF(table) \
    table " c JOIN TASK t ON t.globalTaskId = c.globalTaskId LEFT JOIN STRING_IDS n ON n.id = c.name "
#define KERNELS_OF(source, name, shapes, table) \
    "SELECT " source ", coalesce(" name ", ''), t.startNs, t.endNs, o.value, CAST(p.startNs AS INTEGER), " \
    "CAST(p.endNs AS INTEGER), " shapes " FROM " table "JOIN CONNECTION_IDS k ON k.connectionId = t.connectionId " \
    "JOIN PYTORCH_API p ON p.connectionId = k.id JOIN STRING_IDS o ON o.id = p.name "
#define NO_SHAPES "NULL, NULL, NULL, NULL"
#define SHAPE(column) "(SELECT trim(value, char(34, 39)) FROM STRING_IDS WHERE id = c." column ")"
#define KERNELS(shapes) \
    "WITH kernel (source, name, start, end, op, op_start, op_end, task, types, inputs, outputs) AS (" \
    KERNELS_OF("1", "n.value", shapes, TASKS_OF("COMPUTE_TASK_INFO")) "UNION ALL " \
    KERNELS_OF("2", "n.value", NO_SHAPES, "COMMUNICATION_OP t JOIN STRING_IDS n ON n.id = t.opType ") "UNION ALL " \
    KERNELS_OF("3", "n.value", NO_SHAPES, TASKS_OF("COMMUNICATION_SCHEDULE_TASK_INFO")) ") " \
    "SELECT name, start, end, op, op_start, op_end, task, types, inputs, outputs FROM kernel ORDER BY source, " \
    "op_start, start"

const char modules_kernels_sql[] = KERNELS(NO_SHAPES);
const char modules_shaped_kernels_sql[] =
    KERNELS("c.globalTaskId, " SHAPE("inputDataTypes") ", " SHAPE("inputShapes") ", " SHAPE("outputShapes"));

const char modules_ranges_sql[] =
    "SELECT coalesce(n.value, ''), e.startNs, e.endNs FROM MSTX_EVENTS e LEFT JOIN STRING_IDS n ON n.id = e.message "
    "LEFT JOIN STRING_IDS d ON d.id = e.domainId WHERE e.eventType = 2 AND d.value = 'Module' ORDER BY e.startNs";

const char modules_calls_sql[] =
    "CREATE TEMP TABLE span AS SELECT name, start, end, 0 AS is_backward FROM ranges; "
    "CREATE TEMP TABLE call AS SELECT op AS name, op_start AS start, op_end AS end, group_concat(name, ', ') AS "
    "kernels, sum(end - start) AS time FROM kernels GROUP BY op_start, op_end, op ORDER BY op_start, op_end, op";

/* Where the rows of a table with names and times hang: CALLS_place has a span with the names of those around it. Tables with
 * indexes, since SQLite makes none for what is made within a statement. */
#define PLACE(calls) \
    "CREATE TEMP TABLE " calls "_event AS SELECT id, is_call, around(iif(is_call, NULL, id), end, end) OVER (ORDER " \
    "BY start, end DESC, is_call, id ROWS UNBOUNDED PRECEDING) AS up FROM (SELECT rowid AS id, start, end, 0 AS " \
    "is_call FROM span UNION ALL " \
    "SELECT rowid, start, end, 1 FROM " calls "); " \
    "CREATE INDEX temp." calls "_up ON " calls "_event (is_call, up); " \
    "CREATE TEMP TABLE " calls "_place (span INTEGER PRIMARY KEY, name, parent, level, is_backward, start, end); " \
    "INSERT INTO " calls "_place WITH RECURSIVE place AS (SELECT id AS span, name, '' AS parent, 1 AS level, " \
    "is_backward, start, end FROM " calls "_event JOIN span ON span.rowid = id WHERE is_call = 0 AND up IS NULL " \
    "UNION ALL " \
    "SELECT id, s.name, iif(level = 1, '', parent || '/') || place.name, level + 1, place.is_backward OR " \
    "s.is_backward, s.start, s.end FROM place JOIN " calls "_event ON is_call = 0 AND up = place.span JOIN span s " \
    "ON s.rowid = id) " \
    "SELECT * FROM place; " \
    ""
#define HANG(calls) \
    "SELECT place.*, id AS call FROM " calls "_event CROSS JOIN " calls "_place place ON span = up WHERE is_call"

/* Calls with a forward and a backward side, of whose backward ones runs in one module are spans: of those around it, then of
 * itself. */
const char modules_backward_sql[] =
    "CREATE TEMP TABLE forward AS SELECT n.value AS name, CAST(f.startNs AS INTEGER) AS start, CAST(f.endNs AS "
    "INTEGER) AS end, coalesce(CAST(b.startNs AS INTEGER), 0) AS back_start, coalesce(CAST(b.endNs AS INTEGER), 0) "
    "AS back_end FROM (SELECT connectionId, min(id) AS low, max(id) AS high FROM CONNECTION_IDS GROUP BY "
    "connectionId HAVING count(*) > 1) c JOIN PYTORCH_API f ON f.connectionId = low JOIN STRING_IDS n ON n.id = "
    "f.name LEFT JOIN PYTORCH_API b ON b.connectionId = high WHERE n.value NOT LIKE 'Enqueue%' AND n.value NOT LIKE "
    "'Dequeue%' ORDER BY c.connectionId; "
    "" PLACE("forward") "INSERT INTO span SELECT name, start, end, 1 FROM (WITH hung AS (" HANG("forward") "), "
    "turn AS (SELECT span, hung.name, parent, level, back_start, back_end, row_number() OVER (ORDER BY back_start, "
    "call) AS n, row_number() OVER (PARTITION BY span ORDER BY back_start, call) AS of_span FROM hung JOIN forward "
    "ON forward.rowid = call), "
    "run AS (SELECT name, parent, min(n) AS n, min(back_start) AS start, max(back_end) AS end FROM turn GROUP BY "
    "span, n - of_span HAVING level <= 20) "
    "SELECT 0 AS pass, n, parent AS name, start - 1 AS start, end + 1 AS end FROM run WHERE parent <> '' UNION ALL "
    "SELECT 1, n, name, start, end FROM run ORDER BY pass, n)";

#define SAME "parent, module, op, place, kernels, sequence"
/* Each call's place in its module, and of the module's sequence of calls where it comes first; then equal ones together. */
const char modules_grouped_sql[] =
    PLACE("call") "CREATE TEMP TABLE placed AS SELECT parent, iif(is_backward, '[Backward]', '') || h.name AS "
    "module, h.start AS module_start, h.end AS module_end, call.name AS op, call.start AS start, kernels, time, "
    "h.call AS call FROM (" HANG("call") ") h JOIN call ON call.rowid = h.call WHERE level <= 20 ORDER BY "
    "call.start, call.end DESC, call.rowid; "
    "CREATE TEMP TABLE numbered AS SELECT *, min(turn) OVER (PARTITION BY ops) AS sequence FROM (SELECT *, rowid AS "
    "at, dense_rank() OVER (ORDER BY module_start, parent, module, module_end) AS turn, row_number() OVER m - 1 AS "
    "place, group_concat(op, '/') OVER (m ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS ops FROM "
    "placed WINDOW m AS (PARTITION BY module_start, parent, module, module_end ORDER BY start, rowid)); "
    "CREATE TEMP TABLE grouped AS SELECT *, row_number() OVER (ORDER BY start, " SAME ") AS at FROM (SELECT " SAME
    ", CAST(sum(time) AS REAL) AS total, count(*) AS calls, min(start) AS start FROM numbered GROUP BY " SAME ")";

/* Of modules that stand one after another those of different sequences get different names. */
#define MODULES(shares) \
    "SELECT parent, module || iif(max(suffix) OVER (PARTITION BY parent, module, island) > 0, '_' || suffix, ''), " \
    "op, kernels, total, total / calls, calls, :rank, " shares " FROM (SELECT *, dense_rank() OVER (PARTITION BY " \
    "parent, module, island ORDER BY sequence) - 1 AS suffix FROM (SELECT *, at - row_number() OVER (PARTITION BY " \
    "parent, module ORDER BY at) AS island FROM grouped)) m ORDER BY start, place, at"
const char modules_sql[] = MODULES("NULL");

/* ---- operator_mfu's: `own` says the share of a kernel's row ---- */

/* Of each kernel of a group of equal calls its mean share, "45.2%,30.1%"; nothing stands where none is known. The peer leaves
 * unknown places out, so that nobody could say whose the others are. */
const char modules_shares_sql[] =
    "CREATE TEMP TABLE kernel_place AS SELECT call.rowid AS call, row_number() OVER (PARTITION BY call.rowid ORDER "
    "BY kernels.rowid) AS k, iif(share > 0, share, NULL) AS share FROM kernels CROSS JOIN call ON call.start = "
    "op_start AND call.end = op_end AND call.name = op LEFT JOIN own ON own.kernel = kernels.rowid; "
    "CREATE TEMP TABLE shown AS WITH mean AS (SELECT " SAME ", k, number_text(round_even(sum_pairs_by(share, n.at) "
    "/ count(share) * 100, 2)) || '%' AS text FROM numbered n JOIN kernel_place USING (call) GROUP BY " SAME ", k), "
    "joined AS (SELECT *, group_concat(iif(:compat, text, coalesce(text, '')), ',') OVER (PARTITION BY " SAME
    " ORDER BY k) AS texts, count(text) OVER (PARTITION BY " SAME ") AS known, max(k) OVER (PARTITION BY " SAME
    ") AS last FROM mean) "
    "SELECT grouped.at AS at, CASE WHEN known THEN texts WHEN :compat THEN '' END AS text FROM joined JOIN grouped "
    "USING (" SAME ") WHERE k = last";
const char modules_shared_sql[] = MODULES("(SELECT text FROM shown WHERE shown.at = m.at)");
/* clang-format on */
