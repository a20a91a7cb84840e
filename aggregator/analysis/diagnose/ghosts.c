/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that were not recorded, as far as the others show them.
 *
 * Where one member of an operation is missing, it had come when the transfer began: the end, less what the transfer takes at
 * least. Where that is later than the last of the known members, all of them waited for it, and it came from where it had
 * been: the ends of the earlier operations that it was in.
 *
 *     known 0  ...[op A]--------work--[op B      ]      B began late: rank 2 had not come
 *     known 1  ...[op A]---work--[op B           ]
 *     missing 2        [op C   ]--????--*               the ghost's start: behind the end of C by as much as it was
 *     known 3   ..[op C        ]                        so that B comes earlier when C does
 *
 * The time between (????) stays as it is in every replay: of what the missing rank did nothing is claimed. It is held by the newest end
 * of each of its groups, the latest of them counts: what fixing somebody brings is told too small rather than too large.
 * Operations that more than one member of is missing tell nothing.
 */
#include "aggregator/analysis/diagnose/build.h"
#include "common/base/mem.h"

#include <stdlib.h>

/* An operation of a missing rank. */
struct sighting {
    int32_t rank;
    uint32_t partners; /* its group; of messages the other rank */
    bool is_p2p;
    uint8_t type;
    int64_t bytes;
    uint32_t size;
    bool crosses;  /* the known members are on several hosts */
    bool is_whole; /* nobody is missing: it shows how long such a transfer takes */
    uint32_t op, step;
    rs_ns end, start; /* of the known members: the first end, the last start */
    rs_dur least;     /* what the transfer takes at least */
};

struct sightings {
    struct sighting *items;
    size_t count, capacity;
};

static bool is_missing(const struct rs_analysis *analysis, int32_t rank)
{
    size_t low = 0, high = analysis->missing_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (analysis->missing_ranks[middle] < rank) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < analysis->missing_count && analysis->missing_ranks[low] == rank;
}

/* The one member that was not recorded; -1: none, several, or nobody knows. */
static int32_t missing_of(const struct rs_analysis *analysis, const struct rs_job_op *op,
                          const struct rs_comm_op *own)
{
    if (own->type == RS_OP_SEND || own->type == RS_OP_RECV) {
        const bool is_known =
            (own->flags & (RS_OP_PEER_IN_GROUP | RS_OP_ON_DEVICE | RS_OP_IS_BATCH)) ==
            RS_OP_ON_DEVICE;
        return is_known && op->row_count == 1 && is_missing(analysis, own->peer) ? own->peer : -1;
    }
    const struct rs_job_group *group =
        op->group != RS_NO_GROUP ? &analysis->groups[op->group] : NULL;
    int32_t missing = -1;
    if (group == NULL || group->ranks == NULL || group->rank_count != op->row_count + 1 ||
        rs_op_type_dependency((enum rs_op_type)op->type) != RS_DEPENDS_ALL) {
        return -1;
    }
    for (size_t i = 0; i < group->rank_count; i++) {
        if (is_missing(analysis, group->ranks[i])) {
            if (missing >= 0) {
                return -1;
            }
            missing = group->ranks[i];
        }
    }
    return missing;
}

static const struct line *line_of(const struct builder *builder, const struct rs_job_row *row)
{
    const uint32_t worker = builder->worker_of[row->summary];
    const uint32_t line = worker != GRAPH_NONE
                              ? builder->op_line[builder->op_base[row->summary] + row->op_index]
                              : GRAPH_NONE;
    return line != GRAPH_NONE ? &builder->programs[worker].lines[line] : NULL;
}

