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

#include <string.h>

enum { GROUP = 1, DURATION, NAME, TRANSFER = 7, MEMBERS };

static const char ops_sql[] =
    "SELECT :rank, g.value, c.endNs - c.startNs, n.value, y.value, e.name, "
    "CASE e.name WHEN 'INT8' THEN 1 WHEN 'INT16' THEN 2 WHEN 'INT32' THEN 4 "
    "WHEN 'INT64' THEN 8 WHEN 'UINT64' THEN 8 WHEN 'UINT8' THEN 1 WHEN 'UINT16' THEN 2 "
    "WHEN 'UINT32' THEN 4 WHEN 'FP16' THEN 2 WHEN 'FP32' THEN 4 WHEN 'FP64' THEN 8 "
    "WHEN 'BFP16' THEN 2 WHEN 'INT128' THEN 16 END * c.count, 0, 0 "
    "FROM COMMUNICATION_OP c JOIN STRING_IDS g ON g.id = c.groupName "
    "JOIN STRING_IDS n ON n.id = c.opName JOIN ENUM_HCCL_DATA_TYPE e ON e.id = c.dataType "
    "JOIN STRING_IDS y ON y.id = c.opType";

/* MindSpore has a row per operation, no selections and no steps. */
#define LINKS                                                                                      \
    "SELECT group_name, src_rank, dst_rank, transport_type, sum(transit_size), "                   \
    "sum(transit_time), :rank FROM CommAnalyzerMatrix"
static const char matrix_sql[] = LINKS " WHERE hccl_op_name LIKE '%-total' AND (:step < 0 OR "
                                       "step = 'step' || :step) GROUP BY 1, 2, 3, 4";
static const char matrix_ms_sql[] = LINKS " GROUP BY 1, 2, 3, 4";
static const char tasks_sql[] =
    "SELECT g.value, t.srcRank, t.dstRank, coalesce(l.name, 'UNKNOWN'), sum(t.size) / 1e6, "
    "sum(TASK.endNs - TASK.startNs) / 1e6, :rank FROM COMMUNICATION_TASK_INFO t "
    "JOIN TASK ON TASK.globalTaskId = t.globalTaskId "
    "JOIN STRING_IDS g ON g.id = t.groupName JOIN STRING_IDS y ON y.id = t.taskType "
    "LEFT JOIN ENUM_HCCL_LINK_TYPE l ON l.id = t.linkType "
    "WHERE t.size > 0 AND t.srcRank <> 4294967295 AND t.dstRank <> 4294967295 "
    "AND y.value IN ('Memcpy', 'Reduce_Inline') GROUP BY 1, 2, 3, 4";

static void fill(struct inputs *in, struct frame *frames)
{
    const char *size = "CommAnalyzerMatrix.transit_size", *step = "CommAnalyzerMatrix.step";
    struct frame *links = &frames[1];
    if (in->run->options->compat)
        return;
    if (in->analysis && db_requires(in->analysis, size, NULL) == RS_OK)
        in_load(in, links, in->analysis,
                db_requires(in->analysis, step, NULL) == RS_OK ? matrix_sql : matrix_ms_sql);
    else if (in_has(in, "COMMUNICATION_TASK_INFO.srcRank COMMUNICATION_TASK_INFO.dstRank "
                        "COMMUNICATION_TASK_INFO.size COMMUNICATION_TASK_INFO.linkType "
                        "COMMUNICATION_TASK_INFO.globalTaskId ENUM_HCCL_LINK_TYPE.name "
                        "TASK.globalTaskId"))
        in_load(in, links, in->profiler, tasks_sql);
}

/* What an operation transfers is its shortest duration over its ranks; sends and receives have none. */
static enum rs_status fill_transfers(struct frame *ops)
{
    struct frame_order order;
    const enum rs_status status = frame_order(ops, (char[]){GROUP + 1, NAME + 1, 0}, &order);
    for (size_t at = 0, end = 0; status == RS_OK && at < order.count; at = end) {
        const char *name = frame_text(ops, frame_row(ops, order.rows[at])[NAME].t);
        int64_t least = INT64_MAX;
        end = frame_group_end(ops, &order, at);
        if (strstr(name, "send") || strstr(name, "receive"))
            continue;
        for (size_t i = at; i < end; i++) {
            const int64_t duration = frame_row(ops, order.rows[i])[DURATION].i;
            least = duration < least ? duration : least;
        }
        for (size_t i = at; i < end; i++) {
            union frame_cell *row = frame_at(ops, order.rows[i]);
            row[TRANSFER].i = least;
            row[MEMBERS].i = (int64_t)(end - at);
        }
    }
    frame_order_fini(&order);
    return status;
}

/* Communicators stand as names in one table and as hashes in the other. */
#define HASH                                                                                       \
    "iif(communicator <> '' AND communicator NOT GLOB '*[^0-9]*', communicator, "                  \
    "group_key(communicator))"
#define END_OF(local) RANK_OF("hash", local, "1") " AS " local "_rank"

