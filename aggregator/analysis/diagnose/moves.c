/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transfers by unit: an unordered pair of ranks, or a group of more than two. Compared are units of one size
 * and fabric (inside a host or across; pairs or rings), moves of one type and size.
 *
 * Where hosts are not known, a split of all transfers into two modes that some layout in blocks of 2^k ranks
 * explains without exception is a fabric, too.
 */
#include "aggregator/analysis/diagnose/build.h"
#include "common/base/mem.h"

#include <math.h>
#include <stdlib.h>

struct unit_key {
    uint64_t key;
    uint32_t unit;
};

struct mover {
    struct builder *builder;
    struct unit_key *slots; /* open addressing; unit + 1, 0 empty */
    size_t slot_count;
};

static uint64_t mixed(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9e3779b97f4a7c15U;
    return hash ^ (hash >> 29);
}

static enum rs_status unit_of(struct mover *mover, const struct diag_unit *wanted, uint64_t key,
                              uint32_t *unit_p)
{
    struct diag_model *model = mover->builder->model;
    size_t at = (size_t)mixed(1, key) & (mover->slot_count - 1);
    while (mover->slots[at].unit != 0) {
        if (mover->slots[at].key == key) {
            *unit_p = mover->slots[at].unit - 1;
            return RS_OK;
        }
        at = (at + 1) & (mover->slot_count - 1);
    }
    if (rs_mem_grow((void **)&model->units, &model->unit_capacity, model->unit_count + 1,
                    sizeof *model->units) != RS_OK) {
        return RS_NOMEM;
    }
    model->units[model->unit_count] = *wanted;
    mover->slots[at] = (struct unit_key){key, (uint32_t)model->unit_count + 1};
    *unit_p = (uint32_t)model->unit_count++;
    return RS_OK;
}

/* Sorted by panel afterwards: size and fabric as one number. 0: hosts unknown. */
static uint32_t fabric_of(const struct builder *builder, const struct rs_job_op *op)
{
    const struct rs_analysis *analysis = builder->analysis;
    int32_t host = -2;
    for (size_t r = op->row_first; r < op->row_first + op->row_count; r++) {
        const uint32_t worker = builder->worker_of[analysis->rows[r].summary];
        const int32_t own = worker != GRAPH_NONE ? builder->model->workers[worker].host : -1;
        if (own < 0) {
            return 0;
        }
        if (host >= 0 && own != host) {
            return 2;
        }
        host = own;
    }
    return 1;
}

static uint32_t raw_panel(uint32_t size, uint32_t fabric, bool is_p2p)
{
    return (size << 3) | (fabric << 1) | (is_p2p ? 1U : 0U);
}

static enum rs_status add_nodes(struct builder *builder, const struct rs_job_op *op,
                                struct diag_move *move)
{
    struct diag_model *model = builder->model;
    const struct graph *graph = &model->graph;
    double sum = 0, count = 0;
    move->node_first = (uint32_t)model->move_node_count;
    for (size_t r = op->row_first; r < op->row_first + op->row_count; r++) {
        const struct rs_job_row *row = &builder->analysis->rows[r];
        const uint32_t worker = builder->worker_of[row->summary];
        const struct op_place *place =
            &builder->op_places[builder->op_base[row->summary] + row->op_index];
        if (worker == GRAPH_NONE || place->end_node == GRAPH_NONE) {
            continue;
        }
        const struct rs_comm_op *own =
            &builder->analysis->summaries[row->summary]->ops[row->op_index];
        if (rs_mem_grow((void **)&model->move_nodes, &model->move_node_capacity,
                        model->move_node_count + 1, sizeof *model->move_nodes) != RS_OK) {
            return RS_NOMEM;
        }
        const uint32_t node = place->end_node;
        model->move_nodes[model->move_node_count++] = node;
        const bool host_send = own->type == RS_OP_SEND && (own->flags & RS_OP_ON_DEVICE) == 0;
        if (row->has_transfer && !host_send) {
            sum += (double)graph->work[node];
            count += 1;
        }
        move->step = place->step;
        move->bytes = own->bytes > move->bytes ? own->bytes : move->bytes;
    }
    move->node_count = (uint32_t)model->move_node_count - move->node_first;
    move->ns = count > 0 ? sum / count : 0;
    return RS_OK;
}

