/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Outputs, by refutation: who depends on an operation is the first later row at a place of the program that in no step and on no
 * rank of the class starts before the operation's end. One counterexample refutes. Two passes over each class: what
 * refutes, then the edges that are left.
 */
#include "aggregator/analysis/diagnose/build.h"
#include "common/base/mem.h"

#include <string.h>

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
        count += line_counts(&program->lines[i]);
    }
    return count;
}

static rs_ns ready_of(const struct line *line)
{
    return line->what == LINE_GAP || line->is_early ? line->end : line->start;
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
                     : line->what != LINE_WAIT && line->what != LINE_LOST;
}

static struct target target_of(const struct line *line, size_t face)
{
    return face == 1 ? (struct target){line->launch, line->launch_node}
                     : (struct target){ready_of(line), line->what == LINE_OP     ? line->first_node
                                                       : line->what == LINE_SPAN ? line->work_node
                                                                                 : line->end_node};
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
    return (line->slot + (line->what == LINE_SPAN ? outputs->ops : 0)) * outputs->lanes;
}

/* Lanes that something may depend on the source on: for an operation all others of the program, and for all the host's. */
static bool is_open(const struct program *program, const struct line *source, size_t lane,
                    size_t lanes)
{
    return lane + 1 == lanes ? program->has_launches && !program->has_waits && !program->is_host
                             : (source->what == LINE_OP || source->what == LINE_LOST) &&
                                   lane < program->lane_count && lane != source->lane;
}

static uint32_t slot_from(const struct outputs *outputs, const struct line *source,
                          const struct line *line)
{
    return line->slot + (line->step > source->step ? (uint32_t)outputs->ops : 0) + 1;
}

/* Where rows were lost, work is not cut where it should be, and what begins behind an operation seems to have begun before it: of a lane
 * on which that may be so before `found`, nothing is refuted. */
static bool is_unsure(const struct reach *reach, const struct program *program, size_t lane,
                      const struct line *op, size_t found)
{
    for (size_t i = reach->next[lane]; i <= found && i < reach->first[lane + 1]; i++) {
        if (program->lines[reach->line[i]].is_astray) {
            return true;
        }
    }
    const struct line *before =
        found > reach->first[lane] ? &program->lines[reach->line[found - 1]] : NULL;
    return op->is_astray || (before != NULL && before->is_parted && before->start < op->end &&
                             op->end < before->end);
}

/* Looks on from an operation to the end of the next step: per lane the first row that is ready behind its end.
 * The latest of these places, over all steps and ranks, is the first that no step refutes. */
static void refute_one(const struct program *program, size_t at, struct reach *reach,
                       struct outputs *outputs, bool has_lost_rows)
{
    const struct line *op = &program->lines[at];
    for (size_t lane = 0; lane < outputs->lanes; lane++) {
        if (!is_open(program, op, lane, outputs->lanes)) {
            continue;
        }
        const size_t found = reach_find(reach, program, lane, at, op->end);
        if (found == reach->first[lane + 1] ||
            (has_lost_rows && is_unsure(reach, program, lane, op, found))) {
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

/* One pass over a program: what refutes, or the edges that are left. */
static enum rs_status walk_sources(struct builder *builder, const struct program *program,
                                   struct outputs *outputs, uint64_t signature, bool links)
{
    struct reach reach;
    enum rs_status status = reach_init(program, outputs->lanes, &reach);
    if (status != RS_OK) {
        return status;
    }
    for (size_t i = 0; status == RS_OK && i < program->count; i++) {
        const struct line *line = &program->lines[i];
        const bool is_source = line_counts(line) || (line->what == LINE_SPAN &&
                                                     !program->has_waits && !program->is_host);
        if (!is_source || (line->what == LINE_LOST && !links) ||
            program->step_signatures[line->step] != signature) {
            continue;
        }
        if (links) {
            status = link_one(&builder->model->graph, program, i, &reach, outputs);
        } else {
            refute_one(program, i, &reach, outputs, builder->model->has_lost_rows);
        }
    }
    reach_fini(&reach);
    return status;
}

/* Of its steps with this signature. */
static enum rs_status class_outputs(struct builder *builder, uint32_t class_id, uint64_t signature)
{
    const struct diag_model *model = builder->model;
    struct outputs outputs = {.lanes = builder->most_lanes + 1};
    enum rs_status status = RS_OK;
    for (size_t w = 0; w < model->worker_count; w++) {
        const struct program *program = &builder->programs[w];
        for (size_t k = 0; k < model->step_count && model->workers[w].class_id == class_id; k++) {
            const size_t ops =
                program->step_signatures[k] == signature ? ops_of_step(program, k) : 0;
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
            status = walk_sources(builder, &builder->programs[w], &outputs, signature,
                                  i >= model->worker_count);
        }
    }
    rs_mem_free(outputs.slot);
    return status;
}

enum rs_status edges_of_outputs(struct builder *builder)
{
    const size_t classes =
        builder->most_lanes <= OUTPUT_LANES_MAX ? builder->model->class_count : 0;
    enum rs_status status = RS_OK;
    for (size_t i = 0; status == RS_OK && i < classes * BUILD_VARIANTS; i++) {
        if (builder->variants[i] != 0) {
            status = class_outputs(builder, (uint32_t)(i / BUILD_VARIANTS), builder->variants[i]);
        }
    }
    return status;
}
