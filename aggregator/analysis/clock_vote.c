/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two ranks of different clocks: what their rows say of the difference.
 *
 *        ends of rank a      |  |     |   |        |          every row of b against the near rows of a that could be
 *        ends of rank b   |  |     |   |        |             the same operation: one difference comes again and again
 *
 *   vote      families of rows, each by itself and all together, in windows of 20 us to 20 ms; a difference stands out or nobody won
 *   follow    the rows that agree, through both recordings: offset and drift, by least squares without outliers
 *   sequence  where both know a group whose rows they all share, their order says it without a vote
 */
#include "aggregator/analysis/clock_fit_priv.h"
#include "aggregator/analysis/median.h"
#include "common/base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    VOTE_LEVELS = 4, /* windows: 20 us, 200 us, 2 ms, 20 ms */
    FIT_ROUNDS = 3,
};

#define VOTE_WINDOW_NS 20000.0
/* Crystals are off by tens of ppm; what looks like more is something else. */
#define DRIFT_MOST 0.0005

/* ---- witnesses ------------------------------------------------------------------------- */

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash ^= value + 0x9e3779b97f4a7c15U + (hash << 6) + (hash >> 2);
    return hash * 0xff51afd7ed558ccdU;
}

/* All members of a collective on devices run the same kernel. */
static uint64_t name_of(const struct join *join, size_t s, const struct rs_comm_op *op)
{
    const char *text = rs_strtab_text(&join->out->summaries[s]->strings, op->name);
    uint64_t hash = 11;
    for (; (op->flags & RS_OP_ON_DEVICE) != 0 && text != NULL && *text != '\0'; text++) {
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3U;
    }
    return hash;
}

static uint64_t family_of(const struct join *join, size_t s, size_t i)
{
    const struct rs_comm_op *op = join_op(join, s, i);
    if (rs_op_type_is_p2p((enum rs_op_type)op->type)) {
        const int32_t rank = join->out->ranks[s].rank;
        const bool goes_up = (rank < op->peer) == (op->type != RS_OP_RECV);
        return mix(mix(17, op->type == RS_OP_SEND_RECV ? 2 : goes_up), (uint64_t)op->bytes);
    }
    uint64_t family = mix(mix(13, op->type), join->op_group[join->op_base[s] + i]);
    family = mix(family, name_of(join, s, op));
    return align_is_even(op->type) ? mix(mix(family, (uint64_t)op->bytes), op->shape_hash) : family;
}

/* Equal for two rows that may be one operation; 0: it says nothing. */
static uint64_t kind_of(const struct fitting *fit, size_t s, size_t i)
{
    const struct join *join = fit->join;
    const struct rs_comm_op *op = join_op(join, s, i);
    const enum rs_step_origin origin = join->out->summaries[s]->step_origin;
    const bool is_numbered =
        fit->has_steps && (origin == RS_STEPS_PROFILER_STEP || origin == RS_STEPS_NATIVE);
    const uint64_t step = is_numbered ? (uint64_t)op->step : 0;
    const int32_t rank = join->out->ranks[s].rank;
    if ((op->flags & (RS_OP_UNFINISHED | RS_OP_NO_CALL)) != 0 || op->type == RS_OP_UNKNOWN) {
        return 0;
    }
    if (rs_op_type_is_p2p((enum rs_op_type)op->type)) {
        if (op->peer < 0 ||
            (op->flags & (RS_OP_PEER_IN_GROUP | RS_OP_ON_DEVICE)) != RS_OP_ON_DEVICE) {
            return 0; /* a host's send ends when it likes */
        }
        const bool goes_out =
            op->type == RS_OP_SEND || (op->type == RS_OP_SEND_RECV && rank < op->peer);
        const uint64_t from = (uint32_t)(goes_out ? rank : op->peer);
        const uint64_t to = (uint32_t)(goes_out ? op->peer : rank);
        return mix(mix(mix(op->type == RS_OP_SEND_RECV ? 3 : 5, step), from << 32 | to),
                   (uint64_t)op->bytes) |
               1;
    }
    uint64_t kind = mix(mix(7, step), op->type);
    kind = mix(kind, join->op_group[join->op_base[s] + i]);
    if (op->comms_id != 0) {
        kind = mix(kind, op->comms_id);
    } else if (op->seq >= 0) {
        kind = mix(kind, (uint64_t)op->seq);
    }
    if (align_is_even(op->type)) {
        kind = mix(mix(kind, (uint64_t)op->bytes), op->shape_hash);
    }
    return kind | 1;
}