/* A send and its receive say which way the bytes went: a link may be slow in one direction only. */
static void set_way(const struct builder *builder, const struct rs_job_op *op, uint32_t low,
                    struct diag_move *move)
{
    const struct rs_job_row *row = &builder->analysis->rows[op->row_first];
    for (size_t r = 0; r < 2; r++) {
        const struct rs_comm_op *own =
            &builder->analysis->summaries[row[r].summary]->ops[row[r].op_index];
        const struct rs_comm_op *other =
            &builder->analysis->summaries[row[1 - r].summary]->ops[row[1 - r].op_index];
        if (own->type == RS_OP_SEND && other->type == RS_OP_RECV) {
            move->has_way = true;
            move->is_back = builder->worker_of[row[r].summary] != low;
        }
    }
}

/* What a transfer took is known when the clocks of its members may be off by less than half of it: one of them says when it began. */
static bool is_timed(const struct builder *builder, const struct rs_job_op *op, double took_ns)
{
    const struct rs_job_row *rows = &builder->analysis->rows[op->row_first];
    for (size_t r = 1; r < op->row_count; r++) {
        const rs_dur bound =
            rs_analysis_clock_bound(builder->analysis, rows[0].summary, rows[r].summary);
        if (2 * (double)bound > took_ns) {
            return false;
        }
    }
    return true;
}

static enum rs_status add_move(struct mover *mover, const struct rs_job_op *op)
{
    struct builder *builder = mover->builder;
    struct diag_model *model = builder->model;
    const struct rs_job_row *row = &builder->analysis->rows[op->row_first];
    const uint32_t a = builder->worker_of[row[0].summary];
    const uint32_t b = builder->worker_of[row[1].summary];
    const bool is_pair = op->row_count == 2;
    const bool is_many =
        op->is_p2p && !is_pair; /* batches: several moves at once, none to be timed */
    if (a == GRAPH_NONE || b == GRAPH_NONE || is_many || (!is_pair && op->group == RS_NO_GROUP)) {
        return RS_OK;
    }
    const uint32_t low = a < b ? a : b, high = a < b ? b : a;
    const struct diag_unit wanted = {
        .a = is_pair ? (int32_t)low : -1,
        .b = is_pair ? (int32_t)high : -1,
        .group = is_pair ? GRAPH_NONE : op->group,
        .panel = raw_panel((uint32_t)op->row_count, fabric_of(builder, op), op->is_p2p),
        .size = (uint32_t)op->row_count};
    const uint64_t key =
        is_pair ? ((uint64_t)low << 32 | high) * 2 + op->is_p2p : (uint64_t)1 << 63 | op->group;
    struct diag_move move = {.type = op->type, .bytes = -1, .step = GRAPH_NONE};
    const struct op_place *place =
        &builder->op_places[builder->op_base[row[0].summary] + row[0].op_index];
    if (place->end_node == GRAPH_NONE) {
        return RS_OK;
    }
    if (add_nodes(builder, op, &move) != RS_OK) {
        return RS_NOMEM;
    }
    if (!is_timed(builder, op, move.ns)) {
        model->move_node_count = move.node_first;
        return RS_OK;
    }
    if (unit_of(mover, &wanted, key, &move.unit) != RS_OK ||
        rs_mem_grow((void **)&model->moves, &model->move_capacity, model->move_count + 1,
                    sizeof *model->moves) != RS_OK) {
        return RS_NOMEM;
    }
    if (is_pair && op->is_p2p) {
        set_way(builder, op, low, &move);
    }
    /* Without bytes: the place in the program stands for the size. */
    const uint64_t size = move.bytes >= 0 ? (uint64_t)move.bytes : mixed(7, place->slot);
    move.key = (uint32_t)mixed(mixed(mixed(3, op->type), size), op->row_count);
    model->moves[model->move_count++] = move;
    return RS_OK;
}

/* ---- messages: hops of an operation, sends between hosts -------------------------------------- */

struct carrier {
    struct mover *mover;
    const struct rs_job_op *op;
    struct diag_move whole; /* nodes and step of the operation */
    size_t first;           /* moves of this operation start here */
    size_t count;
};

static uint32_t worker_of_rank(const struct builder *builder, int32_t rank)
{
    size_t low = 0, high = builder->model->worker_count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (builder->model->workers[middle].rank < rank) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < builder->model->worker_count && builder->model->workers[low].rank == rank
               ? (uint32_t)low
               : GRAPH_NONE;
}

static uint32_t pair_fabric(const struct builder *builder, uint32_t a, uint32_t b)
{
    const int32_t x = builder->model->workers[a].host, y = builder->model->workers[b].host;
    return x < 0 || y < 0 ? 0 : x == y ? 1 : 2;
}

