/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/slots.h"

#include "common/base/mem.h"

enum { FIRST_CAPACITY = 64 };

uint32_t rs_slots_find(const struct rs_slots *slots, uint64_t hash, rs_slots_same_fn *same,
                       const void *self, const void *wanted)
{
    const uint32_t short_hash = (uint32_t)hash;
    for (size_t at = slots->capacity ? short_hash & (slots->capacity - 1) : 0;
         slots->capacity && slots->items[at].index; at = (at + 1) & (slots->capacity - 1)) {
        const struct rs_slots_item *slot = &slots->items[at];
        if (slot->hash == short_hash && same(self, slot->index - 1, wanted))
            return slot->index - 1;
    }
    return RS_SLOTS_NONE;
}

static void place(struct rs_slots_item *items, size_t capacity, struct rs_slots_item slot)
{
    size_t at = slot.hash & (capacity - 1);
    while (items[at].index)
        at = (at + 1) & (capacity - 1);
    items[at] = slot;
}

/* Items of one hash keep their order: they are met in the order of their run, which begins behind a free place. */
static enum rs_status grow(struct rs_slots *slots)
{
    const size_t old = slots->capacity, capacity = old ? old * 2 : FIRST_CAPACITY;
    struct rs_slots_item *items = rs_mem_calloc(capacity, sizeof *items);
    if (!items)
        return RS_NOMEM;
    size_t first = 0;
    while (first < old && slots->items[first].index)
        first++;
    for (size_t i = 0; i < old; i++) {
        const struct rs_slots_item slot = slots->items[(first + i) & (old - 1)];
        if (slot.index)
            place(items, capacity, slot);
    }
    rs_mem_free(slots->items);
    slots->items = items;
    slots->capacity = capacity;
    return RS_OK;
}

enum rs_status rs_slots_put(struct rs_slots *slots, uint64_t hash, uint32_t index)
{
    if (index == RS_SLOTS_NONE)
        return RS_LIMIT;
    if ((slots->count + 1) * 2 > slots->capacity && grow(slots) != RS_OK)
        return RS_NOMEM;
    place(slots->items, slots->capacity,
          (struct rs_slots_item){.hash = (uint32_t)hash, .index = index + 1});
    slots->count++;
    return RS_OK;
}

void rs_slots_fini(struct rs_slots *slots)
{
    rs_mem_free(slots->items);
    *slots = (struct rs_slots){0};
}
