/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs of recordings that lost rows: profilers drop rows when their buffers are full.
 *
 *     others       A work B work C       an operation of which others have a row and this rank has none was called here, too. Where,
 *     this rank    A   work      C       its own other steps say: B is put back behind A, and of the work between A and C it is not
 *                                        known what came before B and what behind it
 *
 * Without this no two steps of such a recording are one program, so that nobody can be compared with anybody.
 *
 *   which      members of a known group that were recorded and have no row; of a message the other end
 *   stream     that of the rank's other operations with this group or peer; its place there by time: all members' rows end together
 *   place      in the order of calls: by steps that have both rows, its own and those of ranks that run the same program. On each stream the
 *              n-th operation of a step is the same in all of them, so its number names it; the order of these names is put together from
 *              all steps, those that lack least first
 *
 * A row whose launch was lost stands at its start instead of at its call: it has its place in the same way. A step in which the count does
 * not come out as in most others stays as it was recorded, and is not compared. Ranks without a device are left alone: what they wait
 * for is not on a stream.
 */
#include "aggregator/analysis/diagnose/build.h"
#include "common/base/mem.h"
#include "common/base/stretch.h"

#include <stdlib.h>
#include <string.h>

/* ---- which --------------------------------------------------------------------------------- */

static enum rs_status add_lost(struct builder *builder, uint32_t worker, size_t op, uint8_t type,
                               int64_t group_size)
{
    if (worker == GRAPH_NONE) {
        return RS_OK;
    }
    if (rs_mem_grow((void **)&builder->lost, &builder->lost_capacity, builder->lost_count + 1,
                    sizeof *builder->lost) != RS_OK) {
        return RS_NOMEM;
    }
    builder->lost[builder->lost_count++] = (struct lost_op){worker, (uint32_t)op, type, group_size};
    return RS_OK;
}

/* Messages between two ranks, one way. */
struct lane {
    uint32_t from, to;
    size_t both, one; /* messages of which rows of both ends were found, and of one */
};

struct lanes {
    struct lane *items; /* by lane */
    size_t count, capacity;
};

/* Whose message this operation is, of those whose both ends are known by number. */
static bool lane_of(const struct rs_analysis *analysis, const struct rs_job_op *op,
                    struct lane *lane)
{
    const struct rs_job_row *row = &analysis->rows[op->row_first];
    const struct rs_comm_op *own = &analysis->summaries[row->summary]->ops[row->op_index];
    const bool is_single = own->type == RS_OP_SEND || own->type == RS_OP_RECV;
    const bool is_known =
        (own->flags & (RS_OP_PEER_IN_GROUP | RS_OP_ON_DEVICE | RS_OP_IS_BATCH)) == RS_OP_ON_DEVICE;
    if (!op->is_p2p || op->row_count < 1 || !is_single || !is_known || own->peer < 0) {
        return false;
    }
    const bool is_send = own->type == RS_OP_SEND;
    *lane = (struct lane){.from = is_send ? (uint32_t)row->rank : (uint32_t)own->peer,
                          .to = is_send ? (uint32_t)own->peer : (uint32_t)row->rank,
                          .both = op->row_count > 1,
                          .one = op->row_count == 1};
    return true;
}

static int by_lane(const void *left, const void *right)
{
    const struct lane *a = left, *b = right;
    if (a->from != b->from) {
        return a->from > b->from ? 1 : -1;
    }
    return (a->to > b->to) - (a->to < b->to);
}

static enum rs_status find_lanes(const struct rs_analysis *analysis, struct lanes *lanes)
{
    struct lane lane;
    for (size_t i = 0; i < analysis->op_count; i++) {
        if (!lane_of(analysis, &analysis->ops[i], &lane)) {
            continue;
        }
        if (rs_mem_grow((void **)&lanes->items, &lanes->capacity, lanes->count + 1,
                        sizeof *lanes->items) != RS_OK) {
            return RS_NOMEM;
        }
        lanes->items[lanes->count++] = lane;
    }
    if (lanes->count > 1) {
        qsort(lanes->items, lanes->count, sizeof *lanes->items, by_lane);
    }
    size_t kept = 0;
    for (size_t i = 0; i < lanes->count; i++) {
        if (kept && by_lane(&lanes->items[kept - 1], &lanes->items[i]) == 0) {
            lanes->items[kept - 1].both += lanes->items[i].both;
            lanes->items[kept - 1].one += lanes->items[i].one;
        } else {
            lanes->items[kept++] = lanes->items[i];
        }
    }
    lanes->count = kept;
    return RS_OK;
}

/* Most of its messages have both ends, so that one that lacks an end lost it. Where hardly any has, it is that nobody could tell which rows
 * are of one message: none was lost for that. */
static bool is_matched_mostly(const struct lanes *lanes, const struct lane *lane)
{
    const struct lane *found =
        lanes->count ? bsearch(lane, lanes->items, lanes->count, sizeof *lane, by_lane) : NULL;
    return found && found->both > found->one;
}

