/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who waits for whom, as components: ranks that wait for each other in a circle are one (Tarjan's algorithm, without
 * recursion), all others are one each. A component that no edge leaves is a sink: everybody who reaches it waits, in the
 * end, for it.
 */
#include "aggregator/analysis/hang/hang_priv.h"
#include "common/base/mem.h"

#include <string.h>

struct tarjan {
    const struct hang_work *work;
    uint32_t *index, *low, *stack, *path; /* index 0: not seen */
    size_t *next;                         /* edge of each node to look at next */
    size_t stack_count, path_count;
    uint32_t counter;
};

static void enter(struct tarjan *t, uint32_t node)
{
    t->index[node] = t->low[node] = ++t->counter;
    t->stack[t->stack_count++] = node;
    t->path[t->path_count++] = node;
    t->next[node] = t->work->nodes[node].edge_first;
}

static void close_component(struct tarjan *t, struct hang_graph *graph, uint32_t node)
{
    const uint32_t component = (uint32_t)graph->component_count++;
    for (;;) {
        const uint32_t member = t->stack[--t->stack_count];
        graph->component[member] = component;
        graph->size[component]++;
        if (member == node)
            return;
    }
}

static void visit(struct tarjan *t, struct hang_graph *graph, uint32_t root)
{
    enter(t, root);
    while (t->path_count) {
        const uint32_t node = t->path[t->path_count - 1];
        const struct hang_node *about = &t->work->nodes[node];
        if (t->next[node] < about->edge_first + about->edge_count) {
            const uint32_t to = t->work->edges[t->next[node]++].to;
            if (!t->index[to])
                enter(t, to);
            else if (graph->component[to] == HANG_NO_NODE && t->index[to] < t->low[node])
                t->low[node] = t->index[to];
            continue;
        }
        t->path_count--;
        if (t->path_count) {
            const uint32_t parent = t->path[t->path_count - 1];
            t->low[parent] = t->low[node] < t->low[parent] ? t->low[node] : t->low[parent];
        }
        if (t->low[node] == t->index[node])
            close_component(t, graph, node);
    }
}

/* Nodes from which this component can be reached, itself left out: edges followed backwards. */
static enum rs_status count_waiting(const struct hang_work *work, struct hang_graph *graph)
{
    const size_t n = work->node_count;
    uint32_t *first = rs_mem_calloc(n + 2, sizeof *first);
    uint32_t *from = rs_mem_calloc(work->edge_count + 1, sizeof *from);
    uint32_t *queue = rs_mem_calloc(n + 1, sizeof *queue);
    uint32_t *seen = rs_mem_calloc(n + 1, sizeof *seen);
    const bool has_memory = first && from && queue && seen;
    for (size_t i = 0; has_memory && i < work->edge_count; i++)
        first[work->edges[i].to + 1]++;
    for (size_t i = 0; has_memory && i < n; i++)
        first[i + 1] += first[i];
    for (size_t i = work->edge_count; has_memory && i--;)
        from[first[work->edges[i].to]++] = work->edges[i].from;
    for (size_t i = n; has_memory && i; i--)
        first[i] = first[i - 1];
    if (has_memory)
        first[0] = 0;
    for (uint32_t c = 0; has_memory && c < graph->component_count; c++) {
        if (graph->leaves[c])
            continue;
        size_t count = 0;
        for (uint32_t i = 0; i < n; i++)
            if (graph->component[i] == c) {
                queue[count++] = i;
                seen[i] = c + 1;
            }
        for (size_t at = 0; at < count; at++)
            for (uint32_t k = first[queue[at]]; k < first[queue[at] + 1]; k++)
                if (seen[from[k]] != c + 1) {
                    seen[from[k]] = c + 1;
                    queue[count++] = from[k];
                }
        graph->waiting[c] = (uint32_t)count - graph->size[c];
    }
    rs_mem_free(first);
    rs_mem_free(from);
    rs_mem_free(queue);
    rs_mem_free(seen);
    return has_memory ? RS_OK : RS_NOMEM;
}

enum rs_status hang_graph_new(const struct hang_work *work, struct hang_graph *graph_p)
{
    const size_t n = work->node_count + 1;
    struct hang_graph graph = {.component = rs_mem_calloc(n, sizeof *graph.component),
                               .size = rs_mem_calloc(n, sizeof *graph.size),
                               .leaves = rs_mem_calloc(n, sizeof *graph.leaves),
                               .waiting = rs_mem_calloc(n, sizeof *graph.waiting)};
    struct tarjan t = {.work = work,
                       .index = rs_mem_calloc(n, sizeof *t.index),
                       .low = rs_mem_calloc(n, sizeof *t.low),
                       .stack = rs_mem_calloc(n, sizeof *t.stack),
                       .path = rs_mem_calloc(n, sizeof *t.path),
                       .next = rs_mem_calloc(n, sizeof *t.next)};
    enum rs_status status = graph.component && graph.size && graph.leaves && graph.waiting &&
                                    t.index && t.low && t.stack && t.path && t.next
                                ? RS_OK
                                : RS_NOMEM;
    for (size_t i = 0; status == RS_OK && i < n; i++)
        graph.component[i] = HANG_NO_NODE;
    for (uint32_t i = 0; status == RS_OK && i < work->node_count; i++)
        if (!t.index[i])
            visit(&t, &graph, i);
    for (size_t i = 0; status == RS_OK && i < work->edge_count; i++) {
        const struct hang_edge *edge = &work->edges[i];
        if (graph.component[edge->from] != graph.component[edge->to])
            graph.leaves[graph.component[edge->from]] = 1;
    }
    if (status == RS_OK)
        status = count_waiting(work, &graph);
    rs_mem_free(t.index);
    rs_mem_free(t.low);
    rs_mem_free(t.stack);
    rs_mem_free(t.path);
    rs_mem_free(t.next);
    if (status == RS_OK)
        *graph_p = graph;
    else
        hang_graph_fini(&graph);
    return status;
}

void hang_graph_fini(struct hang_graph *graph)
{
    rs_mem_free(graph->component);
    rs_mem_free(graph->size);
    rs_mem_free(graph->leaves);
    rs_mem_free(graph->waiting);
    *graph = (struct hang_graph){0};
}
