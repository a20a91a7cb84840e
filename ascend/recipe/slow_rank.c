/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slow_rank: which ranks the others wait for.
 *
 * Peer: every collective is a vote. Its members' durations are compared: who waits least arrived
 * last. With up to 100 members Dixon's one-sided test at 99.5 % on the smallest duration, beyond
 * that everything below mean - 3 sigma (and the smallest when something is above mean + 3 sigma).
 * Names with send or receive do not count; a group whose operations do not all have the same
 * number of rows is left out whole; us are written into columns named Ns.
 *
 * Corrected: ns in the columns named Ns; of a group with a lost record only the operations that
 * lack a member are left out; operations without a CANN_API row count by their own start.
 *
 * Our own table, RankscopeSlowRank: members of a collective end together, so with clocks aligned at its end a
 * member arrived at -duration. What the operation lost, from the early arrivals (the first
 * quartile; the first one in groups of up to four) to the last, is shared among the late: each
 * stretch between two arrivals in equal parts among all who had not arrived. Of its
 * share a rank answers only for the part that it was slower in since its operation before (own work
 * against the group's lower median); the rest it inherited by having waited for others. Slow is who
 * lost clearly more than the ranks do in the median (five deviations and 1 % of the time).
 * That works for two members and for several slow ranks, and gives ns, not votes.
 */
#include "ascend/recipe/recipe_priv.h"
#include "common/base/mem.h"

#include <sqlite3.h>

#include <inttypes.h>

/* ---- the peer's votes ---- */

enum { DIXON_MAX = 100 };
/* Dixon's critical values, one-sided, 99.5 %, for 3, 4, ... 100 values. */
static const double dixon_995[] = {
    0.994, 0.920, 0.823, 0.744, 0.680, 0.723, 0.676, 0.638, 0.707, 0.675, 0.649, 0.672, 0.649,
    0.629, 0.611, 0.595, 0.580, 0.568, 0.556, 0.545, 0.536, 0.526, 0.519, 0.510, 0.503, 0.496,
    0.489, 0.484, 0.478, 0.473, 0.468, 0.463, 0.458, 0.454, 0.450, 0.446, 0.442, 0.439, 0.435,
    0.432, 0.429, 0.425, 0.423, 0.420, 0.417, 0.414, 0.412, 0.409, 0.407, 0.405, 0.402, 0.400,
    0.398, 0.396, 0.394, 0.392, 0.391, 0.388, 0.387, 0.385, 0.383, 0.382, 0.380, 0.379, 0.377,
    0.376, 0.374, 0.372, 0.371, 0.370, 0.368, 0.368, 0.366, 0.365, 0.364, 0.363, 0.361, 0.360,
    0.359, 0.358, 0.356, 0.356, 0.355, 0.353, 0.352, 0.352, 0.351, 0.350, 0.349, 0.348, 0.347,
    0.346, 0.345, 0.344, 0.344, 0.343, 0.341, 0.341,
};

static double dixon_ratio(const double *x, size_t n)
{
    const size_t low = n <= 10 ? 1 : 2, high = n <= 7 ? n - 1 : n <= 13 ? n - 2 : n - 3;
    const double span = x[high] - x[0];
    return span > 0 || span < 0 ? (x[low] - x[0]) / span : 0;
}

static size_t distinct(const double *sorted, size_t n)
{
    size_t count = n ? 1 : 0;
    for (size_t i = 1; i < n; i++)
        count += sorted[i] > sorted[i - 1];
    return count;
}

/* Marks the members that are voted slow; how many. */
static size_t vote(const double *times, const double *sorted, size_t n, bool *slow)
{
    size_t least = 0, count = 0;
    for (size_t i = 0; i < n; i++) {
        slow[i] = false;
        if (times[i] < times[least])
            least = i;
    }
    if (n <= 2 || (n <= DIXON_MAX && distinct(sorted, n) <= 3))
        return 0;
    if (n <= DIXON_MAX) {
        slow[least] = dixon_ratio(sorted, n) > dixon_995[n - 3];
        return slow[least];
    }
    double mean;
    const double std = stats_std_population(times, n, &mean);
    for (size_t i = 0; i < n; i++)
        count += slow[i] = times[i] < mean - 3 * std;
    if (sorted[n - 1] > mean + 3 * std && !slow[least]) {
        slow[least] = true;
        count++;
    }
    return count;
}

/* slow_rows(duration, row): "3,5", those of the members that are voted slow; NULL: none is. */
void slow_rows(sqlite3_context *context, struct gathered *all)
{
    double *sorted = rs_mem_calloc(all->count, sizeof *sorted);
    bool *slow = rs_mem_calloc(all->count, sizeof *slow);
    struct rs_buf text = {0};
    if (sorted && slow) {
        memcpy(sorted, all->values, all->count * sizeof *sorted);
        stats_sort(sorted, all->count);
        (void)vote(all->values, sorted, all->count, slow);
        for (size_t i = 0; i < all->count; i++)
            if (slow[i])
                rs_buf_printf(&text, "%s%" PRId64, text.length ? "," : "", all->ranks[i]);
    }
    if (!sorted || !slow || text.failed)
        sqlite3_result_error_nomem(context);
    else if (text.length)
        sqlite3_result_text(context, rs_buf_text(&text), -1, SQLITE_TRANSIENT);
    rs_buf_fini(&text);
    rs_mem_free(sorted);
    rs_mem_free(slow);
}

/* clang-format off */

/* ---- what a rank gives ---- */

static const char members_sql[] =
    "SELECT g.value, n.value, c.startNs, c.endNs FROM COMMUNICATION_OP c JOIN STRING_IDS g ON g.id = c.groupName "
    "JOIN STRING_IDS n ON n.id = c.opName " LEFT_JOIN_API("c") "WHERE " IN_STEP(CALL_TIME) " AND "
    IS_SPAN("c.startNs", "c.endNs");

/* Own work before each operation: since the operation before began, all time but that in which the rank only communicated.
 * What a rank computes while it waits for another counts as its work. `change`: how many operations and tasks begin, less
 * those that end. -1: what it did before is not known. */
static const char ops_sql[] =
    "WITH computed AS (SELECT TASK.startNs AS start, TASK.endNs AS end FROM COMPUTE_TASK_INFO c JOIN TASK ON "
    "TASK.globalTaskId = c.globalTaskId WHERE TASK.endNs > TASK.startNs), "
    "change (at, ops, tasks, id, communicator, name, end) AS (SELECT start, end > start, 0, members.rowid, "
    "communicator, name, end FROM members UNION ALL "
    "SELECT end, -1, 0, NULL, NULL, NULL, NULL FROM members WHERE end > start UNION ALL "
    "SELECT start, 0, 1, NULL, NULL, NULL, NULL FROM computed UNION ALL "
    "SELECT end, 0, -1, NULL, NULL, NULL, NULL FROM computed), "
    "waited AS (SELECT *, alone(at, ops, tasks) OVER (ORDER BY at ROWS UNBOUNDED PRECEDING) AS waited FROM change) "
    "SELECT communicator, name, :rank, at, end, coalesce(at - lag(at) OVER o - (waited - lag(waited) OVER o), -1) "
    "FROM waited WHERE id IS NOT NULL WINDOW o AS (ORDER BY at, id) ORDER BY id";

static const char spans_sql[] =
    "SELECT :rank, min(start), max(end), iif(:step < 0, max(1, (SELECT count(*) FROM STEP_TIME)), 1) FROM members";

/* ---- what is made of all ---- */

#define IS_P2P "(instr(name, 'send') OR instr(name, 'receive'))"

/* Each collective, with the most and the least members that one of its group has; and a row for each member that is slow. */
static const char votes_sql[] =
    "CREATE TEMP TABLE collective AS SELECT *, max(n) OVER (PARTITION BY communicator) AS most, min(n) OVER "
    "(PARTITION BY communicator) AS least FROM (SELECT communicator, name, count(*) AS n, slow_rows(ns, id) AS "
    "slow, column_stats(ns) AS s FROM (SELECT communicator, name, rowid AS id, iif(:compat, (end - start) / 1000.0, "
    "end - start) AS ns FROM ops WHERE NOT " IS_P2P ") GROUP BY communicator, name); "
    "CREATE TEMP TABLE vote AS WITH member AS MATERIALIZED (SELECT rowid AS id, rank, start FROM ops) "
    "SELECT communicator, name, s, member.id AS id, rank, start FROM collective JOIN json_each('[' || slow || ']') "
    "JOIN member ON member.id = value WHERE n = most AND (n = least OR NOT :compat)";

/* Members by arrival: `early` is the last of the early ones, `usual` the lower median of their work; `share` of the time lost
 * until they came, `part` of it their own. `turn`: in which order parts are summed. */
#define OF_SAME "OVER (PARTITION BY op"
static const char losses_sql[] =
    "CREATE TEMP TABLE member AS SELECT dense_rank() OVER (ORDER BY communicator, name) AS op, rank, start, work, "
    "end - start AS ns, rowid AS id FROM ops WHERE NOT " IS_P2P "; "
    "CREATE TEMP TABLE arrival AS WITH known AS (SELECT *, max(ns) " OF_SAME ") - ns AS at, count(*) " OF_SAME
    ") AS n, sum(work >= 0) " OF_SAME ") AS known FROM member), "
    "placed AS (SELECT *, row_number() " OF_SAME " ORDER BY at, id) - 1 AS i, at - lag(at) " OF_SAME " ORDER BY at, "
    "id) AS gap, row_number() " OF_SAME ", work >= 0 ORDER BY work) - 1 AS k FROM known WHERE n > 1), "
    "measured AS (SELECT *, i > (n - 1) / 4 AS is_late, max(iif(i = (n - 1) / 4, at, NULL)) " OF_SAME ") AS early, "
    "coalesce(max(iif(work >= 0 AND k = (known - 1) / 2, work, NULL)) " OF_SAME "), 0) AS usual FROM placed), "
    "shared AS (SELECT *, at - early AS late, iif(work < 0, 0, max(0, min(work - usual, at - early))) AS own, "
    "sum_plain(iif(is_late, CAST(gap AS REAL) / (n - i), NULL)) " OF_SAME " ORDER BY i ROWS UNBOUNDED PRECEDING) AS "
    "share FROM measured) "
    "SELECT rank, id, start, is_late, own, usual, share, iif(late > 0, share * own / late, 0.0) AS part, "
    "row_number() OVER (ORDER BY op, i) AS turn FROM shared; "
    "CREATE TEMP TABLE loss AS SELECT spans.rank AS rank, last - first AS span, steps, coalesce(own, 0.0) AS own, "
    "coalesce(inherited, 0.0) AS inherited, coalesce(late, 0) AS late, coalesce(judged, 0) AS judged FROM spans "
    "LEFT JOIN (SELECT rank, count(*) AS judged, sum_plain_by(iif(is_late, part, NULL), turn) AS own, "
    "sum_plain_by(iif(is_late, share - part, NULL), turn) AS inherited, sum(is_late AND own > 10000 AND own > usual "
    "/ 20.0) AS late FROM arrival GROUP BY rank) USING (rank); "
    ""
    /* the last of those with the most whole ns and a rest, else the first */
    "CREATE TEMP TABLE worst (id INTEGER PRIMARY KEY, ns, start); "
    "INSERT INTO worst SELECT id, CAST(part AS INTEGER), start FROM (SELECT *, row_number() OVER (PARTITION BY rank "
    "ORDER BY CAST(part AS INTEGER) DESC, part > CAST(part AS INTEGER) DESC, iif(part > CAST(part AS INTEGER), "
    "-turn, turn)) AS place FROM arrival WHERE is_late AND part > 0) WHERE place = 1";

#define LOWER_MEDIAN(of) "(SELECT " of " FROM loss ORDER BY 1 LIMIT 1 OFFSET (SELECT (count(*) - 1) / 2 FROM loss))"
/* What a rank may lose before it is called slow: beyond the median by five deviations, and 1 % of the time. */
static const char verdicts_sql[] =
    "WITH usual AS MATERIALIZED (SELECT " LOWER_MEDIAN("own") " AS own), "
    "bar AS MATERIALIZED (SELECT own AS usual, 5 * (1.4826 * " LOWER_MEDIAN("abs(own - (SELECT own FROM usual))")
    ") AS least FROM usual), "
    "named AS MATERIALIZED (SELECT rank AS of, name, communicator, worst.ns AS ns, worst.start AS start FROM ops "
    "CROSS JOIN worst ON worst.id = ops.rowid) "
    "SELECT rank, CASE WHEN NOT judged THEN 'not judged' WHEN own - usual > max(least, span / 100.0) THEN 'slow' "
    "ELSE 'ok' END, CAST(round(own) AS INTEGER), CAST(round(own / steps) AS INTEGER), iif(span > 0, own / span, 0), "
    "CAST(round(inherited) AS INTEGER), late, judged, name, communicator, ns, start, iif((SELECT count(*) FROM "
    "collective WHERE n < most), 'partial', 'bounded') FROM loss JOIN bar LEFT JOIN named ON of = rank ORDER BY rank";
#define OF_VOTE "OVER (PARTITION BY communicator, name"
static const char ballots_sql[] =
    "SELECT ranks, name, communicator, stamp, " SELECT_STATS " FROM (SELECT *, max(id) FROM (SELECT *, "
    "group_concat(rank, ',') " OF_VOTE " ORDER BY id) AS ranks, min(start) " OF_VOTE ") AS stamp FROM vote) GROUP "
    "BY communicator, name) ORDER BY stamp, communicator, name";
/* clang-format on */

static const struct result results[] = {
    {.sql = votes_sql},
    {.sql = losses_sql, .compat_sql = ""},
    {.sql = "SELECT -1, 0, count(*) || ' collectives lack a member and have no vote' "
            "FROM collective WHERE n < most HAVING count(*) AND NOT :compat"},
    {.name = "SlowRank",
     .file = "rank_stats.csv",
     .columns = "rankId:i|slowAffectCount:i",
     .index_columns = 1,
     .is_full_there = true,
     .sql = "SELECT rank, count(*) FROM vote GROUP BY rank"},
    {.name = "SlowOpStats",
     .file = "slow_op_stats.csv",
     .columns = "SlowRank:t|OpName:t|GroupName:t|Timestamp:i" RESULT_STATS,
     .is_full_there = true,
     .sql = ballots_sql},
    {.name = "RankscopeSlowRank",
     .file = "rankscope_slow_rank.csv",
     .columns = "rankId:i|verdict:t|lostNs:i|lostPerStepNs:i|lostShare:r|inheritedNs:i|lateOps:i|"
                "judgedOps:i|worstOpName:t|worstGroupName:t|worstLostNs:i|worstTimestamp:i|"
                "confidence:t",
     .index_columns = 1,
     .sql = verdicts_sql,
     .compat_sql = ""},
};

const struct recipe recipe_slow_rank = {
    .info = {"slow_rank",
             "which ranks the others wait for: the peer's votes and lost time by arrival",
             "SlowRank, SlowOpStats, RankscopeSlowRank"},
    .folder = "SlowRankAnalysis",
    .needs = NEED_PROFILER,
    .optional = API_OPTIONAL TASKS_OPTIONAL "STEP_TIME(id)",
    .frames = {{.name = "members",
                .columns = "communicator:t name:t start:i end:i",
                .requires = "COMMUNICATION_OP.groupName COMMUNICATION_OP.opName "
                            "COMMUNICATION_OP.startNs COMMUNICATION_OP.endNs STRING_IDS.value",
                .sql = members_sql,
                .missing = "no communication operations",
                .is_passing = true},
               {.name = "ops",
                .columns = "communicator:t name:t rank:i start:i end:i work:i",
                .sql = ops_sql,
                .compat_sql = "SELECT communicator, name, :rank, start, end, 0 FROM members"},
               {.name = "spans", .columns = "rank:i first:i last:i steps:i", .sql = spans_sql}},
    RESULTS(results),
};
