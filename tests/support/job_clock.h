/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One clock for a test and the processes of its job, which goes on only when the test says so.
 *
 *     test:     job_clock_advance(clock, 20 ms) ----> every process that wanted to wake by then runs, each at the very instants it
 *               <---- returns when all of them sleep again, beyond the new time, or have ended -----------------'
 *
 * A page in a file, mapped by all. Each process has a slot, in which it says until when it sleeps; the clock stands still while one
 * of them is awake. So nothing rests on how busy the machine is, and a minute of the job costs what its processes compute. Slots
 * are claimed by the one who forks, so that no new process is forgotten while it is on its way.
 *
 * Times are nanoseconds since the clock was made; base_* make the system's clocks of them.
 */
#ifndef RS_TESTS_SUPPORT_JOB_CLOCK_H
#define RS_TESTS_SUPPORT_JOB_CLOCK_H

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { JOB_CLOCK_SLOTS = 64, JOB_CLOCK_NS_PER_MS = 1000000 };

struct job_clock {
    _Atomic int64_t now_ns;
    _Atomic uint32_t turn; /* counts advances: what sleepers wait for */
    int64_t base_monotonic_ns, base_realtime_ns;
    struct {
        _Atomic int32_t pid; /* 0: free */
        _Atomic int64_t until_ns;
    } slots[JOB_CLOCK_SLOTS];
};

/* NULL: it cannot be mapped. `makes`: a new one, else the one that is there. */
static inline struct job_clock *job_clock_map(const char *path, bool makes)
{
    const int fd = open(path, O_RDWR | O_CLOEXEC | (makes ? O_CREAT | O_EXCL : 0), 0600);
    if (fd < 0)
        return NULL;
    struct job_clock *clock = NULL;
    if (!makes || ftruncate(fd, (off_t)sizeof *clock) == 0)
        clock = mmap(NULL, sizeof *clock, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)close(fd);
    if (!clock || clock == MAP_FAILED)
        return NULL;
    if (makes) {
        struct timespec monotonic, real;
        (void)clock_gettime(CLOCK_MONOTONIC, &monotonic);
        (void)clock_gettime(CLOCK_REALTIME, &real);
        clock->base_monotonic_ns = (int64_t)monotonic.tv_sec * 1000000000 + monotonic.tv_nsec;
        clock->base_realtime_ns = (int64_t)real.tv_sec * 1000000000 + real.tv_nsec;
    }
    return clock;
}

/* ---- the processes' side ------------------------------------------------------------------------------------- */

/* A slot for a process that is about to be forked (it counts as awake), held by the caller until job_clock_give(). -1: none free. */
static inline int job_clock_claim(struct job_clock *clock)
{
    for (int i = 0; i < JOB_CLOCK_SLOTS; i++) {
        int32_t free_slot = 0;
        if (!atomic_compare_exchange_strong(&clock->slots[i].pid, &free_slot, (int32_t)getpid()))
            continue;
        atomic_store(&clock->slots[i].until_ns, 0);
        return i;
    }
    return -1;
}

static inline void job_clock_give(struct job_clock *clock, int slot, int32_t pid)
{
    atomic_store(&clock->slots[slot].pid, pid);
}

static inline void job_clock_leave(struct job_clock *clock, int slot)
{
    atomic_store(&clock->slots[slot].pid, 0);
}

/* Sleeps until it is `at_ns`; false: before that *must_end became true. */
static inline bool job_clock_sleep(struct job_clock *clock, int slot, int64_t at_ns,
                                   const volatile int *must_end)
{
    const struct timespec look_again = {.tv_nsec = 50 * JOB_CLOCK_NS_PER_MS}; /* at *must_end */
    atomic_store(&clock->slots[slot].until_ns, at_ns);
    for (;;) {
        const uint32_t turn = atomic_load(&clock->turn);
        if (atomic_load(&clock->now_ns) >= at_ns)
            return true;
        if (*must_end)
            return false;
        (void)syscall(SYS_futex, &clock->turn, FUTEX_WAIT, turn, &look_again, NULL, 0);
    }
}

/* ---- the test's side ------------------------------------------------------------------------------------------ */

static inline bool job_clock_has_ended(int32_t pid)
{
    char path[64], text[512] = "";
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return true;
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    (void)fclose(file);
    const char *name_end = strrchr(text, ')');
    return !name_end || name_end[1] == '\0' || name_end[2] == 'Z' || name_end[2] == 'X';
}

/* Until everybody sleeps beyond now. False: somebody did not within a minute. */
static inline bool job_clock_settle(struct job_clock *clock)
{
    const struct timespec nap = {.tv_nsec = 100000};
    const int64_t now = atomic_load(&clock->now_ns);
    for (int i = 0; i < JOB_CLOCK_SLOTS; i++) {
        for (int naps = 1;; naps++) {
            const int32_t pid = atomic_load(&clock->slots[i].pid);
            if (pid == 0 || atomic_load(&clock->slots[i].until_ns) > now)
                break;
            if (naps % 100 == 0 && job_clock_has_ended(pid)) {
                atomic_store(&clock->slots[i].pid, 0);
                break;
            }
            if (naps > 600000)
                return false;
            (void)nanosleep(&nap, NULL);
        }
    }
    return true;
}

static inline bool job_clock_advance(struct job_clock *clock, int64_t length_ns)
{
    if (!job_clock_settle(clock))
        return false;
    (void)atomic_fetch_add(&clock->now_ns, length_ns);
    (void)atomic_fetch_add(&clock->turn, 1);
    (void)syscall(SYS_futex, &clock->turn, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    return job_clock_settle(clock);
}

#endif
