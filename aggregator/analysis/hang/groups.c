/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The groups of the job and what every member called in them.
 *
 * A group is its name and its ranks: names are counters of each process, and the same one can mean other ranks elsewhere.
 * Where a dump does not say the ranks of a group (gloo has one nameless list, which every group overwrites; a truncated
 * dump may have none) the group is the one of that name that this rank is a member of, else the ranks that call it by
 * that name; the default group then has all ranks that anybody knows.
 */
#include "aggregator/analysis/hang/hang_priv.h"
#include "common/base/check.h"
#include "common/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool hang_is_symmetric(const struct rs_flight_entry *entry)
{
    switch ((enum rs_flight_op)entry->op) {
    case RS_FLIGHT_ALL_REDUCE:
    case RS_FLIGHT_ALL_GATHER:
    case RS_FLIGHT_REDUCE_SCATTER:
    case RS_FLIGHT_ALL_TO_ALL:
    case RS_FLIGHT_BARRIER:
        return true;
    case RS_FLIGHT_OTHER:
    case RS_FLIGHT_BROADCAST:
    case RS_FLIGHT_REDUCE:
    case RS_FLIGHT_GATHER:
    case RS_FLIGHT_SCATTER:
    case RS_FLIGHT_SEND:
    case RS_FLIGHT_RECV:
    case RS_FLIGHT_COALESCED:
        return false;
    }
    return false;
}

