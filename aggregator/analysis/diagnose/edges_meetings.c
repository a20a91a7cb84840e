/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Meetings: who waits for whom in an operation, as contracts section 5 says it; of operations that no name tells, all for all.
 *
 *   start of each member that is needed --> meeting --> end of each member that needs it
 *
 * Members that nobody recorded leave a wait unknown.
 */
#include "aggregator/analysis/diagnose/build.h"
#include "common/base/check.h"
#include "common/base/mem.h"

struct member {
    const struct line *line;
    const struct rs_comm_op *op;
    uint32_t worker;
    int32_t rank;
};

static bool member_of(const struct builder *builder, size_t row_index, struct member *member)
{
    const struct rs_job_row *row = &builder->analysis->rows[row_index];
    const uint32_t worker = builder->worker_of[row->summary];
    if (worker == GRAPH_NONE) {
        return false;
    }
    const uint32_t line = builder->op_line[builder->op_base[row->summary] + row->op_index];
    if (line == GRAPH_NONE) {
        return false;
    }
    *member = (struct member){&builder->programs[worker].lines[line],
                              &builder->analysis->summaries[row->summary]->ops[row->op_index],
                              worker, row->rank};
    return true;
}

static bool needs(const struct rs_analysis *analysis, const struct rs_job_op *op, size_t row_i,
                  const struct member *i, size_t row_j, const struct member *j)
{
    switch (rs_op_type_dependency((enum rs_op_type)op->type)) {
    case RS_DEPENDS_ALL:
        return true;
    case RS_DEPENDS_SEND:
    case RS_DEPENDS_RECV:
        return i->op->type == RS_OP_RECV || (i->op->flags & RS_OP_ON_DEVICE) != 0;
    case RS_DEPENDS_ROOT:
    case RS_DEPENDS_TO_ROOT:
        /* The join has found the root: members wait for it (or it for them) where their wait says so. */
        (void)j;
        return analysis->rows[row_i].wait > 0 || row_i == row_j;
    case RS_DEPENDS_NONE:
        return false;
    }
    return false;
}

/* Who came last, with everybody's start known: GRAPH_NONE when two did. */
static uint32_t last_to_start(const struct builder *builder, const struct rs_job_op *op)
{
    rs_ns latest = RS_NS_MIN;
    uint32_t worker = GRAPH_NONE;
    for (size_t r = op->row_first; r < op->row_first + op->row_count; r++) {
        struct member member;
        if (!member_of(builder, r, &member)) {
            continue;
        }
        if (member.line->start > latest) {
            latest = member.line->start;
            worker = member.worker;
        } else if (member.line->start == latest) {
            worker = GRAPH_NONE;
        }
    }
    return worker;
}

static enum rs_status add_wait_row(struct builder *builder, const struct member *member,
                                   uint32_t meeting, uint32_t last)
{
    struct diag_model *model = builder->model;
    if (rs_mem_grow((void **)&model->waits, &model->wait_capacity, model->wait_count + 1,
                    sizeof *model->waits) != RS_OK) {
        return RS_NOMEM;
    }
    model->waits[model->wait_count++] =
        (struct diag_wait){member->line->first_node, meeting, member->worker, last};
    return RS_OK;
}

/* All meet: one node. */
static enum rs_status meet_all(struct builder *builder, const struct rs_job_op *op)
{
    struct graph *graph = &builder->model->graph;
    struct member member;
    rs_ns latest = RS_NS_MIN;
    uint32_t step = GRAPH_NONE, meeting;
    const uint32_t last = last_to_start(builder, op);
    for (size_t r = op->row_first; r < op->row_first + op->row_count; r++) {
        if (member_of(builder, r, &member) && member.line->start > latest) {
            latest = member.line->start;
            step = member.line->step;
        }
    }
    if (step == GRAPH_NONE) {
        return RS_OK;
    }
    if (graph_node(graph, latest, step, &meeting) != RS_OK) {
        return RS_NOMEM;
    }
    for (size_t r = op->row_first; r < op->row_first + op->row_count; r++) {
        if (!member_of(builder, r, &member)) {
            continue;
        }
        if (graph_edge(graph, member.line->first_node, meeting) != RS_OK ||
            graph_edge(graph, meeting, member.line->end_node) != RS_OK ||
            add_wait_row(builder, &member, meeting, last) != RS_OK) {
            return RS_NOMEM;
        }
        const bool is_known = !builder->analysis->rows[r].is_partial;
        graph->work[member.line->end_node] = is_known ? GRAPH_ALL_THERE_IS : 0;
    }
    return RS_OK;
}

static enum rs_status meet_some(struct builder *builder, const struct rs_job_op *op)
{
    struct graph *graph = &builder->model->graph;
    const uint32_t last = last_to_start(builder, op);
    struct member i, j;
    for (size_t r = op->row_first; r < op->row_first + op->row_count; r++) {
        rs_ns latest = RS_NS_MIN;
        uint32_t meeting;
        if (!member_of(builder, r, &i)) {
            continue;
        }
        for (size_t q = op->row_first; q < op->row_first + op->row_count; q++) {
            if (member_of(builder, q, &j) &&
                (q == r || needs(builder->analysis, op, r, &i, q, &j)) && j.line->start > latest) {
                latest = j.line->start;
            }
        }
        if (graph_node(graph, latest, i.line->step, &meeting) != RS_OK ||
            graph_edge(graph, meeting, i.line->end_node) != RS_OK ||
            add_wait_row(builder, &i, meeting, last) != RS_OK) {
            return RS_NOMEM;
        }
        for (size_t q = op->row_first; q < op->row_first + op->row_count; q++) {
            if (member_of(builder, q, &j) &&
                (q == r || needs(builder->analysis, op, r, &i, q, &j)) &&
                graph_edge(graph, j.line->first_node, meeting) != RS_OK) {
                return RS_NOMEM;
            }
        }
        const bool is_known = !builder->analysis->rows[r].is_partial;
        graph->work[i.line->end_node] = is_known ? GRAPH_ALL_THERE_IS : 0;
    }
    return RS_OK;
}

