/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who of a unit ended with whom: cut into clusters that end apart.
 *
 * Of many members not every pair is compared, which would be n * n: each with those that stand a layout's stride away from it, for
 * members of one group follow each other at one, and with those that end next to it in some operations, for members of a few
 * groups that end apart follow each other there. And not every operation is kept, but some of each type, evenly. What
 * is overlooked by that is not cut, and then has to prove that it is one group (infer_proof.c).
 */
#include "aggregator/analysis/infer_crowd.h"

#include "aggregator/analysis/median.h"
#include "common/base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    SAMPLES_OF_TYPE = 16,  /* operations that are kept of each type at least, of many members */
    NEIGHBOUR_SAMPLES = 8, /* operations in which those that end next to each other are compared */
    SPARSE_MOST = 16, /* ranks may be so many times as many as those of them that are members */
};

static int compare_edges(const void *left, const void *right)
{
    const struct edge *a = left, *b = right;
    if (a->distance < b->distance || a->distance > b->distance) {
        return a->distance > b->distance ? 1 : -1;
    }
    return a->a != b->a ? (a->a > b->a ? 1 : -1) : (a->b > b->b) - (a->b < b->b);
}

double crowd_distance(const struct crowd *crowd, size_t a, size_t b, uint8_t type)
{
    double samples[CHECKED_SAMPLES_MAX];
    size_t count = 0;
    for (size_t id = 0; id < crowd->ids && count < CHECKED_SAMPLES_MAX; id++) {
        const rs_ns x = crowd->ends[a * crowd->ids + id], y = crowd->ends[b * crowd->ids + id];
        rs_dur apart;
        if (crowd->types[id] == type && x != RS_NS_MIN && y != RS_NS_MIN &&
            !__builtin_sub_overflow(x, y, &apart)) {
            samples[count++] = (double)apart;
        }
    }
    if (count < crowd->samples_least) {
        return -1;
    }
    const double middle =
        crowd->clocks[a] != crowd->clocks[b] ? rs_nth(samples, count, count / 2) : 0;
    for (size_t i = 0; i < count; i++) {
        samples[i] = fabs(samples[i] - middle);
    }
    return rs_nth(samples, count, count / 2);
}

/* How much farther apart members of different clusters are than members of one. */
static double ratio_of_clusters(const struct crowd *crowd)
{
    double inside = 0, between = 0;
    size_t insides = 0, betweens = 0;
    for (size_t e = 0; e < crowd->edge_count; e++) {
        const struct edge *edge = &crowd->edges[e];
        const bool is_inside = crowd->label[edge->a] == crowd->label[edge->b];
        if (edge->distance < 0) {
            continue;
        }
        inside += is_inside ? edge->distance : 0;
        between += is_inside ? 0 : edge->distance;
        insides += is_inside;
        betweens += !is_inside;
    }
    inside = insides > 0 ? inside / (double)insides : 0;
    between = betweens > 0 ? between / (double)betweens : 0;
    return between / (inside > CLOSEST_NS ? inside : CLOSEST_NS);
}

static uint32_t root_of(struct crowd *crowd, uint32_t member)
{
    while (crowd->root[member] != member) {
        member = crowd->root[member] = crowd->root[crowd->root[member]];
    }
    return member;
}

static void label_by_root(struct crowd *crowd)
{
    for (uint32_t m = 0; m < crowd->count; m++) {
        crowd->label[m] = root_of(crowd, m);
    }
}

/* Joins the closest first; wherever that leaves clusters of one size, asks how far apart they are. */
static void try_partitions(struct crowd *crowd)
{
    size_t clusters = crowd->count, largest = 1;
    for (uint32_t m = 0; m < crowd->count; m++) {
        crowd->root[m] = m;
        crowd->size[m] = 1;
    }
    qsort(crowd->edges, crowd->edge_count, sizeof *crowd->edges, compare_edges);
    for (size_t e = 0; e < crowd->edge_count && clusters > 2; e++) {
        if (crowd->edges[e].distance < 0) {
            continue;
        }
        const uint32_t one = root_of(crowd, crowd->edges[e].a),
                       other = root_of(crowd, crowd->edges[e].b);
        const uint32_t to = one < other ? one : other, from = one < other ? other : one;
        if (from == to) {
            continue;
        }
        crowd->root[from] = to;
        crowd->size[to] += crowd->size[from];
        largest = crowd->size[to] > largest ? crowd->size[to] : largest;
        if (--clusters * largest == crowd->count) { /* all are as large */
            label_by_root(crowd);
            const double ratio = ratio_of_clusters(crowd);
            if (ratio > crowd->best_ratio) {
                crowd->best_ratio = ratio;
                memcpy(crowd->best, crowd->label, crowd->count * sizeof *crowd->best);
            }
        }
    }
    if (clusters == 2 && crowd->count > 2) {
        label_by_root(crowd);
        memcpy(crowd->parts + crowd->part_count++ * crowd->count, crowd->label,
               crowd->count * sizeof *crowd->parts);
    }
}

