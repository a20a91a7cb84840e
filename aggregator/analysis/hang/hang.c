/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the graph to findings.
 *
 *   a mismatch that is open                      -> mismatch, its minority
 *   sink of one rank that is not itself waiting  -> hang, this rank: it did not make the call the others are in
 *   sink of one rank that waits in a call that everybody is in and nobody through
 *                                                -> hang, this group: the call itself does not end
 *   sink of several ranks                        -> deadlock by order of calls
 *   only ranks without a dump are left           -> silent_rank, probable
 *   only ranks that cannot be judged are left    -> undecided
 *
 * A wait counts as a hang when a watchdog gave up on it, when it is longer than the limit (2 s, or three times the longest
 * pause that this job made before), or when nobody knows how long it is, because the dumps were copied. Otherwise the job
 * is in flight, and nobody is named.
 */
#include "aggregator/analysis/hang/hang.h"

#include "aggregator/analysis/hang/hang_priv.h"
#include "common/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SINKS_MAX = 16, GAP_FACTOR = 3, CYCLE_TOLD = 8 };
#define DEFAULT_MIN_WAIT_NS INT64_C(2000000000)

const char *rs_hang_state_text(enum rs_hang_state state)
{
    switch (state) {
    case RS_HANG_NOTHING:
        return "nothing";
    case RS_HANG_HUNG:
        return "hung";
    case RS_HANG_IN_FLIGHT:
        return "in_flight";
    case RS_HANG_UNDECIDED:
        return "undecided";
    }
    return "nothing";
}

/* --- how long --------------------------------------------------------------------------------------------------- */

static void measure_waits(struct hang_work *work)
{
    struct rs_hang *hang = work->hang;
    int64_t gap = 0;
    for (size_t n = 0; n < work->node_count; n++)
        gap = work->nodes[n].gap_ns > gap ? work->nodes[n].gap_ns : gap;
    hang->limit_ns =
        work->options->min_wait_ns > 0 ? work->options->min_wait_ns : DEFAULT_MIN_WAIT_NS;
    if (gap < INT64_MAX / GAP_FACTOR && gap * GAP_FACTOR > hang->limit_ns)
        hang->limit_ns = gap * GAP_FACTOR;
    hang->longest_wait_ns = RS_NULL;
    for (size_t i = 0; i < hang->wait_count; i++)
        if (hang->waits[i].waited_ns > hang->longest_wait_ns)
            hang->longest_wait_ns = hang->waits[i].waited_ns;
}

static bool is_long(const struct rs_hang *hang)
{
    return hang->has_timed_out || hang->longest_wait_ns == RS_NULL ||
           hang->longest_wait_ns >= hang->limit_ns;
}

/* Known to be long, not only not known to be short. */
static bool is_surely_long(const struct rs_hang *hang)
{
    return hang->has_timed_out ||
           (hang->longest_wait_ns != RS_NULL && hang->longest_wait_ns >= hang->limit_ns);
}

static enum rs_confidence confidence_of(const struct rs_hang *hang)
{
    if (hang->silent_count || hang->stale_dumps || hang->partial_dumps)
        return RS_CONFIDENCE_PARTIAL;
    return is_surely_long(hang) && !hang->is_half_blind ? RS_CONFIDENCE_EXACT
                                                        : RS_CONFIDENCE_BOUNDED;
}

/* --- evidence --------------------------------------------------------------------------------------------------- */

static const char *frames_of(const struct hang_work *work, const struct rs_flight_entry *entry)
{
    return entry->frames ? rs_strtab_text(&work->set->strings, entry->frames) : NULL;
}

static enum rs_status add_call(const struct hang_work *work, struct rs_finding *finding,
                               struct rs_evidence evidence, const struct rs_flight_entry *entry)
{
    struct rs_buf text = {0};
    hang_describe(work, entry, &text);
    evidence.step = entry->seq;
    const enum rs_status status = hang_add_evidence(finding, evidence, rs_buf_text(&text));
    rs_buf_fini(&text);
    return status;
}

