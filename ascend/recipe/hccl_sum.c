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
#include "common/base/mem.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { NAME, TYPE, GROUP, DURATION, RANK, ROW };
#define KINDS "tttiii"

static enum rs_status map(struct run *run, const struct inputs *in, void **part_p,
                          struct rs_err *err)
{
    (void)run;
    enum rs_status status =
        db_requires(in->profiler,
                    "COMMUNICATION_OP.opName COMMUNICATION_OP.opType COMMUNICATION_OP.groupName "
                    "COMMUNICATION_OP.startNs COMMUNICATION_OP.endNs STRING_IDS.value",
                    err);
    if (status == RS_OK)
        status = frame_map(in, in->profiler, KINDS,
                           "SELECT n.value, t.value, g.value, endNs - startNs, ?3, 0 "
                           "FROM COMMUNICATION_OP "
                           "LEFT JOIN STRING_IDS n ON n.id = opName "
                           "LEFT JOIN STRING_IDS t ON t.id = opType "
                           "LEFT JOIN STRING_IDS g ON g.id = groupName "
                           "WHERE startNs >= ?1 AND startNs <= ?2",
                           part_p, err);
    if (status != RS_OK)
        return status;
    struct frame *part = *part_p;
    for (size_t i = 0; i < part->count; i++)
        part->cells[i * part->columns + ROW].i = (int64_t)i;
    return RS_OK;
}

/* One row per group of equal `keys`: the type, the statistics, and the rank when it is a key. */
static enum rs_status write_types(struct run *run, const struct table *table, const char *keys,
                                  bool with_rank, struct rs_err *err)
{
    struct frame_state *state = run->state;
    struct frame_order order;
    enum rs_status status = frame_order(&state->rows, keys, &order);
    if (status != RS_OK)
        return rs_err_set(err, status, "no memory to sort operations");
    status = table_begin(run, table, err);
    for (size_t at = 0, end = 0; at < order.count && status == RS_OK; at = end) {
        const union frame_cell *row = frame_row(&state->rows, order.rows[at]);
        struct cell cells[STATS_COLUMN_COUNT + 2];
        struct stats stats;
        end = frame_group_end(&state->rows, &order, at);
        if (row[TYPE].t == RS_STR_NONE)
            continue; /* as a data frame drops groups without a key */
        status = scratch_gather(&state->scratch, &state->rows, &order, at, end, DURATION);
        if (status != RS_OK)
            break;
        stats_of_group(state->scratch.values, state->scratch.count, state->scratch.sorted, &stats);
        cells[0] = cell_text(frame_text(&state->rows, row[TYPE].t));
        stats_cells(&stats, cells + 1);
        if (with_rank)
            cells[STATS_COLUMN_COUNT + 1] = cell_int(row[RANK].i);
        status = table_row(run, cells, err);
    }
    frame_order_fini(&order);
    return status == RS_OK ? table_end(run, err) : status;
}

struct top {
    struct stats stats;
    rs_str name;
    int64_t min_rank, max_rank;
    size_t order; /* of the groups, for equal means */
};

