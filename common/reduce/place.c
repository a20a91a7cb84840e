/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where each row of work belongs: its device, the call that launched it, its step; and from that the
 * windows [START, END) of each step on each device.
 *
 * The step of device work is that of its launch (by correlation). When the launch row is gone
 * (recorded before the window, or cut away) it is the host step in which the work starts, and the work
 * counts for START, END and E(k) of that step. Work without any correlation id has a step in the same way,
 * but bounds no window: the host's bounds hold then. Work whose launch lies outside every step
 * belongs to none.
 */
#include "common/base/mem.h"
#include "common/reduce/reduce_priv.h"

#include <stdlib.h>

/* ---- correlation -> launch ---- */

struct launch_map {
    uint32_t *slots; /* index + 1, 0 free */
    size_t mask;     /* of a hash table; 0: direct, by correlation - least */
    int64_t least;
    uint64_t range;
};

static size_t hash_of(int64_t key)
{
    uint64_t x = (uint64_t)key * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(x ^ (x >> 29));
}

/* Of two launches with one id the earlier counts (a driver call inside a runtime call). */
static void take_earlier(const struct rs_reduce *reduce, uint32_t *slot, size_t index)
{
    const struct reduce_launch *launches = reduce->launches.items;
    if (!*slot || launches[index].start < launches[*slot - 1].start)
        *slot = (uint32_t)index + 1;
}

static enum rs_status launch_map_init(struct launch_map *map, const struct rs_reduce *reduce)
{
    const size_t count = reduce->launches.count;
    const struct reduce_launch *launches = reduce->launches.items;
    *map = (struct launch_map){0};
    if (!count)
        return RS_OK;
    if (count >= REDUCE_NONE - 1)
        return RS_LIMIT;
    int64_t least = launches[0].correlation, most = least;
    for (size_t i = 1; i < count; i++) {
        least = launches[i].correlation < least ? launches[i].correlation : least;
        most = launches[i].correlation > most ? launches[i].correlation : most;
    }
    map->least = least;
    map->range = (uint64_t)most - (uint64_t)least;
    if (map->range < 8 * (uint64_t)count + 1024) {
        map->slots = rs_mem_calloc((size_t)map->range + 1, sizeof *map->slots);
        if (!map->slots)
            return RS_NOMEM;
        for (size_t i = 0; i < count; i++)
            take_earlier(reduce, &map->slots[launches[i].correlation - least], i);
        return RS_OK;
    }
    size_t size = 1024;
    while (size < 2 * count)
        size *= 2;
    map->slots = rs_mem_calloc(size, sizeof *map->slots);
    if (!map->slots)
        return RS_NOMEM;
    map->mask = size - 1;
    for (size_t i = 0; i < count; i++) {
        size_t at = hash_of(launches[i].correlation) & map->mask;
        while (map->slots[at] &&
               launches[map->slots[at] - 1].correlation != launches[i].correlation)
            at = (at + 1) & map->mask;
        take_earlier(reduce, &map->slots[at], i);
    }
    return RS_OK;
}

static uint32_t launch_of(const struct launch_map *map, const struct rs_reduce *reduce,
                          int64_t correlation)
{
    if (!map->slots || correlation < 0)
        return REDUCE_NONE;
    if (!map->mask) {
        const uint64_t at = (uint64_t)correlation - (uint64_t)map->least;
        return at <= map->range && map->slots[at] ? map->slots[at] - 1 : REDUCE_NONE;
    }
    for (size_t at = hash_of(correlation) & map->mask; map->slots[at]; at = (at + 1) & map->mask) {
        if (reduce->launches.items[map->slots[at] - 1].correlation == correlation)
            return map->slots[at] - 1;
    }
    return REDUCE_NONE;
}

/* ---- devices ---- */

static int by_value(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a;
    const int32_t y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

enum { DEVICES_MAX = 4096 };

static enum rs_status find_slots(struct rs_reduce *reduce, uint16_t *slot_of_lane)
{
    const size_t lanes = reduce->lanes->count;
    bool *is_used = rs_mem_calloc(lanes + 1, sizeof *is_used);
    reduce->slots = rs_mem_calloc(lanes + 1, sizeof *reduce->slots);
    if (!is_used || !reduce->slots) {
        rs_mem_free(is_used);
        return RS_NOMEM;
    }
    for (size_t i = 0; i < reduce->work.count; i++)
        is_used[reduce->work.items[i].lane] = true;
    size_t count = 0;
    for (size_t i = 0; i < lanes; i++) {
        if (is_used[i])
            reduce->slots[count++] = reduce->has_device_work ? reduce->lanes->items[i].device : -1;
    }
    rs_mem_free(is_used);
    if (count)
        qsort(reduce->slots, count, sizeof *reduce->slots, by_value);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (!kept || reduce->slots[kept - 1] != reduce->slots[i])
            reduce->slots[kept++] = reduce->slots[i];
    }
    if (kept > DEVICES_MAX)
        return RS_LIMIT;
    reduce->slot_count = kept;
    for (size_t i = 0; i < lanes; i++) {
        const int32_t device = reduce->has_device_work ? reduce->lanes->items[i].device : -1;
        for (size_t slot = 0; slot < kept; slot++) {
            if (reduce->slots[slot] == device)
                slot_of_lane[i] = (uint16_t)slot;
        }
    }
    return RS_OK;
}

