/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ranks together: groups with their members, local ranks as global ones, rows in the order of
 * the documents.
 *
 * A group is known by the hash in the files. Who belongs to it: the metadata's global_ranks where
 * some rank's metadata names it, else the ranks whose files mention it. Local rank i of a group is
 *     1. the rank that recorded a link i-i (a local copy: it can only be its own),
 *     2. the rank whose metadata says group_rank i,
 *     3. the i-th of the metadata's ranks.
 * With --compat only 1 counts, as in the vendor's tool.
 */
#include "ascend/cluster/cluster_priv.h"
#include "common/base/mem.h"

#include <stdlib.h>
#include <string.h>

enum { LOCAL_RANKS_MAX = 1 << 20 };

bool rank_set_has(const struct rank_set *set, int64_t rank)
{
    size_t low = 0, high = set->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (set->ranks[middle] < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low < set->count && set->ranks[low] == rank;
}

enum rs_status rank_set_add(struct rank_set *set, int64_t rank)
{
    if (set->count && set->ranks[set->count - 1] == rank)
        return RS_OK;
    if (set->count && set->ranks[set->count - 1] > rank && rank_set_has(set, rank))
        return RS_OK;
    if (rs_mem_grow((void **)&set->ranks, &set->capacity, set->count + 1, sizeof *set->ranks) !=
        RS_OK)
        return RS_NOMEM;
    size_t at = set->count++;
    for (; at > 0 && set->ranks[at - 1] > rank; at--)
        set->ranks[at] = set->ranks[at - 1];
    set->ranks[at] = rank;
    return RS_OK;
}

static enum rs_status rank_set_add_all(struct rank_set *set, const struct rank_set *other)
{
    for (size_t i = 0; i < other->count; i++)
        if (rank_set_add(set, other->ranks[i]) != RS_OK)
            return RS_NOMEM;
    return RS_OK;
}

int64_t global_rank(const struct group *group, int32_t local)
{
    return local >= 0 && (size_t)local < group->global_count ? group->global[local] : -1;
}

const struct rank_set *group_ranks(const struct group *group, enum side side)
{
    return group->named.count ? &group->named : &group->by_any[side];
}

const struct rank_data *find_rank(const struct run *run, int64_t rank)
{
    size_t low = 0, high = run->rank_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (run->ranks[middle].rank < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low < run->rank_count && run->ranks[low].rank == rank ? &run->ranks[low] : NULL;
}

/* ---- one numbering for all ranks ----------------------------------------------------------- */

static enum rs_status number_of(struct rs_strtab *table, const struct rs_strtab *own, rs_str id,
                                uint32_t *cache)
{
    if (cache[id] != NO_INDEX)
        return RS_OK;
    return rs_strtab_add(table, rs_strtab_text(own, id), rs_strtab_length(own, id), &cache[id]);
}

static enum rs_status number_group(struct run *run, struct rank_data *rank, rs_str id)
{
    if (rank->group_of[id] != NO_INDEX)
        return RS_OK;
    const enum rs_status status = number_of(&run->hashes, &rank->comm.names, id, rank->group_of);
    const size_t need = run->hashes.count, had = run->group_count;
    if (status != RS_OK || need <= had)
        return status;
    if (rs_mem_grow((void **)&run->groups, &run->group_capacity, need, sizeof *run->groups) !=
        RS_OK)
        return RS_NOMEM;
    for (size_t i = had; i < need; i++)
        run->groups[i] = (struct group){
            .hash = rs_strtab_text(&run->hashes, (rs_str)i), .id = "", .name = "", .key = NO_INDEX};
    run->group_count = need;
    return RS_OK;
}

static uint32_t *new_numbers(size_t count)
{
    uint32_t *numbers = rs_mem_calloc(count, sizeof *numbers);
    for (size_t i = 0; numbers && i < count; i++)
        numbers[i] = NO_INDEX;
    return numbers;
}

static enum rs_status number_all(struct run *run, struct rank_data *rank, rs_str name, rs_str group,
                                 rs_str step)
{
    enum rs_status status = number_group(run, rank, group);
    if (status == RS_OK)
        status = number_of(&run->names, &rank->comm.names, name, rank->name_of);
    if (status == RS_OK)
        status = number_of(&run->steps, &rank->comm.names, step, rank->step_of);
    return status;
}

static enum rs_status set_global(struct group *group, int64_t local, int64_t rank)
{
    if (local < 0 || local >= LOCAL_RANKS_MAX)
        return RS_OK;
    const size_t need = (size_t)local + 1;
    if (need > group->global_count) {
        int64_t *more = rs_mem_realloc(group->global, need, sizeof *more);
        if (!more)
            return RS_NOMEM;
        for (size_t i = group->global_count; i < need; i++)
            more[i] = -1;
        group->global = more;
        group->global_count = need;
    }
    group->global[local] = rank;
    return RS_OK;
}

static enum rs_status note_op(struct run *run, const struct rank_data *rank, rs_str group_id,
                              enum side side)
{
    struct group *group = &run->groups[rank->group_of[group_id]];
    const enum rs_status status = rank_set_add(&group->by_ops[side], rank->rank);
    return status == RS_OK ? rank_set_add(&group->by_any[side], rank->rank) : status;
}

static enum rs_status number_ops(struct run *run, struct rank_data *rank)
{
    for (size_t i = 0; i < rank->comm.op_count; i++) {
        const struct rs_ascend_comm_op *op = &rank->comm.ops[i];
        enum rs_status status = number_all(run, rank, op->name, op->group, op->step);
        if (status == RS_OK)
            status = note_op(run, rank, op->group, op->is_p2p ? SIDE_P2P : SIDE_COLLECTIVE);
        if (status != RS_OK)
            return status;
    }
    return RS_OK;
}

/* Operations that are not kept have left their groups and steps, in the order in which they came. */
static enum rs_status number_totals(struct run *run, struct rank_data *rank)
{
    for (size_t i = 0; i < rank->totals.count; i++) {
        const struct total *total = &rank->totals.rows[i];
        enum rs_status status = number_group(run, rank, total->group);
        if (status == RS_OK)
            status = number_of(&run->steps, &rank->comm.names, total->step, rank->step_of);
        for (int side = 0; side < SIDES && status == RS_OK; side++)
            if (total->has_op[side])
                status = note_op(run, rank, total->group, (enum side)side);
        if (status != RS_OK)
            return status;
    }
    return RS_OK;
}

static enum rs_status number_links(struct run *run, struct rank_data *rank)
{
    for (size_t i = 0; i < rank->comm.link_count; i++) {
        const struct rs_ascend_comm_link *link = &rank->comm.links[i];
        enum rs_status status = number_all(run, rank, link->kind, link->group, link->step);
        if (status != RS_OK)
            return status;
        struct group *group = &run->groups[rank->group_of[link->group]];
        const enum side side = link->is_p2p ? SIDE_P2P : SIDE_COLLECTIVE;
        status = rank_set_add(&group->by_any[side], rank->rank);
        if (status == RS_OK && link->src == link->dst)
            status = set_global(group, link->src, rank->rank);
        if (status != RS_OK)
            return status;
    }
    return RS_OK;
}

static enum rs_status number_ranks(struct run *run)
{
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < run->rank_count && status == RS_OK; i++) {
        struct rank_data *rank = &run->ranks[i];
        const size_t names = rank->comm.names.count;
        if (names == 0)
            continue;
        rank->group_of = new_numbers(names);
        rank->step_of = new_numbers(names);
        rank->name_of = new_numbers(names);
        if (!rank->group_of || !rank->step_of || !rank->name_of)
            return RS_NOMEM;
        status = run->wants_text ? number_ops(run, rank) : number_totals(run, rank);
        if (status == RS_OK)
            status = number_links(run, rank);
    }
    return status;
}

/* ---- metadata ------------------------------------------------------------------------------ */

static bool is_same_set(const struct rank_set *set, const struct rs_ascend_group *named)
{
    return set->count == named->count &&
           memcmp(set->ranks, named->ranks, set->count * sizeof *set->ranks) == 0;
}

static enum rs_status name_group(struct run *run, struct group *group,
                                 const struct rs_ascend_group *named, int64_t rank)
{
    if (!group->id[0]) {
        group->id = named->id;
        group->name = named->name;
    }
    if (group->named.count && named->count && !is_same_set(&group->named, named))
        return note(run->result,
                    "rank %lld's metadata names other ranks for group %s than those before it",
                    (long long)rank, group->hash);
    for (size_t i = 0; group->named.count < named->count && i < named->count; i++)
        if (rank_set_add(&group->named, named->ranks[i]) != RS_OK)
            return RS_NOMEM;
    return RS_OK;
}

static enum rs_status name_groups(struct run *run)
{
    for (size_t i = 0; i < run->rank_count; i++) {
        const struct rank_data *rank = &run->ranks[i];
        for (size_t g = 0; rank->has_meta && g < rank->meta.group_count; g++) {
            const struct rs_ascend_group *named = &rank->meta.groups[g];
            const rs_str id = rs_strtab_find(&run->hashes, named->hash, strlen(named->hash));
            if (id == RS_STR_NONE || id >= run->group_count)
                continue;
            struct group *group = &run->groups[id];
            enum rs_status status = name_group(run, group, named, rank->rank);
            if (status == RS_OK && !run->options->compat && named->own_rank >= 0 &&
                global_rank(group, (int32_t)named->own_rank) < 0)
                status = set_global(group, named->own_rank, rank->rank);
            if (status != RS_OK)
                return status;
        }
    }
    return RS_OK;
}

/* The rest of the map from the metadata's list: only where that rank has no other place. */
static enum rs_status fill_map(struct group *group)
{
    struct rank_set placed = {0};
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < group->global_count && status == RS_OK; i++)
        if (group->global[i] >= 0)
            status = rank_set_add(&placed, group->global[i]);
    for (size_t i = 0; i < group->named.count && status == RS_OK; i++) {
        const int64_t rank = group->named.ranks[i];
        if ((i >= group->global_count || group->global[i] < 0) && !rank_set_has(&placed, rank))
            status = set_global(group, (int64_t)i, rank);
    }
    rs_mem_free(placed.ranks);
    return status;
}

