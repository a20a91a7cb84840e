/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Process groups that operations name. A group is its name and its ranks together: the name alone
 * is a counter of one process.
 *
 * The ranks come from the operation's own list; when that was cut ("[0, ..., 29, ...]") from first rank,
 * stride and size if they fit what the list shows; else from the group of this name in the trace's
 * metadata. What cannot be completed keeps its prefix, and size says how many there are.
 */
#include "common/base/mem.h"
#include "common/reduce/dims.h"
#include "common/reduce/reduce_priv.h"

#include <string.h>

enum { GROUP_RANKS_MAX = 1 << 20 };

static struct text text_of(const struct rs_reduce *reduce, rs_str id)
{
    if (id == RS_STR_NONE)
        return (struct text){"", 0};
    return (struct text){rs_strtab_text(reduce->strings, id),
                         rs_strtab_length(reduce->strings, id)};
}

struct ranks {
    int32_t *items;
    size_t count;
    size_t capacity;
    bool is_cut;
};

static enum rs_status push_rank(struct ranks *ranks, int64_t rank)
{
    enum rs_status status;
    REDUCE_PUSH(ranks, status, (int32_t)rank);
    return status;
}

/* "[0, 1, ...]": digits between commas; dots say that the list was cut. */
static enum rs_status read_ranks(struct text text, struct ranks *ranks)
{
    int64_t value = -1;
    for (size_t i = 0; i <= text.length; i++) {
        char c = ',';
        if (i < text.length)
            c = text.bytes[i];
        if (c >= '0' && c <= '9') {
            value = (value < 0 ? 0 : value) * 10 + (c - '0');
            if (value > INT32_MAX) {
                ranks->is_cut = true;
                return RS_OK;
            }
            continue;
        }
        ranks->is_cut |= c == '.';
        if (value >= 0) {
            if (ranks->count >= GROUP_RANKS_MAX)
                return RS_LIMIT;
            const enum rs_status status = push_rank(ranks, value);
            if (status != RS_OK)
                return status;
        }
        value = -1;
    }
    return RS_OK;
}

/* Whether first + i * stride is what the list shows where it shows something. A cut list may end in
 * a gap: then only its prefix up to the first jump is looked at. */
static bool fits_stride(const struct ranks *ranks, const struct rs_comm *comm)
{
    const unsigned both = RS_COMM_HAS_GLOBAL_START | RS_COMM_HAS_GLOBAL_STRIDE;
    if ((comm->has & both) != both || comm->global_start < 0 || comm->global_stride <= 0 ||
        comm->global_start > INT32_MAX || comm->global_stride > INT32_MAX)
        return false;
    const size_t shown = ranks->is_cut && ranks->count ? ranks->count - 1 : ranks->count;
    for (size_t i = 0; i < shown; i++) {
        if (ranks->items[i] != comm->global_start + (int64_t)i * comm->global_stride)
            return false;
    }
    return true;
}

/* What a group is told by. */
struct sought {
    rs_str name;
    int64_t size; /* -1 unknown */
    const struct ranks *ranks;
};

/* The header's groups by name. */
static enum rs_status index_header(struct rs_reduce *reduce)
{
    enum rs_status status = RS_OK;
    while (status == RS_OK && reduce->header_slots.count < reduce->info->group_count) {
        const uint32_t next = (uint32_t)reduce->header_slots.count;
        status = rs_slots_put(&reduce->header_slots, reduce->info->groups[next].name, next);
    }
    return status;
}

static bool completes(const void *self, uint32_t index, const void *wanted)
{
    const struct rs_trace_info *info = self;
    const struct sought *sought = wanted;
    const struct rs_group_info *known = &info->groups[index];
    return known->name == sought->name &&
           (sought->size < 0 || (int64_t)known->rank_count == sought->size) &&
           known->rank_count > sought->ranks->count;
}

static enum rs_status complete(struct rs_reduce *reduce, const struct rs_comm *comm, int64_t size,
                               struct ranks *ranks)
{
    if (!ranks->is_cut && ranks->count && (size < 0 || (int64_t)ranks->count == size))
        return RS_OK;
    if (size > 0 && size <= GROUP_RANKS_MAX && fits_stride(ranks, comm) &&
        comm->global_start + (size - 1) * comm->global_stride <= INT32_MAX) {
        ranks->count = 0;
        for (int64_t i = 0; i < size; i++) {
            const enum rs_status status =
                push_rank(ranks, comm->global_start + i * comm->global_stride);
            if (status != RS_OK)
                return status;
        }
        return RS_OK;
    }
    enum rs_status status = index_header(reduce);
    if (status != RS_OK || comm->group_name == RS_STR_NONE)
        return status;
    const struct sought sought = {.name = comm->group_name, .size = size, .ranks = ranks};
    const uint32_t at =
        rs_slots_find(&reduce->header_slots, comm->group_name, completes, reduce->info, &sought);
    if (at == RS_SLOTS_NONE)
        return RS_OK;
    const struct rs_group_info *known = &reduce->info->groups[at];
    ranks->count = 0;
    for (size_t i = 0; status == RS_OK && i < known->rank_count; i++)
        status = push_rank(ranks, known->ranks[i]);
    return status;
}

