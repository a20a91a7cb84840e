/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who caused the waiting, conserved.
 *
 * Lateness of a node = t(observed) - t(all fixed) >= 0, split over causes: the split of the predecessor that came
 * last, scaled by what slack leaves of it, plus the node's own excess under its cause. The parts of a node
 * add up to its lateness. For a wait: by design = the wait when all is fixed; the rest of it, if positive, goes to
 * the causes in proportion to max(0, part(meeting) - part(own start)), else to `absorbed`.
 *
 * One vector per node; causes are the findings and what is not worth fixing, at most CAUSES_MAX.
 */
#include "aggregator/analysis/diagnose/diagnose_priv.h"
#include "common/base/mem.h"

#include <math.h>
#include <string.h>

enum { CAUSES_MAX = 16 };

struct blamer {
    const struct diag_model *model;
    const struct diag_effects *effects;
    const struct diag_verdict *verdict;
    struct diag_blame *blame;
    size_t causes;
    rs_dur *work; /* all fixed */
    rs_ns *seen, *fixed;
    uint8_t *cause;     /* [node] who changed its work: cause + 1; 0 nobody */
    float *parts;       /* [node][causes] */
    uint8_t *is_member; /* [cause][worker] */
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
    for (size_t c = 0; c < blamer->causes; c++) {
        memcpy(before, blamer->work, nodes * sizeof *before);
        apply_set(blamer, &blamer->verdict->sets[c], blamer->work);
        for (size_t n = 0; n < nodes; n++) {
            if (blamer->work[n] != before[n] && blamer->cause[n] == 0) {
                blamer->cause[n] = (uint8_t)(c + 1);
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
    if (excess > 0 && blamer->cause[n] > 0) {
        own[blamer->cause[n] - 1] += (float)excess;
    }
}

static void note_members(struct blamer *blamer)
{
    const struct diag_model *model = blamer->model;
    for (size_t c = 0; c < blamer->causes; c++) {
        const struct diag_set *set = &blamer->verdict->sets[c];
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

static void split_wait(const struct blamer *blamer, const struct diag_wait *wait, double *caused,
                       double *indirect)
{
    struct diag_blame *blame = blamer->blame;
    const rs_dur seen = blamer->seen[wait->meeting] - blamer->seen[wait->start];
    const rs_dur design = blamer->fixed[wait->meeting] - blamer->fixed[wait->start];
    const rs_dur own = seen > 0 ? seen : 0, planned = design > 0 ? design : 0;
    if (blame->total > WAITING_MOST - own || blame->by_design > WAITING_MOST - planned) {
        blame->is_known = false; /* instants of a damaged recording may lie centuries apart */
        return;
    }
    blame->total += own;
    blame->by_design += planned;
    const float *meeting = &blamer->parts[(size_t)wait->meeting * blamer->causes];
    const float *start = &blamer->parts[(size_t)wait->start * blamer->causes];
    double sum = 0;
    for (size_t c = 0; c < blamer->causes; c++) {
        sum += fmax(0, (double)meeting[c] - (double)start[c]);
    }
    if (own <= planned || sum <= 0) {
        return;
    }
    for (size_t c = 0; c < blamer->causes; c++) {
        const double part =
            fmax(0, (double)meeting[c] - (double)start[c]) / sum * (double)(own - planned);
        const bool is_direct = wait->last != GRAPH_NONE &&
                               blamer->is_member[c * blamer->model->worker_count + wait->last] != 0;
        caused[c] += part;
        indirect[c] += is_direct || wait->last == GRAPH_NONE ? 0 : part;
    }
}

static void split_all(const struct blamer *blamer)
{
    const struct graph *graph = &blamer->model->graph;
    double caused[CAUSES_MAX] = {0}, indirect[CAUSES_MAX] = {0};
    for (size_t i = 0; i < graph->count; i++) {
        split_node(blamer, graph->order[i]);
    }
    for (size_t i = 0; i < blamer->model->wait_count; i++) {
        split_wait(blamer, &blamer->model->waits[i], caused, indirect);
    }
    rs_dur all = 0;
    for (size_t c = 0; c < blamer->causes; c++) {
        blamer->blame->caused[c] = (rs_dur)llround(caused[c]);
        blamer->blame->indirect[c] = (rs_dur)llround(indirect[c]);
        all += blamer->blame->caused[c];
    }
    /* What rounding leaves goes where nobody is accused. */
    blamer->blame->absorbed = blamer->blame->total - blamer->blame->by_design - all;
}

enum rs_status diag_blame_waits(const struct diag_model *model, const struct diag_effects *effects,
                                const struct diag_verdict *verdict, struct diag_blame *blame)
{
    const size_t nodes = model->graph.count + 1;
    struct blamer blamer = {.model = model,
                            .effects = effects,
                            .verdict = verdict,
                            .blame = blame,
                            .causes = verdict->count < CAUSES_MAX ? verdict->count : CAUSES_MAX};
    *blame = (struct diag_blame){.is_known = model->waits_are_known};
    blamer.work = rs_mem_calloc(nodes, sizeof *blamer.work);
    blamer.seen = rs_mem_calloc(nodes, sizeof *blamer.seen);
    blamer.fixed = rs_mem_calloc(nodes, sizeof *blamer.fixed);
    blamer.cause = rs_mem_calloc(nodes, 1);
    blamer.parts = rs_mem_calloc(nodes * blamer.causes + 1, sizeof *blamer.parts);
    blamer.is_member = rs_mem_calloc(blamer.causes * model->worker_count + 1, 1);
    blame->caused = rs_mem_calloc(verdict->count + 1, sizeof *blame->caused);
    blame->indirect = rs_mem_calloc(verdict->count + 1, sizeof *blame->indirect);
    enum rs_status status = blamer.work == NULL || blamer.seen == NULL || blamer.fixed == NULL ||
                                    blamer.cause == NULL || blamer.parts == NULL ||
                                    blamer.is_member == NULL || blame->caused == NULL ||
                                    blame->indirect == NULL
                                ? RS_NOMEM
                                : RS_OK;
    if (status == RS_OK) {
        memcpy(blamer.work, model->graph.work, model->graph.count * sizeof *blamer.work);
        status = fix_all(&blamer);
    }
    if (status == RS_OK) {
        note_members(&blamer);
        split_all(&blamer);
    }
    rs_mem_free(blamer.work);
    rs_mem_free(blamer.seen);
    rs_mem_free(blamer.fixed);
    rs_mem_free(blamer.cause);
    rs_mem_free(blamer.parts);
    rs_mem_free(blamer.is_member);
    if (status != RS_OK) {
        rs_mem_free(blame->caused);
        rs_mem_free(blame->indirect);
        *blame = (struct diag_blame){0};
    }
    return status;
}