static int by_number(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* --- ranks ------------------------------------------------------------------------------------------------------ */

uint32_t hang_node_of(const struct hang_work *work, int32_t rank)
{
    size_t low = 0, high = work->node_count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (work->nodes[middle].rank < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low < work->node_count && work->nodes[low].rank == rank ? (uint32_t)low : HANG_NO_NODE;
}

/* Every rank that has a dump, or that a dump names as a member. */
static enum rs_status find_nodes(struct hang_work *work)
{
    const struct rs_flight_set *set = work->set;
    int32_t *ranks = NULL;
    size_t count = 0, capacity = 0;
    enum rs_status status = RS_OK;
    for (size_t d = 0; d < set->dump_count && status == RS_OK; d++) {
        const struct rs_flight_dump *dump = &set->dumps[d];
        status = rs_mem_grow((void **)&ranks, &capacity, count + 1, sizeof *ranks);
        if (status == RS_OK)
            ranks[count++] = dump->rank;
        for (size_t g = 0; g < dump->group_count && status == RS_OK; g++) {
            const struct rs_flight_group *group = &dump->groups[g];
            status =
                rs_mem_grow((void **)&ranks, &capacity, count + group->rank_count, sizeof *ranks);
            if (status == RS_OK && group->rank_count) {
                memcpy(ranks + count, group->ranks, group->rank_count * sizeof *ranks);
                count += group->rank_count;
            }
        }
        /* 1,024 ranks that each name 1,024 members: made short now and then */
        if (status == RS_OK && (count > 1u << 16 || d + 1 == set->dump_count)) {
            size_t kept = 0;
            qsort(ranks, count, sizeof *ranks, by_number);
            for (size_t i = 0; i < count; i++)
                if (!kept || ranks[kept - 1] != ranks[i])
                    ranks[kept++] = ranks[i];
            count = kept;
        }
    }
    work->nodes = status == RS_OK ? rs_mem_calloc(count + 1, sizeof *work->nodes) : NULL;
    if (!work->nodes)
        status = RS_NOMEM;
    for (size_t i = 0; i < count && status == RS_OK; i++)
        work->nodes[i] = (struct hang_node){.rank = ranks[i], .dump = -1, .taken_ns = RS_NULL};
    work->node_count = status == RS_OK ? count : 0;
    rs_mem_free(ranks);
    for (size_t d = 0; d < set->dump_count && status == RS_OK; d++) {
        struct hang_node *node = &work->nodes[hang_node_of(work, set->dumps[d].rank)];
        node->dump = (int32_t)d;
        node->teams = rs_mem_calloc(set->dumps[d].group_count + 1, sizeof *node->teams);
        if (!node->teams)
            status = RS_NOMEM;
    }
    work->hang->world_size = (int32_t)work->node_count;
    return status;
}

/* --- groups ----------------------------------------------------------------------------------------------------- */

/* A group before it has a number. */
struct draft {
    rs_str name, desc;
    int32_t *ranks; /* sorted */
    size_t count, capacity;
    bool is_inferred;
};

struct drafts {
    struct draft *items;
    size_t count, capacity;
};

static bool draft_has(const struct draft *draft, int32_t rank)
{
    return draft->count &&
           bsearch(&rank, draft->ranks, draft->count, sizeof rank, by_number) != NULL;
}

static struct draft *add_draft(struct drafts *drafts, rs_str name, rs_str desc)
{
    if (rs_mem_grow((void **)&drafts->items, &drafts->capacity, drafts->count + 1,
                    sizeof *drafts->items) != RS_OK)
        return NULL;
    drafts->items[drafts->count] = (struct draft){.name = name, .desc = desc};
    return &drafts->items[drafts->count++];
}

/* Known ranks: name and list must be equal. Lists of one name are few; names of a process are some ten. */
static enum rs_status known_group(struct drafts *drafts, const struct rs_flight_group *group,
                                  uint32_t *team_p)
{
    enum { ON_STACK = 64 };
    int32_t few[ON_STACK];
    int32_t *ranks =
        group->rank_count <= ON_STACK ? few : rs_mem_calloc(group->rank_count, sizeof *ranks);
    if (!ranks)
        return RS_NOMEM;
    memcpy(ranks, group->ranks, group->rank_count * sizeof *ranks);
    bool is_sorted = true;
    for (size_t i = 1; i < group->rank_count; i++)
        is_sorted = is_sorted && ranks[i - 1] < ranks[i];
    if (!is_sorted)
        qsort(ranks, group->rank_count, sizeof *ranks, by_number);
    enum rs_status status = RS_END;
    for (size_t i = drafts->count; i-- && status == RS_END;) {
        const struct draft *draft = &drafts->items[i];
        if (draft->name == group->name && draft->count == group->rank_count &&
            memcmp(draft->ranks, ranks, draft->count * sizeof *ranks) == 0) {
            *team_p = (uint32_t)i;
            status = RS_OK;
        }
    }
    if (status == RS_END) {
        struct draft *draft = add_draft(drafts, group->name, group->desc);
        int32_t *copy = draft ? rs_mem_calloc(group->rank_count, sizeof *copy) : NULL;
        status = copy ? RS_OK : RS_NOMEM;
        if (copy) {
            memcpy(copy, ranks, group->rank_count * sizeof *copy);
            draft->ranks = copy;
            draft->count = draft->capacity = group->rank_count;
            *team_p = (uint32_t)(drafts->count - 1);
        }
    }
    if (ranks != few)
        rs_mem_free(ranks);
    return status;
}

static bool is_default(const struct hang_work *work, const struct draft *draft)
{
    return strcmp(rs_strtab_text(&work->set->strings, draft->desc), "default_pg") == 0;
}

/* Ranks unknown: the group of that name that has this rank, else one that is inferred from those who call it. */
static enum rs_status unknown_group(struct hang_work *work, struct drafts *drafts,
                                    const struct rs_flight_group *group, int32_t rank,
                                    uint32_t *team_p)
{
    struct draft *found = NULL;
    for (size_t i = 0; i < drafts->count; i++) {
        struct draft *draft = &drafts->items[i];
        if (draft->name == group->name && (draft->is_inferred || draft_has(draft, rank)))
            found = draft;
    }
    if (!found) {
        found = add_draft(drafts, group->name, group->desc);
        if (!found)
            return RS_NOMEM;
        found->is_inferred = true;
        if (is_default(work, found)) {
            found->ranks = rs_mem_calloc(work->node_count, sizeof *found->ranks);
            if (!found->ranks)
                return RS_NOMEM;
            for (size_t i = 0; i < work->node_count; i++)
                found->ranks[found->count++] = work->nodes[i].rank;
            found->capacity = found->count;
        }
    }
    if (found->is_inferred && !draft_has(found, rank)) {
        const enum rs_status status = rs_mem_grow((void **)&found->ranks, &found->capacity,
                                                  found->count + 1, sizeof *found->ranks);
        if (status != RS_OK)
            return status;
        found->ranks[found->count++] = rank; /* dumps come by rank: stays sorted */
    }
    *team_p = (uint32_t)(found - drafts->items);
    return RS_OK;
}

static enum rs_status find_drafts(struct hang_work *work, struct drafts *drafts)
{
    enum rs_status status = RS_OK;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t n = 0; n < work->node_count; n++) {
            const struct hang_node *node = &work->nodes[n];
            const struct rs_flight_dump *dump = hang_dump(work, node);
            for (size_t g = 0; dump && g < dump->group_count && status == RS_OK; g++) {
                const struct rs_flight_group *group = &dump->groups[g];
                if (!group->name && dump->is_half_blind)
                    node->teams[g] = RS_FLIGHT_NO_GROUP;
                else if (pass == 0 && group->rank_count)
                    status = known_group(drafts, group, &node->teams[g]);
                else if (pass == 1 && !group->rank_count)
                    status = unknown_group(work, drafts, group, node->rank, &node->teams[g]);
            }
        }
    }
    return status;
}

