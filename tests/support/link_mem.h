/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links in memory: the same conversation as over gRPC, on one thread, without sockets.
 *
 * Both ends live on one loop. A message that was sent is delivered by a later run of the loop, and on_writable
 * comes after it was taken, as flow control would have it: a receiver that does not go on receiving
 * stops the sender. rs_loop_run() never sleeps: it returns RS_AGAIN when nothing is left to deliver,
 * except when rs_loop_wake() may still come from another thread, for which it waits a moment.
 */
#ifndef RS_TESTS_SUPPORT_LINK_MEM_H
#define RS_TESTS_SUPPORT_LINK_MEM_H

#include "common/wire/link.h"

struct link_mem_loop;

struct rs_loop *link_mem_loop_new(void);
void link_mem_loop_free(struct rs_loop **loop_p);

/* A pair of ends. The accepting side is given to `accept` at once, as a server would. */
struct rs_link *link_mem_connect(
    struct rs_loop *loop, const struct rs_link_user *user, void *self, const char *method,
    bool (*accept)(void *accept_self, struct rs_link *link, const char *method), void *accept_self);
/* The same of somebody who has proven to be `who`, as the server sees it. */
struct rs_link *link_mem_connect_as(const struct rs_identity *who, struct rs_loop *loop,
                                    const struct rs_link_user *user, void *self, const char *method,
                                    bool (*accept)(void *accept_self, struct rs_link *link,
                                                   const char *method),
                                    void *accept_self);
/* Cuts every link as a crash of the other side would. */
void link_mem_cut_all(struct rs_loop *loop);

#endif
