/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who caused the waiting, conserved.
 *
 * Lateness of a node = t(observed) - t(all fixed) >= 0, split over causes: the split of the predecessor that came
 * last, scaled by what slack leaves of it, plus the node's own excess under its cause. The parts of a node
 * add up to its lateness. For a wait: by design = the wait when all is fixed; the rest of it, if positive, goes to
 * the causes in proportion to max(0, part(meeting) - part(own start)), else to `absorbed`.
 *
 * Causes are the findings and what is not worth fixing. A node's parts are those of CAUSES_AT_ONCE of them, a batch: parts of one cause
 * depend on nothing but its own, so that batches are gone through one by one, twice where there are several (a wait is divided by the sum
 * over all causes, which is known after the first time).
 */
#include "aggregator/analysis/diagnose/diagnose_priv.h"
#include "common/base/mem.h"

#include <math.h>
#include <string.h>

enum { CAUSES_AT_ONCE = 16 };

struct blamer {
    const struct diag_model *model;
    const struct diag_effects *effects;
    const struct diag_verdict *verdict;
    struct diag_blame *blame;
    size_t first, causes; /* of the batch */
    rs_dur *work;         /* all fixed */
    rs_ns *seen, *fixed;
    uint32_t *cause;    /* [node] who changed its work: cause + 1; 0 nobody */
    float *parts;       /* [node][causes] */
    uint8_t *is_member; /* [cause of the batch][worker] */
    double *sums;       /* [wait] what all causes together have in it */
};

static void apply_set(const struct blamer *blamer, const struct diag_set *set, rs_dur *work)
{
    for (size_t i = 0; i < set->count; i++) {
        diag_apply(blamer->model, &blamer->effects->elements[set->members[i]], 0, work);
    }
    if (set->is_spread) {
        diag_apply(blamer->model, &blamer->effects->spread, 0, work);
    }
    if (set->is_heavier) {
        diag_apply(blamer->model, &blamer->effects->heavier, 0, work);
    }
    if (set->is_loaded) {
        diag_apply(blamer->model, &blamer->effects->loaded, 0, work);
    }
    if (set->is_jitter) {
        diag_apply(blamer->model, &blamer->effects->jitter, 0, work);
    }
}

/* Nodes that two causes change belong to the first. */
static enum rs_status fix_all(struct blamer *blamer)
{
    const size_t nodes = blamer->model->graph.count;
    rs_dur *before = rs_mem_calloc(nodes + 1, sizeof *before);
    if (before == NULL) {
        return RS_NOMEM;
    }
    for (size_t c = 0; c < blamer->verdict->count; c++) {
        memcpy(before, blamer->work, nodes * sizeof *before);
        apply_set(blamer, &blamer->verdict->sets[c], blamer->work);
        for (size_t n = 0; n < nodes; n++) {
            if (blamer->work[n] != before[n] && blamer->cause[n] == 0) {
                blamer->cause[n] = (uint32_t)(c + 1);
            }
        }
    }
    rs_mem_free(before);
    graph_replay(&blamer->model->graph, NULL, blamer->seen);
    graph_replay(&blamer->model->graph, blamer->work, blamer->fixed);
    return RS_OK;
}

static void split_node(const struct blamer *blamer, uint32_t n)
{
    const struct graph *graph = &blamer->model->graph;
    float *own = &blamer->parts[(size_t)n * blamer->causes];
    uint32_t last = GRAPH_NONE;
    memset(own, 0, blamer->causes * sizeof *own);
    for (uint32_t i = graph->first[n]; i < graph->first[n + 1]; i++) {
        const uint32_t p = graph->preds[i];
        if (last == GRAPH_NONE || blamer->seen[p] > blamer->seen[last]) {
            last = p;
        }
    }
    const rs_dur excess = graph->work[n] - blamer->work[n];
    const rs_dur late = blamer->seen[n] - blamer->fixed[n];
    if (last != GRAPH_NONE) {
        const double inherited = (double)(late - excess);
        const double there = (double)(blamer->seen[last] - blamer->fixed[last]);
        const double scale = there > 0 && inherited > 0 ? inherited / there : 0;
        for (size_t c = 0; c < blamer->causes; c++) {
            own[c] = (float)(scale * (double)blamer->parts[(size_t)last * blamer->causes + c]);
        }
    }
    if (excess > 0 && blamer->cause[n] > blamer->first &&
        blamer->cause[n] <= blamer->first + blamer->causes) {
        own[blamer->cause[n] - 1 - blamer->first] += (float)excess;
    }
}

