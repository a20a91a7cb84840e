/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/store/row_unit_set.h"

#include "common/base/mem.h"

static uint64_t hash_of(int64_t kind, int64_t a, int64_t b)
{
    return rs_slots_mix(rs_slots_mix(rs_slots_mix(0, (uint64_t)kind), (uint64_t)a), (uint64_t)b);
}

static bool is_same(const void *self, uint32_t index, const void *wanted_)
{
    const struct unit_item *item = &((const struct unit_set *)self)->items[index];
    const struct unit_item *wanted = wanted_;
    return item->kind == wanted->kind && item->a == wanted->a && item->b == wanted->b;
}

struct unit_item *unit_set_find(const struct unit_set *set, int64_t kind, int64_t a, int64_t b)
{
    const struct unit_item wanted = {.kind = kind, .a = a, .b = b};
    const uint32_t at = rs_slots_find(&set->slots, hash_of(kind, a, b), is_same, set, &wanted);
    return at == RS_SLOTS_NONE ? NULL : &set->items[at];
}

enum rs_status unit_set_put(struct unit_set *set, const struct rs_unit *unit,
                            struct unit_digest digest)
{
    const int64_t kind = unit->kind;
    struct unit_item *item = unit_set_find(set, kind, unit->a, unit->b);
    if (item) {
        item->digest = digest;
        return RS_OK;
    }
    if (rs_mem_grow((void **)&set->items, &set->capacity, set->count + 1, sizeof *set->items) < 0 ||
        rs_slots_put(&set->slots, hash_of(kind, unit->a, unit->b), (uint32_t)set->count) < 0)
        return RS_NOMEM;
    set->items[set->count++] =
        (struct unit_item){.kind = kind, .a = unit->a, .b = unit->b, .digest = digest};
    return RS_OK;
}

void unit_set_fini(struct unit_set *set)
{
    rs_slots_fini(&set->slots);
    rs_mem_free(set->items);
    *set = (struct unit_set){0};
}
