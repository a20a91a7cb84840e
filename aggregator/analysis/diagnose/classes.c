/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Classes: ranks with the same program that are joined by a collective, the data and tensor parallel copies of
 * one pipeline stage. No roles are needed. A group in which two members pass messages to each other spans
 * stages and joins nobody, unless all of it sends and receives in the same order: stages of a pipeline do not (the first
 * one begins by sending, the last one by receiving), ranks that hand blocks around in a ring do. Where a batch goes both ways, what is
 * first in it is not known.
 *
 * Hosts: by name, else by device ordinals (a host starts where an ordinal comes again).
 */
#include "aggregator/analysis/diagnose/build.h"
#include "common/base/mem.h"

#include <stdlib.h>
#include <string.h>

struct pair {
    uint32_t a, b;
    bool is_exchange; /* some of their messages are batches that go both ways */
};

struct sorter {
    struct builder *builder;
    uint32_t *parent;   /* [worker] */
    struct pair *pairs; /* of point-to-point, sorted, each once */
    size_t pair_count;
    size_t *fullest; /* [group] its operation of most members; op_count: none */
    uint32_t *mark;  /* [worker] group that it was last seen in */
};

static uint32_t root_of(uint32_t *parent, uint32_t worker)
{
    while (parent[worker] != worker) {
        parent[worker] = parent[parent[worker]];
        worker = parent[worker];
    }
    return worker;
}

static int compare_pairs(const void *left, const void *right)
{
    const struct pair *a = left, *b = right;
    if (a->a != b->a) {
        return a->a > b->a ? 1 : -1;
    }
    return (a->b > b->b) - (a->b < b->b);
}

static void find_pairs(struct sorter *sorter)
{
    const struct rs_analysis *analysis = sorter->builder->analysis;
    size_t count = 0;
    for (size_t i = 0; i < analysis->op_count; i++) {
        const struct rs_job_op *op = &analysis->ops[i];
        if (!op->is_p2p || op->row_count != 2) {
            continue;
        }
        const uint32_t a = sorter->builder->worker_of[analysis->rows[op->row_first].summary];
        const uint32_t b = sorter->builder->worker_of[analysis->rows[op->row_first + 1].summary];
        if (a != GRAPH_NONE && b != GRAPH_NONE && a != b) {
            sorter->pairs[count++] =
                (struct pair){a < b ? a : b, a < b ? b : a, op->type == RS_OP_SEND_RECV};
        }
    }
    if (count > 1) {
        qsort(sorter->pairs, count, sizeof *sorter->pairs, compare_pairs);
    }
    for (size_t i = 0; i < count; i++) {
        const struct pair pair = sorter->pairs[i];
        if (sorter->pair_count == 0 ||
            compare_pairs(&pair, &sorter->pairs[sorter->pair_count - 1]) != 0) {
            sorter->pairs[sorter->pair_count++] = pair;
        } else {
            sorter->pairs[sorter->pair_count - 1].is_exchange |= pair.is_exchange;
        }
    }
}

static bool spans_stages(struct sorter *sorter, const struct rs_job_op *op, uint32_t mark)
{
    const struct rs_analysis *analysis = sorter->builder->analysis;
    const uint32_t *worker_of = sorter->builder->worker_of;
    for (size_t r = op->row_first; r < op->row_first + op->row_count; r++) {
        const uint32_t worker = worker_of[analysis->rows[r].summary];
        if (worker != GRAPH_NONE) {
            sorter->mark[worker] = mark;
        }
    }
    for (size_t i = 0; i < sorter->pair_count; i++) {
        const struct pair *pair = &sorter->pairs[i];
        if (sorter->mark[pair->a] == mark && sorter->mark[pair->b] == mark && pair->is_exchange) {
            return true;
        }
    }
    return false;
}

static bool is_member(const struct builder *builder, const struct rs_job_op *op, uint32_t worker)
{
    for (size_t r = op->row_first; r < op->row_first + op->row_count; r++) {
        if (builder->worker_of[builder->analysis->rows[r].summary] == worker) {
            return true;
        }
    }
    return false;
}

