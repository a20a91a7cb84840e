/* SPDX-License-Identifier: Apache-2.0 */
/*
 * communication_time_sum: the vendor's times and transfers of every communication operation, with sums.
 *
 * Peer: rows of CommAnalyzerTime and CommAnalyzerBandwidth of all ranks as they stand, then "Total Op
 * Info": times per (step, rank, group); transfers per (group, step, rank, transport, package size),
 * where size and time of the transport count each operation once. Ratios and bandwidth rounded
 * to 4 digits. --step-id has no effect.
 *
 * Corrected: a group seen with both kinds of operations and different ranks (no metadata) is summed once;
 * the peer joins it to both rows of the map and doubles its totals. --step-id selects the step.
 *
 * Two passes over the ranks, one for each table, so that rows go out as they come in.
 */
#include "ascend/recipe/recipe_priv.h"

#define STEP_WANTED "(:compat OR :step < 0 OR step = 'step' || :step)"
#define TIMES                                                                                      \
    "hccl_op_name, group_name, start_timestamp, elapse_time, transit_time, wait_time, "            \
    "synchronization_time, idle_time FROM CommAnalyzerTime"
#define TRANSFERS                                                                                  \
    "hccl_op_name, group_name, transport_type, transit_size, transit_time, bandwidth, "            \
    "large_packet_ratio, package_size, count, total_duration FROM CommAnalyzerBandwidth"

/* Sums of a rank, 0 where all are NULL. In compat some are wanted with every row taken twice. */
#define SUMS(column)                                                                               \
    ", coalesce(sum_exact(" column "), 0.0), coalesce(sum_doubled(" column "), 0.0)"
static const char time_sums[] =
    "SELECT step, :rank, communicator" SUMS("elapse") SUMS("transit") SUMS("wait") SUMS("sync")
        SUMS("idle") " FROM times WHERE step IS NOT NULL AND communicator IS NOT NULL "
                     "GROUP BY communicator, step";

#define KNOWN "step IS NOT NULL AND communicator IS NOT NULL AND type IS NOT NULL"
/* Size and time of a transport count each operation once, whatever its packages are. */
static const char package_sums[] =
    "SELECT step, communicator, type, :rank, size, time, package, packets, duration, twice "
    "FROM (SELECT communicator, step, type, package, coalesce(sum_plain(count), 0.0) AS packets, "
    "coalesce(sum_exact(duration), 0.0) AS duration, coalesce(sum_doubled(duration), 0.0) AS twice "
    "FROM transfers WHERE " KNOWN " GROUP BY communicator, step, type, package) "
    "JOIN (SELECT communicator, step, type, sum_firsts(op, coalesce(size, 0)) AS size, "
    "sum_firsts(op, coalesce(time, 0)) AS time FROM transfers WHERE " KNOWN
    " GROUP BY communicator, step, type) USING (communicator, step, type)";

#define IS_DOUBLED              "communicator IN (SELECT hash FROM doubled)"
#define ONE_OF(twice, once, as) ", iif(" IS_DOUBLED ", " twice ", " once ") AS " as
#define SHARE_OF(part, other)                                                                      \
    ", coalesce(round_even(" part " / nullif(" other " + " part ", 0), 4), 0)"