void crowd_cut(struct crowd *crowd)
{
    bool is_there[RS_OP_TYPE_COUNT] = {false};
    for (size_t id = 0; id < crowd->ids; id++) {
        is_there[crowd->types[id]] = true;
    }
    for (size_t type = 0; type < RS_OP_TYPE_COUNT; type++) {
        size_t known = 0;
        for (size_t e = 0; e < crowd->edge_count && is_there[type]; e++) {
            struct edge *edge = &crowd->edges[e];
            edge->distance = crowd_distance(crowd, edge->a, edge->b, (uint8_t)type);
            known += edge->distance >= 0;
        }
        if (known > 0) {
            try_partitions(crowd);
        }
    }
}

/* ---- which pairs are compared -------------------------------------------------------------- */

static enum rs_status add_edge(struct crowd *crowd, size_t a, size_t b)
{
    if (rs_mem_grow((void **)&crowd->edges, &crowd->edge_capacity, crowd->edge_count + 1,
                    sizeof *crowd->edges) != RS_OK) {
        return RS_NOMEM;
    }
    crowd->edges[crowd->edge_count++] =
        (struct edge){0, (uint32_t)(a < b ? a : b), (uint32_t)(a < b ? b : a)};
    return RS_OK;
}

/* Pairs that stand `stride` apart; by place: where ranks lie, else as the members are counted. */
static enum rs_status add_stride(struct crowd *crowd, size_t stride, bool by_place)
{
    enum rs_status status = RS_OK;
    for (size_t m = 0, other = 0; m < crowd->count && status == RS_OK; m++) {
        other = by_place ? other : m + stride;
        while (by_place && other < crowd->count &&
               crowd->places[other] < crowd->places[m] + stride) {
            other++;
        }
        if (other < crowd->count &&
            (!by_place || crowd->places[other] == crowd->places[m] + stride)) {
            status = add_edge(crowd, m, other);
        }
    }
    return status;
}

/* Those that end next to each other in one operation. */
static enum rs_status add_neighbours(struct crowd *crowd, struct edge *ends, size_t id)
{
    enum rs_status status = RS_OK;
    size_t count = 0;
    rs_ns first = RS_NS_MIN; /* a double holds what is between, not the time */
    for (uint32_t m = 0; m < crowd->count; m++) {
        const rs_ns end = crowd->ends[m * crowd->ids + id];
        rs_dur from_first;
        first = first == RS_NS_MIN ? end : first;
        if (end != RS_NS_MIN && !__builtin_sub_overflow(end, first, &from_first)) {
            ends[count++] = (struct edge){(double)from_first, m, 0};
        }
    }
    qsort(ends, count, sizeof *ends, compare_edges);
    for (size_t i = 1; i < count && status == RS_OK; i++) {
        status = add_edge(crowd, ends[i - 1].a, ends[i].a);
    }
    return status;
}

static enum rs_status add_some_edges(struct crowd *crowd)
{
    enum rs_status status = RS_OK;
    for (size_t stride = 1; stride < crowd->count && status == RS_OK; stride++) {
        if (crowd->count % stride == 0) {
            status = add_stride(crowd, stride, false);
        }
    }
    for (size_t stride = 1; stride < crowd->world && status == RS_OK; stride++) {
        if (crowd->world % stride == 0 && crowd->world != crowd->count) {
            status = add_stride(crowd, stride, true);
        }
    }
    struct edge *ends = rs_mem_calloc(crowd->count, sizeof *ends);
    status = ends != NULL ? status : RS_NOMEM;
    for (size_t k = 0; k < NEIGHBOUR_SAMPLES && k < crowd->ids && status == RS_OK; k++) {
        const size_t every = crowd->ids > NEIGHBOUR_SAMPLES ? crowd->ids / NEIGHBOUR_SAMPLES : 1;
        status = add_neighbours(crowd, ends, k * every);
    }
    rs_mem_free(ends);
    if (status != RS_OK) {
        return status;
    }
    qsort(crowd->edges, crowd->edge_count, sizeof *crowd->edges, compare_edges);
    size_t kept = 0;
    for (size_t e = 0; e < crowd->edge_count; e++) {
        if (e == 0 || compare_edges(&crowd->edges[e], &crowd->edges[kept - 1]) != 0) {
            crowd->edges[kept++] = crowd->edges[e];
        }
    }
    crowd->edge_count = kept;
    return RS_OK;
}