/* What the rank did last, and where in its program. */
static enum rs_status add_last_call(const struct hang_work *work, struct rs_finding *finding,
                                    const struct hang_node *node)
{
    const struct rs_flight_dump *dump = hang_dump(work, node);
    if (!dump || !dump->entry_count)
        return RS_OK;
    const struct rs_flight_entry *last =
        &work->set->entries[dump->entry_first + dump->entry_count - 1];
    struct rs_evidence evidence = hang_evidence(RS_EVIDENCE_LAST_CALL);
    evidence.rank = node->rank;
    evidence.group = node->teams[last->group];
    if (last->created_ns != RS_FLIGHT_UNKNOWN)
        evidence.start_ns = last->created_ns;
    enum rs_status status = add_call(work, finding, evidence, last);
    struct rs_evidence stack = hang_evidence(RS_EVIDENCE_STACK);
    stack.rank = node->rank;
    if (status == RS_OK && dump->stack) /* where it is now says more than where it was */
        return hang_add_evidence(finding, stack, dump->stack);
    stack.group = evidence.group;
    stack.step = last->seq;
    if (status == RS_OK && last->frames)
        status = hang_add_evidence(finding, stack, frames_of(work, last));
    return status;
}

static enum rs_status add_blocked(const struct hang_work *work, struct rs_finding *finding,
                                  uint32_t waiting)
{
    struct rs_evidence evidence = hang_evidence(RS_EVIDENCE_BLOCKED);
    evidence.value = waiting;
    evidence.of = (int64_t)work->node_count;
    return hang_add_evidence(finding, evidence, NULL);
}

static enum rs_status add_not_known(const struct hang_work *work, struct rs_finding *finding)
{
    const struct rs_hang *hang = work->hang;
    const struct {
        size_t count;
        const char *what;
    } unknown[] = {{hang->silent_count, "no_dump"},
                   {hang->stale_dumps, "older_dump"},
                   {hang->partial_dumps, "truncated_dump"},
                   {hang->is_half_blind ? work->set->dump_count : 0, "p2p_not_recorded"}};
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0] && status == RS_OK; i++) {
        struct rs_evidence evidence = hang_evidence(RS_EVIDENCE_NOT_KNOWN);
        evidence.value = (int64_t)unknown[i].count;
        evidence.of = (int64_t)work->node_count;
        if (unknown[i].count)
            status = hang_add_evidence(finding, evidence, unknown[i].what);
    }
    return status;
}

/* Of the world's communicator the rank is global; of smaller ones nobody says whose they are. */
static enum rs_status add_witnesses(const struct hang_work *work, struct rs_finding *finding,
                                    int32_t rank)
{
    const struct rs_flight_set *set = work->set;
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < set->witness_count && status == RS_OK; i++) {
        const struct rs_flight_witness *witness = &set->witnesses[i];
        if (witness->rank != rank || witness->comm_size != (int32_t)work->node_count)
            continue;
        struct rs_evidence evidence = hang_evidence(RS_EVIDENCE_WITNESS);
        evidence.rank = rank;
        int64_t most = RS_NULL;
        for (size_t k = 0; k < set->witness_count; k++)
            if (set->witnesses[k].comm == witness->comm && set->witnesses[k].op == witness->op &&
                set->witnesses[k].kind == witness->kind && set->witnesses[k].count > most)
                most = set->witnesses[k].count;
        if (witness->count != RS_FLIGHT_UNKNOWN) {
            evidence.value = witness->count;
            evidence.reference = most;
        }
        const char *what = witness->is_dead           ? "ras: considered dead"
                           : witness->is_unresponsive ? "ras: unresponsive"
                           : witness->is_missing      ? "ras: missing"
                           : witness->error ? rs_strtab_text(&set->strings, witness->error)
                                            : rs_strtab_text(&set->strings, witness->op);
        if (evidence.value != evidence.reference || witness->is_missing || witness->error)
            status = hang_add_evidence(finding, evidence, what);
    }
    return status;
}

/* --- findings --------------------------------------------------------------------------------------------------- */

/* Of each node the edge that leads to it from the longest wait; freed by the caller. NULL: no memory. */
static const struct hang_edge **edges_to(const struct hang_work *work)
{
    const struct hang_edge **best =
        rs_mem_calloc(work->node_count + 1, sizeof(const struct hang_edge *));
    for (size_t i = 0; best && i < work->edge_count; i++) {
        const struct hang_edge *edge = &work->edges[i];
        const struct hang_edge **at = &best[edge->to];
        if (!*at || work->set->entries[edge->entry].created_ns <
                        work->set->entries[(*at)->entry].created_ns)
            *at = edge;
    }
    return best;
}

