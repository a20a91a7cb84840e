/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets of half-open intervals [start, end) in ns: union, intersection, difference; exact integers.
 *
 * A *normal* list is sorted, its intervals are not empty and do not overlap (two may touch, so
 * that what counts as one piece of work stays one). intervals_normalise() makes one in
 * O(n log n), in O(n) when the list is sorted already; the other functions take normal lists and are
 * O(n + m).
 *
 * Precondition of all: |instant| <= RS_REDUCE_NS_LIMIT, so no difference overflows.
 */
#ifndef RS_REDUCE_INTERVAL_H
#define RS_REDUCE_INTERVAL_H

#include "common/base/status.h"
#include "common/base/time.h"

#include <stddef.h>
#include <stdint.h>

/* Instants are held within +-73 years of their base: two of them can be added or subtracted. */
#define RS_REDUCE_NS_LIMIT (INT64_C(1) << 61)

struct interval {
    rs_ns start, end;
};

struct intervals { /* a zeroed struct is an empty list */
    struct interval *items;
    size_t count;
    size_t capacity;
};

void intervals_fini(struct intervals *list);
RS_MUST_CHECK enum rs_status intervals_push(struct intervals *list, rs_ns start, rs_ns end);
RS_MUST_CHECK enum rs_status intervals_normalise(struct intervals *list);
rs_dur intervals_length(const struct intervals *list);
/* |a and b| without building it. */
rs_dur intervals_overlap(const struct intervals *a, const struct intervals *b);
/* out = a \ b (out is emptied first; another list than a and b). */
RS_MUST_CHECK enum rs_status intervals_subtract(const struct intervals *a,
                                                const struct intervals *b, struct intervals *out);

/* ---- sorting by a 64-bit key ---- */

struct sort_item {
    int64_t key;
    uint64_t value;
};
/* Ascending by key, stable. Nothing is done when it is sorted already. */
RS_MUST_CHECK enum rs_status sort_items(struct sort_item *items, size_t count);

#endif
