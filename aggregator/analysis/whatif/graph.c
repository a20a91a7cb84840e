/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows into the graph of one step, and each step's times in its nodes.
 *
 * Order (docs/ops-csv.md says it for users):
 *
 *   gather -> forward, backward in the order of the first dp rank's start -> gc -> norm -> embedding -> scatter -> clip -> optimizer
 *
 *   a recv precedes the computing it is numbered with and follows the computing of its direction before that (the first: the
 *   gather; the first backward recv: the last but one forward before the first backward); a send follows its computing; each of
 *   the four kinds of transfer is a queue. A send meets its recv, an embedding all-reduce its dp rank's others, gather and
 *   scatter the dp ranks of a stage, clip everybody.
 */
#include "aggregator/analysis/whatif/whatif_priv.h"
#include "common/base/mem.h"

#include <stdlib.h>
#include <string.h>

#define TOO_EARLY_NS                                                                               \
    1e7 /* an end so far before its meeting is another clock's: no transfer is known */

static const bool is_tail[RS_WHATIF_TYPES] = {[RS_WHATIF_GC] = true,
                                              [RS_WHATIF_NORM_REDUCE] = true,
                                              [RS_WHATIF_EMBEDDING_REDUCE] = true,
                                              [RS_WHATIF_GRADS_SCATTER] = true,
                                              [RS_WHATIF_CLIP] = true,
                                              [RS_WHATIF_OPTIMIZER] = true};

