/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The communicators of a run, united from what each rank says about its own.
 */
#include "ascend/recipe/recipe_priv.h"
#include "common/base/mem.h"

#include <inttypes.h>
#include <string.h>

enum rs_status rank_metadata(struct run *run, const struct inputs *in,
                             struct rs_ascend_metadata *meta_p, struct rs_err *err)
{
    enum rs_status status = RS_NOTFOUND;
    if (in->profiler)
        status = rs_ascend_db_metadata(in->profiler, meta_p, err);
    if (status != RS_NOTFOUND || run->options->compat)
        return status == RS_NOTFOUND
                   ? rs_err_set(err, status, "rank %" PRId64 " says nothing about groups",
                                in->of->rank)
                   : status;
    return rs_ascend_metadata_read(in->of->vendor, meta_p, err);
}

void groups_load(struct inputs *in, struct frame *groups)
{
    struct rs_ascend_metadata meta = {0};
    struct rs_buf ranks = {0};
    in->status = rank_metadata(in->run, in, &meta, &in->err);
    for (size_t i = 0; i < meta.group_count; i++) {
        const struct rs_ascend_group *group = &meta.groups[i];
        union frame_cell *row = frame_put(groups);
        rs_buf_reset(&ranks);
        for (size_t k = 0; k < group->count; k++)
            rs_buf_printf(&ranks, "%s%" PRId64, k ? "," : "", group->ranks[k]);
        row[0].t = frame_str(groups, group->hash);
        row[1].t = frame_str(groups, group->name);
        row[2].t = frame_str(groups, rs_buf_text(&ranks));
        groups->failed |= ranks.failed;
    }
    rs_ascend_metadata_fini(&meta);
    rs_buf_fini(&ranks);
}

const struct group_info *group_set_find(const struct group_set *set, const char *hash)
{
    size_t low = 0, high = set->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const int order = strcmp(set->items[middle].hash, hash);
        if (order == 0)
            return &set->items[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

static void info_fini(struct group_info *info)
{
    rs_mem_free(info->hash);
    rs_mem_free(info->id);
    rs_mem_free(info->name);
    rs_mem_free(info->ranks);
}

static enum rs_status insert(struct group_set *set, const struct rs_ascend_group *group)
{
    if (rs_mem_grow((void **)&set->items, &set->capacity, set->count + 1, sizeof *set->items) !=
        RS_OK)
        return RS_NOMEM;
    struct group_info info = {
        .hash = rs_mem_strdup(group->hash),
        .id = rs_mem_strdup(group->id),
        .name = rs_mem_strdup(group->name),
        .ranks = rs_mem_calloc(group->count ? group->count : 1, sizeof *info.ranks),
        .count = group->count};
    if (!info.hash || !info.id || !info.name || !info.ranks) {
        info_fini(&info);
        return RS_NOMEM;
    }
    if (group->count)
        memcpy(info.ranks, group->ranks, group->count * sizeof *info.ranks);
    size_t at = 0;
    while (at < set->count && strcmp(set->items[at].hash, info.hash) < 0)
        at++;
    memmove(&set->items[at + 1], &set->items[at], (set->count - at) * sizeof *set->items);
    set->items[at] = info;
    set->count++;
    return RS_OK;
}

static bool is_same(const struct group_info *info, const struct rs_ascend_group *group)
{
    return info->count == group->count && strcmp(info->id, group->id) == 0 &&
           strcmp(info->name, group->name) == 0 &&
           (!info->count ||
            memcmp(info->ranks, group->ranks, info->count * sizeof *info->ranks) == 0);
}

enum rs_status group_set_add(struct run *run, struct group_set *set, int64_t rank,
                             const struct rs_ascend_metadata *meta)
{
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < meta->group_count && status == RS_OK; i++) {
        const struct rs_ascend_group *group = &meta->groups[i];
        const struct group_info *known = group_set_find(set, group->hash);
        if (!known)
            status = insert(set, group);
        else if (!is_same(known, group))
            run_add_problem(
                run, rank, false,
                "group %s (%s) has %zu ranks here and %zu in an earlier rank; the earlier is kept",
                group->id, group->name, group->count, known->count);
    }
    return status;
}

void group_set_fini(struct group_set *set)
{
    for (size_t i = 0; i < set->count; i++)
        info_fini(&set->items[i]);
    rs_mem_free(set->items);
    *set = (struct group_set){0};
}