static const struct result results[] = {
    RESULT_KNOWN(NULL),
    /* communicators with different ranks for their kinds: every row of theirs counts twice for the peer */
    {.sql = "CREATE TEMP TABLE doubled (hash)",
     .compat_sql = "CREATE TEMP TABLE doubled AS SELECT hash FROM (SELECT hash, " SEEN_RANKS
                   " AS set_of " FROM_SEEN "GROUP BY hash, kind) GROUP BY hash "
                   "HAVING min(set_of) <> max(set_of)"},
    {.name = "ClusterCommunicationTime",
     .file = "cluster_communication_time.csv",
     .columns = "step:t|rank_id:i|hccl_op_name:t|group_name:t|start_timestamp:r|elapsed_time:r|"
                "transit_time:r|wait_time:r|synchronization_time:r|idle_time:r|"
                "synchronization_time_ratio:r|wait_time_ratio:r",
     .rank_sql = "SELECT step, :rank, op, communicator, start, elapse, transit, wait, sync, idle, "
                 "0, 0 FROM times",
     .sql = "SELECT step, rank, 'Total Op Info', communicator, 0, e, t, w, s, i" SHARE_OF("s", "t")
         SHARE_OF("w", "t") " FROM (SELECT *" ONE_OF("elapse2", "elapse", "e")
             ONE_OF("transit2", "transit", "t") ONE_OF("wait2", "wait", "w")
                 ONE_OF("sync2", "sync", "s") ONE_OF("idle2", "idle", "i") " FROM time_sums) "
                                                                           "ORDER BY step, rank, "
                                                                           "communicator"},
    {RESULT_GROUP_MAP, .is_only_db = true},
    {.name = "ClusterCommunicationBandwidth",
     .file = "cluster_communication_bandwidth.csv",
     .columns = "step:t|rank_id:i|hccl_op_name:t|group_name:t|band_type:t|transit_size:r|"
                "transit_time:r|bandwidth:r|large_packet_ratio:i|package_size:r|count:i|"
                "total_duration:r",
     .rank_sql = "SELECT step, :rank, op, communicator, type, size, time, bandwidth, large, "
                 "package, count, duration FROM transfers",
     .sql = "SELECT step, rank, 'Total Op Info', communicator, type, size, time, "
            "CASE WHEN time <> 0 THEN round_even(size / time, 4) ELSE 0 END, 0, package" ONE_OF(
                "packets * 2", "packets", "p")
                ONE_OF("twice", "duration",
                       "d") " FROM package_sums ORDER BY communicator, step, rank, type, package"},
};

const struct recipe recipe_communication_time_sum = {
    .info = {"communication_time_sum",
             "the vendor's times and transfers of communication operations, with sums",
             "ClusterCommunicationTime, ClusterCommunicationBandwidth, CommunicationGroupMapping"},
    .folder = "CommunicationTimeSum",
    .needs = NEED_ANALYSIS | MAY_PROFILER,
    .frames = {{.name = "times",
                .columns = "step:t op:t communicator:t start:r elapse:r transit:r wait:r sync:r "
                           "idle:r",
                .requires = "CommAnalyzerTime.hccl_op_name",
                .asks = "CommAnalyzerTime.step",
                .sql = "SELECT step, " TIMES " WHERE " STEP_WANTED,
                .else_sql = "SELECT * FROM (SELECT 'step' AS step, " TIMES ") WHERE " STEP_WANTED,
                .is_analysis = true,
                .is_passing = true},
               {.name = "time_sums",
                .columns = "step:t rank:i communicator:t elapse:r elapse2:r transit:r transit2:r "
                           "wait:r wait2:r sync:r sync2:r idle:r idle2:r",
                .sql = time_sums,
                .is_analysis = true},
               FRAME_SEEN,
               FRAME_GROUPS,
               {.name = "transfers",
                .columns = "step:t op:t communicator:t type:t size:r time:r bandwidth:r large:r "
                           "package:r count:r duration:r",
                .requires = "CommAnalyzerBandwidth.hccl_op_name",
                .asks = "CommAnalyzerBandwidth.step",
                .sql = "SELECT step, " TRANSFERS " WHERE " STEP_WANTED,
                .else_sql =
                    "SELECT * FROM (SELECT 'step' AS step, " TRANSFERS ") WHERE " STEP_WANTED,
                .is_analysis = true,
                .is_passing = true,
                .is_apart = true},
               {.name = "package_sums",
                .columns = "step:t communicator:t type:t rank:i size:r time:r package:r packets:r "
                           "duration:r twice:r",
                .sql = package_sums,
                .is_analysis = true}},
    RESULTS(results),
};
