/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which process group is which?
 *
 * A group's name is a per-process counter: "1" of rank 0 and "1" of rank 2 may be different groups. So a
 * job group is name AND sorted ranks (and size, where a long list was cut). A group that no file
 * names gets its ranks from timing (infer.c), and the name of the one known group with these
 * ranks, if there is exactly one.
 *
 * Texts, contracts section 5: the name if it means one rank set in the whole capture, else
 * name@0-3,8; without a name g:0-3,8; runs of two or more are written a-b.
 *
 * What is accepted: two nameless communicators over the same ranks are told as one (is_ambiguous).
 */
#include "aggregator/analysis/analysis_priv.h"
#include "common/base/buf.h"
#include "common/base/mem.h"
#include "common/base/slots.h"

#include <stdlib.h>
#include <string.h>

static int compare_ranks(const void *left, const void *right)
{
    const int32_t a = *(const int32_t *)left, b = *(const int32_t *)right;
    return (a > b) - (a < b);
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash ^= value + 0x9e3779b97f4a7c15U + (hash << 6) + (hash >> 2);
    hash *= 0xff51afd7ed558ccdU;
    return hash ^ (hash >> 32);
}

static uint64_t hash_group(const struct rs_job_group *group, const struct join_group_key *key)
{
    uint64_t hash = key->name != NULL ? key->name_length + 1 : 0;
    for (size_t i = 0; i < key->name_length; i++) {
        hash = mix(hash, (unsigned char)key->name[i]);
    }
    hash = mix(hash, (uint64_t)group->size);
    for (size_t i = 0; i < group->rank_count; i++) {
        hash = mix(hash, (uint64_t)group->ranks[i]);
    }
    return hash;
}

static bool same_name(const struct join_group_key *a, const struct join_group_key *b)
{
    return (a->name == NULL) == (b->name == NULL) && a->name_length == b->name_length &&
           (a->name_length == 0 || memcmp(a->name, b->name, a->name_length) == 0);
}

static bool same_ranks(const struct rs_job_group *a, const struct rs_job_group *b)
{
    return a->rank_count == b->rank_count &&
           (a->rank_count == 0 ||
            memcmp(a->ranks, b->ranks, a->rank_count * sizeof *a->ranks) == 0);
}

static void put_slot(struct join *join, uint32_t index)
{
    size_t at = (size_t)join->keys[index].hash & (join->group_slot_count - 1);
    while (join->group_slots[at] != 0) {
        at = (at + 1) & (join->group_slot_count - 1);
    }
    join->group_slots[at] = index + 1;
}

static enum rs_status grow_slots(struct join *join)
{
    if ((join->out->group_count + 1) * 2 <= join->group_slot_count) {
        return RS_OK;
    }
    const size_t count = join->group_slot_count > 0 ? join->group_slot_count * 2 : 64;
    uint32_t *slots = rs_mem_calloc(count, sizeof *slots);
    if (slots == NULL) {
        return RS_NOMEM;
    }
    rs_mem_free(join->group_slots);
    join->group_slots = slots;
    join->group_slot_count = count;
    for (size_t i = 0; i < join->out->group_count; i++) {
        put_slot(join, (uint32_t)i);
    }
    return RS_OK;
}

static enum rs_status room_for_group(struct join *join)
{
    struct rs_analysis *out = join->out;
    if (grow_slots(join) != RS_OK ||
        rs_mem_grow((void **)&out->groups, &join->group_capacity, out->group_count + 1,
                    sizeof *out->groups) != RS_OK ||
        rs_mem_grow((void **)&join->keys, &join->key_capacity, out->group_count + 1,
                    sizeof *join->keys) != RS_OK) {
        return RS_NOMEM;
    }
    return RS_OK;
}