/* "0-3,8" */
static void put_ranks(struct rs_buf *text, const int32_t *ranks, size_t count)
{
    for (size_t i = 0; i < count;) {
        size_t end = i;
        while (end + 1 < count && ranks[end + 1] == ranks[end] + 1)
            end++;
        rs_buf_printf(text, i ? ",%" PRId32 : "%" PRId32, ranks[i]);
        if (end > i)
            rs_buf_printf(text, "-%" PRId32, ranks[end]);
        i = end + 1;
    }
}

/* A group's name for people: what the program calls it, and its ranks when the name alone is not clear. */
static char *text_of(const struct hang_work *work, const struct drafts *drafts, size_t index)
{
    const struct draft *draft = &drafts->items[index];
    const char *name = rs_strtab_text(&work->set->strings, draft->name);
    const char *desc = rs_strtab_text(&work->set->strings, draft->desc);
    const bool has_desc = *desc && strcmp(desc, "undefined") != 0 && strcmp(desc, name) != 0;
    struct rs_buf text = {0};
    if (has_desc)
        rs_buf_printf(&text, "%s:", desc);
    rs_buf_string(&text, name);
    bool is_clear = true;
    for (size_t i = 0; i < drafts->count && is_clear; i++)
        is_clear = i == index || drafts->items[i].name != draft->name;
    if (!is_clear || !*name) {
        rs_buf_string(&text, "@");
        put_ranks(&text, draft->ranks, draft->count);
    }
    char *copy = text.failed ? NULL : rs_mem_strdup(rs_buf_text(&text));
    rs_buf_fini(&text);
    return copy;
}

static enum rs_status settle_groups(struct hang_work *work, struct drafts *drafts)
{
    struct rs_hang *hang = work->hang;
    hang->groups = rs_mem_calloc(drafts->count + 1, sizeof *hang->groups);
    work->teams = rs_mem_calloc(drafts->count + 1, sizeof *work->teams);
    if (!hang->groups || !work->teams)
        return RS_NOMEM;
    for (size_t i = 0; i < drafts->count; i++) {
        struct draft *draft = &drafts->items[i];
        struct hang_team *team = &work->teams[i];
        hang->groups[i] = (struct rs_hang_group){.text = text_of(work, drafts, i),
                                                 .name = draft->name,
                                                 .desc = draft->desc,
                                                 .ranks = draft->ranks,
                                                 .rank_count = draft->count,
                                                 .is_inferred = draft->is_inferred};
        draft->ranks = NULL;
        hang->group_count = i + 1;
        team->done_seq = -1;
        team->members = rs_mem_calloc(hang->groups[i].rank_count + 1, sizeof *team->members);
        if (!hang->groups[i].text || !team->members)
            return RS_NOMEM;
        team->member_count = hang->groups[i].rank_count;
        for (size_t k = 0; k < team->member_count; k++)
            team->members[k] =
                (struct hang_member){.node = hang_node_of(work, hang->groups[i].ranks[k]),
                                     .local = RS_FLIGHT_NO_GROUP,
                                     .last_seq = -1};
    }
    return RS_OK;
}

