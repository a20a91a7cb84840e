/* SPDX-License-Identifier: Apache-2.0 */
/*
 * communication_group_map: the communicators of the run and their ranks.
 *
 * Peer: a group of CommAnalyzerTime is point-to-point where an operation's name contains send,
 * receive or recv, else collective; a group seen with both kinds has two rows. Its ranks are
 * those whose files name it, unless parallel_group_info knows the group: then its global_ranks,
 * its id and its pg name. Sorted by kind, then hash as text. Always in the database.
 *
 * Corrected: parallel_group_info is also read from profiler_metadata.json when the database has
 * none; two ranks that describe a group differently give one row and are reported, not two rows.
 */
#include "ascend/recipe/recipe_priv.h"
#include "common/base/mem.h"

#include <inttypes.h>
#include <string.h>

enum { KIND, HASH, RANK };
#define ROW_KINDS "tti"

void group_map_part_fini(struct group_map_part *part)
{
    frame_fini(&part->rows);
    if (part->has_meta)
        rs_ascend_metadata_fini(&part->meta);
    *part = (struct group_map_part){0};
}

enum rs_status group_map_read(struct run *run, const struct inputs *in,
                              struct group_map_part *part_p, struct rs_err *err)
{
    const int64_t params[] = {in->of->rank};
    const struct frame_query query = {
        .sql = "SELECT DISTINCT CASE WHEN lower(hccl_op_name) LIKE '%send%' OR "
               "lower(hccl_op_name) LIKE '%receive%' OR lower(hccl_op_name) LIKE '%recv%' "
               "THEN 'p2p' ELSE 'collective' END, group_name, ?1 FROM CommAnalyzerTime "
               "WHERE group_name IS NOT NULL",
        .params = params,
        .param_count = 1};
    struct group_map_part part = {0};
    struct rs_err why = {0};
    enum rs_status status =
        db_requires(in->analysis, "CommAnalyzerTime.hccl_op_name CommAnalyzerTime.group_name", err);
    if (status != RS_OK)
        return status;
    status = frame_init(&part.rows, ROW_KINDS);
    if (status == RS_OK)
        status = frame_load(&part.rows, in->analysis, &query, err);
    if (status == RS_OK) {
        const enum rs_status found = rank_metadata(run, in, &part.meta, &why);
        part.has_meta = found == RS_OK;
        if (found != RS_OK && found != RS_NOTFOUND)
            run_add_problem(run, in->of->rank, true, "%s", why.text);
    }
    if (status != RS_OK) {
        group_map_part_fini(&part);
        return status;
    }
    *part_p = part;
    return RS_OK;
}

enum rs_status group_map_init(struct group_map *map)
{
    *map = (struct group_map){0};
    return frame_init(&map->rows, ROW_KINDS);
}

enum rs_status group_map_add(struct run *run, struct group_map *map, int64_t rank,
                             const struct group_map_part *part)
{
    enum rs_status status = frame_append(&map->rows, &part->rows);
    if (status == RS_OK && part->has_meta)
        status = group_set_add(run, &map->groups, rank, &part->meta);
    return status;
}

void group_map_fini(struct group_map *map)
{
    frame_fini(&map->rows);
    group_set_fini(&map->groups);
}

static void print_ranks(struct rs_buf *text, const struct group_map *map,
                        const struct frame_order *order, size_t from, size_t end)
{
    const struct group_info *info = group_set_find(
        &map->groups, frame_text(&map->rows, frame_row(&map->rows, order->rows[from])[HASH].t));
    rs_buf_reset(text);
    rs_buf_u8(text, '(');
    if (info && info->count) {
        for (size_t i = 0; i < info->count; i++)
            rs_buf_printf(text, "%s%" PRId64, i ? "," : "", info->ranks[i]);
    } else {
        int64_t last = -1;
        for (size_t i = from; i < end; i++) {
            const int64_t rank = frame_row(&map->rows, order->rows[i])[RANK].i;
            if (i == from || rank != last)
                rs_buf_printf(text, "%s%" PRId64, i == from ? "" : ",", rank);
            last = rank;
        }
    }
    rs_buf_u8(text, ')');
}

