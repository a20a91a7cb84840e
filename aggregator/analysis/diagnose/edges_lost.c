/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where rows were lost, what is left of a program no longer says what waits for what. But what a stream stood idle for has just ended when it goes
 * on, and else its idle time would stay as it is in every replay and hold up all others at the next operation, whatever is fixed.
 *
 *     operation        [--- X ---]              its row was lost, or what shows that the stream waits for it
 *     work        [k k]           [k k]         two spans: the second waits for the last that ended on another stream before it
 *     work        [k k             k k]         one span that should have been cut: idle until X ended
 *     as nodes    [k k k k]* ---> *             what its rows take, and behind X what comes behind X, the later of the two
 *
 * X is there the first operation of the rank that ends early enough for what then is left of the span, and late enough for all of its
 * idle time. An operation whose row was lost ended for this rank when it did for the others; and where all of these waited, it was this
 * rank that they waited for, so it came when the transfer began.
 *
 * What then is still idle before a row stands for rows that are lost, and for waits that nobody can tell any more. It is left out of all replays:
 * else any of it would hold up all others at the next operation, and nothing could be won.
 */
#include "aggregator/analysis/diagnose/build.h"
#include "common/base/mem.h"

#include <stdlib.h>

static const rs_dur right_after_ns = (rs_dur)DIAG_INPUT_AFTER_NS;

/* Work of a part of a span: it is as slow as the rank. */
static enum rs_status add_part(struct builder *builder, const struct program *program,
                               const struct line *span, uint32_t node)
{
    struct diag_model *model = builder->model;
    if (rs_mem_grow((void **)&model->items, &model->item_capacity, model->item_count + 1,
                    sizeof *model->items) != RS_OK) {
        return RS_NOMEM;
    }
    model->items[model->item_count++] = (struct diag_item){.node = node,
                                                           .worker = program->worker,
                                                           .step = span->step,
                                                           .position = GRAPH_NONE,
                                                           .figure = RS_FIGURE_COMPUTING,
                                                           .input = -1,
                                                           .part = -1,
                                                           .kernels = -1,
                                                           .name = RS_STR_NONE};
    return RS_OK;
}

/* When an operation that the rank has no row of ended: with the others'. */
static enum rs_status end_with_others(struct builder *builder, const struct program *program)
{
    const struct rs_analysis *analysis = builder->analysis;
    for (size_t i = 0; i < program->count; i++) {
        const struct line *line = &program->lines[i];
        if (line->what != LINE_LOST) {
            continue;
        }
        const struct rs_job_op *op = &analysis->ops[builder->lost[line->index].op];
        for (size_t r = op->row_first; r < op->row_first + op->row_count; r++) {
            const struct rs_job_row *row = &analysis->rows[r];
            const uint32_t worker = builder->worker_of[row->summary];
            const uint32_t at =
                worker != GRAPH_NONE
                    ? builder->op_line[builder->op_base[row->summary] + row->op_index]
                    : GRAPH_NONE;
            if (at != GRAPH_NONE &&
                graph_edge(&builder->model->graph, builder->programs[worker].lines[at].end_node,
                           line->end_node) != RS_OK) {
                return RS_NOMEM;
            }
        }
    }
    return RS_OK;
}

static bool may_end_idleness(const struct line *line, const struct line *span)
{
    const rs_dur idle = span->end - span->start - span->work;
    return (line->what == LINE_OP || line->what == LINE_LOST) && !line->on_host &&
           line->end_node != GRAPH_NONE && line->end < span->end && line->end - span->start >= idle;
}

static const struct line *waited_for(const struct builder *builder, const struct program *program,
                                     const struct line *span)
{
    const size_t steps = builder->model->step_count;
    const size_t from = program->step_first[span->step > 0 ? span->step - 1 : 0];
    const size_t end = program->step_first[span->step + 1 < steps ? span->step + 2 : steps];
    const struct line *first = NULL;
    for (size_t i = from; i < end; i++) {
        const struct line *line = &program->lines[i];
        if (may_end_idleness(line, span) && (first == NULL || line->end < first->end)) {
            first = line;
        }
    }
    return first;
}