/* Frames of the call that others made and this rank did not: the line of the program where it is missed. */
static enum rs_status add_call_stack(const struct hang_work *work, struct rs_finding *finding,
                                     const struct hang_edge *edge)
{
    const struct rs_flight_entry *call = &work->set->entries[edge->entry];
    struct rs_evidence stack = hang_evidence(RS_EVIDENCE_STACK);
    stack.rank = work->nodes[edge->from].rank;
    stack.peer = work->nodes[edge->to].rank;
    stack.group = work->nodes[edge->from].teams[call->group];
    stack.step = call->seq;
    return call->frames ? hang_add_evidence(finding, stack, frames_of(work, call)) : RS_OK;
}

/* How far the rank came in this group, and who is waiting there. */
static enum rs_status add_missing(const struct hang_work *work, struct rs_finding *finding,
                                  const struct hang_edge *edge)
{
    const struct rs_flight_entry *call = &work->set->entries[edge->entry];
    const struct hang_node *from = &work->nodes[edge->from], *to = &work->nodes[edge->to];
    const uint32_t team = from->teams[call->group];
    const struct hang_member *member = hang_member_of(work, team, to->rank);
    struct rs_evidence evidence =
        hang_evidence(to->dump < 0 ? RS_EVIDENCE_NO_DUMP : RS_EVIDENCE_NOT_CALLED);
    evidence.rank = to->rank;
    evidence.peer = from->rank;
    evidence.group = team;
    if (member && member->last_seq >= 0)
        evidence.reference = member->last_seq;
    for (size_t i = 0; i < work->op_count; i++)
        if (work->ops[i].team == team && work->ops[i].seq == call->seq &&
            call->op != RS_FLIGHT_SEND && call->op != RS_FLIGHT_RECV) {
            evidence.seen = (int64_t)work->ops[i].in_count;
            evidence.of = (int64_t)work->teams[team].member_count;
        }
    if (to->dump < 0)
        evidence.value = (int64_t)work->hang->silent_count;
    if (call->created_ns != RS_FLIGHT_UNKNOWN)
        evidence.start_ns = call->created_ns;
    if (from->taken_ns != RS_NULL && evidence.start_ns != RS_NULL)
        evidence.dur_ns = from->taken_ns - evidence.start_ns;
    return add_call(work, finding, evidence, call);
}

struct sink {
    uint32_t component, node, waiting;
    const struct hang_edge *edge;
};

static int by_waiting(const void *a, const void *b)
{
    const struct sink *x = a, *y = b;
    if (x->waiting != y->waiting)
        return x->waiting > y->waiting ? -1 : 1;
    return (x->node > y->node) - (x->node < y->node);
}

static bool is_same_call(const struct hang_work *work, const struct sink *a, const struct sink *b)
{
    const struct rs_flight_entry *x = &work->set->entries[a->edge->entry];
    const struct rs_flight_entry *y = &work->set->entries[b->edge->entry];
    return x->seq == y->seq && x->op != RS_FLIGHT_SEND && x->op != RS_FLIGHT_RECV &&
           work->nodes[a->edge->from].teams[x->group] == work->nodes[b->edge->from].teams[y->group];
}

/* Where a rank runs: its dump says it, or NCCL does. */
static const char *host_of(const struct hang_work *work, const struct hang_node *node)
{
    const struct rs_flight_set *set = work->set;
    const struct rs_flight_dump *dump = hang_dump(work, node);
    if (dump && *dump->host)
        return dump->host;
    for (size_t i = 0; i < set->witness_count; i++)
        if (set->witnesses[i].rank == node->rank && set->witnesses[i].host &&
            set->witnesses[i].comm_size == (int32_t)work->node_count)
            return rs_strtab_text(&set->strings, set->witnesses[i].host);
    return NULL;
}

static enum rs_status add_host(const struct hang_work *work, struct rs_finding *finding,
                               const struct hang_node *node)
{
    const char *host = host_of(work, node);
    for (size_t i = 0; host && i < finding->also_count; i++)
        if (strcmp(finding->also[i].text, host) == 0)
            host = NULL;
    return host ? hang_add_host(finding, host) : RS_OK;
}