enum rs_status group_map_write(struct run *run, struct group_map *map, struct rs_err *err)
{
    static const struct column columns[] = {{"type", 't', NULL},
                                            {"rank_set", 't', NULL},
                                            {"group_name", 't', NULL},
                                            {"group_id", 't', NULL},
                                            {"pg_name", 't', NULL}};
    static const struct table table = {"CommunicationGroupMapping",
                                       "communication_group_map.csv",
                                       columns,
                                       COLUMN_COUNT(columns),
                                       0,
                                       false};
    struct frame_order order;
    struct rs_buf text = {0};
    enum rs_status status =
        frame_order(&map->rows, (char[]){KIND + 1, HASH + 1, RANK + 1, 0}, &order);
    if (status != RS_OK)
        return rs_err_set(err, status, "no memory to sort groups");
    frame_order_by(&order, (char[]){KIND + 1, HASH + 1, 0});
    status = table_begin(run, &table, err);
    for (size_t at = 0, end = 0; at < order.count && status == RS_OK; at = end) {
        const union frame_cell *row = frame_row(&map->rows, order.rows[at]);
        const char *hash = frame_text(&map->rows, row[HASH].t);
        const struct group_info *info = group_set_find(&map->groups, hash);
        end = frame_group_end(&map->rows, &order, at);
        print_ranks(&text, map, &order, at, end);
        const struct cell cells[] = {
            cell_text(frame_text(&map->rows, row[KIND].t)), cell_text(rs_buf_text(&text)),
            cell_text(hash), cell_text(info ? info->id : ""), cell_text(info ? info->name : "")};
        status = text.failed ? rs_err_set(err, RS_NOMEM, "no memory for groups")
                             : table_row(run, cells, err);
    }
    rs_buf_fini(&text);
    frame_order_fini(&order);
    return status == RS_OK ? table_end(run, err) : status;
}

enum rs_status group_map_doubled(struct group_map *map, struct frame *hashes)
{
    struct frame_order order;
    struct rs_buf first = {0}, second = {0};
    enum rs_status status =
        frame_order(&map->rows, (char[]){HASH + 1, KIND + 1, RANK + 1, 0}, &order);
    if (status != RS_OK)
        return status;
    frame_order_by(&order, (char[]){HASH + 1, KIND + 1, 0});
    size_t last = SIZE_MAX; /* where the kind before began */
    for (size_t at = 0, end = 0; at < order.count && status == RS_OK; at = end) {
        const rs_str hash = frame_row(&map->rows, order.rows[at])[HASH].t;
        end = frame_group_end(&map->rows, &order, at);
        if (last != SIZE_MAX && frame_row(&map->rows, order.rows[last])[HASH].t == hash) {
            print_ranks(&first, map, &order, last, at);
            print_ranks(&second, map, &order, at, end);
            if (first.failed || second.failed)
                status = RS_NOMEM;
            else if (strcmp(rs_buf_text(&first), rs_buf_text(&second)) != 0) {
                union frame_cell *row = frame_add(hashes);
                status =
                    row ? frame_text_id(hashes, frame_text(&map->rows, hash), &row[0].t) : RS_NOMEM;
            }
        }
        last = at;
    }
    rs_buf_fini(&first);
    rs_buf_fini(&second);
    frame_order_fini(&order);
    return status;
}

static enum rs_status start(struct run *run, struct rs_err *err)
{
    const enum rs_status status = group_map_init(run->state);
    return status == RS_OK ? RS_OK : rs_err_set(err, status, "no memory for groups");
}

static void drop(void *part)
{
    group_map_part_fini(part);
    rs_mem_free(part);
}

static enum rs_status map(struct run *run, const struct inputs *in, void **part_p,
                          struct rs_err *err)
{
    struct group_map_part *part = rs_mem_calloc(1, sizeof *part);
    if (!part)
        return rs_err_set(err, RS_NOMEM, "no memory for groups");
    const enum rs_status status = group_map_read(run, in, part, err);
    if (status != RS_OK) {
        rs_mem_free(part);
        return status;
    }
    *part_p = part;
    return RS_OK;
}

static enum rs_status reduce(struct run *run, const struct recipe_rank *rank, void *part,
                             struct rs_err *err)
{
    const enum rs_status status = group_map_add(run, run->state, rank->rank, part);
    return status == RS_OK ? RS_OK : rs_err_set(err, status, "no memory for groups");
}

static enum rs_status finish(struct run *run, struct rs_err *err)
{
    return group_map_write(run, run->state, err);
}

static void stop(struct run *run)
{
    group_map_fini(run->state);
}

const struct recipe recipe_communication_group_map = {
    .info = {"communication_group_map", "the communicators of the run and their ranks",
             "CommunicationGroupMapping"},
    .folder = "CommunicationGroupMap",
    .needs = NEED_ANALYSIS | MAY_PROFILER,
    .state_bytes = sizeof(struct group_map),
    .start = start,
    .map = map,
    .reduce = reduce,
    .finish = finish,
    .drop = drop,
    .stop = stop,
};
