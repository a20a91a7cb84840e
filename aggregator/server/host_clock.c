/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/server/host_clock.h"

static const rs_dur under_way_max_ns = 10 * (rs_dur)RS_NS_PER_S;
enum { DRIFT_PARTS = 5000 }; /* 200 ppm */

static rs_dur bound_of(const struct host_clock_sample *sample, rs_ns now)
{
    const rs_dur age = now > sample->at ? now - sample->at : 0;
    return sample->half_ns + age / DRIFT_PARTS;
}

static const struct host_clock_sample *best_of(const struct host_clock *clock, rs_ns now)
{
    const struct host_clock_sample *best = NULL;
    for (size_t i = 0; i < clock->count; i++)
        if (!best || bound_of(&clock->samples[i], now) < bound_of(best, now))
            best = &clock->samples[i];
    return best;
}

static bool difference(rs_ns a, rs_ns b, rs_dur *difference_p)
{
    return !__builtin_sub_overflow(a, b, difference_p) && *difference_p > RS_NS_MIN / 4 &&
           *difference_p < RS_NS_MAX / 4;
}

void host_clock_take(struct host_clock *clock, rs_ns t0, rs_ns t1, rs_ns t2, rs_ns t3, rs_ns now)
{
    rs_dur there = 0, back = 0, ours = 0, theirs = 0;
    if (t0 <= 0 || !difference(t1, t0, &there) || !difference(t2, t3, &back) ||
        !difference(t3, t0, &ours) || !difference(t2, t1, &theirs))
        return;
    /* While it was there its clock may have gained more than the way took: that is no contradiction. */
    const rs_dur under_way = ours - theirs;
    const rs_dur drift = theirs / DRIFT_PARTS;
    if (theirs < 0 || under_way < -drift || under_way > under_way_max_ns)
        return;
    const struct host_clock_sample fresh = {
        .offset_ns = (there + back) / 2, .half_ns = (under_way + 1) / 2 + drift, .at = now};
    const struct host_clock_sample *best = best_of(clock, now);
    const rs_dur apart = best ? fresh.offset_ns - best->offset_ns : 0;
    const rs_dur allowed = best ? bound_of(best, now) + fresh.half_ns : 0;
    if (apart > allowed || apart < -allowed)
        clock->count = clock->next = 0;
    clock->samples[clock->next] = fresh;
    clock->next = (clock->next + 1) % HOST_CLOCK_SAMPLES;
    if (clock->count < HOST_CLOCK_SAMPLES)
        clock->count++;
}

bool host_clock_offset(const struct host_clock *clock, rs_ns now, rs_dur *offset_p, rs_dur *bound_p)
{
    const struct host_clock_sample *best = best_of(clock, now);
    *offset_p = best ? best->offset_ns : 0;
    *bound_p = best ? bound_of(best, now) : 0;
    return best != NULL;
}
