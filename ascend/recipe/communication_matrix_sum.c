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
#include "common/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { P2P, STEP, OP, GROUP, SRC, DST, TRANSPORT, NAME, SIZE, TIME };
#define KINDS "itttttttrr"

struct part {
    struct frame rows;
    struct rs_ascend_metadata meta;
    bool has_meta;
};

struct state {
    struct frame rows;
    struct rank_map ranks;
};

static void drop(void *data)
{
    struct part *part = data;
    frame_fini(&part->rows);
    if (part->has_meta)
        rs_ascend_metadata_fini(&part->meta);
    rs_mem_free(part);
}

static enum rs_status start(struct run *run, struct rs_err *err)
{
    struct state *state = run->state;
    enum rs_status status = frame_init(&state->rows, KINDS);
    if (status == RS_OK)
        status = rank_map_init(&state->ranks, !run->options->compat);
    return status == RS_OK ? RS_OK : rs_err_set(err, status, "no memory for links");
}

#define IS_P2P(column)                                                                             \
    "(lower(" column ") LIKE 'hcom_send%' OR lower(" column                                        \
    ") LIKE 'hcom_receive%' OR lower(" column ") LIKE 'hcom_batchsendrecv%')"

/* One row per operation and link -> the six selections per (type, group, link). */
static const char selections[] = "WITH m AS (SELECT " IS_P2P(
    "hccl_op_name") " AS p2p, "
                    "CASE WHEN instr(hccl_op_name, '__') > 0 THEN substr(hccl_op_name, 1, "
                    "instr(hccl_op_name, '__') - 1) ELSE hccl_op_name END AS type, hccl_op_name AS name, group_name, "
                    "src_rank, dst_rank, transport_type, transit_size, transit_time, "
                    "row_number() OVER w AS i, count(*) OVER (PARTITION BY " IS_P2P(
                        "hccl_op_name") ", CASE WHEN instr(hccl_op_name, '__') > 0 THEN substr(hccl_op_name, 1, "
                                        "instr(hccl_op_name, '__') - 1) ELSE hccl_op_name END, group_name, src_rank, dst_rank) AS n "
                                        "FROM CommAnalyzerMatrix WINDOW w AS (PARTITION BY " IS_P2P(
                                            "hccl_op_name") ", CASE WHEN instr(hccl_op_name, '__') > 0 THEN substr(hccl_op_name, 1, "
                                                            "instr(hccl_op_name, '__') - 1) ELSE hccl_op_name END, group_name, src_rank, dst_rank "
                                                            "ORDER BY bandwidth DESC)), "
                                                            "s(tag, at) AS (VALUES ('top1', 0), ('middle', -9), ('bottom1', 1), ('bottom2', 2), "
                                                            "('bottom3', 3)) "
                                                            "SELECT p2p, 'step', type || '-' || tag, group_name, src_rank, dst_rank, transport_type, name, "
                                                            "transit_size, transit_time FROM m JOIN s ON i = CASE at WHEN 0 THEN 1 WHEN -9 THEN n / 2 + 1 "
                                                            "ELSE n + 1 - at END UNION ALL "
                                                            "SELECT p2p, 'step', type || '-total', group_name, src_rank, dst_rank, min(transport_type), '', "
                                                            "sum(transit_size), sum(transit_time) FROM m GROUP BY p2p, type, group_name, src_rank, dst_rank";

static enum rs_status read_rows(struct run *run, const struct inputs *in, struct frame *rows,
                                struct rs_err *err)
{
    const bool has_type = rs_ascend_db_has_column(in->analysis, "CommAnalyzerMatrix", "type");
    const int64_t params[] = {run->options->compat ? -1 : run->options->step_id};
    const struct frame_query query = {
        .sql = has_type
                   ? "SELECT type = 'p2p', step, hccl_op_name, group_name, src_rank, dst_rank, "
                     "transport_type, op_name, transit_size, transit_time "
                     "FROM CommAnalyzerMatrix WHERE ?1 < 0 OR step = 'step' || ?1"
                   : selections,
        .params = params,
        .param_count = 1};
    enum rs_status status =
        db_requires(in->analysis,
                    has_type ? "CommAnalyzerMatrix.step CommAnalyzerMatrix.op_name "
                               "CommAnalyzerMatrix.src_rank CommAnalyzerMatrix.transit_size"
                             : "CommAnalyzerMatrix.hccl_op_name CommAnalyzerMatrix.src_rank "
                               "CommAnalyzerMatrix.bandwidth",
                    err);
    if (status == RS_OK)
        status = frame_load(rows, in->analysis, &query, err);
    if (status == RS_OK && !rows->count)
        status = rs_err_set(err, RS_NOTFOUND, "%s has no links", rs_ascend_db_path(in->analysis));
    return status;
}