static enum rs_status choose_edges(struct crowd *crowd)
{
    enum rs_status status = RS_OK;
    if (crowd->count > EVERY_PAIR_MAX) {
        return add_some_edges(crowd);
    }
    for (size_t a = 0; a < crowd->count && status == RS_OK; a++) {
        for (size_t b = a + 1; b < crowd->count && status == RS_OK; b++) {
            status = add_edge(crowd, a, b);
        }
    }
    return status;
}

/* ---- who is looked at, and when ------------------------------------------------------------ */

/* Where the members' ranks lie among all, counted in the largest stride that they all keep. */
static void place_members(const struct join *join, const struct join_unit *unit,
                          struct crowd *crowd)
{
    const struct rs_job_rank *ranks = join->out->ranks;
    const int64_t first = ranks[unit->members[0].summary].rank,
                  last = ranks[unit->members[crowd->count - 1].summary].rank;
    const int64_t world = join->out->world_size > last ? join->out->world_size : last + 1;
    int64_t stride = 0;
    for (size_t m = 0; m < crowd->count; m++) {
        int64_t other = ranks[unit->members[m].summary].rank - first;
        while (other != 0) { /* the greatest that divides both */
            const int64_t rest = stride % other;
            stride = other;
            other = rest;
        }
    }
    stride = stride > 0 ? stride : 1;
    for (size_t m = 0; m < crowd->count; m++) {
        crowd->places[m] = (size_t)(ranks[unit->members[m].summary].rank / stride);
    }
    crowd->world = (size_t)((world + stride - 1) / stride);
    if (first < 0 || crowd->world / SPARSE_MOST > crowd->count) {
        crowd->world = 0;
    }
}

/* columns[id]: where an operation is kept, UINT32_MAX not at all; types[id] and rows[id] of it are known. Of many members some of each
 * type, evenly, that two members have. Sets crowd->ids. */
static void choose_columns(struct crowd *crowd, size_t ids, const uint8_t *types,
                           const uint32_t *rows, uint32_t *columns)
{
    const bool is_whole = crowd->count <= EVERY_PAIR_MAX || ids <= CHECKED_SAMPLES_MAX;
    size_t of_type[RS_OP_TYPE_COUNT] = {0}, seen[RS_OP_TYPE_COUNT] = {0}, known = 0;
    for (size_t id = 0; id < ids; id++) {
        known += of_type[types[id]] == 0 && rows[id] > 1;
        of_type[types[id]] += rows[id] > 1;
    }
    const size_t share = CHECKED_SAMPLES_MAX / (known > 0 ? known : 1);
    const size_t wanted = share > SAMPLES_OF_TYPE ? share : SAMPLES_OF_TYPE;
    crowd->ids = 0;
    for (size_t id = 0; id < ids; id++) {
        const uint8_t type = types[id];
        /* the k-th of n is kept where k * wanted / n steps on */
        const bool is_kept =
            rows[id] > 1 && (of_type[type] <= wanted || (seen[type] + 1) * wanted / of_type[type] !=
                                                            seen[type] * wanted / of_type[type]);
        seen[type] += rows[id] > 1;
        columns[id] = is_whole || is_kept ? (uint32_t)crowd->ids++ : UINT32_MAX;
    }
}

static enum rs_status take_crowd(struct crowd *crowd)
{
    const size_t rows = crowd->count * crowd->ids + 1, count = crowd->count + 1;
    crowd->ends = rs_mem_calloc(rows, sizeof *crowd->ends);
    crowd->starts = rs_mem_calloc(rows, sizeof *crowd->starts);
    crowd->types = rs_mem_calloc(crowd->ids + 1, sizeof *crowd->types);
    crowd->side = rs_mem_calloc(count, sizeof *crowd->side);
    crowd->root = rs_mem_calloc(count, sizeof *crowd->root);
    crowd->size = rs_mem_calloc(count, sizeof *crowd->size);
    crowd->best = rs_mem_calloc(count, sizeof *crowd->best);
    crowd->label = rs_mem_calloc(count, sizeof *crowd->label);
    crowd->order = rs_mem_calloc(count, sizeof *crowd->order);
    crowd->clocks = rs_mem_calloc(count, sizeof *crowd->clocks);
    crowd->places = rs_mem_calloc(count, sizeof *crowd->places);
    crowd->parts = rs_mem_calloc(count, RS_OP_TYPE_COUNT * sizeof *crowd->parts);
    const bool has_all = crowd->ends != NULL && crowd->starts != NULL && crowd->types != NULL &&
                         crowd->side != NULL && crowd->root != NULL && crowd->size != NULL &&
                         crowd->best != NULL && crowd->label != NULL && crowd->order != NULL &&
                         crowd->clocks != NULL && crowd->places != NULL && crowd->parts != NULL;
    for (size_t i = 0; has_all && i < crowd->count * crowd->ids; i++) {
        crowd->ends[i] = crowd->starts[i] = RS_NS_MIN;
    }
    return has_all ? RS_OK : RS_NOMEM;
}

