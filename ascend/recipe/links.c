/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links carry ranks within their group; this says which ranks of the run they are.
 *
 * parallel_group_info knows it where it is there. Else a rank whose matrix holds "i-i" in a group
 * is the group's i-th: a copy to itself is named by nobody else.
 */
#include "ascend/recipe/recipe_priv.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { HASH, LOCAL, RANK };

enum rs_status rank_map_init(struct rank_map *map, bool use_groups)
{
    *map = (struct rank_map){.use_groups = use_groups};
    return frame_init(&map->self, "tti");
}

void rank_map_fini(struct rank_map *map)
{
    frame_fini(&map->self);
    frame_order_fini(&map->order);
    group_set_fini(&map->groups);
}

enum rs_status rank_map_add_self(struct rank_map *map, const char *hash, const char *local,
                                 int64_t rank)
{
    rs_str hash_id, local_id;
    enum rs_status status = frame_text_id(&map->self, hash, &hash_id);
    if (status == RS_OK)
        status = frame_text_id(&map->self, local, &local_id);
    if (status != RS_OK)
        return status;
    union frame_cell *row = frame_add(&map->self);
    if (!row)
        return RS_NOMEM;
    row[HASH].t = hash_id;
    row[LOCAL].t = local_id;
    row[RANK].i = rank;
    return RS_OK;
}

enum rs_status rank_map_seal(struct run *run, struct rank_map *map)
{
    const enum rs_status status =
        frame_order(&map->self, (char[]){HASH + 1, LOCAL + 1, 0}, &map->order);
    if (status != RS_OK)
        return status;
    frame_order_by(&map->order, "\1\2");
    for (size_t at = 0, end = 0; at < map->order.count; at = end) {
        const union frame_cell *first = frame_row(&map->self, map->order.rows[at]);
        end = frame_group_end(&map->self, &map->order, at);
        for (size_t i = at + 1; i < end; i++) {
            const int64_t other = frame_row(&map->self, map->order.rows[i])[RANK].i;
            if (other != first[RANK].i)
                run_add_problem(run, other, false,
                                "in group %s ranks %" PRId64 " and %" PRId64
                                " both say that they are its rank %s; the first is kept",
                                frame_text(&map->self, first[HASH].t), first[RANK].i, other,
                                frame_text(&map->self, first[LOCAL].t));
        }
    }
    return RS_OK;
}

static int64_t from_groups(const struct rank_map *map, const char *hash, const char *local)
{
    const struct group_info *info = group_set_find(&map->groups, hash);
    char *end = NULL;
    const long long index = strtoll(local, &end, 10);
    if (!info || end == local || *end || index < 0 || (uint64_t)index >= info->count)
        return -1;
    return info->ranks[index];
}

int64_t rank_map_find(const struct rank_map *map, const char *hash, const char *local)
{
    const int64_t known = map->use_groups ? from_groups(map, hash, local) : -1;
    size_t low = 0, high = map->order.count;
    if (known >= 0)
        return known;
    while (low < high) { /* the first row that is not before (hash, local) */
        const size_t middle = low + (high - low) / 2;
        const union frame_cell *row = frame_row(&map->self, map->order.rows[middle]);
        int order = strcmp(frame_text(&map->self, row[HASH].t), hash);
        if (order == 0)
            order = strcmp(frame_text(&map->self, row[LOCAL].t), local);
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == map->order.count)
        return -1;
    const union frame_cell *row = frame_row(&map->self, map->order.rows[low]);
    if (strcmp(frame_text(&map->self, row[HASH].t), hash) != 0 ||
        strcmp(frame_text(&map->self, row[LOCAL].t), local) != 0)
        return -1;
    return row[RANK].i;
}
