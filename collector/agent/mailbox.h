/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages between the uplink's thread and an adapter's: a queue under a lock, copies in, copies out.
 */
#ifndef RS_AGENT_MAILBOX_H
#define RS_AGENT_MAILBOX_H

#include "common/base/const.h"
#include "proto/rankscope.pb-c.h"

#include <pthread.h>
#include <stdbool.h>

struct rs_mailbox_item;

struct rs_mailbox {
    pthread_mutex_t lock; /* guards the queue */
    struct rs_mailbox_item *first, **last_p;
};

void rs_mailbox_init(struct rs_mailbox *box);
void rs_mailbox_fini(struct rs_mailbox *box); /* and what is in it */
/* Any thread. Copies the message; without memory it is dropped and reported. */
void rs_mailbox_put(struct rs_mailbox *box, const ProtobufCMessage *message);
/* The oldest message, owned by the caller: protobuf_c_message_free_unpacked(). NULL: none. */
ProtobufCMessage *rs_mailbox_take(struct rs_mailbox *box);

/* Puts Up messages for one rank of a capture. Texts are lent. */
void rs_mailbox_put_armed(struct rs_mailbox *box, const char *capture,
                          const Rankscope__ArmedRank *rank);
void rs_mailbox_put_progress(struct rs_mailbox *box, const char *capture,
                             const Rankscope__RankProgress *rank);
/* Messages of many ranks of one capture follow each other and can go as one: moves the ranks of `next`, if it is such a message, behind
 * those of `up`. True: `next` is empty and still the caller's. Both are owned (rs_mailbox_take()). */
bool rs_message_join(Rankscope__Up *up, Rankscope__Up *next);

#endif
