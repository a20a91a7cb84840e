/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is a unit that timing suggests (infer.c) one group, or several of equal shape that run side by side?
 *
 *      group 0,2     0 |----------->|        0 and 1 come together, 2 and 3 come together (each pair is a group
 *                    2      |------>|        of another kind): both groups end at one time, and nobody can tell
 *      group 1,3     1 |----------->|        whether it is 0,2 and 1,3, or 0,3 and 1,2, or one group of four
 *                    3      |------>|
 *
 *   apart      members of one end much more closely together than members of different ones: cut there
 *   proof      a unit stands if its operations refute every way to part it in two: one side came clearly later than
 *              the other, and both ended together all the same; several times, and hardly ever otherwise, nor with one
 *              side complete and nobody of the other, and the other way about. Of a side of
 *              which a row is missing nobody knows when it was complete: no proof. More than ten members: each alone, the
 *              parts that their ends suggest, and the classes of the layouts that ranks are laid out in, blocks and every
 *              k-th block
 *   rivals     a channel outside that pairs up as closely: which of the two belongs here nobody knows
 *
 * What is not proven stays unmatched: no pair is better than a wrong one.
 *
 * A host's operations (gloo) end when they like, so nothing is proven by their ends. That a group of several channels pairs up is
 * evidence enough where there are many operations; of a few it may be chance: there members that end much closer together than
 * others are cut apart, and one that ends far from all others, or lacks a row, leaves the unit unmatched.
 *
 * Any number of members is checked: infer_crowd.c looks who ended with whom, infer_proof.c for the proof.
 */
#include "aggregator/analysis/infer_crowd.h"
#include "common/base/mem.h"

#include <math.h>
#include <stdlib.h>

#define RIVAL_RATIO                                                                                \
    3.0 /* a channel outside that ended not so much farther away may belong here just as well */
#define SPLIT_RATIO 4.0 /* so much farther apart: two groups */
#define HOST_RATIO  8.0 /* as SPLIT_RATIO, of a few operations of hosts */
enum {
    HOST_FEW = 3, /* operations: so many pair up by chance */
    HOST_TOGETHER_NS =
        200000, /* ends of one operation of few hosts; farther apart, one alone shows nothing */
};

/* The clusters of the best partition become units of their own; the first keeps the old one. */
static enum rs_status split_unit(struct infer *in, uint32_t u, const struct crowd *crowd)
{
    struct join *join = in->join;
    for (size_t m = 0; m < crowd->count; m++) {
        uint32_t fresh;
        if (crowd->best[m] != (uint32_t)m || m == 0) {
            continue;
        }
        if (infer_new_unit(join, &fresh) != RS_OK) {
            return RS_NOMEM;
        }
        for (size_t k = m; k < crowd->count; k++) {
            if (crowd->best[k] != crowd->best[m]) {
                continue;
            }
            if (unit_add_member(&join->units[fresh], &join->units[u].members[k]) != RS_OK) {
                return RS_NOMEM;
            }
        }
    }
    size_t kept = 0;
    for (size_t m = 0; m < crowd->count; m++) {
        if (crowd->best[m] == crowd->best[0]) {
            join->units[u].members[kept++] = join->units[u].members[m];
        }
    }
    join->units[u].member_count = kept;
    return RS_OK;
}

static bool is_on_devices_of_one_domain(const struct join *join, const struct join_unit *unit)
{
    for (size_t m = 0; m < unit->member_count; m++) {
        const struct join_member *member = &unit->members[m];
        if (join_op(join, member->summary, member->ops[0])->device < 0 ||
            join->domain[member->summary] != join->domain[unit->members[0].summary]) {
            return false;
        }
    }
    return true;
}

static bool is_everybody(const struct join *join, const struct join_unit *unit)
{
    size_t ranks = 0;
    for (size_t s = 0; s < join->out->summary_count; s++) {
        ranks += join->out->ranks[s].takes_part;
    }
    return unit->member_count == ranks;
}

static bool is_on_hosts_of_one_domain(const struct join *join, const struct join_unit *unit)
{
    for (size_t m = 0; m < unit->member_count; m++) {
        const struct join_member *member = &unit->members[m];
        if (join_op(join, member->summary, member->ops[0])->device >= 0 ||
            join->domain[member->summary] != join->domain[unit->members[0].summary]) {
            return false;
        }
    }
    return true;
}