static enum rs_status make_key(struct run *run, struct group *group)
{
    rs_str id = 0;
    const struct rank_set *ranks =
        group->named.count && !run->options->compat ? &group->named : &group->both;
    if (group->both.count == 0)
        return RS_OK;
    const enum rs_status status = rs_strtab_add(&run->tuples, (const char *)ranks->ranks,
                                                ranks->count * sizeof *ranks->ranks, &id);
    if (status != RS_OK || rs_mem_grow((void **)&run->keys, &run->key_capacity, (size_t)id + 1,
                                       sizeof *run->keys) != RS_OK)
        return RS_NOMEM;
    if (id >= run->key_count) {
        run->keys[id].ranks = ranks;
        run->key_count = (size_t)id + 1;
    }
    group->key = id;
    return RS_OK;
}

static enum rs_status finish_groups(struct run *run)
{
    for (size_t i = 0; i < run->group_count; i++) {
        struct group *group = &run->groups[i];
        enum rs_status status = RS_OK;
        if (!run->options->compat)
            status = fill_map(group);
        for (int side = 0; side < SIDES && status == RS_OK; side++)
            status = rank_set_add_all(&group->both, &group->by_any[side]);
        if (status == RS_OK)
            status = make_key(run, group);
        if (status != RS_OK)
            return status;
        run->result->group_count += group->both.count > 0;
    }
    return RS_OK;
}

