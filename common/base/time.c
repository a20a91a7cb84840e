/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/time.h"

#include <time.h>

static rs_ns read_clock(clockid_t clock)
{
    struct timespec now = {0};
    (void)clock_gettime(clock, &now);
    return (rs_ns)now.tv_sec * RS_NS_PER_S + now.tv_nsec;
}

rs_ns rs_time_realtime(void)
{
    return read_clock(CLOCK_REALTIME);
}

rs_ns rs_time_monotonic(void)
{
    return read_clock(CLOCK_MONOTONIC);
}
