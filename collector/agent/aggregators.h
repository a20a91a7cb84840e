/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The aggregators that a collector may go to: a list in order, and which of them it is at.
 *
 *     AT n --the link is gone, or there is none--> AT n+1, n+2, ... (at once; after two rounds a pause, as the uplink has them)
 *      ^  \
 *      |   +--Welcome: go to m--> AT m, which comes before n: the aggregator knows that m lives
 *      |   +--Goodbye: go to m--> AT m: it is back
 *      +------ Welcome: stay
 *
 * All collectors of one list end up at the first of it that lives, and with them all ranks of a run: the collector does not decide who lives,
 * the aggregators do, by their leases. So it stays with one that is away for a moment (the others send it back), and goes no earlier than
 * all others do.
 *
 * It goes to addresses of its list and to no others, whatever it is told. Thread: the uplink's.
 */
#ifndef RS_AGENT_AGGREGATORS_H
#define RS_AGENT_AGGREGATORS_H

#include "common/wire/link.h"
#include "common/wire/wire.h"

enum { RS_AGGREGATORS_MAX = 8, RS_AGGREGATOR_ID_BYTES = 33 };

struct rs_aggregators {
    struct rs_aggregator {
        struct rs_address address;
        char id[RS_AGGREGATOR_ID_BYTES]; /* as it said; "": it was not there yet */
        rs_ns failing_since;             /* monotonic; 0: it answered when it was tried last */
    } items[RS_AGGREGATORS_MAX];
    size_t count;   /* at least 1 */
    size_t at;      /* connected to, or to be tried next */
    unsigned tries; /* since the last pause, or since one said that we are to stay */
    bool is_sent;   /* `at` is where we were sent to */
    Rankscope__KnownAggregator messages[RS_AGGREGATORS_MAX], *pointers[RS_AGGREGATORS_MAX];
};

/* "ADDRESS" or "ADDRESS,ADDRESS,..."; NULL and "" are the default socket. Guarded as rs_client_address(). RS_INVALID, RS_REFUSED. */
RS_MUST_CHECK enum rs_status
rs_aggregators_parse(const char *text, struct rs_aggregators *aggregators_p, struct rs_err *err);
const struct rs_address *rs_aggregators_address(const struct rs_aggregators *aggregators);
/* Into Hello; lent until the next call. Nothing when there is only one. */
void rs_aggregators_hello(struct rs_aggregators *aggregators, Rankscope__Hello *hello, rs_ns now);
/* Whether we stay there; else the link is to be closed. */
bool rs_aggregators_welcome(struct rs_aggregators *aggregators, const Rankscope__Welcome *welcome);
void rs_aggregators_goodbye(struct rs_aggregators *aggregators, const char *go_to);
/* The link is gone, or there was none. True: the next one is to be tried at once, without a pause. */
bool rs_aggregators_away(struct rs_aggregators *aggregators, rs_ns now);
/* 1 + its place in the list, by id or by address; 0: it is not in it. */
unsigned rs_aggregators_find(const struct rs_aggregators *aggregators, const char *id,
                             const char *address);

#endif
