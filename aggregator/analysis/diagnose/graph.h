/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dependency graph of a job and its replay.
 *
 *   node   an instant: a launch, the end of a span, the start of an operation on a member, a meeting, an end
 *   work   the part of a node's time that fixing something may change
 *   delay  observed time - latest predecessor - work, never below 0; kept as it is in every replay
 *   replay t(n) = max over predecessors t(p) + delay(n) + W(n)
 *
 * Build: graph_node(), graph_edge(), then graph_seal() once; then any number of replays. A node without
 * predecessors keeps its observed instant as delay. Struct of arrays, 32-bit ids: memory is 28 bytes a
 * node and 8 an edge. One thread.
 */
#ifndef RS_DIAGNOSE_GRAPH_H
#define RS_DIAGNOSE_GRAPH_H

#include "common/base/status.h"
#include "common/base/time.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GRAPH_NONE UINT32_MAX
/* As work: all that lies behind the latest predecessor. Behind none nothing is known: 0. */
#define GRAPH_ALL_THERE_IS (INT64_C(1) << 60)

struct graph {
    rs_ns *seen;     /* [node] observed instant */
    rs_dur *work;    /* [node] at most what lies between the latest predecessor and `seen` */
    rs_dur *delay;   /* [node] after graph_seal() */
    uint32_t *step;  /* [node] index of the step it belongs to; GRAPH_NONE: to none */
    uint32_t *order; /* [node] topological */
    uint32_t *first; /* [node + 1] into preds */
    uint32_t *preds; /* after graph_seal() */
    uint32_t *from;  /* [edge] while it is built */
    uint32_t *to;
    size_t count, capacity, seen_capacity, step_capacity;
    size_t edge_count, edge_capacity, to_capacity;
    size_t sure_count; /* edges before this index are facts; the later ones were inferred */
    size_t refuted;    /* edges that the times contradict: left out */
    size_t cycles;     /* edges that were left out because they closed a cycle */
    rs_dur tolerance;  /* edges that the times contradict by no more than this stay */
};

/* All: RS_NOMEM. */
RS_MUST_CHECK enum rs_status graph_node(struct graph *graph, rs_ns seen, uint32_t step,
                                        uint32_t *node_p);
RS_MUST_CHECK enum rs_status graph_edge(struct graph *graph, uint32_t from, uint32_t to);
/* Edges after this call are inferred: the youngest of them gives way where a cycle shows a wrong one. */
void graph_infer(struct graph *graph);
/* Work of nodes must be set. Orders the nodes (Kahn), cuts work to what there is, finds delays. */
RS_MUST_CHECK enum rs_status graph_seal(struct graph *graph);
void graph_fini(struct graph *graph);

/* times[node] under these works (NULL: the observed ones). */
void graph_replay(const struct graph *graph, const rs_dur *work, rs_ns *times);

#endif
