/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every call that is not over: for whom does it wait?
 *
 * A member of a collective is in when its dump has the call, when the ring is already past it, when its recorder counted
 * it, or when anybody saw the collective end (which takes all of them). It is missing when its dump ends before it. It is
 * blind when nobody can know: no dump, a truncated or older one, a ring that no longer reaches back.
 *
 *   all others in, or only blind ones left   -> the blind are what is left: an edge of kind UNKNOWN to each
 *   some missing                             -> an edge to each of them; blind ones are left out, the missing suffice
 *   all in, nobody through                   -> who has it behind another open call that the waiting rank has not made, or
 *                                               made later (crossed order), or has not begun while others have: BEHIND
 *
 * Sends and receives are matched per pair and direction: by number where both rings hold everything, else from their ends:
 * an open one waits for the other side if that has no open one for it. Where both sides are there, and neither has an open call of
 * this group before it, it is the transfer itself that stands.
 */
#include "aggregator/analysis/hang/hang_priv.h"
#include "common/base/mem.h"

#include <string.h>

/* --- collectives ------------------------------------------------------------------------------------------------ */

enum arrival { IN, MISSING, BLIND };

/* A ring that has nothing of this group any more: had it made the call lately, the ring would still have it. */
static bool reaches_back(const struct hang_work *work, const struct hang_node *node,
                         int64_t waiting_since)
{
    const struct rs_flight_dump *dump = hang_dump(work, node);
    if (!dump)
        return false;
    if (dump->dropped <= 0)
        return true;
    const int64_t oldest = work->set->entries[dump->entry_first].created_ns;
    return oldest != RS_FLIGHT_UNKNOWN && waiting_since != RS_FLIGHT_UNKNOWN &&
           oldest < waiting_since;
}

static enum arrival arrival_of(const struct hang_work *work, const struct hang_member *member,
                               int64_t seq, int64_t waiting_since)
{
    const struct hang_node *node = &work->nodes[member->node];
    if (member->last_seq >= seq)
        return IN;
    if (node->is_blind || member->has_unknown_tail)
        return BLIND;
    if (!member->count && member->last_seq < 0 && !reaches_back(work, node, waiting_since))
        return BLIND;
    return MISSING;
}

static enum rs_status put_list(struct hang_work *work, uint32_t member)
{
    const enum rs_status status = rs_mem_grow((void **)&work->lists, &work->list_capacity,
                                              work->list_count + 1, sizeof *work->lists);
    if (status == RS_OK)
        work->lists[work->list_count++] = member;
    return status;
}

/* When the first of those who are in called it. */
static int64_t first_created(const struct hang_work *work, const struct hang_team *team,
                             int64_t seq)
{
    int64_t first = RS_FLIGHT_UNKNOWN;
    for (size_t m = 0; m < team->member_count; m++) {
        const struct rs_flight_entry *call = hang_call(work, &team->members[m], seq);
        if (call && call->created_ns != RS_FLIGHT_UNKNOWN &&
            (first == RS_FLIGHT_UNKNOWN || call->created_ns < first))
            first = call->created_ns;
    }
    return first;
}

static enum rs_status look_at_op(struct hang_work *work, struct hang_op *op)
{
    const struct hang_team *team = &work->teams[op->team];
    enum rs_status status = RS_OK;
    const int64_t since = first_created(work, team, op->seq);
    op->is_done = team->done_seq >= op->seq;
    for (int blind = 0; blind < 2 && status == RS_OK; blind++) {
        *(blind ? &op->blind_first : &op->missing_first) = work->list_count;
        for (size_t m = 0; m < team->member_count && !op->is_done && status == RS_OK; m++) {
            const struct hang_member *member = &team->members[m];
            const enum arrival arrival = arrival_of(work, member, op->seq, since);
            if (arrival == (blind ? BLIND : MISSING))
                status = put_list(work, (uint32_t)m);
            if (blind || arrival != IN)
                continue;
            op->in_count++;
            const struct rs_flight_entry *call = hang_call(work, member, op->seq);
            op->is_started = op->is_started || (call && call->state == RS_FLIGHT_STARTED);
        }
        *(blind ? &op->blind_count : &op->missing_count) =
            work->list_count - (blind ? op->blind_first : op->missing_first);
    }
    return status;
}

