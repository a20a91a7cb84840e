/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside librankscope: what its files share. Nothing here is exported from the shared library; names carry
 * rankscope_priv_ because the static one is linked into other people's programs.
 *
 *   rankscope.c  init, fini, step boundaries, requests to record, fork
 *   record.c     the hot path: one thread, its ring
 *   rings.c      making rings, giving them back
 *   names.c      names and groups
 *   metadata.c   what the program says of itself, in the same area
 *   itt.c        ranges and marks as Intel's ITT has them
 *   connect.c    finding the collector and handing it the memory
 */
#ifndef RS_LIB_CLIENT_PRIV_H
#define RS_LIB_CLIENT_PRIV_H

#include "collector/lib/clock.h"
#include "collector/lib/layout.h"
#include "collector/lib/rankscope.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/un.h>

/* A ring of this process. Free: ring NULL. Guarded by the registry lock; `ring` is also read by its thread. */
struct rankscope_priv_slot {
    struct rs_ring *ring;
    size_t bytes; /* of the mapping */
    uint32_t number;
    int fd;
    bool is_sent; /* to a collector, over this connection or an earlier one */
};

/* The one process-wide object. */
struct rankscope_priv_client {
    bool is_ready;                      /* between init and fini; written by the loop's thread */
    struct rs_control *_Atomic control; /* NULL when not ready; its mapping outlives fini */
    int control_fd;
    int socket_fd;          /* -1: not connected */
    uint64_t next_try_ns;   /* monotonic: no connection attempt before */
    uint64_t next_check_ns; /* monotonic: no look at the connection, no anchor before */
    struct sockaddr_un address;
    bool has_fixed_address; /* the configuration names the socket */
    struct rs_hello hello;
    size_t ring_bytes; /* of the slots */

    _Atomic uint32_t
        lock; /* registry of rings, names; never taken by an event of a thread with a ring */
    struct rankscope_priv_slot slots[RS_LIB_MAX_RINGS];
    uint32_t name_count;
    uint32_t group_count;
    uint32_t ring_count;     /* made so far; survives fini */
    uint64_t lost_in_closed; /* of rings that are gone */

    /* the loop's thread only */
    uint64_t request_seq; /* last one acted on */
    uint64_t start_step, stop_step;
    uint32_t epochs; /* recordings so far */
    bool in_step;
    uint64_t step;
    uint64_t step_ns; /* monotonic: when it began */
    uint64_t step_ticks;
    uint64_t step_cpu_ns;
    bool is_step_whole;  /* its beginning was recorded */
    uint64_t step_began; /* ticks, recorded or not */
};
extern struct rankscope_priv_client rankscope_priv_client;

/* A spin lock for rare, short sections (no pthread mutex: libc of any age, no library beside it). */
void rankscope_priv_lock(void);
void rankscope_priv_unlock(void);

/* An anonymous file of that size, sealed, mapped for reading and writing. Descriptor, or negated errno. */
int rankscope_priv_memory(const char *name, size_t bytes, void **map_p);

/* names.c. An entry of the names area beside names and groups: RS_LIB_ENTRY_* as flags. False: the area is full. */
bool rankscope_priv_names_add(uint16_t flags, const char *text, size_t length);

/* rings.c. A ring for the calling thread, or NULL (then its events are counted as lost). */
struct rs_ring *rankscope_priv_ring_new(void);
void rankscope_priv_ring_end(struct rs_ring *ring); /* by its thread, at its end */
void rankscope_priv_rings_sweep(void);              /* gives back ended rings that are drained */
void rankscope_priv_rings_drop(void); /* in a forked child, which has none of the mappings */

/* record.c */
struct rankscope_priv_step {
    uint64_t number;
    uint64_t start, end; /* ticks */
    uint64_t cpu_ns;
};
void rankscope_priv_record_step(const struct rankscope_priv_step *step);
/* Ticks that this thread spent in communication since the last call; it is the loop's thread from now on. False: it never
 * communicated. */
bool rankscope_priv_record_waited(uint64_t now, uint64_t *ticks_p);
void rankscope_priv_record_forget(void); /* this thread's ring is gone (fini, fork) */

/* connect.c */
int rankscope_priv_address(const char *path, struct sockaddr_un *address_p);
void rankscope_priv_connect(void);          /* one attempt, never blocks */
void rankscope_priv_check_connection(void); /* notices that the collector went away */
void rankscope_priv_disconnect(void);
bool rankscope_priv_send_ring(struct rankscope_priv_slot *slot);

#endif
