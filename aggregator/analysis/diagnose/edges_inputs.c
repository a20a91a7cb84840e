/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What work on a stream waits for on another one of its rank. Streams are put in order by events, and recordings say that a stream waits, not
 * for what: FSDP copies the shards that it gathers next on a stream of their own, when the computing launched before has come so far.
 *
 *     computing   [---- span ----]          launched before
 *     copies           (launched) [span]    begins when that ends, though its stream is free: an input
 *
 * An event covers what was launched before it was recorded, so the input is among the newest spans of other streams launched before.
 * Inferred as outputs are (edges_outputs.c): at a place of the program, of which no step on no rank of the class begins before the end
 * refutes it, and which begins right at the end in most of the cases that the stream and the launch do not explain. Where launches are not known, the
 * host may be what it waited for, and nothing is inferred.
 */
#include "aggregator/analysis/diagnose/build.h"
#include "common/base/mem.h"

/* Where there are more lanes, which one comes next says nothing of the program. */
enum { INPUT_LANES_MAX = 64 };
/* A program so long is not asked for inputs: 12 bytes each. */
enum { INPUTS_MAX = 1 << 22 };
/* Newest spans of other streams that are looked at. */
enum { CANDIDATES = 4 };
static const rs_dur right_after_ns = (rs_dur)DIAG_INPUT_AFTER_NS;

/* A place of the program and one candidate. */
struct input {
    uint32_t open;  /* cases that nothing else explains */
    uint32_t tight; /* of them those that begin at its end */
    bool is_refuted;
};

struct inputs {
    struct input *items; /* [slot][lane][candidate] */
    size_t slots, lanes;
};

/* Newest first: the spans that were launched before, of a lane each. */
struct newest {
    const struct line *spans[CANDIDATES + 1];
    size_t count;
};

static void newest_add(struct newest *newest, const struct line *line)
{
    size_t at = 0; /* what was there of this lane goes: it is before the new one anyway */
    while (at < newest->count && newest->spans[at]->lane != line->lane) {
        at++;
    }
    if (at == newest->count && newest->count < CANDIDATES + 1) {
        newest->count++;
    } else if (at == newest->count) {
        at--;
    }
    for (; at > 0; at--) {
        newest->spans[at] = newest->spans[at - 1];
    }
    newest->spans[0] = line;
}

static bool is_span(const struct line *line)
{
    return line->what == LINE_SPAN && !line->on_host && line->end_node != GRAPH_NONE;
}

static struct input *input_at(const struct inputs *inputs, const struct line *line, size_t k)
{
    return &inputs->items[(line->slot * inputs->lanes + line->lane) * CANDIDATES + k];
}

static void look_at(const struct inputs *inputs, const struct line *line, rs_ns lane_free, size_t k,
                    const struct line *candidate)
{
    struct input *input = input_at(inputs, line, k);
    const rs_ns own = line->has_launch && line->launch > lane_free ? line->launch : lane_free;
    const bool is_open = line->has_launch && line->start > own + right_after_ns;
    input->is_refuted |= line->start < candidate->end;
    input->open += is_open;
    input->tight +=
        is_open && line->start >= candidate->end && line->start <= candidate->end + right_after_ns;
}

static bool holds(const struct input *input)
{
    return !input->is_refuted && input->tight >= DIAG_INPUT_CASES && 2 * input->tight > input->open;
}

/* One pass over a program: what speaks for and against, or the edges. */
static enum rs_status walk_spans(struct graph *graph, const struct program *program,
                                 const struct inputs *inputs, rs_ns *lane_free, bool links)
{
    struct newest newest = {.count = 0};
    enum rs_status status = RS_OK;
    for (size_t lane = 0; lane < inputs->lanes; lane++) {
        lane_free[lane] = RS_NS_MIN;
    }
    for (size_t i = 0; i < program->count && status == RS_OK; i++) {
        const struct line *line = &program->lines[i];
        const bool is_usual = program->step_signatures[line->step] == program->signature;
        size_t k = 0;
        for (size_t n = 0; is_span(line) && is_usual && n < newest.count && k < CANDIDATES; n++) {
            const struct line *candidate = newest.spans[n];
            if (candidate->lane == line->lane) {
                continue;
            }
            if (!links) {
                look_at(inputs, line, lane_free[line->lane], k, candidate);
            } else if (holds(input_at(inputs, line, k))) {
                status = graph_edge(graph, candidate->end_node, line->work_node);
                break;
            }
            k++;
        }
        if (is_span(line) && !line->is_copy) {
            newest_add(&newest, line);
        }
        if (line->what == LINE_SPAN || line->what == LINE_OP) {
            lane_free[line->lane] =
                line->end > lane_free[line->lane] ? line->end : lane_free[line->lane];
        }
    }
    return status;
}

static bool is_of_class(const struct builder *builder, size_t worker, uint32_t class_id)
{
    return builder->model->workers[worker].class_id == class_id &&
           !builder->programs[worker].is_host;
}

static size_t most_slots(const struct builder *builder, uint32_t class_id)
{
    size_t slots = 0;
    for (size_t w = 0; w < builder->model->worker_count; w++) {
        const struct program *program = &builder->programs[w];
        for (size_t i = 0; is_of_class(builder, w, class_id) && i < program->count; i++) {
            slots = program->lines[i].slot >= slots ? program->lines[i].slot + 1U : slots;
        }
    }
    return slots;
}

static enum rs_status class_inputs(struct builder *builder, uint32_t class_id, rs_ns *lane_free)
{
    struct inputs inputs = {.slots = most_slots(builder, class_id), .lanes = builder->most_lanes};
    const size_t workers = builder->model->worker_count;
    const size_t places = inputs.slots * inputs.lanes * CANDIDATES;
    enum rs_status status = RS_OK;
    if (places == 0 || places > INPUTS_MAX) {
        return RS_OK;
    }
    inputs.items = rs_mem_calloc(places, sizeof *inputs.items);
    if (inputs.items == NULL) {
        return RS_NOMEM;
    }
    for (int links = 0; links < 2; links++) {
        for (size_t w = 0; status == RS_OK && w < workers; w++) {
            if (is_of_class(builder, w, class_id)) {
                status = walk_spans(&builder->model->graph, &builder->programs[w], &inputs,
                                    lane_free, links != 0);
            }
        }
    }
    rs_mem_free(inputs.items);
    return status;
}

enum rs_status edges_of_inputs(struct builder *builder)
{
    if (builder->most_lanes < 2 || builder->most_lanes > INPUT_LANES_MAX) {
        return RS_OK;
    }
    rs_ns *lane_free = rs_mem_calloc(builder->most_lanes, sizeof *lane_free);
    enum rs_status status = lane_free != NULL ? RS_OK : RS_NOMEM;
    for (uint32_t c = 0; status == RS_OK && c < builder->model->class_count; c++) {
        status = class_inputs(builder, c, lane_free);
    }
    rs_mem_free(lane_free);
    return status;
}