static void note_members(struct blamer *blamer)
{
    const struct diag_model *model = blamer->model;
    memset(blamer->is_member, 0, blamer->causes * model->worker_count);
    for (size_t c = 0; c < blamer->causes; c++) {
        const struct diag_set *set = &blamer->verdict->sets[blamer->first + c];
        uint8_t *member = &blamer->is_member[c * model->worker_count];
        for (size_t i = 0; i < set->count; i++) {
            const struct diag_element *element = &blamer->effects->elements[set->members[i]];
            for (size_t w = 0; w < model->worker_count; w++) {
                const struct diag_unit *unit =
                    element->what == DIAG_UNIT ? &model->units[element->id] : NULL;
                member[w] |=
                    ((element->what == DIAG_RANK || element->what == DIAG_HEAD ||
                      element->what == DIAG_IDLE) &&
                     element->id == w) ||
                    (element->what == DIAG_STAGE && model->workers[w].class_id == element->id) ||
                    (unit != NULL &&
                     (unit->a < 0 || unit->a == (int32_t)w || unit->b == (int32_t)w));
            }
        }
        if (set->count == 0) {
            memset(member, 1, model->worker_count);
        }
    }
}

/* 73 years: sums stay far from the end of what a number holds. */
#define WAITING_MOST (INT64_MAX / 4)

static rs_dur own_wait(const struct blamer *blamer, const struct diag_wait *wait)
{
    const rs_dur seen = blamer->seen[wait->meeting] - blamer->seen[wait->start];
    return seen > 0 ? seen : 0;
}

static rs_dur planned_wait(const struct blamer *blamer, const struct diag_wait *wait)
{
    const rs_dur design = blamer->fixed[wait->meeting] - blamer->fixed[wait->start];
    return design > 0 ? design : 0;
}

static void add_waits(const struct blamer *blamer)
{
    struct diag_blame *blame = blamer->blame;
    for (size_t i = 0; i < blamer->model->wait_count; i++) {
        const rs_dur own = own_wait(blamer, &blamer->model->waits[i]);
        const rs_dur planned = planned_wait(blamer, &blamer->model->waits[i]);
        if (blame->total > WAITING_MOST - own || blame->by_design > WAITING_MOST - planned) {
            blame->is_known = false; /* instants of a damaged recording may lie centuries apart */
            return;
        }
        blame->total += own;
        blame->by_design += planned;
    }
}

static double part_of(const struct blamer *blamer, const struct diag_wait *wait, size_t c)
{
    const float meeting = blamer->parts[(size_t)wait->meeting * blamer->causes + c];
    const float start = blamer->parts[(size_t)wait->start * blamer->causes + c];
    return fmax(0, (double)meeting - (double)start);
}

/* The batch's parts of every node, and what its causes have in every wait. */
static void split_nodes(const struct blamer *blamer)
{
    const struct graph *graph = &blamer->model->graph;
    for (size_t i = 0; i < graph->count; i++) {
        split_node(blamer, graph->order[i]);
    }
}

static void add_parts(const struct blamer *blamer)
{
    for (size_t i = 0; i < blamer->model->wait_count; i++) {
        for (size_t c = 0; c < blamer->causes; c++) {
            blamer->sums[i] += part_of(blamer, &blamer->model->waits[i], c);
        }
    }
}