/* One finding for the sinks that miss the same call. */
static enum rs_status tell_rank(struct hang_work *work, struct sink *sinks, size_t count,
                                enum rs_finding_kind kind)
{
    struct rs_finding *finding = hang_add_finding(
        work->hang, kind,
        kind == RS_FINDING_SILENT_RANK ? RS_CONFIDENCE_PARTIAL : confidence_of(work->hang));
    enum rs_status status = finding ? RS_OK : RS_NOMEM;
    for (size_t i = 0; i < count && status == RS_OK; i++) {
        if (i && (!sinks[i].edge || !is_same_call(work, &sinks[0], &sinks[i])))
            continue;
        const struct hang_node *node = &work->nodes[sinks[i].node];
        const struct hang_edge *edge = sinks[i].edge;
        status = hang_add_rank(finding, node->rank);
        if (status == RS_OK)
            status = add_host(work, finding, node);
        if (status == RS_OK)
            status = add_missing(work, finding, edge);
        if (status == RS_OK && i == 0)
            status = add_call_stack(work, finding, edge);
        if (status == RS_OK)
            status = add_last_call(work, finding, node);
        if (status == RS_OK)
            status = add_witnesses(work, finding, node->rank);
        if (i)
            sinks[i].edge = NULL; /* told */
    }
    if (status == RS_OK)
        status = add_blocked(work, finding, sinks[0].waiting);
    if (status == RS_OK)
        status = add_not_known(work, finding);
    sinks[0].edge = NULL;
    return status;
}

/* The call before it ended, or there was none. Else a call that the rings have lost may have been called differently, and hold this
 * one behind it. */
static bool is_front_known(const struct hang_work *work, const struct rs_hang_wait *wait)
{
    const struct hang_team *team = &work->teams[wait->group];
    if (team->done_seq >= wait->seq - 1)
        return true;
    for (size_t m = 0; m < team->member_count; m++) {
        const struct rs_flight_dump *dump = hang_dump(work, &work->nodes[team->members[m].node]);
        if (!dump || dump->dropped != 0)
            return false;
    }
    return true;
}

/* Everybody is in: the call itself. */
static enum rs_status tell_inside(struct hang_work *work, const struct rs_hang_wait *wait)
{
    const bool is_sure = is_front_known(work, wait);
    const enum rs_confidence confidence = confidence_of(work->hang);
    struct rs_finding *finding =
        hang_add_finding(work->hang, RS_FINDING_HANG, is_sure ? confidence : RS_CONFIDENCE_PARTIAL);
    if (!finding)
        return RS_NOMEM;
    struct rs_evidence evidence = hang_evidence(RS_EVIDENCE_INSIDE);
    evidence.group = wait->group;
    evidence.step = wait->seq;
    evidence.rank = wait->rank;
    evidence.seen = evidence.of = (int64_t)work->teams[wait->group].member_count;
    evidence.start_ns = wait->since_ns;
    evidence.dur_ns = wait->waited_ns;
    enum rs_status status = hang_add_group(work->hang, finding, wait->group);
    if (status == RS_OK)
        status = hang_add_evidence(finding, evidence, rs_flight_op_text(wait->op));
    if (status == RS_OK && !is_sure)
        status = hang_add_evidence(finding, hang_evidence(RS_EVIDENCE_NOT_KNOWN), "calls_before");
    return status == RS_OK ? add_not_known(work, finding) : status;
}

/* The edge of `node` that stays in its component. */
static const struct hang_edge *edge_within(const struct hang_work *work,
                                           const struct hang_graph *graph, uint32_t node)
{
    const struct hang_node *about = &work->nodes[node];
    for (size_t i = 0; i < about->edge_count; i++) {
        const struct hang_edge *edge = &work->edges[about->edge_first + i];
        if (graph->component[edge->to] == graph->component[node])
            return edge;
    }
    return NULL;
}

