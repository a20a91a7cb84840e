/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations that no name tells: fused and home-made communication kernels.
 *
 *     rank 0   --work--[k       ]          the members of a known group run the same kernel at the same place of their programs:
 *     rank 1   -----work----[k  ]          it starts when each is ready and ends for all together. So it waits for the last
 *     rank 2   ---work---[k     ]          of them, whatever it is called.
 *
 * Without this the wait is that rank's own work, and who waits for its partner is called slow.
 *
 * Candidates are spans of one kernel (spans end where another stream is launched on). Judged is a kind of them, one kernel on one
 * stream, over all its places in all steps: where starts are more than START_NS apart, ends must be within a tenth of that, on
 * most of at least PLACES_LEAST places. The largest group that this holds for has it. Then it is an operation of the other
 * groups of that size in the class, too, as far as nothing speaks against it: members that are always ready together show nothing,
 * and ranks of one class run one program.
 */
#include "aggregator/analysis/diagnose/build.h"
#include "common/base/mem.h"
#include "common/base/slots.h"

#include <stdlib.h>
#include <string.h>

enum { PLACES_LEAST = 4 };

/* One kernel on one stream. */
struct kind {
    uint64_t signature;
    uint32_t lane;
    uint32_t told, agreed; /* places whose starts are apart; of these, whose ends are together */
};

/* A kind that is an operation of some group: of this class, of groups of this size. */
struct found {
    uint64_t signature;
    uint32_t lane, class_id;
    size_t size;
};

struct searcher {
    struct builder *builder;
    uint32_t *lines;    /* candidates: lines of their program, by worker */
    size_t *first;      /* [workers + 1] */
    struct kind *kinds; /* of the group that is looked at */
    size_t kind_count, kind_capacity;
    struct rs_slots slots; /* of the kinds */
    uint32_t *members;     /* [workers] of the group that is looked at */
    size_t member_count;
    struct found *found;
    size_t found_count, found_capacity;
};

static bool is_candidate(const struct builder *builder, const struct program *program,
                         const struct line *line)
{
    return line->what == LINE_SPAN && !line->on_host && !line->is_copy && !line->is_hidden &&
           builder->analysis->summaries[program->summary]->spans[line->index].count == 1;
}

static enum rs_status collect(struct searcher *searcher)
{
    const struct builder *builder = searcher->builder;
    const size_t workers = builder->model->worker_count;
    size_t count = 0;
    for (size_t w = 0; w < workers; w++) {
        const struct program *program = &builder->programs[w];
        for (size_t i = 0; i < program->count; i++) {
            count += is_candidate(builder, program, &program->lines[i]);
        }
    }
    searcher->lines = rs_mem_calloc(count + 1, sizeof *searcher->lines);
    searcher->first = rs_mem_calloc(workers + 1, sizeof *searcher->first);
    searcher->members = rs_mem_calloc(workers + 1, sizeof *searcher->members);
    if (searcher->lines == NULL || searcher->first == NULL || searcher->members == NULL) {
        return RS_NOMEM;
    }
    count = 0;
    for (size_t w = 0; w < workers; w++) {
        const struct program *program = &builder->programs[w];
        for (size_t i = 0; i < program->count; i++) {
            if (is_candidate(builder, program, &program->lines[i])) {
                searcher->lines[count++] = (uint32_t)i;
            }
        }
        searcher->first[w + 1] = count;
    }
    return RS_OK;
}

static size_t candidates_of(const struct searcher *searcher, uint32_t worker)
{
    return searcher->first[worker + 1] - searcher->first[worker];
}

static struct line *line_at(const struct searcher *searcher, uint32_t worker, size_t i)
{
    return &searcher->builder->programs[worker].lines[searcher->lines[searcher->first[worker] + i]];
}

static uint64_t signature_of(const struct searcher *searcher, uint32_t worker,
                             const struct line *line)
{
    const struct builder *builder = searcher->builder;
    return builder->analysis->summaries[builder->programs[worker].summary]
        ->spans[line->index]
        .signature;
}

/* All members were recorded, of one class, with as many candidates each, on clocks that can be compared: *bound_p. */
static bool take_members(struct searcher *searcher, const struct rs_job_group *group,
                         rs_dur *bound_p)
{
    const struct builder *builder = searcher->builder;
    const struct diag_worker *workers = builder->model->workers;
    searcher->member_count = 0;
    *bound_p = 0;
    if (group->ranks == NULL || group->rank_count < 2 ||
        (group->size >= 0 && (size_t)group->size != group->rank_count)) {
        return false;
    }
    for (size_t i = 0; i < group->rank_count; i++) {
        const uint32_t worker = build_worker_of(builder, group->ranks[i]);
        if (worker == GRAPH_NONE) {
            return false;
        }
        const uint32_t first = i > 0 ? searcher->members[0] : worker;
        const rs_dur bound = rs_analysis_clock_bound(builder->analysis, workers[first].summary,
                                                     workers[worker].summary);
        if (workers[worker].class_id != workers[first].class_id || bound == RS_NS_MAX ||
            candidates_of(searcher, worker) != candidates_of(searcher, first)) {
            return false;
        }
        *bound_p = bound > *bound_p ? bound : *bound_p;
        searcher->members[searcher->member_count++] = worker;
    }
    return candidates_of(searcher, searcher->members[0]) >= PLACES_LEAST;
}

