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
#include "common/base/mem.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Columns of both tables' rows as read. */
enum { STEP, OP, GROUP };
enum { T_START = 3, T_ELAPSE, T_TRANSIT, T_WAIT, T_SYNC, T_IDLE };
enum { B_TYPE = 3, B_SIZE, B_TIME, B_BANDWIDTH, B_LARGE, B_PACKAGE, B_COUNT, B_DURATION };
#define TIME_KINDS      "tttrrrrrr"
#define BANDWIDTH_KINDS "ttttrrrrrrr"
/* Sums of a rank: the five times, then the same with every row taken twice; or the transport's
 * size and time, package, count, duration and duration of doubled rows. */
enum { S_RANK = 3, S_FIRST, TIMES = 5 };
#define TIME_SUM_KINDS "tttirrrrrrrrrr"
enum { U_TYPE = 2, U_SIZE = 4, U_TIME, U_PACKAGE, U_COUNT, U_DURATION, U_TWICE };
#define BANDWIDTH_SUM_KINDS "tttirrrrrr"

struct part {
    struct group_map_part groups;
    struct frame rows, sums;
};

struct state {
    bool is_second; /* pass: transfers */
    struct group_map groups;
    struct frame sums, doubled;
};

static void drop(void *data)
{
    struct part *part = data;
    group_map_part_fini(&part->groups);
    frame_fini(&part->rows);
    frame_fini(&part->sums);
    rs_mem_free(part);
}

static enum rs_status begin_time(struct run *run, struct rs_err *err)
{
    static const struct column columns[] = {{"step", 't', NULL},
                                            {"rank_id", 'i', NULL},
                                            {"hccl_op_name", 't', NULL},
                                            {"group_name", 't', NULL},
                                            {"start_timestamp", 'r', NULL},
                                            {"elapsed_time", 'r', NULL},
                                            {"transit_time", 'r', NULL},
                                            {"wait_time", 'r', NULL},
                                            {"synchronization_time", 'r', NULL},
                                            {"idle_time", 'r', NULL},
                                            {"synchronization_time_ratio", 'r', NULL},
                                            {"wait_time_ratio", 'r', NULL}};
    static const struct table table = {"ClusterCommunicationTime",
                                       "cluster_communication_time.csv",
                                       columns,
                                       COLUMN_COUNT(columns),
                                       0,
                                       false};
    return table_begin(run, &table, err);
}

static enum rs_status begin_bandwidth(struct run *run, struct rs_err *err)
{
    static const struct column columns[] = {
        {"step", 't', NULL},         {"rank_id", 'i', NULL},   {"hccl_op_name", 't', NULL},
        {"group_name", 't', NULL},   {"band_type", 't', NULL}, {"transit_size", 'r', NULL},
        {"transit_time", 'r', NULL}, {"bandwidth", 'r', NULL}, {"large_packet_ratio", 'i', NULL},
        {"package_size", 'r', NULL}, {"count", 'i', NULL},     {"total_duration", 'r', NULL}};
    static const struct table table = {"ClusterCommunicationBandwidth",
                                       "cluster_communication_bandwidth.csv",
                                       columns,
                                       COLUMN_COUNT(columns),
                                       0,
                                       false};
    return table_begin(run, &table, err);
}

static enum rs_status start(struct run *run, struct rs_err *err)
{
    struct state *state = run->state;
    enum rs_status status = group_map_init(&state->groups);
    if (status == RS_OK)
        status = frame_init(&state->sums, TIME_SUM_KINDS);
    if (status == RS_OK)
        status = frame_init(&state->doubled, "t");
    if (status != RS_OK)
        return rs_err_set(err, status, "no memory for communication operations");
    return begin_time(run, err);
}