/* `wanted` lends its ranks, sorted; they are copied when the group is new. */
enum rs_status group_add(struct join *join, const struct rs_job_group *wanted,
                         const struct join_group_key *key, uint32_t *index_p)
{
    struct rs_analysis *out = join->out;
    if (room_for_group(join) != RS_OK) {
        return RS_NOMEM;
    }
    struct join_group_key full = *key;
    full.hash = hash_group(wanted, key);
    for (size_t at = (size_t)full.hash & (join->group_slot_count - 1); join->group_slots[at] != 0;
         at = (at + 1) & (join->group_slot_count - 1)) {
        const uint32_t index = join->group_slots[at] - 1;
        const struct rs_job_group *group = &out->groups[index];
        if (join->keys[index].hash == full.hash && same_name(&join->keys[index], &full) &&
            group->size == wanted->size && same_ranks(group, wanted)) {
            *index_p = index;
            return RS_OK;
        }
    }
    struct rs_job_group group = *wanted;
    group.text = NULL;
    group.ranks = NULL;
    if (wanted->rank_count > 0) {
        group.ranks = rs_mem_calloc(wanted->rank_count, sizeof *group.ranks);
        if (group.ranks == NULL) {
            return RS_NOMEM;
        }
        memcpy(group.ranks, wanted->ranks, wanted->rank_count * sizeof *group.ranks);
    }
    const uint32_t index = (uint32_t)out->group_count;
    out->groups[index] = group;
    join->keys[index] = full;
    out->group_count++;
    put_slot(join, index);
    *index_p = index;
    return RS_OK;
}

static enum rs_status add_local(struct join *join, const struct rs_summary *summary,
                                const struct rs_group_info *info, uint32_t *index_p)
{
    struct rs_job_group group = {.rank_count = info->rank_count, .size = info->size};
    struct join_group_key key = {0};
    if (info->name != RS_STR_NONE) {
        key.name = rs_strtab_text(&summary->strings, info->name);
        key.name_length = rs_strtab_length(&summary->strings, info->name);
    }
    if (group.size < 0) {
        group.size = (int64_t)info->rank_count;
    }
    key.is_cut = group.size > (int64_t)info->rank_count;
    group.ranks = rs_mem_calloc(info->rank_count, sizeof *group.ranks);
    if (group.ranks == NULL) {
        return RS_NOMEM;
    }
    memcpy(group.ranks, info->ranks, info->rank_count * sizeof *group.ranks);
    qsort(group.ranks, group.rank_count, sizeof *group.ranks, compare_ranks);
    const enum rs_status status = group_add(join, &group, &key, index_p);
    rs_mem_free(group.ranks);
    return status;
}

static bool has_name(const void *self, uint32_t index, const void *wanted)
{
    const struct rs_group_info *groups = self;
    return groups[index].name == *(const rs_str *)wanted;
}

/* A local group without ranks is the one of the same name that has them, in the same file. */
static enum rs_status borrow_ranks(struct join *join, size_t summary_index)
{
    const struct rs_summary *summary = join->out->summaries[summary_index];
    uint32_t *local = &join->local_group[join->local_base[summary_index]];
    struct rs_slots with_ranks = {0};
    enum rs_status status = RS_OK;
    size_t without = 0;
    for (size_t i = 0; i < summary->group_count; i++) {
        without += local[i] == RS_NO_GROUP && summary->groups[i].name != RS_STR_NONE;
    }
    for (size_t i = 0; i < summary->group_count && without > 0 && status == RS_OK; i++) {
        if (local[i] != RS_NO_GROUP && summary->groups[i].name != RS_STR_NONE) {
            status = rs_slots_put(&with_ranks, summary->groups[i].name, (uint32_t)i);
        }
    }
    for (size_t i = 0; i < summary->group_count && without > 0 && status == RS_OK; i++) {
        if (local[i] != RS_NO_GROUP || summary->groups[i].name == RS_STR_NONE) {
            continue;
        }
        const rs_str name = summary->groups[i].name;
        const uint32_t at = rs_slots_find(&with_ranks, name, has_name, summary->groups, &name);
        local[i] = at != RS_SLOTS_NONE ? local[at] : RS_NO_GROUP;
    }
    rs_slots_fini(&with_ranks);
    return status;
}

