/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What went over which link, where nobody recorded it: an estimate from the shape of an algorithm, in a table of
 * its own, so that it cannot be taken for a record. CommAnalyzerMatrix and the report's links never hold it.
 *
 *     ring      0 -> 1 -> ... -> n-1 -> 0      all_reduce 2 (n - 1) / n of the size per link,
 *                                              all_gather and reduce_scatter (n - 1) / n
 *     chain     the ring from the root on      broadcast: the size, over n - 1 links; reduce: towards the root
 *     pairs     each to each                   all_to_all 1 / n
 *     star      root and each                  scatter, gather 1 / n
 *
 * Links are those of the sorted ranks. The library may have chosen otherwise (a tree, NVLS): the column estimated_by
 * says what was assumed. Time is that of the operations, so the rate is what a link would have had to carry
 * at least. Operations that recorded hops, point-to-point ones, and those whose group, size or time is unknown are
 * left out; so are pairs among more than PAIRS_MAX ranks.
 */
#include "aggregator/output/output_priv.h"
#include "common/base/mem.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { PAIRS_MAX = 256 };

/* Operations of one type in one group with one root. */
struct shape {
    const struct job_group *group;
    uint8_t type;
    int32_t root; /* index in the group; -1: none */
    int64_t count, bytes;
    rs_dur time;
};
struct shapes {
    struct shape *items;
    size_t count, capacity;
};

static bool has_root(uint8_t type)
{
    return type == RS_OP_BROADCAST || type == RS_OP_REDUCE || type == RS_OP_GATHER ||
           type == RS_OP_SCATTER;
}

static bool is_known_shape(uint8_t type)
{
    return has_root(type) || type == RS_OP_ALL_REDUCE || type == RS_OP_ALL_GATHER ||
           type == RS_OP_REDUCE_SCATTER || type == RS_OP_ALL_TO_ALL;
}

static int by_shape(const void *a_, const void *b_)
{
    const struct shape *a = a_, *b = b_;
    if (a->group != b->group) /* as they were found */
        return a->group->row->group_no < b->group->row->group_no ? -1 : 1;
    if (a->type != b->type)
        return a->type < b->type ? -1 : 1;
    return (a->root > b->root) - (a->root < b->root);
}

static void compact(struct shapes *shapes)
{
    size_t kept = 0;
    if (!shapes->count)
        return;
    qsort(shapes->items, shapes->count, sizeof *shapes->items, by_shape);
    for (size_t i = 1; i < shapes->count; i++) {
        struct shape *last = &shapes->items[kept];
        const struct shape *next = &shapes->items[i];
        if (by_shape(last, next) != 0) {
            shapes->items[++kept] = *next;
            continue;
        }
        last->count = sum_of(last->count, next->count);
        last->bytes = sum_of(last->bytes, next->bytes);
        last->time = sum_of(last->time, next->time);
    }
    shapes->count = kept + 1;
}

/* NULL: nothing can be said of its links. */
static const struct job_group *group_of(const struct job *job, const struct rs_row_job_op *op)
{
    const struct job_group *group = job_group(job, op->group_id);
    const bool is_known = group && group->rank_count >= 2 &&
                          op->ranks_expected == (int64_t)group->rank_count &&
                          is_known_shape((uint8_t)op->op) && !op->has_hops &&
                          (op->root_no == RS_NULL || op->root_no < (int64_t)group->rank_count) &&
                          (!has_root((uint8_t)op->op) || op->root_no != RS_NULL) &&
                          (op->op != RS_OP_ALL_TO_ALL || group->rank_count <= PAIRS_MAX);
    return is_known ? group : NULL;
}

static enum rs_status add_shape(struct shapes *shapes, const struct rs_row_job_op *op,
                                const struct job_group *group)
{
    const struct op_bandwidth band = op_bandwidth_of_row(op);
    if (!op_bandwidth_has_bus(&band))
        return RS_OK;
    if (rs_mem_grow((void **)&shapes->items, &shapes->capacity, shapes->count + 1,
                    sizeof *shapes->items) != RS_OK)
        return RS_NOMEM;
    shapes->items[shapes->count++] =
        (struct shape){.group = group,
                       .type = (uint8_t)op->op,
                       .root = has_root((uint8_t)op->op) ? (int32_t)op->root_no : -1,
                       .count = 1,
                       .bytes = band.bytes,
                       .time = band.time};
    return RS_OK;
}

