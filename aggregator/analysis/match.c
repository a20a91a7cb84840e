/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which rows of different ranks are one collective?
 *
 * A unit holds the operations of one communicator, per member in the order of its calls. Members join one
 * after another; the list of what was found so far carries, per operation, what it still allows
 * (latest start, earliest end, the root's times), so feasibility is held against all members
 * at the price of one comparison.
 *
 *   numbered    all have the framework's sequence number (or comms id): equal numbers belong together
 *   in step     else, of a group that files name: all have the same operations in the same order but for some at the ends
 *               (align_shift.c), and no clock that is known, or was aligned, contradicts. How far apart they ended does not matter
 *   by order    else: members of one clock domain by align.c with feasibility; then the domains' lists
 *               by align.c without clocks (types, messages, step numbers, durations between)
 *
 * Cost: members x operations, no pair of ranks is ever compared with another.
 *
 * What is accepted: across hosts, by order alone, a communicator whose operations all look alike may be
 * matched one off; its waits are not computed there anyway (clock.c).
 */
#include "aggregator/analysis/analysis_priv.h"
#include "common/base/const.h"
#include "common/base/mem.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* An open-addressing table: (key, occurrence) -> operation. */
struct map_slot {
    uint64_t key;
    uint32_t occurrence, id; /* id + 1; 0 free */
};

struct id_map {
    struct map_slot *slots;
    size_t slot_count, used;
};

static size_t map_place(const struct id_map *map, uint64_t key, uint32_t occurrence)
{
    const uint64_t mixed = (key ^ ((uint64_t)occurrence << 40)) * 0x9e3779b97f4a7c15U;
    size_t at = (size_t)(mixed >> 20) & (map->slot_count - 1);
    while (map->slots[at].id != 0 &&
           (map->slots[at].key != key || map->slots[at].occurrence != occurrence)) {
        at = (at + 1) & (map->slot_count - 1);
    }
    return at;
}

static enum rs_status map_grow(struct id_map *map)
{
    struct id_map bigger = {.slot_count = map->slot_count > 0 ? map->slot_count * 2 : 256};
    bigger.slots = rs_mem_calloc(bigger.slot_count, sizeof *bigger.slots);
    if (bigger.slots == NULL) {
        return RS_NOMEM;
    }
    for (size_t i = 0; i < map->slot_count; i++) {
        if (map->slots[i].id != 0) {
            bigger.slots[map_place(&bigger, map->slots[i].key, map->slots[i].occurrence)] =
                map->slots[i];
        }
    }
    bigger.used = map->used;
    rs_mem_free(map->slots);
    *map = bigger;
    return RS_OK;
}

/* ---- units --------------------------------------------------------------------------- */

bool match_is_collective(const struct rs_comm_op *op)
{
    return !rs_op_type_is_p2p((enum rs_op_type)op->type) && (op->flags & RS_OP_NO_CALL) == 0 &&
           (op->flags & RS_OP_IS_BATCH) == 0 && op->type != RS_OP_UNKNOWN;
}

enum rs_status unit_add_member(struct join_unit *unit, const struct join_member *member)
{
    if (rs_mem_grow((void **)&unit->members, &unit->member_capacity, unit->member_count + 1,
                    sizeof *unit->members) != RS_OK) {
        return RS_NOMEM;
    }
    unit->members[unit->member_count++] = *member;
    return RS_OK;
}

void units_fini(struct join *join)
{
    for (size_t i = 0; i < join->unit_count; i++) {
        rs_mem_free(join->units[i].members);
    }
    rs_mem_free(join->units);
    join->units = NULL;
    join->unit_count = join->unit_capacity = 0;
    for (size_t i = 0; i < join->pool_count; i++) {
        rs_mem_free(join->pools[i]);
    }
    rs_mem_free(join->pools);
    join->pools = NULL;
    join->pool_count = join->pool_capacity = 0;
}

static enum rs_status unit_for_group(struct join *join, uint32_t group, uint32_t *unit_of_group)
{
    if (unit_of_group[group] != UINT32_MAX) {
        return RS_OK;
    }
    if (rs_mem_grow((void **)&join->units, &join->unit_capacity, join->unit_count + 1,
                    sizeof *join->units) != RS_OK) {
        return RS_NOMEM;
    }
    join->units[join->unit_count] = (struct join_unit){.group = group};
    unit_of_group[group] = (uint32_t)join->unit_count++;
    return RS_OK;
}

bool match_lacks_calls(const struct rs_summary *summary)
{
    bool has_called = false, lacks = false;
    for (size_t i = 0; i < summary->op_count && !(has_called && lacks); i++) {
        const struct rs_comm_op *op = &summary->ops[i];
        const bool is_called = op->call_start < op->start;
        has_called = has_called || ((op->flags & RS_OP_ON_DEVICE) != 0 && is_called);
        lacks = lacks || ((op->flags & RS_OP_ON_DEVICE) != 0 && !is_called);
    }
    return has_called && lacks;
}

static int compare_starts(const void *left, const void *right, void *self)
{
    const struct rs_summary *summary = self;
    const uint32_t a = *(const uint32_t *)left;
    const uint32_t b = *(const uint32_t *)right;
    const rs_ns from_a = summary->ops[a].start;
    const rs_ns from_b = summary->ops[b].start;
    return from_a != from_b ? (from_a > from_b) - (from_a < from_b) : (a > b) - (a < b);
}

/* A row whose call was lost stands where it began, behind what was called after it. On one stream all begin in the order of their calls. */
static void order_by_stream(const struct rs_summary *summary, uint32_t *ops, size_t count)
{
    const struct rs_comm_op *first = &summary->ops[ops[0]];
    for (size_t i = 0; i < count; i++) {
        const struct rs_comm_op *op = &summary->ops[ops[i]];
        if ((op->flags & RS_OP_ON_DEVICE) == 0 || op->device != first->device ||
            op->stream != first->stream) {
            return;
        }
    }
    qsort_r(ops, count, sizeof *ops, compare_starts, rs_const_away(summary));
}

/* A summary is in few of a job's groups: what it takes to slice it goes by those. */
struct slicing {
    size_t *count;  /* [group] its operations in the summary; all 0 between two summaries */
    size_t *next;   /* [group] where its next one goes */
    uint32_t *used; /* groups that it is in */
    size_t used_count;
    uint32_t *unit_of_group;
};

static int compare_u32(const void *left, const void *right)
{
    const uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

/* How many collectives with a known group there are, and in which groups, ascending. */
static size_t count_groups(const struct join *join, size_t s, struct slicing *slicing)
{
    const struct rs_summary *summary = join->out->summaries[s];
    const uint32_t *op_group = &join->op_group[join->op_base[s]];
    size_t total = 0;
    slicing->used_count = 0;
    for (size_t i = 0; i < summary->op_count; i++) {
        if (op_group[i] != RS_NO_GROUP && match_is_collective(&summary->ops[i])) {
            if (slicing->count[op_group[i]]++ == 0) {
                slicing->used[slicing->used_count++] = op_group[i];
            }
            total++;
        }
    }
    if (slicing->used_count > 1) {
        qsort(slicing->used, slicing->used_count, sizeof *slicing->used, compare_u32);
    }
    return total;
}

/* One summary's collectives with a known group, sorted into slices of a pool by job group. */
static enum rs_status slice_summary(struct join *join, size_t s, struct slicing *slicing)
{
    const struct rs_summary *summary = join->out->summaries[s];
    const uint32_t *op_group = &join->op_group[join->op_base[s]];
    const bool lacks_calls = match_lacks_calls(summary);
    const size_t total = count_groups(join, s, slicing);
    uint32_t *pool;
    if (join_pool(join, total + 1, &pool) != RS_OK) {
        return RS_NOMEM;
    }
    size_t begin = 0;
    for (size_t k = 0; k < slicing->used_count; k++) {
        slicing->next[slicing->used[k]] = begin;
        begin += slicing->count[slicing->used[k]];
    }
    for (size_t i = 0; i < summary->op_count; i++) {
        if (op_group[i] != RS_NO_GROUP && match_is_collective(&summary->ops[i])) {
            pool[slicing->next[op_group[i]]++] = (uint32_t)i;
        }
    }
    for (size_t k = 0; k < slicing->used_count; k++) {
        const uint32_t group = slicing->used[k];
        const size_t count = slicing->count[group];
        const struct join_member member = {(uint32_t)s, pool + slicing->next[group] - count, count};
        slicing->count[group] = 0;
        if (lacks_calls) {
            order_by_stream(summary, pool + slicing->next[group] - count, count);
        }
        if (unit_for_group(join, group, slicing->unit_of_group) != RS_OK ||
            unit_add_member(&join->units[slicing->unit_of_group[group]], &member) != RS_OK) {
            return RS_NOMEM;
        }
    }
    return RS_OK;
}

/* Summaries come in order of rank, so members do. */
enum rs_status match_known_units(struct join *join)
{
    const size_t groups = join->out->group_count;
    struct slicing slicing = {
        .count = rs_mem_calloc(groups + 1, sizeof *slicing.count),
        .next = rs_mem_calloc(groups + 1, sizeof *slicing.next),
        .used = rs_mem_calloc(groups + 1, sizeof *slicing.used),
        .unit_of_group = rs_mem_calloc(groups + 1, sizeof *slicing.unit_of_group),
    };
    enum rs_status status = slicing.count != NULL && slicing.next != NULL && slicing.used != NULL &&
                                    slicing.unit_of_group != NULL
                                ? RS_OK
                                : RS_NOMEM;
    for (size_t g = 0; g < groups && status == RS_OK; g++) {
        slicing.unit_of_group[g] = UINT32_MAX;
    }
    for (size_t s = 0; s < join->out->summary_count && status == RS_OK; s++) {
        if (join->out->ranks[s].takes_part && groups > 0) {
            status = slice_summary(join, s, &slicing);
        }
    }
    rs_mem_free(slicing.count);
    rs_mem_free(slicing.next);
    rs_mem_free(slicing.used);
    rs_mem_free(slicing.unit_of_group);
    return status;
}

/* ---- one unit ------------------------------------------------------------------------ */

enum numbering { BY_SEQ, BY_COMMS_ID, BY_ORDER };

/* A coalesced launch gives its operations one number; this many of one type are no numbering. */
enum { REPEATS_MAX = 64 };

struct matching {
    struct join *join;
    const struct join_unit *unit;
    struct align_list list;   /* the operations found */
    uint32_t **ids;           /* [member][i] -> id of the operation */
    struct align_item *items; /* scratch: one member's */
    size_t *positions;        /* scratch */
    struct id_map map;
    struct align_list *domain_lists;
    size_t domain_count;
};

/* Numbers count when everybody has them and they never go back: a constant is no numbering. */
static enum numbering choose_numbering(const struct join *join, const struct join_unit *unit)
{
    bool all_seq = true, all_ids = true;
    for (size_t m = 0; m < unit->member_count && (all_seq || all_ids); m++) {
        const struct join_member *member = &unit->members[m];
        int64_t last = 0;
        size_t repeats = 0;
        for (size_t i = 0; i < member->count; i++) {
            const struct rs_comm_op *op = join_op(join, member->summary, member->ops[i]);
            repeats = i > 0 && op->seq == last ? repeats + 1 : 0;
            all_seq = all_seq && op->seq >= last && repeats < REPEATS_MAX;
            all_ids = all_ids && op->comms_id != 0;
            last = op->seq;
        }
    }
    return all_seq ? BY_SEQ : all_ids ? BY_COMMS_ID : BY_ORDER;
}

static void fill_items(const struct matching *mt, size_t m)
{
    const struct join_member *member = &mt->unit->members[m];
    const int32_t rank = mt->join->out->ranks[member->summary].rank;
    for (size_t i = 0; i < member->count; i++) {
        const struct rs_comm_op *op = join_op(mt->join, member->summary, member->ops[i]);
        struct align_item *item = &mt->items[i];
        align_item_from(mt->join, member->summary, op, item);
        const int32_t root =
            (op->flags & RS_OP_ROOT_IN_GROUP) != 0
                ? group_global_rank(mt->join, member->summary, op, mt->unit->group, op->root)
                : op->root;
        if (root >= 0 && root == rank) {
            item->has_root = true;
            item->root_start = item->max_start;
            item->root_end = item->min_end;
        }
    }
}

static enum rs_status append_item(struct align_list *list, const struct align_item *item,
                                  uint32_t *id_p)
{
    if (rs_mem_grow((void **)&list->items, &list->capacity, list->count + 1, sizeof *list->items) !=
        RS_OK) {
        return RS_NOMEM;
    }
    list->items[list->count] = *item;
    list->items[list->count++].id = *id_p = list->next_id++;
    return RS_OK;
}

/* The k-th operation of one number and type on this rank: joins the k-th of the others, or is the first. */
static enum rs_status join_one(struct matching *mt, size_t m, uint64_t key,
                               const struct align_item *item, uint32_t *id_p)
{
    if (mt->map.used * 2 >= mt->map.slot_count && map_grow(&mt->map) != RS_OK) {
        return RS_NOMEM;
    }
    for (uint32_t occurrence = 0; occurrence < REPEATS_MAX; occurrence++) {
        struct map_slot *slot = &mt->map.slots[map_place(&mt->map, key, occurrence)];
        if (slot->id == 0) {
            if (append_item(&mt->list, item, id_p) != RS_OK) {
                return RS_NOMEM;
            }
            mt->list.items[*id_p].last_member = (uint32_t)m;
            *slot = (struct map_slot){key, occurrence, *id_p + 1};
            mt->map.used++;
            return RS_OK;
        }
        struct align_item *known = &mt->list.items[slot->id - 1];
        if (known->last_member != (uint32_t)m) {
            align_item_merge(known, item);
            known->last_member = (uint32_t)m;
            *id_p = known->id;
            return RS_OK;
        }
    }
    return append_item(&mt->list, item, id_p); /* no number, then: this row stays alone */
}

/* Same number, same type. */
static enum rs_status join_numbered(struct matching *mt, size_t m, enum numbering numbering)
{
    const struct join_member *member = &mt->unit->members[m];
    for (size_t i = 0; i < member->count; i++) {
        const struct align_item *item = &mt->items[i];
        const uint64_t number = numbering == BY_SEQ ? (uint64_t)item->seq : item->comms_id;
        const uint64_t key = number * RS_OP_TYPE_COUNT + item->type;
        if (join_one(mt, m, key, item, &mt->ids[m][i]) != RS_OK) {
            return RS_NOMEM;
        }
    }
    return RS_OK;
}

static int compare_by_seq(const void *left, const void *right)
{
    const struct align_item *a = left, *b = right;
    if (a->seq != b->seq) {
        return a->seq > b->seq ? 1 : -1;
    }
    return (a->id > b->id) - (a->id < b->id);
}

static int compare_by_start(const void *left, const void *right)
{
    const struct align_item *a = left, *b = right;
    if (a->max_start != b->max_start) {
        return a->max_start > b->max_start ? 1 : -1;
    }
    return (a->id > b->id) - (a->id < b->id);
}

static enum rs_status match_numbered(struct matching *mt, enum numbering numbering)
{
    for (size_t m = 0; m < mt->unit->member_count; m++) {
        fill_items(mt, m);
        if (join_numbered(mt, m, numbering) != RS_OK) {
            return RS_NOMEM;
        }
    }
    if (mt->list.count > 1) {
        qsort(mt->list.items, mt->list.count, sizeof *mt->list.items,
              numbering == BY_SEQ ? compare_by_seq : compare_by_start);
    }
    return RS_OK;
}

/* Members of one domain into that domain's list. */
static enum rs_status join_by_order(struct matching *mt, size_t m, struct align_list *list)
{
    const struct align_rules rules = {
        .kind = ALIGN_COLLECTIVE, .has_clock = true, .is_one_group = !mt->unit->is_inferred};
    const size_t count = mt->unit->members[m].count;
    struct align_result found;
    fill_items(mt, m);
    if (align_find((struct align_side){list->items, list->count},
                   (struct align_side){mt->items, count}, &rules, mt->positions, &found) != RS_OK ||
        align_merge(list, mt->items, count, true, mt->positions, mt->ids[m]) != RS_OK) {
        return RS_NOMEM;
    }
    return RS_OK;
}

/* A domain's list into the unit's, without clocks; its members' ids follow. */
static enum rs_status join_domain(struct matching *mt, uint32_t domain, struct align_list *own)
{
    const struct align_rules rules = {.kind = ALIGN_COLLECTIVE, .has_clock = false};
    uint32_t *ids = rs_mem_calloc(own->count + 1, sizeof *ids);
    uint32_t *by_id = rs_mem_calloc(own->count + 1, sizeof *by_id);
    size_t *positions = rs_mem_calloc(own->count + 1, sizeof *positions);
    enum rs_status status = RS_NOMEM;
    struct align_result found;
    if (ids == NULL || by_id == NULL || positions == NULL ||
        align_find((struct align_side){mt->list.items, mt->list.count},
                   (struct align_side){own->items, own->count}, &rules, positions,
                   &found) != RS_OK ||
        align_merge(&mt->list, own->items, own->count, false, positions, ids) != RS_OK) {
        goto done;
    }
    for (size_t i = 0; i < own->count; i++) {
        by_id[own->items[i].id] = ids[i];
    }
    for (size_t m = 0; m < mt->unit->member_count; m++) {
        const struct join_member *member = &mt->unit->members[m];
        for (size_t i = 0; i < member->count && mt->join->domain[member->summary] == domain; i++) {
            mt->ids[m][i] = by_id[mt->ids[m][i]];
        }
    }
    status = RS_OK;
done:
    rs_mem_free(ids);
    rs_mem_free(by_id);
    rs_mem_free(positions);
    return status;
}

/* The distinct domains of the members, sorted. Caller frees. */
static uint32_t *domains_of(const struct matching *mt, size_t *count_p)
{
    const struct join_unit *unit = mt->unit;
    uint32_t *domains = rs_mem_calloc(unit->member_count + 1, sizeof *domains);
    if (domains == NULL) {
        return NULL;
    }
    for (size_t m = 0; m < unit->member_count; m++) {
        domains[m] = mt->join->domain[unit->members[m].summary];
    }
    qsort(domains, unit->member_count, sizeof *domains, compare_u32);
    size_t count = 0;
    for (size_t m = 0; m < unit->member_count; m++) {
        if (count == 0 || domains[count - 1] != domains[m]) {
            domains[count++] = domains[m];
        }
    }
    *count_p = count;
    return domains;
}

/* ---- in step --------------------------------------------------------------------------- */

/* Does no operation of mt->ids contradict the clock of `domain`? all, seen: scratch, [mt->list.next_id]. */
static bool is_feasible_on(struct matching *mt, uint32_t domain, struct align_item *all, bool *seen)
{
    const struct align_rules rules = {.kind = ALIGN_COLLECTIVE, .has_clock = true};
    const struct join_unit *unit = mt->unit;
    memset(seen, 0, mt->list.next_id * sizeof *seen);
    for (size_t m = 0; m < unit->member_count; m++) {
        if (mt->join->domain[unit->members[m].summary] != domain) {
            continue;
        }
        fill_items(mt, m);
        for (size_t i = 0; i < unit->members[m].count; i++) {
            struct align_item *known = &all[mt->ids[m][i]];
            if (!seen[mt->ids[m][i]]) {
                seen[mt->ids[m][i]] = true;
                *known = mt->items[i];
            } else if (align_items_fit(known, &mt->items[i], &rules)) {
                align_item_merge(known, &mt->items[i]);
            } else {
                return false;
            }
        }
    }
    return true;
}

/* Once for each domain: at its first member. */
static bool is_first_of_domain(const struct matching *mt, size_t m)
{
    const struct join_unit *unit = mt->unit;
    for (size_t k = m; k-- > 0;) {
        if (mt->join->domain[unit->members[k].summary] ==
            mt->join->domain[unit->members[m].summary]) {
            return false;
        }
    }
    return true;
}

static enum rs_status check_clocks(struct matching *mt, bool *is_feasible_p)
{
    struct align_item *all = rs_mem_calloc(mt->list.next_id + 1U, sizeof *all);
    bool *seen = rs_mem_calloc(mt->list.next_id + 1U, sizeof *seen);
    *is_feasible_p = all != NULL && seen != NULL;
    for (size_t m = 0; m < mt->unit->member_count && *is_feasible_p; m++) {
        if (is_first_of_domain(mt, m)) {
            *is_feasible_p =
                is_feasible_on(mt, mt->join->domain[mt->unit->members[m].summary], all, seen);
        }
    }
    const enum rs_status status = all != NULL && seen != NULL ? RS_OK : RS_NOMEM;
    rs_mem_free(all);
    rs_mem_free(seen);
    return status;
}

/* mt->items, `count` rows, stand `before` rows before the list's first, or behind it: positions there. false: what only some members
 * have at an end is not the same. */
static bool place_in_list(const struct matching *mt, size_t count, ptrdiff_t before)
{
    for (size_t i = 0; i < count; i++) {
        const ptrdiff_t at = (ptrdiff_t)i - before;
        const bool is_there = at >= 0 && (size_t)at < mt->list.count;
        if (is_there && !align_same_kind(&mt->list.items[at], &mt->items[i])) {
            return false;
        }
        mt->positions[i] = is_there ? (size_t)at : ALIGN_NONE;
    }
    return true;
}

/* Members whose recordings lack nothing but rows at their ends. Each is held against the first: what several allow together would
 * mix clocks. */
static enum rs_status join_in_step(struct matching *mt, bool *done_p)
{
    const struct align_rules rules = {.kind = ALIGN_COLLECTIVE};
    const struct join_unit *unit = mt->unit;
    const size_t first_count = unit->members[0].count;
    struct align_item *first = rs_mem_calloc(first_count + 1, sizeof *first);
    enum rs_status status = first != NULL ? RS_OK : RS_NOMEM;
    bool fits = true;
    ptrdiff_t base = 0; /* where the first member's first row stands in the list */
    for (size_t m = 0; m < unit->member_count && fits && status == RS_OK; m++) {
        const size_t count = unit->members[m].count;
        ptrdiff_t before = 0;
        fill_items(mt, m);
        if (m == 0) {
            memcpy(first, mt->items, count * sizeof *first);
        } else {
            ptrdiff_t shift = 0;
            fits = align_find_shift((struct align_side){first, first_count},
                                    (struct align_side){mt->items, count}, &rules, mt->positions,
                                    &shift);
            before = -(base + shift);
        }
        fits = fits && place_in_list(mt, count, before);
        if (fits) {
            status = align_merge(&mt->list, mt->items, count, false, mt->positions, mt->ids[m]);
            base += before > 0 ? before : 0;
        }
    }
    if (fits && status == RS_OK) {
        status = check_clocks(mt, &fits);
    }
    if (!fits) {
        align_list_fini(&mt->list);
    }
    rs_mem_free(first);
    *done_p = fits && status == RS_OK;
    return status;
}

static enum rs_status match_by_order(struct matching *mt)
{
    const struct join_unit *unit = mt->unit;
    size_t count = 0;
    uint32_t *domains = domains_of(mt, &count);
    struct align_list *lists = rs_mem_calloc(count + 1, sizeof *lists);
    enum rs_status status = domains != NULL && lists != NULL ? RS_OK : RS_NOMEM;
    for (size_t m = 0; m < unit->member_count && status == RS_OK; m++) {
        const uint32_t own = mt->join->domain[unit->members[m].summary];
        const uint32_t *at = bsearch(&own, domains, count, sizeof own, compare_u32);
        status = join_by_order(mt, m, count > 1 ? &lists[at - domains] : &mt->list);
    }
    for (size_t d = 0; d < count && count > 1 && status == RS_OK; d++) {
        status = join_domain(mt, domains[d], &lists[d]);
    }
    for (size_t d = 0; d < count && lists != NULL; d++) {
        align_list_fini(&lists[d]);
    }
    rs_mem_free(lists);
    rs_mem_free(domains);
    return status;
}

/* ---- from ids to operations ---------------------------------------------------------- */

struct member_row {
    uint32_t member, index;
};

/* Sorts the rows by operation (they come by rank), and emits those that have company. */
static enum rs_status emit(struct matching *mt)
{
    const struct join_unit *unit = mt->unit;
    size_t *first = rs_mem_calloc((size_t)mt->list.next_id + 2, sizeof *first);
    size_t total = 0;
    for (size_t m = 0; m < unit->member_count; m++) {
        total += unit->members[m].count;
    }
    struct member_row *rows = rs_mem_calloc(total + 1, sizeof *rows);
    enum rs_status status = first != NULL && rows != NULL ? RS_OK : RS_NOMEM;
    if (status != RS_OK) {
        goto done;
    }
    for (size_t m = 0; m < unit->member_count; m++) {
        for (size_t i = 0; i < unit->members[m].count; i++) {
            first[mt->ids[m][i] + 2]++;
        }
    }
    for (size_t id = 0; id < mt->list.next_id; id++) {
        first[id + 2] += first[id + 1];
    }
    for (size_t m = 0; m < unit->member_count; m++) {
        for (size_t i = 0; i < unit->members[m].count; i++) {
            rows[first[mt->ids[m][i] + 1]++] = (struct member_row){(uint32_t)m, (uint32_t)i};
        }
    }
    const int64_t size = unit->group != RS_NO_GROUP ? mt->join->out->groups[unit->group].size : -1;
    for (size_t k = 0; k < mt->list.count && status == RS_OK; k++) {
        const struct align_item *item = &mt->list.items[k];
        const size_t begin = first[item->id], end = first[item->id + 1];
        struct rs_job_op *op;
        if (end - begin < 2 && size != 1) {
            continue; /* left over: match_leftovers() */
        }
        status = join_new_op(mt->join, &op);
        if (status == RS_OK) {
            op->type = item->type;
            op->group = unit->group;
            op->is_matched = true;
            op->seq = (int64_t)k;
        }
        for (size_t r = begin; r < end && status == RS_OK; r++) {
            const struct join_member *member = &unit->members[rows[r].member];
            status = join_row(mt->join, member->summary, member->ops[rows[r].index]);
        }
    }
done:
    rs_mem_free(first);
    rs_mem_free(rows);
    return status;
}

static enum rs_status take_scratch(struct matching *mt)
{
    size_t longest = 0, total = 0;
    for (size_t m = 0; m < mt->unit->member_count; m++) {
        const size_t count = mt->unit->members[m].count;
        longest = count > longest ? count : longest;
        total += count;
    }
    mt->items = rs_mem_calloc(longest + 1, sizeof *mt->items);
    mt->positions = rs_mem_calloc(longest + 1, sizeof *mt->positions);
    mt->ids = rs_mem_calloc(mt->unit->member_count + 1, sizeof *mt->ids);
    uint32_t *flat = rs_mem_calloc(total + 1, sizeof *flat);
    if (mt->ids != NULL) {
        mt->ids[0] = flat;
    }
    if (mt->items == NULL || mt->positions == NULL || mt->ids == NULL || flat == NULL) {
        if (mt->ids == NULL) {
            rs_mem_free(flat);
        }
        return RS_NOMEM;
    }
    for (size_t m = 1; m < mt->unit->member_count; m++) {
        mt->ids[m] = mt->ids[m - 1] + mt->unit->members[m - 1].count;
    }
    return RS_OK;
}

static enum rs_status match_unit(struct join *join, const struct join_unit *unit)
{
    struct matching mt = {.join = join, .unit = unit};
    enum rs_status status = take_scratch(&mt);
    if (status == RS_OK) {
        const enum numbering numbering = choose_numbering(join, unit);
        bool is_done = false;
        if (numbering == BY_ORDER && !unit->is_inferred && unit->member_count > 1) {
            status = join_in_step(&mt, &is_done);
        }
        if (status == RS_OK && !is_done) {
            status = numbering == BY_ORDER ? match_by_order(&mt) : match_numbered(&mt, numbering);
        }
    }
    if (status == RS_OK) {
        status = emit(&mt);
    }
    align_list_fini(&mt.list);
    rs_mem_free(mt.map.slots);
    rs_mem_free(mt.items);
    rs_mem_free(mt.positions);
    if (mt.ids != NULL) {
        rs_mem_free(mt.ids[0]);
    }
    rs_mem_free(mt.ids);
    return status;
}

enum rs_status match_units(struct join *join)
{
    for (size_t i = 0; i < join->unit_count; i++) {
        if (join->units[i].member_count > 0 && match_unit(join, &join->units[i]) != RS_OK) {
            return RS_NOMEM;
        }
    }
    return RS_OK;
}

/* What nobody shares: one partial operation per row. */
enum rs_status match_leftovers(struct join *join)
{
    const struct rs_analysis *out = join->out;
    for (size_t s = 0; s < out->summary_count; s++) {
        for (size_t i = 0; i < out->summaries[s]->op_count && out->ranks[s].takes_part; i++) {
            struct rs_job_op *op;
            if (join->op_done[join->op_base[s] + i]) {
                continue;
            }
            if (join_new_op(join, &op) != RS_OK) {
                return RS_NOMEM;
            }
            op->type = out->summaries[s]->ops[i].type;
            op->is_p2p = rs_op_type_is_p2p((enum rs_op_type)op->type);
            op->group = join->op_group[join->op_base[s] + i];
            if (join_row(join, s, (uint32_t)i) != RS_OK) {
                return RS_NOMEM;
            }
        }
    }
    return RS_OK;
}