/* Of batches with several peers each waits for its own. */
static enum rs_status meet_partners(struct builder *builder, const struct rs_job_op *op)
{
    const struct rs_analysis *analysis = builder->analysis;
    struct graph *graph = &builder->model->graph;
    const uint32_t last = last_to_start(builder, op);
    struct member i, j;
    for (size_t r = op->row_first; r < op->row_first + op->row_count; r++) {
        const struct rs_job_row *row = &analysis->rows[r];
        const size_t partners = rs_analysis_partner_count(analysis, row);
        uint32_t meeting;
        if (!member_of(builder, r, &i)) {
            continue;
        }
        rs_ns latest = i.line->start;
        for (size_t n = 0; n < partners; n++) {
            const size_t q = rs_analysis_partner_row(analysis, op, row, n);
            if (q != SIZE_MAX && member_of(builder, q, &j) && j.line->start > latest) {
                latest = j.line->start;
            }
        }
        if (graph_node(graph, latest, i.line->step, &meeting) != RS_OK ||
            graph_edge(graph, meeting, i.line->end_node) != RS_OK ||
            graph_edge(graph, i.line->first_node, meeting) != RS_OK ||
            add_wait_row(builder, &i, meeting, last) != RS_OK) {
            return RS_NOMEM;
        }
        for (size_t n = 0; n < partners; n++) {
            const size_t q = rs_analysis_partner_row(analysis, op, row, n);
            if (q != SIZE_MAX && q != r && member_of(builder, q, &j) &&
                graph_edge(graph, j.line->first_node, meeting) != RS_OK) {
                return RS_NOMEM;
            }
        }
        const bool is_known = !row->is_partial;
        graph->work[i.line->end_node] = is_known ? GRAPH_ALL_THERE_IS : 0;
    }
    return RS_OK;
}

/* All members of an operation that no name tells meet: builder->hidden from `first` to `end`. */
static enum rs_status meet_hidden(struct builder *builder, size_t first, size_t end)
{
    struct graph *graph = &builder->model->graph;
    struct member members[2] = {{0}};
    struct member *latest = &members[0], *member = &members[1];
    uint32_t last = GRAPH_NONE, meeting;
    for (size_t i = first; i < end; i++) {
        const struct line *line =
            &builder->programs[builder->hidden[i].worker].lines[builder->hidden[i].line];
        const bool is_later = latest->line == NULL || line->start > latest->line->start;
        last = is_later                             ? builder->hidden[i].worker
               : line->start == latest->line->start ? GRAPH_NONE
                                                    : last;
        latest->line = is_later ? line : latest->line;
    }
    RS_CHECK(latest->line); /* there is at least one member */
    if (graph_node(graph, latest->line->start, latest->line->step, &meeting) != RS_OK) {
        return RS_NOMEM;
    }
    for (size_t i = first; i < end; i++) {
        member->worker = builder->hidden[i].worker;
        member->line = &builder->programs[member->worker].lines[builder->hidden[i].line];
        /* An item's program has lines: NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
        if (graph_edge(graph, member->line->first_node, meeting) != RS_OK ||
            graph_edge(graph, meeting, member->line->end_node) != RS_OK ||
            add_wait_row(builder, member, meeting, last) != RS_OK) {
            return RS_NOMEM;
        }
        graph->work[member->line->end_node] = GRAPH_ALL_THERE_IS;
    }
    return RS_OK;
}

static enum rs_status add_hidden_meetings(struct builder *builder)
{
    for (size_t i = 0, end; i < builder->hidden_count; i = end) {
        for (end = i; end < builder->hidden_count &&
                      builder->hidden[end].meeting == builder->hidden[i].meeting;
             end++) {
        }
        if (meet_hidden(builder, i, end) != RS_OK) {
            return RS_NOMEM;
        }
    }
    return RS_OK;
}

static enum rs_status add_named_meetings(struct builder *builder)
{
    const struct rs_analysis *analysis = builder->analysis;
    builder->model->waits_are_known = true;
    for (size_t i = 0; i < analysis->op_count; i++) {
        const struct rs_job_op *op = &analysis->ops[i];
        enum rs_status status = RS_OK;
        if (op->coverage == RS_COVERAGE_PARTIAL || !op->has_wait) {
            builder->model->waits_are_known = false;
        }
        if (!op->is_matched || !op->has_wait || op->row_count < 2) {
            continue;
        }
        const bool is_many = op->is_p2p && op->row_count > 2; /* batches with several peers */
        if (is_many) {
            status = meet_partners(builder, op);
        } else if (rs_op_type_dependency((enum rs_op_type)op->type) == RS_DEPENDS_ALL) {
            status = meet_all(builder, op);
        } else {
            status = meet_some(builder, op);
        }
        if (status != RS_OK) {
            return status;
        }
    }
    return RS_OK;
}

enum rs_status edges_of_meetings(struct builder *builder)
{
    const enum rs_status status = add_named_meetings(builder);
    return status == RS_OK ? add_hidden_meetings(builder) : status;
}
