/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which ranks and steps a diagnosis speaks of: ranks that take part and have complete steps, steps that are
 * complete on all of these. Then programs, classes, edges, transfers.
 */
#include "aggregator/analysis/diagnose/build.h"

#include "common/base/mem.h"

#include <stdlib.h>

struct judged_step {
    int64_t step;
    bool is_in_means;
};

static int compare_judged(const void *left, const void *right)
{
    const struct judged_step *a = left, *b = right;
    return (a->step > b->step) - (a->step < b->step);
}

/* No step of a file that is cut is said to be whole, since its rows do not stand in order of time. But what a rank did on its device before
 * it did more there in a later step may be compared: place by place, where it is the same program, and by as many rows. Only these steps are
 * judged then, of all ranks: where they are less than half, the others alone tell more. The first step that is not; INT64_MIN: none is. */
static int64_t cut_after(const struct rs_summary *summary)
{
    int64_t last = INT64_MIN;
    bool has_device = false;
    if (!summary->trace.is_partial) {
        return INT64_MIN;
    }
    for (size_t i = 0; i < summary->step_count; i++) {
        if (!summary->steps[i].is_partial) {
            return INT64_MIN;
        }
    }
    for (size_t i = 0; i < summary->device_count; i++) {
        has_device = has_device || summary->devices[i].device >= 0;
    }
    for (size_t i = 0; has_device && i < summary->op_count; i++) {
        const struct rs_comm_op *op = &summary->ops[i];
        const bool is_meant = (op->flags & RS_OP_ON_DEVICE) != 0 && op->call_start < op->start;
        last = is_meant && op->step > last ? op->step : last;
    }
    size_t kept = 0;
    for (size_t i = 0; i < summary->step_count; i++) {
        kept += summary->steps[i].step < last;
    }
    return 2 * kept >= summary->step_count ? last : INT64_MIN;
}

/* The numbers of which all rows are in the means, ascending, into `steps` (room for the summary's rows). */
static size_t steps_in_means(const struct rs_analysis *analysis, size_t summary_index,
                             struct judged_step *steps)
{
    const struct rs_summary *summary = analysis->summaries[summary_index];
    const size_t count = summary->step_count;
    const int64_t cut = cut_after(summary);
    for (size_t i = 0; i < count; i++) {
        steps[i] = (struct judged_step){summary->steps[i].step,
                                        rs_analysis_is_in_means(analysis, summary_index, i) ||
                                            summary->steps[i].step < cut};
    }
    if (count > 1) {
        qsort(steps, count, sizeof *steps, compare_judged);
    }
    size_t kept = 0;
    for (size_t i = 0; i < count;) {
        bool is_in_means = true;
        const int64_t step = steps[i].step;
        for (; i < count && steps[i].step == step; i++) {
            is_in_means = is_in_means && steps[i].is_in_means;
        }
        if (is_in_means) {
            steps[kept++] = (struct judged_step){step, true};
        }
    }
    return kept;
}

static struct judged_step *room_for_steps(const struct rs_analysis *analysis)
{
    size_t most = 0;
    for (size_t s = 0; s < analysis->summary_count; s++) {
        const size_t count = analysis->summaries[s]->step_count;
        most = count > most ? count : most;
    }
    return rs_mem_calloc(most + 1, sizeof(struct judged_step));
}

