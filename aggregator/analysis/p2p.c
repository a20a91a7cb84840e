/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which send is which recv?
 *
 * The framework's numbers are kept per rank and group, so those of a pair differ: what counts is the
 * pair, the order and the bytes. Per ordered pair of ranks within a group the sends of one side
 * and the receives of the other are aligned (align.c); feasible means that no recv ends before its send
 * starts. A batch (send_recv) is aligned per unordered pair, on its own.
 *
 * On gloo a row names its peer *within the group* and not the group. So the largest group of the rank is
 * tried first (the default group is the one that all ranks share), what finds no partner there
 * tries the next smaller one.
 *
 * A batch with several peers is in as many pairs, each by its own messages; rows so connected are one operation (batch.h).
 *
 * A receive that does not name its peer (documents of a rank without its trace) is tried last: within its communicator, and on one
 * clock, the sends to its rank that are left are aligned with the receives there that are left, whoever sent them.
 *
 * What is accepted: a send whose receive was dropped in the middle of a step is paired with the
 * next one of equal size until the next step begins, if their times allow.
 */
#include "aggregator/analysis/analysis_priv.h"
#include "aggregator/analysis/batch.h"
#include "common/base/mem.h"

#include <stdlib.h>
#include <string.h>

enum { GROUP_TRIES = 4 };

struct end { /* one side of a transfer */
    uint32_t group;
    int32_t from, to; /* send -> recv; of a batch the lower and the higher rank */
    bool is_batch;
    bool is_second;          /* the receive; of a batch the higher rank's row */
    bool is_many;            /* its row has other peers, too: the three below are this pair's */
    int64_t up, down, bytes; /* from the lower rank, to it, the larger of the two; -1 unknown */
    int64_t number;          /* of a batch, among those of this pair on this side; -1 unknown */
    uint32_t summary, op;
    rs_ns ended; /* where that orders them, else 0 */
};

struct pairing {
    struct join *join;
    struct end *ends;
    size_t count, capacity;
    uint32_t *
        *tries; /* [summary] its groups, largest first, GROUP_TRIES of them; NULL until asked */
    struct align_item *items[2];
    size_t *positions;
    size_t scratch;
    struct batch_peers peers; /* scratch */
    struct batch_pairs pairs; /* of batches with several peers */
};

static int compare_ends(const void *left, const void *right)
{
    const struct end *a = left, *b = right;
    if (a->group != b->group) {
        return a->group > b->group ? 1 : -1;
    }
    if (a->is_batch != b->is_batch) {
        return a->is_batch ? 1 : -1;
    }
    if (a->from != b->from) {
        return a->from > b->from ? 1 : -1;
    }
    if (a->to != b->to) {
        return a->to > b->to ? 1 : -1;
    }
    if (a->is_second != b->is_second) {
        return a->is_second ? 1 : -1;
    }
    if (a->ended != b->ended) {
        return a->ended > b->ended ? 1 : -1;
    }
    if (a->op != b->op) {
        return a->op > b->op ? 1 : -1;
    }
    return (a->summary > b->summary) - (a->summary < b->summary);
}

static bool same_pair(const struct end *a, const struct end *b)
{
    return a->group == b->group && a->is_batch == b->is_batch && a->from == b->from &&
           a->to == b->to;
}

/* ---- whose peer is it ---------------------------------------------------------------- */

static bool holds_rank(const struct rs_job_group *group, int32_t rank)
{
    size_t low = 0, high = group->rank_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (group->ranks[middle] < rank) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < group->rank_count && group->ranks[low] == rank;
}

/* All ranks 0..n-1 of the world are here and take part: they are the default group. */
static bool is_whole_world(const struct rs_analysis *out)
{
    for (size_t s = 0; s < out->summary_count; s++) {
        if (out->ranks[s].rank != (int32_t)s || !out->ranks[s].takes_part) {
            return false;
        }
    }
    return out->world_size < 0 || out->world_size == (int64_t)out->summary_count;
}

static enum rs_status world_group(struct join *join, uint32_t *group_p)
{
    const size_t count = join->out->summary_count;
    int32_t *ranks = rs_mem_calloc(count, sizeof *ranks);
    if (ranks == NULL) {
        return RS_NOMEM;
    }
    for (size_t s = 0; s < count; s++) {
        ranks[s] = join->out->ranks[s].rank;
    }
    const enum rs_status status = group_for_ranks(join, ranks, count, group_p);
    rs_mem_free(ranks);
    return status;
}

