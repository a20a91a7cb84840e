/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where in an array is the item with these properties? An index beside the array, for arrays that may grow long.
 *
 * The array stays the owner's and keeps its order; here are only hashes and positions, open addressing, at most
 * half full. Items of one hash are asked in the order in which they were put. Nothing is taken out. One
 * thread at a time. A zeroed one is empty and owns nothing.
 */
#ifndef RS_BASE_SLOTS_H
#define RS_BASE_SLOTS_H

#include "common/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RS_SLOTS_NONE UINT32_MAX

struct rs_slots_item {
    uint32_t hash;
    uint32_t index; /* + 1; 0 free */
};

struct rs_slots {
    struct rs_slots_item *items;
    size_t count;    /* positions put */
    size_t capacity; /* a power of two */
};

/* Is the item at `index` of the owner's array the one looked for? */
typedef bool rs_slots_same_fn(const void *self, uint32_t index, const void *wanted);

/* Spreads numbers over all bits of a hash; the first call has 0 for `hash`. */
static inline uint64_t rs_slots_mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 32;
}

/* The position of the first item put with this hash that is the same; RS_SLOTS_NONE. */
uint32_t rs_slots_find(const struct rs_slots *slots, uint64_t hash, rs_slots_same_fn *same,
                       const void *self, const void *wanted);
/* RS_NOMEM, RS_LIMIT (index is RS_SLOTS_NONE); then nothing changed. */
RS_MUST_CHECK enum rs_status rs_slots_put(struct rs_slots *slots, uint64_t hash, uint32_t index);
void rs_slots_fini(struct rs_slots *slots);

#endif