static enum rs_status add_sighting(const struct builder *builder, size_t index,
                                   struct sightings *list)
{
    const struct rs_analysis *analysis = builder->analysis;
    const struct rs_job_op *op = &analysis->ops[index];
    const struct rs_job_row *first = &analysis->rows[op->row_first];
    const struct rs_comm_op *own = &analysis->summaries[first->summary]->ops[first->op_index];
    const bool is_whole = op->coverage == RS_COVERAGE_EXACT && op->is_matched;
    const int32_t rank = !is_whole && op->has_wait ? missing_of(analysis, op, own) : -1;
    if (rank < 0 && !(is_whole && op->has_wait)) {
        return RS_OK;
    }
    struct sighting seen = {.rank = rank,
                            .is_whole = is_whole,
                            .size = (uint32_t)op->row_count + !is_whole,
                            .is_p2p = op->is_p2p,
                            .partners = op->is_p2p ? (uint32_t)first->rank : op->group,
                            .type = own->type,
                            .bytes = own->bytes,
                            .op = (uint32_t)index,
                            .end = RS_NS_MAX,
                            .start = RS_NS_MIN};
    int32_t host = -1;
    for (size_t r = op->row_first; r < op->row_first + op->row_count; r++) {
        const struct line *line = line_of(builder, &analysis->rows[r]);
        if (line == NULL) {
            return RS_OK;
        }
        const int32_t own_host =
            builder->model->workers[builder->worker_of[analysis->rows[r].summary]].host;
        seen.crosses = seen.crosses || (host >= 0 && own_host != host);
        host = own_host;
        seen.step = line->step;
        seen.end = line->end < seen.end ? line->end : seen.end;
        seen.start = line->start > seen.start ? line->start : seen.start;
    }
    seen.least = seen.end > seen.start ? seen.end - seen.start : 0;
    if (rs_mem_grow((void **)&list->items, &list->capacity, list->count + 1, sizeof *list->items) !=
        RS_OK) {
        return RS_NOMEM;
    }
    list->items[list->count++] = seen;
    return RS_OK;
}

/* Kinds of transfers that take equally long. */
static int compare_kinds(const struct sighting *a, const struct sighting *b)
{
    if (a->is_p2p != b->is_p2p) {
        return a->is_p2p ? 1 : -1;
    }
    if (a->type != b->type && !a->is_p2p) {
        return a->type > b->type ? 1 : -1;
    }
    if (a->bytes != b->bytes) {
        return a->bytes > b->bytes ? 1 : -1;
    }
    if (a->size != b->size) {
        return a->size > b->size ? 1 : -1;
    }
    return (int)a->crosses - (int)b->crosses;
}

static int by_kind(const void *left, const void *right)
{
    const struct sighting *a = left, *b = right;
    const int kind = compare_kinds(a, b);
    if (kind != 0) {
        return kind;
    }
    if (a->is_whole != b->is_whole) {
        return a->is_whole ? -1 : 1;
    }
    if (a->is_whole && a->least != b->least) {
        return a->least > b->least ? 1 : -1;
    }
    if (a->partners != b->partners) {
        return a->partners > b->partners ? 1 : -1;
    }
    return (a->op > b->op) - (a->op < b->op);
}

static int by_end(const void *left, const void *right)
{
    const struct sighting *a = left, *b = right;
    if (a->rank != b->rank) {
        return a->rank > b->rank ? 1 : -1;
    }
    if (a->end != b->end) {
        return a->end > b->end ? 1 : -1;
    }
    return (a->op > b->op) - (a->op < b->op);
}

/* A transfer takes what the middle one of its kind takes where nobody is missing; but no longer than the least that was seen of
 * its own partners behind the known members' starts. Sightings of whole operations are left out then. */
static void find_least(struct sightings *list)
{
    size_t kept = 0;
    qsort(list->items, list->count, sizeof *list->items, by_kind);
    for (size_t i = 0, end; i < list->count; i = end) {
        size_t whole = 0;
        for (end = i; end < list->count && compare_kinds(&list->items[i], &list->items[end]) == 0;
             end++) {
            whole += list->items[end].is_whole;
        }
        const rs_dur usual = whole > 0 ? list->items[i + whole / 2].least : INT64_MAX;
        for (size_t k = i + whole, next; k < end; k = next) {
            rs_dur least = usual;
            for (next = k; next < end && list->items[next].partners == list->items[k].partners;
                 next++) {
                least = list->items[next].least < least ? list->items[next].least : least;
            }
            for (size_t m = k; m < next; m++) {
                list->items[m].least = least;
                list->items[kept++] = list->items[m];
            }
        }
    }
    list->count = kept;
}

