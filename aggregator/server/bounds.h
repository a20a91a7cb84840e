/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every bound of the daemon's sessions in one table: what is held, how much of it, and what happens then. docs/operations.md
 * shows it to users. A test that wants to meet one sets it smaller (struct rs_server_options).
 *
 *     what                                            bound                    then
 *     sessions                                        SESSIONS                 the link is refused
 *     a link without its first message                FIRST_MESSAGE_S          closed
 *     adapters of a collector                         ADAPTERS                 closed
 *     streams of a link that are not ended            STREAMS                  that stream is refused
 *     streams that are ended                          none is kept             forgotten with their last Ack
 *     answers that a peer does not take               OUTBOX_BYTES             it is not read any more; pages wait
 *     ... for so long                                 OUTBOX_S                 closed
 *     one message of a table of ranks, of a list      REPLY_BYTES, REPLY_RANKS the next message goes on
 *     live ranks                                      262,144 (seen.c)         that rank is left out, said once a link
 *     links, streams, ranks, captures of an identity  by its party: quota.c    refused, counted, in the audit log
 *     bytes per second of an identity                 the same                 it is not read for a while
 *     bytes that wait for the disk, of an identity    SHARE_BYTES              the same, while others send, too
 */
#ifndef RS_SERVER_BOUNDS_H
#define RS_SERVER_BOUNDS_H

enum {
    BOUND_SESSIONS = 16384,
    BOUND_FIRST_MESSAGE_S = 10,
    BOUND_ADAPTERS = 64,
    BOUND_STREAMS = 65536,
    BOUND_OUTBOX_BYTES = 4 << 20,
    BOUND_OUTBOX_S = 30,
    BOUND_REPLY_BYTES = 3 << 20, /* below what both ends take */
    BOUND_REPLY_RANKS = 16384,
    BOUND_SHARE_BYTES = 1 << 20,
};

#endif