static void split_waits(const struct blamer *blamer)
{
    double caused[CAUSES_AT_ONCE] = {0}, indirect[CAUSES_AT_ONCE] = {0};
    for (size_t i = 0; i < blamer->model->wait_count; i++) {
        const struct diag_wait *wait = &blamer->model->waits[i];
        const rs_dur rest = own_wait(blamer, wait) - planned_wait(blamer, wait);
        for (size_t c = 0; c < blamer->causes && rest > 0 && blamer->sums[i] > 0; c++) {
            const double part = part_of(blamer, wait, c) / blamer->sums[i] * (double)rest;
            const bool is_direct =
                wait->last == GRAPH_NONE ||
                blamer->is_member[c * blamer->model->worker_count + wait->last] != 0;
            caused[c] += part;
            indirect[c] += is_direct ? 0 : part;
        }
    }
    for (size_t c = 0; c < blamer->causes; c++) {
        blamer->blame->caused[blamer->first + c] = (rs_dur)llround(caused[c]);
        blamer->blame->indirect[blamer->first + c] = (rs_dur)llround(indirect[c]);
    }
}

static bool next_batch(struct blamer *blamer)
{
    const size_t all = blamer->verdict->count;
    blamer->first += blamer->causes;
    blamer->causes =
        all - blamer->first < CAUSES_AT_ONCE ? all - blamer->first : (size_t)CAUSES_AT_ONCE;
    return blamer->causes > 0;
}

static void split_all(struct blamer *blamer)
{
    const bool is_one_batch = blamer->verdict->count <= CAUSES_AT_ONCE;
    add_waits(blamer);
    while (next_batch(blamer)) {
        split_nodes(blamer);
        add_parts(blamer);
    }
    blamer->first = blamer->causes = 0;
    while (next_batch(blamer)) {
        if (!is_one_batch) {
            split_nodes(blamer);
        }
        note_members(blamer);
        split_waits(blamer);
    }
    rs_dur all = 0;
    for (size_t c = 0; c < blamer->verdict->count; c++) {
        all += blamer->blame->caused[c];
    }
    /* What rounding leaves goes where nobody is accused. */
    blamer->blame->absorbed = blamer->blame->total - blamer->blame->by_design - all;
}

enum rs_status diag_blame_waits(const struct diag_model *model, const struct diag_effects *effects,
                                const struct diag_verdict *verdict, struct diag_blame *blame)
{
    const size_t nodes = model->graph.count + 1;
    struct blamer blamer = {.model = model, .effects = effects, .verdict = verdict, .blame = blame};
    const size_t batch = verdict->count < CAUSES_AT_ONCE ? verdict->count : (size_t)CAUSES_AT_ONCE;
    *blame = (struct diag_blame){.is_known = model->waits_are_known};
    blamer.work = rs_mem_calloc(nodes, sizeof *blamer.work);
    blamer.seen = rs_mem_calloc(nodes, sizeof *blamer.seen);
    blamer.fixed = rs_mem_calloc(nodes, sizeof *blamer.fixed);
    blamer.cause = rs_mem_calloc(nodes, sizeof *blamer.cause);
    blamer.parts = rs_mem_calloc(nodes * batch + 1, sizeof *blamer.parts);
    blamer.is_member = rs_mem_calloc(batch * model->worker_count + 1, 1);
    blamer.sums = rs_mem_calloc(model->wait_count + 1, sizeof *blamer.sums);
    blame->caused = rs_mem_calloc(verdict->count + 1, sizeof *blame->caused);
    blame->indirect = rs_mem_calloc(verdict->count + 1, sizeof *blame->indirect);
    enum rs_status status = blamer.work == NULL || blamer.seen == NULL || blamer.fixed == NULL ||
                                    blamer.cause == NULL || blamer.parts == NULL ||
                                    blamer.is_member == NULL || blamer.sums == NULL ||
                                    blame->caused == NULL || blame->indirect == NULL
                                ? RS_NOMEM
                                : RS_OK;
    if (status == RS_OK) {
        memcpy(blamer.work, model->graph.work, model->graph.count * sizeof *blamer.work);
        status = fix_all(&blamer);
    }
    if (status == RS_OK) {
        split_all(&blamer);
    }
    rs_mem_free(blamer.work);
    rs_mem_free(blamer.seen);
    rs_mem_free(blamer.fixed);
    rs_mem_free(blamer.cause);
    rs_mem_free(blamer.parts);
    rs_mem_free(blamer.is_member);
    rs_mem_free(blamer.sums);
    if (status != RS_OK) {
        rs_mem_free(blame->caused);
        rs_mem_free(blame->indirect);
        *blame = (struct diag_blame){0};
    }
    return status;
}