/* One total per group of equal (group, step), from rows in their order. */
static enum rs_status sum_times(struct part *part, int64_t rank)
{
    struct frame_order order;
    enum rs_status status = frame_init(&part->sums, TIME_SUM_KINDS);
    if (status == RS_OK)
        status = frame_order(&part->rows, (char[]){GROUP + 1, STEP + 1, 0}, &order);
    if (status != RS_OK)
        return status;
    for (size_t at = 0, end = 0; at < order.count && status == RS_OK; at = end) {
        const union frame_cell *row = frame_row(&part->rows, order.rows[at]);
        struct stats_sum sums[2 * TIMES] = {{0, 0}};
        end = frame_group_end(&part->rows, &order, at);
        if (row[STEP].t == RS_STR_NONE || row[GROUP].t == RS_STR_NONE)
            continue;
        for (size_t i = at; i < end; i++) {
            const union frame_cell *cells = frame_row(&part->rows, order.rows[i]);
            for (size_t k = 0; k < TIMES; k++) {
                const double value = cells[T_ELAPSE + k].r;
                if (isnan(value))
                    continue;
                stats_add(&sums[k], value);
                stats_add(&sums[TIMES + k], value);
                stats_add(&sums[TIMES + k], value);
            }
        }
        union frame_cell *total = frame_add(&part->sums);
        if (!total) {
            status = RS_NOMEM;
            break;
        }
        for (size_t k = 0; k < (size_t)2 * TIMES; k++)
            total[S_FIRST + k].r = sums[k].sum;
        total[S_RANK].i = rank;
        status = frame_text_id(&part->sums, frame_text(&part->rows, row[STEP].t), &total[STEP].t);
        if (status == RS_OK)
            status =
                frame_text_id(&part->sums, frame_text(&part->rows, row[GROUP].t), &total[GROUP].t);
    }
    frame_order_fini(&order);
    return status;
}

struct totals {
    double size, time;
};

/* Size and time of one (group, step, transport): each operation's first row. Positions are
 * ordered by operation within; values are summed in reading order. */
static enum rs_status sum_transport(const struct frame *rows, const struct frame_order *order,
                                    size_t from, size_t end, struct totals *totals_p)
{
    double *sizes = rs_mem_calloc(end - from, sizeof *sizes);
    double *times = rs_mem_calloc(end - from, sizeof *times);
    bool *seen = rs_mem_calloc(rows->texts.count, sizeof *seen);
    size_t count = 0;
    enum rs_status status = sizes && times && seen ? RS_OK : RS_NOMEM;
    for (size_t i = from; i < end && status == RS_OK; i++) {
        const union frame_cell *row = frame_row(rows, order->rows[i]);
        if (row[OP].t == RS_STR_NONE || seen[row[OP].t])
            continue;
        seen[row[OP].t] = true;
        sizes[count] = isnan(row[B_SIZE].r) ? 0 : row[B_SIZE].r;
        times[count++] = isnan(row[B_TIME].r) ? 0 : row[B_TIME].r;
    }
    if (status == RS_OK)
        *totals_p =
            (struct totals){stats_pairwise_sum(sizes, count), stats_pairwise_sum(times, count)};
    rs_mem_free(sizes);
    rs_mem_free(times);
    rs_mem_free(seen);
    return status;
}

static enum rs_status add_package(struct part *part, int64_t rank, const struct totals *totals,
                                  const struct frame_order *order, size_t from, size_t end)
{
    struct stats_sum once = {0}, twice = {0};
    double count = 0;
    const union frame_cell *row = frame_row(&part->rows, order->rows[from]);
    for (size_t i = from; i < end; i++) {
        const union frame_cell *cells = frame_row(&part->rows, order->rows[i]);
        count += isnan(cells[B_COUNT].r) ? 0 : cells[B_COUNT].r;
        if (isnan(cells[B_DURATION].r))
            continue;
        stats_add(&once, cells[B_DURATION].r);
        stats_add(&twice, cells[B_DURATION].r);
        stats_add(&twice, cells[B_DURATION].r);
    }
    union frame_cell *sum = frame_add(&part->sums);
    if (!sum)
        return RS_NOMEM;
    sum[S_RANK].i = rank;
    sum[U_SIZE].r = totals->size;
    sum[U_TIME].r = totals->time;
    sum[U_PACKAGE].r = row[B_PACKAGE].r;
    sum[U_COUNT].r = count;
    sum[U_DURATION].r = once.sum;
    sum[U_TWICE].r = twice.sum;
    static const size_t from_columns[] = {STEP, GROUP, B_TYPE}, to_columns[] = {0, 1, U_TYPE};
    for (size_t k = 0; k < 3; k++) {
        const enum rs_status status = frame_text_id(
            &part->sums, frame_text(&part->rows, row[from_columns[k]].t), &sum[to_columns[k]].t);
        if (status != RS_OK)
            return status;
    }
    return RS_OK;
}

