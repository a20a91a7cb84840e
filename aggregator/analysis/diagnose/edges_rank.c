/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The nodes of one rank's program and the facts between them: stream order, launches, host waits, inputs. And the items: whose
 * work a node is, of which figure, in which step at which position.
 *
 *   host   launch --> launch --> wait ......> launch      each follows the newest node of the host
 *                        \ launch of its last row, where a span stood idle: its end follows that, too
 *   lane   span, operation ==> span, operation            each follows the newest of its lane that had ended
 *          ^ its launch; of an operation also the newest span launched before it that had ended: its input
 */
#include "aggregator/analysis/diagnose/build.h"
#include "common/base/mem.h"

#include <stdlib.h>
#include <string.h>

/* An end is noted at most this part of a wait behind it. */
enum { WAIT_LATE_SHARE = 4 };

/* How far an operation looks back for its input: what was launched last before it may still run beside it. */
enum { RECENT_SPANS = 4 };
/* How many rows a wait for an event looks back for what it waited for: more than hosts run ahead between two such waits. */
enum { EVENT_ROWS = 256 };
static const rs_dur right_after_ns = (rs_dur)DIAG_INPUT_AFTER_NS;

struct rank_walk {
    struct builder *builder;
    struct graph *graph;
    struct program *program;
    uint32_t *lane_end;   /* [lane] end of its newest work */
    uint32_t *lane_older; /* [lane] and of the one before */
    uint32_t *lane_op;    /* [lane] start of the newest, if it is an operation; GRAPH_NONE */
    uint32_t host;        /* newest node of the host */
    uint32_t spans[RECENT_SPANS]; /* ends of the newest spans of computing streams, newest first */
    uint8_t *lane_computes;       /* [lane] a stream of a device on which something is computed */
    uint32_t start;
    const struct rs_step_row **step_rows; /* [step] the first row of that number; NULL: none */
    uint32_t *slot_base;                  /* [step] what slots of its program count from */
};

/* The newest work of the lane that had ended when this one starts: rows of one stream may overlap where a writer splits one. */
static uint32_t lane_before(const struct rank_walk *walk, uint32_t lane, rs_ns start)
{
    const struct graph *graph = walk->graph;
    const uint32_t newest = walk->lane_end[lane], older = walk->lane_older[lane];
    return newest != GRAPH_NONE && graph->seen[newest] > start + graph->tolerance ? older : newest;
}

/* `op`: the start of an operation; GRAPH_NONE: it is none. */
static void set_lane_end(const struct rank_walk *walk, uint32_t lane, rs_ns start, uint32_t node,
                         uint32_t op)
{
    walk->lane_older[lane] = lane_before(walk, lane, start);
    walk->lane_end[lane] = node;
    walk->lane_op[lane] = op;
}

/* What a call launches before its own kernel is behind the call in the order of launches, and before its operation on the stream: it
 * holds that up, and the operation stays the newest. */
static bool is_before_its_operation(const struct rank_walk *walk, const struct line *line)
{
    const struct graph *graph = walk->graph;
    const uint32_t op = walk->lane_op[line->lane];
    return !line->on_host && op != GRAPH_NONE && graph->seen[line->end_node] <= graph->seen[op];
}

static enum rs_status after(struct graph *graph, uint32_t from, uint32_t to)
{
    return from == GRAPH_NONE || to == GRAPH_NONE ? RS_OK : graph_edge(graph, from, to);
}

/* Where the row of a wait was lost, the wait is in what the host seems to do next: of its step, and of the head of the next one. */
static bool lacks_waits(const struct program *program, uint32_t step, uint8_t figure)
{
    const uint8_t *lacks = program->step_lacks_waits;
    return lacks != NULL && (lacks[step] != 0 ||
                             (figure == RS_FIGURE_HOST_HEAD && step > 0 && lacks[step - 1] != 0));
}

static enum rs_status add_item(struct rank_walk *walk, const struct line *line, uint32_t node,
                               uint8_t figure)
{
    struct diag_model *model = walk->builder->model;
    const struct program *program = walk->program;
    const uint32_t class_id = model->workers[program->worker].class_id;
    const bool is_alike = walk->builder->alike[class_id * model->step_count + line->step] != 0;
    if (program->step_signatures[line->step] != program->signature && !is_alike) {
        return RS_OK; /* another program in this step: nothing to compare it with */
    }
    if (figure != RS_FIGURE_COMPUTING && lacks_waits(program, line->step, figure)) {
        return RS_OK;
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
        .position = figure != RS_FIGURE_COMPUTING ? line->slot
                    : line->is_astray             ? GRAPH_NONE
                                                  : (walk->slot_base[line->step] + line->slot) *
                                                (uint32_t)walk->builder->most_lanes +
                                            line->lane,
        .figure = figure,
        .input = -1,
        .part = -1,
        .kernels = span == NULL              ? -1
                   : span->count < INT32_MAX ? (int32_t)span->count
                                             : INT32_MAX,
        .signature = span != NULL && !program->is_host ? span->signature : 0,
        .name = span != NULL ? span->top_name : RS_STR_NONE};
    return RS_OK;
}

