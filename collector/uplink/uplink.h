/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uplink: drains the spool over one link, and carries the messages of captures.
 *
 *   DOWN --backoff over: connect--> HELLO --Welcome--> SENDING --link closed--> DOWN
 *     ^                               |                   |
 *     +--------- link closed ---------+                   +-- Goodbye of the aggregator: close, DOWN
 *
 * In SENDING: first messages, then an Open for every entry of the spool that is not open yet, then the summary lane of all
 * ranks, then the raw lanes in turn, one chunk each, so that no rank starves another; as long as the credit (payload bytes
 * without an Ack) allows. A chunk leaves the
 * spool when its Ack came, not when it was sent. After a reconnect everything that is not acknowledged is
 * sent again, from what Welcome and Opened say is durable.
 *
 * One stream on its way:
 *
 *   OPEN SENT --Opened--> next chunk --sent--> next ... --all acknowledged--> through
 *        |  refused: dropped    ^   |
 *        |  elsewhere: stays, and is asked for again, or is sent over the uplink that goes to its aggregator (options.takes)
 *        |  hold: waits         |   +-- refused (Ack of this handle): back to the wanted number; twice damaged: a loss
 *        +--Release-------------+       record for that chunk
 *
 * Of an aggregator that shares its rows with others, acknowledged is not yet settled (options.must_keep): the capture's rows are in their
 * database only when it is over. Until then another aggregator that takes the capture over is sent all of it, from whatever number it says.
 *
 * Numbers that are missing in the spool (damaged, or acknowledged once to an aggregator that lost them) are told by a loss
 * record, so that no stream waits for what nobody has. To an aggregator of minor version 1 nothing of this can be said: it
 * gets the raw lane alone, in order of entries, and makes its summaries itself.
 *
 * Knows no gRPC (it is handed a function that connects) and nothing of what is inside a chunk. One thread:
 * the one that calls rs_uplink_step(); it waits nowhere else. rs_uplink_wake() may come from any.
 */
#ifndef RS_UPLINK_UPLINK_H
#define RS_UPLINK_UPLINK_H

#include "collector/spool/spool.h"
#include "common/wire/link.h"

struct rs_uplink;

struct rs_uplink_options {
    struct rs_spool *spool; /* keeps a pointer to it */
    struct rs_loop *loop;   /* keeps a pointer to it */
    enum rs_status (*connect)(void *self, const struct rs_link_user *user, void *user_self,
                              struct rs_link **link_p, struct rs_err *err);
    void *connect_self;
    const char *node;                      /* this host; copied */
    rs_dur backoff_min_ns, backoff_max_ns; /* 0: 200 ms, 10 s */

    /* The live table for Hello and Heartbeat: fills *states_p (pointers valid until the next call); how many.
     * NULL: none. */
    size_t (*ranks)(void *self, Rankscope__RankState ***states_p);
    /* Called before each chunk: rs_uplink_send() what has to be there before it. NULL: nothing ever has. */
    void (*before_chunk)(void *self);
    /* Messages of captures, lent for the call. NULL: ignored. */
    void (*on_prepare)(void *self, const Rankscope__Prepare *prepare);
    void (*on_commit)(void *self, const Rankscope__Commit *commit);
    void (*on_cancel)(void *self, const Rankscope__Cancel *cancel);
    void (*on_flight_ask)(void *self, const Rankscope__FlightAsk *ask);

    /* Several aggregators; each may be NULL: there is one. Fills Hello further; lent until it is packed. */
    void (*on_hello)(void *self, Rankscope__Hello *hello);
    /* Whether connect() went to the right one; else the link is closed and connect() is called again. */
    bool (*on_welcome)(void *self, const Rankscope__Welcome *welcome);
    void (*on_goodbye)(void *self, const Rankscope__Goodbye *goodbye);
    /* The link is gone, or there is none: whether connect() is called again at once instead of after a pause. */
    bool (*on_away)(void *self);
    /* A number of the aggregator that is named so, for rs_uplink_owner_of(); 0: it is none of ours. */
    unsigned (*owner)(void *self, const char *id, const char *address);
    /* Whether the entry is sent over this uplink. */
    bool (*takes)(void *self, const struct rs_spool_entry *entry);
    /* What an aggregator acknowledges is kept until it says that it is settled, if it does say so: there are others to send it to. */
    bool must_keep;
    bool
        is_delivery; /* takes what another uplink of this collector leaves: Hello says so, and what it counts is not told */
    void *self;
};

struct rs_uplink_stats {
    bool is_up; /* SENDING */
    uint64_t connects, sent_chunks, sent_bytes, resent_chunks;
    uint64_t refused_chunks, loss_records; /* told to be missing */
    uint64_t heartbeats;                   /* of ours that were answered */
    uint64_t flight_bytes;                 /* sent and not acknowledged */
    rs_dur round_trip_ns;                  /* of the last heartbeat; 0 unknown */
    rs_dur clock_offset_ns; /* aggregator's clock - ours, at best within half the round trip */
};

RS_MUST_CHECK enum rs_status rs_uplink_new(const struct rs_uplink_options *options,
                                           struct rs_uplink **uplink_p, struct rs_err *err);
/* What Hello announces; lent until the uplink is freed. `restless`: numbers, as bits, of adapters whose ranks change without a
 * message (a step every now and then), so that heartbeats must be frequent. Before the first step. */
void rs_uplink_announce(struct rs_uplink *uplink, Rankscope__Adapter **adapters, size_t count,
                        uint32_t restless);
/* The link must be gone: rs_uplink_close() first. */
void rs_uplink_free(struct rs_uplink **uplink_p);

/* Runs the loop once and does what is due, at most until `until` (monotonic). */
void rs_uplink_step(struct rs_uplink *uplink, rs_ns until);
/* Makes a step return soon (the spool's on_put). Any thread. `self` is the uplink. */
void rs_uplink_wake(void *self);

/* Messages, sent with the next step; dropped while the link is down (the aggregator asks again, or gives the
 * rank up). */
void rs_uplink_send(struct rs_uplink *uplink, const Rankscope__Up *up);
/* Sends a heartbeat with the next step. */
void rs_uplink_beat(struct rs_uplink *uplink);

/* Says goodbye and closes; steps go on until rs_uplink_is_closed(). Never connects again. */
void rs_uplink_close(struct rs_uplink *uplink);
bool rs_uplink_has_messages(
    const struct rs_uplink *uplink); /* that wait for their turn on the link */
bool rs_uplink_is_closed(const struct rs_uplink *uplink);

/* The aggregator that has the capture of the entry, where that is not the one of this link; 0: it is, or is not known, or none of ours. */
unsigned rs_uplink_owner_of(const struct rs_uplink *uplink, uint32_t entry);
/* An aggregator that entries wait for: `preferred`, if any do; 0: none. */
unsigned rs_uplink_waits_for(const struct rs_uplink *uplink, unsigned preferred);

struct rs_uplink_stats rs_uplink_stats(const struct rs_uplink *uplink);
/* Puts what uplink and spool count into the table of counters of this process; every heartbeat does. */
void rs_uplink_count(const struct rs_uplink *uplink);

#endif