static enum rs_status wait_inside(struct builder *builder, const struct program *program,
                                  const struct line *span)
{
    struct graph *graph = &builder->model->graph;
    const struct line *cause = waited_for(builder, program, span);
    uint32_t rest;
    if (cause == NULL) {
        return RS_OK;
    }
    if (graph_node(graph, span->end, span->step, &rest) != RS_OK) {
        return RS_NOMEM;
    }
    graph->work[rest] = GRAPH_ALL_THERE_IS;
    return graph_edge(graph, cause->end_node, rest) == RS_OK &&
                   graph_edge(graph, rest, span->end_node) == RS_OK
               ? add_part(builder, program, span, rest)
               : RS_NOMEM;
}

/* ---- between rows ----------------------------------------------------------------------------- */

struct ended {
    rs_ns end;
    uint32_t line;
};

static int by_end(const void *left, const void *right)
{
    const struct ended *a = left, *b = right;
    if (a->end != b->end) {
        return a->end > b->end ? 1 : -1;
    }
    return (a->line > b->line) - (a->line < b->line);
}

static bool is_row(const struct line *line)
{
    return !line->on_host && line->end_node != GRAPH_NONE &&
           (line->what == LINE_OP || line->what == LINE_SPAN);
}

/* Rows of a program by the instant at which they ended. */
struct endings {
    const struct program *program;
    struct ended *items; /* room for its lines */
    size_t count;
};

static void find_endings(struct endings *endings)
{
    const struct program *program = endings->program;
    endings->count = 0;
    for (size_t i = 0; i < program->count; i++) {
        const struct line *line = &program->lines[i];
        if (is_row(line) || line->what == LINE_LOST) {
            endings->items[endings->count++] = (struct ended){line->end, (uint32_t)i};
        }
    }
    qsort(endings->items, endings->count, sizeof *endings->items, by_end);
}

