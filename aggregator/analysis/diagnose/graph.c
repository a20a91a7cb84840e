/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes in topological order, never in order of time: equal instants are common and must not matter.
 * A cycle means a wrong pairing or a wrong guess: the youngest inferred edge of the cycle goes, counted.
 */
#include "aggregator/analysis/diagnose/graph.h"

#include "common/base/mem.h"

enum rs_status graph_node(struct graph *graph, rs_ns seen, uint32_t step, uint32_t *node_p)
{
    const size_t need = graph->count + 1;
    if (need >= GRAPH_NONE ||
        rs_mem_grow((void **)&graph->seen, &graph->seen_capacity, need, sizeof *graph->seen) !=
            RS_OK ||
        rs_mem_grow((void **)&graph->step, &graph->step_capacity, need, sizeof *graph->step) !=
            RS_OK ||
        rs_mem_grow((void **)&graph->work, &graph->capacity, need, sizeof *graph->work) != RS_OK) {
        return RS_NOMEM;
    }
    graph->seen[graph->count] = seen;
    graph->step[graph->count] = step;
    graph->work[graph->count] = 0;
    *node_p = (uint32_t)graph->count++;
    return RS_OK;
}

enum rs_status graph_edge(struct graph *graph, uint32_t from, uint32_t to)
{
    if (graph->seen[from] > graph->seen[to] + graph->tolerance) {
        graph->refuted++;
        return RS_OK;
    }
    const size_t need = graph->edge_count + 1;
    if (need >= GRAPH_NONE ||
        rs_mem_grow((void **)&graph->from, &graph->edge_capacity, need, sizeof *graph->from) !=
            RS_OK ||
        rs_mem_grow((void **)&graph->to, &graph->to_capacity, need, sizeof *graph->to) != RS_OK) {
        return RS_NOMEM;
    }
    graph->from[graph->edge_count] = from;
    graph->to[graph->edge_count++] = to;
    return RS_OK;
}

void graph_infer(struct graph *graph)
{
    graph->sure_count = graph->edge_count;
}

/* ---- order ---------------------------------------------------------------------------- */

/* Nothing is kept longer than it is needed: with the edges themselves this is the most that a diagnosis ever holds. */
struct kahn {
    uint32_t *out_first, *out; /* edge ids by their origin: while nodes are ordered */
    uint32_t *in_first,
        *in;        /* edge ids by their target: where there is a cycle, and for the predecessors */
    uint32_t *open; /* [node] predecessors that have not been ordered */
    uint8_t *is_gone; /* [edge] left out */
    uint32_t *mark;   /* [node] walk that came by: where there is a cycle */
    size_t done;
};

static enum rs_status by_end(const uint32_t *ends, size_t edges, size_t nodes, uint32_t **first_p,
                             uint32_t **list_p)
{
    uint32_t *first = rs_mem_calloc(nodes + 2, sizeof *first);
    uint32_t *list = rs_mem_calloc(edges + 1, sizeof *list);
    *first_p = first;
    *list_p = list;
    if (first == NULL || list == NULL) {
        return RS_NOMEM;
    }
    for (size_t e = 0; e < edges; e++) {
        first[ends[e] + 2]++;
    }
    for (size_t n = 2; n < nodes + 2; n++) {
        first[n] += first[n - 1];
    }
    for (size_t e = 0; e < edges; e++) {
        list[first[ends[e] + 1]++] = (uint32_t)e;
    }
    return RS_OK;
}

/* Of the nodes that are ready the newest comes next, so that the order follows one rank as far as it goes: what a replay reads
 * lies together. `order` is filled from its front; the nodes that are ready wait at its back. */
static void release(struct graph *graph, struct kahn *kahn)
{
    size_t ready = graph->count;
    for (uint32_t n = (uint32_t)graph->count; n-- > 0;) {
        if (kahn->open[n] == 0) {
            kahn->open[n] = GRAPH_NONE;
            graph->order[--ready] = n;
        }
    }
    while (ready < graph->count) {
        const uint32_t n = graph->order[ready++];
        graph->order[kahn->done++] = n;
        for (uint32_t i = kahn->out_first[n]; i < kahn->out_first[n + 1]; i++) {
            const uint32_t e = kahn->out[i];
            const uint32_t to = graph->to[e];
            if (!kahn->is_gone[e] && --kahn->open[to] == 0) {
                kahn->open[to] = GRAPH_NONE;
                graph->order[--ready] = to;
            }
        }
    }
}

static uint32_t open_edge_into(const struct graph *graph, const struct kahn *kahn, uint32_t node)
{
    for (uint32_t i = kahn->in_first[node]; i < kahn->in_first[node + 1]; i++) {
        const uint32_t e = kahn->in[i];
        if (!kahn->is_gone[e] && kahn->open[graph->from[e]] != GRAPH_NONE) {
            return e;
        }
    }
    return GRAPH_NONE;
}

/* Walks back from a node that cannot be ordered until it meets its own trace, then cuts that cycle. */
static void cut_cycle(struct graph *graph, struct kahn *kahn, uint32_t walk)
{
    uint32_t node = 0;
    while (kahn->open[node] == GRAPH_NONE) {
        node++;
    }
    while (kahn->mark[node] != walk) {
        kahn->mark[node] = walk;
        node = graph->from[open_edge_into(graph, kahn, node)];
    }
    uint32_t youngest = 0;
    const uint32_t stop = node;
    do {
        const uint32_t e = open_edge_into(graph, kahn, node);
        youngest = e > youngest ? e : youngest;
        node = graph->from[e];
    } while (node != stop);
    kahn->is_gone[youngest] = 1;
    kahn->open[graph->to[youngest]]--;
    graph->cycles++;
}

