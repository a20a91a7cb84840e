/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which stages do the same work, as far as that can be told: those that have enough kinds of work equally often. All of them where that
 * goes, else the largest such set: the middle stages of a pipeline whose first one embeds and whose last one has a loss.
 *
 *   kind of work    stage 0   1    2    3
 *   a               -         8    8    -         stages 1 and 2 are alike
 *   b               2         2    2    2
 *   c               8         -    -    -
 */
#include "aggregator/analysis/diagnose/stages_priv.h"
#include "common/base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct finder {
    struct alike_row *rows; /* by key, then class, each pair once */
    size_t count;
    const double *totals;
    size_t classes;
    struct alike_limits limits;
    uint8_t *tried;  /* [class] a set being built */
    double *overlap; /* [class] */
    double *
        pairs; /* [class][class] ns of the first one's work that is common with the second one; NULL: too many */
    uint32_t *order; /* [class] */
};

static int by_key(const void *left, const void *right)
{
    const struct alike_row *a = left, *b = right;
    if (a->key != b->key) {
        return a->key > b->key ? 1 : -1;
    }
    return (a->class_id > b->class_id) - (a->class_id < b->class_id);
}

static void merge_rows(struct finder *finder)
{
    size_t kept = 0;
    if (finder->count > 1) {
        qsort(finder->rows, finder->count, sizeof *finder->rows, by_key);
    }
    for (size_t i = 0; i < finder->count; i++) {
        if (kept > 0 && by_key(&finder->rows[kept - 1], &finder->rows[i]) == 0) {
            finder->rows[kept - 1].count += finder->rows[i].count;
            finder->rows[kept - 1].ns += finder->rows[i].ns;
        } else {
            finder->rows[kept++] = finder->rows[i];
        }
    }
    finder->count = kept;
}

static size_t run_end(const struct finder *finder, size_t i)
{
    size_t end = i;
    while (end < finder->count && finder->rows[end].key == finder->rows[i].key) {
        end++;
    }
    return end;
}

static size_t members_of(const struct finder *finder, const uint8_t *set)
{
    size_t count = 0;
    for (size_t c = 0; c < finder->classes; c++) {
        count += set[c];
    }
    return count;
}

static bool is_as_often(const struct finder *finder, double least, double most)
{
    return most - least <= finder->limits.apart * least;
}

/* Do all of the set have this kind of work, equally often? */
static bool is_common(const struct finder *finder, const uint8_t *set, size_t members, size_t i,
                      size_t end)
{
    double least = (double)INFINITY, most = 0;
    size_t having = 0;
    for (; i < end; i++) {
        const struct alike_row *row = &finder->rows[i];
        if (!set[row->class_id]) {
            continue;
        }
        least = fmin(least, row->count);
        most = fmax(most, row->count);
        if (!is_as_often(finder, least, most)) {
            return false;
        }
        having++;
    }
    return having == members;
}

/* Part of its work that is common, of the class of the set that has least of it. */
static double share_of(const struct finder *finder, const uint8_t *set)
{
    const size_t members = members_of(finder, set);
    double least = 1;
    memset(finder->overlap, 0, finder->classes * sizeof *finder->overlap);
    for (size_t i = 0, end; i < finder->count; i = end) {
        end = run_end(finder, i);
        if (!is_common(finder, set, members, i, end)) {
            continue;
        }
        for (size_t r = i; r < end; r++) {
            finder->overlap[finder->rows[r].class_id] += finder->rows[r].ns;
        }
    }
    for (size_t c = 0; c < finder->classes; c++) {
        if (set[c] && finder->totals[c] > 0) {
            least = fmin(least, finder->overlap[c] / finder->totals[c]);
        }
    }
    return least;
}

/* What a class's row has in common with those of its kind, from `i` to `end`. */
static void add_pairs(const struct finder *finder, const struct alike_row *own, size_t i,
                      size_t end)
{
    for (; i < end; i++) {
        const struct alike_row *other = &finder->rows[i];
        if (is_as_often(finder, fmin(own->count, other->count), fmax(own->count, other->count))) {
            finder->pairs[own->class_id * finder->classes + other->class_id] += own->ns;
        }
    }
}

/* What every two classes have in common, in one go. */
static void fill_pairs(const struct finder *finder)
{
    for (size_t i = 0, end; i < finder->count; i = end) {
        end = run_end(finder, i);
        for (size_t r = i; r < end; r++) {
            add_pairs(finder, &finder->rows[r], i, end);
        }
    }
}