struct lanes {
    uint32_t count;
    int64_t device[CLOCK_LANES_MAX], stream[CLOCK_LANES_MAX];
};

static int compare_witnesses(const void *left, const void *right)
{
    const struct witness *a = left, *b = right;
    if (a->end != b->end) {
        return a->end > b->end ? 1 : -1;
    }
    return (a->kind > b->kind) - (a->kind < b->kind);
}

/* Rows of one type that are told apart otherwise: by a number, a group, or whom they go to. */
static bool says_more(const struct fitting *fit, size_t s, size_t i)
{
    const struct rs_comm_op *op = join_op(fit->join, s, i);
    return !match_is_collective(op) || op->comms_id != 0 || op->seq >= 0 ||
           fit->join->op_group[fit->join->op_base[s] + i] != RS_NO_GROUP;
}

/* The device stream of a collective that names no group, as a number from 1 on; 0: the row says more than that, or ends when it
 * likes, or there are too many streams. */
static uint32_t lane_of(const struct fitting *fit, size_t s, size_t i, struct lanes *lanes)
{
    const struct rs_comm_op *op = join_op(fit->join, s, i);
    if (says_more(fit, s, i) || (op->flags & RS_OP_ON_DEVICE) == 0) {
        return 0;
    }
    uint32_t k = 0;
    while (k < lanes->count && (lanes->device[k] != op->device || lanes->stream[k] != op->stream)) {
        k++;
    }
    if (k == CLOCK_LANES_MAX) {
        return 0;
    }
    if (k == lanes->count) {
        lanes->device[k] = op->device;
        lanes->stream[k] = op->stream;
        lanes->count++;
    }
    return k + 1;
}

enum rs_status fit_collect_witnesses(struct fitting *fit)
{
    const struct rs_analysis *out = fit->join->out;
    for (size_t s = 0; s < out->summary_count; s++) {
        struct witnesses *rows = &fit->rows[s];
        struct lanes lanes = {.count = 0};
        rows->items = rs_mem_calloc(out->summaries[s]->op_count + 1, sizeof *rows->items);
        if (rows->items == NULL) {
            return RS_NOMEM;
        }
        for (size_t i = 0; out->ranks[s].takes_part && i < out->summaries[s]->op_count; i++) {
            const struct rs_comm_op *op = join_op(fit->join, s, i);
            const uint64_t kind = kind_of(fit, s, i);
            if (kind != 0) {
                rows->items[rows->count++] =
                    (struct witness){kind,
                                     family_of(fit->join, s, i),
                                     op->start,
                                     op->end,
                                     match_is_collective(op) && (op->flags & RS_OP_ON_DEVICE) != 0
                                         ? fit->join->op_group[fit->join->op_base[s] + i]
                                         : RS_NO_GROUP,
                                     says_more(fit, s, i),
                                     lane_of(fit, s, i, &lanes)};
            }
        }
        qsort(rows->items, rows->count, sizeof *rows->items, compare_witnesses);
    }
    return RS_OK;
}

/* ---- robust lines ---------------------------------------------------------------------- */

bool fit_need_scratch(struct fitting *fit, size_t count)
{
    if (count <= fit->scratch) {
        return true;
    }
    struct point *points = rs_mem_realloc(fit->points, count, sizeof *points);
    if (points != NULL) {
        fit->points = points;
    }
    double *sorted = rs_mem_realloc(fit->sorted, count, sizeof *sorted);
    if (sorted != NULL) {
        fit->sorted = sorted;
    }
    if (points == NULL || sorted == NULL) {
        return false;
    }
    fit->scratch = count;
    return true;
}

