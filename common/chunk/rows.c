/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which rows of a chunk are coded together, and what is remembered between them.
 */
#include "common/base/mem.h"
#include "common/chunk/chunk_priv.h"

#include <string.h>

#define TRY(predictor) (1u << PREDICT_##predictor)
const struct column_spec column_specs[COLUMN_COUNT] = {
#define X(name, column_type, column_grouping, tried)                                               \
    [COL_##name] = {                                                                               \
        .type = COLUMN_##column_type, .grouping = GROUP_##column_grouping, .predictors = (tried)},
#include "common/chunk/columns.def"
#undef X
};

enum rs_status rows_init(struct rows *rows, size_t capacity)
{
    *rows = (struct rows){.capacity = capacity};
    bool failed = false;
    for (int g = 0; g < GROUPING_COUNT; g++) {
        rows->order[g] = rs_mem_calloc(capacity, sizeof *rows->order[g]);
        failed |= !rows->order[g];
    }
    rows->reference = rs_mem_calloc(capacity, sizeof *rows->reference);
    if (!failed && rows->reference)
        return RS_OK;
    rows_fini(rows);
    return RS_NOMEM;
}

void rows_fini(struct rows *rows)
{
    for (int g = 0; g < GROUPING_COUNT; g++)
        rs_mem_free(rows->order[g]);
    rs_mem_free(rows->reference);
    *rows = (struct rows){0};
}

static uint8_t link_group(uint8_t kind)
{
    switch (kind) {
    case RS_KIND_RUNTIME:
    case RS_KIND_DRIVER:
    case RS_KIND_MEMCPY:
    case RS_KIND_MEMSET:
    case RS_KIND_SYNC:
    case RS_KIND_DEVICE_EVENT:
        return RS_KIND_KERNEL;
    default:
        return kind;
    }
}

/* Appends the group of this code, if it has rows, and says where the next one's rows begin. */
static size_t add_group(struct rows *rows, int grouping, uint8_t code, size_t count, size_t first)
{
    if (!count)
        return first;
    rows->groups[grouping][rows->group_count[grouping]++] =
        (struct group){.code = code, .count = count, .rows = rows->order[grouping] + first};
    return first + count;
}

/* Lays out the groups of one grouping; next_p[kind]: where the kind's next row goes. */
static void place_groups(struct rows *rows, int grouping, const size_t sizes[RS_KIND_COUNT],
                         uint32_t *next_p[RS_KIND_COUNT])
{
    size_t first = 0;
    rows->group_count[grouping] = 0;
    for (int flows = 0; flows < 2; flows++) {
        for (unsigned code = 0; code < RS_KIND_COUNT; code++) {
            if (kind_is_flow((uint8_t)code) != (flows != 0))
                continue;
            next_p[code] = rows->order[grouping] + first;
            first = add_group(rows, grouping, (uint8_t)code, sizes[code], first);
        }
    }
}

/* Counting sorts: stable, so rows stay in order inside a group. */
void rows_sort(struct rows *rows, const uint8_t *kind, size_t count)
{
    size_t sizes[GROUPING_COUNT][RS_KIND_COUNT] = {0};
    uint32_t *by_kind[RS_KIND_COUNT];
    uint32_t *by_link[RS_KIND_COUNT];
    uint8_t link[RS_KIND_COUNT];
    for (size_t row = 0; row < count; row++)
        sizes[GROUP_KIND][kind[row]]++;
    for (unsigned k = 0; k < RS_KIND_COUNT; k++) {
        link[k] = link_group((uint8_t)k);
        sizes[GROUP_LINK][link[k]] += sizes[GROUP_KIND][k];
    }
    place_groups(rows, GROUP_KIND, sizes[GROUP_KIND], by_kind);
    place_groups(rows, GROUP_LINK, sizes[GROUP_LINK], by_link);
    uint32_t newest = 0;
    for (size_t row = 0; row < count; row++) {
        const uint8_t k = kind[row];
        *by_kind[k]++ = (uint32_t)row;
        *by_link[link[k]]++ = (uint32_t)row;
        rows->reference[row] = newest;
        newest = kind_is_flow(k) ? newest : (uint32_t)row + 1;
    }
}

enum rs_status memo_reserve(struct memo *memo, size_t count)
{
    const size_t before = memo->capacity;
    if (rs_mem_grow((void **)&memo->entries, &memo->capacity, count, sizeof *memo->entries) !=
        RS_OK)
        return RS_NOMEM;
    for (size_t i = before; i < memo->capacity; i++)
        memo->entries[i] = (struct memo_entry){0};
    if (!memo->stamp)
        memo->stamp = 1;
    return RS_OK;
}

void memo_fini(struct memo *memo)
{
    rs_mem_free(memo->entries);
    *memo = (struct memo){0};
}
