/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A preload shim: the k-th allocation of the program itself fails, and those behind it if so wanted. Those of libraries do not count: some
 * of them (gRPC) end the process by design.
 *
 *     LD_PRELOAD=shim_memory.so SHIM_FAIL_AT=K SHIM_FAIL_COUNT=N rankscope ...      N 0: all from there on; K 0: none fails
 *
 * SHIM_LOG=FILE: how many there were, written when the process ends by itself.
 */
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);

static uintptr_t program_begin, program_end;
static uint64_t fail_at, fail_count;
static atomic_uint_fast64_t seen;

static int note_program(struct dl_phdr_info *info, size_t size, void *self)
{
    (void)size;
    (void)self;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const uintptr_t begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        const uintptr_t end = begin + info->dlpi_phdr[i].p_memsz;
        if (info->dlpi_phdr[i].p_type != PT_LOAD)
            continue;
        program_begin = !program_begin || begin < program_begin ? begin : program_begin;
        program_end = end > program_end ? end : program_end;
    }
    return 1; /* the first is the program */
}

static uint64_t number_of(const char *name)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : 0;
}

__attribute__((constructor)) static void begin(void)
{
    fail_at = number_of("SHIM_FAIL_AT");
    fail_count = number_of("SHIM_FAIL_COUNT");
    (void)dl_iterate_phdr(note_program, NULL);
}

__attribute__((destructor)) static void end(void)
{
    const char *path = getenv("SHIM_LOG");
    const int fd = path ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;
    if (fd >= 0) {
        (void)dprintf(fd, "%llu\n", (unsigned long long)atomic_load(&seen));
        (void)close(fd);
    }
}

static bool must_fail(const void *caller)
{
    const uintptr_t at = (uintptr_t)caller;
    if (at < program_begin || at >= program_end)
        return false;
    const uint64_t number = atomic_fetch_add(&seen, 1) + 1;
    if (!fail_at || number < fail_at || (fail_count && number >= fail_at + fail_count))
        return false;
    errno = ENOMEM;
    return true;
}

__attribute__((visibility("default"))) void *malloc(size_t bytes)
{
    return must_fail(__builtin_return_address(0)) ? NULL : __libc_malloc(bytes);
}

__attribute__((visibility("default"))) void *calloc(size_t count, size_t bytes)
{
    return must_fail(__builtin_return_address(0)) ? NULL : __libc_calloc(count, bytes);
}

__attribute__((visibility("default"))) void *realloc(void *memory, size_t bytes)
{
    return must_fail(__builtin_return_address(0)) ? NULL : __libc_realloc(memory, bytes);
}