static double spread_around(double *sorted, const struct point *points, size_t count,
                            const struct line *line)
{
    for (size_t i = 0; i < count; i++) {
        sorted[i] = fabs(points[i].value - line->offset - line->drift * points[i].at);
    }
    return 1.4826 * rs_median(sorted, count);
}

/* Least squares without what lies beyond 5 MAD. A slope that its own error could explain is none. */
struct line fit_robust_line(double *sorted, const struct point *points, size_t count)
{
    struct line line = {0};
    for (size_t i = 0; i < count; i++) {
        sorted[i] = points[i].value;
    }
    line.offset = rs_median(sorted, count);
    line.spread = spread_around(sorted, points, count, &line);
    for (int round = 0; round < FIT_ROUNDS; round++) {
        /* the first line goes through drifting points: nothing is trimmed before it */
        const double limit = round == 0 ? HUGE_VAL : 5 * line.spread + 1;
        double n = 0, at = 0, value = 0, square = 0, product = 0;
        for (size_t i = 0; i < count; i++) {
            const double x = points[i].at, y = points[i].value;
            if (fabs(y - line.offset - line.drift * x) <= limit) {
                n++;
                at += x;
                value += y;
            }
        }
        if (n < 1) {
            break;
        }
        at /= n;
        value /= n;
        for (size_t i = 0; i < count; i++) {
            const double x = points[i].at, y = points[i].value;
            if (fabs(y - line.offset - line.drift * x) <= limit) {
                square += (x - at) * (x - at);
                product += (x - at) * (y - value);
            }
        }
        struct line next = {.used = (size_t)n};
        next.drift = n >= 8 && square > 0 ? product / square : 0;
        next.offset = value - next.drift * at;
        next.spread = spread_around(sorted, points, count, &next);
        if (fabs(next.drift) > DRIFT_MOST ||
            fabs(next.drift) < 4 * (next.spread + 1) / sqrt(square + 1)) {
            next.drift = 0;
            next.offset = value;
            next.spread = spread_around(sorted, points, count, &next);
        }
        line = next;
    }
    return line;
}

/* ---- the vote of two ranks --------------------------------------------------------------- */

static int compare_votes(const void *left, const void *right)
{
    const struct votes *a = left, *b = right;
    return (a->difference > b->difference) - (a->difference < b->difference);
}

/* Differences of the rows of b to the rows of a near them in position. */
static size_t cast_votes(struct fitting *fit, const struct witnesses *a, const struct witnesses *b,
                         uint64_t family, size_t *voters_p)
{
    size_t count = 0, voters = 0;
    /* of one family all rows may vote, of all together those in the middle */
    size_t own = family != 0 || b->count <= VOTE_ROWS ? 0 : (b->count - VOTE_ROWS) / 2;
    for (size_t i = 0; own < b->count && i < VOTE_ROWS; own++) {
        if (family != 0 && b->items[own].family != family) {
            continue;
        }
        const size_t middle = (size_t)((double)own * (double)a->count / (double)b->count);
        const size_t low = middle > VOTE_NEAR ? middle - VOTE_NEAR : 0;
        const size_t before = count;
        for (size_t k = low; k < a->count && k <= middle + VOTE_NEAR; k++) {
            if (a->items[k].kind == b->items[own].kind &&
                (family == 0 || a->items[k].family == family)) {
                fit->votes[count++] =
                    (struct votes){(double)(b->items[own].end - a->items[k].end), (uint32_t)i};
            }
        }
        voters += count > before;
        i++;
    }
    *voters_p = voters;
    return count;
}

/* Rows that agree within `width` on a difference in [from, to); each counts once. */
static size_t best_window(struct fitting *fit, size_t count, double width, double not_near,
                          double not_within, double *middle_p)
{
    size_t best = 0, distinct = 0, begin = 0;
    memset(fit->seen, 0, VOTE_ROWS * sizeof *fit->seen);
    for (size_t end = 0; end < count; end++) {
        distinct += fit->seen[fit->votes[end].row]++ == 0;
        while (fit->votes[end].difference - fit->votes[begin].difference > width) {
            distinct -= --fit->seen[fit->votes[begin++].row] == 0;
        }
        const double middle = (fit->votes[begin].difference + fit->votes[end].difference) / 2;
        if (distinct > best && fabs(middle - not_near) >= not_within) {
            best = distinct;
            *middle_p = middle;
        }
    }
    return best;
}

