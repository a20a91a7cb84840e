/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What work on a stream waits for on another one of its rank. Streams are put in order by events, and recordings say that a stream waits, not
 * for what: FSDP copies the shards that it gathers next on a stream of their own, when the computing launched before has come so far.
 *
 *     computing   [---- span ----]          launched before
 *     copies           (launched) [span]    begins when that ends, though its stream is free: an input
 *
 * An event covers what was launched before it was recorded, so the input is among the newest spans of other streams launched before.
 * The host finds such waits, too. It synchronises with one stream, and returns when all has ended that the stream waits for, though
 * nothing was launched on that stream since (a barrier of torch.distributed does this at the end of each step):
 *
 *     computing   [-- span --]   waits for the barrier
 *     barrier                 (launched) [-- operation --]
 *     host                               [synchronises with computing ]     ends when the operation does: an input, too
 *
 * Inferred as outputs are (edges_outputs.c): at a place of the program, where no step on no rank of the class begins before the end, which
 * would refute it, and where most of the cases that the stream and the launch do not explain begin right at the end of one of those that
 * are not refuted. Where launches are not known, the host may be what it waited for, and nothing is inferred.
 */
#include "aggregator/analysis/diagnose/build.h"
#include "common/base/mem.h"

/* Where there are more lanes, which one comes next says nothing of the program. */
enum { INPUT_LANES_MAX = 64 };
/* A program with more places and candidates, 12 bytes each, is not asked for inputs. */
enum { INPUTS_MAX = 1 << 23 };
/* Newest rows of other streams that are looked at. */
enum { CANDIDATES = 4 };
static const rs_dur right_after_ns = (rs_dur)DIAG_INPUT_AFTER_NS;

/* Who may have an input. */
enum inputs_face { OF_SPAN, OF_WAIT, INPUT_FACES };

/* A place of the program and one candidate. */
struct input {
    uint32_t open;  /* cases that nothing else explains */
    uint32_t tight; /* of them those that begin at its end, and at no later one */
    bool is_refuted;
};

struct inputs {
    struct input *items; /* [slot][lane][face][candidate] */
    size_t slots, lanes;
};

/* Newest first: the rows that were launched before, of a lane each. */
struct newest {
    const struct line *rows[CANDIDATES + 1];
    size_t count;
};

static void newest_add(struct newest *newest, const struct line *line)
{
    size_t at = 0; /* what was there of this lane goes: it is before the new one anyway */
    while (at < newest->count && newest->rows[at]->lane != line->lane) {
        at++;
    }
    if (at == newest->count && newest->count < CANDIDATES + 1) {
        newest->count++;
    } else if (at == newest->count) {
        at--;
    }
    for (; at > 0; at--) {
        newest->rows[at] = newest->rows[at - 1];
    }
    newest->rows[0] = line;
}

static bool is_span(const struct line *line)
{
    return line->what == LINE_SPAN && !line->on_host && line->end_node != GRAPH_NONE;
}

static bool is_operation(const struct line *line)
{
    return line->what == LINE_OP && !line->on_host && line->end_node != GRAPH_NONE;
}

/* A wait for all streams has them for inputs anyway. */
static bool is_wait_for_one(const struct program *program, const struct line *line)
{
    return line->what == LINE_WAIT && !line->is_all && !program->is_host &&
           line->end_node != GRAPH_NONE;
}

/* Its candidates, newest first. */
static struct input *place_of(const struct inputs *inputs, const struct line *line,
                              enum inputs_face face)
{
    const size_t row = (line->slot * inputs->lanes + line->lane) * INPUT_FACES + face;
    return &inputs->items[row * CANDIDATES];
}

/* A row that may have an input. */
struct waiting {
    rs_ns own;   /* when it would have been ready for all that is known; RS_NS_MAX: nothing is */
    rs_ns ready; /* when it was */
    rs_dur late; /* by how much at most that was noted too early */
};

static bool is_tight(const struct waiting *waiting, const struct line *candidate)
{
    return waiting->ready + waiting->late >= candidate->end &&
           waiting->ready <= candidate->end + right_after_ns;
}

/* `is_last`: of those that the row begins right behind it ended last, so that each case speaks for one of them. */
static void look_at(struct input *input, const struct waiting *waiting,
                    const struct line *candidate, bool is_last)
{
    const bool is_open =
        waiting->own != RS_NS_MAX && waiting->ready > waiting->own + right_after_ns;
    input->is_refuted |= waiting->ready + waiting->late < candidate->end;
    input->open += is_open;
    input->tight += is_open && is_last;
}

/* Of the cases that nothing else explains at a place, most are explained by its candidates: now one ends last, now another. */
static bool are_explained(const struct input *place)
{
    uint32_t open = 0, tight = 0;
    for (size_t k = 0; k < CANDIDATES; k++) {
        open = place[k].open > open ? place[k].open : open;
        tight += place[k].is_refuted ? 0 : place[k].tight;
    }
    return 2 * tight > open;
}

static bool holds(const struct input *input)
{
    return !input->is_refuted && input->tight >= DIAG_INPUT_CASES;
}

struct walk {
    struct graph *graph;
    const struct inputs *inputs;
    rs_ns *lane_free;   /* [lane] */
    uint64_t signature; /* of the steps that are looked at */
    bool links;         /* the edges; else what speaks for and against them */
};