/* The only rank of the circle through `start` that left its program; HANG_NO_NODE: none, or several. */
static uint32_t deviant(const struct hang_work *work, const struct hang_graph *graph,
                        uint32_t start)
{
    uint32_t found = HANG_NO_NODE, node = start;
    for (size_t steps = 0; steps <= work->node_count; steps++) {
        size_t rounds;
        const bool is_off = hang_off_course(work, &work->nodes[node], &rounds) != NULL;
        if (is_off && found != HANG_NO_NODE)
            return HANG_NO_NODE;
        if (is_off)
            found = node;
        node = edge_within(work, graph, node)->to;
        if (node == start)
            break;
    }
    return found;
}

static enum rs_status add_deviant(const struct hang_work *work, struct rs_finding *finding,
                                  uint32_t node)
{
    size_t rounds;
    const struct rs_flight_entry *call = hang_off_course(work, &work->nodes[node], &rounds);
    struct rs_evidence evidence = hang_evidence(RS_EVIDENCE_OFF_COURSE);
    evidence.rank = work->nodes[node].rank;
    evidence.group = work->nodes[node].teams[call->group];
    evidence.of = (int64_t)rounds;
    const enum rs_status status = hang_add_rank(finding, work->nodes[node].rank);
    return status == RS_OK ? add_call(work, finding, evidence, call) : status;
}

/* Follows edges inside the component until a rank comes again; that circle is named, a line a rank. One that left its program
 * is named alone. */
static enum rs_status tell_deadlock(struct hang_work *work, const struct hang_graph *graph,
                                    const struct sink *sink)
{
    struct rs_finding *finding =
        hang_add_finding(work->hang, RS_FINDING_DEADLOCK, confidence_of(work->hang));
    uint8_t *seen = rs_mem_calloc(work->node_count + 1, 1);
    enum rs_status status = finding && seen ? RS_OK : RS_NOMEM;
    uint32_t node = sink->node;
    while (status == RS_OK && !seen[node]) {
        seen[node] = 1;
        node = edge_within(work, graph, node)->to;
    }
    const uint32_t off = status == RS_OK ? deviant(work, graph, node) : HANG_NO_NODE;
    if (status == RS_OK)
        memset(seen, 0, work->node_count);
    if (status == RS_OK && off != HANG_NO_NODE)
        status = add_deviant(work, finding, off);
    for (size_t told = 0; status == RS_OK && !seen[node]; told++) {
        const struct hang_edge *edge = edge_within(work, graph, node);
        const struct rs_flight_entry *call = &work->set->entries[edge->entry];
        seen[node] = 1;
        if (off == HANG_NO_NODE)
            status = hang_add_rank(finding, work->nodes[node].rank);
        struct rs_evidence evidence = hang_evidence(RS_EVIDENCE_WAITS_FOR);
        evidence.rank = work->nodes[node].rank;
        evidence.peer = work->nodes[edge->to].rank;
        evidence.group = work->nodes[node].teams[call->group];
        if (call->created_ns != RS_FLIGHT_UNKNOWN)
            evidence.start_ns = call->created_ns;
        if (work->nodes[node].taken_ns != RS_NULL && evidence.start_ns != RS_NULL)
            evidence.dur_ns = work->nodes[node].taken_ns - evidence.start_ns;
        if (status == RS_OK && told < CYCLE_TOLD)
            status = add_call(work, finding, evidence, call);
        if (status == RS_OK && told < CYCLE_TOLD && call->frames) {
            struct rs_evidence stack = hang_evidence(RS_EVIDENCE_STACK);
            stack.rank = evidence.rank;
            stack.group = evidence.group;
            stack.step = call->seq;
            status = hang_add_evidence(finding, stack, frames_of(work, call));
        }
        node = edge->to;
    }
    rs_mem_free(seen);
    if (status == RS_OK)
        status = add_blocked(work, finding, sink->waiting);
    return status == RS_OK ? add_not_known(work, finding) : status;
}

/* --- sinks ------------------------------------------------------------------------------------------------------ */

enum sink_kind { SINK_RANK, SINK_INSIDE, SINK_CYCLE, SINK_SILENT, SINK_UNJUDGED, SINK_KINDS };