/* Steps of another program that all of the class run have places of their own, behind those of the usual one. */
static void find_slot_bases(const struct rank_walk *walk)
{
    const struct program *program = walk->program;
    const struct diag_model *model = walk->builder->model;
    const uint64_t *variants =
        &walk->builder->variants[model->workers[program->worker].class_id * (size_t)BUILD_VARIANTS];
    uint32_t slots[BUILD_VARIANTS] = {0};
    for (size_t k = 0; k < model->step_count; k++) {
        for (size_t v = 0; v < BUILD_VARIANTS; v++) {
            uint32_t count = 1; /* behind the last operation, too */
            for (size_t i = program->step_first[k];
                 program->step_signatures[k] == variants[v] && i < program->step_first[k + 1];
                 i++) {
                count += line_counts(&program->lines[i]) ? 1 : 0;
            }
            slots[v] = count > slots[v] ? count : slots[v];
        }
    }
    for (size_t k = 0; k < model->step_count; k++) {
        for (size_t v = 0; v < BUILD_VARIANTS && program->step_signatures[k] != variants[v]; v++) {
            walk->slot_base[k] += variants[v] != 0 ? slots[v] : 0;
        }
    }
}

/* What is copied between kernels is in the way of what comes behind it; what is copied on a stream of its own is not. */
static void find_computing_lanes(const struct rank_walk *walk)
{
    for (size_t i = 0; i < walk->program->count; i++) {
        const struct line *line = &walk->program->lines[i];
        if (line->what == LINE_GAP || (line->what == LINE_SPAN && !line->is_copy)) {
            walk->lane_computes[line->lane] = line->on_host ? 0 : 1;
        }
    }
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
        item->part = line->on_host && line->idle > 0 ? line->idle : 0;
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

/* When the host does something next; RS_NS_MAX: no more. */
static rs_ns host_goes_on(const struct program *program, const struct line *line)
{
    const struct line *last = program->lines + program->count;
    for (const struct line *next = line + 1; next < last; next++) {
        if (next->has_launch || next->what == LINE_WAIT || next->on_host) {
            return next->has_launch ? next->launch : next->start;
        }
    }
    return RS_NS_MAX;
}

/* A span that stood idle may have waited for the launch of its last row: for its host. */
static bool waits_for_host(const struct rank_walk *walk, const struct line *line)
{
    const struct program *program = walk->program;
    const rs_dur length = line->end - line->start, idle = length - line->work;
    if (line->what != LINE_SPAN || line->on_host || !line->has_launch || line->lacks_rows ||
        line->launch_last <= line->start || line->launch_last > line->end ||
        (double)idle <= DIAG_IDLE_PART * (double)length) {
        return false;
    }
    /* what the host does next must be behind it: threads may launch side by side */
    return line->launch_last <= host_goes_on(program, line);
}

/* Behind its work as it would go on without the host, and what was left of it when the last row was launched, comes its end. */
static enum rs_status wait_for_host(struct rank_walk *walk, struct line *line)
{
    struct graph *graph = walk->graph;
    uint32_t launch, rest;
    if (graph_node(graph, line->launch_last, line->step, &launch) != RS_OK ||
        graph_node(graph, line->end, line->step, &rest) != RS_OK) {
        return RS_NOMEM;
    }
    graph->work[line->work_node] = line->work;
    graph->work[line->end_node] = 0;
    graph->work[launch] = graph->work[rest] = GRAPH_ALL_THERE_IS;
    if (after(graph, walk->host, launch) != RS_OK || after(graph, launch, rest) != RS_OK ||
        after(graph, rest, line->end_node) != RS_OK ||
        after(graph, line->work_node, line->end_node) != RS_OK) {
        return RS_NOMEM;
    }
    walk->host = launch;
    return add_item(walk, line, launch, RS_FIGURE_HOST_INSIDE);
}

/* The newest span launched before an operation that had ended when it started. Copies on a stream of their own are no input; those between
 * kernels are, since the operation waits for all of that stream. */
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

/* Between a call and the start of its work lies what the host does until it has launched it, where the device had nothing else to wait
 * for: on a slow host much. Work begins a little behind its launch, so the host may already be at what is next; where it does nothing
 * behind it, it is not known. `before`: the newest work that it comes behind; `to`: what begins then. What else that depends on shows
 * later: edges.c. */
static enum rs_status add_issue(struct rank_walk *walk, const struct line *line, uint32_t before,
                                uint32_t to)
{
    struct graph *graph = walk->graph;
    struct builder *builder = walk->builder;
    struct issue issue = {.launch = line->launch_node, .to = to};
    const rs_ns next = host_goes_on(walk->program, line);
    const rs_ns issued = next < line->start ? next : line->start;
    if (line->launch_node == GRAPH_NONE || issued <= line->launch || walk->program->is_host ||
        (before != GRAPH_NONE && line->start - graph->seen[before] < right_after_ns &&
         graph->seen[before] > line->launch) ||
        line->start - issued > right_after_ns || next == RS_NS_MAX) {
        return RS_OK;
    }
    if (rs_mem_grow((void **)&builder->issues, &builder->issue_capacity, builder->issue_count + 1,
                    sizeof *builder->issues) != RS_OK ||
        graph_node(graph, issued, line->step, &issue.node) != RS_OK) {
        return RS_NOMEM;
    }
    builder->issues[builder->issue_count++] = issue;
    graph->work[issue.node] = GRAPH_ALL_THERE_IS;
    if (after(graph, issue.launch, issue.node) != RS_OK || after(graph, issue.node, to) != RS_OK) {
        return RS_NOMEM;
    }
    walk->host = issue.node;
    return add_item(walk, line, issue.node, RS_FIGURE_HOST_INSIDE);
}

/* Where rows were lost, so may have been those that show what a stream waits for in the middle of a span: edges_lost.c finds it. */
static bool may_wait_inside(const struct rank_walk *walk, const struct line *line)
{
    const rs_dur length = line->end - line->start;
    return walk->builder->model->has_lost_rows && line->what == LINE_SPAN && !line->on_host &&
           (double)(length - line->work) > DIAG_IDLE_PART * (double)length;
}

static uint32_t later_of(const struct graph *graph, uint32_t a, uint32_t b)
{
    return a == GRAPH_NONE || (b != GRAPH_NONE && graph->seen[b] > graph->seen[a]) ? b : a;
}

/* What the stream does next comes behind this work, or an operation that is there already does. */
static enum rs_status end_on_lane(struct rank_walk *walk, const struct line *line)
{
    if (is_before_its_operation(walk, line)) {
        walk->lane_older[line->lane] = line->end_node;
        return graph_edge(walk->graph, line->end_node, walk->lane_op[line->lane]);
    }
    set_lane_end(walk, line->lane, line->what == LINE_GAP ? line->end : line->start, line->end_node,
                 GRAPH_NONE);
    return RS_OK;
}

/* For the host, or for operations whose input this work may be. */
static void remember_end(struct rank_walk *walk, const struct line *line)
{
    if (line->on_host) {
        walk->host = line->end_node;
    } else if (walk->lane_computes[line->lane] != 0) {
        memmove(walk->spans + 1, walk->spans, (RECENT_SPANS - 1) * sizeof *walk->spans);
        walk->spans[0] = line->end_node;
    }
}

static enum rs_status add_work(struct rank_walk *walk, struct line *line, bool is_first)
{
    struct graph *graph = walk->graph;
    const bool is_gap = line->what == LINE_GAP;
    if (graph_node(graph, line->end, line->step, &line->end_node) != RS_OK) {
        return RS_NOMEM;
    }
    graph->work[line->end_node] = is_gap ? GRAPH_ALL_THERE_IS : line->work;
    line->work_node = line->end_node;
    const uint32_t before = line->on_host && !is_gap
                                ? walk->host
                                : lane_before(walk, line->lane, is_gap ? line->end : line->start);
    const bool waits = waits_for_host(walk, line);
    line->is_parted = !waits && may_wait_inside(walk, line);
    if (((waits || line->is_parted) &&
         graph_node(graph, line->start + line->work, line->step, &line->work_node) != RS_OK) ||
        add_issue(walk, line, before, line->work_node) != RS_OK ||
        (waits && wait_for_host(walk, line) != RS_OK) ||
        (line->is_parted && graph_edge(graph, line->work_node, line->end_node) != RS_OK)) {
        return RS_NOMEM;
    }
    if (line->is_parted) {
        graph->work[line->work_node] = line->work;
        graph->work[line->end_node] = 0;
    }
    if (after(graph, before != GRAPH_NONE ? before : walk->start, line->work_node) != RS_OK ||
        after(graph, line->launch_node, line->work_node) != RS_OK) {
        return RS_NOMEM;
    }
    if (end_on_lane(walk, line) != RS_OK) {
        return RS_NOMEM;
    }
    remember_end(walk, line);
    if (add_item(walk, line, line->work_node, RS_FIGURE_COMPUTING) != RS_OK) {
        return RS_NOMEM;
    }
    if (line->what == LINE_SPAN && walk->program->is_host) {
        return add_host_parts(walk, line, is_first);
    }
    return RS_OK;
}

static enum rs_status add_op(struct rank_walk *walk, struct line *line)
{
    struct graph *graph = walk->graph;
    const uint32_t before = lane_before(walk, line->lane, line->start);
    const uint32_t input = line->on_host ? walk->host : input_of(walk, line->start);
    if (graph_node(graph, line->start, line->step, &line->first_node) != RS_OK ||
        graph_node(graph, line->end, line->step, &line->end_node) != RS_OK ||
        after(graph, line->launch_node, line->first_node) != RS_OK ||
        after(graph, before, line->first_node) != RS_OK ||
        after(graph, line->first_node, line->end_node) != RS_OK ||
        after(graph, input, line->first_node) != RS_OK ||
        add_issue(walk, line, later_of(graph, before, input), line->first_node) != RS_OK) {
        return RS_NOMEM;
    }
    set_lane_end(walk, line->lane, line->start, line->end_node,
                 line->on_host ? GRAPH_NONE : line->first_node);
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

static bool is_meant(const struct rank_walk *walk, const struct line *wait, size_t lane)
{
    return wait->is_all || walk->program->is_host || wait->lane == lane;
}

/* A wait for an event covers only what was launched before that was recorded: of a stream that goes on beyond it, it is behind some older
 * row. FSDP lets its host run two layers ahead of the device this way. Which row: the one that ended last while the host stood
 * there, right before it went on. GRAPH_NONE: none did. */
static uint32_t event_of(const struct rank_walk *walk, const struct line *wait)
{
    const struct graph *graph = walk->graph;
    const struct line *first = walk->program->lines;
    uint32_t found = GRAPH_NONE;
    for (const struct line *line = wait; line > first && wait - line < EVENT_ROWS;) {
        line--;
        if ((line->what != LINE_SPAN && line->what != LINE_OP) || line->on_host ||
            line->end_node == GRAPH_NONE || !is_meant(walk, wait, line->lane) ||
            line->end <= wait->start || line->end > wait->end + graph->tolerance ||
            wait->end - line->end > right_after_ns) {
            continue;
        }
        found = later_of(graph, found, line->end_node);
    }
    return found;
}

static enum rs_status add_wait(struct rank_walk *walk, struct line *line)
{
    struct graph *graph = walk->graph;
    bool goes_beyond = false;
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
        const uint32_t newest = walk->lane_end[lane];
        if (!is_meant(walk, line, lane)) {
            continue;
        }
        if (after(graph, newest, line->end_node) != RS_OK) {
            return RS_NOMEM;
        }
        goes_beyond |= newest != GRAPH_NONE && graph->seen[newest] > line->end + graph->tolerance;
    }
    walk->host = line->end_node;
    return goes_beyond && !walk->program->is_host
               ? after(graph, event_of(walk, line), line->end_node)
               : RS_OK;
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
    case LINE_LOST:
        return graph_node(walk->graph, line->end, line->step, &line->end_node);
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

enum rs_status edges_of_rank(struct builder *builder, struct program *program)
{
    struct rank_walk walk = {.builder = builder,
                             .graph = &builder->model->graph,
                             .program = program,
                             .host = GRAPH_NONE};
    for (size_t i = 0; i < RECENT_SPANS; i++) {
        walk.spans[i] = GRAPH_NONE;
    }
    builder->model->workers[program->worker].has_device = !program->is_host;
    walk.lane_end = rs_mem_calloc(3 * program->lane_count + 3, sizeof *walk.lane_end);
    walk.lane_older = walk.lane_end != NULL ? walk.lane_end + program->lane_count + 1 : NULL;
    walk.lane_op = walk.lane_end != NULL ? walk.lane_older + program->lane_count + 1 : NULL;
    walk.step_rows =
        rs_mem_calloc(builder->model->step_count + 1, sizeof(const struct rs_step_row *));
    walk.slot_base = rs_mem_calloc(builder->model->step_count + 1, sizeof *walk.slot_base);
    walk.lane_computes = rs_mem_calloc(program->lane_count + 1, 1);
    const bool has_room = walk.lane_end != NULL && walk.step_rows != NULL &&
                          walk.slot_base != NULL && walk.lane_computes != NULL;
    if (has_room) {
        find_step_rows(&walk);
        find_slot_bases(&walk);
        find_computing_lanes(&walk);
    }
    enum rs_status status =
        !has_room ? RS_NOMEM
                  : graph_node(walk.graph, start_of(builder, program), GRAPH_NONE, &walk.start);
    for (size_t lane = 0; status == RS_OK && lane < program->lane_count; lane++) {
        walk.lane_end[lane] = walk.lane_older[lane] = walk.lane_op[lane] = GRAPH_NONE;
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
    rs_mem_free(walk.slot_base);
    rs_mem_free(walk.lane_computes);
    return status;
}
