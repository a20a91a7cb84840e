/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations whose group no file names: who is in it?
 *
 *   channel   what runs one communicator's operations in one process: a device stream; on gloo a pair
 *             of worker threads (every group has two, created one after the other, which take
 *             calls alternately as they come)
 *   unit      channels of different ranks whose operations pair up: same types and messages in the same
 *             order, feasible on a common clock
 *
 * The longest free channel of the lowest rank starts a unit; every other rank gives the free channel that
 * pairs up best, if it pairs up at all (11 of 20 operations: rows may be missing on both sides). Feasibility is held against
 * the whole unit, as in match.c. A short recording may let a wrong rank in: two groups of two that call at
 * the same moment. So afterwards a rank left alone may take its true partners out of a unit
 * that stays a group without them.
 *
 * Across clock domains, where no time tells, only the group of all ranks is found, and only if nothing else can be meant: the
 * unit holds every rank of its domain, and each other rank has one channel that pairs up, not two, row by row. What is accepted: smaller
 * groups across hosts stay unmatched when no file names them, and so does everything where ranks have several like channels or
 * lost rows.
 */
#include "aggregator/analysis/infer_priv.h"
#include "common/base/mem.h"

#include <stdlib.h>
#include <string.h>

/* Threads of one pair are created back to back; another process may take one id in between. Where many start at
 * once they take more: so two threads that are all there is are a pair whatever their ids. */
enum { PAIR_GAP_MAX = 2 };

/* Ends of one operation on devices differ by less. */
enum { TOLERANCE_NS = 25000 };

enum lane_kind { LANE_GROUP, LANE_STREAM, LANE_THREAD };

struct lane {
    int64_t kind, major, minor; /* (group), (stream: device, stream), (thread: 0, tid) */
    uint32_t op;
};

