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
 * idle time. An operation whose row was lost ended for this rank when it did for the others.
 */
#include "aggregator/analysis/diagnose/build.h"
#include "common/base/mem.h"

#include <stdlib.h>

static const rs_dur right_after_ns = (rs_dur)DIAG_INPUT_AFTER_NS;

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
               ? RS_OK
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

/* The last that ended on another stream in the time in which the row could have begun and did not; NULL: none did. */
static const struct line *last_before(const struct program *program, const struct ended *ended,
                                      size_t count, const struct line *row, rs_ns ready,
                                      rs_dur tolerance)
{
    size_t low = 0, high = count; /* the first that ended later */
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (ended[middle].end <= row->start + tolerance) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    while (low-- > 0 && ended[low].end > ready) {
        const struct line *line = &program->lines[ended[low].line];
        if (line->lane != row->lane) {
            return line;
        }
    }
    return NULL;
}

/* `free`: room for the lanes; `ended`: for the lines. */
static enum rs_status wait_between(struct graph *graph, const struct program *program,
                                   rs_ns *lane_free, struct ended *ended)
{
    size_t count = 0;
    for (size_t lane = 0; lane < program->lane_count; lane++) {
        lane_free[lane] = RS_NS_MIN;
    }
    for (size_t i = 0; i < program->count; i++) {
        const struct line *line = &program->lines[i];
        if (is_row(line) || line->what == LINE_LOST) {
            ended[count++] = (struct ended){line->end, (uint32_t)i};
        }
    }
    qsort(ended, count, sizeof *ended, by_end);
    enum rs_status status = RS_OK;
    for (size_t i = 0; status == RS_OK && i < program->count; i++) {
        const struct line *line = &program->lines[i];
        if (!is_row(line)) {
            continue;
        }
        rs_ns *is_free = &lane_free[line->lane];
        const rs_ns ready = line->has_launch && line->launch > *is_free ? line->launch : *is_free;
        const struct line *before = NULL;
        if (ready != RS_NS_MIN && line->start - ready > right_after_ns) {
            before = last_before(program, ended, count, line, ready, graph->tolerance);
        }
        if (before != NULL) {
            status = graph_edge(graph, before->end_node,
                                line->what == LINE_OP ? line->first_node : line->work_node);
        }
        *is_free = line->end > *is_free ? line->end : *is_free;
    }
    return status;
}

enum rs_status edges_of_lost(struct builder *builder)
{
    size_t most = 0;
    for (size_t w = 0; w < builder->model->worker_count; w++) {
        most = builder->programs[w].count > most ? builder->programs[w].count : most;
    }
    struct ended *ended = rs_mem_calloc(most + 1, sizeof *ended);
    rs_ns *lane_free = rs_mem_calloc(builder->most_lanes + 1, sizeof *lane_free);
    enum rs_status status = ended != NULL && lane_free != NULL ? RS_OK : RS_NOMEM;
    for (size_t w = 0; status == RS_OK && w < builder->model->worker_count; w++) {
        const struct program *program = &builder->programs[w];
        status = end_with_others(builder, program);
        for (size_t i = 0; status == RS_OK && i < program->count; i++) {
            status = program->lines[i].is_parted ? wait_inside(builder, program, &program->lines[i])
                                                 : RS_OK;
        }
        if (status == RS_OK && !program->is_host) {
            status = wait_between(&builder->model->graph, program, lane_free, ended);
        }
    }
    rs_mem_free(ended);
    rs_mem_free(lane_free);
    return status;
}