static bool lacks_rows(const struct crowd *crowd)
{
    for (size_t i = 0; i < crowd->count * crowd->ids; i++) {
        if (crowd->ends[i] == RS_NS_MIN) {
            return true;
        }
    }
    return false;
}

/* A member ends much farther from everybody than the two that are closest, in operations as the first is. */
static enum rs_status has_outsider(const struct crowd *crowd, bool *has_p)
{
    double least = HUGE_VAL, farthest = 0;
    double *nearest = rs_mem_calloc(crowd->count + 1, sizeof *nearest);
    if (nearest == NULL) {
        return RS_NOMEM;
    }
    for (size_t m = 0; m < crowd->count; m++) {
        nearest[m] = HUGE_VAL;
    }
    for (size_t e = 0; e < crowd->edge_count; e++) {
        const uint32_t a = crowd->edges[e].a, b = crowd->edges[e].b;
        const double distance = crowd_distance(crowd, a, b, crowd->types[0]);
        if (distance >= 0) {
            nearest[a] = fmin(nearest[a], distance);
            nearest[b] = fmin(nearest[b], distance);
        }
    }
    for (size_t m = 0; m < crowd->count; m++) {
        least = fmin(least, nearest[m]);
        farthest = fmax(farthest, nearest[m]);
    }
    rs_mem_free(nearest);
    *has_p = farthest > HOST_RATIO * (least > CLOSEST_NS ? least : CLOSEST_NS);
    return RS_OK;
}

/* They have one operation in common, and did not even end it together. */
static bool is_chance(const struct crowd *crowd, bool is_all)
{
    rs_dur spread = 0;
    size_t shared = 0;
    for (size_t id = 0; id < crowd->ids; id++) {
        rs_ns first = RS_NS_MAX, last = RS_NS_MIN;
        size_t seen = 0;
        for (size_t m = 0; m < crowd->count; m++) {
            const rs_ns end = crowd->ends[m * crowd->ids + id];
            seen += end != RS_NS_MIN;
            first = end != RS_NS_MIN && end < first ? end : first;
            last = end > last ? end : last;
        }
        shared += seen > 1;
        if (seen > 1 && __builtin_sub_overflow(last, first, &spread)) {
            spread = INT64_MAX;
        }
    }
    return shared == 1 && !is_all && spread > HOST_TOGETHER_NS;
}

static enum rs_status check_host_unit(struct infer *in, uint32_t u, bool *is_cut_p)
{
    struct join_unit *unit = &in->join->units[u];
    struct crowd crowd = {0};
    const bool is_all = is_everybody(in->join, unit);
    qsort(unit->members, unit->member_count, sizeof *unit->members, infer_compare_members);
    enum rs_status status = crowd_fill(in, unit, &crowd);
    if (status == RS_OK && crowd.ids <= HOST_FEW) {
        crowd.samples_least = 1;
        crowd_cut(&crowd);
        if (crowd.best_ratio >= HOST_RATIO) {
            status = split_unit(in, u, &crowd);
            *is_cut_p = true;
        } else {
            bool is_doubtful = is_chance(&crowd, is_all) || (crowd.count > 2 && lacks_rows(&crowd));
            if (!is_doubtful && crowd.count > 2) {
                status = has_outsider(&crowd, &is_doubtful);
            }
            unit->member_count = is_doubtful ? 0 : unit->member_count;
        }
    }
    crowd_fini(&crowd);
    return status;
}

/* Members stand by summary. */
static bool has_member_of(const struct join_unit *unit, uint32_t summary)
{
    const struct join_member wanted = {.summary = summary};
    return bsearch(&wanted, unit->members, unit->member_count, sizeof *unit->members,
                   infer_compare_members) != NULL;
}

/* Mean distance of the unit's ends, operation by operation, from the latest. */
static double closeness_of(const struct crowd *crowd)
{
    double sum = 0;
    size_t count = 0;
    for (size_t id = 0; id < crowd->ids; id++) {
        rs_ns latest = RS_NS_MIN;
        size_t seen = 0;
        for (size_t m = 0; m < crowd->count; m++) {
            const rs_ns end = crowd->ends[m * crowd->ids + id];
            latest = end > latest ? end : latest;
            seen += end != RS_NS_MIN;
        }
        for (size_t m = 0; m < crowd->count && seen > 1; m++) {
            const rs_ns end = crowd->ends[m * crowd->ids + id];
            sum += end != RS_NS_MIN ? (double)latest - (double)end : 0;
            count += end != RS_NS_MIN;
        }
        count -= seen > 1; /* the latest itself */
    }
    return count > 0 ? sum / (double)count : 0;
}