static enum rs_status carry(void *self, const struct rs_job_message *message)
{
    struct carrier *carrier = self;
    struct builder *builder = carrier->mover->builder;
    struct diag_model *model = builder->model;
    const uint32_t a = worker_of_rank(builder, message->src);
    const uint32_t b = worker_of_rank(builder, message->dst);
    const rs_dur took = message->sending_ns > 0 ? message->sending_ns : message->link_ns;
    if (a == GRAPH_NONE || b == GRAPH_NONE || a == b || took <= 0) {
        return RS_OK;
    }
    const uint32_t low = a < b ? a : b, high = a < b ? b : a;
    const struct diag_unit wanted = {.a = (int32_t)low,
                                     .b = (int32_t)high,
                                     .group = GRAPH_NONE,
                                     .panel = raw_panel(2, pair_fabric(builder, a, b), true),
                                     .size = 2};
    struct diag_move move = carrier->whole;
    if (unit_of(carrier->mover, &wanted, ((uint64_t)low << 32 | high) * 2 + 1, &move.unit) !=
        RS_OK) {
        return RS_NOMEM;
    }
    move.ns = (double)took;
    move.has_way = true;
    move.is_back = a != low;
    move.bytes = message->bytes;
    move.key =
        (uint32_t)mixed(mixed(5, carrier->op->type),
                        message->bytes >= 0 ? (uint64_t)message->bytes : mixed(9, carrier->count));
    /* The operation's ends are changed once for a pair, however many of its hops go over it. */
    for (size_t i = carrier->first; i < model->move_count; i++) {
        move.node_count = model->moves[i].unit == move.unit ? 0 : move.node_count;
    }
    carrier->count++;
    if (rs_mem_grow((void **)&model->moves, &model->move_capacity, model->move_count + 1,
                    sizeof *model->moves) != RS_OK) {
        return RS_NOMEM;
    }
    model->moves[model->move_count++] = move;
    return RS_OK;
}

static bool has_messages(const struct builder *builder, const struct rs_job_op *op)
{
    bool on_host = true, has_tasks = false;
    for (size_t r = op->row_first; r < op->row_first + op->row_count; r++) {
        const struct rs_job_row *row = &builder->analysis->rows[r];
        const struct rs_summary *summary = builder->analysis->summaries[row->summary];
        const struct rs_comm_op *own = &summary->ops[row->op_index];
        on_host = on_host && (own->flags & RS_OP_ON_DEVICE) == 0;
        has_tasks = has_tasks || (own->task_count > 0 && !rs_comm_op_has_calls_only(summary, own));
    }
    return has_tasks || (on_host && op->is_p2p);
}

/* True in `is_done_p` when the operation's messages stand for it. */
static enum rs_status add_messages(struct mover *mover, size_t op_index, bool *is_done_p)
{
    struct builder *builder = mover->builder;
    const struct rs_job_op *op = &builder->analysis->ops[op_index];
    struct carrier carrier = {.mover = mover,
                              .op = op,
                              .whole = {.type = op->type, .bytes = -1, .step = GRAPH_NONE},
                              .first = builder->model->move_count};
    *is_done_p = false;
    if (!has_messages(builder, op)) {
        return RS_OK;
    }
    if (add_nodes(builder, op, &carrier.whole) != RS_OK) {
        return RS_NOMEM;
    }
    if (carrier.whole.step == GRAPH_NONE) {
        return RS_OK;
    }
    *is_done_p = true;
    return rs_analysis_messages(builder->analysis, op_index, carry, &carrier);
}

/* ---- fabrics from the transfers themselves ------------------------------------------------- */

struct reading {
    uint32_t unit;
    double value;
};

static bool is_inside(const struct builder *builder, const struct diag_unit *unit, int32_t block)
{
    if (unit->a >= 0) {
        return builder->model->workers[unit->a].rank / block ==
               builder->model->workers[unit->b].rank / block;
    }
    const struct rs_job_group *group = &builder->analysis->groups[unit->group];
    for (size_t i = 1; group->ranks != NULL && i < group->rank_count; i++) {
        if (group->ranks[i] / block != group->ranks[0] / block) {
            return false;
        }
    }
    return true;
}

/* True when blocks of this many ranks part the readings without exception, by FABRIC_GAP at least. */
static bool explains(const struct builder *builder, const struct reading *readings, size_t count,
                     int32_t block)
{
    double most_inside = -(double)INFINITY, least_across = (double)INFINITY;
    size_t inside = 0;
    for (size_t i = 0; i < count; i++) {
        if (is_inside(builder, &builder->model->units[readings[i].unit], block)) {
            most_inside = fmax(most_inside, readings[i].value);
            inside++;
        } else {
            least_across = fmin(least_across, readings[i].value);
        }
    }
    return inside > 1 && count - inside > 1 && least_across - most_inside > log(DIAG_FABRIC_GAP);
}