/* Matches the unit's members once more: ids[row] = operation, by member. */
static enum rs_status match_crowd(struct infer *in, const struct join_unit *unit, uint32_t *ids)
{
    enum rs_status status = RS_OK;
    in->list.count = 0;
    in->list.next_id = 0;
    for (size_t m = 0, at = 0; m < unit->member_count && status == RS_OK; m++) {
        const struct channel channel = {.member = unit->members[m], .is_on_device = true};
        struct fit fit;
        status = infer_try_channel(in, &channel, true, &fit);
        if (status == RS_OK) {
            status = align_merge(&in->list, in->items, channel.member.count, true, in->positions,
                                 ids + at);
        }
        at += channel.member.count;
    }
    return status;
}

/* Chooses operations, and keeps who ended when in them. */
static enum rs_status keep_times(const struct infer *in, const struct join_unit *unit,
                                 struct crowd *crowd, const uint32_t *ids)
{
    const struct join *join = in->join;
    const size_t count = in->list.next_id;
    uint8_t *types = rs_mem_calloc(count + 1, sizeof *types);
    uint32_t *rows = rs_mem_calloc(count + 1, sizeof *rows);
    uint32_t *columns = rs_mem_calloc(count + 1, sizeof *columns);
    enum rs_status status = types != NULL && rows != NULL && columns != NULL ? RS_OK : RS_NOMEM;
    for (size_t m = 0, at = 0; m < crowd->count && status == RS_OK; m++) {
        const struct join_member *member = &unit->members[m];
        for (size_t i = 0; i < member->count; i++, at++) {
            types[ids[at]] = join_op(join, member->summary, member->ops[i])->type;
            rows[ids[at]]++;
        }
    }
    if (status == RS_OK) {
        choose_columns(crowd, count, types, rows, columns);
        status = take_crowd(crowd);
    }
    for (size_t m = 0, at = 0; m < crowd->count && status == RS_OK; m++) {
        const struct join_member *member = &unit->members[m];
        crowd->clocks[m] = join->host[member->summary];
        crowd->has_clocks = crowd->has_clocks || crowd->clocks[m] != crowd->clocks[0];
        for (size_t i = 0; i < member->count; i++, at++) {
            const struct rs_comm_op *op = join_op(join, member->summary, member->ops[i]);
            const size_t column = columns[ids[at]];
            if (column == UINT32_MAX) {
                continue;
            }
            crowd->types[column] = op->type;
            if ((op->flags & RS_OP_UNFINISHED) == 0) {
                crowd->ends[m * crowd->ids + column] = join_time(join, member->summary, op->end);
                crowd->starts[m * crowd->ids + column] =
                    join_time(join, member->summary, op->start);
            }
        }
    }
    rs_mem_free(types);
    rs_mem_free(rows);
    rs_mem_free(columns);
    return status;
}

enum rs_status crowd_fill(struct infer *in, const struct join_unit *unit, struct crowd *crowd)
{
    size_t total = 0;
    for (size_t m = 0; m < unit->member_count; m++) {
        total += unit->members[m].count;
    }
    uint32_t *ids = rs_mem_calloc(total + 1, sizeof *ids);
    enum rs_status status = ids != NULL ? RS_OK : RS_NOMEM;
    crowd->count = unit->member_count;
    crowd->samples_least = CHECKED_SAMPLES_LEAST;
    if (status == RS_OK) {
        status = match_crowd(in, unit, ids);
    }
    if (status == RS_OK) {
        status = keep_times(in, unit, crowd, ids);
    }
    if (status == RS_OK) {
        place_members(in->join, unit, crowd);
        status = choose_edges(crowd);
    }
    rs_mem_free(ids);
    return status;
}

void crowd_fini(struct crowd *crowd)
{
    rs_mem_free(crowd->starts);
    rs_mem_free(crowd->ends);
    rs_mem_free(crowd->types);
    rs_mem_free(crowd->side);
    rs_mem_free(crowd->root);
    rs_mem_free(crowd->size);
    rs_mem_free(crowd->best);
    rs_mem_free(crowd->label);
    rs_mem_free(crowd->order);
    rs_mem_free(crowd->clocks);
    rs_mem_free(crowd->places);
    rs_mem_free(crowd->parts);
    rs_mem_free(crowd->edges);
}