/* Transfers of one kind mostly differ by less than this part of them. */
enum { LATE_PART = 10 };

/* Where a ghost has been: the newest end with each of its partners; of more partners those it was with last, since whatever it left
 * earlier it has behind it by then. */
enum { PARTNERS_MOST = 16 };

struct ghost {
    struct {
        uint32_t partners, node;
        bool is_p2p;
        uint8_t type;
    } ends[PARTNERS_MOST];
    size_t count;
};

static size_t oldest_end(const struct ghost *ghost, const struct graph *graph)
{
    size_t oldest = 0;
    for (size_t i = 1; i < ghost->count; i++) {
        oldest =
            graph->seen[ghost->ends[i].node] < graph->seen[ghost->ends[oldest].node] ? i : oldest;
    }
    return oldest;
}

static void note_end(struct ghost *ghost, const struct graph *graph, const struct sighting *seen,
                     uint32_t node)
{
    size_t at = 0;
    while (at < ghost->count &&
           (ghost->ends[at].partners != seen->partners || ghost->ends[at].is_p2p != seen->is_p2p ||
            ghost->ends[at].type != seen->type)) {
        at++;
    }
    if (at == PARTNERS_MOST) {
        at = oldest_end(ghost, graph);
    } else if (at == ghost->count) {
        ghost->count++;
    }
    ghost->ends[at].partners = seen->partners;
    ghost->ends[at].is_p2p = seen->is_p2p;
    ghost->ends[at].type = seen->type;
    ghost->ends[at].node = node;
}

static enum rs_status come(struct builder *builder, const struct ghost *ghost,
                           const struct sighting *seen)
{
    struct graph *graph = &builder->model->graph;
    const struct rs_job_op *op = &builder->analysis->ops[seen->op];
    const rs_ns came = seen->end - seen->least;
    const rs_dur late = came - seen->start;
    uint32_t start;
    bool has_come_from = false;
    for (size_t i = 0; i < ghost->count; i++) {
        has_come_from =
            has_come_from || graph->seen[ghost->ends[i].node] <= came + graph->tolerance;
    }
    if (late <= graph->tolerance + seen->least / LATE_PART || !has_come_from) {
        return RS_OK;
    }
    if (graph_node(graph, came, seen->step, &start) != RS_OK) {
        return RS_NOMEM;
    }
    for (size_t i = 0; i < ghost->count; i++) {
        const uint32_t end = ghost->ends[i].node;
        if (graph->seen[end] <= came + graph->tolerance && graph_edge(graph, end, start) != RS_OK) {
            return RS_NOMEM;
        }
    }
    for (size_t r = op->row_first; r < op->row_first + op->row_count; r++) {
        const struct line *line = line_of(builder, &builder->analysis->rows[r]);
        if (graph_edge(graph, start, line->end_node) != RS_OK) {
            return RS_NOMEM;
        }
    }
    return RS_OK;
}

static enum rs_status follow(struct builder *builder, const struct sightings *list)
{
    struct ghost ghost = {0};
    for (size_t i = 0; i < list->count; i++) {
        const struct sighting *seen = &list->items[i];
        const struct rs_job_op *op = &builder->analysis->ops[seen->op];
        ghost.count = i > 0 && list->items[i - 1].rank != seen->rank ? 0 : ghost.count;
        if (come(builder, &ghost, seen) != RS_OK) {
            return RS_NOMEM;
        }
        note_end(&ghost, &builder->model->graph, seen,
                 line_of(builder, &builder->analysis->rows[op->row_first])->end_node);
    }
    return RS_OK;
}

enum rs_status ghosts_make(struct builder *builder)
{
    struct sightings list = {0};
    enum rs_status status = RS_OK;
    for (size_t i = 0;
         status == RS_OK && builder->analysis->missing_count > 0 && i < builder->analysis->op_count;
         i++) {
        status = add_sighting(builder, i, &list);
    }
    if (status == RS_OK && list.count > 0) {
        find_least(&list);
        qsort(list.items, list.count, sizeof *list.items, by_end);
        status = follow(builder, &list);
    }
    rs_mem_free(list.items);
    return status;
}