static int compare_i64(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

/* By step, worker, type, number. */
static int by_place(const void *a_p, const void *b_p)
{
    const struct rs_whatif_op *a = a_p, *b = b_p;
    int order = compare_i64(a->step, b->step);
    if (!order)
        order = compare_i64(a->dp_rank, b->dp_rank);
    if (!order)
        order = compare_i64(a->stage, b->stage);
    if (!order)
        order = compare_i64((int64_t)a->type, (int64_t)b->type);
    return order ? order : compare_i64(a->seq, b->seq);
}

static int by_number(const void *a, const void *b)
{
    return compare_i64(*(const int32_t *)a, *(const int32_t *)b);
}

static size_t distinct(int32_t *numbers, size_t count)
{
    qsort(numbers, count, sizeof *numbers, by_number);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (!kept || numbers[kept - 1] != numbers[i])
            numbers[kept++] = numbers[i];
    return kept;
}

static size_t index_of(const int32_t *numbers, size_t count, int32_t number)
{
    const int32_t *at = bsearch(&number, numbers, count, sizeof number, by_number);
    return (size_t)(at - numbers);
}

static size_t slot_of(const struct whatif_graph *graph, const struct rs_whatif_op *op)
{
    const size_t worker = index_of(graph->dps, graph->dp_count, op->dp_rank) * graph->stage_count +
                          index_of(graph->stages, graph->stage_count, op->stage);
    return worker * RS_WHATIF_TYPES + op->type;
}

static enum rs_status no_memory(struct rs_err *err)
{
    return rs_err_set(err, RS_NOMEM, "no memory for the table of operations");
}

static enum rs_status find_workers(const struct rs_whatif_ops *ops, struct whatif_graph *graph,
                                   struct rs_err *err)
{
    graph->dps = rs_mem_calloc(ops->count, sizeof *graph->dps);
    graph->stages = rs_mem_calloc(ops->count, sizeof *graph->stages);
    if (!graph->dps || !graph->stages)
        return no_memory(err);
    for (size_t i = 0; i < ops->count; i++) {
        graph->dps[i] = ops->items[i].dp_rank;
        graph->stages[i] = ops->items[i].stage;
    }
    graph->dp_count = distinct(graph->dps, ops->count);
    graph->stage_count = distinct(graph->stages, ops->count);
    graph->worker_count = graph->dp_count * graph->stage_count;
    if (graph->worker_count > ops->count)
        return rs_err_set(
            err, RS_INVALID,
            "%zu dp ranks times %zu stages is more than there are operations: every stage of every "
            "dp rank must be in the table",
            graph->dp_count, graph->stage_count);
    const size_t slots = graph->worker_count * RS_WHATIF_TYPES;
    graph->ranks = rs_mem_calloc(graph->worker_count, sizeof *graph->ranks);
    graph->first = rs_mem_calloc(slots, sizeof *graph->first);
    graph->counts = rs_mem_calloc(slots, sizeof *graph->counts);
    return graph->ranks && graph->first && graph->counts ? RS_OK : no_memory(err);
}

static size_t step_end(const struct rs_whatif_ops *ops, size_t begin)
{
    size_t end = begin;
    while (end < ops->count && ops->items[end].step == ops->items[begin].step)
        end++;
    return end;
}

/* Same sequence of places and counts, same digest: FNV-1a over the slots. */
static uint64_t shape(const struct whatif_graph *graph, const struct rs_whatif_ops *ops,
                      size_t begin, size_t end)
{
    uint64_t digest = UINT64_C(14695981039346656037);
    for (size_t i = begin; i < end; i++)
        digest = (digest ^ slot_of(graph, &ops->items[i])) * UINT64_C(1099511628211);
    return digest;
}

struct step_place {
    size_t begin, end;
    uint64_t shape;
};

static int by_shape(const void *a_p, const void *b_p)
{
    const struct step_place *a = a_p, *b = b_p;
    if (a->shape != b->shape)
        return a->shape < b->shape ? -1 : 1;
    return (a->begin > b->begin) - (a->begin < b->begin);
}

static int by_begin(const void *a_p, const void *b_p)
{
    const struct step_place *a = a_p, *b = b_p;
    return (a->begin > b->begin) - (a->begin < b->begin);
}

/* The steps of the commonest shape; the others are left out. */
static size_t common_steps(struct step_place *places, size_t count, uint64_t *shape_p)
{
    qsort(places, count, sizeof *places, by_shape);
    size_t best = 0, best_count = 0;
    for (size_t i = 0; i < count;) {
        size_t end = i;
        while (end < count && places[end].shape == places[i].shape)
            end++;
        if (end - i > best_count ||
            (end - i == best_count && places[i].begin < places[best].begin)) {
            best = i;
            best_count = end - i;
        }
        i = end;
    }
    *shape_p = places[best].shape;
    qsort(places, count, sizeof *places, by_begin);
    return best_count;
}

static enum rs_status fill(const struct rs_whatif_ops *ops, struct whatif_graph *graph,
                           const struct step_place *places, size_t count, uint64_t wanted,
                           struct rs_err *err)
{
    const size_t cells = graph->step_count * graph->node_count;
    graph->start = rs_mem_calloc(cells, sizeof *graph->start);
    graph->end = rs_mem_calloc(cells, sizeof *graph->end);
    graph->work = rs_mem_calloc(cells, sizeof *graph->work);
    graph->steps = rs_mem_calloc(graph->step_count, sizeof *graph->steps);
    if (!graph->start || !graph->end || !graph->work || !graph->steps)
        return no_memory(err);
    size_t step = 0;
    for (size_t p = 0; p < count; p++) {
        const int64_t number = ops->items[places[p].begin].step;
        if (places[p].shape != wanted) {
            if (!graph->skipped_steps++)
                graph->first_skipped = number;
            continue;
        }
        const int64_t zero = ops->items[places[p].begin].start_ns; /* doubles keep ns near it */
        graph->steps[step] = number;
        for (size_t node = 0; node < graph->node_count; node++) {
            const struct rs_whatif_op *op = &ops->items[places[p].begin + node];
            const size_t cell = step * graph->node_count + node;
            graph->start[cell] = (double)(op->start_ns - zero);
            graph->work[cell] = (double)op->duration_ns;
            graph->end[cell] = graph->start[cell] + graph->work[cell];
        }
        step++;
    }
    return RS_OK;
}

/* Nodes in the order of the sorted rows of one step. */
static enum rs_status lay_out(struct rs_whatif_ops *ops, struct whatif_graph *graph,
                              struct rs_err *err)
{
    qsort(ops->items, ops->count, sizeof *ops->items, by_place);
    for (size_t i = 1; i < ops->count; i++) {
        const struct rs_whatif_op *op = &ops->items[i];
        if (by_place(op - 1, op) == 0)
            return rs_err_set(
                err, RS_INVALID,
                "step %lld, dp rank %d, stage %d: %s number %lld is there twice; one rank per worker "
                "is expected",
                (long long)op->step, (int)op->dp_rank, (int)op->stage,
                rs_whatif_type_text(op->type), (long long)op->seq);
    }
    size_t count = 0, capacity = 0;
    struct step_place *places = NULL;
    for (size_t begin = 0; begin < ops->count;) {
        const size_t end = step_end(ops, begin);
        if (rs_mem_grow((void **)&places, &capacity, count + 1, sizeof *places) != RS_OK) {
            rs_mem_free(places);
            return no_memory(err);
        }
        places[count++] = (struct step_place){begin, end, shape(graph, ops, begin, end)};
        begin = end;
    }
    uint64_t wanted;
    graph->step_count = common_steps(places, count, &wanted);
    size_t reference = 0;
    while (places[reference].shape != wanted)
        reference++;
    const size_t begin = places[reference].begin;
    graph->node_count = places[reference].end - begin;
    graph->nodes = rs_mem_calloc(graph->node_count, sizeof *graph->nodes);
    enum rs_status status = graph->nodes && graph->node_count < UINT32_MAX ? RS_OK : no_memory(err);
    for (size_t node = 0; status == RS_OK && node < graph->node_count; node++) {
        const struct rs_whatif_op *op = &ops->items[begin + node];
        const size_t slot = slot_of(graph, op);
        if (!graph->counts[slot]++)
            graph->first[slot] = node;
        const size_t worker = slot / RS_WHATIF_TYPES;
        graph->ranks[worker] = op->rank;
        graph->nodes[node] = (struct whatif_node){.worker = (uint32_t)worker,
                                                  .type = op->type,
                                                  .pred = {WHATIF_NONE, WHATIF_NONE, WHATIF_NONE}};
    }
    if (status == RS_OK)
        status = fill(ops, graph, places, count, wanted, err);
    rs_mem_free(places);
    return status;
}

static uint32_t node_at(const struct whatif_graph *graph, size_t worker, enum rs_whatif_type type,
                        size_t i)
{
    const size_t slot = worker * RS_WHATIF_TYPES + type;
    return i < graph->counts[slot] ? (uint32_t)(graph->first[slot] + i) : WHATIF_NONE;
}

static void follow(struct whatif_graph *graph, uint32_t node, uint32_t pred)
{
    if (node == WHATIF_NONE || pred == WHATIF_NONE)
        return;
    for (size_t i = 0; i < WHATIF_PREDS; i++)
        if (graph->nodes[node].pred[i] == WHATIF_NONE) {
            graph->nodes[node].pred[i] = pred;
            return;
        }
}

struct program {
    size_t forwards, backwards; /* taken so far */
    uint32_t before;            /* the computing before */
};

static void computing(struct whatif_graph *graph, size_t worker, struct program *program,
                      enum rs_whatif_type type, size_t i, uint32_t gather)
{
    const bool is_forward = type == RS_WHATIF_FORWARD;
    const enum rs_whatif_type recv_type =
        is_forward ? RS_WHATIF_FORWARD_RECV : RS_WHATIF_BACKWARD_RECV;
    const enum rs_whatif_type send_type =
        is_forward ? RS_WHATIF_FORWARD_SEND : RS_WHATIF_BACKWARD_SEND;
    const uint32_t node = node_at(graph, worker, type, i);
    const uint32_t recv = node_at(graph, worker, recv_type, i);
    const uint32_t send = node_at(graph, worker, send_type, i);
    uint32_t posted = i ? node_at(graph, worker, type, i - 1) : gather;
    if (!is_forward && !i && program->forwards >= 2)
        posted = node_at(graph, worker, RS_WHATIF_FORWARD, program->forwards - 2);
    follow(graph, node, program->before);
    follow(graph, node, recv);
    follow(graph, recv, posted);
    follow(graph, send, node);
    if (i) {
        follow(graph, recv, node_at(graph, worker, recv_type, i - 1));
        follow(graph, send, node_at(graph, worker, send_type, i - 1));
    }
    program->before = node;
}

/* The program of one worker, in the order in which the first dp rank of its stage began its computing in the first step. */
static void connect_worker(struct whatif_graph *graph, size_t worker)
{
    const size_t model = worker % graph->stage_count;
    uint32_t gather = WHATIF_NONE;
    for (size_t i = 0;; i++) {
        const uint32_t node = node_at(graph, worker, RS_WHATIF_PARAMS_GATHER, i);
        if (node == WHATIF_NONE)
            break;
        follow(graph, node, gather);
        gather = node;
    }
    struct program program = {.before = gather};
    for (;;) {
        const uint32_t forward = node_at(graph, model, RS_WHATIF_FORWARD, program.forwards);
        const uint32_t backward = node_at(graph, model, RS_WHATIF_BACKWARD, program.backwards);
        if (forward == WHATIF_NONE && backward == WHATIF_NONE)
            break;
        if (backward == WHATIF_NONE ||
            (forward != WHATIF_NONE && graph->start[forward] <= graph->start[backward])) {
            computing(graph, worker, &program, RS_WHATIF_FORWARD, program.forwards, gather);
            program.forwards++;
        } else {
            computing(graph, worker, &program, RS_WHATIF_BACKWARD, program.backwards, gather);
            program.backwards++;
        }
    }
    for (int type = 0; type < RS_WHATIF_TYPES; type++)
        for (size_t i = 0; is_tail[type]; i++) {
            const uint32_t node = node_at(graph, worker, (enum rs_whatif_type)type, i);
            if (node == WHATIF_NONE)
                break;
            follow(graph, node, program.before);
            program.before = node;
        }
}

/* The first member of the node's meeting: itself when it meets nobody. */
static uint32_t host_of(const struct whatif_graph *graph, uint32_t index)
{
    const struct whatif_node *node = &graph->nodes[index];
    const size_t stages = graph->stage_count, stage = node->worker % stages;
    const size_t i = index - graph->first[node->worker * RS_WHATIF_TYPES + node->type];
    size_t from = node->worker, to = node->worker + 1, stride = 1;
    enum rs_whatif_type type = node->type;
    switch (node->type) {
    case RS_WHATIF_FORWARD_RECV:
        from = stage ? node->worker - 1 : node->worker;
        type = stage ? RS_WHATIF_FORWARD_SEND : type;
        to = from + 1;
        break;
    case RS_WHATIF_BACKWARD_RECV:
        from = stage + 1 < stages ? node->worker + 1 : node->worker;
        type = stage + 1 < stages ? RS_WHATIF_BACKWARD_SEND : type;
        to = from + 1;
        break;
    case RS_WHATIF_EMBEDDING_REDUCE:
        from = node->worker - stage;
        break;
    case RS_WHATIF_PARAMS_GATHER:
    case RS_WHATIF_GRADS_SCATTER:
        from = stage;
        stride = stages;
        break;
    case RS_WHATIF_CLIP:
        from = 0;
        break;
    case RS_WHATIF_FORWARD:
    case RS_WHATIF_FORWARD_SEND:
    case RS_WHATIF_BACKWARD:
    case RS_WHATIF_BACKWARD_SEND:
    case RS_WHATIF_GC:
    case RS_WHATIF_NORM_REDUCE:
    case RS_WHATIF_OPTIMIZER:
    case RS_WHATIF_TYPES:
        break;
    }
    for (size_t worker = from; worker < to; worker += stride) {
        const uint32_t host = node_at(graph, worker, type, i);
        if (host != WHATIF_NONE)
            return host;
    }
    return index;
}

/* Nodes by meeting, then meetings by what they wait for (Kahn). `order` comes out with whole meetings side by side. */
static enum rs_status sort_meetings(struct whatif_graph *graph, struct rs_err *err)
{
    const size_t n = graph->node_count;
    uint32_t *waits = rs_mem_calloc(n, sizeof *waits);         /* of a meeting: edges not yet met */
    uint32_t *member = rs_mem_calloc(n, sizeof *member);       /* next member of the meeting */
    uint32_t *edge_head = rs_mem_calloc(n, sizeof *edge_head); /* of a node: edges out of it */
    uint32_t *edge_next = rs_mem_calloc(n * WHATIF_PREDS, sizeof *edge_next);
    graph->order = rs_mem_calloc(n, sizeof *graph->order);
    uint32_t *ready = rs_mem_calloc(n, sizeof *ready);
    enum rs_status status = RS_OK;
    if (!waits || !member || !edge_head || !edge_next || !graph->order || !ready) {
        status = no_memory(err);
        goto out;
    }
    for (size_t i = 0; i < n; i++)
        member[i] = edge_head[i] = WHATIF_NONE;
    for (size_t i = 0; i < n; i++) {
        struct whatif_node *node = &graph->nodes[i];
        node->meeting = host_of(graph, (uint32_t)i);
        if (node->meeting != i) {
            member[i] = member[node->meeting];
            member[node->meeting] = (uint32_t)i;
        }
        for (size_t p = 0; p < WHATIF_PREDS && node->pred[p] != WHATIF_NONE; p++) {
            const size_t edge = i * WHATIF_PREDS + p;
            edge_next[edge] = edge_head[node->pred[p]];
            edge_head[node->pred[p]] = (uint32_t)edge;
            waits[node->meeting]++;
        }
    }
    size_t ready_count = 0, placed = 0;
    for (size_t i = 0; i < n; i++)
        if (graph->nodes[i].meeting == i && !waits[i])
            ready[ready_count++] = (uint32_t)i;
    for (size_t at = 0; at < ready_count; at++)
        for (uint32_t node = ready[at]; node != WHATIF_NONE; node = member[node]) {
            graph->order[placed++] = node;
            for (uint32_t edge = edge_head[node]; edge != WHATIF_NONE; edge = edge_next[edge]) {
                const uint32_t meeting = graph->nodes[edge / WHATIF_PREDS].meeting;
                if (--waits[meeting] == 0)
                    ready[ready_count++] = meeting;
            }
        }
    if (placed < n)
        status = rs_err_set(
            err, RS_INVALID,
            "the operations wait for each other in a circle: sends and receives are not those of a "
            "pipeline whose stages each hold one part of the model (interleaved schedules cannot be "
            "played again yet)");
out:
    rs_mem_free(waits);
    rs_mem_free(member);
    rs_mem_free(edge_head);
    rs_mem_free(edge_next);
    rs_mem_free(ready);
    return status;
}

/* What an operation with others took for itself: its end minus the last start among them. */
static void subtract_waiting(struct whatif_graph *graph)
{
    const size_t n = graph->node_count;
    for (size_t step = 0; step < graph->step_count; step++) {
        const double *start = graph->start + step * n;
        for (size_t at = 0; at < n;) {
            const uint32_t meeting = graph->nodes[graph->order[at]].meeting;
            size_t stop = at;
            double met = start[graph->order[at]];
            for (; stop < n && graph->nodes[graph->order[stop]].meeting == meeting; stop++)
                if (start[graph->order[stop]] > met)
                    met = start[graph->order[stop]];
            for (size_t i = at; stop - at > 1 && i < stop; i++) {
                const size_t cell = step * n + graph->order[i];
                const double transfer = graph->end[cell] - met;
                graph->work[cell] = transfer < -TOO_EARLY_NS ? 0 : transfer;
            }
            at = stop;
        }
    }
}

/* The dp ranks of a stage must do the same, or the order of one says nothing about another. */
static enum rs_status check_alike(const struct whatif_graph *graph, struct rs_err *err)
{
    for (size_t worker = 0; worker < graph->worker_count; worker++) {
        size_t all = 0;
        for (int type = 0; type < RS_WHATIF_TYPES; type++) {
            const size_t stage = worker % graph->stage_count;
            const size_t mine = graph->counts[worker * RS_WHATIF_TYPES + (size_t)type];
            const size_t model = graph->counts[stage * RS_WHATIF_TYPES + (size_t)type];
            all += mine;
            if (mine != model)
                return rs_err_set(
                    err, RS_INVALID,
                    "stage %d: dp rank %d has %zu %s per step, dp rank %d has %zu; copies of a stage "
                    "must do the same",
                    (int)graph->stages[stage], (int)graph->dps[worker / graph->stage_count], mine,
                    rs_whatif_type_text((enum rs_whatif_type)type), (int)graph->dps[0], model);
        }
        if (!all)
            return rs_err_set(err, RS_INVALID, "stage %d has no operation in step %lld",
                              (int)graph->stages[worker % graph->stage_count],
                              (long long)graph->steps[0]);
    }
    return RS_OK;
}

enum rs_status whatif_graph_build(struct rs_whatif_ops *ops, struct whatif_graph *graph,
                                  struct rs_err *err)
{
    if (!ops->count)
        return rs_err_set(err, RS_INVALID, "there is no operation");
    enum rs_status status = find_workers(ops, graph, err);
    if (status == RS_OK)
        status = lay_out(ops, graph, err);
    if (status == RS_OK)
        status = check_alike(graph, err);
    if (status != RS_OK)
        return status;
    for (size_t worker = 0; worker < graph->worker_count; worker++)
        connect_worker(graph, worker);
    status = sort_meetings(graph, err);
    if (status == RS_OK)
        subtract_waiting(graph);
    return status;
}

void whatif_graph_fini(struct whatif_graph *graph)
{
    rs_mem_free(graph->dps);
    rs_mem_free(graph->stages);
    rs_mem_free(graph->ranks);
    rs_mem_free(graph->first);
    rs_mem_free(graph->counts);
    rs_mem_free(graph->nodes);
    rs_mem_free(graph->order);
    rs_mem_free(graph->steps);
    rs_mem_free(graph->start);
    rs_mem_free(graph->work);
    rs_mem_free(graph->end);
    *graph = (struct whatif_graph){0};
}
