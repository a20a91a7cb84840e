/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ticks of a clock of records -> Unix nanoseconds, in integers.
 *
 * One map per kind of clock serves all ranks of a host: two ranks that read the same ticks get the
 * same nanosecond, so nothing is lost in waiting times between them. The map is piecewise linear and
 * continuous. Anchors (both clocks read at once) are added as time goes by; each begins a segment
 * where the one before has led to, and leans towards the measured time, so what was converted once
 * is never converted differently later.
 *
 *      ns |          . ' steers to meet the realtime clock
 *         |      __/
 *         |   _-    segment: ns = start_ns + (ticks - start_ticks) * mult / 2^48
 *         |  /
 *         +--+----+---+----- ticks
 *
 * A jump of the realtime clock by more than 1 ms (someone set it) is not followed: lengths stay
 * true. `jump_ns` tells how far the two are apart. One thread.
 */
#ifndef RS_LIB_CLOCK_MAP_H
#define RS_LIB_CLOCK_MAP_H

#include "common/base/err.h"
#include "common/base/time.h"

#include <stddef.h>
#include <stdint.h>

enum { RS_CLOCK_MAP_SEGMENTS = 1024 };

struct rs_clock_segment {
    uint64_t start_ticks;
    rs_ns start_ns;
    uint64_t mult; /* ns per tick, times 2^48 */
};

struct rs_clock_map {
    uint32_t kind;        /* enum rs_clock_kind */
    uint64_t first_ticks; /* the long baseline of the rate */
    rs_ns first_ns;
    rs_dur jump_ns;
    size_t count;
    struct rs_clock_segment
        segments[RS_CLOCK_MAP_SEGMENTS]; /* ascending; the oldest half goes when full */
};

/* Takes two anchors some milliseconds apart (sleeps for them). RS_NOTFOUND: this processor has no
 * such clock. */
RS_MUST_CHECK enum rs_status rs_clock_map_init(struct rs_clock_map *map, uint32_t kind,
                                               struct rs_err *err);

/* The same from two pairs; for tests and for recordings made elsewhere. RS_INVALID: no rate follows from them. */
RS_MUST_CHECK enum rs_status rs_clock_map_from(struct rs_clock_map *map, const uint64_t ticks[2],
                                               const rs_ns realtime[2]);

/* A new pair; ignored unless `ticks` is at least a second's worth behind the last segment's start. */
void rs_clock_map_add(struct rs_clock_map *map, uint64_t ticks, rs_ns realtime_ns);
void rs_clock_map_add_now(struct rs_clock_map *map); /* a pair of this instant */

/* Defined for all ticks, monotone; saturates. */
rs_ns rs_clock_map_ns(const struct rs_clock_map *map, uint64_t ticks);
uint64_t rs_clock_map_ticks_now(const struct rs_clock_map *map);

#endif