/* Of a message that one end has no row of. */
static enum rs_status find_end(struct builder *builder, const struct lanes *lanes, size_t at)
{
    const struct rs_job_op *op = &builder->analysis->ops[at];
    struct lane lane;
    if (op->row_count != 1 || !lane_of(builder->analysis, op, &lane) ||
        !is_matched_mostly(lanes, &lane)) {
        return RS_OK;
    }
    const struct rs_job_row *row = &builder->analysis->rows[op->row_first];
    const bool has_send = lane.from == (uint32_t)row->rank;
    return add_lost(builder,
                    build_worker_of(builder, has_send ? (int32_t)lane.to : (int32_t)lane.from), at,
                    has_send ? RS_OP_RECV : RS_OP_SEND, 0);
}

static enum rs_status find_members(struct builder *builder, size_t at)
{
    const struct rs_analysis *analysis = builder->analysis;
    const struct rs_job_op *op = &analysis->ops[at];
    const struct rs_job_group *group =
        op->group != RS_NO_GROUP ? &analysis->groups[op->group] : NULL;
    const struct rs_job_row *first = &analysis->rows[op->row_first];
    const struct rs_summary *summary = analysis->summaries[first->summary];
    const struct rs_comm_op *own = &summary->ops[first->op_index];
    size_t row = op->row_first;
    if (group == NULL || group->ranks == NULL || (own->flags & RS_OP_ON_DEVICE) == 0) {
        return RS_OK;
    }
    const int64_t size = own->group < summary->group_count ? summary->groups[own->group].size : 0;
    for (size_t i = 0; i < group->rank_count; i++) {
        while (row < op->row_first + op->row_count && analysis->rows[row].rank < group->ranks[i]) {
            row++;
        }
        const bool has_row =
            row < op->row_first + op->row_count && analysis->rows[row].rank == group->ranks[i];
        if (!has_row && add_lost(builder, build_worker_of(builder, group->ranks[i]), at, own->type,
                                 size) != RS_OK) {
            return RS_NOMEM;
        }
    }
    return RS_OK;
}

static int by_worker(const void *left, const void *right)
{
    const struct lost_op *a = left, *b = right;
    if (a->worker != b->worker) {
        return a->worker > b->worker ? 1 : -1;
    }
    return (a->op > b->op) - (a->op < b->op);
}

/* Where a recording begins or ends, healthy ones lack rows, too: that alone is no loss. */
static bool has_any_within(const struct builder *builder)
{
    const struct diag_model *model = builder->model;
    for (size_t i = 0; i < builder->lost_count; i++) {
        const int64_t step = builder->analysis->ops[builder->lost[i].op].step;
        if (step > model->steps[0] && step < model->steps[model->step_count - 1]) {
            return true;
        }
    }
    return false;
}

/* Of operations so few lack what launched them that it is no habit of who wrote the file. */
enum { CALLS_LOST_MOST = 4 };

/* Nobody lost rows of operations, but somebody what launched them: rows of work were lost, too. */
static bool lacks_calls(const struct builder *builder)
{
    const struct diag_model *model = builder->model;
    size_t lacking = 0, all = 0;
    for (size_t w = 0; w < model->worker_count; w++) {
        const struct rs_summary *summary = builder->analysis->summaries[model->workers[w].summary];
        for (size_t i = 0; i < summary->op_count; i++) {
            const struct rs_comm_op *op = &summary->ops[i];
            const bool is_within = (op->flags & RS_OP_ON_DEVICE) != 0 &&
                                   op->step > model->steps[0] &&
                                   op->step < model->steps[model->step_count - 1];
            all += is_within;
            lacking += is_within && op->call_start >= op->start;
        }
    }
    return model->worker_count > 1 && lacking > 0 && lacking * CALLS_LOST_MOST < all;
}

enum rs_status lost_find(struct builder *builder)
{
    const struct rs_analysis *analysis = builder->analysis;
    struct lanes lanes = {0};
    enum rs_status status = find_lanes(analysis, &lanes);
    for (size_t i = 0; status == RS_OK && i < analysis->op_count; i++) {
        const struct rs_job_op *op = &analysis->ops[i];
        if (op->coverage != RS_COVERAGE_EXACT && op->row_count > 0) {
            status = op->is_p2p ? find_end(builder, &lanes, i) : find_members(builder, i);
        }
    }
    rs_mem_free(lanes.items);
    builder->model->has_lost_rows =
        builder->has_cut || has_any_within(builder) || lacks_calls(builder);
    if (builder->model->has_lost_rows && builder->model->best < RS_CONFIDENCE_PARTIAL) {
        builder->model->best = RS_CONFIDENCE_PARTIAL;
    }
    builder->lost_count = builder->model->has_lost_rows ? builder->lost_count : 0;
    if (status == RS_OK && builder->lost_count > 1) {
        qsort(builder->lost, builder->lost_count, sizeof *builder->lost, by_worker);
    }
    return status;
}