struct hang_member *hang_member_of(const struct hang_work *work, uint32_t team, int32_t rank)
{
    if (team == RS_FLIGHT_NO_GROUP)
        return NULL;
    const struct rs_hang_group *group = &work->hang->groups[team];
    const int32_t *at =
        group->rank_count ? bsearch(&rank, group->ranks, group->rank_count, sizeof rank, by_number)
                          : NULL;
    return at ? &work->teams[team].members[at - group->ranks] : NULL;
}

/* --- calls ------------------------------------------------------------------------------------------------------ */

static bool is_collective(const struct rs_flight_entry *entry)
{
    return !(entry->flags & RS_FLIGHT_P2P) && entry->op != RS_FLIGHT_SEND &&
           entry->op != RS_FLIGHT_RECV;
}

static int by_seq(const void *a, const void *b, void *entries)
{
    const struct rs_flight_entry *all = entries;
    const uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
    if (all[i].seq != all[k].seq)
        return all[i].seq < all[k].seq ? -1 : 1;
    return (i > k) - (i < k);
}

/* Calls of a group come in the order of their numbers, all but always. */
static void sort_calls(struct rs_flight_entry *entries, uint32_t *calls, size_t count)
{
    for (size_t i = 1; i < count; i++)
        if (entries[calls[i - 1]].seq > entries[calls[i]].seq) {
            qsort_r(calls, count, sizeof *calls, by_seq, entries);
            return;
        }
}

const struct rs_flight_entry *hang_call(const struct hang_work *work,
                                        const struct hang_member *member, int64_t seq)
{
    const uint32_t *calls = work->calls + member->first;
    const struct rs_flight_entry *entries = work->set->entries;
    size_t low = 0, high = member->count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (entries[calls[middle]].seq < seq)
            low = middle + 1;
        else
            high = middle;
    }
    return low < member->count && entries[calls[low]].seq == seq ? &entries[calls[low]] : NULL;
}

/* A member's highest number: of its calls, and of what its recorder counts. gloo counts point-to-point there, too. */
static void settle_member(struct hang_work *work, struct hang_team *team,
                          struct hang_member *member)
{
    const struct hang_node *node = &work->nodes[member->node];
    const struct rs_flight_dump *dump = hang_dump(work, node);
    if (!dump)
        return;
    const struct rs_flight_entry *entries = work->set->entries;
    uint32_t *calls = work->calls + member->first;
    sort_calls(work->set->entries, calls, member->count);
    if (member->count)
        member->last_seq = entries[calls[member->count - 1]].seq;
    for (size_t i = member->count; i--;) {
        const struct rs_flight_entry *entry = &entries[calls[i]];
        if (hang_is_symmetric(entry) && rs_flight_is_done(dump, entry)) {
            team->done_seq = entry->seq > team->done_seq ? entry->seq : team->done_seq;
            break;
        }
    }
    const struct rs_flight_group *group =
        member->local == RS_FLIGHT_NO_GROUP ? NULL : &dump->groups[member->local];
    const bool has_status =
        group && group->last_enqueued != RS_FLIGHT_UNKNOWN && !dump->is_half_blind;
    if (has_status && group->last_enqueued > member->last_seq)
        member->last_seq = group->last_enqueued;
    member->has_unknown_tail = (dump->is_partial || dump->is_sparse) && !has_status;
}