/* ---- rows in order ------------------------------------------------------------------------- */

/* References are listed rank by rank, each in its file's order, and sorted stably by what they refer to: few small
 * numbers, packed into numbers of 64 bits and sorted by their digits: several times cheaper than comparing. */
enum { SORT_FIELDS = 6, DIGIT_BITS = 11 };

struct sort_key {
    uint64_t value;
    uint32_t index;
};

typedef void sort_fields_fn(const void *item, uint64_t fields_p[SORT_FIELDS]);

static void op_fields(const void *item, uint64_t fields_p[SORT_FIELDS])
{
    const struct op_ref *op = item;
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): as many items as are sorted */
    const uint64_t fields[SORT_FIELDS] = {op->key, op->step, op->name, op->group, 0, 0};
    memcpy(fields_p, fields, sizeof fields);
}

static void link_fields(const void *item, uint64_t fields_p[SORT_FIELDS])
{
    const struct link_ref *link = item;
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): as many items as are sorted */
    const uint64_t fields[SORT_FIELDS] = {link->key,   link->step,          link->name,
                                          link->group, (uint64_t)link->src, (uint64_t)link->dst};
    memcpy(fields_p, fields, sizeof fields);
}

/* One digit: `from` into `to`, stably. */
static void sort_digit(const struct sort_key *from, struct sort_key *to, size_t count,
                       unsigned shift)
{
    size_t starts[(1 << DIGIT_BITS) + 1] = {0};
    for (size_t i = 0; i < count; i++)
        starts[(from[i].value >> shift & ((1 << DIGIT_BITS) - 1)) + 1]++;
    for (size_t d = 0; d < 1 << DIGIT_BITS; d++)
        starts[d + 1] += starts[d];
    for (size_t i = 0; i < count; i++)
        to[starts[from[i].value >> shift & ((1 << DIGIT_BITS) - 1)]++] = from[i];
}