static enum rs_status groups_to_try(struct pairing *pg, size_t s)
{
    struct join *join = pg->join;
    const struct rs_analysis *out = join->out;
    uint32_t *tries = rs_mem_calloc(GROUP_TRIES, sizeof *tries);
    if (tries == NULL) {
        return RS_NOMEM;
    }
    pg->tries[s] = tries;
    size_t count = 0;
    for (size_t t = 0; t < GROUP_TRIES; t++) {
        tries[t] = RS_NO_GROUP;
    }
    for (size_t g = 0; g < out->group_count; g++) {
        if (!holds_rank(&out->groups[g], out->ranks[s].rank) || join->keys[g].is_cut) {
            continue;
        }
        size_t at = count;
        while (at > 0 && out->groups[tries[at - 1]].rank_count < out->groups[g].rank_count) {
            if (at < GROUP_TRIES) {
                tries[at] = tries[at - 1];
            }
            at--;
        }
        if (at < GROUP_TRIES) {
            tries[at] = (uint32_t)g;
            count += count < GROUP_TRIES;
        }
    }
    return count == 0 && is_whole_world(out) ? world_group(join, &tries[0]) : RS_OK;
}

/* The group this row is tried in at this attempt, and its peer's global rank; -1: nothing to try. */
static enum rs_status peer_of(struct pairing *pg, size_t s, uint32_t op_index, size_t attempt,
                              uint32_t *group_p, int32_t *peer_p)
{
    const struct rs_comm_op *op = join_op(pg->join, s, op_index);
    *group_p = pg->join->op_group[pg->join->op_base[s] + op_index];
    *peer_p = -1;
    if ((op->flags & RS_OP_PEER_IN_GROUP) == 0) {
        *peer_p = attempt == 0 ? op->peer : -1;
        return RS_OK;
    }
    if (*group_p == RS_NO_GROUP) {
        if (pg->tries[s] == NULL && groups_to_try(pg, s) != RS_OK) {
            return RS_NOMEM;
        }
        *group_p = pg->tries[s][attempt];
    } else if (attempt > 0) {
        return RS_OK;
    }
    *peer_p = *group_p == RS_NO_GROUP ? -1 : group_global_rank(pg->join, s, op, *group_p, op->peer);
    return RS_OK;
}

/* One for each peer of a batch. Its group is known, or its peers are global. */
static enum rs_status add_many(struct pairing *pg, size_t s, uint32_t op_index)
{
    const struct rs_comm_op *op = join_op(pg->join, s, op_index);
    const int32_t rank = pg->join->out->ranks[s].rank;
    const uint32_t group = pg->join->op_group[pg->join->op_base[s] + op_index];
    if (batch_peers_of(pg->join->out->summaries[s], op, &pg->peers) != RS_OK ||
        rs_mem_grow((void **)&pg->ends, &pg->capacity, pg->count + pg->peers.count + 1,
                    sizeof *pg->ends) != RS_OK) {
        return RS_NOMEM;
    }
    for (size_t i = 0; i < pg->peers.count; i++) {
        const struct batch_peer *with = &pg->peers.items[i];
        const int32_t peer = (op->flags & RS_OP_PEER_IN_GROUP) != 0
                                 ? group_global_rank(pg->join, s, op, group, with->peer)
                                 : with->peer;
        const bool goes_out = rank < peer;
        const int64_t larger = with->sent > with->received ? with->sent : with->received;
        if (peer < 0 || peer == rank) {
            continue;
        }
        pg->ends[pg->count++] = (struct end){
            .group = group,
            .from = goes_out ? rank : peer,
            .to = goes_out ? peer : rank,
            .is_batch = true,
            .is_second = !goes_out,
            .is_many = true,
            .up = goes_out ? with->sent : with->received,
            .down = goes_out ? with->received : with->sent,
            .bytes = with->sent < 0 || with->received < 0 ? -1 : larger,
            .number = with->number,
            .summary = (uint32_t)s,
            .op = op_index,
        };
    }
    return RS_OK;
}