/* order[slot_first[s] .. slot_first[s + 1]): the work of slot s by start. */
static enum rs_status sort_work(struct rs_reduce *reduce)
{
    const size_t count = reduce->work.count;
    reduce->slot_first = rs_mem_calloc(reduce->slot_count + 1, sizeof *reduce->slot_first);
    reduce->order = rs_mem_calloc(count + 1, sizeof *reduce->order);
    struct sort_item *items = rs_mem_calloc(count + 1, sizeof *items);
    enum rs_status status = reduce->slot_first && reduce->order && items ? RS_OK : RS_NOMEM;
    size_t *first = reduce->slot_first;
    for (size_t i = 0; status == RS_OK && i < count; i++)
        first[reduce->work.items[i].slot + 1]++;
    for (size_t slot = 0; status == RS_OK && slot < reduce->slot_count; slot++)
        first[slot + 1] += first[slot];
    for (size_t i = 0; status == RS_OK && i < count;
         i++) /* moves each bound to the next one's place */
        items[first[reduce->work.items[i].slot]++] =
            (struct sort_item){reduce->work.items[i].start, i};
    for (size_t slot = reduce->slot_count; status == RS_OK && slot > 0; slot--)
        first[slot] = first[slot - 1];
    if (status == RS_OK)
        first[0] = 0;
    for (size_t slot = 0; status == RS_OK && slot < reduce->slot_count; slot++)
        status = sort_items(items + first[slot], first[slot + 1] - first[slot]);
    for (size_t i = 0; status == RS_OK && i < count; i++)
        reduce->order[i] = (uint32_t)items[i].value;
    rs_mem_free(items);
    return status;
}

/* ---- steps ---- */

static void place_row(struct rs_reduce *reduce, const struct launch_map *map,
                      struct reduce_work *work)
{
    const uint32_t launch = launch_of(map, reduce, work_correlation(reduce, work));
    const rs_ns instant =
        launch == REDUCE_NONE ? work->start : reduce->launches.items[launch].start;
    if (launch != REDUCE_NONE) {
        work->launch = launch;
        work->is_launched = 1;
    }
    work->step = windows_find(&reduce->host_windows, instant);
}

/* A profiler that says itself which device work a step launched (reference section 3.3: it knows more of
 * the launches than the rows do) has the last word about [START, END). */
static enum rs_status take_reported_windows(const struct rs_reduce *reduce, size_t slot,
                                            struct reduce_windows *windows)
{
    const size_t count = reduce->steps.count;
    if (!reduce->step_windows.count || !count)
        return RS_OK;
    struct sort_item *steps = rs_mem_calloc(count, sizeof *steps);
    if (!steps)
        return RS_NOMEM;
    for (size_t i = 0; i < count; i++)
        steps[i] = (struct sort_item){reduce->steps.items[i].number, i};
    const enum rs_status status = sort_items(steps, count);
    for (size_t i = 0; status == RS_OK && i < reduce->step_windows.count; i++) {
        const struct reduce_step_window *reported = &reduce->step_windows.items[i];
        size_t low = 0, high = count;
        while (low < high) {
            const size_t middle = low + (high - low) / 2;
            if (steps[middle].key < reported->number)
                low = middle + 1;
            else
                high = middle;
        }
        if (low < count && steps[low].key == reported->number &&
            reported->device == reduce->slots[slot])
            windows->items[steps[low].value] = reported->window;
    }
    rs_mem_free(steps);
    return status;
}

/* [START, END) of contracts section 4 on one device. */
static enum rs_status build_device_windows(struct rs_reduce *reduce, size_t slot)
{
    struct reduce_windows *windows = &reduce->device_windows[slot];
    const size_t count = reduce->steps.count;
    enum rs_status status = windows_init(windows, count);
    if (status != RS_OK)
        return status;
    for (size_t i = 0; i < count; i++)
        windows->items[i] = (struct interval){RS_NS_MAX, RS_NS_MIN};
    for (size_t i = reduce->slot_first[slot]; i < reduce->slot_first[slot + 1]; i++) {
        const struct reduce_work *work = &reduce->work.items[reduce->order[i]];
        if (work->step == REDUCE_NONE || !work_is_linked(work))
            continue;
        struct interval *window = &windows->items[work->step];
        window->start = work->start < window->start ? work->start : window->start;
        window->end = work->end > window->end ? work->end : window->end;
    }
    for (size_t i = 0; i < count; i++) {
        const struct reduce_step *step = &reduce->steps.items[i];
        struct interval *window = &windows->items[i];
        if (window->start == RS_NS_MAX)
            window->start = step->host_start;
        if (window->end < step->host_end)
            window->end = step->host_end;
        if (reduce->step_origin == RS_STEPS_NONE)
            *window = (struct interval){RS_NS_MIN, RS_NS_MAX};
    }
    status = take_reported_windows(reduce, slot, windows);
    windows_index(windows);
    return status;
}

enum rs_status place_work(struct rs_reduce *reduce)
{
    struct launch_map map = {0};
    uint16_t *slot_of_lane = rs_mem_calloc(reduce->lanes->count + 1, sizeof *slot_of_lane);
    enum rs_status status = slot_of_lane ? RS_OK : RS_NOMEM;
    if (status == RS_OK)
        status = find_slots(reduce, slot_of_lane);
    if (status == RS_OK)
        status = launch_map_init(&map, reduce);
    for (size_t i = 0; status == RS_OK && i < reduce->work.count; i++) {
        struct reduce_work *work = &reduce->work.items[i];
        work->slot = slot_of_lane[work->lane] & 0x7fffu;
        place_row(reduce, &map, work);
    }
    if (status == RS_OK)
        status = sort_work(reduce);
    if (status == RS_OK) {
        reduce->device_windows =
            rs_mem_calloc(reduce->slot_count + 1, sizeof *reduce->device_windows);
        if (!reduce->device_windows)
            status = RS_NOMEM;
    }
    for (size_t slot = 0; status == RS_OK && slot < reduce->slot_count; slot++)
        status = build_device_windows(reduce, slot);
    rs_mem_free(map.slots);
    rs_mem_free(slot_of_lane);
    return status;
}
