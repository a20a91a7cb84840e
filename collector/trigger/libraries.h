/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the libraries of a rank's process say of the requests it can be given: which C library it runs on, and which activities
 * its PyTorch was built for.
 *
 *   /proc/PID/maps    libc.so.6 --/proc/PID/root--> its banner: "GNU C Library ... release version 2.36"
 *                     libtorch_cpu.so, and neither libtorch_cuda.so nor a driver: CUDA is out of the question
 *
 * Seen from outside only, containers too. Libraries are mapped once and stay: a process is looked at when it is first asked for,
 * and once more a little later, and what was seen is remembered. One thread; nothing waits (a C library that is no regular file is
 * not opened).
 */
#ifndef RS_TRIGGER_LIBRARIES_H
#define RS_TRIGGER_LIBRARIES_H

#include "common/base/time.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { RS_LIBRARIES_PATH_BYTES = 1024 };

struct rs_libraries {
    uint32_t glibc;      /* major << 16 | minor; 0 unknown */
    uint32_t activities; /* set of enum rs_activity that are not out of the question; 0 unknown */
};

struct rs_library_cache; /* what was seen of the processes of this host */

/* NULL: no memory. */
struct rs_library_cache *rs_library_cache_new(void);
void rs_library_cache_free(struct rs_library_cache **cache);

/* Of the process that this incarnation is. All 0: it may not be looked at, or there is no memory. */
struct rs_libraries rs_libraries_of(struct rs_library_cache *cache, pid_t pid,
                                    const char *incarnation, rs_ns now);

/* The set above, from a memory map's text; 0 where it has no PyTorch that tells. `libc` is the path of the C library, "" none. */
uint32_t rs_libraries_from_maps(const char *maps, char libc[RS_LIBRARIES_PATH_BYTES]);
/* major << 16 | minor from the bytes of a C library; 0: there is no banner in them. */
uint32_t rs_libraries_glibc(const char *bytes, size_t length);

#endif
