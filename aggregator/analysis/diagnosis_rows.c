/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A diagnosis as rows: finding, finding_place, evidence and the same of who came closest (undecided), diagnosis, wait_cause, unjudged.
 *
 * Findings are numbered from 1 in the order of fixing; those that are not worth fixing follow. Words of kinds are
 * stored as texts, since they are few and people read these tables. Sentences are made when a report is printed.
 */
#include "aggregator/analysis/rows_priv.h"

#include <stdio.h>

/* Findings in the order of their numbers, and the tables that they go into. */
struct list {
    const struct rs_finding *findings, *behind; /* those not worth fixing */
    size_t count, behind_count;
    const struct rs_table *table, *places, *evidence;
};

static size_t count_of(const struct list *list)
{
    return list->count + list->behind_count;
}

static const struct rs_finding *finding_at(const struct list *list, size_t index)
{
    return index < list->count ? &list->findings[index] : &list->behind[index - list->count];
}

static int64_t group_id_of(const struct rows_filler *filler, uint32_t group)
{
    return group == UINT32_MAX ? RS_NULL : filler->group_ids[group];
}

static void fill_finding(struct rows_filler *filler, const struct rs_finding *finding,
                         struct rs_row_finding *row)
{
    rs_block_text(&filler->block, &row->kind, rs_finding_kind_text(finding->kind));
    rs_block_text(&filler->block, &row->confidence, rs_confidence_text(finding->confidence));
    row->cost_ns_per_step = finding->cost_ns_per_step;
    row->cost_low_ns = finding->cost_low_ns;
    row->cost_high_ns = finding->cost_high_ns;
    row->share = finding->share;
    row->alone_ns = finding->alone_ns_per_step;
    row->left_ns = finding->left_ns_per_step;
    row->explains = finding->explains;
    row->steps_seen = finding->steps.seen;
    row->steps_hit = finding->steps.hit;
    row->period = finding->steps.period;
    row->phase = finding->steps.phase;
    row->first_step = finding->steps.first;
    row->began = finding->steps.began;
    row->factor = finding->test.factor;
    row->noise = finding->test.noise;
    row->called_above = finding->test.limit;
    row->peers = finding->test.peers;
    row->level = finding->test.level;
    row->p = finding->test.p;
    row->more_steps = finding->more_steps;
}

static enum rs_status put_findings(struct rows_filler *filler, const struct list *list)
{
    rows_of(filler, list->table);
    for (size_t i = 0; i < count_of(list); i++) {
        struct rs_row_finding *row = rows_add(filler);
        if (!row)
            return rows_failed(filler);
        row->capture = filler->capture;
        row->finding_no = (int64_t)i + 1;
        row->is_worth_fixing = i < list->count;
        fill_finding(filler, finding_at(list, i), row);
    }
    return rows_flush(filler);
}

static enum rs_status put_place(struct rows_filler *filler, size_t finding, size_t number,
                                const struct rs_place *place, bool is_also)
{
    struct rs_row_finding_place *row = rows_add(filler);
    if (!row)
        return rows_failed(filler);
    row->capture = filler->capture;
    row->finding_no = (int64_t)finding + 1;
    row->place_no = (int64_t)number;
    row->is_also = is_also;
    rs_block_text(&filler->block, &row->where_kind, rs_place_kind_text(place->kind));
    row->rank = rows_not_negative(place->rank);
    row->src = rows_not_negative(place->src);
    row->dst = rows_not_negative(place->dst);
    row->stage = rows_not_negative(place->stage);
    row->dp = rows_not_negative(place->dp);
    row->group_id = group_id_of(filler, place->group);
    rs_block_text(&filler->block, &row->name, place->text);
    return RS_OK;
}

static enum rs_status put_places(struct rows_filler *filler, const struct list *list)
{
    enum rs_status status = RS_OK;
    rows_of(filler, list->places);
    for (size_t i = 0; i < count_of(list) && status == RS_OK; i++) {
        const struct rs_finding *finding = finding_at(list, i);
        for (size_t k = 0; k < finding->place_count && status == RS_OK; k++)
            status = put_place(filler, i, k, &finding->places[k], false);
        for (size_t k = 0; k < finding->also_count && status == RS_OK; k++)
            status = put_place(filler, i, finding->place_count + k, &finding->also[k], true);
    }
    return status == RS_OK ? rows_flush(filler) : status;
}

