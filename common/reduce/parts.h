/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank's summary in parts, so that it can be joined with the others' while the rank still records.
 *
 *     whole summary  |--- part 0 ---|- part 1 -|---- part 2 ----|------ last part ------|
 *                    steps that had ended, what began before    the rest, and what is said of the whole recording:
 *                    the cut, the names that this uses          trace, devices, kernels, groups, all names in order
 *
 * A part is a run of whole steps with the operations, hops and spans that began in it, and stands for itself: it can be read
 * without the others. The law, tested on random cuts: *joining all parts, in whatever order they came, gives the bytes of the
 * summary that they were cut from.*
 *
 * A part that was sent while the rank recorded is what was known then. A row that came late (an operation that began in it and
 * ended much later) makes it another one: it is sent again with the next generation, and the newest of a number counts.
 *
 *     bytes of a part   0 "RSSUPART"   8 version u32 (1)   12 CRC-32C of 16..71, u32
 *                      16 number u32   20 generation u32   24 flags u32 (1: last)   28 zero u32
 *                      32 first step   40 last step        48 from   56 until   64 rows, 64 bits each; little-endian
 *                      72 a summary (SUMMARY.md)
 */
#ifndef RS_REDUCE_PARTS_H
#define RS_REDUCE_PARTS_H

#include "common/reduce/summary.h"

struct rs_part_head {
    uint32_t number;     /* from 0 */
    uint32_t generation; /* 0; a newer one takes the place of an older one of the same number */
    bool is_last;        /* with it and all numbers below it the summary is whole */
    int64_t first_step, last_step; /* numbers of steps; both RS_STEP_NONE: no step ends in it */
    rs_ns from_ns,
        until_ns; /* what begins in [from, until); the first from RS_NS_MIN, the last until RS_NS_MAX */
    uint64_t rows; /* raw rows of the recording that had come when it was made */
};

/* Whether these bytes claim to be a part (and not a whole summary). */
bool rs_part_is(struct rs_view bytes);

/* Appends head and summary. RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_part_encode(const struct rs_part_head *head,
                                            const struct rs_summary *summary, struct rs_buf *buf,
                                            struct rs_err *err);
/* Trusts nothing. RS_FORMAT, RS_VERSION, RS_LIMIT, RS_NOMEM. `summary_p` is initialised on RS_OK. */
RS_MUST_CHECK enum rs_status rs_part_decode(struct rs_view bytes, struct rs_part_head *head_p,
                                            struct rs_summary *summary_p, struct rs_err *err);

/* ---- cutting ------------------------------------------------------------------------------------------------ */

/* What begins in [from, until): a part that is not the last. Its operations and spans count on from `first_order` (-1: as in
 * `whole`). Also says which steps are in it. RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_summary_slice(const struct rs_summary *whole,
                                              struct rs_part_head *head, int64_t first_order,
                                              struct rs_summary *slice_p);
/* Leaves the last part: what begins at `from` or later, and what is said of the whole. Sets the steps of `head`. */
void rs_summary_keep_rest(struct rs_summary *whole, struct rs_part_head *head);

/* ---- joining ------------------------------------------------------------------------------------------------ */

struct rs_part {
    struct rs_part_head head;
    struct rs_summary summary;
};

/* Parts of one recording, by number. Zeroed: empty. One thread at a time. */
struct rs_parts {
    struct rs_part *items;
    size_t count, capacity;
};

void rs_parts_fini(struct rs_parts *parts);
/* Decodes; an older generation of a number is dropped. RS_FORMAT, RS_VERSION, RS_LIMIT, RS_NOMEM: nothing changed. */
RS_MUST_CHECK enum rs_status rs_parts_add(struct rs_parts *parts, struct rs_view bytes,
                                          struct rs_err *err);
/* The last one is there, and every number before it. */
bool rs_parts_are_whole(const struct rs_parts *parts);
/* One summary of all parts, or, while they are not whole, of those before the first that is missing: such a summary has no
 * devices and no kernels, and its trace says no more than who recorded. The parts are used up. RS_NOTFOUND: the first part is
 * not there; RS_FORMAT: they do not fit each other; RS_NOMEM, RS_LIMIT. */
RS_MUST_CHECK enum rs_status rs_parts_join(struct rs_parts *parts, struct rs_summary *summary_p,
                                           struct rs_err *err);

#endif
