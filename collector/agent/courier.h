/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The courier: a second uplink, to another aggregator than the one that the collector is at, for as long as entries of captures wait in the
 * spool that are that one's.
 *
 *     the uplink's streams: "elsewhere, at B" --> a link to B, which takes these entries and nothing else --> none is left: closed
 *
 * It tells of no ranks, so that they stay where the collector is; that their capture is called off it hears all the same. One at a time.
 * Thread: the uplink's.
 */
#ifndef RS_AGENT_COURIER_H
#define RS_AGENT_COURIER_H

#include "collector/agent/aggregators.h"
#include "collector/uplink/uplink.h"

struct rs_courier {
    struct rs_loop *loop; /* keeps pointers to all of these */
    struct rs_spool *spool;
    const struct rs_uplink *main;
    const struct rs_aggregators *aggregators;
    const char *node;
    void (*on_cancel)(void *self, const Rankscope__Cancel *cancel);
    void *cancel_self;
    /* its own */
    struct rs_uplink *uplink; /* NULL: nobody waits for one */
    unsigned to;              /* 1 + place in the list */
    bool is_closing;
};

/* Does what is due, and waits for nothing. */
void rs_courier_turn(struct rs_courier *courier);
/* Begins to end; turns go on until it is over. True: it is. */
bool rs_courier_end(struct rs_courier *courier);

#endif
