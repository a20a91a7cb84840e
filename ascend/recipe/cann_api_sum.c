/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cann_api_sum: time in CANN's host calls by name, per rank and over all.
 *
 * Peer, per rank: calls that start in the step, by name; share in percent (2 digits), the rest
 * rounded to 1 digit by SQLite's round(); deviation of the population. Over ranks: sums; mean = sum / count;
 * the least first quartile, the median of medians, the largest third quartile; deviation pooled
 * from the ranks' rounded ones; lists of the ranks that have the least and the largest call;
 * rounded to 1 digit. The quartiles over ranks are bounds, not quantiles, in both modes.
 */
#include "ascend/recipe/recipe_priv.h"

/* By the name's id, as the peer groups. */
static const char calls_sql[] =
    "SELECT value, round_sql(total * 100.0 / sum(total) OVER (), 2), total, calls, "
    "round_sql(CAST(total AS REAL) / calls, 1), round_sql(stat(s,3), 1), round_sql(stat(s,4), 1), "
    "round_sql(stat(s,5), 1), round_sql(stat(s,6), 1), round_sql(stat(s,7), 1), "
    "round_sql(spread, 1), :rank FROM (SELECT name, sum(ns) AS total, count(ns) AS calls, "
    "column_stats(ns) AS s, deviation(ns) AS spread FROM (SELECT name, endNs - startNs AS ns FROM "
    "CANN_API WHERE startNs >= :from AND startNs <= :to) GROUP BY name HAVING count(ns) > 0) "
    "LEFT JOIN STRING_IDS ON id = name";

/* sum(total), which SQLite refuses, and with it all ranks, where it is no 64-bit number: one rank's file is enough for that.
 * This one is a REAL there. */
#define SUM_OF_TOTALS(over)                                                                        \
    "(sum(iif(typeof(total) = 'real', total / 4294967296, total >> 32)) " over " * 4294967296 + "  \
    "sum(iif(typeof(total) = 'real', 0, total & 4294967295)) " over ")"
#define OF_NAME SUM_OF_TOTALS("")
#define OF_SAME SUM_OF_TOTALS("OVER (PARTITION BY name)")
#define OF_ALL  SUM_OF_TOTALS("OVER ()")

/* `m`: the mean over all ranks, which the pooled deviation is measured from. */
static const char sums_sql[] =
    "SELECT name, coalesce(round_even(CAST(total AS REAL) / " OF_ALL " * 100.0, 1), 0.0), "
    "total, calls, round_even(m, 1), round_even(q1, 1), round_even(med, 1), round_even(q3, 1), "
    "round_even(least, 1), round_even(most, 1), round_even(CASE WHEN ranks = 1 THEN std WHEN calls "
    "> 1 THEN root((inside + beside) / (calls - 1)) ELSE 0.0 END, 1), ranks_least, ranks_most "
    "FROM (SELECT name, m, " OF_NAME " AS total, sum(calls) AS calls, count(*) AS ranks, "
    "min(q1) AS q1, median(median) AS med, max(q3) AS q3, min(least) AS least, max(most) AS most, "
    "max(std) AS std, sum_plain((calls - 1) * (std * std)) AS inside, "
    "sum_plain(calls * ((mean - m) * (mean - m))) AS beside, "
    "ranks_of_least(least, rank) AS ranks_least, ranks_of_most(most, rank) AS ranks_most "
    "FROM (SELECT *, CAST(" OF_SAME " AS REAL) / "
    "sum(calls) OVER (PARTITION BY name) AS m FROM calls WHERE name IS NOT NULL) GROUP BY name) "
    "ORDER BY total DESC, name";

static const struct result results[] = {
    {.name = "CannApiSumRank",
     .file = "rank_stats.csv",
     .columns = "name:t|durationRatio:r|totalTimeNs:i|totalCount:i|averageNs:r|minNs:r|Q1Ns:r|"
                "medNs:r|Q3Ns:r|maxNs:r|stdev:r|rank:i",
     .sql = "SELECT * FROM calls"},
    {.name = "CannApiSum",
     .file = "all_stats.csv",
     .columns = "name:t|timeRatio:r|totalTimeNs:i|totalCount:i|averageNs:r|Q1Ns:r|medNs:r|Q3Ns:r|"
                "minNs:r|maxNs:r|stdev:r|minRank:t|maxRank:t",
     .index_columns = 1,
     .sql = sums_sql},
};

const struct recipe recipe_cann_api_sum = {
    .info = {"cann_api_sum", "time in CANN's host calls by name", "CannApiSumRank, CannApiSum"},
    .folder = "CannApiSum",
    .needs = NEED_PROFILER,
    .frames = {{.name = "calls",
                .columns = "name:t share:r total:i calls:i mean:r least:r q1:r median:r q3:r "
                           "most:r std:r rank:i",
                .requires = "CANN_API.name CANN_API.startNs CANN_API.endNs STRING_IDS.value",
                .missing = "no such rows",
                .sql = calls_sql}},
    RESULTS(results),
};
