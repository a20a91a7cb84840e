/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who or what costs the job time? The questions are asked one after another; this file lays out the
 * figures they need, finds out who is whose peer, and sorts what was found by cost.
 *
 * Peers do the same work. Without a description of the job that is read off the operations: ranks whose
 * complete steps hold the same numbers of operations of each type, and begin point-to-point with the
 * same side (a first pipeline stage sends first, a last one receives first). A class of fewer than 2 ranks has
 * nobody to be compared with, and no opinion is given about it.
 *
 * When nothing stands out nobody is named: `no_finding_because` then gives the figures of those that came
 * closest.
 */
#include "aggregator/analysis/findings_priv.h"
#include "common/base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

double as_ms(rs_dur length)
{
    return (double)length / RS_NS_PER_MS;
}

double as_percent(double part, double whole)
{
    return whole > 0 ? 100.0 * part / whole : 0;
}

static enum rs_confidence confidence_of(const struct rs_analysis *out)
{
    bool is_partial = out->missing_count > 0;
    for (size_t s = 0; s < out->summary_count; s++) {
        is_partial = is_partial || out->summaries[s]->trace.is_partial || !out->ranks[s].takes_part;
    }
    return is_partial        ? RS_CONFIDENCE_PARTIAL
           : !out->one_clock ? RS_CONFIDENCE_BOUNDED
                             : RS_CONFIDENCE_EXACT;
}

enum rs_status verdict_add(struct verdicts *verdicts, enum rs_finding_kind kind,
                           struct rs_finding **finding_p)
{
    struct rs_analysis *out = verdicts->analysis;
    if (rs_mem_grow((void **)&out->findings, &verdicts->capacity, out->finding_count + 1,
                    sizeof *out->findings) != RS_OK) {
        return RS_NOMEM;
    }
    struct rs_finding *finding = &out->findings[out->finding_count++];
    *finding = (struct rs_finding){.kind = kind,
                                   .rank = -1,
                                   .src = -1,
                                   .dst = -1,
                                   .stage = -1,
                                   .confidence = confidence_of(out)};
    *finding_p = finding;
    return RS_OK;
}

enum rs_status verdict_say(struct rs_finding *finding, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (finding->evidence_count == RS_EVIDENCE_MAX) {
        return RS_OK;
    }
    char *sentence = rs_mem_strdup(text);
    if (sentence == NULL) {
        return RS_NOMEM;
    }
    finding->evidence[finding->evidence_count++] = sentence;
    return RS_OK;
}

/* ---- figures ------------------------------------------------------------------------- */

/* The row of a step: the first device that worked in it, else the first. NULL when partial or absent. */
static const struct rs_step_row *row_of(const struct rs_summary *summary, int64_t step)
{
    const struct rs_step_row *row = NULL;
    for (size_t i = 0; i < summary->step_count; i++) {
        const struct rs_step_row *candidate = &summary->steps[i];
        if (candidate->step != step) {
            continue;
        }
        if (candidate->is_partial) {
            return NULL;
        }
        if (row == NULL || (!row->has_work && candidate->has_work)) {
            row = candidate;
        }
    }
    return row;
}

