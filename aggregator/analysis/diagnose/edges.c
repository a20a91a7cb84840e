/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes and edges of a job.
 *
 *   facts     stream order: work on one stream starts after what was launched there before
 *             launch: work starts after its launch; launches follow one another; a host wait ends after the
 *             latest work launched before it in its scope, and the next launch follows it
 *             input: an operation starts after the last computing span launched before its call that had ended
 *             meeting: contracts section 5, who waits for whom
 *   inferred  output: who depends on an operation is the first later row at a place of the program that in no step
 *             and on no rank of the class starts before the operation's end. One counterexample refutes.
 *
 * Edges that the times contradict are left out and counted.
 */
#include "aggregator/analysis/diagnose/build.h"
#include "common/base/check.h"
#include "common/base/mem.h"

#include <stdlib.h>
#include <string.h>

/* ---- one rank ---------------------------------------------------------------------------- */

/* An end is noted at most this part of a wait behind it. */
enum { WAIT_LATE_SHARE = 4 };

/* How far an operation looks back for its input: what was launched last before it may still run beside it. */
enum { RECENT_SPANS = 4 };

struct rank_walk {
    struct builder *builder;
    struct graph *graph;
    struct program *program;
    uint32_t *lane_end;           /* [lane] end of its newest work */
    uint32_t *lane_older;         /* [lane] and of the one before */
    uint32_t host;                /* newest node of the host */
    uint32_t spans[RECENT_SPANS]; /* ends of the newest computing spans of a device, newest first */
    uint32_t start;
    const struct rs_step_row **step_rows; /* [step] the first row of that number; NULL: none */
};

static bool is_gap_line(const struct line *line)
{
    return line->what == LINE_GAP;
}

/* The newest work of the lane that had ended when this one starts: rows of one stream may overlap where a writer splits one. */
static uint32_t lane_before(const struct rank_walk *walk, uint32_t lane, rs_ns start)
{
    const struct graph *graph = walk->graph;
    const uint32_t newest = walk->lane_end[lane], older = walk->lane_older[lane];
    return newest != GRAPH_NONE && graph->seen[newest] > start + graph->tolerance ? older : newest;
}

static void set_lane_end(const struct rank_walk *walk, uint32_t lane, rs_ns start, uint32_t node)
{
    walk->lane_older[lane] = lane_before(walk, lane, start);
    walk->lane_end[lane] = node;
}

static enum rs_status after(struct graph *graph, uint32_t from, uint32_t to)
{
    return from == GRAPH_NONE || to == GRAPH_NONE ? RS_OK : graph_edge(graph, from, to);
}

static enum rs_status add_item(struct rank_walk *walk, const struct line *line, uint32_t node,
                               uint8_t figure)
{
    struct diag_model *model = walk->builder->model;
    const struct program *program = walk->program;
    if (program->step_signatures[line->step] != program->signature) {
        return RS_OK; /* another program in this step: nothing to compare it with */
    }
    if (rs_mem_grow((void **)&model->items, &model->item_capacity, model->item_count + 1,
                    sizeof *model->items) != RS_OK) {
        return RS_NOMEM;
    }
    const struct rs_summary *summary = walk->builder->analysis->summaries[program->summary];
    const struct rs_span_row *span = line->what == LINE_SPAN ? &summary->spans[line->index] : NULL;
    model->items[model->item_count++] = (struct diag_item){
        .node = node,
        .worker = program->worker,
        .step = line->step,
        .position = figure == RS_FIGURE_COMPUTING
                        ? line->slot * (uint32_t)walk->builder->most_lanes + line->lane
                        : line->slot,
        .figure = figure,
        .input = -1,
        .part = -1,
        .kernels = span == NULL              ? -1
                   : span->count < INT32_MAX ? (int32_t)span->count
                                             : INT32_MAX,
        .signature = span != NULL && !program->is_host ? span->signature : 0,
        .span = line->what == LINE_SPAN ? line->index : GRAPH_NONE};
    return RS_OK;
}

static const struct rs_step_row *step_row(const struct rank_walk *walk, const struct line *line)
{
    return walk->step_rows[line->step];
}