/* `lacks_calls`: rows of this rank whose calls were lost stand where they began, so that all are in the order in which they did. */
static enum rs_status add_end(struct pairing *pg, size_t s, uint32_t op_index, size_t attempt,
                              bool lacks_calls)
{
    const struct rs_comm_op *op = join_op(pg->join, s, op_index);
    const int32_t rank = pg->join->out->ranks[s].rank;
    const bool is_batch = op->type == RS_OP_SEND_RECV || (op->flags & RS_OP_IS_BATCH) != 0;
    uint32_t group;
    int32_t peer;
    if (peer_of(pg, s, op_index, attempt, &group, &peer) != RS_OK ||
        rs_mem_grow((void **)&pg->ends, &pg->capacity, pg->count + 1, sizeof *pg->ends) != RS_OK) {
        return RS_NOMEM;
    }
    if (peer < 0 || peer == rank) {
        return RS_OK;
    }
    const bool goes_out = is_batch ? rank < peer : op->type == RS_OP_SEND;
    pg->ends[pg->count++] = (struct end){
        .group = group,
        .from = goes_out ? rank : peer,
        .to = goes_out ? peer : rank,
        .is_batch = is_batch,
        .is_second = !goes_out,
        .up = -1,
        .down = -1,
        .number = op->seq,
        .bytes = op->op_text == RS_STR_NONE ? op->bytes : -1, /* a vendor's size is its own */
        .summary = (uint32_t)s,
        .op = op_index,
        .ended = lacks_calls && (op->flags & RS_OP_ON_DEVICE) != 0 && !is_batch ? op->start : 0,
    };
    return RS_OK;
}

static bool is_candidate(const struct join *join, size_t s, size_t i)
{
    const struct rs_comm_op *op = join_op(join, s, i);
    return rs_op_type_is_p2p((enum rs_op_type)op->type) && (op->flags & RS_OP_NO_CALL) == 0 &&
           op->peer >= 0 && !join->op_done[join->op_base[s] + i];
}

static enum rs_status collect_ends(struct pairing *pg, size_t attempt)
{
    const struct rs_analysis *out = pg->join->out;
    pg->count = 0;
    for (size_t s = 0; s < out->summary_count; s++) {
        const bool lacks_calls = match_lacks_calls(out->summaries[s]);
        for (size_t i = 0; i < out->summaries[s]->op_count && out->ranks[s].takes_part; i++) {
            const struct rs_comm_op *op = join_op(pg->join, s, i);
            enum rs_status status = RS_OK;
            if (is_candidate(pg->join, s, i)) {
                status = add_end(pg, s, (uint32_t)i, attempt, lacks_calls);
            } else if (attempt == 0 && batch_has_peers(op) && (op->flags & RS_OP_NO_CALL) == 0) {
                status = add_many(pg, s, (uint32_t)i);
            }
            if (status != RS_OK) {
                return status;
            }
        }
    }
    if (pg->count > 1) {
        qsort(pg->ends, pg->count, sizeof *pg->ends, compare_ends);
    }
    return RS_OK;
}

/* ---- one pair ------------------------------------------------------------------------ */

static enum rs_status take_scratch(struct pairing *pg, size_t need)
{
    if (need <= pg->scratch) {
        return RS_OK;
    }
    for (size_t side = 0; side < 2; side++) {
        struct align_item *items = rs_mem_realloc(pg->items[side], need, sizeof *items);
        if (items == NULL) {
            return RS_NOMEM;
        }
        pg->items[side] = items;
    }
    size_t *positions = rs_mem_realloc(pg->positions, need, sizeof *positions);
    if (positions == NULL) {
        return RS_NOMEM;
    }
    pg->positions = positions;
    pg->scratch = need;
    return RS_OK;
}

static enum rs_status keep_pair(struct pairing *pg, const struct end *first,
                                const struct end *second)
{
    const size_t *base = pg->join->op_base;
    if (rs_mem_grow((void **)&pg->pairs.items, &pg->pairs.capacity, pg->pairs.count + 1,
                    sizeof *pg->pairs.items) != RS_OK) {
        return RS_NOMEM;
    }
    pg->pairs.items[pg->pairs.count++] = (struct batch_pair){
        base[first->summary] + first->op, base[second->summary] + second->op, first->group};
    return RS_OK;
}

/* What went up and down between two ranks tells batches apart; who exchanges with one peer alone knows the larger of the two. */
static bool same_exchange(const struct end *a, const struct end *b)
{
    return (a->up < 0 || b->up < 0 || a->up == b->up) &&
           (a->down < 0 || b->down < 0 || a->down == b->down) &&
           (a->bytes < 0 || b->bytes < 0 || a->bytes == b->bytes);
}