static enum rs_status sum_transfers(struct part *part, int64_t rank)
{
    struct frame_order order, packages;
    enum rs_status status = frame_init(&part->sums, BANDWIDTH_SUM_KINDS);
    if (status != RS_OK)
        return status;
    status = frame_order(&part->rows, (char[]){GROUP + 1, STEP + 1, B_TYPE + 1, 0}, &order);
    if (status != RS_OK)
        return status;
    status = frame_order(&part->rows, (char[]){GROUP + 1, STEP + 1, B_TYPE + 1, B_PACKAGE + 1, 0},
                         &packages);
    if (status != RS_OK) {
        frame_order_fini(&order);
        return status;
    }
    for (size_t at = 0, end = 0; at < order.count && status == RS_OK; at = end) {
        struct totals totals = {0, 0};
        end = frame_group_end(&part->rows, &order, at);
        const union frame_cell *row = frame_row(&part->rows, order.rows[at]);
        if (row[STEP].t == RS_STR_NONE || row[GROUP].t == RS_STR_NONE ||
            row[B_TYPE].t == RS_STR_NONE)
            continue;
        status = sum_transport(&part->rows, &order, at, end, &totals);
        /* both orders put the same rows at the same positions, packages apart */
        for (size_t p = at, p_end; p < end && status == RS_OK; p = p_end) {
            p_end = frame_group_end(&part->rows, &packages, p);
            status = add_package(part, rank, &totals, &packages, p, p_end);
        }
    }
    frame_order_fini(&order);
    frame_order_fini(&packages);
    return status;
}

static enum rs_status read_rows(struct run *run, const struct inputs *in, struct part *part,
                                struct rs_err *err)
{
    const struct state *state = run->state;
    const char *table = state->is_second ? "CommAnalyzerBandwidth" : "CommAnalyzerTime";
    const char *step = rs_ascend_db_has_column(in->analysis, table, "step") ? "step" : "'step'";
    char sql[512];
    if (state->is_second)
        (void)snprintf(
            sql, sizeof sql,
            "SELECT %s, hccl_op_name, group_name, transport_type, transit_size, "
            "transit_time, bandwidth, large_packet_ratio, package_size, count, "
            "total_duration FROM CommAnalyzerBandwidth WHERE ?1 < 0 OR %s = 'step' || ?1",
            step, step);
    else
        (void)snprintf(sql, sizeof sql,
                       "SELECT %s, hccl_op_name, group_name, start_timestamp, elapse_time, "
                       "transit_time, wait_time, synchronization_time, idle_time "
                       "FROM CommAnalyzerTime WHERE ?1 < 0 OR %s = 'step' || ?1",
                       step, step);
    const int64_t params[] = {run->options->compat ? -1 : run->options->step_id};
    const struct frame_query query = {.sql = sql, .params = params, .param_count = 1};
    enum rs_status status =
        frame_init(&part->rows, state->is_second ? BANDWIDTH_KINDS : TIME_KINDS);
    if (status == RS_OK)
        status = rs_ascend_db_has_table(in->analysis, table)
                     ? frame_load(&part->rows, in->analysis, &query, err)
                     : rs_err_set(err, RS_NOTFOUND, "%s has no table %s",
                                  rs_ascend_db_path(in->analysis), table);
    return status;
}