static bool is_same(const void *self, uint32_t index, const void *wanted)
{
    const struct rs_summary *summary = self;
    const struct sought *sought = wanted;
    const struct rs_group_info *group = &summary->groups[index];
    const struct ranks *ranks = sought->ranks;
    return group->name == sought->name && group->size == sought->size &&
           group->rank_count == ranks->count &&
           (!ranks->count ||
            memcmp(group->ranks, ranks->items, ranks->count * sizeof *ranks->items) == 0);
}

static uint64_t hash_of(const struct sought *sought)
{
    uint64_t hash = rs_slots_mix(sought->name, (uint64_t)sought->size);
    for (size_t i = 0; i < sought->ranks->count; i++)
        hash = rs_slots_mix(hash, (uint64_t)sought->ranks->items[i]);
    return hash;
}

enum rs_status groups_find(struct rs_reduce *reduce, const struct rs_comm *comm, uint32_t *group_p)
{
    struct rs_summary *summary = reduce->summary;
    *group_p = RS_NO_GROUP;
    struct group_memory *memory =
        &reduce->group_memory[(comm->group_name * 31 + comm->group_ranks) % GROUP_MEMORY];
    if (memory->is_set && memory->name == comm->group_name && memory->ranks == comm->group_ranks &&
        memory->size == comm->group_size) {
        *group_p = memory->group;
        return RS_OK;
    }
    const bool has_name =
        comm->group_name != RS_STR_NONE && text_of(reduce, comm->group_name).length;
    struct ranks ranks = {0};
    enum rs_status status = read_ranks(text_of(reduce, comm->group_ranks), &ranks);
    int64_t size =
        (comm->has & RS_COMM_HAS_GROUP_SIZE) && comm->group_size > 0 ? comm->group_size : -1;
    if (status == RS_OK && (has_name || ranks.count))
        status = complete(reduce, comm, size, &ranks);
    if (status != RS_OK || (!has_name && !ranks.count)) {
        rs_mem_free(ranks.items);
        return status;
    }
    if (size < 0 && ranks.count && !ranks.is_cut)
        size = (int64_t)ranks.count;
    const rs_str name = has_name ? comm->group_name : RS_STR_NONE;
    const struct sought sought = {.name = name, .size = size, .ranks = &ranks};
    const uint64_t hash = hash_of(&sought);
    size_t at = rs_slots_find(&reduce->group_slots, hash, is_same, summary, &sought);
    if (at == RS_SLOTS_NONE) {
        at = summary->group_count;
        status = rs_mem_grow((void **)&summary->groups, &summary->group_capacity, at + 1,
                             sizeof *summary->groups);
        if (status == RS_OK)
            status = rs_slots_put(&reduce->group_slots, hash, (uint32_t)at);
        if (status != RS_OK) {
            rs_mem_free(ranks.items);
            return status;
        }
        summary->groups[summary->group_count++] =
            (struct rs_group_info){.name = name,
                                   .description = comm->group_description,
                                   .size = size,
                                   .ranks = ranks.items,
                                   .rank_count = ranks.count};
        ranks.items = NULL;
    }
    rs_mem_free(ranks.items);
    *memory = (struct group_memory){.is_set = true,
                                    .name = comm->group_name,
                                    .ranks = comm->group_ranks,
                                    .size = comm->group_size,
                                    .group = (uint32_t)at};
    *group_p = (uint32_t)at;
    return RS_OK;
}

int32_t groups_global_rank(const struct rs_reduce *reduce, uint32_t group, int64_t rank_in_group)
{
    if (group == RS_NO_GROUP || rank_in_group < 0)
        return -1;
    const struct rs_group_info *known = &reduce->summary->groups[group];
    if (rank_in_group >= (int64_t)known->rank_count || known->size != (int64_t)known->rank_count)
        return -1;
    return known->ranks[rank_in_group];
}