/* A window so wide that rows find several of the other side's in it tells nothing. Its rows' mean distance from the middle. */
static bool is_one_each(const struct fitting *fit, size_t count, double middle, double width,
                        size_t rows, double *spread_p)
{
    size_t within = 0;
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        const double distance = fabs(fit->votes[i].difference - middle);
        within += distance <= width / 2;
        sum += distance <= width / 2 ? distance : 0;
    }
    *spread_p = within > 0 ? sum / (double)within : 0;
    return within * 4 <= rows * 5;
}

/* What the rows of one family, or all (0), agree on. */
struct verdict {
    double difference, width, spread;
};

/* The difference that most rows agree on within the width, and clearly more than on any other. */
static bool vote_of(struct fitting *fit, const struct witnesses *a, const struct witnesses *b,
                    uint64_t family, double width, struct verdict *verdict_p)
{
    size_t voters;
    double first, second, spread;
    const size_t count = cast_votes(fit, a, b, family, &voters);
    if (voters < VOTE_LEAST) {
        return false;
    }
    qsort(fit->votes, count, sizeof *fit->votes, compare_votes);
    const size_t most = best_window(fit, count, width, 0, -1, &first);
    if (most < VOTE_LEAST || most * 4 < voters) {
        return false;
    }
    const size_t other = best_window(fit, count, width, first, 2 * width, &second);
    const bool stands_out = most * 2 >= other * 3 && most > other + 1;
    const bool is_nearly_all = most * 10 >= voters * 9 && most > other + 2;
    if (!(stands_out || is_nearly_all) || !is_one_each(fit, count, first, width, most, &spread)) {
        return false;
    }
    *verdict_p = (struct verdict){first, width, spread};
    return true;
}

/* How much more closely one family has to agree than one that says otherwise: equal steps on two stages of a pipeline
 * agree on the time between the stages, too, but not to the microsecond. */
enum { FAMILIES_TRIED = 8, CONTRADICTED_BY = 3 };

static size_t families_of(const struct witnesses *rows, uint64_t families[FAMILIES_TRIED + 1])
{
    size_t count = 1;
    families[0] = 0; /* all together */
    for (size_t i = 0; i < rows->count && count <= FAMILIES_TRIED; i++) {
        size_t k = 1;
        while (k < count && families[k] != rows->items[i].family) {
            k++;
        }
        if (k == count) {
            families[count++] = rows->items[i].family;
        }
    }
    return count == 2 ? 1 : count;
}

/* The narrowest window in which rows agree; of families that agree on different things the one that agrees far more closely, or none. */
static bool vote(struct fitting *fit, const struct witnesses *a, const struct witnesses *b,
                 double *difference_p, double *width_p)
{
    uint64_t families[FAMILIES_TRIED + 1];
    const size_t count = families_of(b, families);
    double width = VOTE_WINDOW_NS;
    for (int level = 0; level < VOTE_LEVELS;
         level++, width *= 10) { /* NOLINT(cert-flp30-c): few levels, counted */
        struct verdict verdicts[FAMILIES_TRIED + 1];
        size_t known = 0, best = 0;
        for (size_t f = 0; f < count; f++) {
            known += vote_of(fit, a, b, families[f], width, &verdicts[known]);
        }
        for (size_t k = 1; k < known; k++) {
            best = verdicts[k].spread < verdicts[best].spread ? k : best;
        }
        for (size_t k = 0; k < known; k++) {
            if (fabs(verdicts[k].difference - verdicts[best].difference) > 2 * width &&
                verdicts[k].spread < CONTRADICTED_BY * (verdicts[best].spread + 1000)) {
                return false;
            }
        }
        if (known > 0) {
            *difference_p = verdicts[best].difference;
            *width_p = width;
            return true;
        }
    }
    return false;
}

/* Is this row of a (or of b) one that is to be looked at? */
static bool is_meant(uint32_t wanted, const struct witness *row)
{
    return wanted == 0 || row->lane == wanted;
}

