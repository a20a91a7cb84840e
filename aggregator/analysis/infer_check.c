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
 *              which a row is missing nobody knows when it was complete: no proof. More than ten members: each alone, and
 *              the classes of the layouts that ranks are laid out in, blocks and every k-th block
 *   rivals     a channel outside that pairs up as closely: which of the two belongs here nobody knows
 *
 * What is not proven stays unmatched: no pair is better than a wrong one.
 *
 * A host's operations (gloo) end when they like, so nothing is proven by their ends. That a group of several channels pairs up is
 * evidence enough where there are many operations; of a few it may be chance: there members that end much closer together than
 * others are cut apart, and one that ends far from all others, or lacks a row, leaves the unit unmatched.
 */
#include "aggregator/analysis/infer_priv.h"
#include "common/base/check.h"
#include "common/base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- who ended with whom ------------------------------------------------------------------- */

enum {
    CHECKED_MEMBERS_MAX = 128,
    CHECKED_SAMPLES_LEAST = 2,
    CHECKED_SAMPLES_MAX = 256,
    EVERY_PARTITION_MAX = 10, /* members: up to here all bipartitions are tried */
};
#define CLOSEST_NS 2000.0 /* below this, closeness is noise and rounding */
#define APART_NS   4000   /* starts of one clock farther apart are not one instant */
#define RIVAL_RATIO                                                                                \
    3.0 /* a channel outside that ended not so much farther away may belong here just as well */
#define SPLIT_RATIO  4.0 /* so much farther apart: two groups */
#define PROOFS_LEAST 2.0 /* operations that have to speak against a partition */
#define HOST_RATIO   8.0 /* as SPLIT_RATIO, of a few operations of hosts */
enum {
    HOST_FEW = 3, /* operations: so many pair up by chance */
    HOST_TOGETHER_NS =
        200000, /* ends of one operation of few hosts; farther apart, one alone shows nothing */
};

struct crowd {
    size_t count;      /* members */
    uint32_t *clocks;  /* [member] */
    size_t ids;        /* operations */
    rs_ns *starts;     /* [member * ids + id]; RS_NS_MIN: not there */
    rs_ns *ends;       /* the same */
    uint8_t *types;    /* [id] */
    double *distances; /* [count * count] */
    uint32_t *root;    /* [count] cluster, called after its first member */
    uint32_t *best;    /* [count] cluster of the best partition */
    double best_ratio;
    size_t samples_least; /* operations that two members have to share */
    uint8_t *side;        /* [count] of the bipartition that is being tried */
    bool has_clocks;      /* more than one */
};

struct edge {
    double distance;
    uint32_t a, b;
};

static int compare_edges(const void *left, const void *right)
{
    const struct edge *a = left, *b = right;
    if (a->distance < b->distance || a->distance > b->distance) {
        return a->distance > b->distance ? 1 : -1;
    }
    return a->a != b->a ? (a->a > b->a ? 1 : -1) : (a->b > b->b) - (a->b < b->b);
}