struct hang_op *hang_op_of(struct hang_work *work, uint32_t team, int64_t seq)
{
    /* Open calls of a hung job are few different ones, asked for again and again. */
    for (size_t i = work->op_count; i--;)
        if (work->ops[i].team == team && work->ops[i].seq == seq)
            return &work->ops[i];
    if (rs_mem_grow((void **)&work->ops, &work->op_capacity, work->op_count + 1,
                    sizeof *work->ops) != RS_OK)
        return NULL;
    struct hang_op *op = &work->ops[work->op_count];
    *op = (struct hang_op){.team = team, .seq = seq};
    if (look_at_op(work, op) != RS_OK)
        return NULL;
    work->op_count++;
    return op;
}

/* --- edges ------------------------------------------------------------------------------------------------------ */

static enum rs_status add_edge(struct hang_work *work, uint32_t from, uint32_t to, uint32_t entry,
                               enum hang_edge_kind kind)
{
    if (from == to || to == HANG_NO_NODE)
        return RS_OK;
    const enum rs_status status = rs_mem_grow((void **)&work->edges, &work->edge_capacity,
                                              work->edge_count + 1, sizeof *work->edges);
    if (status == RS_OK)
        work->edges[work->edge_count++] =
            (struct hang_edge){.from = from, .to = to, .entry = entry, .kind = (uint8_t)kind};
    return status;
}

static bool is_open(const struct hang_work *work, const struct rs_flight_dump *dump,
                    const struct rs_flight_entry *entry)
{
    (void)work;
    return !rs_flight_is_done(dump, entry) && entry->op != RS_FLIGHT_COALESCED;
}

/* Is `call` of this node behind another open call of its own that `waiter` did not make before the same one? */
static bool is_crossed(struct hang_work *work, const struct hang_node *node,
                       const struct rs_flight_entry *call, const struct hang_node *waiter,
                       const struct rs_flight_entry *waiters_call)
{
    const struct rs_flight_dump *dump = hang_dump(work, node);
    for (size_t i = dump ? dump->entry_count : 0; i--;) {
        const struct rs_flight_entry *other = &work->set->entries[dump->entry_first + i];
        if (other->record_id >= call->record_id || !is_open(work, dump, other) ||
            (other->flags & RS_FLIGHT_P2P))
            continue;
        const uint32_t team = node->teams[other->group];
        const struct hang_member *theirs = hang_member_of(work, team, waiter->rank);
        if (team == waiter->teams[waiters_call->group] || !theirs)
            continue;
        const struct rs_flight_entry *same = hang_call(work, theirs, other->seq);
        if (!same ? theirs->last_seq < other->seq : same->record_id > waiters_call->record_id)
            return true;
    }
    return false;
}

/* All are in and nobody is through: who holds it back? */
static enum rs_status edges_behind(struct hang_work *work, uint32_t from, uint32_t entry,
                                   const struct hang_op *op)
{
    const struct rs_flight_entry *call = &work->set->entries[entry];
    const struct hang_team *team = &work->teams[op->team];
    enum rs_status status = RS_OK;
    for (size_t m = 0; m < team->member_count && status == RS_OK; m++) {
        const struct hang_member *member = &team->members[m];
        const struct hang_node *node = &work->nodes[member->node];
        const struct rs_flight_dump *dump = hang_dump(work, node);
        const struct rs_flight_entry *theirs = hang_call(work, member, op->seq);
        if (!theirs || member->node == from)
            continue;
        const bool is_not_begun = op->is_started && dump->knows_starts &&
                                  theirs->state == RS_FLIGHT_SCHEDULED &&
                                  call->state == RS_FLIGHT_STARTED;
        if (is_not_begun || is_crossed(work, node, theirs, &work->nodes[from], call))
            status = add_edge(work, from, member->node, entry, HANG_BEHIND);
    }
    return status;
}

