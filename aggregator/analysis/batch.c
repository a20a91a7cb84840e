/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From pairs of rows to operations of batches. A batch row says with whom it exchanges and, from its calls, the how manieth batch with
 * that peer it is; its end says nothing, since the slowest of its partners decides it. So:
 *
 *     p2p.c            rows of two ranks that name each other, aligned by order, bytes and overlap
 *     batch_keep_sure  a row that lost its partner could be meant wherever it fits, its partner's partner then elsewhere,
 *                      and so on: all pairs along such a chain are dropped
 *     batch_keep_in_step
 *                      numbers go up alike on both sides; a short run of pairs that are shifted against those around them is wrong
 *     batch_join       rows that the pairs left connect are one operation (union-find), unless it would hold a rank twice
 *
 * No pair is better than a wrong one: an operation lives by who waits for whom.
 */
#include "aggregator/analysis/batch.h"

#include "common/base/mem.h"

#include <stdlib.h>

bool batch_has_peers(const struct rs_comm_op *op)
{
    return (op->flags & RS_OP_IS_BATCH) != 0 && op->peer < 0 && op->task_count > 0;
}

/* ---- partners of a row ---------------------------------------------------------------------- */

static int compare_peers(const void *left, const void *right)
{
    const struct batch_peer *a = left, *b = right;
    return (a->peer > b->peer) - (a->peer < b->peer);
}

static void add_bytes(int64_t *sum, int64_t bytes)
{
    *sum = *sum < 0 || bytes < 0 ? -1 : join_sum(*sum, bytes);
}

enum rs_status batch_peers_of(const struct rs_summary *summary, const struct rs_comm_op *op,
                              struct batch_peers *peers)
{
    size_t kept = 0;
    peers->count = 0;
    if (rs_mem_grow((void **)&peers->items, &peers->capacity, op->task_count + 1,
                    sizeof *peers->items) != RS_OK) {
        return RS_NOMEM;
    }
    for (size_t t = 0; t < op->task_count; t++) {
        const struct rs_comm_task *task = &summary->tasks[op->task_first + t];
        peers->items[peers->count++] = (struct batch_peer){
            .peer = rs_comm_task_peer(task),
            .number = rs_comm_op_has_calls_only(summary, op) ? rs_comm_task_number(task) : -1,
            .sent = task->is_send ? task->bytes : 0,
            .received = task->is_send ? 0 : task->bytes};
    }
    qsort(peers->items, peers->count, sizeof *peers->items, compare_peers);
    for (size_t i = 0; i < peers->count; i++) {
        if (kept > 0 && peers->items[kept - 1].peer == peers->items[i].peer) {
            add_bytes(&peers->items[kept - 1].sent, peers->items[i].sent);
            add_bytes(&peers->items[kept - 1].received, peers->items[i].received);
        } else {
            peers->items[kept++] = peers->items[i];
        }
    }
    peers->count = kept;
    return RS_OK;
}

/* Global rank of the t-th task's other end, or of the one peer; -1 unknown. */
static int32_t partner_rank(const struct rs_analysis *out, const struct rs_job_op *op,
                            const struct rs_job_row *row, size_t t)
{
    const struct rs_summary *summary = out->summaries[row->summary];
    const struct rs_comm_op *own = &summary->ops[row->op_index];
    const int32_t peer =
        batch_has_peers(own) ? rs_comm_task_peer(&summary->tasks[own->task_first + t]) : own->peer;
    return (own->flags & RS_OP_PEER_IN_GROUP) != 0
               ? group_rank_of(out, row->summary, own, op->group, peer)
               : peer;
}

size_t rs_analysis_partner_count(const struct rs_analysis *analysis, const struct rs_job_row *row)
{
    const struct rs_comm_op *own = &analysis->summaries[row->summary]->ops[row->op_index];
    return batch_has_peers(own) ? own->task_count : own->peer >= 0;
}

/* Rows of an operation come by rank. SIZE_MAX: it has none of that rank. */
static size_t row_of_rank(const struct rs_analysis *out, const struct rs_job_op *op, int32_t rank)
{
    const struct rs_job_row *rows = &out->rows[op->row_first];
    size_t low = 0, high = op->row_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (rows[middle].rank < rank) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < op->row_count && rows[low].rank == rank ? low : SIZE_MAX;
}