/* Classes that share enough with the seed, most first. */
static size_t candidates_of(const struct finder *finder, size_t seed)
{
    size_t count = 0;
    double *with_seed = finder->overlap + finder->classes;
    memset(with_seed, 0, finder->classes * sizeof *with_seed);
    for (size_t c = 0; c < finder->classes; c++) {
        if (c != seed && finder->totals[c] > 0) {
            with_seed[c] =
                fmin(1, fmin(finder->pairs[seed * finder->classes + c] / finder->totals[seed],
                             finder->pairs[c * finder->classes + seed] / finder->totals[c]));
        }
    }
    for (size_t c = 0; c < finder->classes; c++) {
        if (with_seed[c] < finder->limits.share) {
            continue;
        }
        size_t at = count++;
        for (; at > 0 && with_seed[finder->order[at - 1]] < with_seed[c]; at--) {
            finder->order[at] = finder->order[at - 1];
        }
        finder->order[at] = (uint32_t)c;
    }
    return count;
}

/* As many as stay alike with the seed and each other, into `tried`. */
static size_t grow(const struct finder *finder, size_t seed)
{
    const size_t candidates = candidates_of(finder, seed);
    size_t members = 1;
    memset(finder->tried, 0, finder->classes);
    finder->tried[seed] = 1;
    for (size_t i = 0; i < candidates; i++) {
        finder->tried[finder->order[i]] = 1;
        if (share_of(finder, finder->tried) >= finder->limits.share) {
            members++;
        } else {
            finder->tried[finder->order[i]] = 0;
        }
    }
    return members;
}

static enum rs_status keep_common(const struct finder *finder, struct alike *alike)
{
    alike->keys = rs_mem_calloc(finder->count + 1, sizeof *alike->keys);
    if (alike->keys == NULL) {
        return RS_NOMEM;
    }
    for (size_t i = 0, end; i < finder->count && alike->members > 0; i = end) {
        end = run_end(finder, i);
        if (is_common(finder, alike->is_member, alike->members, i, end)) {
            alike->keys[alike->count++] = finder->rows[i].key;
        }
    }
    return RS_OK;
}

static enum rs_status find_largest(struct finder *finder, struct alike *alike)
{
    size_t working = 0;
    for (size_t c = 0; c < finder->classes; c++) {
        finder->tried[c] = alike->is_member[c] = finder->totals[c] > 0;
        working += finder->tried[c];
    }
    if (working > 1 && share_of(finder, finder->tried) >= finder->limits.share) {
        alike->members = working;
        return keep_common(finder, alike);
    }
    memset(alike->is_member, 0, finder->classes);
    if (working > STAGES_GROUPED) {
        return keep_common(finder, alike);
    }
    uint8_t *seen = rs_mem_calloc(finder->classes + 1, 1);
    finder->pairs = rs_mem_calloc(finder->classes * finder->classes + 1, sizeof *finder->pairs);
    if (seen == NULL || finder->pairs == NULL) {
        rs_mem_free(seen);
        return RS_NOMEM;
    }
    fill_pairs(finder);
    for (size_t seed = 0; seed < finder->classes; seed++) {
        if (seen[seed] || finder->totals[seed] <= 0) {
            continue;
        }
        const size_t members = grow(finder, seed);
        for (size_t c = 0; c < finder->classes; c++) {
            seen[c] |= finder->tried[c];
        }
        if (members > 1 && members > alike->members) {
            alike->members = members;
            memcpy(alike->is_member, finder->tried, finder->classes);
        }
    }
    rs_mem_free(seen);
    return keep_common(finder, alike);
}

enum rs_status alike_find(struct alike_row *rows, size_t count, const double *totals,
                          size_t classes, const struct alike_limits *limits, struct alike *alike)
{
    struct finder finder = {
        .rows = rows, .count = count, .totals = totals, .classes = classes, .limits = *limits};
    *alike = (struct alike){.is_member = rs_mem_calloc(classes + 1, 1)};
    finder.tried = rs_mem_calloc(classes + 1, 1);
    finder.overlap = rs_mem_calloc(2 * classes + 1, sizeof *finder.overlap);
    finder.order = rs_mem_calloc(classes + 1, sizeof *finder.order);
    enum rs_status status = RS_NOMEM;
    if (alike->is_member != NULL && finder.tried != NULL && finder.overlap != NULL &&
        finder.order != NULL) {
        merge_rows(&finder);
        status = find_largest(&finder, alike);
    }
    rs_mem_free(finder.tried);
    rs_mem_free(finder.overlap);
    rs_mem_free(finder.pairs);
    rs_mem_free(finder.order);
    if (status != RS_OK) {
        alike_fini(alike);
    }
    return status;
}

void alike_fini(struct alike *alike)
{
    rs_mem_free(alike->keys);
    rs_mem_free(alike->is_member);
    *alike = (struct alike){0};
}

size_t alike_index(const struct alike *alike, uint64_t key)
{
    size_t low = 0, high = alike->count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (alike->keys[middle] < key) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < alike->count && alike->keys[low] == key ? low : SIZE_MAX;
}
