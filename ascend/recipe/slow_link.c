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
#include "common/base/mem.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RANK, GROUP, DURATION, NAME, TYPE, DATA_TYPE, BYTES, TRANSFER, MEMBERS };
#define OP_KINDS "ititttiii"
enum { HASH, SRC, DST, TRANSPORT, SIZE, TIME };
#define LINK_KINDS "ttttrr"

struct part {
    struct frame ops, links;
    struct rs_ascend_metadata meta;
    bool has_meta;
};

struct state {
    struct frame ops, links;
    struct rank_map ranks;
    struct scratch scratch;
};

static void drop(void *data)
{
    struct part *part = data;
    frame_fini(&part->ops);
    frame_fini(&part->links);
    if (part->has_meta)
        rs_ascend_metadata_fini(&part->meta);
    rs_mem_free(part);
}

static enum rs_status start(struct run *run, struct rs_err *err)
{
    struct state *state = run->state;
    enum rs_status status = frame_init(&state->ops, OP_KINDS);
    if (status == RS_OK)
        status = frame_init(&state->links, LINK_KINDS);
    if (status == RS_OK)
        status = rank_map_init(&state->ranks, true);
    return status == RS_OK ? RS_OK : rs_err_set(err, status, "no memory for links");
}

static enum rs_status read_ops(const struct inputs *in, struct frame *ops, struct rs_err *err)
{
    const int64_t params[] = {in->of->rank};
    const struct frame_query query = {
        .sql = "SELECT ?1, g.value, c.endNs - c.startNs, n.value, y.value, e.name, "
               "CASE e.name WHEN 'INT8' THEN 1 WHEN 'INT16' THEN 2 WHEN 'INT32' THEN 4 "
               "WHEN 'INT64' THEN 8 WHEN 'UINT64' THEN 8 WHEN 'UINT8' THEN 1 WHEN 'UINT16' THEN 2 "
               "WHEN 'UINT32' THEN 4 WHEN 'FP16' THEN 2 WHEN 'FP32' THEN 4 WHEN 'FP64' THEN 8 "
               "WHEN 'BFP16' THEN 2 WHEN 'INT128' THEN 16 END * c.count, 0, 0 "
               "FROM COMMUNICATION_OP c JOIN STRING_IDS g ON g.id = c.groupName "
               "JOIN STRING_IDS n ON n.id = c.opName "
               "JOIN ENUM_HCCL_DATA_TYPE e ON e.id = c.dataType "
               "JOIN STRING_IDS y ON y.id = c.opType",
        .params = params,
        .param_count = 1};
    enum rs_status status =
        db_requires(in->profiler,
                    "COMMUNICATION_OP.groupName COMMUNICATION_OP.opName COMMUNICATION_OP.opType "
                    "COMMUNICATION_OP.dataType COMMUNICATION_OP.count COMMUNICATION_OP.startNs "
                    "COMMUNICATION_OP.endNs STRING_IDS.value ENUM_HCCL_DATA_TYPE.name",
                    err);
    if (status == RS_OK)
        status = frame_load(ops, in->profiler, &query, err);
    if (status == RS_OK && !ops->count)
        status = rs_err_set(err, RS_NOTFOUND, "%s has no communication operations",
                            rs_ascend_db_path(in->profiler));
    return status;
}