size_t batch_last_partner(const struct join *join, const struct rs_job_op *op, size_t row)
{
    const struct rs_job_row *rows = &join->out->rows[op->row_first];
    rs_ns latest = RS_NS_MIN;
    size_t last = SIZE_MAX;
    const size_t count = rs_analysis_partner_count(join->out, &rows[row]);
    for (size_t t = 0; t < count; t++) {
        const size_t at = row_of_rank(join->out, op, partner_rank(join->out, op, &rows[row], t));
        if (at == SIZE_MAX || at == row) {
            continue;
        }
        const rs_ns start = join_time(join, rows[at].summary,
                                      join_op(join, rows[at].summary, rows[at].op_index)->start);
        if (last == SIZE_MAX || start > latest) {
            latest = start;
            last = at;
        }
    }
    return last;
}

static int compare_ranks(const void *left, const void *right)
{
    const int32_t a = *(const int32_t *)left, b = *(const int32_t *)right;
    return (a > b) - (a < b);
}

size_t rs_analysis_partner_row(const struct rs_analysis *analysis, const struct rs_job_op *op,
                               const struct rs_job_row *row, size_t n)
{
    const size_t at = row_of_rank(analysis, op, partner_rank(analysis, op, row, n));
    return at == SIZE_MAX ? SIZE_MAX : op->row_first + at;
}

enum rs_status batch_ranks_of(const struct join *join, const struct rs_job_op *op, int64_t *count_p)
{
    const struct rs_job_row *rows = &join->out->rows[op->row_first];
    size_t total = op->row_count, count = 0, distinct = 0;
    for (size_t r = 0; r < op->row_count; r++) {
        total += rs_analysis_partner_count(join->out, &rows[r]);
    }
    int32_t *ranks = rs_mem_calloc(total + 1, sizeof *ranks);
    if (ranks == NULL) {
        return RS_NOMEM;
    }
    for (size_t r = 0; r < op->row_count; r++) {
        ranks[count++] = rows[r].rank;
        for (size_t t = 0; t < rs_analysis_partner_count(join->out, &rows[r]); t++) {
            ranks[count++] = partner_rank(join->out, op, &rows[r], t);
        }
    }
    qsort(ranks, count, sizeof *ranks, compare_ranks);
    for (size_t i = 0; i < count; i++) {
        distinct += i == 0 || ranks[i] != ranks[i - 1];
    }
    *count_p = ranks[0] >= 0 ? (int64_t)distinct : -1;
    rs_mem_free(ranks);
    return RS_OK;
}

/* ---- which pairs are sure ------------------------------------------------------------------------- */

enum { AROUND = 8 }; /* rows on either side of where a row belongs that it is held against */

struct sure {
    struct align_side a, b;
    const struct align_rules *rules;
    size_t *positions;               /* [b] its partner, or ALIGN_NONE */
    size_t *back;                    /* [a] */
    size_t *place_of_a, *place_of_b; /* [a], [b]: where in the other side a row belongs */
    bool *is_unsure;                 /* [b] */
    size_t *stack;                   /* rows of b to go on from */
    size_t depth;
};

static void fill_places(struct sure *sure)
{
    size_t next = 0;
    for (size_t j = 0; j < sure->a.count; j++) {
        sure->back[j] = ALIGN_NONE;
    }
    for (size_t i = 0; i < sure->b.count; i++) {
        if (sure->positions[i] != ALIGN_NONE) {
            next = sure->positions[i];
            sure->back[next] = i;
        }
        sure->place_of_b[i] = next;
    }
    next = 0;
    for (size_t j = 0; j < sure->a.count; j++) {
        next = sure->back[j] != ALIGN_NONE ? sure->back[j] : next;
        sure->place_of_a[j] = next;
    }
}

/* Row i of b could have row j of a, whose partner then could have another, ... */
static void doubt_from_b(struct sure *sure, size_t i)
{
    const size_t at = sure->place_of_b[i];
    for (size_t j = at > AROUND ? at - AROUND : 0; j < sure->a.count && j <= at + AROUND; j++) {
        const size_t other = sure->back[j];
        if (other != ALIGN_NONE && other != i && !sure->is_unsure[other] &&
            align_items_fit(&sure->a.items[j], &sure->b.items[i], sure->rules)) {
            sure->is_unsure[other] = true;
            sure->stack[sure->depth++] = other;
        }
    }
}

