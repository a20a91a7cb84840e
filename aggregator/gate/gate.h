/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gate: takes links, gives each a session, and stands between them, ingest and the coordinator.
 *
 *                        +--> session (collector) --- jobs ---> ingest ---+
 *     link --accept-->   |        ^  acks, letters                        | done: mailbox + wake
 *                        |        +---------------------------------------+
 *                        |        +--- ranks, armed, progress, ended ---> coordinator
 *                        +--> session (command line) --- ask, reply ------^
 *
 * An Ack is written only from a job that ingest reported as done, that is after its fdatasync. When
 * ingest's queue is full, a session does not take its next letter: HTTP/2 then stops the collector.
 *
 * One thread: the one that calls rs_gate_step(). Bytes of a peer can close that peer's link and nothing
 * else.
 */
#ifndef RS_GATE_GATE_H
#define RS_GATE_GATE_H

#include "aggregator/capture/coordinator.h"
#include "aggregator/ingest/ingest.h"
#include "common/wire/link.h"

struct rs_gate;

/* Where captures are written down (over the store; the gate knows no rows). Called on the gate's thread. */
struct rs_gate_book {
    enum rs_status (*create)(void *self, struct rs_coord_capture *capture, struct rs_err *err);
    enum rs_status (*save)(void *self, const struct rs_coord_capture *capture, struct rs_err *err);
    /* Fills facts as ingest's CLOSE job wants them. */
    void (*facts)(void *self, const struct rs_coord_capture *capture,
                  struct rs_capture_facts *facts_p);
    /* A capture with its ranks, by copy (rs_coord_capture_fini()). RS_NOTFOUND. */
    enum rs_status (*find)(void *self, const char *id, struct rs_coord_capture *capture_p,
                           struct rs_err *err);
    /* Every capture, oldest first, ranks too (lent for the call); visit returns false to end. */
    enum rs_status (*list)(void *self,
                           bool (*visit)(void *visitor, const struct rs_coord_capture *capture),
                           void *visitor, struct rs_err *err);
    /* A capture is closed, and all of it on disk. May be NULL. */
    void (*closed)(void *self, const struct rs_capture_facts *facts);
    /* As struct rs_coord_ops; NULL: nothing is known. */
    bool (*earlier_roles)(void *self, const char *run, struct rs_roles *roles_p);
    void *self;
};

struct rs_gate_options {
    struct rs_loop *loop; /* keeps a pointer to it */
    struct rs_store *store;
    const struct rs_gate_book *book;      /* copies it */
    uint64_t credit_bytes;                /* of one collector; 0: RS_WIRE_CREDIT_DEFAULT_BYTES */
    uint64_t credit_total_bytes;          /* of all; 0: 256 MiB */
    uint64_t queue_bytes;                 /* of ingest; 0: its default */
    rs_dur heartbeat_ns;                  /* 0: 500 ms */
    const struct rs_coord_options *coord; /* times only; NULL: defaults */
};

/* Starts ingest; loads the captures that the book says are open. */
RS_MUST_CHECK enum rs_status rs_gate_new(const struct rs_gate_options *options,
                                         struct rs_gate **gate_p, struct rs_err *err);
/* Every link must be gone (rs_gate_session_count() is 0). */
void rs_gate_free(struct rs_gate **gate_p);

/* An rs_accept_fn: gives the link a session. `self` is the gate. */
bool rs_gate_accept(void *self, struct rs_link *link, const char *method);

/* Runs the loop once and everything that is due, at most until `until` (monotonic). RS_IO when ingest is
 * broken: stop, the data on disk is right up to the last ack. */
RS_MUST_CHECK enum rs_status rs_gate_step(struct rs_gate *gate, rs_ns until, struct rs_err *err);

/* Says goodbye to every collector and takes no new sessions; go on with rs_gate_step() until
 * rs_gate_session_count() is 0. */
void rs_gate_drain(struct rs_gate *gate);
size_t rs_gate_session_count(const struct rs_gate *gate);
struct rs_ingest_stats rs_gate_ingest_stats(const struct rs_gate *gate);

#endif