/* Two entries of one file that say nothing but the same ranks. */
static void tell_ambiguous(struct join *join, size_t summary_index)
{
    const struct rs_summary *summary = join->out->summaries[summary_index];
    const uint32_t *local = &join->local_group[join->local_base[summary_index]];
    for (size_t i = 0; i < summary->group_count; i++) {
        if (local[i] == RS_NO_GROUP || summary->groups[i].name != RS_STR_NONE) {
            continue;
        }
        struct join_group_key *key = &join->keys[local[i]];
        if (key->seen_in == summary_index + 1) {
            join->out->groups[local[i]].is_ambiguous = true;
        }
        key->seen_in = summary_index + 1;
    }
}

static bool completes(const void *self, uint32_t index, const void *wanted)
{
    const struct rs_group_info *whole = &((const struct rs_group_info *)self)[index];
    const struct rs_group_info *info = wanted;
    return whole->name == info->name && whole->size == info->size &&
           (int64_t)whole->rank_count == whole->size && info->rank_count < whole->rank_count &&
           (info->rank_count == 0 ||
            memcmp(info->ranks, whole->ranks, info->rank_count * sizeof *info->ranks) == 0);
}

/* A list that was cut is the header's complete one of the same name and size, if that begins alike. */
static const struct rs_group_info *complete(const struct rs_summary *summary,
                                            const struct rs_slots *header,
                                            const struct rs_group_info *info)
{
    const uint32_t at = info->name != RS_STR_NONE ? rs_slots_find(header, info->name, completes,
                                                                  summary->trace.groups, info)
                                                  : RS_SLOTS_NONE;
    return at != RS_SLOTS_NONE ? &summary->trace.groups[at] : info;
}

static enum rs_status index_header(const struct rs_summary *summary, struct rs_slots *header)
{
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < summary->trace.group_count && status == RS_OK; i++) {
        status = rs_slots_put(header, summary->trace.groups[i].name, (uint32_t)i);
    }
    return status;
}

/* Groups that the header names and no operation: one of them may be what timing finds. */
static enum rs_status collect_header(struct join *join, const struct rs_summary *summary)
{
    for (size_t i = 0; i < summary->trace.group_count; i++) {
        uint32_t index;
        if (summary->trace.groups[i].rank_count > 0 &&
            add_local(join, summary, &summary->trace.groups[i], &index) != RS_OK) {
            return RS_NOMEM;
        }
    }
    return RS_OK;
}

/* ---- communicators that have one name in the whole job ---- */

struct mention {
    const char *name;
    size_t summary, local; /* index into local_group */
};

static int compare_mentions(const void *left, const void *right)
{
    const struct mention *a = left, *b = right;
    const int order = strcmp(a->name, b->name);
    return order != 0 ? order : (a->summary > b->summary) - (a->summary < b->summary);
}

static bool has_global_names(const struct rs_summary *summary)
{
    return summary->trace.backend != RS_STR_NONE &&
           strcmp(rs_strtab_text(&summary->strings, summary->trace.backend), "hccl") == 0;
}

/* One name: the group that some file lists, else those who name it. */
static enum rs_status unite_mentions(struct join *join, const struct mention *mentions,
                                     size_t count)
{
    uint32_t index = RS_NO_GROUP;
    int64_t size = -1;
    for (size_t i = 0; i < count; i++) {
        const size_t s = mentions[i].summary;
        const size_t own = mentions[i].local - join->local_base[s];
        const int64_t told = join->out->summaries[s]->groups[own].size;
        size = told > size ? told : size;
        if (join->local_group[mentions[i].local] != RS_NO_GROUP) {
            index = join->local_group[mentions[i].local];
        }
    }
    enum rs_status status = RS_OK;
    if (index == RS_NO_GROUP) {
        struct rs_job_group group = {.size = size, .is_inferred = size < 0};
        group.ranks = rs_mem_calloc(count, sizeof *group.ranks);
        if (group.ranks == NULL) {
            return RS_NOMEM;
        }
        for (size_t i = 0; i < count; i++) {
            const int32_t rank = join->out->ranks[mentions[i].summary].rank;
            if (group.rank_count == 0 || group.ranks[group.rank_count - 1] != rank) {
                group.ranks[group.rank_count++] = rank;
            }
        }
        if (group.size < (int64_t)group.rank_count) {
            group.size = (int64_t)group.rank_count;
        }
        const struct join_group_key key = {.name = mentions[0].name,
                                           .name_length = strlen(mentions[0].name),
                                           .is_cut = group.size > (int64_t)group.rank_count};
        status = group_add(join, &group, &key, &index);
        rs_mem_free(group.ranks);
    }
    for (size_t i = 0; i < count && status == RS_OK; i++) {
        if (join->local_group[mentions[i].local] == RS_NO_GROUP) {
            join->local_group[mentions[i].local] = index;
        }
    }
    return status;
}