/* The peer's tables are the first ones. */
enum { PEERS = 3 };
static const struct result results[] = {
    {.sql =
         "CREATE TEMP TABLE class AS SELECT *, max(abs(stat(s,7) - stat(s,1)), "
         "abs(stat(s,3) - stat(s,1))) / stat(s,2) AS distance FROM (SELECT type, bytes, members, "
         "group_stats(transfer) AS s, has_outlier(transfer) AS is_listed, "
         "rank_of_most(transfer, rank) AS most, rank_of_least(transfer, rank) AS least FROM ops "
         "WHERE bytes IS NOT NULL GROUP BY type, bytes, members) WHERE is_listed"},
    {.name = "SlowLinkOps",
     .file = "slow_link_ops.csv",
     .columns = "rankId:i|groupName:t|communicationTime:i|opName:t|opType:t|dataType:t|dataSize:i|"
                "transmitTime:i|relatedRanks:i",
     .sql = "SELECT * FROM ops WHERE (type, bytes, members) IN (SELECT type, bytes, members "
            "FROM class) ORDER BY type, bytes, members"},
    {.name = "SlowLinkSum", /* whole ns, so some statistics are integers */
     .file = "slow_link_sum.csv",
     .columns = "opTypeRelatedRanksDataSize:t|Count:i|MeanNs:r|StdNs:r|MinNs:i|Q1Ns:r|MedianNs:r|"
                "Q3Ns:r|MaxNs:i|SumNs:i|offsetRatio:r|maxRank:i|minRank:i",
     .sql = "SELECT type || members || '_' || bytes, " SELECT_STATS ", distance, most, least "
            "FROM class ORDER BY distance DESC, type, bytes, members LIMIT :top"},
    RESULT_SELVES("SELECT " HASH " AS hash, src AS local, rank, rowid AS at FROM links "
                  "WHERE src = dst"),
    /* links in ranks of the run, a copy to oneself left out */
    {.sql =
         "CREATE TEMP TABLE link_end AS SELECT coalesce(transport, 'UNKNOWN') AS transport, "
         "size, time, " END_OF("src") ", " END_OF(
             "dst") " FROM (SELECT *, " HASH " AS hash FROM links WHERE communicator IS NOT NULL) "
                    "WHERE src <> dst AND size > 0 AND time > 0"},
    {.sql = "SELECT -1, 1, count(*) || ' links name a rank that no result and no metadata explain' "
            "FROM link_end WHERE src_rank IS NULL OR dst_rank IS NULL HAVING count(*)"},
    {.sql = "CREATE TEMP TABLE link AS SELECT *, size / time AS bandwidth FROM (SELECT transport, "
            "src_rank, dst_rank, sum_exact(size) AS size, sum_exact(time) AS time FROM link_end "
            "WHERE src_rank IS NOT NULL AND dst_rank IS NOT NULL "
            "GROUP BY transport, src_rank, dst_rank)"},
    {.sql = "CREATE TEMP TABLE baseline AS SELECT transport, count(*) AS links, usual, "
            "1.4826 * median(abs(bandwidth - usual)) AS spread FROM link JOIN (SELECT transport, "
            "median(bandwidth) AS usual FROM link GROUP BY transport) USING (transport) "
            "GROUP BY transport"},
    {.name = "RankscopeSlowLink",
     .file = "rankscope_slow_link.csv",
     .columns =
         "srcRank:i|dstRank:i|transportType:t|verdict:t|bandwidthGBs:r|medianGBs:r|deficit:r|"
         "transitSizeMB:r|transitTimeMs:r|lostMs:r|linksCompared:i",
     .index_columns = 2,
     .sql = "SELECT src_rank, dst_rank, transport, CASE WHEN links < 3 THEN 'not judged' WHEN "
            "bandwidth < 0.8 * usual AND usual - bandwidth > 5 * spread THEN 'slow' ELSE 'ok' END, "
            "bandwidth, usual, iif(usual > 0, (usual - bandwidth) / usual, 0), size, time, "
            "max(time - size / usual, 0.0), links FROM link JOIN baseline USING (transport) "
            "ORDER BY transport, bandwidth, link.rowid"},
};

static enum rs_status finish(struct run *run, struct rs_err *err)
{
    const bool compat = run->options->compat;
    enum rs_status status = fill_transfers(&run->frames[0]);
    if (status != RS_OK)
        return rs_err_set(err, status, "no memory to compare operations");
    for (size_t i = 0; i < (compat ? PEERS : COLUMN_COUNT(results)) && status == RS_OK; i++) {
        struct result result = results[i];
        result.is_optional = compat && result.name; /* the peer writes no empty table */
        status = result_write(run, &result, err);
    }
    return status;
}

const struct recipe recipe_slow_link = {
    .info = {"slow_link", "which links move their bytes slowly: the peer's classes and each link",
             "SlowLinkSum, SlowLinkOps, RankscopeSlowLink"},
    .folder = "SlowLink",
    .needs = NEED_PROFILER | MAY_ANALYSIS,
    .top = 15,
    .groups = OWN_GROUPS,
    .frames = {{.name = "ops",
                .columns = "rank:i communicator:t duration:i name:t type:t data:t bytes:i "
                           "transfer:i members:i",
                .requires = "COMMUNICATION_OP.groupName COMMUNICATION_OP.opName "
                            "COMMUNICATION_OP.opType COMMUNICATION_OP.dataType "
                            "COMMUNICATION_OP.count COMMUNICATION_OP.startNs "
                            "COMMUNICATION_OP.endNs STRING_IDS.value ENUM_HCCL_DATA_TYPE.name",
                .sql = ops_sql,
                .missing = "no communication operations"},
               {.name = "links",
                .columns = "communicator:t src:t dst:t transport:t size:r time:r rank:i"}},
    .fill = fill,
    .finish = finish,
};