static int compare_distances(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Median distance of the ends of two members in operations of one type; of two clocks, which may be off by a little, how much that
 * varies. < 0: too few. */
static double distance_of_members(const struct crowd *crowd, size_t a, size_t b, uint8_t type)
{
    double samples[CHECKED_SAMPLES_MAX];
    size_t count = 0;
    for (size_t id = 0; id < crowd->ids && count < CHECKED_SAMPLES_MAX; id++) {
        const rs_ns x = crowd->ends[a * crowd->ids + id], y = crowd->ends[b * crowd->ids + id];
        if (crowd->types[id] == type && x != RS_NS_MIN && y != RS_NS_MIN) {
            samples[count++] = (double)(x - y);
        }
    }
    if (count < crowd->samples_least) {
        return -1;
    }
    double middle = 0;
    if (crowd->clocks[a] != crowd->clocks[b]) {
        qsort(samples, count, sizeof *samples, compare_distances);
        middle = samples[count / 2];
    }
    for (size_t i = 0; i < count; i++) {
        samples[i] = samples[i] > middle ? samples[i] - middle : middle - samples[i];
    }
    qsort(samples, count, sizeof *samples, compare_distances);
    return samples[count / 2];
}

static bool are_equal_clusters(const struct crowd *crowd)
{
    size_t size = 0, first = 0;
    for (size_t m = 0; m < crowd->count; m++) {
        size_t same = 0;
        for (size_t k = 0; k < crowd->count; k++) {
            same += crowd->root[k] == crowd->root[m];
        }
        first = m == 0 ? same : first;
        if (same != first) {
            return false;
        }
        size = same;
    }
    return size >= 2 && size < crowd->count;
}

/* How much farther apart members of different clusters are than members of one. */
static double ratio_of_clusters(const struct crowd *crowd)
{
    double inside = 0, between = 0;
    size_t insides = 0, betweens = 0;
    for (size_t a = 0; a < crowd->count; a++) {
        for (size_t b = a + 1; b < crowd->count; b++) {
            const double distance = crowd->distances[a * crowd->count + b];
            const bool is_inside = crowd->root[a] == crowd->root[b];
            if (distance < 0) {
                continue;
            }
            inside += is_inside ? distance : 0;
            between += is_inside ? 0 : distance;
            insides += is_inside;
            betweens += !is_inside;
        }
    }
    inside = insides > 0 ? inside / (double)insides : 0;
    between = betweens > 0 ? between / (double)betweens : 0;
    return between / (inside > CLOSEST_NS ? inside : CLOSEST_NS);
}

/* Joins the closest first; wherever that leaves clusters of one size, asks how far apart they are. */
static enum rs_status try_partitions(struct crowd *crowd)
{
    const size_t n = crowd->count;
    struct edge *edges = rs_mem_calloc(n * n, sizeof *edges);
    size_t count = 0;
    if (edges == NULL) {
        return RS_NOMEM;
    }
    for (uint32_t a = 0; a < n; a++) {
        crowd->root[a] = a;
        for (uint32_t b = a + 1; b < n; b++) {
            if (crowd->distances[a * n + b] >= 0) {
                edges[count++] = (struct edge){crowd->distances[a * n + b], a, b};
            }
        }
    }
    qsort(edges, count, sizeof *edges, compare_edges);
    for (size_t e = 0; e < count; e++) {
        const uint32_t one = crowd->root[edges[e].a], other = crowd->root[edges[e].b];
        const uint32_t to = one < other ? one : other, from = one < other ? other : one;
        if (from == to) {
            continue;
        }
        for (size_t m = 0; m < n; m++) {
            crowd->root[m] = crowd->root[m] == from ? to : crowd->root[m];
        }
        if (are_equal_clusters(crowd)) {
            const double ratio = ratio_of_clusters(crowd);
            if (ratio > crowd->best_ratio) {
                crowd->best_ratio = ratio;
                memcpy(crowd->best, crowd->root, n * sizeof *crowd->best);
            }
        }
    }
    rs_mem_free(edges);
    return RS_OK;
}

static enum rs_status check_types(struct crowd *crowd)
{
    enum rs_status status = RS_OK;
    for (uint8_t type = 0; type < RS_OP_TYPE_COUNT && status == RS_OK; type++) {
        size_t known = 0;
        for (size_t a = 0; a < crowd->count; a++) {
            for (size_t b = a + 1; b < crowd->count; b++) {
                const double distance = distance_of_members(crowd, a, b, type);
                known += distance >= 0;
                crowd->distances[a * crowd->count + b] = distance;
            }
        }
        if (known > 0) {
            status = try_partitions(crowd);
        }
    }
    return status;
}

/* Matches the unit's members once more, and keeps who ended when. */
static enum rs_status fill_crowd(struct infer *in, const struct join_unit *unit,
                                 struct crowd *crowd)
{
    size_t total = 0, at = 0;
    for (size_t m = 0; m < unit->member_count; m++) {
        total += unit->members[m].count;
    }
    uint32_t *ids = rs_mem_calloc(total + 1, sizeof *ids);
    enum rs_status status = ids != NULL ? RS_OK : RS_NOMEM;
    in->list.count = 0;
    in->list.next_id = 0;
    for (size_t m = 0; m < unit->member_count && status == RS_OK; m++) {
        const struct channel channel = {.member = unit->members[m], .is_on_device = true};
        struct fit fit;
        status = infer_try_channel(in, &channel, true, &fit);
        if (status == RS_OK) {
            status = align_merge(&in->list, in->items, channel.member.count, true, in->positions,
                                 ids + at);
        }
        at += channel.member.count;
    }
    crowd->count = unit->member_count;
    crowd->samples_least = CHECKED_SAMPLES_LEAST;
    crowd->ids = in->list.next_id;
    if (status == RS_OK) {
        crowd->ends = rs_mem_calloc(crowd->count * crowd->ids + 1, sizeof *crowd->ends);
        crowd->starts = rs_mem_calloc(crowd->count * crowd->ids + 1, sizeof *crowd->starts);
        crowd->side = rs_mem_calloc(crowd->count + 1, sizeof *crowd->side);
        crowd->types = rs_mem_calloc(crowd->ids + 1, sizeof *crowd->types);
        crowd->distances = rs_mem_calloc(crowd->count * crowd->count, sizeof *crowd->distances);
        crowd->root = rs_mem_calloc(crowd->count, sizeof *crowd->root);
        crowd->best = rs_mem_calloc(crowd->count, sizeof *crowd->best);
        crowd->clocks = rs_mem_calloc(crowd->count, sizeof *crowd->clocks);
        status = crowd->starts != NULL && crowd->side != NULL && crowd->clocks != NULL &&
                         crowd->ends != NULL && crowd->types != NULL && crowd->distances != NULL &&
                         crowd->root != NULL && crowd->best != NULL
                     ? RS_OK
                     : RS_NOMEM;
    }
    at = 0;
    for (size_t i = 0; status == RS_OK && i < crowd->count * crowd->ids; i++) {
        crowd->ends[i] = crowd->starts[i] = RS_NS_MIN;
    }
    for (size_t m = 0; m < unit->member_count && status == RS_OK; m++) {
        const struct join_member *member = &unit->members[m];
        crowd->clocks[m] = in->join->host[member->summary];
        crowd->has_clocks = crowd->has_clocks || crowd->clocks[m] != crowd->clocks[0];
        for (size_t i = 0; i < member->count; i++, at++) {
            const struct rs_comm_op *op = join_op(in->join, member->summary, member->ops[i]);
            crowd->types[ids[at]] = op->type;
            if ((op->flags & RS_OP_UNFINISHED) == 0) {
                crowd->ends[m * crowd->ids + ids[at]] =
                    join_time(in->join, member->summary, op->end);
                crowd->starts[m * crowd->ids + ids[at]] =
                    join_time(in->join, member->summary, op->start);
            }
        }
    }
    rs_mem_free(ids);
    return status;
}

static void crowd_fini(struct crowd *crowd)
{
    rs_mem_free(crowd->starts);
    rs_mem_free(crowd->side);
    rs_mem_free(crowd->ends);
    rs_mem_free(crowd->types);
    rs_mem_free(crowd->distances);
    rs_mem_free(crowd->root);
    rs_mem_free(crowd->best);
    rs_mem_free(crowd->clocks);
}

/* ---- the proof ----------------------------------------------------------------------------- */

/* What one side of a bipartition did in an operation. */
struct half {
    size_t seen, size;
    rs_ns start, end; /* latest */
};

static void halves_of(const struct crowd *crowd, size_t id, struct half halves[2])
{
    halves[0] = halves[1] = (struct half){.start = RS_NS_MIN, .end = RS_NS_MIN};
    for (size_t m = 0; m < crowd->count; m++) {
        struct half *half = &halves[crowd->side[m]];
        const rs_ns start = crowd->starts[m * crowd->ids + id],
                    end = crowd->ends[m * crowd->ids + id];
        half->size++;
        if (start != RS_NS_MIN) {
            half->seen++;
            half->start = start > half->start ? start : half->start;
            half->end = end > half->end ? end : half->end;
        }
    }
}

/* How much later one side started, and ended, in an operation. */
struct lag {
    double start, end;
    double seen[2]; /* share of each side: who is missing may be whom its side waited for */
};

/* Which side ran an operation that nobody of the other side took part in: 0, 1; -1 neither, or not all of it. A single member
 * may have lost its row. */
static int lone_side(const struct half halves[2])
{
    for (int k = 0; k < 2; k++) {
        if (halves[k].seen == halves[k].size && halves[1 - k].seen == 0 && halves[0].size > 1 &&
            halves[1].size > 1) {
            return k;
        }
    }
    return -1;
}

static bool lag_of(const struct half halves[2], struct lag *lag_p)
{
    rs_dur start, end;
    if (halves[0].seen == 0 || halves[1].seen == 0 ||
        __builtin_sub_overflow(halves[1].start, halves[0].start, &start) ||
        __builtin_sub_overflow(halves[1].end, halves[0].end, &end)) {
        return false;
    }
    *lag_p = (struct lag){.start = (double)start, .end = (double)end};
    for (int k = 0; k < 2; k++) {
        lag_p->seen[k] = (double)halves[k].seen / (double)halves[k].size;
    }
    return true;
}

/* Operations show that the two sides wait for each other: where one came later than the other, both ended together all the
 * same. Of several clocks, aligned by these ends, only what varies from operation to operation counts. */
static bool is_refuted(const struct crowd *crowd, bool is_soft)
{
    const size_t every = crowd->ids / CHECKED_SAMPLES_MAX + 1;
    struct lag lags[CHECKED_SAMPLES_MAX];
    double ends[CHECKED_SAMPLES_MAX], middle = 0, one = 0, two = 0;
    size_t count = 0, alone[2] = {0, 0};
    for (size_t id = 0; id < crowd->ids; id += every) {
        struct half halves[2];
        halves_of(crowd, id, halves);
        const int lone = lone_side(halves);
        if (lone >= 0) {
            alone[lone]++;
        } else if (lag_of(halves, &lags[count])) {
            ends[count] = lags[count].end;
            count++;
        }
    }
    two += (double)(alone[0] < alone[1] ? alone[0] : alone[1]);
    if (crowd->has_clocks && count > 0) {
        qsort(ends, count, sizeof *ends, compare_distances);
        middle = ends[count / 2];
    }
    for (size_t k = 0; k < count; k++) {
        const double late = fabs(lags[k].start - middle), apart = fabs(lags[k].end - middle);
        const double weight = lags[k].seen[lags[k].start < middle]; /* of the early side */
        if (late <= APART_NS || (weight < 1 && !is_soft)) {
            continue;
        }
        one += apart <= late / 3 ? weight : 0;
        two += apart > late / 2 ? weight : 0;
    }
    return one >= PROOFS_LEAST && one >= 3 * two;
}

/* Every bipartition of a few members. `alone`: a single member may belong elsewhere. */
static bool all_are_refuted(const struct crowd *crowd, bool alone, bool is_soft)
{
    RS_DCHECK(crowd->count > 0);
    for (uint32_t mask = 1; mask < (uint32_t)1 << (crowd->count - 1); mask++) {
        const int ones = __builtin_popcount(mask);
        if (!alone && (ones == 1 || ones == (int)crowd->count - 1)) {
            continue;
        }
        for (size_t m = 0; m < crowd->count; m++) {
            crowd->side[m] = mask >> m & 1;
        }
        if (!is_refuted(crowd, is_soft)) {
            return false;
        }
    }
    return true;
}

/* Of many members: each alone, and each class of the layouts that ranks are laid out in: blocks, and every k-th block. */
static bool layouts_are_refuted(const struct crowd *crowd, bool alone, bool is_soft)
{
    const size_t n = crowd->count;
    for (size_t block = 1; block < n; block++) {
        for (size_t k = 2; n % block == 0 && block * k <= n; k++) {
            if (n / block % k != 0 || (!alone && k == n)) {
                continue;
            }
            for (size_t class = 0; class < k; class ++) {
                for (size_t m = 0; m < n; m++) {
                    crowd->side[m] = m / block % k == class;
                }
                if (!is_refuted(crowd, is_soft)) {
                    return false;
                }
            }
        }
    }
    return true;
}

/* Proven by times to be one group. A whole job whose ranks have one channel each is hardly several groups side by side: there a
 * side with a member missing counts, too, by what is seen of it. */
static bool is_one_group(const struct crowd *crowd, bool is_everybody, bool is_soft)
{
    return crowd->count <= EVERY_PARTITION_MAX
               ? all_are_refuted(crowd, !is_everybody || crowd->count == 2, is_soft)
               : layouts_are_refuted(crowd, !is_everybody, is_soft);
}

/* ---- units --------------------------------------------------------------------------------- */

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
static bool has_outsider(const struct crowd *crowd)
{
    double least = HUGE_VAL, farthest = 0;
    for (size_t a = 0; a < crowd->count; a++) {
        double nearest = HUGE_VAL;
        for (size_t b = 0; b < crowd->count; b++) {
            const double distance = a == b ? -1 : distance_of_members(crowd, a, b, crowd->types[0]);
            nearest = distance >= 0 && distance < nearest ? distance : nearest;
        }
        least = nearest < least ? nearest : least;
        farthest = nearest > farthest ? nearest : farthest;
    }
    return farthest > HOST_RATIO * (least > CLOSEST_NS ? least : CLOSEST_NS);
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
    enum rs_status status = fill_crowd(in, unit, &crowd);
    if (status == RS_OK && crowd.ids <= HOST_FEW) {
        crowd.samples_least = 1;
        status = check_types(&crowd);
        if (status == RS_OK && crowd.best_ratio >= HOST_RATIO) {
            status = split_unit(in, u, &crowd);
            *is_cut_p = true;
        } else if (status == RS_OK &&
                   (is_chance(&crowd, is_all) ||
                    (crowd.count > 2 && (lacks_rows(&crowd) || has_outsider(&crowd))))) {
            unit->member_count = 0;
        }
    }
    crowd_fini(&crowd);
    return status;
}

static bool has_member_of(const struct join_unit *unit, uint32_t summary)
{
    for (size_t m = 0; m < unit->member_count; m++) {
        if (unit->members[m].summary == summary) {
            return true;
        }
    }
    return false;
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
            join->units[u].member_count <= CHECKED_MEMBERS_MAX &&
            is_on_hosts_of_one_domain(join, &join->units[u])) {
            status = check_host_unit(in, (uint32_t)u, &is_cut);
            u += !is_cut;
            continue;
        }
        if (join->units[u].member_count < 2 || join->units[u].member_count > CHECKED_MEMBERS_MAX ||
            !is_on_devices_of_one_domain(join, &join->units[u])) {
            u++;
            continue;
        }
        qsort(join->units[u].members, join->units[u].member_count, sizeof *join->units[u].members,
              infer_compare_members);
        status = fill_crowd(in, &join->units[u], &crowd);
        if (status == RS_OK && crowd.count >= 4) {
            status = check_types(&crowd);
        }
        const bool is_all = is_everybody(join, &join->units[u]);
        if (status == RS_OK && crowd.best_ratio >= SPLIT_RATIO) {
            status = split_unit(in, (uint32_t)u, &crowd);
            is_cut = true; /* what is left of it is looked at again */
        } else if (status == RS_OK) {
            bool has = !is_one_group(&crowd, is_all, is_all && is_single);
            if (!has) {
                status = has_rival(in, &join->units[u], &crowd, class_of_unit(in, &join->units[u]),
                                   &has);
            }
            join->units[u].member_count = has ? 0 : join->units[u].member_count;
        }
        crowd_fini(&crowd);
        u += !is_cut;
    }
    return status;
}