struct sorter {
    const char *items;
    size_t count, size;
    sort_fields_fn *fields_of;
    unsigned widths[SORT_FIELDS];
    struct sort_key *keys, *spare;
};

/* How many bits each field needs. */
static void find_widths(struct sorter *sorter)
{
    uint64_t all[SORT_FIELDS] = {0}, fields[SORT_FIELDS];
    for (size_t i = 0; i < sorter->count; i++) {
        sorter->fields_of(sorter->items + i * sorter->size, fields);
        for (unsigned f = 0; f < SORT_FIELDS; f++)
            all[f] |= fields[f];
    }
    for (unsigned f = 0; f < SORT_FIELDS; f++)
        sorter->widths[f] = all[f] ? 64 - (unsigned)__builtin_clzll(all[f]) : 0;
}

/* By the fields from `first` up to `end`, which fit into 64 bits together. */
static void sort_by_fields(struct sorter *sorter, unsigned first, unsigned end, unsigned bits)
{
    for (size_t i = 0; i < sorter->count; i++) {
        struct sort_key *key = &sorter->keys[i];
        uint64_t fields[SORT_FIELDS];
        sorter->fields_of(sorter->items + key->index * sorter->size, fields);
        key->value = 0;
        for (unsigned f = first; f < end; f++)
            key->value = (sorter->widths[f] < 64 ? key->value << sorter->widths[f] : 0) | fields[f];
    }
    for (unsigned shift = 0; shift < bits; shift += DIGIT_BITS) {
        sort_digit(sorter->keys, sorter->spare, sorter->count, shift);
        struct sort_key *swap = sorter->keys;
        sorter->keys = sorter->spare;
        sorter->spare = swap;
    }
}

/* The last fields first, as many at a time as fit: every round is stable. */
static void sort_keys(struct sorter *sorter)
{
    for (unsigned end = SORT_FIELDS; end > 0;) {
        unsigned first = end, bits = 0;
        while (first > 0 && bits + sorter->widths[first - 1] <= 64)
            bits += sorter->widths[--first];
        sort_by_fields(sorter, first, end, bits);
        end = first;
    }
}

/* The `count` items of *items_p, which is replaced. RS_NOMEM, RS_LIMIT. */
static enum rs_status sort_refs(void **items_p, size_t count, size_t size,
                                sort_fields_fn *fields_of)
{
    struct sorter sorter = {
        .items = *items_p, .count = count, .size = size, .fields_of = fields_of};
    if (!count)
        return RS_OK;
    if (count > UINT32_MAX)
        return RS_LIMIT;
    sorter.keys = rs_mem_calloc(count, sizeof *sorter.keys);
    sorter.spare = rs_mem_calloc(count, sizeof *sorter.spare);
    char *sorted = rs_mem_calloc(count, size);
    const bool is_made = sorter.keys && sorter.spare && sorted;
    if (is_made) {
        find_widths(&sorter);
        for (size_t i = 0; i < count; i++)
            sorter.keys[i].index = (uint32_t)i;
        sort_keys(&sorter);
        for (size_t i = 0; i < count; i++)
            memcpy(sorted + i * size, sorter.items + sorter.keys[i].index * size, size);
    }
    rs_mem_free(sorter.keys);
    rs_mem_free(sorter.spare);
    rs_mem_free(is_made ? *items_p : sorted);
    if (is_made)
        *items_p = sorted;
    return is_made ? RS_OK : RS_NOMEM;
}