static enum rs_status map(struct run *run, const struct inputs *in, void **part_p,
                          struct rs_err *err)
{
    struct part *part = rs_mem_calloc(1, sizeof *part);
    struct rs_err why = {0};
    if (!part || frame_init(&part->rows, KINDS) != RS_OK) {
        rs_mem_free(part);
        return rs_err_set(err, RS_NOMEM, "no memory for links");
    }
    const enum rs_status status = read_rows(run, in, &part->rows, err);
    if (status != RS_OK) {
        drop(part);
        return status;
    }
    const enum rs_status found = rank_metadata(run, in, &part->meta, &why);
    part->has_meta = found == RS_OK;
    if (found != RS_OK && found != RS_NOTFOUND)
        run_add_problem(run, in->of->rank, true, "%s", why.text);
    *part_p = part;
    return RS_OK;
}

static enum rs_status add_selves(struct rank_map *ranks, const struct frame *rows, int64_t rank)
{
    struct frame_order order;
    enum rs_status status = frame_order(rows, (char[]){GROUP + 1, SRC + 1, DST + 1, 0}, &order);
    if (status != RS_OK)
        return status;
    for (size_t at = 0; at < order.count && status == RS_OK;
         at = frame_group_end(rows, &order, at)) {
        const union frame_cell *row = frame_row(rows, order.rows[at]);
        if (row[SRC].t == row[DST].t && row[SRC].t != RS_STR_NONE && row[GROUP].t != RS_STR_NONE)
            status = rank_map_add_self(ranks, frame_text(rows, row[GROUP].t),
                                       frame_text(rows, row[SRC].t), rank);
    }
    frame_order_fini(&order);
    return status;
}

static enum rs_status reduce(struct run *run, const struct recipe_rank *rank, void *data,
                             struct rs_err *err)
{
    struct state *state = run->state;
    struct part *part = data;
    enum rs_status status = frame_append(&state->rows, &part->rows);
    if (status == RS_OK)
        status = add_selves(&state->ranks, &part->rows, rank->rank);
    if (status == RS_OK && part->has_meta)
        status = group_set_add(run, &state->ranks.groups, rank->rank, &part->meta);
    return status == RS_OK
               ? RS_OK
               : rs_err_set(err, status, "no memory for the links of rank %" PRId64, rank->rank);
}

/* Sums of one link; the frame that is written: ranks instead of texts. */
enum { L_STEP, L_OP, L_GROUP, L_SRC, L_DST, L_TRANSPORT, L_NAME, L_SIZE, L_TIME, L_FIRST };
#define LINK_KINDS "tttiittrri"

static rs_str first_text(const struct frame *rows, const struct frame_order *order, size_t from,
                         size_t end, size_t column)
{
    for (size_t i = from; i < end; i++) {
        const rs_str id = frame_row(rows, order->rows[i])[column].t;
        if (id != RS_STR_NONE)
            return id;
    }
    return RS_STR_NONE;
}

static enum rs_status copy_text(struct frame *to, const struct frame *from, rs_str id, rs_str *id_p)
{
    if (id == RS_STR_NONE) {
        *id_p = RS_STR_NONE;
        return RS_OK;
    }
    return frame_text_id(to, frame_text(from, id), id_p);
}

static void add_up(const struct frame *rows, const struct frame_order *order, size_t from,
                   size_t end, const size_t columns[2], double sums_p[2])
{
    for (size_t k = 0; k < 2; k++) {
        struct stats_sum sum = {0, 0};
        for (size_t i = from; i < end; i++) {
            const double value = frame_row(rows, order->rows[i])[columns[k]].r;
            if (value == value) /* not NULL */
                stats_add(&sum, value);
        }
        sums_p[k] = sum.sum;
    }
}

