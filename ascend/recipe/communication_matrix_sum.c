/* SPDX-License-Identifier: Apache-2.0 */
/*
 * communication_matrix_sum: what went over each link, in ranks of the run.
 *
 * Peer: CommAnalyzerMatrix of all ranks; rows of equal (kind, step, operation, group, source,
 * destination) are added, transport and name are the first; ranks within the group become ranks
 * of the run by the copies that ranks make to themselves; links with an end that nobody names are
 * dropped; bandwidth = size / time. "Total Op Info" adds the rows whose operation contains "total";
 * a total without time divides by zero.
 *
 * Corrected: parallel_group_info names the ends first, so that links of missing ranks and of send and
 * receive stay; what is dropped all the same is told and counts as missing; no time, bandwidth 0;
 * --step-id selects the step.
 *
 * MindSpore's communication_analyzer.db holds one row per operation and link, without step, kind
 * and selection: the selections are made here (top1 is the fastest row, as the official writer of the
 * same names has it; the peer sorts the other way round).
 */
#include "ascend/recipe/recipe_priv.h"

/* One row per operation and link -> the six selections per (type, communicator, link). */
static const char selections[] =
    "WITH m AS (SELECT *, row_number() OVER (PARTITION BY p2p, type, group_name, src_rank, dst_rank "
    "ORDER BY bandwidth DESC) AS i, count(*) OVER (PARTITION BY p2p, type, group_name, src_rank, "
    "dst_rank) AS n FROM (SELECT *, lower(hccl_op_name) LIKE 'hcom_send%' OR lower(hccl_op_name) "
    "LIKE 'hcom_receive%' OR lower(hccl_op_name) LIKE 'hcom_batchsendrecv%' AS p2p, "
    "CASE WHEN instr(hccl_op_name, '__') > 0 THEN substr(hccl_op_name, 1, instr(hccl_op_name, '__') "
    "- 1) ELSE hccl_op_name END AS type FROM CommAnalyzerMatrix)), "
    "s(tag, at) AS (VALUES ('top1', 0), ('middle', -9), ('bottom1', 1), ('bottom2', 2), "
    "('bottom3', 3)) "
    "SELECT p2p, 'step', type || '-' || tag, group_name, src_rank, dst_rank, transport_type, "
    "hccl_op_name, transit_size, transit_time, :rank FROM m JOIN s "
    "ON i = CASE at WHEN 0 THEN 1 WHEN -9 THEN n / 2 + 1 ELSE n + 1 - at END UNION ALL "
    "SELECT p2p, 'step', type || '-total', group_name, src_rank, dst_rank, min(transport_type), '', "
    "sum(transit_size), sum(transit_time), :rank FROM m "
    "GROUP BY p2p, type, group_name, src_rank, dst_rank";

#define END_OF(local) RANK_OF("communicator", local) " AS " local "_rank"
#define IS_KNOWN      "src_rank IS NOT NULL AND dst_rank IS NOT NULL"

static const struct result results[] = {
    RESULT_KNOWN(NULL),
    {.sql = "DELETE FROM member WHERE :compat"},
    RESULT_SELVES(NULL, "SELECT communicator AS hash, src AS local, rank, rowid AS at FROM links "
                        "WHERE src = dst"),
    {.name = "link",
     .columns = "communicator:t step:t op:t transport:t name:t size:r time:r src_rank:i dst_rank:i",
     .is_rows = true,
     .sql = "SELECT communicator, step, op, transport, name, size, time, " END_OF("src") ", " END_OF(
         "dst") " FROM (SELECT communicator, step, op, src, dst, "
                "first_of(transport) AS transport, first_of(name) AS name, "
                "coalesce(sum_exact(size), 0.0) AS size, coalesce(sum_exact(time), 0.0) AS time, "
                "min(links.rowid) AS at FROM links WHERE communicator IS NOT NULL AND step IS NOT NULL "
                "AND op IS NOT NULL AND src IS NOT NULL AND dst IS NOT NULL "
                "GROUP BY communicator, p2p, step, op, src, dst) ORDER BY at"},
    {.sql = "SELECT -1, NOT :compat, 'group ' || communicator || ': ' || count(*) || ' rows of "
            "links name a rank that no result and no metadata explain; dropped' FROM link "
            "WHERE NOT (" IS_KNOWN ") GROUP BY communicator"},
    {.name = "ClusterCommunicationMatrix",
     .file = "cluster_communication_matrix.csv",
     .columns = "step:t|hccl_op_name:t|group_name:t|src_rank:r|dst_rank:r|transport_type:t|"
                "op_name:t|transit_size:r|transit_time:r|bandwidth:r",
     .sql = "SELECT step, op, communicator, src_rank, dst_rank, transport, name, size, time, "
            "CASE WHEN time <> 0 THEN size / time ELSE 0 END FROM link WHERE " IS_KNOWN
            " ORDER BY rowid",
     /* a sum of sums, where the peer divides by zero time */
     .then_sql =
         "SELECT step, 'Total Op Info', communicator, src_rank, dst_rank, transport, name, size, "
         "time, CASE WHEN time <> 0 THEN size / time WHEN NOT :compat THEN 0 WHEN size <> 0 "
         "THEN size * 9e999 END FROM (SELECT communicator, step, src_rank, dst_rank, "
         "first_of(transport) AS transport, first_of(name) AS name, sum_exact(size) AS size, "
         "sum_exact(time) AS time FROM link WHERE " IS_KNOWN " AND instr(op, 'total') "
         "GROUP BY communicator, step, src_rank, dst_rank)"},
};

const struct recipe recipe_communication_matrix_sum = {
    .info = {"communication_matrix_sum", "size, time and bandwidth of each link",
             "ClusterCommunicationMatrix"},
    .folder = "CommMatrixSum",
    .needs = NEED_ANALYSIS | MAY_PROFILER,
    .frames = {FRAME_GROUPS,
               {.name = "links",
                .columns = "p2p:i step:t op:t communicator:t src:t dst:t transport:t name:t size:r "
                           "time:r rank:i",
                .requires = "CommAnalyzerMatrix.hccl_op_name CommAnalyzerMatrix.src_rank "
                            "CommAnalyzerMatrix.transit_size",
                .asks = "CommAnalyzerMatrix.type CommAnalyzerMatrix.step "
                        "CommAnalyzerMatrix.op_name",
                .sql = "SELECT type = 'p2p', step, hccl_op_name, group_name, src_rank, dst_rank, "
                       "transport_type, op_name, transit_size, transit_time, :rank "
                       "FROM CommAnalyzerMatrix WHERE :compat OR :step < 0 OR "
                       "step = 'step' || :step",
                .else_sql = selections,
                .missing = "no links",
                .is_analysis = true}},
    RESULTS(results),
};