static enum sink_kind kind_of(const struct hang_work *work, const struct hang_graph *graph,
                              uint32_t node)
{
    const struct hang_node *about = &work->nodes[node];
    if (graph->size[graph->component[node]] > 1)
        return SINK_CYCLE;
    if (about->dump < 0)
        return SINK_SILENT;
    if (about->is_blind || hang_dump(work, about)->is_partial)
        return SINK_UNJUDGED;
    if (about->waits)
        return about->is_inside ? SINK_INSIDE : SINK_UNJUDGED;
    return SINK_RANK;
}

/* All of one kind, those first for whom most wait; a circle is one. `sinks` has room for every node. */
static enum rs_status sinks_of(const struct hang_work *work, const struct hang_graph *graph,
                               enum sink_kind kind, struct sink *sinks, size_t *count_p)
{
    size_t count = 0;
    const struct hang_edge **best = edges_to(work);
    uint8_t *told = rs_mem_calloc(graph->component_count + 1, 1);
    for (uint32_t n = 0; best && told && n < work->node_count; n++) {
        const uint32_t component = graph->component[n];
        const bool is_circle = graph->size[component] > 1;
        if (graph->leaves[component] || kind_of(work, graph, n) != kind || told[component] ||
            (!is_circle && !graph->waiting[component]))
            continue;
        told[component] = 1;
        sinks[count++] = (struct sink){.component = component,
                                       .node = n,
                                       .waiting = graph->waiting[component] +
                                                  (is_circle ? graph->size[component] : 0),
                                       .edge = best[n]};
    }
    const enum rs_status status = best && told ? RS_OK : RS_NOMEM;
    rs_mem_free(told);
    rs_mem_free(best);
    if (count)
        qsort(sinks, count, sizeof *sinks, by_waiting);
    *count_p = count;
    return status;
}

static enum rs_status tell_sinks(struct hang_work *work, const struct hang_graph *graph,
                                 enum sink_kind kind)
{
    struct sink *sinks = rs_mem_calloc(work->node_count + 1, sizeof *sinks);
    if (!sinks)
        return RS_NOMEM;
    size_t count;
    enum rs_status status = sinks_of(work, graph, kind, sinks, &count);
    size_t told = 0;
    for (size_t i = 0; i < count && status == RS_OK; i++) {
        if (!sinks[i].edge)
            continue;
        if (told == SINKS_MAX) {
            work->hang->untold_count++;
            continue;
        }
        told++;
        if (kind == SINK_CYCLE)
            status = tell_deadlock(work, graph, &sinks[i]);
        else
            status = tell_rank(work, sinks + i, count - i,
                               kind == SINK_SILENT ? RS_FINDING_SILENT_RANK : RS_FINDING_HANG);
    }
    rs_mem_free(sinks);
    return status;
}

/* A call that stands although all are in it, and nothing before it: no rank without a dump explains that. */
static bool is_any_inside(const struct hang_work *work)
{
    for (uint32_t n = 0; n < work->node_count; n++)
        if (work->nodes[n].is_inside)
            return true;
    return false;
}

/* Calls that everybody is in: the earliest of each group, longest first. */
static enum rs_status tell_all_inside(struct hang_work *work)
{
    struct rs_hang *hang = work->hang;
    const struct rs_hang_wait *best = NULL;
    for (size_t i = 0; i < hang->wait_count; i++) {
        const struct rs_hang_wait *wait = &hang->waits[i];
        if (wait->for_count || wait->is_p2p)
            continue;
        if (!best || wait->since_ns < best->since_ns)
            best = wait;
    }
    return best ? tell_inside(work, best) : RS_OK;
}

/* --- all of it -------------------------------------------------------------------------------------------------- */

static enum rs_status find_silent(struct hang_work *work)
{
    struct rs_hang *hang = work->hang;
    hang->silent = rs_mem_calloc(work->node_count + 1, sizeof *hang->silent);
    if (!hang->silent)
        return RS_NOMEM;
    for (size_t n = 0; n < work->node_count; n++)
        if (work->nodes[n].dump < 0)
            hang->silent[hang->silent_count++] = work->nodes[n].rank;
    return RS_OK;
}

