/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A preload shim: a host whose clock is wrong.
 *
 *     LD_PRELOAD=shim_clock.so SHIM_CLOCK_NS=2000000000 SHIM_CLOCK_PPM=100 SHIM_CLOCK_SINCE_NS=N rankscope collector ...
 *
 * CLOCK_REALTIME is SHIM_CLOCK_NS ahead (behind, if negative) at instant N of CLOCK_MONOTONIC, and gains SHIM_CLOCK_PPM from there on.
 * SHIM_CLOCK_FILE=FILE: eight bytes, a number of nanoseconds that is added, too; whoever writes it makes the clock jump at once.
 * The monotonic clock is as it is: all processes of the machine agree on it, so that a test can say when something truly was.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static const _Atomic int64_t *jump; /* NULL: none */

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("SHIM_CLOCK_FILE");
    const int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *map = fd >= 0 ? mmap(NULL, sizeof *jump, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (fd >= 0)
        (void)close(fd);
    jump = map == MAP_FAILED ? NULL : map;
}

static int64_t number_of(const char *name)
{
    const char *text = getenv(name);
    return text ? strtoll(text, NULL, 10) : 0;
}

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *now)
{
    static int (*next)(clockid_t, struct timespec *);
    if (!next) /* the same value, whichever thread is first */
        *(void **)&next = dlsym(RTLD_NEXT, "clock_gettime");
    const int result = next(clock, now);
    if (result < 0 || clock != CLOCK_REALTIME)
        return result;
    struct timespec monotonic;
    (void)next(CLOCK_MONOTONIC, &monotonic);
    const int64_t age = (int64_t)monotonic.tv_sec * 1000000000 + monotonic.tv_nsec -
                        number_of("SHIM_CLOCK_SINCE_NS");
    const int64_t wrong = number_of("SHIM_CLOCK_NS") + age / 1000000 * number_of("SHIM_CLOCK_PPM") +
                          (jump ? *jump : 0);
    const int64_t told = (int64_t)now->tv_sec * 1000000000 + now->tv_nsec + wrong;
    now->tv_sec = told / 1000000000;
    now->tv_nsec = told % 1000000000;
    return 0;
}
