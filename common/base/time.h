/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time: int64 nanoseconds, from the first parsed digit to the last written one.
 *
 * An instant (rs_ns) is counted from the Unix epoch unless its comment names another
 * base; a length (rs_dur) is a difference of two instants of one clock.
 */
#ifndef RS_BASE_TIME_H
#define RS_BASE_TIME_H

#include <stdint.h>
#include <time.h>

typedef int64_t rs_ns;  /* instant */
typedef int64_t rs_dur; /* length */

#define RS_NS_MIN INT64_MIN
#define RS_NS_MAX INT64_MAX

enum { RS_NS_PER_US = 1000, RS_NS_PER_MS = 1000000, RS_NS_PER_S = 1000000000 };

rs_ns rs_time_realtime(void);  /* CLOCK_REALTIME */
rs_ns rs_time_monotonic(void); /* CLOCK_MONOTONIC: not since the epoch, only for lengths */
/* CLOCK_THREAD_CPUTIME_ID: what the calling thread has worked so far. For work that is to cost no more than a share of a core: on a
 * busy machine, or one that stood still, a thread's time by the clock says how long it waited for others. */
rs_dur rs_time_thread_cpu(void);

/* Of a file, say: a time that its owner set to the end of days becomes one that can be reckoned with (some 250 years from the
 * epoch at most). */
rs_ns rs_time_of(const struct timespec *time);

/* "2026-01-02T03:04:05Z"; "-" for 0 and what no calendar has. */
enum { RS_TIME_TEXT_BYTES = 32 };
void rs_time_text(rs_ns at, char text[RS_TIME_TEXT_BYTES]);

#endif
