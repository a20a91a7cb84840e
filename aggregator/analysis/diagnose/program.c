/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank's program: its spans, operations and host waits in launch order, cut into steps.
 *
 * Where no spans were recorded, the time between operations is the rank's own work, whatever it was: a gap
 * before each operation (on a host: before its call, and after the last one to the end of the step).
 *
 *   slot   how many operations of the step were called before: equal on all ranks that run the program, so
 *          that spans of two ranks can be compared though one of them was cut by a wait and the other not
 *   lane   a stream, by first appearance in the program
 */
#include "aggregator/analysis/diagnose/build.h"
#include "common/base/mem.h"

#include <stdlib.h>
#include <string.h>

static uint64_t mixed(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9e3779b97f4a7c15U;
    return hash ^ (hash >> 29);
}

static int compare_steps(const void *left, const void *right)
{
    const int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

static uint32_t step_index(const struct builder *builder, int64_t step)
{
    const struct diag_model *model = builder->model;
    const int64_t *at = model->step_count == 0 ? NULL
                                               : bsearch(&step, model->steps, model->step_count,
                                                         sizeof step, compare_steps);
    return at != NULL ? (uint32_t)(at - model->steps) : GRAPH_NONE;
}

static bool is_stream(const void *self, uint32_t index, const void *wanted)
{
    return ((const int64_t *)self)[index] == *(const int64_t *)wanted;
}

static uint64_t stream_hash(int64_t stream)
{
    return rs_slots_mix(0, (uint64_t)stream);
}

static bool find_lane(const struct program *program, int64_t stream, uint32_t *lane_p)
{
    const uint32_t at = rs_slots_find(&program->lane_slots, stream_hash(stream), is_stream,
                                      program->lanes, &stream);
    if (at == RS_SLOTS_NONE) {
        return false;
    }
    *lane_p = at;
    return true;
}

static enum rs_status lane_of(struct program *program, int64_t stream, uint32_t *lane_p)
{
    if (find_lane(program, stream, lane_p)) {
        return RS_OK;
    }
    if (rs_mem_grow((void **)&program->lanes, &program->lane_capacity, program->lane_count + 1,
                    sizeof *program->lanes) != RS_OK ||
        rs_slots_put(&program->lane_slots, stream_hash(stream), (uint32_t)program->lane_count) !=
            RS_OK) {
        return RS_NOMEM;
    }
    program->lanes[program->lane_count] = stream;
    *lane_p = (uint32_t)program->lane_count++;
    return RS_OK;
}

static enum rs_status add_line(struct program *program, const struct line *line)
{
    if (program->count == program->most) {
        return RS_LIMIT;
    }
    struct line *added = &program->lines[program->count++];
    *added = *line;
    added->launch_node = added->first_node = added->end_node = added->work_node = GRAPH_NONE;
    return RS_OK;
}

/* Without spans each operation has a gap before it, and each step one behind its last. */
size_t program_most_lines(const struct rs_summary *summary)
{
    return summary->span_count > 0 ? summary->op_count + summary->span_count
                                   : 2 * summary->op_count + summary->step_count;
}

/* ---- from summaries -------------------------------------------------------------------- */

static rs_ns since(const struct builder *builder, const struct program *program, rs_ns own)
{
    const rs_ns at = rs_analysis_time(builder->analysis, program->summary, own);
    rs_ns relative;
    const rs_ns limit = RS_NS_MAX / 16;
    if (__builtin_sub_overflow(at, builder->base, &relative)) {
        return at < builder->base ? -limit : limit;
    }
    return relative > limit ? limit : relative < -limit ? -limit : relative;
}

static int64_t stream_key(bool on_device, int32_t device, int64_t stream)
{
    return on_device ? (int64_t)device * 1000003 + stream : -1000003 - stream;
}

static enum rs_status add_ops(const struct builder *builder, struct program *program,
                              bool has_spans)
{
    const struct rs_summary *summary = builder->analysis->summaries[program->summary];
    for (size_t i = 0; i < summary->op_count; i++) {
        const struct rs_comm_op *op = &summary->ops[i];
        const bool on_device = (op->flags & RS_OP_ON_DEVICE) != 0;
        struct line line = {
            .order = op->call_order,
            .what = LINE_OP,
            .rank_in_order = 1,
            .on_host = !on_device,
            /* of a device's operation whose call is not recorded, call_start is its start */
            .has_launch = on_device ? op->call_start < op->start : op->call_start <= op->start,
            .index = (uint32_t)i,
            .step = step_index(builder, op->step),
            .start = since(builder, program, op->start),
            .end = since(builder, program, op->end),
            .launch = since(builder, program, op->call_start)};
        if (line.step == GRAPH_NONE || op->end < op->start) {
            continue;
        }
        if (lane_of(program, stream_key(on_device, op->device, op->stream), &line.lane) != RS_OK ||
            add_line(program, &line) != RS_OK) {
            return RS_NOMEM;
        }
        if (has_spans) {
            continue;
        }
        line.what = LINE_GAP;
        line.rank_in_order = 0;
        line.has_launch = false;
        line.end = on_device ? line.start : line.launch;
        line.start = line.end;
        if ((!on_device && lane_of(program, RS_NS_MIN, &line.lane) != RS_OK) ||
            add_line(program, &line) != RS_OK) {
            return RS_NOMEM;
        }
    }
    return RS_OK;
}

static enum rs_status add_spans(const struct builder *builder, struct program *program)
{
    const struct rs_summary *summary = builder->analysis->summaries[program->summary];
    for (size_t i = 0; i < summary->span_count; i++) {
        const struct rs_span_row *span = &summary->spans[i];
        const bool on_device = span->device >= 0;
        const bool is_wait = span->kind == RS_SPAN_HOST_WAIT;
        struct line line = {.order = span->order,
                            .what = is_wait ? LINE_WAIT : LINE_SPAN,
                            .rank_in_order = 1,
                            .on_host = is_wait || !on_device,
                            .has_launch = span->launch_first != RS_SPAN_NO_LAUNCH,
                            .is_all = is_wait && span->stream < 0,
                            .is_copy = span->kind == RS_SPAN_MEMORY,
                            .index = (uint32_t)i,
                            .step = step_index(builder, span->step),
                            .start = since(builder, program, span->start),
                            .end = since(builder, program, span->end),
                            .launch = since(builder, program, span->launch_first),
                            .work = on_device ? span->busy : span->end - span->start};
        if (on_device) {
            line.launch_last = since(builder, program, span->launch_last);
        } else {
            line.idle = span->end - span->start - span->busy;
        }
        if (line.step == GRAPH_NONE || span->end < span->start) {
            continue;
        }
        const int64_t stream = on_device ? stream_key(true, span->device, span->stream) : RS_NS_MIN;
        if (is_wait) {
            line.is_all = line.is_all || !find_lane(program, stream, &line.lane);
        } else if (lane_of(program, stream, &line.lane) != RS_OK) {
            return RS_NOMEM;
        }
        if (add_line(program, &line) != RS_OK) {
            return RS_NOMEM;
        }
    }
    return RS_OK;
}

/* Without spans: what a host does behind its last operation of a step. */
static enum rs_status add_tails(const struct builder *builder, struct program *program)
{
    const struct rs_summary *summary = builder->analysis->summaries[program->summary];
    for (size_t i = 0; i < summary->step_count; i++) {
        const struct rs_step_row *row = &summary->steps[i];
        struct line line = {.order = INT64_MAX,
                            .what = LINE_GAP,
                            .on_host = true,
                            .step = step_index(builder, row->step),
                            .start = since(builder, program, row->host_end),
                            .end = since(builder, program, row->host_end)};
        if (line.step == GRAPH_NONE || row->host_end < row->host_start) {
            continue;
        }
        if (lane_of(program, RS_NS_MIN, &line.lane) != RS_OK || add_line(program, &line) != RS_OK) {
            return RS_NOMEM;
        }
    }
    return RS_OK;
}

/* ---- order, slots, signature -------------------------------------------------------------- */

static int by_order(const void *left, const void *right)
{
    const struct line *a = left, *b = right;
    if (a->step != b->step) {
        return a->step > b->step ? 1 : -1;
    }
    if (a->order != b->order) {
        return a->order > b->order ? 1 : -1;
    }
    if (a->rank_in_order != b->rank_in_order) {
        return a->rank_in_order > b->rank_in_order ? 1 : -1;
    }
    return (a->index > b->index) - (a->index < b->index);
}

static uint64_t op_signature(const struct builder *builder, const struct program *program,
                             const struct line *line, uint64_t hash)
{
    const struct rs_summary *summary = builder->analysis->summaries[program->summary];
    if (line->what == LINE_LOST) {
        const struct lost_op *lost = &builder->lost[line->index];
        return mixed(mixed(hash, lost->type), (uint64_t)lost->group_size);
    }
    const struct rs_comm_op *op = line_op(builder, program, line);
    const bool is_p2p = rs_op_type_is_p2p((enum rs_op_type)op->type);
    const bool is_known = !is_p2p && op->group < summary->group_count;
    hash = mixed(hash, op->type);
    return mixed(hash, is_known ? (uint64_t)summary->groups[op->group].size : 0);
}

/* The first spans of a lane in a recording's first step may have rows in front that were launched before: then they start before
 * their own launch, or stand idle behind those. */
static bool may_have_older_rows(const struct line *line)
{
    const rs_dur length = line->end - line->start, idle = length - line->work;
    return line->what == LINE_SPAN && line->has_launch &&
           (line->start < line->launch || (double)idle > DIAG_IDLE_PART * (double)length);
}

/* A recording begins while work is under way. An operation of its first step whose call it does not hold, where it holds those of
 * all other steps, was called before: counted, it would make another program of that step, and nothing would be known of it.
 * And of a span that has such rows in front it is not known when its own could start. */
static enum rs_status find_early(struct program *program, size_t steps)
{
    size_t first = 0;
    while (first < steps && program->step_first[first] == program->step_first[first + 1]) {
        first++;
    }
    const size_t begin = first < steps ? program->step_first[first] : program->count;
    const size_t end = first < steps ? program->step_first[first + 1] : program->count;
    bool has_calls = end < program->count;
    for (size_t i = end; i < program->count; i++) {
        const struct line *line = &program->lines[i];
        has_calls = has_calls && (line->what != LINE_OP || line->has_launch);
    }
    uint8_t *has_own = rs_mem_calloc(program->lane_count + 1, 1);
    if (has_own == NULL) {
        return RS_NOMEM;
    }
    for (size_t i = begin; i < end; i++) {
        struct line *line = &program->lines[i];
        if (line->on_host) {
            continue;
        }
        if (line->what == LINE_OP) {
            line->is_early = has_calls && !line->has_launch;
        } else if (line->what == LINE_SPAN && !has_own[line->lane]) {
            line->is_early = may_have_older_rows(line);
            has_own[line->lane] = line->has_launch && !line->is_early;
        }
    }
    rs_mem_free(has_own);
    return RS_OK;
}

static void sign_steps(const struct builder *builder, struct program *program)
{
    const size_t steps = builder->model->step_count;
    for (size_t k = 0; k < steps; k++) {
        uint64_t hash = UINT64_C(0x6a09e667f3bcc909);
        uint32_t slot = 0;
        for (size_t i = program->step_first[k]; i < program->step_first[k + 1]; i++) {
            struct line *line = &program->lines[i];
            line->slot = slot;
            if (line_counts(line)) {
                hash = op_signature(builder, program, line, hash);
                slot++;
            }
        }
        program->step_signatures[k] = hash != 0 ? hash : 1;
    }
}

static bool is_signature(const void *self, uint32_t index, const void *wanted)
{
    return ((const uint64_t *)self)[index] == *(const uint64_t *)wanted;
}

/* The one that most steps have; of several the first. */
static enum rs_status choose_signature(struct program *program, size_t steps)
{
    const uint64_t *all = program->step_signatures;
    struct rs_slots slots = {0};
    uint32_t *counts = rs_mem_calloc(steps + 1, sizeof *counts); /* [the first step that has it] */
    enum rs_status status = counts != NULL ? RS_OK : RS_NOMEM;
    for (size_t k = 0; k < steps && status == RS_OK; k++) {
        uint32_t first = rs_slots_find(&slots, all[k], is_signature, all, &all[k]);
        if (first == RS_SLOTS_NONE) {
            first = (uint32_t)k;
            status = rs_slots_put(&slots, all[k], first);
        }
        counts[first]++;
    }
    uint32_t best = 0;
    for (size_t k = 0; k < steps && status == RS_OK; k++) {
        if (counts[k] > best) {
            best = counts[k];
            program->signature = all[k];
        }
    }
    rs_mem_free(counts);
    rs_slots_fini(&slots);
    return status;
}

/* Launches that always come just before the device is free are paced by the device, not by the host: a full queue, or
 * a writer that made them up. Between such launches the host's own work is not known, so it is left out. */
static void drop_paced_launches(struct program *program)
{
    rs_ns busy_until = RS_NS_MIN;
    double launches = 0, paced = 0;
    for (size_t i = 0; i < program->count; i++) {
        const struct line *line = &program->lines[i];
        if (line->on_host) {
            continue;
        }
        if (line->has_launch && busy_until != RS_NS_MIN) {
            launches += 1;
            paced +=
                line->launch <= busy_until && line->start - line->launch < (rs_dur)DIAG_PACED_NS
                    ? 1
                    : 0;
        }
        busy_until = line->end > busy_until ? line->end : busy_until;
    }
    for (size_t i = 0; i < program->count && paced > DIAG_PACED_SHARE * launches; i++) {
        program->lines[i].has_launch = false;
    }
    for (size_t i = 0; i < program->count; i++) {
        program->has_launches =
            program->has_launches || (program->lines[i].has_launch && !program->lines[i].on_host);
    }
}

void program_sort(struct program *program, size_t steps)
{
    memset(program->step_first, 0, (steps + 2) * sizeof *program->step_first);
    if (program->count > 1) {
        qsort(program->lines, program->count, sizeof *program->lines, by_order);
    }
    for (size_t i = 0; i < program->count; i++) {
        program->step_first[program->lines[i].step + 1]++;
    }
    for (size_t k = 0; k < steps; k++) {
        program->step_first[k + 1] += program->step_first[k];
    }
}

enum rs_status program_sign(struct builder *builder, struct program *program)
{
    sign_steps(builder, program);
    for (size_t i = 0; i < program->count; i++) {
        const struct line *line = &program->lines[i];
        if (line->what == LINE_OP) {
            builder->op_line[builder->op_base[program->summary] + line->index] = (uint32_t)i;
        }
    }
    return choose_signature(program, builder->model->step_count);
}

enum rs_status program_make(struct builder *builder, struct program *program)
{
    const struct rs_summary *summary = builder->analysis->summaries[program->summary];
    const size_t steps = builder->model->step_count;
    bool has_spans = false;
    has_spans = summary->span_count > 0;
    program->is_host = summary->device_count == 0;
    for (size_t i = 0; i < summary->device_count; i++) {
        program->is_host = summary->devices[i].device < 0;
    }
    program->step_first = rs_mem_calloc(steps + 2, sizeof *program->step_first);
    program->step_signatures = rs_mem_calloc(steps + 1, sizeof *program->step_signatures);
    if (program->step_first == NULL || program->step_signatures == NULL ||
        add_ops(builder, program, has_spans) != RS_OK) {
        return RS_NOMEM;
    }
    bool has_device_ops = false;
    for (size_t i = 0; i < program->count; i++) {
        has_device_ops = has_device_ops || !program->lines[i].on_host;
    }
    program->is_host = program->is_host && !has_device_ops;
    if (has_spans && add_spans(builder, program) != RS_OK) {
        return RS_NOMEM;
    }
    if (!has_spans && program->is_host && add_tails(builder, program) != RS_OK) {
        return RS_NOMEM;
    }
    program_sort(program, steps);
    for (size_t i = 0; i < program->count; i++) {
        program->has_waits = program->has_waits || program->lines[i].what == LINE_WAIT;
    }
    if (find_early(program, steps) != RS_OK) {
        return RS_NOMEM;
    }
    drop_paced_launches(program);
    return program_sign(builder, program);
}

void program_fini(struct program *program)
{
    rs_mem_free(program->step_first);
    rs_mem_free(program->step_signatures);
    rs_mem_free(program->step_lacks_waits);
    rs_mem_free(program->lanes);
    rs_slots_fini(&program->lane_slots);
}
