/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Of the ranks whose clocks stand (an island, see clock_fit.c): which have most operations in common with another?
 *
 *   kind of row    ranks of the island that have one
 *   world, no. 7   0 1 2 3 ... 511              the first HELD_MOST
 *   pair, no. 7    4711
 *
 * Each kind keeps ranks of its own, so that whoever shares anything with the island is found, however large it is: ranks of a large job
 * share most of their groups with few others.
 */
#ifndef RS_ANALYSIS_CLOCK_PARTNERS_H
#define RS_ANALYSIS_CLOCK_PARTNERS_H

#include "aggregator/analysis/clock_carrier.h"
#include "common/base/status.h"

enum { PARTNERS_TRIED = 4 }; /* aligned ranks that a clock is held against */

/* A kind of row, and who of the island has one. */
struct clock_kind {
    uint32_t newest; /* + 1, into `held`; 0: nobody */
    uint32_t count;
    uint32_t island; /* whose these are */
};

struct clock_held {
    uint32_t summary;
    uint32_t older; /* as `newest` */
};

/* Zeroed is empty. */
struct clock_partners {
    size_t count;
    size_t *first;     /* [summary + 1] into `numbers` */
    uint32_t *numbers; /* kinds that a rank has rows of, each once */
    uint32_t *common;  /* [summary] scratch, all 0 */
    struct clock_kind *kinds;
    struct clock_held *held;
    size_t held_count;
    uint32_t island;
};

/* Rows of `count` summaries; nobody is in an island. The caller ends it with clock_partners_fini, also after an error. */
RS_MUST_CHECK enum rs_status clock_partners_init(struct clock_partners *partners,
                                                 const struct witnesses *rows, size_t count);
void clock_partners_fini(struct clock_partners *partners);
/* An island that nobody is in yet. Who was in one before is in none any more, and comes into no other. */
void clock_partners_begin(struct clock_partners *partners);
void clock_partners_add(struct clock_partners *partners, size_t s);
/* The ranks of the island that share most kinds of rows with s, the most first; ties: the lowest. How many there are. */
size_t clock_partners_find(struct clock_partners *partners, size_t s, size_t found[PARTNERS_TRIED]);

#endif
