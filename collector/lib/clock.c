/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which counter this processor offers, and anchor pairs.
 *
 * x86-64: the TSC, when CPUID says that it is invariant (leaf 0x80000007, EDX bit 8: constant rate in every
 * power state). aarch64: the virtual counter, constant by architecture. Else CLOCK_MONOTONIC.
 */
#include "collector/lib/clock.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#    include <cpuid.h>
#endif

uint32_t rankscope_priv_clock_kind = RS_CLOCK_MONOTONIC;

static uint32_t best_clock(void)
{
#if defined(__x86_64__)
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    if (__get_cpuid(0x80000007u, &eax, &ebx, &ecx, &edx) != 0 && (edx & (1u << 8)) != 0)
        return RS_CLOCK_TSC;
#elif defined(__aarch64__)
    return RS_CLOCK_CNTVCT;
#endif
    return RS_CLOCK_MONOTONIC;
}

void rankscope_priv_clock_init(void)
{
    const char *wish = getenv("RANKSCOPE_CLOCK"); /* NOLINT(concurrency-mt-unsafe) */
    bool is_forced = wish != NULL && strcmp(wish, "monotonic") == 0;
    rankscope_priv_clock_kind = is_forced ? (uint32_t)RS_CLOCK_MONOTONIC : best_clock();
}

const char *rankscope_priv_clock_text(uint32_t kind)
{
    switch (kind) {
    case RS_CLOCK_MONOTONIC:
        return "monotonic";
    case RS_CLOCK_TSC:
        return "tsc";
    case RS_CLOCK_CNTVCT:
        return "cntvct";
    default:
        return "unknown"; /* a number from the other side of the shared memory */
    }
}

uint64_t rankscope_priv_ticks_of(uint32_t kind)
{
    if (kind == RS_CLOCK_MONOTONIC)
        return rankscope_priv_system_ns(CLOCK_MONOTONIC);
    if (kind != best_clock())
        return 0;
#if defined(__x86_64__)
    return __rdtsc();
#elif defined(__aarch64__)
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#else
    return 0;
#endif
}

void rankscope_priv_anchor(uint64_t *ticks_p, int64_t *realtime_ns_p)
{
    uint64_t best_gap = UINT64_MAX;
    for (int attempt = 0; attempt < 5; attempt++) {
        uint64_t before = rankscope_priv_ticks();
        uint64_t now = rankscope_priv_system_ns(CLOCK_REALTIME);
        uint64_t gap = rankscope_priv_ticks() - before;
        if (gap < best_gap) {
            best_gap = gap;
            *ticks_p = before + gap / 2;
            *realtime_ns_p = (int64_t)now;
        }
    }
}