static enum rs_status edges_of_list(struct hang_work *work, uint32_t from, uint32_t entry,
                                    const struct hang_op *op, enum hang_edge_kind kind)
{
    const size_t first = kind == HANG_UNKNOWN ? op->blind_first : op->missing_first;
    const size_t count = kind == HANG_UNKNOWN ? op->blind_count : op->missing_count;
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < count && status == RS_OK; i++)
        status = add_edge(work, from, work->teams[op->team].members[work->lists[first + i]].node,
                          entry, kind);
    return status;
}

static enum rs_status add_wait(struct hang_work *work, uint32_t from, uint32_t entry,
                               size_t edges_before, bool is_p2p)
{
    struct rs_hang *hang = work->hang;
    const struct hang_node *node = &work->nodes[from];
    const struct rs_flight_entry *call = &work->set->entries[entry];
    struct rs_hang_wait *waits = rs_mem_realloc(hang->waits, hang->wait_count + 1, sizeof *waits);
    if (!waits)
        return RS_NOMEM;
    hang->waits = waits;
    const size_t count = work->edge_count - edges_before;
    const bool is_timed = node->taken_ns != RS_NULL && call->created_ns != RS_FLIGHT_UNKNOWN;
    waits[hang->wait_count++] = (struct rs_hang_wait){
        .rank = node->rank,
        .group = node->teams[call->group],
        .seq = call->seq,
        .for_rank = count ? work->nodes[work->edges[edges_before].to].rank : -1,
        .for_count = count,
        .since_ns = call->created_ns == RS_FLIGHT_UNKNOWN ? RS_NULL : call->created_ns,
        .waited_ns = is_timed ? node->taken_ns - call->created_ns : RS_NULL,
        .op = (enum rs_flight_op)call->op,
        .is_p2p = is_p2p};
    return RS_OK;
}

static enum rs_status collective(struct hang_work *work, uint32_t from, uint32_t entry)
{
    struct hang_node *node = &work->nodes[from];
    const struct rs_flight_entry *call = &work->set->entries[entry];
    const uint32_t team = node->teams[call->group];
    const size_t before = work->edge_count;
    if (team == RS_FLIGHT_NO_GROUP)
        return RS_OK;
    const struct hang_op *op = hang_op_of(work, team, call->seq);
    if (!op)
        return RS_NOMEM;
    if (op->is_done)
        return RS_OK; /* another rank saw it end: this one's watchdog had not looked yet */
    enum rs_status status = RS_OK;
    if (op->missing_count)
        status = edges_of_list(work, from, entry, op, HANG_NOT_CALLED);
    else if (op->blind_count)
        status = edges_of_list(work, from, entry, op, HANG_UNKNOWN);
    else
        status = edges_behind(work, from, entry, op);
    node->waits = true;
    node->is_inside = node->is_inside || work->edge_count == before;
    return status == RS_OK ? add_wait(work, from, entry, before, false) : status;
}

/* --- sends and receives ----------------------------------------------------------------------------------------- */

/* The list of a dump is in the order of group ranks. */
static int32_t global_rank(const struct rs_flight_group *group, const char *desc, int32_t rank)
{
    if (rank >= 0 && (size_t)rank < group->rank_count)
        return group->ranks[rank];
    return strcmp(desc, "default_pg") == 0 ? rank : -1;
}

uint32_t hang_peer(const struct hang_work *work, const struct hang_node *node,
                   const struct rs_flight_entry *entry)
{
    const struct rs_flight_dump *dump = hang_dump(work, node);
    if (!dump)
        return HANG_NO_NODE;
    const struct rs_flight_group *group = &dump->groups[entry->group];
    const char *desc = rs_strtab_text(&work->set->strings, group->desc);
    const int32_t other = entry->op == RS_FLIGHT_SEND ? entry->peer_dst : entry->peer_src;
    const int32_t rank = global_rank(group, desc, other);
    return rank < 0 ? HANG_NO_NODE : hang_node_of(work, rank);
}

struct pair_count {
    size_t all, open;
    size_t before; /* of them before the one asked for */
    size_t open_before;
};