/* On one clock, as far as anybody knows: files that name no host most likely are of one. */
static bool may_share_clock(const struct join *join, uint32_t a, uint32_t b)
{
    return join->domain[a] == join->domain[b] ||
           (!clock_names_host(join, a) && !clock_names_host(join, b));
}

/* A channel of a rank that is not in the unit, and might be: it pairs up, and ends about as closely with it as the
 * members with each other. Which of them belongs here nobody knows. in->list holds the unit. */
static enum rs_status has_rival(struct infer *in, const struct join_unit *unit,
                                const struct crowd *crowd, uint64_t class_key, bool *has_p)
{
    const struct join *join = in->join;
    const double close = closeness_of(crowd);
    const uint32_t home = unit->members[0].summary;
    *has_p = false;
    for (size_t c = 0; c < in->count && !*has_p; c++) {
        const struct channel *channel = &in->channels[c];
        struct fit fit;
        if (channel->class_key != class_key ||
            !may_share_clock(join, channel->member.summary, home) ||
            has_member_of(unit, channel->member.summary)) {
            continue;
        }
        if (infer_try_channel(in, channel, true, &fit) != RS_OK) {
            return RS_NOMEM;
        }
        *has_p = fit.pairs.found >= CHECKED_SAMPLES_LEAST && fit.pairs.found * 3 >= fit.possible &&
                 fit.pairs.cost <= RIVAL_RATIO * (close > CLOSEST_NS / 2 ? close : CLOSEST_NS / 2);
    }
    return RS_OK;
}

static uint64_t class_of_unit(const struct infer *in, const struct join_unit *unit)
{
    const struct join_member *member = &unit->members[0];
    for (size_t c = in->first[member->summary]; c < in->first[member->summary + 1]; c++) {
        if (in->channels[c].member.ops == member->ops) {
            return in->channels[c].class_key;
        }
    }
    return 0;
}

static bool has_one_channel_each(const struct infer *in)
{
    for (size_t s = 0; s < in->join->out->summary_count; s++) {
        if (in->first[s + 1] - in->first[s] > 1) {
            return false;
        }
    }
    return true;
}

enum rs_status infer_check_units(struct infer *in, size_t first_unit)
{
    struct join *join = in->join;
    const bool is_single = has_one_channel_each(in);
    enum rs_status status = RS_OK;
    for (size_t u = first_unit; u < join->unit_count && status == RS_OK;) {
        struct crowd crowd = {0};
        bool is_cut = false;
        if (join->units[u].member_count >= 2 && !is_single &&
            is_on_hosts_of_one_domain(join, &join->units[u])) {
            status = check_host_unit(in, (uint32_t)u, &is_cut);
            u += !is_cut;
            continue;
        }
        if (join->units[u].member_count < 2 ||
            !is_on_devices_of_one_domain(join, &join->units[u])) {
            u++;
            continue;
        }
        qsort(join->units[u].members, join->units[u].member_count, sizeof *join->units[u].members,
              infer_compare_members);
        status = crowd_fill(in, &join->units[u], &crowd);
        if (status == RS_OK && crowd.count >= 4) {
            crowd_cut(&crowd);
        }
        const bool is_all = is_everybody(join, &join->units[u]);
        if (status == RS_OK && crowd.best_ratio >= SPLIT_RATIO) {
            status = split_unit(in, (uint32_t)u, &crowd);
            is_cut = true; /* what is left of it is looked at again */
        } else if (status == RS_OK) {
            bool is_one = false, has_one = false;
            status = crowd_is_one_group(&crowd, is_all, is_all && is_single, &is_one);
            if (status == RS_OK && is_one) {
                status = has_rival(in, &join->units[u], &crowd, class_of_unit(in, &join->units[u]),
                                   &has_one);
            }
            join->units[u].member_count = is_one && !has_one ? join->units[u].member_count : 0;
        }
        crowd_fini(&crowd);
        u += !is_cut;
    }
    return status;
}