/* HCCL's communicators are named by their root's address and time: one name is one communicator, on whatever
 * rank. So a file that does not list the members of one has them from the others, or they are those who name it. */
static enum rs_status unite_global_names(struct join *join)
{
    const struct rs_analysis *out = join->out;
    struct mention *mentions = NULL;
    size_t count = 0, capacity = 0;
    enum rs_status status = RS_OK;
    for (size_t s = 0; s < out->summary_count; s++) {
        const struct rs_summary *summary = out->summaries[s];
        for (size_t i = 0; i < summary->group_count && has_global_names(summary); i++) {
            if (summary->groups[i].name == RS_STR_NONE) {
                continue;
            }
            status = rs_mem_grow((void **)&mentions, &capacity, count + 1, sizeof *mentions);
            if (status != RS_OK) {
                rs_mem_free(mentions);
                return status;
            }
            mentions[count++] =
                (struct mention){rs_strtab_text(&summary->strings, summary->groups[i].name), s,
                                 join->local_base[s] + i};
        }
    }
    if (count > 0) {
        qsort(mentions, count, sizeof *mentions, compare_mentions);
    }
    for (size_t i = 0; i < count && status == RS_OK;) {
        size_t end = i + 1;
        while (end < count && strcmp(mentions[i].name, mentions[end].name) == 0) {
            end++;
        }
        status = unite_mentions(join, &mentions[i], end - i);
        i = end;
    }
    rs_mem_free(mentions);
    return status;
}

enum rs_status group_collect(struct join *join)
{
    const struct rs_analysis *out = join->out;
    for (size_t s = 0; s < out->summary_count; s++) {
        const struct rs_summary *summary = out->summaries[s];
        struct rs_slots header = {0};
        enum rs_status status = index_header(summary, &header);
        for (size_t i = 0; i < summary->group_count && status == RS_OK; i++) {
            uint32_t *local = &join->local_group[join->local_base[s] + i];
            const struct rs_group_info *info = complete(summary, &header, &summary->groups[i]);
            *local = RS_NO_GROUP;
            if (info->rank_count > 0) {
                status = add_local(join, summary, info, local);
            }
        }
        rs_slots_fini(&header);
        if (status != RS_OK || collect_header(join, summary) != RS_OK ||
            borrow_ranks(join, s) != RS_OK) {
            return RS_NOMEM;
        }
        tell_ambiguous(join, s);
    }
    return unite_global_names(join);
}

enum rs_status group_for_ranks(struct join *join, const int32_t *ranks, size_t count,
                               uint32_t *index_p)
{
    const struct rs_analysis *out = join->out;
    struct rs_job_group wanted = {.ranks = NULL, .rank_count = count, .size = (int64_t)count};
    uint32_t named = RS_NO_GROUP;
    size_t found = 0;
    for (size_t i = 0; i < out->group_count; i++) {
        if (join->keys[i].name != NULL && out->groups[i].rank_count == count &&
            out->groups[i].size == wanted.size &&
            memcmp(out->groups[i].ranks, ranks, count * sizeof *ranks) == 0) {
            named = (uint32_t)i;
            found++;
        }
    }
    if (found == 1) {
        *index_p = named;
        return RS_OK;
    }
    wanted.ranks = rs_mem_calloc(count, sizeof *wanted.ranks);
    if (wanted.ranks == NULL) {
        return RS_NOMEM;
    }
    memcpy(wanted.ranks, ranks, count * sizeof *ranks);
    wanted.is_inferred = true;
    const struct join_group_key nameless = {0};
    const enum rs_status status = group_add(join, &wanted, &nameless, index_p);
    rs_mem_free(wanted.ranks);
    return status;
}