/* Calls of `op` of one node with `peer` in one team. */
static struct pair_count count_pairs(const struct hang_work *work, const struct hang_node *node,
                                     uint32_t team, uint8_t op, uint32_t peer, int64_t record_id)
{
    const struct rs_flight_dump *dump = hang_dump(work, node);
    struct pair_count count = {0};
    for (size_t i = 0; dump && i < dump->entry_count; i++) {
        const struct rs_flight_entry *entry = &work->set->entries[dump->entry_first + i];
        if (entry->op != op || node->teams[entry->group] != team ||
            hang_peer(work, node, entry) != peer)
            continue;
        const bool open = is_open(work, dump, entry);
        count.before += entry->record_id < record_id;
        count.open_before += open && entry->record_id < record_id;
        count.all++;
        count.open += open;
    }
    return count;
}

/* Has this node another open call of this team before the one of `op` with `peer` that is the next after `skip` open ones? Calls of a
 * group run in their order: it may be that one which holds both sides up. */
static bool is_behind(const struct hang_work *work, const struct hang_node *node, uint32_t team,
                      uint8_t op, uint32_t peer, size_t skip)
{
    const struct rs_flight_dump *dump = hang_dump(work, node);
    bool is_any_before = false;
    for (size_t i = 0; dump && i < dump->entry_count; i++) {
        const struct rs_flight_entry *entry = &work->set->entries[dump->entry_first + i];
        if (node->teams[entry->group] != team || !is_open(work, dump, entry))
            continue;
        if (entry->op == op && hang_peer(work, node, entry) == peer && skip-- == 0)
            return is_any_before;
        is_any_before = true;
    }
    return true;
}

static bool is_whole(const struct rs_flight_dump *dump)
{
    return dump->dropped == 0 && !dump->is_partial && !dump->is_sparse;
}

static enum rs_status point_to_point(struct hang_work *work, uint32_t from, uint32_t entry)
{
    struct hang_node *node = &work->nodes[from];
    const struct rs_flight_dump *dump = hang_dump(work, node);
    const struct rs_flight_entry *call = &work->set->entries[entry];
    const uint32_t team = node->teams[call->group];
    const uint32_t to = hang_peer(work, node, call);
    const size_t before = work->edge_count;
    if (to == HANG_NO_NODE || to == from || team == RS_FLIGHT_NO_GROUP)
        return RS_OK;
    const struct hang_node *other = &work->nodes[to];
    const struct rs_flight_dump *theirs = hang_dump(work, other);
    enum rs_status status = RS_OK;
    node->waits = true;
    if (!theirs || other->is_blind || theirs->is_partial || theirs->is_sparse) {
        status = add_edge(work, from, to, entry, HANG_UNKNOWN);
    } else {
        const uint8_t opposite = call->op == RS_FLIGHT_SEND ? RS_FLIGHT_RECV : RS_FLIGHT_SEND;
        const struct pair_count own = count_pairs(work, node, team, call->op, to, call->record_id);
        const struct pair_count mates = count_pairs(work, other, team, opposite, from, INT64_MAX);
        const bool is_there = is_whole(dump) && is_whole(theirs) ? mates.all > own.before
                                                                 : mates.open > own.open_before;
        if (!is_there)
            status = add_edge(work, from, to, entry, HANG_NOT_CALLED);
        else if (!is_behind(work, node, team, call->op, to, own.open_before) &&
                 !is_behind(work, other, team, opposite, from, own.open_before))
            node->is_inside = true;
    }
    return status == RS_OK ? add_wait(work, from, entry, before, true) : status;
}

/* --- every rank ------------------------------------------------------------------------------------------------- */

/* The longest pause between two calls: what this job calls normal. The last ones may be part of the trouble, and a first
 * pause is start-up. */
static int64_t longest_gap(const struct hang_work *work, const struct rs_flight_dump *dump)
{
    int64_t longest = 0;
    for (size_t i = 2; i < dump->entry_count; i++) {
        const struct rs_flight_entry *entry = &work->set->entries[dump->entry_first + i];
        if (entry->created_ns == RS_FLIGHT_UNKNOWN || entry[-1].created_ns == RS_FLIGHT_UNKNOWN ||
            !rs_flight_is_done(dump, entry))
            continue;
        const int64_t gap = entry->created_ns - entry[-1].created_ns;
        longest = gap > longest ? gap : longest;
    }
    return longest;
}

