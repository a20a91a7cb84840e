/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows of steps, and the first one that holds an instant: O(log n) where windows are in
 * order of time, as they nearly always are.
 */
#include "common/base/mem.h"
#include "common/reduce/reduce_priv.h"

enum rs_status windows_init(struct reduce_windows *windows, size_t count)
{
    *windows = (struct reduce_windows){.count = count};
    if (!count)
        return RS_OK;
    windows->items = rs_mem_calloc(count, sizeof *windows->items);
    windows->latest_end = rs_mem_calloc(count, sizeof *windows->latest_end);
    windows->least_start = rs_mem_calloc(count, sizeof *windows->least_start);
    if (windows->items && windows->latest_end && windows->least_start)
        return RS_OK;
    windows_fini(windows);
    return RS_NOMEM;
}

void windows_fini(struct reduce_windows *windows)
{
    rs_mem_free(windows->items);
    rs_mem_free(windows->latest_end);
    rs_mem_free(windows->least_start);
    *windows = (struct reduce_windows){0};
}

void windows_index(struct reduce_windows *windows)
{
    rs_ns latest = RS_NS_MIN;
    for (size_t i = 0; i < windows->count; i++) {
        if (windows->items[i].end > latest)
            latest = windows->items[i].end;
        windows->latest_end[i] = latest;
    }
    rs_ns least = RS_NS_MAX;
    for (size_t i = windows->count; i-- > 0;) {
        if (windows->items[i].start < least)
            least = windows->items[i].start;
        windows->least_start[i] = least;
    }
}

uint32_t windows_find(const struct reduce_windows *windows, rs_ns instant)
{
    size_t low = 0, high = windows->count; /* first whose running end is behind the instant */
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (windows->latest_end[middle] > instant)
            high = middle;
        else
            low = middle + 1;
    }
    for (size_t i = low; i < windows->count && windows->least_start[i] <= instant; i++) {
        if (windows->items[i].start <= instant && instant < windows->items[i].end)
            return (uint32_t)i;
    }
    return REDUCE_NONE;
}