/* Counting sort of all collectives by (team, member). */
static enum rs_status sort_into_members(struct hang_work *work)
{
    const struct rs_flight_set *set = work->set;
    work->calls = rs_mem_calloc(set->entry_count + 1, sizeof *work->calls);
    if (!work->calls)
        return RS_NOMEM;
    for (int pass = 0; pass < 2; pass++) {
        size_t next = 0;
        for (size_t t = 0; pass && t < work->hang->group_count; t++)
            for (size_t m = 0; m < work->teams[t].member_count; m++) {
                struct hang_member *member = &work->teams[t].members[m];
                member->first = next;
                next += member->count;
                member->count = 0;
            }
        for (size_t n = 0; n < work->node_count; n++) {
            struct hang_node *node = &work->nodes[n];
            const struct rs_flight_dump *dump = hang_dump(work, node);
            struct hang_member *of_group[256] = {NULL};
            for (size_t g = 0; dump && g < dump->group_count; g++) {
                struct hang_member *member = hang_member_of(work, node->teams[g], node->rank);
                if (member)
                    member->local = (uint32_t)g;
                if (g < 256)
                    of_group[g] = member;
            }
            for (size_t i = 0; dump && i < dump->entry_count; i++) {
                const uint32_t index = (uint32_t)(dump->entry_first + i);
                const struct rs_flight_entry *entry = &set->entries[index];
                struct hang_member *member =
                    entry->group < 256
                        ? of_group[entry->group]
                        : hang_member_of(work, node->teams[entry->group], node->rank);
                if (!member || !is_collective(entry))
                    continue;
                if (pass)
                    work->calls[member->first + member->count] = index;
                member->count++;
            }
        }
    }
    return RS_OK;
}

/* A dump that lacks what another rank saw end together with it is an older picture: its frontier proves nothing. */
static void find_stale(struct hang_work *work)
{
    for (size_t t = 0; t < work->hang->group_count; t++) {
        const struct hang_team *team = &work->teams[t];
        for (size_t m = 0; m < team->member_count; m++) {
            const struct hang_member *member = &team->members[m];
            struct hang_node *node = &work->nodes[member->node];
            if (node->dump >= 0 && member->count && !member->has_unknown_tail &&
                member->last_seq < team->done_seq)
                node->is_stale = true;
        }
    }
    for (size_t n = 0; n < work->node_count; n++) {
        struct hang_node *node = &work->nodes[n];
        const struct rs_flight_dump *dump = hang_dump(work, node);
        node->is_blind = !dump || node->is_stale || !dump->entry_count;
        work->hang->stale_dumps += node->is_stale;
        work->hang->partial_dumps += dump && dump->is_partial;
        work->hang->is_half_blind = work->hang->is_half_blind || (dump && dump->is_half_blind);
        if (dump && dump->dropped > 0 &&
            __builtin_add_overflow(work->hang->dropped_calls, dump->dropped,
                                   &work->hang->dropped_calls))
            work->hang->dropped_calls = INT64_MAX; /* what a dump claims is anybody's number */
    }
}

enum rs_status hang_find_groups(struct hang_work *work)
{
    struct drafts drafts = {0};
    enum rs_status status = find_nodes(work);
    if (status == RS_OK)
        status = find_drafts(work, &drafts);
    if (status == RS_OK)
        status = settle_groups(work, &drafts);
    for (size_t i = 0; i < drafts.count; i++)
        rs_mem_free(drafts.items[i].ranks);
    rs_mem_free(drafts.items);
    if (status == RS_OK)
        status = sort_into_members(work);
    if (status != RS_OK)
        return status;
    for (size_t t = 0; t < work->hang->group_count; t++)
        for (size_t m = 0; m < work->teams[t].member_count; m++)
            settle_member(work, &work->teams[t], &work->teams[t].members[m]);
    find_stale(work);
    return RS_OK;
}