static void fill_evidence(struct rows_filler *filler, const struct rs_evidence *evidence,
                          struct rs_row_evidence *row)
{
    rs_block_text(&filler->block, &row->what, rs_evidence_text(evidence->what));
    rs_block_text(&filler->block, &row->figure, rs_figure_text(evidence->figure));
    row->rank = evidence->rank;
    row->peer = evidence->peer;
    row->step = evidence->step;
    row->group_id = group_id_of(filler, evidence->group);
    rs_block_text(&filler->block, &row->name, evidence->name);
    row->value = evidence->value;
    row->reference = evidence->reference;
    row->bound = evidence->bound;
    row->bytes = evidence->bytes;
    row->seen = evidence->seen;
    row->out_of = evidence->of;
    row->start_ns = evidence->start_ns;
    row->dur_ns = evidence->dur_ns;
}

static enum rs_status put_evidence(struct rows_filler *filler, const struct list *list)
{
    rows_of(filler, list->evidence);
    for (size_t i = 0; i < count_of(list); i++) {
        const struct rs_finding *finding = finding_at(list, i);
        for (size_t k = 0; k < finding->evidence_count; k++) {
            struct rs_row_evidence *row = rows_add(filler);
            if (!row)
                return rows_failed(filler);
            row->capture = filler->capture;
            row->finding_no = (int64_t)i + 1;
            row->evidence_no = (int64_t)k;
            fill_evidence(filler, &finding->evidence[k], row);
        }
    }
    return rows_flush(filler);
}

struct figure {
    const char *figure;
    double value;
    bool is_known;
};

static enum rs_status put_figures_of(struct rows_filler *filler, const struct figure *figures,
                                     size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct rs_row_diagnosis *row = rows_add(filler);
        if (!row)
            return rows_failed(filler);
        row->capture = filler->capture;
        row->figure = NULL;
        rs_block_text(&filler->block, &row->figure, figures[i].figure);
        if (figures[i].is_known)
            row->value = figures[i].value;
    }
    return RS_OK;
}

/* Which reason it is that nobody is named has a row, 1; the others have none. */
static enum rs_status put_silence(struct rows_filler *filler, enum rs_silence silence)
{
    char name[64];
    const struct figure figure = {.figure = name, .value = 1, .is_known = true};
    (void)snprintf(name, sizeof name, "silence_%s", rs_silence_text(silence));
    return put_figures_of(filler, &figure, 1);
}

static enum rs_status put_figures(struct rows_filler *filler)
{
    const struct rs_diagnosis *d = filler->analysis->diagnosis;
    const struct rs_job_recording *recording = &filler->analysis->recording;
    const struct figure figures[] = {
        {"loss_step_ns", (double)d->loss.step_ns, d->replay.is_known},
        {"loss_ideal_ns", (double)d->loss.ideal_ns, d->loss.is_known},
        {"loss_recoverable_ns", (double)d->loss.recoverable_ns, d->loss.is_known},
        {"loss_slowdown", d->loss.slowdown, d->loss.slowdown > 0},
        {"loss_single_culprit", d->loss.single_culprit, d->loss.is_known},
        {"loss_spread_share", d->loss.spread_share, d->loss.is_known},
        {"replay_error_share", d->replay.error_share, d->replay.is_known},
        {"replay_unexplained_share", d->replay.unexplained_share, d->replay.is_known},
        {"replay_nodes", (double)d->replay.nodes, d->replay.is_known},
        {"replay_edges", (double)d->replay.edges, d->replay.is_known},
        {"replay_inferred_edges", (double)d->replay.inferred_edges, d->replay.is_known},
        {"replay_refuted", (double)d->replay.refuted, d->replay.is_known},
        {"replay_cycles", (double)d->replay.cycles, d->replay.is_known},
        {"waiting_total_ns", (double)d->waiting.total_ns, d->waiting.is_known},
        {"waiting_by_design_ns", (double)d->waiting.by_design_ns, d->waiting.is_known},
        {"waiting_absorbed_ns", (double)d->waiting.absorbed_ns, d->waiting.is_known},
        {"sensitivity_smallest_factor", d->sensitivity.smallest_factor,
         d->sensitivity.smallest_factor > 0},
        {"sensitivity_smallest_cost_ns", (double)d->sensitivity.smallest_cost_ns,
         d->sensitivity.smallest_factor > 0},
        {"judged_ranks", (double)d->judged_ranks, true},
        {"judged_steps", (double)d->judged_steps, true},
        {"waiting_seen_total_ns", (double)d->waiting.total_ns, true}, /* these three at least */
        {"waiting_seen_by_design_ns", (double)d->waiting.by_design_ns, true},
        {"waiting_seen_absorbed_ns", (double)d->waiting.absorbed_ns, true},
        {"lost_operations", (double)d->lost_ops, true},
        {"replay_clock_bound_ns", (double)d->replay.clock_bound_ns, d->replay.clock_bound_ns > 0},
        {"replay_clock_meetings", d->replay.clock_meetings, d->replay.clock_bound_ns > 0},
        {"recording_ranks", (double)recording->rank_count, true},
        {"recording_rank", recording->rank, recording->rank_count > 0},
        {"recording_recorded_ns", (double)recording->recorded, recording->rank_count > 0},
        {"recording_writing_ns", (double)recording->writing, recording->rank_count > 0},
        {"unfinished_members", (double)filler->analysis->unfinished_count, true},
    };
    rows_of(filler, &rs_table_diagnosis);
    enum rs_status status = put_figures_of(filler, figures, sizeof figures / sizeof figures[0]);
    if (status == RS_OK)
        status = put_silence(filler, d->silence);
    return status == RS_OK ? rows_flush(filler) : status;
}