/* The row of a that ended nearest to the instant. */
static const struct witness *nearest_to(const struct fitting *fit, const struct witnesses *a,
                                        double wanted, double width, uint64_t kind)
{
    const struct witness *nearest = NULL;
    double least = width;
    for (size_t i = clock_first_not_before(a, wanted - width);
         i < a->count && (double)a->items[i].end <= wanted + width; i++) {
        const double distance = fabs((double)a->items[i].end - wanted);
        if (a->items[i].kind == kind && distance <= least && is_meant(fit->lanes.a, &a->items[i])) {
            least = distance;
            nearest = &a->items[i];
        }
    }
    return nearest;
}

/* Follows the difference from the middle of b to one of its ends, so that drift is learned on the way. */
static size_t follow(struct fitting *fit, const struct witnesses *a, const struct witnesses *b,
                     rs_ns at, double difference, double width)
{
    size_t count = 0;
    struct line line = {.offset = difference};
    size_t learned = 32;
    fit->told = 0;
    for (size_t k = 0; k < b->count; k++) { /* from the middle outwards, by turns */
        const size_t middle = b->count / 2;
        const size_t out = (k + 1) / 2;
        const bool is_up = k % 2 == 0;
        if ((is_up && middle + out >= b->count) || (!is_up && out > middle)) {
            continue;
        }
        const struct witness *own = &b->items[is_up ? middle + out : middle - out];
        const double where = (double)(own->end - at);
        const double wanted = (double)own->end - line.offset - line.drift * where;
        const struct witness *nearest =
            is_meant(fit->lanes.b, own) ? nearest_to(fit, a, wanted, width, own->kind) : NULL;
        if (nearest == NULL) {
            continue;
        }
        fit->told += own->is_told;
        fit->points[count++] = (struct point){where, (double)(own->end - nearest->end)};
        if (count == learned) {
            line = fit_robust_line(fit->sorted, fit->points, count);
            learned *= 2;
        }
    }
    return count;
}

/* ---- the same sequence -------------------------------------------------------------------- */

static bool has_group(const struct witnesses *rows, uint32_t group)
{
    for (size_t i = 0; i < rows->count; i++) {
        if (rows->items[i].group == group) {
            return true;
        }
    }
    return false;
}

static int compare_by_kind(const void *left, const void *right)
{
    const struct witness *a = left, *b = right;
    if (a->kind != b->kind) {
        return a->kind > b->kind ? 1 : -1;
    }
    return (a->end > b->end) - (a->end < b->end);
}

/* Rows of groups that both are in, by kind and end. */
static size_t shared_rows(const struct witnesses *own, const struct witnesses *other,
                          struct witness *out)
{
    uint32_t known = RS_NO_GROUP, absent = RS_NO_GROUP;
    size_t count = 0;
    for (size_t i = 0; i < own->count; i++) {
        const uint32_t group = own->items[i].group;
        if (group == RS_NO_GROUP || group == absent) {
            continue;
        }
        if (group != known && !has_group(other, group)) {
            absent = group;
            continue;
        }
        known = group;
        out[count++] = own->items[i];
    }
    qsort(out, count, sizeof *out, compare_by_kind);
    return count;
}

/* Both recorded as many rows of every kind in the groups they share: the i-th of a kind is the same operation on both, if some
 * clock allows that. Points of how their ends differ; 0: not so. */
static enum rs_status follow_sequence(struct fitting *fit, const struct witnesses *a,
                                      const struct witnesses *b, rs_ns at, size_t *count_p)
{
    *count_p = 0;
    struct witness *one = rs_mem_calloc(a->count + 1, sizeof *one);
    struct witness *two = rs_mem_calloc(b->count + 1, sizeof *two);
    double least = -HUGE_VAL, most = HUGE_VAL;
    if (one == NULL || two == NULL || !fit_need_scratch(fit, b->count + 1)) {
        rs_mem_free(one);
        rs_mem_free(two);
        return RS_NOMEM;
    }
    const size_t count = shared_rows(a, b, one);
    bool same = shared_rows(b, a, two) == count && count >= VOTE_LEAST;
    for (size_t i = 0; i < count && same; i++) {
        same = one[i].kind == two[i].kind;
        least = fmax(least, (double)(two[i].start - one[i].end)); /* b - a is more than that */
        most = fmin(most, (double)(two[i].end - one[i].start));
        fit->points[i] =
            (struct point){(double)(two[i].end - at), (double)(two[i].end - one[i].end)};
    }
    const double drifts =
        count > 0 ? (double)(b->items[b->count - 1].end - b->items[0].end) * 1e-4 : 0;
    *count_p = same && least <= most + 2 * RS_CLOCK_BOUND_NS + drifts ? count : 0;
    rs_mem_free(one);
    rs_mem_free(two);
    return RS_OK;
}