static bool is_kind(const void *self, uint32_t index, const void *wanted)
{
    const struct kind *kinds = self, *kind = wanted;
    return kinds[index].signature == kind->signature && kinds[index].lane == kind->lane;
}

static uint64_t hash_of(uint64_t signature, uint32_t lane)
{
    return rs_slots_mix(rs_slots_mix(0, signature), lane);
}

/* NULL: none of the kinds of this group. */
static struct kind *kind_of(const struct searcher *searcher, uint64_t signature, uint32_t lane)
{
    const struct kind wanted = {.signature = signature, .lane = lane};
    const uint32_t at = rs_slots_find(&searcher->slots, hash_of(signature, lane), is_kind,
                                      searcher->kinds, &wanted);
    return at != RS_SLOTS_NONE ? &searcher->kinds[at] : NULL;
}

static enum rs_status add_kind(struct searcher *searcher, uint64_t signature, uint32_t lane)
{
    if (kind_of(searcher, signature, lane) != NULL) {
        return RS_OK;
    }
    if (rs_mem_grow((void **)&searcher->kinds, &searcher->kind_capacity, searcher->kind_count + 1,
                    sizeof *searcher->kinds) != RS_OK) {
        return RS_NOMEM;
    }
    searcher->kinds[searcher->kind_count] = (struct kind){.signature = signature, .lane = lane};
    return rs_slots_put(&searcher->slots, hash_of(signature, lane),
                        (uint32_t)searcher->kind_count++);
}

/* The i-th candidate is at the same place on all members, and free on all. */
static bool is_same_place(const struct searcher *searcher, size_t i)
{
    const struct line *first = line_at(searcher, searcher->members[0], i);
    const uint64_t signature = signature_of(searcher, searcher->members[0], first);
    for (size_t m = 0; m < searcher->member_count; m++) {
        const struct line *line = line_at(searcher, searcher->members[m], i);
        if (line->step != first->step || line->slot != first->slot || line->lane != first->lane ||
            line->what != LINE_SPAN ||
            signature_of(searcher, searcher->members[m], line) != signature) {
            return false;
        }
    }
    return true;
}

static enum rs_status judge_place(struct searcher *searcher, size_t i, rs_dur bound)
{
    rs_ns first_start = RS_NS_MAX, last_start = RS_NS_MIN;
    rs_ns first_end = RS_NS_MAX, last_end = RS_NS_MIN;
    if (!is_same_place(searcher, i)) {
        return RS_OK;
    }
    const struct line *line = line_at(searcher, searcher->members[0], i);
    const uint64_t signature = signature_of(searcher, searcher->members[0], line);
    const uint32_t lane = line->lane;
    if (add_kind(searcher, signature, lane) != RS_OK) {
        return RS_NOMEM;
    }
    for (size_t m = 0; m < searcher->member_count; m++) {
        line = line_at(searcher, searcher->members[m], i);
        first_start = line->start < first_start ? line->start : first_start;
        last_start = line->start > last_start ? line->start : last_start;
        first_end = line->end < first_end ? line->end : first_end;
        last_end = line->end > last_end ? line->end : last_end;
    }
    const rs_dur apart = last_start - first_start;
    if (apart > (rs_dur)DIAG_HIDDEN_START_NS + 2 * bound) {
        struct kind *kind = kind_of(searcher, signature, lane);
        kind->told++;
        kind->agreed += last_end - first_end < (rs_dur)(DIAG_HIDDEN_END_PART * (double)apart) &&
                        first_end >= last_start;
    }
    return RS_OK;
}

static bool is_agreed(const struct kind *kind)
{
    return (double)kind->agreed >= DIAG_HIDDEN_PLACES * (double)kind->told;
}

static bool is_operation(const struct kind *kind)
{
    return kind != NULL && kind->told >= PLACES_LEAST && is_agreed(kind);
}

static enum rs_status add_hidden(struct searcher *searcher, size_t i)
{
    struct builder *builder = searcher->builder;
    if (rs_mem_grow((void **)&builder->hidden, &builder->hidden_capacity,
                    builder->hidden_count + searcher->member_count,
                    sizeof *builder->hidden) != RS_OK) {
        return RS_NOMEM;
    }
    const uint32_t meeting = (uint32_t)builder->hidden_count;
    for (size_t m = 0; m < searcher->member_count; m++) {
        const uint32_t worker = searcher->members[m];
        struct line *line = line_at(searcher, worker, i);
        line->is_hidden = true;
        line->is_early = false; /* it was called in its step, on all members */
        line->what = LINE_OP;
        builder->hidden[builder->hidden_count++] = (struct hidden_end){
            .meeting = meeting,
            .worker = worker,
            .line = searcher->lines[searcher->first[worker] + i],
        };
    }
    return RS_OK;
}

