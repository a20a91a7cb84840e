/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slow_link: which classes of operations, and which links, move their bytes slowly.
 *
 * Peer: the transfer time of a collective is its shortest duration over its ranks. Classes of (type,
 * bytes, number of ranks) in which some operation is beyond mean +- 3 sigma (population) are listed
 * whole, SlowLinkOps; SlowLinkSum has their statistics, the largest deviation in sample sigmas, and
 * the ranks of the first rows with the largest and the smallest value; --top-num by deviation. It
 * looks at no link; send and receive stay in their classes with a transfer time of 0.
 *
 * Our own table, RankscopeSlowLink: bytes and time of each link from CommAnalyzerMatrix, else from the
 * copies in COMMUNICATION_TASK_INFO; point-to-point included; ends are ranks of the run. A link is
 * compared with the links of its own transport: slow is below 80 % of their median and more than
 * five deviations under it. Both ends are named; lostMs is what its bytes would have saved at the
 * median's bandwidth.
 */
#include "ascend/recipe/recipe_priv.h"

/* clang-format off */

static const char ops_sql[] =
    "SELECT :rank, g.value, c.endNs - c.startNs, n.value, y.value, e.name, CASE e.name WHEN 'INT8' THEN 1 WHEN "
    "'INT16' THEN 2 WHEN 'INT32' THEN 4 WHEN 'INT64' THEN 8 WHEN 'UINT64' THEN 8 WHEN 'UINT8' THEN 1 WHEN 'UINT16' "
    "THEN 2 WHEN 'UINT32' THEN 4 WHEN 'FP16' THEN 2 WHEN 'FP32' THEN 4 WHEN 'FP64' THEN 8 WHEN 'BFP16' THEN 2 WHEN "
    "'INT128' THEN 16 END * c.count FROM COMMUNICATION_OP c JOIN STRING_IDS g ON g.id = c.groupName JOIN STRING_IDS "
    "n ON n.id = c.opName JOIN ENUM_HCCL_DATA_TYPE e ON e.id = c.dataType JOIN STRING_IDS y ON y.id = c.opType";

/* MindSpore has a row per operation, no selections and no steps. */
static const char matrix_sql[] =
    "SELECT group_name, src_rank, dst_rank, transport_type, sum(transit_size), sum(transit_time) FROM "
    "CommAnalyzerMatrix WHERE NOT has('CommAnalyzerMatrix.step') OR hccl_op_name LIKE '%-total' AND (:step < 0 OR "
    "step = 'step' || :step) GROUP BY 1, 2, 3, 4";
static const char links_sql[] =
    "SELECT *, :rank FROM matrix UNION ALL "
    "SELECT *, :rank FROM (SELECT g.value, t.srcRank, t.dstRank, coalesce(l.name, 'UNKNOWN'), sum(t.size) / 1e6, "
    "sum(TASK.endNs - TASK.startNs) / 1e6 FROM COMMUNICATION_TASK_INFO t JOIN TASK ON TASK.globalTaskId = "
    "t.globalTaskId JOIN STRING_IDS g ON g.id = t.groupName JOIN STRING_IDS y ON y.id = t.taskType LEFT JOIN "
    "ENUM_HCCL_LINK_TYPE l ON l.id = t.linkType WHERE t.size > 0 AND t.srcRank <> 4294967295 AND t.dstRank <> "
    "4294967295 AND y.value IN ('Memcpy', 'Reduce_Inline') AND NOT has('CommAnalyzerMatrix.transit_size') GROUP BY "
    "1, 2, 3, 4)";

/* What an operation transfers is its shortest duration over its ranks; sends and receives have none. */
#define UNLESS_P2P(value) \
    "iif(instr(name, 'send') OR instr(name, 'receive'), 0, " value " OVER (PARTITION BY communicator, name))"
static const char transfers_sql[] =
    "SELECT *, " UNLESS_P2P("min(duration)") ", " UNLESS_P2P("count(*)") " FROM ops ORDER BY ops.rowid";

/* Communicators stand as names in one table and as hashes in the other. */
#define HASH "iif(communicator <> '' AND communicator NOT GLOB '*[^0-9]*', communicator, group_key(communicator))"
#define END_OF(local) RANK_OF("key", local) " AS " local "_rank"

static const char classes_sql[] =
    "CREATE TEMP TABLE class AS SELECT *, max(abs(stat(s,7) - stat(s,1)), abs(stat(s,3) - stat(s,1))) / stat(s,2) "
    "AS distance FROM (SELECT type, bytes, members, group_stats(transfer) AS s, has_outlier(transfer) AS is_listed, "
    "rank_of_most(transfer, rank) AS most, rank_of_least(transfer, rank) AS least FROM transfers WHERE bytes IS NOT "
    "NULL GROUP BY type, bytes, members) WHERE is_listed";
/* In ranks of the run, a copy to oneself left out. */
static const char ends_sql[] =
    "SELECT coalesce(transport, 'UNKNOWN'), size, time, " END_OF("src") ", " END_OF("dst") " FROM (SELECT *, " HASH " AS key FROM links WHERE communicator IS NOT NULL) WHERE src <> dst AND size > 0 AND time > "
    "0";