static int compare_steps(const void *left, const void *right)
{
    const int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

static void find_step_rows(struct rank_walk *walk)
{
    const struct rs_summary *summary = walk->builder->analysis->summaries[walk->program->summary];
    const struct diag_model *model = walk->builder->model;
    for (size_t i = summary->step_count; i-- > 0 && model->step_count > 0;) {
        const int64_t step = summary->steps[i].step;
        const int64_t *at =
            bsearch(&step, model->steps, model->step_count, sizeof step, compare_steps);
        if (at != NULL) {
            walk->step_rows[at - model->steps] = &summary->steps[i];
        }
    }
}

/* The newest item, when it is of this node: an unusual step has none. */
static struct diag_item *newest_item(const struct rank_walk *walk, uint32_t node)
{
    struct diag_model *model = walk->builder->model;
    struct diag_item *item = model->item_count > 0 ? &model->items[model->item_count - 1] : NULL;
    return item != NULL && item->node == node ? item : NULL;
}

/* Data loading of a step is given with its head. */
static void set_input(const struct rank_walk *walk, const struct line *line, uint32_t node)
{
    struct diag_item *item = newest_item(walk, node);
    const struct rs_step_row *row = step_row(walk, line);
    if (item != NULL && row != NULL) {
        item->input = row->input_ns;
    }
}

/* Of a host's own time: what nothing computed in, and at the head of a step what passes before the first work. */
static enum rs_status add_host_parts(struct rank_walk *walk, const struct line *line, bool is_first)
{
    const uint32_t node = line->end_node;
    if (add_item(walk, line, node, RS_FIGURE_HOST_INSIDE) != RS_OK) {
        return RS_NOMEM;
    }
    struct diag_item *item = newest_item(walk, node);
    if (item != NULL) {
        item->part = line->idle > 0 ? line->idle : 0;
    }
    if (!is_first) {
        return RS_OK;
    }
    set_input(walk, line, node);
    if (add_item(walk, line, node, RS_FIGURE_HOST_HEAD) != RS_OK) {
        return RS_NOMEM;
    }
    item = newest_item(walk, node);
    const struct rs_step_row *row = step_row(walk, line);
    if (item != NULL) {
        item->part = row != NULL && row->idle_head > 0 ? row->idle_head : 0;
        item->part = item->part < line->work ? item->part : line->work;
        set_input(walk, line, node);
    }
    return RS_OK;
}

/* The launch of device work: host work since the host's last mark, the head of a step if it is its first. */
static enum rs_status add_launch(struct rank_walk *walk, struct line *line, bool is_head)
{
    struct graph *graph = walk->graph;
    if (graph_node(graph, line->launch, line->step, &line->launch_node) != RS_OK) {
        return RS_NOMEM;
    }
    graph->work[line->launch_node] = GRAPH_ALL_THERE_IS;
    if (after(graph, walk->host, line->launch_node) != RS_OK) {
        return RS_NOMEM;
    }
    walk->host = line->launch_node;
    if (walk->program->is_host) {
        return RS_OK;
    }
    if (add_item(walk, line, line->launch_node,
                 is_head ? RS_FIGURE_HOST_HEAD : RS_FIGURE_HOST_INSIDE) != RS_OK) {
        return RS_NOMEM;
    }
    if (is_head) {
        set_input(walk, line, line->launch_node);
    }
    return RS_OK;
}

static enum rs_status add_work(struct rank_walk *walk, struct line *line, bool is_first)
{
    struct graph *graph = walk->graph;
    const bool is_gap = line->what == LINE_GAP;
    if (graph_node(graph, line->end, line->step, &line->end_node) != RS_OK) {
        return RS_NOMEM;
    }
    graph->work[line->end_node] = is_gap ? GRAPH_ALL_THERE_IS : line->work;
    const uint32_t before = line->on_host && !is_gap
                                ? walk->host
                                : lane_before(walk, line->lane, is_gap ? line->end : line->start);
    if (after(graph, before != GRAPH_NONE ? before : walk->start, line->end_node) != RS_OK ||
        after(graph, line->launch_node, line->end_node) != RS_OK) {
        return RS_NOMEM;
    }
    set_lane_end(walk, line->lane, is_gap_line(line) ? line->end : line->start, line->end_node);
    if (line->on_host) {
        walk->host = line->end_node;
    } else if (!line->is_copy) {
        memmove(walk->spans + 1, walk->spans, (RECENT_SPANS - 1) * sizeof *walk->spans);
        walk->spans[0] = line->end_node;
    }
    if (add_item(walk, line, line->end_node, RS_FIGURE_COMPUTING) != RS_OK) {
        return RS_NOMEM;
    }
    if (line->what == LINE_SPAN && walk->program->is_host) {
        return add_host_parts(walk, line, is_first);
    }
    return RS_OK;
}

/* The newest span launched before an operation that had ended when it started. Copies beside the computing are no input. */
static uint32_t input_of(const struct rank_walk *walk, rs_ns start)
{
    const struct graph *graph = walk->graph;
    for (size_t i = 0; i < RECENT_SPANS; i++) {
        if (walk->spans[i] == GRAPH_NONE ||
            graph->seen[walk->spans[i]] <= start + graph->tolerance) {
            return walk->spans[i];
        }
    }
    return GRAPH_NONE;
}

static enum rs_status add_op(struct rank_walk *walk, struct line *line)
{
    struct graph *graph = walk->graph;
    if (graph_node(graph, line->start, line->step, &line->first_node) != RS_OK ||
        graph_node(graph, line->end, line->step, &line->end_node) != RS_OK ||
        after(graph, line->launch_node, line->first_node) != RS_OK ||
        after(graph, lane_before(walk, line->lane, line->start), line->first_node) != RS_OK ||
        after(graph, line->first_node, line->end_node) != RS_OK) {
        return RS_NOMEM;
    }
    if (!line->on_host && after(graph, input_of(walk, line->start), line->first_node) != RS_OK) {
        return RS_NOMEM;
    }
    if (line->on_host && after(graph, walk->host, line->first_node) != RS_OK) {
        return RS_NOMEM;
    }
    set_lane_end(walk, line->lane, is_gap_line(line) ? line->end : line->start, line->end_node);
    return RS_OK;
}

/* A worker of the host notes an operation's end after it has woken the rank. A wait that nothing else ended was ended by the
 * operation that is noted next, if not too late for it (as spans_host.c allows): its end is then the wait's. */
static void end_with_wait(const struct rank_walk *walk, const struct line *line)
{
    const struct graph *graph = walk->graph;
    const rs_dur late = (line->end - line->start) / WAIT_LATE_SHARE;
    uint32_t next = GRAPH_NONE;
    for (size_t lane = 0; lane < walk->program->lane_count; lane++) {
        const uint32_t node = walk->lane_end[lane];
        if (node == GRAPH_NONE || graph->seen[node] <= line->start) {
            continue;
        }
        if (graph->seen[node] <= line->end + graph->tolerance) {
            return;
        }
        if (graph->seen[node] <= line->end + late &&
            (next == GRAPH_NONE || graph->seen[node] < graph->seen[next])) {
            next = node;
        }
    }
    if (next != GRAPH_NONE) {
        graph->seen[next] = line->end;
    }
}

static enum rs_status add_wait(struct rank_walk *walk, struct line *line)
{
    struct graph *graph = walk->graph;
    if (graph_node(graph, line->start, line->step, &line->first_node) != RS_OK ||
        graph_node(graph, line->end, line->step, &line->end_node) != RS_OK ||
        after(graph, walk->host, line->first_node) != RS_OK ||
        after(graph, line->first_node, line->end_node) != RS_OK) {
        return RS_NOMEM;
    }
    graph->work[line->first_node] = walk->program->is_host ? 0 : GRAPH_ALL_THERE_IS;
    if (walk->program->is_host) {
        end_with_wait(walk, line);
    }
    for (size_t lane = 0; lane < walk->program->lane_count; lane++) {
        const bool is_meant = line->is_all || walk->program->is_host || line->lane == lane;
        if (is_meant && after(graph, walk->lane_end[lane], line->end_node) != RS_OK) {
            return RS_NOMEM;
        }
    }
    walk->host = line->end_node;
    return RS_OK;
}

static enum rs_status add_line_nodes(struct rank_walk *walk, struct line *line, bool is_head)
{
    const bool launches = line->has_launch && line->what != LINE_WAIT && line->what != LINE_GAP &&
                          !(line->what == LINE_SPAN && line->on_host) &&
                          !(line->what == LINE_OP && line->on_host);
    if (launches && add_launch(walk, line, is_head) != RS_OK) {
        return RS_NOMEM;
    }
    switch ((enum line_what)line->what) {
    case LINE_SPAN:
    case LINE_GAP:
        return add_work(walk, line, is_head);
    case LINE_OP:
        return add_op(walk, line);
    case LINE_WAIT:
        return add_wait(walk, line);
    }
    return RS_OK;
}

static rs_ns start_of(const struct builder *builder, const struct program *program)
{
    const struct rs_summary *summary = builder->analysis->summaries[program->summary];
    rs_ns start = RS_NS_MAX;
    for (size_t i = 0; i < summary->step_count; i++) {
        if (summary->steps[i].step == builder->model->steps[0] &&
            summary->steps[i].host_start < start) {
            start = summary->steps[i].host_start;
        }
    }
    rs_ns relative;
    return start == RS_NS_MAX || __builtin_sub_overflow(
                                     rs_analysis_time(builder->analysis, program->summary, start),
                                     builder->base, &relative)
               ? 0
               : relative;
}

static enum rs_status add_rank(struct builder *builder, struct program *program)
{
    struct rank_walk walk = {.builder = builder,
                             .graph = &builder->model->graph,
                             .program = program,
                             .host = GRAPH_NONE};
    for (size_t i = 0; i < RECENT_SPANS; i++) {
        walk.spans[i] = GRAPH_NONE;
    }
    builder->model->workers[program->worker].has_device = !program->is_host;
    walk.lane_end = rs_mem_calloc(2 * program->lane_count + 2, sizeof *walk.lane_end);
    walk.lane_older = walk.lane_end != NULL ? walk.lane_end + program->lane_count + 1 : NULL;
    walk.step_rows =
        rs_mem_calloc(builder->model->step_count + 1, sizeof(const struct rs_step_row *));
    if (walk.step_rows != NULL) {
        find_step_rows(&walk);
    }
    enum rs_status status =
        walk.lane_end == NULL || walk.step_rows == NULL
            ? RS_NOMEM
            : graph_node(walk.graph, start_of(builder, program), GRAPH_NONE, &walk.start);
    for (size_t lane = 0; status == RS_OK && lane < program->lane_count; lane++) {
        walk.lane_end[lane] = walk.lane_older[lane] = GRAPH_NONE;
    }
    walk.host = status == RS_OK ? walk.start : GRAPH_NONE;
    for (size_t k = 0; status == RS_OK && k < builder->model->step_count; k++) {
        bool is_head = true;
        for (size_t i = program->step_first[k]; status == RS_OK && i < program->step_first[k + 1];
             i++) {
            struct line *line = &program->lines[i];
            status = add_line_nodes(&walk, line, is_head);
            is_head = is_head && line->launch_node == GRAPH_NONE &&
                      !(program->is_host && line->what == LINE_SPAN);
        }
    }
    rs_mem_free(walk.lane_end);
    rs_mem_free(walk.step_rows);
    return status;
}

/* ---- meetings ------------------------------------------------------------------------------ */

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

static enum rs_status add_meetings(struct builder *builder)
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
        const bool is_batch = op->type == RS_OP_SEND_RECV;
        if (is_batch || rs_op_type_dependency((enum rs_op_type)op->type) == RS_DEPENDS_ALL) {
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

/* ---- outputs, by refutation ------------------------------------------------------------------ */

/* Each operation is asked about each lane. Where there are more, streams are made anew for every piece of work, and
 * which one comes next says nothing of the program: no outputs are looked for. */
enum { OUTPUT_LANES_MAX = 1024 };

/* For one class: [slot of the step's program][lane] the slot that depends on the operation there. */
struct outputs {
    uint32_t *
        slot; /* [ops of a step * lanes]: 0 none seen, else slot + 1, counted on into the next step */
    size_t ops, lanes;
};

static size_t ops_of_step(const struct program *program, size_t k)
{
    size_t count = 0;
    for (size_t i = program->step_first[k]; i < program->step_first[k + 1]; i++) {
        count += program->lines[i].what == LINE_OP;
    }
    return count;
}

static rs_ns ready_of(const struct line *line)
{
    return line->what == LINE_GAP ? line->end : line->start;
}

/* What may depend on an operation: a row's work, on its lane; and where no wait of the host was recorded, a row's
 * launch, on a lane of its own behind the streams. */
struct target {
    rs_ns ready;
    uint32_t node;
};

enum { FACES = 2 };

static size_t lane_of_face(const struct line *line, size_t host_lane, size_t face)
{
    return face == 1 ? host_lane : line->lane;
}

static bool is_target(const struct program *program, const struct line *line, size_t face)
{
    return face == 1 ? !program->has_waits && !program->is_host && line->launch_node != GRAPH_NONE
                     : line->what != LINE_WAIT;
}

static struct target target_of(const struct line *line, size_t face)
{
    return face == 1 ? (struct target){line->launch, line->launch_node}
                     : (struct target){ready_of(line),
                                       line->what == LINE_OP ? line->first_node : line->end_node};
}

/* The targets of one program by lane, in launch order: from an operation on, each lane is asked for itself, however far
 * away its next row is. */
struct reach {
    uint32_t *line; /* by lane, then in launch order */
    size_t *first;  /* [lanes + 1] */
    size_t *next;   /* [lanes] the first that was launched behind the source */
    uint8_t *rises; /* [lanes] `ready` never falls along it */
    size_t lanes;
};

static void reach_fini(struct reach *reach)
{
    rs_mem_free(reach->line);
    rs_mem_free(reach->first);
    rs_mem_free(reach->next);
    rs_mem_free(reach->rises);
}

static size_t face_of(const struct reach *reach, size_t lane)
{
    return lane + 1 == reach->lanes ? 1 : 0;
}

static enum rs_status reach_init(const struct program *program, size_t lanes, struct reach *reach)
{
    *reach = (struct reach){.lanes = lanes};
    reach->line = rs_mem_calloc(FACES * program->count + 1, sizeof *reach->line);
    reach->first = rs_mem_calloc(lanes + 2, sizeof *reach->first);
    reach->next = rs_mem_calloc(lanes + 1, sizeof *reach->next);
    reach->rises = rs_mem_calloc(lanes + 1, 1);
    if (reach->line == NULL || reach->first == NULL || reach->next == NULL ||
        reach->rises == NULL) {
        reach_fini(reach);
        return RS_NOMEM;
    }
    for (size_t i = 0; i < FACES * program->count; i++) {
        const struct line *line = &program->lines[i / FACES];
        if (is_target(program, line, i % FACES)) {
            reach->first[lane_of_face(line, lanes - 1, i % FACES) + 1]++;
        }
    }
    for (size_t lane = 0; lane < lanes; lane++) {
        reach->first[lane + 1] += reach->first[lane];
        reach->next[lane] = reach->first[lane];
        reach->rises[lane] = 1;
    }
    for (size_t i = 0; i < FACES * program->count; i++) {
        const struct line *line = &program->lines[i / FACES];
        if (!is_target(program, line, i % FACES)) {
            continue;
        }
        const size_t lane = lane_of_face(line, lanes - 1, i % FACES);
        const size_t at = reach->next[lane]++;
        reach->line[at] = (uint32_t)(i / FACES);
        if (at > reach->first[lane]) {
            const struct line *before = &program->lines[reach->line[at - 1]];
            reach->rises[lane] &=
                target_of(before, i % FACES).ready <= target_of(line, i % FACES).ready;
        }
    }
    memcpy(reach->next, reach->first, lanes * sizeof *reach->next);
    return RS_OK;
}

/* Of a lane the first place behind the source whose row is ready at `from` or later; reach->first[lane + 1]: none. */
static size_t reach_find(struct reach *reach, const struct program *program, size_t lane,
                         size_t source, rs_ns from)
{
    const size_t end = reach->first[lane + 1], face = face_of(reach, lane);
    size_t low = reach->next[lane];
    while (low < end && reach->line[low] <= source) {
        low++;
    }
    reach->next[lane] = low;
    size_t high = reach->rises[lane] ? end : low;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (target_of(&program->lines[reach->line[middle]], face).ready < from) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    while (low < end && target_of(&program->lines[reach->line[low]], face).ready < from) {
        low++;
    }
    return low;
}

/* Operations first, then the spans before, between and behind them. */
static size_t source_of(const struct outputs *outputs, const struct line *line)
{
    return (line->slot + (line->what == LINE_OP ? 0 : outputs->ops)) * outputs->lanes;
}

/* Lanes that something may depend on the source on: for an operation all others of the program, and for all the host's. */
static bool is_open(const struct program *program, const struct line *source, size_t lane,
                    size_t lanes)
{
    return lane + 1 == lanes
               ? program->has_launches && !program->has_waits && !program->is_host
               : source->what == LINE_OP && lane < program->lane_count && lane != source->lane;
}

static uint32_t slot_from(const struct outputs *outputs, const struct line *source,
                          const struct line *line)
{
    return line->slot + (line->step > source->step ? (uint32_t)outputs->ops : 0) + 1;
}

/* Looks on from an operation to the end of the next step: per lane the first row that is ready behind its end.
 * The latest of these places, over all steps and ranks, is the first that no step refutes. */
static void refute_one(const struct program *program, size_t at, struct reach *reach,
                       struct outputs *outputs)
{
    const struct line *op = &program->lines[at];
    for (size_t lane = 0; lane < outputs->lanes; lane++) {
        if (!is_open(program, op, lane, outputs->lanes)) {
            continue;
        }
        const size_t found = reach_find(reach, program, lane, at, op->end);
        if (found == reach->first[lane + 1]) {
            continue;
        }
        const struct line *line = &program->lines[reach->line[found]];
        if (line->step <= op->step + 1) {
            const uint32_t slot = slot_from(outputs, op, line);
            uint32_t *known = &outputs->slot[source_of(outputs, op) + lane];
            *known = slot > *known ? slot : *known;
        }
    }
}

/* The edge of one lane, if any: the place that no step refutes or the first ready one behind it. */
static uint32_t find_output(const struct program *program, size_t at, size_t lane,
                            struct reach *reach, const struct outputs *outputs)
{
    const struct line *op = &program->lines[at];
    const uint32_t wanted = outputs->slot[source_of(outputs, op) + lane];
    if (wanted == 0 || !is_open(program, op, lane, outputs->lanes)) {
        return GRAPH_NONE;
    }
    for (size_t i = reach_find(reach, program, lane, at, op->end); i < reach->first[lane + 1];
         i++) {
        const struct line *line = &program->lines[reach->line[i]];
        if (line->step > op->step + 1) {
            break;
        }
        if (slot_from(outputs, op, line) >= wanted &&
            target_of(line, face_of(reach, lane)).ready >= op->end) {
            return target_of(line, face_of(reach, lane)).node;
        }
    }
    return GRAPH_NONE;
}

static enum rs_status link_one(struct graph *graph, const struct program *program, size_t at,
                               struct reach *reach, const struct outputs *outputs)
{
    for (size_t lane = 0; lane < outputs->lanes; lane++) {
        const uint32_t node = find_output(program, at, lane, reach, outputs);
        if (node != GRAPH_NONE && graph_edge(graph, program->lines[at].end_node, node) != RS_OK) {
            return RS_NOMEM;
        }
    }
    return RS_OK;
}

static bool is_usual(const struct program *program, size_t k)
{
    return program->step_signatures[k] == program->signature;
}

/* One pass over a program: what refutes, or the edges that are left. */
static enum rs_status walk_sources(struct builder *builder, const struct program *program,
                                   struct outputs *outputs, bool links)
{
    struct reach reach;
    enum rs_status status = reach_init(program, outputs->lanes, &reach);
    if (status != RS_OK) {
        return status;
    }
    for (size_t i = 0; status == RS_OK && i < program->count; i++) {
        const struct line *line = &program->lines[i];
        const bool is_source = line->what == LINE_OP || (line->what == LINE_SPAN &&
                                                         !program->has_waits && !program->is_host);
        if (!is_source || !is_usual(program, line->step)) {
            continue;
        }
        if (links) {
            status = link_one(&builder->model->graph, program, i, &reach, outputs);
        } else {
            refute_one(program, i, &reach, outputs);
        }
    }
    reach_fini(&reach);
    return status;
}

static enum rs_status class_outputs(struct builder *builder, uint32_t class_id)
{
    const struct diag_model *model = builder->model;
    struct outputs outputs = {.lanes = builder->most_lanes + 1};
    enum rs_status status = RS_OK;
    for (size_t w = 0; w < model->worker_count; w++) {
        const struct program *program = &builder->programs[w];
        for (size_t k = 0; k < model->step_count && model->workers[w].class_id == class_id; k++) {
            const size_t ops = is_usual(program, k) ? ops_of_step(program, k) : 0;
            outputs.ops = ops > outputs.ops ? ops : outputs.ops;
        }
    }
    outputs.slot = rs_mem_calloc((2 * outputs.ops + 1) * outputs.lanes + 1, sizeof *outputs.slot);
    if (outputs.slot == NULL) {
        return RS_NOMEM;
    }
    for (size_t i = 0; status == RS_OK && i < 2 * model->worker_count; i++) {
        const size_t w = i % model->worker_count;
        if (model->workers[w].class_id == class_id) {
            status =
                walk_sources(builder, &builder->programs[w], &outputs, i >= model->worker_count);
        }
    }
    rs_mem_free(outputs.slot);
    return status;
}

/* Keeps of every operation what transfers ask for, and frees the lines. */
static enum rs_status drop_lines(struct builder *builder)
{
    const size_t ops = builder->op_base[builder->analysis->summary_count];
    builder->op_places = rs_mem_calloc(ops + 1, sizeof *builder->op_places);
    if (builder->op_places == NULL) {
        return RS_NOMEM;
    }
    for (size_t s = 0; s < builder->analysis->summary_count; s++) {
        const uint32_t worker = builder->worker_of[s];
        for (size_t i = builder->op_base[s]; i < builder->op_base[s + 1]; i++) {
            const struct line *line = worker != GRAPH_NONE && builder->op_line[i] != GRAPH_NONE
                                          ? &builder->programs[worker].lines[builder->op_line[i]]
                                          : NULL;
            builder->op_places[i] = line != NULL
                                        ? (struct op_place){line->end_node, line->step, line->slot}
                                        : (struct op_place){GRAPH_NONE, GRAPH_NONE, GRAPH_NONE};
        }
    }
    rs_mem_free(builder->lines);
    rs_mem_free(builder->op_line);
    builder->lines = NULL;
    builder->op_line = NULL;
    for (size_t w = 0; w < builder->model->worker_count; w++) {
        builder->programs[w].lines = NULL;
        builder->programs[w].count = builder->programs[w].most = 0;
    }
    return RS_OK;
}

enum rs_status edges_make(struct builder *builder)
{
    struct diag_model *model = builder->model;
    model->graph.tolerance = (rs_dur)DIAG_CLOCK_TOLERANCE_NS;
    enum rs_status status = RS_OK;
    for (size_t w = 0; status == RS_OK && w < model->worker_count; w++) {
        status = add_rank(builder, &builder->programs[w]);
    }
    if (status == RS_OK) {
        status = add_meetings(builder);
    }
    if (status == RS_OK) {
        status = add_hidden_meetings(builder);
    }
    graph_infer(&model->graph);
    if (status == RS_OK) {
        status = ghosts_make(builder);
    }
    for (uint32_t c = 0;
         status == RS_OK && c < model->class_count && builder->most_lanes <= OUTPUT_LANES_MAX;
         c++) {
        status = class_outputs(builder, c);
    }
    if (status == RS_OK) {
        status = drop_lines(builder);
    }
    return status == RS_OK ? graph_seal(&model->graph) : status;
}