static enum rs_status map(struct run *run, const struct inputs *in, void **part_p,
                          struct rs_err *err)
{
    const struct state *state = run->state;
    struct part *part = rs_mem_calloc(1, sizeof *part);
    if (!part)
        return rs_err_set(err, RS_NOMEM, "no memory for communication operations");
    enum rs_status status = read_rows(run, in, part, err);
    if (status == RS_OK && !state->is_second)
        status = group_map_read(run, in, &part->groups, err);
    if (status == RS_OK) {
        status =
            state->is_second ? sum_transfers(part, in->of->rank) : sum_times(part, in->of->rank);
        if (status != RS_OK)
            (void)rs_err_set(err, status, "no memory to sum %s", rs_ascend_db_path(in->analysis));
    }
    if (status != RS_OK) {
        drop(part);
        return status;
    }
    *part_p = part;
    return RS_OK;
}

static const char *text_or_null(const struct frame *frame, rs_str id)
{
    return id == RS_STR_NONE ? NULL : frame_text(frame, id);
}

static enum rs_status write_row(struct run *run, const struct part *part, size_t r, int64_t rank,
                                struct rs_err *err)
{
    const struct state *state = run->state;
    const union frame_cell *row = frame_row(&part->rows, r);
    struct cell cells[12];
    cells[0] = cell_text(text_or_null(&part->rows, row[STEP].t));
    cells[1] = cell_int(rank);
    cells[2] = cell_text(text_or_null(&part->rows, row[OP].t));
    cells[3] = cell_text(text_or_null(&part->rows, row[GROUP].t));
    if (!state->is_second) {
        for (size_t k = 0; k < 1 + TIMES; k++)
            cells[4 + k] = cell_real(row[T_START + k].r);
        cells[10] = cell_int(0);
        cells[11] = cell_int(0);
        return table_row(run, cells, err);
    }
    cells[4] = cell_text(text_or_null(&part->rows, row[B_TYPE].t));
    for (size_t k = 0; k < 7; k++)
        cells[5 + k] = cell_real(row[B_SIZE + k].r);
    return table_row(run, cells, err);
}

static enum rs_status reduce(struct run *run, const struct recipe_rank *rank, void *data,
                             struct rs_err *err)
{
    struct state *state = run->state;
    struct part *part = data;
    enum rs_status status = RS_OK;
    for (size_t r = 0; r < part->rows.count && status == RS_OK; r++)
        status = write_row(run, part, r, rank->rank, err);
    if (status != RS_OK)
        return status;
    status = frame_append(&state->sums, &part->sums);
    if (status == RS_OK && !state->is_second)
        status = group_map_add(run, &state->groups, rank->rank, &part->groups);
    return status == RS_OK
               ? RS_OK
               : rs_err_set(err, status, "no memory for the sums of rank %" PRId64, rank->rank);
}

static double ratio4(double part, double rest)
{
    const double whole = rest + part;
    return whole < 0 || whole > 0 ? stats_round(part / whole, 4) : 0;
}

static bool is_doubled(const struct state *state, const struct run *run, rs_str group)
{
    const char *text = frame_text(&state->sums, group);
    for (size_t i = 0; run->options->compat && i < state->doubled.count; i++)
        if (strcmp(frame_text(&state->doubled, frame_row(&state->doubled, i)[0].t), text) == 0)
            return true;
    return false;
}

static enum rs_status write_time_sums(struct run *run, struct rs_err *err)
{
    struct state *state = run->state;
    struct frame_order order;
    enum rs_status status =
        frame_order(&state->sums, (char[]){STEP + 1, S_RANK + 1, GROUP + 1, 0}, &order);
    if (status != RS_OK)
        return rs_err_set(err, status, "no memory to sort the sums");
    for (size_t i = 0; i < order.count && status == RS_OK; i++) {
        const union frame_cell *row = frame_row(&state->sums, order.rows[i]);
        const union frame_cell *times =
            row + S_FIRST + (is_doubled(state, run, row[GROUP].t) ? TIMES : 0);
        const double transit = times[1].r, wait = times[2].r, sync = times[3].r;
        const struct cell cells[] = {cell_text(frame_text(&state->sums, row[STEP].t)),
                                     cell_int(row[S_RANK].i),
                                     cell_text("Total Op Info"),
                                     cell_text(frame_text(&state->sums, row[GROUP].t)),
                                     cell_int(0),
                                     cell_real(times[0].r),
                                     cell_real(transit),
                                     cell_real(wait),
                                     cell_real(sync),
                                     cell_real(times[4].r),
                                     cell_real(ratio4(sync, transit)),
                                     cell_real(ratio4(wait, transit))};
        status = table_row(run, cells, err);
    }
    frame_order_fini(&order);
    return status;
}