static enum rs_status emit_pair(struct pairing *pg, const struct end *first,
                                const struct end *second, int64_t seq)
{
    struct join *join = pg->join;
    struct rs_job_op *op;
    const bool in_order = first->summary < second->summary; /* summaries are by rank */
    const struct end *low = in_order ? first : second, *high = in_order ? second : first;
    if (join_new_op(join, &op) != RS_OK) {
        return RS_NOMEM;
    }
    op->type = first->is_batch ? RS_OP_SEND_RECV : RS_OP_SEND;
    op->group = first->group;
    op->is_p2p = true;
    op->is_matched = true;
    op->seq = seq;
    join->op_group[join->op_base[low->summary] + low->op] = first->group;
    join->op_group[join->op_base[high->summary] + high->op] = first->group;
    return join_row(join, low->summary, low->op) == RS_OK &&
                   join_row(join, high->summary, high->op) == RS_OK
               ? RS_OK
               : RS_NOMEM;
}

/* Fills pg->items. Where a row has other partners, too, it ends when the last of them has: that says nothing of this one. */
static bool fill_items(struct pairing *pg, const struct end *ends, size_t sends, size_t count)
{
    bool has_many = false;
    for (size_t i = 0; i < count; i++) {
        has_many = has_many || ends[i].is_many;
    }
    for (size_t i = 0; i < count; i++) {
        const size_t side = i >= sends;
        struct align_item *item = &pg->items[side][side ? i - sends : i];
        align_item_from(pg->join, ends[i].summary, join_op(pg->join, ends[i].summary, ends[i].op),
                        item);
        item->end = has_many ? RS_NS_MIN : item->end;
        item->seq = ends[i].number;
    }
    return has_many;
}

/* ends[0..count) of one pair: `sends` of the first side, then the second side's. */
static enum rs_status match_pair(struct pairing *pg, const struct end *ends, size_t sends,
                                 size_t count)
{
    const struct join *join = pg->join;
    if (sends == 0 || sends == count) {
        return RS_OK;
    }
    if (take_scratch(pg, count) != RS_OK) {
        return RS_NOMEM;
    }
    const bool has_many = fill_items(pg, ends, sends, count);
    const uint32_t sender = ends[0].summary, receiver = ends[sends].summary;
    const struct align_rules rules = {
        .kind = ALIGN_P2P,
        .has_clock = join->domain[sender] == join->domain[receiver],
        .ends_say_nothing = (join_op(join, sender, ends[0].op)->flags & RS_OP_ON_DEVICE) == 0,
        .b_span_start = join_time(join, receiver, join->out->summaries[receiver]->span_start),
    };
    struct align_result found;
    if (align_find((struct align_side){pg->items[0], sends},
                   (struct align_side){pg->items[1], count - sends}, &rules, pg->positions,
                   &found) != RS_OK) {
        return RS_NOMEM;
    }
    if (has_many && rules.has_clock &&
        batch_keep_sure((struct align_side){pg->items[0], sends},
                        (struct align_side){pg->items[1], count - sends}, &rules,
                        pg->positions) != RS_OK) {
        return RS_NOMEM;
    }
    /* A sequence number counts what a rank exchanges with anyone of its group: it is asked only where ends say nothing. */
    if (ends[0].is_batch && (has_many || !rules.has_clock || rules.ends_say_nothing)) {
        batch_keep_in_step((struct align_side){pg->items[0], sends},
                           (struct align_side){pg->items[1], count - sends}, pg->positions);
    }
    int64_t seq = 0;
    for (size_t i = 0; i < count - sends; i++) {
        const struct end *second = &ends[sends + i];
        if (pg->positions[i] == ALIGN_NONE) {
            continue;
        }
        const struct end *first = &ends[pg->positions[i]];
        if (first->is_batch && !same_exchange(first, second)) {
            continue;
        }
        if ((first->is_many || second->is_many ? keep_pair(pg, first, second)
                                               : emit_pair(pg, first, second, seq++)) != RS_OK) {
            return RS_NOMEM;
        }
    }
    return RS_OK;
}

static enum rs_status match_ends(struct pairing *pg)
{
    for (size_t begin = 0; begin < pg->count;) {
        size_t end = begin, sends = 0;
        while (end < pg->count && same_pair(&pg->ends[begin], &pg->ends[end])) {
            sends += !pg->ends[end].is_second;
            end++;
        }
        if (match_pair(pg, &pg->ends[begin], sends, end - begin) != RS_OK) {
            return RS_NOMEM;
        }
        begin = end;
    }
    return RS_OK;
}

/* ---- receives without a peer -------------------------------------------------------------- */

