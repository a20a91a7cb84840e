/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What clock_vote.c (how do two clocks stand to each other?) and clock_carrier.c (is a guess of that borne out?) share.
 */
#ifndef RS_ANALYSIS_CLOCK_CARRIER_H
#define RS_ANALYSIS_CLOCK_CARRIER_H

#include "common/event/event.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CLOCK_LANES_MAX = 32 }; /* streams of a rank that are told apart */

/* A row as a witness: what it is, and when it ended. */
struct witness {
    uint64_t kind; /* equal: may be one operation */
    uint64_t
        family; /* rows that vote together where all together cannot decide: one type, size and kernel */
    rs_ns start, end; /* own clock, as recorded */
    uint32_t group;   /* of a collective whose group is known; else RS_NO_GROUP */
    bool is_told;     /* the row says more than its type: a number, a group or a peer */
    uint32_t
        lane; /* stream of a device's collective that names no group, from 1 on; 0: any other row */
};

struct witnesses {
    struct witness *items; /* by end */
    size_t count;
};

/* b's clock is so much ahead of a's: offset + drift * (instant of b - at), ends of one operation being `within` of each other. */
struct clock_guess {
    rs_ns at;
    double offset, drift, within;
};

/* Streams of a and b that run one communicator's operations. */
struct clock_carrier {
    uint32_t a, b;
};

/* Ends of one operation on devices, rounded to whole microseconds as some writers do. */
#define CARRIED_WITHIN_NS 5000.0

/* The first row that ended at `end` or later; rows->count: none. */
size_t clock_first_not_before(const struct witnesses *rows, double end);
/* The two streams that the guess bears out best. False: none. */
bool clock_find_carrier(const struct witnesses *a, const struct witnesses *b,
                        const struct clock_guess *guess, struct clock_carrier *carrier_p);

#endif
