/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is a unit one group? Its operations have to refute every way to part it in two that is tried: one side came later than the
 * other, and both ended together all the same.
 *
 * Of up to ten members every way is tried. Of more: the two sides whose ends vary most against each other, the two parts that end
 * farthest apart, and each class of the layouts that ranks are laid out in against all others. The latest two classes of each operation
 * tell the latest beside any class, so that a layout costs two looks at every row that is kept, however many classes it has.
 */
#include "aggregator/analysis/infer_crowd.h"
#include "aggregator/analysis/median.h"
#include "common/base/check.h"
#include "common/base/mem.h"

#include <math.h>
#include <string.h>

enum {
    EVERY_PARTITION_MAX = 10, /* members: up to here all bipartitions are tried */
    CLOSE_LEAST = 16,         /* operations that show together what none of them shows alone */
};
#define APART_NS     4000   /* starts of one clock farther apart are not one instant */
#define PROOFS_LEAST 2.0    /* operations that have to speak against a partition */
#define CLOSE_NS     1000.0 /* mean lateness below which starts of close sides show nothing */

/* ---- of a few members ----------------------------------------------------------------------- */

/* What one side of a bipartition did in an operation. */
struct half {
    size_t seen, size;
    rs_ns start, end; /* latest */
};

static void add_to_half(struct half *half, rs_ns start, rs_ns end)
{
    if (start != RS_NS_MIN) {
        half->seen++;
        half->start = start > half->start ? start : half->start;
        half->end = end > half->end ? end : half->end;
    }
}