static enum rs_status add_link(struct frame *links, const struct frame *rows,
                               const struct frame_order *order, size_t from, size_t end,
                               const int64_t ends[2])
{
    const union frame_cell *row = frame_row(rows, order->rows[from]);
    const rs_str ids[] = {row[STEP].t, row[OP].t, row[GROUP].t,
                          first_text(rows, order, from, end, TRANSPORT),
                          first_text(rows, order, from, end, NAME)};
    static const size_t places[] = {L_STEP, L_OP, L_GROUP, L_TRANSPORT, L_NAME};
    double sums[2];
    union frame_cell *link = frame_add(links);
    enum rs_status status = link ? RS_OK : RS_NOMEM;
    for (size_t k = 0; k < 5 && status == RS_OK; k++)
        status = copy_text(links, rows, ids[k], &link[places[k]].t);
    if (status != RS_OK)
        return status;
    add_up(rows, order, from, end, (const size_t[]){SIZE, TIME}, sums);
    link[L_SRC].i = ends[0];
    link[L_DST].i = ends[1];
    link[L_SIZE].r = sums[0];
    link[L_TIME].r = sums[1];
    link[L_FIRST].i = order->rows[from];
    return RS_OK;
}

static void report_unmapped(struct run *run, const char *hash, size_t count)
{
    run_add_problem(
        run, -1, !run->options->compat,
        "group %s: %zu rows of links name a rank that no result and no metadata explain; dropped",
        hash, count);
}

static enum rs_status build_links(struct run *run, struct frame *links)
{
    struct state *state = run->state;
    const struct frame *rows = &state->rows;
    struct frame_order order;
    enum rs_status status = frame_order(
        rows, (char[]){GROUP + 1, P2P + 1, STEP + 1, OP + 1, SRC + 1, DST + 1, 0}, &order);
    rs_str last = RS_STR_NONE;
    size_t dropped = 0;
    for (size_t at = 0, end = 0; status == RS_OK && at < order.count; at = end) {
        const union frame_cell *row = frame_row(rows, order.rows[at]);
        end = frame_group_end(rows, &order, at);
        if (row[GROUP].t == RS_STR_NONE || row[STEP].t == RS_STR_NONE || row[OP].t == RS_STR_NONE ||
            row[SRC].t == RS_STR_NONE || row[DST].t == RS_STR_NONE)
            continue;
        const char *hash = frame_text(rows, row[GROUP].t);
        const int64_t ends[] = {rank_map_find(&state->ranks, hash, frame_text(rows, row[SRC].t)),
                                rank_map_find(&state->ranks, hash, frame_text(rows, row[DST].t))};
        if (row[GROUP].t != last && dropped) {
            report_unmapped(run, frame_text(rows, last), dropped);
            dropped = 0;
        }
        last = row[GROUP].t;
        if (ends[0] < 0 || ends[1] < 0)
            dropped++;
        else
            status = add_link(links, rows, &order, at, end, ends);
    }
    if (dropped)
        report_unmapped(run, frame_text(rows, last), dropped);
    frame_order_fini(&order);
    return status;
}

/* `is_total`: a sum of sums, where the peer divides by zero time. */
static double bandwidth_of(const struct run *run, double size, double time, bool is_total)
{
    if (time < 0 || time > 0 || (is_total && run->options->compat))
        return size / time;
    return 0;
}

static enum rs_status write_link(struct run *run, const struct frame *links,
                                 const union frame_cell *link, struct rs_err *err)
{
    const struct cell cells[] = {
        cell_text(frame_text(links, link[L_STEP].t)),
        cell_text(frame_text(links, link[L_OP].t)),
        cell_text(frame_text(links, link[L_GROUP].t)),
        cell_real((double)link[L_SRC].i),
        cell_real((double)link[L_DST].i),
        cell_text(link[L_TRANSPORT].t == RS_STR_NONE ? NULL
                                                     : frame_text(links, link[L_TRANSPORT].t)),
        cell_text(link[L_NAME].t == RS_STR_NONE ? NULL : frame_text(links, link[L_NAME].t)),
        cell_real(link[L_SIZE].r),
        cell_real(link[L_TIME].r),
        cell_real(bandwidth_of(run, link[L_SIZE].r, link[L_TIME].r, false))};
    return table_row(run, cells, err);
}

static enum rs_status write_links(struct run *run, const struct frame *links, struct rs_err *err)
{
    struct frame_order order;
    enum rs_status status = frame_order(links, (char[]){L_FIRST + 1, 0}, &order);
    if (status != RS_OK)
        return rs_err_set(err, status, "no memory to sort links");
    for (size_t i = 0; i < order.count && status == RS_OK; i++)
        status = write_link(run, links, frame_row(links, order.rows[i]), err);
    frame_order_fini(&order);
    return status;
}

