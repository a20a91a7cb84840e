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

/* A counting sort: stable, so rows stay in order inside a group. */
static void sort_grouping(struct rows *rows, int grouping, const uint8_t *kind, size_t count)
{
    uint8_t code_of[RS_KIND_COUNT];
    size_t sizes[RS_KIND_COUNT] = {0};
    size_t next[RS_KIND_COUNT] = {0};
    for (uint8_t k = 0; k < RS_KIND_COUNT; k++)
        code_of[k] = grouping == GROUP_LINK ? link_group(k) : k;
    for (size_t row = 0; row < count; row++)
        sizes[code_of[kind[row]]]++;
    size_t first = 0;
    rows->group_count[grouping] = 0;
    for (int flows = 0; flows < 2; flows++) {
        for (uint8_t code = 0; code < RS_KIND_COUNT; code++) {
            if (kind_is_flow(code) != (flows != 0))
                continue;
            next[code] = first;
            first = add_group(rows, grouping, code, sizes[code], first);
        }
    }
    uint32_t *order = rows->order[grouping];
    for (size_t row = 0; row < count; row++)
        order[next[code_of[kind[row]]]++] = (uint32_t)row;
}

void rows_sort(struct rows *rows, const uint8_t *kind, size_t count)
{
    for (int g = 0; g < GROUPING_COUNT; g++)
        sort_grouping(rows, g, kind, count);
    uint32_t newest = 0;
    for (size_t row = 0; row < count; row++) {
        rows->reference[row] = newest;
        newest = kind_is_flow(kind[row]) ? newest : (uint32_t)row + 1;
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