static bool is_peerless(const struct join *join, size_t s, size_t i)
{
    const struct rs_comm_op *op = join_op(join, s, i);
    return op->type == RS_OP_RECV && (op->flags & (RS_OP_NO_CALL | RS_OP_IS_BATCH)) == 0 &&
           op->peer < 0 && join->op_group[join->op_base[s] + i] != RS_NO_GROUP &&
           !join->op_done[join->op_base[s] + i];
}

/* Sends that found nobody, by where they go, and receives that do not say where they come from. */
static enum rs_status collect_peerless(struct pairing *pg)
{
    const struct join *join = pg->join;
    const struct rs_analysis *out = join->out;
    bool any = false;
    pg->count = 0;
    for (size_t s = 0; s < out->summary_count; s++) {
        for (size_t i = 0; i < out->summaries[s]->op_count && out->ranks[s].takes_part; i++) {
            const bool is_recv = is_peerless(join, s, i);
            any = any || is_recv;
            if (is_recv) {
                if (rs_mem_grow((void **)&pg->ends, &pg->capacity, pg->count + 1,
                                sizeof *pg->ends) != RS_OK) {
                    return RS_NOMEM;
                }
                pg->ends[pg->count++] = (struct end){.group = join->op_group[join->op_base[s] + i],
                                                     .from = -1,
                                                     .to = out->ranks[s].rank,
                                                     .is_second = true,
                                                     .summary = (uint32_t)s,
                                                     .op = (uint32_t)i};
            } else if (is_candidate(join, s, i) && join_op(join, s, i)->type == RS_OP_SEND &&
                       (join_op(join, s, i)->flags & RS_OP_ON_DEVICE) != 0 &&
                       add_end(pg, s, (uint32_t)i, 0, false) != RS_OK) {
                return RS_NOMEM;
            }
        }
    }
    /* the sends to a rank come from several: in order of their ends, which a rendezvous has in common */
    for (size_t i = 0; i < pg->count; i++) {
        struct end *end = &pg->ends[i];
        const struct rs_comm_op *op = join_op(join, end->summary, end->op);
        end->from = -1;
        end->ended = end->is_second ? 0 : join_time(join, end->summary, op->end);
    }
    pg->count = any ? pg->count : 0;
    return RS_OK;
}

static bool are_on_one_clock(const struct join *join, const struct end *ends, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        if (join->domain[ends[i].summary] != join->domain[ends[0].summary]) {
            return false;
        }
    }
    return true;
}

static enum rs_status match_peerless(struct pairing *pg)
{
    if (collect_peerless(pg) != RS_OK) {
        return RS_NOMEM;
    }
    if (pg->count > 1) {
        qsort(pg->ends, pg->count, sizeof *pg->ends, compare_ends);
    }
    for (size_t begin = 0; begin < pg->count;) {
        size_t end = begin, sends = 0;
        while (end < pg->count && same_pair(&pg->ends[begin], &pg->ends[end])) {
            sends += !pg->ends[end].is_second;
            end++;
        }
        if (are_on_one_clock(pg->join, &pg->ends[begin], end - begin) &&
            match_pair(pg, &pg->ends[begin], sends, end - begin) != RS_OK) {
            return RS_NOMEM;
        }
        begin = end;
    }
    return RS_OK;
}

enum rs_status match_p2p(struct join *join)
{
    struct pairing pg = {.join = join};
    pg.tries = rs_mem_calloc(join->out->summary_count + 1, sizeof *pg.tries);
    enum rs_status status = pg.tries != NULL ? RS_OK : RS_NOMEM;
    for (size_t attempt = 0; attempt < GROUP_TRIES && status == RS_OK; attempt++) {
        status = collect_ends(&pg, attempt);
        if (status == RS_OK && pg.count == 0) {
            break;
        }
        if (status == RS_OK) {
            status = match_ends(&pg);
        }
        if (status == RS_OK && attempt == 0) {
            status = batch_join(join, &pg.pairs);
        }
    }
    if (status == RS_OK) {
        status = match_peerless(&pg);
    }
    for (size_t s = 0; s < join->out->summary_count && pg.tries != NULL; s++) {
        rs_mem_free(pg.tries[s]);
    }
    rs_mem_free(pg.tries);
    rs_mem_free(pg.ends);
    rs_mem_free(pg.items[0]);
    rs_mem_free(pg.items[1]);
    rs_mem_free(pg.positions);
    rs_mem_free(pg.peers.items);
    rs_mem_free(pg.pairs.items);
    return status;
}