static enum rs_status read_links(const struct run *run, const struct inputs *in,
                                 struct frame *links, struct rs_err *err)
{
    const int64_t params[] = {run->options->step_id};
    struct frame_query query = {
        .sql = "SELECT group_name, src_rank, dst_rank, transport_type, sum(transit_size), "
               "sum(transit_time) FROM CommAnalyzerMatrix WHERE hccl_op_name LIKE '%-total' "
               "AND (?1 < 0 OR step = 'step' || ?1) GROUP BY 1, 2, 3, 4",
        .params = params,
        .param_count = 1};
    if (in->analysis &&
        db_requires(in->analysis, "CommAnalyzerMatrix.transit_size CommAnalyzerMatrix.step",
                    NULL) == RS_OK)
        return frame_load(links, in->analysis, &query, err);
    if (in->analysis &&
        db_requires(in->analysis, "CommAnalyzerMatrix.transit_size", NULL) == RS_OK) {
        /* MindSpore: a row per operation, no selections and no steps */
        query.sql = "SELECT group_name, src_rank, dst_rank, transport_type, sum(transit_size), "
                    "sum(transit_time) FROM CommAnalyzerMatrix WHERE ?1 = ?1 GROUP BY 1, 2, 3, 4";
        return frame_load(links, in->analysis, &query, err);
    }
    if (db_requires(in->profiler,
                    "COMMUNICATION_TASK_INFO.srcRank COMMUNICATION_TASK_INFO.dstRank "
                    "COMMUNICATION_TASK_INFO.size COMMUNICATION_TASK_INFO.linkType "
                    "COMMUNICATION_TASK_INFO.globalTaskId ENUM_HCCL_LINK_TYPE.name "
                    "TASK.globalTaskId",
                    NULL) != RS_OK)
        return RS_OK;
    query.sql = "SELECT g.value, t.srcRank, t.dstRank, coalesce(l.name, 'UNKNOWN'), "
                "sum(t.size) / 1e6, sum(TASK.endNs - TASK.startNs) / 1e6 "
                "FROM COMMUNICATION_TASK_INFO t JOIN TASK ON TASK.globalTaskId = t.globalTaskId "
                "JOIN STRING_IDS g ON g.id = t.groupName JOIN STRING_IDS y ON y.id = t.taskType "
                "LEFT JOIN ENUM_HCCL_LINK_TYPE l ON l.id = t.linkType "
                "WHERE ?1 = ?1 AND t.size > 0 AND t.srcRank <> 4294967295 "
                "AND t.dstRank <> 4294967295 AND y.value IN ('Memcpy', 'Reduce_Inline') "
                "GROUP BY 1, 2, 3, 4";
    return frame_load(links, in->profiler, &query, err);
}

static enum rs_status map(struct run *run, const struct inputs *in, void **part_p,
                          struct rs_err *err)
{
    struct part *part = rs_mem_calloc(1, sizeof *part);
    struct rs_err why = {0};
    if (!part)
        return rs_err_set(err, RS_NOMEM, "no memory for links");
    enum rs_status status = frame_init(&part->ops, OP_KINDS);
    if (status == RS_OK)
        status = frame_init(&part->links, LINK_KINDS);
    if (status == RS_OK)
        status = read_ops(in, &part->ops, err);
    if (status == RS_OK && !run->options->compat) {
        status = read_links(run, in, &part->links, err);
        const enum rs_status found =
            status == RS_OK ? rank_metadata(run, in, &part->meta, &why) : RS_NOTFOUND;
        part->has_meta = found == RS_OK;
        if (found != RS_OK && found != RS_NOTFOUND)
            run_add_problem(run, in->of->rank, true, "%s", why.text);
    }
    if (status != RS_OK) {
        drop(part);
        return status;
    }
    *part_p = part;
    return RS_OK;
}

/* Groups stand as names in one table and as hashes in the other. */
static const char *hash_of(const char *group, char hash[RS_ASCEND_HASH_BYTES])
{
    const size_t length = strlen(group);
    if (length && strspn(group, "0123456789") == length)
        return group;
    rs_ascend_group_key(group, hash);
    return hash;
}

static enum rs_status add_selves(struct state *state, const struct frame *links, int64_t rank)
{
    char hash[RS_ASCEND_HASH_BYTES];
    for (size_t i = 0; i < links->count; i++) {
        const union frame_cell *row = frame_row(links, i);
        if (row[SRC].t != row[DST].t || row[SRC].t == RS_STR_NONE || row[HASH].t == RS_STR_NONE)
            continue;
        const enum rs_status status =
            rank_map_add_self(&state->ranks, hash_of(frame_text(links, row[HASH].t), hash),
                              frame_text(links, row[SRC].t), rank);
        if (status != RS_OK)
            return status;
    }
    return RS_OK;
}