static const char usual_sql[] =
    "SELECT -1, 1, count(*) || ' links name a rank that no result and no metadata explain' FROM link_ends WHERE "
    "src_rank IS NULL OR dst_rank IS NULL HAVING count(*); "
    "CREATE TEMP TABLE link AS SELECT *, size / time AS bandwidth FROM (SELECT transport, src_rank, dst_rank, "
    "sum_exact(size) AS size, sum_exact(time) AS time FROM link_ends WHERE src_rank IS NOT NULL AND dst_rank IS NOT "
    "NULL GROUP BY transport, src_rank, dst_rank); "
    "CREATE TEMP TABLE baseline AS SELECT transport, count(*) AS links, usual, 1.4826 * median(abs(bandwidth - "
    "usual)) AS spread FROM link JOIN (SELECT transport, median(bandwidth) AS usual FROM link GROUP BY transport) "
    "USING (transport) GROUP BY transport";
static const char verdicts_sql[] =
    "SELECT src_rank, dst_rank, transport, CASE WHEN links < 3 THEN 'not judged' WHEN bandwidth < 0.8 * usual AND "
    "usual - bandwidth > 5 * spread THEN 'slow' ELSE 'ok' END, bandwidth, usual, iif(usual > 0, (usual - bandwidth) "
    "/ usual, 0), size, time, max(time - size / usual, 0.0), links FROM link JOIN baseline USING (transport) ORDER "
    "BY transport, bandwidth, src_rank, dst_rank";
/* clang-format on */

static const struct result results[] = {
    {.name = "transfers",
     .columns =
         "rank:i communicator:t duration:i name:t type:t data:t bytes:i transfer:i members:i",
     .is_rows = true,
     .sql = transfers_sql},
    {.sql = classes_sql},
    {.name = "SlowLinkOps",
     .file = "slow_link_ops.csv",
     .columns = "rankId:i|groupName:t|communicationTime:i|opName:t|opType:t|dataType:t|dataSize:i|"
                "transmitTime:i|relatedRanks:i",
     .is_full_there = true,
     .sql = "SELECT * FROM transfers WHERE (type, bytes, members) IN (SELECT type, bytes, members "
            "FROM class) ORDER BY type, bytes, members"},
    {.name = "SlowLinkSum", /* whole ns, so some statistics are integers */
     .file = "slow_link_sum.csv",
     .columns = "opTypeRelatedRanksDataSize:t|Count:i|MeanNs:r|StdNs:r|MinNs:i|Q1Ns:r|MedianNs:r|"
                "Q3Ns:r|MaxNs:i|SumNs:i|offsetRatio:r|maxRank:i|minRank:i",
     .is_full_there = true,
     .sql = "SELECT type || members || '_' || bytes, " SELECT_STATS ", distance, most, least "
            "FROM class ORDER BY distance DESC, type, bytes, members LIMIT :top"},
    RESULT_KNOWN(""),
    RESULT_SELVES("", "SELECT " HASH " AS hash, src AS local, rank, rowid AS at FROM links "
                      "WHERE src = dst"),
    {.name = "link_ends",
     .columns = "transport:t size:r time:r src_rank:i dst_rank:i",
     .is_rows = true,
     .sql = ends_sql,
     .compat_sql = ""},
    {.sql = usual_sql, .compat_sql = ""},
    {.name = "RankscopeSlowLink",
     .file = "rankscope_slow_link.csv",
     .columns =
         "srcRank:i|dstRank:i|transportType:t|verdict:t|bandwidthGBs:r|medianGBs:r|deficit:r|"
         "transitSizeMB:r|transitTimeMs:r|lostMs:r|linksCompared:i",
     .index_columns = 2,
     .sql = verdicts_sql,
     .compat_sql = ""},
};

const struct recipe recipe_slow_link = {
    .info = {"slow_link", "which links move their bytes slowly: the peer's classes and each link",
             "SlowLinkSum, SlowLinkOps, RankscopeSlowLink"},
    .folder = "SlowLink",
    .needs = NEED_PROFILER | MAY_ANALYSIS,
    .top = 15,
    .optional = "COMMUNICATION_TASK_INFO(groupName,taskType;srcRank,dstRank,size,linkType,"
                "globalTaskId) ENUM_HCCL_LINK_TYPE(id,name) TASK(globalTaskId,startNs,endNs) "
                "CommAnalyzerMatrix(group_name;step)",
    .frames = {FRAME_GROUPS,
               {.name = "ops",
                .columns = "rank:i communicator:t duration:i name:t type:t data:t bytes:i",
                .requires = "COMMUNICATION_OP.groupName COMMUNICATION_OP.opName "
                            "COMMUNICATION_OP.opType COMMUNICATION_OP.dataType "
                            "COMMUNICATION_OP.count COMMUNICATION_OP.startNs "
                            "COMMUNICATION_OP.endNs STRING_IDS.value ENUM_HCCL_DATA_TYPE.name",
                .sql = ops_sql,
                .missing = "no communication operations"},
               {.name = "matrix",
                .columns = "communicator:t src:t dst:t transport:t size:r time:r",
                .asks = "CommAnalyzerMatrix.transit_size",
                .sql = matrix_sql,
                .compat_sql = "",
                .is_analysis = true,
                .is_passing = true},
               {.name = "links",
                .columns = "communicator:t src:t dst:t transport:t size:r time:r rank:i",
                .sql = links_sql,
                .compat_sql = ""}},
    RESULTS(results),
};
