/* SPDX-License-Identifier: Apache-2.0 */
/*
 * computational_op_masking: how much of the communication of each kind of parallelism computing hides.
 *
 * Peer, per rank, kind and step: operations of communicators whose group_name is of the kind, and computing, as far as they
 * lie fully inside the step on the host; both united; how long the operations take, how long no computing runs beside
 * them, and the shares of the step of both (the second of 5 digits). Times are ns. A kind that the rank has no operations of has
 * no rows. Kinds: --parallel-types 'dp;tp,ep' (two kinds; the second one of two names), else those below.
 *
 * Corrected: a column says whose row it is (the peer's rows of all ranks cannot be told apart); groups also from
 * profiler_metadata.json.
 */
#include "ascend/recipe/recipe_priv.h"

/* clang-format off */

/* What lies inside a step is summed by what begins and ends at a time. */
#define INSIDE(kinds, rows, at, ops, tasks) \
    "SELECT n, row, x." at ", " ops ", " tasks " FROM " kinds " JOIN step s JOIN " rows " x ON x.start >= s.start " \
    "AND x.end <= s.end AND x.end >= x.start "
static const char kinds_sql[] =
    "WITH RECURSIVE part (n, names, rest) AS (SELECT 0, '', coalesce(:kinds, 'dp,edp;edp;dp;ep;pp;mp;tp') || ';' "
    "UNION ALL "
    "SELECT n + 1, ltrim(substr(rest, 1, instr(rest, ';') - 1)), substr(rest, instr(rest, ';') + 1) FROM part WHERE "
    "rest <> ''), "
    "named AS MATERIALIZED (SELECT communicator, (SELECT name FROM groups WHERE hash = group_key(communicator) "
    "LIMIT 1) AS name FROM ops GROUP BY communicator), "
    "picked AS MATERIALIZED (SELECT n AS kind, names, start, end FROM part JOIN named ON names <> '' AND instr(',' "
    "|| names || ',', ',' || name || ',') JOIN ops USING (communicator)), "
    "kind AS MATERIALIZED (SELECT DISTINCT kind AS n, names FROM picked), "
    "step AS MATERIALIZED (SELECT rowid AS row, id, start, end FROM steps), "
    "change (n, row, at, ops, tasks) AS (" INSIDE("kind", "picked", "start", "1", "0") "AND kind = n UNION ALL "
    "" INSIDE("kind", "picked", "end", "-1", "0") "AND kind = n UNION ALL "
    "" INSIDE("kind", "work", "start", "0", "1") "UNION ALL " INSIDE("kind", "work", "end", "0", "-1") "), "
    "state AS (SELECT n, row, alone(at, ops, 0) OVER o AS communication, alone(at, ops, tasks) OVER o AS unmasked "
    "FROM change WINDOW o AS (PARTITION BY n, row ORDER BY at ROWS UNBOUNDED PRECEDING)), "
    "spent AS MATERIALIZED (SELECT n, row, max(communication) AS communication, max(unmasked) AS unmasked FROM "
    "state GROUP BY n, row) "
    "SELECT replace(names, ',', '+'), id, start, end, coalesce(communication, 0), coalesce(unmasked, 0), :rank FROM "
    "kind JOIN step LEFT JOIN spent USING (n, row) ORDER BY n, row";

#define COLUMNS \
    "stepId:i|parallelType:t|stepStartTime:i|stepEndTime:i|totalCommunicationOperatorTime:i|timeRatioOfStepCommunic" \
    "ationOperator:r|totalTimeWithoutCommunicationBlackout:i|ratioOfUnmaskedCommunication:r"
#define ROWS \
    "SELECT step, kind, start, end, communication, CAST(communication AS REAL) / nullif(max(end - start, 0), 0), " \
    "unmasked, round_even(CAST(unmasked AS REAL) / nullif(max(end - start, 0), 0), 5)"
/* clang-format on */

#define RESULT(shown, rows, condition)                                                             \
    {                                                                                              \
        .name = "ComputationalOperatorMaskingLinearity", .file = "computational_op_masking.csv",   \
        .columns = shown, .sql = rows " FROM kinds", .when = condition, .is_optional = true        \
    }
static const struct result results[] = {
    RESULT(COLUMNS, ROWS, "SELECT 1 WHERE :compat"),
    RESULT(COLUMNS "|rankId:i", ROWS ", rank", "SELECT 1 WHERE NOT :compat")};

const struct recipe recipe_computational_op_masking = {
    .info = {"computational_op_masking",
             "how much of each parallelism's communication computing hides",
             "ComputationalOperatorMaskingLinearity"},
    .folder = "ComputationalOpMasking",
    .needs = NEED_PROFILER,
    .frames = {{.name = "groups",
                .columns = GROUP_COLUMNS,
                .requires = "COMMUNICATION_OP.groupName COMMUNICATION_OP.startNs "
                            "COMMUNICATION_OP.endNs COMPUTE_TASK_INFO.globalTaskId "
                            "TASK.globalTaskId TASK.startNs TASK.endNs STEP_TIME.id "
                            "STEP_TIME.startNs STEP_TIME.endNs STRING_IDS.value",
                .before = groups_load,
                .is_passing = true},
               {.name = "ops",
                .columns = "communicator:t start:i end:i",
                .sql = "SELECT s.value, startNs, endNs FROM COMMUNICATION_OP JOIN STRING_IDS s ON "
                       "s.id = groupName WHERE startNs IS NOT NULL AND endNs IS NOT NULL",
                .missing = "no such rows",
                .is_passing = true},
               {.name = "work",
                .columns = "start:i end:i",
                .sql = "SELECT t.startNs, t.endNs FROM COMPUTE_TASK_INFO c JOIN TASK t ON "
                       "t.globalTaskId = c.globalTaskId WHERE t.startNs IS NOT NULL AND t.endNs "
                       "IS NOT NULL",
                .missing = "no such rows",
                .is_passing = true},
               {.name = "steps",
                .columns = "id:i start:i end:i",
                .sql = "SELECT id, startNs, endNs FROM STEP_TIME WHERE startNs >= :from AND "
                       "startNs <= :to ORDER BY rowid",
                .missing = "no such rows",
                .is_passing = true},
               {.name = "kinds",
                .columns = "kind:t step:i start:i end:i communication:i unmasked:i rank:i",
                .sql = kinds_sql}},
    RESULTS(results),
};