static int compare_steps(const void *left, const void *right)
{
    const int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

size_t figures_step(const struct figures *figures, int64_t step)
{
    const struct figures *fg = figures;
    const int64_t *at = fg->step_count == 0
                            ? NULL
                            : bsearch(&step, fg->steps, fg->step_count, sizeof step, compare_steps);
    return at != NULL ? (size_t)(at - fg->steps) : SIZE_MAX;
}

static bool is_on_all(const struct figures *fg, int64_t step)
{
    for (size_t r = 0; r < fg->rank_count; r++) {
        if (row_of(fg->analysis->summaries[fg->summaries[r]], step) == NULL) {
            return false;
        }
    }
    return true;
}

static enum rs_status collect_steps(struct figures *fg)
{
    const struct rs_summary *first = fg->analysis->summaries[fg->summaries[0]];
    fg->steps = rs_mem_calloc(first->step_count + 1, sizeof *fg->steps);
    if (fg->steps == NULL) {
        return RS_NOMEM;
    }
    for (size_t i = 0; i < first->step_count; i++) {
        const int64_t step = first->steps[i].step;
        const bool is_new = fg->step_count == 0 || fg->steps[fg->step_count - 1] != step;
        if (is_new && is_on_all(fg, step)) {
            fg->steps[fg->step_count++] = step;
        }
    }
    if (fg->step_count > 1) {
        qsort(fg->steps, fg->step_count, sizeof *fg->steps, compare_steps);
    }
    return RS_OK;
}

static enum rs_status collect_values(struct figures *fg)
{
    rs_dur total = 0;
    fg->values =
        rs_mem_calloc(fg->rank_count * (fg->step_count + 1) * FIGURE_COUNT, sizeof *fg->values);
    if (fg->values == NULL) {
        return RS_NOMEM;
    }
    fg->has_cpu = true;
    for (size_t r = 0; r < fg->rank_count; r++) {
        for (size_t k = 0; k < fg->step_count; k++) {
            const struct rs_step_row *row =
                row_of(fg->analysis->summaries[fg->summaries[r]], fg->steps[k]);
            rs_dur *values = &fg->values[(r * fg->step_count + k) * FIGURE_COUNT];
            values[FIGURE_CPU] = row->cpu_ns;
            values[FIGURE_COMPUTING] = row->window_computing;
            values[FIGURE_HEAD] = row->idle_head;
            values[FIGURE_INSIDE] = row->idle_inside + row->idle_tail + row->window_memory;
            values[FIGURE_EXPOSED] = row->window_exposed;
            fg->has_cpu = fg->has_cpu && row->cpu_ns >= 0;
            total = join_sum(total, row->window_end - row->window_start);
        }
    }
    const size_t count = fg->rank_count * fg->step_count;
    fg->mean_step = count > 0 ? total / (rs_dur)count : 0;
    return RS_OK;
}

/* ---- who came last -------------------------------------------------------------------- */

struct worst {
    rs_dur wait; /* of all members; -1: no operation yet */
};

static void see_op(struct figures *fg, const struct rs_job_op *op, const uint32_t *rank_of_summary,
                   struct worst *worst)
{
    const struct rs_analysis *out = fg->analysis;
    const size_t step = figures_step(fg, op->step);
    rs_dur wait = 0;
    if (step == SIZE_MAX || op->last_rank < 0 || op->row_count < 2 ||
        rs_op_type_dependency((enum rs_op_type)op->type) != RS_DEPENDS_ALL) {
        return;
    }
    for (size_t r = op->row_first; r < op->row_first + op->row_count; r++) {
        wait = join_sum(wait, out->rows[r].wait);
    }
    for (size_t r = op->row_first; r < op->row_first + op->row_count; r++) {
        const uint32_t rank = rank_of_summary[out->rows[r].summary];
        const size_t at = rank * fg->step_count + step;
        if (rank != UINT32_MAX && wait > worst[at].wait) {
            worst[at].wait = wait;
            fg->was_last[at] = out->rows[r].rank == op->last_rank ? LAST_SELF : LAST_OTHER;
        }
    }
}

static enum rs_status collect_last(struct figures *fg)
{
    const struct rs_analysis *out = fg->analysis;
    const size_t cells = fg->rank_count * fg->step_count;
    fg->was_last = rs_mem_calloc(cells + 1, sizeof *fg->was_last);
    struct worst *worst = rs_mem_calloc(cells + 1, sizeof *worst);
    uint32_t *rank_of_summary = rs_mem_calloc(out->summary_count + 1, sizeof *rank_of_summary);
    enum rs_status status = RS_NOMEM;
    if (fg->was_last != NULL && worst != NULL && rank_of_summary != NULL) {
        for (size_t s = 0; s < out->summary_count; s++) {
            rank_of_summary[s] = UINT32_MAX;
        }
        for (size_t r = 0; r < fg->rank_count; r++) {
            rank_of_summary[fg->summaries[r]] = (uint32_t)r;
        }
        for (size_t i = 0; i < cells; i++) {
            worst[i].wait = -1;
        }
        for (size_t i = 0; i < out->op_count; i++) {
            see_op(fg, &out->ops[i], rank_of_summary, worst);
        }
        status = RS_OK;
    }
    rs_mem_free(worst);
    rs_mem_free(rank_of_summary);
    return status;
}

/* ---- peers --------------------------------------------------------------------------- */

struct signature {
    uint64_t value;
    uint32_t rank;
};

static int compare_signatures(const void *left, const void *right)
{
    const struct signature *a = left, *b = right;
    if (a->value != b->value) {
        return a->value > b->value ? 1 : -1;
    }
    return (a->rank > b->rank) - (a->rank < b->rank);
}

static uint64_t signature_of(const struct figures *fg, size_t rank)
{
    const struct rs_summary *summary = fg->analysis->summaries[fg->summaries[rank]];
    uint64_t counts[RS_OP_TYPE_COUNT] = {0};
    uint64_t first_p2p = 0;
    for (size_t i = 0; i < summary->op_count; i++) {
        const struct rs_comm_op *op = &summary->ops[i];
        if (op->type < RS_OP_TYPE_COUNT && figures_step(fg, op->step) != SIZE_MAX) {
            counts[op->type]++;
            if (first_p2p == 0 && rs_op_type_is_p2p((enum rs_op_type)op->type)) {
                first_p2p = op->type;
            }
        }
    }
    uint64_t hash = first_p2p;
    for (size_t t = 0; t < RS_OP_TYPE_COUNT; t++) {
        hash = (hash ^ counts[t]) * 0x9e3779b97f4a7c15U;
        hash ^= hash >> 29;
    }
    return hash;
}

static enum rs_status collect_peers(struct figures *fg)
{
    struct signature *all = rs_mem_calloc(fg->rank_count + 1, sizeof *all);
    fg->peers = rs_mem_calloc(fg->rank_count + 1, sizeof *fg->peers);
    fg->peer_order = rs_mem_calloc(fg->rank_count + 1, sizeof *fg->peer_order);
    fg->peer_first = rs_mem_calloc(fg->rank_count + 1, sizeof *fg->peer_first);
    if (all == NULL || fg->peers == NULL || fg->peer_order == NULL || fg->peer_first == NULL) {
        rs_mem_free(all);
        return RS_NOMEM;
    }
    for (size_t r = 0; r < fg->rank_count; r++) {
        all[r] = (struct signature){signature_of(fg, r), (uint32_t)r};
    }
    qsort(all, fg->rank_count, sizeof *all, compare_signatures);
    for (size_t i = 0; i < fg->rank_count; i++) {
        if (i == 0 || all[i].value != all[i - 1].value) {
            fg->peer_first[fg->peer_classes++] = i;
        }
        fg->peer_order[i] = all[i].rank;
        fg->peers[all[i].rank] = (uint32_t)(fg->peer_classes - 1);
    }
    fg->peer_first[fg->peer_classes] = fg->rank_count;
    rs_mem_free(all);
    return RS_OK;
}

/* A rank without one (a truncated file) is left out, so that it does not silence the others. */
static bool has_complete_step(const struct rs_summary *summary)
{
    for (size_t i = 0; i < summary->step_count; i++) {
        if (!summary->steps[i].is_partial) {
            return true;
        }
    }
    return false;
}

static enum rs_status figures_init(struct figures *fg, const struct rs_analysis *analysis)
{
    *fg = (struct figures){.analysis = analysis};
    fg->summaries = rs_mem_calloc(analysis->summary_count + 1, sizeof *fg->summaries);
    if (fg->summaries == NULL) {
        return RS_NOMEM;
    }
    for (size_t s = 0; s < analysis->summary_count; s++) {
        if (analysis->ranks[s].takes_part && has_complete_step(analysis->summaries[s])) {
            fg->summaries[fg->rank_count++] = (uint32_t)s;
        }
    }
    if (fg->rank_count == 0) {
        return RS_OK;
    }
    enum rs_status status = collect_steps(fg);
    if (status == RS_OK) {
        status = collect_values(fg);
    }
    if (status == RS_OK) {
        status = collect_last(fg);
    }
    return status == RS_OK ? collect_peers(fg) : status;
}

static void figures_fini(struct figures *fg)
{
    rs_mem_free(fg->summaries);
    rs_mem_free(fg->steps);
    rs_mem_free(fg->values);
    rs_mem_free(fg->was_last);
    rs_mem_free(fg->peers);
    rs_mem_free(fg->peer_order);
    rs_mem_free(fg->peer_first);
}

/* ---- the door ------------------------------------------------------------------------ */

static int compare_findings(const void *left, const void *right)
{
    const struct rs_finding *a = left, *b = right;
    if (a->cost_ns_per_step != b->cost_ns_per_step) {
        return a->cost_ns_per_step < b->cost_ns_per_step ? 1 : -1;
    }
    if (a->kind != b->kind) {
        return a->kind > b->kind ? 1 : -1;
    }
    if (a->rank != b->rank) {
        return a->rank > b->rank ? 1 : -1;
    }
    return a->src != b->src ? (a->src > b->src ? 1 : -1) : (a->dst > b->dst) - (a->dst < b->dst);
}

static enum rs_status ask_all(const struct figures *fg, const struct link_messages *messages,
                              struct verdicts *verdicts)
{
    if (fg->rank_count < 2) {
        rs_buf_string(&verdicts->reasons,
                      "There is nothing to compare: fewer than two ranks with complete steps.");
        return RS_OK;
    }
    if (fg->step_count == 0) {
        rs_buf_string(&verdicts->reasons, "No step is complete on all ranks.");
        return RS_OK;
    }
    rs_buf_printf(
        &verdicts->reasons, "Nobody stands out of %zu ranks in %zu complete step%s (mean %.2f ms).",
        fg->rank_count, fg->step_count, fg->step_count == 1 ? "" : "s", as_ms(fg->mean_step));
    enum rs_status status = RS_OK;
    if (fg->step_count > 1) {
        status = slow_rank_ask(fg, verdicts);
    }
    if (status == RS_OK && fg->step_count >= STEPS_FOR_A_HABIT) {
        status = slow_link_ask(fg, messages, verdicts);
    }
    if (status == RS_OK && fg->step_count < STEPS_FOR_A_HABIT &&
        verdicts->analysis->finding_count == 0) {
        status = one_step_ask(fg, verdicts);
    }
    return status;
}

enum rs_status findings_collect(struct rs_analysis *analysis, const struct link_messages *messages)
{
    struct figures figures;
    struct verdicts verdicts = {.analysis = analysis};
    enum rs_status status = figures_init(&figures, analysis);
    if (status == RS_OK) {
        status = ask_all(&figures, messages, &verdicts);
    }
    if (status == RS_OK && analysis->finding_count > 0) {
        qsort(analysis->findings, analysis->finding_count, sizeof *analysis->findings,
              compare_findings);
    } else if (status == RS_OK) {
        analysis->no_finding_because = rs_mem_strdup(rs_buf_text(&verdicts.reasons));
        status = analysis->no_finding_because != NULL ? RS_OK : RS_NOMEM;
    }
    rs_buf_fini(&verdicts.reasons);
    figures_fini(&figures);
    return status;
}