static enum rs_status reduce(struct run *run, const struct recipe_rank *rank, void *data,
                             struct rs_err *err)
{
    struct state *state = run->state;
    struct part *part = data;
    enum rs_status status = frame_append(&state->ops, &part->ops);
    if (status == RS_OK)
        status = frame_append(&state->links, &part->links);
    if (status == RS_OK)
        status = add_selves(state, &part->links, rank->rank);
    if (status == RS_OK && part->has_meta)
        status = group_set_add(run, &state->ranks.groups, rank->rank, &part->meta);
    return status == RS_OK
               ? RS_OK
               : rs_err_set(err, status, "no memory for the links of rank %" PRId64, rank->rank);
}

/* ---- the peer's classes ---- */

static enum rs_status fill_transfers(struct frame *ops)
{
    struct frame_order order;
    const enum rs_status status = frame_order(ops, (char[]){GROUP + 1, NAME + 1, 0}, &order);
    if (status != RS_OK)
        return status;
    for (size_t at = 0, end = 0; at < order.count; at = end) {
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
            union frame_cell *row = ops->cells + order.rows[i] * ops->columns;
            row[TRANSFER].i = least;
            row[MEMBERS].i = (int64_t)(end - at);
        }
    }
    frame_order_fini(&order);
    return RS_OK;
}

static bool has_outlier(const struct scratch *scratch)
{
    double mean;
    const double std = stats_std_population(scratch->values, scratch->count, &mean);
    if (!(std > 0))
        return false;
    for (size_t i = 0; i < scratch->count; i++)
        if (scratch->values[i] > 3 * std + mean || scratch->values[i] < -3 * std + mean)
            return true;
    return false;
}

struct class
{
    size_t from, end, order; /* positions in the order of classes */
    struct stats stats;
    double offset;
    int64_t max_rank, min_rank;
};