static enum rs_status list_ops(struct run *run)
{
    size_t count = 0;
    for (size_t i = 0; i < run->rank_count; i++)
        count += run->ranks[i].op_count;
    run->result->op_count = count;
    if (!run->wants_text)
        return RS_OK; /* tables have them already */
    run->ops = count ? rs_mem_calloc(count, sizeof *run->ops) : NULL;
    if (count && !run->ops)
        return RS_NOMEM;
    for (size_t i = 0; i < run->rank_count; i++) {
        const struct rank_data *rank = &run->ranks[i];
        for (size_t o = 0; o < rank->comm.op_count; o++) {
            const struct rs_ascend_comm_op *op = &rank->comm.ops[o];
            const uint32_t group = rank->group_of[op->group];
            /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): room for all was made */
            run->ops[run->op_count++] = (struct op_ref){.key = run->groups[group].key,
                                                        .step = rank->step_of[op->step],
                                                        .name = rank->name_of[op->name],
                                                        .group = group,
                                                        .rank = (uint32_t)i,
                                                        .index = (uint32_t)o};
        }
    }
    return sort_refs((void **)&run->ops, run->op_count, sizeof *run->ops, op_fields);
}

static enum rs_status list_links(struct run *run)
{
    size_t count = 0;
    for (size_t i = 0; i < run->rank_count; i++)
        count += run->ranks[i].comm.link_count;
    run->links = count ? rs_mem_calloc(count, sizeof *run->links) : NULL;
    if (count && !run->links)
        return RS_NOMEM;
    for (size_t i = 0; i < run->rank_count; i++) {
        const struct rank_data *rank = &run->ranks[i];
        for (size_t l = 0; l < rank->comm.link_count; l++) {
            const struct rs_ascend_comm_link *link = &rank->comm.links[l];
            const uint32_t index = rank->group_of[link->group];
            const struct group *group = &run->groups[index];
            const int64_t src = global_rank(group, link->src), dst = global_rank(group, link->dst);
            if (src < 0 || dst < 0) {
                run->result->dropped_links++;
                continue;
            }
            run->links[run->link_count++] = (struct link_ref){.key = group->key,
                                                              .step = rank->step_of[link->step],
                                                              .name = rank->name_of[link->kind],
                                                              .group = index,
                                                              .src = src,
                                                              .dst = dst,
                                                              .rank = (uint32_t)i,
                                                              .index = (uint32_t)l};
        }
    }
    run->result->link_count = run->link_count;
    return sort_refs((void **)&run->links, run->link_count, sizeof *run->links, link_fields);
}

enum rs_status join_ranks(struct run *run)
{
    if (rs_strtab_init(&run->steps, 0) != RS_OK || rs_strtab_init(&run->names, 0) != RS_OK ||
        rs_strtab_init(&run->hashes, 0) != RS_OK || rs_strtab_init(&run->tuples, 0) != RS_OK)
        return RS_NOMEM;
    enum rs_status status = number_ranks(run);
    if (status == RS_OK)
        status = name_groups(run);
    if (status == RS_OK)
        status = finish_groups(run);
    if (status == RS_OK)
        status = list_ops(run);
    if (status == RS_OK)
        status = list_links(run);
    if (status == RS_OK)
        status = find_stages(run);
    if (status == RS_OK)
        find_layout(run);
    return status;
}

void join_fini(struct run *run)
{
    for (size_t i = 0; i < run->group_count; i++) {
        struct group *group = &run->groups[i];
        for (int side = 0; side < SIDES; side++) {
            rs_mem_free(group->by_ops[side].ranks);
            rs_mem_free(group->by_any[side].ranks);
        }
        rs_mem_free(group->named.ranks);
        rs_mem_free(group->both.ranks);
        rs_mem_free(group->global);
    }
    for (size_t i = 0; i < run->stages.count; i++)
        rs_mem_free(run->stages.sets[i].ranks);
    rs_mem_free(run->stages.sets);
    rs_mem_free(run->groups);
    rs_mem_free(run->keys);
    rs_mem_free(run->ops);
    rs_mem_free(run->links);
    rs_strtab_fini(&run->steps);
    rs_strtab_fini(&run->names);
    rs_strtab_fini(&run->hashes);
    rs_strtab_fini(&run->tuples);
}