static enum rs_status conclude(struct hang_work *work, const struct hang_graph *graph)
{
    struct rs_hang *hang = work->hang;
    enum rs_status status = RS_OK;
    const bool has_mismatch = work->has_open_mismatch;
    const bool waits_for_somebody = work->edge_count;
    const size_t before = hang->finding_count;
    if (!hang->wait_count) {
        hang->state = RS_HANG_NOTHING;
        return RS_OK;
    }
    if (!is_long(hang) && !has_mismatch) {
        hang->state = RS_HANG_IN_FLIGHT;
        return RS_OK;
    }
    if (!has_mismatch) { /* behind a mismatch everything else is its consequence */
        status = tell_sinks(work, graph, SINK_RANK);
        if (status == RS_OK)
            status = tell_sinks(work, graph, SINK_CYCLE);
        if (status == RS_OK && hang->finding_count == before && !is_any_inside(work))
            status = tell_sinks(work, graph, SINK_SILENT);
        if (status == RS_OK && hang->finding_count == before && is_surely_long(hang))
            status = tell_all_inside(work);
    }
    if (hang->finding_count > before || has_mismatch)
        hang->state = RS_HANG_HUNG;
    else
        hang->state = waits_for_somebody ? RS_HANG_UNDECIDED : RS_HANG_IN_FLIGHT;
    return status;
}

static void work_fini(struct hang_work *work)
{
    for (size_t t = 0; work->teams && t < work->hang->group_count; t++)
        rs_mem_free(work->teams[t].members);
    for (size_t n = 0; n < work->node_count; n++)
        rs_mem_free(work->nodes[n].teams);
    rs_mem_free(work->teams);
    rs_mem_free(work->nodes);
    rs_mem_free(work->calls);
    rs_mem_free(work->ops);
    rs_mem_free(work->lists);
    rs_mem_free(work->edges);
}

static enum rs_status analyse(struct hang_work *work)
{
    struct hang_graph graph = {0};
    enum rs_status status = hang_find_groups(work);
    if (status == RS_OK)
        status = find_silent(work);
    if (status == RS_OK)
        status = hang_find_edges(work);
    if (status == RS_OK)
        status = hang_find_mismatches(work);
    if (status == RS_OK)
        status = hang_graph_new(work, &graph);
    if (status == RS_OK) {
        measure_waits(work);
        status = conclude(work, &graph);
    }
    if (status == RS_OK && work->hang->state != RS_HANG_HUNG)
        status = hang_find_late(work);
    hang_graph_fini(&graph);
    return status;
}

enum rs_status rs_hang_new(const struct rs_flight_set *set, const struct rs_hang_options *options,
                           struct rs_hang **hang_p, struct rs_err *err)
{
    static const struct rs_hang_options defaults = {0};
    struct rs_hang *hang = rs_mem_calloc(1, sizeof *hang);
    if (!hang)
        return rs_err_set(err, RS_NOMEM, "no memory for the analysis of a hang");
    hang->set = set;
    struct hang_work work = {.hang = hang, .set = set, .options = options ? options : &defaults};
    const enum rs_status status = analyse(&work);
    work_fini(&work);
    if (status != RS_OK) {
        rs_hang_free(&hang);
        return rs_err_set(err, status, "no memory for the analysis of %zu dumps", set->dump_count);
    }
    *hang_p = hang;
    return RS_OK;
}

void rs_hang_free(struct rs_hang **hang_p)
{
    struct rs_hang *hang = *hang_p;
    if (!hang)
        return;
    for (size_t i = 0; i < hang->group_count; i++) {
        rs_mem_free(hang->groups[i].text);
        rs_mem_free(hang->groups[i].ranks);
    }
    for (size_t i = 0; i < hang->finding_count; i++) {
        struct rs_finding *finding = &hang->findings[i];
        for (size_t k = 0; k < finding->place_count; k++)
            rs_mem_free(finding->places[k].text);
        for (size_t k = 0; k < finding->evidence_count; k++)
            rs_mem_free(finding->evidence[k].name);
        for (size_t k = 0; k < finding->also_count; k++)
            rs_mem_free(finding->also[k].text);
        rs_mem_free(finding->places);
        rs_mem_free(finding->also);
        rs_mem_free(finding->evidence);
    }
    rs_mem_free(hang->groups);
    rs_mem_free(hang->findings);
    rs_mem_free(hang->waits);
    rs_mem_free(hang->silent);
    rs_mem_free(hang);
    *hang_p = NULL;
}