/* Where rows were lost, a member may have no step that shows its program: the others are joined without it. But not where some send messages
 * to others: those are stages, though two of them may run the same operations. */
static void join_alike(const struct sorter *sorter, const struct rs_job_op *op)
{
    const struct builder *builder = sorter->builder;
    for (size_t i = 0; i < sorter->pair_count; i++) {
        if (is_member(builder, op, sorter->pairs[i].a) &&
            is_member(builder, op, sorter->pairs[i].b)) {
            return;
        }
    }
    for (size_t r = op->row_first; r < op->row_first + op->row_count; r++) {
        const uint32_t worker = builder->worker_of[builder->analysis->rows[r].summary];
        for (size_t q = op->row_first; q < r && worker != GRAPH_NONE; q++) {
            const uint32_t other = builder->worker_of[builder->analysis->rows[q].summary];
            if (other != GRAPH_NONE &&
                builder->programs[other].signature == builder->programs[worker].signature) {
                sorter->parent[root_of(sorter->parent, worker)] = root_of(sorter->parent, other);
                break;
            }
        }
    }
}

static void join_members(struct sorter *sorter, const struct rs_job_op *op)
{
    const struct builder *builder = sorter->builder;
    const struct rs_analysis *analysis = builder->analysis;
    uint32_t first = GRAPH_NONE;
    if (builder->model->has_lost_rows) {
        join_alike(sorter, op);
        return;
    }
    for (size_t r = op->row_first; r < op->row_first + op->row_count; r++) {
        const uint32_t worker = builder->worker_of[analysis->rows[r].summary];
        if (worker == GRAPH_NONE) {
            continue;
        }
        if (first == GRAPH_NONE) {
            first = worker;
        }
        if (builder->programs[worker].signature != builder->programs[first].signature) {
            return;
        }
    }
    for (size_t r = op->row_first; r < op->row_first + op->row_count; r++) {
        const uint32_t worker = builder->worker_of[analysis->rows[r].summary];
        if (worker != GRAPH_NONE) {
            sorter->parent[root_of(sorter->parent, worker)] = root_of(sorter->parent, first);
        }
    }
}

static bool joins(const struct rs_job_op *op)
{
    return !op->is_p2p && op->is_matched && op->row_count >= 2 && op->type != RS_OP_SEND_RECV;
}

/* Of a named group the operation of most members counts: where a recording begins or ends, some have one that others have not. */
static void find_fullest(struct sorter *sorter)
{
    const struct rs_analysis *analysis = sorter->builder->analysis;
    for (size_t g = 0; g < analysis->group_count; g++) {
        sorter->fullest[g] = analysis->op_count;
    }
    for (size_t i = 0; i < analysis->op_count; i++) {
        const struct rs_job_op *op = &analysis->ops[i];
        if (!joins(op) || op->group == RS_NO_GROUP) {
            continue;
        }
        size_t *fullest = &sorter->fullest[op->group];
        if (*fullest == analysis->op_count || op->row_count > analysis->ops[*fullest].row_count) {
            *fullest = i;
        }
    }
}

static void join_all(struct sorter *sorter)
{
    const struct rs_analysis *analysis = sorter->builder->analysis;
    find_fullest(sorter);
    for (size_t i = 0; i < analysis->op_count; i++) {
        const struct rs_job_op *op = &analysis->ops[i];
        if (joins(op) &&
            (op->group == RS_NO_GROUP || (sorter->fullest[op->group] == i &&
                                          !spans_stages(sorter, op, (uint32_t)op->group + 1)))) {
            join_members(sorter, op);
        }
    }
}