/* The time of a file is when the dump was written unless somebody copied it: believed from the last call on, for a week. It is
 * later than what the dump shows: putting names to the frames of a stack takes seconds on a busy node (4 to begin with, and 3 ms a
 * call: twice of what was seen), so that much of a wait is not counted. The time of asking is earlier than what the dump shows: a rank
 * that works made calls before it answered, and its dump is as old as the last of them. */
static int64_t taken_of(const struct hang_work *work, const struct rs_flight_dump *dump)
{
    const int64_t week_ns = INT64_C(7) * 24 * 3600 * 1000000000;
    int64_t last = RS_FLIGHT_UNKNOWN;
    int64_t naming_ns = 0;
    for (size_t i = 0; i < dump->entry_count; i++) {
        const struct rs_flight_entry *entry = &work->set->entries[dump->entry_first + i];
        last = entry->created_ns > last ? entry->created_ns : last;
        naming_ns += entry->frames ? INT64_C(3000000) : 0;
    }
    if (dump->taken_ns == RS_FLIGHT_UNKNOWN || last == RS_FLIGHT_UNKNOWN)
        return RS_NULL;
    int64_t age_ns = 0; /* both times are anybody's numbers */
    if (dump->is_taken_known && dump->taken_ns < last &&
        !__builtin_sub_overflow(last, dump->taken_ns, &age_ns) &&
        age_ns <= INT64_C(60) * 1000000000)
        return last;
    if (dump->taken_ns < last || __builtin_sub_overflow(dump->taken_ns, last, &age_ns) ||
        age_ns > week_ns)
        return RS_NULL;
    if (dump->is_taken_known || !naming_ns)
        return dump->taken_ns;
    naming_ns += INT64_C(4) * 1000000000;
    return age_ns > naming_ns ? dump->taken_ns - naming_ns : last;
}

/* What of a group waits. */
struct has {
    bool collective, send, recv;
};

/* The first open collective of each group waits; those behind it wait for it. Of sends and receives the first of each
 * direction is enough. */
static enum rs_status edges_of_node(struct hang_work *work, uint32_t index)
{
    struct hang_node *node = &work->nodes[index];
    const struct rs_flight_dump *dump = hang_dump(work, node);
    struct has *has = rs_mem_calloc((dump ? dump->group_count : 0) + 1, sizeof *has);
    enum rs_status status = has ? RS_OK : RS_NOMEM;
    for (size_t i = 0; dump && i < dump->entry_count && status == RS_OK; i++) {
        const uint32_t entry = (uint32_t)(dump->entry_first + i);
        const struct rs_flight_entry *call = &work->set->entries[entry];
        if (call->flags & RS_FLIGHT_TIMED_OUT)
            work->hang->has_timed_out = true;
        if (!is_open(work, dump, call))
            continue;
        struct has *of_group = &has[call->group];
        if (call->op == RS_FLIGHT_SEND || call->op == RS_FLIGHT_RECV) {
            bool *is_there = call->op == RS_FLIGHT_SEND ? &of_group->send : &of_group->recv;
            if (!*is_there)
                status = point_to_point(work, index, entry);
            *is_there = true;
        } else if (!(call->flags & RS_FLIGHT_P2P)) {
            if (!of_group->collective)
                status = collective(work, index, entry);
            of_group->collective = true;
        }
    }
    rs_mem_free(has);
    return status;
}

enum rs_status hang_find_edges(struct hang_work *work)
{
    enum rs_status status = RS_OK;
    for (uint32_t n = 0; n < work->node_count && status == RS_OK; n++) {
        struct hang_node *node = &work->nodes[n];
        const struct rs_flight_dump *dump = hang_dump(work, node);
        node->edge_first = work->edge_count;
        if (dump) {
            node->gap_ns = longest_gap(work, dump);
            node->taken_ns = taken_of(work, dump);
            if (!node->is_stale)
                status = edges_of_node(work, n);
        }
        node->edge_count = work->edge_count - node->edge_first;
    }
    return status;
}