static enum rs_status collect(const struct job *job, struct shapes *shapes, struct rs_err *err)
{
    struct ops_reading ops = {0};
    const struct rs_row_job_op *row = NULL;
    size_t compact_at = 4096;
    enum rs_status status = ops_reading_open(&ops, job, err);
    while (status == RS_OK && (status = ops_reading_next(&ops, &row, err)) == RS_OK && row) {
        const struct job_group *group = group_of(job, row);
        if (group && add_shape(shapes, row, group) != RS_OK)
            status = rs_err_set(err, RS_NOMEM, "no memory to estimate links");
        if (shapes->count < compact_at)
            continue;
        compact(shapes);
        compact_at = shapes->count < 2048 ? 4096 : 2 * shapes->count;
    }
    ops_reading_close(&ops);
    compact(shapes);
    return status;
}

/* ---- a shape -> its links ---- */

struct expansion {
    const struct job_group *group;
    const struct shape *shape;
    estimate_fn *visit;
    void *self;
};

/* What a link carries of the size, and why. */
struct share {
    int64_t part, over;
    const char *by;
};

/* The last digit is cut. */
static enum rs_status put_link(const struct expansion *x, size_t src, size_t dst,
                               struct share share, struct rs_err *err)
{
    const double bytes = (double)x->shape->bytes * (double)share.part / (double)share.over;
    const struct link_estimate link = {.group = x->group->row->name,
                                       .type = x->shape->type,
                                       .src = x->group->ranks[src],
                                       .dst = x->group->ranks[dst],
                                       .count = x->shape->count,
                                       .bytes = bytes < 9e18 ? (int64_t)bytes : INT64_MAX,
                                       .time = x->shape->time,
                                       .estimated_by = share.by};
    return x->visit(x->self, &link, err);
}

static enum rs_status ring(const struct expansion *x, int64_t part, int64_t over,
                           struct rs_err *err)
{
    const size_t n = x->group->rank_count;
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < n && status == RS_OK; i++)
        status = put_link(x, i, (i + 1) % n, (struct share){part, over, "ring"}, err);
    return status;
}

static enum rs_status chain(const struct expansion *x, bool from_root, struct rs_err *err)
{
    const size_t n = x->group->rank_count, root = (size_t)x->shape->root;
    enum rs_status status = RS_OK;
    /* away from the root: root -> root + 1 -> ...; towards it: ... -> root */
    const size_t first = from_root ? root : (root + 1) % n;
    for (size_t k = 0; k + 1 < n && status == RS_OK; k++)
        status =
            put_link(x, (first + k) % n, (first + k + 1) % n, (struct share){1, 1, "chain"}, err);
    return status;
}

static enum rs_status star(const struct expansion *x, bool from_root, struct rs_err *err)
{
    const size_t n = x->group->rank_count, root = (size_t)x->shape->root;
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < n && status == RS_OK; i++)
        if (i != root)
            status = put_link(x, from_root ? root : i, from_root ? i : root,
                              (struct share){1, (int64_t)n, "star"}, err);
    return status;
}

static enum rs_status pairs(const struct expansion *x, struct rs_err *err)
{
    const size_t n = x->group->rank_count;
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n && status == RS_OK; k++)
            if (i != k)
                status = put_link(x, i, k, (struct share){1, (int64_t)n, "pairs"}, err);
    return status;
}

static enum rs_status expand(const struct expansion *x, struct rs_err *err)
{
    const int64_t n = (int64_t)x->group->rank_count;
    switch ((enum rs_op_type)x->shape->type) {
    case RS_OP_ALL_REDUCE:
        return ring(x, 2 * (n - 1), n, err);
    case RS_OP_ALL_GATHER:
    case RS_OP_REDUCE_SCATTER:
        return ring(x, n - 1, n, err);
    case RS_OP_ALL_TO_ALL:
        return pairs(x, err);
    case RS_OP_BROADCAST:
        return chain(x, true, err);
    case RS_OP_REDUCE:
        return chain(x, false, err);
    case RS_OP_SCATTER:
        return star(x, true, err);
    case RS_OP_GATHER:
        return star(x, false, err);
    case RS_OP_UNKNOWN:
    case RS_OP_BARRIER:
    case RS_OP_SEND:
    case RS_OP_RECV:
    case RS_OP_SEND_RECV:
    case RS_OP_TYPE_COUNT:
        break;
    }
    return RS_OK;
}

enum rs_status estimate_walk(const struct job *job, estimate_fn *visit, void *self,
                             struct rs_err *err)
{
    struct shapes shapes = {0};
    enum rs_status status = collect(job, &shapes, err);
    for (size_t i = 0; i < shapes.count && status == RS_OK; i++) {
        const struct expansion x = {.group = shapes.items[i].group,
                                    .shape = &shapes.items[i],
                                    .visit = visit,
                                    .self = self};
        status = expand(&x, err);
    }
    rs_mem_free(shapes.items);
    return status;
}