static void number_classes(struct sorter *sorter)
{
    struct diag_model *model = sorter->builder->model;
    for (uint32_t w = 0; w < model->worker_count; w++) {
        sorter->mark[w] = GRAPH_NONE;
    }
    for (uint32_t w = 0; w < model->worker_count; w++) {
        const uint32_t root = root_of(sorter->parent, w);
        if (sorter->mark[root] == GRAPH_NONE) {
            sorter->mark[root] = (uint32_t)model->class_count++;
        }
        model->workers[w].class_id = sorter->mark[root];
        model->workers[w].stage = sorter->pair_count > 0 ? (int32_t)sorter->mark[root] : -1;
    }
}

/* A step of another program, for an evaluation or a checkpoint, is one for all: hosts can be held against each other in it. */
static enum rs_status find_alike(struct builder *builder)
{
    const struct diag_model *model = builder->model;
    const size_t steps = model->step_count;
    uint64_t *first = rs_mem_calloc(model->class_count * steps + 1, sizeof *first);
    builder->alike = rs_mem_calloc(model->class_count * steps + 1, 1);
    if (first == NULL || builder->alike == NULL) {
        rs_mem_free(first);
        return RS_NOMEM;
    }
    for (size_t w = 0; w < model->worker_count; w++) {
        const uint64_t *own = builder->programs[w].step_signatures;
        const size_t at = model->workers[w].class_id * steps;
        for (size_t k = 0; k < steps; k++) {
            const bool is_first = first[at + k] == 0;
            builder->alike[at + k] =
                is_first || (builder->alike[at + k] != 0 && first[at + k] == own[k]);
            first[at + k] = is_first ? own[k] : first[at + k];
        }
    }
    rs_mem_free(first);
    return RS_OK;
}

struct variant {
    uint64_t signature;
    size_t steps;
};

static int most_steps_first(const void *left, const void *right)
{
    const struct variant *a = left, *b = right;
    if (a->steps != b->steps) {
        return a->steps < b->steps ? 1 : -1;
    }
    return (a->signature > b->signature) - (a->signature < b->signature);
}

static int by_signature(const void *left, const void *right)
{
    const struct variant *a = left, *b = right;
    return (a->signature > b->signature) - (a->signature < b->signature);
}

static bool is_variant(const uint64_t *variants, uint64_t signature)
{
    for (size_t i = 0; i < BUILD_VARIANTS; i++) {
        if (variants[i] == signature) {
            return true;
        }
    }
    return false;
}

/* Of a class with this member. `room`: for as many as there are steps. What came once, as the step does in which a recording begins,
 * shows too little of what depends on what, and of how much its hosts differ. */
static void take_variants(struct builder *builder, const struct program *member,
                          struct variant *room, uint64_t *variants)
{
    const struct diag_model *model = builder->model;
    uint8_t *alike = &builder->alike[model->workers[member->worker].class_id * model->step_count];
    size_t count = 0, kept = 0;
    for (size_t k = 0; k < model->step_count; k++) {
        if (alike[k] != 0 && member->step_signatures[k] != member->signature) {
            room[count++] = (struct variant){member->step_signatures[k], 1};
        }
    }
    if (count > 1) {
        qsort(room, count, sizeof *room, by_signature);
    }
    for (size_t i = 0; i < count; i++) {
        if (kept > 0 && room[kept - 1].signature == room[i].signature) {
            room[kept - 1].steps++;
        } else {
            room[kept++] = room[i];
        }
    }
    if (kept > 1) {
        qsort(room, kept, sizeof *room, most_steps_first);
    }
    variants[0] = member->signature;
    for (size_t i = 0; i < kept && i + 1 < BUILD_VARIANTS && room[i].steps > 1; i++) {
        variants[i + 1] = room[i].signature;
    }
    for (size_t k = 0; k < model->step_count; k++) {
        alike[k] = alike[k] != 0 && is_variant(variants, member->step_signatures[k]);
    }
}

