/* SPDX-License-Identifier: Apache-2.0 */
#include "common/reduce/interval.h"

#include "common/base/mem.h"

#include <stdbool.h>
#include <string.h>

void intervals_fini(struct intervals *list)
{
    rs_mem_free(list->items);
    *list = (struct intervals){0};
}

enum rs_status intervals_push(struct intervals *list, rs_ns start, rs_ns end)
{
    if (list->count == list->capacity) {
        const enum rs_status status = rs_mem_grow((void **)&list->items, &list->capacity,
                                                  list->count + 1, sizeof *list->items);
        if (status != RS_OK)
            return status;
    }
    list->items[list->count++] = (struct interval){start, end};
    return RS_OK;
}

/* ---- sorting: least significant digit first, as many digits as the range of keys needs ---- */

enum { DIGIT_BITS = 11, DIGIT_COUNT = 1 << DIGIT_BITS, INSERTION_MAX = 48 };

static bool is_sorted(const struct sort_item *items, size_t count, int64_t *least_p,
                      int64_t *most_p)
{
    bool sorted = true;
    int64_t least = items[0].key;
    int64_t most = least;
    for (size_t i = 1; i < count; i++) {
        const int64_t key = items[i].key;
        sorted &= key >= items[i - 1].key;
        if (key < least)
            least = key;
        if (key > most)
            most = key;
    }
    *least_p = least;
    *most_p = most;
    return sorted;
}

static void sort_by_insertion(struct sort_item *items, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        const struct sort_item item = items[i];
        size_t at = i;
        for (; at > 0 && items[at - 1].key > item.key; at--)
            items[at] = items[at - 1];
        items[at] = item;
    }
}

static void sort_digit(const struct sort_item *from, struct sort_item *to, size_t count,
                       int64_t least, unsigned shift)
{
    size_t places[DIGIT_COUNT] = {0};
    for (size_t i = 0; i < count; i++)
        places[(((uint64_t)from[i].key - (uint64_t)least) >> shift) & (DIGIT_COUNT - 1)]++;
    size_t place = 0;
    for (size_t digit = 0; digit < DIGIT_COUNT; digit++) {
        const size_t size = places[digit];
        places[digit] = place;
        place += size;
    }
    for (size_t i = 0; i < count; i++) {
        const uint64_t digit =
            (((uint64_t)from[i].key - (uint64_t)least) >> shift) & (DIGIT_COUNT - 1);
        to[places[digit]++] = from[i];
    }
}

enum rs_status sort_items(struct sort_item *items, size_t count)
{
    int64_t least, most;
    if (count < 2 || is_sorted(items, count, &least, &most))
        return RS_OK;
    if (count <= INSERTION_MAX) {
        sort_by_insertion(items, count);
        return RS_OK;
    }
    struct sort_item *spare = rs_mem_calloc(count, sizeof *spare);
    if (!spare)
        return RS_NOMEM;
    const uint64_t range = (uint64_t)most - (uint64_t)least;
    struct sort_item *from = items;
    struct sort_item *to = spare;
    for (unsigned shift = 0; shift < 64 && (range >> shift) != 0; shift += DIGIT_BITS) {
        sort_digit(from, to, count, least, shift);
        struct sort_item *swap = from;
        from = to;
        to = swap;
    }
    if (from != items)
        memcpy(items, from, count * sizeof *items);
    rs_mem_free(spare);
    return RS_OK;
}

/* ---- sets ---- */

static void merge_sorted(struct intervals *list)
{
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++) {
        const struct interval item = list->items[i];
        if (item.end <= item.start)
            continue;
        if (kept && item.start < list->items[kept - 1].end) {
            if (item.end > list->items[kept - 1].end)
                list->items[kept - 1].end = item.end;
        } else {
            list->items[kept++] = item;
        }
    }
    list->count = kept;
}

enum rs_status intervals_normalise(struct intervals *list)
{
    _Static_assert(sizeof(struct interval) == sizeof(struct sort_item), "sorted in place");
    bool sorted = true;
    for (size_t i = 1; i < list->count; i++)
        sorted &= list->items[i].start >= list->items[i - 1].start;
    if (!sorted) {
        struct sort_item *items = rs_mem_calloc(list->count, sizeof *items);
        if (!items)
            return RS_NOMEM;
        for (size_t i = 0; i < list->count; i++)
            items[i] = (struct sort_item){list->items[i].start, (uint64_t)list->items[i].end};
        const enum rs_status status = sort_items(items, list->count);
        if (status == RS_OK) {
            for (size_t i = 0; i < list->count; i++)
                list->items[i] = (struct interval){items[i].key, (int64_t)items[i].value};
        }
        rs_mem_free(items);
        if (status != RS_OK)
            return status;
    }
    merge_sorted(list);
    return RS_OK;
}

rs_dur intervals_length(const struct intervals *list)
{
    rs_dur length = 0;
    for (size_t i = 0; i < list->count; i++)
        length += list->items[i].end - list->items[i].start;
    return length;
}

rs_dur intervals_overlap(const struct intervals *a, const struct intervals *b)
{
    rs_dur length = 0;
    size_t i = 0, k = 0;
    while (i < a->count && k < b->count) {
        const struct interval x = a->items[i];
        const struct interval y = b->items[k];
        const rs_ns start = x.start > y.start ? x.start : y.start;
        const rs_ns end = x.end < y.end ? x.end : y.end;
        if (end > start)
            length += end - start;
        if (x.end < y.end)
            i++;
        else
            k++;
    }
    return length;
}

enum rs_status intervals_subtract(const struct intervals *a, const struct intervals *b,
                                  struct intervals *out)
{
    out->count = 0;
    size_t k = 0;
    for (size_t i = 0; i < a->count; i++) {
        rs_ns start = a->items[i].start;
        const rs_ns end = a->items[i].end;
        while (k < b->count && b->items[k].end <= start)
            k++;
        for (size_t n = k; n < b->count && b->items[n].start < end && start < end; n++) {
            if (b->items[n].start > start) {
                const enum rs_status status = intervals_push(out, start, b->items[n].start);
                if (status != RS_OK)
                    return status;
            }
            start = b->items[n].end;
        }
        if (start < end) {
            const enum rs_status status = intervals_push(out, start, end);
            if (status != RS_OK)
                return status;
        }
    }
    return RS_OK;
}