int32_t group_global_rank(const struct join *join, size_t summary_index,
                          const struct rs_comm_op *op, uint32_t group, int32_t rank_in_group)
{
    return group_rank_of(join->out, summary_index, op, group, rank_in_group);
}

int32_t group_rank_of(const struct rs_analysis *out, size_t summary_index,
                      const struct rs_comm_op *op, uint32_t group, int32_t rank_in_group)
{
    const struct rs_summary *summary = out->summaries[summary_index];
    if (rank_in_group < 0) {
        return -1;
    }
    const size_t at = (size_t)rank_in_group;
    if (op->group != RS_NO_GROUP && op->group < summary->group_count &&
        summary->groups[op->group].rank_count > 0) { /* as listed: the order is the group's own */
        const struct rs_group_info *info = &summary->groups[op->group];
        return at < info->rank_count ? info->ranks[at] : -1;
    }
    if (group == RS_NO_GROUP || at >= out->groups[group].rank_count) {
        return -1;
    }
    return out->groups[group].ranks[at];
}

static void write_ranks(struct rs_buf *buf, const struct rs_job_group *group)
{
    for (size_t i = 0; i < group->rank_count;) {
        size_t last = i;
        while (last + 1 < group->rank_count && group->ranks[last + 1] == group->ranks[last] + 1) {
            last++;
        }
        rs_buf_printf(buf, "%s%d", i > 0 ? "," : "", (int)group->ranks[i]);
        if (last > i) {
            rs_buf_printf(buf, "-%d", (int)group->ranks[last]);
        }
        i = last + 1;
    }
}

static enum rs_status write_text(struct join *join, size_t index, bool name_is_enough)
{
    struct rs_job_group *group = &join->out->groups[index];
    const struct join_group_key *key = &join->keys[index];
    struct rs_buf buf = {0};
    if (key->name != NULL) {
        rs_buf_bytes(&buf, key->name, key->name_length);
    } else {
        rs_buf_string(&buf, "g:");
    }
    if (key->name == NULL || !name_is_enough) {
        rs_buf_string(&buf, key->name == NULL ? "" : "@");
        write_ranks(&buf, group);
        rs_buf_string(&buf, key->is_cut ? ",..." : "");
    }
    if (!buf.failed) {
        rs_mem_free(group->text);
        group->text = rs_mem_strdup(rs_buf_text(&buf));
    }
    rs_buf_fini(&buf);
    return group->text != NULL ? RS_OK : RS_NOMEM;
}

struct named {
    const struct join_group_key *key;
    uint32_t index;
};

static int compare_names(const void *left, const void *right)
{
    const struct join_group_key *a = ((const struct named *)left)->key;
    const struct join_group_key *b = ((const struct named *)right)->key;
    if (a->name == NULL || b->name == NULL) {
        return (a->name != NULL) - (b->name != NULL);
    }
    const size_t shorter = a->name_length < b->name_length ? a->name_length : b->name_length;
    const int order = shorter > 0 ? memcmp(a->name, b->name, shorter) : 0;
    return order != 0 ? order
                      : (a->name_length > b->name_length) - (a->name_length < b->name_length);
}

enum rs_status group_texts(struct join *join)
{
    const size_t count = join->out->group_count;
    struct named *all = rs_mem_calloc(count + 1, sizeof *all);
    if (all == NULL) {
        return RS_NOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        all[i] = (struct named){&join->keys[i], (uint32_t)i};
    }
    qsort(all, count, sizeof *all, compare_names);
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < count && status == RS_OK;) {
        size_t end = i + 1;
        while (end < count && compare_names(&all[i], &all[end]) == 0) {
            end++;
        }
        for (size_t k = i; k < end && status == RS_OK; k++) {
            status = write_text(join, all[k].index, end - i == 1);
        }
        i = end;
    }
    rs_mem_free(all);
    return status;
}

void group_fini(struct join *join)
{
    rs_mem_free(join->keys);
    rs_mem_free(join->group_slots);
    join->keys = NULL;
    join->group_slots = NULL;
}
