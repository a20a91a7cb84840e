/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a host's clock says, as against ours: from heartbeats and their echoes.
 *
 *     we    --heartbeat or Welcome, t0--> collector (t1)  ...  (t2) --its next heartbeat--> us, t3
 *
 *     offset = ((t1 - t0) + (t2 - t3)) / 2     host - ours
 *     bound  = half the time under way, and 200 ppm of t2 - t1 and of the sample's age: two clocks that nobody disciplines drift by less
 *
 * Time under way, (t3 - t0) - (t2 - t1), comes out below what it was by what the host's clock gained between t1 and t2, also below nothing.
 *
 * Of the last samples the one with the smallest bound counts. A sample that contradicts it (a clock that was set) makes all before it
 * void. Not thread-safe: the server's.
 */
#ifndef RS_SERVER_HOST_CLOCK_H
#define RS_SERVER_HOST_CLOCK_H

#include "common/base/time.h"

#include <stdbool.h>
#include <stddef.h>

enum { HOST_CLOCK_SAMPLES = 16 };

/* Zeroed is empty. */
struct host_clock {
    struct host_clock_sample {
        rs_dur offset_ns, half_ns;
        rs_ns at; /* monotonic */
    } samples[HOST_CLOCK_SAMPLES];
    size_t count, next;
};

/* Four instants as they were told: any numbers. `now` is monotonic. */
void host_clock_take(struct host_clock *clock, rs_ns t0, rs_ns t1, rs_ns t2, rs_ns t3, rs_ns now);
/* False: nothing is known yet; the offset is 0 then, and so is the bound. */
bool host_clock_offset(const struct host_clock *clock, rs_ns now, rs_dur *offset_p,
                       rs_dur *bound_p);

#endif