static enum rs_status cut_cycles(struct graph *graph, struct kahn *kahn)
{
    kahn->mark = rs_mem_calloc(graph->count + 1, sizeof *kahn->mark);
    if (kahn->mark == NULL ||
        by_end(graph->to, graph->edge_count, graph->count, &kahn->in_first, &kahn->in) != RS_OK) {
        return RS_NOMEM;
    }
    for (uint32_t walk = 1; kahn->done < graph->count; walk++) {
        cut_cycle(graph, kahn, walk);
        release(graph, kahn);
    }
    return RS_OK;
}

static enum rs_status order_nodes(struct graph *graph, struct kahn *kahn)
{
    kahn->open = rs_mem_calloc(graph->count + 1, sizeof *kahn->open);
    kahn->is_gone = rs_mem_calloc(graph->edge_count + 1, 1);
    graph->order = rs_mem_calloc(graph->count + 1, sizeof *graph->order);
    if (kahn->open == NULL || kahn->is_gone == NULL || graph->order == NULL ||
        by_end(graph->from, graph->edge_count, graph->count, &kahn->out_first, &kahn->out) !=
            RS_OK) {
        return RS_NOMEM;
    }
    for (size_t e = 0; e < graph->edge_count; e++) {
        kahn->open[graph->to[e]]++;
    }
    release(graph, kahn);
    return kahn->done < graph->count ? cut_cycles(graph, kahn) : RS_OK;
}

static void forget_order(struct kahn *kahn)
{
    rs_mem_free(kahn->out_first);
    rs_mem_free(kahn->out);
    rs_mem_free(kahn->open);
    rs_mem_free(kahn->mark);
    kahn->out_first = kahn->out = kahn->open = kahn->mark = NULL;
}

/* ---- seal ----------------------------------------------------------------------------- */

/* The lists of edges by target become those of predecessors in place: they only get shorter. */
static enum rs_status keep_preds(struct graph *graph, struct kahn *kahn)
{
    if (kahn->in == NULL &&
        by_end(graph->to, graph->edge_count, graph->count, &kahn->in_first, &kahn->in) != RS_OK) {
        return RS_NOMEM;
    }
    uint32_t count = 0, begin = kahn->in_first[0];
    for (size_t n = 0; n < graph->count; n++) {
        const uint32_t end = kahn->in_first[n + 1];
        kahn->in_first[n] = count;
        for (uint32_t i = begin; i < end; i++) {
            const uint32_t e = kahn->in[i];
            if (!kahn->is_gone[e]) {
                kahn->in[count++] = graph->from[e];
            }
        }
        begin = end;
    }
    kahn->in_first[graph->count] = count;
    graph->first = kahn->in_first;
    graph->preds = kahn->in;
    kahn->in_first = kahn->in = NULL;
    return RS_OK;
}

static void find_delays(struct graph *graph)
{
    for (size_t n = 0; n < graph->count; n++) {
        if (graph->first[n] == graph->first[n + 1]) {
            const bool is_known = graph->work[n] > 0 && graph->work[n] < GRAPH_ALL_THERE_IS;
            graph->work[n] = is_known ? graph->work[n] : 0;
            graph->delay[n] = graph->seen[n] - graph->work[n];
            continue;
        }
        rs_ns latest = RS_NS_MIN;
        for (uint32_t i = graph->first[n]; i < graph->first[n + 1]; i++) {
            const rs_ns at = graph->seen[graph->preds[i]];
            latest = at > latest ? at : latest;
        }
        const rs_dur all = graph->seen[n] > latest ? graph->seen[n] - latest : 0;
        rs_dur *work = &graph->work[n];
        *work = *work < 0 ? 0 : *work > all ? all : *work;
        graph->delay[n] = all - *work;
    }
}

enum rs_status graph_seal(struct graph *graph)
{
    struct kahn kahn = {0};
    enum rs_status status = order_nodes(graph, &kahn);
    forget_order(&kahn);
    if (status == RS_OK) {
        status = keep_preds(graph, &kahn);
    }
    rs_mem_free(kahn.in_first);
    rs_mem_free(kahn.in);
    rs_mem_free(kahn.is_gone);
    if (status == RS_OK) {
        rs_mem_free(graph->from);
        rs_mem_free(graph->to);
        graph->from = graph->to = NULL;
        graph->delay = rs_mem_calloc(graph->count + 1, sizeof *graph->delay);
        status = graph->delay != NULL ? RS_OK : RS_NOMEM;
    }
    if (status == RS_OK) {
        find_delays(graph);
    }
    return status;
}

void graph_fini(struct graph *graph)
{
    rs_mem_free(graph->seen);
    rs_mem_free(graph->work);
    rs_mem_free(graph->delay);
    rs_mem_free(graph->step);
    rs_mem_free(graph->order);
    rs_mem_free(graph->first);
    rs_mem_free(graph->preds);
    rs_mem_free(graph->from);
    rs_mem_free(graph->to);
    *graph = (struct graph){0};
}

void graph_replay(const struct graph *graph, const rs_dur *work, rs_ns *times)
{
    const rs_dur *works = work != NULL ? work : graph->work;
    for (size_t i = 0; i < graph->count; i++) {
        const uint32_t n = graph->order[i];
        const uint32_t end = graph->first[n + 1];
        rs_ns latest = graph->first[n] < end ? RS_NS_MIN : 0;
        for (uint32_t p = graph->first[n]; p < end; p++) {
            const rs_ns at = times[graph->preds[p]];
            latest = at > latest ? at : latest;
        }
        times[n] = latest + graph->delay[n] + works[n];
    }
}