static enum rs_status put_causes(struct rows_filler *filler)
{
    const struct rs_diagnosis *diagnosis = filler->analysis->diagnosis;
    rows_of(filler, &rs_table_wait_cause);
    for (size_t i = 0; i < diagnosis->waiting.cause_count; i++) {
        const struct rs_wait_cause *cause = &diagnosis->waiting.caused[i];
        struct rs_row_wait_cause *row = rows_add(filler);
        if (!row)
            return rows_failed(filler);
        row->capture = filler->capture;
        row->cause_no = (int64_t)i;
        if (cause->finding < diagnosis->finding_count + diagnosis->not_worth_count)
            row->finding_no = (int64_t)cause->finding + 1;
        row->caused_ns = cause->caused_ns;
        row->indirect_ns = cause->indirect_ns;
    }
    return rows_flush(filler);
}

static enum rs_status put_unjudged(struct rows_filler *filler)
{
    const struct rs_diagnosis *diagnosis = filler->analysis->diagnosis;
    rows_of(filler, &rs_table_unjudged);
    for (size_t i = 0; i < diagnosis->unjudged_count; i++) {
        const struct rs_unjudged *one = &diagnosis->unjudged[i];
        struct rs_row_unjudged *row = rows_add(filler);
        if (!row)
            return rows_failed(filler);
        row->capture = filler->capture;
        row->row_no = (int64_t)i;
        row->rank = one->rank;
        row->group_id = group_id_of(filler, one->group);
        rs_block_text(&filler->block, &row->why, rs_unjudged_text(one->why));
    }
    return rows_flush(filler);
}

static enum rs_status put_list(struct rows_filler *filler, const struct list *list)
{
    enum rs_status status = put_findings(filler, list);
    if (status == RS_OK)
        status = put_places(filler, list);
    return status == RS_OK ? put_evidence(filler, list) : status;
}

enum rs_status rows_put_findings(struct rows_filler *filler)
{
    const struct rs_diagnosis *diagnosis = filler->analysis->diagnosis;
    const struct list list = {.findings = diagnosis->findings,
                              .count = diagnosis->finding_count,
                              .behind = diagnosis->not_worth_fixing,
                              .behind_count = diagnosis->not_worth_count,
                              .table = &rs_table_finding,
                              .places = &rs_table_finding_place,
                              .evidence = &rs_table_evidence};
    return put_list(filler, &list);
}

enum rs_status rows_put_diagnosis(struct rows_filler *filler)
{
    const struct rs_diagnosis *diagnosis = filler->analysis->diagnosis;
    if (!diagnosis)
        return RS_OK;
    const struct list undecided = {.findings = diagnosis->undecided,
                                   .count = diagnosis->undecided_count,
                                   .table = &rs_table_undecided,
                                   .places = &rs_table_undecided_place,
                                   .evidence = &rs_table_undecided_evidence};
    enum rs_status status = rows_put_findings(filler);
    if (status == RS_OK)
        status = put_list(filler, &undecided);
    if (status == RS_OK)
        status = put_figures(filler);
    if (status == RS_OK)
        status = put_causes(filler);
    return status == RS_OK ? put_unjudged(filler) : status;
}