static size_t first_lost_of(const struct builder *builder, uint32_t worker)
{
    size_t low = 0, high = builder->lost_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (builder->lost[middle].worker < worker) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

size_t lost_of(const struct builder *builder, uint32_t worker)
{
    return first_lost_of(builder, worker + 1) - first_lost_of(builder, worker);
}

/* ---- one rank ------------------------------------------------------------------------------ */

/* An operation of a step, as its stream knows it. */
struct call {
    uint32_t lane, line;
    rs_ns end;
};

/* A step in which the calls come out as in most. */
struct whole_step {
    uint32_t worker, step, unplaced;
};

struct pair {
    uint32_t a, b;
};

/* The calls of a step, and which of the pool's it is. */
struct seen {
    uint64_t signature;
    uint32_t order;
};

struct mender {
    struct builder *builder;
    struct program *program;
    uint32_t *op_of;    /* [flat op] of the analysis; GRAPH_NONE */
    struct pair *pairs; /* who sends messages to whom */
    size_t pair_count;
    uint32_t *pool;       /* [worker] another one that runs the same program, or itself */
    uint64_t *signatures; /* [worker * steps] of the streams' calls */
    struct seen *seen;    /* [worker * steps] scratch */
    uint32_t *mark;       /* [worker] scratch */
    /* of the pool at hand */
    struct whole_step *steps; /* [worker * steps] */
    size_t step_count;
    uint32_t *behind; /* [room + 1] of each call the one behind it; of the last place, the first */
    uint32_t *rank;   /* [room] of each call */
    uint8_t *is_ordered; /* [room] the call is among `behind` */
    /* of the program at hand */
    size_t room;           /* lines that there is room for */
    struct call *calls;    /* [room] of the step at hand, by stream and time */
    struct line *arranged; /* [room] */
    uint32_t *waiting;     /* [room] lines without a place */
    uint32_t *ahead;       /* [room] */
};

static bool is_launched(const struct mender *mender, const struct line *line)
{
    const struct rs_comm_op *op = line_op(mender->builder, mender->program, line);
    return op->call_start < op->start;
}

/* It stands where it was called. */
static bool has_place(const struct mender *mender, const struct line *line)
{
    return line->what == LINE_OP && (line->on_host || is_launched(mender, line));
}

static const struct line *line_of_row(const struct mender *mender, const struct rs_job_row *row,
                                      const struct program **program_p)
{
    const struct builder *builder = mender->builder;
    const uint32_t worker = builder->worker_of[row->summary];
    if (worker == GRAPH_NONE) {
        return NULL;
    }
    const uint32_t line = builder->op_line[builder->op_base[row->summary] + row->op_index];
    *program_p = &builder->programs[worker];
    return line != GRAPH_NONE ? &builder->programs[worker].lines[line] : NULL;
}

/* The step that others called an operation in, and when it ended for them. False: nobody can say. */
static bool seen_by_others(const struct mender *mender, uint32_t op_index, uint32_t *step_p,
                           rs_ns *end_p)
{
    const struct rs_analysis *analysis = mender->builder->analysis;
    const struct rs_job_op *op = &analysis->ops[op_index];
    size_t seen = 0;
    for (size_t r = op->row_first; r < op->row_first + op->row_count; r++) {
        const struct program *program = NULL;
        const struct line *line = line_of_row(mender, &analysis->rows[r], &program);
        if (line == NULL || program == mender->program) {
            continue;
        }
        const struct rs_comm_op *own = line_op(mender->builder, program, line);
        if (line->is_early || own->call_start >= own->start) {
            continue;
        }
        *step_p = line->step;
        *end_p = line->end;
        seen++;
    }
    return seen > 0;
}

/* Calls without a launch may be counted to another step than they were called in: the others know. */
static void set_steps(const struct mender *mender)
{
    const struct program *program = mender->program;
    for (size_t i = 0; i < program->count; i++) {
        struct line *line = &program->lines[i];
        uint32_t step;
        rs_ns end;
        if (line->what != LINE_OP || has_place(mender, line)) {
            continue;
        }
        const uint32_t op = mender->op_of[mender->builder->op_base[program->summary] + line->index];
        if (op != GRAPH_NONE && seen_by_others(mender, op, &step, &end)) {
            line->step = step;
            line->is_early = false; /* it was not called before the recording */
        }
    }
}

/* The stream of the rank's other operations of that group, or with that peer. */
static bool find_stream(const struct mender *mender, const struct lost_op *lost, uint32_t *lane_p)
{
    const struct builder *builder = mender->builder;
    const struct program *program = mender->program;
    const struct rs_job_op *job_op = &builder->analysis->ops[lost->op];
    const int32_t peer = builder->analysis->rows[job_op->row_first].rank;
    for (size_t i = 0; i < program->count; i++) {
        const struct line *line = &program->lines[i];
        if (line->what != LINE_OP) {
            continue;
        }
        const struct rs_comm_op *own = line_op(builder, program, line);
        const uint32_t op = mender->op_of[builder->op_base[program->summary] + line->index];
        const bool is_same = job_op->is_p2p
                                 ? own->type == lost->type && own->peer == peer
                                 : op != GRAPH_NONE && !builder->analysis->ops[op].is_p2p &&
                                       builder->analysis->ops[op].group == job_op->group;
        if (is_same) {
            *lane_p = line->lane;
            return true;
        }
    }
    return false;
}

/* What was recorded of the rank's device: before and behind, nothing was lost. */
static struct rs_stretch recorded_of(const struct program *program)
{
    struct rs_stretch all = {.start = RS_NS_MAX, .end = RS_NS_MIN};
    for (size_t i = 0; i < program->count; i++) {
        const struct line *line = &program->lines[i];
        if (!line->on_host && (line->what == LINE_OP || line->what == LINE_SPAN)) {
            all.start = line->start < all.start ? line->start : all.start;
            all.end = line->end > all.end ? line->end : all.end;
        }
    }
    return all;
}

static void add_lines(const struct mender *mender)
{
    const struct builder *builder = mender->builder;
    struct program *program = mender->program;
    const size_t first = first_lost_of(builder, program->worker);
    const size_t end = first_lost_of(builder, program->worker + 1);
    const struct rs_stretch recorded = recorded_of(program);
    for (size_t i = first; i < end && program->count < program->most; i++) {
        struct line line = {.order = INT64_MAX, .what = LINE_LOST, .index = (uint32_t)i};
        if (!seen_by_others(mender, builder->lost[i].op, &line.step, &line.end) ||
            !find_stream(mender, &builder->lost[i], &line.lane)) {
            continue;
        }
        line.start = line.launch = line.end;
        line.launch_node = line.first_node = line.end_node = line.work_node = GRAPH_NONE;
        if (recorded.start < line.end && line.end < recorded.end) {
            program->lines[program->count++] = line;
        }
    }
}

static int by_stream(const void *left, const void *right)
{
    const struct call *a = left, *b = right;
    if (a->lane != b->lane) {
        return a->lane > b->lane ? 1 : -1;
    }
    if (a->end != b->end) {
        return a->end > b->end ? 1 : -1;
    }
    return (a->line > b->line) - (a->line < b->line);
}

/* Names the calls of a step by stream and number; what they are, in that order, is its signature. */
static uint64_t name_calls(const struct mender *mender, size_t k)
{
    struct program *program = mender->program;
    size_t count = 0;
    for (size_t i = program->step_first[k]; i < program->step_first[k + 1]; i++) {
        const struct line *line = &program->lines[i];
        if (line_counts(line)) {
            mender->calls[count++] = (struct call){line->lane, (uint32_t)i, line->end};
        }
    }
    qsort(mender->calls, count, sizeof *mender->calls, by_stream);
    uint64_t hash = rs_slots_mix(1, count);
    for (size_t c = 0; c < count; c++) {
        const struct line *line = &program->lines[mender->calls[c].line];
        const uint8_t type = line->what == LINE_LOST
                                 ? mender->builder->lost[line->index].type
                                 : line_op(mender->builder, program, line)->type;
        hash = rs_slots_mix(rs_slots_mix(hash, type), mender->calls[c].lane);
        program->lines[mender->calls[c].line].key = (uint32_t)c;
    }
    return hash;
}

/* ---- who runs the same program -------------------------------------------------------------- */

static uint32_t root_of(const struct mender *mender, uint32_t worker)
{
    while (mender->pool[worker] != worker) {
        worker = mender->pool[worker];
    }
    return worker;
}

static int by_pair(const void *left, const void *right)
{
    const struct pair *a = left, *b = right;
    if (a->a != b->a) {
        return a->a > b->a ? 1 : -1;
    }
    return (a->b > b->b) - (a->b < b->b);
}

/* Every group looks at all of them. */
static void keep_each_once(struct mender *mender)
{
    size_t kept = 0;
    qsort(mender->pairs, mender->pair_count, sizeof *mender->pairs, by_pair);
    for (size_t i = 0; i < mender->pair_count; i++) {
        if (kept == 0 || by_pair(&mender->pairs[kept - 1], &mender->pairs[i]) != 0) {
            mender->pairs[kept++] = mender->pairs[i];
        }
    }
    mender->pair_count = kept;
}

static enum rs_status find_pairs(struct mender *mender)
{
    const struct builder *builder = mender->builder;
    const struct rs_analysis *analysis = builder->analysis;
    mender->pairs = rs_mem_calloc(analysis->op_count + 1, sizeof *mender->pairs);
    if (mender->pairs == NULL) {
        return RS_NOMEM;
    }
    for (size_t i = 0; i < analysis->op_count; i++) {
        const struct rs_job_op *op = &analysis->ops[i];
        if (!op->is_p2p || op->row_count < 2) {
            continue;
        }
        const struct pair pair = {builder->worker_of[analysis->rows[op->row_first].summary],
                                  builder->worker_of[analysis->rows[op->row_first + 1].summary]};
        const struct pair *last =
            mender->pair_count > 0 ? &mender->pairs[mender->pair_count - 1] : NULL;
        const bool is_known = last != NULL && last->a == pair.a && last->b == pair.b;
        if (pair.a != GRAPH_NONE && pair.b != GRAPH_NONE && !is_known) {
            mender->pairs[mender->pair_count++] = pair;
        }
    }
    keep_each_once(mender);
    return RS_OK;
}

/* Members of a group run the same program, where none of them sends messages to another: those are stages. */
static void join_group(const struct mender *mender, uint32_t group_index)
{
    const struct builder *builder = mender->builder;
    const struct rs_job_group *group = &builder->analysis->groups[group_index];
    const uint32_t mark = group_index + 1;
    uint32_t first = GRAPH_NONE;
    for (size_t i = 0; group->ranks != NULL && i < group->rank_count; i++) {
        const uint32_t worker = build_worker_of(builder, group->ranks[i]);
        if (worker != GRAPH_NONE) {
            mender->mark[worker] = mark;
        }
    }
    for (size_t i = 0; i < mender->pair_count; i++) {
        if (mender->mark[mender->pairs[i].a] == mark && mender->mark[mender->pairs[i].b] == mark) {
            return;
        }
    }
    for (uint32_t w = 0; w < builder->model->worker_count; w++) {
        if (mender->mark[w] == mark && !builder->programs[w].is_host) {
            first = first == GRAPH_NONE ? root_of(mender, w) : first;
            mender->pool[root_of(mender, w)] = first;
        }
    }
}

static int by_signature(const void *left, const void *right)
{
    const struct seen *a = left, *b = right;
    if (a->signature != b->signature) {
        return a->signature > b->signature ? 1 : -1;
    }
    return (a->order > b->order) - (a->order < b->order);
}

/* What most steps of the pool call; of those that are as frequent the one that was called first. */
static uint64_t usual_calls(const struct mender *mender, uint32_t pool)
{
    const size_t steps = mender->builder->model->step_count;
    struct seen usual = {0};
    size_t count = 0, most = 0;
    for (uint32_t w = 0; w < mender->builder->model->worker_count; w++) {
        for (size_t k = 0; mender->pool[w] == pool && k < steps; k++) {
            mender->seen[count] = (struct seen){mender->signatures[w * steps + k], (uint32_t)count};
            count++;
        }
    }
    qsort(mender->seen, count, sizeof *mender->seen, by_signature);
    for (size_t i = 0, end = 0; i < count; i = end) {
        const struct seen *first = &mender->seen[i];
        for (end = i + 1; end < count && mender->seen[end].signature == first->signature;) {
            end++;
        }
        if (end - i > most || (end - i == most && first->order < usual.order)) {
            most = end - i;
            usual = *first;
        }
    }
    return usual.signature;
}

static int by_unplaced(const void *left, const void *right)
{
    const struct whole_step *a = left, *b = right;
    if (a->unplaced != b->unplaced) {
        return a->unplaced > b->unplaced ? 1 : -1;
    }
    if (a->worker != b->worker) {
        return a->worker > b->worker ? 1 : -1;
    }
    return (a->step > b->step) - (a->step < b->step);
}

static void set_program(struct mender *mender, uint32_t worker)
{
    mender->program = &mender->builder->programs[worker];
}

/* The pool's steps whose calls are the usual ones, those first in which fewest lack a place. How many calls they have. */
static size_t find_whole_steps(struct mender *mender, uint32_t pool)
{
    const size_t steps = mender->builder->model->step_count;
    const uint64_t usual = usual_calls(mender, pool);
    size_t calls = 0;
    mender->step_count = 0;
    for (uint32_t w = 0; w < mender->builder->model->worker_count; w++) {
        for (size_t k = 0; mender->pool[w] == pool && k < steps; k++) {
            if (mender->signatures[w * steps + k] != usual) {
                continue;
            }
            uint32_t unplaced = 0;
            calls = 0;
            set_program(mender, w);
            for (size_t i = mender->program->step_first[k]; i < mender->program->step_first[k + 1];
                 i++) {
                const struct line *line = &mender->program->lines[i];
                calls += line_counts(line);
                unplaced += line_counts(line) && !has_place(mender, line);
            }
            mender->steps[mender->step_count++] = (struct whole_step){w, (uint32_t)k, unplaced};
        }
    }
    qsort(mender->steps, mender->step_count, sizeof *mender->steps, by_unplaced);
    return calls;
}

/* ---- the order of calls --------------------------------------------------------------------- */

/* Puts those of a step that have a place among the others. Not `forced`: only where nothing else may stand at the same place. `head`: the
 * name of what is before the first. */
static void merge_step(const struct mender *mender, size_t k, uint32_t head, bool forced)
{
    const struct program *program = mender->program;
    uint32_t next = GRAPH_NONE, before = head;
    for (size_t i = program->step_first[k + 1]; i-- > program->step_first[k];) {
        if (line_counts(&program->lines[i]) && has_place(mender, &program->lines[i])) {
            mender->ahead[i] = next;
            next = mender->is_ordered[program->lines[i].key] ? program->lines[i].key : next;
        }
    }
    for (size_t i = program->step_first[k]; i < program->step_first[k + 1]; i++) {
        if (!line_counts(&program->lines[i]) || !has_place(mender, &program->lines[i])) {
            continue;
        }
        const uint32_t key = program->lines[i].key;
        if (mender->is_ordered[key]) {
            before = key;
        } else if (forced || mender->behind[before] == mender->ahead[i]) {
            mender->is_ordered[key] = 1;
            mender->behind[key] = mender->behind[before];
            mender->behind[before] = key;
            before = key;
        }
    }
}

static void find_order(struct mender *mender, size_t keys)
{
    const uint32_t head = (uint32_t)keys;
    memset(mender->is_ordered, 0, keys);
    mender->behind[head] = GRAPH_NONE;
    for (size_t s = 0; s < 2 * mender->step_count; s++) {
        const struct whole_step *step = &mender->steps[s % mender->step_count];
        set_program(mender, step->worker);
        merge_step(mender, step->step, head, s >= mender->step_count);
    }
    /* What has a place in no step stands behind the one before it on its stream. */
    for (uint32_t key = 0; key < keys; key++) {
        const uint32_t before = key > 0 ? key - 1 : head;
        if (!mender->is_ordered[key]) {
            mender->behind[key] = mender->behind[before];
            mender->behind[before] = key;
        }
    }
    uint32_t rank = 0;
    for (uint32_t key = mender->behind[head]; key != GRAPH_NONE; key = mender->behind[key]) {
        mender->rank[key] = rank++;
    }
}

/* ---- every line in its place ------------------------------------------------------------------ */

static uint32_t rank_of(const struct mender *mender, size_t line)
{
    return mender->rank[mender->program->lines[line].key];
}

/* The lines of a step as they were arranged; a step may have none. */
static void put_arranged(const struct mender *mender, size_t first, size_t count)
{
    if (count > 0) {
        memcpy(&mender->program->lines[first], mender->arranged, count * sizeof *mender->arranged);
    }
}

/* Of the calls without a place those that stand before `rank`, from *next_p on; work that came since the last call may be behind them. */
static size_t put_waiting(const struct mender *mender, size_t waiting, size_t *next_p,
                          uint32_t rank, size_t since, size_t count)
{
    const struct program *program = mender->program;
    while (*next_p < waiting && rank_of(mender, mender->waiting[*next_p]) < rank) {
        for (size_t i = since; i < count; i++) {
            mender->arranged[i].is_astray = mender->arranged[i].what == LINE_SPAN;
        }
        since = count;
        mender->arranged[count] = program->lines[mender->waiting[(*next_p)++]];
        mender->arranged[count++].is_astray = true;
    }
    return count;
}

static void arrange_step(const struct mender *mender, size_t k)
{
    const struct program *program = mender->program;
    const size_t first = program->step_first[k], end = program->step_first[k + 1];
    size_t waiting = 0, next = 0, count = 0, since = 0;
    for (size_t i = first; i < end; i++) {
        if (!line_counts(&program->lines[i]) || has_place(mender, &program->lines[i])) {
            continue;
        }
        size_t at = waiting++; /* few: sorted as they come */
        const uint32_t rank = rank_of(mender, i);
        for (; at > 0 && rank_of(mender, mender->waiting[at - 1]) > rank; at--) {
            mender->waiting[at] = mender->waiting[at - 1];
        }
        mender->waiting[at] = (uint32_t)i;
    }
    for (size_t i = first; i < end; i++) {
        const struct line *line = &program->lines[i];
        if (line_counts(line) && !has_place(mender, line)) {
            continue;
        }
        if (line_counts(line)) {
            count = put_waiting(mender, waiting, &next, rank_of(mender, i), since, count);
            since = count + 1;
        }
        mender->arranged[count++] = *line;
    }
    count = put_waiting(mender, waiting, &next, GRAPH_NONE, since, count);
    put_arranged(mender, first, count);
}

/* Of a step with other calls than most only what a stream tells is known: a call without a place was made before the next one of its stream. */
static void arrange_by_stream(const struct mender *mender, size_t k)
{
    const struct program *program = mender->program;
    const size_t first = program->step_first[k], end = program->step_first[k + 1];
    size_t waiting = 0, count = 0;
    for (size_t i = first; i < end; i++) {
        if (line_counts(&program->lines[i]) && !has_place(mender, &program->lines[i])) {
            size_t at = waiting++; /* few: sorted as they come */
            for (; at > 0 && program->lines[mender->waiting[at - 1]].end > program->lines[i].end;
                 at--) {
                mender->waiting[at] = mender->waiting[at - 1];
            }
            mender->waiting[at] = (uint32_t)i;
        }
    }
    for (size_t i = first; i <= end; i++) {
        const struct line *line = i < end ? &program->lines[i] : NULL;
        const bool is_call = line != NULL && line_counts(line);
        size_t left = 0;
        if (is_call && !has_place(mender, line)) {
            continue;
        }
        for (size_t n = 0; n < waiting; n++) {
            const struct line *call = &program->lines[mender->waiting[n]];
            if (line == NULL || (is_call && call->lane == line->lane && call->end < line->end)) {
                mender->arranged[count++] = *call;
            } else {
                mender->waiting[left++] = mender->waiting[n];
            }
        }
        waiting = left;
        if (line != NULL) {
            mender->arranged[count++] = *line;
        }
    }
    put_arranged(mender, first, count);
}

static size_t waits_of(const struct program *program, size_t k)
{
    size_t waits = 0;
    for (size_t i = program->step_first[k]; i < program->step_first[k + 1]; i++) {
        waits += program->lines[i].what == LINE_WAIT;
    }
    return waits;
}

/* Most waits of the host in any of the pool's steps. */
static size_t most_waits(const struct mender *mender, uint32_t pool)
{
    const struct builder *builder = mender->builder;
    size_t most = 0;
    for (uint32_t w = 0; w < builder->model->worker_count; w++) {
        for (size_t k = 0; mender->pool[w] == pool && k < builder->model->step_count; k++) {
            const size_t waits = waits_of(&builder->programs[w], k);
            most = waits > most ? waits : most;
        }
    }
    return most;
}

/* How many waits most of the pool's steps have; of numbers that are as frequent the highest. `with`: zeroed room, [waits] steps. */
static size_t usual_waits(const struct mender *mender, uint32_t pool, size_t most, size_t *with)
{
    const struct builder *builder = mender->builder;
    size_t usual = 0;
    for (uint32_t w = 0; w < builder->model->worker_count; w++) {
        for (size_t k = 0; mender->pool[w] == pool && k < builder->model->step_count; k++) {
            with[waits_of(&builder->programs[w], k)]++;
        }
    }
    for (size_t n = 0; n <= most; n++) {
        usual = with[n] >= with[usual] ? n : usual;
    }
    return usual;
}

/* Steps that have fewer waits of the host than most of the pool's: how long the host worked in them is not known. */
static enum rs_status find_lacking(const struct mender *mender, uint32_t pool)
{
    const struct builder *builder = mender->builder;
    const size_t most = most_waits(mender, pool);
    size_t *with = rs_mem_calloc(most + 1, sizeof *with);
    if (with == NULL) {
        return RS_NOMEM;
    }
    const size_t usual = usual_waits(mender, pool, most, with);
    for (uint32_t w = 0; w < builder->model->worker_count; w++) {
        const struct program *program = &builder->programs[w];
        for (size_t k = 0; mender->pool[w] == pool && k < builder->model->step_count; k++) {
            program->step_lacks_waits[k] = waits_of(program, k) < usual;
        }
    }
    rs_mem_free(with);
    return RS_OK;
}

struct stream {
    int64_t number;
    uint32_t lane;
};

static int by_number(const void *left, const void *right)
{
    const struct stream *a = left, *b = right;
    return (a->number > b->number) - (a->number < b->number);
}

/* Streams by number, not by first appearance: the first rows may be among those that were lost. */
static enum rs_status sort_streams(const struct program *program)
{
    const size_t count = program->lane_count;
    struct stream *streams = rs_mem_calloc(count + 1, sizeof *streams);
    uint32_t *lanes = rs_mem_calloc(count + 1, sizeof *lanes);
    if (streams == NULL || lanes == NULL) {
        rs_mem_free(streams);
        rs_mem_free(lanes);
        return RS_NOMEM;
    }
    for (uint32_t lane = 0; lane < count; lane++) {
        streams[lane] = (struct stream){program->lanes[lane], lane};
    }
    qsort(streams, count, sizeof *streams, by_number);
    for (uint32_t lane = 0; lane < count; lane++) {
        program->lanes[lane] = streams[lane].number;
        lanes[streams[lane].lane] = lane;
    }
    for (size_t i = 0; i < program->count; i++) {
        program->lines[i].lane = lanes[program->lines[i].lane];
    }
    rs_mem_free(streams);
    rs_mem_free(lanes);
    return RS_OK;
}

/* All calls that are known of a program, with names. */
static enum rs_status gather_calls(struct mender *mender)
{
    struct builder *builder = mender->builder;
    struct program *program = mender->program;
    const size_t steps = builder->model->step_count;
    program->step_lacks_waits = rs_mem_calloc(steps + 1, 1);
    if (program->step_lacks_waits == NULL || sort_streams(program) != RS_OK) {
        return RS_NOMEM;
    }
    set_steps(mender);
    add_lines(mender);
    program_sort(program, steps);
    for (size_t k = 0; k < steps; k++) {
        mender->signatures[program->worker * steps + k] = name_calls(mender, k);
    }
    /* Others ask for steps of its lines: where they stand now is known at once. */
    return program_sign(builder, program);
}

/* A rank with no such step has another program than the others: it is a pool for itself. */
static void leave_pools(const struct mender *mender)
{
    const size_t workers = mender->builder->model->worker_count;
    const size_t steps = mender->builder->model->step_count;
    for (uint32_t w = 0; w < workers; w++) {
        mender->mark[w] = root_of(mender, w);
    }
    memcpy(mender->pool, mender->mark, workers * sizeof *mender->pool);
    for (uint32_t pool = 0; pool < workers; pool++) {
        const uint64_t usual = usual_calls(mender, pool);
        for (uint32_t w = 0; w < workers; w++) {
            bool has_usual = false;
            for (size_t k = 0; mender->pool[w] == pool && k < steps; k++) {
                has_usual = has_usual || mender->signatures[w * steps + k] == usual;
            }
            mender->mark[w] = mender->pool[w] == pool && !has_usual ? w : mender->mark[w];
        }
    }
    memcpy(mender->pool, mender->mark, workers * sizeof *mender->pool);
}

static enum rs_status mend_pool(struct mender *mender, uint32_t pool)
{
    const size_t calls = find_whole_steps(mender, pool);
    if (mender->step_count == 0) {
        return RS_OK;
    }
    find_order(mender, calls);
    for (size_t s = 0; s < mender->step_count; s++) {
        set_program(mender, mender->steps[s].worker);
        arrange_step(mender, mender->steps[s].step);
    }
    const size_t steps = mender->builder->model->step_count;
    const struct whole_step *first = &mender->steps[0];
    const uint64_t usual = mender->signatures[first->worker * steps + first->step];
    enum rs_status status = RS_OK;
    for (uint32_t w = 0; status == RS_OK && w < mender->builder->model->worker_count; w++) {
        if (mender->pool[w] != pool) {
            continue;
        }
        set_program(mender, w);
        for (size_t k = 0; k < steps; k++) {
            if (mender->signatures[w * steps + k] != usual) {
                arrange_by_stream(mender, k);
            }
        }
        status = program_sign(mender->builder, mender->program);
    }
    /* Its program is what the others run, however few of its steps lack nothing. */
    for (size_t i = 0; i < mender->step_count; i++) {
        struct program *program = &mender->builder->programs[mender->steps[i].worker];
        program->signature = program->step_signatures[mender->steps[i].step];
    }
    return status;
}

static enum rs_status mend_all(struct mender *mender)
{
    const struct builder *builder = mender->builder;
    const size_t workers = builder->model->worker_count;
    enum rs_status status = find_pairs(mender);
    for (uint32_t w = 0; status == RS_OK && w < workers; w++) {
        mender->pool[w] = w;
        set_program(mender, w);
        status = mender->program->is_host ? RS_OK : gather_calls(mender);
    }
    for (uint32_t g = 0; status == RS_OK && g < builder->analysis->group_count; g++) {
        join_group(mender, g);
    }
    if (status == RS_OK) {
        leave_pools(mender);
    }
    for (uint32_t w = 0; status == RS_OK && w < workers; w++) {
        if (!builder->programs[w].is_host) {
            status = find_lacking(mender, w);
            status = status == RS_OK ? mend_pool(mender, w) : status;
        }
    }
    return status;
}

static enum rs_status find_ops(struct mender *mender)
{
    const struct builder *builder = mender->builder;
    const struct rs_analysis *analysis = builder->analysis;
    const size_t ops = builder->op_base[analysis->summary_count];
    mender->op_of = rs_mem_calloc(ops + 1, sizeof *mender->op_of);
    if (mender->op_of == NULL) {
        return RS_NOMEM;
    }
    for (size_t i = 0; i < ops; i++) {
        mender->op_of[i] = GRAPH_NONE;
    }
    for (size_t i = 0; i < analysis->op_count; i++) {
        const struct rs_job_op *op = &analysis->ops[i];
        for (size_t r = op->row_first; r < op->row_first + op->row_count; r++) {
            const struct rs_job_row *row = &analysis->rows[r];
            mender->op_of[builder->op_base[row->summary] + row->op_index] = (uint32_t)i;
        }
    }
    return RS_OK;
}

static enum rs_status make_room(struct mender *mender)
{
    const struct diag_model *model = mender->builder->model;
    const size_t room = mender->room + 1;
    const size_t steps = model->worker_count * model->step_count + 1;
    mender->calls = rs_mem_calloc(room, sizeof *mender->calls);
    mender->behind = rs_mem_calloc(4 * room, sizeof *mender->behind);
    mender->arranged = rs_mem_calloc(room, sizeof *mender->arranged);
    mender->is_ordered = rs_mem_calloc(room, 1);
    mender->signatures = rs_mem_calloc(steps, sizeof *mender->signatures);
    mender->seen = rs_mem_calloc(steps, sizeof *mender->seen);
    mender->steps = rs_mem_calloc(steps, sizeof *mender->steps);
    mender->pool = rs_mem_calloc(2 * model->worker_count + 1, sizeof *mender->pool);
    if (mender->calls == NULL || mender->behind == NULL || mender->arranged == NULL ||
        mender->is_ordered == NULL || mender->signatures == NULL || mender->seen == NULL ||
        mender->steps == NULL || mender->pool == NULL) {
        return RS_NOMEM;
    }
    mender->mark = mender->pool + model->worker_count;
    mender->waiting = mender->behind + room;
    mender->rank = mender->waiting + room;
    mender->ahead = mender->rank + room;
    return RS_OK;
}

enum rs_status lost_put_back(struct builder *builder)
{
    struct mender mender = {.builder = builder};
    if (!builder->model->has_lost_rows) {
        return RS_OK;
    }
    for (size_t w = 0; w < builder->model->worker_count; w++) {
        const size_t most = builder->programs[w].most;
        mender.room = most > mender.room ? most : mender.room;
    }
    enum rs_status status = find_ops(&mender);
    status = status == RS_OK ? make_room(&mender) : status;
    status = status == RS_OK ? mend_all(&mender) : status;
    rs_mem_free(mender.op_of);
    rs_mem_free(mender.pairs);
    rs_mem_free(mender.pool);
    rs_mem_free(mender.calls);
    rs_mem_free(mender.behind);
    rs_mem_free(mender.arranged);
    rs_mem_free(mender.is_ordered);
    rs_mem_free(mender.signatures);
    rs_mem_free(mender.seen);
    rs_mem_free(mender.steps);
    return status;
}
