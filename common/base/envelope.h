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
    rs_seq; /* of a chunk within its incarnation, gap-free from 1; 0 is before the first */

enum rs_envelope_flag {
    RS_ENVELOPE_LAST = 1,    /* the last chunk of its incarnation for its capture */
    RS_ENVELOPE_LOSS = 2,    /* the bytes are a loss record (struct rs_loss), not a sealed chunk */
    RS_ENVELOPE_PARTIAL = 4, /* with LAST: the recording ended early */
    RS_ENVELOPE_KNOWN = 7,
};

/* What the spool could not keep: three u64, little-endian. */
struct rs_loss {
    uint64_t chunks;
    uint64_t bytes;
    uint64_t events; /* 0 unknown */
};
enum { RS_LOSS_BYTES = 24 };
void rs_loss_encode(const struct rs_loss *loss, uint8_t bytes_p[RS_LOSS_BYTES]);
RS_MUST_CHECK enum rs_status rs_loss_decode(const void *bytes, size_t length,
                                            struct rs_loss *loss_p, struct rs_err *err);

#endif
