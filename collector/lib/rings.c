/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rings of this process: made at a thread's first event, ended at its exit, given back once
 * the collector has drained them. The rare paths; all under the registry lock.
 *
 * A ring stays mapped after rankscope_fini(), because its thread may still be in the middle of an
 * event; it is used again after another rankscope_init(). A forked child has none of them (MADV_DONTFORK).
 */
#include "collector/lib/client_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The oldest glibc we promise has these in libpthread; a new one in libc. Weak: a program without threads
 * on an old glibc has none, and its only thread ends with the process. The versions keep
 * a library that was built here loadable there. */
#if defined(__x86_64__)
__asm__(".symver pthread_key_create,pthread_key_create@GLIBC_2.2.5");
__asm__(".symver pthread_setspecific,pthread_setspecific@GLIBC_2.2.5");
#elif defined(__aarch64__)
__asm__(".symver pthread_key_create,pthread_key_create@GLIBC_2.17");
__asm__(".symver pthread_setspecific,pthread_setspecific@GLIBC_2.17");
#endif
#pragma weak pthread_key_create
#pragma weak pthread_setspecific

/* Kernel headers as old as the promise do not name these. */
#ifndef SYS_memfd_create
#    if defined(__x86_64__)
#        define SYS_memfd_create 319
#    else
#        define SYS_memfd_create 279
#    endif
#endif
enum {
    MEMFD_CLOEXEC = 1,
    MEMFD_ALLOW_SEALING = 2,
    FCNTL_ADD_SEALS = 1033,
    SEALS_SEAL_SHRINK_GROW = 1 | 2 | 4,
};

void rankscope_priv_lock(void)
{
    uint32_t free_value = 0;
    while (!atomic_compare_exchange_weak_explicit(&rankscope_priv_client.lock, &free_value, 1,
                                                  memory_order_acquire, memory_order_relaxed)) {
        free_value = 0;
        sched_yield();
    }
}

void rankscope_priv_unlock(void)
{
    atomic_store_explicit(&rankscope_priv_client.lock, 0, memory_order_release);
}

int rankscope_priv_memory(const char *name, size_t bytes, void **map_p)
{
    int fd = (int)syscall(SYS_memfd_create, name, MEMFD_CLOEXEC | MEMFD_ALLOW_SEALING);
    if (fd < 0)
        return -errno;
    int error = 0;
    void *map = MAP_FAILED;
    if (ftruncate(fd, (off_t)bytes) != 0 || fcntl(fd, FCNTL_ADD_SEALS, SEALS_SEAL_SHRINK_GROW) != 0)
        error = errno;
    if (error == 0)
        map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    if (error == 0 && map == MAP_FAILED)
        error = errno;
    if (error != 0) {
        close(fd);
        return -error;
    }
    madvise(map, bytes, MADV_DONTFORK);
    *map_p = map;
    return fd;
}

static pthread_key_t exit_key;
static bool has_exit_key;

static void at_thread_exit(void *ring)
{
    rankscope_priv_ring_end(ring);
}

/* Asks the thread library to tell us when this thread ends. Under the lock. */
static void watch_thread(struct rs_ring *ring)
{
    if (!pthread_key_create || !pthread_setspecific)
        return;
    if (!has_exit_key)
        has_exit_key = pthread_key_create(&exit_key, at_thread_exit) == 0;
    if (has_exit_key)
        pthread_setspecific(exit_key, ring);
}

static struct rankscope_priv_slot *free_slot(void)
{
    for (size_t i = 0; i < RS_LIB_MAX_RINGS; i++)
        if (rankscope_priv_client.slots[i].ring == NULL)
            return &rankscope_priv_client.slots[i];
    return NULL;
}

static void describe(struct rs_ring *ring, size_t bytes, uint32_t number)
{
    ring->magic = RS_RING_MAGIC; /* NOLINT(clang-analyzer-core.NullDereference): it was mapped */
    ring->version = RS_LAYOUT_VERSION;
    ring->header_bytes = RS_RING_HEADER_BYTES;
    ring->slot_bytes = RS_RING_SLOT_BYTES;
    ring->slot_count = (uint32_t)(bytes / RS_RING_SLOT_BYTES);
    ring->thread = (int64_t)syscall(SYS_gettid);
    ring->number = number;
    prctl(PR_GET_NAME, ring->thread_name, 0, 0, 0);
    atomic_store_explicit(&ring->state, RS_RING_LIVE, memory_order_relaxed);
}

static struct rs_ring *make_ring(struct rankscope_priv_client *client)
{
    struct rankscope_priv_slot *slot = free_slot();
    if (slot == NULL)
        return NULL;
    size_t bytes = RS_RING_HEADER_BYTES + client->ring_bytes;
    void *map = NULL;
    int fd = rankscope_priv_memory("rankscope-ring", bytes, &map);
    if (fd < 0)
        return NULL;
    struct rs_ring *ring = map;
    uint32_t number = client->ring_count++;
    atomic_store_explicit(&client->control->ring_count, client->ring_count, memory_order_relaxed);
    describe(ring, client->ring_bytes, number);
    *slot = (struct rankscope_priv_slot){.ring = ring, .bytes = bytes, .number = number, .fd = fd};
    slot->is_sent = rankscope_priv_send_ring(slot);
    watch_thread(ring);
    return ring;
}

struct rs_ring *rankscope_priv_ring_new(void)
{
    rankscope_priv_lock();
    struct rs_ring *ring = NULL;
    if (rankscope_priv_client.control != NULL)
        ring = make_ring(&rankscope_priv_client);
    rankscope_priv_unlock();
    return ring;
}

void rankscope_priv_ring_end(struct rs_ring *ring)
{
    rankscope_priv_record_forget();
    atomic_store_explicit(&ring->state, RS_RING_ENDED, memory_order_release);
}

static void release(struct rankscope_priv_slot *slot)
{
    close(slot->fd);
    munmap(slot->ring, slot->bytes);
    *slot = (struct rankscope_priv_slot){.fd = -1};
}

void rankscope_priv_rings_sweep(void)
{
    rankscope_priv_lock();
    for (size_t i = 0; i < RS_LIB_MAX_RINGS; i++) {
        struct rankscope_priv_slot *slot = &rankscope_priv_client.slots[i];
        if (slot->ring == NULL)
            continue;
        if (atomic_load_explicit(&slot->ring->state, memory_order_acquire) != RS_RING_ENDED)
            continue;
        uint64_t head = atomic_load_explicit(&slot->ring->head, memory_order_relaxed);
        if (slot->is_sent && head != atomic_load_explicit(&slot->ring->tail, memory_order_acquire))
            continue; /* not drained yet */
        rankscope_priv_client.lost_in_closed +=
            atomic_load_explicit(&slot->ring->lost, memory_order_relaxed);
        release(slot);
    }
    rankscope_priv_unlock();
}

void rankscope_priv_rings_drop(void)
{
    for (size_t i = 0; i < RS_LIB_MAX_RINGS; i++) {
        struct rankscope_priv_slot *slot = &rankscope_priv_client.slots[i];
        if (slot->ring != NULL)
            close(slot->fd);
        *slot = (struct rankscope_priv_slot){.fd = -1};
    }
    if (has_exit_key)
        pthread_setspecific(exit_key, NULL);
}
