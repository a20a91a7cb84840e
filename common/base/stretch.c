/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/stretch.h"

#include "common/base/mem.h"

#include <stdint.h>
#include <stdlib.h>

static int by_time(const void *left, const void *right)
{
    const rs_ns a = *(const rs_ns *)left;
    const rs_ns b = *(const rs_ns *)right;
    return (a > b) - (a < b);
}

bool rs_stretch_is_known(const struct rs_stretch *stretch)
{
    return stretch->end > stretch->start;
}

bool rs_stretch_overlaps(const struct rs_stretch *a, const struct rs_stretch *b)
{
    return a->start < b->end && b->start < a->end;
}

/* How many of `times` (ascending) are below `limit`, or at most it. */
static size_t count_below(const rs_ns *times, size_t count, rs_ns limit, bool or_at)
{
    size_t low = 0;
    size_t high = count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (times[middle] < limit || (or_at && times[middle] == limit))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

rs_dur rs_stretch_between(rs_ns from, rs_ns to)
{
    rs_dur between;
    if (!__builtin_sub_overflow(to, from, &between) && between >= -RS_NS_MAX)
        return between;
    return to < from ? -RS_NS_MAX : RS_NS_MAX;
}

int64_t rs_stretch_tenths(rs_dur between)
{
    const rs_dur tenth_ns = 100 * (rs_dur)RS_NS_PER_MS;
    const int64_t whole = between / tenth_ns, rest = between % tenth_ns;
    const int64_t size = whole < 0 ? -whole : whole;
    return size + (rest >= tenth_ns / 2 || -rest >= tenth_ns / 2);
}

enum rs_status rs_stretch_most_shared(const struct rs_stretch *stretches, size_t count,
                                      size_t *index_p)
{
    rs_ns *starts = rs_mem_calloc(count + 1, sizeof *starts);
    rs_ns *ends = rs_mem_calloc(count + 1, sizeof *ends);
    size_t known = 0;
    size_t most = 0;
    const enum rs_status status = starts && ends ? RS_OK : RS_NOMEM;
    *index_p = SIZE_MAX;
    for (size_t i = 0; status == RS_OK && i < count; i++)
        if (rs_stretch_is_known(&stretches[i])) {
            starts[known] = stretches[i].start;
            ends[known++] = stretches[i].end;
        }
    if (known > 1) {
        qsort(starts, known, sizeof *starts, by_time);
        qsort(ends, known, sizeof *ends, by_time);
    }
    for (size_t i = 0; known && i < count; i++) {
        if (!rs_stretch_is_known(&stretches[i]))
            continue;
        /* All that began before it ended, but for those that ended before it began. */
        const size_t shared = count_below(starts, known, stretches[i].end, false) -
                              count_below(ends, known, stretches[i].start, true);
        if (shared > most) {
            most = shared;
            *index_p = i;
        }
    }
    rs_mem_free(starts);
    rs_mem_free(ends);
    return status == RS_OK && !known ? RS_NOTFOUND : status;
}
