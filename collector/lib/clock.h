/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clock of the records: the processor's invariant counter where there is one.
 *
 * Reading it costs some 10 ns and never leaves user space. The job writes raw ticks; whoever
 * drains turns them into Unix nanoseconds between two anchors (pairs of both clocks), in
 * integers. Used on both sides of the shared memory, so it links to nothing but libc.
 */
#ifndef RS_LIB_CLOCK_H
#define RS_LIB_CLOCK_H

#include "collector/lib/layout.h"

#include <stdint.h>
#include <time.h>
#if defined(__x86_64__)
#    include <x86intrin.h>
#endif

/* Chosen once by rankscope_priv_clock_init(); RS_CLOCK_MONOTONIC before that. */
extern uint32_t rankscope_priv_clock_kind;

/* Idempotent, any thread. RANKSCOPE_CLOCK=monotonic forces the system's clock. */
void rankscope_priv_clock_init(void);

/* "tsc", "cntvct", "monotonic"; "unknown" for any other number. */
const char *rankscope_priv_clock_text(uint32_t kind);

static inline uint64_t rankscope_priv_system_ns(clockid_t clock)
{
    struct timespec now = {0, 0};
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static inline uint64_t rankscope_priv_ticks(void)
{
#if defined(__x86_64__)
    if (__builtin_expect(rankscope_priv_clock_kind == RS_CLOCK_TSC, 1))
        return __rdtsc();
#elif defined(__aarch64__)
    if (__builtin_expect(rankscope_priv_clock_kind == RS_CLOCK_CNTVCT, 1)) {
        uint64_t ticks;
        __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
        return ticks;
    }
#endif
    return rankscope_priv_system_ns(CLOCK_MONOTONIC);
}

/* The same of a kind that is named; 0 when this processor does not have it. */
uint64_t rankscope_priv_ticks_of(uint32_t kind);

/* A pair read as close together as five tries allow (some 20 ns apart). */
void rankscope_priv_anchor(uint64_t *ticks_p, int64_t *realtime_ns_p);

#endif