static int by_offset(const void *a, const void *b)
{
    const struct class *x = a, *y = b;
    if (x->offset < y->offset || x->offset > y->offset)
        return x->offset > y->offset ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

static void measure(const struct frame *ops, const struct frame_order *order, struct class *class,
                    struct scratch *scratch)
{
    int64_t least = INT64_MAX, most = INT64_MIN;
    stats_of_group(scratch->values, scratch->count, scratch->sorted, &class->stats);
    for (size_t i = class->from; i < class->end; i++) {
        const union frame_cell *row = frame_row(ops, order->rows[i]);
        if (row[TRANSFER].i < least) {
            least = row[TRANSFER].i;
            class->min_rank = row[RANK].i;
        }
        if (row[TRANSFER].i > most) {
            most = row[TRANSFER].i;
            class->max_rank = row[RANK].i;
        }
    }
    const double above = fabs(class->stats.max - class->stats.mean);
    const double below = fabs(class->stats.min - class->stats.mean);
    class->offset = (above > below ? above : below) / class->stats.std;
}

struct classes {
    struct frame_order order;
    struct class *items;
    size_t count, capacity;
};

static enum rs_status find_classes(struct state *state, struct classes *classes)
{
    enum rs_status status = fill_transfers(&state->ops);
    if (status == RS_OK)
        status = frame_order(&state->ops, (char[]){TYPE + 1, BYTES + 1, MEMBERS + 1, 0},
                             &classes->order);
    for (size_t at = 0, end = 0; status == RS_OK && at < classes->order.count; at = end) {
        end = frame_group_end(&state->ops, &classes->order, at);
        if (frame_row(&state->ops, classes->order.rows[at])[BYTES].i == RS_NULL)
            continue;
        status = scratch_gather(&state->scratch, &state->ops, &classes->order, at, end, TRANSFER);
        if (status != RS_OK || !has_outlier(&state->scratch))
            continue;
        status = rs_mem_grow((void **)&classes->items, &classes->capacity, classes->count + 1,
                             sizeof *classes->items);
        if (status != RS_OK)
            break;
        struct class *class = &classes->items[classes->count];
        *class = (struct class){.from = at, .end = end, .order = classes->count};
        classes->count++;
        measure(&state->ops, &classes->order, class, &state->scratch);
    }
    return status;
}

static enum rs_status write_ops(struct run *run, const struct classes *classes, struct rs_err *err)
{
    static const struct column columns[] = {
        {"rankId", 'i', NULL},   {"groupName", 't', NULL},    {"communicationTime", 'i', NULL},
        {"opName", 't', NULL},   {"opType", 't', NULL},       {"dataType", 't', NULL},
        {"dataSize", 'i', NULL}, {"transmitTime", 'i', NULL}, {"relatedRanks", 'i', NULL}};
    static const struct table table = {
        "SlowLinkOps", "slow_link_ops.csv", columns, COLUMN_COUNT(columns), 0, false};
    const struct state *state = run->state;
    enum rs_status status = table_begin(run, &table, err);
    for (size_t k = 0; k < classes->count; k++)
        for (size_t i = classes->items[k].from; i < classes->items[k].end && status == RS_OK; i++) {
            const union frame_cell *row = frame_row(&state->ops, classes->order.rows[i]);
            const struct cell cells[] = {cell_int(row[RANK].i),
                                         cell_text(frame_text(&state->ops, row[GROUP].t)),
                                         cell_int(row[DURATION].i),
                                         cell_text(frame_text(&state->ops, row[NAME].t)),
                                         cell_text(frame_text(&state->ops, row[TYPE].t)),
                                         cell_text(frame_text(&state->ops, row[DATA_TYPE].t)),
                                         cell_int(row[BYTES].i),
                                         cell_int(row[TRANSFER].i),
                                         cell_int(row[MEMBERS].i)};
            status = table_row(run, cells, err);
        }
    return status == RS_OK ? table_end(run, err) : status;
}

static enum rs_status write_sums(struct run *run, struct classes *classes, struct rs_err *err)
{
    /* whole ns, so some statistics are integers */
    static const struct column columns[] = {{"opTypeRelatedRanksDataSize", 't', NULL},
                                            {"Count", 'i', NULL},
                                            {"MeanNs", 'r', NULL},
                                            {"StdNs", 'r', NULL},
                                            {"MinNs", 'i', NULL},
                                            {"Q1Ns", 'r', NULL},
                                            {"MedianNs", 'r', NULL},
                                            {"Q3Ns", 'r', NULL},
                                            {"MaxNs", 'i', NULL},
                                            {"SumNs", 'i', NULL},
                                            {"offsetRatio", 'r', NULL},
                                            {"maxRank", 'i', NULL},
                                            {"minRank", 'i', NULL}};
    static const struct table table = {
        "SlowLinkSum", "slow_link_sum.csv", columns, COLUMN_COUNT(columns), 0, false};
    const struct state *state = run->state;
    const size_t limit = (size_t)run_top(run, 15);
    struct rs_buf text = {0};
    if (classes->count)
        qsort(classes->items, classes->count, sizeof *classes->items, by_offset);
    enum rs_status status = table_begin(run, &table, err);
    for (size_t k = 0; k < classes->count && k < limit && status == RS_OK; k++) {
        const struct class *class = &classes->items[k];
        const union frame_cell *row = frame_row(&state->ops, classes->order.rows[class->from]);
        struct cell cells[STATS_COLUMN_COUNT + 4];
        rs_buf_reset(&text);
        rs_buf_printf(&text, "%s%" PRId64 "_%" PRId64, frame_text(&state->ops, row[TYPE].t),
                      row[MEMBERS].i, row[BYTES].i);
        cells[0] = cell_text(rs_buf_text(&text));
        stats_cells(&class->stats, cells + 1);
        cells[STATS_COLUMN_COUNT + 1] = cell_real(class->offset);
        cells[STATS_COLUMN_COUNT + 2] = cell_int(class->max_rank);
        cells[STATS_COLUMN_COUNT + 3] = cell_int(class->min_rank);
        status = table_row(run, cells, err);
    }
    rs_buf_fini(&text);
    return status == RS_OK ? table_end(run, err) : status;
}

/* ---- our own: links ---- */

enum { K_TRANSPORT, K_SRC, K_DST, K_SIZE, K_TIME, K_BANDWIDTH };
#define JUDGED_KINDS "tiirrr"

/* Links in ranks of the run, a copy to oneself left out. */
static enum rs_status gather_links(struct run *run, struct frame *judged)
{
    struct state *state = run->state;
    char hash[RS_ASCEND_HASH_BYTES];
    size_t lost = 0;
    for (size_t i = 0; i < state->links.count; i++) {
        const union frame_cell *row = frame_row(&state->links, i);
        if (row[HASH].t == RS_STR_NONE || row[SRC].t == RS_STR_NONE || row[DST].t == RS_STR_NONE ||
            row[SRC].t == row[DST].t || !(row[SIZE].r > 0) || !(row[TIME].r > 0))
            continue;
        const char *group = hash_of(frame_text(&state->links, row[HASH].t), hash);
        const int64_t src =
            rank_map_find(&state->ranks, group, frame_text(&state->links, row[SRC].t));
        const int64_t dst =
            rank_map_find(&state->ranks, group, frame_text(&state->links, row[DST].t));
        if (src < 0 || dst < 0) {
            lost++;
            continue;
        }
        union frame_cell *to = frame_add(judged);
        const char *transport = row[TRANSPORT].t == RS_STR_NONE
                                    ? "UNKNOWN"
                                    : frame_text(&state->links, row[TRANSPORT].t);
        if (!to || frame_text_id(judged, transport, &to[K_TRANSPORT].t) != RS_OK)
            return RS_NOMEM;
        to[K_SRC].i = src;
        to[K_DST].i = dst;
        to[K_SIZE].r = row[SIZE].r;
        to[K_TIME].r = row[TIME].r;
    }
    if (lost)
        run_add_problem(run, -1, true,
                        "%zu links name a rank that no result and no metadata explain", lost);
    return RS_OK;
}

/* One row per link of `all`. */
static enum rs_status add_up(const struct frame *all, struct frame *judged)
{
    struct frame_order order;
    enum rs_status status =
        frame_order(all, (char[]){K_TRANSPORT + 1, K_SRC + 1, K_DST + 1, 0}, &order);
    for (size_t at = 0, end = 0; status == RS_OK && at < order.count; at = end) {
        struct stats_sum size = {0, 0}, time = {0, 0};
        const union frame_cell *row = frame_row(all, order.rows[at]);
        end = frame_group_end(all, &order, at);
        for (size_t i = at; i < end; i++) {
            stats_add(&size, frame_row(all, order.rows[i])[K_SIZE].r);
            stats_add(&time, frame_row(all, order.rows[i])[K_TIME].r);
        }
        union frame_cell *to = frame_add(judged);
        if (!to) {
            status = RS_NOMEM;
            break;
        }
        to[K_SRC].i = row[K_SRC].i;
        to[K_DST].i = row[K_DST].i;
        to[K_SIZE].r = size.sum;
        to[K_TIME].r = time.sum;
        to[K_BANDWIDTH].r = size.sum / time.sum;
        status = frame_text_id(judged, frame_text(all, row[K_TRANSPORT].t), &to[K_TRANSPORT].t);
    }
    frame_order_fini(&order);
    return status;
}

struct baseline {
    double median, deviation;
    size_t links;
};

static struct baseline baseline_of(struct scratch *scratch)
{
    struct baseline baseline = {.links = scratch->count};
    stats_sort(scratch->values, scratch->count);
    baseline.median = stats_median_sorted(scratch->values, scratch->count);
    for (size_t i = 0; i < scratch->count; i++)
        scratch->sorted[i] = fabs(scratch->values[i] - baseline.median);
    stats_sort(scratch->sorted, scratch->count);
    baseline.deviation = 1.4826 * stats_median_sorted(scratch->sorted, scratch->count);
    return baseline;
}

static enum rs_status write_link(struct run *run, const struct frame *judged,
                                 const union frame_cell *row, const struct baseline *baseline,
                                 struct rs_err *err)
{
    enum { FEW = 3 };
    const double missing = baseline->median - row[K_BANDWIDTH].r;
    const bool is_slow =
        row[K_BANDWIDTH].r < 0.8 * baseline->median && missing > 5 * baseline->deviation;
    const double lost = row[K_TIME].r - row[K_SIZE].r / baseline->median;
    const struct cell cells[] = {cell_int(row[K_SRC].i),
                                 cell_int(row[K_DST].i),
                                 cell_text(frame_text(judged, row[K_TRANSPORT].t)),
                                 cell_text(baseline->links < FEW ? "not judged"
                                           : is_slow             ? "slow"
                                                                 : "ok"),
                                 cell_real(row[K_BANDWIDTH].r),
                                 cell_real(baseline->median),
                                 cell_real(baseline->median > 0 ? missing / baseline->median : 0),
                                 cell_real(row[K_SIZE].r),
                                 cell_real(row[K_TIME].r),
                                 cell_real(lost > 0 ? lost : 0),
                                 cell_int((int64_t)baseline->links)};
    return table_row(run, cells, err);
}

static enum rs_status write_judged(struct run *run, const struct frame *judged, struct rs_err *err)
{
    static const struct column columns[] = {
        {"srcRank", 'i', NULL}, {"dstRank", 'i', NULL},       {"transportType", 't', NULL},
        {"verdict", 't', NULL}, {"bandwidthGBs", 'r', NULL},  {"medianGBs", 'r', NULL},
        {"deficit", 'r', NULL}, {"transitSizeMB", 'r', NULL}, {"transitTimeMs", 'r', NULL},
        {"lostMs", 'r', NULL},  {"linksCompared", 'i', NULL}};
    static const struct table table = {
        "RankscopeSlowLink", "rankscope_slow_link.csv", columns, COLUMN_COUNT(columns), 2, false};
    struct state *state = run->state;
    struct frame_order order;
    enum rs_status status =
        frame_order(judged, (char[]){K_TRANSPORT + 1, K_BANDWIDTH + 1, 0}, &order);
    if (status != RS_OK)
        return rs_err_set(err, status, "no memory to sort links");
    frame_order_by(&order, (char[]){K_TRANSPORT + 1, 0});
    status = table_begin(run, &table, err);
    for (size_t at = 0, end = 0; at < order.count && status == RS_OK; at = end) {
        end = frame_group_end(judged, &order, at);
        status = scratch_gather(&state->scratch, judged, &order, at, end, K_BANDWIDTH);
        if (status != RS_OK)
            break;
        const struct baseline baseline = baseline_of(&state->scratch);
        for (size_t i = at; i < end && status == RS_OK; i++)
            status = write_link(run, judged, frame_row(judged, order.rows[i]), &baseline, err);
    }
    frame_order_fini(&order);
    return status == RS_OK ? table_end(run, err) : status;
}

static enum rs_status judge_links(struct run *run, struct rs_err *err)
{
    struct state *state = run->state;
    struct frame all = {0}, judged = {0};
    enum rs_status status = rank_map_seal(run, &state->ranks);
    if (status == RS_OK)
        status = frame_init(&all, JUDGED_KINDS);
    if (status == RS_OK)
        status = frame_init(&judged, JUDGED_KINDS);
    if (status == RS_OK)
        status = gather_links(run, &all);
    if (status == RS_OK)
        status = add_up(&all, &judged);
    status = status == RS_OK ? write_judged(run, &judged, err)
                             : rs_err_set(err, status, "no memory to judge links");
    frame_fini(&all);
    frame_fini(&judged);
    return status;
}

static enum rs_status finish(struct run *run, struct rs_err *err)
{
    struct state *state = run->state;
    struct classes classes = {0};
    enum rs_status status = find_classes(state, &classes);
    if (status != RS_OK)
        (void)rs_err_set(err, status, "no memory to compare operations");
    if (status == RS_OK && (classes.count || !run->options->compat)) {
        status = write_ops(run, &classes, err);
        if (status == RS_OK)
            status = write_sums(run, &classes, err);
    }
    frame_order_fini(&classes.order);
    rs_mem_free(classes.items);
    return status == RS_OK && !run->options->compat ? judge_links(run, err) : status;
}

static void stop(struct run *run)
{
    struct state *state = run->state;
    frame_fini(&state->ops);
    frame_fini(&state->links);
    rank_map_fini(&state->ranks);
    scratch_fini(&state->scratch);
}

const struct recipe recipe_slow_link = {
    .info = {"slow_link", "which links move their bytes slowly: the peer's classes and each link",
             "SlowLinkSum, SlowLinkOps, RankscopeSlowLink"},
    .folder = "SlowLink",
    .needs = NEED_PROFILER | MAY_ANALYSIS,
    .state_bytes = sizeof(struct state),
    .start = start,
    .map = map,
    .reduce = reduce,
    .finish = finish,
    .drop = drop,
    .stop = stop,
};