static bool is_found(const struct searcher *searcher, uint64_t signature, uint32_t lane)
{
    const uint32_t class_id = searcher->builder->model->workers[searcher->members[0]].class_id;
    for (size_t i = 0; i < searcher->found_count; i++) {
        const struct found *found = &searcher->found[i];
        if (found->signature == signature && found->lane == lane && found->class_id == class_id &&
            found->size == searcher->member_count) {
            return true;
        }
    }
    return false;
}

static enum rs_status note_found(struct searcher *searcher)
{
    for (size_t i = 0; i < searcher->kind_count; i++) {
        const struct kind *kind = &searcher->kinds[i];
        if (!is_operation(kind) || is_found(searcher, kind->signature, kind->lane)) {
            continue;
        }
        if (rs_mem_grow((void **)&searcher->found, &searcher->found_capacity,
                        searcher->found_count + 1, sizeof *searcher->found) != RS_OK) {
            return RS_NOMEM;
        }
        searcher->found[searcher->found_count++] = (struct found){
            .signature = kind->signature,
            .lane = kind->lane,
            .class_id = searcher->builder->model->workers[searcher->members[0]].class_id,
            .size = searcher->member_count};
    }
    return RS_OK;
}

/* extends: takes what is found in other groups where nothing speaks against it. */
static enum rs_status search_group(struct searcher *searcher, const struct rs_job_group *group,
                                   bool extends)
{
    rs_dur bound;
    searcher->kind_count = 0;
    rs_slots_fini(&searcher->slots);
    if (!take_members(searcher, group, &bound)) {
        return RS_OK;
    }
    const size_t count = candidates_of(searcher, searcher->members[0]);
    for (size_t i = 0; i < count; i++) {
        if (judge_place(searcher, i, bound) != RS_OK) {
            return RS_NOMEM;
        }
    }
    for (size_t i = 0; i < count; i++) {
        const struct line *line = line_at(searcher, searcher->members[0], i);
        const uint64_t signature = signature_of(searcher, searcher->members[0], line);
        const struct kind *kind = kind_of(searcher, signature, line->lane);
        const bool is_meant =
            extends ? kind != NULL && is_found(searcher, signature, line->lane) && is_agreed(kind)
                    : is_operation(kind);
        if (is_meant && is_same_place(searcher, i) && add_hidden(searcher, i) != RS_OK) {
            return RS_NOMEM;
        }
    }
    return extends ? RS_OK : note_found(searcher);
}

/* Operations are counted again, with those that were found. */
static void count_slots(struct builder *builder)
{
    for (size_t w = 0; w < builder->model->worker_count; w++) {
        struct program *program = &builder->programs[w];
        uint32_t slot = 0;
        for (size_t i = 0; i < program->count; i++) {
            struct line *line = &program->lines[i];
            slot = i > 0 && line->step != program->lines[i - 1].step ? 0 : slot;
            line->slot = slot;
            slot += line_counts(line);
        }
    }
}

struct by_size {
    size_t size;
    uint32_t group;
};

static int compare_sizes(const void *left, const void *right)
{
    const struct by_size *a = left, *b = right;
    if (a->size != b->size) {
        return a->size < b->size ? 1 : -1;
    }
    return (a->group > b->group) - (a->group < b->group);
}

enum rs_status hidden_find(struct builder *builder)
{
    const struct rs_analysis *analysis = builder->analysis;
    struct searcher *searcher = rs_mem_calloc(1, sizeof *searcher);
    struct by_size *order = rs_mem_calloc(analysis->group_count + 1, sizeof *order);
    enum rs_status status = searcher == NULL || order == NULL ? RS_NOMEM : RS_OK;
    if (status == RS_OK) {
        searcher->builder = builder;
        status = collect(searcher);
    }
    for (uint32_t g = 0; status == RS_OK && g < analysis->group_count; g++) {
        order[g] = (struct by_size){analysis->groups[g].rank_count, g};
    }
    if (status == RS_OK && analysis->group_count > 1) {
        qsort(order, analysis->group_count, sizeof *order, compare_sizes);
    }
    for (size_t i = 0, end; status == RS_OK && i < analysis->group_count; i = end) {
        for (end = i; end < analysis->group_count && order[end].size == order[i].size; end++) {
        }
        for (size_t k = i; status == RS_OK && k < end; k++) {
            status = search_group(searcher, &analysis->groups[order[k].group], false);
        }
        for (size_t k = i; status == RS_OK && searcher->found_count > 0 && k < end; k++) {
            status = search_group(searcher, &analysis->groups[order[k].group], true);
        }
    }
    if (status == RS_OK && builder->hidden_count > 0) {
        count_slots(builder);
    }
    if (searcher != NULL) {
        rs_mem_free(searcher->lines);
        rs_mem_free(searcher->first);
        rs_mem_free(searcher->members);
        rs_mem_free(searcher->kinds);
        rs_slots_fini(&searcher->slots);
        rs_mem_free(searcher->found);
    }
    rs_mem_free(searcher);
    rs_mem_free(order);
    return status;
}