static void doubt_from_a(struct sure *sure, size_t j)
{
    const size_t at = sure->place_of_a[j];
    for (size_t i = at > AROUND ? at - AROUND : 0; i < sure->b.count && i <= at + AROUND; i++) {
        if (sure->positions[i] != ALIGN_NONE && sure->positions[i] != j && !sure->is_unsure[i] &&
            align_items_fit(&sure->a.items[j], &sure->b.items[i], sure->rules)) {
            sure->is_unsure[i] = true;
            sure->stack[sure->depth++] = i;
        }
    }
}

static void find_doubts(struct sure *sure)
{
    for (size_t i = 0; i < sure->b.count; i++) {
        if (sure->positions[i] == ALIGN_NONE) {
            doubt_from_b(sure, i);
        }
    }
    while (sure->depth > 0) {
        doubt_from_b(sure, sure->stack[--sure->depth]);
    }
    for (size_t j = 0; j < sure->a.count; j++) {
        if (sure->back[j] == ALIGN_NONE) {
            doubt_from_a(sure, j);
        }
    }
    while (sure->depth > 0) {
        doubt_from_a(sure, sure->positions[sure->stack[--sure->depth]]);
    }
}

enum rs_status batch_keep_sure(struct align_side a, struct align_side b,
                               const struct align_rules *rules, size_t *positions)
{
    struct sure sure = {.a = a, .b = b, .rules = rules, .positions = positions};
    sure.back = rs_mem_calloc(2 * (a.count + b.count) + b.count + 1, sizeof *sure.back);
    sure.is_unsure = rs_mem_calloc(b.count + 1, sizeof *sure.is_unsure);
    enum rs_status status = RS_NOMEM;
    if (sure.back != NULL && sure.is_unsure != NULL) {
        sure.place_of_a = sure.back + a.count;
        sure.place_of_b = sure.place_of_a + a.count;
        sure.stack = sure.place_of_b + b.count;
        fill_places(&sure);
        find_doubts(&sure);
        for (size_t i = 0; i < b.count; i++) {
            positions[i] = sure.is_unsure[i] ? ALIGN_NONE : positions[i];
        }
        status = RS_OK;
    }
    rs_mem_free(sure.back);
    rs_mem_free(sure.is_unsure);
    return status;
}

/* The next pair from `i` on with numbers on both sides; b.count: there is none. */
static size_t next_numbered(struct align_side a, struct align_side b, const size_t *positions,
                            size_t i)
{
    while (i < b.count &&
           (positions[i] == ALIGN_NONE || b.items[i].seq < 0 || a.items[positions[i]].seq < 0)) {
        i++;
    }
    return i;
}

void batch_keep_in_step(struct align_side a, struct align_side b, size_t *positions)
{
    enum {
        RUN_LEAST = 4
    }; /* a phase of a schedule has more; pairs that are wrong come one or two at a time */
    size_t first = next_numbered(a, b, positions, 0);
    for (size_t begin = first, end; begin < b.count; begin = end) {
        const int64_t shift = b.items[begin].seq - a.items[positions[begin]].seq;
        size_t count = 0;
        for (end = begin; end < b.count && b.items[end].seq - a.items[positions[end]].seq == shift;
             end = next_numbered(a, b, positions, end + 1)) {
            count++;
        }
        const bool is_all = begin == first && end == b.count;
        for (size_t i = begin, next; i < end && count < RUN_LEAST && !is_all; i = next) {
            next = next_numbered(a, b, positions, i + 1);
            positions[i] = ALIGN_NONE;
        }
    }
}

/* ---- from pairs to operations ------------------------------------------------------------------ */

/* A row that is in a pair. */
struct node {
    size_t flat, parent; /* parent: of the union, an index of nodes */
    uint32_t summary, op, group;
    rs_ns start; /* earliest of the operation, when it is known */
};

static int compare_nodes(const void *left, const void *right)
{
    const struct node *a = left, *b = right;
    return (a->flat > b->flat) - (a->flat < b->flat);
}