static enum rs_status write_transfer_sums(struct run *run, struct rs_err *err)
{
    struct state *state = run->state;
    struct frame_order order;
    enum rs_status status =
        frame_order(&state->sums, (char[]){2, 1, S_RANK + 1, U_TYPE + 1, U_PACKAGE + 1, 0}, &order);
    if (status != RS_OK)
        return rs_err_set(err, status, "no memory to sort the sums");
    for (size_t i = 0; i < order.count && status == RS_OK; i++) {
        const union frame_cell *row = frame_row(&state->sums, order.rows[i]);
        const bool twice = is_doubled(state, run, row[1].t);
        const bool has_time = row[U_TIME].r < 0 || row[U_TIME].r > 0;
        const struct cell cells[] = {
            cell_text(frame_text(&state->sums, row[0].t)),
            cell_int(row[S_RANK].i),
            cell_text("Total Op Info"),
            cell_text(frame_text(&state->sums, row[1].t)),
            cell_text(frame_text(&state->sums, row[U_TYPE].t)),
            cell_real(row[U_SIZE].r),
            cell_real(row[U_TIME].r),
            cell_real(has_time ? stats_round(row[U_SIZE].r / row[U_TIME].r, 4) : 0),
            cell_int(0),
            cell_real(row[U_PACKAGE].r),
            cell_real(twice ? row[U_COUNT].r * 2 : row[U_COUNT].r),
            cell_real(twice ? row[U_TWICE].r : row[U_DURATION].r)};
        status = table_row(run, cells, err);
    }
    frame_order_fini(&order);
    return status;
}

static enum rs_status second_pass(struct run *run, struct rs_err *err)
{
    struct state *state = run->state;
    size_t used = 0;
    state->is_second = true;
    frame_fini(&state->sums);
    if (frame_init(&state->sums, BANDWIDTH_SUM_KINDS) != RS_OK)
        return rs_err_set(err, RS_NOMEM, "no memory for transfers");
    enum rs_status status = begin_bandwidth(run, err);
    if (status == RS_OK)
        status = run_map(run, &used, err);
    if (status == RS_OK)
        status = write_transfer_sums(run, err);
    return status == RS_OK ? table_end(run, err) : status;
}

static enum rs_status finish(struct run *run, struct rs_err *err)
{
    struct state *state = run->state;
    enum rs_status status = group_map_doubled(&state->groups, &state->doubled);
    if (status != RS_OK)
        return rs_err_set(err, status, "no memory for groups");
    status = write_time_sums(run, err);
    if (status == RS_OK)
        status = table_end(run, err);
    if (status == RS_OK && !run->options->as_text) /* the map is always in the database */
        status = group_map_write(run, &state->groups, err);
    return status == RS_OK ? second_pass(run, err) : status;
}

static void stop(struct run *run)
{
    struct state *state = run->state;
    group_map_fini(&state->groups);
    frame_fini(&state->sums);
    frame_fini(&state->doubled);
}

const struct recipe recipe_communication_time_sum = {
    .info = {"communication_time_sum",
             "the vendor's times and transfers of communication operations, with sums",
             "ClusterCommunicationTime, ClusterCommunicationBandwidth, CommunicationGroupMapping"},
    .folder = "CommunicationTimeSum",
    .needs = NEED_ANALYSIS | MAY_PROFILER,
    .state_bytes = sizeof(struct state),
    .start = start,
    .map = map,
    .reduce = reduce,
    .finish = finish,
    .drop = drop,
    .stop = stop,
};
