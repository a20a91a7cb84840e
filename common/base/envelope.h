/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What stands on the outside of a chunk: everything the spool, the wire and the store know of it
 * without opening it. The key (run, rank, incarnation, seq) means the same in all three.
 *
 * The numbers are on the wire and on disk: never reused.
 */
#ifndef RS_BASE_ENVELOPE_H
#define RS_BASE_ENVELOPE_H

#include "common/base/err.h"

#include <stddef.h>
#include <stdint.h>

typedef uint64_t
    rs_seq; /* of a chunk within its incarnation and lane, gap-free from 1; 0 is before the first */

/* What a stream carries. The summary of a rank travels in a lane of its own, so that it need not wait for the events it
 * was made from. */
enum rs_stream_lane {
    RS_STREAM_RAW = 0,     /* events, and what is needed to read them */
    RS_STREAM_SUMMARY = 1, /* parts of the rank's summary */
    RS_STREAM_LANE_COUNT
};

enum rs_envelope_flag {
    RS_ENVELOPE_LAST = 1,    /* the last chunk of its incarnation for its capture */
    RS_ENVELOPE_LOSS = 2,    /* the bytes are a loss record (struct rs_loss), not a sealed chunk */
    RS_ENVELOPE_PARTIAL = 4, /* with LAST: the recording ended early */
    RS_ENVELOPE_KNOWN = 7,
};

/* Why chunks are missing. */
enum rs_loss_cause {
    RS_LOSS_FULL = 0,      /* there was no room for them when they were made */
    RS_LOSS_EVICTED = 1,   /* they were held back for later, and the room was needed */
    RS_LOSS_DAMAGED = 2,   /* their bytes could not be read any more */
    RS_LOSS_FORGOTTEN = 3, /* they were acknowledged once, and who acknowledged them lost them */
    RS_LOSS_CAUSE_COUNT
};
const char *rs_loss_cause_text(enum rs_loss_cause cause);

/* What could not be kept. The record stands in the stream at the place of its last chunk: it moves the position over the
 * hole, from `first_seq` up to the number of the record itself. A record of RS_LOSS_FULL stands for chunks that never had a
 * number: it takes one of its own, and first_seq is that.
 *
 * As bytes: five u64, little-endian, in this order. The first three alone are a record of the wire's minor version 1: one of
 * RS_LOSS_FULL. */
struct rs_loss {
    uint64_t chunks;
    uint64_t bytes;   /* 0 unknown */
    uint64_t events;  /* 0 unknown */
    rs_seq first_seq; /* 0: the record's own number */
    enum rs_loss_cause cause;
};
enum { RS_LOSS_SHORT_BYTES = 24, RS_LOSS_BYTES = 40 };
void rs_loss_encode(const struct rs_loss *loss, uint8_t bytes_p[RS_LOSS_BYTES]);
RS_MUST_CHECK enum rs_status rs_loss_decode(const void *bytes, size_t length,
                                            struct rs_loss *loss_p, struct rs_err *err);

#endif