static void halves_of(const struct crowd *crowd, size_t id, struct half halves[2])
{
    halves[0] = halves[1] = (struct half){.start = RS_NS_MIN, .end = RS_NS_MIN};
    for (size_t m = 0; m < crowd->count; m++) {
        struct half *half = &halves[crowd->side[m]];
        half->size++;
        add_to_half(half, crowd->starts[m * crowd->ids + id], crowd->ends[m * crowd->ids + id]);
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

/* What operations say of a bipartition. */
struct evidence {
    struct lag lags[CHECKED_SAMPLES_MAX];
    size_t count, alone[2];
};

static size_t every_of(const struct crowd *crowd)
{
    return crowd->ids / CHECKED_SAMPLES_MAX + 1;
}

static void add_evidence(struct evidence *evidence, const struct half halves[2])
{
    const int lone = lone_side(halves);
    if (lone >= 0) {
        evidence->alone[lone]++;
    } else if (lag_of(halves, &evidence->lags[evidence->count])) {
        evidence->count++;
    }
}

/* Operations show that the two sides wait for each other: where one came later than the other, both ended together all the
 * same. Of many members the latest of either side come close to each other nearly always, in no operation clearly later: there ends
 * that vary by a third of what starts do, over many operations, show it; of two groups they vary by as much at least. Of several
 * clocks, aligned by these ends, only what varies from operation to operation counts. */
static bool refutes(const struct evidence *evidence, const struct crowd *crowd, bool is_soft)
{
    const struct lag *lags = evidence->lags;
    const size_t *alone = evidence->alone, count = evidence->count;
    double ends[CHECKED_SAMPLES_MAX], middle = 0, one = 0, starts_apart = 0, ends_apart = 0;
    double two = (double)(alone[0] < alone[1] ? alone[0] : alone[1]);
    size_t close = 0;
    if (crowd->has_clocks && count > 0) {
        for (size_t k = 0; k < count; k++) {
            ends[k] = lags[k].end;
        }
        middle = rs_nth(ends, count, count / 2);
    }
    for (size_t k = 0; k < count; k++) {
        const double late = fabs(lags[k].start - middle), apart = fabs(lags[k].end - middle);
        const double weight = lags[k].seen[lags[k].start < middle]; /* of the early side */
        if (lags[k].seen[0] >= 1 && lags[k].seen[1] >= 1 && late <= 2.0 * APART_NS) {
            starts_apart += late * late;
            ends_apart += apart * apart;
            close++;
        }
        if (late <= APART_NS || (weight < 1 && !is_soft)) {
            continue;
        }
        one += apart <= late / 3 ? weight : 0;
        two += apart > late / 2 ? weight : 0;
    }
    return (one >= PROOFS_LEAST && one >= 3 * two) ||
           (crowd->count > EVERY_PARTITION_MAX && two <= 0 && close >= CLOSE_LEAST &&
            starts_apart >= (double)close * CLOSE_NS * CLOSE_NS && ends_apart * 9 <= starts_apart);
}

static bool is_refuted(const struct crowd *crowd, bool is_soft)
{
    struct evidence evidence = {.count = 0};
    for (size_t id = 0; id < crowd->ids; id += every_of(crowd)) {
        struct half halves[2];
        halves_of(crowd, id, halves);
        add_evidence(&evidence, halves);
    }
    return refutes(&evidence, crowd, is_soft);
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

/* ---- of many members -------------------------------------------------------------- */

/* Of one operation: the latest class and the one after it, for what is latest beside a class. */
struct top {
    rs_ns start[2], end[2];
    uint32_t start_class, end_class; /* whose [0] is */
    size_t seen;
};

struct parting {
    struct crowd *crowd; /* label: the class of each member */
    uint32_t *first;     /* [classes + 1] in crowd->order */
    struct half own[CHECKED_SAMPLES_MAX];
    struct top tops[CHECKED_SAMPLES_MAX];
};

/* Members by class. */
static void sort_classes(struct parting *parting, size_t classes)
{
    struct crowd *crowd = parting->crowd;
    memset(parting->first, 0, (classes + 1) * sizeof *parting->first);
    for (size_t m = 0; m < crowd->count; m++) {
        parting->first[crowd->label[m] + 1]++;
    }
    for (size_t c = 0; c < classes; c++) {
        parting->first[c + 1] += parting->first[c];
    }
    for (size_t m = crowd->count; m-- > 0;) { /* each entry moves to its class's begin and back */
        crowd->order[--parting->first[crowd->label[m] + 1]] = (uint32_t)m;
    }
    for (size_t c = 0; c < classes; c++) {
        parting->first[c] = parting->first[c + 1];
    }
    parting->first[classes] = (uint32_t)crowd->count;
}

static void add_up_class(struct parting *parting, uint32_t class)
{
    const struct crowd *crowd = parting->crowd;
    const size_t every = every_of(crowd), size = parting->first[class + 1] - parting->first[class];
    for (size_t k = 0; k * every < crowd->ids; k++) {
        parting->own[k] = (struct half){.size = size, .start = RS_NS_MIN, .end = RS_NS_MIN};
    }
    for (uint32_t i = parting->first[class]; i < parting->first[class + 1]; i++) {
        const size_t row = crowd->order[i] * crowd->ids;
        for (size_t k = 0; k * every < crowd->ids; k++) {
            add_to_half(&parting->own[k], crowd->starts[row + k * every],
                        crowd->ends[row + k * every]);
        }
    }
}

static void keep_two(rs_ns two[2], uint32_t *whose, rs_ns value, uint32_t class)
{
    if (value > two[0]) {
        two[1] = two[0];
        two[0] = value;
        *whose = class;
    } else if (value > two[1]) {
        two[1] = value;
    }
}

static bool class_is_refuted(struct parting *parting, uint32_t class, bool is_soft)
{
    const struct crowd *crowd = parting->crowd;
    struct evidence evidence = {.count = 0};
    add_up_class(parting, class);
    for (size_t k = 0; k * every_of(crowd) < crowd->ids; k++) {
        const struct top *top = &parting->tops[k];
        const struct half halves[2] = {
            {
                .seen = top->seen - parting->own[k].seen,
                .size = crowd->count - parting->own[k].size,
                .start = top->start[top->start_class == class],
                .end = top->end[top->end_class == class],
            },
            parting->own[k],
        };
        add_evidence(&evidence, halves);
    }
    return refutes(&evidence, crowd, is_soft);
}

/* Every class against all others; crowd->label holds below `classes`. */
static bool classes_are_refuted(struct parting *parting, uint32_t classes, bool alone, bool is_soft)
{
    const struct crowd *crowd = parting->crowd;
    const size_t every = every_of(crowd);
    sort_classes(parting, classes);
    for (size_t k = 0; k * every < crowd->ids; k++) {
        parting->tops[k] = (struct top){.start = {RS_NS_MIN, RS_NS_MIN},
                                        .end = {RS_NS_MIN, RS_NS_MIN},
                                        .start_class = UINT32_MAX,
                                        .end_class = UINT32_MAX};
    }
    for (uint32_t c = 0; c < classes; c++) {
        add_up_class(parting, c);
        for (size_t k = 0; k * every < crowd->ids; k++) {
            struct top *top = &parting->tops[k];
            keep_two(top->start, &top->start_class, parting->own[k].start, c);
            keep_two(top->end, &top->end_class, parting->own[k].end, c);
            top->seen += parting->own[k].seen;
        }
    }
    for (uint32_t c = 0; c < classes; c++) {
        const size_t size = parting->first[c + 1] - parting->first[c];
        const bool is_alone = size == 1 || size + 1 == crowd->count;
        if (size > 0 && size < crowd->count && (alone || !is_alone) &&
            !class_is_refuted(parting, c, is_soft)) {
            return false;
        }
    }
    return true;
}

/* Each class of the layouts that ranks are laid out in: blocks, and every k-th block; with blocks of one and as many classes as
 * members each alone. By place: where ranks lie, for of a unit that lacks one the others are shifted. */
static bool layouts_are_refuted(struct parting *parting, bool by_place, bool alone, bool is_soft)
{
    struct crowd *crowd = parting->crowd;
    const size_t n = by_place ? crowd->world : crowd->count;
    for (size_t block = 1; block < n; block++) {
        for (size_t k = 2; n % block == 0 && block * k <= n; k++) {
            if (n / block % k != 0) {
                continue;
            }
            for (size_t m = 0; m < crowd->count; m++) {
                crowd->label[m] = (uint32_t)((by_place ? crowd->places[m] : m) / block % k);
            }
            if (!classes_are_refuted(parting, (uint32_t)k, alone, is_soft)) {
                return false;
            }
        }
    }
    return true;
}

/* The two parts that end farthest apart, in each type. */
static bool parts_are_refuted(struct parting *parting, bool alone, bool is_soft)
{
    struct crowd *crowd = parting->crowd;
    for (size_t p = 0; p < crowd->part_count; p++) {
        for (size_t m = 0; m < crowd->count; m++) {
            crowd->label[m] = crowd->parts[p * crowd->count + m] != crowd->parts[p * crowd->count];
        }
        if (!classes_are_refuted(parting, 2, alone, is_soft)) {
            return false;
        }
    }
    return true;
}

/* How much later than the first known one a member ended in the k-th operation that is looked at. False: not known. */
static bool is_later_by(const struct crowd *crowd, size_t m, size_t k, rs_ns *first,
                        double *later_p)
{
    const rs_ns end = crowd->ends[m * crowd->ids + k * every_of(crowd)];
    rs_dur later;
    *first = *first == RS_NS_MIN ? end : *first;
    if (end == RS_NS_MIN || __builtin_sub_overflow(end, *first, &later)) {
        return false;
    }
    *later_p = (double)later;
    return true;
}

static void spread_operation(const struct crowd *crowd, size_t samples, size_t k, double *spread)
{
    rs_ns first = RS_NS_MIN;
    double later, sum = 0, seen = 0;
    for (size_t m = 0; m < crowd->count; m++) {
        if (is_later_by(crowd, m, k, &first, &later)) {
            sum += later;
            seen += 1;
        }
    }
    for (size_t m = 0; m < crowd->count; m++) {
        if (is_later_by(crowd, m, k, &first, &later)) {
            spread[m * samples + k] = later - sum / seen;
        }
    }
}

/* How much each member ended later than others do, operation by operation, and what is its own in all of them taken off:
 * spread[member * samples + k], 0 unknown. */
static void fill_spread(const struct crowd *crowd, size_t samples, double *spread)
{
    for (size_t k = 0; k < samples; k++) {
        spread_operation(crowd, samples, k, spread);
    }
    for (size_t m = 0; m < crowd->count && crowd->has_clocks; m++) {
        double sum = 0;
        for (size_t k = 0; k < samples; k++) {
            sum += spread[m * samples + k];
        }
        for (size_t k = 0; k < samples; k++) {
            spread[m * samples + k] -= sum / (double)samples;
        }
    }
}

/* The two sides whose ends vary most against each other, to label: members by the sign of what explains most of how ends vary (the first
 * principal component). Of two groups side by side these are the groups, in whatever order ranks lie and however close they end. */
static enum rs_status label_by_variance(struct crowd *crowd)
{
    enum { ROUNDS = 12 };
    const size_t samples = (crowd->ids + every_of(crowd) - 1) / every_of(crowd), n = crowd->count;
    double *spread = rs_mem_calloc(n * samples + 1, sizeof *spread);
    double *side = rs_mem_calloc(n + 1, sizeof *side);
    double direction[CHECKED_SAMPLES_MAX] = {0};
    if (spread == NULL || side == NULL) {
        rs_mem_free(spread);
        rs_mem_free(side);
        return RS_NOMEM;
    }
    fill_spread(crowd, samples, spread);
    for (size_t k = 0; k < samples; k++) { /* anything that is not across it by chance */
        direction[k] = 1.0 / (double)(1 + k * 7 % 11) - (k % 2 ? 0.3 : 0);
    }
    for (int round = 0; round < ROUNDS; round++) {
        double length = 0;
        for (size_t m = 0; m < n; m++) {
            side[m] = 0;
            for (size_t k = 0; k < samples; k++) {
                side[m] += spread[m * samples + k] * direction[k];
            }
        }
        memset(direction, 0, sizeof direction);
        for (size_t m = 0; m < n; m++) {
            for (size_t k = 0; k < samples; k++) {
                direction[k] += spread[m * samples + k] * side[m];
            }
        }
        for (size_t k = 0; k < samples; k++) {
            length += direction[k] * direction[k];
        }
        for (size_t k = 0; k < samples && length > 0; k++) {
            direction[k] /= sqrt(length);
        }
    }
    for (size_t m = 0; m < n; m++) {
        crowd->label[m] = side[m] > 0;
    }
    rs_mem_free(spread);
    rs_mem_free(side);
    return RS_OK;
}

static enum rs_status many_are_refuted(struct crowd *crowd, bool alone, bool is_soft,
                                       bool *are_refuted_p)
{
    const size_t most = crowd->world > crowd->count ? crowd->world : crowd->count;
    struct parting *parting = rs_mem_calloc(1, sizeof *parting);
    uint32_t *first = rs_mem_calloc(most + 1, sizeof *first);
    enum rs_status status = parting != NULL && first != NULL ? label_by_variance(crowd) : RS_NOMEM;
    if (status == RS_OK) {
        *parting = (struct parting){.crowd = crowd, .first = first};
        /* many of which nobody knows how they lie: no layout is theirs */
        *are_refuted_p = (crowd->world > 0 || crowd->count <= EVERY_PAIR_MAX) &&
                         classes_are_refuted(parting, 2, alone, is_soft) &&
                         parts_are_refuted(parting, alone, is_soft) &&
                         layouts_are_refuted(parting, false, alone, is_soft) &&
                         (crowd->world == 0 || crowd->world == crowd->count ||
                          layouts_are_refuted(parting, true, alone, is_soft));
    }
    rs_mem_free(parting);
    rs_mem_free(first);
    return status;
}

enum rs_status crowd_is_one_group(struct crowd *crowd, bool is_everybody, bool is_soft,
                                  bool *is_one_p)
{
    if (crowd->count > EVERY_PARTITION_MAX) {
        return many_are_refuted(crowd, !is_everybody, is_soft, is_one_p);
    }
    *is_one_p = all_are_refuted(crowd, !is_everybody || crowd->count == 2, is_soft);
    return RS_OK;
}
