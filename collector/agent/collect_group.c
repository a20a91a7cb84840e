/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/agent/collect_group.h"

#include "common/base/buf.h"
#include "common/base/mem.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct member {
    int32_t rank;
    char *trace_id;
};

struct rs_collect_group {
    char *folder, *key;
    struct member *members;
    size_t count, capacity;
    bool is_id_shared; /* one id came from two ranks: it is the capture's own */
    rs_ns last;        /* monotonic: when its last file came */
};

static void free_group(struct rs_collect_group *group)
{
    for (size_t i = 0; i < group->count; i++)
        rs_mem_free(group->members[i].trace_id);
    rs_mem_free(group->members);
    rs_mem_free(group->folder);
    rs_mem_free(group->key);
}

void rs_collect_groups_fini(struct rs_collect_groups *groups)
{
    for (size_t i = 0; i < groups->count; i++)
        free_group(&groups->items[i]);
    rs_mem_free(groups->items);
    *groups = (struct rs_collect_groups){0};
}

static void forget_settled(struct rs_collect_groups *groups, rs_ns now, rs_dur settle_ns)
{
    size_t kept = 0;
    for (size_t i = 0; i < groups->count; i++) {
        if (now - groups->items[i].last > settle_ns)
            free_group(&groups->items[i]);
        else
            groups->items[kept++] = groups->items[i];
    }
    groups->count = kept;
}

static bool has_id(const struct rs_collect_group *group, const char *trace_id)
{
    for (size_t i = 0; i < group->count; i++)
        if (strcmp(group->members[i].trace_id, trace_id) == 0)
            return true;
    return false;
}

static bool has_rank(const struct rs_collect_group *group, int32_t rank)
{
    for (size_t i = 0; i < group->count; i++)
        if (group->members[i].rank == rank)
            return true;
    return false;
}

static struct rs_collect_group *find(const struct rs_collect_groups *groups, const char *folder,
                                     const char *trace_id, int32_t rank)
{
    /* The same id wins, wherever the file lies; a rank that is there already began a new capture. */
    for (size_t i = 0; *trace_id && i < groups->count; i++)
        if (has_id(&groups->items[i], trace_id) && !has_rank(&groups->items[i], rank))
            return &groups->items[i];
    for (size_t i = 0; i < groups->count; i++) {
        struct rs_collect_group *group = &groups->items[i];
        const bool has_ids = *group->members[0].trace_id != '\0';
        if (strcmp(group->folder, folder) == 0 && !group->is_id_shared &&
            has_ids == (*trace_id != '\0') && !has_rank(group, rank))
            return group;
    }
    return NULL;
}

static struct rs_collect_group *add_group(struct rs_collect_groups *groups, const char *folder,
                                          const char *trace_id)
{
    if (rs_mem_grow((void **)&groups->items, &groups->capacity, groups->count + 1,
                    sizeof *groups->items) != RS_OK)
        return NULL;
    size_t cycle = 1; /* the next cycle of a job came before the last one had settled */
    for (size_t i = 0; i < groups->count; i++)
        cycle += *trace_id ? has_id(&groups->items[i], trace_id)
                           : strcmp(groups->items[i].folder, folder) == 0;
    struct rs_buf key = {0};
    rs_buf_printf(&key, "%s:%s", *trace_id ? "trace" : "folder", *trace_id ? trace_id : folder);
    if (cycle > 1)
        rs_buf_printf(&key, "#%zu", cycle);
    struct rs_collect_group group = {.folder = rs_mem_strdup(folder),
                                     .key = rs_mem_strdup(rs_buf_text(&key))};
    rs_buf_fini(&key);
    if (!group.folder || !group.key) {
        free_group(&group);
        return NULL;
    }
    groups->items[groups->count] = group;
    return &groups->items[groups->count++];
}

enum rs_status rs_collect_group_key(struct rs_collect_groups *groups, const char *folder,
                                    const char *trace_id, int32_t rank, rs_ns now, rs_dur settle_ns,
                                    char *key, size_t key_bytes)
{
    forget_settled(groups, now, settle_ns);
    struct rs_collect_group *group = find(groups, folder, trace_id, rank);
    if (!group)
        group = add_group(groups, folder, trace_id);
    if (!group || rs_mem_grow((void **)&group->members, &group->capacity, group->count + 1,
                              sizeof *group->members) != RS_OK)
        return RS_NOMEM;
    char *copy = rs_mem_strdup(trace_id);
    if (!copy)
        return RS_NOMEM;
    group->is_id_shared |= *trace_id && has_id(group, trace_id);
    group->members[group->count++] = (struct member){.rank = rank, .trace_id = copy};
    group->last = now;
    (void)snprintf(key, key_bytes, "%s", group->key);
    return RS_OK;
}