static size_t node_find(const struct node *nodes, size_t count, size_t flat)
{
    size_t low = 0, high = count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (nodes[middle].flat < flat) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static size_t root_of(struct node *nodes, size_t i)
{
    while (nodes[i].parent != i) {
        nodes[i].parent = nodes[nodes[i].parent].parent;
        i = nodes[i].parent;
    }
    return i;
}

/* Nodes are in order of summaries, so the root that is kept is the lowest rank's. */
static void unite(struct node *nodes, size_t a, size_t b)
{
    const size_t x = root_of(nodes, a), y = root_of(nodes, b);
    nodes[x > y ? x : y].parent = x < y ? x : y;
}

static size_t make_nodes(const struct join *join, const struct batch_pairs *pairs,
                         struct node *nodes)
{
    size_t count = 0, kept = 0;
    for (size_t i = 0; i < pairs->count; i++) {
        nodes[count++] = (struct node){.flat = pairs->items[i].a, .group = pairs->items[i].group};
        nodes[count++] = (struct node){.flat = pairs->items[i].b, .group = pairs->items[i].group};
    }
    qsort(nodes, count, sizeof *nodes, compare_nodes);
    for (size_t i = 0, s = 0; i < count; i++) {
        if (kept > 0 && nodes[kept - 1].flat == nodes[i].flat) {
            continue;
        }
        while (join->op_base[s + 1] <= nodes[i].flat) {
            s++;
        }
        nodes[kept] = nodes[i];
        nodes[kept].parent = kept;
        nodes[kept].summary = (uint32_t)s;
        nodes[kept].op = (uint32_t)(nodes[i].flat - join->op_base[s]);
        nodes[kept].start = join_time(join, s, join_op(join, s, nodes[kept].op)->start);
        kept++;
    }
    for (size_t i = 0; i < pairs->count; i++) {
        unite(nodes, node_find(nodes, kept, pairs->items[i].a),
              node_find(nodes, kept, pairs->items[i].b));
    }
    for (size_t i = 0; i < kept; i++) {
        const size_t root = root_of(nodes, i);
        nodes[i].parent = root;
        nodes[root].start = nodes[i].start < nodes[root].start ? nodes[i].start : nodes[root].start;
    }
    for (size_t i = 0; i < kept; i++) {
        nodes[i].start = nodes[nodes[i].parent].start;
    }
    return kept;
}

/* Operations in order of groups and time, their rows by rank. */
static int compare_for_output(const void *left, const void *right)
{
    const struct node *a = left, *b = right;
    if (a->group != b->group) {
        return a->group > b->group ? 1 : -1;
    }
    if (a->start != b->start) {
        return a->start > b->start ? 1 : -1;
    }
    if (a->parent != b->parent) {
        return a->parent > b->parent ? 1 : -1;
    }
    return (a->flat > b->flat) - (a->flat < b->flat);
}

static bool has_rank_twice(const struct node *nodes, size_t begin, size_t end)
{
    for (size_t i = begin + 1; i < end; i++) {
        if (nodes[i].summary == nodes[i - 1].summary) {
            return true;
        }
    }
    return false;
}

static enum rs_status emit(struct join *join, const struct node *nodes, size_t count)
{
    int64_t seq = 0;
    for (size_t begin = 0, end; begin < count; begin = end) {
        struct rs_job_op *op;
        for (end = begin + 1; end < count && nodes[end].parent == nodes[begin].parent; end++) {
        }
        seq = begin > 0 && nodes[begin].group == nodes[begin - 1].group ? seq : 0;
        if (has_rank_twice(nodes, begin, end)) {
            continue;
        }
        if (join_new_op(join, &op) != RS_OK) {
            return RS_NOMEM;
        }
        op->type = RS_OP_SEND_RECV;
        op->group = nodes[begin].group;
        op->is_p2p = true;
        op->is_matched = true;
        op->seq = seq++;
        for (size_t i = begin; i < end; i++) {
            join->op_group[nodes[i].flat] = nodes[i].group;
            if (join_row(join, nodes[i].summary, nodes[i].op) != RS_OK) {
                return RS_NOMEM;
            }
        }
    }
    return RS_OK;
}

enum rs_status batch_join(struct join *join, const struct batch_pairs *pairs)
{
    if (pairs->count == 0) {
        return RS_OK;
    }
    struct node *nodes = rs_mem_calloc(2 * pairs->count, sizeof *nodes);
    if (nodes == NULL) {
        return RS_NOMEM;
    }
    const size_t count = make_nodes(join, pairs, nodes);
    qsort(nodes, count, sizeof *nodes, compare_for_output);
    const enum rs_status status = emit(join, nodes, count);
    rs_mem_free(nodes);
    return status;
}
