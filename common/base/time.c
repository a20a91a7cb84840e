/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/time.h"

#include <stdio.h>
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

rs_dur rs_time_thread_cpu(void)
{
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

rs_ns rs_time_of(const struct timespec *time)
{
    const int64_t most_s = INT64_C(8000000000);
    if (time->tv_sec > most_s)
        return most_s * RS_NS_PER_S;
    if (time->tv_sec < -most_s)
        return -most_s * RS_NS_PER_S;
    return (rs_ns)time->tv_sec * RS_NS_PER_S + time->tv_nsec;
}

void rs_time_text(rs_ns at, char text[RS_TIME_TEXT_BYTES])
{
    const time_t seconds = (time_t)(at / RS_NS_PER_S);
    struct tm parts = {0};
    if (!at || !gmtime_r(&seconds, &parts) ||
        !strftime(text, RS_TIME_TEXT_BYTES, "%Y-%m-%dT%H:%M:%SZ", &parts))
        (void)snprintf(text, RS_TIME_TEXT_BYTES, "-");
}