static int compare_i64(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int compare_lanes(const void *left, const void *right)
{
    const struct lane *a = left, *b = right;
    int order = compare_i64(a->kind, b->kind);
    order = order != 0 ? order : compare_i64(a->major, b->major);
    order = order != 0 ? order : compare_i64(a->minor, b->minor);
    return order != 0 ? order : compare_i64(a->op, b->op);
}

static int compare_u32(const void *left, const void *right)
{
    const uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

static bool same_lane(const struct lane *a, const struct lane *b)
{
    return a->kind == b->kind && a->major == b->major && a->minor == b->minor;
}

/* ---- channels ------------------------------------------------------------------------ */

static struct lane lane_of(const struct rs_comm_op *op, uint32_t index)
{
    if (op->group != RS_NO_GROUP) {
        return (struct lane){LANE_GROUP, op->group, 0, index};
    }
    if (op->device >= 0) {
        return (struct lane){LANE_STREAM, op->device, op->stream, index};
    }
    return (struct lane){LANE_THREAD, 0, op->stream, index};
}

static uint64_t class_of(const struct rs_summary *summary, const struct lane *lane)
{
    if (lane->kind != LANE_GROUP || (size_t)lane->major >= summary->group_count) {
        return lane->kind == LANE_STREAM ? 1 : 2;
    }
    const struct rs_group_info *info = &summary->groups[lane->major];
    const char *name = rs_strtab_text(&summary->strings, info->name);
    uint64_t hash = 0xcbf29ce484222325U ^ (uint64_t)info->size;
    for (; *name != '\0'; name++) {
        hash = (hash ^ (unsigned char)*name) * 0x100000001b3U;
    }
    return hash | 4;
}

static enum rs_status add_channel(struct infer *in, size_t s, const struct lane *lanes,
                                  size_t count, uint32_t *ops)
{
    if (rs_mem_grow((void **)&in->channels, &in->capacity, in->count + 1, sizeof *in->channels) !=
        RS_OK) {
        return RS_NOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        ops[i] = lanes[i].op;
    }
    qsort(ops, count, sizeof *ops, compare_u32); /* order of the calls */
    in->channels[in->count++] = (struct channel){
        .member = {(uint32_t)s, ops, count},
        .class_key = class_of(in->join->out->summaries[s], &lanes[0]),
        .unit = UINT32_MAX,
        .is_on_device = in->join->out->summaries[s]->ops[ops[0]].device >= 0,
    };
    in->longest = count > in->longest ? count : in->longest;
    return RS_OK;
}

static size_t run_end(const struct lane *lanes, size_t begin, size_t count)
{
    size_t end = begin + 1;
    while (end < count && same_lane(&lanes[end], &lanes[begin])) {
        end++;
    }
    return end;
}

/* Worker threads among the sorted rows. */
static size_t count_threads(const struct lane *lanes, size_t count)
{
    size_t threads = 0;
    for (size_t i = 0; i < count; i = run_end(lanes, i, count)) {
        threads += lanes[i].kind == LANE_THREAD;
    }
    return threads;
}

/* Sorted rows -> channels: a run each, two neighbouring threads together. */
static enum rs_status cut_channels(struct infer *in, size_t s, const struct lane *lanes,
                                   size_t count, uint32_t *pool)
{
    const bool is_one_pair = count_threads(lanes, count) == 2;
    for (size_t begin = 0; begin < count;) {
        size_t end = run_end(lanes, begin, count);
        if (lanes[begin].kind == LANE_THREAD && end < count && lanes[end].kind == LANE_THREAD &&
            (is_one_pair || lanes[end].minor - lanes[begin].minor <= PAIR_GAP_MAX)) {
            end = run_end(lanes, end, count);
        }
        if (add_channel(in, s, &lanes[begin], end - begin, pool + begin) != RS_OK) {
            return RS_NOMEM;
        }
        begin = end;
    }
    return RS_OK;
}

static enum rs_status channels_of(struct infer *in, size_t s)
{
    const struct rs_summary *summary = in->join->out->summaries[s];
    const size_t base = in->join->op_base[s];
    size_t count = 0;
    for (size_t i = 0; i < summary->op_count; i++) {
        count +=
            in->join->op_group[base + i] == RS_NO_GROUP && match_is_collective(&summary->ops[i]);
    }
    if (count == 0) {
        return RS_OK;
    }
    struct lane *lanes = rs_mem_calloc(count, sizeof *lanes);
    uint32_t *pool;
    if (lanes == NULL || join_pool(in->join, count, &pool) != RS_OK) {
        rs_mem_free(lanes);
        return RS_NOMEM;
    }
    count = 0;
    for (size_t i = 0; i < summary->op_count; i++) {
        if (in->join->op_group[base + i] == RS_NO_GROUP && match_is_collective(&summary->ops[i])) {
            lanes[count++] = lane_of(&summary->ops[i], (uint32_t)i);
        }
    }
    qsort(lanes, count, sizeof *lanes, compare_lanes);
    const enum rs_status status = cut_channels(in, s, lanes, count, pool);
    rs_mem_free(lanes);
    return status;
}

static enum rs_status collect_channels(struct infer *in)
{
    const struct rs_analysis *out = in->join->out;
    for (size_t s = 0; s < out->summary_count; s++) {
        in->first[s] = in->count;
        if (out->ranks[s].takes_part && channels_of(in, s) != RS_OK) {
            return RS_NOMEM;
        }
        if (in->count > in->first[s]) {
            in->domain_ranks[in->join->domain[s]]++;
        }
    }
    in->first[out->summary_count] = in->count;
    in->items = rs_mem_calloc(in->longest + 1, sizeof *in->items);
    in->positions = rs_mem_calloc(in->longest + 1, sizeof *in->positions);
    in->ids = rs_mem_calloc(in->longest + 1, sizeof *in->ids);
    return in->items != NULL && in->positions != NULL && in->ids != NULL ? RS_OK : RS_NOMEM;
}

static void fill(struct infer *in, const struct channel *channel)
{
    for (size_t i = 0; i < channel->member.count; i++) {
        align_item_from(in->join, channel->member.summary,
                        join_op(in->join, channel->member.summary, channel->member.ops[i]),
                        &in->items[i]);
    }
}

/* ---- units --------------------------------------------------------------------------- */

static bool is_good(const struct fit *fit)
{
    return fit->pairs.found > 0 && fit->pairs.found * 20 >= fit->possible * 11;
}

/* How well a channel pairs up with the list; in->items and in->positions are left as found. */
enum rs_status infer_try_channel(struct infer *in, const struct channel *channel, bool has_clock,
                                 struct fit *fit_p)
{
    const struct align_rules rules = {
        .kind = ALIGN_COLLECTIVE,
        .has_clock = has_clock,
        .tolerance = channel->is_on_device ? TOLERANCE_NS : 0,
    };
    fill(in, channel);
    fit_p->possible =
        in->list.count < channel->member.count ? in->list.count : channel->member.count;
    return align_find((struct align_side){in->list.items, in->list.count},
                      (struct align_side){in->items, channel->member.count}, &rules, in->positions,
                      &fit_p->pairs);
}

static bool is_better(const struct fit *a, const struct fit *b)
{
    return a->pairs.found != b->pairs.found ? a->pairs.found > b->pairs.found
                                            : a->pairs.cost < b->pairs.cost;
}

static enum rs_status take(struct infer *in, size_t c, uint32_t unit, bool has_clock)
{
    struct channel *channel = &in->channels[c];
    struct fit fit;
    if (infer_try_channel(in, channel, has_clock, &fit) != RS_OK ||
        align_merge(&in->list, in->items, channel->member.count, has_clock, in->positions,
                    in->ids) != RS_OK ||
        unit_add_member(&in->join->units[unit], &channel->member) != RS_OK) {
        return RS_NOMEM;
    }
    channel->unit = unit;
    return RS_OK;
}

/* The free channel of summary s that pairs up best; SIZE_MAX when none does. *count_p: how many do, free or not. */
static enum rs_status best_of(struct infer *in, size_t s, const struct channel *seed,
                              bool has_clock, size_t *best_p, size_t *count_p)
{
    struct fit best = {.possible = 0};
    *best_p = SIZE_MAX;
    *count_p = 0;
    for (size_t c = in->first[s]; c < in->first[s + 1]; c++) {
        const struct channel *channel = &in->channels[c];
        struct fit fit;
        if (channel->class_key != seed->class_key || (has_clock && channel->unit != UINT32_MAX)) {
            continue;
        }
        if (infer_try_channel(in, channel, has_clock, &fit) != RS_OK) {
            return RS_NOMEM;
        }
        *count_p += is_good(&fit);
        if (channel->unit == UINT32_MAX && is_good(&fit) &&
            (*best_p == SIZE_MAX || is_better(&fit, &best))) {
            *best_p = c;
            best = fit;
        }
    }
    return RS_OK;
}

/* Every other rank of the seed's domain gives the channel that pairs up best. */
static enum rs_status grow_at_home(struct infer *in, size_t seed, uint32_t unit)
{
    const struct join *join = in->join;
    const uint32_t own = in->channels[seed].member.summary;
    for (size_t s = 0; s < join->out->summary_count; s++) {
        size_t best, count;
        if (join->domain[s] != join->domain[own] || s == own) {
            continue;
        }
        if (best_of(in, s, &in->channels[seed], true, &best, &count) != RS_OK ||
            (best != SIZE_MAX && take(in, best, unit, true) != RS_OK)) {
            return RS_NOMEM;
        }
    }
    return RS_OK;
}

/* Can only one channel of this rank be meant? Without a common clock two that pair up are one too many. */
static enum rs_status is_only_in(struct infer *in, size_t s, const struct channel *seed,
                                 bool *is_only_p)
{
    const uint32_t *domain = in->join->domain;
    size_t best, count;
    *is_only_p = true;
    if (!in->join->out->ranks[s].takes_part || in->first[s] == in->first[s + 1]) {
        return RS_OK;
    }
    if (best_of(in, s, seed, false, &best, &count) != RS_OK) {
        return RS_NOMEM;
    }
    /* a row that one of them lacks shifts all that follow */
    *is_only_p =
        count == 1 && (domain[s] == domain[seed->member.summary] ||
                       (best != SIZE_MAX && in->channels[best].member.count == in->list.count));
    return RS_OK;
}

/* Can only one channel of every rank be meant, here and abroad? Who refused a seed of the class before is asked first: one rank that
 * lost a row refuses the seeds of all, and each would be aligned with all ranks up to it. */
static enum rs_status is_only_choice(struct infer *in, const struct channel *seed, bool *is_only_p)
{
    const size_t summaries = in->join->out->summary_count;
    uint32_t *refused_by = &in->refused_by[seed->class_key % REFUSERS];
    const size_t first = *refused_by; /* 0, as any other, where none has refused */
    enum rs_status status = is_only_in(in, first, seed, is_only_p);
    for (size_t s = 0; s < summaries && status == RS_OK && *is_only_p; s++) {
        if (s == first) {
            continue;
        }
        status = is_only_in(in, s, seed, is_only_p);
        if (status == RS_OK && !*is_only_p) {
            *refused_by = (uint32_t)s;
        }
    }
    return status;
}

static enum rs_status grow_abroad(struct infer *in, size_t seed, uint32_t unit)
{
    const struct join *join = in->join;
    const uint32_t home = join->domain[in->channels[seed].member.summary];
    bool is_only;
    if (join->units[unit].member_count < in->domain_ranks[home]) {
        return RS_OK; /* not the group of all ranks here */
    }
    enum rs_status status = is_only_choice(in, &in->channels[seed], &is_only);
    for (size_t s = 0; s < join->out->summary_count && status == RS_OK && is_only; s++) {
        size_t best = SIZE_MAX, count;
        if (join->domain[s] == home) {
            continue;
        }
        status = best_of(in, s, &in->channels[seed], false, &best, &count);
        if (status == RS_OK && best != SIZE_MAX) {
            status = take(in, best, unit, false);
        }
    }
    return status;
}

static enum rs_status grow_unit(struct infer *in, size_t seed, uint32_t unit)
{
    in->list.count = 0;
    in->list.next_id = 0;
    enum rs_status status = take(in, seed, unit, true);
    if (status == RS_OK) {
        status = grow_at_home(in, seed, unit);
    }
    return status == RS_OK ? grow_abroad(in, seed, unit) : status;
}

enum rs_status infer_new_unit(struct join *join, uint32_t *unit_p)
{
    if (rs_mem_grow((void **)&join->units, &join->unit_capacity, join->unit_count + 1,
                    sizeof *join->units) != RS_OK) {
        return RS_NOMEM;
    }
    join->units[join->unit_count] = (struct join_unit){.group = RS_NO_GROUP, .is_inferred = true};
    *unit_p = (uint32_t)join->unit_count++;
    return RS_OK;
}

struct seed {
    size_t count, channel;
};

/* The longest first; then by summary, as found. */
static int compare_seeds(const void *left, const void *right)
{
    const struct seed *a = left, *b = right;
    if (a->count != b->count) {
        return a->count < b->count ? 1 : -1;
    }
    return (a->channel > b->channel) - (a->channel < b->channel);
}

static enum rs_status build_units(struct infer *in)
{
    struct seed *seeds = rs_mem_calloc(in->count + 1, sizeof *seeds);
    if (seeds == NULL) {
        return RS_NOMEM;
    }
    for (size_t c = 0; c < in->count; c++) {
        seeds[c] = (struct seed){in->channels[c].member.count, c};
    }
    qsort(seeds, in->count, sizeof *seeds, compare_seeds);
    enum rs_status status = RS_OK;
    for (size_t k = 0; k < in->count && status == RS_OK; k++) {
        uint32_t unit;
        if (in->channels[seeds[k].channel].unit != UINT32_MAX) {
            continue;
        }
        status = infer_new_unit(in->join, &unit);
        if (status == RS_OK) {
            status = grow_unit(in, seeds[k].channel, unit);
        }
    }
    rs_mem_free(seeds);
    return status;
}

/* ---- ranks left alone ---------------------------------------------------------------- */

/* Pairs up alone with that member, and how closely. */
static enum rs_status try_pair(struct infer *in, const struct channel *alone,
                               const struct join_member *member, struct fit *fit_p)
{
    const struct channel other = {.member = *member};
    fill(in, &other);
    in->list.count = 0;
    in->list.next_id = 0;
    for (size_t i = 0; i < member->count; i++) {
        in->positions[i] = ALIGN_NONE;
    }
    if (align_merge(&in->list, in->items, member->count, true, in->positions, in->ids) != RS_OK) {
        return RS_NOMEM;
    }
    return infer_try_channel(in, alone, true, fit_p);
}

static struct channel *channel_of(struct infer *in, const struct join_member *member)
{
    for (size_t c = in->first[member->summary]; c < in->first[member->summary + 1]; c++) {
        if (in->channels[c].member.ops == member->ops) {
            return &in->channels[c];
        }
    }
    return NULL;
}

/* The member of this unit that pairs up best with a channel left alone; SIZE_MAX when none does, or
 * when all do (then it lacks feasibility with the unit as a whole, and nobody is to blame). */
static enum rs_status partner_in(struct infer *in, const struct channel *alone,
                                 const struct join_unit *unit, size_t *best_p)
{
    struct fit best = {{0}, 0};
    size_t good = 0;
    *best_p = SIZE_MAX;
    for (size_t m = 0; m < unit->member_count; m++) {
        const struct join_member *member = &unit->members[m];
        const struct channel *channel = channel_of(in, member);
        struct fit fit;
        if (channel == NULL || channel->class_key != alone->class_key ||
            in->join->domain[member->summary] != in->join->domain[alone->member.summary]) {
            continue;
        }
        if (try_pair(in, alone, member, &fit) != RS_OK) {
            return RS_NOMEM;
        }
        if (is_good(&fit) && fit.possible * 4 >= alone->member.count * 3) {
            good++;
            if (*best_p == SIZE_MAX || is_better(&fit, &best)) {
                *best_p = m;
                best = fit;
            }
        }
    }
    if (good == unit->member_count) {
        *best_p = SIZE_MAX;
    }
    return RS_OK;
}

static enum rs_status rescue(struct infer *in, struct channel *alone)
{
    struct join *join = in->join;
    for (uint32_t u = 0; u < join->unit_count; u++) {
        struct join_unit *unit = &join->units[u];
        size_t partner;
        if (!unit->is_inferred || u == alone->unit || unit->member_count < 3) {
            continue;
        }
        if (partner_in(in, alone, unit, &partner) != RS_OK) {
            return RS_NOMEM;
        }
        if (partner == SIZE_MAX) {
            continue;
        }
        const struct join_member moved = unit->members[partner];
        struct channel *channel = channel_of(in, &moved);
        if (unit_add_member(&join->units[alone->unit], &moved) != RS_OK) {
            return RS_NOMEM;
        }
        unit->member_count--;
        memmove(&unit->members[partner], &unit->members[partner + 1],
                (unit->member_count - partner) * sizeof *unit->members);
        channel->unit = alone->unit;
        return RS_OK;
    }
    return RS_OK;
}

int infer_compare_members(const void *left, const void *right)
{
    const struct join_member *a = left, *b = right;
    return (a->summary > b->summary) - (a->summary < b->summary);
}

static enum rs_status rescue_all(struct infer *in)
{
    for (size_t c = 0; c < in->count; c++) {
        struct channel *channel = &in->channels[c];
        if (channel->unit != UINT32_MAX && in->join->units[channel->unit].member_count == 1 &&
            rescue(in, channel) != RS_OK) {
            return RS_NOMEM;
        }
    }
    return RS_OK;
}

/* ---- names --------------------------------------------------------------------------- */

/* The ranks found are the group. */
static enum rs_status name_unit(struct infer *in, struct join_unit *unit)
{
    struct rs_analysis *out = in->join->out;
    int32_t *ranks = rs_mem_calloc(unit->member_count + 1, sizeof *ranks);
    if (ranks == NULL) {
        return RS_NOMEM;
    }
    qsort(unit->members, unit->member_count, sizeof *unit->members, infer_compare_members);
    for (size_t m = 0; m < unit->member_count; m++) {
        ranks[m] = out->ranks[unit->members[m].summary].rank;
    }
    const enum rs_status status =
        group_for_ranks(in->join, ranks, unit->member_count, &unit->group);
    rs_mem_free(ranks);
    if (status != RS_OK) {
        return status;
    }
    for (size_t m = 0; m < unit->member_count; m++) {
        const struct join_member *member = &unit->members[m];
        for (size_t i = 0; i < member->count; i++) {
            in->join->op_group[in->join->op_base[member->summary] + member->ops[i]] = unit->group;
        }
    }
    return RS_OK;
}

static bool holds(const struct rs_job_group *group, int32_t rank)
{
    for (size_t i = 0; i < group->rank_count; i++) {
        if (group->ranks[i] == rank) {
            return true;
        }
    }
    return false;
}

/* Ranks of which nobody knows whether they belong to the group: not here, no part taken, or cut before their rows. */
static size_t unknown_beside(const struct rs_analysis *out, const struct rs_job_group *group)
{
    size_t known = 0;
    for (size_t s = 0; s < out->summary_count; s++) {
        known += out->ranks[s].takes_part &&
                 (!out->summaries[s]->trace.is_partial || holds(group, out->ranks[s].rank));
    }
    return out->world_size > (int64_t)known ? (size_t)out->world_size - known : 0;
}

/* A group of all ranks that are known: the others may belong to it too. */
static void widen_world(struct infer *in)
{
    struct rs_analysis *out = in->join->out;
    for (size_t g = 0; g < out->group_count; g++) {
        struct rs_job_group *group = &out->groups[g];
        if (!group->is_inferred || group->rank_count == 0) {
            continue;
        }
        const size_t unknown = unknown_beside(out, group);
        if (unknown > 0 && (int64_t)(group->rank_count + unknown) == out->world_size) {
            group->size = out->world_size;
        }
    }
}

/* A channel that pairs up with nobody says nothing about its group. */
static enum rs_status name_units(struct infer *in, size_t first_unit)
{
    for (size_t u = first_unit; u < in->join->unit_count; u++) {
        struct join_unit *unit = &in->join->units[u];
        if (unit->member_count < 2) {
            unit->member_count = 0;
            continue;
        }
        if (name_unit(in, unit) != RS_OK) {
            return RS_NOMEM;
        }
        for (size_t k = first_unit; k < u; k++) {
            if (in->join->units[k].member_count > 0 && in->join->units[k].group == unit->group) {
                in->join->out->groups[unit->group].is_ambiguous = true;
            }
        }
    }
    return RS_OK;
}

enum rs_status infer_units(struct join *join)
{
    struct infer in = {.join = join};
    const size_t first_unit = join->unit_count;
    in.first = rs_mem_calloc(join->out->summary_count + 1, sizeof *in.first);
    in.domain_ranks = rs_mem_calloc(2 * join->out->summary_count + 2, sizeof *in.domain_ranks);
    enum rs_status status = in.first != NULL && in.domain_ranks != NULL ? RS_OK : RS_NOMEM;
    if (status == RS_OK) {
        status = collect_channels(&in);
    }
    if (status == RS_OK && in.count > 0) {
        status = build_units(&in);
    }
    if (status == RS_OK && in.count > 0) {
        status = rescue_all(&in);
    }
    if (status == RS_OK && in.count > 0) {
        status = infer_check_units(&in, first_unit);
    }
    if (status == RS_OK) {
        status = name_units(&in, first_unit);
        widen_world(&in);
    }
    rs_mem_free(in.channels);
    rs_mem_free(in.first);
    rs_mem_free(in.domain_ranks);
    rs_mem_free(in.items);
    rs_mem_free(in.positions);
    rs_mem_free(in.ids);
    align_list_fini(&in.list);
    return status;
}