/* Of the candidates those of other lanes, newest first. */
static size_t others_of(const struct newest *newest, const struct line *line,
                        const struct line *others[CANDIDATES])
{
    size_t count = 0;
    for (size_t n = 0; n < newest->count && count < CANDIDATES; n++) {
        if (newest->rows[n]->lane != line->lane) {
            others[count++] = newest->rows[n];
        }
    }
    return count;
}

/* One row and those that it may have waited for: what speaks for and against. */
static void look_back(const struct walk *walk, const struct line *line, enum inputs_face face,
                      const struct newest *newest)
{
    const rs_ns since = face == OF_WAIT ? line->start : line->has_launch ? line->launch : RS_NS_MAX;
    const rs_ns lane_free = walk->lane_free[line->lane];
    const struct waiting waiting = {.own = since > lane_free ? since : lane_free,
                                    .ready = face == OF_WAIT ? line->end : line->start,
                                    .late = face == OF_WAIT ? walk->graph->tolerance : 0};
    const struct line *others[CANDIDATES], *last = NULL;
    const size_t count = others_of(newest, line, others);
    for (size_t k = 0; k < count; k++) {
        if (is_tight(&waiting, others[k]) && (last == NULL || others[k]->end > last->end)) {
            last = others[k];
        }
    }
    struct input *place = place_of(walk->inputs, line, face);
    for (size_t k = 0; k < count; k++) {
        look_at(&place[k], &waiting, others[k], others[k] == last);
    }
}

static enum rs_status link_back(const struct walk *walk, const struct line *line,
                                enum inputs_face face, const struct newest *newest)
{
    const struct line *others[CANDIDATES];
    const size_t count = others_of(newest, line, others);
    const struct input *place = place_of(walk->inputs, line, face);
    const uint32_t node = face == OF_WAIT ? line->end_node : line->work_node;
    enum rs_status status = RS_OK;
    for (size_t k = 0; k < count && status == RS_OK && are_explained(place); k++) {
        if (holds(&place[k])) {
            status = graph_edge(walk->graph, others[k]->end_node, node);
        }
    }
    return status;
}

static enum rs_status look_or_link(const struct walk *walk, const struct line *line,
                                   enum inputs_face face, const struct newest *newest)
{
    if (walk->links) {
        return link_back(walk, line, face, newest);
    }
    look_back(walk, line, face, newest);
    return RS_OK;
}

static enum rs_status walk_rows(const struct walk *walk, const struct program *program)
{
    struct newest spans = {.count = 0}, rows = {.count = 0};
    enum rs_status status = RS_OK;
    for (size_t lane = 0; lane < walk->inputs->lanes; lane++) {
        walk->lane_free[lane] = RS_NS_MIN;
    }
    for (size_t i = 0; i < program->count && status == RS_OK; i++) {
        const struct line *line = &program->lines[i];
        const bool is_asked = program->step_signatures[line->step] == walk->signature;
        if (is_asked && is_span(line) && !line->is_early) {
            status = look_or_link(walk, line, OF_SPAN, &spans);
        } else if (is_asked && is_wait_for_one(program, line)) {
            status = look_or_link(walk, line, OF_WAIT, &rows);
        }
        if (is_span(line) && !line->is_copy) {
            newest_add(&spans, line);
        }
        if (is_span(line) || is_operation(line)) {
            newest_add(&rows, line);
        }
        if (line->what == LINE_SPAN || line->what == LINE_OP) {
            walk->lane_free[line->lane] =
                line->end > walk->lane_free[line->lane] ? line->end : walk->lane_free[line->lane];
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

static enum rs_status walk_class(const struct builder *builder, uint32_t class_id,
                                 const struct walk *walk)
{
    enum rs_status status = RS_OK;
    for (size_t w = 0; status == RS_OK && w < builder->model->worker_count; w++) {
        if (is_of_class(builder, w, class_id)) {
            status = walk_rows(walk, &builder->programs[w]);
        }
    }
    return status;
}

/* `walk`: with room for the lanes. */
static enum rs_status class_inputs(const struct builder *builder, uint32_t class_id,
                                   struct walk *walk)
{
    struct inputs inputs = {.slots = most_slots(builder, class_id), .lanes = builder->most_lanes};
    const size_t places = inputs.slots * inputs.lanes * INPUT_FACES * CANDIDATES;
    if (places == 0 || places > INPUTS_MAX) {
        return RS_OK;
    }
    inputs.items = rs_mem_calloc(places, sizeof *inputs.items);
    if (inputs.items == NULL) {
        return RS_NOMEM;
    }
    walk->inputs = &inputs;
    walk->links = false;
    enum rs_status status = walk_class(builder, class_id, walk);
    if (status == RS_OK) {
        walk->links = true;
        status = walk_class(builder, class_id, walk);
    }
    walk->inputs = NULL;
    rs_mem_free(inputs.items);
    return status;
}

enum rs_status edges_of_inputs(struct builder *builder)
{
    if (builder->most_lanes < 2 || builder->most_lanes > INPUT_LANES_MAX) {
        return RS_OK;
    }
    struct walk walk = {.graph = &builder->model->graph};
    walk.lane_free = rs_mem_calloc(builder->most_lanes, sizeof *walk.lane_free);
    enum rs_status status = walk.lane_free != NULL ? RS_OK : RS_NOMEM;
    for (size_t i = 0; status == RS_OK && i < builder->model->class_count * BUILD_VARIANTS; i++) {
        walk.signature = builder->variants[i];
        if (walk.signature != 0) {
            status = class_inputs(builder, (uint32_t)(i / BUILD_VARIANTS), &walk);
        }
    }
    rs_mem_free(walk.lane_free);
    return status;
}