/* What the rows of an estimate come to, if those that say no more than their type bear it out. */
static bool is_borne_out(const struct fitting *fit, const struct witnesses *a,
                         const struct witnesses *b, const struct estimate *estimate)
{
    struct clock_carrier carrier;
    return fit->told >= VOTE_LEAST ||
           (estimate->line.spread <= CARRIED_WITHIN_NS &&
            clock_find_carrier(a, b,
                               &(struct clock_guess){estimate->at, estimate->line.offset,
                                                     estimate->line.drift, CARRIED_WITHIN_NS},
                               &carrier));
}

/* Two files that name no host, on one clock as they stand: streams of both that end together all along. */
static enum rs_status try_as_they_stand(struct fitting *fit, const struct witnesses *a,
                                        const struct witnesses *b, struct estimate *estimate_p,
                                        bool *found_p)
{
    const rs_ns at = b->items[b->count / 2].end;
    const struct clock_guess guess = {.at = at, .within = CARRIED_WITHIN_NS};
    if (!clock_find_carrier(a, b, &guess, &fit->lanes)) {
        return RS_OK;
    }
    if (!fit_need_scratch(fit, b->count + 1)) {
        return RS_NOMEM;
    }
    const size_t count = follow(fit, a, b, at, 0, guess.within);
    struct line line = {.used = count};
    line.spread = count > 0 ? spread_around(fit->sorted, fit->points, count, &line) : 0;
    *estimate_p = (struct estimate){line, at, count};
    *found_p = count >= VOTE_LEAST;
    return RS_OK;
}

static enum rs_status try_votes(struct fitting *fit, const struct witnesses *a,
                                const struct witnesses *b, struct estimate *estimate_p,
                                bool *found_p)
{
    const rs_ns at = b->items[b->count / 2].end;
    double difference, width;
    if (!vote(fit, a, b, &difference, &width)) {
        return RS_OK;
    }
    if (!fit_need_scratch(fit, b->count + 1)) {
        return RS_NOMEM;
    }
    const size_t count = follow(fit, a, b, at, difference, width);
    *estimate_p = (struct estimate){fit_robust_line(fit->sorted, fit->points, count), at, count};
    *found_p = count >= VOTE_LEAST && is_borne_out(fit, a, b, estimate_p);
    return RS_OK;
}

/* The clock of summary s against that of t, both as recorded. */
enum rs_status fit_two(struct fitting *fit, size_t t, size_t s, struct estimate *estimate_p,
                       bool *found_p)
{
    const struct witnesses *a = &fit->rows[t], *b = &fit->rows[s];
    *found_p = false;
    if (a->count == 0 || b->count == 0) {
        return RS_OK;
    }
    const rs_ns at = b->items[b->count / 2].end;
    size_t count;
    enum rs_status status = follow_sequence(fit, a, b, at, &count);
    if (status == RS_OK && count >= VOTE_LEAST) {
        *estimate_p =
            (struct estimate){fit_robust_line(fit->sorted, fit->points, count), at, count};
        *found_p = true;
        return RS_OK;
    }
    if (status == RS_OK && !clock_names_host(fit->join, t) && !clock_names_host(fit->join, s)) {
        status = try_as_they_stand(fit, a, b, estimate_p, found_p);
        fit->lanes = (struct clock_carrier){0, 0};
    }
    return status == RS_OK && !*found_p ? try_votes(fit, a, b, estimate_p, found_p) : status;
}
