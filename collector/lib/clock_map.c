/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/lib/clock_map.h"

#include "collector/lib/clock.h"

#include <stdbool.h>
#include <string.h>

enum { MULT_BITS = 48, MAX_RATE_NS = 1 << 14 /* ns per tick: a clock of 61 kHz */ };

__extension__ typedef unsigned __int128 u128;
__extension__ typedef __int128 i128;

static void read_pair(uint32_t kind, uint64_t *ticks_p, rs_ns *ns_p)
{
    uint64_t best_gap = UINT64_MAX;
    for (int attempt = 0; attempt < 9; attempt++) {
        uint64_t before = rankscope_priv_ticks_of(kind);
        rs_ns now = rs_time_realtime();
        uint64_t gap = rankscope_priv_ticks_of(kind) - before;
        if (gap < best_gap) {
            best_gap = gap;
            *ticks_p = before + gap / 2;
            *ns_p = now;
        }
    }
}

/* ns per tick * 2^48; 0 when it makes no sense. */
static uint64_t rate_of(uint64_t ticks, rs_dur ns)
{
    if (ticks == 0 || ns <= 0)
        return 0;
    u128 mult = ((u128)(uint64_t)ns << MULT_BITS) / ticks;
    return mult < ((u128)MAX_RATE_NS << MULT_BITS) ? (uint64_t)mult : 0;
}

enum rs_status rs_clock_map_from(struct rs_clock_map *map, const uint64_t ticks[2],
                                 const rs_ns realtime[2])
{
    uint64_t mult = 0;
    if (ticks[1] > ticks[0] && realtime[1] > realtime[0])
        mult = rate_of(ticks[1] - ticks[0], realtime[1] - realtime[0]);
    if (mult == 0)
        return RS_INVALID;
    map->first_ticks = ticks[0];
    map->first_ns = realtime[0];
    map->jump_ns = 0;
    map->count = 1;
    map->segments[0] = (struct rs_clock_segment){ticks[0], realtime[0], mult};
    return RS_OK;
}

enum rs_status rs_clock_map_init(struct rs_clock_map *map, uint32_t kind, struct rs_err *err)
{
    memset(map, 0, sizeof *map);
    map->kind = kind;
    if (rankscope_priv_ticks_of(kind) == 0)
        return rs_err_set(err, RS_NOTFOUND, "clock %s: this processor does not have it",
                          rankscope_priv_clock_text(kind));
    uint64_t ticks[2] = {0, 0};
    rs_ns realtime[2] = {0, 0};
    read_pair(kind, &ticks[0], &realtime[0]);
    struct timespec nap = {.tv_nsec = 20L * RS_NS_PER_MS};
    nanosleep(&nap, NULL);
    read_pair(kind, &ticks[1], &realtime[1]);
    if (rs_clock_map_from(map, ticks, realtime) != RS_OK)
        return rs_err_set(err, RS_INVALID, "clock %s: it does not advance with the system's clock",
                          rankscope_priv_clock_text(kind));
    return RS_OK;
}

static const struct rs_clock_segment *segment_of(const struct rs_clock_map *map, uint64_t ticks)
{
    size_t low = 0;
    size_t high = map->count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (map->segments[middle].start_ticks <= ticks)
            low = middle;
        else
            high = middle;
    }
    return &map->segments[low];
}

rs_ns rs_clock_map_ns(const struct rs_clock_map *map, uint64_t ticks)
{
    const struct rs_clock_segment *segment = segment_of(map, ticks);
    bool is_before = ticks < segment->start_ticks;
    uint64_t distance = is_before ? segment->start_ticks - ticks : ticks - segment->start_ticks;
    i128 length = (i128)(((u128)distance * segment->mult) >> MULT_BITS);
    i128 ns = segment->start_ns + (is_before ? -length : length);
    if (ns > RS_NS_MAX)
        return RS_NS_MAX;
    return ns < RS_NS_MIN ? RS_NS_MIN : (rs_ns)ns;
}

uint64_t rs_clock_map_ticks_now(const struct rs_clock_map *map)
{
    return rankscope_priv_ticks_of(map->kind);
}

static void append(struct rs_clock_map *map, struct rs_clock_segment segment)
{
    if (map->count == RS_CLOCK_MAP_SEGMENTS) {
        map->count /= 2;
        memmove(map->segments, map->segments + map->count, map->count * sizeof map->segments[0]);
    }
    map->segments[map->count++] = segment;
}

void rs_clock_map_add(struct rs_clock_map *map, uint64_t ticks, rs_ns realtime_ns)
{
    const struct rs_clock_segment *last = &map->segments[map->count - 1];
    rs_ns reached = rs_clock_map_ns(map, ticks);
    if (ticks <= last->start_ticks || reached - last->start_ns < RS_NS_PER_S)
        return;
    rs_dur apart = realtime_ns - map->jump_ns - reached;
    if (apart > RS_NS_PER_MS || apart < -RS_NS_PER_MS) { /* the clock was set */
        map->jump_ns += apart;
        apart = 0;
    }
    uint64_t rate = rate_of(ticks - map->first_ticks, realtime_ns - map->jump_ns - map->first_ns);
    if (rate == 0)
        return;
    /* Meet the measured time one second from here: at most 1 ms in 1 s, so the map stays monotone. */
    i128 mult = (i128)rate + (i128)rate * apart / RS_NS_PER_S;
    append(map, (struct rs_clock_segment){ticks, reached, (uint64_t)mult});
}

void rs_clock_map_add_now(struct rs_clock_map *map)
{
    uint64_t ticks = 0;
    rs_ns now = 0;
    read_pair(map->kind, &ticks, &now);
    rs_clock_map_add(map, ticks, now);
}