/* Positions of one (group, step, link) whose operation says "total". */
static enum rs_status write_total(struct run *run, const struct frame *links,
                                  const struct frame_order *order, size_t from, size_t end,
                                  struct rs_err *err)
{
    struct stats_sum size = {0, 0}, time = {0, 0};
    rs_str transport = RS_STR_NONE, name = RS_STR_NONE;
    size_t count = 0;
    const union frame_cell *first = frame_row(links, order->rows[from]);
    for (size_t i = from; i < end; i++) {
        const union frame_cell *link = frame_row(links, order->rows[i]);
        if (!strstr(frame_text(links, link[L_OP].t), "total"))
            continue;
        transport = transport == RS_STR_NONE ? link[L_TRANSPORT].t : transport;
        name = name == RS_STR_NONE ? link[L_NAME].t : name;
        stats_add(&size, link[L_SIZE].r);
        stats_add(&time, link[L_TIME].r);
        count++;
    }
    if (!count)
        return RS_OK;
    const struct cell cells[] = {
        cell_text(frame_text(links, first[L_STEP].t)),
        cell_text("Total Op Info"),
        cell_text(frame_text(links, first[L_GROUP].t)),
        cell_real((double)first[L_SRC].i),
        cell_real((double)first[L_DST].i),
        cell_text(transport == RS_STR_NONE ? NULL : frame_text(links, transport)),
        cell_text(name == RS_STR_NONE ? NULL : frame_text(links, name)),
        cell_real(size.sum),
        cell_real(time.sum),
        cell_real(bandwidth_of(run, size.sum, time.sum, true))};
    return table_row(run, cells, err);
}

static enum rs_status write_totals(struct run *run, const struct frame *links, struct rs_err *err)
{
    struct frame_order order;
    enum rs_status status = frame_order(
        links, (char[]){L_GROUP + 1, L_STEP + 1, L_SRC + 1, L_DST + 1, L_FIRST + 1, 0}, &order);
    if (status != RS_OK)
        return rs_err_set(err, status, "no memory to sort links");
    frame_order_by(&order, (char[]){L_GROUP + 1, L_STEP + 1, L_SRC + 1, L_DST + 1, 0});
    for (size_t at = 0, end = 0; at < order.count && status == RS_OK; at = end) {
        end = frame_group_end(links, &order, at);
        status = write_total(run, links, &order, at, end, err);
    }
    frame_order_fini(&order);
    return status;
}

static enum rs_status finish(struct run *run, struct rs_err *err)
{
    static const struct column columns[] = {
        {"step", 't', NULL},     {"hccl_op_name", 't', NULL}, {"group_name", 't', NULL},
        {"src_rank", 'r', NULL}, {"dst_rank", 'r', NULL},     {"transport_type", 't', NULL},
        {"op_name", 't', NULL},  {"transit_size", 'r', NULL}, {"transit_time", 'r', NULL},
        {"bandwidth", 'r', NULL}};
    static const struct table table = {"ClusterCommunicationMatrix",
                                       "cluster_communication_matrix.csv",
                                       columns,
                                       COLUMN_COUNT(columns),
                                       0,
                                       false};
    struct state *state = run->state;
    struct frame links;
    enum rs_status status = frame_init(&links, LINK_KINDS);
    if (status == RS_OK)
        status = rank_map_seal(run, &state->ranks);
    if (status == RS_OK)
        status = build_links(run, &links);
    if (status != RS_OK)
        (void)rs_err_set(err, status, "no memory for links");
    else
        status = table_begin(run, &table, err);
    if (status == RS_OK)
        status = write_links(run, &links, err);
    if (status == RS_OK)
        status = write_totals(run, &links, err);
    frame_fini(&links);
    return status == RS_OK ? table_end(run, err) : status;
}

static void stop(struct run *run)
{
    struct state *state = run->state;
    frame_fini(&state->rows);
    rank_map_fini(&state->ranks);
}

const struct recipe recipe_communication_matrix_sum = {
    .info = {"communication_matrix_sum", "size, time and bandwidth of each link",
             "ClusterCommunicationMatrix"},
    .folder = "CommMatrixSum",
    .needs = NEED_ANALYSIS | MAY_PROFILER,
    .state_bytes = sizeof(struct state),
    .start = start,
    .map = map,
    .reduce = reduce,
    .finish = finish,
    .drop = drop,
    .stop = stop,
};