static int compare_steps(const void *left, const void *right)
{
    const int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

static enum rs_status choose_ranks(struct builder *builder)
{
    const struct rs_analysis *analysis = builder->analysis;
    struct diag_model *model = builder->model;
    const size_t count = analysis->summary_count;
    model->workers = rs_mem_calloc(count + 1, sizeof *model->workers);
    builder->programs = rs_mem_calloc(count + 1, sizeof *builder->programs);
    builder->worker_of = rs_mem_calloc(count + 1, sizeof *builder->worker_of);
    builder->op_base = rs_mem_calloc(count + 2, sizeof *builder->op_base);
    if (model->workers == NULL || builder->programs == NULL || builder->worker_of == NULL ||
        builder->op_base == NULL) {
        return RS_NOMEM;
    }
    struct judged_step *steps = room_for_steps(analysis);
    if (steps == NULL) {
        return RS_NOMEM;
    }
    for (size_t s = 0; s < count; s++) {
        builder->op_base[s + 1] = builder->op_base[s] + analysis->summaries[s]->op_count;
        builder->worker_of[s] = GRAPH_NONE;
        if (!analysis->ranks[s].takes_part || steps_in_means(analysis, s, steps) == 0) {
            continue;
        }
        builder->has_cut = builder->has_cut || cut_after(analysis->summaries[s]) != INT64_MIN;
        const uint32_t worker = (uint32_t)model->worker_count++;
        builder->worker_of[s] = worker;
        builder->programs[worker] = (struct program){.summary = (uint32_t)s, .worker = worker};
        model->workers[worker] = (struct diag_worker){.rank = analysis->ranks[s].rank,
                                                      .summary = (uint32_t)s,
                                                      .dp = -1,
                                                      .stage = -1,
                                                      .host = -1};
    }
    rs_mem_free(steps);
    builder->op_line = rs_mem_calloc(builder->op_base[count] + 1, sizeof *builder->op_line);
    if (builder->op_line == NULL) {
        return RS_NOMEM;
    }
    for (size_t i = 0; i < builder->op_base[count]; i++) {
        builder->op_line[i] = GRAPH_NONE;
    }
    return RS_OK;
}

/* Room for the lines of all programs at once: what is not used is never touched. */
static enum rs_status lend_lines(struct builder *builder)
{
    const struct rs_analysis *analysis = builder->analysis;
    size_t most = 0;
    for (size_t w = 0; w < builder->model->worker_count; w++) {
        most += program_most_lines(analysis->summaries[builder->programs[w].summary]) +
                lost_of(builder, (uint32_t)w);
    }
    builder->lines = rs_mem_calloc(most + 1, sizeof *builder->lines);
    if (builder->lines == NULL) {
        return RS_NOMEM;
    }
    struct line *next = builder->lines;
    for (size_t w = 0; w < builder->model->worker_count; w++) {
        struct program *program = &builder->programs[w];
        program->lines = next;
        program->most = program_most_lines(analysis->summaries[program->summary]) +
                        lost_of(builder, (uint32_t)w);
        next += program->most;
    }
    return RS_OK;
}

static enum rs_status choose_steps(struct builder *builder)
{
    const struct rs_analysis *analysis = builder->analysis;
    struct diag_model *model = builder->model;
    if (model->worker_count == 0) {
        return RS_OK;
    }
    const size_t first = builder->programs[0].summary;
    model->steps = rs_mem_calloc(analysis->summaries[first]->step_count + 1, sizeof *model->steps);
    struct judged_step *own = room_for_steps(analysis);
    if (model->steps == NULL || own == NULL) {
        rs_mem_free(own);
        return RS_NOMEM;
    }
    model->step_count = steps_in_means(analysis, first, own);
    for (size_t i = 0; i < model->step_count; i++) {
        model->steps[i] = own[i].step;
    }
    for (size_t w = 1; w < model->worker_count; w++) { /* what is on all: both lists ascend */
        const size_t count = steps_in_means(analysis, builder->programs[w].summary, own);
        size_t kept = 0;
        for (size_t i = 0, k = 0; i < model->step_count; i++) {
            while (k < count && own[k].step < model->steps[i]) {
                k++;
            }
            if (k < count && own[k].step == model->steps[i]) {
                model->steps[kept++] = model->steps[i];
            }
        }
        model->step_count = kept;
    }
    rs_mem_free(own);
    return RS_OK;
}

/* Ranks that know their CPU time are compared by it: the wall time of a crowded machine says little. */
static enum rs_status take_cpu(struct builder *builder)
{
    struct diag_model *model = builder->model;
    int64_t *cpu = rs_mem_calloc(model->worker_count * model->step_count + 1, sizeof *cpu);
    bool is_known = true;
    if (cpu == NULL) {
        return RS_NOMEM;
    }
    for (size_t w = 0; w < model->worker_count; w++) {
        const struct rs_summary *summary =
            builder->analysis->summaries[builder->programs[w].summary];
        for (size_t i = 0; i < summary->step_count; i++) {
            const struct rs_step_row *row = &summary->steps[i];
            const int64_t *at = model->step_count > 0
                                    ? bsearch(&row->step, model->steps, model->step_count,
                                              sizeof row->step, compare_steps)
                                    : NULL;
            if (at != NULL && row->cpu_ns > 0) {
                cpu[w * model->step_count + (size_t)(at - model->steps)] = row->cpu_ns;
            }
        }
        for (size_t k = 0; k < model->step_count; k++) {
            is_known = is_known && cpu[w * model->step_count + k] > 0;
        }
    }
    if (is_known) {
        model->cpu = cpu;
    } else {
        rs_mem_free(cpu);
    }
    return RS_OK;
}

/* Data loading of each step: on a device, where the time before the first launch is a figure of its own, what comes behind that. */
static enum rs_status take_inputs(struct builder *builder)
{
    struct diag_model *model = builder->model;
    const size_t cells = model->worker_count * model->step_count;
    model->inputs = rs_mem_calloc(cells + 1, sizeof *model->inputs);
    if (model->inputs == NULL) {
        return RS_NOMEM;
    }
    for (size_t i = 0; i < cells; i++) {
        model->inputs[i] = -1;
    }
    for (size_t w = 0; w < model->worker_count; w++) {
        const struct rs_summary *summary =
            builder->analysis->summaries[builder->programs[w].summary];
        for (size_t i = summary->step_count;
             i-- > 0;) { /* of several rows of a number the first counts */
            const struct rs_step_row *row = &summary->steps[i];
            const int64_t *at = bsearch(&row->step, model->steps, model->step_count,
                                        sizeof row->step, compare_steps);
            if (at == NULL || row->input_ns < 0) {
                continue;
            }
            rs_dur input = row->input_inside_ns > 0 ? row->input_inside_ns : 0;
            if (builder->programs[w].is_host &&
                __builtin_add_overflow(input, row->input_ns, &input)) {
                input = INT64_MAX;
            }
            model->inputs[w * model->step_count + (size_t)(at - model->steps)] = input;
        }
    }
    return RS_OK;
}

static rs_ns earliest(const struct builder *builder)
{
    rs_ns base = RS_NS_MAX;
    for (size_t w = 0; w < builder->model->worker_count; w++) {
        const struct rs_summary *summary =
            builder->analysis->summaries[builder->programs[w].summary];
        for (size_t i = 0; i < summary->step_count; i++) {
            const rs_ns start = rs_analysis_time(builder->analysis, builder->programs[w].summary,
                                                 summary->steps[i].host_start);
            base = start < base ? start : base;
        }
    }
    return base == RS_NS_MAX ? 0 : base;
}

static bool was_recorded(const struct builder *builder, int32_t rank)
{
    const struct rs_analysis *analysis = builder->analysis;
    for (size_t s = 0; s < analysis->summary_count; s++) {
        if (analysis->ranks[s].rank == rank && builder->worker_of[s] != GRAPH_NONE) {
            return true;
        }
    }
    return false;
}

/* Somebody was recorded and has no row of it. Where a recording begins or ends that is so of healthy ones, too. */
static bool lacks_rows(const struct builder *builder, const struct rs_job_op *op)
{
    const struct rs_analysis *analysis = builder->analysis;
    const struct diag_model *model = builder->model;
    const struct rs_job_group *group =
        op->group != RS_NO_GROUP ? &analysis->groups[op->group] : NULL;
    if (op->coverage == RS_COVERAGE_EXACT || !op->is_matched || group == NULL ||
        group->ranks == NULL || group->rank_count <= op->row_count || op->step <= model->steps[0] ||
        op->step >= model->steps[model->step_count - 1]) {
        return false;
    }
    size_t row = op->row_first;
    for (size_t i = 0; i < group->rank_count; i++) {
        while (row < op->row_first + op->row_count && analysis->rows[row].rank < group->ranks[i]) {
            row++;
        }
        const bool has_row =
            row < op->row_first + op->row_count && analysis->rows[row].rank == group->ranks[i];
        if (!has_row && was_recorded(builder, group->ranks[i])) {
            return true;
        }
    }
    return false;
}

static void count_lost(struct builder *builder)
{
    for (size_t i = 0; i < builder->analysis->op_count; i++) {
        builder->model->lost_ops += lacks_rows(builder, &builder->analysis->ops[i]);
    }
}

static void set_confidence(struct builder *builder)
{
    const struct rs_analysis *analysis = builder->analysis;
    bool is_partial = analysis->missing_count > 0 || builder->model->lost_ops > 0;
    for (size_t s = 0; s < analysis->summary_count; s++) {
        is_partial = is_partial || analysis->summaries[s]->trace.is_partial ||
                     !analysis->ranks[s].takes_part;
    }
    builder->model->best = is_partial             ? RS_CONFIDENCE_PARTIAL
                           : !analysis->one_clock ? RS_CONFIDENCE_BOUNDED
                                                  : RS_CONFIDENCE_EXACT;
}

/* What clocks are not known by, and how often that counts. */
static enum rs_status take_clocks(struct builder *builder)
{
    const struct rs_analysis *analysis = builder->analysis;
    struct diag_model *model = builder->model;
    for (size_t w = 0; w < model->worker_count; w++) {
        const rs_dur bound = analysis->clocks[model->workers[w].summary].bound_ns;
        model->clock_bound = bound > model->clock_bound ? bound : model->clock_bound;
    }
    if (model->clock_bound == 0 || !analysis->one_clock) {
        model->clock_bound = 0;
        return RS_OK;
    }
    size_t *meetings = rs_mem_calloc(model->worker_count, sizeof *meetings);
    if (meetings == NULL) {
        return RS_NOMEM;
    }
    size_t most = 0;
    for (size_t i = 0; i < analysis->op_count; i++) {
        const struct rs_job_op *op = &analysis->ops[i];
        if (!op->is_matched || op->row_count < 2 ||
            bsearch(&op->step, model->steps, model->step_count, sizeof op->step, compare_steps) ==
                NULL) {
            continue;
        }
        for (size_t r = op->row_first; r < op->row_first + op->row_count; r++) {
            const uint32_t worker = builder->worker_of[analysis->rows[r].summary];
            if (worker != GRAPH_NONE) {
                meetings[worker]++;
                most = meetings[worker] > most ? meetings[worker] : most;
            }
        }
    }
    model->meetings = (double)most / (double)model->step_count;
    rs_mem_free(meetings);
    return RS_OK;
}

static enum rs_status build(struct builder *builder)
{
    struct diag_model *model = builder->model;
    enum rs_status status = choose_ranks(builder);
    if (status == RS_OK) {
        status = choose_steps(builder);
    }
    if (status != RS_OK || model->worker_count == 0 || model->step_count == 0) {
        return status;
    }
    model->base = builder->base = earliest(builder);
    builder->most_lanes = 1;
    count_lost(builder);
    set_confidence(builder);
    status = take_clocks(builder);
    if (status == RS_OK) {
        status = lost_find(builder);
    }
    if (status == RS_OK) {
        status = lend_lines(builder);
    }
    for (size_t w = 0; status == RS_OK && w < model->worker_count; w++) {
        status = program_make(builder, &builder->programs[w]);
        builder->most_lanes = builder->programs[w].lane_count > builder->most_lanes
                                  ? builder->programs[w].lane_count
                                  : builder->most_lanes;
    }
    if (status == RS_OK) {
        status = lost_put_back(builder);
    }
    if (status == RS_OK) {
        status = take_cpu(builder);
    }
    if (status == RS_OK) {
        status = take_inputs(builder);
    }
    if (status == RS_OK) {
        status = classes_find(builder);
    }
    if (status == RS_OK) {
        status = hidden_find(builder);
    }
    if (status == RS_OK) {
        status = lost_mend_work(builder);
    }
    if (status == RS_OK) {
        model->lanes = builder->most_lanes;
        status = loads_take(builder);
    }
    if (status == RS_OK) {
        status = names_take(builder);
    }
    if (status == RS_OK) {
        status = edges_make(builder);
    }
    if (status == RS_OK) {
        status = moves_make(builder);
    }
    return status == RS_OK ? diag_model_finish(model) : status;
}

enum rs_status diag_build(const struct rs_analysis *analysis, struct diag_model *model)
{
    struct builder builder = {.analysis = analysis, .model = model};
    *model = (struct diag_model){0};
    const enum rs_status status = build(&builder);
    for (size_t w = 0; builder.programs != NULL && w < model->worker_count; w++) {
        program_fini(&builder.programs[w]);
    }
    rs_mem_free(builder.programs);
    rs_mem_free(builder.worker_of);
    rs_mem_free(builder.op_base);
    rs_mem_free(builder.op_line);
    rs_mem_free(builder.op_places);
    rs_mem_free(builder.lines);
    rs_mem_free(builder.hidden);
    rs_mem_free(builder.issues);
    rs_mem_free(builder.lost);
    rs_mem_free(builder.alike);
    rs_mem_free(builder.variants);
    if (status != RS_OK) {
        diag_model_fini(model);
    }
    return status;
}
