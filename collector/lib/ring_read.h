/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collector's end of one ring: takes a descriptor from a stranger, believes nothing, drains.
 *
 * Before mapping: the file must be sealed against resizing (else reading it could kill us) and have the size that
 * its header implies. While draining: each slot is copied before it is looked at; a head that is further
 * than a ring's length ahead ends this ring (RS_FORMAT), never loops. Our own position is kept
 * here and only published to the job, never read back after opening. One thread.
 */
#ifndef RS_LIB_RING_READ_H
#define RS_LIB_RING_READ_H

#include "collector/lib/layout.h"
#include "common/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A record, whole and in range; names and groups are ids that may not exist. */
struct rs_ring_record {
    struct rs_slot slot;
    struct rs_slot_more more; /* zero, with peer -1, for records of one slot */
    bool is_open;             /* begun and not ended: slot.end is 0 */
};

typedef enum rs_status rs_ring_record_fn(void *self, const struct rs_ring_record *record,
                                         struct rs_err *err);

struct rs_ring_reader;

/* The size every mapping of ours must have; for both kinds of file. Checks seals and size of `fd`. RS_FORMAT, RS_IO. */
RS_MUST_CHECK enum rs_status rs_ring_check_memory(int fd, uint64_t bytes, struct rs_err *err);

/* Maps the ring; `fd` stays the caller's and may be closed. Goes on at the tail that the file holds (that of
 * a collector before us), or at the head if that tail cannot be. RS_FORMAT, RS_VERSION, RS_IO,
 * RS_NOMEM. */
RS_MUST_CHECK enum rs_status
rs_ring_reader_open(int fd, uint64_t bytes, struct rs_ring_reader **reader_p, struct rs_err *err);
/* The same of a ring that this process has mapped itself: keeps a pointer to it. For benches, and
 * for TSan, which sees no race between two mappings of one file. */
RS_MUST_CHECK enum rs_status rs_ring_reader_over(struct rs_ring *ring, uint64_t bytes,
                                                 struct rs_ring_reader **reader_p,
                                                 struct rs_err *err);
void rs_ring_reader_close(struct rs_ring_reader **reader_p); /* of NULL is allowed */

/* Hands what is published to `take`, oldest first, at most a ring's length, and gives the room back.
 * RS_OK: all that was there at the call. RS_END: the same, the thread has ended, and nothing will follow. RS_FORMAT: the
 * head is impossible; the ring must be closed. A status < 0 of `take` stops before that record
 * and is returned. Records that make no sense are skipped and counted. */
RS_MUST_CHECK enum rs_status rs_ring_drain(struct rs_ring_reader *reader, rs_ring_record_fn *take,
                                           void *self, struct rs_err *err);

/* Forgets what is published (before a new recording). */
void rs_ring_discard(struct rs_ring_reader *reader);

/* What was begun in recording `epoch` and not ended, outermost first, then open hops. Call it when the process is
 * dead or no longer records, after a drain. */
RS_MUST_CHECK enum rs_status rs_ring_open_entries(struct rs_ring_reader *reader, uint32_t epoch,
                                                  rs_ring_record_fn *take, void *self,
                                                  struct rs_err *err);

int64_t rs_ring_thread(const struct rs_ring_reader *reader);          /* tid */
const char *rs_ring_thread_name(const struct rs_ring_reader *reader); /* printable, terminated */
uint32_t rs_ring_number(const struct rs_ring_reader *reader);
uint64_t
rs_ring_lost(const struct rs_ring_reader *reader); /* as the job counts, since the ring was made */
uint64_t rs_ring_bad(const struct rs_ring_reader *reader); /* records skipped */

#endif
