/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flight recorders of this node's ranks, for an aggregator that asks why a job hangs.
 *
 *   uplink --FlightAsk--> queue --> rs-flight: flight_ask.h, all ranks side by side --packed dump each--> outbox --Flight--> uplink
 *
 * Dumps that a look finds (newer_than_ns) are held open for ten minutes: the process that wrote one has often ended when all
 * ranks are asked a few seconds later, and its dump is all it left.
 *
 * Nothing goes through the spool: what was not sent because the link broke is asked for again, or not wanted any more. One
 * question is worked on at a time; the limit of each begins when it is taken up.
 */
#ifndef RS_AGENT_COLLECT_FLIGHT_H
#define RS_AGENT_COLLECT_FLIGHT_H

#include "collector/uplink/uplink.h"

struct rs_collect_flight;

struct rs_collect_flight_options {
    const char *run; /* of processes that name none; copied, as all texts here */
    const char *host;
    void (*wake)(void *self); /* there is something to send; any thread */
    void *wake_self;
};

/* RS_NOMEM, RS_IO. */
RS_MUST_CHECK enum rs_status
rs_collect_flight_start(const struct rs_collect_flight_options *options,
                        struct rs_collect_flight **flight_p, struct rs_err *err);
/* Waits for the question that is worked on: a few seconds at most. Of NULL is allowed. */
void rs_collect_flight_stop(struct rs_collect_flight **flight_p);

/* Thread: uplink. Copies it; one too many is dropped, and logged. */
void rs_collect_flight_ask(struct rs_collect_flight *flight, const Rankscope__FlightAsk *ask);
void rs_collect_flight_messages(struct rs_collect_flight *flight, struct rs_uplink *uplink);

#endif