static void split_panel(struct builder *builder, struct reading *readings, size_t count)
{
    const struct diag_model *model = builder->model;
    int32_t ranks = 0;
    for (size_t w = 0; w < model->worker_count; w++) {
        ranks = model->workers[w].rank > ranks ? model->workers[w].rank : ranks;
    }
    for (int32_t block = 2; block <= ranks && block < (1 << 20); block *= 2) {
        if (!explains(builder, readings, count, block)) {
            continue;
        }
        for (size_t i = 0; i < count; i++) {
            struct diag_unit *unit = &model->units[readings[i].unit];
            unit->panel |= (is_inside(builder, unit, block) ? 1U : 2U) << 1;
        }
        return;
    }
}

/* One reading a unit: mean logarithm of transfers per byte, enough to part modes that differ by factors. */
static enum rs_status split_fabrics(struct builder *builder)
{
    struct diag_model *model = builder->model;
    struct reading *readings = rs_mem_calloc(model->unit_count + 1, sizeof *readings);
    double *sums = rs_mem_calloc(2 * model->unit_count + 1, sizeof *sums);
    if (readings == NULL || sums == NULL) {
        rs_mem_free(readings);
        rs_mem_free(sums);
        return RS_NOMEM;
    }
    for (size_t i = 0; i < model->move_count; i++) {
        const struct diag_move *move = &model->moves[i];
        if (move->ns > 0) {
            sums[(size_t)2 * move->unit] +=
                log(move->ns) - (move->bytes > 0 ? log((double)move->bytes) : 0);
            sums[(size_t)2 * move->unit + 1] += 1;
        }
    }
    for (uint32_t panel = 0; panel < 1U << 16; panel += 1) {
        size_t count = 0;
        bool has_any = false;
        for (size_t u = 0; u < model->unit_count; u++) {
            const struct diag_unit *unit = &model->units[u];
            has_any = has_any || unit->panel > panel;
            if (unit->panel == panel && ((panel >> 1) & 3) == 0 && sums[2 * u + 1] > 0) {
                readings[count++] = (struct reading){(uint32_t)u, sums[2 * u] / sums[2 * u + 1]};
            }
        }
        if (count > 3) {
            split_panel(builder, readings, count);
        }
        if (!has_any) {
            break;
        }
    }
    rs_mem_free(readings);
    rs_mem_free(sums);
    return RS_OK;
}

static int compare_numbers(const void *left, const void *right)
{
    const uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

/* Panels get dense numbers, in the order of their keys. */
static enum rs_status number_panels(struct diag_model *model)
{
    uint32_t *known = rs_mem_calloc(model->unit_count + 1, sizeof *known);
    if (known == NULL) {
        return RS_NOMEM;
    }
    for (size_t u = 0; u < model->unit_count; u++) {
        known[u] = model->units[u].panel;
    }
    if (model->unit_count > 1) {
        qsort(known, model->unit_count, sizeof *known, compare_numbers);
    }
    for (size_t i = 0; i < model->unit_count; i++) {
        if (i == 0 || known[i] != known[i - 1]) {
            known[model->panel_count++] = known[i];
        }
    }
    for (size_t u = 0; u < model->unit_count; u++) {
        const uint32_t *at = bsearch(&model->units[u].panel, known, model->panel_count,
                                     sizeof *known, compare_numbers);
        model->units[u].panel = (uint32_t)(at - known);
    }
    rs_mem_free(known);
    return RS_OK;
}

enum rs_status moves_make(struct builder *builder)
{
    const struct rs_analysis *analysis = builder->analysis;
    struct mover mover = {.builder = builder, .slot_count = 1024};
    while (mover.slot_count < 2 * (analysis->op_count + analysis->link_count + 1)) {
        mover.slot_count *= 2;
    }
    mover.slots = rs_mem_calloc(mover.slot_count, sizeof *mover.slots);
    enum rs_status status = mover.slots == NULL ? RS_NOMEM : RS_OK;
    for (size_t i = 0; status == RS_OK && i < analysis->op_count; i++) {
        const struct rs_job_op *op = &analysis->ops[i];
        if (op->is_matched && op->has_wait && op->row_count > 1 &&
            op->coverage == RS_COVERAGE_EXACT) {
            bool is_done = false;
            status = add_messages(&mover, i, &is_done);
            if (status == RS_OK && !is_done) {
                status = add_move(&mover, op);
            }
        }
    }
    rs_mem_free(mover.slots);
    if (status == RS_OK) {
        status = split_fabrics(builder);
    }
    return status == RS_OK ? number_panels(builder->model) : status;
}