/* The first that ended later. */
static size_t first_after(const struct endings *endings, rs_ns until)
{
    size_t low = 0, high = endings->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (endings->items[middle].end <= until) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The last that ended before the row began, behind `since`: on its own stream, or on another one. NULL: none did. */
static const struct line *last_before(const struct endings *endings, const struct line *row,
                                      rs_ns until, rs_ns since, bool is_own)
{
    for (size_t i = first_after(endings, until); i-- > 0 && endings->items[i].end > since;) {
        const struct line *line = &endings->program->lines[endings->items[i].line];
        if (line != row && (line->lane == row->lane) == is_own) {
            return line;
        }
    }
    return NULL;
}

/* Where rows of waits were lost, the host seems to work from one launch to the next while it waits: for what ended last before it goes on. */
static enum rs_status wait_of_host(struct graph *graph, const struct endings *endings,
                                   const struct line *line, rs_ns since)
{
    const uint8_t *lacks = endings->program->step_lacks_waits;
    const bool may_wait = lacks[line->step] != 0 || (line->step > 0 && lacks[line->step - 1] != 0);
    if (!may_wait || line->launch - since <= right_after_ns) {
        return RS_OK;
    }
    const struct line host = {.lane = GRAPH_NONE}; /* of no stream */
    const struct line *last = last_before(endings, &host, line->launch, since, false);
    return last != NULL ? graph_edge(graph, last->end_node, line->launch_node) : RS_OK;
}

/* `is_free`: when the rows before it on its stream have ended. */
static enum rs_status wait_of_row(struct graph *graph, const struct endings *endings,
                                  const struct line *line, rs_ns is_free)
{
    const rs_ns ready = line->has_launch && line->launch > is_free ? line->launch : is_free;
    const rs_ns until = line->start + graph->tolerance;
    const struct line *before = NULL;
    if (ready > until) { /* its launch was lost, so that it stands too late in the program */
        before = last_before(endings, line, until, RS_NS_MIN, true);
    } else if (ready != RS_NS_MIN && line->start - ready > right_after_ns) {
        before = last_before(endings, line, until, ready, false);
    }
    if (before == NULL) {
        return RS_OK;
    }
    return graph_edge(graph, before->end_node,
                      line->what == LINE_OP ? line->first_node : line->work_node);
}

/* `lane_free`: room for the lanes; `ended`: for the lines. */
static enum rs_status wait_between(struct graph *graph, const struct program *program,
                                   rs_ns *lane_free, struct ended *ended)
{
    struct endings endings = {.program = program, .items = ended};
    for (size_t lane = 0; lane < program->lane_count; lane++) {
        lane_free[lane] = RS_NS_MIN;
    }
    find_endings(&endings);
    rs_ns launched = RS_NS_MAX; /* newest launch */
    for (size_t i = 0; i < program->count; i++) {
        const struct line *line = &program->lines[i];
        if (!is_row(line)) {
            continue;
        }
        if (line->launch_node != GRAPH_NONE) {
            if (launched < line->launch && wait_of_host(graph, &endings, line, launched) != RS_OK) {
                return RS_NOMEM;
            }
            launched = line->launch;
        }
        rs_ns *is_free = &lane_free[line->lane];
        if (wait_of_row(graph, &endings, line, *is_free) != RS_OK) {
            return RS_NOMEM;
        }
        *is_free = line->end > *is_free ? line->end : *is_free;
    }
    return RS_OK;
}

/* ---- who came last ------------------------------------------------------------------------------- */

/* What a transfer of each group and type takes at least where no row was lost; -1: nobody knows. By group, then type. */
static enum rs_status least_transfers(const struct rs_analysis *analysis, rs_dur **least_p)
{
    const size_t count = (analysis->group_count + 1) * RS_OP_TYPE_COUNT;
    rs_dur *least = rs_mem_calloc(count, sizeof *least);
    if (least == NULL) {
        return RS_NOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        least[i] = -1;
    }
    for (size_t i = 0; i < analysis->op_count; i++) {
        const struct rs_job_op *op = &analysis->ops[i];
        if (op->coverage != RS_COVERAGE_EXACT || !op->has_wait || op->group == RS_NO_GROUP) {
            continue;
        }
        rs_dur *known = &least[op->group * RS_OP_TYPE_COUNT + op->type];
        for (size_t r = op->row_first; r < op->row_first + op->row_count; r++) {
            const struct rs_job_row *row = &analysis->rows[r];
            if (row->has_transfer && (*known < 0 || row->transfer < *known)) {
                *known = row->transfer;
            }
        }
    }
    *least_p = least;
    return RS_OK;
}

/* The last instant at which one of those that have a row came. */
static rs_ns others_came(const struct builder *builder, const struct rs_job_op *op)
{
    rs_ns last = RS_NS_MIN;
    for (size_t r = op->row_first; r < op->row_first + op->row_count; r++) {
        const struct rs_job_row *row = &builder->analysis->rows[r];
        const uint32_t worker = builder->worker_of[row->summary];
        const uint32_t at = worker != GRAPH_NONE
                                ? builder->op_line[builder->op_base[row->summary] + row->op_index]
                                : GRAPH_NONE;
        const rs_ns start =
            at != GRAPH_NONE ? builder->programs[worker].lines[at].start : RS_NS_MAX;
        last = start > last ? start : last;
    }
    return last;
}

/* The newest before a span that had ended on its stream when it began. NULL: none. */
static const struct line *before_on_stream(const struct graph *graph, const struct program *program,
                                           size_t at)
{
    const struct line *span = &program->lines[at];
    for (size_t k = at; k-- > 0;) {
        const struct line *before = &program->lines[k];
        if ((before->what == LINE_SPAN || before->what == LINE_OP) && before->lane == span->lane &&
            before->end <= span->start + graph->tolerance) {
            return before;
        }
    }
    return NULL;
}

/* What of a span was done when the rank came, of one that should have been cut there. */
static enum rs_status come_from_part(struct builder *builder, const struct program *program,
                                     size_t at, rs_ns came, uint32_t node)
{
    struct graph *graph = &builder->model->graph;
    const struct line *span = &program->lines[at];
    const struct line *before = before_on_stream(graph, program, at);
    uint32_t part;
    if (graph_node(graph, came, span->step, &part) != RS_OK) {
        return RS_NOMEM;
    }
    graph->work[part] = GRAPH_ALL_THERE_IS;
    if ((before != NULL && graph_edge(graph, before->end_node, part) != RS_OK) ||
        (span->launch_node != GRAPH_NONE && graph_edge(graph, span->launch_node, part) != RS_OK) ||
        graph_edge(graph, part, node) != RS_OK) {
        return RS_NOMEM;
    }
    return add_part(builder, program, span, part);
}

/* What it did before: its newest work that had ended; of a span that should have been cut here, what of it was done. */
static enum rs_status come_from(struct builder *builder, const struct program *program, size_t at,
                                rs_ns came, uint32_t node)
{
    struct graph *graph = &builder->model->graph;
    for (size_t i = at; i-- > program->step_first[program->lines[at].step];) {
        const struct line *span = &program->lines[i];
        if (span->what != LINE_SPAN || span->on_host || span->is_copy || span->start >= came) {
            continue;
        }
        return span->end <= came + graph->tolerance
                   ? graph_edge(graph, span->end_node, node)
                   : come_from_part(builder, program, i, came, node);
    }
    return RS_OK;
}

static enum rs_status come(struct builder *builder, const struct program *program, size_t at,
                           const rs_dur *least)
{
    struct graph *graph = &builder->model->graph;
    const struct rs_analysis *analysis = builder->analysis;
    const struct line *line = &program->lines[at];
    const struct rs_job_op *op = &analysis->ops[builder->lost[line->index].op];
    const rs_dur takes =
        op->group != RS_NO_GROUP ? least[op->group * RS_OP_TYPE_COUNT + op->type] : -1;
    const rs_ns came = line->end - takes;
    uint32_t node;
    if (takes < 0 || others_came(builder, op) >= came - right_after_ns) {
        return RS_OK;
    }
    if (graph_node(graph, came, line->step, &node) != RS_OK ||
        come_from(builder, program, at, came, node) != RS_OK) {
        return RS_NOMEM;
    }
    for (size_t r = op->row_first; r < op->row_first + op->row_count; r++) {
        const struct rs_job_row *row = &analysis->rows[r];
        const uint32_t worker = builder->worker_of[row->summary];
        const uint32_t own = worker != GRAPH_NONE
                                 ? builder->op_line[builder->op_base[row->summary] + row->op_index]
                                 : GRAPH_NONE;
        if (own != GRAPH_NONE &&
            graph_edge(graph, node, builder->programs[worker].lines[own].end_node) != RS_OK) {
            return RS_NOMEM;
        }
    }
    return RS_OK;
}

void edges_loosen(struct builder *builder)
{
    struct graph *graph = &builder->model->graph;
    for (size_t n = 0; n < graph->count; n++) {
        const bool has_pred = graph->first[n] < graph->first[n + 1];
        graph->delay[n] = has_pred && graph->delay[n] > right_after_ns ? 0 : graph->delay[n];
    }
}

enum rs_status edges_of_lost(struct builder *builder)
{
    size_t most = 0;
    for (size_t w = 0; w < builder->model->worker_count; w++) {
        most = builder->programs[w].count > most ? builder->programs[w].count : most;
    }
    struct ended *ended = rs_mem_calloc(most + 1, sizeof *ended);
    rs_ns *lane_free = rs_mem_calloc(builder->most_lanes + 1, sizeof *lane_free);
    rs_dur *least = NULL;
    enum rs_status status =
        ended != NULL && lane_free != NULL ? least_transfers(builder->analysis, &least) : RS_NOMEM;
    for (size_t w = 0; status == RS_OK && w < builder->model->worker_count; w++) {
        const struct program *program = &builder->programs[w];
        status = end_with_others(builder, program);
        for (size_t i = 0; status == RS_OK && i < program->count; i++) {
            const struct line *line = &program->lines[i];
            status = line->is_parted           ? wait_inside(builder, program, line)
                     : line->what == LINE_LOST ? come(builder, program, i, least)
                                               : RS_OK;
        }
        if (status == RS_OK && !program->is_host) {
            status = wait_between(&builder->model->graph, program, lane_free, ended);
        }
    }
    rs_mem_free(least);
    rs_mem_free(ended);
    rs_mem_free(lane_free);
    return status;
}