static enum rs_status find_variants(struct builder *builder)
{
    const struct diag_model *model = builder->model;
    struct variant *room = rs_mem_calloc(model->step_count + 1, sizeof *room);
    builder->variants =
        rs_mem_calloc(model->class_count * BUILD_VARIANTS + 1, sizeof *builder->variants);
    if (room == NULL || builder->variants == NULL) {
        rs_mem_free(room);
        return RS_NOMEM;
    }
    for (size_t w = 0; w < model->worker_count; w++) {
        uint64_t *variants =
            &builder->variants[model->workers[w].class_id * (size_t)BUILD_VARIANTS];
        if (variants[0] == 0) {
            take_variants(builder, &builder->programs[w], room, variants);
        }
    }
    rs_mem_free(room);
    return RS_OK;
}

/* ---- hosts -------------------------------------------------------------------------------- */

static const char *host_name(const struct rs_summary *summary)
{
    const rs_str host = summary->trace.host;
    return host == RS_STR_NONE || host == RS_STR_EMPTY ? NULL
                                                       : rs_strtab_text(&summary->strings, host);
}

static bool same_host(const char *a, const char *b)
{
    const size_t x = strcspn(a, " "), y = strcspn(b, " ");
    return x == y && strncmp(a, b, x) == 0;
}

static bool hosts_by_name(struct builder *builder)
{
    const struct diag_model *model = builder->model;
    int32_t count = 0;
    for (size_t w = 0; w < model->worker_count; w++) {
        const char *own = host_name(builder->analysis->summaries[builder->programs[w].summary]);
        if (own == NULL) {
            return false;
        }
        /* Neighbours mostly share a host: looked for from the newest back. */
        model->workers[w].host = count;
        for (size_t b = w; b > 0; b--) {
            if (same_host(
                    own,
                    host_name(builder->analysis->summaries[builder->programs[b - 1].summary]))) {
                model->workers[w].host = model->workers[b - 1].host;
                break;
            }
        }
        count += model->workers[w].host == count;
    }
    return true;
}

static int32_t device_of(const struct builder *builder, size_t w)
{
    const struct rs_summary *summary = builder->analysis->summaries[builder->programs[w].summary];
    for (size_t i = 0; i < summary->device_count; i++) {
        if (summary->devices[i].device >= 0) {
            return summary->devices[i].device;
        }
    }
    return -1;
}

static void hosts_by_device(struct builder *builder)
{
    const struct diag_model *model = builder->model;
    int32_t host = 0;
    size_t first = 0;
    bool has_several = false;
    for (size_t w = 0; w < model->worker_count; w++) {
        const int32_t own = device_of(builder, w);
        for (size_t b = first; b < w; b++) {
            if (device_of(builder, b) == own) {
                host++;
                first = w;
                break;
            }
            has_several = true;
        }
        model->workers[w].host = host;
        if (own < 0) {
            has_several = false;
            break;
        }
    }
    for (size_t w = 0; w < model->worker_count && !has_several; w++) {
        model->workers[w].host = -1;
    }
}

enum rs_status classes_find(struct builder *builder)
{
    struct sorter sorter = {.builder = builder};
    const size_t workers = builder->model->worker_count;
    sorter.parent = rs_mem_calloc(workers + 1, sizeof *sorter.parent);
    sorter.mark = rs_mem_calloc(workers + 1, sizeof *sorter.mark);
    sorter.pairs = rs_mem_calloc(builder->analysis->op_count + 1, sizeof *sorter.pairs);
    sorter.fullest = rs_mem_calloc(builder->analysis->group_count + 1, sizeof *sorter.fullest);
    enum rs_status status = RS_NOMEM;
    if (sorter.parent != NULL && sorter.mark != NULL && sorter.pairs != NULL &&
        sorter.fullest != NULL) {
        for (uint32_t w = 0; w < workers; w++) {
            sorter.parent[w] = w;
        }
        find_pairs(&sorter);
        join_all(&sorter);
        number_classes(&sorter);
        if (!hosts_by_name(builder)) {
            hosts_by_device(builder);
        }
        status = find_alike(builder);
        status = status == RS_OK ? find_variants(builder) : status;
    }
    rs_mem_free(sorter.parent);
    rs_mem_free(sorter.mark);
    rs_mem_free(sorter.pairs);
    rs_mem_free(sorter.fullest);
    return status;
}