static int by_mean(const void *a, const void *b)
{
    const struct top *x = a, *y = b;
    if (x->stats.mean < y->stats.mean || x->stats.mean > y->stats.mean)
        return x->stats.mean > y->stats.mean ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

/* The first rank with the smallest and with the largest duration among order positions. */
static void extremes(const struct frame *ops, const struct frame_order *order, size_t from,
                     size_t end, struct top *top)
{
    int64_t least = INT64_MAX, most = INT64_MIN;
    for (size_t i = from; i < end; i++) {
        const union frame_cell *row = frame_row(ops, order->rows[i]);
        if (row[DURATION].i < least) {
            least = row[DURATION].i;
            top->min_rank = row[RANK].i;
        }
        if (row[DURATION].i > most) {
            most = row[DURATION].i;
            top->max_rank = row[RANK].i;
        }
    }
}

static enum rs_status collect_tops(struct frame_state *state, const struct frame_order *order,
                                   struct top **tops_p, size_t *count_p)
{
    struct top *tops = NULL;
    size_t count = 0, capacity = 0;
    for (size_t at = 0, end = 0; at < order->count; at = end) {
        const union frame_cell *row = frame_row(&state->rows, order->rows[at]);
        end = frame_group_end(&state->rows, order, at);
        if (row[NAME].t == RS_STR_NONE)
            continue;
        if (rs_mem_grow((void **)&tops, &capacity, count + 1, sizeof *tops) != RS_OK ||
            scratch_gather(&state->scratch, &state->rows, order, at, end, DURATION) != RS_OK) {
            rs_mem_free(tops);
            return RS_NOMEM;
        }
        struct top *top = &tops[count];
        *top = (struct top){.name = row[NAME].t, .order = count};
        stats_of_group(state->scratch.values, state->scratch.count, state->scratch.sorted,
                       &top->stats);
        extremes(&state->rows, order, at, end, top);
        count++;
    }
    *tops_p = tops;
    *count_p = count;
    return RS_OK;
}

static enum rs_status write_top(struct run *run, const struct table *table, struct rs_err *err)
{
    struct frame_state *state = run->state;
    struct frame_order order = {0};
    struct top *tops = NULL;
    size_t count = 0;
    const char *keys =
        run->options->compat ? (char[]){NAME + 1, 0} : (char[]){NAME + 1, GROUP + 1, 0};
    enum rs_status status = frame_order(&state->rows, keys, &order);
    if (status == RS_OK)
        status = collect_tops(state, &order, &tops, &count);
    frame_order_fini(&order);
    if (status != RS_OK)
        return rs_err_set(err, status, "no memory to sort operations");
    if (count)
        qsort(tops, count, sizeof *tops, by_mean);
    const size_t limit = (size_t)run_top(run, 15);
    status = table_begin(run, table, err);
    for (size_t i = 0; i < count && i < limit && status == RS_OK; i++) {
        struct cell cells[STATS_COLUMN_COUNT + 3];
        cells[0] = cell_text(frame_text(&state->rows, tops[i].name));
        stats_cells(&tops[i].stats, cells + 1);
        cells[STATS_COLUMN_COUNT + 1] = cell_int(tops[i].min_rank);
        cells[STATS_COLUMN_COUNT + 2] = cell_int(tops[i].max_rank);
        status = table_row(run, cells, err);
    }
    rs_mem_free(tops);
    return status == RS_OK ? table_end(run, err) : status;
}

/* "3;6;4": each rank once. The order of `order` decides which comes first. */
static void join_ranks(struct rs_buf *text, const struct frame *ops,
                       const struct frame_order *order, size_t from, size_t end)
{
    bool is_first = true;
    rs_buf_reset(text);
    for (size_t i = from; i < end; i++) {
        const int64_t rank = frame_row(ops, order->rows[i])[RANK].i;
        bool is_known = false;
        /* rows of one rank stand together or, in compat, after a first one of each */
        for (size_t k = from; k < i && !is_known; k++)
            is_known = frame_row(ops, order->rows[k])[RANK].i == rank;
        if (is_known)
            continue;
        rs_buf_printf(text, "%s%" PRId64, is_first ? "" : ";", rank);
        is_first = false;
    }
}

/* First rows of each (group, rank), so that joining looks at few of them. */
static enum rs_status firsts_of(const struct frame *ops, struct frame *firsts)
{
    struct frame_order order;
    enum rs_status status = frame_order(ops, (char[]){GROUP + 1, RANK + 1, 0}, &order);
    for (size_t at = 0; status == RS_OK && at < order.count;
         at = frame_group_end(ops, &order, at)) {
        const union frame_cell *from = frame_row(ops, order.rows[at]);
        union frame_cell *row = NULL;
        rs_str group = RS_STR_NONE;
        if (from[GROUP].t == RS_STR_NONE)
            continue;
        status = frame_text_id(firsts, frame_text(ops, from[GROUP].t), &group);
        row = status == RS_OK ? frame_add(firsts) : NULL;
        if (!row) {
            status = RS_NOMEM;
            break;
        }
        char hash[RS_ASCEND_HASH_BYTES];
        rs_ascend_group_key(frame_text(ops, from[GROUP].t), hash);
        const size_t length = strlen(hash);
        row[GROUP].t = group;
        row[RANK].i = from[RANK].i;
        row[ROW].i = from[ROW].i;
        row[DURATION].i = (int64_t)order.rows[at]; /* reading order, for equal rows */
        status = frame_text_id(firsts, length > 3 ? hash + length - 3 : hash, &row[NAME].t);
    }
    frame_order_fini(&order);
    return status;
}

static enum rs_status write_groups(struct run *run, const struct table *table, struct rs_err *err)
{
    struct frame_state *state = run->state;
    struct frame firsts;
    struct frame_order order = {0};
    struct rs_buf text = {0};
    enum rs_status status = frame_init(&firsts, KINDS);
    if (status == RS_OK)
        status = firsts_of(&state->rows, &firsts);
    /* sorted by the three digits, then the name; ranks as the peer reads them or ascending */
    if (status == RS_OK)
        status = frame_order(&firsts,
                             run->options->compat
                                 ? (char[]){NAME + 1, GROUP + 1, ROW + 1, DURATION + 1, 0}
                                 : (char[]){NAME + 1, GROUP + 1, RANK + 1, 0},
                             &order);
    if (status != RS_OK)
        (void)rs_err_set(err, status, "no memory for the groups");
    else
        status = table_begin(run, table, err);
    frame_order_by(&order, (char[]){NAME + 1, GROUP + 1, 0});
    for (size_t at = 0, end = 0; status == RS_OK && at < order.count; at = end) {
        const union frame_cell *row = frame_row(&firsts, order.rows[at]);
        end = frame_group_end(&firsts, &order, at);
        join_ranks(&text, &firsts, &order, at, end);
        const struct cell cells[] = {cell_text(frame_text(&firsts, row[GROUP].t)),
                                     cell_text(frame_text(&firsts, row[NAME].t)),
                                     cell_text(rs_buf_text(&text))};
        status = text.failed ? rs_err_set(err, RS_NOMEM, "no memory for the groups")
                             : table_row(run, cells, err);
    }
    rs_buf_fini(&text);
    frame_order_fini(&order);
    frame_fini(&firsts);
    return status == RS_OK ? table_end(run, err) : status;
}

static enum rs_status finish(struct run *run, struct rs_err *err)
{
    static const struct column all[] = {{"OpType", 't', NULL}, STATS_COLUMNS};
    static const struct column per_rank[] = {
        {"OpType", 't', NULL}, STATS_COLUMNS, {"Rank", 'i', NULL}};
    static const struct column tops[] = {
        {"OpName", 't', NULL}, STATS_COLUMNS, {"MinRank", 'i', NULL}, {"MaxRank", 'i', NULL}};
    static const struct column groups[] = {
        {"GroupName", 't', NULL}, {"GroupId", 't', NULL}, {"Ranks", 't', NULL}};
    static const struct table tables[] = {
        {"HcclAllRankStats", "all_stats.csv", all, COLUMN_COUNT(all), 1, false},
        {"HcclPerRankStats", "rank_stats.csv", per_rank, COLUMN_COUNT(per_rank), 1, false},
        {"HcclTopOpStats", "top_op_stats.csv", tops, COLUMN_COUNT(tops), 1, false},
        {"HcclGroupNameMap", "group_name_map.csv", groups, COLUMN_COUNT(groups), 1, false},
    };
    enum rs_status status = write_types(run, &tables[0], (char[]){TYPE + 1, 0}, false, err);
    if (status == RS_OK)
        status = write_types(run, &tables[1], (char[]){RANK + 1, TYPE + 1, 0}, true, err);
    if (status == RS_OK)
        status = write_top(run, &tables[2], err);
    return status == RS_OK ? write_groups(run, &tables[3], err) : status;
}

const struct recipe recipe_hccl_sum = {
    .info = {"hccl_sum", "durations of communication operations by type, rank and name",
             "HcclAllRankStats, HcclPerRankStats, HcclTopOpStats, HcclGroupNameMap"},
    .folder = "HcclSum",
    .needs = NEED_PROFILER,
    .state_bytes = sizeof(struct frame_state),
    .kinds = KINDS,
    FRAME_RECIPE,
    .map = map,
    .finish = finish,
};
