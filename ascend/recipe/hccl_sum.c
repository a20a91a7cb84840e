/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hccl_sum: how long communication operations take, by type, by type and rank, and the slowest ones.
 *
 * Peer: COMMUNICATION_OP rows whose own start lies in the step; statistics over all ranks by type, per rank
 * by type, and by operation name, of which the --top-num with the largest mean are kept with the first rank
 * that has the smallest and the largest duration. Groups: last three digits of the hash, ranks
 * joined by ";" in the order in which their first operation stands in their tables.
 *
 * Corrected: names carry three digits of a hash and a local counter, so operations of unrelated
 * groups share them; the slowest are taken per group and name. Ranks of a group are sorted.
 */
#include "ascend/recipe/recipe_priv.h"

#define TOPS_OF(keys)                                                                              \
    "SELECT name, " SELECT_STATS ", least, most FROM (SELECT " keys ", group_stats(duration) AS "  \
    "s, rank_of_least(duration, rank) AS least, rank_of_most(duration, rank) AS most FROM ops "    \
    "WHERE name IS NOT NULL GROUP BY " keys ") ORDER BY " STAT_MEAN " DESC, " keys " LIMIT :top"

/* `ranks`: (communicator, rank, place), `place` says which rank comes first. */
#define GROUPS_OF(ranks)                                                                           \
    "SELECT communicator, substr(group_key(communicator), -3) AS tail, list(place, rank, ';') "    \
    "FROM (" ranks ") GROUP BY communicator ORDER BY tail, communicator"

static const struct result results[] = {
    {.name = "HcclAllRankStats",
     .file = "all_stats.csv",
     .columns = "OpType:t" RESULT_STATS,
     .index_columns = 1,
     .sql = "SELECT type, " SELECT_STATS " FROM (SELECT type, group_stats(duration) AS s FROM ops "
            "WHERE type IS NOT NULL GROUP BY type)"},
    {.name = "HcclPerRankStats",
     .file = "rank_stats.csv",
     .columns = "OpType:t" RESULT_STATS "|Rank:i",
     .index_columns = 1,
     .sql = "SELECT type, " SELECT_STATS ", rank FROM (SELECT rank, type, group_stats(duration) "
            "AS s FROM ops WHERE type IS NOT NULL GROUP BY rank, type)"},
    {.name = "HcclTopOpStats",
     .file = "top_op_stats.csv",
     .columns = "OpName:t" RESULT_STATS "|MinRank:i|MaxRank:i",
     .index_columns = 1,
     .sql = TOPS_OF("name, communicator"),
     .compat_sql = TOPS_OF("name")},
    {.name = "HcclGroupNameMap",
     .file = "group_name_map.csv",
     .columns = "GroupName:t|GroupId:t|Ranks:t",
     .index_columns = 1,
     .sql = GROUPS_OF("SELECT communicator, rank, rank AS place FROM ops "
                      "WHERE communicator IS NOT NULL GROUP BY communicator, rank"),
     .compat_sql = GROUPS_OF(
         "SELECT communicator, rank, row_number() OVER "
         "(ORDER BY min(ops.rowid) - first, min(ops.rowid)) AS place "
         "FROM ops JOIN (SELECT rank AS of, min(rowid) AS first FROM ops GROUP BY rank) ON of = "
         "rank WHERE communicator IS NOT NULL GROUP BY communicator, rank")},
};

const struct recipe recipe_hccl_sum = {
    .info = {"hccl_sum", "durations of communication operations by type, rank and name",
             "HcclAllRankStats, HcclPerRankStats, HcclTopOpStats, HcclGroupNameMap"},
    .folder = "HcclSum",
    .needs = NEED_PROFILER,
    .top = 15,
    .frames = {{.name = "ops",
                .columns = "name:t type:t communicator:t duration:i rank:i",
                .requires = "COMMUNICATION_OP.opName COMMUNICATION_OP.opType "
                            "COMMUNICATION_OP.groupName COMMUNICATION_OP.startNs "
                            "COMMUNICATION_OP.endNs STRING_IDS.value",
                .missing = "no such rows",
                .sql = "SELECT n.value, t.value, g.value, endNs - startNs, :rank "
                       "FROM COMMUNICATION_OP "
                       "LEFT JOIN STRING_IDS n ON n.id = opName "
                       "LEFT JOIN STRING_IDS t ON t.id = opType "
                       "LEFT JOIN STRING_IDS g ON g.id = groupName "
                       "WHERE startNs >= :from AND startNs <= :to"}},
    RESULTS(results),
};
